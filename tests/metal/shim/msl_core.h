/* msl_core.h - types of MSL in C++, and how the runtime and a kernel's thunk meet.
 *
 * Vectors are clang's ext_vector_type: real swizzles, three elements take four's room, as in MSL.
 * half and bfloat are the compiler's types, rounded after every operation (the build's options see
 * to that). Under MSL_LINT they are classes that convert to float and do nothing else: radish's
 * kernels convert at load, because `bfloat` has neither SIMD-group functions nor vectors past two
 * elements on every Mac. */
#ifndef MSL_CORE_H
#define MSL_CORE_H

#include "msl_rt.h"

#include <tuple>
#include <type_traits>

typedef unsigned char uchar;
typedef unsigned short ushort;
typedef unsigned int uint;
typedef unsigned long ulong;

#ifdef MSL_LINT
namespace msl {
/* A 16-bit float: K = 0 half, 1 bfloat. */
template <int K> struct Small {
    unsigned short bits;
    Small() = default;
    template <class A, class = std::enable_if_t<std::is_arithmetic_v<A> && K == 0>>
    Small(A x, int = 0);
    template <class A, class = std::enable_if_t<std::is_arithmetic_v<A> && K == 1>>
    explicit Small(A x);
    template <int J, class = std::enable_if_t<J != K>> explicit Small(Small<J> x);
    operator float() const;
};
#define MSL_NONE(op) template <int J, int K> void operator op(Small<J>, Small<K>) = delete
MSL_NONE(+);
MSL_NONE(-);
MSL_NONE(*);
MSL_NONE(/);
MSL_NONE(<);
MSL_NONE(>);
MSL_NONE(<=);
MSL_NONE(>=);
MSL_NONE(==);
MSL_NONE(!=);
#undef MSL_NONE
template <int K, class A> void operator+=(Small<K> &, A) = delete;
template <int K, class A> void operator-=(Small<K> &, A) = delete;
template <int K, class A> void operator*=(Small<K> &, A) = delete;
template <int K, class A> void operator/=(Small<K> &, A) = delete;
} // namespace msl
typedef msl::Small<0> half;
typedef msl::Small<1> bfloat;
#else
typedef _Float16 half;
typedef __bf16 bfloat;
#endif
typedef bfloat bfloat16_t;
typedef half float16_t;

/* ---- vectors ---- */

namespace msl {
template <class T, int N> struct vector_of { typedef T type __attribute__((ext_vector_type(N))); };
#ifdef MSL_LINT
template <int K, int N> struct vector_of<Small<K>, N> {
    struct alignas(N == 2 ? 4 : 8) type {
        Small<K> x, y, z, w;
        Small<K> &operator[](int i);
        const Small<K> &operator[](int i) const;
    };
};
#endif
/* The element type and count of a vector; of a scalar, itself and 1. */
template <class V> struct element {
    typedef V type;
    static constexpr int n = 1;
};
} // namespace msl

#define MSL_VECTOR(T, N)                                                                           \
    typedef msl::vector_of<T, N>::type T##N;                                                       \
    template <> struct msl::element<T##N> {                                                        \
        typedef T type;                                                                            \
        static constexpr int n = N;                                                                \
    }
#define MSL_VECTORS(T)                                                                             \
    MSL_VECTOR(T, 2);                                                                              \
    MSL_VECTOR(T, 3);                                                                              \
    MSL_VECTOR(T, 4)
MSL_VECTORS(float);
MSL_VECTORS(half);
MSL_VECTORS(bfloat);
MSL_VECTORS(int);
MSL_VECTORS(uint);
MSL_VECTORS(short);
MSL_VECTORS(ushort);
MSL_VECTORS(char);
MSL_VECTORS(uchar);
MSL_VECTORS(long);
MSL_VECTORS(ulong);
MSL_VECTORS(bool);
#undef MSL_VECTORS
#undef MSL_VECTOR
typedef float packed_float2 __attribute__((ext_vector_type(2), aligned(4)));
typedef float packed_float4 __attribute__((ext_vector_type(4), aligned(4)));
typedef uint packed_uint2 __attribute__((ext_vector_type(2), aligned(4)));
typedef uint packed_uint4 __attribute__((ext_vector_type(4), aligned(4)));

namespace metal {
template <class T, int N> using vec = typename msl::vector_of<T, N>::type;
}

/* float4(a, b, ...): the pre-pass writes msl_make<float4>(a, b, ...). Parts are scalars and vectors
 * whose elements sum up; one scalar fills all. */
template <class V, class A> inline void msl_put(V &v, int &i, const A &a) {
    typedef typename msl::element<V>::type T;
    if constexpr (msl::element<A>::n == 1)
        v[i++] = (T)a;
    else
        for (int k = 0; k < msl::element<A>::n; k++) v[i++] = (T)a[k];
}
template <class V, class A> inline V msl_make(A a) {
    constexpr int n = msl::element<A>::n;
    static_assert(n == 1 || n == msl::element<V>::n, "vectors of different lengths");
    typedef typename msl::element<V>::type T;
    V v;
    for (int k = 0; k < msl::element<V>::n; k++)
        if constexpr (n == 1)
            v[k] = (T)a;
        else
            v[k] = (T)a[k];
    return v;
}
template <class V, class A, class B, class... R> inline V msl_make(A a, B b, R... r) {
    static_assert((msl::element<A>::n + msl::element<B>::n + (0 + ... + msl::element<R>::n)) ==
                      msl::element<V>::n,
                  "as many parts as the vector has elements");
    V v;
    int i = 0;
    msl_put(v, i, a);
    msl_put(v, i, b);
    (msl_put(v, i, r), ...);
    return v;
}

/* ---- address spaces ---- */

#if defined(MSL_CHECK)
#define MSL_device             __attribute__((address_space(1)))
#define MSL_constant           const __attribute__((address_space(2)))
#define MSL_threadgroup        __attribute__((address_space(3)))
#define MSL_SHARED(type, name) extern __attribute__((address_space(3))) type name
#else
#define MSL_device
#define MSL_constant const
#define MSL_threadgroup
#define MSL_SHARED(type, name)                                                                     \
    static char name##_key;                                                                        \
    type &name = *static_cast<type *>(msl::shared_variable(&name##_key, sizeof(type)))
#endif
#define MSL_thread

/* ---- between the runtime and a kernel ---- */

namespace msl {
/* What a thread is told of itself: named as the attributes. */
struct Lane {
    uint thread_position_in_grid[3], thread_position_in_threadgroup[3];
    uint threadgroup_position_in_grid[3], threads_per_threadgroup[3];
    uint dispatch_threads_per_threadgroup[3], threadgroups_per_grid[3], threads_per_grid[3];
    uint thread_index_in_threadgroup[3], thread_index_in_simdgroup[3];
    uint simdgroup_index_in_threadgroup[3], simdgroups_per_threadgroup[3];
    uint threads_per_simdgroup[3];
};

struct Arguments {
    void *buffers[MSL_BINDINGS];
    void *shared[MSL_BINDINGS];
};

struct Ptr {
    void *p;
    template <class T> operator T *() const {
        return static_cast<T *>(p);
    }
};
struct Ref {
    void *p;
    template <class T> operator T &() const {
        return *static_cast<T *>(p);
    }
};
struct Position {
    const uint *v;
    operator uint() const {
        return v[0];
    }
    operator ushort() const {
        return (ushort)v[0];
    }
    operator uint2() const {
        return uint2{v[0], v[1]};
    }
    operator ushort2() const {
        return ushort2{(ushort)v[0], (ushort)v[1]};
    }
    operator uint3() const {
        return uint3{v[0], v[1], v[2]};
    }
    operator ushort3() const {
        return ushort3{(ushort)v[0], (ushort)v[1], (ushort)v[2]};
    }
};

template <long I> constexpr uint32_t index_of() {
    static_assert(I >= 0 && I < (long)MSL_BINDINGS, "Metal has 31 bindings");
    return (uint32_t)I;
}

template <class T> constexpr uint32_t align_of() {
    if constexpr (std::is_void_v<T>)
        return 1;
    else
        return alignof(T);
}
/* The alignment of what parameter I of a kernel points to. */
template <size_t I, class... P> constexpr uint32_t param_align(void (*)(P...)) {
    typedef std::tuple_element_t<I, std::tuple<P...>> T;
    return align_of<std::remove_pointer_t<std::remove_reference_t<T>>>();
}

typedef void (*Thunk)(const Arguments &, const Lane &);
/* Tells the runtime of a kernel. uses: function constants it needs, up to nullptr. is_meeting: its
 * threads wait for each other. */
struct Register {
    Register(const msl_kernel &kernel, Thunk thunk, const void *const *uses, bool is_meeting);
};

/* ---- function constants ---- */

template <class T> constexpr msl_type type_of() {
    return std::is_same_v<T, bool>     ? MSL_TYPE_BOOL
           : std::is_same_v<T, int>    ? MSL_TYPE_INT
           : std::is_same_v<T, uint>   ? MSL_TYPE_UINT
           : std::is_same_v<T, short>  ? MSL_TYPE_SHORT
           : std::is_same_v<T, ushort> ? MSL_TYPE_USHORT
           : std::is_same_v<T, half>   ? MSL_TYPE_HALF
                                       : MSL_TYPE_FLOAT;
}
struct Constant {
    Constant(const char *name, const char *file, uint32_t index, void *value, size_t bytes,
             msl_type type);
};
bool is_constant_set(const void *value);
int constant_probe();                   /* never defined: what is only checked is never run */
template <long I> struct ConstantIndex; /* two constants of one index do not compile */

void *shared_variable(const void *key, size_t bytes);
} // namespace msl

#define MSL_INDEX_ONCE(index)                                                                      \
    template <> struct msl::ConstantIndex<(index)> {};
#ifdef MSL_RUN
#define MSL_FC(type, name, index)                                                                  \
    MSL_INDEX_ONCE(index)                                                                          \
    static type name;                                                                              \
    static const msl::Constant name##_constant(#name, __FILE__, index, &name, sizeof(type),        \
                                               msl::type_of<type>())
#else
#define MSL_FC(type, name, index)                                                                  \
    MSL_INDEX_ONCE(index) static const type name = type(msl::constant_probe())
#endif
#define is_function_constant_defined(name) msl::is_constant_set(&name)

#endif
