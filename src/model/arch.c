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
#define ARCH(arch_name, layer_fn, class, type, gguf, layout_name, hf, gguf_rope, arch_flags, ...)  \
    {.name = #arch_name,                                                                           \
     .hf_class = class,                                                                            \
     .hf_type = type,                                                                              \
     .gguf_name = gguf,                                                                            \
     .layout = ARCH_LAYOUT_##layout_name,                                                          \
     .hf_pairing = ROPE_##hf,                                                                      \
     .gguf_pairing = ROPE_##gguf_rope,                                                             \
     .flags = arch_flags,                                                                          \
     .layer = layer_fn,                                                                            \
     __VA_ARGS__},
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

const char *arch_list(void) {
    /* String literals concatenate, so the list is made by the compiler; it starts ", ". */
    static const char names[] =
#define ARCH(name, ...) ", " #name
#define TENSOR(...)
#include "arch.def"
        ;
    return names + 2;
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
    if (!(tensor->layout & config->arch->layout)) return false;
    switch (tensor->when) {
    case TENSOR_ALWAYS: return true;
    case TENSOR_UNTIED: return !config->is_tied;
    case TENSOR_QKV_BIAS: return config->has_attention_bias;
    case TENSOR_O_BIAS: return config->has_attention_output_bias;
    case TENSOR_MLP_BIAS: return config->has_mlp_bias;
    case TENSOR_GATE_BIAS: return config->has_mlp_bias && config->has_gate;
    case TENSOR_GATED: return config->has_gate;
    case TENSOR_QK_NORM: return config->has_qk_norm && !(config->arch->flags & ARCH_WIDE_QK_NORM);
    case TENSOR_WIDE_QK_NORM: return config->has_qk_norm && config->arch->flags & ARCH_WIDE_QK_NORM;
    case TENSOR_TWO_NORMS: return config->has_two_norms;
    }
    return false;
}

/* Rows of a tensor that holds several roles, by the word behind ':' in its name. q, k, v: one after
 * another; head_q ...: head by head; gate, up: two halves. */
static struct arch_slice slice_of(const struct model_config *config, uint32_t layer,
                                  enum tensor_dim rows, const char *part) {
    const uint32_t n = arch_dim(config, layer, rows), head = config->head_dim;
    const uint32_t q = arch_dim(config, layer, TENSOR_DIM_Q);
    const uint32_t k = arch_dim(config, layer, TENSOR_DIM_K);
    const uint32_t v = arch_dim(config, layer, TENSOR_DIM_V);
    const struct {
        const char *part;
        struct arch_slice slice;
    } parts[] = {
        {"", {0, n, n, n}},
        {"q", {0, q, q + k + v, q + k + v}},
        {"k", {q, k, q + k + v, q + k + v}},
        {"v", {q + k, v, q + k + v, q + k + v}},
        {"head_q", {0, head, 3 * head, 3 * n}},
        {"head_k", {head, head, 3 * head, 3 * n}},
        {"head_v", {2 * head, head, 3 * head, 3 * n}},
        {"gate", {0, n, 2 * n, 2 * n}},
        {"up", {n, n, 2 * n, 2 * n}},
    };
    size_t i = 0;
    while (i < sizeof parts / sizeof *parts && strcmp(parts[i].part, part) != 0) i++;
    RADISH_ASSERT(i < sizeof parts / sizeof *parts);
    return parts[i].slice;
}

bool arch_tensor_name(const struct model_config *config, const struct arch_tensor *tensor,
                      enum model_format format, uint32_t layer, uint32_t alternative,
                      struct arch_name *name_out) {
    const char *pattern = format == MODEL_FORMAT_GGUF ? tensor->gguf_name : tensor->hf_name;
    for (; alternative; alternative--) {
        pattern = strchr(pattern, '|');
        if (!pattern) return false;
        pattern++;
    }
    char one[ARCH_TENSOR_NAME_MAX];
    snprintf(one, sizeof one, "%.*s", (int)strcspn(pattern, "|"), pattern);
    char *part = strchr(one, ':');
    if (part) *part++ = '\0';
    name_out->slice = slice_of(config, layer, tensor->rows, part ? part : "");
    const char *mark = strchr(one, '#');
    const int n_before = mark ? (int)(mark - one) : (int)strlen(one);
    int len;
    if (mark)
        len = snprintf(name_out->text, sizeof name_out->text, "%.*s%u%s", n_before, one, layer,
                       mark + 1);
    else
        len = snprintf(name_out->text, sizeof name_out->text, "%s", one);
    RADISH_ASSERT(len > 0 && len < ARCH_TENSOR_NAME_MAX);
    (void)len;
    return true;
}
