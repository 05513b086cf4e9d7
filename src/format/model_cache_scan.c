/* model_cache_scan.c - what lies in a model's folder, and which of its models is meant.
 *
 * A repository of GGUF files holds one model in many quantisations, each a file or several parts,
 * at the top or in a folder of its own. A name says which with :QUANT, and need not where there is
 * one. So a folder is listed first, whole, then judged: that the listing is a plain array keeps the
 * rules (parts, projectors, two that match) readable, and folders hold tens of files.
 *
 * huggingface_hub's snapshots are links to blobs, so links are followed; depth is bounded by the
 * levels that are read, not by trust in the tree. */
#include "model_cache_scan.h"

#include "base/file_map.h"
#include "base/mem.h"
#include "base/status.h"
#include "path.h"

#include <dirent.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

enum { LEVELS = 2, FILES_MAX = 100000 };

void scan_deinit(struct scan *scan) {
    for (size_t i = 0; i < scan->n; i++) free(scan->files[i].path);
    free(scan->files);
    *scan = (struct scan){0};
}

/* Takes over path. */
static enum radish_status add_file(struct scan *scan, char *path, uint64_t bytes,
                                   struct radish_error *err) {
    if (scan->n == scan->capacity) {
        const size_t capacity = scan->capacity ? 2 * scan->capacity : 16;
        struct scan_file *files = realloc(scan->files, capacity * sizeof *files);
        if (!files) {
            free(path);
            return error_nomem(err);
        }
        scan->files = files;
        scan->capacity = capacity;
    }
    scan->files[scan->n++] = (struct scan_file){path, bytes};
    return RADISH_OK;
}

static enum radish_status scan_into(const char *folder, const char *prefix, int levels,
                                    struct scan *scan, struct radish_error *err);

/* One entry: `at` is its path on disk, `below` its path below the scanned folder. */
static enum radish_status scan_entry(const char *at, const char *below, int levels,
                                     struct scan *scan, struct radish_error *err) {
    struct stat stat_of;
    if (stat(at, &stat_of) != 0) return RADISH_OK; /* a link to nothing */
    if (S_ISDIR(stat_of.st_mode))
        return levels > 0 ? scan_into(at, below, levels - 1, scan, err) : RADISH_OK;
    if (!S_ISREG(stat_of.st_mode)) return RADISH_OK;
    char *path = mem_strndup(below, strlen(below));
    return path ? add_file(scan, path, (uint64_t)stat_of.st_size, err) : error_nomem(err);
}

static enum radish_status scan_into(const char *folder, const char *prefix, int levels,
                                    struct scan *scan, struct radish_error *err) {
    enum radish_status status = RADISH_OK;
    DIR *dir = opendir(folder);
    if (!dir) return RADISH_OK;
    for (struct dirent *entry;
         status == RADISH_OK && scan->n < FILES_MAX && (entry = readdir(dir));) {
        if (entry->d_name[0] == '.') continue;
        char *at = path_join(folder, entry->d_name);
        char *below = *prefix ? path_join(prefix, entry->d_name)
                              : mem_strndup(entry->d_name, strlen(entry->d_name));
        status = at && below ? scan_entry(at, below, levels, scan, err) : error_nomem(err);
        free(at);
        free(below);
    }
    closedir(dir);
    return status;
}

static int compare_files(const void *a, const void *b) {
    return strcmp(((const struct scan_file *)a)->path, ((const struct scan_file *)b)->path);
}

static void sort(struct scan *scan) {
    if (scan->n) qsort(scan->files, scan->n, sizeof *scan->files, compare_files);
}

enum radish_status scan_folder(const char *folder, struct scan *scan_out,
                               struct radish_error *err) {
    *scan_out = (struct scan){0};
    enum radish_status status = scan_into(folder, "", LEVELS, scan_out, err);
    sort(scan_out);
    return status;
}

enum radish_status scan_names(const char *folder, bool files, struct scan *scan_out,
                              struct radish_error *err) {
    enum radish_status status = RADISH_OK;
    *scan_out = (struct scan){0};
    DIR *dir = opendir(folder);
    if (!dir) return RADISH_OK;
    for (struct dirent *entry; status == RADISH_OK && (entry = readdir(dir));) {
        if (entry->d_name[0] == '.') continue;
        char *at = path_join(folder, entry->d_name);
        if (!at) {
            status = error_nomem(err);
        } else if (file_is_folder(at) || (files && file_exists(at))) {
            char *name = mem_strndup(entry->d_name, strlen(entry->d_name));
            status = name ? add_file(scan_out, name, 0, err) : error_nomem(err);
        }
        free(at);
    }
    closedir(dir);
    sort(scan_out);
    return status;
}

bool scan_has_safetensors(const struct scan *scan) {
    for (size_t i = 0; i < scan->n; i++)
        if (!strchr(scan->files[i].path, '/') &&
            path_has_suffix(scan->files[i].path, ".safetensors"))
            return true;
    return false;
}

static size_t count_meant(const struct scan *scan, const char *quant, bool exact,
                          const struct scan_file **first_out) {
    size_t n = 0;
    *first_out = NULL;
    for (size_t i = 0; i < scan->n; i++) {
        if (!model_gguf_is_meant(scan->files[i].path, quant, exact)) continue;
        if (!n++) *first_out = &scan->files[i];
    }
    return n;
}

/* "Q4_0, Q8_0" of all GGUF models that `quant` may mean. */
static void list_quants(const struct scan *scan, const char *quant, char *text, size_t size) {
    size_t used = 0;
    text[0] = '\0';
    for (size_t i = 0; i < scan->n && used + MODEL_QUANT_MAX + 8 < size; i++) {
        char own[MODEL_QUANT_MAX];
        if (!model_gguf_is_meant(scan->files[i].path, quant, /*exact=*/false)) continue;
        model_quant_of(scan->files[i].path, own);
        used += (size_t)snprintf(text + used, size - used, "%s%s", used ? ", " : "", own);
    }
}

enum radish_status scan_pick(const char *folder, const char *quant, const char *shown,
                             char **path_out, struct radish_error *err) {
    struct scan scan;
    const struct scan_file *file = NULL;
    char list[200];
    *path_out = NULL;
    enum radish_status status = scan_folder(folder, &scan, err);
    if (status != RADISH_OK) goto done;
    if (!*quant && scan_has_safetensors(&scan)) {
        *path_out = mem_strndup(folder, strlen(folder));
        status = *path_out ? RADISH_OK : error_nomem(err);
        goto done;
    }
    size_t n = *quant ? count_meant(&scan, quant, /*exact=*/true, &file) : 0;
    if (!n) n = count_meant(&scan, quant, /*exact=*/false, &file);
    if (n == 1 || (!n && !*quant)) {
        *path_out = n ? path_join(folder, file->path) : mem_strndup(folder, strlen(folder));
        status = *path_out ? RADISH_OK : error_nomem(err);
    } else if (n) {
        list_quants(&scan, quant, list, sizeof list);
        status = error_set(err, RADISH_E_INVALID,
                           "%.90s: holds %zu GGUF models; say which, like %.60s:QUANT, of: %.100s",
                           shown, n, shown, list);
    } else {
        list_quants(&scan, "", list, sizeof list);
        status = error_set(err, RADISH_E_NOT_FOUND, "%.90s: no %.40s is here%s%.100s", shown, quant,
                           *list ? ", only " : "", list);
    }
done:
    scan_deinit(&scan);
    return status;
}
