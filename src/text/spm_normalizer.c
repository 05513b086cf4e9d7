/* spm_normalizer.c - SentencePiece's normalizer, from its own description of it.
 *
 *   "  Hi   ﬁn "  --remove extra spaces, prefix-->  "▁Hi▁fin"
 *
 * At each place the longest user-defined symbol, which stays as it is, else the longest rule of the
 * charsmap, else one character. Then white space, in the order that SentencePiece has: spaces at
 * the start go, the prefix comes, a space that follows a space goes, spaces at the end go; what is
 * a space is decided after replacement ("\t" is one under nmt_nfkc). A text of nothing but spaces
 * becomes nothing, prefix included. Without the removal all spaces stay and the prefix is one more.
 *
 * The tokenizers library takes the same charsmap in another way (charsmap.c) and leaves white space
 * to other steps; this one is for GGUF, where SentencePiece's own answer is the reference.
 * Cost: one pass; a look-up per character only where a rule may start. */
#include "spm_normalizer.h"

#include "base/mem.h"
#include "base/status.h"
#include "base/utf8.h"
#include "charsmap.h"
#include "trie.h"

#include <stdlib.h>
#include <string.h>

static const char MARK[] = "\xE2\x96\x81"; /* U+2581 */

enum { MARK_LEN = 3 };

struct spm_normalizer {
    struct charsmap *charsmap; /* NULL = no replacements */
    struct trie kept;          /* user-defined symbols */
    bool adds_prefix, removes_spaces;
};

static enum radish_status fill_kept(struct spm_normalizer *n, const struct spec_normalizer *spec,
                                    struct radish_error *err) {
    struct trie_key *keys = mem_alloc(spec->n_kept, sizeof *keys);
    if (!keys) return error_nomem(err);
    for (uint32_t i = 0; i < spec->n_kept; i++)
        keys[i] = (struct trie_key){spec->kept[i].data, spec->kept[i].len, 0, 0};
    bool ok = trie_init(&n->kept, keys, spec->n_kept);
    free(keys);
    return ok ? RADISH_OK : error_nomem(err);
}

enum radish_status spm_normalizer_create(const struct spec_normalizer *spec,
                                         struct spm_normalizer **normalizer_out,
                                         struct radish_error *err) {
    *normalizer_out = NULL;
    struct spm_normalizer *n = calloc(1, sizeof *n);
    if (!n) return error_nomem(err);
    n->adds_prefix = spec->adds_prefix;
    n->removes_spaces = spec->removes_spaces;
    enum radish_status status = fill_kept(n, spec, err);
    if (status == RADISH_OK && spec->content.len)
        status = charsmap_create(spec->content.data, spec->content.len, &n->charsmap, err);
    if (status != RADISH_OK) {
        spm_normalizer_destroy(n);
        return status;
    }
    *normalizer_out = n;
    return RADISH_OK;
}

void spm_normalizer_destroy(struct spm_normalizer *n) {
    if (!n) return;
    charsmap_destroy(n->charsmap);
    trie_deinit(&n->kept);
    free(n);
}

/* What the text s[0..n) starts with becomes *text_out; gives its length. */
static size_t replace_first(const struct spm_normalizer *norm, const char *s, size_t n,
                            struct spec_str *text_out) {
    int32_t value;
    uint32_t c;
    size_t len = trie_longest(&norm->kept, s, n, &value);
    if (!len && norm->charsmap) {
        len = charsmap_longest(norm->charsmap, s, n, text_out);
        if (len) return len;
    }
    if (!len) len = utf8_decode(s, n, &c);
    *text_out = (struct spec_str){s, len};
    return len;
}

static void append_marked(const char *s, size_t n, struct buf *out) {
    while (n) {
        const char *space = memchr(s, ' ', n);
        size_t len = space ? (size_t)(space - s) : n;
        buf_append(out, s, len);
        if (!space) return;
        buf_append(out, MARK, MARK_LEN);
        s += len + 1;
        n -= len + 1;
    }
}

static bool is_one_space(const struct spec_str *text) {
    return text->len == 1 && *text->data == ' ';
}

void spm_normalizer_run(const struct spm_normalizer *norm, const char *s, size_t n,
                        struct buf *out) {
    struct spec_str text;
    size_t at = 0, len;
    bool was_space = norm->removes_spaces;
    for (; norm->removes_spaces && at < n; at += len) {
        len = replace_first(norm, s + at, n - at, &text);
        if (!is_one_space(&text)) break;
    }
    if (at == n) return;
    if (norm->adds_prefix) buf_append(out, MARK, MARK_LEN);
    for (; at < n; at += len) {
        len = replace_first(norm, s + at, n - at, &text);
        while (was_space && text.len && *text.data == ' ') {
            text.data++;
            text.len--;
        }
        if (!text.len) continue;
        append_marked(text.data, text.len, out);
        was_space = norm->removes_spaces && text.data[text.len - 1] == ' ';
    }
    while (norm->removes_spaces && out->len >= MARK_LEN &&
           memcmp(out->data + out->len - MARK_LEN, MARK, MARK_LEN) == 0)
        out->len -= MARK_LEN;
    if (out->data) out->data[out->len] = '\0';
}
