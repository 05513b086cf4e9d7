/* Batches as bytes. The expected ones are msgspec's (0.23, for the structs of SGLang's first
 * version); tests/server/test_kv_events.py compares at run time. */
#include "test.h"

#include "events/kv_wire.h"

static void assert_bytes(const struct radish_kv_event *events, size_t n, double time,
                         const char *hex) {
    unsigned char out[4096];
    char text[2 * sizeof out + 1] = "";
    assert_true(kv_wire_bytes_max(events, n) <= sizeof out);
    size_t n_bytes = kv_wire_write(time, events, n, out);
    assert_true(n_bytes <= kv_wire_bytes_max(events, n));
    for (size_t i = 0; i < n_bytes; i++) snprintf(text + 2 * i, 3, "%02x", out[i]);
    assert_string_equal(text, hex);
}

static void test_bytes_are_those_of_msgspec(void **state) {
    (void)state;
    const int64_t hashes[] = {7470307888890966271, -1634645291211865391, 5};
    const int32_t tokens[] = {1, 127, 128, 255, 256, 65535, 65536, 128255};
    const struct radish_kv_event events[] = {
        {.kind = RADISH_KV_CLEARED},
        {.kind = RADISH_KV_STORED,
         .hashes = hashes,
         .n_hashes = 1,
         .tokens = tokens,
         .n_tokens = 8,
         .block_tokens = 8},
        {.kind = RADISH_KV_STORED,
         .hashes = hashes + 1,
         .n_hashes = 1,
         .has_parent = true,
         .parent = hashes[0],
         .tokens = tokens,
         .n_tokens = 1,
         .block_tokens = 1},
        {.kind = RADISH_KV_REMOVED, .hashes = hashes, .n_hashes = 3},
    };
    assert_bytes(events, 4, 1764450000.25,
                 "92cb41da4ad7b41000009491b0416c6c426c6f636b73436c656172656496ab426c6f636b53746f72"
                 "656491cf67abdd721024f0ffc098017fcc80ccffcd0100cdffffce00010000ce0001f4ff08c096ab"
                 "426c6f636b53746f72656491d3e95092c4b38d42d1cf67abdd721024f0ff910101c092ac426c6f63"
                 "6b52656d6f76656493cf67abdd721024f0ffd3e95092c4b38d42d105");
}

static void test_a_medium_comes_last(void **state) {
    (void)state;
    const int64_t hashes[] = {1};
    const int32_t tokens[] = {2};
    const struct radish_kv_event events[] = {
        {.kind = RADISH_KV_STORED,
         .hashes = hashes,
         .n_hashes = 1,
         .tokens = tokens,
         .n_tokens = 1,
         .block_tokens = 1,
         .medium = "DISK"},
        {.kind = RADISH_KV_REMOVED, .hashes = hashes, .n_hashes = 1, .medium = "DISK"},
    };
    assert_bytes(events, 2, 0,
                 "92cb00000000000000009297ab426c6f636b53746f7265649101c0910201c0a44449534b93ac426c"
                 "6f636b52656d6f7665649101a44449534b");
}

/* The bound holds where every number is as long as it can be, and heads are, too. */
static void test_room_is_enough_for_the_longest(void **state) {
    (void)state;
    enum { N = 70000 };
    int64_t *hashes = calloc(N, sizeof *hashes);
    int32_t *tokens = calloc(N, sizeof *tokens);
    assert_true(hashes && tokens);
    for (size_t i = 0; i < N; i++) {
        hashes[i] = INT64_MIN;
        tokens[i] = INT32_MAX;
    }
    const struct radish_kv_event events[] = {
        {.kind = RADISH_KV_STORED,
         .hashes = hashes,
         .n_hashes = 1,
         .has_parent = true,
         .parent = INT64_MIN,
         .tokens = tokens,
         .n_tokens = N,
         .block_tokens = N},
        {.kind = RADISH_KV_REMOVED, .hashes = hashes, .n_hashes = N},
        {.kind = RADISH_KV_CLEARED},
    };
    size_t n_max = kv_wire_bytes_max(events, 3);
    unsigned char *out = malloc(n_max);
    assert_non_null(out);

    size_t n = kv_wire_write(1, events, 3, out);

    assert_true(n > N * 14 && n <= n_max);
    free(hashes);
    free(tokens);
    free(out);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_bytes_are_those_of_msgspec),
        cmocka_unit_test(test_a_medium_comes_last),
        cmocka_unit_test(test_room_is_enough_for_the_longest),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
