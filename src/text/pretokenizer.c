/* pretokenizer.c - steps in a row; a piece runs through all of them before the next is cut.
 *
 * The kinds that files know are compiled into a few operations: split (by a pattern or by a class
 * of characters, with what becomes of the matches), cut into words, scripts or lengths, put a space
 * in front, Metaspace's rewriting, the byte-level mapping. GPT-2's ByteLevel is three of them:
 * prefix space, split, map.
 *
 *   text --op 0--> piece --op 1--> piece --...--> sink (the model)      depth first
 *
 * An operation takes a piece of text and pushes what becomes of it. It may still lengthen the last
 * piece it pushed (push_segment), so one piece waits in the run until the next one comes or the
 * operation ends; then it goes to the next operation, and behind the last one to the sink. So no
 * list of pieces exists, which would cost four bytes per byte of text; operations that rewrite have
 * a buffer each, which holds what became of one piece.
 *
 * Metaspace may mark only what comes first. The library means pieces that begin with a character
 * made from the input's first one, and so a piece brings along how much of its start is that.
 *
 * The byte-level mapping, nearly always last, is not done at all then: the model looks its bytes
 * up directly (see bpe.c). In the middle (Falcon has it before Digits) it is done as written.
 *
 * Cost: one regex pass, ~100 MB/s. */
#include "pretokenizer.h"

#include "base/mem.h"
#include "base/status.h"
#include "base/utf8.h"
#include "byte_level.h"
#include "pattern.h"
#include "unicode.h"
#include "unicode_script.h"

#include <stdlib.h>
#include <string.h>

static const char GPT2_PATTERN[] = "'s|'t|'re|'ve|'m|'ll|'d| ?\\p{L}+| ?\\p{N}+|"
                                   " ?[^\\s\\p{L}\\p{N}]+|\\s+(?!\\S)|\\s+";

enum { OPS_MAX = SPEC_STEPS_MAX * 3 };

struct op;
struct run;
typedef enum radish_status (*op_fn)(struct run *run, const struct op *op, const char *s, size_t n,
                                    struct radish_error *err);

struct op {
    op_fn fn;
    bool rewrites; /* writes a new text */
    struct pattern *pattern;
    bool (*is_match)(uint32_t c); /* instead of a pattern: each such character is a match */
    enum spec_behavior behavior;
    bool is_inverted;
    struct spec_str replacement; /* a copy; [len] one character */
    enum spec_prepend prepend;
    uint32_t n_chars;
};

struct pretokenizer {
    uint32_t n_ops;
    struct op ops[OPS_MAX];
    bool is_byte_level;
};

/* What one call works with. */
struct pipeline {
    const struct pretokenizer *p;
    struct pretokenizer_scratch *scratch;
    pretokenizer_sink_fn sink;
    void *user;
    struct radish_error *err;
};

/* One operation over one piece. */
struct run {
    struct pipeline *pipeline;
    uint32_t op_idx;
    const char *text;     /* the piece; of operations that cut */
    struct buf *text_out; /* of operations that rewrite; empty at the start */
    struct pattern_cursor *cursor;
    size_t first_len; /* bytes of the piece that come from the input's first character */
    size_t first_out; /* and of text_out; set by operations that rewrite */
    bool rewrites;
    bool was_match;   /* of the segment before */
    bool has_pending; /* a piece that may still grow: */
    size_t pending_start, pending_len;
    enum radish_status status; /* of what the pieces met behind this operation */
};

/* ---- from one operation to the next */

static enum radish_status run_from(struct pipeline *pipeline, uint32_t op_idx, const char *s,
                                   size_t n, size_t first_len);

/* Empty matches give empty pieces, which count while joining but go no further. */
static void flush_piece(struct run *run) {
    const char *text = run->rewrites ? run->text_out->data : run->text;
    size_t first_end = run->rewrites ? run->first_out : run->first_len, start = run->pending_start;
    if (run->has_pending && run->pending_len && run->status == RADISH_OK) {
        if (run->text_out->failed)
            run->status = error_nomem(run->pipeline->err);
        else
            run->status = run_from(run->pipeline, run->op_idx + 1, text + start, run->pending_len,
                                   start < first_end ? first_end - start : 0);
    }
    run->has_pending = false;
}

/* [start, start + len) of the piece that is cut, or of text_out. */
static void push_piece(struct run *run, size_t start, size_t len) {
    flush_piece(run);
    run->has_pending = true;
    run->pending_start = start;
    run->pending_len = len;
}

/* Takes segment [start, end) of the current piece, a match or what lies between matches, and lets
 * it become a piece, or part of the one before, or nothing. */
static void push_segment(struct run *run, const struct op *op, size_t start, size_t end,
                         bool is_match) {
    is_match ^= op->is_inverted;
    bool has_last = run->has_pending, joins = false;
    switch (op->behavior) {
    case SPEC_BEHAVIOR_REMOVED:
        if (is_match) return;
        break;
    case SPEC_BEHAVIOR_MERGED_WITH_PREVIOUS: joins = has_last && is_match && !run->was_match; break;
    case SPEC_BEHAVIOR_MERGED_WITH_NEXT: joins = has_last && !is_match && run->was_match; break;
    case SPEC_BEHAVIOR_CONTIGUOUS: joins = has_last && is_match == run->was_match; break;
    default: break;
    }
    run->was_match = is_match;
    if (joins)
        run->pending_len += end - start;
    else
        push_piece(run, start, end - start);
}

/* ---- the operations */

static enum radish_status split_by_pattern(struct run *run, const struct op *op, const char *s,
                                           size_t n, struct radish_error *err) {
    size_t before = 0, start, end;
    bool found;
    pattern_cursor_start(run->cursor, s, n);
    for (;;) {
        RADISH_TRY(pattern_cursor_next(run->cursor, &found, &start, &end, err));
        if (!found || run->status != RADISH_OK) break;
        if (before != start) push_segment(run, op, before, start, /*is_match=*/false);
        push_segment(run, op, start, end, /*is_match=*/true);
        before = end;
    }
    if (before != n) push_segment(run, op, before, n, /*is_match=*/false);
    return RADISH_OK;
}

static enum radish_status split_by_class(struct run *run, const struct op *op, const char *s,
                                         size_t n, struct radish_error *err) {
    size_t before = 0;
    (void)err;
    for (size_t at = 0, len; at < n; at += len) {
        uint32_t c;
        len = utf8_decode(s + at, n - at, &c);
        if (!op->is_match(c)) continue;
        if (before != at) push_segment(run, op, before, at, /*is_match=*/false);
        push_segment(run, op, at, at + len, /*is_match=*/true);
        before = at + len;
    }
    if (before != n) push_segment(run, op, before, n, /*is_match=*/false);
    return RADISH_OK;
}

/* Runs of word characters, and runs of others that are no white space. */
static enum radish_status cut_words(struct run *run, const struct op *op, const char *s, size_t n,
                                    struct radish_error *err) {
    enum { SPACE, WORD, OTHER };
    int kind = SPACE;
    size_t start = 0;
    (void)op, (void)err;
    for (size_t at = 0, len; at < n; at += len) {
        uint32_t c;
        len = utf8_decode(s + at, n - at, &c);
        int next = unicode_is_space(c) ? SPACE : unicode_is_word(c) ? WORD : OTHER;
        if (kind == next) continue;
        if (kind != SPACE) push_piece(run, start, at - start);
        kind = next;
        start = at;
    }
    if (kind != SPACE) push_piece(run, start, n - start);
    return RADISH_OK;
}

/* Every n_chars characters; the last piece may be shorter. */
static enum radish_status cut_lengths(struct run *run, const struct op *op, const char *s, size_t n,
                                      struct radish_error *err) {
    size_t start = 0;
    uint32_t n_chars = 0;
    (void)err;
    for (size_t at = 0; at < n;) {
        uint32_t c;
        at += utf8_decode(s + at, n - at, &c);
        if (++n_chars < op->n_chars && at < n) continue;
        push_piece(run, start, at - start);
        start = at;
        n_chars = 0;
    }
    return RADISH_OK;
}

/* Where the script changes; spaces and characters without a script belong to what is before them.
 * Where nothing is before them they are lost, and so is a text of nothing else: the library's way.
 */
static enum radish_status cut_scripts(struct run *run, const struct op *op, const char *s, size_t n,
                                      struct radish_error *err) {
    size_t start = n;
    uint8_t last = UNICODE_SCRIPT_ANY;
    (void)op, (void)err;
    for (size_t at = 0, len; at < n; at += len) {
        uint32_t c;
        len = utf8_decode(s + at, n - at, &c);
        uint8_t script = unicode_script_class(c);
        if (script == UNICODE_SCRIPT_ANY || script == last) continue;
        if (start < n) push_piece(run, start, at - start);
        start = at;
        last = script;
    }
    if (start < n) push_piece(run, start, n - start);
    return RADISH_OK;
}

static enum radish_status put_prefix_space(struct run *run, const struct op *op, const char *s,
                                           size_t n, struct radish_error *err) {
    (void)op, (void)err;
    if (s[0] != ' ') buf_append_char(run->text_out, ' ');
    if (run->first_len) run->first_out = run->first_len + run->text_out->len;
    buf_append(run->text_out, s, n);
    push_piece(run, 0, run->text_out->len);
    return RADISH_OK;
}

static void append_marked(const struct spec_str *mark, const char *s, size_t n, struct buf *out) {
    for (size_t at = 0; at < n;) {
        const char *space = memchr(s + at, ' ', n - at);
        size_t end = space ? (size_t)(space - s) : n;
        buf_append(out, s + at, end - at);
        if (space) buf_append(out, mark->data, mark->len);
        at = end + 1;
    }
}

static enum radish_status put_metaspace(struct run *run, const struct op *op, const char *s,
                                        size_t n, struct radish_error *err) {
    const struct spec_str *mark = &op->replacement;
    size_t first = run->first_len < n ? run->first_len : n;
    bool starts_marked = s[0] == ' ' || (n >= mark->len && memcmp(s, mark->data, mark->len) == 0);
    (void)err;
    if (!starts_marked &&
        (op->prepend == SPEC_PREPEND_ALWAYS || (op->prepend == SPEC_PREPEND_FIRST && first)))
        buf_append(run->text_out, mark->data, mark->len);
    append_marked(mark, s, first, run->text_out);
    run->first_out = first ? run->text_out->len : 0;
    append_marked(mark, s + first, n - first, run->text_out);
    push_piece(run, 0, run->text_out->len);
    return RADISH_OK;
}

static enum radish_status map_bytes(struct run *run, const struct op *op, const char *s, size_t n,
                                    struct radish_error *err) {
    size_t first = run->first_len < n ? run->first_len : n;
    (void)op, (void)err;
    byte_level_append_chars(s, first, run->text_out);
    run->first_out = run->text_out->len;
    byte_level_append_chars(s + first, n - first, run->text_out);
    push_piece(run, 0, run->text_out->len);
    return RADISH_OK;
}

/* ---- create, destroy */

static struct op *add_op(struct pretokenizer *p, op_fn fn, bool rewrites) {
    struct op *op = &p->ops[p->n_ops++];
    op->fn = fn;
    op->rewrites = rewrites;
    return op;
}

static enum radish_status add_split(struct pretokenizer *p, const struct spec_pattern *pattern,
                                    enum spec_behavior behavior, bool is_inverted,
                                    struct radish_error *err) {
    struct op *op = add_op(p, split_by_pattern, /*rewrites=*/false);
    op->behavior = behavior;
    op->is_inverted = is_inverted;
    return pattern_create(pattern, &op->pattern, err);
}

static enum radish_status add_class_split(struct pretokenizer *p, bool (*is_match)(uint32_t c),
                                          enum spec_behavior behavior) {
    struct op *op = add_op(p, split_by_class, /*rewrites=*/false);
    op->is_match = is_match;
    op->behavior = behavior;
    return RADISH_OK;
}

static enum radish_status add_byte_level(struct pretokenizer *p,
                                         const struct spec_pretokenizer *spec, bool leaves_bytes,
                                         struct radish_error *err) {
    const struct spec_pattern gpt2 = {{GPT2_PATTERN, sizeof GPT2_PATTERN - 1}, .is_regex = true};
    if (spec->adds_prefix_space) add_op(p, put_prefix_space, /*rewrites=*/true);
    if (spec->uses_regex)
        RADISH_TRY(add_split(p, &gpt2, SPEC_BEHAVIOR_ISOLATED, /*is_inverted=*/false, err));
    if (leaves_bytes)
        p->is_byte_level = true;
    else
        add_op(p, map_bytes, /*rewrites=*/true);
    return RADISH_OK;
}

static enum radish_status add_metaspace(struct pretokenizer *p,
                                        const struct spec_pretokenizer *spec,
                                        struct radish_error *err) {
    const struct spec_pattern mark = {spec->replacement, .is_regex = false};
    if (utf8_count(spec->replacement.data, spec->replacement.len) != 1)
        return error_set(err, RADISH_E_FORMAT, "Metaspace's replacement must be one character");
    struct op *op = add_op(p, put_metaspace, /*rewrites=*/true);
    char *copy = mem_strndup(spec->replacement.data, spec->replacement.len);
    if (!copy) return error_nomem(err);
    op->replacement = (struct spec_str){copy, spec->replacement.len};
    op->prepend = spec->prepend;
    if (!spec->splits) return RADISH_OK;
    return add_split(p, &mark, SPEC_BEHAVIOR_MERGED_WITH_NEXT, /*is_inverted=*/false, err);
}

static enum radish_status add_fixed_length(struct pretokenizer *p, uint32_t n_chars,
                                           struct radish_error *err) {
    if (!n_chars) return error_set(err, RADISH_E_FORMAT, "FixedLength's length must not be 0");
    add_op(p, cut_lengths, /*rewrites=*/false)->n_chars = n_chars;
    return RADISH_OK;
}

static enum radish_status add_step(struct pretokenizer *p, const struct spec_pretokenizer *spec,
                                   bool leaves_bytes, struct radish_error *err) {
    switch (spec->kind) {
    case SPEC_PRETOKENIZER_SPLIT:
        return add_split(p, &spec->pattern, spec->behavior, spec->is_inverted, err);
    case SPEC_PRETOKENIZER_CHAR_DELIMITER:
        if (utf8_count(spec->pattern.text.data, spec->pattern.text.len) != 1)
            return error_set(err, RADISH_E_FORMAT, "the delimiter must be one character");
        return add_split(p, &spec->pattern, SPEC_BEHAVIOR_REMOVED, /*is_inverted=*/false, err);
    case SPEC_PRETOKENIZER_BYTE_LEVEL: return add_byte_level(p, spec, leaves_bytes, err);
    case SPEC_PRETOKENIZER_METASPACE: return add_metaspace(p, spec, err);
    case SPEC_PRETOKENIZER_DIGITS:
        return add_class_split(p, unicode_is_number,
                               spec->is_individual ? SPEC_BEHAVIOR_ISOLATED
                                                   : SPEC_BEHAVIOR_CONTIGUOUS);
    case SPEC_PRETOKENIZER_PUNCTUATION:
        return add_class_split(p, unicode_is_punctuation, spec->behavior);
    case SPEC_PRETOKENIZER_WHITESPACE_SPLIT:
        return add_class_split(p, unicode_is_space, SPEC_BEHAVIOR_REMOVED);
    case SPEC_PRETOKENIZER_BERT:
        RADISH_TRY(add_class_split(p, unicode_is_space, SPEC_BEHAVIOR_REMOVED));
        return add_class_split(p, unicode_is_punctuation, SPEC_BEHAVIOR_ISOLATED);
    case SPEC_PRETOKENIZER_UNICODE_SCRIPTS:
        add_op(p, cut_scripts, /*rewrites=*/false);
        return RADISH_OK;
    case SPEC_PRETOKENIZER_FIXED_LENGTH: return add_fixed_length(p, spec->n_chars, err);
    case SPEC_PRETOKENIZER_WHITESPACE: add_op(p, cut_words, /*rewrites=*/false); return RADISH_OK;
    case SPEC_PRETOKENIZER_COUNT: break;
    }
    return error_set(err, RADISH_E_INTERNAL, "kind %d", (int)spec->kind);
}

enum radish_status pretokenizer_create(const struct spec_pretokenizer *steps, uint32_t n,
                                       bool leaves_bytes, struct pretokenizer **pretokenizer_out,
                                       struct radish_error *err) {
    *pretokenizer_out = NULL;
    if (n > SPEC_STEPS_MAX)
        return error_set(err, RADISH_E_LIMIT, "%u pre-tokenizers; the limit is %d", n,
                         SPEC_STEPS_MAX);
    struct pretokenizer *p = calloc(1, sizeof *p);
    if (!p) return error_nomem(err);
    for (uint32_t i = 0; i < n; i++) {
        enum radish_status status = add_step(p, &steps[i], leaves_bytes && i + 1 == n, err);
        if (status == RADISH_OK) continue;
        error_prefix(err, "pre_tokenizer");
        pretokenizer_destroy(p);
        return status;
    }
    *pretokenizer_out = p;
    return RADISH_OK;
}

void pretokenizer_destroy(struct pretokenizer *p) {
    if (!p) return;
    for (uint32_t i = 0; i < p->n_ops; i++) {
        pattern_destroy(p->ops[i].pattern);
        free((char *)p->ops[i].replacement.data);
    }
    free(p);
}

bool pretokenizer_asks_first(const struct pretokenizer *p) {
    for (uint32_t i = 0; i < p->n_ops; i++)
        if (p->ops[i].fn == put_metaspace && p->ops[i].prepend == SPEC_PREPEND_FIRST) return true;
    return false;
}

bool pretokenizer_is_byte_level(const struct pretokenizer *p) {
    return p->is_byte_level;
}

void pretokenizer_scratch_deinit(struct pretokenizer_scratch *scratch) {
    for (uint32_t i = 0; i < scratch->n_stages; i++) {
        pattern_cursor_deinit(&scratch->stages[i].cursor);
        buf_deinit(&scratch->stages[i].text);
    }
    free(scratch->stages);
    *scratch = (struct pretokenizer_scratch){0};
}

/* ---- run */

static enum radish_status run_from(struct pipeline *pipeline, uint32_t op_idx, const char *s,
                                   size_t n, size_t first_len) {
    if (op_idx == pipeline->p->n_ops) return pipeline->sink(pipeline->user, s, n, pipeline->err);
    const struct op *op = &pipeline->p->ops[op_idx];
    struct pretokenizer_stage *stage = &pipeline->scratch->stages[op_idx];
    struct run run = {.pipeline = pipeline,
                      .op_idx = op_idx,
                      .text = s,
                      .text_out = &stage->text,
                      .cursor = &stage->cursor,
                      .rewrites = op->rewrites,
                      .first_len = first_len};
    buf_clear(run.text_out);
    enum radish_status status = op->fn(&run, op, s, n, pipeline->err);
    if (status == RADISH_OK) flush_piece(&run);
    return status == RADISH_OK ? run.status : status;
}

static enum radish_status prepare_scratch(const struct pretokenizer *p,
                                          struct pretokenizer_scratch *scratch,
                                          struct radish_error *err) {
    if (scratch->stages) return RADISH_OK;
    scratch->stages = mem_zalloc(p->n_ops, sizeof *scratch->stages);
    if (!scratch->stages) return error_nomem(err);
    scratch->n_stages = p->n_ops;
    for (uint32_t i = 0; i < p->n_ops; i++)
        if (p->ops[i].pattern)
            RADISH_TRY(pattern_cursor_init(&scratch->stages[i].cursor, p->ops[i].pattern, err));
    return RADISH_OK;
}

enum radish_status pretokenizer_run(const struct pretokenizer *p, const char *text, size_t len,
                                    size_t first_len, struct pretokenizer_scratch *scratch,
                                    pretokenizer_sink_fn sink, void *user,
                                    struct radish_error *err) {
    struct pipeline pipeline = {p, scratch, sink, user, err};
    RADISH_TRY(prepare_scratch(p, scratch, err));
    return len ? run_from(&pipeline, 0, text, len, first_len) : RADISH_OK;
}
