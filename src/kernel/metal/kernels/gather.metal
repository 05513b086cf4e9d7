/* gather.metal - rows looked up: embed, out of a matrix as the file has it, and keep_rows, within
 * the activations.
 *
 *   embed_*        out[r, i] = scale * W[id_r, i]      grid (runs of 8 elements, rows)
 *   keep_rows_f32  x[r, i] = x[rows_r, i], in place    grid (width)
 *
 * W [n_vocab, width] is of any type that quants.h reads; out [n_rows, stride] and x [rows, stride]
 * are float32. An element has the bits that tensor/dtype.h gives it: scale times value, plus the
 * minimum where the type has one, each rounded.
 *
 * An id below 0, -1-s, stands for what the step before drew at row s of its logits, which the host
 * does not know yet; where nothing was drawn, and for any id that is none, row 0 is taken: nobody
 * wants that row, and no id may lead out of the matrix.
 *
 * keep_rows moves rows towards the front, rows_r ascending and rows_r >= r. Rows on different
 * threads would race: row 5 could be overwritten before it has moved to 3. Columns do not depend on
 * each other, so a thread has one, and walks the rows in order. It reads eight before it writes
 * eight, so that it waits for memory once and not eight times: what a later of them reads, none of
 * the earlier writes, since each reads at or behind its own row and rows ascend. */
#include <metal_stdlib>

#pragma METAL fp math_mode(safe)
#pragma METAL fp contract(off)

#include "gather_args.h"

using namespace metal;

#include "quants.h"

/* Four neighbours, as far as the row goes. */
static void gather_put(device float *out, float4 x, float scale) {
    out[0] = x.x * scale;
    out[1] = x.y * scale;
    out[2] = x.z * scale;
    out[3] = x.w * scale;
}

static uint gather_id(const device int *ids, const device int *sampled, uint row,
                      constant gather_sizes &sizes) {
    int id = ids[row];
    if (id < 0) {
        const uint at = uint(-1 - id);
        id = at < sizes.n_sampled ? sampled[at] : 0;
    }
    return uint(id) < sizes.n_vocab ? uint(id) : 0;
}

template <typename Q>
kernel void embed(constant gather_sizes &sizes [[buffer(0)]],
                  const device uchar *w [[buffer(1)]],
                  const device int *ids [[buffer(2)]],
                  const device int *sampled [[buffer(3)]],
                  device float *out [[buffer(4)]],
                  uint2 at [[thread_position_in_grid]]) {
    const ulong row_bytes = ulong(sizes.row_bytes_high) << 32 | sizes.row_bytes_low;
    const device uchar *row = w + gather_id(ids, sampled, at.y, sizes) * row_bytes;
    device float *to = out + ulong(at.y) * sizes.stride;
    const uint first = at.x * GATHER_RUN;
    if (Q::IS_PLAIN) {
        const uint end = min(first + GATHER_RUN, sizes.width);
        for (uint i = first; i < end; i++) to[i] = Q::element(row, i) * sizes.scale;
        return;
    }
    const quant_run run = Q::run(row + ulong(first / Q::BLOCK) * Q::BYTES, first % Q::BLOCK);
    const float4 low = run.scale * run.low, high = run.scale * run.high;
    gather_put(to + first, Q::HAS_MIN ? low + run.minimum : low, sizes.scale);
    gather_put(to + first + 4, Q::HAS_MIN ? high + run.minimum : high, sizes.scale);
}

kernel void keep_rows_f32(constant gather_sizes &sizes [[buffer(0)]],
                          const device uint *rows [[buffer(1)]],
                          device float *x [[buffer(2)]],
                          uint column [[thread_position_in_grid]]) {
    for (uint first = 0; first < sizes.n_rows; first += GATHER_ROWS) {
        const uint n = min(sizes.n_rows - first, uint(GATHER_ROWS));
        float kept[GATHER_ROWS];
        for (uint i = 0; i < n; i++) kept[i] = x[ulong(rows[first + i]) * sizes.stride + column];
        for (uint i = 0; i < n; i++) x[ulong(first + i) * sizes.stride + column] = kept[i];
    }
}

template [[host_name("embed_f32")]] kernel decltype(embed<quant_f32>) embed<quant_f32>;
template [[host_name("embed_f16")]] kernel decltype(embed<quant_f16>) embed<quant_f16>;
template [[host_name("embed_bf16")]] kernel decltype(embed<quant_bf16>) embed<quant_bf16>;
template [[host_name("embed_q8_0")]] kernel decltype(embed<quant_q8_0>) embed<quant_q8_0>;
template [[host_name("embed_q4_0")]] kernel decltype(embed<quant_q4_0>) embed<quant_q4_0>;
template [[host_name("embed_q4_1")]] kernel decltype(embed<quant_q4_1>) embed<quant_q4_1>;
template [[host_name("embed_q5_0")]] kernel decltype(embed<quant_q5_0>) embed<quant_q5_0>;
template [[host_name("embed_q5_1")]] kernel decltype(embed<quant_q5_1>) embed<quant_q5_1>;
template [[host_name("embed_q2_k")]] kernel decltype(embed<quant_q2_k>) embed<quant_q2_k>;
template [[host_name("embed_q3_k")]] kernel decltype(embed<quant_q3_k>) embed<quant_q3_k>;
template [[host_name("embed_q4_k")]] kernel decltype(embed<quant_q4_k>) embed<quant_q4_k>;
template [[host_name("embed_q5_k")]] kernel decltype(embed<quant_q5_k>) embed<quant_q5_k>;
template [[host_name("embed_q6_k")]] kernel decltype(embed<quant_q6_k>) embed<quant_q6_k>;
