/* test_pages.c - what is decided about huge pages and NUMA on made-up machines, and what mappings
 * are on this one. */
#include "test.h"

#include "base/mem.h"
#include "base/pages.h"

#include <sys/mman.h>
#include <unistd.h>

#if defined(__linux__)
#include <linux/mempolicy.h>
#include <sys/syscall.h>
#endif

#define MB ((size_t)1 << 20)

static struct machine make_machine(enum machine_huge huge, uint64_t nodes) {
    const int n = __builtin_popcountll(nodes);
    return (struct machine){.huge = huge,
                            .huge_page_bytes = huge ? 2 * MB : 0,
                            .n_nodes = n ? (uint32_t)n : 1,
                            .nodes = {nodes}};
}

static struct pages_policy decide(enum radish_huge_pages huge, enum radish_numa numa,
                                  const struct machine *machine) {
    struct pages_policy policy;
    struct radish_error err = {0};
    if (pages_decide(huge, numa, machine, &policy, &err) != RADISH_OK) fail_msg("%s", err.msg);
    return policy;
}

static void test_auto_asks_for_huge_pages_only_where_there_are_some(void **state) {
    (void)state;
    static const size_t wanted[] = {[MACHINE_HUGE_ABSENT] = 0,
                                    [MACHINE_HUGE_NEVER] = 0,
                                    [MACHINE_HUGE_MADVISE] = 2 * MB,
                                    [MACHINE_HUGE_ALWAYS] = 2 * MB};
    for (enum machine_huge huge = MACHINE_HUGE_ABSENT; huge <= MACHINE_HUGE_ALWAYS; huge++) {
        const struct machine m = make_machine(huge, 1);
        assert_int_equal(decide(RADISH_HUGE_PAGES_AUTO, RADISH_NUMA_NONE, &m).huge_bytes,
                         wanted[huge]);
        assert_int_equal(decide(RADISH_HUGE_PAGES_OFF, RADISH_NUMA_NONE, &m).huge_bytes, 0);
    }
}

static void test_on_is_refused_where_the_system_gives_none(void **state) {
    (void)state;
    struct machine m = make_machine(MACHINE_HUGE_NEVER, 1);
    struct pages_policy policy;
    struct radish_error err = {0};

    assert_int_equal(pages_decide(RADISH_HUGE_PAGES_ON, RADISH_NUMA_NONE, &m, &policy, &err),
                     RADISH_E_UNSUPPORTED);
    assert_string_equal(err.field, "huge-pages");
    assert_non_null(strstr(err.msg, "'never'"));

    m = make_machine(MACHINE_HUGE_MADVISE, 1);
    assert_int_equal(decide(RADISH_HUGE_PAGES_ON, RADISH_NUMA_NONE, &m).huge_bytes, 2 * MB);
    m.huge_page_bytes = 0; /* a size that nothing can be aligned to */
    assert_int_equal(pages_decide(RADISH_HUGE_PAGES_ON, RADISH_NUMA_NONE, &m, &policy, &err),
                     RADISH_E_UNSUPPORTED);
}

static void test_words_say_what_is_asked_for_and_what_could_be(void **state) {
    (void)state;
    char text[160];
    const struct machine two = make_machine(MACHINE_HUGE_MADVISE, 3);
    const struct machine never = make_machine(MACHINE_HUGE_NEVER, 1);
    struct pages_policy policy = decide(RADISH_HUGE_PAGES_AUTO, RADISH_NUMA_NONE, &two);

    pages_describe(&policy, &two, text, sizeof text);
    assert_string_equal(text, "huge pages of 2048 KiB where possible (system: madvise), 2 NUMA "
                              "nodes, not interleaved (--numa)");
    policy = decide(RADISH_HUGE_PAGES_AUTO, RADISH_NUMA_NONE, &never);
    pages_describe(&policy, &never, text, sizeof text);
    assert_string_equal(text, "no huge pages (system: never)");
    policy = decide(RADISH_HUGE_PAGES_OFF, RADISH_NUMA_NONE, &never);
    pages_describe(&policy, &never, text, sizeof text);
    assert_string_equal(text, "no huge pages (--huge-pages off)");
}

static void check_mapping(size_t bytes, const struct pages_policy *policy) {
    const size_t page = (size_t)sysconf(_SC_PAGESIZE);
    const size_t unit =
        policy->huge_bytes && bytes >= policy->huge_bytes ? policy->huge_bytes : page;
    unsigned char *p = pages_map(bytes, policy);
    assert_non_null(p);
    assert_int_equal((uintptr_t)p % unit, 0);
    assert_int_equal(p[0] | p[bytes / 2] | p[bytes - 1], 0);
    memset(p, 0x5a, bytes);
    pages_unmap(p, bytes);
}

static void test_mappings_of_every_size_are_aligned_zeroed_and_writable(void **state) {
    (void)state;
    static const struct pages_policy policies[] = {
        {0}, {.huge_bytes = 2 * MB}, {.huge = RADISH_HUGE_PAGES_OFF}};
    static const size_t sizes[] = {1,          4096,   4097,       MB,           2 * MB - 1,
                                   2 * MB + 1, 2 * MB, 3 * MB + 5, 4 * MB + 4096};
    for (size_t i = 0; i < sizeof policies / sizeof *policies; i++)
        for (size_t j = 0; j < sizeof sizes / sizeof *sizes; j++)
            check_mapping(sizes[j], &policies[i]);
    pages_unmap(NULL, 5);
    assert_null(pages_map(SIZE_MAX, &policies[0]));
    assert_null(pages_map(SIZE_MAX / 2 - 1, &policies[1]));
}

#if defined(__linux__)

static uint64_t count_resident(void) {
    struct machine_usage usage;
    machine_read_usage(&usage);
    return usage.resident_bytes;
}

/* mincore() says of a range that is not mapped that it is not. */
static bool is_mapped(const void *p) {
    unsigned char there;
    const uintptr_t page = (uintptr_t)sysconf(_SC_PAGESIZE);
    return mincore((void *)((uintptr_t)p / page * page), 1, &there) == 0;
}

static void test_memory_goes_back_to_the_system_when_it_is_freed(void **state) {
    (void)state;
    const size_t bytes = 64 * MB;
    const struct pages_policy policy = {.huge_bytes = 2 * MB};
    if (!count_resident()) skip(); /* no smaps_rollup */
    const uint64_t before = count_resident();

    unsigned char *p = mem_placed_alloc(bytes, &policy);
    assert_true(count_resident() < before + 8 * MB); /* nothing is taken before it is written */
    memset(p, 1, bytes);
    assert_true(count_resident() >= before + bytes);
    mem_aligned_free(p, bytes);

    assert_true(count_resident() < before + 8 * MB);
    assert_false(is_mapped(p));
    assert_false(is_mapped(p + bytes - 4096));
}

static void test_a_cut_gives_back_the_end_and_keeps_the_begin(void **state) {
    (void)state;
    const size_t page = (size_t)sysconf(_SC_PAGESIZE);
    const struct pages_policy policy = {.huge_bytes = 2 * MB};
    unsigned char *p = pages_map(8 * MB, &policy);
    memset(p, 7, 8 * MB);

    const size_t left = pages_cut(p, 8 * MB, 3 * MB + 1);

    assert_int_equal(left, 3 * MB + page);
    assert_true(is_mapped(p + left - 1));
    assert_false(is_mapped(p + left));
    assert_int_equal(p[3 * MB], 7);
    assert_int_equal(pages_cut(p, left, left), left);
    pages_unmap(p, left);
    assert_false(is_mapped(p));
}

/* Flags of the mapping that holds p, from /proc/self/smaps ("hg": advised, "nh": advised against);
 * false where there is no such line. */
static bool find_flags(const void *p, char *flags_out, size_t bytes) {
    char line[512];
    bool is_here = false, is_found = false;
    FILE *f = fopen("/proc/self/smaps", "r");
    while (f && !is_found && fgets(line, sizeof line, f)) {
        unsigned long low, high;
        if (sscanf(line, "%lx-%lx ", &low, &high) == 2)
            is_here = (uintptr_t)p >= low && (uintptr_t)p < high;
        else if (is_here && strncmp(line, "VmFlags:", 8) == 0)
            is_found = snprintf(flags_out, bytes, "%s", line) > 0;
    }
    if (f) fclose(f);
    return is_found;
}

static void test_the_system_is_told_what_the_policy_says(void **state) {
    (void)state;
    static const struct pages_policy asks = {.huge_bytes = 2 * MB}, plain = {0},
                                     refuses = {.huge = RADISH_HUGE_PAGES_OFF};
    static const struct {
        const struct pages_policy *policy;
        bool is_advised, is_advised_against;
    } rows[] = {{&asks, true, false}, {&plain, false, false}, {&refuses, false, true}};
    struct machine m;
    machine_read(&m);
    if (m.huge == MACHINE_HUGE_ABSENT) skip();
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        char flags[256];
        void *p = pages_map(6 * MB, rows[i].policy);
        if (!find_flags(p, flags, sizeof flags)) skip();
        assert_int_equal(strstr(flags, " hg") != NULL, rows[i].is_advised);
        assert_int_equal(strstr(flags, " nh") != NULL, rows[i].is_advised_against);
        pages_unmap(p, 6 * MB);
    }
}

static void test_huge_pages_come_where_the_system_gives_them(void **state) {
    (void)state;
    struct machine m;
    struct machine_usage before, after;
    machine_read(&m);
    machine_read_usage(&before);
    if (m.huge < MACHINE_HUGE_MADVISE || !before.resident_bytes) skip();
    const struct pages_policy policy = decide(RADISH_HUGE_PAGES_ON, RADISH_NUMA_NONE, &m);
    const struct pages_policy off = decide(RADISH_HUGE_PAGES_OFF, RADISH_NUMA_NONE, &m);
    const size_t bytes = 8 * m.huge_page_bytes;

    unsigned char *p = pages_map(bytes, &policy), *q = pages_map(bytes, &off);
    memset(p, 1, bytes);
    machine_read_usage(&after);
    const uint64_t got = after.anonymous_huge_bytes - before.anonymous_huge_bytes;
    memset(q, 1, bytes);
    machine_read_usage(&before);

    if (!got) print_message("this machine's memory is too scattered for huge pages now\n");
    assert_true(got <= bytes && got % m.huge_page_bytes == 0);
    assert_true(before.anonymous_huge_bytes == after.anonymous_huge_bytes); /* off is off */
    pages_unmap(p, bytes);
    pages_unmap(q, bytes);
}

static void test_several_nodes_are_interleaved_over(void **state) {
    (void)state;
    const struct machine m = make_machine(MACHINE_HUGE_MADVISE, 0x5);

    const struct pages_policy policy = decide(RADISH_HUGE_PAGES_AUTO, RADISH_NUMA_INTERLEAVE, &m);

    assert_true(policy.is_interleaved);
    assert_true(policy.nodes[0] == 0x5 && policy.nodes[1] == 0);
    char text[160];
    pages_describe(&policy, &m, text, sizeof text);
    assert_non_null(strstr(text, "interleaved over 2 NUMA nodes"));
    assert_false(decide(RADISH_HUGE_PAGES_AUTO, RADISH_NUMA_NONE, &m).is_interleaved);
}

static void test_one_node_is_a_warning_and_no_interleaving(void **state) {
    (void)state;
    const struct machine m = make_machine(MACHINE_HUGE_MADVISE, 0x2);
    assert_false(decide(RADISH_HUGE_PAGES_AUTO, RADISH_NUMA_INTERLEAVE, &m).is_interleaved);
}

/* On one node, too, the system keeps the wish: nodes that are not there are left out. */
static void test_the_system_is_asked_to_interleave(void **state) {
    (void)state;
    struct machine m;
    struct radish_error err;
    machine_read(&m);
    struct pages_policy policy = {.is_interleaved = true, .nodes = {m.nodes[0]}};
    if (!m.nodes[0] || pages_probe(&policy, &err) != RADISH_OK) skip(); /* forbidden here */

    unsigned char *p = pages_map(4 * MB, &policy);
    int mode = -1;
    const long failed = syscall(SYS_get_mempolicy, &mode, NULL, 0, p + MB, MPOL_F_ADDR);

    if (failed) print_message("get_mempolicy is not there\n");
    assert_true(failed || mode == MPOL_INTERLEAVE);
    memset(p, 1, 4 * MB);
    pages_unmap(p, 4 * MB);
}

static void test_a_system_that_refuses_is_told_before_anything_is_loaded(void **state) {
    (void)state;
    const struct pages_policy nowhere = {.is_interleaved = true}; /* no node at all: EINVAL */
    const struct pages_policy plain = {0};
    struct radish_error err = {0};

    assert_int_equal(pages_probe(&nowhere, &err), RADISH_E_UNSUPPORTED);
    assert_string_equal(err.field, "numa");
    assert_non_null(strstr(err.msg, "--numa interleave"));
    assert_int_equal(pages_probe(&plain, &err), RADISH_OK);
}

#else

static void test_interleaving_is_refused_on_this_system(void **state) {
    (void)state;
    const struct machine m = make_machine(MACHINE_HUGE_ABSENT, 3);
    struct pages_policy policy;
    struct radish_error err = {0};
    assert_int_equal(
        pages_decide(RADISH_HUGE_PAGES_AUTO, RADISH_NUMA_INTERLEAVE, &m, &policy, &err),
        RADISH_E_UNSUPPORTED);
    assert_string_equal(err.field, "numa");
}

#endif

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_auto_asks_for_huge_pages_only_where_there_are_some),
        cmocka_unit_test(test_on_is_refused_where_the_system_gives_none),
        cmocka_unit_test(test_words_say_what_is_asked_for_and_what_could_be),
        cmocka_unit_test(test_mappings_of_every_size_are_aligned_zeroed_and_writable),
#if defined(__linux__)
        cmocka_unit_test(test_memory_goes_back_to_the_system_when_it_is_freed),
        cmocka_unit_test(test_a_cut_gives_back_the_end_and_keeps_the_begin),
        cmocka_unit_test(test_the_system_is_told_what_the_policy_says),
        cmocka_unit_test(test_huge_pages_come_where_the_system_gives_them),
        cmocka_unit_test(test_several_nodes_are_interleaved_over),
        cmocka_unit_test(test_one_node_is_a_warning_and_no_interleaving),
        cmocka_unit_test(test_the_system_is_asked_to_interleave),
        cmocka_unit_test(test_a_system_that_refuses_is_told_before_anything_is_loaded),
#else
        cmocka_unit_test(test_interleaving_is_refused_on_this_system),
#endif
    };
    return cmocka_run_group_tests_name("pages", tests, NULL, NULL);
}
