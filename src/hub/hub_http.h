/* hub_http.h - GET requests to a hub: redirects, the token, what counts as a passing fault.
 *
 * Owns: a connection that is kept between requests. Caller keeps: the strings in the options until
 * close. Threads: one at a time. */
#ifndef HUB_HTTP_H
#define HUB_HTTP_H

#include "radish.h"

#include "base/buf.h"

enum { HUB_HEADER_MAX = 2048 };

struct hub_http_options {
    const char *endpoint; /* "https://huggingface.co", no '/' at its end; http or https */
    const char *token;    /* NULL = none; sent to the endpoint's host alone */
    const char *ca_path;  /* file of certificates, NULL = the system's */
    uint32_t stall_seconds;
    uint32_t n_retries;                            /* after the first try */
    bool (*is_cancelled)(void *user);              /* asked at least once a second */
    void (*on_note)(void *user, const char *text); /* a line for the user: a retry and its reason */
    void *user;
};

struct hub_response {
    long code;         /* 0: there was no answer */
    bool is_transient; /* the same request may succeed later */
    uint32_t retry_after_seconds;
    uint64_t range_first; /* of a 206: where the body begins */
    char location[HUB_HEADER_MAX];
    char next[HUB_HEADER_MAX]; /* the next page: Link with rel="next" */
    char error_code[64];       /* X-Error-Code: RepoNotFound, RevisionNotFound, GatedRepo ... */
    char error_message[200];   /* X-Error-Message */
};

/* Where a body goes: called for 200 and 206 only. False ends the transfer; `begin` comes before the
 * first piece, once the headers are read, also when the body is empty. */
struct hub_sink {
    bool (*begin)(void *user, const struct hub_response *response);
    bool (*write)(void *user, const char *bytes, size_t n);
    void *user;
};

struct hub_http;

/* E_INVALID for an endpoint that is no http(s) URL. */
enum radish_status hub_http_open(const struct hub_http_options *options, struct hub_http **http_out,
                                 struct radish_error *err) RADISH_CHECK_RESULT;
void hub_http_close(struct hub_http *http);

/* One try: follows redirects, feeds the sink from byte `first` on. E_ABORTED when cancelled;
 * otherwise, unless OK, *response_out says whether trying again makes sense. A sink that ended the
 * transfer: E_IO, not transient. */
enum radish_status hub_http_try(struct hub_http *http, const char *url, uint64_t first,
                                const struct hub_sink *sink, struct hub_response *response_out,
                                struct radish_error *err) RADISH_CHECK_RESULT;

/* After a try that failed with *err: waits, longer with each try_idx, and returns true; or false,
 * when it was not transient, the tries are spent, or it was cancelled (then *err says so). */
bool hub_http_wait(struct hub_http *http, const struct hub_response *response, uint32_t try_idx,
                   struct radish_error *err);

/* Tries until done: the body in body_out, at most bytes_max of it. */
enum radish_status hub_http_get(struct hub_http *http, const char *url, size_t bytes_max,
                                struct buf *body_out, struct hub_response *response_out,
                                struct radish_error *err) RADISH_CHECK_RESULT;

/* Appends text as a part of a URL's path; '/' stays with keep_slash. */
void hub_url_append(struct buf *url, const char *text, bool keep_slash);

#endif
