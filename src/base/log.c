/* log.c - one line, one write. The line lives on the stack: logging never allocates, so the step
 * path may log. A line longer than the buffer ends in "..."; control characters in what it quotes
 * become '?', so that a request cannot forge a line.
 *
 * Who reads the log may stop reading: a terminal held with Ctrl-S, a collector that hangs. Then a
 * write would wait for as long as that lasts, and all streams with the thread that logs. So a line
 * is written only where poll() says that it fits: a pipe takes one page at least then, which is
 * more than a line. A reader that is merely slow is given READER_MS once; from then on lines are
 * dropped and counted until it reads again, and the count is the first thing that it gets. The lock
 * is there because two lines could both be told of the same room; nobody ever waits long in it.
 * O_NONBLOCK would be simpler, but it belongs to the open file, which others use too: the shell
 * that a terminal is left to. */
#include "log.h"

#include <poll.h>
#include <pthread.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stdio.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

enum { LINE_BYTES = 2048, READER_MS = 200 };

static _Atomic int level_min = RADISH_LOG_WARN;

static struct {
    pthread_mutex_t lock;
    bool is_stuck;             /* nobody reads: lines are dropped */
    unsigned long long n_lost; /* since somebody read */
} reader = {.lock = PTHREAD_MUTEX_INITIALIZER};

void radish_log_set_level(enum radish_log_level level) {
    atomic_store_explicit(&level_min, (int)level, memory_order_relaxed);
}

bool log_has_level(enum radish_log_level level) {
    return (int)level >= atomic_load_explicit(&level_min, memory_order_relaxed);
}

/* With the lock held. An error (no reader any more, a closed descriptor) is as good as room: the
 * write fails at once. */
static bool has_room(void) {
    struct pollfd out = {.fd = STDERR_FILENO, .events = POLLOUT};
    reader.is_stuck = poll(&out, 1, reader.is_stuck ? 0 : READER_MS) == 0;
    return !reader.is_stuck;
}

static void write_bytes(const char *bytes, size_t n) {
    for (size_t done = 0; done < n;) {
        ssize_t got = write(STDERR_FILENO, bytes + done, n - done);
        if (got <= 0) return;
        done += (size_t)got;
    }
}

bool log_write(const char *line, size_t n) {
    char note[80];
    pthread_mutex_lock(&reader.lock);
    bool fits = has_room();
    if (fits && reader.n_lost) {
        int len = snprintf(note, sizeof note, "[%llu lines of the log are lost: nobody read it]\n",
                           reader.n_lost);
        reader.n_lost = 0;
        write_bytes(note, (size_t)len);
        fits = has_room();
    }
    if (fits)
        write_bytes(line, n);
    else
        reader.n_lost++;
    pthread_mutex_unlock(&reader.lock);
    return fits;
}

static void write_line(const char *head, const char *fmt, va_list args) {
    char line[LINE_BYTES];
    struct timespec now;
    struct tm tm;
    clock_gettime(CLOCK_REALTIME, &now);
    localtime_r(&now.tv_sec, &tm);
    size_t n = strftime(line, sizeof line, "[%Y-%m-%d %H:%M:%S] ", &tm);
    int head_bytes = snprintf(line + n, sizeof line - n, "%s", head);
    if (head_bytes > 0) n += (size_t)head_bytes;
    int body_bytes = vsnprintf(line + n, sizeof line - n - 1, fmt, args);
    if (body_bytes < 0) return;
    size_t end = n + (size_t)body_bytes;
    if (end > sizeof line - 2) {
        end = sizeof line - 2;
        memcpy(line + end - 3, "...", 3);
    }
    for (size_t i = n; i < end; i++)
        if ((unsigned char)line[i] < 32 || line[i] == 127) line[i] = '?';
    line[end++] = '\n';
    log_write(line, end);
}

void log_line(enum radish_log_level level, const char *module, const char *fmt, ...) {
    static const char *const words[] = {"DEBUG", "INFO", "WARN", "ERROR", ""};
    if (!log_has_level(level)) return;
    char head[64];
    snprintf(head, sizeof head, "%s %s: ", words[level], module);
    va_list args;
    va_start(args, fmt);
    write_line(head, fmt, args);
    va_end(args);
}

void log_plain(enum radish_log_level level, const char *fmt, ...) {
    if (!log_has_level(level)) return;
    va_list args;
    va_start(args, fmt);
    write_line("", fmt, args);
    va_end(args);
}
