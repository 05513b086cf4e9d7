/* reply.h - a whole HTTP answer before it is sent: status, headers, body; and the one shape of
 * errors. Owns its body. Threads: one at a time. */
#ifndef SERVER_REPLY_H
#define SERVER_REPLY_H

#include "base/buf.h"

enum { REPLY_HEADERS_MAX = 4, REPLY_HEADER_BYTES = 512 };

struct reply_header {
    const char *name; /* a literal */
    char value[REPLY_HEADER_BYTES];
};

/* A body that is part of the program. */
struct reply_constant {
    const void *data; /* [len] static; NULL: there is none */
    size_t len;
    const char *const *headers; /* name, value, name, ... NULL; literals */
};

struct reply {
    int status; /* 0: not made yet */
    struct buf body;
    struct reply_constant constant;                 /* sent instead of body */
    const char *content_type;                       /* a literal; NULL: application/json */
    struct reply_header headers[REPLY_HEADERS_MAX]; /* besides Content-Type */
    uint32_t n_headers;
};

void reply_init(struct reply *reply);
void reply_deinit(struct reply *reply);

/* Adds a header; bytes that a header must not hold become '?', a long value is cut. */
void reply_add_header(struct reply *reply, const char *name, const char *value);

/* An error as OpenAI's API words it, both nested under "error" and at the top level (where SGLang
 * has it, with the HTTP code as "code"). param and code may be NULL. 503 gets a Retry-After. */
void reply_set_error(struct reply *reply, int http, const char *param, const char *code,
                     const char *message);

/* The same object, without the reply around it: an error event of a stream. */
void reply_write_error(struct buf *out, int http, const char *param, const char *code,
                       const char *message);

#endif
