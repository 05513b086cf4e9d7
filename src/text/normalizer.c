/* normalizer.c - a list of steps; each reads one text and writes the next.
 *
 * A step is a function of (parameters, text, buffer), found in a table by its kind: a new kind is
 * one row in tokenizer_spec.h and one function here. The texts alternate between two buffers, so
 * any number of steps costs two. Offsets back to the original are not kept: radish gives ids, and
 * the one user of offsets (Metaspace's "first") is answered by the caller. */
#include "normalizer.h"

#include "base/status.h"
#include "base/utf8.h"
#include "byte_level.h"
#include "charsmap.h"
#include "pattern.h"
#include "spm_normalizer.h"
#include "unicode.h"

#include <stdlib.h>
#include <string.h>

struct step {
    enum spec_normalizer_kind kind;
    struct pattern *pattern;
    struct charsmap *charsmap;
    struct spm_normalizer *spm;
    struct buf content;
    bool strips_left, strips_right;
};

struct normalizer {
    uint32_t n_steps;
    struct step steps[SPEC_STEPS_MAX];
};

typedef enum radish_status (*step_fn)(const struct step *step, const char *s, size_t n,
                                      struct buf *out, struct radish_error *err);

static enum radish_status run_form(enum unicode_form form, const char *s, size_t n, struct buf *out,
                                   struct radish_error *err) {
    return unicode_normalize(form, s, n, out) ? RADISH_OK : error_nomem(err);
}

static enum radish_status run_nfc(const struct step *step, const char *s, size_t n, struct buf *out,
                                  struct radish_error *err) {
    (void)step;
    return run_form(UNICODE_NFC, s, n, out, err);
}

static enum radish_status run_nfd(const struct step *step, const char *s, size_t n, struct buf *out,
                                  struct radish_error *err) {
    (void)step;
    return run_form(UNICODE_NFD, s, n, out, err);
}

static enum radish_status run_nfkc(const struct step *step, const char *s, size_t n,
                                   struct buf *out, struct radish_error *err) {
    (void)step;
    return run_form(UNICODE_NFKC, s, n, out, err);
}

static enum radish_status run_nfkd(const struct step *step, const char *s, size_t n,
                                   struct buf *out, struct radish_error *err) {
    (void)step;
    return run_form(UNICODE_NFKD, s, n, out, err);
}

static enum radish_status run_lowercase(const struct step *step, const char *s, size_t n,
                                        struct buf *out, struct radish_error *err) {
    (void)step, (void)err;
    for (size_t at = 0; at < n;) {
        uint32_t c;
        at += utf8_decode(s + at, n - at, &c);
        unicode_append_lower(c, out);
    }
    return RADISH_OK;
}

static enum radish_status run_strip(const struct step *step, const char *s, size_t n,
                                    struct buf *out, struct radish_error *err) {
    size_t start = n, end = 0;
    (void)err;
    for (size_t at = 0, len; at < n; at += len) {
        uint32_t c;
        len = utf8_decode(s + at, n - at, &c);
        if (unicode_is_space(c)) continue;
        if (start == n) start = at;
        end = at + len;
    }
    if (!step->strips_left) start = 0;
    if (!step->strips_right) end = n;
    if (start < end) buf_append(out, s + start, end - start);
    return RADISH_OK;
}

static enum radish_status run_strip_accents(const struct step *step, const char *s, size_t n,
                                            struct buf *out, struct radish_error *err) {
    (void)step, (void)err;
    for (size_t at = 0, len; at < n; at += len) {
        uint32_t c;
        len = utf8_decode(s + at, n - at, &c);
        if (!unicode_is_mark(c)) buf_append(out, s + at, len);
    }
    return RADISH_OK;
}

static enum radish_status run_prepend(const struct step *step, const char *s, size_t n,
                                      struct buf *out, struct radish_error *err) {
    (void)err;
    if (!n) return RADISH_OK;
    buf_append(out, step->content.data, step->content.len);
    buf_append(out, s, n);
    return RADISH_OK;
}

static enum radish_status run_replace(const struct step *step, const char *s, size_t n,
                                      struct buf *out, struct radish_error *err) {
    struct pattern_cursor cursor;
    size_t copied = 0, start, end;
    bool found;
    RADISH_TRY(pattern_cursor_init(&cursor, step->pattern, err));
    pattern_cursor_start(&cursor, s, n);
    enum radish_status status;
    while ((status = pattern_cursor_next(&cursor, &found, &start, &end, err)) == RADISH_OK &&
           found) {
        buf_append(out, s + copied, start - copied);
        buf_append(out, step->content.data, step->content.len);
        copied = end;
    }
    buf_append(out, s + copied, n - copied);
    pattern_cursor_deinit(&cursor);
    return status;
}

static enum radish_status run_byte_level(const struct step *step, const char *s, size_t n,
                                         struct buf *out, struct radish_error *err) {
    (void)step, (void)err;
    byte_level_append_chars(s, n, out);
    return RADISH_OK;
}

static enum radish_status run_precompiled(const struct step *step, const char *s, size_t n,
                                          struct buf *out, struct radish_error *err) {
    (void)err;
    charsmap_normalize(step->charsmap, s, n, out);
    return RADISH_OK;
}

static enum radish_status run_sentencepiece(const struct step *step, const char *s, size_t n,
                                            struct buf *out, struct radish_error *err) {
    (void)err;
    spm_normalizer_run(step->spm, s, n, out);
    return RADISH_OK;
}

static const step_fn STEP_FNS[SPEC_NORMALIZER_COUNT] = {
    [SPEC_NORMALIZER_NFC] = run_nfc,
    [SPEC_NORMALIZER_NFD] = run_nfd,
    [SPEC_NORMALIZER_NFKC] = run_nfkc,
    [SPEC_NORMALIZER_NFKD] = run_nfkd,
    [SPEC_NORMALIZER_LOWERCASE] = run_lowercase,
    [SPEC_NORMALIZER_STRIP] = run_strip,
    [SPEC_NORMALIZER_STRIP_ACCENTS] = run_strip_accents,
    [SPEC_NORMALIZER_PREPEND] = run_prepend,
    [SPEC_NORMALIZER_REPLACE] = run_replace,
    [SPEC_NORMALIZER_BYTE_LEVEL] = run_byte_level,
    [SPEC_NORMALIZER_PRECOMPILED] = run_precompiled,
    [SPEC_NORMALIZER_SENTENCEPIECE] = run_sentencepiece,
};

static enum radish_status add_step(struct normalizer *n, const struct spec_normalizer *spec,
                                   struct radish_error *err) {
    struct step *step = &n->steps[n->n_steps++];
    step->kind = spec->kind;
    step->strips_left = spec->strips_left;
    step->strips_right = spec->strips_right;
    if (spec->kind == SPEC_NORMALIZER_PRECOMPILED)
        return charsmap_create(spec->content.data, spec->content.len, &step->charsmap, err);
    if (spec->kind == SPEC_NORMALIZER_SENTENCEPIECE)
        return spm_normalizer_create(spec, &step->spm, err);
    buf_append(&step->content, spec->content.data, spec->content.len);
    if (step->content.failed) return error_nomem(err);
    if (spec->kind != SPEC_NORMALIZER_REPLACE) return RADISH_OK;
    return pattern_create(&spec->pattern, &step->pattern, err);
}

enum radish_status normalizer_create(const struct spec_normalizer *steps, uint32_t n,
                                     struct normalizer **normalizer_out, struct radish_error *err) {
    *normalizer_out = NULL;
    if (n > SPEC_STEPS_MAX)
        return error_set(err, RADISH_E_LIMIT, "%u normalizers; the limit is %d", n, SPEC_STEPS_MAX);
    struct normalizer *normalizer = calloc(1, sizeof *normalizer);
    if (!normalizer) return error_nomem(err);
    for (uint32_t i = 0; i < n; i++) {
        enum radish_status status = add_step(normalizer, &steps[i], err);
        if (status == RADISH_OK) continue;
        error_prefix(err, "normalizer");
        normalizer_destroy(normalizer);
        return status;
    }
    *normalizer_out = normalizer;
    return RADISH_OK;
}

void normalizer_destroy(struct normalizer *n) {
    if (!n) return;
    for (uint32_t i = 0; i < n->n_steps; i++) {
        pattern_destroy(n->steps[i].pattern);
        charsmap_destroy(n->steps[i].charsmap);
        spm_normalizer_destroy(n->steps[i].spm);
        buf_deinit(&n->steps[i].content);
    }
    free(n);
}

enum radish_status normalizer_run(const struct normalizer *normalizer, const char *text, size_t len,
                                  struct buf scratch[2], struct spec_str *result_out,
                                  struct radish_error *err) {
    *result_out = (struct spec_str){text, len};
    for (uint32_t i = 0; i < normalizer->n_steps; i++) {
        const struct step *step = &normalizer->steps[i];
        struct buf *out = &scratch[i % 2];
        buf_clear(out);
        RADISH_TRY(STEP_FNS[step->kind](step, result_out->data, result_out->len, out, err));
        if (out->failed) return error_nomem(err);
        *result_out = (struct spec_str){out->data ? out->data : "", out->len};
    }
    return RADISH_OK;
}
