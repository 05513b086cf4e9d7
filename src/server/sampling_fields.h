/* sampling_fields.h - the fields of a request that say how tokens are chosen and where the output
 * ends, under the names of either API. Owns nothing: lists lie in the arena, strings in the JSON
 * document, until the request is submitted. Threads: one per document. */
#ifndef SERVER_SAMPLING_FIELDS_H
#define SERVER_SAMPLING_FIELDS_H

#include "base/arena.h"
#include "base/json.h"

/* What is not called the same everywhere. */
struct sampling_words {
    const char *max;      /* the most tokens of output */
    const char *max_new;  /* another name of it, or NULL */
    uint32_t max_default; /* where neither is given; 0: the rest of the context */
    const char *min;
    const char *seed;
};

/* temperature ... logit_bias, n, lengths, stops and switches into *request, whose sampling is that
 * of absent fields. Every failure is the client's and names the field: E_INVALID, E_LIMIT. */
enum radish_status sampling_fields_read(yyjson_val *root, const struct sampling_words *words,
                                        struct arena *arena, struct radish_request *request,
                                        struct radish_error *err) RADISH_CHECK_RESULT;

#endif
