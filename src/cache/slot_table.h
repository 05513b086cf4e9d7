/* slot_table.h - per running sequence the slot of every position: what attention reads the pool
 * through.
 *
 *   row 3:  position 0   1   2 | 3   4  |
 *           slot     17  18  19| 64  65 |  66 67      n_held = 7: 5 in use, 2 slack for what comes
 *                    shared    | private              n_shared = 3: lent by the prefix tree
 *
 * Owns: the rows, and while a row is taken the private slots in it, [n_shared, n_held). Memory for
 * all rows is reserved at create and touched as it is used. Caller keeps: row numbers. The pool
 * must outlive the table. Threads: the engine's thread.
 *
 * Invariants, recomputed by slot_table_check():
 *  (1) Every private slot is in one row, once, and not free in the pool. Shared ones are not free.
 *  (2) n_slots_private == sum of private slots; free + private <= usable, the rest is the tree's.
 *  (3) Private slots go back to the pool in one function only: slot_table_give_row(); shared ones
 *      never from here. */
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

/* The same, to be written by whoever shares: positions the row does not hold yet, before
 * slot_table_set_shared() makes them its own. */
uint32_t *slot_table_cells(struct slot_table *table, uint32_t row);

/* Cells [0, n_shared) name slots that the tree owns from now on: what was private there has been
 * handed over. n_shared never falls; beyond n_held only while the row holds nothing private. */
void slot_table_set_shared(struct slot_table *table, uint32_t row, uint32_t n_shared);
uint32_t slot_table_n_shared(const struct slot_table *table, uint32_t row);

/* The row and its private slots go back. */
void slot_table_give_row(struct slot_table *table, uint32_t row);

bool slot_table_is_taken(const struct slot_table *table, uint32_t row);
uint32_t slot_table_n_rows_free(const struct slot_table *table);
uint32_t slot_table_n_slots_private(const struct slot_table *table);
/* Memory when every row is full. */
uint64_t slot_table_bytes(uint32_t n_slots, uint32_t n_rows, uint32_t context_tokens);
bool slot_table_check(const struct slot_table *table);

#endif
