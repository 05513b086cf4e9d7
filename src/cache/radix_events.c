/* radix_events.c - a digest for each page of the tree, and a call for each page that comes or goes.
 *
 * The problem: routers and tiers outside want to know what is cached here. Tokens are compared
 * inside the tree, never hashes; but outside, a prefix of ten thousand tokens needs a short name
 * that anybody who has the tokens can compute, the same in every process.
 *
 * The idea: pages are the unit, and the digest lies beside the page, not in the node. So splits and
 * moves of edges have nothing to keep in step: a digest is made when its page is linked, from that
 * of the page before it, and read when the page is trimmed.
 *
 *   root --[p1 p2 p3]--> A --[p7 p8]--> B        prev[p8] = p7
 *          d1 d2 d3            d7 d8             p7 is first: d7 follows A's last page, d3
 *
 * Why the whole digest and not the 8 bytes that are told: the chain is over digests, as consumers
 * compute it, and 64 bits alone would let prompts be built that collide.
 *
 * Cost: 32 bytes a page, and 0.08 us of SHA-256 for a page of one token (2026-11, a core with SHA
 * instructions); nothing but a branch when nobody listens. */
#include "cache/radix_events.h"

#include "base/invariant.h"
#include "base/mem.h"
#include "base/status.h"
#include "cache/radix_int.h"

/* The old interface to SHA-256: the new one allocates for every digest (OpenSSL 3.0). */
#define OPENSSL_SUPPRESS_DEPRECATED
#include <openssl/sha.h>
#include <stdlib.h>

enum { DIGEST_BYTES = SHA256_DIGEST_LENGTH, TOKENS_BLOCK = 64 };

struct radix_events {
    struct radix_sink sink;
    SHA256_CTX sha256;
    unsigned char (*digests)[DIGEST_BYTES]; /* [n_pages] of pages that are in the tree */
    char name[RADISH_NAMESPACE_MAX];
};

uint64_t radix_events_bytes(uint32_t n_pages) {
    return sizeof(struct radix_events) + (uint64_t)n_pages * DIGEST_BYTES;
}

enum radish_status radix_events_create(const struct radix_sink *sink, uint32_t n_pages,
                                       struct radix_events **events_out, struct radish_error *err) {
    *events_out = NULL;
    struct radix_events *events = calloc(1, sizeof *events);
    if (!events) return error_nomem(err);
    events->sink = *sink;
    events->digests = mem_zalloc(n_pages, DIGEST_BYTES);
    if (!events->digests) {
        radix_events_destroy(events);
        return error_nomem(err);
    }
    *events_out = events;
    return RADISH_OK;
}

void radix_events_destroy(struct radix_events *events) {
    if (!events) return;
    free(events->digests);
    free(events);
}

/* ---- SHA-256 ---- */

static void begin_digest(struct radix_events *events) {
    RADISH_INVARIANT(SHA256_Init(&events->sha256), "SHA-256 fails");
}

static void add_bytes(struct radix_events *events, const void *bytes, size_t n) {
    RADISH_INVARIANT(SHA256_Update(&events->sha256, bytes, n), "SHA-256 fails");
}

static void end_digest(struct radix_events *events, unsigned char digest_out[DIGEST_BYTES]) {
    RADISH_INVARIANT(SHA256_Final(digest_out, &events->sha256), "SHA-256 fails");
}

static void add_tokens(struct radix_events *events, const int32_t *tokens, uint32_t n) {
    unsigned char bytes[4 * TOKENS_BLOCK];
    while (n) {
        uint32_t n_here = n < TOKENS_BLOCK ? n : TOKENS_BLOCK;
        for (uint32_t i = 0; i < 4 * n_here; i++)
            bytes[i] = (unsigned char)((uint32_t)tokens[i / 4] >> 8 * (i % 4));
        add_bytes(events, bytes, 4 * (size_t)n_here);
        tokens += n_here;
        n -= n_here;
    }
}

static int64_t hash_of(const unsigned char *digest) {
    uint64_t hash = 0;
    for (unsigned i = 0; i < sizeof hash; i++) hash = hash << 8 | digest[i];
    return (int64_t)hash;
}

/* ---- changes ---- */

/* The seed of a namespace's first pages. False: it has none. */
static bool make_seed(struct radix_events *events, uint32_t namespace_id,
                      unsigned char seed_out[DIGEST_BYTES]) {
    size_t len = events->sink.copy_name(events->sink.user, namespace_id, events->name);
    RADISH_INVARIANT(len <= sizeof events->name, "a namespace's name has %zu bytes", len);
    if (!len) return false;
    begin_digest(events);
    add_bytes(events, events->name, len);
    end_digest(events, seed_out);
    return true;
}

void radix_events_stored(const struct radix *r, uint32_t id, uint32_t page) {
    struct radix_events *events = r->events;
    const struct radix_node *node = &r->nodes[id], *parent = &r->nodes[node->parent];
    uint32_t before = r->prev[page] != RADIX_PAGE_HEAD ? r->prev[page] : parent->last_page;
    unsigned char seed[DIGEST_BYTES];
    const unsigned char *prior = before ? events->digests[before] : NULL;
    if (!before && make_seed(events, node->namespace_id, seed)) prior = seed;
    for (; page; before = page, prior = events->digests[page], page = r->next[page]) {
        const int32_t *tokens = r->tokens + (size_t)page * r->page_slots;
        begin_digest(events);
        if (prior) add_bytes(events, prior, DIGEST_BYTES);
        add_tokens(events, tokens, r->page_slots);
        end_digest(events, events->digests[page]);
        struct radix_change change = {.kind = RADIX_CHANGE_STORED,
                                      .has_parent = before != 0,
                                      .hash = hash_of(events->digests[page]),
                                      .parent = before ? hash_of(events->digests[before]) : 0,
                                      .tokens = tokens,
                                      .n_tokens = r->page_slots};
        events->sink.on_change(events->sink.user, &change);
    }
}

void radix_events_removed(const struct radix *r, uint32_t page) {
    const struct radix_events *events = r->events;
    struct radix_change change = {.kind = RADIX_CHANGE_REMOVED,
                                  .hash = hash_of(events->digests[page])};
    events->sink.on_change(events->sink.user, &change);
}

void radix_events_cleared(const struct radix *r) {
    struct radix_change change = {.kind = RADIX_CHANGE_CLEARED};
    r->events->sink.on_change(r->events->sink.user, &change);
}
