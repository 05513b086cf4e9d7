/* tokenizer_json.c - reads tokenizer.json, the file that describes its tokenizer completely: here
 * the model and the added tokens; the stages are in tokenizer_json_stages.c, the post-processor in
 * tokenizer_json_post.c.
 *
 * Strings stay where the JSON document has them; lists come from the arena. The vocabulary is the
 * bulk (a quarter of a million members, half a million merges): it is walked once, never searched.
 * An added token's id in the file is only a claim: the tokenizers library gives it the vocabulary's
 * id, or the next free one in the order of the list, and that is what models were trained with. */
#include "tokenizer_json.h"

#include "base/json.h"
#include "base/log.h"
#include "base/status.h"
#include "spec_reader.h"

#include <string.h>

/* ---- model */

/* Makes r->known of the tokens, with room for the added ones. */
static enum radish_status fill_known(struct spec_reader *r, yyjson_val *root) {
    const struct tokenizer_spec *spec = r->spec;
    uint32_t n_added = (uint32_t)yyjson_arr_size(json_get(root, "added_tokens"));
    uint32_t n_ids = spec->n_tokens + n_added;
    for (uint32_t i = 0; i < spec->n_tokens; i++)
        if ((uint32_t)spec->tokens[i].id >= n_ids) n_ids = (uint32_t)spec->tokens[i].id + 1;
    if (!vocab_init(&r->known, n_ids, spec->n_tokens + n_added)) return error_nomem(r->err);
    for (uint32_t i = 0; i < spec->n_tokens; i++) {
        const struct spec_token *token = &spec->tokens[i];
        r->n_known += vocab_find(&r->known, token->content.data, token->content.len) < 0;
        if (!vocab_put(&r->known, token->id, token->content.data, token->content.len, true))
            return error_nomem(r->err);
    }
    return RADISH_OK;
}

static enum radish_status read_vocab(struct spec_reader *r, yyjson_val *model) {
    yyjson_val *vocab = json_get(model, "vocab"), *key;
    yyjson_obj_iter iter;
    if (!yyjson_is_obj(vocab)) return spec_reader_wrong(r, "vocab", "an object", vocab);
    struct spec_token *tokens = arena_zalloc(r->arena, yyjson_obj_size(vocab), sizeof *tokens);
    uint32_t n = 0;
    if (!tokens) return error_nomem(r->err);
    yyjson_obj_iter_init(vocab, &iter);
    while ((key = yyjson_obj_iter_next(&iter))) {
        struct spec_token *token = &tokens[n++];
        token->content = spec_reader_str_of(key);
        RADISH_TRY(spec_reader_id(r, yyjson_obj_iter_get_val(key), &token->id));
    }
    r->spec->tokens = tokens;
    r->spec->n_tokens = n;
    return RADISH_OK;
}

/* "left right", or ["left", "right"] */
static enum radish_status read_merge(struct spec_reader *r, yyjson_val *val,
                                     struct spec_merge *out) {
    yyjson_val *left = yyjson_arr_get(val, 0), *right = yyjson_arr_get(val, 1);
    if (yyjson_is_str(left) && yyjson_is_str(right) && yyjson_arr_size(val) == 2) {
        *out = (struct spec_merge){spec_reader_str_of(left), spec_reader_str_of(right)};
        return RADISH_OK;
    }
    struct spec_str both = spec_reader_str_of(val);
    const char *space = both.data ? memchr(both.data, ' ', both.len) : NULL;
    if (!space) return spec_reader_wrong(r, "merges", "a list of pairs", val);
    size_t left_len = (size_t)(space - both.data);
    if (memchr(space + 1, ' ', both.len - left_len - 1))
        return spec_reader_wrong(r, "merges", "a list of pairs", val);
    out->left = (struct spec_str){both.data, left_len};
    out->right = (struct spec_str){space + 1, both.len - left_len - 1};
    return RADISH_OK;
}

/* The first line of merges.txt, which some files took over. */
static bool is_version_line(yyjson_val *val) {
    return yyjson_is_str(val) && strncmp(yyjson_get_str(val), "#version", 8) == 0;
}

static enum radish_status read_merges(struct spec_reader *r, yyjson_val *model) {
    yyjson_val *list = json_get(model, "merges"), *val;
    yyjson_arr_iter iter;
    uint32_t n = 0;
    if (!yyjson_is_arr(list)) return spec_reader_wrong(r, "merges", "a list", list);
    struct spec_merge *merges = arena_zalloc(r->arena, yyjson_arr_size(list), sizeof *merges);
    if (!merges) return error_nomem(r->err);
    yyjson_arr_iter_init(list, &iter);
    while ((val = yyjson_arr_iter_next(&iter)))
        if (!is_version_line(val)) RADISH_TRY(read_merge(r, val, &merges[n++]));
    r->spec->merges = merges;
    r->spec->n_merges = n;
    return RADISH_OK;
}

static enum radish_status read_bpe(struct spec_reader *r, yyjson_val *model) {
    struct tokenizer_spec *spec = r->spec;
    double dropout = 0;
    RADISH_TRY(read_vocab(r, model));
    RADISH_TRY(read_merges(r, model));
    RADISH_TRY(spec_reader_optional_str(r, model, "unk_token", &spec->unk));
    RADISH_TRY(spec_reader_optional_str(r, model, "continuing_subword_prefix", &spec->prefix));
    RADISH_TRY(spec_reader_optional_str(r, model, "end_of_word_suffix", &spec->suffix));
    RADISH_TRY(json_get_bool(model, "fuse_unk", &spec->fuses_unk, r->err));
    RADISH_TRY(json_get_bool(model, "byte_fallback", &spec->has_byte_fallback, r->err));
    RADISH_TRY(json_get_bool(model, "ignore_merges", &spec->ignores_merges, r->err));
    RADISH_TRY(json_get_double(model, "dropout", 0, 1, &dropout, r->err));
    if (dropout > 0) log_warn("model", "tokenizer.json: dropout is for training; ignored");
    return RADISH_OK;
}

static enum radish_status read_wordpiece(struct spec_reader *r, yyjson_val *model) {
    struct tokenizer_spec *spec = r->spec;
    spec->n_word_chars_max = 100;
    RADISH_TRY(read_vocab(r, model));
    RADISH_TRY(spec_reader_str(r, model, "unk_token", &spec->unk));
    RADISH_TRY(spec_reader_str(r, model, "continuing_subword_prefix", &spec->prefix));
    return json_get_u32(model, "max_input_chars_per_word", 0, UINT32_MAX, &spec->n_word_chars_max,
                        r->err);
}

static enum radish_status read_wordlevel(struct spec_reader *r, yyjson_val *model) {
    RADISH_TRY(read_vocab(r, model));
    return spec_reader_str(r, model, "unk_token", &r->spec->unk);
}

/* [PIECE, SCORE] */
static enum radish_status read_scored(struct spec_reader *r, yyjson_val *val,
                                      struct spec_token *out) {
    yyjson_val *piece = yyjson_arr_get(val, 0), *score = yyjson_arr_get(val, 1);
    if (!yyjson_is_str(piece) || !yyjson_is_num(score) || yyjson_arr_size(val) != 2)
        return spec_reader_wrong(r, "vocab", "a list of [piece, score]", val);
    out->content = spec_reader_str_of(piece);
    out->score = yyjson_get_num(score);
    return RADISH_OK;
}

static enum radish_status read_unigram(struct spec_reader *r, yyjson_val *model) {
    static const double unk_penalty = 10; /* the library's */
    yyjson_val *vocab = json_get(model, "vocab"), *unk_id = json_get(model, "unk_id"), *val;
    struct tokenizer_spec *spec = r->spec;
    yyjson_arr_iter iter;
    double lowest = 0;
    int32_t n = 0;
    if (!yyjson_is_arr(vocab) || yyjson_arr_size(vocab) > SPEC_TOKENS_MAX)
        return spec_reader_wrong(r, "vocab", "a list of at most 2^21 pieces", vocab);
    struct spec_token *tokens = arena_zalloc(r->arena, yyjson_arr_size(vocab), sizeof *tokens);
    if (!tokens) return error_nomem(r->err);
    yyjson_arr_iter_init(vocab, &iter);
    while ((val = yyjson_arr_iter_next(&iter))) {
        RADISH_TRY(read_scored(r, val, &tokens[n]));
        if (!n || tokens[n].score < lowest) lowest = tokens[n].score;
        tokens[n].id = n;
        n++;
    }
    spec->tokens = tokens;
    spec->n_tokens = (uint32_t)n;
    spec->unk_score = lowest - unk_penalty;
    spec->unk_id = -1;
    if (unk_id && !yyjson_is_null(unk_id)) RADISH_TRY(spec_reader_id(r, unk_id, &spec->unk_id));
    return json_get_bool(model, "byte_fallback", &spec->has_byte_fallback, r->err);
}

/* Old files do not name the type: the fields tell. */
static enum radish_status find_model(struct spec_reader *r, yyjson_val *model) {
    yyjson_val *type = json_get(model, "type");
    int kind = SPEC_MODEL_BPE;
    if (type || !json_get(model, "vocab"))
        RADISH_TRY(SPEC_READER_FIND(r, "model", type, SPEC_MODEL_TABLE, &kind));
    else if (yyjson_is_arr(json_get(model, "vocab")))
        kind = SPEC_MODEL_UNIGRAM;
    else if (json_get(model, "max_input_chars_per_word"))
        kind = SPEC_MODEL_WORDPIECE;
    else if (!json_get(model, "merges"))
        kind = SPEC_MODEL_WORDLEVEL;
    r->spec->model = (enum spec_model_kind)kind;
    return RADISH_OK;
}

static enum radish_status read_model(struct spec_reader *r, yyjson_val *root) {
    static const spec_reader_fn readers[SPEC_MODEL_COUNT] = {
        [SPEC_MODEL_BPE] = read_bpe,
        [SPEC_MODEL_UNIGRAM] = read_unigram,
        [SPEC_MODEL_WORDPIECE] = read_wordpiece,
        [SPEC_MODEL_WORDLEVEL] = read_wordlevel,
    };
    yyjson_val *model = json_get(root, "model");
    if (!yyjson_is_obj(model)) return spec_reader_wrong(r, "model", "an object", model);
    RADISH_TRY(find_model(r, model));
    RADISH_TRY(readers[r->spec->model](r, model));
    return fill_known(r, root);
}

/* ---- added tokens */

static enum radish_status read_added_token(struct spec_reader *r, yyjson_val *val, int32_t id,
                                           struct spec_added *out) {
    *out = (struct spec_added){.id = id};
    RADISH_TRY(spec_reader_str(r, val, "content", &out->content));
    RADISH_TRY(json_get_bool(val, "special", &out->is_special, r->err));
    out->is_normalized = !out->is_special;
    RADISH_TRY(json_get_bool(val, "normalized", &out->is_normalized, r->err));
    RADISH_TRY(json_get_bool(val, "single_word", &out->is_single_word, r->err));
    RADISH_TRY(json_get_bool(val, "lstrip", &out->strips_left, r->err));
    RADISH_TRY(json_get_bool(val, "rstrip", &out->strips_right, r->err));
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
static enum radish_status read_config_tokens(struct spec_reader *r, yyjson_val *decoder,
                                             const uint32_t *places, struct spec_added *added,
                                             uint32_t *n_added) {
    yyjson_val *key;
    yyjson_obj_iter iter;
    if (!yyjson_is_obj(decoder)) return RADISH_OK;
    yyjson_obj_iter_init(decoder, &iter);
    while ((key = yyjson_obj_iter_next(&iter))) {
        struct spec_added *token = &added[*n_added];
        int32_t id = parse_id(yyjson_get_str(key));
        if (id < 0)
            return spec_reader_wrong(r, "added_tokens_decoder", "an object by token id", key);
        if ((uint32_t)id < r->known.n_ids && places[id]) continue;
        RADISH_TRY(read_added_token(r, yyjson_obj_iter_get_val(key), id, token));
        int32_t known = vocab_find(&r->known, token->content.data, token->content.len);
        if (known >= 0 && places[known]) continue;
        if (known >= 0) token->id = known;
        if (token->content.len) ++*n_added;
    }
    return RADISH_OK;
}

/* Gives the token the id that the library would: what the vocabulary says, or the next free one. A
 * content that was there before is one token; the later entry says how it is found. */
static enum radish_status place_added(struct spec_reader *r, const struct spec_added *token,
                                      uint32_t *places, struct spec_added *added, uint32_t *n) {
    const struct spec_str *content = &token->content;
    int32_t id = vocab_find(&r->known, content->data, content->len);
    if (id < 0) {
        id = (int32_t)r->n_known++;
        if (id >= SPEC_TOKENS_MAX)
            return error_set_field(r->err, RADISH_E_LIMIT, "added_tokens",
                                   "tokenizer.json: more than %d tokens", SPEC_TOKENS_MAX);
        if (!vocab_put(&r->known, id, content->data, content->len, true))
            return error_nomem(r->err);
    }
    if (id != token->id)
        log_warn("model", "tokenizer.json: added token \"%.40s\" has id %d; by its place it is %d",
                 content->data, token->id, id);
    bool is_again = places[id] && added[places[id] - 1].content.len == content->len &&
                    memcmp(added[places[id] - 1].content.data, content->data, content->len) == 0;
    bool was_special = is_again && added[places[id] - 1].is_special;
    if (!is_again) places[id] = ++*n;
    added[places[id] - 1] = *token;
    added[places[id] - 1].id = id;
    added[places[id] - 1].is_special |= was_special;
    return RADISH_OK;
}

static enum radish_status read_added_tokens(struct spec_reader *r, yyjson_val *root,
                                            yyjson_val *config) {
    yyjson_val *list = json_get(root, "added_tokens"), *val;
    yyjson_val *decoder = json_get(config, "added_tokens_decoder");
    yyjson_arr_iter iter;
    uint32_t n = 0;
    if (list && !yyjson_is_null(list) && !yyjson_is_arr(list))
        return spec_reader_wrong(r, "added_tokens", "a list", list);
    struct spec_added *added =
        arena_zalloc(r->arena, yyjson_arr_size(list) + yyjson_obj_size(decoder), sizeof *added);
    /* By id: 1 + the index in `added`; 0 = none. */
    uint32_t *places = arena_zalloc(r->arena, r->known.n_ids, sizeof *places);
    if (!added || !places) return error_nomem(r->err);
    yyjson_arr_iter_init(list, &iter);
    while ((val = yyjson_arr_iter_next(&iter))) {
        struct spec_added token;
        int32_t id;
        RADISH_TRY(spec_reader_id(r, json_get(val, "id"), &id));
        RADISH_TRY(read_added_token(r, val, id, &token));
        if (token.content.len) RADISH_TRY(place_added(r, &token, places, added, &n));
    }
    RADISH_TRY(read_config_tokens(r, decoder, places, added, &n));
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

static enum radish_status read_all(struct spec_reader *r, yyjson_val *root, yyjson_val *config) {
    if (!yyjson_is_obj(root)) return spec_reader_wrong(r, "the root", "an object", root);
    RADISH_TRY(read_model(r, root));
    RADISH_TRY(read_added_tokens(r, root, config));
    RADISH_TRY(spec_reader_stages(r, root));
    RADISH_TRY(spec_reader_post_processor(r, root));
    say_ignored(root, "truncation");
    say_ignored(root, "padding");
    return RADISH_OK;
}

enum radish_status tokenizer_json_spec(yyjson_val *tokenizer_json, yyjson_val *tokenizer_config,
                                       struct arena *arena, struct tokenizer_spec *spec_out,
                                       struct radish_error *err) {
    struct spec_reader r = {.arena = arena, .err = err, .spec = spec_out};
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
