/* model_cache.c - where models are kept, and how a name becomes a path.
 *
 * The places follow the XDG rules that other programs follow, so that a user's clean-up tools find
 * the folder. A name never leaves it: parts "." and "..", absolute paths and more than one '/' are
 * no names, which matters because a served name may come from a script.
 *
 * getenv() is called here and nowhere else outside cli/: the cache's place is the user's
 * environment, and an embedder who opens a name means the same place as the program. */
#include "model_cache.h"

#include "base/file_map.h"
#include "base/mem.h"
#include "base/status.h"
#include "path.h"

#include <stdlib.h>
#include <string.h>

static const char *env(const char *name) {
    const char *value = getenv(name);
    return value && *value ? value : NULL;
}

enum radish_status model_cache_folder(char **path_out, struct radish_error *err) {
    const char *own = env("RADISH_CACHE"), *xdg = env("XDG_CACHE_HOME"), *home = env("HOME");
    *path_out = NULL;
    if (own)
        *path_out = mem_strndup(own, strlen(own));
    else if (xdg && *xdg == '/') /* the XDG rules ignore relative paths */
        *path_out = path_join(xdg, "radish/models");
    else if (home)
        *path_out = path_join(home, ".cache/radish/models");
    else
        return error_set(err, RADISH_E_NOT_FOUND,
                         "no model cache: none of RADISH_CACHE, XDG_CACHE_HOME and HOME is set");
    return *path_out ? RADISH_OK : error_nomem(err);
}

bool model_cache_is_name(const char *name) {
    int n_parts = 0;
    for (const char *part = name;;) {
        const size_t len = strcspn(part, "/");
        if (!len || (len == 1 && part[0] == '.') || (len == 2 && memcmp(part, "..", 2) == 0))
            return false;
        if (++n_parts > 2) return false;
        if (!part[len]) return true;
        part += len + 1;
    }
}

enum radish_status model_cache_find_in(const char *folder, const char *name, char **path_out,
                                       struct radish_error *err) {
    enum radish_status status = RADISH_OK;
    *path_out = NULL;
    if (!model_cache_is_name(name))
        return error_set(err, RADISH_E_NOT_FOUND, "%.120s: no such file or folder", name);
    char *path = path_join(folder, name), *with_suffix = NULL;
    if (!path) return error_nomem(err);
    if (file_is_folder(path) || (path_has_suffix(name, ".gguf") && file_exists(path))) {
        *path_out = path;
        return RADISH_OK;
    }
    with_suffix = mem_alloc(strlen(path) + sizeof ".gguf", 1);
    if (!with_suffix) {
        status = error_nomem(err);
        goto done;
    }
    memcpy(with_suffix, path, strlen(path));
    memcpy(with_suffix + strlen(path), ".gguf", sizeof ".gguf");
    if (file_exists(with_suffix)) {
        *path_out = with_suffix;
        with_suffix = NULL;
    } else {
        status =
            error_set(err, RADISH_E_NOT_FOUND,
                      "%.100s: no such file or folder, and no such model in the cache (%.120s)",
                      name, folder);
    }
done:
    free(with_suffix);
    free(path);
    return status;
}

enum radish_status model_cache_find(const char *name, char **path_out, struct radish_error *err) {
    char *folder = NULL;
    *path_out = NULL;
    RADISH_TRY(model_cache_folder(&folder, err));
    enum radish_status status = model_cache_find_in(folder, name, path_out, err);
    free(folder);
    return status;
}
