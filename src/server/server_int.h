/* server_int.h - struct server, for the files of this module.
 *
 * Locks, in the order they may nest: watcher's > exchange's. The server's own lock (its list of
 * exchanges) and the engine's locks are never taken with an exchange's lock held. */
#ifndef SERVER_SERVER_INT_H
#define SERVER_SERVER_INT_H

#include "radish_report.h"

#include "api_key.h"
#include "once.h"
#include "origins.h"
#include "server.h"
#include "tls.h"
#include "tool_format.h"

#include <microhttpd.h>
#include <pthread.h>
#include <stdatomic.h>

/* Weights are read once: there is one version of them. */
#define SERVER_WEIGHT_VERSION "default"

struct exchange;
struct http_metrics;
struct peers;
struct prepare;
struct watcher;

struct server {
    struct radish_model *model;
    struct radish_engine *engine;
    struct server_options options; /* defaults filled in; its pointers are not used after open */
    char *served_name;
    char *args_json; /* members of an object: "host":"127.0.0.1","port":30000; or "" */
    struct api_keys keys;
    struct origins origins;
    struct tls_files tls;
    bool isolates_keys;
    bool has_priorities;     /* the engine looks at them */
    int64_t created_seconds; /* of the model card: when the server opened */
    char url[128];
    uint16_t port;
    enum tool_format tool_format;              /* of calls in chats; NONE: they stay text */
    int32_t tool_marker_ids[TOOL_MARKERS_MAX]; /* [n_tool_markers] special tokens of that format */
    uint32_t n_tool_markers;
    uint32_t context_tokens; /* a prompt and its output: min(context, usable slots) */

    struct MHD_Daemon *daemon;
    struct watcher *watcher;
    struct peers *peers;
    struct prepare *prepare;
    struct prepare *waiting; /* for ROUTE_WAIT */
    struct once warned;
    struct http_metrics *http_metrics; /* NULL: metrics are off */

    _Atomic bool is_stopping; /* new requests get 503 */
    _Atomic bool is_aborting; /* and no accepted one may start any more */
    _Atomic bool is_closing;  /* and no connection may be suspended any more */
    _Atomic uint32_t n_connections;
    _Atomic uint64_t n_body_bytes; /* held by all requests */

    pthread_mutex_t lock; /* the list of exchanges in work */
    pthread_cond_t changed;
    struct exchange *first; /* doubly linked */
    uint32_t n_exchanges;
};

/* Calls visit for every exchange in work, with a reference of ours and no lock held. */
void server_visit_exchanges(struct server *server, void (*visit)(struct exchange *ex, void *user),
                            void *user);

#endif
