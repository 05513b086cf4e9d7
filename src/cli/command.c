/* command.c - what the commands share.
 *
 * Every failure ends in one line on stderr and an exit status, in one place, so that scripts can
 * rely on both. The progress bar is drawn only when stderr is a terminal, at most ten times a
 * second, and wiped when loading ends: logs of services stay free of it.
 *
 * stdin is read whole for one text and line by line for --jsonl; there each answer is flushed, so
 * that another program can hold a tokenizer open through a pair of pipes. */
#include "command.h"

#include "base/clock.h"
#include "base/file_map.h"

#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { STDIN_BYTES_MAX = 1 << 30 };

int command_fail(const char *fmt, ...) {
    va_list list;
    va_start(list, fmt);
    fputs("radish: ", stderr);
    vfprintf(stderr, fmt, list);
    va_end(list);
    fputc('\n', stderr);
    return EXIT_FAILED;
}

int command_fail_error(const char *about, const struct radish_error *err) {
    const char *msg = err->msg[0] ? err->msg : radish_status_sentence(err->status);
    bool names_it = *about && strstr(msg, about);
    command_fail("%s%s%s", names_it ? "" : about, *about && !names_it ? ": " : "", msg);
    return EXIT_FAILED;
}

int command_fail_open(const char *about, const struct radish_error *err) {
    const bool is_flag = !strncmp(err->field, "--", 2);
    command_fail_error(is_flag ? err->field : about, err);
    const bool is_usage = err->status == RADISH_E_INVALID || !strcmp(err->field, "--kernel");
    return is_usage ? EXIT_USAGE : EXIT_FAILED;
}

int command_open_model(const struct args *args, struct radish_model **model_out) {
    struct radish_error err = {0};
    struct radish_model_options options = {0};
    if (args->chat_template) {
        bool is_path = file_exists(args->chat_template) || strpbrk(args->chat_template, "/.");
        if (is_path)
            options.chat_template_path = args->chat_template;
        else
            options.chat_template_name = args->chat_template;
    }
    if (args->template_path) options.chat_template_path = args->template_path;
    if (radish_model_open(args->model, &options, model_out, &err) == RADISH_OK) return -1;
    return command_fail_error(args->model, &err);
}

/* ---- loading ---- */

struct progress {
    uint64_t shown_ns;
    bool shown;
};

static void draw_progress(void *user, uint64_t done, uint64_t total) {
    enum { BAR = 30 };
    struct progress *progress = user;
    uint64_t now = clock_ns();
    if (!total || (done < total && now - progress->shown_ns < 100000000)) return;
    if (done > total) done = total;
    char bar[BAR + 1];
    int full = (int)((double)done / (double)total * BAR);
    memset(bar, '.', BAR);
    memset(bar, '#', (size_t)full);
    bar[BAR] = '\0';
    fprintf(stderr, "\rloading [%s] %3.0f %% of %.0f MB ", bar,
            100.0 * (double)done / (double)total, (double)total / 1e6);
    progress->shown_ns = now;
    progress->shown = true;
}

void command_show_misses(const struct args *args) {
    if (args->engine.explains_misses && args->log_level == RADISH_LOG_WARN)
        radish_log_set_level(RADISH_LOG_INFO);
}

int command_open_engine(struct args *args, struct radish_model *model,
                        struct radish_engine **engine_out) {
    struct radish_error err = {0};
    struct progress progress = {0};
    if (isatty(STDERR_FILENO)) {
        args->engine.on_progress = draw_progress;
        args->engine.progress_user = &progress;
    }
    enum radish_status status = radish_engine_open(model, &args->engine, engine_out, &err);
    if (progress.shown) fprintf(stderr, "\r%70s\r", "");
    args->engine.on_progress = NULL;
    args->engine.progress_user = NULL;
    if (status == RADISH_OK) return -1;
    return command_fail_open(args->model, &err);
}

/* ---- stdin and stdout ---- */

int command_read_stdin(struct buf *text_out) {
    char piece[65536];
    buf_init(text_out, STDIN_BYTES_MAX);
    if (isatty(STDIN_FILENO)) fputs("(reading from the terminal; end with Ctrl-D)\n", stderr);
    for (;;) {
        ssize_t got = read(STDIN_FILENO, piece, sizeof piece);
        if (got < 0 && errno == EINTR) continue;
        if (got < 0) {
            buf_deinit(text_out);
            return command_fail("cannot read stdin: %s", strerror(errno));
        }
        if (got == 0) break;
        buf_append(text_out, piece, (size_t)got);
    }
    buf_append(text_out, "", 0);
    if (!text_out->failed && buf_reserve(text_out, 1)) return -1;
    buf_deinit(text_out);
    return command_fail("stdin holds more than %d MiB, or memory is exhausted",
                        STDIN_BYTES_MAX >> 20);
}

int command_each_line(int (*one)(void *user, size_t line, const char *text, size_t len),
                      void *user) {
    char *text = NULL;
    size_t capacity = 0, line = 0;
    ssize_t got;
    int rc = -1;
    while (rc < 0 && (got = getline(&text, &capacity, stdin)) >= 0) {
        size_t len = (size_t)got;
        line++;
        if (len && text[len - 1] == '\n') len--;
        if (strspn(text, " \t\r\n") < (size_t)got) rc = one(user, line, text, len);
    }
    if (rc < 0 && ferror(stdin)) rc = command_fail("cannot read stdin: %s", strerror(errno));
    free(text);
    return rc;
}

int command_write(const char *bytes, size_t n) {
    if (fwrite(bytes, 1, n, stdout) == n && fflush(stdout) == 0) return -1;
    return command_fail("cannot write to stdout: %s", strerror(errno));
}
