/* jinja_parse_expr.c - expressions by recursive descent, as Jinja's own parser: same precedences,
 * same oddities.
 *
 * The oddities that templates live by: a filter or test binds tighter than any operator, except
 * that unary minus takes its operand first (-x|abs is (-x)|abs); `not` binds looser than
 * comparisons; ** is left-associative; ~ binds tighter than +; `is` takes one bare argument without
 * parentheses. Each operator's function parses its operands with the next tighter one. */
#include "jinja_parser.h"

#include <string.h>

/* ---- displays */

static struct jinja_node *parse_list(struct jinja_parser *p) {
    struct jinja_node *node = parser_node(p, JINJA_N_LIST, p->at->line);
    parser_next(p);
    while (node && !parser_is(p, JINJA_T_RBRACKET)) {
        if (node->as.list.n && !parser_expect(p, JINJA_T_COMMA)) return NULL;
        if (parser_is(p, JINJA_T_RBRACKET)) break;
        struct jinja_node *item = parser_expression(p, true);
        if (!parser_adopt(p, node, item) || !parser_push(p, &node->as.list, item)) return NULL;
    }
    parser_next(p);
    return node;
}

static struct jinja_node *parse_dict(struct jinja_parser *p) {
    struct jinja_node *node = parser_node(p, JINJA_N_DICT, p->at->line);
    parser_next(p);
    while (node && !parser_is(p, JINJA_T_RBRACE)) {
        if (node->as.list.n && !parser_expect(p, JINJA_T_COMMA)) return NULL;
        if (parser_is(p, JINJA_T_RBRACE)) break;
        struct jinja_node *key = parser_expression(p, true);
        if (!parser_adopt(p, node, key) || !parser_push(p, &node->as.list, key) ||
            !parser_expect(p, JINJA_T_COLON))
            return NULL;
        struct jinja_node *value = parser_expression(p, true);
        if (!parser_adopt(p, node, value) || !parser_push(p, &node->as.list, value)) return NULL;
    }
    parser_next(p);
    return node;
}

/* ---- primaries, postfixes */

static struct jinja_node *parse_word(struct jinja_parser *p, bool has_namespaces) {
    static const char *const constants[] = {"true", "True", "false", "False", "none", "None"};
    const struct jinja_token *token = p->at;
    for (int i = 0; i < 6; i++) {
        if (!parser_is_word(p, constants[i])) continue;
        struct jinja_node *node = parser_node(p, JINJA_N_CONST, token->line);
        parser_next(p);
        if (node) node->as.value = i < 4 ? jinja_bool(i < 2) : jinja_none();
        return node;
    }
    parser_next(p);
    if (!has_namespaces || !parser_skip(p, JINJA_T_DOT))
        return parser_name(p, token, p->is_target ? JINJA_STORE : JINJA_LOAD);
    const struct jinja_token *attr = p->at;
    if (!parser_expect(p, JINJA_T_NAME)) return NULL;
    struct jinja_node *node = parser_name(p, token, JINJA_LOAD);
    if (!node) return NULL;
    node->type = JINJA_N_NSREF;
    node->as.name.attr = jinja_str(attr->s, attr->len);
    return node;
}

struct jinja_node *parser_primary(struct jinja_parser *p, bool has_namespaces) {
    struct jinja_node *node = NULL;
    const struct jinja_token *token = p->at;
    if (!parser_enter(p)) return NULL;
    switch (token->type) {
    case JINJA_T_NAME: node = parse_word(p, has_namespaces); break;
    case JINJA_T_STRING: node = parser_string(p); break;
    case JINJA_T_INTEGER:
    case JINJA_T_FLOAT: node = parser_number(p); break;
    case JINJA_T_LBRACKET: node = parse_list(p); break;
    case JINJA_T_LBRACE: node = parse_dict(p); break;
    case JINJA_T_LPAREN: {
        struct jinja_tuple_rules rules = {
            .is_simple = p->is_target, .has_condexpr = true, .is_explicit = true};
        parser_next(p);
        node = parser_tuple(p, &rules);
        if (node && !parser_expect(p, JINJA_T_RPAREN)) node = NULL;
        break;
    }
    default:
        parser_fail(p, token->line, "unexpected '%s'",
                    jinja_token_name((enum jinja_token_type)token->type));
    }
    parser_leave(p);
    return node;
}

/* One subscript between commas: an expression or a slice. */
static struct jinja_node *parse_subscript_part(struct jinja_parser *p) {
    struct jinja_node *parts[3] = {NULL}, *node = NULL;
    uint32_t line = p->at->line;
    if (!parser_is(p, JINJA_T_COLON)) {
        parts[0] = parser_expression(p, true);
        if (!parts[0] || !parser_is(p, JINJA_T_COLON)) return parts[0];
    }
    node = parser_node(p, JINJA_N_SLICE, line);
    for (int i = 1; i < 3 && parser_skip(p, JINJA_T_COLON); i++) {
        if (parser_is(p, JINJA_T_COLON) || parser_is(p, JINJA_T_RBRACKET) ||
            parser_is(p, JINJA_T_COMMA))
            continue;
        parts[i] = parser_expression(p, true);
        if (!parts[i]) return NULL;
    }
    for (int i = 0; i < 3 && node; i++)
        if (parts[i]) node = parser_adopt(p, node, parts[i]);
    if (!node) return NULL;
    node->as.sub.a = parts[0];
    node->as.sub.b = parts[1];
    node->as.sub.c = parts[2];
    return node;
}

static struct jinja_node *make_getitem(struct jinja_parser *p, struct jinja_node *obj,
                                       struct jinja_node *key, uint32_t line) {
    struct jinja_node *node = parser_node(p, JINJA_N_GETITEM, line);
    if (!parser_adopt(p, node, obj) || !parser_adopt(p, node, key)) return NULL;
    node->as.sub.a = obj;
    node->as.sub.b = key;
    return node;
}

static struct jinja_node *parse_attribute(struct jinja_parser *p, struct jinja_node *obj) {
    uint32_t line = p->at->line;
    parser_next(p);
    const struct jinja_token *attr = p->at;
    if (attr->type == JINJA_T_INTEGER) {
        struct jinja_node *key = parser_number(p);
        return key ? make_getitem(p, obj, key, line) : NULL;
    }
    if (attr->type != JINJA_T_NAME) return parser_fail(p, attr->line, "expected name or number");
    parser_next(p);
    struct jinja_node *node = parser_node(p, JINJA_N_GETATTR, line);
    if (!parser_adopt(p, node, obj)) return NULL;
    node->as.getattr = (struct jinja_getattr_node){
        .obj = obj,
        .attr = jinja_str(attr->s, attr->len),
        .str_method = jinja_method_find(JINJA_STR, attr->s, attr->len),
        .dict_method = jinja_method_find(JINJA_DICT, attr->s, attr->len),
        .list_method = jinja_method_find(JINJA_LIST, attr->s, attr->len),
    };
    return node;
}

static struct jinja_node *parse_subscript(struct jinja_parser *p, struct jinja_node *obj) {
    uint32_t line = p->at->line;
    struct jinja_node *tuple = parser_node(p, JINJA_N_TUPLE, line);
    parser_next(p);
    while (tuple && !parser_is(p, JINJA_T_RBRACKET)) {
        if (tuple->as.list.n && !parser_expect(p, JINJA_T_COMMA)) return NULL;
        struct jinja_node *part = parse_subscript_part(p);
        if (!parser_adopt(p, tuple, part) || !parser_push(p, &tuple->as.list, part)) return NULL;
        if (part->type == JINJA_N_SLICE && (tuple->as.list.n > 1 || parser_is(p, JINJA_T_COMMA)))
            return parser_fail(p, line, "a slice cannot stand in a tuple");
    }
    if (!tuple || !parser_expect(p, JINJA_T_RBRACKET)) return NULL;
    return make_getitem(p, obj, tuple->as.list.n == 1 ? tuple->as.list.items[0] : tuple, line);
}

/* Room for one more keyword; capacities are powers of two from 4. */
static struct jinja_keyword *push_keyword(struct jinja_parser *p, struct jinja_call_node *call) {
    uint32_t n = call->n_kwargs;
    if (n == 0 || (n >= 4 && (n & (n - 1)) == 0)) {
        struct jinja_keyword *kwargs = parser_alloc(p, n ? (size_t)n * 2 : 4, sizeof(*kwargs));
        if (!kwargs) return NULL;
        if (n) memcpy(kwargs, call->kwargs, n * sizeof(*kwargs));
        call->kwargs = kwargs;
    }
    return &call->kwargs[call->n_kwargs++];
}

static bool parse_keyword(struct jinja_parser *p, struct jinja_node *node) {
    struct jinja_call_node *call = node->as.call;
    const struct jinja_token *token = p->at;
    for (uint32_t i = 0; i < call->n_kwargs; i++)
        if (jinja_is_str(&call->kwargs[i].name, token->s, token->len))
            return parser_fail(p, token->line, "keyword argument repeated: %.*s",
                               token->len > 80 ? 80 : (int)token->len, token->s) != NULL;
    struct jinja_keyword *kw = push_keyword(p, call);
    if (!kw) return false;
    p->at += 2;
    kw->name = jinja_str(token->s, token->len);
    /* The value may hold calls, but not this one: kw stays where it is. */
    kw->value = parser_expression(p, true);
    return parser_adopt(p, node, kw->value) != NULL;
}

static bool parse_argument(struct jinja_parser *p, struct jinja_node *node,
                           struct jinja_list_node *args) {
    struct jinja_call_node *call = node->as.call;
    uint32_t line = p->at->line;
    bool is_ok = true;
    if (args->n + call->n_kwargs >= JINJA_ARGS_MAX)
        return parser_fail_limit(p, "has a call with too many arguments") != NULL;
    if (parser_skip(p, JINJA_T_MUL)) {
        is_ok = !call->dyn_args && !call->dyn_kwargs;
        call->dyn_args = parser_expression(p, true);
        if (!parser_adopt(p, node, call->dyn_args)) return false;
    } else if (parser_skip(p, JINJA_T_POW)) {
        is_ok = !call->dyn_kwargs;
        call->dyn_kwargs = parser_expression(p, true);
        if (!parser_adopt(p, node, call->dyn_kwargs)) return false;
    } else if (parser_is(p, JINJA_T_NAME) && p->at[1].type == JINJA_T_ASSIGN) {
        is_ok = !call->dyn_kwargs;
        if (!parse_keyword(p, node)) return false;
    } else {
        is_ok = !call->dyn_args && !call->dyn_kwargs && !call->n_kwargs;
        struct jinja_node *arg = parser_expression(p, true);
        if (!parser_adopt(p, node, arg) || !parser_push(p, args, arg)) return false;
    }
    if (!is_ok) parser_fail(p, line, "invalid syntax for function call expression");
    return is_ok;
}

static bool parse_call_args(struct jinja_parser *p, struct jinja_node *node) {
    struct jinja_list_node args = {0};
    bool is_first = true, is_ok = true;
    parser_next(p);
    for (; is_ok && !parser_is(p, JINJA_T_RPAREN); is_first = false) {
        if (!is_first && !parser_expect(p, JINJA_T_COMMA)) return false;
        if (!is_first && parser_is(p, JINJA_T_RPAREN)) break;
        is_ok = parse_argument(p, node, &args);
    }
    parser_next(p);
    node->as.call->args = args.items;
    node->as.call->n_args = args.n;
    return is_ok;
}

static struct jinja_node *make_call(struct jinja_parser *p, enum jinja_node_type type,
                                    struct jinja_node *obj, uint32_t line) {
    struct jinja_node *node = parser_node(p, type, line);
    if (!node) return NULL;
    node->as.call = parser_alloc(p, 1, sizeof(*node->as.call));
    if (!node->as.call || (obj && !parser_adopt(p, node, obj))) return NULL;
    node->as.call->node = obj;
    return node;
}

static struct jinja_node *parse_call(struct jinja_parser *p, struct jinja_node *callee) {
    struct jinja_node *node = make_call(p, JINJA_N_CALL, callee, p->at->line);
    return node && parse_call_args(p, node) ? node : NULL;
}

static struct jinja_node *parse_postfix(struct jinja_parser *p, struct jinja_node *node) {
    for (;;) {
        if (!node) return NULL;
        if (parser_is(p, JINJA_T_DOT))
            node = parse_attribute(p, node);
        else if (parser_is(p, JINJA_T_LBRACKET))
            node = parse_subscript(p, node);
        else if (parser_is(p, JINJA_T_LPAREN))
            node = parse_call(p, node);
        else
            return node;
    }
}

/* ---- filters and tests */

/* A name, maybe with dots, as filters and tests have it. */
static bool parse_dotted(struct jinja_parser *p, struct jinja_value *name_out) {
    const struct jinja_token *first = p->at, *last = first;
    if (!parser_expect(p, JINJA_T_NAME)) return false;
    while (parser_skip(p, JINJA_T_DOT)) {
        last = p->at;
        if (!parser_expect(p, JINJA_T_NAME)) return false;
    }
    *name_out = jinja_str(first->s, (size_t)(last->s + last->len - first->s));
    return true;
}

struct jinja_node *parser_filters(struct jinja_parser *p, struct jinja_node *node, bool is_inline) {
    while (is_inline || parser_is(p, JINJA_T_PIPE)) {
        if (!is_inline) parser_next(p);
        is_inline = false;
        node = make_call(p, JINJA_N_FILTER, node, p->at->line);
        if (!node || !parse_dotted(p, &node->as.call->name)) return NULL;
        struct jinja_value name = node->as.call->name;
        node->as.call->builtin = jinja_filter_find(name.as.s, name.len);
        if (parser_is(p, JINJA_T_LPAREN) && !parse_call_args(p, node)) return NULL;
    }
    return node;
}

static bool starts_bare_argument(const struct jinja_parser *p) {
    switch (p->at->type) {
    case JINJA_T_NAME:
        return !parser_is_word(p, "else") && !parser_is_word(p, "or") && !parser_is_word(p, "and");
    case JINJA_T_STRING:
    case JINJA_T_INTEGER:
    case JINJA_T_FLOAT:
    case JINJA_T_LBRACKET:
    case JINJA_T_LBRACE: return true;
    default: return false;
    }
}

static struct jinja_node *parse_test(struct jinja_parser *p, struct jinja_node *obj) {
    uint32_t line = p->at->line;
    parser_next(p);
    bool is_negated = parser_skip_word(p, "not");
    struct jinja_node *node = make_call(p, JINJA_N_TEST, obj, line);
    if (!node || !parse_dotted(p, &node->as.call->name)) return NULL;
    struct jinja_call_node *call = node->as.call;
    call->builtin = jinja_test_find(call->name.as.s, call->name.len);
    if (parser_is(p, JINJA_T_LPAREN)) {
        if (!parse_call_args(p, node)) return NULL;
    } else if (starts_bare_argument(p)) {
        if (parser_is_word(p, "is"))
            return parser_fail(p, p->at->line, "You cannot chain multiple tests with is");
        struct jinja_list_node args = {0};
        struct jinja_node *arg = parse_postfix(p, parser_primary(p, false));
        if (!parser_adopt(p, node, arg) || !parser_push(p, &args, arg)) return NULL;
        call->args = args.items;
        call->n_args = 1;
    }
    if (!is_negated) return node;
    struct jinja_node *negation = parser_node(p, JINJA_N_NOT, line);
    if (!parser_adopt(p, negation, node)) return NULL;
    negation->as.sub.a = node;
    return negation;
}

static struct jinja_node *parse_filter_expr(struct jinja_parser *p, struct jinja_node *node) {
    for (;;) {
        if (!node) return NULL;
        if (parser_is(p, JINJA_T_PIPE))
            node = parser_filters(p, node, false);
        else if (parser_is_word(p, "is"))
            node = parse_test(p, node);
        else if (parser_is(p, JINJA_T_LPAREN))
            node = parse_call(p, node);
        else
            return node;
    }
}

/* ---- operators, from tight to loose */

static struct jinja_node *make_pair(struct jinja_parser *p, enum jinja_node_type type,
                                    struct jinja_node *a, struct jinja_node *b, uint32_t line) {
    struct jinja_node *node = parser_node(p, type, line);
    if (!parser_adopt(p, node, a) || (b && !parser_adopt(p, node, b))) return NULL;
    node->as.sub.a = a;
    node->as.sub.b = b;
    return node;
}

static struct jinja_node *parse_unary(struct jinja_parser *p, bool has_filter) {
    uint32_t line = p->at->line;
    struct jinja_node *node = NULL;
    bool is_minus = parser_is(p, JINJA_T_SUB);
    if (is_minus || parser_is(p, JINJA_T_ADD)) {
        if (!parser_enter(p)) return NULL;
        parser_next(p);
        node = parse_unary(p, false);
        parser_leave(p);
        if (node) node = make_pair(p, is_minus ? JINJA_N_NEG : JINJA_N_POS, node, NULL, line);
    } else {
        node = parser_primary(p, false);
    }
    node = parse_postfix(p, node);
    return has_filter ? parse_filter_expr(p, node) : node;
}

static struct jinja_node *make_binary(struct jinja_parser *p, enum jinja_op op,
                                      struct jinja_node *a, struct jinja_node *b, uint32_t line) {
    if (!b) return NULL;
    struct jinja_node *node = make_pair(p, JINJA_N_BINARY, a, b, line);
    if (node) node->op = (uint8_t)op;
    return node;
}

static struct jinja_node *parse_pow(struct jinja_parser *p) {
    struct jinja_node *left = parse_unary(p, true);
    while (left && parser_is(p, JINJA_T_POW)) {
        uint32_t line = p->at->line;
        parser_next(p);
        left = make_binary(p, JINJA_OP_POW, left, parse_unary(p, true), line);
    }
    return left;
}

static struct jinja_node *parse_product(struct jinja_parser *p) {
    struct jinja_node *left = parse_pow(p);
    while (left && p->at->type >= JINJA_T_MUL && p->at->type <= JINJA_T_MOD) {
        enum jinja_op op = (enum jinja_op)(JINJA_OP_MUL + (p->at->type - JINJA_T_MUL));
        uint32_t line = p->at->line;
        parser_next(p);
        left = make_binary(p, op, left, parse_pow(p), line);
    }
    return left;
}

static struct jinja_node *parse_concat(struct jinja_parser *p) {
    uint32_t line = p->at->line;
    struct jinja_node *item = parse_product(p), *node = NULL;
    while (item && parser_is(p, JINJA_T_TILDE)) {
        if (!node) {
            node = parser_node(p, JINJA_N_CONCAT, line);
            if (!parser_adopt(p, node, item) || !parser_push(p, &node->as.list, item)) return NULL;
        }
        parser_next(p);
        item = parse_product(p);
        if (!parser_adopt(p, node, item) || !parser_push(p, &node->as.list, item)) return NULL;
    }
    return node && item ? node : item;
}

static struct jinja_node *parse_sum(struct jinja_parser *p) {
    struct jinja_node *left = parse_concat(p);
    while (left && (parser_is(p, JINJA_T_ADD) || parser_is(p, JINJA_T_SUB))) {
        enum jinja_op op = parser_is(p, JINJA_T_ADD) ? JINJA_OP_ADD : JINJA_OP_SUB;
        uint32_t line = p->at->line;
        parser_next(p);
        left = make_binary(p, op, left, parse_concat(p), line);
    }
    return left;
}

/* The comparison at the current token, taken; false when there is none. */
static bool take_comparison(struct jinja_parser *p, enum jinja_compare_op *op_out) {
    if (p->at->type >= JINJA_T_EQ && p->at->type <= JINJA_T_LE) {
        *op_out = (enum jinja_compare_op)(JINJA_C_EQ + (p->at->type - JINJA_T_EQ));
        parser_next(p);
        return true;
    }
    if (parser_skip_word(p, "in")) {
        *op_out = JINJA_C_IN;
        return true;
    }
    if (parser_is_word(p, "not") && p->at[1].type == JINJA_T_NAME && p->at[1].len == 2 &&
        !memcmp(p->at[1].s, "in", 2)) {
        *op_out = JINJA_C_NOTIN;
        p->at += 2;
        return true;
    }
    return false;
}

static struct jinja_node *parse_compare(struct jinja_parser *p) {
    uint32_t line = p->at->line;
    struct jinja_node *first = parse_sum(p), *node = NULL;
    enum jinja_compare_op op;
    while (first && take_comparison(p, &op)) {
        if (!node) {
            node = parser_node(p, JINJA_N_COMPARE, line);
            if (!parser_adopt(p, node, first) || !parser_push(p, &node->as.list, first))
                return NULL;
        }
        struct jinja_node *right = parse_sum(p);
        if (!right) return NULL;
        struct jinja_node *operand = make_pair(p, JINJA_N_OPERAND, right, NULL, line);
        if (!parser_adopt(p, node, operand) || !parser_push(p, &node->as.list, operand))
            return NULL;
        operand->op = (uint8_t)op;
    }
    return node ? node : first;
}

static struct jinja_node *parse_not(struct jinja_parser *p) {
    uint32_t line = p->at->line;
    if (!parser_is_word(p, "not")) return parse_compare(p);
    if (!parser_enter(p)) return NULL;
    parser_next(p);
    struct jinja_node *node = parse_not(p);
    parser_leave(p);
    return node ? make_pair(p, JINJA_N_NOT, node, NULL, line) : NULL;
}

static struct jinja_node *parse_and(struct jinja_parser *p) {
    struct jinja_node *left = parse_not(p);
    while (left && parser_is_word(p, "and")) {
        uint32_t line = p->at->line;
        parser_next(p);
        struct jinja_node *right = parse_not(p);
        left = right ? make_pair(p, JINJA_N_AND, left, right, line) : NULL;
    }
    return left;
}

static struct jinja_node *parse_or(struct jinja_parser *p) {
    struct jinja_node *left = parse_and(p);
    while (left && parser_is_word(p, "or")) {
        uint32_t line = p->at->line;
        parser_next(p);
        struct jinja_node *right = parse_and(p);
        left = right ? make_pair(p, JINJA_N_OR, left, right, line) : NULL;
    }
    return left;
}

static struct jinja_node *parse_condexpr(struct jinja_parser *p) {
    struct jinja_node *value = parse_or(p);
    while (value && parser_is_word(p, "if")) {
        uint32_t line = p->at->line;
        parser_next(p);
        struct jinja_node *test = parse_or(p), *other = NULL;
        if (test && parser_skip_word(p, "else")) {
            if (!parser_enter(p)) return NULL;
            other = parse_condexpr(p);
            parser_leave(p);
            if (!other) return NULL;
        }
        struct jinja_node *node = test ? make_pair(p, JINJA_N_CONDEXPR, test, value, line) : NULL;
        if (node && other) node = parser_adopt(p, node, other);
        if (node) node->as.sub.c = other;
        value = node;
    }
    return value;
}

struct jinja_node *parser_expression(struct jinja_parser *p, bool has_condexpr) {
    if (!parser_enter(p)) return NULL;
    bool was_target = p->is_target;
    p->is_target = false;
    struct jinja_node *node = has_condexpr ? parse_condexpr(p) : parse_or(p);
    p->is_target = was_target;
    parser_leave(p);
    return node;
}

/* ---- tuples */

static bool is_tuple_end(const struct jinja_parser *p, const char *end_word) {
    return parser_is(p, JINJA_T_VARIABLE_END) || parser_is(p, JINJA_T_BLOCK_END) ||
           parser_is(p, JINJA_T_RPAREN) || (end_word && parser_is_word(p, end_word));
}

struct jinja_node *parser_tuple(struct jinja_parser *p, const struct jinja_tuple_rules *rules) {
    struct jinja_node *tuple = parser_node(p, JINJA_N_TUPLE, p->at->line), *item = NULL;
    bool is_tuple = false;
    while (tuple) {
        if (tuple->as.list.n && !parser_expect(p, JINJA_T_COMMA)) return NULL;
        if (is_tuple_end(p, rules->end_word)) break;
        item = rules->is_simple ? parser_primary(p, rules->has_namespaces)
                                : parser_expression(p, rules->has_condexpr);
        if (!parser_adopt(p, tuple, item) || !parser_push(p, &tuple->as.list, item)) return NULL;
        if (!parser_is(p, JINJA_T_COMMA)) break;
        is_tuple = true;
    }
    if (!tuple || is_tuple) return tuple;
    if (tuple->as.list.n) return tuple->as.list.items[0];
    if (rules->is_explicit) return tuple;
    return parser_fail(p, p->at->line, "Expected an expression, got '%s'",
                       jinja_token_name((enum jinja_token_type)p->at->type));
}
