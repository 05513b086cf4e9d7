/* alloc_fail.h - makes the k-th allocation fail, and counts what is not freed.
 *
 * Include it in exactly one file of a test program: it defines malloc and its relatives for the
 * whole program, shared libraries included, on top of the C library's own (or of
 * AddressSanitizer's). Usage:
 *
 *     static bool attempt(void *user) { ... return true if it worked, false if it reported
 * RADISH_E_NOMEM ... } size_t n = alloc_fail_each(attempt, user);      tries with the 1st, 2nd, ...
 * allocation failing, until none fails
 *
 * After each attempt everything allocated in it must be free again. One thread only. Needs glibc:
 * alloc_fail_can(). */
#ifndef SUPPORT_ALLOC_FAIL_H
#define SUPPORT_ALLOC_FAIL_H

#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>

#include <cmocka.h>

static size_t alloc_fail_at; /* 0 = off: counts from 1 */
static size_t alloc_fail_count;
static long alloc_fail_live;

#if defined(__has_feature)
#if __has_feature(address_sanitizer)
#define ALLOC_FAIL_REAL(name) __interceptor_##name
#elif __has_feature(thread_sanitizer)
/* ThreadSanitizer's malloc does not work before it has started. */
#define ALLOC_FAIL_CANNOT
#endif
#endif
#ifdef __SANITIZE_THREAD__
#define ALLOC_FAIL_CANNOT
#endif
#if !defined(ALLOC_FAIL_REAL) && defined(__SANITIZE_ADDRESS__)
#define ALLOC_FAIL_REAL(name) __interceptor_##name
#endif
#if !defined(ALLOC_FAIL_REAL) && !defined(ALLOC_FAIL_CANNOT) && defined(__GLIBC__)
#define ALLOC_FAIL_REAL(name) __libc_##name
#endif

#ifdef ALLOC_FAIL_REAL
/* Shared libraries must find these, whatever the default visibility. */
#define ALLOC_FAIL_EXPORT __attribute__((visibility("default")))

void *ALLOC_FAIL_REAL(malloc)(size_t n);
void *ALLOC_FAIL_REAL(calloc)(size_t n, size_t size);
void *ALLOC_FAIL_REAL(realloc)(void *p, size_t n);
void *ALLOC_FAIL_REAL(memalign)(size_t align, size_t n);
void ALLOC_FAIL_REAL(free)(void *p);

static bool alloc_fail_now(void) {
    if (!alloc_fail_at || ++alloc_fail_count != alloc_fail_at) return false;
    errno = ENOMEM;
    return true;
}

static void *alloc_fail_note(void *p) {
    if (alloc_fail_at && p) alloc_fail_live++;
    return p;
}

ALLOC_FAIL_EXPORT void *malloc(size_t n) {
    return alloc_fail_now() ? NULL : alloc_fail_note(ALLOC_FAIL_REAL(malloc)(n));
}

ALLOC_FAIL_EXPORT void *calloc(size_t n, size_t size) {
    return alloc_fail_now() ? NULL : alloc_fail_note(ALLOC_FAIL_REAL(calloc)(n, size));
}

ALLOC_FAIL_EXPORT void *realloc(void *p, size_t n) {
    if (alloc_fail_now()) return NULL;
    void *q = ALLOC_FAIL_REAL(realloc)(p, n);
    return p ? q : alloc_fail_note(q);
}

ALLOC_FAIL_EXPORT void *aligned_alloc(size_t align, size_t n) {
    return alloc_fail_now() ? NULL : alloc_fail_note(ALLOC_FAIL_REAL(memalign)(align, n));
}

ALLOC_FAIL_EXPORT void free(void *p) {
    if (alloc_fail_at && p) alloc_fail_live--;
    ALLOC_FAIL_REAL(free)(p);
}

static inline bool alloc_fail_can(void) {
    return true;
}
#else
static inline bool alloc_fail_can(void) {
    return false;
}
#endif

/* Returns how many allocations the attempt makes when none of them fails. */
static inline size_t alloc_fail_each(bool (*attempt)(void *user), void *user) {
    for (size_t k = 1;; k++) {
        alloc_fail_count = 0;
        alloc_fail_live = 0;
        alloc_fail_at = k;
        const bool is_done = attempt(user);
        alloc_fail_at = 0;
        if (alloc_fail_live != 0)
            fail_msg("%ld allocations leak when allocation %zu fails", alloc_fail_live, k);
        /* Code may get by without an allocation (qsort does), so success alone is not the end. */
        if (alloc_fail_count < k) {
            assert_true(is_done);
            return k - 1;
        }
    }
}

#endif
