/* query.h - the arguments behind the '?' of a request, kept as decoded text.
 *
 * Owns a copy, so they can be read on any thread, also when the connection is no more. Threads: one
 * at a time. Bounds: libmicrohttpd's memory per connection bounds their bytes, QUERY_ARGS_MAX their
 * number. */
#ifndef SERVER_QUERY_H
#define SERVER_QUERY_H

#include "base/buf.h"

#include <microhttpd.h>

enum { QUERY_ARGS_MAX = 32 };

struct query {
    struct buf text; /* "name\0value\0name\0value\0" */
    uint32_t n_args;
    bool is_bad; /* too many, a zero byte in one, or memory was exhausted */
};

void query_init(struct query *query);
void query_deinit(struct query *query);

/* Takes over the arguments of a connection's request. */
void query_take(struct query *query, struct MHD_Connection *connection);

/* One argument more; bytes as they are after decoding. */
void query_add(struct query *query, const char *name, size_t name_len, const char *value,
               size_t value_len);

/* The value of an argument ("" for one without '='), or NULL. Of several the last, as most servers
 * have it. Borrowed until deinit. */
const char *query_find(const struct query *query, const char *name);

/* The first argument whose name is not in names ("a|b|c"), or NULL. */
const char *query_find_other(const struct query *query, const char *names);

/* 0 <= value <= max, from an argument like "2.5"; absent leaves *value_out alone. E_INVALID names
 * the argument. */
enum radish_status query_get_double(const struct query *query, const char *name, double max,
                                    double *value_out,
                                    struct radish_error *err) RADISH_CHECK_RESULT;

#endif
