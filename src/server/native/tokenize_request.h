/* tokenize_request.h - what is asked of /tokenize and /detokenize, in the words of llama.cpp's,
 * vLLM's and SGLang's servers. Owns nothing: texts lie in the JSON document, lists in the arena.
 * Threads: one per document. Every failure is the client's, and names the field. */
#ifndef SERVER_TOKENIZE_REQUEST_H
#define SERVER_TOKENIZE_REQUEST_H

#include "openai_types.h"

enum { TOKENIZE_BATCH_MAX = 16384 };

struct tokenize_request {
    const struct openai_prompt *texts; /* [n_texts] of content or prompt */
    size_t n_texts;
    bool is_batch;     /* they came in a list */
    bool has_messages; /* instead of texts */
    bool has_special;  /* the post-processor's tokens are added */
    bool has_pieces;   /* with_pieces: tokens come with their text */
    bool has_names;    /* return_token_strs */
};

/* One of content, prompt and messages, and the switches. */
enum radish_status tokenize_request_read(yyjson_val *root, struct arena *arena,
                                         struct tokenize_request *request_out,
                                         struct radish_error *err) RADISH_CHECK_RESULT;

struct detokenize_request {
    const struct openai_prompt *lists; /* [n_lists] of ids */
    size_t n_lists;
    bool is_batch;
    bool skips_special;
};

/* skips_by_default: what an absent skip_special_tokens means. */
enum radish_status detokenize_request_read(yyjson_val *root, bool skips_by_default,
                                           struct arena *arena,
                                           struct detokenize_request *request_out,
                                           struct radish_error *err) RADISH_CHECK_RESULT;

#endif
