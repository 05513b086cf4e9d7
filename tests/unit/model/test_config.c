/* test_config.c - config.json and generation_config.json: what is read, what is refused, and in
 * which words. */
#include "test.h"

#include "base/json.h"
#include "base/status.h"
#include "model/arch.h"
#include "model/config_int.h"

#include <math.h>

static const char llama[] =
    "\"architectures\": [\"LlamaForCausalLM\"], \"model_type\": \"llama\", \"hidden_size\": 96, "
    "\"num_hidden_layers\": 3, \"num_attention_heads\": 6, \"num_key_value_heads\": 2, "
    "\"intermediate_size\": 160, \"vocab_size\": 512, \"max_position_embeddings\": 512";
static const char qwen2[] =
    "\"architectures\": [\"Qwen2ForCausalLM\"], \"hidden_size\": 96, \"num_hidden_layers\": 3, "
    "\"num_attention_heads\": 6, \"num_key_value_heads\": 2, \"intermediate_size\": 160, "
    "\"vocab_size\": 512, \"max_position_embeddings\": 32768";

/* JSON keeps the last of two equal keys, so extra members replace those of the base. */
static enum radish_status read_texts(const char *base, const char *extra, const char *generation,
                                     struct model_config *config, struct radish_error *err) {
    char text[4096];
    yyjson_doc *doc = NULL, *generation_doc = NULL;
    memset(err, 0, sizeof *err);
    snprintf(text, sizeof text, "{%s%s%s}", base, *extra ? ", " : "", extra);
    assert_int_equal(json_parse(text, strlen(text), JSON_DEPTH_MAX, &doc, err), RADISH_OK);
    if (generation)
        assert_int_equal(
            json_parse(generation, strlen(generation), JSON_DEPTH_MAX, &generation_doc, err),
            RADISH_OK);
    config_init(config);
    enum radish_status status =
        config_read_hf(yyjson_doc_get_root(doc), yyjson_doc_get_root(generation_doc), config, err);
    yyjson_doc_free(doc);
    yyjson_doc_free(generation_doc);
    assert_int_equal(status, err->status);
    return status;
}

static struct model_config must_read(const char *base, const char *extra) {
    struct model_config config;
    struct radish_error err;
    if (read_texts(base, extra, NULL, &config, &err) != RADISH_OK) fail_msg("%s", err.msg);
    return config;
}

static void test_a_plain_llama_is_read_with_its_defaults(void **state) {
    (void)state;
    struct model_config config = must_read(llama, "");

    assert_string_equal(config.arch->name, "llama");
    assert_int_equal(config.n_layers, 3);
    assert_int_equal(config.hidden_dim, 96);
    assert_int_equal(config.head_dim, 16);
    assert_int_equal(config.rotary_dim, 16);
    assert_int_equal(config.n_heads[2], 6);
    assert_int_equal(config.n_kv_heads[2], 2);
    assert_int_equal(config.ffn_dim[2], 160);
    assert_int_equal(config.n_vocab, 512);
    assert_int_equal(config.context_trained, 512);
    assert_true(config.norm_eps == 1e-6);
    assert_true(config.attention_scale == 0.25);
    assert_int_equal(config.rope.kind, ROPE_DEFAULT);
    assert_int_equal(config.rope.pairing, ROPE_NEOX);
    assert_true(config.rope.theta == 10000);
    assert_false(config.is_tied);
    assert_false(config.has_attention_bias || config.has_mlp_bias || config.has_qk_norm);
    assert_int_equal(config.n_eos_ids, 0);
    assert_int_equal(config.bos_id, -1);
}

static void test_families_have_their_own_biases_norms_and_head_sizes(void **state) {
    (void)state;
    struct model_config config = must_read(llama, "\"attention_bias\": true, \"mlp_bias\": true");
    assert_true(config.has_attention_bias && config.has_attention_output_bias &&
                config.has_mlp_bias);

    config = must_read(qwen2, "\"attention_bias\": false");
    assert_true(config.has_attention_bias);
    assert_false(config.has_attention_output_bias || config.has_mlp_bias || config.has_qk_norm);

    config = must_read(qwen2, "\"architectures\": [\"Qwen3ForCausalLM\"]");
    assert_string_equal(config.arch->name, "qwen3");
    assert_int_equal(config.head_dim, 128);
    assert_true(config.has_qk_norm);
    assert_false(config.has_attention_bias);

    config = must_read(qwen2, "\"architectures\": [\"Qwen3ForCausalLM\"], \"head_dim\": 32");
    assert_int_equal(config.head_dim, 32);
}

static void test_absent_kv_heads_mean_what_the_family_means(void **state) {
    (void)state;
    struct model_config config = must_read(llama, "\"num_key_value_heads\": null");
    assert_int_equal(config.n_kv_heads[0], 6);

    config = must_read("\"model_type\": \"qwen2\", \"hidden_size\": 64, \"num_hidden_layers\": 1, "
                       "\"num_attention_heads\": 32, \"intermediate_size\": 8, \"vocab_size\": 9, "
                       "\"max_position_embeddings\": 8",
                       "");
    assert_int_equal(config.n_kv_heads[0], 32);
}

static void test_both_spellings_of_rope_give_the_same(void **state) {
    (void)state;
    static const char *const spellings[] = {
        "\"rope_theta\": 5e5, \"rope_scaling\": {\"rope_type\": \"llama3\", \"factor\": 8, "
        "\"low_freq_factor\": 1, \"high_freq_factor\": 4, "
        "\"original_max_position_embeddings\": 64}",
        "\"rope_theta\": 500000, \"rope_scaling\": {\"type\": \"llama3\", \"factor\": 8.0, "
        "\"low_freq_factor\": 1.0, \"high_freq_factor\": 4.0, "
        "\"original_max_position_embeddings\": 64}",
        "\"rope_parameters\": {\"rope_theta\": 500000.0, \"rope_type\": \"llama3\", "
        "\"factor\": 8, \"low_freq_factor\": 1, \"high_freq_factor\": 4, "
        "\"original_max_position_embeddings\": 64}",
    };
    for (size_t i = 0; i < 3; i++) {
        struct model_config config = must_read(llama, spellings[i]);
        assert_int_equal(config.rope.kind, ROPE_LLAMA3);
        assert_true(config.rope.theta == 500000);
        assert_true(config.rope.factor == 8);
        assert_true(config.rope.low_freq_factor == 1 && config.rope.high_freq_factor == 4);
        assert_int_equal(config.rope.context_original, 64);
        assert_int_equal(config.context_trained, 512);
    }
}

static void test_scaling_extends_the_context_where_the_field_is_the_length_before_it(void **state) {
    (void)state;
    static const struct {
        const char *extra;
        uint32_t context;
    } cases[] = {
        {"\"rope_scaling\": null", 32768},
        {"\"rope_scaling\": {\"type\": \"linear\", \"factor\": 2.0}", 65536},
        {"\"rope_scaling\": {\"type\": \"yarn\", \"factor\": 4.0}", 131072},
        {"\"rope_scaling\": {\"type\": \"yarn\", \"factor\": 4.0, "
         "\"original_max_position_embeddings\": 32768}",
         131072},
        {"\"rope_scaling\": {\"type\": \"yarn\", \"factor\": 4.0, "
         "\"original_max_position_embeddings\": 64}",
         32768},
        {"\"max_position_embeddings\": 131072, \"rope_scaling\": {\"type\": \"yarn\", "
         "\"factor\": 4.0, \"original_max_position_embeddings\": 32768}",
         131072},
        {"\"rope_scaling\": {\"rope_type\": \"llama3\", \"factor\": 8, \"low_freq_factor\": 1, "
         "\"high_freq_factor\": 4, \"original_max_position_embeddings\": 8192}",
         32768},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++)
        assert_int_equal(must_read(qwen2, cases[i].extra).context_trained, cases[i].context);
}

static void test_yarn_options_are_read(void **state) {
    (void)state;
    struct model_config config = must_read(
        qwen2, "\"rope_parameters\": {\"rope_type\": \"yarn\", \"factor\": 40, \"beta_fast\": 16, "
               "\"beta_slow\": 2, \"mscale\": 1, \"mscale_all_dim\": 0.7, \"truncate\": false, "
               "\"attention_factor\": 1.5, \"rope_theta\": 1e6}");

    assert_true(config.rope.beta_fast == 16 && config.rope.beta_slow == 2);
    assert_true(config.rope.mscale == 1 && config.rope.mscale_all_dim == 0.7);
    assert_true(config.rope.attention_factor == 1.5);
    assert_false(config.rope.truncate);
}

static void test_longrope_reads_one_factor_for_each_pair(void **state) {
    (void)state;
    struct model_config config = must_read(
        llama, "\"head_dim\": 4, \"original_max_position_embeddings\": 128, \"rope_scaling\": "
               "{\"type\": \"longrope\", \"short_factor\": [1, 1.5], \"long_factor\": [2, 3]}");

    assert_int_equal(config.rope.kind, ROPE_LONGROPE);
    assert_int_equal(config.rope.n_freq_factors, 2);
    assert_true(config.rope.freq_factors[1] == 1.5 && config.rope.freq_factors_long[1] == 3);
    assert_true(config.rope.factor == 4);
}

static void test_end_tokens_are_the_union_of_both_files(void **state) {
    (void)state;
    struct model_config config;
    struct radish_error err;
    static const char generation[] = "{\"eos_token_id\": [5, 2, 700, 5]}";
    assert_int_equal(
        read_texts(llama, "\"eos_token_id\": 2, \"bos_token_id\": 1", generation, &config, &err),
        RADISH_OK);

    assert_int_equal(config.n_eos_ids, 2); /* 700 is past the vocabulary */
    assert_int_equal(config.eos_ids[0], 2);
    assert_int_equal(config.eos_ids[1], 5);
    assert_int_equal(config.bos_id, 1);
}

static void test_sampling_defaults_come_from_generation_config(void **state) {
    (void)state;
    struct model_config config;
    struct radish_error err;
    static const char generation[] =
        "{\"do_sample\": false, \"temperature\": 0.5, \"top_k\": 20, \"top_p\": 0.75, "
        "\"min_p\": 0.125, \"repetition_penalty\": 1.25}";
    assert_int_equal(read_texts(llama, "", generation, &config, &err), RADISH_OK);
    assert_true(config.sampling.temperature == 0.5f && config.sampling.top_k == 20);
    assert_true(config.sampling.top_p == 0.75f && config.sampling.min_p == 0.125f);
    assert_true(config.sampling.repetition_penalty == 1.25f);

    assert_int_equal(read_texts(llama, "", "{\"top_k\": 0, \"top_p\": null}", &config, &err),
                     RADISH_OK);
    assert_true(config.sampling.temperature == 1 && config.sampling.top_p == 1);
    assert_int_equal(config.sampling.top_k, -1);
}

static void test_a_window_that_hides_nothing_is_fine(void **state) {
    (void)state;
    must_read(qwen2, "\"use_sliding_window\": false, \"sliding_window\": 16, "
                     "\"max_window_layers\": 1");
    must_read(qwen2, "\"use_sliding_window\": true, \"sliding_window\": 32768, "
                     "\"max_window_layers\": 1");
    must_read(qwen2, "\"use_sliding_window\": true, \"sliding_window\": 16, "
                     "\"max_window_layers\": 3");
}

struct refusal {
    const char *extra;
    enum radish_status status;
    const char *part; /* of the message */
};

static const struct refusal refusals[] = {
    /* What is valid but not done here is called by name, and what would do is listed. */
    {"\"architectures\": [\"MambaForCausalLM\"]", RADISH_E_UNSUPPORTED,
     "config.json: architecture MambaForCausalLM is not supported; supported: llama, qwen2, "
     "qwen3, mistral, phi3, granite, smollm3, stablelm, gpt_neox, phi, nemotron, cohere2, glm4, "
     "gemma2, gemma3, olmo2, exaone4"},
    {"\"architectures\": null, \"model_type\": \"mamba\"", RADISH_E_UNSUPPORTED,
     "architecture mamba is not supported; supported: llama, qwen2, qwen3"},
    {"\"hidden_act\": \"tanh\"", RADISH_E_UNSUPPORTED,
     "hidden_act 'tanh' is not supported; supported: silu, gelu"},
    {"\"qk_layernorm\": true", RADISH_E_UNSUPPORTED, "qk_layernorm is not supported for llama"},
    {"\"rope_scaling\": {\"type\": \"dynamic\", \"factor\": 2}", RADISH_E_UNSUPPORTED,
     "'dynamic' is not supported (its keys change"},
    {"\"rope_scaling\": {\"type\": \"mrope\"}", RADISH_E_UNSUPPORTED,
     "'mrope' is not supported; supported: default, linear, llama3, yarn, longrope"},
    {"\"architectures\": [\"Phi3ForCausalLM\"], \"rope_scaling\": {\"type\": \"ntk\"}",
     RADISH_E_UNSUPPORTED, "'ntk' is not supported; supported: default, linear, llama3, yarn"},
    {"\"architectures\": [\"Exaone4ForCausalLM\"], \"sliding_window_pattern\": \"LGL\"",
     RADISH_E_UNSUPPORTED, "sliding_window_pattern 'LGL' is not supported"},
    {"\"architectures\": [\"StableLmForCausalLM\"], \"qk_layernorm\": true", RADISH_E_UNSUPPORTED,
     "qk_layernorm is not supported for stablelm"},
    {"\"architectures\": [\"SmolLM3ForCausalLM\"], \"no_rope_layers\": [1]", RADISH_E_FORMAT,
     "no_rope_layers must be a list of 3 numbers"},
    {"\"rope_parameters\": {\"full_attention\": {}}", RADISH_E_UNSUPPORTED, "by layer type"},
    {"\"partial_rotary_factor\": 0.5", RADISH_E_UNSUPPORTED, "partial_rotary_factor 0.5"},
    {"\"num_local_experts\": 8", RADISH_E_UNSUPPORTED, "mixture of experts"},
    {"\"quantization_config\": {\"quant_method\": \"gptq\"}", RADISH_E_UNSUPPORTED,
     "quantised by 'gptq'"},
    /* What is missing or of the wrong kind is a broken file. */
    {"\"num_hidden_layers\": null", RADISH_E_FORMAT, "config.json: num_hidden_layers is missing"},
    {"\"hidden_size\": null", RADISH_E_FORMAT, "hidden_size is missing"},
    {"\"vocab_size\": \"512\"", RADISH_E_FORMAT, "vocab_size must be an integer, not string"},
    {"\"num_hidden_layers\": 0", RADISH_E_FORMAT, "num_hidden_layers must be an integer from 1"},
    {"\"num_hidden_layers\": 1e300", RADISH_E_FORMAT, "num_hidden_layers"},
    {"\"num_hidden_layers\": 513", RADISH_E_FORMAT, "from 1 to 512"},
    {"\"hidden_size\": 18446744073709551615", RADISH_E_FORMAT, "hidden_size"},
    {"\"hidden_size\": -96", RADISH_E_FORMAT, "hidden_size"},
    {"\"hidden_size\": 97", RADISH_E_FORMAT, "no multiple of num_attention_heads"},
    {"\"num_key_value_heads\": 4", RADISH_E_FORMAT, "cannot share 4 KV heads"},
    {"\"num_key_value_heads\": 12", RADISH_E_FORMAT, "cannot share 12 KV heads"},
    {"\"head_dim\": 15", RADISH_E_FORMAT, "even"},
    {"\"head_dim\": 4096", RADISH_E_FORMAT, "head_dim"},
    {"\"rms_norm_eps\": \"tiny\"", RADISH_E_FORMAT, "rms_norm_eps must be a number"},
    {"\"tie_word_embeddings\": 1", RADISH_E_FORMAT, "tie_word_embeddings must be true or false"},
    {"\"rope_theta\": 0", RADISH_E_FORMAT, "rope_theta"},
    {"\"rope_scaling\": \"yarn\"", RADISH_E_FORMAT, "rope_scaling must be an object, not string"},
    {"\"rope_scaling\": {\"type\": \"linear\"}", RADISH_E_FORMAT, "has no factor"},
    {"\"rope_scaling\": {\"type\": \"linear\", \"factor\": 0}", RADISH_E_FORMAT, "factor"},
    {"\"rope_scaling\": {\"type\": \"llama3\", \"factor\": 8, \"low_freq_factor\": 4, "
     "\"high_freq_factor\": 4}",
     RADISH_E_FORMAT, "high_freq_factor"},
    {"\"rope_scaling\": {\"type\": \"longrope\", \"factor\": 2, \"short_factor\": [1]}",
     RADISH_E_FORMAT, "short_factor must be a list of 8 numbers"},
    {"\"eos_token_id\": \"</s>\"", RADISH_E_FORMAT, "eos_token_id must be an integer or a list"},
    {"\"eos_token_id\": [1, 1.5]", RADISH_E_FORMAT, "eos_token_id[1]"},
    {"\"architectures\": \"LlamaForCausalLM\"", RADISH_E_FORMAT, "list of strings"},
    {"\"architectures\": null, \"model_type\": null", RADISH_E_FORMAT, "neither"},
};

static void test_what_cannot_be_served_is_refused_in_one_clear_line(void **state) {
    (void)state;
    for (size_t i = 0; i < sizeof refusals / sizeof *refusals; i++) {
        struct model_config config;
        struct radish_error err;
        enum radish_status status = read_texts(llama, refusals[i].extra, NULL, &config, &err);
        if (status != refusals[i].status || !strstr(err.msg, refusals[i].part))
            fail_msg("%s\n  gave %s: %s\n  expected %s: ...%s...", refusals[i].extra,
                     radish_status_name(status), err.msg, radish_status_name(refusals[i].status),
                     refusals[i].part);
    }
}

static const char mistral[] =
    "\"architectures\": [\"MistralForCausalLM\"], \"hidden_size\": 96, \"num_hidden_layers\": 3, "
    "\"num_attention_heads\": 6, \"num_key_value_heads\": 2, \"intermediate_size\": 160, "
    "\"vocab_size\": 512, \"max_position_embeddings\": 8192";

static void test_windows_are_read_as_each_family_says_them(void **state) {
    (void)state;
    static const struct {
        const char *base, *extra;
        uint32_t windows[3];
    } cases[] = {
        {qwen2, "\"sliding_window\": 16, \"max_window_layers\": 1", {0, 0, 0}},
        {qwen2,
         "\"use_sliding_window\": true, \"sliding_window\": 16, \"max_window_layers\": 1",
         {0, 16, 16}},
        {qwen2,
         "\"use_sliding_window\": true, \"sliding_window\": 16, \"layer_types\": "
         "[\"full_attention\", \"sliding_attention\", \"full_attention\"]",
         {0, 16, 0}},
        {mistral, "", {4096, 4096, 4096}},
        {mistral, "\"sliding_window\": null", {0, 0, 0}},
        {mistral, "\"sliding_window\": 8192", {0, 0, 0}},
        {mistral, "\"sliding_window\": 7", {7, 7, 7}},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        struct model_config config = must_read(cases[i].base, cases[i].extra);
        assert_memory_equal(config.window, cases[i].windows, sizeof cases[i].windows);
    }
}

static void test_layer_types_that_are_not_known_are_refused(void **state) {
    (void)state;
    struct model_config config;
    struct radish_error err;
    assert_int_equal(read_texts(mistral,
                                "\"layer_types\": [\"full_attention\", \"full_attention\", "
                                "\"linear_attention\"]",
                                NULL, &config, &err),
                     RADISH_E_UNSUPPORTED);
    assert_non_null(strstr(err.msg, "layer 2 is of type 'linear_attention'"));
    assert_int_equal(
        read_texts(mistral, "\"layer_types\": [\"full_attention\"]", NULL, &config, &err),
        RADISH_E_FORMAT);
    assert_non_null(strstr(err.msg, "a list of 3 strings"));
}

/* A factor r on what layers add is the same as 1 / r on the embedding and 1 / r^2 on eps. */
static void test_granite_multipliers_become_scales_and_eps(void **state) {
    (void)state;
    struct model_config config =
        must_read(llama, "\"architectures\": [\"GraniteForCausalLM\"], \"rms_norm_eps\": 1e-5, "
                         "\"attention_multiplier\": 0.125, \"embedding_multiplier\": 12, "
                         "\"residual_multiplier\": 0.5, \"logits_scaling\": 8");

    assert_true(config.attention_scale == 0.125);
    assert_true(config.embedding_scale == 24);
    assert_true(config.norm_eps == 4e-5);
    assert_true(config.logit_scale == 0.125);
}

/* Both spellings; layers with a window have a base of their own. */
static void test_gemma3_has_two_bases_of_rope_in_both_spellings(void **state) {
    (void)state;
    static const char *const spellings[] = {
        "\"rope_theta\": 1e6, \"rope_local_base_freq\": 5e3, \"rope_scaling\": {\"rope_type\": "
        "\"linear\", \"factor\": 8}, \"sliding_window_pattern\": 3",
        "\"rope_parameters\": {\"sliding_attention\": {\"rope_type\": \"default\", "
        "\"rope_theta\": 5e3}, \"full_attention\": {\"rope_type\": \"linear\", \"factor\": 8, "
        "\"rope_theta\": 1e6}}, \"layer_types\": [\"sliding_attention\", \"sliding_attention\", "
        "\"full_attention\"]"};
    for (size_t i = 0; i < 2; i++) {
        char extra[600];
        snprintf(extra, sizeof extra,
                 "\"architectures\": [\"Gemma3ForCausalLM\"], \"sliding_window\": 16, %s",
                 spellings[i]);
        struct model_config config = must_read(llama, extra);
        assert_true(config.rope.theta == 1e6 && config.rope_local.theta == 5e3);
        assert_int_equal(config.rope.kind, ROPE_LINEAR);
        assert_int_equal(config.rope_local.kind, ROPE_DEFAULT);
        assert_int_equal(config.context_trained, 512);
        assert_true(config.has_local_rope[0] && config.has_local_rope[1]);
        assert_false(config.has_local_rope[2]);
        assert_true(config.window[1] == 16 && config.window[2] == 0);
        assert_true(config.is_tied && config.norm_offset == 1 && config.attention_scale == 1. / 16);
        assert_true(config.attention_soft_cap == 0 && config.logit_soft_cap == 0);
    }
}

static void test_gemma2_has_caps_windows_and_scales_unless_told_otherwise(void **state) {
    (void)state;
    static const char gemma2[] = "\"architectures\": [\"Gemma2ForCausalLM\"], "
                                 "\"max_position_embeddings\": 8192";
    struct model_config config = must_read(llama, gemma2);
    assert_true(config.attention_soft_cap == 50 && config.logit_soft_cap == 30);
    assert_true(config.window[0] == 4096 && config.window[1] == 0 && config.window[2] == 4096);
    assert_true(config.embedding_scale == sqrt(96) && config.is_tied);
    assert_int_equal(config.activation, ACTIVATION_GELU_TANH);
    assert_int_equal(config.head_dim, 256);

    char extra[300];
    snprintf(extra, sizeof extra,
             "%s, \"attn_logit_softcapping\": null, \"final_logit_softcapping\": 7, "
             "\"query_pre_attn_scalar\": 64",
             gemma2);
    config = must_read(llama, extra);
    assert_true(config.attention_soft_cap == 0 && config.logit_soft_cap == 7);
    assert_true(config.attention_scale == 0.125);
}

static void test_gpt_neox_is_read_in_its_older_spelling(void **state) {
    (void)state;
    struct model_config config =
        must_read(llama, "\"architectures\": [\"GPTNeoXForCausalLM\"], \"rotary_pct\": 0.5, "
                         "\"rotary_emb_base\": 20000, \"layer_norm_eps\": 1e-3, "
                         "\"hidden_act\": \"gelu_new\", \"use_parallel_residual\": false");
    assert_int_equal(config.rotary_dim, 8);
    assert_true(config.rope.theta == 20000 && config.norm_eps == 1e-3);
    assert_int_equal(config.n_kv_heads[0], 6); /* num_key_value_heads is not its key */
    assert_true(config.has_attention_bias && config.has_mlp_bias);
    assert_false(config.is_parallel || config.has_gate);
    assert_int_equal(config.activation, ACTIVATION_GELU_TANH);
}

static void test_smollm3_names_layers_without_rope(void **state) {
    (void)state;
    static const char smollm3[] =
        "\"architectures\": [\"SmolLM3ForCausalLM\"], \"no_rope_layer_interval\": 2";
    struct model_config config = must_read(llama, smollm3);
    assert_true(config.has_rope[0] && config.has_rope[2]);
    assert_false(config.has_rope[1]);

    char extra[200];
    snprintf(extra, sizeof extra, "%s, \"no_rope_layers\": [0, 1, 0]", smollm3);
    config = must_read(llama, extra);
    assert_true(config.has_rope[1]);
    assert_false(config.has_rope[0] || config.has_rope[2]);
}

static void test_a_broken_generation_config_is_named(void **state) {
    (void)state;
    static const char *const broken[] = {"{\"temperature\": -1}",
                                         "{\"top_p\": 0}",
                                         "{\"top_p\": \"high\"}",
                                         "{\"repetition_penalty\": 3}",
                                         "{\"top_k\": 1.5}",
                                         "{\"eos_token_id\": {}}",
                                         "[1]"};
    for (size_t i = 0; i < sizeof broken / sizeof *broken; i++) {
        struct model_config config;
        struct radish_error err;
        assert_int_equal(read_texts(llama, "", broken[i], &config, &err), RADISH_E_FORMAT);
        assert_ptr_equal(strstr(err.msg, "generation_config.json: "), err.msg);
    }
}

static void test_too_many_end_tokens_are_refused(void **state) {
    (void)state;
    struct model_config config;
    struct radish_error err;
    char list[512] = "\"eos_token_id\": [0";
    for (int i = 1; i <= CONFIG_EOS_MAX; i++) sprintf(list + strlen(list), ", %d", i);
    strcat(list, "]");
    assert_int_equal(read_texts(llama, list, NULL, &config, &err), RADISH_E_LIMIT);
}

static void test_a_folder_without_config_is_refused(void **state) {
    (void)state;
    struct model_config config;
    struct radish_error err = {0};
    config_init(&config);
    assert_int_equal(config_read_hf(NULL, NULL, &config, &err), RADISH_E_FORMAT);
    assert_non_null(strstr(err.msg, "no config.json"));
}

static void test_config_read_finds_the_type_of_most_weights(void **state) {
    (void)state;
    static const struct {
        const char *name;
        enum dtype dtype;
    } models[] = {{"llama", RADISH_DTYPE_BF16}, {"qwen3", RADISH_DTYPE_F32}};
    for (size_t i = 0; i < 2; i++) {
        struct model_file *file;
        struct model_config config;
        struct radish_error err = {0};
        char path[512];
        snprintf(path, sizeof path, "%s/models/%s", TEST_DATA, models[i].name);
        assert_int_equal(model_file_open(path, false, &file, &err), RADISH_OK);
        assert_int_equal(config_read(file, &config, &err), RADISH_OK);
        assert_int_equal(config.dtype, models[i].dtype);
        assert_int_equal(config.eos_ids[0], 2);
        model_file_close(file);
    }
}

int main(void) {
    radish_log_set_level(RADISH_LOG_OFF);
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_a_plain_llama_is_read_with_its_defaults),
        cmocka_unit_test(test_families_have_their_own_biases_norms_and_head_sizes),
        cmocka_unit_test(test_absent_kv_heads_mean_what_the_family_means),
        cmocka_unit_test(test_both_spellings_of_rope_give_the_same),
        cmocka_unit_test(test_scaling_extends_the_context_where_the_field_is_the_length_before_it),
        cmocka_unit_test(test_yarn_options_are_read),
        cmocka_unit_test(test_longrope_reads_one_factor_for_each_pair),
        cmocka_unit_test(test_end_tokens_are_the_union_of_both_files),
        cmocka_unit_test(test_sampling_defaults_come_from_generation_config),
        cmocka_unit_test(test_a_window_that_hides_nothing_is_fine),
        cmocka_unit_test(test_what_cannot_be_served_is_refused_in_one_clear_line),
        cmocka_unit_test(test_windows_are_read_as_each_family_says_them),
        cmocka_unit_test(test_layer_types_that_are_not_known_are_refused),
        cmocka_unit_test(test_granite_multipliers_become_scales_and_eps),
        cmocka_unit_test(test_gemma3_has_two_bases_of_rope_in_both_spellings),
        cmocka_unit_test(test_gemma2_has_caps_windows_and_scales_unless_told_otherwise),
        cmocka_unit_test(test_gpt_neox_is_read_in_its_older_spelling),
        cmocka_unit_test(test_smollm3_names_layers_without_rope),
        cmocka_unit_test(test_a_broken_generation_config_is_named),
        cmocka_unit_test(test_too_many_end_tokens_are_refused),
        cmocka_unit_test(test_a_folder_without_config_is_refused),
        cmocka_unit_test(test_config_read_finds_the_type_of_most_weights),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
