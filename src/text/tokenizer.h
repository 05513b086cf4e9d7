/* tokenizer.h - text to token ids and back, exactly as the model's makers do it.
 *
 * Pipeline of encoding: added tokens are cut out, then per piece normalizer -> pre-tokenizer ->
 * model; the post-processor adds specials at the end. Made from a struct tokenizer_spec
 * (tokenizer_spec.h), which knows no file format. Owns: everything it needs, copied from the spec.
 * Threads: immutable after creation; encode and decode may run in any number of threads. */
#ifndef TEXT_TOKENIZER_H
#define TEXT_TOKENIZER_H

#include "radish.h"

#include "base/buf.h"

struct tokenizer;
struct tokenizer_spec;

/* E_UNSUPPORTED names the part and what is supported; E_FORMAT what is wrong with it. */
enum radish_status tokenizer_create(const struct tokenizer_spec *spec,
                                    struct tokenizer **tokenizer_out,
                                    struct radish_error *err) RADISH_CHECK_RESULT;
void tokenizer_destroy(struct tokenizer *tokenizer);

uint32_t tokenizer_n_tokens(const struct tokenizer *tokenizer); /* highest id + 1 */

/* ids_out: caller frees with free(); never NULL on success. text must be valid UTF-8: E_INVALID
 * with the offset otherwise. Memory while it runs, with BPE, per byte of the text as normalized: 1
 * or 2 for normal forms, 4 per id, and for the longest part that merges as one (a word; at worst
 * all of the text, when it has no place to cut) 4 for its ids and 14 to merge them: about 24 at
 * worst, 4 in prose. Time: O(n log n) at worst. */
enum radish_status tokenizer_encode(const struct tokenizer *tokenizer, const char *text, size_t len,
                                    bool add_special, int32_t **ids_out, size_t *n_out,
                                    struct radish_error *err) RADISH_CHECK_RESULT;

/* Appends the text of ids to out: valid UTF-8, bytes that are none as U+FFFD. Unknown id:
 * E_INVALID. */
enum radish_status tokenizer_decode(const struct tokenizer *tokenizer, const int32_t *ids, size_t n,
                                    bool skip_special, struct buf *out,
                                    struct radish_error *err) RADISH_CHECK_RESULT;

bool tokenizer_has_id(const struct tokenizer *tokenizer, int32_t id);
bool tokenizer_is_special(const struct tokenizer *tokenizer, int32_t id);

/* The bytes of one token inside running text (added tokens: their content). NULL for an unknown id.
 * Borrowed until destroy. */
const char *tokenizer_token_bytes(const struct tokenizer *tokenizer, int32_t id, size_t *len_out);

size_t tokenizer_token_bytes_max(const struct tokenizer *tokenizer); /* of the longest token */

/* The id of a token by its content as written in the vocabulary or added tokens ("<|im_end|>"); -1
 * = absent. */
int32_t tokenizer_find(const struct tokenizer *tokenizer, const char *content, size_t len);

/* The content of a token as written in the vocabulary; NULL for an unknown id. */
const char *tokenizer_content(const struct tokenizer *tokenizer, int32_t id, size_t *len_out);

#endif
