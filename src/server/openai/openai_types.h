/* openai_types.h - a request body of OpenAI's API as a struct radish_request.
 *
 * Owns nothing: what a parsed request points to lies in the JSON document and in the arena, both
 * the caller's, both kept until the request is submitted. Threads: one per document. Every failure
 * is a fault of the client, names the field and has status E_INVALID, E_LIMIT or E_UNSUPPORTED
 * (besides E_NOMEM). */
#ifndef SERVER_OPENAI_TYPES_H
#define SERVER_OPENAI_TYPES_H

#include "base/arena.h"
#include "base/json.h"
#include "openai_fields.h"

enum {
    OPENAI_PROMPTS_MAX = 256,
    OPENAI_RID_BYTES_MAX = 128,
    OPENAI_NAMESPACE_BYTES_MAX = 1024,
    OPENAI_PRIORITY_MAX = 1000000000
};

struct openai_params {
    struct radish_request request; /* without prompt, callbacks and user */
    const char *model;             /* or NULL: none was named */
    const char *rid;               /* the id the client wants, or NULL */
    const char *extra_key;  /* prefixes are shared with requests that have the same, or NULL */
    const char *cache_salt; /* the same, under another name: see namespace_key.h */
    bool is_streamed;
    bool has_usage_chunk;     /* stream_options.include_usage */
    bool has_usage_in_chunks; /* stream_options.continuous_usage_stats */
    bool has_echo;
    bool has_special; /* completions: text prompts get the post-processor's tokens */
};

/* Parses the whole body into an object. */
enum radish_status openai_parse_body(const char *body, size_t len, yyjson_doc **doc_out,
                                     struct radish_error *err) RADISH_CHECK_RESULT;

/* Everything but the prompt. defaults: the model's own sampling, for absent or null fields. */
enum radish_status openai_params_read(yyjson_val *root, enum api_shape shape,
                                      const struct radish_sampling *defaults, struct arena *arena,
                                      struct openai_params *params_out,
                                      struct radish_error *err) RADISH_CHECK_RESULT;

/* A list of token ids, at most n_max; empty gives NULL and 0. field names it in messages. */
enum radish_status openai_ids_read(yyjson_val *list, const char *field, size_t n_max,
                                   struct arena *arena, const int32_t **ids_out, size_t *n_out,
                                   struct radish_error *err) RADISH_CHECK_RESULT;

/* The id that a client wants for its reply; the strings that name a namespace, "" being none; and
 * the priority. *out stays where the value is absent. */
enum radish_status openai_rid_read(yyjson_val *val, const char **out,
                                   struct radish_error *err) RADISH_CHECK_RESULT;
enum radish_status openai_namespace_read(yyjson_val *val, const char *name, const char **out,
                                         struct radish_error *err) RADISH_CHECK_RESULT;
enum radish_status openai_priority_read(yyjson_val *root, int32_t *out,
                                        struct radish_error *err) RADISH_CHECK_RESULT;

/* One prompt: text, or ids. */
struct openai_prompt {
    const char *text; /* [text_len], or NULL when ids are given */
    size_t text_len;
    const int32_t *ids; /* [n_ids] */
    size_t n_ids;
};

struct openai_prompts {
    const struct openai_prompt *prompts; /* [n] */
    size_t n;
    bool is_list; /* they came in a list, be it of one */
};

enum { OPENAI_PROMPT_TEXT = 1, OPENAI_PROMPT_IDS = 2, OPENAI_PROMPT_ANY = 3 };

/* The value of the field called name: a string or a list of strings (kind TEXT), a list of ids or a
 * list of lists of ids (kind IDS). */
enum radish_status openai_prompts_read(yyjson_val *val, const char *name, unsigned kinds,
                                       struct arena *arena, struct openai_prompts *prompts_out,
                                       struct radish_error *err) RADISH_CHECK_RESULT;

#endif
