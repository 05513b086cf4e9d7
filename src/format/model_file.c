/* model_file.c - one table of tensors over all formats, and the search for what a path means.
 *
 *   path ── is a file ──────────────────> GGUF, perhaps split (gguf_split.c)
 *        ── is a folder ── safetensors ─> Hugging Face folder (hf_folder.c)
 *                       ── one .gguf ───> that file
 *                       ── neither ─────> tokenizer files only, where the caller can do with them
 *        ── neither ── a cached name ───> as above (model_cache.c)
 *
 * The table is sorted by name, so that a look-up is a binary search, listings are stable, and a
 * tensor that two files claim shows up as a neighbour of itself. GGUF stores shapes with the
 * fastest dimension first; here they are turned to row-major, so that a matrix is [rows, columns]
 * whatever it came from. What is not unified is meaning: names and metadata differ between the
 * formats, and model/ knows how. */
#include "model_file.h"

#include "base/file_map.h"
#include "base/mem.h"
#include "base/status.h"
#include "gguf_split.h"
#include "hf_folder.h"
#include "model_cache.h"
#include "path.h"

#include <dirent.h>
#include <stdlib.h>
#include <string.h>

_Static_assert(MODEL_TENSOR_DIMS_MAX == SAFETENSORS_DIMS_MAX, "shapes are copied");

struct model_file {
    enum model_format format;
    char *path;
    struct hf_folder folder; /* zero for GGUF */
    struct gguf **ggufs;     /* [n_ggufs], NULL for folders */
    size_t n_ggufs;
    struct model_tensor *tensors; /* [n_tensors] sorted by name */
    size_t n_tensors;
};

static struct model_tensor from_gguf(const struct gguf_tensor *t, uint32_t file_idx) {
    struct model_tensor out = {.name = t->name.data,
                               .dtype = t->dtype,
                               .n_dims = t->n_dims,
                               .data = t->data,
                               .n_bytes = t->n_bytes,
                               .file_idx = file_idx,
                               .offset = t->offset};
    for (uint32_t i = 0; i < t->n_dims; i++) out.shape[i] = t->dims[t->n_dims - 1 - i];
    return out;
}

static struct model_tensor from_safetensors(const struct safetensors_tensor *t, uint32_t file_idx) {
    struct model_tensor out = {.name = t->name,
                               .dtype = t->dtype,
                               .n_dims = t->n_dims,
                               .data = t->data,
                               .n_bytes = t->n_bytes,
                               .file_idx = file_idx,
                               .offset = t->offset};
    memcpy(out.shape, t->shape, sizeof out.shape);
    return out;
}

static int compare_tensors(const void *a_void, const void *b_void) {
    const struct model_tensor *a = a_void, *b = b_void;
    return strcmp(a->name, b->name);
}

/* Builds the table from the files that are open. */
static enum radish_status list_tensors(struct model_file *f, struct radish_error *err) {
    size_t n = 0, filled = 0;
    for (size_t i = 0; i < f->n_ggufs; i++) n += gguf_n_tensors(f->ggufs[i]);
    for (size_t i = 0; i < f->folder.n_shards; i++) n += safetensors_n_tensors(f->folder.shards[i]);
    f->tensors = mem_zalloc(n, sizeof *f->tensors);
    if (!f->tensors) return error_nomem(err);
    for (size_t i = 0; i < f->n_ggufs; i++)
        for (size_t j = 0; j < gguf_n_tensors(f->ggufs[i]); j++)
            f->tensors[filled++] = from_gguf(gguf_tensor(f->ggufs[i], j), (uint32_t)i);
    for (size_t i = 0; i < f->folder.n_shards; i++)
        for (size_t j = 0; j < safetensors_n_tensors(f->folder.shards[i]); j++)
            f->tensors[filled++] =
                from_safetensors(safetensors_tensor(f->folder.shards[i], j), (uint32_t)i);
    f->n_tensors = n;
    qsort(f->tensors, n, sizeof *f->tensors, compare_tensors);
    for (size_t i = 1; i < n; i++)
        if (strcmp(f->tensors[i - 1].name, f->tensors[i].name) == 0)
            return error_set_field(err, RADISH_E_FORMAT, f->tensors[i].name,
                                   "%.120s: tensor '%.80s' is in two of the model's files", f->path,
                                   f->tensors[i].name);
    return RADISH_OK;
}

/* Finds the GGUF models of a folder: *n_out of them, later parts of split ones not counted; the
 * first by name is in *name_out (caller frees), NULL when there is none. */
static enum radish_status find_ggufs(const char *folder, char **name_out, size_t *n_out,
                                     struct radish_error *err) {
    enum radish_status status = RADISH_OK;
    *name_out = NULL;
    *n_out = 0;
    DIR *dir = opendir(folder);
    if (!dir) return error_set(err, RADISH_E_IO, "%.200s: cannot be listed", folder);
    for (struct dirent *entry; status == RADISH_OK && (entry = readdir(dir));) {
        if (!path_has_suffix(entry->d_name, ".gguf") || gguf_split_is_later_part(entry->d_name))
            continue;
        ++*n_out;
        if (*name_out && strcmp(*name_out, entry->d_name) <= 0) continue;
        free(*name_out);
        *name_out = mem_strndup(entry->d_name, strlen(entry->d_name));
        if (!*name_out) status = error_nomem(err);
    }
    closedir(dir);
    return status;
}

static bool has_safetensors(const char *folder, bool *has_out) {
    static const char *const names[] = {"model.safetensors", "model.safetensors.index.json"};
    *has_out = false;
    for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
        char *path = path_join(folder, names[i]);
        if (!path) return false;
        *has_out = *has_out || file_exists(path);
        free(path);
    }
    return true;
}

/* A folder without safetensors may hold one GGUF model: then *path becomes that file's. */
static enum radish_status step_into_folder(char **path, struct radish_error *err) {
    char *name = NULL;
    size_t n = 0;
    bool has_weights = false;
    if (!has_safetensors(*path, &has_weights)) return error_nomem(err);
    if (has_weights) return RADISH_OK;
    enum radish_status status = find_ggufs(*path, &name, &n, err);
    if (status == RADISH_OK && n > 1) {
        status = error_set(err, RADISH_E_INVALID,
                           "%.120s: holds %zu GGUF models; give the path of one of them, such as "
                           "%.100s",
                           *path, n, name);
    } else if (status == RADISH_OK && n == 1) {
        char *file = path_join(*path, name);
        if (file) {
            free(*path);
            *path = file;
        } else {
            status = error_nomem(err);
        }
    }
    free(name);
    return status;
}

/* What a path, or a name, means on this machine; caller frees. */
static enum radish_status resolve(const char *path, char **path_out, struct radish_error *err) {
    *path_out = NULL;
    if (!*path) return error_set(err, RADISH_E_INVALID, "the model's path is empty");
    if (file_exists(path)) {
        *path_out = mem_strndup(path, strlen(path));
        if (!*path_out) return error_nomem(err);
    } else if (model_cache_is_name(path)) {
        RADISH_TRY(model_cache_find(path, path_out, err));
    } else {
        return error_set(err, RADISH_E_NOT_FOUND, "%.200s: no such file or folder", path);
    }
    if (!file_is_folder(*path_out)) return RADISH_OK;
    enum radish_status status = step_into_folder(path_out, err);
    if (status != RADISH_OK) {
        free(*path_out);
        *path_out = NULL;
    }
    return status;
}

static enum radish_status open_files(struct model_file *f, bool text_only_ok,
                                     struct radish_error *err) {
    if (file_is_folder(f->path)) {
        RADISH_TRY(hf_folder_open(f->path, text_only_ok, &f->folder, err));
        f->format = f->folder.n_shards ? MODEL_FORMAT_SAFETENSORS : MODEL_FORMAT_TEXT_ONLY;
        return list_tensors(f, err);
    }
    if (path_has_suffix(f->path, ".safetensors"))
        return error_set(err, RADISH_E_INVALID,
                         "%.200s: a single safetensors file is no model; give the folder that it "
                         "lies in",
                         f->path);
    f->format = MODEL_FORMAT_GGUF;
    RADISH_TRY(gguf_split_open(f->path, &f->ggufs, &f->n_ggufs, err));
    return list_tensors(f, err);
}

enum radish_status model_file_open(const char *path, bool text_only_ok,
                                   struct model_file **file_out, struct radish_error *err) {
    *file_out = NULL;
    struct model_file *f = mem_zalloc(1, sizeof *f);
    if (!f) return error_nomem(err);
    enum radish_status status = resolve(path, &f->path, err);
    if (status == RADISH_OK) status = open_files(f, text_only_ok, err);
    if (status == RADISH_OK)
        *file_out = f;
    else
        model_file_close(f);
    return status;
}

/* Finishes a model that is only in memory: `f` is what was made of it, with `status`. */
static enum radish_status finish_memory(struct model_file *f, enum radish_status status,
                                        struct model_file **file_out, struct radish_error *err) {
    if (status == RADISH_OK) {
        f->path = mem_strndup("memory", 6);
        status = f->path ? list_tensors(f, err) : error_nomem(err);
    }
    if (status == RADISH_OK)
        *file_out = f;
    else
        model_file_close(f);
    return status;
}

enum radish_status model_file_open_config(const char *json, size_t len,
                                          struct model_file **file_out, struct radish_error *err) {
    *file_out = NULL;
    struct model_file *f = mem_zalloc(1, sizeof *f);
    if (!f) return error_nomem(err);
    f->format = MODEL_FORMAT_SAFETENSORS;
    return finish_memory(f, hf_folder_open_config(json, len, &f->folder, err), file_out, err);
}

enum radish_status model_file_open_gguf_memory(const uint8_t *data, size_t n,
                                               struct model_file **file_out,
                                               struct radish_error *err) {
    enum radish_status status = RADISH_OK;
    *file_out = NULL;
    struct model_file *f = mem_zalloc(1, sizeof *f);
    if (!f) return error_nomem(err);
    f->format = MODEL_FORMAT_GGUF;
    f->ggufs = mem_zalloc(1, sizeof(struct gguf *));
    if (f->ggufs) {
        f->n_ggufs = 1;
        status = gguf_open_memory(data, n, &f->ggufs[0], err);
    } else {
        status = error_nomem(err);
    }
    return finish_memory(f, status, file_out, err);
}

void model_file_close(struct model_file *file) {
    if (!file) return;
    gguf_split_close(file->ggufs, file->n_ggufs);
    hf_folder_close(&file->folder);
    free(file->tensors);
    free(file->path);
    free(file);
}

enum model_format model_file_format(const struct model_file *file) {
    return file->format;
}

const char *model_file_path(const struct model_file *file) {
    return file->path;
}

size_t model_file_n_tensors(const struct model_file *file) {
    return file->n_tensors;
}

const struct model_tensor *model_file_tensor(const struct model_file *file, size_t idx) {
    return &file->tensors[idx];
}

static int compare_name_to_tensor(const void *name, const void *tensor) {
    return strcmp(name, ((const struct model_tensor *)tensor)->name);
}

const struct model_tensor *model_file_find(const struct model_file *file, const char *name) {
    return bsearch(name, file->tensors, file->n_tensors, sizeof *file->tensors,
                   compare_name_to_tensor);
}

void model_file_release(const struct model_file *file, const struct model_tensor *tensor) {
    if (file->format == MODEL_FORMAT_GGUF)
        gguf_release(file->ggufs[tensor->file_idx], tensor->offset, tensor->n_bytes);
    else
        safetensors_release(file->folder.shards[tensor->file_idx], tensor->offset, tensor->n_bytes);
}

size_t model_file_n_mappings(const struct model_file *file) {
    return file->format == MODEL_FORMAT_GGUF ? file->n_ggufs : file->folder.n_shards;
}

const uint8_t *model_file_mapping(const struct model_file *file, size_t file_idx, size_t *n_out) {
    if (file->format == MODEL_FORMAT_GGUF) return gguf_mapping(file->ggufs[file_idx], n_out);
    return safetensors_mapping(file->folder.shards[file_idx], n_out);
}

const struct gguf *model_file_gguf(const struct model_file *file) {
    return file->n_ggufs ? file->ggufs[0] : NULL;
}

yyjson_val *model_file_config(const struct model_file *file) {
    return yyjson_doc_get_root(file->folder.docs[HF_CONFIG]);
}

yyjson_val *model_file_generation_config(const struct model_file *file) {
    return yyjson_doc_get_root(file->folder.docs[HF_GENERATION_CONFIG]);
}

yyjson_val *model_file_tokenizer(const struct model_file *file) {
    return yyjson_doc_get_root(file->folder.docs[HF_TOKENIZER]);
}

yyjson_val *model_file_tokenizer_config(const struct model_file *file) {
    return yyjson_doc_get_root(file->folder.docs[HF_TOKENIZER_CONFIG]);
}

yyjson_val *model_file_special_tokens_map(const struct model_file *file) {
    return yyjson_doc_get_root(file->folder.docs[HF_SPECIAL_TOKENS_MAP]);
}

const char *model_file_chat_template(const struct model_file *file, size_t *len_out) {
    *len_out = file->folder.chat_template_len;
    return file->folder.chat_template;
}
