/* native_reply.h - events as SGLang's /generate words them: an object or a list of them, or a
 * stream whose every chunk says all that came so far. Threads: one at a time per generation. */
#ifndef SERVER_NATIVE_REPLY_H
#define SERVER_NATIVE_REPLY_H

#include "generation.h"

extern const struct reply_format native_reply_format;

#endif
