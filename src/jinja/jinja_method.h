/* jinja_method.h - the table of text methods, between jinja_method_str.c and jinja_method.c. */
#ifndef JINJA_METHOD_H
#define JINJA_METHOD_H

#include "jinja_builtin.h"

extern const struct jinja_builtin jinja_str_methods[];
extern const size_t jinja_n_str_methods;

#endif
