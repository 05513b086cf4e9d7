/* watcher.c - noticing a client that left.
 *
 * While a request waits in the queue or computes its prompt, its connection is suspended: nobody
 * polls the socket, and libmicrohttpd learns of a closed peer only at its next write, seconds
 * later. Meanwhile the engine works for nobody. So every connection with a running request is also
 * watched here, by a second poller that wants one thing only: EPOLLRDHUP, the peer's FIN (EPOLLHUP
 * and EPOLLERR, an RST, always come). Bytes that arrive, such as a pipelined next request, do not
 * wake it. Measured: without it a client that left during a 2.5 s prefill was noticed 2.5 s late.
 *
 * The hard part is lifetime: an event may already be in the thread's hands when the connection
 * ends, its memory is freed and its descriptor is reused. Events therefore carry a ticket, not a
 * pointer: index of a row (low half) and the row's generation (high half). The row is looked up
 * under the lock, a removed row has another generation, and on_gone runs under that lock, so that
 * watcher_remove() is also a barrier. Rows are as many as connections, fixed at the start.
 *
 * macOS has kqueue: EV_EOF of EVFILT_READ is the same news, but the filter also fires for data;
 * EV_CLEAR makes that once per arrival instead of for ever. */
#include "watcher.h"

#include "base/log.h"
#include "base/mem.h"
#include "base/status.h"

#include <errno.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#ifdef __linux__
#include <sys/epoll.h>
#else
#include <sys/event.h>
#endif

enum { EVENTS_PER_WAIT = 64 };

struct watch_row {
    void *user; /* NULL: the row is free */
    uint32_t generation;
    uint32_t next_free; /* index, or n_rows at the end; of free rows */
};

struct watcher {
    pthread_mutex_t lock;
    pthread_t thread;
    int poll_fd;
    int stop_pipe[2]; /* its write end closes to end the thread */
    watcher_gone_fn on_gone;
    struct watch_row *rows; /* [n_rows] */
    uint32_t n_rows;
    uint32_t first_free;
};

#ifdef __linux__

static int open_poller(void) {
    return epoll_create1(EPOLL_CLOEXEC);
}

/* Ticket 0 is the stop pipe. */
static int arm(int poll_fd, int fd, uint64_t ticket) {
    struct epoll_event event = {.events = ticket ? EPOLLRDHUP | EPOLLONESHOT : EPOLLIN,
                                .data.u64 = ticket};
    return epoll_ctl(poll_fd, EPOLL_CTL_ADD, fd, &event);
}

static void disarm(int poll_fd, int fd) {
    struct epoll_event event = {0};
    epoll_ctl(poll_fd, EPOLL_CTL_DEL, fd, &event);
}

/* Tickets of peers that are gone (or 0: stop). */
static int wait_gone(int poll_fd, uint64_t tickets_out[EVENTS_PER_WAIT]) {
    struct epoll_event events[EVENTS_PER_WAIT];
    int n = epoll_wait(poll_fd, events, EVENTS_PER_WAIT, -1);
    for (int i = 0; i < n; i++) tickets_out[i] = events[i].data.u64;
    return n;
}

#else

static int open_poller(void) {
    return kqueue();
}

static int arm(int poll_fd, int fd, uint64_t ticket) {
    struct kevent change;
    EV_SET(&change, (uintptr_t)fd, EVFILT_READ, EV_ADD | EV_CLEAR, 0, 0, (void *)(uintptr_t)ticket);
    return kevent(poll_fd, &change, 1, NULL, 0, NULL);
}

static void disarm(int poll_fd, int fd) {
    struct kevent change;
    EV_SET(&change, (uintptr_t)fd, EVFILT_READ, EV_DELETE, 0, 0, NULL);
    kevent(poll_fd, &change, 1, NULL, 0, NULL);
}

static int wait_gone(int poll_fd, uint64_t tickets_out[EVENTS_PER_WAIT]) {
    struct kevent events[EVENTS_PER_WAIT];
    int n = kevent(poll_fd, NULL, 0, events, EVENTS_PER_WAIT, NULL), n_gone = 0;
    for (int i = 0; i < n; i++)
        if (events[i].flags & EV_EOF) tickets_out[n_gone++] = (uint64_t)(uintptr_t)events[i].udata;
    return n < 0 ? n : n_gone;
}

#endif

static uint64_t make_ticket(const struct watcher *w, uint32_t row_idx) {
    return (uint64_t)w->rows[row_idx].generation << 32 | row_idx;
}

static struct watch_row *find_row(struct watcher *w, uint64_t ticket) {
    uint32_t row_idx = (uint32_t)ticket;
    if (row_idx >= w->n_rows || !w->rows[row_idx].user) return NULL;
    return make_ticket(w, row_idx) == ticket ? &w->rows[row_idx] : NULL;
}

static void *run(void *arg) {
    struct watcher *w = arg;
    uint64_t tickets[EVENTS_PER_WAIT];
    for (;;) {
        int n = wait_gone(w->poll_fd, tickets);
        if (n < 0 && errno != EINTR) {
            log_error("server", "the watcher of closed connections failed: %s", strerror(errno));
            return NULL;
        }
        for (int i = 0; i < n; i++) {
            if (!tickets[i]) return NULL;
            pthread_mutex_lock(&w->lock);
            struct watch_row *row = find_row(w, tickets[i]);
            if (row) w->on_gone(row->user);
            pthread_mutex_unlock(&w->lock);
        }
    }
}

static void free_watcher(struct watcher *w) {
    if (w->poll_fd >= 0) close(w->poll_fd);
    for (int i = 0; i < 2; i++)
        if (w->stop_pipe[i] >= 0) close(w->stop_pipe[i]);
    pthread_mutex_destroy(&w->lock);
    free(w->rows);
    free(w);
}

enum radish_status watcher_open(uint32_t n_sockets_max, watcher_gone_fn on_gone,
                                struct watcher **watcher_out, struct radish_error *err) {
    *watcher_out = NULL;
    struct watcher *w = mem_zalloc(1, sizeof *w);
    if (!w) return error_nomem(err);
    w->poll_fd = w->stop_pipe[0] = w->stop_pipe[1] = -1;
    w->on_gone = on_gone;
    w->n_rows = n_sockets_max;
    pthread_mutex_init(&w->lock, NULL);
    w->rows = mem_zalloc(n_sockets_max, sizeof *w->rows);
    if (!w->rows) {
        free_watcher(w);
        return error_nomem(err);
    }
    for (uint32_t i = 0; i < n_sockets_max; i++)
        w->rows[i] = (struct watch_row){.generation = 1, .next_free = i + 1};
    w->poll_fd = open_poller();
    if (w->poll_fd < 0 || pipe(w->stop_pipe) || arm(w->poll_fd, w->stop_pipe[0], 0) ||
        pthread_create(&w->thread, NULL, run, w)) {
        int why = errno;
        free_watcher(w);
        return error_set(err, RADISH_E_IO, "cannot watch connections: %s", strerror(why));
    }
    *watcher_out = w;
    return RADISH_OK;
}

void watcher_close(struct watcher *w) {
    if (!w) return;
    close(w->stop_pipe[1]);
    w->stop_pipe[1] = -1;
    pthread_join(w->thread, NULL);
    free_watcher(w);
}

static void give_row(struct watcher *w, uint32_t row_idx) {
    struct watch_row *row = &w->rows[row_idx];
    row->user = NULL;
    if (!++row->generation) row->generation = 1;
    row->next_free = w->first_free;
    w->first_free = row_idx;
}

uint64_t watcher_add(struct watcher *w, int fd, void *user) {
    uint64_t ticket = 0;
    int why = ENOSPC;
    pthread_mutex_lock(&w->lock);
    uint32_t row_idx = w->first_free;
    if (row_idx < w->n_rows) {
        w->first_free = w->rows[row_idx].next_free;
        w->rows[row_idx].user = user;
        ticket = make_ticket(w, row_idx);
        if (arm(w->poll_fd, fd, ticket)) {
            why = errno;
            give_row(w, row_idx);
            ticket = 0;
        }
    }
    pthread_mutex_unlock(&w->lock);
    if (!ticket) log_warn("server", "cannot watch a connection for its end: %s", strerror(why));
    return ticket;
}

void watcher_remove(struct watcher *w, uint64_t ticket, int fd) {
    if (!ticket) return;
    pthread_mutex_lock(&w->lock);
    if (find_row(w, ticket)) {
        disarm(w->poll_fd, fd);
        give_row(w, (uint32_t)ticket);
    }
    pthread_mutex_unlock(&w->lock);
}
