/* load_target.c - what a generator must know of a server before it can send it work.
 *
 * Lengths are wanted in tokens, and only the server knows what its tokens are. Carrying a tokenizer
 * for every model would be one way; here the server counts: a prompt of the first few of our words
 * and one of all of them are sent, for one token of output each, and the usage it answers gives a
 * line, tokens = fixed + words x slope. The fixed part is the begin token and the chat template.
 * Texts draw every word equally often, so a text of a run has the length asked for within a few
 * percent; what is reported is always what the server counted.
 *
 * A server that does not count (no usage) is given a usual figure, and the report says so. */
#include "load_target.h"

#include "base/clock.h"
#include "base/json.h"
#include "base/status.h"
#include "load_dialog.h"
#include "workload.h"

#include <stdio.h>
#include <string.h>

enum { SHORT_WORDS = 8, LONG_WORDS = WORKLOAD_N_WORDS, BODY_BYTES_MAX = 16 << 20 };

static const double tokens_per_word_usual = 1.3;

/* One request, waited for. */
struct reply {
    struct buf body;
    struct http_result result;
    char why[160];
    bool is_done;
};

static bool take_bytes(void *user, const char *bytes, size_t n) {
    struct reply *reply = user;
    buf_append(&reply->body, bytes, n);
    return !reply->body.failed;
}

static void take_end(void *user, const struct http_result *result) {
    struct reply *reply = user;
    reply->result = *result;
    reply->is_done = true;
    load_answer_explain(result->why, result->n_why, reply->why);
}

/* reply->body is the caller's to free, whatever the result. */
static enum radish_status ask(struct load_target *target, const char *path, const struct buf *body,
                              struct reply *reply, struct radish_error *err) {
    struct buf url;
    *reply = (struct reply){0};
    buf_init(&reply->body, BODY_BYTES_MAX);
    buf_init(&url, 0);
    buf_printf(&url, "%s%s", target->url, path);
    struct http_request request = {.url = url.data,
                                   .body = body ? body->data : NULL,
                                   .n_body = body ? body->len : 0,
                                   .timeout_seconds = target->timeout_seconds,
                                   .on_bytes = take_bytes,
                                   .on_done = take_end,
                                   .user = reply};
    enum radish_status status =
        url.failed ? error_nomem(err) : http_driver_send(target->driver, &request, err);
    while (status == RADISH_OK && !reply->is_done)
        http_driver_wait(target->driver, clock_ns() + 1000000000u);
    buf_deinit(&url);
    if (status != RADISH_OK || reply->result.failure == HTTP_DONE) return status;
    if (reply->result.failure == HTTP_FAILED_STATUS)
        return error_set(err, RADISH_E_IO, "%.100s%s: HTTP %ld: %.140s", target->url, path,
                         reply->result.status, reply->why);
    return error_set(err, RADISH_E_IO, "%.100s%s: %.140s", target->url, path, reply->why);
}

static enum radish_status find_model(struct load_target *target, struct radish_error *err) {
    struct reply reply;
    yyjson_doc *doc = NULL;
    enum radish_status status = ask(target, "/v1/models", NULL, &reply, err);
    if (status == RADISH_OK)
        status = json_parse(reply.body.data ? reply.body.data : "", reply.body.len, JSON_DEPTH_MAX,
                            &doc, err);
    yyjson_val *data = json_get(yyjson_doc_get_root(doc), "data");
    yyjson_val *id = json_get(yyjson_arr_get_first(data), "id");
    if (status == RADISH_OK && !yyjson_is_str(id))
        status = error_set(err, RADISH_E_IO, "%.100s/v1/models names no model: give --model",
                           target->url);
    if (status == RADISH_OK)
        snprintf(target->model, sizeof target->model, "%s", yyjson_get_str(id));
    yyjson_doc_free(doc);
    buf_deinit(&reply.body);
    return status;
}

/* Tokens of a prompt of n words, or 0 where the server does not tell. */
static enum radish_status count_tokens(struct load_target *target, uint32_t n_words,
                                       uint32_t *n_out, struct radish_error *err) {
    struct load_dialog dialog;
    struct load_answer answer;
    struct reply reply = {0};
    struct buf text;
    struct load_body body = {.endpoint = target->endpoint,
                             .model = target->model,
                             .output_tokens = 1,
                             .ignores_eos = true,
                             .extra = target->extra};
    load_dialog_init(&dialog);
    load_answer_init(&answer, target->endpoint);
    buf_init(&text, 0);
    workload_append_each_word(n_words, &dialog.text);
    enum radish_status status = load_dialog_end_part(&dialog);
    if (status == RADISH_OK) status = load_body_write(&body, &dialog, &text);
    if (status != RADISH_OK) error_nomem(err);
    if (status == RADISH_OK)
        status = ask(target, load_endpoint_path(target->endpoint), &text, &reply, err);
    if (status == RADISH_OK &&
        !load_answer_body(&answer, reply.body.data ? reply.body.data : "", reply.body.len))
        status = error_set(err, RADISH_E_IO, "%.100s: %.160s", target->url, answer.error);
    *n_out = answer.has_prompt_tokens ? answer.prompt_tokens : 0;
    buf_deinit(&text);
    buf_deinit(&reply.body);
    load_answer_deinit(&answer);
    load_dialog_deinit(&dialog);
    return status;
}

static enum radish_status calibrate(struct load_target *target, struct radish_error *err) {
    uint32_t n_short, n_long;
    RADISH_TRY(count_tokens(target, SHORT_WORDS, &n_short, err));
    RADISH_TRY(count_tokens(target, LONG_WORDS, &n_long, err));
    target->is_calibrated = n_short && n_long > n_short;
    target->tokens_per_word = tokens_per_word_usual;
    if (!target->is_calibrated) return RADISH_OK;
    target->tokens_per_word = ((double)n_long - n_short) / (LONG_WORDS - SHORT_WORDS);
    double fixed = n_short - target->tokens_per_word * (double)SHORT_WORDS;
    target->tokens_fixed = fixed > 0 ? fixed : 0;
    return RADISH_OK;
}

enum radish_status load_target_open(struct load_target *target, const char *api_key,
                                    struct radish_error *err) {
    target->driver = NULL;
    RADISH_TRY(http_driver_create(api_key, &target->driver, err));
    if (!target->model[0]) RADISH_TRY(find_model(target, err));
    return calibrate(target, err);
}

void load_target_close(struct load_target *target) {
    http_driver_destroy(target->driver);
    target->driver = NULL;
}

enum radish_status load_target_flush(struct load_target *target, struct radish_error *err) {
    struct reply reply;
    struct buf body;
    buf_init(&body, 0);
    buf_append_str(&body, "{}");
    enum radish_status status =
        body.failed ? error_nomem(err) : ask(target, "/flush_cache", &body, &reply, err);
    if (!body.failed) buf_deinit(&reply.body);
    buf_deinit(&body);
    return status;
}
