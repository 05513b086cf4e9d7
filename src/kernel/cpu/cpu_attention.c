/* cpu_attention.c - cuts attention into parts and merges their segments.
 *
 * An item is a tile of queries that walks its segments of 1,024 absolute positions from left to
 * right: the variant computes (max, sum, acc) of each segment, and the merge here folds them into
 * running ones:
 *
 *   M' = max(M, m);  S = S exp(M - M') + s exp(m - M');  A likewise;  at the end out = A / S
 *
 *   positions  0 ........ 1023 | 1024 ...... 2047 | 2048 .. 2500
 *                 (m, s, a)    +    (m, s, a)     +   (m, s, a)      always in this order
 *
 * Two kinds of items. Of a chunk: a few rows times the query heads of one KV head, so that many
 * queries share each key that is read. Of single rows (decodes): several KV heads, because the
 * heads of a slot lie side by side in memory, and several sequences whose slot tables begin alike:
 * what they have in common is read once for all of them. Tables are compared slot by slot, in each
 * segment, up to a whole block; what is not equal is walked by each sequence alone.
 *
 *   query = ((KV head * sequences + sequence) * rows + row) * heads + head
 *
 * How large an item is depends on how many there must be to keep the threads busy. When one item is
 * still a large share of the work (one long sequence being decoded), the segments of an item become
 * items themselves, their results wait in scratch, and a second run merges them in the same order:
 * the same operations on the same numbers, so the same bits. Which way is taken depends on threads
 * and batch; the result does not.
 *
 * K and V are read from the pool where they lie, through the slot table; every slot is checked
 * against the pool before it is read. */
#include "base/invariant.h"
#include "device_cpu.h"
#include "scalar_exp.h"

#include <string.h>

enum {
    SPLIT_FLOATS = 16 * 258, /* scratch for split segments: 16 heads of 256, per item and segment */
    SPLIT_ITEMS_PER_THREAD = 2,
    TILE_QUERIES_MIN = 16 /* smaller tiles of a chunk convert keys for too few queries */
};

#define NO_KEY UINT32_MAX
#define TAKEN  (UINT32_MAX - 1)

/* Sequences with items of one kind: one with several rows, or some with a single row. */
struct attention_group {
    uint32_t order_first, n_seqs; /* in the run's order */
    uint32_t item_first;
    uint32_t n_rows, rows_per_tile; /* of the sequence; 1 for single rows */
    uint32_t kv_heads_per_item, n_kv_items;
};

struct attention_run {
    const struct attention_args *args;
    attention_fn fn;
    struct cpu_device *device;
    uint32_t group;          /* query heads of a KV head */
    uint32_t heads_per_tile; /* of them in a tile */
    uint32_t n_head_tiles;
    uint32_t *order;     /* [n_seqs] sequences, those that share keys side by side */
    uint32_t *first_key; /* [n_seqs] what tells them apart */
    struct attention_group *groups;
    uint32_t n_groups, n_items, n_segments_max;
    uint64_t n_item_segments; /* over all items */
    float *partials;          /* [items][n_segments_max][partial_floats] when split */
    size_t partial_floats, partials_max;
};

/* One item, found from its number. */
struct attention_tile {
    const struct attention_group *group;
    const uint32_t *order; /* [n_seqs] */
    uint32_t kv_first, n_kv, n_seqs, n_rows, n_heads;
    uint32_t head_first, row_first; /* within the KV head, within the sequence */
    uint32_t n_queries;
    uint32_t segment_first, segment_end;
};

/* A worker's scratch. */
struct attention_scratch {
    float q[ATTN_QUERIES * HEAD_DIM_MAX];
    float acc[ATTN_QUERIES * HEAD_DIM_MAX], acc_all[ATTN_QUERIES * HEAD_DIM_MAX];
    float max[ATTN_QUERIES], sum[ATTN_QUERIES], max_all[ATTN_QUERIES], sum_all[ATTN_QUERIES];
    float tile[ATTN_TILE_FLOATS];
    float scores[ATTN_QUERIES * ATTN_SCORE_STRIDE];
};

size_t cpu_attention_worker_bytes(void) {
    return (sizeof(struct attention_scratch) + 63) / 64 * 64;
}

static uint32_t min_u32(uint32_t a, uint32_t b) {
    return a < b ? a : b;
}

static uint32_t div_up(uint32_t a, uint32_t b) {
    return (a + b - 1) / b;
}

static uint32_t count_segments(uint32_t kv_len) {
    return div_up(kv_len, ATTENTION_SEGMENT);
}

/* Order, keys and groups of up to rows_max sequences. */
static size_t item_list_bytes(uint32_t rows_max) {
    const size_t n = (size_t)rows_max + 1;
    return (n * (2 * sizeof(uint32_t) + sizeof(struct attention_group)) + 63) / 64 * 64;
}

static size_t split_bytes(uint32_t n_threads, uint32_t kv_len_max) {
    return n_threads == 1 ? 0
                          : (size_t)SPLIT_ITEMS_PER_THREAD * n_threads *
                                count_segments(kv_len_max) * SPLIT_FLOATS * sizeof(float);
}

size_t cpu_attention_shared_bytes(uint32_t n_threads, uint32_t rows_max, uint32_t kv_len_max) {
    return item_list_bytes(rows_max) + split_bytes(n_threads, kv_len_max);
}

/* ---- the list of items ---- */

/* What a sequence with one row is first told apart by: the slot at the end of its first block. */
static uint32_t find_first_key(const struct attention_run *run, const struct attention_seq *seq) {
    if (seq->n_rows > 1 || seq->kv_len < ATTN_BLOCK) return NO_KEY;
    const uint32_t slot = seq->slots[ATTN_BLOCK - 1];
    return slot < run->args->n_slots ? slot : NO_KEY;
}

/* A slot holds one token after one prefix: the same slot means the same prefix up to it. Half of
 * the longer one in common is worth walking together. (A guess only: what is shared in fact is
 * compared where it is used.) */
static bool shares_half(const struct attention_seq *a, const struct attention_seq *b) {
    const uint32_t middle = (a->kv_len > b->kv_len ? a->kv_len : b->kv_len) / 2;
    return middle < a->kv_len && middle < b->kv_len && a->slots[middle] == b->slots[middle];
}

/* Puts single rows that share keys side by side, in groups of at most n_max; chunks alone. */
static void group_seqs(struct attention_run *run, uint32_t n_max) {
    const struct attention_args *a = run->args;
    uint32_t n_ordered = 0;
    run->n_groups = 0;
    for (uint32_t i = 0; i < a->n_seqs; i++) run->first_key[i] = find_first_key(run, &a->seqs[i]);
    for (uint32_t i = 0; i < a->n_seqs; i++) {
        const uint32_t key = run->first_key[i];
        if (key == TAKEN || !a->seqs[i].n_rows) continue;
        struct attention_group *g = &run->groups[run->n_groups++];
        *g = (struct attention_group){
            .order_first = n_ordered, .n_seqs = 1, .n_rows = a->seqs[i].n_rows};
        run->order[n_ordered++] = i;
        for (uint32_t j = i + 1; key != NO_KEY && j < a->n_seqs && g->n_seqs < n_max; j++) {
            if (run->first_key[j] != key || !shares_half(&a->seqs[i], &a->seqs[j])) continue;
            run->first_key[j] = TAKEN;
            run->order[n_ordered++] = j;
            g->n_seqs++;
        }
    }
}

/* Cuts a group into items: tiles of up to tile_queries queries for a chunk, KV heads for single
 * rows. */
static void cut_group(struct attention_run *run, struct attention_group *g, uint32_t tile_queries,
                      uint32_t kv_heads_max) {
    const struct attention_args *a = run->args;
    const uint32_t n_row_queries = g->n_seqs * run->heads_per_tile;
    uint32_t n_segments = 1;
    for (uint32_t i = 0; i < g->n_seqs; i++) {
        const uint32_t n = count_segments(a->seqs[run->order[g->order_first + i]].kv_len);
        if (n > n_segments) n_segments = n;
    }
    if (n_segments > run->n_segments_max) run->n_segments_max = n_segments;
    g->rows_per_tile = 1;
    g->kv_heads_per_item = 1;
    if (g->n_rows > 1)
        g->rows_per_tile = tile_queries > n_row_queries ? tile_queries / n_row_queries : 1;
    else if (run->n_head_tiles == 1)
        g->kv_heads_per_item = min_u32(kv_heads_max, ATTN_QUERIES / n_row_queries);
    g->rows_per_tile = min_u32(g->rows_per_tile, g->n_rows);
    g->n_kv_items = div_up(a->n_kv_heads, g->kv_heads_per_item);
    const size_t floats =
        (size_t)g->kv_heads_per_item * g->rows_per_tile * n_row_queries * (a->v_head_dim + 2);
    if (floats > run->partial_floats) run->partial_floats = floats;
    g->item_first = run->n_items;
    const uint32_t n_items =
        div_up(g->n_rows, g->rows_per_tile) * run->n_head_tiles * g->n_kv_items;
    run->n_items += n_items;
    run->n_item_segments += (uint64_t)n_items * n_segments;
}

static void cut_groups(struct attention_run *run, uint32_t tile_queries, uint32_t kv_heads_max) {
    run->n_items = run->n_segments_max = 0;
    run->n_item_segments = run->partial_floats = 0;
    for (uint32_t i = 0; i < run->n_groups; i++)
        cut_group(run, &run->groups[i], tile_queries, kv_heads_max);
}

static void check_seqs(const struct attention_run *run) {
    const struct attention_args *a = run->args;
    for (uint32_t i = 0; i < a->n_seqs; i++)
        RADISH_INVARIANT(a->seqs[i].n_rows <= a->seqs[i].kv_len &&
                             a->seqs[i].kv_len <= run->device->kv_len_max,
                         "%u rows, KV length %u of %u", a->seqs[i].n_rows, a->seqs[i].kv_len,
                         run->device->kv_len_max);
}

/* As few and large items as leave every thread some, segments counted one by one: KV heads go apart
 * first (whole slots are read at the speed of memory, one head of each at half of it), then the
 * rows of chunks, then sequences that share keys. */
static void list_items(struct attention_run *run) {
    const struct attention_args *a = run->args;
    const uint32_t n_threads = pool_n_threads(run->device->base.pool);
    const uint32_t n_wanted = n_threads + n_threads / 2;
    uint32_t kv_heads = min_u32(a->n_kv_heads, ATTN_QUERIES);
    uint32_t n_seqs = ATTN_QUERIES / run->heads_per_tile, tile_queries = ATTN_QUERIES;
    check_seqs(run);
    group_seqs(run, n_seqs);
    for (;;) {
        cut_groups(run, tile_queries, kv_heads);
        if (run->n_item_segments >= n_wanted) return;
        if (kv_heads > 1) {
            kv_heads /= 2;
        } else if (tile_queries > TILE_QUERIES_MIN) {
            tile_queries /= 2;
        } else if (n_seqs > 1 && run->n_groups < a->n_seqs) {
            n_seqs = div_up(n_seqs, 2);
            group_seqs(run, n_seqs);
        } else {
            return;
        }
    }
}

static uint32_t first_visible(const struct attention_args *a, uint32_t pos) {
    return a->window && pos + 1 > a->window ? pos + 1 - a->window : 0;
}

static const struct attention_seq *seq_of(const struct attention_run *run,
                                          const struct attention_tile *t, uint32_t s) {
    return &run->args->seqs[t->order[s]];
}

static uint32_t position_of(const struct attention_seq *seq, const struct attention_tile *t,
                            uint32_t row) {
    return seq->kv_len - seq->n_rows + t->row_first + row;
}

static struct attention_tile find_tile(const struct attention_run *run, uint32_t item) {
    const struct attention_args *a = run->args;
    uint32_t low = 0, high = run->n_groups; /* groups[low] has the item or one before it has */
    while (high - low > 1) {
        const uint32_t middle = low + (high - low) / 2;
        if (run->groups[middle].item_first <= item)
            low = middle;
        else
            high = middle;
    }
    const struct attention_group *g = &run->groups[low];
    item -= g->item_first;
    struct attention_tile t = {.group = g, .order = run->order + g->order_first};
    t.n_seqs = g->n_seqs;
    t.kv_first = item % g->n_kv_items * g->kv_heads_per_item;
    t.n_kv = min_u32(g->kv_heads_per_item, a->n_kv_heads - t.kv_first);
    item /= g->n_kv_items;
    t.head_first = item % run->n_head_tiles * run->heads_per_tile;
    t.n_heads = min_u32(run->heads_per_tile, run->group - t.head_first);
    /* Later rows see more keys: they begin first. */
    const uint32_t n_row_tiles = div_up(g->n_rows, g->rows_per_tile);
    t.row_first = (n_row_tiles - 1 - item / run->n_head_tiles) * g->rows_per_tile;
    t.n_rows = min_u32(g->rows_per_tile, g->n_rows - t.row_first);
    t.n_queries = t.n_kv * t.n_seqs * t.n_rows * t.n_heads;
    t.segment_first = UINT32_MAX;
    for (uint32_t s = 0; s < t.n_seqs; s++) {
        const struct attention_seq *seq = seq_of(run, &t, s);
        const uint32_t pos = position_of(seq, &t, 0);
        const uint32_t first = first_visible(a, pos) / ATTENTION_SEGMENT;
        const uint32_t end = (pos + t.n_rows - 1) / ATTENTION_SEGMENT + 1;
        if (first < t.segment_first) t.segment_first = first;
        if (end > t.segment_end) t.segment_end = end;
    }
    return t;
}

/* ---- a part: one segment of an item ---- */

/* Calls for every run of a tile's heads that lie side by side in q and out: query i, at element
 * `head * head_dim` of row `row`. */
struct head_run {
    uint32_t query;
    size_t row;
    uint32_t head;
};

static struct head_run find_heads(const struct attention_run *run, const struct attention_tile *t,
                                  uint32_t index) {
    const uint32_t r = index % t->n_rows, s = index / t->n_rows % t->n_seqs;
    const uint32_t kv = index / t->n_rows / t->n_seqs;
    return (struct head_run){index * t->n_heads,
                             (size_t)seq_of(run, t, s)->row_first + t->row_first + r,
                             (t->kv_first + kv) * run->group + t->head_first};
}

static void gather_queries(const struct attention_run *run, const struct attention_tile *t,
                           float *q) {
    const struct attention_args *a = run->args;
    for (uint32_t i = 0; i < t->n_queries / t->n_heads; i++) {
        const struct head_run h = find_heads(run, t, i);
        memcpy(q + (size_t)h.query * a->head_dim,
               a->q + h.row * a->q_stride + (size_t)h.head * a->head_dim,
               (size_t)t->n_heads * a->head_dim * sizeof *q);
    }
}

/* Which keys of the segment the heads of a row see. */
static void set_range(const struct attention_run *run, uint32_t pos, uint32_t base,
                      uint32_t *first_out, uint32_t *end_out) {
    const uint32_t low = first_visible(run->args, pos);
    uint32_t first = low > base ? low - base : 0, end = pos + 1 > base ? pos + 1 - base : 0;
    end = min_u32(end, ATTENTION_SEGMENT);
    if (first >= end) first = end = 0;
    *first_out = first;
    *end_out = end;
}

static void check_slots(const struct attention_run *run, const struct attention_span *s) {
    uint32_t top = 0;
    for (uint32_t j = s->key_first; j < s->key_end; j++)
        top = s->slots[j] > top ? s->slots[j] : top;
    RADISH_INVARIANT(s->key_first >= s->key_end || top < run->args->n_slots,
                     "slot %u of %u in keys %u to %u", top, run->args->n_slots, s->key_first,
                     s->key_end);
}

/* Keys [first, end) of the segment that all sequences have in the same slots, in whole blocks. */
static void find_shared(const struct attention_run *run, const struct attention_tile *t,
                        const struct attention_span *own, size_t base,
                        struct attention_span *shared_out) {
    uint32_t first = 0, end = ATTENTION_SEGMENT;
    for (uint32_t s = 0; s < t->n_seqs; s++) {
        if (own[s].key_first > first) first = own[s].key_first;
        end = min_u32(end, own[s].key_end);
    }
    first = div_up(first, ATTN_BLOCK) * ATTN_BLOCK;
    const uint32_t *slots = seq_of(run, t, 0)->slots + base;
    for (uint32_t s = 1; s < t->n_seqs; s++) {
        const uint32_t *other = seq_of(run, t, s)->slots + base;
        uint32_t j = first;
        while (j < end && slots[j] == other[j]) j++;
        end = j;
    }
    *shared_out = (struct attention_span){.slots = slots, .key_first = first};
    shared_out->key_end = end > first ? end / ATTN_BLOCK * ATTN_BLOCK : first;
    if (shared_out->key_end < first) shared_out->key_end = first;
}

static void add_span(struct attention_part *p, struct attention_span span, uint32_t query_first,
                     uint32_t n_queries) {
    span.query_first = query_first;
    span.n_queries = n_queries;
    if (span.key_first < span.key_end) p->spans[p->n_spans++] = span;
}

/* Ranges of a sequence's queries, and the keys that they see together. */
static void set_ranges(const struct attention_run *run, const struct attention_tile *t, uint32_t s,
                       size_t base, struct attention_part *p, struct attention_span *own_out) {
    const struct attention_seq *seq = seq_of(run, t, s);
    *own_out = (struct attention_span){.slots = seq->slots, .key_first = ATTENTION_SEGMENT};
    for (uint32_t r = 0; r < t->n_rows; r++) {
        uint32_t first, end;
        set_range(run, position_of(seq, t, r), (uint32_t)base, &first, &end);
        if (!end) first = ATTENTION_SEGMENT;
        if (first < own_out->key_first) own_out->key_first = first;
        if (end > own_out->key_end) own_out->key_end = end;
        for (uint32_t i = 0; i < t->n_kv * t->n_heads; i++) {
            const uint32_t kv = i / t->n_heads, h = i % t->n_heads;
            const uint32_t q = ((kv * t->n_seqs + s) * t->n_rows + r) * t->n_heads + h;
            p->key_first[q] = end ? first : 0;
            p->key_end[q] = end;
        }
    }
    if (own_out->key_end) own_out->slots += base;
    check_slots(run, own_out);
}

/* The spans in which a tile finds its keys, in every KV head the same:
 *
 *   sequence 0   [ own | shared by all, whole blocks | own ]     (own before: windows differ)
 *   sequence 1     [ own | shared by all ............ | own ] */
static void list_spans(const struct attention_tile *t, const struct attention_span *own,
                       const struct attention_span *shared, struct attention_part *p) {
    const uint32_t n = t->n_rows * t->n_heads;
    const bool is_shared = shared->key_first < shared->key_end;
    p->n_spans = 0;
    for (uint32_t s = 0; s < t->n_seqs && is_shared; s++) {
        struct attention_span before = own[s];
        before.key_end = shared->key_first;
        add_span(p, before, s * n, n);
    }
    add_span(p, *shared, 0, t->n_seqs * n);
    for (uint32_t s = 0; s < t->n_seqs; s++) {
        struct attention_span after = own[s];
        if (is_shared) after.key_first = shared->key_end;
        add_span(p, after, s * n, n);
    }
}

static void compute_segment(const struct attention_run *run, const struct attention_tile *t,
                            uint32_t segment, struct attention_part *p) {
    const size_t base = (size_t)segment * ATTENTION_SEGMENT;
    struct attention_span own[ATTN_QUERIES], shared = {0};
    for (uint32_t s = 0; s < t->n_seqs; s++) set_ranges(run, t, s, base, p, &own[s]);
    if (t->n_seqs > 1) find_shared(run, t, own, base, &shared);
    list_spans(t, own, &shared, p);
    run->fn(p);
}

static void init_part(const struct attention_run *run, const struct attention_tile *t,
                      struct attention_scratch *s, struct attention_part *p) {
    const struct attention_args *a = run->args;
    p->kv_dtype = (enum dtype)a->kv_dtype;
    p->head_dim = a->head_dim;
    p->v_head_dim = a->v_head_dim;
    p->k_stride = (size_t)a->n_kv_heads * a->head_dim;
    p->v_stride = (size_t)a->n_kv_heads * a->v_head_dim;
    const size_t elem = dtype_block_bytes(p->kv_dtype);
    p->k_pool = (const char *)a->k_pool + (size_t)t->kv_first * a->head_dim * elem;
    p->v_pool = (const char *)a->v_pool + (size_t)t->kv_first * a->v_head_dim * elem;
    p->n_kv_heads = t->n_kv;
    p->n_queries = t->n_queries;
    p->q = s->q;
    p->scale = a->scale;
    p->soft_cap = a->soft_cap;
    p->max = s->max;
    p->sum = s->sum;
    p->acc = s->acc;
    p->scores = s->scores;
    p->tile = s->tile;
    gather_queries(run, t, s->q);
}

/* ---- merging ---- */

/* Folds one query's segment into what was to its left. An empty side changes nothing. */
static void merge(float max, float sum, const float *acc, uint32_t n, float *max_all,
                  float *sum_all, float *acc_all) {
    if (max == -INFINITY) return;
    if (*max_all == -INFINITY) {
        *max_all = max;
        *sum_all = sum;
        memcpy(acc_all, acc, n * sizeof *acc);
        return;
    }
    const float top = max > *max_all ? max : *max_all;
    const float left = scalar_exp(*max_all - top), right = scalar_exp(max - top);
    *max_all = top;
    *sum_all = *sum_all * left + sum * right;
    for (uint32_t d = 0; d < n; d++) acc_all[d] = acc_all[d] * left + acc[d] * right;
}

static void write_out(const struct attention_run *run, const struct attention_tile *t,
                      const float *sum_all, const float *acc_all) {
    const struct attention_args *a = run->args;
    for (uint32_t i = 0; i < t->n_queries / t->n_heads; i++) {
        const struct head_run h = find_heads(run, t, i);
        float *out = a->out + h.row * a->out_stride + (size_t)h.head * a->v_head_dim;
        for (uint32_t n = 0; n < t->n_heads; n++, out += a->v_head_dim) {
            const float *acc = acc_all + (size_t)(h.query + n) * a->v_head_dim;
            const float sum = sum_all[h.query + n];
            for (uint32_t d = 0; d < a->v_head_dim; d++) out[d] = acc[d] / sum;
        }
    }
}

static struct attention_scratch *worker_scratch(const struct attention_run *run, uint32_t worker) {
    struct cpu_device *d = run->device;
    return (void *)(d->scratch + d->activation_bytes + (size_t)worker * d->worker_bytes);
}

/* What the worker reads behind a segment of a tile: the tile's next segment, or the first one of
 * the item that nobody has begun. Another worker may take that, or the next part may have more KV
 * heads than this one; then some lines are fetched for nothing, or too few. */
static void guess_next(const struct attention_run *run, const struct attention_tile *t,
                       uint32_t segment, struct attention_part *p) {
    const struct attention_args *a = run->args;
    struct attention_tile next = *t;
    p->n_next_keys = 0;
    if (++segment == t->segment_end) {
        const uint32_t item = pool_next_item(run->device->base.pool);
        if (item >= run->n_items) return;
        next = find_tile(run, item);
        segment = next.segment_first;
    }
    const struct attention_seq *seq = seq_of(run, &next, 0);
    const uint32_t base = segment * ATTENTION_SEGMENT;
    const uint32_t low = first_visible(a, position_of(seq, &next, 0));
    const uint32_t first = low > base ? low : base;
    if (seq->kv_len <= first) return;
    p->next_k_pool = (const char *)a->k_pool +
                     (size_t)next.kv_first * a->head_dim * dtype_block_bytes(p->kv_dtype);
    p->next_slots = seq->slots + first;
    p->n_next_keys = min_u32(seq->kv_len - first, ATTN_BLOCK);
}

static void run_tile(void *user, uint32_t item, uint32_t worker) {
    const struct attention_run *run = user;
    struct attention_scratch *s = worker_scratch(run, worker);
    const struct attention_tile t = find_tile(run, item);
    const uint32_t n = run->args->v_head_dim;
    struct attention_part part;
    init_part(run, &t, s, &part);
    for (uint32_t i = 0; i < part.n_queries; i++) s->max_all[i] = -INFINITY;
    for (uint32_t segment = t.segment_first; segment < t.segment_end; segment++) {
        guess_next(run, &t, segment, &part);
        compute_segment(run, &t, segment, &part);
        for (uint32_t i = 0; i < part.n_queries; i++)
            merge(s->max[i], s->sum[i], s->acc + (size_t)i * n, n, &s->max_all[i], &s->sum_all[i],
                  s->acc_all + (size_t)i * n);
    }
    write_out(run, &t, s->sum_all, s->acc_all);
}

static float *partial_at(const struct attention_run *run, uint32_t item, uint32_t segment) {
    return run->partials + ((size_t)item * run->n_segments_max + segment) * run->partial_floats;
}

/* Item times segment: results stay in scratch. */
static void run_segment(void *user, uint32_t index, uint32_t worker) {
    const struct attention_run *run = user;
    const uint32_t item = index / run->n_segments_max, segment = index % run->n_segments_max;
    const struct attention_tile t = find_tile(run, item);
    if (segment < t.segment_first || segment >= t.segment_end) return;
    struct attention_part part;
    init_part(run, &t, worker_scratch(run, worker), &part);
    part.n_next_keys = 0;
    part.max = partial_at(run, item, segment);
    part.sum = part.max + part.n_queries;
    part.acc = part.sum + part.n_queries;
    compute_segment(run, &t, segment, &part);
}

static void merge_item(void *user, uint32_t item, uint32_t worker) {
    const struct attention_run *run = user;
    struct attention_scratch *s = worker_scratch(run, worker);
    const struct attention_tile t = find_tile(run, item);
    const uint32_t n = run->args->v_head_dim;
    for (uint32_t i = 0; i < t.n_queries; i++) {
        s->max_all[i] = -INFINITY;
        for (uint32_t segment = t.segment_first; segment < t.segment_end; segment++) {
            const float *max = partial_at(run, item, segment), *sum = max + t.n_queries;
            merge(max[i], sum[i], sum + t.n_queries + (size_t)i * n, n, &s->max_all[i],
                  &s->sum_all[i], s->acc_all + (size_t)i * n);
        }
    }
    write_out(run, &t, s->sum_all, s->acc_all);
}

/* Whether segments are shared out: one item would be more than a quarter of a thread's share, and
 * there is room for the results. */
static bool wants_split(const struct attention_run *run, uint32_t n_threads) {
    if (n_threads == 1 || run->n_segments_max == 1) return false;
    if (run->n_item_segments >= (uint64_t)4 * n_threads * run->n_segments_max) return false;
    return (size_t)run->n_items * run->n_segments_max * run->partial_floats <= run->partials_max;
}

void cpu_attention(struct cpu_device *d, attention_fn fn, const struct attention_args *args) {
    struct attention_run run = {.args = args, .fn = fn, .device = d};
    const uint32_t n_threads = pool_n_threads(d->base.pool);
    RADISH_INVARIANT(args->n_seqs <= d->rows_max, "%u sequences of %u", args->n_seqs, d->rows_max);
    run.group = args->n_heads / args->n_kv_heads;
    run.n_head_tiles = div_up(run.group, ATTN_QUERIES);
    run.heads_per_tile = div_up(run.group, run.n_head_tiles);
    run.groups = (struct attention_group *)(void *)d->scratch;
    run.order = (uint32_t *)(void *)(run.groups + d->rows_max + 1);
    run.first_key = run.order + d->rows_max + 1;
    run.partials = (float *)(void *)(d->scratch + item_list_bytes(d->rows_max));
    run.partials_max = split_bytes(n_threads, d->kv_len_max) / sizeof(float);
    list_items(&run);
    if (wants_split(&run, n_threads)) {
        pool_run(d->base.pool, run.n_items * run.n_segments_max, run_segment, &run);
        pool_run(d->base.pool, run.n_items, merge_item, &run);
        return;
    }
    pool_run(d->base.pool, run.n_items, run_tile, &run);
}
