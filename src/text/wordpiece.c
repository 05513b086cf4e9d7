/* wordpiece.c - BERT's greedy cut: the longest token at the start of the piece, then the longest
 * that continues it, and so on. Tokens that continue are written with a prefix ("##").
 *
 *   "unaffable"   un ##aff ##able        "unXable"   [UNK]: there is no "##X..."
 *
 * The rules are those of the tokenizers library: a piece of more characters than n_word_chars_max
 * is unknown, and so is a piece that cannot be cut to its end, as a whole. At each place the end is
 * tried from the right, character by character. Two things keep that from growing with the square
 * of the piece: no end is tried that would make a key longer than the vocabulary's longest, and
 * n_word_chars_max bounds the piece. Where a file sets no bound worth the name, a piece costs its
 * length times the longest token's, which is what the operations counted in the scratch show. */
#include "wordpiece.h"

#include "base/invariant.h"
#include "base/status.h"
#include "base/utf8.h"
#include "word_vocab.h"

#include <stdlib.h>
#include <string.h>

struct wordpiece {
    struct word_vocab words;
    struct buf prefix;
    uint32_t n_chars_max;
};

static void destroy_wordpiece(struct token_model *model) {
    struct wordpiece *w = (struct wordpiece *)model;
    if (!w) return;
    word_vocab_deinit(&w->words);
    buf_deinit(&w->prefix);
    free(w);
}

static enum radish_status create_wordpiece(const struct tokenizer_spec *spec, bool is_byte_level,
                                           struct token_model **model_out,
                                           struct radish_error *err) {
    *model_out = NULL;
    RADISH_INVARIANT(!is_byte_level, "pieces come as text");
    struct wordpiece *w = calloc(1, sizeof *w);
    if (!w) return error_nomem(err);
    w->n_chars_max = spec->n_word_chars_max;
    buf_append(&w->prefix, spec->prefix.data, spec->prefix.len);
    enum radish_status status = word_vocab_init(&w->words, spec, err);
    if (status == RADISH_OK && w->prefix.failed) status = error_nomem(err);
    if (status != RADISH_OK) {
        destroy_wordpiece((struct token_model *)w);
        return status;
    }
    *model_out = (struct token_model *)w;
    return RADISH_OK;
}

/* Room for the prefix and the longest part of a piece that may be a key. */
static char *reserve(const struct wordpiece *w, struct token_scratch *scratch) {
    size_t bytes = w->prefix.len + w->words.key_len_max + 1;
    if (bytes <= scratch->capacity_bytes) return scratch->memory;
    void *memory = realloc(scratch->memory, bytes);
    if (!memory) return NULL;
    scratch->memory = memory;
    scratch->capacity_bytes = bytes;
    return memory;
}

static size_t char_start(const char *piece, size_t at) {
    while (((unsigned char)piece[at] & 0xC0) == 0x80) at--;
    return at;
}

/* The longest token at piece[start..len); its end, or start when there is none. */
static size_t find_longest(const struct wordpiece *w, const char *piece, size_t start, size_t len,
                           char *key, struct token_scratch *scratch, int32_t *id_out) {
    size_t prefix_len = start ? w->prefix.len : 0, room = w->words.key_len_max, end = len;
    *id_out = -1;
    if (prefix_len > room) return start;
    room -= prefix_len;
    if (len - start > room) end = char_start(piece, start + room);
    if (prefix_len) memcpy(key, w->prefix.data, prefix_len);
    memcpy(key + prefix_len, piece + start, end - start);
    while (end > start) {
        scratch->n_operations++;
        *id_out = vocab_find(&w->words.vocab, key, prefix_len + end - start);
        if (*id_out >= 0) return end;
        end = char_start(piece, end - 1);
    }
    return start;
}

static bool encode_piece(const struct token_model *model, const char *piece, size_t len,
                         struct token_scratch *scratch, struct id_list *out) {
    const struct wordpiece *w = (const struct wordpiece *)model;
    size_t n_before = out->n, start = 0, n_chars = utf8_count(piece, len);
    char *key = reserve(w, scratch);
    if (!key) return false;
    while (start < len && n_chars <= w->n_chars_max) {
        int32_t id;
        size_t end = find_longest(w, piece, start, len, key, scratch, &id);
        if (id < 0) break;
        id_list_push(out, id);
        start = end;
    }
    if (start < len && !out->failed) {
        out->n = n_before;
        id_list_push(out, w->words.unk_id);
    }
    return !out->failed;
}

const struct token_model_ops wordpiece_ops = {create_wordpiece, destroy_wordpiece, encode_piece};
