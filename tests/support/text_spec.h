/* text_spec.h - small tokenizers made in memory, for tests of text/. */
#ifndef SUPPORT_TEXT_SPEC_H
#define SUPPORT_TEXT_SPEC_H

#include "radish.h"

#include "text/tokenizer_spec.h"

#include <string.h>

/* A byte-level vocabulary: ids 0..255 are the bytes, then one id per merge of SPEC_TOY_MERGES, then
 * the added tokens "<|end|>" (special) and "<tool>" (not). */
enum { TOY_MERGES = 12, TOY_END = 256 + TOY_MERGES, TOY_TOOL, TOY_IDS };

struct toy {
    struct tokenizer_spec spec;
    struct spec_token tokens[256 + TOY_MERGES];
    struct spec_merge merges[TOY_MERGES];
    struct spec_added added[2];
    struct spec_pretokenizer pretokenizers[2];
    struct spec_decoder decoders[1];
    char text[256 + TOY_MERGES][32];
};

/* Fills *toy; its pointers point into itself. */
void toy_init(struct toy *toy);

/* A SentencePiece-like vocabulary: "<unk>", "<s>", "<0x00>".."<0xFF>" at 2..257, then "▁" and the
 * letters a..e, and merges of them; byte fallback; the decoder of Llama 2. */
enum { SPM_BYTE = 2, SPM_MARK = 258, SPM_A, SPM_MERGES = 6, SPM_IDS = SPM_A + 5 + SPM_MERGES };

struct spm {
    struct tokenizer_spec spec;
    struct spec_token tokens[SPM_IDS];
    struct spec_merge merges[SPM_MERGES];
    struct spec_added added[2];
    struct spec_normalizer normalizers[2];
    struct spec_decoder decoders[4];
    char text[SPM_IDS][32];
};

void spm_init(struct spm *spm);

static inline struct spec_str spec_str(const char *s) {
    return (struct spec_str){s, strlen(s)};
}

#endif
