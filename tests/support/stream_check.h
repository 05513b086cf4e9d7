/* stream_check.h - streams of a tokenizer against its decode(), for tests.
 *
 * The text of a stream is decode(prompt + output) minus decode(prompt): without the longest prefix
 * that both share, in whole characters. Sequences are of the kinds that break decoders: ids at
 * random, byte tokens in a row (characters, their parts, and what is no text), special and added
 * tokens in between; the prompt ends anywhere. Include it in one file of a test program. */
#ifndef SUPPORT_STREAM_CHECK_H
#define SUPPORT_STREAM_CHECK_H

#include "test.h"

#include "base/buf.h"
#include "base/rng.h"
#include "base/utf8.h"
#include "text/detok_stream.h"
#include "text/tokenizer.h"

/* What may be held back: no more than a run of byte tokens, each of which may become a U+FFFD. */
enum { STREAM_HELD_MAX = 4096, STREAM_LISTED_MAX = 1024 };

struct stream_ids {
    int32_t first[256]; /* per byte: the token that is it alone, or -1 */
    int32_t added[STREAM_LISTED_MAX];
    int32_t all;
    size_t n_added;
    uint64_t seed, at;
};

static inline uint64_t stream_roll(struct stream_ids *ids, uint64_t n) {
    return rng_u64(ids->seed, ids->at++) % n;
}

static inline void stream_ids_init(const struct tokenizer *t, uint64_t seed,
                                   struct stream_ids *ids) {
    size_t len;
    *ids = (struct stream_ids){.all = (int32_t)tokenizer_n_tokens(t), .seed = seed};
    for (int i = 0; i < 256; i++) ids->first[i] = -1;
    for (int32_t id = 0; id < ids->all; id++) {
        const char *bytes = tokenizer_token_bytes(t, id, &len);
        if (bytes && len == 1) ids->first[(unsigned char)*bytes] = id;
        const char *content = bytes ? tokenizer_content(t, id, &len) : NULL;
        /* Byte tokens come before plain letters. */
        unsigned byte;
        if (content && len == 6 && sscanf(content, "<0x%2X>", &byte) == 1) ids->first[byte] = id;
        if (bytes && tokenizer_is_special(t, id) && ids->n_added < STREAM_LISTED_MAX)
            ids->added[ids->n_added++] = id;
    }
}

/* The tokens of one character, byte by byte, maybe without the first or the last. */
static inline size_t stream_add_character(struct stream_ids *ids, int32_t *out, size_t n_max) {
    char bytes[4];
    size_t n = 0;
    uint32_t highest = stream_roll(ids, 3) ? 0x3000 : 0x10FFFF;
    size_t len = utf8_encode((uint32_t)stream_roll(ids, highest), bytes);
    size_t from = stream_roll(ids, 12) == 0, to = len - (stream_roll(ids, 12) == 0);
    for (size_t i = from; i < to && n < n_max; i++)
        if (ids->first[(unsigned char)bytes[i]] >= 0)
            out[n++] = ids->first[(unsigned char)bytes[i]];
    return n;
}

static inline size_t stream_fill(const struct tokenizer *t, struct stream_ids *ids, int32_t *out,
                                 size_t n_max) {
    size_t n = 0;
    int32_t id;
    uint64_t style = stream_roll(ids, 4);
    while (n < n_max) {
        switch (stream_roll(ids, 4) ? style : stream_roll(ids, 4)) {
        case 0: id = (int32_t)stream_roll(ids, (uint64_t)ids->all); break;
        case 1: id = ids->first[stream_roll(ids, 256)]; break;
        case 2: id = ids->n_added ? ids->added[stream_roll(ids, ids->n_added)] : -1; break;
        default: n += stream_add_character(ids, out + n, n_max - n); continue;
        }
        if (id >= 0 && tokenizer_has_id(t, id)) out[n++] = id;
    }
    return n;
}

static inline void stream_decode(const struct tokenizer *t, const int32_t *ids, size_t n, bool skip,
                                 struct buf *out) {
    struct radish_error err = {0};
    buf_clear(out);
    if (tokenizer_decode(t, ids, n, skip, out, &err) != RADISH_OK) fail_msg("%s", err.msg);
    assert_false(out->failed);
}

static inline size_t stream_shared_len(const struct buf *a, const struct buf *b) {
    size_t at = 0, len = 0;
    uint32_t x = 0, y = 0;
    while (at < a->len && at < b->len) {
        len = utf8_decode(a->data + at, a->len - at, &x);
        utf8_decode(b->data + at, b->len - at, &y);
        if (x != y) break;
        at += len;
    }
    return at;
}

/* ids[0..n_prompt) are the prompt. Every push is whole characters, what is held stays small, and
 * the sum is as defined. */
static inline void stream_check(const struct tokenizer *t, const int32_t *ids, size_t n_prompt,
                                size_t n, bool skip) {
    struct radish_error err = {0};
    struct buf before = {0}, whole = {0}, piece = {0}, shown = {0};
    struct detok_stream *s;
    stream_decode(t, ids, n_prompt, skip, &before);
    if (detok_stream_create(t, ids, n_prompt, skip, &s, &err) != RADISH_OK) fail_msg("%s", err.msg);
    for (size_t i = n_prompt; i <= n; i++) {
        buf_clear(&piece);
        if (i < n)
            detok_stream_push(s, ids[i], &piece);
        else
            detok_stream_finish(s, &piece);
        assert_false(piece.failed);
        if (piece.len) assert_int_equal(utf8_valid_prefix(piece.data, piece.len), piece.len);
        buf_append(&shown, piece.data, piece.len);
        if (i + 1 < n && (n - i) % 997) continue;
        stream_decode(t, ids, i < n ? i + 1 : n, skip, &whole);
        size_t shared = stream_shared_len(&before, &whole);
        assert_true(whole.len - shared <= shown.len + STREAM_HELD_MAX);
    }
    size_t shared = stream_shared_len(&before, &whole);
    bool is_same = shown.len == whole.len - shared &&
                   (!shown.len || memcmp(shown.data, whole.data + shared, shown.len) == 0);
    if (!is_same) {
        printf("ids, from %zu on the output, skip_special %d:", n_prompt, skip);
        for (size_t i = 0; i < n; i++) printf(" %d", ids[i]);
        printf("\n  prompt  \"%s\"\n  whole   \"%s\"\n  streamed \"%s\"\n",
               before.data ? before.data : "", whole.data ? whole.data : "",
               shown.data ? shown.data : "");
        fail_msg("a stream is not decode(prompt + output) minus decode(prompt)");
    }
    detok_stream_destroy(s);
    buf_deinit(&before);
    buf_deinit(&whole);
    buf_deinit(&piece);
    buf_deinit(&shown);
}

/* `rounds` sequences of up to n_max tokens. */
static inline void stream_check_random(const struct tokenizer *t, uint64_t seed, int rounds,
                                       size_t n_max) {
    struct stream_ids ids;
    int32_t *sequence = malloc(n_max * sizeof *sequence);
    assert_non_null(sequence);
    stream_ids_init(t, seed, &ids);
    for (int i = 0; i < rounds; i++) {
        size_t n = stream_fill(t, &ids, sequence, 1 + stream_roll(&ids, n_max));
        size_t n_prompt = stream_roll(&ids, 4) ? stream_roll(&ids, n + 1) : 0;
        stream_check(t, sequence, n_prompt, n, i % 2);
    }
    free(sequence);
}

#endif
