/* model_cache_name.c - names as text: ORG/NAME@REVISION:QUANT taken apart, and what the names of
 * GGUF files say.
 *
 * The words are those that users bring along: ORG/NAME from the hub, :QUANT from llama.cpp and
 * ollama, @REVISION from the hub's own tools. A name is taken apart by its separators alone; '@'
 * and
 * ':' cannot be in a repository's name, so nothing is ambiguous. Whether a part may become a part
 * of a path is decided here, once, for every user of names.
 *
 * The quantisation of a GGUF file is a habit of file names, not a rule: the last piece between '-'
 * or '.', in upper or lower case. Reading it from the file's metadata would be exact, but the
 * choice is made before a file is downloaded. */
#include "model_cache.h"

#include "base/mem.h"
#include "path.h"

#include <stdio.h>
#include <string.h>
#include <strings.h>

enum { SPLIT_LEN = sizeof "-00001-of-00003" - 1 };

/* Whether text[0..len) is n_min..n_max parts between '/', none empty, "." or "..". */
static bool are_parts(const char *text, size_t len, int n_max) {
    int n_parts = 0;
    for (size_t at = 0;;) {
        const char *slash = memchr(text + at, '/', len - at);
        const size_t n = (slash ? (size_t)(slash - text) : len) - at;
        if (!n || (n == 1 && text[at] == '.') || (n == 2 && memcmp(text + at, "..", 2) == 0))
            return false;
        if (++n_parts > n_max) return false;
        if (!slash) return true;
        at += n + 1;
    }
}

static bool copy(char *to, size_t size, const char *from, size_t len) {
    if (len >= size) return false;
    memcpy(to, from, len);
    to[len] = '\0';
    return true;
}

bool model_name_parse(const char *text, struct model_name *name_out) {
    struct model_name name = {0};
    size_t len = strlen(text);
    const size_t repo_len = strcspn(text, "@:");
    memset(name_out, 0, sizeof *name_out);
    if (!are_parts(text, repo_len, 2) || !copy(name.repo, sizeof name.repo, text, repo_len))
        return false;
    const char *colon = strrchr(text + repo_len, ':');
    if (colon) {
        const char *quant = colon + 1;
        if (!are_parts(quant, strlen(quant), 1) ||
            !copy(name.quant, sizeof name.quant, quant, strlen(quant)))
            return false;
        len = (size_t)(colon - text);
    }
    if (text[repo_len] == '@' && len > repo_len) {
        const char *revision = text + repo_len + 1;
        const size_t n = len - repo_len - 1;
        if (!are_parts(revision, n, 8) || memchr(revision, ':', n) ||
            !copy(name.revision, sizeof name.revision, revision, n))
            return false;
        if (!strcmp(name.revision, "main")) name.revision[0] = '\0';
    } else if (len > repo_len) {
        return false; /* "a:b:c" */
    }
    *name_out = name;
    return true;
}

bool model_cache_is_name(const char *name) {
    struct model_name parsed;
    return model_name_parse(name, &parsed);
}

char *model_name_folder(const struct model_name *name) {
    char folder[sizeof name->repo + 2 * sizeof name->revision + 2];
    size_t n =
        (size_t)snprintf(folder, sizeof folder, "%s%s", name->repo, name->revision[0] ? "@" : "");
    for (const char *c = name->revision; *c; c++) {
        folder[n++] = *c == '/' ? '-' : *c;
        if (*c == '/') folder[n++] = '-';
    }
    return mem_strndup(folder, n);
}

/* ---- GGUF files ---- */

unsigned model_gguf_part(const char *path, size_t *stem_len_out) {
    size_t len = strlen(path);
    unsigned part = 1, count;
    int used = 0;
    if (path_has_suffix(path, ".gguf")) len -= sizeof ".gguf" - 1;
    *stem_len_out = len;
    if (len < SPLIT_LEN ||
        sscanf(path + len - SPLIT_LEN, "-%5u-of-%5u%n", &part, &count, &used) != 2 ||
        used != SPLIT_LEN)
        return 1;
    *stem_len_out = len - SPLIT_LEN;
    return part;
}

/* The file's name without folder and suffixes: *len_out bytes from the result. */
static const char *stem_of(const char *path, size_t *len_out) {
    const char *base = path_base(path);
    model_gguf_part(base, len_out);
    return base;
}

void model_quant_of(const char *path, char quant_out[MODEL_QUANT_MAX]) {
    size_t len;
    const char *stem = stem_of(path, &len);
    size_t start = len;
    while (start && stem[start - 1] != '-' && stem[start - 1] != '.') start--;
    if (start >= 4 && !strncasecmp(stem + start - 4, "-UD-", 4)) start -= 3;
    if (len - start >= MODEL_QUANT_MAX) start = len - MODEL_QUANT_MAX + 1;
    memcpy(quant_out, stem + start, len - start);
    quant_out[len - start] = '\0';
}

bool model_gguf_is_model(const char *path) {
    size_t len;
    const char *base = path_base(path);
    return path_has_suffix(base, ".gguf") && model_gguf_part(base, &len) == 1 &&
           !strstr(base, "mmproj") && !strstr(base, "imatrix");
}

bool model_gguf_is_meant(const char *path, const char *quant, bool exact) {
    char own[MODEL_QUANT_MAX];
    size_t len;
    const char *stem = stem_of(path, &len);
    const size_t n = strlen(quant);
    if (!model_gguf_is_model(path)) return false;
    if (!n) return true;
    model_quant_of(path, own);
    if (exact) return !strcasecmp(own, quant);
    if (n > len || strncasecmp(stem + len - n, quant, n) != 0) return false;
    return n == len || strchr("-._", stem[len - n - 1]) != NULL;
}
