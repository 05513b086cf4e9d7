/* msl_atomic.h - atomics in device and threadgroup memory: relaxed, as in MSL before 3.2. */
#ifndef MSL_ATOMIC_H
#define MSL_ATOMIC_H

namespace metal {
enum memory_order { memory_order_relaxed };

template <class T> struct atomic { T value; };
typedef atomic<uint> atomic_uint;
typedef atomic<int> atomic_int;
typedef atomic<float> atomic_float; /* in device memory, Metal 3 */
typedef atomic<bool> atomic_bool;

#ifdef MSL_CHECK /* clang's own want no address space; nothing runs */
#define MSL_ATOMIC(op) ((void)x, a->value)
template <class P> inline auto msl_exchange(P a, decltype(a->value + 0) x) {
    auto old = a->value;
    a->value = x;
    return old;
}
template <class P> inline auto msl_load(P a) {
    return a->value;
}
#else
#define MSL_ATOMIC(op) op(&a->value, x, __ATOMIC_RELAXED)
template <class P> inline auto msl_exchange(P a, decltype(a->value + 0) x) {
    decltype(a->value + 0) old;
    __typeof__(a->value) now = x;
    __atomic_exchange(&a->value, &now, &old, __ATOMIC_RELAXED);
    return old;
}
template <class P> inline auto msl_load(P a) {
    __typeof__(a->value + 0) x;
    __atomic_load(&a->value, &x, __ATOMIC_RELAXED);
    return x;
}
#endif

template <class P> inline auto atomic_load_explicit(P a, memory_order) {
    return msl_load(a);
}
template <class P> inline void atomic_store_explicit(P a, decltype(a->value + 0) x, memory_order) {
    (void)msl_exchange(a, x);
}
template <class P>
inline auto atomic_exchange_explicit(P a, decltype(a->value + 0) x, memory_order) {
    return msl_exchange(a, x);
}
#define MSL_FETCH(name)                                                                            \
    template <class P>                                                                             \
    inline auto atomic_fetch_##name##_explicit(P a, decltype(a->value + 0) x, memory_order) {      \
        return MSL_ATOMIC(__atomic_fetch_##name);                                                  \
    }
MSL_FETCH(sub)
MSL_FETCH(and)
MSL_FETCH(or)
MSL_FETCH(xor)
MSL_FETCH(min)
MSL_FETCH(max)
#undef MSL_FETCH
template <class P>
inline auto atomic_fetch_add_explicit(P a, decltype(a->value + 0) x, memory_order) {
#ifndef MSL_CHECK
    if constexpr (std::is_same_v<decltype(a->value + 0), float>) {
        float old, sum;
        __atomic_load(&a->value, &old, __ATOMIC_RELAXED);
        do sum = old + x;
        while (!__atomic_compare_exchange(&a->value, &old, &sum, true, __ATOMIC_RELAXED,
                                          __ATOMIC_RELAXED));
        return old;
    } else
#endif
        return MSL_ATOMIC(__atomic_fetch_add);
}
#undef MSL_ATOMIC
template <class P, class E>
inline bool atomic_compare_exchange_weak_explicit(P a, E expected, decltype(a->value + 0) x,
                                                  memory_order, memory_order) {
#ifdef MSL_CHECK
    a->value = x;
    return *expected == x;
#else
    return __atomic_compare_exchange(&a->value, expected, &x, true, __ATOMIC_RELAXED,
                                     __ATOMIC_RELAXED);
#endif
}
} // namespace metal

#endif
