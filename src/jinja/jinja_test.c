/* jinja_test.c - what can stand after `is`: Jinja's tests. All give true or false.
 *
 * Types are Python's: true is a number (and an integer to arithmetic, but not to `is integer`), a
 * text is a sequence and iterable, undefined is both as well. */
#include "jinja_builtin.h"

#include "jinja_number.h"
#include "jinja_text.h"

#include <string.h>

static bool answer(struct jinja_value *out, bool is_true) {
    *out = jinja_bool(is_true);
    return true;
}

static bool test_defined(struct jinja_run *run, const struct jinja_call *call,
                         struct jinja_value *out) {
    (void)run;
    return answer(out, call->a[0].kind != JINJA_UNDEFINED);
}

static bool test_undefined(struct jinja_run *run, const struct jinja_call *call,
                           struct jinja_value *out) {
    (void)run;
    return answer(out, call->a[0].kind == JINJA_UNDEFINED);
}

static bool test_none(struct jinja_run *run, const struct jinja_call *call,
                      struct jinja_value *out) {
    (void)run;
    return answer(out, call->a[0].kind == JINJA_NONE);
}

static bool test_boolean(struct jinja_run *run, const struct jinja_call *call,
                         struct jinja_value *out) {
    (void)run;
    return answer(out, call->a[0].kind == JINJA_BOOL);
}

static bool test_true(struct jinja_run *run, const struct jinja_call *call,
                      struct jinja_value *out) {
    (void)run;
    return answer(out, call->a[0].kind == JINJA_BOOL && call->a[0].as.b);
}

static bool test_false(struct jinja_run *run, const struct jinja_call *call,
                       struct jinja_value *out) {
    (void)run;
    return answer(out, call->a[0].kind == JINJA_BOOL && !call->a[0].as.b);
}

static bool test_integer(struct jinja_run *run, const struct jinja_call *call,
                         struct jinja_value *out) {
    (void)run;
    return answer(out, call->a[0].kind == JINJA_INT || call->a[0].kind == JINJA_BIG);
}

static bool test_float(struct jinja_run *run, const struct jinja_call *call,
                       struct jinja_value *out) {
    (void)run;
    return answer(out, call->a[0].kind == JINJA_FLOAT);
}

static bool test_number(struct jinja_run *run, const struct jinja_call *call,
                        struct jinja_value *out) {
    (void)run;
    return answer(out, jinja_is_number(&call->a[0]));
}

static bool test_string(struct jinja_run *run, const struct jinja_call *call,
                        struct jinja_value *out) {
    (void)run;
    return answer(out, call->a[0].kind == JINJA_STR);
}

static bool test_mapping(struct jinja_run *run, const struct jinja_call *call,
                         struct jinja_value *out) {
    (void)run;
    return answer(out, call->a[0].kind == JINJA_DICT);
}

static bool test_sequence(struct jinja_run *run, const struct jinja_call *call,
                          struct jinja_value *out) {
    (void)run;
    uint8_t kind = call->a[0].kind;
    return answer(out, kind == JINJA_UNDEFINED || kind == JINJA_STR || kind == JINJA_LIST ||
                           kind == JINJA_TUPLE || kind == JINJA_DICT || kind == JINJA_RANGE);
}

static bool test_iterable(struct jinja_run *run, const struct jinja_call *call,
                          struct jinja_value *out) {
    (void)run;
    return answer(out, jinja_is_iterable(&call->a[0]) || call->a[0].kind == JINJA_LOOP);
}

static bool test_callable(struct jinja_run *run, const struct jinja_call *call,
                          struct jinja_value *out) {
    (void)run;
    return answer(out, jinja_is_callable(&call->a[0]));
}

static bool test_escaped(struct jinja_run *run, const struct jinja_call *call,
                         struct jinja_value *out) {
    (void)run;
    return answer(out, call->a[0].kind == JINJA_STR && call->a[0].flag);
}

/* The same object: of scalars, the same value of the same type. */
static bool test_sameas(struct jinja_run *run, const struct jinja_call *call,
                        struct jinja_value *out) {
    const struct jinja_value *a = &call->a[0], *b = &call->a[1];
    bool is_same = a->kind == b->kind;
    if (is_same && (a->kind <= JINJA_FLOAT || a->kind == JINJA_STR))
        return jinja_equal(run, a, b, &is_same) && answer(out, is_same);
    return answer(out, is_same && a->as.dict == b->as.dict);
}

static bool in_case(struct jinja_run *run, const struct jinja_value *v, enum jinja_class which,
                    struct jinja_value *out) {
    struct jinja_value s;
    return jinja_to_str(run, v, &s) && answer(out, jinja_text_is(s.as.s, s.len, which));
}

static bool test_lower(struct jinja_run *run, const struct jinja_call *call,
                       struct jinja_value *out) {
    return in_case(run, &call->a[0], JINJA_CLASS_LOWER, out);
}

static bool test_upper(struct jinja_run *run, const struct jinja_call *call,
                       struct jinja_value *out) {
    return in_case(run, &call->a[0], JINJA_CLASS_UPPER, out);
}

/* value % divisor == remainder */
static bool has_remainder(struct jinja_run *run, const struct jinja_value *value,
                          const struct jinja_value *divisor, int64_t remainder,
                          struct jinja_value *out) {
    struct jinja_value rest, wanted = jinja_int(remainder);
    bool is_equal;
    return jinja_binary(run, JINJA_OP_MOD, value, divisor, &rest) &&
           jinja_equal(run, &rest, &wanted, &is_equal) && answer(out, is_equal);
}

static bool test_odd(struct jinja_run *run, const struct jinja_call *call,
                     struct jinja_value *out) {
    struct jinja_value two = jinja_int(2);
    return has_remainder(run, &call->a[0], &two, 1, out);
}

static bool test_even(struct jinja_run *run, const struct jinja_call *call,
                      struct jinja_value *out) {
    struct jinja_value two = jinja_int(2);
    return has_remainder(run, &call->a[0], &two, 0, out);
}

static bool test_divisibleby(struct jinja_run *run, const struct jinja_call *call,
                             struct jinja_value *out) {
    return has_remainder(run, &call->a[0], &call->a[1], 0, out);
}

static bool test_in(struct jinja_run *run, const struct jinja_call *call, struct jinja_value *out) {
    bool is_found;
    return jinja_contains(run, &call->a[1], &call->a[0], &is_found) && answer(out, is_found);
}

static bool test_eq(struct jinja_run *run, const struct jinja_call *call, struct jinja_value *out) {
    bool is_equal;
    return jinja_equal(run, &call->a[0], &call->a[1], &is_equal) && answer(out, is_equal);
}

static bool test_ne(struct jinja_run *run, const struct jinja_call *call, struct jinja_value *out) {
    bool is_equal;
    return jinja_equal(run, &call->a[0], &call->a[1], &is_equal) && answer(out, !is_equal);
}

static bool test_gt(struct jinja_run *run, const struct jinja_call *call, struct jinja_value *out) {
    int order;
    return jinja_order(run, &call->a[0], &call->a[1], ">", &order) && answer(out, order == 1);
}

static bool test_ge(struct jinja_run *run, const struct jinja_call *call, struct jinja_value *out) {
    int order;
    return jinja_order(run, &call->a[0], &call->a[1], ">=", &order) &&
           answer(out, order == 1 || order == 0);
}

static bool test_lt(struct jinja_run *run, const struct jinja_call *call, struct jinja_value *out) {
    int order;
    return jinja_order(run, &call->a[0], &call->a[1], "<", &order) && answer(out, order == -1);
}

static bool test_le(struct jinja_run *run, const struct jinja_call *call, struct jinja_value *out) {
    int order;
    return jinja_order(run, &call->a[0], &call->a[1], "<=", &order) &&
           answer(out, order == -1 || order == 0);
}

/* What is looked up in a table must be a key. */
static bool is_in_table(struct jinja_run *run, const struct jinja_value *v,
                        const struct jinja_builtin *(*find)(const char *, size_t),
                        struct jinja_value *out) {
    struct jinja_dict *dict = jinja_dict_make(run, 1);
    return dict && jinja_dict_set(run, dict, v, v) &&
           answer(out, v->kind == JINJA_STR && find(v->as.s, v->len));
}

static bool test_filter(struct jinja_run *run, const struct jinja_call *call,
                        struct jinja_value *out) {
    return is_in_table(run, &call->a[0], jinja_filter_find, out);
}

static bool test_test(struct jinja_run *run, const struct jinja_call *call,
                      struct jinja_value *out) {
    return is_in_table(run, &call->a[0], jinja_test_find, out);
}

static const struct jinja_builtin tests[] = {
    {"defined", test_defined, 1, 1, "value"},
    {"undefined", test_undefined, 1, 1, "value"},
    {"none", test_none, 1, 1, "value"},
    {"string", test_string, 1, 1, "value"},
    {"mapping", test_mapping, 1, 1, "value"},
    {"iterable", test_iterable, 1, 1, "value"},
    {"sequence", test_sequence, 1, 1, "value"},
    {"number", test_number, 1, 1, "value"},
    {"integer", test_integer, 1, 1, "value"},
    {"float", test_float, 1, 1, "value"},
    {"boolean", test_boolean, 1, 1, "value"},
    {"true", test_true, 1, 1, "value"},
    {"false", test_false, 1, 1, "value"},
    {"callable", test_callable, 1, 1, "obj"},
    {"sameas", test_sameas, 2, 2, "value,other"},
    {"escaped", test_escaped, 1, 1, "value"},
    {"lower", test_lower, 1, 1, "value"},
    {"upper", test_upper, 1, 1, "value"},
    {"odd", test_odd, 1, 1, "value"},
    {"even", test_even, 1, 1, "value"},
    {"divisibleby", test_divisibleby, 2, 2, "value,num"},
    {"in", test_in, 2, 2, "value,seq"},
    {"eq", test_eq, 2, 2, "a,b"},
    {"==", test_eq, 2, 2, "a,b"},
    {"equalto", test_eq, 2, 2, "a,b"},
    {"ne", test_ne, 2, 2, "a,b"},
    {"!=", test_ne, 2, 2, "a,b"},
    {"gt", test_gt, 2, 2, "a,b"},
    {">", test_gt, 2, 2, "a,b"},
    {"greaterthan", test_gt, 2, 2, "a,b"},
    {"ge", test_ge, 2, 2, "a,b"},
    {">=", test_ge, 2, 2, "a,b"},
    {"lt", test_lt, 2, 2, "a,b"},
    {"<", test_lt, 2, 2, "a,b"},
    {"lessthan", test_lt, 2, 2, "a,b"},
    {"le", test_le, 2, 2, "a,b"},
    {"<=", test_le, 2, 2, "a,b"},
    {"filter", test_filter, 1, 1, "value"},
    {"test", test_test, 1, 1, "value"},
};

const struct jinja_builtin *jinja_test_find(const char *name, size_t len) {
    return jinja_table_find(tests, sizeof(tests) / sizeof(tests[0]), name, len);
}
