/* http.c - requests as libmicrohttpd delivers them.
 *
 * The library calls http_on_request() (with its own eight parameters) once with the headers, again
 * for each piece of the body, and once more at its end; and again whenever a suspended connection
 * is resumed without a response. Each call finds its exchange and does the next thing.
 *
 * What the library lets through and a server must not, framing.c finds: 400, and the connection
 * ends. Who may ask at all, cors.c and api_key.c say, from the head; how long each part may take,
 * peers.c.
 *
 * An error that is known from the headers (no key, unknown path, body too large) is not sent at
 * once if a body is on its way: a client that is still writing gets a reset instead of the answer.
 * The rest of the body is read and dropped first, up to the limit of a body once more; then the
 * connection is closed. A client that asked with "Expect: 100-continue" is answered before it
 * sends. */
#include "http.h"

#include "base/log.h"
#include "cors.h"
#include "exchange.h"
#include "framing.h"
#include "generation.h"
#include "http_metrics.h"
#include "peers.h"
#include "prepare.h"
#include "sse.h"
#include "watcher.h"

#include <inttypes.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <sys/socket.h>

/* Bodies of all requests together may hold so many times the limit of one. */
enum { BODIES_TOTAL_FACTOR = 4 };

static const char *find_header(struct exchange *ex, const char *name) {
    return MHD_lookup_connection_value(ex->connection, MHD_HEADER_KIND, name);
}

static void refuse(struct exchange *ex, int http, const char *code, const char *message) {
    reply_set_error(&ex->reply, http, NULL, code, message);
    ex->discards_body = true;
    exchange_drop_body(ex);
}

static void refuse_size(struct exchange *ex) {
    char message[128];
    snprintf(message, sizeof message, "the body is larger than %" PRIu64 " bytes (--max-body-mb)",
             ex->server->options.body_bytes_max);
    refuse(ex, 413, "body_too_large", message);
}

/* False: nothing behind these headers can be trusted to be where it seems. */
static bool check_framing(struct exchange *ex, const char *version) {
    const char *wrong = framing_fault(ex->connection, version);
    if (wrong) refuse(ex, 400, NULL, wrong);
    return !wrong;
}

static void check_route(struct exchange *ex, const char *method) {
    const char *allow = NULL;
    char message[256];
    const char *meant;
    ex->route = router_find(method, ex->path, &allow);
    if (ex->route || cors_answer_preflight(ex, method)) return;
    if (*allow) {
        snprintf(message, sizeof message, "%.16s is not allowed here: use %s", method, allow);
        refuse(ex, 405, "method_not_allowed", message);
        reply_add_header(&ex->reply, "Allow", allow);
    } else {
        meant = router_suggest(ex->path);
        snprintf(message, sizeof message, "there is nothing at %.128s: %s%s", ex->path,
                 meant ? "try " : "see docs/API.md", meant ? meant : "");
        refuse(ex, 404, "unknown_url", message);
    }
}

/* Both ways in which clients of this API send a key. */
static bool has_key(struct exchange *ex) {
    const struct api_keys *keys = &ex->server->keys;
    return api_keys_find(keys, find_header(ex, "Authorization"), &ex->key_idx) ||
           api_keys_find_bare(keys, find_header(ex, "X-Api-Key"), &ex->key_idx);
}

static void check_access(struct exchange *ex) {
    struct server *server = ex->server;
    const char *coding = find_header(ex, "Content-Encoding");
    if (ex->route->flags & ROUTE_KEY && !has_key(ex)) {
        refuse(ex, 401, "invalid_api_key",
               "this server needs an API key: send \"Authorization: Bearer KEY\"");
        reply_add_header(&ex->reply, "WWW-Authenticate", "Bearer");
    } else if (ex->route->flags & ROUTE_WORK && atomic_load(&server->is_stopping)) {
        refuse(ex, 503, "server_stopping", "the server is stopping");
    } else if (ex->route->flags & ROUTE_WORK &&
               atomic_load(&server->n_connections) > server->options.connections_max) {
        refuse(ex, 503, "too_many_connections", "too many connections: try again later");
    } else if (coding && *coding && strcasecmp(coding, "identity")) {
        refuse(ex, 415, "unsupported_encoding", "a body must not be compressed");
    }
}

static uint64_t find_length(struct exchange *ex) {
    const char *value = find_header(ex, "Content-Length");
    return value ? strtoull(value, NULL, 10) : 0; /* The library has checked its form. */
}

static bool has_body(struct exchange *ex) {
    return find_length(ex) || find_header(ex, "Transfer-Encoding");
}

/* Adds the headers that every answer has, and hands it over. */
static enum MHD_Result send_response(struct exchange *ex, unsigned status,
                                     struct MHD_Response *response, bool must_close) {
    if (!response) return MHD_NO;
    if (*ex->warning) {
        char safe[REPLY_HEADER_BYTES];
        snprintf(safe, sizeof safe, "%s", ex->warning);
        for (char *c = safe; *c; c++)
            if (*c < 32 || *c > 126) *c = '?';
        MHD_add_response_header(response, "X-Radish-Warning", safe);
    }
    cors_add_headers(ex, response);
    if (must_close || ex->must_close) MHD_add_response_header(response, "Connection", "close");
    enum MHD_Result result = MHD_queue_response(ex->connection, status, response);
    MHD_destroy_response(response);
    http_metrics_count(ex->server->http_metrics, ex->route, status);
    return result;
}

static enum MHD_Result send_reply(struct exchange *ex, bool must_close) {
    struct reply *reply = &ex->reply;
    static const char no_memory[] = "{\"error\":{\"message\":\"out of memory\",\"type\":"
                                    "\"server_error\",\"param\":null,\"code\":null}}";
    const struct reply_constant *constant = &reply->constant;
    uint64_t n_bytes = constant->data ? constant->len : reply->body.len;
    bool has_failed = !constant->data && (reply->body.failed || !reply->body.data);
    struct MHD_Response *response;
    if (has_failed)
        response = MHD_create_response_from_buffer(
            sizeof no_memory - 1, (void *)(uintptr_t)no_memory, MHD_RESPMEM_PERSISTENT);
    else if (constant->data)
        response = MHD_create_response_from_buffer(constant->len, (void *)(uintptr_t)constant->data,
                                                   MHD_RESPMEM_PERSISTENT);
    else
        response = MHD_create_response_from_buffer(reply->body.len, reply->body.data,
                                                   MHD_RESPMEM_MUST_FREE);
    if (!response) return MHD_NO;
    if (!has_failed && !constant->data)
        buf_init(&reply->body, 0); /* The response has taken its memory. */
    const char *type = reply->content_type ? reply->content_type : "application/json";
    MHD_add_response_header(response, "Content-Type", has_failed ? "application/json" : type);
    for (const char *const *h = constant->headers; h && *h; h += 2)
        MHD_add_response_header(response, h[0], h[1]);
    for (uint32_t i = 0; i < reply->n_headers; i++)
        MHD_add_response_header(response, reply->headers[i].name, reply->headers[i].value);
    must_close = must_close || atomic_load(&ex->server->is_stopping);
    peer_await_reading(ex->server->peers, ex->peer, n_bytes);
    return send_response(ex, has_failed ? 500 : (unsigned)reply->status, response, must_close);
}

/* What can be said from the head alone. ex->reply is set where that is the answer already. */
static void check_head(struct exchange *ex, const char *method) {
    check_route(ex, method);
    if (!ex->reply.status) cors_check(ex);
    if (!ex->reply.status) check_access(ex);
    if (!ex->reply.status && find_length(ex) > ex->server->options.body_bytes_max) refuse_size(ex);
    if (ex->reply.status) ex->discards_body = true;
}

static enum MHD_Result begin(struct server *server, struct MHD_Connection *connection,
                             const char *url, const char *method, const char *version,
                             void **con_cls) {
    struct exchange *ex = exchange_create(server, framing_path(url));
    if (!ex) return MHD_NO;
    *con_cls = ex;
    ex->connection = connection;
    query_take(&ex->query, connection);
    ex->fd = MHD_get_connection_info(connection, MHD_CONNECTION_INFO_CONNECTION_FD)->connect_fd;
    ex->peer =
        MHD_get_connection_info(connection, MHD_CONNECTION_INFO_SOCKET_CONTEXT)->socket_context;
    if (!check_framing(ex, version)) return send_reply(ex, /*must_close=*/true);
    check_head(ex, method);
    if (has_body(ex))
        peer_await_body(server->peers, ex->peer);
    else
        peer_await_nothing(ex->peer);
    bool waits_to_send = has_body(ex) && find_header(ex, "Expect");
    bool is_hopeless = find_length(ex) > 2 * server->options.body_bytes_max;
    if (ex->reply.status && (waits_to_send || is_hopeless))
        return send_reply(ex, /*must_close=*/true);
    /* Whoever put a body where none belongs may have hidden a request in it. */
    if (has_body(ex) && strcmp(method, "POST") != 0 && strcmp(method, "PUT") != 0)
        ex->must_close = true;
    return MHD_YES;
}

/* MHD_NO closes the connection. */
static enum MHD_Result take_body(struct exchange *ex, const char *data, size_t n) {
    struct server *server = ex->server;
    uint64_t bytes_max = server->options.body_bytes_max;
    peer_note_body(ex->peer, n);
    if (!ex->discards_body && ex->body.len + n > bytes_max) refuse_size(ex);
    if (!ex->discards_body) {
        uint64_t total = atomic_fetch_add(&server->n_body_bytes, n) + n;
        size_t len = ex->body.len;
        buf_append(&ex->body, data, n);
        if (ex->body.len == len) atomic_fetch_sub(&server->n_body_bytes, n);
        if (ex->body.failed || total > BODIES_TOTAL_FACTOR * bytes_max)
            refuse(ex, 503, "too_many_bodies", "too many large requests at once: try again later");
    }
    if (!ex->discards_body) return MHD_YES;
    ex->body_discarded_bytes += n;
    return ex->body_discarded_bytes <= 2 * bytes_max ? MHD_YES : MHD_NO;
}

/* A generation has output, or has failed before any: the response can begin. */
static enum MHD_Result send_generation(struct exchange *ex) {
    struct generation *g = ex->generation;
    pthread_mutex_lock(&ex->lock);
    enum radish_status failure = g->failure;
    bool has_output = g->pending.len != 0;
    if (!g->is_streamed) {
        struct buf taken = g->pending;
        g->pending = g->log;
        g->log = taken;
    }
    pthread_mutex_unlock(&ex->lock);
    if (failure && (!g->is_streamed || !has_output)) {
        const char *message = NULL;
        int http = generation_failure(g, &message);
        reply_set_error(&ex->reply, http, NULL, NULL, message);
        return send_reply(ex, /*must_close=*/false);
    }
    if (g->is_streamed)
        return send_response(ex, 200, sse_response_create(ex),
                             atomic_load(&ex->server->is_stopping));
    g->format->write_body(g, &ex->reply.body);
    ex->reply.status = 200;
    return send_reply(ex, /*must_close=*/false);
}

/* The body is complete, or a suspended connection was woken. */
static enum MHD_Result answer(struct exchange *ex) {
    struct server *server = ex->server;
    bool is_new = !ex->is_handed_over;
    if (is_new) {
        struct radish_error err = {0};
        if (!ex->reply.status && ex->route->flags & ROUTE_WORK && atomic_load(&server->is_stopping))
            refuse(ex, 503, "server_stopping", "the server is stopping");
        if (ex->reply.status) return send_reply(ex, /*must_close=*/false);
        if (!(ex->route->flags & ROUTE_WORK)) {
            enum radish_status status = ex->route->handle(ex, &err);
            if (status) exchange_set_error(ex, status, &err);
            return send_reply(ex, /*must_close=*/false);
        }
        peer_await_nothing(ex->peer);
        exchange_enlist(ex);
        ex->watch_ticket = watcher_add(server->watcher, ex->fd, ex);
    }
    pthread_mutex_lock(&ex->lock);
    bool is_gone = ex->is_gone || atomic_load(&server->is_closing);
    bool has_reply = ex->is_prepared && ex->is_reply_ready;
    bool has_output = ex->is_prepared && ex->is_output_ready;
    bool must_wait = !is_gone && !has_reply && !has_output;
    if (must_wait) {
        ex->is_suspended = true;
        MHD_suspend_connection(ex->connection);
    }
    pthread_mutex_unlock(&ex->lock);
    if (must_wait && is_new)
        prepare_push(ex->route->flags & ROUTE_WAIT ? server->waiting : server->prepare, ex);
    if (must_wait) return MHD_YES;
    if (is_gone) return MHD_NO;
    return has_reply ? send_reply(ex, /*must_close=*/false) : send_generation(ex);
}

enum MHD_Result http_on_request(void *cls, struct MHD_Connection *connection, const char *url,
                                const char *method, const char *version, const char *upload_data,
                                size_t *upload_data_size, void **con_cls) {
    if (!*con_cls) return begin(cls, connection, url, method, version, con_cls);
    struct exchange *ex = *con_cls;
    if (!*upload_data_size) return answer(ex);
    size_t n = *upload_data_size;
    *upload_data_size = 0;
    return take_body(ex, upload_data, n);
}

void http_on_completed(void *cls, struct MHD_Connection *connection, void **con_cls,
                       enum MHD_RequestTerminationCode toe) {
    struct server *server = cls;
    struct exchange *ex = *con_cls;
    (void)connection;
    (void)toe;
    if (!ex) return;
    *con_cls = NULL;
    peer_await_next(server->peers, ex->peer);
    watcher_remove(server->watcher, ex->watch_ticket, ex->fd);
    pthread_mutex_lock(&ex->lock);
    ex->connection = NULL;
    ex->is_suspended = false;
    ex->is_gone = true;
    struct generation *generation = ex->generation;
    pthread_mutex_unlock(&ex->lock);
    if (generation) generation_abort(generation);
    exchange_unref(ex);
}

/* A peer that vanished without a FIN (power, network) is noticed by keep-alive probes and by bytes
 * that stay unacknowledged. */
static void tune_socket(int fd) {
    int on = 1;
    setsockopt(fd, SOL_SOCKET, SO_KEEPALIVE, &on, sizeof on);
#ifdef __linux__
    int idle_seconds = 30, interval_seconds = 10, n_probes = 3, unacked_ms = 60 * 1000;
    setsockopt(fd, IPPROTO_TCP, TCP_KEEPIDLE, &idle_seconds, sizeof idle_seconds);
    setsockopt(fd, IPPROTO_TCP, TCP_KEEPINTVL, &interval_seconds, sizeof interval_seconds);
    setsockopt(fd, IPPROTO_TCP, TCP_KEEPCNT, &n_probes, sizeof n_probes);
    setsockopt(fd, IPPROTO_TCP, TCP_USER_TIMEOUT, &unacked_ms, sizeof unacked_ms);
#endif
}

void http_on_connection(void *cls, struct MHD_Connection *connection, void **socket_cls,
                        enum MHD_ConnectionNotificationCode toe) {
    struct server *server = cls;
    if (toe == MHD_CONNECTION_NOTIFY_CLOSED) {
        peers_remove(server->peers, *socket_cls);
        *socket_cls = NULL;
        atomic_fetch_sub(&server->n_connections, 1);
        return;
    }
    int fd = MHD_get_connection_info(connection, MHD_CONNECTION_INFO_CONNECTION_FD)->connect_fd;
    *socket_cls = peers_add(server->peers, fd);
    atomic_fetch_add(&server->n_connections, 1);
    tune_socket(fd);
}

void http_on_log(void *cls, const char *fmt, va_list args) {
    char text[512];
    (void)cls;
    if (!log_has_level(RADISH_LOG_DEBUG)) return;
    int n = vsnprintf(text, sizeof text, fmt, args);
    if (n > 0 && (size_t)n < sizeof text && text[n - 1] == '\n') text[n - 1] = '\0';
    log_debug("http", "%s", text);
}
