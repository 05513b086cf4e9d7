/* unigram.c - the best path through a text, where every token is an arc with a score.
 *
 *   h  e  l  l  o        best[i]: the best sum of scores of a path from 0 to i, and its last arc.
 *   0--1--2--3--4--5     From each start, in order, all tokens that begin there are found by one
 *   \__hell____/\o/      walk down a trie and offered to the places where they end.
 *
 * Characters that no token covers get an arc of their own, the unknown token's, at a score of ten
 * less than the lowest in the vocabulary. The arithmetic is part of the answer, because sums of
 * rounded numbers decide between paths that are equally good on paper: the tokenizers library adds
 * doubles; SentencePiece 0.2.3 (sums_in_f32) adds floats, and where a sum has passed 100,000 it
 * starts anew from zero, taking it off the sums of the places ahead. In both a later arc wins only
 * if it is better, so of equals the longer one, which starts earlier, stays.
 *
 * Unknown neighbours are one (fuse_unk is not a choice in either implementation). The library then
 * looks the fused text up once more and takes a token of that name; SentencePiece does not. With
 * byte fallback the fused text becomes its bytes, if there is a token for each of them.
 *
 * Cost: n times the longest token's bytes at worst, three or four steps a byte in practice; 16
 * bytes of scratch per byte of the piece, so a megabyte without a cut takes 16. */
#include "unigram.h"

#include "base/mem.h"
#include "base/status.h"
#include "base/utf8.h"
#include "byte_level.h"
#include "trie.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { PIECE_BYTES_MAX = 1 << 30 };

#define NONE UINT32_MAX

static const double SUM_MAX = 100000;

struct unigram {
    struct trie trie; /* of the tokens that may be made from text, in the form of the pieces */
    double *scores;   /* [n_ids] by id */
    double unk_score;
    int32_t unk_id;
    int32_t fallback_ids[256]; /* of "<0x00>"..."<0xFF>"; -1 = none */
    bool has_byte_fallback, is_byte_level, sums_in_f32;
};

/* The best path that ends at one place. */
struct best {
    double score; /* then, on the way back: where the next arc ends */
    uint32_t start;
    int32_t id;
};

/* ---- create, destroy */

static enum radish_status fill_trie(struct unigram *u, const struct tokenizer_spec *spec,
                                    struct trie_key *keys, struct buf *bytes,
                                    struct radish_error *err) {
    size_t n = 0, used = 0;
    for (uint32_t i = 0; i < spec->n_tokens; i++) {
        const struct spec_token *token = &spec->tokens[i];
        if (!isfinite(token->score))
            return error_set(err, RADISH_E_FORMAT, "token %d: its score is not a finite number",
                             token->id);
        u->scores[token->id] = token->score;
        if (token->is_hidden) continue;
        keys[n] = (struct trie_key){token->content.data, token->content.len, token->id, 0};
        if (u->is_byte_level) { /* kept as lengths until `bytes` stays where it is */
            size_t before = bytes->len;
            if (!byte_level_append_bytes(token->content.data, token->content.len, bytes)) continue;
            keys[n].len = bytes->len - before;
        }
        n++;
    }
    if (bytes->failed) return error_nomem(err);
    for (size_t i = 0; i < n && u->is_byte_level; used += keys[i++].len)
        keys[i].data = bytes->data + used;
    return trie_init(&u->trie, keys, n) ? RADISH_OK : error_nomem(err);
}

static void fill_fallback(struct unigram *u, const struct tokenizer_spec *spec) {
    char name[8];
    for (int i = 0; i < 256; i++) u->fallback_ids[i] = -1;
    if (!u->has_byte_fallback) return;
    for (uint32_t i = 0; i < spec->n_tokens; i++) {
        const struct spec_str *content = &spec->tokens[i].content;
        if (content->len != 6 || memcmp(content->data, "<0x", 3) != 0) continue;
        for (unsigned byte = 0; byte < 256; byte++) {
            snprintf(name, sizeof name, "<0x%02X>", byte);
            if (memcmp(content->data, name, 6) == 0) u->fallback_ids[byte] = spec->tokens[i].id;
        }
    }
}

static enum radish_status fill(struct unigram *u, const struct tokenizer_spec *spec,
                               struct radish_error *err) {
    uint32_t n_ids = 0;
    bool has_unk = false;
    for (uint32_t i = 0; i < spec->n_tokens; i++) {
        if ((uint32_t)spec->tokens[i].id >= n_ids) n_ids = (uint32_t)spec->tokens[i].id + 1;
        has_unk |= spec->tokens[i].id == spec->unk_id;
    }
    if (!has_unk)
        return error_set_field(err, RADISH_E_UNSUPPORTED, "unk_id",
                               "a Unigram model without an unknown token cannot encode every text");
    if (u->is_byte_level && spec->has_byte_fallback)
        return error_set(err, RADISH_E_UNSUPPORTED,
                         "a byte-level Unigram model with byte fallback");
    struct buf bytes = {0};
    struct trie_key *keys = mem_alloc(spec->n_tokens, sizeof *keys);
    u->scores = mem_zalloc(n_ids, sizeof *u->scores);
    enum radish_status status =
        keys && u->scores ? fill_trie(u, spec, keys, &bytes, err) : error_nomem(err);
    buf_deinit(&bytes);
    free(keys);
    fill_fallback(u, spec);
    return status;
}

static void destroy_unigram(struct token_model *model) {
    struct unigram *u = (struct unigram *)model;
    if (!u) return;
    trie_deinit(&u->trie);
    free(u->scores);
    free(u);
}

static enum radish_status create_unigram(const struct tokenizer_spec *spec, bool is_byte_level,
                                         struct token_model **model_out, struct radish_error *err) {
    *model_out = NULL;
    struct unigram *u = calloc(1, sizeof *u);
    if (!u) return error_nomem(err);
    u->is_byte_level = is_byte_level;
    u->has_byte_fallback = spec->has_byte_fallback;
    u->sums_in_f32 = spec->sums_in_f32;
    u->unk_id = spec->unk_id;
    u->unk_score = spec->unk_score;
    enum radish_status status = fill(u, spec, err);
    if (status != RADISH_OK) {
        destroy_unigram((struct token_model *)u);
        return status;
    }
    *model_out = (struct token_model *)u;
    return RADISH_OK;
}

/* ---- encode */

static void offer(const struct unigram *u, struct best *target, double sum, size_t start,
                  int32_t id) {
    if (u->sums_in_f32) sum = (double)(float)sum; /* exactly what adding two floats gives */
    if (target->start != NONE && !(sum > target->score)) return;
    *target = (struct best){sum, (uint32_t)start, id};
}

/* Keeps sums small: what the places [start, end] have is counted from that of start. */
static void start_anew(struct best *best, size_t start, size_t end) {
    const double sum = best[start].score;
    for (size_t i = start; i <= end; i++)
        if (best[i].start != NONE) best[i].score = (double)(float)(best[i].score - sum);
}

/* Fills best[0..len]; best[len] ends the best path. */
static uint64_t find_path(const struct unigram *u, const char *piece, size_t len,
                          struct best *best) {
    uint64_t n_steps = 0;
    size_t furthest = 0;
    best[0] = (struct best){.start = NONE};
    for (size_t i = 1; i <= len; i++) best[i].start = NONE;
    for (size_t start = 0, char_len; start < len; start += char_len) {
        if (u->sums_in_f32 && fabs(best[start].score) > SUM_MAX) start_anew(best, start, furthest);
        const double sum = best[start].score;
        bool has_char = false;
        uint32_t node = 0, c;
        char_len = u->is_byte_level ? 1 : utf8_decode(piece + start, len - start, &c);
        for (size_t at = start; at < len; at++, n_steps++) {
            if (!(node = trie_step(&u->trie, node, (uint8_t)piece[at]))) break;
            int32_t id = u->trie.nodes[node].value;
            if (id < 0) continue;
            offer(u, &best[at + 1], u->scores[id] + sum, start, id);
            if (at + 1 > furthest) furthest = at + 1;
            has_char |= at + 1 == start + char_len;
        }
        n_steps++;
        if (!has_char) offer(u, &best[start + char_len], u->unk_score + sum, start, u->unk_id);
        if (start + char_len > furthest) furthest = start + char_len;
    }
    return n_steps;
}

/* A run of text that the vocabulary lacks. */
static void push_unknown(const struct unigram *u, const char *s, size_t len, struct id_list *out) {
    int32_t id = u->sums_in_f32 ? -1 : trie_find(&u->trie, s, len);
    bool has_bytes = u->has_byte_fallback && id < 0;
    for (size_t i = 0; i < len && has_bytes; i++)
        has_bytes = u->fallback_ids[(unsigned char)s[i]] >= 0;
    for (size_t i = 0; i < len && has_bytes; i++)
        id_list_push(out, u->fallback_ids[(unsigned char)s[i]]);
    if (!has_bytes) id_list_push(out, id >= 0 ? id : u->unk_id);
}

static bool encode_piece(const struct token_model *model, const char *piece, size_t len,
                         struct token_scratch *scratch, struct id_list *out) {
    const struct unigram *u = (const struct unigram *)model;
    size_t bytes = (len + 1) * sizeof(struct best);
    if (!len) return true;
    if (len > PIECE_BYTES_MAX) return false;
    if (bytes > scratch->capacity_bytes) {
        void *memory = realloc(scratch->memory, bytes);
        if (!memory) return false;
        scratch->memory = memory;
        scratch->capacity_bytes = bytes;
    }
    struct best *best = scratch->memory;
    scratch->n_operations += find_path(u, piece, len, best);
    for (size_t end = len; end; end = best[end].start)
        best[best[end].start].score = (double)end; /* turns the path around */
    for (size_t start = 0, end; start < len; start = end) {
        end = (size_t)best[start].score;
        if (best[end].id != u->unk_id) {
            id_list_push(out, best[end].id);
            continue;
        }
        while (end < len && best[(size_t)best[end].score].id == u->unk_id)
            end = (size_t)best[end].score;
        push_unknown(u, piece + start, end - start, out);
    }
    return !out->failed;
}

const struct token_model_ops unigram_ops = {create_unigram, destroy_unigram, encode_piece};
