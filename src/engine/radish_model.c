/* radish_model.c - an opened model behind the public handle: where it lies, what it is called, and
 * the union of what its files say.
 *
 * The problem: "MODEL" is whatever a person types: a folder, a file, a name in the model cache. And
 * several places name the tokens that end an answer (generation_config, config, tokenizer_config,
 * GGUF's eos, eot and eom): missing one means a chat that never stops, so all of them count.
 *
 * Opening reads metadata only; weights stay mapped and untouched until an engine loads them. */
#include "engine/model_int.h"

#include "base/file_map.h"
#include "base/mem.h"
#include "base/status.h"
#include "format/model_cache.h"
#include "model/arch.h"

#include <stdlib.h>
#include <string.h>

static enum radish_status find_path(const char *given, char **path_out, struct radish_error *err) {
    *path_out = NULL;
    if (!given || !*given)
        return error_set_field(err, RADISH_E_INVALID, "model", "a model's path must not be empty");
    if (!file_exists(given) && !file_is_folder(given)) {
        if (model_cache_is_name(given)) return model_cache_find(given, path_out, err);
        return error_set_field(err, RADISH_E_NOT_FOUND, "model",
                               "%s: there is no such file or folder", given);
    }
    *path_out = mem_strndup(given, strlen(given));
    return *path_out ? RADISH_OK : error_nomem(err);
}

/* The last part of the path, without .gguf: "/models/Qwen3-0.6B/" is "Qwen3-0.6B". */
static char *find_name(const char *path) {
    size_t end = strlen(path);
    while (end > 1 && path[end - 1] == '/') end--;
    size_t start = end;
    while (start && path[start - 1] != '/') start--;
    if (end - start > 5 && !memcmp(path + end - 5, ".gguf", 5)) end -= 5;
    return mem_strndup(path + start, end - start);
}

static void add_eos(struct radish_model *model, const int32_t *ids, uint32_t n) {
    for (uint32_t i = 0; i < n; i++) {
        bool is_known = ids[i] < 0;
        for (uint32_t j = 0; j < model->n_eos_ids && !is_known; j++)
            is_known = model->eos_ids[j] == ids[i];
        if (!is_known && model->n_eos_ids < MODEL_EOS_MAX)
            model->eos_ids[model->n_eos_ids++] = ids[i];
    }
}

static void fill_info(struct radish_model *model) {
    static const char *const formats[] = {[MODEL_FORMAT_SAFETENSORS] = "safetensors",
                                          [MODEL_FORMAT_GGUF] = "gguf",
                                          [MODEL_FORMAT_TEXT_ONLY] = "tokenizer"};
    struct radish_model_info *info = &model->info;
    size_t n_tensors = model_file_n_tensors(model->file);
    bool is_served = model->config_status == RADISH_OK;
    *info = (struct radish_model_info){
        .path = model->path,
        .name = model->name,
        .format = formats[model_file_format(model->file)],
        .architecture = "",
        .n_tokens = tokenizer_n_tokens(model->text->tokenizer),
        .token_bytes_max = (uint32_t)tokenizer_token_bytes_max(model->text->tokenizer),
        .has_chat_template = model->text->template != NULL,
        .chat_template_error = model->text->template_error,
        .chat_template = model->text->template_source};
    for (size_t i = 0; i < n_tensors; i++)
        info->weight_bytes += model_file_tensor(model->file, i)->n_bytes;
    if (!n_tensors) info->format = "tokenizer";
    if (!is_served) return;
    info->architecture = model->config.arch->name;
    info->hf_class = model->config.arch->hf_class;
    info->hf_type = model->config.arch->hf_type;
    info->context_trained = model->config.context_trained;
    info->n_vocab = model->config.n_vocab;
}

static void read_config(struct radish_model *model) {
    if (!model_file_n_tensors(model->file)) {
        model->config_status = error_set_field(&model->config_error, RADISH_E_NOT_FOUND, "model",
                                               "%s holds a tokenizer, but no weights", model->path);
        return;
    }
    model->config_status = config_read(model->file, &model->config, &model->config_error);
    if (model->config_status != RADISH_OK) return;
    add_eos(model, model->config.eos_ids, model->config.n_eos_ids);
}

enum radish_status radish_model_open(const char *path, const struct radish_model_options *options,
                                     struct radish_model **model_out, struct radish_error *err) {
    *model_out = NULL;
    struct radish_model *model = calloc(1, sizeof *model);
    if (!model) return error_nomem(err);
    struct model_text_options text_options = {0};
    if (options) {
        text_options.chat_template_path = options->chat_template_path;
        text_options.chat_template_name = options->chat_template_name;
    }
    enum radish_status status = find_path(path, &model->path, err);
    if (status == RADISH_OK)
        status = model_file_open(model->path, /*text_only_ok=*/true, &model->file, err);
    if (status == RADISH_OK)
        status = model_text_open(model->file, &text_options, &model->text, err);
    if (status == RADISH_OK) status = template_traits_find(model->text, &model->traits, err);
    if (status == RADISH_OK) {
        /* A cached model is called what it was asked for by: its path may end in a commit's hash.
         */
        const bool is_path = file_exists(path) || file_is_folder(path);
        model->name = find_name(is_path ? model->path : path);
        if (!model->name) status = error_nomem(err);
    }
    if (status != RADISH_OK) {
        radish_model_close(model);
        return status;
    }
    read_config(model);
    add_eos(model, model->text->eos_ids, model->text->n_eos_ids);
    fill_info(model);
    *model_out = model;
    return RADISH_OK;
}

void radish_model_close(struct radish_model *model) {
    if (!model) return;
    model_text_close(model->text);
    model_file_close(model->file);
    free(model->path);
    free(model->name);
    free(model);
}

const struct radish_model_info *radish_model_info(const struct radish_model *model) {
    return &model->info;
}

void radish_sampling_init(struct radish_sampling *sampling) {
    *sampling = (struct radish_sampling){
        .temperature = 1, .top_k = -1, .top_p = 1, .min_p = 0, .repetition_penalty = 1};
}

void radish_model_sampling(const struct radish_model *model, struct radish_sampling *sampling) {
    radish_sampling_init(sampling);
    if (model->config_status == RADISH_OK) *sampling = model->config.sampling;
}
