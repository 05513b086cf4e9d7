/* fuzz: server
 * fuzz_tools.c - texts of models: what is content and what are calls does not depend on how a text
 * is cut, and no byte is told that was not in it. */
#include "server/openai/tool_reply.h"

#include <stdlib.h>
#include <string.h>

/* All that a text is, in one buf. */
static void gather(enum tool_format format, const char *text, size_t n, size_t piece,
                   struct buf *out) {
    struct tool_reply reply;
    buf_init(out, 0);
    tool_reply_init(&reply, format);
    for (size_t at = 0; at < n; at += piece)
        tool_reply_push(&reply, text + at, n - at < piece ? n - at : piece);
    tool_reply_finish(&reply);
    if (reply.failed) abort();
    size_t n_told = reply.content.len;
    buf_append(out, reply.content.data, reply.content.len);
    for (size_t i = 0; i < reply.n_pieces; i++) {
        const struct tool_piece *p = &reply.pieces[i];
        if (!p->is_new || p->call_idx != i) abort();
        buf_append(out, p->name, strlen(p->name) + 1);
        buf_append(out, p->arguments.data, p->arguments.len);
        n_told += p->arguments.len + strlen(p->name);
    }
    if (n_told > n + 2 * reply.n_pieces) abort(); /* "{}" may be ours */
    if (reply.n_pieces > TOOL_CALLS_MAX) abort();
    tool_reply_deinit(&reply);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    struct buf whole, cut;
    if (size < 2) return 0;
    const enum tool_format format = (enum tool_format)(TOOL_FORMAT_HERMES + data[0] % 3);
    const size_t piece = 1 + data[1] % 16;
    gather(format, (const char *)data + 2, size - 2, size, &whole);
    gather(format, (const char *)data + 2, size - 2, piece, &cut);
    if (whole.len != cut.len || (whole.len && memcmp(whole.data, cut.data, whole.len) != 0))
        abort();
    buf_deinit(&whole);
    buf_deinit(&cut);
    return 0;
}
