/* radix_watch.c - the cache explained: where a prompt left the tree and why, and what the tree
 * holds.
 *
 * The problem: a cache that does not hit looks like one that works, only slower, and the cause (a
 * date in the system prompt, thinking that a client strips, another key, eviction) is outside of
 * the server. What helps a person is the first token that differs, its text, the text before it,
 * and whether what follows there was never computed or had to go. All of this is known at the
 * moment of admission and nowhere else, so it is written down then:
 *
 *   prompt   A A A A A A A A B B B
 *            |  n_cached   | ^ tokens[n_tokens - 1]: the first that is not in the tree
 *                ^^^^^^^^^ up to CONTEXT_TOKENS before it
 *
 * Records are a ring of fixed size. Text is made from the tokens only where it is shown: here for
 * the log line, on the stack, and in the server for GET /radix.
 *
 * A report visits the slab of nodes once: about 25 ns a node, at most RADIX_WATCH_NODES_MAX of
 * them, so a step is late by 7 ms at worst (2026-11, debug build); in a larger tree the nodes
 * beyond are not looked at, and the report says how many were. Pages of more than one token are
 * compared as a whole: the position is then the beginning of the page in which the prompt differs.
 */
#include "engine/radix_watch.h"

#include "base/log.h"
#include "base/mem.h"
#include "base/status.h"
#include "base/utf8.h"

#include <stdlib.h>
#include <string.h>

enum {
    CONTEXT_TOKENS = 8, /* shown before the first one that is missing */
    TEXT_BYTES = 160    /* of a token, or of what comes before it, in the log */
};

/* ---- misses ---- */

enum radish_status radix_watch_init(struct radix_watch *watch, bool keeps, bool has_tree,
                                    struct radish_error *err) {
    *watch = (struct radix_watch){.has_tree = has_tree};
    if (!keeps) return RADISH_OK;
    watch->records = mem_zalloc(RADISH_REPORT_MISSES_MAX, sizeof *watch->records);
    watch->admitted_ns = mem_zalloc(RADISH_REPORT_MISSES_MAX, sizeof *watch->admitted_ns);
    return watch->records && watch->admitted_ns ? RADISH_OK : error_nomem(err);
}

void radix_watch_deinit(struct radix_watch *watch) {
    free(watch->records);
    free(watch->admitted_ns);
}

static enum radish_miss miss_of(const struct radix_watch *watch, const struct sched_seq *seq) {
    bool wants_rows = seq->logits_from <= seq->n_prompt_cached; /* those must be computed */
    if (!watch->has_tree || seq->is_cache_off || wants_rows) return RADISH_MISS_OFF;
    if (seq->is_waiting) return RADISH_MISS_TWIN;
    switch (seq->miss) {
    case RADIX_MISS_NONE: return RADISH_MISS_NONE;
    case RADIX_MISS_UNSEEN: return RADISH_MISS_UNSEEN;
    case RADIX_MISS_EVICTED: return RADISH_MISS_EVICTED;
    }
    return RADISH_MISS_UNSEEN;
}

/* Tokens as one text for a log line: quotes and what is no whole character become '?'. The end is
 * kept when it does not fit. */
static void write_text(const struct radish_model *model, const int32_t *tokens, uint32_t n,
                       char text_out[TEXT_BYTES]) {
    char bytes[4 * TEXT_BYTES];
    size_t n_bytes = 0, first = 0, len, at = 0;
    for (uint32_t i = 0; i < n; i++) {
        const char *piece = radish_token_bytes(model, tokens[i], &len);
        if (!piece) continue;
        if (len > sizeof bytes - n_bytes) len = sizeof bytes - n_bytes;
        memcpy(bytes + n_bytes, piece, len);
        n_bytes += len;
    }
    if (n_bytes > TEXT_BYTES - 1) first = n_bytes - (TEXT_BYTES - 1);
    while (first < n_bytes) {
        size_t n_valid = utf8_valid_prefix(bytes + first, n_bytes - first);
        for (size_t i = 0; i < n_valid; i++)
            text_out[at++] = bytes[first + i] == '"' ? '\'' : bytes[first + i];
        first += n_valid;
        if (first == n_bytes) break;
        text_out[at++] = '?';
        first++;
    }
    text_out[at] = '\0';
}

static void log_record(const struct radish_model *model, const struct radish_miss_record *record) {
    static const char *const why[] = {[RADISH_MISS_UNSEEN] = "never seen",
                                      [RADISH_MISS_EVICTED] = "evicted",
                                      [RADISH_MISS_TWIN] = "being computed by another request",
                                      [RADISH_MISS_OFF] = "not looked for"};
    char before[TEXT_BYTES], there[TEXT_BYTES];
    if (!log_has_level(RADISH_LOG_INFO)) return;
    if (record->miss == RADISH_MISS_NONE) {
        log_info("engine",
                 "request %llu: %u of %u prompt tokens cached: all that can be (at least one is "
                 "always computed)",
                 (unsigned long long)record->request, record->n_cached, record->n_prompt);
        return;
    }
    uint32_t last = record->n_tokens - 1;
    write_text(model, record->tokens, last, before);
    write_text(model, record->tokens + last, 1, there);
    log_info("engine",
             "request %llu: %u of %u prompt tokens cached; what follows at position %u, token %d "
             "\"%s\" behind \"%s\", was %s",
             (unsigned long long)record->request, record->n_cached, record->n_prompt,
             record->n_cached, record->tokens[last], there, before, why[record->miss]);
}

void radix_watch_add(struct radix_watch *watch, const struct radish_model *model, uint64_t request,
                     const struct sched_seq *seq, uint64_t now_ns) {
    if (!watch->records) return;
    uint32_t at = (uint32_t)(watch->n_added++ % RADISH_REPORT_MISSES_MAX);
    struct radish_miss_record *record = &watch->records[at];
    uint32_t n_cached = seq->n_prompt_cached;
    uint32_t first = n_cached > CONTEXT_TOKENS ? n_cached - CONTEXT_TOKENS : 0;
    *record = (struct radish_miss_record){.request = request,
                                          .n_prompt = seq->n_prompt,
                                          .n_cached = n_cached,
                                          .miss = miss_of(watch, seq),
                                          .n_tokens = n_cached + 1 - first};
    memcpy(record->tokens, seq->prompt + first, record->n_tokens * sizeof *record->tokens);
    watch->admitted_ns[at] = now_ns;
    log_record(model, record);
}

static void report_misses(const struct radix_watch *watch, uint64_t now_ns,
                          struct radish_radix_report *report) {
    uint64_t n = watch->records ? watch->n_added : 0;
    report->n_misses = n < RADISH_REPORT_MISSES_MAX ? (uint32_t)n : RADISH_REPORT_MISSES_MAX;
    for (uint32_t i = 0; i < report->n_misses; i++) {
        uint32_t at = (uint32_t)((n - 1 - i) % RADISH_REPORT_MISSES_MAX);
        report->misses[i] = watch->records[at];
        report->misses[i].age_seconds = (double)(now_ns - watch->admitted_ns[at]) / 1e9;
    }
}

/* ---- the tree ---- */

/* The nodes seen so far that were hit, largest n_tokens * n_hits first. */
struct ranking {
    struct radish_radix_report *report;
    uint32_t nodes[RADISH_REPORT_PREFIXES_MAX];
};

static double weight_of(const struct radish_prefix *prefix) {
    return (double)prefix->n_tokens * (double)prefix->n_hits;
}

static void rank(struct ranking *ranking, uint32_t node, const struct radish_prefix *prefix) {
    struct radish_radix_report *report = ranking->report;
    uint32_t at = report->n_prefixes;
    while (at && weight_of(&report->prefixes[at - 1]) < weight_of(prefix)) at--;
    if (at == RADISH_REPORT_PREFIXES_MAX) return;
    if (report->n_prefixes < RADISH_REPORT_PREFIXES_MAX) report->n_prefixes++;
    for (uint32_t i = report->n_prefixes - 1; i > at; i--) {
        report->prefixes[i] = report->prefixes[i - 1];
        ranking->nodes[i] = ranking->nodes[i - 1];
    }
    report->prefixes[at] = *prefix;
    ranking->nodes[at] = node;
}

static bool visit_node(void *user, uint32_t node, const struct radix_node_info *info) {
    struct ranking *ranking = user;
    struct radish_radix_report *report = ranking->report;
    struct radish_prefix prefix = {.n_tokens = info->n_tokens_path,
                                   .n_hits = info->n_hits,
                                   .n_pins = info->n_pins,
                                   .age = info->age};
    if (!report->n_nodes_visited++) report->age_oldest = report->age_newest = info->age;
    if (info->age > report->age_oldest) report->age_oldest = info->age;
    if (info->age < report->age_newest) report->age_newest = info->age;
    if (info->n_hits) rank(ranking, node, &prefix);
    return report->n_nodes_visited < RADIX_WATCH_NODES_MAX;
}

static void report_tree(const struct radix *radix, struct radish_radix_report *report) {
    struct radix_summary summary;
    radix_summary(radix, &summary);
    report->tokens_pinned = summary.n_tokens_pinned;
    report->n_nodes = summary.n_nodes;
    report->n_namespaces = summary.n_namespaces;
    report->matches_total = summary.n_matches;
    report->match_tokens_total = summary.n_tokens_asked;
    report->hit_tokens_total = summary.n_tokens_matched;
    report->evicted_tokens_total = summary.n_tokens_evicted;
    report->evicted_leaves_total = summary.n_leaves_evicted;
    report->splits_total = summary.n_splits;
    report->duplicate_tokens_total = summary.n_duplicates;

    struct ranking ranking = {.report = report};
    radix_visit(radix, visit_node, &ranking);
    for (uint32_t i = 0; i < report->n_prefixes; i++)
        radix_path(radix, ranking.nodes[i], report->prefixes[i].tokens, RADISH_REPORT_TOKENS_MAX);
}

void radix_watch_report(const struct radix_watch *watch, const struct sched *sched, uint64_t now_ns,
                        struct radish_radix_report *report_out) {
    const struct radix *radix = sched_radix(sched);
    struct sched_stats stats;
    sched_stats(sched, &stats);
    *report_out = (struct radish_radix_report){.is_enabled = radix != NULL,
                                               .tokens_total = stats.n_slots_usable,
                                               .tokens_free = stats.n_slots_free,
                                               .tokens_evictable = stats.n_slots_evictable};
    if (radix) report_tree(radix, report_out);
    report_out->tokens_private = report_out->tokens_total - report_out->tokens_free -
                                 report_out->tokens_evictable - report_out->tokens_pinned;
    report_misses(watch, now_ns, report_out);
}
