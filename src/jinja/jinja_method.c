/* jinja_method.c - methods of everything that is no text, and where methods are found.
 *
 * Methods that would change their object are not here but in a list of names that the sandbox
 * refuses; a template that calls one fails as under transformers. */
#include "jinja_method.h"

#include "jinja_loop.h"
#include "jinja_number.h"

#include <math.h>
#include <string.h>

/* ---- dict */

static bool dict_get(struct jinja_run *run, const struct jinja_call *call,
                     struct jinja_value *out) {
    const struct jinja_value *found;
    if (!jinja_dict_find(run, call->a[0].as.dict, &call->a[1], &found)) return false;
    if (found)
        *out = *found;
    else
        *out = call->a[2].kind == JINJA_MISSING ? jinja_none() : call->a[2];
    return true;
}

static bool dict_view(struct jinja_run *run, const struct jinja_call *call,
                      struct jinja_value *out) {
    (void)run;
    char which = call->builtin->name[0];
    *out = call->a[0];
    out->kind = JINJA_VIEW;
    out->flag = which == 'k'   ? JINJA_VIEW_KEYS
                : which == 'v' ? JINJA_VIEW_VALUES
                               : JINJA_VIEW_ITEMS;
    return true;
}

/* Nothing can tell a copy from what cannot change. */
static bool any_copy(struct jinja_run *run, const struct jinja_call *call,
                     struct jinja_value *out) {
    (void)run;
    *out = call->a[0];
    return true;
}

/* ---- list, tuple, range */

static bool seq_index(struct jinja_run *run, const struct jinja_call *call,
                      struct jinja_value *out) {
    struct jinja_iter it;
    struct jinja_value item;
    bool is_equal, is_count = call->builtin->name[0] == 'c';
    int64_t at = 0, n = 0;
    enum jinja_next next;
    if (!jinja_iter_begin(run, &call->a[0], &it)) return false;
    for (; (next = jinja_iter_next(run, &it, &item)) == JINJA_NEXT_ITEM; at++) {
        if (!jinja_equal(run, &item, &call->a[1], &is_equal)) return false;
        n += is_equal;
        if (is_equal && !is_count) break;
    }
    if (next == JINJA_NEXT_FAILED) return false;
    if (!is_count && next == JINJA_NEXT_END) return jinja_fail(run, "value is not in list");
    *out = jinja_int(is_count ? n : at);
    return true;
}

/* ---- numbers */

static bool int_bit_length(struct jinja_run *run, const struct jinja_call *call,
                           struct jinja_value *out) {
    jinja_wide wide = jinja_wide_of(&call->a[0]);
    int64_t n = 0;
    (void)run;
    for (wide = wide < 0 ? -wide : wide; wide > 0; wide >>= 1) n++;
    *out = jinja_int(n);
    return true;
}

static bool float_is_integer(struct jinja_run *run, const struct jinja_call *call,
                             struct jinja_value *out) {
    double d = call->a[0].as.f;
    (void)run;
    *out = jinja_bool(isfinite(d) && d == floor(d));
    return true;
}

/* ---- loop, cycler */

static bool loop_cycle(struct jinja_run *run, const struct jinja_call *call,
                       struct jinja_value *out) {
    const struct jinja_args *args = call->args;
    if (args->n < 2 || args->n_kwargs) return jinja_fail(run, "no items for cycling given");
    size_t index0 = jinja_loop_index0(args->values[0].as.loop);
    *out = args->values[1 + index0 % (args->n - 1)];
    return true;
}

static bool loop_changed(struct jinja_run *run, const struct jinja_call *call,
                         struct jinja_value *out) {
    const struct jinja_args *args = call->args;
    struct jinja_loop *loop = args->values[0].as.loop;
    struct jinja_value now;
    bool is_equal = false;
    struct jinja_value *items = jinja_alloc(run, args->n, sizeof(*items));
    if (!items) return false;
    memcpy(items, args->values + 1, (args->n - 1) * sizeof(*items));
    if (!jinja_list_make(run, JINJA_TUPLE, items, args->n - 1, &now)) return false;
    if (loop->has_changed && !jinja_equal(run, &loop->changed, &now, &is_equal)) return false;
    loop->changed = now;
    loop->has_changed = true;
    *out = jinja_bool(!is_equal);
    return true;
}

static bool cycler_next(struct jinja_run *run, const struct jinja_call *call,
                        struct jinja_value *out) {
    struct jinja_cycler *cycler = call->a[0].as.cycler;
    (void)run;
    *out = cycler->items.items[cycler->pos];
    cycler->pos = (cycler->pos + 1) % cycler->items.n;
    return true;
}

static bool cycler_reset(struct jinja_run *run, const struct jinja_call *call,
                         struct jinja_value *out) {
    (void)run;
    call->a[0].as.cycler->pos = 0;
    *out = jinja_none();
    return true;
}

static const struct jinja_builtin dict_methods[] = {
    {"get", dict_get, 2, 3, ""},     {"items", dict_view, 1, 1, ""}, {"keys", dict_view, 1, 1, ""},
    {"values", dict_view, 1, 1, ""}, {"copy", any_copy, 1, 1, ""},
};
static const struct jinja_builtin list_methods[] = {
    {"index", seq_index, 2, 2, ""},
    {"count", seq_index, 2, 2, ""},
    {"copy", any_copy, 1, 1, ""},
};
static const struct jinja_builtin int_methods[] = {
    {"bit_length", int_bit_length, 1, 1, ""},
    {"conjugate", any_copy, 1, 1, ""},
};
static const struct jinja_builtin float_methods[] = {
    {"is_integer", float_is_integer, 1, 1, ""},
    {"conjugate", any_copy, 1, 1, ""},
};
static const struct jinja_builtin loop_methods[] = {
    {"cycle", loop_cycle, 1, -1, NULL},
    {"changed", loop_changed, 1, -1, NULL},
};
static const struct jinja_builtin cycler_methods[] = {
    {"next", cycler_next, 1, 1, ""},
    {"reset", cycler_reset, 1, 1, ""},
};

const struct jinja_builtin *jinja_method_find(unsigned kind, const char *name, size_t len) {
    const struct jinja_builtin *table = NULL;
    size_t n = 0;
    switch (kind) {
    case JINJA_STR: table = jinja_str_methods, n = jinja_n_str_methods; break;
    case JINJA_DICT: table = dict_methods, n = sizeof(dict_methods) / sizeof(*table); break;
    case JINJA_LIST: table = list_methods, n = sizeof(list_methods) / sizeof(*table); break;
    case JINJA_TUPLE:
    case JINJA_RANGE: table = list_methods, n = sizeof(list_methods) / sizeof(*table) - 1; break;
    case JINJA_BOOL:
    case JINJA_INT:
    case JINJA_BIG: table = int_methods, n = sizeof(int_methods) / sizeof(*table); break;
    case JINJA_FLOAT: table = float_methods, n = sizeof(float_methods) / sizeof(*table); break;
    case JINJA_LOOP: table = loop_methods, n = sizeof(loop_methods) / sizeof(*table); break;
    case JINJA_CYCLER: table = cycler_methods, n = sizeof(cycler_methods) / sizeof(*table); break;
    default: return NULL;
    }
    return jinja_table_find(table, n, name, len);
}

bool jinja_method_is_unsafe(unsigned kind, const char *name, size_t len) {
    static const char *const of_list[] = {"append", "clear", "pop",    "reverse",
                                          "insert", "sort",  "extend", "remove"};
    static const char *const of_dict[] = {"clear", "pop", "popitem", "setdefault", "update"};
    const char *const *names = kind == JINJA_LIST ? of_list : of_dict;
    size_t n = kind == JINJA_LIST ? 8 : 5;
    if (kind != JINJA_LIST && kind != JINJA_DICT) return false;
    for (size_t i = 0; i < n; i++)
        if (len && names[i][0] == name[0] && strlen(names[i]) == len &&
            !memcmp(names[i], name, len))
            return true;
    return false;
}
