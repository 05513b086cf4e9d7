/* ep_health.c - GET /health: is this server taking requests, and how busy is it?
 *
 * Answered on an HTTP thread from counters, never through the engine's queue, so it answers at once
 * while every stream is busy. It says 503 from the moment the server begins to stop: load balancers
 * then send their requests elsewhere while the running ones finish. */
#include "exchange.h"

#include <inttypes.h>

enum radish_status ep_health(struct exchange *ex, struct radish_error *err) {
    struct server *server = ex->server;
    struct radish_engine_info info;
    bool is_stopping = atomic_load(&server->is_stopping);
    (void)err;
    radish_engine_info(server->engine, &info);
    ex->reply.status = is_stopping ? 503 : 200;
    if (is_stopping) reply_add_header(&ex->reply, "Retry-After", "1");
    buf_printf(&ex->reply.body,
               "{\"status\":\"%s\",\"requests_running\":%u,\"requests_queued\":%u,"
               "\"kv_slots_total\":%" PRIu64 ",\"kv_slots_free\":%" PRIu64
               ",\"kv_slots_cached\":%" PRIu64 ",\"connections\":%u,",
               is_stopping ? "stopping" : "ok", info.requests_running, info.requests_queued,
               info.kv_slots_total, info.kv_slots_free + info.kv_slots_evictable,
               info.kv_slots_evictable, atomic_load(&server->n_connections));
    buf_printf(&ex->reply.body,
               "\"kv_slots_unused\":%" PRIu64 ",\"kv_slots_evictable\":%" PRIu64
               ",\"kv_slots_pinned\":%" PRIu64 ",\"kv_slots_private\":%" PRIu64
               ",\"prompt_tokens\":%" PRIu64 ",\"cached_tokens\":%" PRIu64
               ",\"output_tokens\":%" PRIu64 "}",
               info.kv_slots_free, info.kv_slots_evictable, info.kv_slots_pinned,
               info.kv_slots_private, info.prompt_tokens_total, info.cached_tokens_total,
               info.output_tokens_total);
    return RADISH_OK;
}
