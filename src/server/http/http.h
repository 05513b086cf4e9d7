/* http.h - libmicrohttpd's callbacks: from the bytes of a request to a queued response. All run on
 * HTTP threads; cls is the struct server. */
#ifndef SERVER_HTTP_H
#define SERVER_HTTP_H

#include "server_int.h"

enum MHD_Result http_on_request(void *cls, struct MHD_Connection *connection, const char *url,
                                const char *method, const char *version, const char *upload_data,
                                size_t *upload_data_size, void **con_cls);

/* The only place where a connection lets go of its exchange. */
void http_on_completed(void *cls, struct MHD_Connection *connection, void **con_cls,
                       enum MHD_RequestTerminationCode toe);

/* A connection was accepted or is closed. */
void http_on_connection(void *cls, struct MHD_Connection *connection, void **socket_cls,
                        enum MHD_ConnectionNotificationCode toe);

/* What libmicrohttpd has to say, as a debug line. */
void http_on_log(void *cls, const char *fmt, va_list args);

#endif
