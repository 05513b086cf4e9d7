/* log.h - lines for the operator, on stderr: "[2026-11-29 14:50:03] WARN engine: text". Below the
 * level: dropped, not formatted. Threads: any; a line is written with one write(2), so lines never
 * mix, and never waits for who reads them: what does not fit is dropped, and counted in the first
 * line that fits again. Level: radish_log_set_level(). */
#ifndef BASE_LOG_H
#define BASE_LOG_H

#include "radish.h"

#include <stddef.h>

void log_line(enum radish_log_level level, const char *module, const char *fmt, ...)
    RADISH_PRINTF(3, 4);
bool log_has_level(enum radish_log_level level);

#define log_debug(module, ...)                                                                     \
    (log_has_level(RADISH_LOG_DEBUG) ? log_line(RADISH_LOG_DEBUG, module, __VA_ARGS__) : (void)0)
#define log_info(module, ...)                                                                      \
    (log_has_level(RADISH_LOG_INFO) ? log_line(RADISH_LOG_INFO, module, __VA_ARGS__) : (void)0)
#define log_warn(module, ...)                                                                      \
    (log_has_level(RADISH_LOG_WARN) ? log_line(RADISH_LOG_WARN, module, __VA_ARGS__) : (void)0)
#define log_error(module, ...)                                                                     \
    (log_has_level(RADISH_LOG_ERROR) ? log_line(RADISH_LOG_ERROR, module, __VA_ARGS__) : (void)0)

/* For lines that tools parse (sglang's "Prefill batch, ..."): no level word, no module. */
void log_plain(enum radish_log_level level, const char *fmt, ...) RADISH_PRINTF(2, 3);

/* A line as it is, with its '\n', of less than a page. False: dropped, nobody reads. */
bool log_write(const char *line, size_t n);

#endif
