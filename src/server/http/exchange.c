/* exchange.c - lifetime, waking and errors of an exchange.
 *
 * Three kinds of threads meet in an exchange: the HTTP thread of its connection, a preparing
 * thread, and the engine's. libmicrohttpd wants a connection to be suspended at most once and
 * resumed only when suspended, so both happen under the exchange's lock, beside the flag that says
 * which it is; and `connection` becomes NULL under the same lock when libmicrohttpd reports the
 * request as completed, so nobody resumes a connection that is no more.
 *
 * The engine is never called with the lock held: the engine's callbacks take it. */
#include "exchange.h"

#include "base/clock.h"
#include "base/log.h"
#include "base/mem.h"
#include "base/status.h"
#include "generation.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

struct exchange *exchange_create(struct server *server, const char *path) {
    struct exchange *ex = mem_zalloc(1, sizeof *ex);
    if (!ex) return NULL;
    ex->server = server;
    ex->key_idx = API_KEY_NONE;
    ex->begun_ns = clock_ns();
    ex->path = mem_strndup(path, strlen(path));
    if (!ex->path) {
        free(ex);
        return NULL;
    }
    reply_init(&ex->reply);
    query_init(&ex->query);
    buf_init(&ex->body, 0);
    pthread_mutex_init(&ex->lock, NULL);
    ex->n_refs = 1;
    return ex;
}

void exchange_ref(struct exchange *ex) {
    pthread_mutex_lock(&ex->lock);
    ex->n_refs++;
    pthread_mutex_unlock(&ex->lock);
}

bool exchange_try_ref(struct exchange *ex) {
    pthread_mutex_lock(&ex->lock);
    bool is_alive = ex->n_refs != 0;
    if (is_alive) ex->n_refs++;
    pthread_mutex_unlock(&ex->lock);
    return is_alive;
}

void exchange_enlist(struct exchange *ex) {
    struct server *server = ex->server;
    pthread_mutex_lock(&server->lock);
    ex->next = server->first;
    if (ex->next) ex->next->prev = ex;
    server->first = ex;
    server->n_exchanges++;
    ex->is_handed_over = true;
    pthread_mutex_unlock(&server->lock);
}

static void delist(struct exchange *ex) {
    struct server *server = ex->server;
    pthread_mutex_lock(&server->lock);
    if (ex->next) ex->next->prev = ex->prev;
    if (ex->prev)
        ex->prev->next = ex->next;
    else
        server->first = ex->next;
    server->n_exchanges--;
    pthread_cond_broadcast(&server->changed);
    pthread_mutex_unlock(&server->lock);
}

void exchange_drop_body(struct exchange *ex) {
    atomic_fetch_sub(&ex->server->n_body_bytes, ex->body.len);
    buf_deinit(&ex->body);
}

void exchange_unref(struct exchange *ex) {
    pthread_mutex_lock(&ex->lock);
    bool is_last = !--ex->n_refs;
    pthread_mutex_unlock(&ex->lock);
    if (!is_last) return;
    generation_destroy(ex->generation);
    exchange_drop_body(ex);
    reply_deinit(&ex->reply);
    query_deinit(&ex->query);
    free(ex->path);
    if (ex->is_handed_over) delist(ex); /* The server may be freed from here on. */
    pthread_mutex_destroy(&ex->lock);
    free(ex);
}

void exchange_wake(struct exchange *ex) {
    if (!ex->is_suspended) return;
    ex->is_suspended = false;
    MHD_resume_connection(ex->connection);
}

void exchange_set_gone(struct exchange *ex) {
    pthread_mutex_lock(&ex->lock);
    ex->is_gone = true;
    exchange_wake(ex);
    struct generation *generation = ex->generation;
    pthread_mutex_unlock(&ex->lock);
    if (generation) generation_abort(generation);
}

void exchange_on_gone(void *user) {
    exchange_set_gone(user);
}

void exchange_abort(struct exchange *ex) {
    pthread_mutex_lock(&ex->lock);
    struct generation *generation = ex->generation;
    pthread_mutex_unlock(&ex->lock);
    if (generation) generation_abort(generation);
}

bool exchange_is_gone(struct exchange *ex) {
    pthread_mutex_lock(&ex->lock);
    bool is_gone = ex->is_gone;
    pthread_mutex_unlock(&ex->lock);
    return is_gone;
}

void exchange_set_prepared(struct exchange *ex, bool has_reply) {
    pthread_mutex_lock(&ex->lock);
    ex->is_prepared = true;
    ex->is_reply_ready = has_reply;
    if (has_reply || ex->is_output_ready) exchange_wake(ex);
    pthread_mutex_unlock(&ex->lock);
}

void exchange_set_error(struct exchange *ex, enum radish_status status,
                        const struct radish_error *err) {
    int http = radish_status_http(status);
    bool has_message = err->status == status && *err->msg;
    const char *message = has_message ? err->msg : radish_status_sentence(status);
    /* 499 is what a log says of a client that left; whoever still reads was ended by a stop. */
    if (http == 499) http = 503;
    if (http >= 500 && http != 503) log_error("server", "%s: %s", ex->path, message);
    reply_set_error(&ex->reply, http, has_message ? err->field : NULL, ex->error_code, message);
}

enum radish_status exchange_check_query(struct exchange *ex, const char *names,
                                        struct radish_error *err) {
    if (ex->query.is_bad)
        return error_set(err, RADISH_E_INVALID,
                         "the arguments of the URL hold a zero byte, or are more than %d",
                         QUERY_ARGS_MAX);
    const char *other = query_find_other(&ex->query, names);
    if (other) exchange_warn(ex, other, "the argument %.64s of the URL is not known here", other);
    return RADISH_OK;
}

void exchange_warn(struct exchange *ex, const char *name, const char *fmt, ...) {
    char text[REPLY_HEADER_BYTES];
    va_list args;
    va_start(args, fmt);
    vsnprintf(text, sizeof text, fmt, args);
    va_end(args);
    if (once_add(&ex->server->warned, name)) log_warn("server", "%s", text);
    size_t len = strlen(ex->warning);
    snprintf(ex->warning + len, sizeof ex->warning - len, "%s%s", len ? "; " : "", text);
}
