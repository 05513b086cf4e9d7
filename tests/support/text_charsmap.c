/* text_charsmap.c - a double array by the simplest means: nodes are made depth first, and a base is
 * tried until all children find a free place. Good for dozens of rules. */
#include "text_charsmap.h"

#include "test.h"

enum { UNITS = 1 << 14 };

struct writer {
    const struct charsmap_rule *rules;
    size_t n;
    uint32_t units[UNITS];
    bool is_taken[UNITS],
        is_base[UNITS]; /* two nodes never share a base: labels are all that tells */
    size_t n_units;     /* one more than the highest taken */
    struct buf texts;
    size_t places[256]; /* of the rules' texts */
};

static void take(struct writer *w, size_t at) {
    assert_true(at < UNITS);
    w->is_taken[at] = true;
    if (at >= w->n_units) w->n_units = at + 1;
}

/* The rules that start with prefix[0..depth): their children go below unit `node`. */
static void write_node(struct writer *w, uint32_t node, const char *prefix, size_t depth) {
    bool has[256] = {false};
    uint32_t base = 1;
    for (size_t i = 0; i < w->n; i++)
        if (strncmp(w->rules[i].from, prefix, depth) == 0)
            has[(unsigned char)w->rules[i].from[depth]] = true; /* 0: a value */
    for (bool fits = false; !fits; base += !fits) {
        fits = !w->is_base[base];
        for (uint32_t c = 0; c < 256; c++)
            if (has[c] && ((base ^ c) >= UNITS || w->is_taken[base ^ c])) fits = false;
        assert_true(base < UNITS);
    }
    w->is_base[base] = true;
    w->units[node] |= (node ^ base) << 10 | (has[0] ? 1u << 8 : 0);
    for (uint32_t c = 0; c < 256; c++)
        if (has[c]) take(w, base ^ c);
    for (uint32_t c = 1; c < 256; c++) {
        char longer[64];
        if (!has[c]) continue;
        memcpy(longer, prefix, depth);
        longer[depth] = (char)c;
        w->units[base ^ c] = c;
        write_node(w, base ^ c, longer, depth + 1);
    }
    for (size_t i = 0; has[0] && i < w->n; i++)
        if (strlen(w->rules[i].from) == depth && memcmp(w->rules[i].from, prefix, depth) == 0)
            w->units[base] = 1u << 31 | (uint32_t)w->places[i];
}

void charsmap_write(const struct charsmap_rule *rules, size_t n, struct buf *out) {
    struct writer *w = calloc(1, sizeof *w);
    assert_non_null(w);
    assert_true(n <= 256);
    w->rules = rules;
    w->n = n;
    for (size_t i = 0; i < n; i++) {
        w->places[i] = w->texts.len;
        buf_append(&w->texts, rules[i].to, strlen(rules[i].to) + 1);
    }
    take(w, 0);
    write_node(w, 0, "", 0);
    uint32_t n_bytes = (uint32_t)(w->n_units * 4);
    buf_append(out, &n_bytes, 4);
    buf_append(out, w->units, n_bytes);
    buf_append(out, w->texts.data, w->texts.len);
    assert_false(out->failed);
    buf_deinit(&w->texts);
    free(w);
}
