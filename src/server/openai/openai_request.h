/* openai_request.h - what endpoints with a body have in common: opening it as a checked request,
 * and the rules about token ids and about room in the context. Threads: one at a time. */
#ifndef SERVER_OPENAI_REQUEST_H
#define SERVER_OPENAI_REQUEST_H

#include "generation.h"
#include "openai_messages.h"

struct openai_request {
    yyjson_doc *doc;
    yyjson_val *root; /* an object */
    struct arena arena;
    struct openai_params params;
};

/* Parses ex->body into an object. Close it also after a failure. */
enum radish_status openai_request_begin(struct openai_request *r, struct exchange *ex,
                                        struct radish_error *err) RADISH_CHECK_RESULT;

/* The same, refuses fields with values that are not supported, and notes what the client should be
 * warned about. shapes: API_... bits; to API_TOKENIZE with messages belong the fields of a chat,
 * too. Close it also after a failure. */
enum radish_status openai_request_parse(struct openai_request *r, struct exchange *ex,
                                        unsigned shapes,
                                        struct radish_error *err) RADISH_CHECK_RESULT;

/* Warns about a model that is not served here. */
enum radish_status openai_request_check_model(const struct openai_request *r, struct exchange *ex,
                                              struct radish_error *err) RADISH_CHECK_RESULT;

/* A field_unknown_fn: warns the client, and once the log. user: the exchange. */
void openai_warn_unknown(void *user, const char *name);

/* The same, and reads every field but the prompt. Close it also after a failure. */
enum radish_status openai_request_open(struct openai_request *r, struct exchange *ex,
                                       enum api_shape shape,
                                       struct radish_error *err) RADISH_CHECK_RESULT;
void openai_request_close(struct openai_request *r);

/* The namespace of what it caches, by API key, extra_key and cache_salt (or NULL); and a warning
 * for a priority that has no effect. */
enum radish_status openai_request_place(struct exchange *ex, const char *extra_key,
                                        const char *cache_salt, struct arena *arena,
                                        struct radish_request *request,
                                        struct radish_error *err) RADISH_CHECK_RESULT;

/* The prompt's ids into call->ids: text encoded (flags: RADISH_TOKENIZE_...), ids checked.
 * E_INVALID for an empty one. field: where it came from. */
enum radish_status openai_request_take_prompt(struct exchange *ex,
                                              const struct openai_prompt *prompt, unsigned flags,
                                              const char *field, struct call *call,
                                              struct radish_error *err) RADISH_CHECK_RESULT;

/* E_LIMIT for a text so long that its tokens cannot fit into the context whatever they are: told
 * from its length alone, before time and memory go into encoding it. */
enum radish_status openai_request_check_text(struct exchange *ex, size_t len, const char *field,
                                             struct radish_error *err) RADISH_CHECK_RESULT;

/* E_INVALID for an id that the model lacks. field: where the ids came from. */
enum radish_status openai_request_check_ids(const struct exchange *ex, const int32_t *ids, size_t n,
                                            const char *field,
                                            struct radish_error *err) RADISH_CHECK_RESULT;

/* Whether n prompts can be here at once: a batch that never can must not be told to come again.
 * E_LIMIT with the numbers. */
enum radish_status openai_request_check_batch(struct exchange *ex, size_t n, const char *field,
                                              struct radish_error *err) RADISH_CHECK_RESULT;

/* E_LIMIT, with the numbers, when the prompt leaves no room for a token, or the tokens asked for
 * do not fit behind it. The fields: where the prompt and that number came from. */
enum radish_status openai_request_check_room(struct exchange *ex, const struct call *call,
                                             const char *field, const char *max_field,
                                             struct radish_error *err) RADISH_CHECK_RESULT;

#endif
