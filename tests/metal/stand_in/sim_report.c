/* sim_report.c - the stand-in's settings, what it has found wrong, and the exit status for it.
 *
 * Faults and hazards are printed when they are found, with the text that says what Metal would have
 * done, and counted; tests ask for them by parts of the text. At the end of the process any of them
 * makes the exit status 86, whatever the program thought of its run: a test that passes while the
 * host misuses Metal is the case that matters. */
#include "sim_int.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { TEXTS_KEPT = 32, TEXT_BYTES = 320 };

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static unsigned n_faults, n_hazards;
static char texts[TEXTS_KEPT][TEXT_BYTES];
static struct sim_settings settings;
static pthread_once_t once = PTHREAD_ONCE_INIT;
struct sim_counters sim_counters;

static uint64_t number_of(const char *name, uint64_t otherwise) {
    const char *text = getenv(name);
    return text && *text ? strtoull(text, NULL, 0) : otherwise;
}

static bool is_listed(const char *list, const char *word) {
    const size_t n = strlen(word);
    for (const char *at = list; at && *at;) {
        const size_t length = strcspn(at, ",");
        if (length == n && !memcmp(at, word, n)) return true;
        at += length + (at[length] == ',');
    }
    return false;
}

static void read_settings(void) {
    const char *without = getenv("MTL_SIM_WITHOUT"), *fail = getenv("MTL_SIM_FAIL");
    const char *order = getenv("MTL_SIM_ORDER"), *at_exit = getenv("MTL_SIM_EXIT");
    settings = (struct sim_settings){
        .delay_us = number_of("MTL_SIM_DELAY_US", 0),
        .jitter = number_of("MTL_SIM_JITTER", 0),
        .is_forward = order && !strcmp(order, "forward"),
        .fails_compile = number_of("MTL_SIM_COMPILE_FAIL", 0) != 0,
        .ignores_exit = at_exit && !strcmp(at_exit, "ignore"),
        .alloc_fail_at = number_of("MTL_SIM_ALLOC_FAIL", 0),
        .begin_fail_at = number_of("MTL_SIM_BEGIN_FAIL", 0),
        .buffer_max = number_of("MTL_SIM_BUFFER_MAX", (uint64_t)768 << 20),
        .working_set = number_of("MTL_SIM_WORKING_SET", (uint64_t)1 << 30),
        .threads_max = number_of("MTL_SIM_THREADS_MAX", MSL_THREADS_MAX),
        .simd_width = number_of("MTL_SIM_SIMD_WIDTH", 32),
        .lacks_device = is_listed(without, "device"),
        .lacks_queue = is_listed(without, "queue"),
        .lacks_residency = is_listed(without, "residency"),
        .lacks_math_mode = is_listed(without, "mathmode"),
        .lacks_apple7 = is_listed(without, "apple7"),
        .lacks_metal3 = is_listed(without, "metal3"),
        .fail_code = 2,
        .fail_times = 1,
    };
    if (fail) {
        char *end = NULL;
        settings.fail_at = strtoull(fail, &end, 10);
        if (*end == ':') settings.fail_code = strtoull(end + 1, &end, 10);
        if (*end == ':') settings.fail_times = strtoull(end + 1, &end, 10);
    }
}

static void report(const char *word, unsigned n) {
    if (n) fprintf(stderr, "metal stand-in: %u %s in this process\n", n, word);
}

static void judge_exit(void) {
    const long alive = stand_in_objects_alive();
    if (settings.ignores_exit || (!n_faults && !n_hazards && !alive)) return;
    report("faults", n_faults);
    report("hazards", n_hazards);
    report("objects never released", (unsigned)(alive > 0 ? alive : 0));
    fflush(NULL);
    _exit(STAND_IN_EXIT_STATUS);
}

static void start(void) {
    read_settings();
    atexit(judge_exit);
}

const struct sim_settings *sim_settings(void) {
    pthread_once(&once, start);
    return &settings;
}

static void say(const char *word, const char *fmt, va_list args, char *text_out) {
    vsnprintf(text_out, TEXT_BYTES, fmt, args);
    fprintf(stderr, "metal stand-in: %s: %s\n", word, text_out);
}

void sim_fault(const char *fmt, ...) {
    char text[TEXT_BYTES];
    va_list args;
    sim_settings();
    pthread_mutex_lock(&lock);
    const unsigned n = n_faults++;
    pthread_mutex_unlock(&lock);
    if (n >= TEXTS_KEPT) return; /* one mistake is made in every step */
    va_start(args, fmt);
    say("fault", fmt, args, text);
    va_end(args);
    pthread_mutex_lock(&lock);
    memcpy(texts[n], text, sizeof text);
    pthread_mutex_unlock(&lock);
}

void sim_hazard(const char *fmt, ...) {
    char text[TEXT_BYTES];
    va_list args;
    pthread_mutex_lock(&lock);
    const unsigned n = n_hazards++;
    pthread_mutex_unlock(&lock);
    if (n >= TEXTS_KEPT) return; /* one missing barrier makes thousands */
    va_start(args, fmt);
    say("hazard", fmt, args, text);
    va_end(args);
}

unsigned stand_in_faults(void) {
    pthread_mutex_lock(&lock);
    const unsigned n = n_faults;
    pthread_mutex_unlock(&lock);
    return n;
}

const char *stand_in_fault(unsigned i) {
    return i < stand_in_faults() && i < TEXTS_KEPT ? texts[i] : "";
}

bool stand_in_has_fault(const char *part_of_text) {
    for (unsigned i = 0; i < stand_in_faults() && i < TEXTS_KEPT; i++)
        if (strstr(texts[i], part_of_text)) return true;
    return false;
}

unsigned stand_in_hazards(void) {
    pthread_mutex_lock(&lock);
    const unsigned n = n_hazards;
    pthread_mutex_unlock(&lock);
    return n;
}

void stand_in_counts(struct stand_in_counts *out) {
    *out = (struct stand_in_counts){
        .commands = sim_counters.commands,
        .dispatches = sim_counters.dispatches,
        .barriers = sim_counters.barriers,
        .buffers = sim_counters.buffers,
        .libraries_data = sim_counters.data,
        .libraries_source = sim_counters.source,
        .resident_bytes = sim_counters.resident,
        .residency_requests = sim_counters.requests,
        .is_traced = sim_trace_is_on(),
    };
}

void stand_in_reset(void) {
    sim_settings();
    pthread_mutex_lock(&lock);
    n_faults = n_hazards = 0;
    read_settings();
    pthread_mutex_unlock(&lock);
    sim_counters.commands = sim_counters.begun = sim_counters.dispatches = 0;
    sim_counters.barriers = sim_counters.buffers = sim_counters.data = sim_counters.source = 0;
    sim_counters.requests = 0;
    msl_faults_reset();
}
