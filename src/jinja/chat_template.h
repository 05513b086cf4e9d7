/* chat_template.h - a Jinja template as transformers runs it: sandbox, trim_blocks, lstrip_blocks,
 * loop controls, generation blocks, tojson without ASCII escapes, strftime_now, raise_exception.
 * Values are JSON with Python's semantics.
 *
 * Owns: the compiled template. Threads: immutable after compile; renders may run in any number of
 * threads. Limits (a clear error past them): source 1 MB, output 64 MB, memory, steps, recursion.
 */
#ifndef JINJA_CHAT_TEMPLATE_H
#define JINJA_CHAT_TEMPLATE_H

#include "radish.h"

#include "base/buf.h"

#include <yyjson.h>

struct chat_template;

/* E_TEMPLATE with the line for a syntax error. */
enum radish_status chat_template_compile(const char *source, size_t len,
                                         struct chat_template **template_out,
                                         struct radish_error *err) RADISH_CHECK_RESULT;
void chat_template_destroy(struct chat_template *t);

struct chat_template_time {
    bool is_fixed;                              /* else the clock */
    int year, month, day, hour, minute, second; /* local time */
};
/* "2026-11-29T00:00:00" (the time part may be absent) */
enum radish_status chat_template_time_parse(const char *text, struct chat_template_time *time_out,
                                            struct radish_error *err) RADISH_CHECK_RESULT;

/* Renders with the members of the object `variables`. time may be NULL (the clock). Appends to out.
 * E_TEMPLATE: raised by the template, or an error in it, with Jinja's kind of message; E_LIMIT. */
enum radish_status chat_template_render(const struct chat_template *t, yyjson_val *variables,
                                        const struct chat_template_time *time, struct buf *out,
                                        struct radish_error *err) RADISH_CHECK_RESULT;

/* Whether the template looks into content parts itself (loops over or indexes message content):
 * then parts are not joined before rendering. */
bool chat_template_reads_parts(const struct chat_template *t);

#endif
