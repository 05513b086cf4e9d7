/* slot_table.h - per running sequence the slot of every position: what attention reads the pool
 * through.
 *
 *   row 3:  position 0   1   2   3   4  |
 *           slot     17  18  19  64  65 |  66 67      n_held = 7: 5 in use, 2 slack for what comes
 *
 * Owns: the rows, and while a row is taken the slots in it. Memory for all rows is reserved at
 * create and touched as it is used. Caller keeps: row numbers. The pool must outlive the table.
 * Threads: the engine's thread.
 *
 * Invariants, recomputed by slot_table_check():
 *  (1) Every held slot is in one row, once, and not free in the pool.
 *  (2) n_slots_held == sum of held slots; with the pool: free + held == usable.
 *  (3) Slots go back to the pool in one function only: slot_table_give_row(). */
#ifndef CACHE_SLOT_TABLE_H
#define CACHE_SLOT_TABLE_H

#include "radish.h"

#include "cache/kv_pool.h"

struct slot_table;

/* n_rows sequences of up to context_tokens positions. E_NOMEM. */
enum radish_status slot_table_create(struct kv_pool *pool, uint32_t n_rows, uint32_t context_tokens,
                                     struct slot_table **table_out,
                                     struct radish_error *err) RADISH_CHECK_RESULT;
void slot_table_destroy(struct slot_table *table); /* every row must have been given back */

/* A row that holds nothing yet; AGAIN: all are taken. */
enum radish_status slot_table_take_row(struct slot_table *table,
                                       uint32_t *row_out) RADISH_CHECK_RESULT;

/* Makes the row hold slots for positions [0, n_tokens), whole pages at least; up to n_tokens_ahead
 * where the pool has them, so that a sequence that grows by one token a step owns short ascending
 * runs. AGAIN: the pool has not enough for n_tokens; nothing has changed then. */
enum radish_status slot_table_extend(struct slot_table *table, uint32_t row, uint32_t n_tokens,
                                     uint32_t n_tokens_ahead) RADISH_CHECK_RESULT;

/* Slots of positions [0, n_held), borrowed until the row is given back; the address is stable. */
const uint32_t *slot_table_slots(const struct slot_table *table, uint32_t row);
uint32_t slot_table_n_held(const struct slot_table *table, uint32_t row);

/* The row and all its slots go back. */
void slot_table_give_row(struct slot_table *table, uint32_t row);

uint32_t slot_table_n_rows_free(const struct slot_table *table);
uint32_t slot_table_n_slots_held(const struct slot_table *table);
bool slot_table_check(const struct slot_table *table);

#endif
