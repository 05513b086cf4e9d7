/* router.h - which handler answers which method and path. A new endpoint is a row in router.c, its
 * file, and its section in docs/API.md. Threads: any; the table is constant. */
#ifndef SERVER_ROUTER_H
#define SERVER_ROUTER_H

#include "radish.h"

struct exchange;

enum {
    ROUTE_PREFIX = 1, /* path ends in '/'; what follows it names something */
    ROUTE_KEY = 2,    /* needs a key, where the server has keys */
    ROUTE_WORK = 4,   /* runs on a preparing thread; 503 while stopping or past the connections */
    ROUTE_BULK = 8,   /* work that may take seconds: never on all threads of its kind at once */
    ROUTE_WAIT = 16   /* work that waits for the engine: on threads that do nothing else */
};

struct route {
    const char *method;
    const char *path;
    unsigned flags; /* ROUTE_... */
    /* OK: ex->reply is filled, or a generation has been started. Otherwise err says why. */
    enum radish_status (*handle)(struct exchange *ex, struct radish_error *err);
};

/* The route, or NULL; then *allow_out lists the methods that the path knows ("GET, HEAD"), or is ""
 * when the path is unknown. HEAD finds the route of GET. */
const struct route *router_find(const char *method, const char *path, const char **allow_out);

/* The path of an endpoint whose client was given another base URL (/chat/completions,
 * /v1/v1/models, /health/), or NULL: for the message of a 404. */
const char *router_suggest(const char *path);

/* All rows, static. */
const struct route *router_rows(uint32_t *n_out);

enum radish_status ep_chat(struct exchange *ex, struct radish_error *err);
enum radish_status ep_completions(struct exchange *ex, struct radish_error *err);
enum radish_status ep_generate(struct exchange *ex, struct radish_error *err);
enum radish_status ep_template(struct exchange *ex, struct radish_error *err);
enum radish_status ep_tokenize(struct exchange *ex, struct radish_error *err);
enum radish_status ep_detokenize(struct exchange *ex, struct radish_error *err);
enum radish_status ep_models_list(struct exchange *ex, struct radish_error *err);
enum radish_status ep_models_get(struct exchange *ex, struct radish_error *err);
enum radish_status ep_radix(struct exchange *ex, struct radish_error *err);
enum radish_status ep_radix_tree(struct exchange *ex, struct radish_error *err);
enum radish_status ep_page(struct exchange *ex, struct radish_error *err);
enum radish_status ep_abort(struct exchange *ex, struct radish_error *err);
enum radish_status ep_metrics(struct exchange *ex, struct radish_error *err);
enum radish_status ep_health(struct exchange *ex, struct radish_error *err);
enum radish_status ep_health_generate(struct exchange *ex, struct radish_error *err);
enum radish_status ep_model_info(struct exchange *ex, struct radish_error *err);
enum radish_status ep_server_info(struct exchange *ex, struct radish_error *err);
enum radish_status ep_weight_version(struct exchange *ex, struct radish_error *err);
enum radish_status ep_loads(struct exchange *ex, struct radish_error *err);
enum radish_status ep_get_load(struct exchange *ex, struct radish_error *err);
enum radish_status ep_flush(struct exchange *ex, struct radish_error *err);
enum radish_status ep_profile(struct exchange *ex, struct radish_error *err);

#endif
