/* charsmap.c - replacements from a trie that someone else compiled.
 *
 *   blob:  u32 trie bytes | trie (darts-clone double array of u32 units) | texts, each NUL-ended
 *
 * A unit holds a label (bits 0-7; bit 31 marks a value instead), whether a string ends here (bit 8)
 * and the offset to its children (bits 10-30, times 256 if bit 9): child = (node ^ offset) ^ byte.
 * A value is a place in the texts. The blob comes out of a model file, so nothing in it is
 * believed: a place outside of the array is "no rule", and so is one outside of the texts or inside
 * of a character.
 *
 * Two users apply the same table in two ways, and each is right for what it made:
 *   - SentencePiece walks the text and takes the longest rule at each place;
 *   - the tokenizers library walks grapheme clusters (UAX 29). One of less than 6 bytes is asked
 *     for as a whole, and the *shortest* rule that it starts with replaces all of it ("ﬁ" with an
 *     accent loses the accent). Otherwise, and where there is no rule, each character is asked for.
 * Most texts meet no rule: a bit per first byte says whether any rule starts with it, and ASCII
 * next to ASCII is a cluster of its own (but for CR LF), so no property of a character is looked
 * up.
 *
 * Clusters are utf8proc's. Its older versions do not join Indic conjuncts (rule GB9c); those are of
 * 6 bytes and more however they are joined, so single characters are asked for either way. */
#include "charsmap.h"

#include "base/status.h"
#include "base/utf8.h"

#include <stdlib.h>
#include <string.h>
#include <utf8proc.h>

enum { WHOLE_BYTES_MAX = 5 };

struct charsmap {
    char *texts; /* [n_text_bytes] and a NUL */
    size_t n_text_bytes;
    uint32_t n_units;
    bool starts[256]; /* a rule starts with this byte */
    uint32_t units[]; /* [n_units] */
};

static uint32_t label_of(uint32_t unit) {
    return unit & (1u << 31 | 0xFF);
}

static uint32_t offset_of(uint32_t unit) {
    return (unit >> 10) << ((unit & 1u << 9) >> 6);
}

/* A walk down the trie. */
struct walk {
    const struct charsmap *map;
    uint32_t node; /* already moved by the offset to the children */
};

static bool walk_start(struct walk *walk, const struct charsmap *map) {
    *walk = (struct walk){map, 0};
    if (!map->n_units) return false;
    walk->node ^= offset_of(map->units[0]);
    return true;
}

/* False: no string goes on with this byte. *place_out: of the text of the one that ends here, or
 * SIZE_MAX. */
static bool walk_step(struct walk *walk, uint8_t byte, size_t *place_out) {
    const struct charsmap *map = walk->map;
    *place_out = SIZE_MAX;
    walk->node ^= byte;
    if (!byte || walk->node >= map->n_units) return false;
    uint32_t unit = map->units[walk->node];
    if (label_of(unit) != byte) return false;
    walk->node ^= offset_of(unit);
    if ((unit >> 8 & 1) && walk->node < map->n_units)
        *place_out = map->units[walk->node] & ((1u << 31) - 1);
    return true;
}

/* False: the place is not that of a text. */
static bool find_text(const struct charsmap *map, size_t place, struct spec_str *text_out) {
    *text_out = (struct spec_str){"", 0};
    if (place > map->n_text_bytes) return false;
    const char *text = map->texts + place;
    if (((unsigned char)*text & 0xC0) == 0x80) return false;
    *text_out = (struct spec_str){text, strlen(text)};
    return true;
}

enum radish_status charsmap_create(const char *blob, size_t len, struct charsmap **charsmap_out,
                                   struct radish_error *err) {
    uint32_t trie_bytes = 0;
    *charsmap_out = NULL;
    if (len >= 4)
        for (int i = 3; i >= 0; i--) trie_bytes = trie_bytes << 8 | (unsigned char)blob[i];
    if (len < 4 || trie_bytes > len - 4 || trie_bytes % 4)
        return error_set(err, RADISH_E_FORMAT, "the precompiled charsmap is cut short");
    size_t n_text_bytes = len - 4 - trie_bytes;
    if (utf8_valid_prefix(blob + 4 + trie_bytes, n_text_bytes) != n_text_bytes)
        return error_set(err, RADISH_E_FORMAT,
                         "the texts of the precompiled charsmap are not valid UTF-8");
    struct charsmap *map = calloc(1, sizeof *map + trie_bytes);
    if (map) map->texts = malloc(n_text_bytes + 1);
    if (!map || !map->texts) {
        charsmap_destroy(map);
        return error_nomem(err);
    }
    memcpy(map->texts, blob + 4 + trie_bytes, n_text_bytes);
    map->texts[n_text_bytes] = '\0';
    map->n_text_bytes = n_text_bytes;
    map->n_units = trie_bytes / 4;
    for (size_t i = 0; i < map->n_units; i++) {
        const unsigned char *u = (const unsigned char *)blob + 4 + 4 * i;
        map->units[i] = u[0] | (uint32_t)u[1] << 8 | (uint32_t)u[2] << 16 | (uint32_t)u[3] << 24;
    }
    for (unsigned byte = 1; byte < 256; byte++) {
        struct walk walk;
        size_t place;
        map->starts[byte] = walk_start(&walk, map) && walk_step(&walk, (uint8_t)byte, &place);
    }
    *charsmap_out = map;
    return RADISH_OK;
}

void charsmap_destroy(struct charsmap *map) {
    if (!map) return;
    free(map->texts);
    free(map);
}

size_t charsmap_longest(const struct charsmap *map, const char *s, size_t n,
                        struct spec_str *text_out) {
    struct walk walk;
    size_t longest = 0, place, found = 0;
    *text_out = (struct spec_str){"", 0};
    if (!n || !map->starts[(unsigned char)s[0]] || !walk_start(&walk, map)) return 0;
    for (size_t i = 0; i < n && walk_step(&walk, (uint8_t)s[i], &place); i++) {
        if (place == SIZE_MAX) continue;
        longest = i + 1;
        found = place;
    }
    return longest && find_text(map, found, text_out) ? longest : 0;
}

/* ---- as the tokenizers library does it */

/* The text of the shortest rule that s[0..n) starts with. */
static bool find_shortest(const struct charsmap *map, const char *s, size_t n,
                          struct spec_str *text_out) {
    struct walk walk;
    size_t place;
    if (!map->starts[(unsigned char)s[0]] || !walk_start(&walk, map)) return false;
    for (size_t i = 0; i < n && walk_step(&walk, (uint8_t)s[i], &place); i++)
        if (place != SIZE_MAX) return find_text(map, place, text_out);
    return false;
}

static size_t cluster_len(const char *s, size_t n) {
    utf8proc_int32_t state = 0;
    uint32_t c, next;
    size_t at, len;
    bool is_ascii = (unsigned char)s[0] < 0x80;
    if (is_ascii && (n == 1 || ((unsigned char)s[1] < 0x80 && s[0] != '\r'))) return 1;
    at = utf8_decode(s, n, &c);
    for (; at < n; at += len, c = next) {
        len = utf8_decode(s + at, n - at, &next);
        if (utf8proc_grapheme_break_stateful((utf8proc_int32_t)c, (utf8proc_int32_t)next, &state))
            break;
    }
    return at;
}

/* A walk over a text: what is replaced by what, in order. */
struct replacer {
    const struct charsmap *map;
    const char *s; /* [n] */
    size_t n, at;
    size_t cluster_end; /* at < cluster_end: in the characters of a cluster without a rule */
};

/* False: the end. Else *len_out bytes become *text_out. */
static bool replace_next(struct replacer *r, size_t *len_out, struct spec_str *text_out) {
    uint32_t c;
    if (r->at == r->n) return false;
    const char *s = r->s + r->at;
    if (r->at >= r->cluster_end) {
        size_t cluster = cluster_len(s, r->n - r->at);
        r->cluster_end = r->at + cluster;
        if (cluster <= WHOLE_BYTES_MAX && find_shortest(r->map, s, cluster, text_out)) {
            *len_out = cluster;
            r->at += cluster;
            return true;
        }
    }
    *len_out = utf8_decode(s, r->cluster_end - r->at, &c);
    if (!find_shortest(r->map, s, *len_out, text_out)) *text_out = (struct spec_str){s, *len_out};
    r->at += *len_out;
    return true;
}

void charsmap_normalize(const struct charsmap *map, const char *s, size_t n, struct buf *out) {
    struct replacer r = {.map = map, .s = s, .n = n};
    struct spec_str text;
    size_t len;
    while (replace_next(&r, &len, &text)) buf_append(out, text.data, text.len);
}

/* The library pairs characters by counting: each new one with the next old one; surplus new ones
 * belong to the one before, surplus old ones go with the new one before, but at the very start they
 * are forgotten, and all that follows is off by as many. */
size_t charsmap_first_len(const struct charsmap *map, const char *s, size_t n, size_t first) {
    struct replacer r = {.map = map, .s = s, .n = n};
    const size_t n_first = utf8_count(s, first);
    size_t n_paired = 0, first_len = 0, len;
    struct spec_str text;
    while (n_paired < n_first && replace_next(&r, &len, &text)) {
        const size_t n_old = utf8_count(s + r.at - len, len);
        size_t n_new = 0;
        for (size_t at = 0, char_len; at < text.len; at += char_len, n_new++) {
            uint32_t c;
            char_len = utf8_decode(text.data + at, text.len - at, &c);
            if (n_new < n_old && n_paired >= n_first) return first_len;
            n_paired += n_new < n_old;
            first_len += char_len;
        }
        if (n_new < n_old && first_len) n_paired += n_old - n_new;
    }
    return first_len;
}
