/* generation_log.h - a generation's events as its reply formats read them: choice by choice. Works
 * on the formatting side. Threads: one at a time per generation. */
#ifndef SERVER_GENERATION_LOG_H
#define SERVER_GENERATION_LOG_H

#include "generation.h"

/* Links the records of g->log by choice, in place, from choice->first_offset on; the prompt's
 * logprobs move to their call. The choices that have news are listed in `list`, as uint32_t. */
void generation_log_link(struct generation *g, struct buf *list);

/* Where the same choice's next record is, or GENERATION_NO_RECORD. */
size_t generation_log_next(const struct event_view *view);

/* The choice of the list's item at byte offset `at`. */
uint32_t generation_log_choice(const struct buf *list, size_t at);

/* Appends what ends every stream: the failure, if there was one, and [DONE]. */
void generation_log_end(struct generation *g);

#endif
