/* native_logprobs.h - tokens with their logprobs as SGLang's /generate words them. Threads: any. */
#ifndef SERVER_NATIVE_LOGPROBS_H
#define SERVER_NATIVE_LOGPROBS_H

#include "base/buf.h"
#include "event_log.h"

/* Three parallel lists, as comma-separated items, gathered over any number of records. Zeroed: they
 * are empty. */
struct native_logprobs {
    struct buf tokens; /* [logprob, id, text] of the token itself; logprob null where none is */
    struct buf tops;   /* a list of such triples, best first, or null */
    struct buf named;  /* a list of such triples for the ids that were asked about, or null */
};

void native_logprobs_deinit(struct native_logprobs *lists);

/* Adds a record's tokens; has_text: triples hold the token's text, else null. */
void native_logprobs_add(struct native_logprobs *lists, const struct radish_model *model,
                         const struct event_view *view, bool has_text);

/* ,"SIDE_token_logprobs":[...] and, where they were asked for, ,"SIDE_top_logprobs":[...] and
 * ,"SIDE_token_ids_logprobs":[...]. side: "input" or "output". */
void native_logprobs_write(const struct native_logprobs *lists, const char *side,
                           const struct radish_request *asked, struct buf *out);

#endif
