/* jinja_lexer.h - template source to tokens, with Jinja's rules for white space already applied.
 *
 * Tokens point into the source. Threads: one at a time. */
#ifndef JINJA_LEXER_H
#define JINJA_LEXER_H

#include "radish.h"

#include "base/arena.h"

enum jinja_token_type {
    JINJA_T_EOF,
    JINJA_T_DATA,
    JINJA_T_BLOCK_BEGIN,
    JINJA_T_BLOCK_END,
    JINJA_T_VARIABLE_BEGIN,
    JINJA_T_VARIABLE_END,
    JINJA_T_NAME,
    JINJA_T_STRING, /* with its quotes */
    JINJA_T_INTEGER,
    JINJA_T_FLOAT,
    /* operators */
    JINJA_T_ADD,
    JINJA_T_SUB,
    JINJA_T_MUL,
    JINJA_T_DIV,
    JINJA_T_FLOORDIV,
    JINJA_T_MOD,
    JINJA_T_POW,
    JINJA_T_TILDE,
    JINJA_T_EQ,
    JINJA_T_NE,
    JINJA_T_GT,
    JINJA_T_GE,
    JINJA_T_LT,
    JINJA_T_LE,
    JINJA_T_ASSIGN,
    JINJA_T_DOT,
    JINJA_T_COLON,
    JINJA_T_PIPE,
    JINJA_T_COMMA,
    JINJA_T_SEMICOLON,
    JINJA_T_LPAREN,
    JINJA_T_RPAREN,
    JINJA_T_LBRACKET,
    JINJA_T_RBRACKET,
    JINJA_T_LBRACE,
    JINJA_T_RBRACE
};

struct jinja_token {
    uint8_t type; /* enum jinja_token_type */
    uint32_t line;
    uint32_t len;
    const char *s; /* [len] */
};

/* source[0..len): line ends are '\n' and the last one is gone (jinja_normalize()). tokens_out: in
 * the arena, ended by JINJA_T_EOF. E_TEMPLATE names the line; E_LIMIT. */
enum radish_status jinja_lex(struct arena *arena, const char *source, size_t len,
                             struct jinja_token **tokens_out, size_t *n_out,
                             struct radish_error *err) RADISH_CHECK_RESULT;

/* A copy in the arena with "\r\n" and "\r" as "\n", without one last line end. NULL: no memory. */
const char *jinja_normalize(struct arena *arena, const char *source, size_t len, size_t *len_out);

const char *jinja_token_name(enum jinja_token_type type); /* as Jinja calls it in messages */

#endif
