/* tokenizer_json.h - fills a tokenizer_spec from Hugging Face's tokenizer.json.
 *
 * Owns: nothing. The spec borrows from both documents and from the arena, and may be forgotten
 * once tokenizer_create() has run. Threads: any. */
#ifndef MODEL_TOKENIZER_JSON_H
#define MODEL_TOKENIZER_JSON_H

#include "radish.h"

#include "base/arena.h"
#include "text/tokenizer_spec.h"

#include <yyjson.h>

/* tokenizer_json is the root of tokenizer.json. tokenizer_config may be NULL; its
 * added_tokens_decoder gives added tokens that tokenizer.json lacks. Truncation and padding are
 * for training and are ignored with a log line. E_UNSUPPORTED names the part (model, normalizer,
 * ...) with what is supported; E_FORMAT names the field at fault. */
enum radish_status tokenizer_json_spec(yyjson_val *tokenizer_json, yyjson_val *tokenizer_config,
                                       struct arena *arena, struct tokenizer_spec *spec_out,
                                       struct radish_error *err) RADISH_CHECK_RESULT;

#endif
