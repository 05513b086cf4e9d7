/* jinja_entities.h - HTML's named characters. */
#ifndef JINJA_ENTITIES_H
#define JINJA_ENTITIES_H

#include "radish.h"

/* name[0..len) without '&' and ';'. text_out: [len_out] static UTF-8; is_old_out: counts also where
 * no semicolon follows. */
bool jinja_entity_find(const char *name, size_t len, const char **text_out, size_t *len_out,
                       bool *is_old_out);

#endif
