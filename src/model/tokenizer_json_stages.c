/* tokenizer_json_stages.c - what tokenizer.json says of normalizer, pre-tokenizer and decoder.
 *
 * Every part is an object with a "type"; "Sequence" nests. Parts are read into the flat lists of
 * the spec by one reader per stage: the type's name is looked up in the stage's table
 * (tokenizer_spec.h), then the fields that this kind has. A name that is not in the table is
 * refused, with those that are. Defaults of absent fields are those of the tokenizers library. */
#include "spec_reader.h"

#include "base/base64.h"
#include "base/json.h"
#include "base/status.h"

#include <string.h>

/* {"String": "x"} or {"Regex": "x"} */
static enum radish_status read_pattern(struct spec_reader *r, yyjson_val *part,
                                       struct spec_pattern *out) {
    yyjson_val *pattern = json_get(part, "pattern"), *text = json_get(pattern, "Regex");
    out->is_regex = text != NULL;
    if (!text) text = json_get(pattern, "String");
    if (!yyjson_is_str(text))
        return spec_reader_wrong(r, "pattern", "{\"String\": ...} or {\"Regex\": ...}", pattern);
    out->text = spec_reader_str_of(text);
    return RADISH_OK;
}

static enum radish_status check_steps(struct spec_reader *r, const char *stage, uint32_t n) {
    if (n < SPEC_STEPS_MAX) return RADISH_OK;
    return error_set_field(r->err, RADISH_E_LIMIT, stage,
                           "tokenizer.json: %s has more than %d steps", stage, SPEC_STEPS_MAX);
}

/* ---- normalizer */

/* strip_accents null or absent: as lowercase says. */
static enum radish_status read_bert_normalizer(struct spec_reader *r, yyjson_val *part,
                                               struct spec_normalizer *step) {
    step->cleans_text = step->spaces_chinese = step->lowers = true;
    RADISH_TRY(json_get_bool(part, "clean_text", &step->cleans_text, r->err));
    RADISH_TRY(json_get_bool(part, "handle_chinese_chars", &step->spaces_chinese, r->err));
    RADISH_TRY(json_get_bool(part, "lowercase", &step->lowers, r->err));
    step->strips_accents = step->lowers;
    return json_get_bool(part, "strip_accents", &step->strips_accents, r->err);
}

static enum radish_status read_charsmap(struct spec_reader *r, yyjson_val *part,
                                        struct spec_str *out) {
    struct buf bytes = {0};
    struct spec_str text;
    RADISH_TRY(spec_reader_str(r, part, "precompiled_charsmap", &text));
    bool ok = base64_decode(text.data, text.len, &bytes);
    char *copy = ok && !bytes.failed ? arena_alloc(r->arena, bytes.len) : NULL;
    if (copy && bytes.len) memcpy(copy, bytes.data, bytes.len);
    *out = (struct spec_str){copy, bytes.len};
    buf_deinit(&bytes);
    if (!ok)
        return error_set_field(r->err, RADISH_E_FORMAT, "precompiled_charsmap",
                               "tokenizer.json: precompiled_charsmap is not base64");
    return copy ? RADISH_OK : error_nomem(r->err);
}

static enum radish_status read_normalizer(struct spec_reader *r, yyjson_val *part) {
    int kind;
    RADISH_TRY(check_steps(r, "normalizer", r->spec->n_normalizers));
    struct spec_normalizer *step = &r->normalizers[r->spec->n_normalizers++];
    RADISH_TRY(
        SPEC_READER_FIND(r, "normalizer", json_get(part, "type"), SPEC_NORMALIZER_TABLE, &kind));
    *step = (struct spec_normalizer){.kind = (enum spec_normalizer_kind)kind};
    switch (step->kind) {
    case SPEC_NORMALIZER_PREPEND: return spec_reader_str(r, part, "prepend", &step->content);
    case SPEC_NORMALIZER_REPLACE:
        RADISH_TRY(read_pattern(r, part, &step->pattern));
        return spec_reader_str(r, part, "content", &step->content);
    case SPEC_NORMALIZER_STRIP:
        RADISH_TRY(json_get_bool(part, "strip_left", &step->strips_left, r->err));
        return json_get_bool(part, "strip_right", &step->strips_right, r->err);
    case SPEC_NORMALIZER_PRECOMPILED: return read_charsmap(r, part, &step->content);
    case SPEC_NORMALIZER_BERT: return read_bert_normalizer(r, part, step);
    default: return RADISH_OK;
    }
}

/* ---- pre-tokenizer */

/* Newer files say prepend_scheme, older ones add_prefix_space. */
static enum radish_status read_prepend(struct spec_reader *r, yyjson_val *part,
                                       enum spec_prepend *out) {
    static const char *const names[] = {"always", "first", "never"};
    yyjson_val *scheme = json_get(part, "prepend_scheme");
    bool adds_prefix_space = true;
    int idx = SPEC_PREPEND_ALWAYS;
    RADISH_TRY(json_get_bool(part, "add_prefix_space", &adds_prefix_space, r->err));
    if (scheme) RADISH_TRY(spec_reader_find_name(r, "prepend_scheme", scheme, names, 3, &idx));
    *out = adds_prefix_space ? (enum spec_prepend)idx : SPEC_PREPEND_NEVER;
    return RADISH_OK;
}

static enum radish_status read_behavior(struct spec_reader *r, yyjson_val *part,
                                        enum spec_behavior *out) {
    yyjson_val *val = json_get(part, "behavior");
    int behavior = SPEC_BEHAVIOR_ISOLATED;
    if (val) RADISH_TRY(SPEC_READER_FIND(r, "behavior", val, SPEC_BEHAVIOR_TABLE, &behavior));
    *out = (enum spec_behavior)behavior;
    return RADISH_OK;
}

static enum radish_status read_pretokenizer(struct spec_reader *r, yyjson_val *part) {
    int kind;
    RADISH_TRY(check_steps(r, "pre_tokenizer", r->spec->n_pretokenizers));
    struct spec_pretokenizer *step = &r->pretokenizers[r->spec->n_pretokenizers++];
    RADISH_TRY(SPEC_READER_FIND(r, "pre_tokenizer", json_get(part, "type"), SPEC_PRETOKENIZER_TABLE,
                                &kind));
    *step = (struct spec_pretokenizer){.kind = (enum spec_pretokenizer_kind)kind,
                                       .adds_prefix_space = true,
                                       .uses_regex = true,
                                       .splits = true};
    switch (step->kind) {
    case SPEC_PRETOKENIZER_SPLIT:
        RADISH_TRY(read_pattern(r, part, &step->pattern));
        RADISH_TRY(read_behavior(r, part, &step->behavior));
        return json_get_bool(part, "invert", &step->is_inverted, r->err);
    case SPEC_PRETOKENIZER_BYTE_LEVEL:
        RADISH_TRY(json_get_bool(part, "add_prefix_space", &step->adds_prefix_space, r->err));
        return json_get_bool(part, "use_regex", &step->uses_regex, r->err);
    case SPEC_PRETOKENIZER_DIGITS:
        return json_get_bool(part, "individual_digits", &step->is_individual, r->err);
    case SPEC_PRETOKENIZER_PUNCTUATION: return read_behavior(r, part, &step->behavior);
    case SPEC_PRETOKENIZER_CHAR_DELIMITER:
        return spec_reader_str(r, part, "delimiter", &step->pattern.text);
    case SPEC_PRETOKENIZER_METASPACE:
        RADISH_TRY(spec_reader_str(r, part, "replacement", &step->replacement));
        RADISH_TRY(json_get_bool(part, "split", &step->splits, r->err));
        return read_prepend(r, part, &step->prepend);
    case SPEC_PRETOKENIZER_FIXED_LENGTH:
        step->n_chars = 5;
        return json_get_u32(part, "length", 1, UINT32_MAX, &step->n_chars, r->err);
    default: return RADISH_OK;
    }
}

/* ---- decoder */

static enum radish_status read_decoder(struct spec_reader *r, yyjson_val *part) {
    int kind;
    RADISH_TRY(check_steps(r, "decoder", r->spec->n_decoders));
    struct spec_decoder *step = &r->decoders[r->spec->n_decoders++];
    RADISH_TRY(SPEC_READER_FIND(r, "decoder", json_get(part, "type"), SPEC_DECODER_TABLE, &kind));
    *step = (struct spec_decoder){.kind = (enum spec_decoder_kind)kind};
    switch (step->kind) {
    case SPEC_DECODER_REPLACE:
        RADISH_TRY(read_pattern(r, part, &step->pattern));
        return spec_reader_str(r, part, "content", &step->content);
    case SPEC_DECODER_STRIP:
        RADISH_TRY(json_get_u32(part, "start", 0, 1 << 16, &step->n_start, r->err));
        RADISH_TRY(json_get_u32(part, "stop", 0, 1 << 16, &step->n_stop, r->err));
        return spec_reader_str(r, part, "content", &step->content);
    case SPEC_DECODER_METASPACE:
        RADISH_TRY(spec_reader_str(r, part, "replacement", &step->content));
        return read_prepend(r, part, &step->prepend);
    case SPEC_DECODER_WORDPIECE:
        RADISH_TRY(json_get_bool(part, "cleanup", &step->cleans_up, r->err));
        return spec_reader_str(r, part, "prefix", &step->content);
    case SPEC_DECODER_BPE: return spec_reader_str(r, part, "suffix", &step->content);
    case SPEC_DECODER_CTC:
        RADISH_TRY(json_get_bool(part, "cleanup", &step->cleans_up, r->err));
        RADISH_TRY(spec_reader_str(r, part, "pad_token", &step->content));
        return spec_reader_str(r, part, "word_delimiter_token", &step->delimiter);
    default: return RADISH_OK;
    }
}

/* A Sequence of nothing joins the tokens as they are; no decoder at all joins them by spaces. */
static enum radish_status read_decoders(struct spec_reader *r, yyjson_val *part) {
    RADISH_TRY(spec_reader_parts(r, "decoder", part, "decoders", read_decoder, 0));
    if (part && !yyjson_is_null(part) && !r->spec->n_decoders)
        r->decoders[r->spec->n_decoders++] = (struct spec_decoder){.kind = SPEC_DECODER_FUSE};
    return RADISH_OK;
}

enum radish_status spec_reader_stages(struct spec_reader *r, yyjson_val *root) {
    struct tokenizer_spec *spec = r->spec;
    r->normalizers = arena_zalloc(r->arena, SPEC_STEPS_MAX, sizeof *r->normalizers);
    r->pretokenizers = arena_zalloc(r->arena, SPEC_STEPS_MAX, sizeof *r->pretokenizers);
    r->decoders = arena_zalloc(r->arena, SPEC_STEPS_MAX, sizeof *r->decoders);
    if (!r->normalizers || !r->pretokenizers || !r->decoders) return error_nomem(r->err);
    spec->normalizers = r->normalizers;
    spec->pretokenizers = r->pretokenizers;
    spec->decoders = r->decoders;
    RADISH_TRY(spec_reader_parts(r, "normalizer", json_get(root, "normalizer"), "normalizers",
                                 read_normalizer, 0));
    RADISH_TRY(spec_reader_parts(r, "pre_tokenizer", json_get(root, "pre_tokenizer"),
                                 "pretokenizers", read_pretokenizer, 0));
    return read_decoders(r, json_get(root, "decoder"));
}
