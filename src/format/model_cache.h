/* model_cache.h - the user's folder of models, and what a bare name means in it.
 *
 *   $RADISH_CACHE, else $XDG_CACHE_HOME/radish/models, else ~/.cache/radish/models
 *     SmolLM2-135M-Instruct-Q4_1.gguf        "SmolLM2-135M-Instruct-Q4_1", with or without .gguf
 *     Qwen/Qwen3-0.6B/config.json ...        "Qwen/Qwen3-0.6B"
 *
 * Threads: any, as long as nobody changes the environment. */
#ifndef FORMAT_MODEL_CACHE_H
#define FORMAT_MODEL_CACHE_H

#include "radish.h"

/* The cache's folder, whether it exists or not. E_NOT_FOUND when the environment names none (no
 * HOME). Caller frees with free(). */
enum radish_status model_cache_folder(char **path_out,
                                      struct radish_error *err) RADISH_CHECK_RESULT;

/* Whether this can be a name in the cache: NAME or ORG/NAME, no "." or ".." part, nothing absolute.
 */
bool model_cache_is_name(const char *name);

/* The path of a cached model: a folder or a .gguf file. E_NOT_FOUND names the folder that was
 * searched. Caller frees with free(). */
enum radish_status model_cache_find(const char *name, char **path_out,
                                    struct radish_error *err) RADISH_CHECK_RESULT;

/* The same in a given folder. */
enum radish_status model_cache_find_in(const char *folder, const char *name, char **path_out,
                                       struct radish_error *err) RADISH_CHECK_RESULT;

#endif
