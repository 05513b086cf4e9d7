/* main.c - metal_check: what a Mac can tell about the Metal backend that no Linux machine can.
 *
 *   metal_check golden FILE    repeats the golden vectors with every Metal kernel
 *   metal_check probe          what command buffers, dispatches and barriers cost; memory; RoPE
 *   metal_check make FILE      makes the golden vectors, by the CPU's plain C kernels
 *   --short                    few repetitions of small sizes: to see that it works
 *
 * scripts/metal-check builds it, runs it with and without Metal's validation layers, and makes one
 * block of text of the results. On Linux it is built in the presets with the stand-in for Metal,
 * where the times mean nothing. Exit status: 0 all well, 1 something failed, 2 wrong usage. */
#include "golden.h"
#include "probe.h"

#include <stdio.h>
#include <string.h>

static int fail_usage(void) {
    fprintf(stderr, "usage: metal_check golden FILE | probe [--short] | make FILE\n");
    return 2;
}

int main(int argc, char **argv) {
    const bool is_short = argc == 3 && !strcmp(argv[2], "--short");
    if (argc == 3 && !strcmp(argv[1], "golden")) return golden_check(argv[2]) != 0;
    if (argc == 3 && !strcmp(argv[1], "make")) return !golden_make(argv[2]);
    if ((argc != 2 && !is_short) || strcmp(argv[1], "probe") != 0) return fail_usage();
    const bool is_ok = probe_metal(is_short);
    return !(probe_rope(is_short) && is_ok);
}
