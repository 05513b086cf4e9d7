/* weights.h - a model's tensors on a device, by role: what the layer functions compute with.
 *
 * Matrices are prepared by the device (packed for its kernels); vectors (norms, biases) are f32.
 * The file's pages are released tensor by tensor, so that loading peaks at plan + largest tensor.
 * A file of plain matrices (F32, F16, BF16) may be quantised on the way.
 * Owns: everything on the device. The device must outlive it. Threads: loaded by one; then read by
 * the engine's thread. */
#ifndef MODEL_WEIGHTS_H
#define MODEL_WEIGHTS_H

#include "radish.h"

#include "format/model_file.h"
#include "kernel/kernel.h"
#include "model/config.h"

struct layer_weights {
    float *attn_norm, *ffn_norm;           /* [hidden_dim] before attention and feed-forward */
    float *attn_norm_bias, *ffn_norm_bias; /* or NULL */
    float *attn_post_norm, *ffn_post_norm; /* of what they add to x; or NULL */
    float *q_norm, *k_norm;                /* [head_dim], or as wide as Q and K; or NULL */
    struct weight *q, *k, *v,
        *o; /* [n_heads * head_dim, hidden], ..., [hidden, n_heads * v_head_dim] */
    float *q_bias, *k_bias, *v_bias, *o_bias; /* or NULL */
    struct weight *gate, *up, *down;          /* [ffn, hidden] twice, [hidden, ffn] */
    float *gate_bias, *up_bias, *down_bias;   /* or NULL */
};

struct weights {
    struct device *device;
    const struct model_config *config; /* borrowed for the weights' life */
    uint32_t n_layers;
    struct weight *embedding;     /* [n_vocab, hidden] */
    struct weight *output;        /* [n_vocab, hidden]; == embedding when tied */
    float *output_bias;           /* [n_vocab] or NULL */
    float *output_norm;           /* [hidden] */
    float *output_norm_bias;      /* [hidden] or NULL */
    struct layer_weights *layers; /* [n_layers] */
    uint64_t bytes;               /* on the device */
};

struct weights_options {
    /* Matrices of layers become quant_dtype, embedding and output RADISH_DTYPE_Q8_0; where its
     * blocks do not fit into a row, see quantise_type_for(); where nothing fits, a matrix stays as
     * it is. A file with a quantised matrix is refused: E_INVALID, field "quantization". */
    bool is_quantised;
    enum dtype quant_dtype;
    void (*on_progress)(void *user, uint64_t bytes_done, uint64_t bytes_total); /* or NULL */
    void *progress_user;
};

/* What weights take: on the device (of a type, too: vectors are F32), and in the file. */
struct weights_sizes {
    uint64_t bytes, file_bytes;
    uint64_t dtype_bytes[RADISH_DTYPE_COUNT];
};

/* Checks that every tensor is there with the right shape and a kernel for it (E_FORMAT,
 * E_UNSUPPORTED naming tensor and layer) and sums what loading will take, without loading. options
 * may be NULL. */
enum radish_status weights_plan(const struct model_file *file, const struct model_config *config,
                                struct device *device, const struct weights_options *options,
                                struct weights_sizes *sizes_out,
                                struct radish_error *err) RADISH_CHECK_RESULT;

/* config is borrowed until weights_destroy(). options may be NULL. Tensors that the model does not
 * use are named in one log line, matrices that got another type than the one asked for in another.
 */
enum radish_status weights_load(const struct model_file *file, const struct model_config *config,
                                struct device *device, const struct weights_options *options,
                                struct weights **weights_out,
                                struct radish_error *err) RADISH_CHECK_RESULT;
void weights_destroy(struct weights *weights);

#endif
