/* test_runner.c - the runner by itself, with the tiny llama and qwen3 of tests/data: that the KV
 * pool is really read, that rows, slots and sampled tokens mean what batch.h says, that wrong
 * batches stop the process, that the plan is kept and the step allocates nothing. */
#include "test.h"

#include "alloc_fail.h"
#include "model/runner_int.h"
#include "model_fake_device.h"
#include "model_gguf.h"
#include "model_session.h"

#include <fcntl.h>
#include <math.h>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

enum { N_TOKENS = 40 };

static int32_t token_of(uint32_t i) {
    return (int32_t)((i * 37 + 11) % 512);
}

/* One sequence's batch over its own arrays. */
struct one {
    int32_t token_ids[N_TOKENS], positions[N_TOKENS], slots[N_TOKENS];
    uint32_t table[N_TOKENS], logits_rows[N_TOKENS];
    struct batch_seq seq;
    struct batch batch;
};

/* Rows [first, first + n) of tokens token_of(), position p in slot p + 5; logits of the last
 * n_logits rows. */
static void fill_one(struct one *one, uint32_t first, uint32_t n, uint32_t n_logits) {
    for (uint32_t p = 0; p < N_TOKENS; p++) one->table[p] = p + 5;
    for (uint32_t i = 0; i < n; i++) {
        one->token_ids[i] = token_of(first + i);
        one->positions[i] = (int32_t)(first + i);
        one->slots[i] = (int32_t)one->table[first + i];
    }
    for (uint32_t i = 0; i < n_logits; i++) one->logits_rows[i] = n - n_logits + i;
    one->seq = (struct batch_seq){
        .n_rows = n, .kv_len = first + n, .kv_slots = {one->table}, .logits_first = n - n_logits};
    one->batch = (struct batch){.n_tokens = n,
                                .token_ids = one->token_ids,
                                .positions = one->positions,
                                .slots = {one->slots},
                                .n_groups = 1,
                                .n_seqs = 1,
                                .seqs = &one->seq,
                                .n_logits_rows = n_logits,
                                .logits_rows = one->logits_rows};
}

static void open_model(const char *name, enum radish_precision precision, struct session *session) {
    char path[512];
    const struct session_options options = {.precision = precision, .n_threads = 1};
    snprintf(path, sizeof path, "%s/models/%s", TEST_DATA, name);
    session_open(path, &options, session);
}

static const float *must_step(struct session *session, const struct one *one) {
    float *logits;
    assert_int_equal(runner_step(session->runner, &one->batch), RADISH_OK);
    assert_int_equal(runner_logits(session->runner, 0, one->batch.n_logits_rows, &logits),
                     RADISH_OK);
    return logits;
}

/* The logits of the token at position 20, after positions [0, 20) were cached. Caller frees. */
static float *decode_after_prefill(struct session *session, bool tampers, uint32_t layer, bool is_v,
                                   uint32_t slot) {
    struct one one;
    fill_one(&one, 0, 20, 1);
    must_step(session, &one);
    if (tampers) {
        size_t bytes;
        uint8_t *kv = runner_slot_address(session->runner, layer, is_v, slot, &bytes);
        kv[bytes - 1] ^= 0x40; /* a high bit of the last number's exponent */
    }
    fill_one(&one, 20, 1, 1);
    const float *logits = must_step(session, &one);
    float *copy = malloc(session->config.n_vocab * sizeof *copy);
    assert_non_null(copy);
    memcpy(copy, logits, session->config.n_vocab * sizeof *copy);
    return copy;
}

static void test_one_flipped_bit_of_a_cached_slot_changes_the_logits(void **state) {
    (void)state;
    struct session session;
    open_model("qwen3", RADISH_PRECISION_FAST, &session);
    size_t bytes = session.config.n_vocab * sizeof(float);
    float *clean = decode_after_prefill(&session, false, 0, false, 0);
    for (uint32_t layer = 0; layer < session.config.n_layers; layer++) {
        for (int is_v = 0; is_v < 2; is_v++) {
            float *flipped = decode_after_prefill(&session, true, layer, is_v, 5 + 7);
            assert_memory_not_equal(clean, flipped, bytes);
            free(flipped);
        }
    }

    /* A slot that is not this sequence's is not read. */
    float *other = decode_after_prefill(&session, true, 1, false, 5 + 30);
    assert_memory_equal(clean, other, bytes);
    free(other);
    free(clean);
    session_close(&session);
}

static void test_a_row_without_slot_reads_the_cache_and_writes_nothing(void **state) {
    (void)state;
    struct session session;
    struct one one;
    size_t bytes;
    open_model("llama", RADISH_PRECISION_FAST, &session);
    size_t logits_bytes = session.config.n_vocab * sizeof(float);
    float *wanted = decode_after_prefill(&session, false, 0, false, 0);

    fill_one(&one, 20, 1, 1);
    one.slots[0] = -1;
    uint8_t *padding = runner_slot_address(session.runner, 0, false, 0, &bytes);
    const float *logits = must_step(&session, &one);
    assert_memory_equal(logits, wanted, logits_bytes);
    for (size_t i = 0; i < bytes; i++) assert_int_equal(padding[i], 0);
    free(wanted);
    session_close(&session);
}

static bool (*cpu_supports)(struct device *, enum kernel_op, const struct kernel_shape *, char *,
                            size_t);

/* Draws id 70 + row; the last row of a step that is drawn from is 72. */
static void draw_by_row(struct device *device, const struct sample_rows_args *args) {
    (void)device;
    for (uint32_t row = 0; row < args->n_rows; row++)
        args->tokens[row] = args->draws[row].is_off ? -1 : 70 + (int32_t)row;
}

static bool supports_draws(struct device *device, enum kernel_op op,
                           const struct kernel_shape *shape, char *reason_out,
                           size_t reason_bytes) {
    return op == KERNEL_OP_SAMPLE || cpu_supports(device, op, shape, reason_out, reason_bytes);
}

/* The CPU, with an operation that samples. */
static void open_drawing_model(struct device_vtable *ops, struct session *session) {
    struct radish_error err;
    const struct runner_options options = {.tokens_max = N_TOKENS,
                                           .seqs_max = 1,
                                           .logits_rows_max = N_TOKENS,
                                           .context_tokens = 64,
                                           .n_slots = 64,
                                           .kv_dtype = RADISH_DTYPE_F32};
    open_model("llama", RADISH_PRECISION_EXACT, session);
    runner_destroy(session->runner);
    *ops = *session->device->ops;
    cpu_supports = ops->supports;
    ops->supports = supports_draws;
    ops->sample = draw_by_row;
    session->device->ops = ops;
    if (runner_create(&session->config, session->weights, session->device, &options,
                      &session->runner, &err) != RADISH_OK)
        fail_msg("%s", err.msg);
}

static void test_a_negative_id_is_what_was_drawn_from_that_row(void **state) {
    (void)state;
    struct session session;
    struct device_vtable ops;
    struct one one;
    struct sample_draw draws[3] = {{.is_off = 1}, {.top_k = 1}, {.top_k = 1}};
    open_drawing_model(&ops, &session);
    size_t bytes = session.config.n_vocab * sizeof(float);
    fill_one(&one, 0, 8, 3);
    must_step(&session, &one);
    fill_one(&one, 8, 1, 1);
    one.token_ids[0] = 72;
    float *wanted = malloc(bytes);
    assert_non_null(wanted);
    memcpy(wanted, must_step(&session, &one), bytes);

    fill_one(&one, 0, 8, 3);
    assert_int_equal(runner_submit(session.runner, &one.batch, draws), RADISH_OK);
    assert_int_equal(runner_wait(session.runner), RADISH_OK);
    assert_int_equal(runner_token(session.runner, 0), -1);
    assert_int_equal(runner_token(session.runner, 1), 71);
    assert_int_equal(runner_token(session.runner, 2), 72);
    fill_one(&one, 8, 1, 1);
    one.token_ids[0] = -1 - 2;
    assert_memory_equal(must_step(&session, &one), wanted, bytes);
    free(wanted);
    session_close(&session);
}

static void test_only_the_rows_asked_for_get_logits_and_they_are_the_same(void **state) {
    (void)state;
    struct session session;
    struct one one;
    float *logits;
    open_model("qwen3", RADISH_PRECISION_FAST, &session);
    size_t n_vocab = session.config.n_vocab;
    fill_one(&one, 0, 30, 30);
    float *all = malloc(30 * n_vocab * sizeof *all);
    assert_non_null(all);
    memcpy(all, must_step(&session, &one), 30 * n_vocab * sizeof *all);

    fill_one(&one, 0, 30, 4);
    assert_memory_equal(must_step(&session, &one), all + 26 * n_vocab, 4 * n_vocab * sizeof *all);
    assert_int_equal(runner_logits(session.runner, 2, 1, &logits), RADISH_OK);
    assert_memory_equal(logits, all + 28 * n_vocab, n_vocab * sizeof *all);

    fill_one(&one, 0, 30, 0);
    assert_int_equal(runner_step(session.runner, &one.batch), RADISH_OK);
    assert_int_equal(runner_logits(session.runner, 0, 0, &logits), RADISH_OK);
    free(all);
    session_close(&session);
}

static void test_slots_used_before_leave_no_trace(void **state) {
    (void)state;
    struct session session;
    struct one one;
    open_model("llama", RADISH_PRECISION_FAST, &session);
    size_t bytes = session.config.n_vocab * sizeof(float);
    fill_one(&one, 0, 20, 1);
    float *fresh = malloc(bytes);
    assert_non_null(fresh);
    memcpy(fresh, must_step(&session, &one), bytes);

    fill_one(&one, 0, 40, 1);
    for (uint32_t i = 0; i < 40; i++) one.token_ids[i] = 511 - token_of(i);
    must_step(&session, &one);
    fill_one(&one, 0, 20, 1);
    assert_memory_equal(must_step(&session, &one), fresh, bytes);
    free(fresh);
    session_close(&session);
}

/* ---- batches that are wrong */

typedef void (*spoil_fn)(struct one *one);

static void spoil_token(struct one *one) {
    one->token_ids[3] = 512;
}
static void spoil_sampled(struct one *one) {
    one->token_ids[3] = -1;
}
static void spoil_position(struct one *one) {
    one->positions[3] = 4;
}
static void spoil_slot(struct one *one) {
    one->slots[3] = 100;
}
static void spoil_table_past_the_pool(struct one *one) {
    one->table[0] = 512;
}
static void spoil_table_padding(struct one *one) {
    one->table[2] = 0;
    one->slots[2] = 0;
}
static void spoil_same_slot(struct one *one) {
    one->table[2] = one->table[3];
    one->slots[2] = one->slots[3];
}
static void move_to_slot_3(struct one *one) {
    one->table[2] = 3;
    one->slots[2] = 3;
}
static void spoil_length(struct one *one) {
    one->seq.kv_len = 513;
}
static void spoil_rows(struct one *one) {
    one->seq.n_rows = 7;
}
static void spoil_logits_row(struct one *one) {
    one->logits_rows[0] = 6;
}
static void spoil_count(struct one *one) {
    one->batch.n_tokens = 513;
}

/* Whether runner_step() ends the process with this batch. */
static bool aborts(struct session *session, spoil_fn spoil) {
    struct one one;
    fill_one(&one, 0, 8, 1);
    if (spoil) spoil(&one);
    pid_t child = fork();
    assert_true(child >= 0);
    if (child == 0) {
        int nowhere = open("/dev/null", O_WRONLY);
        dup2(nowhere, STDERR_FILENO);
        signal(SIGABRT, SIG_DFL);
        _exit(runner_step(session->runner, &one.batch) == RADISH_OK ? 0 : 1);
    }
    int status = 0;
    assert_int_equal(waitpid(child, &status, 0), child);
    return WIFSIGNALED(status) && WTERMSIG(status) == SIGABRT;
}

static void test_a_wrong_batch_stops_the_process(void **state) {
    (void)state;
    static const spoil_fn spoils[] = {
        spoil_token,         spoil_sampled,   spoil_position, spoil_slot, spoil_table_past_the_pool,
        spoil_table_padding, spoil_same_slot, spoil_length,   spoil_rows, spoil_logits_row,
        spoil_count,
    };
    struct session session;
    open_model("llama", RADISH_PRECISION_FAST, &session);
    assert_false(aborts(&session, NULL));
    for (size_t i = 0; i < sizeof spoils / sizeof *spoils; i++)
        if (!aborts(&session, spoils[i])) fail_msg("wrong batch %zu was computed", i);
    session_close(&session);
}

static void test_the_whole_first_page_is_padding(void **state) {
    (void)state;
    static const uint32_t page_sizes[] = {1, 4};
    for (size_t i = 0; i < 2; i++) {
        struct session session;
        const struct session_options options = {.n_threads = 1, .page_size = page_sizes[i]};
        session_open(TEST_DATA "/models/llama", &options, &session);
        assert_false(aborts(&session, NULL));
        assert_int_equal(aborts(&session, move_to_slot_3), page_sizes[i] == 4);
        session_close(&session);
    }
}

static void test_the_step_allocates_nothing(void **state) {
    (void)state;
    struct session session;
    struct one one;
    if (!alloc_fail_can()) skip();
    open_model("llama", RADISH_PRECISION_FAST, &session);

    alloc_fail_count = 0;
    alloc_fail_at = SIZE_MAX;
    fill_one(&one, 0, 30, 2);
    enum radish_status status = runner_step(session.runner, &one.batch);
    float *logits = NULL;
    if (status == RADISH_OK) status = runner_logits(session.runner, 0, 2, &logits);
    size_t n_allocations = alloc_fail_count;
    alloc_fail_at = 0;

    assert_int_equal(status, RADISH_OK);
    assert_int_equal(n_allocations, 0);
    session_close(&session);
}

/* ---- plan and creation, on the device that only keeps account */

struct planned {
    struct model_file *file;
    struct model_config config;
    struct fake_device fake;
    struct weights weights; /* nothing is loaded: creation does not look into it */
    struct runner_options options;
};

static void open_planned(struct planned *p) {
    struct radish_error err = {0};
    assert_int_equal(model_file_open(TEST_DATA "/models/llama", false, &p->file, &err), RADISH_OK);
    assert_int_equal(config_read(p->file, &p->config, &err), RADISH_OK);
    fake_device_init(&p->fake);
    memset(&p->weights, 0, sizeof p->weights);
    p->options = (struct runner_options){.tokens_max = 100,
                                         .seqs_max = 4,
                                         .logits_rows_max = 10,
                                         .context_tokens = 512,
                                         .n_slots = 300,
                                         .kv_dtype = RADISH_DTYPE_F16};
}

static void test_the_plan_covers_what_creation_takes(void **state) {
    (void)state;
    struct planned p;
    struct runner_plan plan;
    struct runner *runner;
    struct radish_error err = {0};
    open_planned(&p);
    assert_int_equal(runner_plan(&p.config, &p.fake.device, &p.options, &plan, &err), RADISH_OK);
    assert_int_equal(p.fake.n_calls, 0);
    assert_int_equal(plan.kv_slot_bytes, 3 * (2 * 16 + 2 * 16) * 2);
    assert_int_equal(
        runner_create(&p.config, &p.weights, &p.fake.device, &p.options, &runner, &err), RADISH_OK);

    uint64_t kv_bytes = plan.kv_slot_bytes * p.options.n_slots;
    assert_true(p.fake.bytes_live > kv_bytes);
    assert_true(p.fake.bytes_live - kv_bytes <= plan.scratch_bytes);
    runner_destroy(runner);
    assert_int_equal(p.fake.n_live, 0);
    assert_int_equal(p.fake.bytes_live, 0);
    model_file_close(p.file);
}

static void test_logits_are_copied_only_from_a_device_with_memory_of_its_own(void **state) {
    (void)state;
    struct planned p;
    struct runner_plan copied, shared;
    struct runner *runner;
    struct radish_error err = {0};
    open_planned(&p);
    struct device_vtable ops = *p.fake.device.ops;
    assert_int_equal(runner_plan(&p.config, &p.fake.device, &p.options, &copied, &err), RADISH_OK);
    ops.has_host_memory = true;
    p.fake.device.ops = &ops;
    assert_int_equal(runner_plan(&p.config, &p.fake.device, &p.options, &shared, &err), RADISH_OK);
    assert_int_equal(copied.scratch_bytes - shared.scratch_bytes,
                     sizeof(float) * RUNNER_LOGITS_ROWS * p.config.n_vocab);
    assert_int_equal(
        runner_create(&p.config, &p.weights, &p.fake.device, &p.options, &runner, &err), RADISH_OK);
    runner_destroy(runner);
    assert_int_equal(p.fake.n_live, 0);
    model_file_close(p.file);
}

static void test_a_second_base_of_rope_has_a_table_that_is_planned_and_freed(void **state) {
    (void)state;
    struct planned p;
    struct runner_plan one, two;
    struct runner *runner;
    struct radish_error err = {0};
    open_planned(&p);
    assert_int_equal(runner_plan(&p.config, &p.fake.device, &p.options, &one, &err), RADISH_OK);
    p.config.rope_local = p.config.rope;
    p.config.has_local_rope[1] = true;
    assert_int_equal(runner_plan(&p.config, &p.fake.device, &p.options, &two, &err), RADISH_OK);
    assert_true(two.scratch_bytes >=
                one.scratch_bytes + 4ull * p.config.rotary_dim * p.options.context_tokens);
    assert_int_equal(
        runner_create(&p.config, &p.weights, &p.fake.device, &p.options, &runner, &err), RADISH_OK);
    runner_destroy(runner);
    assert_int_equal(p.fake.n_live, 0);
    assert_int_equal(p.fake.bytes_live, 0);
    model_file_close(p.file);
}

static void test_what_a_family_needs_is_asked_of_the_device(void **state) {
    (void)state;
    static const struct {
        enum activation activation;
        double cap;
        enum kernel_op op;
    } cases[] = {{ACTIVATION_GELU_TANH, 0, KERNEL_OP_ACTIVATE},
                 {ACTIVATION_SILU, 0, KERNEL_OP_SILU_MUL},
                 {ACTIVATION_SILU, 30, KERNEL_OP_SOFT_CAP}};
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        struct planned p;
        struct runner_plan plan;
        struct radish_error err = {0};
        open_planned(&p);
        p.config.activation = cases[i].activation;
        p.config.logit_soft_cap = cases[i].cap;
        p.fake.refused_op = cases[i].op;
        assert_int_equal(runner_plan(&p.config, &p.fake.device, &p.options, &plan, &err),
                         RADISH_E_UNSUPPORTED);
        assert_non_null(strstr(err.msg, kernel_op_name(cases[i].op)));
        model_file_close(p.file);
    }
}

static void test_a_missing_kernel_names_layer_and_operation(void **state) {
    (void)state;
    struct planned p;
    struct runner_plan plan;
    struct radish_error err = {0};
    open_planned(&p);
    p.fake.refused_op = KERNEL_OP_ATTENTION;
    assert_int_equal(runner_plan(&p.config, &p.fake.device, &p.options, &plan, &err),
                     RADISH_E_UNSUPPORTED);
    assert_string_equal(err.msg, "layer 0: no attention kernel for it: the fake was told so");
    model_file_close(p.file);
}

static void test_absurd_limits_are_refused_not_computed(void **state) {
    (void)state;
    struct planned p;
    struct runner *runner;
    struct runner_plan plan;
    struct radish_error err = {0};
    open_planned(&p);
    p.options.tokens_max = UINT32_MAX;
    p.options.context_tokens = UINT32_MAX;
    assert_int_equal(runner_plan(&p.config, &p.fake.device, &p.options, &plan, &err), RADISH_OK);
    assert_true(plan.scratch_bytes > (uint64_t)UINT32_MAX * 96 * 4);

    p.options.n_slots = 1;
    assert_int_equal(
        runner_create(&p.config, &p.weights, &p.fake.device, &p.options, &runner, &err),
        RADISH_E_INVALID);
    model_file_close(p.file);
}

static bool attempt_create(void *user) {
    struct planned *p = user;
    struct runner *runner;
    struct radish_error err;
    enum radish_status status =
        runner_create(&p->config, &p->weights, &p->fake.device, &p->options, &runner, &err);
    runner_destroy(runner);
    if (status != RADISH_OK) assert_int_equal(status, RADISH_E_NOMEM);
    assert_int_equal(p->fake.n_live, 0);
    return status == RADISH_OK;
}

static void test_any_allocation_of_creation_may_fail(void **state) {
    (void)state;
    struct planned p;
    uint32_t k = 1;
    open_planned(&p);
    for (; p.fake.fail_at = k, p.fake.n_calls = 0, !attempt_create(&p); k++) assert_true(k < 100);
    assert_int_equal(k, 1 + 1 + 1 + 2 * 3 + 1); /* block, table, kernels' scratch, pools */

    p.fake.fail_at = 0;
    if (alloc_fail_can()) assert_true(alloc_fail_each(attempt_create, &p) > k);
    model_file_close(p.file);
}

/* ---- layers of different shape */

static void add_random(struct gguf_build *b, uint32_t layer, const char *what, uint64_t rows,
                       uint64_t n) {
    static float values[64 * 96];
    static uint32_t seed = 1;
    char name[64];
    size_t n_values = (size_t)(n * (rows ? rows : 1));
    assert_true(n_values <= sizeof values / sizeof *values);
    for (size_t i = 0; i < n_values; i++) {
        seed = seed * 1664525 + 1013904223;
        values[i] = rows ? (float)(seed >> 8) / (float)(1 << 24) - 0.5f : 1;
    }
    if (layer == UINT32_MAX)
        snprintf(name, sizeof name, "%s", what);
    else
        snprintf(name, sizeof name, "blk.%u.%s.weight", layer, what);
    gguf_build_tensor(b, name, rows, n, values);
}

/* hidden 64, head_dim 16, layers of 4/2, 2/1 and 4/4 heads, 96, 32 and 64 feed-forward rows. */
static void write_uneven_model(char *path) {
    static const uint32_t heads[] = {4, 2, 4}, kv_heads[] = {2, 1, 4}, ffn[] = {96, 32, 64};
    struct gguf_build b;
    size_t n;
    gguf_build_init(&b);
    gguf_build_str(&b, "general.architecture", "llama");
    gguf_build_u32(&b, "llama.block_count", 3);
    gguf_build_u32(&b, "llama.embedding_length", 64);
    gguf_build_u32(&b, "llama.attention.key_length", 16);
    gguf_build_u32(&b, "llama.attention.value_length", 16);
    gguf_build_u32(&b, "llama.context_length", 512);
    gguf_build_u32(&b, "llama.vocab_size", 64);
    gguf_build_u32s(&b, "llama.attention.head_count", heads, 3);
    gguf_build_u32s(&b, "llama.attention.head_count_kv", kv_heads, 3);
    gguf_build_u32s(&b, "llama.feed_forward_length", ffn, 3);
    add_random(&b, UINT32_MAX, "token_embd.weight", 64, 64);
    add_random(&b, UINT32_MAX, "output_norm.weight", 0, 64);
    for (uint32_t layer = 0; layer < 3; layer++) {
        add_random(&b, layer, "attn_norm", 0, 64);
        add_random(&b, layer, "attn_q", heads[layer] * 16, 64);
        add_random(&b, layer, "attn_k", kv_heads[layer] * 16, 64);
        add_random(&b, layer, "attn_v", kv_heads[layer] * 16, 64);
        add_random(&b, layer, "attn_output", 64, heads[layer] * 16);
        add_random(&b, layer, "ffn_norm", 0, 64);
        add_random(&b, layer, "ffn_gate", ffn[layer], 64);
        add_random(&b, layer, "ffn_up", ffn[layer], 64);
        add_random(&b, layer, "ffn_down", 64, ffn[layer]);
    }
    uint8_t *bytes = gguf_build_take(&b, &n);
    gguf_build_deinit(&b);
    int file = mkstemps(path, 5);
    assert_true(file >= 0);
    assert_int_equal(write(file, bytes, n), n);
    close(file);
    free(bytes);
}

static void test_layers_of_different_shape_compute_the_same_in_chunks(void **state) {
    (void)state;
    char path[] = "/tmp/radish-test-XXXXXX.gguf";
    const struct session_options options = {.precision = RADISH_PRECISION_EXACT, .n_threads = 1};
    struct session session;
    int32_t tokens[30];
    float whole[30 * 64], chunked[30 * 64];
    for (uint32_t i = 0; i < 30; i++) tokens[i] = token_of(i) % 64;
    write_uneven_model(path);
    session_open(path, &options, &session);
    assert_int_equal(session.config.n_heads[1], 2);

    struct session_seq seq = {.tokens = tokens, .n_tokens = 30, .logits = whole};
    session_run(&session, &seq, 1, 0, SESSION_SLOTS_IN_ORDER);
    session_free_slots(&seq, 1);
    seq.logits = chunked;
    session_run(&session, &seq, 1, 4, SESSION_SLOTS_SHUFFLED);
    session_free_slots(&seq, 1);

    assert_memory_equal(whole, chunked, sizeof whole);
    for (size_t i = 0; i < 30 * 64; i++) assert_true(isfinite(whole[i]));
    assert_memory_not_equal(whole, whole + 64, 64 * sizeof(float));
    session_close(&session);
    unlink(path);
}

int main(void) {
    radish_log_set_level(RADISH_LOG_OFF);
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_one_flipped_bit_of_a_cached_slot_changes_the_logits),
        cmocka_unit_test(test_a_row_without_slot_reads_the_cache_and_writes_nothing),
        cmocka_unit_test(test_a_negative_id_is_what_was_drawn_from_that_row),
        cmocka_unit_test(test_only_the_rows_asked_for_get_logits_and_they_are_the_same),
        cmocka_unit_test(test_slots_used_before_leave_no_trace),
        cmocka_unit_test(test_a_wrong_batch_stops_the_process),
        cmocka_unit_test(test_the_whole_first_page_is_padding),
        cmocka_unit_test(test_the_step_allocates_nothing),
        cmocka_unit_test(test_the_plan_covers_what_creation_takes),
        cmocka_unit_test(test_logits_are_copied_only_from_a_device_with_memory_of_its_own),
        cmocka_unit_test(test_a_second_base_of_rope_has_a_table_that_is_planned_and_freed),
        cmocka_unit_test(test_what_a_family_needs_is_asked_of_the_device),
        cmocka_unit_test(test_a_missing_kernel_names_layer_and_operation),
        cmocka_unit_test(test_absurd_limits_are_refused_not_computed),
        cmocka_unit_test(test_any_allocation_of_creation_may_fail),
        cmocka_unit_test(test_layers_of_different_shape_compute_the_same_in_chunks),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
