/* pattern_dialect.h - a regular expression of Oniguruma's dialect as one of PCRE2's that matches
 * the same. Threads: any. */
#ifndef TEXT_PATTERN_DIALECT_H
#define TEXT_PATTERN_DIALECT_H

#include "radish.h"

#include "base/buf.h"
#include "text/tokenizer_spec.h"

/* Appends the translation of source, valid UTF-8, to out; it needs PCRE2_UTF, PCRE2_UCP,
 * PCRE2_MULTILINE and "\n" as newline. E_UNSUPPORTED names the construct that has no exact
 * counterpart. */
enum radish_status pattern_translate(const struct spec_str *source, struct buf *out,
                                     struct radish_error *err) RADISH_CHECK_RESULT;

#endif
