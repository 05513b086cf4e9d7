/* test_utf8.c - strict UTF-8, against what Python's bytes.decode("utf-8", "replace") makes of the
 * same bytes: the vectors are the classes of Unicode's table 3-7 and their neighbours. */
#include "test.h"

#include "base/utf8.h"

static const struct {
    const char *bytes;
    size_t n;
    size_t n_valid; /* where Python's strict decoder stops */
    size_t n_code_points;
    uint32_t code_points[8];
} vectors[] = {
    {"\x70\x6c\x61\x69\x6e", 5, 5, 5, {0x70, 0x6C, 0x61, 0x69, 0x6E}},
    {"\xc3\xa9", 2, 2, 1, {0xE9}},
    {"\xe2\x82\xac", 3, 3, 1, {0x20AC}},
    {"\xf0\x9f\x98\x80", 4, 4, 1, {0x1F600}},
    {"\x80", 1, 0, 1, {0xFFFD}},
    {"\xbf\xbf", 2, 0, 2, {0xFFFD, 0xFFFD}},
    {"\xc0\x80", 2, 0, 2, {0xFFFD, 0xFFFD}},
    {"\xc1\xbf", 2, 0, 2, {0xFFFD, 0xFFFD}},
    {"\xc2", 1, 0, 1, {0xFFFD}},
    {"\xc2\x41", 2, 0, 2, {0xFFFD, 0x41}},
    {"\xe0\x80\x80", 3, 0, 3, {0xFFFD, 0xFFFD, 0xFFFD}},
    {"\xe0\x9f\xbf", 3, 0, 3, {0xFFFD, 0xFFFD, 0xFFFD}},
    {"\xe0\xa0\x80", 3, 3, 1, {0x800}},
    {"\xe0\xa0", 2, 0, 1, {0xFFFD}},
    {"\xe2\x82", 2, 0, 1, {0xFFFD}},
    {"\xe2\x82\x41", 3, 0, 2, {0xFFFD, 0x41}},
    {"\xe2\x41\x82", 3, 0, 3, {0xFFFD, 0x41, 0xFFFD}},
    {"\xed\xa0\x80", 3, 0, 3, {0xFFFD, 0xFFFD, 0xFFFD}},
    {"\xed\x9f\xbf", 3, 3, 1, {0xD7FF}},
    {"\xed\xbf\xbf", 3, 0, 3, {0xFFFD, 0xFFFD, 0xFFFD}},
    {"\xee\x80\x80", 3, 3, 1, {0xE000}},
    {"\xef\xbf\xbd", 3, 3, 1, {0xFFFD}},
    {"\xef\xbf\xbf", 3, 3, 1, {0xFFFF}},
    {"\xf0\x80\x80\x80", 4, 0, 4, {0xFFFD, 0xFFFD, 0xFFFD, 0xFFFD}},
    {"\xf0\x8f\xbf\xbf", 4, 0, 4, {0xFFFD, 0xFFFD, 0xFFFD, 0xFFFD}},
    {"\xf0\x90\x80\x80", 4, 4, 1, {0x10000}},
    {"\xf0\x9f\x98", 3, 0, 1, {0xFFFD}},
    {"\xf0\x9f", 2, 0, 1, {0xFFFD}},
    {"\xf0", 1, 0, 1, {0xFFFD}},
    {"\xf0\x9f\x41", 3, 0, 2, {0xFFFD, 0x41}},
    {"\xf0\x9f\x98\x41", 4, 0, 2, {0xFFFD, 0x41}},
    {"\xf4\x8f\xbf\xbf", 4, 4, 1, {0x10FFFF}},
    {"\xf4\x90\x80\x80", 4, 0, 4, {0xFFFD, 0xFFFD, 0xFFFD, 0xFFFD}},
    {"\xf5\x80\x80\x80", 4, 0, 4, {0xFFFD, 0xFFFD, 0xFFFD, 0xFFFD}},
    {"\xf8\x88\x80\x80\x80", 5, 0, 5, {0xFFFD, 0xFFFD, 0xFFFD, 0xFFFD, 0xFFFD}},
    {"\xfe\xff", 2, 0, 2, {0xFFFD, 0xFFFD}},
    {"\x61\x80\x62\xe2\x82\xac\x63\xf0\x9f", 9, 1, 6, {0x61, 0xFFFD, 0x62, 0x20AC, 0x63, 0xFFFD}},
    {"\xe1\x80\xe2\xf0\x91\x92\xf1\xbf\x41", 9, 0, 5, {0xFFFD, 0xFFFD, 0xFFFD, 0xFFFD, 0x41}},
    {"\xf0\x80\x80\x41", 4, 0, 4, {0xFFFD, 0xFFFD, 0xFFFD, 0x41}},
    {"\xf0\x90\xf0\x90\x80\x80", 6, 0, 2, {0xFFFD, 0x10000}},
};

enum { N_VECTORS = sizeof vectors / sizeof *vectors };

static void test_broken_bytes_are_replaced_as_python_does(void **state) {
    (void)state;
    for (size_t i = 0; i < N_VECTORS; i++) {
        size_t pos = 0, n = 0;
        while (pos < vectors[i].n) {
            uint32_t cp;
            const size_t len = utf8_decode(vectors[i].bytes + pos, vectors[i].n - pos, &cp);
            assert_in_range(len, 1, 4);
            assert_true(n < vectors[i].n_code_points);
            assert_int_equal(cp, vectors[i].code_points[n++]);
            pos += len;
        }
        assert_int_equal(pos, vectors[i].n);
        assert_int_equal(n, vectors[i].n_code_points);
    }
}

static void test_the_valid_prefix_ends_where_python_stops(void **state) {
    (void)state;
    for (size_t i = 0; i < N_VECTORS; i++)
        assert_int_equal(utf8_valid_prefix(vectors[i].bytes, vectors[i].n), vectors[i].n_valid);
    assert_int_equal(utf8_valid_prefix("", 0), 0);
}

static void test_only_a_cut_character_is_partial(void **state) {
    (void)state;
    static const char *const cut[] = {"\xc2",         "\xe0\xa0", "\xe2\x82", "\xe2",
                                      "\xf0\x9f\x98", "\xf4\x8f", "\xf0"};
    static const char *const broken[] = {"\x80",     "\xc0",     "\xe0\x80", "\xed\xa0",
                                         "\xf0\x8f", "\xf4\x90", "\xf5",     "\xff"};
    uint32_t cp;
    for (size_t i = 0; i < sizeof cut / sizeof *cut; i++)
        assert_int_equal(utf8_decode_partial(cut[i], strlen(cut[i]), &cp), 0);
    for (size_t i = 0; i < sizeof broken / sizeof *broken; i++)
        assert_int_equal(utf8_decode_partial(broken[i], strlen(broken[i]), &cp), 1);
}

static void test_every_code_point_survives_a_round_trip(void **state) {
    (void)state;
    for (uint32_t cp = 0; cp <= 0x10FFFF; cp++) {
        char bytes[4];
        uint32_t back;
        if (cp >= 0xD800 && cp <= 0xDFFF) continue;
        const size_t len = utf8_encode(cp, bytes);
        if (utf8_decode(bytes, len, &back) != len || back != cp) fail_msg("U+%04X", cp);
        if (utf8_valid_prefix(bytes, len) != len || utf8_count(bytes, len) != 1)
            fail_msg("U+%04X", cp);
        if (len > 1 && utf8_decode_partial(bytes, len - 1, &back) != 0) fail_msg("U+%04X", cp);
    }
}

static void test_what_is_no_character_encodes_as_the_replacement(void **state) {
    (void)state;
    static const uint32_t wrong[] = {0xD800, 0xDFFF, 0x110000, UINT32_MAX};
    for (size_t i = 0; i < sizeof wrong / sizeof *wrong; i++) {
        char bytes[4];
        assert_int_equal(utf8_encode(wrong[i], bytes), 3);
        assert_memory_equal(bytes, "\xef\xbf\xbd", 3);
    }
}

static void test_utf8_trim_end_takes_off_what_python_strips(void **state) {
    (void)state;
    static const char text[] = "a\xc3\xa9 \t\x1c\xc2\xa0\xe3\x80\x80\n";
    assert_int_equal(utf8_trim_end(text, sizeof text - 1), 3);
    assert_int_equal(utf8_trim_end("a\xe2\x80\x8b", 4), 4); /* U+200B is no white space. */
    assert_int_equal(utf8_trim_end(" \n", 2), 0);
    assert_int_equal(utf8_trim_end("", 0), 0);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_broken_bytes_are_replaced_as_python_does),
        cmocka_unit_test(test_the_valid_prefix_ends_where_python_stops),
        cmocka_unit_test(test_only_a_cut_character_is_partial),
        cmocka_unit_test(test_every_code_point_survives_a_round_trip),
        cmocka_unit_test(test_what_is_no_character_encodes_as_the_replacement),
        cmocka_unit_test(test_utf8_trim_end_takes_off_what_python_strips),
    };
    return cmocka_run_group_tests_name("utf8", tests, NULL, NULL);
}
