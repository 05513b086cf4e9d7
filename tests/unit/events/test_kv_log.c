/* The ring of batches: what waits, what is kept, and what has to go, against a plain list. */
#include "test.h"

#include "base/rng.h"
#include "events/kv_log.h"

enum { BATCHES = 20000, BYTES_MAX = 400 };

/* A batch's bytes follow from its number. */
static void put(struct kv_log *log, size_t n_room, size_t n) {
    uint64_t seq = log->end;
    unsigned char *room = kv_log_begin(log, n_room);
    assert_true(room >= log->bytes && room + n_room <= log->bytes + log->n_bytes);
    for (size_t i = 0; i < n_room; i++) room[i] = (unsigned char)(i < n ? seq + i : 255);
    kv_log_end(log, n);
}

static void assert_kept(const struct kv_log *log, uint64_t seq, const size_t *lengths) {
    size_t n;
    const unsigned char *bytes = kv_log_get(log, seq, &n);
    assert_int_equal(n, lengths[seq]);
    for (size_t i = 0; i < n; i++) assert_int_equal(bytes[i], (unsigned char)(seq + i));
}

static void test_batches_keep_their_bytes_while_the_ring_goes_around(void **state) {
    (void)state;
    static size_t lengths[BATCHES];
    uint64_t seed = rng_seed_from_system(), unsent = 0, n_dropped = 0;
    struct kv_log log;
    printf("seed %llu\n", (unsigned long long)seed);
    assert_int_equal(kv_log_init(&log, 4096, 30, 10, NULL), RADISH_OK);

    for (uint64_t seq = 0; seq < BATCHES; seq++) {
        uint64_t dice = rng_u64(seed, seq);
        size_t n_room = 1 + dice % BYTES_MAX;
        lengths[seq] = 1 + (dice >> 16) % n_room;
        put(&log, n_room, lengths[seq]);
        assert_int_equal(log.end, seq + 1);
        if (log.unsent != unsent) {
            n_dropped += log.unsent - unsent;
            unsent = log.unsent;
        }
        assert_true(log.end - log.unsent <= 10 && log.unsent - log.first <= 30);
        for (uint64_t i = log.first; i < log.end; i++) assert_kept(&log, i, lengths);
        for (uint64_t i = (dice >> 40) % 3; i && log.unsent < log.end; i--, unsent++)
            kv_log_sent(&log);
    }

    assert_true(n_dropped > 0);
    assert_int_equal(log.n_dropped, n_dropped);
    kv_log_deinit(&log);
}

static void test_what_waits_too_long_is_dropped_but_kept_for_replay(void **state) {
    (void)state;
    static const size_t lengths[20] = {1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1};
    struct kv_log log;
    assert_int_equal(kv_log_init(&log, 4096, 3, 5, NULL), RADISH_OK);

    for (int i = 0; i < 10; i++) put(&log, 1, 1);

    assert_int_equal(log.n_dropped, 5);
    assert_int_equal(log.unsent, 5);
    assert_int_equal(log.first, 2);
    assert_kept(&log, 2, lengths);
    while (log.unsent < log.end) kv_log_sent(&log);
    assert_int_equal(log.first, 7);
    assert_int_equal(log.n_dropped, 5);
    kv_log_deinit(&log);
}

static void test_bytes_are_a_bound_as_well(void **state) {
    (void)state;
    struct kv_log log;
    assert_int_equal(kv_log_init(&log, 1000, 100, 100, NULL), RADISH_OK);

    for (int i = 0; i < 50; i++) put(&log, 300, 300);

    assert_true(log.end - log.first >= 2 && log.end - log.first <= 3);
    assert_int_equal(log.unsent, log.first);
    assert_int_equal(log.n_dropped, log.first);
    put(&log, 500, 500);
    kv_log_deinit(&log);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_batches_keep_their_bytes_while_the_ring_goes_around),
        cmocka_unit_test(test_what_waits_too_long_is_dropped_but_kept_for_replay),
        cmocka_unit_test(test_bytes_are_a_bound_as_well),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
