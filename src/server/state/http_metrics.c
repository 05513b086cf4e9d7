/* http_metrics.c - a counter for each endpoint and status code.
 *
 * The table of endpoints is the router's: a new row there is a new series here, without a list to
 * keep. Rows that differ only in the method share one. What was not found, or refused before it was
 * looked for, counts as endpoint "other": a path that a stranger made up never becomes a label,
 * since he could make up millions of them; codes that are not in the list are "other" as well. */
#include "http_metrics.h"

#include "base/mem.h"
#include "base/status.h"
#include "metrics/metrics.h"
#include "server_int.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static const char *const codes[] = {"200", "400", "401", "403", "404", "405",
                                    "408", "413", "415", "500", "503", "other"};

enum { N_CODES = sizeof codes / sizeof *codes };

struct http_metrics {
    struct metrics *metrics;
    uint32_t *endpoint_of;  /* [n_routes] index in endpoints */
    const char **endpoints; /* [n_endpoints] the last is "other" */
    uint32_t n_routes, n_endpoints;
};

static uint32_t take_endpoint(struct http_metrics *m, const char *path) {
    for (uint32_t i = 0; i < m->n_endpoints; i++)
        if (!strcmp(m->endpoints[i], path)) return i;
    m->endpoints[m->n_endpoints] = path;
    return m->n_endpoints++;
}

enum radish_status http_metrics_create(struct http_metrics **m_out, struct radish_error *err) {
    *m_out = NULL;
    struct http_metrics *m = mem_zalloc(1, sizeof *m);
    if (!m) return error_nomem(err);
    const struct route *routes = router_rows(&m->n_routes);
    m->endpoint_of = mem_zalloc(m->n_routes, sizeof *m->endpoint_of);
    m->endpoints = mem_zalloc(m->n_routes + 1u, sizeof *m->endpoints);
    enum radish_status status = m->endpoint_of && m->endpoints ? RADISH_OK : error_nomem(err);
    if (status == RADISH_OK) {
        for (uint32_t i = 0; i < m->n_routes; i++)
            m->endpoint_of[i] = take_endpoint(m, routes[i].path);
        m->endpoints[m->n_endpoints++] = "other";
        struct metrics_values values = {m->endpoints, m->n_endpoints, codes, N_CODES};
        status = metrics_create(METRICS_OWNER_SERVER, &values, &m->metrics, err);
    }
    if (status == RADISH_OK)
        *m_out = m;
    else
        http_metrics_destroy(m);
    return status;
}

void http_metrics_destroy(struct http_metrics *m) {
    if (!m) return;
    metrics_destroy(m->metrics);
    free(m->endpoint_of);
    free(m->endpoints);
    free(m);
}

static uint32_t code_idx(unsigned status) {
    char text[12];
    uint32_t i = 0;
    snprintf(text, sizeof text, "%u", status);
    while (i + 1 < N_CODES && strcmp(codes[i], text) != 0) i++;
    return i;
}

void http_metrics_count(struct http_metrics *m, const struct route *route, unsigned status) {
    uint32_t n_routes;
    if (!m) return;
    uint32_t endpoint = route ? m->endpoint_of[route - router_rows(&n_routes)] : m->n_endpoints - 1;
    metrics_count(m->metrics, METRIC_HTTP_REQUESTS, endpoint * N_CODES + code_idx(status), 1);
}

void http_metrics_write(const struct http_metrics *m, struct server *server, const char *labels,
                        struct buf *out) {
    double told[METRIC_COUNT] = {0};
    told[METRIC_HTTP_CONNECTIONS] = atomic_load(&server->n_connections);
    told[METRIC_HTTP_BODY_BYTES] = (double)atomic_load(&server->n_body_bytes);
    told[METRIC_PROCESS_START] = (double)server->created_seconds;
    pthread_mutex_lock(&server->lock);
    told[METRIC_HTTP_EXCHANGES] = server->n_exchanges;
    pthread_mutex_unlock(&server->lock);
    metrics_write(m->metrics, told, labels, out);
}
