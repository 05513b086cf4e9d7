/* runner.c - carries a batch through the model.
 *
 * The idea: everything about a step that depends on the batch (which token, which position, which
 * slot, whose keys) is in a few integer arrays; the layers see only rows. So a ragged mixture of
 * prefill chunks and decodes is one pass over n_tokens rows, and a layer function is a straight
 * line of operations that never asks whose row it has. Only attention and the KV store know of
 * sequences and slots, and they read the pool itself, through the slot tables: no copy of a
 * request's KV exists anywhere (ARCHITECTURE: such copies go stale).
 *
 *   token_ids -> embed -> x [n_tokens, hidden] -> layers, in place; the last one leaves the rows
 *   that want logits -> final norm -> kept [n_logits_rows, hidden] -> runner_logits(): output
 *   matrix, 64 rows at a time
 *
 * Logits are made on demand and not in the step, since the logits of a long prompt (all rows of
 * /completions with echo) would be gigabytes; a block of 64 is bounded and as fast.
 *
 * All memory is taken in runner_create(): one block of activations, one table of RoPE, two pools
 * for each layer. Layers may differ in heads and width; buffers have room for the widest. The
 * arrays of a batch are checked here, always, before any kernel sees them: a slot out of bounds
 * would give one user's KV to another.
 *
 * A device that records its steps may run one while the next is recorded. What a step reads of the
 * host's (tokens, positions, slots, draws) and the tokens that it draws are therefore there twice,
 * and used in turns; activations are there once, since steps run one after another. When the device
 * gave a step up and asks for it again (AGAIN), it and the one behind it are recorded anew from
 * their batches: a step writes nothing that it has read before, KV goes to the same slots, and a
 * draw depends on its row and its number alone. The one behind may have run on rubbish meanwhile,
 * and drawn over the tokens that the first one reads: the host has them, and puts them back.
 *
 * In the last layer only rows that want logits go on behind the KV store (run_attention() drops the
 * others): a prefill of 512 tokens wants one, a chunk in the middle of a prompt none, and the last
 * of SmolLM2's thirty layers then costs a fifth. */
#include "runner_int.h"

#include "arch.h"
#include "base/invariant.h"
#include "base/mem.h"
#include "base/status.h"

#include <stdlib.h>
#include <string.h>

/* The parts of the activation block, in order. */
enum part {
    PART_X,
    PART_H,
    PART_Q,
    PART_K,
    PART_V,
    PART_ATTN,
    PART_GATE,
    PART_UP,
    PART_KEPT,
    PART_LOGITS,
    PART_ONCE, /* those from here on are there for every step in flight */
    PART_TOKEN_IDS = PART_ONCE,
    PART_POSITIONS,
    PART_SLOTS,
    PART_WANTED,
    PART_DRAWS,
    PART_TOKENS, /* drawn */
    PART_COUNT
};

struct layout {
    size_t offset[DEVICE_STEPS_MAX][PART_COUNT]; /* [0] for those before PART_ONCE */
    size_t bytes;                                /* of the block */
};

/* A step that was submitted. */
struct flight {
    const struct batch *batch;       /* borrowed until it was waited for */
    const struct sample_draw *draws; /* likewise, or NULL */
    uint32_t n_logits_rows;
};

struct runner {
    const struct model_config *config;
    const struct weights *weights;
    struct device *device;
    struct runner_options options;
    struct layout layout;
    char *block;                        /* device: activations and batch arrays */
    struct rope_table rope, rope_local; /* the second where a layer has local RoPE */
    void **k_pool, **v_pool;            /* [n_layers] device */
    struct attention_seq *seqs;         /* [seqs_max] host, and as many of the wanted rows */
    float *logits;   /* [RUNNER_LOGITS_ROWS, n_vocab] host; NULL where the device's are */
    int32_t *tokens; /* [logits_rows_max] host: drawn by the step last waited for */
    struct flight flights[DEVICE_STEPS_MAX];
    bool can_draw;                  /* the device samples */
    uint32_t n_steps_max;           /* in flight */
    uint64_t n_submitted, n_waited; /* step i uses flights[i % n_steps_max] */
    uint32_t n_logits_rows;         /* of the step last waited for */
    uint64_t *marks; /* host, a bit a slot: named by a row of the batch at hand; 0 between steps */
    struct layer_run run;
};

/* The widest a dimension gets over the layers. */
static uint32_t find_widest(const struct model_config *config, enum tensor_dim dim) {
    uint32_t widest = 0;
    for (uint32_t layer = 0; layer < config->n_layers; layer++) {
        uint32_t width = arch_dim(config, layer, dim);
        if (width > widest) widest = width;
    }
    return widest;
}

static bool add_part(struct layout *layout, uint32_t step, enum part part, uint64_t rows,
                     uint64_t width) {
    enum { ALIGN = 64 };
    uint64_t elems, bytes, end;
    layout->offset[step][part] = layout->bytes;
    if (!mem_mul_u64(rows, width, &elems) || !mem_mul_u64(elems, 4, &bytes) ||
        !mem_add_u64(bytes, ALIGN - 1, &bytes) ||
        !mem_add_u64(layout->bytes, bytes / ALIGN * ALIGN, &end) || end > SIZE_MAX)
        return false;
    layout->bytes = (size_t)end;
    return true;
}

static uint32_t n_steps_in_flight(const struct device *device) {
    return device->ops->is_recorded ? DEVICE_STEPS_MAX : 1;
}

/* Whether the device samples from rows of this vocabulary. It makes its kernel when it is asked. */
static bool device_can_draw(const struct model_config *config, struct device *device) {
    const struct kernel_shape shape = {.n_in = config->n_vocab};
    char reason[160];
    return device->ops->sample &&
           device->ops->supports(device, KERNEL_OP_SAMPLE, &shape, reason, sizeof reason);
}

static enum radish_status make_layout(const struct model_config *config, struct device *device,
                                      const struct runner_options *options,
                                      struct layout *layout_out, struct radish_error *err) {
    const struct {
        enum tensor_dim dim;
        enum part part;
    } activations[] = {
        {TENSOR_DIM_HIDDEN, PART_X}, {TENSOR_DIM_HIDDEN, PART_H}, {TENSOR_DIM_Q, PART_Q},
        {TENSOR_DIM_K, PART_K},      {TENSOR_DIM_V, PART_V},      {TENSOR_DIM_ATTN, PART_ATTN},
        {TENSOR_DIM_FFN, PART_GATE}, {TENSOR_DIM_FFN, PART_UP},
    };
    bool fits = true;
    memset(layout_out, 0, sizeof *layout_out);
    for (size_t i = 0; i < sizeof activations / sizeof *activations; i++)
        fits = fits && add_part(layout_out, 0, activations[i].part, options->tokens_max,
                                find_widest(config, activations[i].dim));
    fits = fits &&
           add_part(layout_out, 0, PART_KEPT, options->logits_rows_max, config->hidden_dim) &&
           add_part(layout_out, 0, PART_LOGITS, RUNNER_LOGITS_ROWS, config->n_vocab);
    const uint64_t draw_words =
        device_can_draw(config, device) ? sizeof(struct sample_draw) / 4 : 0;
    for (uint32_t step = 0; step < n_steps_in_flight(device); step++)
        fits = fits && add_part(layout_out, step, PART_TOKEN_IDS, options->tokens_max, 1) &&
               add_part(layout_out, step, PART_POSITIONS, options->tokens_max, 1) &&
               add_part(layout_out, step, PART_SLOTS, options->tokens_max, 1) &&
               add_part(layout_out, step, PART_WANTED, options->logits_rows_max, 1) &&
               add_part(layout_out, step, PART_DRAWS, options->logits_rows_max, draw_words) &&
               add_part(layout_out, step, PART_TOKENS, options->logits_rows_max, 1);
    return fits ? RADISH_OK
                : error_set(err, RADISH_E_NOMEM, "activations of %u rows do not fit into memory",
                            options->tokens_max);
}

/* Rows and width of the largest product, for the kernels' own scratch. */
static void measure_kernels(const struct model_config *config, const struct runner_options *options,
                            uint32_t *rows_out, uint32_t *width_out) {
    const enum tensor_dim dims[] = {TENSOR_DIM_HIDDEN, TENSOR_DIM_Q, TENSOR_DIM_ATTN,
                                    TENSOR_DIM_FFN};
    *rows_out = options->tokens_max > RUNNER_LOGITS_ROWS ? options->tokens_max : RUNNER_LOGITS_ROWS;
    *width_out = 0;
    for (size_t i = 0; i < sizeof dims / sizeof *dims; i++) {
        uint32_t width = find_widest(config, dims[i]);
        if (width > *width_out) *width_out = width;
    }
}

static struct kernel_shape shape_of_layer(const struct model_config *config, uint32_t layer,
                                          enum dtype kv_dtype) {
    return (struct kernel_shape){
        .kv_dtype = kv_dtype,
        .n_in = config->hidden_dim,
        .n_heads = config->n_heads[layer],
        .n_kv_heads = config->n_kv_heads[layer],
        .head_dim = config->head_dim,
        .v_head_dim = config->v_head_dim,
        .rotary_dim = config->has_rope[layer] ? config->rotary_dim : 0,
        .has_window = config->window[layer] > 0,
        .has_soft_cap = config->attention_soft_cap > 0,
        .is_interleaved = config->rope.pairing == ROPE_INTERLEAVED,
    };
}

static enum radish_status ask_device(const struct model_config *config, struct device *device,
                                     enum dtype kv_dtype, struct radish_error *err) {
    const bool is_silu = config->activation == ACTIVATION_SILU && config->has_gate;
    const enum kernel_op ops[] = {
        config->arch->flags & ARCH_LAYER_NORM ? KERNEL_OP_LAYERNORM : KERNEL_OP_RMSNORM,
        is_silu ? KERNEL_OP_SILU_MUL : KERNEL_OP_ACTIVATE,
        KERNEL_OP_ROPE_KV_STORE,
        KERNEL_OP_ATTENTION,
        KERNEL_OP_KEEP_ROWS,
        KERNEL_OP_SOFT_CAP,
    };
    const size_t n_ops = sizeof ops / sizeof *ops - (config->logit_soft_cap > 0 ? 0 : 1);
    for (uint32_t layer = 0; layer < config->n_layers; layer++) {
        struct kernel_shape shape = shape_of_layer(config, layer, kv_dtype);
        for (size_t i = 0; i < n_ops; i++) {
            char reason[160] = "";
            shape.n_in = i == 1 ? config->ffn_dim[layer] : config->hidden_dim;
            if (device->ops->supports(device, ops[i], &shape, reason, sizeof reason)) continue;
            return error_set_field(err, RADISH_E_UNSUPPORTED, kernel_op_name(ops[i]),
                                   "layer %u: no %s kernel for it: %s", layer,
                                   kernel_op_name(ops[i]), reason);
        }
    }
    return RADISH_OK;
}

static bool has_local_rope(const struct model_config *config) {
    for (uint32_t layer = 0; layer < config->n_layers; layer++)
        if (config->has_local_rope[layer]) return true;
    return false;
}

static uint64_t count_slot_bytes(const struct model_config *config, enum dtype kv_dtype) {
    uint64_t elems = 0;
    for (uint32_t layer = 0; layer < config->n_layers; layer++)
        elems +=
            (uint64_t)arch_dim(config, layer, TENSOR_DIM_K) + arch_dim(config, layer, TENSOR_DIM_V);
    return elems * dtype_block_bytes(kv_dtype);
}

/* The host's copy of a block of logits: 39 MB for 152,000 ids, and as much to read and to write a
 * step as 16 streams make, so there is none where the host reads the device's memory. */
static uint64_t logits_copy_bytes(const struct model_config *config, const struct device *device) {
    if (device->ops->has_host_memory) return 0;
    return (uint64_t)RUNNER_LOGITS_ROWS * config->n_vocab * sizeof(float);
}

enum radish_status runner_plan(const struct model_config *config, struct device *device,
                               const struct runner_options *options, struct runner_plan *plan_out,
                               struct radish_error *err) {
    struct layout layout;
    uint32_t rows, width;
    memset(plan_out, 0, sizeof *plan_out);
    RADISH_TRY(ask_device(config, device, options->kv_dtype, err));
    RADISH_TRY(make_layout(config, device, options, &layout, err));
    measure_kernels(config, options, &rows, &width);

    uint64_t parts[] = {
        layout.bytes,
        logits_copy_bytes(config, device),
        (uint64_t)options->logits_rows_max * sizeof(int32_t),
        2 * (uint64_t)options->seqs_max * sizeof(struct attention_seq),
        rope_table_bytes(config->rotary_dim, options->context_tokens),
        has_local_rope(config) ? rope_table_bytes(config->rotary_dim, options->context_tokens) : 0,
        device->ops->scratch_bytes(device, rows, width, options->context_tokens),
    };
    uint64_t bytes = 0;
    for (size_t i = 0; i < sizeof parts / sizeof *parts; i++)
        if (!mem_add_u64(bytes, parts[i], &bytes))
            return error_set(err, RADISH_E_NOMEM, "the plan of scratch memory overflows");
    plan_out->scratch_bytes = bytes;
    plan_out->kv_slot_bytes = count_slot_bytes(config, options->kv_dtype);
    return RADISH_OK;
}

static bool size_pool(const struct runner *runner, uint32_t layer, bool is_v, size_t *bytes_out) {
    size_t row = arch_dim(runner->config, layer, is_v ? TENSOR_DIM_V : TENSOR_DIM_K);
    row *= dtype_block_bytes(runner->options.kv_dtype);
    return mem_mul(row, runner->options.n_slots, bytes_out);
}

static enum radish_status create_pools(struct runner *runner, struct radish_error *err) {
    struct device *device = runner->device;
    uint32_t n_layers = runner->config->n_layers;
    runner->k_pool = mem_zalloc(n_layers, sizeof *runner->k_pool);
    runner->v_pool = mem_zalloc(n_layers, sizeof *runner->v_pool);
    if (!runner->k_pool || !runner->v_pool) return error_nomem(err);
    for (uint32_t layer = 0; layer < n_layers; layer++) {
        size_t k_bytes, v_bytes;
        if (!size_pool(runner, layer, /*is_v=*/false, &k_bytes) ||
            !size_pool(runner, layer, /*is_v=*/true, &v_bytes))
            return error_nomem(err);
        RADISH_TRY(device->ops->mem_alloc(device, k_bytes, &runner->k_pool[layer], err));
        RADISH_TRY(device->ops->mem_alloc(device, v_bytes, &runner->v_pool[layer], err));
    }
    return RADISH_OK;
}

static enum radish_status create_buffers(struct runner *runner, struct radish_error *err) {
    const struct model_config *config = runner->config;
    const struct runner_options *options = &runner->options;
    struct device *device = runner->device;
    uint32_t rows, width;
    void *block = NULL;
    RADISH_TRY(make_layout(config, device, options, &runner->layout, err));
    runner->can_draw = device_can_draw(config, device);
    RADISH_TRY(device->ops->mem_alloc(device, runner->layout.bytes, &block, err));
    runner->block = block;
    runner->seqs = mem_zalloc(options->seqs_max, 2 * sizeof *runner->seqs);
    const size_t copy_bytes = (size_t)logits_copy_bytes(config, device);
    if (copy_bytes) runner->logits = mem_alloc(1, copy_bytes);
    runner->tokens = mem_alloc(options->logits_rows_max, sizeof *runner->tokens);
    runner->marks = mem_zalloc((size_t)options->n_slots / 64 + 1, sizeof *runner->marks);
    if (!runner->seqs || (copy_bytes && !runner->logits) || !runner->tokens || !runner->marks)
        return error_nomem(err);
    RADISH_TRY(rope_table_init(&runner->rope, device, &config->rope, config->rotary_dim,
                               options->context_tokens, err));
    if (has_local_rope(config))
        RADISH_TRY(rope_table_init(&runner->rope_local, device, &config->rope_local,
                                   config->rotary_dim, options->context_tokens, err));
    measure_kernels(config, options, &rows, &width);
    return device->ops->scratch_reserve(device, rows, width, options->context_tokens, err);
}

/* Of the parts that are there once. */
static void *part_of(const struct runner *runner, enum part part) {
    return runner->block + runner->layout.offset[0][part];
}

/* Of those that step number `step` uses. */
static void *step_part_of(const struct runner *runner, uint64_t step, enum part part) {
    return runner->block + runner->layout.offset[step % runner->n_steps_max][part];
}

static void init_run(struct runner *runner) {
    struct layer_run *run = &runner->run;
    uint32_t hidden = runner->config->hidden_dim;
    run->device = runner->device;
    run->config = runner->config;
    run->x = (struct rows){part_of(runner, PART_X), hidden};
    run->h = (struct rows){part_of(runner, PART_H), hidden};
    run->q.data = part_of(runner, PART_Q);
    run->k.data = part_of(runner, PART_K);
    run->v.data = part_of(runner, PART_V);
    run->attn.data = part_of(runner, PART_ATTN);
    run->gate.data = part_of(runner, PART_GATE);
    run->up.data = part_of(runner, PART_UP);
    run->n_positions = runner->options.context_tokens;
    run->n_slots = runner->options.n_slots;
    run->kv_dtype = runner->options.kv_dtype;
    run->wanted_seqs = runner->seqs + runner->options.seqs_max;
}

enum radish_status runner_create(const struct model_config *config, const struct weights *weights,
                                 struct device *device, const struct runner_options *options,
                                 struct runner **runner_out, struct radish_error *err) {
    *runner_out = NULL;
    if (!options->tokens_max || !options->seqs_max || !options->logits_rows_max ||
        !options->context_tokens || options->n_slots <= options->page_size || options->n_slots < 2)
        return error_set(err, RADISH_E_INVALID, "the runner's limits must all be at least 1");
    struct runner *runner = mem_zalloc(1, sizeof *runner);
    if (!runner) return error_nomem(err);
    runner->config = config;
    runner->weights = weights;
    runner->device = device;
    runner->options = *options;
    runner->n_steps_max = n_steps_in_flight(device);
    if (!runner->options.page_size) runner->options.page_size = 1;
    enum radish_status status = create_buffers(runner, err);
    if (status == RADISH_OK) status = create_pools(runner, err);
    if (status != RADISH_OK) {
        runner_destroy(runner);
        return status;
    }
    init_run(runner);
    *runner_out = runner;
    return RADISH_OK;
}

void runner_destroy(struct runner *runner) {
    if (!runner) return;
    struct device *device = runner->device;
    for (uint32_t layer = 0; layer < runner->config->n_layers; layer++) {
        size_t bytes;
        if (runner->k_pool && runner->k_pool[layer] && size_pool(runner, layer, false, &bytes))
            device->ops->mem_free(device, runner->k_pool[layer], bytes);
        if (runner->v_pool && runner->v_pool[layer] && size_pool(runner, layer, true, &bytes))
            device->ops->mem_free(device, runner->v_pool[layer], bytes);
    }
    if (runner->block) device->ops->mem_free(device, runner->block, runner->layout.bytes);
    rope_table_deinit(&runner->rope);
    rope_table_deinit(&runner->rope_local);
    free(runner->k_pool);
    free(runner->v_pool);
    free(runner->seqs);
    free(runner->logits);
    free(runner->tokens);
    free(runner->marks);
    free(runner);
}

/* ---- checks of a batch: what is wrong here is a bug of whoever filled it. */

static void check_row(const struct runner *runner, const struct batch *batch,
                      const struct batch_seq *seq, uint32_t idx) {
    static const struct flight none = {0};
    const struct flight *before =
        runner->n_submitted ? &runner->flights[(runner->n_submitted - 1) % runner->n_steps_max]
                            : &none;
    uint32_t row = seq->row_first + idx, position = seq->kv_len - seq->n_rows + idx;
    int32_t id = batch->token_ids[row], slot = batch->slots[0][row];
    if (id >= 0)
        RADISH_INVARIANT((uint32_t)id < runner->config->n_vocab, "row %u is token %d", row, id);
    else
        RADISH_INVARIANT(
            before->draws && (uint32_t)(-1 - id) < before->n_logits_rows &&
                (runner->n_waited == runner->n_submitted || !before->draws[-1 - id].is_off),
            "row %u names logits row %d, from which nothing is drawn", row, -1 - id);
    RADISH_INVARIANT(batch->positions[row] >= 0 && (uint32_t)batch->positions[row] == position,
                     "row %u has position %d, its sequence says %u", row, batch->positions[row],
                     position);
    RADISH_INVARIANT(slot == -1 || (uint32_t)slot == seq->kv_slots[0][position],
                     "row %u goes to slot %d, its sequence reads slot %u", row, slot,
                     seq->kv_slots[0][position]);
}

static void check_seq(const struct runner *runner, const struct batch *batch,
                      const struct batch_seq *seq) {
    const struct runner_options *options = &runner->options;
    RADISH_INVARIANT(seq->kv_len <= options->context_tokens && seq->n_rows <= seq->kv_len &&
                         seq->logits_first <= seq->n_rows,
                     "%u rows, logits from %u, KV length %u, context %u", seq->n_rows,
                     seq->logits_first, seq->kv_len, options->context_tokens);
    for (uint32_t p = 0; p < seq->kv_len; p++) {
        uint32_t slot = seq->kv_slots[0][p];
        RADISH_INVARIANT(slot >= options->page_size && slot < options->n_slots,
                         "position %u is in slot %u of %u (the first %u are padding)", p, slot,
                         options->n_slots, options->page_size);
    }
    for (uint32_t i = 0; i < seq->n_rows; i++) check_row(runner, batch, seq, i);
    for (uint32_t i = seq->logits_first; i < seq->n_rows; i++) {
        uint32_t at = seq->logits_row + i - seq->logits_first;
        RADISH_INVARIANT(at < batch->n_logits_rows && batch->logits_rows[at] == seq->row_first + i,
                         "logits row %u is not batch row %u", at, seq->row_first + i);
    }
}

/* Two rows with one slot would be two tokens with one K and V, and a race who writes last. */
static void check_slots_differ(const struct runner *runner, const struct batch *batch) {
    const int32_t *slots = batch->slots[0];
    for (uint32_t row = 0; row < batch->n_tokens; row++) {
        if (slots[row] < 0) continue;
        uint32_t slot = (uint32_t)slots[row];
        uint64_t *word = &runner->marks[slot / 64], bit = 1ull << slot % 64;
        RADISH_INVARIANT(!(*word & bit), "row %u goes to slot %u, as a row before it", row, slot);
        *word |= bit;
    }
    for (uint32_t row = 0; row < batch->n_tokens; row++)
        if (slots[row] >= 0) runner->marks[slots[row] / 64] = 0;
}

static void check_batch(const struct runner *runner, const struct batch *batch) {
    const struct runner_options *options = &runner->options;
    uint32_t row = 0, n_logits_rows = 0;
    RADISH_INVARIANT(batch->n_tokens <= options->tokens_max && batch->n_seqs <= options->seqs_max &&
                         batch->n_logits_rows <= options->logits_rows_max,
                     "%u tokens, %u sequences, %u logits rows", batch->n_tokens, batch->n_seqs,
                     batch->n_logits_rows);
    RADISH_INVARIANT(batch->n_groups == 1, "%u KV groups", batch->n_groups);
    for (uint32_t i = 0; i < batch->n_seqs; i++) {
        const struct batch_seq *seq = &batch->seqs[i];
        RADISH_INVARIANT(
            seq->row_first == row && seq->n_rows >= 1 && seq->n_rows <= batch->n_tokens - row,
            "sequence %u: rows [%u, +%u), expected from %u", i, seq->row_first, seq->n_rows, row);
        check_seq(runner, batch, seq);
        row += seq->n_rows;
        n_logits_rows += seq->n_rows - seq->logits_first;
    }
    RADISH_INVARIANT(row == batch->n_tokens, "sequences have %u rows of %u", row, batch->n_tokens);
    RADISH_INVARIANT(n_logits_rows == batch->n_logits_rows,
                     "sequences want %u rows of logits, the batch has %u", n_logits_rows,
                     batch->n_logits_rows);
    check_slots_differ(runner, batch);
    for (uint32_t i = 0; i < batch->n_logits_rows; i++)
        RADISH_INVARIANT(batch->logits_rows[i] < batch->n_tokens &&
                             (!i || batch->logits_rows[i] > batch->logits_rows[i - 1]),
                         "logits row %u is batch row %u", i, batch->logits_rows[i]);
}

/* ---- the step */

/* The sequences as attention sees them, all rows and those that want logits; returns the longest KV
 * length. */
static uint32_t describe_seqs(struct runner *runner, const struct batch *batch) {
    struct attention_seq *wanted = runner->seqs + runner->options.seqs_max;
    uint32_t n_positions = 0, n_wanted = 0;
    for (uint32_t i = 0; i < batch->n_seqs; i++) {
        const struct batch_seq *seq = &batch->seqs[i];
        const uint32_t n_logits = seq->n_rows - seq->logits_first;
        runner->seqs[i] =
            (struct attention_seq){seq->row_first, seq->n_rows, seq->kv_len, seq->kv_slots[0]};
        if (n_logits)
            wanted[n_wanted++] =
                (struct attention_seq){seq->logits_row, n_logits, seq->kv_len, seq->kv_slots[0]};
        if (seq->kv_len > n_positions) n_positions = seq->kv_len;
    }
    runner->run.n_wanted_seqs = n_wanted;
    return n_positions;
}

static void upload_part(struct runner *runner, uint64_t step, enum part part, const void *host,
                        size_t bytes) {
    runner->device->ops->upload(runner->device, step_part_of(runner, step, part), host, bytes);
}

static void upload_batch(struct runner *runner, uint64_t step) {
    const struct flight *flight = &runner->flights[step % runner->n_steps_max];
    const struct batch *batch = flight->batch;
    const size_t bytes = batch->n_tokens * sizeof(int32_t);
    upload_part(runner, step, PART_TOKEN_IDS, batch->token_ids, bytes);
    upload_part(runner, step, PART_POSITIONS, batch->positions, bytes);
    upload_part(runner, step, PART_SLOTS, batch->slots[0], bytes);
    upload_part(runner, step, PART_WANTED, batch->logits_rows,
                batch->n_logits_rows * sizeof(uint32_t));
    if (flight->draws)
        upload_part(runner, step, PART_DRAWS, flight->draws,
                    batch->n_logits_rows * sizeof *flight->draws);
    const uint32_t n_positions = describe_seqs(runner, batch);
    rope_table_fill(&runner->rope, n_positions);
    if (runner->rope_local.device) rope_table_fill(&runner->rope_local, n_positions);
}

static void set_layer(struct runner *runner, uint32_t layer) {
    struct layer_run *run = &runner->run;
    const struct model_config *config = runner->config;
    run->layer = layer;
    run->w = &runner->weights->layers[layer];
    run->q.width = arch_dim(config, layer, TENSOR_DIM_Q);
    run->k.width = arch_dim(config, layer, TENSOR_DIM_K);
    run->v.width = arch_dim(config, layer, TENSOR_DIM_V);
    run->attn.width = arch_dim(config, layer, TENSOR_DIM_ATTN);
    run->gate.width = run->up.width = arch_dim(config, layer, TENSOR_DIM_FFN);
    run->rope_table =
        config->has_local_rope[layer] ? runner->rope_local.address : runner->rope.address;
    run->k_pool = runner->k_pool[layer];
    run->v_pool = runner->v_pool[layer];
}

/* The final norm of the first n rows of the residual stream: those that the last layer left. */
static void norm_last(struct runner *runner, uint32_t n) {
    const struct model_config *config = runner->config;
    const float *x = runner->run.x.data;
    float *y = part_of(runner, PART_KEPT);
    uint32_t width = config->hidden_dim;
    if (config->arch->flags & ARCH_LAYER_NORM) {
        const struct layernorm_args args = {
            .x = x,
            .w = runner->weights->output_norm,
            .bias = runner->weights->output_norm_bias,
            .y = y,
            .n_rows = n,
            .width = width,
            .x_stride = width,
            .y_stride = width,
            .eps = (float)config->norm_eps,
        };
        runner->device->ops->layernorm(runner->device, &args);
        return;
    }
    const struct rmsnorm_args args = {
        .x = x,
        .w = runner->weights->output_norm,
        .y = y,
        .n_rows = n,
        .width = width,
        .x_stride = width,
        .y_stride = width,
        .eps = (float)config->norm_eps,
    };
    runner->device->ops->rmsnorm(runner->device, &args);
}

/* Logits of kept rows [row, row + n), recorded. */
static void record_logits(struct runner *runner, uint32_t row, uint32_t n) {
    struct device *device = runner->device;
    uint32_t n_vocab = runner->config->n_vocab, hidden = runner->config->hidden_dim;
    const struct matmul_args args = {
        .w = runner->weights->output,
        .x = (const float *)part_of(runner, PART_KEPT) + (size_t)row * hidden,
        .bias = runner->weights->output_bias,
        .y = part_of(runner, PART_LOGITS),
        .n_rows = n,
        .x_stride = hidden,
        .y_stride = n_vocab,
    };
    const struct soft_cap_args cap = {
        .x = part_of(runner, PART_LOGITS),
        .n_rows = n,
        .width = n_vocab,
        .stride = n_vocab,
        .cap = (float)runner->config->logit_soft_cap,
    };
    device->ops->matmul(device, &args);
    if (cap.cap > 0) device->ops->soft_cap(device, &cap);
}

/* Draws from all rows that are not off, a block of logits at a time. */
static void record_draws(struct runner *runner, uint64_t step) {
    struct device *device = runner->device;
    const struct flight *flight = &runner->flights[step % runner->n_steps_max];
    const struct sample_draw *draws = step_part_of(runner, step, PART_DRAWS);
    int32_t *tokens = step_part_of(runner, step, PART_TOKENS);
    const uint32_t n_rows = flight->batch->n_logits_rows, n_vocab = runner->config->n_vocab;
    for (uint32_t first = 0, n; first < n_rows; first += n) {
        n = n_rows - first < RUNNER_LOGITS_ROWS ? n_rows - first : RUNNER_LOGITS_ROWS;
        bool is_off = true;
        for (uint32_t i = 0; i < n; i++) is_off = is_off && flight->draws[first + i].is_off;
        if (is_off) continue;
        const struct sample_rows_args args = {
            .logits = part_of(runner, PART_LOGITS),
            .draws = draws + first,
            .tokens = tokens + first,
            .n_rows = n,
            .width = runner->options.n_drawn ? runner->options.n_drawn : n_vocab,
            .stride = n_vocab,
        };
        record_logits(runner, first, n);
        device->ops->sample(device, &args);
    }
}

/* Uploads what the step needs, records it and hands it over. */
static enum radish_status run_step(struct runner *runner, uint64_t step) {
    struct device *device = runner->device;
    struct layer_run *run = &runner->run;
    const struct flight *flight = &runner->flights[step % runner->n_steps_max];
    const struct batch *batch = flight->batch;
    upload_batch(runner, step);
    run->positions = step_part_of(runner, step, PART_POSITIONS);
    run->slots = step_part_of(runner, step, PART_SLOTS);
    run->wanted_rows = step_part_of(runner, step, PART_WANTED);
    run->n_rows = batch->n_tokens;
    run->seqs = runner->seqs;
    run->n_seqs = batch->n_seqs;
    run->n_wanted = batch->n_logits_rows;

    device->ops->step_begin(device);
    const struct embed_args embed = {
        .w = runner->weights->embedding,
        .token_ids = step_part_of(runner, step, PART_TOKEN_IDS),
        .sampled = step ? step_part_of(runner, step - 1, PART_TOKENS) : NULL,
        .out = run->x.data,
        .n_rows = batch->n_tokens,
        .out_stride = runner->config->hidden_dim,
        .scale = (float)runner->config->embedding_scale,
    };
    device->ops->embed(device, &embed);
    for (uint32_t layer = 0; layer < runner->config->n_layers; layer++) {
        set_layer(runner, layer);
        runner->config->arch->layer(run);
    }
    norm_last(runner, batch->n_logits_rows);
    if (flight->draws) record_draws(runner, step);
    return device->ops->step_submit(device);
}

enum radish_status runner_submit(struct runner *runner, const struct batch *batch,
                                 const struct sample_draw *draws) {
    RADISH_INVARIANT(runner->n_submitted - runner->n_waited < runner->n_steps_max,
                     "%u steps are in flight", runner->n_steps_max);
    RADISH_INVARIANT(!draws || runner_can_draw(runner), "the device cannot draw");
    check_batch(runner, batch);
    runner->flights[runner->n_submitted % runner->n_steps_max] =
        (struct flight){batch, draws, batch->n_logits_rows};
    RADISH_TRY(run_step(runner, runner->n_submitted));
    runner->n_submitted++;
    return RADISH_OK;
}

static void wait_times(const struct runner *runner, uint64_t n) {
    for (; n; n--) (void)runner->device->ops->step_wait(runner->device);
}

/* The device gave up the oldest step and those behind it, which it may have run all the same; they
 * are recorded again. Where that fails, none is in flight. */
static enum radish_status repeat_steps(struct runner *runner) {
    wait_times(runner, runner->n_submitted - runner->n_waited - 1);
    if (runner->n_waited)
        upload_part(runner, runner->n_waited - 1, PART_TOKENS, runner->tokens,
                    runner->n_logits_rows * sizeof *runner->tokens);
    for (uint64_t step = runner->n_waited; step < runner->n_submitted; step++) {
        enum radish_status status = run_step(runner, step);
        if (status == RADISH_OK) continue;
        wait_times(runner, step - runner->n_waited);
        runner->n_waited = runner->n_submitted - 1;
        return status;
    }
    return runner->device->ops->step_wait(runner->device);
}

enum radish_status runner_wait(struct runner *runner) {
    struct device *device = runner->device;
    RADISH_INVARIANT(runner->n_waited < runner->n_submitted, "no step is in flight");
    enum radish_status status = device->ops->step_wait(device);
    while (status == RADISH_AGAIN) status = repeat_steps(runner);
    if (status != RADISH_OK) {
        wait_times(runner, runner->n_submitted - runner->n_waited - 1);
        runner->n_waited = runner->n_submitted;
        runner->n_logits_rows = 0;
        return status;
    }
    const uint64_t step = runner->n_waited++;
    const struct flight *flight = &runner->flights[step % runner->n_steps_max];
    runner->n_logits_rows = flight->n_logits_rows;
    if (flight->draws)
        device->ops->download(device, runner->tokens, step_part_of(runner, step, PART_TOKENS),
                              runner->n_logits_rows * sizeof *runner->tokens);
    return RADISH_OK;
}

enum radish_status runner_step(struct runner *runner, const struct batch *batch) {
    RADISH_TRY(runner_submit(runner, batch, NULL));
    return runner_wait(runner);
}

bool runner_can_run_ahead(const struct runner *runner) {
    return runner->n_steps_max > 1;
}

bool runner_can_draw(const struct runner *runner) {
    return runner->can_draw;
}

int32_t runner_token(const struct runner *runner, uint32_t row) {
    RADISH_INVARIANT(row < runner->n_logits_rows, "logits row %u of %u", row,
                     runner->n_logits_rows);
    return runner->tokens[row];
}

enum radish_status runner_logits(struct runner *runner, uint32_t row, uint32_t n,
                                 float **logits_out) {
    struct device *device = runner->device;
    *logits_out = NULL;
    RADISH_INVARIANT(n <= RUNNER_LOGITS_ROWS && row <= runner->n_logits_rows &&
                         n <= runner->n_logits_rows - row,
                     "logits rows [%u, +%u) of %u", row, n, runner->n_logits_rows);
    RADISH_INVARIANT(runner->n_waited == runner->n_submitted, "a step is in flight");
    enum radish_status status;
    do {
        device->ops->step_begin(device);
        record_logits(runner, row, n);
        RADISH_TRY(device->ops->step_submit(device));
        status = device->ops->step_wait(device);
    } while (status == RADISH_AGAIN);
    RADISH_TRY(status);
    float *logits = part_of(runner, PART_LOGITS);
    if (runner->logits) {
        device->ops->download(device, runner->logits, logits,
                              (size_t)n * runner->config->n_vocab * sizeof(float));
        logits = runner->logits;
    }
    *logits_out = logits;
    return RADISH_OK;
}

void *runner_slot_address(struct runner *runner, uint32_t layer, bool is_v, uint32_t slot,
                          size_t *bytes_out) {
    size_t bytes = arch_dim(runner->config, layer, is_v ? TENSOR_DIM_V : TENSOR_DIM_K);
    bytes *= dtype_block_bytes(runner->options.kv_dtype);
    *bytes_out = bytes;
    return (char *)(is_v ? runner->v_pool : runner->k_pool)[layer] + slot * bytes;
}
