/* jinja_eval.c - expressions to values, by walking the tree.
 *
 * A tree walk rather than byte code: a chat template runs a few thousand nodes per request and its
 * time goes into texts, so a compiler to byte code would be more to get wrong and nothing to gain.
 * A name is two loads from an array. A method call on a text, dict or list (x.strip()) goes
 * straight to the builtin that the parser found for its name; only a method taken as a value
 * becomes an object. */
#include "jinja_builtin.h"
#include "jinja_loop.h"
#include "jinja_markup.h"

#include <stdio.h>
#include <string.h>

enum { LOCAL_VALUES = 6, LOCAL_KWARGS = 3 };

/* Room for the arguments of most calls without the arena. */
struct arg_store {
    struct jinja_value values[LOCAL_VALUES];
    struct jinja_kwarg kwargs[LOCAL_KWARGS];
};

static const struct jinja_value *slot_of(const struct jinja_activation *act,
                                         struct jinja_slot_ref ref) {
    for (unsigned hops = ref.hops; hops; hops--) act = act->outer;
    return &act->slots[ref.slot];
}

static void eval_name(const struct jinja_activation *act, const struct jinja_node *node,
                      struct jinja_value *out) {
    *out = *slot_of(act, node->as.name.ref);
    const struct jinja_value *text = &node->as.name.name->text;
    if (out->kind == JINJA_MISSING) *out = jinja_undefined_name(text->as.s, text->len);
}

/* ---- displays */

static bool eval_items(struct jinja_run *run, struct jinja_activation *act,
                       const struct jinja_node *node, struct jinja_value *out) {
    uint32_t n = node->as.list.n;
    struct jinja_value *items = n ? jinja_alloc(run, n, sizeof(*items)) : NULL;
    if (n && !items) return false;
    for (uint32_t i = 0; i < n; i++)
        if (!jinja_eval(run, act, node->as.list.items[i], &items[i])) return false;
    enum jinja_kind kind = node->type == JINJA_N_LIST ? JINJA_LIST : JINJA_TUPLE;
    return jinja_list_make(run, kind, items, n, out);
}

static bool eval_dict(struct jinja_run *run, struct jinja_activation *act,
                      const struct jinja_node *node, struct jinja_value *out) {
    struct jinja_dict *dict = jinja_dict_make(run, node->as.list.n / 2);
    if (!dict) return false;
    for (uint32_t i = 0; i + 1 < node->as.list.n; i += 2) {
        struct jinja_value key, value;
        if (!jinja_eval(run, act, node->as.list.items[i], &key) ||
            !jinja_eval(run, act, node->as.list.items[i + 1], &value) ||
            !jinja_dict_set(run, dict, &key, &value))
            return false;
    }
    *out = (struct jinja_value){.kind = JINJA_DICT, .as.dict = dict};
    return true;
}

/* ---- operators */

/* Text + text; where one is Markup the other is escaped first. */
static bool add_texts(struct jinja_run *run, const struct jinja_value *a,
                      const struct jinja_value *b, struct jinja_value *out) {
    struct jinja_value left = *a, right = *b;
    bool is_markup = a->flag || b->flag;
    if (is_markup && !a->flag && !jinja_escape(run, a, &left)) return false;
    if (is_markup && !b->flag && !jinja_escape(run, b, &right)) return false;
    if (!jinja_concat(run, &left, &right, out)) return false;
    out->flag = is_markup;
    return true;
}

static bool add_lists(struct jinja_run *run, const struct jinja_value *a,
                      const struct jinja_value *b, struct jinja_value *out) {
    const struct jinja_list *x = a->as.list, *y = b->as.list;
    struct jinja_value *items = jinja_alloc(run, x->n + y->n + 1, sizeof(*items));
    if (!items || !jinja_charge(run, x->n + y->n)) return false;
    if (x->n) memcpy(items, x->items, x->n * sizeof(*items));
    if (y->n) memcpy(items + x->n, y->items, y->n * sizeof(*items));
    return jinja_list_make(run, (enum jinja_kind)a->kind, items, x->n + y->n, out);
}

static bool repeat(struct jinja_run *run, const struct jinja_value *v, jinja_wide times,
                   struct jinja_value *out) {
    bool is_text = v->kind == JINJA_STR;
    size_t n = is_text ? v->len : v->as.list->n, size = is_text ? 1 : sizeof(struct jinja_value);
    if (times < 0 || !n) times = 0;
    if (times > (jinja_wide)(run->limits.memory_bytes_max / size / (n + !n)))
        return jinja_fail_limit(run, "memory");
    size_t total = n * (size_t)times;
    char *bytes = jinja_alloc(run, total + 1, size);
    const void *from = is_text ? (const void *)v->as.s : (const void *)v->as.list->items;
    if (!bytes || !jinja_charge_bytes(run, total * size)) return false;
    for (size_t i = 0; i < (size_t)times; i++) memcpy(bytes + i * n * size, from, n * size);
    if (!is_text)
        return jinja_list_make(run, (enum jinja_kind)v->kind,
                               (const struct jinja_value *)(const void *)bytes, total, out);
    *out = jinja_str(bytes, total);
    out->flag = v->flag;
    return total < UINT32_MAX || jinja_fail_limit(run, "memory");
}

static bool is_sequence(const struct jinja_value *v) {
    return v->kind == JINJA_STR || v->kind == JINJA_LIST || v->kind == JINJA_TUPLE;
}

static bool fail_operands(struct jinja_run *run, unsigned op, const struct jinja_value *a,
                          const struct jinja_value *b) {
    static const char *const names[] = {"+", "-", "*", "/", "//", "%", "** or pow()"};
    const char *left = jinja_type_name(a->kind), *right = jinja_type_name(b->kind);
    if (op == JINJA_OP_ADD && is_sequence(a))
        return jinja_fail(run, "can only concatenate %s (not \"%s\") to %s", left, right, left);
    if (op == JINJA_OP_MUL && (is_sequence(a) || is_sequence(b)))
        return jinja_fail(run, "can't multiply sequence by non-int of type '%s'",
                          is_sequence(a) ? right : left);
    return jinja_fail(run, "unsupported operand type(s) for %s: '%s' and '%s'", names[op], left,
                      right);
}

bool jinja_binary(struct jinja_run *run, unsigned op, const struct jinja_value *a,
                  const struct jinja_value *b, struct jinja_value *out) {
    if (jinja_is_number(a) && jinja_is_number(b))
        return jinja_arithmetic(run, (enum jinja_op)op, a, b, out);
    if (op == JINJA_OP_MOD && a->kind == JINJA_STR) return jinja_percent_format(run, a, b, out);
    if (a->kind == JINJA_UNDEFINED) return jinja_fail_undefined(run, a);
    if (b->kind == JINJA_UNDEFINED) return jinja_fail_undefined(run, b);
    if (op == JINJA_OP_ADD && a->kind == b->kind && is_sequence(a))
        return a->kind == JINJA_STR ? add_texts(run, a, b, out) : add_lists(run, a, b, out);
    if (op == JINJA_OP_MUL && is_sequence(a) && jinja_is_integer(b))
        return repeat(run, a, jinja_wide_of(b), out);
    if (op == JINJA_OP_MUL && is_sequence(b) && jinja_is_integer(a))
        return repeat(run, b, jinja_wide_of(a), out);
    return fail_operands(run, op, a, b);
}

static bool eval_binary(struct jinja_run *run, struct jinja_activation *act,
                        const struct jinja_node *node, struct jinja_value *out) {
    struct jinja_value a, b;
    if (!jinja_eval(run, act, node->as.sub.a, &a) || !jinja_eval(run, act, node->as.sub.b, &b))
        return false;
    run->line = node->line;
    return jinja_binary(run, node->op, &a, &b, out);
}

static bool eval_unary(struct jinja_run *run, struct jinja_activation *act,
                       const struct jinja_node *node, struct jinja_value *out) {
    struct jinja_value v;
    if (!jinja_eval(run, act, node->as.sub.a, &v)) return false;
    if (node->type == JINJA_N_NOT) {
        *out = jinja_bool(!jinja_truth(&v));
        return true;
    }
    if (v.kind == JINJA_UNDEFINED) return jinja_fail_undefined(run, &v);
    if (!jinja_is_number(&v))
        return jinja_fail(run, "bad operand type for unary %s: '%s'",
                          node->type == JINJA_N_NEG ? "-" : "+", jinja_type_name(v.kind));
    if (node->type == JINJA_N_NEG) return jinja_negate(run, &v, out);
    *out = v.kind == JINJA_BOOL ? jinja_int(v.as.b) : v;
    return true;
}

static bool eval_concat(struct jinja_run *run, struct jinja_activation *act,
                        const struct jinja_node *node, struct jinja_value *out) {
    struct jinja_value sum = jinja_str("", 0), item;
    for (uint32_t i = 0; i < node->as.list.n; i++) {
        if (!jinja_eval(run, act, node->as.list.items[i], &item) ||
            !jinja_to_str(run, &item, &item) || !jinja_concat(run, &sum, &item, &sum))
            return false;
    }
    *out = sum;
    out->flag = 0;
    return true;
}

static bool compare(struct jinja_run *run, unsigned op, const struct jinja_value *a,
                    const struct jinja_value *b, bool *is_true_out) {
    static const char *const names[] = {"==", "!=", ">", ">=", "<", "<="};
    int order;
    switch (op) {
    case JINJA_C_EQ: return jinja_equal(run, a, b, is_true_out);
    case JINJA_C_NE:
        if (!jinja_equal(run, a, b, is_true_out)) return false;
        *is_true_out = !*is_true_out;
        return true;
    case JINJA_C_IN: return jinja_contains(run, b, a, is_true_out);
    case JINJA_C_NOTIN:
        if (!jinja_contains(run, b, a, is_true_out)) return false;
        *is_true_out = !*is_true_out;
        return true;
    default: break;
    }
    if (!jinja_order(run, a, b, names[op], &order)) return false;
    *is_true_out = op == JINJA_C_GT   ? order == 1
                   : op == JINJA_C_GE ? order == 1 || order == 0
                   : op == JINJA_C_LT ? order == -1
                                      : order == -1 || order == 0;
    return true;
}

static bool eval_compare(struct jinja_run *run, struct jinja_activation *act,
                         const struct jinja_node *node, struct jinja_value *out) {
    struct jinja_value left, right;
    bool is_true = true;
    if (!jinja_eval(run, act, node->as.list.items[0], &left)) return false;
    for (uint32_t i = 1; is_true && i < node->as.list.n; i++) {
        const struct jinja_node *operand = node->as.list.items[i];
        if (!jinja_eval(run, act, operand->as.sub.a, &right)) return false;
        run->line = node->line;
        if (!compare(run, operand->op, &left, &right, &is_true)) return false;
        left = right;
    }
    *out = jinja_bool(is_true);
    return true;
}

static bool eval_logic(struct jinja_run *run, struct jinja_activation *act,
                       const struct jinja_node *node, struct jinja_value *out) {
    if (!jinja_eval(run, act, node->as.sub.a, out)) return false;
    if (jinja_truth(out) == (node->type == JINJA_N_OR)) return true;
    return jinja_eval(run, act, node->as.sub.b, out);
}

static bool eval_condexpr(struct jinja_run *run, struct jinja_activation *act,
                          const struct jinja_node *node, struct jinja_value *out) {
    if (!jinja_eval(run, act, node->as.sub.a, out)) return false;
    if (jinja_truth(out)) return jinja_eval(run, act, node->as.sub.b, out);
    if (node->as.sub.c) return jinja_eval(run, act, node->as.sub.c, out);
    *out = jinja_undefined_hint(
        "the inline if-expression evaluated to false and no else section was defined.");
    return true;
}

/* ---- access and calls */

static bool eval_getitem(struct jinja_run *run, struct jinja_activation *act,
                         const struct jinja_node *node, struct jinja_value *out) {
    struct jinja_value obj, key;
    const struct jinja_node *part = node->as.sub.b;
    if (!jinja_eval(run, act, node->as.sub.a, &obj)) return false;
    if (part->type != JINJA_N_SLICE) {
        if (!jinja_eval(run, act, part, &key)) return false;
        run->line = node->line;
        return jinja_get_item(run, &obj, &key, out);
    }
    struct jinja_slice slice = {{0}, {0}, {0}};
    if ((part->as.sub.a && !jinja_eval(run, act, part->as.sub.a, &slice.start)) ||
        (part->as.sub.b && !jinja_eval(run, act, part->as.sub.b, &slice.stop)) ||
        (part->as.sub.c && !jinja_eval(run, act, part->as.sub.c, &slice.step)))
        return false;
    run->line = node->line;
    return jinja_get_slice(run, &obj, &slice, out);
}

static bool eval_getattr(struct jinja_run *run, struct jinja_activation *act,
                         const struct jinja_node *node, struct jinja_value *out) {
    struct jinja_value obj;
    if (!jinja_eval(run, act, node->as.getattr.obj, &obj)) return false;
    run->line = node->line;
    /* The usual case at once: a dict's item that no method hides. */
    if (obj.kind == JINJA_DICT && !node->as.getattr.dict_method) {
        const struct jinja_value *attr = &node->as.getattr.attr;
        const struct jinja_value *found = jinja_dict_find_str(obj.as.dict, attr->as.s, attr->len);
        if (found && !jinja_method_is_unsafe(JINJA_DICT, attr->as.s, attr->len)) {
            *out = *found;
            return true;
        }
    }
    return jinja_get_attribute(run, &obj, &node->as.getattr.attr, out);
}

static bool add_kwarg(struct jinja_run *run, struct jinja_kwarg *kwargs, size_t *n,
                      const struct jinja_value *name, const struct jinja_value *value) {
    for (size_t i = 0; i < *n; i++)
        if (jinja_is_str(&kwargs[i].name, name->as.s, name->len))
            return jinja_fail(run, "got multiple values for keyword argument '%.*s'",
                              name->len > 80 ? 80 : (int)name->len, name->as.s);
    kwargs[(*n)++] = (struct jinja_kwarg){*name, *value};
    return true;
}

static bool eval_dyn_args(struct jinja_run *run, struct jinja_activation *act,
                          const struct jinja_call_node *call, struct jinja_list *list,
                          struct jinja_value *mapping) {
    struct jinja_value v;
    *list = (struct jinja_list){0};
    mapping->kind = JINJA_MISSING;
    if (call->dyn_args &&
        (!jinja_eval(run, act, call->dyn_args, &v) || !jinja_items(run, &v, list)))
        return false;
    if (!call->dyn_kwargs) return true;
    if (!jinja_eval(run, act, call->dyn_kwargs, mapping)) return false;
    if (mapping->kind != JINJA_DICT)
        return jinja_fail(run, "argument after ** must be a mapping, not %s",
                          jinja_type_name(mapping->kind));
    for (uint32_t i = 0; i < mapping->as.dict->n; i++)
        if (mapping->as.dict->entries[i].key.kind != JINJA_STR)
            return jinja_fail(run, "keywords must be strings");
    return true;
}

static bool eval_args(struct jinja_run *run, struct jinja_activation *act,
                      const struct jinja_call_node *call, const struct jinja_call_extras *extras,
                      struct arg_store *store, struct jinja_args *args) {
    struct jinja_list dyn_list;
    struct jinja_value dyn_dict = {0}, caller_name = jinja_str("caller", 6), v;
    struct jinja_value *values = store->values;
    struct jinja_kwarg *kwargs = store->kwargs;
    bool is_dynamic = call->dyn_args || call->dyn_kwargs;
    if (is_dynamic && !eval_dyn_args(run, act, call, &dyn_list, &dyn_dict)) return false;
    size_t n_dyn = is_dynamic ? dyn_list.n : 0, n = 0, n_kwargs = 0;
    size_t n_max = (extras->first != NULL) + (size_t)call->n_args + n_dyn;
    size_t n_kwargs_max = call->n_kwargs + (extras->caller != NULL) +
                          (dyn_dict.kind == JINJA_DICT ? dyn_dict.as.dict->n : 0u);
    if (n_max > LOCAL_VALUES && !(values = jinja_alloc(run, n_max, sizeof(*values)))) return false;
    if (n_kwargs_max > LOCAL_KWARGS && !(kwargs = jinja_alloc(run, n_kwargs_max, sizeof(*kwargs))))
        return false;
    if (extras->first) values[n++] = *extras->first;
    for (uint32_t i = 0; i < call->n_args; i++)
        if (!jinja_eval(run, act, call->args[i], &values[n++])) return false;
    for (size_t i = 0; i < n_dyn; i++) values[n++] = dyn_list.items[i];
    for (uint32_t i = 0; i < call->n_kwargs; i++)
        if (!jinja_eval(run, act, call->kwargs[i].value, &v) ||
            !add_kwarg(run, kwargs, &n_kwargs, &call->kwargs[i].name, &v))
            return false;
    for (uint32_t i = 0; dyn_dict.kind == JINJA_DICT && i < dyn_dict.as.dict->n; i++) {
        const struct jinja_entry *entry = &dyn_dict.as.dict->entries[i];
        if (!jinja_charge(run, n_kwargs + 1) ||
            !add_kwarg(run, kwargs, &n_kwargs, &entry->key, &entry->value))
            return false;
    }
    if (extras->caller && !add_kwarg(run, kwargs, &n_kwargs, &caller_name, extras->caller))
        return false;
    *args = (struct jinja_args){values, n, kwargs, n_kwargs};
    return true;
}

/* obj.method(...) on what has methods in tables: found by the parser. */
static const struct jinja_builtin *quick_method(const struct jinja_node *callee,
                                                const struct jinja_value *obj) {
    switch (obj->kind) {
    case JINJA_STR: return callee->as.getattr.str_method;
    case JINJA_DICT: return callee->as.getattr.dict_method;
    case JINJA_LIST: return callee->as.getattr.list_method;
    default: return NULL;
    }
}

static bool eval_callee(struct jinja_run *run, struct jinja_activation *act,
                        const struct jinja_node *callee, struct jinja_value *callee_out,
                        const struct jinja_builtin **method_out, struct jinja_value *self_out) {
    *method_out = NULL;
    if (callee->type != JINJA_N_GETATTR) return jinja_eval(run, act, callee, callee_out);
    if (!jinja_eval(run, act, callee->as.getattr.obj, self_out)) return false;
    *method_out = quick_method(callee, self_out);
    run->line = callee->line;
    return *method_out || jinja_get_attribute(run, self_out, &callee->as.getattr.attr, callee_out);
}

bool jinja_eval_call(struct jinja_run *run, struct jinja_activation *act,
                     const struct jinja_node *node, const struct jinja_call_extras *extras,
                     struct jinja_value *out) {
    const struct jinja_call_node *call = node->as.call;
    const struct jinja_builtin *builtin = call->builtin;
    struct jinja_call_extras with_self = *extras;
    struct arg_store store;
    struct jinja_args args;
    struct jinja_value callee, self;
    if (node->type == JINJA_N_CALL) {
        if (!eval_callee(run, act, call->node, &callee, &builtin, &self)) return false;
        if (builtin) with_self.first = &self;
    } else if (!builtin) {
        return jinja_fail(run, "No %s named '%.*s' found.",
                          node->type == JINJA_N_FILTER ? "filter" : "test",
                          call->name.len > 80 ? 80 : (int)call->name.len, call->name.as.s);
    } else if (!extras->first) {
        if (!jinja_eval(run, act, call->node, &self)) return false;
        with_self.first = &self;
    }
    if (!eval_args(run, act, call, &with_self, &store, &args)) return false;
    run->line = node->line;
    return builtin ? jinja_invoke(run, builtin, &args, out)
                   : jinja_call_value(run, &callee, &args, out);
}

static bool eval_node(struct jinja_run *run, struct jinja_activation *act,
                      const struct jinja_node *node, struct jinja_value *out) {
    static const struct jinja_call_extras no_extras = {NULL, NULL};
    switch (node->type) {
    case JINJA_N_TUPLE:
    case JINJA_N_LIST: return eval_items(run, act, node, out);
    case JINJA_N_DICT: return eval_dict(run, act, node, out);
    case JINJA_N_CONDEXPR: return eval_condexpr(run, act, node, out);
    case JINJA_N_OR:
    case JINJA_N_AND: return eval_logic(run, act, node, out);
    case JINJA_N_NOT:
    case JINJA_N_NEG:
    case JINJA_N_POS: return eval_unary(run, act, node, out);
    case JINJA_N_BINARY: return eval_binary(run, act, node, out);
    case JINJA_N_CONCAT: return eval_concat(run, act, node, out);
    case JINJA_N_COMPARE: return eval_compare(run, act, node, out);
    case JINJA_N_GETATTR: return eval_getattr(run, act, node, out);
    case JINJA_N_GETITEM: return eval_getitem(run, act, node, out);
    case JINJA_N_CALL:
    case JINJA_N_FILTER:
    case JINJA_N_TEST: return jinja_eval_call(run, act, node, &no_extras, out);
    default: return jinja_fail(run, "this cannot be evaluated");
    }
}

bool jinja_eval(struct jinja_run *run, struct jinja_activation *act, const struct jinja_node *node,
                struct jinja_value *out) {
    if (!jinja_charge(run, 1)) return false;
    if (node->type == JINJA_N_CONST || node->type == JINJA_N_DATA) {
        *out = node->as.value;
        return true;
    }
    if (node->type == JINJA_N_NAME) {
        eval_name(act, node, out);
        return true;
    }
    if (!jinja_enter(run)) return false;
    bool is_ok = eval_node(run, act, node, out);
    jinja_leave(run);
    return is_ok;
}
