/* radish_render.c - chat templates as the public header gives them.
 *
 * Two ways lead to a template. radish_render() is what servers call: the model's own template, its
 * special tokens as variables, and, if asked, a conversation brought into the form that this
 * template reads (chat_adapt.c). radish_render_source() is the bare template.
 *
 *   given JSON --copy--> mutable: bos_token ... added where absent, adapted --copy--> render
 *
 * Cost: two copies of the document, small beside the rendering. (The public functions and what they
 * share have eight parameters: text and JSON each come with a length and go with one.) */
#include "engine/chat_adapt.h"
#include "engine/model_int.h"

#include "base/buf.h"
#include "base/json.h"
#include "base/status.h"

static void add_tokens(yyjson_mut_doc *doc, yyjson_mut_val *root, const struct model_text *text) {
    for (size_t i = 0; i < MODEL_TEXT_VARS; i++) {
        const struct model_text_var *var = &text->vars[i];
        if (!var->content || yyjson_mut_obj_get(root, var->name)) continue;
        yyjson_mut_obj_add_str(doc, root, var->name, var->content);
    }
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

enum radish_status chat_render(const struct model_text *text, const struct template_traits *traits,
                               const char *json, size_t json_len,
                               const struct radish_render_options *options, char **text_out,
                               size_t *len_out, struct radish_error *err) {
    *text_out = NULL;
    *len_out = 0;
    yyjson_doc *given;
    RADISH_TRY(parse_object(json, json_len, &given, err));
    yyjson_mut_doc *doc = yyjson_doc_mut_copy(given, NULL);
    yyjson_mut_val *root = doc ? yyjson_mut_doc_get_root(doc) : NULL;
    yyjson_doc *ready = NULL;
    enum radish_status status = root ? RADISH_OK : error_nomem(err);
    if (status == RADISH_OK) add_tokens(doc, root, text);
    if (status == RADISH_OK && traits) status = chat_adapt(doc, traits, err);
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

enum radish_status radish_render(const struct radish_model *model, const char *json,
                                 size_t json_len, bool adapt,
                                 const struct radish_render_options *options, char **text_out,
                                 size_t *len_out, struct radish_error *err) {
    *text_out = NULL;
    *len_out = 0;
    const struct model_text *text = model->text;
    if (!text->template)
        return error_set(err, RADISH_E_NOT_FOUND, "%s has no chat template%s%s", model->name,
                         text->template_error[0] ? " that works: " : "", text->template_error);
    return chat_render(text, adapt ? &model->traits : NULL, json, json_len, options, text_out,
                       len_out, err);
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
