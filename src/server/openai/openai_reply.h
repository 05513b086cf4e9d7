/* openai_reply.h - events as OpenAI's API words them: chunks of a stream, or one body; chat or
 * completions. Works on the formatting side of a generation. Threads: one at a time per generation.
 */
#ifndef SERVER_OPENAI_REPLY_H
#define SERVER_OPENAI_REPLY_H

#include "generation.h"

/* Appends the frames ("data: {...}\n\n") that the events in g->log make to g->out, and empties
 * g->log. Events of one choice that came together become one chunk. */
void openai_reply_write_chunks(struct generation *g);

/* Appends what ends a stream: the error if there was one, the usage chunk if asked for, [DONE]. */
void openai_reply_write_end(struct generation *g);

/* Appends the whole reply of a generation that is not streamed; g->log holds all its events. */
void openai_reply_write_body(struct generation *g, struct buf *out);

#endif
