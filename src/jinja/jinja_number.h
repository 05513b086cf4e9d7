/* jinja_number.h - Python's int, float and bool: arithmetic, order, text in both directions.
 *
 * Integers are exact up to 127 bits; past that a limit is reported, never a wrong result. */
#ifndef JINJA_NUMBER_H
#define JINJA_NUMBER_H

#include "jinja_run.h"
#include "jinja_value.h"

enum jinja_op {
    JINJA_OP_ADD,
    JINJA_OP_SUB,
    JINJA_OP_MUL,
    JINJA_OP_DIV,
    JINJA_OP_FLOORDIV,
    JINJA_OP_MOD,
    JINJA_OP_POW
};

static inline bool jinja_is_integer(const struct jinja_value *v) {
    return v->kind == JINJA_BOOL || v->kind == JINJA_INT || v->kind == JINJA_BIG;
}
static inline bool jinja_is_number(const struct jinja_value *v) {
    return v->kind >= JINJA_BOOL && v->kind <= JINJA_FLOAT;
}
jinja_wide jinja_wide_of(const struct jinja_value *v); /* of an integer */
double jinja_double_of(const struct jinja_value *v);   /* of a number */
bool jinja_from_wide(struct jinja_run *run, jinja_wide wide, struct jinja_value *out);
bool jinja_from_double(struct jinja_run *run, double d, struct jinja_value *out); /* int(d) */

/* Two numbers. */
bool jinja_arithmetic(struct jinja_run *run, enum jinja_op op, const struct jinja_value *a,
                      const struct jinja_value *b, struct jinja_value *out);
int jinja_number_order(const struct jinja_value *a,
                       const struct jinja_value *b); /* -1 0 1, 2 NaN */
bool jinja_negate(struct jinja_run *run, const struct jinja_value *v, struct jinja_value *out);

/* int(text, base) and float(text); false when the text is no number (nothing is noted), or does not
 * fit. base 0, or 2..36. */
bool jinja_parse_wide(const char *s, size_t len, int base, jinja_wide *out);
bool jinja_parse_double(const char *s, size_t len, double *out);

enum { JINJA_NUMBER_BYTES = 48 };
size_t jinja_print_wide(jinja_wide wide, unsigned base, char bytes_out[130]);
size_t jinja_print_double(double d, char bytes_out[JINJA_NUMBER_BYTES]); /* repr */
/* Digits of d in %e form with `digits` after the point, free of the locale. */
bool jinja_print_fixed(struct buf *out, double d, char conversion, int precision, bool keep_point);

#endif
