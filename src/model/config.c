/* config.c - from a model's files to struct model_config: the part that both formats share.
 *
 * config.json and GGUF metadata say the same things in different words and with different gaps.
 * Each has a reader (config_hf.c, config_gguf.c) that fills the struct, defaults included; here the
 * result is checked once, so that everything behind this file may trust it: counts are at least 1
 * and bounded, heads divide, rotation fits into the head. Numbers in a config file are a stranger's
 * numbers: without these checks they become loop bounds and allocation sizes.
 *
 * How far a model's context goes: max_position_embeddings (GGUF: context_length) is the length the
 * model is meant for, except where a scaling was added on top of it. linear: the field is the
 * length before scaling, times the factor (gemma3: it includes the scaling). yarn: the length
 * before scaling is original_max_position_embeddings where given; original times factor counts
 * where it is larger (Qwen's published recipe adds the scaling and leaves the field); without it
 * the field is the original. llama3 and longrope: the field includes the scaling. */
#include "config.h"

#include "arch.h"
#include "base/log.h"
#include "base/status.h"
#include "config_int.h"

#include <string.h>

void config_init(struct model_config *config) {
    memset(config, 0, sizeof *config);
    config->bos_id = -1;
    config->embedding_scale = config->logit_scale = 1;
    config->rope.truncate = true;
    config->rope.factor = 1;
    config->rope.beta_fast = 32;
    config->rope.beta_slow = 1;
    /* As radish_sampling_init(), which lives above this module. */
    config->sampling.temperature = 1;
    config->sampling.top_k = -1;
    config->sampling.top_p = 1;
    config->sampling.repetition_penalty = 1;
}

void config_set_arch(struct model_config *config, const struct arch *arch,
                     enum model_format format) {
    uint32_t flags = arch->flags;
    config->arch = arch;
    config->norm_eps = arch->norm_eps > 0 ? arch->norm_eps : 1e-6;
    config->norm_offset = flags & ARCH_NORM_PLUS_ONE && format != MODEL_FORMAT_GGUF ? 1 : 0;
    config->activation = arch->activation;
    config->attention_soft_cap = arch->attention_soft_cap;
    config->logit_soft_cap = arch->logit_soft_cap;
    config->has_attention_bias = flags & (ARCH_QKV_BIAS | ARCH_ALL_BIASES);
    config->has_attention_output_bias = config->has_mlp_bias = flags & ARCH_ALL_BIASES;
    config->has_qk_norm = flags & (ARCH_QK_NORM | ARCH_WIDE_QK_NORM);
    config->has_gate = !(flags & ARCH_NO_GATE);
    config->is_parallel = arch->is_parallel;
    config->is_tied = arch->is_tied;
    for (uint32_t layer = 0; layer < CONFIG_LAYERS_MAX; layer++) config->has_rope[layer] = true;
}

/* A window no smaller than the context never hides a key. */
void config_set_windows(struct model_config *config, uint32_t window, const bool *is_windowed) {
    bool has_any = false;
    for (uint32_t layer = 0; layer < config->n_layers; layer++) {
        bool is_hiding = is_windowed[layer] && window < config->context_trained;
        config->window[layer] = is_hiding ? window : 0;
        config->has_local_rope[layer] = is_windowed[layer] && config->arch->flags & ARCH_LOCAL_ROPE;
        has_any = has_any || is_windowed[layer];
    }
    if (!(config->arch->flags & ARCH_ROPE_IN_WINDOWS) || !has_any) return;
    for (uint32_t layer = 0; layer < config->n_layers; layer++)
        config->has_rope[layer] = is_windowed[layer];
}

/* x = embedding * e; x += r * f(norm(x)) is what x' = x / r does with embedding * e / r, without r,
 * and with eps / r^2: norms do not see a scale. So r costs nothing. */
void config_set_multipliers(struct model_config *config, double embedding, double residual,
                            double logits) {
    config->embedding_scale = embedding / residual;
    config->norm_eps /= residual * residual;
    config->logit_scale = 1 / logits;
}

enum radish_status config_add_eos(struct model_config *config, int64_t id,
                                  struct radish_error *err) {
    if (id < 0 || id >= config->n_vocab) {
        log_warn("model", "end token %lld is left out: the vocabulary has %u tokens", (long long)id,
                 config->n_vocab);
        return RADISH_OK;
    }
    for (uint32_t i = 0; i < config->n_eos_ids; i++)
        if (config->eos_ids[i] == id) return RADISH_OK;
    if (config->n_eos_ids == CONFIG_EOS_MAX)
        return error_set(err, RADISH_E_LIMIT, "more than %d end tokens", CONFIG_EOS_MAX);
    config->eos_ids[config->n_eos_ids++] = (int32_t)id;
    return RADISH_OK;
}

void config_set_context(struct model_config *config, uint32_t max_positions, bool has_original) {
    struct rope_config *rope = &config->rope;
    double context = max_positions;
    if (!has_original) rope->context_original = max_positions;
    if (rope->kind == ROPE_LINEAR && !(config->arch->flags & ARCH_LOCAL_ROPE))
        context = max_positions * rope->factor;
    if (rope->kind == ROPE_YARN) {
        double extended = rope->context_original * rope->factor;
        if (extended > context) context = extended;
    }
    if (context < 1) context = 1;
    config->context_trained = context < CONFIG_CONTEXT_MAX ? (uint32_t)context : CONFIG_CONTEXT_MAX;
}

static enum radish_status check_layer(const struct model_config *config, uint32_t layer,
                                      struct radish_error *err) {
    uint32_t n_heads = config->n_heads[layer], n_kv_heads = config->n_kv_heads[layer];
    if (!n_heads || !n_kv_heads || !config->ffn_dim[layer])
        return error_set(err, RADISH_E_UNSUPPORTED,
                         "layer %u has %u attention heads, %u KV heads and %u feed-forward rows; "
                         "layers without one of these are not supported",
                         layer, n_heads, n_kv_heads, config->ffn_dim[layer]);
    if (n_heads > CONFIG_HEADS_MAX || n_kv_heads > CONFIG_HEADS_MAX ||
        config->ffn_dim[layer] > CONFIG_FFN_MAX)
        return error_set(err, RADISH_E_FORMAT,
                         "layer %u is too large: %u attention heads, %u KV heads, %u feed-forward "
                         "rows",
                         layer, n_heads, n_kv_heads, config->ffn_dim[layer]);
    if (n_heads % n_kv_heads)
        return error_set(err, RADISH_E_FORMAT,
                         "layer %u: %u attention heads cannot share %u KV heads evenly", layer,
                         n_heads, n_kv_heads);
    return RADISH_OK;
}

enum radish_status config_check(const struct model_config *config, struct radish_error *err) {
    uint32_t head_dim = config->head_dim, rotary_dim = config->rotary_dim;
    if (!head_dim || head_dim > CONFIG_HEAD_DIM_MAX || !config->v_head_dim ||
        config->v_head_dim > CONFIG_HEAD_DIM_MAX)
        return error_set(err, RADISH_E_FORMAT, "head size %u (values: %u) is not from 1 to %u",
                         head_dim, config->v_head_dim, CONFIG_HEAD_DIM_MAX);
    if (!rotary_dim || rotary_dim > head_dim || rotary_dim % 2)
        return error_set(err, RADISH_E_FORMAT,
                         "RoPE over %u elements does not fit a head of %u: it must be even and no "
                         "larger",
                         rotary_dim, head_dim);
    for (uint32_t layer = 0; layer < config->n_layers; layer++)
        RADISH_TRY(check_layer(config, layer, err));
    return RADISH_OK;
}

/* The type that most bytes of the weights have. */
static enum dtype find_main_dtype(const struct model_file *file) {
    uint64_t bytes[RADISH_DTYPE_COUNT] = {0};
    size_t n = model_file_n_tensors(file);
    for (size_t i = 0; i < n; i++) {
        const struct model_tensor *tensor = model_file_tensor(file, i);
        bytes[tensor->dtype] += tensor->n_bytes;
    }
    enum dtype best = RADISH_DTYPE_F32;
    for (int d = 0; d < RADISH_DTYPE_COUNT; d++)
        if (bytes[d] > bytes[best]) best = (enum dtype)d;
    return best;
}

enum radish_status config_read(const struct model_file *file, struct model_config *config_out,
                               struct radish_error *err) {
    config_init(config_out);
    enum radish_status status = RADISH_OK;
    if (model_file_format(file) == MODEL_FORMAT_GGUF)
        status = config_read_gguf(model_file_gguf(file), file, config_out, err);
    else
        status = config_read_hf(model_file_config(file), model_file_generation_config(file),
                                config_out, err);
    if (status == RADISH_OK) config_out->dtype = find_main_dtype(file);
    return status;
}
