/* native_request.h - a body of SGLang's /generate as requests to the engine, one per prompt.
 *
 * Owns nothing: what it points to lies in the JSON document and in the arena, both the caller's.
 * Threads: one per document. Every failure is a fault of the client and names the field. */
#ifndef SERVER_NATIVE_REQUEST_H
#define SERVER_NATIVE_REQUEST_H

#include "field_table.h"
#include "openai_types.h"

/* What is asked of one prompt. */
struct native_call {
    struct radish_request asked; /* without prompt, callbacks, user and namespace */
    const char *rid;             /* or NULL */
    const char *extra_key, *cache_salt;
    bool has_token_text;   /* return_text_in_logprobs */
    bool has_max;          /* max_new_tokens was given: else it yields to the context */
    int64_t logprobs_from; /* logprob_start_len; -1: the end of the prompt */
};

struct native_request {
    struct openai_prompts prompts;
    const char *prompts_field; /* "text" or "input_ids" */
    struct native_call *calls; /* [prompts.n] */
    const char *rid;           /* one string for all of it, or NULL */
    bool is_streamed;
};

/* Checks every field of the body and of its sampling_params, and reads them. defaults: the model's
 * own sampling. */
enum radish_status native_request_read(yyjson_val *root, const struct radish_sampling *defaults,
                                       struct arena *arena, field_unknown_fn on_unknown, void *user,
                                       struct native_request *request_out,
                                       struct radish_error *err) RADISH_CHECK_RESULT;

#endif
