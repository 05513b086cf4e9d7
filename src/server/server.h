/* server.h - the OpenAI-compatible HTTP server over one model and one engine.
 *
 * Owns: the listening socket, its HTTP threads, every connection. Caller keeps: model and engine,
 * which must outlive the server; strings in the options are copied. Threads: any, except that one
 * thread calls server_close(), last. The life of a server:
 *
 *   server_open() -> serving -> server_begin_stop() -> server_wait_drained() -> server_close()
 *
 * After server_begin_stop() the listener stays open: new requests (and /health) get 503, accepted
 * ones go on. server_close() ends what still runs with finish_reason "abort", tells its clients,
 * and frees everything; it may be called without the two steps before it. */
#ifndef SERVER_SERVER_H
#define SERVER_SERVER_H

#include "radish.h"

struct server;

/* Whether requests with different API keys share what is cached. */
enum server_isolation {
    SERVER_ISOLATION_AUTO, /* where there are several keys, they do not */
    SERVER_ISOLATION_ON,
    SERVER_ISOLATION_OFF
};

/* Zero-initialise, then set what differs. 0 or NULL means the default in brackets. */
struct server_options {
    const char *host;              /* ["127.0.0.1"] an address or a name to bind */
    uint16_t port;                 /* 0 = any free one: server_port() tells which */
    const char *served_model_name; /* [the model's own name] */
    const char
        *args_json; /* [none] how it was started, for /server_info: an object without secrets */
    const char *const *api_keys; /* [n_api_keys] any of them is accepted; none: no key needed */
    size_t n_api_keys;
    enum server_isolation isolation;
    const char *const *cors_origins; /* [n_cors_origins] "*" or "scheme://host[:port]": pages of
                                        these may use the server; none: no page but our own */
    size_t n_cors_origins;
    const char *ssl_certificate_path; /* PEM; with the key: HTTPS instead of HTTP */
    const char *ssl_key_path;
    uint64_t body_bytes_max;      /* [64 MiB] a request's body; larger: 413 */
    uint32_t connections_max;     /* [8192] past it generation requests get 503 */
    const char *tool_call_parser; /* ["auto"] or a name of tool_format.h's: how calls are written */
    uint32_t stream_interval;     /* [1] tokens of a choice between two chunks of its stream */
    uint64_t stream_bytes_max;    /* [4 MiB] output a streaming client may lag behind: then abort */
    uint64_t reply_bytes_max;     /* [64 MiB] output gathered for a reply that is not streamed */
    uint32_t n_http_threads;      /* [2] move bytes only */
    uint32_t n_prepare_threads;   /* [2] parse, render and tokenise */
    bool is_metrics_off;          /* GET /metrics is 404 */
    uint32_t connection_seconds;  /* [75] a connection without traffic and without a request */
    uint32_t receive_seconds;     /* [30] for a head; for a body and for an answer that is not
                                     streamed, and a second more for each 16 KiB of it */
};

/* Whether server_open() would take keys, origins, files of TLS and the address: to be asked before
 * the weights are loaded. E_INVALID, E_IO. */
enum radish_status server_check(const struct server_options *options,
                                struct radish_error *err) RADISH_CHECK_RESULT;

/* Binds, listens and starts serving. E_INVALID (host, an empty key), E_IO (address in use ...). */
enum radish_status server_open(struct radish_model *model, struct radish_engine *engine,
                               const struct server_options *options, struct server **server_out,
                               struct radish_error *err) RADISH_CHECK_RESULT;

uint16_t server_port(const struct server *server);

/* "http://127.0.0.1:30000" (https with TLS), with brackets around an IPv6 address; borrowed until
 * close. */
const char *server_url(const struct server *server);

/* From now on new requests get 503. Returns at once; calling it again is fine. Not for use in a
 * signal handler. */
void server_begin_stop(struct server *server);

/* Waits until no accepted request is left, at most `seconds`. True when none is left. */
bool server_wait_drained(struct server *server, double seconds);

void server_close(struct server *server);

#endif
