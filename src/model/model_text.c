/* model_text.c - gathers what the text side needs from wherever a model keeps it.
 *
 * The same facts lie in different places: a folder has tokenizer.json, tokenizer_config.json,
 * special_tokens_map.json and chat_template.jinja; a GGUF file has metadata keys. VARS is the list
 * of special tokens with their place in each. What is found is copied: after opening, nothing here
 * points into files or documents.
 *
 * A chat template that does not compile is no reason to refuse a model that also completes plain
 * text: the reason is kept, logged, and told to whoever asks for a chat. One that the user names is
 * different: that is an error at once. */
#include "model_text.h"

#include "base/arena.h"
#include "base/file_map.h"
#include "base/json.h"
#include "base/log.h"
#include "base/mem.h"
#include "base/status.h"
#include "tokenizer_gguf.h"
#include "tokenizer_json.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { TEMPLATE_BYTES_MAX = 1 << 20, BOS = 0, EOS = 1 };

static const struct {
    const char *name, *gguf_key;
} VARS[MODEL_TEXT_VARS] = {
    {"bos_token", "tokenizer.ggml.bos_token_id"},
    {"eos_token", "tokenizer.ggml.eos_token_id"},
    {"unk_token", "tokenizer.ggml.unknown_token_id"},
    {"sep_token", "tokenizer.ggml.seperator_token_id"}, /* so spelled in GGUF */
    {"pad_token", "tokenizer.ggml.padding_token_id"},
    {"cls_token", "tokenizer.ggml.cls_token_id"},
    {"mask_token", "tokenizer.ggml.mask_token_id"},
};

struct opening {
    const struct model_file *file;
    const struct gguf *gguf; /* NULL for folders */
    struct model_text *text;
    struct radish_error *err;
};

/* ---- tokenizer */

static enum radish_status open_tokenizer(const struct opening *o) {
    struct arena arena;
    struct tokenizer_spec spec;
    enum radish_status status;
    yyjson_val *json = model_file_tokenizer(o->file);
    if (!o->gguf && !json)
        return error_set(o->err, RADISH_E_NOT_FOUND, "%s has no tokenizer.json",
                         model_file_path(o->file));
    arena_init(&arena, 0);
    status = o->gguf ? tokenizer_gguf_spec(o->gguf, &arena, &spec, o->err)
                     : tokenizer_json_spec(json, model_file_tokenizer_config(o->file), &arena,
                                           &spec, o->err);
    if (status == RADISH_OK) status = tokenizer_create(&spec, &o->text->tokenizer, o->err);
    arena_deinit(&arena);
    return status;
}

/* ---- special tokens */

/* "<s>", or {"content": "<s>", ...} */
static yyjson_val *find_content(yyjson_val *object, const char *name) {
    yyjson_val *val = json_get(object, name);
    if (yyjson_is_obj(val)) val = json_get(val, "content");
    return yyjson_is_str(val) ? val : NULL;
}

static enum radish_status read_var(const struct opening *o, size_t idx) {
    struct model_text_var *var = &o->text->vars[idx];
    const char *content = NULL;
    size_t len = 0;
    *var = (struct model_text_var){.name = VARS[idx].name, .id = -1};
    if (o->gguf) {
        uint32_t id = UINT32_MAX;
        RADISH_TRY(gguf_get_u32(o->gguf, VARS[idx].gguf_key, &id, o->err));
        if (id > INT32_MAX) return RADISH_OK;
        content = tokenizer_content(o->text->tokenizer, (int32_t)id, &len);
        var->id = content ? (int32_t)id : -1;
    } else {
        yyjson_val *val = find_content(model_file_tokenizer_config(o->file), VARS[idx].name);
        if (!val) val = find_content(model_file_special_tokens_map(o->file), VARS[idx].name);
        content = yyjson_get_str(val);
        len = yyjson_get_len(val);
        if (content) var->id = tokenizer_find(o->text->tokenizer, content, len);
    }
    if (!content) return RADISH_OK;
    var->content = mem_strndup(content, len);
    return var->content ? RADISH_OK : error_nomem(o->err);
}

static void add_eos(struct model_text *text, int32_t id) {
    for (uint32_t i = 0; i < text->n_eos_ids; i++)
        if (text->eos_ids[i] == id) return;
    if (id >= 0 && text->n_eos_ids < MODEL_TEXT_EOS_MAX) text->eos_ids[text->n_eos_ids++] = id;
}

static enum radish_status read_special_tokens(const struct opening *o) {
    static const char *const end_keys[] = {"tokenizer.ggml.eot_token_id",
                                           "tokenizer.ggml.eom_token_id"};
    for (size_t i = 0; i < MODEL_TEXT_VARS; i++) RADISH_TRY(read_var(o, i));
    o->text->bos_id = o->text->vars[BOS].id;
    add_eos(o->text, o->text->vars[EOS].id);
    for (size_t i = 0; o->gguf && i < sizeof end_keys / sizeof *end_keys; i++) {
        uint32_t id = UINT32_MAX;
        RADISH_TRY(gguf_get_u32(o->gguf, end_keys[i], &id, o->err));
        if (id <= INT32_MAX && tokenizer_has_id(o->text->tokenizer, (int32_t)id))
            add_eos(o->text, (int32_t)id);
    }
    return RADISH_OK;
}

/* ---- chat template */

struct source {
    const char *data; /* [len], or NULL: none */
    size_t len;
    const char *place; /* for messages */
};

/* tokenizer_config.chat_template: a string is the default one; else a list of {name, template}. */
static struct source find_in_config(yyjson_val *config, const char *name) {
    yyjson_val *val = json_get(config, "chat_template"), *item, *found = NULL;
    size_t idx, max;
    if (yyjson_is_str(val) && strcmp(name, "default") == 0) found = val;
    yyjson_arr_foreach(val, idx, max, item) {
        yyjson_val *item_name = json_get(item, "name");
        if (yyjson_equals_str(item_name, name)) found = json_get(item, "template");
    }
    return (struct source){yyjson_get_str(found), yyjson_get_len(found), "tokenizer_config.json"};
}

static enum radish_status find_in_gguf(const struct opening *o, const char *name,
                                       struct source *out) {
    char key[128] = "tokenizer.chat_template";
    struct gguf_str str = {NULL, 0};
    if (strcmp(name, "default") != 0) snprintf(key, sizeof key, "tokenizer.chat_template.%s", name);
    RADISH_TRY(gguf_get_str(o->gguf, key, &str, o->err));
    *out = (struct source){str.data, (size_t)str.len, "tokenizer.chat_template"};
    return RADISH_OK;
}

/* The model's own template. */
static enum radish_status find_own(const struct opening *o, const char *name, struct source *out) {
    *out = (struct source){0};
    if (o->gguf) return find_in_gguf(o, name, out);
    if (strcmp(name, "default") == 0) out->data = model_file_chat_template(o->file, &out->len);
    out->place = "chat_template.jinja";
    if (!out->data) *out = find_in_config(model_file_tokenizer_config(o->file), name);
    return RADISH_OK;
}

static enum radish_status keep_source(const struct opening *o, const struct source *source) {
    o->text->template_source = mem_strndup(source->data, source->len);
    o->text->template_len = source->len;
    return o->text->template_source ? RADISH_OK : error_nomem(o->err);
}

static enum radish_status open_own_template(const struct opening *o, const char *name) {
    struct model_text *text = o->text;
    struct radish_error reason = {0};
    struct source source;
    RADISH_TRY(find_own(o, name ? name : "default", &source));
    if (!source.data && !name) return RADISH_OK;
    if (!source.data)
        return error_set_field(o->err, RADISH_E_NOT_FOUND, "chat_template_name",
                               "%s has no chat template called \"%.60s\"", model_file_path(o->file),
                               name);
    RADISH_TRY(keep_source(o, &source));
    enum radish_status status =
        chat_template_compile(source.data, source.len, &text->template, &reason);
    if (status == RADISH_OK) return RADISH_OK;
    if (status == RADISH_E_NOMEM) return error_nomem(o->err);
    snprintf(text->template_error, sizeof text->template_error, "%.30s: %.280s", source.place,
             reason.msg);
    log_warn("model", "the chat template does not compile, chats are refused: %s",
             text->template_error);
    return RADISH_OK;
}

static enum radish_status open_given_template(const struct opening *o, const char *path) {
    struct source source = {.place = path};
    char *data;
    RADISH_TRY(file_read(path, TEMPLATE_BYTES_MAX, &data, &source.len, o->err));
    source.data = data;
    enum radish_status status = keep_source(o, &source);
    if (status == RADISH_OK)
        status = chat_template_compile(source.data, source.len, &o->text->template, o->err);
    if (status == RADISH_E_TEMPLATE) error_prefix(o->err, "%s", path);
    free(data);
    return status;
}

/* ---- the whole */

enum radish_status model_text_open(const struct model_file *file,
                                   const struct model_text_options *options,
                                   struct model_text **text_out, struct radish_error *err) {
    static const struct model_text_options none = {0};
    *text_out = NULL;
    struct opening o = {.file = file, .gguf = model_file_gguf(file), .err = err};
    if (!options) options = &none;
    o.text = calloc(1, sizeof *o.text);
    if (!o.text) return error_nomem(err);
    enum radish_status status = open_tokenizer(&o);
    if (status == RADISH_OK) status = read_special_tokens(&o);
    if (status == RADISH_OK)
        status = options->chat_template_path ? open_given_template(&o, options->chat_template_path)
                                             : open_own_template(&o, options->chat_template_name);
    if (status != RADISH_OK) {
        model_text_close(o.text);
        return status;
    }
    *text_out = o.text;
    return RADISH_OK;
}

void model_text_close(struct model_text *text) {
    if (!text) return;
    tokenizer_destroy(text->tokenizer);
    chat_template_destroy(text->template);
    free(text->template_source);
    for (size_t i = 0; i < MODEL_TEXT_VARS; i++) free(text->vars[i].content);
    free(text);
}

const char *model_text_var(const struct model_text *text, const char *name) {
    for (size_t i = 0; i < MODEL_TEXT_VARS; i++)
        if (strcmp(VARS[i].name, name) == 0) return text->vars[i].content;
    return NULL;
}
