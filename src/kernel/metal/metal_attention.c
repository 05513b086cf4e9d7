/* metal_attention.c - attention on Metal: what work a ragged batch is cut into, and its dispatches.
 *
 * Sequences with up to ROWS_FEW rows (decodes) are taken row by row, others (chunks of prompts) in
 * tiles of 32 rows:
 *
 *   rows that see up to WHOLE_KEYS keys   attn_decode        a threadgroup walks all keys
 *   rows that see more                    attn_decode_part   one for each block, results to scratch
 *                                         attn_merge         joins the blocks of a row, in order
 *   tiles of rows                         attn_prefill       matrices
 *
 * Rows, blocks and tiles touch different memory and stand side by side without a barrier; only the
 * merge waits, for its blocks. A row's blocks depend on how many keys it sees and on its heads,
 * never on the batch, so its bits do not either; a chunk's rows have the bits of matrices instead.
 *
 * What the host makes (slot tables of all sequences, and the lists of tasks, merges and tiles) lies
 * in the step's memory and is made once for all layers that ask with the same sequences: the slots
 * under the array's address, the lists under the addresses of the bytes behind it, since they
 * differ with window and heads (layers with and without a window; seldom more). Slots are checked
 * here, as on the CPU: one past the end of the pool stops the program before anybody's keys are
 * read in its stead.
 *
 * No dispatch is long: tiles go in pieces of PIECE_PRODUCTS products of a row with a key, and rows
 * in as many rounds as their partial results need to fit into scratch; both are halved each time
 * the system has ended a step (metal_shrink()). Work stays in the order of the batch's rows, so
 * that the rows of a piece are neighbours and pieces need no barrier either.
 *
 * The sizes here are guesses from what is public about these GPUs (others split from 1,024 or 4,096
 * keys on, in blocks of 512): nothing was measured on one. */
#include "metal_int.h"
#include "metal_kernel.h"

#include "base/invariant.h"
#include "kernels/attention_args.h"

#include <stdio.h>
#include <string.h>

enum {
    ROWS_FEW = 4,
    WHOLE_KEYS = 1024,
    BLOCK_KEYS = 512, /* more where a row would have more than BLOCKS_MAX */
    BLOCK_STEP = 32,
    BLOCKS_MAX = 128,
    HEADS_MAX = 8,       /* of a threadgroup of attn_decode */
    TILE_BYTES = 20480,  /* of K and V in threadgroup memory: two threadgroups have room */
    TILE_PAD = 8,        /* numbers between rows of a tile, against conflicts of banks */
    MERGE_THREADS = 128, /* of attn_merge */
    METAL_HEAD_DIM_MAX = 512
};

#define PIECE_PRODUCTS      ((uint64_t)1 << 28) /* rows times keys times heads, of a dispatch */
#define SCRATCH_BYTES       ((uint64_t)16 << 20)
#define STEP_SLOTS          ((uint64_t)4 << 20) /* of a step's sequences; more make it grow */
#define LOG2_E              1.44269504088896340736
#define N_CONSTANTS_DECODE  4
#define N_CONSTANTS_PREFILL 5

/* The shape of a layer's heads. */
struct attention_heads {
    uint32_t n_heads, n_kv_heads, head_dim, v_head_dim;
    enum dtype kv_dtype;
    bool has_soft_cap;
};

struct attention_pipelines {
    const struct mtl_pipeline *decode, *part, *merge, *prefill;
};

/* Lists of work, in the step's memory; NULL while they are counted. */
struct attention_lists {
    struct attention_task *whole, *parts;
    struct attention_merge *merges;
    struct attention_tile *tiles;
    uint32_t n_whole, n_parts, n_merges, n_tiles;
};

/* What stands before the lists: what they were made for. */
struct attention_key {
    uint32_t window, n_blocks_max;
};

struct attention_run {
    struct metal_device *d;
    const struct attention_args *args;
    struct attention_heads heads;
    struct attention_pipelines pipelines;
    struct attention_numbers numbers;
    struct attention_key key;
    const uint32_t *slots; /* of all sequences, device */
    size_t n_slots;
    struct attention_lists lists;
};

static uint32_t min_u32(uint32_t a, uint32_t b) {
    return a < b ? a : b;
}

static uint32_t max_u32(uint32_t a, uint32_t b) {
    return a > b ? a : b;
}

static uint32_t div_up(uint32_t a, uint32_t b) {
    return (a + b - 1) / b;
}

/* ---- pipelines ---- */

/* Query heads of a threadgroup of attn_decode: as many of a KV head's as a lane can hold, tiles of
 * them equally large. */
static uint32_t count_tile_heads(const struct attention_heads *h) {
    const uint32_t group = h->n_heads / h->n_kv_heads;
    const uint32_t share = div_up(max_u32(h->head_dim, h->v_head_dim), MTL_SIMD_WIDTH);
    const uint32_t most = min_u32(HEADS_MAX, ATTENTION_LANE_FLOATS / share);
    return div_up(group, div_up(group, most));
}

static uint32_t count_head_tiles(const struct attention_heads *h) {
    return h->n_kv_heads * div_up(h->n_heads / h->n_kv_heads, count_tile_heads(h));
}

static size_t count_tile_bytes(const struct attention_heads *h, uint32_t n_keys, uint32_t pad) {
    const size_t numbers =
        (size_t)div_up(h->head_dim, 8) * 8 + (size_t)div_up(h->v_head_dim, 8) * 8 + 2 * pad;
    return n_keys * numbers * dtype_block_bytes(h->kv_dtype);
}

/* Keys of a tile, and the room between them, of attn_prefill. */
static void size_tile(const struct attention_heads *h, uint32_t *n_keys_out, uint32_t *pad_out) {
    *n_keys_out = ATTENTION_TILE_ROWS;
    while (*n_keys_out > 8 && count_tile_bytes(h, *n_keys_out, TILE_PAD) > TILE_BYTES)
        *n_keys_out /= 2;
    *pad_out = count_tile_bytes(h, *n_keys_out, TILE_PAD) > MTL_SHARED_MAX ? 0 : TILE_PAD;
}

static const char *dtype_suffix(enum dtype dtype) {
    switch (dtype) {
    case RADISH_DTYPE_F32: return "f32";
    case RADISH_DTYPE_F16: return "f16";
    default: return "bf16";
    }
}

static bool find_pipelines(struct metal_device *d, const struct attention_heads *h,
                           struct attention_pipelines *pipelines_out, char *reason_out,
                           size_t reason_bytes) {
    char name[40];
    const char *suffix = dtype_suffix(h->kv_dtype);
    const uint32_t dim = max_u32(h->head_dim, h->v_head_dim);
    uint32_t n_keys, pad;
    size_tile(h, &n_keys, &pad);
    const struct mtl_constant head = metal_uint(ATTENTION_CONSTANT_HEAD_DIM, h->head_dim);
    const struct mtl_constant v_head = metal_uint(ATTENTION_CONSTANT_V_HEAD_DIM, h->v_head_dim);
    const struct mtl_constant cap = metal_bool(ATTENTION_CONSTANT_HAS_SOFT_CAP, h->has_soft_cap);
    const struct mtl_constant decode[N_CONSTANTS_DECODE] = {
        head, v_head, cap, metal_uint(ATTENTION_CONSTANT_HEADS, count_tile_heads(h))};
    const struct mtl_constant prefill[N_CONSTANTS_PREFILL] = {
        head, v_head, cap, metal_uint(ATTENTION_CONSTANT_TILE_KEYS, n_keys),
        metal_uint(ATTENTION_CONSTANT_TILE_PAD, pad)};
    struct attention_pipelines *p = pipelines_out;
    snprintf(name, sizeof name, "attn_decode_%s", suffix);
    p->decode = metal_pipeline(d, name, decode, N_CONSTANTS_DECODE, reason_out, reason_bytes);
    if (!p->decode) return false;
    snprintf(name, sizeof name, "attn_decode_part_%s", suffix);
    p->part = metal_pipeline(d, name, decode, N_CONSTANTS_DECODE, reason_out, reason_bytes);
    if (!p->part) return false;
    p->merge = metal_pipeline(d, "attn_merge", &v_head, 1, reason_out, reason_bytes);
    if (!p->merge) return false;
    snprintf(name, sizeof name, "attn_prefill_%u_%s",
             dim <= 64    ? 64
             : dim <= 128 ? 128
             : dim <= 256 ? 256
                          : 512,
             suffix);
    p->prefill = metal_pipeline(d, name, prefill, N_CONSTANTS_PREFILL, reason_out, reason_bytes);
    return p->prefill != NULL;
}

bool kv_f32_attention__metal_make(struct metal_device *d, const struct kernel_shape *shape,
                                  char *reason_out, size_t reason_bytes) {
    const struct attention_heads heads = {.n_heads = shape->n_heads,
                                          .n_kv_heads = shape->n_kv_heads,
                                          .head_dim = shape->head_dim,
                                          .v_head_dim = shape->v_head_dim,
                                          .kv_dtype = shape->kv_dtype,
                                          .has_soft_cap = shape->has_soft_cap};
    const uint32_t dim = max_u32(heads.head_dim, heads.v_head_dim);
    if (dim > METAL_HEAD_DIM_MAX) {
        snprintf(reason_out, reason_bytes, "head_dim %u is above %d", dim, METAL_HEAD_DIM_MAX);
        return false;
    }
    struct attention_pipelines p;
    if (!find_pipelines(d, &heads, &p, reason_out, reason_bytes)) return false;
    const uint32_t n_threads = mtl_pipeline_threads_max(p.prefill);
    if (n_threads >= ATTENTION_TILE_THREADS && mtl_pipeline_threads_max(p.decode) >= MTL_SIMD_WIDTH)
        return true;
    snprintf(reason_out, reason_bytes, "this GPU runs only %u threads of the %u together",
             n_threads, ATTENTION_TILE_THREADS);
    return false;
}

/* ---- memory ---- */

static uint32_t count_blocks(uint32_t n_keys, uint32_t n_max) {
    return n_keys <= WHOLE_KEYS ? 1 : min_u32(div_up(n_keys, BLOCK_KEYS), n_max);
}

/* A row's partial results: every head's accumulator, maximum and sum for each block. */
static size_t count_row_floats(const struct attention_heads *h) {
    return (size_t)h->n_heads * (h->v_head_dim + 2);
}

/* width_max is at least that of a row of heads; maxima and sums add a quarter of it where heads are
 * 8 wide, less where they are wider. Whatever room there is, rows are cut so that they fit. */
uint64_t metal_attention_scratch_bytes(uint32_t rows_max, uint32_t width_max, uint32_t kv_len_max) {
    if (kv_len_max <= WHOLE_KEYS) return 0;
    const uint64_t row =
        count_blocks(kv_len_max, BLOCKS_MAX) * ((uint64_t)width_max * 5 / 4) * sizeof(float);
    const uint64_t all = row * rows_max;
    if (all <= SCRATCH_BYTES) return all;
    return row > SCRATCH_BYTES ? row : SCRATCH_BYTES;
}

/* All rows of a batch, and again those that want logits; lists with a window and without. */
uint64_t metal_attention_step_bytes(uint32_t rows_max, uint32_t kv_len_max) {
    const uint64_t n_seqs = min_u32(rows_max, METAL_ATTENTION_SEQS_MAX);
    const uint64_t n_slots = 2 * n_seqs * kv_len_max;
    const uint64_t n_tasks = n_seqs * count_blocks(kv_len_max, BLOCKS_MAX);
    const uint64_t n_tiles = n_seqs + rows_max / ATTENTION_TILE_ROWS;
    return (n_slots < STEP_SLOTS ? n_slots : STEP_SLOTS) * sizeof(uint32_t) +
           4 * (n_tasks * sizeof(struct attention_task) + n_seqs * sizeof(struct attention_merge) +
                n_tiles * sizeof(struct attention_tile) + sizeof(struct attention_key)) +
           8 * 256; /* alignment */
}

/* ---- lists of work ---- */

static uint32_t find_first_key(uint32_t window, uint32_t position) {
    return window && position + 1 > window ? position + 1 - window : 0;
}

/* The first key that any row of the sequence sees. */
static uint32_t find_seq_first(const struct attention_args *a, const struct attention_seq *seq) {
    return find_first_key(a->window, seq->kv_len - seq->n_rows);
}

static void share_slots(struct attention_run *run) {
    const struct attention_args *a = run->args;
    bool is_new;
    run->n_slots = 0;
    for (uint32_t i = 0; i < a->n_seqs; i++) run->n_slots += a->seqs[i].kv_len;
    RADISH_INVARIANT(run->n_slots && run->n_slots <= UINT32_MAX, "%zu slots in a step",
                     run->n_slots);
    uint32_t *to = metal_step_share(run->d, a->seqs, run->n_slots * sizeof *to, &is_new);
    run->slots = to;
    for (uint32_t i = 0; i < a->n_seqs && is_new; i++) {
        const struct attention_seq *seq = &a->seqs[i];
        RADISH_INVARIANT(seq->n_rows <= seq->kv_len, "%u rows, KV length %u", seq->n_rows,
                         seq->kv_len);
        memcpy(to, seq->slots, seq->kv_len * sizeof *to);
        uint32_t largest = 0;
        for (uint32_t j = find_seq_first(a, seq); j < seq->kv_len; j++)
            largest = max_u32(largest, to[j]);
        RADISH_INVARIANT(largest < a->n_slots, "slot %u of %u", largest, a->n_slots);
        to += seq->kv_len;
    }
}

static void add_task(struct attention_task *list, uint32_t *n, struct attention_task task) {
    if (list) list[*n] = task;
    (*n)++;
}

/* A single row: whole, or in blocks and a merge. */
static void add_row(struct attention_lists *lists, const struct attention_key *key, uint32_t row,
                    uint32_t slot_first, uint32_t position) {
    const uint32_t first = find_first_key(key->window, position), end = position + 1;
    const uint32_t n_blocks = count_blocks(end - first, key->n_blocks_max);
    if (n_blocks <= 1) {
        add_task(lists->whole, &lists->n_whole,
                 (struct attention_task){row, slot_first, first, end});
        return;
    }
    const uint32_t n_keys = div_up(div_up(end - first, n_blocks), BLOCK_STEP) * BLOCK_STEP;
    const uint32_t task_first = lists->n_parts;
    for (uint32_t t = first; t < end; t += min_u32(n_keys, end - t))
        add_task(lists->parts, &lists->n_parts,
                 (struct attention_task){row, slot_first, t, t + min_u32(n_keys, end - t)});
    if (lists->merges)
        lists->merges[lists->n_merges] =
            (struct attention_merge){row, task_first, lists->n_parts - task_first};
    lists->n_merges++;
}

static void add_tiles(struct attention_lists *lists, const struct attention_seq *seq,
                      uint32_t slot_first) {
    const uint32_t position = seq->kv_len - seq->n_rows;
    for (uint32_t r = 0; r < seq->n_rows; r += ATTENTION_TILE_ROWS) {
        if (lists->tiles)
            lists->tiles[lists->n_tiles] = (struct attention_tile){
                seq->row_first + r, min_u32(ATTENTION_TILE_ROWS, seq->n_rows - r), position + r,
                slot_first};
        lists->n_tiles++;
    }
}

/* Fills the lists that there are, and counts. */
static void list_work(const struct attention_run *run, struct attention_lists *lists) {
    uint32_t slot_first = 0, row_end = 0;
    lists->n_whole = lists->n_parts = lists->n_merges = lists->n_tiles = 0;
    for (uint32_t i = 0; i < run->args->n_seqs; i++) {
        const struct attention_seq *seq = &run->args->seqs[i];
        const uint32_t position = seq->kv_len - seq->n_rows;
        RADISH_INVARIANT(seq->row_first >= row_end, "row %u behind row %u", seq->row_first,
                         row_end);
        row_end = seq->row_first + seq->n_rows;
        if (seq->n_rows > ROWS_FEW) {
            add_tiles(lists, seq, slot_first);
        } else {
            for (uint32_t r = 0; r < seq->n_rows; r++)
                add_row(lists, &run->key, seq->row_first + r, slot_first, position + r);
        }
        slot_first += seq->kv_len;
    }
}

/* The step's lists for this window and these heads: those of a layer before, or new ones. */
static void share_lists(struct attention_run *run) {
    const size_t room = metal_scratch_room(run->d) / sizeof(float);
    struct attention_lists *lists = &run->lists;
    run->key.window = run->args->window;
    run->key.n_blocks_max = (uint32_t)(room / count_row_floats(&run->heads) < BLOCKS_MAX
                                           ? room / count_row_floats(&run->heads)
                                           : BLOCKS_MAX);
    *lists = (struct attention_lists){0};
    list_work(run, lists);
    const size_t bytes = sizeof(struct attention_key) +
                         ((size_t)lists->n_whole + lists->n_parts) * sizeof *lists->whole +
                         lists->n_merges * sizeof *lists->merges +
                         lists->n_tiles * sizeof *lists->tiles;
    struct attention_key *key = NULL;
    bool is_new = false;
    for (size_t i = 1; i < sizeof *run->args->seqs && !is_new; i++) {
        key = metal_step_share(run->d, (const char *)run->args->seqs + i, bytes, &is_new);
        if (is_new || !memcmp(key, &run->key, sizeof *key)) break;
        key = NULL;
    }
    if (!key) {
        key = metal_step_alloc(run->d, bytes);
        is_new = true;
    }
    lists->whole = (struct attention_task *)(void *)(key + 1);
    lists->parts = lists->whole + lists->n_whole;
    lists->merges = (struct attention_merge *)(void *)(lists->parts + lists->n_parts);
    lists->tiles = (struct attention_tile *)(void *)(lists->merges + lists->n_merges);
    if (!is_new) return;
    *key = run->key;
    list_work(run, lists);
}

/* ---- dispatches ---- */

static size_t count_rows_bytes(uint32_t n_rows, size_t stride, size_t width) {
    return ((n_rows - 1) * stride + width) * sizeof(float);
}

static void write_rows(struct attention_run *run, uint32_t index, uint32_t first, uint32_t end) {
    const struct attention_args *a = run->args;
    metal_write(run->d, index, a->out + (size_t)first * a->out_stride,
                count_rows_bytes(end - first, a->out_stride, (size_t)a->n_heads * a->v_head_dim));
}

/* Bindings that the kernels over keys have in common: rows [first, end), but for their output. */
static void bind_keys(struct attention_run *run, uint32_t first, uint32_t end, const void *work,
                      size_t work_bytes) {
    const struct attention_args *a = run->args;
    const size_t kv_bytes =
        (size_t)a->n_slots * a->n_kv_heads * dtype_block_bytes(run->heads.kv_dtype);
    struct attention_numbers numbers = run->numbers;
    numbers.row_first = first;
    metal_args(run->d, 0, &numbers, sizeof numbers);
    metal_read(run->d, 1, a->q + (size_t)first * a->q_stride,
               count_rows_bytes(end - first, a->q_stride, (size_t)a->n_heads * a->head_dim));
    metal_read(run->d, 2, a->k_pool, kv_bytes * a->head_dim);
    metal_read(run->d, 3, a->v_pool, kv_bytes * a->v_head_dim);
    metal_read(run->d, 4, run->slots, run->n_slots * sizeof *run->slots);
    metal_read(run->d, 5, work, work_bytes);
}

/* Tiles, in pieces. */
static void run_tiles(struct attention_run *run) {
    const struct attention_args *a = run->args;
    const struct attention_lists *lists = &run->lists;
    const uint64_t budget = PIECE_PRODUCTS >> metal_shrink(run->d);
    uint32_t n_keys, pad;
    size_tile(&run->heads, &n_keys, &pad);
    for (uint32_t first = 0, end = 0; first < lists->n_tiles; first = end) {
        uint64_t products = 0;
        do {
            const struct attention_tile *t = &lists->tiles[end++];
            const uint32_t key_first = find_first_key(a->window, t->position);
            products += (uint64_t)(t->position + t->n_rows - key_first) * t->n_rows * a->n_heads;
        } while (end < lists->n_tiles && products < budget);
        const struct attention_tile *tiles = lists->tiles + first, *last = lists->tiles + end - 1;
        metal_use(run->d, run->pipelines.prefill);
        bind_keys(run, tiles->row, last->row + last->n_rows, tiles, (end - first) * sizeof *tiles);
        write_rows(run, 6, tiles->row, last->row + last->n_rows);
        metal_shared(run->d, 0, count_tile_bytes(&run->heads, n_keys, pad));
        metal_run_groups(run->d, (const uint32_t[]){a->n_heads, end - first, 1},
                         (const uint32_t[]){ATTENTION_TILE_THREADS, 1, 1});
    }
}

/* A grid of attn_decode or attn_decode_part. */
static void run_tasks(struct attention_run *run, const struct mtl_pipeline *pipeline,
                      uint32_t n_tasks) {
    const uint32_t n_most = min_u32(ATTENTION_ROW_THREADS, mtl_pipeline_threads_max(pipeline));
    const uint32_t n_simds = n_most / MTL_SIMD_WIDTH;
    metal_shared(run->d, 0, n_simds * (run->heads.v_head_dim + 2) * sizeof(float));
    metal_run_groups(run->d, (const uint32_t[]){count_head_tiles(&run->heads), n_tasks, 1},
                     (const uint32_t[]){n_simds * MTL_SIMD_WIDTH, 1, 1});
}

static void run_whole(struct attention_run *run) {
    const struct attention_lists *lists = &run->lists;
    const struct attention_task *tasks = lists->whole;
    if (!lists->n_whole) return;
    const uint32_t first = tasks->row, end = tasks[lists->n_whole - 1].row + 1;
    metal_use(run->d, run->pipelines.decode);
    bind_keys(run, first, end, tasks, lists->n_whole * sizeof *tasks);
    write_rows(run, 6, first, end);
    run_tasks(run, run->pipelines.decode, lists->n_whole);
}

/* Merges [first, end) and the tasks that they join. */
static void run_round(struct attention_run *run, uint32_t first, uint32_t end) {
    const struct attention_merge *merges = run->lists.merges + first;
    const struct attention_merge *last = run->lists.merges + end - 1;
    const uint32_t n_tasks = last->task_first + last->n_tasks - merges->task_first;
    const struct attention_task *tasks = run->lists.parts + merges->task_first;
    const size_t bytes = n_tasks * count_row_floats(&run->heads) * sizeof(float);
    float *partials = metal_scratch(run->d, bytes);
    metal_use(run->d, run->pipelines.part);
    bind_keys(run, merges->row, last->row + 1, tasks, n_tasks * sizeof *tasks);
    metal_write(run->d, 6, partials, bytes);
    run_tasks(run, run->pipelines.part, n_tasks);

    struct attention_numbers numbers = run->numbers;
    numbers.row_first = merges->row;
    numbers.task_first = merges->task_first;
    const uint32_t n_threads =
        min_u32(MERGE_THREADS, mtl_pipeline_threads_max(run->pipelines.merge));
    metal_use(run->d, run->pipelines.merge);
    metal_args(run->d, 0, &numbers, sizeof numbers);
    metal_read(run->d, 1, merges, (end - first) * sizeof *merges);
    metal_read(run->d, 2, partials, bytes);
    write_rows(run, 3, merges->row, last->row + 1);
    metal_run_groups(run->d, (const uint32_t[]){run->args->n_heads, end - first, 1},
                     (const uint32_t[]){n_threads, 1, 1});
}

/* Rows in blocks: as many at a time as scratch holds the results of. */
static void run_parts(struct attention_run *run) {
    const struct attention_lists *lists = &run->lists;
    const size_t room = metal_scratch_room(run->d) >> metal_shrink(run->d);
    const size_t most = room / (count_row_floats(&run->heads) * sizeof(float));
    for (uint32_t first = 0, end = 0; first < lists->n_merges; first = end) {
        size_t n_tasks = 0;
        do {
            n_tasks += lists->merges[end++].n_tasks;
        } while (end < lists->n_merges && n_tasks + lists->merges[end].n_tasks <= most);
        run_round(run, first, end);
    }
}

void kv_f32_attention__metal(struct metal_device *d, const struct attention_args *args) {
    const bool has_soft_cap = args->soft_cap > 0;
    struct attention_run run = {.d = d,
                                .args = args,
                                .heads = {.n_heads = args->n_heads,
                                          .n_kv_heads = args->n_kv_heads,
                                          .head_dim = args->head_dim,
                                          .v_head_dim = args->v_head_dim,
                                          .kv_dtype = (enum dtype)args->kv_dtype,
                                          .has_soft_cap = has_soft_cap}};
    const bool is_found = find_pipelines(d, &run.heads, &run.pipelines, NULL, 0);
    RADISH_INVARIANT(is_found, "attention's kernels were not made at load");
    run.numbers =
        (struct attention_numbers){.q_scale = has_soft_cap ? args->scale / args->soft_cap
                                                           : (float)((double)args->scale * LOG2_E),
                                   .score_scale = (float)((double)args->soft_cap * LOG2_E),
                                   .q_stride = args->q_stride,
                                   .out_stride = args->out_stride,
                                   .n_heads = args->n_heads,
                                   .n_kv_heads = args->n_kv_heads,
                                   .n_slots = args->n_slots,
                                   .window = args->window};
    share_slots(&run);
    share_lists(&run);
    run_tiles(&run);
    run_whole(&run);
    run_parts(&run);
}
