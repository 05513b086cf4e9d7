/* hub_pull.c - the order of things: list, choose, lock, see what is missing, fetch, put in place.
 *
 *   GET ENDPOINT/api/models/REPO/revision/REV?blobs=true      commit and files   (hub_listing.c)
 *   GET ENDPOINT/api/models/REPO/tree/COMMIT?recursive=true   files, where the first lacks digests
 *   GET ENDPOINT/REPO/resolve/COMMIT/PATH                     a file             (hub_fetch.c)
 *
 * Files are asked for by commit, never by branch, so that all of them belong together though the
 * branch moves meanwhile. They come one after the other over one connection: storage hosts fill a
 * line with one stream, and one part at a time is the simplest state to resume.
 *
 * Everything that can be refused is refused before the first byte of weights: a repository that is
 * not there or wants a token, several quantisations, a disk that is too small. */
#include "hub_pull.h"

#include "base/clock.h"
#include "base/mem.h"
#include "base/status.h"
#include "hub_fetch.h"
#include "hub_http.h"
#include "hub_rate.h"
#include "hub_store.h"

#include <ctype.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { ANSWER_BYTES_MAX = 128 << 20, PAGES_MAX = 1000, REPO_PART_MAX = 96 };

/* Room left for others on the disk. */
#define FREE_BYTES_KEPT ((uint64_t)64 << 20)

struct pull {
    const struct hub_options *options;
    struct hub_result *result;
    struct hub_http *http;
    struct hub_listing listing;
    struct hub_store store;
    bool *wanted;  /* [listing.n] */
    bool *missing; /* [listing.n] of the wanted: neither in the folder nor whole in the stage */
    struct hub_progress progress;
    struct hub_rate rate;
};

bool hub_repo_is_valid(const char *repo) {
    int n_parts = 0;
    for (const char *part = repo;;) {
        const size_t n = strcspn(part, "/");
        if (!n || n > REPO_PART_MAX || ++n_parts > 2 || strchr("-.", part[0]) ||
            strchr("-.", part[n - 1]))
            return false;
        for (size_t i = 0; i < n; i++)
            if (!isalnum((unsigned char)part[i]) && !strchr("-_.", part[i])) return false;
        if (!part[n]) return true;
        part += n + 1;
    }
}

static const char *revision_of(const struct pull *p) {
    return p->options->name.revision[0] ? p->options->name.revision : "main";
}

/* ---- listing ---- */

/* A refusal of the hub, in words that say what to do. */
static enum radish_status explain(const struct pull *p, const struct hub_response *r,
                                  struct radish_error *err) {
    const char *repo = p->options->name.repo, *token = p->options->token;
    const bool is_gated = !strcmp(r->error_code, "GatedRepo");
    if (is_gated && token)
        return error_set(
            err, RADISH_E_IO,
            "%.100s is gated, and the owner of the token has no access yet: ask for it "
            "at %.90s/%.100s",
            repo, p->options->endpoint, repo);
    if (is_gated || (r->code == 403 && !token))
        return error_set(err, RADISH_E_IO,
                         "%.80s is gated: ask for access at %.80s/%.80s, then set HF_TOKEN to a "
                         "token that may read it",
                         repo, p->options->endpoint, repo);
    if (!strcmp(r->error_code, "RevisionNotFound"))
        return error_set(err, RADISH_E_NOT_FOUND, "%.100s has no revision '%.100s'", repo,
                         revision_of(p));
    if (r->code == 401 && token)
        return error_set(
            err, RADISH_E_IO,
            "%.100s: the hub does not accept the token, or there is no such repository", repo);
    if (r->code == 401)
        return error_set(err, RADISH_E_NOT_FOUND,
                         "%.100s: there is no such repository on %.80s, or it is private (then set "
                         "HF_TOKEN)",
                         repo, p->options->endpoint);
    if (r->code == 403)
        return error_set(err, RADISH_E_IO, "%.100s: the token may not read it%s%.150s", repo,
                         *r->error_message ? ": " : "", r->error_message);
    if (r->code == 404)
        return error_set(err, RADISH_E_NOT_FOUND,
                         "%.100s: there is no such repository (or revision '%.60s') on %.80s", repo,
                         revision_of(p), p->options->endpoint);
    if (err->status != RADISH_E_ABORTED) error_prefix(err, "%.100s", repo);
    return err->status;
}

static enum radish_status get(struct pull *p, const char *url, struct buf *body_out,
                              struct hub_response *response_out, struct radish_error *err) {
    const enum radish_status status =
        hub_http_get(p->http, url, ANSWER_BYTES_MAX, body_out, response_out, err);
    return status == RADISH_OK ? status : explain(p, response_out, err);
}

/* "ENDPOINT/api/models/REPO/KIND/REVISIONquery"; NULL when out of memory. */
static char *api_url(const struct pull *p, const char *kind, const char *revision,
                     const char *query) {
    struct buf url;
    buf_init(&url, 0);
    buf_printf(&url, "%s/api/models/", p->options->endpoint);
    hub_url_append(&url, p->options->name.repo, /*keep_slash=*/true);
    buf_printf(&url, "/%s/", kind);
    hub_url_append(&url, revision, /*keep_slash=*/false);
    buf_append_str(&url, query);
    return buf_take(&url, NULL);
}

/* All pages of the tree. */
static enum radish_status list_tree(struct pull *p, struct radish_error *err) {
    struct hub_response response;
    struct buf body;
    enum radish_status status = RADISH_OK;
    char *url = api_url(p, "tree", p->listing.commit, "?recursive=true");
    hub_listing_clear_files(&p->listing);
    for (int page = 0; status == RADISH_OK && url; page++) {
        if (page == PAGES_MAX) {
            status = error_set(err, RADISH_E_LIMIT, "the hub's list of files has no end");
            break;
        }
        status = get(p, url, &body, &response, err);
        free(url);
        url = NULL;
        if (status != RADISH_OK) return status;
        status = hub_listing_read_tree(body.data, body.len, &p->listing, err);
        buf_deinit(&body);
        if (!response.next[0]) return status;
        url = mem_strndup(response.next, strlen(response.next));
    }
    free(url);
    return status == RADISH_OK ? error_nomem(err) : status;
}

static enum radish_status list(struct pull *p, struct radish_error *err) {
    struct hub_response response;
    struct buf body;
    char *url = api_url(p, "revision", revision_of(p), "?blobs=true");
    enum radish_status status = url ? get(p, url, &body, &response, err) : error_nomem(err);
    free(url);
    if (status != RADISH_OK) return status;
    status = hub_listing_read_info(body.data, body.len, &p->listing, err);
    buf_deinit(&body);
    if (status == RADISH_OK && !hub_listing_is_complete(&p->listing)) status = list_tree(p, err);
    if (status == RADISH_OK) snprintf(p->result->commit, HUB_DIGEST_MAX, "%s", p->listing.commit);
    return status;
}

/* ---- what to do ---- */

static enum radish_status choose(struct pull *p, struct radish_error *err) {
    const struct hub_options *o = p->options;
    p->wanted = mem_zalloc(p->listing.n, sizeof *p->wanted);
    p->missing = mem_zalloc(p->listing.n, sizeof *p->missing);
    if (!p->wanted || !p->missing) return error_nomem(err);
    RADISH_TRY(hub_select(&p->listing, o->name.repo, o->name.quant, o->includes, o->excludes,
                          p->wanted, &p->result->choices, err));
    for (size_t i = 0; i < p->listing.n; i++) {
        const struct hub_file *file = &p->listing.files[i];
        if (!p->wanted[i]) continue;
        if (file->hash == HUB_HASH_NONE)
            return error_set(
                err, RADISH_E_FORMAT,
                "the hub gives no size or no digest for %.150s, so it cannot be checked",
                file->path);
        p->result->n_files++;
        if (!mem_add_u64(p->result->bytes, file->bytes, &p->result->bytes))
            return error_set(err, RADISH_E_FORMAT, "the hub's sizes are beyond all measure");
    }
    return RADISH_OK;
}

/* Finds out what is missing, and whether the disk has room for it. */
static enum radish_status compare(struct pull *p, struct radish_error *err) {
    const struct hub_options *o = p->options;
    uint64_t needed = 0;
    for (size_t i = 0; i < p->listing.n; i++) {
        const struct hub_file *file = &p->listing.files[i];
        if (!p->wanted[i] || hub_store_has(&p->store, file, o->is_cancelled, o->user)) continue;
        if (o->is_cancelled(o->user)) return error_set(err, RADISH_E_ABORTED, "interrupted");
        const uint64_t staged = hub_store_staged_bytes(&p->store, file);
        char *whole = hub_store_whole_path(&p->store, file);
        if (!whole) return error_nomem(err);
        p->missing[i] = !hub_file_is_whole(whole, file, o->is_cancelled, o->user);
        free(whole);
        if (!p->missing[i]) continue;
        p->progress.n_files++;
        p->progress.bytes_total += file->bytes;
        if (staged < file->bytes) needed += file->bytes - staged;
    }
    const uint64_t free_bytes = hub_store_free_bytes(&p->store);
    if (!needed || (free_bytes > FREE_BYTES_KEPT && needed <= free_bytes - FREE_BYTES_KEPT))
        return RADISH_OK;
    return error_set(err, RADISH_E_LIMIT,
                     "%.2f GB are to be fetched, but only %.2f GB are free in %.150s",
                     (double)needed / 1e9, (double)free_bytes / 1e9, o->cache);
}

/* ---- fetching ---- */

static void tell(struct pull *p) {
    const uint64_t now = clock_ns();
    hub_rate_add(&p->rate, now, p->progress.bytes_fetched);
    p->progress.bytes_per_second =
        hub_rate_bytes_per_second(&p->rate, now, p->progress.bytes_fetched);
    p->options->on_progress(p->options->user, &p->progress);
}

struct meter_state {
    struct pull *pull;
    uint64_t resumed; /* bytes still to come from an earlier run's part */
};

static void on_bytes(void *user, int64_t bytes) {
    struct meter_state *m = user;
    struct pull *p = m->pull;
    p->progress.bytes = (uint64_t)((int64_t)p->progress.bytes + bytes);
    if (m->resumed && bytes > 0) {
        m->resumed = 0; /* the first call is about what was there */
    } else if (bytes > 0) {
        p->progress.bytes_fetched += (uint64_t)bytes;
    }
    tell(p);
}

static enum radish_status fetch(struct pull *p, const struct hub_file *file,
                                struct radish_error *err) {
    const struct hub_options *o = p->options;
    struct meter_state state = {p, hub_store_staged_bytes(&p->store, file)};
    const struct hub_meter meter = {on_bytes, &state};
    struct hub_response response;
    struct buf url;
    buf_init(&url, 0);
    buf_printf(&url, "%s/", o->endpoint);
    hub_url_append(&url, o->name.repo, /*keep_slash=*/true);
    buf_printf(&url, "/resolve/%s/", p->listing.commit);
    hub_url_append(&url, file->path, /*keep_slash=*/true);
    char *part = hub_store_part_path(&p->store, file);
    char *whole = hub_store_whole_path(&p->store, file);
    enum radish_status status = RADISH_OK;
    p->progress.path = file->path;
    if (url.failed || !part || !whole) {
        status = error_nomem(err);
    } else {
        tell(p);
        const struct hub_fetch_places places = {url.data, part, whole};
        status = hub_fetch(p->http, &places, file, meter, &response, err);
        if (status != RADISH_OK && (response.code == 401 || response.code == 403))
            status = explain(p, &response, err);
        else if (status != RADISH_OK && status != RADISH_E_ABORTED)
            error_prefix(err, "%.120s", file->path);
    }
    buf_deinit(&url);
    free(part);
    free(whole);
    return status;
}

static enum radish_status fetch_all(struct pull *p, struct radish_error *err) {
    for (size_t i = 0; i < p->listing.n; i++) {
        if (!p->missing[i]) continue;
        RADISH_TRY(fetch(p, &p->listing.files[i], err));
        p->progress.file_idx++;
    }
    return RADISH_OK;
}

static void on_wait(void *user) {
    const struct hub_options *o = user;
    o->on_note(o->user, "another radish pull of this model is running; waiting for it");
}

static bool is_cancelled(void *user) {
    const struct hub_options *o = user;
    return o->is_cancelled(o->user);
}

static enum radish_status run(struct pull *p, struct radish_error *err) {
    const struct hub_options *o = p->options;
    const struct hub_http_options http_options = {.endpoint = o->endpoint,
                                                  .token = o->token,
                                                  .ca_path = o->ca_path,
                                                  .stall_seconds = o->stall_seconds,
                                                  .n_retries = o->n_retries,
                                                  .is_cancelled = o->is_cancelled,
                                                  .on_note = o->on_note,
                                                  .user = o->user};
    RADISH_TRY(hub_http_open(&http_options, &p->http, err));
    RADISH_TRY(list(p, err));
    RADISH_TRY(choose(p, err));
    RADISH_TRY(hub_store_open(o->cache, &o->name, is_cancelled, on_wait, (void *)(uintptr_t)o,
                              &p->store, err));
    p->result->path = mem_strndup(p->store.folder, strlen(p->store.folder));
    if (!p->result->path) return error_nomem(err);
    RADISH_TRY(compare(p, err));
    RADISH_TRY(fetch_all(p, err));
    return hub_store_publish(&p->store, &o->name, &p->listing, p->wanted, err);
}

enum radish_status hub_pull(const struct hub_options *options, struct hub_result *result_out,
                            struct radish_error *err) {
    struct radish_error own;
    *result_out = (struct hub_result){0};
    struct pull p = {.options = options, .result = result_out, .store = {.lock_fd = -1}};
    if (!err) err = &own;
    const enum radish_status status = run(&p, err);
    result_out->bytes_fetched = p.progress.bytes_fetched;
    hub_store_deinit(&p.store);
    hub_listing_deinit(&p.listing);
    hub_http_close(p.http);
    free(p.wanted);
    free(p.missing);
    return status;
}

void hub_result_deinit(struct hub_result *result) {
    free(result->path);
    free(result->choices);
    *result = (struct hub_result){0};
}
