/* arena.c - memory for things that live and die together: a request, a template's run, a file's
 * index.
 *
 * A list of chunks; each new one is twice as large as the last, up to a megabyte (or as large as
 * one block needs), so that a small arena costs one page and a large one few calls of malloc().
 * Blocks are taken from the newest chunk only: what is left in an older one is lost, at most half
 * of it on average. A free list would win that back and cost the one property we want: freeing
 * everything is a walk over a handful of chunks, and nothing can be freed twice or forgotten. */
#include "arena.h"

#include "mem.h"

#include <stdlib.h>
#include <string.h>

enum { CHUNK_BYTES_FIRST = 4096, CHUNK_BYTES_MAX = 1 << 20, ARENA_ALIGN = 16 };

struct arena_chunk {
    struct arena_chunk *older;
    size_t used, capacity;
    _Alignas(ARENA_ALIGN) unsigned char data[];
};

void arena_init(struct arena *a, size_t bytes_max) {
    *a = (struct arena){.bytes_max = bytes_max};
}

void arena_deinit(struct arena *a) {
    if (!a) return;
    for (struct arena_chunk *c = a->chunk, *older; c; c = older) {
        older = c->older;
        free(c);
    }
    *a = (struct arena){.bytes_max = a->bytes_max};
}

static bool add_chunk(struct arena *a, size_t bytes) {
    size_t capacity = a->chunk ? a->chunk->capacity * 2 : CHUNK_BYTES_FIRST;
    if (capacity > CHUNK_BYTES_MAX) capacity = CHUNK_BYTES_MAX;
    if (capacity < bytes) capacity = bytes;
    size_t total;
    if (!mem_add(capacity, sizeof(struct arena_chunk), &total)) return false;
    struct arena_chunk *c = malloc(total);
    if (!c) return false;
    c->older = a->chunk;
    c->used = 0;
    c->capacity = capacity;
    a->chunk = c;
    return true;
}

void *arena_alloc(struct arena *a, size_t bytes) {
    size_t rounded, total;
    if (!mem_add(bytes ? bytes : 1, ARENA_ALIGN - 1, &rounded)) return NULL;
    rounded -= rounded % ARENA_ALIGN;
    if (!mem_add(a->bytes_used, rounded, &total) || (a->bytes_max && total > a->bytes_max))
        return NULL;
    if ((!a->chunk || a->chunk->capacity - a->chunk->used < rounded) && !add_chunk(a, rounded))
        return NULL;
    void *p = a->chunk->data + a->chunk->used;
    a->chunk->used += rounded;
    a->bytes_used = total;
    return p;
}

void *arena_zalloc(struct arena *a, size_t n, size_t size) {
    size_t bytes;
    if (!mem_mul(n, size, &bytes)) return NULL;
    void *p = arena_alloc(a, bytes);
    if (p) memset(p, 0, bytes);
    return p;
}

char *arena_strndup(struct arena *a, const char *s, size_t len) {
    size_t bytes;
    if (!mem_add(len, 1, &bytes)) return NULL;
    char *copy = arena_alloc(a, bytes);
    if (!copy) return NULL;
    if (len) memcpy(copy, s, len);
    copy[len] = '\0';
    return copy;
}
