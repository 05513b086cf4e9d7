/* The prefix tree against a slow one that keeps a flat list of pages: every page size, every
 * policy, radix_check() after every operation.
 *
 *   test_radix_fuzz [OPERATIONS [SEED]]     for each of the page sizes and policies */
#include "test.h"

#include "base/rng.h"
#include "base/status.h"
#include "cache/radix.h"
#include "cache_model.h"

enum { REFS_MAX = 12, TOKENS_MAX = 480, OPERATIONS = 1500 };

struct user {
    bool is_open;
    struct radix_ref ref;
    struct model_ref model_ref;
    int32_t tokens[TOKENS_MAX]; /* what it will come to, as far as it gets */
    uint32_t n_planned;
    uint32_t slots[TOKENS_MAX];
};

struct fuzz {
    uint64_t seed, counter;
    uint32_t page_slots;
    struct kv_pool *pool;
    struct radix *tree;
    struct model model;
    struct user users[REFS_MAX];
};

static uint64_t n_operations = OPERATIONS;
static uint64_t fixed_seed;

static uint32_t draw(struct fuzz *f, uint32_t n) {
    return (uint32_t)(rng_u64(f->seed, f->counter++) % n);
}

static struct radix_tokens pieces(const struct user *u, uint32_t n_head) {
    return (struct radix_tokens){.head = u->tokens, .n_head = n_head, .tail = u->tokens + n_head};
}

/* Sequences that share: a few trunks, left at a random place for one of a few branches. */
static void plan_tokens(struct fuzz *f, struct user *u) {
    uint32_t n_max = 30 * f->page_slots < TOKENS_MAX ? 30 * f->page_slots : TOKENS_MAX;
    uint32_t trunk = draw(f, 3), branch = draw(f, 4), leaves_at = draw(f, n_max);
    u->n_planned = 1 + draw(f, n_max);
    for (uint32_t i = 0; i < TOKENS_MAX; i++) {
        uint32_t way = i < leaves_at ? trunk : 10 + trunk + 3 * branch;
        u->tokens[i] = (int32_t)(rng_u64(way, i) % 5 + way);
    }
}

static void compare(struct fuzz *f, const struct user *u) {
    uint32_t slots[TOKENS_MAX];
    assert_int_equal(u->ref.n_tokens, u->model_ref.n_tokens);
    model_slots(&f->model, &u->model_ref, slots);
    assert_memory_equal(u->slots, slots, u->ref.n_tokens * sizeof *slots);
}

static void do_open(struct fuzz *f, struct user *u) {
    uint32_t namespace_id = draw(f, 3) * 7;
    int32_t priority = (int32_t)draw(f, 4) - 1;
    plan_tokens(f, u);
    struct radix_tokens tokens = pieces(u, draw(f, u->n_planned + 1));
    enum radix_miss miss;
    uint32_t n_peeked = radix_peek(f->tree, namespace_id, &tokens, u->n_planned, &miss);
    assert_int_equal(n_peeked, model_peek(&f->model, namespace_id, u->tokens, u->n_planned));
    assert_int_equal(miss == RADIX_MISS_NONE, u->n_planned - n_peeked < f->page_slots);

    radix_match_pin(f->tree, namespace_id, &tokens, u->n_planned, priority, &u->ref, u->slots);

    model_match_pin(&f->model, namespace_id, u->tokens, u->n_planned, priority, &u->model_ref);
    assert_int_equal(u->ref.n_tokens, n_peeked);
    u->is_open = true;
    compare(f, u);
    assert_true(radix_has_namespace(f->tree, namespace_id));
}

static void do_follow(struct fuzz *f, struct user *u) {
    struct radix_tokens tokens = pieces(u, draw(f, u->n_planned + 1));
    if (u->n_planned < u->ref.n_tokens) return;
    radix_match_more(f->tree, &tokens, u->n_planned, &u->ref, u->slots);
    model_match_more(&f->model, u->tokens, u->n_planned, &u->model_ref);
    compare(f, u);
}

static void do_evict(struct fuzz *f, uint32_t n) {
    assert_int_equal(radix_evict(f->tree, n), model_evict(&f->model, n));
}

static void do_append(struct fuzz *f, struct user *u) {
    uint32_t n_max = TOKENS_MAX / f->page_slots * f->page_slots, from = u->ref.n_tokens;
    uint32_t n = from + (draw(f, 4) ? 1 + draw(f, 3) : draw(f, 20)) * f->page_slots;
    if (n > n_max) n = n_max;
    if (n - from > kv_pool_n_free(f->pool)) do_evict(f, n - from - kv_pool_n_free(f->pool));
    if (kv_pool_take(f->pool, n - from, 0, u->slots + from) != RADISH_OK) return;
    uint32_t own[TOKENS_MAX];
    memcpy(own, u->slots, sizeof own);
    struct radix_tokens tokens = pieces(u, draw(f, n + 1));

    uint32_t n_duplicates = radix_append(f->tree, &tokens, n, &u->ref, u->slots);

    assert_int_equal(n_duplicates, model_append(&f->model, u->tokens, n, own, &u->model_ref));
    for (uint32_t i = from; i < from + n_duplicates; i++)
        assert_true(kv_pool_is_free(f->pool, own[i]));
    if (u->n_planned < n) u->n_planned = n;
    compare(f, u);
}

static void do_unpin(struct fuzz *f, struct user *u) {
    radix_unpin(f->tree, &u->ref);
    model_unpin(&f->model, &u->model_ref);
    assert_int_equal(u->ref.node, RADIX_REF_NONE);
    u->is_open = false;
}

static void verify(struct fuzz *f) {
    assert_true(radix_check(f->tree));
    uint32_t n_pinned = model_n_tokens(&f->model, true);
    uint32_t n_evictable = model_n_tokens(&f->model, false);
    assert_int_equal(radix_n_pinned(f->tree), n_pinned);
    assert_int_equal(radix_n_evictable(f->tree), n_evictable);
    assert_int_equal(kv_pool_n_free(f->pool) + n_pinned + n_evictable, kv_pool_n_usable(f->pool));
}

static void run_one(uint64_t seed, uint32_t page_slots, enum radix_policy policy) {
    struct fuzz *f = calloc(1, sizeof *f);
    f->seed = seed;
    f->page_slots = page_slots;
    uint32_t n_pages = page_slots == 1 ? 300 : page_slots == 16 ? 60 : 200;
    assert_int_equal(kv_pool_create(n_pages * page_slots, page_slots, &f->pool, NULL), RADISH_OK);
    assert_int_equal(radix_create(f->pool, REFS_MAX, policy, &f->tree, NULL), RADISH_OK);
    model_init(&f->model, page_slots, policy);
    for (uint64_t i = 0; i < n_operations; i++) {
        struct user *u = &f->users[draw(f, REFS_MAX)];
        uint32_t what = draw(f, 16);
        if (what == 0)
            do_evict(f, 1 + draw(f, draw(f, 8) ? 3 * page_slots : 1000));
        else if (!u->is_open)
            do_open(f, u);
        else if (what < 9)
            do_append(f, u);
        else if (what < 12)
            do_follow(f, u);
        else
            do_unpin(f, u);
        verify(f);
    }
    for (uint32_t i = 0; i < REFS_MAX; i++)
        if (f->users[i].is_open) do_unpin(f, &f->users[i]);
    verify(f);
    radix_destroy(f->tree);
    assert_int_equal(kv_pool_n_free(f->pool), kv_pool_n_usable(f->pool));
    kv_pool_destroy(f->pool);
    free(f);
}

static void test_random_use_agrees_with_a_flat_list_of_pages(void **state) {
    (void)state;
    static const uint32_t page_sizes[] = {1, 2, 4, 16};
    uint64_t seed = fixed_seed ? fixed_seed : rng_seed_from_system();
    printf("seed %llu, %llu operations each\n", (unsigned long long)seed,
           (unsigned long long)n_operations);
    for (uint32_t i = 0; i < 4; i++)
        for (int policy = 0; policy < RADIX_POLICY_COUNT; policy++)
            run_one(seed, page_sizes[i], (enum radix_policy)policy);
}

int main(int argc, char **argv) {
    if (argc > 1) n_operations = strtoull(argv[1], NULL, 10);
    if (argc > 2) fixed_seed = strtoull(argv[2], NULL, 10);
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_random_use_agrees_with_a_flat_list_of_pages),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
