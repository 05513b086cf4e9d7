/* jinja_filter_seq.c - filters that work on sequences and mappings.
 *
 * select, map, items and their kin are generators in Jinja: true even when empty, without length or
 * index, used up by the first walk. Their values here are built at once but behave so (JINJA_ITER).
 * An attribute is a path: "a.b.0" asks for item a, then b, then 0. Sorting ignores the case of
 * texts unless told otherwise. */
#include "jinja_builtin.h"

#include "jinja_number.h"
#include "jinja_text.h"

#include <string.h>

/* ---- attributes of items */

static bool is_number_part(const char *s, size_t len) {
    for (size_t i = 0; i < len; i++)
        if (s[i] < '0' || s[i] > '9') return false;
    return len > 0 && len < 18;
}

static bool lower_text(struct jinja_run *run, const struct jinja_value *v,
                       struct jinja_value *out) {
    struct buf b;
    *out = *v;
    if (v->kind != JINJA_STR) return true;
    jinja_buf_init(run, &b);
    jinja_text_case(v->as.s, v->len, JINJA_CASE_LOWER, &b);
    return jinja_str_take(run, &b, out);
}

struct getter {
    struct jinja_value path; /* MISSING or NONE: the item itself */
    struct jinja_value fallback;
    bool is_caseless;
};

static bool get_step(struct jinja_run *run, const struct getter *getter,
                     const struct jinja_value *key, struct jinja_value *item) {
    struct jinja_value next;
    if (!jinja_get_item(run, item, key, &next)) return false;
    bool has_fallback =
        getter->fallback.kind != JINJA_MISSING && getter->fallback.kind != JINJA_NONE;
    *item = has_fallback && next.kind == JINJA_UNDEFINED ? getter->fallback : next;
    return true;
}

static bool get_path(struct jinja_run *run, const struct getter *getter,
                     const struct jinja_value *from, struct jinja_value *out) {
    const struct jinja_value *path = &getter->path;
    *out = *from;
    if (path->kind == JINJA_STR) {
        for (size_t at = 0; at <= path->len;) {
            const char *s = path->as.s + at;
            const char *dot = memchr(s, '.', path->len - at);
            size_t len = dot ? (size_t)(dot - s) : path->len - at;
            struct jinja_value key = jinja_str(s, len);
            jinja_wide wide;
            if (is_number_part(s, len) && jinja_parse_wide(s, len, 10, &wide))
                key = jinja_int((int64_t)wide);
            if (!get_step(run, getter, &key, out)) return false;
            at += len + 1;
        }
    } else if (path->kind != JINJA_MISSING && path->kind != JINJA_NONE) {
        if (!get_step(run, getter, path, out)) return false;
    }
    return !getter->is_caseless || lower_text(run, out, out);
}

/* The key of each item: what sort, unique, min and the like compare. */
static bool get_keys(struct jinja_run *run, const struct getter *getter,
                     const struct jinja_list *items, struct jinja_value **keys_out) {
    struct jinja_value *keys = jinja_alloc(run, items->n + 1, sizeof(*keys));
    *keys_out = keys;
    if (!keys) return false;
    for (size_t i = 0; i < items->n; i++)
        if (!get_path(run, getter, &items->items[i], &keys[i])) return false;
    return true;
}

/* The same for sort, which takes several attributes ("a,b"): its keys are lists, even of one. Equal
 * keys of a type without order may stand in a list that is sorted, so this can be told apart. */
static bool get_list_keys(struct jinja_run *run, const struct getter *getter,
                          const struct jinja_list *items, struct jinja_value **keys_out) {
    const struct jinja_value *path = &getter->path;
    size_t path_len = path->kind == JINJA_STR ? path->len : 0;
    struct jinja_value *keys = jinja_alloc(run, items->n + 1, sizeof(*keys));
    *keys_out = keys;
    for (size_t i = 0; keys && i < items->n; i++) {
        struct jinja_vec parts = {0};
        struct jinja_value part;
        for (size_t at = 0, len; at <= path_len; at += len + 1) {
            const char *text = path_len ? path->as.s + at : "";
            const char *comma = memchr(text, ',', path_len - at);
            struct getter one = *getter;
            len = comma ? (size_t)(comma - text) : path_len - at;
            if (path->kind == JINJA_STR) one.path = jinja_str(text, len);
            if (!get_path(run, &one, &items->items[i], &part) ||
                !jinja_vec_push(run, &parts, &part))
                return false;
        }
        if (!jinja_list_make(run, JINJA_LIST, parts.items, parts.n, &keys[i])) return false;
    }
    return keys != NULL;
}

/* ---- plain ones */

static bool filter_length(struct jinja_run *run, const struct jinja_call *call,
                          struct jinja_value *out) {
    size_t n;
    if (!jinja_length(run, &call->a[0], &n)) return false;
    *out = jinja_int((int64_t)n);
    return true;
}

static bool filter_default(struct jinja_run *run, const struct jinja_call *call,
                           struct jinja_value *out) {
    (void)run;
    bool is_replaced = call->a[0].kind == JINJA_UNDEFINED ||
                       (jinja_truth(&call->a[2]) && !jinja_truth(&call->a[0]));
    *out = call->a[0];
    if (is_replaced) *out = call->a[1].kind == JINJA_MISSING ? jinja_str("", 0) : call->a[1];
    return true;
}

static bool filter_list(struct jinja_run *run, const struct jinja_call *call,
                        struct jinja_value *out) {
    struct jinja_list items;
    return jinja_items(run, &call->a[0], &items) &&
           jinja_list_make(run, JINJA_LIST, items.items, items.n, out);
}

static bool filter_first(struct jinja_run *run, const struct jinja_call *call,
                         struct jinja_value *out) {
    struct jinja_iter it;
    if (!jinja_iter_begin(run, &call->a[0], &it)) return false;
    enum jinja_next next = jinja_iter_next(run, &it, out);
    if (next == JINJA_NEXT_END) *out = jinja_undefined_hint("No first item, sequence was empty.");
    return next != JINJA_NEXT_FAILED;
}

static bool filter_last(struct jinja_run *run, const struct jinja_call *call,
                        struct jinja_value *out) {
    const struct jinja_value *v = &call->a[0];
    struct jinja_value last = jinja_int(-1);
    struct jinja_list items;
    if (v->kind == JINJA_ITER || !jinja_is_iterable(v))
        return jinja_fail(run, "'%s' object is not reversible", jinja_type_name(v->kind));
    if (!jinja_truth(v)) {
        *out = jinja_undefined_hint("No last item, sequence was empty.");
        return true;
    }
    if (v->kind != JINJA_DICT && v->kind != JINJA_VIEW) return jinja_get_item(run, v, &last, out);
    if (!jinja_items(run, v, &items)) return false;
    *out = items.items[items.n - 1];
    return true;
}

static bool filter_reverse(struct jinja_run *run, const struct jinja_call *call,
                           struct jinja_value *out) {
    const struct jinja_value *v = &call->a[0];
    struct jinja_slice back = {{0}, {0}, jinja_int(-1)};
    struct jinja_list items;
    if (v->kind == JINJA_STR) return jinja_get_slice(run, v, &back, out);
    if (!jinja_is_iterable(v)) return jinja_fail(run, "argument must be iterable");
    if (!jinja_items(run, v, &items)) return false;
    struct jinja_value *reversed = jinja_alloc(run, items.n + 1, sizeof(*reversed));
    if (!reversed || !jinja_charge(run, items.n)) return false;
    for (size_t i = 0; i < items.n; i++) reversed[i] = items.items[items.n - 1 - i];
    if (v->kind == JINJA_ITER) return jinja_list_make(run, JINJA_LIST, reversed, items.n, out);
    struct jinja_list list = {reversed, items.n};
    return jinja_iter_make(run, &list, "reversed", out);
}

static bool filter_items(struct jinja_run *run, const struct jinja_call *call,
                         struct jinja_value *out) {
    struct jinja_value v = call->a[0];
    struct jinja_list items = {0};
    if (v.kind == JINJA_DICT) {
        v.kind = JINJA_VIEW;
        v.flag = JINJA_VIEW_ITEMS;
        if (!jinja_items(run, &v, &items)) return false;
    } else if (v.kind != JINJA_UNDEFINED) {
        return jinja_fail(run, "Can only get item pairs from a mapping.");
    }
    return jinja_iter_make(run, &items, "generator", out);
}

static bool filter_attr(struct jinja_run *run, const struct jinja_call *call,
                        struct jinja_value *out) {
    if (!jinja_arg_str(run, &call->a[1], "attribute name") ||
        !jinja_find_attribute(run, &call->a[0], &call->a[1], out))
        return false;
    if (out->kind == JINJA_MISSING) *out = jinja_undefined_attribute(&call->a[0], &call->a[1]);
    return true;
}

static bool filter_join(struct jinja_run *run, const struct jinja_call *call,
                        struct jinja_value *out) {
    struct getter getter = {.path = call->a[2]};
    struct jinja_value separator = jinja_str("", 0), item;
    struct jinja_iter it;
    struct buf b;
    enum jinja_next next = JINJA_NEXT_END;
    bool is_first = true, is_ok = true;
    if (call->a[1].kind != JINJA_MISSING && !jinja_to_str(run, &call->a[1], &separator))
        return false;
    if (!jinja_iter_begin(run, &call->a[0], &it)) return false;
    jinja_buf_init(run, &b);
    while (is_ok && (next = jinja_iter_next(run, &it, &item)) == JINJA_NEXT_ITEM) {
        is_ok = get_path(run, &getter, &item, &item) && !b.failed;
        if (!is_first) buf_append(&b, separator.as.s, separator.len);
        if (is_ok) jinja_write_str(run, &item, &b);
        is_first = false;
    }
    if (is_ok && next == JINJA_NEXT_END) return jinja_str_take(run, &b, out);
    if (b.failed) jinja_fail_limit(run, "memory");
    buf_deinit(&b);
    return false;
}

/* ---- sorting and grouping */

/* sorted(reverse=...) wants an integer. */
static bool arg_reverse(struct jinja_run *run, const struct jinja_value *v, bool *out) {
    int64_t n = 0;
    if (v->kind != JINJA_MISSING && !jinja_arg_int(run, v, &n)) return false;
    *out = n != 0;
    return true;
}

static bool filter_sort(struct jinja_run *run, const struct jinja_call *call,
                        struct jinja_value *out) {
    struct getter getter = {.path = call->a[3], .is_caseless = !jinja_truth(&call->a[2])};
    struct jinja_list items;
    struct jinja_value *keys;
    bool is_reverse;
    if (!jinja_items(run, &call->a[0], &items) || !arg_reverse(run, &call->a[1], &is_reverse))
        return false;
    uint32_t *order = jinja_alloc(run, items.n + 1, sizeof(*order));
    struct jinja_value *sorted = jinja_alloc(run, items.n + 1, sizeof(*sorted));
    if (!order || !sorted || !get_list_keys(run, &getter, &items, &keys) ||
        !jinja_sort(run, keys, items.n, is_reverse, order))
        return false;
    for (size_t i = 0; i < items.n; i++) sorted[i] = items.items[order[i]];
    return jinja_list_make(run, JINJA_LIST, sorted, items.n, out);
}

static bool filter_dictsort(struct jinja_run *run, const struct jinja_call *call,
                            struct jinja_value *out) {
    const struct jinja_value *v = &call->a[0], *by = &call->a[2];
    bool is_by_value = jinja_is_str(by, "value", 5), is_caseless = !jinja_truth(&call->a[1]);
    bool is_reverse;
    if (v->kind == JINJA_UNDEFINED) return jinja_fail_undefined(run, v);
    if (v->kind != JINJA_DICT)
        return jinja_fail(run, "'%s' object has no attribute 'items'", jinja_type_name(v->kind));
    if (!is_by_value && by->kind != JINJA_MISSING && !jinja_is_str(by, "key", 3))
        return jinja_fail(run, "You can only sort by either \"key\" or \"value\"");
    size_t n = v->as.dict->n;
    const struct jinja_entry *entries = v->as.dict->entries;
    struct jinja_value *keys = jinja_alloc(run, n + 1, sizeof(*keys));
    struct jinja_value *sorted = jinja_alloc(run, n + 1, sizeof(*sorted));
    uint32_t *order = jinja_alloc(run, n + 1, sizeof(*order));
    if (!keys || !sorted || !order) return false;
    for (size_t i = 0; i < n; i++) {
        keys[i] = is_by_value ? entries[i].value : entries[i].key;
        if (is_caseless && !lower_text(run, &keys[i], &keys[i])) return false;
    }
    if (!arg_reverse(run, &call->a[3], &is_reverse) || !jinja_sort(run, keys, n, is_reverse, order))
        return false;
    for (size_t i = 0; i < n; i++)
        if (!jinja_pair(run, &entries[order[i]].key, &entries[order[i]].value, &sorted[i]))
            return false;
    return jinja_list_make(run, JINJA_LIST, sorted, n, out);
}

static bool filter_unique(struct jinja_run *run, const struct jinja_call *call,
                          struct jinja_value *out) {
    struct getter getter = {.path = call->a[2], .is_caseless = !jinja_truth(&call->a[1])};
    struct jinja_dict *seen = jinja_dict_make(run, 0);
    struct jinja_vec kept = {0};
    struct jinja_list items;
    struct jinja_value *keys;
    if (!seen || !jinja_items(run, &call->a[0], &items) || !get_keys(run, &getter, &items, &keys))
        return false;
    for (size_t i = 0; i < items.n; i++) {
        uint32_t n_before = seen->n;
        if (!jinja_dict_set(run, seen, &keys[i], &keys[i])) return false;
        if (seen->n > n_before && !jinja_vec_push(run, &kept, &items.items[i])) return false;
    }
    struct jinja_list list = {kept.items, kept.n};
    return jinja_iter_make(run, &list, "generator", out);
}

static bool pick_extreme(struct jinja_run *run, const struct jinja_call *call, int wanted,
                         struct jinja_value *out) {
    struct getter getter = {.path = call->a[2], .is_caseless = !jinja_truth(&call->a[1])};
    struct jinja_list items;
    struct jinja_value *keys;
    size_t best = 0;
    if (!jinja_items(run, &call->a[0], &items) || !get_keys(run, &getter, &items, &keys))
        return false;
    for (size_t i = 1; i < items.n; i++) {
        int order;
        if (!jinja_order(run, &keys[i], &keys[best], wanted < 0 ? "<" : ">", &order)) return false;
        if (order == wanted) best = i;
    }
    *out = items.n ? items.items[best]
                   : jinja_undefined_hint("No aggregated item, sequence was empty.");
    return true;
}

static bool filter_min(struct jinja_run *run, const struct jinja_call *call,
                       struct jinja_value *out) {
    return pick_extreme(run, call, -1, out);
}

static bool filter_max(struct jinja_run *run, const struct jinja_call *call,
                       struct jinja_value *out) {
    return pick_extreme(run, call, 1, out);
}

static bool filter_sum(struct jinja_run *run, const struct jinja_call *call,
                       struct jinja_value *out) {
    struct getter getter = {.path = call->a[1]};
    struct jinja_value item, total = call->a[2].kind == JINJA_MISSING ? jinja_int(0) : call->a[2];
    struct jinja_iter it;
    enum jinja_next next;
    if (total.kind == JINJA_STR)
        return jinja_fail(run, "sum() can't sum strings [use ''.join(seq) instead]");
    if (!jinja_iter_begin(run, &call->a[0], &it)) return false;
    while ((next = jinja_iter_next(run, &it, &item)) == JINJA_NEXT_ITEM)
        if (!get_path(run, &getter, &item, &item) ||
            !jinja_binary(run, JINJA_OP_ADD, &total, &item, &total))
            return false;
    *out = total;
    return next == JINJA_NEXT_END;
}

/* One (grouper, list) of groupby, which also answers to these names. */
static bool make_group(struct jinja_run *run, const struct jinja_value *key,
                       const struct jinja_value *items, size_t n, struct jinja_vec *groups) {
    struct jinja_value list, group;
    if (!jinja_list_make(run, JINJA_LIST, items, n, &list) || !jinja_pair(run, key, &list, &group))
        return false;
    group.flag = 1;
    return jinja_vec_push(run, groups, &group);
}

static bool filter_groupby(struct jinja_run *run, const struct jinja_call *call,
                           struct jinja_value *out) {
    struct getter getter = {call->a[1], call->a[2], !jinja_truth(&call->a[3])};
    struct getter shown = {call->a[1], call->a[2], false};
    struct jinja_list items;
    struct jinja_value *keys, key;
    struct jinja_vec groups = {0};
    if (!jinja_items(run, &call->a[0], &items) || !get_keys(run, &getter, &items, &keys))
        return false;
    uint32_t *order = jinja_alloc(run, items.n + 1, sizeof(*order));
    struct jinja_value *sorted = jinja_alloc(run, items.n + 1, sizeof(*sorted));
    if (!order || !sorted || !jinja_sort(run, keys, items.n, false, order)) return false;
    for (size_t i = 0; i < items.n; i++) sorted[i] = items.items[order[i]];
    for (size_t from = 0, to; from < items.n; from = to) {
        bool is_same = true;
        for (to = from; is_same && to < items.n; to += is_same)
            if (!jinja_equal(run, &keys[order[from]], &keys[order[to]], &is_same)) return false;
        if (!get_path(run, &shown, &sorted[from], &key) ||
            !make_group(run, &key, sorted + from, to - from, &groups))
            return false;
    }
    return jinja_list_make(run, JINJA_LIST, groups.items, groups.n, out);
}

static bool filter_slice(struct jinja_run *run, const struct jinja_call *call,
                         struct jinja_value *out) {
    struct jinja_list items;
    struct jinja_vec slices = {0};
    struct jinja_value slice;
    int64_t n_slices;
    bool has_fill = call->a[2].kind != JINJA_MISSING && call->a[2].kind != JINJA_NONE;
    if (!jinja_items(run, &call->a[0], &items) || !jinja_arg_int(run, &call->a[1], &n_slices))
        return false;
    if (n_slices == 0) return jinja_fail(run, "integer division or modulo by zero");
    size_t count = n_slices > 0 ? (size_t)n_slices : 0;
    size_t each = count ? items.n / count : 0, n_longer = count ? items.n % count : 0, at = 0;
    for (size_t i = 0; i < count; i++) {
        size_t n = each + (i < n_longer);
        struct jinja_value *copy = jinja_alloc(run, n + 1, sizeof(*copy));
        if (!copy) return false;
        if (n) memcpy(copy, items.items + at, n * sizeof(*copy));
        at += n;
        if (has_fill && i >= n_longer) copy[n++] = call->a[2];
        if (!jinja_list_make(run, JINJA_LIST, copy, n, &slice) ||
            !jinja_vec_push(run, &slices, &slice))
            return false;
    }
    struct jinja_list list = {slices.items, slices.n};
    return jinja_iter_make(run, &list, "generator", out);
}

static bool filter_batch(struct jinja_run *run, const struct jinja_call *call,
                         struct jinja_value *out) {
    struct jinja_list items;
    struct jinja_vec batches = {0};
    struct jinja_value batch;
    int64_t size;
    bool has_fill = call->a[2].kind != JINJA_MISSING && call->a[2].kind != JINJA_NONE;
    if (!jinja_items(run, &call->a[0], &items) || !jinja_arg_int(run, &call->a[1], &size))
        return false;
    if (size < 1) size = items.n ? (int64_t)items.n : 1; /* Python never cuts then */
    for (size_t at = 0; at < items.n; at += (size_t)size) {
        size_t n = items.n - at < (size_t)size ? items.n - at : (size_t)size;
        struct jinja_vec copy = {0};
        for (size_t i = 0; i < n; i++)
            if (!jinja_vec_push(run, &copy, &items.items[at + i])) return false;
        while (has_fill && copy.n < (size_t)size)
            if (!jinja_vec_push(run, &copy, &call->a[2])) return false;
        if (!jinja_list_make(run, JINJA_LIST, copy.items, copy.n, &batch) ||
            !jinja_vec_push(run, &batches, &batch))
            return false;
    }
    struct jinja_list list = {batches.items, batches.n};
    return jinja_iter_make(run, &list, "generator", out);
}

/* ---- select and map */

/* Applies a filter or test named by a value to item, with the remaining arguments. */
static bool apply_named(struct jinja_run *run, const struct jinja_builtin *builtin,
                        const struct jinja_value *item, const struct jinja_args *rest,
                        struct jinja_value *out) {
    struct jinja_value values[JINJA_PARAMS_MAX];
    if (rest->n + 1 > JINJA_PARAMS_MAX) return jinja_fail(run, "too many arguments");
    values[0] = *item;
    if (rest->n) memcpy(values + 1, rest->values, rest->n * sizeof(*values));
    struct jinja_args args = {values, rest->n + 1, rest->kwargs, rest->n_kwargs};
    return jinja_invoke(run, builtin, &args, out);
}

static const struct jinja_builtin *find_named(struct jinja_run *run, const struct jinja_value *name,
                                              bool is_filter) {
    const struct jinja_builtin *found = NULL;
    if (name->kind == JINJA_STR)
        found = is_filter ? jinja_filter_find(name->as.s, name->len)
                          : jinja_test_find(name->as.s, name->len);
    if (!found)
        jinja_fail(run, "No %s named '%.*s'.", is_filter ? "filter" : "test",
                   name->kind != JINJA_STR ? 0
                   : name->len > 80        ? 80
                                           : (int)name->len,
                   name->kind == JINJA_STR ? name->as.s : "");
    return found;
}

struct selection {
    bool by_attribute, is_reject;
};

static bool select_items(struct jinja_run *run, const struct jinja_call *call, struct selection how,
                         struct jinja_value *out) {
    const struct jinja_args *args = call->args;
    const struct jinja_builtin *test = NULL;
    struct getter getter = {0};
    struct jinja_args rest = {0};
    struct jinja_vec kept = {0};
    struct jinja_list items;
    struct jinja_value v;
    size_t used = 1u + how.by_attribute;
    if (args->n < 1)
        return jinja_fail(run, "%s() is missing a required argument", call->builtin->name);
    if (!jinja_truth(&args->values[0]))
        return jinja_iter_make(run, &(struct jinja_list){0}, "generator", out);
    if (how.by_attribute) {
        if (args->n < 2) return jinja_fail(run, "Missing parameter for attribute name");
        getter.path = args->values[1];
    }
    if (args->n > used) {
        test = find_named(run, &args->values[used], /*is_filter=*/false);
        if (!test) return false;
        rest = (struct jinja_args){args->values + used + 1, args->n - used - 1, args->kwargs,
                                   args->n_kwargs};
    }
    if (!jinja_items(run, &args->values[0], &items)) return false;
    for (size_t i = 0; i < items.n; i++) {
        if (!get_path(run, &getter, &items.items[i], &v) ||
            (test && !apply_named(run, test, &v, &rest, &v)))
            return false;
        if (jinja_truth(&v) != how.is_reject && !jinja_vec_push(run, &kept, &items.items[i]))
            return false;
    }
    struct jinja_list list = {kept.items, kept.n};
    return jinja_iter_make(run, &list, "generator", out);
}

static bool filter_select(struct jinja_run *run, const struct jinja_call *call,
                          struct jinja_value *out) {
    return select_items(run, call, (struct selection){false, false}, out);
}

static bool filter_reject(struct jinja_run *run, const struct jinja_call *call,
                          struct jinja_value *out) {
    return select_items(run, call, (struct selection){false, true}, out);
}

static bool filter_selectattr(struct jinja_run *run, const struct jinja_call *call,
                              struct jinja_value *out) {
    return select_items(run, call, (struct selection){true, false}, out);
}

static bool filter_rejectattr(struct jinja_run *run, const struct jinja_call *call,
                              struct jinja_value *out) {
    return select_items(run, call, (struct selection){true, true}, out);
}

static bool map_getter(struct jinja_run *run, const struct jinja_args *args,
                       struct getter *getter) {
    for (size_t i = 0; i < args->n_kwargs; i++) {
        const struct jinja_kwarg *kwarg = &args->kwargs[i];
        if (jinja_is_str(&kwarg->name, "attribute", 9))
            getter->path = kwarg->value;
        else if (jinja_is_str(&kwarg->name, "default", 7))
            getter->fallback = kwarg->value;
        else
            return jinja_fail(run, "Unexpected keyword argument in map");
    }
    return getter->path.kind != JINJA_MISSING || jinja_fail(run, "map requires a filter argument");
}

static bool filter_map(struct jinja_run *run, const struct jinja_call *call,
                       struct jinja_value *out) {
    const struct jinja_args *args = call->args;
    const struct jinja_builtin *filter = NULL;
    struct getter getter = {0};
    struct jinja_args rest = {0};
    struct jinja_vec mapped = {0};
    struct jinja_list items;
    struct jinja_value v;
    if (args->n < 1) return jinja_fail(run, "map() is missing a required argument");
    if (!jinja_truth(&args->values[0]))
        return jinja_iter_make(run, &(struct jinja_list){0}, "generator", out);
    if (args->n > 1) {
        filter = find_named(run, &args->values[1], /*is_filter=*/true);
        if (!filter) return false;
        rest = (struct jinja_args){args->values + 2, args->n - 2, args->kwargs, args->n_kwargs};
    } else if (!map_getter(run, args, &getter)) {
        return false;
    }
    if (!jinja_items(run, &args->values[0], &items)) return false;
    for (size_t i = 0; i < items.n; i++) {
        bool is_ok = filter ? apply_named(run, filter, &items.items[i], &rest, &v)
                            : get_path(run, &getter, &items.items[i], &v);
        if (!is_ok || !jinja_vec_push(run, &mapped, &v)) return false;
    }
    struct jinja_list list = {mapped.items, mapped.n};
    return jinja_iter_make(run, &list, "generator", out);
}

const struct jinja_builtin jinja_filters_sequence[] = {
    {"attr", filter_attr, 2, 2, "obj,name"},
    {"batch", filter_batch, 2, 3, "value,linecount,fill_with"},
    {"count", filter_length, 1, 1, "obj"},
    {"d", filter_default, 1, 3, "value,default_value,boolean"},
    {"default", filter_default, 1, 3, "value,default_value,boolean"},
    {"dictsort", filter_dictsort, 1, 4, "value,case_sensitive,by,reverse"},
    {"first", filter_first, 1, 1, "seq"},
    {"groupby", filter_groupby, 2, 4, "value,attribute,default,case_sensitive"},
    {"items", filter_items, 1, 1, "value"},
    {"join", filter_join, 1, 3, "value,d,attribute"},
    {"last", filter_last, 1, 1, "seq"},
    {"length", filter_length, 1, 1, "obj"},
    {"list", filter_list, 1, 1, "value"},
    {"map", filter_map, 1, -1, NULL},
    {"max", filter_max, 1, 3, "value,case_sensitive,attribute"},
    {"min", filter_min, 1, 3, "value,case_sensitive,attribute"},
    {"reject", filter_reject, 1, -1, NULL},
    {"rejectattr", filter_rejectattr, 1, -1, NULL},
    {"reverse", filter_reverse, 1, 1, "value"},
    {"select", filter_select, 1, -1, NULL},
    {"selectattr", filter_selectattr, 1, -1, NULL},
    {"slice", filter_slice, 2, 3, "value,slices,fill_with"},
    {"sort", filter_sort, 1, 4, "value,reverse,case_sensitive,attribute"},
    {"sum", filter_sum, 1, 3, "iterable,attribute,start"},
    {"unique", filter_unique, 1, 3, "value,case_sensitive,attribute"},
};
const size_t jinja_n_filters_sequence =
    sizeof(jinja_filters_sequence) / sizeof(jinja_filters_sequence[0]);

const struct jinja_builtin *jinja_filter_find(const char *name, size_t len) {
    const struct jinja_builtin *found =
        jinja_table_find(jinja_filters_text, jinja_n_filters_text, name, len);
    return found ? found
                 : jinja_table_find(jinja_filters_sequence, jinja_n_filters_sequence, name, len);
}
