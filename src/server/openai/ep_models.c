/* ep_models.c - GET /v1/models and /v1/models/{id}: the one model that is served.
 *
 * Clients read the list to find the name to send, and max_model_len to know how long a prompt may
 * be, which here is the smaller of the context and the KV pool. */
#include "base/status.h"
#include "exchange.h"
#include "json_out.h"

#include <string.h>

static void write_card(const struct server *server, struct buf *out) {
    const char *name = server->served_name;
    buf_append_str(out, "{\"id\":");
    json_out_string(out, name, strlen(name));
    buf_printf(out, ",\"object\":\"model\",\"created\":%lld,\"owned_by\":\"radish\",\"root\":",
               (long long)server->created_seconds);
    json_out_string(out, name, strlen(name));
    buf_printf(out, ",\"parent\":null,\"max_model_len\":%u}", server->context_tokens);
}

enum radish_status ep_models_list(struct exchange *ex, struct radish_error *err) {
    (void)err;
    ex->reply.status = 200;
    buf_append_str(&ex->reply.body, "{\"object\":\"list\",\"data\":[");
    write_card(ex->server, &ex->reply.body);
    buf_append_str(&ex->reply.body, "]}");
    return RADISH_OK;
}

enum radish_status ep_models_get(struct exchange *ex, struct radish_error *err) {
    const char *name = ex->path + strlen(ex->route->path);
    if (strcmp(name, ex->server->served_name)) {
        ex->error_code = "model_not_found";
        return error_set_field(err, RADISH_E_NOT_FOUND, "model",
                               "the model %.128s is not served here; %.128s is", name,
                               ex->server->served_name);
    }
    ex->reply.status = 200;
    write_card(ex->server, &ex->reply.body);
    return RADISH_OK;
}
