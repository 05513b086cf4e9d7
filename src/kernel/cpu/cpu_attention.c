/* cpu_attention.c - cuts attention into parts and merges their segments.
 *
 * An item is a tile of queries (the heads that share one KV head, times a few rows of one sequence)
 * that walks its segments of 1,024 absolute positions from left to right: the variant computes
 * (max, sum, acc) of each segment, and the merge here folds them into running ones:
 *
 *   M' = max(M, m);  S = S exp(M - M') + s exp(m - M');  A likewise;  at the end out = A / S
 *
 *   positions  0 ........ 1023 | 1024 ...... 2047 | 2048 .. 2500
 *                 (m, s, a)    +    (m, s, a)     +   (m, s, a)      always in this order
 *
 * When there are fewer items than threads want (one long sequence being decoded), the segments of
 * an item become items themselves, their results wait in scratch, and a second run merges them in
 * the same order: the same operations on the same numbers, so the same bits. Which way is taken
 * depends on threads and batch; the result does not.
 *
 * K and V are read from the pool where they lie, through the slot table; every slot is checked
 * against the pool before it is read. */
#include "base/invariant.h"
#include "device_cpu.h"
#include "scalar_exp.h"

#include <string.h>

enum {
    TILE_QUERIES = 32,       /* wanted queries of a tile: scores stay in the second-level cache */
    SPLIT_FLOATS = 16 * 258, /* scratch for split segments: 16 heads of 256, per item and segment */
    SPLIT_ITEMS_PER_THREAD = 2
};

struct attention_run {
    const struct attention_args *args;
    attention_fn fn;
    struct cpu_device *device;
    uint32_t group;          /* query heads of a KV head */
    uint32_t heads_per_tile; /* of them in a tile */
    uint32_t n_head_tiles, rows_per_tile;
    uint32_t *item_first; /* [n_seqs + 1] items before a sequence */
    float *partials;      /* [items][n_segments_max][queries * (v_head_dim + 2)] when split */
    uint32_t n_segments_max;
    size_t partial_floats;
};

/* One item, found from its number. */
struct attention_tile {
    const struct attention_seq *seq;
    uint32_t kv_head, head_first, n_heads;
    uint32_t row_first, n_rows; /* within the sequence */
    uint32_t segment_first, segment_end;
};

/* A worker's scratch. */
struct attention_scratch {
    float q[ATTN_QUERIES * HEAD_DIM_MAX];
    float acc[ATTN_QUERIES * HEAD_DIM_MAX], acc_all[ATTN_QUERIES * HEAD_DIM_MAX];
    float max[ATTN_QUERIES], sum[ATTN_QUERIES], max_all[ATTN_QUERIES], sum_all[ATTN_QUERIES];
    float scores[ATTN_QUERIES * ATTENTION_SEGMENT];
    float tile[ATTN_TILE_FLOATS];
};

size_t cpu_attention_worker_bytes(void) {
    return (sizeof(struct attention_scratch) + 63) / 64 * 64;
}

static uint32_t count_segments(uint32_t kv_len) {
    return (kv_len + ATTENTION_SEGMENT - 1) / ATTENTION_SEGMENT;
}

static size_t item_list_bytes(uint32_t rows_max) {
    return ((size_t)rows_max + 1 + 15) / 16 * 16 * sizeof(uint32_t);
}

size_t cpu_attention_shared_bytes(uint32_t n_threads, uint32_t rows_max, uint32_t kv_len_max) {
    const size_t split = n_threads == 1
                             ? 0
                             : (size_t)SPLIT_ITEMS_PER_THREAD * n_threads *
                                   count_segments(kv_len_max) * SPLIT_FLOATS * sizeof(float);
    return item_list_bytes(rows_max) + split;
}

static struct attention_tile find_tile(const struct attention_run *run, uint32_t item) {
    const struct attention_args *a = run->args;
    uint32_t low = 0, high = a->n_seqs; /* item_first[low] <= item < item_first[high] */
    while (high - low > 1) {
        const uint32_t middle = low + (high - low) / 2;
        if (run->item_first[middle] <= item)
            low = middle;
        else
            high = middle;
    }
    item -= run->item_first[low];
    struct attention_tile t = {.seq = &a->seqs[low]};
    t.kv_head = item % a->n_kv_heads;
    item /= a->n_kv_heads;
    const uint32_t head = item % run->n_head_tiles * run->heads_per_tile;
    t.head_first = t.kv_head * run->group + head;
    t.n_heads = run->group - head < run->heads_per_tile ? run->group - head : run->heads_per_tile;
    t.row_first = item / run->n_head_tiles * run->rows_per_tile;
    const uint32_t n_left = t.seq->n_rows - t.row_first;
    t.n_rows = n_left < run->rows_per_tile ? n_left : run->rows_per_tile;
    const uint32_t first_pos = t.seq->kv_len - t.seq->n_rows + t.row_first;
    const uint32_t last_pos = first_pos + t.n_rows - 1;
    if (a->window && first_pos + 1 > a->window)
        t.segment_first = (first_pos + 1 - a->window) / ATTENTION_SEGMENT;
    t.segment_end = last_pos / ATTENTION_SEGMENT + 1;
    return t;
}

/* Queries of the tile, row by row, head by head, side by side. */
static void gather_queries(const struct attention_run *run, const struct attention_tile *t,
                           float *q) {
    const struct attention_args *a = run->args;
    for (uint32_t r = 0; r < t->n_rows; r++) {
        const size_t row = t->seq->row_first + t->row_first + r;
        memcpy(q + (size_t)r * t->n_heads * a->head_dim,
               a->q + row * a->q_stride + (size_t)t->head_first * a->head_dim,
               (size_t)t->n_heads * a->head_dim * sizeof *q);
    }
}

/* Which keys of the segment each query sees. */
static void set_ranges(const struct attention_run *run, const struct attention_tile *t,
                       uint32_t segment, struct attention_part *p) {
    const uint32_t base = segment * ATTENTION_SEGMENT, window = run->args->window;
    p->n_keys = 0;
    p->key_min = ATTENTION_SEGMENT;
    for (uint32_t i = 0; i < p->n_queries; i++) {
        const uint32_t pos = t->seq->kv_len - t->seq->n_rows + t->row_first + i / t->n_heads;
        const uint32_t low = window && pos + 1 > window ? pos + 1 - window : 0;
        uint32_t first = low > base ? low - base : 0, end = pos + 1 > base ? pos + 1 - base : 0;
        if (end > ATTENTION_SEGMENT) end = ATTENTION_SEGMENT;
        if (first >= end) first = end = 0;
        p->key_first[i] = first;
        p->key_end[i] = end;
        if (end > p->n_keys) p->n_keys = end;
        if (end && first < p->key_min) p->key_min = first;
    }
    if (p->key_min > p->n_keys) p->key_min = p->n_keys;
}

static void compute_segment(const struct attention_run *run, const struct attention_tile *t,
                            uint32_t segment, struct attention_part *p) {
    set_ranges(run, t, segment, p);
    p->slots = t->seq->slots + (size_t)segment * ATTENTION_SEGMENT;
    for (uint32_t j = p->key_min; j < p->n_keys; j++)
        RADISH_INVARIANT(p->slots[j] < run->args->n_slots, "slot %u of %u at position %u",
                         p->slots[j], run->args->n_slots, segment * ATTENTION_SEGMENT + j);
    run->fn(p);
}

static void init_part(const struct attention_run *run, const struct attention_tile *t,
                      struct attention_scratch *s, struct attention_part *p) {
    const struct attention_args *a = run->args;
    const size_t elem_bytes = dtype_block_bytes((enum dtype)a->kv_dtype);
    p->kv_dtype = (enum dtype)a->kv_dtype;
    p->head_dim = a->head_dim;
    p->v_head_dim = a->v_head_dim;
    p->k_stride = (size_t)a->n_kv_heads * a->head_dim;
    p->v_stride = (size_t)a->n_kv_heads * a->v_head_dim;
    p->k_pool = (const char *)a->k_pool + (size_t)t->kv_head * a->head_dim * elem_bytes;
    p->v_pool = (const char *)a->v_pool + (size_t)t->kv_head * a->v_head_dim * elem_bytes;
    p->n_queries = t->n_rows * t->n_heads;
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
    for (uint32_t i = 0; i < t->n_rows * t->n_heads; i++) {
        const size_t row = t->seq->row_first + t->row_first + i / t->n_heads;
        float *out =
            a->out + row * a->out_stride + (size_t)(t->head_first + i % t->n_heads) * a->v_head_dim;
        const float *acc = acc_all + (size_t)i * a->v_head_dim;
        for (uint32_t d = 0; d < a->v_head_dim; d++) out[d] = acc[d] / sum_all[i];
    }
}

static struct attention_scratch *worker_scratch(const struct attention_run *run, uint32_t worker) {
    struct cpu_device *d = run->device;
    return (void *)(d->scratch + d->activation_bytes + (size_t)worker * d->worker_bytes);
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
    part.max = partial_at(run, item, segment);
    part.sum = part.max + part.n_queries;
    part.acc = part.sum + part.n_queries;
    compute_segment(run, &t, segment, &part);
}

static void merge_item(void *user, uint32_t item, uint32_t worker) {
    const struct attention_run *run = user;
    struct attention_scratch *s = worker_scratch(run, worker);
    const struct attention_tile t = find_tile(run, item);
    const uint32_t n_queries = t.n_rows * t.n_heads, n = run->args->v_head_dim;
    for (uint32_t i = 0; i < n_queries; i++) {
        s->max_all[i] = -INFINITY;
        for (uint32_t segment = t.segment_first; segment < t.segment_end; segment++) {
            const float *max = partial_at(run, item, segment), *sum = max + n_queries;
            merge(max[i], sum[i], sum + n_queries + (size_t)i * n, n, &s->max_all[i],
                  &s->sum_all[i], s->acc_all + (size_t)i * n);
        }
    }
    write_out(run, &t, s->sum_all, s->acc_all);
}

/* Fills item_first; returns the number of items. */
static uint32_t list_items(struct attention_run *run) {
    const struct attention_args *a = run->args;
    uint32_t n_items = 0;
    for (uint32_t i = 0; i < a->n_seqs; i++) {
        const struct attention_seq *seq = &a->seqs[i];
        RADISH_INVARIANT(seq->n_rows <= seq->kv_len && seq->kv_len <= run->device->kv_len_max,
                         "%u rows, KV length %u of %u", seq->n_rows, seq->kv_len,
                         run->device->kv_len_max);
        run->item_first[i] = n_items;
        n_items += (seq->n_rows + run->rows_per_tile - 1) / run->rows_per_tile * run->n_head_tiles *
                   a->n_kv_heads;
        const uint32_t n_segments = count_segments(seq->kv_len);
        if (n_segments > run->n_segments_max) run->n_segments_max = n_segments;
    }
    run->item_first[a->n_seqs] = n_items;
    return n_items;
}

void cpu_attention(struct cpu_device *d, attention_fn fn, const struct attention_args *args) {
    struct attention_run run = {.args = args, .fn = fn, .device = d};
    RADISH_INVARIANT(args->n_seqs <= d->rows_max, "%u sequences of %u", args->n_seqs, d->rows_max);
    run.group = args->n_heads / args->n_kv_heads;
    run.n_head_tiles = (run.group + ATTN_QUERIES - 1) / ATTN_QUERIES;
    run.heads_per_tile = (run.group + run.n_head_tiles - 1) / run.n_head_tiles;
    run.rows_per_tile = run.heads_per_tile < TILE_QUERIES ? TILE_QUERIES / run.heads_per_tile : 1;
    run.item_first = (uint32_t *)(void *)d->scratch;
    run.partials = (float *)(void *)(d->scratch + item_list_bytes(d->rows_max));
    run.partial_floats = (size_t)run.rows_per_tile * run.heads_per_tile * (args->v_head_dim + 2);
    const uint32_t n_items = list_items(&run), n_threads = pool_n_threads(d->base.pool);
    /* A tile of a decode has one row: its partial results need no room for more. */
    uint32_t rows_most = 0;
    for (uint32_t i = 0; i < args->n_seqs; i++)
        if (args->seqs[i].n_rows > rows_most) rows_most = args->seqs[i].n_rows;
    if (rows_most < run.rows_per_tile)
        run.partial_floats = (size_t)rows_most * run.heads_per_tile * (args->v_head_dim + 2);
    if (n_threads > 1 && run.n_segments_max > 1 && n_items < SPLIT_ITEMS_PER_THREAD * n_threads &&
        run.partial_floats <= SPLIT_FLOATS) {
        pool_run(d->base.pool, n_items * run.n_segments_max, run_segment, &run);
        pool_run(d->base.pool, n_items, merge_item, &run);
        return;
    }
    pool_run(d->base.pool, n_items, run_tile, &run);
}
