/* spm_bpe.h - SentencePiece's BPE: merges by the score of what they make, not by a list of pairs.
 * See token_model.h for the contract. */
#ifndef TEXT_SPM_BPE_H
#define TEXT_SPM_BPE_H

#include "token_model.h"

extern const struct token_model_ops spm_bpe_ops;

#endif
