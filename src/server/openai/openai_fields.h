/* openai_fields.h - every request field this server has an opinion on: read, accepted because it
 * cannot change the answer, or refused unless it says what happens anyway. A field that is in no
 * row is unknown: served and reported. Threads: any; the table is constant. */
#ifndef SERVER_OPENAI_FIELDS_H
#define SERVER_OPENAI_FIELDS_H

#include "base/buf.h"
#include "base/json.h"

enum api_shape { API_CHAT = 1, API_COMPLETIONS = 2, API_TOKENIZE = 4, API_DETOKENIZE = 8 };

/* Called once for each unknown member of the request. The name is the client's and may hold
 * anything. */
typedef void (*openai_unknown_fn)(void *user, const char *name);

/* Walks the members of the request object; shapes: API_... bits, a field of any of them is known.
 * E_UNSUPPORTED names the first known field with a value that is not supported, and says what to do
 * instead. */
enum radish_status openai_fields_check(yyjson_val *request, unsigned shapes,
                                       openai_unknown_fn on_unknown, void *user,
                                       struct radish_error *err) RADISH_CHECK_RESULT;

#endif
