/* load_dialog.c - conversations as prompts or messages, in the words of each endpoint.
 *
 * Sampling is greedy and answers have the length asked for (ignore_eos, where the server knows it),
 * so that two servers do the same work. Members of --extra-request-body replace ours: whatever a
 * server wants said differently can be said. The usage is asked for in streams, since it is the
 * only count of tokens that costs no tokenizer. */
#include "load_dialog.h"

#include "base/json.h"
#include "base/status.h"

#include <stdlib.h>
#include <string.h>

void load_dialog_init(struct load_dialog *dialog) {
    *dialog = (struct load_dialog){0};
    buf_init(&dialog->text, 0);
}

void load_dialog_deinit(struct load_dialog *dialog) {
    buf_deinit(&dialog->text);
    free(dialog->ends);
    *dialog = (struct load_dialog){0};
}

enum radish_status load_dialog_end_part(struct load_dialog *dialog) {
    if (dialog->text.failed) return error_nomem(NULL);
    if (dialog->n_parts == dialog->capacity) {
        uint32_t capacity = dialog->capacity ? dialog->capacity * 2 : 4;
        size_t *ends = realloc(dialog->ends, capacity * sizeof *ends);
        if (!ends) return error_nomem(NULL);
        dialog->ends = ends;
        dialog->capacity = capacity;
    }
    dialog->ends[dialog->n_parts++] = dialog->text.len;
    return RADISH_OK;
}

enum radish_status load_dialog_copy(struct load_dialog *dialog, const struct load_dialog *from) {
    size_t begin = dialog->text.len;
    buf_append(&dialog->text, from->text.data, from->text.len);
    if (dialog->text.failed) return error_nomem(NULL);
    size_t end = dialog->text.len;
    for (uint32_t i = 0; i < from->n_parts; i++) {
        dialog->text.len = begin + from->ends[i];
        RADISH_TRY(load_dialog_end_part(dialog));
    }
    dialog->text.len = end;
    return RADISH_OK;
}

static void add_messages(yyjson_mut_doc *doc, yyjson_mut_val *root,
                         const struct load_dialog *dialog) {
    yyjson_mut_val *messages = yyjson_mut_obj_add_arr(doc, root, "messages");
    size_t begin = 0;
    for (uint32_t i = 0; i < dialog->n_parts; i++) {
        yyjson_mut_val *message = yyjson_mut_arr_add_obj(doc, messages);
        yyjson_mut_obj_add_str(doc, message, "role", i % 2 ? "assistant" : "user");
        yyjson_mut_obj_add_strn(doc, message, "content", dialog->text.data + begin,
                                dialog->ends[i] - begin);
        begin = dialog->ends[i];
    }
}

static void add_generate(yyjson_mut_doc *doc, yyjson_mut_val *root, const struct load_body *body,
                         const struct load_dialog *dialog) {
    yyjson_mut_obj_add_strn(doc, root, "text", dialog->text.data ? dialog->text.data : "",
                            dialog->text.len);
    yyjson_mut_val *params = yyjson_mut_obj_add_obj(doc, root, "sampling_params");
    yyjson_mut_obj_add_uint(doc, params, "max_new_tokens", body->output_tokens);
    yyjson_mut_obj_add_real(doc, params, "temperature", 0.0);
    if (body->ignores_eos) yyjson_mut_obj_add_bool(doc, params, "ignore_eos", true);
    yyjson_mut_obj_add_bool(doc, root, "stream", body->streams);
}

static void add_openai(yyjson_mut_doc *doc, yyjson_mut_val *root, const struct load_body *body,
                       const struct load_dialog *dialog) {
    yyjson_mut_obj_add_str(doc, root, "model", body->model);
    if (body->endpoint == LOAD_CHAT)
        add_messages(doc, root, dialog);
    else
        yyjson_mut_obj_add_strn(doc, root, "prompt", dialog->text.data ? dialog->text.data : "",
                                dialog->text.len);
    yyjson_mut_obj_add_uint(doc, root, "max_tokens", body->output_tokens);
    yyjson_mut_obj_add_real(doc, root, "temperature", 0.0);
    if (body->ignores_eos) yyjson_mut_obj_add_bool(doc, root, "ignore_eos", true);
    yyjson_mut_obj_add_bool(doc, root, "stream", body->streams);
    if (!body->streams) return;
    yyjson_mut_val *options = yyjson_mut_obj_add_obj(doc, root, "stream_options");
    yyjson_mut_obj_add_bool(doc, options, "include_usage", true);
}

static bool add_extra(yyjson_mut_doc *doc, yyjson_mut_val *root, yyjson_val *extra) {
    size_t idx, n;
    yyjson_val *key, *val;
    yyjson_obj_foreach(extra, idx, n, key, val) {
        yyjson_mut_val *new_key = yyjson_mut_strncpy(doc, yyjson_get_str(key), yyjson_get_len(key));
        yyjson_mut_val *new_val = yyjson_val_mut_copy(doc, val);
        if (!new_key || !new_val || !yyjson_mut_obj_put(root, new_key, new_val)) return false;
    }
    return true;
}

enum radish_status load_body_check(const char *extra, struct radish_error *err) {
    yyjson_doc *doc;
    RADISH_TRY(json_parse(extra, strlen(extra), JSON_DEPTH_MAX, &doc, err));
    bool is_obj = yyjson_is_obj(yyjson_doc_get_root(doc));
    yyjson_doc_free(doc);
    return is_obj ? RADISH_OK : error_set(err, RADISH_E_INVALID, "it is no JSON object");
}

enum radish_status load_body_write(const struct load_body *body, const struct load_dialog *dialog,
                                   struct buf *out) {
    yyjson_doc *extra = NULL;
    yyjson_mut_doc *doc = yyjson_mut_doc_new(NULL);
    yyjson_mut_val *root = doc ? yyjson_mut_obj(doc) : NULL;
    bool ok = root != NULL;
    if (ok && body->extra)
        ok =
            json_parse(body->extra, strlen(body->extra), JSON_DEPTH_MAX, &extra, NULL) == RADISH_OK;
    if (ok) {
        yyjson_mut_doc_set_root(doc, root);
        if (body->endpoint == LOAD_GENERATE)
            add_generate(doc, root, body, dialog);
        else
            add_openai(doc, root, body, dialog);
        ok = !extra || add_extra(doc, root, yyjson_doc_get_root(extra));
    }
    size_t len = 0;
    char *text = ok ? yyjson_mut_write(doc, 0, &len) : NULL;
    if (text) buf_append(out, text, len);
    ok = text && !out->failed;
    free(text);
    yyjson_mut_doc_free(doc);
    yyjson_doc_free(extra);
    return ok ? RADISH_OK : error_nomem(NULL);
}
