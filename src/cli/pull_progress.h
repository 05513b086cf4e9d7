/* pull_progress.h - how a download is shown on stderr. Threads: main thread only. */
#ifndef CLI_PULL_PROGRESS_H
#define CLI_PULL_PROGRESS_H

#include "hub/hub_pull.h"

struct pull_progress {
    bool is_terminal;
    bool is_drawn; /* the terminal's line shows something */
    uint64_t shown_ns;
    size_t files_told; /* without a terminal: files whose line is written */
};

void pull_progress_init(struct pull_progress *progress);

/* Draws the line anew on a terminal, at most ten times a second; elsewhere a line when a file
 * begins and every 10 seconds. */
void pull_progress_show(struct pull_progress *progress, const struct hub_progress *now);

/* Wipes the terminal's line, so that another may be written. */
void pull_progress_clear(struct pull_progress *progress);

/* "1.24 GB" of bytes, "3 min 20 s" of seconds. */
void pull_size_text(uint64_t bytes, char *text, size_t size);
void pull_time_text(double seconds, char *text, size_t size);

#endif
