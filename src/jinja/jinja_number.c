/* jinja_number.c - int, float and bool as Python has them.
 *
 * Python's integers have no end. Templates compute indexes and counts, and tool schemas may hold
 * 64-bit numbers, so 128-bit arithmetic with an overflow check is as good as big numbers, at no
 * cost: a result that does not fit is reported, never wrapped. True division gives floats, // and %
 * round towards minus infinity, ** of integers stays an integer unless the exponent is negative.
 *
 * repr(float) is the shortest decimal that reads back as the same number: precisions are tried from
 * 1 digit upward. Digits go through snprintf and yyjson's reader, neither of which is believed
 * about the decimal point, since an embedder may have set a locale. */
#include "jinja_number.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <yyjson.h>

enum { FLOAT_TEXT_BYTES = 400 };

jinja_wide jinja_wide_of(const struct jinja_value *v) {
    if (v->kind == JINJA_BOOL) return v->as.b;
    return v->kind == JINJA_BIG ? *v->as.big : v->as.i;
}

double jinja_double_of(const struct jinja_value *v) {
    return v->kind == JINJA_FLOAT ? v->as.f : (double)jinja_wide_of(v);
}

bool jinja_from_wide(struct jinja_run *run, jinja_wide wide, struct jinja_value *out) {
    if (wide >= INT64_MIN && wide <= INT64_MAX) {
        *out = jinja_int((int64_t)wide);
        return true;
    }
    jinja_wide *big = jinja_alloc(run, 1, sizeof(*big));
    if (!big) return false;
    *big = wide;
    *out = (struct jinja_value){.kind = JINJA_BIG, .as.big = big};
    return true;
}

bool jinja_from_double(struct jinja_run *run, double d, struct jinja_value *out) {
    if (isnan(d)) return jinja_fail(run, "cannot convert float NaN to integer");
    if (isinf(d)) return jinja_fail(run, "cannot convert float infinity to integer");
    if (fabs(d) >= 0x1p126) return jinja_fail_limit(run, "size of integers");
    return jinja_from_wide(run, (jinja_wide)d, out);
}

/* ---- arithmetic */

static jinja_wide floor_div(jinja_wide a, jinja_wide b) {
    jinja_wide q = a / b;
    return q - (a % b != 0 && (a < 0) != (b < 0));
}

static bool power_wide(struct jinja_run *run, jinja_wide base, jinja_wide exponent,
                       struct jinja_value *out) {
    jinja_wide result = 1;
    bool is_small = base >= -1 && base <= 1;
    if (is_small && exponent > 2) exponent = 2 + (exponent & 1);
    for (; exponent > 0; exponent--)
        if (__builtin_mul_overflow(result, base, &result))
            return jinja_fail_limit(run, "size of integers");
    return jinja_from_wide(run, result, out);
}

static bool integer_arithmetic(struct jinja_run *run, enum jinja_op op, jinja_wide a, jinja_wide b,
                               struct jinja_value *out) {
    jinja_wide r = 0;
    bool is_over = false;
    switch (op) {
    case JINJA_OP_ADD: is_over = __builtin_add_overflow(a, b, &r); break;
    case JINJA_OP_SUB: is_over = __builtin_sub_overflow(a, b, &r); break;
    case JINJA_OP_MUL: is_over = __builtin_mul_overflow(a, b, &r); break;
    case JINJA_OP_FLOORDIV:
    case JINJA_OP_MOD:
        if (!b) return jinja_fail(run, "integer division or modulo by zero");
        if (b == -1)
            is_over = op == JINJA_OP_FLOORDIV && __builtin_sub_overflow(0, a, &r);
        else
            r = op == JINJA_OP_FLOORDIV ? floor_div(a, b) : a - floor_div(a, b) * b;
        break;
    default: return power_wide(run, a, b, out);
    }
    return is_over ? jinja_fail_limit(run, "size of integers") : jinja_from_wide(run, r, out);
}

static bool float_arithmetic(struct jinja_run *run, enum jinja_op op, double a, double b,
                             struct jinja_value *out) {
    double r = 0;
    switch (op) {
    case JINJA_OP_ADD: r = a + b; break;
    case JINJA_OP_SUB: r = a - b; break;
    case JINJA_OP_MUL: r = a * b; break;
    case JINJA_OP_POW:
        if (a == 0 && b < 0) return jinja_fail(run, "0.0 cannot be raised to a negative power");
        if (a < 0 && isfinite(b) && b != floor(b))
            return jinja_fail(run, "complex numbers are not supported");
        r = pow(a, b);
        if (isinf(r) && isfinite(a) && isfinite(b))
            return jinja_fail(run, "(34, 'Numerical result out of range')");
        break;
    default:
        if (b == 0)
            return jinja_fail(run, op == JINJA_OP_DIV ? "float division by zero"
                                                      : "float floor division by zero");
        if (op == JINJA_OP_DIV) {
            r = a / b;
            break;
        }
        r = fmod(a, b);
        if (r != 0 && (r < 0) != (b < 0))
            r += b;
        else if (r == 0)
            r = copysign(0, b);
        if (op == JINJA_OP_FLOORDIV) {
            double q = (a - r) / b, whole = floor(q);
            r = q - whole > 0.5 ? whole + 1 : whole;
        }
        break;
    }
    *out = jinja_float(r);
    return true;
}

bool jinja_arithmetic(struct jinja_run *run, enum jinja_op op, const struct jinja_value *a,
                      const struct jinja_value *b, struct jinja_value *out) {
    bool is_whole = jinja_is_integer(a) && jinja_is_integer(b);
    if (is_whole && op == JINJA_OP_DIV && !jinja_wide_of(b))
        return jinja_fail(run, "division by zero");
    if (op == JINJA_OP_DIV) is_whole = false;
    if (op == JINJA_OP_POW && is_whole && jinja_wide_of(b) < 0) is_whole = false;
    if (is_whole) return integer_arithmetic(run, op, jinja_wide_of(a), jinja_wide_of(b), out);
    return float_arithmetic(run, op, jinja_double_of(a), jinja_double_of(b), out);
}

int jinja_number_order(const struct jinja_value *a, const struct jinja_value *b) {
    if (jinja_is_integer(a) && jinja_is_integer(b)) {
        jinja_wide x = jinja_wide_of(a), y = jinja_wide_of(b);
        return (x > y) - (x < y);
    }
    double x = jinja_double_of(a), y = jinja_double_of(b);
    if (isnan(x) || isnan(y)) return 2;
    /* An integer that a double cannot hold is compared as an integer. */
    if (x == y && fabs(x) < 0x1p126 && (jinja_is_integer(a) || jinja_is_integer(b))) {
        jinja_wide p = jinja_is_integer(a) ? jinja_wide_of(a) : (jinja_wide)x;
        jinja_wide q = jinja_is_integer(b) ? jinja_wide_of(b) : (jinja_wide)y;
        return (p > q) - (p < q);
    }
    return (x > y) - (x < y);
}

bool jinja_negate(struct jinja_run *run, const struct jinja_value *v, struct jinja_value *out) {
    if (v->kind == JINJA_FLOAT) {
        *out = jinja_float(-v->as.f);
        return true;
    }
    return integer_arithmetic(run, JINJA_OP_SUB, 0, jinja_wide_of(v), out);
}

/* ---- reading */

static void trim_spaces(const char **s, size_t *len) {
    while (*len && strchr(" \t\n\r\f\v", **s) && **s) (*s)++, (*len)--;
    while (*len && strchr(" \t\n\r\f\v", (*s)[*len - 1]) && (*s)[*len - 1]) (*len)--;
}

static int digit_of(char c) {
    if (c >= '0' && c <= '9') return c - '0';
    if (c >= 'a' && c <= 'z') return c - 'a' + 10;
    return c >= 'A' && c <= 'Z' ? c - 'A' + 10 : 99;
}

/* Takes 0x, 0o, 0b where the base allows; gives the base that holds. */
static int take_base(const char **s, size_t *len, int base) {
    int found = 0;
    if (*len >= 2 && **s == '0') {
        char c = (char)((*s)[1] | 0x20);
        found = c == 'x' ? 16 : c == 'o' ? 8 : c == 'b' ? 2 : 0;
    }
    if (found && (base == 0 || base == found)) {
        *s += 2;
        *len -= 2;
        if (*len && **s == '_') (*s)++, (*len)--;
        return found;
    }
    return base ? base : 10;
}

bool jinja_parse_wide(const char *s, size_t len, int base, jinja_wide *out) {
    trim_spaces(&s, &len);
    bool is_negative = len && *s == '-', was_digit = false, is_free = base == 0;
    if (len && (*s == '-' || *s == '+')) s++, len--;
    base = take_base(&s, &len, base);
    *out = 0;
    /* In base 0, "012" is no number; "000" is. */
    if (is_free && base == 10 && len > 1 && *s == '0')
        for (size_t i = 0; i < len; i++)
            if (s[i] != '0' && s[i] != '_') return false;
    for (size_t i = 0; i < len; i++) {
        if (s[i] == '_' && was_digit && i + 1 < len) {
            was_digit = false;
            continue;
        }
        int digit = digit_of(s[i]);
        if (digit >= base) return false;
        was_digit = true;
        if (__builtin_mul_overflow(*out, base, out) || __builtin_add_overflow(*out, digit, out))
            return false;
    }
    if (is_negative) *out = -*out;
    return was_digit;
}

static bool parse_named(const char *s, size_t len, double *out) {
    static const char *const names[] = {"inf", "infinity", "nan"};
    bool is_negative = len && *s == '-';
    if (len && (*s == '-' || *s == '+')) s++, len--;
    for (int i = 0; i < 3; i++) {
        if (strlen(names[i]) != len) continue;
        bool is_same = true;
        for (size_t j = 0; j < len; j++) is_same = is_same && (s[j] | 0x20) == names[i][j];
        if (!is_same) continue;
        *out = i == 2 ? (double)NAN : (double)INFINITY;
        if (is_negative) *out = -*out;
        return true;
    }
    return false;
}

/* Python allows ".5", "5.", "+1", "007", "1_000", which JSON does not: the text is rewritten, then
 * yyjson rounds it correctly. Digits past the buffer are dropped only where they are zeros before
 * the first digit; longer numbers are refused. */
bool jinja_parse_double(const char *s, size_t len, double *out) {
    char text[FLOAT_TEXT_BYTES];
    size_t n = 0, i = 0;
    bool has_digit = false, has_point = false, has_exponent = false, is_negative;
    trim_spaces(&s, &len);
    if (parse_named(s, len, out)) return true;
    is_negative = len && *s == '-';
    if (len && (*s == '-' || *s == '+')) i++;
    while (i + 1 < len && s[i] == '0' && digit_of(s[i + 1]) < 10) i++;
    for (; i < len && n + 4 < sizeof(text); i++) {
        char c = s[i];
        if (digit_of(c) < 10) {
            has_digit = true;
        } else if (c == '.' && !has_point && !has_exponent) {
            has_point = true;
            if (!has_digit) text[n++] = '0';
            if (i + 1 >= len || digit_of(s[i + 1]) > 9) {
                if (!has_digit) return false;
                continue;
            }
        } else if ((c == 'e' || c == 'E') && has_digit && !has_exponent) {
            has_exponent = true;
            if (i + 1 < len && (s[i + 1] == '+' || s[i + 1] == '-')) {
                text[n++] = c;
                c = s[++i];
            }
            if (i + 1 >= len || digit_of(s[i + 1]) > 9) return false;
        } else if (c == '_' && i && digit_of(s[i - 1]) < 10 && i + 1 < len &&
                   digit_of(s[i + 1]) < 10) {
            continue;
        } else {
            return false;
        }
        text[n++] = c;
    }
    if (!has_digit || i < len) return false;
    text[n] = '\0';
    yyjson_val val = {0};
    const char *end = yyjson_read_number(text, &val, YYJSON_READ_ALLOW_INF_AND_NAN, NULL, NULL);
    if (!end || *end) return false;
    *out = is_negative ? -yyjson_get_num(&val) : yyjson_get_num(&val);
    return true;
}

/* ---- writing */

__extension__ typedef unsigned __int128 wide_magnitude;

size_t jinja_print_wide(jinja_wide wide, unsigned base, char bytes_out[130]) {
    char digits[130];
    size_t n = 0, len = 0;
    wide_magnitude rest = wide < 0 ? -(wide_magnitude)wide : (wide_magnitude)wide;
    do {
        digits[n++] = "0123456789abcdef"[(unsigned)(rest % base)];
        rest /= base;
    } while (rest);
    if (wide < 0) bytes_out[len++] = '-';
    while (n) bytes_out[len++] = digits[--n];
    return len;
}

/* Shortest digits d1 d2 ... and decimal exponent with value 0.d1d2... x 10^exponent. */
static size_t shortest_digits(double d, char digits_out[20], int *exponent_out) {
    char text[40];
    size_t n = 0;
    for (int precision = 0; precision < 17; precision++) {
        int len = snprintf(text, sizeof(text), "%.*e", precision, d);
        char *e = memchr(text, 'e', (size_t)len);
        n = 0;
        for (char *p = text; p < e; p++)
            if (*p >= '0' && *p <= '9') digits_out[n++] = *p;
        *exponent_out = atoi(e + 1) + 1;
        for (char *p = text; p < e; p++)
            if (*p < '0' || *p > '9') *p = '.';
        yyjson_val val = {0};
        if (yyjson_read_number(text, &val, YYJSON_READ_ALLOW_INF_AND_NAN, NULL, NULL) &&
            yyjson_get_num(&val) == d)
            break;
    }
    while (n > 1 && digits_out[n - 1] == '0') n--;
    return n;
}

size_t jinja_print_double(double d, char bytes_out[JINJA_NUMBER_BYTES]) {
    char digits[20];
    int point;
    size_t len = 0;
    if (isnan(d)) return (size_t)snprintf(bytes_out, JINJA_NUMBER_BYTES, "nan");
    if (signbit(d)) bytes_out[len++] = '-';
    if (isinf(d)) {
        memcpy(bytes_out + len, "inf", 3);
        return len + 3;
    }
    d = fabs(d);
    if (d == 0) {
        memcpy(bytes_out + len, "0.0", 3);
        return len + 3;
    }
    size_t n = shortest_digits(d, digits, &point);
    if (point > 16 || point < -3) {
        bytes_out[len++] = digits[0];
        if (n > 1) bytes_out[len++] = '.';
        memcpy(bytes_out + len, digits + 1, n - 1);
        len += n - 1;
        int exponent = point - 1;
        len += (size_t)snprintf(bytes_out + len, JINJA_NUMBER_BYTES - len, "e%c%02d",
                                exponent < 0 ? '-' : '+', abs(exponent));
        return len;
    }
    if (point <= 0) bytes_out[len++] = '0', bytes_out[len++] = '.';
    for (int i = point; i < 0; i++) bytes_out[len++] = '0';
    for (size_t i = 0; i < n; i++) {
        bytes_out[len++] = digits[i];
        if ((int)i + 1 == point && i + 1 < n) bytes_out[len++] = '.';
    }
    if (point >= (int)n) {
        for (int i = (int)n; i < point; i++) bytes_out[len++] = '0';
        bytes_out[len++] = '.';
        bytes_out[len++] = '0';
    }
    return len;
}

bool jinja_print_fixed(struct buf *out, double d, char conversion, int precision, bool keep_point) {
    char format[16], text[FLOAT_TEXT_BYTES + 128];
    if (precision > 120) precision = 120;
    snprintf(format, sizeof(format), "%%%s.*%c", keep_point ? "#" : "", conversion);
    int len = snprintf(text, sizeof(text), format, precision, d);
    if (len < 0 || (size_t)len >= sizeof(text)) return false;
    for (int i = 0; i < len; i++)
        if (text[i] == ',') text[i] = '.';
    buf_append(out, text, (size_t)len);
    return !out->failed;
}
