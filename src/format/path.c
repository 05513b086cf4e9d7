/* path.c - the few operations on paths that opening models needs: join, last part, suffix, and a
 * path before an error message. Lengths are never bounded by a fixed buffer; only what is shown in
 * a message is. */
#include "path.h"

#include "base/mem.h"
#include "base/status.h"

#include <stdio.h>
#include <string.h>

enum { PATH_SHOWN_MAX = 120 };

char *path_join(const char *folder, const char *name) {
    const size_t folder_len = strlen(folder), name_len = strlen(name);
    const char *slash = folder_len && folder[folder_len - 1] == '/' ? "" : "/";
    char *path = mem_alloc(folder_len + name_len + 2, 1);
    if (path) snprintf(path, folder_len + name_len + 2, "%s%s%s", folder, slash, name);
    return path;
}

const char *path_base(const char *path) {
    const char *slash = strrchr(path, '/');
    return slash ? slash + 1 : path;
}

bool path_has_suffix(const char *path, const char *suffix) {
    const size_t path_len = strlen(path), suffix_len = strlen(suffix);
    return path_len >= suffix_len && strcmp(path + path_len - suffix_len, suffix) == 0;
}

void path_prefix_error(struct radish_error *err, const char *path) {
    const size_t len = strlen(path);
    if (len <= PATH_SHOWN_MAX)
        error_prefix(err, "%s", path);
    else
        error_prefix(err, "...%s", path + len - PATH_SHOWN_MAX);
}
