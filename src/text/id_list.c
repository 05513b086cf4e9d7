/* id_list.c - growth by doubling: pushes cost O(1) amortised. A text of n bytes gives at most a few
 * ids per byte, so the list is bounded by the text. */
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
