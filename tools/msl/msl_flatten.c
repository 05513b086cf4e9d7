/* msl_flatten.c - all kernels as one text, for newLibraryWithSource on a Mac without Xcode.
 *
 * There the compiler gets a string and no folder to look for includes in, so that local includes
 * have to stand in their place. Only lines of the form #include "file" are touched, and every file
 * comes once: the headers have include guards, which say the same, and the kernels' args headers
 * are meant to be read once. Line markers keep the messages of Apple's compiler readable.
 *
 * What this asks of the kernels: names at program scope and indices of function constants are
 * unique over all files. cmake/msl.cmake compiles the flat text for the CPU, too, which shows it.
 */
#include "msl_pass.h"

#include "base/mem.h"
#include "base/status.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { DEPTH_MAX = 16, FILE_MAX = 8 << 20 };

void msl_flat_init(struct msl_flat *flat) {
    *flat = (struct msl_flat){0};
    buf_init(&flat->text, (size_t)64 << 20);
}

void msl_flat_deinit(struct msl_flat *flat) {
    for (size_t i = 0; i < flat->n_seen; i++) free(flat->seen[i]);
    buf_deinit(&flat->text);
    *flat = (struct msl_flat){0};
}

static enum radish_status see(struct msl_flat *flat, const char *path, bool *is_new_out,
                              struct radish_error *err) {
    *is_new_out = false;
    for (size_t i = 0; i < flat->n_seen; i++)
        if (strcmp(flat->seen[i], path) == 0) return RADISH_OK;
    if (flat->n_seen == MSL_FLAT_FILES_MAX)
        return error_set(err, RADISH_E_LIMIT, "more than %u files", MSL_FLAT_FILES_MAX);
    char *copy = mem_strndup(path, strlen(path));
    if (!copy) return error_nomem(err);
    flat->seen[flat->n_seen++] = copy;
    *is_new_out = true;
    return RADISH_OK;
}

static enum radish_status read_text(const char *path, struct buf *out, struct radish_error *err) {
    FILE *f = fopen(path, "rb");
    if (!f) return error_set(err, RADISH_E_IO, "%s: cannot be opened", path);
    char part[1 << 14];
    size_t n;
    while ((n = fread(part, 1, sizeof part, f)) > 0) buf_append(out, part, n);
    bool is_ok = !ferror(f);
    fclose(f);
    if (!is_ok) return error_set(err, RADISH_E_IO, "%s: cannot be read", path);
    if (out->failed) return error_set(err, RADISH_E_LIMIT, "%s: too long", path);
    return RADISH_OK;
}

/* The file of #include "file" on a line, or false. */
static bool read_include(const char *line, size_t len, const char **name_out, size_t *n_out) {
    static const char word[] = "include";
    size_t i = 0;
    while (i < len && (line[i] == ' ' || line[i] == '\t')) i++;
    if (i == len || line[i++] != '#') return false;
    while (i < len && (line[i] == ' ' || line[i] == '\t')) i++;
    if (len - i < sizeof word - 1 || memcmp(line + i, word, sizeof word - 1) != 0) return false;
    i += sizeof word - 1;
    while (i < len && (line[i] == ' ' || line[i] == '\t')) i++;
    if (i == len || line[i++] != '"') return false;
    const char *end = memchr(line + i, '"', len - i);
    if (!end || end == line + i) return false;
    *name_out = line + i;
    *n_out = (size_t)(end - *name_out);
    return true;
}

static const char *base_name(const char *path) {
    const char *slash = strrchr(path, '/');
    return slash ? slash + 1 : path;
}

static enum radish_status add_file(struct msl_flat *flat, const char *path, int depth,
                                   struct radish_error *err);

/* path's folder + name. */
static enum radish_status add_include(struct msl_flat *flat, const char *path, const char *name,
                                      size_t n_name, int depth, struct radish_error *err) {
    struct buf joined;
    buf_init(&joined, 4096);
    buf_append(&joined, path, (size_t)(base_name(path) - path));
    buf_append(&joined, name, n_name);
    enum radish_status status =
        joined.failed ? error_set(err, RADISH_E_LIMIT, "%s: an include's name is too long", path)
                      : add_file(flat, joined.data, depth + 1, err);
    buf_deinit(&joined);
    return status;
}

static enum radish_status add_lines(struct msl_flat *flat, const char *path, const struct buf *text,
                                    int depth, struct radish_error *err) {
    size_t line = 1;
    buf_printf(&flat->text, "#line 1 \"%s\"\n", base_name(path));
    for (size_t at = 0; at < text->len; line++) {
        const char *start = text->data + at, *name;
        const char *end = memchr(start, '\n', text->len - at);
        size_t len = end ? (size_t)(end - start) : text->len - at, n_name;
        if (read_include(start, len, &name, &n_name)) {
            RADISH_TRY(add_include(flat, path, name, n_name, depth, err));
            buf_printf(&flat->text, "#line %zu \"%s\"\n", line + 1, base_name(path));
        } else {
            buf_append(&flat->text, start, len);
            buf_append_char(&flat->text, '\n');
        }
        at += len + (end != NULL);
    }
    return flat->text.failed ? error_set(err, RADISH_E_LIMIT, "%s: the text is too long", path)
                             : RADISH_OK;
}

static enum radish_status add_file(struct msl_flat *flat, const char *path, int depth,
                                   struct radish_error *err) {
    struct buf text;
    bool is_new;
    if (depth > DEPTH_MAX)
        return error_set(err, RADISH_E_LIMIT, "%s: includes are nested too deep", path);
    RADISH_TRY(see(flat, path, &is_new, err));
    if (!is_new) return RADISH_OK;
    buf_init(&text, FILE_MAX);
    enum radish_status status = read_text(path, &text, err);
    if (status == RADISH_OK) status = add_lines(flat, path, &text, depth, err);
    buf_deinit(&text);
    return status;
}

enum radish_status msl_flat_add(struct msl_flat *flat, const char *path, struct radish_error *err) {
    return add_file(flat, path, 0, err);
}
