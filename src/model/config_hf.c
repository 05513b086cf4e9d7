/* config_hf.c - config.json and generation_config.json of a Hugging Face folder.
 *
 * Two spellings are in use. The older one keeps rope_theta and rope_scaling (with "type" or
 * "rope_type" inside) at the top; the newer one has everything in rope_parameters. Both are read by
 * looking for each key where the newer spelling has it, then where the older one had it. Absent
 * keys mean what the reference implementation's configuration classes mean by them.
 *
 * Whatever would change the computation and is not done here (experts, quantised checkpoints, other
 * activations, RoPE types) is refused by name; keys without influence on the
 * logits (dropout, initialisation, cache hints) are not looked at. generation_config.json gives
 * sampling defaults wherever it has them, whatever do_sample says, as SGLang and vLLM do: their
 * users expect a model's temperature even where the file forgot to switch sampling on. */
#include "config_int.h"

#include "arch.h"
#include "base/json.h"
#include "base/status.h"

#include <math.h>
#include <string.h>

#define INT_ID_MAX INT32_MAX

/* A count of at least 1. *out holds the default, 0 where there is none: then it must be given. */
static enum radish_status read_count(yyjson_val *root, const char *key, uint32_t max, uint32_t *out,
                                     struct radish_error *err) {
    RADISH_TRY(json_get_u32(root, key, 1, max, out, err));
    if (!*out) return error_set_field(err, RADISH_E_INVALID, key, "%s is missing", key);
    return RADISH_OK;
}

static bool is_given(yyjson_val *val) {
    return val && !yyjson_is_null(val);
}

static enum radish_status find_arch(yyjson_val *root, const struct arch **arch_out,
                                    struct radish_error *err) {
    yyjson_val *classes = json_get(root, "architectures"), *class = yyjson_arr_get_first(classes);
    const char *type = NULL;
    if (is_given(classes) && (!yyjson_is_arr(classes) || (class && !yyjson_is_str(class))))
        return error_set_field(err, RADISH_E_INVALID, "architectures",
                               "architectures must be a list of strings");
    RADISH_TRY(json_get_str(root, "model_type", &type, err));
    const char *name = class ? yyjson_get_str(class) : type;
    if (!name)
        return error_set(err, RADISH_E_INVALID, "neither architectures nor model_type is given");
    *arch_out = class ? arch_find_hf_class(name) : arch_find_hf_type(name);
    if (!*arch_out)
        return error_set_field(err, RADISH_E_UNSUPPORTED, "architectures",
                               "architecture %.64s is not supported; supported: %s", name,
                               arch_list());
    return RADISH_OK;
}

/* Options that change the computation in ways no layer function here has. */
static enum radish_status refuse_options(yyjson_val *root, const struct arch *arch,
                                         struct radish_error *err) {
    static const char *const experts[] = {"num_experts", "num_local_experts", "n_routed_experts",
                                          "moe_num_experts"};
    for (size_t i = 0; i < sizeof experts / sizeof *experts; i++) {
        double n = 0;
        RADISH_TRY(json_get_double(root, experts[i], 0, 1e9, &n, err));
        if (n > 0)
            return error_set_field(err, RADISH_E_UNSUPPORTED, experts[i],
                                   "%s is %g: mixture of experts is not supported for %s",
                                   experts[i], n, arch->name);
    }
    yyjson_val *quantization = json_get(root, "quantization_config");
    if (is_given(quantization)) {
        const char *method = "unnamed";
        RADISH_TRY(json_get_str(quantization, "quant_method", &method, err));
        return error_set_field(err, RADISH_E_UNSUPPORTED, "quantization_config",
                               "checkpoints quantised by '%.32s' are not supported; supported: "
                               "F32, F16 and BF16 safetensors, and GGUF",
                               method);
    }
    static const char *const others[] = {"qk_layernorm", "use_bidirectional_attention"};
    for (size_t i = 0; i < sizeof others / sizeof *others; i++) {
        bool is_set = false;
        RADISH_TRY(json_get_bool(root, others[i], &is_set, err));
        if (is_set)
            return error_set_field(err, RADISH_E_UNSUPPORTED, others[i],
                                   "%s is not supported for %s; supported: false", others[i],
                                   arch->name);
    }
    return RADISH_OK;
}

static enum radish_status read_activation(yyjson_val *root, struct model_config *config,
                                          struct radish_error *err) {
    static const struct {
        const char *name;
        enum activation activation;
    } names[] = {{"silu", ACTIVATION_SILU},
                 {"swish", ACTIVATION_SILU},
                 {"gelu", ACTIVATION_GELU},
                 {"gelu_new", ACTIVATION_GELU_TANH},
                 {"gelu_pytorch_tanh", ACTIVATION_GELU_TANH},
                 {"relu2", ACTIVATION_RELU2}};
    const char *key =
        config->arch->flags & ARCH_READS_QUERY_SCALE ? "hidden_activation" : "hidden_act";
    const char *name = NULL;
    RADISH_TRY(json_get_str(root, key, &name, err));
    if (!name) return RADISH_OK;
    for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
        if (strcmp(names[i].name, name) != 0) continue;
        config->activation = names[i].activation;
        return RADISH_OK;
    }
    return error_set_field(err, RADISH_E_UNSUPPORTED, key,
                           "%s '%.32s' is not supported; supported: silu, gelu, gelu_new, "
                           "gelu_pytorch_tanh, relu2",
                           key, name);
}

/* Layers named in layer_types replace what the family's rule gave. */
static enum radish_status read_layer_types(yyjson_val *root, uint32_t n_layers, bool has_window,
                                           bool *is_windowed, struct radish_error *err) {
    yyjson_val *types = json_get(root, "layer_types"), *type;
    size_t idx, max;
    if (!is_given(types)) return RADISH_OK;
    if (!yyjson_is_arr(types) || yyjson_arr_size(types) != n_layers)
        return error_set_field(err, RADISH_E_INVALID, "layer_types",
                               "layer_types must be a list of %u strings", n_layers);
    yyjson_arr_foreach(types, idx, max, type) {
        bool is_sliding = yyjson_equals_str(type, "sliding_attention");
        if (!is_sliding && !yyjson_equals_str(type, "full_attention"))
            return error_set_field(err, RADISH_E_UNSUPPORTED, "layer_types",
                                   "layer %zu is of type '%.32s'; supported: full_attention, "
                                   "sliding_attention",
                                   idx, yyjson_is_str(type) ? yyjson_get_str(type) : "?");
        is_windowed[idx] = is_sliding && has_window;
    }
    return RADISH_OK;
}

/* sliding_window_pattern: a number, or a word like LLLG. */
static enum radish_status read_period(yyjson_val *root, uint32_t *period,
                                      struct radish_error *err) {
    const char *key = json_get(root, "_sliding_window_pattern") ? "_sliding_window_pattern"
                                                                : "sliding_window_pattern";
    yyjson_val *val = json_get(root, key);
    if (!yyjson_is_str(val)) return json_get_u32(root, key, 0, CONFIG_LAYERS_MAX, period, err);
    const char *word = yyjson_get_str(val);
    size_t n_local = strspn(word, "L");
    if (n_local >= CONFIG_LAYERS_MAX || strcmp(word + n_local, "G") != 0)
        return error_set_field(err, RADISH_E_UNSUPPORTED, key,
                               "%s '%.32s' is not supported; supported: a number, L...LG", key,
                               word);
    *period = (uint32_t)n_local + 1;
    return RADISH_OK;
}

static enum radish_status read_windows(yyjson_val *root, struct model_config *config,
                                       struct radish_error *err) {
    const struct arch *arch = config->arch;
    bool has_window = arch->flags & ARCH_HAS_WINDOW, is_windowed[CONFIG_LAYERS_MAX] = {false};
    uint32_t window = arch->window, period = arch->window_period, n_full = 0;
    if (!(arch->flags & (ARCH_READS_SLIDING_WINDOW | ARCH_HAS_WINDOW))) return RADISH_OK;
    if (arch->flags & ARCH_READS_SLIDING_WINDOW) {
        n_full = 28;
        RADISH_TRY(json_get_bool(root, "use_sliding_window", &has_window, err));
        RADISH_TRY(json_get_u32(root, "max_window_layers", 0, UINT32_MAX, &n_full, err));
    }
    if (yyjson_is_null(json_get(root, "sliding_window"))) window = 0;
    RADISH_TRY(json_get_u32(root, "sliding_window", 0, UINT32_MAX, &window, err));
    has_window = has_window && window;
    if (period) RADISH_TRY(read_period(root, &period, err));
    for (uint32_t layer = 0; layer < config->n_layers; layer++) {
        bool is_full = period ? (layer + 1) % period == 0 : layer < n_full;
        if (arch->flags & ARCH_READS_NO_ROPE_LAYERS) is_full = config->has_rope[layer];
        is_windowed[layer] = has_window && !is_full;
    }
    RADISH_TRY(read_layer_types(root, config->n_layers, has_window, is_windowed, err));
    config_set_windows(config, window, is_windowed);
    return RADISH_OK;
}

/* no_rope_layers holds 1 for layers with RoPE; absent, every no_rope_layer_interval-th has none. */
static enum radish_status read_no_rope_layers(yyjson_val *root, struct model_config *config,
                                              struct radish_error *err) {
    yyjson_val *list = json_get(root, "no_rope_layers"), *val;
    uint32_t interval = 4;
    size_t idx, max;
    if (!(config->arch->flags & ARCH_READS_NO_ROPE_LAYERS)) return RADISH_OK;
    RADISH_TRY(json_get_u32(root, "no_rope_layer_interval", 1, UINT32_MAX, &interval, err));
    for (uint32_t layer = 0; layer < config->n_layers; layer++)
        config->has_rope[layer] = (layer + 1) % interval != 0;
    if (!is_given(list)) return RADISH_OK;
    if (!yyjson_is_arr(list) || yyjson_arr_size(list) != config->n_layers)
        return error_set_field(err, RADISH_E_INVALID, "no_rope_layers",
                               "no_rope_layers must be a list of %u numbers", config->n_layers);
    yyjson_arr_foreach(list, idx, max, val) {
        if (!yyjson_is_int(val))
            return error_set_field(err, RADISH_E_INVALID, "no_rope_layers",
                                   "no_rope_layers[%zu] must be 0 or 1", idx);
        config->has_rope[idx] = yyjson_get_sint(val) != 0;
    }
    return RADISH_OK;
}

static enum radish_status find_rope_kind(const char *name, enum rope_kind *kind_out,
                                         struct radish_error *err) {
    static const struct {
        const char *name;
        enum rope_kind kind;
    } kinds[] = {{"default", ROPE_DEFAULT}, {"linear", ROPE_LINEAR},     {"llama3", ROPE_LLAMA3},
                 {"yarn", ROPE_YARN},       {"longrope", ROPE_LONGROPE}, {"su", ROPE_LONGROPE}};
    for (size_t i = 0; i < sizeof kinds / sizeof *kinds; i++) {
        if (strcmp(kinds[i].name, name) != 0) continue;
        *kind_out = kinds[i].kind;
        return RADISH_OK;
    }
    return error_set_field(
        err, RADISH_E_UNSUPPORTED, "rope_type",
        "RoPE type '%.32s' is not supported%s; supported: default, linear, llama3, yarn, longrope",
        name,
        strcmp(name, "dynamic") ? ""
                                : " (its keys change with the sequence's length, so cached "
                                  "prefixes could not be shared)");
}

/* longrope's two lists, one factor for each pair. */
static enum radish_status read_factors(yyjson_val *scaling, const char *key, uint32_t n_pairs,
                                       double *factors_out, struct radish_error *err) {
    yyjson_val *list = json_get(scaling, key), *val;
    size_t idx, max;
    if (!yyjson_is_arr(list) || yyjson_arr_size(list) != n_pairs)
        return error_set_field(err, RADISH_E_INVALID, key, "%s must be a list of %u numbers", key,
                               n_pairs);
    yyjson_arr_foreach(list, idx, max, val) {
        double factor = yyjson_is_num(val) ? yyjson_get_num(val) : 0;
        if (!(factor > 0 && factor < 1e9))
            return error_set_field(err, RADISH_E_INVALID, key, "%s[%zu] must be a number above 0",
                                   key, idx);
        factors_out[idx] = factor;
    }
    return RADISH_OK;
}

/* The scaling's own numbers, by kind. max_positions: max_position_embeddings. */
static enum radish_status read_scaling(yyjson_val *scaling, uint32_t n_pairs,
                                       uint32_t max_positions, bool has_original,
                                       struct rope_config *rope, struct radish_error *err) {
    double factor = 0,
           ratio = (double)max_positions / (has_original ? rope->context_original : max_positions);
    RADISH_TRY(json_get_double(scaling, "factor", 1e-3, 1e6, &factor, err));
    if (rope->kind == ROPE_YARN && factor == 0) factor = ratio;
    if (rope->kind == ROPE_LONGROPE && (has_original || factor == 0)) factor = ratio;
    if (factor == 0)
        return error_set_field(err, RADISH_E_INVALID, "factor", "the RoPE scaling has no factor");
    rope->factor = factor;
    RADISH_TRY(
        json_get_double(scaling, "attention_factor", 1e-6, 1e6, &rope->attention_factor, err));
    if (rope->kind == ROPE_LLAMA3) {
        RADISH_TRY(
            json_get_double(scaling, "low_freq_factor", 1e-6, 1e6, &rope->low_freq_factor, err));
        RADISH_TRY(
            json_get_double(scaling, "high_freq_factor", 1e-6, 1e6, &rope->high_freq_factor, err));
        if (!(rope->low_freq_factor > 0 && rope->high_freq_factor > rope->low_freq_factor))
            return error_set_field(err, RADISH_E_INVALID, "high_freq_factor",
                                   "llama3 scaling needs low_freq_factor above 0 and "
                                   "high_freq_factor above that");
    }
    if (rope->kind == ROPE_YARN) {
        RADISH_TRY(json_get_double(scaling, "beta_fast", 1e-6, 1e6, &rope->beta_fast, err));
        RADISH_TRY(json_get_double(scaling, "beta_slow", 1e-6, 1e6, &rope->beta_slow, err));
        RADISH_TRY(json_get_double(scaling, "mscale", 0, 1e6, &rope->mscale, err));
        RADISH_TRY(json_get_double(scaling, "mscale_all_dim", 0, 1e6, &rope->mscale_all_dim, err));
        RADISH_TRY(json_get_bool(scaling, "truncate", &rope->truncate, err));
    }
    if (rope->kind == ROPE_LONGROPE) {
        RADISH_TRY(read_factors(scaling, "short_factor", n_pairs, rope->freq_factors, err));
        RADISH_TRY(read_factors(scaling, "long_factor", n_pairs, rope->freq_factors_long, err));
        rope->n_freq_factors = n_pairs;
    }
    return RADISH_OK;
}

/* Layers with a window rotate by a base of their own and without scaling. Where rope_parameters has
 * one object for each type of layer, *params becomes that of full attention. */
static enum radish_status read_local_rope(yyjson_val *root, struct model_config *config,
                                          yyjson_val **params, struct radish_error *err) {
    struct rope_config *rope = &config->rope_local;
    yyjson_val *local = json_get(*params, "sliding_attention");
    const char *kind = "default";
    if (!(config->arch->flags & ARCH_LOCAL_ROPE)) return RADISH_OK;
    rope->pairing = config->arch->hf_pairing;
    rope->theta = 10000;
    RADISH_TRY(json_get_double(root, "rope_local_base_freq", 1.001, 1e15, &rope->theta, err));
    RADISH_TRY(json_get_double(local, "rope_theta", 1.001, 1e15, &rope->theta, err));
    RADISH_TRY(json_get_str(local, "rope_type", &kind, err));
    if (strcmp(kind, "default") != 0)
        return error_set_field(err, RADISH_E_UNSUPPORTED, "rope_type",
                               "RoPE type '%.32s' of layers with a window is not supported; "
                               "supported: default",
                               kind);
    if (is_given(json_get(*params, "full_attention")))
        *params = json_get(*params, "full_attention");
    return RADISH_OK;
}

static enum radish_status read_rope(yyjson_val *root, struct model_config *config,
                                    uint32_t max_positions, struct radish_error *err) {
    struct rope_config *rope = &config->rope;
    yyjson_val *params = json_get(root, "rope_parameters");
    RADISH_TRY(read_local_rope(root, config, &params, err));
    yyjson_val *scaling = is_given(params) ? params : json_get(root, "rope_scaling");
    const char *key = is_given(params) ? "rope_parameters" : "rope_scaling", *kind = "default";

    if (is_given(scaling) && !yyjson_is_obj(scaling))
        return error_set_field(err, RADISH_E_INVALID, key, "%s must be an object, not %s", key,
                               json_type_name(scaling));
    if (json_get(scaling, "full_attention") || json_get(scaling, "sliding_attention"))
        return error_set_field(err, RADISH_E_UNSUPPORTED, key,
                               "%s by layer type are not supported for %s", key,
                               config->arch->name);

    rope->pairing = config->arch->hf_pairing;
    rope->theta = config->arch->rope_theta > 0 ? config->arch->rope_theta : 10000;
    RADISH_TRY(json_get_double(root, "rotary_emb_base", 1.001, 1e15, &rope->theta, err));
    RADISH_TRY(json_get_double(root, "rope_theta", 1.001, 1e15, &rope->theta, err));
    RADISH_TRY(json_get_double(params, "rope_theta", 1.001, 1e15, &rope->theta, err));
    double rotated = config->arch->rotated > 0 ? config->arch->rotated : 1;
    RADISH_TRY(json_get_double(root, "rotary_pct", 1e-3, 1, &rotated, err));
    RADISH_TRY(json_get_double(root, "partial_rotary_factor", 1e-3, 1, &rotated, err));
    RADISH_TRY(json_get_double(params, "partial_rotary_factor", 1e-3, 1, &rotated, err));
    if (rotated != 1 && !(config->arch->flags & ARCH_HAS_PARTIAL_ROTATION))
        return error_set_field(err, RADISH_E_UNSUPPORTED, "partial_rotary_factor",
                               "partial_rotary_factor %g is not supported for %s", rotated,
                               config->arch->name);
    config->rotary_dim = (uint32_t)(config->head_dim * rotated);

    RADISH_TRY(json_get_str(scaling, "type", &kind, err));
    RADISH_TRY(json_get_str(scaling, "rope_type", &kind, err));
    RADISH_TRY(find_rope_kind(kind, &rope->kind, err));

    uint32_t original = 0;
    RADISH_TRY(json_get_u32(root, "original_max_position_embeddings", 1, CONFIG_CONTEXT_MAX,
                            &original, err));
    RADISH_TRY(json_get_u32(scaling, "original_max_position_embeddings", 1, CONFIG_CONTEXT_MAX,
                            &original, err));
    rope->context_original = original;
    if (rope->kind != ROPE_DEFAULT)
        RADISH_TRY(
            read_scaling(scaling, config->rotary_dim / 2, max_positions, original != 0, rope, err));
    config_set_context(config, max_positions, original != 0);
    return RADISH_OK;
}

static enum radish_status read_shape(yyjson_val *root, struct model_config *config,
                                     struct radish_error *err) {
    const struct arch *arch = config->arch;
    uint32_t n_heads = 0, n_kv_heads = 0, ffn_dim = 0;
    RADISH_TRY(read_count(root, "num_hidden_layers", CONFIG_LAYERS_MAX, &config->n_layers, err));
    RADISH_TRY(read_count(root, "hidden_size", CONFIG_HIDDEN_MAX, &config->hidden_dim, err));
    RADISH_TRY(read_count(root, "vocab_size", CONFIG_VOCAB_MAX, &config->n_vocab, err));
    RADISH_TRY(read_count(root, "intermediate_size", CONFIG_FFN_MAX, &ffn_dim, err));
    RADISH_TRY(read_count(root, "num_attention_heads", CONFIG_HEADS_MAX, &n_heads, err));
    n_kv_heads =
        json_get(root, "num_key_value_heads") || !arch->n_kv_heads ? n_heads : arch->n_kv_heads;
    if (!(arch->flags & ARCH_NO_GQA))
        RADISH_TRY(read_count(root, "num_key_value_heads", CONFIG_HEADS_MAX, &n_kv_heads, err));

    yyjson_val *head_dim = json_get(root, "head_dim");
    config->head_dim = arch->head_dim;
    if (!config->head_dim && !is_given(head_dim)) {
        if (config->hidden_dim % n_heads)
            return error_set_field(err, RADISH_E_INVALID, "hidden_size",
                                   "hidden_size %u is no multiple of num_attention_heads %u",
                                   config->hidden_dim, n_heads);
        config->head_dim = config->hidden_dim / n_heads;
    }
    RADISH_TRY(read_count(root, "head_dim", CONFIG_HEAD_DIM_MAX, &config->head_dim, err));
    config->v_head_dim = config->head_dim;
    config->attention_scale = 1 / sqrt(config->head_dim);
    for (uint32_t layer = 0; layer < config->n_layers; layer++) {
        config->n_heads[layer] = n_heads;
        config->n_kv_heads[layer] = n_kv_heads;
        config->ffn_dim[layer] = ffn_dim;
    }
    return RADISH_OK;
}

static enum radish_status read_biases(yyjson_val *root, struct model_config *config,
                                      struct radish_error *err) {
    uint32_t flags = config->arch->flags;
    if (flags & ARCH_READS_ATTENTION_BIAS) {
        RADISH_TRY(json_get_bool(root, "attention_bias", &config->has_attention_bias, err));
        config->has_attention_output_bias = config->has_attention_bias;
    }
    if (flags & ARCH_READS_QKV_BIAS) {
        RADISH_TRY(json_get_bool(root, "attention_bias", &config->has_attention_bias, err));
        RADISH_TRY(json_get_bool(root, "use_qkv_bias", &config->has_attention_bias, err));
    }
    if (flags & ARCH_READS_MLP_BIAS)
        RADISH_TRY(json_get_bool(root, "mlp_bias", &config->has_mlp_bias, err));
    return RADISH_OK;
}

/* Scales and caps, each read by the families that have it. */
static enum radish_status read_scales(yyjson_val *root, struct model_config *config,
                                      struct radish_error *err) {
    uint32_t flags = config->arch->flags;
    if (flags & ARCH_SCALED_EMBEDDING) config->embedding_scale = sqrt(config->hidden_dim);
    if (flags & ARCH_READS_QUERY_SCALE) {
        double width = 256;
        RADISH_TRY(json_get_double(root, "query_pre_attn_scalar", 1e-3, 1e9, &width, err));
        config->attention_scale = 1 / sqrt(width);
    }
    if (flags & ARCH_READS_SOFT_CAPS) {
        static const char *const keys[] = {"attn_logit_softcapping", "final_logit_softcapping"};
        double *caps[] = {&config->attention_soft_cap, &config->logit_soft_cap};
        for (size_t i = 0; i < 2; i++) {
            if (yyjson_is_null(json_get(root, keys[i]))) *caps[i] = 0;
            RADISH_TRY(json_get_double(root, keys[i], 1e-3, 1e9, caps[i], err));
        }
    }
    if (flags & ARCH_READS_LOGIT_SCALE) {
        config->logit_scale = config->arch->logit_scale;
        RADISH_TRY(json_get_double(root, "logit_scale", 1e-9, 1e9, &config->logit_scale, err));
    }
    if (flags & ARCH_READS_MULTIPLIERS) {
        double embedding = 1, residual = 1, logits = 1;
        config->attention_scale = 1;
        RADISH_TRY(json_get_double(root, "attention_multiplier", 1e-9, 1e9,
                                   &config->attention_scale, err));
        RADISH_TRY(json_get_double(root, "embedding_multiplier", 1e-9, 1e9, &embedding, err));
        RADISH_TRY(json_get_double(root, "residual_multiplier", 1e-6, 1e6, &residual, err));
        RADISH_TRY(json_get_double(root, "logits_scaling", 1e-9, 1e9, &logits, err));
        config_set_multipliers(config, embedding, residual, logits);
    }
    return RADISH_OK;
}

static enum radish_status read_flags(yyjson_val *root, struct model_config *config,
                                     struct radish_error *err) {
    uint32_t flags = config->arch->flags;
    if (flags & ARCH_LAYER_NORM) {
        RADISH_TRY(json_get_double(root, "norm_eps", 0, 1, &config->norm_eps, err));
        RADISH_TRY(json_get_double(root, "layer_norm_eps", 0, 1, &config->norm_eps, err));
    } else {
        RADISH_TRY(json_get_double(root, "rms_norm_eps", 0, 1, &config->norm_eps, err));
    }
    RADISH_TRY(json_get_bool(root, "tie_word_embeddings", &config->is_tied, err));
    RADISH_TRY(read_biases(root, config, err));
    if (flags & ARCH_READS_PARALLEL)
        RADISH_TRY(json_get_bool(root, "use_parallel_residual", &config->is_parallel, err));
    config->has_two_norms = !config->is_parallel;
    RADISH_TRY(read_activation(root, config, err));
    return read_scales(root, config, err);
}

/* eos_token_id: one id, a list of them, or null. */
static enum radish_status read_eos(yyjson_val *root, struct model_config *config,
                                   struct radish_error *err) {
    yyjson_val *eos = json_get(root, "eos_token_id"), *id;
    size_t idx, max;
    if (!is_given(eos)) return RADISH_OK;
    if (yyjson_is_int(eos)) return config_add_eos(config, yyjson_get_sint(eos), err);
    if (!yyjson_is_arr(eos))
        return error_set_field(err, RADISH_E_INVALID, "eos_token_id",
                               "eos_token_id must be an integer or a list of integers, not %s",
                               json_type_name(eos));
    yyjson_arr_foreach(eos, idx, max, id) {
        if (!yyjson_is_int(id))
            return error_set_field(err, RADISH_E_INVALID, "eos_token_id",
                                   "eos_token_id[%zu] must be an integer, not %s", idx,
                                   json_type_name(id));
        RADISH_TRY(config_add_eos(config, yyjson_get_sint(id), err));
    }
    return RADISH_OK;
}

static enum radish_status read_model(yyjson_val *root, struct model_config *config,
                                     struct radish_error *err) {
    uint32_t max_positions = 0;
    int64_t bos = -1;
    if (!yyjson_is_obj(root)) return error_set(err, RADISH_E_INVALID, "not a JSON object");
    const struct arch *arch;
    RADISH_TRY(find_arch(root, &arch, err));
    config_set_arch(config, arch, MODEL_FORMAT_SAFETENSORS);
    RADISH_TRY(refuse_options(root, arch, err));
    RADISH_TRY(read_shape(root, config, err));
    RADISH_TRY(read_flags(root, config, err));
    RADISH_TRY(
        read_count(root, "max_position_embeddings", CONFIG_CONTEXT_MAX, &max_positions, err));
    RADISH_TRY(read_rope(root, config, max_positions, err));
    RADISH_TRY(read_no_rope_layers(root, config, err));
    RADISH_TRY(read_windows(root, config, err));
    RADISH_TRY(json_get_i64(root, "bos_token_id", -1, INT_ID_MAX, &bos, err));
    config->bos_id = bos < config->n_vocab ? (int32_t)bos : -1;
    RADISH_TRY(read_eos(root, config, err));
    return config_check(config, err);
}

static enum radish_status read_generation(yyjson_val *root, struct model_config *config,
                                          struct radish_error *err) {
    struct radish_sampling *sampling = &config->sampling;
    double temperature = sampling->temperature, top_p = sampling->top_p, min_p = sampling->min_p;
    double repetition = sampling->repetition_penalty;
    int64_t top_k = sampling->top_k;
    if (!yyjson_is_obj(root)) return error_set(err, RADISH_E_INVALID, "not a JSON object");
    RADISH_TRY(read_eos(root, config, err));
    RADISH_TRY(json_get_double(root, "temperature", 0, 1e6, &temperature, err));
    RADISH_TRY(json_get_double(root, "top_p", 1e-9, 1, &top_p, err));
    RADISH_TRY(json_get_double(root, "min_p", 0, 1, &min_p, err));
    RADISH_TRY(json_get_double(root, "repetition_penalty", 1e-6, 2, &repetition, err));
    RADISH_TRY(json_get_i64(root, "top_k", INT32_MIN, INT32_MAX, &top_k, err));
    sampling->temperature = (float)temperature;
    sampling->top_p = (float)top_p;
    sampling->min_p = (float)min_p;
    sampling->repetition_penalty = (float)repetition;
    sampling->top_k = top_k < 1 ? -1 : (int32_t)top_k;
    return RADISH_OK;
}

/* JSON getters speak of arguments; in a model's file the same fault is a broken file. */
static enum radish_status blame_file(enum radish_status status, const char *file,
                                     struct radish_error *err) {
    if (status == RADISH_OK) return status;
    if (status == RADISH_E_INVALID) status = RADISH_E_FORMAT;
    if (err) err->status = status;
    error_prefix(err, "%s", file);
    return status;
}

enum radish_status config_read_hf(yyjson_val *root, yyjson_val *generation,
                                  struct model_config *config, struct radish_error *err) {
    if (!root) return error_set(err, RADISH_E_FORMAT, "the model's folder has no config.json");
    RADISH_TRY(blame_file(read_model(root, config, err), "config.json", err));
    if (!generation) return RADISH_OK;
    return blame_file(read_generation(generation, config, err), "generation_config.json", err);
}
