/* workload.h - which requests a run sends: their texts, their lengths, what they share, when each
 * may start.
 *
 * A workload is a list of items. An item's own text is a few segments of words; a segment is a
 * stream of pseudo-random words, so items that name the same stream have the same text, and nothing
 * is stored but numbers. An item with a parent continues the parent's conversation (its text, the
 * server's answer, then its own text) and starts when the parent has been answered.
 *
 *   random         every text is its own
 *   shared-prefix  groups of requests, each group with a prefix; shuffled
 *   multi-turn     conversations that grow with the server's answers
 *   agent-tree     from a trunk, fan_out continuations of each answer, depth levels deep
 *   cold-fan-out   one trunk nobody has computed yet, all requests at once
 *   trace          a file of requests in Mooncake's format (workload_trace.c)
 *
 * Deterministic: the same options make the same workload. Threads: immutable once made. */
#ifndef BENCH_WORKLOAD_H
#define BENCH_WORKLOAD_H

#include "radish.h"

#include "base/buf.h"

enum workload_kind {
    WORKLOAD_RANDOM,
    WORKLOAD_SHARED_PREFIX,
    WORKLOAD_MULTI_TURN,
    WORKLOAD_AGENT_TREE,
    WORKLOAD_COLD_FAN_OUT,
    WORKLOAD_TRACE
};

#define WORKLOAD_NAMES     "random|shared-prefix|multi-turn|agent-tree|cold-fan-out|trace"
#define WORKLOAD_ITEMS_MAX 1000000u
#define WORKLOAD_WORDS_MAX 16777216u /* of one segment */
#define WORKLOAD_NO_PARENT UINT32_MAX
#define WORKLOAD_BLOCK     512u /* tokens behind one hash id of a trace */

struct workload_options {
    enum workload_kind kind;
    uint32_t n_requests;     /* random, cold-fan-out; of a trace, the first so many; 0: all */
    uint32_t n_groups;       /* prefixes, conversations, trees */
    uint32_t n_per_group;    /* requests with a prefix; turns of a conversation */
    uint32_t depth, fan_out; /* of a tree; depth 1 is the trunk's request alone */
    uint32_t prefix_tokens;  /* what a group shares; a conversation's begin; a trunk */
    uint32_t input_tokens;   /* a request's own text, each turn's */
    uint32_t output_tokens;
    double range_ratio;  /* (0, 1]: own text has from this share of input_tokens to all */
    double request_rate; /* a second, arriving at random; 0: all at once */
    const char *trace_path;
    double trace_scale; /* lengths are multiplied by this */
    double trace_speed; /* time runs so many times faster */
    uint64_t seed;
    double words_per_token; /* as calibrated for the server */
};

struct workload_segment {
    uint64_t stream;
    uint32_t n_words;
};

struct workload_item {
    uint32_t parent; /* an earlier item, or WORKLOAD_NO_PARENT */
    uint32_t n_children;
    uint32_t segment_first, n_segments;
    uint32_t output_tokens; /* >= 1 */
    uint64_t at_ns;         /* not before, from the run's start; 0 for items with a parent */
};

struct workload {
    struct workload_item *items; /* [n_items], those without a parent in order of at_ns */
    uint32_t n_items, items_capacity;
    struct workload_segment *segments; /* [n_segments] */
    uint32_t n_segments, segments_capacity;
    uint64_t seed;
};

/* E_INVALID names what is wrong with the options or with a line of the trace; E_IO, E_NOMEM.
 * workload_deinit() is due in every case. */
enum radish_status workload_make(const struct workload_options *options,
                                 struct workload *workload_out,
                                 struct radish_error *err) RADISH_CHECK_RESULT;
void workload_deinit(struct workload *workload);

/* The item's own text, without its parents': words with spaces between. */
void workload_append_text(const struct workload *workload, uint32_t item, struct buf *out);

#define WORKLOAD_N_WORDS 64u /* different words there are */

/* The first n <= WORKLOAD_N_WORDS words, each once. */
void workload_append_each_word(uint32_t n, struct buf *out);

/* n words of a stream, separated by spaces, as segments are written. */
void workload_append_words(uint64_t seed, uint64_t stream, uint32_t n_words, struct buf *out);

/* For those who build: an item at the end, its first segment to follow. E_NOMEM, E_LIMIT. */
enum radish_status workload_add_item(struct workload *workload, uint32_t parent,
                                     uint32_t output_tokens,
                                     struct radish_error *err) RADISH_CHECK_RESULT;
/* A segment of the last item. */
enum radish_status workload_add_segment(struct workload *workload, uint64_t stream,
                                        uint32_t n_words,
                                        struct radish_error *err) RADISH_CHECK_RESULT;
/* workload_trace.c */
enum radish_status workload_read_trace(const struct workload_options *options,
                                       struct workload *workload,
                                       struct radish_error *err) RADISH_CHECK_RESULT;

#endif
