/* tokenizer_gguf.h - fills a tokenizer_spec from the tokenizer.ggml.* metadata of a GGUF file.
 *
 * GGUF names the pre-tokenizer (tokenizer.ggml.pre) instead of describing it: the names that are
 * known are a table in the .c file. Owns: nothing; the spec borrows from the file and the arena.
 * Threads: any. */
#ifndef MODEL_TOKENIZER_GGUF_H
#define MODEL_TOKENIZER_GGUF_H

#include "radish.h"

#include "base/arena.h"
#include "format/gguf.h"
#include "text/tokenizer_spec.h"

/* E_UNSUPPORTED names the tokenizer model or the pre-tokenizer with what is supported; E_FORMAT
 * names the key at fault; E_NOT_FOUND when the file has no tokenizer at all. */
enum radish_status tokenizer_gguf_spec(const struct gguf *gguf, struct arena *arena,
                                       struct tokenizer_spec *spec_out,
                                       struct radish_error *err) RADISH_CHECK_RESULT;

#endif
