/* The slow prefix tree: see cache_model.h. Every question is a scan over all records. */
#include "cache_model.h"

#include <string.h>

void model_init(struct model *m, uint32_t page_slots, enum radix_policy policy) {
    memset(m, 0, sizeof *m);
    m->page_slots = page_slots;
    m->policy = policy;
}

static int find_page(const struct model *m, uint32_t namespace_id, int parent,
                     const int32_t *tokens) {
    for (int i = 0; i < m->n_pages; i++) {
        const struct model_page *page = &m->pages[i];
        if (page->is_used && page->parent == parent && page->namespace_id == namespace_id &&
            !memcmp(page->tokens, tokens, m->page_slots * sizeof *tokens))
            return i;
    }
    return MODEL_NONE;
}

uint32_t model_peek(const struct model *m, uint32_t namespace_id, const int32_t *tokens,
                    uint32_t n) {
    uint32_t position = 0;
    for (int at = MODEL_NONE; n - position >= m->page_slots; position += m->page_slots) {
        at = find_page(m, namespace_id, at, tokens + position);
        if (at == MODEL_NONE) break;
    }
    return position;
}

/* One page down from the ref; false: there is none. */
static bool step_down(struct model *m, const int32_t *tokens, uint32_t n, struct model_ref *ref) {
    if (n - ref->n_tokens < m->page_slots) return false;
    int child = find_page(m, ref->namespace_id, ref->page, tokens + ref->n_tokens);
    if (child == MODEL_NONE) return false;
    struct model_page *page = &m->pages[child];
    page->n_pins++;
    page->used = m->clock;
    if (page->priority < ref->priority) page->priority = ref->priority;
    ref->page = child;
    ref->n_tokens += m->page_slots;
    return true;
}

void model_match_pin(struct model *m, uint32_t namespace_id, const int32_t *tokens, uint32_t n,
                     int32_t priority, struct model_ref *ref_out) {
    m->clock++;
    *ref_out = (struct model_ref){namespace_id, MODEL_NONE, 0, priority};
    while (step_down(m, tokens, n, ref_out)) m->pages[ref_out->page].n_hits++;
}

void model_match_more(struct model *m, const int32_t *tokens, uint32_t n, struct model_ref *ref) {
    uint32_t n_before = ref->n_tokens;
    m->clock++;
    while (step_down(m, tokens, n, ref)) m->pages[ref->page].n_hits++;
    if (ref->n_tokens == n_before) return;
    for (int i = ref->page, up; (up = m->pages[i].parent) != MODEL_NONE; i = up)
        if (m->pages[up].n_hits < m->pages[i].n_hits) m->pages[up].n_hits = m->pages[i].n_hits;
}

static int take_page(struct model *m) {
    for (int i = 0; i < m->n_pages; i++)
        if (!m->pages[i].is_used) return i;
    return m->n_pages++;
}

uint32_t model_append(struct model *m, const int32_t *tokens, uint32_t n, const uint32_t *slots,
                      struct model_ref *ref) {
    uint32_t n_before = ref->n_tokens;
    while (step_down(m, tokens, n, ref)) {}
    uint32_t n_duplicates = ref->n_tokens - n_before;
    for (uint32_t i = ref->n_tokens; i < n; i += m->page_slots) {
        struct model_page page = {.is_used = true,
                                  .namespace_id = ref->namespace_id,
                                  .parent = ref->page,
                                  .slot = slots[i],
                                  .n_pins = 1,
                                  .used = m->clock,
                                  .priority = ref->priority};
        memcpy(page.tokens, tokens + i, m->page_slots * sizeof *tokens);
        struct model_page *parent = ref->page == MODEL_NONE ? NULL : &m->pages[ref->page];
        bool is_own = parent && parent->n_pins == 1 && !parent->n_children && !parent->n_hits;
        page.created = is_own ? parent->created : ++m->n_created;
        if (is_own) page.priority = parent->priority;
        if (parent) parent->n_children++;
        ref->page = take_page(m);
        m->pages[ref->page] = page;
    }
    ref->n_tokens = n;
    return n_duplicates;
}

void model_unpin(struct model *m, struct model_ref *ref) {
    m->clock++;
    for (int i = ref->page; i != MODEL_NONE; i = m->pages[i].parent) {
        m->pages[i].n_pins--;
        m->pages[i].used = m->clock;
    }
    ref->page = MODEL_NONE;
}

static bool goes_before(const struct model *m, const struct model_page *a,
                        const struct model_page *b) {
    switch (m->policy) {
    case RADIX_POLICY_LFU:
        if (a->n_hits != b->n_hits) return a->n_hits < b->n_hits;
        break;
    case RADIX_POLICY_SLRU:
        if ((a->n_hits >= 2) != (b->n_hits >= 2)) return a->n_hits < 2;
        break;
    case RADIX_POLICY_PRIORITY:
        if (a->priority != b->priority) return a->priority < b->priority;
        break;
    case RADIX_POLICY_FIFO: return a->created < b->created;
    case RADIX_POLICY_FILO: return a->created > b->created;
    case RADIX_POLICY_MRU: return a->used > b->used;
    default: break;
    }
    return a->used < b->used;
}

uint32_t model_evict(struct model *m, uint32_t n_slots) {
    uint32_t n_given = 0;
    while (n_given < n_slots) {
        struct model_page *first = NULL;
        for (int i = 0; i < m->n_pages; i++) {
            struct model_page *page = &m->pages[i];
            if (!page->is_used || page->n_pins || page->n_children) continue;
            if (!first || goes_before(m, page, first)) first = page;
        }
        if (!first) break;
        first->is_used = false;
        if (first->parent != MODEL_NONE) m->pages[first->parent].n_children--;
        n_given += m->page_slots;
    }
    return n_given;
}

void model_slots(const struct model *m, const struct model_ref *ref, uint32_t *slots_out) {
    uint32_t end = ref->n_tokens;
    for (int i = ref->page; i != MODEL_NONE; i = m->pages[i].parent) {
        end -= m->page_slots;
        for (uint32_t j = 0; j < m->page_slots; j++) slots_out[end + j] = m->pages[i].slot + j;
    }
}

uint32_t model_n_tokens(const struct model *m, bool is_pinned) {
    uint32_t n = 0;
    for (int i = 0; i < m->n_pages; i++)
        if (m->pages[i].is_used && (m->pages[i].n_pins > 0) == is_pinned) n += m->page_slots;
    return n;
}

bool model_has_slot(const struct model *m, uint32_t slot) {
    for (int i = 0; i < m->n_pages; i++)
        if (m->pages[i].is_used && slot - m->pages[i].slot < m->page_slots) return true;
    return false;
}
