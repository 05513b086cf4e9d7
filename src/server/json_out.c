/* json_out.c - the writing half of JSON, without a tree.
 *
 * A streamed token is one small object whose shape is known when the code is written. Building it
 * as a tree (yyjson's mutable values) and then printing the tree costs allocations per token, and
 * floats would be printed as doubles (0.1f as 0.10000000149011612). So replies are appended to a
 * buf directly, with the few rules of JSON that bite in one place: escapes, bad UTF-8, and numbers
 * that JSON cannot say. Runs of plain bytes are copied at once. */
#include "json_out.h"

#include "base/utf8.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

static void write_escape(struct buf *out, unsigned char c) {
    static const char short_forms[] = "\"\"\\\\\bb\ff\nn\rr\tt";
    for (const char *p = short_forms; *p; p += 2) {
        if ((unsigned char)p[0] != c) continue;
        buf_append_char(out, '\\');
        buf_append_char(out, p[1]);
        return;
    }
    buf_printf(out, "\\u%04x", (unsigned)c);
}

/* s[0..len) is valid UTF-8. */
static void write_valid(struct buf *out, const char *s, size_t len) {
    size_t run_start = 0;
    for (size_t i = 0; i < len; i++) {
        unsigned char c = (unsigned char)s[i];
        if (c >= 32 && c != '"' && c != '\\') continue;
        buf_append(out, s + run_start, i - run_start);
        write_escape(out, c);
        run_start = i + 1;
    }
    buf_append(out, s + run_start, len - run_start);
}

void json_out_string(struct buf *out, const char *s, size_t len) {
    buf_append_char(out, '"');
    while (len) {
        size_t n_valid = utf8_valid_prefix(s, len);
        write_valid(out, s, n_valid);
        s += n_valid;
        len -= n_valid;
        if (!len) break;
        uint32_t code_point = 0;
        size_t n_bad = utf8_decode(s, len, &code_point);
        buf_append_utf8(out, UTF8_REPLACEMENT);
        s += n_bad;
        len -= n_bad;
    }
    buf_append_char(out, '"');
}

void json_out_key(struct buf *out, const char *key) {
    buf_append_char(out, '"');
    buf_append_str(out, key);
    buf_append(out, "\":", 2);
}

void json_out_double(struct buf *out, double value) {
    char text[32];
    if (!isfinite(value)) {
        buf_append_str(out, "null");
        return;
    }
    /* An embedder may have set a locale with a decimal comma. */
    snprintf(text, sizeof text, "%.9g", value);
    char *comma = strchr(text, ',');
    if (comma) *comma = '.';
    buf_append_str(out, text);
}

void json_out_logprob(struct buf *out, float value) {
    if (isfinite(value))
        json_out_double(out, (double)value); /* Nine digits name every float. */
    else
        buf_append_str(out, "-9999.0");
}
