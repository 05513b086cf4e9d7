/* bpe.c - from a piece to ids: whole tokens, parts that no merge joins, characters, merges.
 *
 * The rule is: characters become tokens, then neighbours join by rank (bpe_merge.c). Three short
 * cuts give the same ids with less work; what makes them exact:
 *
 * - A piece that is itself a token usually merges to just that token, but not always (its merges
 *   may be outranked). Whether it does depends on nothing but the piece, so the answer is kept: one
 *   byte a token, unknown until it was first merged, written by whichever thread comes first. Most
 *   words of prose end here, after one look-up.
 * - What was merged in this call is copied when it comes again (piece_cache.c).
 * - Tokenizers in SentencePiece's style have no pre-tokenizer: a text is one piece, and a heap over
 *   it would be most of the work. A token made by merging is a part of the text, so two
 * neighbouring characters that stand together in no product of a merge are never joined; the piece
 * is cut between them, and both parts merge as if alone. In practice that is before every "▁" and
 * at most changes of script. The pairs of characters are a bit set by hash: a collision costs a
 * cut. Not done where a character's tokens depend on more than the character (affixes, unknown
 * tokens that fuse) or where merges name tokens that stand for no text.
 *
 * Byte-level vocabularies are written in an alphabet that shows bytes as characters. They are read
 * back into bytes here, so that pieces of the text are looked up as they stand. */
#include "bpe.h"

#include "base/mem.h"
#include "base/status.h"
#include "base/utf8.h"
#include "bpe_merge.h"
#include "byte_level.h"
#include "piece_cache.h"
#include "vocab.h"

#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum {
    CHAR_PAGE = 256, /* characters per page of char_pages */
    CHAR_PAGES = 0x110000 / CHAR_PAGE,
    CUT_BITS_MIN = 12,
    CUT_BITS_MAX = 24,
    AFFIXED_BYTES_MAX = 256, /* a character with prefix and suffix */
};

/* What merging the bytes of a token gives. */
enum whole { WHOLE_UNKNOWN, WHOLE_ITSELF, WHOLE_OTHER };

struct bpe {
    struct vocab
        vocab; /* keys: raw bytes when byte-level, else contents; hidden tokens are absent */
    struct bpe_merges merges;
    atomic_uchar *whole; /* [vocab.n_ids] enum whole */
    bool is_byte_level, ignores_merges, fuses_unk, has_byte_fallback;
    bool has_all_bytes;              /* byte-level, no affixes: a piece is its bytes' tokens */
    struct buf prefix, suffix;       /* in the form of the keys */
    int32_t unk_id;                  /* -1 = none */
    int32_t byte_ids[256];           /* of one-byte strings; -1 = none */
    int32_t fallback_ids[256];       /* of "<0x00>"..."<0xFF>"; -1 = none */
    int32_t *char_pages[CHAR_PAGES]; /* [CHAR_PAGE] ids of strings of one character; NULL = none */
    uint64_t *joined;      /* bit set of character pairs within products; NULL = no cuts */
    unsigned joined_shift; /* of the hash */
};

/* ---- create, destroy */

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
    bpe_merges_put(&b->merges, left, right, rank, product);
    return RADISH_OK;
}

static enum radish_status fill_merges(struct bpe *b, const struct tokenizer_spec *spec,
                                      struct buf *key, struct radish_error *err) {
    struct buf joined = {0};
    enum radish_status status = RADISH_OK;
    if (spec->n_merges > BPE_MERGES_MAX)
        return error_set_field(err, RADISH_E_LIMIT, "merges", "%u merges; the limit is %u",
                               spec->n_merges, BPE_MERGES_MAX);
    if (!bpe_merges_init(&b->merges, spec->n_merges)) return error_nomem(err);
    for (uint32_t i = 0; i < spec->n_merges && status == RADISH_OK; i++)
        if (to_key(b, &spec->merges[i].left, key) && to_key(b, &spec->merges[i].right, key))
            status = add_merge(b, &spec->merges[i], i, key, &joined, err);
    buf_deinit(&joined);
    return status;
}

static bool put_char(struct bpe *b, uint32_t c, int32_t id) {
    int32_t **page = &b->char_pages[c / CHAR_PAGE];
    if (!*page) {
        *page = mem_alloc(CHAR_PAGE, sizeof **page);
        if (!*page) return false;
        memset(*page, 0xFF, CHAR_PAGE * sizeof **page);
    }
    (*page)[c % CHAR_PAGE] = id;
    return true;
}

/* The tokens of single characters, as vocab_find() would give them. */
static bool fill_chars(struct bpe *b) {
    for (uint32_t id = 0; !b->is_byte_level && id < b->vocab.n_ids; id++) {
        uint32_t c;
        size_t len;
        const char *key = vocab_get(&b->vocab, (int32_t)id, &len);
        if (!key || !len || len > 4 || utf8_decode(key, len, &c) != len) continue;
        if (vocab_find(&b->vocab, key, len) == (int32_t)id && !put_char(b, c, (int32_t)id))
            return false;
    }
    return true;
}

static int32_t char_id(const struct bpe *b, uint32_t c) {
    const int32_t *page = b->char_pages[c / CHAR_PAGE];
    return page ? page[c % CHAR_PAGE] : -1;
}

static uint64_t joined_bit(const struct bpe *b, uint32_t left, uint32_t right) {
    return ((uint64_t)left << 32 | right) * 0x9E3779B97F4A7C15u >> b->joined_shift;
}

/* See the top of the file. */
static bool can_cut(const struct bpe *b, const struct tokenizer_spec *spec) {
    bool has_all_fallbacks = b->has_byte_fallback;
    for (int i = 0; i < 256; i++) has_all_fallbacks &= b->fallback_ids[i] >= 0;
    if (b->is_byte_level || b->prefix.len || b->suffix.len || !spec->n_merges) return false;
    return has_all_fallbacks || b->unk_id < 0 || (!b->has_byte_fallback && !b->fuses_unk);
}

/* True for tokens that stand for text which is not their content. */
static bool is_stand_in(const struct bpe *b, int32_t id) {
    size_t len;
    const char *key = vocab_get(&b->vocab, id, &len);
    if (id == b->unk_id) return true;
    for (int i = 0; len == 6 && key[0] == '<' && i < 256; i++)
        if (b->fallback_ids[i] == id) return true;
    return false;
}

static enum radish_status fill_joined(struct bpe *b, const struct tokenizer_spec *spec,
                                      struct radish_error *err) {
    unsigned bits = CUT_BITS_MIN;
    if (!can_cut(b, spec)) return RADISH_OK;
    while (bits < CUT_BITS_MAX && (uint64_t)1 << bits < spec->n_merges) bits++;
    b->joined_shift = 64 - bits;
    b->joined = mem_zalloc(((size_t)1 << bits) / 64, sizeof *b->joined);
    if (!b->joined) return error_nomem(err);
    for (uint32_t i = 0; i < spec->n_merges; i++) {
        const struct spec_str *parts[] = {&spec->merges[i].left, &spec->merges[i].right};
        uint32_t c, last = 0;
        bool has_last = false;
        for (int part = 0; part < 2; part++) {
            const struct spec_str *s = parts[part];
            if (is_stand_in(b, vocab_find(&b->vocab, s->data ? s->data : "", s->len))) {
                free(b->joined);
                b->joined = NULL;
                return RADISH_OK;
            }
            for (size_t at = 0; at < s->len; last = c, has_last = true) {
                at += utf8_decode(s->data + at, s->len - at, &c);
                uint64_t bit = joined_bit(b, last, c);
                if (has_last) b->joined[bit / 64] |= (uint64_t)1 << bit % 64;
            }
        }
    }
    return RADISH_OK;
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
    b->has_all_bytes = b->is_byte_level && !b->prefix.len && !b->suffix.len;
    for (int i = 0; i < 256; i++) b->has_all_bytes &= b->byte_ids[i] >= 0;
    b->unk_id = -1;
    if (!spec->unk.data) return RADISH_OK;
    if (to_key(b, &spec->unk, key) && !key->failed)
        b->unk_id = vocab_find(&b->vocab, key->data ? key->data : "", key->len);
    for (uint32_t i = 0; b->unk_id < 0 && i < spec->n_tokens; i++) /* It need not look like text. */
        if (spec->tokens[i].content.len == spec->unk.len &&
            memcmp(spec->tokens[i].content.data, spec->unk.data, spec->unk.len) == 0)
            b->unk_id = spec->tokens[i].id;
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
    if (b->prefix.len + b->suffix.len > AFFIXED_BYTES_MAX - 4) {
        status = error_set(err, RADISH_E_LIMIT,
                           "a subword prefix and suffix of %zu bytes; the limit is %d",
                           b->prefix.len + b->suffix.len, AFFIXED_BYTES_MAX - 4);
        goto done;
    }
    if ((status = fill_vocab(b, spec, &key, err)) != RADISH_OK) goto done;
    if ((status = fill_merges(b, spec, &key, err)) != RADISH_OK) goto done;
    if ((status = fill_parameters(b, spec, &key, err)) != RADISH_OK) goto done;
    b->whole = mem_zalloc(b->vocab.n_ids, sizeof *b->whole);
    bool ok = b->whole && fill_chars(b);
    if (ok && b->has_all_bytes) ok = bpe_merges_index_bytes(&b->merges, b->byte_ids);
    status = ok ? fill_joined(b, spec, err) : error_nomem(err);
done:
    buf_deinit(&key);
    return status;
}

static void destroy_bpe(struct token_model *model) {
    struct bpe *b = (struct bpe *)model;
    if (!b) return;
    vocab_deinit(&b->vocab);
    bpe_merges_deinit(&b->merges);
    free(b->whole);
    free(b->joined);
    for (size_t i = 0; i < CHAR_PAGES; i++) free(b->char_pages[i]);
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
    int32_t *ids; /* [n], room for one per byte */
    size_t n;
    int32_t pending_unk; /* an unknown token that may still grow; -1 = none */
};

static void push_symbol(struct symbols *s, int32_t id) {
    s->ids[s->n++] = id;
}

/* The unknown token comes one character late: it may swallow its neighbours (fuse_unk). */
static void flush_unk(struct symbols *s) {
    if (s->pending_unk >= 0) push_symbol(s, s->pending_unk);
    s->pending_unk = -1;
}

/* The bytes of a character and of its affixes, when there is a token for each. */
static bool push_fallback(struct symbols *s, const char *c, size_t len) {
    const struct bpe *b = s->bpe;
    for (size_t i = 0; i < len; i++)
        if (b->fallback_ids[(unsigned char)c[i]] < 0) return false;
    for (size_t i = 0; i < len; i++) push_symbol(s, b->fallback_ids[(unsigned char)c[i]]);
    return true;
}

/* A character with what continues or ends words put to it; its length. */
static size_t affix(const struct bpe *b, const char *c, size_t len, bool is_first, bool is_last,
                    char affixed_out[AFFIXED_BYTES_MAX]) {
    size_t prefix_len = is_first ? 0 : b->prefix.len, suffix_len = is_last ? b->suffix.len : 0;
    if (prefix_len) memcpy(affixed_out, b->prefix.data, prefix_len);
    memcpy(affixed_out + prefix_len, c, len);
    if (suffix_len) memcpy(affixed_out + prefix_len + len, b->suffix.data, suffix_len);
    return prefix_len + len + suffix_len;
}

static void push_char(struct symbols *s, int32_t id, const char *c, size_t len) {
    const struct bpe *b = s->bpe;
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

/* The tokens of the piece's characters (byte-level: bytes) to ids, which has room for
 * symbols_max(). */
static size_t split_chars(const struct bpe *b, const char *piece, size_t len, int32_t *ids) {
    struct symbols s = {.bpe = b, .ids = ids, .pending_unk = -1};
    bool has_affixes = b->prefix.len || b->suffix.len;
    if (b->has_all_bytes) {
        for (size_t i = 0; i < len; i++) ids[i] = b->byte_ids[(unsigned char)piece[i]];
        return len;
    }
    for (size_t at = 0, char_len; at < len; at += char_len) {
        uint32_t c = (unsigned char)piece[at];
        int32_t id;
        char_len = b->is_byte_level ? 1 : utf8_decode(piece + at, len - at, &c);
        if (has_affixes) {
            char affixed[AFFIXED_BYTES_MAX];
            size_t n = affix(b, piece + at, char_len, at == 0, at + char_len == len, affixed);
            push_char(&s, vocab_find(&b->vocab, affixed, n), affixed, n);
            continue;
        }
        id = b->is_byte_level ? b->byte_ids[c] : char_id(b, c);
        push_char(&s, id, piece + at, char_len);
    }
    flush_unk(&s);
    return s.n;
}

/* ---- encode */

/* No more symbols than this come from len bytes. */
static size_t symbols_max(const struct bpe *b, size_t len) {
    return b->has_byte_fallback ? len * (1 + b->prefix.len) + b->suffix.len : len;
}

/* Appends what merging gives. */
static bool merge_piece(const struct bpe *b, const char *piece, size_t len,
                        struct token_scratch *scratch, struct id_list *out) {
    const unsigned char *bytes = b->has_all_bytes ? (const unsigned char *)piece : NULL;
    size_t n = symbols_max(b, len);
    if (len > BPE_SYMBOLS_MAX || n > BPE_SYMBOLS_MAX || !id_list_reserve(out, n)) return false;
    int32_t *ids = out->ids + out->n;
    n = split_chars(b, piece, len, ids);
    if (!bpe_merge(&b->merges, ids, n, bytes, scratch, &n)) return false;
    scratch->n_operations += len;
    out->n += n;
    return true;
}

static bool copy_ids(struct id_list *out, size_t start, size_t n) {
    if (!id_list_reserve(out, n)) return false;
    memcpy(out->ids + out->n, out->ids + start, n * sizeof *out->ids);
    out->n += n;
    return true;
}

/* A piece, or a part that no merge leaves. is_token_enough: a token is taken unmerged. */
static bool encode_part(const struct bpe *b, const char *part, size_t len, bool is_token_enough,
                        struct token_scratch *scratch, struct id_list *out) {
    const bool can_repeat = scratch->cache && len <= PIECE_CACHE_BYTES_MAX;
    struct vocab_key key = {0, 0};
    int32_t id = -1;
    size_t start = out->n;
    scratch->n_operations++;
    if (can_repeat || len <= b->vocab.len_max) key = vocab_key_of(part, len);
    if (len <= b->vocab.len_max) id = vocab_find_key(&b->vocab, &key, part, len);
    int whole = id < 0 ? WHOLE_OTHER : atomic_load_explicit(&b->whole[id], memory_order_relaxed);
    if (id >= 0 && (is_token_enough || whole == WHOLE_ITSELF)) {
        id_list_push(out, id);
        return !out->failed;
    }
    const uint64_t hash = vocab_key_hash(&key);
    const struct piece_cache_entry *seen =
        can_repeat ? piece_cache_find(scratch->cache, hash, part, len) : NULL;
    if (seen) return copy_ids(out, seen->ids_start, seen->n_ids);
    if (!merge_piece(b, part, len, scratch, out)) return false;
    if (whole == WHOLE_UNKNOWN) {
        bool is_itself = out->n == start + 1 && out->ids[start] == id;
        atomic_store_explicit(&b->whole[id], is_itself ? WHOLE_ITSELF : WHOLE_OTHER,
                              memory_order_relaxed);
    }
    if (can_repeat) piece_cache_put(scratch->cache, hash, part, len, start, out->n - start);
    return true;
}

/* End of the part that starts at s[0], n > 0. */
static size_t part_end(const struct bpe *b, const char *s, size_t n) {
    uint32_t left, right;
    size_t at = utf8_decode(s, n, &left);
    for (size_t len; at < n; at += len, left = right) {
        len = utf8_decode(s + at, n - at, &right);
        uint64_t bit = joined_bit(b, left, right);
        if (!(b->joined[bit / 64] >> bit % 64 & 1)) break;
    }
    return at;
}

static bool encode_piece(const struct token_model *model, const char *piece, size_t len,
                         struct token_scratch *scratch, struct id_list *out) {
    const struct bpe *b = (const struct bpe *)model;
    if (!len) return true;
    if (!b->joined) return encode_part(b, piece, len, b->ignores_merges, scratch, out);
    if (b->ignores_merges) {
        int32_t id = len <= b->vocab.len_max ? vocab_find(&b->vocab, piece, len) : -1;
        if (id >= 0) {
            id_list_push(out, id);
            return !out->failed;
        }
    }
    for (size_t at = 0, n; at < len; at += n) {
        n = part_end(b, piece + at, len - at);
        if (!encode_part(b, piece + at, n, /*is_token_enough=*/false, scratch, out)) return false;
    }
    scratch->n_operations += len;
    return true;
}

const struct token_model_ops bpe_ops = {create_bpe, destroy_bpe, encode_piece};
