/* slot_table.c - rows of slots in one reserved piece of address space.
 *
 * The problem: a running sequence needs an array that grows to the context length, at an address
 * that does not move (a batch points to it), without allocation in the step path. 256 sequences of
 * 131,072 positions are 128 MB if they are all full, which takes a prefix that all of them share.
 * So the whole matrix is reserved as address space only; pages come in when first written, and a
 * row that grew large gives its pages back to the system when it ends. Blocks of slots linked
 * together, the obvious other way, would cost attention an indirection per block.
 *
 *   cells  row 0 | slots ........ | row 1 | ... each row_cells long, starting on a system page
 *   n_held       | 7 |                        a whole number of pool pages
 *   n_shared     | 3 |                        of these, from the front, the tree's
 *
 * slot_table_give_row() is the one place from which private slots return to the pool.
 *
 * Cost: 4 bytes of address space a position and row; take, extend and give are O(slots moved). */
#include "cache/slot_table.h"

#include "base/invariant.h"
#include "base/mem.h"
#include "base/status.h"

#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

/* A row that touched more than this goes back to the system when it ends: 16,384 positions. Below,
 * the page faults of the next sequence cost more than the memory. */
enum { KEEP_BYTES = 64 << 10 };

struct slot_table {
    struct kv_pool *pool; /* borrowed */
    uint32_t n_rows, row_cells;
    uint32_t positions_max; /* row length in use: context in whole pages */
    uint32_t n_rows_free;
    uint32_t n_slots_private;
    uint32_t *n_held;    /* [n_rows] slots */
    uint32_t *n_shared;  /* [n_rows] slots, of these */
    uint32_t *rows_free; /* [n_rows_free] a stack */
    bool *is_taken;      /* [n_rows] */
    uint8_t *seen;       /* [pool slots / 8 + 1] for check() */
    uint32_t *cells;     /* [n_rows, row_cells] */
    size_t cells_bytes;
};

enum radish_status slot_table_create(struct kv_pool *pool, uint32_t n_rows, uint32_t context_tokens,
                                     struct slot_table **table_out, struct radish_error *err) {
    *table_out = NULL;
    struct slot_table *table = calloc(1, sizeof *table);
    if (!table) return error_nomem(err);
    size_t page = (size_t)sysconf(_SC_PAGESIZE);
    uint64_t positions = (uint64_t)context_tokens + kv_pool_page_slots(pool) - 1;
    positions -= positions % kv_pool_page_slots(pool);
    uint64_t row_bytes = (positions * sizeof(uint32_t) + page - 1) / page * page;
    table->pool = pool;
    table->n_rows = table->n_rows_free = n_rows;
    table->n_held = mem_zalloc(n_rows, sizeof *table->n_held);
    table->n_shared = mem_zalloc(n_rows, sizeof *table->n_shared);
    table->rows_free = mem_zalloc(n_rows, sizeof *table->rows_free);
    table->is_taken = mem_zalloc(n_rows, sizeof *table->is_taken);
    table->seen = mem_zalloc(kv_pool_n_slots(pool) / 8 + 1, 1);
    table->positions_max = (uint32_t)positions;
    table->row_cells = (uint32_t)(row_bytes / sizeof(uint32_t));
    bool fits = positions <= UINT32_MAX / sizeof(uint32_t) &&
                mem_mul(n_rows, (size_t)row_bytes, &table->cells_bytes);
    if (fits && table->cells_bytes) {
        void *cells = mmap(NULL, table->cells_bytes, PROT_READ | PROT_WRITE,
                           MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
        if (cells != MAP_FAILED) table->cells = cells;
    }
    if (!table->cells || !table->n_held || !table->n_shared || !table->rows_free ||
        !table->is_taken || !table->seen) {
        slot_table_destroy(table);
        return error_nomem(err);
    }
    for (uint32_t i = 0; i < n_rows; i++) table->rows_free[i] = n_rows - 1 - i;
    *table_out = table;
    return RADISH_OK;
}

void slot_table_destroy(struct slot_table *table) {
    if (!table) return;
    RADISH_INVARIANT(table->n_rows_free == table->n_rows, "%u rows are still taken",
                     table->n_rows - table->n_rows_free);
    if (table->cells) munmap(table->cells, table->cells_bytes);
    free(table->n_held);
    free(table->n_shared);
    free(table->rows_free);
    free(table->is_taken);
    free(table->seen);
    free(table);
}

static uint32_t *row_cells(const struct slot_table *table, uint32_t row) {
    RADISH_INVARIANT(row < table->n_rows && table->is_taken[row], "row %u of %u is not taken", row,
                     table->n_rows);
    return table->cells + (size_t)row * table->row_cells;
}

enum radish_status slot_table_take_row(struct slot_table *table, uint32_t *row_out) {
    *row_out = 0;
    if (!table->n_rows_free) return RADISH_AGAIN;
    uint32_t row = table->rows_free[--table->n_rows_free];
    RADISH_INVARIANT(!table->is_taken[row] && !table->n_held[row], "row %u is in use", row);
    table->is_taken[row] = true;
    *row_out = row;
    return RADISH_OK;
}

enum radish_status slot_table_extend(struct slot_table *table, uint32_t row, uint32_t n_tokens,
                                     uint32_t n_tokens_ahead) {
    uint32_t *cells = row_cells(table, row);
    uint32_t n_held = table->n_held[row], page_slots = kv_pool_page_slots(table->pool);
    RADISH_INVARIANT(n_tokens <= table->positions_max, "row %u: %u tokens, room for %u", row,
                     n_tokens, table->positions_max);
    if (n_tokens <= n_held) return RADISH_OK;
    uint32_t n_free = kv_pool_n_free(table->pool);
    uint64_t target = n_tokens_ahead > n_tokens ? n_tokens_ahead : n_tokens;
    if (target > table->positions_max) target = table->positions_max;
    if (target - n_held > n_free) target = n_tokens;
    uint32_t n_more = (uint32_t)((target - n_held + page_slots - 1) / page_slots) * page_slots;
    uint32_t near = n_held ? cells[n_held - 1] + 1 : 0;
    RADISH_TRY(kv_pool_take(table->pool, n_more, near, cells + n_held));
    table->n_held[row] = n_held + n_more;
    table->n_slots_private += n_more;
    return RADISH_OK;
}

const uint32_t *slot_table_slots(const struct slot_table *table, uint32_t row) {
    return row_cells(table, row);
}

uint32_t slot_table_n_held(const struct slot_table *table, uint32_t row) {
    return table->n_held[row];
}

uint32_t *slot_table_cells(struct slot_table *table, uint32_t row) {
    return row_cells(table, row);
}

void slot_table_set_shared(struct slot_table *table, uint32_t row, uint32_t n_shared) {
    (void)row_cells(table, row);
    uint32_t n_held = table->n_held[row], n_before = table->n_shared[row];
    RADISH_INVARIANT(n_shared >= n_before && (n_shared <= n_held || n_held == n_before) &&
                         n_shared <= table->positions_max,
                     "row %u: %u slots shared, %u were, %u held", row, n_shared, n_before, n_held);
    table->n_slots_private -= n_held - n_before;
    if (n_held < n_shared) table->n_held[row] = n_shared;
    table->n_shared[row] = n_shared;
    table->n_slots_private += table->n_held[row] - n_shared;
}

uint32_t slot_table_n_shared(const struct slot_table *table, uint32_t row) {
    return table->n_shared[row];
}

void slot_table_give_row(struct slot_table *table, uint32_t row) {
    uint32_t *cells = row_cells(table, row);
    uint32_t n_held = table->n_held[row], n_shared = table->n_shared[row];
    kv_pool_give(table->pool, cells + n_shared, n_held - n_shared);
    table->n_slots_private -= n_held - n_shared;
    size_t bytes = n_held * sizeof *cells;
    if (bytes > KEEP_BYTES) madvise(cells, bytes, MADV_DONTNEED);
    table->n_held[row] = table->n_shared[row] = 0;
    table->is_taken[row] = false;
    table->rows_free[table->n_rows_free++] = row;
}

bool slot_table_is_taken(const struct slot_table *table, uint32_t row) {
    return row < table->n_rows && table->is_taken[row];
}

uint32_t slot_table_n_rows_free(const struct slot_table *table) {
    return table->n_rows_free;
}

uint32_t slot_table_n_slots_private(const struct slot_table *table) {
    return table->n_slots_private;
}

uint64_t slot_table_bytes(uint32_t n_slots, uint32_t n_rows, uint32_t context_tokens) {
    uint32_t n_positions = context_tokens < n_slots ? context_tokens : n_slots;
    uint64_t row_bytes = n_positions * sizeof(uint32_t) + (size_t)sysconf(_SC_PAGESIZE);
    return sizeof(struct slot_table) + n_rows * (row_bytes + 3 * sizeof(uint32_t) + sizeof(bool)) +
           n_slots / 8 + 1;
}

/* The row's cells: taken from the pool, and the private ones nobody else's. */
static bool check_row(const struct slot_table *table, uint32_t row) {
    const uint32_t *cells = table->cells + (size_t)row * table->row_cells;
    uint32_t n_held = table->n_held[row], n_shared = table->n_shared[row];
    if (n_shared > n_held || (!table->is_taken[row] && n_held)) return false;
    for (uint32_t i = 0; i < n_held; i++) {
        uint32_t slot = cells[i];
        if (slot < kv_pool_page_slots(table->pool) || slot >= kv_pool_n_slots(table->pool) ||
            kv_pool_is_free(table->pool, slot))
            return false;
        if (i < n_shared) continue;
        if (table->seen[slot / 8] >> slot % 8 & 1) return false;
        table->seen[slot / 8] = (uint8_t)(table->seen[slot / 8] | 1u << slot % 8);
    }
    return true;
}

bool slot_table_check(const struct slot_table *table) {
    uint32_t n_private = 0, n_taken = 0;
    memset(table->seen, 0, kv_pool_n_slots(table->pool) / 8 + 1);
    for (uint32_t row = 0; row < table->n_rows; row++) {
        if (!check_row(table, row)) return false;
        n_taken += table->is_taken[row];
        n_private += table->n_held[row] - table->n_shared[row];
    }
    return n_private == table->n_slots_private && n_taken == table->n_rows - table->n_rows_free &&
           kv_pool_n_free(table->pool) + n_private <= kv_pool_n_usable(table->pool) &&
           kv_pool_check(table->pool);
}
