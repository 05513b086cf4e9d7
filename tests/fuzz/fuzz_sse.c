/* fuzz: bench. fuzz_sse.c - any bytes as the stream of a server under load: events, and the answer
 * they make.
 *
 * The first byte says which endpoint, the second how the stream is cut into pieces. What must hold:
 * no crash, no leak; the same events in one piece and in many; on failure an explanation in one
 * line. */
#include "bench/load_answer.h"
#include "bench/sse_reader.h"

#include <stdlib.h>
#include <string.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

struct seen {
    struct load_answer answer;
    size_t n_events, n_bytes;
    bool is_wrong;
};

static bool take(void *user, const char *data, size_t len) {
    struct seen *seen = user;
    bool has_text;
    seen->n_events++;
    seen->n_bytes += len;
    if (data[len]) abort();
    if (!seen->is_wrong) seen->is_wrong = !load_answer_event(&seen->answer, data, len, &has_text);
    if (seen->is_wrong && (!seen->answer.error[0] || strchr(seen->answer.error, '\n'))) abort();
    return true;
}

static void read_stream(const char *bytes, size_t n, size_t piece, enum load_endpoint endpoint,
                        struct seen *seen_out) {
    struct sse_reader reader;
    *seen_out = (struct seen){0};
    load_answer_init(&seen_out->answer, endpoint);
    sse_reader_init(&reader, take, seen_out);
    for (size_t at = 0; at < n; at += piece)
        if (sse_reader_feed(&reader, bytes + at, n - at < piece ? n - at : piece) != RADISH_OK)
            break;
    sse_reader_deinit(&reader);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    if (size < 2) return 0;
    enum load_endpoint endpoint = (enum load_endpoint)(data[0] % 3);
    size_t piece = data[1] % 16 + 1u;
    const char *bytes = (const char *)data + 2;
    struct seen whole, cut;
    char line[160];
    read_stream(bytes, size - 2, size, endpoint, &whole);
    read_stream(bytes, size - 2, piece, endpoint, &cut);
    if (whole.n_events != cut.n_events || whole.n_bytes != cut.n_bytes ||
        whole.answer.text.len != cut.answer.text.len || whole.is_wrong != cut.is_wrong)
        abort();
    load_answer_explain(bytes, size - 2, line);
    if (strchr(line, '\n')) abort();
    load_answer_deinit(&whole.answer);
    load_answer_deinit(&cut.answer);
    return 0;
}
