/* ep_page.c - GET / and GET /page/...: a page that shows the server and talks to its model.
 *
 * The files are part of the program (tools/embed_page.py puts them in when it is built), plain and
 * compressed, so the page needs no folder beside the program and no internet. Answered on an HTTP
 * thread, without a copy. The page needs no key: it holds nothing of this server. What it shows it
 * asks for with the key that its reader types in, like any other client.
 *
 * It renders what a model says, so it is locked in: scripts, styles and connections from this
 * server only, nothing inline, no frames, no forms, no images from elsewhere (an image's address
 * can carry away what a conversation holds). ETag and no-cache: a newer program's page is seen at
 * once, an unchanged one costs 304 and no body. */
#include "exchange.h"
#include "page_files.h"

#include <string.h>

#define CONTENT_POLICY                                                                             \
    "default-src 'none'; script-src 'self'; style-src 'self'; connect-src 'self'; "                \
    "img-src 'self' data:; base-uri 'none'; form-action 'none'; frame-ancestors 'none'"

static const char *const page_headers[] = {"Content-Security-Policy",
                                           CONTENT_POLICY,
                                           "X-Content-Type-Options",
                                           "nosniff",
                                           "Referrer-Policy",
                                           "no-referrer",
                                           "Cache-Control",
                                           "no-cache",
                                           "Vary",
                                           "Accept-Encoding",
                                           NULL};

static const struct page_file *find_file(const char *path) {
    for (size_t i = 0; i < n_page_files; i++)
        if (!strcmp(page_files[i].path, path)) return &page_files[i];
    return NULL;
}

static const char *find_header(struct exchange *ex, const char *name) {
    const char *value = MHD_lookup_connection_value(ex->connection, MHD_HEADER_KIND, name);
    return value ? value : "";
}

/* "gzip" in the list, and not with the weight 0. */
static bool takes_gzip(const char *accepted) {
    const char *at = strstr(accepted, "gzip");
    if (!at) return false;
    at += strspn(at + 4, " ") + 4;
    if (*at != ';') return true;
    at += strspn(at, "; q=");
    return *at != '0' || strspn(at, "0.") != strcspn(at, ", ");
}

enum radish_status ep_page(struct exchange *ex, struct radish_error *err) {
    const struct page_file *file = find_file(ex->path);
    (void)err;
    if (!file) {
        reply_set_error(&ex->reply, 404, NULL, "unknown_url", "the page has no such file");
        return RADISH_OK;
    }
    bool is_gzip = takes_gzip(find_header(ex, "Accept-Encoding"));
    const char *etag = is_gzip ? file->gzip_etag : file->etag;
    const char *known = find_header(ex, "If-None-Match");
    bool is_known = strstr(known, etag) || !strcmp(known, "*");
    ex->reply.status = is_known ? 304 : 200;
    ex->reply.content_type = file->content_type;
    ex->reply.constant = (struct reply_constant){.data = is_gzip ? file->gzip : file->data,
                                                 .len = is_gzip ? file->gzip_len : file->len,
                                                 .headers = page_headers};
    if (is_known) ex->reply.constant.len = 0;
    if (is_gzip && !is_known) reply_add_header(&ex->reply, "Content-Encoding", "gzip");
    reply_add_header(&ex->reply, "ETag", etag);
    return RADISH_OK;
}
