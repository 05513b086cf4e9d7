/* model_cache_scan.h - the inside of model_cache*.c: what files a folder holds, and which model of
 * it is meant. Threads: any. */
#ifndef FORMAT_MODEL_CACHE_SCAN_H
#define FORMAT_MODEL_CACHE_SCAN_H

#include "format/model_cache.h"

struct scan_file {
    char *path; /* below the folder: "a/b.gguf" */
    uint64_t bytes;
};

struct scan {
    struct scan_file *files; /* [n] sorted by path */
    size_t n, capacity;
};

/* Regular files of folder and of folders in it, two levels deep, without those that begin with '.';
 * links are followed. A folder that cannot be read holds none. E_NOMEM alone. scan_deinit() is due
 * in every case. */
enum radish_status scan_folder(const char *folder, struct scan *scan_out,
                               struct radish_error *err) RADISH_CHECK_RESULT;
void scan_deinit(struct scan *scan);

/* Names of folders (of files too, with `files`) in folder, sorted, without those that begin with
 * '.'; `bytes` is 0. Otherwise as above. */
enum radish_status scan_names(const char *folder, bool files, struct scan *scan_out,
                              struct radish_error *err) RADISH_CHECK_RESULT;

bool scan_has_safetensors(const struct scan *scan); /* at the top */

/* The model of `folder` that quant ("" = not said) means: the folder itself, or one of its GGUF
 * files. `shown` is the name without quant, for errors. Caller frees *path_out with free(). */
enum radish_status scan_pick(const char *folder, const char *quant, const char *shown,
                             char **path_out, struct radish_error *err) RADISH_CHECK_RESULT;

#endif
