/* hf_folder.c - opens the files that make up a Hugging Face model.
 *
 *   config.json  generation_config.json  tokenizer.json  tokenizer_config.json
 *   special_tokens_map.json  chat_template.jinja            each may be absent
 *   model.safetensors                                       one file, or
 *   model.safetensors.index.json                            {"weight_map": {TENSOR: SHARD FILE}}
 *
 * As in transformers, the single file wins where both are there. From an index every shard it names
 * is opened once, and every tensor it promises must be in the shard it names: a half-copied folder
 * is found out here, not by a missing layer later. Shard names come from a file, so they may not
 * lead out of the folder: no '/' in them (symbolic links are followed, since Hugging Face's own
 * cache consists of them).
 *
 * Cost: the index is walked twice, each look-up a binary search; nothing of the weights is read. */
#include "hf_folder.h"

#include "base/file_map.h"
#include "base/json.h"
#include "base/mem.h"
#include "base/status.h"
#include "name_index.h"
#include "path.h"

#include <stdlib.h>
#include <string.h>

enum { JSON_BYTES_MAX = 256 << 20, TEMPLATE_BYTES_MAX = 4 << 20 };

static const char *const json_names[HF_JSON_FILE_COUNT] = {
    [HF_CONFIG] = "config.json",
    [HF_GENERATION_CONFIG] = "generation_config.json",
    [HF_TOKENIZER] = "tokenizer.json",
    [HF_TOKENIZER_CONFIG] = "tokenizer_config.json",
    [HF_SPECIAL_TOKENS_MAP] = "special_tokens_map.json",
};

/* Parses text as a file's JSON object; the caller puts the file's name before the message. */
static enum radish_status parse_object(const char *text, size_t len, yyjson_doc **doc_out,
                                       struct radish_error *err) {
    enum radish_status status = json_parse(text, len, JSON_DEPTH_MAX, doc_out, err);
    if (status == RADISH_OK && !yyjson_is_obj(yyjson_doc_get_root(*doc_out))) {
        status = error_set(err, RADISH_E_FORMAT, "not a JSON object but %s",
                           json_type_name(yyjson_doc_get_root(*doc_out)));
        yyjson_doc_free(*doc_out);
        *doc_out = NULL;
    }
    if (status == RADISH_E_INVALID) {
        status = RADISH_E_FORMAT;
        if (err) err->status = status;
    }
    return status;
}

/* A file that is not there is no failure; what was said about it is taken back. */
static enum radish_status accept_absent(enum radish_status status, struct radish_error *err) {
    if (status != RADISH_E_NOT_FOUND) return status;
    if (err) *err = (struct radish_error){0};
    return RADISH_OK;
}

/* *doc_out stays NULL when there is no such file. */
static enum radish_status read_json(const char *folder, const char *name, yyjson_doc **doc_out,
                                    struct radish_error *err) {
    char *text = NULL;
    size_t len = 0;
    *doc_out = NULL;
    char *path = path_join(folder, name);
    if (!path) return error_nomem(err);
    enum radish_status status = file_read(path, JSON_BYTES_MAX, &text, &len, err);
    if (status == RADISH_OK) {
        status = parse_object(text, len, doc_out, err);
        if (status != RADISH_OK) path_prefix_error(err, path);
    } else {
        status = accept_absent(status, err);
    }
    free(text);
    free(path);
    return status;
}

static enum radish_status read_template(struct hf_folder *f, const char *folder,
                                        struct radish_error *err) {
    char *path = path_join(folder, "chat_template.jinja");
    if (!path) return error_nomem(err);
    enum radish_status status =
        file_read(path, TEMPLATE_BYTES_MAX, &f->chat_template, &f->chat_template_len, err);
    free(path);
    return accept_absent(status, err);
}

/* The shard's file name of one entry of weight_map, or NULL: not a plain name. */
static const char *shard_name(yyjson_val *val) {
    const char *name = yyjson_get_str(val);
    if (!name || strlen(name) != yyjson_get_len(val) || strchr(name, '/')) return NULL;
    return *name && strcmp(name, ".") != 0 && strcmp(name, "..") != 0 ? name : NULL;
}

/* Fills the index with the distinct shard names, sorted; their idx counts from 0. */
static enum radish_status list_shards(yyjson_val *weight_map, struct name_index *shards,
                                      struct radish_error *err) {
    size_t idx, max, n = 0;
    yyjson_val *key, *val;
    if (!name_index_init(shards, yyjson_obj_size(weight_map))) return error_nomem(err);
    yyjson_obj_foreach(weight_map, idx, max, key, val) {
        const char *name = shard_name(val);
        if (!name)
            return error_set_field(err, RADISH_E_FORMAT, yyjson_get_str(key),
                                   "weight_map: '%.80s' names no file of this folder ('%.60s')",
                                   yyjson_get_str(key),
                                   yyjson_is_str(val) ? yyjson_get_str(val) : json_type_name(val));
        shards->entries[idx] = (struct name_entry){name, idx};
    }
    (void)name_index_build(shards, NULL); /* the same name many times is what is expected */
    for (size_t i = 0; i < shards->n; i++) {
        if (n && strcmp(shards->entries[n - 1].name, shards->entries[i].name) == 0) continue;
        shards->entries[n] = (struct name_entry){shards->entries[i].name, n};
        n++;
    }
    shards->n = n;
    return RADISH_OK;
}

static enum radish_status open_shard(struct hf_folder *f, const char *folder, const char *name,
                                     struct radish_error *err) {
    char *path = path_join(folder, name);
    if (!path) return error_nomem(err);
    enum radish_status status = safetensors_open(path, &f->shards[f->n_shards], err);
    if (status == RADISH_OK) f->n_shards++;
    free(path);
    return status;
}

static enum radish_status check_weight_map(const struct hf_folder *f, yyjson_val *weight_map,
                                           const struct name_index *shards,
                                           struct radish_error *err) {
    size_t idx, max;
    yyjson_val *key, *val;
    yyjson_obj_foreach(weight_map, idx, max, key, val) {
        const char *tensor = yyjson_get_str(key), *shard = yyjson_get_str(val);
        if (!safetensors_find(f->shards[name_index_find(shards, shard)], tensor))
            return error_set_field(err, RADISH_E_FORMAT, tensor,
                                   "tensor '%.80s' is promised to be in %.80s, but is not there",
                                   tensor, shard);
    }
    return RADISH_OK;
}

static enum radish_status open_sharded(struct hf_folder *f, const char *folder, yyjson_doc *index,
                                       struct radish_error *err) {
    yyjson_val *weight_map = json_get(yyjson_doc_get_root(index), "weight_map");
    struct name_index shards = {0};
    enum radish_status status = RADISH_OK;
    if (!yyjson_is_obj(weight_map) || !yyjson_obj_size(weight_map))
        return error_set_field(err, RADISH_E_FORMAT, "weight_map",
                               "model.safetensors.index.json: weight_map is %s",
                               yyjson_is_obj(weight_map) ? "empty" : json_type_name(weight_map));
    status = list_shards(weight_map, &shards, err);
    if (status == RADISH_OK) {
        f->shards = mem_zalloc(shards.n, sizeof(struct safetensors *));
        if (!f->shards) status = error_nomem(err);
    }
    if (status == RADISH_E_FORMAT) error_prefix(err, "model.safetensors.index.json");
    for (size_t i = 0; i < shards.n && status == RADISH_OK; i++) {
        status = open_shard(f, folder, shards.entries[i].name, err);
        if (status == RADISH_E_NOT_FOUND)
            status = error_set(err, RADISH_E_NOT_FOUND,
                               "%.120s: the shard %.80s that model.safetensors.index.json names is "
                               "missing",
                               folder, shards.entries[i].name);
    }
    if (status == RADISH_OK) {
        status = check_weight_map(f, weight_map, &shards, err);
        if (status != RADISH_OK) error_prefix(err, "model.safetensors.index.json");
    }
    name_index_deinit(&shards);
    return status;
}

static bool has_file(const char *folder, const char *name) {
    char *path = path_join(folder, name);
    const bool is_there = path && file_exists(path);
    free(path);
    return is_there;
}

static enum radish_status open_weights(struct hf_folder *f, const char *folder, bool text_only_ok,
                                       struct radish_error *err) {
    yyjson_doc *index = NULL;
    if (has_file(folder, "model.safetensors")) {
        f->shards = mem_zalloc(1, sizeof(struct safetensors *));
        return f->shards ? open_shard(f, folder, "model.safetensors", err) : error_nomem(err);
    }
    RADISH_TRY(read_json(folder, "model.safetensors.index.json", &index, err));
    if (index) {
        enum radish_status status = open_sharded(f, folder, index, err);
        yyjson_doc_free(index);
        return status;
    }
    if (text_only_ok) return RADISH_OK;
    if (has_file(folder, "pytorch_model.bin") || has_file(folder, "pytorch_model.bin.index.json"))
        return error_set(err, RADISH_E_UNSUPPORTED,
                         "%.160s: weights in pytorch_model.bin are not supported; supported are "
                         "safetensors and GGUF",
                         folder);
    return error_set(err, RADISH_E_NOT_FOUND,
                     "%.160s: no weights: neither model.safetensors, nor "
                     "model.safetensors.index.json, nor one .gguf file",
                     folder);
}

enum radish_status hf_folder_open(const char *path, bool text_only_ok, struct hf_folder *folder_out,
                                  struct radish_error *err) {
    struct hf_folder f = {0};
    enum radish_status status = RADISH_OK;
    *folder_out = f;
    for (int i = 0; i < HF_JSON_FILE_COUNT && status == RADISH_OK; i++)
        status = read_json(path, json_names[i], &f.docs[i], err);
    if (status == RADISH_OK) status = read_template(&f, path, err);
    if (status == RADISH_OK) status = open_weights(&f, path, text_only_ok, err);
    if (status == RADISH_OK)
        *folder_out = f;
    else
        hf_folder_close(&f);
    return status;
}

enum radish_status hf_folder_open_config(const char *json, size_t len, struct hf_folder *folder_out,
                                         struct radish_error *err) {
    *folder_out = (struct hf_folder){0};
    enum radish_status status = parse_object(json, len, &folder_out->docs[HF_CONFIG], err);
    if (status != RADISH_OK) error_prefix(err, "config.json");
    return status;
}

void hf_folder_close(struct hf_folder *folder) {
    if (!folder) return;
    for (int i = 0; i < HF_JSON_FILE_COUNT; i++) yyjson_doc_free(folder->docs[i]);
    for (size_t i = 0; i < folder->n_shards; i++) safetensors_close(folder->shards[i]);
    free(folder->shards);
    free(folder->chat_template);
    *folder = (struct hf_folder){0};
}
