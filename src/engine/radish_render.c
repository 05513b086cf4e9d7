/* radish_render.c - what is done to a conversation before its template sees it.
 *
 * Clients send message contents either as a string or as a list of typed parts; most templates only
 * concatenate strings, and would print a list as JSON or fail. So parts are joined unless the
 * template reads them itself. Joined by a newline: clients cut at paragraphs or attachments, and
 * words must not run together (llama.cpp and vLLM do the same). Parts that are no text are refused
 * by name: dropping an image silently would answer a question that was not asked.
 *
 *   given JSON --copy--> mutable: bos_token ... added where absent, contents joined --copy-->
 * render
 *
 * Cost: two copies of the document, small beside the rendering. (The two public functions have
 * eight parameters: text and JSON each come with a length and go with one.) */
#include "engine/model_int.h"

#include "base/buf.h"
#include "base/json.h"
#include "base/status.h"

#include <stdlib.h>
#include <string.h>

static void add_tokens(yyjson_mut_doc *doc, yyjson_mut_val *root, const struct model_text *text) {
    for (size_t i = 0; i < MODEL_TEXT_VARS; i++) {
        const struct model_text_var *var = &text->vars[i];
        if (!var->content || yyjson_mut_obj_get(root, var->name)) continue;
        yyjson_mut_obj_add_str(doc, root, var->name, var->content);
    }
}

static enum radish_status append_part(yyjson_mut_val *part, bool is_first, size_t message_idx,
                                      struct buf *joined, struct radish_error *err) {
    yyjson_mut_val *text = part;
    if (!yyjson_mut_is_str(part)) {
        const char *type = yyjson_mut_get_str(yyjson_mut_obj_get(part, "type"));
        if (!type || strcmp(type, "text") != 0)
            return error_set_field(err, RADISH_E_INVALID, "messages",
                                   "messages[%zu]: a content part of type '%s' is not supported, "
                                   "only text is",
                                   message_idx, type ? type : "");
        text = yyjson_mut_obj_get(part, "text");
        if (!yyjson_mut_is_str(text))
            return error_set_field(err, RADISH_E_INVALID, "messages",
                                   "messages[%zu]: a text part must have a string 'text'",
                                   message_idx);
    }
    if (!is_first) buf_append_char(joined, '\n');
    buf_append(joined, yyjson_mut_get_str(text), yyjson_mut_get_len(text));
    return RADISH_OK;
}

/* Checks the parts of one message; with `joins` puts the joined text in their place. */
static enum radish_status join_message(yyjson_mut_doc *doc, yyjson_mut_val *message, size_t idx,
                                       bool joins, struct radish_error *err) {
    yyjson_mut_val *content = yyjson_mut_obj_get(message, "content");
    if (!yyjson_mut_is_arr(content)) return RADISH_OK;
    struct buf joined;
    buf_init(&joined, 0);
    enum radish_status status = RADISH_OK;
    bool is_first = true;
    yyjson_mut_arr_iter iter;
    yyjson_mut_arr_iter_init(content, &iter);
    for (yyjson_mut_val *part; status == RADISH_OK && (part = yyjson_mut_arr_iter_next(&iter));) {
        status = append_part(part, is_first, idx, &joined, err);
        is_first = false;
    }
    if (status == RADISH_OK && joins) {
        yyjson_mut_val *text = yyjson_mut_strncpy(doc, joined.data ? joined.data : "", joined.len);
        yyjson_mut_val *key = yyjson_mut_str(doc, "content");
        if (joined.failed || !text || !key || !yyjson_mut_obj_replace(message, key, text))
            status = error_nomem(err);
    }
    buf_deinit(&joined);
    return status;
}

static enum radish_status join_messages(yyjson_mut_doc *doc, yyjson_mut_val *root, bool joins,
                                        struct radish_error *err) {
    yyjson_mut_val *messages = yyjson_mut_obj_get(root, "messages");
    if (!yyjson_mut_is_arr(messages)) return RADISH_OK;
    yyjson_mut_arr_iter iter;
    yyjson_mut_arr_iter_init(messages, &iter);
    size_t idx = 0;
    for (yyjson_mut_val *message; (message = yyjson_mut_arr_iter_next(&iter)); idx++)
        RADISH_TRY(join_message(doc, message, idx, joins, err));
    return RADISH_OK;
}

static enum radish_status parse_object(const char *json, size_t len, yyjson_doc **doc_out,
                                       struct radish_error *err) {
    RADISH_TRY(json_parse(json, len, JSON_DEPTH_MAX, doc_out, err));
    if (yyjson_is_obj(yyjson_doc_get_root(*doc_out))) return RADISH_OK;
    enum radish_status status =
        error_set(err, RADISH_E_INVALID, "the variables of a template are a JSON object, not %s",
                  json_type_name(yyjson_doc_get_root(*doc_out)));
    yyjson_doc_free(*doc_out);
    *doc_out = NULL;
    return status;
}

static enum radish_status render(const struct chat_template *template, yyjson_val *variables,
                                 const struct radish_render_options *options, char **text_out,
                                 size_t *len_out, struct radish_error *err) {
    struct chat_template_time time = {0};
    bool has_time = options && options->now;
    if (has_time) RADISH_TRY(chat_template_time_parse(options->now, &time, err));
    struct buf text;
    buf_init(&text, 0);
    enum radish_status status =
        chat_template_render(template, variables, has_time ? &time : NULL, &text, err);
    if (status == RADISH_OK && !(*text_out = buf_take(&text, len_out))) status = error_nomem(err);
    buf_deinit(&text);
    return status;
}

enum radish_status radish_render(const struct radish_model *model, const char *json,
                                 size_t json_len, bool join_parts,
                                 const struct radish_render_options *options, char **text_out,
                                 size_t *len_out, struct radish_error *err) {
    *text_out = NULL;
    *len_out = 0;
    const struct model_text *text = model->text;
    if (!text->template)
        return error_set(err, RADISH_E_NOT_FOUND, "%s has no chat template%s%s", model->name,
                         text->template_error[0] ? " that works: " : "", text->template_error);
    yyjson_doc *given;
    RADISH_TRY(parse_object(json, json_len, &given, err));
    yyjson_mut_doc *doc = yyjson_doc_mut_copy(given, NULL);
    yyjson_mut_val *root = doc ? yyjson_mut_doc_get_root(doc) : NULL;
    yyjson_doc *ready = NULL;
    enum radish_status status = root ? RADISH_OK : error_nomem(err);
    if (status == RADISH_OK) add_tokens(doc, root, text);
    if (status == RADISH_OK && join_parts)
        status = join_messages(doc, root, !chat_template_reads_parts(text->template), err);
    if (status == RADISH_OK && !(ready = yyjson_mut_doc_imut_copy(doc, NULL)))
        status = error_nomem(err);
    if (status == RADISH_OK)
        status =
            render(text->template, yyjson_doc_get_root(ready), options, text_out, len_out, err);
    yyjson_doc_free(ready);
    yyjson_mut_doc_free(doc);
    yyjson_doc_free(given);
    return status;
}

enum radish_status radish_render_source(const char *source, size_t source_len, const char *json,
                                        size_t json_len,
                                        const struct radish_render_options *options,
                                        char **text_out, size_t *len_out,
                                        struct radish_error *err) {
    *text_out = NULL;
    *len_out = 0;
    struct chat_template *template;
    RADISH_TRY(chat_template_compile(source, source_len, &template, err));
    yyjson_doc *doc;
    enum radish_status status = parse_object(json, json_len, &doc, err);
    if (status == RADISH_OK)
        status = render(template, yyjson_doc_get_root(doc), options, text_out, len_out, err);
    yyjson_doc_free(doc);
    chat_template_destroy(template);
    return status;
}
