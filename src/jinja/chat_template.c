/* chat_template.c - the interpreter under the name that the rest of radish knows, with the limits
 * of production, and the two questions that only chats ask: what time is it, and who reads parts.
 */
#include "chat_template.h"

#include "base/status.h"
#include "jinja.h"
#include "jinja_ast.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

struct chat_template {
    struct jinja_template *jinja;
    bool reads_parts;
};

enum radish_status chat_template_compile(const char *source, size_t len,
                                         struct chat_template **template_out,
                                         struct radish_error *err) {
    *template_out = NULL;
    struct chat_template *t = calloc(1, sizeof(*t));
    if (!t) return error_nomem(err);
    enum radish_status status = jinja_compile(source, len, &jinja_limits_default, &t->jinja, err);
    if (status != RADISH_OK) {
        free(t);
        return status;
    }
    t->reads_parts = jinja_reads_parts(t->jinja);
    *template_out = t;
    return RADISH_OK;
}

void chat_template_destroy(struct chat_template *t) {
    if (!t) return;
    jinja_destroy(t->jinja);
    free(t);
}

bool chat_template_reads_parts(const struct chat_template *t) {
    return t->reads_parts;
}

enum radish_status chat_template_render(const struct chat_template *t, yyjson_val *variables,
                                        const struct chat_template_time *time, struct buf *out,
                                        struct radish_error *err) {
    return jinja_render(t->jinja, variables, time, out, err);
}

/* Exactly n digits at *text; moves it. */
static bool take_digits(const char **text, int n, int *out) {
    *out = 0;
    for (int i = 0; i < n; i++, (*text)++) {
        if (**text < '0' || **text > '9') return false;
        *out = *out * 10 + (**text - '0');
    }
    return true;
}

static bool take_char(const char **text, char c) {
    if (**text != c) return false;
    (*text)++;
    return true;
}

static int days_in(int year, int month) {
    static const int days[] = {31, 28, 31, 30, 31, 30, 31, 31, 30, 31, 30, 31};
    bool is_leap = (year % 4 == 0 && year % 100 != 0) || year % 400 == 0;
    return days[month - 1] + (month == 2 && is_leap);
}

enum radish_status chat_template_time_parse(const char *text, struct chat_template_time *time_out,
                                            struct radish_error *err) {
    struct chat_template_time t = {.is_fixed = true};
    const char *p = text;
    *time_out = (struct chat_template_time){0};
    bool is_ok = take_digits(&p, 4, &t.year) && take_char(&p, '-') &&
                 take_digits(&p, 2, &t.month) && take_char(&p, '-') && take_digits(&p, 2, &t.day);
    if (is_ok && *p)
        is_ok = (take_char(&p, 'T') || take_char(&p, ' ')) && take_digits(&p, 2, &t.hour) &&
                take_char(&p, ':') && take_digits(&p, 2, &t.minute) && take_char(&p, ':') &&
                take_digits(&p, 2, &t.second) && !*p;
    is_ok = is_ok && t.year >= 1 && t.month >= 1 && t.month <= 12 && t.day >= 1 &&
            t.day <= days_in(t.year, t.month) && t.hour < 24 && t.minute < 60 && t.second < 60;
    if (!is_ok)
        return error_set(err, RADISH_E_INVALID,
                         "'%.40s' is no time; write it as 2026-11-29T00:00:00", text);
    *time_out = t;
    return RADISH_OK;
}
