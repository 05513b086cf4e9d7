/* arch.h - the architectures radish knows: each is a row of arch.def (names, defaults, flags, which
 * tensors) and a layer function in a file of its own (the order of operations, nothing else).
 *
 * Owns nothing: all rows are static. Threads: any. How to add one: docs/ADDING_A_MODEL.md. */
#ifndef MODEL_ARCH_H
#define MODEL_ARCH_H

#include "radish.h"

#include "model/config.h"

struct layer_run;

/* Records one layer on the device: reads and writes run->x (the residual stream). */
typedef void (*arch_layer_fn)(struct layer_run *run);

/* What config.json may say about an architecture, or what is true of it without being said. */
#define ARCH_QKV_BIAS             (1u << 0) /* Q, K and V have biases, O has none */
#define ARCH_READS_ATTENTION_BIAS (1u << 1) /* attention_bias gives Q, K, V and O biases */
#define ARCH_READS_QKV_BIAS       (1u << 2) /* attention_bias or use_qkv_bias: Q, K and V only */
#define ARCH_READS_MLP_BIAS       (1u << 3)
#define ARCH_ALL_BIASES           (1u << 4)  /* every product of a layer has a bias */
#define ARCH_QK_NORM              (1u << 5)  /* a norm of Q and K before RoPE: per head ... */
#define ARCH_WIDE_QK_NORM         (1u << 6)  /* ... or over all heads */
#define ARCH_LAYER_NORM           (1u << 7)  /* means are subtracted; eps is layer_norm_eps */
#define ARCH_NORM_PLUS_ONE        (1u << 8)  /* HF files hold norm weights minus 1 */
#define ARCH_NO_GATE              (1u << 9)  /* down(act(up h)) */
#define ARCH_NO_GQA               (1u << 10) /* num_key_value_heads means nothing */
#define ARCH_HAS_PARTIAL_ROTATION (1u << 11) /* partial_rotary_factor may be below 1 */
#define ARCH_READS_PARALLEL       (1u << 12) /* use_parallel_residual */
#define ARCH_READS_NO_ROPE_LAYERS (1u << 13) /* no_rope_layers, no_rope_layer_interval */
#define ARCH_ROPE_IN_WINDOWS      (1u << 14) /* layers of full attention have no RoPE */
#define ARCH_READS_SLIDING_WINDOW (1u << 15) /* use_sliding_window, max_window_layers */
#define ARCH_HAS_WINDOW           (1u << 16) /* sliding_window holds unless null */
#define ARCH_SCALED_EMBEDDING     (1u << 17) /* by sqrt(hidden_size) */
#define ARCH_READS_SOFT_CAPS      (1u << 18) /* attn_, final_logit_softcapping */
#define ARCH_READS_QUERY_SCALE    (1u << 19) /* query_pre_attn_scalar */
#define ARCH_READS_MULTIPLIERS    (1u << 20) /* embedding_, attention_, residual_, logits_ ... */
#define ARCH_READS_LOGIT_SCALE    (1u << 21) /* logit_scale: a factor */
#define ARCH_LOCAL_ROPE           (1u << 22) /* layers with a window rotate by a base of their own */

/* Families that name and shape their tensors alike share a layout. A row of arch.def may belong to
 * several: then it names a set. */
enum arch_layout {
    ARCH_LAYOUT_LLAMA = 1 << 0,
    ARCH_LAYOUT_PHI3 = 1 << 1,     /* Q, K, V and gate, up in one tensor each */
    ARCH_LAYOUT_GLM4 = 1 << 2,     /* gate, up in one; norms before and after */
    ARCH_LAYOUT_STABLELM = 1 << 3, /* norms have biases */
    ARCH_LAYOUT_GPT_NEOX = 1 << 4,
    ARCH_LAYOUT_PHI = 1 << 5,
    ARCH_LAYOUT_GEMMA = 1 << 6,  /* norms before and after */
    ARCH_LAYOUT_OLMO2 = 1 << 7,  /* norms after only */
    ARCH_LAYOUT_COHERE = 1 << 8, /* one norm a layer */
    /* Sets. */
    ARCH_LAYOUT_USUAL = (1 << 9) - 1 - ARCH_LAYOUT_GPT_NEOX,
    ARCH_LAYOUT_USUAL_NORM = ARCH_LAYOUT_USUAL - ARCH_LAYOUT_PHI,
    ARCH_LAYOUT_PRE_NORM = ARCH_LAYOUT_USUAL - ARCH_LAYOUT_OLMO2,
    ARCH_LAYOUT_SPLIT_QKV = ARCH_LAYOUT_USUAL - ARCH_LAYOUT_PHI3 - ARCH_LAYOUT_PHI,
    ARCH_LAYOUT_FFN_NORM =
        ARCH_LAYOUT_LLAMA | ARCH_LAYOUT_PHI3 | ARCH_LAYOUT_GLM4 | ARCH_LAYOUT_STABLELM,
    ARCH_LAYOUT_FUSED_GATE_UP = ARCH_LAYOUT_PHI3 | ARCH_LAYOUT_GLM4,
    ARCH_LAYOUT_SPLIT_GATE_UP = ARCH_LAYOUT_USUAL_NORM - ARCH_LAYOUT_FUSED_GATE_UP,
    ARCH_LAYOUT_POST_NORM = ARCH_LAYOUT_GEMMA | ARCH_LAYOUT_OLMO2,
    ARCH_LAYOUT_NORM_BIAS = ARCH_LAYOUT_STABLELM | ARCH_LAYOUT_PHI
};

struct arch {
    const char *name;      /* "qwen3" */
    const char *hf_class;  /* "Qwen3ForCausalLM" in config.json's architectures */
    const char *hf_type;   /* "qwen3" in its model_type */
    const char *gguf_name; /* general.architecture and the prefix of its keys */
    enum arch_layout layout;
    enum rope_pairing hf_pairing, gguf_pairing;
    uint32_t flags;
    arch_layer_fn layer;
    /* What files mean that do not say so. */
    uint32_t head_dim;   /* 0: hidden / heads */
    uint32_t n_kv_heads; /* 0: as many as heads */
    double norm_eps;     /* 0: 1e-6 */
    double rope_theta;   /* 0: 10000 */
    double rotated;      /* part of a head that rotates; 0: all */
    enum activation activation;
    uint32_t window;        /* with ARCH_HAS_WINDOW; 0: none */
    uint32_t window_period; /* every so many-th layer has full attention; 0: none has */
    bool is_window_implied; /* GGUF files that give no window mean it, too */
    double attention_soft_cap, logit_soft_cap; /* 0: none */
    double logit_scale;                        /* with ARCH_READS_LOGIT_SCALE */
    bool is_parallel;                          /* attention and feed-forward read the same x */
    bool is_tied;
};

const struct arch *arch_find_hf_class(const char *hf_class); /* NULL = unknown */
const struct arch *arch_find_hf_type(const char *hf_type);
const struct arch *arch_find_gguf(const char *name, size_t len);

/* "llama, qwen2, qwen3 ...", for messages: names, as classes would not fit into one. static. */
const char *arch_list(void);

/* Extents of tensors, as functions of the configuration and the layer. */
enum tensor_dim {
    TENSOR_DIM_ONE, /* as columns: the tensor is a vector */
    TENSOR_DIM_HIDDEN,
    TENSOR_DIM_VOCAB,
    TENSOR_DIM_Q,    /* n_heads * head_dim */
    TENSOR_DIM_K,    /* n_kv_heads * head_dim */
    TENSOR_DIM_V,    /* n_kv_heads * v_head_dim */
    TENSOR_DIM_ATTN, /* n_heads * v_head_dim */
    TENSOR_DIM_FFN,
    TENSOR_DIM_HEAD /* head_dim */
};
uint32_t arch_dim(const struct model_config *config, uint32_t layer, enum tensor_dim dim);

/* When a model has a tensor. */
enum tensor_when {
    TENSOR_ALWAYS,
    TENSOR_UNTIED,
    TENSOR_QKV_BIAS,
    TENSOR_O_BIAS,
    TENSOR_MLP_BIAS,
    TENSOR_GATE_BIAS,
    TENSOR_GATED,
    TENSOR_QK_NORM,
    TENSOR_WIDE_QK_NORM,
    TENSOR_TWO_NORMS
};

enum tensor_scope { TENSOR_OF_MODEL, TENSOR_OF_LAYER };

/* What becomes an f32 vector (weights of norms get norm_offset added; those before the logits, and
 * their biases, are multiplied by logit_scale), what matmul multiplies with, what embed reads. */
enum tensor_use {
    TENSOR_VECTOR,
    TENSOR_NORM,
    TENSOR_LAST_NORM,
    TENSOR_LAST_BIAS,
    TENSOR_MATRIX,
    TENSOR_EMBEDDING
};

/* One tensor of a layout: its names, its shape, and the field of struct weights or struct
 * layer_weights that it fills. */
struct arch_tensor {
    enum arch_layout layout;
    enum tensor_scope scope;
    enum tensor_use use;
    const char *role;                /* the field's name */
    size_t offset;                   /* of the field */
    const char *hf_name, *gguf_name; /* '#': the layer's number, ':' a part, '|' another name */
    enum tensor_dim rows, columns;
    enum tensor_when when;
};

/* All rows of arch.def, of every layout. */
const struct arch_tensor *arch_tensors(size_t *n_out);

/* Whether a model of this configuration has the tensor. */
bool arch_has_tensor(const struct model_config *config, const struct arch_tensor *tensor);

/* Which rows of a tensor of `total` rows a role takes: row i is row
 * first + i / block * stride + i % block. All of them: first 0, block == total. */
struct arch_slice {
    uint32_t first, block, stride, total;
};

#define ARCH_TENSOR_NAME_MAX 160
struct arch_name {
    char text[ARCH_TENSOR_NAME_MAX]; /* '#' replaced */
    struct arch_slice slice;
};

/* The alternative-th name that files of the format have for it, and which rows of that tensor it
 * is; false: there are no more. */
bool arch_tensor_name(const struct model_config *config, const struct arch_tensor *tensor,
                      enum model_format format, uint32_t layer, uint32_t alternative,
                      struct arch_name *name_out);

#endif
