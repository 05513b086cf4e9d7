/* token_model.c - the table of algorithms. A new one is a row of SPEC_MODEL_TABLE, a line here and
 * a file.
 *
 * A table and not a registration at start-up: what is in the program is seen in one place, and
 * nothing runs before main(). */
#include "token_model.h"

#include "bpe.h"
#include "spm_bpe.h"
#include "unigram.h"
#include "wordlevel.h"
#include "wordpiece.h"

const struct token_model_ops *token_model_of_kind(enum spec_model_kind kind) {
    static const struct token_model_ops *const kinds[SPEC_MODEL_COUNT] = {
        [SPEC_MODEL_BPE] = &bpe_ops,
        [SPEC_MODEL_UNIGRAM] = &unigram_ops,
        [SPEC_MODEL_SPM_BPE] = &spm_bpe_ops,
        [SPEC_MODEL_WORDPIECE] = &wordpiece_ops,
        [SPEC_MODEL_WORDLEVEL] = &wordlevel_ops,
    };
    return kinds[kind];
}
