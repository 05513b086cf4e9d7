/* mem.c - allocation helpers. Large aligned blocks (weights, KV pool) come straight from mmap: they
 * start zeroed without being touched, can be huge pages, and go back to the system at once when
 * freed. */
#include "mem.h"

#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

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
    if (bytes >= MAP_FROM_BYTES) {
        void *p = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
        if (p == MAP_FAILED) return NULL;
#ifdef MADV_HUGEPAGE
        madvise(p, bytes, MADV_HUGEPAGE);
#endif
        return p;
    }
    size_t rounded = (bytes + ALIGN_BYTES - 1) / ALIGN_BYTES * ALIGN_BYTES;
    if (!rounded) rounded = ALIGN_BYTES;
    void *p = aligned_alloc(ALIGN_BYTES, rounded);
    if (p) memset(p, 0, rounded);
    return p;
}

void mem_aligned_free(void *p, size_t bytes) {
    if (!p) return;
    if (bytes >= MAP_FROM_BYTES)
        munmap(p, bytes);
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
