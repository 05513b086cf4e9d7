/* A prefix tree with its pool: see cache_tree.h. radix_check() follows every move. */
#include "cache_tree.h"

#include "test.h"

void tree_open(struct tree *t, uint32_t n_slots, uint32_t page_slots, enum radix_policy policy) {
    memset(t, 0, sizeof *t);
    assert_int_equal(kv_pool_create(n_slots, page_slots, &t->pool, NULL), RADISH_OK);
    assert_int_equal(radix_create(t->pool, 16, policy, &t->radix, NULL), RADISH_OK);
}

void tree_close(struct tree *t) {
    radix_destroy(t->radix);
    assert_int_equal(kv_pool_n_free(t->pool), kv_pool_n_usable(t->pool));
    kv_pool_destroy(t->pool);
}

static struct radix_tokens whole(const int32_t *tokens, uint32_t n) {
    return (struct radix_tokens){.head = tokens, .n_head = n};
}

struct radix_ref tree_match(struct tree *t, uint32_t namespace_id, const int32_t *tokens,
                            uint32_t n) {
    struct radix_ref ref;
    struct radix_tokens all = whole(tokens, n);
    radix_match_pin(t->radix, namespace_id, &all, n, 0, &ref, t->slots);
    assert_true(radix_check(t->radix));
    return ref;
}

uint32_t tree_grow(struct tree *t, struct radix_ref *ref, const int32_t *tokens, uint32_t n) {
    struct radix_tokens all = whole(tokens, n);
    n -= n % kv_pool_page_slots(t->pool);
    uint32_t from = ref->n_tokens;
    assert_int_equal(kv_pool_take(t->pool, n - from, 0, t->slots + from), RADISH_OK);
    uint32_t n_duplicates = radix_append(t->radix, &all, n, ref, t->slots);
    assert_int_equal(ref->n_tokens, n);
    assert_true(radix_check(t->radix));
    return n_duplicates;
}

struct radix_ref tree_put(struct tree *t, uint32_t namespace_id, int32_t priority,
                          const int32_t *tokens, uint32_t n) {
    struct radix_ref ref;
    struct radix_tokens all = whole(tokens, n);
    radix_match_pin(t->radix, namespace_id, &all, n, priority, &ref, t->slots);
    assert_int_equal(tree_grow(t, &ref, tokens, n), 0);
    return ref;
}

void tree_add(struct tree *t, uint32_t namespace_id, const int32_t *tokens, uint32_t n) {
    struct radix_ref ref = tree_put(t, namespace_id, 0, tokens, n);
    tree_leave(t, &ref);
}

void tree_leave(struct tree *t, struct radix_ref *ref) {
    radix_unpin(t->radix, ref);
    assert_true(radix_check(t->radix));
}

uint32_t tree_peek(const struct tree *t, uint32_t namespace_id, const int32_t *tokens, uint32_t n) {
    enum radix_miss miss;
    struct radix_tokens all = whole(tokens, n);
    return radix_peek(t->radix, namespace_id, &all, n, &miss);
}

enum radix_miss tree_miss(const struct tree *t, uint32_t namespace_id, const int32_t *tokens,
                          uint32_t n) {
    enum radix_miss miss;
    struct radix_tokens all = whole(tokens, n);
    radix_peek(t->radix, namespace_id, &all, n, &miss);
    return miss;
}

uint32_t tree_n_nodes(const struct tree *t) {
    struct radix_summary summary;
    radix_summary(t->radix, &summary);
    return summary.n_nodes;
}
