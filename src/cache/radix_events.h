/* radix_events.h - what joins and leaves the tree, told page by page, with names that others can
 * compute.
 *
 * Owns: a digest for each page, made when the page joins. Caller keeps: the sink and what it points
 * to, until the tree is destroyed. Threads: the engine's. Nothing is allocated after create.
 *
 *   digest(page) = SHA-256(digest of the page before | its tokens, 4 bytes each, little end first)
 *   digest(first page) = SHA-256([SHA-256(name of the namespace), unless that is empty] | tokens)
 *   hash = the first 8 bytes of the digest, big end first, as a signed number
 *
 * A page's hash says everything in front of it, so that equal tokens at different places have
 * different hashes, and a split changes none. */
#ifndef CACHE_RADIX_EVENTS_H
#define CACHE_RADIX_EVENTS_H

#include "radish.h"

struct radix;
struct radix_events;

enum radix_change_kind {
    RADIX_CHANGE_STORED,
    RADIX_CHANGE_REMOVED,
    RADIX_CHANGE_CLEARED /* nothing is left; no page is removed by itself then */
};

struct radix_change {
    enum radix_change_kind kind;
    bool has_parent; /* false: the first page of its namespace */
    int64_t hash, parent;
    const int32_t *tokens; /* [n_tokens] of a page that is stored; borrowed until return */
    uint32_t n_tokens;
};

/* Both are called from inside the tree's operations and must not call back into it. */
struct radix_sink {
    void (*on_change)(void *user, const struct radix_change *change); /* NULL: nobody listens */
    /* Copies the name of a namespace; returns its length. */
    size_t (*copy_name)(void *user, uint32_t namespace_id, char name_out[RADISH_NAMESPACE_MAX]);
    void *user;
};

/* E_NOMEM. */
enum radish_status radix_events_create(const struct radix_sink *sink, uint32_t n_pages,
                                       struct radix_events **events_out,
                                       struct radish_error *err) RADISH_CHECK_RESULT;
void radix_events_destroy(struct radix_events *events);
uint64_t radix_events_bytes(uint32_t n_pages); /* its memory */

/* For radix.c: pages from `page` to the end of the node's edge have just been linked. */
void radix_events_stored(const struct radix *r, uint32_t node, uint32_t page);
void radix_events_removed(const struct radix *r, uint32_t page);
void radix_events_cleared(const struct radix *r);

#endif
