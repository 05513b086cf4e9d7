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

#endif
