/* ep_flush.c - GET and POST /flush_cache, vLLM's POST /reset_prefix_cache: empties the prefix
 * cache; and what SGLang has beside it that is not here.
 *
 * Answers in text, as SGLang does, since its tools print it and its router looks at the status
 * only. Busy is 400 and not 503: a router would send a 503 again, five times, to a server that is
 * busy because it works. With timeout_s (SGLang's newer name: timeout) the flush waits for the last
 * request to end; so it runs on a thread that does nothing but wait. */
#include "base/status.h"
#include "exchange.h"

static const double TIMEOUT_SECONDS_MAX = 600;

enum radish_status ep_flush(struct exchange *ex, struct radish_error *err) {
    double seconds = 0;
    RADISH_TRY(exchange_check_query(ex, "timeout_s|timeout", err));
    RADISH_TRY(query_get_double(&ex->query, "timeout", TIMEOUT_SECONDS_MAX, &seconds, err));
    RADISH_TRY(query_get_double(&ex->query, "timeout_s", TIMEOUT_SECONDS_MAX, &seconds, err));
    struct radish_error why = {0};
    enum radish_status status = radish_engine_flush(ex->server->engine, seconds, &why);
    if (status && (status != RADISH_AGAIN || atomic_load(&ex->server->is_stopping))) {
        if (err) *err = why;
        return status;
    }
    ex->reply.content_type = "text/plain; charset=utf-8";
    ex->reply.status = status ? 400 : 200;
    if (status)
        buf_printf(&ex->reply.body, "Cache not flushed: %s.\n", why.msg);
    else
        buf_append_str(&ex->reply.body, "Cache flushed.\n");
    return RADISH_OK;
}

enum radish_status ep_profile(struct exchange *ex, struct radish_error *err) {
    (void)ex;
    return error_set(
        err, RADISH_E_UNSUPPORTED,
        "there is no profiler in this server: run it under perf, or see 'radish bench' "
        "and /metrics");
}
