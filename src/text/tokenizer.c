/* tokenizer.c - puts the stages together.
 *
 *   text --cut added tokens--> parts --normalize--> --cut normalized added tokens--> parts
 *        --pre-tokenize--> pieces --model--> ids      prefix ids + ids + suffix ids
 *
 * Each arrow is a file of its own and follows the tokenizers library, which made the vocabularies:
 * what it does is right by definition, its oddities included (a token that is neither in the
 * vocabulary nor unknown is dropped). Everything is checked and compiled at creation, so that
 * encoding can only run out of memory or meet a pattern that gives up.
 *
 * UTF-8 is checked here, once, before any stage sees it. A call to encode owns its scratch: nothing
 * is shared between threads but the immutable tokenizer. Cost: about 10 MB/s of prose; the model's
 * look-ups in tables of several megabytes are most of it.
 *
 * tokenizer_encode_counted() has eight parameters: it is tokenizer_encode() and a count. */
#include "tokenizer_int.h"

#include "base/mem.h"
#include "base/status.h"
#include "base/utf8.h"
#include "id_list.h"
#include "piece_cache.h"

#include <stdlib.h>
#include <string.h>

/* ---- create */

static enum radish_status check_content(const struct spec_str *content, int64_t id,
                                        struct radish_error *err) {
    if (id < 0 || id >= SPEC_TOKENS_MAX)
        return error_set(err, RADISH_E_FORMAT, "token id %lld; ids are 0 to %d", (long long)id,
                         SPEC_TOKENS_MAX - 1);
    if (content->data && utf8_valid_prefix(content->data, content->len) == content->len)
        return RADISH_OK;
    return error_set(err, RADISH_E_FORMAT, "token %lld: its content is not valid UTF-8",
                     (long long)id);
}

static enum radish_status check_spec(const struct tokenizer_spec *spec, uint32_t *n_ids_out,
                                     struct radish_error *err) {
    int32_t highest = -1;
    for (uint32_t i = 0; i < spec->n_tokens; i++) {
        RADISH_TRY(check_content(&spec->tokens[i].content, spec->tokens[i].id, err));
        if (spec->tokens[i].id > highest) highest = spec->tokens[i].id;
    }
    for (uint32_t i = 0; i < spec->n_added; i++) {
        RADISH_TRY(check_content(&spec->added[i].content, spec->added[i].id, err));
        if (spec->added[i].id > highest) highest = spec->added[i].id;
    }
    *n_ids_out = (uint32_t)(highest + 1);
    if (!spec->n_tokens) return error_set(err, RADISH_E_FORMAT, "the vocabulary is empty");
    return RADISH_OK;
}

static enum radish_status fill_contents(struct tokenizer *t, const struct tokenizer_spec *spec,
                                        uint32_t n_ids, struct radish_error *err) {
    bool ok = vocab_init(&t->contents, n_ids, spec->n_tokens + spec->n_added);
    if (ok) ok = (t->is_special = mem_zalloc(n_ids, sizeof *t->is_special)) != NULL;
    for (uint32_t i = 0; ok && i < spec->n_tokens; i++) {
        const struct spec_token *token = &spec->tokens[i];
        ok = vocab_put(&t->contents, token->id, token->content.data, token->content.len, true);
    }
    for (uint32_t i = 0; ok && i < spec->n_added; i++) {
        const struct spec_added *added = &spec->added[i];
        ok = vocab_put(&t->contents, added->id, added->content.data, added->content.len, true);
        if (added->is_special) t->is_special[added->id] = true;
    }
    return ok ? RADISH_OK : error_nomem(err);
}

/* Decoding shows an added token that is found in normal form in that form, and a token is special
 * when what it shows is the content of a special token. */
static enum radish_status fill_shown(struct tokenizer *t, const struct tokenizer_spec *spec,
                                     struct buf scratch[2], struct radish_error *err) {
    struct spec_str normal;
    for (uint32_t i = 0; i < spec->n_added; i++) {
        const struct spec_added *added = &spec->added[i];
        const struct spec_str *content = &added->content;
        if (!added->is_normalized) continue;
        RADISH_TRY(normalizer_run(t->normalizer, content->data, content->len, scratch, &normal,
                                  NULL, err));
        if (normal.len == content->len && memcmp(normal.data, content->data, normal.len) == 0)
            continue;
        if (!t->shown.n_ids && !vocab_init(&t->shown, t->contents.n_ids, /*n_strings=*/0))
            return error_nomem(err);
        if (!vocab_put(&t->shown, added->id, normal.data, normal.len, /*is_found=*/false))
            return error_nomem(err);
    }
    bool *is_special = mem_zalloc(t->contents.n_ids, sizeof *is_special);
    if (!is_special) return error_nomem(err);
    for (uint32_t id = 0; id < t->contents.n_ids; id++) {
        size_t len;
        const char *shown = vocab_get(&t->shown, (int32_t)id, &len);
        int32_t same = shown ? vocab_find(&t->contents, shown, len) : (int32_t)id;
        is_special[id] = same >= 0 && t->is_special[same];
    }
    free(t->is_special);
    t->is_special = is_special;
    return RADISH_OK;
}

/* What decoding takes for the token; NULL for an unknown id. */
static struct spec_str shown_content(const struct tokenizer *t, int32_t id) {
    struct spec_str shown;
    shown.data = vocab_get(&t->shown, id, &shown.len);
    if (!shown.data) shown.data = vocab_get(&t->contents, id, &shown.len);
    return shown;
}

static enum radish_status fill_bytes(struct tokenizer *t, struct radish_error *err) {
    struct buf bytes = {0};
    bool ok = vocab_init(&t->bytes, t->contents.n_ids, /*n_strings=*/0);
    for (uint32_t id = 0; ok && id < t->contents.n_ids; id++) {
        const struct spec_str content = shown_content(t, (int32_t)id);
        if (!content.data) continue;
        buf_clear(&bytes);
        decoder_append_bytes(t->decoder, content.data, content.len, &bytes);
        if (bytes.len > t->token_bytes_max) t->token_bytes_max = bytes.len;
        ok = !bytes.failed &&
             vocab_put(&t->bytes, (int32_t)id, bytes.data ? bytes.data : "", bytes.len, false);
    }
    buf_deinit(&bytes);
    return ok ? RADISH_OK : error_nomem(err);
}

static enum radish_status copy_ids(const struct tokenizer *t, const int32_t *ids, uint32_t n,
                                   int32_t **copy_out, uint32_t *n_out, struct radish_error *err) {
    for (uint32_t i = 0; i < n; i++)
        if (!tokenizer_has_id(t, ids[i]))
            return error_set_field(err, RADISH_E_FORMAT, "post_processor",
                                   "it adds token %d, which does not exist", ids[i]);
    *copy_out = mem_zalloc(n, sizeof **copy_out);
    if (!*copy_out) return error_nomem(err);
    if (n) memcpy(*copy_out, ids, n * sizeof *ids);
    *n_out = n;
    return RADISH_OK;
}

/* Plain byte-level BPE, which is what most models have, looks bytes up as they are. Other models
 * get the characters that stand for the bytes: affixes and byte tokens mean those. */
static bool takes_bytes(const struct tokenizer_spec *spec) {
    return spec->model == SPEC_MODEL_BPE && !spec->has_byte_fallback && !spec->prefix.len &&
           !spec->suffix.len;
}

static enum radish_status fill(struct tokenizer *t, const struct tokenizer_spec *spec,
                               struct radish_error *err) {
    struct buf scratch[2] = {{0}, {0}};
    uint32_t n_ids;
    RADISH_TRY(check_spec(spec, &n_ids, err));
    RADISH_TRY(fill_contents(t, spec, n_ids, err));
    RADISH_TRY(normalizer_create(spec->normalizers, spec->n_normalizers, &t->normalizer, err));
    enum radish_status status = fill_shown(t, spec, scratch, err);
    buf_deinit(&scratch[0]);
    buf_deinit(&scratch[1]);
    RADISH_TRY(status);
    RADISH_TRY(pretokenizer_create(spec->pretokenizers, spec->n_pretokenizers, takes_bytes(spec),
                                   &t->pretokenizer, err));
    t->model_ops = token_model_of_kind(spec->model);
    RADISH_TRY(
        t->model_ops->create(spec, pretokenizer_is_byte_level(t->pretokenizer), &t->model, err));
    RADISH_TRY(decoder_create(spec->decoders, spec->n_decoders, &t->decoder, err));
    RADISH_TRY(fill_bytes(t, err));
    RADISH_TRY(added_tokens_create(spec->added, spec->n_added, /*normalized=*/false, t->normalizer,
                                   &t->added_raw, err));
    RADISH_TRY(added_tokens_create(spec->added, spec->n_added, /*normalized=*/true, t->normalizer,
                                   &t->added_normalized, err));
    RADISH_TRY(
        copy_ids(t, spec->prefix_ids, spec->n_prefix_ids, &t->prefix_ids, &t->n_prefix_ids, err));
    return copy_ids(t, spec->suffix_ids, spec->n_suffix_ids, &t->suffix_ids, &t->n_suffix_ids, err);
}

enum radish_status tokenizer_create(const struct tokenizer_spec *spec,
                                    struct tokenizer **tokenizer_out, struct radish_error *err) {
    *tokenizer_out = NULL;
    struct tokenizer *t = calloc(1, sizeof *t);
    if (!t) return error_nomem(err);
    enum radish_status status = fill(t, spec, err);
    if (status != RADISH_OK) {
        error_prefix(err, "tokenizer");
        tokenizer_destroy(t);
        return status;
    }
    *tokenizer_out = t;
    return RADISH_OK;
}

void tokenizer_destroy(struct tokenizer *t) {
    if (!t) return;
    added_tokens_destroy(t->added_raw);
    added_tokens_destroy(t->added_normalized);
    normalizer_destroy(t->normalizer);
    pretokenizer_destroy(t->pretokenizer);
    if (t->model) t->model_ops->destroy(t->model);
    decoder_destroy(t->decoder);
    free(t->prefix_ids);
    free(t->suffix_ids);
    vocab_deinit(&t->contents);
    vocab_deinit(&t->shown);
    vocab_deinit(&t->bytes);
    free(t->is_special);
    free(t);
}

/* ---- encode */

struct encoding {
    const struct tokenizer *tokenizer;
    struct id_list ids;
    struct buf normal[2];
    struct pretokenizer_scratch pieces;
    struct piece_cache cache;
    struct token_scratch model;
    uint64_t n_operations; /* of the search for added tokens, and bytes of normal forms */
};

static enum radish_status encode_piece(void *user, const char *piece, size_t len,
                                       struct radish_error *err) {
    struct encoding *e = user;
    const struct tokenizer *t = e->tokenizer;
    return t->model_ops->encode(t->model, piece, len, &e->model, &e->ids) ? RADISH_OK
                                                                          : error_nomem(err);
}

static enum radish_status encode_plain(struct encoding *e, const char *text, size_t len,
                                       size_t first_len, struct radish_error *err) {
    return pretokenizer_run(e->tokenizer->pretokenizer, text, len, first_len, &e->pieces,
                            encode_piece, e, err);
}

/* A part of the text without raw added tokens. first_len: see pretokenizer_run(). */
static enum radish_status encode_part(struct encoding *e, const char *text, size_t len,
                                      size_t first_len, struct radish_error *err) {
    const struct tokenizer *t = e->tokenizer;
    struct spec_str normal;
    struct added_cursor cursor;
    struct added_cut cut;
    RADISH_TRY(normalizer_run(t->normalizer, text, len, e->normal, &normal,
                              first_len ? &first_len : NULL, err));
    added_cursor_start(&cursor, t->added_normalized, normal.data, normal.len);
    while (added_cursor_next(&cursor, &cut)) {
        if (cut.id >= 0)
            id_list_push(&e->ids, cut.id);
        else
            RADISH_TRY(encode_plain(e, normal.data + cut.start, cut.end - cut.start,
                                    cut.start < first_len ? first_len - cut.start : 0, err));
    }
    e->n_operations += cursor.n_operations + len + normal.len;
    return RADISH_OK;
}

static enum radish_status encode_text(struct encoding *e, const char *text, size_t len,
                                      struct radish_error *err) {
    bool asks_first = pretokenizer_asks_first(e->tokenizer->pretokenizer);
    struct added_cursor cursor;
    struct added_cut cut;
    added_cursor_start(&cursor, e->tokenizer->added_raw, text, len);
    while (added_cursor_next(&cursor, &cut)) {
        size_t part_len = cut.end - cut.start, first_len = 0;
        uint32_t c;
        if (asks_first && cut.start == 0) first_len = utf8_decode(text, part_len, &c);
        if (cut.id >= 0)
            id_list_push(&e->ids, cut.id);
        else
            RADISH_TRY(encode_part(e, text + cut.start, part_len, first_len, err));
    }
    e->n_operations += cursor.n_operations;
    return RADISH_OK;
}

static void push_ids(struct id_list *list, const int32_t *ids, uint32_t n) {
    for (uint32_t i = 0; i < n; i++) id_list_push(list, ids[i]);
}

enum radish_status tokenizer_encode(const struct tokenizer *t, const char *text, size_t len,
                                    bool add_special, int32_t **ids_out, size_t *n_out,
                                    struct radish_error *err) {
    uint64_t n_operations;
    return tokenizer_encode_counted(t, text, len, add_special, ids_out, n_out, &n_operations, err);
}

enum radish_status tokenizer_encode_counted(const struct tokenizer *t, const char *text, size_t len,
                                            bool add_special, int32_t **ids_out, size_t *n_out,
                                            uint64_t *n_operations_out, struct radish_error *err) {
    *ids_out = NULL;
    *n_out = 0;
    *n_operations_out = 0;
    size_t valid = utf8_valid_prefix(text, len);
    if (valid != len)
        return error_set_at(err, RADISH_E_INVALID, valid, "the text is not valid UTF-8 at byte %zu",
                            valid);
    struct encoding e = {.tokenizer = t};
    piece_cache_init(&e.cache, len);
    e.model.cache = &e.cache;
    id_list_grow(&e.ids);
    if (add_special) push_ids(&e.ids, t->prefix_ids, t->n_prefix_ids);
    enum radish_status status = encode_text(&e, text, len, err);
    if (add_special) push_ids(&e.ids, t->suffix_ids, t->n_suffix_ids);
    buf_deinit(&e.normal[0]);
    buf_deinit(&e.normal[1]);
    pretokenizer_scratch_deinit(&e.pieces);
    *n_operations_out = e.model.n_operations + e.n_operations;
    piece_cache_deinit(&e.cache);
    free(e.model.memory);
    if (status == RADISH_OK && e.ids.failed) status = error_nomem(err);
    if (status != RADISH_OK) {
        free(e.ids.ids);
        return status;
    }
    *ids_out = e.ids.ids;
    *n_out = e.ids.n;
    return RADISH_OK;
}

/* ---- decode, questions */

void tokenizer_push_token(const struct tokenizer *t, struct decoder_state *state, int32_t id,
                          struct buf *out) {
    struct spec_str content = shown_content(t, id), bytes;
    bytes.data = vocab_get(&t->bytes, id, &bytes.len);
    decoder_push(t->decoder, state, &content, &bytes, out);
}

enum radish_status tokenizer_decode(const struct tokenizer *t, const int32_t *ids, size_t n,
                                    bool skip_special, struct buf *out, struct radish_error *err) {
    struct decoder_state state = {0};
    size_t len_before = out->len;
    for (size_t i = 0; i < n; i++)
        if (!tokenizer_has_id(t, ids[i]))
            return error_set(err, RADISH_E_INVALID, "token id %d does not exist", ids[i]);
    decoder_start(&state);
    for (size_t i = 0; i < n; i++)
        if (!skip_special || !t->is_special[ids[i]]) tokenizer_push_token(t, &state, ids[i], out);
    decoder_finish(t->decoder, &state, out);
    decoder_state_deinit(&state);
    if (!out->failed) return RADISH_OK;
    out->len = len_before;
    return error_nomem(err);
}

uint32_t tokenizer_n_tokens(const struct tokenizer *t) {
    return t->contents.n_ids;
}

bool tokenizer_has_id(const struct tokenizer *t, int32_t id) {
    size_t len;
    return vocab_get(&t->contents, id, &len) != NULL;
}

bool tokenizer_is_special(const struct tokenizer *t, int32_t id) {
    return tokenizer_has_id(t, id) && t->is_special[id];
}

const char *tokenizer_token_bytes(const struct tokenizer *t, int32_t id, size_t *len_out) {
    return vocab_get(&t->bytes, id, len_out);
}

size_t tokenizer_token_bytes_max(const struct tokenizer *t) {
    return t->token_bytes_max;
}

int32_t tokenizer_find(const struct tokenizer *t, const char *content, size_t len) {
    return vocab_find(&t->contents, content, len);
}

const char *tokenizer_content(const struct tokenizer *t, int32_t id, size_t *len_out) {
    return vocab_get(&t->contents, id, len_out);
}
