/* arena.h - memory that is freed all at once: chunks of growing size, no free of single blocks. For
 * a parse, a render, a request. bytes_max bounds the sum of all blocks: past it, or out of memory,
 * allocation gives NULL. Threads: one at a time. */
#ifndef BASE_ARENA_H
#define BASE_ARENA_H

#include "radish.h"

struct arena_chunk;

struct arena {
    struct arena_chunk *chunk; /* newest */
    size_t bytes_used;         /* handed out, over all chunks */
    size_t bytes_max;          /* 0 = no limit */
};

void arena_init(struct arena *a, size_t bytes_max);
void arena_deinit(struct arena *a);

void *arena_alloc(struct arena *a, size_t bytes); /* aligned to 16, not zeroed; NULL on failure */
void *arena_zalloc(struct arena *a, size_t n, size_t size); /* n * size, zeroed, overflow-checked */
char *arena_strndup(struct arena *a, const char *s, size_t len); /* NUL-terminated copy */

#endif
