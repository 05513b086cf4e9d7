/* spm_bpe.c - merges by score.
 *
 *   symbols  ▁ h e l l o     two neighbours may merge when their text is a piece of the vocabulary;
 *            ▁ h e ll  o     best score first, leftmost of equals: a heap over a linked list
 *
 * A list of merges (bpe.c) can be made from scores, and converters do so, but it is not the same:
 * equal scores go by place and not by rank, characters that are no tokens may merge into one that
 * is, and pieces marked unused are merged through and taken apart again at the end, along the last
 * pair that was seen to make them. So SentencePiece's rule is followed as it stands, on texts.
 * User-defined symbols are cut out first, longest at each place, and never merge.
 *
 * There is no pre-tokenizer: a piece is the whole text. But two characters that stand next to each
 * other in no token can never be joined, so the text is cut between them without changing the
 * result: joins[] has a bit for each pair of (last byte, first byte) that occurs inside a token,
 * where U+2581 counts as a byte of its own. Prose falls apart into words, whose heaps stay in the
 * nearest cache. (With unused pieces within reach the last pair seen depends on the whole text, so
 * it is not cut then.) What does not fall apart costs O(n log n) and 68 bytes per byte of scratch.
 */
#include "spm_bpe.h"

#include "base/mem.h"
#include "base/status.h"
#include "base/utf8.h"
#include "trie.h"
#include "vocab.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { PIECE_BYTES_MAX = 1 << 30, CODE_MARK_LAST = 0xFE, CODE_MARK_FIRST = 0xFF };

#define NONE UINT32_MAX

struct spm_bpe {
    struct vocab pieces;      /* what text may become; keys as written */
    float *scores;            /* [n_ids] */
    bool *is_unused;          /* [n_ids] */
    struct trie user_defined; /* to ids */
    int32_t unk_id;
    int32_t byte_ids[128];     /* of ASCII characters; -1 = none */
    int32_t fallback_ids[256]; /* of "<0x00>"..."<0xFF>"; -1 = none */
    bool has_byte_fallback, has_user_defined, resegments;
    uint8_t joins[256 * 256 / 8];
};

struct symbol {
    uint32_t start, len; /* in the region; len 0: merged away */
    uint32_t prev, next; /* NONE at the ends */
    int32_t id;          /* -1 = not a piece */
};

struct candidate {
    float score;
    uint32_t at;  /* the left symbol */
    uint32_t len; /* of both: another length means that one of them has changed */
    int32_t id;   /* of what they make */
};

/* ---- create, destroy */

static bool is_mark(const char *s, size_t n) {
    return n >= 3 && memcmp(s, "\xE2\x96\x81", 3) == 0;
}

/* The bit of the border between the character that ends before s + at and the one at it. */
static unsigned join_of(const char *s, size_t n, size_t at) {
    unsigned first = is_mark(s + at, n - at) ? CODE_MARK_FIRST : (unsigned char)s[at];
    unsigned last = at >= 3 && is_mark(s + at - 3, 3) ? CODE_MARK_LAST : (unsigned char)s[at - 1];
    return last << 8 | first;
}

static void set_joins(struct spm_bpe *b, const char *s, size_t n) {
    uint32_t c;
    if (!n) return;
    for (size_t at = utf8_decode(s, n, &c); at < n; at += utf8_decode(s + at, n - at, &c)) {
        unsigned join = join_of(s, n, at);
        b->joins[join >> 3] |= (uint8_t)(1u << (join & 7));
    }
}

static bool has_join(const struct spm_bpe *b, const char *s, size_t n, size_t at) {
    unsigned join = join_of(s, n, at);
    return b->joins[join >> 3] >> (join & 7) & 1;
}

/* Two parts that may stand as symbols make s. */
static bool is_reachable(const struct spm_bpe *b, const char *s, size_t n) {
    uint32_t c;
    size_t first = n ? utf8_decode(s, n, &c) : 0;
    for (size_t at = first, len; at < n; at += len) {
        len = utf8_decode(s + at, n - at, &c);
        if ((at == first || vocab_find(&b->pieces, s, at) >= 0) &&
            (at + len == n || vocab_find(&b->pieces, s + at, n - at) >= 0))
            return true;
    }
    return false;
}

static bool is_piece(const struct spec_token *token) {
    return (!token->is_hidden || token->is_unused) && token->content.len;
}

static enum radish_status fill_pieces(struct spm_bpe *b, const struct tokenizer_spec *spec,
                                      struct trie_key *keys, struct radish_error *err) {
    size_t n_keys = 0;
    for (uint32_t i = 0; i < spec->n_tokens; i++) {
        const struct spec_token *token = &spec->tokens[i];
        if (isnan(token->score))
            return error_set(err, RADISH_E_FORMAT, "token %d: its score is not a number",
                             token->id);
        if (!is_piece(token)) continue;
        if (token->content.len > SPEC_ADDED_CONTENT_MAX)
            return error_set(err, RADISH_E_LIMIT, "token %d has %zu bytes; the limit is %d",
                             token->id, token->content.len, SPEC_ADDED_CONTENT_MAX);
        if (!vocab_put(&b->pieces, token->id, token->content.data, token->content.len, true))
            return error_nomem(err);
        b->scores[token->id] = (float)token->score;
        b->is_unused[token->id] = token->is_unused;
        set_joins(b, token->content.data, token->content.len);
        if (token->is_user_defined)
            keys[n_keys++] =
                (struct trie_key){token->content.data, token->content.len, token->id, 0};
    }
    b->has_user_defined = n_keys > 0;
    return trie_init(&b->user_defined, keys, n_keys) ? RADISH_OK : error_nomem(err);
}

static void fill_bytes(struct spm_bpe *b, const struct tokenizer_spec *spec) {
    char name[8];
    for (int i = 0; i < 128; i++) {
        char byte = (char)i;
        b->byte_ids[i] = vocab_find(&b->pieces, &byte, 1);
    }
    for (int i = 0; i < 256; i++) b->fallback_ids[i] = b->unk_id;
    for (uint32_t i = 0; i < spec->n_tokens && b->has_byte_fallback; i++) {
        const struct spec_str *content = &spec->tokens[i].content;
        if (content->len != 6 || memcmp(content->data, "<0x", 3) != 0) continue;
        for (unsigned byte = 0; byte < 256; byte++) {
            snprintf(name, sizeof name, "<0x%02X>", byte);
            if (memcmp(content->data, name, 6) == 0) b->fallback_ids[byte] = spec->tokens[i].id;
        }
    }
}

static enum radish_status fill(struct spm_bpe *b, const struct tokenizer_spec *spec,
                               struct radish_error *err) {
    uint32_t n_ids = 0;
    for (uint32_t i = 0; i < spec->n_tokens; i++)
        if ((uint32_t)spec->tokens[i].id >= n_ids) n_ids = (uint32_t)spec->tokens[i].id + 1;
    if (spec->unk_id < 0 || (uint32_t)spec->unk_id >= n_ids)
        return error_set(err, RADISH_E_FORMAT, "the unknown token %d does not exist", spec->unk_id);
    struct trie_key *keys = mem_alloc(spec->n_tokens, sizeof *keys);
    b->scores = mem_zalloc(n_ids, sizeof *b->scores);
    b->is_unused = mem_zalloc(n_ids, sizeof *b->is_unused);
    enum radish_status status = RADISH_OK;
    if (!keys || !b->scores || !b->is_unused || !vocab_init(&b->pieces, n_ids, spec->n_tokens))
        status = error_nomem(err);
    if (status == RADISH_OK) status = fill_pieces(b, spec, keys, err);
    free(keys);
    if (status != RADISH_OK) return status;
    fill_bytes(b, spec);
    for (uint32_t i = 0; i < spec->n_tokens && !b->resegments; i++)
        b->resegments = spec->tokens[i].is_unused &&
                        is_reachable(b, spec->tokens[i].content.data, spec->tokens[i].content.len);
    return RADISH_OK;
}

static void destroy_spm_bpe(struct token_model *model) {
    struct spm_bpe *b = (struct spm_bpe *)model;
    if (!b) return;
    vocab_deinit(&b->pieces);
    trie_deinit(&b->user_defined);
    free(b->scores);
    free(b->is_unused);
    free(b);
}

static enum radish_status create_spm_bpe(const struct tokenizer_spec *spec, bool is_byte_level,
                                         struct token_model **model_out, struct radish_error *err) {
    *model_out = NULL;
    if (is_byte_level) return error_set(err, RADISH_E_UNSUPPORTED, "byte-level merges by score");
    struct spm_bpe *b = calloc(1, sizeof *b);
    if (!b) return error_nomem(err);
    b->unk_id = spec->unk_id;
    b->has_byte_fallback = spec->has_byte_fallback;
    enum radish_status status = fill(b, spec, err);
    if (status != RADISH_OK) {
        destroy_spm_bpe((struct token_model *)b);
        return status;
    }
    *model_out = (struct token_model *)b;
    return RADISH_OK;
}

/* ---- merging a region */

/* One call of encode. */
struct run {
    const struct spm_bpe *b;
    struct token_scratch *scratch;
    struct id_list *out;
    const char *text;         /* of the region */
    struct symbol *symbols;   /* [n_symbols] */
    struct candidate *heap;   /* [n_heap] best first; room for three per symbol */
    size_t n_symbols, n_heap; /* */
    uint32_t *left_lens;      /* [n_ids] by unused piece: the left part that makes it; or NULL */
    bool was_unk;             /* the last id was the unknown token's */
};

static bool is_before(const struct candidate *a, const struct candidate *b) {
    return a->score > b->score || (a->score == b->score && a->at < b->at);
}

static void heap_push(struct run *r, const struct candidate *c) {
    size_t i = r->n_heap++;
    for (; i && is_before(c, &r->heap[(i - 1) / 2]); i = (i - 1) / 2) {
        r->heap[i] = r->heap[(i - 1) / 2];
        r->scratch->n_operations++;
    }
    r->heap[i] = *c;
}

static struct candidate heap_pop(struct run *r) {
    struct candidate top = r->heap[0], last = r->heap[--r->n_heap];
    size_t i = 0;
    for (size_t child; (child = 2 * i + 1) < r->n_heap; i = child) {
        if (child + 1 < r->n_heap && is_before(&r->heap[child + 1], &r->heap[child])) child++;
        if (!is_before(&r->heap[child], &last)) break;
        r->heap[i] = r->heap[child];
        r->scratch->n_operations++;
    }
    r->heap[i] = last;
    return top;
}

/* Offers the pair that starts at symbol `at`. */
static void offer(struct run *r, uint32_t at) {
    const struct symbol *left = &r->symbols[at];
    if (left->next == NONE) return;
    uint32_t len = left->len + r->symbols[left->next].len;
    int32_t id = vocab_find(&r->b->pieces, r->text + left->start, len);
    r->scratch->n_operations++;
    if (id < 0) return;
    heap_push(r, &(struct candidate){r->b->scores[id], at, len, id});
    if (r->left_lens && r->b->is_unused[id]) r->left_lens[id] = left->len;
}

static void merge_all(struct run *r) {
    for (size_t i = 0; i < r->n_symbols; i++) offer(r, (uint32_t)i);
    while (r->n_heap) {
        const struct candidate top = heap_pop(r);
        struct symbol *left = &r->symbols[top.at];
        if (!left->len || left->next == NONE) continue;
        struct symbol *right = &r->symbols[left->next];
        if (left->len + right->len != top.len) continue; /* stale */
        left->len = top.len;
        left->id = top.id;
        left->next = right->next;
        right->len = 0;
        if (left->next != NONE) r->symbols[left->next].prev = top.at;
        if (left->prev != NONE) offer(r, left->prev);
        offer(r, top.at);
    }
}

/* ---- ids */

static void push_unknown(struct run *r, const char *s, size_t len) {
    const struct spm_bpe *b = r->b;
    if (!b->has_byte_fallback && !r->was_unk) id_list_push(r->out, b->unk_id);
    for (size_t i = 0; i < len && b->has_byte_fallback; i++)
        id_list_push(r->out, b->fallback_ids[(unsigned char)s[i]]);
    r->was_unk = true;
}

/* Unused pieces are taken apart, left part first. The stack is bounded: each level is shorter. */
static void push_piece(struct run *r, const char *s, size_t len, int32_t id) {
    uint32_t left = id >= 0 && r->left_lens && r->b->is_unused[id] ? r->left_lens[id] : 0;
    while (left) {
        push_piece(r, s, left, vocab_find(&r->b->pieces, s, left));
        s += left;
        len -= left;
        id = vocab_find(&r->b->pieces, s, len);
        left = id >= 0 && r->b->is_unused[id] ? r->left_lens[id] : 0;
    }
    if (id < 0 || r->b->is_unused[id]) {
        push_unknown(r, s, len);
        return;
    }
    id_list_push(r->out, id);
    r->was_unk = id == r->b->unk_id;
}

/* Room for len symbols and their heap. */
static bool reserve(struct run *r, size_t len) {
    size_t bytes = len * (sizeof(struct symbol) + 3 * sizeof(struct candidate));
    if (bytes > r->scratch->capacity_bytes) {
        void *memory = realloc(r->scratch->memory, bytes);
        if (!memory) return false;
        r->scratch->memory = memory;
        r->scratch->capacity_bytes = bytes;
    }
    r->heap = r->scratch->memory;
    r->symbols = (struct symbol *)(r->heap + 3 * len);
    return true;
}

static bool encode_region(struct run *r, const char *s, size_t len) {
    size_t n = 0;
    if (!len) return true;
    if (!reserve(r, len)) return false;
    r->text = s;
    for (size_t at = 0, char_len; at < len; at += char_len, n++) {
        uint32_t c;
        char_len = utf8_decode(s + at, len - at, &c);
        r->symbols[n] = (struct symbol){
            .start = (uint32_t)at,
            .len = (uint32_t)char_len,
            .prev = n ? (uint32_t)n - 1 : NONE,
            .next = at + char_len < len ? (uint32_t)n + 1 : NONE,
            .id = c < 0x80 ? r->b->byte_ids[c] : vocab_find(&r->b->pieces, s + at, char_len)};
    }
    r->n_symbols = n;
    merge_all(r);
    for (uint32_t i = 0; i != NONE; i = r->symbols[i].next)
        push_piece(r, s + r->symbols[i].start, r->symbols[i].len, r->symbols[i].id);
    return true;
}

static bool encode_regions(struct run *r, const char *s, size_t len) {
    size_t start = 0;
    for (size_t at = 0, n; at < len; at += n) {
        uint32_t c;
        int32_t id = -1;
        n = r->b->has_user_defined ? trie_longest(&r->b->user_defined, s + at, len - at, &id) : 0;
        if (n || (at > start && !r->left_lens && !has_join(r->b, s, len, at))) {
            if (!encode_region(r, s + start, at - start)) return false;
            start = at;
        }
        if (n) {
            id_list_push(r->out, id);
            r->was_unk = false;
            start = at + n;
        } else {
            n = utf8_decode(s + at, len - at, &c);
        }
    }
    return encode_region(r, s + start, len - start);
}

static bool encode_piece(const struct token_model *model, const char *piece, size_t len,
                         struct token_scratch *scratch, struct id_list *out) {
    const struct spm_bpe *b = (const struct spm_bpe *)model;
    struct run run = {.b = b, .scratch = scratch, .out = out};
    if (len > PIECE_BYTES_MAX) return false;
    if (b->resegments && !(run.left_lens = mem_zalloc(b->pieces.n_ids, sizeof *run.left_lens)))
        return false;
    bool ok = encode_regions(&run, piece, len);
    free(run.left_lens);
    return ok && !out->failed;
}

const struct token_model_ops spm_bpe_ops = {create_spm_bpe, destroy_spm_bpe, encode_piece};
