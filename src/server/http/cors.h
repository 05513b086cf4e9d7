/* cors.h - what a browser is told about pages of other origins. Threads: the HTTP thread of the
 * exchange's connection. */
#ifndef SERVER_CORS_H
#define SERVER_CORS_H

#include "server_int.h"

struct exchange;

/* Fills ex->reply with a refusal where a web page asks that may not (origins.h). ex->route is
 * known. */
void cors_check(struct exchange *ex);

/* True: the request is a preflight that this server answers, and ex->reply holds the answer. */
bool cors_answer_preflight(struct exchange *ex, const char *method);

/* For every answer; nothing without --cors-origin. */
void cors_add_headers(struct exchange *ex, struct MHD_Response *response);

#endif
