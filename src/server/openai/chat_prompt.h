/* chat_prompt.h - from the messages of a request to the text that the model reads. Threads: one at
 * a time per exchange. */
#ifndef SERVER_CHAT_PROMPT_H
#define SERVER_CHAT_PROMPT_H

#include "radish.h"

#include <yyjson.h>

struct exchange;

/* Reads messages, tools and what else reaches the chat template (openai_messages.h) from the
 * request object, and renders them. text_out: caller frees with radish_free(). What fails is the
 * client's fault, with exchange's error_code set: E_UNSUPPORTED where the model has no template
 * that works, E_TEMPLATE with the template's own words, E_INVALID, E_LIMIT. */
enum radish_status chat_prompt_make(struct exchange *ex, yyjson_val *root, char **text_out,
                                    size_t *len_out, struct radish_error *err) RADISH_CHECK_RESULT;

#endif
