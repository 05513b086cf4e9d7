/* vocab.c - one blob of all strings, an array of places by id, and an open-addressing table from
 * string to id.
 *
 * The table holds ids only (4 bytes a slot, at most half full): a probe compares the string itself,
 * so nothing is decided by a hash. A real vocabulary of 262,144 tokens takes 2 MB of slots and one
 * cache miss or two per look-up, which is what encoding costs. Strings are added once and never
 * removed; a string added again points to its new id. */
#include "vocab.h"

#include "base/invariant.h"
#include "base/mem.h"
#include "base/rng.h"

#include <stdlib.h>
#include <string.h>

static uint64_t hash_bytes(const char *s, size_t n) {
    uint64_t h = n * 0x9E3779B97F4A7C15u, word;
    while (n >= 8) {
        memcpy(&word, s, 8);
        h = (h ^ word) * 0xBF58476D1CE4E5B9u;
        h ^= h >> 32;
        s += 8;
        n -= 8;
    }
    word = 0;
    for (size_t i = 0; i < n; i++) word |= (uint64_t)(unsigned char)s[i] << (8 * i);
    return rng_mix(h ^ word);
}

bool vocab_init(struct vocab *v, uint32_t n_ids, uint32_t n_strings) {
    size_t n_slots = 16;
    *v = (struct vocab){0};
    while (n_slots < (size_t)n_strings * 2) n_slots *= 2;
    v->entries = mem_zalloc(n_ids, sizeof *v->entries);
    v->slots = mem_alloc(n_slots, sizeof *v->slots);
    if (!v->entries || !v->slots) {
        vocab_deinit(v);
        return false;
    }
    memset(v->slots, 0xFF, n_slots * sizeof *v->slots);
    v->n_ids = n_ids;
    v->n_slots = n_slots;
    return true;
}

void vocab_deinit(struct vocab *v) {
    free(v->entries);
    free(v->slots);
    buf_deinit(&v->blob);
    *v = (struct vocab){0};
}

static bool is_string(const struct vocab *v, int32_t id, const char *s, size_t len) {
    const struct vocab_entry *e = &v->entries[id];
    return e->len == len && (!len || memcmp(v->blob.data + e->offset, s, len) == 0);
}

/* The slot that holds s, or the free one where it would go: the table is never full. */
static size_t find_slot(const struct vocab *v, const char *s, size_t len) {
    size_t mask = v->n_slots - 1, at = hash_bytes(s, len) & mask;
    while (v->slots[at] >= 0 && !is_string(v, v->slots[at], s, len)) at = (at + 1) & mask;
    return at;
}

/* An id that gets another string must lose its old slot, or the probe for the old string would
 * compare with the new one. Rare, so the cluster is simply rebuilt. */
static void forget(struct vocab *v, int32_t id) {
    size_t mask = v->n_slots - 1;
    const struct vocab_entry *e = &v->entries[id];
    size_t at = find_slot(v, v->blob.data + e->offset, e->len);
    if (v->slots[at] != id) return;
    v->slots[at] = -1;
    for (at = (at + 1) & mask; v->slots[at] >= 0; at = (at + 1) & mask) {
        int32_t moved = v->slots[at];
        v->slots[at] = -1;
        e = &v->entries[moved];
        v->slots[find_slot(v, v->blob.data + e->offset, e->len)] = moved;
    }
}

bool vocab_put(struct vocab *v, int32_t id, const char *s, size_t len, bool is_found) {
    RADISH_INVARIANT(id >= 0 && (uint32_t)id < v->n_ids, "id %d of %u", id, v->n_ids);
    struct vocab_entry *e = &v->entries[id];
    if (len > UINT32_MAX) return false;
    if (e->is_present) forget(v, id);
    *e = (struct vocab_entry){.offset = v->blob.len, .len = (uint32_t)len, .is_present = true};
    buf_append(&v->blob, s, len);
    buf_append_char(&v->blob, '\0');
    if (v->blob.failed) {
        *e = (struct vocab_entry){0};
        return false;
    }
    if (is_found) v->slots[find_slot(v, s, len)] = id;
    return true;
}

int32_t vocab_find(const struct vocab *v, const char *s, size_t len) {
    return v->n_slots ? v->slots[find_slot(v, s, len)] : -1;
}

const char *vocab_get(const struct vocab *v, int32_t id, size_t *len_out) {
    *len_out = 0;
    if (id < 0 || (uint32_t)id >= v->n_ids || !v->entries[id].is_present) return NULL;
    *len_out = v->entries[id].len;
    return v->blob.data + v->entries[id].offset;
}
