/* jinja_parts.c - does a template look into content parts itself?
 *
 * A message's content is a text or a list of parts. Templates of text models print it as it is and
 * would print a Python list, so the parts' texts are joined for them before rendering; templates
 * that know parts must see them. Which kind a template is shows in its tree: it filters a message's
 * content by attribute, or it takes items out of it, by a loop or an index, and asks these for
 * their type or text. Not enough is that it asks whether content is a string (many templates ask,
 * and then drop what is none, or dump it as JSON), nor a bare loop (content may hold tool calls).
 *
 * What stands for content or for a part is followed by name: x.content, x['content'],
 * x.get('content'), variables set from those, and parameters of macros called with them; to a fixed
 * point, since a macro may be called before the set that feeds it is seen. Names are not told apart
 * by scope: two variables of one name would be one, which no template has been seen to get wrong.
 */
#include "jinja_ast.h"

#include <stdlib.h>
#include <string.h>

enum { PASSES_MAX = 8 };

struct search {
    bool *is_content;                       /* [n_names] names that hold content */
    bool *is_part;                          /* [n_names] names that hold an item of it */
    const struct jinja_macro_node **macros; /* [n_names] by name; NULL = none */
    bool has_changed, reads_parts;
};

static bool is_word(const struct jinja_value *v, const char *word) {
    return jinja_is_str(v, word, strlen(word));
}

static bool is_const_word(const struct jinja_node *node, const char *word) {
    return node->type == JINJA_N_CONST && is_word(&node->as.value, word);
}

/* Whether the expression may be a message's content as it came. */
static bool is_content(const struct search *s, const struct jinja_node *node) {
    const struct jinja_call_node *call;
    switch (node->type) {
    case JINJA_N_NAME: return s->is_content[node->as.name.name->id];
    case JINJA_N_GETATTR: return is_word(&node->as.getattr.attr, "content");
    case JINJA_N_GETITEM: return is_const_word(node->as.sub.b, "content");
    case JINJA_N_CONDEXPR:
        return is_content(s, node->as.sub.b) || (node->as.sub.c && is_content(s, node->as.sub.c));
    case JINJA_N_OR:
    case JINJA_N_AND: return is_content(s, node->as.sub.a) || is_content(s, node->as.sub.b);
    case JINJA_N_FILTER:
        call = node->as.call;
        return call->node && (is_word(&call->name, "default") || is_word(&call->name, "d")) &&
               is_content(s, call->node);
    case JINJA_N_CALL:
        call = node->as.call;
        return call->node->type == JINJA_N_GETATTR &&
               is_word(&call->node->as.getattr.attr, "get") && call->n_args &&
               is_const_word(call->args[0], "content");
    default: return false;
    }
}

/* Whether the expression may be an item of content. */
static bool is_part(const struct search *s, const struct jinja_node *node) {
    const struct jinja_node *key = node->as.sub.b;
    if (node->type == JINJA_N_NAME) return s->is_part[node->as.name.name->id];
    return node->type == JINJA_N_GETITEM && key->type == JINJA_N_CONST &&
           key->as.value.kind == JINJA_INT && is_content(s, node->as.sub.a);
}

static void mark(struct search *s, bool *marks, const struct jinja_name *name) {
    if (marks[name->id]) return;
    marks[name->id] = true;
    s->has_changed = true;
}

/* `target` gets `value`: by set, with, or a macro's call. */
static void follow(struct search *s, const struct jinja_node *target,
                   const struct jinja_node *value) {
    if (target->type != JINJA_N_NAME) return;
    if (is_content(s, value)) mark(s, s->is_content, target->as.name.name);
    if (is_part(s, value)) mark(s, s->is_part, target->as.name.name);
}

static bool is_one_of(const struct jinja_value *v, const char *const *words) {
    for (; *words; words++)
        if (is_word(v, *words)) return true;
    return false;
}

/* A macro called with content has it in its parameters. */
static void mark_params(struct search *s, const struct jinja_call_node *call) {
    if (call->node->type != JINJA_N_NAME) return;
    const struct jinja_macro_node *macro = s->macros[call->node->as.name.name->id];
    if (!macro) return;
    for (uint32_t i = 0; i < macro->n_params; i++) {
        const struct jinja_value *param = &macro->params[i]->as.name.name->text;
        if (i < call->n_args) follow(s, macro->params[i], call->args[i]);
        for (uint32_t k = 0; k < call->n_kwargs; k++)
            if (jinja_is_str(&call->kwargs[k].name, param->as.s, param->len))
                follow(s, macro->params[i], call->kwargs[k].value);
    }
}

static void visit(struct search *s, const struct jinja_node *node);

static void visit_all(struct search *s, struct jinja_node *const *items, uint32_t n) {
    for (uint32_t i = 0; i < n; i++) visit(s, items[i]);
}

static void visit_body(struct search *s, const struct jinja_list_node *body) {
    visit_all(s, body->items, body->n);
}

static void visit_call(struct search *s, const struct jinja_node *node) {
    static const char *const filters[] = {"selectattr", "rejectattr", "select", "reject",
                                          "map",        "groupby",    NULL};
    const struct jinja_call_node *call = node->as.call;
    if (call->node) {
        visit(s, call->node);
        if (node->type == JINJA_N_FILTER && is_one_of(&call->name, filters) &&
            is_content(s, call->node))
            s->reads_parts = true;
        if (node->type == JINJA_N_CALL) mark_params(s, call);
    }
    visit_all(s, call->args, call->n_args);
    for (uint32_t i = 0; i < call->n_kwargs; i++) visit(s, call->kwargs[i].value);
    if (call->dyn_args) visit(s, call->dyn_args);
    if (call->dyn_kwargs) visit(s, call->dyn_kwargs);
}

static void visit_expr(struct search *s, const struct jinja_node *node) {
    static const char *const asked[] = {"type", "text", NULL};
    switch (node->type) {
    case JINJA_N_TUPLE:
    case JINJA_N_LIST:
    case JINJA_N_DICT:
    case JINJA_N_CONCAT:
    case JINJA_N_COMPARE: visit_body(s, &node->as.list); return;
    case JINJA_N_GETATTR:
        if (is_part(s, node->as.getattr.obj) && is_one_of(&node->as.getattr.attr, asked))
            s->reads_parts = true;
        visit(s, node->as.getattr.obj);
        return;
    case JINJA_N_CALL:
    case JINJA_N_FILTER:
    case JINJA_N_TEST: visit_call(s, node); return;
    case JINJA_N_CONDEXPR:
    case JINJA_N_OR:
    case JINJA_N_AND:
    case JINJA_N_NOT:
    case JINJA_N_NEG:
    case JINJA_N_POS:
    case JINJA_N_BINARY:
    case JINJA_N_OPERAND:
    case JINJA_N_GETITEM:
    case JINJA_N_SLICE: break;
    default: return;
    }
    const struct jinja_node *key = node->as.sub.b;
    if (node->type == JINJA_N_GETITEM && key->type == JINJA_N_CONST && is_part(s, node->as.sub.a) &&
        is_one_of(&key->as.value, asked))
        s->reads_parts = true;
    if (node->as.sub.a) visit(s, node->as.sub.a);
    if (node->as.sub.b) visit(s, node->as.sub.b);
    if (node->as.sub.c) visit(s, node->as.sub.c);
}

static void visit_macro(struct search *s, const struct jinja_macro_node *macro) {
    if (macro->name) s->macros[macro->name->as.name.name->id] = macro;
    if (macro->call) visit(s, macro->call);
    visit_all(s, macro->defaults, macro->n_defaults);
    visit_body(s, &macro->body);
}

static void visit_set(struct search *s, const struct jinja_set_node *set) {
    if (set->value) visit(s, set->value);
    if (set->filter) visit(s, set->filter);
    if (set->value && set->target) follow(s, set->target, set->value);
    visit_body(s, &set->body);
}

static void visit(struct search *s, const struct jinja_node *node) {
    switch (node->type) {
    case JINJA_N_OUTPUT: visit_body(s, &node->as.list); return;
    case JINJA_N_FOR:
        if (is_content(s, node->as.loop->iter) && node->as.loop->target->type == JINJA_N_NAME)
            mark(s, s->is_part, node->as.loop->target->as.name.name);
        visit(s, node->as.loop->iter);
        if (node->as.loop->test) visit(s, node->as.loop->test);
        visit_body(s, &node->as.loop->body);
        visit_body(s, &node->as.loop->else_body);
        return;
    case JINJA_N_IF:
        for (uint32_t i = 0; i < node->as.branch->n; i++) {
            const struct jinja_branch *branch = &node->as.branch->branches[i];
            if (branch->test) visit(s, branch->test);
            visit_body(s, &branch->body);
        }
        return;
    case JINJA_N_SET:
    case JINJA_N_SET_BLOCK:
    case JINJA_N_FILTER_BLOCK:
    case JINJA_N_AUTOESCAPE: visit_set(s, node->as.set); return;
    case JINJA_N_BLOCK: visit_body(s, &node->as.block->body); return;
    case JINJA_N_LOADER: return;
    case JINJA_N_MACRO:
    case JINJA_N_CALL_BLOCK: visit_macro(s, node->as.macro); return;
    case JINJA_N_WITH:
        for (uint32_t i = 0; i < node->as.with->n; i++) {
            visit(s, node->as.with->values[i]);
            follow(s, node->as.with->targets[i], node->as.with->values[i]);
        }
        visit_body(s, &node->as.with->body);
        return;
    default: visit_expr(s, node); return;
    }
}

bool jinja_reads_parts(const struct jinja_template *t) {
    struct search s = {0};
    s.is_content = calloc(t->n_names + 1, 2 * sizeof(*s.is_content));
    s.macros = calloc(t->n_names + 1, sizeof(*s.macros));
    bool is_going = s.is_content && s.macros;
    if (is_going) s.is_part = s.is_content + t->n_names;
    for (int pass = 0; is_going && !s.reads_parts && pass < PASSES_MAX; pass++) {
        s.has_changed = false;
        visit_body(&s, &t->body);
        is_going = s.has_changed || pass == 0; /* after the first pass all macros are known */
    }
    free(s.is_content);
    free(s.macros);
    return s.reads_parts;
}
