/* once.c - a small set of strings under a lock. It is asked only when a request holds something
 * odd, so a linear search over at most 64 names is enough. */
#include "once.h"

#include <stdio.h>
#include <string.h>

void once_init(struct once *once) {
    memset(once, 0, sizeof *once);
    pthread_mutex_init(&once->lock, NULL);
}

void once_deinit(struct once *once) {
    pthread_mutex_destroy(&once->lock);
}

bool once_add(struct once *once, const char *name) {
    char cut[ONCE_NAME_BYTES];
    bool is_new = true;
    snprintf(cut, sizeof cut, "%s", name);
    pthread_mutex_lock(&once->lock);
    for (uint32_t i = 0; i < once->n_names && is_new; i++) is_new = strcmp(once->names[i], cut);
    is_new = is_new && once->n_names < ONCE_NAMES_MAX;
    if (is_new) memcpy(once->names[once->n_names++], cut, sizeof cut);
    pthread_mutex_unlock(&once->lock);
    return is_new;
}
