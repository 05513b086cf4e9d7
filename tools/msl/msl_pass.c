/* msl_pass.c - Metal source becomes C++ that clang compiles for the CPU.
 *
 * MSL is C++14 with a few additions. clang's own front end knows none of them, but nearly all stand
 * where one token tells them apart, so that this pass over tokens is enough and no parser is
 * needed:
 *
 *   [[...]]                            dropped; those of kernels, constants and arguments are noted
 *   device constant threadgroup thread macros of the shim: nothing when the code is to run, clang's
 *                                      address_space attribute when spaces are only checked
 *   constant T X [[function_constant(i)]]   a variable that the runtime sets before each run
 *   constant T Y = f(X)                a macro: what it is derived from changes from run to run
 *   constant T table[] = {...}         a static constant
 *   threadgroup T x[n]; in a kernel    a reference to memory of the running threadgroup
 *   float4(a, b), static_cast<float4>  a constructor function: clang's vectors have no constructors
 *   1.0, 1.0h                          1.0f, half(1.0f): there is no double
 *   template [[host_name("x")]] kernel ...   noted; clang refuses an attribute there
 *
 * What radish's kernels may not use, because the shim and Metal could differ in it, is an error
 * here: double, goto, lambdas, namespaces, long long, exceptions, threadgroup variables outside of
 * kernels, arguments without an attribute.
 *
 * Line markers stay, so that the compiler's messages name the .metal file. Compare a real parser:
 * clang's own could be taught these, as a plug-in of a few thousand lines that has to follow clang.
 */
#include "msl_pass.h"

#include "base/status.h"
#include "msl_unit.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

struct walk {
    size_t n_braces, n_parens;
    bool is_in_kernel; /* between the braces of one */
    bool has_head;     /* a signature was read, its body has not begun */
    struct msl_range threads_max;
    bool has_braces, has_safe_math, has_no_contract;
    uint32_t n_file; /* of the first token: the .metal itself */
    const char *file;
};

static const char *const vectors[] = {
    "float2",  "float3", "float4",  "half2",   "half3",   "half4", "bfloat2", "bfloat3",
    "bfloat4", "int2",   "int3",    "int4",    "uint2",   "uint3", "uint4",   "short2",
    "short3",  "short4", "ushort2", "ushort3", "ushort4", "char2", "char3",   "char4",
    "uchar2",  "uchar3", "uchar4",  "long2",   "long3",   "long4", "ulong2",  "ulong3",
    "ulong4",  "bool2",  "bool3",   "bool4",   NULL};
static const char *const forbidden[] = {
    "double", "goto",    "namespace",    "asm",    "new",          "delete", "throw",  "try",
    "catch",  "virtual", "dynamic_cast", "typeid", "thread_local", "half8",  "friend", NULL};

void msl_error(struct msl_unit *u, size_t token, const char *fmt, ...) {
    const struct msl_token *t = &u->tokens.at[token];
    char text[256];
    va_list args;
    if (u->n_errors++ >= MSL_ERRORS_MAX) return;
    va_start(args, fmt);
    vsnprintf(text, sizeof text, fmt, args);
    va_end(args);
    buf_append(u->errors, t->file, t->n_file);
    buf_printf(u->errors, ":%u: %s\n", t->line, text);
}

size_t msl_skip_bracket(const struct msl_unit *u, size_t i) {
    const struct msl_token *at = u->tokens.at;
    bool is_angle = msl_token_is(&at[i], "<");
    size_t depth = 0, n_angles = 0;
    for (; i < u->tokens.n; i++) {
        if (msl_token_is(&at[i], "(") || msl_token_is(&at[i], "[") || msl_token_is(&at[i], "{"))
            depth++;
        else if (msl_token_is(&at[i], "[["))
            depth += 2;
        else if (msl_token_is(&at[i], ")") || msl_token_is(&at[i], "]") ||
                 msl_token_is(&at[i], "}"))
            depth -= depth > 0;
        else if (is_angle && !depth && msl_token_is(&at[i], "<"))
            n_angles++;
        else if (is_angle && !depth && msl_token_is(&at[i], ">"))
            n_angles--;
        else if (is_angle && !depth && msl_token_is(&at[i], ">>"))
            n_angles -= n_angles > 1 ? 2 : 1;
        if (!depth && !n_angles) return i + 1;
    }
    return i;
}

size_t msl_read_attributes(struct msl_unit *u, size_t i, struct msl_attribute *attributes_out,
                           size_t *n_out) {
    const struct msl_token *at = u->tokens.at;
    size_t start = i++;
    while (i < u->tokens.n && !msl_token_is(&at[i], "]")) {
        struct msl_attribute a = {.name = i++};
        if (msl_token_is(&at[i], "(")) {
            a.args.from = i + 1;
            i = msl_skip_bracket(u, i);
            a.args.to = i - 1;
        }
        if (*n_out < MSL_ATTRIBUTES_MAX) attributes_out[(*n_out)++] = a;
        if (msl_token_is(&at[i], ",")) i++;
    }
    if (!msl_token_is(&at[i], "]") || !msl_token_is(&at[i + 1], "]")) {
        msl_error(u, start, "attributes that do not end in ]]");
        return u->tokens.n;
    }
    return i + 2;
}

/* ---- writing ---- */

/* A number: MSL's unsuffixed 1.0 is a float. */
static void write_number(struct msl_unit *u, const struct msl_token *t) {
    bool is_hex = t->len > 1 && t->text[0] == '0' && (t->text[1] == 'x' || t->text[1] == 'X');
    bool is_real = false;
    for (uint32_t i = 0; i < t->len; i++) {
        char c = t->text[i];
        is_real |= c == '.' || (is_hex ? c == 'p' || c == 'P' : c == 'e' || c == 'E');
    }
    char last = t->text[t->len - 1];
    bool is_bare = last == '.' || (last >= '0' && last <= '9');
    if (is_real && is_bare)
        buf_printf(u->out, "%.*sf", (int)t->len, t->text);
    else if (is_real && !is_hex && (last == 'h' || last == 'H'))
        buf_printf(u->out, "half(%.*sf)", (int)t->len - 1, t->text);
    else
        buf_append(u->out, t->text, t->len);
}

static void write_name(struct msl_unit *u, const struct msl_token *t) {
    static const char *const spaces[][2] = {{"device", "MSL_device"},
                                            {"constant", "MSL_constant"},
                                            {"threadgroup", "MSL_threadgroup"},
                                            {"thread", "MSL_thread"}};
    for (size_t i = 0; i < sizeof spaces / sizeof *spaces; i++)
        if (msl_token_is(t, spaces[i][0])) {
            buf_append_str(u->out, spaces[i][1]);
            return;
        }
    buf_append(u->out, t->text, t->len);
}

void msl_write_token(struct msl_unit *u, size_t i) {
    const struct msl_token *t = &u->tokens.at[i];
    buf_append(u->out, t->text - t->n_gap, t->n_gap);
    if (t->kind == MSL_TOKEN_NUMBER)
        write_number(u, t);
    else if (t->kind == MSL_TOKEN_NAME && msl_token_is_one_of(t, vectors) &&
             msl_token_is(&u->tokens.at[i + 1], "("))
        buf_printf(u->out, "msl_make<%.*s>", (int)t->len, t->text);
    else if (t->kind == MSL_TOKEN_NAME)
        write_name(u, t);
    else if (t->kind == MSL_TOKEN_MARKER)
        buf_printf(u->out, "#line %u \"%.*s\"", t->line + 1, (int)t->n_file, t->file);
    else
        buf_append(u->out, t->text, t->len);
}

void msl_write_range(struct msl_unit *u, struct msl_range range) {
    for (size_t i = range.from; i < range.to; i++) msl_write_token(u, i);
}

void msl_write_lines(struct msl_unit *u, struct msl_range range) {
    for (size_t i = range.from; i < range.to; i++) {
        const struct msl_token *t = &u->tokens.at[i];
        for (uint32_t g = t->n_gap; g > 0; g--)
            if (*(t->text - g) == '\n') buf_append_char(u->out, '\n');
    }
}

/* ---- program-scope constants ---- */

static struct msl_fc *find_constant(struct msl_unit *u, const struct msl_token *name) {
    for (size_t c = 0; c < u->n_constants; c++)
        if (msl_token_same(&u->tokens.at[u->constants[c].name], name)) return &u->constants[c];
    return NULL;
}

static void add_constant(struct msl_unit *u, size_t name, bool is_derived) {
    if (u->tokens.at[name].kind != MSL_TOKEN_NAME)
        msl_error(u, name, "a constant without a name");
    else if (find_constant(u, &u->tokens.at[name]))
        msl_error(u, name, "%.*s is a constant already: names are those of all kernels' files",
                  (int)u->tokens.at[name].len, u->tokens.at[name].text);
    else if (u->n_constants == MSL_CONSTANTS_MAX)
        msl_error(u, name, "more than %d function constants", MSL_CONSTANTS_MAX);
    else
        u->constants[u->n_constants++] = (struct msl_fc){.name = name, .is_derived = is_derived};
}

/* #define NAME ((T)(expression)), on a line of its own; the lines of the expression follow. */
static void write_derived(struct msl_unit *u, struct msl_range type, size_t name,
                          struct msl_range expression) {
    const struct msl_token *at = u->tokens.at;
    buf_printf(u->out, "\n#define %.*s ((", (int)at[name].len, at[name].text);
    for (int part = 0; part < 2; part++) {
        struct msl_range r = part ? expression : type;
        for (size_t i = r.from; i < r.to; i++) {
            size_t before = u->out->len;
            msl_write_token(u, i);
            for (size_t b = before; b < u->out->len; b++)
                if (u->out->data[b] == '\n') u->out->data[b] = ' ';
        }
        buf_append_str(u->out, part ? "))\n" : ")(");
    }
    buf_printf(u->out, "#line %u \"%.*s\"\n", at[expression.to].line, (int)at[name].n_file,
               at[name].file);
}

static bool has_function_constant(struct msl_unit *u, struct msl_range range) {
    for (size_t i = range.from; i < range.to; i++)
        if (u->tokens.at[i].kind == MSL_TOKEN_NAME && find_constant(u, &u->tokens.at[i]))
            return true;
    return false;
}

static size_t find_token(const struct msl_unit *u, size_t i, const char *const *texts) {
    while (i < u->tokens.n && !msl_token_is_one_of(&u->tokens.at[i], texts)) i++;
    return i;
}

/* at[i] = constant at program scope: constant [const] T NAME, then [[...]], = or [. */
static size_t walk_constant(struct msl_unit *u, size_t i) {
    static const char *const ends[] = {"[[", "=", "[", ";", "(", "{", NULL};
    static const char *const semicolon[] = {";", NULL};
    const struct msl_token *at = u->tokens.at;
    size_t end = find_token(u, i, ends), name = end - 1;
    struct msl_range type = {i + 1, name};
    while (type.from < type.to &&
           (msl_token_is(&at[type.from], "const") || msl_token_is(&at[type.from], "constexpr")))
        type.from++;
    if (end == u->tokens.n || name <= i + 1) {
        msl_error(u, i, "a constant that is no variable");
        return i + 1;
    }
    if (msl_token_is(&at[end], "[[")) {
        struct msl_attribute attributes[MSL_ATTRIBUTES_MAX];
        size_t n = 0, next = msl_read_attributes(u, end, attributes, &n);
        if (n != 1 || !msl_token_is(&at[attributes[0].name], "function_constant") ||
            !msl_token_is(&at[next], ";")) {
            msl_error(u, name, "expected [[function_constant(index)]];");
            return next;
        }
        add_constant(u, name, /*is_derived=*/false);
        buf_append(u->out, at[i].text - at[i].n_gap, at[i].n_gap);
        buf_append_str(u->out, "MSL_FC(");
        msl_write_range(u, type);
        buf_append_str(u->out, ",");
        msl_write_token(u, name);
        buf_append_str(u->out, ",");
        msl_write_range(u, attributes[0].args);
        buf_append_str(u->out, ")");
        msl_write_lines(u, (struct msl_range){attributes[0].args.to, next});
        return next;
    }
    if (msl_token_is(&at[end], "=")) {
        size_t stop = find_token(u, end, semicolon);
        struct msl_range expression = {end + 1, stop};
        if (has_function_constant(u, expression)) {
            add_constant(u, name, /*is_derived=*/true);
            write_derived(u, type, name, expression);
            return stop == u->tokens.n ? stop : stop + 1;
        }
    }
    buf_append(u->out, at[i].text - at[i].n_gap, at[i].n_gap);
    buf_append_str(u->out, i && msl_token_is(&at[i - 1], "static") ? "MSL_constant"
                                                                   : "static MSL_constant");
    return i + 1;
}

/* ---- threadgroup variables ---- */

/* at[i] = threadgroup at the start of a statement: whether a variable is declared, not a pointer to
 * one. stop_out: its semicolon. */
static bool is_shared_variable(const struct msl_unit *u, size_t i, size_t *stop_out) {
    static const char *const ends[] = {";", "=", "*", "&", "(", NULL};
    *stop_out = find_token(u, i, ends);
    return *stop_out < u->tokens.n && !msl_token_is(&u->tokens.at[*stop_out], "*") &&
           !msl_token_is(&u->tokens.at[*stop_out], "&");
}

/* The name of the first variable of at[i] = threadgroup: the last one before [ , or ; */
static size_t shared_name(const struct msl_unit *u, size_t i, size_t stop) {
    static const char *const ends[] = {"[", ";", ",", NULL};
    const struct msl_token *at = u->tokens.at;
    size_t name = i + 1;
    while (name < stop && !msl_token_is_one_of(&at[name + 1], ends)) {
        if (msl_token_is(&at[name + 1], "<"))
            name = msl_skip_bracket(u, name + 1) - 1;
        else
            name++;
    }
    return name;
}

/* at[i] = threadgroup T a[n], b; each variable has a type of its own, of which the shim gives a
 * reference. */
static size_t walk_shared_variable(struct msl_unit *u, const struct walk *w, size_t i,
                                   size_t stop) {
    const struct msl_token *at = u->tokens.at;
    size_t name = shared_name(u, i, stop);
    struct msl_range type = {i + 1, name};
    if (!w->is_in_kernel) msl_error(u, i, "a threadgroup variable outside of a kernel");
    buf_append(u->out, at[i].text - at[i].n_gap, at[i].n_gap);
    for (;;) {
        size_t dims = name + 1;
        while (dims < stop && msl_token_is(&at[dims], "[")) dims = msl_skip_bracket(u, dims);
        bool is_last = dims == stop && msl_token_is(&at[stop], ";");
        if (name >= stop || type.from == type.to || at[name].kind != MSL_TOKEN_NAME ||
            (!is_last && !msl_token_is(&at[dims], ","))) {
            msl_error(u, i, "a threadgroup variable is a name and its sizes, without a value");
            return stop;
        }
        buf_append_str(u->out, "typedef ");
        msl_write_range(u, type);
        buf_printf(u->out, " %.*s_shared_t", (int)at[name].len, at[name].text);
        msl_write_range(u, (struct msl_range){name + 1, dims});
        buf_printf(u->out, "; MSL_SHARED(%.*s_shared_t, %.*s)", (int)at[name].len, at[name].text,
                   (int)at[name].len, at[name].text);
        if (is_last) return stop;
        buf_append_str(u->out, "; ");
        name = dims + 1;
    }
}

/* ---- the walk ---- */

static void note_pragma(struct msl_unit *u, struct walk *w, size_t i) {
    const struct msl_token *t = &u->tokens.at[i];
    char text[128];
    size_t n = 0;
    for (uint32_t k = 0; k < t->len && n + 1 < sizeof text; k++)
        if (t->text[k] != ' ' && t->text[k] != '\t') text[n++] = t->text[k];
    text[n] = '\0';
    if (!strstr(text, "METAL")) {
        msl_write_token(u, i);
        return;
    }
    /* Functions of headers have to come after, too. */
    w->has_safe_math |= !w->has_braces && strstr(text, "math_mode(safe)");
    w->has_no_contract |= !w->has_braces && strstr(text, "contract(off)");
    msl_write_lines(u, (struct msl_range){i, i + 1});
}

static bool is_lambda(const struct msl_unit *u, size_t i) {
    static const char *const captures[] = {"&", "=", "]", NULL};
    if (!i || !msl_token_is(&u->tokens.at[i], "[")) return false;
    const struct msl_token *before = &u->tokens.at[i - 1];
    return before->kind != MSL_TOKEN_NAME && !msl_token_is(before, "]") &&
           !msl_token_is(before, ")") && msl_token_is_one_of(&u->tokens.at[i + 1], captures);
}

static void refuse(struct msl_unit *u, size_t i) {
    const struct msl_token *t = &u->tokens.at[i];
    if (t->kind == MSL_TOKEN_NAME && msl_token_is_one_of(t, forbidden) &&
        !(msl_token_is(t, "namespace") && i && msl_token_is(t - 1, "using")))
        msl_error(u, i, "%.*s is not for kernels", (int)t->len, t->text);
    if (t->kind == MSL_TOKEN_NUMBER && memchr(t->text, '.', t->len) &&
        (t->text[t->len - 1] == 'l' || t->text[t->len - 1] == 'L'))
        msl_error(u, i, "%.*s is a long double", (int)t->len, t->text);
    if (msl_token_is(t, "long") && msl_token_is(t + 1, "long"))
        msl_error(u, i, "long long is not an MSL type");
    if (is_lambda(u, i)) msl_error(u, i, "lambdas are not for kernels");
}

static void count_brackets(struct walk *w, const struct msl_token *t) {
    if (msl_token_is(t, "{")) {
        w->n_braces++;
        w->has_braces = true;
        if (w->has_head && w->n_braces == 1) w->is_in_kernel = true;
        w->has_head = false;
    } else if (msl_token_is(t, "}")) {
        w->n_braces -= w->n_braces > 0;
        if (!w->n_braces) w->is_in_kernel = false;
    } else if (msl_token_is(t, "(")) {
        w->n_parens++;
    } else if (msl_token_is(t, ")")) {
        w->n_parens -= w->n_parens > 0;
    }
}

/* at[i] = [[ of no argument: kernel, or a limit of threads, or nothing that matters here. */
static size_t walk_attributes(struct msl_unit *u, struct walk *w, size_t i) {
    struct msl_attribute attributes[MSL_ATTRIBUTES_MAX];
    size_t n = 0, next = msl_read_attributes(u, i, attributes, &n);
    msl_write_lines(u, (struct msl_range){i, next});
    for (size_t a = 0; a < n; a++) {
        const struct msl_token *name = &u->tokens.at[attributes[a].name];
        if (msl_token_is(name, "max_total_threads_per_threadgroup"))
            w->threads_max = attributes[a].args;
        if (msl_token_is(name, "kernel"))
            msl_error(u, attributes[a].name, "write kernel, not [[kernel]]");
    }
    return next;
}

/* Writes what begins at token i and gives the token to go on with. */
static size_t walk_token(struct msl_unit *u, struct walk *w, size_t i) {
    static const char *const starts[] = {";", "{", "}", ")", ":", NULL};
    const struct msl_token *at = u->tokens.at, *t = &at[i];
    size_t stop;
    bool is_program_scope = !w->n_braces && !w->n_parens;
    refuse(u, i);
    count_brackets(w, t);
    if (t->kind == MSL_TOKEN_PRAGMA) {
        note_pragma(u, w, i);
        return i + 1;
    }
    if (msl_token_is(t, "[[")) return walk_attributes(u, w, i);
    if (msl_token_is(t, "template") && msl_token_is(&at[i + 1], "[["))
        return msl_kernel_instance(u, i);
    if (msl_token_is(t, "constant") && is_program_scope) return walk_constant(u, i);
    if (msl_token_is(t, "kernel")) {
        size_t next = msl_kernel_signature(u, i, w->threads_max);
        w->threads_max = (struct msl_range){0};
        w->has_head = true;
        return next;
    }
    if (msl_token_is(t, "threadgroup") && w->n_braces && i &&
        msl_token_is_one_of(&at[i - 1], starts) && is_shared_variable(u, i, &stop))
        return walk_shared_variable(u, w, i, stop);
    if (msl_token_is(t, "static_cast") && msl_token_is(&at[i + 1], "<") &&
        msl_token_is_one_of(&at[i + 2], vectors) && msl_token_is(&at[i + 3], ">")) {
        msl_write_lines(u, (struct msl_range){i, i + 4});
        buf_printf(u->out, " msl_make<%.*s>", (int)at[i + 2].len, at[i + 2].text);
        return i + 4;
    }
    msl_write_token(u, i);
    return i + 1;
}

static void mark_optional(struct msl_unit *u) {
    const struct msl_token *at = u->tokens.at;
    for (size_t i = 0; i + 2 < u->tokens.n; i++) {
        struct msl_fc *c = NULL;
        if (msl_token_is(&at[i], "is_function_constant_defined") && msl_token_is(&at[i + 1], "("))
            c = find_constant(u, &at[i + 2]);
        if (c) c->is_optional = true;
    }
}

static void walk_all(struct msl_unit *u) {
    struct walk w = {0};
    buf_append_str(u->out, "#include \"msl.h\"\n");
    for (size_t i = 0; i < u->tokens.n;) i = walk_token(u, &w, i);
    buf_append_char(u->out, '\n');
    if (w.n_braces || w.n_parens) msl_error(u, u->tokens.n, "brackets are not balanced");
    if (!w.has_safe_math || !w.has_no_contract)
        msl_error(u, 0,
                  "the file does not begin with `#pragma METAL fp math_mode(safe)` and "
                  "`contract(off)`");
    mark_optional(u);
}

enum radish_status msl_translate(const char *source, size_t len, struct buf *cpp_out,
                                 struct buf *errors_out, struct radish_error *err) {
    struct msl_unit *u = calloc(1, sizeof *u);
    if (!u) return error_nomem(err);
    u->out = cpp_out;
    u->errors = errors_out;
    enum radish_status status = msl_tokens_init(&u->tokens, source, len, err);
    if (status == RADISH_OK) {
        walk_all(u);
        status = msl_write_thunks(u, err);
    }
    if (status == RADISH_OK && (cpp_out->failed || errors_out->failed)) status = error_nomem(err);
    if (status == RADISH_OK && u->n_errors)
        status = error_set(err, RADISH_E_FORMAT, "%zu errors", u->n_errors);
    msl_tokens_deinit(&u->tokens);
    free(u);
    return status;
}
