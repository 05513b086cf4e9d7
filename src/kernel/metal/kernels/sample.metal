/* sample.metal - a row of logits to one token, by one threadgroup, without sorting.
 *
 * The semantics are those of sample/sampler.c: what temperature, top_k, top_p and min_p keep is
 * "everything at least as good as some token" in the order (higher logit, then lower id), and the
 * draw walks the kept ids in the order of ids. Here:
 *
 *   logits --best, with its id-----------------------------> greedy: done
 *   weight(id) = exp((l - best) / T) in fixed point, 2^44 = 1
 *   top_k: the (k - 1)-th token in that order      --+
 *   top_p: the token in which unit p * mass - 1 lies -+-> cut (rank, id)
 *   draw:  the kept token in which unit u * mass lies, in the order of ids
 *
 * The idea: whole numbers. A logit's bits, turned round, are a 32-bit `rank` (smaller is better;
 * -0 is 0), so that comparisons are exact whatever a processor does with denormals and NaN. A
 * weight is a float by the host's own formula, cut to 44 binary places; then all sums are exact,
 * and neither the number of threads nor their order can change a token. The host adds up in double:
 * the two differ where a draw falls within about 1e-7 of the border between two tokens (u is a
 * float here), and nowhere else.
 *
 * The search for the cut is a radix search over the place (rank, id): digits of 11, 11, 10 bits of
 * the rank, then 11 and 11 of the id, if only some of equal logits are kept. For each digit a pass
 * counts, for each of its values, tokens (top_k) or weight (top_p) in threadgroup memory; 64-bit
 * counters are two atomic words with a carry, which is exact in any order. Most tokens take no
 * part: before top_k's search, one among the best of each thread finds a rank that k tokens have at
 * least; and top_p keeps no token of weight below (1 - p) * mass / width.
 *
 * Cost: greedy reads the row once, a draw twice, top_k 3 times more and top_p 4 times more: by one
 * threadgroup, from the cache. Not run on Apple hardware. */
#include <metal_stdlib>

#pragma METAL fp math_mode(safe)
#pragma METAL fp contract(off)

#include "sample_args.h"

using namespace metal;

#define SAMPLE_NO_ID         0xffffffffu
#define SAMPLE_RANK_INFINITY 0x007fffffu /* +inf: this rank and better ones are no numbers */
#define SAMPLE_RANK_WORST    0xff7fffffu /* of the least number; -inf is behind it */
#define SAMPLE_SIMD_WIDTH    32u
#define SAMPLE_GREEDY_BELOW  1e-6f

/* A row and the thread that looks at it. */
struct sample_row {
    const device uint *logits; /* [width] their bits, so that nothing can change on the way */
    uint width;
    float best, inv_temperature;
    uint thread_idx, n_threads;
    uint lane, group, n_groups; /* SIMD-groups */
};

/* Keeps (rank, id) up to this one. */
struct sample_cut {
    uint rank, id;
};

/* Threadgroup memory. */
struct sample_shared {
    threadgroup atomic_uint *bins; /* [2 * METAL_SAMPLE_BINS] low words, then high words */
    threadgroup uint *words;       /* [32] */
    threadgroup ulong *sums;       /* [32] */
};

static inline uint sample_rank_of(uint bits) {
    if (bits > 0xff800000u) return 0; /* a NaN with a sign */
    if (bits == 0x80000000u) bits = 0;
    return bits >> 31 ? bits : 0x7fffffffu - bits;
}

static inline float sample_logit_of(uint rank) {
    return as_type<float>(rank >> 31 ? rank : 0x7fffffffu - rank);
}

static inline bool sample_is_kept(sample_cut cut, uint rank, uint id) {
    return rank < cut.rank || (rank == cut.rank && id <= cut.id);
}

/* exp(x) for x <= 0, operation by operation as in sampler.c; 0 below -87, where floats end. */
static inline float sample_exp_negative(float x) {
    const float clamped = x < -87.0f ? -87.0f : x;
    const float n = rint(clamped * 1.44269504f);
    const float r = clamped - n * 0.693359375f + n * 2.12194440e-4f;
    float p = 1.9875691500e-4f;
    p = p * r + 1.3981999507e-3f;
    p = p * r + 8.3334519073e-3f;
    p = p * r + 4.1665795894e-2f;
    p = p * r + 1.6666665459e-1f;
    p = p * r + 5.0000001201e-1f;
    const float scale = as_type<float>(uint(int(n) + 127) << 23);
    const float y = (p * r * r + r + 1.0f) * scale;
    return x < -87.0f ? 0.0f : y;
}

static inline float sample_weight_of(thread const sample_row &row, uint rank) {
    if (rank > SAMPLE_RANK_WORST) return 0.0f;
    return sample_exp_negative((sample_logit_of(rank) - row.best) * row.inv_temperature);
}

/* w * 2^44 without what is behind the point, 0 <= w <= 1. */
static inline ulong sample_fixed_of(float w) {
    const uint bits = as_type<uint>(w), exponent = bits >> 23;
    const ulong mantissa = (bits & 0x7fffffu) | 0x800000u;
    const uint point = 150u - METAL_SAMPLE_FRACTION_BITS; /* w = mantissa * 2^(exponent - 150) */
    if (exponent >= point) return mantissa << (exponent - point);
    return point - exponent < 24u ? mantissa >> (point - exponent) : 0ul;
}

/* x * f without what is behind the point, 0 <= f <= 1, x < 2^63. */
static inline ulong sample_scaled(ulong x, float f) {
    const uint bits = as_type<uint>(f), exponent = bits >> 23;
    if (exponent >= 127u) return x;
    if (exponent == 0u) return 0;
    const ulong mantissa = (bits & 0x7fffffu) | 0x800000u;
    const uint shift = 150u - exponent; /* f = mantissa / 2^shift, shift >= 24 */
    const ulong high = (x >> 32) * mantissa, low = (x & 0xfffffffful) * mantissa;
    if (shift < 32u) return (high << (32u - shift)) + (low >> shift);
    return shift - 32u < 64u ? (high + (low >> 32)) >> (shift - 32u) : 0ul;
}

/* ---- sums and the like over a SIMD-group (64 bits in three parts) and over all threads ---- */

static inline ulong sample_sum_long(ulong x) {
    const ulong low = simd_sum(uint(x) & 0x3fffffu);
    const ulong middle = simd_sum(uint(x >> 22) & 0x3fffffu);
    const ulong high = simd_sum(uint(x >> 44));
    return low + (middle << 22) + (high << 44);
}

/* The sum of the lanes before this one. */
static inline ulong sample_before_long(ulong x) {
    const ulong low = simd_prefix_exclusive_sum(uint(x) & 0x3fffffu);
    const ulong middle = simd_prefix_exclusive_sum(uint(x >> 22) & 0x3fffffu);
    const ulong high = simd_prefix_exclusive_sum(uint(x >> 44));
    return low + (middle << 22) + (high << 44);
}

static inline ulong sample_shuffle_long(ulong x, uint lane) {
    const ulong high = simd_shuffle(uint(x >> 32), ushort(lane));
    return high << 32 | simd_shuffle(uint(x), ushort(lane));
}

static uint sample_least_of_all(thread const sample_row &row, threadgroup uint *words, uint x) {
    const uint least = simd_min(x);
    if (row.lane == 0) words[row.group] = least;
    threadgroup_barrier(mem_flags::mem_threadgroup);
    const uint result = simd_min(row.lane < row.n_groups ? words[row.lane] : 0xffffffffu);
    threadgroup_barrier(mem_flags::mem_threadgroup);
    return result;
}

/* Every SIMD-group's own sum, in its lanes: lane i has that of group i. */
static ulong sample_sums_of_groups(thread const sample_row &row, threadgroup ulong *sums, ulong x) {
    const ulong sum = sample_sum_long(x);
    if (row.lane == 0) sums[row.group] = sum;
    threadgroup_barrier(mem_flags::mem_threadgroup);
    const ulong result = row.lane < row.n_groups ? sums[row.lane] : 0ul;
    threadgroup_barrier(mem_flags::mem_threadgroup);
    return result;
}

/* ---- the search for a cut ---- */

/* What takes part in a search: what `within` keeps, of rank up to rank_max and weight from
 * weight_min on. Its places are looked at by their tokens or by their weights. */
struct sample_search {
    sample_cut within;
    uint rank_max;
    float weight_min;
    bool is_by_weight;
};

static inline void sample_count_one(threadgroup atomic_uint *bins, uint bin, ulong amount) {
    const uint low = uint(amount);
    uint high = uint(amount >> 32);
    const uint old = atomic_fetch_add_explicit(&bins[bin], low, memory_order_relaxed);
    if (old > 0xffffffffu - low) high++;
    if (high) atomic_fetch_add_explicit(&bins[METAL_SAMPLE_BINS + bin], high, memory_order_relaxed);
}

static inline ulong sample_bin_count(threadgroup atomic_uint *bins, uint bin) {
    const ulong high = atomic_load_explicit(&bins[METAL_SAMPLE_BINS + bin], memory_order_relaxed);
    return high << 32 | atomic_load_explicit(&bins[bin], memory_order_relaxed);
}

/* Counts the next `bits` bits, from bit `shift` on, of places that begin with `prefix`. */
static void sample_count_digit(thread const sample_row &row, thread const sample_search &search,
                               threadgroup atomic_uint *bins, ulong prefix, uint shift, uint bits) {
    for (uint i = row.thread_idx; i < 2u * METAL_SAMPLE_BINS; i += row.n_threads)
        atomic_store_explicit(&bins[i], 0u, memory_order_relaxed);
    threadgroup_barrier(mem_flags::mem_threadgroup);
    for (uint id = row.thread_idx; id < row.width; id += row.n_threads) {
        const uint rank = sample_rank_of(row.logits[id]);
        const ulong place = ulong(rank) << 22 | id;
        if (rank > search.rank_max || !sample_is_kept(search.within, rank, id)) continue;
        if (place >> (shift + bits) != prefix) continue;
        ulong amount = 1;
        if (search.is_by_weight) {
            const float w = sample_weight_of(row, rank);
            amount = w >= search.weight_min ? sample_fixed_of(w) : 0ul;
        }
        if (amount) sample_count_one(bins, uint(place >> shift) & ((1u << bits) - 1u), amount);
    }
    threadgroup_barrier(mem_flags::mem_threadgroup);
}

/* The bin in which unit `at` of all that was counted lies; *before_out is what the bins before it
 * hold, *own_out what it holds itself; SAMPLE_NO_ID: there are no so many. Every SIMD-group does
 * the same, lane by lane a run of bins. */
static uint sample_find_bin(thread const sample_row &row, threadgroup atomic_uint *bins, ulong at,
                            thread ulong &before_out, thread ulong &own_out) {
    const uint run = METAL_SAMPLE_BINS / SAMPLE_SIMD_WIDTH;
    ulong in_run = 0;
    for (uint i = 0; i < run; i++) in_run += sample_bin_count(bins, row.lane * run + i);
    ulong before = sample_before_long(in_run);
    const bool is_here = before <= at && at - before < in_run;
    uint bin = SAMPLE_NO_ID;
    ulong own = 0;
    for (uint i = 0; is_here && i < run; i++) {
        own = sample_bin_count(bins, row.lane * run + i);
        bin = row.lane * run + i;
        if (at - before < own) break;
        before += own;
    }
    const uint lane = simd_min(is_here ? row.lane : SAMPLE_SIMD_WIDTH);
    if (lane == SAMPLE_SIMD_WIDTH) return SAMPLE_NO_ID;
    before_out = sample_shuffle_long(before, lane);
    own_out = sample_shuffle_long(own, lane);
    return simd_shuffle(bin, ushort(lane));
}

constant uint SAMPLE_DIGIT_SHIFTS[5] = {43, 32, 22, 11, 0}; /* of the place rank * 2^22 + id */
constant uint SAMPLE_DIGIT_BITS[5] = {11, 11, 10, 11, 11};

/* The token in which unit `at` lies of what takes part, in the order of ranks and ids;
 * search.within when there is less than that. */
static sample_cut sample_find_place(thread const sample_row &row, sample_search search,
                                    threadgroup atomic_uint *bins, ulong at) {
    ulong prefix = 0;
    for (uint digit = 0; digit < 5u; digit++) {
        ulong before = 0, own = 0;
        sample_count_digit(row, search, bins, prefix, SAMPLE_DIGIT_SHIFTS[digit],
                           SAMPLE_DIGIT_BITS[digit]);
        const uint bin = sample_find_bin(row, bins, at, before, own);
        threadgroup_barrier(mem_flags::mem_threadgroup);
        if (bin == SAMPLE_NO_ID) return search.within;
        prefix = prefix << SAMPLE_DIGIT_BITS[digit] | bin;
        at -= before;
        if (digit != 2u) continue;
        /* The rank is known; from here on equal tokens are counted. */
        if (search.is_by_weight) {
            const ulong each = max(sample_fixed_of(sample_weight_of(row, uint(prefix))), 1ul);
            at /= each;
            own /= each;
            search.is_by_weight = false;
        }
        if (at + 1 == own) { /* all that take part of this rank */
            if (uint(prefix) == search.within.rank) return search.within;
            return sample_cut{uint(prefix), SAMPLE_NO_ID};
        }
    }
    return sample_cut{uint(prefix >> 22), uint(prefix) & 0x3fffffu};
}

/* A rank that at least k tokens have or better: the k-th of the best ranks of each thread. */
static uint sample_bound_of_top_k(thread const sample_row &row, threadgroup atomic_uint *bins,
                                  uint k, uint own_best) {
    ulong prefix = 0, at = k - 1u;
    for (uint digit = 0; digit < 3u; digit++) {
        const uint shift = SAMPLE_DIGIT_SHIFTS[digit] - 22u, bits = SAMPLE_DIGIT_BITS[digit];
        ulong before = 0, own = 0;
        for (uint i = row.thread_idx; i < 2u * METAL_SAMPLE_BINS; i += row.n_threads)
            atomic_store_explicit(&bins[i], 0u, memory_order_relaxed);
        threadgroup_barrier(mem_flags::mem_threadgroup);
        if (ulong(own_best) >> (shift + bits) == prefix)
            sample_count_one(bins, (own_best >> shift) & ((1u << bits) - 1u), 1);
        threadgroup_barrier(mem_flags::mem_threadgroup);
        const uint bin = sample_find_bin(row, bins, at, before, own);
        threadgroup_barrier(mem_flags::mem_threadgroup);
        if (bin == SAMPLE_NO_ID) return SAMPLE_RANK_WORST;
        prefix = prefix << bits | bin;
        at -= before;
    }
    return uint(prefix);
}

static ulong sample_kept_weight(thread const sample_row &row, sample_cut cut, float weight_min,
                                uint id) {
    const uint rank = sample_rank_of(row.logits[id]);
    if (!sample_is_kept(cut, rank, id)) return 0;
    const float w = sample_weight_of(row, rank);
    return w >= weight_min ? sample_fixed_of(w) : 0ul;
}

static ulong sample_mass_of(thread const sample_row &row, threadgroup ulong *sums, sample_cut cut) {
    ulong sum = 0;
    for (uint id = row.thread_idx; id < row.width; id += row.n_threads)
        sum += sample_kept_weight(row, cut, 0.0f, id);
    return sample_sum_long(sample_sums_of_groups(row, sums, sum));
}

/* What top_k and top_p keep. own_best: the best rank that this thread has seen. */
static sample_cut sample_find_cut(thread const sample_row &row, thread const sample_shared &shared,
                                  uint top_k, float top_p, uint own_best) {
    sample_cut cut = {SAMPLE_RANK_WORST, SAMPLE_NO_ID};
    if (top_k && top_k < row.width) {
        sample_search search = {cut, SAMPLE_RANK_WORST, 0.0f, false};
        if (top_k <= row.n_threads)
            search.rank_max =
                min(sample_bound_of_top_k(row, shared.bins, top_k, own_best), SAMPLE_RANK_WORST);
        cut = sample_find_place(row, search, shared.bins, top_k - 1u);
    }
    if (top_p < 1.0f) {
        const ulong mass = sample_mass_of(row, shared.sums, cut);
        const ulong kept = sample_scaled(mass, top_p);
        /* A little less than the bound, for the rounding of weights. */
        const float weight_min =
            0.98f * (1.0f - top_p) * (float(mass >> 20) * 5.9604645e-8f) / float(row.width);
        const sample_search search = {cut, SAMPLE_RANK_WORST, weight_min, true};
        cut = sample_find_place(row, search, shared.bins, kept ? kept - 1 : 0ul);
    }
    return cut;
}

/* The kept token in which unit u * mass lies, in the order of ids: by SIMD-groups' shares of the
 * row, their shares of that share, and 32 ids at a time. In SIMD-group 0 only. */
static uint sample_walk(thread const sample_row &row, threadgroup ulong *sums, sample_cut cut,
                        float min_p, float u) {
    uint first = 0, end = row.width;
    ulong at = 0;
    for (uint level = 0; level < 2u; level++) {
        const uint share = (end - first + row.n_groups - 1u) / row.n_groups;
        const uint share_first = min(first + row.group * share, end);
        const uint share_end = min(share_first + share, end);
        ulong sum = 0;
        for (uint id = share_first + row.lane; id < share_end; id += SAMPLE_SIMD_WIDTH)
            sum += sample_kept_weight(row, cut, min_p, id);
        const ulong own = sample_sums_of_groups(row, sums, sum);
        const ulong before = sample_before_long(own);
        if (level == 0) at = sample_scaled(sample_sum_long(own), u);
        const uint part =
            simd_min(before <= at && at - before < own ? row.lane : SAMPLE_SIMD_WIDTH - 1u);
        at -= sample_shuffle_long(before, part);
        first = min(first + part * share, end);
        end = min(first + share, end);
    }
    if (row.group != 0) return SAMPLE_NO_ID;
    for (; first < end; first += SAMPLE_SIMD_WIDTH) {
        const uint id = first + row.lane;
        const ulong own = id < end ? sample_kept_weight(row, cut, min_p, id) : 0ul;
        const ulong before = sample_before_long(own);
        const uint found = simd_min(before <= at && at - before < own ? id : SAMPLE_NO_ID);
        if (found != SAMPLE_NO_ID) return found;
        at -= sample_sum_long(own);
    }
    return SAMPLE_NO_ID;
}

kernel void sample_rows(
    const device uint *logits [[buffer(0)]], const device metal_sample_draw *draws [[buffer(1)]],
    device int *tokens [[buffer(2)]], constant metal_sample_args &args [[buffer(3)]],
    threadgroup atomic_uint *bins [[threadgroup(0)]], uint row_idx [[threadgroup_position_in_grid]],
    uint thread_idx [[thread_index_in_threadgroup]], uint n_threads [[threads_per_threadgroup]],
    uint lane [[thread_index_in_simdgroup]], uint group [[simdgroup_index_in_threadgroup]],
    uint n_groups [[simdgroups_per_threadgroup]]) {
    threadgroup uint words[32];
    threadgroup ulong sums[32];
    const sample_shared shared = {bins, words, sums};
    const device metal_sample_draw *draw = draws + row_idx;
    sample_row row = {logits + ulong(row_idx) * args.stride,
                      args.width,
                      0.0f,
                      0.0f,
                      thread_idx,
                      n_threads,
                      lane,
                      group,
                      n_groups};
    if (draw->is_off) {
        if (thread_idx == 0) tokens[row_idx] = -1;
        return;
    }

    uint own_best = 0xffffffffu, own_id = SAMPLE_NO_ID;
    for (uint id = thread_idx; id < row.width; id += n_threads) {
        const uint rank = sample_rank_of(row.logits[id]);
        own_id = rank < own_best ? id : own_id;
        own_best = min(rank, own_best);
    }
    const uint best = sample_least_of_all(row, words, own_best);
    const uint best_id = sample_least_of_all(row, words, own_best == best ? own_id : SAMPLE_NO_ID);
    if (best <= SAMPLE_RANK_INFINITY || best > SAMPLE_RANK_WORST) {
        if (thread_idx == 0) tokens[row_idx] = -1;
        return;
    }
    if (draw->top_k == 1u || draw->temperature < SAMPLE_GREEDY_BELOW) {
        if (thread_idx == 0) tokens[row_idx] = int(best_id);
        return;
    }
    row.best = sample_logit_of(best);
    row.inv_temperature = 1.0f / draw->temperature;
    const sample_cut cut = sample_find_cut(row, shared, draw->top_k, draw->top_p, own_best);
    const uint id = sample_walk(row, sums, cut, draw->min_p, draw->u);
    if (thread_idx == 0) tokens[row_idx] = int(id);
}
