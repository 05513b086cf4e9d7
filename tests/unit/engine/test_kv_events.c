/* KV events as a caller of the engine gets them: after every step, stored minus removed is what the
 * cache holds; parents are there, names of namespaces count, and a flush is told. */
#include "test.h"

#include "base/rng.h"
#include "engine/kv_events.h"
#include "engine_client.h"

enum { CLIENTS = 8, MIRROR_MAX = 2048, PROMPT = 120 };

/* What the events so far say; under the lock, for the callback is on the engine's thread. */
static struct mirror {
    pthread_mutex_t lock;
    int64_t hashes[MIRROR_MAX];
    uint32_t n_pages, page_tokens;
    uint64_t n_batches, n_stored, n_removed, n_cleared, n_roots;
    bool is_odd; /* something that must not be was told */
} mirror = {.lock = PTHREAD_MUTEX_INITIALIZER};

static uint32_t find_hash(int64_t hash) {
    for (uint32_t i = 0; i < mirror.n_pages; i++)
        if (mirror.hashes[i] == hash) return i;
    return MIRROR_MAX;
}

static void take_stored(const struct radish_kv_event *event) {
    bool is_known = find_hash(event->hashes[0]) != MIRROR_MAX;
    bool has_parent = event->has_parent && find_hash(event->parent) != MIRROR_MAX;
    if (event->n_hashes != 1 || is_known || has_parent != event->has_parent ||
        event->n_tokens != mirror.page_tokens || event->block_tokens != mirror.page_tokens ||
        mirror.n_pages == MIRROR_MAX || event->medium)
        mirror.is_odd = true;
    else
        mirror.hashes[mirror.n_pages++] = event->hashes[0];
    mirror.n_stored++;
    mirror.n_roots += !event->has_parent;
}

static void take_removed(const struct radish_kv_event *event) {
    for (uint32_t i = 0; i < event->n_hashes; i++) {
        uint32_t at = find_hash(event->hashes[i]);
        if (at == MIRROR_MAX)
            mirror.is_odd = true;
        else
            mirror.hashes[at] = mirror.hashes[--mirror.n_pages];
        mirror.n_removed++;
    }
    if (!event->n_hashes) mirror.is_odd = true;
}

static void take_events(void *user, const struct radish_kv_event *events, size_t n) {
    pthread_mutex_lock(&mirror.lock);
    if (user != &mirror || !n) mirror.is_odd = true;
    if (!mirror.n_batches++ && events[0].kind != RADISH_KV_CLEARED) mirror.is_odd = true;
    for (size_t i = 0; i < n; i++) {
        switch (events[i].kind) {
        case RADISH_KV_STORED: take_stored(&events[i]); break;
        case RADISH_KV_REMOVED: take_removed(&events[i]); break;
        case RADISH_KV_CLEARED:
            mirror.n_pages = 0;
            mirror.n_cleared++;
            break;
        }
    }
    pthread_mutex_unlock(&mirror.lock);
}

static struct mirror mirror_now(void) {
    pthread_mutex_lock(&mirror.lock);
    struct mirror copy = mirror;
    pthread_mutex_unlock(&mirror.lock);
    return copy;
}

static struct radish_model *model;
static struct radish_engine *engine;

static void open_engine(uint32_t page_tokens, uint64_t kv_tokens) {
    struct radish_engine_options options = {.kv_tokens_max = kv_tokens,
                                            .context_tokens = 256,
                                            .page_tokens = page_tokens,
                                            .chunk_tokens = 64,
                                            .requests_running_max = CLIENTS,
                                            .on_kv_events = take_events,
                                            .kv_events_user = &mirror};
    mirror = (struct mirror){.lock = PTHREAD_MUTEX_INITIALIZER, .page_tokens = page_tokens};
    client_open_engine("llama", &options, &model, &engine);
}

static void close_engine(void) {
    client_assert_baseline(engine);
    radish_engine_close(engine);
    radish_model_close(model);
}

/* A report is made between two steps, when all events of the last one have been told. */
static void assert_balanced(void) {
    static struct radish_radix_report report;
    struct mirror now;
    do { /* until no step has ended between the two looks */
        now = mirror_now();
        assert_int_equal(radish_engine_radix_report(engine, &report, NULL), RADISH_OK);
    } while (mirror_now().n_batches != now.n_batches);
    assert_false(now.is_odd);
    assert_int_equal((uint64_t)now.n_pages * now.page_tokens,
                     report.tokens_evictable + report.tokens_pinned);
}

static void run_random(uint32_t page_tokens, uint64_t seed) {
    enum { REQUESTS = 60 };
    struct client *clients[CLIENTS];
    int32_t prompt[PROMPT];
    open_engine(page_tokens, 512);
    for (uint32_t i = 0; i < CLIENTS; i++) clients[i] = client_create();
    for (uint32_t i = 0; i < REQUESTS; i++) {
        struct client *client = clients[i % CLIENTS];
        uint64_t dice = rng_u64(seed, i);
        uint32_t n = 2 + (uint32_t)(dice >> 8) % (PROMPT - 2);
        uint32_t n_shared = (uint32_t)(dice >> 16) % PROMPT;
        for (uint32_t j = 0; j < n; j++)
            prompt[j] = (int32_t)(rng_u64(j < n_shared ? dice >> 62 : seed + i, j) % 512);
        struct radish_request request = client_request(prompt, n, 1 + (uint32_t)(dice >> 24) % 20);
        request.namespace_key = "other";
        request.namespace_len = (dice >> 32) % 3 ? 0 : 5;
        if (i >= CLIENTS) client_wait(client);
        assert_int_equal(client_submit(client, engine, &request, NULL), RADISH_OK);
        assert_balanced();
    }
    for (uint32_t i = 0; i < CLIENTS; i++) client_wait(clients[i]);
    assert_balanced();
    struct mirror now = mirror_now();
    assert_true(now.n_removed > 100); /* the pool was too small for all */
    assert_int_equal(now.n_cleared, 1);

    assert_int_equal(radish_engine_flush(engine, 10, NULL), RADISH_OK);
    assert_balanced();
    assert_int_equal(mirror_now().n_pages, 0);
    assert_int_equal(mirror_now().n_cleared, 2);
    for (uint32_t i = 0; i < CLIENTS; i++) client_destroy(clients[i]);
    close_engine();
}

static void test_events_balance_with_what_the_cache_holds(void **state) {
    (void)state;
    uint64_t seed = rng_seed_from_system();
    printf("seed %llu\n", (unsigned long long)seed);
    run_random(1, seed);
    run_random(4, seed + 1);
}

static void test_namespaces_have_hashes_of_their_own(void **state) {
    (void)state;
    static const char *const names[] = {"", "a", "b", "a"};
    int32_t prompt[9] = {1, 2, 3, 4, 5, 6, 7, 8, 9};
    struct client *client = client_create();
    open_engine(4, 512);
    for (uint32_t i = 0; i < 4; i++) {
        struct radish_request request = client_request(prompt, 9, 1);
        request.namespace_key = names[i];
        request.namespace_len = strlen(names[i]);
        client_run(client, engine, &request);
    }

    assert_balanced();
    struct mirror now = mirror_now();
    assert_int_equal(now.n_pages, 6); /* two pages of three namespaces; "a" hits the second time */
    assert_int_equal(now.n_roots, 3);
    /* From Python: SHA-256 over 1 2 3 4, and over SHA-256("a") and them. */
    assert_true(find_hash(-3488128144981237669) != MIRROR_MAX);
    assert_true(find_hash(-8471340640470123556) != MIRROR_MAX);
    client_destroy(client);
    close_engine();
}

static void test_a_batch_that_is_full_goes_early_and_nothing_is_lost(void **state) {
    (void)state;
    enum { PAGES = KV_EVENTS_MAX * 2 + 100 };
    struct radish_engine_options options = {
        .on_kv_events = take_events, .kv_events_user = &mirror, .page_tokens = 8};
    struct kv_events events;
    int32_t page[8] = {0};
    mirror = (struct mirror){.lock = PTHREAD_MUTEX_INITIALIZER, .page_tokens = 8};
    assert_int_equal(kv_events_init(&events, &options, NULL, NULL, NULL), RADISH_OK);
    struct radix_sink sink = kv_events_sink(&events);
    kv_events_send(&events);
    assert_int_equal(mirror.n_batches, 0); /* the start waits for company */

    struct radix_change change = {.kind = RADIX_CHANGE_STORED, .tokens = page, .n_tokens = 8};
    for (int64_t i = 0; i < PAGES; i++) {
        change.hash = i;
        sink.on_change(sink.user, &change);
        change = (struct radix_change){.kind = RADIX_CHANGE_REMOVED, .hash = i};
        sink.on_change(sink.user, &change);
        change = (struct radix_change){.kind = RADIX_CHANGE_STORED, .tokens = page, .n_tokens = 8};
    }
    kv_events_send(&events);
    kv_events_send(&events);

    assert_int_equal(mirror.n_batches, 2 * PAGES / KV_EVENTS_MAX + 1);
    assert_int_equal(mirror.n_stored, PAGES);
    assert_int_equal(mirror.n_removed, PAGES);
    assert_false(mirror.is_odd);
    kv_events_deinit(&events);
}

static void test_events_without_a_cache_are_refused(void **state) {
    (void)state;
    struct radish_error err;
    struct radish_engine_options options = {.on_kv_events = take_events, .is_cache_off = true};
    struct radish_engine *none;
    open_engine(1, 512);

    assert_int_equal(radish_engine_open(model, &options, &none, &err), RADISH_E_INVALID);

    assert_string_equal(err.field, "kv-events-config");
    close_engine();
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_events_balance_with_what_the_cache_holds),
        cmocka_unit_test(test_namespaces_have_hashes_of_their_own),
        cmocka_unit_test(test_a_batch_that_is_full_goes_early_and_nothing_is_lost),
        cmocka_unit_test(test_events_without_a_cache_are_refused),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
