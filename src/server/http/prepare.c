/* prepare.c - parsing, rendering and tokenising away from the threads that move bytes.
 *
 * An HTTP thread serves many connections. A body of tens of megabytes, or a template that loops,
 * takes it seconds; meanwhile every stream on that thread would stand still and /health would not
 * answer. So requests that are work are handed to a few threads of their own and the connection
 * sleeps (suspended) until the first event, or the answer. The hand-over costs some ten
 * microseconds per request. It also bounds memory: only as many JSON trees exist at once as there
 * are preparing threads.
 *
 * Tokenizing a text of megabytes takes seconds, where a prompt that long is refused at once. Such
 * bulk work is never given to the last free thread: a chat that comes behind it is not kept waiting
 * for its first token. */
#include "prepare.h"

#include "base/mem.h"
#include "base/status.h"
#include "exchange.h"

#include <stdlib.h>
#include <string.h>

struct prepare {
    pthread_mutex_t lock;
    pthread_cond_t changed;
    struct exchange *first, *last; /* linked by next_job */
    bool is_closing;
    uint32_t n_bulk;                   /* threads at bulk work */
    uint32_t n_threads, n_threads_max; /* started, to be started */
    pthread_t threads[];               /* [n_threads] */
};

static void prepare_one(struct exchange *ex) {
    struct radish_error err = {0};
    bool is_wanted = !exchange_is_gone(ex) && !atomic_load(&ex->server->is_aborting);
    enum radish_status status = is_wanted ? ex->route->handle(ex, &err) : RADISH_AGAIN;
    exchange_drop_body(ex);
    if (status) exchange_set_error(ex, status, &err);
    exchange_set_prepared(ex, ex->reply.status != 0);
    exchange_unref(ex);
}

static bool is_bulk(const struct exchange *ex) {
    return ex->route->flags & ROUTE_BULK;
}

/* The first job that a thread may take now, out of the queue; NULL: none. With p->lock held. */
static struct exchange *take_job(struct prepare *p) {
    bool takes_bulk = p->n_bulk + 1 < p->n_threads_max || p->n_threads_max == 1 || p->is_closing;
    struct exchange *before = NULL, *ex = p->first;
    while (ex && is_bulk(ex) && !takes_bulk) {
        before = ex;
        ex = ex->next_job;
    }
    if (!ex) return NULL;
    if (before)
        before->next_job = ex->next_job;
    else
        p->first = ex->next_job;
    if (p->last == ex) p->last = before;
    p->n_bulk += is_bulk(ex);
    return ex;
}

static void *run(void *arg) {
    struct prepare *p = arg;
    struct exchange *ex;
    pthread_mutex_lock(&p->lock);
    for (;;) {
        while (!(ex = take_job(p)) && !p->is_closing) pthread_cond_wait(&p->changed, &p->lock);
        if (!ex) break;
        uint32_t n_bulk = is_bulk(ex);
        pthread_mutex_unlock(&p->lock);
        prepare_one(ex); /* It may be freed by this. */
        pthread_mutex_lock(&p->lock);
        p->n_bulk -= n_bulk;
    }
    pthread_mutex_unlock(&p->lock);
    return NULL;
}

void prepare_push(struct prepare *p, struct exchange *ex) {
    exchange_ref(ex);
    pthread_mutex_lock(&p->lock);
    ex->next_job = NULL;
    if (p->first)
        p->last->next_job = ex;
    else
        p->first = ex;
    p->last = ex;
    pthread_cond_signal(&p->changed);
    pthread_mutex_unlock(&p->lock);
}

enum radish_status prepare_open(uint32_t n_threads, struct prepare **prepare_out,
                                struct radish_error *err) {
    *prepare_out = NULL;
    struct prepare *p = mem_zalloc(1, sizeof *p + n_threads * sizeof *p->threads);
    if (!p) return error_nomem(err);
    p->n_threads_max = n_threads;
    pthread_mutex_init(&p->lock, NULL);
    pthread_cond_init(&p->changed, NULL);
    for (uint32_t i = 0; i < n_threads; i++) {
        int why = pthread_create(&p->threads[i], NULL, run, p);
        if (why) {
            prepare_close(p);
            return error_set(err, RADISH_E_IO, "cannot start a thread: %s", strerror(why));
        }
        p->n_threads++;
    }
    *prepare_out = p;
    return RADISH_OK;
}

void prepare_close(struct prepare *p) {
    if (!p) return;
    pthread_mutex_lock(&p->lock);
    p->is_closing = true;
    pthread_cond_broadcast(&p->changed);
    pthread_mutex_unlock(&p->lock);
    for (uint32_t i = 0; i < p->n_threads; i++) pthread_join(p->threads[i], NULL);
    pthread_cond_destroy(&p->changed);
    pthread_mutex_destroy(&p->lock);
    free(p);
}
