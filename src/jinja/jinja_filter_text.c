/* jinja_filter_text.c - filters that work on texts and numbers, with the signatures of Jinja's.
 *
 * Each converts its input as Jinja's does: most take str(value) of anything, a few (indent) insist
 * on a text. Where a filter fails in Python, it fails here with the same kind of message. One fails
 * always: random. The same chat must give the same prompt, or no prefix of it could be found again.
 */
#include "jinja_builtin.h"

#include "base/utf8.h"
#include "jinja_markup.h"
#include "jinja_number.h"
#include "jinja_text.h"

#include <math.h>
#include <string.h>

static bool is_given(const struct jinja_value *v) {
    return v->kind != JINJA_MISSING && v->kind != JINJA_NONE;
}

static bool change_case(struct jinja_run *run, const struct jinja_value *v, enum jinja_case how,
                        struct jinja_value *out) {
    struct jinja_value s;
    struct buf b;
    if (!jinja_to_str(run, v, &s)) return false;
    jinja_buf_init(run, &b);
    jinja_text_case(s.as.s, s.len, how, &b);
    if (!jinja_str_take(run, &b, out)) return false;
    out->flag = s.flag;
    return true;
}

static bool filter_upper(struct jinja_run *run, const struct jinja_call *call,
                         struct jinja_value *out) {
    return change_case(run, &call->a[0], JINJA_CASE_UPPER, out);
}

static bool filter_lower(struct jinja_run *run, const struct jinja_call *call,
                         struct jinja_value *out) {
    return change_case(run, &call->a[0], JINJA_CASE_LOWER, out);
}

static bool filter_capitalize(struct jinja_run *run, const struct jinja_call *call,
                              struct jinja_value *out) {
    return change_case(run, &call->a[0], JINJA_CASE_CAPITALIZE, out);
}

/* Words begin after white space, '-', or an opening bracket: other words than str.title()'s. */
static bool filter_title(struct jinja_run *run, const struct jinja_call *call,
                         struct jinja_value *out) {
    struct jinja_value s;
    struct buf b;
    size_t from = 0, n;
    if (!jinja_to_str(run, &call->a[0], &s)) return false;
    jinja_buf_init(run, &b);
    for (size_t i = 0; i <= s.len; i += n) {
        uint32_t cp = ' ';
        n = i < s.len ? utf8_decode(s.as.s + i, s.len - i, &cp) : 1;
        if (!jinja_text_is_space(cp) && !(cp < 0x80 && cp && strchr("-({[<", (int)cp))) continue;
        size_t first = jinja_text_offset(s.as.s + from, i - from, 1);
        jinja_text_case(s.as.s + from, first, JINJA_CASE_UPPER, &b);
        jinja_text_case(s.as.s + from + first, i - from - first, JINJA_CASE_LOWER, &b);
        if (i < s.len) buf_append(&b, s.as.s + i, n);
        from = i + n;
    }
    return jinja_str_take(run, &b, out);
}

static bool filter_string(struct jinja_run *run, const struct jinja_call *call,
                          struct jinja_value *out) {
    return jinja_to_str(run, &call->a[0], out);
}

static bool filter_safe(struct jinja_run *run, const struct jinja_call *call,
                        struct jinja_value *out) {
    if (!jinja_to_str(run, &call->a[0], out)) return false;
    out->flag = 1;
    return true;
}

static bool filter_escape(struct jinja_run *run, const struct jinja_call *call,
                          struct jinja_value *out) {
    return jinja_escape(run, &call->a[0], out);
}

static bool filter_forceescape(struct jinja_run *run, const struct jinja_call *call,
                               struct jinja_value *out) {
    struct jinja_value plain;
    if (!jinja_to_str(run, &call->a[0], &plain)) return false;
    plain.flag = 0;
    return jinja_escape(run, &plain, out);
}

static bool filter_trim(struct jinja_run *run, const struct jinja_call *call,
                        struct jinja_value *out) {
    const struct jinja_value *chars = &call->a[1];
    struct jinja_value s;
    size_t begin, end;
    if (!jinja_to_str(run, &call->a[0], &s)) return false;
    if (is_given(chars) && chars->kind != JINJA_STR)
        return jinja_fail(run, "strip arg must be None or str");
    if (is_given(chars) && !jinja_charge_search(run, s.len, chars->len)) return false;
    jinja_text_strip(s.as.s, s.len, is_given(chars) ? chars->as.s : NULL, chars->len,
                     JINJA_STRIP_LEFT | JINJA_STRIP_RIGHT, &begin, &end);
    *out = jinja_str(s.as.s + begin, end - begin);
    out->flag = s.flag;
    return true;
}

static bool filter_replace(struct jinja_run *run, const struct jinja_call *call,
                           struct jinja_value *out) {
    struct jinja_value s, from, to;
    int64_t count = -1;
    struct buf b;
    if (!jinja_to_str(run, &call->a[0], &s) || !jinja_to_str(run, &call->a[1], &from) ||
        !jinja_to_str(run, &call->a[2], &to) ||
        (is_given(&call->a[3]) && !jinja_arg_int(run, &call->a[3], &count)))
        return false;
    jinja_buf_init(run, &b);
    struct jinja_replacement how = {from.as.s, to.as.s, from.len, to.len, count};
    jinja_text_replace(s.as.s, s.len, &how, &b);
    bool is_paid = jinja_charge_search(run, b.len, 1);
    return jinja_str_take(run, &b, out) && is_paid;
}

/* ---- indent */

static void indent_lines(const struct jinja_value *s, const struct jinja_value *indent, bool first,
                         bool blank, struct buf *b) {
    size_t next = 0;
    bool is_first = true;
    /* Jinja appends a line end, so that a text that ends in one keeps an empty last line. */
    for (size_t at = 0; at < s->len || is_first || next; at += next) {
        size_t len = jinja_text_line(s->as.s + at, s->len - at, &next);
        bool is_indented = is_first ? first : (len || blank);
        if (!is_first) buf_append_char(b, '\n');
        if (is_indented) buf_append(b, indent->as.s, indent->len);
        buf_append(b, s->as.s + at, len);
        is_first = false;
        /* Without a line end this was the last line. */
        if (len == next || b->failed) return;
    }
}

static bool filter_indent(struct jinja_run *run, const struct jinja_call *call,
                          struct jinja_value *out) {
    const struct jinja_value *s = &call->a[0], *width = &call->a[1];
    struct jinja_value indent = jinja_str("    ", 4), four = jinja_int(4);
    struct buf b;
    if (s->kind == JINJA_UNDEFINED) return jinja_fail_undefined(run, s);
    if (s->kind != JINJA_STR)
        return jinja_fail(run, "unsupported operand type(s) for +=: '%s' and 'str'",
                          jinja_type_name(s->kind));
    if (width->kind == JINJA_MISSING) width = &four;
    if (width->kind == JINJA_STR) {
        indent = *width;
    } else {
        struct jinja_value space = jinja_str(" ", 1);
        if (!jinja_binary(run, JINJA_OP_MUL, &space, width, &indent)) return false;
    }
    jinja_buf_init(run, &b);
    indent_lines(s, &indent, jinja_truth(&call->a[2]), jinja_truth(&call->a[3]), &b);
    if (!jinja_str_take(run, &b, out)) return false;
    out->flag = s->flag;
    return true;
}

/* ---- other texts */

static bool filter_center(struct jinja_run *run, const struct jinja_call *call,
                          struct jinja_value *out) {
    struct jinja_value s, args[2];
    int64_t width = 80;
    if (!jinja_to_str(run, &call->a[0], &s)) return false;
    if (call->a[1].kind != JINJA_MISSING && !jinja_arg_int(run, &call->a[1], &width)) return false;
    args[0] = s;
    args[1] = jinja_int(width);
    struct jinja_args bound = {args, 2, NULL, 0};
    return jinja_invoke(run, jinja_method_find(JINJA_STR, "center", 6), &bound, out);
}

static bool filter_format(struct jinja_run *run, const struct jinja_call *call,
                          struct jinja_value *out) {
    const struct jinja_args *args = call->args;
    struct jinja_value s, values;
    if (args->n < 1) return jinja_fail(run, "format() is missing a required argument");
    if (!jinja_to_str(run, &args->values[0], &s)) return false;
    if (args->n > 1 && args->n_kwargs)
        return jinja_fail(run, "can't handle positional and keyword arguments at the same time");
    if (!args->n_kwargs) {
        if (!jinja_list_make(run, JINJA_TUPLE, args->values + 1, args->n - 1, &values))
            return false;
        return jinja_percent_format(run, &s, &values, out);
    }
    struct jinja_dict *dict = jinja_dict_make(run, args->n_kwargs);
    for (size_t i = 0; dict && i < args->n_kwargs; i++)
        if (!jinja_dict_set(run, dict, &args->kwargs[i].name, &args->kwargs[i].value)) return false;
    values = (struct jinja_value){.kind = JINJA_DICT, .as.dict = dict};
    return dict && jinja_percent_format(run, &s, &values, out);
}

static bool truncate(struct jinja_run *run, const struct jinja_value *s, size_t keep, bool is_kill,
                     const struct jinja_value *end, struct jinja_value *out) {
    struct jinja_value head = jinja_str(s->as.s, jinja_text_offset(s->as.s, s->len, keep));
    size_t at;
    if (!is_kill && jinja_text_rfind(head.as.s, head.len, " ", 1, &at)) head.len = (uint32_t)at;
    head.flag = s->flag;
    return jinja_binary(run, JINJA_OP_ADD, &head, end, out);
}

static bool filter_truncate(struct jinja_run *run, const struct jinja_call *call,
                            struct jinja_value *out) {
    const struct jinja_value *s = &call->a[0];
    struct jinja_value end = jinja_str("...", 3);
    int64_t length = 255, leeway = 5;
    size_t n;
    if (!jinja_length(run, s, &n)) return false;
    if (call->a[1].kind != JINJA_MISSING && !jinja_arg_int(run, &call->a[1], &length)) return false;
    if (call->a[3].kind != JINJA_MISSING) end = call->a[3];
    if (!jinja_arg_str(run, &end, "truncate: end")) return false;
    if (is_given(&call->a[4]) && !jinja_arg_int(run, &call->a[4], &leeway)) return false;
    int64_t end_chars = (int64_t)utf8_count(end.as.s, end.len);
    if (length < end_chars || leeway < 0)
        return jinja_fail(run, "expected length >= %lld, got %lld", (long long)end_chars,
                          (long long)length);
    *out = *s;
    if (n <= (uint64_t)length + (uint64_t)leeway) return true;
    if (!jinja_arg_str(run, s, "truncate: the value")) return false;
    return truncate(run, s, (size_t)(length - end_chars), jinja_truth(&call->a[2]), &end, out);
}

static bool filter_wordcount(struct jinja_run *run, const struct jinja_call *call,
                             struct jinja_value *out) {
    struct jinja_value s;
    int64_t n_words = 0;
    bool was_word = false;
    if (!jinja_to_str(run, &call->a[0], &s)) return false;
    for (size_t i = 0; i < s.len;) {
        uint32_t cp;
        i += utf8_decode(s.as.s + i, s.len - i, &cp);
        bool is_word = jinja_text_is_word(cp);
        n_words += is_word && !was_word;
        was_word = is_word;
    }
    *out = jinja_int(n_words);
    return true;
}

static bool quote_url(struct jinja_run *run, const struct jinja_value *v, bool is_query,
                      struct buf *b) {
    struct jinja_value s;
    if (!jinja_to_str(run, v, &s)) return false;
    for (size_t i = 0; i < s.len; i++) {
        unsigned char c = (unsigned char)s.as.s[i];
        bool is_plain = (c >= '0' && c <= '9') || (c >= 'A' && c <= 'Z') ||
                        (c >= 'a' && c <= 'z') || (c && strchr("_.-~", c)) ||
                        (c == '/' && !is_query);
        if (is_plain)
            buf_append_char(b, (char)c);
        else if (c == ' ' && is_query)
            buf_append_char(b, '+');
        else
            buf_printf(b, "%%%02X", c);
    }
    return true;
}

static bool filter_urlencode(struct jinja_run *run, const struct jinja_call *call,
                             struct jinja_value *out) {
    struct jinja_value v = call->a[0], item;
    struct jinja_iter it;
    struct jinja_list pair;
    struct buf b;
    bool is_ok = true;
    jinja_buf_init(run, &b);
    if (v.kind == JINJA_STR || !jinja_is_iterable(&v)) {
        is_ok = quote_url(run, &v, false, &b);
    } else {
        if (v.kind == JINJA_DICT) v.kind = JINJA_VIEW, v.flag = JINJA_VIEW_ITEMS;
        is_ok = jinja_iter_begin(run, &v, &it);
        enum jinja_next next = JINJA_NEXT_END;
        while (is_ok && (next = jinja_iter_next(run, &it, &item)) == JINJA_NEXT_ITEM) {
            is_ok = jinja_items(run, &item, &pair) &&
                    (pair.n == 2 || jinja_fail(run, "urlencode wants pairs"));
            if (is_ok && b.len) buf_append_char(&b, '&');
            is_ok = is_ok && quote_url(run, &pair.items[0], true, &b);
            buf_append_char(&b, '=');
            is_ok = is_ok && quote_url(run, &pair.items[1], true, &b);
        }
        is_ok = is_ok && next == JINJA_NEXT_END;
    }
    if (is_ok) return jinja_str_take(run, &b, out);
    buf_deinit(&b);
    return false;
}

/* ---- JSON */

static bool json_indent(struct jinja_run *run, const struct jinja_value *v,
                        struct jinja_json_style *style) {
    struct jinja_value space = jinja_str(" ", 1);
    if (!is_given(v)) return true;
    style->has_indent = true;
    style->item_separator = jinja_str(",", 1);
    style->indent = *v;
    return v->kind == JINJA_STR || jinja_binary(run, JINJA_OP_MUL, &space, v, &style->indent);
}

static bool json_separators(struct jinja_run *run, const struct jinja_value *v,
                            struct jinja_json_style *style) {
    struct jinja_list pair;
    if (!is_given(v)) return true;
    if (!jinja_items(run, v, &pair)) return false;
    if (pair.n != 2) return jinja_fail(run, "separators must be a pair");
    style->item_separator = pair.items[0];
    style->key_separator = pair.items[1];
    return jinja_arg_str(run, &pair.items[0], "separator") &&
           jinja_arg_str(run, &pair.items[1], "separator");
}

static bool filter_tojson(struct jinja_run *run, const struct jinja_call *call,
                          struct jinja_value *out) {
    struct jinja_json_style style = {.item_separator = jinja_str(", ", 2),
                                     .key_separator = jinja_str(": ", 2),
                                     .ensure_ascii = jinja_truth(&call->a[1]),
                                     .sort_keys = jinja_truth(&call->a[4])};
    struct buf b;
    if (!json_indent(run, &call->a[2], &style) || !json_separators(run, &call->a[3], &style))
        return false;
    jinja_buf_init(run, &b);
    if (jinja_to_json(run, &call->a[0], &style, &b)) return jinja_str_take(run, &b, out);
    buf_deinit(&b);
    return false;
}

/* ---- numbers */

static bool filter_abs(struct jinja_run *run, const struct jinja_call *call,
                       struct jinja_value *out) {
    const struct jinja_value *v = &call->a[0];
    struct jinja_value zero = jinja_int(0);
    if (v->kind == JINJA_UNDEFINED) return jinja_fail_undefined(run, v);
    if (!jinja_is_number(v))
        return jinja_fail(run, "bad operand type for abs(): '%s'", jinja_type_name(v->kind));
    *out = v->kind == JINJA_BOOL ? jinja_int(v->as.b) : *v;
    if (v->kind == JINJA_FLOAT)
        out->as.f = fabs(v->as.f);
    else if (jinja_number_order(v, &zero) < 0)
        return jinja_negate(run, v, out);
    return true;
}

static bool filter_int(struct jinja_run *run, const struct jinja_call *call,
                       struct jinja_value *out) {
    const struct jinja_value *v = &call->a[0];
    int64_t base = 10;
    jinja_wide wide;
    double d;
    if (v->kind == JINJA_UNDEFINED) return jinja_fail_undefined(run, v);
    if (call->a[2].kind != JINJA_MISSING && !jinja_arg_int(run, &call->a[2], &base)) return false;
    *out = call->a[1].kind == JINJA_MISSING ? jinja_int(0) : call->a[1];
    if (jinja_is_integer(v)) return jinja_from_wide(run, jinja_wide_of(v), out);
    if (v->kind == JINJA_FLOAT) return isnan(v->as.f) || jinja_from_double(run, v->as.f, out);
    if (v->kind != JINJA_STR) return true;
    if ((base == 0 || (base >= 2 && base <= 36)) &&
        jinja_parse_wide(v->as.s, v->len, (int)base, &wide))
        return jinja_from_wide(run, wide, out);
    if (!jinja_parse_double(v->as.s, v->len, &d) || !isfinite(d)) return true;
    return jinja_from_double(run, d, out);
}

static bool filter_float(struct jinja_run *run, const struct jinja_call *call,
                         struct jinja_value *out) {
    const struct jinja_value *v = &call->a[0];
    double d;
    if (v->kind == JINJA_UNDEFINED) return jinja_fail_undefined(run, v);
    *out = call->a[1].kind == JINJA_MISSING ? jinja_float(0) : call->a[1];
    if (jinja_is_number(v))
        *out = jinja_float(jinja_double_of(v));
    else if (v->kind == JINJA_STR && jinja_parse_double(v->as.s, v->len, &d))
        *out = jinja_float(d);
    return true;
}

/* round(): to the nearest, ties to even on the exact binary value, which is what printf does. */
static double round_to(double d, int64_t digits) {
    struct buf b;
    double result = d;
    if (!isfinite(d) || digits > 20) return d;
    if (digits < 0) {
        double scale = pow(10, (double)-digits);
        return digits < -308 ? 0 : nearbyint(d / scale) * scale;
    }
    buf_init(&b, 0);
    if (jinja_print_fixed(&b, d, 'f', (int)digits, false))
        (void)jinja_parse_double(b.data, b.len, &result);
    buf_deinit(&b);
    return result;
}

static bool filter_round(struct jinja_run *run, const struct jinja_call *call,
                         struct jinja_value *out) {
    const struct jinja_value *v = &call->a[0], *method = &call->a[2];
    int64_t digits = 0;
    bool is_ceil = jinja_is_str(method, "ceil", 4), is_floor = jinja_is_str(method, "floor", 5);
    if (method->kind != JINJA_MISSING && !is_ceil && !is_floor &&
        !jinja_is_str(method, "common", 6))
        return jinja_fail(run, "method must be common, ceil or floor");
    if (v->kind == JINJA_UNDEFINED) return jinja_fail_undefined(run, v);
    if (call->a[1].kind != JINJA_MISSING && !jinja_arg_int(run, &call->a[1], &digits)) return false;
    if (!jinja_is_number(v))
        return jinja_fail(run, "type %s doesn't define __round__ method", jinja_type_name(v->kind));
    if (is_ceil || is_floor) {
        double scale = pow(10, (double)digits), d = jinja_double_of(v) * scale;
        if (!isfinite(d)) return jinja_fail(run, "cannot convert float infinity or NaN to integer");
        /* Through an integer in Python: there is no negative zero, and whole numbers stay exact. */
        *out = jinja_float((is_ceil ? ceil(d) : floor(d)) / scale + 0.0);
        if (jinja_is_integer(v) && digits >= 0) *out = jinja_float(jinja_double_of(v));
        return true;
    }
    if (v->kind == JINJA_FLOAT)
        *out = jinja_float(round_to(v->as.f, digits));
    else if (digits >= 0)
        return jinja_from_wide(run, jinja_wide_of(v), out);
    else
        return jinja_from_double(run, round_to(jinja_double_of(v), digits), out);
    return true;
}

static bool filter_filesizeformat(struct jinja_run *run, const struct jinja_call *call,
                                  struct jinja_value *out) {
    static const char letters[] = "kMGTPEZY";
    struct jinja_value number = {0};
    const struct jinja_value inner_args[] = {call->a[0], jinja_none()};
    struct jinja_call inner = {inner_args, call->args, NULL};
    bool is_binary = jinja_truth(&call->a[1]);
    double base = is_binary ? 1024 : 1000;
    struct buf b;
    if (!jinja_is_number(&call->a[0]) && call->a[0].kind != JINJA_STR)
        return jinja_fail(run, "float() argument must be a string or a real number, not '%s'",
                          jinja_type_name(call->a[0].kind));
    if (!filter_float(run, &inner, &number)) return false;
    if (number.kind != JINJA_FLOAT) return jinja_fail(run, "could not convert string to float");
    double bytes = number.as.f, unit = base;
    jinja_buf_init(run, &b);
    if (bytes == 1) {
        buf_append_str(&b, "1 Byte");
    } else if (bytes < base) {
        buf_printf(&b, "%lld Bytes", (long long)(bytes > -0x1p62 ? bytes : -0x1p62));
    } else {
        int i = 0;
        for (unit = base * base; i < 7 && !(bytes < unit); i++) unit *= base;
        (void)jinja_print_fixed(&b, base * bytes / unit, 'f', 1, false);
        buf_append_char(&b, ' ');
        buf_append_char(&b, is_binary && i == 0 ? 'K' : letters[i]);
        buf_append_str(&b, is_binary ? "iB" : "B");
    }
    return jinja_str_take(run, &b, out);
}

static bool filter_random(struct jinja_run *run, const struct jinja_call *call,
                          struct jinja_value *out) {
    (void)call, (void)out;
    return jinja_fail(run, "the filter 'random' is refused: the same conversation must always give "
                           "the same prompt");
}

const struct jinja_builtin jinja_filters_text[] = {
    {"abs", filter_abs, 1, 1, "x"},
    {"capitalize", filter_capitalize, 1, 1, "s"},
    {"center", filter_center, 1, 2, "value,width"},
    {"e", filter_escape, 1, 1, "s"},
    {"escape", filter_escape, 1, 1, "s"},
    {"filesizeformat", filter_filesizeformat, 1, 2, "value,binary"},
    {"float", filter_float, 1, 2, "value,default"},
    {"forceescape", filter_forceescape, 1, 1, "value"},
    {"format", filter_format, 1, -1, NULL},
    {"indent", filter_indent, 1, 4, "s,width,first,blank"},
    {"int", filter_int, 1, 3, "value,default,base"},
    {"lower", filter_lower, 1, 1, "s"},
    {"pprint", jinja_filter_pprint, 1, 1, "value"},
    {"random", filter_random, 1, 1, "seq"},
    {"replace", filter_replace, 3, 4, "s,old,new,count"},
    {"round", filter_round, 1, 3, "value,precision,method"},
    {"safe", filter_safe, 1, 1, "value"},
    {"string", filter_string, 1, 1, "s"},
    {"striptags", jinja_filter_striptags, 1, 1, "value"},
    {"title", filter_title, 1, 1, "s"},
    {"tojson", filter_tojson, 1, 5, "x,ensure_ascii,indent,separators,sort_keys"},
    {"trim", filter_trim, 1, 2, "value,chars"},
    {"truncate", filter_truncate, 1, 5, "s,length,killwords,end,leeway"},
    {"upper", filter_upper, 1, 1, "s"},
    {"urlencode", filter_urlencode, 1, 1, "value"},
    {"urlize", jinja_filter_urlize, 1, 6, "value,trim_url_limit,nofollow,target,rel,extra_schemes"},
    {"wordcount", filter_wordcount, 1, 1, "s"},
    {"wordwrap", jinja_filter_wordwrap, 1, 5,
     "s,width,break_long_words,wrapstring,break_on_hyphens"},
    {"xmlattr", jinja_filter_xmlattr, 1, 2, "d,autospace"},
};
const size_t jinja_n_filters_text = sizeof(jinja_filters_text) / sizeof(jinja_filters_text[0]);
