/* kv_publisher.c - one thread between the engine's batches and ZeroMQ's sockets.
 *
 * The problem: sockets belong to one thread, may allocate, and a subscriber may be slow, absent or
 * at the wrong address, while the engine's thread has a step to begin. The idea: the engine's
 * thread encodes a batch into a ring (kv_log.c) under a lock that is held for copies only, and goes
 * on; this thread copies one batch at a time out of it and sends it.
 *
 *   kv_publisher_push()   | lock |        run_publisher()
 *   encode into the ring -> log  -> copy, unlock, PUB: topic | number | batch
 *   a byte into the pipe -> poll       -> ROUTER: answers with what is kept
 *
 * A PUB socket never blocks: a subscriber that is more than `hwm` batches behind loses some, sees
 * it in the numbers, and asks the ROUTER. So does who was not connected yet.
 *
 * Why encode on the engine's thread: an encoded batch is half as long as its events, and copying
 * them first would cost as much. Why a pipe: zmq_poll() waits for sockets and descriptors together,
 * and the engine's thread writes to it only when the other one is about to sleep.
 *
 * The end: the thread goes on until nothing waits, for at most STOP_NS, and sockets then linger for
 * LINGER_MS: with no subscriber both are over at once, so a process that nobody listens to exits as
 * fast as one without events.
 *
 * Neither socket asks who is there: like the metrics of other servers, endpoints belong into a
 * private network. */
#include "events/kv_publisher.h"

#include "base/clock.h"
#include "base/log.h"
#include "base/mem.h"
#include "base/status.h"
#include "events/kv_log.h"
#include "events/kv_wire.h"

#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>
#include <zmq.h>

enum {
    LOG_BYTES = 64 << 20, /* thousands of busy steps; in memory from the start */
    SEND_MAX = 256,       /* batches between two looks at the replay socket */
    REQUESTS_MAX = 16,    /* answered between two batches */
    LINGER_MS = 500,
    SEQ_BYTES = 8
};
#define STOP_NS      1500000000u
#define WARN_EACH_NS 10000000000u
#define END_SEQ      UINT64_MAX

struct kv_publisher {
    void *context, *pub, *router; /* router: NULL without replay */
    char *topic;
    size_t topic_len;
    int pipe[2]; /* -1 until made */
    bool has_lock, has_thread;
    pthread_t thread;
    pthread_mutex_t lock;

    /* Under the lock. */
    struct kv_log log;
    bool is_asleep; /* or about to be: a byte in the pipe wakes it */
    bool is_stopping;
    uint64_t stop_ns;

    uint64_t warned_ns;         /* the pushing thread's */
    uint64_t warned_request_ns; /* the publisher's thread's */
};

/* ---- sockets ---- */

static enum radish_status refuse(const char *key, const char *verb, const char *endpoint,
                                 struct radish_error *err) {
    int reason = zmq_errno();
    bool is_wrong = reason == EINVAL || reason == EPROTONOSUPPORT || reason == ENOCOMPATPROTO;
    return error_set_field(err, is_wrong ? RADISH_E_INVALID : RADISH_E_IO, key,
                           "%s: cannot %s %.120s: %s", key, verb, endpoint,
                           reason == EINVAL ? "this is no endpoint such as tcp://*:5557"
                                            : zmq_strerror(reason));
}

static bool set_option(void *socket, int option, int value) {
    return zmq_setsockopt(socket, option, &value, sizeof value) == 0;
}

/* SGLang's rule: what is bound stays, what is connected comes and goes. */
static bool is_bound(const char *endpoint) {
    return strchr(endpoint, '*') || strstr(endpoint, "::") || !strncmp(endpoint, "ipc://", 6) ||
           !strncmp(endpoint, "inproc://", 9);
}

static enum radish_status open_socket(struct kv_publisher *p, int type, int hwm, void **socket_out,
                                      struct radish_error *err) {
    *socket_out = zmq_socket(p->context, type);
    if (!*socket_out || !set_option(*socket_out, ZMQ_SNDHWM, hwm) ||
        !set_option(*socket_out, ZMQ_LINGER, LINGER_MS))
        return error_set(err, RADISH_E_NOMEM, "no ZeroMQ socket: %s", zmq_strerror(zmq_errno()));
    return RADISH_OK;
}

static enum radish_status attach(void *socket, const char *key, const char *endpoint, bool binds,
                                 struct radish_error *err) {
    if ((strstr(endpoint, "::") || strchr(endpoint, '[')) && !set_option(socket, ZMQ_IPV6, 1))
        return refuse(key, "use IPv6 for", endpoint, err);
    if ((binds ? zmq_bind(socket, endpoint) : zmq_connect(socket, endpoint)) != 0)
        return refuse(key, binds ? "bind" : "connect to", endpoint, err);
    return RADISH_OK;
}

static enum radish_status open_sockets(struct kv_publisher *p, const struct kv_config *config,
                                       struct radish_error *err) {
    p->context = zmq_ctx_new();
    if (!p->context) return error_nomem(err);
    RADISH_TRY(open_socket(p, ZMQ_PUB, (int)config->hwm, &p->pub, err));
    RADISH_TRY(attach(p->pub, "endpoint", config->endpoint, is_bound(config->endpoint), err));
    if (!config->replay_endpoint) return RADISH_OK;
    /* All that is kept, the end, and another answer or two. */
    RADISH_TRY(open_socket(p, ZMQ_ROUTER, (int)config->buffer_steps * 2 + 2, &p->router, err));
    return attach(p->router, "replay_endpoint", config->replay_endpoint, /*binds=*/true, err);
}

/* Whether to warn again: where one thing goes wrong there are thousands. */
static bool is_due(uint64_t *warned_ns) {
    uint64_t now = clock_ns();
    if (*warned_ns && now - *warned_ns < WARN_EACH_NS) return false;
    *warned_ns = now;
    return true;
}

/* ---- sending ---- */

static void write_seq(uint64_t seq, unsigned char out[SEQ_BYTES]) {
    for (int i = 0; i < SEQ_BYTES; i++) out[i] = (unsigned char)(seq >> (56 - 8 * i));
}

static bool send_frame(void *socket, const void *bytes, size_t n, int flags) {
    int rc;
    do rc = zmq_send(socket, bytes, n, flags);
    while (rc < 0 && zmq_errno() == EINTR);
    return rc >= 0;
}

/* The last frame of a message; the message is gone afterwards. */
static bool send_payload(void *socket, zmq_msg_t *payload, int flags) {
    int rc;
    do rc = zmq_msg_send(payload, socket, flags);
    while (rc < 0 && zmq_errno() == EINTR);
    if (rc < 0) zmq_msg_close(payload);
    return rc >= 0;
}

/* Under the lock. False: memory is exhausted. */
static bool copy_batch(struct kv_publisher *p, uint64_t seq, zmq_msg_t *payload_out) {
    size_t n;
    const unsigned char *bytes = kv_log_get(&p->log, seq, &n);
    if (zmq_msg_init_size(payload_out, n)) return false;
    memcpy(zmq_msg_data(payload_out), bytes, n);
    return true;
}

/* Up to SEND_MAX of those that wait; false: none is left. */
static bool publish(struct kv_publisher *p) {
    for (int i = 0; i < SEND_MAX; i++) {
        unsigned char seq_bytes[SEQ_BYTES];
        zmq_msg_t payload;
        pthread_mutex_lock(&p->lock);
        uint64_t seq = p->log.unsent;
        bool has_one = seq < p->log.end, is_copied = has_one && copy_batch(p, seq, &payload);
        if (has_one) kv_log_sent(&p->log);
        pthread_mutex_unlock(&p->lock);
        if (!has_one) return false;
        write_seq(seq, seq_bytes);
        if (is_copied && send_frame(p->pub, p->topic, p->topic_len, ZMQ_SNDMORE) &&
            send_frame(p->pub, seq_bytes, sizeof seq_bytes, ZMQ_SNDMORE))
            is_copied = send_payload(p->pub, &payload, 0);
        if (!is_copied)
            log_warn("events", "batch %llu of KV events could not be sent: %s",
                     (unsigned long long)seq, zmq_strerror(zmq_errno()));
    }
    return true;
}

/* ---- replay ---- */

/* client | empty | number | payload. False: the client is gone, or has more waiting than it may. */
static bool answer(struct kv_publisher *p, const zmq_msg_t *client, uint64_t seq,
                   zmq_msg_t *payload) {
    unsigned char seq_bytes[SEQ_BYTES];
    write_seq(seq, seq_bytes);
    bool is_sent = send_frame(p->router, zmq_msg_data((zmq_msg_t *)(uintptr_t)client),
                              zmq_msg_size(client), ZMQ_SNDMORE | ZMQ_DONTWAIT) &&
                   send_frame(p->router, "", 0, ZMQ_SNDMORE | ZMQ_DONTWAIT) &&
                   send_frame(p->router, seq_bytes, sizeof seq_bytes, ZMQ_SNDMORE | ZMQ_DONTWAIT);
    if (is_sent) return send_payload(p->router, payload, ZMQ_DONTWAIT);
    zmq_msg_close(payload);
    return false;
}

/* All that has been published from `seq` on and is kept, then the end. */
static void replay(struct kv_publisher *p, const zmq_msg_t *client, uint64_t seq) {
    for (bool goes_on = true; goes_on; seq++) {
        zmq_msg_t payload;
        pthread_mutex_lock(&p->lock);
        if (seq < p->log.first) seq = p->log.first;
        bool has_one = seq < p->log.unsent, is_copied = has_one && copy_batch(p, seq, &payload);
        pthread_mutex_unlock(&p->lock);
        if (!has_one) break;
        goes_on = is_copied && answer(p, client, seq, &payload);
    }
    zmq_msg_t nothing;
    zmq_msg_init(&nothing);
    answer(p, client, END_SEQ, &nothing);
}

static void warn_odd_request(struct kv_publisher *p, int n_frames) {
    if (is_due(&p->warned_request_ns))
        log_warn(
            "events",
            "a replay request is an empty frame and one of 8 bytes; what has other frames (%d) "
            "or sizes is ignored",
            n_frames);
}

/* One message of the ROUTER: its first three frames. Returns how many it had; 0: none is there. */
static int receive(void *router, zmq_msg_t frames[3]) {
    int n = 0;
    for (bool has_more = true; has_more; n++) {
        zmq_msg_t extra, *frame = n < 3 ? &frames[n] : &extra;
        zmq_msg_init(frame);
        if (zmq_msg_recv(frame, router, ZMQ_DONTWAIT) < 0) {
            zmq_msg_close(frame);
            break;
        }
        has_more = zmq_msg_more(frame);
        if (frame == &extra) zmq_msg_close(&extra);
    }
    return n;
}

static void serve_replays(struct kv_publisher *p) {
    for (int i = 0; i < REQUESTS_MAX; i++) {
        zmq_msg_t frames[3];
        int n = receive(p->router, frames);
        if (!n) return;
        if (n == 3 && !zmq_msg_size(&frames[1]) && zmq_msg_size(&frames[2]) == SEQ_BYTES) {
            const unsigned char *bytes = zmq_msg_data(&frames[2]);
            uint64_t seq = 0;
            for (int j = 0; j < SEQ_BYTES; j++) seq = seq << 8 | bytes[j];
            replay(p, &frames[0], seq);
        } else {
            warn_odd_request(p, n - 1);
        }
        for (int j = 0; j < n && j < 3; j++) zmq_msg_close(&frames[j]);
    }
}

/* ---- the thread ---- */

/* Until there is a batch, a request, or the end. */
static void sleep_until_woken(struct kv_publisher *p) {
    char bytes[64];
    zmq_pollitem_t items[] = {{.fd = p->pipe[0], .events = ZMQ_POLLIN},
                              {.socket = p->router, .events = ZMQ_POLLIN}};
    zmq_poll(items, p->router ? 2 : 1, /*timeout=*/-1);
    while (read(p->pipe[0], bytes, sizeof bytes) > 0) {}
}

static void *run_publisher(void *user) {
    struct kv_publisher *p = user;
    for (;;) {
        bool has_more = publish(p);
        if (p->router) serve_replays(p);
        pthread_mutex_lock(&p->lock);
        has_more = has_more || p->log.unsent < p->log.end;
        bool is_over = p->is_stopping && (!has_more || clock_ns() >= p->stop_ns);
        p->is_asleep = !has_more && !is_over;
        bool sleeps = p->is_asleep;
        pthread_mutex_unlock(&p->lock);
        if (is_over) return NULL;
        if (sleeps) sleep_until_woken(p);
    }
}

/* Under the lock. A pipe that is full wakes as well. */
static void wake(struct kv_publisher *p) {
    if (!p->is_asleep) return;
    p->is_asleep = false;
    ssize_t written = write(p->pipe[1], "", 1);
    (void)written;
}

static bool open_pipe(int ends_out[2]) {
    if (pipe(ends_out)) {
        ends_out[0] = ends_out[1] = -1;
        return false;
    }
    for (int i = 0; i < 2; i++)
        if (fcntl(ends_out[i], F_SETFD, FD_CLOEXEC) || fcntl(ends_out[i], F_SETFL, O_NONBLOCK))
            return false;
    return true;
}

/* Signals are for the program's own threads. */
static enum radish_status start_thread(struct kv_publisher *p, struct radish_error *err) {
    sigset_t all, before;
    sigfillset(&all);
    pthread_sigmask(SIG_SETMASK, &all, &before);
    p->has_thread = !pthread_create(&p->thread, NULL, run_publisher, p);
    pthread_sigmask(SIG_SETMASK, &before, NULL);
    if (p->has_thread) return RADISH_OK;
    return error_set(err, RADISH_E_NOMEM, "the publisher's thread could not be started");
}

static enum radish_status open_parts(struct kv_publisher *p, const struct kv_config *config,
                                     struct radish_error *err) {
    p->topic_len = strlen(config->topic);
    p->topic = mem_strndup(config->topic, p->topic_len);
    p->has_lock = !pthread_mutex_init(&p->lock, NULL);
    if (!p->topic || !p->has_lock || !open_pipe(p->pipe)) return error_nomem(err);
    RADISH_TRY(open_sockets(p, config, err));
    RADISH_TRY(kv_log_init(&p->log, LOG_BYTES, config->buffer_steps, config->n_batches_max, err));
    memset(p->log.bytes, 0, p->log.n_bytes); /* so that it is no longer counted as available */
    return start_thread(p, err);
}

enum radish_status kv_publisher_open(const struct kv_config *config,
                                     struct kv_publisher **publisher_out,
                                     struct radish_error *err) {
    *publisher_out = NULL;
    struct kv_publisher *p = calloc(1, sizeof *p);
    if (!p) return error_nomem(err);
    p->pipe[0] = p->pipe[1] = -1;
    enum radish_status status = open_parts(p, config, err);
    if (status != RADISH_OK) {
        kv_publisher_close(p);
        return status;
    }
    log_info("events",
             "KV events: %s %s, topic \"%s\"; replay: %s, the last %u batches (%d MiB at most)",
             is_bound(config->endpoint) ? "bound to" : "connecting to", config->endpoint,
             config->topic, config->replay_endpoint ? config->replay_endpoint : "none",
             config->buffer_steps, LOG_BYTES >> 20);
    *publisher_out = p;
    return RADISH_OK;
}

void kv_publisher_close(struct kv_publisher *p) {
    if (!p) return;
    if (p->has_thread) {
        pthread_mutex_lock(&p->lock);
        p->is_stopping = true;
        p->stop_ns = clock_ns() + STOP_NS;
        wake(p);
        pthread_mutex_unlock(&p->lock);
        pthread_join(p->thread, NULL);
    }
    if (p->pub) zmq_close(p->pub);
    if (p->router) zmq_close(p->router);
    if (p->context) zmq_ctx_term(p->context);
    for (int i = 0; i < 2; i++)
        if (p->pipe[i] >= 0) close(p->pipe[i]);
    if (p->has_lock) pthread_mutex_destroy(&p->lock);
    kv_log_deinit(&p->log);
    free(p->topic);
    free(p);
}

/* ---- the engine's side ---- */

static void warn_dropped(struct kv_publisher *p, uint64_t n_dropped) {
    if (!is_due(&p->warned_ns)) return;
    log_warn("events",
             "publishing KV events cannot keep up: %llu batches were dropped so far; subscribers "
             "see a gap in the sequence numbers",
             (unsigned long long)n_dropped);
}

static double seconds_now(void) {
    struct timespec now;
    clock_gettime(CLOCK_REALTIME, &now);
    return (double)now.tv_sec + (double)now.tv_nsec / 1e9;
}

void kv_publisher_push(void *user, const struct radish_kv_event *events, size_t n) {
    struct kv_publisher *p = user;
    double time = seconds_now();
    size_t n_bytes_max = kv_wire_bytes_max(events, n);
    pthread_mutex_lock(&p->lock);
    uint64_t n_dropped_before = p->log.n_dropped;
    unsigned char *room = kv_log_begin(&p->log, n_bytes_max);
    kv_log_end(&p->log, kv_wire_write(time, events, n, room));
    uint64_t n_dropped = p->log.n_dropped;
    wake(p);
    pthread_mutex_unlock(&p->lock);
    if (n_dropped > n_dropped_before) warn_dropped(p, n_dropped);
}

void kv_publisher_stats(struct kv_publisher *p, struct kv_publisher_stats *stats_out) {
    pthread_mutex_lock(&p->lock);
    *stats_out =
        (struct kv_publisher_stats){.n_batches = p->log.end, .n_dropped = p->log.n_dropped};
    pthread_mutex_unlock(&p->lock);
}
