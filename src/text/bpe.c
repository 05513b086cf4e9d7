/* bpe.c - merges by rank, over arrays for words and over a heap for long runs.
 *
 *   "lower"   l o w e r  --(e r: rank 2)-->  l o w er  --(l o: rank 7)-->  lo w er  ...
 *
 * What decides a merge is the pair of token ids: one hash table maps (left, right) to (rank,
 * product), so no string is built or compared while merging. Each symbol remembers the rank of the
 * pair that it starts; the lowest rank wins, the leftmost of equals.
 *
 * Words are short: up to SHORT_SYMBOLS symbols the lowest rank is found by walking the array, which
 * beats any queue. Longer pieces (a megabyte of spaces is one piece for some tokenizers) would make
 * that quadratic: they go through a binary heap of (rank, position) over a linked list, O(n log n).
 * Entries of the heap that a later merge made stale are known by their rank: it no longer equals
 * the one stored in the symbol. Both ways give the same ids (test_bpe.c compares them).
 *
 * Byte-level vocabularies are written in an alphabet that shows bytes as characters. They are read
 * back into bytes here, so that pieces of the text are looked up as they stand. */
#include "bpe.h"

#include "base/mem.h"
#include "base/rng.h"
#include "base/status.h"
#include "base/utf8.h"
#include "byte_level.h"
#include "vocab.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { SHORT_SYMBOLS = 48, PIECE_BYTES_MAX = 1 << 30 };

#define RANK_NONE UINT32_MAX

struct merge {
    uint64_t pair; /* left << 32 | right; UINT64_MAX = free slot */
    uint32_t rank;
    int32_t product;
};

struct bpe {
    struct vocab
        vocab; /* keys: raw bytes when byte-level, else contents; hidden tokens are absent */
    struct merge *merges; /* [n_merge_slots] open addressing, at most half full */
    size_t n_merge_slots; /* a power of two */
    bool is_byte_level, ignores_merges, fuses_unk, has_byte_fallback;
    struct buf prefix, suffix; /* in the form of the keys */
    int32_t unk_id;            /* -1 = none */
    int32_t byte_ids[256];     /* of one-byte strings; -1 = none */
    int32_t fallback_ids[256]; /* of "<0x00>"..."<0xFF>"; -1 = none */
};

struct symbol {
    int32_t id;
    uint32_t rank;       /* of the pair this symbol starts; RANK_NONE = no merge */
    uint32_t prev, next; /* NONE at the ends; only for long pieces */
    int32_t product;     /* of that pair */
};

struct candidate {
    uint32_t rank, at;
};

#define NONE UINT32_MAX

/* ---- create, destroy */

static size_t merge_slot(const struct bpe *b, uint64_t pair) {
    size_t mask = b->n_merge_slots - 1, at = rng_mix(pair * 0x9E3779B97F4A7C15u) & mask;
    while (b->merges[at].pair != UINT64_MAX && b->merges[at].pair != pair) at = (at + 1) & mask;
    return at;
}

/* The content of a token in the form of the keys; false when it cannot be made from text. */
static bool to_key(const struct bpe *b, const struct spec_str *content, struct buf *key_out) {
    buf_clear(key_out);
    if (b->is_byte_level) return byte_level_append_bytes(content->data, content->len, key_out);
    buf_append(key_out, content->data, content->len);
    return true;
}

static enum radish_status fill_vocab(struct bpe *b, const struct tokenizer_spec *spec,
                                     struct buf *key, struct radish_error *err) {
    uint32_t n_ids = 0;
    for (uint32_t i = 0; i < spec->n_tokens; i++)
        if ((uint32_t)spec->tokens[i].id >= n_ids) n_ids = (uint32_t)spec->tokens[i].id + 1;
    if (!vocab_init(&b->vocab, n_ids, spec->n_tokens)) return error_nomem(err);
    for (uint32_t i = 0; i < spec->n_tokens; i++) {
        const struct spec_token *token = &spec->tokens[i];
        if (token->is_hidden || !to_key(b, &token->content, key)) continue;
        if (key->failed ||
            !vocab_put(&b->vocab, token->id, key->data ? key->data : "", key->len, true))
            return error_nomem(err);
    }
    return RADISH_OK;
}

static enum radish_status find_part(const struct bpe *b, const struct spec_str *part,
                                    struct buf *key, uint32_t rank, int32_t *id_out,
                                    struct radish_error *err) {
    *id_out =
        to_key(b, part, key) ? vocab_find(&b->vocab, key->data ? key->data : "", key->len) : -1;
    if (key->failed) return error_nomem(err);
    if (*id_out >= 0) return RADISH_OK;
    return error_set_field(err, RADISH_E_FORMAT, "merges",
                           "merge %u names \"%.*s\", which is not in the vocabulary", rank,
                           part->len > 60 ? 60 : (int)part->len, part->data ? part->data : "");
}

static enum radish_status add_merge(struct bpe *b, const struct spec_merge *merge, uint32_t rank,
                                    struct buf *key, struct buf *joined, struct radish_error *err) {
    int32_t left, right, product;
    size_t prefix_len = b->prefix.len;
    RADISH_TRY(find_part(b, &merge->left, key, rank, &left, err));
    RADISH_TRY(find_part(b, &merge->right, key, rank, &right, err));
    if (prefix_len > key->len) prefix_len = key->len;
    buf_clear(joined);
    size_t left_len;
    const char *left_key = vocab_get(&b->vocab, left, &left_len);
    buf_append(joined, left_key, left_len);
    if (key->len > prefix_len) buf_append(joined, key->data + prefix_len, key->len - prefix_len);
    if (joined->failed) return error_nomem(err);
    product = vocab_find(&b->vocab, joined->data ? joined->data : "", joined->len);
    if (product < 0)
        return error_set_field(err, RADISH_E_FORMAT, "merges",
                               "merge %u makes a token that is not in the vocabulary", rank);
    uint64_t pair = (uint64_t)(uint32_t)left << 32 | (uint32_t)right;
    b->merges[merge_slot(b, pair)] = (struct merge){pair, rank, product};
    return RADISH_OK;
}

static enum radish_status fill_merges(struct bpe *b, const struct tokenizer_spec *spec,
                                      struct buf *key, struct radish_error *err) {
    struct buf joined = {0};
    enum radish_status status = RADISH_OK;
    b->n_merge_slots = 16;
    while (b->n_merge_slots < (size_t)spec->n_merges * 2) b->n_merge_slots *= 2;
    b->merges = mem_alloc(b->n_merge_slots, sizeof *b->merges);
    if (!b->merges) return error_nomem(err);
    memset(b->merges, 0xFF, b->n_merge_slots * sizeof *b->merges);
    for (uint32_t i = 0; i < spec->n_merges && status == RADISH_OK; i++)
        status = add_merge(b, &spec->merges[i], i, key, &joined, err);
    buf_deinit(&joined);
    return status;
}

static enum radish_status fill_parameters(struct bpe *b, const struct tokenizer_spec *spec,
                                          struct buf *key, struct radish_error *err) {
    b->ignores_merges = spec->ignores_merges;
    b->fuses_unk = spec->fuses_unk;
    b->has_byte_fallback = spec->has_byte_fallback;
    for (int i = 0; i < 256; i++) {
        char byte = (char)i, name[8];
        snprintf(name, sizeof name, "<0x%02X>", (unsigned)i);
        b->byte_ids[i] = b->is_byte_level || i < 0x80 ? vocab_find(&b->vocab, &byte, 1) : -1;
        b->fallback_ids[i] = vocab_find(&b->vocab, name, 6);
    }
    b->unk_id = -1;
    if (!spec->unk.data) return RADISH_OK;
    if (to_key(b, &spec->unk, key) && !key->failed)
        b->unk_id = vocab_find(&b->vocab, key->data ? key->data : "", key->len);
    if (b->unk_id >= 0) return RADISH_OK;
    return error_set_field(err, RADISH_E_FORMAT, "unk_token",
                           "the unknown token \"%.*s\" is not in the vocabulary",
                           spec->unk.len > 60 ? 60 : (int)spec->unk.len, spec->unk.data);
}

static enum radish_status fill(struct bpe *b, const struct tokenizer_spec *spec,
                               struct radish_error *err) {
    struct buf key = {0};
    enum radish_status status;
    if (!to_key(b, &spec->prefix, &b->prefix) || !to_key(b, &spec->suffix, &b->suffix)) {
        status = error_set(err, RADISH_E_FORMAT,
                           "a subword prefix or suffix outside of the byte-level alphabet");
        goto done;
    }
    if ((status = fill_vocab(b, spec, &key, err)) != RADISH_OK) goto done;
    if ((status = fill_merges(b, spec, &key, err)) != RADISH_OK) goto done;
    status = fill_parameters(b, spec, &key, err);
done:
    buf_deinit(&key);
    return status;
}

static void destroy_bpe(struct token_model *model) {
    struct bpe *b = (struct bpe *)model;
    if (!b) return;
    vocab_deinit(&b->vocab);
    free(b->merges);
    buf_deinit(&b->prefix);
    buf_deinit(&b->suffix);
    free(b);
}

static enum radish_status create_bpe(const struct tokenizer_spec *spec, bool is_byte_level,
                                     struct token_model **model_out, struct radish_error *err) {
    *model_out = NULL;
    struct bpe *b = calloc(1, sizeof *b);
    if (!b) return error_nomem(err);
    b->is_byte_level = is_byte_level;
    enum radish_status status = fill(b, spec, err);
    if (status == RADISH_OK && (b->prefix.failed || b->suffix.failed)) status = error_nomem(err);
    if (status != RADISH_OK) {
        destroy_bpe((struct token_model *)b);
        return status;
    }
    *model_out = (struct token_model *)b;
    return RADISH_OK;
}

/* ---- from characters to symbols */

struct symbols {
    const struct bpe *bpe;
    struct symbol *items; /* [n], room for one per byte */
    size_t n;
    int32_t pending_unk; /* an unknown token that may still grow; -1 = none */
};

static void push_symbol(struct symbols *s, int32_t id) {
    s->items[s->n++] = (struct symbol){.id = id};
}

/* The unknown token comes one character late: it may swallow its neighbours (fuse_unk). */
static void flush_unk(struct symbols *s) {
    if (s->pending_unk >= 0) push_symbol(s, s->pending_unk);
    s->pending_unk = -1;
}

static bool push_fallback(struct symbols *s, const char *c, size_t len) {
    const struct bpe *b = s->bpe;
    for (size_t i = 0; i < len; i++)
        if (b->fallback_ids[(unsigned char)c[i]] < 0) return false;
    for (size_t i = 0; i < len; i++) push_symbol(s, b->fallback_ids[(unsigned char)c[i]]);
    return true;
}

static int32_t find_char(const struct bpe *b, const char *c, size_t len, bool is_first,
                         bool is_last) {
    char affixed[256];
    size_t prefix_len = is_first ? 0 : b->prefix.len, suffix_len = is_last ? b->suffix.len : 0;
    if (!prefix_len && !suffix_len)
        return len == 1 ? b->byte_ids[(unsigned char)*c] : vocab_find(&b->vocab, c, len);
    if (prefix_len + len + suffix_len > sizeof affixed) return -1;
    if (prefix_len) memcpy(affixed, b->prefix.data, prefix_len);
    memcpy(affixed + prefix_len, c, len);
    if (suffix_len) memcpy(affixed + prefix_len + len, b->suffix.data, suffix_len);
    return vocab_find(&b->vocab, affixed, prefix_len + len + suffix_len);
}

static void push_char(struct symbols *s, const char *c, size_t len, bool is_first, bool is_last) {
    const struct bpe *b = s->bpe;
    int32_t id = find_char(b, c, len, is_first, is_last);
    if (id >= 0) {
        flush_unk(s);
        push_symbol(s, id);
        return;
    }
    if (b->has_byte_fallback && push_fallback(s, c, len)) return;
    if (b->unk_id < 0) return;
    if (!b->fuses_unk) flush_unk(s);
    s->pending_unk = b->unk_id;
}

static size_t split_chars(const struct bpe *b, const char *piece, size_t len,
                          struct symbol *items) {
    struct symbols s = {.bpe = b, .items = items, .pending_unk = -1};
    for (size_t at = 0, char_len; at < len; at += char_len) {
        uint32_t c;
        char_len = b->is_byte_level ? 1 : utf8_decode(piece + at, len - at, &c);
        push_char(&s, piece + at, char_len, at == 0, at + char_len == len);
    }
    flush_unk(&s);
    return s.n;
}

/* ---- merging */

static void find_merge(const struct bpe *b, struct symbol *left, int32_t right) {
    const struct merge *m =
        &b->merges[merge_slot(b, (uint64_t)(uint32_t)left->id << 32 | (uint32_t)right)];
    left->rank = m->rank; /* RANK_NONE in a free slot */
    left->product = m->product;
}

static size_t merge_short(const struct bpe *b, struct symbol *items, size_t n) {
    for (size_t i = 0; i + 1 < n; i++) find_merge(b, &items[i], items[i + 1].id);
    if (n) items[n - 1].rank = RANK_NONE;
    for (;;) {
        size_t best = 0;
        for (size_t i = 1; i < n; i++)
            if (items[i].rank < items[best].rank) best = i;
        if (n < 2 || items[best].rank == RANK_NONE) return n;
        items[best].id = items[best].product;
        memmove(items + best + 1, items + best + 2, (n - best - 2) * sizeof *items);
        n--;
        items[best].rank = RANK_NONE;
        if (best + 1 < n) find_merge(b, &items[best], items[best + 1].id);
        if (best > 0) find_merge(b, &items[best - 1], items[best].id);
    }
}

struct heap {
    struct candidate *items; /* [n] smallest first */
    size_t n;
};

static bool is_before(const struct candidate *a, const struct candidate *b) {
    return a->rank < b->rank || (a->rank == b->rank && a->at < b->at);
}

static void heap_push(struct heap *h, const struct symbol *items, uint32_t at) {
    struct candidate c = {items[at].rank, at};
    if (c.rank == RANK_NONE) return;
    size_t i = h->n++;
    for (; i && is_before(&c, &h->items[(i - 1) / 2]); i = (i - 1) / 2)
        h->items[i] = h->items[(i - 1) / 2];
    h->items[i] = c;
}

static struct candidate heap_pop(struct heap *h) {
    struct candidate top = h->items[0], last = h->items[--h->n];
    size_t i = 0;
    for (size_t child; (child = 2 * i + 1) < h->n; i = child) {
        if (child + 1 < h->n && is_before(&h->items[child + 1], &h->items[child])) child++;
        if (!is_before(&h->items[child], &last)) break;
        h->items[i] = h->items[child];
    }
    h->items[i] = last;
    return top;
}

/* `heap` has room for three candidates per symbol: one at the start, two per merge. */
static size_t merge_long(const struct bpe *b, struct symbol *items, size_t n,
                         struct candidate *candidates) {
    struct heap heap = {.items = candidates};
    for (size_t i = 0; i < n; i++) {
        items[i].prev = i ? (uint32_t)(i - 1) : NONE;
        items[i].next = i + 1 < n ? (uint32_t)(i + 1) : NONE;
        items[i].rank = RANK_NONE;
        if (i + 1 < n) find_merge(b, &items[i], items[i + 1].id);
        heap_push(&heap, items, (uint32_t)i);
    }
    while (heap.n) {
        struct candidate top = heap_pop(&heap);
        struct symbol *left = &items[top.at];
        if (left->rank != top.rank) continue; /* stale */
        struct symbol *right = &items[left->next];
        left->id = left->product;
        left->next = right->next;
        left->rank = right->rank = RANK_NONE;
        if (left->next != NONE) {
            items[left->next].prev = top.at;
            find_merge(b, left, items[left->next].id);
            heap_push(&heap, items, top.at);
        }
        if (left->prev != NONE) {
            find_merge(b, &items[left->prev], left->id);
            heap_push(&heap, items, left->prev);
        }
    }
    size_t kept = 0;
    for (uint32_t at = n ? 0 : NONE; at != NONE; at = items[at].next)
        items[kept++].id = items[at].id;
    return kept;
}

/* Room for len symbols, and for a heap when they are many. */
static struct symbol *reserve(struct token_scratch *scratch, size_t len) {
    size_t bytes = len * (sizeof(struct symbol) + 3 * sizeof(struct candidate));
    if (len > PIECE_BYTES_MAX) return NULL;
    if (bytes <= scratch->capacity_bytes) return scratch->memory;
    void *memory = realloc(scratch->memory, bytes);
    if (!memory) return NULL;
    scratch->memory = memory;
    scratch->capacity_bytes = bytes;
    return memory;
}

static bool encode_piece(const struct token_model *model, const char *piece, size_t len,
                         struct token_scratch *scratch, struct id_list *out) {
    const struct bpe *b = (const struct bpe *)model;
    if (!len) return true;
    if (b->ignores_merges) {
        int32_t id = vocab_find(&b->vocab, piece, len);
        if (id >= 0) {
            id_list_push(out, id);
            return !out->failed;
        }
    }
    struct symbol *items = reserve(scratch, len);
    if (!items) return false;
    size_t n = split_chars(b, piece, len, items);
    n = n <= SHORT_SYMBOLS ? merge_short(b, items, n)
                           : merge_long(b, items, n, (struct candidate *)(items + len));
    for (size_t i = 0; i < n; i++) id_list_push(out, items[i].id);
    return !out->failed;
}

const struct token_model_ops bpe_ops = {create_bpe, destroy_bpe, encode_piece};
