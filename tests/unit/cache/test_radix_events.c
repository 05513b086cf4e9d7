/* What the tree tells of itself: hashes that anybody can compute (the fixed ones are from Python's
 * hashlib), each page told once when it comes and once when it goes, and a mirror made of nothing
 * but that which always equals the tree. */
#include "test.h"

#include "base/rng.h"
#include "cache/kv_cache.h"
#include "cache_tree.h"

enum { CHANGES_MAX = 4096, MIRROR_MAX = 1024 };

static struct {
    struct radix_change changes[CHANGES_MAX]; /* tokens: of the last one only */
    uint32_t n;
} told;

/* Pages that should be in the tree, in no order. */
static struct page {
    int64_t hash, parent;
    bool has_parent;
    uint32_t n_children;
} mirror[MIRROR_MAX];
static uint32_t n_mirror;

static struct page *find_page(int64_t hash) {
    for (uint32_t i = 0; i < n_mirror; i++)
        if (mirror[i].hash == hash) return &mirror[i];
    return NULL;
}

static void mirror_change(const struct radix_change *change) {
    struct page *page = find_page(change->hash);
    switch (change->kind) {
    case RADIX_CHANGE_STORED:
        assert_null(page);
        assert_true(n_mirror < MIRROR_MAX);
        if (change->has_parent) {
            assert_non_null(find_page(change->parent));
            find_page(change->parent)->n_children++;
        }
        mirror[n_mirror++] = (struct page){
            .hash = change->hash, .parent = change->parent, .has_parent = change->has_parent};
        break;
    case RADIX_CHANGE_REMOVED:
        assert_non_null(page);
        assert_int_equal(page->n_children, 0);
        if (page->has_parent) find_page(page->parent)->n_children--;
        *page = mirror[--n_mirror];
        break;
    case RADIX_CHANGE_CLEARED: n_mirror = 0; break;
    }
}

static void take_change(void *user, const struct radix_change *change) {
    assert_ptr_equal(user, &told);
    told.changes[told.n % CHANGES_MAX] = *change;
    told.n++;
    mirror_change(change);
}

static size_t copy_name(void *user, uint32_t namespace_id, char name_out[RADISH_NAMESPACE_MAX]) {
    assert_ptr_equal(user, &told);
    if (!namespace_id) return 0;
    const char *name = namespace_id == 1 ? "team-a" : "team-b";
    memcpy(name_out, name, strlen(name));
    return strlen(name);
}

static void listen_to(struct tree *t, uint32_t n_slots, uint32_t page_slots,
                      enum radix_policy policy) {
    const struct radix_sink sink = {
        .on_change = take_change, .copy_name = copy_name, .user = &told};
    told.n = n_mirror = 0;
    tree_open(t, n_slots, page_slots, policy);
    assert_int_equal(radix_listen(t->radix, &sink, NULL), RADISH_OK);
}

static void assert_stored(uint32_t i, int64_t hash, const int64_t *parent) {
    assert_true(i < told.n);
    assert_int_equal(told.changes[i].kind, RADIX_CHANGE_STORED);
    assert_true(told.changes[i].hash == hash);
    assert_int_equal(told.changes[i].has_parent, parent != NULL);
    if (parent) assert_true(told.changes[i].parent == *parent);
}

static void test_hashes_are_those_that_hashlib_makes(void **state) {
    (void)state;
    static const int64_t ones[] = {7470307888890966271, -1634645291211865391, 7325169757385981536};
    struct tree t;
    listen_to(&t, 320, 1, RADIX_POLICY_LRU);

    tree_add(&t, 0, TOKENS(1, 2, 3));
    tree_add(&t, 0, TOKENS(128255, 70000));

    assert_int_equal(told.n, 5);
    for (uint32_t i = 0; i < 3; i++) assert_stored(i, ones[i], i ? &ones[i - 1] : NULL);
    static const int64_t large[] = {-7887378245250095435, 3668902901251525210};
    for (uint32_t i = 0; i < 2; i++) assert_stored(3 + i, large[i], i ? &large[i - 1] : NULL);
    tree_close(&t);
}

static void test_equal_pages_at_different_places_have_different_hashes(void **state) {
    (void)state;
    static const int64_t pages[] = {-3488128144981237669, 9163096264030462659};
    struct tree t;
    listen_to(&t, 320, 4, RADIX_POLICY_LRU);

    tree_add(&t, 0, TOKENS(1, 2, 3, 4, 1, 2, 3, 4));

    assert_int_equal(told.n, 2);
    assert_stored(0, pages[0], NULL);
    assert_stored(1, pages[1], &pages[0]);
    assert_int_equal(told.changes[1].n_tokens, 4);
    tree_close(&t);
}

static void test_a_namespace_begins_with_the_digest_of_its_name(void **state) {
    (void)state;
    static const int64_t pages[] = {-1674735818207783165, -6332305083949564282};
    struct tree t;
    listen_to(&t, 320, 4, RADIX_POLICY_LRU);

    tree_add(&t, 1, TOKENS(1, 2, 3, 4, 1, 2, 3, 4));
    tree_add(&t, 2, TOKENS(1, 2, 3, 4));
    tree_add(&t, 0, TOKENS(1, 2, 3, 4));

    assert_stored(0, pages[0], NULL);
    assert_stored(1, pages[1], &pages[0]);
    assert_int_equal(told.n, 4); /* and the mirror has seen no hash twice */
    tree_close(&t);
}

static void test_a_split_and_duplicates_tell_nothing(void **state) {
    (void)state;
    struct tree t;
    listen_to(&t, 320, 1, RADIX_POLICY_LRU);
    struct radix_ref a = tree_put(&t, 0, 0, TOKENS(1, 2, 3, 4, 5, 6, 7, 8));
    int64_t second = told.changes[1].hash;
    int64_t last = told.changes[7].hash;

    struct radix_ref b = tree_match(&t, 0, TOKENS(1, 2));
    assert_int_equal(told.n, 8);
    struct radix_ref c = tree_match(&t, 0, TOKENS(9));
    tree_grow(&t, &b, TOKENS(1, 2, 9, 10));
    assert_stored(8, told.changes[8].hash, &second);
    assert_int_equal(told.n, 10);
    assert_int_equal(tree_grow(&t, &c, TOKENS(1, 2, 9, 10)), 4);
    assert_int_equal(told.n, 10);
    tree_grow(&t, &a, TOKENS(1, 2, 3, 4, 5, 6, 7, 8, 11));

    assert_stored(10, told.changes[10].hash, &last);
    tree_leave(&t, &a);
    tree_leave(&t, &b);
    tree_leave(&t, &c);
    tree_close(&t);
    assert_int_equal(told.n, 11);
}

static void test_a_flush_is_one_change_unless_something_is_pinned(void **state) {
    (void)state;
    struct tree t;
    listen_to(&t, 320, 2, RADIX_POLICY_LRU);
    tree_add(&t, 0, TOKENS(1, 2, 3, 4));
    struct radix_ref pinned = tree_put(&t, 0, 0, TOKENS(7, 8));

    radix_flush(t.radix);
    assert_int_equal(told.n, 5); /* the last page goes first: the mirror looks */
    assert_true(told.changes[3].hash == told.changes[1].hash);
    assert_true(told.changes[4].hash == told.changes[0].hash);
    assert_int_equal(n_mirror, 1);
    tree_leave(&t, &pinned);
    radix_flush(t.radix);
    assert_int_equal(told.n, 6);
    assert_int_equal(told.changes[5].kind, RADIX_CHANGE_CLEARED);
    tree_add(&t, 0, TOKENS(1, 2));

    radix_reset(t.radix);
    assert_int_equal(told.changes[told.n - 1].kind, RADIX_CHANGE_CLEARED);
    assert_int_equal(n_mirror, 0);
    tree_close(&t);
}

static void run_random(uint32_t page_slots, enum radix_policy policy, uint64_t seed) {
    enum { REFS = 8, STEPS = 4000, LENGTH = 40 };
    struct tree t;
    struct radix_ref refs[REFS];
    uint32_t n_refs = 0;
    int32_t tokens[LENGTH];
    listen_to(&t, 256 + page_slots, page_slots, policy);
    for (uint32_t i = 0; i < STEPS; i++) {
        uint64_t dice = rng_u64(seed, i);
        uint32_t n = 1 + (uint32_t)(dice >> 8) % LENGTH, cut = (uint32_t)(dice >> 16) % LENGTH;
        for (uint32_t j = 0; j < n; j++)
            tokens[j] = (int32_t)(j < cut ? j / 3 % 2 : rng_u64(seed + i, j) % 3);
        bool is_full = n_refs == REFS || (dice & 3) == 0;
        if (is_full && n_refs) tree_leave(&t, &refs[--n_refs]);
        uint32_t n_free = kv_pool_n_free(t.pool);
        if (n_free < LENGTH) radix_evict(t.radix, LENGTH - n_free);
        if (kv_pool_n_free(t.pool) >= LENGTH)
            refs[n_refs++] =
                tree_put(&t, (uint32_t)(dice >> 60) % 3, (int32_t)(dice >> 40) % 3, tokens, n);
        if ((dice >> 24) % 200 == 0) radix_flush(t.radix);
        uint32_t n_tokens = radix_n_pinned(t.radix) + radix_n_evictable(t.radix);
        assert_int_equal(n_mirror * page_slots, n_tokens);
    }
    while (n_refs) tree_leave(&t, &refs[--n_refs]);
    tree_close(&t);
}

static void test_a_mirror_made_of_changes_equals_the_tree(void **state) {
    (void)state;
    uint64_t seed = rng_seed_from_system();
    printf("seed %llu\n", (unsigned long long)seed);
    run_random(1, RADIX_POLICY_LRU, seed);
    run_random(4, RADIX_POLICY_LFU, seed + 1);
    run_random(4, RADIX_POLICY_LRU, seed + 2);
}

static void test_memory_for_digests_is_planned(void **state) {
    (void)state;
    struct kv_cache_options options = {
        .n_slots = 4000, .page_slots = 4, .n_rows = 2, .context_tokens = 100};
    uint64_t n_off = kv_cache_bytes(&options);

    options.is_announced = true;

    assert_true(kv_cache_bytes(&options) >= n_off + 1000 * 32);
    options.is_tree_off = true;
    assert_true(kv_cache_bytes(&options) < n_off);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_hashes_are_those_that_hashlib_makes),
        cmocka_unit_test(test_equal_pages_at_different_places_have_different_hashes),
        cmocka_unit_test(test_a_namespace_begins_with_the_digest_of_its_name),
        cmocka_unit_test(test_a_split_and_duplicates_tell_nothing),
        cmocka_unit_test(test_a_flush_is_one_change_unless_something_is_pinned),
        cmocka_unit_test(test_a_mirror_made_of_changes_equals_the_tree),
        cmocka_unit_test(test_memory_for_digests_is_planned),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
