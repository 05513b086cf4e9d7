/* hub_select.h - which files of a repository are fetched. Threads: any. */
#ifndef HUB_SELECT_H
#define HUB_SELECT_H

#include "hub_listing.h"

struct hub_patterns {
    const char *const *items; /* [n] as fnmatch() has them; '*' also matches '/' */
    size_t n;
};

/* Marks the wanted files. With includes: what they match. Otherwise what radish needs to serve the
 * model: configuration, tokenizer and safetensors; or one GGUF model, with all its parts, which
 * `quant` ("" = not said) has to name where there are several. Excludes apply after that.
 *
 * wanted_out[listing->n] is the caller's. E_INVALID: there are several GGUF models, and
 * *choices_out (caller frees; else NULL) lists them, one a line; E_NOT_FOUND: nothing is left, or
 * there is nothing to serve. `name` is for messages. */
enum radish_status hub_select(const struct hub_listing *listing, const char *name,
                              const char *quant, struct hub_patterns includes,
                              struct hub_patterns excludes, bool *wanted_out, char **choices_out,
                              struct radish_error *err) RADISH_CHECK_RESULT;

#endif
