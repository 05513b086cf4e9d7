/* jinja_builtin.h - functions written in C that a template can call: filters, tests, methods and
 * globals, all of one shape.
 *
 * A builtin names its parameters; jinja_invoke() binds what was given to them as Python would and
 * calls it with call->a[i], JINJA_MISSING where nothing was given. For filters and tests a[0] is
 * the value on the left, for methods the object. Builtins with n_params < 0 take what they get from
 * call->args. */
#ifndef JINJA_BUILTIN_H
#define JINJA_BUILTIN_H

#include "jinja_run.h"
#include "jinja_value.h"

struct jinja_kwarg {
    struct jinja_value name; /* STR */
    struct jinja_value value;
};

struct jinja_args {
    const struct jinja_value *values; /* [n] */
    size_t n;
    const struct jinja_kwarg *kwargs; /* [n_kwargs] */
    size_t n_kwargs;
};

enum { JINJA_PARAMS_MAX = 8 };

struct jinja_call {
    const struct jinja_value *a; /* [JINJA_PARAMS_MAX] */
    const struct jinja_args *args;
    const struct jinja_builtin *builtin;
};

typedef bool (*jinja_fn)(struct jinja_run *run, const struct jinja_call *call,
                         struct jinja_value *out);

struct jinja_builtin {
    const char *name;
    jinja_fn fn;
    int8_t n_required;
    int8_t n_params;
    const char *params; /* "value,width,first": names, so that keywords can be bound */
};

/* NULL when there is none. */
const struct jinja_builtin *jinja_filter_find(const char *name, size_t len);
const struct jinja_builtin *jinja_test_find(const char *name, size_t len);
const struct jinja_builtin *jinja_global_find(const char *name, size_t len);
const struct jinja_builtin *jinja_method_find(unsigned kind, const char *name, size_t len);
/* Whether Python has this method but the sandbox forbids it: list.append and its like. */
bool jinja_method_is_unsafe(unsigned kind, const char *name, size_t len);

const struct jinja_builtin *jinja_table_find(const struct jinja_builtin *table, size_t n,
                                             const char *name, size_t len);
extern const struct jinja_builtin jinja_filters_text[];
extern const size_t jinja_n_filters_text;
bool jinja_filter_pprint(struct jinja_run *run, const struct jinja_call *call,
                         struct jinja_value *out);
bool jinja_filter_striptags(struct jinja_run *run, const struct jinja_call *call,
                            struct jinja_value *out);
bool jinja_filter_urlize(struct jinja_run *run, const struct jinja_call *call,
                         struct jinja_value *out);
bool jinja_filter_wordwrap(struct jinja_run *run, const struct jinja_call *call,
                           struct jinja_value *out);
bool jinja_filter_xmlattr(struct jinja_run *run, const struct jinja_call *call,
                          struct jinja_value *out);
extern const struct jinja_builtin jinja_filters_sequence[];
extern const size_t jinja_n_filters_sequence;

bool jinja_invoke(struct jinja_run *run, const struct jinja_builtin *builtin,
                  const struct jinja_args *args, struct jinja_value *out);
/* The same without regard to Markup. */
bool jinja_invoke_plain(struct jinja_run *run, const struct jinja_builtin *builtin,
                        const struct jinja_args *args, struct jinja_value *out);
/* Calls any value: macro, builtin, method, loop, ... */
bool jinja_call_value(struct jinja_run *run, const struct jinja_value *callee,
                      const struct jinja_args *args, struct jinja_value *out);
bool jinja_is_callable(const struct jinja_value *v);

/* obj.name: attributes first, then items; obj[key]: the other way round. Absent: undefined. */
bool jinja_get_attribute(struct jinja_run *run, const struct jinja_value *obj,
                         const struct jinja_value *name, struct jinja_value *out);
/* An attribute only; MISSING when there is none. */
bool jinja_find_attribute(struct jinja_run *run, const struct jinja_value *obj,
                          const struct jinja_value *name, struct jinja_value *out);
bool jinja_get_item(struct jinja_run *run, const struct jinja_value *obj,
                    const struct jinja_value *key, struct jinja_value *out);
struct jinja_slice {
    struct jinja_value start, stop, step; /* MISSING or NONE = left out */
};
bool jinja_get_slice(struct jinja_run *run, const struct jinja_value *obj,
                     const struct jinja_slice *slice, struct jinja_value *out);

/* a + b, a % b and so on for any two values; op is enum jinja_op. */
bool jinja_binary(struct jinja_run *run, unsigned op, const struct jinja_value *a,
                  const struct jinja_value *b, struct jinja_value *out);

/* Python's % and str.format. */
bool jinja_percent_format(struct jinja_run *run, const struct jinja_value *format,
                          const struct jinja_value *values, struct jinja_value *out);
bool jinja_str_format(struct jinja_run *run, const struct jinja_value *format,
                      const struct jinja_args *args, struct jinja_value *out);

/* Arguments as C values; false after a failure that says what Python says. */
bool jinja_arg_int(struct jinja_run *run, const struct jinja_value *v, int64_t *out);
bool jinja_arg_str(struct jinja_run *run, const struct jinja_value *v, const char *what);

#endif
