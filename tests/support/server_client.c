/* server_client.c - sockets with deadlines.
 *
 * Every wait has a limit, so that a server that hangs makes a test fail instead of hanging it. The
 * answers are kept as text: tests look for what matters in them. */
#include "radish_report.h"

#include "server_client.h"

#include "base/buf.h"
#include "base/clock.h"

#include <arpa/inet.h>
#include <netinet/in.h>
#include <poll.h>
#include <sys/socket.h>
#include <unistd.h>

enum { DEADLINE_MS = 10000, WAIT_MS = 5000 };

void fixture_open(struct fixture *f, const struct server_options *options) {
    struct server_options none = {0};
    struct radish_error err;
    fake_reset();
    memset(f, 0, sizeof *f);
    assert_int_equal(radish_model_open("fake", NULL, &f->model, &err), RADISH_OK);
    assert_int_equal(radish_engine_open(f->model, NULL, &f->engine, &err), RADISH_OK);
    enum radish_status status =
        server_open(f->model, f->engine, options ? options : &none, &f->server, &err);
    if (status) fail_msg("server_open: %s", err.msg);
    f->port = server_port(f->server);
}

void fixture_close(struct fixture *f) {
    server_close(f->server);
    radish_engine_close(f->engine);
    radish_model_close(f->model);
}

static uint32_t count_requests(struct fixture *f) {
    struct radish_engine_info info;
    radish_engine_info(f->engine, &info);
    return info.requests_running + info.requests_queued;
}

void fixture_wait_requests(struct fixture *f, uint32_t n) {
    for (int ms = 0; ms < WAIT_MS; ms++, usleep(1000))
        if (count_requests(f) == n) return;
    fail_msg("the engine has %u requests, not %u", count_requests(f), n);
}

void fixture_wait_free(struct fixture *f) {
    struct radish_engine_info info;
    for (int ms = 0; ms < WAIT_MS; ms++, usleep(1000)) {
        radish_engine_info(f->engine, &info);
        if (info.kv_slots_free == FAKE_SLOTS) return;
    }
    fail_msg("only %u slots are free", (unsigned)info.kv_slots_free);
}

void answer_free(struct answer *a) {
    free(a->text);
    *a = (struct answer){0};
}

int client_connect(int port) {
    struct sockaddr_in address = {.sin_family = AF_INET, .sin_port = htons((uint16_t)port)};
    address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    int fd = socket(AF_INET, SOCK_STREAM, 0);
    assert_true(fd >= 0);
    assert_int_equal(connect(fd, (struct sockaddr *)&address, sizeof address), 0);
    return fd;
}

void client_send(int fd, const char *bytes, size_t n) {
    while (n) {
        ssize_t got = send(fd, bytes, n, MSG_NOSIGNAL);
        if (got <= 0) return; /* The server closed: the test looks at what it said. */
        bytes += got;
        n -= (size_t)got;
    }
}

void client_send_str(int fd, const char *s) {
    client_send(fd, s, strlen(s));
}

static struct answer make_answer(struct buf *text) {
    struct answer a = {.text = buf_take(text, &(size_t){0})};
    assert_non_null(a.text);
    sscanf(a.text, "HTTP/1.%*d %d", &a.status);
    char *body = strstr(a.text, "\r\n\r\n");
    a.body = body ? body + 4 : "";
    return a;
}

/* needle NULL: until the end. */
static struct answer read_answer(int fd, const char *needle) {
    struct buf text;
    char piece[65536];
    uint64_t end_ns = clock_ns() + (uint64_t)DEADLINE_MS * 1000000;
    size_t n_searched = 0, overlap = needle ? strlen(needle) : 0;
    buf_init(&text, 0);
    for (;;) {
        if (needle && text.len && strstr(text.data + n_searched, needle)) return make_answer(&text);
        n_searched = text.len > overlap ? text.len - overlap : 0;
        struct pollfd wait = {.fd = fd, .events = POLLIN};
        uint64_t now_ns = clock_ns();
        int left_ms = now_ns < end_ns ? (int)((end_ns - now_ns) / 1000000) : 0;
        if (poll(&wait, 1, left_ms) <= 0) break;
        ssize_t got = recv(fd, piece, sizeof piece, 0);
        if (got <= 0 && !needle) return make_answer(&text);
        if (got <= 0) break;
        buf_append(&text, piece, (size_t)got);
    }
    fail_msg("no %s within %d ms; got: %s", needle ? needle : "end", DEADLINE_MS,
             text.len ? text.data : "nothing");
    return (struct answer){0};
}

struct answer client_read_all(int fd) {
    return read_answer(fd, NULL);
}

struct answer client_read_until(int fd, const char *needle) {
    return read_answer(fd, needle);
}

static int open_request(int port, const char *method, const char *path, const char *headers,
                        const char *body) {
    struct buf text;
    buf_init(&text, 0);
    buf_printf(&text, "%s %s HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n%s", method, path,
               headers);
    if (body) buf_printf(&text, "Content-Length: %zu\r\n", strlen(body));
    buf_append_str(&text, "\r\n");
    if (body) buf_append_str(&text, body);
    int fd = client_connect(port);
    client_send(fd, text.data, text.len);
    buf_deinit(&text);
    return fd;
}

struct answer client_request(int port, const char *method, const char *path, const char *headers,
                             const char *body) {
    int fd = open_request(port, method, path, headers, body);
    struct answer a = client_read_all(fd);
    close(fd);
    return a;
}

struct answer client_post(int port, const char *path, const char *body) {
    return client_request(port, "POST", path, "Content-Type: application/json\r\n", body);
}

int client_post_open(int port, const char *path, const char *body) {
    return open_request(port, "POST", path, "Content-Type: application/json\r\n", body);
}
