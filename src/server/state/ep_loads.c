/* ep_loads.c - GET /v1/loads and /get_load: how busy this worker is, for who spreads requests over
 * several.
 *
 * Two generations of SGLang's router ask for this, in two shapes; both add up the tokens that a
 * worker has to keep or to compute. One process serves one replica, so there is always one entry,
 * of rank 0. As Prometheus text the same numbers are gauges.
 *
 * A worker that is asked often must not be slowed by it: numbers of the last step, from an HTTP
 * thread, without a word to the engine's. */
#include "base/status.h"
#include "exchange.h"
#include "json_out.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>
#include <time.h>

enum { SECTION_CORE = 1, SECTION_MEMORY = 2, SECTION_QUEUES = 4, SECTION_ALL = 7 };

/* Sections of SGLang that have no meaning here are known, and empty. */
static const struct section {
    const char *name;
    unsigned bits;
} sections[] = {{"core", SECTION_CORE},
                {"memory", SECTION_MEMORY},
                {"queues", SECTION_QUEUES},
                {"all", SECTION_ALL},
                {"spec", 0},
                {"lora", 0},
                {"disagg", 0}};

enum value_kind { VALUE_COUNT, VALUE_RATE };

/* One number: of the load itself, or of a section in it. */
struct value {
    unsigned section;
    const char *key;
    enum value_kind kind;
    double number;
};

enum { VALUES_MAX = 32 };

struct load {
    struct value values[VALUES_MAX];
    uint32_t n_values;
};

static void add(struct load *load, unsigned section, const char *key, enum value_kind kind,
                double number) {
    load->values[load->n_values++] =
        (struct value){.section = section, .key = key, .kind = kind, .number = number};
}

static uint64_t count_used(const struct radish_engine_info *info) {
    return info->kv_slots_total - info->kv_slots_free - info->kv_slots_evictable;
}

static double share(uint64_t part, uint64_t whole) {
    return whole ? (double)part / (double)whole : 0;
}

static void fill(const struct radish_engine_info *info, struct load *load) {
    uint64_t used = count_used(info);
    double n_used = (double)used, n_total = n_used + (double)info->queued_tokens;
    load->n_values = 0;
    add(load, SECTION_CORE, "num_running_reqs", VALUE_COUNT, info->requests_running);
    add(load, SECTION_CORE, "num_waiting_reqs", VALUE_COUNT, info->requests_queued);
    add(load, SECTION_CORE, "num_waiting_uncached_tokens", VALUE_COUNT,
        (double)info->queued_tokens);
    add(load, SECTION_CORE, "num_used_tokens", VALUE_COUNT, n_used);
    add(load, SECTION_CORE, "num_total_tokens", VALUE_COUNT, n_total);
    add(load, SECTION_CORE, "max_total_num_tokens", VALUE_COUNT, (double)info->kv_slots_total);
    add(load, SECTION_CORE, "max_running_requests", VALUE_COUNT, info->requests_running_max);
    add(load, SECTION_CORE, "token_usage", VALUE_RATE, share(used, info->kv_slots_total));
    add(load, SECTION_CORE, "gen_throughput", VALUE_RATE, info->output_tokens_per_second);
    add(load, SECTION_CORE, "cache_hit_rate", VALUE_RATE, info->cache_hit_rate);
    add(load, SECTION_CORE, "utilization", VALUE_RATE,
        share(info->requests_running, info->requests_running_max));
    add(load, SECTION_MEMORY, "weight_gb", VALUE_RATE, (double)info->weight_bytes / 1e9);
    add(load, SECTION_MEMORY, "kv_cache_gb", VALUE_RATE, (double)info->kv_bytes / 1e9);
    add(load, SECTION_MEMORY, "graph_gb", VALUE_RATE, 0);
    add(load, SECTION_MEMORY, "token_capacity", VALUE_COUNT, (double)info->kv_slots_total);
    add(load, SECTION_QUEUES, "waiting", VALUE_COUNT, info->requests_queued);
    add(load, SECTION_QUEUES, "grammar", VALUE_COUNT, 0);
    add(load, SECTION_QUEUES, "paused", VALUE_COUNT, 0);
    add(load, SECTION_QUEUES, "retracted", VALUE_COUNT, info->requests_retracted);
}

static const char *section_name(unsigned bits) {
    for (size_t i = 0; i < sizeof sections / sizeof *sections; i++)
        if (sections[i].bits == bits) return sections[i].name;
    return "";
}

static void write_number(struct buf *out, const struct value *value) {
    if (value->kind == VALUE_COUNT)
        buf_printf(out, "%.0f", value->number);
    else
        json_out_double(out, value->number);
}

/* The values of one section, each behind a comma if is_behind. */
static void write_values(const struct load *load, unsigned section, bool is_behind,
                         struct buf *out) {
    for (uint32_t i = 0; i < load->n_values; i++) {
        const struct value *value = &load->values[i];
        if (value->section != section) continue;
        if (is_behind) buf_append_char(out, ',');
        is_behind = true;
        json_out_key(out, value->key);
        write_number(out, value);
    }
}

static void write_json(const struct load *load, unsigned wanted, struct buf *out) {
    struct timespec now;
    struct tm utc;
    char stamp[40];
    clock_gettime(CLOCK_REALTIME, &now);
    gmtime_r(&now.tv_sec, &utc);
    size_t n = strftime(stamp, sizeof stamp, "%Y-%m-%dT%H:%M:%S", &utc);
    snprintf(stamp + n, sizeof stamp - n, ".%06ld+00:00", now.tv_nsec / 1000);
    buf_printf(out,
               "{\"timestamp\":\"%s\",\"version\":\"%s\",\"accelerator\":null,"
               "\"num_accelerators\":0,\"dp_rank_count\":1,\"loads\":[{\"dp_rank\":0,"
               "\"timestamp\":%lld.%06ld",
               stamp, RADISH_VERSION, (long long)now.tv_sec, now.tv_nsec / 1000);
    write_values(load, SECTION_CORE, /*is_behind=*/true, out);
    for (unsigned section = SECTION_MEMORY; section < SECTION_ALL; section <<= 1) {
        if (!(wanted & section)) continue;
        buf_printf(out, ",\"%s\":{", section_name(section));
        write_values(load, section, /*is_behind=*/false, out);
        buf_append_char(out, '}');
    }
    buf_append_str(out, "}]}");
}

static void write_prometheus(const struct load *load, unsigned wanted, struct buf *out) {
    for (uint32_t i = 0; i < load->n_values; i++) {
        const struct value *value = &load->values[i];
        bool is_core = value->section == SECTION_CORE;
        char name[64];
        if (!is_core && !(wanted & value->section)) continue;
        snprintf(name, sizeof name, "sglang_%s%s%s", is_core ? "" : section_name(value->section),
                 is_core ? "" : "_", value->key);
        buf_printf(out, "# HELP %s As in /v1/loads.\n# TYPE %s gauge\n%s{dp_rank=\"0\"} ", name,
                   name, name);
        write_number(out, value);
        buf_append_char(out, '\n');
    }
}

/* "core,memory" as bits. Core is always there. */
static enum radish_status read_include(const char *text, unsigned *wanted_out,
                                       struct radish_error *err) {
    *wanted_out = text ? 0 : SECTION_ALL;
    while (text && *text) {
        size_t n = strcspn(text, ","), begin = strspn(text, " "), len = n, i = 0;
        if (begin > n) begin = n;
        while (len > begin && text[len - 1] == ' ') len--;
        const size_t n_sections = sizeof sections / sizeof *sections;
        while (i < n_sections && (strlen(sections[i].name) != len - begin ||
                                  strncmp(sections[i].name, text + begin, len - begin) != 0))
            i++;
        if (i == n_sections)
            return error_set_field(err, RADISH_E_INVALID, "include",
                                   "include does not know '%.*s': core, memory, queues, all (and "
                                   "spec, lora, disagg, which are empty)",
                                   (int)(len - begin > 40 ? 40 : len - begin), text + begin);
        *wanted_out |= sections[i].bits;
        text += n + (text[n] == ',');
    }
    return RADISH_OK;
}

enum radish_status ep_loads(struct exchange *ex, struct radish_error *err) {
    struct radish_engine_info info;
    struct load load;
    unsigned wanted;
    double rank = 0;
    RADISH_TRY(exchange_check_query(ex, "include|format|dp_rank", err));
    RADISH_TRY(read_include(query_find(&ex->query, "include"), &wanted, err));
    RADISH_TRY(query_get_double(&ex->query, "dp_rank", 0, &rank, err));
    const char *format = query_find(&ex->query, "format");
    bool is_text = format && !strcmp(format, "prometheus");
    if (format && !is_text && strcmp(format, "json") != 0)
        return error_set_field(err, RADISH_E_INVALID, "format", "format is json or prometheus");
    radish_engine_info(ex->server->engine, &info);
    fill(&info, &load);
    ex->reply.status = 200;
    if (is_text) {
        ex->reply.content_type = "text/plain; version=0.0.4; charset=utf-8";
        write_prometheus(&load, wanted, &ex->reply.body);
    } else {
        write_json(&load, wanted, &ex->reply.body);
    }
    return RADISH_OK;
}

enum radish_status ep_get_load(struct exchange *ex, struct radish_error *err) {
    struct radish_engine_info info;
    (void)err;
    radish_engine_info(ex->server->engine, &info);
    ex->reply.status = 200;
    buf_printf(&ex->reply.body,
               "[{\"dp_rank\":0,\"num_reqs\":%u,\"num_waiting_reqs\":%u,\"num_tokens\":%" PRIu64
               "}]",
               info.requests_running + info.requests_queued, info.requests_queued,
               count_used(&info) + info.queued_tokens);
    return RADISH_OK;
}
