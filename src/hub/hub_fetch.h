/* hub_fetch.h - one file: from a URL to a whole, checked file on disk. Threads: one at a time. */
#ifndef HUB_FETCH_H
#define HUB_FETCH_H

#include "hub_http.h"
#include "hub_listing.h"

/* Told about bytes as they are stored; a negative number takes bytes back that were wrong. */
struct hub_meter {
    void (*on_bytes)(void *user, int64_t bytes);
    void *user;
};

struct hub_fetch_places {
    const char *url;
    const char *part;  /* the file in transfer: a name that no other content has */
    const char *whole; /* where it goes when it is whole */
};

/* Fetches a file into places->part, goes on where an earlier attempt stopped, and, once size and
 * digest are right and the bytes are on the disk, renames it. After a failure the part stays for
 * the next attempt, unless its content is wrong. E_ABORTED when cancelled; *response_out is the
 * last answer, code 0 = none. Whoever calls holds the lock of the folder (hub_store.h). */
enum radish_status hub_fetch(struct hub_http *http, const struct hub_fetch_places *places,
                             const struct hub_file *file, struct hub_meter meter,
                             struct hub_response *response_out,
                             struct radish_error *err) RADISH_CHECK_RESULT;

/* Whether the file at path has the size and the digest of `file`: 1 yes, 0 no or not there. Reads
 * it whole. Cancelled: 0. */
bool hub_file_is_whole(const char *path, const struct hub_file *file,
                       bool (*is_cancelled)(void *user), void *user);

#endif
