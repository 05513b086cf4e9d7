/* test_machine.c - what we may use of the machine: on this one, and on made-up ones with nested
 * cgroups of both versions, siblings and odd mounts. */
#include "test.h"

#include "base/machine_int.h"

#include <errno.h>
#include <sys/stat.h>
#include <unistd.h>

static void test_this_machine_has_sane_numbers(void **state) {
    (void)state;
    struct machine m;

    machine_read(&m);

    assert_true(m.n_cpus_online >= 1);
    assert_in_range(m.n_cpus_allowed, 1, m.n_cpus_online);
    assert_in_range(m.n_cores_allowed, 1, m.n_cpus_allowed);
    assert_true(m.memory_total_bytes > 64u << 20);
    assert_in_range(m.memory_available_bytes, 1, m.memory_total_bytes);
    assert_true(m.cpu_quota >= 0);
    assert_in_range(machine_threads_default(&m), 1, m.n_cpus_allowed);
    assert_true(m.n_nodes >= 1);
#if defined(__linux__)
    uint32_t cpus[2];
    assert_int_equal(machine_list_cores(cpus, 2), m.n_cores_allowed < 2 ? 1 : 2);
#endif
}

static void test_default_threads_are_cores_within_the_quota(void **state) {
    (void)state;
    static const struct {
        uint32_t n_online, n_allowed, n_cores;
        double quota;
        uint32_t n_threads;
    } rows[] = {
        {1, 1, 1, 0, 1},     {2, 2, 1, 0, 2}, /* a machine that shows 2: all of them */
        {16, 16, 8, 0, 8},   {16, 4, 4, 0, 4},     {64, 2, 1, 0, 1},    {16, 16, 8, 2.0, 2},
        {16, 16, 8, 2.1, 3}, {16, 16, 8, 0.25, 1}, {16, 16, 8, 1e9, 8},
    };
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        const struct machine m = {.n_cpus_online = rows[i].n_online,
                                  .n_cpus_allowed = rows[i].n_allowed,
                                  .n_cores_allowed = rows[i].n_cores,
                                  .cpu_quota = rows[i].quota};
        if (machine_threads_default(&m) != rows[i].n_threads)
            fail_msg("row %zu: %u threads", i, machine_threads_default(&m));
    }
}

#if defined(__linux__)

static char root[64];

/* Writes root/path, making the folders on the way. */
static void put(const char *path, const char *text) {
    char full[512];
    snprintf(full, sizeof full, "%s%s", root, path);
    for (char *p = full + strlen(root) + 1; (p = strchr(p, '/')); p++) {
        *p = '\0';
        if (mkdir(full, 0700) != 0) assert_int_equal(errno, EEXIST);
        *p = '/';
    }
    FILE *f = fopen(full, "w");
    assert_non_null(f);
    fputs(text, f);
    fclose(f);
}

static int set_up(void **state) {
    (void)state;
    snprintf(root, sizeof root, "/tmp/radish-test-XXXXXX");
    if (!mkdtemp(root)) return -1;
    put("/proc/meminfo",
        "MemTotal:       16777216 kB\nMemFree:         1000000 kB\nMemAvailable:    8388608 kB\n");
    return 0;
}

static int tear_down(void **state) {
    (void)state;
    char command[100];
    snprintf(command, sizeof command, "rm -r '%s'", root);
    return system(command);
}

static struct machine read_made_up(const char *cpus) {
    struct machine m;
    cpu_set_t mask;
    CPU_ZERO(&mask);
    for (const char *p = cpus; *p; p++) CPU_SET((size_t)(*p - '0'), &mask);
    machine_read_linux(root, &mask, sizeof mask, &m);
    return m;
}

#define GB ((uint64_t)1 << 30)

static void test_without_cgroups_the_machine_is_what_proc_says(void **state) {
    (void)state;
    put("/proc/cpuinfo", "processor\t: 0\nmodel name\t: Some CPU @ 2.00GHz\nflags\t: a b\n");

    const struct machine m = read_made_up("0123");

    assert_true(m.memory_total_bytes == 16 * GB);
    assert_true(m.memory_available_bytes == 8 * GB);
    assert_true(m.cpu_quota == 0);
    assert_string_equal(m.cpu_name, "Some CPU @ 2.00GHz");
}

static void test_siblings_are_one_core(void **state) {
    (void)state;
    put("/sys/devices/system/cpu/cpu0/topology/thread_siblings_list", "0,4\n");
    put("/sys/devices/system/cpu/cpu4/topology/thread_siblings_list", "0,4\n");
    put("/sys/devices/system/cpu/cpu1/topology/thread_siblings_list", "1,5\n");
    put("/sys/devices/system/cpu/cpu5/topology/thread_siblings_list", "1,5\n");
    put("/sys/devices/system/cpu/cpu2/topology/thread_siblings_list", "2-3\n");
    put("/sys/devices/system/cpu/cpu3/topology/thread_siblings_list", "2-3\n");

    assert_int_equal(read_made_up("0145").n_cores_allowed, 2);
    assert_int_equal(read_made_up("012345").n_cores_allowed, 3);
    assert_int_equal(read_made_up("5").n_cores_allowed, 1);
    assert_int_equal(read_made_up("45").n_cores_allowed, 2);
    assert_int_equal(read_made_up("45").n_cpus_allowed, 2);
    assert_int_equal(read_made_up("67").n_cores_allowed, 2); /* nothing known: one core each */
}

static void put_v2(void) {
    put("/proc/self/cgroup", "0::/outer/inner\n");
    put("/proc/self/mountinfo",
        "30 23 0:26 / /sys/fs/cgroup rw,nosuid shared:4 - cgroup2 cgroup2 rw,nsdelegate\n");
}

static void test_the_tightest_of_nested_v2_limits_counts(void **state) {
    (void)state;
    put_v2();
    put("/sys/fs/cgroup/outer/memory.max", "2147483648\n"); /* 2 GB around 4 GB */
    put("/sys/fs/cgroup/outer/memory.current", "1610612736\n");
    put("/sys/fs/cgroup/outer/memory.stat",
        "anon 5\ninactive_file 268435456\nactive_file 268435456\n");
    put("/sys/fs/cgroup/outer/cpu.max", "150000 100000\n");
    put("/sys/fs/cgroup/outer/inner/memory.max", "4294967296\n");
    put("/sys/fs/cgroup/outer/inner/memory.current", "1048576\n");
    put("/sys/fs/cgroup/outer/inner/cpu.max", "max 100000\n");

    const struct machine m = read_made_up("0");

    assert_true(m.memory_total_bytes == 2 * GB);
    assert_true(m.memory_available_bytes == GB); /* 2 - (1.5 - 0.5 of file cache) */
    assert_true(m.cpu_quota == 1.5);
}

static void test_neighbours_in_a_wider_cgroup_take_from_what_is_available(void **state) {
    (void)state;
    put_v2();
    put("/sys/fs/cgroup/outer/inner/memory.max", "2147483648\n"); /* 2 GB, unused */
    put("/sys/fs/cgroup/outer/inner/memory.current", "0\n");
    put("/sys/fs/cgroup/outer/memory.max", "4294967296\n"); /* 4 GB, of which 3.5 are used */
    put("/sys/fs/cgroup/outer/memory.current", "3758096384\n");

    const struct machine m = read_made_up("0");

    assert_true(m.memory_total_bytes == 2 * GB);
    assert_true(m.memory_available_bytes == GB / 2);
}

static void test_v2_memory_high_limits_too_and_max_does_not(void **state) {
    (void)state;
    put_v2();
    put("/sys/fs/cgroup/outer/memory.max", "max\n");
    put("/sys/fs/cgroup/outer/memory.high", "3221225472\n");

    const struct machine m = read_made_up("0");

    assert_true(m.memory_total_bytes == 3 * GB);
    assert_true(m.memory_available_bytes == 3 * GB);
    assert_true(m.cpu_quota == 0);
}

static void test_v1_limits_count_and_their_unlimited_value_does_not(void **state) {
    (void)state;
    put("/proc/self/cgroup",
        "5:cpuacct,cpu:/outer/inner\n4:memory:/outer/inner\n1:name=systemd:/x\n0::/x\n");
    put("/proc/self/mountinfo",
        "31 23 0:27 / /sys/fs/cgroup/memory rw - cgroup cgroup rw,memory\n"
        "32 23 0:28 / /sys/fs/cgroup/cpu,cpuacct rw - cgroup cgroup rw,cpu,cpuacct\n");
    put("/sys/fs/cgroup/memory/memory.limit_in_bytes", "9223372036854771712\n");
    put("/sys/fs/cgroup/memory/outer/memory.limit_in_bytes", "3221225472\n");
    put("/sys/fs/cgroup/memory/outer/memory.usage_in_bytes", "2147483648\n");
    put("/sys/fs/cgroup/memory/outer/memory.stat",
        "inactive_file 1\ntotal_inactive_file 1073741824\ntotal_active_file 0\n");
    put("/sys/fs/cgroup/memory/outer/inner/memory.limit_in_bytes", "9223372036854771712\n");
    put("/sys/fs/cgroup/cpu,cpuacct/outer/inner/cpu.cfs_quota_us", "50000\n");
    put("/sys/fs/cgroup/cpu,cpuacct/outer/inner/cpu.cfs_period_us", "100000\n");
    put("/sys/fs/cgroup/cpu,cpuacct/outer/cpu.cfs_quota_us", "-1\n");
    put("/sys/fs/cgroup/cpu,cpuacct/outer/cpu.cfs_period_us", "100000\n");

    const struct machine m = read_made_up("0");

    assert_true(m.memory_total_bytes == 3 * GB);
    assert_true(m.memory_available_bytes == 2 * GB);
    assert_true(m.cpu_quota == 0.5);
}

/* A container without a cgroup namespace: the path is the host's, the mount shows a part of it. */
static void test_the_root_of_the_mount_is_cut_from_the_path(void **state) {
    (void)state;
    put("/proc/self/cgroup", "0::/docker/abc/inner\n");
    put("/proc/self/mountinfo",
        "30 23 0:26 /docker/abc /sys/fs/my\\040cgroup rw - cgroup2 cgroup rw\n");
    put("/sys/fs/my cgroup/inner/memory.max", "1073741824\n");

    assert_true(read_made_up("0").memory_total_bytes == GB);
}

static void test_a_path_outside_the_mount_falls_back_to_its_root(void **state) {
    (void)state;
    put("/proc/self/cgroup", "0::/../other\n");
    put("/proc/self/mountinfo", "30 23 0:26 / /sys/fs/cgroup rw - cgroup2 cgroup rw\n");
    put("/sys/fs/cgroup/memory.max", "1073741824\n");

    assert_true(read_made_up("0").memory_total_bytes == GB);
}

static void test_garbage_in_proc_does_no_harm(void **state) {
    (void)state;
    put("/proc/meminfo", "MemTotal\nMemAvailable: x\n\n");
    put("/proc/cpuinfo", "model name\n:\nmodel name:");
    put("/proc/self/cgroup", ":::\n0\n0:\n0::\n\nmemory\n4:memory\n");
    put("/proc/self/mountinfo",
        " - \n - cgroup2\n1 2 3 - cgroup2 a b\n\\ \\777 \\ \\ \\ - cgroup2 a b\n");
    put("/sys/devices/system/cpu/cpu0/topology/thread_siblings_list", "9-1,,x\n");

    const struct machine m = read_made_up("01");

    assert_int_equal(m.n_cpus_allowed, 2);
    assert_int_equal(m.n_cores_allowed, 2);
    assert_true(m.memory_total_bytes == 0);
    assert_true(m.memory_available_bytes == 0);
}

static void test_one_cpu_of_each_core_is_listed(void **state) {
    (void)state;
    put("/sys/devices/system/cpu/cpu0/topology/thread_siblings_list", "0,4\n");
    put("/sys/devices/system/cpu/cpu4/topology/thread_siblings_list", "0,4\n");
    put("/sys/devices/system/cpu/cpu1/topology/thread_siblings_list", "1,5\n");
    put("/sys/devices/system/cpu/cpu5/topology/thread_siblings_list", "1,5\n");
    uint32_t cpus[8];
    cpu_set_t mask;
    CPU_ZERO(&mask);
    CPU_SET(1, &mask);
    CPU_SET(4, &mask);
    CPU_SET(5, &mask);

    assert_int_equal(machine_list_cores_linux(root, &mask, sizeof mask, cpus, 8), 2);
    assert_int_equal(cpus[0], 1);
    assert_int_equal(cpus[1], 4); /* its sibling 0 is not ours */
    assert_int_equal(machine_list_cores_linux(root, &mask, sizeof mask, cpus, 1), 1);
}

static void put_quota(const char *text) {
    put_v2();
    put("/sys/fs/cgroup/outer/inner/cpu.max", text);
}

static void test_quotas_that_are_none_are_not_taken_for_one(void **state) {
    (void)state;
    static const char *const texts[] = {
        "max 100000\n", "",         "\n",       "100000\n",     "-1 100000\n", "0 100000\n",
        "100000 0\n",   "x 100000", "inf 1000", "100000 nan\n", "100000 -5\n", "max\n",
    };
    for (size_t i = 0; i < sizeof texts / sizeof *texts; i++) {
        put_quota(texts[i]);
        if (read_made_up("0").cpu_quota != 0) fail_msg("'%s' is a quota", texts[i]);
    }
    put_quota("25000 100000");
    assert_true(read_made_up("0").cpu_quota == 0.25);
}

static void test_the_tightest_quota_counts_wherever_it_is(void **state) {
    (void)state;
    put("/proc/self/cgroup", "0::/a/b/c\n");
    put("/proc/self/mountinfo", "30 23 0:26 / /sys/fs/cgroup rw - cgroup2 cgroup2 rw\n");
    put("/sys/fs/cgroup/a/cpu.max", "400000 100000\n");
    put("/sys/fs/cgroup/a/b/cpu.max", "30000 20000\n");
    put("/sys/fs/cgroup/a/b/c/cpu.max", "800000 100000\n");

    assert_true(read_made_up("0123").cpu_quota == 1.5);
}

/* systemd's hybrid: processes are in both trees, controllers in the old one. */
static void test_in_a_hybrid_both_trees_are_read(void **state) {
    (void)state;
    put("/proc/self/cgroup", "2:cpu,cpuacct:/old\n1:name=systemd:/s\n0::/new\n");
    put("/proc/self/mountinfo",
        "32 23 0:28 / /sys/fs/cgroup/cpu rw - cgroup cgroup rw,cpu,cpuacct\n"
        "33 23 0:29 / /sys/fs/cgroup/unified rw - cgroup2 cgroup2 rw\n");
    put("/sys/fs/cgroup/cpu/old/cpu.cfs_quota_us", "300000\n");
    put("/sys/fs/cgroup/cpu/old/cpu.cfs_period_us", "100000\n");

    assert_true(read_made_up("0123").cpu_quota == 3);
    put("/sys/fs/cgroup/unified/new/cpu.max", "200000 100000\n");
    assert_true(read_made_up("0123").cpu_quota == 2);
}

static void test_nodes_are_those_with_memory_that_the_cpuset_allows(void **state) {
    (void)state;
    assert_int_equal(read_made_up("0").n_nodes, 1); /* nothing known */
    assert_true(read_made_up("0").nodes[0] == 0);

    put("/sys/devices/system/node/has_memory", "0-2,64\n");
    assert_int_equal(read_made_up("0").n_nodes, 4);

    put("/proc/self/status", "Name:\tx\nMems_allowed:\t1,2\nMems_allowed_list:\t1-5,64-70\n");
    const struct machine m = read_made_up("0");
    assert_int_equal(m.n_nodes, 3);
    assert_true(m.nodes[0] == 0x6 && m.nodes[1] == 1);

    put("/proc/self/status", "Mems_allowed_list:\t3\n");
    assert_int_equal(read_made_up("0").n_nodes, 1);

    put("/sys/devices/system/node/has_memory", "5000-4,x,99999999999999999999-\n");
    assert_int_equal(read_made_up("0").n_nodes, 1);
}

#define THP "/sys/kernel/mm/transparent_hugepage/"

static void test_huge_pages_are_what_the_switches_say(void **state) {
    (void)state;
    static const struct {
        const char *all, *of_size;
        enum machine_huge huge;
    } rows[] = {
        {"[always] madvise never\n", NULL, MACHINE_HUGE_ALWAYS},
        {"always [madvise] never\n", NULL, MACHINE_HUGE_MADVISE},
        {"always madvise [never]\n", NULL, MACHINE_HUGE_NEVER},
        {"always madvise never\n", NULL, MACHINE_HUGE_ABSENT},
        {"[alway", NULL, MACHINE_HUGE_ABSENT},
        {"[madvise]", "always [inherit] madvise never\n", MACHINE_HUGE_MADVISE},
        {"[madvise]", "always inherit madvise [never]\n", MACHINE_HUGE_NEVER},
        {"[never]", "[always] inherit madvise never\n", MACHINE_HUGE_ALWAYS},
    };
    assert_int_equal(read_made_up("0").huge, MACHINE_HUGE_ABSENT);
    assert_int_equal(read_made_up("0").huge_page_bytes, 0);
    put(THP "hpage_pmd_size", "2097152\n");
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        put(THP "enabled", rows[i].all);
        put(THP "hugepages-2048kB/enabled", rows[i].of_size ? rows[i].of_size : "");
        const struct machine m = read_made_up("0");
        if (m.huge != rows[i].huge) fail_msg("row %zu: %s", i, machine_huge_name(m.huge));
        assert_int_equal(m.huge_page_bytes, m.huge ? 2 << 20 : 0);
    }
    put(THP "enabled", "[always]");
    put(THP "hpage_pmd_size", "3000000\n");
    assert_int_equal(read_made_up("0").huge_page_bytes, 0); /* not to be aligned to */
}

static void test_usage_is_read_from_the_rollup(void **state) {
    (void)state;
    struct machine_usage usage;
    machine_read_usage_linux(root, &usage);
    assert_true(!usage.resident_bytes && !usage.anonymous_bytes && !usage.anonymous_huge_bytes);

    put("/proc/self/smaps_rollup",
        "5500-7fff ---p 00000000 00:00 0    [rollup]\nRss:    300 kB\nPss_Anon:   7 kB\n"
        "Anonymous:   200 kB\nLazyFree: 0 kB\nAnonHugePages:   100 kB\n");
    machine_read_usage_linux(root, &usage);
    assert_int_equal(usage.resident_bytes, 300 * 1024);
    assert_int_equal(usage.anonymous_bytes, 200 * 1024);
    assert_int_equal(usage.anonymous_huge_bytes, 100 * 1024);
}

#define MADE_UP(test) cmocka_unit_test_setup_teardown(test, set_up, tear_down)
#endif

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_this_machine_has_sane_numbers),
        cmocka_unit_test(test_default_threads_are_cores_within_the_quota),
#if defined(__linux__)
        MADE_UP(test_without_cgroups_the_machine_is_what_proc_says),
        MADE_UP(test_siblings_are_one_core),
        MADE_UP(test_the_tightest_of_nested_v2_limits_counts),
        MADE_UP(test_neighbours_in_a_wider_cgroup_take_from_what_is_available),
        MADE_UP(test_v2_memory_high_limits_too_and_max_does_not),
        MADE_UP(test_v1_limits_count_and_their_unlimited_value_does_not),
        MADE_UP(test_the_root_of_the_mount_is_cut_from_the_path),
        MADE_UP(test_a_path_outside_the_mount_falls_back_to_its_root),
        MADE_UP(test_garbage_in_proc_does_no_harm),
        MADE_UP(test_one_cpu_of_each_core_is_listed),
        MADE_UP(test_quotas_that_are_none_are_not_taken_for_one),
        MADE_UP(test_the_tightest_quota_counts_wherever_it_is),
        MADE_UP(test_in_a_hybrid_both_trees_are_read),
        MADE_UP(test_nodes_are_those_with_memory_that_the_cpuset_allows),
        MADE_UP(test_huge_pages_are_what_the_switches_say),
        MADE_UP(test_usage_is_read_from_the_rollup),
#endif
    };
    return cmocka_run_group_tests_name("machine", tests, NULL, NULL);
}
