/* registry.c - ops.def turned into a table, and the one place that chooses a kernel.
 *
 * The rule is short: of the rows of the device's family for an operation that read the operand's
 * format, whose instruction set the processor has and that accept the shape, the last one in
 * ops.def wins; --kernel moves one row to the front of that queue. Nothing else may influence the
 * choice, because the same token must get the same bits whatever else is in the batch (DESIGN.md,
 * bits): so no function here ever sees a number of rows, and a caller cannot pass one.
 *
 * A forced row that cannot run on this machine is refused at start with the list of those that can;
 * one that does not accept a shape is passed over for that shape, and the reason is reported, since
 * a model may well mix shapes. */
#include "registry.h"

#include "base/status.h"
#include "cpu/cpu_kernel.h"
#include "metal/metal_kernel.h"

#include <stdio.h>
#include <string.h>

static bool accepts_all(const struct kernel_shape *shape, char *reason_out, size_t reason_bytes) {
    (void)shape, (void)reason_out, (void)reason_bytes;
    return true;
}

static bool accepts_heads(const struct kernel_shape *shape, char *reason_out, size_t reason_bytes) {
    if (shape->head_dim <= HEAD_DIM_MAX && shape->v_head_dim <= HEAD_DIM_MAX) return true;
    snprintf(reason_out, reason_bytes, "head_dim %u is above %d",
             shape->head_dim > shape->v_head_dim ? shape->head_dim : shape->v_head_dim,
             HEAD_DIM_MAX);
    return false;
}

#if defined(__x86_64__) || defined(__aarch64__)
static bool accepts_heads_by(const struct kernel_shape *shape, uint32_t lanes, char *reason_out,
                             size_t reason_bytes) {
    if (!accepts_heads(shape, reason_out, reason_bytes)) return false;
    if (shape->head_dim % 8 == 0 && shape->v_head_dim % lanes == 0) return true;
    snprintf(reason_out, reason_bytes, "head_dim %u is no multiple of 8 or V's %u none of %u",
             shape->head_dim, shape->v_head_dim, lanes);
    return false;
}
#endif

#if defined(__x86_64__)
static bool accepts_heads_by_8(const struct kernel_shape *shape, char *reason_out,
                               size_t reason_bytes) {
    return accepts_heads_by(shape, 8, reason_out, reason_bytes);
}

static bool accepts_heads_by_16(const struct kernel_shape *shape, char *reason_out,
                                size_t reason_bytes) {
    return accepts_heads_by(shape, 16, reason_out, reason_bytes);
}
#elif defined(__aarch64__)
static bool accepts_heads_by_4(const struct kernel_shape *shape, char *reason_out,
                               size_t reason_bytes) {
    return accepts_heads_by(shape, 4, reason_out, reason_bytes);
}
#endif

#define KERNEL(name, op, isa, formats, accepts, bit_class, tolerance, text)                        \
    {#name,     KERNEL_OP_##op, KERNEL_FAMILY_CPU, CPU_ISA_##isa,   formats, accepts,              \
     bit_class, text,           tolerance,         (kernel_fn)name, NULL},
#define KERNEL_METAL(name, op, formats, accepts, tolerance, text)                                  \
    {#name, KERNEL_OP_##op, KERNEL_FAMILY_METAL, CPU_ISA_REF,           formats, accepts, "metal", \
     text,  tolerance,      (kernel_fn)name,     (kernel_fn)name##_make},
static const struct kernel_row all_rows[] = {
#include "ops.def"
};

/* Metal's rows are the last. */
#define KERNEL_METAL(name, op, formats, accepts, tolerance, text) +1
enum {
    N_ROWS = sizeof all_rows / sizeof *all_rows,
    N_METAL_ROWS = 0
#include "ops.def"
    ,
    N_CPU_ROWS = N_ROWS - N_METAL_ROWS,
    N_FORMATS = KERNEL_FORMATS
};

static const char *const format_names[N_FORMATS] = {"f32", "f16", "bf16", "i8"};

static const char *const op_names[KERNEL_OP_COUNT] = {
    [KERNEL_OP_EMBED] = "embed",         [KERNEL_OP_RMSNORM] = "rmsnorm",
    [KERNEL_OP_LAYERNORM] = "layernorm", [KERNEL_OP_MATMUL] = "matmul",
    [KERNEL_OP_SILU_MUL] = "silu_mul",   [KERNEL_OP_ACTIVATE] = "activate",
    [KERNEL_OP_SOFT_CAP] = "soft_cap",   [KERNEL_OP_ROPE_KV_STORE] = "rope_kv_store",
    [KERNEL_OP_ATTENTION] = "attention", [KERNEL_OP_MATMUL_GROUP] = "matmul_group",
    [KERNEL_OP_KEEP_ROWS] = "keep_rows", [KERNEL_OP_PREPARE] = "prepare",
    [KERNEL_OP_SAMPLE] = "sample",
};

const char *kernel_op_name(enum kernel_op op) {
    return (unsigned)op < KERNEL_OP_COUNT ? op_names[op] : "?";
}

const struct kernel_row *registry_rows(enum kernel_family family, uint32_t *n_out) {
    *n_out = family == KERNEL_FAMILY_METAL ? N_METAL_ROWS : N_CPU_ROWS;
    return family == KERNEL_FAMILY_METAL ? all_rows + N_CPU_ROWS : all_rows;
}

const char *kernel_row_variant(const struct kernel_row *row) {
    const char *mark = strstr(row->name, "__");
    return mark ? mark + 2 : row->name;
}

static uint32_t find_format_index(uint32_t format) {
    uint32_t i = 0;
    while (i + 1 < N_FORMATS && !(format >> i & 1)) i++;
    return i;
}

/* A shape that every row accepts, for choices that are shown before a model is known. */
static const struct kernel_shape ordinary_shape = {.n_out = 1024,
                                                   .n_in = 1024,
                                                   .n_heads = 8,
                                                   .n_kv_heads = 2,
                                                   .head_dim = 64,
                                                   .v_head_dim = 64,
                                                   .rotary_dim = 64};

/* Whether this machine, and a device of the family, can run it. */
static bool is_here(const struct kernel_row *row) {
    return row->family != KERNEL_FAMILY_CPU || cpu_has_isa(row->isa);
}

/* Whether a row before it has the same operation and variant, for other formats. */
static bool is_listed(const struct kernel_row *rows, uint32_t row) {
    for (uint32_t i = 0; i < row; i++)
        if (rows[i].op == rows[row].op &&
            !strcmp(kernel_row_variant(&rows[i]), kernel_row_variant(&rows[row])))
            return true;
    return false;
}

static enum radish_status refuse_choice(const struct registry *r, const char *choice,
                                        enum kernel_op op, const char *why,
                                        struct radish_error *err) {
    char list[200] = "";
    size_t used = 0;
    uint32_t n_rows;
    const struct kernel_row *rows = registry_rows(r->family, &n_rows);
    for (uint32_t i = 0; i < n_rows && used < sizeof list; i++) {
        if (rows[i].op != op || !is_here(&rows[i]) || is_listed(rows, i)) continue;
        used += (size_t)snprintf(list + used, sizeof list - used, "%s%s", used ? ", " : "",
                                 kernel_row_variant(&rows[i]));
    }
    return error_set_field(err, RADISH_E_UNSUPPORTED, "--kernel", "%s: %s; this %s has %s", choice,
                           why, r->family == KERNEL_FAMILY_CPU ? "machine" : "device",
                           list[0] ? list : "none");
}

/* Whether `text` names the row: its name, its variant, or "unfused" for a variant "..._unfused".
 * "ref" is ref_unfused, too: a fused operation is switched off by its reference. */
static bool is_called(const struct kernel_row *row, const char *text) {
    const char *variant = kernel_row_variant(row), *mark = strrchr(variant, '_');
    return !strcmp(row->name, text) || !strcmp(variant, text) ||
           (mark && !strcmp(mark + 1, text)) ||
           (!strcmp(text, "ref") && !strcmp(variant, "ref_unfused"));
}

static enum radish_status force(struct registry *r, const char *choice, struct radish_error *err) {
    const char *equals = strchr(choice, '=');
    size_t op_len = equals ? (size_t)(equals - choice) : 0;
    enum kernel_op op = 0;
    while (op < KERNEL_OP_COUNT &&
           (strlen(op_names[op]) != op_len || memcmp(op_names[op], choice, op_len) != 0))
        op++;
    if (op == KERNEL_OP_COUNT)
        return error_set_field(err, RADISH_E_UNSUPPORTED, "--kernel",
                               "%s: must be OP=VARIANT, with OP one of embed, rmsnorm, layernorm, "
                               "prepare, matmul, matmul_group, silu_mul, activate, soft_cap, "
                               "keep_rows, rope_kv_store, attention, sample",
                               choice);
    const char *variant = equals + 1;
    bool is_known = false, is_forced = false;
    uint32_t n_rows;
    const struct kernel_row *rows = registry_rows(r->family, &n_rows);
    for (uint32_t i = 0; i < n_rows; i++) {
        if (rows[i].op != op) continue;
        if (!is_called(&rows[i], variant)) continue;
        is_known = true;
        if (!is_here(&rows[i])) continue;
        is_forced = true;
        for (uint32_t f = 0; f < N_FORMATS; f++)
            if (rows[i].formats >> f & 1) r->forced[op][f] = &rows[i];
    }
    if (!is_known) return refuse_choice(r, choice, op, "there is no such kernel", err);
    if (!is_forced) return refuse_choice(r, choice, op, "this processor lacks what it needs", err);
    return RADISH_OK;
}

enum radish_status registry_init(struct registry *r, enum kernel_family family,
                                 const char *const *kernels, uint32_t n_kernels,
                                 struct radish_error *err) {
    *r = (struct registry){.family = family};
    for (uint32_t i = 0; i < n_kernels; i++) RADISH_TRY(force(r, kernels[i], err));
    return RADISH_OK;
}

static bool can_run(const struct kernel_row *row, enum kernel_op op, uint32_t format) {
    return row->op == op && (row->formats & format) && is_here(row);
}

const struct kernel_row *registry_find(const struct registry *r, enum kernel_op op, uint32_t format,
                                       const struct kernel_shape *shape, char *reason_out,
                                       size_t reason_bytes) {
    if (!shape) shape = &ordinary_shape;
    char why[120] = "";
    reason_out[0] = '\0';
    const struct kernel_row *forced = r->forced[op][find_format_index(format)];
    if (forced && forced->accepts(shape, why, sizeof why)) return forced;
    if (forced) snprintf(reason_out, reason_bytes, "not %s: %s", forced->name, why);
    uint32_t n_rows;
    const struct kernel_row *rows = registry_rows(r->family, &n_rows);
    for (uint32_t i = n_rows; i-- > 0;) {
        if (!can_run(&rows[i], op, format) || &rows[i] == forced) continue;
        if (rows[i].accepts(shape, why, sizeof why)) return &rows[i];
        if (!reason_out[0]) snprintf(reason_out, reason_bytes, "not %s: %s", rows[i].name, why);
    }
    if (!reason_out[0])
        snprintf(reason_out, reason_bytes, "no kernel reads %s operands",
                 format_names[find_format_index(format)]);
    return NULL;
}

/* Whether operand formats tell variants of the operation apart. */
static bool has_formats(enum kernel_op op) {
    return op == KERNEL_OP_PREPARE || op == KERNEL_OP_MATMUL || op == KERNEL_OP_ROPE_KV_STORE ||
           op == KERNEL_OP_ATTENTION;
}

void registry_print_short(const struct registry *r, struct buf *out) {
    char why[160];
    for (enum kernel_op op = 0; op < KERNEL_OP_COUNT; op++) {
        const struct kernel_row *last = NULL;
        for (uint32_t f = 0; f < (has_formats(op) ? N_FORMATS : 1); f++) {
            const struct kernel_row *row = registry_find(r, op, 1u << f, NULL, why, sizeof why);
            if (!row || row == last) continue;
            if (last)
                buf_printf(out, ",%s", row->name);
            else
                buf_printf(out, "%s%s=%s", out->len ? " " : "", op_names[op], row->name);
            last = row;
        }
    }
}

/* Why the variant that would be best on the best machine is not the one: its instruction set. */
static void print_reason(const struct registry *r, const struct kernel_row *row, uint32_t f,
                         struct buf *out) {
    if (r->forced[row->op][f] == row) {
        buf_append_str(out, "forced by --kernel");
        return;
    }
    uint32_t n_rows;
    const struct kernel_row *rows = registry_rows(r->family, &n_rows);
    for (uint32_t i = n_rows; i-- > 0 && &rows[i] != row;) {
        if (rows[i].op != row->op || !(rows[i].formats >> f & 1)) continue;
        if (r->family == KERNEL_FAMILY_CPU)
            buf_printf(out, "%s needs %s", kernel_row_variant(&rows[i]), cpu_isa_name(rows[i].isa));
        else
            buf_printf(out, "%s does not take every shape", kernel_row_variant(&rows[i]));
        return;
    }
    buf_append_str(out, "the best there is");
}

void registry_print(const struct registry *r, struct buf *out) {
    char why[160];
    for (enum kernel_op op = 0; op < KERNEL_OP_COUNT; op++) {
        for (uint32_t f = 0; f < (has_formats(op) ? N_FORMATS : 1); f++) {
            const struct kernel_row *row = registry_find(r, op, 1u << f, NULL, why, sizeof why);
            if (!row) continue;
            buf_printf(out, "%-14s %-5s %-35s bits %-8s ", op_names[op],
                       has_formats(op) ? format_names[f] : "any", row->name, row->bit_class);
            print_reason(r, row, f, out);
            buf_append_char(out, '\n');
        }
    }
}
