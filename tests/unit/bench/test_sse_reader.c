/* test_sse_reader.c - events come out the same wherever the network cuts the stream. */
#include "sse_reader.h"
#include "test.h"

/* All events so far, each followed by '|'. */
static bool take(void *user, const char *data, size_t len) {
    struct buf *events = user;
    assert_int_equal(data[len], '\0');
    buf_append(events, data, len);
    buf_append_char(events, '|');
    return true;
}

static const char *const streams[][2] = {
    {"data: one\n\ndata: two\n\n", "one|two|"},
    {"data: one\r\n\r\ndata: two\r\n\r\n", "one|two|"},
    {"data: one\r\rdata: two\r\r", "one|two|"},
    {"data:one\n\ndata:  two\n\n", "one| two|"},
    {"data: a\ndata: b\n\n", "a\nb|"},
    {"data\n\ndata:\n\n", "||"},
    {"\xEF\xBB\xBF"
     "data: bom\n\n",
     "bom|"},
    {": comment\nevent: x\nid: 7\nretry: 5\ndata: y\n\n", "y|"},
    {": only a comment\n\n\n\n", ""},
    {"database: no\ndatum: no\n\n", ""},
    {"data: ended\n\ndata: not ended\n", "ended|"},
    {"data: \xC3\xA9\xF0\x9F\x98\x80\n\n", "\xC3\xA9\xF0\x9F\x98\x80|"},
};

enum { N_STREAMS = sizeof streams / sizeof *streams };

static void test_sse_reader_gives_the_same_events_cut_at_every_two_bytes(void **state) {
    (void)state;
    for (size_t s = 0; s < N_STREAMS; s++) {
        const char *text = streams[s][0];
        size_t len = strlen(text);
        for (size_t a = 0; a <= len; a++)
            for (size_t b = a; b <= len; b++) {
                struct buf events;
                struct sse_reader reader;
                buf_init(&events, 0);
                buf_append_str(&events, "");
                sse_reader_init(&reader, take, &events);

                assert_int_equal(sse_reader_feed(&reader, text, a), RADISH_OK);
                assert_int_equal(sse_reader_feed(&reader, text + a, b - a), RADISH_OK);
                assert_int_equal(sse_reader_feed(&reader, text + b, len - b), RADISH_OK);

                assert_int_equal(events.len, strlen(streams[s][1]));
                if (events.len) assert_memory_equal(events.data, streams[s][1], events.len);
                sse_reader_deinit(&reader);
                buf_deinit(&events);
            }
    }
}

static void test_sse_reader_gives_the_same_events_byte_by_byte(void **state) {
    (void)state;
    for (size_t s = 0; s < N_STREAMS; s++) {
        struct buf events;
        struct sse_reader reader;
        buf_init(&events, 0);
        sse_reader_init(&reader, take, &events);

        for (const char *c = streams[s][0]; *c; c++)
            assert_int_equal(sse_reader_feed(&reader, c, 1), RADISH_OK);

        assert_int_equal(events.len, strlen(streams[s][1]));
        if (events.len) assert_memory_equal(events.data, streams[s][1], events.len);
        sse_reader_deinit(&reader);
        buf_deinit(&events);
    }
}

static void test_sse_reader_refuses_a_line_that_never_ends(void **state) {
    (void)state;
    static char piece[1 << 20];
    struct buf events;
    struct sse_reader reader;
    enum radish_status status = RADISH_OK;
    size_t n_fed = 0;
    memset(piece, 'x', sizeof piece);
    buf_init(&events, 0);
    sse_reader_init(&reader, take, &events);

    for (; status == RADISH_OK && n_fed < 2 * SSE_EVENT_BYTES_MAX; n_fed += sizeof piece)
        status = sse_reader_feed(&reader, piece, sizeof piece);

    assert_int_equal(status, RADISH_E_LIMIT);
    assert_true(n_fed <= SSE_EVENT_BYTES_MAX + sizeof piece);
    assert_int_equal(sse_reader_feed(&reader, "\n", 1), RADISH_E_ABORTED);
    sse_reader_deinit(&reader);
    buf_deinit(&events);
}

static void test_sse_reader_refuses_an_event_of_too_many_lines(void **state) {
    (void)state;
    static char line[1 << 16];
    struct buf events;
    struct sse_reader reader;
    enum radish_status status = RADISH_OK;
    memset(line, 'x', sizeof line);
    memcpy(line, "data: ", 6);
    line[sizeof line - 1] = '\n';
    buf_init(&events, 0);
    sse_reader_init(&reader, take, &events);

    for (size_t i = 0; status == RADISH_OK && i < 2 * SSE_EVENT_BYTES_MAX / sizeof line; i++)
        status = sse_reader_feed(&reader, line, sizeof line);

    assert_int_equal(status, RADISH_E_LIMIT);
    assert_int_equal(events.len, 0);
    sse_reader_deinit(&reader);
    buf_deinit(&events);
}

static bool refuse(void *user, const char *data, size_t len) {
    (void)data;
    (void)len;
    ++*(int *)user;
    return false;
}

static void test_sse_reader_stops_when_the_callback_says_so(void **state) {
    (void)state;
    struct sse_reader reader;
    int n_events = 0;
    sse_reader_init(&reader, refuse, &n_events);

    assert_int_equal(sse_reader_feed(&reader, "data: a\n\ndata: b\n\n", 18), RADISH_E_ABORTED);
    assert_int_equal(sse_reader_feed(&reader, "data: c\n\n", 9), RADISH_E_ABORTED);

    assert_int_equal(n_events, 1);
    sse_reader_deinit(&reader);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_sse_reader_gives_the_same_events_cut_at_every_two_bytes),
        cmocka_unit_test(test_sse_reader_gives_the_same_events_byte_by_byte),
        cmocka_unit_test(test_sse_reader_refuses_a_line_that_never_ends),
        cmocka_unit_test(test_sse_reader_refuses_an_event_of_too_many_lines),
        cmocka_unit_test(test_sse_reader_stops_when_the_callback_says_so),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
