/* jinja_loop.h - what runs while a template runs: activations, loops, macros; and the evaluator's
 * entry points.
 *
 * Owns nothing: all of it lies in the arena of the render. */
#ifndef JINJA_LOOP_H
#define JINJA_LOOP_H

#include "jinja_ast.h"
#include "jinja_run.h"
#include "jinja_value.h"

/* A running function: the values of its names. Macros keep theirs alive for what they defined. */
struct jinja_activation {
    struct jinja_activation *outer;
    struct jinja_value slots[];
};

struct jinja_macro {
    const struct jinja_macro_node *node;
    struct jinja_activation *outer; /* where it was defined */
};

/* A loop in progress: `loop` in its body. */
struct jinja_loop {
    const struct jinja_for_node *node;
    struct jinja_activation *act;   /* holds the slots of body and test */
    struct jinja_activation *outer; /* of a recursive loop: where the next level starts from */
    struct jinja_iter it;           /* what is left */
    bool is_filtered;               /* items must still pass the test */
    bool is_test_ready;             /* the test's scope was entered */
    bool has_length, has_after, has_changed;
    int64_t index0, depth0;
    size_t length;
    struct jinja_value current, before, after, changed;
};

struct jinja_value jinja_macro_name(const struct jinja_macro *macro); /* "" = anonymous */
bool jinja_macro_call(struct jinja_run *run, struct jinja_macro *macro,
                      const struct jinja_args *args, struct jinja_value *out);

static inline size_t jinja_loop_index0(const struct jinja_loop *loop) {
    return (size_t)loop->index0;
}
bool jinja_loop_length(struct jinja_run *run, struct jinja_loop *loop, size_t *n_out);
/* The item after this one, without going there: MISSING at the end. */
bool jinja_loop_peek(struct jinja_run *run, struct jinja_loop *loop, struct jinja_value *out);
/* loop(items) in a recursive loop: the text of one level further down. */
bool jinja_loop_call(struct jinja_run *run, struct jinja_loop *loop, const struct jinja_args *args,
                     struct jinja_value *out);

/* self.name() */
bool jinja_block_call(struct jinja_run *run, const struct jinja_block_node *block,
                      const struct jinja_args *args, struct jinja_value *out);

/* ---- the evaluator */
enum jinja_flow { JINJA_FLOW_FAILED, JINJA_FLOW_NEXT, JINJA_FLOW_BREAK, JINJA_FLOW_CONTINUE };

bool jinja_eval(struct jinja_run *run, struct jinja_activation *act, const struct jinja_node *node,
                struct jinja_value *out);
/* The arguments of a call, with `first` (may be NULL) put before them and `caller` (may be NULL)
 * added as a keyword. Calls fn with them. */
struct jinja_call_extras {
    const struct jinja_value *first, *caller;
};
bool jinja_eval_call(struct jinja_run *run, struct jinja_activation *act,
                     const struct jinja_node *node, const struct jinja_call_extras *extras,
                     struct jinja_value *out);
bool jinja_assign(struct jinja_run *run, struct jinja_activation *act,
                  const struct jinja_node *target, const struct jinja_value *value);
void jinja_enter_scope(struct jinja_run *run, struct jinja_activation *act,
                       const struct jinja_scope *scope);
struct jinja_activation *jinja_activate(struct jinja_run *run,
                                        const struct jinja_function *function,
                                        struct jinja_activation *outer); /* NULL: failed */
enum jinja_flow jinja_exec(struct jinja_run *run, struct jinja_activation *act,
                           const struct jinja_list_node *body);

/* Text that is made instead of printed. Pairs, also after a failure. */
struct jinja_capture {
    struct buf *saved_out;
    size_t start;
};
struct jinja_capture jinja_capture_begin(struct jinja_run *run);
bool jinja_capture_end(struct jinja_run *run, const struct jinja_capture *capture,
                       struct jinja_value *out); /* out NULL: drop it */

#endif
