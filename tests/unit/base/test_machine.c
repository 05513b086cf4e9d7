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
#endif
    };
    return cmocka_run_group_tests_name("machine", tests, NULL, NULL);
}
