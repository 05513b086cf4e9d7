/* engine_async_device.c - records operations as (function, arguments), replays them on the CPU's
 * device from a thread that owns it while a step runs. Weights and memory are the inner device's.
 * Nothing of the engine's is touched from that thread. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "engine_async_device.h"

#include "base/arena.h"
#include "base/rng.h"
#include "kernel/device_int.h"

#include <math.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

struct op {
    void (*run)(struct device *inner, const void *args);
    void *args; /* a copy, in the step's arena */
    struct op *next;
};

struct recorded {
    struct arena arena;
    struct op *first, *last;
    uint32_t n_ops;
    enum radish_status status;
    bool has_ended;
};

struct async_device {
    struct device_base base; /* first */
    struct device *inner;
    struct async_device_plan plan;
    struct recorded steps[DEVICE_STEPS_MAX];
    uint64_t n_recorded, n_submitted, n_run, n_waited; /* steps; under the lock but for the first */
    uint64_t n_random;
    bool is_in_step, is_closing,
        is_broken; /* broken: a step was given up, until all are waited for */
    pthread_mutex_t lock;
    pthread_cond_t changed;
    pthread_t thread;
};

static struct async_device_plan the_plan;
static struct async_device_counts counts; /* by several threads, read at any time */
static bool is_known;

static uint64_t count(uint64_t *counter, uint64_t n) {
    return __atomic_add_fetch(counter, n, __ATOMIC_RELAXED);
}

static struct async_device *async_of(struct device *d) {
    return (struct async_device *)(void *)d;
}

static const struct async_device *async_of_const(const struct device *d) {
    return (const struct async_device *)(const void *)d;
}

/* ---- the thread ---- */

static void pause_for(struct async_device *a, uint64_t stream) {
    if (!a->plan.delay_us_max) return;
    usleep((useconds_t)(rng_u64(stream, a->n_random++) % a->plan.delay_us_max));
}

/* Runs ops; half of them, when the step is to be given up. */
static void run_ops(struct async_device *a, const struct recorded *step, bool gives_up) {
    uint32_t n = gives_up ? step->n_ops / 2 : step->n_ops;
    const struct op *op = step->first;
    a->inner->ops->step_begin(a->inner);
    for (uint32_t i = 0; i < n; i++, op = op->next) {
        if (i == n / 2) pause_for(a, 2);
        op->run(a->inner, op->args);
    }
    assert_int_equal(a->inner->ops->step_submit(a->inner), RADISH_OK);
    assert_int_equal(a->inner->ops->step_wait(a->inner), RADISH_OK);
}

static void *run_steps(void *user) {
    struct async_device *a = user;
    pthread_mutex_lock(&a->lock);
    for (;;) {
        while (a->n_run == a->n_submitted && !a->is_closing)
            pthread_cond_wait(&a->changed, &a->lock);
        if (a->n_run == a->n_submitted) break;
        struct recorded *step = &a->steps[a->n_run % DEVICE_STEPS_MAX];
        bool was_broken = a->is_broken;
        uint64_t at = a->n_run + 1;
        pthread_mutex_unlock(&a->lock);
        pause_for(a, 1);
        bool fails = a->plan.fail_at && at >= a->plan.fail_at;
        bool gives_up =
            !fails && a->plan.give_up_1_in && rng_u64(3, a->n_random++) % a->plan.give_up_1_in == 0;
        if (!was_broken || a->plan.runs_on) run_ops(a, step, gives_up || fails);
        pthread_mutex_lock(&a->lock);
        count(&counts.n_given_up, gives_up);
        a->is_broken |= gives_up;
        step->status = fails ? RADISH_E_INTERNAL : a->is_broken ? RADISH_AGAIN : RADISH_OK;
        step->has_ended = true;
        a->n_run++;
        pthread_cond_broadcast(&a->changed);
    }
    pthread_mutex_unlock(&a->lock);
    return NULL;
}

/* ---- recording ---- */

static void step_begin(struct device *d) {
    struct async_device *a = async_of(d);
    assert_false(a->is_in_step);
    assert_true(a->n_recorded - a->n_waited < DEVICE_STEPS_MAX);
    struct recorded *step = &a->steps[a->n_recorded % DEVICE_STEPS_MAX];
    arena_deinit(&step->arena);
    *step = (struct recorded){0};
    arena_init(&step->arena, 0);
    a->is_in_step = true;
    if (a->plan.on_step) a->plan.on_step(a->plan.user);
}

static enum radish_status step_submit(struct device *d) {
    struct async_device *a = async_of(d);
    assert_true(a->is_in_step);
    a->is_in_step = false;
    if (a->plan.refuse_at && a->n_recorded + 1 >= a->plan.refuse_at) return RADISH_E_INTERNAL;
    pthread_mutex_lock(&a->lock);
    count(&counts.n_steps, 1);
    count(&counts.n_ahead, a->n_submitted > a->n_waited);
    a->n_recorded++;
    a->n_submitted++;
    pthread_cond_broadcast(&a->changed);
    pthread_mutex_unlock(&a->lock);
    return RADISH_OK;
}

static enum radish_status step_wait(struct device *d) {
    struct async_device *a = async_of(d);
    assert_true(a->n_waited < a->n_submitted);
    struct recorded *step = &a->steps[a->n_waited % DEVICE_STEPS_MAX];
    pthread_mutex_lock(&a->lock);
    while (!step->has_ended) pthread_cond_wait(&a->changed, &a->lock);
    a->n_waited++;
    if (a->n_waited == a->n_submitted) a->is_broken = false;
    pthread_mutex_unlock(&a->lock);
    return step->status;
}

static void *copy_of(struct async_device *a, const void *data, size_t bytes) {
    struct recorded *step = &a->steps[a->n_recorded % DEVICE_STEPS_MAX];
    void *copy = arena_alloc(&step->arena, bytes ? bytes : 1);
    assert_non_null(copy);
    memcpy(copy, data, bytes);
    return copy;
}

static void record(struct device *d, void (*run)(struct device *, const void *), void *args) {
    struct async_device *a = async_of(d);
    struct recorded *step = &a->steps[a->n_recorded % DEVICE_STEPS_MAX];
    struct op *op = copy_of(a, &(struct op){run, args, NULL}, sizeof *op);
    assert_true(a->is_in_step);
    *(step->last ? &step->last->next : &step->first) = op;
    step->last = op;
    step->n_ops++;
}

/* An operation whose arguments hold nothing of the host's. */
#define RECORDED(op)                                                                               \
    static void run_##op(struct device *inner, const void *args) {                                 \
        inner->ops->op(inner, args);                                                               \
    }                                                                                              \
    static void op(struct device *d, const struct op##_args *args) {                               \
        record(d, run_##op, copy_of(async_of(d), args, sizeof *args));                             \
    }
RECORDED(embed)
RECORDED(rmsnorm)
RECORDED(layernorm)
RECORDED(matmul)
RECORDED(matmul_group)
RECORDED(silu_mul)
RECORDED(activate)
RECORDED(soft_cap)
RECORDED(keep_rows)
RECORDED(rope_kv_store)

static void run_attention(struct device *inner, const void *args) {
    inner->ops->attention(inner, args);
}

static void attention(struct device *d, const struct attention_args *args) {
    struct async_device *a = async_of(d);
    struct attention_args *copy = copy_of(a, args, sizeof *args);
    struct attention_seq *seqs = copy_of(a, args->seqs, args->n_seqs * sizeof *seqs);
    for (uint32_t i = 0; i < args->n_seqs; i++)
        seqs[i].slots = copy_of(a, seqs[i].slots, seqs[i].kv_len * sizeof *seqs[i].slots);
    copy->seqs = seqs;
    record(d, run_attention, copy);
}

/* ---- sampling, as sample_rows_args says ---- */

struct token {
    double weight;
    float logit;
    uint32_t id;
};

static int compare_tokens(const void *x, const void *y) {
    const struct token *a = x, *b = y;
    if (a->logit != b->logit) return a->logit < b->logit ? 1 : -1;
    return a->id < b->id ? -1 : 1;
}

static int compare_ids(const void *x, const void *y) {
    const struct token *a = x, *b = y;
    return a->id < b->id ? -1 : 1;
}

static int32_t draw(const float *logits, uint32_t width, const struct sample_draw *draw) {
    struct token *tokens = malloc(width * sizeof *tokens);
    assert_non_null(tokens);
    bool is_bad = false;
    for (uint32_t i = 0; i < width; i++) {
        tokens[i] = (struct token){0, logits[i], i};
        is_bad |= !(logits[i] < INFINITY);
    }
    if (!is_bad) qsort(tokens, width, sizeof *tokens, compare_tokens);
    is_bad = is_bad || tokens[0].logit == -INFINITY;
    uint32_t n = draw->top_k < width ? draw->top_k : width, n_kept = 0;
    double mass = 0, before = 0, kept = 0;
    for (uint32_t i = 0; i < n && !is_bad; i++) {
        tokens[i].weight = exp(((double)tokens[i].logit - tokens[0].logit) / draw->temperature);
        mass += tokens[i].weight;
    }
    for (uint32_t i = 0; i < n && !is_bad; i++) {
        double weight = tokens[i].weight;
        if ((before < draw->top_p * mass || draw->top_p >= 1) && weight >= draw->min_p &&
            weight > 0) {
            kept += weight;
            tokens[n_kept++] = tokens[i];
        }
        before += weight;
    }
    qsort(tokens, n_kept, sizeof *tokens, compare_ids);
    int32_t id = -1;
    double walked = 0;
    for (uint32_t i = 0; i < n_kept; i++) {
        id = (int32_t)tokens[i].id;
        walked += tokens[i].weight;
        if (walked > draw->u * kept) break;
    }
    free(tokens);
    return id;
}

static void run_sample(struct device *inner, const void *args) {
    const struct sample_rows_args *s = args;
    (void)inner;
    for (uint32_t row = 0; row < s->n_rows; row++) {
        s->tokens[row] = -1;
        if (s->draws[row].is_off) continue;
        if (count(&counts.n_drawn, 1) == the_plan.nothing_at) continue;
        s->tokens[row] = draw(s->logits + (size_t)row * s->stride, s->width, &s->draws[row]);
    }
}

static void sample(struct device *d, const struct sample_rows_args *args) {
    record(d, run_sample, copy_of(async_of(d), args, sizeof *args));
}

/* ---- the rest is the inner device's ---- */

static bool supports(struct device *d, enum kernel_op op, const struct kernel_shape *shape,
                     char *reason_out, size_t reason_bytes) {
    struct device *inner = async_of_const(d)->inner;
    if (op == KERNEL_OP_SAMPLE) return d->ops->sample != NULL;
    return inner->ops->supports(inner, op, shape, reason_out, reason_bytes);
}

static enum radish_status mem_alloc(struct device *d, size_t bytes, void **address_out,
                                    struct radish_error *err) {
    struct device *inner = async_of(d)->inner;
    return inner->ops->mem_alloc(inner, bytes, address_out, err);
}

static void mem_free(struct device *d, void *address, size_t bytes) {
    struct device *inner = async_of(d)->inner;
    inner->ops->mem_free(inner, address, bytes);
}

static void upload(struct device *d, void *address, const void *host, size_t bytes) {
    struct device *inner = async_of(d)->inner;
    inner->ops->upload(inner, address, host, bytes);
}

static void download(struct device *d, void *host, const void *address, size_t bytes) {
    struct device *inner = async_of(d)->inner;
    inner->ops->download(inner, host, address, bytes);
}

static uint64_t weight_bytes(const struct device *d, const struct weight_desc *desc) {
    struct device *inner = async_of_const(d)->inner;
    return inner->ops->weight_bytes(inner, desc);
}

static enum radish_status weight_create(struct device *d, const struct weight_desc *desc,
                                        struct weight **weight_out, struct radish_error *err) {
    struct device *inner = async_of(d)->inner;
    return inner->ops->weight_create(inner, desc, weight_out, err);
}

static void weight_destroy(struct device *d, struct weight *w) {
    struct device *inner = async_of(d)->inner;
    inner->ops->weight_destroy(inner, w);
}

static uint64_t scratch_bytes(const struct device *d, uint32_t rows_max, uint32_t width_max,
                              uint32_t kv_len_max) {
    struct device *inner = async_of_const(d)->inner;
    return inner->ops->scratch_bytes(inner, rows_max, width_max, kv_len_max);
}

static enum radish_status scratch_reserve(struct device *d, uint32_t rows_max, uint32_t width_max,
                                          uint32_t kv_len_max, struct radish_error *err) {
    struct device *inner = async_of(d)->inner;
    return inner->ops->scratch_reserve(inner, rows_max, width_max, kv_len_max, err);
}

static void close_device(struct device *d) {
    struct async_device *a = async_of(d);
    assert_true(a->n_waited == a->n_submitted);
    pthread_mutex_lock(&a->lock);
    a->is_closing = true;
    pthread_cond_broadcast(&a->changed);
    pthread_mutex_unlock(&a->lock);
    pthread_join(a->thread, NULL);
    for (uint32_t i = 0; i < DEVICE_STEPS_MAX; i++) arena_deinit(&a->steps[i].arena);
    pthread_cond_destroy(&a->changed);
    pthread_mutex_destroy(&a->lock);
    device_close(a->inner);
    device_base_deinit(&a->base);
    free(a);
}

#define VTABLE                                                                                     \
    .name = "cpu-async", .is_recorded = true, .supports = supports, .mem_alloc = mem_alloc,        \
    .mem_free = mem_free, .upload = upload, .download = download, .weight_bytes = weight_bytes,    \
    .weight_create = weight_create, .weight_destroy = weight_destroy,                              \
    .scratch_bytes = scratch_bytes, .scratch_reserve = scratch_reserve, .step_begin = step_begin,  \
    .step_submit = step_submit, .step_wait = step_wait, .embed = embed, .rmsnorm = rmsnorm,        \
    .layernorm = layernorm, .matmul = matmul, .matmul_group = matmul_group, .silu_mul = silu_mul,  \
    .activate = activate, .soft_cap = soft_cap, .keep_rows = keep_rows,                            \
    .rope_kv_store = rope_kv_store, .attention = attention, .close = close_device

static const struct device_vtable sampling_vtable = {VTABLE, .sample = sample};
static const struct device_vtable plain_vtable = {VTABLE};

static enum radish_status open_async(const struct device_options *options,
                                     struct device **device_out, struct radish_error *err) {
    struct async_device *a = calloc(1, sizeof *a);
    assert_non_null(a);
    a->plan = the_plan;
    a->base.device.ops = the_plan.samples ? &sampling_vtable : &plain_vtable;
    assert_int_equal(device_base_init(&a->base, options, err), RADISH_OK);
    assert_int_equal(device_open("cpu", options, &a->inner, err), RADISH_OK);
    pthread_mutex_init(&a->lock, NULL);
    pthread_cond_init(&a->changed, NULL);
    assert_int_equal(pthread_create(&a->thread, NULL, run_steps, a), 0);
    *device_out = &a->base.device;
    return RADISH_OK;
}

void async_device_set(const struct async_device_plan *plan) {
    the_plan = *plan;
    counts = (struct async_device_counts){0};
    if (!is_known) device_add("cpu-async", open_async);
    is_known = true;
}

struct async_device_counts async_device_counts(void) {
    return (struct async_device_counts){.n_steps = count(&counts.n_steps, 0),
                                        .n_ahead = count(&counts.n_ahead, 0),
                                        .n_drawn = count(&counts.n_drawn, 0),
                                        .n_given_up = count(&counts.n_given_up, 0)};
}
