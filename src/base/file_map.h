/* file_map.h - a whole file, mapped read-only. Empty files map to data != NULL, size 0. Others
 * begin at a multiple of FILE_MAP_ALIGN, and what follows the file up to the next one can be read
 * (zeros), on every system: devices that use the file where it lies ask for whole pages of theirs.
 * Threads: one opens and closes; any read. */
#ifndef BASE_FILE_MAP_H
#define BASE_FILE_MAP_H

#include "radish.h"

#define FILE_MAP_ALIGN 16384

struct file_map {
    const uint8_t *data; /* [size] */
    size_t size;
};

/* E_NOT_FOUND, E_IO (also for folders and devices); the message names the path. */
enum radish_status file_map_open(const char *path, struct file_map *map_out,
                                 struct radish_error *err) RADISH_CHECK_RESULT;
void file_map_close(struct file_map *map);

/* Tells the system that [offset, offset + n) will not be read again: its pages may go. Keeps pages
 * only partly inside. */
void file_map_release(const struct file_map *map, size_t offset, size_t n);

/* Reads a small file whole (at most bytes_max, else E_LIMIT); NUL-terminated; caller frees with
 * free(). */
enum radish_status file_read(const char *path, size_t bytes_max, char **data_out, size_t *len_out,
                             struct radish_error *err) RADISH_CHECK_RESULT;

bool file_exists(const char *path);
bool file_is_folder(const char *path);

#endif
