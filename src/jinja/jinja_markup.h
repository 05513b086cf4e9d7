/* jinja_markup.h - texts that are safe HTML: STR values with flag 1. */
#ifndef JINJA_MARKUP_H
#define JINJA_MARKUP_H

#include "jinja_builtin.h"

/* The text of v as Markup: escaped, unless it is one. */
bool jinja_escape(struct jinja_run *run, const struct jinja_value *v, struct jinja_value *out);

bool jinja_is_markup_method(const struct jinja_builtin *builtin, const struct jinja_args *args);
bool jinja_markup_method(struct jinja_run *run, const struct jinja_builtin *builtin,
                         const struct jinja_args *args, struct jinja_value *out);

#endif
