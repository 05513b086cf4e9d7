/* jinja_run.h - one render while it goes on: its memory, its limits, where output goes, what went
 * wrong. Every function that can fail returns false after jinja_fail() has noted why; the first
 * reason stays.
 *
 * Owns: the arena and the text being captured. Threads: one at a time. */
#ifndef JINJA_RUN_H
#define JINJA_RUN_H

#include "radish.h"

#include "base/arena.h"
#include "base/buf.h"
#include "jinja_value.h"

struct jinja_template;
struct chat_template_time;

/* What one compile and one render may use. Steps are counted per node evaluated, per item walked
 * and per few bytes of text made (32) or scanned (8). */
struct jinja_limits {
    size_t source_bytes_max;
    size_t compile_bytes_max;
    size_t output_bytes_max;
    size_t memory_bytes_max;
    uint64_t steps_max;
    unsigned depth_max;
};

enum { JINJA_MSG_BYTES = 256 };

struct jinja_run {
    struct arena arena;
    struct jinja_limits limits;
    uint64_t steps_left;
    unsigned depth;
    uint32_t line;             /* of the statement or call that runs */
    struct buf *out;           /* where text goes: the result, or capture */
    struct buf capture;        /* texts of macros and set blocks, as a stack */
    char *tail_end;            /* end of the newest concatenation ... */
    size_t tail_room_bytes;    /* ... and the free bytes behind it */
    struct jinja_value *names; /* [n_names] value of each variable and global of the template */
    const struct jinja_template *t;
    const struct chat_template_time *time;
    enum radish_status status;
    uint32_t fail_line;
    char msg[JINJA_MSG_BYTES];
};

/* Notes a failure; always false. The status is E_TEMPLATE, or E_LIMIT with jinja_fail_limit(). */
bool jinja_fail(struct jinja_run *run, const char *fmt, ...) RADISH_PRINTF(2, 3);
bool jinja_fail_limit(struct jinja_run *run, const char *what);

/* Takes steps; false when none are left. */
static inline bool jinja_charge(struct jinja_run *run, uint64_t steps) {
    if (run->steps_left >= steps) {
        run->steps_left -= steps;
        return true;
    }
    run->steps_left = 0;
    return jinja_fail_limit(run, "steps");
}
bool jinja_charge_bytes(struct jinja_run *run, size_t bytes);
/* For searches that may compare every byte with every byte of a pattern. */
bool jinja_charge_search(struct jinja_run *run, size_t bytes, size_t pattern_bytes);

/* Pairs around every recursion. */
static inline bool jinja_enter(struct jinja_run *run) {
    if (++run->depth <= run->limits.depth_max) return true;
    run->depth--;
    return jinja_fail_limit(run, "depth of recursion");
}
static inline void jinja_leave(struct jinja_run *run) {
    run->depth--;
}

size_t jinja_room(const struct jinja_run *run);                  /* bytes left to the render */
void *jinja_alloc(struct jinja_run *run, size_t n, size_t size); /* NULL: failed */
/* A buffer for a text in the making, bounded by the render's memory. */
void jinja_buf_init(struct jinja_run *run, struct buf *b);

#endif
