/* msl_kernel.c - the heads of kernels: what the host binds, and the names it knows them by.
 *
 * A parameter is its C++ part and one attribute that tells where it comes from:
 *
 *   constant rope_args &args [[buffer(0)]]       a buffer, read only, by reference
 *   device T *out [[buffer(ROPE_OUT)]]           a buffer; the index may be any constant expression
 *   threadgroup float *shared [[threadgroup(0)]] threadgroup memory of a length the host gives
 *   uint3 g [[thread_position_in_grid]]          a value of the thread's own
 *
 * The C++ part is written as it stands (address spaces as macros), the rest is noted for the
 * thunks. Metal numbers arguments without an attribute by itself; here that is an error, because
 * the host's side of it is a number. */
#include "msl_unit.h"

#include "base/status.h"

#include <string.h>

static const char *const builtins[] = {"thread_position_in_grid",
                                       "thread_position_in_threadgroup",
                                       "threadgroup_position_in_grid",
                                       "threads_per_threadgroup",
                                       "dispatch_threads_per_threadgroup",
                                       "threadgroups_per_grid",
                                       "threads_per_grid",
                                       "thread_index_in_threadgroup",
                                       "thread_index_in_simdgroup",
                                       "simdgroup_index_in_threadgroup",
                                       "simdgroups_per_threadgroup",
                                       "threads_per_simdgroup",
                                       NULL};

/* Whether `template <...>` and perhaps attributes stand before token i. */
static bool is_after_template(const struct msl_unit *u, size_t i) {
    const struct msl_token *at = u->tokens.at;
    while (i && msl_token_is(&at[i - 1], "]")) {
        while (i && !msl_token_is(&at[i - 1], "[[")) i--;
        i -= i > 0;
    }
    return i && msl_token_is(&at[i - 1], ">");
}

static void classify(struct msl_unit *u, struct msl_param *p, struct msl_range tokens,
                     const struct msl_attribute *attributes, size_t n) {
    const struct msl_token *at = u->tokens.at, *a = &at[attributes[0].name];
    if (n != 1) {
        msl_error(u, tokens.from, "an argument of a kernel has one attribute, not %zu", n);
        return;
    }
    p->attribute = attributes[0].name;
    p->index = attributes[0].args;
    if (msl_token_is(a, "buffer"))
        p->kind = MSL_PARAM_BUFFER;
    else if (msl_token_is(a, "threadgroup"))
        p->kind = MSL_PARAM_SHARED;
    else if (msl_token_is_one_of(a, builtins))
        p->kind = MSL_PARAM_BUILTIN;
    else
        msl_error(u, p->attribute, "an attribute that is not known: %.*s", (int)a->len, a->text);
    if (p->kind != MSL_PARAM_BUILTIN && p->index.from == p->index.to)
        msl_error(u, p->attribute, "an attribute without an index");
}

/* The address space has to fit the attribute. */
static void check_space(struct msl_unit *u, const struct msl_param *p, struct msl_range tokens) {
    bool is_shared = false, is_outside = false, is_pointer = p->is_reference;
    for (size_t i = tokens.from; i < tokens.to; i++) {
        const struct msl_token *t = &u->tokens.at[i];
        is_shared |= i < p->name && msl_token_is(t, "threadgroup");
        is_outside |= msl_token_is(t, "device") || msl_token_is(t, "constant");
        is_pointer |= i < p->name && msl_token_is(t, "*");
    }
    if (p->kind == MSL_PARAM_BUFFER && (!is_outside || !is_pointer))
        msl_error(u, p->name, "a buffer is a pointer or reference to device or constant memory");
    if (p->kind == MSL_PARAM_SHARED && (!is_shared || !is_pointer))
        msl_error(u, p->name, "[[threadgroup()]] belongs to a pointer to threadgroup memory");
    if (p->kind == MSL_PARAM_BUILTIN && (is_shared || is_outside || is_pointer))
        msl_error(u, p->name, "a value of the thread is no pointer");
}

/* One parameter, at[from..to) without the comma: written without its attributes, and noted. */
static void read_param(struct msl_unit *u, struct msl_kernel_head *kernel, struct msl_range range) {
    const struct msl_token *at = u->tokens.at;
    struct msl_attribute attributes[MSL_ATTRIBUTES_MAX] = {{0}};
    struct msl_param p = {.position = kernel->n_params};
    size_t n = 0;
    for (size_t i = range.from; i < range.to;) {
        if (msl_token_is(&at[i], "[[")) {
            size_t next = msl_read_attributes(u, i, attributes, &n);
            msl_write_lines(u, (struct msl_range){i, next});
            i = next;
            continue;
        }
        if (!n && at[i].kind == MSL_TOKEN_NAME) p.name = i;
        p.is_reference |= msl_token_is(&at[i], "&");
        p.is_read_only |= msl_token_is(&at[i], "const") || msl_token_is(&at[i], "constant");
        msl_write_token(u, i++);
    }
    classify(u, &p, range, attributes, n);
    check_space(u, &p, range);
    if (kernel->n_params == MSL_PARAMS_MAX)
        msl_error(u, range.from, "more than %d arguments", MSL_PARAMS_MAX);
    else
        kernel->params[kernel->n_params++] = p;
}

/* The comma or closing parenthesis that ends the parameter at i. */
static size_t param_end(const struct msl_unit *u, size_t i) {
    const struct msl_token *at = u->tokens.at;
    while (i < u->tokens.n && !msl_token_is(&at[i], ",") && !msl_token_is(&at[i], ")"))
        if (msl_token_is(&at[i], "(") || msl_token_is(&at[i], "[[") || msl_token_is(&at[i], "[") ||
            msl_token_is(&at[i], "{") || msl_token_is(&at[i], "<"))
            i = msl_skip_bracket(u, i);
        else
            i++;
    return i;
}

size_t msl_kernel_signature(struct msl_unit *u, size_t i, struct msl_range threads_max) {
    struct msl_kernel_head spare; /* what is past the limit is read, and refused */
    const struct msl_token *at = u->tokens.at;
    bool has_room = u->n_kernels < MSL_KERNELS_MAX;
    struct msl_kernel_head *kernel = has_room ? &u->kernels[u->n_kernels] : &spare;
    *kernel = (struct msl_kernel_head){.threads_max = threads_max,
                                       .is_template = is_after_template(u, i)};
    if (!has_room) msl_error(u, i, "more than %d kernels", MSL_KERNELS_MAX);
    if (!msl_token_is(&at[i + 1], "void") || at[i + 2].kind != MSL_TOKEN_NAME ||
        !msl_token_is(&at[i + 3], "(")) {
        msl_error(u, i, "expected kernel void NAME(");
        return i + 1;
    }
    kernel->name = i + 2;
    if (has_room) u->n_kernels++;
    msl_write_lines(u, (struct msl_range){i, i + 1});
    msl_write_range(u, (struct msl_range){i + 1, i + 4});
    for (i += 4; i < u->tokens.n && !msl_token_is(&at[i], ")");) {
        size_t end = param_end(u, i);
        if (end == i) {
            msl_error(u, i, "an empty argument");
            return end + 1;
        }
        read_param(u, kernel, (struct msl_range){i, end});
        i = end;
        if (msl_token_is(&at[i], ",")) msl_write_token(u, i++);
    }
    if (i < u->tokens.n) msl_write_token(u, i++);
    return i;
}

/* The kernel called `name`, or MSL_KERNELS_MAX. */
static size_t find_kernel(const struct msl_unit *u, const struct msl_token *name) {
    for (size_t k = 0; k < u->n_kernels; k++)
        if (msl_token_same(&u->tokens.at[u->kernels[k].name], name)) return k;
    return MSL_KERNELS_MAX;
}

/* Finds NAME<ARGS> at the end of kernel decltype(NAME<ARGS>) NAME<ARGS>; or of void
 * NAME<ARGS>(...); : the last one outside of brackets. */
static bool find_instantiated(const struct msl_unit *u, size_t i, size_t *name_out,
                              struct msl_range *args_out, size_t *end_out) {
    const struct msl_token *at = u->tokens.at;
    bool is_found = false;
    while (i < u->tokens.n && !msl_token_is(&at[i], ";")) {
        if (at[i].kind == MSL_TOKEN_NAME && msl_token_is(&at[i + 1], "<")) {
            size_t end = msl_skip_bracket(u, i + 1);
            *name_out = i;
            *args_out = (struct msl_range){i + 1, end};
            is_found = true;
            i = end;
        } else if (msl_token_is(&at[i], "(")) {
            i = msl_skip_bracket(u, i);
        } else {
            i++;
        }
    }
    *end_out = i < u->tokens.n ? i + 1 : i;
    return is_found;
}

size_t msl_kernel_instance(struct msl_unit *u, size_t i) {
    const struct msl_token *at = u->tokens.at;
    struct msl_attribute attributes[MSL_ATTRIBUTES_MAX];
    size_t n = 0, name = i, end, next = msl_read_attributes(u, i + 1, attributes, &n);
    struct msl_instance instance = {.at = i};
    bool is_named = n == 1 && msl_token_is(&at[attributes[0].name], "host_name");
    bool is_found = find_instantiated(u, next, &name, &instance.args, &end);
    msl_write_lines(u, (struct msl_range){i, end});
    if (!is_named || !is_found) {
        msl_error(u, i, "expected template [[host_name(\"x\")]] kernel decltype(f<T>) f<T>;");
        return end;
    }
    instance.host_name = attributes[0].args;
    for (size_t s = instance.host_name.from; s < instance.host_name.to; s++)
        if (at[s].kind != MSL_TOKEN_STRING) msl_error(u, s, "host_name takes a string");
    instance.kernel = find_kernel(u, &at[name]);
    if (instance.kernel == MSL_KERNELS_MAX)
        msl_error(u, name, "%.*s is no kernel", (int)at[name].len, at[name].text);
    else if (u->n_instances == MSL_INSTANCES_MAX)
        msl_error(u, i, "more than %d instantiations", MSL_INSTANCES_MAX);
    else
        u->instances[u->n_instances++] = instance;
    return end;
}
