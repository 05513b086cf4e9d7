/* jinja.c - from source to template, and from template and variables to text.
 *
 *   source --lexer--> tokens --parser--> tree --scope--> tree with slots       once, at load
 *   tree + variables --eval, exec--> text                                      per request
 *
 * A render starts by looking up every name that the template mentions, in the variables and then
 * among the globals, into an array: from then on a name is an index. Variables are converted from
 * JSON at once; texts stay where they are in the document. Everything a render makes lies in one
 * arena and is freed in one go.
 *
 * The measure is Jinja2 3.1.6 as transformers sets it up; tests/oracle holds the two against each
 * other. What differs, differs by intent:
 *   - integers past 127 bits and complex numbers ((-1) ** 0.5) are refused;
 *   - `random`, {% autoescape true %} and whatever needs other template files fail when they are
 *     reached; lipsum is absent;
 *   - what Python prints with an address (generators, bound methods) has none here;
 *   - a text cannot hold lone surrogates; set operations on dict views and bytes do not exist;
 *   - filters that are generators there run at once here: errors in them come a little earlier. */
#include "jinja.h"

#include "base/status.h"
#include "base/utf8.h"
#include "jinja_ast.h"
#include "jinja_builtin.h"
#include "jinja_loop.h"

#include <stdlib.h>
#include <string.h>

/* Depth 1,000 is Python's own bound on recursion. Steps: some seconds of the slowest machine. */
const struct jinja_limits jinja_limits_default = {
    .source_bytes_max = (size_t)1 << 20,
    .compile_bytes_max = (size_t)256 << 20,
    .output_bytes_max = (size_t)64 << 20,
    .memory_bytes_max = (size_t)256 << 20,
    .steps_max = 20 * 1000 * 1000,
    .depth_max = 1000,
};

void jinja_destroy(struct jinja_template *t) {
    if (!t) return;
    arena_deinit(&t->arena);
    free(t);
}

enum radish_status jinja_compile(const char *source, size_t len, const struct jinja_limits *limits,
                                 struct jinja_template **template_out, struct radish_error *err) {
    *template_out = NULL;
    if (len > limits->source_bytes_max)
        return error_set(err, RADISH_E_LIMIT, "the template has %zu bytes; at most %zu are allowed",
                         len, limits->source_bytes_max);
    size_t valid = utf8_valid_prefix(source, len);
    if (valid < len)
        return error_set_at(err, RADISH_E_TEMPLATE, valid,
                            "the template is not valid UTF-8 at byte %zu", valid);
    struct jinja_template *t = calloc(1, sizeof(*t));
    if (!t) return error_nomem(err);
    arena_init(&t->arena, limits->compile_bytes_max);
    t->limits = *limits;
    enum radish_status status = jinja_parse(t, source, len, err);
    if (status == RADISH_OK) status = jinja_scope_resolve(t, err);
    if (status != RADISH_OK) {
        jinja_destroy(t);
        return status;
    }
    *template_out = t;
    return RADISH_OK;
}

/* The value of each name of the template, as far as it has one. */
static bool look_up_names(struct jinja_run *run, yyjson_val *variables) {
    const struct jinja_template *t = run->t;
    struct jinja_value all;
    run->names = jinja_alloc(run, t->n_names + 1, sizeof(*run->names));
    if (!run->names || !jinja_from_json(run, variables, &all)) return false;
    for (size_t i = 0; i < t->n_names; i++) {
        const struct jinja_value *name = &t->names[i]->text, *found;
        struct jinja_value *value = &run->names[i];
        *value = (struct jinja_value){.kind = JINJA_MISSING};
        found = jinja_dict_find_str(all.as.dict, name->as.s, name->len);
        const struct jinja_builtin *builtin =
            found ? NULL : jinja_global_find(name->as.s, name->len);
        if (found)
            *value = *found;
        else if (builtin)
            *value = (struct jinja_value){.kind = JINJA_BUILTIN, .as.builtin = builtin};
    }
    return true;
}

static bool run_template(struct jinja_run *run, yyjson_val *variables) {
    if (!look_up_names(run, variables)) return false;
    struct jinja_activation *act = jinja_activate(run, &run->t->function, NULL);
    if (!act) return false;
    jinja_enter_scope(run, act, &run->t->function.scope);
    if (run->t->has_self) act->slots[run->t->self_slot].kind = JINJA_SELF;
    return jinja_exec(run, act, &run->t->body) != JINJA_FLOW_FAILED;
}

enum radish_status jinja_render(const struct jinja_template *t, yyjson_val *variables,
                                const struct chat_template_time *time, struct buf *out,
                                struct radish_error *err) {
    size_t start = out->len, bytes_max = out->bytes_max, most = start + t->limits.output_bytes_max;
    if (!yyjson_is_obj(variables))
        return error_set(err, RADISH_E_INVALID, "the template's variables must be an object");
    if (out->failed) return error_nomem(err);
    struct jinja_run run = {
        .limits = t->limits, .steps_left = t->limits.steps_max, .out = out, .t = t, .time = time};
    arena_init(&run.arena, t->limits.memory_bytes_max);
    buf_init(&run.capture, t->limits.memory_bytes_max);
    if (!bytes_max || bytes_max > most) out->bytes_max = most;
    enum radish_status status = RADISH_OK;
    if (!run_template(&run, variables) || run.status != RADISH_OK) {
        status = run.status != RADISH_OK ? run.status : RADISH_E_INTERNAL;
        if (run.fail_line)
            error_set(err, status, "%s (line %u)", run.msg, run.fail_line);
        else
            error_set(err, status, "%s", run.msg);
        out->failed = false;
        out->len = start;
        if (out->data) out->data[start] = '\0';
    }
    out->bytes_max = bytes_max;
    buf_deinit(&run.capture);
    arena_deinit(&run.arena);
    return status;
}
