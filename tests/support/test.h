/* test.h - what every test program includes: cmocka with the headers it wants before itself. */
#ifndef SUPPORT_TEST_H
#define SUPPORT_TEST_H

#include <setjmp.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

/* A missing resource: ctest counts exit status 77 as skipped. */
#define TEST_SKIPPED 77

/* Says that n golden answers of a file of the conformance data (its path there) were compared, and
 * all agree; `what` tells kinds of answers apart. Call it where a test has passed:
 * tests/conformance_coverage.py holds these lines against what the files have, so that no row is
 * left out without anybody noticing. */
static inline void report_covered(const char *file, const char *what, size_t n) {
    printf("covered: %s %s %zu\n", file, what, n);
    fflush(stdout);
}

#endif
