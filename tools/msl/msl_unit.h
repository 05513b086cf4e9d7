/* msl_unit.h - what the pre-pass knows of one source, between its files.
 *
 *   msl_pass.c     walks the tokens and writes them, changed where C++ needs it
 *   msl_kernel.c   reads signatures of kernels and instantiations
 *   msl_uses.c     which function constants a kernel reaches, and whether its threads meet
 *   msl_thunk.c    writes how the runtime calls each kernel
 *
 * Owns: nothing but arrays of indices into the tokens. Limits are fixed: a source past them is
 * refused. Threads: one at a time. */
#ifndef MSL_UNIT_H
#define MSL_UNIT_H

#include "msl_token.h"

#include "base/buf.h"

enum {
    MSL_CONSTANTS_MAX = 128,
    MSL_KERNELS_MAX = 128,
    MSL_PARAMS_MAX = 48,
    MSL_INSTANCES_MAX = 1024,
    MSL_ATTRIBUTES_MAX = 8,
    MSL_ERRORS_MAX = 20
};

/* Tokens [from, to). */
struct msl_range {
    size_t from, to;
};

/* One of [[a, b(x)]]. */
struct msl_attribute {
    size_t name;           /* token */
    struct msl_range args; /* empty without parentheses */
};

/* A program-scope variable that kernels are specialised by, or one derived from such. */
struct msl_fc {
    size_t name; /* token */
    bool is_derived;
    bool is_optional; /* somebody asks is_function_constant_defined() */
};

enum msl_param_kind { MSL_PARAM_BUFFER, MSL_PARAM_SHARED, MSL_PARAM_BUILTIN };

struct msl_param {
    enum msl_param_kind kind;
    size_t name;      /* token */
    size_t attribute; /* token: the built-in's name */
    size_t position;  /* among all parameters */
    struct msl_range index;
    bool is_reference, is_read_only;
};

struct msl_kernel_head {
    size_t name; /* token */
    bool is_template;
    struct msl_range threads_max; /* empty: 1,024 */
    struct msl_param params[MSL_PARAMS_MAX];
    size_t n_params;
};

/* A kernel that the host can name: an instantiation, or a kernel that is no template. */
struct msl_instance {
    size_t kernel;              /* of unit.kernels */
    struct msl_range host_name; /* string tokens; empty: the kernel's own name */
    struct msl_range args;      /* <...>, empty without */
    size_t at;                  /* token, for its place */
};

struct msl_unit {
    struct msl_tokens tokens;
    struct buf *out;
    struct buf *errors;
    size_t n_errors;
    struct msl_fc constants[MSL_CONSTANTS_MAX];
    size_t n_constants;
    struct msl_kernel_head kernels[MSL_KERNELS_MAX];
    size_t n_kernels;
    struct msl_instance instances[MSL_INSTANCES_MAX];
    size_t n_instances;
};

/* Says what is wrong at a token. Past MSL_ERRORS_MAX errors are only counted. */
void msl_error(struct msl_unit *u, size_t token, const char *fmt, ...) RADISH_PRINTF(3, 4);

/* at[i] = "[[": reads the attributes and gives the token behind the closing ]]. */
size_t msl_read_attributes(struct msl_unit *u, size_t i, struct msl_attribute *attributes_out,
                           size_t *n_out);
/* at[i] opens a bracket ( [ { or <: the token behind the one that closes it, or tokens.n. */
size_t msl_skip_bracket(const struct msl_unit *u, size_t i);

/* Writes one token as C++ (address spaces, literals), or a range of them. The only place that
 * writes code of the source. */
void msl_write_token(struct msl_unit *u, size_t i);
void msl_write_range(struct msl_unit *u, struct msl_range range);
/* Only the newlines of a range: what is dropped keeps its lines. */
void msl_write_lines(struct msl_unit *u, struct msl_range range);

/* at[i] = kernel, whose attributes before it were [[max_total_threads_per_threadgroup(...)]]:
 * writes the signature and gives the token behind it. */
size_t msl_kernel_signature(struct msl_unit *u, size_t i, struct msl_range threads_max);
/* at[i] = template before [[host_name(...)]]: records the instantiation. */
size_t msl_kernel_instance(struct msl_unit *u, size_t i);

/* For each instance's kernel: uses_out[k * MSL_CONSTANTS_MAX + c] says that kernel k reaches the
 * constant c, is_meeting_out[k] that its threads meet (barriers, SIMD-group functions). */
enum radish_status msl_find_uses(struct msl_unit *u, bool *uses_out, bool *is_meeting_out,
                                 struct radish_error *err);

enum radish_status msl_write_thunks(struct msl_unit *u, struct radish_error *err);

#endif
