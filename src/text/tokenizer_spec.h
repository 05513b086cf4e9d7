/* tokenizer_spec.h - what a tokenizer is, as plain data: the contract between those who read files
 * (model/tokenizer_json.c, model/tokenizer_gguf.c) and tokenizer_create().
 *
 * A stage (normalizer, pre-tokenizer, decoder) is a flat list of steps, run in order; a step is a
 * kind and the parameters that kind reads. The kinds are tables, named as tokenizer.json names
 * them: a new kind is a row here and a function in the stage's file.
 * Owns: nothing. All pointers are borrowed; tokenizer_create() copies what it keeps. Contents are
 * valid UTF-8 (tokenizer_create() checks). Threads: any. */
#ifndef TEXT_TOKENIZER_SPEC_H
#define TEXT_TOKENIZER_SPEC_H

#include "radish.h"

#define SPEC_TOKENS_MAX        (1 << 21) /* ids are below this */
#define SPEC_STEPS_MAX         16        /* of one stage */
#define SPEC_ADDED_CONTENT_MAX 1024      /* bytes; keeps the search for added tokens linear */

struct spec_str {
    const char *data; /* [len] UTF-8, no NUL behind it promised; NULL = absent */
    size_t len;
};

/* One entry of the model's vocabulary. */
struct spec_token {
    struct spec_str content; /* as written: byte-level alphabet, "▁", "<0x0A>" and all */
    int32_t id;
    bool is_hidden; /* has an id and decodes, but is never made from text (GGUF: control, unused) */
    bool is_user_defined; /* SentencePiece's BPE: cut out before merging */
    bool is_unused; /* SentencePiece's BPE: merged through, then taken apart; is_hidden as well */
    double score;   /* logarithm of its probability; read by Unigram and SentencePiece's BPE */
};

/* Rank = index in the list; the product is left + right. */
struct spec_merge {
    struct spec_str left, right;
};

/* A token cut out of the text before the model sees it (AddedToken of the tokenizers library). */
struct spec_added {
    struct spec_str content;
    int32_t id;
    bool is_special;                /* left out when decoding with skip_special */
    bool is_normalized;             /* looked for after the normalizer, not before */
    bool is_single_word;            /* only between non-word characters */
    bool strips_left, strips_right; /* takes the white space on that side with it */
};

struct spec_pattern {
    struct spec_str text; /* a literal, or a regular expression in Oniguruma's dialect */
    bool is_regex;
};

/* X(suffix, name in tokenizer.json) */
#define SPEC_NORMALIZER_TABLE(X)                                                                   \
    X(NFC, "NFC")                                                                                  \
    X(NFD, "NFD")                                                                                  \
    X(NFKC, "NFKC")                                                                                \
    X(NFKD, "NFKD")                                                                                \
    X(LOWERCASE, "Lowercase")                                                                      \
    X(STRIP, "Strip")                /* strips_left, strips_right */                               \
    X(STRIP_ACCENTS, "StripAccents") /* drops combining marks */                                   \
    X(PREPEND, "Prepend")            /* content, before any text that is not empty */              \
    X(REPLACE, "Replace")            /* pattern by content */                                      \
    X(BYTE_LEVEL, "ByteLevel")       /* bytes to the byte-level alphabet */                        \
    X(NMT, "Nmt")                    /* control characters go, odd spaces become spaces */         \
    X(BERT, "BertNormalizer")        /* cleans_text, spaces_chinese, strips_accents, lowers */     \
    X(PRECOMPILED, "Precompiled")    /* content: a charsmap, any bytes */

enum spec_normalizer_kind {
#define SPEC_ENUM(suffix, name) SPEC_NORMALIZER_##suffix,
    SPEC_NORMALIZER_TABLE(SPEC_ENUM)
#undef SPEC_ENUM
    /* All of SentencePiece's own (GGUF): content is a charsmap or absent; kept, adds_prefix,
     * removes_spaces. */
    SPEC_NORMALIZER_SENTENCEPIECE,
    SPEC_NORMALIZER_COUNT
};

struct spec_normalizer {
    enum spec_normalizer_kind kind;
    struct spec_pattern pattern;
    struct spec_str content;
    bool strips_left, strips_right;
    bool cleans_text, spaces_chinese, strips_accents, lowers;
    const struct spec_str *kept; /* [n_kept] user-defined symbols: left as they are */
    uint32_t n_kept;
    bool adds_prefix;    /* a space before the text */
    bool removes_spaces; /* at both ends, and all but one of a run */
};

#define SPEC_PRETOKENIZER_TABLE(X)                                                                 \
    X(SPLIT, "Split")                       /* pattern, behavior, is_inverted */                   \
    X(BYTE_LEVEL, "ByteLevel")              /* adds_prefix_space, uses_regex */                    \
    X(DIGITS, "Digits")                     /* is_individual */                                    \
    X(PUNCTUATION, "Punctuation")           /* behavior */                                         \
    X(WHITESPACE, "Whitespace")             /* words and runs of other characters */               \
    X(WHITESPACE_SPLIT, "WhitespaceSplit")  /* at white space, which goes */                       \
    X(CHAR_DELIMITER, "CharDelimiterSplit") /* at pattern (one literal character), which goes */   \
    X(METASPACE, "Metaspace")               /* replacement, prepend, splits */                     \
    X(BERT, "BertPreTokenizer")             /* at white space, which goes; punctuation alone */    \
    X(UNICODE_SCRIPTS, "UnicodeScripts")    /* where the script changes */                         \
    X(FIXED_LENGTH, "FixedLength")          /* every n_chars characters */

enum spec_pretokenizer_kind {
#define SPEC_ENUM(suffix, name) SPEC_PRETOKENIZER_##suffix,
    SPEC_PRETOKENIZER_TABLE(SPEC_ENUM)
#undef SPEC_ENUM
        SPEC_PRETOKENIZER_COUNT
};

/* What becomes of the matches of a split. */
#define SPEC_BEHAVIOR_TABLE(X)                                                                     \
    X(ISOLATED, "Isolated")                                                                        \
    X(REMOVED, "Removed")                                                                          \
    X(MERGED_WITH_PREVIOUS, "MergedWithPrevious")                                                  \
    X(MERGED_WITH_NEXT, "MergedWithNext")                                                          \
    X(CONTIGUOUS, "Contiguous")

enum spec_behavior {
#define SPEC_ENUM(suffix, name) SPEC_BEHAVIOR_##suffix,
    SPEC_BEHAVIOR_TABLE(SPEC_ENUM)
#undef SPEC_ENUM
        SPEC_BEHAVIOR_COUNT
};

enum spec_prepend { SPEC_PREPEND_ALWAYS, SPEC_PREPEND_FIRST, SPEC_PREPEND_NEVER };

struct spec_pretokenizer {
    enum spec_pretokenizer_kind kind;
    struct spec_pattern pattern;
    enum spec_behavior behavior;
    bool is_inverted;
    bool adds_prefix_space;
    bool uses_regex;
    bool is_individual;
    struct spec_str replacement; /* one character */
    enum spec_prepend prepend;
    bool splits;
    uint32_t n_chars;
};

#define SPEC_DECODER_TABLE(X)                                                                      \
    X(BYTE_LEVEL, "ByteLevel")                                                                     \
    X(BYTE_FALLBACK, "ByteFallback") /* "<0x0A>" are bytes */                                      \
    X(FUSE, "Fuse")                  /* all tokens become one */                                   \
    X(REPLACE, "Replace")            /* pattern by content */                                      \
    X(STRIP, "Strip")                /* up to n_start, n_stop times content (one character) */     \
    X(METASPACE, "Metaspace")        /* content (one character) is a space; prepend */             \
    X(WORDPIECE, "WordPiece")        /* content continues words, others are words; cleans_up */    \
    X(BPE, "BPEDecoder")             /* content ends words */                                      \
    X(CTC, "CTC")                    /* repeats and content go, delimiter is a space; cleans_up */

enum spec_decoder_kind {
#define SPEC_ENUM(suffix, name) SPEC_DECODER_##suffix,
    SPEC_DECODER_TABLE(SPEC_ENUM)
#undef SPEC_ENUM
        SPEC_DECODER_COUNT
};

struct spec_decoder {
    enum spec_decoder_kind kind;
    struct spec_pattern pattern;
    struct spec_str content;
    uint32_t n_start, n_stop;
    enum spec_prepend prepend;
    struct spec_str delimiter;
    bool cleans_up; /* English: no space before punctuation and 's */
};

#define SPEC_MODEL_TABLE(X)                                                                        \
    X(BPE, "BPE")                                                                                  \
    X(UNIGRAM, "Unigram")     /* scores, unk_id, unk_score, sums_in_f32 */                         \
    X(WORDPIECE, "WordPiece") /* longest first; prefix, n_word_chars_max */                        \
    X(WORDLEVEL, "WordLevel") /* whole pieces */

enum spec_model_kind {
#define SPEC_ENUM(suffix, name) SPEC_MODEL_##suffix,
    SPEC_MODEL_TABLE(SPEC_ENUM)
#undef SPEC_ENUM
        SPEC_MODEL_SPM_BPE, /* SentencePiece's BPE (GGUF): scores, unk_id */
    SPEC_MODEL_COUNT
};

struct tokenizer_spec {
    enum spec_model_kind model;
    const struct spec_token *tokens; /* [n_tokens], any order; of equal contents the last counts */
    uint32_t n_tokens;
    const struct spec_merge *merges; /* [n_merges] */
    uint32_t n_merges;
    struct spec_str unk;       /* stands for what the vocabulary lacks; absent = that is dropped */
    struct spec_str prefix;    /* continuing_subword_prefix; absent or "" = none */
    struct spec_str suffix;    /* end_of_word_suffix; absent or "" = none */
    uint32_t n_word_chars_max; /* longer pieces are unknown */
    bool fuses_unk, has_byte_fallback, ignores_merges;
    int32_t unk_id;   /* instead of unk, where scores decide; must exist */
    double unk_score; /* of a character that the vocabulary lacks */
    bool sums_in_f32; /* Unigram exactly as SentencePiece computes it */

    const struct spec_added *added; /* [n_added] */
    uint32_t n_added;
    const struct spec_normalizer *normalizers; /* [n_normalizers] */
    uint32_t n_normalizers;
    const struct spec_pretokenizer *pretokenizers; /* [n_pretokenizers] */
    uint32_t n_pretokenizers;
    const struct spec_decoder *decoders; /* [n_decoders]; none = contents joined by spaces */
    uint32_t n_decoders;
    const int32_t *prefix_ids; /* [n_prefix_ids] what the post-processor puts before the text */
    uint32_t n_prefix_ids;
    const int32_t *suffix_ids; /* [n_suffix_ids] and behind it */
    uint32_t n_suffix_ids;
};

#endif
