/* openai_reply.h - events as OpenAI's API words them: chunks of a stream, or one body; chat or
 * completions. Threads: one at a time per generation. */
#ifndef SERVER_OPENAI_REPLY_H
#define SERVER_OPENAI_REPLY_H

#include "generation.h"

extern const struct reply_format openai_reply_format;

#endif
