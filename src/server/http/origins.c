/* origins.c - web pages as clients, wanted ones and others.
 *
 * A server on 127.0.0.1 without a key is open to the person at the machine, and so to every page in
 * that person's browser. Two attacks are known from this field. A page posts to
 * http://127.0.0.1:30000 as text/plain, for which browsers ask nobody (CSRF): it cannot read the
 * answer, yet it can keep the machine busy, abort requests, flush the cache. And a page whose own
 * name is made to point to 127.0.0.1 after it was loaded (DNS rebinding) is of the same origin as
 * the server, for the browser, and reads everything.
 *
 * Browsers tell on the first: they send Origin with every POST, or Sec-Fetch-Site where there is no
 * Origin (an image, a link). So without a key such a request is refused, unless it is of our own
 * origin (Host says the same) or --cors-origin allows it. Against the second the name counts that
 * was asked for: on a loopback address it must be one that nobody else can own: an address, a name
 * without a dot, localhost and the like, what --host said, or the host of an allowed origin (that
 * of a proxy in front). With keys neither attack has anything to gain: a page does not know the
 * key. Programs send none of these headers and see nothing of all this.
 *
 * The alternative, to ask for a key always, would make the first minute with the program harder
 * for everyone. */
#include "origins.h"

#include "base/mem.h"
#include "base/status.h"

#include <stdlib.h>
#include <string.h>
#include <strings.h>

/* Behind "scheme://", or NULL. */
static const char *find_authority(const char *origin) {
    size_t n = strspn(origin, "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789+-.");
    return n && !strncmp(origin + n, "://", 3) ? origin + n + 3 : NULL;
}

/* Bytes of an authority's host; *port_out: what follows its colon, or "". */
static size_t split_authority(const char *authority, const char **port_out) {
    const char *end = *authority == '[' ? strchr(authority, ']') : NULL;
    size_t n = end ? (size_t)(end + 1 - authority) : strcspn(authority, ":");
    *port_out = authority[n] == ':' ? authority + n + 1 : "";
    return n;
}

static bool is_origin(const char *text) {
    const char *authority = find_authority(text), *port;
    if (!authority) return false;
    for (const char *c = authority; *c; c++)
        if (*c <= 32 || *c >= 127 || strchr("/?#@\\\"<>", *c)) return false;
    /* A scheme of a program's own ("app://") may go without a host. */
    if (!*authority) return strncasecmp(text, "http", 4) != 0;
    size_t n = split_authority(authority, &port);
    return n && strspn(port, "0123456789") == strlen(port) && (authority[n] != ':' || *port) &&
           (!authority[n] || authority[n] == ':');
}

enum radish_status origins_init(struct origins *origins, const char *const *values, size_t n,
                                const char *host, struct radish_error *err) {
    memset(origins, 0, sizeof *origins);
    origins->host = mem_strndup(host, strlen(host));
    if (n) origins->allowed = mem_zalloc(n, sizeof *origins->allowed);
    if (!origins->host || (n && !origins->allowed)) {
        origins_deinit(origins);
        return error_nomem(err);
    }
    for (size_t i = 0; i < n; i++) {
        if (!strcmp(values[i], "*")) {
            origins->allows_all = true;
            continue;
        }
        if (!is_origin(values[i]) && strcmp(values[i], "null") != 0) {
            origins_deinit(origins);
            return error_set_field(err, RADISH_E_INVALID, "--cors-origin",
                                   "--cors-origin %.100s is neither * nor an origin, like "
                                   "https://chat.example.org:8443, without a path",
                                   values[i]);
        }
        char *copy = mem_strndup(values[i], strlen(values[i]));
        if (!copy) {
            origins_deinit(origins);
            return error_nomem(err);
        }
        origins->allowed[origins->n++] = copy;
    }
    return RADISH_OK;
}

void origins_deinit(struct origins *origins) {
    for (size_t i = 0; i < origins->n; i++) free(origins->allowed[i]);
    free(origins->allowed);
    free(origins->host);
    memset(origins, 0, sizeof *origins);
}

bool origins_has_any(const struct origins *origins) {
    return origins->allows_all || origins->n;
}

bool origins_allow(const struct origins *origins, const char *origin) {
    if (origins->allows_all) return true;
    for (size_t i = 0; i < origins->n; i++)
        if (!strcasecmp(origins->allowed[i], origin)) return true;
    return false;
}

static bool ends_with(const char *s, size_t len, const char *end) {
    size_t n = strlen(end);
    return len > n && !strncasecmp(s + len - n, end, n);
}

static bool is_same_host(const char *a, size_t a_len, const char *b) {
    const char *port;
    size_t b_len = split_authority(b, &port);
    return a_len == b_len && !strncasecmp(a, b, a_len);
}

/* Nobody else can make a page under this name. */
static bool is_own_name(const struct origins *origins, const char *authority) {
    static const char *const local_ends[] = {".localhost", ".local", ".internal"};
    const char *port;
    size_t len = split_authority(authority, &port);
    if (len && authority[len - 1] == '.') len--; /* of the root */
    bool is_address = *authority == '[' || strspn(authority, "0123456789.") >= len;
    if (!len || is_address || !memchr(authority, '.', len)) return true;
    for (size_t i = 0; i < sizeof local_ends / sizeof *local_ends; i++)
        if (ends_with(authority, len, local_ends[i])) return true;
    if (len == strlen(origins->host) && !strncasecmp(authority, origins->host, len)) return true;
    for (size_t i = 0; i < origins->n; i++) {
        const char *allowed = find_authority(origins->allowed[i]);
        if (allowed && is_same_host(authority, len, allowed)) return true;
    }
    return false;
}

/* The page came from where it asks. Schemes may differ: a proxy in front ends TLS. */
static bool is_same_origin(const char *origin, const char *host) {
    const char *from = find_authority(origin), *from_port, *host_port;
    if (!from || !host) return false;
    size_t from_len = split_authority(from, &from_port);
    size_t host_len = split_authority(host, &host_port);
    if (!from_len || from_len != host_len || strncasecmp(from, host, from_len)) return false;
    const char *usual = strncasecmp(origin, "https:", 6) ? "80" : "443";
    if (!*from_port) from_port = usual;
    if (!*host_port) host_port = usual;
    return !strcmp(from_port, host_port);
}

static bool is_foreign_fetch(const struct origin_claim *claim, bool is_open) {
    const char *site = claim->fetch_site, *mode = claim->fetch_mode;
    if (!site || (strcmp(site, "cross-site") && strcmp(site, "same-site"))) return false;
    return !(is_open && mode && !strcmp(mode, "navigate"));
}

enum origin_verdict origins_judge(const struct origins *origins, const struct origin_claim *claim,
                                  bool is_open) {
    if (!origins->is_guarded || origins->allows_all) return ORIGIN_FINE;
    if (origins->is_loopback && claim->host && !is_own_name(origins, claim->host))
        return ORIGIN_FOREIGN_NAME;
    if (!claim->origin) return is_foreign_fetch(claim, is_open) ? ORIGIN_FOREIGN_PAGE : ORIGIN_FINE;
    if (is_same_origin(claim->origin, claim->host) || origins_allow(origins, claim->origin))
        return ORIGIN_FINE;
    return ORIGIN_FOREIGN_PAGE;
}
