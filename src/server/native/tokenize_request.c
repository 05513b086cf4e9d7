/* tokenize_request.c - three servers' words for one thing.
 *
 *              text     ids added around it          ids with their text
 *   llama.cpp  content  add_special (false)          with_pieces
 *   vLLM       prompt   add_special_tokens (true)    return_token_strs
 *              messages add_special_tokens (false)
 *   SGLang     prompt, or a list of them
 *
 * All are understood at every path: no client can tell which server it was written for. The
 * defaults differ, and go with the word for the text, so that each client gets what it expects; a
 * list is a batch under either word. Words that contradict each other are refused. */
#include "tokenize_request.h"

#include "base/status.h"

#include <string.h>

static enum radish_status read_text(yyjson_val *val, const char *field,
                                    struct openai_prompt *text_out, struct radish_error *err) {
    if (!yyjson_is_str(val))
        return error_set_field(err, RADISH_E_INVALID, field,
                               "%s must be a string or a list of strings, not %s", field,
                               json_type_name(val));
    text_out->text = yyjson_get_str(val);
    text_out->text_len = yyjson_get_len(val);
    return RADISH_OK;
}

/* The value as a list: itself, or its only item. NULL after an error. */
static struct openai_prompt *make_batch(yyjson_val *val, bool is_batch, const char *field,
                                        struct arena *arena, size_t *n_out,
                                        struct radish_error *err) {
    *n_out = is_batch ? yyjson_arr_size(val) : 1;
    if (*n_out > TOKENIZE_BATCH_MAX) {
        error_set_field(err, RADISH_E_LIMIT, field, "%s may hold at most %d items", field,
                        TOKENIZE_BATCH_MAX);
        return NULL;
    }
    struct openai_prompt *batch = arena_zalloc(arena, *n_out, sizeof *batch);
    if (!batch) error_nomem(err);
    return batch;
}

static enum radish_status read_texts(yyjson_val *val, const char *field, struct arena *arena,
                                     struct tokenize_request *r, struct radish_error *err) {
    yyjson_val *item;
    size_t idx, max;
    r->is_batch = yyjson_is_arr(val);
    struct openai_prompt *texts = make_batch(val, r->is_batch, field, arena, &r->n_texts, err);
    if (!texts) return err->status;
    r->texts = texts;
    if (!r->is_batch) return read_text(val, field, texts, err);
    yyjson_arr_foreach(val, idx, max, item) {
        RADISH_TRY(read_text(item, field, &texts[idx], err));
    }
    return RADISH_OK;
}

/* Two names of one switch. */
static enum radish_status read_special(yyjson_val *root, bool *has_special,
                                       struct radish_error *err) {
    static const char short_name[] = "add_special", long_name[] = "add_special_tokens";
    bool has_short = json_is_given(json_get(root, short_name)), by_short = false;
    bool has_long = json_is_given(json_get(root, long_name)), by_long = false;
    RADISH_TRY(json_get_bool(root, short_name, &by_short, err));
    RADISH_TRY(json_get_bool(root, long_name, &by_long, err));
    if (has_short && has_long && by_short != by_long)
        return error_set_field(err, RADISH_E_INVALID, long_name,
                               "add_special_tokens and add_special disagree: send one");
    if (has_short || has_long) *has_special = has_short ? by_short : by_long;
    return RADISH_OK;
}

enum radish_status tokenize_request_read(yyjson_val *root, struct arena *arena,
                                         struct tokenize_request *request_out,
                                         struct radish_error *err) {
    static const char *const names[] = {"content", "prompt", "messages"};
    struct tokenize_request *r = request_out;
    const char *name = NULL;
    *r = (struct tokenize_request){0};
    for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
        if (!json_is_given(json_get(root, names[i]))) continue;
        if (name)
            return error_set_field(err, RADISH_E_INVALID, names[i],
                                   "%s and %s exclude each other: send one", name, names[i]);
        name = names[i];
    }
    if (!name)
        return error_set_field(err, RADISH_E_INVALID, "prompt",
                               "prompt is missing: send a text as prompt or content, or messages");
    r->has_messages = !strcmp(name, "messages");
    r->has_special = !strcmp(name, "prompt");
    RADISH_TRY(read_special(root, &r->has_special, err));
    RADISH_TRY(json_get_bool(root, "with_pieces", &r->has_pieces, err));
    RADISH_TRY(json_get_bool(root, "return_token_strs", &r->has_names, err));
    return r->has_messages ? RADISH_OK : read_texts(json_get(root, name), name, arena, r, err);
}

enum radish_status detokenize_request_read(yyjson_val *root, bool skips_by_default,
                                           struct arena *arena,
                                           struct detokenize_request *request_out,
                                           struct radish_error *err) {
    static const char name[] = "tokens";
    struct detokenize_request *r = request_out;
    yyjson_val *val = json_get(root, name), *item;
    size_t idx, max;
    *r = (struct detokenize_request){.skips_special = skips_by_default};
    RADISH_TRY(json_get_bool(root, "skip_special_tokens", &r->skips_special, err));
    if (!yyjson_is_arr(val))
        return error_set_field(err, RADISH_E_INVALID, name,
                               "tokens must be a list of token ids or a list of such lists, not %s",
                               json_type_name(val));
    r->is_batch = yyjson_is_arr(yyjson_arr_get_first(val));
    struct openai_prompt *lists = make_batch(val, r->is_batch, name, arena, &r->n_lists, err);
    if (!lists) return err->status;
    r->lists = lists;
    if (!r->is_batch)
        return openai_ids_read(val, name, SIZE_MAX, arena, &lists->ids, &lists->n_ids, err);
    yyjson_arr_foreach(val, idx, max, item) {
        RADISH_TRY(
            openai_ids_read(item, name, SIZE_MAX, arena, &lists[idx].ids, &lists[idx].n_ids, err));
    }
    return RADISH_OK;
}
