/* gguf_split.h - a GGUF model that is spread over files: NAME-00001-of-00003.gguf and so on.
 * Threads: any. */
#ifndef FORMAT_GGUF_SPLIT_H
#define FORMAT_GGUF_SPLIT_H

#include "gguf.h"

/* Opens path and, where it is the first part of a split model, the others beside it. parts_out[0 ..
 * *n_out): caller closes each and frees the array with free(). E_INVALID, with the name to give
 * instead, for a part that is not the first; E_NOT_FOUND and E_FORMAT name the part at fault. */
enum radish_status gguf_split_open(const char *path, struct gguf ***parts_out, size_t *n_out,
                                   struct radish_error *err) RADISH_CHECK_RESULT;
void gguf_split_close(struct gguf **parts, size_t n);

/* Whether a file's name says that it is a part other than the first. */
bool gguf_split_is_later_part(const char *path);

#endif
