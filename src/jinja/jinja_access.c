/* jinja_access.c - obj.name, obj[key], obj[a:b], and calling.
 *
 * The two accesses differ as in Jinja: obj.name asks for an attribute (a method) first and then for
 * an item, obj['name'] the other way round; so `tool.items` is the method even where the dict has a
 * key of that name. What is absent is undefined, not an error; what the sandbox forbids (methods
 * that would change a list or dict, names that begin with an underscore) is an undefined that says
 * so when it is used. Methods are rows of tables, so nothing else of Python can be reached. */
#include "jinja_builtin.h"
#include "jinja_loop.h"

#include "base/utf8.h"
#include "jinja_markup.h"
#include "jinja_number.h"
#include "jinja_text.h"

#include <string.h>

/* ---- attributes */

static bool bind_method(struct jinja_run *run, const struct jinja_value *obj,
                        const struct jinja_builtin *builtin, struct jinja_value *out) {
    struct jinja_method *method = jinja_alloc(run, 1, sizeof(*method));
    if (!method) return false;
    *method = (struct jinja_method){*obj, builtin};
    *out = (struct jinja_value){.kind = JINJA_METHOD, .as.method = method};
    return true;
}

static bool get_loop_count(struct jinja_run *run, struct jinja_loop *loop, const char *name,
                           struct jinja_value *out) {
    size_t n = 0;
    if (!jinja_loop_length(run, loop, &n)) return false;
    int64_t length = (int64_t)n;
    if (!strcmp(name, "revindex0")) length -= loop->index0 + 1;
    if (!strcmp(name, "revindex")) length -= loop->index0;
    *out = jinja_int(length);
    return true;
}

/* *out stays MISSING when the loop has no such attribute. */
static bool get_of_loop(struct jinja_run *run, struct jinja_loop *loop,
                        const struct jinja_value *name, struct jinja_value *out) {
    static const char *const names[] = {"index",    "index0",   "first",     "last",
                                        "length",   "revindex", "revindex0", "previtem",
                                        "nextitem", "depth",    "depth0"};
    size_t which = 0;
    while (which < 11 && !jinja_is_str(name, names[which], strlen(names[which]))) which++;
    switch (which) {
    case 0: *out = jinja_int(loop->index0 + 1); return true;
    case 1: *out = jinja_int(loop->index0); return true;
    case 2: *out = jinja_bool(loop->index0 == 0); return true;
    case 3:
        if (!jinja_loop_peek(run, loop, out)) return false;
        *out = jinja_bool(out->kind == JINJA_MISSING);
        return true;
    case 4:
    case 5:
    case 6: return get_loop_count(run, loop, names[which], out);
    case 7:
        *out = loop->index0 > 0 ? loop->before : jinja_undefined_hint("there is no previous item");
        return true;
    case 8:
        if (!jinja_loop_peek(run, loop, out)) return false;
        if (out->kind == JINJA_MISSING) *out = jinja_undefined_hint("there is no next item");
        return true;
    case 9: *out = jinja_int(loop->depth0 + 1); return true;
    case 10: *out = jinja_int(loop->depth0); return true;
    default: return true;
    }
}

static bool get_of_macro(struct jinja_run *run, const struct jinja_macro *macro,
                         const struct jinja_value *name, struct jinja_value *out) {
    const struct jinja_macro_node *node = macro->node;
    if (jinja_is_str(name, "name", 4))
        *out = jinja_macro_name(macro);
    else if (jinja_is_str(name, "caller", 6))
        *out = jinja_bool(node->has_caller);
    else if (jinja_is_str(name, "catch_kwargs", 12))
        *out = jinja_bool(node->has_kwargs);
    else if (jinja_is_str(name, "catch_varargs", 13))
        *out = jinja_bool(node->has_varargs);
    else if (jinja_is_str(name, "arguments", 9)) {
        struct jinja_vec names = {0};
        for (uint32_t i = 0; i < node->n_params; i++)
            if (!jinja_vec_push(run, &names, &node->params[i]->as.name.name->text)) return false;
        return jinja_list_make(run, JINJA_TUPLE, names.items, names.n, out);
    }
    return true;
}

static void get_of_number(const struct jinja_value *v, const struct jinja_value *name,
                          struct jinja_value *out) {
    bool is_whole = jinja_is_integer(v);
    struct jinja_value self = v->kind == JINJA_BOOL ? jinja_int(v->as.b) : *v;
    if (jinja_is_str(name, "real", 4) || (is_whole && jinja_is_str(name, "numerator", 9)))
        *out = self;
    else if (jinja_is_str(name, "imag", 4))
        *out = is_whole ? jinja_int(0) : jinja_float(0);
    else if (is_whole && jinja_is_str(name, "denominator", 11))
        *out = jinja_int(1);
}

/* An attribute in Python's sense, or MISSING. */
static bool find_attribute(struct jinja_run *run, const struct jinja_value *obj,
                           const struct jinja_value *name, struct jinja_value *out) {
    *out = (struct jinja_value){.kind = JINJA_MISSING};
    const struct jinja_value *found;
    const struct jinja_builtin *method;
    switch (obj->kind) {
    case JINJA_NAMESPACE:
        found = jinja_dict_find_str(obj->as.dict, name->as.s, name->len);
        if (found) *out = *found;
        return true;
    case JINJA_LOOP:
        if (!get_of_loop(run, obj->as.loop, name, out)) return false;
        break;
    case JINJA_MACRO: return get_of_macro(run, obj->as.macro, name, out);
    case JINJA_BOOL:
    case JINJA_INT:
    case JINJA_BIG:
    case JINJA_FLOAT: get_of_number(obj, name, out); break;
    case JINJA_TUPLE:
        if (!obj->flag) break; /* else: a group of groupby */
        if (jinja_is_str(name, "grouper", 7)) *out = obj->as.list->items[0];
        if (jinja_is_str(name, "list", 4)) *out = obj->as.list->items[1];
        break;
    case JINJA_CYCLER:
        if (jinja_is_str(name, "current", 7))
            *out = obj->as.cycler->items.items[obj->as.cycler->pos];
        break;
    default: break;
    }
    if (out->kind != JINJA_MISSING) return true;
    method = jinja_method_find(obj->kind, name->as.s, name->len);
    return !method || bind_method(run, obj, method, out);
}

/* What Python's Undefined really has: the sandbox forbids it, where anything else is an error. */
static bool is_of_undefined(const struct jinja_value *name) {
    static const char names[] =
        " __add__ __bool__ __call__ __class__ __complex__ __contains__ __delattr__ __dir__ __div__ "
        "__doc__ __eq__ __float__ __floordiv__ __format__ __ge__ __getattr__ __getattribute__ "
        "__getitem__ __getstate__ __gt__ __hash__ __init__ __init_subclass__ __int__ __iter__ "
        "__le__ __len__ __lt__ __mod__ __module__ __mul__ __ne__ __neg__ __new__ __pos__ __pow__ "
        "__radd__ __rdiv__ __reduce__ __reduce_ex__ __repr__ __rfloordiv__ __rmod__ __rmul__ "
        "__rpow__ __rsub__ __rtruediv__ __setattr__ __sizeof__ __slots__ __str__ __sub__ "
        "__subclasshook__ __truediv__ _fail_with_undefined_error _undefined_exception "
        "_undefined_hint _undefined_message _undefined_name _undefined_obj ";
    size_t at, len = sizeof(names) - 1;
    for (size_t from = 1; name->len && from + name->len < len; from += at + 1) {
        if (!jinja_text_find(names + from, len - from, name->as.s, name->len, &at)) return false;
        from += at;
        if (names[from - 1] == ' ' && names[from + name->len] == ' ') return true;
        at = 0;
    }
    return false;
}

/* An attribute, or an undefined that says that the sandbox forbids it, or MISSING. */
bool jinja_find_attribute(struct jinja_run *run, const struct jinja_value *obj,
                          const struct jinja_value *name, struct jinja_value *out) {
    if (obj->kind == JINJA_UNDEFINED) {
        if (!is_of_undefined(name)) return jinja_fail_undefined(run, obj);
        *out = jinja_undefined_attribute(obj, name);
        out->flag = JINJA_WHY_UNSAFE;
        return true;
    }
    if (!find_attribute(run, obj, name, out)) return false;
    bool is_private = name->len && name->as.s[0] == '_' && out->kind != JINJA_MISSING;
    if (!is_private && !jinja_method_is_unsafe(obj->kind, name->as.s, name->len)) return true;
    *out = jinja_undefined_attribute(obj, name);
    out->flag = JINJA_WHY_UNSAFE;
    return true;
}

static bool is_hashable(const struct jinja_value *v, unsigned depth) {
    if (v->kind == JINJA_LIST || v->kind == JINJA_DICT || depth > 20) return false;
    for (size_t i = 0; v->kind == JINJA_TUPLE && i < v->as.list->n; i++)
        if (!is_hashable(&v->as.list->items[i], depth + 1)) return false;
    return true;
}

/* Character idx of a text, found from its nearer end by sign; MISSING when there is none. */
static bool get_char(struct jinja_run *run, const struct jinja_value *obj, jinja_wide idx,
                     struct jinja_value *out) {
    const char *s = obj->as.s;
    size_t from = 0, len = obj->len;
    if (idx >= (jinja_wide)len || -idx > (jinja_wide)len) return true;
    if (idx >= 0) {
        from = jinja_text_offset(s, len, (size_t)idx);
        if (from == len) return jinja_charge_bytes(run, len);
    } else {
        for (from = len; idx < 0; idx++) {
            if (!from) return jinja_charge_bytes(run, len);
            from = jinja_text_before(s, from);
        }
    }
    *out = jinja_str(s + from, jinja_text_offset(s + from, len - from, 1));
    return jinja_charge_bytes(run, idx >= 0 ? from : len - from);
}

static bool get_at(struct jinja_run *run, const struct jinja_value *obj, jinja_wide idx,
                   struct jinja_value *out) {
    size_t n;
    if (obj->kind == JINJA_STR) return get_char(run, obj, idx, out);
    if (!jinja_length(run, obj, &n)) return false;
    if (idx < 0) idx += (jinja_wide)n;
    if (idx < 0 || idx >= (jinja_wide)n) return true; /* stays MISSING */
    if (obj->kind == JINJA_RANGE)
        *out = jinja_int(obj->as.range->start + (int64_t)idx * obj->as.range->step);
    else
        *out = obj->as.list->items[(size_t)idx];
    return true;
}

static void find_block(const struct jinja_template *t, const struct jinja_value *name,
                       struct jinja_value *out) {
    for (size_t i = 0; i < t->n_blocks; i++)
        if (jinja_is_str(&t->blocks[i]->name->text, name->as.s, name->len))
            *out = (struct jinja_value){.kind = JINJA_BLOCK, .as.block = t->blocks[i]};
}

/* An item, or MISSING where Python would raise a TypeError or LookupError. */
static bool find_item(struct jinja_run *run, const struct jinja_value *obj,
                      const struct jinja_value *key, struct jinja_value *out) {
    const struct jinja_value *found;
    *out = (struct jinja_value){.kind = JINJA_MISSING};
    switch (obj->kind) {
    case JINJA_UNDEFINED: return jinja_fail_undefined(run, obj);
    case JINJA_DICT:
        if (!is_hashable(key, 0)) return true;
        if (!jinja_dict_find(run, obj->as.dict, key, &found)) return false;
        if (found) *out = *found;
        return true;
    case JINJA_STR:
    case JINJA_LIST:
    case JINJA_TUPLE:
    case JINJA_RANGE:
        if (!jinja_is_integer(key)) return true;
        if (!get_at(run, obj, jinja_wide_of(key), out)) return false;
        if (obj->kind == JINJA_STR && out->kind == JINJA_STR) out->flag = obj->flag;
        return true;
    case JINJA_SELF:
        if (key->kind == JINJA_STR) find_block(run->t, key, out);
        return jinja_charge(run, run->t->n_blocks);
    default: return true;
    }
}

bool jinja_get_attribute(struct jinja_run *run, const struct jinja_value *obj,
                         const struct jinja_value *name, struct jinja_value *out) {
    if (!jinja_find_attribute(run, obj, name, out)) return false;
    if (out->kind != JINJA_MISSING) return true;
    if (!find_item(run, obj, name, out)) return false;
    if (out->kind == JINJA_MISSING) *out = jinja_undefined_attribute(obj, name);
    return true;
}

bool jinja_get_item(struct jinja_run *run, const struct jinja_value *obj,
                    const struct jinja_value *key, struct jinja_value *out) {
    struct jinja_value k = *key;
    if (!find_item(run, obj, &k, out)) return false;
    if (out->kind == JINJA_MISSING && k.kind == JINJA_STR &&
        !jinja_find_attribute(run, obj, &k, out))
        return false;
    if (out->kind == JINJA_MISSING) *out = jinja_undefined_attribute(obj, &k);
    return true;
}

/* ---- slices */

static bool slice_part(struct jinja_run *run, const struct jinja_value *v, jinja_wide otherwise,
                       jinja_wide *out) {
    *out = otherwise;
    if (v->kind == JINJA_MISSING || v->kind == JINJA_NONE) return true;
    if (!jinja_is_integer(v))
        return jinja_fail(run,
                          "slice indices must be integers or None or have an __index__ method");
    *out = jinja_wide_of(v);
    return true;
}

static jinja_wide clamp(jinja_wide idx, jinja_wide n, jinja_wide low, jinja_wide high) {
    if (idx < 0) idx += n;
    if (idx < low) return low;
    return idx > high ? high : idx;
}

static bool slice_text(struct jinja_run *run, const struct jinja_value *obj, jinja_wide start,
                       jinja_wide step, size_t count, struct jinja_value *out) {
    const char *s = obj->as.s;
    if (!count) {
        *out = jinja_str("", 0);
        return true;
    }
    if (step == 1) {
        size_t from = jinja_text_offset(s, obj->len, (size_t)start);
        *out = jinja_str(s + from, jinja_text_offset(s + from, obj->len - from, count));
        return jinja_charge_bytes(run, from + out->len);
    }
    /* Walk from one picked character to the next, in either direction. */
    struct buf b;
    jinja_buf_init(run, &b);
    size_t at = jinja_text_offset(s, obj->len, (size_t)start);
    for (size_t i = 0; i < count; i++) {
        buf_append(&b, s + at, jinja_text_offset(s + at, obj->len - at, 1));
        if (i + 1 == count) break;
        if (step > 0) at += jinja_text_offset(s + at, obj->len - at, (size_t)step);
        for (jinja_wide back = step; back < 0; back++) at = jinja_text_before(s, at);
    }
    return jinja_str_take(run, &b, out) && jinja_charge_bytes(run, obj->len);
}

static bool slice_list(struct jinja_run *run, const struct jinja_value *obj, jinja_wide start,
                       jinja_wide step, size_t count, struct jinja_value *out) {
    const struct jinja_value *items = obj->as.list->items;
    enum jinja_kind kind = (enum jinja_kind)obj->kind;
    if (!count) return jinja_list_make(run, kind, NULL, 0, out);
    if (step == 1) return jinja_list_make(run, kind, items + start, count, out);
    struct jinja_value *copy = jinja_alloc(run, count, sizeof(*copy));
    if (!copy || !jinja_charge(run, count)) return false;
    for (size_t i = 0; i < count; i++) copy[i] = items[start + (jinja_wide)i * step];
    return jinja_list_make(run, kind, copy, count, out);
}

static bool slice_range(struct jinja_run *run, const struct jinja_range *r, jinja_wide start,
                        jinja_wide step, size_t count, struct jinja_value *out) {
    struct jinja_range *slice = jinja_alloc(run, 1, sizeof(*slice));
    if (!slice) return false;
    jinja_wide first = r->start + start * r->step, stride = r->step * step;
    jinja_wide stop = first + (jinja_wide)count * stride;
    if (stride > INT64_MAX || stride < INT64_MIN || stop > INT64_MAX || stop < INT64_MIN)
        return jinja_fail_limit(run, "size of integers");
    *slice = (struct jinja_range){(int64_t)first, (int64_t)stop, (int64_t)stride, count};
    *out = (struct jinja_value){.kind = JINJA_RANGE, .as.range = slice};
    return true;
}

bool jinja_get_slice(struct jinja_run *run, const struct jinja_value *obj,
                     const struct jinja_slice *slice, struct jinja_value *out) {
    jinja_wide start, stop, step;
    size_t n = 0;
    if (obj->kind == JINJA_UNDEFINED) return jinja_fail_undefined(run, obj);
    if (obj->kind == JINJA_DICT) return jinja_fail(run, "unhashable type: 'slice'");
    if (obj->kind != JINJA_STR && obj->kind != JINJA_LIST && obj->kind != JINJA_TUPLE &&
        obj->kind != JINJA_RANGE)
        return jinja_fail(run, "'%s' object is not subscriptable", jinja_type_name(obj->kind));
    if (!jinja_length(run, obj, &n) || !slice_part(run, &slice->step, 1, &step)) return false;
    if (step == 0) return jinja_fail(run, "slice step cannot be zero");
    jinja_wide size = (jinja_wide)n, low = step > 0 ? 0 : -1, high = step > 0 ? size : size - 1;
    if (!slice_part(run, &slice->start, step > 0 ? 0 : size - 1, &start) ||
        !slice_part(run, &slice->stop, step > 0 ? size : -1 - size, &stop))
        return false;
    start = clamp(start, size, low, high);
    stop = clamp(stop, size, low, high);
    if (step > size) step = size + 1;
    if (step < -size) step = -size - 1;
    jinja_wide span = step > 0 ? stop - start : start - stop, stride = step > 0 ? step : -step;
    size_t count = span > 0 ? (size_t)((span + stride - 1) / stride) : 0;
    if (obj->kind == JINJA_STR) {
        if (!slice_text(run, obj, start, step, count, out)) return false;
        out->flag = obj->flag;
        return true;
    }
    if (obj->kind == JINJA_RANGE) return slice_range(run, obj->as.range, start, step, count, out);
    return slice_list(run, obj, start, step, count, out);
}

/* ---- calling */

static bool bind_keyword(struct jinja_run *run, const struct jinja_builtin *builtin,
                         const struct jinja_kwarg *kwarg, struct jinja_value *a) {
    const char *param = builtin->params;
    for (int i = 0; param && *param; i++) {
        size_t len = strcspn(param, ",");
        if (jinja_is_str(&kwarg->name, param, len)) {
            if (a[i].kind != JINJA_MISSING)
                return jinja_fail(run, "%s() got multiple values for argument '%.*s'",
                                  builtin->name, (int)len, param);
            a[i] = kwarg->value;
            return true;
        }
        param += len + (param[len] == ',');
    }
    return jinja_fail(run, "%s() got an unexpected keyword argument '%.*s'", builtin->name,
                      kwarg->name.len > 80 ? 80 : (int)kwarg->name.len, kwarg->name.as.s);
}

bool jinja_invoke_plain(struct jinja_run *run, const struct jinja_builtin *builtin,
                        const struct jinja_args *args, struct jinja_value *out) {
    struct jinja_value a[JINJA_PARAMS_MAX] = {{0}};
    struct jinja_call call = {a, args, builtin};
    /* Whatever it does with texts, it walks them about once: paid here, for all builtins. */
    for (size_t i = 0; i < args->n; i++)
        if (args->values[i].kind == JINJA_STR && !jinja_charge_search(run, args->values[i].len, 1))
            return false;
    if (builtin->n_params >= 0) {
        if (args->n > (size_t)builtin->n_params)
            return jinja_fail(run, "%s() takes at most %d arguments (%zu given)", builtin->name,
                              builtin->n_params, args->n);
        for (size_t i = 0; i < args->n; i++) a[i] = args->values[i];
        for (size_t i = 0; i < args->n_kwargs; i++)
            if (!bind_keyword(run, builtin, &args->kwargs[i], a)) return false;
        for (int i = 0; i < builtin->n_required; i++)
            if (a[i].kind == JINJA_MISSING)
                return jinja_fail(run, "%s() is missing a required argument", builtin->name);
    }
    if (!jinja_enter(run)) return false;
    bool is_ok = builtin->fn(run, &call, out) && run->status == RADISH_OK;
    jinja_leave(run);
    return is_ok;
}

bool jinja_invoke(struct jinja_run *run, const struct jinja_builtin *builtin,
                  const struct jinja_args *args, struct jinja_value *out) {
    return (jinja_is_markup_method(builtin, args) ? jinja_markup_method
                                                  : jinja_invoke_plain)(run, builtin, args, out);
}

static bool call_method(struct jinja_run *run, const struct jinja_method *method,
                        const struct jinja_args *args, struct jinja_value *out) {
    struct jinja_value *values = jinja_alloc(run, args->n + 1, sizeof(*values));
    if (!values) return false;
    values[0] = method->self;
    if (args->n) memcpy(values + 1, args->values, args->n * sizeof(*values));
    struct jinja_args bound = {values, args->n + 1, args->kwargs, args->n_kwargs};
    return jinja_invoke(run, method->builtin, &bound, out);
}

static bool call_joiner(struct jinja_cycler *joiner, struct jinja_value *out) {
    *out = joiner->pos ? joiner->items.items[0] : jinja_str("", 0);
    joiner->pos = 1;
    return true;
}

bool jinja_is_callable(const struct jinja_value *v) {
    return v->kind == JINJA_MACRO || v->kind == JINJA_BUILTIN || v->kind == JINJA_METHOD ||
           v->kind == JINJA_LOOP || v->kind == JINJA_JOINER || v->kind == JINJA_BLOCK ||
           v->kind == JINJA_UNDEFINED;
}

bool jinja_call_value(struct jinja_run *run, const struct jinja_value *callee,
                      const struct jinja_args *args, struct jinja_value *out) {
    switch (callee->kind) {
    case JINJA_MACRO: return jinja_macro_call(run, callee->as.macro, args, out);
    case JINJA_BUILTIN: return jinja_invoke(run, callee->as.builtin, args, out);
    case JINJA_METHOD: return call_method(run, callee->as.method, args, out);
    case JINJA_LOOP: return jinja_loop_call(run, callee->as.loop, args, out);
    case JINJA_JOINER: return call_joiner(callee->as.cycler, out);
    case JINJA_BLOCK: return jinja_block_call(run, callee->as.block, args, out);
    case JINJA_UNDEFINED: return jinja_fail_undefined(run, callee);
    default: return jinja_fail(run, "'%s' object is not callable", jinja_type_name(callee->kind));
    }
}

const struct jinja_builtin *jinja_table_find(const struct jinja_builtin *table, size_t n,
                                             const char *name, size_t len) {
    for (size_t i = 0; i < n; i++)
        if (len && table[i].name[0] == name[0] && strlen(table[i].name) == len &&
            !memcmp(table[i].name, name, len)) /* a template's name may hold a NUL */
            return &table[i];
    return NULL;
}

bool jinja_arg_int(struct jinja_run *run, const struct jinja_value *v, int64_t *out) {
    if (v->kind == JINJA_UNDEFINED) return jinja_fail_undefined(run, v);
    if (v->kind == JINJA_BIG) return jinja_fail_limit(run, "size of integers");
    if (!jinja_is_integer(v))
        return jinja_fail(run, "'%s' object cannot be interpreted as an integer",
                          jinja_type_name(v->kind));
    *out = (int64_t)jinja_wide_of(v);
    return true;
}

bool jinja_arg_str(struct jinja_run *run, const struct jinja_value *v, const char *what) {
    if (v->kind == JINJA_STR) return true;
    return jinja_fail(run, "%s must be str, not %s", what, jinja_type_name(v->kind));
}
