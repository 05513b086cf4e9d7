/* test_weights.c - loading on a device that only keeps account: what goes where, what is refused,
 * and that nothing is left after a failure. */
#include "test.h"

#include "alloc_fail.h"
#include "model/weights.h"
#include "model_fake_device.h"
#include "model_gguf.h"

#include <fcntl.h>
#include <unistd.h>

enum { HIDDEN = 32, FFN = 48, VOCAB = 20, LAYERS = 2, HEAD_DIM = 16, HEADS = 2, KV_HEADS = 1 };

/* How one tensor of the model differs from what it should be. */
struct change {
    const char *name; /* NULL: nothing differs */
    bool is_missing;
    uint64_t rows, n; /* the shape instead; n 0: as it should be */
    uint32_t type;    /* GGUF number of the element type, all zeros; 0: F32 */
    size_t n_bytes;
};

static const struct {
    const char *name; /* '#': the layer */
    uint64_t rows, n;
} parts[] = {
    {"token_embd.weight", VOCAB, HIDDEN},
    {"output_norm.weight", 0, HIDDEN},
    {"output.weight", VOCAB, HIDDEN},
    {"blk.#.attn_norm.weight", 0, HIDDEN},
    {"blk.#.attn_q.weight", HEADS *HEAD_DIM, HIDDEN},
    {"blk.#.attn_k.weight", KV_HEADS *HEAD_DIM, HIDDEN},
    {"blk.#.attn_v.weight", KV_HEADS *HEAD_DIM, HIDDEN},
    {"blk.#.attn_output.weight", HIDDEN, HEADS *HEAD_DIM},
    {"blk.#.ffn_norm.weight", 0, HIDDEN},
    {"blk.#.ffn_gate.weight", FFN, HIDDEN},
    {"blk.#.ffn_up.weight", FFN, HIDDEN},
    {"blk.#.ffn_down.weight", HIDDEN, FFN},
};

static void add_part(struct gguf_build *b, const char *name, uint64_t rows, uint64_t n,
                     const struct change *change) {
    float values[FFN * FFN];
    uint32_t seed = 0;
    for (const char *c = name; *c; c++) seed = seed * 31 + (uint8_t)*c;
    for (size_t i = 0; i < FFN * FFN; i++) values[i] = (float)(seed % 1000 + i);
    if (change->name && !strcmp(change->name, name)) {
        if (change->is_missing) return;
        if (change->n) {
            rows = change->rows;
            n = change->n;
        }
        if (change->type) {
            gguf_build_typed_tensor(b, name, change->type, rows, n, change->n_bytes);
            return;
        }
    }
    gguf_build_tensor(b, name, rows, n, values);
}

struct model {
    uint8_t *bytes;
    struct model_file *file;
    struct model_config config;
    struct fake_device fake;
};

static void open_model(struct model *model, const struct change *change, const char *extra) {
    struct gguf_build b;
    struct radish_error err = {0};
    size_t n_bytes;
    gguf_build_init(&b);
    gguf_build_str(&b, "general.architecture", "llama");
    gguf_build_u32(&b, "llama.block_count", LAYERS);
    gguf_build_u32(&b, "llama.embedding_length", HIDDEN);
    gguf_build_u32(&b, "llama.attention.head_count", HEADS);
    gguf_build_u32(&b, "llama.attention.head_count_kv", KV_HEADS);
    gguf_build_u32(&b, "llama.feed_forward_length", FFN);
    gguf_build_u32(&b, "llama.context_length", 64);
    gguf_build_u32(&b, "llama.vocab_size", VOCAB);
    for (size_t i = 0; i < sizeof parts / sizeof *parts; i++) {
        const char *mark = strchr(parts[i].name, '#');
        for (int layer = 0; layer < (mark ? LAYERS : 1); layer++) {
            char name[64];
            snprintf(name, sizeof name, "%s", parts[i].name);
            if (mark) name[mark - parts[i].name] = (char)('0' + layer);
            add_part(&b, name, parts[i].rows, parts[i].n, change);
        }
    }
    if (extra) gguf_build_tensor(&b, extra, 0, HIDDEN, NULL);
    model->bytes = gguf_build_take(&b, &n_bytes);
    gguf_build_deinit(&b);
    if (model_file_open_gguf_memory(model->bytes, n_bytes, &model->file, &err) != RADISH_OK ||
        config_read(model->file, &model->config, &err) != RADISH_OK)
        fail_msg("%s", err.msg);
    fake_device_init(&model->fake);
}

static void close_model(struct model *model) {
    assert_int_equal(model->fake.n_live, 0);
    assert_int_equal(model->fake.bytes_live, 0);
    model_file_close(model->file);
    free(model->bytes);
}

static const struct change no_change;

static struct weights *must_load_as(struct model *model, const struct weights_options *options) {
    struct weights *weights;
    struct radish_error err = {0};
    if (weights_load(model->file, &model->config, &model->fake.device, options, &weights, &err) !=
        RADISH_OK)
        fail_msg("%s", err.msg);
    return weights;
}

static struct weights *must_load(struct model *model) {
    return must_load_as(model, NULL);
}

static const struct weight_desc *find_desc(const struct model *model, const char *name) {
    for (uint32_t i = 0; i < model->fake.n_weights; i++)
        if (!strcmp(model->fake.weights[i].name, name)) return &model->fake.weights[i];
    fail_msg("no weight %s was made", name);
    return NULL;
}

static void test_every_tensor_lands_in_its_role(void **state) {
    (void)state;
    struct model model;
    open_model(&model, &no_change, NULL);
    struct weights *weights = must_load(&model);

    for (uint32_t layer = 0; layer < LAYERS; layer++) {
        const struct layer_weights *w = &weights->layers[layer];
        assert_true(w->q && w->k && w->v && w->o && w->gate && w->up && w->down);
        assert_true(w->attn_norm && w->ffn_norm);
        assert_true(!w->q_bias && !w->o_bias && !w->gate_bias && !w->q_norm);
    }
    const struct model_tensor *norm = model_file_find(model.file, "blk.1.ffn_norm.weight");
    assert_memory_equal(weights->layers[1].ffn_norm, norm->data, HIDDEN * sizeof(float));
    const struct weight_desc *down = find_desc(&model, "blk.1.ffn_down.weight");
    assert_int_equal(down->n_out, HIDDEN);
    assert_int_equal(down->n_in, FFN);
    assert_ptr_equal(down->data, model_file_find(model.file, "blk.1.ffn_down.weight")->data);
    assert_true(down->is_multiplied && !down->is_gathered);
    weights_destroy(weights);
    close_model(&model);
}

static void test_untied_embeddings_are_gathered_and_the_output_multiplied(void **state) {
    (void)state;
    struct model model;
    open_model(&model, &no_change, NULL);
    struct weights *weights = must_load(&model);

    assert_ptr_not_equal(weights->embedding, weights->output);
    const struct weight_desc *embedding = find_desc(&model, "token_embd.weight");
    assert_true(embedding->is_gathered && !embedding->is_multiplied);
    const struct weight_desc *output = find_desc(&model, "output.weight");
    assert_true(output->is_multiplied && !output->is_gathered);
    weights_destroy(weights);
    close_model(&model);
}

static void test_tied_embeddings_are_one_weight_with_both_uses(void **state) {
    (void)state;
    struct model model;
    struct change change = {.name = "output.weight", .is_missing = true};
    open_model(&model, &change, NULL);
    struct weights *weights = must_load(&model);

    assert_true(model.config.is_tied);
    assert_ptr_equal(weights->embedding, weights->output);
    const struct weight_desc *embedding = find_desc(&model, "token_embd.weight");
    assert_true(embedding->is_gathered && embedding->is_multiplied);
    weights_destroy(weights);
    close_model(&model);
}

static void test_the_plan_is_what_loading_takes(void **state) {
    (void)state;
    struct model model;
    struct radish_error err;
    struct weights_sizes planned;
    open_model(&model, &no_change, NULL);
    assert_int_equal(
        weights_plan(model.file, &model.config, &model.fake.device, NULL, &planned, &err),
        RADISH_OK);
    assert_int_equal(model.fake.n_calls, 0);
    struct weights *weights = must_load(&model);

    assert_int_equal(model.fake.bytes_live, planned.bytes);
    assert_int_equal(weights->bytes, planned.bytes);
    weights_destroy(weights);
    close_model(&model);
}

static void test_what_is_wrong_with_a_tensor_is_said_with_its_layer(void **state) {
    (void)state;
    static const struct {
        struct change change;
        enum radish_status status;
        const char *part;
    } cases[] = {
        {{.name = "blk.1.attn_k.weight", .is_missing = true},
         RADISH_E_FORMAT,
         "layer 1: tensor blk.1.attn_k.weight is missing"},
        {{.name = "token_embd.weight", .is_missing = true},
         RADISH_E_FORMAT,
         "model: tensor token_embd.weight is missing"},
        {{.name = "blk.1.ffn_up.weight", .rows = 47, .n = HIDDEN},
         RADISH_E_FORMAT,
         "layer 1: tensor blk.1.ffn_up.weight has shape [47, 32]; the configuration asks for "
         "[48, 32]"},
        {{.name = "blk.0.attn_norm.weight", .rows = 1, .n = HIDDEN},
         RADISH_E_FORMAT,
         "layer 0: tensor blk.0.attn_norm.weight has shape [1, 32]; the configuration asks for "
         "[32]"},
        {{.name = "token_embd.weight", .rows = VOCAB + 1, .n = HIDDEN},
         RADISH_E_FORMAT,
         "has shape [21, 32]; the configuration asks for [20, 32]"},
        {{.name = "blk.0.attn_q.weight", .type = 26, .n_bytes = HIDDEN * HIDDEN * 4},
         RADISH_E_UNSUPPORTED,
         "layer 0: tensor blk.0.attn_q.weight is of type I32, which is not supported; supported: "
         "F32, F16"},
        {{.name = "output_norm.weight", .type = 27, .n_bytes = HIDDEN * 8},
         RADISH_E_UNSUPPORTED,
         "tensor output_norm.weight is of type I64"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        struct model model;
        struct radish_error err = {0};
        struct weights *weights;
        struct weights_sizes planned;
        open_model(&model, &cases[i].change, NULL);
        enum radish_status status =
            weights_plan(model.file, &model.config, &model.fake.device, NULL, &planned, &err);
        if (status != cases[i].status || !strstr(err.msg, cases[i].part))
            fail_msg("%s: %s\n  expected ...%s...", radish_status_name(status), err.msg,
                     cases[i].part);
        assert_int_equal(planned.bytes, 0);
        assert_int_equal(
            weights_load(model.file, &model.config, &model.fake.device, NULL, &weights, &err),
            cases[i].status);
        assert_null(weights);
        assert_int_equal(model.fake.n_calls, 0);
        close_model(&model);
    }
}

static void test_a_missing_kernel_is_named_before_anything_is_loaded(void **state) {
    (void)state;
    struct model model;
    struct radish_error err = {0};
    struct weights_sizes planned;
    open_model(&model, &no_change, NULL);
    model.fake.refused_op = KERNEL_OP_MATMUL;
    model.fake.refused_n_out = FFN;
    assert_int_equal(
        weights_plan(model.file, &model.config, &model.fake.device, NULL, &planned, &err),
        RADISH_E_UNSUPPORTED);
    assert_non_null(strstr(err.msg, "layer 0: no matmul kernel for tensor blk.0.ffn_gate.weight "
                                    "(F32 [48, 32]): the fake was told so"));

    model.fake.refused_op = KERNEL_OP_EMBED;
    model.fake.refused_n_out = 0;
    assert_int_equal(
        weights_plan(model.file, &model.config, &model.fake.device, NULL, &planned, &err),
        RADISH_E_UNSUPPORTED);
    assert_non_null(strstr(err.msg, "no embed kernel for tensor token_embd.weight"));
    close_model(&model);
}

/* What load prints at level warn. */
static void capture_load(struct model *model, const struct weights_options *options, char *out,
                         size_t out_bytes) {
    char path[] = "/tmp/radish-test-XXXXXX";
    int file = mkstemp(path), saved = dup(STDERR_FILENO);
    assert_true(file >= 0 && saved >= 0);
    fflush(stderr);
    dup2(file, STDERR_FILENO);
    radish_log_set_level(RADISH_LOG_WARN);
    weights_destroy(must_load_as(model, options));
    radish_log_set_level(RADISH_LOG_OFF);
    dup2(saved, STDERR_FILENO);
    ssize_t n = pread(file, out, out_bytes - 1, 0);
    out[n > 0 ? n : 0] = '\0';
    close(saved);
    close(file);
    unlink(path);
}

static void test_unused_tensors_are_named_once_and_known_ones_are_not(void **state) {
    (void)state;
    struct model model;
    char log[1024];
    open_model(&model, &no_change, "blk.0.attn_q_norm.weight");
    capture_load(&model, NULL, log, sizeof log);
    assert_non_null(strstr(log, "1 tensor of the file is not used by llama: "
                                "blk.0.attn_q_norm.weight"));
    close_model(&model);

    static const char *const known[] = {"blk.0.attn.rotary_emb.inv_freq",
                                        "gpt_neox.layers.0.attention.masked_bias"};
    for (size_t i = 0; i < 2; i++) {
        open_model(&model, &no_change, known[i]);
        capture_load(&model, NULL, log, sizeof log);
        assert_string_equal(log, "");
        close_model(&model);
    }
}

static const struct weights_options to_q4_0 = {.is_quantised = true,
                                               .quant_dtype = RADISH_DTYPE_Q4_0};

static void test_quantising_gives_each_matrix_the_type_of_the_policy(void **state) {
    (void)state;
    static const struct {
        const char *name;
        enum dtype due;
    } cases[] = {
        {"token_embd.weight", RADISH_DTYPE_Q8_0},     {"output.weight", RADISH_DTYPE_Q8_0},
        {"blk.0.attn_q.weight", RADISH_DTYPE_Q4_0},   {"blk.1.attn_v.weight", RADISH_DTYPE_Q4_0},
        {"blk.1.ffn_gate.weight", RADISH_DTYPE_Q4_0}, {"blk.0.ffn_down.weight", RADISH_DTYPE_F32}};
    struct model model;
    struct weights_sizes sizes;
    struct radish_error err = {0};
    open_model(&model, &no_change, NULL);
    struct weights *weights = must_load_as(&model, &to_q4_0);
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        const struct weight_desc *desc = find_desc(&model, cases[i].name);
        assert_string_equal(dtype_name(desc->dtype), dtype_name(cases[i].due));
        assert_int_equal(desc->is_quantised_here, cases[i].due != RADISH_DTYPE_F32);
        assert_int_equal(desc->data_dtype, RADISH_DTYPE_F32);
    }
    assert_int_equal(
        weights_plan(model.file, &model.config, &model.fake.device, &to_q4_0, &sizes, &err),
        RADISH_OK);
    assert_int_equal(sizes.bytes, model.fake.bytes_live);
    /* The fake takes two bytes for an element of a matrix. */
    assert_int_equal(sizes.dtype_bytes[RADISH_DTYPE_Q8_0], 2 * 2 * VOCAB * HIDDEN);
    assert_int_equal(sizes.dtype_bytes[RADISH_DTYPE_Q4_0],
                     2 * LAYERS * HIDDEN * (2 * HIDDEN + 2 * HEAD_DIM + 2 * FFN));
    uint64_t sum = 0;
    for (int i = 0; i < RADISH_DTYPE_COUNT; i++) sum += sizes.dtype_bytes[i];
    assert_int_equal(sum, sizes.bytes);
    weights_destroy(weights);
    close_model(&model);
}

static void test_a_matrix_that_cannot_be_quantised_stays_and_is_named(void **state) {
    (void)state;
    struct model model;
    char log[1024];
    open_model(&model, &no_change, NULL);
    capture_load(&model, &to_q4_0, log, sizeof log);
    assert_non_null(strstr(log, "2 matrices have rows that are no whole number of Q4_0 blocks: "
                                "blk.0.ffn_down.weight (48 inputs): F32, blk.1.ffn_down"));
    close_model(&model);
}

static void test_a_file_that_is_quantised_already_is_refused(void **state) {
    (void)state;
    const struct change change = {
        .name = "blk.1.attn_k.weight", .rows = 16, .n = 32, .type = 8, .n_bytes = 16 * 34};
    struct model model;
    struct weights *weights;
    struct radish_error err = {0};
    open_model(&model, &change, NULL);
    weights_destroy(must_load(&model));
    assert_int_equal(
        weights_load(model.file, &model.config, &model.fake.device, &to_q4_0, &weights, &err),
        RADISH_E_INVALID);
    assert_string_equal(err.field, "quantization");
    assert_non_null(strstr(err.msg, "layer 1: tensor blk.1.attn_k.weight is quantised already "
                                    "(Q8_0)"));
    close_model(&model);
}

static void note_progress(void *user, uint64_t bytes_done, uint64_t bytes_total) {
    uint64_t *seen = user;
    assert_true(bytes_done > seen[0] && bytes_done <= bytes_total);
    seen[0] = bytes_done;
    seen[1] = bytes_total;
}

static void test_progress_grows_to_the_bytes_of_the_weights(void **state) {
    (void)state;
    struct model model;
    struct weights *weights;
    struct radish_error err;
    uint64_t seen[2] = {0}, file_bytes = 0;
    open_model(&model, &no_change, NULL);
    for (size_t i = 0; i < model_file_n_tensors(model.file); i++)
        file_bytes += model_file_tensor(model.file, i)->n_bytes;
    const struct weights_options options = {.on_progress = note_progress, .progress_user = seen};
    assert_int_equal(
        weights_load(model.file, &model.config, &model.fake.device, &options, &weights, &err),
        RADISH_OK);

    assert_int_equal(seen[0], file_bytes);
    assert_int_equal(seen[1], file_bytes);
    weights_destroy(weights);
    close_model(&model);
}

static void test_a_device_that_runs_out_leaves_nothing_behind(void **state) {
    (void)state;
    struct model model;
    uint32_t k = 1;
    open_model(&model, &no_change, NULL);
    for (;; k++) {
        struct weights *weights;
        struct radish_error err = {0};
        model.fake.fail_at = k;
        model.fake.n_calls = 0;
        enum radish_status status =
            weights_load(model.file, &model.config, &model.fake.device, NULL, &weights, &err);
        weights_destroy(weights);
        assert_int_equal(model.fake.n_live, 0);
        if (status == RADISH_OK) break;
        assert_int_equal(status, RADISH_E_NOMEM);
        assert_non_null(strstr(err.msg, "tensor "));
    }
    assert_int_equal(k, 3 + 9 * LAYERS + 1);
    close_model(&model);
}

static bool attempt_load(void *user) {
    struct model *model = user;
    struct weights *weights;
    struct radish_error err;
    enum radish_status status =
        weights_load(model->file, &model->config, &model->fake.device, NULL, &weights, &err);
    weights_destroy(weights);
    if (status != RADISH_OK) assert_int_equal(status, RADISH_E_NOMEM);
    return status == RADISH_OK;
}

static void test_any_allocation_may_fail(void **state) {
    (void)state;
    struct model model;
    if (!alloc_fail_can()) skip();
    open_model(&model, &no_change, NULL);
    size_t n = alloc_fail_each(attempt_load, &model);
    assert_true(n > 3 + 9 * LAYERS);
    close_model(&model);
}

int main(void) {
    radish_log_set_level(RADISH_LOG_OFF);
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_every_tensor_lands_in_its_role),
        cmocka_unit_test(test_untied_embeddings_are_gathered_and_the_output_multiplied),
        cmocka_unit_test(test_tied_embeddings_are_one_weight_with_both_uses),
        cmocka_unit_test(test_the_plan_is_what_loading_takes),
        cmocka_unit_test(test_what_is_wrong_with_a_tensor_is_said_with_its_layer),
        cmocka_unit_test(test_a_missing_kernel_is_named_before_anything_is_loaded),
        cmocka_unit_test(test_unused_tensors_are_named_once_and_known_ones_are_not),
        cmocka_unit_test(test_quantising_gives_each_matrix_the_type_of_the_policy),
        cmocka_unit_test(test_a_matrix_that_cannot_be_quantised_stays_and_is_named),
        cmocka_unit_test(test_a_file_that_is_quantised_already_is_refused),
        cmocka_unit_test(test_progress_grows_to_the_bytes_of_the_weights),
        cmocka_unit_test(test_a_device_that_runs_out_leaves_nothing_behind),
        cmocka_unit_test(test_any_allocation_may_fail),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
