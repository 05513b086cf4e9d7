/* pull_progress.c - one line that tells how far a download is, how fast, and how long it will take.
 *
 * On a terminal the line is drawn over itself; a name that would not fit is cut at its front, since
 * the ends of model files differ. In a log, where a line cannot be taken back, it appears once per
 * file and then every ten seconds, so that a night's download leaves a readable page and a stalled
 * one is noticed. Sizes are decimal, as the hub shows them and as disks are sold. */
#include "pull_progress.h"

#include "base/clock.h"

#include <stdio.h>
#include <string.h>
#include <sys/ioctl.h>
#include <unistd.h>

#define REDRAW_NS 100000000u
#define RETELL_NS 10000000000u

enum { COLUMNS_MAX = 200, COLUMNS_MIN = 60 };

void pull_size_text(uint64_t bytes, char *text, size_t size) {
    static const struct {
        double unit;
        const char *name;
    } units[] = {{1e12, "TB"}, {1e9, "GB"}, {1e6, "MB"}, {1e3, "kB"}};
    for (size_t i = 0; i < sizeof units / sizeof *units; i++)
        if ((double)bytes >= units[i].unit) {
            snprintf(text, size, "%.2f %s", (double)bytes / units[i].unit, units[i].name);
            return;
        }
    snprintf(text, size, "%u bytes", (unsigned)bytes);
}

void pull_time_text(double seconds, char *text, size_t size) {
    const unsigned long s = seconds < 1e7 ? (unsigned long)(seconds + 0.5) : 10000000;
    if (s < 60)
        snprintf(text, size, "%lu s", s);
    else if (s < 3600)
        snprintf(text, size, "%lu min %lu s", s / 60, s % 60);
    else
        snprintf(text, size, "%lu h %lu min", s / 3600, s % 3600 / 60);
}

void pull_progress_init(struct pull_progress *progress) {
    *progress = (struct pull_progress){.is_terminal = isatty(STDERR_FILENO)};
}

static int terminal_columns(void) {
    struct winsize size = {0};
    int columns = 80;
    if (ioctl(STDERR_FILENO, TIOCGWINSZ, &size) == 0 && size.ws_col) columns = size.ws_col;
    if (columns < COLUMNS_MIN) columns = COLUMNS_MIN;
    return columns < COLUMNS_MAX ? columns : COLUMNS_MAX;
}

/* "42 %  1.20 GB of 2.86 GB  35.1 MB/s  47 s left" */
static void format_figures(const struct hub_progress *now, char *text, size_t size) {
    char done[32], total[32], rate[32], left[32] = "";
    const uint64_t missing = now->bytes_total > now->bytes ? now->bytes_total - now->bytes : 0;
    pull_size_text(now->bytes, done, sizeof done);
    pull_size_text(now->bytes_total, total, sizeof total);
    int n = snprintf(text, size, "%3.0f %%  %s of %s",
                     now->bytes_total ? 100.0 * (double)now->bytes / (double)now->bytes_total : 100,
                     done, total);
    if (now->bytes_per_second < 1 || n < 0 || (size_t)n >= size) return;
    pull_size_text((uint64_t)now->bytes_per_second, rate, sizeof rate);
    pull_time_text((double)missing / now->bytes_per_second, left, sizeof left);
    snprintf(text + n, size - (size_t)n, "  %s/s  %s left", rate, left);
}

static void draw(struct pull_progress *progress, const struct hub_progress *now) {
    char figures[160];
    format_figures(now, figures, sizeof figures);
    const int room = terminal_columns() - (int)strlen(figures) - 12;
    const char *path = now->path ? now->path : "";
    const int len = (int)strlen(path), skip = len > room && room > 0 ? len - room : 0;
    fprintf(stderr, "\r\033[K[%zu/%zu] %s  %s", now->file_idx + 1, now->n_files,
            room > 0 ? path + skip : "", figures);
    fflush(stderr);
    progress->is_drawn = true;
}

void pull_progress_show(struct pull_progress *progress, const struct hub_progress *now) {
    const uint64_t ns = clock_ns();
    const bool is_new = now->file_idx >= progress->files_told;
    const uint64_t pause = progress->is_terminal ? REDRAW_NS : RETELL_NS;
    if (!is_new && ns - progress->shown_ns < pause) return;
    progress->files_told = now->file_idx + 1;
    progress->shown_ns = ns;
    if (progress->is_terminal) {
        draw(progress, now);
        return;
    }
    char figures[160];
    format_figures(now, figures, sizeof figures);
    fprintf(stderr, "[%zu/%zu] %s  %s\n", now->file_idx + 1, now->n_files, now->path, figures);
}

void pull_progress_clear(struct pull_progress *progress) {
    if (progress->is_drawn) fputs("\r\033[K", stderr);
    progress->is_drawn = false;
}
