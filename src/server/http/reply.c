/* reply.c - answers that are complete before the first byte goes out.
 *
 * Clients of OpenAI's API look for {"error": {...}}; clients of SGLang and its router for the same
 * fields at the top level. One object satisfies both. The type follows from the HTTP code, and the
 * rule behind the codes is: a fault of the client is 4xx, since routers send every 5xx again. */
#include "reply.h"

#include "json_out.h"

#include <stdio.h>
#include <string.h>

void reply_init(struct reply *reply) {
    memset(reply, 0, sizeof *reply);
    buf_init(&reply->body, 0);
}

void reply_deinit(struct reply *reply) {
    buf_deinit(&reply->body);
}

void reply_add_header(struct reply *reply, const char *name, const char *value) {
    if (reply->n_headers == REPLY_HEADERS_MAX) return;
    struct reply_header *header = &reply->headers[reply->n_headers++];
    header->name = name;
    snprintf(header->value, sizeof header->value, "%s", value);
    for (char *c = header->value; *c; c++)
        if (*c < 32 || *c > 126) *c = '?';
}

static const char *error_type(int http) {
    switch (http) {
    case 401: return "authentication_error";
    case 404: return "not_found_error";
    case 408: return "timeout_error";
    case 503: return "service_unavailable_error";
    default: return http >= 500 ? "server_error" : "invalid_request_error";
    }
}

static void write_string_or_null(struct buf *out, const char *s) {
    if (s)
        json_out_string(out, s, strlen(s));
    else
        buf_append_str(out, "null");
}

static void write_fields(struct buf *out, int http, const char *param, const char *message) {
    json_out_key(out, "message");
    json_out_string(out, message, strlen(message));
    buf_append_char(out, ',');
    json_out_key(out, "type");
    write_string_or_null(out, error_type(http));
    buf_append_char(out, ',');
    json_out_key(out, "param");
    write_string_or_null(out, param);
    buf_append_char(out, ',');
    json_out_key(out, "code");
}

void reply_write_error(struct buf *out, int http, const char *param, const char *code,
                       const char *message) {
    buf_append_str(out, "{\"error\":{");
    write_fields(out, http, param, message);
    write_string_or_null(out, code);
    buf_append_str(out, "},\"object\":\"error\",");
    write_fields(out, http, param, message);
    buf_printf(out, "%d}", http);
}

void reply_set_error(struct reply *reply, int http, const char *param, const char *code,
                     const char *message) {
    reply->status = http;
    reply->content_type = NULL;
    buf_clear(&reply->body);
    reply_write_error(&reply->body, http, param && *param ? param : NULL, code, message);
    if (http == 503) reply_add_header(reply, "Retry-After", "1");
}
