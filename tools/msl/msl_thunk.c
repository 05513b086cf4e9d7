/* msl_thunk.c - how the runtime calls each kernel: written behind the translated source.
 *
 * For every kernel that the host can name, four things, in an unnamed namespace:
 *
 *   a thunk     calls the kernel with its arguments taken from the run (buffers by index) and from
 *               the thread (positions), which the shim's Ptr, Ref and Position convert to whatever
 *               type the argument has
 *   bindings    for whoever checks what is bound
 *   uses        addresses of the function constants that it cannot do without
 *   a register  whose constructor tells the runtime of all this when the library is loaded
 *
 * Where address spaces are only checked there is nothing to run: templates are instantiated. */
#include "msl_unit.h"

#include "base/mem.h"
#include "base/status.h"

#include <stdlib.h>
#include <string.h>

static void write_plain(struct msl_unit *u, size_t i) {
    buf_append(u->out, u->tokens.at[i].text, u->tokens.at[i].len);
}

/* A range on one line; a space where two words, or two that could be one sign, would touch. */
static void write_flat(struct msl_unit *u, struct msl_range range) {
    const struct msl_token *at = u->tokens.at;
    for (size_t i = range.from; i < range.to; i++) {
        if (i > range.from &&
            (at[i].kind == MSL_TOKEN_PUNCT) == (at[i - 1].kind == MSL_TOKEN_PUNCT))
            buf_append_char(u->out, ' ');
        write_plain(u, i);
    }
}

static void write_host_name(struct msl_unit *u, const struct msl_instance *instance) {
    if (instance->host_name.from == instance->host_name.to) {
        buf_append_char(u->out, '"');
        write_plain(u, u->kernels[instance->kernel].name);
        buf_append_char(u->out, '"');
    } else {
        write_flat(u, instance->host_name);
    }
}

static void write_callee(struct msl_unit *u, const struct msl_instance *instance) {
    write_plain(u, u->kernels[instance->kernel].name);
    write_flat(u, instance->args);
}

static void write_thunk(struct msl_unit *u, const struct msl_instance *instance, size_t n) {
    const struct msl_kernel_head *kernel = &u->kernels[instance->kernel];
    buf_printf(u->out,
               "void msl_thunk_%zu(const msl::Arguments &A, const msl::Lane &L) {\n"
               "    (void)A, (void)L;\n    ",
               n);
    write_callee(u, instance);
    buf_append_char(u->out, '(');
    for (size_t p = 0; p < kernel->n_params; p++) {
        const struct msl_param *param = &kernel->params[p];
        if (p) buf_append_str(u->out, ", ");
        if (param->kind == MSL_PARAM_BUILTIN) {
            buf_append_str(u->out, "msl::Position{L.");
            write_plain(u, param->attribute);
            buf_append_str(u->out, "}");
            continue;
        }
        buf_printf(u->out, "msl::%s{A.%s[", param->is_reference ? "Ref" : "Ptr",
                   param->kind == MSL_PARAM_BUFFER ? "buffers" : "shared");
        write_flat(u, param->index);
        buf_append_str(u->out, "]}");
    }
    buf_append_str(u->out, ");\n}\n");
}

static size_t write_bindings(struct msl_unit *u, const struct msl_instance *instance, size_t n) {
    const struct msl_kernel_head *kernel = &u->kernels[instance->kernel];
    size_t n_bindings = 0;
    buf_printf(u->out, "const msl_binding msl_bindings_%zu[] = {\n", n);
    for (size_t p = 0; p < kernel->n_params; p++) {
        const struct msl_param *param = &kernel->params[p];
        if (param->kind == MSL_PARAM_BUILTIN) continue;
        n_bindings++;
        buf_printf(u->out, "    {%s, msl::index_of<(",
                   param->kind == MSL_PARAM_BUFFER ? "MSL_BINDING_BUFFER" : "MSL_BINDING_SHARED");
        write_flat(u, param->index);
        buf_printf(u->out, ")>(), %s, %s, msl::param_align<%zu>(",
                   param->is_reference ? "true" : "false", param->is_read_only ? "true" : "false",
                   param->position);
        write_callee(u, instance);
        buf_append_str(u->out, "), \"");
        write_plain(u, param->name);
        buf_append_str(u->out, "\"},\n");
    }
    buf_append_str(u->out, "    {}};\n");
    return n_bindings;
}

static void write_uses(struct msl_unit *u, const bool *uses, size_t n) {
    buf_printf(u->out, "const void *const msl_uses_%zu[] = {", n);
    for (size_t c = 0; c < u->n_constants; c++)
        if (uses[c] && !u->constants[c].is_derived && !u->constants[c].is_optional) {
            buf_append_char(u->out, '&');
            write_plain(u, u->constants[c].name);
            buf_append_str(u->out, ", ");
        }
    buf_append_str(u->out, "nullptr};\n");
}

static void write_register(struct msl_unit *u, const struct msl_instance *instance, size_t n,
                           size_t n_bindings, bool is_meeting) {
    const struct msl_kernel_head *kernel = &u->kernels[instance->kernel];
    const struct msl_token *at = &u->tokens.at[kernel->name];
    buf_printf(u->out, "const msl::Register msl_register_%zu({", n);
    write_host_name(u, instance);
    buf_printf(u->out, ", \"%.*s\", %u, msl_bindings_%zu, %zu, ", (int)at->n_file, at->file,
               at->line, n, n_bindings);
    if (kernel->threads_max.from == kernel->threads_max.to)
        buf_append_str(u->out, "MSL_THREADS_MAX");
    else
        write_flat(u, kernel->threads_max);
    buf_printf(u->out, "}, msl_thunk_%zu, msl_uses_%zu, %s);\n", n, n,
               is_meeting ? "true" : "false");
}

/* Kernels that are no templates are named by themselves. */
static void add_plain_kernels(struct msl_unit *u) {
    for (size_t k = 0; k < u->n_kernels; k++) {
        if (u->kernels[k].is_template) continue;
        if (u->n_instances == MSL_INSTANCES_MAX) {
            msl_error(u, u->kernels[k].name, "more than %d kernels", MSL_INSTANCES_MAX);
            return;
        }
        u->instances[u->n_instances++] =
            (struct msl_instance){.kernel = k, .at = u->kernels[k].name};
    }
}

enum radish_status msl_write_thunks(struct msl_unit *u, struct radish_error *err) {
    bool *uses = mem_zalloc(MSL_KERNELS_MAX, MSL_CONSTANTS_MAX * sizeof *uses);
    bool is_meeting[MSL_KERNELS_MAX] = {0};
    if (!uses) return error_nomem(err);
    enum radish_status status = msl_find_uses(u, uses, is_meeting, err);
    add_plain_kernels(u);
    buf_append_str(u->out, "#line 1 \"thunks\"\n#ifdef MSL_RUN\nnamespace {\n");
    for (size_t n = 0; status == RADISH_OK && n < u->n_instances; n++) {
        const struct msl_instance *instance = &u->instances[n];
        write_thunk(u, instance, n);
        size_t n_bindings = write_bindings(u, instance, n);
        write_uses(u, uses + instance->kernel * MSL_CONSTANTS_MAX, n);
        write_register(u, instance, n, n_bindings, is_meeting[instance->kernel]);
    }
    buf_append_str(u->out, "}\n#else\n");
    for (size_t n = 0; n < u->n_instances; n++) {
        if (u->instances[n].args.from == u->instances[n].args.to) continue;
        buf_append_str(u->out, "template decltype(");
        write_callee(u, &u->instances[n]);
        buf_append_str(u->out, ") ");
        write_callee(u, &u->instances[n]);
        buf_append_str(u->out, ";\n");
    }
    buf_append_str(u->out, "#endif\n");
    free(uses);
    return status;
}
