/* hub_listing.c - the hub's two ways to list a repository, brought into one form.
 *
 *   info  {"sha": COMMIT, "siblings": [
 *            {"rfilename": PATH, "size": N, "blobId": GIT SHA-1, "lfs": {"sha256": HEX, "size":
 * N}}]} tree  [{"type": "file", "path": PATH, "size": N, "oid": GIT SHA-1, "lfs": {"oid": SHA-256,
 * ...}}]
 *
 * One request suffices with the info, when the hub fills in sizes and digests (it does when asked
 * for blobs); mirrors and older hubs do not, then the tree is asked, page by page.
 *
 * A file in large-file storage has the digest of its content; the git digest of such a file is that
 * of a small pointer and useless here. All others have git's own digest, which is of the content
 * with a header. So every file can be checked, and nothing without a digest is ever put in place.
 *
 * Paths decide where bytes from the network are written. They are judged by hub_path_is_safe() the
 * moment they are read; one bad path refuses the whole listing, since a hub that sends one is not
 * to be trusted with the others. */
#include "hub_listing.h"

#include "base/json.h"
#include "base/mem.h"
#include "base/status.h"
#include "base/utf8.h"

#include <stdlib.h>
#include <string.h>

enum { PART_BYTES_MAX = 200, JSON_DEPTH = 64, SHA256_HEX = 64, SHA1_HEX = 40 };

void hub_listing_clear_files(struct hub_listing *listing) {
    for (size_t i = 0; i < listing->n; i++) free(listing->files[i].path);
    listing->n = 0;
}

void hub_listing_deinit(struct hub_listing *listing) {
    hub_listing_clear_files(listing);
    free(listing->files);
    *listing = (struct hub_listing){0};
}

const struct hub_file *hub_listing_find(const struct hub_listing *listing, const char *path) {
    for (size_t i = 0; i < listing->n; i++)
        if (!strcmp(listing->files[i].path, path)) return &listing->files[i];
    return NULL;
}

bool hub_listing_is_complete(const struct hub_listing *listing) {
    for (size_t i = 0; i < listing->n; i++)
        if (listing->files[i].hash == HUB_HASH_NONE) return false;
    return true;
}

/* ---- paths and digests ---- */

bool hub_path_is_safe(const char *path) {
    const size_t len = strlen(path);
    if (!len || len > HUB_PATH_MAX || utf8_valid_prefix(path, len) != len) return false;
    for (const char *c = path; *c; c++)
        if ((unsigned char)*c < 0x20 || *c == 0x7f || *c == '\\') return false;
    for (const char *part = path;;) {
        const size_t n = strcspn(part, "/");
        if (!n || n > PART_BYTES_MAX || (n == 1 && part[0] == '.') ||
            (n == 2 && !memcmp(part, "..", 2)) || !strncmp(part, ".radish", 7))
            return false;
        if (!part[n]) return true;
        part += n + 1;
    }
}

/* Copies a digest of n hex digits in lower case. */
static bool copy_digest(yyjson_val *val, size_t n, char digest_out[HUB_DIGEST_MAX]) {
    const char *text = yyjson_get_str(val);
    digest_out[0] = '\0';
    if (!text || yyjson_get_len(val) != n) return false;
    for (size_t i = 0; i < n; i++) {
        char c = text[i];
        if (c >= 'A' && c <= 'F') c = (char)(c - 'A' + 'a');
        if (!((c >= '0' && c <= '9') || (c >= 'a' && c <= 'f'))) {
            digest_out[0] = '\0';
            return false;
        }
        digest_out[i] = c;
    }
    digest_out[n] = '\0';
    return true;
}

/* Size and digest of an entry whose members have these names; hash stays NONE without them. */
static void read_content(yyjson_val *entry, const char *git_key, struct hub_file *file) {
    yyjson_val *lfs = json_get(entry, "lfs"), *size = json_get(entry, "size");
    if (yyjson_is_obj(lfs)) {
        yyjson_val *sha256 = json_get(lfs, "sha256");
        if (!yyjson_is_str(sha256)) sha256 = json_get(lfs, "oid");
        if (yyjson_is_uint(json_get(lfs, "size"))) size = json_get(lfs, "size");
        if (copy_digest(sha256, SHA256_HEX, file->digest)) file->hash = HUB_HASH_SHA256;
    } else if (copy_digest(json_get(entry, git_key), SHA1_HEX, file->digest)) {
        file->hash = HUB_HASH_GIT;
    }
    if (yyjson_is_uint(size) && yyjson_get_uint(size) <= INT64_MAX)
        file->bytes = yyjson_get_uint(size);
    else
        file->hash = HUB_HASH_NONE;
}

enum radish_status hub_listing_add(struct hub_listing *listing, yyjson_val *entry,
                                   const char *path_key, const char *git_key,
                                   struct radish_error *err) {
    yyjson_val *path = json_get(entry, path_key);
    struct hub_file file = {0};
    if (!yyjson_is_str(path))
        return error_set(err, RADISH_E_FORMAT, "the hub's list has a file without '%s'", path_key);
    const char *text = yyjson_get_str(path);
    if (strlen(text) != yyjson_get_len(path) || !hub_path_is_safe(text))
        return error_set(err, RADISH_E_FORMAT,
                         "the hub names a file that would not stay in the model's folder: '%.150s'",
                         text);
    if (listing->n == HUB_FILES_MAX)
        return error_set(err, RADISH_E_LIMIT, "the repository holds more than %d files",
                         HUB_FILES_MAX);
    if (listing->n == listing->capacity) {
        const size_t capacity = listing->capacity ? 2 * listing->capacity : 32;
        struct hub_file *files = realloc(listing->files, capacity * sizeof *files);
        if (!files) return error_nomem(err);
        listing->files = files;
        listing->capacity = capacity;
    }
    read_content(entry, git_key, &file);
    file.path = mem_strndup(text, strlen(text));
    if (!file.path) return error_nomem(err);
    listing->files[listing->n++] = file;
    return RADISH_OK;
}

/* ---- the two answers ---- */

static enum radish_status parse(const char *json, size_t len, yyjson_doc **doc_out,
                                struct radish_error *err) {
    enum radish_status status = json_parse(json, len, JSON_DEPTH, doc_out, err);
    if (status == RADISH_OK || status == RADISH_E_NOMEM) return status;
    error_prefix(err, "the hub's answer");
    if (err) err->status = RADISH_E_FORMAT;
    return RADISH_E_FORMAT;
}

static enum radish_status read_siblings(yyjson_val *root, struct hub_listing *listing,
                                        struct radish_error *err) {
    yyjson_val *siblings = json_get(root, "siblings"), *entry;
    size_t idx, max;
    if (!copy_digest(json_get(root, "sha"), SHA1_HEX, listing->commit))
        return error_set(err, RADISH_E_FORMAT, "the hub's answer has no commit ('sha')");
    if (!yyjson_is_arr(siblings))
        return error_set(err, RADISH_E_FORMAT,
                         "the hub's answer has no list of files "
                         "('siblings')");
    yyjson_arr_foreach(siblings, idx, max, entry) {
        RADISH_TRY(hub_listing_add(listing, entry, "rfilename", "blobId", err));
    }
    return RADISH_OK;
}

enum radish_status hub_listing_read_info(const char *json, size_t len, struct hub_listing *listing,
                                         struct radish_error *err) {
    yyjson_doc *doc = NULL;
    RADISH_TRY(parse(json, len, &doc, err));
    enum radish_status status = read_siblings(yyjson_doc_get_root(doc), listing, err);
    yyjson_doc_free(doc);
    return status;
}

enum radish_status hub_listing_read_tree(const char *json, size_t len, struct hub_listing *listing,
                                         struct radish_error *err) {
    yyjson_doc *doc = NULL;
    yyjson_val *entry;
    size_t idx, max;
    enum radish_status status = RADISH_OK;
    RADISH_TRY(parse(json, len, &doc, err));
    if (!yyjson_is_arr(yyjson_doc_get_root(doc)))
        status = error_set(err, RADISH_E_FORMAT, "the hub's list of files is no list");
    yyjson_arr_foreach(yyjson_doc_get_root(doc), idx, max, entry) {
        if (!yyjson_equals_str(json_get(entry, "type"), "file")) continue;
        status = hub_listing_add(listing, entry, "path", "oid", err);
        if (status != RADISH_OK) break;
    }
    yyjson_doc_free(doc);
    return status;
}
