/* normalizer.h - text to the form in which the model's vocabulary is written.
 *
 * Owns: its steps. Threads: immutable after create; the scratch belongs to one call. */
#ifndef TEXT_NORMALIZER_H
#define TEXT_NORMALIZER_H

#include "radish.h"

#include "base/buf.h"
#include "text/tokenizer_spec.h"

struct normalizer;

/* n may be 0: text passes as it is. */
enum radish_status normalizer_create(const struct spec_normalizer *steps, uint32_t n,
                                     struct normalizer **normalizer_out,
                                     struct radish_error *err) RADISH_CHECK_RESULT;
void normalizer_destroy(struct normalizer *normalizer);

/* *result_out: the normal form of text[0..len), valid UTF-8, borrowed from text or from the two
 * buffers of scratch until their next use. first_len: NULL, or how many bytes at the start of text
 * come from the first character of the whole input; it becomes that of the result. */
enum radish_status normalizer_run(const struct normalizer *normalizer, const char *text, size_t len,
                                  struct buf scratch[2], struct spec_str *result_out,
                                  size_t *first_len, struct radish_error *err) RADISH_CHECK_RESULT;

#endif
