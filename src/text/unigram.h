/* unigram.h - the Unigram model: of all ways to cut a piece of text into tokens, the most probable.
 * See token_model.h for the contract. */
#ifndef TEXT_UNIGRAM_H
#define TEXT_UNIGRAM_H

#include "token_model.h"

extern const struct token_model_ops unigram_ops;

#endif
