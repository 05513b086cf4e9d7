/* hub_select.c - the few files of a repository that a server needs.
 *
 * A repository often holds the same weights several times: PyTorch's pickles beside safetensors,
 * ONNX exports, "consolidated" files, twenty quantisations. Fetching everything would cost tens of
 * gigabytes that are never read; so without --include only what model_file.c opens is taken: the
 * metadata files at the top, model.safetensors or else its shards, or one GGUF model.
 *
 * Where a choice between quantisations is needed it is asked for, never made: which one fits
 * depends on the machine, and a wrong guess is a long download. The refusal lists what there is
 * with sizes. hub_select() has eight parameters: two lists of patterns and two results are what the
 * question consists of. */
#include "hub_select.h"

#include "base/buf.h"
#include "base/status.h"
#include "format/model_cache.h"

#include <fnmatch.h>
#include <string.h>

static bool ends_in(const char *path, const char *suffix) {
    const size_t n = strlen(path), m = strlen(suffix);
    return n >= m && !strcmp(path + n - m, suffix);
}

static bool matches(struct hub_patterns patterns, const char *path) {
    for (size_t i = 0; i < patterns.n; i++)
        if (fnmatch(patterns.items[i], path, 0) == 0) return true;
    return false;
}

/* ---- safetensors ---- */

static bool is_metadata(const char *path) {
    static const char *const names[] = {"config.json",        "generation_config.json",
                                        "tokenizer.json",     "tokenizer_config.json",
                                        "tokenizer.model",    "special_tokens_map.json",
                                        "added_tokens.json",  "vocab.json",
                                        "merges.txt",         "chat_template.jinja",
                                        "chat_template.json", "model.safetensors.index.json"};
    for (size_t i = 0; i < sizeof names / sizeof *names; i++)
        if (!strcmp(path, names[i])) return true;
    return false;
}

static bool is_weights(const char *path, bool has_single) {
    if (has_single) return !strcmp(path, "model.safetensors");
    return !strchr(path, '/') && ends_in(path, ".safetensors") &&
           strncmp(path, "consolidated", 12) != 0;
}

/* Whether there are safetensors; then they and the metadata are marked. */
static bool select_safetensors(const struct hub_listing *listing, bool *wanted) {
    const bool has_single = hub_listing_find(listing, "model.safetensors") != NULL;
    bool found = false;
    for (size_t i = 0; i < listing->n; i++) {
        const char *path = listing->files[i].path;
        const bool weights = is_weights(path, has_single);
        found = found || weights;
        wanted[i] = weights || is_metadata(path);
        if (has_single && ends_in(path, ".index.json")) wanted[i] = false;
    }
    return found;
}

/* ---- GGUF ---- */

static size_t count_meant(const struct hub_listing *listing, const char *quant, bool exact,
                          size_t *first_out) {
    size_t n = 0;
    for (size_t i = 0; i < listing->n; i++)
        if (model_gguf_is_meant(listing->files[i].path, quant, exact) && !n++) *first_out = i;
    return n;
}

/* Whether file i is the GGUF model `first` or a part of it. */
static bool is_part_of(const struct hub_listing *listing, size_t i, size_t first) {
    size_t stem, stem_first;
    const char *path = listing->files[i].path, *path_first = listing->files[first].path;
    if (i == first) return true;
    if (!ends_in(path, ".gguf")) return false;
    model_gguf_part(path, &stem);
    model_gguf_part(path_first, &stem_first);
    return stem == stem_first && path[stem] == '-' && path_first[stem] == '-' &&
           !strncmp(path, path_first, stem);
}

/* One line for each GGUF model that `quant` may mean: its quant, its size, its file. */
static char *list_choices(const struct hub_listing *listing, const char *quant) {
    struct buf text;
    buf_init(&text, 1 << 20);
    for (size_t i = 0; i < listing->n; i++) {
        char own[MODEL_QUANT_MAX];
        uint64_t bytes = 0;
        if (!model_gguf_is_meant(listing->files[i].path, quant, /*exact=*/false)) continue;
        for (size_t j = 0; j < listing->n; j++)
            if (is_part_of(listing, j, i)) bytes += listing->files[j].bytes;
        model_quant_of(listing->files[i].path, own);
        buf_printf(&text, "  %-16s %8.2f GB  %s\n", own, (double)bytes / 1e9,
                   listing->files[i].path);
    }
    return buf_take(&text, NULL);
}

static enum radish_status select_gguf(const struct hub_listing *listing, const char *name,
                                      const char *quant, bool *wanted, char **choices_out,
                                      struct radish_error *err) {
    size_t first = 0, n = *quant ? count_meant(listing, quant, /*exact=*/true, &first) : 0;
    char own[MODEL_QUANT_MAX];
    if (!n) n = count_meant(listing, quant, /*exact=*/false, &first);
    if (n == 1) {
        for (size_t i = 0; i < listing->n; i++) wanted[i] = is_part_of(listing, i, first);
        return RADISH_OK;
    }
    if (n) {
        model_quant_of(listing->files[first].path, own);
        *choices_out = list_choices(listing, quant);
        return error_set(err, RADISH_E_INVALID,
                         "%.100s holds %zu GGUF models; say which, like %.100s:%s (or with "
                         "--include PATTERN)",
                         name, n, name, own);
    }
    if (count_meant(listing, "", /*exact=*/false, &first)) {
        *choices_out = list_choices(listing, "");
        return error_set(err, RADISH_E_NOT_FOUND, "%.100s has no GGUF model of %.60s", name, quant);
    }
    if (*quant)
        return error_set(err, RADISH_E_NOT_FOUND,
                         "%.100s holds no GGUF files, so :%.60s means "
                         "nothing here",
                         name, quant);
    return error_set(err, RADISH_E_NOT_FOUND,
                     "%.100s holds neither safetensors nor GGUF files, so there is nothing that "
                     "radish can serve; --include PATTERN fetches files all the same",
                     name);
}

enum radish_status hub_select(const struct hub_listing *listing, const char *name,
                              const char *quant, struct hub_patterns includes,
                              struct hub_patterns excludes, bool *wanted_out, char **choices_out,
                              struct radish_error *err) {
    size_t n = 0;
    *choices_out = NULL;
    for (size_t i = 0; i < listing->n; i++)
        wanted_out[i] = includes.n && matches(includes, listing->files[i].path);
    if (!includes.n && (*quant || !select_safetensors(listing, wanted_out)))
        RADISH_TRY(select_gguf(listing, name, quant, wanted_out, choices_out, err));
    for (size_t i = 0; i < listing->n; i++) {
        if (matches(excludes, listing->files[i].path)) wanted_out[i] = false;
        n += wanted_out[i];
    }
    if (n) return RADISH_OK;
    return error_set(err, RADISH_E_NOT_FOUND,
                     "%.100s: none of its %zu files is matched by the patterns", name, listing->n);
}
