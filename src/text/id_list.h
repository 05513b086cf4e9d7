/* id_list.h - a growing list of token ids. Failure sticks, as in buf.h. Threads: one at a time. */
#ifndef TEXT_ID_LIST_H
#define TEXT_ID_LIST_H

#include "radish.h"

struct id_list {
    int32_t *ids; /* [n] */
    size_t n, capacity;
    bool failed;
};

void id_list_grow(struct id_list *list); /* out of line: doubles, or sets failed */

/* Room for `extra` more ids behind ids[n], which the caller may write before it raises n. False:
 * failed is set. */
bool id_list_reserve(struct id_list *list, size_t extra);

static inline void id_list_push(struct id_list *list, int32_t id) {
    if (list->n == list->capacity) id_list_grow(list);
    if (!list->failed) list->ids[list->n++] = id;
}

#endif
