/* http_driver.h - many HTTP requests at the same time from one thread: what a load generator needs
 * of a client, and no more.
 *
 * Owns: connections, kept and used again. The caller keeps URL, body and whatever the callbacks
 * point to until on_done, which is called exactly once for each request that was sent. Threads: one
 * at a time; callbacks run inside http_driver_wait(). */
#ifndef BENCH_HTTP_DRIVER_H
#define BENCH_HTTP_DRIVER_H

#include "radish.h"

enum http_failure {
    HTTP_DONE,          /* status 2xx, all of the body */
    HTTP_FAILED_STATUS, /* any other status */
    HTTP_FAILED_CONNECT,
    HTTP_FAILED_TIMEOUT,
    HTTP_FAILED_BROKEN,  /* the connection ended, or what came is no HTTP */
    HTTP_FAILED_STOPPED, /* on_bytes said so, or the driver goes away */
};

struct http_result {
    enum http_failure failure;
    long status;     /* 0: none came */
    const char *why; /* curl's words, or the body of a failed status; borrowed, "" if none */
    size_t n_why;
};

struct http_request {
    const char *url;
    const char *body; /* [n_body] JSON to POST; NULL: a GET */
    size_t n_body;
    double timeout_seconds; /* of the whole request; 0: none */
    /* Bytes of a body with status 2xx. False stops the request. */
    bool (*on_bytes)(void *user, const char *bytes, size_t n);
    void (*on_done)(void *user, const struct http_result *result);
    void *user;
};

struct http_driver;

/* api_key: sent as a bearer, or NULL. */
enum radish_status http_driver_create(const char *api_key, struct http_driver **driver_out,
                                      struct radish_error *err) RADISH_CHECK_RESULT;
/* What is under way ends with HTTP_FAILED_STOPPED. NULL is fine. */
void http_driver_destroy(struct http_driver *driver);

enum radish_status http_driver_send(struct http_driver *driver, const struct http_request *request,
                                    struct radish_error *err) RADISH_CHECK_RESULT;

/* Waits until something comes, at most until clock_ns() is until_ns, and works on all that came. */
void http_driver_wait(struct http_driver *driver, uint64_t until_ns);

/* Ends what is under way with HTTP_FAILED_STOPPED. */
void http_driver_stop(struct http_driver *driver);

uint32_t http_driver_n_active(const struct http_driver *driver);

/* The longest time between two waits (work on what came, and sending) since this was last asked:
 * how late a time taken in a callback can be. */
uint64_t http_driver_take_turn_ns_max(struct http_driver *driver);

/* Lets this process have as many connections as the system allows. */
void http_driver_raise_limits(void);

#endif
