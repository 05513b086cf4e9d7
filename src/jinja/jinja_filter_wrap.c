/* jinja_filter_wrap.c - wordwrap and pprint: Python's textwrap.wrap() and pprint.pformat(), which
 * both fit a text into columns.
 *
 * textwrap cuts a line into chunks (words, runs of blanks, parts of hyphenated words: one regular
 * expression, run by PCRE2) and fills lines with them greedily; a chunk wider than a line is cut,
 * after a hyphen if it has one. pprint writes a value on one line if it fits and otherwise item by
 * item, dicts by sorted keys; a long text becomes several literals. Columns are characters. */
#include "jinja_builtin.h"

#include "base/utf8.h"
#include "jinja_text.h"

#define PCRE2_CODE_UNIT_WIDTH 8
#include <pcre2.h>
#include <string.h>

enum { PPRINT_COLUMNS = 80, MATCH_STEPS_MAX = 1000000 };

/* ---- wordwrap */

struct chunk {
    const char *s; /* [len] */
    size_t len;
    int64_t chars;
};

struct wrap {
    struct jinja_run *run;
    int64_t width;
    bool breaks_words, breaks_hyphens;
    struct jinja_value separator;
    pcre2_code *cut;
    pcre2_match_data *match;
    struct chunk *chunks; /* [n_chunks] of one line */
    size_t n_chunks, capacity;
    bool has_lines; /* of this line's text */
    struct buf out;
};

static const char cut_at_hyphens[] =
    "[\\t\\n\\x0b\\x0c\\r ]+|(?<=[\\w!\"'&.,?])-{2,}(?=\\w)|"
    "[^\\t\\n\\x0b\\x0c\\r ]+?(?:-(?:(?<=[^\\d\\W]{2}-)|(?<=[^\\d\\W]-[^\\d\\W]-))"
    "(?=[^\\d\\W]-?[^\\d\\W])|(?=[\\t\\n\\x0b\\x0c\\r ]|\\z)|(?<=[\\w!\"'&.,?])(?=-{2,}\\w))";
static const char cut_at_blanks[] = "[\\t\\n\\x0b\\x0c\\r ]+";

static bool push_chunk(struct wrap *w, const char *s, size_t len) {
    if (!len) return true;
    if (w->n_chunks == w->capacity) {
        size_t capacity = w->capacity ? w->capacity * 2 : 64;
        struct chunk *chunks = jinja_alloc(w->run, capacity, sizeof(*chunks));
        if (!chunks) return false;
        if (w->n_chunks) memcpy(chunks, w->chunks, w->n_chunks * sizeof(*chunks));
        w->chunks = chunks;
        w->capacity = capacity;
    }
    w->chunks[w->n_chunks++] = (struct chunk){s, len, (int64_t)utf8_count(s, len)};
    return jinja_charge(w->run, 1);
}

static bool cut_line(struct wrap *w, const char *s, size_t len) {
    size_t from = 0, at = 0;
    w->n_chunks = 0;
    while (at < len) {
        int n = pcre2_match(w->cut, (PCRE2_SPTR)s, len, at, PCRE2_NO_UTF_CHECK, w->match, NULL);
        if (n == PCRE2_ERROR_NOMATCH) break;
        if (n < 0) return jinja_fail_limit(w->run, "steps");
        const PCRE2_SIZE *found = pcre2_get_ovector_pointer(w->match);
        if (!jinja_charge_bytes(w->run, len - at) || !push_chunk(w, s + from, found[0] - from) ||
            !push_chunk(w, s + found[0], found[1] - found[0]))
            return false;
        at = from = found[1];
    }
    return push_chunk(w, s + from, len - from);
}

static bool is_blank(const struct chunk *chunk) {
    size_t begin, end;
    jinja_text_strip(chunk->s, chunk->len, NULL, 0, JINJA_STRIP_LEFT, &begin, &end);
    return begin == end;
}

/* How many characters of a chunk that fits on no line go onto this one. */
static int64_t cut_word(const struct wrap *w, const struct chunk *chunk, int64_t room) {
    size_t hyphen, room_bytes = jinja_text_offset(chunk->s, chunk->len, (size_t)room);
    if (!w->breaks_hyphens || chunk->chars <= room ||
        !jinja_text_rfind(chunk->s, room_bytes, "-", 1, &hyphen) || !hyphen)
        return room;
    for (size_t i = 0; i < hyphen; i++)
        if (chunk->s[i] != '-') return (int64_t)utf8_count(chunk->s, hyphen + 1);
    return room;
}

/* Fills one line from chunks[*next ...): writes it unless nothing is left of it. */
static bool fill_line(struct wrap *w, size_t *next) {
    struct chunk *line = jinja_alloc(w->run, w->n_chunks - *next + 2, sizeof(*line));
    size_t n = 0;
    int64_t used = 0;
    if (!line || !jinja_charge(w->run, 1)) return false;
    if (w->has_lines && is_blank(&w->chunks[*next])) ++*next;
    while (*next < w->n_chunks && used + w->chunks[*next].chars <= w->width) {
        used += w->chunks[*next].chars;
        line[n++] = w->chunks[(*next)++];
    }
    if (*next < w->n_chunks && w->chunks[*next].chars > w->width) {
        struct chunk *word = &w->chunks[*next];
        if (w->breaks_words) {
            int64_t chars = cut_word(w, word, w->width - used);
            size_t len = jinja_text_offset(word->s, word->len, (size_t)chars);
            line[n++] = (struct chunk){word->s, len, chars};
            *word = (struct chunk){word->s + len, word->len - len, word->chars - chars};
        } else if (!n) {
            line[n++] = w->chunks[(*next)++];
        }
    }
    if (n && is_blank(&line[n - 1])) n--;
    if (!n) return true;
    if (w->has_lines) buf_append(&w->out, w->separator.as.s, w->separator.len);
    for (size_t i = 0; i < n; i++) buf_append(&w->out, line[i].s, line[i].len);
    w->has_lines = true;
    return true;
}

static bool wrap_text(struct wrap *w, const struct jinja_value *s) {
    for (size_t at = 0, skip; at < s->len && !w->out.failed; at += skip) {
        size_t len = jinja_text_line(s->as.s + at, s->len - at, &skip), next = 0;
        if (w->width <= 0)
            return jinja_fail(w->run, "invalid width %lld (must be > 0)", (long long)w->width);
        if (at) buf_append(&w->out, w->separator.as.s, w->separator.len);
        w->has_lines = false;
        if (!cut_line(w, s->as.s + at, len)) return false;
        while (next < w->n_chunks)
            if (!fill_line(w, &next)) return false;
    }
    return true;
}

bool jinja_filter_wordwrap(struct jinja_run *run, const struct jinja_call *call,
                           struct jinja_value *out) {
    const struct jinja_value *a = call->a;
    struct wrap w = {.run = run, .width = 79, .separator = jinja_str("\n", 1)};
    bool is_hyphen_true = a[4].kind == JINJA_MISSING || (a[4].kind == JINJA_BOOL && a[4].as.b);
    int code;
    PCRE2_SIZE where;
    w.breaks_words = a[2].kind == JINJA_MISSING || jinja_truth(&a[2]);
    w.breaks_hyphens = a[4].kind == JINJA_MISSING || jinja_truth(&a[4]);
    if (a[0].kind == JINJA_UNDEFINED) return jinja_fail_undefined(run, &a[0]);
    if (!jinja_arg_str(run, &a[0], "wordwrap: the text") ||
        (a[1].kind != JINJA_MISSING && !jinja_arg_int(run, &a[1], &w.width)))
        return false;
    if (a[3].kind != JINJA_MISSING && a[3].kind != JINJA_NONE) w.separator = a[3];
    if (!jinja_arg_str(run, &w.separator, "wordwrap: wrapstring")) return false;
    jinja_buf_init(run, &w.out);
    w.cut = pcre2_compile((PCRE2_SPTR)(is_hyphen_true ? cut_at_hyphens : cut_at_blanks),
                          PCRE2_ZERO_TERMINATED, PCRE2_UTF | PCRE2_UCP | PCRE2_NO_UTF_CHECK, &code,
                          &where, NULL);
    w.match = pcre2_match_data_create(1, NULL);
    bool is_ok = w.cut && w.match ? wrap_text(&w, &a[0]) : (jinja_fail_limit(run, "memory"), false);
    is_ok = is_ok && jinja_str_take(run, &w.out, out);
    buf_deinit(&w.out);
    pcre2_code_free(w.cut);
    pcre2_match_data_free(w.match);
    return is_ok;
}

/* ---- pprint */

struct pretty {
    struct jinja_run *run;
    struct buf *out;
};

/* Keys of different types have an order here: that of their types' names. */
static bool is_key_before(struct jinja_run *run, const struct jinja_value *a,
                          const struct jinja_value *b, bool *before_out) {
    bool is_text = a->kind == JINJA_STR && b->kind == JINJA_STR;
    int order = 0;
    *before_out = false;
    if (is_text || (a->kind >= JINJA_BOOL && a->kind <= JINJA_FLOAT && b->kind >= JINJA_BOOL &&
                    b->kind <= JINJA_FLOAT)) {
        if (!jinja_order(run, a, b, "<", &order)) return false;
        *before_out = order == -1;
        return true;
    }
    *before_out = strcmp(jinja_type_name(a->kind), jinja_type_name(b->kind)) < 0;
    return jinja_charge(run, 1);
}

/* A stable insertion sort with binary search, as Python's is for short lists. */
static const struct jinja_entry **sort_entries(struct jinja_run *run,
                                               const struct jinja_dict *dict) {
    const struct jinja_entry **sorted =
        jinja_alloc(run, dict->n + 1, sizeof(const struct jinja_entry *));
    for (uint32_t i = 0; sorted && i < dict->n; i++) {
        uint32_t low = 0, high = i;
        while (low < high) {
            uint32_t mid = low + (high - low) / 2;
            bool is_before;
            if (!is_key_before(run, &dict->entries[i].key, &sorted[mid]->key, &is_before))
                return NULL;
            if (is_before)
                high = mid;
            else
                low = mid + 1;
        }
        if (!jinja_charge(run, i - low)) return NULL;
        memmove(sorted + low + 1, sorted + low, (i - low) * sizeof(*sorted));
        sorted[low] = &dict->entries[i];
    }
    return sorted;
}

static bool is_container(const struct jinja_value *v) {
    return v->kind == JINJA_LIST || v->kind == JINJA_DICT || (v->kind == JINJA_TUPLE && !v->flag);
}

static bool write_line(struct pretty *p, const struct jinja_value *v, struct buf *out);

static bool write_line_of(struct pretty *p, const struct jinja_value *v, struct buf *out) {
    bool is_dict = v->kind == JINJA_DICT, is_ok = true;
    size_t n = is_dict ? v->as.dict->n : v->as.list->n;
    const struct jinja_entry **sorted = is_dict ? sort_entries(p->run, v->as.dict) : NULL;
    if (is_dict && !sorted) return false;
    buf_append_char(out, is_dict ? '{' : v->kind == JINJA_LIST ? '[' : '(');
    for (size_t i = 0; is_ok && i < n && !out->failed; i++) {
        if (i) buf_append_str(out, ", ");
        if (is_dict) {
            is_ok = write_line(p, &sorted[i]->key, out);
            buf_append_str(out, ": ");
        }
        is_ok = is_ok && write_line(p, is_dict ? &sorted[i]->value : &v->as.list->items[i], out);
    }
    if (v->kind == JINJA_TUPLE && n == 1) buf_append_char(out, ',');
    buf_append_char(out, is_dict ? '}' : v->kind == JINJA_LIST ? ']' : ')');
    return is_ok;
}

/* v on one line. */
static bool write_line(struct pretty *p, const struct jinja_value *v, struct buf *out) {
    if (!is_container(v)) {
        jinja_write_repr(p->run, v, out);
        return p->run->status == RADISH_OK;
    }
    if (!jinja_charge(p->run, 1) || !jinja_enter(p->run)) return false;
    bool is_ok = write_line_of(p, v, out);
    jinja_leave(p->run);
    return is_ok;
}

static void start_line(struct pretty *p, int64_t indent) {
    buf_append_char(p->out, '\n');
    for (int64_t i = 0; i < indent && !p->out->failed; i++) buf_append_char(p->out, ' ');
}

/* Columns of repr(s[0..len)). */
static int64_t repr_columns(struct pretty *p, const char *s, size_t len) {
    struct jinja_value v = jinja_str(s, len);
    struct buf b;
    jinja_buf_init(p->run, &b);
    jinja_write_repr(p->run, &v, &b);
    int64_t n = b.data ? (int64_t)utf8_count(b.data, b.len) : 0;
    buf_deinit(&b);
    return n;
}

/* The end of the piece at s: what is no space, then spaces. */
static size_t piece_of(const char *s, size_t len) {
    size_t at = 0, n;
    bool is_space = false;
    for (uint32_t cp; at < len; at += n) {
        n = utf8_decode(s + at, len - at, &cp);
        if (is_space && !jinja_text_is_space(cp)) break;
        is_space = jinja_text_is_space(cp);
    }
    return at;
}

static bool push_text(struct pretty *p, struct jinja_vec *pieces, const char *s, size_t len) {
    struct jinja_value v = jinja_str(s, len);
    return jinja_vec_push(p->run, pieces, &v);
}

/* Cuts one line of a long text; widths: what a literal may have, and the last of all. */
static bool cut_pieces(struct pretty *p, const char *s, size_t len, const int64_t widths[2],
                       struct jinja_vec *pieces) {
    size_t from = 0;
    for (size_t at = 0, n; at < len; at += n) {
        n = piece_of(s + at, len - at);
        bool is_last = at + n == len;
        if (!jinja_charge(p->run, 1)) return false;
        if (repr_columns(p, s + from, at + n - from) <= widths[is_last]) continue;
        if (at > from && !push_text(p, pieces, s + from, at - from)) return false;
        from = at;
    }
    return from == len || push_text(p, pieces, s + from, len - from);
}

static bool write_text(struct pretty *p, const struct jinja_value *v, int64_t indent,
                       int64_t allowance, bool is_top) {
    struct jinja_vec pieces = {0};
    const char *s = v->as.s;
    indent += is_top;
    allowance += is_top;
    int64_t width = PPRINT_COLUMNS - indent;
    for (size_t at = 0, next; at < v->len; at += next) {
        jinja_text_line(s + at, v->len - at, &next);
        bool is_last = at + next == v->len;
        const int64_t widths[2] = {width, is_last ? width - allowance : width};
        bool is_short = repr_columns(p, s + at, next) <= widths[1];
        if (!(is_short ? push_text(p, &pieces, s + at, next)
                       : cut_pieces(p, s + at, next, widths, &pieces)))
            return false;
    }
    is_top = is_top && pieces.n > 1;
    if (is_top) buf_append_char(p->out, '(');
    for (size_t i = 0; i < pieces.n && !p->out->failed; i++) {
        if (i) start_line(p, indent);
        jinja_write_repr(p->run, &pieces.items[i], p->out);
    }
    if (is_top) buf_append_char(p->out, ')');
    return p->run->status == RADISH_OK;
}

static bool write_pretty(struct pretty *p, const struct jinja_value *v, int64_t indent,
                         int64_t allowance, bool is_top);

static bool write_items(struct pretty *p, const struct jinja_value *v, int64_t indent,
                        int64_t allowance) {
    const struct jinja_list *list = v->as.list;
    const char *end = v->kind == JINJA_LIST ? "]" : list->n == 1 ? ",)" : ")";
    bool is_ok = true;
    allowance += (int64_t)strlen(end);
    buf_append_char(p->out, v->kind == JINJA_LIST ? '[' : '(');
    for (size_t i = 0; is_ok && i < list->n; i++) {
        bool is_last = i + 1 == list->n;
        is_ok = write_pretty(p, &list->items[i], indent + 1, is_last ? allowance : 1, false);
        if (!is_last) buf_append_char(p->out, ',');
        if (!is_last) start_line(p, indent + 1);
    }
    buf_append_str(p->out, end);
    return is_ok;
}

static bool write_entries(struct pretty *p, const struct jinja_value *v, int64_t indent,
                          int64_t allowance) {
    const struct jinja_entry **sorted = sort_entries(p->run, v->as.dict);
    bool is_ok = sorted != NULL;
    buf_append_char(p->out, '{');
    for (uint32_t i = 0; is_ok && i < v->as.dict->n; i++) {
        bool is_last = i + 1 == v->as.dict->n;
        size_t from = p->out->len;
        is_ok = write_line(p, &sorted[i]->key, p->out) && !p->out->failed;
        if (!is_ok) break;
        int64_t columns = (int64_t)utf8_count(p->out->data + from, p->out->len - from);
        buf_append_str(p->out, ": ");
        is_ok = write_pretty(p, &sorted[i]->value, indent + 1 + columns + 2,
                             is_last ? allowance + 1 : 1, false);
        if (!is_last) buf_append_char(p->out, ',');
        if (!is_last) start_line(p, indent + 1);
    }
    buf_append_char(p->out, '}');
    return is_ok;
}

static bool write_pretty(struct pretty *p, const struct jinja_value *v, int64_t indent,
                         int64_t allowance, bool is_top) {
    struct buf line;
    jinja_buf_init(p->run, &line);
    bool is_ok = write_line(p, v, &line) && jinja_enter(p->run);
    if (!is_ok) {
        buf_deinit(&line);
        return false;
    }
    bool is_text = v->kind == JINJA_STR && !v->flag && v->len;
    size_t len = line.len;
    if ((!is_text && !is_container(v)) ||
        (int64_t)utf8_count(line.data ? line.data : "", len) <= PPRINT_COLUMNS - indent - allowance)
        buf_append(p->out, line.data ? line.data : "", len);
    else if (is_text)
        is_ok = write_text(p, v, indent, allowance, is_top);
    else if (v->kind == JINJA_DICT)
        is_ok = write_entries(p, v, indent, allowance);
    else
        is_ok = write_items(p, v, indent, allowance);
    if (line.failed || p->out->failed) is_ok = jinja_fail_limit(p->run, "memory");
    buf_deinit(&line);
    jinja_leave(p->run);
    return is_ok;
}

bool jinja_filter_pprint(struct jinja_run *run, const struct jinja_call *call,
                         struct jinja_value *out) {
    struct buf b;
    struct pretty p = {run, &b};
    jinja_buf_init(run, &b);
    if (write_pretty(&p, &call->a[0], 0, 0, /*is_top=*/true)) return jinja_str_take(run, &b, out);
    buf_deinit(&b);
    return false;
}
