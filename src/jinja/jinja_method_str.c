/* jinja_method_str.c - the methods of str.
 *
 * Positions that a template gives or gets are characters; inside, all is bytes. Methods that cut
 * (strip, split, slices) return pieces of the same memory. encode, translate and maketrans are
 * absent: their results (bytes, tables) do not exist here. */
#include "jinja_builtin.h"

#include "base/utf8.h"
#include "jinja_method.h"
#include "jinja_number.h"
#include "jinja_text.h"

#include <string.h>

static bool is_given(const struct jinja_value *v) {
    return v->kind != JINJA_MISSING && v->kind != JINJA_NONE;
}

static struct jinja_value piece(const struct jinja_value *s, size_t from, size_t to) {
    return jinja_str(s->as.s + from, to - from);
}

/* ---- case and classes */

static bool change_case(struct jinja_run *run, const struct jinja_call *call, enum jinja_case how,
                        struct jinja_value *out) {
    struct buf b;
    jinja_buf_init(run, &b);
    jinja_text_case(call->a[0].as.s, call->a[0].len, how, &b);
    return jinja_str_take(run, &b, out);
}

static bool str_case(struct jinja_run *run, const struct jinja_call *call,
                     struct jinja_value *out) {
    switch (call->builtin->name[0]) {
    case 'u': return change_case(run, call, JINJA_CASE_UPPER, out);
    case 's': return change_case(run, call, JINJA_CASE_SWAP, out);
    case 't': return change_case(run, call, JINJA_CASE_TITLE, out);
    case 'l': return change_case(run, call, JINJA_CASE_LOWER, out);
    default:
        return change_case(run, call,
                           call->builtin->name[3] == 'i' ? JINJA_CASE_CAPITALIZE : JINJA_CASE_FOLD,
                           out);
    }
}

static bool str_is(struct jinja_run *run, const struct jinja_call *call, struct jinja_value *out) {
    static const struct {
        const char *name;
        enum jinja_class which;
    } classes[] = {
        {"isspace", JINJA_CLASS_SPACE},         {"isalpha", JINJA_CLASS_ALPHA},
        {"isdigit", JINJA_CLASS_DIGIT},         {"isdecimal", JINJA_CLASS_DECIMAL},
        {"isnumeric", JINJA_CLASS_NUMERIC},     {"isalnum", JINJA_CLASS_ALNUM},
        {"islower", JINJA_CLASS_LOWER},         {"isupper", JINJA_CLASS_UPPER},
        {"istitle", JINJA_CLASS_TITLE},         {"isascii", JINJA_CLASS_ASCII},
        {"isprintable", JINJA_CLASS_PRINTABLE}, {"isidentifier", JINJA_CLASS_IDENTIFIER},
    };
    (void)run;
    size_t i = 0;
    while (strcmp(classes[i].name, call->builtin->name) != 0) i++;
    *out = jinja_bool(jinja_text_is(call->a[0].as.s, call->a[0].len, classes[i].which));
    return true;
}

/* ---- strip */

static bool str_strip(struct jinja_run *run, const struct jinja_call *call,
                      struct jinja_value *out) {
    const struct jinja_value *s = &call->a[0], *chars = &call->a[1];
    char which = call->builtin->name[0];
    unsigned sides = which == 'l'   ? JINJA_STRIP_LEFT
                     : which == 'r' ? JINJA_STRIP_RIGHT
                                    : JINJA_STRIP_LEFT | JINJA_STRIP_RIGHT;
    size_t begin, end;
    if (is_given(chars) && chars->kind != JINJA_STR)
        return jinja_fail(run, "%s arg must be None or str", call->builtin->name);
    if (is_given(chars) && !jinja_charge_search(run, s->len, chars->len)) return false;
    jinja_text_strip(s->as.s, s->len, is_given(chars) ? chars->as.s : NULL, chars->len, sides,
                     &begin, &end);
    *out = piece(s, begin, end);
    return true;
}

static bool str_removefix(struct jinja_run *run, const struct jinja_call *call,
                          struct jinja_value *out) {
    const struct jinja_value *s = &call->a[0], *fix = &call->a[1];
    bool is_prefix = call->builtin->name[6] == 'p';
    if (!jinja_arg_str(run, fix, "removeprefix() and removesuffix() argument")) return false;
    *out = *s;
    if (fix->len > s->len) return true;
    size_t at = is_prefix ? 0 : s->len - fix->len;
    if (memcmp(s->as.s + at, fix->as.s, fix->len) != 0) return true;
    *out = is_prefix ? piece(s, fix->len, s->len) : piece(s, 0, at);
    return true;
}

/* ---- searching, within [start:end) */

/* The part of s that the arguments at `from` and `from + 1` leave; false when it is out of s. */
static bool window(struct jinja_run *run, const struct jinja_call *call, int from,
                   size_t *begin_out, size_t *end_out, bool *is_inside_out) {
    const struct jinja_value *s = &call->a[0];
    int64_t start = 0, stop = INT64_MAX, n;
    *begin_out = 0;
    *end_out = s->len;
    *is_inside_out = true;
    if (!is_given(&call->a[from]) && !is_given(&call->a[from + 1])) return true;
    if ((is_given(&call->a[from]) && !jinja_arg_int(run, &call->a[from], &start)) ||
        (is_given(&call->a[from + 1]) && !jinja_arg_int(run, &call->a[from + 1], &stop)))
        return false;
    n = (int64_t)utf8_count(s->as.s, s->len);
    *is_inside_out = start <= n;
    if (start < 0) start = start + n < 0 ? 0 : start + n;
    if (stop < 0) stop = stop + n < 0 ? 0 : stop + n;
    if (start > n) start = n;
    if (stop > n) stop = n;
    if (stop < start) *is_inside_out = false, stop = start;
    *begin_out = jinja_text_offset(s->as.s, s->len, (size_t)start);
    *end_out = jinja_text_offset(s->as.s, s->len, (size_t)stop);
    return true;
}

static bool has_affix(const struct jinja_value *s, const struct jinja_value *affix,
                      bool is_prefix) {
    if (affix->len > s->len) return false;
    return !memcmp(s->as.s + (is_prefix ? 0 : s->len - affix->len), affix->as.s, affix->len);
}

static bool str_startswith(struct jinja_run *run, const struct jinja_call *call,
                           struct jinja_value *out) {
    bool is_prefix = call->builtin->name[0] == 's', is_inside, is_found = false;
    const struct jinja_value *affix = &call->a[1];
    size_t begin, end;
    if (!window(run, call, 2, &begin, &end, &is_inside)) return false;
    struct jinja_value part = piece(&call->a[0], begin, end);
    if (affix->kind == JINJA_STR) {
        is_found = is_inside && has_affix(&part, affix, is_prefix);
    } else if (affix->kind == JINJA_TUPLE) {
        for (size_t i = 0; i < affix->as.list->n && !is_found; i++) {
            const struct jinja_value *one = &affix->as.list->items[i];
            if (!jinja_arg_str(run, one, "tuple for startswith")) return false;
            is_found = is_inside && has_affix(&part, one, is_prefix);
        }
    } else {
        return jinja_fail(run, "%s first arg must be str or a tuple of str, not %s",
                          call->builtin->name, jinja_type_name(affix->kind));
    }
    *out = jinja_bool(is_found);
    return true;
}

static bool str_find(struct jinja_run *run, const struct jinja_call *call,
                     struct jinja_value *out) {
    const char *name = call->builtin->name;
    bool is_last = name[0] == 'r', must_be = strstr(name, "index") != NULL, is_inside;
    const struct jinja_value *s = &call->a[0], *needle = &call->a[1];
    size_t begin, end, at = 0;
    if (!jinja_arg_str(run, needle, "must be str: the text searched for,") ||
        !window(run, call, 2, &begin, &end, &is_inside))
        return false;
    if (is_last && !jinja_charge_search(run, s->len, needle->len)) return false;
    bool is_found = is_inside && (is_last ? jinja_text_rfind : jinja_text_find)(
                                     s->as.s + begin, end - begin, needle->as.s, needle->len, &at);
    if (!is_found && must_be) return jinja_fail(run, "substring not found");
    *out = jinja_int(is_found ? (int64_t)utf8_count(s->as.s, begin + at) : -1);
    return true;
}

static bool str_count(struct jinja_run *run, const struct jinja_call *call,
                      struct jinja_value *out) {
    const struct jinja_value *s = &call->a[0], *needle = &call->a[1];
    size_t begin, end;
    bool is_inside;
    if (!jinja_arg_str(run, needle, "must be str: the text counted,") ||
        !window(run, call, 2, &begin, &end, &is_inside))
        return false;
    size_t n = jinja_text_count(s->as.s + begin, end - begin, needle->as.s, needle->len);
    *out = jinja_int(is_inside ? (int64_t)n : 0);
    return true;
}

static bool str_replace(struct jinja_run *run, const struct jinja_call *call,
                        struct jinja_value *out) {
    const struct jinja_value *s = &call->a[0], *from = &call->a[1], *to = &call->a[2];
    int64_t count = -1;
    struct buf b;
    if (!jinja_arg_str(run, from, "replace() argument 1") ||
        !jinja_arg_str(run, to, "replace() argument 2") ||
        (call->a[3].kind != JINJA_MISSING && !jinja_arg_int(run, &call->a[3], &count)))
        return false;
    jinja_buf_init(run, &b);
    struct jinja_replacement how = {from->as.s, to->as.s, from->len, to->len, count};
    jinja_text_replace(s->as.s, s->len, &how, &b);
    bool is_paid = jinja_charge_search(run, b.len, 1);
    return jinja_str_take(run, &b, out) && is_paid;
}

/* ---- splitting and joining */

static bool push_piece(struct jinja_run *run, struct jinja_vec *vec, const struct jinja_value *s,
                       size_t from, size_t to) {
    struct jinja_value v = piece(s, from, to);
    return jinja_vec_push(run, vec, &v);
}

static void reverse(struct jinja_vec *vec) {
    for (size_t i = 0, j = vec->n; i + 1 < j; i++) {
        struct jinja_value v = vec->items[i];
        vec->items[i] = vec->items[--j];
        vec->items[j] = v;
    }
}

/* At white space: runs of it are one separator, and ends do not count. */
static bool split_spaces(struct jinja_run *run, const struct jinja_value *s, int64_t most,
                         struct jinja_vec *vec) {
    size_t at = 0, begin, end;
    for (;;) {
        jinja_text_strip(s->as.s + at, s->len - at, NULL, 0, JINJA_STRIP_LEFT, &begin, &end);
        at += begin;
        if (at == s->len) return true;
        if (most >= 0 && (int64_t)vec->n >= most) return push_piece(run, vec, s, at, s->len);
        size_t word = at;
        while (at < s->len) {
            uint32_t cp;
            size_t n = utf8_decode(s->as.s + at, s->len - at, &cp);
            if (jinja_text_is_space(cp)) break;
            at += n;
        }
        if (!push_piece(run, vec, s, word, at)) return false;
    }
}

static bool rsplit_spaces(struct jinja_run *run, const struct jinja_value *s, int64_t most,
                          struct jinja_vec *vec) {
    size_t end = s->len, begin;
    for (;;) {
        jinja_text_strip(s->as.s, end, NULL, 0, JINJA_STRIP_RIGHT, &begin, &end);
        if (end == 0) break;
        if (most >= 0 && (int64_t)vec->n >= most) {
            if (!push_piece(run, vec, s, 0, end)) return false;
            break;
        }
        size_t word = end;
        while (word) {
            uint32_t cp;
            size_t before = jinja_text_before(s->as.s, word);
            utf8_decode(s->as.s + before, word - before, &cp);
            if (jinja_text_is_space(cp)) break;
            word = before;
        }
        if (!push_piece(run, vec, s, word, end)) return false;
        end = word;
    }
    reverse(vec);
    return true;
}

static bool split_at(struct jinja_run *run, const struct jinja_value *s,
                     const struct jinja_value *sep, int64_t most, struct jinja_vec *vec) {
    size_t from = 0, at;
    while ((most < 0 || (int64_t)vec->n < most) &&
           jinja_text_find(s->as.s + from, s->len - from, sep->as.s, sep->len, &at)) {
        if (!push_piece(run, vec, s, from, from + at)) return false;
        from += at + sep->len;
    }
    return push_piece(run, vec, s, from, s->len);
}

static bool rsplit_at(struct jinja_run *run, const struct jinja_value *s,
                      const struct jinja_value *sep, int64_t most, struct jinja_vec *vec) {
    size_t end = s->len, at;
    if (!jinja_charge_search(run, s->len, sep->len)) return false;
    while ((most < 0 || (int64_t)vec->n < most) &&
           jinja_text_rfind(s->as.s, end, sep->as.s, sep->len, &at)) {
        if (!push_piece(run, vec, s, at + sep->len, end)) return false;
        end = at;
    }
    bool is_ok = push_piece(run, vec, s, 0, end);
    reverse(vec);
    return is_ok;
}

static bool str_split(struct jinja_run *run, const struct jinja_call *call,
                      struct jinja_value *out) {
    const struct jinja_value *s = &call->a[0], *sep = &call->a[1];
    bool is_right = call->builtin->name[0] == 'r', is_ok;
    int64_t most = -1;
    struct jinja_vec vec = {0};
    if (call->a[2].kind != JINJA_MISSING && !jinja_arg_int(run, &call->a[2], &most)) return false;
    if (!is_given(sep)) {
        is_ok = (is_right ? rsplit_spaces : split_spaces)(run, s, most, &vec);
    } else {
        if (!jinja_arg_str(run, sep, "the separator")) return false;
        if (!sep->len) return jinja_fail(run, "empty separator");
        is_ok = (is_right ? rsplit_at : split_at)(run, s, sep, most, &vec);
    }
    return is_ok && jinja_list_make(run, JINJA_LIST, vec.items, vec.n, out);
}

static bool str_partition(struct jinja_run *run, const struct jinja_call *call,
                          struct jinja_value *out) {
    const struct jinja_value *s = &call->a[0], *sep = &call->a[1];
    bool is_right = call->builtin->name[0] == 'r';
    size_t at;
    struct jinja_value *items = jinja_alloc(run, 3, sizeof(*items));
    if (!items || !jinja_arg_str(run, sep, "the separator")) return false;
    if (!sep->len) return jinja_fail(run, "empty separator");
    if (is_right && !jinja_charge_search(run, s->len, sep->len)) return false;
    bool is_found =
        (is_right ? jinja_text_rfind : jinja_text_find)(s->as.s, s->len, sep->as.s, sep->len, &at);
    items[0] = items[1] = items[2] = jinja_str("", 0);
    if (is_found) {
        items[0] = piece(s, 0, at);
        items[1] = piece(s, at, at + sep->len);
        items[2] = piece(s, at + sep->len, s->len);
    } else {
        items[is_right ? 2 : 0] = *s;
    }
    return jinja_list_make(run, JINJA_TUPLE, items, 3, out);
}

static bool str_splitlines(struct jinja_run *run, const struct jinja_call *call,
                           struct jinja_value *out) {
    const struct jinja_value *s = &call->a[0];
    int64_t has_ends = 0;
    struct jinja_vec vec = {0};
    if (call->a[1].kind != JINJA_MISSING && !jinja_arg_int(run, &call->a[1], &has_ends))
        return false;
    for (size_t at = 0, next; at < s->len; at += next) {
        size_t len = jinja_text_line(s->as.s + at, s->len - at, &next);
        if (!push_piece(run, &vec, s, at, at + (has_ends ? next : len))) return false;
    }
    return jinja_list_make(run, JINJA_LIST, vec.items, vec.n, out);
}

static bool str_join(struct jinja_run *run, const struct jinja_call *call,
                     struct jinja_value *out) {
    const struct jinja_value *sep = &call->a[0];
    struct jinja_list items;
    struct buf b;
    if (!jinja_is_iterable(&call->a[1])) return jinja_fail(run, "can only join an iterable");
    if (!jinja_items(run, &call->a[1], &items) || !jinja_charge(run, items.n)) return false;
    for (size_t i = 0; i < items.n; i++)
        if (items.items[i].kind != JINJA_STR)
            return jinja_fail(run, "sequence item %zu: expected str instance, %s found", i,
                              jinja_type_name(items.items[i].kind));
    jinja_buf_init(run, &b);
    for (size_t i = 0; i < items.n; i++) {
        if (i) buf_append(&b, sep->as.s, sep->len);
        buf_append(&b, items.items[i].as.s, items.items[i].len);
    }
    return jinja_str_take(run, &b, out);
}

/* ---- padding */

/* A number of columns that is allowed to be made. */
static bool arg_width(struct jinja_run *run, const struct jinja_value *v, int64_t *out) {
    if (!jinja_arg_int(run, v, out)) return false;
    return *out <= (int64_t)(run->limits.memory_bytes_max / 4) || jinja_fail_limit(run, "memory");
}

static bool str_pad(struct jinja_run *run, const struct jinja_call *call, struct jinja_value *out) {
    const struct jinja_value *s = &call->a[0];
    struct jinja_value fill = call->a[2].kind == JINJA_MISSING ? jinja_str(" ", 1) : call->a[2];
    int64_t width, n = (int64_t)utf8_count(s->as.s, s->len), left = 0;
    struct buf b;
    if (!arg_width(run, &call->a[1], &width) || !jinja_arg_str(run, &fill, "fill character"))
        return false;
    if (utf8_count(fill.as.s, fill.len) != 1)
        return jinja_fail(run, "The fill character must be exactly one character long");
    *out = *s;
    int64_t pad = width - n;
    if (pad <= 0) return true;
    char how = call->builtin->name[0];
    if (how == 'r') left = pad;
    if (how == 'c') left = pad / 2 + (pad & width & 1);
    jinja_buf_init(run, &b);
    for (int64_t i = 0; i < left; i++) buf_append(&b, fill.as.s, fill.len);
    buf_append(&b, s->as.s, s->len);
    for (int64_t i = left; i < pad; i++) buf_append(&b, fill.as.s, fill.len);
    return jinja_str_take(run, &b, out);
}

static bool str_zfill(struct jinja_run *run, const struct jinja_call *call,
                      struct jinja_value *out) {
    const struct jinja_value *s = &call->a[0];
    int64_t width, n = (int64_t)utf8_count(s->as.s, s->len);
    struct buf b;
    if (!arg_width(run, &call->a[1], &width)) return false;
    size_t n_sign = s->len && (s->as.s[0] == '-' || s->as.s[0] == '+');
    jinja_buf_init(run, &b);
    buf_append(&b, s->as.s, n_sign);
    for (int64_t i = n; i < width; i++) buf_append_char(&b, '0');
    buf_append(&b, s->as.s + n_sign, s->len - n_sign);
    return jinja_str_take(run, &b, out);
}

static bool str_expandtabs(struct jinja_run *run, const struct jinja_call *call,
                           struct jinja_value *out) {
    const struct jinja_value *s = &call->a[0];
    int64_t size = 8, column = 0;
    struct buf b;
    if (call->a[1].kind != JINJA_MISSING && !arg_width(run, &call->a[1], &size)) return false;
    jinja_buf_init(run, &b);
    for (size_t i = 0; i < s->len && !b.failed; i++) {
        char c = s->as.s[i];
        if (c != '\t') {
            buf_append_char(&b, c);
            if (((unsigned char)c & 0xC0) != 0x80) column++;
            if (c == '\n' || c == '\r') column = 0;
            continue;
        }
        int64_t pad = size > 0 ? size - column % size : 0;
        column += pad;
        while (pad-- > 0) buf_append_char(&b, ' ');
    }
    return jinja_str_take(run, &b, out);
}

/* ---- formatting */

static bool str_format(struct jinja_run *run, const struct jinja_call *call,
                       struct jinja_value *out) {
    struct jinja_args rest = *call->args;
    struct jinja_value self = call->args->values[0];
    rest.values++;
    rest.n--;
    return jinja_str_format(run, &self, &rest, out);
}

static bool str_format_map(struct jinja_run *run, const struct jinja_call *call,
                           struct jinja_value *out) {
    const struct jinja_value *map = &call->a[1];
    /* What is no mapping is found out only when a field asks it. */
    size_t n = map->kind == JINJA_DICT ? map->as.dict->n : 0;
    struct jinja_kwarg *kwargs = jinja_alloc(run, n + 1, sizeof(*kwargs));
    if (!kwargs) return false;
    for (size_t i = 0; i < n; i++)
        kwargs[i] =
            (struct jinja_kwarg){map->as.dict->entries[i].key, map->as.dict->entries[i].value};
    struct jinja_args args = {NULL, 0, kwargs, n};
    return jinja_str_format(run, &call->a[0], &args, out);
}

const struct jinja_builtin jinja_str_methods[] = {
    {"strip", str_strip, 1, 2, ""},
    {"lstrip", str_strip, 1, 2, ""},
    {"rstrip", str_strip, 1, 2, ""},
    {"split", str_split, 1, 3, "\n,sep,maxsplit"},
    {"rsplit", str_split, 1, 3, "\n,sep,maxsplit"},
    {"startswith", str_startswith, 2, 4, ""},
    {"endswith", str_startswith, 2, 4, ""},
    {"replace", str_replace, 3, 4, ""},
    {"lower", str_case, 1, 1, ""},
    {"upper", str_case, 1, 1, ""},
    {"title", str_case, 1, 1, ""},
    {"capitalize", str_case, 1, 1, ""},
    {"casefold", str_case, 1, 1, ""},
    {"swapcase", str_case, 1, 1, ""},
    {"join", str_join, 2, 2, ""},
    {"find", str_find, 2, 4, ""},
    {"rfind", str_find, 2, 4, ""},
    {"index", str_find, 2, 4, ""},
    {"rindex", str_find, 2, 4, ""},
    {"count", str_count, 2, 4, ""},
    {"splitlines", str_splitlines, 1, 2, "\n,keepends"},
    {"partition", str_partition, 2, 2, ""},
    {"rpartition", str_partition, 2, 2, ""},
    {"removeprefix", str_removefix, 2, 2, ""},
    {"removesuffix", str_removefix, 2, 2, ""},
    {"format", str_format, 1, -1, NULL},
    {"format_map", str_format_map, 2, 2, ""},
    {"center", str_pad, 2, 3, ""},
    {"ljust", str_pad, 2, 3, ""},
    {"rjust", str_pad, 2, 3, ""},
    {"zfill", str_zfill, 2, 2, ""},
    {"expandtabs", str_expandtabs, 1, 2, "\n,tabsize"},
    {"isspace", str_is, 1, 1, ""},
    {"isalpha", str_is, 1, 1, ""},
    {"isdigit", str_is, 1, 1, ""},
    {"isdecimal", str_is, 1, 1, ""},
    {"isnumeric", str_is, 1, 1, ""},
    {"isalnum", str_is, 1, 1, ""},
    {"islower", str_is, 1, 1, ""},
    {"isupper", str_is, 1, 1, ""},
    {"istitle", str_is, 1, 1, ""},
    {"isascii", str_is, 1, 1, ""},
    {"isprintable", str_is, 1, 1, ""},
    {"isidentifier", str_is, 1, 1, ""},
};
const size_t jinja_n_str_methods = sizeof(jinja_str_methods) / sizeof(jinja_str_methods[0]);
