/* spm_normalizer.h - what SentencePiece does to a text before its model sees it: replacements,
 * white space, and U+2581 for every space.
 *
 * Owns: what it keeps of the spec. Threads: immutable after create. */
#ifndef TEXT_SPM_NORMALIZER_H
#define TEXT_SPM_NORMALIZER_H

#include "radish.h"

#include "base/buf.h"
#include "text/tokenizer_spec.h"

struct spm_normalizer;

/* spec: of kind SPEC_NORMALIZER_SENTENCEPIECE. */
enum radish_status spm_normalizer_create(const struct spec_normalizer *spec,
                                         struct spm_normalizer **normalizer_out,
                                         struct radish_error *err) RADISH_CHECK_RESULT;
void spm_normalizer_destroy(struct spm_normalizer *normalizer);

/* Appends the normal form of valid UTF-8 s[0..n). out is empty before. */
void spm_normalizer_run(const struct spm_normalizer *normalizer, const char *s, size_t n,
                        struct buf *out);

#endif
