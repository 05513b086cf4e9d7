/* config_gguf.c - the same numbers from GGUF metadata.
 *
 * Keys are prefixed by the architecture's name ("llama.block_count"). Some facts are not metadata
 * but tensors: biases are there or not, a missing output.weight means tied embeddings, and llama3's
 * RoPE scaling arrives as rope_freqs.weight, one divisor for each pair. Where GGUF's meaning
 * differs from transformers', llama.cpp's reading counts, since its converters wrote the files: a
 * factor without a type is linear scaling; yarn's attention factor is attn_factor times the
 * formula's value; Q and K rows of llama are stored for interleaved rotation.
 *
 * Keys that change the computation and that the family does not know (experts, scales, soft caps)
 * are refused by name unless they hold their neutral value. */
#include "config_int.h"

#include "arch.h"
#include "base/status.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

/* Where keys are looked up. */
struct reader {
    const struct gguf *gguf;
    const struct model_file *file; /* may be NULL */
    const char *prefix;
    char key[128];
};

static const char *key_of(struct reader *r, const char *suffix) {
    snprintf(r->key, sizeof r->key, "%s.%s", r->prefix, suffix);
    return r->key;
}

static bool has_tensor(const struct reader *r, const char *name) {
    return r->file && model_file_find(r->file, name);
}

/* A count of 1..max. *out holds the default, 0 where there is none: then it must be given. */
static enum radish_status read_count(struct reader *r, const char *suffix, uint32_t max,
                                     uint32_t *out, struct radish_error *err) {
    const char *key = key_of(r, suffix);
    bool is_given = gguf_find(r->gguf, key);
    RADISH_TRY(gguf_get_u32(r->gguf, key, out, err));
    if (!*out && !is_given) return error_set_field(err, RADISH_E_FORMAT, key, "%s is missing", key);
    if (!*out || *out > max)
        return error_set_field(err, RADISH_E_FORMAT, key, "%s is %u, not from 1 to %u", key, *out,
                               max);
    return RADISH_OK;
}

static enum radish_status read_number(struct reader *r, const char *suffix, double min, double max,
                                      double *out, struct radish_error *err) {
    const char *key = key_of(r, suffix);
    if (!gguf_find(r->gguf, key)) return RADISH_OK;
    RADISH_TRY(gguf_get_f64(r->gguf, key, out, err));
    if (!(*out >= min && *out <= max))
        return error_set_field(err, RADISH_E_FORMAT, key, "%s is %g, not from %g to %g", key, *out,
                               min, max);
    return RADISH_OK;
}

/* One number for all layers, or an array with one for each. 0 is left to config_check(). */
static enum radish_status read_per_layer(struct reader *r, const char *suffix, uint32_t n_layers,
                                         uint32_t max, uint32_t *out, struct radish_error *err) {
    const char *key = key_of(r, suffix);
    const struct gguf_value *value = gguf_find(r->gguf, key);
    if (!value) return error_set_field(err, RADISH_E_FORMAT, key, "%s is missing", key);
    if (value->type != GGUF_ARRAY) {
        uint32_t n = 0;
        RADISH_TRY(read_count(r, suffix, max, &n, err));
        for (uint32_t layer = 0; layer < n_layers; layer++) out[layer] = n;
        return RADISH_OK;
    }
    if (!gguf_is_int(value->array.elem_type) || value->array.n != n_layers)
        return error_set_field(err, RADISH_E_FORMAT, key,
                               "%s must be an integer or an array of %u of them", key, n_layers);
    for (uint32_t layer = 0; layer < n_layers; layer++) {
        int64_t n = gguf_array_i64(value, layer);
        if (n < 0 || n > max)
            return error_set_field(err, RADISH_E_FORMAT, key, "%s[%u] is %lld, not from 0 to %u",
                                   key, layer, (long long)n, max);
        out[layer] = (uint32_t)n;
    }
    return RADISH_OK;
}

static enum radish_status find_arch(const struct gguf *gguf, const struct arch **arch_out,
                                    struct radish_error *err) {
    struct gguf_str name = {NULL, 0};
    RADISH_TRY(gguf_get_str(gguf, "general.architecture", &name, err));
    if (!name.data)
        return error_set_field(err, RADISH_E_FORMAT, "general.architecture",
                               "general.architecture is missing");
    *arch_out = arch_find_gguf(name.data, name.len);
    if (!*arch_out)
        return error_set_field(err, RADISH_E_UNSUPPORTED, "general.architecture",
                               "architecture %.*s is not supported; supported: %s",
                               (int)(name.len < 64 ? name.len : 64), name.data, arch_list());
    return RADISH_OK;
}

static enum radish_status refuse_options(struct reader *r, const struct model_config *config,
                                         struct radish_error *err) {
    static const struct {
        const char *suffix;
        double neutral;
        const char *what;
    } options[] = {
        {"expert_count", 0, "mixture of experts"},
        {"attn_logit_softcapping", 0, "a soft cap on attention scores"},
        {"final_logit_softcapping", 0, "a soft cap on logits"},
        {"attention.scale", 0, "a scale of attention scores"},
        {"attention.max_alibi_bias", 0, "ALiBi"},
        {"attention.clamp_kqv", 0, "clamping of Q, K and V"},
        {"embedding_scale", 1, "a scale of embeddings"},
        {"residual_scale", 1, "a scale of residuals"},
        {"logit_scale", 1, "a scale of logits"},
    };
    uint32_t flags = config->arch->flags;
    for (size_t i = 0; i < sizeof options / sizeof *options; i++) {
        const char *suffix = options[i].suffix;
        if (flags & ARCH_READS_SOFT_CAPS && strstr(suffix, "softcapping")) continue;
        if (flags & ARCH_READS_MULTIPLIERS && strstr(suffix, "scale")) continue;
        if (flags & ARCH_READS_LOGIT_SCALE && !strcmp(suffix, "logit_scale")) continue;
        double got = options[i].neutral;
        RADISH_TRY(read_number(r, options[i].suffix, -1e9, 1e9, &got, err));
        if (got != options[i].neutral && got != 0)
            return error_set_field(err, RADISH_E_UNSUPPORTED, r->key,
                                   "%s is %g: %s is not supported for %s", r->key, got,
                                   options[i].what, r->prefix);
    }
    return RADISH_OK;
}

/* sliding_window_pattern says which layers have windows: every so many-th has none, or one answer
 * for each layer; without it the family's rule holds. */
static enum radish_status read_pattern(struct reader *r, const struct model_config *config,
                                       bool *is_windowed, struct radish_error *err) {
    const char *key = key_of(r, "attention.sliding_window_pattern");
    const struct gguf_value *value = gguf_find(r->gguf, key);
    uint32_t period = config->arch->window_period;
    if (value && value->type == GGUF_ARRAY) {
        if (!gguf_is_int(value->array.elem_type) || value->array.n < config->n_layers)
            return error_set_field(err, RADISH_E_FORMAT, key,
                                   "%s must be a number or an array of %u", key, config->n_layers);
        for (uint32_t layer = 0; layer < config->n_layers; layer++)
            is_windowed[layer] = gguf_array_i64(value, layer) != 0;
        return RADISH_OK;
    }
    RADISH_TRY(gguf_get_u32(r->gguf, key, &period, err));
    for (uint32_t layer = 0; layer < config->n_layers; layer++)
        is_windowed[layer] = !period || (layer + 1) % period != 0;
    return RADISH_OK;
}

static enum radish_status read_windows(struct reader *r, struct model_config *config,
                                       struct radish_error *err) {
    const struct arch *arch = config->arch;
    bool is_windowed[CONFIG_LAYERS_MAX] = {false};
    double window = arch->is_window_implied ? arch->window : 0;
    if (arch->flags & ARCH_READS_NO_ROPE_LAYERS)
        for (uint32_t layer = 0; layer < config->n_layers; layer++)
            config->has_rope[layer] = (layer + 1) % 4 != 0;
    RADISH_TRY(read_number(r, "attention.sliding_window", 0, 1e9, &window, err));
    if (!(arch->flags & ARCH_HAS_WINDOW) && window > 0 && window < config->context_trained)
        return error_set_field(err, RADISH_E_UNSUPPORTED, r->key,
                               "%s is %g: sliding windows are not supported for %s", r->key, window,
                               r->prefix);
    if (window < 1 || !(arch->flags & ARCH_HAS_WINDOW)) return RADISH_OK;
    RADISH_TRY(read_pattern(r, config, is_windowed, err));
    config_set_windows(config, (uint32_t)window, is_windowed);
    return RADISH_OK;
}

/* Scales and caps, each read by the families that have it. */
static enum radish_status read_scales(struct reader *r, struct model_config *config,
                                      struct radish_error *err) {
    uint32_t flags = config->arch->flags;
    if (flags & ARCH_SCALED_EMBEDDING) config->embedding_scale = sqrt(config->hidden_dim);
    if (flags & ARCH_READS_SOFT_CAPS) {
        RADISH_TRY(
            read_number(r, "attn_logit_softcapping", 0, 1e9, &config->attention_soft_cap, err));
        RADISH_TRY(read_number(r, "final_logit_softcapping", 0, 1e9, &config->logit_soft_cap, err));
    }
    /* The largest gemma2 and gemma3 are known by their layers; no key says it. */
    if (flags & ARCH_READS_QUERY_SCALE && (config->n_layers == 46 || config->n_layers == 62))
        config->attention_scale = 1 / sqrt((double)config->hidden_dim / config->n_heads[0]);
    if (flags & ARCH_READS_LOGIT_SCALE)
        RADISH_TRY(read_number(r, "logit_scale", 1e-9, 1e9, &config->logit_scale, err));
    if (flags & ARCH_READS_MULTIPLIERS) {
        double embedding = 1, residual = 1, logits = 1;
        bool has_rope = true;
        RADISH_TRY(gguf_get_bool(r->gguf, key_of(r, "rope.scaling.finetuned"), &has_rope, err));
        if (!has_rope)
            return error_set_field(err, RADISH_E_UNSUPPORTED, r->key,
                                   "%s is false: models without RoPE are not supported", r->key);
        RADISH_TRY(read_number(r, "attention.scale", 1e-9, 1e9, &config->attention_scale, err));
        RADISH_TRY(read_number(r, "embedding_scale", 1e-9, 1e9, &embedding, err));
        RADISH_TRY(read_number(r, "residual_scale", 1e-6, 1e6, &residual, err));
        RADISH_TRY(read_number(r, "logit_scale", 1e-9, 1e9, &logits, err));
        config_set_multipliers(config, embedding, residual, logits);
    }
    return RADISH_OK;
}

/* A tensor of one divisor for each pair; absent: *n_out = 0. */
static enum radish_status read_factors(const struct model_file *file, const char *name,
                                       uint32_t n_pairs, double *factors_out, uint32_t *n_out,
                                       struct radish_error *err) {
    float values[ROPE_PAIRS_MAX];
    const struct model_tensor *tensor = file ? model_file_find(file, name) : NULL;
    *n_out = 0;
    if (!tensor) return RADISH_OK;
    if (tensor->n_dims != 1 || tensor->shape[0] != n_pairs || !dtype_can_read(tensor->dtype) ||
        dtype_is_quantised(tensor->dtype))
        return error_set_field(err, RADISH_E_FORMAT, name,
                               "tensor %s must be a vector of %u floats, one for each RoPE pair",
                               name, n_pairs);
    dtype_to_f32(tensor->dtype, tensor->data, values, n_pairs);
    for (uint32_t i = 0; i < n_pairs; i++) {
        if (!(values[i] > 0 && values[i] < 1e9f))
            return error_set_field(err, RADISH_E_FORMAT, name,
                                   "tensor %s holds %g at %u; factors must be above 0", name,
                                   (double)values[i], i);
        factors_out[i] = (double)values[i];
    }
    *n_out = n_pairs;
    return RADISH_OK;
}

static enum radish_status find_rope_kind(struct reader *r, double factor, enum rope_kind *kind_out,
                                         struct radish_error *err) {
    static const struct {
        const char *name;
        enum rope_kind kind;
    } kinds[] = {{"none", ROPE_DEFAULT},
                 {"linear", ROPE_LINEAR},
                 {"yarn", ROPE_YARN},
                 {"longrope", ROPE_LONGROPE}};
    struct gguf_str name = {"linear", 6};
    RADISH_TRY(gguf_get_str(r->gguf, key_of(r, "rope.scaling.type"), &name, err));
    for (size_t i = 0; i < sizeof kinds / sizeof *kinds; i++) {
        if (name.len != strlen(kinds[i].name) || memcmp(name.data, kinds[i].name, name.len) != 0)
            continue;
        *kind_out = kinds[i].kind;
        if (*kind_out == ROPE_LINEAR && factor == 1) *kind_out = ROPE_DEFAULT;
        return RADISH_OK;
    }
    return error_set_field(err, RADISH_E_UNSUPPORTED, r->key,
                           "RoPE scaling '%.*s' is not supported; supported: none, linear, yarn, "
                           "longrope, and rope_freqs.weight",
                           (int)(name.len < 32 ? name.len : 32), name.data);
}

static enum radish_status read_yarn(struct reader *r, struct rope_config *rope,
                                    struct radish_error *err) {
    double ext_factor = 1, log_multiplier = 0, attn_factor = 1;
    RADISH_TRY(read_number(r, "rope.scaling.yarn_beta_fast", 1e-6, 1e6, &rope->beta_fast, err));
    RADISH_TRY(read_number(r, "rope.scaling.yarn_beta_slow", 1e-6, 1e6, &rope->beta_slow, err));
    RADISH_TRY(read_number(r, "rope.scaling.yarn_log_multiplier", 0, 1e6, &log_multiplier, err));
    RADISH_TRY(read_number(r, "rope.scaling.yarn_ext_factor", -1e6, 1e6, &ext_factor, err));
    if (ext_factor >= 0 && ext_factor != 1) /* negative: the default, 1 */
        return error_set_field(err, RADISH_E_UNSUPPORTED, r->key,
                               "%s %g is not supported; supported: 1", r->key, ext_factor);
    RADISH_TRY(read_number(r, "rope.scaling.attn_factor", 1e-6, 1e6, &attn_factor, err));
    RADISH_TRY(read_number(r, "rope.scaling.yarn_attn_factor", 1e-6, 1e6, &attn_factor, err));
    double scale = rope->factor > 1 ? 0.1 * log(rope->factor) : 0;
    rope->attention_factor = attn_factor * (1 + scale);
    if (log_multiplier > 0) rope->attention_factor /= 1 + log_multiplier * scale;
    return RADISH_OK;
}

static enum radish_status read_longrope(struct reader *r, uint32_t n_pairs, uint32_t max_positions,
                                        struct rope_config *rope, struct radish_error *err) {
    uint32_t n_short, n_long;
    RADISH_TRY(read_factors(r->file, "rope_factors_short.weight", n_pairs, rope->freq_factors,
                            &n_short, err));
    RADISH_TRY(read_factors(r->file, "rope_factors_long.weight", n_pairs, rope->freq_factors_long,
                            &n_long, err));
    if (!n_short || !n_long)
        return error_set(err, RADISH_E_FORMAT,
                         "longrope scaling needs the tensors rope_factors_short.weight and "
                         "rope_factors_long.weight");
    rope->n_freq_factors = n_pairs;
    if (rope->context_original) rope->factor = (double)max_positions / rope->context_original;
    return read_number(r, "rope.scaling.attn_factor", 1e-6, 1e6, &rope->attention_factor, err);
}

static enum radish_status read_rope(struct reader *r, struct model_config *config,
                                    uint32_t max_positions, struct radish_error *err) {
    struct rope_config *rope = &config->rope;
    double factor = 0;
    config->rotary_dim = config->head_dim;
    RADISH_TRY(
        read_count(r, "rope.dimension_count", CONFIG_HEAD_DIM_MAX, &config->rotary_dim, err));
    if (config->rotary_dim > config->head_dim) return config_check(config, err);
    uint32_t n_pairs = config->rotary_dim / 2;

    rope->pairing = config->arch->gguf_pairing;
    rope->theta = config->arch->rope_theta > 0 ? config->arch->rope_theta : 10000;
    RADISH_TRY(read_number(r, "rope.freq_base", 1.001, 1e15, &rope->theta, err));
    RADISH_TRY(read_number(r, "rope.scale_linear", 0, 1e6, &factor, err));
    RADISH_TRY(read_number(r, "rope.scaling.factor", 0, 1e6, &factor, err));
    rope->factor = factor < 1e-3 ? 1 : factor; /* 0 means none */
    config->rope_local.pairing = rope->pairing;
    config->rope_local.theta = 10000;
    if (config->arch->flags & ARCH_LOCAL_ROPE)
        RADISH_TRY(
            read_number(r, "rope.freq_base_swa", 1.001, 1e15, &config->rope_local.theta, err));
    RADISH_TRY(find_rope_kind(r, rope->factor, &rope->kind, err));
    /* Phi-3's converter writes longrope's factors without the type. */
    if (rope->kind == ROPE_DEFAULT && has_tensor(r, "rope_factors_short.weight"))
        rope->kind = ROPE_LONGROPE;

    uint32_t original = max_positions;
    const char *original_key = "rope.scaling.original_context_length";
    bool has_original = gguf_find(r->gguf, key_of(r, original_key));
    RADISH_TRY(read_count(r, original_key, CONFIG_CONTEXT_MAX, &original, err));
    rope->context_original = original;
    if (rope->kind == ROPE_YARN) RADISH_TRY(read_yarn(r, rope, err));
    if (rope->kind == ROPE_LONGROPE)
        RADISH_TRY(read_longrope(r, n_pairs, max_positions, rope, err));
    else
        RADISH_TRY(read_factors(r->file, "rope_freqs.weight", n_pairs, rope->freq_factors,
                                &rope->n_freq_factors, err));
    config_set_context(config, max_positions, has_original);
    return RADISH_OK;
}

static enum radish_status read_vocab(struct reader *r, uint32_t *n_vocab_out,
                                     struct radish_error *err) {
    const struct gguf_value *tokens = gguf_find(r->gguf, "tokenizer.ggml.tokens");
    uint32_t n = 0;
    if (tokens) {
        uint64_t n_tokens = tokens->type == GGUF_ARRAY ? tokens->array.n : 0;
        if (!n_tokens || n_tokens > CONFIG_VOCAB_MAX)
            return error_set_field(err, RADISH_E_FORMAT, "tokenizer.ggml.tokens",
                                   "tokenizer.ggml.tokens must be an array of 1 to %u strings",
                                   CONFIG_VOCAB_MAX);
        n = (uint32_t)n_tokens;
    }
    /* The key counts rows of the embedding, which some converters pad beyond the tokens. */
    RADISH_TRY(read_count(r, "vocab_size", CONFIG_VOCAB_MAX, &n, err));
    *n_vocab_out = n;
    return RADISH_OK;
}

static enum radish_status read_shape(struct reader *r, struct model_config *config,
                                     struct radish_error *err) {
    RADISH_TRY(read_count(r, "block_count", CONFIG_LAYERS_MAX, &config->n_layers, err));
    RADISH_TRY(read_count(r, "embedding_length", CONFIG_HIDDEN_MAX, &config->hidden_dim, err));
    RADISH_TRY(read_vocab(r, &config->n_vocab, err));
    uint32_t n_layers = config->n_layers;
    RADISH_TRY(read_per_layer(r, "attention.head_count", n_layers, CONFIG_HEADS_MAX,
                              config->n_heads, err));
    if (gguf_find(r->gguf, key_of(r, "attention.head_count_kv")))
        RADISH_TRY(read_per_layer(r, "attention.head_count_kv", n_layers, CONFIG_HEADS_MAX,
                                  config->n_kv_heads, err));
    else
        memcpy(config->n_kv_heads, config->n_heads, n_layers * sizeof *config->n_heads);
    RADISH_TRY(
        read_per_layer(r, "feed_forward_length", n_layers, CONFIG_FFN_MAX, config->ffn_dim, err));

    uint32_t head_dim = config->n_heads[0] ? config->hidden_dim / config->n_heads[0] : 0;
    RADISH_TRY(read_count(r, "attention.key_length", CONFIG_HEAD_DIM_MAX, &head_dim, err));
    config->head_dim = config->v_head_dim = head_dim;
    RADISH_TRY(
        read_count(r, "attention.value_length", CONFIG_HEAD_DIM_MAX, &config->v_head_dim, err));
    config->attention_scale = 1 / sqrt(head_dim);
    const char *eps = config->arch->flags & ARCH_LAYER_NORM ? "attention.layer_norm_epsilon"
                                                            : "attention.layer_norm_rms_epsilon";
    return read_number(r, eps, 0, 1, &config->norm_eps, err);
}

/* Biases are there or not. */
static enum radish_status find_flags(struct reader *r, struct model_config *config,
                                     struct radish_error *err) {
    bool is_fused = has_tensor(r, "blk.0.attn_qkv.bias");
    config->has_attention_bias =
        config->has_attention_bias || has_tensor(r, "blk.0.attn_q.bias") || is_fused;
    config->has_attention_output_bias = has_tensor(r, "blk.0.attn_output.bias");
    config->has_mlp_bias = has_tensor(r, "blk.0.ffn_up.bias");
    config->is_tied = !has_tensor(r, "output.weight");
    /* Converters write use_parallel_residual for stablelm whatever it is; the tensor does not lie.
     */
    if (config->arch->layout == ARCH_LAYOUT_STABLELM) {
        if (has_tensor(r, "blk.0.attn_q_norm.weight"))
            return error_set(err, RADISH_E_UNSUPPORTED, "norms of Q and K are not supported for %s",
                             r->prefix);
        config->is_parallel = !has_tensor(r, "blk.0.ffn_norm.weight");
    } else if (config->arch->flags & ARCH_READS_PARALLEL) {
        RADISH_TRY(
            gguf_get_bool(r->gguf, key_of(r, "use_parallel_residual"), &config->is_parallel, err));
    }
    config->has_two_norms = !config->is_parallel;
    return RADISH_OK;
}

static enum radish_status read_ends(const struct gguf *gguf, struct model_config *config,
                                    struct radish_error *err) {
    static const char *const keys[] = {"tokenizer.ggml.eos_token_id", "tokenizer.ggml.eot_token_id",
                                       "tokenizer.ggml.eom_token_id"};
    for (size_t i = 0; i < sizeof keys / sizeof *keys; i++) {
        uint32_t id = 0;
        if (!gguf_find(gguf, keys[i])) continue;
        RADISH_TRY(gguf_get_u32(gguf, keys[i], &id, err));
        RADISH_TRY(config_add_eos(config, id, err));
    }
    uint32_t bos = UINT32_MAX;
    RADISH_TRY(gguf_get_u32(gguf, "tokenizer.ggml.bos_token_id", &bos, err));
    config->bos_id = bos < config->n_vocab ? (int32_t)bos : -1;
    return RADISH_OK;
}

static enum radish_status read_sampling(struct reader *r, struct radish_sampling *sampling,
                                        struct radish_error *err) {
    double temperature = sampling->temperature, top_p = sampling->top_p, min_p = sampling->min_p;
    double repetition = sampling->repetition_penalty, top_k = sampling->top_k;
    r->prefix = "general";
    RADISH_TRY(read_number(r, "sampling.temp", 0, 1e6, &temperature, err));
    RADISH_TRY(read_number(r, "sampling.top_p", 1e-9, 1, &top_p, err));
    RADISH_TRY(read_number(r, "sampling.min_p", 0, 1, &min_p, err));
    RADISH_TRY(read_number(r, "sampling.penalty_repeat", 1e-6, 2, &repetition, err));
    RADISH_TRY(read_number(r, "sampling.top_k", INT32_MIN, INT32_MAX, &top_k, err));
    sampling->temperature = (float)temperature;
    sampling->top_p = (float)top_p;
    sampling->min_p = (float)min_p;
    sampling->repetition_penalty = (float)repetition;
    sampling->top_k = top_k < 1 ? -1 : (int32_t)top_k;
    return RADISH_OK;
}

enum radish_status config_read_gguf(const struct gguf *gguf, const struct model_file *file,
                                    struct model_config *config, struct radish_error *err) {
    const struct arch *arch;
    RADISH_TRY(find_arch(gguf, &arch, err));
    config_set_arch(config, arch, MODEL_FORMAT_GGUF);
    struct reader r = {gguf, file, arch->gguf_name, ""};
    uint32_t max_positions = 0;
    RADISH_TRY(read_shape(&r, config, err));
    RADISH_TRY(find_flags(&r, config, err));
    RADISH_TRY(read_scales(&r, config, err));
    RADISH_TRY(read_count(&r, "context_length", CONFIG_CONTEXT_MAX, &max_positions, err));
    RADISH_TRY(read_rope(&r, config, max_positions, err));
    RADISH_TRY(read_windows(&r, config, err));
    RADISH_TRY(refuse_options(&r, config, err));
    RADISH_TRY(read_ends(gguf, config, err));
    RADISH_TRY(read_sampling(&r, &config->sampling, err));
    return config_check(config, err);
}
