/* model_cache.c - where models are kept, and how a name becomes a path.
 *
 * The places follow the XDG rules that other programs follow, so that a user's clean-up tools find
 * the folder. A name never leaves it: model_name_parse() sees to that, which matters because a
 * served name may come from a script.
 *
 * A name is looked up from the plainest meaning to the widest, and the first that exists wins: a
 * file or folder of that name; the folder ORG/NAME, with the quantisation that is asked for; NAME
 * under whatever ORG, when only one has it; then the same in huggingface_hub's cache, since who
 * comes from its tools has models there already. That cache is read as it is laid out on disk:
 *   models--ORG--NAME/refs/main                  the commit that main was when it was downloaded
 *   models--ORG--NAME/snapshots/COMMIT/...       links to the files
 *
 * getenv() is called here and nowhere else outside cli/: the cache's place is the user's
 * environment, and an embedder who opens a name means the same place as the program. */
#include "model_cache.h"

#include "base/file_map.h"
#include "base/mem.h"
#include "base/status.h"
#include "model_cache_scan.h"
#include "path.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

enum { COMMIT_BYTES_MAX = 4096 };

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

char *model_cache_foreign_folder(void) {
    const char *own = env("HF_HUB_CACHE"), *hf = env("HF_HOME"), *xdg = env("XDG_CACHE_HOME");
    const char *home = env("HOME");
    if (own) return mem_strndup(own, strlen(own));
    if (hf) return path_join(hf, "hub");
    if (xdg) return path_join(xdg, "huggingface/hub");
    return home ? path_join(home, ".cache/huggingface/hub") : NULL;
}

/* ---- huggingface_hub's cache ---- */

/* "models--ORG--NAME" of "ORG/NAME"; NULL when out of memory. */
static char *foreign_name(const char *repo) {
    char name[sizeof(struct model_name) + 16];
    const char *slash = strchr(repo, '/');
    if (slash)
        snprintf(name, sizeof name, "models--%.*s--%s", (int)(slash - repo), repo, slash + 1);
    else
        snprintf(name, sizeof name, "models--%s", repo);
    return mem_strndup(name, strlen(name));
}

/* The folder of a repository's snapshot in huggingface_hub's cache, or NULL: it is not there, or
 * out of memory, which the caller need not tell apart. */
static char *foreign_snapshot(const char *foreign, const struct model_name *name) {
    char *folder = NULL, *repo = NULL, *ref = NULL, *commit = NULL, *snapshots = NULL, *path = NULL;
    size_t len = 0;
    const char *revision = name->revision[0] ? name->revision : "main";
    if (!(folder = foreign_name(name->repo)) || !(repo = path_join(foreign, folder)) ||
        !(snapshots = path_join(repo, "snapshots")) || !(ref = path_join(repo, "refs")))
        goto done;
    char *ref_path = path_join(ref, revision);
    free(ref);
    ref = ref_path;
    if (ref && file_read(ref, COMMIT_BYTES_MAX, &commit, &len, NULL) == RADISH_OK) {
        commit[strcspn(commit, " \r\n")] = '\0';
        if (*commit && !strchr(commit, '/') && *commit != '.') path = path_join(snapshots, commit);
    } else {
        path = path_join(snapshots, revision); /* a commit */
    }
    if (path && !file_is_folder(path)) {
        free(path);
        path = NULL;
    }
done:
    free(folder);
    free(repo);
    free(ref);
    free(commit);
    free(snapshots);
    return path;
}

/* "ORG/NAME" of "models--ORG--NAME", or false. */
static bool foreign_repo(const char *folder, char *repo_out, size_t size) {
    static const char prefix[] = "models--";
    struct model_name name;
    if (strncmp(folder, prefix, sizeof prefix - 1) != 0) return false;
    folder += sizeof prefix - 1;
    const char *dashes = strstr(folder, "--");
    const int n =
        dashes ? snprintf(repo_out, size, "%.*s/%s", (int)(dashes - folder), folder, dashes + 2)
               : snprintf(repo_out, size, "%s", folder);
    return n > 0 && (size_t)n < size && model_name_parse(repo_out, &name);
}

/* ---- looking up ---- */

/* The file or folder that is called just so; *path_out stays NULL when there is none. */
static enum radish_status find_literal(const char *folder, const char *name, char **path_out,
                                       struct radish_error *err) {
    char *path = path_join(folder, name);
    if (!path) return error_nomem(err);
    if (file_exists(path) && !file_is_folder(path) && path_has_suffix(name, ".gguf")) {
        *path_out = path;
        return RADISH_OK;
    }
    char *with_suffix = mem_alloc(strlen(path) + sizeof ".gguf", 1);
    if (with_suffix) {
        memcpy(with_suffix, path, strlen(path));
        memcpy(with_suffix + strlen(path), ".gguf", sizeof ".gguf");
        if (file_exists(with_suffix) && !file_is_folder(with_suffix)) {
            *path_out = with_suffix;
            with_suffix = NULL;
        }
    }
    const bool had_memory = with_suffix || *path_out;
    free(with_suffix);
    free(path);
    return had_memory ? RADISH_OK : error_nomem(err);
}

/* The name without quant, as messages show it. */
static void show(const struct model_name *name, char *text, size_t size) {
    snprintf(text, size, "%s%s%s", name->repo, name->revision[0] ? "@" : "", name->revision);
}

/* The folder of the model in either cache; *path_out stays NULL when there is none. */
static enum radish_status find_repo(const char *folder, const char *foreign,
                                    const struct model_name *name, char **path_out,
                                    struct radish_error *err) {
    char *below = model_name_folder(name), *path = below ? path_join(folder, below) : NULL;
    free(below);
    if (!path) return error_nomem(err);
    if (file_is_folder(path)) {
        *path_out = path;
        return RADISH_OK;
    }
    free(path);
    if (foreign) *path_out = foreign_snapshot(foreign, name);
    return RADISH_OK;
}

/* Gives name->repo the one ORG that has NAME; leaves it where none has. E_INVALID lists several. */
static enum radish_status find_org(const char *folder, const char *foreign, struct model_name *name,
                                   struct radish_error *err) {
    struct model_cache_list list;
    char found[sizeof name->repo] = "", names[200] = "";
    size_t used = 0, n = 0;
    enum radish_status status = model_cache_list_in(folder, foreign, &list, err);
    for (size_t i = 0; status == RADISH_OK && i < list.n; i++) {
        struct model_name other;
        if (!model_name_parse(list.entries[i].name, &other)) continue;
        const char *slash = strchr(other.repo, '/');
        if (!slash || strcmp(slash + 1, name->repo) != 0 || !strcmp(other.repo, found) ||
            strcmp(other.revision, name->revision) != 0)
            continue;
        snprintf(found, sizeof found, "%s", other.repo);
        if (used + strlen(found) + 3 < sizeof names)
            used +=
                (size_t)snprintf(names + used, sizeof names - used, "%s%s", n ? ", " : "", found);
        n++;
    }
    if (status == RADISH_OK && n > 1)
        status = error_set(err, RADISH_E_INVALID, "%.80s may be any of: %.180s", name->repo, names);
    if (status == RADISH_OK && n == 1) memcpy(name->repo, found, sizeof found);
    model_cache_list_deinit(&list);
    return status;
}

enum radish_status model_cache_find_in(const char *folder, const char *foreign, const char *text,
                                       char **path_out, struct radish_error *err) {
    struct model_name name;
    char *repo = NULL, shown[sizeof name.repo + sizeof name.revision];
    *path_out = NULL;
    if (!model_name_parse(text, &name))
        return error_set(err, RADISH_E_NOT_FOUND, "%.120s: no such file or folder", text);
    RADISH_TRY(find_literal(folder, text, path_out, err));
    if (*path_out) return RADISH_OK;
    RADISH_TRY(find_repo(folder, foreign, &name, &repo, err));
    if (!repo && !strchr(name.repo, '/')) {
        RADISH_TRY(find_org(folder, foreign, &name, err));
        RADISH_TRY(find_repo(folder, foreign, &name, &repo, err));
    }
    if (!repo && strchr(name.repo, '/'))
        return error_set(err, RADISH_E_NOT_FOUND,
                         "%.90s: no such file or folder, and no such model in the cache (%.100s); "
                         "'radish pull %.90s' fetches it",
                         text, folder, text);
    if (!repo)
        return error_set(err, RADISH_E_NOT_FOUND,
                         "%.90s: no such file or folder, and no such model in the cache (%.120s); "
                         "'radish list' shows what is there",
                         text, folder);
    show(&name, shown, sizeof shown);
    enum radish_status status = scan_pick(repo, name.quant, shown, path_out, err);
    free(repo);
    return status;
}

enum radish_status model_cache_find(const char *name, char **path_out, struct radish_error *err) {
    char *folder = NULL;
    *path_out = NULL;
    RADISH_TRY(model_cache_folder(&folder, err));
    char *foreign = model_cache_foreign_folder();
    enum radish_status status = model_cache_find_in(folder, foreign, name, path_out, err);
    free(foreign);
    free(folder);
    return status;
}

/* ---- listing ---- */

void model_cache_list_deinit(struct model_cache_list *list) {
    for (size_t i = 0; i < list->n; i++) {
        free(list->entries[i].name);
        free(list->entries[i].path);
    }
    free(list->entries);
    *list = (struct model_cache_list){0};
}

/* Takes over path (NULL: out of memory). */
static enum radish_status add_entry(struct model_cache_list *list, const char *name, char *path,
                                    uint64_t bytes, struct radish_error *err) {
    struct model_cache_entry *entries =
        realloc(list->entries, (list->n + 1) * sizeof *list->entries);
    char *copy = mem_strndup(name, strlen(name));
    if (entries) list->entries = entries;
    if (!entries || !copy || !path) {
        free(copy);
        free(path);
        return error_nomem(err);
    }
    list->entries[list->n++] = (struct model_cache_entry){copy, path, bytes, false};
    return RADISH_OK;
}

/* Bytes of a GGUF model: of its file, or of all parts, which follow in the sorted scan. */
static uint64_t gguf_bytes(const struct scan *scan, size_t first) {
    uint64_t bytes = scan->files[first].bytes;
    const char *path = scan->files[first].path, *of = strstr(path, "-00001-of-");
    for (size_t i = first + 1; of && i < scan->n; i++) {
        if (strncmp(scan->files[i].path, path, (size_t)(of - path)) != 0) break;
        if (!model_gguf_is_model(scan->files[i].path)) bytes += scan->files[i].bytes;
    }
    return bytes;
}

/* The models of one repository's folder, called `name` or "name:QUANT". */
static enum radish_status list_repo(const char *folder, const char *name,
                                    struct model_cache_list *list, struct radish_error *err) {
    struct scan scan;
    uint64_t bytes = 0;
    enum radish_status status = scan_folder(folder, &scan, err);
    for (size_t i = 0; i < scan.n; i++) bytes += scan.files[i].bytes;
    if (status == RADISH_OK && scan_has_safetensors(&scan))
        status = add_entry(list, name, mem_strndup(folder, strlen(folder)), bytes, err);
    else
        for (size_t i = 0; status == RADISH_OK && i < scan.n; i++) {
            char quant[MODEL_QUANT_MAX], full[512];
            if (!model_gguf_is_model(scan.files[i].path)) continue;
            model_quant_of(scan.files[i].path, quant);
            snprintf(full, sizeof full, "%s:%s", name, quant);
            status = add_entry(list, full, path_join(folder, scan.files[i].path),
                               gguf_bytes(&scan, i), err);
        }
    scan_deinit(&scan);
    return status;
}

/* A GGUF file at the cache's top, called by its name without .gguf. */
static enum radish_status list_file(char *path, const char *top, struct model_cache_list *list,
                                    struct radish_error *err) {
    char name[256];
    struct stat stat_of;
    const size_t len = strlen(top) - (sizeof ".gguf" - 1);
    if (len >= sizeof name || stat(path, &stat_of) != 0) {
        free(path);
        return RADISH_OK;
    }
    memcpy(name, top, len);
    name[len] = '\0';
    return add_entry(list, name, path, (uint64_t)stat_of.st_size, err);
}

/* A folder at the cache's top is a model's, or, when it holds folders only, an ORG's. */
static enum radish_status list_folder(const char *path, const char *top,
                                      struct model_cache_list *list, struct radish_error *err) {
    struct scan folders = {0}, all = {0};
    enum radish_status status = scan_names(path, /*files=*/false, &folders, err);
    if (status == RADISH_OK) status = scan_names(path, /*files=*/true, &all, err);
    if (status == RADISH_OK && all.n > folders.n) {
        status = list_repo(path, top, list, err);
        goto done;
    }
    for (size_t i = 0; status == RADISH_OK && i < folders.n; i++) {
        char *name = path_join(top, folders.files[i].path);
        char *at = path_join(path, folders.files[i].path);
        status = name && at ? list_repo(at, name, list, err) : error_nomem(err);
        free(name);
        free(at);
    }
done:
    scan_deinit(&folders);
    scan_deinit(&all);
    return status;
}

static enum radish_status list_own(const char *folder, struct model_cache_list *list,
                                   struct radish_error *err) {
    struct scan tops;
    enum radish_status status = scan_names(folder, /*files=*/true, &tops, err);
    for (size_t i = 0; status == RADISH_OK && i < tops.n; i++) {
        const char *top = tops.files[i].path;
        char *path = path_join(folder, top);
        if (!path) {
            status = error_nomem(err);
        } else if (file_is_folder(path)) {
            status = list_folder(path, top, list, err);
            free(path);
        } else if (path_has_suffix(top, ".gguf")) {
            status = list_file(path, top, list, err);
        } else {
            free(path);
        }
    }
    scan_deinit(&tops);
    return status;
}

static enum radish_status list_foreign(const char *foreign, struct model_cache_list *list,
                                       struct radish_error *err) {
    struct scan repos;
    const size_t n_own = list->n;
    enum radish_status status = scan_names(foreign, /*files=*/false, &repos, err);
    for (size_t i = 0; status == RADISH_OK && i < repos.n; i++) {
        struct model_name name = {0};
        if (!foreign_repo(repos.files[i].path, name.repo, sizeof name.repo)) continue;
        char *path = foreign_snapshot(foreign, &name);
        if (path) status = list_repo(path, name.repo, list, err);
        free(path);
    }
    for (size_t i = n_own; i < list->n; i++) list->entries[i].is_foreign = true;
    scan_deinit(&repos);
    return status;
}

static int compare_entries(const void *a, const void *b) {
    return strcmp(((const struct model_cache_entry *)a)->name,
                  ((const struct model_cache_entry *)b)->name);
}

enum radish_status model_cache_list_in(const char *folder, const char *foreign,
                                       struct model_cache_list *list_out,
                                       struct radish_error *err) {
    *list_out = (struct model_cache_list){0};
    RADISH_TRY(list_own(folder, list_out, err));
    if (foreign) RADISH_TRY(list_foreign(foreign, list_out, err));
    if (list_out->n)
        qsort(list_out->entries, list_out->n, sizeof *list_out->entries, compare_entries);
    return RADISH_OK;
}
