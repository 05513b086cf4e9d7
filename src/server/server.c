/* server.c - the life of a server: open, serve, stop, drain, close.
 *
 * Limits are set here, all at once, and printed: connections, bodies, output that waits. Two of
 * them deserve a word. libmicrohttpd stops accepting when its own connection limit is reached, and
 * then even /health hangs in the backlog; so that limit is an eighth above the one that generation
 * requests meet (they get 503), and health checks find room. And every connection costs a
 * descriptor: the soft limit of the process is raised as far as it may, else connections_max
 * shrinks to fit, so that accept() does not run out of them. A connection costs up to 32 KiB for
 * its head, 16 KiB while it streams, and some 4 KiB beside; bodies and output have limits of their
 * own, all together.
 *
 * Closing has an order that libmicrohttpd dictates: no connection may be suspended when its threads
 * stop. First every request is aborted and its client told (finish_reason "abort"), for a few
 * seconds; then is_closing forbids suspending and everything suspended is resumed; then the threads
 * end, and what the engine still has to say arrives and frees the last exchanges. */
#include "server.h"

#include "base/clock.h"
#include "base/log.h"
#include "base/mem.h"
#include "base/status.h"
#include "base/utf8.h"
#include "exchange.h"
#include "framing.h"
#include "http.h"
#include "http_metrics.h"
#include "peers.h"
#include "prepare.h"
#include "server_int.h"
#include "watcher.h"

#include <errno.h>
#include <inttypes.h>
#include <netdb.h>
#include <netinet/in.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

enum {
    WAITING_THREADS = 3,           /* for requests that wait for the engine */
    BACKLOG = 4096,                /* a burst of a thousand clients connects at once */
    CONNECTION_POOL_BYTES = 32768, /* libmicrohttpd's memory per connection: request headers */
    FILES_BESIDE = 128,            /* descriptors for everything that is no connection */
    CLOSE_NOTICE_SECONDS = 5       /* for clients to read that their request was aborted */
};

static void fill_defaults(struct server_options *o) {
    if (!o->host) o->host = "127.0.0.1";
    if (!o->body_bytes_max) o->body_bytes_max = 64u << 20;
    if (!o->connections_max) o->connections_max = 8192;
    if (!o->tool_call_parser) o->tool_call_parser = "auto";
    if (!o->stream_interval) o->stream_interval = 1;
    if (!o->stream_bytes_max) o->stream_bytes_max = 4u << 20;
    if (!o->reply_bytes_max) o->reply_bytes_max = 64u << 20;
    if (!o->n_http_threads) o->n_http_threads = 2;
    if (!o->n_prepare_threads) o->n_prepare_threads = 2;
    if (!o->connection_seconds) o->connection_seconds = 75;
    if (!o->receive_seconds) o->receive_seconds = 30;
}

static uint32_t connections_hard_max(const struct server_options *o) {
    return o->connections_max + o->connections_max / 8 + 64;
}

/* Raises the limit of open files to what the connections need, or lowers connections_max. */
static void fit_connections(struct server_options *o) {
    struct rlimit limit;
    if (o->connections_max > UINT32_MAX / 4) o->connections_max = UINT32_MAX / 4;
    if (getrlimit(RLIMIT_NOFILE, &limit)) return;
    rlim_t before = limit.rlim_cur, need = (rlim_t)connections_hard_max(o) + FILES_BESIDE;
    if (limit.rlim_cur >= need) return;
    limit.rlim_cur = limit.rlim_max < need ? limit.rlim_max : need;
    if (setrlimit(RLIMIT_NOFILE, &limit) || getrlimit(RLIMIT_NOFILE, &limit)) return;
    if (limit.rlim_cur > before)
        log_info("server", "limit of open files: raised from %llu to %llu, for the connections",
                 (unsigned long long)before, (unsigned long long)limit.rlim_cur);
    if (limit.rlim_cur >= need) return;
    rlim_t room = limit.rlim_cur > FILES_BESIDE + 128 ? limit.rlim_cur - FILES_BESIDE : 128;
    o->connections_max = (uint32_t)(room - 64) / 9 * 8;
    log_warn("server", "connections: at most %u, since this process may open %llu files",
             o->connections_max, (unsigned long long)limit.rlim_cur);
}

static bool is_loopback(const struct sockaddr *address) {
    if (address->sa_family == AF_INET) {
        const struct sockaddr_in *v4 = (const struct sockaddr_in *)(const void *)address;
        return ntohl(v4->sin_addr.s_addr) >> 24 == 127;
    }
    const struct sockaddr_in6 *v6 = (const struct sockaddr_in6 *)(const void *)address;
    return IN6_IS_ADDR_LOOPBACK(&v6->sin6_addr);
}

/* Fills port and url from the bound socket. */
static void note_address(struct server *server, int fd) {
    struct sockaddr_storage address;
    socklen_t len = sizeof address;
    char host[64] = "?", port[8] = "0";
    if (getsockname(fd, (struct sockaddr *)&address, &len)) return;
    getnameinfo((struct sockaddr *)&address, len, host, sizeof host, port, sizeof port,
                NI_NUMERICHOST | NI_NUMERICSERV);
    server->port = (uint16_t)strtoul(port, NULL, 10);
    snprintf(server->url, sizeof server->url, strchr(host, ':') ? "%s://[%s]:%s" : "%s://%s:%s",
             server->tls.key ? "https" : "http", host, port);
    server->origins.is_loopback = is_loopback((struct sockaddr *)&address);
    if (!server->keys.n && !server->origins.is_loopback)
        log_warn("server", "%s is open to everybody who reaches it: set --api-key", server->url);
}

/* backlog 0: bound only. */
static int bind_address(const struct addrinfo *address, int backlog) {
    int on = 1, fd = socket(address->ai_family, SOCK_STREAM, 0);
    if (fd < 0) return -1;
    setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &on, sizeof on);
    bool is_bound = !bind(fd, address->ai_addr, address->ai_addrlen);
    if (is_bound && (!backlog || !listen(fd, backlog))) return fd;
    int why = errno;
    close(fd);
    errno = why;
    return -1;
}

static enum radish_status open_listener(const struct server_options *o, int backlog, int *fd_out,
                                        struct radish_error *err) {
    struct addrinfo hints = {.ai_socktype = SOCK_STREAM, .ai_flags = AI_PASSIVE}, *found = NULL;
    char port[8];
    snprintf(port, sizeof port, "%u", o->port);
    int why = getaddrinfo(o->host, port, &hints, &found);
    if (why)
        return error_set_field(err, RADISH_E_INVALID, "--host", "cannot listen on %s: %s", o->host,
                               gai_strerror(why));
    *fd_out = -1;
    for (struct addrinfo *a = found; a && *fd_out < 0; a = a->ai_next)
        *fd_out = bind_address(a, backlog);
    int error = errno;
    freeaddrinfo(found);
    if (*fd_out >= 0) return RADISH_OK;
    return error_set(err, RADISH_E_IO, "cannot listen on %s port %s: %s", o->host, port,
                     strerror(error));
}

static enum radish_status start_daemon(struct server *server, int fd, struct radish_error *err) {
    const struct server_options *o = &server->options;
    unsigned flags = MHD_USE_AUTO | MHD_USE_INTERNAL_POLLING_THREAD | MHD_ALLOW_SUSPEND_RESUME |
                     MHD_USE_ERROR_LOG;
    struct MHD_OptionItem tls[] = {
        {MHD_OPTION_HTTPS_MEM_CERT, 0, server->tls.certificate},
        {MHD_OPTION_HTTPS_MEM_KEY, 0, server->tls.key},
        {MHD_OPTION_HTTPS_PRIORITIES, 0, (void *)(uintptr_t)tls_priorities()},
        {MHD_OPTION_END, 0, NULL}};
    if (server->tls.key) flags |= MHD_USE_TLS;
    if (!server->tls.key) tls[0].option = MHD_OPTION_END;
    struct MHD_OptionItem options[] = {
        {MHD_OPTION_EXTERNAL_LOGGER, (intptr_t)http_on_log, server},
        {MHD_OPTION_LISTEN_SOCKET, fd, NULL},
        {MHD_OPTION_CONNECTION_LIMIT, connections_hard_max(o), NULL},
        {MHD_OPTION_CONNECTION_MEMORY_LIMIT, CONNECTION_POOL_BYTES, NULL},
        {MHD_OPTION_CONNECTION_TIMEOUT, o->connection_seconds, NULL},
        {MHD_OPTION_UNESCAPE_CALLBACK, (intptr_t)framing_unescape, NULL},
        {MHD_OPTION_NOTIFY_COMPLETED, (intptr_t)http_on_completed, server},
        {MHD_OPTION_NOTIFY_CONNECTION, (intptr_t)http_on_connection, server},
#ifdef MHD_OPTION_CLIENT_DISCIPLINE_LVL
        {MHD_OPTION_CLIENT_DISCIPLINE_LVL, 1, NULL},
#else
        {MHD_OPTION_STRICT_FOR_CLIENT, 1, NULL},
#endif
        {o->n_http_threads > 1 ? MHD_OPTION_THREAD_POOL_SIZE : MHD_OPTION_END, o->n_http_threads,
         NULL},
        {MHD_OPTION_END, 0, NULL}};
    server->daemon =
        MHD_start_daemon(flags, 0, NULL, NULL, http_on_request, server, MHD_OPTION_ARRAY, options,
                         MHD_OPTION_ARRAY, tls, MHD_OPTION_END);
    if (server->daemon) return RADISH_OK;
    close(fd);
    return error_set(err, RADISH_E_IO, "cannot start the HTTP server");
}

static void free_server(struct server *server) {
    watcher_close(server->watcher);
    peers_close(server->peers);
    prepare_close(server->prepare);
    prepare_close(server->waiting);
    origins_deinit(&server->origins);
    tls_files_deinit(&server->tls);
    api_keys_deinit(&server->keys);
    once_deinit(&server->warned);
    http_metrics_destroy(server->http_metrics);
    pthread_cond_destroy(&server->changed);
    pthread_mutex_destroy(&server->lock);
    free(server->served_name);
    free(server->args_json);
    free(server);
}

/* Keys, origins and TLS: what strings and files say, before anything runs. */
static enum radish_status open_access(const struct server_options *o, struct api_keys *keys,
                                      struct origins *origins, struct tls_files *tls,
                                      struct radish_error *err) {
    RADISH_TRY(api_keys_init(keys, o->api_keys, o->n_api_keys, err));
    RADISH_TRY(origins_init(origins, o->cors_origins, o->n_cors_origins, o->host, err));
    origins->is_guarded = !keys->n;
    RADISH_TRY(tls_files_read(o->ssl_certificate_path, o->ssl_key_path, tls, err));
    if (!tls->key || MHD_is_feature_supported(MHD_FEATURE_TLS) == MHD_YES) return RADISH_OK;
    return error_set_field(err, RADISH_E_UNSUPPORTED, "--ssl-certfile",
                           "this libmicrohttpd was built without TLS: put a proxy in front");
}

enum radish_status server_check(const struct server_options *options, struct radish_error *err) {
    struct server_options o = *options;
    struct api_keys keys = {0};
    struct origins origins = {0};
    struct tls_files tls = {0};
    fill_defaults(&o);
    const size_t name_len = o.served_model_name ? strlen(o.served_model_name) : 1;
    if (!name_len ||
        (o.served_model_name && utf8_valid_prefix(o.served_model_name, name_len) != name_len))
        return error_set_field(err, RADISH_E_INVALID, "--served-model-name",
                               "--served-model-name must be a text in UTF-8, and not empty");
    int fd = -1;
    enum radish_status status = open_access(&o, &keys, &origins, &tls, err);
    if (!status) status = open_listener(&o, /*backlog=*/0, &fd, err);
    if (fd >= 0) close(fd);
    api_keys_deinit(&keys);
    origins_deinit(&origins);
    tls_files_deinit(&tls);
    return status;
}

/* Takes the braces off, so that other members can stand beside these. */
static enum radish_status keep_args(struct server *server, const char *json,
                                    struct radish_error *err) {
    size_t len = json ? strlen(json) : 0;
    bool is_object = len >= 2 && json[0] == '{' && json[len - 1] == '}';
    server->args_json = is_object ? mem_strndup(json + 1, len - 2) : mem_strndup("", 0);
    return server->args_json ? RADISH_OK : error_nomem(err);
}

/* How this model writes calls, and which special tokens it writes them with. */
static enum radish_status choose_tool_format(struct server *server, const char *parser,
                                             struct radish_error *err) {
    const struct radish_model_info *info = radish_model_info(server->model);
    const bool is_auto = !strcmp(parser, "auto");
    if (!tool_format_find(parser, info->chat_template, &server->tool_format))
        return error_set_field(err, RADISH_E_INVALID, "--tool-call-parser",
                               "there is no parser of tool calls called '%.60s'", parser);
    server->n_tool_markers =
        tool_format_markers(server->tool_format, server->model, server->tool_marker_ids);
    if (server->tool_format)
        log_info("server", "tool calls are read as %s%s", tool_format_name(server->tool_format),
                 is_auto ? ", by the chat template" : "");
    return RADISH_OK;
}

static enum radish_status open_parts(struct server *server, struct radish_error *err) {
    const struct server_options *o = &server->options;
    const char *name =
        o->served_model_name ? o->served_model_name : radish_model_info(server->model)->name;
    int fd = -1;
    server->served_name = mem_strndup(name, strlen(name));
    if (!server->served_name) return error_nomem(err);
    RADISH_TRY(keep_args(server, o->args_json, err));
    RADISH_TRY(choose_tool_format(server, o->tool_call_parser, err));
    RADISH_TRY(open_access(o, &server->keys, &server->origins, &server->tls, err));
    server->isolates_keys = o->isolation == SERVER_ISOLATION_AUTO
                                ? server->keys.n > 1
                                : o->isolation == SERVER_ISOLATION_ON && server->keys.n;
    if (o->isolation == SERVER_ISOLATION_ON && !server->keys.n)
        log_warn("server", "--isolate-keys has nothing to isolate: there is no --api-key");
    if (!o->is_metrics_off) RADISH_TRY(http_metrics_create(&server->http_metrics, err));
    RADISH_TRY(watcher_open(connections_hard_max(o), exchange_on_gone, &server->watcher, err));
    RADISH_TRY(peers_open(o->receive_seconds, o->connection_seconds, &server->peers, err));
    RADISH_TRY(prepare_open(o->n_prepare_threads, &server->prepare, err));
    RADISH_TRY(prepare_open(WAITING_THREADS, &server->waiting, err));
    RADISH_TRY(open_listener(o, BACKLOG, &fd, err));
    note_address(server, fd);
    return start_daemon(server, fd, err);
}

enum radish_status server_open(struct radish_model *model, struct radish_engine *engine,
                               const struct server_options *options, struct server **server_out,
                               struct radish_error *err) {
    *server_out = NULL;
    struct server *server = mem_zalloc(1, sizeof *server);
    if (!server) return error_nomem(err);
    struct radish_engine_info info;
    radish_engine_info(engine, &info);
    server->model = model;
    server->engine = engine;
    server->options = *options;
    server->created_seconds = (int64_t)time(NULL);
    server->context_tokens = info.context_tokens;
    server->has_priorities = info.has_priorities;
    if (info.kv_slots_total < server->context_tokens)
        server->context_tokens = (uint32_t)info.kv_slots_total;
    pthread_mutex_init(&server->lock, NULL);
    pthread_cond_init(&server->changed, NULL);
    once_init(&server->warned);
    fill_defaults(&server->options);
    fit_connections(&server->options);
    enum radish_status status = open_parts(server, err);
    if (status) {
        free_server(server);
        return status;
    }
    log_info("server",
             "limits: %u connections, body %" PRIu64 " bytes, waiting output %" PRIu64
             " bytes a stream, reply %" PRIu64 " bytes, %u tokens a request",
             server->options.connections_max, server->options.body_bytes_max,
             server->options.stream_bytes_max, server->options.reply_bytes_max,
             server->context_tokens);
    *server_out = server;
    return RADISH_OK;
}

uint16_t server_port(const struct server *server) {
    return server->port;
}

const char *server_url(const struct server *server) {
    return server->url;
}

void server_begin_stop(struct server *server) {
    atomic_store(&server->is_stopping, true);
}

bool server_wait_drained(struct server *server, double seconds) {
    /* Slices, because a condition variable waits by the wall clock, which may be set. */
    enum { SLICE_NS = 50 * 1000 * 1000 };
    uint64_t begin_ns = clock_ns();
    pthread_mutex_lock(&server->lock);
    while (server->n_exchanges && (double)(clock_ns() - begin_ns) < seconds * 1e9) {
        struct timespec until;
        clock_gettime(CLOCK_REALTIME, &until);
        until.tv_nsec += SLICE_NS;
        until.tv_sec += until.tv_nsec / 1000000000;
        until.tv_nsec %= 1000000000;
        pthread_cond_timedwait(&server->changed, &server->lock, &until);
    }
    bool is_drained = !server->n_exchanges;
    pthread_mutex_unlock(&server->lock);
    return is_drained;
}

void server_visit_exchanges(struct server *server, void (*visit)(struct exchange *ex, void *user),
                            void *user) {
    pthread_mutex_lock(&server->lock);
    uint32_t n = 0, n_max = server->n_exchanges;
    struct exchange **list = mem_zalloc(n_max, sizeof *list);
    for (struct exchange *ex = server->first; list && ex && n < n_max; ex = ex->next)
        if (exchange_try_ref(ex)) list[n++] = ex;
    pthread_mutex_unlock(&server->lock);
    for (uint32_t i = 0; i < n; i++) {
        visit(list[i], user);
        exchange_unref(list[i]);
    }
    free(list);
}

static void abort_one(struct exchange *ex, void *user) {
    (void)user;
    exchange_abort(ex);
}

static void leave_one(struct exchange *ex, void *user) {
    (void)user;
    exchange_set_gone(ex);
}

void server_close(struct server *server) {
    if (!server) return;
    server_begin_stop(server);
    atomic_store(&server->is_aborting, true);
    server_visit_exchanges(server, abort_one, NULL);
    server_wait_drained(server, CLOSE_NOTICE_SECONDS);
    atomic_store(&server->is_closing, true);
    server_visit_exchanges(server, leave_one, NULL);
    MHD_stop_daemon(server->daemon);
    while (!server_wait_drained(server, 10))
        log_warn("server", "waiting for the engine to end %u requests", server->n_exchanges);
    free_server(server);
}
