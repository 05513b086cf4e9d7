/* shadow.h - the cache checked while it serves: one request in N that took tokens from it is
 * computed once more without, and its first logits are compared bit for bit.
 *
 * Owns: the one hidden request there can be, and room for its prompt, taken at init. Threads: the
 * engine's thread. Nothing is allocated after init. */
#ifndef ENGINE_SHADOW_H
#define ENGINE_SHADOW_H

#include "radish.h"

struct radish_engine;
struct engine_choice;
struct engine_row;
struct shadow;

/* every: of so many requests with cached tokens one is checked; 0: none, and *shadow_out is NULL,
 * with which everything below does nothing. E_NOMEM. */
enum radish_status shadow_create(uint32_t every, uint32_t tokens_max, struct shadow **shadow_out,
                                 struct radish_error *err) RADISH_CHECK_RESULT;
void shadow_destroy(struct shadow *shadow);

/* A row that a choice's token is about to be sampled from, not yet changed by that. */
void shadow_look(struct radish_engine *engine, const struct engine_row *row);

/* Before a step is filled: the hidden request is pushed, if one is due and nobody waits. */
void shadow_begin(struct radish_engine *engine);

/* After a step: if somebody waits, the hidden request goes back and begins again later; if it was
 * sent back for its slots, it is given up. */
void shadow_yield(struct radish_engine *engine);

bool shadow_is_due(const struct radish_engine *engine); /* there is something to push */

/* Sequences with the scheduler that are hidden: 0 or 1. */
uint32_t shadow_n_running(const struct radish_engine *engine);
uint32_t shadow_n_queued(const struct radish_engine *engine);

/* The hidden request has its logits row: [n_vocab]. */
void shadow_compare(struct radish_engine *engine, const float *logits);

/* The hidden request, if there is one, is given up. */
void shadow_drop(struct radish_engine *engine);

#endif
