/* config.h - what a model is, in one plain struct, from config.json (both spellings) or GGUF
 * metadata.
 *
 * Threads: immutable after config_read(). No pointers into files except where said. */
#ifndef MODEL_CONFIG_H
#define MODEL_CONFIG_H

#include "radish.h"

#include "format/model_file.h"
#include "kernel/kernel_args.h"
#include "tensor/dtype.h"

#define CONFIG_LAYERS_MAX 512
#define CONFIG_EOS_MAX    32
#define ROPE_PAIRS_MAX    512 /* head_dim up to 1,024 */

enum rope_kind { ROPE_DEFAULT, ROPE_LINEAR, ROPE_LLAMA3, ROPE_YARN, ROPE_LONGROPE };
enum rope_pairing { ROPE_NEOX /* (d, d + rotary_dim/2) */, ROPE_INTERLEAVED /* (2d, 2d + 1) */ };

struct rope_config {
    enum rope_kind kind;
    enum rope_pairing pairing;
    double theta;
    double factor;                            /* linear, llama3, yarn */
    double low_freq_factor, high_freq_factor; /* llama3 */
    uint32_t context_original;                /* llama3, yarn, longrope */
    double attention_factor;                  /* yarn, longrope; 0 = by the formula */
    double beta_fast, beta_slow;              /* yarn */
    double mscale, mscale_all_dim;            /* yarn; 0 = absent */
    bool truncate;                            /* yarn: floor and ceil of the correction range */
    uint32_t n_freq_factors; /* rope_freqs.weight (GGUF) or longrope's factors; 0 = none, else
                                rotary_dim / 2 */
    double freq_factors[ROPE_PAIRS_MAX]; /* inverse frequency is divided by these */
    /* longrope only: used instead of freq_factors where more than context_original tokens are
     * served. */
    double freq_factors_long[ROPE_PAIRS_MAX];
};

struct arch;

struct model_config {
    const struct arch *arch; /* static row of arch.def */
    uint32_t n_layers;
    uint32_t hidden_dim;
    uint32_t n_vocab;
    uint32_t head_dim; /* of Q and K */
    uint32_t v_head_dim;
    uint32_t rotary_dim;                 /* <= head_dim */
    uint32_t n_heads[CONFIG_LAYERS_MAX]; /* query heads per layer */
    uint32_t n_kv_heads[CONFIG_LAYERS_MAX];
    uint32_t ffn_dim[CONFIG_LAYERS_MAX];
    uint32_t window[CONFIG_LAYERS_MAX];     /* keys that a query sees, its own among them; 0: all */
    bool has_rope[CONFIG_LAYERS_MAX];       /* false: Q and K stay as they are */
    bool has_local_rope[CONFIG_LAYERS_MAX]; /* rotates by rope_local */
    enum activation activation;             /* between the products of a feed-forward part */
    double norm_eps;
    double norm_offset;     /* added to the weights of norms that the file holds */
    double attention_scale; /* scores are multiplied by it: 1 / sqrt(head_dim) unless a family says
                               otherwise */
    double attention_soft_cap, logit_soft_cap; /* 0: none */
    double embedding_scale;
    double logit_scale; /* part of the last norm's weights once they are loaded */
    bool has_attention_bias, has_attention_output_bias, has_mlp_bias, has_qk_norm;
    bool has_gate;      /* down(act(gate h) * up h), not down(act(up h)) */
    bool has_two_norms; /* a norm of its own before the feed-forward part */
    bool is_parallel;   /* attention and feed-forward read the same x, their sum is added */
    bool is_tied;       /* logits use the embedding matrix */
    uint32_t
        context_trained; /* max_position_embeddings, times the factor where scaling extends it */
    enum dtype dtype;    /* of most weights: decides the KV dtype */
    struct rope_config rope, rope_local;
    int32_t bos_id;                  /* -1 = none */
    int32_t eos_ids[CONFIG_EOS_MAX]; /* union of all places that name end tokens, known without the
                                        tokenizer */
    uint32_t n_eos_ids;
    struct radish_sampling sampling; /* defaults of generation_config; no pointers */
};

/* E_UNSUPPORTED names architecture, RoPE type or option and lists what is supported; E_FORMAT names
 * the key at fault. */
enum radish_status config_read(const struct model_file *file, struct model_config *config_out,
                               struct radish_error *err) RADISH_CHECK_RESULT;

#endif
