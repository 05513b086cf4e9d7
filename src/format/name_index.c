/* name_index.c - a sorted array instead of a hash table.
 *
 * Names come from files that strangers wrote. A hash table needs a keyed hash, or a hostile file
 * makes it quadratic; sorting costs n log n comparisons whatever the names are, finds duplicates as
 * neighbours, and gives the order in which tensors are listed. Look-ups happen a few thousand times
 * per load, so that log n comparisons each cost nothing that can be measured. */
#include "name_index.h"

#include "base/mem.h"

#include <stdlib.h>
#include <string.h>

bool name_index_init(struct name_index *index, size_t n) {
    *index = (struct name_index){.entries = mem_zalloc(n, sizeof(struct name_entry)), .n = n};
    if (!index->entries) index->n = 0;
    return index->entries != NULL;
}

void name_index_deinit(struct name_index *index) {
    if (!index) return;
    free(index->entries);
    *index = (struct name_index){0};
}

/* By name, equal names by idx, so that the result does not depend on the sorting algorithm. */
static int compare_entries(const void *a_void, const void *b_void) {
    const struct name_entry *a = a_void, *b = b_void;
    const int order = strcmp(a->name, b->name);
    if (order) return order;
    return (a->idx > b->idx) - (a->idx < b->idx);
}

bool name_index_build(struct name_index *index, struct name_entry *twice_out) {
    qsort(index->entries, index->n, sizeof *index->entries, compare_entries);
    for (size_t i = 1; i < index->n; i++) {
        if (strcmp(index->entries[i - 1].name, index->entries[i].name) != 0) continue;
        if (twice_out) *twice_out = index->entries[i];
        return false;
    }
    return true;
}

size_t name_index_find(const struct name_index *index, const char *name) {
    size_t low = 0, high = index->n;
    while (low < high) {
        const size_t middle = low + (high - low) / 2;
        const int order = strcmp(index->entries[middle].name, name);
        if (order == 0) return index->entries[middle].idx;
        if (order < 0)
            low = middle + 1;
        else
            high = middle;
    }
    return NAME_INDEX_NONE;
}
