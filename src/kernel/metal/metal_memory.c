/* metal_memory.c - memory of a Metal device: allocations, views of mapped files, weights in them.
 *
 * Storage is shared: the GPU and the host see the same memory, and a device address is the host's
 * pointer. What Metal wants at a binding is a buffer and an offset, so a table, sorted by address,
 * finds these again; it holds an entry for each allocation (a model has a few hundred) and for each
 * view of a file, and is searched by halves, some nanoseconds for each binding.
 *
 * Weights stay where the file is mapped: no second copy, no repacking, loading takes as long as
 * looking at the header does, and the system may drop and read pages again. Metal wraps memory only
 * in whole pages of 16 KiB (file_map.h promises that many) and in pieces of at most
 * maxBufferLength; a long file gets several views,
 *
 *      view 0  |--------------------------|
 *      view 1                    |--------------------------|
 *      view 2                                      |----------------|
 *                                |overlap|         overlap >= longest matrix + a page
 *
 * so that each matrix lies whole in the last view that begins before it. Proof: let it begin at a,
 * in view i and before view i + 1 begins; that view ends an overlap after the start of view i + 1,
 * thus behind a + overlap.
 *
 * Kernels promise themselves 4-byte alignment of a matrix and no more (a safetensors header may
 * have any length); what lies worse is copied, and so are rows that were gathered from a tensor of
 * several roles, and what is quantised while it is loaded, by all threads.
 *
 * Each allocation is a buffer of its own, for they are few and large. Allocations above
 * maxBufferLength are refused, with that limit in the message: a KV pool of one layer that long is
 * to be made smaller. */
#include "metal_device.h"

#include "base/invariant.h"
#include "base/mem.h"
#include "base/status.h"
#include "tensor/quantise.h"

#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>

enum { WEIGHT_ALIGN = 4, QUANTISE_ELEMS = 256 };

/* ---- the table ---- */

/* How many regions begin at or before the address. */
static uint32_t count_before(const struct metal_device *d, const uint8_t *address) {
    uint32_t low = 0, high = d->n_regions;
    while (low < high) {
        const uint32_t middle = low + (high - low) / 2;
        if (d->regions[middle].base <= address)
            low = middle + 1;
        else
            high = middle;
    }
    return low;
}

const struct metal_region *metal_find_region(const struct metal_device *d, const void *address,
                                             size_t bytes) {
    const uint8_t *begin = address;
    const uint32_t n = count_before(d, begin);
    if (!n) return NULL;
    const struct metal_region *region = &d->regions[n - 1];
    const size_t offset = (size_t)(begin - region->base);
    return offset <= region->bytes && bytes <= region->bytes - offset ? region : NULL;
}

/* Takes the buffer over; on failure it is destroyed. */
static enum radish_status add_region(struct metal_device *d, struct mtl_buffer *buffer,
                                     bool is_view, struct radish_error *err) {
    if (d->n_regions == d->n_regions_room) {
        const uint32_t room = d->n_regions_room ? 2 * d->n_regions_room : 64;
        struct metal_region *regions = mem_alloc(room, sizeof *regions);
        if (!regions) {
            mtl_buffer_destroy(d->mtl, buffer);
            return error_nomem(err);
        }
        if (d->n_regions) memcpy(regions, d->regions, d->n_regions * sizeof *regions);
        free(d->regions);
        d->regions = regions;
        d->n_regions_room = room;
    }
    const struct metal_region region = {mtl_buffer_contents(buffer), mtl_buffer_bytes(buffer),
                                        buffer, is_view};
    const uint32_t at = count_before(d, region.base);
    memmove(d->regions + at + 1, d->regions + at, (d->n_regions - at) * sizeof region);
    d->regions[at] = region;
    d->n_regions++;
    d->has_new_buffers = true;
    return RADISH_OK;
}

static void remove_region(struct metal_device *d, uint32_t at) {
    mtl_buffer_destroy(d->mtl, d->regions[at].buffer);
    d->n_regions--;
    memmove(d->regions + at, d->regions + at + 1, (d->n_regions - at) * sizeof *d->regions);
}

void metal_memory_deinit(struct metal_device *d) {
    while (d->n_regions) remove_region(d, d->n_regions - 1);
    free(d->regions);
    d->regions = NULL;
    d->n_regions_room = 0;
}

/* ---- memory ---- */

enum radish_status metal_alloc(struct device *device, size_t bytes, void **address_out,
                               struct radish_error *err) {
    struct metal_device *d = metal_of(device);
    const uint64_t bytes_max = mtl_device_info(d->mtl)->buffer_bytes_max;
    struct mtl_buffer *buffer;
    *address_out = NULL;
    if (bytes > bytes_max)
        return error_set(err, RADISH_E_NOMEM,
                         "%.3f GB in one piece, but a buffer of this device holds at most %.3f GB "
                         "(maxBufferLength)",
                         (double)bytes / 1e9, (double)bytes_max / 1e9);
    RADISH_TRY(mtl_buffer_create(d->mtl, bytes ? bytes : 1, &buffer, err));
    RADISH_TRY(add_region(d, buffer, /*is_view=*/false, err));
    d->bytes_taken += bytes;
    *address_out = mtl_buffer_contents(buffer);
    return RADISH_OK;
}

void metal_free(struct device *device, void *address, size_t bytes) {
    struct metal_device *d = metal_of(device);
    if (!address) return;
    const uint32_t n = count_before(d, address);
    RADISH_INVARIANT(n && d->regions[n - 1].base == address && !d->regions[n - 1].is_view,
                     "%p was not allocated here", address);
    d->bytes_taken -= bytes;
    remove_region(d, n - 1);
}

void metal_upload(struct device *device, void *address, const void *host, size_t bytes) {
    (void)device;
    if (bytes) memcpy(address, host, bytes);
}

void metal_download(struct device *device, void *host, const void *address, size_t bytes) {
    (void)device;
    if (bytes) memcpy(host, address, bytes);
}

uint64_t metal_memory_available(const struct device *device) {
    const struct metal_device *d = metal_of_const(device);
    const uint64_t limit = mtl_device_info(d->mtl)->working_set_bytes;
    return limit > d->bytes_taken ? limit - d->bytes_taken : 0;
}

/* ---- mapped files ---- */

static size_t round_up(size_t bytes) {
    return (bytes + MTL_PAGE_BYTES - 1) / MTL_PAGE_BYTES * MTL_PAGE_BYTES;
}

enum radish_status metal_host_map(struct device *device, const void *data, size_t bytes,
                                  size_t piece_bytes_max, struct radish_error *err) {
    struct metal_device *d = metal_of(device);
    const uint64_t limit = mtl_device_info(d->mtl)->buffer_bytes_max;
    const size_t whole = round_up(bytes);
    const size_t view_max = limit < whole ? (size_t)limit / MTL_PAGE_BYTES * MTL_PAGE_BYTES : whole;
    const size_t overlap = round_up(piece_bytes_max) + MTL_PAGE_BYTES;
    RADISH_INVARIANT((uintptr_t)data % MTL_PAGE_BYTES == 0, "%p is no mapped file", data);
    if (view_max < whole && overlap >= view_max)
        return error_set(err, RADISH_E_NOMEM,
                         "a matrix of %.3f GB, but a buffer of this device holds at most %.3f GB "
                         "(maxBufferLength)",
                         (double)piece_bytes_max / 1e9, (double)limit / 1e9);
    for (size_t begin = 0; begin < whole; begin += view_max - overlap) {
        const size_t left = whole - begin;
        struct mtl_buffer *buffer;
        RADISH_TRY(mtl_buffer_wrap(d->mtl, (const uint8_t *)data + begin,
                                   left < view_max ? left : view_max, &buffer, err));
        RADISH_TRY(add_region(d, buffer, /*is_view=*/true, err));
        if (left <= view_max) break;
    }
    return RADISH_OK;
}

/* ---- weights ---- */

static bool measure(const struct weight_desc *desc, uint64_t *row_bytes_out, uint64_t *bytes_out) {
    *bytes_out = 0;
    return desc->n_out && desc->n_in && dtype_row_bytes(desc->dtype, desc->n_in, row_bytes_out) &&
           mem_mul_u64(*row_bytes_out, desc->n_out, bytes_out) && *bytes_out <= SIZE_MAX;
}

uint64_t metal_weight_bytes(const struct device *device, const struct weight_desc *desc) {
    uint64_t row_bytes, bytes;
    (void)device;
    return measure(desc, &row_bytes, &bytes) ? bytes : 0;
}

struct quantise_run {
    const struct weight_desc *desc;
    const struct weight *w;
    uint8_t *out;
    size_t source_row_bytes;
    atomic_bool has_failed;
};

/* A row, in pieces of whole blocks: 256 is a multiple of every type's. */
static void quantise_item(void *user, uint32_t row, uint32_t worker) {
    struct quantise_run *run = user;
    const enum dtype to = run->w->dtype, from = run->desc->data_dtype;
    const uint8_t *source = (const uint8_t *)run->desc->data + row * run->source_row_bytes;
    uint8_t *out = run->out + row * run->w->row_bytes;
    float values[QUANTISE_ELEMS];
    (void)worker;
    for (uint32_t i = 0; i < run->w->n_in; i += QUANTISE_ELEMS) {
        const uint32_t left = run->w->n_in - i, n = left < QUANTISE_ELEMS ? left : QUANTISE_ELEMS;
        dtype_to_f32(from, source, values, n);
        if (!quantise_row(to, values, n, out))
            atomic_store_explicit(&run->has_failed, true, memory_order_relaxed);
        source += (size_t)n * dtype_block_bytes(from);
        out += (size_t)(n / dtype_block_elems(to)) * dtype_block_bytes(to);
    }
}

/* Fills the weight's own memory. */
static enum radish_status copy_rows(struct metal_device *d, const struct weight_desc *desc,
                                    struct weight *w, uint8_t *out, struct radish_error *err) {
    if (!desc->is_quantised_here) {
        memcpy(out, desc->data, w->bytes);
        return RADISH_OK;
    }
    struct quantise_run run = {.desc = desc, .w = w, .out = out};
    uint64_t source_row_bytes;
    const bool is_plain = dtype_row_bytes(desc->data_dtype, desc->n_in, &source_row_bytes);
    RADISH_INVARIANT(is_plain, "%s: %u inputs", desc->name, desc->n_in);
    run.source_row_bytes = (size_t)source_row_bytes;
    pool_run(d->base.pool, w->n_out, quantise_item, &run);
    if (!atomic_load_explicit(&run.has_failed, memory_order_relaxed)) return RADISH_OK;
    return error_set_field(err, RADISH_E_UNSUPPORTED, desc->name,
                           "numbers that are not finite, or too large for %s",
                           dtype_name(desc->dtype));
}

/* Whether the matrix can stay where it is: in a view, aligned, as it is. */
static bool is_in_place(const struct metal_device *d, const struct weight_desc *desc,
                        size_t bytes) {
    const struct metal_region *region = metal_find_region(d, desc->data, bytes);
    return !desc->is_quantised_here && region && region->is_view &&
           (uintptr_t)desc->data % WEIGHT_ALIGN == 0;
}

static enum radish_status place(struct metal_device *d, const struct weight_desc *desc,
                                struct weight *w, struct radish_error *err) {
    void *address;
    if (is_in_place(d, desc, w->bytes)) {
        w->data = desc->data;
        d->bytes_taken += w->bytes;
        return RADISH_OK;
    }
    RADISH_TRY(metal_alloc(&d->base.device, w->bytes, &address, err));
    w->data = address;
    w->is_owned = true;
    return copy_rows(d, desc, w, address, err);
}

enum radish_status metal_weight_create(struct device *device, const struct weight_desc *desc,
                                       struct weight **weight_out, struct radish_error *err) {
    const struct kernel_shape shape = {
        .weight_dtype = desc->dtype, .n_out = desc->n_out, .n_in = desc->n_in};
    uint64_t row_bytes, bytes;
    char reason[160];
    *weight_out = NULL;
    if (desc->is_multiplied &&
        !metal_supports(device, KERNEL_OP_MATMUL, &shape, reason, sizeof reason))
        return error_set(err, RADISH_E_UNSUPPORTED, "%s: %s", desc->name, reason);
    if (desc->is_gathered &&
        !metal_supports(device, KERNEL_OP_EMBED, &shape, reason, sizeof reason))
        return error_set(err, RADISH_E_UNSUPPORTED, "%s: %s", desc->name, reason);
    if (!measure(desc, &row_bytes, &bytes))
        return error_set(err, RADISH_E_FORMAT, "%s: %u x %u is no valid %s matrix", desc->name,
                         desc->n_out, desc->n_in, dtype_name(desc->dtype));
    struct weight *w = mem_zalloc(1, sizeof *w);
    if (!w) return error_nomem(err);
    w->dtype = desc->dtype;
    w->n_out = desc->n_out;
    w->n_in = desc->n_in;
    w->row_bytes = (size_t)row_bytes;
    w->bytes = (size_t)bytes;
    const enum radish_status status = place(metal_of(device), desc, w, err);
    if (status == RADISH_OK)
        *weight_out = w;
    else
        metal_weight_destroy(device, w);
    return status;
}

void metal_weight_destroy(struct device *device, struct weight *w) {
    if (!w) return;
    if (w->is_owned)
        metal_free(device, (void *)(uintptr_t)w->data, w->bytes);
    else if (w->data)
        metal_of(device)->bytes_taken -= w->bytes;
    free(w);
}

bool metal_weight_is_mapped(const struct device *device, const struct weight *w) {
    (void)device;
    return !w->is_owned;
}
