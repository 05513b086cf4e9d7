/* jinja_value.h - the values a template works on: Python's, as far as templates can see them.
 *
 * A value is 16 bytes, copied freely. What it points to lives in the arena of the render (or in the
 * JSON document, or in the compiled template) and is never changed once built, with two exceptions:
 * namespaces, and the positions of iterators. Since a template cannot change a list or a dict, they
 * cannot hold themselves; only a namespace can be made to.
 *
 * Invariants: text is valid UTF-8. JINJA_MISSING never reaches a template: it marks an empty slot
 * or an argument that was not given. An integer is JINJA_INT whenever it fits 64 bits, else
 * JINJA_BIG. Threads: one at a time. */
#ifndef JINJA_VALUE_H
#define JINJA_VALUE_H

#include "radish.h"

#include "base/buf.h"

#include <yyjson.h>

struct jinja_run;
struct jinja_macro;
struct jinja_loop;
struct jinja_value;
struct jinja_builtin;
struct jinja_block_node;

__extension__ typedef __int128 jinja_wide;

enum jinja_kind {
    JINJA_MISSING,
    JINJA_UNDEFINED,
    JINJA_NONE,
    JINJA_BOOL,
    JINJA_INT,
    JINJA_BIG,
    JINJA_FLOAT,
    JINJA_STR,
    JINJA_LIST,
    JINJA_TUPLE,
    JINJA_DICT,
    JINJA_RANGE,
    JINJA_VIEW, /* dict.keys(), .values(), .items() */
    JINJA_ITER, /* what a generator gives: iterated once */
    JINJA_NAMESPACE,
    JINJA_MACRO,
    JINJA_BUILTIN, /* a global function */
    JINJA_METHOD,  /* a method bound to its object */
    JINJA_LOOP,
    JINJA_CYCLER,
    JINJA_JOINER,
    JINJA_SELF, /* the template as `self`, which has its blocks */
    JINJA_BLOCK
};

enum jinja_undefined_why {
    JINJA_WHY_NAME,      /* 'x' is undefined */
    JINJA_WHY_ATTRIBUTE, /* 'dict object' has no attribute 'x' */
    JINJA_WHY_ELEMENT,   /* dict object has no element 3 */
    JINJA_WHY_PARAM,     /* parameter 'x' was not provided */
    JINJA_WHY_HINT,      /* the text says it all */
    JINJA_WHY_UNSAFE     /* access to attribute 'x' of 'list' object is unsafe. */
};

enum jinja_view_which { JINJA_VIEW_KEYS, JINJA_VIEW_VALUES, JINJA_VIEW_ITEMS };

struct jinja_value {
    uint8_t kind; /* enum jinja_kind */
    uint8_t flag; /* STR: is Markup. UNDEFINED: jinja_undefined_why. VIEW: jinja_view_which */
    uint8_t of;   /* UNDEFINED: kind of the object that lacks it */
    uint32_t len; /* STR: bytes. UNDEFINED: bytes of the name or hint */
    union {
        bool b;
        int64_t i;
        double f;
        const char *s; /* [len], no NUL behind it */
        const jinja_wide *big;
        struct jinja_list *list;
        struct jinja_dict *dict; /* also NAMESPACE and VIEW */
        struct jinja_range *range;
        struct jinja_list_iter *iter;
        struct jinja_macro *macro;
        const struct jinja_builtin *builtin;
        struct jinja_method *method;
        struct jinja_loop *loop;
        struct jinja_cycler *cycler;
        const struct jinja_block_node *block;
    } as;
};

struct jinja_list {
    const struct jinja_value *items; /* [n] */
    size_t n;
};

struct jinja_entry {
    struct jinja_value key, value;
};

struct jinja_dict {
    struct jinja_entry *entries; /* [n] in order of insertion */
    uint32_t n, capacity;
    uint32_t *index; /* [index_mask + 1] entry + 1, 0 = free; NULL while the dict is small */
    uint32_t index_mask;
};

struct jinja_range {
    int64_t start, stop, step;
    size_t n;
};

struct jinja_list_iter {
    struct jinja_list list;
    size_t pos;
    const char *type; /* what Python would call it: "generator" */
};

struct jinja_method {
    struct jinja_value self;
    const struct jinja_builtin *builtin;
};

struct jinja_cycler { /* also a joiner: items[0] is the separator, pos 1 once it was used */
    struct jinja_list items;
    size_t pos;
};

static inline struct jinja_value jinja_none(void) {
    return (struct jinja_value){.kind = JINJA_NONE};
}
static inline struct jinja_value jinja_bool(bool b) {
    return (struct jinja_value){.kind = JINJA_BOOL, .as.b = b};
}
static inline struct jinja_value jinja_int(int64_t i) {
    return (struct jinja_value){.kind = JINJA_INT, .as.i = i};
}
static inline struct jinja_value jinja_float(double f) {
    return (struct jinja_value){.kind = JINJA_FLOAT, .as.f = f};
}
static inline struct jinja_value jinja_str(const char *s, size_t len) {
    return (struct jinja_value){.kind = JINJA_STR, .len = (uint32_t)len, .as.s = s};
}
struct jinja_value jinja_str_static(const char *s); /* borrowed for ever */
static inline bool jinja_is(const struct jinja_value *v, enum jinja_kind kind) {
    return v->kind == kind;
}
static inline bool jinja_is_str(const struct jinja_value *v, const char *s, size_t len) {
    return v->kind == JINJA_STR && v->len == len && !__builtin_memcmp(v->as.s, s, len);
}

/* ---- undefined */
struct jinja_value jinja_undefined_name(const char *name, size_t len);
struct jinja_value jinja_undefined_param(const struct jinja_value *name);
struct jinja_value jinja_undefined_hint(const char *hint); /* static text */
struct jinja_value jinja_undefined_attribute(const struct jinja_value *obj,
                                             const struct jinja_value *name);
/* Fails with the message of an undefined value that was used; always false. */
bool jinja_fail_undefined(struct jinja_run *run, const struct jinja_value *undefined);

/* ---- making; false when memory or a limit ends */
bool jinja_str_copy(struct jinja_run *run, const char *s, size_t len, struct jinja_value *out);
bool jinja_str_take(struct jinja_run *run, struct buf *b,
                    struct jinja_value *out); /* copies, then deinits b */
bool jinja_concat(struct jinja_run *run, const struct jinja_value *a, const struct jinja_value *b,
                  struct jinja_value *out); /* two STR */
bool jinja_list_make(struct jinja_run *run, enum jinja_kind kind, const struct jinja_value *items,
                     size_t n, struct jinja_value *out); /* items are borrowed for the render */
bool jinja_pair(struct jinja_run *run, const struct jinja_value *a, const struct jinja_value *b,
                struct jinja_value *out);
bool jinja_iter_make(struct jinja_run *run, const struct jinja_list *list, const char *type,
                     struct jinja_value *out);
bool jinja_from_json(struct jinja_run *run, yyjson_val *json, struct jinja_value *out);

/* A growing array in the arena. */
struct jinja_vec {
    struct jinja_value *items;
    size_t n, capacity;
};
bool jinja_vec_push(struct jinja_run *run, struct jinja_vec *vec, const struct jinja_value *v);

/* ---- dicts. Keys that cannot be hashed fail as in Python. */
struct jinja_dict *jinja_dict_make(struct jinja_run *run, size_t capacity); /* NULL: failed */
bool jinja_dict_set(struct jinja_run *run, struct jinja_dict *dict, const struct jinja_value *key,
                    const struct jinja_value *value);
/* found_out NULL when absent. */
bool jinja_dict_find(struct jinja_run *run, const struct jinja_dict *dict,
                     const struct jinja_value *key, const struct jinja_value **found_out);
const struct jinja_value *jinja_dict_find_str(const struct jinja_dict *dict, const char *key,
                                              size_t len);

/* ---- asking */
const char *jinja_type_name(unsigned kind); /* Python's: "str", "list", ... */
bool jinja_truth(const struct jinja_value *v);
bool jinja_equal(struct jinja_run *run, const struct jinja_value *a, const struct jinja_value *b,
                 bool *equal_out);
/* -1, 0, 1, or 2 for numbers that have no order (NaN); fails for types that have none. op is for
 * the message only. */
bool jinja_order(struct jinja_run *run, const struct jinja_value *a, const struct jinja_value *b,
                 const char *op, int *order_out);
/* Stable; order_out: [n] positions of keys in ascending (descending) order. */
bool jinja_sort(struct jinja_run *run, const struct jinja_value *keys, size_t n, bool is_reverse,
                uint32_t *order_out);
bool jinja_length(struct jinja_run *run, const struct jinja_value *v, size_t *n_out);
bool jinja_contains(struct jinja_run *run, const struct jinja_value *container,
                    const struct jinja_value *item, bool *found_out);
bool jinja_is_iterable(const struct jinja_value *v);

/* ---- iterating */
struct jinja_iter {
    struct jinja_value of;
    size_t pos; /* item, or byte of a text */
};
enum jinja_next { JINJA_NEXT_FAILED, JINJA_NEXT_ITEM, JINJA_NEXT_END };

bool jinja_iter_begin(struct jinja_run *run, const struct jinja_value *v, struct jinja_iter *it);
enum jinja_next jinja_iter_next(struct jinja_run *run, struct jinja_iter *it,
                                struct jinja_value *out);
/* All items (what is left of an iterator), shared with v where it is a list. */
bool jinja_items(struct jinja_run *run, const struct jinja_value *v, struct jinja_list *out);

/* ---- as text */
void jinja_write_str(struct jinja_run *run, const struct jinja_value *v, struct buf *out);
void jinja_write_repr(struct jinja_run *run, const struct jinja_value *v, struct buf *out);
/* str(v); v itself where it is a text. */
bool jinja_to_str(struct jinja_run *run, const struct jinja_value *v, struct jinja_value *out);

struct jinja_json_style {
    bool ensure_ascii, sort_keys, has_indent;
    struct jinja_value indent; /* STR, one level */
    struct jinja_value item_separator, key_separator;
};
bool jinja_to_json(struct jinja_run *run, const struct jinja_value *v,
                   const struct jinja_json_style *style, struct buf *out);

#endif
