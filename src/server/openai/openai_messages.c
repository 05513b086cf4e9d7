/* openai_messages.c - from the API's messages to a template's variables.
 *
 * Templates are written against Python dicts: a role in capitals matches no branch and its message
 * vanishes, a member that is null prints "None". So the conversation is checked and normalised
 * here, into a new JSON text; fields that nobody here knows (names, reasoning_content ...) pass
 * through to the template. Arguments of tool calls are JSON in a string, or an object: that they
 * are is checked here, where the message at fault can be named; which of the two the template reads
 * is radish_render()'s concern.
 *
 * Continuing the final message means: render the conversation, and stop exactly behind that
 * message's content. Where that is cannot be found by searching for the content, which may appear
 * twice or be trimmed; so a marker that occurs nowhere else is put behind the content, and the text
 * in front of it is the prompt. A space behind the marker tells whether the template trims: if it
 * is gone, the content alone would have lost the white space at its end, and the prompt must, too
 * (transformers does the same). A template that drops, doubles or reorders the content is refused
 * rather than guessed at. */
#include "openai_messages.h"

#include "base/buf.h"
#include "base/rng.h"
#include "base/status.h"
#include "base/utf8.h"

#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

enum { PATH_BYTES = 96 };

struct builder {
    yyjson_mut_doc *doc;
    const char *marker; /* "" or what is put behind the final content */
    struct radish_error *err;
};

/* Where in the request something is, for messages; cut when it is too long. */
static void write_path(char path_out[PATH_BYTES], const char *fmt, ...) RADISH_PRINTF(2, 3);
static void write_path(char path_out[PATH_BYTES], const char *fmt, ...) {
    va_list args;
    va_start(args, fmt);
    vsnprintf(path_out, PATH_BYTES, fmt, args);
    va_end(args);
}

static enum radish_status refuse(struct builder *b, const char *path, const char *what) {
    return error_set_field(b->err, RADISH_E_INVALID, path, "%s %s", path, what);
}

/* Adds key: value to obj; false when out of memory. */
static bool put(struct builder *b, yyjson_mut_val *obj, const char *key, yyjson_mut_val *value) {
    return value && yyjson_mut_obj_add(obj, yyjson_mut_strcpy(b->doc, key), value);
}

static enum radish_status add_copy(struct builder *b, yyjson_mut_val *obj, yyjson_val *key,
                                   yyjson_val *value) {
    yyjson_mut_val *key_copy = yyjson_val_mut_copy(b->doc, key);
    yyjson_mut_val *value_copy = yyjson_val_mut_copy(b->doc, value);
    if (!key_copy || !value_copy || !yyjson_mut_obj_add(obj, key_copy, value_copy))
        return error_nomem(b->err);
    return RADISH_OK;
}

/* A string value (NULL: the empty one) with the marker behind it, if it is the end of the final
 * content. */
static yyjson_mut_val *make_text(struct builder *b, yyjson_val *text, bool is_end) {
    if (!is_end || !*b->marker) return yyjson_val_mut_copy(b->doc, text);
    struct buf joined;
    buf_init(&joined, 0);
    if (text) buf_append(&joined, yyjson_get_str(text), yyjson_get_len(text));
    buf_append_str(&joined, b->marker);
    buf_append_char(&joined, ' ');
    yyjson_mut_val *val =
        joined.failed ? NULL : yyjson_mut_strncpy(b->doc, joined.data, joined.len);
    buf_deinit(&joined);
    return val;
}

/* One element of a list of content parts. */
static enum radish_status add_part(struct builder *b, yyjson_mut_val *parts, yyjson_val *part,
                                   const char *path, bool is_end) {
    yyjson_val *type = json_get(part, "type"), *text = json_get(part, "text"), *key, *value;
    size_t idx, max;
    if (!yyjson_is_obj(part)) return refuse(b, path, "must be an object");
    if (!yyjson_is_str(type)) return refuse(b, path, "needs a type");
    if (strcmp(yyjson_get_str(type), "text"))
        return error_set_field(b->err, RADISH_E_UNSUPPORTED, path,
                               "%s has type \"%.32s\": only text is supported", path,
                               yyjson_get_str(type));
    if (!yyjson_is_str(text)) return refuse(b, path, "needs text, a string");
    yyjson_mut_val *obj = yyjson_mut_obj(b->doc);
    if (!obj) return error_nomem(b->err);
    yyjson_obj_foreach(part, idx, max, key, value) {
        if (!yyjson_equals_str(key, "text")) RADISH_TRY(add_copy(b, obj, key, value));
    }
    if (!put(b, obj, "text", make_text(b, text, is_end)) || !yyjson_mut_arr_append(parts, obj))
        return error_nomem(b->err);
    return RADISH_OK;
}

static enum radish_status add_content(struct builder *b, yyjson_mut_val *obj, yyjson_val *content,
                                      const char *message_path, const char *role, bool is_final) {
    char path[PATH_BYTES];
    write_path(path, "%s.content", message_path);
    yyjson_val *part;
    size_t idx, max;
    yyjson_mut_val *made = NULL;
    if (!json_is_given(content)) {
        if (strcmp(role, "assistant"))
            return refuse(b, path, "must be a string or a list of parts");
        made = is_final && *b->marker ? make_text(b, NULL, true) : yyjson_mut_null(b->doc);
    } else if (yyjson_is_str(content)) {
        made = make_text(b, content, is_final);
    } else if (yyjson_is_arr(content)) {
        made = yyjson_mut_arr(b->doc);
        if (!made) return error_nomem(b->err);
        yyjson_arr_foreach(content, idx, max, part) {
            char part_path[PATH_BYTES];
            write_path(part_path, "%s[%zu]", path, idx);
            RADISH_TRY(add_part(b, made, part, part_path, is_final && idx + 1 == max));
        }
    } else {
        return refuse(b, path, "must be a string or a list of parts");
    }
    return put(b, obj, "content", made) ? RADISH_OK : error_nomem(b->err);
}

static enum radish_status check_arguments(struct builder *b, yyjson_val *arguments,
                                          const char *path) {
    static const char what[] = "arguments must be a JSON object, or one in a string";
    if (!json_is_given(arguments) || yyjson_is_obj(arguments) || yyjson_equals_str(arguments, ""))
        return RADISH_OK;
    if (!yyjson_is_str(arguments))
        return error_set_field(b->err, RADISH_E_INVALID, path, "%s.function: %s", path, what);
    yyjson_doc *parsed = NULL;
    struct radish_error why;
    enum radish_status status = json_parse(yyjson_get_str(arguments), yyjson_get_len(arguments),
                                           JSON_DEPTH_MAX / 2, &parsed, &why);
    bool is_object = yyjson_is_obj(yyjson_doc_get_root(parsed));
    yyjson_doc_free(parsed);
    if (status == RADISH_E_NOMEM) return error_nomem(b->err);
    if (is_object) return RADISH_OK;
    return error_set_field(b->err, RADISH_E_INVALID, path, "%s.function: %s%s%s", path, what,
                           status ? ": " : "", status ? why.msg : "");
}

/* Tool calls go to the template as they are. */
static enum radish_status check_call(struct builder *b, yyjson_val *call, const char *path) {
    yyjson_val *function = json_get(call, "function");
    if (!yyjson_is_obj(call)) return refuse(b, path, "must be an object");
    if (!yyjson_is_obj(function) || !yyjson_is_str(json_get(function, "name")))
        return refuse(b, path, "needs a function, an object with a name");
    return check_arguments(b, json_get(function, "arguments"), path);
}

static enum radish_status add_tool_calls(struct builder *b, yyjson_mut_val *obj, yyjson_val *calls,
                                         const char *message_path) {
    yyjson_val *call;
    size_t idx, max;
    char path[PATH_BYTES];
    write_path(path, "%s.tool_calls", message_path);
    if (!yyjson_is_arr(calls)) return refuse(b, path, "must be a list");
    yyjson_arr_foreach(calls, idx, max, call) {
        write_path(path, "%s.tool_calls[%zu]", message_path, idx);
        RADISH_TRY(check_call(b, call, path));
    }
    return put(b, obj, "tool_calls", yyjson_val_mut_copy(b->doc, calls)) ? RADISH_OK
                                                                         : error_nomem(b->err);
}

/* The canonical name of a role, or NULL. */
static const char *find_role(const char *name) {
    static const char *const roles[] = {"system",    "developer", "user",
                                        "assistant", "tool",      "function"};
    for (size_t i = 0; i < sizeof roles / sizeof *roles; i++)
        if (!strcasecmp(name, roles[i])) return roles[i];
    return NULL;
}

static enum radish_status add_message(struct builder *b, yyjson_mut_val *list, yyjson_val *message,
                                      size_t message_idx, bool is_final) {
    char path[PATH_BYTES];
    yyjson_val *key, *value, *role_val = json_get(message, "role");
    size_t idx, max;
    write_path(path, "messages[%zu]", message_idx);
    if (!yyjson_is_obj(message)) return refuse(b, path, "must be an object");
    const char *role = yyjson_is_str(role_val) ? find_role(yyjson_get_str(role_val)) : NULL;
    if (!role)
        return refuse(b, path,
                      "needs a role: system, developer, user, assistant, tool or function");
    if (is_final && *b->marker && strcmp(role, "assistant"))
        return refuse(b, path, "is not the assistant's: continue_final_message cannot continue it");

    yyjson_mut_val *obj = yyjson_mut_obj(b->doc);
    if (!obj || !put(b, obj, "role", yyjson_mut_str(b->doc, role))) return error_nomem(b->err);
    RADISH_TRY(add_content(b, obj, json_get(message, "content"), path, role, is_final));
    if (json_is_given(json_get(message, "tool_calls")))
        RADISH_TRY(add_tool_calls(b, obj, json_get(message, "tool_calls"), path));
    yyjson_obj_foreach(message, idx, max, key, value) {
        bool is_done = yyjson_equals_str(key, "role") || yyjson_equals_str(key, "content") ||
                       yyjson_equals_str(key, "tool_calls");
        if (!is_done && json_is_given(value)) RADISH_TRY(add_copy(b, obj, key, value));
    }
    return yyjson_mut_arr_append(list, obj) ? RADISH_OK : error_nomem(b->err);
}

static enum radish_status check_size(struct builder *b, yyjson_val *list, const char *name,
                                     size_t n_max) {
    size_t n = yyjson_arr_size(list);
    if (n <= n_max) return RADISH_OK;
    return error_set_field(b->err, RADISH_E_LIMIT, name, "%s may hold at most %zu items, not %zu",
                           name, n_max, n);
}

static enum radish_status add_messages(struct builder *b, yyjson_mut_val *out, yyjson_val *root) {
    yyjson_val *messages = json_get(root, "messages"), *message;
    size_t idx, max;
    if (!yyjson_is_arr(messages))
        return error_set_field(b->err, RADISH_E_INVALID, "messages",
                               "messages must be a list of messages, not %s",
                               json_type_name(messages));
    if (!yyjson_arr_size(messages))
        return error_set_field(b->err, RADISH_E_INVALID, "messages", "messages must not be empty");
    RADISH_TRY(check_size(b, messages, "messages", MESSAGES_MAX));
    yyjson_mut_val *list = yyjson_mut_arr(b->doc);
    if (!list) return error_nomem(b->err);
    yyjson_arr_foreach(messages, idx, max, message) {
        RADISH_TRY(add_message(b, list, message, idx, idx + 1 == max));
    }
    return put(b, out, "messages", list) ? RADISH_OK : error_nomem(b->err);
}

/* *is_hidden_out: tool_choice is "none", so that the template must not see the tools. */
static enum radish_status read_tool_choice(struct builder *b, yyjson_val *root,
                                           bool *is_hidden_out) {
    static const char name[] = "tool_choice";
    yyjson_val *choice = json_get(root, name);
    *is_hidden_out = yyjson_equals_str(choice, "none");
    if (!json_is_given(choice) || *is_hidden_out || yyjson_equals_str(choice, "auto"))
        return RADISH_OK;
    if (yyjson_equals_str(choice, "required") || yyjson_is_obj(choice))
        return error_set_field(b->err, RADISH_E_UNSUPPORTED, name,
                               "tool_choice other than \"auto\" and \"none\" is not supported: "
                               "output is not constrained here");
    return error_set_field(b->err, RADISH_E_INVALID, name,
                           "tool_choice must be \"auto\", \"none\", \"required\" or an object");
}

static enum radish_status check_tool(struct builder *b, yyjson_val *tool, size_t idx) {
    char path[PATH_BYTES];
    yyjson_val *type = json_get(tool, "type"), *function = json_get(tool, "function");
    write_path(path, "tools[%zu]", idx);
    if (!yyjson_is_obj(function) || (json_is_given(type) && !yyjson_equals_str(type, "function")))
        return refuse(b, path, "must be {\"type\": \"function\", \"function\": {...}}");
    yyjson_val *name = json_get(function, "name");
    if (!yyjson_is_str(name) || !yyjson_get_len(name))
        return refuse(b, path, "needs a name in its function");
    return RADISH_OK;
}

static enum radish_status add_tools(struct builder *b, yyjson_mut_val *out, yyjson_val *root) {
    yyjson_val *tools = json_get(root, "tools"), *documents = json_get(root, "documents"), *tool;
    bool is_hidden = false;
    size_t idx, max;
    RADISH_TRY(check_size(b, tools, "tools", MESSAGES_TOOLS_MAX));
    RADISH_TRY(check_size(b, documents, "documents", MESSAGES_DOCUMENTS_MAX));
    RADISH_TRY(read_tool_choice(b, root, &is_hidden));
    if (json_is_given(tools) && !yyjson_is_arr(tools)) return refuse(b, "tools", "must be a list");
    yyjson_arr_foreach(tools, idx, max, tool) {
        RADISH_TRY(check_tool(b, tool, idx));
    }
    if (yyjson_arr_size(tools) && !is_hidden &&
        !put(b, out, "tools", yyjson_val_mut_copy(b->doc, tools)))
        return error_nomem(b->err);
    if (json_is_given(documents) && !yyjson_is_arr(documents))
        return refuse(b, "documents", "must be a list");
    if (json_is_given(documents) &&
        !put(b, out, "documents", yyjson_val_mut_copy(b->doc, documents)))
        return error_nomem(b->err);
    return RADISH_OK;
}

static enum radish_status add_kwargs(struct builder *b, yyjson_mut_val *out, yyjson_val *root) {
    static const char name[] = "chat_template_kwargs";
    static const char *const taken[] = {
        "messages",      "tools",   "documents", "add_generation_prompt", "continue_final_message",
        "chat_template", "tokenize"};
    yyjson_val *kwargs = json_get(root, name), *key, *value;
    size_t idx, max;
    if (!json_is_given(kwargs)) return RADISH_OK;
    if (!yyjson_is_obj(kwargs)) return refuse(b, name, "must be an object");
    yyjson_obj_foreach(kwargs, idx, max, key, value) {
        for (size_t i = 0; i < sizeof taken / sizeof *taken; i++)
            if (yyjson_equals_str(key, taken[i]))
                return error_set_field(b->err, RADISH_E_INVALID, name,
                                       "chat_template_kwargs must not hold %s: it is no "
                                       "variable of the template's own",
                                       taken[i]);
        RADISH_TRY(add_copy(b, out, key, value));
    }
    return RADISH_OK;
}

static enum radish_status build(struct builder *b, yyjson_val *root, char *marker) {
    bool has_prompt = true, continues = false;
    yyjson_mut_val *out = yyjson_mut_obj(b->doc);
    if (!out) return error_nomem(b->err);
    yyjson_mut_doc_set_root(b->doc, out);
    RADISH_TRY(json_get_bool(root, "continue_final_message", &continues, b->err));
    has_prompt = !continues;
    RADISH_TRY(json_get_bool(root, "add_generation_prompt", &has_prompt, b->err));
    if (continues && has_prompt)
        return error_set_field(b->err, RADISH_E_INVALID, "continue_final_message",
                               "continue_final_message and add_generation_prompt exclude each "
                               "other");
    if (continues)
        snprintf(marker, MESSAGES_MARKER_BYTES, "radish%016" PRIx64 "%016" PRIx64,
                 rng_seed_from_system(), rng_seed_from_system());
    RADISH_TRY(add_messages(b, out, root));
    RADISH_TRY(add_tools(b, out, root));
    RADISH_TRY(add_kwargs(b, out, root));
    return put(b, out, "add_generation_prompt", yyjson_mut_bool(b->doc, has_prompt))
               ? RADISH_OK
               : error_nomem(b->err);
}

enum radish_status openai_conversation_read(yyjson_val *root,
                                            struct openai_conversation *conversation_out,
                                            struct radish_error *err) {
    *conversation_out = (struct openai_conversation){0};
    struct builder b = {
        .doc = yyjson_mut_doc_new(NULL), .marker = conversation_out->marker, .err = err};
    if (!b.doc) return error_nomem(err);
    enum radish_status status = build(&b, root, conversation_out->marker);
    if (!status) {
        conversation_out->json = yyjson_mut_write(b.doc, 0, &conversation_out->len);
        if (!conversation_out->json) status = error_nomem(err);
    }
    yyjson_mut_doc_free(b.doc);
    return status;
}

bool openai_has_tools(yyjson_val *root) {
    return yyjson_arr_size(json_get(root, "tools")) &&
           !yyjson_equals_str(json_get(root, "tool_choice"), "none");
}

enum radish_status openai_marker_cut(const char *marker, const char *text, size_t *len,
                                     struct radish_error *err) {
    size_t marker_len = strlen(marker);
    const char *at = memmem(text, *len, marker, marker_len);
    const char *rest = at ? at + marker_len : NULL;
    if (!at || memmem(rest, *len - (size_t)(rest - text), marker, marker_len))
        return error_set_field(err, RADISH_E_TEMPLATE, "continue_final_message",
                               "continue_final_message: this chat template does not write the "
                               "final message exactly once");
    bool is_trimmed = rest == text + *len || *rest != ' ';
    *len = (size_t)(at - text);
    if (is_trimmed) *len = utf8_trim_end(text, *len);
    return RADISH_OK;
}
