/* jinja_run.c - failure, limits and memory of one render.
 *
 * A template comes from a model's author and its variables from any client, so a render must end
 * soon and small whatever they say. Three counters do that. Steps bound time: one per node and
 * item, and one per few bytes that a builtin makes or scans, since a single `x in y` over megabytes
 * is work too. One number bounds memory: what lies in the arena, texts being captured and a text in
 * the making count together. Depth bounds the C stack.
 * There is no clock in it: the same template over the same variables always ends the same way. */
#include "jinja_run.h"

#include "base/mem.h"
#include "base/utf8.h"

#include <stdarg.h>
#include <stdio.h>
#include <string.h>

/* Copying is cheap; looking at each character, as most builtins do, is not. */
enum { STEP_BYTES = 32, SEARCH_STEP_BYTES = 8 };

static void note(struct jinja_run *run, enum radish_status status, const char *fmt, va_list args) {
    if (run->status != RADISH_OK) return;
    run->status = status;
    run->fail_line = run->line;
    vsnprintf(run->msg, sizeof(run->msg), fmt, args);
    /* A message that was cut must not end in half a character. */
    run->msg[utf8_valid_prefix(run->msg, strlen(run->msg))] = '\0';
}

bool jinja_fail(struct jinja_run *run, const char *fmt, ...) {
    va_list args;
    va_start(args, fmt);
    note(run, RADISH_E_TEMPLATE, fmt, args);
    va_end(args);
    return false;
}

static void note_limit(struct jinja_run *run, const char *fmt, ...) RADISH_PRINTF(2, 3);
static void note_limit(struct jinja_run *run, const char *fmt, ...) {
    va_list args;
    va_start(args, fmt);
    note(run, RADISH_E_LIMIT, fmt, args);
    va_end(args);
}

bool jinja_fail_limit(struct jinja_run *run, const char *what) {
    note_limit(run, "the template exceeds its limit of %s", what);
    return false;
}

bool jinja_charge_bytes(struct jinja_run *run, size_t bytes) {
    return bytes < STEP_BYTES || jinja_charge(run, bytes / STEP_BYTES);
}

bool jinja_charge_search(struct jinja_run *run, size_t bytes, size_t pattern_bytes) {
    return jinja_charge(run, (uint64_t)bytes / SEARCH_STEP_BYTES * pattern_bytes);
}

size_t jinja_room(const struct jinja_run *run) {
    size_t used = run->arena.bytes_used + run->capture.len, most = run->limits.memory_bytes_max;
    return used < most ? most - used : 0;
}

void *jinja_alloc(struct jinja_run *run, size_t n, size_t size) {
    size_t bytes;
    bool has_room = mem_mul(n, size, &bytes) && bytes <= jinja_room(run);
    void *p = has_room ? arena_alloc(&run->arena, bytes) : NULL;
    if (!p) jinja_fail_limit(run, "memory");
    return p;
}

void jinja_buf_init(struct jinja_run *run, struct buf *b) {
    /* It is copied when it is done: half of what is left. */
    size_t room = jinja_room(run) / 2;
    buf_init(b, room ? room : 1);
}
