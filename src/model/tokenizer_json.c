/* tokenizer_json.c - reads tokenizer.json, the file that describes its tokenizer completely.
 *
 * Every part is an object with a "type"; "Sequence" nests. Parts are read into the flat lists of
 * the spec by one reader per stage: the type's name is looked up in the stage's table
 * (tokenizer_spec.h), then the fields that this kind has. A name that is not in the table is
 * refused, with those that are. Defaults of absent fields are those of the tokenizers library.
 *
 * Strings stay where the JSON document has them; lists come from the arena. The vocabulary is the
 * bulk (a quarter of a million members, half a million merges): it is walked once, never searched.
 * Where the id of an added token disagrees with the vocabulary's, the vocabulary wins, as it does
 * in the library. */
#include "tokenizer_json.h"

#include "base/json.h"
#include "base/log.h"
#include "base/status.h"
#include "text/vocab.h"

#include <stdio.h>
#include <string.h>

enum { TEMPLATE_IDS_MAX = 64 };

struct reader {
    struct arena *arena;
    struct radish_error *err;
    struct tokenizer_spec *spec;
    struct spec_normalizer *normalizers; /* [SPEC_STEPS_MAX] each */
    struct spec_pretokenizer *pretokenizers;
    struct spec_decoder *decoders;
    int32_t *prefix_ids, *suffix_ids; /* [TEMPLATE_IDS_MAX] */
    struct vocab known;               /* the model's vocabulary */
};

typedef enum radish_status (*read_fn)(struct reader *r, yyjson_val *part);

static struct spec_str str_of(yyjson_val *val) {
    return (struct spec_str){yyjson_get_str(val), yyjson_get_len(val)};
}

static enum radish_status wrong(struct reader *r, const char *field, const char *wanted,
                                yyjson_val *val) {
    return error_set_field(r->err, RADISH_E_FORMAT, field, "tokenizer.json: %s must be %s, not %s",
                           field, wanted, json_type_name(val));
}

/* A member that must be a string. */
static enum radish_status read_str(struct reader *r, yyjson_val *part, const char *key,
                                   struct spec_str *out) {
    yyjson_val *val = json_get(part, key);
    if (!yyjson_is_str(val)) return wrong(r, key, "a string", val);
    *out = str_of(val);
    return RADISH_OK;
}

/* {"String": "x"} or {"Regex": "x"} */
static enum radish_status read_pattern(struct reader *r, yyjson_val *part,
                                       struct spec_pattern *out) {
    yyjson_val *pattern = json_get(part, "pattern"), *text = json_get(pattern, "Regex");
    out->is_regex = text != NULL;
    if (!text) text = json_get(pattern, "String");
    if (!yyjson_is_str(text))
        return wrong(r, "pattern", "{\"String\": ...} or {\"Regex\": ...}", pattern);
    out->text = str_of(text);
    return RADISH_OK;
}

/* Index of a name in names[0..n), or E_UNSUPPORTED with the names that would do. */
static enum radish_status find_name(struct reader *r, const char *stage, yyjson_val *val,
                                    const char *const *names, int n, int *idx_out) {
    char supported[200] = "";
    *idx_out = 0;
    if (!yyjson_is_str(val)) return wrong(r, stage, "described by a string", val);
    for (int i = 0; i < n; i++) {
        if (yyjson_equals_str(val, names[i])) {
            *idx_out = i;
            return RADISH_OK;
        }
        size_t len = strlen(supported);
        snprintf(supported + len, sizeof supported - len, "%s%s", i ? ", " : "", names[i]);
    }
    return error_set_field(r->err, RADISH_E_UNSUPPORTED, stage,
                           "tokenizer.json: %s \"%.40s\" is not supported (supported: %s)", stage,
                           yyjson_get_str(val), supported);
}

#define SPEC_NAME(suffix, name) name,
#define FIND_NAME(r, stage, val, TABLE, idx_out)                                                   \
    find_name(r, stage, val, (const char *const[]){TABLE(SPEC_NAME)},                              \
              (int)(sizeof((const char *const[]){TABLE(SPEC_NAME)}) / sizeof(const char *)),       \
              idx_out)

/* Runs `read` on a part, or on each of its parts when it is a Sequence. null: nothing. */
static enum radish_status read_parts(struct reader *r, const char *stage, yyjson_val *part,
                                     const char *parts_key, read_fn read, unsigned depth) {
    yyjson_val *parts, *inner;
    yyjson_arr_iter iter;
    if (!part || yyjson_is_null(part)) return RADISH_OK;
    if (!yyjson_is_obj(part)) return wrong(r, stage, "an object", part);
    if (!yyjson_equals_str(json_get(part, "type"), "Sequence")) return read(r, part);
    parts = json_get(part, parts_key);
    if (!yyjson_is_arr(parts)) return wrong(r, parts_key, "a list", parts);
    if (depth == SPEC_STEPS_MAX)
        return error_set_field(r->err, RADISH_E_LIMIT, stage, "tokenizer.json: %s nests too deeply",
                               stage);
    yyjson_arr_iter_init(parts, &iter);
    while ((inner = yyjson_arr_iter_next(&iter)))
        RADISH_TRY(read_parts(r, stage, inner, parts_key, read, depth + 1));
    return RADISH_OK;
}

static enum radish_status check_steps(struct reader *r, const char *stage, uint32_t n) {
    if (n < SPEC_STEPS_MAX) return RADISH_OK;
    return error_set_field(r->err, RADISH_E_LIMIT, stage,
                           "tokenizer.json: %s has more than %d steps", stage, SPEC_STEPS_MAX);
}

/* ---- normalizer */

static enum radish_status read_normalizer(struct reader *r, yyjson_val *part) {
    int kind;
    RADISH_TRY(check_steps(r, "normalizer", r->spec->n_normalizers));
    struct spec_normalizer *step = &r->normalizers[r->spec->n_normalizers++];
    RADISH_TRY(FIND_NAME(r, "normalizer", json_get(part, "type"), SPEC_NORMALIZER_TABLE, &kind));
    *step = (struct spec_normalizer){.kind = (enum spec_normalizer_kind)kind};
    switch (step->kind) {
    case SPEC_NORMALIZER_PREPEND: return read_str(r, part, "prepend", &step->content);
    case SPEC_NORMALIZER_REPLACE:
        RADISH_TRY(read_pattern(r, part, &step->pattern));
        return read_str(r, part, "content", &step->content);
    case SPEC_NORMALIZER_STRIP:
        RADISH_TRY(json_get_bool(part, "strip_left", &step->strips_left, r->err));
        return json_get_bool(part, "strip_right", &step->strips_right, r->err);
    default: return RADISH_OK;
    }
}

/* ---- pre-tokenizer */

/* Newer files say prepend_scheme, older ones add_prefix_space. */
static enum radish_status read_prepend(struct reader *r, yyjson_val *part, enum spec_prepend *out) {
    static const char *const names[] = {"always", "first", "never"};
    yyjson_val *scheme = json_get(part, "prepend_scheme");
    bool adds_prefix_space = true;
    int idx = SPEC_PREPEND_ALWAYS;
    RADISH_TRY(json_get_bool(part, "add_prefix_space", &adds_prefix_space, r->err));
    if (scheme) RADISH_TRY(find_name(r, "prepend_scheme", scheme, names, 3, &idx));
    *out = adds_prefix_space ? (enum spec_prepend)idx : SPEC_PREPEND_NEVER;
    return RADISH_OK;
}

static enum radish_status read_behavior(struct reader *r, yyjson_val *part,
                                        enum spec_behavior *out) {
    yyjson_val *val = json_get(part, "behavior");
    int behavior = SPEC_BEHAVIOR_ISOLATED;
    if (val) RADISH_TRY(FIND_NAME(r, "behavior", val, SPEC_BEHAVIOR_TABLE, &behavior));
    *out = (enum spec_behavior)behavior;
    return RADISH_OK;
}

static enum radish_status read_pretokenizer(struct reader *r, yyjson_val *part) {
    int kind;
    RADISH_TRY(check_steps(r, "pre_tokenizer", r->spec->n_pretokenizers));
    struct spec_pretokenizer *step = &r->pretokenizers[r->spec->n_pretokenizers++];
    RADISH_TRY(
        FIND_NAME(r, "pre_tokenizer", json_get(part, "type"), SPEC_PRETOKENIZER_TABLE, &kind));
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
        return read_str(r, part, "delimiter", &step->pattern.text);
    case SPEC_PRETOKENIZER_METASPACE:
        RADISH_TRY(read_str(r, part, "replacement", &step->replacement));
        RADISH_TRY(json_get_bool(part, "split", &step->splits, r->err));
        return read_prepend(r, part, &step->prepend);
    default: return RADISH_OK;
    }
}

/* ---- decoder */

static enum radish_status read_decoder(struct reader *r, yyjson_val *part) {
    int kind;
    RADISH_TRY(check_steps(r, "decoder", r->spec->n_decoders));
    struct spec_decoder *step = &r->decoders[r->spec->n_decoders++];
    RADISH_TRY(FIND_NAME(r, "decoder", json_get(part, "type"), SPEC_DECODER_TABLE, &kind));
    *step = (struct spec_decoder){.kind = (enum spec_decoder_kind)kind};
    switch (step->kind) {
    case SPEC_DECODER_REPLACE:
        RADISH_TRY(read_pattern(r, part, &step->pattern));
        return read_str(r, part, "content", &step->content);
    case SPEC_DECODER_STRIP:
        RADISH_TRY(json_get_u32(part, "start", 0, 1 << 16, &step->n_start, r->err));
        RADISH_TRY(json_get_u32(part, "stop", 0, 1 << 16, &step->n_stop, r->err));
        return read_str(r, part, "content", &step->content);
    case SPEC_DECODER_METASPACE:
        RADISH_TRY(read_str(r, part, "replacement", &step->content));
        return read_prepend(r, part, &step->prepend);
    default: return RADISH_OK;
    }
}

/* ---- post-processor: ids before and behind the text */

static enum radish_status read_id(struct reader *r, yyjson_val *val, int32_t *id_out) {
    *id_out = -1;
    if (!yyjson_is_uint(val) || yyjson_get_uint(val) >= SPEC_TOKENS_MAX)
        return wrong(r, "id", "a token id", val);
    *id_out = (int32_t)yyjson_get_uint(val);
    return RADISH_OK;
}

/* One template is enough for every published tokenizer; what the library makes of several is
 * nobody's intention. */
static enum radish_status set_template(struct reader *r, const int32_t *prefix, uint32_t n_prefix,
                                       const int32_t *suffix, uint32_t n_suffix) {
    struct tokenizer_spec *spec = r->spec;
    if (spec->n_prefix_ids || spec->n_suffix_ids)
        return error_set_field(r->err, RADISH_E_UNSUPPORTED, "post_processor",
                               "tokenizer.json: more than one post_processor that adds tokens");
    memcpy(r->prefix_ids, prefix, n_prefix * sizeof *prefix);
    memcpy(r->suffix_ids, suffix, n_suffix * sizeof *suffix);
    spec->n_prefix_ids = n_prefix;
    spec->n_suffix_ids = n_suffix;
    return RADISH_OK;
}

/* Appends the ids of {"SpecialToken": {"id": NAME}}, which special_tokens[NAME].ids lists. */
static enum radish_status read_special(struct reader *r, yyjson_val *specials, yyjson_val *item,
                                       int32_t *ids, uint32_t *n_ids) {
    yyjson_val *name = json_get(item, "id"), *list = NULL, *id;
    yyjson_arr_iter iter;
    if (yyjson_is_str(name)) list = json_get(json_get(specials, yyjson_get_str(name)), "ids");
    if (!yyjson_is_arr(list)) return wrong(r, "special_tokens", "an object of {ids: list}", list);
    yyjson_arr_iter_init(list, &iter);
    while ((id = yyjson_arr_iter_next(&iter))) {
        if (*n_ids == TEMPLATE_IDS_MAX) return wrong(r, "ids", "a short list", list);
        RADISH_TRY(read_id(r, id, &ids[(*n_ids)++]));
    }
    return RADISH_OK;
}

static enum radish_status read_template(struct reader *r, yyjson_val *part) {
    int32_t ids[2][TEMPLATE_IDS_MAX]; /* before and behind the text */
    uint32_t n_ids[2] = {0, 0};
    unsigned n_texts = 0;
    yyjson_val *single = json_get(part, "single"), *specials = json_get(part, "special_tokens");
    yyjson_val *item, *sequence, *special;
    yyjson_arr_iter iter;
    if (!yyjson_is_arr(single)) return wrong(r, "single", "a list", single);
    yyjson_arr_iter_init(single, &iter);
    while ((item = yyjson_arr_iter_next(&iter))) {
        if ((sequence = json_get(item, "Sequence"))) {
            n_texts += yyjson_equals_str(json_get(sequence, "id"), "A") ? 1 : 2;
        } else if ((special = json_get(item, "SpecialToken"))) {
            unsigned side = n_texts ? 1 : 0;
            RADISH_TRY(read_special(r, specials, special, ids[side], &n_ids[side]));
        } else {
            return wrong(r, "single", "a list of Sequence and SpecialToken", item);
        }
    }
    if (n_texts != 1) return wrong(r, "single", "a list with the sequence A once", single);
    return set_template(r, ids[0], n_ids[0], ids[1], n_ids[1]);
}

/* BERT and RoBERTa: "cls": [NAME, ID] in front, "sep": [NAME, ID] behind. */
static enum radish_status read_cls_sep(struct reader *r, yyjson_val *part) {
    int32_t cls, sep;
    RADISH_TRY(read_id(r, yyjson_arr_get(json_get(part, "cls"), 1), &cls));
    RADISH_TRY(read_id(r, yyjson_arr_get(json_get(part, "sep"), 1), &sep));
    return set_template(r, &cls, 1, &sep, 1);
}

static enum radish_status read_post_processor(struct reader *r, yyjson_val *part) {
    static const char *const names[] = {"ByteLevel", "TemplateProcessing", "RobertaProcessing",
                                        "BertProcessing"};
    int kind;
    RADISH_TRY(find_name(r, "post_processor", json_get(part, "type"), names, 4, &kind));
    if (kind == 0) return RADISH_OK; /* It moves offsets only. */
    return kind == 1 ? read_template(r, part) : read_cls_sep(r, part);
}

/* ---- model */

static enum radish_status read_vocab(struct reader *r, yyjson_val *model) {
    yyjson_val *vocab = json_get(model, "vocab"), *key;
    yyjson_obj_iter iter;
    if (!yyjson_is_obj(vocab)) return wrong(r, "vocab", "an object", vocab);
    struct spec_token *tokens = arena_zalloc(r->arena, yyjson_obj_size(vocab), sizeof *tokens);
    uint32_t n = 0, n_ids = 0;
    if (!tokens) return error_nomem(r->err);
    yyjson_obj_iter_init(vocab, &iter);
    while ((key = yyjson_obj_iter_next(&iter))) {
        struct spec_token *token = &tokens[n++];
        token->content = str_of(key);
        RADISH_TRY(read_id(r, yyjson_obj_iter_get_val(key), &token->id));
        if ((uint32_t)token->id >= n_ids) n_ids = (uint32_t)token->id + 1;
    }
    r->spec->tokens = tokens;
    r->spec->n_tokens = n;
    if (!vocab_init(&r->known, n_ids, n)) return error_nomem(r->err);
    for (uint32_t i = 0; i < n; i++)
        if (!vocab_put(&r->known, tokens[i].id, tokens[i].content.data, tokens[i].content.len,
                       true))
            return error_nomem(r->err);
    return RADISH_OK;
}

/* "left right", or ["left", "right"] */
static enum radish_status read_merge(struct reader *r, yyjson_val *val, struct spec_merge *out) {
    yyjson_val *left = yyjson_arr_get(val, 0), *right = yyjson_arr_get(val, 1);
    if (yyjson_is_str(left) && yyjson_is_str(right) && yyjson_arr_size(val) == 2) {
        *out = (struct spec_merge){str_of(left), str_of(right)};
        return RADISH_OK;
    }
    struct spec_str both = str_of(val);
    const char *space = both.data ? memchr(both.data, ' ', both.len) : NULL;
    if (!space) return wrong(r, "merges", "a list of pairs", val);
    size_t left_len = (size_t)(space - both.data);
    out->left = (struct spec_str){both.data, left_len};
    out->right = (struct spec_str){space + 1, both.len - left_len - 1};
    return RADISH_OK;
}

static enum radish_status read_merges(struct reader *r, yyjson_val *model) {
    yyjson_val *list = json_get(model, "merges"), *val;
    yyjson_arr_iter iter;
    uint32_t n = 0;
    if (!yyjson_is_arr(list)) return wrong(r, "merges", "a list", list);
    struct spec_merge *merges = arena_zalloc(r->arena, yyjson_arr_size(list), sizeof *merges);
    if (!merges) return error_nomem(r->err);
    yyjson_arr_iter_init(list, &iter);
    while ((val = yyjson_arr_iter_next(&iter))) RADISH_TRY(read_merge(r, val, &merges[n++]));
    r->spec->merges = merges;
    r->spec->n_merges = n;
    return RADISH_OK;
}

static enum radish_status read_optional_str(struct reader *r, yyjson_val *part, const char *key,
                                            struct spec_str *out) {
    yyjson_val *val = json_get(part, key);
    return !val || yyjson_is_null(val) ? RADISH_OK : read_str(r, part, key, out);
}

static enum radish_status read_model(struct reader *r, yyjson_val *model) {
    struct tokenizer_spec *spec = r->spec;
    yyjson_val *type = json_get(model, "type");
    double dropout = 0;
    int kind = SPEC_MODEL_BPE;
    if (!yyjson_is_obj(model)) return wrong(r, "model", "an object", model);
    if (type || !json_get(model, "merges")) /* Old files lack the type. */
        RADISH_TRY(FIND_NAME(r, "model", type, SPEC_MODEL_TABLE, &kind));
    spec->model = (enum spec_model_kind)kind;
    RADISH_TRY(read_vocab(r, model));
    RADISH_TRY(read_merges(r, model));
    RADISH_TRY(read_optional_str(r, model, "unk_token", &spec->unk));
    RADISH_TRY(read_optional_str(r, model, "continuing_subword_prefix", &spec->prefix));
    RADISH_TRY(read_optional_str(r, model, "end_of_word_suffix", &spec->suffix));
    RADISH_TRY(json_get_bool(model, "fuse_unk", &spec->fuses_unk, r->err));
    RADISH_TRY(json_get_bool(model, "byte_fallback", &spec->has_byte_fallback, r->err));
    RADISH_TRY(json_get_bool(model, "ignore_merges", &spec->ignores_merges, r->err));
    RADISH_TRY(json_get_double(model, "dropout", 0, 1, &dropout, r->err));
    if (dropout > 0) log_warn("model", "tokenizer.json: dropout is for training; ignored");
    return RADISH_OK;
}

/* ---- added tokens */

static enum radish_status read_added_token(struct reader *r, yyjson_val *val, int32_t id,
                                           struct spec_added *out) {
    *out = (struct spec_added){.id = id};
    RADISH_TRY(read_str(r, val, "content", &out->content));
    RADISH_TRY(json_get_bool(val, "special", &out->is_special, r->err));
    out->is_normalized = !out->is_special;
    RADISH_TRY(json_get_bool(val, "normalized", &out->is_normalized, r->err));
    RADISH_TRY(json_get_bool(val, "single_word", &out->is_single_word, r->err));
    RADISH_TRY(json_get_bool(val, "lstrip", &out->strips_left, r->err));
    RADISH_TRY(json_get_bool(val, "rstrip", &out->strips_right, r->err));
    int32_t known = vocab_find(&r->known, out->content.data, out->content.len);
    if (known >= 0 && known != id)
        log_warn("model", "tokenizer.json: added token \"%.40s\" has id %d, the vocabulary says %d",
                 out->content.data, id, known);
    if (known >= 0) out->id = known;
    return RADISH_OK;
}

/* "151643" as a key; -1: no id. */
static int32_t parse_id(const char *s) {
    int32_t id = 0;
    if (!*s) return -1;
    for (; *s; s++) {
        if (*s < '0' || *s > '9') return -1;
        id = id * 10 + (*s - '0');
        if (id >= SPEC_TOKENS_MAX) return -1;
    }
    return id;
}

/* Tokens that only tokenizer_config.json knows; transformers adds them when it loads. */
static enum radish_status read_config_tokens(struct reader *r, yyjson_val *decoder,
                                             const bool *is_added, struct spec_added *added,
                                             uint32_t *n_added) {
    yyjson_val *key;
    yyjson_obj_iter iter;
    if (!yyjson_is_obj(decoder)) return RADISH_OK;
    yyjson_obj_iter_init(decoder, &iter);
    while ((key = yyjson_obj_iter_next(&iter))) {
        int32_t id = parse_id(yyjson_get_str(key));
        if (id < 0) return wrong(r, "added_tokens_decoder", "an object by token id", key);
        if (is_added[id]) continue;
        RADISH_TRY(read_added_token(r, yyjson_obj_iter_get_val(key), id, &added[*n_added]));
        if (added[*n_added].content.len) ++*n_added;
    }
    return RADISH_OK;
}

static enum radish_status read_added_tokens(struct reader *r, yyjson_val *root,
                                            yyjson_val *config) {
    yyjson_val *list = json_get(root, "added_tokens"), *val;
    yyjson_val *decoder = json_get(config, "added_tokens_decoder");
    yyjson_arr_iter iter;
    uint32_t n = 0;
    if (list && !yyjson_is_null(list) && !yyjson_is_arr(list))
        return wrong(r, "added_tokens", "a list", list);
    struct spec_added *added =
        arena_zalloc(r->arena, yyjson_arr_size(list) + yyjson_obj_size(decoder), sizeof *added);
    bool *is_added = arena_zalloc(r->arena, SPEC_TOKENS_MAX, sizeof *is_added);
    if (!added || !is_added) return error_nomem(r->err);
    yyjson_arr_iter_init(list, &iter);
    while ((val = yyjson_arr_iter_next(&iter))) {
        int32_t id;
        RADISH_TRY(read_id(r, json_get(val, "id"), &id));
        RADISH_TRY(read_added_token(r, val, id, &added[n]));
        is_added[id] = is_added[added[n].id] = true;
        if (added[n].content.len) n++;
    }
    RADISH_TRY(read_config_tokens(r, decoder, is_added, added, &n));
    r->spec->added = added;
    r->spec->n_added = n;
    return RADISH_OK;
}

/* ---- the whole */

static void say_ignored(yyjson_val *root, const char *key) {
    yyjson_val *val = json_get(root, key);
    if (val && !yyjson_is_null(val))
        log_info("model", "tokenizer.json: %s is for training; ignored", key);
}

static enum radish_status read_all(struct reader *r, yyjson_val *root, yyjson_val *config) {
    struct tokenizer_spec *spec = r->spec;
    r->normalizers = arena_zalloc(r->arena, SPEC_STEPS_MAX, sizeof *r->normalizers);
    r->pretokenizers = arena_zalloc(r->arena, SPEC_STEPS_MAX, sizeof *r->pretokenizers);
    r->decoders = arena_zalloc(r->arena, SPEC_STEPS_MAX, sizeof *r->decoders);
    r->prefix_ids = arena_zalloc(r->arena, TEMPLATE_IDS_MAX, sizeof *r->prefix_ids);
    r->suffix_ids = arena_zalloc(r->arena, TEMPLATE_IDS_MAX, sizeof *r->suffix_ids);
    if (!r->normalizers || !r->pretokenizers || !r->decoders || !r->prefix_ids || !r->suffix_ids)
        return error_nomem(r->err);
    spec->normalizers = r->normalizers;
    spec->pretokenizers = r->pretokenizers;
    spec->decoders = r->decoders;
    spec->prefix_ids = r->prefix_ids;
    spec->suffix_ids = r->suffix_ids;
    if (!yyjson_is_obj(root)) return wrong(r, "the root", "an object", root);
    RADISH_TRY(read_model(r, json_get(root, "model")));
    RADISH_TRY(read_added_tokens(r, root, config));
    RADISH_TRY(read_parts(r, "normalizer", json_get(root, "normalizer"), "normalizers",
                          read_normalizer, 0));
    RADISH_TRY(read_parts(r, "pre_tokenizer", json_get(root, "pre_tokenizer"), "pretokenizers",
                          read_pretokenizer, 0));
    RADISH_TRY(read_parts(r, "post_processor", json_get(root, "post_processor"), "processors",
                          read_post_processor, 0));
    RADISH_TRY(read_parts(r, "decoder", json_get(root, "decoder"), "decoders", read_decoder, 0));
    say_ignored(root, "truncation");
    say_ignored(root, "padding");
    return RADISH_OK;
}

enum radish_status tokenizer_json_spec(yyjson_val *tokenizer_json, yyjson_val *tokenizer_config,
                                       struct arena *arena, struct tokenizer_spec *spec_out,
                                       struct radish_error *err) {
    struct reader r = {.arena = arena, .err = err, .spec = spec_out};
    *spec_out = (struct tokenizer_spec){0};
    enum radish_status status = read_all(&r, tokenizer_json, tokenizer_config);
    vocab_deinit(&r.known);
    if (status == RADISH_OK) return RADISH_OK;
    *spec_out = (struct tokenizer_spec){0};
    if (status == RADISH_E_INVALID) { /* json_get_*() speak of requests */
        status = RADISH_E_FORMAT;
        if (err) err->status = status;
        error_prefix(err, "tokenizer.json");
    }
    return status;
}
