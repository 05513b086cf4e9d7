/* test_kernels.c - every row of ops.def that this processor can run, tested as the row declares it.
 *
 * One test per row, named after it: values against double arithmetic within the row's tolerance,
 * bits against the plain C variant of the same bit class, alone against batched, one thread against
 * two. Rows for other processors are listed as skipped, so that a run on a larger machine can be
 * told from one that saw everything. Which shapes: tests/support/kernel_<op>.c. Arguments are parts
 * of names: only the rows that have one of them are tested, and none that has one written with a
 * minus. */
#include "kernel_check.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

static void check_row(void **state) {
    static void (*const checks[KERNEL_OP_COUNT])(const struct kernel_row *) = {
        [KERNEL_OP_EMBED] = check_embed,         [KERNEL_OP_RMSNORM] = check_rmsnorm,
        [KERNEL_OP_MATMUL] = check_matmul,       [KERNEL_OP_LAYERNORM] = check_layernorm,
        [KERNEL_OP_SILU_MUL] = check_silu_mul,   [KERNEL_OP_ACTIVATE] = check_activate,
        [KERNEL_OP_SOFT_CAP] = check_soft_cap,   [KERNEL_OP_ROPE_KV_STORE] = check_rope_kv_store,
        [KERNEL_OP_ATTENTION] = check_attention, [KERNEL_OP_MATMUL_GROUP] = check_matmul_group,
        [KERNEL_OP_KEEP_ROWS] = check_keep_rows, [KERNEL_OP_PREPARE] = check_prepare,
    };
    const struct kernel_row *row = *state;
    checks[row->op](row);
}

/* Whether the name has one of the n parts, or there are none; and no part that a minus stands
 * before. */
static bool is_wanted(const char *name, char **parts, int n) {
    bool has_any = false, is_named = false;
    for (int i = 0; i < n; i++) {
        if (parts[i][0] == '-' && strstr(name, parts[i] + 1)) return false;
        has_any = has_any || parts[i][0] != '-';
        is_named = is_named || (parts[i][0] != '-' && strstr(name, parts[i]));
    }
    return is_named || !has_any;
}

int main(int argc, char **argv) {
    uint32_t n_rows;
    const struct kernel_row *rows = registry_rows(KERNEL_FAMILY_CPU, &n_rows);
    struct CMUnitTest *tests = calloc(n_rows, sizeof *tests);
    size_t n_tests = 0;
    if (!tests) return 1;
    check_seed();
    for (uint32_t i = 0; i < n_rows; i++) {
        if (!is_wanted(rows[i].name, argv + 1, argc - 1)) continue;
        if (!cpu_has_isa(rows[i].isa)) {
            printf("skipped: %s (needs %s)\n", rows[i].name, cpu_isa_name(rows[i].isa));
            continue;
        }
        tests[n_tests++] = (struct CMUnitTest){.name = rows[i].name,
                                               .test_func = check_row,
                                               .initial_state = (void *)(uintptr_t)&rows[i]};
    }
    const int n_failed = _cmocka_run_group_tests("kernels", tests, n_tests, NULL, NULL);
    free(tests);
    return n_failed;
}
