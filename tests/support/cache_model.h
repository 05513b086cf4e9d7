/* cache_model.h - a slow prefix tree: one record per page in a flat array, everything by scanning.
 *
 * It knows no edges, so it cannot split wrongly; no counters, so it cannot count wrongly; and it
 * finds who goes next by looking at everybody. Policies are written down as what they mean. */
#ifndef SUPPORT_CACHE_MODEL_H
#define SUPPORT_CACHE_MODEL_H

#include "cache/radix.h"

enum { MODEL_PAGES_MAX = 2048, MODEL_PAGE_SLOTS_MAX = 16, MODEL_NONE = -1 };

struct model_page {
    bool is_used;
    uint32_t namespace_id;
    int parent; /* record, MODEL_NONE: the page at position 0 */
    int32_t tokens[MODEL_PAGE_SLOTS_MAX];
    uint32_t slot; /* of the first token */
    uint32_t n_pins, n_children;
    uint64_t n_hits, used, created;
    int32_t priority;
};

struct model {
    uint32_t page_slots;
    enum radix_policy policy;
    uint64_t clock, n_created;
    int n_pages; /* records in use or free below */
    struct model_page pages[MODEL_PAGES_MAX];
};

struct model_ref {
    uint32_t namespace_id;
    int page; /* the last one, MODEL_NONE: nothing matched */
    uint32_t n_tokens;
    int32_t priority;
};

void model_init(struct model *m, uint32_t page_slots, enum radix_policy policy);
uint32_t model_peek(const struct model *m, uint32_t namespace_id, const int32_t *tokens,
                    uint32_t n);
void model_match_pin(struct model *m, uint32_t namespace_id, const int32_t *tokens, uint32_t n,
                     int32_t priority, struct model_ref *ref_out);
void model_match_more(struct model *m, const int32_t *tokens, uint32_t n, struct model_ref *ref);
/* slots as radix_append() takes them; returns the number of duplicates. */
uint32_t model_append(struct model *m, const int32_t *tokens, uint32_t n, const uint32_t *slots,
                      struct model_ref *ref);
void model_unpin(struct model *m, struct model_ref *ref);
uint32_t model_evict(struct model *m, uint32_t n_slots); /* returns slots given back */

/* slots_out[0..ref->n_tokens) of the ref's path. */
void model_slots(const struct model *m, const struct model_ref *ref, uint32_t *slots_out);
uint32_t model_n_tokens(const struct model *m, bool is_pinned);
bool model_has_slot(const struct model *m, uint32_t slot);

#endif
