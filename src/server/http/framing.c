/* framing.c - what the HTTP library lets through and a server must not.
 *
 * Two readers of one connection, a proxy and this server, have to agree on where each request
 * ends; where they do not, the rest of one person's body is the beginning of another's request
 * (request smuggling). The library takes the last of several Content-Length headers, ignores it
 * beside Transfer-Encoding, reads a transfer coding that it does not know until the connection
 * closes, accepts a second Host, chunks from a client of HTTP/1.0, and control characters inside of
 * names and values, a lone CR among them, where others may see the end of a line. Each of these is
 * a fault here, and the connection ends: nothing that follows on it can be told apart.
 *
 * Two things are beyond reach, since the library hides them: what stands behind a zero byte in a
 * value, and that it takes a line that begins with a colon for the end of the head (the next line
 * is then no request, which ends the connection). A body where none belongs (GET) ends the
 * connection behind the answer, so that no later request is read out of it.
 *
 * Cost: one walk over the headers. */
#include "framing.h"

#include <string.h>
#include <strings.h>

struct census {
    uint32_t n_lengths, n_codings, n_hosts;
    bool has_other_coding; /* than chunked */
    bool has_bad_byte;
};

/* Letters of a field name as RFC 9110 has them. */
static bool is_token(const char *s, size_t len) {
    for (size_t i = 0; i < len; i++) {
        unsigned char c = (unsigned char)s[i];
        if (c <= 32 || c >= 127 || strchr("\"(),/:;<=>?@[\\]{}", c)) return false;
    }
    return len != 0;
}

static bool is_value(const char *s, size_t len) {
    for (size_t i = 0; i < len; i++) {
        unsigned char c = (unsigned char)s[i];
        if ((c < 32 && c != '\t') || c == 127) return false;
    }
    return true;
}

static enum MHD_Result count(void *cls, enum MHD_ValueKind kind, const char *name, size_t name_len,
                             const char *value, size_t value_len) {
    struct census *census = cls;
    (void)kind;
    if (!is_token(name, name_len) || (value && !is_value(value, value_len)))
        census->has_bad_byte = true;
    if (!strcasecmp(name, "Content-Length")) census->n_lengths++;
    if (!strcasecmp(name, "Host")) census->n_hosts++;
    if (!strcasecmp(name, "Transfer-Encoding")) {
        census->n_codings++;
        if (!value || strcasecmp(value, "chunked")) census->has_other_coding = true;
    }
    return MHD_YES;
}

const char *framing_fault(struct MHD_Connection *connection, const char *version) {
    struct census census = {0};
    MHD_get_connection_values_n(connection, MHD_HEADER_KIND, count, &census);
    if (census.has_bad_byte) return "a header holds a byte that no header may hold";
    if (census.n_hosts > 1) return "Host is given more than once";
    if (census.n_lengths > 1) return "Content-Length is given more than once";
    if (census.n_lengths && census.n_codings)
        return "Content-Length and Transfer-Encoding exclude each other";
    if (census.n_codings > 1 || census.has_other_coding)
        return "the only Transfer-Encoding understood is chunked";
    if (census.n_codings && !strcmp(version, "HTTP/1.0"))
        return "HTTP/1.0 has no Transfer-Encoding";
    return NULL;
}

const char *framing_path(const char *target) {
    const char *authority = NULL;
    if (!strncasecmp(target, "http://", 7)) authority = target + 7;
    if (!strncasecmp(target, "https://", 8)) authority = target + 8;
    if (!authority) return target;
    const char *path = strchr(authority, '/');
    return path ? path : "/";
}

static int hex_digit(char c) {
    if (c >= '0' && c <= '9') return c - '0';
    if (c >= 'a' && c <= 'f') return c - 'a' + 10;
    if (c >= 'A' && c <= 'F') return c - 'A' + 10;
    return -1;
}

size_t framing_unescape(void *cls, struct MHD_Connection *connection, char *text) {
    size_t n = 0;
    (void)cls;
    (void)connection;
    for (const char *from = text; *from; n++) {
        int high = *from == '%' ? hex_digit(from[1]) : -1;
        int low = high < 0 ? -1 : hex_digit(from[2]);
        bool is_escape = low >= 0 && (high || low);
        text[n] = is_escape ? (char)(high << 4 | low) : *from;
        from += is_escape ? 3 : 1;
    }
    text[n] = '\0';
    return n;
}
