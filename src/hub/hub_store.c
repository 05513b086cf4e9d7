/* hub_store.c - how a model appears in the cache all at once.
 *
 * Files wait in a stage until the last of them is whole, then all are renamed into the model's
 * folder, the one that makes a folder a model (config.json, the first part of a GGUF model) last.
 * So an interrupted pull leaves no half model for `radish serve` to trip over, and an update never
 * mixes two commits for longer than a few renames take; a crash between two of them is repaired by
 * the next pull, which finds those in the folder and those in the stage. Renames need no space.
 *
 * Names in the stage are made of path and digest, so what waits there is of use to a later pull
 * exactly if that wants the same content at the same path; nothing else has to be remembered.
 *
 * The record makes the common question ("is it all there?") cheap: a file whose size and time of
 * change are as recorded is not read again. It is a hint: without it, or when it disagrees, the
 * file is hashed. It also tells which files are ours to remove when the repository drops them.
 *
 * flock() is held by the open file, so the lock of a process that dies is free; the lock file
 * stays, since removing it would let two processes lock two files of one name. */
#include "hub_store.h"

#include "base/buf.h"
#include "base/file_map.h"
#include "base/json.h"
#include "base/mem.h"
#include "base/status.h"
#include "hub_digest.h"
#include "hub_fetch.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <time.h>
#include <unistd.h>

enum { RECORD_BYTES_MAX = 64 << 20, KEY_HEX = 40 };

static const char record_name[] = ".radish.json";

static char *join(const char *folder, const char *name) {
    struct buf path;
    buf_init(&path, 0);
    buf_printf(&path, "%s/%s", folder, name);
    return buf_take(&path, NULL);
}

static enum radish_status fail(const char *path, const char *verb, struct radish_error *err) {
    return error_set(err, RADISH_E_IO, "%.200s cannot be %s: %s", path, verb, strerror(errno));
}

/* Makes every folder on the way to path; with_last: and the last part too. */
static enum radish_status make_folders(const char *path, bool with_last, struct radish_error *err) {
    char *copy = mem_strndup(path, strlen(path));
    enum radish_status status = copy ? RADISH_OK : error_nomem(err);
    for (char *c = copy ? copy + 1 : NULL; c && status == RADISH_OK;) {
        c += strcspn(c, "/");
        const char was = *c;
        if (!was && !with_last) break;
        *c = '\0';
        if (mkdir(copy, 0755) != 0 && errno != EEXIST) status = fail(copy, "made", err);
        *c = was;
        if (!was) break;
        c++;
    }
    free(copy);
    return status;
}

/* ---- opening ---- */

static enum radish_status take_lock(struct hub_store *store, const char *path,
                                    bool (*is_cancelled)(void *user), void (*on_wait)(void *user),
                                    void *user, struct radish_error *err) {
    store->lock_fd = open(path, O_RDWR | O_CREAT | O_CLOEXEC, 0644);
    if (store->lock_fd < 0) return fail(path, "opened", err);
    for (bool told = false; flock(store->lock_fd, LOCK_EX | LOCK_NB) != 0; told = true) {
        if (errno != EWOULDBLOCK && errno != EINTR) return fail(path, "locked", err);
        if (is_cancelled(user)) return error_set(err, RADISH_E_ABORTED, "interrupted");
        if (!told) on_wait(user);
        nanosleep(&(struct timespec){.tv_nsec = 50000000}, NULL);
    }
    return RADISH_OK;
}

/* A record that cannot be read is none. */
static enum radish_status read_record(struct hub_store *store, struct radish_error *err) {
    char *text = NULL, *path = join(store->folder, record_name);
    size_t len = 0, idx, max;
    yyjson_doc *doc = NULL;
    yyjson_val *entry;
    enum radish_status status = path ? RADISH_OK : error_nomem(err);
    if (path && file_read(path, RECORD_BYTES_MAX, &text, &len, NULL) == RADISH_OK &&
        json_parse(text, len, JSON_DEPTH_MAX, &doc, NULL) == RADISH_OK) {
        yyjson_val *files = json_get(yyjson_doc_get_root(doc), "files");
        const char *commit = yyjson_get_str(json_get(yyjson_doc_get_root(doc), "commit"));
        if (commit) snprintf(store->record.commit, sizeof store->record.commit, "%.64s", commit);
        store->record_mtimes = mem_zalloc(yyjson_arr_size(files), sizeof *store->record_mtimes);
        if (!store->record_mtimes) status = error_nomem(err);
        yyjson_arr_foreach(files, idx, max, entry) {
            const size_t n = store->record.n;
            if (!store->record_mtimes ||
                hub_listing_add(&store->record, entry, "path", "oid", NULL) != RADISH_OK)
                break;
            store->record_mtimes[n] = yyjson_get_uint(json_get(entry, "mtime_ns"));
        }
    }
    yyjson_doc_free(doc);
    free(text);
    free(path);
    return status;
}

enum radish_status hub_store_open(const char *cache, const struct model_name *name,
                                  bool (*is_cancelled)(void *user), void (*on_wait)(void *user),
                                  void *user, struct hub_store *store_out,
                                  struct radish_error *err) {
    struct buf stage;
    char *below = model_name_folder(name), *lock = NULL;
    enum radish_status status;
    *store_out = (struct hub_store){.lock_fd = -1};
    if (!below || !(store_out->folder = join(cache, below))) {
        status = error_nomem(err);
        goto done;
    }
    buf_init(&stage, 0);
    buf_printf(&stage, "%s/.pull/", cache);
    for (const char *c = below; *c; c++) /* "--" as huggingface_hub writes it */
        buf_append(&stage, *c == '/' ? "--" : c, *c == '/' ? 2 : 1);
    const size_t stage_len = stage.len;
    buf_append_str(&stage, ".lock");
    lock = buf_take(&stage, NULL);
    store_out->stage = lock ? mem_strndup(lock, stage_len) : NULL;
    if (!store_out->stage) {
        status = error_nomem(err);
        goto done;
    }
    status = make_folders(store_out->stage, /*with_last=*/true, err);
    if (status == RADISH_OK) status = take_lock(store_out, lock, is_cancelled, on_wait, user, err);
    /* Whoever had the lock has cleared the stage. */
    if (status == RADISH_OK) status = make_folders(store_out->stage, /*with_last=*/true, err);
    if (status == RADISH_OK) status = read_record(store_out, err);
done:
    free(below);
    free(lock);
    return status;
}

void hub_store_deinit(struct hub_store *store) {
    if (store->stage) rmdir(store->stage); /* does nothing unless it is empty */
    if (store->lock_fd >= 0) close(store->lock_fd);
    hub_listing_deinit(&store->record);
    free(store->record_mtimes);
    free(store->folder);
    free(store->stage);
    *store = (struct hub_store){.lock_fd = -1};
}

/* ---- files ---- */

char *hub_store_final_path(const struct hub_store *store, const struct hub_file *file) {
    return join(store->folder, file->path);
}

static char *staged_path(const struct hub_store *store, const struct hub_file *file,
                         const char *suffix) {
    struct hub_digest digest = {0};
    struct buf path;
    char key[HUB_DIGEST_MAX];
    const bool ok = hub_digest_init(&digest, HUB_HASH_SHA256, 0) &&
                    hub_digest_add(&digest, file->path, strlen(file->path) + 1) &&
                    hub_digest_add(&digest, file->digest, strlen(file->digest)) &&
                    hub_digest_end(&digest, key);
    hub_digest_deinit(&digest);
    if (!ok) return NULL;
    buf_init(&path, 0);
    buf_printf(&path, "%s/%.*s%s", store->stage, KEY_HEX, key, suffix);
    return buf_take(&path, NULL);
}

char *hub_store_whole_path(const struct hub_store *store, const struct hub_file *file) {
    return staged_path(store, file, "");
}

char *hub_store_part_path(const struct hub_store *store, const struct hub_file *file) {
    return staged_path(store, file, ".part");
}

static uint64_t mtime_ns(const struct stat *stat_of) {
#ifdef __APPLE__
    const struct timespec *time = &stat_of->st_mtimespec;
#else
    const struct timespec *time = &stat_of->st_mtim;
#endif
    return (uint64_t)time->tv_sec * 1000000000u + (uint64_t)time->tv_nsec;
}

bool hub_store_has(const struct hub_store *store, const struct hub_file *file,
                   bool (*is_cancelled)(void *user), void *user) {
    struct stat stat_of;
    bool has = false;
    char *path = hub_store_final_path(store, file);
    if (path && stat(path, &stat_of) == 0 && S_ISREG(stat_of.st_mode) &&
        (uint64_t)stat_of.st_size == file->bytes) {
        const struct hub_file *recorded = hub_listing_find(&store->record, file->path);
        has = recorded && recorded->bytes == file->bytes && recorded->hash == file->hash &&
              !strcmp(recorded->digest, file->digest) &&
              store->record_mtimes[recorded - store->record.files] == mtime_ns(&stat_of);
        if (!has) has = hub_file_is_whole(path, file, is_cancelled, user);
    }
    free(path);
    return has;
}

uint64_t hub_store_staged_bytes(const struct hub_store *store, const struct hub_file *file) {
    struct stat stat_of;
    uint64_t bytes = 0;
    char *whole = hub_store_whole_path(store, file), *part = hub_store_part_path(store, file);
    if (whole && stat(whole, &stat_of) == 0 && (uint64_t)stat_of.st_size == file->bytes)
        bytes = file->bytes;
    else if (part && stat(part, &stat_of) == 0 && (uint64_t)stat_of.st_size <= file->bytes)
        bytes = (uint64_t)stat_of.st_size;
    free(whole);
    free(part);
    return bytes;
}

uint64_t hub_store_free_bytes(const struct hub_store *store) {
    struct statvfs fs;
    uint64_t bytes;
    if (statvfs(store->stage, &fs) != 0 ||
        !mem_mul_u64((uint64_t)fs.f_bavail, (uint64_t)fs.f_frsize, &bytes))
        return UINT64_MAX;
    return bytes;
}

/* ---- publishing ---- */

/* Files that make a folder a model come after all others. */
static bool comes_last(const char *path) {
    size_t stem;
    return !strcmp(path, "config.json") ||
           (strstr(path, ".gguf") && model_gguf_part(path, &stem) == 1);
}

static enum radish_status move_file(const struct hub_store *store, const struct hub_file *file,
                                    struct radish_error *err) {
    char *from = hub_store_whole_path(store, file), *to = hub_store_final_path(store, file);
    enum radish_status status = from && to ? RADISH_OK : error_nomem(err);
    if (status == RADISH_OK && file_exists(from)) {
        status = make_folders(to, /*with_last=*/false, err);
        if (status == RADISH_OK && rename(from, to) != 0) status = fail(to, "put in place", err);
    }
    free(from);
    free(to);
    return status;
}

/* What the old record has and the repository no longer has. */
static void remove_dropped(const struct hub_store *store, const struct hub_listing *listing) {
    for (size_t i = 0; i < store->record.n; i++) {
        if (hub_listing_find(listing, store->record.files[i].path)) continue;
        char *path = hub_store_final_path(store, &store->record.files[i]);
        if (path) unlink(path);
        free(path);
    }
}

static bool add_record_entry(yyjson_mut_doc *doc, yyjson_mut_val *files,
                             const struct hub_store *store, const struct hub_file *file) {
    struct stat stat_of;
    char *path = hub_store_final_path(store, file);
    const bool is_there = path && stat(path, &stat_of) == 0;
    free(path);
    if (!is_there) return true;
    yyjson_mut_val *entry = yyjson_mut_arr_add_obj(doc, files);
    bool ok = entry && yyjson_mut_obj_add_str(doc, entry, "path", file->path) &&
              yyjson_mut_obj_add_uint(doc, entry, "size", file->bytes) &&
              yyjson_mut_obj_add_uint(doc, entry, "mtime_ns", mtime_ns(&stat_of));
    if (ok && file->hash == HUB_HASH_SHA256) {
        yyjson_mut_val *lfs = yyjson_mut_obj_add_obj(doc, entry, "lfs");
        ok = lfs && yyjson_mut_obj_add_str(doc, lfs, "oid", file->digest);
    } else if (ok) {
        ok = yyjson_mut_obj_add_str(doc, entry, "oid", file->digest);
    }
    return ok;
}

/* The record as JSON, or NULL: out of memory. Files that earlier pulls brought stay in it as long
 * as the repository has them. Caller frees. */
static char *format_record(const struct hub_store *store, const struct model_name *name,
                           const struct hub_listing *listing, const bool *wanted) {
    yyjson_mut_doc *doc = yyjson_mut_doc_new(NULL);
    yyjson_mut_val *root = doc ? yyjson_mut_obj(doc) : NULL;
    yyjson_mut_val *files = NULL;
    bool ok = root && yyjson_mut_obj_add_str(doc, root, "repo", name->repo) &&
              yyjson_mut_obj_add_str(doc, root, "revision",
                                     name->revision[0] ? name->revision : "main") &&
              yyjson_mut_obj_add_str(doc, root, "commit", listing->commit);
    if (ok) files = yyjson_mut_obj_add_arr(doc, root, "files");
    ok = files != NULL;
    for (size_t i = 0; ok && i < listing->n; i++)
        if (wanted[i]) ok = add_record_entry(doc, files, store, &listing->files[i]);
    for (size_t i = 0; ok && i < store->record.n; i++) {
        const struct hub_file *old = &store->record.files[i];
        const struct hub_file *now = hub_listing_find(listing, old->path);
        if (now && !wanted[now - listing->files]) ok = add_record_entry(doc, files, store, old);
    }
    if (ok) yyjson_mut_doc_set_root(doc, root);
    char *text = ok ? yyjson_mut_write(doc, YYJSON_WRITE_PRETTY, NULL) : NULL;
    yyjson_mut_doc_free(doc);
    return text;
}

static enum radish_status write_record(const struct hub_store *store, const struct model_name *name,
                                       const struct hub_listing *listing, const bool *wanted,
                                       struct radish_error *err) {
    char *text = format_record(store, name, listing, wanted);
    char *path = join(store->folder, record_name), *draft = join(store->stage, "record");
    enum radish_status status = text && path && draft ? RADISH_OK : error_nomem(err);
    FILE *file = status == RADISH_OK ? fopen(draft, "we") : NULL;
    if (status == RADISH_OK && !file) status = fail(draft, "written", err);
    if (file) {
        const bool ok = fputs(text, file) >= 0 && fflush(file) == 0 && fsync(fileno(file)) == 0;
        if ((fclose(file) != 0 || !ok) && status == RADISH_OK) status = fail(draft, "written", err);
    }
    if (status == RADISH_OK && rename(draft, path) != 0) status = fail(path, "put in place", err);
    free(text);
    free(path);
    free(draft);
    return status;
}

/* So that the renames are on the disk. A file system that cannot do it has its own ways. */
static void sync_folder(const char *path) {
    const int fd = open(path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    if (fd < 0) return;
    if (fsync(fd) != 0) errno = 0;
    close(fd);
}

/* Whatever is left in the stage belongs to contents that are no longer wanted. */
static void clear_stage(const struct hub_store *store) {
    DIR *dir = opendir(store->stage);
    if (!dir) return;
    for (struct dirent *entry; (entry = readdir(dir));)
        if (entry->d_name[0] != '.') unlinkat(dirfd(dir), entry->d_name, 0);
    closedir(dir);
}

enum radish_status hub_store_publish(struct hub_store *store, const struct model_name *name,
                                     const struct hub_listing *listing, const bool *wanted,
                                     struct radish_error *err) {
    RADISH_TRY(make_folders(store->folder, /*with_last=*/true, err));
    for (int last = 0; last <= 1; last++)
        for (size_t i = 0; i < listing->n; i++)
            if (wanted[i] && comes_last(listing->files[i].path) == last)
                RADISH_TRY(move_file(store, &listing->files[i], err));
    remove_dropped(store, listing);
    RADISH_TRY(write_record(store, name, listing, wanted, err));
    sync_folder(store->folder);
    clear_stage(store);
    return RADISH_OK;
}
