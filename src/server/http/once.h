/* once.h - remembers which names have been warned about, so that a log says each thing once. Holds
 * a fixed number of names; when it is full, further names count as known: a client that invents
 * names cannot fill the log or the memory. Threads: any. */
#ifndef SERVER_ONCE_H
#define SERVER_ONCE_H

#include "radish.h"

#include <pthread.h>

enum { ONCE_NAMES_MAX = 64, ONCE_NAME_BYTES = 64 };

struct once {
    pthread_mutex_t lock;
    uint32_t n_names;
    char names[ONCE_NAMES_MAX][ONCE_NAME_BYTES]; /* cut to fit */
};

void once_init(struct once *once);
void once_deinit(struct once *once);

/* True the first time this name comes. */
bool once_add(struct once *once, const char *name);

#endif
