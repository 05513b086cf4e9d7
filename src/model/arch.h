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
#define ARCH_READS_MLP_BIAS       (1u << 2)
#define ARCH_QK_NORM              (1u << 3) /* RMSNorm per head on Q and K before RoPE */
#define ARCH_READS_SLIDING_WINDOW (1u << 4) /* use_sliding_window, sliding_window, layer_types */
#define ARCH_HAS_PARTIAL_ROTATION (1u << 5) /* partial_rotary_factor may be below 1 */

/* Families that name and shape their tensors alike share a layout. */
enum arch_layout { ARCH_LAYOUT_LLAMA };

struct arch {
    const char *name;      /* "qwen3" */
    const char *hf_class;  /* "Qwen3ForCausalLM" in config.json's architectures */
    const char *hf_type;   /* "qwen3" in its model_type */
    const char *gguf_name; /* general.architecture and the prefix of its keys */
    enum arch_layout layout;
    enum rope_pairing hf_pairing, gguf_pairing;
    uint32_t flags;
    uint32_t head_dim_default;   /* where config.json gives no head_dim; 0: hidden / heads */
    uint32_t n_kv_heads_default; /* where it gives no num_key_value_heads; 0: as many as heads */
    arch_layer_fn layer;
};

const struct arch *arch_find_hf_class(const char *hf_class); /* NULL = unknown */
const struct arch *arch_find_hf_type(const char *hf_type);
const struct arch *arch_find_gguf(const char *name, size_t len);

/* "llama, qwen2, qwen3", for messages; HF class names with by_hf_class. static. */
const char *arch_list(bool by_hf_class);

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
    TENSOR_QK_NORM
};

enum tensor_scope { TENSOR_OF_MODEL, TENSOR_OF_LAYER };

/* What embed reads by row, what matmul multiplies with, and what becomes an f32 vector. */
enum tensor_use { TENSOR_VECTOR, TENSOR_MATRIX, TENSOR_EMBEDDING };

/* One tensor of a layout: its names, its shape, and the field of struct weights or struct
 * layer_weights that it fills. */
struct arch_tensor {
    enum arch_layout layout;
    enum tensor_scope scope;
    enum tensor_use use;
    const char *role;                /* the field's name */
    size_t offset;                   /* of the field */
    const char *hf_name, *gguf_name; /* '#' stands for the layer's number */
    enum tensor_dim rows, columns;
    enum tensor_when when;
};

/* All rows of arch.def, of every layout. */
const struct arch_tensor *arch_tensors(size_t *n_out);

/* Whether a model of this configuration has the tensor. */
bool arch_has_tensor(const struct model_config *config, const struct arch_tensor *tensor);

#define ARCH_TENSOR_NAME_MAX 160
/* The tensor's name in a file, '#' replaced. */
void arch_tensor_name(const struct arch_tensor *tensor, enum model_format format, uint32_t layer,
                      char name_out[ARCH_TENSOR_NAME_MAX]);

#endif
