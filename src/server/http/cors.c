/* cors.c - cross-origin resource sharing, for the origins that --cors-origin names.
 *
 * Before a page of another origin may send JSON or a key, its browser asks with OPTIONS (the
 * preflight), without a key; afterwards the page sees an answer only if that answer names its
 * origin. So every answer carries the headers, refusals and streams too: a page that cannot read
 * the 400 would report a network error. Without the flag there are no such headers, OPTIONS is 405
 * like any method that a path does not know, and no page of another origin sees anything.
 *
 * The wanted request headers are allowed as asked, whatever they are: clients send a dozen of
 * their own (x-stainless-...), and a header that means nothing here does no harm. A key is a header
 * and not a cookie, so Access-Control-Allow-Credentials is not needed and "*" works with keys. */
#include "cors.h"

#include "exchange.h"

#include <stdio.h>
#include <string.h>

/* Browsers keep an answer at most so long anyway (Chromium: two hours). */
#define MAX_AGE_SECONDS "7200"

static const char *find_header(struct exchange *ex, const char *name) {
    return MHD_lookup_connection_value(ex->connection, MHD_HEADER_KIND, name);
}

static void refuse_foreign_page(struct exchange *ex, const char *origin) {
    char message[400];
    if (origin)
        snprintf(message, sizeof message,
                 "web pages of %.100s may not use this server: allow them with --cors-origin %.100s"
                 ", or ask for keys with --api-key",
                 origin, origin);
    else
        snprintf(message, sizeof message,
                 "a web page of another site may not use this server (Sec-Fetch-Site)");
    reply_set_error(&ex->reply, 403, NULL, "origin_not_allowed", message);
}

void cors_check(struct exchange *ex) {
    const struct origin_claim claim = {.host = find_header(ex, "Host"),
                                       .origin = find_header(ex, "Origin"),
                                       .fetch_site = find_header(ex, "Sec-Fetch-Site"),
                                       .fetch_mode = find_header(ex, "Sec-Fetch-Mode")};
    bool is_open = ex->route && !(ex->route->flags & ROUTE_KEY);
    switch (origins_judge(&ex->server->origins, &claim, is_open)) {
    case ORIGIN_FINE: break;
    case ORIGIN_FOREIGN_PAGE: refuse_foreign_page(ex, claim.origin); break;
    case ORIGIN_FOREIGN_NAME: {
        char message[400];
        snprintf(message, sizeof message,
                 "this server does not go by the name %.100s: ask for localhost, allow the name "
                 "with --cors-origin https://%.100s, or ask for keys with --api-key",
                 claim.host, claim.host);
        reply_set_error(&ex->reply, 403, NULL, "host_not_allowed", message);
        break;
    }
    }
}

/* Up to the last whole name that fits. */
static void allow_headers(struct exchange *ex, const char *wanted) {
    char names[REPLY_HEADER_BYTES];
    size_t len = strlen(wanted);
    if (len >= sizeof names) {
        len = sizeof names - 1;
        while (len && wanted[len] != ',') len--;
    }
    snprintf(names, sizeof names, "%.*s", (int)len, wanted);
    reply_add_header(&ex->reply, "Access-Control-Allow-Headers", names);
}

bool cors_answer_preflight(struct exchange *ex, const char *method) {
    const struct origins *origins = &ex->server->origins;
    const char *origin = find_header(ex, "Origin");
    const char *wanted = find_header(ex, "Access-Control-Request-Method");
    const char *headers = find_header(ex, "Access-Control-Request-Headers");
    const char *allow = "";
    if (strcmp(method, "OPTIONS") || !origins_has_any(origins) || !origin || !wanted) return false;
    if (!router_find(wanted, ex->path, &allow) && !*allow) return false;
    if (!origins_allow(origins, origin)) {
        refuse_foreign_page(ex, origin);
        return true;
    }
    ex->reply.status = 200;
    buf_append_str(&ex->reply.body, "{}");
    reply_add_header(&ex->reply, "Access-Control-Allow-Methods", "GET, HEAD, POST, PUT");
    if (headers) allow_headers(ex, headers);
    reply_add_header(&ex->reply, "Access-Control-Max-Age", MAX_AGE_SECONDS);
    /* Chromium: a page on the internet that asks a machine in a private network. */
    if (find_header(ex, "Access-Control-Request-Private-Network"))
        reply_add_header(&ex->reply, "Access-Control-Allow-Private-Network", "true");
    return true;
}

void cors_add_headers(struct exchange *ex, struct MHD_Response *response) {
    const struct origins *origins = &ex->server->origins;
    const char *origin = find_header(ex, "Origin");
    if (!origins_has_any(origins)) return;
    /* A cache must not give the answer made for one origin to another. */
    if (!origins->allows_all) MHD_add_response_header(response, "Vary", "Origin");
    if (!origin || !origins_allow(origins, origin)) return;
    MHD_add_response_header(response, "Access-Control-Allow-Origin",
                            origins->allows_all ? "*" : origin);
    MHD_add_response_header(response, "Access-Control-Expose-Headers",
                            "X-Radish-Warning, Retry-After");
}
