/* ep_metrics.c - GET /metrics: everything that is counted, for Prometheus and what reads like it.
 *
 * Answered on an HTTP thread and without a key, as scrapers have none: it shows numbers, the
 * model's name and the paths of endpoints, never a prompt. The engine's part is a copy of figures
 * that are one step old, so a scrape answers at once however long the step under way takes. */
#include "base/status.h"
#include "exchange.h"
#include "http_metrics.h"
#include "metrics/metrics_text.h"

enum radish_status ep_metrics(struct exchange *ex, struct radish_error *err) {
    struct server *server = ex->server;
    struct buf *body = &ex->reply.body;
    if (!server->http_metrics)
        return error_set(err, RADISH_E_NOT_FOUND,
                         "metrics are switched off: start radish without --disable-metrics");
    char *text = NULL;
    size_t len = 0;
    RADISH_TRY(radish_engine_metrics(server->engine, server->served_name, &text, &len, err));
    buf_append(body, text, len);
    radish_free(text);
    struct buf labels;
    buf_init(&labels, 0);
    metrics_text_label(&labels, "model_name", server->served_name);
    http_metrics_write(server->http_metrics, server, labels.data ? labels.data : "", body);
    body->failed |= labels.failed;
    buf_deinit(&labels);
    ex->reply.content_type = METRICS_TEXT_TYPE;
    ex->reply.status = 200;
    return RADISH_OK;
}
