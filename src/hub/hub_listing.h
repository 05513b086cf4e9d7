/* hub_listing.h - what a repository on a hub holds, read from the hub's answers.
 *
 * Owns: copies of everything. The answers are a stranger's: sizes, digests and paths are checked
 * here, and whoever reads a listing may use the paths below a folder. Threads: one at a time. */
#ifndef HUB_LISTING_H
#define HUB_LISTING_H

#include "radish.h"

#include <yyjson.h>

enum { HUB_FILES_MAX = 100000, HUB_PATH_MAX = 1024, HUB_DIGEST_MAX = 65 };

enum hub_hash {
    HUB_HASH_NONE,   /* the hub did not say */
    HUB_HASH_SHA256, /* of the content: files in large-file storage */
    HUB_HASH_GIT     /* SHA-1 of "blob SIZE\0" and the content: all others */
};

struct hub_file {
    char *path; /* hub_path_is_safe() */
    uint64_t bytes;
    enum hub_hash hash;
    char digest[HUB_DIGEST_MAX]; /* lower-case hex */
};

struct hub_listing {
    struct hub_file *files; /* [n] as the hub orders them */
    size_t n, capacity;
    char commit[HUB_DIGEST_MAX]; /* what the revision is, in hex */
};

void hub_listing_deinit(struct hub_listing *listing); /* then as if zeroed */

/* GET /api/models/REPO/revision/REV?blobs=true: commit and files. E_FORMAT says what is
 * wrong; *listing is zeroed by the caller and deinit is due in every case. */
enum radish_status hub_listing_read_info(const char *json, size_t len, struct hub_listing *listing,
                                         struct radish_error *err) RADISH_CHECK_RESULT;

/* One page of GET /api/models/REPO/tree/REV?recursive=true: more files. Otherwise as above. */
enum radish_status hub_listing_read_tree(const char *json, size_t len, struct hub_listing *listing,
                                         struct radish_error *err) RADISH_CHECK_RESULT;

/* One entry of a list of files, whose path and git digest have these keys. */
enum radish_status hub_listing_add(struct hub_listing *listing, yyjson_val *entry,
                                   const char *path_key, const char *git_key,
                                   struct radish_error *err) RADISH_CHECK_RESULT;

/* Whether every file has a size and a digest. Older hubs and mirrors leave them out of the info;
 * the tree has them. */
bool hub_listing_is_complete(const struct hub_listing *listing);

/* Drops the files, keeps the rest. */
void hub_listing_clear_files(struct hub_listing *listing);

/* NULL when there is none. */
const struct hub_file *hub_listing_find(const struct hub_listing *listing, const char *path);

/* Whether a path stays below the folder it is joined to, on every file system that matters: no
 * empty, "." or ".." part, nothing absolute, no backslash, no control character, valid UTF-8, parts
 * of at most 200 bytes, and no part that begins with ".radish". */
bool hub_path_is_safe(const char *path);

#endif
