/* ep_radix_tree.c - GET /radix/tree: the largest nodes of the prefix tree, for pictures of it.
 *
 * GET /radix counts; this shows what is shared with what. Nodes are a flat list, parents first,
 * which every program can turn into its own kind of tree. As there, the text of prompts is left out
 * where several API keys are kept apart. A preparing thread runs this: the engine's thread copies
 * nodes between its steps, sums and choice are made here. */
#include "base/mem.h"
#include "base/status.h"
#include "exchange.h"
#include "token_text.h"

#include <inttypes.h>
#include <stdlib.h>

enum { NODES_MAX = 512 }; /* a picture has room for no more; 100 KB of JSON at most */

static void write_node(const struct server *server, const struct radish_tree_node *node,
                       struct buf *out) {
    int64_t parent = node->parent == RADISH_TREE_TOP ? -1 : (int64_t)node->parent;
    buf_printf(out,
               "{\"id\":\"%" PRIu64 ".%" PRIu64 "\",\"parent\":%" PRId64
               ",\"namespace\":%u,\"tokens\":%u,\"tokens_path\":%u,\"tokens_below\":%" PRIu64
               ",\"nodes_below\":%u,\"pins\":%u,\"hits\":%" PRIu64 ",\"age\":%" PRIu64,
               node->key[0], node->key[1], parent, node->namespace_id, node->n_tokens,
               node->n_tokens_path, node->n_tokens_below, node->n_nodes_below, node->n_pins,
               node->n_hits, node->age);
    if (!server->isolates_keys) {
        token_text_write(server->model, "text", node->tokens, node->n_tokens_known, out);
        buf_printf(out, ",\"text_tokens\":%u", node->n_tokens_known);
    }
    buf_append_char(out, '}');
}

enum radish_status ep_radix_tree(struct exchange *ex, struct radish_error *err) {
    struct server *server = ex->server;
    struct buf *out = &ex->reply.body;
    struct radish_tree tree;
    struct radish_tree_node *nodes = mem_zalloc(NODES_MAX, sizeof *nodes);
    if (!nodes) return error_nomem(err);
    enum radish_status status = radish_engine_tree(server->engine, nodes, NODES_MAX, &tree, err);
    if (!status) {
        ex->reply.status = 200;
        if (tree.is_enabled) {
            buf_printf(out,
                       "{\"enabled\":true,\"nodes\":%u,\"tokens\":%" PRIu64 ",\"has_text\":%s,"
                       "\"tree\":[",
                       tree.n_nodes_total, tree.n_tokens_total,
                       server->isolates_keys ? "false" : "true");
            for (uint32_t i = 0; i < tree.n_nodes; i++) {
                if (i) buf_append_char(out, ',');
                write_node(server, &nodes[i], out);
            }
            buf_append_str(out, "]}");
        } else {
            buf_append_str(out, "{\"enabled\":false}");
        }
    }
    free(nodes);
    return status;
}
