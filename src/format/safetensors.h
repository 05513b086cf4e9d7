/* safetensors.h - one safetensors file: its table of tensors, mapped and checked.
 *
 *   8 bytes: N, little-endian | N bytes of JSON | tensor data
 *   {"__metadata__": {"k": "v"}, "NAME": {"dtype": "F32", "shape": [2, 3], "data_offsets": [0,
 * 24]}}
 *
 * Owns: the mapping and its index; all that it points to is borrowed until safetensors_close().
 * Everything is checked at open: header inside the file, names unique, shape x dtype == bytes, data
 * contiguous, without holes or overlaps, and as long as the file. Threads: immutable after open. */
#ifndef FORMAT_SAFETENSORS_H
#define FORMAT_SAFETENSORS_H

#include "radish.h"

#include "tensor/dtype.h"

#define SAFETENSORS_DIMS_MAX         6
#define SAFETENSORS_HEADER_BYTES_MAX 100000000u /* the limit of the reference implementation */

struct safetensors_tensor {
    const char *name;
    enum dtype dtype;                     /* not necessarily one that dtype_can_read() */
    uint32_t n_dims;                      /* 0..SAFETENSORS_DIMS_MAX; 0 = one element */
    uint64_t shape[SAFETENSORS_DIMS_MAX]; /* row-major */
    const uint8_t *data;                  /* [n_bytes], no alignment promised */
    uint64_t n_bytes;
    uint64_t offset; /* in the file */
};

struct safetensors;

/* E_NOT_FOUND, E_IO, E_FORMAT, E_UNSUPPORTED (an element type of unknown size), E_NOMEM; the
 * message names the file. */
enum radish_status safetensors_open(const char *path, struct safetensors **file_out,
                                    struct radish_error *err) RADISH_CHECK_RESULT;
/* The same over bytes in memory, which stay the caller's and must outlive the result. */
enum radish_status safetensors_open_memory(const uint8_t *data, size_t n,
                                           struct safetensors **file_out,
                                           struct radish_error *err) RADISH_CHECK_RESULT;
void safetensors_close(struct safetensors *file);

size_t safetensors_n_tensors(const struct safetensors *file);
const struct safetensors_tensor *safetensors_tensor(const struct safetensors *file,
                                                    size_t idx); /* sorted by name */
const struct safetensors_tensor *safetensors_find(const struct safetensors *file,
                                                  const char *name); /* NULL = absent */

/* The value of a key of __metadata__, or NULL. */
const char *safetensors_metadata(const struct safetensors *file, const char *key);

/* The pages of [offset, offset + n_bytes) of the file may go. */
void safetensors_release(const struct safetensors *file, uint64_t offset, uint64_t n_bytes);
/* Where the file is mapped (file_map.h); NULL: it is in memory. */
const uint8_t *safetensors_mapping(const struct safetensors *file, size_t *n_out);

#endif
