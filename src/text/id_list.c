/* id_list.c - growth by doubling: a push costs O(1) amortised, and the common one is a store in
 * line (id_list.h). A text of n bytes gives at most a few ids per byte, so the list is bounded by
 * the text, and the text by whoever reads it. A large reservation is taken as it is, not doubled:
 * it is for a long piece, whose ids are made in place and then are fewer. */
#include "id_list.h"

#include "base/mem.h"

#include <stdlib.h>

enum { IDS_FIRST = 64 };

static void set_capacity(struct id_list *list, size_t capacity) {
    size_t bytes;
    int32_t *ids = mem_mul(capacity, sizeof *ids, &bytes) ? realloc(list->ids, bytes) : NULL;
    if (!ids) {
        list->failed = true;
        return;
    }
    list->ids = ids;
    list->capacity = capacity;
}

void id_list_grow(struct id_list *list) {
    size_t capacity;
    if (list->failed) return;
    if (mem_mul(list->capacity ? list->capacity : IDS_FIRST / 2, 2, &capacity))
        set_capacity(list, capacity);
    else
        list->failed = true;
}

bool id_list_reserve(struct id_list *list, size_t extra) {
    size_t needed;
    if (list->failed) return false;
    if (list->capacity - list->n >= extra) return true;
    if (list->capacity >= extra) {
        id_list_grow(list); /* at least doubled, so that small reservations stay O(1) */
        return !list->failed;
    }
    if (mem_add(list->n, extra, &needed))
        set_capacity(list, needed);
    else
        list->failed = true;
    return !list->failed;
}
