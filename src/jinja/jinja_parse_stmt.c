/* jinja_parse_stmt.c - statements: text, output and tags, down to the end tag each block waits for.
 *
 * Besides Jinja's own tags there are those that transformers adds: break, continue, and generation,
 * which marks what the assistant says and prints its body unchanged, in a scope of its own like a
 * call block. Tags that need other template files (extends, include, import, from) are parsed
 * whole, since a branch that no chat takes may hold them; they fail when they are reached, for
 * nothing that renders chats has files to give. */
#include "jinja_parser.h"

#include "base/status.h"
#include "jinja_text.h"

#include <string.h>

static bool parse_body(struct jinja_parser *p, const char *const *ends,
                       struct jinja_list_node *body_out);

/* The body after a tag's head, to one of `ends` (NULL-terminated), which becomes the current token.
 */
static bool parse_block(struct jinja_parser *p, const char *const *ends,
                        struct jinja_list_node *body_out) {
    parser_skip(p, JINJA_T_COLON);
    return parser_expect(p, JINJA_T_BLOCK_END) && parse_body(p, ends, body_out);
}

/* The same for a block with one possible end, which is taken. */
static bool parse_block_to(struct jinja_parser *p, const char *end,
                           struct jinja_list_node *body_out) {
    const char *const ends[] = {end, NULL};
    if (!parse_block(p, ends, body_out)) return false;
    parser_next(p);
    return true;
}

static bool adopt_body(struct jinja_parser *p, struct jinja_node *node,
                       const struct jinja_list_node *body) {
    for (uint32_t i = 0; i < body->n; i++)
        if (!parser_adopt(p, node, body->items[i])) return false;
    return true;
}

static bool can_assign(struct jinja_parser *p, const struct jinja_node *target) {
    bool is_ok = target->type == JINJA_N_NAME || target->type == JINJA_N_NSREF ||
                 target->type == JINJA_N_TUPLE;
    for (uint32_t i = 0; target->type == JINJA_N_TUPLE && i < target->as.list.n; i++)
        if (!can_assign(p, target->as.list.items[i])) return false;
    if (!is_ok) parser_fail(p, target->line, "can't assign to this expression");
    return is_ok;
}

static struct jinja_node *parse_target(struct jinja_parser *p, const char *end_word,
                                       bool has_namespaces) {
    struct jinja_tuple_rules rules = {
        .is_simple = true, .has_namespaces = has_namespaces, .end_word = end_word};
    p->is_target = true;
    struct jinja_node *target = parser_tuple(p, &rules);
    p->is_target = false;
    return target && can_assign(p, target) ? target : NULL;
}

static struct jinja_node *parse_name_target(struct jinja_parser *p, enum jinja_name_ctx ctx) {
    const struct jinja_token *token = p->at;
    return parser_expect(p, JINJA_T_NAME) ? parser_name(p, token, ctx) : NULL;
}

/* ---- tags */

static struct jinja_node *parse_set(struct jinja_parser *p, uint32_t line) {
    struct jinja_node *node = parser_node(p, JINJA_N_SET, line);
    struct jinja_set_node *set = parser_alloc(p, 1, sizeof(*set));
    if (!node || !set) return NULL;
    node->as.set = set;
    set->target = parse_target(p, NULL, true);
    if (!parser_adopt(p, node, set->target)) return NULL;
    if (parser_skip(p, JINJA_T_ASSIGN)) {
        struct jinja_tuple_rules rules = {.has_condexpr = true};
        set->value = parser_tuple(p, &rules);
        return parser_adopt(p, node, set->value);
    }
    node->type = JINJA_N_SET_BLOCK;
    if (parser_is(p, JINJA_T_PIPE)) {
        set->filter = parser_filters(p, NULL, false);
        if (!parser_adopt(p, node, set->filter)) return NULL;
    }
    bool is_ok = parse_block_to(p, "endset", &set->body) && adopt_body(p, node, &set->body);
    return is_ok ? node : NULL;
}

static bool parse_for_head(struct jinja_parser *p, struct jinja_node *node) {
    struct jinja_for_node *loop = node->as.loop;
    struct jinja_tuple_rules rules = {.end_word = "recursive"};
    loop->target = parse_target(p, "in", false);
    if (!parser_adopt(p, node, loop->target)) return false;
    if (!parser_skip_word(p, "in"))
        return parser_fail(p, p->at->line, "expected token 'in'") != NULL;
    loop->iter = parser_tuple(p, &rules);
    if (!parser_adopt(p, node, loop->iter)) return false;
    if (parser_skip_word(p, "if")) {
        loop->test = parser_expression(p, true);
        if (!parser_adopt(p, node, loop->test)) return false;
    }
    loop->is_recursive = parser_skip_word(p, "recursive");
    return true;
}

static struct jinja_node *parse_for(struct jinja_parser *p, uint32_t line) {
    static const char *const ends[] = {"endfor", "else", NULL};
    struct jinja_node *node = parser_node(p, JINJA_N_FOR, line);
    struct jinja_for_node *loop = parser_alloc(p, 1, sizeof(*loop));
    struct jinja_body_mentions mentions = {.outer = p->mentions};
    if (!node || !loop) return NULL;
    node->as.loop = loop;
    if (!parse_for_head(p, node)) return NULL;
    p->mentions = &mentions;
    p->loop_depth++;
    bool is_ok = parse_block(p, ends, &loop->body);
    p->loop_depth--;
    p->mentions = mentions.outer;
    if (!is_ok || !adopt_body(p, node, &loop->body)) return NULL;
    loop->has_loop = mentions.is_used[JINJA_SPECIAL_LOOP] || loop->is_recursive;
    bool has_else = parser_is_word(p, "else");
    parser_next(p);
    if (!has_else) return node;
    is_ok = parse_block_to(p, "endfor", &loop->else_body);
    return is_ok && adopt_body(p, node, &loop->else_body) ? node : NULL;
}

static struct jinja_branch *push_branch(struct jinja_parser *p, struct jinja_if_node *branch) {
    uint32_t n = branch->n;
    if (n == 0 || (n >= 4 && (n & (n - 1)) == 0)) {
        struct jinja_branch *branches = parser_alloc(p, n ? (size_t)n * 2 : 4, sizeof(*branches));
        if (!branches) return NULL;
        if (n) memcpy(branches, branch->branches, n * sizeof(*branches));
        branch->branches = branches;
    }
    return &branch->branches[branch->n++];
}

static struct jinja_node *parse_if(struct jinja_parser *p, uint32_t line) {
    static const char *const ends[] = {"elif", "else", "endif", NULL};
    static const char *const last_ends[] = {"endif", NULL};
    struct jinja_node *node = parser_node(p, JINJA_N_IF, line);
    if (!node) return NULL;
    node->as.branch = parser_alloc(p, 1, sizeof(*node->as.branch));
    bool has_test = true;
    while (node->as.branch) {
        struct jinja_tuple_rules rules = {.has_condexpr = false};
        struct jinja_branch *branch = push_branch(p, node->as.branch);
        if (!branch) return NULL;
        if (has_test) {
            branch->test = parser_tuple(p, &rules);
            if (!parser_adopt(p, node, branch->test)) return NULL;
        }
        if (!parse_block(p, has_test ? ends : last_ends, &branch->body) ||
            !adopt_body(p, node, &branch->body))
            return NULL;
        bool is_end = parser_is_word(p, "endif");
        has_test = parser_is_word(p, "elif");
        parser_next(p);
        if (is_end) return node;
    }
    return NULL;
}

static bool parse_signature(struct jinja_parser *p, struct jinja_node *node) {
    struct jinja_macro_node *macro = node->as.macro;
    struct jinja_list_node params = {0}, defaults = {0};
    if (!parser_expect(p, JINJA_T_LPAREN)) return false;
    while (!parser_is(p, JINJA_T_RPAREN)) {
        if (params.n && !parser_expect(p, JINJA_T_COMMA)) return false;
        struct jinja_node *param = parse_name_target(p, JINJA_PARAM);
        if (!param) return false;
        for (uint32_t i = 0; i < params.n; i++)
            if (params.items[i]->as.name.name == param->as.name.name)
                return parser_fail(p, param->line, "duplicate argument in a macro") != NULL;
        if (params.n >= JINJA_ARGS_MAX)
            return parser_fail_limit(p, "has a macro with too many arguments") != NULL;
        if (parser_skip(p, JINJA_T_ASSIGN)) {
            struct jinja_node *value = parser_expression(p, true);
            if (!parser_adopt(p, node, value) || !parser_push(p, &defaults, value)) return false;
        } else if (defaults.n) {
            return parser_fail(p, param->line, "non-default argument follows default argument") !=
                   NULL;
        }
        if (!parser_push(p, &params, param)) return false;
    }
    parser_next(p);
    macro->params = params.items;
    macro->n_params = params.n;
    macro->defaults = defaults.items;
    macro->n_defaults = defaults.n;
    return true;
}

static bool is_param(const struct jinja_macro_node *macro, const char *name, uint32_t *idx_out) {
    for (*idx_out = 0; *idx_out < macro->n_params; (*idx_out)++)
        if (jinja_is_str(&macro->params[*idx_out]->as.name.name->text, name, strlen(name)))
            return true;
    return false;
}

/* What the body mentions decides what the macro takes beside its parameters. */
static bool note_specials(struct jinja_parser *p, struct jinja_node *node,
                          const struct jinja_body_mentions *mentions) {
    struct jinja_macro_node *macro = node->as.macro;
    uint32_t idx;
    macro->is_caller_explicit = is_param(macro, "caller", &idx);
    if (macro->is_caller_explicit && mentions->is_used[JINJA_SPECIAL_CALLER] &&
        idx + macro->n_defaults < macro->n_params)
        return parser_fail(p, node->line,
                           "the special \"caller\" argument must be omitted or be "
                           "given a default.") != NULL;
    macro->has_caller = mentions->is_used[JINJA_SPECIAL_CALLER];
    macro->has_kwargs = mentions->is_used[JINJA_SPECIAL_KWARGS] && !is_param(macro, "kwargs", &idx);
    macro->has_varargs =
        mentions->is_used[JINJA_SPECIAL_VARARGS] && !is_param(macro, "varargs", &idx);
    return true;
}

static bool parse_macro_body(struct jinja_parser *p, struct jinja_node *node, const char *end) {
    struct jinja_body_mentions mentions = {.outer = p->mentions};
    struct jinja_macro_node *macro = node->as.macro;
    unsigned loop_depth = p->loop_depth;
    p->mentions = &mentions;
    p->loop_depth = 0;
    bool is_ok = parse_block_to(p, end, &macro->body);
    p->mentions = mentions.outer;
    p->loop_depth = loop_depth;
    return is_ok && adopt_body(p, node, &macro->body) && note_specials(p, node, &mentions);
}

static struct jinja_node *make_macro(struct jinja_parser *p, enum jinja_node_type type,
                                     uint32_t line) {
    struct jinja_node *node = parser_node(p, type, line);
    if (node) node->as.macro = parser_alloc(p, 1, sizeof(*node->as.macro));
    return node && node->as.macro ? node : NULL;
}

static struct jinja_node *parse_macro(struct jinja_parser *p, uint32_t line) {
    struct jinja_node *node = make_macro(p, JINJA_N_MACRO, line);
    if (!node) return NULL;
    node->as.macro->name = parse_name_target(p, JINJA_STORE);
    bool is_ok =
        node->as.macro->name && parse_signature(p, node) && parse_macro_body(p, node, "endmacro");
    return is_ok ? node : NULL;
}

static struct jinja_node *parse_call_block(struct jinja_parser *p, uint32_t line) {
    struct jinja_node *node = make_macro(p, JINJA_N_CALL_BLOCK, line);
    if (!node || (parser_is(p, JINJA_T_LPAREN) && !parse_signature(p, node))) return NULL;
    node->as.macro->call = parser_expression(p, true);
    if (!parser_adopt(p, node, node->as.macro->call)) return NULL;
    if (node->as.macro->call->type != JINJA_N_CALL) return parser_fail(p, line, "expected call");
    return parse_macro_body(p, node, "endcall") ? node : NULL;
}

static struct jinja_node *parse_generation(struct jinja_parser *p, uint32_t line) {
    struct jinja_node *node = make_macro(p, JINJA_N_CALL_BLOCK, line);
    return node && parse_macro_body(p, node, "endgeneration") ? node : NULL;
}

static struct jinja_node *parse_filter_block(struct jinja_parser *p, uint32_t line) {
    struct jinja_node *node = parser_node(p, JINJA_N_FILTER_BLOCK, line);
    struct jinja_set_node *set = parser_alloc(p, 1, sizeof(*set));
    if (!node || !set) return NULL;
    node->as.set = set;
    set->filter = parser_filters(p, NULL, /*is_inline=*/true);
    bool is_ok = parser_adopt(p, node, set->filter) && parse_block_to(p, "endfilter", &set->body) &&
                 adopt_body(p, node, &set->body);
    return is_ok ? node : NULL;
}

static struct jinja_node *parse_with(struct jinja_parser *p, uint32_t line) {
    struct jinja_node *node = parser_node(p, JINJA_N_WITH, line);
    struct jinja_with_node *with = parser_alloc(p, 1, sizeof(*with));
    struct jinja_list_node targets = {0}, values = {0};
    if (!node || !with) return NULL;
    node->as.with = with;
    while (!parser_is(p, JINJA_T_BLOCK_END)) {
        if (targets.n && !parser_expect(p, JINJA_T_COMMA)) return NULL;
        struct jinja_node *target = parse_target(p, NULL, false);
        if (!parser_adopt(p, node, target) || !parser_push(p, &targets, target) ||
            !parser_expect(p, JINJA_T_ASSIGN))
            return NULL;
        struct jinja_node *value = parser_expression(p, true);
        if (!parser_adopt(p, node, value) || !parser_push(p, &values, value)) return NULL;
    }
    with->targets = targets.items;
    with->values = values.items;
    with->n = targets.n;
    bool is_ok = parse_block_to(p, "endwith", &with->body) && adopt_body(p, node, &with->body);
    return is_ok ? node : NULL;
}

static bool parse_block_head(struct jinja_parser *p, struct jinja_block_node *block) {
    const struct jinja_token *token = p->at;
    struct jinja_template *t = p->t;
    if (!parser_expect(p, JINJA_T_NAME)) return false;
    block->name = parser_intern(p, token);
    block->is_scoped = parser_skip_word(p, "scoped");
    block->is_required = parser_skip_word(p, "required");
    if (!block->name) return false;
    if (block->name->block)
        return parser_fail(p, token->line, "block '%.*s' defined twice",
                           token->len > 80 ? 80 : (int)token->len, token->s) != NULL;
    if (t->n_blocks == JINJA_BLOCKS_MAX) return parser_fail_limit(p, "has too many blocks") != NULL;
    block->name->block = t->blocks[t->n_blocks++] = block;
    return true;
}

/* A block that another template must fill may hold nothing but white space. */
static bool is_empty_block(const struct jinja_list_node *body) {
    for (uint32_t i = 0; i < body->n; i++) {
        const struct jinja_node *node = body->items[i];
        if (node->type != JINJA_N_OUTPUT) return false;
        for (uint32_t k = 0; k < node->as.list.n; k++) {
            const struct jinja_value *text = &node->as.list.items[k]->as.value;
            if (node->as.list.items[k]->type != JINJA_N_DATA ||
                !jinja_text_is(text->as.s, text->len, JINJA_CLASS_SPACE))
                return false;
        }
    }
    return true;
}

static struct jinja_node *parse_block_tag(struct jinja_parser *p, uint32_t line) {
    struct jinja_node *node = parser_node(p, JINJA_N_BLOCK, line);
    struct jinja_block_node *block = parser_alloc(p, 1, sizeof(*block));
    struct jinja_body_mentions mentions = {.outer = NULL}, *outer = p->mentions;
    unsigned loop_depth = p->loop_depth;
    if (!node || !block) return NULL;
    node->as.block = block;
    if (!parse_block_head(p, block)) return NULL;
    p->mentions = &mentions;
    p->loop_depth = 0;
    bool is_ok = parse_block_to(p, "endblock", &block->body) && adopt_body(p, node, &block->body);
    p->mentions = outer;
    p->loop_depth = loop_depth;
    if (!is_ok) return NULL;
    block->has_self = mentions.is_used[JINJA_SPECIAL_SELF];
    if (block->is_required && !is_empty_block(&block->body))
        return parser_fail(p, line, "Required blocks can only contain comments or whitespace");
    if (parser_is(p, JINJA_T_NAME) && jinja_is_str(&block->name->text, p->at->s, p->at->len))
        parser_next(p);
    return node;
}

static struct jinja_node *parse_autoescape(struct jinja_parser *p, uint32_t line) {
    struct jinja_node *node = parser_node(p, JINJA_N_AUTOESCAPE, line);
    struct jinja_set_node *set = parser_alloc(p, 1, sizeof(*set));
    if (!node || !set) return NULL;
    node->as.set = set;
    set->value = parser_expression(p, true);
    bool is_ok = parser_adopt(p, node, set->value) &&
                 parse_block_to(p, "endautoescape", &set->body) && adopt_body(p, node, &set->body);
    return is_ok ? node : NULL;
}

/* "with context" or "without context" */
static bool skip_context(struct jinja_parser *p) {
    bool is_it = (parser_is_word(p, "with") || parser_is_word(p, "without")) &&
                 p->at[1].type == JINJA_T_NAME && p->at[1].len == 7 &&
                 !memcmp(p->at[1].s, "context", 7);
    if (is_it) p->at += 2;
    return is_it;
}

/* The names behind "from x import". */
static bool parse_imported(struct jinja_parser *p, struct jinja_node *node) {
    for (bool is_first = true;; is_first = false) {
        if (!is_first && !parser_expect(p, JINJA_T_COMMA)) return false;
        if (skip_context(p)) return true;
        if (parser_is(p, JINJA_T_NAME) && p->at->s[0] == '_')
            return parser_fail(p, p->at->line,
                               "names starting with an underline can not be imported") != NULL;
        const struct jinja_token *token = p->at;
        if (!parser_expect(p, JINJA_T_NAME)) return false;
        struct jinja_node *name = parser_skip_word(p, "as") ? parse_name_target(p, JINJA_STORE)
                                                            : parser_name(p, token, JINJA_STORE);
        if (!parser_push(p, &node->as.list, name)) return false;
        if (skip_context(p) || !parser_is(p, JINJA_T_COMMA)) return true;
    }
}

static struct jinja_node *parse_loader(struct jinja_parser *p, const struct jinja_token *tag) {
    struct jinja_node *node = parser_node(p, JINJA_N_LOADER, tag->line), *name;
    struct jinja_node *file = parser_expression(p, true);
    char which = tag->s[0];
    if (node) node->op = (uint8_t)which;
    if (!parser_adopt(p, node, file) || !parser_push(p, &node->as.list, file)) return NULL;
    if (which == 'f') {
        if (!parser_skip_word(p, "import"))
            return parser_fail(p, tag->line, "expected token 'import'");
        return parse_imported(p, node) ? node : NULL;
    }
    if (which == 'i' && tag->s[1] == 'm') {
        if (!parser_skip_word(p, "as")) return parser_fail(p, tag->line, "expected token 'as'");
        name = parse_name_target(p, JINJA_STORE);
        if (!parser_push(p, &node->as.list, name)) return NULL;
    } else if (which == 'i' && parser_skip_word(p, "ignore") && !parser_skip_word(p, "missing")) {
        return parser_fail(p, tag->line, "expected token 'missing'");
    }
    if (which == 'i') skip_context(p);
    return node;
}

static struct jinja_node *parse_print(struct jinja_parser *p, uint32_t line) {
    struct jinja_node *node = parser_node(p, JINJA_N_OUTPUT, line);
    while (node && !parser_is(p, JINJA_T_BLOCK_END)) {
        if (node->as.list.n && !parser_expect(p, JINJA_T_COMMA)) return NULL;
        struct jinja_node *item = parser_expression(p, true);
        if (!parser_adopt(p, node, item) || !parser_push(p, &node->as.list, item)) return NULL;
    }
    return node;
}

static struct jinja_node *parse_jump(struct jinja_parser *p, enum jinja_node_type type,
                                     uint32_t line) {
    if (!p->loop_depth)
        return parser_fail(p, line, "'%s' outside loop",
                           type == JINJA_N_BREAK ? "break" : "continue");
    return parser_node(p, type, line);
}

static struct jinja_node *parse_statement(struct jinja_parser *p) {
    static const char *const loaders[] = {"extends", "include", "import", "from"};
    uint32_t line = p->at->line;
    const struct jinja_token *tag = p->at;
    if (tag->type != JINJA_T_NAME) return parser_fail(p, line, "tag name expected");
    if (parser_skip_word(p, "set")) return parse_set(p, line);
    if (parser_skip_word(p, "if")) return parse_if(p, line);
    if (parser_skip_word(p, "for")) return parse_for(p, line);
    if (parser_skip_word(p, "macro")) return parse_macro(p, line);
    if (parser_skip_word(p, "call")) return parse_call_block(p, line);
    if (parser_skip_word(p, "filter")) return parse_filter_block(p, line);
    if (parser_skip_word(p, "generation")) return parse_generation(p, line);
    if (parser_skip_word(p, "with")) return parse_with(p, line);
    if (parser_skip_word(p, "print")) return parse_print(p, line);
    if (parser_skip_word(p, "block")) return parse_block_tag(p, line);
    if (parser_skip_word(p, "autoescape")) return parse_autoescape(p, line);
    if (parser_skip_word(p, "break")) return parse_jump(p, JINJA_N_BREAK, line);
    if (parser_skip_word(p, "continue")) return parse_jump(p, JINJA_N_CONTINUE, line);
    for (size_t i = 0; i < sizeof(loaders) / sizeof(loaders[0]); i++)
        if (parser_skip_word(p, loaders[i])) return parse_loader(p, tag);
    return parser_fail(p, line, "Encountered unknown tag '%.*s'.",
                       tag->len > 80 ? 80 : (int)tag->len, tag->s);
}

/* ---- bodies */

static bool is_end_tag(const struct jinja_parser *p, const char *const *ends) {
    for (; ends && *ends; ends++)
        if (parser_is_word(p, *ends)) return true;
    return false;
}

/* Text and {{ }} until a tag begins, as one OUTPUT. */
static struct jinja_node *parse_output(struct jinja_parser *p) {
    struct jinja_node *node = parser_node(p, JINJA_N_OUTPUT, p->at->line);
    struct jinja_tuple_rules rules = {.has_condexpr = true};
    while (node && (parser_is(p, JINJA_T_DATA) || parser_is(p, JINJA_T_VARIABLE_BEGIN))) {
        struct jinja_node *item = NULL;
        bool is_data = parser_is(p, JINJA_T_DATA);
        if (is_data) {
            item = parser_node(p, JINJA_N_DATA, p->at->line);
            if (item) item->as.value = jinja_str(p->at->s, p->at->len);
        }
        parser_next(p);
        if (!is_data) item = parser_tuple(p, &rules);
        if (!parser_adopt(p, node, item) || !parser_push(p, &node->as.list, item)) return NULL;
        if (!is_data && !parser_expect(p, JINJA_T_VARIABLE_END)) return NULL;
    }
    return node;
}

static bool fail_at_end(struct jinja_parser *p, const char *const *ends) {
    parser_fail(p, p->at->line,
                "Unexpected end of template. Jinja was looking for the following tags: '%s'%s%s%s.",
                ends[0], ends[1] ? " or '" : "", ends[1] ? ends[1] : "", ends[1] ? "'" : "");
    return false;
}

static bool parse_statements(struct jinja_parser *p, const char *const *ends,
                             struct jinja_list_node *body_out) {
    while (!parser_is(p, JINJA_T_EOF)) {
        if (!parser_is(p, JINJA_T_BLOCK_BEGIN)) {
            if (!parser_push(p, body_out, parse_output(p))) return false;
            continue;
        }
        parser_next(p);
        if (is_end_tag(p, ends)) return true;
        if (!parser_push(p, body_out, parse_statement(p)) || !parser_expect(p, JINJA_T_BLOCK_END))
            return false;
    }
    return !ends || fail_at_end(p, ends);
}

static bool parse_body(struct jinja_parser *p, const char *const *ends,
                       struct jinja_list_node *body_out) {
    *body_out = (struct jinja_list_node){0};
    if (!parser_enter(p)) return false;
    bool is_ok = parse_statements(p, ends, body_out);
    parser_leave(p);
    return is_ok;
}

bool parser_template(struct jinja_parser *p, struct jinja_list_node *body_out) {
    return parse_body(p, NULL, body_out);
}
