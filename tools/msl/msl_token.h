/* msl_token.h - preprocessed Metal source as tokens that know their place in the .metal file.
 *
 * Owns: the token array; texts are borrowed from the source, which outlives the tokens. White
 * space is kept as what stands before a token, so that a text written from its tokens has its lines
 * where they were. Line markers of the preprocessor (# 12 "file.metal") give files and lines and
 * are tokens themselves. Threads: one at a time. */
#ifndef MSL_TOKEN_H
#define MSL_TOKEN_H

#include "radish.h"

#define MSL_TOKENS_MAX (4u << 20)
#define MSL_SOURCE_MAX (64u << 20)

enum msl_token_kind {
    MSL_TOKEN_END, /* one, the last: nothing need ask whether there is a next token */
    MSL_TOKEN_NAME,
    MSL_TOKEN_NUMBER,
    MSL_TOKEN_STRING,
    MSL_TOKEN_CHAR,
    MSL_TOKEN_PUNCT,
    MSL_TOKEN_MARKER, /* # 12 "file" */
    MSL_TOKEN_PRAGMA  /* any other line that begins with # */
};

struct msl_token {
    enum msl_token_kind kind;
    uint32_t line;  /* in its file */
    uint32_t n_gap; /* bytes of white space before text */
    uint32_t len;
    const char *text; /* [len] */
    const char *file; /* [n_file], borrowed from the source's markers */
    uint32_t n_file;
};

struct msl_tokens {
    struct msl_token *at; /* [n + 1], the last is MSL_TOKEN_END */
    size_t n;
};

/* Cuts source[0..len) up. E_FORMAT: a string that does not end or a byte that begins no token;
 * E_LIMIT: too long. */
enum radish_status msl_tokens_init(struct msl_tokens *tokens, const char *source, size_t len,
                                   struct radish_error *err) RADISH_CHECK_RESULT;
void msl_tokens_deinit(struct msl_tokens *tokens);

bool msl_token_is(const struct msl_token *token, const char *text); /* never true for a string */
bool msl_token_is_one_of(const struct msl_token *token, const char *const *texts); /* to NULL */
bool msl_token_same(const struct msl_token *a, const struct msl_token *b);

#endif
