/* hub_fetch.c - a download that can be cut anywhere and goes on from there.
 *
 *   PART, n bytes   hash them, ask for "bytes=n-"
 *     206 from n    append and hash as they come
 *     200           the server does not know ranges: from the start again
 *     416           the part is longer than what is there: from the start again
 *     cut, stalled  keep what came, try again from the new n
 *   n == size       digest right: fsync, rename to WHOLE; wrong: once more from the start, then
 * fail
 *
 * HTTP's own validators (If-Range with an ETag) are not needed: the part's name holds the digest of
 * the content that it is a part of, and the URL names a commit, so a part can only be continued
 * with the same content; and whatever was stored, the digest has the last word. Hashing as bytes
 * come costs no second pass over the file, except over what an earlier run left.
 *
 * A try that brought at least PROGRESS_BYTES starts the count of retries anew: a connection that is
 * cut every gigabyte finishes a big file, one that never gives anything does not go on for ever. */
#include "hub_fetch.h"

#include "base/mem.h"
#include "base/status.h"
#include "hub_digest.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

enum { PIECE_BYTES = 1 << 18, PROGRESS_BYTES = 1 << 20, RESTARTS_MAX = 1 };

struct fetch {
    const struct hub_file *file;
    struct hub_meter meter;
    struct hub_digest digest;
    int fd;
    uint64_t have;        /* bytes in the part, all hashed */
    int os_error;         /* errno of a write that failed, or 0 */
    bool too_long;        /* the server sends more than the file has */
    bool has_other_range; /* than was asked for */
};

static void count(struct fetch *f, int64_t bytes) {
    if (bytes && f->meter.on_bytes) f->meter.on_bytes(f->meter.user, bytes);
}

/* An empty part and a fresh digest. */
static bool restart(struct fetch *f) {
    count(f, -(int64_t)f->have);
    f->have = 0;
    hub_digest_deinit(&f->digest);
    if (lseek(f->fd, 0, SEEK_SET) != 0 || ftruncate(f->fd, 0) != 0) {
        f->os_error = errno;
        return false;
    }
    if (hub_digest_init(&f->digest, f->file->hash, f->file->bytes)) return true;
    f->os_error = ENOMEM;
    return false;
}

/* Reads fd to its end into the digest; the bytes that were read, or -1. */
static int64_t hash_file(int fd, struct hub_digest *digest, bool (*is_cancelled)(void *user),
                         void *user) {
    int64_t n = 0;
    char *piece = mem_alloc(PIECE_BYTES, 1);
    for (ssize_t got = 1; piece && got;) {
        if (is_cancelled && is_cancelled(user)) n = -1;
        got = n < 0 ? -1 : read(fd, piece, PIECE_BYTES);
        if (got < 0 && errno == EINTR && n >= 0) continue;
        if (got < 0 || !hub_digest_add(digest, piece, (size_t)got)) {
            n = -1;
            break;
        }
        n += got;
    }
    if (!piece) n = -1;
    free(piece);
    return n;
}

bool hub_file_is_whole(const char *path, const struct hub_file *file,
                       bool (*is_cancelled)(void *user), void *user) {
    struct hub_digest digest = {0};
    struct stat stat_of;
    char hex[HUB_DIGEST_MAX] = "";
    bool whole = false;
    const int fd = open(path, O_RDONLY | O_CLOEXEC);
    if (fd < 0) return false;
    if (fstat(fd, &stat_of) == 0 && S_ISREG(stat_of.st_mode) &&
        (uint64_t)stat_of.st_size == file->bytes &&
        hub_digest_init(&digest, file->hash, file->bytes))
        whole = hash_file(fd, &digest, is_cancelled, user) >= 0 && hub_digest_end(&digest, hex) &&
                !strcmp(hex, file->digest);
    hub_digest_deinit(&digest);
    close(fd);
    return whole;
}

/* ---- the sink ---- */

static bool begin_file(void *user, const struct hub_response *response) {
    struct fetch *f = user;
    if (response->code == 206) {
        f->has_other_range = response->range_first != f->have;
        return !f->has_other_range;
    }
    return f->have == 0 || restart(f);
}

static bool write_file(void *user, const char *bytes, size_t n) {
    struct fetch *f = user;
    if (n > f->file->bytes - f->have) {
        f->too_long = true;
        return false;
    }
    if (!hub_digest_add(&f->digest, bytes, n)) return false;
    while (n) {
        const ssize_t put = write(f->fd, bytes, n);
        if (put < 0 && errno == EINTR) continue;
        if (put <= 0) {
            f->os_error = put < 0 ? errno : EIO;
            return false;
        }
        bytes += put;
        n -= (size_t)put;
        f->have += (uint64_t)put;
        count(f, put);
    }
    return true;
}

/* ---- the file ---- */

static enum radish_status fail_disk(const char *path, const char *verb, int os_error,
                                    struct radish_error *err) {
    return error_set(err, RADISH_E_IO, "%.180s cannot be %s: %s", path, verb, strerror(os_error));
}

/* Opens the part and hashes what an earlier attempt left. */
static enum radish_status open_part(struct fetch *f, const char *path, struct radish_error *err) {
    struct stat stat_of;
    f->fd = open(path, O_RDWR | O_CREAT | O_CLOEXEC | O_NOFOLLOW, 0644);
    if (f->fd < 0 || fstat(f->fd, &stat_of) != 0) return fail_disk(path, "written", errno, err);
    if (!hub_digest_init(&f->digest, f->file->hash, f->file->bytes)) return error_nomem(err);
    const int64_t had = (uint64_t)stat_of.st_size <= f->file->bytes
                            ? hash_file(f->fd, &f->digest, /*is_cancelled=*/NULL, NULL)
                            : -1;
    if (had >= 0) {
        f->have = (uint64_t)had;
        count(f, had);
    } else if (!restart(f)) {
        return fail_disk(path, "written", f->os_error, err);
    }
    return RADISH_OK;
}

/* Brings the part to its full size. */
static enum radish_status fill_part(struct fetch *f, struct hub_http *http,
                                    const struct hub_fetch_places *places,
                                    struct hub_response *response, struct radish_error *err) {
    const struct hub_sink sink = {begin_file, write_file, f};
    uint64_t most = f->have;
    uint32_t try_idx = 0;
    while (f->have < f->file->bytes) {
        f->has_other_range = false;
        enum radish_status status = hub_http_try(http, places->url, f->have, &sink, response, err);
        if (f->os_error) return fail_disk(places->part, "written", f->os_error, err);
        if (f->too_long)
            return error_set(err, RADISH_E_FORMAT, "the hub sends more than the %llu bytes it said",
                             (unsigned long long)f->file->bytes);
        if ((response->code == 416 || f->has_other_range) && f->have) {
            if (!restart(f)) return fail_disk(places->part, "written", f->os_error, err);
            response->is_transient = true;
        } else if (status == RADISH_OK && f->have < f->file->bytes) {
            status = error_set(err, RADISH_E_IO, "the transfer ended early");
            response->is_transient = true;
        }
        if (status == RADISH_OK) continue;
        if (f->have >= most + PROGRESS_BYTES) {
            most = f->have;
            try_idx = 0;
        }
        if (!hub_http_wait(http, response, try_idx++, err)) return err->status;
    }
    return RADISH_OK;
}

/* Whether the part is what it should be; *err says what it is instead. */
static enum radish_status check_part(struct fetch *f, struct radish_error *err) {
    char hex[HUB_DIGEST_MAX];
    if (!hub_digest_end(&f->digest, hex)) return error_nomem(err);
    if (!strcmp(hex, f->file->digest)) return RADISH_OK;
    return error_set(err, RADISH_E_FORMAT, "its %s is %.12s..., but the hub says %.12s...",
                     f->file->hash == HUB_HASH_SHA256 ? "SHA-256" : "git digest", hex,
                     f->file->digest);
}

enum radish_status hub_fetch(struct hub_http *http, const struct hub_fetch_places *places,
                             const struct hub_file *file, struct hub_meter meter,
                             struct hub_response *response_out, struct radish_error *err) {
    struct radish_error own;
    struct fetch f = {.file = file, .meter = meter, .fd = -1};
    if (!err) err = &own;
    *response_out = (struct hub_response){0};
    enum radish_status status = open_part(&f, places->part, err);
    for (int n_restarts = 0; status == RADISH_OK; n_restarts++) {
        status = fill_part(&f, http, places, response_out, err);
        if (status != RADISH_OK) break;
        status = check_part(&f, err);
        if (status != RADISH_E_FORMAT) break;
        /* Wrong bytes are never kept. They may be of an earlier run, so one more try is fair. */
        if (!restart(&f) || n_restarts == RESTARTS_MAX) {
            unlink(places->part);
            break;
        }
        status = RADISH_OK;
    }
    if (status == RADISH_OK && fsync(f.fd) != 0)
        status = fail_disk(places->part, "written", errno, err);
    if (f.fd >= 0 && close(f.fd) != 0 && status == RADISH_OK)
        status = fail_disk(places->part, "written", errno, err);
    if (status == RADISH_OK && rename(places->part, places->whole) != 0)
        status = fail_disk(places->whole, "put in place", errno, err);
    hub_digest_deinit(&f.digest);
    return status;
}
