/* bpe_merge.h - the merges of a BPE vocabulary: which neighbours join, in which order, into what.
 *
 * Owns: its tables. Threads: filled once, then immutable. */
#ifndef TEXT_BPE_MERGE_H
#define TEXT_BPE_MERGE_H

#include "radish.h"

#include "text/token_model.h"

#define BPE_MERGES_MAX  ((1u << 22) - 1) /* rank and two ids of SPEC_TOKENS_MAX fill 64 bits */
#define BPE_RANK_NONE   UINT32_MAX
#define BPE_SYMBOLS_MAX ((size_t)1 << 30)

struct bpe_merges {
    uint64_t
        *slots; /* [mask + 1] open addressing: left << 43 | right << 22 | rank; UINT64_MAX = free */
    size_t mask;
    unsigned shift;    /* the hash's upper bits count */
    int32_t *products; /* [n] by rank */
    uint32_t n;
    uint32_t *byte_ranks; /* [65536] by first and second byte; NULL = not set up */
};

/* Room for ranks below n. False: out of memory (deinit is still right). */
bool bpe_merges_init(struct bpe_merges *m, uint32_t n) RADISH_CHECK_RESULT;
void bpe_merges_deinit(struct bpe_merges *m);

/* rank < n. Of equal pairs the last counts. */
void bpe_merges_put(struct bpe_merges *m, int32_t left, int32_t right, uint32_t rank,
                    int32_t product);

/* The rank of every pair of bytes, whose tokens byte_ids[256] are (-1 = none). False: out of
 * memory. */
bool bpe_merges_index_bytes(struct bpe_merges *m, const int32_t *byte_ids) RADISH_CHECK_RESULT;

uint32_t bpe_merges_find(const struct bpe_merges *m, int32_t left, int32_t right);

/* Joins neighbours in ids[0..n), lowest rank first, leftmost of equals, until none is left that
 * merges, in place. bytes[0..n): the bytes that ids stand for, or NULL. *n_out: how many ids are
 * left. False: out of memory. Takes 14 bytes of scratch per symbol when n is large, none when it
 * is small. */
bool bpe_merge(const struct bpe_merges *m, int32_t *ids, size_t n, const unsigned char *bytes,
               struct token_scratch *scratch, size_t *n_out) RADISH_CHECK_RESULT;

#endif
