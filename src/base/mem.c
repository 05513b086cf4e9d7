/* mem.c - allocation helpers. Large aligned blocks (KV pool, scratch) come in pages of their own:
 * they start zeroed without being touched, can be huge pages, and go back to the system at once
 * when freed. Small ones come from the heap, where a page of their own would be mostly empty and
 * where sanitizers see their ends. */
#include "mem.h"

#include "pages.h"

#include <stdlib.h>
#include <string.h>

enum { ALIGN_BYTES = 64, MAP_FROM_BYTES = 1 << 20 };

void *mem_zalloc(size_t n, size_t size) {
    size_t bytes;
    if (!mem_mul(n, size, &bytes)) return NULL; /* sanitizers end the process in calloc() instead */
    return calloc(1, bytes ? bytes : 1);
}

void *mem_alloc(size_t n, size_t size) {
    size_t bytes;
    if (!mem_mul(n, size, &bytes)) return NULL;
    return malloc(bytes ? bytes : 1);
}

void *mem_aligned_alloc(size_t bytes) {
    static const struct pages_policy usual = {.huge_bytes = 2 << 20};
    return mem_placed_alloc(bytes, &usual);
}

void *mem_placed_alloc(size_t bytes, const struct pages_policy *policy) {
    if (bytes >= MAP_FROM_BYTES) return pages_map(bytes, policy);
    size_t rounded = (bytes + ALIGN_BYTES - 1) / ALIGN_BYTES * ALIGN_BYTES;
    if (!rounded) rounded = ALIGN_BYTES;
    void *p = aligned_alloc(ALIGN_BYTES, rounded);
    if (p) memset(p, 0, rounded);
    return p;
}

void mem_aligned_free(void *p, size_t bytes) {
    if (bytes >= MAP_FROM_BYTES)
        pages_unmap(p, bytes);
    else
        free(p);
}

char *mem_strndup(const char *s, size_t len) {
    size_t bytes;
    if (!mem_add(len, 1, &bytes)) return NULL;
    char *copy = malloc(bytes);
    if (!copy) return NULL;
    if (len) memcpy(copy, s, len);
    copy[len] = '\0';
    return copy;
}
