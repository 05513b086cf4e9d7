/* machine.c - how much of the machine is ours.
 *
 * A server in a container sees the host's /proc: 64 processors and 256 GB where its cgroup allows 2
 * and 4 GB. Sizing by the host gets it killed, or stalled by the scheduler's quota. So each number
 * is the least of what the machine has, what the affinity mask allows and what every cgroup from
 * ours up to the root allows: limits nest, and the tightest one, wherever it is, decides.
 *
 *   /proc/self/cgroup      "0::/a/b" (v2)   "4:memory:/a/b", "2:cpu,cpuacct:/a/b" (v1)
 *   /proc/self/mountinfo   "... ROOT MOUNTPOINT ... - cgroup2 cgroup rw"   where that tree is seen
 *
 *   the folder of our cgroup = MOUNTPOINT + (our path without ROOT); its parents up to MOUNTPOINT
 *   v2: memory.max, memory.high, memory.current, memory.stat; cpu.max
 *   v1: memory.limit_in_bytes, memory.usage_in_bytes, memory.stat; cpu.cfs_quota_us,
 * cpu.cfs_period_us
 *
 * Available memory is MemAvailable, and in a cgroup the limit minus what is in use, where file
 * cache does not count as used: the kernel takes it back on demand, and right after a download it
 * would otherwise fill the whole cgroup.
 *
 * The same holds for NUMA nodes (those with memory that our cpuset allows, as /proc/self/status
 * says) and for huge pages (the switch for all sizes, that of the size the processor maps at once,
 * and the one of this process).
 *
 * Nothing fails: what cannot be read (another system, a hardened container) is left out, and the
 * defaults are one processor per CPU in the mask and no limit beyond the machine's memory. Where
 * even that is unknown, 0 bytes: callers then ask for explicit sizes. */
#include "machine_int.h"

#include "buf.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#if defined(__linux__)
#include <sys/prctl.h>
#elif defined(__APPLE__)
#include <mach/mach.h>
#include <sys/sysctl.h>
#endif

static void set_least(uint64_t *least, uint64_t value) {
    if (value < *least) *least = value;
}

#if defined(__linux__)

enum { FILE_BYTES_MAX = 4 << 20, PATH_BYTES_MAX = 4096 };

/* A path under root; cut paths are not found, which is what callers treat as absent. */
struct path {
    char text[PATH_BYTES_MAX];
};

static struct path under(const char *root, const char *folder, const char *name) {
    struct path p;
    const int n = snprintf(p.text, sizeof p.text, "%s%s%s", root, folder, name);
    if (n < 0 || (size_t)n >= sizeof p.text) p.text[0] = '\0';
    return p;
}

/* Files of /proc and /sys have no size: read until the end. The buffer is empty when that fails. */
static void read_file(const char *path, struct buf *out) {
    char piece[4096];
    buf_init(out, FILE_BYTES_MAX);
    FILE *f = *path ? fopen(path, "re") : NULL;
    if (!f) return;
    for (size_t n; (n = fread(piece, 1, sizeof piece, f)) > 0 && !out->failed;)
        buf_append(out, piece, n);
    fclose(f);
    if (out->failed) buf_clear(out);
}

/* Runs through a text line by line, in place: *rest moves on; NULL at the end. */
static char *next_line(char **rest) {
    char *line = *rest;
    if (!line || !*line) return NULL;
    char *end = strchr(line, '\n');
    if (end) *end = '\0';
    *rest = end ? end + 1 : NULL;
    return line;
}

/* The number in a file that holds one, or `absent` (also for "max"). */
static uint64_t read_number(const char *path, uint64_t absent) {
    struct buf text;
    uint64_t value = absent;
    char *end = NULL;
    read_file(path, &text);
    if (text.len && text.data[0] >= '0' && text.data[0] <= '9')
        value = strtoull(text.data, &end, 10);
    buf_deinit(&text);
    return value;
}

/* The text behind "KEY" at the start of a line, else NULL. */
static const char *find_value(const char *text, const char *key) {
    const size_t len = strlen(key);
    for (const char *line = text; line && *line; line = strchr(line, '\n')) {
        if (*line == '\n') line++;
        if (strncmp(line, key, len) == 0) return line + len;
    }
    return NULL;
}

/* The number behind "KEY" ("MemTotal:", "inactive_file "), else 0. */
static uint64_t find_number(const char *text, const char *key) {
    const char *value = find_value(text, key);
    return value ? strtoull(value, NULL, 10) : 0;
}

static void read_meminfo(const char *root, struct machine *m) {
    struct buf text;
    read_file(under(root, "/proc/", "meminfo").text, &text);
    m->memory_total_bytes = m->memory_available_bytes = UINT64_MAX;
    if (text.len) {
        m->memory_total_bytes = find_number(text.data, "MemTotal:") * 1024;
        m->memory_available_bytes = find_number(text.data, "MemAvailable:") * 1024;
        if (!m->memory_available_bytes) /* kernels before 3.14 */
            m->memory_available_bytes = find_number(text.data, "MemFree:") * 1024;
    }
    buf_deinit(&text);
}

static void read_cpu_name(const char *root, struct machine *m) {
    struct buf text;
    char *rest, *line;
    read_file(under(root, "/proc/", "cpuinfo").text, &text);
    rest = text.data;
    while ((line = next_line(&rest))) {
        const char *colon = strchr(line, ':');
        if (!colon || strncmp(line, "model name", 10) != 0) continue;
        snprintf(m->cpu_name, sizeof m->cpu_name, "%.*s", (int)sizeof m->cpu_name - 1,
                 colon + 1 + strspn(colon + 1, " "));
        break;
    }
    buf_deinit(&text);
}

/* The lowest CPU of a list such as "0,32" or "4-5" that the mask allows; `cpu` itself is allowed.
 */
static size_t first_sibling(char *list, const cpu_set_t *mask, size_t mask_bytes, size_t cpu) {
    for (char *p = list; *p >= '0' && *p <= '9';) {
        size_t low = strtoul(p, &p, 10), high = low;
        if (*p == '-') high = strtoul(p + 1, &p, 10);
        for (size_t i = low; i <= high && i < cpu; i++)
            if (CPU_ISSET_S(i, mask_bytes, mask)) return i;
        if (*p == ',') p++;
    }
    return cpu;
}

/* A core counts once, at its first thread that we may use. */
static bool is_first_of_core(const char *root, const cpu_set_t *mask, size_t mask_bytes,
                             size_t cpu) {
    char name[96];
    struct buf list;
    snprintf(name, sizeof name, "/sys/devices/system/cpu/cpu%zu/topology/", cpu);
    read_file(under(root, name, "thread_siblings_list").text, &list);
    const bool is_first = !list.len || first_sibling(list.data, mask, mask_bytes, cpu) == cpu;
    buf_deinit(&list);
    return is_first;
}

static void count_cpus(const char *root, const cpu_set_t *mask, size_t mask_bytes,
                       struct machine *m) {
    for (size_t cpu = 0; cpu < mask_bytes * 8; cpu++) {
        if (!CPU_ISSET_S(cpu, mask_bytes, mask)) continue;
        m->n_cpus_allowed++;
        m->n_cores_allowed += is_first_of_core(root, mask, mask_bytes, cpu);
    }
    if (!m->n_cpus_allowed) m->n_cpus_allowed = 1;
    if (!m->n_cores_allowed) m->n_cores_allowed = 1;
}

uint32_t machine_list_cores_linux(const char *root, const cpu_set_t *mask, size_t mask_bytes,
                                  uint32_t *cpus_out, uint32_t n_max) {
    uint32_t n = 0;
    for (size_t cpu = 0; cpu < mask_bytes * 8 && n < n_max; cpu++)
        if (CPU_ISSET_S(cpu, mask_bytes, mask) && is_first_of_core(root, mask, mask_bytes, cpu))
            cpus_out[n++] = (uint32_t)cpu;
    return n;
}

/* Sets the bits of a list such as "0-1,4". */
static void parse_list(const char *list, uint64_t *bits) {
    for (char *p = (char *)(uintptr_t)(list + strspn(list, " \t")); *p >= '0' && *p <= '9';) {
        size_t low = strtoul(p, &p, 10), high = low;
        if (*p == '-') high = strtoul(p + 1, &p, 10);
        for (size_t i = low; i <= high && i < MACHINE_NODES_MAX; i++)
            bits[i / 64] |= (uint64_t)1 << i % 64;
        if (*p == ',') p++;
    }
}

/* Nodes that have memory and that our cpuset allows. Where either cannot be read it does not limit;
 * where both cannot, no node is named. */
static void read_nodes(const char *root, struct machine *m) {
    struct buf text;
    uint64_t allowed[MACHINE_NODES_MAX / 64] = {0};
    read_file(under(root, "/sys/devices/system/node/", "has_memory").text, &text);
    if (text.len) parse_list(text.data, m->nodes);
    buf_deinit(&text);
    read_file(under(root, "/proc/self/", "status").text, &text);
    const char *list = text.len ? find_value(text.data, "Mems_allowed_list:") : NULL;
    if (list) parse_list(list, allowed);
    buf_deinit(&text);
    for (size_t i = 0; i < MACHINE_NODES_MAX / 64; i++) {
        if (list) m->nodes[i] &= allowed[i];
        m->n_nodes += (uint32_t)__builtin_popcountll(m->nodes[i]);
    }
    if (!m->n_nodes) m->n_nodes = 1;
}

/* The word in brackets of "always [madvise] never". */
static bool is_chosen(const char *text, const char *word) {
    const char *bracket = strchr(text, '[');
    const size_t len = strlen(word);
    return bracket && strncmp(bracket + 1, word, len) == 0 && bracket[1 + len] == ']';
}

static enum machine_huge parse_huge(const char *text, enum machine_huge inherited) {
    if (is_chosen(text, "always")) return MACHINE_HUGE_ALWAYS;
    if (is_chosen(text, "madvise")) return MACHINE_HUGE_MADVISE;
    if (is_chosen(text, "never")) return MACHINE_HUGE_NEVER;
    return inherited; /* "inherit", or a word of later kernels */
}

static void read_huge(const char *root, struct machine *m) {
    static const char folder[] = "/sys/kernel/mm/transparent_hugepage/";
    char name[64];
    struct buf text;
    read_file(under(root, folder, "enabled").text, &text);
    if (text.len) m->huge = parse_huge(text.data, MACHINE_HUGE_ABSENT);
    buf_deinit(&text);
    if (m->huge == MACHINE_HUGE_ABSENT) return;
    const uint64_t bytes = read_number(under(root, folder, "hpage_pmd_size").text, 2 << 20);
    /* A size that is no power of two in a sane range is not to be aligned to. */
    m->huge_page_bytes = bytes >= 65536 && bytes <= 1 << 30 && !(bytes & (bytes - 1)) ? bytes : 0;
    snprintf(name, sizeof name, "hugepages-%llukB/enabled", (unsigned long long)bytes / 1024);
    read_file(under(root, folder, name).text, &text);
    if (text.len) m->huge = parse_huge(text.data, m->huge);
    buf_deinit(&text);
}

void machine_read_usage_linux(const char *root, struct machine_usage *usage_out) {
    struct buf text;
    *usage_out = (struct machine_usage){0};
    read_file(under(root, "/proc/self/", "smaps_rollup").text, &text);
    if (text.len)
        *usage_out = (struct machine_usage){find_number(text.data, "Rss:") * 1024,
                                            find_number(text.data, "Anonymous:") * 1024,
                                            find_number(text.data, "AnonHugePages:") * 1024};
    buf_deinit(&text);
}

/* One hierarchy of cgroups: what we are called in it, and where it is mounted. */
struct cgroup_tree {
    bool is_v2;
    const char *controller; /* v1: "memory" or "cpu" */
    char path[PATH_BYTES_MAX];
    char mount[PATH_BYTES_MAX];
};

static bool list_has(const char *list, const char *word) {
    const size_t len = strlen(word);
    for (const char *p = list; *p;) {
        const size_t n = strcspn(p, ",");
        if (n == len && memcmp(p, word, n) == 0) return true;
        p += n + (p[n] == ',');
    }
    return false;
}

/* Our path in the tree, from the lines "ID:CONTROLLERS:PATH" of /proc/self/cgroup. */
static bool find_path(const char *root, struct cgroup_tree *tree) {
    struct buf text;
    char *rest, *line;
    bool is_found = false;
    read_file(under(root, "/proc/self/", "cgroup").text, &text);
    rest = text.data;
    while (!is_found && (line = next_line(&rest))) {
        char *controllers = strchr(line, ':');
        char *path = controllers ? strchr(controllers + 1, ':') : NULL;
        if (!path) continue;
        *controllers++ = '\0';
        *path++ = '\0';
        is_found = tree->is_v2 ? strcmp(line, "0") == 0 && !*controllers
                               : list_has(controllers, tree->controller);
        if (is_found) snprintf(tree->path, sizeof tree->path, "%s", path);
    }
    buf_deinit(&text);
    return is_found && tree->path[0] == '/';
}

/* mountinfo writes spaces and backslashes as \ooo. */
static void unescape(char *s) {
    char *to = s;
    for (; *s; s++) {
        if (s[0] == '\\' && s[1] >= '0' && s[1] <= '3' && s[2] >= '0' && s[2] <= '7' &&
            s[3] >= '0' && s[3] <= '7') {
            *to++ = (char)((s[1] - '0') * 64 + (s[2] - '0') * 8 + (s[3] - '0'));
            s += 3;
        } else {
            *to++ = *s;
        }
    }
    *to = '\0';
}

/* Reads one line of mountinfo: "ID PARENT DEV ROOT MOUNT OPTIONS ... - TYPE SOURCE SUPEROPTIONS".
 */
static bool parse_mount(char *line, const struct cgroup_tree *tree, char **root_out,
                        char **mount_out) {
    char *save = NULL, *word, *fields[5], *separator = strstr(line, " - ");
    int n = 0;
    if (!separator) return false;
    *separator = '\0';
    for (word = strtok_r(line, " ", &save); word && n < 5; word = strtok_r(NULL, " ", &save))
        fields[n++] = word;
    char *type = strtok_r(separator + 3, " ", &save);
    char *source = type ? strtok_r(NULL, " ", &save) : NULL;
    char *options = source ? strtok_r(NULL, " ", &save) : NULL;
    if (n < 5 || !options) return false;
    if (strcmp(type, tree->is_v2 ? "cgroup2" : "cgroup") != 0) return false;
    if (!tree->is_v2 && !list_has(options, tree->controller)) return false;
    *root_out = fields[3];
    *mount_out = fields[4];
    unescape(*root_out);
    unescape(*mount_out);
    return true;
}

/* Finds the mount through which our cgroup is seen, and makes the path relative to it. In a
 * container without a cgroup namespace the path is the host's and ROOT is its front part; where
 * they do not match, only the mount point itself can be looked at. */
static bool find_mount(const char *root, struct cgroup_tree *tree) {
    struct buf text;
    char *rest, *line, *mount_root, *mount;
    bool is_found = false;
    read_file(under(root, "/proc/self/", "mountinfo").text, &text);
    rest = text.data;
    while (!is_found && (line = next_line(&rest))) {
        if (!parse_mount(line, tree, &mount_root, &mount)) continue;
        is_found = true;
        const size_t len = strcmp(mount_root, "/") == 0 ? 0 : strlen(mount_root);
        const bool is_below = strncmp(tree->path, mount_root, len) == 0 &&
                              (tree->path[len] == '/' || !tree->path[len]) &&
                              !strstr(tree->path, "/..");
        if (is_below)
            memmove(tree->path, tree->path + len, strlen(tree->path + len) + 1);
        else
            tree->path[0] = '\0';
        snprintf(tree->mount, sizeof tree->mount, "%s", mount);
    }
    buf_deinit(&text);
    return is_found;
}

/* One level's memory: `folder` ends in '/'. File cache is reclaimable, so it counts as available. A
 * wide limit counts too: our neighbours below it may have used it up. */
static void apply_memory(const char *root, const char *folder, bool is_v2, struct machine *m) {
    uint64_t limit = UINT64_MAX, used, cache;
    struct buf stat;
    if (is_v2) {
        set_least(&limit, read_number(under(root, folder, "memory.max").text, UINT64_MAX));
        set_least(&limit, read_number(under(root, folder, "memory.high").text, UINT64_MAX));
    } else {
        limit = read_number(under(root, folder, "memory.limit_in_bytes").text, UINT64_MAX);
    }
    if (limit == UINT64_MAX) return;
    used = read_number(under(root, folder, is_v2 ? "memory.current" : "memory.usage_in_bytes").text,
                       0);
    read_file(under(root, folder, "memory.stat").text, &stat);
    cache = !stat.len ? 0
            : is_v2
                ? find_number(stat.data, "inactive_file ") + find_number(stat.data, "active_file ")
                : find_number(stat.data, "total_inactive_file ") +
                      find_number(stat.data, "total_active_file ");
    buf_deinit(&stat);
    used = used > cache ? used - cache : 0;
    set_least(&m->memory_total_bytes, limit);
    set_least(&m->memory_available_bytes, limit > used ? limit - used : 0);
}

static void apply_quota(const char *root, const char *folder, bool is_v2, struct machine *m) {
    double quota = 0, period = 0;
    if (is_v2) {
        struct buf text;
        read_file(under(root, folder, "cpu.max").text, &text);
        if (!text.len || sscanf(text.data, "%lf %lf", &quota, &period) != 2) quota = 0;
        buf_deinit(&text);
    } else {
        quota = (double)read_number(under(root, folder, "cpu.cfs_quota_us").text, 0);
        period = (double)read_number(under(root, folder, "cpu.cfs_period_us").text, 0);
    }
    /* "max", -1, or absent */
    if (!(quota > 0) || !(period > 0) || !isfinite(quota) || !isfinite(period)) return;
    if (m->cpu_quota <= 0 || quota / period < m->cpu_quota) m->cpu_quota = quota / period;
}

/* Applies the limits of our cgroup and of all its parents that can be seen. */
static void apply_tree(const char *root, bool is_v2, const char *controller, struct machine *m) {
    struct cgroup_tree *tree = calloc(1, sizeof *tree);
    if (!tree) return;
    tree->is_v2 = is_v2;
    tree->controller = controller;
    bool is_more = find_path(root, tree) && find_mount(root, tree);
    while (is_more) {
        const struct path folder = under(tree->mount, tree->path, "/");
        if (is_v2 || strcmp(controller, "memory") == 0) apply_memory(root, folder.text, is_v2, m);
        if (is_v2 || strcmp(controller, "cpu") == 0) apply_quota(root, folder.text, is_v2, m);
        char *slash = strrchr(tree->path, '/');
        is_more = slash != NULL;
        if (slash) *slash = '\0';
    }
    free(tree);
}

void machine_read_linux(const char *root, const cpu_set_t *mask, size_t mask_bytes,
                        struct machine *machine_out) {
    *machine_out = (struct machine){0};
    count_cpus(root, mask, mask_bytes, machine_out);
    read_meminfo(root, machine_out);
    read_cpu_name(root, machine_out);
    read_nodes(root, machine_out);
    read_huge(root, machine_out);
    apply_tree(root, /*is_v2=*/true, "", machine_out);
    apply_tree(root, /*is_v2=*/false, "memory", machine_out);
    apply_tree(root, /*is_v2=*/false, "cpu", machine_out);
    set_least(&machine_out->memory_available_bytes, machine_out->memory_total_bytes);
    if (machine_out->memory_total_bytes == UINT64_MAX) machine_out->memory_total_bytes = 0;
    if (machine_out->memory_available_bytes == UINT64_MAX) machine_out->memory_available_bytes = 0;
}

/* Our affinity mask, *bytes_out long; caller frees with CPU_FREE(). It grows until the kernel
 * accepts it: machines with more than 1,024 CPUs exist. NULL where it cannot be read. */
static cpu_set_t *read_mask(size_t *bytes_out) {
    for (size_t n = 1024; n <= 1 << 16; n *= 2) {
        cpu_set_t *mask = CPU_ALLOC(n);
        *bytes_out = CPU_ALLOC_SIZE(n);
        if (mask && sched_getaffinity(0, *bytes_out, mask) == 0) return mask;
        if (mask) CPU_FREE(mask);
    }
    return NULL;
}

static void read_linux(struct machine *m) {
    size_t bytes;
    cpu_set_t *mask = read_mask(&bytes), one;
    CPU_ZERO(&one);
    CPU_SET(0, &one);
    machine_read_linux("", mask ? mask : &one, mask ? bytes : sizeof one, m);
    if (prctl(PR_GET_THP_DISABLE, 0, 0, 0, 0) == 1) m->huge = MACHINE_HUGE_NEVER;
    if (mask) CPU_FREE(mask);
}

uint32_t machine_list_cores(uint32_t *cpus_out, uint32_t n_max) {
    size_t bytes;
    cpu_set_t *mask = read_mask(&bytes);
    if (!mask) return 0;
    const uint32_t n = machine_list_cores_linux("", mask, bytes, cpus_out, n_max);
    CPU_FREE(mask);
    return n;
}

void machine_read_usage(struct machine_usage *usage_out) {
    machine_read_usage_linux("", usage_out);
}

#elif defined(__APPLE__)

static uint64_t read_sysctl(const char *name) {
    uint64_t value = 0;
    size_t bytes = sizeof value;
    return sysctlbyname(name, &value, &bytes, NULL, 0) == 0 ? value : 0;
}

/* macOS has no affinity masks and no cgroups. What may be used: free, inactive, purgeable and
 * speculative pages, all of which it gives back on demand. Performance cores count as cores. */
static void read_apple(struct machine *m) {
    vm_statistics64_data_t vm;
    mach_msg_type_number_t count = HOST_VM_INFO64_COUNT;
    size_t name_bytes = sizeof m->cpu_name;
    m->n_cpus_allowed = (uint32_t)read_sysctl("hw.logicalcpu");
    m->n_cores_allowed = (uint32_t)read_sysctl("hw.perflevel0.physicalcpu");
    if (!m->n_cores_allowed) m->n_cores_allowed = (uint32_t)read_sysctl("hw.physicalcpu");
    if (!m->n_cpus_allowed) m->n_cpus_allowed = 1;
    if (!m->n_cores_allowed) m->n_cores_allowed = 1;
    m->memory_total_bytes = read_sysctl("hw.memsize");
    m->l2_bytes = read_sysctl("hw.l2cachesize");
    m->memory_available_bytes = m->memory_total_bytes / 2;
    if (host_statistics64(mach_host_self(), HOST_VM_INFO64, (host_info64_t)&vm, &count) ==
        KERN_SUCCESS)
        m->memory_available_bytes =
            ((uint64_t)vm.free_count + vm.inactive_count + vm.purgeable_count) *
            (uint64_t)vm_kernel_page_size;
    set_least(&m->memory_available_bytes, m->memory_total_bytes);
    if (sysctlbyname("machdep.cpu.brand_string", m->cpu_name, &name_bytes, NULL, 0) != 0)
        m->cpu_name[0] = '\0';
}

#endif

#if !defined(__linux__)
uint32_t machine_list_cores(uint32_t *cpus_out, uint32_t n_max) {
    (void)cpus_out, (void)n_max;
    return 0;
}

void machine_read_usage(struct machine_usage *usage_out) {
    *usage_out = (struct machine_usage){0};
}
#endif

const char *machine_huge_name(enum machine_huge huge) {
    static const char *const names[] = {"absent", "never", "madvise", "always"};
    return names[huge];
}

void machine_read(struct machine *machine_out) {
    *machine_out = (struct machine){.n_cpus_allowed = 1, .n_cores_allowed = 1, .n_nodes = 1};
#if defined(__linux__)
    read_linux(machine_out);
#elif defined(__APPLE__)
    read_apple(machine_out);
#endif
    const long online = sysconf(_SC_NPROCESSORS_ONLN);
    machine_out->n_cpus_online = online > 0 ? (uint32_t)online : machine_out->n_cpus_allowed;
#if defined(_SC_LEVEL2_CACHE_SIZE)
    const long l2_bytes = sysconf(_SC_LEVEL2_CACHE_SIZE);
    if (l2_bytes > 0) machine_out->l2_bytes = (uint64_t)l2_bytes;
#endif
}

uint32_t machine_threads_default(const struct machine *machine) {
    uint32_t n = machine->n_cpus_online <= 2 ? machine->n_cpus_allowed : machine->n_cores_allowed;
    if (machine->cpu_quota > 0) {
        const double whole = machine->cpu_quota > 4096 ? 4096 : machine->cpu_quota;
        const uint32_t quota = (uint32_t)whole + (whole > (double)(uint32_t)whole);
        if (quota < n) n = quota;
    }
    return n ? n : 1;
}
