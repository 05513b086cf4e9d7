/* pattern.c - literals by memmem(), expressions by PCRE2.
 *
 * Tokenizers are made with Oniguruma; PCRE2's JIT is four times as fast and cuts at the same
 * places, once the dialect is translated (pattern_dialect.c).
 *
 * Callers have checked their UTF-8 once: PCRE2 would otherwise check the rest of the text at every
 * match, 6 seconds per megabyte. Where the system refuses executable memory, and where a match
 * needs more than the JIT's stack, the interpreter does the work with the same result.
 *
 * A pattern may come with a model from anywhere and explode: (a+)+b. PCRE2 counts steps, but starts
 * again at every place of the text, so one limit is either too small for a run of a megabyte or too
 * large for a megabyte of places. So each place is tried with a small limit, which real patterns
 * keep everywhere but in long runs. What exceeds it is searched place by place, each again with the
 * small limit and then, if need be, with the large one; that may be needed SLOW_MATCHES_MAX times
 * in a call, matches that are long (and so pay for their steps) not counted. Then it is an error.
 */
#include "pattern.h"

#include "base/buf.h"
#include "base/log.h"
#include "base/status.h"
#include "base/utf8.h"
#include "pattern_dialect.h"

#define PCRE2_CODE_UNIT_WIDTH 8
#include <pcre2.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum {
    FEW_STEPS = 2000,
    MANY_STEPS = 10 * 1000 * 1000,
    HEAP_LIMIT_KIB = 256 * 1024,
    SLOW_MATCHES_MAX = 64,
    LONG_MATCH_BYTES = 256,
    CAREFUL_BYTES = 1024, /* searched place by place before the next try of everything */
};

struct pattern {
    struct spec_str literal; /* or the rest */
    pcre2_code *code;
    pcre2_code *anchored; /* the same, matching only where the search starts */
    pcre2_match_context *few, *many;
    bool has_jit;
};

/* ---- create, destroy */

static enum radish_status refuse(const struct spec_pattern *spec, const char *reason,
                                 struct radish_error *err) {
    int shown = spec->text.len > 80 ? 80 : (int)spec->text.len;
    return error_set(err, RADISH_E_UNSUPPORTED, "regular expression \"%.*s\": %s", shown,
                     spec->text.data, reason);
}

/* NULL after a message in *err. */
static pcre2_code *compile_code(const struct spec_pattern *spec, const struct buf *source,
                                uint32_t options, pcre2_compile_context *context,
                                struct radish_error *err) {
    int code;
    PCRE2_SIZE offset;
    PCRE2_UCHAR reason[128] = "";
    options |= PCRE2_UTF | PCRE2_UCP | PCRE2_MULTILINE | PCRE2_NEVER_BACKSLASH_C;
    pcre2_code *compiled =
        pcre2_compile((PCRE2_SPTR)source->data, source->len, options, &code, &offset, context);
    if (compiled) return compiled;
    if (code == PCRE2_ERROR_HEAP_FAILED) {
        error_nomem(err);
        return NULL;
    }
    pcre2_get_error_message(code, reason, sizeof reason);
    refuse(spec, (const char *)reason, err);
    return NULL;
}

static pcre2_match_context *make_limits(uint32_t n_steps) {
    pcre2_match_context *context = pcre2_match_context_create(NULL);
    if (!context) return NULL;
    pcre2_set_match_limit(context, n_steps);
    pcre2_set_heap_limit(context, HEAP_LIMIT_KIB);
    return context;
}

/* The tables behind \p{...} decide where text is cut, so a log says which they are. */
static void log_engine_once(bool has_jit) {
    static atomic_flag is_logged = ATOMIC_FLAG_INIT;
    char line[160];
    if (atomic_flag_test_and_set(&is_logged)) return;
    pattern_engine_text(line, sizeof line);
    log_info("text", "patterns: %s", line);
    if (!has_jit)
        log_warn("text", "PCRE2 may not make machine code here (no executable memory?): its "
                         "interpreter cuts text with the same result, but slower");
}

static enum radish_status compile(struct pattern *p, const struct spec_pattern *spec,
                                  struct radish_error *err) {
    struct buf source = {0};
    struct radish_error reason = {0};
    pcre2_compile_context *context = pcre2_compile_context_create(NULL);
    enum radish_status status = pattern_translate(&spec->text, &source, &reason);
    if (status == RADISH_E_UNSUPPORTED) {
        refuse(spec, reason.msg, err);
        goto done;
    }
    p->few = make_limits(FEW_STEPS);
    p->many = make_limits(MANY_STEPS);
    if (status != RADISH_OK || !context || !p->few || !p->many) {
        status = error_nomem(err);
        goto done;
    }
    pcre2_set_newline(context, PCRE2_NEWLINE_LF);
    p->code = compile_code(spec, &source, 0, context, err);
    if (p->code) p->anchored = compile_code(spec, &source, PCRE2_ANCHORED, context, err);
    if (!p->anchored) {
        status = err->status;
        goto done;
    }
    p->has_jit = pcre2_jit_compile(p->code, PCRE2_JIT_COMPLETE) == 0 &&
                 pcre2_jit_compile(p->anchored, PCRE2_JIT_COMPLETE) == 0;
    log_engine_once(p->has_jit);
done:
    pcre2_compile_context_free(context);
    buf_deinit(&source);
    return status;
}

void pattern_engine_text(char *text_out, size_t capacity) {
    char version[64] = "?", unicode[32] = "?";
    uint32_t has_jit = 0;
    if (pcre2_config(PCRE2_CONFIG_VERSION, NULL) <= (int)sizeof version)
        pcre2_config(PCRE2_CONFIG_VERSION, version);
    if (pcre2_config(PCRE2_CONFIG_UNICODE_VERSION, NULL) <= (int)sizeof unicode)
        pcre2_config(PCRE2_CONFIG_UNICODE_VERSION, unicode);
    pcre2_config(PCRE2_CONFIG_JIT, &has_jit);
    snprintf(text_out, capacity, "PCRE2 %s, %s, Unicode %s in \\p{...}", version,
             has_jit ? "JIT" : "built without JIT", unicode);
}

enum radish_status pattern_create(const struct spec_pattern *spec, struct pattern **pattern_out,
                                  struct radish_error *err) {
    enum radish_status status = RADISH_OK;
    *pattern_out = NULL;
    if (!spec->text.data) return error_set(err, RADISH_E_FORMAT, "a pattern is missing");
    if (spec->text.len > PATTERN_BYTES_MAX)
        return error_set(err, RADISH_E_LIMIT, "a pattern of %zu bytes; the limit is %d",
                         spec->text.len, PATTERN_BYTES_MAX);
    struct pattern *p = calloc(1, sizeof *p);
    if (!p) return error_nomem(err);
    if (spec->is_regex || !spec->text.len) { /* nothing is found everywhere */
        status = compile(p, spec, err);
    } else {
        char *copy = malloc(spec->text.len);
        if (copy) memcpy(copy, spec->text.data, spec->text.len);
        p->literal = (struct spec_str){copy, spec->text.len};
        if (!copy) status = error_nomem(err);
    }
    if (status != RADISH_OK) {
        pattern_destroy(p);
        return status;
    }
    *pattern_out = p;
    return RADISH_OK;
}

void pattern_destroy(struct pattern *p) {
    if (!p) return;
    free((char *)p->literal.data);
    pcre2_code_free(p->code);
    pcre2_code_free(p->anchored);
    pcre2_match_context_free(p->few);
    pcre2_match_context_free(p->many);
    free(p);
}

/* ---- matching */

enum radish_status pattern_cursor_init(struct pattern_cursor *cursor, const struct pattern *pattern,
                                       struct radish_error *err) {
    *cursor = (struct pattern_cursor){.pattern = pattern};
    if (!pattern->code) return RADISH_OK;
    cursor->match = pcre2_match_data_create(1, NULL);
    return cursor->match ? RADISH_OK : error_nomem(err);
}

void pattern_cursor_deinit(struct pattern_cursor *cursor) {
    pcre2_match_data_free(cursor->match);
    cursor->match = NULL;
}

void pattern_cursor_start(struct pattern_cursor *cursor, const char *text, size_t len) {
    cursor->text = text;
    cursor->len = len;
    cursor->at = 0;
    cursor->last_end = SIZE_MAX;
}

/* PCRE2's code: a positive number for a match, PCRE2_ERROR_NOMATCH, or an error. */
static int run(const struct pattern_cursor *c, const pcre2_code *code,
               pcre2_match_context *limits) {
    PCRE2_SPTR text = (PCRE2_SPTR)c->text;
    int rc = PCRE2_ERROR_JIT_STACKLIMIT;
    if (c->pattern->has_jit) rc = pcre2_jit_match(code, text, c->len, c->at, 0, c->match, limits);
    if (rc == PCRE2_ERROR_JIT_STACKLIMIT)
        rc = pcre2_match(code, text, c->len, c->at, PCRE2_NO_UTF_CHECK | PCRE2_NO_JIT, c->match,
                         limits);
    return rc == 0 ? 1 : rc; /* 0: a match with more groups than we keep */
}

/* At c->at and nowhere else. */
static int run_here(struct pattern_cursor *c) {
    const struct pattern *p = c->pattern;
    int rc = run(c, p->anchored, p->few);
    if (rc != PCRE2_ERROR_MATCHLIMIT) return rc;
    if (c->n_slow == SLOW_MATCHES_MAX) return rc;
    rc = run(c, p->anchored, p->many);
    const PCRE2_SIZE *bounds = pcre2_get_ovector_pointer(c->match);
    if (rc < 0 || bounds[1] < c->at + LONG_MATCH_BYTES) c->n_slow++;
    return rc;
}

/* Moves c->at to where it searched last. */
static int search(struct pattern_cursor *c) {
    size_t window = CAREFUL_BYTES, careful_end = c->at;
    for (;;) {
        if (c->at >= careful_end) {
            int rc = run(c, c->pattern->code, c->pattern->few);
            if (rc != PCRE2_ERROR_MATCHLIMIT) return rc;
            careful_end = c->at + window;
            window *= 2;
        }
        int rc = run_here(c);
        if (rc != PCRE2_ERROR_NOMATCH || c->at >= c->len) return rc;
        uint32_t ignored;
        c->at += utf8_decode(c->text + c->at, c->len - c->at, &ignored);
    }
}

static enum radish_status next_literal(struct pattern_cursor *c, bool *found_out, size_t *start_out,
                                       size_t *end_out) {
    const struct spec_str *literal = &c->pattern->literal;
    const char *hit = memmem(c->text + c->at, c->len - c->at, literal->data, literal->len);
    if (!hit) return RADISH_OK;
    *found_out = true;
    *start_out = (size_t)(hit - c->text);
    c->at = *end_out = *start_out + literal->len;
    return RADISH_OK;
}

enum radish_status pattern_cursor_next(struct pattern_cursor *c, bool *found_out, size_t *start_out,
                                       size_t *end_out, struct radish_error *err) {
    *found_out = false;
    if (!c->pattern->code) return next_literal(c, found_out, start_out, end_out);
    while (c->at <= c->len) {
        int rc = search(c);
        if (rc == PCRE2_ERROR_NOMATCH) break;
        if (rc == PCRE2_ERROR_NOMEMORY) return error_nomem(err);
        if (rc < 0)
            return error_set_at(
                err, RADISH_E_LIMIT, c->at,
                "the tokenizer's pattern takes too many steps on this text (PCRE2 error %d)", rc);
        const PCRE2_SIZE *bounds = pcre2_get_ovector_pointer(c->match);
        size_t start = bounds[0], end = bounds[1];
        if (start > end || start < c->at) break; /* \K games: no more matches */
        if (start == end && end == c->last_end) {
            uint32_t ignored;
            c->at += c->at < c->len ? utf8_decode(c->text + c->at, c->len - c->at, &ignored) : 1;
            continue;
        }
        c->at = c->last_end = end;
        *found_out = true;
        *start_out = start;
        *end_out = end;
        return RADISH_OK;
    }
    c->at = c->len + 1;
    return RADISH_OK;
}
