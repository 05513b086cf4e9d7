/* wordlevel.h - a piece of text is one token, or unknown. See token_model.h for the contract. */
#ifndef TEXT_WORDLEVEL_H
#define TEXT_WORDLEVEL_H

#include "token_model.h"

extern const struct token_model_ops wordlevel_ops;

#endif
