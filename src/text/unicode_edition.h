/* unicode_edition.h - where the tokenizers library, by its older and newer tables, sees characters
 * otherwise than utf8proc. For unicode.c only. Threads: any. */
#ifndef TEXT_UNICODE_EDITION_H
#define TEXT_UNICODE_EDITION_H

#include "radish.h"

enum unicode_class {
    UNICODE_CLASS_WORD,
    UNICODE_CLASS_NUMBER,
    UNICODE_CLASS_PUNCTUATION,
    UNICODE_CLASS_MARK,
    UNICODE_CLASS_NONSPACING_MARK,
    UNICODE_CLASS_CONTROL,
    UNICODE_CLASS_COUNT
};

/* Whether c is in the class for the tokenizers library; has_newest: whether it is for utf8proc. */
bool unicode_edition_has(enum unicode_class class, bool has_newest, uint32_t c);

/* The lower case of a character that utf8proc does not know to have one; else c. */
uint32_t unicode_edition_lower(uint32_t c);

#endif
