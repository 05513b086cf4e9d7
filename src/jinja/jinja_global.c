/* jinja_global.c - functions that every template sees: Jinja's range, dict, namespace, cycler,
 * joiner, and what transformers adds, raise_exception and strftime_now. (lipsum, which makes random
 * text, is absent.)
 *
 * strftime is written out, in English: the C library's follows a locale that an embedding program
 * may have set, and Python under transformers runs in the C locale. */
#include "jinja_builtin.h"

#include "chat_template.h"
#include "jinja_number.h"

#include <string.h>
#include <time.h>

enum { RANGE_ITEMS_MAX = 100000 }; /* jinja2.sandbox.MAX_RANGE */

static bool global_range(struct jinja_run *run, const struct jinja_call *call,
                         struct jinja_value *out) {
    int64_t start = 0, stop, step = 1;
    bool has_start = call->a[1].kind != JINJA_MISSING;
    if (has_start && !jinja_arg_int(run, &call->a[0], &start)) return false;
    if (!jinja_arg_int(run, &call->a[has_start ? 1 : 0], &stop)) return false;
    if (call->a[2].kind != JINJA_MISSING && !jinja_arg_int(run, &call->a[2], &step)) return false;
    if (step == 0) return jinja_fail(run, "range() arg 3 must not be zero");
    jinja_wide span = step > 0 ? (jinja_wide)stop - start : (jinja_wide)start - stop;
    jinja_wide stride = step > 0 ? (jinja_wide)step : -(jinja_wide)step;
    jinja_wide n = span > 0 ? (span + stride - 1) / stride : 0;
    if (n > RANGE_ITEMS_MAX)
        return jinja_fail(run,
                          "Range too big. The sandbox blocks ranges larger than MAX_RANGE (%d).",
                          RANGE_ITEMS_MAX);
    struct jinja_range *range = jinja_alloc(run, 1, sizeof(*range));
    if (!range) return false;
    *range = (struct jinja_range){start, stop, step, (size_t)n};
    *out = (struct jinja_value){.kind = JINJA_RANGE, .as.range = range};
    return true;
}

static bool add_pairs(struct jinja_run *run, struct jinja_dict *dict,
                      const struct jinja_value *pairs) {
    struct jinja_iter it;
    struct jinja_value item;
    struct jinja_list pair;
    enum jinja_next next;
    if (!jinja_iter_begin(run, pairs, &it)) return false;
    while ((next = jinja_iter_next(run, &it, &item)) == JINJA_NEXT_ITEM) {
        if (!jinja_items(run, &item, &pair)) return false;
        if (pair.n != 2)
            return jinja_fail(
                run, "dictionary update sequence element has length %zu; 2 is required", pair.n);
        if (!jinja_dict_set(run, dict, &pair.items[0], &pair.items[1])) return false;
    }
    return next == JINJA_NEXT_END;
}

/* dict(mapping or pairs, **kwargs); namespace() takes the same. */
static bool global_dict(struct jinja_run *run, const struct jinja_call *call,
                        struct jinja_value *out) {
    const struct jinja_args *args = call->args;
    bool is_namespace = call->builtin->name[0] == 'n';
    struct jinja_dict *dict = jinja_dict_make(run, args->n_kwargs);
    if (!dict) return false;
    if (args->n > 1) return jinja_fail(run, "dict expected at most 1 argument, got %zu", args->n);
    if (args->n) {
        struct jinja_value from = args->values[0];
        if (from.kind == JINJA_UNDEFINED) return jinja_fail_undefined(run, &from);
        if (from.kind == JINJA_DICT) from.kind = JINJA_VIEW, from.flag = JINJA_VIEW_ITEMS;
        if (!add_pairs(run, dict, &from)) return false;
    }
    for (size_t i = 0; i < args->n_kwargs; i++)
        if (!jinja_dict_set(run, dict, &args->kwargs[i].name, &args->kwargs[i].value)) return false;
    *out =
        (struct jinja_value){.kind = is_namespace ? JINJA_NAMESPACE : JINJA_DICT, .as.dict = dict};
    return true;
}

static bool make_cycler(struct jinja_run *run, enum jinja_kind kind,
                        const struct jinja_value *items, size_t n, struct jinja_value *out) {
    struct jinja_cycler *cycler = jinja_alloc(run, 1, sizeof(*cycler));
    struct jinja_value *copy = jinja_alloc(run, n, sizeof(*copy));
    if (!cycler || !copy) return false;
    memcpy(copy, items, n * sizeof(*copy));
    *cycler = (struct jinja_cycler){{copy, n}, 0};
    *out = (struct jinja_value){.kind = (uint8_t)kind, .as.cycler = cycler};
    return true;
}

static bool global_cycler(struct jinja_run *run, const struct jinja_call *call,
                          struct jinja_value *out) {
    const struct jinja_args *args = call->args;
    if (!args->n) return jinja_fail(run, "at least one item has to be provided");
    return make_cycler(run, JINJA_CYCLER, args->values, args->n, out);
}

static bool global_joiner(struct jinja_run *run, const struct jinja_call *call,
                          struct jinja_value *out) {
    struct jinja_value separator = jinja_str(", ", 2);
    if (call->a[0].kind != JINJA_MISSING) separator = call->a[0];
    return make_cycler(run, JINJA_JOINER, &separator, 1, out);
}

static bool global_raise_exception(struct jinja_run *run, const struct jinja_call *call,
                                   struct jinja_value *out) {
    struct jinja_value text;
    (void)out;
    if (!jinja_to_str(run, &call->a[0], &text)) return false;
    return jinja_fail(run, "%.*s", text.len > 1000 ? 1000 : (int)text.len, text.as.s);
}

/* ---- strftime */

static bool is_leap(int year) {
    return (year % 4 == 0 && year % 100 != 0) || year % 400 == 0;
}

/* tm_wday (Sakamoto's method) and tm_yday from the date. */
static void complete(struct tm *tm) {
    static const int before[] = {0, 31, 59, 90, 120, 151, 181, 212, 243, 273, 304, 334};
    static const int shift[] = {0, 3, 2, 5, 0, 3, 5, 1, 4, 6, 2, 4};
    int year = tm->tm_year + 1900, y = year - (tm->tm_mon < 2);
    tm->tm_yday = before[tm->tm_mon] + tm->tm_mday - 1 + (tm->tm_mon > 1 && is_leap(year));
    tm->tm_wday = (y + y / 4 - y / 100 + y / 400 + shift[tm->tm_mon] + tm->tm_mday) % 7;
}

static void now(const struct jinja_run *run, struct tm *tm) {
    const struct chat_template_time *t = run->time;
    time_t clock_seconds = time(NULL);
    *tm = (struct tm){0};
    if (!t || !t->is_fixed) {
        localtime_r(&clock_seconds, tm);
        return;
    }
    tm->tm_year = t->year - 1900;
    tm->tm_mon = t->month - 1;
    tm->tm_mday = t->day;
    tm->tm_hour = t->hour;
    tm->tm_min = t->minute;
    tm->tm_sec = t->second;
    complete(tm);
}

/* ISO 8601: weeks begin on Monday, week 1 holds the year's first Thursday. */
static int iso_week(const struct tm *tm, int *year_out) {
    int monday_based = (tm->tm_wday + 6) % 7, year = tm->tm_year + 1900;
    int week = (tm->tm_yday - monday_based + 10) / 7;
    int january_first = ((monday_based - tm->tm_yday) % 7 + 7) % 7;
    bool is_long = january_first == 3 || (january_first == 2 && is_leap(year));
    *year_out = year;
    if (week < 1) {
        int before = (january_first + 7 - (is_leap(year - 1) ? 366 : 365) % 7) % 7;
        *year_out = year - 1;
        return before == 3 || (before == 2 && is_leap(year - 1)) ? 53 : 52;
    }
    if (week == 53 && !is_long) {
        *year_out = year + 1;
        return 1;
    }
    return week;
}

static void put_number(struct buf *b, int value, int width, char pad, char flag) {
    if (flag == '-') width = 1;
    if (flag == '_') pad = ' ';
    if (flag == '0') pad = '0';
    if (pad == '0')
        buf_printf(b, "%0*d", width, value);
    else
        buf_printf(b, "%*d", width, value);
}

static void put_name(struct buf *b, const char *name, size_t len, char flag) {
    for (size_t i = 0; i < len && name[i]; i++) {
        char c = name[i];
        if (flag == '^' && c >= 'a' && c <= 'z') c = (char)(c - 'a' + 'A');
        buf_append_char(b, c);
    }
}

static void format_time(struct buf *b, const char *format, size_t len, const struct tm *tm);

/* Directives that stand for others. */
static const char *expansion(char c) {
    switch (c) {
    case 'c': return "%a %b %e %H:%M:%S %Y";
    case 'D':
    case 'x': return "%m/%d/%y";
    case 'F': return "%Y-%m-%d";
    case 'R': return "%H:%M";
    case 'T':
    case 'X': return "%H:%M:%S";
    case 'r': return "%I:%M:%S %p";
    case 'n': return "\n";
    case 't': return "\t";
    default: return NULL;
    }
}

static bool put_text_directive(struct buf *b, char c, char flag, const struct tm *tm) {
    static const char *const days[] = {"Sunday",   "Monday", "Tuesday", "Wednesday",
                                       "Thursday", "Friday", "Saturday"};
    static const char *const months[] = {"January",   "February", "March",    "April",
                                         "May",       "June",     "July",     "August",
                                         "September", "October",  "November", "December"};
    switch (c) {
    case 'a': put_name(b, days[tm->tm_wday], 3, flag); return true;
    case 'A': put_name(b, days[tm->tm_wday], 16, flag); return true;
    case 'b':
    case 'h': put_name(b, months[tm->tm_mon], 3, flag); return true;
    case 'B': put_name(b, months[tm->tm_mon], 16, flag); return true;
    case 'p': buf_append_str(b, tm->tm_hour < 12 ? "AM" : "PM"); return true;
    case 'P': buf_append_str(b, tm->tm_hour < 12 ? "am" : "pm"); return true;
    case 'f': buf_append_str(b, "000000"); return true;
    case 'z':
    case 'Z': return true; /* a time without a zone */
    case '%': buf_append_char(b, '%'); return true;
    default: return false;
    }
}

static bool put_number_directive(struct buf *b, char c, char flag, const struct tm *tm) {
    int year = tm->tm_year + 1900, iso_year, week = iso_week(tm, &iso_year);
    int hour12 = tm->tm_hour % 12 ? tm->tm_hour % 12 : 12;
    switch (c) {
    case 'd': put_number(b, tm->tm_mday, 2, '0', flag); return true;
    case 'e': put_number(b, tm->tm_mday, 2, ' ', flag); return true;
    case 'm': put_number(b, tm->tm_mon + 1, 2, '0', flag); return true;
    case 'y': put_number(b, year % 100, 2, '0', flag); return true;
    case 'Y': put_number(b, year, 1, '0', flag); return true;
    case 'C': put_number(b, year / 100, 2, '0', flag); return true;
    case 'G': put_number(b, iso_year, 1, '0', flag); return true;
    case 'g': put_number(b, iso_year % 100, 2, '0', flag); return true;
    case 'H': put_number(b, tm->tm_hour, 2, '0', flag); return true;
    case 'k': put_number(b, tm->tm_hour, 2, ' ', flag); return true;
    case 'I': put_number(b, hour12, 2, '0', flag); return true;
    case 'l': put_number(b, hour12, 2, ' ', flag); return true;
    case 'M': put_number(b, tm->tm_min, 2, '0', flag); return true;
    case 'S': put_number(b, tm->tm_sec, 2, '0', flag); return true;
    case 'j': put_number(b, tm->tm_yday + 1, 3, '0', flag); return true;
    case 'u': put_number(b, tm->tm_wday ? tm->tm_wday : 7, 1, '0', flag); return true;
    case 'w': put_number(b, tm->tm_wday, 1, '0', flag); return true;
    case 'U': put_number(b, (tm->tm_yday + 7 - tm->tm_wday) / 7, 2, '0', flag); return true;
    case 'W':
        put_number(b, (tm->tm_yday + 7 - (tm->tm_wday + 6) % 7) / 7, 2, '0', flag);
        return true;
    case 'V': put_number(b, week, 2, '0', flag); return true;
    default: return false;
    }
}

static void format_time(struct buf *b, const char *format, size_t len, const struct tm *tm) {
    for (size_t i = 0; i < len; i++) {
        char flag = ' ';
        if (format[i] != '%' || i + 1 == len) {
            buf_append_char(b, format[i]);
            continue;
        }
        size_t start = i++;
        if (i + 1 < len && format[i] && strchr("-_0^#", format[i])) flag = format[i++];
        const char *inner = expansion(format[i]);
        if (inner)
            format_time(b, inner, strlen(inner), tm);
        else if (!put_text_directive(b, format[i], flag, tm) &&
                 !put_number_directive(b, format[i], flag, tm))
            buf_append(b, format + start, i + 1 - start);
    }
}

static bool global_strftime_now(struct jinja_run *run, const struct jinja_call *call,
                                struct jinja_value *out) {
    struct tm tm;
    struct buf b;
    if (!jinja_arg_str(run, &call->a[0], "strftime() argument 1")) return false;
    now(run, &tm);
    jinja_buf_init(run, &b);
    format_time(&b, call->a[0].as.s, call->a[0].len, &tm);
    return jinja_str_take(run, &b, out);
}

static const struct jinja_builtin globals[] = {
    {"range", global_range, 1, 3, ""},
    {"dict", global_dict, 0, -1, NULL},
    {"namespace", global_dict, 0, -1, NULL},
    {"cycler", global_cycler, 0, -1, NULL},
    {"joiner", global_joiner, 0, 1, "sep"},
    {"raise_exception", global_raise_exception, 1, 1, "message"},
    {"strftime_now", global_strftime_now, 1, 1, "format"},
};

const struct jinja_builtin *jinja_global_find(const char *name, size_t len) {
    return jinja_table_find(globals, sizeof(globals) / sizeof(globals[0]), name, len);
}
