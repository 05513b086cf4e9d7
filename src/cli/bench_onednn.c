/* bench_onednn.c - the peer of the matrix products: oneDNN's matmul primitive on the same threads.
 *
 * oneDNN in Debian computes with OpenMP, whose waiting threads spin and would fight ours for the
 * cores in the very samples that are compared. So each of the device's threads runs a primitive of
 * its own over a slice of the outputs, with one OpenMP thread: measured as fast as oneDNN's own
 * split for many rows; for one row from a cache it is slower (0.050 against 0.038 ms), from memory
 * it is not. Weights are in the form that oneDNN asks for ("any"), which differs with the number of
 * rows; they all have one value, the same in any form, so that nothing need be reordered and a
 * first product shows that oneDNN computed what is timed. Primitives are made once per number of
 * rows. The int8 product is bytes times bytes to floats, without the scales of blocks that ours
 * has.
 *
 * The C interface changed from version 2 to 3: descriptors are values, then pointers. The
 * environment (ONEDNN_MAX_CPU_ISA) limits the instruction set, as oneDNN documents. Without the
 * library the functions say that there is none. */
#include "bench_onednn.h"

#if defined(RADISH_ONEDNN)
#include "base/mem.h"

#include <dlfcn.h>
#include <dnnl.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { THREADS_MAX = 256, WEIGHTS_MAX = 256 };

/* Every byte of x and of the weights: 60 as int8, 0.01149 as bf16 and f32. */
enum { FILL = 0x3c };

/* What one thread computes: outputs [first, first + n_out). */
struct slice {
    dnnl_stream_t stream;
    dnnl_primitive_t primitive;
    dnnl_memory_t x, y, weights[WEIGHTS_MAX];
    uint32_t n_out;
    size_t weight_bytes; /* of one matrix, as laid out for the present rows */
    char *x_data, *y_data, *weight_data;
    size_t x_bytes, y_bytes, weights_bytes;
};

struct onednn_product {
    struct device *device;
    dnnl_engine_t engine;
    dnnl_data_type_t x_type, weight_type;
    uint32_t n_in, rows_max, n_slices, n_weights, next;
    struct slice slices[THREADS_MAX];
};

static size_t type_bytes(dnnl_data_type_t type) {
    return type == dnnl_f32 ? 4 : type == dnnl_bf16 ? 2 : 1;
}

/* ---- the two interfaces ---- */

#if DNNL_VERSION_MAJOR >= 3
typedef const_dnnl_memory_desc_t desc_ref;

static bool make_primitive(const struct onednn_product *p, uint32_t n_rows, uint32_t n_out,
                           dnnl_primitive_desc_t *pd_out) {
    const dnnl_dims_t x = {n_rows, p->n_in}, w = {p->n_in, n_out}, y = {n_rows, n_out};
    dnnl_memory_desc_t xd = NULL, wd = NULL, yd = NULL;
    const bool is_made =
        dnnl_memory_desc_create_with_tag(&xd, 2, x, p->x_type, dnnl_ab) == dnnl_success &&
        dnnl_memory_desc_create_with_tag(&wd, 2, w, p->weight_type, dnnl_format_tag_any) ==
            dnnl_success &&
        dnnl_memory_desc_create_with_tag(&yd, 2, y, dnnl_f32, dnnl_ab) == dnnl_success &&
        dnnl_matmul_primitive_desc_create(pd_out, p->engine, xd, wd, NULL, yd, NULL) ==
            dnnl_success;
    dnnl_memory_desc_destroy(xd);
    dnnl_memory_desc_destroy(wd);
    dnnl_memory_desc_destroy(yd);
    return is_made;
}
#else
typedef const dnnl_memory_desc_t *desc_ref;

static bool make_primitive(const struct onednn_product *p, uint32_t n_rows, uint32_t n_out,
                           dnnl_primitive_desc_t *pd_out) {
    const dnnl_dims_t x = {n_rows, p->n_in}, w = {p->n_in, n_out}, y = {n_rows, n_out};
    dnnl_memory_desc_t xd, wd, yd;
    dnnl_matmul_desc_t d;
    return dnnl_memory_desc_init_by_tag(&xd, 2, x, p->x_type, dnnl_ab) == dnnl_success &&
           dnnl_memory_desc_init_by_tag(&wd, 2, w, p->weight_type, dnnl_format_tag_any) ==
               dnnl_success &&
           dnnl_memory_desc_init_by_tag(&yd, 2, y, dnnl_f32, dnnl_ab) == dnnl_success &&
           dnnl_matmul_desc_init(&d, &xd, &wd, NULL, &yd) == dnnl_success &&
           dnnl_primitive_desc_create(pd_out, &d, NULL, p->engine, NULL) == dnnl_success;
}
#endif

static const char *find_isa_name(void) {
    switch ((int)dnnl_get_effective_cpu_isa()) {
    case dnnl_cpu_isa_avx2: return "avx2";
    case dnnl_cpu_isa_avx512_core: return "avx512_core";
    case dnnl_cpu_isa_avx512_core_vnni: return "avx512_core_vnni";
    case dnnl_cpu_isa_avx512_core_bf16: return "avx512_core_bf16";
    case dnnl_cpu_isa_avx512_core_amx: return "avx512_core_amx";
    default: return NULL;
    }
}

const char *onednn_describe(void) {
    static char text[64];
    const dnnl_version_t *version = dnnl_version();
    const char *isa = find_isa_name();
    const int n =
        snprintf(text, sizeof text, "%d.%d.%d ", version->major, version->minor, version->patch);
    if (isa)
        snprintf(text + n, sizeof text - (size_t)n, "%s", isa);
    else
        snprintf(text + n, sizeof text - (size_t)n, "isa 0x%x",
                 (unsigned)dnnl_get_effective_cpu_isa());
    return text;
}

/* ---- a slice ---- */

static void drop_primitive(struct slice *s, uint32_t n_weights) {
    if (s->primitive) dnnl_primitive_destroy(s->primitive);
    if (s->x) dnnl_memory_destroy(s->x);
    if (s->y) dnnl_memory_destroy(s->y);
    for (uint32_t i = 0; i < n_weights; i++) {
        if (s->weights[i]) dnnl_memory_destroy(s->weights[i]);
        s->weights[i] = NULL;
    }
    s->primitive = NULL;
    s->x = s->y = NULL;
}

static bool bind_memory(struct onednn_product *p, struct slice *s, dnnl_primitive_desc_t pd) {
    const desc_ref w = dnnl_primitive_desc_query_md(pd, dnnl_query_weights_md, 0);
    const desc_ref x = dnnl_primitive_desc_query_md(pd, dnnl_query_src_md, 0);
    const desc_ref y = dnnl_primitive_desc_query_md(pd, dnnl_query_dst_md, 0);
    const size_t bytes = dnnl_memory_desc_get_size(w);
    if (bytes * p->n_weights > s->weights_bytes) return false;
    for (uint32_t i = 0; i < p->n_weights; i++)
        if (dnnl_memory_create(&s->weights[i], w, p->engine, s->weight_data + i * bytes) !=
            dnnl_success)
            return false;
    return dnnl_memory_create(&s->x, x, p->engine, s->x_data) == dnnl_success &&
           dnnl_memory_create(&s->y, y, p->engine, s->y_data) == dnnl_success &&
           dnnl_primitive_create(&s->primitive, pd) == dnnl_success;
}

static bool open_slice(struct onednn_product *p, struct slice *s, uint32_t n_out) {
    s->n_out = n_out;
    s->x_bytes = (size_t)p->rows_max * p->n_in * type_bytes(p->x_type);
    s->y_bytes = (size_t)p->rows_max * n_out * sizeof(float);
    /* A form may fill outputs up to a multiple of 64. */
    s->weights_bytes = (size_t)p->n_weights * (n_out + 127) * p->n_in * type_bytes(p->weight_type);
    s->x_data = mem_aligned_alloc(s->x_bytes);
    s->y_data = mem_aligned_alloc(s->y_bytes);
    s->weight_data = mem_aligned_alloc(s->weights_bytes);
    if (!s->x_data || !s->y_data || !s->weight_data) return false;
    memset(s->x_data, FILL, s->x_bytes);
    memset(s->weight_data, FILL, s->weights_bytes);
    return dnnl_stream_create(&s->stream, p->engine, dnnl_stream_default_flags) == dnnl_success;
}

static void close_slice(struct slice *s, uint32_t n_weights) {
    drop_primitive(s, n_weights);
    if (s->stream) dnnl_stream_destroy(s->stream);
    mem_aligned_free(s->x_data, s->x_bytes);
    mem_aligned_free(s->y_data, s->y_bytes);
    mem_aligned_free(s->weight_data, s->weights_bytes);
}

/* ---- the product ---- */

struct onednn_product *onednn_product_create(struct device *device, enum dtype dtype,
                                             uint32_t n_out, uint32_t n_in, uint32_t rows_max,
                                             uint64_t weight_bytes) {
    struct onednn_product *p = calloc(1, sizeof *p);
    if (!p) return NULL;
    const bool is_plain = dtype == RADISH_DTYPE_F32 || dtype == RADISH_DTYPE_BF16;
    p->device = device;
    p->x_type = dtype == RADISH_DTYPE_F32 ? dnnl_f32 : is_plain ? dnnl_bf16 : dnnl_u8;
    p->weight_type = is_plain ? p->x_type : dnnl_s8;
    p->n_in = n_in;
    p->rows_max = rows_max;
    p->n_slices = device_n_threads(device) < THREADS_MAX ? device_n_threads(device) : THREADS_MAX;
    const uint64_t n = weight_bytes / ((uint64_t)n_out * n_in * type_bytes(p->weight_type)) + 1;
    p->n_weights = n < WEIGHTS_MAX ? (uint32_t)n : WEIGHTS_MAX;
    bool is_open =
        dtype != RADISH_DTYPE_F16 && dnnl_engine_create(&p->engine, dnnl_cpu, 0) == dnnl_success;
    for (uint32_t i = 0; i < p->n_slices && is_open; i++) {
        const uint64_t first = (uint64_t)n_out * i / p->n_slices;
        const uint64_t end = (uint64_t)n_out * (i + 1) / p->n_slices;
        is_open = open_slice(p, &p->slices[i], (uint32_t)(end - first));
    }
    if (is_open && onednn_product_set_rows(p, 1)) return p;
    onednn_product_destroy(p);
    return NULL;
}

void onednn_product_destroy(struct onednn_product *p) {
    if (!p) return;
    for (uint32_t i = 0; i < p->n_slices; i++) close_slice(&p->slices[i], p->n_weights);
    if (p->engine) dnnl_engine_destroy(p->engine);
    free(p);
}

/* Whether the product is what these operands give: the last output of every slice, once run. */
static bool check_result(struct onednn_product *p, uint32_t n_rows) {
    const double value = p->weight_type == dnnl_s8     ? FILL
                         : p->weight_type == dnnl_bf16 ? 0.011474609375
                                                       : 0.011488970369100571;
    const double expected = value * value * p->n_in;
    for (uint32_t i = 0; i < p->n_slices; i++)
        memset(p->slices[i].y_data, 0xff, (size_t)n_rows * p->slices[i].n_out * sizeof(float));
    onednn_product_run(p);
    for (uint32_t i = 0; i < p->n_slices; i++) {
        const float *y = (const float *)(const void *)p->slices[i].y_data;
        const double last = (double)y[(size_t)n_rows * p->slices[i].n_out - 1];
        if (!(fabs(last - expected) < 0.01 * expected)) return false;
    }
    return true;
}

bool onednn_product_set_rows(struct onednn_product *p, uint32_t n_rows) {
    if (n_rows > p->rows_max) return false;
    for (uint32_t i = 0; i < p->n_slices; i++) {
        struct slice *s = &p->slices[i];
        dnnl_primitive_desc_t pd = NULL;
        drop_primitive(s, p->n_weights);
        if (!make_primitive(p, n_rows, s->n_out, &pd)) return false;
        const bool is_bound = bind_memory(p, s, pd);
        dnnl_primitive_desc_destroy(pd);
        if (!is_bound) return false;
    }
    return check_result(p, n_rows);
}

static void run_slice(void *user, uint32_t item, uint32_t worker) {
    (void)worker;
    static _Thread_local bool is_alone;
    if (!is_alone) {
        void (*set_threads)(int) = NULL;
        void *symbol = dlsym(RTLD_DEFAULT, "omp_set_num_threads");
        memcpy(&set_threads, &symbol, sizeof symbol);
        if (set_threads) set_threads(1);
        is_alone = true;
    }
    const struct onednn_product *p = user;
    const struct slice *s = &p->slices[item];
    const dnnl_exec_arg_t args[] = {{DNNL_ARG_SRC, s->x},
                                    {DNNL_ARG_WEIGHTS, s->weights[p->next % p->n_weights]},
                                    {DNNL_ARG_DST, s->y}};
    if (dnnl_primitive_execute(s->primitive, s->stream, 3, args) == dnnl_success)
        dnnl_stream_wait(s->stream);
}

void onednn_product_run(void *product) {
    struct onednn_product *p = product;
    p->next++;
    device_parallel(p->device, p->n_slices, run_slice, p);
}
#else
const char *onednn_describe(void) {
    return NULL;
}

struct onednn_product *onednn_product_create(struct device *device, enum dtype dtype,
                                             uint32_t n_out, uint32_t n_in, uint32_t rows_max,
                                             uint64_t weight_bytes) {
    (void)device, (void)dtype, (void)n_out, (void)n_in, (void)rows_max, (void)weight_bytes;
    return NULL;
}

void onednn_product_destroy(struct onednn_product *product) {
    (void)product;
}

bool onednn_product_set_rows(struct onednn_product *product, uint32_t n_rows) {
    (void)product, (void)n_rows;
    return false;
}

void onednn_product_run(void *product) {
    (void)product;
}
#endif
