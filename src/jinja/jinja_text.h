/* jinja_text.h - what Python's str can do, on valid UTF-8: characters are code points.
 *
 * Functions that only look return positions in bytes; those that make text append to a buffer. */
#ifndef JINJA_TEXT_H
#define JINJA_TEXT_H

#include "radish.h"

#include "base/buf.h"

bool jinja_text_is_space(uint32_t code_point); /* str.isspace() */
bool jinja_text_is_word(uint32_t code_point);  /* \w */

/* Byte offset of character `idx`, or len where there are fewer. */
size_t jinja_text_offset(const char *s, size_t len, size_t idx);
/* Start of the character that ends at byte `end` > 0. */
size_t jinja_text_before(const char *s, size_t end);

enum { JINJA_STRIP_LEFT = 1, JINJA_STRIP_RIGHT = 2 };
/* Narrows [*begin, *end) of s; chars NULL = white space, else any character of it. */
void jinja_text_strip(const char *s, size_t len, const char *chars, size_t chars_len,
                      unsigned sides, size_t *begin_out, size_t *end_out);

/* First or last occurrence; false when absent. An empty needle is found at the start (end). */
bool jinja_text_find(const char *s, size_t len, const char *needle, size_t needle_len,
                     size_t *at_out);
bool jinja_text_rfind(const char *s, size_t len, const char *needle, size_t needle_len,
                      size_t *at_out);
size_t jinja_text_count(const char *s, size_t len, const char *needle, size_t needle_len);
struct jinja_replacement {
    const char *from, *to;
    size_t from_len, to_len;
    int64_t count; /* at most so many; all where < 0 */
};
void jinja_text_replace(const char *s, size_t len, const struct jinja_replacement *how,
                        struct buf *out);

/* Length of the line at s without its end; *next_out: where the next line starts. */
size_t jinja_text_line(const char *s, size_t len, size_t *next_out);

enum jinja_case {
    JINJA_CASE_UPPER,
    JINJA_CASE_LOWER,
    JINJA_CASE_SWAP,
    JINJA_CASE_FOLD,
    JINJA_CASE_CAPITALIZE, /* first character as a title, the rest lower */
    JINJA_CASE_TITLE       /* str.title() */
};
void jinja_text_case(const char *s, size_t len, enum jinja_case how, struct buf *out);

enum jinja_class {
    JINJA_CLASS_SPACE,
    JINJA_CLASS_ALPHA,
    JINJA_CLASS_DIGIT,
    JINJA_CLASS_DECIMAL,
    JINJA_CLASS_NUMERIC,
    JINJA_CLASS_ALNUM,
    JINJA_CLASS_LOWER,
    JINJA_CLASS_UPPER,
    JINJA_CLASS_TITLE,
    JINJA_CLASS_ASCII,
    JINJA_CLASS_PRINTABLE,
    JINJA_CLASS_IDENTIFIER
};
bool jinja_text_is(const char *s, size_t len, enum jinja_class which); /* str.isX() */
bool jinja_text_is_printable(uint32_t code_point);

void jinja_text_escape_html(const char *s, size_t len, struct buf *out);

#endif
