/* jinja_unicode.h - characters as Python's str sees them, where general categories do not say it.
 */
#ifndef JINJA_UNICODE_H
#define JINJA_UNICODE_H

#include "radish.h"

enum jinja_char_set {
    JINJA_SET_OTHER_LOWER, /* islower(), though no Ll */
    JINJA_SET_OTHER_UPPER, /* isupper(), though no Lu */
    JINJA_SET_OTHER_DIGIT, /* isdigit(), though no Nd */
    JINJA_SET_OTHER_NUMERIC,
    JINJA_SET_IDENTIFIER_START, /* where isidentifier() is not what the category says */
    JINJA_SET_IDENTIFIER_CONTINUE
};

struct jinja_range_of_chars {
    uint32_t low, high;
};

bool jinja_unicode_is(uint32_t cp, enum jinja_char_set set);

/* The upper (title) case of a character where it is several, as UTF-8 (static); else NULL. */
const char *jinja_unicode_long_case(uint32_t cp, bool is_title);

#endif
