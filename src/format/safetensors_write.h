/* safetensors_write.h - writes a safetensors file piece by piece: first what is in it, then the
 * data, in the same order.
 *
 *   create -> metadata*, tensor*  -> data* (any pieces, n_bytes of all tensors in total) -> finish
 *
 * Errors stick: after the first one every call returns it, so that a caller may check only the
 * last. Owns: the file until finish or destroy; a file that was not finished is removed. Threads:
 * one at a time. */
#ifndef FORMAT_SAFETENSORS_WRITE_H
#define FORMAT_SAFETENSORS_WRITE_H

#include "radish.h"

#include "tensor/dtype.h"

struct safetensors_writer;

/* Creates or replaces the file. E_IO names it. */
enum radish_status safetensors_writer_create(const char *path,
                                             struct safetensors_writer **writer_out,
                                             struct radish_error *err) RADISH_CHECK_RESULT;

/* One entry of __metadata__; both strings are UTF-8 and copied. */
enum radish_status safetensors_writer_metadata(struct safetensors_writer *writer, const char *key,
                                               const char *value,
                                               struct radish_error *err) RADISH_CHECK_RESULT;

/* Declares the next tensor: shape[0..n_dims), a dtype that safetensors has a name for; the name is
 * copied and must be new. */
enum radish_status safetensors_writer_tensor(struct safetensors_writer *writer, const char *name,
                                             enum dtype dtype, uint32_t n_dims,
                                             const uint64_t *shape,
                                             struct radish_error *err) RADISH_CHECK_RESULT;

/* The next n bytes of data, little-endian. The first call ends the declarations. */
enum radish_status safetensors_writer_data(struct safetensors_writer *writer, const void *bytes,
                                           size_t n, struct radish_error *err) RADISH_CHECK_RESULT;

/* Checks that all declared data came, and closes the file. The writer is gone afterwards, whatever
 * the result. */
enum radish_status safetensors_writer_finish(struct safetensors_writer *writer,
                                             struct radish_error *err) RADISH_CHECK_RESULT;
void safetensors_writer_destroy(struct safetensors_writer *writer); /* gives up; NULL is fine */

#endif
