/* wordpiece.h - a piece of text is cut from the left into the longest tokens there are, or is
 * unknown as a whole. See token_model.h for the contract. */
#ifndef TEXT_WORDPIECE_H
#define TEXT_WORDPIECE_H

#include "token_model.h"

extern const struct token_model_ops wordpiece_ops;

#endif
