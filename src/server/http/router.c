/* router.c - the table of endpoints.
 *
 * A handful of rows, walked in order: at this size a table that a person can read beats a tree. An
 * unknown path is 404; a known path with another method is 405 with Allow, so that a client sees
 * which of the two it got wrong. */
#include "router.h"

#include <string.h>

#define WORK (ROUTE_KEY | ROUTE_WORK)
#define BULK (WORK | ROUTE_BULK)

static const struct route routes[] = {
    {"GET", "/health", 0, ep_health},
    {"GET", "/", 0, ep_page},
    {"GET", "/page/", ROUTE_PREFIX, ep_page},
    {"GET", "/metrics", 0, ep_metrics},
    {"GET", "/health_generate", ROUTE_WORK | ROUTE_WAIT, ep_health_generate},
    {"GET", "/ping", ROUTE_KEY, ep_health},
    {"GET", "/model_info", ROUTE_KEY, ep_model_info},
    {"GET", "/get_model_info", ROUTE_KEY, ep_model_info},
    {"GET", "/server_info", ROUTE_KEY, ep_server_info},
    {"GET", "/get_server_info", ROUTE_KEY, ep_server_info},
    {"GET", "/get_weight_version", ROUTE_KEY, ep_weight_version},
    {"GET", "/v1/loads", ROUTE_KEY, ep_loads},
    {"GET", "/get_load", ROUTE_KEY, ep_get_load},
    {"GET", "/flush_cache", BULK | ROUTE_WAIT, ep_flush},
    {"POST", "/flush_cache", BULK | ROUTE_WAIT, ep_flush},
    {"POST", "/reset_prefix_cache", BULK | ROUTE_WAIT, ep_flush},
    {"GET", "/start_profile", ROUTE_KEY, ep_profile},
    {"POST", "/start_profile", ROUTE_KEY, ep_profile},
    {"GET", "/stop_profile", ROUTE_KEY, ep_profile},
    {"POST", "/stop_profile", ROUTE_KEY, ep_profile},
    {"GET", "/radix", BULK, ep_radix},
    {"GET", "/radix/tree", BULK, ep_radix_tree},
    {"GET", "/v1/models", ROUTE_KEY, ep_models_list},
    {"GET", "/v1/models/", ROUTE_KEY | ROUTE_PREFIX, ep_models_get},
    {"POST", "/v1/chat/completions", WORK, ep_chat},
    {"POST", "/v1/completions", WORK, ep_completions},
    {"POST", "/generate", WORK, ep_generate},
    {"PUT", "/generate", WORK, ep_generate},
    {"POST", "/tokenize", BULK, ep_tokenize},
    {"POST", "/v1/tokenize", BULK, ep_tokenize},
    {"POST", "/detokenize", BULK, ep_detokenize},
    {"POST", "/v1/detokenize", BULK, ep_detokenize},
    {"POST", "/apply-template", WORK, ep_template},
    {"POST", "/abort_request", ROUTE_KEY, ep_abort},
};

const struct route *router_rows(uint32_t *n_out) {
    *n_out = sizeof routes / sizeof *routes;
    return routes;
}

static bool has_path(const struct route *route, const char *path) {
    if (!(route->flags & ROUTE_PREFIX)) return !strcmp(route->path, path);
    size_t n = strlen(route->path);
    return !strncmp(route->path, path, n) && path[n];
}

/* What a wrong base URL puts in front of a path or leaves out. */
static const char *skip_base(const char *path) {
    static const char *const parts[] = {"/", "v1/", "api/"};
    const size_t n_parts = sizeof parts / sizeof *parts;
    for (size_t i = 0; i < n_parts;) {
        size_t len = strlen(parts[i]);
        bool is_there = !strncmp(path, parts[i], len);
        if (is_there) path += len;
        i = is_there ? 0 : i + 1;
    }
    return path;
}

const char *router_suggest(const char *path) {
    const char *wanted = skip_base(path);
    size_t len = strlen(wanted);
    while (len && wanted[len - 1] == '/') len--;
    for (size_t i = 0; len && i < sizeof routes / sizeof *routes; i++) {
        const char *known = skip_base(routes[i].path);
        if (strlen(known) == len && !strncmp(known, wanted, len)) return routes[i].path;
    }
    return NULL;
}

/* What Allow says of a path: an index of methods. */
enum { ALLOW_GET = 1, ALLOW_POST = 2, ALLOW_PUT = 4 };

static unsigned allow_bit(const struct route *route) {
    if (!strcmp(route->method, "GET")) return ALLOW_GET;
    return strcmp(route->method, "PUT") ? ALLOW_POST : ALLOW_PUT;
}

const struct route *router_find(const char *method, const char *path, const char **allow_out) {
    static const char *const allows[] = {[0] = "",
                                         [ALLOW_GET] = "GET, HEAD",
                                         [ALLOW_POST] = "POST",
                                         [ALLOW_GET | ALLOW_POST] = "GET, HEAD, POST",
                                         [ALLOW_PUT] = "PUT",
                                         [ALLOW_GET | ALLOW_PUT] = "GET, HEAD, PUT",
                                         [ALLOW_POST | ALLOW_PUT] = "POST, PUT",
                                         [ALLOW_GET | ALLOW_POST | ALLOW_PUT] =
                                             "GET, HEAD, POST, PUT"};
    const char *wanted = strcmp(method, "HEAD") ? method : "GET";
    unsigned allowed = 0;
    *allow_out = "";
    for (size_t i = 0; i < sizeof routes / sizeof *routes; i++) {
        if (!has_path(&routes[i], path)) continue;
        if (!strcmp(routes[i].method, wanted)) return &routes[i];
        allowed |= allow_bit(&routes[i]);
    }
    *allow_out = allows[allowed];
    return NULL;
}
