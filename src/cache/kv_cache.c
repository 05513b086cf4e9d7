/* kv_cache.c - one owner for every slot: the pool, one node of the tree, or one row's private end.
 *
 * The problem: three structures know slots, and a slot that two of them own is one user's KV in
 * another's answer. So they are moved here only, and always in whole pages:
 *
 *   row:   | shared: cells name the tree's slots | private: this row's            |
 *          0                                 n_shared                         n_held
 *   open    [0, n) matched and pinned; nothing private
 *   extend                                       pool -> private, after eviction if need be
 *   commit  n_shared moves right: private -> tree, or duplicates -> pool and cells renamed
 *   close   the ref is unpinned                   private -> pool
 *
 * A row remembers its ref and n_shared beside the caller's struct kv_seq, and every call holds them
 * against each other: a copy of an old struct kv_seq aborts instead of committing foreign slots.
 *
 * Why commit at once and not at the end of a request: what is in the tree can be shared while it is
 * still being extended, and a request that is aborted half-way leaves its work to others. A commit
 * of one token is O(1).
 *
 * Cost: open is O(tokens shared), follow and commit O(tokens moved), extend O(pages taken and
 * evicted), close O(private pages + nodes on the way up). */
#include "cache/kv_cache.h"

#include "base/invariant.h"
#include "base/mem.h"
#include "base/status.h"
#include "cache/kv_cache_int.h"
#include "cache/radix_int.h"

#include <stdlib.h>

static enum radish_status create_parts(struct kv_cache *cache,
                                       const struct kv_cache_options *options,
                                       struct radish_error *err) {
    RADISH_TRY(kv_pool_create(options->n_slots, options->page_slots, &cache->pool, err));
    RADISH_TRY(slot_table_create(cache->pool, options->n_rows, options->context_tokens,
                                 &cache->table, err));
    if (!options->is_tree_off)
        RADISH_TRY(radix_create(cache->pool, options->n_rows, options->policy, &cache->tree, err));
    if (cache->tree && options->is_announced)
        RADISH_TRY(radix_listen(cache->tree, &options->sink, err));
    cache->refs = mem_zalloc(options->n_rows, sizeof *cache->refs);
    if (!cache->refs) return error_nomem(err);
    cache->n_rows = options->n_rows;
    for (uint32_t row = 0; row < cache->n_rows; row++) cache->refs[row].node = RADIX_REF_NONE;
    return RADISH_OK;
}

enum radish_status kv_cache_create(const struct kv_cache_options *options,
                                   struct kv_cache **cache_out, struct radish_error *err) {
    *cache_out = NULL;
    struct kv_cache *cache = calloc(1, sizeof *cache);
    if (!cache) return error_nomem(err);
    enum radish_status status = create_parts(cache, options, err);
    if (status == RADISH_OK)
        *cache_out = cache;
    else
        kv_cache_destroy(cache);
    return status;
}

void kv_cache_destroy(struct kv_cache *cache) {
    if (!cache) return;
    slot_table_destroy(cache->table);
    radix_destroy(cache->tree);
    kv_pool_destroy(cache->pool);
    free(cache->refs);
    free(cache);
}

uint64_t kv_cache_bytes(const struct kv_cache_options *options) {
    uint64_t n = sizeof(struct kv_cache) + options->n_rows * sizeof(struct radix_ref) +
                 kv_pool_bytes(options->n_slots, options->page_slots) +
                 slot_table_bytes(options->n_slots, options->n_rows, options->context_tokens);
    if (options->is_tree_off) return n;
    if (options->is_announced) n += radix_events_bytes(options->n_slots / options->page_slots);
    return n + radix_bytes(options->n_slots, options->page_slots, options->n_rows);
}

/* What the caller holds must be what the row was given. */
static void verify_seq(const struct kv_cache *cache, const struct kv_seq *seq) {
    RADISH_INVARIANT(seq->row < cache->n_rows, "row %u of %u", seq->row, cache->n_rows);
    const struct radix_ref *ref = &cache->refs[seq->row];
    RADISH_INVARIANT(ref->node == seq->ref.node && ref->n_tokens == seq->ref.n_tokens &&
                         seq->n_shared == slot_table_n_shared(cache->table, seq->row),
                     "row %u shares %u tokens of node %u, its sequence says %u of %u", seq->row,
                     ref->n_tokens, ref->node, seq->n_shared, seq->ref.node);
}

/* The first ref.n_tokens cells are the tree's from now on. */
static void set_shared(struct kv_cache *cache, struct kv_seq *seq) {
    seq->n_shared = seq->ref.n_tokens;
    slot_table_set_shared(cache->table, seq->row, seq->n_shared);
    cache->refs[seq->row] = seq->ref;
}

uint32_t kv_cache_peek(const struct kv_cache *cache, uint32_t namespace_id,
                       const struct radix_tokens *tokens, uint32_t n, enum radix_miss *miss_out) {
    *miss_out = RADIX_MISS_UNSEEN;
    return cache->tree ? radix_peek(cache->tree, namespace_id, tokens, n, miss_out) : 0;
}

enum radish_status kv_cache_open(struct kv_cache *cache, uint32_t namespace_id, bool shares,
                                 const struct radix_tokens *tokens, uint32_t n_max,
                                 int32_t priority, struct kv_seq *seq_out) {
    *seq_out = (struct kv_seq){.ref = {.node = RADIX_REF_NONE}};
    RADISH_TRY(slot_table_take_row(cache->table, &seq_out->row));
    if (!shares || !cache->tree) return RADISH_OK;
    radix_match_pin(cache->tree, namespace_id, tokens, n_max, priority, &seq_out->ref,
                    slot_table_cells(cache->table, seq_out->row));
    set_shared(cache, seq_out);
    return RADISH_OK;
}

void kv_cache_follow(struct kv_cache *cache, struct kv_seq *seq, const struct radix_tokens *tokens,
                     uint32_t n_max) {
    verify_seq(cache, seq);
    if (seq->ref.node == RADIX_REF_NONE) return;
    RADISH_INVARIANT(slot_table_n_held(cache->table, seq->row) == seq->n_shared,
                     "row %u holds private slots and follows", seq->row);
    radix_match_more(cache->tree, tokens, n_max, &seq->ref,
                     slot_table_cells(cache->table, seq->row));
    set_shared(cache, seq);
}

enum radish_status kv_cache_extend(struct kv_cache *cache, struct kv_seq *seq, uint32_t n_tokens,
                                   uint32_t n_tokens_ahead) {
    verify_seq(cache, seq);
    uint32_t page_slots = kv_pool_page_slots(cache->pool);
    uint32_t n_held = slot_table_n_held(cache->table, seq->row);
    uint32_t n_free = kv_pool_n_free(cache->pool);
    if (n_tokens <= n_held) return RADISH_OK;
    uint64_t n_more = ((uint64_t)n_tokens - n_held + page_slots - 1) / page_slots * page_slots;
    if (n_more > n_free) {
        if (n_more > (uint64_t)n_free + kv_cache_n_evictable(cache)) return RADISH_AGAIN;
        uint32_t n_evicted = radix_evict(cache->tree, (uint32_t)n_more - n_free);
        RADISH_INVARIANT(n_free + n_evicted >= n_more, "%u slots are free after evicting %u",
                         kv_pool_n_free(cache->pool), n_evicted);
    }
    return slot_table_extend(cache->table, seq->row, n_tokens, n_tokens_ahead);
}

void kv_cache_commit(struct kv_cache *cache, struct kv_seq *seq, const struct radix_tokens *tokens,
                     uint32_t n_written) {
    verify_seq(cache, seq);
    RADISH_INVARIANT(n_written <= slot_table_n_held(cache->table, seq->row),
                     "row %u: %u tokens written, %u held", seq->row, n_written,
                     slot_table_n_held(cache->table, seq->row));
    uint32_t n = n_written - n_written % kv_pool_page_slots(cache->pool);
    if (seq->ref.node == RADIX_REF_NONE || n <= seq->n_shared) return;
    radix_append(cache->tree, tokens, n, &seq->ref, slot_table_cells(cache->table, seq->row));
    set_shared(cache, seq);
}

const uint32_t *kv_cache_slots(const struct kv_cache *cache, const struct kv_seq *seq) {
    return slot_table_slots(cache->table, seq->row);
}

uint32_t kv_cache_n_held(const struct kv_cache *cache, const struct kv_seq *seq) {
    return slot_table_n_held(cache->table, seq->row);
}

void kv_cache_close(struct kv_cache *cache, struct kv_seq *seq) {
    verify_seq(cache, seq);
    slot_table_give_row(cache->table, seq->row);
    if (seq->ref.node != RADIX_REF_NONE) radix_unpin(cache->tree, &seq->ref);
    cache->refs[seq->row] = seq->ref;
    seq->n_shared = 0;
}

void kv_cache_flush(struct kv_cache *cache) {
    if (cache->tree) radix_flush(cache->tree);
}

void kv_cache_reset(struct kv_cache *cache) {
    if (cache->tree) radix_reset(cache->tree);
    RADISH_INVARIANT(kv_pool_n_free(cache->pool) == kv_pool_n_usable(cache->pool),
                     "%u of %u slots are free without any sequence", kv_pool_n_free(cache->pool),
                     kv_pool_n_usable(cache->pool));
}

uint32_t kv_cache_n_usable(const struct kv_cache *cache) {
    return kv_pool_n_usable(cache->pool);
}

uint32_t kv_cache_n_free(const struct kv_cache *cache) {
    return kv_pool_n_free(cache->pool);
}

uint32_t kv_cache_n_evictable(const struct kv_cache *cache) {
    return cache->tree ? radix_n_evictable(cache->tree) : 0;
}

const struct radix *kv_cache_radix(const struct kv_cache *cache) {
    return cache->tree;
}

/* ---- check ---- */

/* The row's shared cells are, position by position, the slots on the way to its ref. */
static bool check_shared(const struct kv_cache *cache, uint32_t row) {
    const struct radix_ref *ref = &cache->refs[row];
    uint32_t n_shared = slot_table_n_shared(cache->table, row);
    if (ref->node == RADIX_REF_NONE) return n_shared == 0;
    const struct radix *r = cache->tree;
    if (!r || ref->node > r->n_nodes_touched || ref->n_tokens != n_shared) return false;
    const struct radix_node *node = &r->nodes[ref->node];
    const uint32_t *cells = slot_table_slots(cache->table, row);
    uint32_t end = n_shared;
    for (; node->kind == RADIX_KIND_EDGE; node = &r->nodes[node->parent]) {
        if (!node->n_pins || node->n_tokens_path != end) return false;
        end -= radix_node_tokens(r, node);
        uint32_t page = node->first_page;
        for (uint32_t i = end; i < node->n_tokens_path; i += r->page_slots, page = r->next[page])
            for (uint32_t j = 0; j < r->page_slots; j++)
                if (cells[i + j] != page * r->page_slots + j) return false;
    }
    return node->kind == RADIX_KIND_ROOT && end == 0 && node->n_pins;
}

bool kv_cache_check(const struct kv_cache *cache) {
    const struct radix *r = cache->tree;
    if (!slot_table_check(cache->table) || (r && !radix_check(r))) return false;
    for (uint32_t row = 0; row < cache->n_rows; row++) {
        if (!slot_table_is_taken(cache->table, row)) {
            if (cache->refs[row].node != RADIX_REF_NONE) return false;
            continue;
        }
        if (!check_shared(cache, row)) return false;
        const uint32_t *cells = slot_table_slots(cache->table, row);
        uint32_t n_held = slot_table_n_held(cache->table, row);
        for (uint32_t i = slot_table_n_shared(cache->table, row); r && i < n_held; i++)
            if (radix_has_page(r, cells[i] / r->page_slots)) return false;
    }
    uint64_t n_tree = r ? (uint64_t)r->n_tokens_pinned + r->n_tokens_evictable : 0;
    return kv_pool_n_free(cache->pool) + n_tree + slot_table_n_slots_private(cache->table) ==
           kv_pool_n_usable(cache->pool);
}
