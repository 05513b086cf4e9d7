/* stop_match.c - one Knuth-Morris-Pratt automaton per string.
 *
 * The state of a string is how many of its bytes the text so far ends with. So a push costs one
 * step per byte and string, however the text is cut, and nothing is searched twice; the longest
 * state is how much must be held back: text that ends with "</to" cannot be shown while "</tool>"
 * is a stop string. A piece is run through all automata to its end before the winner is chosen,
 * since a string found later in it may start earlier. */
#include "stop_match.h"

#include "base/mem.h"
#include "base/status.h"

#include <stdlib.h>
#include <string.h>

/* Room for the text of one token beside what is held back: pushes do not allocate. */
enum { PIECE_BYTES = 1024 };

struct matcher {
    char *string; /* [len], len > 0 */
    size_t len;
    size_t *shorter; /* [len + 1] longest proper border of each prefix */
    size_t state;    /* bytes matched */
};

struct stop_match {
    struct matcher *matchers; /* [n] */
    size_t n;
    struct buf held; /* the end of the text that may start a string */
    bool is_found;
};

static void build(struct matcher *m) {
    size_t border = 0;
    m->shorter[0] = m->shorter[1] = 0;
    for (size_t i = 1; i < m->len; i++) {
        while (border && m->string[i] != m->string[border]) border = m->shorter[border];
        if (m->string[i] == m->string[border]) border++;
        m->shorter[i + 1] = border;
    }
}

static enum radish_status add(struct stop_match *match, const char *string,
                              struct radish_error *err) {
    struct matcher *m = &match->matchers[match->n];
    m->len = strlen(string);
    if (!m->len)
        return error_set_field(err, RADISH_E_INVALID, "stop", "a stop string must not be empty");
    m->string = mem_strndup(string, m->len);
    m->shorter = mem_alloc(m->len + 1, sizeof *m->shorter);
    match->n++;
    if (!m->string || !m->shorter) return error_nomem(err);
    build(m);
    return RADISH_OK;
}

enum radish_status stop_match_create(const char *const *strings, size_t n,
                                     struct stop_match **match_out, struct radish_error *err) {
    enum radish_status status = RADISH_OK;
    *match_out = NULL;
    struct stop_match *match = calloc(1, sizeof *match);
    if (match) match->matchers = mem_zalloc(n, sizeof *match->matchers);
    if (!match || !match->matchers) status = error_nomem(err);
    size_t len_max = 0;
    for (size_t i = 0; i < n && status == RADISH_OK; i++) {
        status = add(match, strings[i], err);
        if (match->matchers[i].len > len_max) len_max = match->matchers[i].len;
    }
    if (status == RADISH_OK && !buf_reserve(&match->held, len_max + PIECE_BYTES))
        status = error_nomem(err);
    if (status != RADISH_OK) {
        stop_match_destroy(match);
        return status;
    }
    *match_out = match;
    return RADISH_OK;
}

void stop_match_destroy(struct stop_match *match) {
    if (!match) return;
    for (size_t i = 0; i < match->n; i++) {
        free(match->matchers[i].string);
        free(match->matchers[i].shorter);
    }
    free(match->matchers);
    buf_deinit(&match->held);
    free(match);
}

/* Runs text through m: how many of its bytes the first whole match takes, or 0. */
static size_t run(struct matcher *m, const char *text, size_t len) {
    for (size_t i = 0; i < len; i++) {
        while (m->state && text[i] != m->string[m->state]) m->state = m->shorter[m->state];
        if (text[i] == m->string[m->state]) m->state++;
        if (m->state == m->len) return i + 1;
    }
    return 0;
}

int stop_match_push(struct stop_match *match, const char *text, size_t len, bool include_stop,
                    struct buf *out) {
    size_t best = 0, best_start = SIZE_MAX, n_hold = 0, n_held = match->held.len;
    if (match->is_found || !len) return -1;
    buf_append(&match->held, text, len);
    if (match->held.failed) {
        out->failed = true;
        return -1;
    }
    for (size_t i = 0; i < match->n; i++) {
        struct matcher *m = &match->matchers[i];
        size_t end = run(m, text, len), start = n_held + end - m->len;
        if (m->state > n_hold) n_hold = m->state;
        if (!end || start > best_start) continue;
        if (start == best_start && m->len <= match->matchers[best].len) continue;
        best = i;
        best_start = start;
    }
    match->is_found = best_start != SIZE_MAX;
    if (!match->is_found) {
        size_t n_shown = match->held.len - n_hold;
        buf_append(out, match->held.data, n_shown);
        buf_remove_front(&match->held, n_shown);
        return -1;
    }
    buf_append(out, match->held.data, best_start + (include_stop ? match->matchers[best].len : 0));
    buf_clear(&match->held);
    return (int)best;
}

void stop_match_finish(struct stop_match *match, struct buf *out) {
    buf_append(out, match->held.data, match->held.len);
    buf_clear(&match->held);
}
