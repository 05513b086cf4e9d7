/* stop_match.h - finds the first stop string in a text that arrives in pieces, and holds back no
 * more than could still become one.
 *
 * The first is the one that is complete first, byte by byte, however the text is cut into pieces;
 * of those complete at the same byte the longest, of equal ones the first given. What is shown at
 * any time is the longest part that no continuation can turn into the start of what is found.
 *
 * Owns: copies of the strings and the text held back. Threads: one at a time. Pushes do not
 * allocate (but what `out` needs) and cost time in proportion to the text: two steps a byte, and
 * one more for each way in which strings go on there. At most RADISH_STOP_MAX strings, each of 1 to
 * RADISH_STOP_BYTES_MAX bytes; such as are UTF-8 cut UTF-8 between characters. */
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
 * found, or -1. Once found, out has got the text before it; what follows is dropped and further
 * pushes do nothing. With include_stop (the same in all pushes) the string itself is shown, too,
 * and nothing is ever held back. */
int stop_match_push(struct stop_match *match, const char *text, size_t len, bool include_stop,
                    struct buf *out);

/* No more text: appends what was held back. */
void stop_match_finish(struct stop_match *match, struct buf *out);

/* What pushes have cost so far: visits of the automaton's nodes. */
uint64_t stop_match_n_steps(const struct stop_match *match);

#endif
