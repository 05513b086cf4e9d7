/* name_index.h - finds things by name: a sorted array, built once, searched by halving.
 *
 * Owns: its array; the names stay the caller's and must outlive it. Threads: immutable after
 * name_index_build(). */
#ifndef FORMAT_NAME_INDEX_H
#define FORMAT_NAME_INDEX_H

#include "radish.h"

struct name_entry {
    const char *name;
    size_t idx; /* the caller's */
};

struct name_index {
    struct name_entry *entries; /* [n] sorted by name after build */
    size_t n;
};

#define NAME_INDEX_NONE SIZE_MAX

/* Room for n entries, which the caller fills. False: out of memory. */
bool name_index_init(struct name_index *index, size_t n);
void name_index_deinit(struct name_index *index);

/* Sorts. Returns false when a name occurs twice, with one such entry (the later idx) in *twice_out;
 * may be NULL. */
bool name_index_build(struct name_index *index, struct name_entry *twice_out);

/* The idx of `name`, or NAME_INDEX_NONE. */
size_t name_index_find(const struct name_index *index, const char *name);

#endif
