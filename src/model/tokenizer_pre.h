/* tokenizer_pre.h - how the models behind each name of tokenizer.ggml.pre split their text.
 *
 * Owns: nothing; the rows are static. Threads: any. */
#ifndef MODEL_TOKENIZER_PRE_H
#define MODEL_TOKENIZER_PRE_H

#include "radish.h"

#include "text/tokenizer_spec.h"

struct tokenizer_pre {
    const char *name;
    const struct spec_pretokenizer *steps; /* [n_steps] */
    uint32_t n_steps;
    bool has_nfc;        /* text is normalised first */
    bool ignores_merges; /* a whole piece that is a token stays whole */
    bool adds_bos;       /* unless the file says otherwise */
};

const struct tokenizer_pre *tokenizer_pre_find(const char *name, size_t len); /* NULL = unknown */

/* For messages: all of them, in order. NULL behind the last. */
const struct tokenizer_pre *tokenizer_pre_row(size_t idx);

#endif
