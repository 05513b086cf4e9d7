/* jinja_parser.h - shared by jinja_parser.c, jinja_parse_expr.c and jinja_parse_stmt.c.
 *
 * A parse function returns its node, or NULL after parser_fail() has noted why. */
#ifndef JINJA_PARSER_H
#define JINJA_PARSER_H

#include "jinja_ast.h"
#include "jinja_lexer.h"

enum {
    JINJA_HEIGHT_MAX = 250,      /* of the tree */
    JINJA_PARSE_DEPTH_MAX = 100, /* of brackets and tags inside one another */
    JINJA_ARGS_MAX = 255,
    JINJA_NAME_BUCKETS = 1024
};

/* Names whose mere mention changes how a loop or a macro works. */
enum jinja_special {
    JINJA_SPECIAL_LOOP,
    JINJA_SPECIAL_CALLER,
    JINJA_SPECIAL_KWARGS,
    JINJA_SPECIAL_VARARGS,
    JINJA_SPECIAL_SELF,
    JINJA_N_SPECIALS
};

/* A loop's or macro's body being parsed: which special names it has used, and which it has set
 * itself before (those are then names like any other). */
struct jinja_body_mentions {
    bool is_used[JINJA_N_SPECIALS], is_set[JINJA_N_SPECIALS];
    struct jinja_body_mentions *outer;
};

struct jinja_parser {
    struct jinja_template *t;
    const struct jinja_token *at; /* current token */
    unsigned depth;
    bool is_target; /* names are being parsed as targets */
    unsigned loop_depth;
    struct jinja_body_mentions *mentions;
    struct jinja_name *buckets[JINJA_NAME_BUCKETS];
    size_t names_capacity;
    enum radish_status status;
    struct radish_error *err;
};

void *parser_fail(struct jinja_parser *p, uint32_t line, const char *fmt, ...)
    RADISH_PRINTF(3, 4); /* always NULL */
void *parser_fail_limit(struct jinja_parser *p, const char *what);
void *parser_alloc(struct jinja_parser *p, size_t n, size_t size); /* zeroed */
struct jinja_node *parser_node(struct jinja_parser *p, enum jinja_node_type type, uint32_t line);
/* Makes node as high as its child needs; NULL when that is too high. */
struct jinja_node *parser_adopt(struct jinja_parser *p, struct jinja_node *node,
                                const struct jinja_node *child);
bool parser_push(struct jinja_parser *p, struct jinja_list_node *list, struct jinja_node *item);

static inline bool parser_is(const struct jinja_parser *p, enum jinja_token_type type) {
    return p->at->type == type;
}
bool parser_is_word(const struct jinja_parser *p, const char *word); /* a name token */
bool parser_skip_word(struct jinja_parser *p, const char *word);
bool parser_skip(struct jinja_parser *p, enum jinja_token_type type);
bool parser_expect(struct jinja_parser *p, enum jinja_token_type type);
static inline void parser_next(struct jinja_parser *p) {
    if (p->at->type != JINJA_T_EOF) p->at++;
}
bool parser_enter(struct jinja_parser *p);
static inline void parser_leave(struct jinja_parser *p) {
    p->depth--;
}

/* The one struct of this name; NULL = failed. */
struct jinja_name *parser_intern(struct jinja_parser *p, const struct jinja_token *token);
struct jinja_node *parser_name(struct jinja_parser *p, const struct jinja_token *token,
                               enum jinja_name_ctx ctx);
void parser_mention(struct jinja_parser *p, const struct jinja_token *token,
                    enum jinja_name_ctx ctx);

struct jinja_tuple_rules {
    bool is_simple;      /* only primaries: targets */
    bool has_condexpr;   /* a if b else c is allowed */
    bool is_explicit;    /* in parentheses: may be empty */
    bool has_namespaces; /* names may be NSREF */
    const char *end_word;
};
struct jinja_node *parser_tuple(struct jinja_parser *p, const struct jinja_tuple_rules *rules);
struct jinja_node *parser_expression(struct jinja_parser *p, bool has_condexpr);
struct jinja_node *parser_string(struct jinja_parser *p); /* adjacent literals join */
struct jinja_node *parser_number(struct jinja_parser *p);
struct jinja_node *parser_primary(struct jinja_parser *p, bool has_namespaces);
/* Filters on `node` (NULL in filter and set blocks); is_inline: the first has no '|'. NULL without
 * failure when there is none and node is NULL. */
struct jinja_node *parser_filters(struct jinja_parser *p, struct jinja_node *node, bool is_inline);

/* Statements until the end of the template. */
bool parser_template(struct jinja_parser *p, struct jinja_list_node *body_out);

#endif
