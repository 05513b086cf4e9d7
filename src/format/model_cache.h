/* model_cache.h - the user's folder of models, and what a bare name means in it.
 *
 *   $RADISH_CACHE, else $XDG_CACHE_HOME/radish/models, else ~/.cache/radish/models
 *     SmolLM2-135M-Instruct-Q4_1.gguf        "SmolLM2-135M-Instruct-Q4_1", with or without .gguf
 *     Qwen/Qwen3-0.6B/config.json ...        "Qwen/Qwen3-0.6B", or "Qwen3-0.6B" where that is
 * unique Qwen/Qwen3-0.6B@v1.0/config.json ...   "Qwen/Qwen3-0.6B@v1.0": another revision than main
 *     org/small-GGUF/small-Q8_0.gguf ...     "org/small-GGUF:Q8_0"; without :Q8_0 where it is the
 * only one
 *
 * What is not there is also looked for in the cache of the huggingface_hub package ($HF_HUB_CACHE,
 * $HF_HOME/hub, ~/.cache/huggingface/hub), which is only read.
 *
 * Threads: any, as long as nobody changes the environment. */
#ifndef FORMAT_MODEL_CACHE_H
#define FORMAT_MODEL_CACHE_H

#include "radish.h"

/* "ORG/NAME@REVISION:QUANT", taken apart. */
struct model_name {
    char repo[256];     /* "ORG/NAME" or "NAME" */
    char revision[128]; /* "" = main; may hold '/', as refs/pr/1 does */
    char quant[64];     /* "" = not said */
};

/* Whether text can be a name in the cache: NAME or ORG/NAME, then perhaps @REVISION, then perhaps
 * :QUANT. No part is empty, "." or "..", so a name never leaves the folder that it is looked up in.
 * False leaves *name_out empty. */
bool model_name_parse(const char *text, struct model_name *name_out);
bool model_cache_is_name(const char *name);

/* "ORG/NAME" or "ORG/NAME@REVISION" as a path below the cache's folder: a '/' in the revision is
 * written "--". NULL when out of memory; caller frees with free(). */
char *model_name_folder(const struct model_name *name);

/* The cache's folder, whether it exists or not. E_NOT_FOUND when the environment names none (no
 * HOME). Caller frees with free(). */
enum radish_status model_cache_folder(char **path_out,
                                      struct radish_error *err) RADISH_CHECK_RESULT;

/* The folder of huggingface_hub's cache, or NULL: the environment names none, or out of memory.
 * Caller frees with free(). */
char *model_cache_foreign_folder(void);

/* The path of a cached model: a folder or a .gguf file. E_NOT_FOUND names the folder that was
 * searched and what to do; E_INVALID lists the models that an ambiguous name may mean. Caller frees
 * with free(). */
enum radish_status model_cache_find(const char *name, char **path_out,
                                    struct radish_error *err) RADISH_CHECK_RESULT;

/* The same in a given folder, and, unless NULL, in a given cache of huggingface_hub. */
enum radish_status model_cache_find_in(const char *folder, const char *foreign, const char *name,
                                       char **path_out,
                                       struct radish_error *err) RADISH_CHECK_RESULT;

/* ---- what is there ---- */

struct model_cache_entry {
    char *name; /* what to type as MODEL */
    char *path;
    uint64_t bytes;  /* of all its files */
    bool is_foreign; /* in huggingface_hub's cache */
};

struct model_cache_list {
    struct model_cache_entry *entries; /* [n] sorted by name */
    size_t n;
};

/* All models of both caches (foreign may be NULL); folders that do not exist hold none. E_NOMEM
 * alone. Caller calls model_cache_list_deinit() in every case. */
enum radish_status model_cache_list_in(const char *folder, const char *foreign,
                                       struct model_cache_list *list_out,
                                       struct radish_error *err) RADISH_CHECK_RESULT;
void model_cache_list_deinit(struct model_cache_list *list);

/* ---- names of GGUF files ---- */

enum { MODEL_QUANT_MAX = 64 };

/* What follows the last '-' or '.' of a GGUF file's name without its suffixes: "Q4_K_M" of
 * "x/Small-1B-Q4_K_M-00001-of-00003.gguf", "UD-Q4_K_XL" of "Small-UD-Q4_K_XL.gguf". */
void model_quant_of(const char *path, char quant_out[MODEL_QUANT_MAX]);

/* The number of a part, "x-00002-of-00005.gguf", else 1; *stem_len_out: bytes of path before that
 * suffix or ".gguf", which all parts share. */
unsigned model_gguf_part(const char *path, size_t *stem_len_out);

/* Whether a file begins a GGUF model: no later part, and no companion of one (a projector for
 * images, an importance matrix). */
bool model_gguf_is_model(const char *path);

/* The same, and it is what :QUANT asks for ("" = any), in upper or lower case: exactly its quant,
 * or, with exact false, its name ends in that after a separator. */
bool model_gguf_is_meant(const char *path, const char *quant, bool exact);

#endif
