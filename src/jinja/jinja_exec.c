/* jinja_exec.c - statements: output, branches, loops, assignments, macros and captured blocks.
 *
 * Everything that is printed goes to run->out. A macro, set block or filter block wants text
 * instead of output: it points run->out to a scratch buffer, remembers where its part starts, and
 * takes that part off again at its end; blocks inside it do the same above it, so one buffer serves
 * as a stack.
 *
 * Loops pull one item at a time, and a loop's `if` is asked only when the next item is wanted, as
 * Python's generators do: a template may change a namespace in the body and test it there. Only
 * loop.length and its kin need to know the rest; then the rest is filtered at once. */
#include "jinja_builtin.h"
#include "jinja_loop.h"

#include <string.h>

/* ---- output */

struct jinja_capture jinja_capture_begin(struct jinja_run *run) {
    struct jinja_capture capture = {run->out, run->capture.len};
    size_t room = jinja_room(run);
    run->capture.bytes_max = run->capture.len + (room ? room : 1);
    run->out = &run->capture;
    return capture;
}

bool jinja_capture_end(struct jinja_run *run, const struct jinja_capture *capture,
                       struct jinja_value *out) {
    struct buf *b = &run->capture;
    run->out = capture->saved_out;
    if (b->failed) return jinja_fail_limit(run, "memory");
    bool is_ok = true;
    if (out)
        is_ok = jinja_str_copy(run, b->data ? b->data + capture->start : "",
                               b->len - capture->start, out);
    b->len = capture->start;
    return is_ok;
}

static bool write_out(struct jinja_run *run, const struct jinja_value *v) {
    jinja_write_str(run, v, run->out);
    if (run->out->failed) return jinja_fail_limit(run, "output");
    return run->status == RADISH_OK;
}

static bool exec_output(struct jinja_run *run, struct jinja_activation *act,
                        const struct jinja_list_node *items) {
    for (uint32_t i = 0; i < items->n; i++) {
        const struct jinja_node *item = items->items[i];
        struct jinja_value v;
        run->line = item->line;
        if (!jinja_eval(run, act, item, &v) || !write_out(run, &v)) return false;
    }
    return true;
}

/* ---- scopes and assignment */

void jinja_enter_scope(struct jinja_run *run, struct jinja_activation *act,
                       const struct jinja_scope *scope) {
    for (size_t i = 0; i < scope->n_loads; i++) {
        const struct jinja_load *load = &scope->loads[i];
        const struct jinja_activation *from = act;
        struct jinja_value *slot = &act->slots[load->slot];
        switch (load->action) {
        case JINJA_LOAD_RESOLVE: *slot = run->names[load->name_id]; break;
        case JINJA_LOAD_ALIAS:
            for (unsigned hops = load->from.hops; hops; hops--) from = from->outer;
            *slot = from->slots[load->from.slot];
            break;
        default: slot->kind = JINJA_MISSING; break;
        }
    }
}

struct jinja_activation *jinja_activate(struct jinja_run *run,
                                        const struct jinja_function *function,
                                        struct jinja_activation *outer) {
    struct jinja_activation *act =
        jinja_alloc(run, 1, sizeof(*act) + (size_t)function->n_slots * sizeof(struct jinja_value));
    if (!act) return NULL;
    act->outer = outer;
    memset(act->slots, 0, function->n_slots * sizeof(struct jinja_value));
    return act;
}

static bool unpack(struct jinja_run *run, struct jinja_activation *act,
                   const struct jinja_list_node *targets, const struct jinja_value *value) {
    struct jinja_list items;
    if (!jinja_is_iterable(value))
        return jinja_fail(run, "cannot unpack non-iterable %s object",
                          jinja_type_name(value->kind));
    if (!jinja_items(run, value, &items)) return false;
    if (items.n > targets->n)
        return jinja_fail(run, "too many values to unpack (expected %u)", targets->n);
    if (items.n < targets->n)
        return jinja_fail(run, "not enough values to unpack (expected %u, got %zu)", targets->n,
                          items.n);
    for (uint32_t i = 0; i < targets->n; i++)
        if (!jinja_assign(run, act, targets->items[i], &items.items[i])) return false;
    return true;
}

bool jinja_assign(struct jinja_run *run, struct jinja_activation *act,
                  const struct jinja_node *target, const struct jinja_value *value) {
    if (target->type == JINJA_N_TUPLE) return unpack(run, act, &target->as.list, value);
    for (unsigned hops = target->as.name.ref.hops; hops; hops--) act = act->outer;
    struct jinja_value *slot = &act->slots[target->as.name.ref.slot];
    if (target->type == JINJA_N_NAME) {
        *slot = *value;
        if (target->as.name.is_export) run->names[target->as.name.name->id] = *value;
        return true;
    }
    if (slot->kind != JINJA_NAMESPACE)
        return jinja_fail(run, "cannot assign attribute on non-namespace object");
    return jinja_dict_set(run, slot->as.dict, &target->as.name.attr, value);
}

/* ---- loops */

static enum jinja_next filter_item(struct jinja_run *run, struct jinja_loop *loop,
                                   const struct jinja_value *item) {
    struct jinja_value v;
    if (!loop->is_filtered) return JINJA_NEXT_ITEM;
    if (!loop->is_test_ready) jinja_enter_scope(run, loop->act, &loop->node->test_scope);
    loop->is_test_ready = true;
    if (!jinja_assign(run, loop->act, loop->node->test_target, item) ||
        !jinja_eval(run, loop->act, loop->node->test, &v))
        return JINJA_NEXT_FAILED;
    return jinja_truth(&v) ? JINJA_NEXT_ITEM : JINJA_NEXT_END;
}

/* The next item that passes the test. */
static enum jinja_next pull(struct jinja_run *run, struct jinja_loop *loop,
                            struct jinja_value *out) {
    enum jinja_next next, passed;
    while ((next = jinja_iter_next(run, &loop->it, out)) == JINJA_NEXT_ITEM) {
        passed = filter_item(run, loop, out);
        if (passed != JINJA_NEXT_END) return passed;
    }
    return next;
}

static enum jinja_next advance_loop(struct jinja_run *run, struct jinja_loop *loop,
                                    struct jinja_value *out) {
    enum jinja_next next = JINJA_NEXT_ITEM;
    if (loop->has_after) {
        loop->has_after = false;
        if (loop->after.kind == JINJA_MISSING) return JINJA_NEXT_END;
        *out = loop->after;
    } else {
        next = pull(run, loop, out);
    }
    if (next != JINJA_NEXT_ITEM) return next;
    loop->index0++;
    loop->before = loop->current;
    loop->current = *out;
    return next;
}

bool jinja_loop_peek(struct jinja_run *run, struct jinja_loop *loop, struct jinja_value *out) {
    if (!loop->has_after) {
        struct jinja_value item;
        enum jinja_next next = pull(run, loop, &item);
        if (next == JINJA_NEXT_FAILED) return false;
        if (next == JINJA_NEXT_END) item = (struct jinja_value){.kind = JINJA_MISSING};
        loop->after = item;
        loop->has_after = true;
    }
    *out = loop->after;
    return true;
}

bool jinja_loop_length(struct jinja_run *run, struct jinja_loop *loop, size_t *n_out) {
    *n_out = loop->length;
    if (loop->has_length) return true;
    if (!loop->is_filtered && loop->it.of.kind != JINJA_ITER) {
        if (!jinja_length(run, &loop->it.of, &loop->length)) return false;
    } else {
        struct jinja_vec rest = {0};
        struct jinja_value item, list;
        enum jinja_next next;
        while ((next = pull(run, loop, &item)) == JINJA_NEXT_ITEM)
            if (!jinja_vec_push(run, &rest, &item)) return false;
        if (next == JINJA_NEXT_FAILED ||
            !jinja_list_make(run, JINJA_LIST, rest.items, rest.n, &list) ||
            !jinja_iter_begin(run, &list, &loop->it))
            return false;
        bool has_next = loop->has_after && loop->after.kind != JINJA_MISSING;
        loop->is_filtered = false;
        loop->length = rest.n + (size_t)(loop->index0 + 1) + has_next;
    }
    loop->has_length = true;
    *n_out = loop->length;
    return true;
}

static enum jinja_flow exec_loop_body(struct jinja_run *run, struct jinja_loop *loop,
                                      bool *has_run_out) {
    const struct jinja_for_node *node = loop->node;
    struct jinja_value item;
    enum jinja_next next;
    while ((next = advance_loop(run, loop, &item)) == JINJA_NEXT_ITEM) {
        if (!jinja_assign(run, loop->act, node->target, &item)) return JINJA_FLOW_FAILED;
        jinja_enter_scope(run, loop->act, &node->body_scope);
        enum jinja_flow flow = jinja_exec(run, loop->act, &node->body);
        if (flow == JINJA_FLOW_FAILED) return flow;
        /* As compiled by Jinja: a pass that ends in break or continue does not count for else. */
        if (flow == JINJA_FLOW_NEXT) *has_run_out = true;
        if (flow == JINJA_FLOW_BREAK) break;
    }
    return next == JINJA_NEXT_FAILED ? JINJA_FLOW_FAILED : JINJA_FLOW_NEXT;
}

static enum jinja_flow exec_loop(struct jinja_run *run, struct jinja_loop *loop,
                                 const struct jinja_value *items) {
    const struct jinja_for_node *node = loop->node;
    bool has_run = false;
    loop->index0 = -1;
    loop->is_filtered = node->test != NULL;
    if (!jinja_iter_begin(run, items, &loop->it)) return JINJA_FLOW_FAILED;
    if (node->has_loop)
        loop->act->slots[node->loop_slot] =
            (struct jinja_value){.kind = JINJA_LOOP, .as.loop = loop};
    enum jinja_flow flow = exec_loop_body(run, loop, &has_run);
    if (flow == JINJA_FLOW_FAILED) return flow;
    if (node->has_loop) loop->act->slots[node->loop_slot].kind = JINJA_MISSING;
    for (size_t i = 0; i < node->body_scope.n_loads; i++)
        loop->act->slots[node->body_scope.loads[i].slot].kind = JINJA_MISSING;
    if (has_run || !node->else_body.n) return flow;
    jinja_enter_scope(run, loop->act, &node->else_scope);
    return jinja_exec(run, loop->act, &node->else_body);
}

/* A recursive loop is a function: each level has an activation of its own. */
static enum jinja_flow exec_level(struct jinja_run *run, const struct jinja_loop *above,
                                  const struct jinja_value *items) {
    struct jinja_loop *loop = jinja_alloc(run, 1, sizeof(*loop));
    if (!loop) return JINJA_FLOW_FAILED;
    *loop = (struct jinja_loop){.node = above->node, .outer = above->outer};
    loop->depth0 = above->depth0 + 1;
    loop->act = jinja_activate(run, loop->node->function, loop->outer);
    if (!loop->act || !jinja_enter(run)) return JINJA_FLOW_FAILED;
    enum jinja_flow flow = exec_loop(run, loop, items);
    jinja_leave(run);
    return flow == JINJA_FLOW_FAILED ? flow : JINJA_FLOW_NEXT;
}

bool jinja_loop_call(struct jinja_run *run, struct jinja_loop *loop, const struct jinja_args *args,
                     struct jinja_value *out) {
    if (!loop->node->is_recursive)
        return jinja_fail(run,
                          "The loop must have the 'recursive' marker to be called recursively.");
    if (args->n != 1 || args->n_kwargs) return jinja_fail(run, "loop() takes exactly one argument");
    struct jinja_value items = args->values[0];
    struct jinja_capture capture = jinja_capture_begin(run);
    enum jinja_flow flow = exec_level(run, loop, &items);
    return jinja_capture_end(run, &capture, flow == JINJA_FLOW_FAILED ? NULL : out) &&
           flow != JINJA_FLOW_FAILED;
}

static enum jinja_flow exec_for(struct jinja_run *run, struct jinja_activation *act,
                                const struct jinja_node *node) {
    const struct jinja_for_node *for_node = node->as.loop;
    struct jinja_value items;
    if (!jinja_eval(run, act, for_node->iter, &items)) return JINJA_FLOW_FAILED;
    if (for_node->is_recursive) {
        struct jinja_loop above = {.node = for_node, .outer = act, .depth0 = -1};
        return exec_level(run, &above, &items);
    }
    if (!for_node->has_loop) {
        struct jinja_loop loop = {.node = for_node, .act = act};
        return exec_loop(run, &loop, &items);
    }
    /* The template may keep `loop` for longer than the loop runs. */
    struct jinja_loop *loop = jinja_alloc(run, 1, sizeof(*loop));
    if (!loop) return JINJA_FLOW_FAILED;
    *loop = (struct jinja_loop){.node = for_node, .act = act};
    return exec_loop(run, loop, &items);
}

/* ---- blocks that make text */

/* Prints what a filter or call block made. Unlike {{ }} these do not convert it. */
static bool write_made(struct jinja_run *run, const struct jinja_value *v) {
    if (v->kind == JINJA_STR) return write_out(run, v);
    return jinja_fail(run, "sequence item: expected str instance, %s found",
                      jinja_type_name(v->kind));
}

/* Runs the body with its output taken; BREAK and CONTINUE pass through, without the text. */
static enum jinja_flow exec_captured(struct jinja_run *run, struct jinja_activation *act,
                                     const struct jinja_list_node *body, struct jinja_value *out) {
    struct jinja_capture capture = jinja_capture_begin(run);
    enum jinja_flow flow = jinja_exec(run, act, body);
    bool is_ok = jinja_capture_end(run, &capture, flow == JINJA_FLOW_NEXT ? out : NULL);
    return is_ok ? flow : JINJA_FLOW_FAILED;
}

/* A chain of filters on a captured text: the innermost has no node. */
static bool apply_filters(struct jinja_run *run, struct jinja_activation *act,
                          const struct jinja_node *filter, const struct jinja_value *text,
                          struct jinja_value *out) {
    struct jinja_value inner = *text;
    const struct jinja_node *below = filter->as.call->node;
    if (below) {
        if (!jinja_enter(run)) return false;
        bool is_ok = apply_filters(run, act, below, text, &inner);
        jinja_leave(run);
        if (!is_ok) return false;
    }
    struct jinja_call_extras extras = {&inner, NULL};
    return jinja_eval_call(run, act, filter, &extras, out);
}

static enum jinja_flow exec_set_block(struct jinja_run *run, struct jinja_activation *act,
                                      const struct jinja_node *node) {
    const struct jinja_set_node *set = node->as.set;
    struct jinja_value text;
    jinja_enter_scope(run, act, &set->scope);
    enum jinja_flow flow = exec_captured(run, act, &set->body, &text);
    if (flow != JINJA_FLOW_NEXT) return flow;
    if (set->filter && !apply_filters(run, act, set->filter, &text, &text))
        return JINJA_FLOW_FAILED;
    bool is_ok = set->target ? jinja_assign(run, act, set->target, &text) : write_made(run, &text);
    return is_ok ? JINJA_FLOW_NEXT : JINJA_FLOW_FAILED;
}

static enum jinja_flow exec_with(struct jinja_run *run, struct jinja_activation *act,
                                 const struct jinja_with_node *with) {
    jinja_enter_scope(run, act, &with->scope);
    for (uint32_t i = 0; i < with->n; i++) {
        struct jinja_value v;
        if (!jinja_eval(run, act, with->values[i], &v) ||
            !jinja_assign(run, act, with->targets[i], &v))
            return JINJA_FLOW_FAILED;
    }
    return jinja_exec(run, act, &with->body);
}

/* ---- macros */

struct jinja_value jinja_macro_name(const struct jinja_macro *macro) {
    if (!macro->node->name) return jinja_str("", 0);
    return macro->node->name->as.name.name->text;
}

static bool make_macro(struct jinja_run *run, struct jinja_activation *act,
                       const struct jinja_macro_node *node, struct jinja_value *out) {
    struct jinja_macro *macro = jinja_alloc(run, 1, sizeof(*macro));
    if (!macro) return false;
    *macro = (struct jinja_macro){node, act};
    *out = (struct jinja_value){.kind = JINJA_MACRO, .as.macro = macro};
    return true;
}

static bool fail_macro(struct jinja_run *run, const struct jinja_macro *macro, const char *fmt,
                       const struct jinja_value *what) {
    struct jinja_value name = jinja_macro_name(macro);
    if (!name.len) name = jinja_str("None", 4);
    return jinja_fail(run, fmt, name.len > 80 ? 80 : (int)name.len, name.as.s,
                      what->len > 80 ? 80 : (int)what->len, what->as.s);
}

/* Takes the keyword called `name` out of args' (by marking it); MISSING when it is not there. */
static struct jinja_value take_keyword(const struct jinja_args *args, bool *taken,
                                       const struct jinja_value *name) {
    for (size_t i = 0; i < args->n_kwargs; i++)
        if (!taken[i] && jinja_is_str(&args->kwargs[i].name, name->as.s, name->len)) {
            taken[i] = true;
            return args->kwargs[i].value;
        }
    return (struct jinja_value){.kind = JINJA_MISSING};
}

/* What is left of the keywords: into `kwargs`, or an error. */
static bool bind_rest(struct jinja_run *run, const struct jinja_macro *macro,
                      const struct jinja_args *args, const bool *taken,
                      struct jinja_activation *act) {
    const struct jinja_macro_node *node = macro->node;
    struct jinja_dict *dict = node->has_kwargs ? jinja_dict_make(run, args->n_kwargs) : NULL;
    if (node->has_kwargs && !dict) return false;
    for (size_t i = 0; i < args->n_kwargs; i++) {
        const struct jinja_kwarg *kwarg = &args->kwargs[i];
        if (taken[i]) continue;
        if (!dict)
            return fail_macro(run, macro, "macro '%.*s' takes no keyword argument '%.*s'",
                              &kwarg->name);
        if (!jinja_dict_set(run, dict, &kwarg->name, &kwarg->value)) return false;
    }
    if (dict)
        act->slots[node->kwargs_slot] = (struct jinja_value){.kind = JINJA_DICT, .as.dict = dict};
    size_t n_extra = args->n > node->n_params ? args->n - node->n_params : 0;
    if (!node->has_varargs)
        return !n_extra || jinja_fail(run, "macro '%.*s' takes not more than %u argument(s)",
                                      (int)(jinja_macro_name(macro).len & 0x7F),
                                      jinja_macro_name(macro).as.s, node->n_params);
    struct jinja_value *extra = jinja_alloc(run, n_extra + 1, sizeof(*extra));
    if (!extra) return false;
    if (n_extra) memcpy(extra, args->values + node->n_params, n_extra * sizeof(*extra));
    return jinja_list_make(run, JINJA_TUPLE, extra, n_extra, &act->slots[node->varargs_slot]);
}

static bool bind_params(struct jinja_run *run, const struct jinja_macro *macro,
                        const struct jinja_args *args, struct jinja_activation *act) {
    const struct jinja_macro_node *node = macro->node;
    struct jinja_value caller_name = jinja_str("caller", 6);
    bool *taken = jinja_alloc(run, args->n_kwargs + 1, sizeof(*taken));
    if (!taken) return false;
    memset(taken, 0, args->n_kwargs + 1);
    for (uint32_t i = 0; i < node->n_params; i++) {
        const struct jinja_name_node *param = &node->params[i]->as.name;
        act->slots[param->ref.slot] =
            i < args->n ? args->values[i] : take_keyword(args, taken, &param->name->text);
    }
    if (node->has_caller && !node->is_caller_explicit) {
        struct jinja_value *caller = &act->slots[node->caller_slot];
        *caller = take_keyword(args, taken, &caller_name);
        if (caller->kind == JINJA_MISSING || caller->kind == JINJA_NONE)
            *caller = jinja_undefined_hint("No caller defined");
    }
    return bind_rest(run, macro, args, taken, act);
}

static bool fill_defaults(struct jinja_run *run, const struct jinja_macro_node *node,
                          struct jinja_activation *act) {
    uint32_t n_plain = node->n_params - node->n_defaults;
    for (uint32_t i = 0; i < node->n_params; i++) {
        struct jinja_value *slot = &act->slots[node->params[i]->as.name.ref.slot], v;
        if (slot->kind != JINJA_MISSING) continue;
        /* A default may read the parameter itself, which is undefined then. */
        if (i < n_plain)
            v = jinja_undefined_param(&node->params[i]->as.name.name->text);
        else if (!jinja_eval(run, act, node->defaults[i - n_plain], &v))
            return false;
        *slot = v;
    }
    return true;
}

bool jinja_macro_call(struct jinja_run *run, struct jinja_macro *macro,
                      const struct jinja_args *args, struct jinja_value *out) {
    const struct jinja_macro_node *node = macro->node;
    struct jinja_activation *act = jinja_activate(run, &node->function, macro->outer);
    if (!act || !jinja_enter(run)) return false;
    bool is_ok = bind_params(run, macro, args, act);
    if (is_ok) {
        jinja_enter_scope(run, act, &node->function.scope);
        is_ok = fill_defaults(run, node, act) &&
                exec_captured(run, act, &node->body, out) == JINJA_FLOW_NEXT;
    }
    jinja_leave(run);
    return is_ok;
}

static bool exec_call_block(struct jinja_run *run, struct jinja_activation *act,
                            const struct jinja_macro_node *node) {
    struct jinja_value caller, text;
    if (!node->call) { /* a generation block: its own scope, printed where it stands */
        struct jinja_activation *inner = jinja_activate(run, &node->function, act);
        if (!inner) return false;
        jinja_enter_scope(run, inner, &node->function.scope);
        return jinja_exec(run, inner, &node->body) == JINJA_FLOW_NEXT;
    }
    struct jinja_call_extras extras = {NULL, &caller};
    return make_macro(run, act, node, &caller) &&
           jinja_eval_call(run, act, node->call, &extras, &text) && write_made(run, &text);
}

/* ---- blocks of the template */

static bool exec_block_body(struct jinja_run *run, const struct jinja_block_node *block) {
    struct jinja_activation *act = jinja_activate(run, &block->function, NULL);
    if (!act) return false;
    if (block->is_required)
        return jinja_fail(run, "Required block '%.*s' not found",
                          block->name->text.len > 80 ? 80 : (int)block->name->text.len,
                          block->name->text.as.s);
    jinja_enter_scope(run, act, &block->function.scope);
    if (block->has_self) act->slots[block->self_slot].kind = JINJA_SELF;
    return jinja_exec(run, act, &block->body) == JINJA_FLOW_NEXT;
}

/* A scoped block finds what is set around it in the context, for as long as it runs. */
static bool exec_block(struct jinja_run *run, struct jinja_activation *act,
                       const struct jinja_block_node *block) {
    struct jinja_value *saved = jinja_alloc(run, block->n_locals + 1, sizeof(*saved));
    if (!saved || !jinja_charge(run, block->n_locals)) return false;
    for (size_t i = 0; i < block->n_locals; i++) {
        const struct jinja_block_local *local = &block->locals[i];
        const struct jinja_activation *from = act;
        for (unsigned hops = local->ref.hops; hops; hops--) from = from->outer;
        const struct jinja_value *v = &from->slots[local->ref.slot];
        saved[i] = run->names[local->name_id];
        if (v->kind != JINJA_MISSING) run->names[local->name_id] = *v;
    }
    bool is_ok = exec_block_body(run, block);
    for (size_t i = 0; i < block->n_locals; i++) run->names[block->locals[i].name_id] = saved[i];
    return is_ok;
}

bool jinja_block_call(struct jinja_run *run, const struct jinja_block_node *block,
                      const struct jinja_args *args, struct jinja_value *out) {
    if (args->n || args->n_kwargs) return jinja_fail(run, "a block takes no arguments");
    struct jinja_capture capture = jinja_capture_begin(run);
    bool is_ok = exec_block_body(run, block);
    return jinja_capture_end(run, &capture, is_ok ? out : NULL) && is_ok;
}

static enum jinja_flow exec_autoescape(struct jinja_run *run, struct jinja_activation *act,
                                       const struct jinja_set_node *set) {
    struct jinja_value v;
    jinja_enter_scope(run, act, &set->scope);
    if (!jinja_eval(run, act, set->value, &v)) return JINJA_FLOW_FAILED;
    if (jinja_truth(&v)) {
        jinja_fail(run, "autoescape cannot be switched on: a prompt is no HTML");
        return JINJA_FLOW_FAILED;
    }
    return jinja_exec(run, act, &set->body);
}

/* ---- statements */

static enum jinja_flow exec_if(struct jinja_run *run, struct jinja_activation *act,
                               const struct jinja_if_node *branches) {
    for (uint32_t i = 0; i < branches->n; i++) {
        const struct jinja_branch *branch = &branches->branches[i];
        struct jinja_value v;
        if (branch->test) {
            if (!jinja_eval(run, act, branch->test, &v)) return JINJA_FLOW_FAILED;
            if (!jinja_truth(&v)) continue;
        }
        return jinja_exec(run, act, &branch->body);
    }
    return JINJA_FLOW_NEXT;
}

static bool exec_set(struct jinja_run *run, struct jinja_activation *act,
                     const struct jinja_set_node *set) {
    struct jinja_value v;
    return jinja_eval(run, act, set->value, &v) && jinja_assign(run, act, set->target, &v);
}

static bool exec_macro(struct jinja_run *run, struct jinja_activation *act,
                       const struct jinja_macro_node *node) {
    struct jinja_value v;
    return make_macro(run, act, node, &v) && jinja_assign(run, act, node->name, &v);
}

static enum jinja_flow flow_of(bool is_ok) {
    return is_ok ? JINJA_FLOW_NEXT : JINJA_FLOW_FAILED;
}

static enum jinja_flow exec_node(struct jinja_run *run, struct jinja_activation *act,
                                 const struct jinja_node *node) {
    run->line = node->line;
    switch (node->type) {
    case JINJA_N_OUTPUT: return flow_of(exec_output(run, act, &node->as.list));
    case JINJA_N_IF: return exec_if(run, act, node->as.branch);
    case JINJA_N_FOR: return exec_for(run, act, node);
    case JINJA_N_SET: return flow_of(exec_set(run, act, node->as.set));
    case JINJA_N_SET_BLOCK:
    case JINJA_N_FILTER_BLOCK: return exec_set_block(run, act, node);
    case JINJA_N_MACRO: return flow_of(exec_macro(run, act, node->as.macro));
    case JINJA_N_CALL_BLOCK: return flow_of(exec_call_block(run, act, node->as.macro));
    case JINJA_N_WITH: return exec_with(run, act, node->as.with);
    case JINJA_N_BLOCK: return flow_of(exec_block(run, act, node->as.block));
    case JINJA_N_AUTOESCAPE: return exec_autoescape(run, act, node->as.set);
    case JINJA_N_LOADER:
        return flow_of(jinja_fail(run, "no loader: a chat template has no other templates to "
                                       "extend, include or import"));
    case JINJA_N_BREAK: return JINJA_FLOW_BREAK;
    default: return JINJA_FLOW_CONTINUE;
    }
}

enum jinja_flow jinja_exec(struct jinja_run *run, struct jinja_activation *act,
                           const struct jinja_list_node *body) {
    enum jinja_flow flow = JINJA_FLOW_NEXT;
    if (!jinja_enter(run)) return JINJA_FLOW_FAILED;
    for (uint32_t i = 0; i < body->n && flow == JINJA_FLOW_NEXT; i++)
        flow = jinja_charge(run, 1) ? exec_node(run, act, body->items[i]) : JINJA_FLOW_FAILED;
    jinja_leave(run);
    return flow;
}
