/* test_watcher.c - a peer that leaves is told once, and a removed one never. */
#include "server/http/watcher.h"
#include "test.h"

#include <stdatomic.h>
#include <sys/socket.h>
#include <unistd.h>

static void count_gone(void *user) {
    atomic_fetch_add((_Atomic int *)user, 1);
}

static bool wait_for(_Atomic int *n, int want) {
    for (int ms = 0; ms < 5000 && atomic_load(n) != want; ms++) usleep(1000);
    return atomic_load(n) == want;
}

static void make_pair(int pair[2]) {
    assert_int_equal(socketpair(AF_UNIX, SOCK_STREAM, 0, pair), 0);
}

static void test_watcher_tells_a_close_and_a_half_close_once(void **state) {
    (void)state;
    struct watcher *w;
    int closed[2], half[2];
    _Atomic int n_closed = 0, n_half = 0;
    assert_int_equal(watcher_open(8, count_gone, &w, NULL), RADISH_OK);
    make_pair(closed);
    make_pair(half);
    uint64_t closed_ticket = watcher_add(w, closed[0], &n_closed);
    uint64_t half_ticket = watcher_add(w, half[0], &n_half);

    close(closed[1]);
    shutdown(half[1], SHUT_WR);

    assert_true(wait_for(&n_closed, 1));
    assert_true(wait_for(&n_half, 1));
    usleep(20000);
    assert_int_equal(atomic_load(&n_closed), 1);
    watcher_remove(w, closed_ticket, closed[0]);
    watcher_remove(w, half_ticket, half[0]);
    close(closed[0]);
    close(half[0]);
    close(half[1]);
    watcher_close(w);
}

static void test_watcher_sees_a_peer_that_left_before_it_was_added(void **state) {
    (void)state;
    struct watcher *w;
    int pair[2];
    _Atomic int n_gone = 0;
    assert_int_equal(watcher_open(8, count_gone, &w, NULL), RADISH_OK);
    make_pair(pair);
    close(pair[1]);

    uint64_t ticket = watcher_add(w, pair[0], &n_gone);

    assert_true(wait_for(&n_gone, 1));
    watcher_remove(w, ticket, pair[0]);
    close(pair[0]);
    watcher_close(w);
}

static void test_watcher_is_not_woken_by_data(void **state) {
    (void)state;
    struct watcher *w;
    int pair[2];
    _Atomic int n_gone = 0;
    assert_int_equal(watcher_open(8, count_gone, &w, NULL), RADISH_OK);
    make_pair(pair);
    uint64_t ticket = watcher_add(w, pair[0], &n_gone);

    assert_int_equal(write(pair[1], "next request", 12), 12);
    usleep(30000);

    assert_int_equal(atomic_load(&n_gone), 0);
    watcher_remove(w, ticket, pair[0]);
    close(pair[0]);
    close(pair[1]);
    watcher_close(w);
}

/* The row is used again at once: an event of the first socket must not reach the second user. */
static void test_watcher_never_tells_a_removed_socket(void **state) {
    (void)state;
    struct watcher *w;
    _Atomic int n_gone = 0, n_next = 0;
    assert_int_equal(watcher_open(1, count_gone, &w, NULL), RADISH_OK);
    for (int i = 0; i < 2000; i++) {
        int pair[2], next[2];
        make_pair(pair);
        make_pair(next);
        uint64_t ticket = watcher_add(w, pair[0], &n_gone);
        assert_true(ticket != 0);
        close(pair[1]);
        watcher_remove(w, ticket, pair[0]);
        int n_before = atomic_load(&n_gone);
        close(pair[0]);
        ticket = watcher_add(w, next[0], &n_next);
        assert_int_equal(atomic_load(&n_gone), n_before);
        watcher_remove(w, ticket, next[0]);
        close(next[0]);
        close(next[1]);
    }

    assert_int_equal(atomic_load(&n_next), 0);
    watcher_close(w);
}

static void test_watcher_refuses_more_sockets_than_it_has_rows(void **state) {
    (void)state;
    struct watcher *w;
    int a[2], b[2];
    _Atomic int n_gone = 0;
    assert_int_equal(watcher_open(1, count_gone, &w, NULL), RADISH_OK);
    make_pair(a);
    make_pair(b);
    uint64_t ticket = watcher_add(w, a[0], &n_gone);

    assert_true(watcher_add(w, b[0], &n_gone) == 0);

    watcher_remove(w, ticket, a[0]);
    for (int i = 0; i < 2; i++) {
        close(a[i]);
        close(b[i]);
    }
    watcher_close(w);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_watcher_tells_a_close_and_a_half_close_once),
        cmocka_unit_test(test_watcher_sees_a_peer_that_left_before_it_was_added),
        cmocka_unit_test(test_watcher_is_not_woken_by_data),
        cmocka_unit_test(test_watcher_never_tells_a_removed_socket),
        cmocka_unit_test(test_watcher_refuses_more_sockets_than_it_has_rows),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
