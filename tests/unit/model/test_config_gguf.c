/* test_config_gguf.c - the configuration in GGUF metadata: files built key by key. */
#include "test.h"

#include "model/arch.h"
#include "model/config_int.h"
#include "model_gguf.h"

#include <math.h>

/* A small model. Keys are unique in a file, so a test that wants another value leaves the key out
 * and adds its own. */
static void build_base(struct gguf_build *b, const char *arch, const char *without) {
    static const struct {
        const char *suffix;
        uint32_t value;
    } counts[] = {{"block_count", 3},           {"embedding_length", 96},
                  {"attention.head_count", 6},  {"attention.head_count_kv", 2},
                  {"feed_forward_length", 160}, {"context_length", 512},
                  {"vocab_size", 512}};
    gguf_build_init(b);
    gguf_build_str(b, "general.architecture", arch);
    for (size_t i = 0; i < sizeof counts / sizeof *counts; i++) {
        char key[64];
        snprintf(key, sizeof key, "%s.%s", arch, counts[i].suffix);
        if (!without || strcmp(counts[i].suffix, without) != 0)
            gguf_build_u32(b, key, counts[i].value);
    }
}

static enum radish_status read_build(struct gguf_build *b, struct model_config *config,
                                     struct radish_error *err) {
    size_t n;
    struct model_file *file = NULL;
    memset(err, 0, sizeof *err);
    uint8_t *bytes = gguf_build_take(b, &n);
    gguf_build_deinit(b);
    if (model_file_open_gguf_memory(bytes, n, &file, err) != RADISH_OK) fail_msg("%s", err->msg);
    enum radish_status status = config_read(file, config, err);
    model_file_close(file);
    free(bytes);
    assert_int_equal(status, err->status);
    return status;
}

static struct model_config must_read(struct gguf_build *b) {
    struct model_config config;
    struct radish_error err;
    if (read_build(b, &config, &err) != RADISH_OK) fail_msg("%s", err.msg);
    return config;
}

static void must_refuse(struct gguf_build *b, enum radish_status status, const char *part) {
    struct model_config config;
    struct radish_error err;
    enum radish_status got = read_build(b, &config, &err);
    if (got != status || !strstr(err.msg, part))
        fail_msg("%s: %s\n  expected %s: ...%s...", radish_status_name(got), err.msg,
                 radish_status_name(status), part);
}

static void test_a_plain_llama_is_read_with_its_defaults(void **state) {
    (void)state;
    struct gguf_build b;
    build_base(&b, "llama", NULL);
    gguf_build_f32(&b, "llama.attention.layer_norm_rms_epsilon", 0.25f);
    gguf_build_f32(&b, "llama.rope.freq_base", 5e5f);
    struct model_config config = must_read(&b);

    assert_string_equal(config.arch->name, "llama");
    assert_int_equal(config.n_layers, 3);
    assert_int_equal(config.n_heads[2], 6);
    assert_int_equal(config.n_kv_heads[2], 2);
    assert_int_equal(config.ffn_dim[2], 160);
    assert_int_equal(config.head_dim, 16);
    assert_int_equal(config.v_head_dim, 16);
    assert_int_equal(config.rotary_dim, 16);
    assert_int_equal(config.n_vocab, 512);
    assert_int_equal(config.context_trained, 512);
    assert_true(config.norm_eps == 0.25 && config.rope.theta == 5e5);
    assert_int_equal(config.rope.kind, ROPE_DEFAULT);
    assert_int_equal(config.rope.pairing, ROPE_INTERLEAVED);
    assert_true(config.is_tied); /* there is no output.weight */
    assert_false(config.has_attention_bias || config.has_mlp_bias);
}

static void test_qwen_rotates_halves_and_has_its_biases_and_norms(void **state) {
    (void)state;
    struct gguf_build b;
    build_base(&b, "qwen2", NULL);
    struct model_config config = must_read(&b);
    assert_int_equal(config.rope.pairing, ROPE_NEOX);
    assert_true(config.has_attention_bias);
    assert_false(config.has_attention_output_bias || config.has_qk_norm);

    build_base(&b, "qwen3", NULL);
    gguf_build_u32(&b, "qwen3.attention.key_length", 32);
    gguf_build_u32(&b, "qwen3.attention.value_length", 32);
    config = must_read(&b);
    assert_int_equal(config.head_dim, 32);
    assert_true(config.has_qk_norm);
    assert_false(config.has_attention_bias);
}

static void test_tensors_tell_of_biases_and_of_untied_embeddings(void **state) {
    (void)state;
    struct gguf_build b;
    build_base(&b, "llama", NULL);
    gguf_build_tensor(&b, "blk.0.attn_q.bias", 0, 96, NULL);
    gguf_build_tensor(&b, "blk.0.attn_output.bias", 0, 96, NULL);
    gguf_build_tensor(&b, "blk.0.ffn_up.bias", 0, 160, NULL);
    gguf_build_tensor(&b, "output.weight", 512, 96, NULL);
    struct model_config config = must_read(&b);

    assert_true(config.has_attention_bias && config.has_attention_output_bias);
    assert_true(config.has_mlp_bias);
    assert_false(config.is_tied);
}

static void test_layers_may_differ_in_heads_and_width(void **state) {
    (void)state;
    static const uint32_t heads[] = {6, 4, 2}, kv_heads[] = {2, 1, 2}, ffn[] = {160, 32, 64};
    struct gguf_build b;
    gguf_build_init(&b);
    gguf_build_str(&b, "general.architecture", "llama");
    gguf_build_u32(&b, "llama.block_count", 3);
    gguf_build_u32(&b, "llama.embedding_length", 96);
    gguf_build_u32(&b, "llama.context_length", 512);
    gguf_build_u32(&b, "llama.attention.key_length", 16);
    gguf_build_u32s(&b, "llama.attention.head_count", heads, 3);
    gguf_build_u32s(&b, "llama.attention.head_count_kv", kv_heads, 3);
    gguf_build_u32s(&b, "llama.feed_forward_length", ffn, 3);
    gguf_build_strs(&b, "tokenizer.ggml.tokens", 300);
    struct model_config config = must_read(&b);

    assert_int_equal(config.n_heads[1], 4);
    assert_int_equal(config.n_kv_heads[1], 1);
    assert_int_equal(config.ffn_dim[2], 64);
    assert_int_equal(config.n_vocab, 300);
}

static void test_rope_freqs_are_divisors_for_each_pair(void **state) {
    (void)state;
    static const float factors[] = {1, 1, 2, 4, 8, 8, 8, 8.5f};
    struct gguf_build b;
    build_base(&b, "llama", NULL);
    gguf_build_tensor(&b, "rope_freqs.weight", 0, 8, factors);
    struct model_config config = must_read(&b);

    assert_int_equal(config.rope.n_freq_factors, 8);
    assert_true(config.rope.freq_factors[3] == 4 && config.rope.freq_factors[7] == 8.5);

    build_base(&b, "llama", NULL);
    gguf_build_tensor(&b, "rope_freqs.weight", 0, 7, factors);
    must_refuse(&b, RADISH_E_FORMAT, "rope_freqs.weight must be a vector of 8 floats");

    build_base(&b, "llama", NULL);
    gguf_build_tensor(&b, "rope_freqs.weight", 0, 8, (const float[8]){1, 0, 1, 1, 1, 1, 1, 1});
    must_refuse(&b, RADISH_E_FORMAT, "rope_freqs.weight holds 0 at 1");
}

static void test_scaling_keys_are_read_as_their_writer_means_them(void **state) {
    (void)state;
    struct gguf_build b;
    build_base(&b, "llama", NULL);
    gguf_build_f32(&b, "llama.rope.scaling.factor", 2); /* no type: linear */
    struct model_config config = must_read(&b);
    assert_int_equal(config.rope.kind, ROPE_LINEAR);
    assert_true(config.rope.factor == 2);
    assert_int_equal(config.context_trained, 1024);

    build_base(&b, "llama", NULL);
    gguf_build_str(&b, "llama.rope.scaling.type", "none");
    gguf_build_f32(&b, "llama.rope.scaling.factor", 2);
    assert_int_equal(must_read(&b).rope.kind, ROPE_DEFAULT);

    build_base(&b, "qwen2", NULL);
    gguf_build_str(&b, "qwen2.rope.scaling.type", "yarn");
    gguf_build_f32(&b, "qwen2.rope.scaling.factor", 4);
    gguf_build_u32(&b, "qwen2.rope.scaling.original_context_length", 256);
    gguf_build_f32(&b, "qwen2.rope.scaling.attn_factor", 2);
    gguf_build_f32(&b, "qwen2.rope.scaling.yarn_beta_fast", 16);
    config = must_read(&b);
    assert_int_equal(config.rope.kind, ROPE_YARN);
    assert_int_equal(config.rope.context_original, 256);
    assert_int_equal(config.context_trained, 1024);
    assert_true(config.rope.beta_fast == 16 && config.rope.beta_slow == 1);
    assert_true(fabs(config.rope.attention_factor - 2 * (1 + 0.1 * log(4))) < 1e-12);
}

static void test_end_tokens_are_eos_eot_and_eom(void **state) {
    (void)state;
    struct gguf_build b;
    build_base(&b, "llama", NULL);
    gguf_build_u32(&b, "tokenizer.ggml.eos_token_id", 2);
    gguf_build_u32(&b, "tokenizer.ggml.eot_token_id", 9);
    gguf_build_u32(&b, "tokenizer.ggml.eom_token_id", 2);
    gguf_build_u32(&b, "tokenizer.ggml.bos_token_id", 1);
    struct model_config config = must_read(&b);

    assert_int_equal(config.n_eos_ids, 2);
    assert_int_equal(config.eos_ids[0], 2);
    assert_int_equal(config.eos_ids[1], 9);
    assert_int_equal(config.bos_id, 1);
}

static void test_sampling_defaults_are_read(void **state) {
    (void)state;
    struct gguf_build b;
    build_base(&b, "llama", NULL);
    gguf_build_f32(&b, "general.sampling.temp", 0.5f);
    gguf_build_u32(&b, "general.sampling.top_k", 20);
    struct model_config config = must_read(&b);

    assert_true(config.sampling.temperature == 0.5f && config.sampling.top_p == 1);
    assert_int_equal(config.sampling.top_k, 20);
}

static void test_what_is_missing_or_absurd_is_named(void **state) {
    (void)state;
    static const char *const needed[] = {"block_count",    "embedding_length",
                                         "vocab_size",     "attention.head_count",
                                         "context_length", "feed_forward_length"};
    struct gguf_build b;
    for (size_t i = 0; i < sizeof needed / sizeof *needed; i++) {
        char part[64];
        snprintf(part, sizeof part, "llama.%s is missing", needed[i]);
        build_base(&b, "llama", needed[i]);
        must_refuse(&b, RADISH_E_FORMAT, part);
    }

    static const struct {
        const char *suffix;
        uint32_t value;
        const char *part;
    } absurd[] = {
        {"block_count", 0, "llama.block_count is 0, not from 1 to 512"},
        {"block_count", 4000000000u, "llama.block_count is 4000000000"},
        {"embedding_length", 4000000000u, "embedding_length"},
        {"attention.head_count", 0, "head_count is 0"},
        {"attention.head_count", 97, "llama"}, /* heads of 0 elements */
        {"attention.head_count_kv", 4, "cannot share 4 KV heads"},
        {"vocab_size", 0, "vocab_size is 0"},
        {"context_length", 0, "context_length is 0"},
    };
    for (size_t i = 0; i < sizeof absurd / sizeof *absurd; i++) {
        char key[64];
        build_base(&b, "llama", absurd[i].suffix);
        snprintf(key, sizeof key, "llama.%s", absurd[i].suffix);
        gguf_build_u32(&b, key, absurd[i].value);
        must_refuse(&b, RADISH_E_FORMAT, absurd[i].part);
    }
}

static void test_wrong_types_of_metadata_are_named(void **state) {
    (void)state;
    struct gguf_build b;
    build_base(&b, "llama", "block_count");
    gguf_build_str(&b, "llama.block_count", "three");
    must_refuse(&b, RADISH_E_FORMAT, "llama.block_count");

    build_base(&b, "llama", "attention.head_count");
    gguf_build_u32s(&b, "llama.attention.head_count", (const uint32_t[2]){6, 6}, 2);
    must_refuse(&b, RADISH_E_FORMAT, "an integer or an array of 3");

    build_base(&b, "llama", "attention.head_count");
    gguf_build_u32s(&b, "llama.attention.head_count", (const uint32_t[3]){6, 0, 6}, 3);
    must_refuse(&b, RADISH_E_UNSUPPORTED, "layer 1 has 0 attention heads");

    build_base(&b, "llama", "vocab_size");
    gguf_build_u32(&b, "tokenizer.ggml.tokens", 5);
    must_refuse(&b, RADISH_E_FORMAT, "tokenizer.ggml.tokens must be an array");
}

static void test_windows_follow_the_file_or_the_family(void **state) {
    (void)state;
    static const uint32_t answers[] = {0, 1, 1};
    static const struct {
        const char *arch;
        int window; /* -1: no key */
        uint32_t period;
        bool has_answers;
        uint32_t windows[3];
    } cases[] = {
        {"gemma2", 16, 0, false, {16, 0, 16}}, {"gemma2", 16, 3, false, {16, 16, 0}},
        {"gemma3", -1, 0, false, {0, 0, 0}},   {"gemma3", 16, 0, false, {16, 16, 16}},
        {"gemma3", 16, 0, true, {0, 16, 16}},  {"phi3", 16, 0, false, {16, 16, 16}},
        {"phi3", 0, 0, false, {0, 0, 0}},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        struct gguf_build b;
        char window[64], pattern[80];
        snprintf(window, sizeof window, "%s.attention.sliding_window", cases[i].arch);
        snprintf(pattern, sizeof pattern, "%s_pattern", window);
        build_base(&b, cases[i].arch, NULL);
        if (cases[i].window >= 0) gguf_build_u32(&b, window, (uint32_t)cases[i].window);
        if (cases[i].period) gguf_build_u32(&b, pattern, cases[i].period);
        if (cases[i].has_answers) gguf_build_u32s(&b, pattern, answers, 3);
        struct model_config config = must_read(&b);
        assert_memory_equal(config.window, cases[i].windows, sizeof cases[i].windows);
    }
    struct gguf_build b;
    build_base(&b, "gemma2", "context_length");
    gguf_build_u32(&b, "gemma2.context_length", 8192);
    struct model_config config = must_read(&b);
    assert_true(config.window[0] == 4096 && config.window[1] == 0);

    build_base(&b, "gemma2", NULL);
    gguf_build_u32s(&b, "gemma2.attention.sliding_window_pattern", answers, 2);
    must_refuse(&b, RADISH_E_FORMAT, "sliding_window_pattern must be a number or an array of 3");
}

/* A file says no word about longrope, but has its factors. */
static void test_longrope_of_phi3_is_known_by_its_tensors(void **state) {
    (void)state;
    float factors[8];
    struct gguf_build b;
    for (int i = 0; i < 8; i++) factors[i] = 1 + (float)i;
    build_base(&b, "phi3", NULL);
    gguf_build_u32(&b, "phi3.rope.scaling.original_context_length", 128);
    gguf_build_f32(&b, "phi3.rope.scaling.attn_factor", 1.25f);
    gguf_build_tensor(&b, "rope_factors_short.weight", 0, 8, factors);
    gguf_build_tensor(&b, "rope_factors_long.weight", 0, 8, factors);
    struct model_config config = must_read(&b);

    assert_int_equal(config.rope.kind, ROPE_LONGROPE);
    assert_true(config.rope.attention_factor == 1.25 && config.rope.factor == 4);
    assert_true(config.rope.freq_factors[7] == 8);
}

static void test_granite_scales_are_read(void **state) {
    (void)state;
    struct gguf_build b;
    build_base(&b, "granite", NULL);
    gguf_build_f32(&b, "granite.residual_scale", 0.5f);
    gguf_build_f32(&b, "granite.logit_scale", 4);
    struct model_config config = must_read(&b);
    assert_true(config.embedding_scale == 2 && config.logit_scale == 0.25);
}

static void test_what_is_valid_but_not_done_here_is_refused_by_name(void **state) {
    (void)state;
    static const struct {
        const char *suffix;
        float value;
        const char *part;
    } options[] = {
        {"attention.scale", 0.5f, "a scale of attention scores is not supported"},
        {"final_logit_softcapping", 30, "a soft cap on logits is not supported"},
        {"expert_count", 8, "mixture of experts is not supported"},
        {"attention.sliding_window", 16, "sliding windows are not supported"},
    };
    struct gguf_build b;
    for (size_t i = 0; i < sizeof options / sizeof *options; i++) {
        char key[64];
        build_base(&b, "llama", NULL);
        snprintf(key, sizeof key, "llama.%s", options[i].suffix);
        gguf_build_f32(&b, key, options[i].value);
        must_refuse(&b, RADISH_E_UNSUPPORTED, options[i].part);
    }

    build_base(&b, "mamba", NULL);
    must_refuse(&b, RADISH_E_UNSUPPORTED,
                "architecture mamba is not supported; supported: llama, qwen2, qwen3");

    build_base(&b, "llama", NULL);
    gguf_build_str(&b, "llama.rope.scaling.type", "dynamic");
    must_refuse(&b, RADISH_E_UNSUPPORTED, "RoPE scaling 'dynamic' is not supported");
}

int main(void) {
    radish_log_set_level(RADISH_LOG_OFF);
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_a_plain_llama_is_read_with_its_defaults),
        cmocka_unit_test(test_qwen_rotates_halves_and_has_its_biases_and_norms),
        cmocka_unit_test(test_tensors_tell_of_biases_and_of_untied_embeddings),
        cmocka_unit_test(test_layers_may_differ_in_heads_and_width),
        cmocka_unit_test(test_rope_freqs_are_divisors_for_each_pair),
        cmocka_unit_test(test_scaling_keys_are_read_as_their_writer_means_them),
        cmocka_unit_test(test_end_tokens_are_eos_eot_and_eom),
        cmocka_unit_test(test_sampling_defaults_are_read),
        cmocka_unit_test(test_what_is_missing_or_absurd_is_named),
        cmocka_unit_test(test_wrong_types_of_metadata_are_named),
        cmocka_unit_test(test_windows_follow_the_file_or_the_family),
        cmocka_unit_test(test_longrope_of_phi3_is_known_by_its_tensors),
        cmocka_unit_test(test_granite_scales_are_read),
        cmocka_unit_test(test_what_is_valid_but_not_done_here_is_refused_by_name),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
