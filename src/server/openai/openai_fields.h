/* openai_fields.h - every field of OpenAI's endpoints, and of those beside them, that this server
 * has an opinion on. Threads: any; the table is constant. */
#ifndef SERVER_OPENAI_FIELDS_H
#define SERVER_OPENAI_FIELDS_H

#include "field_table.h"

enum api_shape {
    API_CHAT = 1,
    API_COMPLETIONS = 2,
    API_TOKENIZE = 4,
    API_DETOKENIZE = 8,
    API_GENERATE = 16,
    API_STREAM = 32, /* the object stream_options */
    API_ABORT = 64
};

extern const struct field_table openai_fields; /* its shapes are API_... bits */

#endif
