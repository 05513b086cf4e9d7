/* ep_radix.c - GET /radix: what the prefix tree holds, how much it is used, and why prompts were
 * not found in it.
 *
 * The engine's thread makes the report between two steps, so this may wait for a step and runs on a
 * preparing thread. Text of prompts is shown to whoever may ask the server, except where several
 * API keys are kept apart: one of them must not read what the others send, so there are numbers
 * only. */
#include "base/mem.h"
#include "base/status.h"
#include "exchange.h"
#include "token_text.h"

#include <inttypes.h>
#include <stdlib.h>

static const char *miss_name(enum radish_miss miss) {
    switch (miss) {
    case RADISH_MISS_NONE: return "none";
    case RADISH_MISS_UNSEEN: return "never_seen";
    case RADISH_MISS_EVICTED: return "evicted";
    case RADISH_MISS_TWIN: return "being_computed";
    case RADISH_MISS_OFF: return "not_looked_for";
    }
    return "";
}

static void write_prefixes(const struct server *server, const struct radish_radix_report *report,
                           struct buf *out) {
    buf_append_str(out, ",\"prefixes\":[");
    for (uint32_t i = 0; i < report->n_prefixes; i++) {
        const struct radish_prefix *prefix = &report->prefixes[i];
        uint32_t n = prefix->n_tokens;
        if (n > RADISH_REPORT_TOKENS_MAX) n = RADISH_REPORT_TOKENS_MAX;
        buf_printf(out, "%s{\"tokens\":%u,\"hits\":%" PRIu64 ",\"pins\":%u,\"age\":%" PRIu64,
                   i ? "," : "", prefix->n_tokens, prefix->n_hits, prefix->n_pins, prefix->age);
        if (!server->isolates_keys) token_text_write(server->model, "text", prefix->tokens, n, out);
        buf_append_char(out, '}');
    }
    buf_append_char(out, ']');
}

static void write_misses(const struct server *server, const struct radish_radix_report *report,
                         struct buf *out) {
    buf_append_str(out, ",\"misses\":[");
    for (uint32_t i = 0; i < report->n_misses; i++) {
        const struct radish_miss_record *record = &report->misses[i];
        const int32_t *last = &record->tokens[record->n_tokens - 1];
        buf_printf(out,
                   "%s{\"request\":%" PRIu64 ",\"seconds_ago\":%.3f,\"prompt_tokens\":%u,"
                   "\"cached_tokens\":%u,\"reason\":\"%s\"",
                   i ? "," : "", record->request, record->age_seconds, record->n_prompt,
                   record->n_cached, miss_name(record->miss));
        if (record->miss != RADISH_MISS_NONE) {
            buf_printf(out, ",\"position\":%u", record->n_cached);
            if (!server->isolates_keys) {
                buf_printf(out, ",\"token\":%d", *last);
                token_text_write(server->model, "text", last, 1, out);
                token_text_write(server->model, "text_before", record->tokens, record->n_tokens - 1,
                                 out);
            }
        }
        buf_append_char(out, '}');
    }
    buf_append_char(out, ']');
}

static void write_report(const struct server *server, const struct radish_radix_report *r,
                         struct buf *out) {
    struct radish_engine_info info;
    radish_engine_info(server->engine, &info);
    double rate = info.prompt_tokens_total
                      ? (double)info.cached_tokens_total / (double)info.prompt_tokens_total
                      : 0;
    buf_printf(out,
               "{\"enabled\":true,\"eviction_policy\":\"%s\",\"schedule_policy\":\"%s\","
               "\"page_size\":%u,\"nodes\":%u,\"namespaces\":%u,",
               r->eviction_policy, r->schedule_policy, r->page_tokens, r->n_nodes, r->n_namespaces);
    buf_printf(out,
               "\"tokens\":{\"total\":%" PRIu64 ",\"free\":%" PRIu64 ",\"cached\":%" PRIu64
               ",\"evictable\":%" PRIu64 ",\"pinned\":%" PRIu64 ",\"private\":%" PRIu64 "},",
               r->tokens_total, r->tokens_free, r->tokens_evictable + r->tokens_pinned,
               r->tokens_evictable, r->tokens_pinned, r->tokens_private);
    buf_printf(out,
               "\"prompt_tokens\":%" PRIu64 ",\"cached_tokens\":%" PRIu64 ",\"hit_rate\":%.4f,",
               info.prompt_tokens_total, info.cached_tokens_total, rate);
    buf_printf(out,
               "\"matches\":%" PRIu64 ",\"match_tokens\":%" PRIu64 ",\"hit_tokens\":%" PRIu64
               ",\"evicted_tokens\":%" PRIu64 ",\"evicted_leaves\":%" PRIu64 ",\"splits\":%" PRIu64
               ",\"duplicate_tokens\":%" PRIu64 ",",
               r->matches_total, r->match_tokens_total, r->hit_tokens_total,
               r->evicted_tokens_total, r->evicted_leaves_total, r->splits_total,
               r->duplicate_tokens_total);
    buf_printf(out,
               "\"shadow_checks\":%" PRIu64 ",\"shadow_failures\":%" PRIu64
               ",\"nodes_visited\":%u,\"age_oldest\":%" PRIu64 ",\"age_newest\":%" PRIu64,
               info.shadow_checks_total, info.shadow_failures_total, r->n_nodes_visited,
               r->age_oldest, r->age_newest);
    write_prefixes(server, r, out);
    write_misses(server, r, out);
    buf_append_char(out, '}');
}

enum radish_status ep_radix(struct exchange *ex, struct radish_error *err) {
    struct server *server = ex->server;
    struct radish_radix_report *report = mem_zalloc(1, sizeof *report);
    if (!report) return error_nomem(err);
    enum radish_status status = radish_engine_radix_report(server->engine, report, err);
    if (!status) {
        ex->reply.status = 200;
        if (report->is_enabled)
            write_report(server, report, &ex->reply.body);
        else
            buf_append_str(&ex->reply.body, "{\"enabled\":false}");
    }
    free(report);
    return status;
}
