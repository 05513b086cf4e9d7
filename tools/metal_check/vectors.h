/* vectors.h - golden vectors: cases of operations in one safetensors file, to be repeated on a
 * device that was not there when they were made.
 *
 *   __metadata__   "cases": "embed.f32 embed.q8_0 ...", and for each case its sizes:
 *                  "embed.f32": "op=embed n_rows=5 width=64 ..."
 *   tensors        "CASE/ARRAY" as it is before the operation, "CASE/ARRAY.expected" as the
 *                  reference has left it
 *
 * Owns: arrays, until vectors_deinit(). Threads: one at a time. */
#ifndef METAL_CHECK_VECTORS_H
#define METAL_CHECK_VECTORS_H

#include "radish.h"

#include "kernel/kernel.h"
#include "tensor/dtype.h"

#define VECTOR_ARRAYS_MAX 9
#define VECTOR_SIZES_MAX  20
#define VECTOR_CASES_MAX  96

struct vector_array {
    char name[16];
    enum dtype dtype;
    size_t n_bytes;
    uint8_t *data;
    bool is_out;
    uint8_t *expected; /* [n_bytes] with is_out */
};

struct vector_size {
    char name[20], value[20];
};

struct vector_case {
    char name[40]; /* "matmul.q8_0.gemv" */
    enum kernel_op op;
    struct vector_size sizes[VECTOR_SIZES_MAX];
    uint32_t n_sizes;
    struct vector_array arrays[VECTOR_ARRAYS_MAX];
    uint32_t n_arrays;
};

struct vectors {
    struct vector_case cases[VECTOR_CASES_MAX];
    uint32_t n_cases;
};

/* E_NOT_FOUND, E_IO, E_FORMAT (also: not what vectors_write() writes), E_NOMEM. */
enum radish_status vectors_read(const char *path, struct vectors *vectors_out,
                                struct radish_error *err) RADISH_CHECK_RESULT;
enum radish_status vectors_write(const char *path, const struct vectors *vectors,
                                 struct radish_error *err) RADISH_CHECK_RESULT;
void vectors_deinit(struct vectors *vectors);

/* Sizes of a case. Absent, or no such value: 0 (F32). */
uint32_t vector_u32(const struct vector_case *c, const char *name);
double vector_number(const struct vector_case *c, const char *name);
enum dtype vector_dtype(const struct vector_case *c, const char *name);
const struct vector_array *vector_find(const struct vector_case *c, const char *name); /* or NULL */

/* What a case is made of; the caller stays within the limits above. The array is zeroed; NULL when
 * out of memory. */
void vector_set(struct vector_case *c, const char *name, const char *format, ...)
    RADISH_PRINTF(3, 4);
void *vector_add(struct vector_case *c, const char *name, enum dtype dtype, size_t n_bytes,
                 bool is_out);

#endif
