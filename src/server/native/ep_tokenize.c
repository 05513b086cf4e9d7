/* ep_tokenize.c - POST /tokenize and /detokenize: texts to ids and back, without the model.
 *
 * Both answer with the fields of every server whose clients may ask (tokenize_request.c): the same
 * text is "content", "prompt" and "text" of a reply. They run on the preparing threads, as chats do
 * on their way to the engine, so that a large text holds up no stream; the engine is not asked.
 *
 * Bounds: a text has no more ids than bytes, but ids can have far more text than the digits that
 * name them. So a reply is measured while it grows, and text before it is made, against the limit
 * of replies that are not streamed. A client that has left is noticed between two texts. */
#include "base/mem.h"
#include "base/status.h"
#include "base/utf8.h"
#include "chat_prompt.h"
#include "exchange.h"
#include "json_out.h"
#include "openai_request.h"
#include "tokenize_request.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

/* The ids of one text. */
struct encoding {
    int32_t *ids; /* [n] from radish_tokenize() */
    size_t n;
};

/* ---- encoding */

static enum radish_status encode(struct exchange *ex, const struct tokenize_request *r,
                                 const char *text, size_t len, struct encoding *encoding_out,
                                 struct radish_error *err) {
    if (exchange_is_gone(ex)) return RADISH_E_ABORTED;
    return radish_tokenize(ex->server->model, text, len,
                           r->has_special ? RADISH_TOKENIZE_SPECIAL : 0, &encoding_out->ids,
                           &encoding_out->n, err);
}

static enum radish_status encode_all(struct exchange *ex, const struct tokenize_request *r,
                                     yyjson_val *root, struct encoding *encodings,
                                     struct radish_error *err) {
    char *text = NULL;
    size_t len = 0;
    if (r->has_messages) {
        RADISH_TRY(chat_prompt_make(ex, root, &text, &len, err));
        enum radish_status status = encode(ex, r, text, len, &encodings[0], err);
        radish_free(text);
        return status;
    }
    for (size_t i = 0; i < r->n_texts; i++)
        RADISH_TRY(encode(ex, r, r->texts[i].text, r->texts[i].text_len, &encodings[i], err));
    return RADISH_OK;
}

/* What of a token is listed. */
enum listing { LIST_IDS, LIST_PIECES, LIST_NAMES };

/* A token's bytes: a string, or numbers where they are not UTF-8. */
static void write_piece(struct buf *out, const char *bytes, size_t len) {
    if (utf8_valid_prefix(bytes, len) == len) {
        json_out_string(out, bytes, len);
        return;
    }
    for (size_t i = 0; i < len; i++)
        buf_printf(out, "%c%u", i ? ',' : '[', (unsigned)(unsigned char)bytes[i]);
    buf_append_char(out, ']');
}

static void write_token(const struct radish_model *model, int32_t id, enum listing listing,
                        struct buf *out) {
    size_t len = 0;
    const char *bytes = NULL;
    if (listing == LIST_PIECES) bytes = radish_token_bytes(model, id, &len);
    if (listing == LIST_NAMES) bytes = radish_token_name(model, id, &len);
    if (listing == LIST_NAMES)
        json_out_string(out, bytes ? bytes : "", len);
    else
        buf_printf(out, listing == LIST_PIECES ? "{\"id\":%" PRId32 ",\"piece\":" : "%" PRId32, id);
    if (listing != LIST_PIECES) return;
    write_piece(out, bytes ? bytes : "", len);
    buf_append_char(out, '}');
}

static enum radish_status check_reply(const struct exchange *ex, uint64_t n_bytes,
                                      struct radish_error *err) {
    uint64_t bytes_max = ex->server->options.reply_bytes_max;
    if (n_bytes <= bytes_max) return RADISH_OK;
    return error_set(err, RADISH_E_LIMIT,
                     "the reply would be larger than %" PRIu64 " bytes: ask for less at once",
                     bytes_max);
}

static enum radish_status write_list(struct exchange *ex, const struct encoding *encoding,
                                     enum listing listing, struct radish_error *err) {
    struct buf *out = &ex->reply.body;
    buf_append_char(out, '[');
    for (size_t i = 0; i < encoding->n; i++) {
        if (i) buf_append_char(out, ',');
        write_token(ex->server->model, encoding->ids[i], listing, out);
        RADISH_TRY(check_reply(ex, out->len, err));
    }
    buf_append_char(out, ']');
    return RADISH_OK;
}

/* One list, or a list of them. */
static enum radish_status write_lists(struct exchange *ex, const struct encoding *encodings,
                                      size_t n, bool is_batch, enum listing listing,
                                      struct radish_error *err) {
    struct buf *out = &ex->reply.body;
    if (!is_batch) return write_list(ex, encodings, listing, err);
    buf_append_char(out, '[');
    for (size_t i = 0; i < n; i++) {
        if (i) buf_append_char(out, ',');
        RADISH_TRY(write_list(ex, &encodings[i], listing, err));
    }
    buf_append_char(out, ']');
    return RADISH_OK;
}

static enum radish_status write_tokens(struct exchange *ex, const struct tokenize_request *r,
                                       const struct encoding *encodings, size_t n,
                                       struct radish_error *err) {
    struct buf *out = &ex->reply.body;
    buf_append_char(out, '{');
    json_out_key(out, "count");
    if (r->is_batch) buf_append_char(out, '[');
    for (size_t i = 0; i < n; i++) buf_printf(out, "%s%zu", i ? "," : "", encodings[i].n);
    if (r->is_batch) buf_append_char(out, ']');
    buf_printf(out, ",\"max_model_len\":%" PRIu32 ",\"tokens\":", ex->server->context_tokens);
    RADISH_TRY(
        write_lists(ex, encodings, n, r->is_batch, r->has_pieces ? LIST_PIECES : LIST_IDS, err));
    buf_append_str(out, ",\"token_strs\":");
    if (r->has_names)
        RADISH_TRY(write_lists(ex, encodings, n, r->is_batch, LIST_NAMES, err));
    else
        buf_append_str(out, "null");
    buf_append_char(out, '}');
    return RADISH_OK;
}

/* Fields that only a chat template reads say nothing beside a text. */
static void warn_idle(struct exchange *ex, yyjson_val *root) {
    static const char *const names[] = {
        "tools",
        "tool_choice",
        "documents",
        "add_generation_prompt",
        "continue_final_message",
        "chat_template_kwargs",
    };
    for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
        yyjson_val *val = json_get(root, names[i]);
        if (val && !yyjson_is_null(val))
            exchange_warn(ex, names[i], "%s has no effect without messages", names[i]);
    }
}

enum radish_status ep_tokenize(struct exchange *ex, struct radish_error *err) {
    struct openai_request r;
    struct tokenize_request request = {0};
    struct encoding *encodings = NULL;
    size_t n = 0;
    enum radish_status status = openai_request_parse(&r, ex, API_TOKENIZE, err);
    if (!status) status = tokenize_request_read(r.root, &r.arena, &request, err);
    if (status) goto done;
    if (!request.has_messages) warn_idle(ex, r.root);
    n = request.has_messages ? 1 : request.n_texts;
    encodings = mem_zalloc(n, sizeof *encodings);
    status = encodings ? encode_all(ex, &request, r.root, encodings, err) : error_nomem(err);
    if (!status) status = write_tokens(ex, &request, encodings, n, err);
    if (!status) ex->reply.status = 200;
done:
    for (size_t i = 0; encodings && i < n; i++) radish_free(encodings[i].ids);
    free(encodings);
    openai_request_close(&r);
    return status;
}

/* ---- decoding */

/* Every id is one, and their text is not larger than a reply. */
static enum radish_status check_lists(struct exchange *ex, const struct detokenize_request *r,
                                      struct radish_error *err) {
    uint64_t n_bytes = 0;
    size_t len = 0;
    for (size_t i = 0; i < r->n_lists; i++) {
        RADISH_TRY(openai_request_check_ids(ex, r->lists[i].ids, r->lists[i].n_ids, "tokens", err));
        for (size_t j = 0; j < r->lists[i].n_ids; j++) {
            radish_token_bytes(ex->server->model, r->lists[i].ids[j], &len);
            n_bytes += len;
        }
    }
    return check_reply(ex, n_bytes, err);
}

static enum radish_status write_text(struct exchange *ex, const struct detokenize_request *r,
                                     struct buf *out, struct radish_error *err) {
    if (r->is_batch) buf_append_char(out, '[');
    for (size_t i = 0; i < r->n_lists; i++) {
        char *text = NULL;
        size_t len = 0;
        if (exchange_is_gone(ex)) return RADISH_E_ABORTED;
        RADISH_TRY(radish_detokenize(ex->server->model, r->lists[i].ids, r->lists[i].n_ids,
                                     r->skips_special ? RADISH_DETOKENIZE_SKIP : 0, &text, &len,
                                     err));
        if (i) buf_append_char(out, ',');
        json_out_string(out, text, len);
        radish_free(text);
        RADISH_TRY(check_reply(ex, out->len, err));
    }
    if (r->is_batch) buf_append_char(out, ']');
    return RADISH_OK;
}

enum radish_status ep_detokenize(struct exchange *ex, struct radish_error *err) {
    static const char *const names[] = {"text", "content", "prompt"};
    struct openai_request r;
    struct detokenize_request request = {0};
    struct buf text, *out = &ex->reply.body;
    /* SGLang, whose path this is, leaves special tokens out; the others of /detokenize do not. */
    bool is_v1 = !strncmp(ex->route->path, "/v1/", 4);
    buf_init(&text, 0);
    enum radish_status status = openai_request_parse(&r, ex, API_DETOKENIZE, err);
    if (!status) status = detokenize_request_read(r.root, is_v1, &r.arena, &request, err);
    if (!status) status = check_lists(ex, &request, err);
    if (!status) status = write_text(ex, &request, &text, err);
    if (!status && text.failed) status = error_nomem(err);
    if (!status) status = check_reply(ex, (uint64_t)text.len * 3, err);
    if (!status) {
        ex->reply.status = 200;
        for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
            buf_append_char(out, i ? ',' : '{');
            json_out_key(out, names[i]);
            buf_append(out, text.data, text.len);
        }
        buf_append_char(out, '}');
    }
    buf_deinit(&text);
    openai_request_close(&r);
    return status;
}
