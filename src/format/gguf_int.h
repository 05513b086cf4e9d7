/* gguf_int.h - the inside of struct gguf, for gguf.c (which fills it) and gguf_get.c (which reads
 * it). */
#ifndef FORMAT_GGUF_INT_H
#define FORMAT_GGUF_INT_H

#include "gguf.h"

#include "base/arena.h"
#include "base/file_map.h"
#include "name_index.h"

struct gguf {
    struct file_map map; /* all zero over memory */
    const uint8_t *data; /* [n] */
    size_t n;
    uint32_t version;
    uint64_t alignment;
    uint64_t data_offset; /* where tensor data begins */
    struct arena arena;   /* keys, names and what the arrays below hold */
    size_t n_values, n_tensors;
    const char **keys;           /* [n_values] */
    struct gguf_value *values;   /* [n_values] */
    struct gguf_tensor *tensors; /* [n_tensors] */
    struct name_index key_index;
};

/* Bytes of one element, 0 for STR and ARRAY. */
size_t gguf_type_bytes(enum gguf_type type);

/* One packed element as a value of a scalar type. */
void gguf_load(enum gguf_type type, const uint8_t *p, struct gguf_value *value_out);

const char *gguf_type_name(enum gguf_type type); /* "uint32", "string", ...; static */

#endif
