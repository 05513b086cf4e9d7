/* path.h - paths as text. Threads: any. */
#ifndef FORMAT_PATH_H
#define FORMAT_PATH_H

#include "radish.h"

/* "folder/name"; NULL when out of memory. Caller frees with free(). */
char *path_join(const char *folder, const char *name);

const char *path_base(const char *path); /* behind the last '/'; borrowed from path */
bool path_has_suffix(const char *path, const char *suffix);

/* Puts the path before the message of an error that is handed up; a long path is cut at its front,
 * so that the message itself stays whole. */
void path_prefix_error(struct radish_error *err, const char *path);

#endif
