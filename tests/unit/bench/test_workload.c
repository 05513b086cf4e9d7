/* test_workload.c - what the items of each workload share, and that they are the same each time. */
#include "test.h"
#include "workload.h"

#include <unistd.h>

static struct workload_options base_options(enum workload_kind kind) {
    return (struct workload_options){.kind = kind,
                                     .n_requests = 10,
                                     .n_groups = 3,
                                     .n_per_group = 4,
                                     .depth = 3,
                                     .fan_out = 2,
                                     .prefix_tokens = 40,
                                     .input_tokens = 20,
                                     .output_tokens = 8,
                                     .range_ratio = 1,
                                     .trace_scale = 1,
                                     .trace_speed = 1,
                                     .seed = 5,
                                     .words_per_token = 0.5};
}

static void make(const struct workload_options *options, struct workload *w) {
    struct radish_error err = {0};
    if (workload_make(options, w, &err) != RADISH_OK) fail_msg("%s", err.msg);
}

static struct buf text_of(const struct workload *w, uint32_t item) {
    struct buf text;
    buf_init(&text, 0);
    workload_append_text(w, item, &text);
    assert_false(text.failed);
    return text;
}

static size_t count_words(const struct buf *text) {
    size_t n = text->len > 0;
    for (size_t i = 0; i < text->len; i++) n += text->data[i] == ' ';
    return n;
}

/* Words at the begin that two items have in common. */
static size_t shared_words(const struct workload *w, uint32_t a, uint32_t b) {
    struct buf x = text_of(w, a), y = text_of(w, b);
    size_t n = 0, words = 0;
    while (n < x.len && n < y.len && x.data[n] == y.data[n]) words += x.data[n++] == ' ';
    bool ends_x = n == x.len || x.data[n] == ' ', ends_y = n == y.len || y.data[n] == ' ';
    if ((n == x.len || n == y.len) && ends_x && ends_y) words++;
    buf_deinit(&x);
    buf_deinit(&y);
    return words;
}

static void test_workload_random_shares_nothing(void **state) {
    (void)state;
    struct workload_options options = base_options(WORKLOAD_RANDOM);
    struct workload w;

    make(&options, &w);

    assert_int_equal(w.n_items, 10);
    for (uint32_t i = 0; i < w.n_items; i++) {
        struct buf text = text_of(&w, i);
        assert_int_equal(count_words(&text), 10); /* 20 tokens of half a word */
        assert_int_equal(w.items[i].output_tokens, 8);
        for (uint32_t j = 0; j < i; j++) assert_true(shared_words(&w, i, j) < 4);
        buf_deinit(&text);
    }
    workload_deinit(&w);
}

static void test_workload_shared_prefix_has_groups_in_a_shuffled_order(void **state) {
    (void)state;
    struct workload_options options = base_options(WORKLOAD_SHARED_PREFIX);
    struct workload w;
    size_t n_pairs = 0, n_neighbours = 0;

    make(&options, &w);

    assert_int_equal(w.n_items, 12);
    for (uint32_t i = 0; i < w.n_items; i++)
        for (uint32_t j = 0; j < i; j++) {
            size_t n = shared_words(&w, i, j);
            if (n < 20) continue;
            assert_true(n < 24); /* the prefix, and no more than chance */
            n_pairs++;
            n_neighbours += i == j + 1;
        }
    assert_int_equal(n_pairs, 3 * 6);
    assert_true(n_neighbours < 9);
    workload_deinit(&w);
}

static void test_workload_multi_turn_continues_each_conversation(void **state) {
    (void)state;
    struct workload_options options = base_options(WORKLOAD_MULTI_TURN);
    struct workload w;

    make(&options, &w);

    assert_int_equal(w.n_items, 12);
    for (uint32_t i = 0; i < 3; i++) {
        struct buf text = text_of(&w, i);
        assert_int_equal(w.items[i].parent, WORKLOAD_NO_PARENT);
        assert_int_equal(count_words(&text), 20 + 10);
        buf_deinit(&text);
    }
    for (uint32_t i = 3; i < 12; i++) {
        struct buf text = text_of(&w, i);
        assert_int_equal(w.items[i].parent, i - 3);
        assert_int_equal(w.items[i - 3].n_children, 1);
        assert_int_equal(count_words(&text), 10);
        buf_deinit(&text);
    }
    workload_deinit(&w);
}

static void test_workload_agent_tree_branches_at_every_level(void **state) {
    (void)state;
    struct workload_options options = base_options(WORKLOAD_AGENT_TREE);
    struct workload w;
    uint32_t n_with_children = 0;

    make(&options, &w);

    assert_int_equal(w.n_items, 3 * (1 + 2 + 4));
    for (uint32_t i = 0; i < w.n_items; i++) {
        assert_true(w.items[i].parent == WORKLOAD_NO_PARENT || w.items[i].parent < i);
        assert_true(w.items[i].n_children == 0 || w.items[i].n_children == 2);
        n_with_children += w.items[i].n_children > 0;
    }
    assert_int_equal(n_with_children, 3 * (1 + 2));
    workload_deinit(&w);
}

static void test_workload_cold_fan_out_shares_one_trunk(void **state) {
    (void)state;
    struct workload_options options = base_options(WORKLOAD_COLD_FAN_OUT);
    struct workload w;

    make(&options, &w);

    for (uint32_t i = 1; i < w.n_items; i++) {
        assert_true(shared_words(&w, 0, i) >= 20);
        assert_int_equal(w.items[i].at_ns, 0);
    }
    workload_deinit(&w);
}

static void test_workload_is_the_same_for_the_same_seed_only(void **state) {
    (void)state;
    struct workload_options options = base_options(WORKLOAD_RANDOM);
    struct workload a, b, c;
    options.range_ratio = 0.1;

    make(&options, &a);
    make(&options, &b);
    options.seed++;
    make(&options, &c);

    struct buf x = text_of(&a, 7), y = text_of(&b, 7), z = text_of(&c, 7);
    assert_string_equal(x.data, y.data);
    assert_string_not_equal(x.data, z.data);
    buf_deinit(&x);
    buf_deinit(&y);
    buf_deinit(&z);
    workload_deinit(&a);
    workload_deinit(&b);
    workload_deinit(&c);
}

static void test_workload_arrivals_have_the_rate_asked_for(void **state) {
    (void)state;
    struct workload_options options = base_options(WORKLOAD_RANDOM);
    struct workload w;
    options.n_requests = 4000;
    options.request_rate = 100;

    make(&options, &w);

    for (uint32_t i = 1; i < w.n_items; i++) assert_true(w.items[i].at_ns >= w.items[i - 1].at_ns);
    double seconds = (double)w.items[w.n_items - 1].at_ns / 1e9;
    assert_true(seconds > 36 && seconds < 44);
    workload_deinit(&w);
}

static void write_file(char path_out[64], const char *text) {
    strcpy(path_out, "/tmp/radish-trace-XXXXXX");
    int fd = mkstemp(path_out);
    assert_true(fd >= 0);
    assert_int_equal(write(fd, text, strlen(text)), (ssize_t)strlen(text));
    close(fd);
}

static const char trace[] =
    "{\"timestamp\": 9000, \"input_length\": 1100, \"output_length\": 40, \"hash_ids\": [7, 8, "
    "9]}\n"
    "\n"
    "{\"timestamp\": 3000, \"input_length\": 600, \"output_length\": 1, \"hash_ids\": [7, 8]}\n"
    "{\"timestamp\": 5000, \"input_length\": 300, \"output_length\": 10}\n";

static void test_workload_trace_keeps_times_lengths_and_shared_blocks(void **state) {
    (void)state;
    struct workload_options options = base_options(WORKLOAD_TRACE);
    struct workload w;
    char path[64];
    write_file(path, trace);
    options.trace_path = path;
    options.n_requests = 0;
    options.trace_scale = 0.25;
    options.trace_speed = 4;

    make(&options, &w);
    unlink(path);

    static const struct {
        double at_ms;
        uint32_t n_words, n_output;
    } rows[] = {{0, 75, 1}, {500, 38, 3}, {1500, 138, 10}};
    assert_int_equal(w.n_items, 3);
    for (uint32_t i = 0; i < 3; i++) {
        struct buf text = text_of(&w, i);
        assert_true((double)w.items[i].at_ns == rows[i].at_ms * 1e6);
        assert_int_equal(count_words(&text), rows[i].n_words);
        assert_int_equal(w.items[i].output_tokens, rows[i].n_output);
        buf_deinit(&text);
    }
    assert_int_equal(shared_words(&w, 0, 2), 75); /* one block and the begin of the next */
    assert_true(shared_words(&w, 0, 1) < 4);
    workload_deinit(&w);
}

static void test_workload_names_the_line_of_a_broken_trace(void **state) {
    (void)state;
    static const char *const rows[][2] = {
        {"{\"timestamp\": 1, \"input_length\": 5, \"output_length\": 5}\n{", "line 2"},
        {"[]", "line 1"},
        {"{\"input_length\": 5}", "missing"},
        {"{\"timestamp\": 1}", "missing"},
        {"{\"timestamp\": 1, \"input_length\": -5}", "input_length"},
        {"{\"timestamp\": 1, \"input_length\": 5, \"hash_ids\": [\"x\"]}", "hash_ids"},
        {"{\"timestamp\": 1, \"input_length\": 5, \"hash_ids\": 3}", "hash_ids"},
        {"\n\n", "no requests"},
    };
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        struct workload_options options = base_options(WORKLOAD_TRACE);
        struct radish_error err = {0};
        struct workload w;
        char path[64];
        write_file(path, rows[i][0]);
        options.trace_path = path;

        assert_int_not_equal(workload_make(&options, &w, &err), RADISH_OK);

        unlink(path);
        assert_non_null(strstr(err.msg, rows[i][1]));
        assert_non_null(strstr(err.msg, path));
        workload_deinit(&w);
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_workload_random_shares_nothing),
        cmocka_unit_test(test_workload_shared_prefix_has_groups_in_a_shuffled_order),
        cmocka_unit_test(test_workload_multi_turn_continues_each_conversation),
        cmocka_unit_test(test_workload_agent_tree_branches_at_every_level),
        cmocka_unit_test(test_workload_cold_fan_out_shares_one_trunk),
        cmocka_unit_test(test_workload_is_the_same_for_the_same_seed_only),
        cmocka_unit_test(test_workload_arrivals_have_the_rate_asked_for),
        cmocka_unit_test(test_workload_trace_keeps_times_lengths_and_shared_blocks),
        cmocka_unit_test(test_workload_names_the_line_of_a_broken_trace),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
