/* peers.c - clients that are slow on purpose.
 *
 * A connection costs the server memory and one of a limited number of places; a client that sends
 * a header a byte at a time, or a body, or reads its answer so, keeps both for hours at no cost of
 * its own ("slowloris"). The HTTP library closes connections without traffic, and a byte now and
 * then is traffic. So what has to be complete has a deadline here: the head of a request, its body
 * and its answer. A body and an answer earn time by their size, so that a slow line may carry a
 * large one; 16 KiB/s is less than any line that a person would use, and makes the longest body of
 * the default limit an hour and a bit.
 *
 * The deadline of a connection is one atomic number, written by its HTTP thread as it goes through
 * the states; a thread of its own looks at all of them twice a second and shuts down what is late.
 * A walk over ten thousand rows takes some ten microseconds. A timer wheel would save these, and a
 * heap would cost more than that in every request. While there is no connection the thread sleeps.
 *
 * The walk also finds who has left unseen. The library polls edge-triggered, and where bytes and
 * the end of the peer's sending arrive together it reads the bytes, and the end is never told
 * again: such a connection would keep its place until its deadline (measured: a third of the
 * clients that leave within a header). Whoever is waited for, has closed, and has no byte left to
 * be read, is shut down here.
 *
 * shutdown() and not close(): the descriptor stays the library's, its number cannot be reused under
 * our hands, because peers_remove() comes before its close and takes the same lock. */
#include "peers.h"

#include "base/clock.h"
#include "base/log.h"
#include "base/mem.h"
#include "base/status.h"

#include <poll.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <time.h>

#define SECOND_NS 1000000000ull

enum { WALK_MS = 500, LOG_SECONDS = 10, POLLED_AT_ONCE = 256 };

struct peer {
    struct peer *prev, *next;
    _Atomic uint64_t deadline_ns; /* 0: none */
    _Atomic bool owes_bytes;      /* of a head or a body */
    int fd;
};

struct peers {
    pthread_mutex_t lock;
    pthread_cond_t changed;
    pthread_t thread;
    bool is_closing;
    struct peer *first;
    uint64_t patience_ns, idle_ns;
    uint64_t n_late, logged_ns; /* the thread's */
};

static void shut_late(struct peers *peers, uint64_t now_ns) {
    for (struct peer *p = peers->first; p; p = p->next) {
        uint64_t deadline_ns = atomic_load_explicit(&p->deadline_ns, memory_order_relaxed);
        if (!deadline_ns || now_ns < deadline_ns) continue;
        atomic_store_explicit(&p->deadline_ns, 0, memory_order_relaxed);
        shutdown(p->fd, SHUT_RDWR);
        peers->n_late++;
    }
    if (!peers->n_late || now_ns - peers->logged_ns < LOG_SECONDS * SECOND_NS) return;
    log_warn("server", "%llu connections closed: their clients were too slow",
             (unsigned long long)peers->n_late);
    peers->n_late = 0;
    peers->logged_ns = now_ns;
}

#ifdef POLLRDHUP

static void shut_closed(struct pollfd *sockets, nfds_t n) {
    char byte;
    if (poll(sockets, n, 0) <= 0) return;
    for (nfds_t i = 0; i < n; i++)
        if (sockets[i].revents && recv(sockets[i].fd, &byte, 1, MSG_PEEK | MSG_DONTWAIT) == 0)
            shutdown(sockets[i].fd, SHUT_RDWR);
}

static void shut_left(struct peers *peers) {
    struct pollfd sockets[POLLED_AT_ONCE];
    nfds_t n = 0;
    for (struct peer *p = peers->first; p; p = p->next) {
        if (!atomic_load_explicit(&p->owes_bytes, memory_order_relaxed)) continue;
        sockets[n++] = (struct pollfd){.fd = p->fd, .events = POLLRDHUP};
        if (n < POLLED_AT_ONCE) continue;
        shut_closed(sockets, n);
        n = 0;
    }
    shut_closed(sockets, n);
}

#else /* There the library polls level-triggered. */

static void shut_left(struct peers *peers) {
    (void)peers;
}

#endif

static void *run(void *arg) {
    struct peers *peers = arg;
    pthread_mutex_lock(&peers->lock);
    while (!peers->is_closing) {
        if (peers->first) {
            struct timespec wake;
            clock_gettime(CLOCK_REALTIME, &wake);
            wake.tv_nsec += WALK_MS * 1000000l;
            wake.tv_sec += wake.tv_nsec / 1000000000l;
            wake.tv_nsec %= 1000000000l;
            pthread_cond_timedwait(&peers->changed, &peers->lock, &wake);
            shut_late(peers, clock_ns());
            shut_left(peers);
        } else {
            pthread_cond_wait(&peers->changed, &peers->lock);
        }
    }
    pthread_mutex_unlock(&peers->lock);
    return NULL;
}

enum radish_status peers_open(uint32_t patience_seconds, uint32_t idle_seconds,
                              struct peers **peers_out, struct radish_error *err) {
    *peers_out = NULL;
    struct peers *peers = mem_zalloc(1, sizeof *peers);
    if (!peers) return error_nomem(err);
    pthread_mutex_init(&peers->lock, NULL);
    pthread_cond_init(&peers->changed, NULL);
    peers->patience_ns = patience_seconds * SECOND_NS;
    peers->idle_ns = idle_seconds * SECOND_NS + peers->patience_ns;
    int why = pthread_create(&peers->thread, NULL, run, peers);
    if (why) {
        pthread_cond_destroy(&peers->changed);
        pthread_mutex_destroy(&peers->lock);
        free(peers);
        return error_set(err, RADISH_E_IO, "cannot start a thread: %s", strerror(why));
    }
    *peers_out = peers;
    return RADISH_OK;
}

void peers_close(struct peers *peers) {
    if (!peers) return;
    pthread_mutex_lock(&peers->lock);
    peers->is_closing = true;
    pthread_cond_broadcast(&peers->changed);
    pthread_mutex_unlock(&peers->lock);
    pthread_join(peers->thread, NULL);
    pthread_cond_destroy(&peers->changed);
    pthread_mutex_destroy(&peers->lock);
    free(peers);
}

static void set_state(struct peer *peer, bool owes_bytes, uint64_t deadline_ns) {
    if (!peer) return;
    atomic_store_explicit(&peer->owes_bytes, owes_bytes, memory_order_relaxed);
    atomic_store_explicit(&peer->deadline_ns, deadline_ns, memory_order_relaxed);
}

struct peer *peers_add(struct peers *peers, int fd) {
    struct peer *peer = mem_zalloc(1, sizeof *peer);
    if (!peer) return NULL;
    peer->fd = fd;
    set_state(peer, /*owes_bytes=*/true, clock_ns() + peers->patience_ns);
    pthread_mutex_lock(&peers->lock);
    peer->next = peers->first;
    if (peer->next) peer->next->prev = peer;
    if (!peers->first) pthread_cond_signal(&peers->changed);
    peers->first = peer;
    pthread_mutex_unlock(&peers->lock);
    return peer;
}

void peers_remove(struct peers *peers, struct peer *peer) {
    if (!peer) return;
    pthread_mutex_lock(&peers->lock);
    if (peer->next) peer->next->prev = peer->prev;
    if (peer->prev)
        peer->prev->next = peer->next;
    else
        peers->first = peer->next;
    pthread_mutex_unlock(&peers->lock);
    free(peer);
}

void peer_await_body(struct peers *peers, struct peer *peer) {
    set_state(peer, /*owes_bytes=*/true, clock_ns() + peers->patience_ns);
}

void peer_note_body(struct peer *peer, size_t n_bytes) {
    uint64_t earned_ns = n_bytes * (SECOND_NS / PEERS_BYTES_PER_SECOND);
    if (!peer) return;
    /* The thread may have set it to 0 meanwhile: then the socket is shut and this is moot. */
    atomic_fetch_add_explicit(&peer->deadline_ns, earned_ns, memory_order_relaxed);
}

void peer_await_nothing(struct peer *peer) {
    set_state(peer, /*owes_bytes=*/false, 0);
}

void peer_await_reading(struct peers *peers, struct peer *peer, uint64_t n_bytes) {
    uint64_t earned_ns = n_bytes * (SECOND_NS / PEERS_BYTES_PER_SECOND);
    set_state(peer, /*owes_bytes=*/false, clock_ns() + peers->patience_ns + earned_ns);
}

void peer_await_next(struct peers *peers, struct peer *peer) {
    set_state(peer, /*owes_bytes=*/true, clock_ns() + peers->idle_ns);
}
