/* bpe_merge.c - merges by rank, over arrays for words and over a heap for long runs.
 *
 *   "lower"   l o w e r  --(e r: rank 2)-->  l o w er  --(l o: rank 7)-->  lo w er  ...
 *
 * What decides a merge is the pair of token ids, so no string is built or compared while merging.
 * The table is what merging waits for (it has some 500,000 pairs and lies in no near cache), so a
 * slot is one word: both ids and the rank; the product is looked up when the pair is really
 * merged. The first ranks of a piece of bytes come from a small table of all pairs of bytes.
 *
 * Words are short: up to SHORT_SYMBOLS symbols the lowest rank is found by walking the array, which
 * beats any queue. Longer pieces (a megabyte of spaces is one piece for some tokenizers) would make
 * that quadratic: they go through a heap of (rank, position), O(n log n).
 *
 *   symbol "low" at 0..2, "er" at 3..4:   ids   low  -1  -1   er  -1
 *                                         lens    3   .   3    2   2     at its first and last
 * place
 *
 * A symbol stays where its first part was, so positions keep the order of the text; its length at
 * both ends leads to both neighbours. A candidate of the heap is stale when its symbol is gone or
 * starts another pair now, which is looked up again. Candidates of merges push at most one more
 * than was popped, and stale ones are swept out when the heap is full: a quarter more room than
 * symbols is enough, and a sweep (linear) comes at most once per quarter of merges. So scratch is 4
 * bytes of length and 10 of heap per symbol. Four children a node: half the depth, and siblings
 * share a cache line. Both ways give the same ids (test_bpe.c compares them). */
#include "bpe_merge.h"

#include "base/invariant.h"
#include "base/mem.h"

#include <stdlib.h>
#include <string.h>

enum { SHORT_SYMBOLS = 64, ID_BITS = 21, RANK_BITS = 22, HEAP_CHILDREN = 4 };

#define RANK_MASK (((uint64_t)1 << RANK_BITS) - 1)

_Static_assert(SPEC_TOKENS_MAX == 1 << ID_BITS, "ids fit into a slot");

/* ---- the table */

static uint64_t pair_of(int32_t left, int32_t right) {
    return (uint64_t)(uint32_t)left << ID_BITS | (uint32_t)right;
}

/* The slot of the pair, or the free one where it would go. */
static size_t find_slot(const struct bpe_merges *m, uint64_t pair) {
    size_t at = (size_t)(pair * 0x9E3779B97F4A7C15u >> m->shift);
    while (m->slots[at] != UINT64_MAX && m->slots[at] >> RANK_BITS != pair) at = (at + 1) & m->mask;
    return at;
}

bool bpe_merges_init(struct bpe_merges *m, uint32_t n) {
    unsigned bits = 4;
    *m = (struct bpe_merges){.n = n};
    while ((size_t)1 << bits < (size_t)n * 3 / 2) bits++;
    m->mask = ((size_t)1 << bits) - 1;
    m->shift = 64 - bits;
    m->slots = mem_alloc(m->mask + 1, sizeof *m->slots);
    m->products = mem_zalloc(n, sizeof *m->products);
    if (!m->slots || !m->products) {
        bpe_merges_deinit(m);
        return false;
    }
    memset(m->slots, 0xFF, (m->mask + 1) * sizeof *m->slots);
    return true;
}

void bpe_merges_deinit(struct bpe_merges *m) {
    free(m->slots);
    free(m->products);
    free(m->byte_ranks);
    *m = (struct bpe_merges){0};
}

void bpe_merges_put(struct bpe_merges *m, int32_t left, int32_t right, uint32_t rank,
                    int32_t product) {
    uint64_t pair = pair_of(left, right);
    m->slots[find_slot(m, pair)] = pair << RANK_BITS | rank;
    m->products[rank] = product;
}

uint32_t bpe_merges_find(const struct bpe_merges *m, int32_t left, int32_t right) {
    uint64_t slot = m->slots[find_slot(m, pair_of(left, right))];
    return slot == UINT64_MAX ? BPE_RANK_NONE : (uint32_t)(slot & RANK_MASK);
}

bool bpe_merges_index_bytes(struct bpe_merges *m, const int32_t *byte_ids) {
    m->byte_ranks = mem_alloc(65536, sizeof *m->byte_ranks);
    if (!m->byte_ranks) return false;
    for (int i = 0; i < 65536; i++) {
        int32_t left = byte_ids[i >> 8], right = byte_ids[i & 255];
        m->byte_ranks[i] = left < 0 || right < 0 ? BPE_RANK_NONE : bpe_merges_find(m, left, right);
    }
    return true;
}

static uint32_t first_rank(const struct bpe_merges *m, const int32_t *ids,
                           const unsigned char *bytes, size_t at) {
    if (bytes) return m->byte_ranks[bytes[at] << 8 | bytes[at + 1]];
    return bpe_merges_find(m, ids[at], ids[at + 1]);
}

/* ---- short pieces */

static size_t merge_short(const struct bpe_merges *m, int32_t *ids, size_t n,
                          const unsigned char *bytes, uint64_t *n_operations) {
    uint32_t ranks[SHORT_SYMBOLS]; /* of the pair that starts here */
    uint64_t n_steps = n;
    for (size_t i = 0; i + 1 < n; i++) ranks[i] = first_rank(m, ids, bytes, i);
    for (size_t n_ranks = n - 1; n_ranks; n_ranks--) {
        uint32_t best = BPE_RANK_NONE;
        size_t at = 0;
        for (size_t i = 0; i < n_ranks; i++) best = ranks[i] < best ? ranks[i] : best;
        n_steps += n_ranks;
        if (best == BPE_RANK_NONE) break;
        while (ranks[at] != best) at++;
        ids[at] = m->products[best];
        memmove(ids + at + 1, ids + at + 2, (n - at - 2) * sizeof *ids);
        n--;
        if (at + 1 < n) {
            memmove(ranks + at + 1, ranks + at + 2, (n_ranks - at - 2) * sizeof *ranks);
            ranks[at] = bpe_merges_find(m, ids[at], ids[at + 1]);
        }
        if (at) ranks[at - 1] = bpe_merges_find(m, ids[at - 1], ids[at]);
    }
    *n_operations += n_steps;
    return n;
}

/* ---- long pieces */

struct long_merge {
    const struct bpe_merges *m;
    int32_t *ids;   /* [n] by position; -1 = part of the symbol before */
    uint32_t *lens; /* [n] of symbols, at their first and last position */
    size_t n;
    uint64_t *heap; /* [n_heap] rank << 32 | position, smallest first */
    size_t n_heap, heap_max;
    uint64_t n_steps;
};

static uint32_t rank_at(struct long_merge *l, size_t at) {
    size_t next = at + l->lens[at];
    l->n_steps++;
    return next < l->n ? bpe_merges_find(l->m, l->ids[at], l->ids[next]) : BPE_RANK_NONE;
}

static bool is_stale(struct long_merge *l, uint64_t candidate) {
    size_t at = (uint32_t)candidate;
    return l->ids[at] < 0 || rank_at(l, at) != candidate >> 32;
}

static void sift_down(struct long_merge *l, size_t i, uint64_t candidate) {
    for (size_t child; (child = HEAP_CHILDREN * i + 1) < l->n_heap; i = child) {
        size_t end = child + HEAP_CHILDREN < l->n_heap ? child + HEAP_CHILDREN : l->n_heap;
        for (size_t other = child + 1; other < end; other++)
            if (l->heap[other] < l->heap[child]) child = other;
        l->n_steps++;
        if (l->heap[child] >= candidate) break;
        l->heap[i] = l->heap[child];
    }
    l->heap[i] = candidate;
}

static void order_heap(struct long_merge *l) {
    for (size_t i = l->n_heap / HEAP_CHILDREN + 1; i-- > 0;)
        if (i < l->n_heap) sift_down(l, i, l->heap[i]);
}

static void sweep_heap(struct long_merge *l) {
    size_t kept = 0;
    for (size_t i = 0; i < l->n_heap; i++)
        if (!is_stale(l, l->heap[i])) l->heap[kept++] = l->heap[i];
    l->n_heap = kept;
    order_heap(l);
}

static void push_candidate(struct long_merge *l, size_t at) {
    uint32_t rank = rank_at(l, at);
    if (rank == BPE_RANK_NONE) return;
    if (l->n_heap == l->heap_max) sweep_heap(l);
    RADISH_INVARIANT(l->n_heap < l->heap_max, "%zu candidates of %zu symbols", l->n_heap, l->n);
    uint64_t candidate = (uint64_t)rank << 32 | at;
    size_t i = l->n_heap++;
    for (size_t parent; i && candidate < l->heap[parent = (i - 1) / HEAP_CHILDREN]; i = parent) {
        l->heap[i] = l->heap[parent];
        l->n_steps++;
    }
    l->heap[i] = candidate;
}

static uint64_t pop_candidate(struct long_merge *l) {
    uint64_t top = l->heap[0];
    if (--l->n_heap) sift_down(l, 0, l->heap[l->n_heap]);
    return top;
}

static void set_symbol(struct long_merge *l, size_t at, uint32_t len, int32_t id) {
    l->ids[at] = id;
    l->lens[at] = l->lens[at + len - 1] = len;
}

static void start_long(struct long_merge *l, const unsigned char *bytes) {
    for (size_t i = 0; i < l->n; i++) l->lens[i] = 1;
    for (size_t i = 0; i + 1 < l->n; i++) {
        uint32_t rank = first_rank(l->m, l->ids, bytes, i);
        if (rank != BPE_RANK_NONE) l->heap[l->n_heap++] = (uint64_t)rank << 32 | i;
    }
    l->n_steps += l->n;
    order_heap(l);
}

static size_t merge_long(struct long_merge *l, const unsigned char *bytes) {
    start_long(l, bytes);
    while (l->n_heap) {
        uint64_t candidate = pop_candidate(l);
        if (is_stale(l, candidate)) continue;
        size_t at = (uint32_t)candidate, next = at + l->lens[at];
        uint32_t len = l->lens[at] + l->lens[next];
        int32_t product = l->m->products[candidate >> 32];
        bool is_new = product != l->ids[at]; /* else the pair before is in the heap already */
        l->ids[next] = -1;
        set_symbol(l, at, len, product);
        push_candidate(l, at);
        if (at && is_new) push_candidate(l, at - l->lens[at - 1]);
    }
    size_t kept = 0;
    for (size_t at = 0, len; at < l->n; at += len) {
        len = l->lens[at];
        l->ids[kept++] = l->ids[at];
    }
    return kept;
}

/* scratch: heap [heap_max], then lens [n]. */
static bool reserve(struct token_scratch *scratch, size_t n, size_t heap_max) {
    size_t bytes = heap_max * sizeof(uint64_t) + n * sizeof(uint32_t);
    if (bytes <= scratch->capacity_bytes) return true;
    free(scratch->memory); /* nothing in it is kept */
    scratch->memory = malloc(bytes);
    scratch->capacity_bytes = scratch->memory ? bytes : 0;
    return scratch->memory != NULL;
}

bool bpe_merge(const struct bpe_merges *m, int32_t *ids, size_t n, const unsigned char *bytes,
               struct token_scratch *scratch, size_t *n_out) {
    size_t heap_max = n + n / 4 + 8;
    *n_out = n;
    if (n < 2) return true;
    if (n <= SHORT_SYMBOLS) {
        *n_out = merge_short(m, ids, n, bytes, &scratch->n_operations);
        return true;
    }
    if (n > BPE_SYMBOLS_MAX || !reserve(scratch, n, heap_max)) return false;
    struct long_merge l = {.m = m,
                           .ids = ids,
                           .lens = (uint32_t *)((uint64_t *)scratch->memory + heap_max),
                           .n = n,
                           .heap = scratch->memory,
                           .heap_max = heap_max};
    *n_out = merge_long(&l, bytes);
    scratch->n_operations += l.n_steps;
    return true;
}
