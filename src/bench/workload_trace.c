/* workload_trace.c - replays a trace of real traffic: which requests came when, how long they were,
 * and what they shared, without their texts.
 *
 * The format is that of the Mooncake traces, one JSON object a line:
 *
 *   {"timestamp": 27482, "input_length": 6955, "output_length": 52, "hash_ids": [46, 47, 48, ...]}
 *
 * Milliseconds; lengths in tokens; hash_ids[i] names the i-th block of 512 tokens together with all
 * before it, so equal ids mean equal begins. Each id becomes a stream of words: texts that shared a
 * block in the real traffic share one here.
 *
 * A machine that is a thousandth of the one traced can still serve its shape: --scale multiplies
 * all lengths (blocks too, so what is shared stays the same share), --speed divides the times. The
 * last block of a request is only as long as the rest of its input. Tokens beyond the ids given
 * (and traces without ids) get a text of their own. Lines are read one by one: traces are large. */
#include "workload.h"

#include "base/json.h"
#include "base/status.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

struct line {
    double timestamp_ms;
    uint32_t input_tokens, output_tokens;
    yyjson_val *hash_ids; /* or NULL */
};

enum { LENGTH_MAX = 16777216 };

static enum radish_status read_line(yyjson_val *root, struct line *line_out,
                                    struct radish_error *err) {
    *line_out = (struct line){.timestamp_ms = -1};
    if (!yyjson_is_obj(root)) return error_set(err, RADISH_E_INVALID, "no JSON object");
    RADISH_TRY(json_get_double(root, "timestamp", 0, 1e15, &line_out->timestamp_ms, err));
    RADISH_TRY(json_get_u32(root, "input_length", 1, LENGTH_MAX, &line_out->input_tokens, err));
    RADISH_TRY(json_get_u32(root, "output_length", 0, LENGTH_MAX, &line_out->output_tokens, err));
    if (line_out->timestamp_ms < 0 || !line_out->input_tokens)
        return error_set(err, RADISH_E_INVALID, "timestamp or input_length is missing");
    line_out->hash_ids = json_get(root, "hash_ids");
    if (line_out->hash_ids && !yyjson_is_arr(line_out->hash_ids))
        return error_set(err, RADISH_E_INVALID, "hash_ids is no array");
    return RADISH_OK;
}

/* Words of tokens [from, to) of an input, so that rounding never adds up. */
static uint32_t words_between(const struct workload_options *options, uint64_t from, uint64_t to) {
    double scale = options->trace_scale * options->words_per_token;
    return (uint32_t)((uint64_t)((double)to * scale + 0.5) -
                      (uint64_t)((double)from * scale + 0.5));
}

static enum radish_status add_blocks(const struct workload_options *options,
                                     const struct line *line, struct workload *w,
                                     uint32_t *n_done_out, struct radish_error *err) {
    size_t idx, n;
    yyjson_val *id;
    uint32_t done = 0;
    yyjson_arr_foreach(line->hash_ids, idx, n, id) {
        if (!yyjson_is_int(id))
            return error_set(err, RADISH_E_INVALID, "hash_ids has a %s", json_type_name(id));
        if (done == line->input_tokens) break;
        uint32_t rest = line->input_tokens - done;
        uint32_t end = done + (rest < WORKLOAD_BLOCK ? rest : WORKLOAD_BLOCK);
        uint64_t stream = yyjson_get_uint(id) & ~((uint64_t)0xFF << 56);
        RADISH_TRY(workload_add_segment(w, stream, words_between(options, done, end), err));
        done = end;
    }
    *n_done_out = done;
    return RADISH_OK;
}

static enum radish_status add_line(const struct workload_options *options, const struct line *line,
                                   struct workload *w, struct radish_error *err) {
    uint64_t own = (uint64_t)0x7F << 56 | w->n_items;
    uint32_t done = 0;
    double output = line->output_tokens * options->trace_scale + 0.5;
    RADISH_TRY(workload_add_item(w, WORKLOAD_NO_PARENT, (uint32_t)output, err));
    struct workload_item *item = &w->items[w->n_items - 1];
    item->at_ns = (uint64_t)(line->timestamp_ms * 1e6 / options->trace_speed);
    if (line->hash_ids) RADISH_TRY(add_blocks(options, line, w, &done, err));
    RADISH_TRY(workload_add_segment(w, own, words_between(options, done, line->input_tokens), err));
    if (!w->items[w->n_items - 1].n_segments) return workload_add_segment(w, own, 1, err);
    return RADISH_OK;
}

static enum radish_status take_line(const struct workload_options *options, const char *text,
                                    size_t len, struct workload *w, struct radish_error *err) {
    yyjson_doc *doc;
    struct line line;
    RADISH_TRY(json_parse(text, len, JSON_DEPTH_MAX, &doc, err));
    enum radish_status status = read_line(yyjson_doc_get_root(doc), &line, err);
    if (status == RADISH_OK) status = add_line(options, &line, w, err);
    yyjson_doc_free(doc);
    return status;
}

static int compare_times(const void *a, const void *b) {
    const struct workload_item *x = a, *y = b;
    if (x->at_ns != y->at_ns) return x->at_ns < y->at_ns ? -1 : 1;
    return (x->segment_first > y->segment_first) - (x->segment_first < y->segment_first);
}

/* The first request is at 0. */
static void set_times(struct workload *w) {
    qsort(w->items, w->n_items, sizeof *w->items, compare_times);
    uint64_t begin = w->items[0].at_ns;
    for (uint32_t i = 0; i < w->n_items; i++) w->items[i].at_ns -= begin;
}

enum radish_status workload_read_trace(const struct workload_options *options,
                                       struct workload *workload, struct radish_error *err) {
    char *text = NULL;
    size_t capacity = 0;
    ssize_t len = 0;
    uint64_t line = 0;
    enum radish_status status = RADISH_OK;
    FILE *file = fopen(options->trace_path, "r");
    if (!file)
        return error_set(err, RADISH_E_IO, "%.200s: %s", options->trace_path, strerror(errno));
    while (status == RADISH_OK &&
           (!options->n_requests || workload->n_items < options->n_requests) &&
           (len = getline(&text, &capacity, file)) >= 0) {
        line++;
        if (strspn(text, " \t\r\n") == (size_t)len) continue;
        status = take_line(options, text, (size_t)len, workload, err);
    }
    if (status == RADISH_OK && ferror(file))
        status = error_set(err, RADISH_E_IO, "%s", strerror(errno));
    if (status == RADISH_OK && !workload->n_items)
        status = error_set(err, RADISH_E_INVALID, "has no requests");
    if (status != RADISH_OK)
        error_prefix(err, "%.120s: line %llu", options->trace_path, (unsigned long long)line);
    free(text);
    fclose(file);
    if (status == RADISH_OK) set_times(workload);
    return status;
}
