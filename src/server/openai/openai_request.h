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

/* Parses ex->body into an object, refuses fields with values that are not supported, and notes what
 * the client should be warned about. shapes: API_... bits; to API_TOKENIZE with messages belong the
 * fields of a chat, too. Close it also after a failure. */
enum radish_status openai_request_parse(struct openai_request *r, struct exchange *ex,
                                        unsigned shapes,
                                        struct radish_error *err) RADISH_CHECK_RESULT;

/* The same, and reads every field but the prompt. Close it also after a failure. */
enum radish_status openai_request_open(struct openai_request *r, struct exchange *ex,
                                       enum api_shape shape,
                                       struct radish_error *err) RADISH_CHECK_RESULT;
void openai_request_close(struct openai_request *r);

/* E_LIMIT for a text so long that its tokens cannot fit into the context whatever they are: told
 * from its length alone, before time and memory go into encoding it. */
enum radish_status openai_request_check_text(struct exchange *ex, size_t len, const char *field,
                                             struct radish_error *err) RADISH_CHECK_RESULT;

/* E_INVALID for an id that the model lacks. field: where the ids came from. */
enum radish_status openai_request_check_ids(const struct exchange *ex, const int32_t *ids, size_t n,
                                            const char *field,
                                            struct radish_error *err) RADISH_CHECK_RESULT;

/* E_LIMIT, with the numbers, when the prompt leaves no room for a token, or the tokens asked for
 * do not fit behind it. field: where the prompt came from. */
enum radish_status openai_request_check_room(const struct openai_request *r, struct exchange *ex,
                                             const struct call *call, const char *field,
                                             struct radish_error *err) RADISH_CHECK_RESULT;

#endif
