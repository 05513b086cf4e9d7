/* load_answer.c - reads answers of OpenAI-compatible servers, whoever wrote the server.
 *
 * Servers agree on where text is and differ in how they count. Prompt and output tokens are in
 * "usage" (OpenAI), "timings" (llama.cpp: prompt_n is what was computed, cache_n what was not) or
 * "meta_info" (SGLang); cached tokens in usage.prompt_tokens_details.cached_tokens, timings.cache_n
 * or meta_info.cached_tokens. Each is read where it is found, in every chunk, the last one wins;
 * what a server does not say stays unknown and is shown as such, never as 0.
 *
 * SGLang's /generate repeats all the text so far in each chunk; then the new text is what goes
 * beyond the old. Text of reasoning (reasoning_content) is text: the first token a user sees is
 * its first. */
#include "load_answer.h"

#include "base/json.h"
#include "base/utf8.h"

#include <stdio.h>
#include <string.h>

void load_answer_init(struct load_answer *answer, enum load_endpoint endpoint) {
    *answer = (struct load_answer){.endpoint = endpoint};
    buf_init(&answer->text, LOAD_TEXT_BYTES_MAX);
}

void load_answer_deinit(struct load_answer *answer) {
    buf_deinit(&answer->text);
}

const char *load_endpoint_path(enum load_endpoint endpoint) {
    return endpoint == LOAD_CHAT       ? "/v1/chat/completions"
           : endpoint == LOAD_GENERATE ? "/generate"
                                       : "/v1/completions";
}

/* ---- failures ---- */

/* Printable text in one line, cut between characters. */
static void copy_line(const char *text, size_t len, char line_out[160]) {
    size_t n = len < 159 ? len : 159;
    n = utf8_valid_prefix(text, n);
    for (size_t i = 0; i < n; i++)
        line_out[i] = (unsigned char)text[i] < ' ' || text[i] == 0x7F ? ' ' : text[i];
    line_out[n] = '\0';
}

static yyjson_val *find_message(yyjson_val *root) {
    yyjson_val *error = json_get(root, "error");
    if (yyjson_is_str(error)) return error;
    static const char *const keys[] = {"message", "detail"};
    for (int i = 0; i < 2; i++) {
        yyjson_val *message = json_get(error ? error : root, keys[i]);
        if (yyjson_is_str(message)) return message;
    }
    return NULL;
}

void load_answer_explain(const char *body, size_t len, char line_out[160]) {
    yyjson_doc *doc = NULL;
    line_out[0] = '\0';
    if (json_parse(body, len, JSON_DEPTH_MAX, &doc, NULL) == RADISH_OK) {
        yyjson_val *message = find_message(yyjson_doc_get_root(doc));
        if (message) copy_line(yyjson_get_str(message), yyjson_get_len(message), line_out);
    }
    if (!*line_out && len) copy_line(body, len, line_out);
    yyjson_doc_free(doc);
}

static bool fail(struct load_answer *answer, const char *what) {
    snprintf(answer->error, sizeof answer->error, "%.159s", what);
    return false;
}

/* ---- counts ---- */

static bool take_count(struct load_answer *answer, yyjson_val *obj, const char *key, bool *has_out,
                       uint32_t *count_out) {
    struct radish_error err = {0};
    yyjson_val *val = json_get(obj, key);
    if (!val || yyjson_is_null(val)) return true;
    if (json_get_u32(obj, key, 0, UINT32_MAX, count_out, &err) != RADISH_OK)
        return fail(answer, err.msg);
    *has_out = true;
    return true;
}

static bool take_usage(struct load_answer *answer, yyjson_val *usage) {
    yyjson_val *details = json_get(usage, "prompt_tokens_details");
    return take_count(answer, usage, "prompt_tokens", &answer->has_prompt_tokens,
                      &answer->prompt_tokens) &&
           take_count(answer, usage, "completion_tokens", &answer->has_output_tokens,
                      &answer->output_tokens) &&
           take_count(answer, details, "cached_tokens", &answer->has_cached_tokens,
                      &answer->cached_tokens);
}

static bool take_timings(struct load_answer *answer, yyjson_val *timings) {
    uint32_t n_computed = 0;
    bool has_computed = false;
    if (!take_count(answer, timings, "cache_n", &answer->has_cached_tokens,
                    &answer->cached_tokens) ||
        !take_count(answer, timings, "prompt_n", &has_computed, &n_computed))
        return false;
    if (has_computed && answer->has_cached_tokens && !answer->has_prompt_tokens) {
        answer->has_prompt_tokens = true;
        answer->prompt_tokens = n_computed + answer->cached_tokens;
    }
    return answer->has_output_tokens ||
           take_count(answer, timings, "predicted_n", &answer->has_output_tokens,
                      &answer->output_tokens);
}

static bool take_meta(struct load_answer *answer, yyjson_val *meta) {
    return take_usage(answer, meta) &&
           take_count(answer, meta, "cached_tokens", &answer->has_cached_tokens,
                      &answer->cached_tokens);
}

/* ---- text ---- */

static bool append_text(struct load_answer *answer, yyjson_val *text, bool *has_text_out) {
    if (!yyjson_is_str(text) || !yyjson_get_len(text)) return true;
    buf_append(&answer->text, yyjson_get_str(text), yyjson_get_len(text));
    *has_text_out = true;
    return !answer->text.failed || fail(answer, "the answer is too long");
}

static bool take_choice(struct load_answer *answer, yyjson_val *choice, bool *has_text_out) {
    yyjson_val *reason = json_get(choice, "finish_reason");
    if (yyjson_is_str(reason)) answer->is_finished = true;
    if (answer->endpoint == LOAD_COMPLETIONS)
        return append_text(answer, json_get(choice, "text"), has_text_out);
    yyjson_val *delta = json_get(choice, "delta");
    if (!delta) delta = json_get(choice, "message");
    return append_text(answer, json_get(delta, "reasoning_content"), has_text_out) &&
           append_text(answer, json_get(delta, "content"), has_text_out);
}

/* Text that repeats the old one replaces it; other text is behind it. */
static bool take_generated(struct load_answer *answer, yyjson_val *root, bool *has_text_out) {
    yyjson_val *text = json_get(root, "text"), *meta = json_get(root, "meta_info");
    yyjson_val *reason = json_get(meta, "finish_reason");
    if (reason && !yyjson_is_null(reason)) answer->is_finished = true;
    if (!yyjson_is_str(text)) return fail(answer, "a chunk of /generate has no 'text'");
    size_t n_old = answer->text.len, len = yyjson_get_len(text);
    const char *bytes = yyjson_get_str(text);
    bool repeats = len >= n_old && (!n_old || !memcmp(bytes, answer->text.data, n_old));
    size_t from = repeats ? n_old : 0;
    buf_append(&answer->text, bytes + from, len - from);
    *has_text_out = len > from;
    return !answer->text.failed || fail(answer, "the answer is too long");
}

static bool take_root(struct load_answer *answer, yyjson_val *root, bool *has_text_out) {
    if (!yyjson_is_obj(root)) return fail(answer, "a chunk is no JSON object");
    if (answer->endpoint == LOAD_GENERATE) {
        if (!take_generated(answer, root, has_text_out)) return false;
    } else {
        yyjson_val *choices = json_get(root, "choices");
        if (!choices && !json_get(root, "usage"))
            return fail(answer, "a chunk has neither 'choices' nor 'usage'");
        yyjson_val *choice = yyjson_arr_get_first(choices);
        if (choice && !take_choice(answer, choice, has_text_out)) return false;
    }
    return take_usage(answer, json_get(root, "usage")) &&
           take_timings(answer, json_get(root, "timings")) &&
           take_meta(answer, json_get(root, "meta_info"));
}

static bool take_json(struct load_answer *answer, const char *text, size_t len,
                      bool *has_text_out) {
    yyjson_doc *doc;
    struct radish_error err = {0};
    *has_text_out = false;
    if (json_parse(text, len, JSON_DEPTH_MAX, &doc, &err) != RADISH_OK)
        return fail(answer, err.msg);
    yyjson_val *root = yyjson_doc_get_root(doc), *error = json_get(root, "error");
    bool is_good = true;
    if (error && !yyjson_is_null(error)) {
        load_answer_explain(text, len, answer->error);
        is_good = false;
    } else {
        is_good = take_root(answer, root, has_text_out);
    }
    yyjson_doc_free(doc);
    return is_good;
}

bool load_answer_event(struct load_answer *answer, const char *data, size_t len,
                       bool *has_text_out) {
    *has_text_out = false;
    if (answer->is_done) return true;
    if (len == 6 && !memcmp(data, "[DONE]", 6)) {
        answer->is_done = true;
        return true;
    }
    return take_json(answer, data, len, has_text_out);
}

bool load_answer_body(struct load_answer *answer, const char *body, size_t len) {
    bool has_text;
    answer->is_done = true;
    return take_json(answer, body, len, &has_text);
}
