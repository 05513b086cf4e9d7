/* weight_arena.c - weights one behind another, so that small ones share huge pages.
 *
 *   chunk:  | w 0 |gap| w 1 |gap| ...       w n | free ...        |
 *           ^ aligned to a huge page            ^ used
 *
 * A matrix of a small model has less than 2 MiB: in a mapping (or a piece of the heap) of its own
 * it never fills a huge page, and of a larger one the tail does not. Side by side in chunks of 64
 * MiB all but the end of a chunk lies in huge pages. A weight that does not fit what is left of the
 * newest chunk begins a new one, and what the old one has left over goes back: memory taken is
 * memory planned, but for the half of a huge page on average that the newest chunk has begun.
 *
 * Weights come and go with their model, all together; so nothing is reused within a chunk, a count
 * is all the bookkeeping, and "zeroed" is what the system gives. Give looks the chunk up in a list:
 * a model has total / 64 MiB of them.
 *
 * The heap's redzones are what AddressSanitizer finds a kernel's reads behind a weight by; in
 * builds with it, everything that is not taken is poisoned by hand. */
#include "weight_arena.h"

#include "base/mem.h"

#include <stdlib.h>

#if defined(__has_feature)
#if __has_feature(address_sanitizer)
#define ARENA_ASAN
#endif
#elif defined(__SANITIZE_ADDRESS__)
#define ARENA_ASAN
#endif

#if defined(ARENA_ASAN)
#include <sanitizer/asan_interface.h>
#else
#define ASAN_POISON_MEMORY_REGION(p, bytes)   ((void)(p), (void)(bytes))
#define ASAN_UNPOISON_MEMORY_REGION(p, bytes) ((void)(p), (void)(bytes))
#endif

enum { CHUNK_BYTES = 64 << 20, UNIT_BYTES = 64, GAP_BYTES = 64 };

struct weight_chunk {
    struct weight_chunk *older;
    uint8_t *data;
    size_t bytes, used;
    uint32_t n_live;
};

static struct weight_chunk *open_chunk(const struct weight_arena *arena, size_t bytes) {
    struct weight_chunk *chunk = mem_zalloc(1, sizeof *chunk);
    if (!chunk) return NULL;
    chunk->bytes = bytes > CHUNK_BYTES ? bytes : CHUNK_BYTES;
    chunk->data = pages_map(chunk->bytes, &arena->policy);
    if (!chunk->data) {
        free(chunk);
        return NULL;
    }
    ASAN_POISON_MEMORY_REGION(chunk->data, chunk->bytes);
    return chunk;
}

static void close_chunk(struct weight_chunk *chunk) {
    ASAN_UNPOISON_MEMORY_REGION(chunk->data, chunk->bytes);
    pages_unmap(chunk->data, chunk->bytes);
    free(chunk);
}

/* No weight will be put behind the last one. */
static void cut_chunk(struct weight_chunk *chunk) {
    ASAN_UNPOISON_MEMORY_REGION(chunk->data + chunk->used, chunk->bytes - chunk->used);
    chunk->bytes = pages_cut(chunk->data, chunk->bytes, chunk->used);
    ASAN_POISON_MEMORY_REGION(chunk->data + chunk->used, chunk->bytes - chunk->used);
}

void *weight_arena_take(struct weight_arena *arena, size_t bytes) {
    size_t room;
    if (bytes > SIZE_MAX / 2) return NULL;
    room = (bytes + GAP_BYTES + UNIT_BYTES - 1) / UNIT_BYTES * UNIT_BYTES;
    struct weight_chunk *chunk = arena->newest;
    if (!chunk || chunk->bytes - chunk->used < room) {
        chunk = open_chunk(arena, room);
        if (!chunk) return NULL;
        if (arena->newest) cut_chunk(arena->newest);
        chunk->older = arena->newest;
        arena->newest = chunk;
    }
    uint8_t *p = chunk->data + chunk->used;
    ASAN_UNPOISON_MEMORY_REGION(p, bytes);
    chunk->used += room;
    chunk->n_live++;
    return p;
}

void weight_arena_give(struct weight_arena *arena, void *p) {
    const uintptr_t address = (uintptr_t)p;
    struct weight_chunk **link = &arena->newest;
    if (!p) return;
    while (*link && (address < (uintptr_t)(*link)->data ||
                     address >= (uintptr_t)(*link)->data + (*link)->used))
        link = &(*link)->older;
    struct weight_chunk *chunk = *link;
    if (!chunk || --chunk->n_live) return;
    *link = chunk->older;
    close_chunk(chunk);
}
