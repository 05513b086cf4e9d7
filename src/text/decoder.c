/* decoder.c - the steps of a decoder as a chain that texts flow through.
 *
 *   token --> Replace --> ByteFallback --> Fuse --> Strip --> out
 *
 * The tokenizers library decodes a whole list at once: each step maps a list of strings to a list
 * of strings, which are joined at the end. Here a step takes one string and hands what it can to
 * the next, keeping as little as makes the sum the same: ByteLevel the start of a character,
 * ByteFallback a run of byte tokens (the run is text only if all of it is valid, else each byte is
 * a U+FFFD), Strip the characters at the end that it may have to take off, BPEDecoder the last
 * token (the end of its last word is no space), CTC the last token (a second one like it is
 * dropped). So a stream gives exactly what decoding everything gives, and there is no second copy
 * of the rules.
 *
 * Fuse and ByteLevel make one string of all tokens: what follows them in the chain sees text that
 * goes on, not tokens. Steps that would then need all of it (a regular expression, byte tokens) are
 * refused; no published tokenizer has them there. A run of byte tokens that has gone wrong gives a
 * U+FFFD per byte at once; one of valid text longer than RUN_BYTES_MAX is shown up to there, so
 * that memory stays bounded and a reader is not kept waiting: the one case where what comes later
 * (a broken character, kilobytes on) can no longer change what the library would. */
#include "decoder.h"

#include "base/status.h"
#include "base/utf8.h"
#include "byte_level.h"
#include "pattern.h"

#include <stdlib.h>
#include <string.h>

enum { RUN_BYTES_MAX = 1024, RESERVED_TOKEN_BYTES_MAX = 4096 };

struct step {
    enum spec_decoder_kind kind;
    struct pattern *pattern;
    struct buf content; /* NUL-terminated, or data NULL */
    struct buf delimiter;
    uint32_t n_start, n_stop;
    enum spec_prepend prepend;
    bool cleans_up;
    bool is_fused;     /* all text before this step is one string */
    bool feeds_a_fuse; /* tokens may be handed on in parts: what follows joins them at once */
};

struct decoder {
    uint32_t n_steps;
    struct step steps[SPEC_STEPS_MAX];
};

/* A walk of one string through the steps from `idx` on. */
struct flow {
    const struct decoder *decoder;
    struct decoder_state *state;
    uint32_t idx;
};

static void flow_on(const struct flow *from, const char *s, size_t n);

/* ---- single steps, on one string */

static void replace(const struct step *step, const char *s, size_t n, struct buf *out) {
    struct pattern_cursor cursor;
    size_t copied = 0, start, end;
    bool found = false;
    if (!n) return; /* Nothing is found in nothing, not even "^". */
    if (pattern_cursor_init(&cursor, step->pattern, NULL) != RADISH_OK) {
        out->failed = true;
        return;
    }
    pattern_cursor_start(&cursor, s, n);
    while (pattern_cursor_next(&cursor, &found, &start, &end, NULL) == RADISH_OK && found) {
        buf_append(out, s + copied, start - copied);
        buf_append(out, step->content.data, step->content.len);
        copied = end;
    }
    buf_append(out, s + copied, n - copied);
    pattern_cursor_deinit(&cursor);
}

static bool is_content(const struct step *step, const char *s, size_t n) {
    size_t len = step->content.len;
    return len && n >= len && memcmp(s, step->content.data, len) == 0;
}

static struct spec_str strip(const struct step *step, const char *s, size_t n) {
    size_t len = step->content.len;
    for (uint32_t i = 0; i < step->n_start && is_content(step, s, n); i++) {
        s += len;
        n -= len;
    }
    for (uint32_t i = 0; i < step->n_stop && n >= len && is_content(step, s + n - len, len); i++)
        n -= len;
    return (struct spec_str){s, n};
}

/* Every mark becomes a space, or nothing where the text starts. */
static void unmark(const struct step *step, bool is_start, const char *s, size_t n,
                   struct buf *out) {
    for (size_t at = 0, len; at < n; at += len) {
        uint32_t c;
        len = utf8_decode(s + at, n - at, &c);
        if (len != step->content.len || !is_content(step, s + at, n - at))
            buf_append(out, s + at, len);
        else if (!is_start)
            buf_append_char(out, ' ');
    }
}

/* "<0x0A>" is 10, and so is "<0x+A>", by the number parser of the library; -1: not a byte token. */
static int byte_of(const char *s, size_t n) {
    int byte = 0;
    if (n != 6 || memcmp(s, "<0x", 3) != 0 || s[5] != '>') return -1;
    for (int i = s[3] == '+' ? 4 : 3; i < 5; i++) {
        int digit = s[i] >= '0' && s[i] <= '9'   ? s[i] - '0'
                    : s[i] >= 'A' && s[i] <= 'F' ? s[i] - 'A' + 10
                    : s[i] >= 'a' && s[i] <= 'f' ? s[i] - 'a' + 10
                                                 : -1;
        if (digit < 0) return -1;
        byte = byte * 16 + digit;
    }
    return byte;
}

/* Every `from` becomes `to`; an empty `from` is found around every character, as Rust has it. */
static void replace_literal(const char *s, size_t n, const struct spec_str *from, const char *to,
                            struct buf *out) {
    size_t at = 0, len = 0;
    while (at < n && from->len) {
        const char *hit = memmem(s + at, n - at, from->data, from->len);
        size_t end = hit ? (size_t)(hit - s) : n;
        buf_append(out, s + at, end - at);
        if (!hit) return;
        buf_append_str(out, to);
        at = end + from->len;
    }
    if (from->len) return;
    buf_append_str(out, to);
    for (; at < n; at += len) {
        uint32_t c;
        len = utf8_decode(s + at, n - at, &c);
        buf_append(out, s + at, len);
        buf_append_str(out, to);
    }
}

/* English as it is written: no space before punctuation and contractions. One rule after the other,
 * each over the whole token, in text and with the help of other. */
static void clean_up(struct buf *text, struct buf *other) {
    static const char *const rules[][2] = {
        {" .", "."},   {" ?", "?"},     {" !", "!"},     {" ,", ","},
        {" ' ", "'"},  {" n't", "n't"}, {" 'm", "'m"},   {" do not", " don't"},
        {" 's", "'s"}, {" 've", "'ve"}, {" 're", "'re"},
    };
    for (size_t i = 0; i < sizeof rules / sizeof *rules; i++) {
        const struct spec_str from = {rules[i][0], strlen(rules[i][0])};
        if (!text->len || !memchr(text->data, ' ', text->len)) return;
        buf_clear(other);
        replace_literal(text->data, text->len, &from, rules[i][1], other);
        struct buf swapped = *text;
        *text = *other;
        *other = swapped;
    }
}

static struct spec_str view(const struct buf *b) {
    return (struct spec_str){b->data ? b->data : "", b->len};
}

/* A buffer lent to one step: those behind it may want one, too, and get the next. */
static struct buf *take_scratch(struct decoder_state *state) {
    return &state->scratch[state->n_lent++];
}

static void give_scratch(struct decoder_state *state) {
    struct buf *scratch = &state->scratch[--state->n_lent];
    if (scratch->failed) state->out->failed = true;
    buf_clear(scratch);
}

/* A word is set off by a space, unless the text starts with it. */
static void join_wordpiece(const struct step *step, bool is_start, const char *s, size_t n,
                           struct buf *out, struct buf *other) {
    size_t len = step->content.len;
    bool continues = n >= len && (!len || memcmp(s, step->content.data, len) == 0);
    if (!is_start && continues) {
        s += len;
        n -= len;
    } else if (!is_start) {
        buf_append_char(out, ' ');
    }
    buf_append(out, s, n);
    if (step->cleans_up) clean_up(out, other);
}

/* Pads go, and a delimiter is a space (where texts are cleaned up at all). */
static void unpad_ctc(const struct step *step, const char *s, size_t n, struct buf *out,
                      struct buf *other) {
    const struct spec_str pad = view(&step->content), delimiter = view(&step->delimiter);
    replace_literal(s, n, &pad, "", out);
    if (step->cleans_up) {
        clean_up(out, other);
        buf_clear(other);
        replace_literal(out->data, out->len, &delimiter, " ", other);
        buf_clear(out);
        buf_append(out, other->data, other->len);
    }
}

/* ---- the same in a stream */

/* Joins the bytes to what is left of the last character and passes whole characters on. */
static void flow_bytes(const struct flow *flow, const char *s, size_t n) {
    struct decoder_state *state = flow->state;
    size_t done = 0, valid;
    uint32_t c;
    while (state->n_partial && done < n) {
        char joined[8];
        size_t n_joined = state->n_partial, len;
        memcpy(joined, state->partial, n_joined);
        for (size_t i = done; i < n && n_joined < 4; i++) joined[n_joined++] = s[i];
        len = utf8_decode_partial(joined, n_joined, &c);
        if (!len) { /* still not whole: then all of s is in it */
            memcpy(state->partial, joined, n_joined);
            state->n_partial = n_joined;
            return;
        }
        done += len > state->n_partial ? len - state->n_partial : 0;
        state->n_partial = 0;
        if (c == UTF8_REPLACEMENT)
            flow_on(flow, "\xEF\xBF\xBD", 3);
        else
            flow_on(flow, joined, len);
    }
    while (done < n) {
        valid = utf8_valid_prefix(s + done, n - done);
        if (valid) flow_on(flow, s + done, valid);
        done += valid;
        if (done == n) return;
        size_t len = utf8_decode_partial(s + done, n - done, &c);
        if (!len) {
            state->n_partial = n - done;
            memcpy(state->partial, s + done, n - done);
            return;
        }
        flow_on(flow, "\xEF\xBF\xBD", 3);
        done += len;
    }
}

static void flush_partial(const struct flow *flow) {
    if (flow->state->n_partial) flow_on(flow, "\xEF\xBF\xBD", 3);
    flow->state->n_partial = 0;
}

/* U+FFFD may be written out: EF BF BD is no error. */
static bool is_replacement(const struct buf *run, size_t at) {
    return run->len - at == 3 && memcmp(run->data + at, "\xEF\xBF\xBD", 3) == 0;
}

static void flow_replacements(const struct flow *flow, size_t n) {
    for (size_t i = 0; i < n; i++) flow_on(flow, "\xEF\xBF\xBD", 3);
}

/* The run has ended. */
static void flush_run(const struct flow *flow) {
    struct decoder_state *state = flow->state;
    if (state->n_whole < state->run.len)
        flow_replacements(flow, state->run.len);
    else if (state->run.len)
        flow_on(flow, state->run.data, state->run.len);
    buf_clear(&state->run);
    state->n_whole = 0;
    state->is_run_bad = false;
}

static void flow_fallback(const struct flow *flow, const char *s, size_t n) {
    struct decoder_state *state = flow->state;
    struct buf *run = &state->run;
    int byte = byte_of(s, n);
    uint32_t c;
    if (byte < 0) {
        flush_run(flow);
        flow_on(flow, s, n);
        return;
    }
    buf_append_char(run, (char)byte);
    if (run->failed) {
        state->out->failed = true;
        return;
    }
    size_t len = utf8_decode_partial(run->data + state->n_whole, run->len - state->n_whole, &c);
    state->is_run_bad |= len && c == UTF8_REPLACEMENT && !is_replacement(run, state->n_whole);
    if (state->is_run_bad) { /* whatever follows: every byte of the run is one */
        flow_replacements(flow, run->len);
        buf_clear(run);
        state->n_whole = 0;
        return;
    }
    state->n_whole += len;
    if (run->len < RUN_BYTES_MAX || !len) return;
    flow_on(flow, run->data, run->len);
    buf_clear(run);
    state->n_whole = 0;
}

/* Strip over text that goes on: the start is known, the end is always just behind. */
static void flow_strip(const struct flow *flow, const char *s, size_t n) {
    const struct step *step = &flow->decoder->steps[flow->idx];
    struct decoder_step_state *state = &flow->state->steps[flow->idx];
    for (size_t at = 0, len; at < n; at += len) {
        uint32_t c;
        len = utf8_decode(s + at, n - at, &c);
        bool is_cut = is_content(step, s + at, len);
        if (!state->is_inside && is_cut && state->n_cut < step->n_start) {
            state->n_cut++;
            continue;
        }
        state->is_inside = true;
        if (is_cut && state->n_held < step->n_stop) {
            state->n_held++;
            continue;
        }
        if (!is_cut)
            for (; state->n_held; state->n_held--)
                flow_on(flow, step->content.data, step->content.len);
        flow_on(flow, s + at, len);
    }
}

static void flow_byte_level(const struct flow *flow, const char *s, size_t n) {
    struct buf *bytes = take_scratch(flow->state);
    if (!byte_level_append_bytes(s, n, bytes)) buf_append(bytes, s, n);
    flow_bytes(flow, bytes->data, bytes->len);
    give_scratch(flow->state);
}

static void flow_replace(const struct flow *flow, const char *s, size_t n) {
    struct buf *text = take_scratch(flow->state);
    replace(&flow->decoder->steps[flow->idx], s, n, text);
    flow_on(flow, text->data, text->len);
    give_scratch(flow->state);
}

static void flow_metaspace(const struct flow *flow, const char *s, size_t n) {
    const struct step *step = &flow->decoder->steps[flow->idx];
    struct decoder_step_state *state = &flow->state->steps[flow->idx];
    struct buf *text = take_scratch(flow->state);
    bool is_start = step->is_fused || state->n_tokens == 0;
    state->n_tokens = 1;
    unmark(step, is_start && step->prepend != SPEC_PREPEND_NEVER, s, n, text);
    flow_on(flow, text->data, text->len);
    give_scratch(flow->state);
}

static void flow_wordpiece(const struct flow *flow, const char *s, size_t n) {
    const struct step *step = &flow->decoder->steps[flow->idx];
    struct decoder_step_state *state = &flow->state->steps[flow->idx];
    struct buf *text = take_scratch(flow->state), *other = take_scratch(flow->state);
    join_wordpiece(step, step->is_fused || state->n_tokens == 0, s, n, text, other);
    give_scratch(flow->state);
    state->n_tokens = 1;
    flow_on(flow, text->data, text->len);
    give_scratch(flow->state);
}

/* The token that waits is not the last, or it is: then no space ends it. */
static void flush_word(const struct flow *flow, const char *end) {
    const struct step *step = &flow->decoder->steps[flow->idx];
    struct decoder_step_state *state = &flow->state->steps[flow->idx];
    const struct spec_str suffix = view(&step->content);
    if (!state->n_held) return;
    struct buf *text = take_scratch(flow->state);
    replace_literal(flow->state->word.data, flow->state->word.len, &suffix, end, text);
    state->n_held = 0;
    flow_on(flow, text->data, text->len);
    give_scratch(flow->state);
}

static void flow_bpe(const struct flow *flow, const char *s, size_t n) {
    const struct step *step = &flow->decoder->steps[flow->idx];
    struct buf *word = &flow->state->word;
    const char *suffix = NULL;
    size_t shown = 0, len = step->content.len;
    if (step->is_fused) { /* One token, the last: a suffix of one character goes. */
        const struct spec_str from = view(&step->content);
        struct buf *text = take_scratch(flow->state);
        replace_literal(s, n, &from, "", text);
        flow_on(flow, text->data, text->len);
        give_scratch(flow->state);
        return;
    }
    flush_word(flow, " ");
    if (step->feeds_a_fuse && len) {
        if (n) suffix = memmem(s, n, step->content.data, len);
        shown = suffix ? (size_t)(suffix - s) : n;
        flow_on(flow, s, shown);
    }
    buf_clear(word);
    buf_append(word, s + shown, n - shown);
    if (word->failed) flow->state->out->failed = true;
    flow->state->steps[flow->idx].n_held = 1;
}

static void flow_ctc(const struct flow *flow, const char *s, size_t n) {
    const struct step *step = &flow->decoder->steps[flow->idx];
    struct decoder_step_state *state = &flow->state->steps[flow->idx];
    struct buf *last = &flow->state->last;
    if (state->n_tokens && last->len == n && (!n || memcmp(last->data, s, n) == 0)) return;
    state->n_tokens = 1;
    buf_clear(last);
    buf_append(last, s, n);
    if (last->failed) flow->state->out->failed = true;
    struct buf *text = take_scratch(flow->state), *other = take_scratch(flow->state);
    unpad_ctc(step, s, n, text, other);
    give_scratch(flow->state);
    if (text->len) flow_on(flow, text->data, text->len);
    give_scratch(flow->state);
}

/* Through step flow->idx. */
static void flow_step(const struct flow *flow, const char *s, size_t n) {
    const struct step *step = &flow->decoder->steps[flow->idx];
    struct spec_str stripped;
    switch (step->kind) {
    case SPEC_DECODER_FUSE: flow_on(flow, s, n); return;
    case SPEC_DECODER_BYTE_FALLBACK: flow_fallback(flow, s, n); return;
    case SPEC_DECODER_BYTE_LEVEL: flow_byte_level(flow, s, n); return;
    case SPEC_DECODER_REPLACE: flow_replace(flow, s, n); return;
    case SPEC_DECODER_METASPACE: flow_metaspace(flow, s, n); return;
    case SPEC_DECODER_WORDPIECE: flow_wordpiece(flow, s, n); return;
    case SPEC_DECODER_BPE: flow_bpe(flow, s, n); return;
    case SPEC_DECODER_CTC: flow_ctc(flow, s, n); return;
    case SPEC_DECODER_STRIP:
        if (step->is_fused) {
            flow_strip(flow, s, n);
            return;
        }
        stripped = strip(step, s, n);
        flow_on(flow, stripped.data, stripped.len);
        return;
    case SPEC_DECODER_COUNT: return;
    }
}

/* Hands s to the step behind from->idx, or to the output. */
static void flow_on(const struct flow *from, const char *s, size_t n) {
    struct flow next = {from->decoder, from->state, from->idx + 1};
    if (!s) s = ""; /* an empty buffer's */
    if (next.idx < next.decoder->n_steps)
        flow_step(&next, s, n);
    else
        buf_append(from->state->out, s, n);
}

/* ---- create, destroy */

/* What a step cannot do where it stands, or NULL. Behind a step that fuses all tokens there is one
 * text without end: what needs to see all of it, or tokens, has to stand before. */
static const char *find_problem(const struct decoder *d, const struct step *step,
                                const struct spec_decoder *spec) {
    static const char *const before =
        "behind a step that fuses all tokens (it works in front of it)";
    bool is_literal =
        !spec->pattern.is_regex && utf8_count(spec->pattern.text.data, spec->pattern.text.len) == 1;
    switch (step->kind) {
    case SPEC_DECODER_BYTE_LEVEL:
    case SPEC_DECODER_BYTE_FALLBACK:
    case SPEC_DECODER_CTC:
        if (step->is_fused) return before;
        break;
    case SPEC_DECODER_BPE:
        if (step->is_fused && utf8_count(step->content.data, step->content.len) > 1) return before;
        break;
    case SPEC_DECODER_WORDPIECE:
        if (step->is_fused && step->cleans_up) return before;
        return NULL;
    case SPEC_DECODER_REPLACE:
        if (step->is_fused && !is_literal)
            return "of more than one character, behind a step that fuses all tokens (it works in "
                   "front of it)";
        return NULL;
    default: return NULL;
    }
    for (uint32_t i = 0; i + 1 < d->n_steps; i++)
        if (d->steps[i].kind == step->kind && !step->is_fused) return "a second time (once works)";
    return NULL;
}

static enum radish_status check_place(const struct decoder *d, const struct step *step,
                                      const struct spec_decoder *spec, struct radish_error *err) {
    static const char *const names[] = {
#define SPEC_NAME(suffix, name) [SPEC_DECODER_##suffix] = name,
        SPEC_DECODER_TABLE(SPEC_NAME)
#undef SPEC_NAME
    };
    const char *problem = find_problem(d, step, spec);
    if (!problem) return RADISH_OK;
    return error_set(err, RADISH_E_UNSUPPORTED, "decoder %s: %s", names[step->kind], problem);
}

static enum radish_status add_step(struct decoder *d, const struct spec_decoder *spec,
                                   bool is_fused, struct radish_error *err) {
    struct step *step = &d->steps[d->n_steps++];
    *step = (struct step){.kind = spec->kind,
                          .n_start = spec->n_start,
                          .n_stop = spec->n_stop,
                          .prepend = spec->prepend,
                          .cleans_up = spec->cleans_up,
                          .is_fused = is_fused};
    buf_append(&step->content, spec->content.data, spec->content.len);
    buf_append(&step->delimiter, spec->delimiter.data, spec->delimiter.len);
    if (step->content.failed || step->delimiter.failed) return error_nomem(err);
    if (spec->kind == SPEC_DECODER_REPLACE)
        RADISH_TRY(pattern_create(&spec->pattern, &step->pattern, err));
    if ((spec->kind == SPEC_DECODER_STRIP || spec->kind == SPEC_DECODER_METASPACE) &&
        utf8_count(spec->content.data, spec->content.len) != 1)
        return error_set(err, RADISH_E_FORMAT, "decoder: content must be one character");
    return check_place(d, step, spec, err);
}

enum radish_status decoder_create(const struct spec_decoder *steps, uint32_t n,
                                  struct decoder **decoder_out, struct radish_error *err) {
    bool is_fused = false;
    *decoder_out = NULL;
    if (n > SPEC_STEPS_MAX)
        return error_set(err, RADISH_E_LIMIT, "%u decoders; the limit is %d", n, SPEC_STEPS_MAX);
    struct decoder *d = calloc(1, sizeof *d);
    if (!d) return error_nomem(err);
    for (uint32_t i = 0; i < n; i++) {
        enum spec_decoder_kind kind = steps[i].kind;
        enum radish_status status = add_step(d, &steps[i], is_fused, err);
        if (status != RADISH_OK) {
            decoder_destroy(d);
            return status;
        }
        is_fused |= kind == SPEC_DECODER_FUSE || kind == SPEC_DECODER_BYTE_LEVEL;
        d->steps[i].feeds_a_fuse = i + 1 == n || steps[i + 1].kind == SPEC_DECODER_FUSE;
    }
    *decoder_out = d;
    return RADISH_OK;
}

void decoder_destroy(struct decoder *d) {
    if (!d) return;
    for (uint32_t i = 0; i < d->n_steps; i++) {
        pattern_destroy(d->steps[i].pattern);
        buf_deinit(&d->steps[i].content);
        buf_deinit(&d->steps[i].delimiter);
    }
    free(d);
}

bool decoder_is_byte_level(const struct decoder *d) {
    return d->n_steps == 1 && d->steps[0].kind == SPEC_DECODER_BYTE_LEVEL;
}

/* ---- one token in the middle of a text */

/* False: the step leaves the text as it is. */
static bool append_step_bytes(const struct step *step, const struct spec_str *text,
                              struct buf *other, struct buf *out) {
    const struct spec_str content = view(&step->content);
    int byte;
    switch (step->kind) {
    case SPEC_DECODER_BYTE_FALLBACK:
        if ((byte = byte_of(text->data, text->len)) < 0) return false;
        buf_append_char(out, (char)byte);
        return true;
    case SPEC_DECODER_BYTE_LEVEL: return byte_level_append_bytes(text->data, text->len, out);
    case SPEC_DECODER_REPLACE: replace(step, text->data, text->len, out); return true;
    case SPEC_DECODER_METASPACE:
        unmark(step, /*is_start=*/false, text->data, text->len, out);
        return true;
    case SPEC_DECODER_WORDPIECE:
        join_wordpiece(step, /*is_start=*/step->is_fused, text->data, text->len, out, other);
        return true;
    case SPEC_DECODER_BPE:
        replace_literal(text->data, text->len, &content, step->is_fused ? "" : " ", out);
        return true;
    case SPEC_DECODER_CTC: unpad_ctc(step, text->data, text->len, out, other); return true;
    default: return false;
    }
}

void decoder_append_bytes(const struct decoder *d, const char *content, size_t len,
                          struct buf *out) {
    struct buf texts[3] = {{0}, {0}, {0}}; /* the last one for steps that rewrite theirs */
    struct spec_str text = {content, len};
    unsigned which = 0;
    for (uint32_t i = 0; i < d->n_steps; i++) {
        struct buf *next = &texts[which];
        buf_clear(next);
        buf_clear(&texts[2]);
        if (!append_step_bytes(&d->steps[i], &text, &texts[2], next)) continue;
        if (next->failed || texts[2].failed) out->failed = true;
        text = view(next);
        which ^= 1;
    }
    buf_append(out, text.data, text.len);
    for (unsigned i = 0; i < 3; i++) buf_deinit(&texts[i]);
}

/* ---- a stream */

void decoder_start(struct decoder_state *state) {
    memset(state->steps, 0, sizeof state->steps);
    state->n_partial = 0;
    state->n_whole = 0;
    state->is_run_bad = false;
    buf_clear(&state->run);
    buf_clear(&state->word);
    buf_clear(&state->last);
    for (uint32_t i = 0; i < DECODER_SCRATCH_MAX; i++) buf_clear(&state->scratch[i]);
    state->n_lent = 0;
}

bool decoder_state_reserve(const struct decoder *d, struct decoder_state *state,
                           size_t token_bytes) {
    uint32_t n_scratch = 0;
    bool is_ok = true;
    if (decoder_is_byte_level(d)) return true;
    if (token_bytes > RESERVED_TOKEN_BYTES_MAX) token_bytes = RESERVED_TOKEN_BYTES_MAX;
    /* A character may become three bytes (the byte-level alphabet, U+FFFD), a space be put before.
     */
    size_t text_bytes = 3 * token_bytes + RUN_BYTES_MAX;
    for (uint32_t i = 0; i < d->n_steps; i++) {
        enum spec_decoder_kind kind = d->steps[i].kind;
        if (kind == SPEC_DECODER_BYTE_FALLBACK)
            is_ok &= buf_reserve(&state->run, RUN_BYTES_MAX + 4);
        if (kind == SPEC_DECODER_BPE) is_ok &= buf_reserve(&state->word, text_bytes);
        if (kind == SPEC_DECODER_CTC) is_ok &= buf_reserve(&state->last, text_bytes);
        n_scratch += kind != SPEC_DECODER_FUSE && kind != SPEC_DECODER_STRIP &&
                     kind != SPEC_DECODER_BYTE_FALLBACK;
        n_scratch += d->steps[i].cleans_up;
    }
    for (uint32_t i = 0; i < n_scratch && i < DECODER_SCRATCH_MAX; i++)
        is_ok &= buf_reserve(&state->scratch[i], text_bytes);
    return is_ok;
}

bool decoder_state_copy(const struct decoder_state *from, struct decoder_state *to_out) {
    *to_out = *from;
    memset(to_out->scratch, 0, sizeof to_out->scratch);
    to_out->n_lent = 0;
    to_out->run = to_out->word = to_out->last = (struct buf){0};
    buf_append(&to_out->run, from->run.data, from->run.len);
    buf_append(&to_out->word, from->word.data, from->word.len);
    buf_append(&to_out->last, from->last.data, from->last.len);
    return !to_out->run.failed && !to_out->word.failed && !to_out->last.failed;
}

void decoder_state_deinit(struct decoder_state *state) {
    buf_deinit(&state->run);
    buf_deinit(&state->word);
    buf_deinit(&state->last);
    for (uint32_t i = 0; i < DECODER_SCRATCH_MAX; i++) buf_deinit(&state->scratch[i]);
}

void decoder_push(const struct decoder *d, struct decoder_state *state,
                  const struct spec_str *content, const struct spec_str *bytes, struct buf *out) {
    struct flow first = {d, state, 0};
    state->out = out;
    if (!d->n_steps) {
        if (state->steps[0].n_tokens) buf_append_char(out, ' ');
        state->steps[0].n_tokens = 1;
        buf_append(out, content->data, content->len);
    } else if (decoder_is_byte_level(d)) {
        flow_bytes(&first, bytes->data, bytes->len);
    } else {
        flow_step(&first, content->data, content->len);
    }
}

void decoder_finish(const struct decoder *d, struct decoder_state *state, struct buf *out) {
    state->out = out;
    for (uint32_t i = 0; i < d->n_steps; i++) {
        struct flow flow = {d, state, i};
        if (d->steps[i].kind == SPEC_DECODER_BYTE_LEVEL) flush_partial(&flow);
        if (d->steps[i].kind == SPEC_DECODER_BYTE_FALLBACK) flush_run(&flow);
        if (d->steps[i].kind == SPEC_DECODER_BPE) flush_word(&flow, "");
    }
    decoder_start(state);
}
