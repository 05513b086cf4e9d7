/* One prompt, many ways to compute it, the same bits: cold, in any chunks, warm from any cut, alone
 * and in company in mixed phases, sent back and resumed, evicted and recomputed, as one of several
 * choices, with one thread and two; for each family and both precisions, and for weights that are
 * quantised while they are loaded. And for each kernel that this processor can run, forced:
 * company in mixed phases, cold and warm, on weights and a pool that it reads.
 *
 * The base is a request alone, without a cache, its prompt in one chunk, one thread. Every row's
 * logits of the prompt are compared bit for bit; of the answer, the ids and the log probability of
 * each, into which all logits of its row go. And the test proves itself: cached_tokens says what
 * was reused, and one flipped bit in one cached slot must show. */
#include "radish_report.h"

#include "test.h"

#include "base/file_map.h"
#include "base/rng.h"
#include "cache/kv_cache_int.h"
#include "engine/engine_int.h"
#include "engine_client.h"
#include "kernel/registry.h"
#include "model/runner_int.h"
#include "model_golden.h"
#include "sched/sched_int.h"

enum { PROMPTS = 17, TOKENS = 41, NEW = 20, VOCAB_MAX = 1024, CHOICES = 4 };

/* What a request gave. */
struct record {
    uint32_t n_prompt, n_vocab;
    uint32_t row_first, n_rows;       /* rows seen: [row_first, row_first + n_rows) */
    float logits[TOKENS * VOCAB_MAX]; /* by row of the prompt */
    int32_t ids[NEW];
    float logprobs[NEW];
    uint32_t n_ids, n_cached;
};

struct family {
    const char *name;
    char path[512];
    enum radish_precision precision;
    const char *quantization; /* while it is loaded; or NULL */
    const char *kernel;       /* "OP=NAME": forced; or NULL */
    enum radish_kv_dtype kv_dtype;
    int32_t prompts[PROMPTS][TOKENS];
    uint32_t n_tokens[PROMPTS];
    struct record base[PROMPTS];
    struct record choices[CHOICES]; /* base of the first prompt with other seeds */
};

static struct family *family;
static struct radish_model *model;
static struct radish_engine *engine;
static struct client *clients[PROMPTS];
static struct record records[PROMPTS];

static void take_logits(void *user, size_t row, size_t n_rows, size_t n_vocab,
                        const float *logits) {
    struct record *record = ((struct client *)user)->extra;
    if (!record->n_rows) record->row_first = (uint32_t)row;
    assert_int_equal(row, record->row_first + record->n_rows);
    assert_true(row + n_rows <= TOKENS && n_vocab <= VOCAB_MAX);
    record->n_vocab = (uint32_t)n_vocab;
    memcpy(record->logits + row * n_vocab, logits, n_rows * n_vocab * sizeof *logits);
    record->n_rows += (uint32_t)n_rows;
}

static struct radish_request request_of(uint32_t i, uint32_t logits_from) {
    struct radish_request request = client_request(family->prompts[i], family->n_tokens[i], NEW);
    request.sampling.temperature = 4; /* tiny models are sure of themselves */
    request.sampling.seed = 100 + i;
    request.sampling.has_seed = true;
    request.logprobs = true;
    request.logits_from = logits_from;
    request.on_logits = take_logits;
    return request;
}

static void submit(uint32_t at, const struct radish_request *request) {
    struct radish_error err;
    records[at].n_rows = 0;
    records[at].n_prompt = (uint32_t)request->n_prompt;
    clients[at]->extra = &records[at];
    if (client_submit(clients[at], engine, request, &err) != RADISH_OK) fail_msg("%s", err.msg);
}

static struct record *wait_for(uint32_t at) {
    struct record *record = &records[at];
    client_wait(clients[at]);
    const struct client_choice *choice = &clients[at]->choices[0];
    record->n_ids = choice->n_ids;
    record->n_cached = choice->usage.cached_tokens;
    memcpy(record->ids, choice->ids, sizeof record->ids);
    memcpy(record->logprobs, choice->logprobs, sizeof record->logprobs);
    return record;
}

static bool has_same_logits(const struct record *a, const struct record *base) {
    size_t from = (size_t)a->row_first * a->n_vocab, n = (size_t)a->n_rows * a->n_vocab;
    return memcmp(a->logits + from, base->logits + from, n * sizeof *a->logits) == 0;
}

static bool has_same_answer(const struct record *a, const struct record *base) {
    return a->n_ids == NEW && memcmp(a->ids, base->ids, sizeof a->ids) == 0 &&
           memcmp(a->logprobs, base->logprobs, sizeof a->logprobs) == 0;
}

static void check(const struct record *record, const struct record *base, const char *way,
                  uint32_t n) {
    if (!record->n_rows || record->row_first + record->n_rows != record->n_prompt)
        fail_msg("%s, %s (%u): %u rows from %u on", family->name, way, n, record->n_rows,
                 record->row_first);
    if (!has_same_logits(record, base)) fail_msg("%s, %s (%u): other logits", family->name, way, n);
    if (!has_same_answer(record, base))
        fail_msg("%s, %s (%u): another answer", family->name, way, n);
}

static struct radish_engine_options options_of(uint32_t n_threads, uint32_t chunk) {
    return (struct radish_engine_options){.n_threads = n_threads,
                                          .precision = family->precision,
                                          .quantization = family->quantization,
                                          .kv_dtype = family->kv_dtype,
                                          .kernels = {family->kernel},
                                          .n_kernels = family->kernel ? 1 : 0,
                                          .kv_tokens_max = 4000,
                                          .context_tokens = 128,
                                          .chunk_tokens = chunk,
                                          .requests_running_max = PROMPTS};
}

static void open_engine(const struct radish_engine_options *options) {
    client_open_engine(family->path, options, &model, &engine);
}

static void close_engine(void) {
    client_assert_baseline(engine);
    radish_engine_close(engine);
    radish_model_close(model);
}

/* ---- the ways ---- */

static void compute_base(void) {
    struct radish_engine_options options = options_of(1, 512);
    options.is_cache_off = true;
    open_engine(&options);
    for (uint32_t i = 0; i < PROMPTS; i++) {
        struct radish_request request = request_of(i, 0);
        submit(0, &request);
        family->base[i] = *wait_for(0);
        assert_int_equal(family->base[i].n_rows, family->n_tokens[i]);
        assert_int_equal(family->base[i].n_cached, 0);
    }
    for (uint32_t i = 0; i < CHOICES; i++) {
        struct radish_request request = request_of(0, 0);
        request.sampling.seed += i;
        submit(0, &request);
        family->choices[i] = *wait_for(0);
    }
    close_engine();
    assert_memory_not_equal(family->choices[0].ids, family->choices[1].ids, sizeof records->ids);
}

static void check_cold(void) {
    const uint32_t chunks[] = {1, 3, 16, 512};
    for (uint32_t i = 0; i < 8; i++) {
        struct radish_engine_options options = options_of(1 + i % 2, chunks[i / 2]);
        open_engine(&options);
        struct radish_request request = request_of(0, 0);
        submit(0, &request);
        check(wait_for(0), &family->base[0], "cold in chunks of", chunks[i / 2]);
        close_engine();
    }
}

/* Every cut, each in a namespace of its own: so the tree holds exactly the cut. */
static void check_warm(uint32_t page_tokens, uint32_t n_threads, uint32_t chunk) {
    struct radish_engine_options options = options_of(n_threads, chunk);
    options.page_tokens = page_tokens;
    open_engine(&options);
    uint32_t n_prompt = family->n_tokens[0];
    for (uint32_t cut = 1; cut < n_prompt; cut++) {
        struct radish_request first = request_of(0, 0), second = request_of(0, cut);
        first.namespace_key = second.namespace_key = &cut;
        first.namespace_len = second.namespace_len = sizeof cut;
        first.n_prompt = cut;
        first.max_new_tokens = 0;
        submit(0, &first);
        assert_int_equal(wait_for(0)->n_cached, 0);
        submit(1, &second);
        const struct record *record = wait_for(1);
        assert_int_equal(record->n_cached, cut / page_tokens * page_tokens);
        assert_int_equal(record->n_rows, n_prompt - cut);
        check(record, &family->base[0], "warm at", cut);
    }
    close_engine();
}

/* 17 at once, in chunks that leave them in different phases; the later ones share prefixes of the
 * earlier, and the second round is warm. */
static void check_company(uint32_t n_threads, uint32_t chunk) {
    struct radish_engine_options options = options_of(n_threads, chunk);
    open_engine(&options);
    for (uint32_t round = 0; round < 2; round++) {
        uint32_t n_cached = 0;
        for (uint32_t i = 0; i < PROMPTS; i++) {
            struct radish_request request = request_of(i, family->n_tokens[i] - 1);
            submit(i, &request);
            if (i % 4 == 3) client_wait_tokens(clients[i - 2], 2);
        }
        for (uint32_t i = 0; i < PROMPTS; i++) {
            check(wait_for(i), &family->base[i], "in company, prompt", i);
            n_cached += records[i].n_cached;
            if (round) assert_int_equal(records[i].n_cached, family->n_tokens[i] - 1);
        }
        assert_true(n_cached > 0);
    }
    close_engine();
}

/* A pool of 256 slots for 17 requests of about 60: estimates that expect next to nothing admit most
 * of them, and most of them come back. Later the pool has evicted what was asked first. */
static void check_retracted_and_evicted(uint32_t page_tokens) {
    struct radish_engine_options options = options_of(2, 16);
    options.kv_tokens_max = 256;
    options.page_tokens = page_tokens;
    options.schedule_conservativeness = 0.01;
    open_engine(&options);
    for (uint32_t i = 0; i < PROMPTS; i++) {
        struct radish_request request = request_of(i, family->n_tokens[i] - 1);
        submit(i, &request);
    }
    for (uint32_t i = 0; i < PROMPTS; i++)
        check(wait_for(i), &family->base[i], "retracted, prompt", i);
    struct radish_engine_info info;
    client_assert_baseline(engine);
    radish_engine_info(engine, &info);
    assert_true(info.retractions_total > 0);

    uint32_t n_recomputed = 0;
    for (uint32_t i = 0; i < PROMPTS; i++) {
        struct radish_request request = request_of(i, family->n_tokens[i] - 1);
        submit(i, &request);
        check(wait_for(i), &family->base[i], "evicted and recomputed, prompt", i);
        n_recomputed += records[i].n_cached + page_tokens < family->n_tokens[i];
    }
    assert_true(n_recomputed > 3);
    close_engine();
}

static void check_choices(uint32_t n_threads) {
    struct radish_engine_options options = options_of(n_threads, 16);
    open_engine(&options);
    struct radish_request request = request_of(0, 0);
    request.n = CHOICES;
    submit(0, &request);
    client_wait(clients[0]);
    struct radish_engine_info info;
    client_assert_baseline(engine);
    radish_engine_info(engine, &info);
    uint64_t n_computed = info.prompt_tokens_total - info.cached_tokens_total;
    for (uint32_t i = 0; i < CHOICES; i++) {
        const struct client_choice *choice = &clients[0]->choices[i];
        assert_int_equal(choice->n_ids, NEW);
        assert_memory_equal(choice->ids, family->choices[i].ids, sizeof records->ids);
        assert_memory_equal(choice->logprobs, family->choices[i].logprobs,
                            sizeof records->logprobs);
    }
    assert_int_equal(n_computed, family->n_tokens[0]); /* once */
    close_engine();
}

/* A slot that is not free while nothing runs is the tree's. The one of a position near the prompt's
 * end, which windows do not hide from the row that is computed. */
static void flip_one_bit_of_a_cached_slot(uint32_t position) {
    const struct kv_pool *pool = engine->sched->kv->pool;
    uint32_t slot = 1;
    for (uint32_t n_cached = 0; slot < kv_pool_n_slots(pool); slot++)
        if (!kv_pool_is_free(pool, slot) && n_cached++ == position) break;
    assert_true(slot < kv_pool_n_slots(pool));
    size_t bytes;
    unsigned char *v =
        runner_slot_address(engine->runner, /*layer=*/0, /*is_v=*/true, slot, &bytes);
    /* The highest bit of a mantissa: smaller ones may be rounded away where activations are int8.
     */
    switch (engine->plan.runner.kv_dtype) {
    case RADISH_DTYPE_F32: v[2] ^= 0x40; break;
    case RADISH_DTYPE_F16: v[1] ^= 0x02; break;
    default: v[0] ^= 0x40; break;
    }
}

static void check_that_a_flipped_bit_shows(void) {
    struct radish_engine_options options = options_of(1, 16);
    open_engine(&options);
    for (uint32_t i = 0; i < 3; i++) {
        struct radish_request request = request_of(0, i ? family->n_tokens[0] - 1 : 0);
        if (i == 2) flip_one_bit_of_a_cached_slot(family->n_tokens[0] - 2);
        submit(0, &request);
        const struct record *record = wait_for(0);
        assert_int_equal(record->n_cached, i ? family->n_tokens[0] - 1 : 0);
        assert_int_equal(has_same_logits(record, &family->base[0]), i < 2);
        client_assert_baseline(engine);
    }
    close_engine();
}

/* ---- */

static void make_prompts(void) {
    for (uint32_t i = 0; i < PROMPTS; i++) {
        family->n_tokens[i] = i ? 24 + i : TOKENS;
        for (uint32_t t = 0; t < family->n_tokens[i]; t++) {
            bool is_shared = i % 3 == 0 || t < i;
            family->prompts[i][t] = (int32_t)(rng_u64(is_shared ? 7 : 1000 + i, t) % 500);
        }
    }
}

static void check_all_ways(void **state) {
    family = *state;
    if (!file_is_folder(family->path)) {
        printf("there is no %s\n", family->path);
        skip();
    }
    make_prompts();
    compute_base();
    check_that_a_flipped_bit_shows();
    check_cold();
    check_warm(1, 2, 512);
    check_warm(4, 1, 3);
    check_company(1, 16);
    check_company(2, 3);
    check_retracted_and_evicted(1);
    check_retracted_and_evicted(4);
    check_choices(1);
    check_choices(2);
}

/* ---- with each kernel forced ---- */

struct forced {
    const struct kernel_row *row;
    char name[80]; /* "OP=NAME" */
};

/* A model that has the operation, with weights in f16 where a row reads nothing else: not all of
 * them are in tests/data. */
static void find_model(const struct kernel_row *row, struct family *f) {
    const char *folder = golden_conformance(), *name = "models/llama";
    if (row->op == KERNEL_OP_LAYERNORM || row->op == KERNEL_OP_ACTIVATE)
        name = "models/gpt_neox";
    else if (row->op == KERNEL_OP_SOFT_CAP)
        name = "models/gemma2";
    else if (row->op == KERNEL_OP_MATMUL && row->formats == KERNEL_F16)
        name = "gguf/llama-F16.gguf";
    else
        folder = TEST_DATA;
    snprintf(f->path, sizeof f->path, "%s/%s", folder, name);
}

/* Weights and a pool that the row reads. */
static void fit_family(const struct kernel_row *row, struct family *f) {
    const bool is_of_kv = row->op == KERNEL_OP_ATTENTION || row->op == KERNEL_OP_ROPE_KV_STORE;
    f->precision = RADISH_PRECISION_FAST;
    f->quantization = NULL;
    f->kv_dtype = RADISH_KV_AUTO;
    find_model(row, f);
    if (is_of_kv && !(row->formats & KERNEL_BF16))
        f->kv_dtype = row->formats & KERNEL_F16 ? RADISH_KV_F16 : RADISH_KV_F32;
    if (is_of_kv || row->formats & KERNEL_BF16) return;
    if (row->formats & KERNEL_I8)
        f->quantization = "q5_1"; /* in layers; outside q8_0 */
    else if (row->formats & KERNEL_F32)
        f->precision = RADISH_PRECISION_EXACT;
}

static void check_with_a_kernel_forced(void **state) {
    static struct family shared;
    const struct forced *forced = *state;
    family = &shared;
    family->name = family->kernel = forced->name;
    fit_family(forced->row, family);
    if (!file_is_folder(family->path) && !file_exists(family->path)) {
        printf("there is no %s\n", family->path);
        skip();
    }
    make_prompts();

    struct radish_engine_options options = options_of(1, 16);
    struct radish_engine_info info;
    open_engine(&options);
    radish_engine_info(engine, &info);
    const char *line = strstr(info.kernels_report, forced->row->name);
    const char *reason = line ? strstr(line, "forced by --kernel") : NULL;
    assert_non_null(reason);
    assert_null(memchr(line, '\n', (size_t)(reason - line)));
    close_engine();

    compute_base();
    check_company(2, 3);
}

/* A test for each kernel that can run here; returns how many. */
static uint32_t list_kernels(struct forced *forced, struct CMUnitTest *tests, uint32_t n_max) {
    uint32_t n_rows, n = 0;
    const struct kernel_row *rows = registry_rows(KERNEL_FAMILY_CPU, &n_rows);
    for (uint32_t i = 0; i < n_rows && n < n_max; i++) {
        if (!cpu_has_isa(rows[i].isa)) continue;
        forced[n].row = &rows[i];
        snprintf(forced[n].name, sizeof forced[n].name, "%s=%s", kernel_op_name(rows[i].op),
                 rows[i].name);
        tests[n] = (struct CMUnitTest){.name = forced[n].name,
                                       .test_func = check_with_a_kernel_forced,
                                       .initial_state = &forced[n]};
        n++;
    }
    return n;
}

int main(void) {
    /* Those of tests/data, and one for each piece that others have: biases; windows, soft caps and
     * norms after; LayerNorm and a parallel feed-forward part; layers without RoPE. */
    static const char *const folders[] = {"llama",  "qwen3",    "qwen2",
                                          "gemma2", "gpt_neox", "exaone4"};
    enum { N_COMMITTED = 2, N_FAMILIES = sizeof folders / sizeof *folders };
    static const struct {
        const char *folder, *quantization;
    } quantised[] = {{"llama", "q8_0"}, {"qwen3", "q4_1"}};
    enum { N_QUANTISED = 2, N_TESTS = 2 * N_FAMILIES + N_QUANTISED };
    static struct family families[N_TESTS];
    static char names[N_TESTS][32];
    struct CMUnitTest tests[N_TESTS];
    for (uint32_t i = 0; i < N_TESTS; i++) {
        const bool is_quantised = i >= 2 * N_FAMILIES;
        const char *folder = is_quantised ? quantised[i - 2 * N_FAMILIES].folder : folders[i / 2];
        const char *mode = i % 2 ? "exact" : "fast";
        if (is_quantised)
            mode = families[i].quantization = quantised[i - 2 * N_FAMILIES].quantization;
        snprintf(names[i], sizeof names[i], "%s %s", folder, mode);
        families[i].name = names[i];
        families[i].precision =
            i % 2 && !is_quantised ? RADISH_PRECISION_EXACT : RADISH_PRECISION_FAST;
        snprintf(families[i].path, sizeof families[i].path, "%s/models/%s",
                 is_quantised || i / 2 < N_COMMITTED ? TEST_DATA : golden_conformance(), folder);
        char *real = realpath(families[i].path, NULL);
        if (real) snprintf(families[i].path, sizeof families[i].path, "%s", real);
        free(real);
        tests[i] = (struct CMUnitTest){
            .name = names[i], .test_func = check_all_ways, .initial_state = &families[i]};
    }
    for (uint32_t i = 0; i < PROMPTS; i++) clients[i] = client_create();
    enum { N_KERNELS_MAX = 100 };
    static struct forced forced[N_KERNELS_MAX];
    static struct CMUnitTest kernel_tests[N_KERNELS_MAX];
    const uint32_t n_kernels = list_kernels(forced, kernel_tests, N_KERNELS_MAX);
    int n_failed = cmocka_run_group_tests(tests, NULL, NULL);
    n_failed += _cmocka_run_group_tests("forced kernels", kernel_tests, n_kernels, NULL, NULL);
    for (uint32_t i = 0; i < PROMPTS; i++) client_destroy(clients[i]);
    return n_failed;
}
