/* jinja_repr.c - values as text: str(), repr() and json.dumps(), byte for byte as Python prints
 * them.
 *
 * Templates print lists and dicts by accident or on purpose, and a model has seen Python's spelling
 * of them in training: 'single' quotes unless the text holds one, True, None, 1.0. Writers append
 * to a buffer; what they cannot write any more (its limit, or the depth) is noted in the run. */
#include "jinja_value.h"

#include "base/utf8.h"
#include "jinja_builtin.h"
#include "jinja_loop.h"
#include "jinja_number.h"
#include "jinja_run.h"
#include "jinja_text.h"

#include <math.h>
#include <string.h>

static void write_repr_char(const char *s, size_t n, uint32_t cp, char quote, struct buf *out) {
    switch (cp) {
    case '\n': buf_append(out, "\\n", 2); return;
    case '\r': buf_append(out, "\\r", 2); return;
    case '\t': buf_append(out, "\\t", 2); return;
    case '\\': buf_append(out, "\\\\", 2); return;
    default: break;
    }
    if (cp == (unsigned char)quote) {
        buf_append_char(out, '\\');
        buf_append_char(out, quote);
    } else if (jinja_text_is_printable(cp)) {
        buf_append(out, s, n);
    } else if (cp < 0x100) {
        buf_printf(out, "\\x%02x", cp);
    } else if (cp < 0x10000) {
        buf_printf(out, "\\u%04x", cp);
    } else {
        buf_printf(out, "\\U%08x", cp);
    }
}

static void write_repr_text(const char *s, size_t len, struct buf *out) {
    bool has_single = memchr(s, '\'', len) != NULL;
    char quote = has_single && !memchr(s, '"', len) ? '"' : '\'';
    buf_append_char(out, quote);
    for (size_t i = 0, n; i < len; i += n) {
        uint32_t cp;
        n = utf8_decode(s + i, len - i, &cp);
        write_repr_char(s + i, n, cp, quote, out);
    }
    buf_append_char(out, quote);
}

static void write_items(struct jinja_run *run, const struct jinja_list *list, struct buf *out) {
    for (size_t i = 0; i < list->n && !out->failed && !run->status; i++) {
        if (i) buf_append(out, ", ", 2);
        jinja_write_repr(run, &list->items[i], out);
    }
}

static void write_entries(struct jinja_run *run, const struct jinja_dict *dict, struct buf *out) {
    buf_append_char(out, '{');
    for (uint32_t i = 0; i < dict->n && !out->failed && !run->status; i++) {
        if (i) buf_append(out, ", ", 2);
        jinja_write_repr(run, &dict->entries[i].key, out);
        buf_append(out, ": ", 2);
        jinja_write_repr(run, &dict->entries[i].value, out);
    }
    buf_append_char(out, '}');
}

static void write_view(struct jinja_run *run, const struct jinja_value *v, struct buf *out) {
    static const char *const names[] = {"dict_keys([", "dict_values([", "dict_items(["};
    buf_append_str(out, names[v->flag]);
    for (uint32_t i = 0; i < v->as.dict->n && !out->failed && !run->status; i++) {
        const struct jinja_entry *entry = &v->as.dict->entries[i];
        if (i) buf_append(out, ", ", 2);
        if (v->flag == JINJA_VIEW_ITEMS) buf_append_char(out, '(');
        if (v->flag != JINJA_VIEW_VALUES) jinja_write_repr(run, &entry->key, out);
        if (v->flag == JINJA_VIEW_ITEMS) buf_append(out, ", ", 2);
        if (v->flag != JINJA_VIEW_KEYS) jinja_write_repr(run, &entry->value, out);
        if (v->flag == JINJA_VIEW_ITEMS) buf_append_char(out, ')');
    }
    buf_append(out, "])", 2);
}

static void write_container(struct jinja_run *run, const struct jinja_value *v, struct buf *out) {
    switch (v->kind) {
    case JINJA_LIST:
        buf_append_char(out, '[');
        write_items(run, v->as.list, out);
        buf_append_char(out, ']');
        return;
    case JINJA_TUPLE:
        buf_append_char(out, '(');
        write_items(run, v->as.list, out);
        buf_append_str(out, v->as.list->n == 1 ? ",)" : ")");
        return;
    case JINJA_NAMESPACE:
        buf_append_str(out, "<Namespace ");
        write_entries(run, v->as.dict, out);
        buf_append_char(out, '>');
        return;
    case JINJA_VIEW: write_view(run, v, out); return;
    default: write_entries(run, v->as.dict, out); return;
    }
}

static void write_range(const struct jinja_range *r, struct buf *out) {
    buf_printf(out, "range(%lld, %lld", (long long)r->start, (long long)r->stop);
    if (r->step != 1) buf_printf(out, ", %lld", (long long)r->step);
    buf_append_char(out, ')');
}

/* Things that Python prints with their address; an address is nothing a text should hold. */
static void write_object(struct jinja_run *run, const struct jinja_value *v, struct buf *out) {
    size_t n = 0;
    switch (v->kind) {
    case JINJA_ITER: buf_printf(out, "<%s object>", v->as.iter->type); return;
    case JINJA_MACRO: {
        struct jinja_value name = jinja_macro_name(v->as.macro);
        buf_append_str(out, "<Macro ");
        if (name.len)
            jinja_write_repr(run, &name, out);
        else
            buf_append_str(out, "anonymous");
        buf_append_char(out, '>');
        return;
    }
    case JINJA_BUILTIN: buf_printf(out, "<function %s>", v->as.builtin->name); return;
    case JINJA_METHOD:
        buf_printf(out, "<built-in method %s of %s object>", v->as.method->builtin->name,
                   jinja_type_name(v->as.method->self.kind));
        return;
    case JINJA_LOOP:
        if (!jinja_loop_length(run, v->as.loop, &n)) return;
        buf_printf(out, "<LoopContext %zu/%zu>", jinja_loop_index0(v->as.loop) + 1, n);
        return;
    default: buf_printf(out, "<%s object>", jinja_type_name(v->kind)); return;
    }
}

void jinja_write_repr(struct jinja_run *run, const struct jinja_value *v, struct buf *out) {
    char number[130];
    if (!jinja_charge(run, 1)) return;
    switch (v->kind) {
    case JINJA_UNDEFINED: buf_append_str(out, "Undefined"); return;
    case JINJA_NONE: buf_append(out, "None", 4); return;
    case JINJA_BOOL: buf_append_str(out, v->as.b ? "True" : "False"); return;
    case JINJA_INT:
    case JINJA_BIG: buf_append(out, number, jinja_print_wide(jinja_wide_of(v), 10, number)); return;
    case JINJA_FLOAT: buf_append(out, number, jinja_print_double(v->as.f, number)); return;
    case JINJA_STR:
        if (!jinja_charge_search(run, v->len, 1)) return;
        if (v->flag) buf_append_str(out, "Markup(");
        write_repr_text(v->as.s, v->len, out);
        if (v->flag) buf_append_char(out, ')');
        return;
    case JINJA_RANGE: write_range(v->as.range, out); return;
    case JINJA_LIST:
    case JINJA_TUPLE:
    case JINJA_DICT:
    case JINJA_VIEW:
    case JINJA_NAMESPACE: break;
    default: write_object(run, v, out); return;
    }
    if (!jinja_enter(run)) return;
    write_container(run, v, out);
    jinja_leave(run);
}

void jinja_write_str(struct jinja_run *run, const struct jinja_value *v, struct buf *out) {
    if (v->kind == JINJA_STR) {
        if (jinja_charge_bytes(run, v->len)) buf_append(out, v->as.s, v->len);
    } else if (v->kind != JINJA_UNDEFINED) {
        jinja_write_repr(run, v, out);
    }
}

bool jinja_to_str(struct jinja_run *run, const struct jinja_value *v, struct jinja_value *out) {
    if (v->kind == JINJA_STR) {
        *out = *v;
        return true;
    }
    if (v->kind == JINJA_UNDEFINED) {
        *out = jinja_str("", 0);
        return true;
    }
    struct buf b;
    jinja_buf_init(run, &b);
    jinja_write_repr(run, v, &b);
    bool is_ok = jinja_str_take(run, &b, out);
    return is_ok && run->status == RADISH_OK;
}

/* ---- JSON */

static void write_json_char(const char *s, size_t n, uint32_t cp, bool ensure_ascii,
                            struct buf *out) {
    static const char shorts[] = "\"\"\\\\\bb\ff\nn\rr\tt";
    for (const char *p = shorts; *p; p += 2)
        if (cp == (unsigned char)p[0]) {
            buf_append_char(out, '\\');
            buf_append_char(out, p[1]);
            return;
        }
    if (cp < 0x20 || (ensure_ascii && cp >= 0x7F && cp < 0x10000)) {
        buf_printf(out, "\\u%04x", cp);
    } else if (ensure_ascii && cp >= 0x10000) {
        cp -= 0x10000;
        buf_printf(out, "\\u%04x\\u%04x", 0xD800 + (cp >> 10), 0xDC00 + (cp & 0x3FF));
    } else {
        buf_append(out, s, n);
    }
}

static void write_json_text(const char *s, size_t len, bool ensure_ascii, struct buf *out) {
    buf_append_char(out, '"');
    size_t from = 0;
    for (size_t i = 0, n; i < len; i += n) {
        unsigned char c = (unsigned char)s[i];
        n = 1;
        if (c >= 0x20 && c != '"' && c != '\\' && (c < 0x7F || !ensure_ascii)) continue;
        uint32_t cp;
        n = utf8_decode(s + i, len - i, &cp);
        buf_append(out, s + from, i - from);
        write_json_char(s + i, n, cp, ensure_ascii, out);
        from = i + n;
    }
    buf_append(out, s + from, len - from);
    buf_append_char(out, '"');
}

struct json_writer {
    struct jinja_run *run;
    const struct jinja_json_style *style;
    struct buf *out;
    unsigned level;
};

static void break_line(struct json_writer *w) {
    if (!w->style->has_indent) return;
    buf_append_char(w->out, '\n');
    for (unsigned i = 0; i < w->level; i++)
        buf_append(w->out, w->style->indent.as.s, w->style->indent.len);
}

static void separate(struct json_writer *w, bool is_first) {
    if (!is_first) buf_append(w->out, w->style->item_separator.as.s, w->style->item_separator.len);
    break_line(w);
}

static bool write_json(struct json_writer *w, const struct jinja_value *v);

static bool write_json_scalar(struct json_writer *w, const struct jinja_value *v) {
    char number[130];
    switch (v->kind) {
    case JINJA_NONE: buf_append(w->out, "null", 4); return true;
    case JINJA_BOOL: buf_append_str(w->out, v->as.b ? "true" : "false"); return true;
    case JINJA_STR:
        write_json_text(v->as.s, v->len, w->style->ensure_ascii, w->out);
        return jinja_charge_search(w->run, v->len, 1);
    case JINJA_FLOAT:
        if (isnan(v->as.f))
            buf_append_str(w->out, "NaN");
        else if (isinf(v->as.f))
            buf_append_str(w->out, v->as.f < 0 ? "-Infinity" : "Infinity");
        else
            buf_append(w->out, number, jinja_print_double(v->as.f, number));
        return true;
    case JINJA_INT:
    case JINJA_BIG:
        buf_append(w->out, number, jinja_print_wide(jinja_wide_of(v), 10, number));
        return true;
    default:
        return jinja_fail(w->run, "Object of type %s is not JSON serializable",
                          jinja_type_name(v->kind));
    }
}

static bool write_json_list(struct json_writer *w, const struct jinja_list *list) {
    buf_append_char(w->out, '[');
    w->level++;
    for (size_t i = 0; i < list->n; i++) {
        separate(w, i == 0);
        if (!write_json(w, &list->items[i])) return false;
    }
    w->level--;
    if (list->n) break_line(w);
    buf_append_char(w->out, ']');
    return true;
}

static bool write_json_key(struct json_writer *w, const struct jinja_value *key) {
    if (key->kind == JINJA_STR) return write_json_scalar(w, key);
    if (key->kind > JINJA_FLOAT || key->kind < JINJA_NONE)
        return jinja_fail(w->run, "keys must be str, int, float, bool or None, not %s",
                          jinja_type_name(key->kind));
    buf_append_char(w->out, '"');
    if (!write_json_scalar(w, key)) return false;
    buf_append_char(w->out, '"');
    return true;
}

/* The entries' numbers in the order of their keys; NULL after a failure. */
static uint32_t *sort_entries(struct jinja_run *run, const struct jinja_dict *dict) {
    uint32_t *order = jinja_alloc(run, dict->n, sizeof(*order));
    struct jinja_value *keys = jinja_alloc(run, dict->n, sizeof(*keys));
    if (!order || !keys) return NULL;
    for (uint32_t i = 0; i < dict->n; i++) keys[i] = dict->entries[i].key;
    return jinja_sort(run, keys, dict->n, /*is_reverse=*/false, order) ? order : NULL;
}

static bool write_json_dict(struct json_writer *w, const struct jinja_dict *dict) {
    uint32_t *order = NULL;
    if (w->style->sort_keys && dict->n) {
        order = sort_entries(w->run, dict);
        if (!order) return false;
    }
    buf_append_char(w->out, '{');
    w->level++;
    for (uint32_t i = 0; i < dict->n; i++) {
        const struct jinja_entry *entry = &dict->entries[order ? order[i] : i];
        separate(w, i == 0);
        if (!write_json_key(w, &entry->key)) return false;
        buf_append(w->out, w->style->key_separator.as.s, w->style->key_separator.len);
        if (!write_json(w, &entry->value)) return false;
    }
    w->level--;
    if (dict->n) break_line(w);
    buf_append_char(w->out, '}');
    return true;
}

static bool write_json(struct json_writer *w, const struct jinja_value *v) {
    if (!jinja_charge(w->run, 1)) return false;
    if (w->out->failed) return jinja_fail_limit(w->run, "memory");
    if (v->kind != JINJA_LIST && v->kind != JINJA_TUPLE && v->kind != JINJA_DICT)
        return write_json_scalar(w, v);
    if (!jinja_enter(w->run)) return false;
    bool is_ok =
        v->kind == JINJA_DICT ? write_json_dict(w, v->as.dict) : write_json_list(w, v->as.list);
    jinja_leave(w->run);
    return is_ok;
}

bool jinja_to_json(struct jinja_run *run, const struct jinja_value *v,
                   const struct jinja_json_style *style, struct buf *out) {
    struct json_writer w = {run, style, out, 0};
    return write_json(&w, v);
}
