/* stop_match.h - finds the first occurrence of any of a few strings in a text that arrives in
 * pieces, and holds back no more than could still become one.
 *
 * Owns: copies of the strings and the text held back. Threads: one at a time. */
#ifndef TEXT_STOP_MATCH_H
#define TEXT_STOP_MATCH_H

#include "radish.h"

#include "base/buf.h"

struct stop_match;

enum radish_status stop_match_create(const char *const *strings, size_t n,
                                     struct stop_match **match_out,
                                     struct radish_error *err) RADISH_CHECK_RESULT;
void stop_match_destroy(struct stop_match *match);

/* Takes the next piece of text; appends to out what can be shown. Returns the index of the string
 * found, or -1. Once found, out holds the text before it (and the string itself with include_stop);
 * what follows is dropped and further pushes do nothing. Of several that end in this piece the one
 * that starts first wins; of those that start together, the longest that is complete. */
int stop_match_push(struct stop_match *match, const char *text, size_t len, bool include_stop,
                    struct buf *out);

/* No more text: appends what was held back. */
void stop_match_finish(struct stop_match *match, struct buf *out);

#endif
