/* test_peers.c - who is too slow, or has left, is shut down; who is not, is left alone. */
#include "server/http/peers.h"
#include "test.h"

#include "base/clock.h"

#include <poll.h>
#include <sys/socket.h>
#include <unistd.h>

struct pair {
    int server, client;
    struct peer *peer;
};

static struct pair open_pair(struct peers *peers) {
    int fds[2];
    assert_int_equal(socketpair(AF_UNIX, SOCK_STREAM, 0, fds), 0);
    return (struct pair){.server = fds[0], .client = fds[1], .peer = peers_add(peers, fds[0])};
}

static void close_pair(struct peers *peers, struct pair *pair) {
    peers_remove(peers, pair->peer);
    close(pair->server);
    close(pair->client);
}

/* Whether the client sees its connection end within ms. */
static bool ends_within(const struct pair *pair, int ms) {
    struct pollfd wait = {.fd = pair->client, .events = POLLIN};
    char byte;
    return poll(&wait, 1, ms) == 1 && recv(pair->client, &byte, 1, 0) == 0;
}

static void test_peers_shut_who_is_late_and_only_them(void **state) {
    (void)state;
    struct peers *peers;
    assert_int_equal(peers_open(1, 0, &peers, NULL), RADISH_OK);
    struct pair head = open_pair(peers), body = open_pair(peers), fast = open_pair(peers);
    struct pair busy = open_pair(peers), idle = open_pair(peers), reader = open_pair(peers);
    peer_await_body(peers, body.peer);
    peer_await_body(peers, fast.peer);
    peer_note_body(fast.peer, 100 * PEERS_BYTES_PER_SECOND);
    peer_await_nothing(busy.peer);
    peer_await_next(peers, idle.peer);
    peer_await_reading(peers, reader.peer, 0);
    uint64_t begin_ns = clock_ns();

    assert_true(ends_within(&head, 5000));
    assert_true(clock_ns() - begin_ns > 900000000);
    assert_true(ends_within(&body, 2000));
    assert_true(ends_within(&idle, 2000));
    assert_true(ends_within(&reader, 2000));
    assert_false(ends_within(&fast, 100));
    assert_false(ends_within(&busy, 0));

    struct pair *all[] = {&head, &body, &fast, &busy, &idle, &reader};
    for (size_t i = 0; i < sizeof all / sizeof *all; i++) close_pair(peers, all[i]);
    peers_close(peers);
}

static bool is_shut(const struct pair *pair) {
    for (int ms = 0; ms < 3000; ms += 10, usleep(10000))
        if (send(pair->server, "", 1, MSG_NOSIGNAL | MSG_DONTWAIT) < 0) return true;
    return false;
}

static void test_peers_shut_who_has_left_and_owes_bytes(void **state) {
    (void)state;
    struct peers *peers;
    assert_int_equal(peers_open(100, 100, &peers, NULL), RADISH_OK);
    struct pair left = open_pair(peers), unread = open_pair(peers), reader = open_pair(peers);
    peer_await_reading(peers, reader.peer, 0);
    shutdown(left.client, SHUT_WR);
    assert_int_equal(send(unread.client, "a", 1, 0), 1);
    shutdown(unread.client, SHUT_WR);
    shutdown(reader.client, SHUT_WR);

    assert_true(is_shut(&left));
    usleep(700000);
    assert_int_equal(send(unread.server, "b", 1, MSG_NOSIGNAL),
                     1); /* its byte is still to be read */
    assert_int_equal(send(reader.server, "b", 1, MSG_NOSIGNAL),
                     1); /* it may have closed its half */

    struct pair *all[] = {&left, &unread, &reader};
    for (size_t i = 0; i < sizeof all / sizeof *all; i++) close_pair(peers, all[i]);
    peers_close(peers);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_peers_shut_who_is_late_and_only_them),
        cmocka_unit_test(test_peers_shut_who_has_left_and_owes_bytes),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
