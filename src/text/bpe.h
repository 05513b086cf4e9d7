/* bpe.h - byte-pair encoding: a piece of text becomes its characters' tokens, then neighbours are
 * joined, lowest rank first, until no merge applies. See token_model.h for the contract. */
#ifndef TEXT_BPE_H
#define TEXT_BPE_H

#include "token_model.h"

extern const struct token_model_ops bpe_ops;

#endif
