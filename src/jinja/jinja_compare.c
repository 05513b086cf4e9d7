/* jinja_compare.c - what Python asks of values: are they true, equal, ordered, how long, what is in
 * them, item by item.
 *
 * Lists and dicts are compared to any depth, and the same list may stand in many places of a value,
 * so that comparing costs more than the value holds; each comparison of two items is a step and
 * each level counts as depth. Sorting and `<` know numbers, texts, lists and tuples and refuse the
 * rest with Python's words. */
#include "jinja_value.h"

#include "base/utf8.h"
#include "jinja_builtin.h"
#include "jinja_loop.h"
#include "jinja_number.h"
#include "jinja_run.h"
#include "jinja_text.h"

#include <string.h>

const char *jinja_type_name(unsigned kind) {
    static const char *const names[] = {
        [JINJA_MISSING] = "missing",
        [JINJA_UNDEFINED] = "Undefined",
        [JINJA_NONE] = "NoneType",
        [JINJA_BOOL] = "bool",
        [JINJA_INT] = "int",
        [JINJA_BIG] = "int",
        [JINJA_FLOAT] = "float",
        [JINJA_STR] = "str",
        [JINJA_LIST] = "list",
        [JINJA_TUPLE] = "tuple",
        [JINJA_DICT] = "dict",
        [JINJA_RANGE] = "range",
        [JINJA_VIEW] = "dict_view",
        [JINJA_ITER] = "generator",
        [JINJA_NAMESPACE] = "jinja2.utils.Namespace",
        [JINJA_MACRO] = "jinja2.runtime.Macro",
        [JINJA_BUILTIN] = "function",
        [JINJA_METHOD] = "builtin_function_or_method",
        [JINJA_LOOP] = "jinja2.runtime.LoopContext",
        [JINJA_CYCLER] = "jinja2.utils.Cycler",
        [JINJA_JOINER] = "jinja2.utils.Joiner",
        [JINJA_SELF] = "jinja2.runtime.TemplateReference",
        [JINJA_BLOCK] = "jinja2.runtime.BlockReference",
    };
    return names[kind];
}

bool jinja_truth(const struct jinja_value *v) {
    switch (v->kind) {
    case JINJA_MISSING:
    case JINJA_UNDEFINED:
    case JINJA_NONE: return false;
    case JINJA_BOOL: return v->as.b;
    case JINJA_INT: return v->as.i != 0;
    case JINJA_FLOAT: return v->as.f != 0;
    case JINJA_STR: return v->len != 0;
    case JINJA_LIST:
    case JINJA_TUPLE: return v->as.list->n != 0;
    case JINJA_DICT:
    case JINJA_VIEW: return v->as.dict->n != 0;
    case JINJA_RANGE: return v->as.range->n != 0;
    default: return true;
    }
}

/* ---- equality and order */

static bool equal_lists(struct jinja_run *run, const struct jinja_list *a,
                        const struct jinja_list *b, bool *equal_out) {
    *equal_out = a->n == b->n;
    for (size_t i = 0; *equal_out && a != b && i < a->n; i++)
        if (!jinja_equal(run, &a->items[i], &b->items[i], equal_out)) return false;
    return true;
}

static bool equal_dicts(struct jinja_run *run, const struct jinja_dict *a,
                        const struct jinja_dict *b, bool *equal_out) {
    *equal_out = a->n == b->n;
    for (uint32_t i = 0; *equal_out && a != b && i < a->n; i++) {
        const struct jinja_value *other;
        if (!jinja_dict_find(run, b, &a->entries[i].key, &other)) return false;
        *equal_out = other != NULL;
        if (other && !jinja_equal(run, &a->entries[i].value, other, equal_out)) return false;
    }
    return true;
}

static bool equal_ranges(const struct jinja_range *a, const struct jinja_range *b) {
    if (a->n != b->n) return false;
    return !a->n || (a->start == b->start && (a->n == 1 || a->step == b->step));
}

static bool equal_containers(struct jinja_run *run, const struct jinja_value *a,
                             const struct jinja_value *b, bool *equal_out) {
    if (!jinja_enter(run)) return false;
    bool is_ok = true;
    if (a->kind == JINJA_DICT)
        is_ok = equal_dicts(run, a->as.dict, b->as.dict, equal_out);
    else
        is_ok = equal_lists(run, a->as.list, b->as.list, equal_out);
    jinja_leave(run);
    return is_ok;
}

bool jinja_equal(struct jinja_run *run, const struct jinja_value *a, const struct jinja_value *b,
                 bool *equal_out) {
    *equal_out = false;
    if (!jinja_charge(run, 1)) return false;
    if (jinja_is_number(a) && jinja_is_number(b)) {
        *equal_out = jinja_number_order(a, b) == 0;
        return true;
    }
    if (a->kind != b->kind) return true;
    switch (a->kind) {
    case JINJA_STR:
        *equal_out = a->len == b->len && !memcmp(a->as.s, b->as.s, a->len);
        return a->len != b->len || jinja_charge_bytes(run, a->len);
    case JINJA_MISSING:
    case JINJA_UNDEFINED:
    case JINJA_NONE: *equal_out = true; return true;
    case JINJA_LIST:
    case JINJA_TUPLE:
    case JINJA_DICT: return equal_containers(run, a, b, equal_out);
    case JINJA_RANGE: *equal_out = equal_ranges(a->as.range, b->as.range); return true;
    case JINJA_VIEW: *equal_out = a->as.dict == b->as.dict && a->flag == b->flag; return true;
    default: *equal_out = a->as.dict == b->as.dict; return true;
    }
}

static int order_texts(const struct jinja_value *a, const struct jinja_value *b) {
    /* UTF-8 sorts as its code points do. */
    size_t len = a->len < b->len ? a->len : b->len;
    int order = memcmp(a->as.s, b->as.s, len);
    if (!order) order = (a->len > b->len) - (a->len < b->len);
    return (order > 0) - (order < 0);
}

/* By the first items that differ, else by length. */
static bool order_lists(struct jinja_run *run, const struct jinja_list *a,
                        const struct jinja_list *b, const char *op, int *order_out) {
    for (size_t i = 0; i < a->n && i < b->n; i++) {
        bool is_equal;
        if (!jinja_equal(run, &a->items[i], &b->items[i], &is_equal)) return false;
        if (!is_equal) return jinja_order(run, &a->items[i], &b->items[i], op, order_out);
    }
    *order_out = (a->n > b->n) - (a->n < b->n);
    return true;
}

bool jinja_order(struct jinja_run *run, const struct jinja_value *a, const struct jinja_value *b,
                 const char *op, int *order_out) {
    *order_out = 0;
    if (a->kind == JINJA_UNDEFINED) return jinja_fail_undefined(run, a);
    if (b->kind == JINJA_UNDEFINED) return jinja_fail_undefined(run, b);
    if (!jinja_charge(run, 1)) return false;
    if (jinja_is_number(a) && jinja_is_number(b)) {
        *order_out = jinja_number_order(a, b);
        return true;
    }
    if (a->kind == b->kind && a->kind == JINJA_STR) {
        *order_out = order_texts(a, b);
        return jinja_charge_bytes(run, a->len < b->len ? a->len : b->len);
    }
    if (a->kind == b->kind && (a->kind == JINJA_LIST || a->kind == JINJA_TUPLE)) {
        if (!jinja_enter(run)) return false;
        bool is_ok = order_lists(run, a->as.list, b->as.list, op, order_out);
        jinja_leave(run);
        return is_ok;
    }
    return jinja_fail(run, "'%s' not supported between instances of '%s' and '%s'", op,
                      jinja_type_name(a->kind), jinja_type_name(b->kind));
}

static bool is_less(struct jinja_run *run, const struct jinja_value *a, const struct jinja_value *b,
                    bool *less_out) {
    int order;
    if (!jinja_order(run, a, b, "<", &order)) return false;
    *less_out = order == -1;
    return true;
}

/* Merges order[low..mid) and order[mid..high) into spare. */
static bool merge(struct jinja_run *run, const struct jinja_value *keys, bool is_reverse,
                  const uint32_t *order, uint32_t *spare, const size_t bounds[3]) {
    size_t a = bounds[0], b = bounds[1];
    for (size_t k = bounds[0]; k < bounds[2]; k++) {
        bool is_right = a == bounds[1];
        if (!is_right && b < bounds[2]) {
            const struct jinja_value *left = &keys[order[a]], *right = &keys[order[b]];
            if (!is_less(run, is_reverse ? left : right, is_reverse ? right : left, &is_right))
                return false;
        }
        spare[k] = is_right ? order[b++] : order[a++];
    }
    return true;
}

bool jinja_sort(struct jinja_run *run, const struct jinja_value *keys, size_t n, bool is_reverse,
                uint32_t *order_out) {
    uint32_t *spare = n ? jinja_alloc(run, n, sizeof(*spare)) : NULL;
    if (n && !spare) return false;
    for (size_t i = 0; i < n; i++) order_out[i] = (uint32_t)i;
    for (size_t width = 1; width < n; width *= 2) {
        for (size_t low = 0; low < n; low += 2 * width) {
            size_t mid = low + width < n ? low + width : n;
            size_t high = low + 2 * width < n ? low + 2 * width : n;
            const size_t bounds[3] = {low, mid, high};
            if (!merge(run, keys, is_reverse, order_out, spare, bounds)) return false;
        }
        memcpy(order_out, spare, n * sizeof(*spare));
    }
    return true;
}

/* ---- length and membership */

bool jinja_length(struct jinja_run *run, const struct jinja_value *v, size_t *n_out) {
    *n_out = 0;
    switch (v->kind) {
    case JINJA_UNDEFINED: return true;
    case JINJA_STR: *n_out = utf8_count(v->as.s, v->len); return jinja_charge_bytes(run, v->len);
    case JINJA_LIST:
    case JINJA_TUPLE: *n_out = v->as.list->n; return true;
    case JINJA_DICT:
    case JINJA_VIEW: *n_out = v->as.dict->n; return true;
    case JINJA_RANGE: *n_out = v->as.range->n; return true;
    case JINJA_LOOP: return jinja_loop_length(run, v->as.loop, n_out);
    default: return jinja_fail(run, "object of type '%s' has no len()", jinja_type_name(v->kind));
    }
}

static bool range_contains(const struct jinja_range *r, const struct jinja_value *item) {
    if (item->kind != JINJA_INT && item->kind != JINJA_BOOL) return false;
    int64_t i = (int64_t)jinja_wide_of(item);
    bool is_inside = r->step > 0 ? i >= r->start && i < r->stop : i <= r->start && i > r->stop;
    return is_inside && ((jinja_wide)i - r->start) % r->step == 0;
}

bool jinja_contains(struct jinja_run *run, const struct jinja_value *container,
                    const struct jinja_value *item, bool *found_out) {
    *found_out = false;
    if (container->kind == JINJA_STR) {
        size_t at;
        if (item->kind == JINJA_UNDEFINED || item->kind != JINJA_STR)
            return jinja_fail(run, "'in <string>' requires string as left operand, not %s",
                              jinja_type_name(item->kind));
        *found_out = jinja_text_find(container->as.s, container->len, item->as.s, item->len, &at);
        return jinja_charge_bytes(run, container->len);
    }
    if (container->kind == JINJA_DICT ||
        (container->kind == JINJA_VIEW && container->flag == JINJA_VIEW_KEYS)) {
        const struct jinja_value *found;
        if (!jinja_dict_find(run, container->as.dict, item, &found)) return false;
        *found_out = found != NULL;
        return true;
    }
    if (container->kind == JINJA_RANGE && jinja_is_integer(item)) {
        *found_out = range_contains(container->as.range, item);
        return true;
    }
    if (!jinja_is_iterable(container))
        return jinja_fail(run, "argument of type '%s' is not iterable",
                          jinja_type_name(container->kind));
    struct jinja_iter it;
    struct jinja_value other;
    enum jinja_next next;
    if (!jinja_iter_begin(run, container, &it)) return false;
    while ((next = jinja_iter_next(run, &it, &other)) == JINJA_NEXT_ITEM) {
        if (!jinja_equal(run, item, &other, found_out)) return false;
        if (*found_out) return true;
    }
    return next == JINJA_NEXT_END;
}

/* ---- iterating */

bool jinja_is_iterable(const struct jinja_value *v) {
    switch (v->kind) {
    case JINJA_UNDEFINED:
    case JINJA_STR:
    case JINJA_LIST:
    case JINJA_TUPLE:
    case JINJA_DICT:
    case JINJA_RANGE:
    case JINJA_VIEW:
    case JINJA_ITER: return true;
    default: return false;
    }
}

bool jinja_iter_begin(struct jinja_run *run, const struct jinja_value *v, struct jinja_iter *it) {
    *it = (struct jinja_iter){.of = *v};
    return jinja_is_iterable(v) ||
           jinja_fail(run, "'%s' object is not iterable", jinja_type_name(v->kind));
}

static bool next_of_dict(struct jinja_run *run, struct jinja_iter *it, struct jinja_value *out) {
    const struct jinja_entry *entry = &it->of.as.dict->entries[it->pos++];
    if (it->of.kind == JINJA_DICT || it->of.flag == JINJA_VIEW_KEYS)
        *out = entry->key;
    else if (it->of.flag == JINJA_VIEW_VALUES)
        *out = entry->value;
    else
        return jinja_pair(run, &entry->key, &entry->value, out);
    return true;
}

enum jinja_next jinja_iter_next(struct jinja_run *run, struct jinja_iter *it,
                                struct jinja_value *out) {
    if (!jinja_charge(run, 1)) return JINJA_NEXT_FAILED;
    switch (it->of.kind) {
    case JINJA_LIST:
    case JINJA_TUPLE:
        if (it->pos == it->of.as.list->n) return JINJA_NEXT_END;
        *out = it->of.as.list->items[it->pos++];
        return JINJA_NEXT_ITEM;
    case JINJA_ITER: {
        struct jinja_list_iter *iter = it->of.as.iter;
        if (iter->pos == iter->list.n) return JINJA_NEXT_END;
        *out = iter->list.items[iter->pos++];
        return JINJA_NEXT_ITEM;
    }
    case JINJA_DICT:
    case JINJA_VIEW:
        if (it->pos >= it->of.as.dict->n) return JINJA_NEXT_END;
        return next_of_dict(run, it, out) ? JINJA_NEXT_ITEM : JINJA_NEXT_FAILED;
    case JINJA_STR: {
        uint32_t cp;
        if (it->pos == it->of.len) return JINJA_NEXT_END;
        size_t len = utf8_decode(it->of.as.s + it->pos, it->of.len - it->pos, &cp);
        *out = jinja_str(it->of.as.s + it->pos, len);
        it->pos += len;
        return JINJA_NEXT_ITEM;
    }
    case JINJA_RANGE: {
        const struct jinja_range *r = it->of.as.range;
        if (it->pos == r->n) return JINJA_NEXT_END;
        *out = jinja_int(r->start + (int64_t)it->pos++ * r->step);
        return JINJA_NEXT_ITEM;
    }
    default: return JINJA_NEXT_END;
    }
}

bool jinja_items(struct jinja_run *run, const struct jinja_value *v, struct jinja_list *out) {
    if (v->kind == JINJA_LIST || v->kind == JINJA_TUPLE) {
        *out = *v->as.list;
        return true;
    }
    if (v->kind == JINJA_ITER) {
        struct jinja_list_iter *iter = v->as.iter;
        *out = (struct jinja_list){0};
        if (iter->list.items)
            *out = (struct jinja_list){iter->list.items + iter->pos, iter->list.n - iter->pos};
        iter->pos = iter->list.n;
        return true;
    }
    struct jinja_vec vec = {0};
    struct jinja_iter it;
    struct jinja_value item;
    enum jinja_next next;
    if (!jinja_iter_begin(run, v, &it)) return false;
    while ((next = jinja_iter_next(run, &it, &item)) == JINJA_NEXT_ITEM)
        if (!jinja_vec_push(run, &vec, &item)) return false;
    *out = (struct jinja_list){vec.items, vec.n};
    return next == JINJA_NEXT_END;
}
