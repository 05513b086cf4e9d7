/* http_metrics.h - what the server counts of its own: HTTP requests by endpoint and status code.
 *
 * Owns: its counters. Threads: any. */
#ifndef SERVER_HTTP_METRICS_H
#define SERVER_HTTP_METRICS_H

#include "router.h"

#include "base/buf.h"

struct http_metrics;
struct server;

/* E_NOMEM. */
enum radish_status http_metrics_create(struct http_metrics **m_out,
                                       struct radish_error *err) RADISH_CHECK_RESULT;
void http_metrics_destroy(struct http_metrics *m);

/* An answer goes out. route: NULL where nothing was found. m NULL: nothing is counted. */
void http_metrics_count(struct http_metrics *m, const struct route *route, unsigned status);

/* Appends the server's metrics. labels: as metrics_text_label() makes them. */
void http_metrics_write(const struct http_metrics *m, struct server *server, const char *labels,
                        struct buf *out);

#endif
