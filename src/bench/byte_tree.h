/* byte_tree.h - how much of a text somebody has sent before: a path-compressed tree of texts.
 *
 * This is the cache no server can beat: it forgets nothing, and a text counts as soon as it is
 * sent. Owns: copies of the parts that were new. Threads: one at a time. */
#ifndef BENCH_BYTE_TREE_H
#define BENCH_BYTE_TREE_H

#include "radish.h"

struct byte_tree;

/* NULL when out of memory. */
struct byte_tree *byte_tree_create(void);
void byte_tree_destroy(struct byte_tree *tree);

/* Length of the longest begin of text[0..n) that an earlier text has too; then adds the text.
 * E_NOMEM: *n_shared_out is right, but the text is not added. */
enum radish_status byte_tree_add(struct byte_tree *tree, const char *text, size_t n,
                                 size_t *n_shared_out) RADISH_CHECK_RESULT;

#endif
