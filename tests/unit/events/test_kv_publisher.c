/* The publisher against a ZeroMQ subscriber in the same process: frames and numbers, replay, a port
 * that is taken, endpoints that are none, many batches, and an end that does not wait for anybody.
 */
#include "test.h"

#include "base/clock.h"
#include "events/kv_publisher.h"

#include <time.h>
#include <unistd.h>
#include <zmq.h>

static void *context;

static int make_context(void **state) {
    (void)state;
    context = zmq_ctx_new();
    return context ? 0 : -1;
}

static int end_context(void **state) {
    (void)state;
    return zmq_ctx_term(context);
}

/* Of this process, in the current folder: addresses of sockets in files are short. */
static const char *endpoint_of(const char *name) {
    static char endpoints[4][64];
    static int n;
    char *endpoint = endpoints[n++ % 4];
    snprintf(endpoint, sizeof endpoints[0], "ipc:///tmp/radish-%s-%ld", name, (long)getpid());
    return endpoint;
}

static struct kv_config make_config(const char *endpoint, const char *replay_endpoint) {
    return (struct kv_config){.is_published = true,
                              .endpoint = (char *)(uintptr_t)endpoint,
                              .replay_endpoint = (char *)(uintptr_t)replay_endpoint,
                              .topic = (char *)(uintptr_t) "kv",
                              .buffer_steps = 100,
                              .hwm = 200000,
                              .n_batches_max = 200000};
}

static struct kv_publisher *open_publisher(const struct kv_config *config) {
    struct radish_error err;
    struct kv_publisher *publisher;
    if (kv_publisher_open(config, &publisher, &err) != RADISH_OK) fail_msg("%s", err.msg);
    return publisher;
}

static void set_int(void *socket, int option, int value) {
    assert_int_equal(zmq_setsockopt(socket, option, &value, sizeof value), 0);
}

static void *connect_to(int type, const char *endpoint) {
    void *socket = zmq_socket(context, type);
    assert_non_null(socket);
    set_int(socket, ZMQ_RCVTIMEO, 30000);
    set_int(socket, ZMQ_RCVHWM, 0);
    set_int(socket, ZMQ_LINGER, 0);
    if (type == ZMQ_SUB) assert_int_equal(zmq_setsockopt(socket, ZMQ_SUBSCRIBE, "kv", 2), 0);
    assert_int_equal(zmq_connect(socket, endpoint), 0);
    return socket;
}

static size_t receive(void *socket, unsigned char *out, size_t n_max) {
    int n = zmq_recv(socket, out, n_max, 0);
    if (n < 0) fail_msg("%s", zmq_strerror(zmq_errno()));
    return (size_t)n;
}

static bool has_more(void *socket) {
    int more = 0;
    size_t n = sizeof more;
    assert_int_equal(zmq_getsockopt(socket, ZMQ_RCVMORE, &more, &n), 0);
    return more;
}

static uint64_t number_of(const unsigned char bytes[8]) {
    uint64_t seq = 0;
    for (int i = 0; i < 8; i++) seq = seq << 8 | bytes[i];
    return seq;
}

/* topic | number | batch: returns the number. */
static uint64_t receive_batch(void *sub, unsigned char *batch_out, size_t *n_out) {
    unsigned char frame[64];
    assert_int_equal(receive(sub, frame, sizeof frame), 2);
    assert_memory_equal(frame, "kv", 2);
    assert_int_equal(receive(sub, frame, sizeof frame), 8);
    *n_out = receive(sub, batch_out, 256);
    assert_false(has_more(sub));
    return number_of(frame);
}

/* One page with this hash; a batch of 30 bytes or so. */
static void push(struct kv_publisher *publisher, int64_t hash) {
    const int32_t token = 7;
    const struct radish_kv_event event = {.kind = RADISH_KV_STORED,
                                          .hashes = &hash,
                                          .n_hashes = 1,
                                          .tokens = &token,
                                          .n_tokens = 1,
                                          .block_tokens = 1};
    kv_publisher_push(publisher, &event, 1);
}

/* Pushes until the subscription has been noticed. Returns the first number that came. */
static uint64_t meet(struct kv_publisher *publisher, void *sub) {
    unsigned char batch[256];
    size_t n;
    zmq_pollitem_t item = {.socket = sub, .events = ZMQ_POLLIN};
    do push(publisher, -1);
    while (zmq_poll(&item, 1, 10) == 0);
    return receive_batch(sub, batch, &n);
}

static void test_batches_arrive_in_order_with_their_numbers(void **state) {
    (void)state;
    enum { N = 100000 };
    unsigned char batch[256];
    size_t n;
    const char *endpoint = endpoint_of("pub");
    struct kv_config config = make_config(endpoint, NULL);
    struct kv_publisher *publisher = open_publisher(&config);
    void *sub = connect_to(ZMQ_SUB, endpoint);
    uint64_t seq = meet(publisher, sub);
    struct kv_publisher_stats stats;
    kv_publisher_stats(publisher, &stats);

    for (uint64_t i = stats.n_batches; i < N; i++) push(publisher, (int64_t)i);
    while (++seq < N) {
        assert_int_equal(receive_batch(sub, batch, &n), seq);
        /* [time, [["BlockStored", [hash], ...]]]: the hash begins at byte 25. */
        if (seq < stats.n_batches)
            assert_int_equal(batch[25], 0xff);
        else if (seq > 0xffff)
            assert_int_equal((batch[26] << 24) | (batch[27] << 16) | (batch[28] << 8) | batch[29],
                             seq);
    }

    kv_publisher_stats(publisher, &stats);
    assert_int_equal(stats.n_batches, N);
    assert_int_equal(stats.n_dropped, 0);
    zmq_close(sub);
    kv_publisher_close(publisher);
}

/* empty | number | batch or nothing. */
static uint64_t receive_replayed(void *req, size_t *n_out) {
    unsigned char frame[256];
    assert_int_equal(receive(req, frame, sizeof frame), 0);
    assert_true(has_more(req));
    assert_int_equal(receive(req, frame, sizeof frame), 8);
    uint64_t seq = number_of(frame);
    *n_out = receive(req, frame, sizeof frame);
    assert_false(has_more(req));
    return seq;
}

static void ask(void *dealer, uint64_t seq) {
    unsigned char bytes[8];
    for (int i = 0; i < 8; i++) bytes[i] = (unsigned char)(seq >> (56 - 8 * i));
    assert_int_equal(zmq_send(dealer, "", 0, ZMQ_SNDMORE), 0);
    assert_int_equal(zmq_send(dealer, bytes, 8, 0), 8);
}

static void wait_published(void *sub, uint64_t seq) {
    unsigned char batch[256];
    size_t n;
    while (receive_batch(sub, batch, &n) < seq) {}
}

static void test_what_was_missed_can_be_had_again(void **state) {
    (void)state;
    size_t n;
    const char *endpoint = endpoint_of("pub"), *replay_endpoint = endpoint_of("replay");
    struct kv_config config = make_config(endpoint, replay_endpoint);
    struct kv_publisher *publisher = open_publisher(&config);
    void *sub = connect_to(ZMQ_SUB, endpoint), *dealer = connect_to(ZMQ_DEALER, replay_endpoint);
    struct kv_publisher_stats stats;
    meet(publisher, sub);
    kv_publisher_stats(publisher, &stats);
    uint64_t last = stats.n_batches + 250;
    for (uint64_t seq = stats.n_batches; seq <= last; seq++) push(publisher, 1);
    wait_published(sub, last);

    ask(dealer, last - 3);
    for (uint64_t seq = last - 3; seq <= last; seq++)
        assert_int_equal(receive_replayed(dealer, &n), seq);
    assert_int_equal(receive_replayed(dealer, &n), UINT64_MAX);
    assert_int_equal(n, 0);
    ask(dealer, 0); /* as many as are kept */
    for (uint64_t seq = last - 99; seq <= last; seq++)
        assert_int_equal(receive_replayed(dealer, &n), seq);
    assert_int_equal(receive_replayed(dealer, &n), UINT64_MAX);
    ask(dealer, UINT64_MAX); /* nothing is as new */
    assert_int_equal(receive_replayed(dealer, &n), UINT64_MAX);

    assert_int_equal(zmq_send(dealer, "nonsense", 8, 0), 8); /* no answer, no harm */
    assert_int_equal(zmq_send(dealer, "", 0, ZMQ_SNDMORE), 0);
    assert_int_equal(zmq_send(dealer, "short", 5, 0), 5);
    for (int i = 0; i < 9; i++) zmq_send(dealer, "", 0, i < 8 ? ZMQ_SNDMORE : 0);
    ask(dealer, last);
    assert_int_equal(receive_replayed(dealer, &n), last);
    assert_true(n > 20);
    zmq_close(sub);
    zmq_close(dealer);
    kv_publisher_close(publisher);
}

static void test_endpoints_that_cannot_be_had_are_told(void **state) {
    (void)state;
    struct radish_error err;
    struct kv_publisher *second;
    void *holder = zmq_socket(context, ZMQ_PUB);
    char endpoint[64];
    size_t n = sizeof endpoint;
    assert_int_equal(zmq_bind(holder, "tcp://*:*"), 0);
    assert_int_equal(zmq_getsockopt(holder, ZMQ_LAST_ENDPOINT, endpoint, &n), 0);
    char wanted[64];
    snprintf(wanted, sizeof wanted, "tcp://*:%s", strrchr(endpoint, ':') + 1);
    struct kv_config taken = make_config(wanted, NULL);
    struct kv_config taken_replay = make_config(endpoint_of("pub"), wanted);
    struct kv_config nonsense = make_config("carrier-pigeon://*", NULL);
    struct kv_config no_port = make_config("tcp://*", NULL);

    assert_int_equal(kv_publisher_open(&taken, &second, &err), RADISH_E_IO);
    assert_non_null(strstr(err.msg, "Address already in use"));
    assert_string_equal(err.field, "endpoint");
    assert_int_equal(kv_publisher_open(&taken_replay, &second, &err), RADISH_E_IO);
    assert_string_equal(err.field, "replay_endpoint");
    assert_int_equal(kv_publisher_open(&nonsense, &second, &err), RADISH_E_INVALID);
    assert_int_equal(kv_publisher_open(&no_port, &second, &err), RADISH_E_INVALID);
    assert_null(second);
    zmq_close(holder);
}

static void test_nobody_is_waited_for(void **state) {
    (void)state;
    /* Connecting, to where nobody is: ZeroMQ keeps batches for them. */
    struct kv_config bound = make_config(endpoint_of("pub"), NULL);
    struct kv_config absent = make_config("tcp://127.0.0.1:9", NULL);
    absent.n_batches_max = 10;
    struct kv_config *configs[] = {&bound, &absent};
    for (int i = 0; i < 2; i++) {
        struct kv_publisher *publisher = open_publisher(configs[i]);
        for (int64_t j = 0; j < 1000; j++) push(publisher, j);
        uint64_t begun_ns = clock_ns();

        kv_publisher_close(publisher);

        assert_true(clock_ns() - begun_ns < 2500000000u);
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_batches_arrive_in_order_with_their_numbers),
        cmocka_unit_test(test_what_was_missed_can_be_had_again),
        cmocka_unit_test(test_endpoints_that_cannot_be_had_are_told),
        cmocka_unit_test(test_nobody_is_waited_for),
    };
    return cmocka_run_group_tests(tests, make_context, end_context);
}
