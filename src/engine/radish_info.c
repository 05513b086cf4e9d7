/* radish_info.c - the report behind `radish info`: machine, kernels and, with a model, its memory
 * plan, made without loading anything.
 *
 * A plan that does not fit is part of the report, not a failure of it: the person asking wants to
 * know why. */
#include "engine/model_int.h"

#include "base/machine.h"
#include "base/status.h"
#include "engine/plan.h"
#include "text/pattern.h"

#include <stdlib.h>

static void append_machine(const struct machine *machine, struct buf *out) {
    buf_printf(out, "radish %s\n\n", RADISH_VERSION);
    buf_printf(out, "Machine\n");
    buf_printf(out, "  CPU            %s\n", machine->cpu_name[0] ? machine->cpu_name : "unknown");
    buf_printf(out, "  usable         %u of %u CPUs, %u cores\n", machine->n_cpus_allowed,
               machine->n_cpus_online, machine->n_cores_allowed);
    if (machine->cpu_quota > 0) buf_printf(out, "  quota          %.2f CPUs\n", machine->cpu_quota);
    buf_printf(out, "  memory         %.1f GB available of %.1f GB\n",
               (double)machine->memory_available_bytes / 1e9,
               (double)machine->memory_total_bytes / 1e9);
    if (machine->l2_bytes)
        buf_printf(out, "  L2 cache       %.1f MB a core\n", (double)machine->l2_bytes / 1e6);
    if (machine->n_nodes > 1) buf_printf(out, "  NUMA           %u nodes\n", machine->n_nodes);
    char patterns[160];
    pattern_engine_text(patterns, sizeof patterns);
    buf_printf(out, "  patterns       %s\n", patterns);
}

/* The report's lines, indented by two. */
static void append_indented(const char *text, struct buf *out) {
    bool is_line_start = true;
    for (; *text; text++) {
        if (is_line_start && *text != '\n') buf_append_str(out, "  ");
        buf_append_char(out, *text);
        is_line_start = *text == '\n';
    }
    if (!is_line_start) buf_append_char(out, '\n');
}

static void append_device(const struct device *device, const char *name, struct buf *out) {
    bool is_exact = device_precision(device) == RADISH_PRECISION_EXACT;
    buf_printf(out, "\nDevice\n");
    buf_printf(out, "  device         %s\n", name);
    buf_printf(out, "  threads        %u\n", device_n_threads(device));
    buf_printf(out, "  memory         %s\n", device_memory(device));
    buf_printf(out, "  precision      %s\n", is_exact ? "exact" : "fast");
    buf_printf(out, "  bit class      %s\n", device_bit_class(device));
    buf_printf(out, "\nKernels\n");
    append_indented(device_kernels_report(device), out);
}

static void append_model(const struct radish_model *model, struct device *device,
                         const struct radish_engine_options *options, uint64_t have_bytes,
                         struct buf *out) {
    const struct radish_model_info *info = &model->info;
    buf_printf(out, "\nModel\n");
    buf_printf(out, "  path           %s\n", info->path);
    buf_printf(out, "  format         %s\n", info->format);
    if (info->architecture[0]) buf_printf(out, "  architecture   %s\n", info->architecture);
    if (info->context_trained)
        buf_printf(out, "  trained for    %u tokens\n", info->context_trained);
    buf_printf(out, "  vocabulary     %u rows, %u tokens\n", info->n_vocab, info->n_tokens);
    buf_printf(out, "  chat template  %s\n", info->has_chat_template ? "yes" : "no");
    struct engine_plan plan;
    struct radish_error err = {0};
    if (plan_make(model, device, options, have_bytes, &plan, &err) != RADISH_OK) {
        buf_printf(out, "  cannot be served: %s\n", err.msg);
        return;
    }
    buf_printf(out, "  quantization   %s\n",
               plan.options.quantization ? plan.options.quantization : "none");
    buf_printf(out, "  weights        ");
    plan_append_weights(&plan, out);
    buf_printf(out, "\n  memory plan    ");
    plan_append_line(&plan, model, out);
    buf_printf(out, "\n  context        %u tokens\n", plan.runner.context_tokens);
}

enum radish_status radish_info_text(struct radish_model *model,
                                    const struct radish_engine_options *given, char **text_out,
                                    struct radish_error *err) {
    *text_out = NULL;
    struct radish_engine_options options;
    RADISH_TRY(plan_options(given, &options, err));
    struct device_options device_options = {.n_threads = options.n_threads,
                                            .precision = options.precision,
                                            .kernels = options.kernels,
                                            .n_kernels = options.n_kernels,
                                            .huge_pages = options.huge_pages,
                                            .numa = options.numa};
    struct device *device;
    RADISH_TRY(device_open(options.device, &device_options, &device, err));
    struct machine machine;
    machine_read(&machine);
    struct buf out, plan;
    buf_init(&out, 0);
    buf_init(&plan, 0);
    /* First, since the plan asks for kernels: those that are passed over join the device's report.
     */
    if (model) append_model(model, device, &options, machine.memory_available_bytes, &plan);
    append_machine(&machine, &out);
    append_device(device, options.device, &out);
    if (plan.len) buf_append(&out, plan.data, plan.len);
    if (plan.failed) out.failed = true;
    buf_deinit(&plan);
    device_close(device);
    size_t len;
    *text_out = buf_take(&out, &len);
    return *text_out ? RADISH_OK : error_nomem(err);
}
