/* jinja_format.c - "%s of %d" % values, and "{} {name!r:>8}".format(...).
 *
 * Two small languages with one heart: a conversion with fill, width, sign and precision. Both are
 * read strictly; what Python would refuse fails here too. Field names of format may walk attributes
 * and items ({0.name[key]}), by the sandbox's rules. */
#include "jinja_builtin.h"

#include "base/utf8.h"
#include "jinja_markup.h"
#include "jinja_number.h"
#include "jinja_text.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

struct spec {
    struct jinja_value fill; /* one character; MISSING = the default */
    char align;              /* '<' '>' '^' '=', 0 = the type's default */
    char sign;               /* '+' ' ' '-' */
    bool is_alternate, is_grouped;
    char group;
    int width, precision; /* precision -1 = not given */
    bool is_escaped;      /* the format is Markup: what goes into it is escaped */
    char type;            /* 0 = the value's default */
};

enum { FORMAT_WIDTH_MAX = 1000000, FORMAT_PRECISION_MAX = 100 };

/* ---- putting a number or text into its field */

static void put_field(struct buf *out, const struct spec *spec, const char *sign, const char *body,
                      size_t len, bool is_number) {
    struct jinja_value fill = spec->fill.kind == JINJA_STR ? spec->fill : jinja_str(" ", 1);
    char align = spec->align ? spec->align : is_number ? '>' : '<';
    size_t used = strlen(sign) + utf8_count(body, len);
    size_t pad = used < (size_t)spec->width ? (size_t)spec->width - used : 0;
    size_t left = align == '<' ? 0 : align == '^' ? pad / 2 : pad;
    if (align == '=') buf_append_str(out, sign);
    for (size_t i = 0; i < left; i++) buf_append(out, fill.as.s, fill.len);
    if (align != '=') buf_append_str(out, sign);
    buf_append(out, body, len);
    for (size_t i = left; i < pad; i++) buf_append(out, fill.as.s, fill.len);
}

/* Puts separators into the digits before the point. */
static void group_digits(struct buf *b, char separator, size_t each) {
    size_t n = 0;
    char copy[512];
    while (n < b->len && (each == 4 ? b->data[n] != '.' : b->data[n] >= '0' && b->data[n] <= '9'))
        n++;
    size_t len = b->len;
    if (n <= each || len > sizeof(copy)) return;
    memcpy(copy, b->data, len);
    buf_clear(b);
    for (size_t i = 0; i < n; i++) {
        if (i && (n - i) % each == 0) buf_append_char(b, separator);
        buf_append_char(b, copy[i]);
    }
    buf_append(b, copy + n, len - n);
}

static void put_number(struct buf *out, const struct spec *spec, bool is_negative, struct buf *b) {
    char sign[4] = "";
    if (is_negative)
        strcpy(sign, "-");
    else if (spec->sign == '+' || spec->sign == ' ')
        sign[0] = spec->sign, sign[1] = '\0';
    if (spec->is_alternate && spec->type && strchr("xob", spec->type | 0x20)) {
        size_t n = strlen(sign);
        sign[n] = '0';
        sign[n + 1] = spec->type;
        sign[n + 2] = '\0';
    }
    bool is_bits = spec->type && strchr("xXob", spec->type);
    if (spec->is_grouped) group_digits(b, spec->group, is_bits ? 4 : 3);
    if (!b->failed) put_field(out, spec, sign, b->data ? b->data : "", b->len, /*is_number=*/true);
}

static bool format_integer(struct jinja_run *run, const struct spec *spec, jinja_wide wide,
                           struct buf *out) {
    char digits[130];
    struct buf b;
    char type = spec->type | 0x20;
    unsigned base = type == 'x' ? 16 : type == 'o' ? 8 : type == 'b' ? 2 : 10;
    if (spec->type == 'c') {
        if (wide < 0 || wide > 0x10FFFF) return jinja_fail(run, "%%c arg not in range(0x110000)");
        char bytes[4];
        put_field(out, spec, "", bytes, utf8_encode((uint32_t)wide, bytes), /*is_number=*/true);
        return true;
    }
    size_t n = jinja_print_wide(wide < 0 ? -wide : wide, base, digits);
    jinja_buf_init(run, &b);
    for (int i = (int)n; i < spec->precision; i++) buf_append_char(&b, '0');
    for (size_t i = 0; i < n; i++)
        if (spec->type == 'X' && digits[i] >= 'a') digits[i] = (char)(digits[i] - 0x20);
    buf_append(&b, digits, n);
    put_number(out, spec, wide < 0, &b);
    buf_deinit(&b);
    return true;
}

static bool format_double(struct jinja_run *run, const struct spec *spec, double d,
                          struct buf *out) {
    struct buf b;
    char number[JINJA_NUMBER_BYTES];
    char type = spec->type;
    int precision = spec->precision < 0 ? 6 : spec->precision;
    bool is_percent = type == '%', is_negative = signbit(d) && !isnan(d);
    if (precision > FORMAT_PRECISION_MAX) return jinja_fail(run, "precision too big");
    if (is_percent) d *= 100;
    jinja_buf_init(run, &b);
    if (!isfinite(d)) {
        bool is_upper = type == 'F' || type == 'E' || type == 'G';
        buf_append_str(&b, isnan(d) ? (is_upper ? "NAN" : "nan") : (is_upper ? "INF" : "inf"));
    } else if (!type && spec->precision < 0) {
        buf_append(&b, number, jinja_print_double(fabs(d), number));
    } else {
        if (!type || type == 'n') type = 'g';
        if (!jinja_print_fixed(&b, fabs(d), is_percent ? 'f' : type, precision, spec->is_alternate))
            jinja_fail(run, "this number is too long to be formatted");
    }
    if (is_percent) buf_append_char(&b, '%');
    struct spec plain = *spec;
    plain.is_alternate = false;
    put_number(out, &plain, is_negative, &b);
    buf_deinit(&b);
    return run->status == RADISH_OK;
}

/* ascii(): what is not ASCII in a repr as \x, \u or \U. */
static void write_ascii(struct jinja_run *run, const struct jinja_value *v, struct buf *out) {
    struct buf b;
    jinja_buf_init(run, &b);
    jinja_write_repr(run, v, &b);
    for (size_t i = 0, n; i < b.len && !out->failed; i += n) {
        uint32_t cp;
        n = utf8_decode(b.data + i, b.len - i, &cp);
        if (cp < 0x80)
            buf_append_char(out, (char)cp);
        else
            buf_printf(out, cp < 0x100 ? "\\x%02x" : cp < 0x10000 ? "\\u%04x" : "\\U%08x", cp);
    }
    out->failed = out->failed || b.failed;
    buf_deinit(&b);
}

/* how: 's', 'r' or 'a' */
static void write_as(struct jinja_run *run, const struct jinja_value *v, char how,
                     struct buf *out) {
    if (how == 'a')
        write_ascii(run, v, out);
    else if (how == 'r')
        jinja_write_repr(run, v, out);
    else
        jinja_write_str(run, v, out);
}

static bool format_text(struct jinja_run *run, const struct spec *spec, const struct jinja_value *v,
                        char how, struct buf *out) {
    struct buf b;
    jinja_buf_init(run, &b);
    write_as(run, v, how, &b);
    if (spec->is_escaped && b.len && (how != 's' || v->kind != JINJA_STR || !v->flag)) {
        struct buf plain = b;
        jinja_buf_init(run, &b);
        jinja_text_escape_html(plain.data, plain.len, &b);
        b.failed = b.failed || plain.failed;
        buf_deinit(&plain);
    }
    size_t len = b.len;
    if (spec->precision >= 0 && b.data)
        len = jinja_text_offset(b.data, len, (size_t)spec->precision);
    if (b.failed)
        jinja_fail_limit(run, "memory");
    else
        put_field(out, spec, "", b.data ? b.data : "", len, /*is_number=*/false);
    buf_deinit(&b);
    return run->status == RADISH_OK;
}

/* ---- % */

struct percent {
    struct jinja_run *run;
    const char *s;
    size_t len, at;
    const struct jinja_value *values; /* as given */
    struct jinja_list list;
    size_t next;
    bool is_markup;
};

static bool next_value(struct percent *p, struct jinja_value *out) {
    if (p->next == p->list.n) return jinja_fail(p->run, "not enough arguments for format string");
    *out = p->list.items[p->next++];
    return true;
}

/* A width or precision: digits, or '*' from the values. */
static bool read_count(struct percent *p, int most, int *out) {
    struct jinja_value v;
    int64_t n = 0;
    if (p->at < p->len && p->s[p->at] == '*') {
        p->at++;
        if (!next_value(p, &v) || !jinja_arg_int(p->run, &v, &n)) return false;
    }
    while (p->at < p->len && p->s[p->at] >= '0' && p->s[p->at] <= '9') {
        n = n * 10 + (p->s[p->at++] - '0');
        if (n > most) break;
    }
    if (n > most || n < -most) return jinja_fail_limit(p->run, "width in a format");
    *out = (int)n;
    return true;
}

static bool read_key(struct percent *p, struct jinja_value *v, bool *has_key) {
    *has_key = p->at < p->len && p->s[p->at] == '(';
    if (!*has_key) return true;
    const char *end = memchr(p->s + p->at, ')', p->len - p->at);
    if (!end) return jinja_fail(p->run, "incomplete format key");
    size_t from = p->at + 1, to = (size_t)(end - p->s);
    p->at = to + 1;
    if (p->values->kind != JINJA_DICT) return jinja_fail(p->run, "format requires a mapping");
    const struct jinja_value *found =
        jinja_dict_find_str(p->values->as.dict, p->s + from, to - from);
    if (!found)
        return jinja_fail(p->run, "KeyError: '%.*s'", to - from > 80 ? 80 : (int)(to - from),
                          p->s + from);
    *v = *found;
    return true;
}

static bool read_flags(struct percent *p, struct spec *spec) {
    bool is_zero = false;
    for (; p->at < p->len && p->s[p->at] && strchr("#0- +", p->s[p->at]); p->at++) {
        switch (p->s[p->at]) {
        case '#': spec->is_alternate = true; break;
        case '0': is_zero = true; break;
        case '-': spec->align = '<'; break;
        case ' ':
            if (!spec->sign) spec->sign = ' ';
            break;
        default: spec->sign = '+'; break;
        }
    }
    if (!read_count(p, FORMAT_WIDTH_MAX, &spec->width)) return false;
    if (spec->width < 0) spec->align = '<', spec->width = -spec->width;
    if (p->at < p->len && p->s[p->at] == '.') {
        p->at++;
        if (!read_count(p, FORMAT_WIDTH_MAX, &spec->precision)) return false;
        if (spec->precision < 0) spec->precision = 0;
    }
    if (is_zero && spec->align != '<') {
        spec->align = '=';
        spec->fill = jinja_str("0", 1);
    }
    while (p->at < p->len && p->s[p->at] && strchr("hlL", p->s[p->at])) p->at++;
    return true;
}

/* In Markup, values come wrapped: %d and %f make numbers of them, also of texts; %x and %c cannot.
 */
static bool unwrap_number(struct jinja_run *run, char type, const struct jinja_value *v,
                          struct jinja_value *out) {
    jinja_wide wide;
    double d;
    *out = *v;
    if (strchr("xXoc", type))
        return jinja_fail(run, "%%%c format: an integer is required, not _MarkupEscapeHelper",
                          type);
    if (v->kind == JINJA_STR && strchr("diu", type)) {
        if (jinja_parse_wide(v->as.s, v->len, 10, &wide)) return jinja_from_wide(run, wide, out);
        return jinja_fail(run, "invalid literal for int() with base 10");
    }
    if (v->kind == JINJA_STR) {
        if (!jinja_parse_double(v->as.s, v->len, &d))
            return jinja_fail(run, "could not convert string to float");
        *out = jinja_float(d);
    }
    return true;
}

static bool percent_number(struct percent *p, struct spec *spec, const struct jinja_value *v,
                           struct buf *out) {
    struct jinja_value whole = *v, number;
    if (spec->is_escaped) {
        if (!unwrap_number(p->run, spec->type, v, &number)) return false;
        v = &number;
        whole = number;
    }
    if (v->kind == JINJA_UNDEFINED) return jinja_fail_undefined(p->run, v);
    if (!jinja_is_number(v))
        return jinja_fail(p->run, "%%%c format: a real number is required, not %s", spec->type,
                          jinja_type_name(v->kind));
    if (strchr("eEfFgG", spec->type)) return format_double(p->run, spec, jinja_double_of(v), out);
    if (v->kind == JINJA_FLOAT) {
        if (!strchr("diu", spec->type))
            return jinja_fail(p->run, "%%%c format: an integer is required, not float", spec->type);
        if (!jinja_from_double(p->run, v->as.f, &whole)) return false;
    }
    if (strchr("iu", spec->type)) spec->type = 'd';
    return format_integer(p->run, spec, jinja_wide_of(&whole), out);
}

static bool percent_directive(struct percent *p, struct buf *out) {
    struct spec spec = {.precision = -1, .is_escaped = p->is_markup};
    struct jinja_value v = {0};
    bool has_key;
    if (p->at < p->len && p->s[p->at] == '%') {
        p->at++;
        buf_append_char(out, '%');
        return true;
    }
    if (!read_key(p, &v, &has_key) || !read_flags(p, &spec)) return false;
    if (p->at == p->len) return jinja_fail(p->run, "incomplete format");
    spec.type = p->s[p->at++];
    if (!spec.type || !strchr("sradiuoxXeEfFgGc", spec.type))
        return jinja_fail(p->run, "unsupported format character '%c'", spec.type);
    if (!has_key && !next_value(p, &v)) return false;
    if (strchr("sra", spec.type) || (spec.type == 'c' && v.kind == JINJA_STR && !p->is_markup)) {
        if (!spec.align || spec.align == '=') spec.align = '>', spec.fill.kind = JINJA_MISSING;
        return format_text(p->run, &spec, &v, spec.type, out);
    }
    return percent_number(p, &spec, &v, out);
}

bool jinja_percent_format(struct jinja_run *run, const struct jinja_value *format,
                          const struct jinja_value *values, struct jinja_value *out) {
    struct percent p = {run, format->as.s, format->len, 0, values, {values, 1}, 0, format->flag};
    struct buf b;
    bool is_ok = true;
    /* What could be asked for keys need not be used up. */
    bool is_subscripted = values->kind == JINJA_DICT || values->kind == JINJA_LIST ||
                          values->kind == JINJA_RANGE || values->kind == JINJA_UNDEFINED;
    if (values->kind == JINJA_TUPLE) p.list = *values->as.list;
    jinja_buf_init(run, &b);
    while (is_ok && p.at < p.len && !b.failed) {
        const char *sign = memchr(p.s + p.at, '%', p.len - p.at);
        size_t to = sign ? (size_t)(sign - p.s) : p.len;
        buf_append(&b, p.s + p.at, to - p.at);
        p.at = to;
        if (!sign) break;
        p.at++;
        is_ok = jinja_charge(run, 1) && percent_directive(&p, &b);
    }
    if (is_ok && p.next < p.list.n && !is_subscripted)
        is_ok = jinja_fail(run, "not all arguments converted during string formatting");
    if (is_ok) {
        if (!jinja_str_take(run, &b, out)) return false;
        out->flag = format->flag;
        return true;
    }
    buf_deinit(&b);
    return false;
}

/* ---- str.format */

static bool is_align(char c) {
    return c == '<' || c == '>' || c == '^' || c == '=';
}

static size_t read_digits(const char *s, size_t len, size_t at, int *out) {
    *out = 0;
    while (at < len && s[at] >= '0' && s[at] <= '9' && *out <= FORMAT_WIDTH_MAX)
        *out = *out * 10 + (s[at++] - '0');
    return at;
}

static bool read_spec(struct jinja_run *run, const char *s, size_t len, struct spec *spec) {
    size_t at = 0, first = len ? jinja_text_offset(s, len, 1) : 0;
    *spec = (struct spec){.precision = -1};
    if (len > first && is_align(s[first])) {
        spec->fill = jinja_str(s, first);
        spec->align = s[first];
        at = first + 1;
    } else if (len && is_align(s[0])) {
        spec->align = s[at++];
    }
    if (at < len && (s[at] == '+' || s[at] == '-' || s[at] == ' ')) spec->sign = s[at++];
    if (at < len && s[at] == '#') spec->is_alternate = s[at++] == '#';
    if (at < len && s[at] == '0') {
        if (spec->fill.kind == JINJA_MISSING) spec->fill = jinja_str("0", 1);
        if (!spec->align) spec->align = '=';
        at++;
    }
    at = read_digits(s, len, at, &spec->width);
    if (at < len && (s[at] == ',' || s[at] == '_')) {
        spec->is_grouped = true;
        spec->group = s[at++];
    }
    if (at < len && s[at] == '.') {
        size_t from = at + 1;
        at = read_digits(s, len, from, &spec->precision);
        if (at == from) return jinja_fail(run, "Format specifier missing precision");
    }
    if (spec->width > FORMAT_WIDTH_MAX || spec->precision > FORMAT_WIDTH_MAX)
        return jinja_fail_limit(run, "width in a format");
    if (at < len) spec->type = s[at++];
    if (at < len) return jinja_fail(run, "Invalid format specifier");
    return true;
}

static bool format_value(struct jinja_run *run, const struct jinja_value *v, struct spec *spec,
                         bool is_plain, struct buf *out) {
    if (is_plain) return format_text(run, spec, v, 's', out);
    if (jinja_is_integer(v) && (!spec->type || strchr("bcdoxXn", spec->type))) {
        if (spec->precision >= 0)
            return jinja_fail(run, "Precision not allowed in integer format specifier");
        if (spec->is_grouped && (spec->type == 'c' || spec->type == 'n' ||
                                 (spec->group == ',' && spec->type && spec->type != 'd')))
            return jinja_fail(run, "Cannot specify '%c' with '%c'.", spec->group, spec->type);
        if (spec->type == 'c' && (spec->sign || spec->is_alternate))
            return jinja_fail(run, "Sign not allowed with integer format specifier 'c'");
        return format_integer(run, spec, jinja_wide_of(v), out);
    }
    if (jinja_is_number(v) && (!spec->type || strchr("eEfFgGn%", spec->type)))
        return format_double(run, spec, jinja_double_of(v), out);
    if (v->kind == JINJA_STR && (!spec->type || spec->type == 's')) {
        const char *what = spec->align == '='   ? "'=' alignment"
                           : spec->sign         ? "A sign"
                           : spec->is_alternate ? "Alternate form (#)"
                           : spec->is_grouped   ? "Grouping"
                                                : NULL;
        if (what) return jinja_fail(run, "%s not allowed in string format specifier", what);
        return format_text(run, spec, v, 's', out);
    }
    if (v->kind == JINJA_STR || jinja_is_number(v))
        return jinja_fail(run, "Unknown format code '%c' for object of type '%s'", spec->type,
                          jinja_type_name(v->kind));
    return jinja_fail(run, "unsupported format string passed to %s.__format__",
                      jinja_type_name(v->kind));
}

struct fields {
    struct jinja_run *run;
    const struct jinja_args *args;
    size_t next;
    bool is_manual, is_markup;
};

/* The value that a field starts from; is_whole: no .attr or [key] follows. */
static bool find_field(struct fields *f, const char *name, size_t len, bool is_whole,
                       struct jinja_value *out) {
    jinja_wide idx = 0;
    bool is_number = jinja_parse_wide(name, len, 10, &idx) && idx >= 0;
    if ((!len && is_whole) || is_number) {
        if (is_whole && ((!len && f->is_manual) || (len && f->next)))
            return jinja_fail(f->run, "cannot switch between manual field specification and "
                                      "automatic field numbering");
        if (!len)
            idx = (jinja_wide)f->next++;
        else if (is_whole)
            f->is_manual = true;
        if (idx >= (jinja_wide)f->args->n)
            return jinja_fail(f->run, "Replacement index out of range for positional args tuple");
        *out = f->args->values[(size_t)idx];
        return true;
    }
    for (size_t i = 0; i < f->args->n_kwargs; i++)
        if (jinja_is_str(&f->args->kwargs[i].name, name, len)) {
            *out = f->args->kwargs[i].value;
            return true;
        }
    return jinja_fail(f->run, "KeyError: '%.*s'", len > 80 ? 80 : (int)len, name);
}

/* name.attr[key]... in s[0..len) */
static bool walk_field(struct fields *f, const char *s, size_t len, struct jinja_value *out) {
    size_t at = 0;
    while (at < len && s[at] != '.' && s[at] != '[') at++;
    if (!find_field(f, s, at, /*is_whole=*/at == len, out)) return false;
    while (at < len) {
        bool is_attr = s[at] == '.';
        size_t from = ++at;
        if (!is_attr && s[at - 1] != '[')
            return jinja_fail(f->run, "Only '.' or '[' may follow ']' in format field specifier");
        while (at < len && (is_attr ? s[at] != '.' && s[at] != '[' : s[at] != ']')) at++;
        if (at == from) return jinja_fail(f->run, "Empty attribute in format string");
        if (!is_attr && at == len) return jinja_fail(f->run, "Missing ']' in format string");
        struct jinja_value key = jinja_str(s + from, at - from);
        jinja_wide idx;
        if (!is_attr && jinja_parse_wide(s + from, at - from, 10, &idx) && s[from] != '-')
            key = jinja_int((int64_t)idx);
        struct jinja_value obj = *out;
        if (!(is_attr ? jinja_get_attribute : jinja_get_item)(f->run, &obj, &key, out))
            return false;
        at += !is_attr;
    }
    return true;
}

/* The inside of {...}. */
static bool put_replacement(struct fields *f, const char *s, size_t len, struct buf *out) {
    size_t name_len = 0, at;
    bool is_in_key = false;
    struct jinja_value v;
    struct spec spec;
    for (; name_len < len; name_len++) {
        if (s[name_len] == '[') is_in_key = true;
        if (s[name_len] == ']') is_in_key = false;
        if (!is_in_key && (s[name_len] == '!' || s[name_len] == ':')) break;
    }
    if (!walk_field(f, s, name_len, &v)) return false;
    at = name_len;
    if (at < len && s[at] == '!') {
        char how = at + 1 < len ? s[at + 1] : ' ';
        if (how != 'r' && how != 's' && how != 'a')
            return jinja_fail(f->run, "Unknown conversion specifier");
        struct buf b;
        jinja_buf_init(f->run, &b);
        write_as(f->run, &v, how, &b);
        if (!jinja_str_take(f->run, &b, &v)) return false;
        at += 2;
    }
    if (at < len && s[at] != ':')
        return jinja_fail(f->run, "expected ':' after conversion specifier");
    bool has_spec = at + 1 < len;
    if (!read_spec(f->run, has_spec ? s + at + 1 : "", has_spec ? len - at - 1 : 0, &spec))
        return false;
    if (!f->is_markup) return format_value(f->run, &v, &spec, !has_spec, out);
    if (v.kind == JINJA_STR && v.flag) {
        if (has_spec) return jinja_fail(f->run, "Unsupported format specification for Markup.");
        buf_append(out, v.as.s, v.len);
        return true;
    }
    struct buf b;
    jinja_buf_init(f->run, &b);
    bool is_ok = format_value(f->run, &v, &spec, !has_spec, &b);
    if (b.len) jinja_text_escape_html(b.data, b.len, out);
    out->failed = out->failed || b.failed;
    buf_deinit(&b);
    return is_ok;
}

/* Replaces {fields} in a format specification, one level deep, as Python does. */
static bool expand_spec(struct fields *f, const char *s, size_t len, struct buf *out) {
    for (size_t i = 0; i < len; i++) {
        if (s[i] != '{') {
            buf_append_char(out, s[i]);
            continue;
        }
        const char *end = memchr(s + i, '}', len - i);
        if (!end) return jinja_fail(f->run, "expected '}' before end of string");
        size_t to = (size_t)(end - s);
        if (!put_replacement(f, s + i + 1, to - i - 1, out)) return false;
        i = to;
    }
    return true;
}

static bool put_nested(struct fields *f, const char *s, size_t len, struct buf *out) {
    const char *colon = memchr(s, ':', len);
    if (!colon || !memchr(colon, '{', len - (size_t)(colon - s)))
        return put_replacement(f, s, len, out);
    /* The field is taken before those in its specification; only automatic numbering can tell. */
    struct buf b;
    size_t head = (size_t)(colon - s) + 1;
    size_t first = f->next;
    bool is_automatic = s[0] == ':' || s[0] == '!';
    jinja_buf_init(f->run, &b);
    if (is_automatic) {
        buf_printf(&b, "%zu", first);
        f->next++;
    }
    buf_append(&b, s, head);
    bool is_ok = expand_spec(f, s + head, len - head, &b) && !b.failed;
    size_t next = f->next;
    if (is_automatic) f->next = 0;
    is_ok = is_ok && put_replacement(f, b.data, b.len, out);
    if (is_automatic) f->next = next, f->is_manual = false;
    buf_deinit(&b);
    return is_ok;
}

static bool put_format(struct fields *f, const char *s, size_t len, struct buf *out) {
    for (size_t at = 0; at < len && !out->failed; at++) {
        bool is_double = at + 1 < len && s[at + 1] == s[at];
        if (!jinja_charge(f->run, 1)) return false;
        if (s[at] != '{' && s[at] != '}') {
            buf_append_char(out, s[at]);
        } else if (is_double) {
            buf_append_char(out, s[at++]);
        } else if (s[at] == '}') {
            return jinja_fail(f->run, "Single '}' encountered in format string");
        } else {
            size_t from = ++at, depth = 1;
            for (; at < len; at++) {
                if (s[at] == '{') depth++;
                if (s[at] == '}' && --depth == 0) break;
            }
            if (at == len) return jinja_fail(f->run, "expected '}' before end of string");
            if (!put_nested(f, s + from, at - from, out)) return false;
        }
    }
    return true;
}

bool jinja_str_format(struct jinja_run *run, const struct jinja_value *format,
                      const struct jinja_args *args, struct jinja_value *out) {
    struct fields f = {run, args, 0, false, format->flag};
    struct buf b;
    jinja_buf_init(run, &b);
    if (put_format(&f, format->as.s, format->len, &b)) {
        if (!jinja_str_take(run, &b, out)) return false;
        out->flag = format->flag;
        return true;
    }
    buf_deinit(&b);
    return false;
}
