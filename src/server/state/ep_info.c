/* ep_info.c - GET /model_info and /server_info (and their older names with get_): what is served
 * here, how it was started, and how it is doing.
 *
 * SGLang's router reads both when a worker joins, benchmarks read the second when they end; names
 * and types are SGLang's, since a number where a text is expected makes such a reader drop
 * everything. What it has no name for stands in an object of its own, "radish": the kernels and why
 * they were chosen, the instruction set, the class of bits, the memory plan. The command line comes
 * in as text, made from the one table of flags, so that a new flag appears here by itself; values
 * of API keys never do.
 *
 * Everything is read from counters of the last step: answered on an HTTP thread, at once. */
#include "base/mem.h"
#include "exchange.h"
#include "json_out.h"

#include <inttypes.h>
#include <string.h>

static void write_text(struct buf *out, const char *key, const char *text) {
    json_out_key(out, key);
    if (text && *text)
        json_out_string(out, text, strlen(text));
    else
        buf_append_str(out, "null");
    buf_append_char(out, ',');
}

static void write_number(struct buf *out, const char *key, uint64_t value) {
    buf_printf(out, "\"%s\":%" PRIu64 ",", key, value);
}

/* The last comma becomes the end of the object. */
static void end_object(struct buf *out) {
    if (out->len && out->data[out->len - 1] == ',') out->len--;
    buf_append_char(out, '}');
}

static void write_model(const struct server *server, struct buf *out) {
    const struct radish_model_info *model = radish_model_info(server->model);
    write_text(out, "model_path", model->path);
    write_text(out, "tokenizer_path", model->path);
    write_text(out, "weight_version", SERVER_WEIGHT_VERSION);
}

enum radish_status ep_model_info(struct exchange *ex, struct radish_error *err) {
    const struct server *server = ex->server;
    const struct radish_model_info *model = radish_model_info(server->model);
    struct buf *out = &ex->reply.body;
    (void)err;
    ex->reply.status = 200;
    buf_append_char(out, '{');
    write_model(server, out);
    write_text(out, "served_model_name", server->served_name);
    buf_append_str(out, "\"is_generation\":true,\"preferred_sampling_params\":null,"
                        "\"has_image_understanding\":false,\"has_audio_understanding\":false,");
    write_text(out, "model_type", model->hf_type);
    json_out_key(out, "architectures");
    if (model->hf_class) {
        buf_append_char(out, '[');
        json_out_string(out, model->hf_class, strlen(model->hf_class));
        buf_append_str(out, "],");
    } else {
        buf_append_str(out, "null,");
    }
    write_text(out, "format", model->format);
    write_number(out, "vocab_size", model->n_vocab);
    write_number(out, "max_model_len", server->context_tokens);
    end_object(out);
    return RADISH_OK;
}

static double to_gb(uint64_t bytes) {
    return (double)bytes / 1e9;
}

static void write_state(const struct server *server, const struct radish_engine_info *info,
                        struct buf *out) {
    buf_append_str(out, "\"internal_states\":[{");
    if (*server->args_json) buf_printf(out, "%s,", server->args_json);
    write_model(server, out);
    json_out_key(out, "last_gen_throughput");
    json_out_double(out, info->output_tokens_per_second);
    buf_append_str(out, ",\"memory_usage\":{\"weight\":");
    json_out_double(out, to_gb(info->weight_bytes));
    buf_append_str(out, ",\"kvcache\":");
    json_out_double(out, to_gb(info->kv_bytes));
    buf_printf(out,
               ",\"graph\":0.0,\"token_capacity\":%" PRIu64
               "},\"effective_max_running_requests_per_dp\":%u}]",
               info->kv_slots_total, info->requests_running_max);
}

/* "matmul=bf16_f32_matmul__avx2 rope=..." as an object. */
static void write_kernels(struct buf *out, const char *kernels) {
    buf_append_char(out, '{');
    for (const char *at = kernels ? kernels : ""; *at;) {
        size_t n = strcspn(at, " "), n_name = strcspn(at, "= ");
        if (n_name < n) {
            json_out_string(out, at, n_name);
            buf_append_char(out, ':');
            json_out_string(out, at + n_name + 1, n - n_name - 1);
            buf_append_char(out, ',');
        }
        at += n + (at[n] == ' ');
    }
    end_object(out);
}

static void write_lines(struct buf *out, const char *text) {
    bool is_first = true;
    buf_append_char(out, '[');
    for (const char *at = text ? text : ""; *at;) {
        size_t n = strcspn(at, "\n");
        if (n && !is_first) buf_append_char(out, ',');
        if (n) json_out_string(out, at, n);
        is_first = is_first && !n;
        at += n + (at[n] == '\n');
    }
    buf_append_char(out, ']');
}

static void write_own(const struct server *server, const struct radish_engine_info *info,
                      struct buf *out) {
    buf_append_str(out, "\"radish\":{");
    write_text(out, "device", info->device);
    write_text(out, "isa", info->isa);
    write_text(out, "bit_class", info->bit_class);
    write_text(out, "precision", info->precision == RADISH_PRECISION_EXACT ? "exact" : "fast");
    write_text(out, "kv_dtype", info->kv_dtype);
    write_number(out, "threads", info->n_threads);
    json_out_key(out, "kernels");
    write_kernels(out, info->kernels);
    buf_append_str(out, ",\"kernels_report\":");
    write_lines(out, info->kernels_report);
    buf_append_char(out, ',');
    write_number(out, "context_tokens", info->context_tokens);
    write_number(out, "page_size", info->page_tokens);
    write_number(out, "chunked_prefill_size", info->chunk_tokens);
    write_number(out, "weight_bytes", info->weight_bytes);
    write_number(out, "kv_bytes", info->kv_bytes);
    write_number(out, "kv_bytes_per_token", info->kv_slot_bytes);
    write_number(out, "scratch_bytes", info->scratch_bytes);
    buf_printf(out, "\"radix_cache\":%s,\"isolates_keys\":%s,\"n_api_keys\":%zu,",
               info->has_cache ? "true" : "false", server->isolates_keys ? "true" : "false",
               server->keys.n);
    end_object(out);
}

enum radish_status ep_server_info(struct exchange *ex, struct radish_error *err) {
    const struct server *server = ex->server;
    struct buf *out = &ex->reply.body;
    struct radish_engine_info info;
    (void)err;
    radish_engine_info(server->engine, &info);
    ex->reply.status = 200;
    buf_append_char(out, '{');
    if (*server->args_json) buf_printf(out, "%s,", server->args_json);
    write_model(server, out);
    buf_append_str(out, "\"dp_size\":1,\"tp_size\":1,\"pp_size\":1,\"nnodes\":1,"
                        "\"skip_tokenizer_init\":false,\"is_embedding\":false,"
                        "\"speculative_algorithm\":null,\"disaggregation_mode\":\"null\",");
    write_text(out, "status", atomic_load(&server->is_stopping) ? "stopping" : "ready");
    write_number(out, "max_total_num_tokens", info.kv_slots_total);
    write_number(out, "max_req_input_len", server->context_tokens ? server->context_tokens - 1 : 0);
    write_number(out, "max_model_len", server->context_tokens);
    write_number(out, "startup_time", (uint64_t)server->created_seconds);
    write_text(out, "version", RADISH_VERSION);
    write_state(server, &info, out);
    buf_append_char(out, ',');
    write_own(server, &info, out);
    end_object(out);
    return RADISH_OK;
}

enum radish_status ep_weight_version(struct exchange *ex, struct radish_error *err) {
    (void)err;
    ex->reply.status = 200;
    buf_append_str(&ex->reply.body, "{\"weight_version\":\"" SERVER_WEIGHT_VERSION "\"}");
    return RADISH_OK;
}
