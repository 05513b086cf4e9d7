/* sse.h - the body of a streamed reply: server-sent events, made when the socket can take them.
 * Threads: libmicrohttpd calls the reader on the connection's HTTP thread. */
#ifndef SERVER_SSE_H
#define SERVER_SSE_H

#include "server_int.h"

/* A response whose body is the stream of ex->generation; NULL when out of memory. */
struct MHD_Response *sse_response_create(struct exchange *ex);

#endif
