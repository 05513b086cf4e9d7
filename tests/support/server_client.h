/* server_client.h - an HTTP client that does what it is told, also what no library would: raw
 * bytes, halves of requests, sudden closes. And the server under test, over the fake engine.
 * Failures of the client itself end the test. */
#ifndef SUPPORT_SERVER_CLIENT_H
#define SUPPORT_SERVER_CLIENT_H

#include "server/server.h"
#include "server_fake_engine.h"
#include "test.h"

struct fixture {
    struct radish_model *model;
    struct radish_engine *engine;
    struct server *server;
    int port;
};

/* Fake controls are reset first. options may be NULL. */
void fixture_open(struct fixture *f, const struct server_options *options);
void fixture_close(struct fixture *f);

/* Waits at most 5 s until this many requests are in the engine; fails the test otherwise. */
void fixture_wait_requests(struct fixture *f, uint32_t n);

/* The same, until no request holds a slot. */
void fixture_wait_free(struct fixture *f);

struct answer {
    int status;       /* 0: the connection closed without one */
    char *text;       /* NUL-terminated: status line, headers, body; free with answer_free() */
    const char *body; /* in text; "" if there is none */
};

void answer_free(struct answer *a);

int client_connect(int port);
void client_send(int fd, const char *bytes, size_t n);
void client_send_str(int fd, const char *s);

/* Reads until the peer closes, at most 10 s. */
struct answer client_read_all(int fd);

/* Reads until the text holds `needle`; fails the test when it does not come within 10 s. */
struct answer client_read_until(int fd, const char *needle);

/* One request on a connection of its own, with Connection: close. headers: whole lines, or "".
 * body may be NULL. */
struct answer client_request(int port, const char *method, const char *path, const char *headers,
                             const char *body);

/* POST with a JSON body, as client_request(). */
struct answer client_post(int port, const char *path, const char *body);

/* Sends the POST and returns the open connection. */
int client_post_open(int port, const char *path, const char *body);

#endif
