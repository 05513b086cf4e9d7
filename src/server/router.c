/* router.c - the table of endpoints.
 *
 * A handful of rows, walked in order: at this size a table that a person can read beats a tree. An
 * unknown path is 404; a known path with another method is 405 with Allow, so that a client sees
 * which of the two it got wrong. */
#include "router.h"

#include <string.h>

static const struct route routes[] = {
    {"GET", "/health", false, false, false, ep_health},
    {"GET", "/v1/models", false, true, false, ep_models_list},
    {"GET", "/v1/models/", true, true, false, ep_models_get},
    {"POST", "/v1/chat/completions", false, true, true, ep_chat},
    {"POST", "/v1/completions", false, true, true, ep_completions},
    {"POST", "/tokenize", false, true, true, ep_tokenize},
    {"POST", "/v1/tokenize", false, true, true, ep_tokenize},
    {"POST", "/detokenize", false, true, true, ep_detokenize},
    {"POST", "/v1/detokenize", false, true, true, ep_detokenize},
    {"POST", "/apply-template", false, true, true, ep_template},
};

static bool has_path(const struct route *route, const char *path) {
    if (!route->is_prefix) return !strcmp(route->path, path);
    size_t n = strlen(route->path);
    return !strncmp(route->path, path, n) && path[n];
}

const struct route *router_find(const char *method, const char *path, const char **allow_out) {
    const char *wanted = strcmp(method, "HEAD") ? method : "GET";
    *allow_out = "";
    for (size_t i = 0; i < sizeof routes / sizeof *routes; i++) {
        if (!has_path(&routes[i], path)) continue;
        if (!strcmp(routes[i].method, wanted)) return &routes[i];
        *allow_out = strcmp(routes[i].method, "GET") ? routes[i].method : "GET, HEAD";
    }
    return NULL;
}
