/* chat_adapt.c - one conversation, in the words of its template.
 *
 * Which form a template reads is known (template_traits.c); here the messages are brought into it.
 * What must be lost is lost in the least harmful way:
 *
 *   parts    are joined by a newline where the template reads texts only: clients cut at paragraphs
 *            and attachments, and words must not run together. vLLM and llama.cpp join so; SGLang
 *            takes a space. Parts that are no text are refused by name: dropping an image silently
 *            would answer a question that was not asked.
 *   strings  of arguments that the template reads as strings stay as the client sent them, byte by
 *            byte: these are the tokens that the model itself wrote, so the prefix is still cached.
 *            An object is written as Python's json.dumps would.
 *
 * A template sees absent tools and documents as none, not as undefined: "tools is not none" is true
 * of what is undefined, and transformers always passes both. */
#include "engine/chat_adapt.h"

#include "base/buf.h"
#include "base/json.h"
#include "base/status.h"

#include <stdlib.h>
#include <string.h>

struct adapting {
    yyjson_mut_doc *doc;
    const struct template_traits *traits;
    size_t message_idx;
    struct radish_error *err;
};

/* obj[key] = value, whether it is there or not. */
static enum radish_status put(struct adapting *a, yyjson_mut_val *obj, const char *key,
                              yyjson_mut_val *value) {
    yyjson_mut_val *name = yyjson_mut_str(a->doc, key);
    if (!name || !value || !yyjson_mut_obj_put(obj, name, value)) return error_nomem(a->err);
    return RADISH_OK;
}

/* ---- content */

/* The text of a part, or NULL after an error. */
static yyjson_mut_val *find_text(struct adapting *a, yyjson_mut_val *part) {
    if (yyjson_mut_is_str(part)) return part;
    const char *type = yyjson_mut_get_str(yyjson_mut_obj_get(part, "type"));
    yyjson_mut_val *text = yyjson_mut_obj_get(part, "text");
    if (!type || strcmp(type, "text") != 0)
        error_set_field(a->err, RADISH_E_INVALID, "messages",
                        "messages[%zu]: a content part of type '%s' is not supported, only text is",
                        a->message_idx, type ? type : "");
    else if (!yyjson_mut_is_str(text))
        error_set_field(a->err, RADISH_E_INVALID, "messages",
                        "messages[%zu]: a text part must have a string 'text'", a->message_idx);
    else
        return text;
    return NULL;
}

/* Checks the parts; with `joins` puts their text in their place. */
static enum radish_status adapt_parts(struct adapting *a, yyjson_mut_val *message,
                                      yyjson_mut_val *parts, bool joins) {
    struct buf joined;
    enum radish_status status = RADISH_OK;
    yyjson_mut_arr_iter iter;
    yyjson_mut_val *part;
    buf_init(&joined, 0);
    yyjson_mut_arr_iter_init(parts, &iter);
    for (bool is_first = true; (part = yyjson_mut_arr_iter_next(&iter)); is_first = false) {
        yyjson_mut_val *text = find_text(a, part);
        if (!text) {
            status = RADISH_E_INVALID;
            break;
        }
        if (!is_first) buf_append_char(&joined, '\n');
        buf_append(&joined, yyjson_mut_get_str(text), yyjson_mut_get_len(text));
    }
    if (!status && joined.failed) status = error_nomem(a->err);
    if (!status && joins)
        status = put(a, message, "content",
                     yyjson_mut_strncpy(a->doc, joined.data ? joined.data : "", joined.len));
    buf_deinit(&joined);
    return status;
}

static enum radish_status wrap_text(struct adapting *a, yyjson_mut_val *message,
                                    yyjson_mut_val *text) {
    yyjson_mut_val *list = yyjson_mut_arr(a->doc);
    yyjson_mut_val *part = list ? yyjson_mut_arr_add_obj(a->doc, list) : NULL;
    yyjson_mut_val *copy = yyjson_mut_val_mut_copy(a->doc, text);
    if (!part || !copy || !yyjson_mut_obj_add_str(a->doc, part, "type", "text") ||
        !yyjson_mut_obj_add_val(a->doc, part, "text", copy))
        return error_nomem(a->err);
    return put(a, message, "content", list);
}

static enum radish_status adapt_content(struct adapting *a, yyjson_mut_val *message,
                                        enum template_role role, bool has_calls) {
    yyjson_mut_val *content = yyjson_mut_obj_get(message, "content");
    enum template_content form = a->traits->content[role];
    if (yyjson_mut_is_arr(content)) return adapt_parts(a, message, content, form == TEMPLATE_TEXT);
    if (yyjson_mut_is_str(content))
        return form == TEMPLATE_PARTS ? wrap_text(a, message, content) : RADISH_OK;
    if (role != TEMPLATE_ASSISTANT || (content && !yyjson_mut_is_null(content))) return RADISH_OK;
    bool keeps_null = has_calls && a->traits->has_null_content;
    return put(a, message, "content",
               keeps_null ? yyjson_mut_null(a->doc) : yyjson_mut_str(a->doc, ""));
}

/* ---- arguments */

/* Compact JSON with Python's spaces: {"a": 1, "b": [1, 2]}. */
static void add_spaced(struct buf *out, const char *json) {
    bool is_in_string = false;
    for (const char *c = json; *c; c++) {
        buf_append_char(out, *c);
        if (is_in_string && *c == '\\' && c[1])
            buf_append_char(out, *++c);
        else if (*c == '"')
            is_in_string = !is_in_string;
        else if (!is_in_string && (*c == ',' || *c == ':'))
            buf_append_char(out, ' ');
    }
}

static enum radish_status write_arguments(struct adapting *a, yyjson_mut_val *function,
                                          yyjson_mut_val *arguments) {
    struct buf text;
    char *compact = yyjson_mut_val_write(arguments, 0, NULL);
    buf_init(&text, 0);
    if (compact) add_spaced(&text, compact);
    enum radish_status status = compact && !text.failed ? RADISH_OK : error_nomem(a->err);
    free(compact);
    if (!status)
        status = put(a, function, "arguments", yyjson_mut_strncpy(a->doc, text.data, text.len));
    buf_deinit(&text);
    return status;
}

static enum radish_status parse_arguments(struct adapting *a, yyjson_mut_val *function,
                                          yyjson_mut_val *text) {
    yyjson_doc *parsed = NULL;
    struct radish_error why;
    enum radish_status status = json_parse(yyjson_mut_get_str(text), yyjson_mut_get_len(text),
                                           JSON_DEPTH_MAX / 2, &parsed, &why);
    if (status == RADISH_E_NOMEM) return error_nomem(a->err);
    yyjson_val *root = yyjson_doc_get_root(parsed);
    if (status || !yyjson_is_obj(root))
        status = error_set_field(a->err, RADISH_E_INVALID, "messages",
                                 "messages[%zu]: a tool call's arguments must be a JSON object%s%s",
                                 a->message_idx, status ? ": " : "", status ? why.msg : "");
    else if (!a->traits->has_text_arguments)
        status = put(a, function, "arguments", yyjson_val_mut_copy(a->doc, root));
    yyjson_doc_free(parsed);
    return status;
}

static enum radish_status adapt_function(struct adapting *a, yyjson_mut_val *function) {
    yyjson_mut_val *arguments = yyjson_mut_obj_get(function, "arguments");
    bool has_text = a->traits->has_text_arguments;
    bool is_empty = !arguments || yyjson_mut_is_null(arguments) ||
                    (yyjson_mut_is_str(arguments) && !yyjson_mut_get_len(arguments));
    if (is_empty)
        return put(a, function, "arguments",
                   has_text ? yyjson_mut_str(a->doc, "{}") : yyjson_mut_obj(a->doc));
    if (yyjson_mut_is_str(arguments)) return parse_arguments(a, function, arguments);
    return has_text ? write_arguments(a, function, arguments) : RADISH_OK;
}

/* ---- messages */

static enum radish_status adapt_message(struct adapting *a, yyjson_mut_val *message) {
    const char *name = yyjson_mut_get_str(yyjson_mut_obj_get(message, "role"));
    yyjson_mut_val *calls = yyjson_mut_obj_get(message, "tool_calls"), *call;
    yyjson_mut_arr_iter iter;
    if (!name) return RADISH_OK;
    RADISH_TRY(adapt_content(a, message, template_role_find(name), yyjson_mut_arr_size(calls)));
    if (!strcmp(name, "developer") && !a->traits->has_developer)
        RADISH_TRY(put(a, message, "role", yyjson_mut_str(a->doc, "system")));
    if (!yyjson_mut_is_arr(calls)) return RADISH_OK;
    yyjson_mut_arr_iter_init(calls, &iter);
    while ((call = yyjson_mut_arr_iter_next(&iter))) {
        yyjson_mut_val *function = yyjson_mut_obj_get(call, "function");
        if (yyjson_mut_is_obj(function)) RADISH_TRY(adapt_function(a, function));
    }
    return RADISH_OK;
}

enum radish_status chat_adapt(yyjson_mut_doc *doc, const struct template_traits *traits,
                              struct radish_error *err) {
    static const char *const absent[] = {"tools", "documents"};
    struct adapting a = {.doc = doc, .traits = traits, .err = err};
    yyjson_mut_val *root = yyjson_mut_doc_get_root(doc), *message;
    yyjson_mut_val *messages = yyjson_mut_obj_get(root, "messages");
    yyjson_mut_arr_iter iter;
    for (size_t i = 0; i < sizeof absent / sizeof *absent; i++)
        if (!yyjson_mut_obj_get(root, absent[i]))
            RADISH_TRY(put(&a, root, absent[i], yyjson_mut_null(doc)));
    if (!yyjson_mut_is_arr(messages)) return RADISH_OK;
    yyjson_mut_arr_iter_init(messages, &iter);
    for (; (message = yyjson_mut_arr_iter_next(&iter)); a.message_idx++)
        RADISH_TRY(adapt_message(&a, message));
    return RADISH_OK;
}
