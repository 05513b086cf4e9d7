/* hub_http.c - libcurl, held on a short leash.
 *
 * A hub answers a request for a file with a redirect to a storage host, and the user's token must
 * not go there. libcurl can follow redirects itself, and drops credentials then, but what counts as
 * another host has changed between its versions; so redirects are followed here, one request each,
 * where the rules can be read in ten lines (step_to()): http and https only, never from https down
 * to http, at most ten, and the Authorization header goes only where scheme, host and port are the
 * endpoint's.
 *
 * Faults are of two kinds. Those that pass (no connection, a stalled or cut transfer, 408, 429,
 * 5xx) are tried again after a pause that doubles, or as long as the server asks for; all others
 * end the matter at once with a sentence that says what to do. A transfer that brings less than a
 * byte a second for stall_seconds counts as cut: without that a dead connection would hang for
 * ever.
 *
 * Bodies are pushed into a sink as they come and only for 200 and 206, so an error page never gets
 * into a model's file. Cost: one handle, whose connection is reused between requests. */
#include "hub_http.h"

#include "base/clock.h"
#include "base/mem.h"
#include "base/status.h"

#include <ctype.h>
#include <curl/curl.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <time.h>

enum {
    REDIRECTS_MAX = 10,
    CONNECT_SECONDS = 20,
    PAUSE_FIRST_MS = 500,
    PAUSE_MAX_MS = 30000,
    RETRY_AFTER_SECONDS_MAX = 300
};

struct hub_http {
    struct hub_http_options options;
    CURL *curl;
    CURLU *endpoint;
    struct curl_slist *with_token; /* NULL without a token */
    /* of the request under way */
    struct hub_response *response;
    const struct hub_sink *sink;
    bool has_begun, sink_failed, was_cancelled;
};

/* ---- URLs ---- */

void hub_url_append(struct buf *url, const char *text, bool keep_slash) {
    static const char digits[] = "0123456789ABCDEF";
    for (const unsigned char *c = (const unsigned char *)text; *c; c++) {
        if (isalnum(*c) || strchr("-._~", *c) || (*c == '/' && keep_slash)) {
            buf_append_char(url, (char)*c);
        } else {
            const char escaped[3] = {'%', digits[*c >> 4], digits[*c & 15]};
            buf_append(url, escaped, sizeof escaped);
        }
    }
}

/* Whether one part of two URLs is the same text. */
static bool is_same_part(CURLU *a, CURLU *b, CURLUPart part, unsigned flags) {
    char *text_a = NULL, *text_b = NULL;
    const bool same = curl_url_get(a, part, &text_a, flags) == CURLUE_OK &&
                      curl_url_get(b, part, &text_b, flags) == CURLUE_OK &&
                      !strcasecmp(text_a, text_b);
    curl_free(text_a);
    curl_free(text_b);
    return same;
}

static bool is_same_origin(CURLU *a, CURLU *b) {
    return is_same_part(a, b, CURLUPART_SCHEME, 0) && is_same_part(a, b, CURLUPART_HOST, 0) &&
           is_same_part(a, b, CURLUPART_PORT, CURLU_DEFAULT_PORT);
}

/* *scheme_out: 'h' of http, 's' of https, 0 of anything else. */
static char scheme_of(CURLU *url) {
    char *scheme = NULL;
    char kind = 0;
    if (curl_url_get(url, CURLUPART_SCHEME, &scheme, 0) == CURLUE_OK) {
        if (!strcasecmp(scheme, "https")) kind = 's';
        if (!strcasecmp(scheme, "http")) kind = 'h';
    }
    curl_free(scheme);
    return kind;
}

/* Moves url to where it is redirected. False: the target is not acceptable. */
static bool step_to(CURLU *url, const char *location) {
    const char before = scheme_of(url);
    if (!*location || curl_url_set(url, CURLUPART_URL, location, 0) != CURLUE_OK) return false;
    const char after = scheme_of(url);
    return after && !(before == 's' && after == 'h');
}

/* ---- what libcurl calls ---- */

/* Copies the value behind "Name:" without white space around it, if the line has that name. */
static bool take_header(const char *line, size_t n, const char *name, char *value, size_t size) {
    const size_t len = strlen(name);
    if (n <= len || line[len] != ':' || strncasecmp(line, name, len) != 0) return false;
    line += len + 1;
    n -= len + 1;
    while (n && isspace((unsigned char)*line)) line++, n--;
    while (n && isspace((unsigned char)line[n - 1])) n--;
    if (n >= size) n = 0; /* cut in two it would mean something else */
    memcpy(value, line, n);
    value[n] = '\0';
    for (char *c = value; *c; c++)
        if ((unsigned char)*c < 0x20 || *c == 0x7f) *c = ' ';
    return true;
}

/* "<URL>; rel="next", <URL>; rel=..." */
static void take_next(const char *link, struct hub_response *response) {
    for (const char *open = strchr(link, '<'); open; open = strchr(open + 1, '<')) {
        const char *close = strchr(open, '>');
        if (!close) return;
        const size_t n = (size_t)(close - open - 1), rest = strcspn(close, ",");
        const char *rel = strstr(close, "rel=\"next\"");
        if (!rel || rel > close + rest || n >= sizeof response->next) continue;
        memcpy(response->next, open + 1, n);
        response->next[n] = '\0';
        return;
    }
}

static size_t on_header(char *line, size_t one, size_t n, void *user) {
    struct hub_http *http = user;
    struct hub_response *r = http->response;
    char value[HUB_HEADER_MAX];
    (void)one;
    if (n > 5 && !strncmp(line, "HTTP/", 5)) *r = (struct hub_response){0};
    if (take_header(line, n, "location", r->location, sizeof r->location) ||
        take_header(line, n, "x-error-code", r->error_code, sizeof r->error_code) ||
        take_header(line, n, "x-error-message", r->error_message, sizeof r->error_message))
        return n;
    if (take_header(line, n, "link", value, sizeof value)) {
        take_next(value, r);
    } else if (take_header(line, n, "retry-after", value, sizeof value)) {
        const unsigned long seconds = isdigit((unsigned char)*value) ? strtoul(value, NULL, 10) : 0;
        r->retry_after_seconds =
            seconds < RETRY_AFTER_SECONDS_MAX ? (uint32_t)seconds : RETRY_AFTER_SECONDS_MAX;
    } else if (take_header(line, n, "content-range", value, sizeof value)) {
        if (sscanf(value, "bytes %" SCNu64 "-", &r->range_first) != 1) r->range_first = UINT64_MAX;
    }
    return n;
}

/* Before the first piece, and after the transfer for a body without any. */
static bool begin_body(struct hub_http *http) {
    if (http->has_begun) return true;
    http->has_begun = true;
    curl_easy_getinfo(http->curl, CURLINFO_RESPONSE_CODE, &http->response->code);
    const long code = http->response->code;
    if (code != 200 && code != 206) return true;
    http->sink_failed = !http->sink->begin(http->sink->user, http->response);
    return !http->sink_failed;
}

static size_t on_body(char *bytes, size_t one, size_t n, void *user) {
    struct hub_http *http = user;
    (void)one;
    if (!begin_body(http)) return 0;
    if (http->response->code != 200 && http->response->code != 206) return n;
    http->sink_failed = !http->sink->write(http->sink->user, bytes, n);
    return http->sink_failed ? 0 : n;
}

static int on_progress(void *user, curl_off_t a, curl_off_t b, curl_off_t c, curl_off_t d) {
    struct hub_http *http = user;
    (void)a, (void)b, (void)c, (void)d;
    http->was_cancelled = http->options.is_cancelled(http->options.user);
    return http->was_cancelled;
}

/* ---- opening ---- */

static bool set_options(struct hub_http *http) {
    CURL *c = http->curl;
    const struct hub_http_options *o = &http->options;
    bool ok = true;
#define SET(option, value) ok = ok && curl_easy_setopt(c, option, value) == CURLE_OK
#if LIBCURL_VERSION_NUM >= 0x075500
    SET(CURLOPT_PROTOCOLS_STR, "http,https");
#else
    SET(CURLOPT_PROTOCOLS, (long)(CURLPROTO_HTTP | CURLPROTO_HTTPS));
#endif
    SET(CURLOPT_FOLLOWLOCATION, 0L);
    SET(CURLOPT_NOSIGNAL, 1L);
    SET(CURLOPT_CONNECTTIMEOUT, (long)CONNECT_SECONDS);
    SET(CURLOPT_LOW_SPEED_LIMIT, 1L);
    SET(CURLOPT_LOW_SPEED_TIME, (long)o->stall_seconds);
    SET(CURLOPT_USERAGENT, "radish/" RADISH_VERSION);
    SET(CURLOPT_HEADERFUNCTION, on_header);
    SET(CURLOPT_HEADERDATA, http);
    SET(CURLOPT_WRITEFUNCTION, on_body);
    SET(CURLOPT_WRITEDATA, http);
    SET(CURLOPT_NOPROGRESS, 0L);
    SET(CURLOPT_XFERINFOFUNCTION, on_progress);
    SET(CURLOPT_XFERINFODATA, http);
    SET(CURLOPT_CURLU, http->endpoint);
    if (o->ca_path) SET(CURLOPT_CAINFO, o->ca_path);
#undef SET
    return ok;
}

static enum radish_status make_token_header(struct hub_http *http, struct radish_error *err) {
    const char *token = http->options.token;
    struct buf line;
    if (!token) return RADISH_OK;
    for (const char *c = token; *c; c++)
        if ((unsigned char)*c <= 0x20 || (unsigned char)*c >= 0x7f)
            return error_set(
                err, RADISH_E_INVALID,
                "the token (HF_TOKEN, or its file) holds a character that no token has");
    buf_init(&line, 0);
    buf_printf(&line, "Authorization: Bearer %s", token);
    if (!line.failed) http->with_token = curl_slist_append(NULL, line.data);
    buf_deinit(&line);
    return http->with_token ? RADISH_OK : error_nomem(err);
}

enum radish_status hub_http_open(const struct hub_http_options *options, struct hub_http **http_out,
                                 struct radish_error *err) {
    enum radish_status status;
    *http_out = NULL;
    struct hub_http *http = mem_zalloc(1, sizeof *http);
    if (!http) return error_nomem(err);
    http->options = *options;
    http->curl = curl_easy_init();
    http->endpoint = curl_url();
    if (!http->curl || !http->endpoint) {
        status = error_nomem(err);
        goto fail;
    }
    if (curl_url_set(http->endpoint, CURLUPART_URL, options->endpoint, 0) != CURLUE_OK ||
        !scheme_of(http->endpoint)) {
        status = error_set(err, RADISH_E_INVALID,
                           "'%.120s' (HF_ENDPOINT) is no URL that begins with https:// or http://",
                           options->endpoint);
        goto fail;
    }
    status = make_token_header(http, err);
    if (status != RADISH_OK) goto fail;
    if (!set_options(http)) {
        status = error_set(err, RADISH_E_INTERNAL, "libcurl %s does not take our options",
                           curl_version_info(CURLVERSION_NOW)->version);
        goto fail;
    }
    *http_out = http;
    return RADISH_OK;
fail:
    hub_http_close(http);
    return status;
}

void hub_http_close(struct hub_http *http) {
    if (!http) return;
    curl_easy_cleanup(http->curl);
    curl_url_cleanup(http->endpoint);
    curl_slist_free_all(http->with_token);
    free(http);
}

/* ---- one try ---- */

static bool is_transient_code(long code) {
    return code == 408 || code == 425 || code == 429 || (code >= 500 && code != 501);
}

static bool is_transient_fault(CURLcode fault) {
    switch (fault) {
    case CURLE_COULDNT_RESOLVE_HOST:
    case CURLE_COULDNT_CONNECT:
    case CURLE_OPERATION_TIMEDOUT:
    case CURLE_PARTIAL_FILE:
    case CURLE_RECV_ERROR:
    case CURLE_SEND_ERROR:
    case CURLE_GOT_NOTHING:
    case CURLE_SSL_CONNECT_ERROR:
    case CURLE_HTTP2:
    case CURLE_HTTP2_STREAM: return true;
    default: return false;
    }
}

static enum radish_status fail_transfer(struct hub_http *http, CURLcode fault, const char *detail,
                                        struct radish_error *err) {
    if (http->was_cancelled) return error_set(err, RADISH_E_ABORTED, "interrupted");
    if (http->sink_failed) return error_set(err, RADISH_E_IO, "the answer could not be stored");
    http->response->is_transient = is_transient_fault(fault);
    return error_set(err, RADISH_E_IO, "%.200s", *detail ? detail : curl_easy_strerror(fault));
}

/* An answer that is neither 200 nor 206, as a sentence. */
static enum radish_status fail_code(struct hub_http *http, struct radish_error *err) {
    struct hub_response *r = http->response;
    r->is_transient = is_transient_code(r->code);
    const enum radish_status status = r->code == 404 ? RADISH_E_NOT_FOUND : RADISH_E_IO;
    if (*r->error_message) return error_set(err, status, "HTTP %ld: %s", r->code, r->error_message);
    return error_set(err, status, "HTTP %ld", r->code);
}

/* One request without following redirects. */
static enum radish_status request(struct hub_http *http, CURLU *url, uint64_t first,
                                  struct radish_error *err) {
    char detail[CURL_ERROR_SIZE] = "", range[32];
    const bool is_ours = is_same_origin(url, http->endpoint);
    http->has_begun = http->sink_failed = http->was_cancelled = false;
    *http->response = (struct hub_response){0};
    snprintf(range, sizeof range, "%" PRIu64 "-", first);
    if (curl_easy_setopt(http->curl, CURLOPT_CURLU, url) != CURLE_OK ||
        curl_easy_setopt(http->curl, CURLOPT_RANGE, first ? range : NULL) != CURLE_OK ||
        curl_easy_setopt(http->curl, CURLOPT_HTTPHEADER, is_ours ? http->with_token : NULL) !=
            CURLE_OK)
        return error_nomem(err);
    curl_easy_setopt(http->curl, CURLOPT_ERRORBUFFER, detail);
    const CURLcode fault = curl_easy_perform(http->curl);
    curl_easy_setopt(http->curl, CURLOPT_ERRORBUFFER, NULL);
    if (fault != CURLE_OK) return fail_transfer(http, fault, detail, err);
    if (!begin_body(http)) return fail_transfer(http, CURLE_WRITE_ERROR, detail, err);
    return RADISH_OK;
}

enum radish_status hub_http_try(struct hub_http *http, const char *url_text, uint64_t first,
                                const struct hub_sink *sink, struct hub_response *response_out,
                                struct radish_error *err) {
    enum radish_status status = RADISH_OK;
    *response_out = (struct hub_response){0};
    http->response = response_out;
    http->sink = sink;
    CURLU *url = curl_url_dup(http->endpoint);
    if (!url) return error_nomem(err);
    if (curl_url_set(url, CURLUPART_URL, url_text, 0) != CURLUE_OK || !scheme_of(url)) {
        status = error_set(err, RADISH_E_FORMAT, "the hub gives '%.120s' for a URL", url_text);
        goto done;
    }
    for (int hop = 0;; hop++) {
        status = request(http, url, first, err);
        const long code = response_out->code;
        if (status != RADISH_OK || code == 200 || code == 206) break;
        if (code < 300 || code > 399 || code == 304) {
            status = fail_code(http, err);
            break;
        }
        if (hop == REDIRECTS_MAX || !step_to(url, response_out->location)) {
            status = error_set(err, RADISH_E_FORMAT, "%s",
                               hop == REDIRECTS_MAX
                                   ? "the hub redirects without end"
                                   : "the hub redirects to a place that is not followed (only "
                                     "http and https, and never from https to http)");
            break;
        }
    }
done:
    /* The handle borrows the URL: it gets back one that lives as long as itself. */
    curl_easy_setopt(http->curl, CURLOPT_CURLU, http->endpoint);
    curl_url_cleanup(url);
    return status;
}

/* ---- tries ---- */

/* Sleeps in pieces, so that an interrupt is felt. False when cancelled. */
static bool pause_ms(struct hub_http *http, uint64_t ms) {
    const uint64_t end = clock_ns() + ms * 1000000;
    while (clock_ns() < end) {
        if (http->options.is_cancelled(http->options.user)) return false;
        nanosleep(&(struct timespec){.tv_nsec = 20000000}, NULL);
    }
    return true;
}

bool hub_http_wait(struct hub_http *http, const struct hub_response *response, uint32_t try_idx,
                   struct radish_error *err) {
    char note[400];
    uint64_t ms = try_idx < 8 ? (uint64_t)PAUSE_FIRST_MS << try_idx : PAUSE_MAX_MS;
    if (ms > PAUSE_MAX_MS) ms = PAUSE_MAX_MS;
    if (response->retry_after_seconds) ms = (uint64_t)response->retry_after_seconds * 1000;
    if (!response->is_transient || try_idx >= http->options.n_retries) return false;
    snprintf(note, sizeof note, "%.300s; trying again in %.1f s", err->msg, (double)ms / 1000);
    http->options.on_note(http->options.user, note);
    if (pause_ms(http, ms)) return true;
    error_set(err, RADISH_E_ABORTED, "interrupted");
    return false;
}

static bool begin_buf(void *user, const struct hub_response *response) {
    (void)response;
    buf_clear(user);
    return true;
}

static bool write_buf(void *user, const char *bytes, size_t n) {
    struct buf *body = user;
    buf_append(body, bytes, n);
    return !body->failed;
}

enum radish_status hub_http_get(struct hub_http *http, const char *url, size_t bytes_max,
                                struct buf *body_out, struct hub_response *response_out,
                                struct radish_error *err) {
    struct radish_error own;
    const struct hub_sink sink = {begin_buf, write_buf, body_out};
    enum radish_status status;
    if (!err) err = &own;
    buf_init(body_out, bytes_max);
    for (uint32_t try_idx = 0;; try_idx++) {
        status = hub_http_try(http, url, 0, &sink, response_out, err);
        if (status == RADISH_OK || !hub_http_wait(http, response_out, try_idx, err)) break;
    }
    if (status != RADISH_OK) {
        if (body_out->failed)
            error_set(err, RADISH_E_LIMIT, "the hub's answer is longer than %zu MiB",
                      bytes_max >> 20);
        status = err->status;
        buf_deinit(body_out);
    }
    return status;
}
