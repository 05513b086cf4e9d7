/* arch.c - arch.def turned into tables, and the small questions one asks of them.
 *
 * A family differs from its neighbours in three ways: what its files call things, which options it
 * has, and the order in which a layer computes. The first two are data and live in arch.def; only
 * the third is code, one short function per family. So a new family that names its tensors like an
 * old one is one row and, where the order is new, one function; weights, runner and config are not
 * touched. (The other way, a class hierarchy of models or a switch over families in the loader,
 * spreads each family over many files.) */
#include "arch.h"

#include "base/invariant.h"
#include "runner_int.h"

#include <stdio.h>
#include <string.h>

static const struct arch archs[] = {
#define ARCH(name, layer, hf_class, hf_type, gguf, layout, hf_pairing, gguf_pairing, flags,        \
             head_dim, kv_heads)                                                                   \
    {                                                                                              \
        #name,                                                                                     \
        hf_class,                                                                                  \
        hf_type,                                                                                   \
        gguf,                                                                                      \
        ARCH_LAYOUT_##layout,                                                                      \
        ROPE_##hf_pairing,                                                                         \
        ROPE_##gguf_pairing,                                                                       \
        flags,                                                                                     \
        head_dim,                                                                                  \
        kv_heads,                                                                                  \
        layer},
#define TENSOR(...)
#include "arch.def"
};

#define FIELD_OF_MODEL(field) offsetof(struct weights, field)
#define FIELD_OF_LAYER(field) offsetof(struct layer_weights, field)

static const struct arch_tensor tensors[] = {
#define ARCH(...)
#define TENSOR(layout, scope, use, field, hf, gguf, rows, columns, when)                           \
    {ARCH_LAYOUT_##layout,                                                                         \
     TENSOR_OF_##scope,                                                                            \
     TENSOR_##use,                                                                                 \
     #field,                                                                                       \
     FIELD_OF_##scope(field),                                                                      \
     hf,                                                                                           \
     gguf,                                                                                         \
     TENSOR_DIM_##rows,                                                                            \
     TENSOR_DIM_##columns,                                                                         \
     TENSOR_##when},
#include "arch.def"
};

enum { N_ARCHS = sizeof archs / sizeof *archs, N_TENSORS = sizeof tensors / sizeof *tensors };

const struct arch *arch_find_hf_class(const char *hf_class) {
    for (size_t i = 0; i < N_ARCHS; i++)
        if (!strcmp(archs[i].hf_class, hf_class)) return &archs[i];
    return NULL;
}

const struct arch *arch_find_hf_type(const char *hf_type) {
    for (size_t i = 0; i < N_ARCHS; i++)
        if (!strcmp(archs[i].hf_type, hf_type)) return &archs[i];
    return NULL;
}

const struct arch *arch_find_gguf(const char *name, size_t len) {
    for (size_t i = 0; i < N_ARCHS; i++)
        if (strlen(archs[i].gguf_name) == len && !memcmp(archs[i].gguf_name, name, len))
            return &archs[i];
    return NULL;
}

const char *arch_list(bool by_hf_class) {
    /* String literals concatenate, so the lists are made by the compiler; each starts ", ". */
    static const char names[] =
#define ARCH(name, ...) ", " #name
#define TENSOR(...)
#include "arch.def"
        ;
    static const char classes[] =
#define ARCH(name, layer, hf_class, ...) ", " hf_class
#define TENSOR(...)
#include "arch.def"
        ;
    return (by_hf_class ? classes : names) + 2;
}

uint32_t arch_dim(const struct model_config *config, uint32_t layer, enum tensor_dim dim) {
    switch (dim) {
    case TENSOR_DIM_ONE: return 1;
    case TENSOR_DIM_HIDDEN: return config->hidden_dim;
    case TENSOR_DIM_VOCAB: return config->n_vocab;
    case TENSOR_DIM_Q: return config->n_heads[layer] * config->head_dim;
    case TENSOR_DIM_K: return config->n_kv_heads[layer] * config->head_dim;
    case TENSOR_DIM_V: return config->n_kv_heads[layer] * config->v_head_dim;
    case TENSOR_DIM_ATTN: return config->n_heads[layer] * config->v_head_dim;
    case TENSOR_DIM_FFN: return config->ffn_dim[layer];
    case TENSOR_DIM_HEAD: return config->head_dim;
    }
    return 0;
}

const struct arch_tensor *arch_tensors(size_t *n_out) {
    *n_out = N_TENSORS;
    return tensors;
}

bool arch_has_tensor(const struct model_config *config, const struct arch_tensor *tensor) {
    if (tensor->layout != config->arch->layout) return false;
    switch (tensor->when) {
    case TENSOR_ALWAYS: return true;
    case TENSOR_UNTIED: return !config->is_tied;
    case TENSOR_QKV_BIAS: return config->has_attention_bias;
    case TENSOR_O_BIAS: return config->has_attention_output_bias;
    case TENSOR_MLP_BIAS: return config->has_mlp_bias;
    case TENSOR_QK_NORM: return config->has_qk_norm;
    }
    return false;
}

void arch_tensor_name(const struct arch_tensor *tensor, enum model_format format, uint32_t layer,
                      char name_out[ARCH_TENSOR_NAME_MAX]) {
    const char *pattern = format == MODEL_FORMAT_GGUF ? tensor->gguf_name : tensor->hf_name;
    const char *mark = strchr(pattern, '#');
    int len;
    if (mark)
        len = snprintf(name_out, ARCH_TENSOR_NAME_MAX, "%.*s%u%s", (int)(mark - pattern), pattern,
                       layer, mark + 1);
    else
        len = snprintf(name_out, ARCH_TENSOR_NAME_MAX, "%s", pattern);
    RADISH_ASSERT(len > 0 && len < ARCH_TENSOR_NAME_MAX);
    (void)len;
}
