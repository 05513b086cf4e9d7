/* msl_math.h - namespace metal: functions of scalars and vectors.
 *
 * As in MSL, max(x, 0) with a float x does not compile: both have one type. precise:: and the
 * unqualified functions are libm's; fast:: errs as much as the specification allows when the
 * runtime is asked to (MSL_FAST_TRIG). */
#ifndef MSL_MATH_H
#define MSL_MATH_H

namespace msl {
float fast_trig(float exact, float error_max);

template <class V> inline constexpr bool is_vector = (element<V>::n > 1);
template <class V>
inline constexpr bool is_float = std::is_same_v<typename element<V>::type, float> ||
                                 std::is_same_v<typename element<V>::type, half> ||
                                 std::is_same_v<typename element<V>::type, bfloat>;
/* f of every element. */
template <class V, class F> inline V each(V v, F f) {
    for (int i = 0; i < element<V>::n; i++) v[i] = f(v[i]);
    return v;
}
} // namespace msl

namespace metal {
#define MSL_MATH1(name, expression)                                                                \
    inline float name(float x) {                                                                   \
        return expression;                                                                         \
    }                                                                                              \
    template <class V> inline std::enable_if_t<msl::is_vector<V>, V> name(V v) {                   \
        return msl::each(v, [](float x) { return name(x); });                                      \
    }
#define MSL_MATHS                                                                                  \
    MSL_MATH1(exp, __builtin_expf(x))                                                              \
    MSL_MATH1(exp2, __builtin_exp2f(x))                                                            \
    MSL_MATH1(log, __builtin_logf(x))                                                              \
    MSL_MATH1(log2, __builtin_log2f(x))                                                            \
    MSL_MATH1(log10, __builtin_log10f(x))                                                          \
    MSL_MATH1(sqrt, __builtin_sqrtf(x))                                                            \
    MSL_MATH1(rsqrt, 1.0f / __builtin_sqrtf(x))                                                    \
    MSL_MATH1(tanh, __builtin_tanhf(x))
MSL_MATHS
MSL_MATH1(sin, __builtin_sinf(x))
MSL_MATH1(cos, __builtin_cosf(x))
MSL_MATH1(fabs, __builtin_fabsf(x))
MSL_MATH1(floor, __builtin_floorf(x))
MSL_MATH1(ceil, __builtin_ceilf(x))
MSL_MATH1(rint, __builtin_rintf(x))
MSL_MATH1(round, __builtin_roundf(x))
MSL_MATH1(trunc, __builtin_truncf(x))
MSL_MATH1(fract, x - __builtin_floorf(x))
inline float pow(float a, float b) {
    return __builtin_powf(a, b);
}
inline float powr(float a, float b) {
    return __builtin_powf(a, b);
}
inline float fmod(float a, float b) {
    return __builtin_fmodf(a, b);
}
inline float copysign(float a, float b) {
    return __builtin_copysignf(a, b);
}
inline float ldexp(float a, int k) {
    return __builtin_ldexpf(a, k);
}
inline float fma(float a, float b, float c) {
    return __builtin_fmaf(a, b, c);
}
template <class V> inline std::enable_if_t<msl::is_vector<V>, V> fma(V a, V b, V c) {
    for (int i = 0; i < msl::element<V>::n; i++) a[i] = fma(a[i], b[i], c[i]);
    return a;
}
inline float fmax(float a, float b) {
    return __builtin_fmaxf(a, b);
}
inline float fmin(float a, float b) {
    return __builtin_fminf(a, b);
}
/* Of a number and a NaN, the number; vectors by element. */
template <class T> inline T max(T a, T b) {
    if constexpr (msl::is_vector<T>) {
        for (int i = 0; i < msl::element<T>::n; i++) a[i] = max(a[i], b[i]);
        return a;
    } else {
        return (a != a || b > a) ? b : a;
    }
}
template <class T> inline T min(T a, T b) {
    if constexpr (msl::is_vector<T>) {
        for (int i = 0; i < msl::element<T>::n; i++) a[i] = min(a[i], b[i]);
        return a;
    } else {
        return (a != a || b < a) ? b : a;
    }
}
template <class T> inline T max3(T a, T b, T c) {
    return max(a, max(b, c));
}
template <class T> inline T min3(T a, T b, T c) {
    return min(a, min(b, c));
}
template <class T> inline T clamp(T x, T low, T high) {
    return min(max(x, low), high);
}
template <class T> inline T abs(T x) {
    if constexpr (msl::is_vector<T>)
        return msl::each(x, [](typename msl::element<T>::type e) { return abs(e); });
    else if constexpr (std::is_same_v<T, float>)
        return __builtin_fabsf(x);
    else
        return x < T(0) ? T(-x) : x;
}
inline float saturate(float x) {
    return __builtin_fminf(__builtin_fmaxf(x, 0.0f), 1.0f);
}
template <class T> inline T mix(T a, T b, T t) {
    return a + (b - a) * t;
}
inline float sign(float x) {
    return x > 0.0f ? 1.0f : x < 0.0f ? -1.0f : x;
}
inline float step(float edge, float x) {
    return x < edge ? 0.0f : 1.0f;
}
template <class T> inline T select(T a, T b, bool c) {
    return c ? b : a;
}
template <class V> inline auto dot(V a, V b) {
    typename msl::element<V>::type sum = a[0] * b[0];
    for (int i = 1; i < msl::element<V>::n; i++) sum += a[i] * b[i];
    return sum;
}
template <class V> inline auto length_squared(V a) {
    return dot(a, a);
}
template <class V> inline float length(V a) {
    return sqrt(dot(a, a));
}
/* The bits are looked at: true under every math option of the compiler. */
inline bool isnan(float x) {
    uint u;
    __builtin_memcpy(&u, &x, sizeof u);
    return (u & 0x7fffffffu) > 0x7f800000u;
}
inline bool isinf(float x) {
    uint u;
    __builtin_memcpy(&u, &x, sizeof u);
    return (u & 0x7fffffffu) == 0x7f800000u;
}
inline bool isfinite(float x) {
    return !isnan(x) && !isinf(x);
}
inline bool any(bool x) {
    return x;
}
inline bool all(bool x) {
    return x;
}

template <class T> inline T popcount(T x) {
    return (T)__builtin_popcountll((std::make_unsigned_t<T>)x);
}
inline uint clz(uint x) {
    return x ? (uint)__builtin_clz(x) : 32;
}
inline uint ctz(uint x) {
    return x ? (uint)__builtin_ctz(x) : 32;
}
inline uint rotate(uint x, uint n) {
    n &= 31;
    return n ? (x << n) | (x >> (32 - n)) : x;
}
inline uint reverse_bits(uint x) {
    return __builtin_bitreverse32(x);
}
inline uint mulhi(uint a, uint b) {
    return (uint)(((ulong)a * b) >> 32);
}
inline uint addsat(uint a, uint b) {
    return a + b < a ? 0xffffffffu : a + b;
}
inline uint subsat(uint a, uint b) {
    return a > b ? a - b : 0;
}
inline uint extract_bits(uint x, uint offset, uint bits) {
    return bits == 0 ? 0 : bits == 32 ? x : (x >> offset) & ((1u << bits) - 1);
}

inline float sincos(float x, float &cos_out) {
    cos_out = __builtin_cosf(x);
    return __builtin_sinf(x);
}

namespace precise {
MSL_MATHS
MSL_MATH1(sin, __builtin_sinf(x))
MSL_MATH1(cos, __builtin_cosf(x))
using metal::fma;
using metal::pow;
using metal::sincos;
inline float divide(float a, float b) {
    return a / b;
}
} // namespace precise
namespace fast {
MSL_MATHS
MSL_MATH1(sin, msl::fast_trig(__builtin_sinf(x), 1.0f / 8192))
MSL_MATH1(cos, msl::fast_trig(__builtin_cosf(x), 1.0f / 8192))
using metal::clamp;
using metal::fma;
using metal::fmax;
using metal::fmin;
using metal::max;
using metal::min;
using metal::pow;
inline float divide(float a, float b) {
    return a / b;
}
} // namespace fast
#undef MSL_MATH1
#undef MSL_MATHS

template <class T> struct numeric_limits;
template <> struct numeric_limits<float> {
    static constexpr float max() {
        return 3.402823466e+38f;
    }
    static constexpr float lowest() {
        return -3.402823466e+38f;
    }
    static constexpr float min() {
        return 1.17549435e-38f;
    }
    static constexpr float epsilon() {
        return 1.1920929e-7f;
    }
    static constexpr float infinity() {
        return __builtin_inff();
    }
    static constexpr float quiet_NaN() {
        return __builtin_nanf("");
    }
};
template <> struct numeric_limits<uint> {
    static constexpr uint max() {
        return 0xffffffffu;
    }
    static constexpr uint min() {
        return 0;
    }
};
template <> struct numeric_limits<int> {
    static constexpr int max() {
        return 0x7fffffff;
    }
    static constexpr int min() {
        return -0x7fffffff - 1;
    }
};
} // namespace metal

template <class D, class S> inline D as_type(S s) {
    static_assert(sizeof(D) == sizeof(S), "as_type keeps the size");
    D d;
    __builtin_memcpy((void *)&d, (const void *)&s, sizeof d);
    return d;
}
namespace metal {
using ::as_type;
}

#define METAL_FUNC inline __attribute__((always_inline))
#undef INFINITY
#define INFINITY __builtin_inff()
#undef NAN
#define NAN         __builtin_nanf("")
#define M_PI_F      3.14159265358979323846f
#define M_1_PI_F    0.318309886183790671538f
#define M_2_PI_F    0.636619772367581343076f
#define M_SQRT2_F   1.41421356237309504880f
#define M_LOG2E_F   1.44269504088896340736f
#define M_LN2_F     0.693147180559945309417f
#define FLT_MAX     3.402823466e+38f
#define FLT_MIN     1.17549435e-38f
#define FLT_EPSILON 1.1920929e-7f
#define INT_MAX     0x7fffffff
#define INT_MIN     (-0x7fffffff - 1)
#define UINT_MAX    0xffffffffu

#endif
