/* model_file.h - a model on disk, whatever its format: its tensors by name, and the metadata files
 * beside or inside it.
 *
 * A Hugging Face folder: config.json, generation_config.json, tokenizer.json,
 * tokenizer_config.json, special_tokens_map.json, chat_template.jinja (each may be absent),
 * model.safetensors or the shards of model.safetensors.index.json. A GGUF file, or the first of a
 * split one (NAME-00001-of-00005.gguf): metadata of the first, tensors of all.
 *
 * Owns: mappings and parsed documents; all that it points to is borrowed until model_file_close().
 * Threads: immutable after open. */
#ifndef FORMAT_MODEL_FILE_H
#define FORMAT_MODEL_FILE_H

#include "radish.h"

#include "format/gguf.h"
#include "tensor/dtype.h"

#include <yyjson.h>

#define MODEL_TENSOR_DIMS_MAX 6

enum model_format {
    MODEL_FORMAT_SAFETENSORS,
    MODEL_FORMAT_GGUF,
    MODEL_FORMAT_TEXT_ONLY /* a folder without weights */
};

struct model_tensor {
    const char *name;
    enum dtype dtype;
    uint32_t n_dims; /* 0..MODEL_TENSOR_DIMS_MAX; 1..4 for GGUF */
    uint64_t
        shape[MODEL_TENSOR_DIMS_MAX]; /* row-major: shape[n_dims-1] runs fastest, also for GGUF */
    const uint8_t *data;              /* [n_bytes], mapped, no alignment promised */
    uint64_t n_bytes;
    uint32_t file_idx;
    uint64_t offset; /* in that file */
};

struct model_file;

/* path: a folder (also one that holds a single GGUF model), a .gguf file, or a name in the model
 * cache (model_cache.h). A folder without weights opens only with text_only_ok. Errors name file,
 * tensor and offset. Tensors of types that cannot be read are listed: dtype_can_read(). */
enum radish_status model_file_open(const char *path, bool text_only_ok,
                                   struct model_file **file_out,
                                   struct radish_error *err) RADISH_CHECK_RESULT;
void model_file_close(struct model_file *file);

/* For tests and fuzzing: a folder that holds nothing but this config.json (copied); a GGUF file in
 * memory (its bytes stay the caller's and must outlive the result). */
enum radish_status model_file_open_config(const char *json, size_t len,
                                          struct model_file **file_out,
                                          struct radish_error *err) RADISH_CHECK_RESULT;
enum radish_status model_file_open_gguf_memory(const uint8_t *data, size_t n,
                                               struct model_file **file_out,
                                               struct radish_error *err) RADISH_CHECK_RESULT;

enum model_format model_file_format(const struct model_file *file);
const char *model_file_path(const struct model_file *file);

size_t model_file_n_tensors(const struct model_file *file);
const struct model_tensor *model_file_tensor(const struct model_file *file,
                                             size_t idx); /* sorted by name */
const struct model_tensor *model_file_find(const struct model_file *file,
                                           const char *name); /* NULL = absent */

/* Its pages may go: the tensor has been copied. */
void model_file_release(const struct model_file *file, const struct model_tensor *tensor);

/* The files that tensors lie in, by file_idx: where each is mapped (file_map.h), until close. NULL:
 * it is in memory. */
size_t model_file_n_mappings(const struct model_file *file);
const uint8_t *model_file_mapping(const struct model_file *file, size_t file_idx, size_t *n_out);

/* The GGUF whose metadata counts; NULL for folders. */
const struct gguf *model_file_gguf(const struct model_file *file);

/* Parsed JSON files of a folder (root objects); NULL where absent, and for GGUF. */
yyjson_val *model_file_config(const struct model_file *file);
yyjson_val *model_file_generation_config(const struct model_file *file);
yyjson_val *model_file_tokenizer(const struct model_file *file);
yyjson_val *model_file_tokenizer_config(const struct model_file *file);
yyjson_val *model_file_special_tokens_map(const struct model_file *file);

/* chat_template.jinja of a folder, or NULL (it may also be in tokenizer_config.json or, for GGUF,
 * in tokenizer.chat_template: model/ looks there). */
const char *model_file_chat_template(const struct model_file *file, size_t *len_out);

#endif
