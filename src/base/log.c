/* log.c - one line, one write. The line lives on the stack: logging never allocates, so the step
 * path may log. A line longer than the buffer ends in "..."; control characters in what it quotes
 * become '?', so that a request cannot forge a line. */
#include "log.h"

#include <stdarg.h>
#include <stdatomic.h>
#include <stdio.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

enum { LINE_BYTES = 2048 };

static _Atomic int level_min = RADISH_LOG_WARN;

void radish_log_set_level(enum radish_log_level level) {
    atomic_store_explicit(&level_min, (int)level, memory_order_relaxed);
}

bool log_has_level(enum radish_log_level level) {
    return (int)level >= atomic_load_explicit(&level_min, memory_order_relaxed);
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
    for (size_t done = 0; done < end;) {
        ssize_t got = write(STDERR_FILENO, line + done, end - done);
        if (got <= 0) return;
        done += (size_t)got;
    }
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
