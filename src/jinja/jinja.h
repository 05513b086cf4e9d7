/* jinja.h - the interpreter as a whole: compile and render, with limits given from outside, which
 * tests and the fuzz target set low. chat_template.h is what others use.
 *
 * Threads: a template is immutable after compile. */
#ifndef JINJA_H
#define JINJA_H

#include "radish.h"

#include "base/buf.h"
#include "jinja_run.h"

#include <yyjson.h>

struct jinja_template;
struct chat_template_time;

extern const struct jinja_limits jinja_limits_default;

enum radish_status jinja_compile(const char *source, size_t len, const struct jinja_limits *limits,
                                 struct jinja_template **template_out,
                                 struct radish_error *err) RADISH_CHECK_RESULT;
void jinja_destroy(struct jinja_template *t);

/* Appends to out; after a failure out is as it was. */
enum radish_status jinja_render(const struct jinja_template *t, yyjson_val *variables,
                                const struct chat_template_time *time, struct buf *out,
                                struct radish_error *err) RADISH_CHECK_RESULT;

#endif
