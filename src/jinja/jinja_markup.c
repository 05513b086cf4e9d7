/* jinja_markup.c - what the methods of a text that is safe HTML do differently.
 *
 * `|safe` and `|escape` give a Markup: a text whose methods give Markup again and escape what is
 * put into it. In a prompt nobody wants that, but a template that says `x|e` and goes on working
 * with the result must come out as under Jinja. So methods of such a text run as any text's do,
 * with their arguments escaped before and their results marked after. (+, %, format and slices look
 * at the mark themselves.) */
#include "jinja_markup.h"

#include "jinja_method.h"
#include "jinja_text.h"

#include <string.h>

bool jinja_escape(struct jinja_run *run, const struct jinja_value *v, struct jinja_value *out) {
    struct jinja_value s;
    struct buf b;
    if (v->kind == JINJA_STR && v->flag) {
        *out = *v;
        return true;
    }
    if (!jinja_to_str(run, v, &s)) return false;
    jinja_buf_init(run, &b);
    jinja_text_escape_html(s.as.s, s.len, &b);
    if (!jinja_str_take(run, &b, out)) return false;
    out->flag = 1;
    return true;
}

static bool is_one_of(const struct jinja_builtin *builtin, const char *const *names) {
    for (; *names; names++)
        if (!strcmp(builtin->name, *names)) return true;
    return false;
}

/* join: all items escaped. */
static bool escape_items(struct jinja_run *run, struct jinja_value *v) {
    struct jinja_list items;
    if (!jinja_is_iterable(v) || v->kind == JINJA_UNDEFINED) return true; /* fails as any text's */
    if (!jinja_items(run, v, &items)) return false;
    struct jinja_value *escaped = jinja_alloc(run, items.n + 1, sizeof(*escaped));
    for (size_t i = 0; escaped && i < items.n; i++)
        if (!jinja_escape(run, &items.items[i], &escaped[i])) return false;
    return escaped && jinja_list_make(run, JINJA_LIST, escaped, items.n, v);
}

static bool mark_items(struct jinja_run *run, struct jinja_value *v) {
    const struct jinja_list *list = v->as.list;
    struct jinja_value *marked = jinja_alloc(run, list->n + 1, sizeof(*marked));
    if (!marked || !jinja_charge(run, list->n)) return false;
    for (size_t i = 0; i < list->n; i++) {
        marked[i] = list->items[i];
        marked[i].flag = 1;
    }
    return jinja_list_make(run, (enum jinja_kind)v->kind, marked, list->n, v);
}

bool jinja_is_markup_method(const struct jinja_builtin *builtin, const struct jinja_args *args) {
    return args->n && args->values[0].kind == JINJA_STR && args->values[0].flag &&
           builtin >= jinja_str_methods && builtin < jinja_str_methods + jinja_n_str_methods;
}

bool jinja_markup_method(struct jinja_run *run, const struct jinja_builtin *builtin,
                         const struct jinja_args *args, struct jinja_value *out) {
    static const char *const escaping[] = {"replace", "ljust", "rjust", "center", NULL};
    static const char *const formats[] = {"format", "format_map", NULL};
    struct jinja_args inner = *args;
    struct jinja_value *values = jinja_alloc(run, args->n, sizeof(*values));
    if (!values) return false;
    memcpy(values, args->values, args->n * sizeof(*values));
    inner.values = values;
    if (is_one_of(builtin, formats)) return jinja_invoke_plain(run, builtin, &inner, out);
    values[0].flag = 0;
    if (args->n > 2 && is_one_of(builtin, escaping) && !jinja_escape(run, &values[2], &values[2]))
        return false;
    if (args->n == 2 && !strcmp(builtin->name, "join") && !escape_items(run, &values[1]))
        return false;
    if (!jinja_invoke_plain(run, builtin, &inner, out)) return false;
    if (out->kind == JINJA_LIST || out->kind == JINJA_TUPLE) return mark_items(run, out);
    if (out->kind == JINJA_STR) out->flag = strcmp(builtin->name, "casefold") != 0;
    return true;
}
