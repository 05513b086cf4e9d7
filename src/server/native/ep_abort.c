/* ep_abort.c - POST /abort_request: ends a request by the id of its reply, or all of them.
 *
 * The id is compared in full: an id that begins like another ends nothing but itself. It names
 * whatever is under way with it, so a client that uses one rid twice ends both; of a batch of
 * /generate it may name all of it or one prompt. Where API keys are
 * isolated a key ends only its own requests: ids can be guessed. A request that is still being
 * parsed has no id yet and is not found; its client can close the connection.
 *
 * Answered on an HTTP thread, so that it works while every preparing thread is busy; the body is
 * small or refused. */
#include "base/json.h"
#include "base/status.h"
#include "exchange.h"
#include "generation.h"
#include "openai_request.h"

enum { ABORT_BODY_BYTES_MAX = 64 << 10 };

struct abort {
    const char *rid; /* NULL: all */
    uint32_t key_idx;
    bool has_border; /* only requests of this key */
    uint32_t n_aborted;
};

static void visit(struct exchange *ex, void *user) {
    struct abort *wanted = user;
    if (wanted->has_border && ex->key_idx != wanted->key_idx) return;
    pthread_mutex_lock(&ex->lock);
    struct generation *g = ex->generation;
    pthread_mutex_unlock(&ex->lock);
    if (!g) return;
    bool has_ended = wanted->rid ? generation_abort_id(g, wanted->rid) : generation_abort_all(g);
    wanted->n_aborted += has_ended;
}

static enum radish_status read_body(yyjson_val *root, struct abort *wanted,
                                    struct radish_error *err) {
    bool is_all = false;
    RADISH_TRY(json_get_bool(root, "abort_all", &is_all, err));
    RADISH_TRY(json_get_str(root, "rid", &wanted->rid, err));
    if (is_all) wanted->rid = NULL;
    if (is_all || (wanted->rid && *wanted->rid)) return RADISH_OK;
    return error_set_field(err, RADISH_E_INVALID, "rid",
                           "rid (the id of a reply) or \"abort_all\": true is needed");
}

enum radish_status ep_abort(struct exchange *ex, struct radish_error *err) {
    struct server *server = ex->server;
    struct abort wanted = {.key_idx = ex->key_idx, .has_border = server->isolates_keys};
    yyjson_doc *doc = NULL;
    if (ex->body.len > ABORT_BODY_BYTES_MAX)
        return error_set(err, RADISH_E_LIMIT, "the body has %zu bytes, at most %d are allowed here",
                         ex->body.len, ABORT_BODY_BYTES_MAX);
    RADISH_TRY(openai_parse_body(ex->body.data, ex->body.len, &doc, err));
    yyjson_val *root = yyjson_doc_get_root(doc);
    enum radish_status status =
        field_table_check(&openai_fields, root, API_ABORT, openai_warn_unknown, ex, err);
    if (!status) status = read_body(root, &wanted, err);
    if (!status) {
        server_visit_exchanges(server, visit, &wanted);
        ex->reply.status = 200;
        buf_printf(&ex->reply.body, "{\"success\":true,\"aborted\":%u}", wanted.n_aborted);
    }
    yyjson_doc_free(doc);
    return status;
}
