/* tokenizer_gguf.c - reads tokenizer.ggml.*.
 *
 * GGUF keeps tokens, types, scores and merges, but of the pipeline only names: tokenizer.ggml.model
 * (the algorithm) and, for "gpt2", tokenizer.ggml.pre (the pre-tokenizer; tokenizer_pre.c knows
 * them). SentencePiece's two algorithms, "llama" and "t5", are read by tokenizer_gguf_spm.c. Other
 * algorithms are refused by name, and so is a file that does not say how its text is split:
 * a guess would cost accuracy that nobody would trace back to it.
 *
 * Types: control (3) and unknown (2) tokens become special added tokens, user-defined (4) ordinary
 * added tokens; these and unused (5) ones are never made by the model itself. */
#include "tokenizer_gguf.h"

#include "base/buf.h"
#include "base/log.h"
#include "base/status.h"
#include "tokenizer_gguf_int.h"
#include "tokenizer_pre.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* ---- reading */

enum radish_status gguf_reader_wrong(const struct gguf_reader *r, const char *key,
                                     const char *wanted) {
    return error_set_field(r->err, RADISH_E_FORMAT, key, "GGUF key %s must be %s", key, wanted);
}

/* An array of n elements (any number with n NULL); *out NULL when absent. */
enum radish_status gguf_reader_array(const struct gguf_reader *r, const char *key, bool is_str,
                                     const uint32_t *n, const struct gguf_value **out) {
    const struct gguf_value *value = gguf_find(r->gguf, key);
    *out = value;
    if (!value) return RADISH_OK;
    if (value->type != GGUF_ARRAY || (value->array.elem_type == GGUF_STR) != is_str)
        return gguf_reader_wrong(r, key, is_str ? "an array of strings" : "an array of numbers");
    if (n ? value->array.n != *n : value->array.n > (1u << 24))
        return gguf_reader_wrong(r, key,
                                 n ? "as long as tokenizer.ggml.tokens" : "of a sane length");
    return RADISH_OK;
}

enum gguf_token_type gguf_reader_type(const struct gguf_reader *r, uint32_t id) {
    return r->types ? (enum gguf_token_type)gguf_array_i64(r->types, id) : GGUF_TOKEN_NORMAL;
}

enum radish_status gguf_reader_tokens(struct gguf_reader *r) {
    const char *key = "tokenizer.ggml.tokens";
    const struct gguf_value *list;
    RADISH_TRY(gguf_reader_array(r, key, /*is_str=*/true, NULL, &list));
    if (!list || !list->array.n || list->array.n > SPEC_TOKENS_MAX)
        return gguf_reader_wrong(r, key, "a list of tokens");
    const uint32_t n = (uint32_t)list->array.n;
    RADISH_TRY(gguf_reader_array(r, "tokenizer.ggml.token_type", /*is_str=*/false, &n, &r->types));
    if (r->types && !gguf_is_int(r->types->array.elem_type))
        return gguf_reader_wrong(r, "tokenizer.ggml.token_type", "an array of integers");
    r->tokens = arena_zalloc(r->arena, n, sizeof *r->tokens);
    r->added = arena_zalloc(r->arena, n, sizeof *r->added);
    if (!r->tokens || !r->added) return error_nomem(r->err);
    for (uint32_t i = 0; i < n; i++) {
        const struct gguf_str *content = &list->array.strs[i];
        r->tokens[i].content = (struct spec_str){content->data, content->len};
        r->tokens[i].id = (int32_t)i;
    }
    r->spec->tokens = r->tokens;
    r->spec->n_tokens = n;
    r->spec->added = r->added;
    return RADISH_OK;
}

void gguf_reader_add(struct gguf_reader *r, uint32_t id, bool is_special) {
    struct spec_token *token = &r->tokens[id];
    token->is_hidden = true;
    if (!token->content.len) return;
    r->added[r->spec->n_added++] =
        (struct spec_added){.content = token->content, .id = (int32_t)id, .is_special = is_special};
}

/* "left right": parts of the byte-level alphabet hold no space, others may start with one. */
static enum radish_status read_merges(struct gguf_reader *r) {
    const char *key = "tokenizer.ggml.merges";
    const struct gguf_value *list;
    RADISH_TRY(gguf_reader_array(r, key, /*is_str=*/true, NULL, &list));
    if (!list) return gguf_reader_wrong(r, key, "a list of merges");
    struct spec_merge *merges = arena_zalloc(r->arena, (size_t)list->array.n, sizeof *merges);
    if (!merges) return error_nomem(r->err);
    for (uint64_t i = 0; i < list->array.n; i++) {
        const struct gguf_str *both = &list->array.strs[i];
        const char *space = both->len > 1 ? memchr(both->data + 1, ' ', both->len - 1) : NULL;
        if (!space) return gguf_reader_wrong(r, key, "a list of \"left right\"");
        size_t left_len = (size_t)(space - both->data);
        merges[i].left = (struct spec_str){both->data, left_len};
        merges[i].right = (struct spec_str){space + 1, both->len - left_len - 1};
    }
    r->spec->merges = merges;
    r->spec->n_merges = (uint32_t)list->array.n;
    return RADISH_OK;
}

/* One id before or behind the text, where the file (or the kind of tokenizer) wants it. */
static enum radish_status read_template_id(struct gguf_reader *r, const char *flag_key,
                                           bool is_wanted, const char *id_key,
                                           const int32_t **ids_out, uint32_t *n_out) {
    uint32_t id = UINT32_MAX;
    RADISH_TRY(gguf_get_bool(r->gguf, flag_key, &is_wanted, r->err));
    RADISH_TRY(gguf_get_u32(r->gguf, id_key, &id, r->err));
    if (!is_wanted) return RADISH_OK;
    if (id == UINT32_MAX) {
        log_warn("model", "GGUF: %s is set or usual, but %s is absent: nothing is added", flag_key,
                 id_key);
        return RADISH_OK;
    }
    if (id >= r->spec->n_tokens) return gguf_reader_wrong(r, id_key, "the id of a token");
    int32_t *copy = arena_alloc(r->arena, sizeof *copy);
    if (!copy) return error_nomem(r->err);
    *copy = (int32_t)id;
    *ids_out = copy;
    *n_out = 1;
    return RADISH_OK;
}

enum radish_status gguf_reader_template(struct gguf_reader *r, bool adds_bos, bool adds_eos) {
    RADISH_TRY(read_template_id(r, "tokenizer.ggml.add_bos_token", adds_bos,
                                "tokenizer.ggml.bos_token_id", &r->spec->prefix_ids,
                                &r->spec->n_prefix_ids));
    return read_template_id(r, "tokenizer.ggml.add_eos_token", adds_eos,
                            "tokenizer.ggml.eos_token_id", &r->spec->suffix_ids,
                            &r->spec->n_suffix_ids);
}

/* ---- "gpt2": byte-level BPE */

static enum radish_status find_pre(const struct gguf_reader *r,
                                   const struct tokenizer_pre **row_out) {
    const char *key = "tokenizer.ggml.pre";
    struct gguf_str name = {"default", 7};
    struct buf known = {0};
    int n_rows = 0;
    *row_out = NULL;
    RADISH_TRY(gguf_get_str(r->gguf, key, &name, r->err));
    *row_out = tokenizer_pre_find(name.data, (size_t)name.len);
    if (*row_out) return RADISH_OK;
    if (name.len == 7 && memcmp(name.data, "default", 7) == 0)
        return error_set_field(
            r->err, RADISH_E_UNSUPPORTED, key,
            "this GGUF file does not say how its text is split (%s is absent or \"default\"), and "
            "a guess would cost accuracy: take a newer conversion, or the original model folder",
            key);
    for (const struct tokenizer_pre *row; (row = tokenizer_pre_row((size_t)n_rows)); n_rows++)
        buf_printf(&known, "%s%s", n_rows ? ", " : "", row->name);
    log_info("model", "pre-tokenizers known: %s", known.data ? known.data : "");
    buf_deinit(&known);
    return error_set_field(r->err, RADISH_E_UNSUPPORTED, key,
                           "pre-tokenizer \"%.*s\" of this GGUF file is not known (known: gpt-2, "
                           "smollm, llama-bpe, qwen2, tekken, gpt-4o, deepseek-v3 and %d more): "
                           "take the original model folder",
                           name.len > 40 ? 40 : (int)name.len, name.data, n_rows - 7);
}

static void mark_tokens(struct gguf_reader *r) {
    for (uint32_t i = 0; i < r->spec->n_tokens; i++) {
        switch (gguf_reader_type(r, i)) {
        case GGUF_TOKEN_UNKNOWN:
        case GGUF_TOKEN_CONTROL: gguf_reader_add(r, i, /*is_special=*/true); break;
        case GGUF_TOKEN_USER_DEFINED: gguf_reader_add(r, i, /*is_special=*/false); break;
        case GGUF_TOKEN_UNUSED: r->tokens[i].is_hidden = true; break;
        default: break;
        }
    }
}

static enum radish_status read_gpt2(struct gguf_reader *r) {
    const struct tokenizer_pre *row;
    struct tokenizer_spec *spec = r->spec;
    bool adds_space = false;
    RADISH_TRY(find_pre(r, &row));
    RADISH_TRY(gguf_reader_tokens(r));
    mark_tokens(r);
    RADISH_TRY(read_merges(r));
    RADISH_TRY(gguf_get_bool(r->gguf, "tokenizer.ggml.add_space_prefix", &adds_space, r->err));
    memcpy(r->pretokenizers, row->steps, row->n_steps * sizeof *row->steps);
    for (uint32_t i = 0; i < row->n_steps; i++)
        if (r->pretokenizers[i].kind == SPEC_PRETOKENIZER_BYTE_LEVEL)
            r->pretokenizers[i].adds_prefix_space = adds_space;
    spec->n_pretokenizers = row->n_steps;
    spec->ignores_merges = row->ignores_merges;
    r->normalizers[0].kind = SPEC_NORMALIZER_NFC;
    spec->n_normalizers = row->has_nfc ? 1 : 0;
    r->decoders[0].kind = SPEC_DECODER_BYTE_LEVEL;
    spec->n_decoders = 1;
    return gguf_reader_template(r, row->adds_bos, /*adds_eos=*/false);
}

/* ---- the whole */

struct kind_row {
    const char *name;
    enum radish_status (*read)(struct gguf_reader *r); /* NULL: refused */
    const char *what;
};

static const struct kind_row KIND_ROWS[] = {
    {"gpt2", read_gpt2, NULL},
    {"llama", gguf_read_spm_bpe, NULL},
    {"t5", gguf_read_unigram, NULL},
    {"bert", NULL, "WordPiece, used by encoders; take the original model folder"},
    {"rwkv", NULL, "RWKV's greedy trie; models of that family are not served"},
    {"plamo2", NULL, "PLaMo-2's table; take the original model folder if it has a tokenizer.json"},
    {"gemma4", NULL, "merges over whole lines; take the original model folder"},
    {"none", NULL, "no vocabulary at all; take a conversion with one"},
    {"no_vocab", NULL, "no vocabulary at all; take a conversion with one"},
};

static enum radish_status read_kind(struct gguf_reader *r) {
    const char *key = "tokenizer.ggml.model";
    struct gguf_str name = {NULL, 0};
    RADISH_TRY(gguf_get_str(r->gguf, key, &name, r->err));
    if (!name.data)
        return error_set_field(r->err, RADISH_E_NOT_FOUND, key,
                               "this GGUF file has no tokenizer (%s is absent)", key);
    for (size_t i = 0; i < sizeof KIND_ROWS / sizeof *KIND_ROWS; i++) {
        const struct kind_row *row = &KIND_ROWS[i];
        if (strlen(row->name) != name.len || memcmp(row->name, name.data, name.len) != 0) continue;
        if (row->read) return row->read(r);
        return error_set_field(r->err, RADISH_E_UNSUPPORTED, key,
                               "tokenizer model \"%s\" of GGUF is not supported: %s", row->name,
                               row->what);
    }
    return error_set_field(r->err, RADISH_E_UNSUPPORTED, key,
                           "tokenizer model \"%.*s\" of this GGUF file is not supported "
                           "(supported: gpt2, llama, t5): take the original model folder",
                           name.len > 40 ? 40 : (int)name.len, name.data);
}

static enum radish_status read_all(struct gguf_reader *r) {
    r->normalizers = arena_zalloc(r->arena, SPEC_STEPS_MAX, sizeof *r->normalizers);
    r->pretokenizers = arena_zalloc(r->arena, SPEC_STEPS_MAX, sizeof *r->pretokenizers);
    r->decoders = arena_zalloc(r->arena, SPEC_STEPS_MAX, sizeof *r->decoders);
    if (!r->normalizers || !r->pretokenizers || !r->decoders) return error_nomem(r->err);
    r->spec->normalizers = r->normalizers;
    r->spec->pretokenizers = r->pretokenizers;
    r->spec->decoders = r->decoders;
    r->spec->model = SPEC_MODEL_BPE;
    return read_kind(r);
}

enum radish_status tokenizer_gguf_spec(const struct gguf *gguf, struct arena *arena,
                                       struct tokenizer_spec *spec_out, struct radish_error *err) {
    struct gguf_reader r = {.gguf = gguf, .arena = arena, .err = err, .spec = spec_out};
    *spec_out = (struct tokenizer_spec){0};
    enum radish_status status = read_all(&r);
    if (status != RADISH_OK) *spec_out = (struct tokenizer_spec){0};
    return status;
}
