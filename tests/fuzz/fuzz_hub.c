/* fuzz: hub
 * fuzz_hub.c - the hub's answers: info and tree, and what is then chosen of them. Whatever comes
 * in, every path of a listing is safe, a refusal says why, and nothing is left allocated. */
#include "hub/hub_select.h"

#include <stdlib.h>
#include <string.h>

static void choose(const struct hub_listing *listing, const char *quant,
                   struct hub_patterns includes) {
    struct radish_error err = {0};
    char *choices = NULL;
    bool *wanted = calloc(listing->n + 1, sizeof *wanted);
    if (!wanted) return;
    if (hub_select(listing, "org/name", quant, includes, (struct hub_patterns){0}, wanted, &choices,
                   &err) &&
        !*err.msg)
        abort();
    free(choices);
    free(wanted);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    static const char *const patterns[] = {"*.gguf", "[!a]*"};
    for (int is_tree = 0; is_tree <= 1; is_tree++) {
        struct hub_listing listing = {0};
        struct radish_error err = {0};
        const char *json = (const char *)data;
        const enum radish_status status = is_tree
                                              ? hub_listing_read_tree(json, size, &listing, &err)
                                              : hub_listing_read_info(json, size, &listing, &err);
        if (status && !*err.msg) abort();
        for (size_t i = 0; i < listing.n; i++)
            if (!hub_path_is_safe(listing.files[i].path)) abort();
        if (!status) {
            choose(&listing, "", (struct hub_patterns){0});
            choose(&listing, "Q4_0", (struct hub_patterns){0});
            choose(&listing, "", (struct hub_patterns){patterns, 2});
        }
        hub_listing_deinit(&listing);
    }
    return 0;
}
