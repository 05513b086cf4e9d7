/* cmd_bench.c - radish bench NAME: measures one part of radish on this machine.
 *
 * Each benchmark is a row of the table and a file bench_NAME.c. They use the modules directly, not
 * the public header, because what they measure is inside; those of the table need no model. The two
 * with many flags, one-batch and serving, are commands of their own (main.c); they are only named
 * here. Figures that are claimed anywhere come from here and lie in bench/results. */
#include "bench.h"
#include "command.h"

#include <stdio.h>
#include <string.h>

static const struct {
    const char *name;
    int (*run)(const struct args *args);
} benches[] = {
    {"radix", bench_radix},
    {"sched", bench_sched},
    {"kernels", bench_kernels},
};

enum { N_BENCHES = sizeof benches / sizeof *benches };

/* The name of a flag that was given and that the benchmark does not take, or NULL. */
static const char *find_foreign(const struct args *args, const char *name) {
    if (args->n_nodes_max && strcmp(name, "radix") != 0) return "nodes";
    if (!strcmp(name, "kernels")) return NULL;
    if (args->op) return "op";
    if (args->dtype) return "dtype";
    if (args->csv) return "csv";
    if (args->beside) return "beside";
    if (args->engine.n_threads) return "threads";
    return args->engine.n_kernels ? "kernel" : NULL;
}

static int run_bench(const struct args *args, int (*run)(const struct args *), const char *name) {
    const char *foreign = find_foreign(args, name);
    if (foreign)
        return args_refuse(command_by_bit(COMMAND_BENCH), "--%s is no flag of 'radish bench %s'",
                           foreign, name);
    const int rc = run(args);
    return rc < 0 ? EXIT_DONE : rc;
}

int cmd_bench(struct args *args) {
    const struct command *command = command_by_bit(COMMAND_BENCH);
    char names[128] = "one-batch, serving";
    if (args->model && (!strcmp(args->model, "one-batch") || !strcmp(args->model, "serving")))
        return args_refuse(command, "the name comes first: radish bench %s [flags]", args->model);
    for (size_t i = 0; i < N_BENCHES; i++) {
        if (args->model && !strcmp(args->model, benches[i].name))
            return run_bench(args, benches[i].run, benches[i].name);
        size_t n = strlen(names);
        snprintf(names + n, sizeof names - n, ", %s", benches[i].name);
    }
    if (!args->model) return args_refuse(command, "which benchmark? There is: %s", names);
    return args_refuse(command, "no benchmark is named '%.80s'; there is: %s", args->model, names);
}
