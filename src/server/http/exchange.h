/* exchange.h - one HTTP request and its answer, from the first header to the last byte.
 *
 *   READING --body complete--> PREPARING --submitted--> RUNNING --------> REPLYING -> freed
 *      |                           |   suspended from here on   |            ^
 *      |                           +--- refused, or answered ---+------------+
 *      +--- answered at once (GET, 4xx) ---------------------------------------+
 *
 * READING    the body arrives on an HTTP thread [http.c].
 * PREPARING  a preparing thread parses, renders, tokenises, and submits or answers [prepare.c,
 * ep_*.c]. RUNNING    the engine's thread appends events [generation.c]; the watcher watches the
 * socket. REPLYING   an HTTP thread formats and sends [http.c, sse.c]; streams go back to being
 * suspended whenever they have nothing to send.
 *
 * Owned by references: one of the connection, one of the preparing thread while it works, one of
 * every engine request that has not had its last event. `is_gone` ends interest in the answer, from
 * any state; memory goes with the last reference. */
#ifndef SERVER_EXCHANGE_H
#define SERVER_EXCHANGE_H

#include "query.h"
#include "reply.h"
#include "router.h"
#include "server_int.h"

struct generation;
struct peer;

struct exchange {
    struct server *server;
    const struct route *route; /* NULL: `reply` is already an error */
    char *path;                /* decoded, without the query */
    struct query query;
    uint64_t begun_ns; /* clock_ns() when its headers were complete */
    struct reply reply;
    char warning[REPLY_HEADER_BYTES]; /* for X-Radish-Warning; "" none */
    const char *error_code;           /* of the error a handler returns, a literal or NULL */
    uint32_t key_idx;                 /* of the API key it came with, or API_KEY_NONE */

    /* READING: the connection's HTTP thread only. Later: the preparing thread's. */
    struct buf body;
    uint64_t body_discarded_bytes;
    bool discards_body; /* the answer is an error; what still arrives is not kept */
    bool is_handed_over;
    bool must_close; /* the connection, behind the answer */
    int fd;
    struct peer *peer; /* the connection's row; NULL: it has none */
    uint64_t watch_ticket;

    pthread_mutex_t lock; /* of all below */
    struct MHD_Connection *connection;
    bool is_suspended;
    bool is_gone;         /* the client left, or the server closes */
    bool is_prepared;     /* the preparing thread is done: `reply` is the HTTP thread's again */
    bool is_reply_ready;  /* `reply` is filled */
    bool is_output_ready; /* the generation has something to send */
    struct generation *generation;
    uint32_t n_refs;

    struct exchange *prev, *next; /* in the server's list; the server's lock */
    struct exchange *next_job;    /* in the prepare queue; its lock */
};

/* One reference, the connection's. NULL when out of memory. */
struct exchange *exchange_create(struct server *server, const char *path);
void exchange_ref(struct exchange *ex);
bool exchange_try_ref(struct exchange *ex); /* false: it is about to be freed */
void exchange_unref(struct exchange *ex);

/* Into the server's list: it counts as work until it is freed. */
void exchange_enlist(struct exchange *ex);

/* Frees the body and its share of the server's budget. */
void exchange_drop_body(struct exchange *ex);

/* Continues a suspended connection. With ex->lock held. */
void exchange_wake(struct exchange *ex);

/* Nobody will read the answer: aborts what runs and wakes the connection so that it ends. */
void exchange_set_gone(struct exchange *ex);
void exchange_on_gone(void *user); /* the same, for the watcher */

/* Ends what it computes; its client gets what there is, with finish_reason "abort". */
void exchange_abort(struct exchange *ex);

/* Nobody will read the answer: work for it may stop. */
bool exchange_is_gone(struct exchange *ex);

/* The preparing thread's last act: from now on the HTTP thread owns `reply`, which holds the answer
 * if has_reply. */
void exchange_set_prepared(struct exchange *ex, bool has_reply);

/* Turns a failed status into ex->reply. */
void exchange_set_error(struct exchange *ex, enum radish_status status,
                        const struct radish_error *err);

/* For endpoints that read arguments behind the '?': E_INVALID where those cannot be read; ones
 * whose names are not in names ("a|b|c") are named in the warning header. */
enum radish_status exchange_check_query(struct exchange *ex, const char *names,
                                        struct radish_error *err) RADISH_CHECK_RESULT;

/* Appends to the warning header and, the first time, to the log. name: what may repeat. */
void exchange_warn(struct exchange *ex, const char *name, const char *fmt, ...) RADISH_PRINTF(3, 4);

#endif
