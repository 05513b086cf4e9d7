/* normalizer.c - a list of steps; each reads one text and writes the next.
 *
 * A step is a function of (parameters, text, buffer), found in a table by its kind: a new kind is
 * one row in tokenizer_spec.h and one function here. BertNormalizer is up to five of them. The
 * texts alternate between two buffers, so any number of steps costs two. Offsets back to the
 * original are not kept: radish gives ids. Of them one question is left, Metaspace's "first": which
 * characters come from the input's first one? These are the start of the text, whose length is
 * followed on request: what a step makes of them alone is what they become. */
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

struct step;
typedef enum radish_status (*step_fn)(const struct step *step, const char *s, size_t n,
                                      struct buf *out, struct radish_error *err);

struct step {
    step_fn fn;
    enum spec_normalizer_kind kind;
    struct pattern *pattern;
    struct charsmap *charsmap;
    struct spm_normalizer *spm;
    struct buf content;
    bool strips_left, strips_right;
};

enum { BERT_STEPS = 5 }; /* of one BertNormalizer */

struct normalizer {
    uint32_t n_steps;
    struct step steps[SPEC_STEPS_MAX * BERT_STEPS];
};

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
    if (!n) return RADISH_OK; /* Nothing is found in nothing, not even "^". */
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

static enum radish_status run_nmt(const struct step *step, const char *s, size_t n, struct buf *out,
                                  struct radish_error *err) {
    (void)step, (void)err;
    for (size_t at = 0, len; at < n; at += len) {
        uint32_t c;
        len = utf8_decode(s + at, n - at, &c);
        if ((c >= 0x01 && c <= 0x08) || c == 0x0B || (c >= 0x0E && c <= 0x1F) || c == 0x7F ||
            c == 0x8F || c == 0x9F)
            continue;
        if (c == 0x09 || c == 0x0A || c == 0x0C || c == 0x0D || c == 0x1680 ||
            (c >= 0x200B && c <= 0x200F) || c == 0x2028 || c == 0x2029 || c == 0x2581 ||
            c == 0xFEFF || c == 0xFFFD)
            buf_append_char(out, ' ');
        else
            buf_append(out, s + at, len);
    }
    return RADISH_OK;
}

/* ---- the steps of BertNormalizer */

/* Control characters go, white space is a space. */
static enum radish_status run_clean_text(const struct step *step, const char *s, size_t n,
                                         struct buf *out, struct radish_error *err) {
    (void)step, (void)err;
    for (size_t at = 0, len; at < n; at += len) {
        uint32_t c;
        len = utf8_decode(s + at, n - at, &c);
        bool is_space = c == '\t' || c == '\n' || c == '\r';
        if (c == 0 || c == 0xFFFD || (!is_space && unicode_is_control(c))) continue;
        if (is_space || unicode_is_space(c))
            buf_append_char(out, ' ');
        else
            buf_append(out, s + at, len);
    }
    return RADISH_OK;
}

/* The blocks that BERT calls Chinese; extension E begins late, as there. */
static bool is_chinese(uint32_t c) {
    return (c >= 0x4E00 && c <= 0x9FFF) || (c >= 0x3400 && c <= 0x4DBF) ||
           (c >= 0x20000 && c <= 0x2A6DF) || (c >= 0x2A700 && c <= 0x2B73F) ||
           (c >= 0x2B740 && c <= 0x2B81F) || (c >= 0x2B920 && c <= 0x2CEAF) ||
           (c >= 0xF900 && c <= 0xFAFF) || (c >= 0x2F800 && c <= 0x2FA1F);
}

static enum radish_status run_space_chinese(const struct step *step, const char *s, size_t n,
                                            struct buf *out, struct radish_error *err) {
    (void)step, (void)err;
    for (size_t at = 0, len; at < n; at += len) {
        uint32_t c;
        len = utf8_decode(s + at, n - at, &c);
        if (is_chinese(c)) buf_append_char(out, ' ');
        buf_append(out, s + at, len);
        if (is_chinese(c)) buf_append_char(out, ' ');
    }
    return RADISH_OK;
}

static enum radish_status run_strip_nonspacing(const struct step *step, const char *s, size_t n,
                                               struct buf *out, struct radish_error *err) {
    (void)step, (void)err;
    for (size_t at = 0, len; at < n; at += len) {
        uint32_t c;
        len = utf8_decode(s + at, n - at, &c);
        if (!unicode_is_nonspacing_mark(c)) buf_append(out, s + at, len);
    }
    return RADISH_OK;
}

/* ---- create, destroy */

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
    [SPEC_NORMALIZER_NMT] = run_nmt,
    [SPEC_NORMALIZER_PRECOMPILED] = run_precompiled,
    [SPEC_NORMALIZER_SENTENCEPIECE] = run_sentencepiece,
};

static void add_bert(struct normalizer *n, const struct spec_normalizer *spec) {
    const struct {
        bool is_wanted;
        step_fn fn;
    } steps[BERT_STEPS] = {{spec->cleans_text, run_clean_text},
                           {spec->spaces_chinese, run_space_chinese},
                           {spec->strips_accents, run_nfd},
                           {spec->strips_accents, run_strip_nonspacing},
                           {spec->lowers, run_lowercase}};
    for (int i = 0; i < BERT_STEPS; i++)
        if (steps[i].is_wanted)
            n->steps[n->n_steps++] = (struct step){.fn = steps[i].fn, .kind = spec->kind};
}

static enum radish_status add_step(struct normalizer *n, const struct spec_normalizer *spec,
                                   struct radish_error *err) {
    if (spec->kind == SPEC_NORMALIZER_BERT) {
        add_bert(n, spec);
        return RADISH_OK;
    }
    struct step *step = &n->steps[n->n_steps++];
    step->fn = STEP_FNS[spec->kind];
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

/* ---- run */

/* How much of a Replace's output comes from the first `first` bytes: what replaces a match counts
 * with the last byte of the match. */
static enum radish_status track_replace(const struct step *step, const char *s, size_t n,
                                        size_t *first, struct radish_error *err) {
    struct pattern_cursor cursor;
    enum radish_status status;
    size_t copied = 0, kept = 0, start, end;
    bool found;
    if (!n) return RADISH_OK;
    RADISH_TRY(pattern_cursor_init(&cursor, step->pattern, err));
    pattern_cursor_start(&cursor, s, n);
    while ((status = pattern_cursor_next(&cursor, &found, &start, &end, err)) == RADISH_OK &&
           found && start <= *first) {
        kept += start - copied + (end <= *first ? step->content.len : 0);
        copied = end;
    }
    *first = copied < *first ? kept + *first - copied : kept;
    pattern_cursor_deinit(&cursor);
    return status;
}

/* *first, so many bytes at the start of s[0..n), becomes what the step makes of them. */
static enum radish_status track_first(const struct step *step, const char *s, size_t n,
                                      size_t *first, struct radish_error *err) {
    struct buf out = {0};
    if (step->kind == SPEC_NORMALIZER_REPLACE) return track_replace(step, s, n, first, err);
    if (step->kind == SPEC_NORMALIZER_STRIP) {
        uint32_t c;
        for (size_t at = 0, len; step->strips_left && at < n && *first; at += len) {
            len = utf8_decode(s + at, n - at, &c);
            if (!unicode_is_space(c)) break;
            *first -= len < *first ? len : *first;
        }
        return RADISH_OK;
    }
    if (step->kind == SPEC_NORMALIZER_PRECOMPILED) {
        *first = charsmap_first_len(step->charsmap, s, n, *first);
        return RADISH_OK;
    }
    enum radish_status status = step->fn(step, s, *first, &out, err);
    *first = out.len;
    if (out.failed) status = error_nomem(err);
    buf_deinit(&out);
    return status;
}

enum radish_status normalizer_run(const struct normalizer *normalizer, const char *text, size_t len,
                                  struct buf scratch[2], struct spec_str *result_out,
                                  size_t *first_len, struct radish_error *err) {
    *result_out = (struct spec_str){text, len};
    for (uint32_t i = 0; i < normalizer->n_steps; i++) {
        const struct step *step = &normalizer->steps[i];
        struct buf *out = &scratch[i % 2];
        buf_clear(out);
        RADISH_TRY(step->fn(step, result_out->data, result_out->len, out, err));
        if (out->failed) return error_nomem(err);
        if (first_len && *first_len)
            RADISH_TRY(track_first(step, result_out->data, result_out->len, first_len, err));
        *result_out = (struct spec_str){out->data ? out->data : "", out->len};
    }
    return RADISH_OK;
}
