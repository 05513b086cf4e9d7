/* pattern.h - what Split and Replace look for: a literal, or a regular expression in Oniguruma's
 * dialect run by PCRE2 (compiled to machine code where the system allows it).
 *
 * Owns: the compiled expression. Threads: immutable after create; a cursor belongs to one. */
#ifndef TEXT_PATTERN_H
#define TEXT_PATTERN_H

#include "radish.h"

#include "text/tokenizer_spec.h"

#define PATTERN_BYTES_MAX 16384

struct pattern;

/* E_UNSUPPORTED: a construct that PCRE2 has not in the same meaning, by name. */
enum radish_status pattern_create(const struct spec_pattern *spec, struct pattern **pattern_out,
                                  struct radish_error *err) RADISH_CHECK_RESULT;
void pattern_destroy(struct pattern *pattern);

/* One line about the engine: its version, and the version of Unicode that decides \p{...}. */
void pattern_engine_text(char *text_out, size_t capacity);

/* A walk over the matches in text[0..len), valid UTF-8, left to right. */
struct pattern_cursor {
    const struct pattern *pattern;
    const char *text; /* [len] */
    size_t len;
    size_t at;       /* where the next search starts */
    size_t last_end; /* of the last match; SIZE_MAX = none yet */
    void *match;     /* pcre2_match_data, or NULL for literals */
    unsigned n_slow; /* places so far that took very many steps */
};

enum radish_status pattern_cursor_init(struct pattern_cursor *cursor, const struct pattern *pattern,
                                       struct radish_error *err) RADISH_CHECK_RESULT;
void pattern_cursor_deinit(struct pattern_cursor *cursor);
void pattern_cursor_start(struct pattern_cursor *cursor, const char *text, size_t len);

/* The next match in [*start_out, *end_out); *found_out false when there is none. Empty matches
 * count, but not right behind the match before. E_LIMIT when the search gives up. */
enum radish_status pattern_cursor_next(struct pattern_cursor *cursor, bool *found_out,
                                       size_t *start_out, size_t *end_out,
                                       struct radish_error *err) RADISH_CHECK_RESULT;

#endif
