/* msl_simd.h - where threads meet: barriers, functions of a SIMD-group, 8x8 matrices.
 *
 * A thread that calls one of these leaves what it brings and waits (msl::meet); when all that are
 * still at work have got to the same call, or wait elsewhere, it goes on with what everybody
 * brought. Calls are told apart by their place in the source. What all threads of a SIMD-group get
 * alike, or one can compute for all (sums, a product of matrices), the first one that goes on
 * computes; the others take it.
 *
 * What is undefined in Metal is all ones here: NaN, or a very large number.
 *
 * A matrix has two elements a thread, in the places that MLX and vllm-metal rely on; Apple does not
 * document them:
 *     row = 4 * bit4 + (lane / 2) % 4      column = 4 * bit3 + 2 * bit0, and the next */
#ifndef MSL_SIMD_H
#define MSL_SIMD_H

namespace msl {
/* A call's place. */
struct Site {
    const char *file;
    int line, column;
    static constexpr Site here(const char *f = __builtin_FILE(), int l = __builtin_LINE(),
                               int c = __builtin_COLUMN()) {
        return Site{f, l, c};
    }
};

enum { MEET_BYTES = 64, SIMD_WIDTH = 32 };
enum Operation { OP_REDUCE, OP_SHUFFLE, OP_BALLOT, OP_PREFIX, OP_MATRIX };

/* What the threads of a SIMD-group that met have brought. */
struct Meeting {
    uint32_t mask; /* who is there */
    bool has_result;
    alignas(16) unsigned char brought[SIMD_WIDTH][MEET_BYTES];
    alignas(16) unsigned char result[SIMD_WIDTH][MEET_BYTES];
};

#ifdef MSL_RUN
Meeting &meet(Operation op, Site site, const void *bytes, size_t n);
uint lane(); /* thread_index_in_simdgroup of who asks */
/* is_ordering: threadgroup memory is among the flags. */
void threadgroup_barrier(bool is_ordering, Site site);
void simdgroup_barrier(bool is_ordering, Site site);
#else
inline Meeting &meet(Operation, Site, const void *, size_t) {
    static Meeting m;
    return m;
}
inline uint lane() {
    return 0;
}
inline void threadgroup_barrier(bool, Site) {}
inline void simdgroup_barrier(bool, Site) {}
#endif

template <class T> inline T take(const unsigned char *bytes) {
    T x;
    __builtin_memcpy((void *)&x, bytes, sizeof x);
    return x;
}
template <class T> inline T undefined_value() {
    T x;
    __builtin_memset((void *)&x, 0xff, sizeof x);
    return x;
}
/* What lane i brought. */
template <class T> inline T brought(const Meeting &m, uint i) {
    return i < SIMD_WIDTH && (m.mask >> i & 1) ? take<T>(m.brought[i]) : undefined_value<T>();
}
/* f over what all brought, as a tree. */
template <class T, class F> inline T reduce(T x, Site site, F f) {
    static_assert(sizeof(T) <= MEET_BYTES, "too much for a SIMD-group function");
    static_assert(!std::is_same_v<T, bfloat>, "bfloat has no SIMD-group functions");
    Meeting &m = meet(OP_REDUCE, site, &x, sizeof x);
    if (!m.has_result) {
        T v[SIMD_WIDTH];
        uint n = 0;
        for (uint i = 0; i < SIMD_WIDTH; i++)
            if (m.mask >> i & 1) v[n++] = take<T>(m.brought[i]);
        for (; n > 1; n = (n + 1) / 2)
            for (uint i = 0; i < n / 2; i++) v[i] = f(v[i], v[n - 1 - i]);
        __builtin_memcpy(m.result[0], (const void *)v, sizeof(T));
        m.has_result = true;
    }
    return take<T>(m.result[0]);
}
template <class T> inline Meeting &bring(Operation op, Site site, const T &x) {
    static_assert(sizeof(T) <= MEET_BYTES, "too much for a SIMD-group function");
    static_assert(!std::is_same_v<T, bfloat>, "bfloat has no SIMD-group functions");
    return meet(op, site, &x, sizeof x);
}
} // namespace msl

namespace metal {
enum class mem_flags : uint {
    mem_none = 0,
    mem_device = 1,
    mem_threadgroup = 2,
    mem_texture = 4,
    mem_threadgroup_imageblock = 8
};
inline mem_flags operator|(mem_flags a, mem_flags b) {
    return mem_flags(uint(a) | uint(b));
}
#define MSL_SITE msl::Site site = msl::Site::here()
inline bool msl_has_shared(mem_flags flags) {
    return uint(flags) & uint(mem_flags::mem_threadgroup);
}
inline void threadgroup_barrier(mem_flags flags, MSL_SITE) {
    msl::threadgroup_barrier(msl_has_shared(flags), site);
}
inline void simdgroup_barrier(mem_flags flags, MSL_SITE) {
    msl::simdgroup_barrier(msl_has_shared(flags), site);
}

template <class T> inline T simd_sum(T x, MSL_SITE) {
    return msl::reduce(x, site, [](T a, T b) { return T(a + b); });
}
template <class T> inline T simd_product(T x, MSL_SITE) {
    return msl::reduce(x, site, [](T a, T b) { return T(a * b); });
}
template <class T> inline T simd_max(T x, MSL_SITE) {
    return msl::reduce(x, site, [](T a, T b) { return max(a, b); });
}
template <class T> inline T simd_min(T x, MSL_SITE) {
    return msl::reduce(x, site, [](T a, T b) { return min(a, b); });
}
template <class T> inline T simd_or(T x, MSL_SITE) {
    return msl::reduce(x, site, [](T a, T b) { return T(a | b); });
}
template <class T> inline T simd_and(T x, MSL_SITE) {
    return msl::reduce(x, site, [](T a, T b) { return T(a & b); });
}
template <class T> inline T simd_xor(T x, MSL_SITE) {
    return msl::reduce(x, site, [](T a, T b) { return T(a ^ b); });
}
inline bool simd_any(bool x, MSL_SITE) {
    return msl::reduce(x, site, [](bool a, bool b) { return a || b; });
}
inline bool simd_all(bool x, MSL_SITE) {
    return msl::reduce(x, site, [](bool a, bool b) { return a && b; });
}

template <class T> inline T simd_shuffle(T x, ushort from, MSL_SITE) {
    return msl::brought<T>(msl::bring(msl::OP_SHUFFLE, site, x), from);
}
template <class T> inline T simd_broadcast(T x, ushort from, MSL_SITE) {
    return msl::brought<T>(msl::bring(msl::OP_SHUFFLE, site, x), from);
}
template <class T> inline T simd_shuffle_xor(T x, ushort bits, MSL_SITE) {
    return msl::brought<T>(msl::bring(msl::OP_SHUFFLE, site, x), msl::lane() ^ bits);
}
/* Past the end a thread keeps its own. */
template <class T> inline T simd_shuffle_down(T x, ushort by, MSL_SITE) {
    msl::Meeting &m = msl::bring(msl::OP_SHUFFLE, site, x);
    uint from = msl::lane() + by;
    return from < msl::SIMD_WIDTH ? msl::brought<T>(m, from) : x;
}
template <class T> inline T simd_shuffle_up(T x, ushort by, MSL_SITE) {
    msl::Meeting &m = msl::bring(msl::OP_SHUFFLE, site, x);
    return msl::lane() >= by ? msl::brought<T>(m, msl::lane() - by) : x;
}
template <class T> inline T simd_shuffle_rotate_down(T x, ushort by, MSL_SITE) {
    return msl::brought<T>(msl::bring(msl::OP_SHUFFLE, site, x), (msl::lane() + by) & 31u);
}
template <class T> inline T simd_shuffle_rotate_up(T x, ushort by, MSL_SITE) {
    return msl::brought<T>(msl::bring(msl::OP_SHUFFLE, site, x), (msl::lane() - by) & 31u);
}
template <class T> inline T simd_broadcast_first(T x, MSL_SITE) {
    msl::Meeting &m = msl::bring(msl::OP_SHUFFLE, site, x);
    return msl::brought<T>(m, ctz(m.mask));
}
inline bool simd_is_first(MSL_SITE) {
    return msl::lane() == ctz(msl::bring(msl::OP_BALLOT, site, (uint)0).mask);
}
struct simd_vote {
    ulong bits;
    explicit operator ulong() const {
        return bits;
    }
    bool any() const {
        return bits != 0;
    }
};
inline simd_vote simd_ballot(bool x, MSL_SITE) {
    msl::Meeting &m = msl::bring(msl::OP_BALLOT, site, x);
    ulong bits = 0;
    for (uint i = 0; i < msl::SIMD_WIDTH; i++)
        if ((m.mask >> i & 1) && msl::take<bool>(m.brought[i])) bits |= 1ul << i;
    return simd_vote{bits};
}
inline simd_vote simd_active_threads_mask(MSL_SITE) {
    return simd_vote{msl::bring(msl::OP_BALLOT, site, (uint)0).mask};
}
template <class T> inline T simd_prefix_exclusive_sum(T x, MSL_SITE) {
    msl::Meeting &m = msl::bring(msl::OP_PREFIX, site, x);
    T sum = T(0);
    for (uint i = 0; i < msl::lane(); i++)
        if (m.mask >> i & 1) sum = T(sum + msl::take<T>(m.brought[i]));
    return sum;
}
template <class T> inline T simd_prefix_inclusive_sum(T x, MSL_SITE) {
    return T(simd_prefix_exclusive_sum(x, site) + x);
}

/* ---- 8x8 matrices ---- */

template <class T, int R, int C> struct simdgroup_matrix;
template <class T> struct simdgroup_matrix<T, 8, 8> {
    T e[2];
    simdgroup_matrix() {
        e[0] = e[1] = msl::undefined_value<T>();
    }
    explicit simdgroup_matrix(T diagonal) {
        for (int i = 0; i < 2; i++)
            e[i] = row(msl::lane()) == column(msl::lane()) + i ? diagonal : T(0.0f);
    }
    static int row(uint lane) {
        return (int)((lane >> 2 & 4) | (lane >> 1 & 3));
    }
    static int column(uint lane) {
        return (int)((lane >> 1 & 4) | (lane << 1 & 2));
    }
    /* The two as a value that refers to them: MSL's is a reference to a vector. */
    struct Elements {
        T *p;
        T &operator[](int i) const {
            return p[i];
        }
    };
    Elements thread_elements() {
        return Elements{e};
    }
};
typedef simdgroup_matrix<float, 8, 8> simdgroup_float8x8;
typedef simdgroup_matrix<half, 8, 8> simdgroup_half8x8;
typedef simdgroup_matrix<bfloat, 8, 8> simdgroup_bfloat8x8;

template <class T, int R, int C>
inline simdgroup_matrix<T, R, C> make_filled_simdgroup_matrix(T v) {
    simdgroup_matrix<T, R, C> m;
    m.e[0] = m.e[1] = v;
    return m;
}
/* Element (row, column) is p[row * stride + column], from `origin` (x, y) on. */
template <class T, class P>
inline void simdgroup_load(simdgroup_matrix<T, 8, 8> &m, P p, ulong stride = 8,
                           ulong2 origin = ulong2{0, 0}, bool is_transposed = false) {
    ulong r = (ulong)m.row(msl::lane()), c = (ulong)m.column(msl::lane());
    for (ulong i = 0; i < 2; i++)
        m.e[i] = is_transposed ? p[(origin.y + c + i) * stride + origin.x + r]
                               : p[(origin.y + r) * stride + origin.x + c + i];
}
template <class T, class P>
inline void simdgroup_store(simdgroup_matrix<T, 8, 8> m, P p, ulong stride = 8,
                            ulong2 origin = ulong2{0, 0}, bool is_transposed = false) {
    ulong r = (ulong)m.row(msl::lane()), c = (ulong)m.column(msl::lane());
    for (ulong i = 0; i < 2; i++)
        p[is_transposed ? (origin.y + c + i) * stride + origin.x + r
                        : (origin.y + r) * stride + origin.x + c + i] = m.e[i];
}
/* d = a b + c; products and sums in float, as the hardware's are. */
template <class D, class A, class B, class C>
inline void simdgroup_multiply_accumulate(simdgroup_matrix<D, 8, 8> &d, simdgroup_matrix<A, 8, 8> a,
                                          simdgroup_matrix<B, 8, 8> b, simdgroup_matrix<C, 8, 8> c,
                                          MSL_SITE) {
    typedef simdgroup_matrix<float, 8, 8> F;
    float mine[6] = {(float)a.e[0], (float)a.e[1], (float)b.e[0],
                     (float)b.e[1], (float)c.e[0], (float)c.e[1]};
    msl::Meeting &m = msl::meet(msl::OP_MATRIX, site, mine, sizeof mine);
    if (!m.has_result) {
        float ma[8][8], mb[8][8], mc[8][8];
        for (uint l = 0; l < msl::SIMD_WIDTH; l++) {
            float x[6];
            __builtin_memcpy(x, m.brought[l], sizeof x);
            for (int i = 0; i < 2; i++) {
                ma[F::row(l)][F::column(l) + i] = x[i];
                mb[F::row(l)][F::column(l) + i] = x[2 + i];
                mc[F::row(l)][F::column(l) + i] = x[4 + i];
            }
        }
        for (int r = 0; r < 8; r++)
            for (int k = 0; k < 8; k++)
                for (int j = 0; j < 8; j++) mc[r][j] += ma[r][k] * mb[k][j];
        for (uint l = 0; l < msl::SIMD_WIDTH; l++)
            __builtin_memcpy(m.result[l], &mc[F::row(l)][F::column(l)], 2 * sizeof(float));
        m.has_result = true;
    }
    float x[2];
    __builtin_memcpy(x, m.result[msl::lane()], sizeof x);
    d.e[0] = (D)x[0];
    d.e[1] = (D)x[1];
}
template <class D, class A, class B>
inline void simdgroup_multiply(simdgroup_matrix<D, 8, 8> &d, simdgroup_matrix<A, 8, 8> a,
                               simdgroup_matrix<B, 8, 8> b, MSL_SITE) {
    simdgroup_multiply_accumulate(d, a, b, make_filled_simdgroup_matrix<float, 8, 8>(0.0f), site);
}
#undef MSL_SITE
} // namespace metal

#endif
