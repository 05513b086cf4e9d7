/* mem.h - sizes that cannot overflow, and aligned memory. Plain malloc/calloc/free are used
 * directly elsewhere. Threads: any. */
#ifndef BASE_MEM_H
#define BASE_MEM_H

#include "radish.h"

struct pages_policy;

/* *out = a * b, or false (and *out = 0) when that does not fit. */
static inline bool mem_mul(size_t a, size_t b, size_t *out) {
    if (!__builtin_mul_overflow(a, b, out)) return true;
    *out = 0;
    return false;
}

static inline bool mem_add(size_t a, size_t b, size_t *out) {
    if (!__builtin_add_overflow(a, b, out)) return true;
    *out = 0;
    return false;
}

static inline bool mem_mul_u64(uint64_t a, uint64_t b, uint64_t *out) {
    if (!__builtin_mul_overflow(a, b, out)) return true;
    *out = 0;
    return false;
}

static inline bool mem_add_u64(uint64_t a, uint64_t b, uint64_t *out) {
    if (!__builtin_add_overflow(a, b, out)) return true;
    *out = 0;
    return false;
}

/* n * size bytes, zeroed; NULL when out of memory or when the product overflows. n or size 0 gives
 * a valid pointer. Caller frees with free(). */
void *mem_zalloc(size_t n, size_t size);

/* n * size bytes, not zeroed; otherwise as above. */
void *mem_alloc(size_t n, size_t size);

/* bytes bytes aligned to 64; large blocks ask for huge pages, or for what the policy says
 * (pages.h), and go back to the system when freed. Zeroed. Caller frees with mem_aligned_free(p,
 * bytes). */
void *mem_aligned_alloc(size_t bytes);
void *mem_placed_alloc(size_t bytes, const struct pages_policy *policy);
void mem_aligned_free(void *p, size_t bytes);

/* A copy of s[0..len) with a NUL behind it; NULL when out of memory. Caller frees with free(). */
char *mem_strndup(const char *s, size_t len);

#endif
