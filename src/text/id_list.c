/* id_list.c - growth by doubling: a push costs O(1) amortised, and the common one is a store in
 * line (id_list.h). A text of n bytes gives at most a few ids per byte, so the list is bounded by
 * the text, and the text by whoever reads it. */
#include "id_list.h"

#include "base/mem.h"

#include <stdlib.h>

enum { IDS_FIRST = 64 };

void id_list_grow(struct id_list *list) {
    size_t capacity, bytes;
    int32_t *ids = NULL;
    if (list->failed) return;
    if (mem_mul(list->capacity ? list->capacity : IDS_FIRST / 2, 2, &capacity) &&
        mem_mul(capacity, sizeof *ids, &bytes))
        ids = realloc(list->ids, bytes);
    if (!ids) {
        list->failed = true;
        return;
    }
    list->ids = ids;
    list->capacity = capacity;
}
