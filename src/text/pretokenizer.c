/* pretokenizer.c - a list of pieces, cut finer by each step.
 *
 * The kinds that files know are compiled into five operations: split (by a pattern or by a class of
 * characters, with what becomes of the matches), cut into words, put a space in front, Metaspace's
 * rewriting, and the byte-level mapping. GPT-2's ByteLevel is three of them: prefix space, split,
 * map. Operations that only cut leave the text alone and write a new list of (start, len); those
 * that rewrite also write a new text. Lists and texts alternate between two of each.
 *
 * The byte-level mapping, nearly always last, is not done at all then: the model looks its bytes
 * up directly (see bpe.c). In the middle (Falcon has it before Digits) it is done as written.
 *
 * Cost: one regex pass, ~100 MB/s; 16 bytes per piece. */
#include "pretokenizer.h"

#include "base/mem.h"
#include "base/status.h"
#include "base/utf8.h"
#include "byte_level.h"
#include "pattern.h"
#include "unicode.h"

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
};

struct pretokenizer {
    uint32_t n_ops;
    struct op ops[OPS_MAX];
    bool is_byte_level;
};

/* One operation over all pieces. */
struct run {
    struct piece_list *out;
    struct buf *text_out; /* of operations that rewrite */
    struct pattern_cursor cursor;
    size_t piece_start; /* of the piece being cut, in its text */
    size_t n_before;    /* pieces in `out` when it began */
    bool is_first;      /* the piece starts where the input started */
    bool was_match;     /* of the segment before, in this piece */
    bool failed;        /* out of memory */
};

/* ---- lists of pieces */

static void push_piece(struct run *run, size_t start, size_t len) {
    struct piece_list *list = run->out;
    if (list->n_pieces == list->capacity) {
        size_t capacity = list->capacity ? list->capacity * 2 : 64, bytes;
        struct piece *pieces =
            mem_mul(capacity, sizeof *pieces, &bytes) ? realloc(list->pieces, bytes) : NULL;
        if (!pieces) {
            run->failed = true;
            return;
        }
        list->pieces = pieces;
        list->capacity = capacity;
    }
    list->pieces[list->n_pieces++] = (struct piece){start, len};
}

/* Takes segment [start, end) of the current piece, a match or what lies between matches, and lets
 * it become a piece, or part of the one before, or nothing. */
static void push_segment(struct run *run, const struct op *op, size_t start, size_t end,
                         bool is_match) {
    is_match ^= op->is_inverted;
    bool has_last = run->out->n_pieces > run->n_before, joins = false;
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
        run->out->pieces[run->out->n_pieces - 1].len += end - start;
    else
        push_piece(run, run->piece_start + start, end - start);
}

/* Empty matches give empty pieces, which count while joining but do not stay. */
static void drop_empty_pieces(struct run *run) {
    struct piece_list *list = run->out;
    size_t kept = run->n_before;
    for (size_t i = run->n_before; i < list->n_pieces; i++)
        if (list->pieces[i].len) list->pieces[kept++] = list->pieces[i];
    list->n_pieces = kept;
}

/* ---- the operations */

static enum radish_status split_by_pattern(struct run *run, const struct op *op, const char *s,
                                           size_t n, struct radish_error *err) {
    size_t before = 0, start, end;
    bool found;
    pattern_cursor_start(&run->cursor, s, n);
    for (;;) {
        RADISH_TRY(pattern_cursor_next(&run->cursor, &found, &start, &end, err));
        if (!found) break;
        if (before != start) push_segment(run, op, before, start, /*is_match=*/false);
        push_segment(run, op, start, end, /*is_match=*/true);
        before = end;
    }
    if (before != n) push_segment(run, op, before, n, /*is_match=*/false);
    drop_empty_pieces(run);
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
        if (kind != SPACE) push_piece(run, run->piece_start + start, at - start);
        kind = next;
        start = at;
    }
    if (kind != SPACE) push_piece(run, run->piece_start + start, n - start);
    return RADISH_OK;
}

static enum radish_status put_prefix_space(struct run *run, const struct op *op, const char *s,
                                           size_t n, struct radish_error *err) {
    size_t start = run->text_out->len;
    (void)op, (void)err;
    if (s[0] != ' ') buf_append_char(run->text_out, ' ');
    buf_append(run->text_out, s, n);
    push_piece(run, start, run->text_out->len - start);
    return RADISH_OK;
}

static enum radish_status put_metaspace(struct run *run, const struct op *op, const char *s,
                                        size_t n, struct radish_error *err) {
    const struct spec_str *mark = &op->replacement;
    size_t start = run->text_out->len;
    bool starts_marked = s[0] == ' ' || (n >= mark->len && memcmp(s, mark->data, mark->len) == 0);
    (void)err;
    if (!starts_marked && (op->prepend == SPEC_PREPEND_ALWAYS ||
                           (op->prepend == SPEC_PREPEND_FIRST && run->is_first)))
        buf_append(run->text_out, mark->data, mark->len);
    for (size_t at = 0; at < n;) {
        const char *space = memchr(s + at, ' ', n - at);
        size_t end = space ? (size_t)(space - s) : n;
        buf_append(run->text_out, s + at, end - at);
        if (space) buf_append(run->text_out, mark->data, mark->len);
        at = end + 1;
    }
    push_piece(run, start, run->text_out->len - start);
    return RADISH_OK;
}

static enum radish_status map_bytes(struct run *run, const struct op *op, const char *s, size_t n,
                                    struct radish_error *err) {
    size_t start = run->text_out->len;
    (void)op, (void)err;
    byte_level_append_chars(s, n, run->text_out);
    push_piece(run, start, run->text_out->len - start);
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
                                         const struct spec_pretokenizer *spec, bool is_last,
                                         struct radish_error *err) {
    const struct spec_pattern gpt2 = {{GPT2_PATTERN, sizeof GPT2_PATTERN - 1}, .is_regex = true};
    if (spec->adds_prefix_space) add_op(p, put_prefix_space, /*rewrites=*/true);
    if (spec->uses_regex)
        RADISH_TRY(add_split(p, &gpt2, SPEC_BEHAVIOR_ISOLATED, /*is_inverted=*/false, err));
    if (is_last)
        p->is_byte_level = true;
    else
        add_op(p, map_bytes, /*rewrites=*/true);
    return RADISH_OK;
}

static enum radish_status add_metaspace(struct pretokenizer *p,
                                        const struct spec_pretokenizer *spec,
                                        struct radish_error *err) {
    const struct spec_pattern mark = {spec->replacement, .is_regex = false};
    if (!spec->replacement.len || spec->replacement.len > 4)
        return error_set(err, RADISH_E_FORMAT, "Metaspace's replacement must be one character");
    struct op *op = add_op(p, put_metaspace, /*rewrites=*/true);
    char *copy = mem_strndup(spec->replacement.data, spec->replacement.len);
    if (!copy) return error_nomem(err);
    op->replacement = (struct spec_str){copy, spec->replacement.len};
    op->prepend = spec->prepend;
    if (!spec->splits) return RADISH_OK;
    return add_split(p, &mark, SPEC_BEHAVIOR_MERGED_WITH_NEXT, /*is_inverted=*/false, err);
}

static enum radish_status add_step(struct pretokenizer *p, const struct spec_pretokenizer *spec,
                                   bool is_last, struct radish_error *err) {
    switch (spec->kind) {
    case SPEC_PRETOKENIZER_SPLIT:
        return add_split(p, &spec->pattern, spec->behavior, spec->is_inverted, err);
    case SPEC_PRETOKENIZER_CHAR_DELIMITER:
        return add_split(p, &spec->pattern, SPEC_BEHAVIOR_REMOVED, /*is_inverted=*/false, err);
    case SPEC_PRETOKENIZER_BYTE_LEVEL: return add_byte_level(p, spec, is_last, err);
    case SPEC_PRETOKENIZER_METASPACE: return add_metaspace(p, spec, err);
    case SPEC_PRETOKENIZER_DIGITS:
        return add_class_split(p, unicode_is_number,
                               spec->is_individual ? SPEC_BEHAVIOR_ISOLATED
                                                   : SPEC_BEHAVIOR_CONTIGUOUS);
    case SPEC_PRETOKENIZER_PUNCTUATION:
        return add_class_split(p, unicode_is_punctuation, spec->behavior);
    case SPEC_PRETOKENIZER_WHITESPACE_SPLIT:
        return add_class_split(p, unicode_is_space, SPEC_BEHAVIOR_REMOVED);
    case SPEC_PRETOKENIZER_WHITESPACE: add_op(p, cut_words, /*rewrites=*/false); return RADISH_OK;
    case SPEC_PRETOKENIZER_COUNT: break;
    }
    return error_set(err, RADISH_E_INTERNAL, "kind %d", (int)spec->kind);
}

enum radish_status pretokenizer_create(const struct spec_pretokenizer *steps, uint32_t n,
                                       struct pretokenizer **pretokenizer_out,
                                       struct radish_error *err) {
    *pretokenizer_out = NULL;
    if (n > SPEC_STEPS_MAX)
        return error_set(err, RADISH_E_LIMIT, "%u pre-tokenizers; the limit is %d", n,
                         SPEC_STEPS_MAX);
    struct pretokenizer *p = calloc(1, sizeof *p);
    if (!p) return error_nomem(err);
    for (uint32_t i = 0; i < n; i++) {
        enum radish_status status = add_step(p, &steps[i], i + 1 == n, err);
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

bool pretokenizer_is_byte_level(const struct pretokenizer *p) {
    return p->is_byte_level;
}

void pretokenizer_scratch_deinit(struct pretokenizer_scratch *scratch) {
    for (int i = 0; i < 2; i++) {
        free(scratch->lists[i].pieces);
        buf_deinit(&scratch->texts[i]);
    }
    *scratch = (struct pretokenizer_scratch){0};
}

/* ---- run */

static enum radish_status run_op(const struct op *op, const struct piece_list *in, bool is_first,
                                 struct piece_list *out, struct buf *text_out,
                                 struct radish_error *err) {
    struct run run = {.out = out, .text_out = text_out};
    enum radish_status status = RADISH_OK;
    out->n_pieces = 0;
    if (op->rewrites) buf_clear(text_out);
    if (op->pattern) RADISH_TRY(pattern_cursor_init(&run.cursor, op->pattern, err));
    for (size_t i = 0; i < in->n_pieces && status == RADISH_OK; i++) {
        run.piece_start = in->pieces[i].start;
        run.n_before = out->n_pieces;
        run.is_first = is_first && i == 0 && run.piece_start == 0;
        run.was_match = false;
        status = op->fn(&run, op, in->text + run.piece_start, in->pieces[i].len, err);
    }
    pattern_cursor_deinit(&run.cursor);
    if (status == RADISH_OK && (run.failed || text_out->failed)) status = error_nomem(err);
    out->text = op->rewrites ? text_out->data : in->text;
    return status;
}

enum radish_status pretokenizer_run(const struct pretokenizer *p, const char *text, size_t len,
                                    bool is_first, struct pretokenizer_scratch *scratch,
                                    const struct piece_list **pieces_out,
                                    struct radish_error *err) {
    struct piece_list *in = &scratch->lists[0];
    struct run whole = {.out = in};
    unsigned list_idx = 0, text_idx = 0;
    in->text = text;
    in->n_pieces = 0;
    if (len) push_piece(&whole, 0, len);
    if (whole.failed) return error_nomem(err);
    for (uint32_t i = 0; i < p->n_ops; i++) {
        struct piece_list *out = &scratch->lists[list_idx ^= 1];
        RADISH_TRY(run_op(&p->ops[i], in, is_first, out, &scratch->texts[text_idx], err));
        if (p->ops[i].rewrites) text_idx ^= 1;
        in = out;
    }
    *pieces_out = in;
    return RADISH_OK;
}
