/* quants.h - weights as files have them, read eight neighbouring elements at a time: for kernels
 * that multiply with them (gemv.metal, gemm.metal) or look rows up.
 *
 * One struct for each type, made to be a template's parameter:
 *
 *   BLOCK   elements of a block        BYTES  its bytes       HAS_MIN  `minimum` is not always 0
 *   GAP     elements j .. j + 7 and j + GAP .. j + GAP + 7 lie in the same bytes (halves of bytes,
 *           or planes of bits); a kernel that reads both at once reads these bytes once
 *   IS_PLAIN  no blocks: a row may end anywhere
 *   run(block, j)     elements [j, j + 8) of a block, j a multiple of 8
 *   element(row, k)   element k of a row, of plain types only
 *
 * An element is scale * value + minimum, and this, product and sum each rounded, is what
 * tensor/dtype.h calls its value, bit for bit. Kernels may take the sums over values first. Where
 * everything lies is told in tensor/quant_*.c.
 *
 * Data begins at a multiple of 4 bytes and rows follow each other without gaps; so words are read
 * from types whose blocks are a multiple of 4 bytes, and halves of them from the others. bfloat16
 * is the upper half of a float, without a use of `bfloat`, which older GPUs lack. Wider loads are
 * left to the compiler. */
#ifndef KERNEL_METAL_QUANTS_H
#define KERNEL_METAL_QUANTS_H

struct quant_run {
    float4 low, high; /* values of elements j .. j + 3 and j + 4 .. j + 7 */
    float scale, minimum;
};

static inline quant_run quant_make(float4 low, float4 high, float scale, float minimum) {
    quant_run run;
    run.low = low;
    run.high = high;
    run.scale = scale;
    run.minimum = minimum;
    return run;
}

/* The run's elements themselves. */
static inline float4 quant_low(quant_run run) {
    return run.scale * run.low + run.minimum;
}
static inline float4 quant_high(quant_run run) {
    return run.scale * run.high + run.minimum;
}

/* Eight bytes at an even address, and at a multiple of 4. */
static inline uint2 quant_halves(const device uchar *p) {
    const device ushort *h = (const device ushort *)p;
    return uint2(uint(h[0]) | uint(h[1]) << 16, uint(h[2]) | uint(h[3]) << 16);
}
static inline uint2 quant_words(const device uchar *p) {
    const device uint *w = (const device uint *)p;
    return uint2(w[0], w[1]);
}

static inline float quant_half(const device uchar *p) {
    return float(*(const device half *)p);
}

/* Eight bytes as numbers, less `below`. */
static inline quant_run quant_bytes(uint2 q, float below, float scale, float minimum) {
    return quant_make(float4(as_type<uchar4>(q.x)) - below, float4(as_type<uchar4>(q.y)) - below,
                      scale, minimum);
}

/* Bits [shift, shift + 4) of every byte; the same for 2 bits, and for 1 bit, moved to bit `to`. */
static inline uint2 quant_nibbles(uint2 q, uint shift) {
    return q >> shift & 0x0F0F0F0Fu;
}
static inline uint2 quant_pairs(uint2 q, uint shift) {
    return q >> shift & 0x03030303u;
}
static inline uint2 quant_bits(uint2 q, uint shift, uint to) {
    return (q >> shift & 0x01010101u) << to;
}

/* Bits 0 .. 7, each as bit 4 of a byte. */
static inline uint2 quant_spread(uint bits) {
    const uint2 b = uint2(bits, bits >> 4);
    return (b & 1u) << 4 | (b & 2u) << 11 | (b & 4u) << 18 | (b & 8u) << 25;
}

/* Scale and minimum of group g of Q4_K and Q5_K, from their 12 bytes; without branches, since
 * lanes have different groups. */
static inline float2 quant_k_scale(const device uchar *s, uint g) {
    const uint a = s[g % 4], b = s[g % 4 + 4], c = s[g % 4 + 8];
    const bool is_late = g >= 4;
    return float2(float(is_late ? (c & 15) | a >> 6 << 4 : a & 63),
                  float(is_late ? c >> 4 | b >> 6 << 4 : b & 63));
}

/* ---- plain types; their "blocks" are 16 elements ---- */

struct quant_f32 {
    enum : uint { BLOCK = 16, BYTES = 64, GAP = 8, HAS_MIN = 0, IS_PLAIN = 1 };
    static quant_run run(const device uchar *block, uint j) {
        const device float *f = (const device float *)block + j;
        return quant_make(float4(f[0], f[1], f[2], f[3]), float4(f[4], f[5], f[6], f[7]), 1.0f,
                          0.0f);
    }
    static float element(const device uchar *row, uint k) {
        return ((const device float *)row)[k];
    }
};

struct quant_f16 {
    enum : uint { BLOCK = 16, BYTES = 32, GAP = 8, HAS_MIN = 0, IS_PLAIN = 1 };
    static quant_run run(const device uchar *block, uint j) {
        const device half *h = (const device half *)block + j;
        return quant_make(float4(float(h[0]), float(h[1]), float(h[2]), float(h[3])),
                          float4(float(h[4]), float(h[5]), float(h[6]), float(h[7])), 1.0f, 0.0f);
    }
    static float element(const device uchar *row, uint k) {
        return float(((const device half *)row)[k]);
    }
};

struct quant_bf16 {
    enum : uint { BLOCK = 16, BYTES = 32, GAP = 8, HAS_MIN = 0, IS_PLAIN = 1 };
    static float4 four(uint low, uint high) {
        return as_type<float4>(uint4(low << 16, low & 0xFFFF0000u, high << 16, high & 0xFFFF0000u));
    }
    static quant_run run(const device uchar *block, uint j) {
        const uint2 first = quant_halves(block + 2 * j), second = quant_halves(block + 2 * j + 8);
        return quant_make(four(first.x, first.y), four(second.x, second.y), 1.0f, 0.0f);
    }
    static float element(const device uchar *row, uint k) {
        return as_type<float>(uint(((const device ushort *)row)[k]) << 16);
    }
};

/* ---- blocks of 32 ---- */

/* What they say of themselves. Not a struct to derive from: Metal's specification leaves derived
 * classes out, though its compiler takes them. */
#define QUANT_BLOCKS(block, bytes, gap, has_min)                                                   \
    enum : uint { BLOCK = block, BYTES = bytes, GAP = gap, HAS_MIN = has_min, IS_PLAIN = 0 };      \
    static float element(const device uchar *, uint) {                                             \
        return 0.0f;                                                                               \
    }

struct quant_q8_0 {
    QUANT_BLOCKS(32, 34, 8, 0)
    static quant_run run(const device uchar *block, uint j) {
        const uint2 q = quant_halves(block + 2 + j);
        return quant_make(float4(as_type<char4>(q.x)), float4(as_type<char4>(q.y)),
                          quant_half(block), 0.0f);
    }
};

struct quant_q4_0 {
    QUANT_BLOCKS(32, 18, 16, 0)
    static quant_run run(const device uchar *block, uint j) {
        const uint2 q = quant_nibbles(quant_halves(block + 2 + j % 16), j / 16 * 4);
        return quant_bytes(q, 8.0f, quant_half(block), 0.0f);
    }
};

struct quant_q4_1 {
    QUANT_BLOCKS(32, 20, 16, 1)
    static quant_run run(const device uchar *block, uint j) {
        const uint2 q = quant_nibbles(quant_words(block + 4 + j % 16), j / 16 * 4);
        return quant_bytes(q, 0.0f, quant_half(block), quant_half(block + 2));
    }
};

struct quant_q5_0 {
    QUANT_BLOCKS(32, 22, 16, 0)
    static quant_run run(const device uchar *block, uint j) {
        const uint2 q = quant_nibbles(quant_halves(block + 6 + j % 16), j / 16 * 4);
        const uint fifth = uint(((const device ushort *)(block + 2))[j / 16]) >> j % 16;
        return quant_bytes(q | quant_spread(fifth), 16.0f, quant_half(block), 0.0f);
    }
};

struct quant_q5_1 {
    QUANT_BLOCKS(32, 24, 16, 1)
    static quant_run run(const device uchar *block, uint j) {
        const uint2 q = quant_nibbles(quant_words(block + 8 + j % 16), j / 16 * 4);
        const uint fifth = uint(((const device ushort *)(block + 4))[j / 16]) >> j % 16;
        return quant_bytes(q | quant_spread(fifth), 0.0f, quant_half(block), quant_half(block + 2));
    }
};

/* ---- blocks of 256 ---- */

struct quant_q2_k {
    QUANT_BLOCKS(256, 84, 32, 1)
    static quant_run run(const device uchar *block, uint j) {
        const uint2 q = quant_words(block + 16 + j / 128 * 32 + j % 32);
        const uint scales = block[j / 16];
        return quant_bytes(quant_pairs(q, j % 128 / 32 * 2), 0.0f,
                           quant_half(block + 80) * float(scales & 15),
                           -(quant_half(block + 82) * float(scales >> 4)));
    }
};

struct quant_q3_k {
    QUANT_BLOCKS(256, 110, 32, 0)
    static float scale_of(const device uchar *s, uint g) {
        const uint low = g < 8 ? s[g] & 15 : s[g - 8] >> 4;
        const uint high = s[8 + g % 4] >> 2 * (g / 4) & 3;
        return float(int(low | high << 4) - 32);
    }
    static quant_run run(const device uchar *block, uint j) {
        const uint2 third = quant_halves(block + j % 32);
        const uint2 q = quant_halves(block + 32 + j / 128 * 32 + j % 32);
        return quant_bytes(quant_pairs(q, j % 128 / 32 * 2) | quant_bits(third, j / 32, 2), 4.0f,
                           quant_half(block + 108) * scale_of(block + 96, j / 16), 0.0f);
    }
};

struct quant_q4_k {
    QUANT_BLOCKS(256, 144, 32, 1)
    static quant_run run(const device uchar *block, uint j) {
        const uint2 q = quant_words(block + 16 + j / 64 * 32 + j % 32);
        const float2 s = quant_k_scale(block + 4, j / 32);
        return quant_bytes(quant_nibbles(q, j / 32 % 2 * 4), 0.0f, quant_half(block) * s.x,
                           -(quant_half(block + 2) * s.y));
    }
};

struct quant_q5_k {
    QUANT_BLOCKS(256, 176, 32, 1)
    static quant_run run(const device uchar *block, uint j) {
        const uint2 q = quant_words(block + 48 + j / 64 * 32 + j % 32);
        const uint2 fifth = quant_words(block + 16 + j % 32);
        const float2 s = quant_k_scale(block + 4, j / 32);
        return quant_bytes(quant_nibbles(q, j / 32 % 2 * 4) | quant_bits(fifth, j / 32, 4), 0.0f,
                           quant_half(block) * s.x, -(quant_half(block + 2) * s.y));
    }
};

struct quant_q6_k {
    QUANT_BLOCKS(256, 210, 64, 0)
    static quant_run run(const device uchar *block, uint j) {
        const uint part = j / 128, quarter = j % 128 / 32;
        const uint2 q = quant_halves(block + 64 * part + j % 64);
        const uint2 upper = quant_halves(block + 128 + 32 * part + j % 32);
        const float scale = float(((const device char *)(block + 192))[j / 16]);
        return quant_bytes(quant_nibbles(q, quarter / 2 * 4) | quant_pairs(upper, 2 * quarter) << 4,
                           32.0f, quant_half(block + 208) * scale, 0.0f);
    }
};

#endif
