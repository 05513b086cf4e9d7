/* Sequences come, compute, follow, share and go at random, over a pool with contents: a slot holds
 * a number made of the namespace and all tokens up to its position, as KV is. Whatever a sequence
 * may read must hold what it would have computed itself; kv_cache_check() after every operation.
 *
 *   test_kv_cache_fuzz [OPERATIONS [SEED]]     for each of the page sizes and policies */
#include "test.h"

#include "base/rng.h"
#include "cache/kv_cache.h"

enum { ROWS = 10, TOKENS_MAX = 300, SLOTS_MAX = 1024, OPERATIONS = 1000 };

struct user {
    bool is_open, shares;
    uint32_t namespace_id;
    struct kv_seq seq;
    int32_t tokens[TOKENS_MAX];
    uint32_t n_prompt;  /* what can be looked up; what follows is generated */
    uint32_t n_written; /* positions whose KV is there */
};

struct fuzz {
    uint64_t seed, counter;
    uint32_t page_slots;
    struct kv_cache *cache;
    uint64_t kv[SLOTS_MAX]; /* the device's memory */
    uint32_t n_again, n_shared;
    struct user users[ROWS];
};

static uint64_t n_operations = OPERATIONS;
static uint64_t fixed_seed;

static uint32_t draw(struct fuzz *f, uint32_t n) {
    return (uint32_t)(rng_u64(f->seed, f->counter++) % n);
}

static struct radix_tokens pieces(struct fuzz *f, const struct user *u) {
    uint32_t n_head = draw(f, TOKENS_MAX + 1);
    return (struct radix_tokens){.head = u->tokens, .n_head = n_head, .tail = u->tokens + n_head};
}

/* The KV of the position behind one whose KV is `before`. */
static uint64_t next_kv(uint64_t before, int32_t token) {
    return rng_mix(before * 31 + (uint64_t)token + 1);
}

/* What the sequence reads is what it would have computed. */
static void verify_contents(struct fuzz *f, const struct user *u) {
    const uint32_t *slots = kv_cache_slots(f->cache, &u->seq);
    uint64_t kv = u->namespace_id;
    for (uint32_t i = 0; i < u->n_written; i++) {
        kv = next_kv(kv, u->tokens[i]);
        if (f->kv[slots[i]] != kv)
            fail_msg("position %u, slot %u: foreign KV, seed %llu", i, slots[i],
                     (unsigned long long)f->seed);
    }
}

static void do_open(struct fuzz *f, struct user *u) {
    uint32_t trunk = draw(f, 3), branch = draw(f, 5), leaves_at = draw(f, TOKENS_MAX);
    for (uint32_t i = 0; i < TOKENS_MAX; i++) {
        uint32_t way = i < leaves_at ? trunk : 10 + trunk + 3 * branch;
        u->tokens[i] = (int32_t)(rng_u64(way, i) % 5 + way);
    }
    u->n_prompt = 1 + draw(f, TOKENS_MAX);
    u->shares = draw(f, 10) != 0;
    u->namespace_id = draw(f, 4) / 3;
    struct radix_tokens tokens = pieces(f, u);
    enum radix_miss miss;
    uint32_t n_max = draw(f, 5) ? u->n_prompt - 1 : draw(f, u->n_prompt);
    uint32_t n_there = kv_cache_peek(f->cache, u->namespace_id, &tokens, n_max, &miss);
    enum radish_status status = kv_cache_open(f->cache, u->namespace_id, u->shares, &tokens, n_max,
                                              (int32_t)draw(f, 3), &u->seq);
    assert_int_equal(status, RADISH_OK);
    assert_int_equal(u->seq.n_shared, u->shares ? n_there : 0);
    u->is_open = true;
    u->n_written = u->seq.n_shared;
    f->n_shared += u->n_written;
}

static void do_close(struct fuzz *f, struct user *u) {
    kv_cache_close(f->cache, &u->seq);
    u->is_open = false;
}

/* A step: slots, KV, and most of the time the commit, which may also come late. */
static void do_step(struct fuzz *f, struct user *u) {
    uint32_t n = u->n_written + 1 + draw(f, draw(f, 3) ? 3 : 90);
    if (n > TOKENS_MAX) n = TOKENS_MAX;
    if (kv_cache_extend(f->cache, &u->seq, n, n + draw(f, 16)) != RADISH_OK) {
        f->n_again++;
        do_close(f, u); /* retracted */
        return;
    }
    const uint32_t *slots = kv_cache_slots(f->cache, &u->seq);
    uint64_t kv = u->n_written ? f->kv[slots[u->n_written - 1]] : u->namespace_id;
    for (; u->n_written < n; u->n_written++)
        f->kv[slots[u->n_written]] = kv = next_kv(kv, u->tokens[u->n_written]);
    if (!draw(f, 8)) return;
    struct radix_tokens tokens = pieces(f, u);
    kv_cache_commit(f->cache, &u->seq, &tokens, draw(f, 8) ? n : draw(f, n + 1));
}

static void do_follow(struct fuzz *f, struct user *u) {
    if (kv_cache_n_held(f->cache, &u->seq) > u->seq.n_shared) return;
    struct radix_tokens tokens = pieces(f, u);
    kv_cache_follow(f->cache, &u->seq, &tokens, u->n_prompt - 1);
    u->n_written = u->seq.n_shared;
}

static void run_one(uint64_t seed, uint32_t page_slots, enum radix_policy policy, bool is_off) {
    struct fuzz *f = calloc(1, sizeof *f);
    f->seed = seed;
    struct kv_cache_options options = {.n_slots = 640,
                                       .page_slots = page_slots,
                                       .n_rows = ROWS,
                                       .context_tokens = TOKENS_MAX,
                                       .is_tree_off = is_off,
                                       .policy = policy};
    assert_int_equal(kv_cache_create(&options, &f->cache, NULL), RADISH_OK);
    for (uint64_t i = 0; i < n_operations; i++) {
        struct user *u = &f->users[draw(f, ROWS)];
        uint32_t what = draw(f, 40);
        if (what == 0)
            kv_cache_flush(f->cache);
        else if (!u->is_open)
            do_open(f, u);
        else if (what < 25)
            do_step(f, u);
        else if (what < 33)
            do_follow(f, u);
        else
            do_close(f, u);
        if (!kv_cache_check(f->cache))
            fail_msg("operation %llu breaks the cache, seed %llu", (unsigned long long)i,
                     (unsigned long long)seed);
        for (uint32_t j = 0; j < ROWS; j++)
            if (f->users[j].is_open) verify_contents(f, &f->users[j]);
    }
    for (uint32_t i = 0; i < ROWS; i++)
        if (f->users[i].is_open) do_close(f, &f->users[i]);
    assert_true(f->n_again > 0);
    assert_int_equal(f->n_shared > 0, !is_off);
    kv_cache_flush(f->cache);
    assert_int_equal(kv_cache_n_free(f->cache), kv_cache_n_usable(f->cache));
    kv_cache_destroy(f->cache);
    free(f);
}

static void test_nobody_ever_reads_foreign_kv(void **state) {
    (void)state;
    static const uint32_t page_sizes[] = {1, 2, 4, 16};
    uint64_t seed = fixed_seed ? fixed_seed : rng_seed_from_system();
    printf("seed %llu, %llu operations each\n", (unsigned long long)seed,
           (unsigned long long)n_operations);
    for (uint32_t i = 0; i < 4; i++) {
        for (int policy = 0; policy < RADIX_POLICY_COUNT; policy++)
            run_one(seed, page_sizes[i], (enum radix_policy)policy, false);
        run_one(seed, page_sizes[i], RADIX_POLICY_LRU, true);
    }
}

int main(int argc, char **argv) {
    if (argc > 1) n_operations = strtoull(argv[1], NULL, 10);
    if (argc > 2) fixed_seed = strtoull(argv[2], NULL, 10);
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_nobody_ever_reads_foreign_kv),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
