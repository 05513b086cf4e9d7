/* tree_snapshot.h - copies of the prefix tree's nodes, and which of them are worth showing.
 *
 * Owns: nothing. Threads: any; nothing here touches the tree itself. */
#ifndef ENGINE_TREE_SNAPSHOT_H
#define ENGINE_TREE_SNAPSHOT_H

#include "radish_report.h"

#include "cache/radix.h"

/* The n_nodes_max largest of copies[0..n_copies), in the order of radish_engine_tree(), without
 * their tokens: n_tokens_known is 0. ids_max: no copy's id is larger. Fills *tree_out but
 * is_enabled. Copies whose parent is not among them, or is another node by now, are left out with
 * what is behind them. E_NOMEM. */
enum radish_status tree_snapshot_pick(const struct radix_node_copy *copies, uint32_t n_copies,
                                      uint32_t ids_max, struct radish_tree_node *nodes_out,
                                      uint32_t n_nodes_max, struct radish_tree *tree_out,
                                      struct radish_error *err) RADISH_CHECK_RESULT;

#endif
