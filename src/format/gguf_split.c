/* gguf_split.c - split GGUF models, as gguf-split writes them.
 *
 *   NAME-00001-of-00003.gguf    all metadata; split.no 0, split.count 3, split.tensors.count
 *   NAME-00002-of-00003.gguf    split.no 1, split.count 3, its tensors
 *   NAME-00003-of-00003.gguf    split.no 2, split.count 3, its tensors
 *
 * Names count from 1, keys from 0. Both are checked against each other: a part of another model, or
 * of another way to split this one, under a right-looking name would otherwise load as wrong
 * weights. Every file is parsed with all the care of gguf.c on its own; that no tensor is in two
 * parts is checked where tensors of all files come together (model_file.c). */
#include "gguf_split.h"

#include "base/mem.h"
#include "base/status.h"
#include "path.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define SUFFIX_FMT "-%05u-of-%05u.gguf"
enum { SUFFIX_LEN = sizeof "-00001-of-00003.gguf" - 1, PARTS_MAX = 99999 };

/* Reads "-00002-of-00003.gguf" at the end of a path. */
static bool parse_suffix(const char *path, unsigned *part_out, unsigned *count_out) {
    const size_t len = strlen(path);
    char again[SUFFIX_LEN + 12];
    *part_out = *count_out = 0;
    if (len < SUFFIX_LEN) return false;
    const char *suffix = path + len - SUFFIX_LEN;
    if (sscanf(suffix, "-%5u-of-%5u.gguf", part_out, count_out) != 2) return false;
    /* sscanf() skips spaces and signs and does not see the end; printing back settles it. */
    snprintf(again, sizeof again, SUFFIX_FMT, *part_out, *count_out);
    return strcmp(again, suffix) == 0;
}

bool gguf_split_is_later_part(const char *path) {
    unsigned part, count;
    return parse_suffix(path, &part, &count) && part > 1;
}

static enum radish_status check_first(const char *path, uint32_t no, uint32_t count,
                                      struct radish_error *err) {
    unsigned name_part, name_count;
    const bool has_suffix = parse_suffix(path, &name_part, &name_count);
    if (count > PARTS_MAX)
        return error_set_field(err, RADISH_E_FORMAT, "split.count",
                               "key 'split.count' is %u, but must be at most %d", count, PARTS_MAX);
    if (no >= count)
        return error_set_field(err, RADISH_E_FORMAT, "split.no",
                               "key 'split.no' is %u, but split.count is %u", no, count);
    if (no != 0)
        return error_set_field(err, RADISH_E_INVALID, "split.no",
                               "this is part %u of %u; give the first one, whose name ends in "
                               "-00001-of-%05u.gguf",
                               no + 1, count, count);
    if (!has_suffix || name_part != 1 || name_count != count)
        return error_set_field(err, RADISH_E_FORMAT, "split.count",
                               "this is the first of %u parts, but its name does not end in "
                               "-00001-of-%05u.gguf, so the others cannot be found",
                               count, count);
    return RADISH_OK;
}

static enum radish_status read_split_keys(const struct gguf *g, uint32_t *no_out,
                                          uint32_t *count_out, struct radish_error *err) {
    *no_out = 0;
    *count_out = 0;
    RADISH_TRY(gguf_get_u32(g, "split.no", no_out, err));
    return gguf_get_u32(g, "split.count", count_out, err);
}

/* Opens part `no` (from 0) beside the first one. */
static enum radish_status open_part(const char *first_path, uint32_t no, uint32_t count,
                                    struct gguf **part_out, struct radish_error *err) {
    const size_t len = strlen(first_path), stem = len - SUFFIX_LEN;
    uint32_t part_no, part_count;
    char *path = mem_alloc(len + 16, 1);
    *part_out = NULL;
    if (!path) return error_nomem(err);
    memcpy(path, first_path, stem);
    snprintf(path + stem, SUFFIX_LEN + 16, SUFFIX_FMT, no + 1, count);
    enum radish_status status = gguf_open(path, part_out, err);
    if (status == RADISH_OK) {
        status = read_split_keys(*part_out, &part_no, &part_count, err);
        if (status == RADISH_OK && (part_no != no || part_count != count))
            status = error_set_field(err, RADISH_E_FORMAT, "split.no",
                                     "says it is part %u of %u, but its name says %u of %u",
                                     part_no + 1, part_count, no + 1, count);
        if (status != RADISH_OK) {
            path_prefix_error(err, path);
            gguf_close(*part_out);
            *part_out = NULL;
        }
    }
    free(path);
    return status;
}

static enum radish_status check_tensor_count(struct gguf *const *parts, size_t n,
                                             struct radish_error *err) {
    uint64_t n_tensors = 0;
    uint32_t n_due = UINT32_MAX;
    for (size_t i = 0; i < n; i++) n_tensors += gguf_n_tensors(parts[i]);
    RADISH_TRY(gguf_get_u32(parts[0], "split.tensors.count", &n_due, err));
    if (n_due != UINT32_MAX && n_tensors != n_due)
        return error_set_field(err, RADISH_E_FORMAT, "split.tensors.count",
                               "the parts hold %llu tensors, but key 'split.tensors.count' is %u",
                               (unsigned long long)n_tensors, n_due);
    return RADISH_OK;
}

enum radish_status gguf_split_open(const char *path, struct gguf ***parts_out, size_t *n_out,
                                   struct radish_error *err) {
    struct gguf *first = NULL;
    uint32_t no, count;
    *parts_out = NULL;
    *n_out = 0;
    RADISH_TRY(gguf_open(path, &first, err));
    struct gguf **parts = NULL;
    size_t n = 1;
    enum radish_status status = read_split_keys(first, &no, &count, err);
    const bool is_split = status == RADISH_OK && count > 1;
    if (is_split) status = check_first(path, no, count, err);
    if (status != RADISH_OK) path_prefix_error(err, path);
    if (status == RADISH_OK) {
        parts = mem_zalloc(is_split ? count : 1, sizeof(struct gguf *));
        if (!parts) status = error_nomem(err);
    }
    if (status != RADISH_OK) {
        gguf_close(first);
        return status;
    }
    parts[0] = first;
    for (; is_split && n < count && status == RADISH_OK; n++)
        status = open_part(path, (uint32_t)n, count, &parts[n], err);
    if (status == RADISH_OK && is_split) {
        status = check_tensor_count(parts, n, err);
        if (status != RADISH_OK) path_prefix_error(err, path);
    }
    if (status != RADISH_OK) {
        gguf_split_close(parts, n);
        return status;
    }
    *parts_out = parts;
    *n_out = n;
    return RADISH_OK;
}

void gguf_split_close(struct gguf **parts, size_t n) {
    if (!parts) return;
    for (size_t i = 0; i < n; i++) gguf_close(parts[i]);
    free(parts);
}
