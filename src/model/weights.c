/* weights.c - from tensors of a file to weights on a device.
 *
 * Loading goes in two passes over the same list. Finding: every row of arch.def that the model has
 * is looked up by name, its shape compared with the configuration, and the device asked whether it
 * has a kernel for it; nothing is read yet, so that a broken or unsupported file fails in
 * milliseconds, and the memory it will take is known before any is taken. Loading: tensor by tensor
 * to the device (packed there for its kernels), then the tensor's file pages are given back: at no
 * time is more than one tensor in memory twice. A device that can use the mapped file itself is
 * given the mappings first; pages of matrices that stay there are kept, and those that it copies
 * (none, as a rule) are given back as above.
 *
 * Some files keep several roles in one tensor (Q, K and V; gate and up): each is a slice of its
 * rows and loaded like a tensor of its own; where the rows of a role do not lie together (GPT-NeoX
 * keeps Q, K and V head by head) they are gathered first, one role at a time.
 *
 * Quantising is a choice of types while finding; the device makes the blocks while it packs
 * (kernel.h), so the plan counts them and memory never holds a plain copy. Embedding and output
 * become Q8_0 whatever was asked for: their errors go into every token unmixed, and tools that
 * write quantised files keep them finer for the same reason. Rows that are no whole number of
 * blocks get the type that those tools give them, and a line in the log.
 *
 * Tied embeddings are one tensor with two uses, gathered by row and multiplied with, and become one
 * struct weight, since a device may hold two packings of it. A lm_head.weight beside
 * tie_word_embeddings is not read, as in the reference implementation. Tensors that nothing asks
 * for are named once in the log: a file may hold more than a model, but it should not pass
 * silently. */
#include "weights.h"

#include "arch.h"
#include "base/buf.h"
#include "base/clock.h"
#include "base/invariant.h"
#include "base/log.h"
#include "base/mem.h"
#include "base/status.h"
#include "tensor/quantise.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* A tensor found, and where it goes. */
struct found {
    const struct arch_tensor *row;
    uint32_t layer; /* of rows that belong to one */
    uint32_t n_out, n_in;
    const struct model_tensor *tensor;
    struct arch_slice slice; /* the tensor's rows that belong to it */
    enum dtype dtype;        /* on the device, of a matrix */
};

struct found_list {
    struct found *items; /* [n] */
    size_t n;
    struct weights_sizes sizes; /* of all items */
};

/* What is searched, and for whom. */
struct finding {
    const struct model_file *file;
    const struct model_config *config;
    struct device *device;
    struct weights_options options;
};

static struct finding describe_finding(const struct model_file *file,
                                       const struct model_config *config, struct device *device,
                                       const struct weights_options *options) {
    struct finding finding = {.file = file, .config = config, .device = device};
    if (options) finding.options = *options;
    return finding;
}

static bool is_vector(const struct arch_tensor *row) {
    return row->use != TENSOR_MATRIX && row->use != TENSOR_EMBEDDING;
}

static struct weight_desc describe(const struct found *found, const struct model_config *config) {
    bool is_embedding = found->row->use == TENSOR_EMBEDDING;
    return (struct weight_desc){
        .name = found->tensor->name,
        .dtype = found->dtype,
        .is_quantised_here = found->dtype != found->tensor->dtype,
        .data_dtype = found->tensor->dtype,
        .n_out = found->n_out,
        .n_in = found->n_in,
        .data = found->tensor->data,
        .is_gathered = is_embedding,
        .is_multiplied = !is_embedding || config->is_tied,
    };
}

static void print_shape(const uint64_t *dims, uint32_t n_dims, char *out, size_t out_bytes) {
    size_t len = 0;
    if (n_dims == 0) snprintf(out, out_bytes, "a scalar");
    for (uint32_t i = 0; i < n_dims && len < out_bytes; i++) {
        int n = snprintf(out + len, out_bytes - len, "%s%llu%s", i ? ", " : "[",
                         (unsigned long long)dims[i], i + 1 == n_dims ? "]" : "");
        len += n > 0 ? (size_t)n : 0;
    }
}

static enum radish_status check_shape(const struct found *found, struct radish_error *err) {
    const struct model_tensor *tensor = found->tensor;
    uint64_t wanted[2] = {found->slice.total, found->n_in};
    uint32_t n_dims = is_vector(found->row) ? 1 : 2;
    bool is_right = tensor->n_dims == n_dims;
    for (uint32_t i = 0; is_right && i < n_dims; i++) is_right = tensor->shape[i] == wanted[i];
    char want[64], got[160];
    print_shape(wanted, n_dims, want, sizeof want);
    print_shape(tensor->shape, tensor->n_dims, got, sizeof got);
    if (!is_right)
        return error_set_field(err, RADISH_E_FORMAT, tensor->name,
                               "tensor %s has shape %s; the configuration asks for %s",
                               tensor->name, got, want);
    uint64_t row_bytes, bytes;
    if (!dtype_row_bytes(tensor->dtype, wanted[n_dims - 1], &row_bytes) ||
        !mem_mul_u64(row_bytes, n_dims == 2 ? wanted[0] : 1, &bytes) || bytes != tensor->n_bytes)
        return error_set_field(err, RADISH_E_FORMAT, tensor->name,
                               "tensor %s: %llu bytes are not what %s of shape %s takes",
                               tensor->name, (unsigned long long)tensor->n_bytes,
                               dtype_name(tensor->dtype), got);
    return RADISH_OK;
}

static enum radish_status ask_device(struct device *device, const struct weight_desc *desc,
                                     const char *where, struct radish_error *err) {
    const struct kernel_shape shape = {
        .weight_dtype = desc->dtype, .n_out = desc->n_out, .n_in = desc->n_in};
    const struct {
        bool is_asked;
        enum kernel_op op;
    } uses[] = {{desc->is_gathered, KERNEL_OP_EMBED}, {desc->is_multiplied, KERNEL_OP_MATMUL}};
    for (size_t i = 0; i < 2; i++) {
        char reason[160] = "";
        if (!uses[i].is_asked ||
            device->ops->supports(device, uses[i].op, &shape, reason, sizeof reason))
            continue;
        return error_set_field(err, RADISH_E_UNSUPPORTED, desc->name,
                               "%s: no %s kernel for tensor %s (%s [%u, %u]): %s", where,
                               kernel_op_name(uses[i].op), desc->name, dtype_name(desc->dtype),
                               desc->n_out, desc->n_in, reason);
    }
    return RADISH_OK;
}

/* The tensor under the first of its names that the file has; where there is none, name_out holds
 * the usual one. */
static void look_up(const struct model_file *file, const struct model_config *config,
                    struct found *found, struct arch_name *name_out) {
    enum model_format format = model_file_format(file);
    struct arch_name name;
    uint32_t i = 0;
    (void)arch_tensor_name(config, found->row, format, found->layer, 0, name_out);
    while (!found->tensor &&
           arch_tensor_name(config, found->row, format, found->layer, i++, &name)) {
        found->tensor = model_file_find(file, name.text);
        if (found->tensor) *name_out = name;
    }
    found->slice = name_out->slice;
}

/* Bytes of the file that belong to the role; the tensor's shape is right. */
static uint64_t count_file_bytes(const struct found *found) {
    const struct arch_slice *slice = &found->slice;
    if (slice->block == slice->total) return found->tensor->n_bytes;
    return found->tensor->n_bytes / slice->total * found->n_out;
}

/* What a matrix becomes on the device. */
static enum radish_status choose_dtype(const struct weights_options *options, struct found *found,
                                       const char *where, struct radish_error *err) {
    const struct model_tensor *tensor = found->tensor;
    const bool is_of_layer = found->row->scope == TENSOR_OF_LAYER;
    found->dtype = tensor->dtype;
    if (!options->is_quantised || is_vector(found->row)) return RADISH_OK;
    if (dtype_is_quantised(tensor->dtype))
        return error_set_field(err, RADISH_E_INVALID, "quantization",
                               "%s: tensor %s is quantised already (%s): --quantization takes "
                               "models in F32, F16 or BF16",
                               where, tensor->name, dtype_name(tensor->dtype));
    const enum dtype wanted = is_of_layer ? options->quant_dtype : RADISH_DTYPE_Q8_0;
    enum dtype dtype;
    if (quantise_type_for(wanted, found->n_in, &dtype)) found->dtype = dtype;
    return RADISH_OK;
}

/* Looks up one row of arch.def, checks it and adds it to the list's sums. */
static enum radish_status find_tensor(const struct finding *finding, struct found *found,
                                      struct found_list *list, struct radish_error *err) {
    const struct model_config *config = finding->config;
    struct device *device = finding->device;
    const struct arch_tensor *row = found->row;
    struct arch_name arch_name;
    char where[32] = "model";
    look_up(finding->file, config, found, &arch_name);
    const char *name = arch_name.text;
    if (row->scope == TENSOR_OF_LAYER) snprintf(where, sizeof where, "layer %u", found->layer);
    found->n_out = arch_dim(config, found->layer, row->rows);
    found->n_in = arch_dim(config, found->layer, row->columns);
    if (!found->tensor)
        return error_set_field(err, RADISH_E_FORMAT, name, "%s: tensor %s is missing", where, name);
    if (!dtype_can_read(found->tensor->dtype))
        return error_set_field(err, RADISH_E_UNSUPPORTED, name,
                               "%s: tensor %s is of type %s, which is not supported; supported: %s",
                               where, name, dtype_name(found->tensor->dtype),
                               dtype_readable_names());
    enum radish_status status = check_shape(found, err);
    if (status != RADISH_OK) {
        error_prefix(err, "%s", where);
        return status;
    }
    uint64_t bytes = found->n_out * sizeof(float);
    struct weights_sizes *sizes = &list->sizes;
    RADISH_TRY(choose_dtype(&finding->options, found, where, err));
    if (!is_vector(row)) {
        struct weight_desc desc = describe(found, config);
        RADISH_TRY(ask_device(device, &desc, where, err));
        bytes = device->ops->weight_bytes(device, &desc);
    }
    if (!mem_add_u64(sizes->bytes, bytes, &sizes->bytes) ||
        !mem_add_u64(sizes->file_bytes, count_file_bytes(found), &sizes->file_bytes))
        return error_set_field(err, RADISH_E_LIMIT, name, "%s: the sizes overflow", name);
    sizes->dtype_bytes[is_vector(row) ? RADISH_DTYPE_F32 : found->dtype] += bytes;
    return RADISH_OK;
}

/* Fills *list; the caller frees list->items, also after a failure. */
static enum radish_status find_all(const struct finding *finding, struct found_list *list,
                                   struct radish_error *err) {
    const struct model_config *config = finding->config;
    size_t n_rows;
    const struct arch_tensor *rows = arch_tensors(&n_rows);
    memset(list, 0, sizeof *list);
    list->items = mem_zalloc(n_rows * config->n_layers, sizeof *list->items);
    if (!list->items) return error_nomem(err);
    for (size_t i = 0; i < n_rows; i++) {
        if (!arch_has_tensor(config, &rows[i])) continue;
        uint32_t n = rows[i].scope == TENSOR_OF_LAYER ? config->n_layers : 1;
        for (uint32_t layer = 0; layer < n; layer++) {
            struct found *found = &list->items[list->n++];
            *found = (struct found){.row = &rows[i], .layer = layer};
            RADISH_TRY(find_tensor(finding, found, list, err));
        }
    }
    return RADISH_OK;
}

static int compare_tensors(const void *a, const void *b) {
    uintptr_t x = (uintptr_t)((const struct found *)a)->tensor;
    uintptr_t y = (uintptr_t)((const struct found *)b)->tensor;
    return x < y ? -1 : x > y;
}

/* What is known to lie beside the weights without being one; the last two are masks of GPT-NeoX. */
static bool is_expected(const char *name, const struct model_config *config) {
    static const char *const tails[] = {".rotary_emb.inv_freq", ".attention.bias",
                                        ".attention.masked_bias"};
    size_t len = strlen(name);
    for (size_t i = 0; i < sizeof tails / sizeof *tails; i++) {
        size_t tail = strlen(tails[i]);
        if (len >= tail && !strcmp(name + len - tail, tails[i])) return true;
    }
    if (!strncmp(name, "rope_f", 6)) return true; /* rope_freqs, rope_factors_long, ..._short */
    return config->is_tied && !strcmp(name, "lm_head.weight");
}

/* Sorts the list by tensor as a side effect. */
static void log_unused(const struct model_file *file, const struct model_config *config,
                       struct found_list *list) {
    struct buf names;
    size_t n_unused = 0, n = model_file_n_tensors(file);
    buf_init(&names, 400);
    qsort(list->items, list->n, sizeof *list->items, compare_tensors);
    for (size_t i = 0; i < n; i++) {
        struct found key = {.tensor = model_file_tensor(file, i)};
        if (is_expected(key.tensor->name, config)) continue;
        if (bsearch(&key, list->items, list->n, sizeof key, compare_tensors)) continue;
        if (n_unused++ < 3) buf_printf(&names, "%s%.100s", names.len ? ", " : "", key.tensor->name);
    }
    if (n_unused)
        log_warn("model", "%zu tensor%s of the file %s not used by %s: %s%s", n_unused,
                 n_unused == 1 ? "" : "s", n_unused == 1 ? "is" : "are", config->arch->name,
                 names.data ? names.data : "", n_unused > 3 ? ", ..." : "");
    buf_deinit(&names);
}

enum radish_status weights_plan(const struct model_file *file, const struct model_config *config,
                                struct device *device, const struct weights_options *options,
                                struct weights_sizes *sizes_out, struct radish_error *err) {
    const struct finding finding = describe_finding(file, config, device, options);
    struct found_list list;
    memset(sizes_out, 0, sizeof *sizes_out);
    enum radish_status status = find_all(&finding, &list, err);
    if (status == RADISH_OK) *sizes_out = list.sizes;
    free(list.items);
    return status;
}

static uint32_t tensor_row(const struct arch_slice *slice, uint32_t i) {
    return slice->first + i / slice->block * slice->stride + i % slice->block;
}

static enum radish_status load_vector(struct device *device, const struct model_config *config,
                                      const struct found *found, float **field,
                                      struct radish_error *err) {
    const enum tensor_use use = found->row->use;
    const bool is_last = use == TENSOR_LAST_NORM || use == TENSOR_LAST_BIAS;
    const float offset =
        use == TENSOR_NORM || use == TENSOR_LAST_NORM ? (float)config->norm_offset : 0;
    const float scale = is_last ? (float)config->logit_scale : 1;
    size_t bytes = found->n_out * sizeof(float);
    void *address = NULL;
    float *host = mem_alloc(found->slice.total, sizeof(float));
    if (!host) return error_nomem(err);
    dtype_to_f32(found->tensor->dtype, found->tensor->data, host, found->slice.total);
    for (uint32_t i = 0; i < found->n_out; i++) /* never reads what it has written */
        host[i] = (host[tensor_row(&found->slice, i)] + offset) * scale;
    enum radish_status status = device->ops->mem_alloc(device, bytes, &address, err);
    if (status == RADISH_OK) device->ops->upload(device, address, host, bytes);
    free(host);
    *field = address;
    return status;
}

/* A matrix whose rows lie together is read where it is; others are gathered first. */
static enum radish_status load_matrix(struct device *device, const struct model_config *config,
                                      const struct found *found, struct weight **field,
                                      struct radish_error *err) {
    struct weight_desc desc = describe(found, config);
    const struct arch_slice *slice = &found->slice;
    uint64_t row_bytes = found->tensor->n_bytes / slice->total;
    const uint8_t *data = found->tensor->data;
    desc.data = data + slice->first * row_bytes;
    if (slice->block == found->n_out) return device->ops->weight_create(device, &desc, field, err);
    uint8_t *rows = mem_alloc(found->n_out, (size_t)row_bytes);
    if (!rows) return error_nomem(err);
    for (uint32_t i = 0; i < found->n_out; i++)
        memcpy(rows + i * row_bytes, data + tensor_row(slice, i) * row_bytes, (size_t)row_bytes);
    desc.data = rows;
    enum radish_status status = device->ops->weight_create(device, &desc, field, err);
    free(rows);
    return status;
}

/* The place in *weights that a row fills. */
static void *field_of(struct weights *weights, const struct arch_tensor *row, uint32_t layer) {
    void *base = row->scope == TENSOR_OF_MODEL ? (void *)weights : (void *)&weights->layers[layer];
    return (char *)base + row->offset;
}

/* Shows the files to a device that can use weights where they lie. What is quantised cannot stay.
 */
static enum radish_status map_files(const struct finding *finding, const struct found_list *list,
                                    struct device *device, struct radish_error *err) {
    const struct model_file *file = finding->file;
    uint64_t longest = 0;
    if (!device->ops->host_map || finding->options.is_quantised) return RADISH_OK;
    for (size_t i = 0; i < list->n; i++)
        if (!is_vector(list->items[i].row) && list->items[i].tensor->n_bytes > longest)
            longest = list->items[i].tensor->n_bytes;
    for (size_t i = 0; i < model_file_n_mappings(file); i++) {
        size_t n;
        const uint8_t *data = model_file_mapping(file, i, &n);
        if (data) RADISH_TRY(device->ops->host_map(device, data, n, (size_t)longest, err));
    }
    return RADISH_OK;
}

/* Whether its pages hold a matrix that the device reads from there. */
static bool is_mapped(const struct weights *weights, const struct found *found, void *field) {
    struct device *device = weights->device;
    if (is_vector(found->row) || !device->ops->weight_is_mapped) return false;
    return device->ops->weight_is_mapped(device, *(struct weight **)field);
}

static enum radish_status load_all(const struct finding *finding, const struct found_list *list,
                                   struct weights *weights, struct radish_error *err) {
    const struct weights_options *options = &finding->options;
    uint64_t bytes_done = 0;
    RADISH_TRY(map_files(finding, list, weights->device, err));
    for (size_t i = 0; i < list->n; i++) {
        const struct found *found = &list->items[i];
        void *field = field_of(weights, found->row, found->layer);
        enum radish_status status =
            is_vector(found->row)
                ? load_vector(weights->device, weights->config, found, field, err)
                : load_matrix(weights->device, weights->config, found, field, err);
        if (status != RADISH_OK || !is_mapped(weights, found, field))
            model_file_release(finding->file, found->tensor);
        if (status != RADISH_OK) {
            error_prefix(err, "tensor %s", found->tensor->name);
            return status;
        }
        bytes_done += count_file_bytes(found);
        if (options->on_progress)
            options->on_progress(options->progress_user, bytes_done, list->sizes.file_bytes);
    }
    if (weights->config->is_tied) weights->output = weights->embedding;
    return RADISH_OK;
}

/* What quantising did, and where it could not do what was asked. */
static void log_quantised(const struct weights_options *options, const struct found_list *list,
                          double seconds) {
    const struct weights_sizes *sizes = &list->sizes;
    struct buf names;
    size_t n_quantised = 0, n_others = 0;
    buf_init(&names, 400);
    for (size_t i = 0; i < list->n; i++) {
        const struct found *found = &list->items[i];
        const bool is_of_layer = found->row->scope == TENSOR_OF_LAYER;
        if (is_vector(found->row)) continue;
        n_quantised += found->dtype != found->tensor->dtype;
        if (found->dtype == (is_of_layer ? options->quant_dtype : RADISH_DTYPE_Q8_0)) continue;
        if (n_others++ < 3)
            buf_printf(&names, "%s%.100s (%u inputs): %s", names.len ? ", " : "",
                       found->tensor->name, found->n_in, dtype_name(found->dtype));
    }
    log_info("model", "%zu matrices quantised to %s: %.1f MB became %.1f MB in %.2f s (%.0f MB/s)",
             n_quantised, dtype_name(options->quant_dtype), (double)sizes->file_bytes / 1e6,
             (double)sizes->bytes / 1e6, seconds, (double)sizes->file_bytes / 1e6 / seconds);
    if (n_others)
        log_warn("model", "%zu matri%s have rows that are no whole number of %s blocks: %s%s",
                 n_others, n_others == 1 ? "x" : "ces", dtype_name(options->quant_dtype),
                 names.data ? names.data : "", n_others > 3 ? ", ..." : "");
    buf_deinit(&names);
}

enum radish_status weights_load(const struct model_file *file, const struct model_config *config,
                                struct device *device, const struct weights_options *options,
                                struct weights **weights_out, struct radish_error *err) {
    const struct finding finding = describe_finding(file, config, device, options);
    const uint64_t start_ns = clock_ns();
    struct found_list list = {0};
    *weights_out = NULL;
    struct weights *weights = mem_zalloc(1, sizeof *weights);
    if (!weights) return error_nomem(err);
    weights->device = device;
    weights->config = config;
    weights->n_layers = config->n_layers;
    weights->layers = mem_zalloc(config->n_layers, sizeof *weights->layers);
    enum radish_status status = weights->layers ? RADISH_OK : error_nomem(err);
    if (status == RADISH_OK) status = find_all(&finding, &list, err);
    if (status == RADISH_OK) status = load_all(&finding, &list, weights, err);
    if (status == RADISH_OK) {
        const double seconds = (double)(clock_ns() - start_ns + 1) * 1e-9;
        if (finding.options.is_quantised) log_quantised(&finding.options, &list, seconds);
        log_unused(file, config, &list);
        weights->bytes = list.sizes.bytes;
        *weights_out = weights;
    } else {
        weights_destroy(weights);
    }
    free(list.items);
    return status;
}

static void destroy_field(struct weights *weights, const struct arch_tensor *row, uint32_t layer) {
    struct device *device = weights->device;
    void *field = field_of(weights, row, layer);
    size_t bytes = arch_dim(weights->config, layer, row->rows) * sizeof(float);
    if (is_vector(row)) {
        float *vector = *(float **)field;
        if (vector) device->ops->mem_free(device, vector, bytes);
    } else {
        struct weight *weight = *(struct weight **)field;
        if (weight) device->ops->weight_destroy(device, weight);
    }
}

void weights_destroy(struct weights *weights) {
    size_t n_rows;
    const struct arch_tensor *rows = arch_tensors(&n_rows);
    if (!weights) return;
    for (size_t i = 0; weights->layers && i < n_rows; i++) {
        if (!arch_has_tensor(weights->config, &rows[i])) continue;
        uint32_t n = rows[i].scope == TENSOR_OF_LAYER ? weights->n_layers : 1;
        for (uint32_t layer = 0; layer < n; layer++) destroy_field(weights, &rows[i], layer);
    }
    free(weights->layers);
    free(weights);
}
