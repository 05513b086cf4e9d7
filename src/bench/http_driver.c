/* http_driver.c - libcurl's multi interface over epoll: a thousand streams on one thread.
 *
 * A generator with a thread per stream measures its own scheduler: chunks wait for a thread to be
 * woken, on the very cores that the server needs. One thread that sleeps in epoll and does a few
 * microseconds of work per chunk stays out of the way, and how long one turn of its work took is
 * the error of every time it tells (http_driver_take_turn_ns_max()).
 *
 * curl's own wait (curl_multi_poll) hands every descriptor to the kernel at each call, which is
 * quadratic in streams: so the sockets are registered with epoll when curl says so, and curl is
 * told which of them woke us. Where there is no epoll, curl's wait does.
 *
 * Requests use HTTP/1.1 on connections that are kept; handles are used again, so that a long run
 * allocates for its first requests only. A body with a failed status is collected (the first 64
 * KiB): it is what the server says about the failure. */
#include "http_driver.h"

#include "base/buf.h"
#include "base/clock.h"
#include "base/status.h"

#include <curl/curl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <unistd.h>
#ifdef __linux__
#include <sys/epoll.h>
#endif

enum { WHY_BYTES_MAX = 65536, EVENTS = 256, WAIT_MS_MAX = 1000 };

struct call {
    struct http_driver *driver;
    CURL *easy;
    struct http_request request;
    struct buf why;
    char error[CURL_ERROR_SIZE];
    bool is_stopped; /* by on_bytes */
    struct call *prev, *next;
};

struct http_driver {
    CURLM *multi;
    struct curl_slist *post_headers, *get_headers;
    struct call active, idle; /* heads of rings */
    uint32_t n_active;
    int epoll;
    uint64_t timer_ns; /* when curl wants to be called; UINT64_MAX: not */
    uint64_t woken_ns; /* when the last wait ended; 0: not in this measurement */
    uint64_t turn_ns_max;
};

/* ---- rings of calls ---- */

static void put_into(struct call *ring, struct call *call) {
    call->prev = ring;
    call->next = ring->next;
    ring->next->prev = call;
    ring->next = call;
}

static void take_out(struct call *call) {
    call->prev->next = call->next;
    call->next->prev = call->prev;
}

/* ---- what curl calls ---- */

#ifdef __linux__
static int watch_socket(CURL *easy, curl_socket_t fd, int what, void *user, void *seen) {
    struct http_driver *driver = user;
    struct epoll_event event = {.data.fd = fd};
    (void)easy;
    if (what == CURL_POLL_REMOVE) {
        epoll_ctl(driver->epoll, EPOLL_CTL_DEL, fd, &event);
        return 0;
    }
    if (what != CURL_POLL_OUT) event.events |= EPOLLIN;
    if (what != CURL_POLL_IN) event.events |= EPOLLOUT;
    int op = seen ? EPOLL_CTL_MOD : EPOLL_CTL_ADD;
    if (epoll_ctl(driver->epoll, op, fd, &event) &&
        epoll_ctl(driver->epoll, seen ? EPOLL_CTL_ADD : EPOLL_CTL_MOD, fd, &event))
        return -1;
    curl_multi_assign(driver->multi, fd, driver);
    return 0;
}

static int set_timer(CURLM *multi, long timeout_ms, void *user) {
    struct http_driver *driver = user;
    (void)multi;
    driver->timer_ns = timeout_ms < 0 ? UINT64_MAX : clock_ns() + (uint64_t)timeout_ms * 1000000u;
    return 0;
}
#endif

static size_t take_bytes(char *bytes, size_t size, size_t n, void *user) {
    struct call *call = user;
    long status = 0;
    n *= size;
    curl_easy_getinfo(call->easy, CURLINFO_RESPONSE_CODE, &status);
    if (status < 200 || status > 299) {
        size_t room = WHY_BYTES_MAX - call->why.len;
        buf_append(&call->why, bytes, n < room ? n : room);
        return n;
    }
    if (call->request.on_bytes(call->request.user, bytes, n)) return n;
    call->is_stopped = true;
    return 0;
}

/* ---- making and ending ---- */

static struct curl_slist *append_header(struct curl_slist *list, const char *header, bool *ok_io) {
    struct curl_slist *longer = curl_slist_append(list, header);
    if (!longer) *ok_io = false;
    return longer ? longer : list;
}

static bool make_headers(struct http_driver *driver, const char *api_key) {
    struct buf key;
    bool ok = true;
    buf_init(&key, 0);
    buf_printf(&key, "Authorization: Bearer %s", api_key ? api_key : "");
    driver->post_headers = append_header(NULL, "Content-Type: application/json", &ok);
    driver->post_headers = append_header(driver->post_headers, "Expect:", &ok);
    if (api_key && !key.failed) {
        driver->post_headers = append_header(driver->post_headers, key.data, &ok);
        driver->get_headers = append_header(NULL, key.data, &ok);
    }
    ok = ok && !key.failed;
    buf_deinit(&key);
    return ok;
}

enum radish_status http_driver_create(const char *api_key, struct http_driver **driver_out,
                                      struct radish_error *err) {
    *driver_out = NULL;
    if (curl_global_init(CURL_GLOBAL_DEFAULT) != CURLE_OK) return error_nomem(err);
    struct http_driver *driver = calloc(1, sizeof *driver);
    if (!driver) {
        curl_global_cleanup();
        return error_nomem(err);
    }
    driver->epoll = -1;
    driver->timer_ns = UINT64_MAX;
    driver->active.prev = driver->active.next = &driver->active;
    driver->idle.prev = driver->idle.next = &driver->idle;
    driver->multi = curl_multi_init();
    bool ok = driver->multi && make_headers(driver, api_key);
#ifdef __linux__
    driver->epoll = epoll_create1(EPOLL_CLOEXEC);
    ok = ok && driver->epoll >= 0;
    if (ok) {
        curl_multi_setopt(driver->multi, CURLMOPT_SOCKETFUNCTION, watch_socket);
        curl_multi_setopt(driver->multi, CURLMOPT_SOCKETDATA, driver);
        curl_multi_setopt(driver->multi, CURLMOPT_TIMERFUNCTION, set_timer);
        curl_multi_setopt(driver->multi, CURLMOPT_TIMERDATA, driver);
    }
#endif
    if (!ok) {
        http_driver_destroy(driver);
        return error_nomem(err);
    }
    curl_multi_setopt(driver->multi, CURLMOPT_PIPELINING, (long)CURLPIPE_NOTHING);
    *driver_out = driver;
    return RADISH_OK;
}

static void end_call(struct call *call, enum http_failure failure, const char *words) {
    struct http_result result = {.failure = failure, .why = words, .n_why = strlen(words)};
    curl_easy_getinfo(call->easy, CURLINFO_RESPONSE_CODE, &result.status);
    if (call->why.len) {
        result.why = call->why.data;
        result.n_why = call->why.len;
    }
    curl_multi_remove_handle(call->driver->multi, call->easy);
    take_out(call);
    call->driver->n_active--;
    call->request.on_done(call->request.user, &result);
    buf_clear(&call->why);
    put_into(&call->driver->idle, call);
}

static void free_calls(struct call *ring) {
    while (ring->next != ring) {
        struct call *call = ring->next;
        take_out(call);
        curl_easy_cleanup(call->easy);
        buf_deinit(&call->why);
        free(call);
    }
}

void http_driver_stop(struct http_driver *driver) {
    while (driver->active.next != &driver->active)
        end_call(driver->active.next, HTTP_FAILED_STOPPED, "stopped");
}

void http_driver_destroy(struct http_driver *driver) {
    if (!driver) return;
    http_driver_stop(driver);
    free_calls(&driver->idle);
    if (driver->multi) curl_multi_cleanup(driver->multi);
    if (driver->epoll >= 0) close(driver->epoll);
    curl_slist_free_all(driver->post_headers);
    curl_slist_free_all(driver->get_headers);
    free(driver);
    curl_global_cleanup();
}

static struct call *take_call(struct http_driver *driver) {
    struct call *call = driver->idle.next;
    if (call != &driver->idle) {
        take_out(call);
        return call;
    }
    call = calloc(1, sizeof *call);
    if (call) call->easy = curl_easy_init();
    if (!call || !call->easy) {
        free(call);
        return NULL;
    }
    call->driver = driver;
    buf_init(&call->why, WHY_BYTES_MAX);
    curl_easy_setopt(call->easy, CURLOPT_PRIVATE, call);
    curl_easy_setopt(call->easy, CURLOPT_WRITEFUNCTION, take_bytes);
    curl_easy_setopt(call->easy, CURLOPT_WRITEDATA, call);
    curl_easy_setopt(call->easy, CURLOPT_ERRORBUFFER, call->error);
    curl_easy_setopt(call->easy, CURLOPT_HTTP_VERSION, (long)CURL_HTTP_VERSION_1_1);
    curl_easy_setopt(call->easy, CURLOPT_NOSIGNAL, 1L);
    curl_easy_setopt(call->easy, CURLOPT_PROTOCOLS_STR, "http,https");
    curl_easy_setopt(call->easy, CURLOPT_USERAGENT, "radish-bench/" RADISH_VERSION);
    return call;
}

enum radish_status http_driver_send(struct http_driver *driver, const struct http_request *request,
                                    struct radish_error *err) {
    struct call *call = take_call(driver);
    if (!call) return error_nomem(err);
    call->request = *request;
    call->is_stopped = false;
    call->error[0] = '\0';
    CURL *easy = call->easy;
    curl_easy_setopt(easy, CURLOPT_TIMEOUT_MS, (long)(request->timeout_seconds * 1000));
    if (request->body) {
        curl_easy_setopt(easy, CURLOPT_POST, 1L);
        curl_easy_setopt(easy, CURLOPT_POSTFIELDS, request->body);
        curl_easy_setopt(easy, CURLOPT_POSTFIELDSIZE_LARGE, (curl_off_t)request->n_body);
        curl_easy_setopt(easy, CURLOPT_HTTPHEADER, driver->post_headers);
    } else {
        curl_easy_setopt(easy, CURLOPT_HTTPGET, 1L);
        curl_easy_setopt(easy, CURLOPT_HTTPHEADER, driver->get_headers);
    }
    if (curl_easy_setopt(easy, CURLOPT_URL, request->url) != CURLE_OK ||
        curl_multi_add_handle(driver->multi, easy) != CURLM_OK) {
        put_into(&driver->idle, call);
        return error_nomem(err);
    }
    put_into(&driver->active, call);
    driver->n_active++;
    return RADISH_OK;
}

/* ---- waiting ---- */

static enum http_failure find_failure(const struct call *call, CURLcode code) {
    long status = 0;
    switch (code) {
    case CURLE_OK:
        curl_easy_getinfo(call->easy, CURLINFO_RESPONSE_CODE, &status);
        return status >= 200 && status <= 299 ? HTTP_DONE : HTTP_FAILED_STATUS;
    case CURLE_COULDNT_CONNECT:
    case CURLE_COULDNT_RESOLVE_HOST:
    case CURLE_COULDNT_RESOLVE_PROXY:
    case CURLE_URL_MALFORMAT:
    case CURLE_UNSUPPORTED_PROTOCOL:
    case CURLE_SSL_CONNECT_ERROR: return HTTP_FAILED_CONNECT;
    case CURLE_OPERATION_TIMEDOUT: return HTTP_FAILED_TIMEOUT;
    default: return call->is_stopped ? HTTP_FAILED_STOPPED : HTTP_FAILED_BROKEN;
    }
}

static void end_finished(struct http_driver *driver) {
    int n_left;
    CURLMsg *message;
    while ((message = curl_multi_info_read(driver->multi, &n_left))) {
        struct call *call = NULL;
        CURLcode code = message->data.result;
        if (message->msg != CURLMSG_DONE) continue;
        curl_easy_getinfo(message->easy_handle, CURLINFO_PRIVATE, (char **)&call);
        const char *words = call->error[0] ? call->error : curl_easy_strerror(code);
        end_call(call, find_failure(call, code), code == CURLE_OK ? "" : words);
    }
}

#ifdef __linux__
/* Sleeps, then lets curl work on what came. */
static void wait_and_work(struct http_driver *driver, uint64_t until_ns) {
    struct epoll_event events[EVENTS];
    int n_running;
    uint64_t now = clock_ns();
    if (driver->timer_ns < until_ns) until_ns = driver->timer_ns;
    uint64_t ms = until_ns > now ? (until_ns - now + 999999) / 1000000 : 0;
    int n = epoll_wait(driver->epoll, events, EVENTS, ms < WAIT_MS_MAX ? (int)ms : WAIT_MS_MAX);
    driver->woken_ns = now = clock_ns();
    for (int i = 0; i < n; i++) {
        int what = (events[i].events & EPOLLIN ? CURL_CSELECT_IN : 0) |
                   (events[i].events & EPOLLOUT ? CURL_CSELECT_OUT : 0) |
                   (events[i].events & (EPOLLERR | EPOLLHUP) ? CURL_CSELECT_ERR : 0);
        curl_multi_socket_action(driver->multi, events[i].data.fd, what, &n_running);
    }
    if (driver->timer_ns <= now) {
        driver->timer_ns = UINT64_MAX;
        curl_multi_socket_action(driver->multi, CURL_SOCKET_TIMEOUT, 0, &n_running);
    }
}
#else
static void wait_and_work(struct http_driver *driver, uint64_t until_ns) {
    int n_running;
    uint64_t now = clock_ns();
    uint64_t ms = until_ns > now ? (until_ns - now + 999999) / 1000000 : 0;
    curl_multi_poll(driver->multi, NULL, 0, ms < WAIT_MS_MAX ? (int)ms : WAIT_MS_MAX, NULL);
    driver->woken_ns = clock_ns();
    curl_multi_perform(driver->multi, &n_running);
}
#endif

void http_driver_wait(struct http_driver *driver, uint64_t until_ns) {
    uint64_t turn = driver->woken_ns ? clock_ns() - driver->woken_ns : 0;
    if (turn > driver->turn_ns_max) driver->turn_ns_max = turn;
    wait_and_work(driver, until_ns);
    end_finished(driver);
}

uint32_t http_driver_n_active(const struct http_driver *driver) {
    return driver->n_active;
}

uint64_t http_driver_take_turn_ns_max(struct http_driver *driver) {
    uint64_t ns = driver->turn_ns_max;
    driver->turn_ns_max = driver->woken_ns = 0;
    return ns;
}

void http_driver_raise_limits(void) {
    struct rlimit limit;
    if (getrlimit(RLIMIT_NOFILE, &limit)) return;
    limit.rlim_cur = limit.rlim_max;
    setrlimit(RLIMIT_NOFILE, &limit);
}
