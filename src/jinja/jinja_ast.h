/* jinja_ast.h - the compiled template: a tree in an arena, with names resolved to slots.
 *
 * Scopes. What Jinja compiles to a Python function is here a *function*: the template itself, each
 * macro, each body of a call or generation block, each recursive loop. A running function has an
 * *activation*: its slots, and a link to the activation of the function around it. What Jinja calls
 * a frame (loop body, set block, with, ...) is a *scope*: a list of loads that run on entry.
 * A name node says how many functions outward its slot lies (hops) and which slot it is.
 * Immutable once jinja_scope_resolve() is done.
 * (A little over the limit of a header: all nodes of one tree stand in one place.) */
#ifndef JINJA_AST_H
#define JINJA_AST_H

#include "base/arena.h"
#include "jinja_builtin.h"
#include "jinja_number.h"
#include "jinja_value.h"

enum jinja_node_type {
    /* expressions */
    JINJA_N_CONST,
    JINJA_N_DATA, /* template text: a constant */
    JINJA_N_NAME,
    JINJA_N_NSREF, /* name.attr as a target */
    JINJA_N_TUPLE,
    JINJA_N_LIST,
    JINJA_N_DICT, /* key, value, key, value ... */
    JINJA_N_CONDEXPR,
    JINJA_N_OR,
    JINJA_N_AND,
    JINJA_N_NOT,
    JINJA_N_NEG,
    JINJA_N_POS,
    JINJA_N_BINARY,
    JINJA_N_CONCAT,
    JINJA_N_COMPARE, /* first operand, then JINJA_N_OPERAND ... */
    JINJA_N_OPERAND,
    JINJA_N_GETATTR,
    JINJA_N_GETITEM,
    JINJA_N_SLICE, /* only as the key of GETITEM */
    JINJA_N_CALL,
    JINJA_N_FILTER,
    JINJA_N_TEST,
    /* statements */
    JINJA_N_OUTPUT,
    JINJA_N_FOR,
    JINJA_N_IF,
    JINJA_N_SET,
    JINJA_N_SET_BLOCK,
    JINJA_N_MACRO,
    JINJA_N_CALL_BLOCK, /* with call NULL: a generation block */
    JINJA_N_FILTER_BLOCK,
    JINJA_N_WITH,
    JINJA_N_BLOCK,
    JINJA_N_AUTOESCAPE,
    JINJA_N_LOADER, /* extends, include, import, from: template, then the names it would set */
    JINJA_N_BREAK,
    JINJA_N_CONTINUE
};

enum jinja_compare_op {
    JINJA_C_EQ,
    JINJA_C_NE,
    JINJA_C_GT,
    JINJA_C_GE,
    JINJA_C_LT,
    JINJA_C_LE,
    JINJA_C_IN,
    JINJA_C_NOTIN
};

enum { JINJA_BLOCKS_MAX = 256 };

enum jinja_name_ctx { JINJA_LOAD, JINJA_STORE, JINJA_PARAM };

struct jinja_binding; /* jinja_scope.c */
struct jinja_block_node;

/* One distinct name of the template. */
struct jinja_name {
    struct jinja_value text; /* STR */
    uint32_t id;             /* index into jinja_run.names */
    struct jinja_name *next_in_bucket;
    struct jinja_binding *binding, *spare; /* while names are resolved */
    struct jinja_block_node *block;        /* the block of this name, or NULL */
};

enum jinja_load_action { JINJA_LOAD_UNDEFINED, JINJA_LOAD_RESOLVE, JINJA_LOAD_ALIAS };

struct jinja_slot_ref {
    uint16_t hops;
    uint32_t slot;
};

struct jinja_load {
    enum jinja_load_action action;
    uint32_t slot;              /* of the function the scope lies in */
    uint32_t name_id;           /* RESOLVE */
    struct jinja_slot_ref from; /* ALIAS */
};

struct jinja_scope {
    struct jinja_load *loads; /* [n_loads] */
    size_t n_loads;
};

struct jinja_function {
    uint32_t n_slots;
    struct jinja_scope scope;
};

struct jinja_node;

struct jinja_name_node {
    struct jinja_name *name;
    struct jinja_value attr; /* NSREF: STR */
    struct jinja_slot_ref ref;
    uint8_t ctx;    /* enum jinja_name_ctx */
    bool is_export; /* STORE of the template itself: blocks see it too */
};

struct jinja_list_node {
    struct jinja_node **items; /* [n] */
    uint32_t n;
};

struct jinja_getattr_node {
    struct jinja_node *obj;
    struct jinja_value attr; /* STR */
    const struct jinja_builtin *str_method, *dict_method, *list_method;
};

struct jinja_keyword {
    struct jinja_value name; /* STR */
    struct jinja_node *value;
};

struct jinja_call_node {     /* CALL, FILTER, TEST */
    struct jinja_node *node; /* callee, or what is filtered; NULL in filter blocks */
    struct jinja_value name; /* FILTER, TEST */
    const struct jinja_builtin *builtin;
    struct jinja_node **args; /* [n_args] */
    struct jinja_keyword *kwargs;
    uint32_t n_args, n_kwargs;
    struct jinja_node *dyn_args, *dyn_kwargs;
};

struct jinja_for_node {
    struct jinja_node *target, *iter, *test;
    struct jinja_list_node body, else_body;
    bool is_recursive, has_loop; /* the body mentions `loop` */
    uint32_t loop_slot;
    struct jinja_scope body_scope, else_scope, test_scope;
    struct jinja_node *test_target;  /* target with the slots of the test's scope */
    struct jinja_function *function; /* recursive loops only */
};

struct jinja_branch {
    struct jinja_node *test; /* NULL: else */
    struct jinja_list_node body;
};

struct jinja_if_node {
    struct jinja_branch *branches; /* [n] if, elif ..., else */
    uint32_t n;
};

struct jinja_set_node { /* SET, SET_BLOCK, FILTER_BLOCK, AUTOESCAPE */
    struct jinja_node *target, *value, *filter;
    struct jinja_list_node body;
    struct jinja_scope scope;
};

struct jinja_macro_node {         /* MACRO, CALL_BLOCK */
    struct jinja_node *name;      /* NAME to store to; NULL in call blocks */
    struct jinja_node *call;      /* CALL_BLOCK */
    struct jinja_node **params;   /* [n_params] NAME */
    struct jinja_node **defaults; /* [n_defaults] of the last parameters */
    uint32_t n_params, n_defaults;
    bool has_caller, has_kwargs, has_varargs; /* the body mentions them */
    bool is_caller_explicit;                  /* a parameter is called caller */
    uint32_t caller_slot, kwargs_slot, varargs_slot;
    struct jinja_list_node body;
    struct jinja_function function;
};

struct jinja_with_node {
    struct jinja_node **targets, **values; /* [n] */
    uint32_t n;
    struct jinja_list_node body;
    struct jinja_scope scope;
};

/* A name of the scope around a block that the block is to see. */
struct jinja_block_local {
    uint32_t name_id;
    struct jinja_slot_ref ref;
};

struct jinja_block_node {
    struct jinja_name *name;
    struct jinja_list_node body;
    struct jinja_function function; /* without an outer one: sees the context only */
    bool is_scoped, is_required, has_self;
    uint32_t self_slot;
    struct jinja_block_local *locals; /* [n_locals] where scoped */
    size_t n_locals;
};

struct jinja_node {
    uint8_t type;    /* enum jinja_node_type */
    uint8_t op;      /* jinja_op, jinja_compare_op; LOADER: first letter of the tag */
    uint16_t height; /* of the tree below: bounds the recursion of whoever walks it */
    uint32_t line;
    union {
        struct jinja_value value; /* CONST, DATA */
        struct jinja_name_node name;
        struct jinja_list_node list;
        struct {
            struct jinja_node *a, *b, *c;
        } sub; /* CONDEXPR: test, then, else or NULL. SLICE: parts or NULL. GETITEM: object, key */
        struct jinja_getattr_node getattr;
        struct jinja_call_node *call;
        struct jinja_for_node *loop;
        struct jinja_if_node *branch;
        struct jinja_set_node *set;
        struct jinja_macro_node *macro;
        struct jinja_with_node *with;
        struct jinja_block_node *block;
    } as;
};

struct jinja_template {
    struct arena arena;
    struct jinja_limits limits;
    const char *source; /* normalised */
    size_t source_len;
    struct jinja_list_node body;
    struct jinja_function function;
    struct jinja_name **names; /* [n_names] by id */
    size_t n_names;
    bool has_self; /* the template itself, outside of its blocks, says `self` */
    uint32_t self_slot;
    struct jinja_block_node *blocks[JINJA_BLOCKS_MAX]; /* [n_blocks] */
    size_t n_blocks;
};

/* jinja_parser.c: source to tree. E_TEMPLATE names the line. */
enum radish_status jinja_parse(struct jinja_template *t, const char *source, size_t len,
                               struct radish_error *err) RADISH_CHECK_RESULT;

/* jinja_scope.c: names to slots; also the checks that Jinja's compiler makes. */
enum radish_status jinja_scope_resolve(struct jinja_template *t,
                                       struct radish_error *err) RADISH_CHECK_RESULT;

/* jinja_parts.c */
bool jinja_reads_parts(const struct jinja_template *t);

#endif
