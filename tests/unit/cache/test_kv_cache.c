/* Pool, table and tree as one: what a sequence shares, holds and gives back; the cases that other
 * servers got wrong; nothing is allocated after create. */
#include "test.h"

#include "alloc_fail.h"
#include "cache/kv_cache_int.h"
#include "cache/radix_int.h"

#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

enum { CONTEXT = 1024 };

static struct kv_cache *make_cache(uint32_t n_slots, uint32_t page_slots, bool is_tree_off) {
    struct kv_cache_options options = {.n_slots = n_slots,
                                       .page_slots = page_slots,
                                       .n_rows = 8,
                                       .context_tokens = CONTEXT,
                                       .is_tree_off = is_tree_off};
    struct kv_cache *cache;
    assert_int_equal(kv_cache_create(&options, &cache, NULL), RADISH_OK);
    return cache;
}

static void drop_cache(struct kv_cache *cache) {
    kv_cache_flush(cache);
    assert_int_equal(kv_cache_n_free(cache), kv_cache_n_usable(cache));
    kv_cache_destroy(cache);
}

/* Tokens 0 .. n-1 of a text: `trunk` for the first n_trunk, then its own. */
static void write_text(int32_t *tokens, uint32_t n, int32_t trunk, uint32_t n_trunk, int32_t own) {
    for (uint32_t i = 0; i < n; i++)
        tokens[i] = (int32_t)i % 97 + 1000 * (i < n_trunk ? trunk : own);
}

static struct radix_tokens whole(const int32_t *tokens, uint32_t n) {
    return (struct radix_tokens){.head = tokens, .n_head = n};
}

/* Admits a prompt as the scheduler does: all but its last token may be shared. Returns how many
 * are. */
static uint32_t admit(struct kv_cache *cache, struct kv_seq *seq, const int32_t *tokens,
                      uint32_t n) {
    struct radix_tokens all = whole(tokens, n);
    assert_int_equal(kv_cache_open(cache, 0, true, &all, n - 1, 0, seq), RADISH_OK);
    assert_true(kv_cache_check(cache));
    return seq->n_shared;
}

/* Positions [0, n) are held and, after the step, committed. */
static enum radish_status compute(struct kv_cache *cache, struct kv_seq *seq, const int32_t *tokens,
                                  uint32_t n) {
    struct radix_tokens all = whole(tokens, n);
    enum radish_status status = kv_cache_extend(cache, seq, n, n);
    assert_true(kv_cache_check(cache));
    if (status != RADISH_OK) return status;
    assert_true(kv_cache_n_held(cache, seq) >= n);
    kv_cache_commit(cache, seq, &all, n);
    assert_true(kv_cache_check(cache));
    return RADISH_OK;
}

static void leave(struct kv_cache *cache, struct kv_seq *seq) {
    kv_cache_close(cache, seq);
    assert_true(kv_cache_check(cache));
}

/* A whole request; returns how many tokens it shared. */
static uint32_t request(struct kv_cache *cache, const int32_t *tokens, uint32_t n) {
    struct kv_seq seq;
    uint32_t n_shared = admit(cache, &seq, tokens, n);
    assert_int_equal(compute(cache, &seq, tokens, n), RADISH_OK);
    leave(cache, &seq);
    return n_shared;
}

/* ---- field cases ---- */

static void test_two_clients_share_a_system_prompt_wherever_they_run(void **state) {
    (void)state;
    struct kv_cache *cache = make_cache(4096, 1, false);
    int32_t a[1100], b[1100];
    write_text(a, 1020, 1, 1000, 2);
    write_text(b, 1020, 1, 1000, 3);

    assert_int_equal(request(cache, a, 1020), 0);
    assert_int_equal(request(cache, b, 1020), 1000);

    drop_cache(cache);
}

static void test_the_prompt_of_a_busy_sequence_is_reused(void **state) {
    (void)state;
    struct kv_cache *cache = make_cache(4096, 1, false);
    int32_t a[CONTEXT], b[CONTEXT];
    write_text(a, CONTEXT, 1, 300, 2);
    write_text(b, CONTEXT, 1, 300, 3);
    struct kv_seq busy, other;
    admit(cache, &busy, a, 300);
    assert_int_equal(compute(cache, &busy, a, 300), RADISH_OK);
    for (uint32_t n = 301; n < 400; n++) assert_int_equal(compute(cache, &busy, a, n), RADISH_OK);

    assert_int_equal(admit(cache, &other, b, 310), 300);

    /* Also what it has generated, up to the last written token. */
    leave(cache, &other);
    assert_int_equal(admit(cache, &other, a, 500), 399);
    assert_memory_equal(kv_cache_slots(cache, &other), kv_cache_slots(cache, &busy),
                        399 * sizeof(uint32_t));
    leave(cache, &other);
    leave(cache, &busy);
    drop_cache(cache);
}

static void test_a_then_b_then_a_is_still_cached(void **state) {
    (void)state;
    struct kv_cache *cache = make_cache(4096, 1, false);
    int32_t a[900], b[900];
    write_text(a, 900, 1, 900, 0);
    write_text(b, 900, 2, 900, 0);

    assert_int_equal(request(cache, a, 900), 0);
    assert_int_equal(request(cache, b, 900), 0);
    assert_int_equal(request(cache, a, 900), 899);
    assert_int_equal(request(cache, b, 900), 899);

    drop_cache(cache);
}

static void test_a_shared_prefix_outlives_the_long_chats_that_share_it(void **state) {
    (void)state;
    struct kv_cache *cache = make_cache(1025, 1, false);
    int32_t tokens[400];
    for (int32_t chat = 0; chat < 12; chat++) {
        write_text(tokens, 400, 1, 100, 2 + chat);
        assert_int_equal(request(cache, tokens, 400), chat ? 100 : 0);
    }
    drop_cache(cache);
}

static void test_what_is_about_to_be_used_is_protected_before_room_is_made(void **state) {
    (void)state;
    /* Room for one chat and a half: each takes its place from the other, never from itself. */
    struct kv_cache *cache = make_cache(451, 1, false);
    int32_t a[400], b[400];
    write_text(a, 400, 1, 400, 0);
    write_text(b, 400, 2, 400, 0);
    uint32_t n_a = 200, n_b = 200;
    request(cache, a, n_a);
    request(cache, b, n_b);
    for (uint32_t turn = 0; turn < 4; turn++) {
        struct kv_seq seq;
        uint32_t n_there = admit(cache, &seq, a, n_a + 40);
        assert_int_equal(compute(cache, &seq, a, n_a + 40), RADISH_OK);
        assert_true(seq.n_shared >= n_there);
        n_a += 40;
        leave(cache, &seq);
        assert_int_equal(request(cache, a, n_a), n_a - 1);
        request(cache, b, n_b + 5);
        n_b += 5;
    }
    drop_cache(cache);
}

static void test_a_strict_prefix_of_a_longer_prompt_is_served(void **state) {
    (void)state;
    for (uint32_t page_slots = 1; page_slots <= 16; page_slots *= 4) {
        struct kv_cache *cache = make_cache(4096, page_slots, false);
        int32_t tokens[49];
        write_text(tokens, 49, 1, 49, 0);
        request(cache, tokens, 49);
        assert_int_equal(request(cache, tokens, 13), 12 / page_slots * page_slots);
        assert_int_equal(request(cache, tokens, 1), 0);
        drop_cache(cache);
    }
}

static void test_an_exact_repeat_computes_its_last_token(void **state) {
    (void)state;
    static const uint32_t page_sizes[] = {1, 2, 4, 16};
    for (uint32_t i = 0; i < 4; i++) {
        uint32_t page_slots = page_sizes[i];
        struct kv_cache *cache = make_cache(4096, page_slots, false);
        int32_t tokens[64];
        write_text(tokens, 64, 1, 64, 0);
        for (uint32_t n = 1; n <= 64; n++) {
            request(cache, tokens, n);
            assert_int_equal(request(cache, tokens, n), (n - 1) / page_slots * page_slots);
        }
        drop_cache(cache);
    }
}

static void test_a_wish_for_prompt_logits_caps_what_is_shared(void **state) {
    (void)state;
    struct kv_cache *cache = make_cache(1025, 1, false);
    int32_t tokens[64];
    write_text(tokens, 64, 1, 64, 0);
    request(cache, tokens, 64);
    struct radix_tokens all = whole(tokens, 64);
    struct kv_seq seq;

    assert_int_equal(kv_cache_open(cache, 0, true, &all, 20, 0, &seq), RADISH_OK);

    assert_int_equal(seq.n_shared, 20);
    assert_int_equal(compute(cache, &seq, tokens, 64), RADISH_OK); /* 44 duplicates */
    assert_int_equal(radix_n_pinned(kv_cache_radix(cache)), 64);
    leave(cache, &seq);
    drop_cache(cache);
}

/* ---- traps ---- */

static void test_kv_exists_once_and_is_shared_in_place(void **state) {
    (void)state;
    struct kv_cache *cache = make_cache(1025, 1, false);
    int32_t tokens[300];
    write_text(tokens, 300, 1, 300, 0);
    struct kv_seq seqs[8];
    admit(cache, &seqs[0], tokens, 300);
    assert_int_equal(compute(cache, &seqs[0], tokens, 300), RADISH_OK);

    for (uint32_t i = 1; i < 8; i++) {
        assert_int_equal(admit(cache, &seqs[i], tokens, 300), 299);
        assert_memory_equal(kv_cache_slots(cache, &seqs[i]), kv_cache_slots(cache, &seqs[0]),
                            299 * sizeof(uint32_t));
    }

    assert_int_equal(kv_cache_n_free(cache), 1024 - 300);
    for (uint32_t i = 0; i < 8; i++) leave(cache, &seqs[i]);
    drop_cache(cache);
}

static void test_the_address_of_a_row_does_not_move_while_it_grows(void **state) {
    (void)state;
    struct kv_cache *cache = make_cache(2049, 1, false);
    int32_t tokens[CONTEXT];
    write_text(tokens, CONTEXT, 1, CONTEXT, 0);
    struct kv_seq seq;
    admit(cache, &seq, tokens, 10);
    const uint32_t *slots = kv_cache_slots(cache, &seq);

    for (uint32_t n = 10; n <= CONTEXT; n += 39) {
        assert_int_equal(compute(cache, &seq, tokens, n), RADISH_OK);
        assert_ptr_equal(kv_cache_slots(cache, &seq), slots);
    }

    leave(cache, &seq);
    drop_cache(cache);
}

static void test_one_token_more_is_a_page_more_only_at_a_border(void **state) {
    (void)state;
    struct kv_cache *cache = make_cache(4096, 16, false);
    int32_t tokens[100];
    write_text(tokens, 100, 1, 100, 0);
    struct kv_seq seq;
    admit(cache, &seq, tokens, 33);
    for (uint32_t n = 33; n < 100; n++) {
        assert_int_equal(compute(cache, &seq, tokens, n), RADISH_OK);
        assert_int_equal(kv_cache_n_held(cache, &seq), (n + 15) / 16 * 16);
        assert_int_equal(seq.n_shared, n / 16 * 16); /* slack of the last page is private */
    }
    leave(cache, &seq);
    assert_int_equal(kv_cache_n_evictable(cache), 96);
    drop_cache(cache);
}

static void test_the_padding_page_is_never_handed_out(void **state) {
    (void)state;
    for (uint32_t page_slots = 1; page_slots <= 16; page_slots *= 4) {
        struct kv_cache *cache = make_cache(256 + page_slots, page_slots, false);
        int32_t tokens[256];
        write_text(tokens, 256, 1, 256, 0);
        struct kv_seq seq;
        admit(cache, &seq, tokens, 256);
        assert_int_equal(compute(cache, &seq, tokens, 256), RADISH_OK);
        assert_int_equal(kv_cache_n_free(cache), 0);
        for (uint32_t i = 0; i < 256; i++)
            assert_true(kv_cache_slots(cache, &seq)[i] >= page_slots);
        leave(cache, &seq);
        drop_cache(cache);
    }
}

static void test_room_is_made_slot_by_slot_from_the_end_of_leaves(void **state) {
    (void)state;
    struct kv_cache *cache = make_cache(501, 1, false);
    int32_t a[400], b[200];
    write_text(a, 400, 1, 400, 0);
    write_text(b, 200, 2, 200, 0);
    request(cache, a, 400);

    request(cache, b, 200); /* 100 are free, 100 come from the end of a */

    enum radix_miss miss;
    struct radix_tokens all = whole(a, 400);
    assert_int_equal(kv_cache_peek(cache, 0, &all, 400, &miss), 300);
    assert_int_equal(miss, RADIX_MISS_EVICTED);
    drop_cache(cache);
}

static void test_twins_that_computed_the_same_keep_it_once(void **state) {
    (void)state;
    for (uint32_t page_slots = 1; page_slots <= 4; page_slots *= 2) {
        struct kv_cache *cache = make_cache(2048, page_slots, false);
        int32_t a[300], b[300];
        write_text(a, 300, 1, 200, 2);
        write_text(b, 300, 1, 200, 3);
        struct kv_seq x, y;
        admit(cache, &x, a, 300);
        admit(cache, &y, b, 300);
        assert_int_equal(kv_cache_extend(cache, &y, 300, 300), RADISH_OK);
        assert_int_equal(compute(cache, &x, a, 300), RADISH_OK);

        struct radix_tokens all = whole(b, 300);
        kv_cache_commit(cache, &y, &all, 300);

        assert_true(kv_cache_check(cache));
        assert_memory_equal(kv_cache_slots(cache, &x), kv_cache_slots(cache, &y),
                            200 * sizeof(uint32_t));
        assert_int_equal(radix_n_pinned(kv_cache_radix(cache)), 400);
        assert_int_equal(kv_cache_n_free(cache), kv_cache_n_usable(cache) - 400);
        leave(cache, &x);
        leave(cache, &y);
        drop_cache(cache);
    }
}

static void test_a_waiter_follows_a_leader_and_goes_on_when_it_is_gone(void **state) {
    (void)state;
    struct kv_cache *cache = make_cache(2048, 1, false);
    int32_t a[300], b[300];
    write_text(a, 300, 1, 250, 2);
    write_text(b, 300, 1, 250, 3);
    struct kv_seq leader, waiter;
    admit(cache, &leader, a, 300);
    assert_int_equal(admit(cache, &waiter, b, 300), 0);
    struct radix_tokens all = whole(b, 300);

    for (uint32_t n = 50; n <= 150; n += 50) {
        assert_int_equal(compute(cache, &leader, a, n), RADISH_OK);
        kv_cache_follow(cache, &waiter, &all, 299);
        assert_true(kv_cache_check(cache));
        assert_int_equal(waiter.n_shared, n);
        assert_int_equal(kv_cache_n_held(cache, &waiter), n); /* nothing private */
    }
    leave(cache, &leader); /* aborted */

    assert_int_equal(compute(cache, &waiter, b, 300), RADISH_OK);
    assert_int_equal(kv_cache_n_free(cache), kv_cache_n_usable(cache) - 300);
    leave(cache, &waiter);
    drop_cache(cache);
}

/* ---- limits ---- */

static void test_without_room_nothing_changes(void **state) {
    (void)state;
    struct kv_cache *cache = make_cache(301, 1, false);
    int32_t a[300], b[300];
    write_text(a, 300, 1, 300, 0);
    write_text(b, 300, 2, 300, 0);
    request(cache, b, 100);
    struct kv_seq x, y;
    admit(cache, &x, a, 250);
    assert_int_equal(kv_cache_extend(cache, &x, 250, 250), RADISH_OK);
    admit(cache, &y, b, 100);
    uint32_t n_free = kv_cache_n_free(cache), n_held = kv_cache_n_held(cache, &y);

    assert_int_equal(kv_cache_extend(cache, &y, n_held + 51, n_held + 51), RADISH_AGAIN);

    assert_true(kv_cache_check(cache));
    assert_int_equal(kv_cache_n_free(cache), n_free);
    assert_int_equal(kv_cache_n_held(cache, &y), n_held);
    leave(cache, &x);
    leave(cache, &y);
    drop_cache(cache);
}

static void test_slots_ahead_come_from_free_ones_only(void **state) {
    (void)state;
    struct kv_cache *cache = make_cache(301, 1, false);
    int32_t a[300], b[300];
    write_text(a, 300, 1, 300, 0);
    write_text(b, 300, 2, 300, 0);
    request(cache, a, 290);
    struct kv_seq seq;
    admit(cache, &seq, b, 40);

    assert_int_equal(kv_cache_extend(cache, &seq, 8, 16), RADISH_OK);
    assert_int_equal(kv_cache_n_held(cache, &seq), 8);
    assert_int_equal(kv_cache_n_evictable(cache), 290);

    leave(cache, &seq);
    drop_cache(cache);
}

static void test_rows_run_out_with_a_not_now(void **state) {
    (void)state;
    struct kv_cache *cache = make_cache(1025, 1, false);
    struct radix_tokens none = whole((const int32_t[]){1}, 1);
    struct kv_seq seqs[9];
    for (uint32_t i = 0; i < 8; i++)
        assert_int_equal(kv_cache_open(cache, 0, true, &none, 0, 0, &seqs[i]), RADISH_OK);

    assert_int_equal(kv_cache_open(cache, 0, true, &none, 0, 0, &seqs[8]), RADISH_AGAIN);

    for (uint32_t i = 0; i < 8; i++) leave(cache, &seqs[i]);
    drop_cache(cache);
}

static void test_who_does_not_share_neither_reads_nor_feeds_the_tree(void **state) {
    (void)state;
    int32_t tokens[100];
    write_text(tokens, 100, 1, 100, 0);
    struct radix_tokens all = whole(tokens, 100);
    for (int is_tree_off = 0; is_tree_off < 2; is_tree_off++) {
        struct kv_cache *cache = make_cache(1025, 1, is_tree_off);
        request(cache, tokens, 100);
        uint32_t n_there = kv_cache_n_evictable(cache);
        struct kv_seq seq;
        assert_int_equal(kv_cache_open(cache, 0, is_tree_off, &all, 99, 0, &seq), RADISH_OK);
        assert_int_equal(seq.n_shared, 0);
        kv_cache_follow(cache, &seq, &all, 99);
        assert_int_equal(compute(cache, &seq, tokens, 100), RADISH_OK);
        assert_int_equal(seq.n_shared, 0);
        leave(cache, &seq);
        assert_int_equal(kv_cache_n_evictable(cache), n_there);
        assert_int_equal(n_there, is_tree_off ? 0 : 100);
        assert_ptr_equal(kv_cache_radix(cache), cache->tree);
        drop_cache(cache);
    }
}

/* ---- check, aborts ---- */

static void test_check_sees_a_slot_with_two_owners_or_none(void **state) {
    (void)state;
    struct kv_cache *cache = make_cache(1025, 1, false);
    int32_t tokens[100];
    write_text(tokens, 100, 1, 100, 0);
    struct kv_seq seq;
    admit(cache, &seq, tokens, 50);
    assert_int_equal(compute(cache, &seq, tokens, 50), RADISH_OK);
    assert_int_equal(kv_cache_extend(cache, &seq, 60, 60), RADISH_OK);
    uint32_t *cells = slot_table_cells(cache->table, seq.row);

    uint32_t kept = cells[10]; /* a shared cell that is not the tree's */
    cells[10] = cells[11];
    assert_false(kv_cache_check(cache));
    cells[10] = kept;
    kept = cells[55]; /* a private cell that is the tree's */
    cells[55] = cells[10];
    assert_false(kv_cache_check(cache));
    cells[55] = kept;
    cache->refs[seq.row].n_tokens--;
    assert_false(kv_cache_check(cache));
    cache->refs[seq.row].n_tokens++;
    kept = cache->refs[seq.row].node;
    cache->refs[seq.row].node = RADIX_REF_NONE;
    assert_false(kv_cache_check(cache));
    cache->refs[seq.row].node = kept;
    cache->refs[seq.row + 1].node = kept; /* of a row that nobody has */
    assert_false(kv_cache_check(cache));
    cache->refs[seq.row + 1].node = RADIX_REF_NONE;
    uint32_t lost; /* a slot that nobody has */
    assert_int_equal(kv_pool_take(cache->pool, 1, 0, &lost), RADISH_OK);
    assert_false(kv_cache_check(cache));
    kv_pool_give(cache->pool, &lost, 1);
    cache->tree->n_tokens_pinned++;
    assert_false(kv_cache_check(cache));
    cache->tree->n_tokens_pinned--;

    assert_true(kv_cache_check(cache));
    leave(cache, &seq);
    drop_cache(cache);
}

static void assert_aborts(void (*fn)(struct kv_cache *cache, struct kv_seq *seq)) {
    struct kv_cache *cache = make_cache(2049, 1, false);
    int32_t tokens[100];
    write_text(tokens, 100, 1, 100, 0);
    struct kv_seq seq;
    admit(cache, &seq, tokens, 50);
    assert_int_equal(compute(cache, &seq, tokens, 50), RADISH_OK);
    fflush(NULL);
    pid_t pid = fork();
    if (!pid) {
        fclose(stderr);
        signal(SIGABRT, SIG_DFL);
        fn(cache, &seq);
        _exit(0);
    }
    int result = 0;
    assert_int_equal(waitpid(pid, &result, 0), pid);
    assert_true(WIFSIGNALED(result) && WTERMSIG(result) == SIGABRT);
    leave(cache, &seq);
    drop_cache(cache);
}

static void commit_a_stale_copy(struct kv_cache *cache, struct kv_seq *seq) {
    int32_t tokens[60] = {0};
    struct kv_seq stale = *seq;
    struct radix_tokens all = whole(tokens, 60);
    if (kv_cache_extend(cache, seq, 60, 60) != RADISH_OK) return;
    stale.ref.n_tokens = stale.n_shared = 40;
    kv_cache_commit(cache, &stale, &all, 60);
}

static void close_twice(struct kv_cache *cache, struct kv_seq *seq) {
    struct kv_seq copy = *seq;
    kv_cache_close(cache, seq);
    kv_cache_close(cache, &copy);
}

static void commit_what_is_not_held(struct kv_cache *cache, struct kv_seq *seq) {
    int32_t tokens[60] = {0};
    struct radix_tokens all = whole(tokens, 60);
    kv_cache_commit(cache, seq, &all, 51);
}

static void follow_with_private_slots(struct kv_cache *cache, struct kv_seq *seq) {
    int32_t tokens[60] = {0};
    struct radix_tokens all = whole(tokens, 60);
    if (kv_cache_extend(cache, seq, 60, 60) == RADISH_OK) kv_cache_follow(cache, seq, &all, 60);
}

static void extend_beyond_the_context(struct kv_cache *cache, struct kv_seq *seq) {
    if (kv_cache_extend(cache, seq, CONTEXT + 1, CONTEXT + 1) == RADISH_OK) _exit(0);
    _exit(0);
}

static void use_a_row_that_is_not_there(struct kv_cache *cache, struct kv_seq *seq) {
    seq->row = 8;
    kv_cache_close(cache, seq);
}

static void test_what_would_mix_up_sequences_aborts(void **state) {
    (void)state;
    assert_aborts(commit_a_stale_copy);
    assert_aborts(close_twice);
    assert_aborts(commit_what_is_not_held);
    assert_aborts(follow_with_private_slots);
    assert_aborts(extend_beyond_the_context);
    assert_aborts(use_a_row_that_is_not_there);
}

/* ---- memory ---- */

static const struct kv_cache_options small = {
    .n_slots = 1000, .page_slots = 4, .n_rows = 8, .context_tokens = 100};

static bool attempt_create(void *user) {
    (void)user;
    struct kv_cache *cache;
    struct radish_error err;
    enum radish_status status = kv_cache_create(&small, &cache, &err);
    assert_true(status == RADISH_OK || status == RADISH_E_NOMEM);
    assert_int_equal(status == RADISH_OK, cache != NULL);
    kv_cache_destroy(cache);
    return status == RADISH_OK;
}

static void test_every_allocation_of_create_may_fail(void **state) {
    (void)state;
    if (!alloc_fail_can()) skip();
    assert_true(alloc_fail_each(attempt_create, NULL) >= 15);
}

static void test_a_pool_that_is_too_small_is_refused(void **state) {
    (void)state;
    struct kv_cache_options options = small;
    struct kv_cache *cache;
    struct radish_error err;
    options.n_slots = 200;
    assert_int_equal(kv_cache_create(&options, &cache, &err), RADISH_E_LIMIT);
    assert_non_null(strstr(err.msg, "196"));
    assert_null(cache);
}

static void test_nothing_is_allocated_after_create(void **state) {
    (void)state;
    if (!alloc_fail_can()) skip();
    struct kv_cache *cache = make_cache(601, 1, false);
    int32_t tokens[200];
    alloc_fail_count = 0;
    alloc_fail_at = SIZE_MAX; /* counts, never fails */
    for (int32_t i = 0; i < 300; i++) {
        write_text(tokens, 200, i % 3, 100 + (uint32_t)i % 90, 10 + i % 7);
        struct kv_seq seq, other;
        struct radix_tokens all = whole(tokens, 200);
        bool is_open =
            kv_cache_open(cache, (uint32_t)i % 2, true, &all, 199, 0, &seq) == RADISH_OK &&
            kv_cache_open(cache, (uint32_t)i % 2, true, &all, 199, 0, &other) == RADISH_OK;
        if (!is_open || kv_cache_extend(cache, &seq, 200, 216) != RADISH_OK) break;
        kv_cache_commit(cache, &seq, &all, 200);
        kv_cache_follow(cache, &other, &all, 199);
        if (!kv_cache_check(cache)) break;
        kv_cache_close(cache, &other);
        kv_cache_close(cache, &seq);
        if (i % 50 == 49) kv_cache_flush(cache);
    }
    size_t n_allocations = alloc_fail_count;
    alloc_fail_at = 0;
    assert_int_equal(n_allocations, 0);
    struct radix_summary summary;
    radix_summary(kv_cache_radix(cache), &summary);
    assert_int_equal(summary.n_matches, 600); /* it went through */
    drop_cache(cache);
}

/* What is planned covers what create asks for, and is no wild guess. */
static void test_the_plan_covers_what_is_allocated(void **state) {
    (void)state;
    const uint64_t rows = 8 * 2 * 4096; /* reserved by mmap, planned in system pages */
    uint64_t n = kv_cache_bytes(&small);
    assert_in_range(n, sizeof(struct radix_node) * 2 * 250 + 8 * 400,
                    200 * 1000 + 16 * 1000 + rows);
    struct kv_cache_options off = small;
    off.is_tree_off = true;
    assert_true(kv_cache_bytes(&off) < n);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_two_clients_share_a_system_prompt_wherever_they_run),
        cmocka_unit_test(test_the_prompt_of_a_busy_sequence_is_reused),
        cmocka_unit_test(test_a_then_b_then_a_is_still_cached),
        cmocka_unit_test(test_a_shared_prefix_outlives_the_long_chats_that_share_it),
        cmocka_unit_test(test_what_is_about_to_be_used_is_protected_before_room_is_made),
        cmocka_unit_test(test_a_strict_prefix_of_a_longer_prompt_is_served),
        cmocka_unit_test(test_an_exact_repeat_computes_its_last_token),
        cmocka_unit_test(test_a_wish_for_prompt_logits_caps_what_is_shared),
        cmocka_unit_test(test_kv_exists_once_and_is_shared_in_place),
        cmocka_unit_test(test_the_address_of_a_row_does_not_move_while_it_grows),
        cmocka_unit_test(test_one_token_more_is_a_page_more_only_at_a_border),
        cmocka_unit_test(test_the_padding_page_is_never_handed_out),
        cmocka_unit_test(test_room_is_made_slot_by_slot_from_the_end_of_leaves),
        cmocka_unit_test(test_twins_that_computed_the_same_keep_it_once),
        cmocka_unit_test(test_a_waiter_follows_a_leader_and_goes_on_when_it_is_gone),
        cmocka_unit_test(test_without_room_nothing_changes),
        cmocka_unit_test(test_slots_ahead_come_from_free_ones_only),
        cmocka_unit_test(test_rows_run_out_with_a_not_now),
        cmocka_unit_test(test_who_does_not_share_neither_reads_nor_feeds_the_tree),
        cmocka_unit_test(test_check_sees_a_slot_with_two_owners_or_none),
        cmocka_unit_test(test_what_would_mix_up_sequences_aborts),
        cmocka_unit_test(test_every_allocation_of_create_may_fail),
        cmocka_unit_test(test_a_pool_that_is_too_small_is_refused),
        cmocka_unit_test(test_nothing_is_allocated_after_create),
        cmocka_unit_test(test_the_plan_covers_what_is_allocated),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
