/* workload.c - the shapes of load: who shares what with whom.
 *
 * The problem: a cache's worth depends on the sharing between requests, and texts from the wild
 * have a sharing that nobody can state. So texts are made: words drawn at random, where items that
 * shall share name the same stream of words. What is shared is then known exactly, a million
 * requests take a few megabytes, and a seed is all that must be written down to get the same run
 * again.
 *
 * Words are common English ones, which most tokenizers know as one token with the space before; how
 * many make a token is measured for each server (load_target.c), so that lengths are in its
 * tokens without a tokenizer here. Random ids would be exact but most servers take none.
 *
 * Streams are numbered so that no two purposes meet: the kind of text in the high bits, the group
 * or item in the low ones. Hash ids of a trace are streams of their own. Workloads of different
 * kinds share nothing, though their seed be the same. */
#include "workload.h"

#include "base/mem.h"
#include "base/rng.h"
#include "base/status.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

static const char *const words[] = {
    "alpha",  "river",    "stone",  "cloud",  "engine", "garden",  "signal", "copper",
    "winter", "market",   "planet", "silver", "basket", "thunder", "meadow", "cotton",
    "harbor", "mirror",   "candle", "forest", "pencil", "rocket",  "velvet", "island",
    "orange", "temple",   "violet", "water",  "house",  "light",   "music",  "paper",
    "table",  "window",   "summer", "bridge", "valley", "street",  "letter", "number",
    "animal", "family",   "doctor", "school", "driver", "farmer",  "castle", "desert",
    "ocean",  "mountain", "people", "story",  "coffee", "butter",  "circle", "corner",
    "dinner", "flower",   "finger", "ground", "metal",  "sister",  "spring", "travel"};

enum { N_WORDS = sizeof words / sizeof *words };
_Static_assert(N_WORDS == WORKLOAD_N_WORDS, "the header says how many words there are");

enum purpose { PURPOSE_OWN = 1, PURPOSE_PREFIX, PURPOSE_ORDER, PURPOSE_LENGTH, PURPOSE_ARRIVAL };

static uint64_t stream_of(enum purpose purpose, uint64_t i) {
    return (uint64_t)purpose << 56 | i;
}

static void append_word(const char *word, struct buf *out) {
    if (out->len && out->data[out->len - 1] != ' ') buf_append_char(out, ' ');
    buf_append_str(out, word);
}

void workload_append_each_word(uint32_t n, struct buf *out) {
    for (uint32_t i = 0; i < n && i < N_WORDS; i++) append_word(words[i], out);
}

void workload_append_words(uint64_t seed, uint64_t stream, uint32_t n_words, struct buf *out) {
    uint64_t words_seed = rng_u64(seed, stream);
    for (uint32_t i = 0; i < n_words; i++)
        append_word(words[rng_u64(words_seed, i) % N_WORDS], out);
}

void workload_append_text(const struct workload *workload, uint32_t item, struct buf *out) {
    const struct workload_item *it = &workload->items[item];
    for (uint32_t i = 0; i < it->n_segments; i++) {
        const struct workload_segment *segment = &workload->segments[it->segment_first + i];
        workload_append_words(workload->seed, segment->stream, segment->n_words, out);
    }
}

/* ---- building ---- */

/* Room for one more: *array has `*capacity` of `size` bytes, `n` in use. */
static bool grow(void *array, uint32_t n, uint32_t *capacity, size_t size) {
    void *old, *grown;
    if (n < *capacity) return true;
    size_t wanted = *capacity ? (size_t)*capacity * 2 : 64, bytes;
    memcpy(&old, array, sizeof old);
    if (wanted > UINT32_MAX || !mem_mul(wanted, size, &bytes) || !(grown = realloc(old, bytes)))
        return false;
    memcpy(array, &grown, sizeof grown);
    *capacity = (uint32_t)wanted;
    return true;
}

enum radish_status workload_add_item(struct workload *workload, uint32_t parent,
                                     uint32_t output_tokens, struct radish_error *err) {
    if (workload->n_items == WORKLOAD_ITEMS_MAX)
        return error_set(err, RADISH_E_LIMIT, "a workload has at most %u requests",
                         WORKLOAD_ITEMS_MAX);
    if (!grow(&workload->items, workload->n_items, &workload->items_capacity,
              sizeof *workload->items))
        return error_nomem(err);
    if (parent != WORKLOAD_NO_PARENT) workload->items[parent].n_children++;
    workload->items[workload->n_items++] =
        (struct workload_item){.parent = parent,
                               .segment_first = workload->n_segments,
                               .output_tokens = output_tokens ? output_tokens : 1};
    return RADISH_OK;
}

enum radish_status workload_add_segment(struct workload *workload, uint64_t stream,
                                        uint32_t n_words, struct radish_error *err) {
    if (!n_words) return RADISH_OK;
    if (n_words > WORKLOAD_WORDS_MAX)
        return error_set(err, RADISH_E_LIMIT, "a text has at most %u words", WORKLOAD_WORDS_MAX);
    if (!grow(&workload->segments, workload->n_segments, &workload->segments_capacity,
              sizeof *workload->segments))
        return error_nomem(err);
    workload->segments[workload->n_segments++] =
        (struct workload_segment){.stream = stream, .n_words = n_words};
    workload->items[workload->n_items - 1].n_segments++;
    return RADISH_OK;
}

static uint32_t to_words(const struct workload_options *options, double tokens) {
    double n = round(tokens * options->words_per_token);
    return n < 1 ? 1 : n > WORKLOAD_WORDS_MAX ? WORKLOAD_WORDS_MAX : (uint32_t)n;
}

/* Words of an item's own text: drawn from the range, the same for the same item. */
static uint32_t own_words(const struct workload_options *options, uint32_t item) {
    double u = rng_uniform(options->seed, stream_of(PURPOSE_LENGTH, item));
    double share = options->range_ratio + (1 - options->range_ratio) * u;
    return to_words(options, options->input_tokens * share);
}

/* One request: a prefix of a group (NO_PREFIX: none), and its own text. */
#define NO_PREFIX UINT32_MAX

static enum radish_status add_request(const struct workload_options *options, struct workload *w,
                                      uint32_t parent, uint32_t prefix, struct radish_error *err) {
    uint32_t item = w->n_items;
    RADISH_TRY(workload_add_item(w, parent, options->output_tokens, err));
    if (prefix != NO_PREFIX && options->prefix_tokens)
        RADISH_TRY(workload_add_segment(w, stream_of(PURPOSE_PREFIX, prefix),
                                        to_words(options, options->prefix_tokens), err));
    return workload_add_segment(w, stream_of(PURPOSE_OWN, item), own_words(options, item), err);
}

/* ---- the shapes ---- */

static enum radish_status make_flat(const struct workload_options *options, struct workload *w,
                                    struct radish_error *err) {
    uint32_t prefix = options->kind == WORKLOAD_COLD_FAN_OUT ? 0 : NO_PREFIX;
    for (uint32_t i = 0; i < options->n_requests; i++)
        RADISH_TRY(add_request(options, w, WORKLOAD_NO_PARENT, prefix, err));
    return RADISH_OK;
}

static enum radish_status make_groups(const struct workload_options *options, struct workload *w,
                                      struct radish_error *err) {
    for (uint32_t group = 0; group < options->n_groups; group++)
        for (uint32_t i = 0; i < options->n_per_group; i++)
            RADISH_TRY(add_request(options, w, WORKLOAD_NO_PARENT, group, err));
    for (uint32_t i = w->n_items - 1; i > 0; i--) {
        uint32_t j = (uint32_t)(rng_u64(options->seed, stream_of(PURPOSE_ORDER, i)) % (i + 1));
        struct workload_item kept = w->items[i];
        w->items[i] = w->items[j];
        w->items[j] = kept;
    }
    return RADISH_OK;
}

static enum radish_status make_chats(const struct workload_options *options, struct workload *w,
                                     struct radish_error *err) {
    for (uint32_t turn = 0; turn < options->n_per_group; turn++)
        for (uint32_t chat = 0; chat < options->n_groups; chat++) {
            uint32_t parent = turn ? w->n_items - options->n_groups : WORKLOAD_NO_PARENT;
            RADISH_TRY(add_request(options, w, parent, turn ? NO_PREFIX : chat, err));
        }
    return RADISH_OK;
}

/* Level by level: the answers of one level are what the next branches from. */
static enum radish_status make_trees(const struct workload_options *options, struct workload *w,
                                     struct radish_error *err) {
    uint32_t level_first = 0;
    for (uint32_t tree = 0; tree < options->n_groups; tree++)
        RADISH_TRY(add_request(options, w, WORKLOAD_NO_PARENT, tree, err));
    for (uint32_t level = 1; level < options->depth; level++) {
        uint32_t level_end = w->n_items;
        for (uint32_t parent = level_first; parent < level_end; parent++)
            for (uint32_t i = 0; i < options->fan_out; i++)
                RADISH_TRY(add_request(options, w, parent, NO_PREFIX, err));
        level_first = level_end;
    }
    return RADISH_OK;
}

/* Poisson arrivals: gaps are exponential. */
static void set_arrivals(const struct workload_options *options, struct workload *w) {
    double at = 0;
    if (!(options->request_rate > 0)) return;
    for (uint32_t i = 0; i < w->n_items; i++) {
        if (w->items[i].parent != WORKLOAD_NO_PARENT) continue;
        double u = rng_uniform(options->seed, stream_of(PURPOSE_ARRIVAL, i));
        w->items[i].at_ns = (uint64_t)(at * 1e9);
        at += -log(1 - u) / options->request_rate;
    }
}

static enum radish_status check(const struct workload_options *o, struct radish_error *err) {
    if (!(o->words_per_token > 0)) return error_set(err, RADISH_E_INVALID, "no words per token");
    if (o->kind == WORKLOAD_TRACE && !o->trace_path)
        return error_set(err, RADISH_E_INVALID, "workload trace needs --trace FILE");
    if (o->kind == WORKLOAD_TRACE) return RADISH_OK;
    if (!o->n_requests || !o->n_groups || !o->n_per_group || !o->depth || !o->fan_out)
        return error_set(err, RADISH_E_INVALID, "a workload of no requests");
    if (!o->input_tokens || !o->output_tokens)
        return error_set(err, RADISH_E_INVALID, "requests need input and output");
    return RADISH_OK;
}

enum radish_status workload_make(const struct workload_options *options,
                                 struct workload *workload_out, struct radish_error *err) {
    *workload_out = (struct workload){.seed = rng_u64(options->seed, options->kind)};
    RADISH_TRY(check(options, err));
    enum radish_status status = RADISH_OK;
    switch (options->kind) {
    case WORKLOAD_RANDOM:
    case WORKLOAD_COLD_FAN_OUT: status = make_flat(options, workload_out, err); break;
    case WORKLOAD_SHARED_PREFIX: status = make_groups(options, workload_out, err); break;
    case WORKLOAD_MULTI_TURN: status = make_chats(options, workload_out, err); break;
    case WORKLOAD_AGENT_TREE: status = make_trees(options, workload_out, err); break;
    case WORKLOAD_TRACE: return workload_read_trace(options, workload_out, err);
    }
    if (status == RADISH_OK) set_arrivals(options, workload_out);
    return status;
}

void workload_deinit(struct workload *workload) {
    free(workload->items);
    free(workload->segments);
    *workload = (struct workload){0};
}
