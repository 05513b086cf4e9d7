/* added_tokens.c - leftmost-longest search for a few (Llama: 256) to a few thousand (Gemma: 6,414)
 * strings.
 *
 * Contents are sorted. A table by first byte gives the range of candidates, so that text without
 * such bytes is passed over at one look-up per byte; then the range is narrowed byte by byte, by
 * bisection, and the last string that ends on the way is the longest match. No automaton: matches
 * start at rare bytes ('<', '['), and lengths are bounded (SPEC_ADDED_CONTENT_MAX).
 *
 * The rules are those of the tokenizers library: a token that must stand alone (is_single_word) and
 * does not is passed over whole; white space taken along on the left never reaches into what was
 * given out before, and a token that lies wholly in white space that was taken is none. */
#include "added_tokens.h"

#include "base/mem.h"
#include "base/status.h"
#include "base/utf8.h"
#include "unicode.h"

#include <stdlib.h>
#include <string.h>

struct token {
    char *content; /* [len] */
    size_t len;
    uint32_t order; /* in the spec: of equal contents the first counts */
    int32_t id;
    bool is_single_word, strips_left, strips_right;
};

struct added_tokens {
    struct token *tokens; /* [n] sorted by content */
    size_t n;
    uint32_t first[257]; /* tokens that start with byte b: [first[b], first[b + 1]) */
};

static int compare_tokens(const void *a, const void *b) {
    const struct token *x = a, *y = b;
    size_t common = x->len < y->len ? x->len : y->len;
    int order = memcmp(x->content, y->content, common);
    if (order) return order;
    if (x->len != y->len) return x->len < y->len ? -1 : 1;
    return x->order < y->order ? -1 : x->order > y->order;
}

static enum radish_status add(struct added_tokens *tokens, const struct spec_added *spec,
                              const struct normalizer *normalizer, struct buf scratch[2],
                              struct radish_error *err) {
    struct spec_str content = spec->content;
    if (content.len > SPEC_ADDED_CONTENT_MAX)
        return error_set_field(err, RADISH_E_LIMIT, "added_tokens",
                               "an added token of %zu bytes; the limit is %d", content.len,
                               SPEC_ADDED_CONTENT_MAX);
    if (normalizer)
        RADISH_TRY(
            normalizer_run(normalizer, content.data, content.len, scratch, &content, NULL, err));
    if (!content.len) return RADISH_OK;
    struct token *t = &tokens->tokens[tokens->n];
    *t = (struct token){.content = mem_strndup(content.data, content.len),
                        .len = content.len,
                        .order = (uint32_t)tokens->n,
                        .id = spec->id,
                        .is_single_word = spec->is_single_word,
                        .strips_left = spec->strips_left,
                        .strips_right = spec->strips_right};
    if (!t->content) return error_nomem(err);
    tokens->n++;
    return RADISH_OK;
}

static void sort(struct added_tokens *t) {
    size_t kept = 0;
    qsort(t->tokens, t->n, sizeof *t->tokens, compare_tokens);
    for (size_t i = 0; i < t->n; i++) {
        const struct token *last = kept ? &t->tokens[kept - 1] : NULL;
        if (last && last->len == t->tokens[i].len &&
            memcmp(last->content, t->tokens[i].content, last->len) == 0)
            free(t->tokens[i].content);
        else
            t->tokens[kept++] = t->tokens[i];
    }
    t->n = kept;
    for (size_t i = 0; i < t->n; i++) t->first[(unsigned char)t->tokens[i].content[0] + 1]++;
    for (size_t byte = 0; byte < 256; byte++) t->first[byte + 1] += t->first[byte];
}

enum radish_status added_tokens_create(const struct spec_added *added, uint32_t n, bool normalized,
                                       const struct normalizer *normalizer,
                                       struct added_tokens **tokens_out, struct radish_error *err) {
    enum radish_status status = RADISH_OK;
    struct buf scratch[2] = {{0}, {0}};
    *tokens_out = NULL;
    struct added_tokens *t = calloc(1, sizeof *t);
    if (t) t->tokens = mem_zalloc(n, sizeof *t->tokens);
    if (!t || !t->tokens) status = error_nomem(err);
    for (uint32_t i = 0; i < n && status == RADISH_OK; i++)
        if (added[i].is_normalized == normalized)
            status = add(t, &added[i], normalized ? normalizer : NULL, scratch, err);
    buf_deinit(&scratch[0]);
    buf_deinit(&scratch[1]);
    if (status != RADISH_OK) {
        added_tokens_destroy(t);
        return status;
    }
    sort(t);
    *tokens_out = t;
    return RADISH_OK;
}

void added_tokens_destroy(struct added_tokens *t) {
    if (!t) return;
    for (size_t i = 0; t->tokens && i < t->n; i++) free(t->tokens[i].content);
    free(t->tokens);
    free(t);
}

/* ---- search */

/* First token of [low, high) whose byte at `depth` is `byte` or more; all of them agree before it.
 * A token that ends at depth sorts before all. */
static size_t lower_bound(const struct added_tokens *t, size_t low, size_t high, size_t depth,
                          unsigned byte) {
    while (low < high) {
        size_t mid = low + (high - low) / 2;
        const struct token *m = &t->tokens[mid];
        if (m->len <= depth || (unsigned char)m->content[depth] < byte)
            low = mid + 1;
        else
            high = mid;
    }
    return low;
}

/* The longest token that text[0..len), len > 0, starts with, or NULL. */
static const struct token *longest_at(const struct added_tokens *t, const char *text, size_t len,
                                      uint64_t *n_operations) {
    unsigned byte = (unsigned char)text[0];
    size_t low = t->first[byte], high = t->first[byte + 1];
    const struct token *longest = NULL;
    for (size_t depth = 1; low < high; depth++) {
        ++*n_operations;
        if (t->tokens[low].len == depth) longest = &t->tokens[low];
        if (depth == len) break;
        byte = (unsigned char)text[depth];
        low = lower_bound(t, low, high, depth, byte);
        high = lower_bound(t, low, high, depth, byte + 1);
    }
    return longest;
}

/* Start of the last character of s[0..n), n > 0. */
static size_t last_char(const char *s, size_t n, uint32_t *c_out) {
    size_t start = n - 1;
    while (start && ((unsigned char)s[start] & 0xC0) == 0x80) start--;
    utf8_decode(s + start, n - start, c_out);
    return start;
}

static bool stands_alone(const char *text, size_t len, size_t start, size_t end) {
    uint32_t c;
    if (start) {
        last_char(text, start, &c);
        if (unicode_is_word(c)) return false;
    }
    if (end == len) return true;
    utf8_decode(text + end, len - end, &c);
    return !unicode_is_word(c);
}

static void strip(struct added_cursor *cursor, const struct token *token, struct added_cut *cut) {
    uint32_t c;
    while (token->strips_left && cut->start > cursor->start) {
        size_t before = last_char(cursor->text, cut->start, &c);
        if (!unicode_is_space(c)) break;
        cut->start = before;
    }
    if (token->strips_left && cut->start < cursor->start) cut->start = cursor->start;
    if (!token->strips_right) return;
    /* Tokens of white space would each walk the run that they stand in. */
    if (cut->end < cursor->spaces_end) cut->end = cursor->spaces_end;
    while (cut->end < cursor->len) {
        size_t n = utf8_decode(cursor->text + cut->end, cursor->len - cut->end, &c);
        cursor->n_operations++;
        if (!unicode_is_space(c)) break;
        cut->end += n;
    }
    cursor->spaces_end = cut->end;
}

/* The next token at or behind cursor->at. */
static bool find_token(struct added_cursor *cursor, struct added_cut *cut_out) {
    const struct added_tokens *t = cursor->tokens;
    const unsigned char *text = (const unsigned char *)cursor->text;
    while (cursor->at < cursor->len) {
        size_t at = cursor->at;
        const struct token *token = NULL;
        cursor->n_operations++;
        if (t->first[text[at]] != t->first[text[at] + 1])
            token = longest_at(t, cursor->text + at, cursor->len - at, &cursor->n_operations);
        if (!token) {
            cursor->at++;
            continue;
        }
        cursor->at += token->len;
        if (token->is_single_word && !stands_alone(cursor->text, cursor->len, at, cursor->at))
            continue;
        *cut_out = (struct added_cut){at, cursor->at, token->id};
        strip(cursor, token, cut_out);
        if (cut_out->start < cut_out->end) return true;
        cursor->start = cut_out->end; /* it lies in white space that is taken already */
    }
    return false;
}

void added_cursor_start(struct added_cursor *cursor, const struct added_tokens *tokens,
                        const char *text, size_t len) {
    *cursor = (struct added_cursor){.tokens = tokens, .text = text, .len = len, .next.id = -1};
}

bool added_cursor_next(struct added_cursor *cursor, struct added_cut *cut_out) {
    struct added_cut token = cursor->next;
    cursor->next.id = -1;
    if (token.id < 0 && !find_token(cursor, &token)) {
        *cut_out = (struct added_cut){cursor->start, cursor->len, -1};
        cursor->start = cursor->len;
        return cut_out->start < cut_out->end;
    }
    if (cursor->start < token.start) {
        *cut_out = (struct added_cut){cursor->start, token.start, -1};
        cursor->start = token.start;
        cursor->next = token;
        return true;
    }
    *cut_out = token;
    cursor->start = token.end;
    return true;
}
