/* framing.h - whether the head of a request can be trusted to say where the request ends. Owns
 * nothing. Threads: the connection's HTTP thread. */
#ifndef SERVER_FRAMING_H
#define SERVER_FRAMING_H

#include "radish.h"

#include <microhttpd.h>

/* NULL, or why nothing behind these headers can be trusted (a literal, for the client).
 * version: "HTTP/1.1" and the like. */
const char *framing_fault(struct MHD_Connection *connection, const char *version);

/* The path of an absolute-form target ("http://host:1/path" -> "/path"); any other target is
 * returned as it is. */
const char *framing_path(const char *target);

/* Decodes %XX in place and returns the new length; for MHD_OPTION_UNESCAPE_CALLBACK. %00 stays as
 * it is: a path must not end before its end. */
size_t framing_unescape(void *cls, struct MHD_Connection *connection, char *text);

#endif
