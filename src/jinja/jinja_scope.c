/* jinja_scope.c - which variable a name means, decided once, as Jinja's compiler decides it.
 *
 * Jinja has no scopes at run time: it compiles a template to Python functions whose local variables
 * stand for the template's names, and decides for every frame (template, loop body, set block,
 * macro ...) on entry which of its names start as what:
 *   resolve    read before it is set anywhere around: looked up in the context, on entry
 *   alias      set here, known further out: starts with the outer value; the outer one never
 * changes undefined  set here and known nowhere parameter  loop targets, macro arguments: set by
 * the construct itself Everything odd about Jinja's scoping follows: a variable set in a loop is
 * lost after it, and each pass starts anew; a macro sees what the template sets later; a name set
 * in one branch of an `if` is looked up outside when the other branch ran. So this file is
 * jinja2/idtracking.py, with slots in place of Python's local variables.
 *
 * Each frame is walked twice: first its own statements to find its bindings (inner frames are not
 * entered), then to give every name its slot and to enter inner frames. Jinja copies all tables for
 * each branch of an `if`; here a log of changes is undone after each branch and merged at the end,
 * so the cost is linear in the template times the nesting of its ifs.
 *
 *   name --binding--> {frame 2, slot 5} --outer--> {frame 0, slot 1}     innermost first */
#include "jinja_ast.h"

#include "base/status.h"

#include <string.h>

struct function_ctx {
    struct jinja_function *function;
    unsigned depth;
};

struct frame {
    uint32_t id;
    struct function_ctx *function;
    struct jinja_binding *bindings; /* all made here */
};

struct jinja_binding {
    struct jinja_binding *outer; /* of the same name, in a frame further out */
    struct jinja_binding *next;  /* in the frame */
    struct jinja_name *name;
    struct function_ctx *function;
    uint32_t frame_id, slot;
    enum jinja_load_action action;
    bool is_param, is_stored;
};

struct log_entry {
    struct jinja_binding *binding;
    bool is_push; /* else: was marked as stored */
};

enum special {
    SPECIAL_LOOP,
    SPECIAL_CALLER,
    SPECIAL_KWARGS,
    SPECIAL_VARARGS,
    SPECIAL_SELF,
    N_SPECIALS
};

struct resolver {
    struct jinja_template *t;
    struct jinja_name *specials[N_SPECIALS]; /* NULL: the template never says it */
    struct frame *frame;
    struct log_entry *log;
    size_t n_log, log_capacity;
    uint32_t n_frames;
    unsigned for_depth;
    bool is_soft; /* unknown filters and tests fail only when they are reached */
    enum radish_status status;
    struct radish_error *err;
};

static bool fail_limit(struct resolver *r) {
    if (r->status == RADISH_OK)
        r->status = error_set(r->err, RADISH_E_LIMIT, "the template is too large to compile");
    return false;
}

static bool fail_at(struct resolver *r, uint32_t line, const char *what,
                    const struct jinja_value *name) {
    if (r->status == RADISH_OK)
        r->status = error_set(r->err, RADISH_E_TEMPLATE, "%s '%.*s'. (line %u)", what,
                              name->len > 80 ? 80 : (int)name->len, name->as.s, line);
    return false;
}

/* ---- bindings */

static bool log_change(struct resolver *r, struct jinja_binding *binding, bool is_push) {
    if (r->n_log == r->log_capacity) {
        size_t capacity = r->log_capacity ? r->log_capacity * 2 : 64;
        struct log_entry *log = arena_zalloc(&r->t->arena, capacity, sizeof(*log));
        if (!log) return fail_limit(r);
        if (r->n_log) memcpy(log, r->log, r->n_log * sizeof(*log));
        r->log = log;
        r->log_capacity = capacity;
    }
    r->log[r->n_log++] = (struct log_entry){binding, is_push};
    return true;
}

static bool is_own(const struct resolver *r, const struct jinja_binding *binding) {
    return binding && binding->frame_id == r->frame->id;
}

static bool bind(struct resolver *r, struct jinja_name *name, enum jinja_load_action action,
                 struct jinja_binding **out) {
    struct jinja_binding *binding = name->spare;
    if (!is_own(r, binding)) {
        binding = arena_zalloc(&r->t->arena, 1, sizeof(*binding));
        if (!binding) return fail_limit(r);
        binding->name = name;
        binding->function = r->frame->function;
        binding->frame_id = r->frame->id;
        binding->slot = r->frame->function->function->n_slots++;
        binding->next = r->frame->bindings;
        r->frame->bindings = binding;
    }
    binding->outer = name->binding;
    binding->action = action;
    name->binding = binding;
    *out = binding;
    return log_change(r, binding, true);
}

static bool declare_param(struct resolver *r, struct jinja_name *name) {
    struct jinja_binding *binding = name->binding;
    if (!is_own(r, binding) && !bind(r, name, JINJA_LOAD_UNDEFINED, &binding)) return false;
    binding->is_param = binding->is_stored = true;
    return true;
}

static bool note_load(struct resolver *r, struct jinja_name *name) {
    struct jinja_binding *binding;
    return name->binding || bind(r, name, JINJA_LOAD_RESOLVE, &binding);
}

static bool note_store(struct resolver *r, struct jinja_name *name) {
    struct jinja_binding *binding = name->binding;
    if (!is_own(r, binding) &&
        !bind(r, name, binding ? JINJA_LOAD_ALIAS : JINJA_LOAD_UNDEFINED, &binding))
        return false;
    if (binding->is_stored) return true;
    binding->is_stored = true;
    return log_change(r, binding, false);
}

static void undo_branch(struct resolver *r, size_t from) {
    for (size_t i = r->n_log; i > from; i--) {
        struct jinja_binding *binding = r->log[i - 1].binding;
        if (!r->log[i - 1].is_push) {
            binding->is_stored = false;
        } else if (binding->name->binding == binding) {
            binding->name->binding = binding->outer;
            binding->name->spare = binding;
        }
    }
}

/* After all branches of an if: what any of them bound is bound. What any of them stored starts with
 * the outer value or the context's: another branch may run. */
static void merge_branches(struct resolver *r, size_t from) {
    for (size_t i = from; i < r->n_log; i++) {
        struct jinja_binding *binding = r->log[i].binding;
        if (r->log[i].is_push) {
            if (!is_own(r, binding->name->binding)) {
                binding->outer = binding->name->binding;
                binding->name->binding = binding;
            }
        } else {
            binding->is_stored = true;
            binding->action = binding->outer ? JINJA_LOAD_ALIAS : JINJA_LOAD_RESOLVE;
        }
    }
}

/* ---- first walk: bindings of one frame */

static bool find_in_expr(struct resolver *r, const struct jinja_node *node);

static bool find_in_all(struct resolver *r, struct jinja_node *const *items, uint32_t n) {
    for (uint32_t i = 0; i < n; i++)
        if (!find_in_expr(r, items[i])) return false;
    return true;
}

static bool find_in_name(struct resolver *r, const struct jinja_node *node) {
    struct jinja_name *name = node->as.name.name;
    if (node->type == JINJA_N_NSREF || node->as.name.ctx == JINJA_LOAD) return note_load(r, name);
    return node->as.name.ctx == JINJA_STORE ? note_store(r, name) : declare_param(r, name);
}

static bool find_in_call(struct resolver *r, const struct jinja_call_node *call) {
    if ((call->node && !find_in_expr(r, call->node)) || !find_in_all(r, call->args, call->n_args))
        return false;
    for (uint32_t i = 0; i < call->n_kwargs; i++)
        if (!find_in_expr(r, call->kwargs[i].value)) return false;
    return (!call->dyn_args || find_in_expr(r, call->dyn_args)) &&
           (!call->dyn_kwargs || find_in_expr(r, call->dyn_kwargs));
}

static bool find_in_expr(struct resolver *r, const struct jinja_node *node) {
    switch (node->type) {
    case JINJA_N_CONST:
    case JINJA_N_DATA: return true;
    case JINJA_N_NAME:
    case JINJA_N_NSREF: return find_in_name(r, node);
    case JINJA_N_TUPLE:
    case JINJA_N_LIST:
    case JINJA_N_DICT:
    case JINJA_N_CONCAT:
    case JINJA_N_COMPARE: return find_in_all(r, node->as.list.items, node->as.list.n);
    case JINJA_N_GETATTR: return find_in_expr(r, node->as.getattr.obj);
    case JINJA_N_CALL:
    case JINJA_N_FILTER:
    case JINJA_N_TEST: return find_in_call(r, node->as.call);
    default:
        return (!node->as.sub.a || find_in_expr(r, node->as.sub.a)) &&
               (!node->as.sub.b || find_in_expr(r, node->as.sub.b)) &&
               (!node->as.sub.c || find_in_expr(r, node->as.sub.c));
    }
}

static bool find_in_body(struct resolver *r, const struct jinja_list_node *body);

static bool find_in_if(struct resolver *r, const struct jinja_if_node *branches) {
    size_t from = 0;
    for (uint32_t i = 0; i < branches->n; i++) {
        const struct jinja_branch *branch = &branches->branches[i];
        if (branch->test && !find_in_expr(r, branch->test)) return false;
        if (i == 0) from = r->n_log;
        size_t mark = r->n_log;
        if (!find_in_body(r, &branch->body)) return false;
        undo_branch(r, mark);
    }
    merge_branches(r, from);
    return true;
}

static bool find_in_stmt(struct resolver *r, const struct jinja_node *node) {
    switch (node->type) {
    case JINJA_N_OUTPUT: return find_in_all(r, node->as.list.items, node->as.list.n);
    case JINJA_N_FOR: return find_in_expr(r, node->as.loop->iter);
    case JINJA_N_IF: return find_in_if(r, node->as.branch);
    case JINJA_N_SET:
        return find_in_expr(r, node->as.set->value) && find_in_expr(r, node->as.set->target);
    case JINJA_N_SET_BLOCK: return find_in_expr(r, node->as.set->target);
    case JINJA_N_FILTER_BLOCK: return find_in_expr(r, node->as.set->filter);
    case JINJA_N_MACRO: return note_store(r, node->as.macro->name->as.name.name);
    case JINJA_N_CALL_BLOCK: return !node->as.macro->call || find_in_expr(r, node->as.macro->call);
    case JINJA_N_WITH: return find_in_all(r, node->as.with->values, node->as.with->n);
    case JINJA_N_LOADER: return find_in_all(r, node->as.list.items, node->as.list.n);
    default: return true;
    }
}

static bool find_in_body(struct resolver *r, const struct jinja_list_node *body) {
    for (uint32_t i = 0; i < body->n; i++)
        if (!find_in_stmt(r, body->items[i])) return false;
    return true;
}

/* Names of a loop's or with's target become parameters of the frame. */
static bool declare_target(struct resolver *r, const struct jinja_node *target) {
    if (target->type == JINJA_N_NAME) return declare_param(r, target->as.name.name);
    if (target->type != JINJA_N_TUPLE) return find_in_expr(r, target);
    for (uint32_t i = 0; i < target->as.list.n; i++)
        if (!declare_target(r, target->as.list.items[i])) return false;
    return true;
}

/* ---- frames */

struct saved_frame {
    struct frame *frame;
    size_t n_log;
    bool is_soft;
};

static struct saved_frame begin_frame(struct resolver *r, struct frame *frame,
                                      struct function_ctx *function) {
    struct saved_frame saved = {r->frame, r->n_log, r->is_soft};
    *frame = (struct frame){.id = ++r->n_frames, .function = function};
    r->frame = frame;
    r->is_soft = false;
    return saved;
}

static struct jinja_slot_ref ref_from(const struct function_ctx *function,
                                      const struct jinja_binding *binding) {
    return (struct jinja_slot_ref){(uint16_t)(function->depth - binding->function->depth),
                                   binding->slot};
}

/* Once all bindings of the frame are known: what to do on entry. */
static bool emit_loads(struct resolver *r, struct jinja_scope *scope) {
    size_t n = 0;
    for (struct jinja_binding *b = r->frame->bindings; b; b = b->next) n += !b->is_param;
    scope->n_loads = 0;
    scope->loads = n ? arena_zalloc(&r->t->arena, n, sizeof(*scope->loads)) : NULL;
    if (n && !scope->loads) return fail_limit(r);
    for (struct jinja_binding *b = r->frame->bindings; b; b = b->next) {
        if (b->is_param) continue;
        struct jinja_load *load = &scope->loads[scope->n_loads++];
        *load = (struct jinja_load){.action = b->action, .slot = b->slot, .name_id = b->name->id};
        if (b->action == JINJA_LOAD_ALIAS) load->from = ref_from(r->frame->function, b->outer);
    }
    return true;
}

static void end_frame(struct resolver *r, const struct saved_frame *saved) {
    for (struct jinja_binding *b = r->frame->bindings; b; b = b->next)
        if (b->name->binding == b) b->name->binding = b->outer;
    r->frame = saved->frame;
    r->n_log = saved->n_log;
    r->is_soft = saved->is_soft;
}

/* ---- second walk: slots, and inner frames */

static bool link_expr(struct resolver *r, struct jinja_node *node);
static bool link_body(struct resolver *r, struct jinja_list_node *body);

static bool link_all(struct resolver *r, struct jinja_node **items, uint32_t n) {
    for (uint32_t i = 0; i < n; i++)
        if (!link_expr(r, items[i])) return false;
    return true;
}

static bool link_name(struct resolver *r, struct jinja_node *node) {
    struct jinja_name *name = node->as.name.name;
    if (r->for_depth && node->as.name.ctx == JINJA_STORE && jinja_is_str(&name->text, "loop", 4))
        return fail_at(r, node->line, "Can't assign to special loop variable", &name->text);
    /* Jinja fails on a name that its first walk did not see; there is none such here. */
    if (!note_load(r, name)) return false;
    node->as.name.ref = ref_from(r->frame->function, name->binding);
    node->as.name.is_export = r->frame->id == 1 && node->as.name.ctx == JINJA_STORE;
    return true;
}

static bool link_call(struct resolver *r, struct jinja_node *node) {
    struct jinja_call_node *call = node->as.call;
    if (!call->builtin && node->type != JINJA_N_CALL && !r->is_soft)
        return fail_at(r, node->line,
                       node->type == JINJA_N_FILTER ? "No filter named" : "No test named",
                       &call->name);
    if ((call->node && !link_expr(r, call->node)) || !link_all(r, call->args, call->n_args))
        return false;
    for (uint32_t i = 0; i < call->n_kwargs; i++)
        if (!link_expr(r, call->kwargs[i].value)) return false;
    return (!call->dyn_args || link_expr(r, call->dyn_args)) &&
           (!call->dyn_kwargs || link_expr(r, call->dyn_kwargs));
}

static bool link_sub(struct resolver *r, struct jinja_node *node) {
    bool was_soft = r->is_soft;
    if (node->type == JINJA_N_CONDEXPR) r->is_soft = true;
    bool is_ok = (!node->as.sub.a || link_expr(r, node->as.sub.a)) &&
                 (!node->as.sub.b || link_expr(r, node->as.sub.b)) &&
                 (!node->as.sub.c || link_expr(r, node->as.sub.c));
    r->is_soft = was_soft;
    return is_ok;
}

static bool link_expr(struct resolver *r, struct jinja_node *node) {
    switch (node->type) {
    case JINJA_N_CONST:
    case JINJA_N_DATA: return true;
    case JINJA_N_NAME:
    case JINJA_N_NSREF: return link_name(r, node);
    case JINJA_N_TUPLE:
    case JINJA_N_LIST:
    case JINJA_N_DICT:
    case JINJA_N_CONCAT:
    case JINJA_N_COMPARE: return link_all(r, node->as.list.items, node->as.list.n);
    case JINJA_N_GETATTR: return link_expr(r, node->as.getattr.obj);
    case JINJA_N_CALL:
    case JINJA_N_FILTER:
    case JINJA_N_TEST: return link_call(r, node);
    default: return link_sub(r, node);
    }
}

static struct jinja_node *copy_target(struct resolver *r, const struct jinja_node *target) {
    struct jinja_node *copy = arena_alloc(&r->t->arena, sizeof(*copy));
    if (!copy) {
        fail_limit(r);
        return NULL;
    }
    *copy = *target;
    if (target->type != JINJA_N_TUPLE) return copy;
    uint32_t n = target->as.list.n;
    copy->as.list.items = arena_zalloc(&r->t->arena, n, sizeof(struct jinja_node *));
    if (!copy->as.list.items) {
        fail_limit(r);
        return NULL;
    }
    for (uint32_t i = 0; i < n; i++) {
        copy->as.list.items[i] = copy_target(r, target->as.list.items[i]);
        if (!copy->as.list.items[i]) return NULL;
    }
    return copy;
}

/* The loop's filter runs before the body, on targets of its own. */
static bool link_for_test(struct resolver *r, struct jinja_for_node *loop,
                          struct function_ctx *function) {
    struct frame frame;
    struct saved_frame saved = begin_frame(r, &frame, function);
    loop->test_target = copy_target(r, loop->target);
    bool is_ok = loop->test_target && declare_target(r, loop->test_target) &&
                 find_in_expr(r, loop->test) && emit_loads(r, &loop->test_scope) &&
                 link_expr(r, loop->test_target) && link_expr(r, loop->test);
    end_frame(r, &saved);
    return is_ok;
}

/* Names such as loop and caller, which a construct provides; *slot_out: where. */
static bool declare_special(struct resolver *r, enum special which, uint32_t *slot_out) {
    struct jinja_name *name = r->specials[which];
    if (!name) { /* a recursive loop that never says `loop` */
        *slot_out = r->frame->function->function->n_slots++;
        return true;
    }
    if (!declare_param(r, name)) return false;
    *slot_out = name->binding->slot;
    return true;
}

static bool link_for_body(struct resolver *r, struct jinja_for_node *loop,
                          struct function_ctx *function) {
    struct frame frame;
    struct saved_frame saved = begin_frame(r, &frame, function);
    bool is_ok = (!loop->has_loop || declare_special(r, SPECIAL_LOOP, &loop->loop_slot)) &&
                 declare_target(r, loop->target) && find_in_body(r, &loop->body) &&
                 emit_loads(r, &loop->body_scope) && link_expr(r, loop->target) &&
                 link_body(r, &loop->body);
    end_frame(r, &saved);
    if (!is_ok || !loop->else_body.n) return is_ok;
    saved = begin_frame(r, &frame, function);
    is_ok = find_in_body(r, &loop->else_body) && emit_loads(r, &loop->else_scope) &&
            link_body(r, &loop->else_body);
    end_frame(r, &saved);
    return is_ok;
}

static bool link_for(struct resolver *r, struct jinja_node *node) {
    struct jinja_for_node *loop = node->as.loop;
    struct function_ctx inner, *function = r->frame->function;
    if (!link_expr(r, loop->iter)) return false;
    if (loop->is_recursive) {
        loop->function = arena_zalloc(&r->t->arena, 1, sizeof(*loop->function));
        if (!loop->function) return fail_limit(r);
        inner = (struct function_ctx){loop->function, function->depth + 1};
        function = &inner;
    }
    r->for_depth++;
    bool is_ok =
        (!loop->test || link_for_test(r, loop, function)) && link_for_body(r, loop, function);
    r->for_depth--;
    return is_ok;
}

static bool link_if(struct resolver *r, struct jinja_if_node *branches) {
    bool was_soft = r->is_soft, is_ok = true;
    r->is_soft = true;
    for (uint32_t i = 0; is_ok && i < branches->n; i++) {
        struct jinja_branch *branch = &branches->branches[i];
        is_ok = (!branch->test || link_expr(r, branch->test)) && link_body(r, &branch->body);
    }
    r->is_soft = was_soft;
    return is_ok;
}

static bool link_macro(struct resolver *r, struct jinja_macro_node *macro) {
    struct frame frame;
    struct function_ctx function = {&macro->function, r->frame->function->depth + 1};
    if ((macro->name && !link_expr(r, macro->name)) || (macro->call && !link_expr(r, macro->call)))
        return false;
    struct saved_frame saved = begin_frame(r, &frame, &function);
    bool is_ok = find_in_all(r, macro->params, macro->n_params);
    if (is_ok && macro->has_caller) is_ok = declare_special(r, SPECIAL_CALLER, &macro->caller_slot);
    if (is_ok && macro->has_kwargs) is_ok = declare_special(r, SPECIAL_KWARGS, &macro->kwargs_slot);
    if (is_ok && macro->has_varargs)
        is_ok = declare_special(r, SPECIAL_VARARGS, &macro->varargs_slot);
    is_ok = is_ok && find_in_all(r, macro->defaults, macro->n_defaults) &&
            find_in_body(r, &macro->body) && emit_loads(r, &macro->function.scope) &&
            link_all(r, macro->params, macro->n_params) &&
            link_all(r, macro->defaults, macro->n_defaults) && link_body(r, &macro->body);
    end_frame(r, &saved);
    return is_ok;
}

static bool link_captured(struct resolver *r, struct jinja_set_node *set) {
    struct frame frame;
    if (set->target && !link_expr(r, set->target)) return false;
    struct saved_frame saved = begin_frame(r, &frame, r->frame->function);
    bool is_ok = find_in_body(r, &set->body) && (!set->filter || find_in_expr(r, set->filter)) &&
                 emit_loads(r, &set->scope) && link_body(r, &set->body) &&
                 (!set->filter || link_expr(r, set->filter));
    end_frame(r, &saved);
    return is_ok;
}

static bool link_autoescape(struct resolver *r, struct jinja_set_node *set) {
    struct frame frame;
    struct saved_frame saved = begin_frame(r, &frame, r->frame->function);
    bool is_ok = find_in_expr(r, set->value) && find_in_body(r, &set->body) &&
                 emit_loads(r, &set->scope) && link_expr(r, set->value) && link_body(r, &set->body);
    end_frame(r, &saved);
    return is_ok;
}

/* What a scoped block sees besides the context: all that is set in scopes around it. (The block
 * itself is linked when nothing is around it any more.) */
static bool link_block(struct resolver *r, struct jinja_block_node *block) {
    size_t n = 0;
    if (!block->is_scoped) return true;
    for (size_t i = 0; i < r->t->n_names; i++)
        n += r->t->names[i]->binding && r->t->names[i]->binding->is_stored;
    block->locals = arena_zalloc(&r->t->arena, n + 1, sizeof(*block->locals));
    if (!block->locals) return fail_limit(r);
    for (size_t i = 0; i < r->t->n_names; i++) {
        const struct jinja_binding *binding = r->t->names[i]->binding;
        if (!binding || !binding->is_stored) continue;
        block->locals[block->n_locals++] =
            (struct jinja_block_local){(uint32_t)i, ref_from(r->frame->function, binding)};
    }
    return true;
}

static bool link_loader(struct resolver *r, struct jinja_node *node) {
    static const struct jinja_value extends = {.kind = JINJA_STR, .len = 7, .as.s = "extends"};
    if (node->op == 'e' && r->frame->id != 1)
        return fail_at(r, node->line, "only the top level can hold", &extends);
    return link_all(r, node->as.list.items, node->as.list.n);
}

/* A function without an outer one. */
static bool link_root(struct resolver *r, struct jinja_function *function,
                      struct jinja_list_node *body, uint32_t *self_slot) {
    struct function_ctx ctx = {function, 0};
    struct frame frame;
    struct saved_frame saved = begin_frame(r, &frame, &ctx);
    bool is_ok = (!self_slot || declare_special(r, SPECIAL_SELF, self_slot)) &&
                 find_in_body(r, body) && emit_loads(r, &function->scope) && link_body(r, body);
    end_frame(r, &saved);
    return is_ok;
}

static bool link_with(struct resolver *r, struct jinja_with_node *with) {
    struct frame frame;
    if (!link_all(r, with->values, with->n)) return false;
    struct saved_frame saved = begin_frame(r, &frame, r->frame->function);
    bool is_ok = true;
    for (uint32_t i = 0; is_ok && i < with->n; i++) is_ok = declare_target(r, with->targets[i]);
    is_ok = is_ok && find_in_body(r, &with->body) && emit_loads(r, &with->scope) &&
            link_all(r, with->targets, with->n) && link_body(r, &with->body);
    end_frame(r, &saved);
    return is_ok;
}

static bool link_stmt(struct resolver *r, struct jinja_node *node) {
    switch (node->type) {
    case JINJA_N_OUTPUT: return link_all(r, node->as.list.items, node->as.list.n);
    case JINJA_N_FOR: return link_for(r, node);
    case JINJA_N_IF: return link_if(r, node->as.branch);
    case JINJA_N_SET:
        return link_expr(r, node->as.set->value) && link_expr(r, node->as.set->target);
    case JINJA_N_SET_BLOCK:
    case JINJA_N_FILTER_BLOCK: return link_captured(r, node->as.set);
    case JINJA_N_MACRO:
    case JINJA_N_CALL_BLOCK: return link_macro(r, node->as.macro);
    case JINJA_N_WITH: return link_with(r, node->as.with);
    case JINJA_N_BLOCK: return link_block(r, node->as.block);
    case JINJA_N_AUTOESCAPE: return link_autoescape(r, node->as.set);
    case JINJA_N_LOADER: return link_loader(r, node);
    default: return true;
    }
}

static bool link_body(struct resolver *r, struct jinja_list_node *body) {
    for (uint32_t i = 0; i < body->n; i++)
        if (!link_stmt(r, body->items[i])) return false;
    return true;
}

enum radish_status jinja_scope_resolve(struct jinja_template *t, struct radish_error *err) {
    struct resolver r = {.t = t, .err = err};
    static const char *const specials[] = {"loop", "caller", "kwargs", "varargs", "self"};
    for (size_t i = 0; i < t->n_names; i++)
        for (int which = 0; which < N_SPECIALS; which++)
            if (jinja_is_str(&t->names[i]->text, specials[which], strlen(specials[which])))
                r.specials[which] = t->names[i];
    bool is_ok = link_root(&r, &t->function, &t->body, t->has_self ? &t->self_slot : NULL);
    for (size_t i = 0; is_ok && i < t->n_blocks; i++) {
        struct jinja_block_node *block = t->blocks[i];
        is_ok = link_root(&r, &block->function, &block->body,
                          block->has_self ? &block->self_slot : NULL);
    }
    return r.status;
}
