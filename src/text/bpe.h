/* bpe.h - byte-pair encoding: a piece of text becomes its characters' tokens, then neighbours are
 * joined, lowest rank first, until no merge applies.
 *
 * Owns: its vocabulary (only what text can become) and merges. Threads: immutable after create; the
 * scratch belongs to one call. */
#ifndef TEXT_BPE_H
#define TEXT_BPE_H

#include "radish.h"

#include "text/id_list.h"
#include "text/tokenizer_spec.h"

struct bpe;

/* Zero-initialise; free `memory` with free(). Kept between calls for its memory. */
struct bpe_scratch {
    void *memory;
    size_t capacity_bytes;
};

/* is_byte_level: pieces are raw bytes, and the contents of the spec are read through the byte-level
 * alphabet. E_FORMAT: a merge of tokens that the vocabulary lacks, ids out of range. */
enum radish_status bpe_create(const struct tokenizer_spec *spec, bool is_byte_level,
                              struct bpe **bpe_out, struct radish_error *err) RADISH_CHECK_RESULT;
void bpe_destroy(struct bpe *bpe);

/* Appends the ids of one piece (valid UTF-8, or any bytes when byte-level) to out. False: out of
 * memory. */
bool bpe_encode(const struct bpe *bpe, const char *piece, size_t len, struct bpe_scratch *scratch,
                struct id_list *out) RADISH_CHECK_RESULT;

#endif
