/* tokenizer_json_post.c - what tokenizer.json's post_processor makes of a text: the ids before and
 * behind it.
 *
 * The tokenizers library hands a list of encodings from one processor to the next, and joins them
 * at the end. A single text starts as a list of one. A template makes one encoding per item, so
 * that a second template behind it may see two and take its form for pairs; BERT's and RoBERTa's
 * processors put their tokens around the first and behind the others. That is followed here to the
 * letter, on lists in which TEXT stands for the ids of the text, once with special tokens and once
 * without. What is left must have the text exactly once: the library does repeat or drop it when a
 * template says so, but no model wants that.
 *
 *   [TEXT] --template "<s> $A"--> [<s>] [TEXT] --BertProcessing--> [CLS <s> SEP] [TEXT SEP] */
#include "spec_reader.h"

#include "base/json.h"
#include "base/status.h"

#include <string.h>

enum {
    IDS_MAX = 128, /* of all encodings; a published template has a handful */
    TEXT = -1,
};

struct encodings {
    int32_t ids[IDS_MAX]; /* [n_ids] */
    unsigned n_ids;
    unsigned ends[IDS_MAX]; /* [n] where each encoding ends in ids */
    unsigned n;
};

struct post {
    struct spec_reader *reader;
    bool adds_special;
    struct encodings now;
    struct encodings next; /* being written */
};

static enum radish_status refuse_size(struct post *post) {
    return error_set_field(post->reader->err, RADISH_E_LIMIT, "post_processor",
                           "tokenizer.json: post_processor adds more than %d tokens", IDS_MAX);
}

static enum radish_status push_id(struct post *post, int32_t id) {
    struct encodings *e = &post->next;
    if (e->n_ids == IDS_MAX) return refuse_size(post);
    e->ids[e->n_ids++] = id;
    return RADISH_OK;
}

/* The ids of encoding idx of the list before, into the one being written. */
static enum radish_status push_encoding(struct post *post, unsigned idx) {
    unsigned start = idx ? post->now.ends[idx - 1] : 0;
    for (unsigned i = start; i < post->now.ends[idx]; i++)
        RADISH_TRY(push_id(post, post->now.ids[i]));
    return RADISH_OK;
}

static enum radish_status end_encoding(struct post *post) {
    struct encodings *e = &post->next;
    if (e->n == IDS_MAX) return refuse_size(post);
    e->ends[e->n++] = e->n_ids;
    return RADISH_OK;
}

/* ---- templates */

/* Appends the ids of {"SpecialToken": {"id": NAME}}, which special_tokens[NAME].ids lists. */
static enum radish_status push_special(struct post *post, yyjson_val *specials, yyjson_val *item) {
    yyjson_val *name = json_get(item, "id"), *list = NULL, *val;
    yyjson_arr_iter iter;
    if (yyjson_is_str(name)) list = json_get(json_get(specials, yyjson_get_str(name)), "ids");
    if (!yyjson_is_arr(list))
        return spec_reader_wrong(post->reader, "special_tokens", "an object of {ids: list}", list);
    yyjson_arr_iter_init(list, &iter);
    while ((val = yyjson_arr_iter_next(&iter))) {
        int32_t id;
        RADISH_TRY(spec_reader_id(post->reader, val, &id));
        if (post->adds_special) RADISH_TRY(push_id(post, id));
    }
    return post->adds_special ? end_encoding(post) : RADISH_OK;
}

static enum radish_status push_sequence(struct post *post, yyjson_val *sequence) {
    unsigned idx = yyjson_equals_str(json_get(sequence, "id"), "A") ? 0 : 1;
    if (idx >= post->now.n)
        return error_set_field(post->reader->err, RADISH_E_FORMAT, "single",
                               "tokenizer.json: a template for one text uses a second");
    RADISH_TRY(push_encoding(post, idx));
    return end_encoding(post);
}

static enum radish_status apply_template(struct post *post, yyjson_val *part) {
    struct spec_reader *r = post->reader;
    const char *form = post->now.n == 2 ? "pair" : "single";
    yyjson_val *list = json_get(part, form), *specials = json_get(part, "special_tokens");
    yyjson_val *item, *piece;
    yyjson_arr_iter iter;
    if (post->now.n == 0 || post->now.n > 2)
        return error_set_field(r->err, RADISH_E_UNSUPPORTED, "post_processor",
                               "tokenizer.json: a template behind one that makes %u parts (1 or 2 "
                               "work)",
                               post->now.n);
    if (!yyjson_is_arr(list)) return spec_reader_wrong(r, form, "a list", list);
    yyjson_arr_iter_init(list, &iter);
    while ((item = yyjson_arr_iter_next(&iter))) {
        if ((piece = json_get(item, "Sequence")))
            RADISH_TRY(push_sequence(post, piece));
        else if ((piece = json_get(item, "SpecialToken")))
            RADISH_TRY(push_special(post, specials, piece));
        else
            return spec_reader_wrong(r, form, "a list of Sequence and SpecialToken", item);
    }
    return RADISH_OK;
}

/* ---- BERT and RoBERTa: "cls": [NAME, ID] in front, "sep": [NAME, ID] behind */

static enum radish_status apply_cls_sep(struct post *post, yyjson_val *part, bool is_roberta) {
    int32_t cls, sep;
    RADISH_TRY(spec_reader_id(post->reader, yyjson_arr_get(json_get(part, "cls"), 1), &cls));
    RADISH_TRY(spec_reader_id(post->reader, yyjson_arr_get(json_get(part, "sep"), 1), &sep));
    for (unsigned i = 0; i < post->now.n; i++) {
        bool starts = i == 0 || is_roberta;
        if (post->adds_special && starts) RADISH_TRY(push_id(post, i == 0 ? cls : sep));
        RADISH_TRY(push_encoding(post, i));
        if (post->adds_special) RADISH_TRY(push_id(post, sep));
        RADISH_TRY(end_encoding(post));
    }
    return RADISH_OK;
}

/* ---- the whole */

static enum radish_status apply_part(struct spec_reader *r, yyjson_val *part) {
    static const char *const names[] = {"ByteLevel", "TemplateProcessing", "RobertaProcessing",
                                        "BertProcessing"};
    struct post *post = r->user;
    int kind;
    RADISH_TRY(spec_reader_find_name(r, "post_processor", json_get(part, "type"), names, 4, &kind));
    if (kind == 0) return RADISH_OK; /* It moves offsets only. */
    post->next.n = post->next.n_ids = 0;
    RADISH_TRY(kind == 1 ? apply_template(post, part)
                         : apply_cls_sep(post, part, /*is_roberta=*/kind == 2));
    post->now = post->next;
    return RADISH_OK;
}

static enum radish_status apply_all(struct post *post, yyjson_val *root, bool adds_special) {
    struct spec_reader *r = post->reader;
    unsigned n_texts = 0;
    post->adds_special = adds_special;
    post->now = (struct encodings){.ids = {TEXT}, .n_ids = 1, .ends = {1}, .n = 1};
    r->user = post;
    RADISH_TRY(spec_reader_parts(r, "post_processor", json_get(root, "post_processor"),
                                 "processors", apply_part, 0));
    for (unsigned i = 0; i < post->now.n_ids; i++) n_texts += post->now.ids[i] == TEXT;
    if (n_texts == 1) return RADISH_OK;
    return error_set_field(r->err, RADISH_E_UNSUPPORTED, "post_processor",
                           "tokenizer.json: post_processor has the text %u times (supported: once)",
                           n_texts);
}

enum radish_status spec_reader_post_processor(struct spec_reader *r, yyjson_val *root) {
    struct tokenizer_spec *spec = r->spec;
    struct post *post = arena_zalloc(r->arena, 1, sizeof *post);
    int32_t *ids = arena_zalloc(r->arena, IDS_MAX, sizeof *ids);
    unsigned at = 0;
    if (!post || !ids) return error_nomem(r->err);
    post->reader = r;
    RADISH_TRY(apply_all(post, root, /*adds_special=*/false));
    RADISH_TRY(apply_all(post, root, /*adds_special=*/true));
    memcpy(ids, post->now.ids, sizeof post->now.ids);
    while (ids[at] != TEXT) at++;
    spec->prefix_ids = ids;
    spec->n_prefix_ids = at;
    spec->suffix_ids = ids + at + 1;
    spec->n_suffix_ids = post->now.n_ids - at - 1;
    return RADISH_OK;
}
