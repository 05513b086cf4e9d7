/* openai_reply.c - replies and chunks, written piece by piece.
 *
 * The log holds events in the order the engine told them, choices mixed. They are first linked by
 * choice (generation_log.c), then each choice that has news gets one chunk with all of it. A client
 * that keeps up gets a chunk per token, one that lags gets fewer and larger ones, and the same code
 * writes the reply that is not streamed: there every choice has all its news at once.
 *
 * Order in a stream, per choice: the role (chat) or the echoed prompt (completions), text, a chunk
 * with finish_reason; at the end usage if asked for, and [DONE]. Tokens whose text is held back (a
 * stop string may be starting) make a chunk only where logprobs are wanted. */
#include "openai_reply.h"

#include "base/utf8.h"
#include "exchange.h"
#include "generation_log.h"
#include "json_out.h"
#include "openai_logprobs.h"

#include <string.h>

/* The choice's part in which tool calls are told, or NULL: they stay text. */
static struct tool_reply *tools_of(const struct generation *g, uint32_t choice_idx) {
    return g->tool_replies ? &g->tool_replies[choice_idx] : NULL;
}

/* Takes the choice's new text apart; its content and its calls are then in tools. */
static void read_tools(struct generation *g, const struct choice *choice,
                       struct tool_reply *tools) {
    for (size_t at = choice->first_offset; at != GENERATION_NO_RECORD;) {
        struct event_view view = event_log_view(&g->log, at);
        tool_reply_push(tools, view.text, (size_t)view.record->n_text_bytes);
        if (view.record->finish) tool_reply_finish(tools);
        at = generation_log_next(&view);
    }
    if (tools->failed) g->out.failed = true;
}

static void write_text(struct generation *g, const struct choice *choice, const struct call *echo,
                       struct buf *out) {
    const struct tool_reply *tools = tools_of(g, (uint32_t)(choice - g->choices));
    struct buf text;
    if (tools) {
        json_out_string(out, tools->content.len ? tools->content.data : "", tools->content.len);
        return;
    }
    buf_init(&text, 0);
    if (echo) buf_append(&text, echo->echo_text, echo->echo_len);
    for (size_t at = choice->first_offset; at != GENERATION_NO_RECORD;) {
        struct event_view view = event_log_view(&g->log, at);
        buf_append(&text, view.text, (size_t)view.record->n_text_bytes);
        at = generation_log_next(&view);
    }
    json_out_string(out, text.len ? text.data : "", text.len);
    if (text.failed) out->failed = true;
    buf_deinit(&text);
}

static void write_chat_logprobs(struct generation *g, const struct choice *choice,
                                struct buf *out) {
    const struct radish_model *model = g->ex->server->model;
    bool has_items = false;
    buf_append_str(out, "{\"content\":[");
    for (size_t at = choice->first_offset; at != GENERATION_NO_RECORD;) {
        struct event_view view = event_log_view(&g->log, at);
        openai_logprobs_write_chat(model, &view, has_items, out);
        has_items = has_items || view.record->n_tokens;
        at = generation_log_next(&view);
    }
    buf_append_str(out, "],\"refusal\":null}");
}

static void write_completion_logprobs(struct generation *g, struct choice *choice,
                                      const struct call *echo, struct buf *out) {
    const struct radish_model *model = g->ex->server->model;
    struct openai_logprobs lists;
    openai_logprobs_init(&lists);
    if (echo && echo->prompt_log.len) {
        struct event_view view = event_log_view(&echo->prompt_log, 0);
        openai_logprobs_add_prompt(&lists, model, &view, echo->echo_text, echo->echo_len);
    }
    for (size_t at = choice->first_offset; at != GENERATION_NO_RECORD;) {
        struct event_view view = event_log_view(&g->log, at);
        openai_logprobs_add(&lists, model, &view, g->has_specials, &choice->cursor);
        at = generation_log_next(&view);
    }
    openai_logprobs_write(&lists, out);
    openai_logprobs_deinit(&lists);
}

static void write_logprobs(struct generation *g, struct choice *choice, const struct call *echo,
                           struct buf *out) {
    buf_append_str(out, ",\"logprobs\":");
    if (!g->has_logprobs)
        buf_append_str(out, "null");
    else if (g->shape == API_CHAT)
        write_chat_logprobs(g, choice, out);
    else
        write_completion_logprobs(g, choice, echo, out);
}

/* finish_reason and matched_stop; view NULL: still running. tools: of a chat that has them. */
static void write_finish(const struct event_view *view, const struct tool_reply *tools,
                         struct buf *out) {
    static const char *const reasons[] = {[RADISH_FINISH_STOP] = "\"stop\"",
                                          [RADISH_FINISH_LENGTH] = "\"length\"",
                                          [RADISH_FINISH_ABORT] = "\"abort\"",
                                          [RADISH_FINISH_ERROR] = "\"error\""};
    const struct event_record *record = view ? view->record : NULL;
    buf_append_str(out, ",\"finish_reason\":");
    if (record && record->finish == RADISH_FINISH_STOP && tools && tool_reply_has_calls(tools))
        buf_append_str(out, "\"tool_calls\"");
    else
        buf_append_str(out, record && record->finish ? reasons[record->finish] : "null");
    buf_append_str(out, ",\"matched_stop\":");
    if (record && record->has_stop)
        json_out_string(out, view->stop, record->n_stop_bytes);
    else if (record && record->finish == RADISH_FINISH_STOP && record->matched_token >= 0)
        buf_printf(out, "%d", record->matched_token);
    else
        buf_append_str(out, "null");
}

static void write_usage(uint64_t prompt_tokens, uint64_t cached_tokens, uint64_t output_tokens,
                        struct buf *out) {
    buf_printf(out,
               "{\"prompt_tokens\":%llu,\"completion_tokens\":%llu,\"total_tokens\":%llu,"
               "\"prompt_tokens_details\":{\"cached_tokens\":%llu}}",
               (unsigned long long)prompt_tokens, (unsigned long long)output_tokens,
               (unsigned long long)(prompt_tokens + output_tokens),
               (unsigned long long)cached_tokens);
}

/* Over all prompts and choices; a prompt counts once, however many choices it has. */
static void write_usage_sum(const struct generation *g, struct buf *out) {
    uint64_t prompt_tokens = 0, cached_tokens = 0, output_tokens = 0;
    for (uint32_t i = 0; i < g->n_calls; i++) {
        prompt_tokens += g->calls[i].n_ids;
        cached_tokens += g->calls[i].usage.cached_tokens;
    }
    for (uint32_t i = 0; i < g->n_choices; i++) output_tokens += g->choices[i].output_tokens;
    write_usage(prompt_tokens, cached_tokens, output_tokens, out);
}

static void begin_frame(struct generation *g) {
    buf_append_str(&g->out, "data: {");
    buf_append_str(&g->out, g->head);
    buf_append_str(&g->out, "\"choices\":[");
}

static void end_frame(struct generation *g) {
    buf_append_char(&g->out, ']');
    if (g->has_usage_in_chunks) {
        buf_append_str(&g->out, ",\"usage\":");
        write_usage_sum(g, &g->out);
    } else if (g->has_usage_chunk) {
        buf_append_str(&g->out, ",\"usage\":null");
    }
    buf_append_str(&g->out, "}\n\n");
}

static void write_role_chunk(struct generation *g, uint32_t choice_idx) {
    begin_frame(g);
    buf_printf(&g->out, "{\"index\":%u,\"delta\":{\"role\":\"assistant\",\"content\":\"\"}",
               choice_idx);
    buf_append_str(&g->out, ",\"logprobs\":null");
    write_finish(NULL, NULL, &g->out);
    buf_append_char(&g->out, '}');
    end_frame(g);
}

static void write_call_chunk(struct generation *g, uint32_t choice_idx,
                             void (*write)(const struct tool_piece *piece, struct buf *out),
                             const struct tool_piece *piece) {
    begin_frame(g);
    buf_printf(&g->out, "{\"index\":%u,\"delta\":{\"tool_calls\":[", choice_idx);
    write(piece, &g->out);
    buf_append_str(&g->out, "]},\"logprobs\":null");
    write_finish(NULL, NULL, &g->out);
    buf_append_char(&g->out, '}');
    end_frame(g);
}

/* The calls' news, behind the content's. */
static void write_call_chunks(struct generation *g, uint32_t choice_idx,
                              const struct tool_reply *tools) {
    for (size_t i = 0; i < tools->n_pieces; i++) {
        const struct tool_piece *piece = &tools->pieces[i];
        if (piece->is_new) write_call_chunk(g, choice_idx, tool_reply_write_begin, piece);
        if (piece->arguments.len)
            write_call_chunk(g, choice_idx, tool_reply_write_arguments, piece);
    }
}

static void write_text_chunk(struct generation *g, uint32_t choice_idx, const struct call *echo) {
    struct choice *choice = &g->choices[choice_idx];
    begin_frame(g);
    buf_printf(&g->out, "{\"index\":%u,", choice_idx);
    buf_append_str(&g->out, g->shape == API_CHAT ? "\"delta\":{\"content\":" : "\"text\":");
    write_text(g, choice, echo, &g->out);
    if (g->shape == API_CHAT) buf_append_char(&g->out, '}');
    write_logprobs(g, choice, echo, &g->out);
    write_finish(NULL, NULL, &g->out);
    buf_append_char(&g->out, '}');
    end_frame(g);
}

static void write_finish_chunk(struct generation *g, uint32_t choice_idx,
                               const struct event_view *last) {
    begin_frame(g);
    buf_printf(&g->out, "{\"index\":%u,", choice_idx);
    buf_append_str(&g->out, g->shape == API_CHAT ? "\"delta\":{}" : "\"text\":\"\"");
    buf_append_str(&g->out, ",\"logprobs\":null");
    write_finish(last, tools_of(g, choice_idx), &g->out);
    buf_append_char(&g->out, '}');
    end_frame(g);
}

/* Text or logprobs to tell. Of a choice with tools the text has been read. */
static bool has_news(struct generation *g, const struct choice *choice) {
    const struct tool_reply *tools = tools_of(g, (uint32_t)(choice - g->choices));
    for (size_t at = choice->first_offset; at != GENERATION_NO_RECORD;) {
        struct event_view view = event_log_view(&g->log, at);
        const bool has_text = tools ? tools->content.len > 0 : view.record->n_text_bytes > 0;
        if (has_text || (g->has_logprobs && view.record->n_tokens)) return true;
        at = generation_log_next(&view);
    }
    return false;
}

static void write_choice_chunks(struct generation *g, uint32_t choice_idx) {
    struct choice *choice = &g->choices[choice_idx];
    struct call *call = &g->calls[choice_idx / g->n];
    const struct call *echo = !choice->is_begun && call->echo_text ? call : NULL;
    struct tool_reply *tools = tools_of(g, choice_idx);
    if (tools) read_tools(g, choice, tools);
    if (!choice->is_begun && g->shape == API_CHAT) write_role_chunk(g, choice_idx);
    if (echo || has_news(g, choice)) write_text_chunk(g, choice_idx, echo);
    if (tools) {
        write_call_chunks(g, choice_idx, tools);
        tool_reply_clear(tools);
    }
    choice->is_begun = true;
    struct event_view last = event_log_view(&g->log, choice->last_offset);
    if (last.record->finish) write_finish_chunk(g, choice_idx, &last);
    choice->first_offset = GENERATION_NO_RECORD;
}

/* text_offset of output behind an echoed prompt starts where the prompt ends. */
static void place_output(struct generation *g) {
    for (uint32_t i = 0; i < g->n_choices; i++) {
        const struct call *call = &g->calls[i / g->n];
        if (call->echo_text)
            g->choices[i].cursor.n_chars = utf8_count(call->echo_text, call->echo_len);
    }
}

static void write_chunks(struct generation *g) {
    struct buf list;
    buf_init(&list, 0);
    generation_log_link(g, &list);
    if (!g->is_placed && g->has_logprobs) place_output(g);
    g->is_placed = true;
    for (size_t at = 0; at < list.len; at += sizeof(uint32_t)) {
        write_choice_chunks(g, generation_log_choice(&list, at));
    }
    buf_deinit(&list);
    buf_clear(&g->log);
}

static void write_end(struct generation *g) {
    if (!g->failure && g->has_usage_chunk) {
        buf_append_str(&g->out, "data: {");
        buf_append_str(&g->out, g->head);
        buf_append_str(&g->out, "\"choices\":[],\"usage\":");
        write_usage_sum(g, &g->out);
        buf_append_str(&g->out, "}\n\n");
    }
    generation_log_end(g);
}

static void write_choice(struct generation *g, uint32_t choice_idx, struct buf *out) {
    struct choice *choice = &g->choices[choice_idx];
    struct call *call = &g->calls[choice_idx / g->n];
    const struct call *echo = call->echo_text ? call : NULL;
    struct tool_reply *tools = tools_of(g, choice_idx);
    if (tools) read_tools(g, choice, tools);
    buf_printf(out, "{\"index\":%u,", choice_idx);
    buf_append_str(out, g->shape == API_CHAT ? "\"message\":{\"role\":\"assistant\",\"content\":"
                                             : "\"text\":");
    if (tools && tool_reply_has_calls(tools) && !tools->content.len)
        buf_append_str(out, "null");
    else
        write_text(g, choice, echo, out);
    if (tools && tool_reply_has_calls(tools)) {
        buf_append_str(out, ",\"tool_calls\":");
        tool_reply_write_calls(tools, out);
    }
    if (g->shape == API_CHAT) buf_append_char(out, '}');
    write_logprobs(g, choice, echo, out);
    struct event_view last = event_log_view(&g->log, choice->last_offset);
    write_finish(&last, tools, out);
    buf_append_char(out, '}');
}

static void write_body(struct generation *g, struct buf *out) {
    struct buf list;
    buf_init(&list, 0);
    generation_log_link(g, &list);
    if (g->has_logprobs) place_output(g);
    buf_append_char(out, '{');
    buf_append_str(out, g->head);
    buf_append_str(out, "\"choices\":[");
    for (uint32_t i = 0; i < g->n_choices; i++) {
        if (i) buf_append_char(out, ',');
        write_choice(g, i, out);
    }
    buf_append_str(out, "],\"usage\":");
    write_usage_sum(g, out);
    buf_append_char(out, '}');
    if (g->out.failed) out->failed = true;
    buf_deinit(&list);
}

const struct reply_format openai_reply_format = {write_chunks, write_end, write_body};
