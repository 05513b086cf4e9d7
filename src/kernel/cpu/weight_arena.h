/* weight_arena.h - where packed weights lie: side by side in few large mappings.
 *
 * Owns: its chunks; a chunk goes back to the system with the last weight in it. Threads: one.
 * Invariants: (1) what is taken is zeroed, aligned to 64 and overlaps nothing else; (2) a chunk
 * exists while a weight in it does. */
#ifndef KERNEL_CPU_WEIGHT_ARENA_H
#define KERNEL_CPU_WEIGHT_ARENA_H

#include "radish.h"

#include "base/pages.h"

struct weight_chunk;

/* Zeroed means empty, with plain pages; set the policy before the first take. */
struct weight_arena {
    struct pages_policy policy;
    struct weight_chunk *newest; /* linked to the older ones */
};

/* bytes zeroed bytes; caller gives them back with weight_arena_give(). NULL when out of memory. */
void *weight_arena_take(struct weight_arena *arena, size_t bytes);

/* p: from weight_arena_take(), or NULL. */
void weight_arena_give(struct weight_arena *arena, void *p);

#endif
