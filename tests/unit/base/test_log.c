/* test_log.c - log lines: their form, their level, and that what they quote cannot forge another;
 * broken invariants end the process. */
#include "test.h"

#include "base/invariant.h"
#include "base/log.h"

#include <fcntl.h>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

static int reader; /* of the pipe, while capture() runs */

/* Runs fn with stderr into a pipe; returns what came out (up to the buffer's size). */
static void capture(void (*fn)(void), char *text, size_t bytes) {
    int fds[2];
    size_t n = 0;
    assert_int_equal(pipe(fds), 0);
    const int saved = dup(STDERR_FILENO);
    dup2(fds[1], STDERR_FILENO);
    close(fds[1]);
    reader = fds[0];
    fn();
    dup2(saved, STDERR_FILENO);
    close(saved);
    for (ssize_t got; n + 1 < bytes && (got = read(fds[0], text + n, bytes - 1 - n)) > 0;)
        n += (size_t)got;
    text[n] = '\0';
    close(fds[0]);
}

static void log_some(void) {
    log_debug("engine", "not %s", "shown");
    log_info("engine", "not shown");
    log_warn("engine", "tokens: %d", 5);
    log_error("server", "last");
}

static void log_forged(void) {
    log_warn("server", "prompt \n[2026-01-01 00:00:00] ERROR fake: \x1b[31m\x7f");
}

static void log_long(void) {
    char text[5000];
    memset(text, 'y', sizeof text);
    text[sizeof text - 1] = '\0';
    log_warn("server", "%s", text);
}

static void log_like_sglang(void) {
    log_plain(RADISH_LOG_ERROR, "Prefill batch, #new-seq: %d", 1);
}

static void test_lines_have_time_level_and_module(void **state) {
    (void)state;
    char text[1000];
    int year, month, day, hour, minute, second, n = 0;

    capture(log_some, text, sizeof text);

    assert_null(strstr(text, "not shown"));
    assert_int_equal(sscanf(text, "[%4d-%2d-%2d %2d:%2d:%2d] %n", &year, &month, &day, &hour,
                            &minute, &second, &n),
                     6);
    assert_memory_equal(text + n, "WARN engine: tokens: 5\n", 23);
    assert_non_null(strstr(text, "ERROR server: last\n"));
}

static void test_the_level_decides_what_is_written(void **state) {
    (void)state;
    char text[1000];

    radish_log_set_level(RADISH_LOG_ERROR);
    capture(log_some, text, sizeof text);
    assert_null(strstr(text, "WARN"));
    assert_non_null(strstr(text, "ERROR"));
    radish_log_set_level(RADISH_LOG_OFF);
    capture(log_some, text, sizeof text);
    assert_string_equal(text, "");
    radish_log_set_level(RADISH_LOG_DEBUG);
    capture(log_some, text, sizeof text);
    assert_non_null(strstr(text, "DEBUG engine: not shown\n"));
    radish_log_set_level(RADISH_LOG_WARN);
}

static void test_quoted_text_cannot_forge_a_line(void **state) {
    (void)state;
    char text[1000];

    capture(log_forged, text, sizeof text);

    assert_ptr_equal(strchr(text, '\n'), text + strlen(text) - 1);
    assert_non_null(strstr(text, "prompt ?[2026-01-01 00:00:00] ERROR fake: ?[31m?\n"));
}

static void test_a_long_line_is_cut_with_dots(void **state) {
    (void)state;
    char text[8000];

    capture(log_long, text, sizeof text);

    assert_in_range(strlen(text), 2000, 2048);
    assert_string_equal(text + strlen(text) - 4, "...\n");
}

static void test_plain_lines_have_neither_level_nor_module(void **state) {
    (void)state;
    char text[1000];

    capture(log_like_sglang, text, sizeof text);

    assert_non_null(strstr(text, "] Prefill batch, #new-seq: 1\n"));
    assert_null(strstr(text, "ERROR"));
}

/* Into a full pipe; alarm() ends a process that waits for its reader. */
static void log_into_a_full_pipe(void) {
    char some[4096];
    const int flags = fcntl(STDERR_FILENO, F_GETFL);
    alarm(30);
    memset(some, 'x', sizeof some);
    fcntl(STDERR_FILENO, F_SETFL, flags | O_NONBLOCK);
    while (write(STDERR_FILENO, some, sizeof some) > 0) continue;
    fcntl(STDERR_FILENO, F_SETFL, flags);
    log_warn("server", "lost");
    log_warn("server", "lost, too");
    for (int i = 0; i < 2; i++)
        if (read(reader, some, sizeof some) <= 0) _exit(1);
    log_warn("server", "seen");
    alarm(0);
}

static void test_a_line_never_waits_for_who_reads_it(void **state) {
    (void)state;
    static char text[1 << 20];

    capture(log_into_a_full_pipe, text, sizeof text);

    const char *rest = text + strspn(text, "x");
    assert_memory_equal(rest, "[2 lines of the log are lost: nobody read it]\n", 46);
    assert_non_null(strstr(rest, "WARN server: seen\n"));
    assert_null(strstr(rest, "WARN server: lost"));
}

static void test_a_broken_invariant_ends_the_process(void **state) {
    (void)state;
    const pid_t child = fork();
    int status = 0;
    if (child == 0) {
        if (!freopen("/dev/null", "w", stderr)) _exit(1);
        RADISH_INVARIANT(child == 0, "holds");
        RADISH_INVARIANT(child != 0, "slot %d", 3);
        _exit(0);
    }
    assert_int_equal(waitpid(child, &status, 0), child);
    assert_true(WIFSIGNALED(status));
    assert_int_equal(WTERMSIG(status), SIGABRT);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_lines_have_time_level_and_module),
        cmocka_unit_test(test_the_level_decides_what_is_written),
        cmocka_unit_test(test_quoted_text_cannot_forge_a_line),
        cmocka_unit_test(test_a_long_line_is_cut_with_dots),
        cmocka_unit_test(test_plain_lines_have_neither_level_nor_module),
        cmocka_unit_test(test_a_line_never_waits_for_who_reads_it),
        cmocka_unit_test(test_a_broken_invariant_ends_the_process),
    };
    return cmocka_run_group_tests_name("log", tests, NULL, NULL);
}
