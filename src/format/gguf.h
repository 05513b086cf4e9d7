/* gguf.h - one GGUF file (versions 2 and 3, little-endian): metadata and tensor table, mapped and
 * checked.
 *
 * Owns: the mapping and its index. Strings, arrays and tensor data are borrowed from the mapping
 * until gguf_close(). Tensors of a type that radish cannot read but knows the size of are listed:
 * ask dtype_can_read(). Everything is checked at open: counts and lengths against the bytes that
 * remain, names unique, tensors inside the file, aligned, not overlapping. Threads: immutable after
 * open. */
#ifndef FORMAT_GGUF_H
#define FORMAT_GGUF_H

#include "radish.h"

#include "tensor/dtype.h"

enum gguf_type {
    GGUF_U8,
    GGUF_I8,
    GGUF_U16,
    GGUF_I16,
    GGUF_U32,
    GGUF_I32,
    GGUF_F32,
    GGUF_BOOL,
    GGUF_STR,
    GGUF_ARRAY,
    GGUF_U64,
    GGUF_I64,
    GGUF_F64
};

struct gguf_str {
    const char *data; /* [len], not NUL-terminated, any bytes */
    uint64_t len;
};

struct gguf_value {
    enum gguf_type type;
    union {
        uint64_t u; /* unsigned types and BOOL */
        int64_t i;  /* signed types */
        double f;   /* F32, F64 */
        struct gguf_str s;
        struct {
            enum gguf_type elem_type; /* never ARRAY: nested arrays are refused */
            uint64_t n;
            const uint8_t *data; /* [n] packed little-endian elements, for all types but STR */
            const struct gguf_str *strs; /* [n] for STR */
        } array;
    };
};

struct gguf_tensor {
    struct gguf_str name; /* NUL-terminated, no NUL inside */
    enum dtype dtype;
    uint32_t n_dims;  /* 1..4 */
    uint64_t dims[4]; /* as stored: dims[0] runs fastest */
    const uint8_t *data;
    uint64_t n_bytes;
    uint64_t offset; /* in the file */
};

struct gguf;

enum radish_status gguf_open(const char *path, struct gguf **gguf_out,
                             struct radish_error *err) RADISH_CHECK_RESULT;
/* The same over bytes in memory, which stay the caller's and must outlive the result (fuzzing,
 * tests). */
enum radish_status gguf_open_memory(const uint8_t *data, size_t n, struct gguf **gguf_out,
                                    struct radish_error *err) RADISH_CHECK_RESULT;
void gguf_close(struct gguf *gguf);

uint32_t gguf_version(const struct gguf *gguf);
size_t gguf_n_values(const struct gguf *gguf);
const char *gguf_key(const struct gguf *gguf, size_t idx); /* NUL-terminated */
const struct gguf_value *gguf_value(const struct gguf *gguf, size_t idx);
const struct gguf_value *gguf_find(const struct gguf *gguf, const char *key); /* NULL = absent */

size_t gguf_n_tensors(const struct gguf *gguf);
const struct gguf_tensor *gguf_tensor(const struct gguf *gguf,
                                      size_t idx); /* in the file's order */
/* The pages of [offset, offset + n_bytes) of the file may go. */
void gguf_release(const struct gguf *gguf, uint64_t offset, uint64_t n_bytes);
/* Where the file is mapped (file_map.h); NULL: it is in memory. */
const uint8_t *gguf_mapping(const struct gguf *gguf, size_t *n_out);

/* Typed reads. Absent: *out unchanged, OK. Wrong type or range: E_FORMAT naming the key. Integers
 * of any width are accepted where they fit. */
enum radish_status gguf_get_u32(const struct gguf *gguf, const char *key, uint32_t *out,
                                struct radish_error *err) RADISH_CHECK_RESULT;
enum radish_status gguf_get_f64(const struct gguf *gguf, const char *key, double *out,
                                struct radish_error *err) RADISH_CHECK_RESULT;
enum radish_status gguf_get_bool(const struct gguf *gguf, const char *key, bool *out,
                                 struct radish_error *err) RADISH_CHECK_RESULT;
enum radish_status gguf_get_str(const struct gguf *gguf, const char *key, struct gguf_str *out,
                                struct radish_error *err) RADISH_CHECK_RESULT;

/* Element idx < n of an integer or bool array / of a float array; the caller has checked elem_type
 * with gguf_is_int(). */
bool gguf_is_int(enum gguf_type type);
int64_t gguf_array_i64(const struct gguf_value *value, uint64_t idx);
double gguf_array_f64(const struct gguf_value *value, uint64_t idx);

#endif
