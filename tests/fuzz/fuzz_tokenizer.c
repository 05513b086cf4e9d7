/* fuzz: model. fuzz_tokenizer.c - any bytes as a tokenizer.json (or, where they begin with GGUF, as
 * a GGUF file's vocabulary), made into a tokenizer that then encodes and decodes.
 *
 * What must hold: no crash, no hang, no leak; on failure one line of message; on success every id
 * that encoding gives exists, decoded text is valid UTF-8, and a stream gives what decode gives. */
#include "base/arena.h"
#include "base/json.h"
#include "base/utf8.h"
#include "format/gguf.h"
#include "model/tokenizer_gguf.h"
#include "model/tokenizer_json.h"
#include "text/detok_stream.h"
#include "text/tokenizer.h"

#include <stdlib.h>
#include <string.h>

int LLVMFuzzerInitialize(int *argc, char ***argv);
int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int LLVMFuzzerInitialize(int *argc, char ***argv) {
    (void)argc;
    (void)argv;
    radish_log_set_level(RADISH_LOG_OFF);
    return 0;
}

static void check_message(enum radish_status status, const struct radish_error *err) {
    if (status != RADISH_OK && (err->status != status || !*err->msg || strchr(err->msg, '\n')))
        abort();
}

static void check_decode(const struct tokenizer *t, const int32_t *ids, size_t n, bool skip) {
    struct radish_error err = {0};
    struct buf whole = {0}, streamed = {0};
    struct detok_stream *stream;
    if (tokenizer_decode(t, ids, n, skip, &whole, &err) != RADISH_OK) abort();
    if (whole.len && utf8_valid_prefix(whole.data, whole.len) != whole.len) abort();
    if (detok_stream_create(t, NULL, 0, skip, &stream, &err) != RADISH_OK) abort();
    for (size_t i = 0; i < n; i++) detok_stream_push(stream, ids[i], &streamed);
    detok_stream_finish(stream, &streamed);
    if (whole.len != streamed.len) abort();
    if (whole.len && memcmp(whole.data, streamed.data, whole.len) != 0) abort();
    detok_stream_destroy(stream);
    buf_deinit(&whole);
    buf_deinit(&streamed);
}

static void use(const struct tokenizer_spec *spec) {
    static const char *const texts[] = {
        "",
        "Hello, world! It's 12345  times\n\n\tmore",
        "na\u00efve e\u0301 \u65e5\u672c\u8a9e \U0001F600 \u2581\u2581 <s> <|im_end|>",
        " a b \u00a0\u3000x",
        "aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa",
    };
    struct radish_error err = {0};
    struct tokenizer *t;
    enum radish_status status = tokenizer_create(spec, &t, &err);
    check_message(status, &err);
    if (status != RADISH_OK) return;
    for (size_t i = 0; i < sizeof texts / sizeof *texts; i++) {
        int32_t *ids;
        size_t n;
        status = tokenizer_encode(t, texts[i], strlen(texts[i]), i % 2, &ids, &n, &err);
        check_message(status, &err);
        if (status != RADISH_OK) continue;
        for (size_t k = 0; k < n; k++)
            if (!tokenizer_has_id(t, ids[k])) abort();
        check_decode(t, ids, n, i % 2 == 0);
        free(ids);
    }
    int32_t known[64];
    size_t n_known = 0;
    for (int32_t id = 0; n_known < 64 && id < (int32_t)tokenizer_n_tokens(t); id++)
        if (tokenizer_has_id(t, id)) known[n_known++] = id;
    check_decode(t, known, n_known, false);
    tokenizer_destroy(t);
}

static void read_gguf(const uint8_t *data, size_t size, struct arena *arena) {
    struct radish_error err = {0};
    struct tokenizer_spec spec;
    struct gguf *gguf;
    if (gguf_open_memory(data, size, &gguf, &err) != RADISH_OK) return;
    enum radish_status status = tokenizer_gguf_spec(gguf, arena, &spec, &err);
    check_message(status, &err);
    if (status == RADISH_OK) use(&spec);
    gguf_close(gguf);
}

static void read_json(const uint8_t *data, size_t size, struct arena *arena) {
    struct radish_error err = {0};
    struct tokenizer_spec spec;
    yyjson_doc *doc;
    if (json_parse((const char *)data, size, JSON_DEPTH_MAX, &doc, &err) != RADISH_OK) return;
    yyjson_val *root = yyjson_doc_get_root(doc);
    enum radish_status status =
        tokenizer_json_spec(root, json_get(root, "tokenizer_config"), arena, &spec, &err);
    check_message(status, &err);
    if (status == RADISH_OK) use(&spec);
    yyjson_doc_free(doc);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    struct arena arena;
    arena_init(&arena, 0);
    if (size >= 4 && memcmp(data, "GGUF", 4) == 0)
        read_gguf(data, size, &arena);
    else
        read_json(data, size, &arena);
    arena_deinit(&arena);
    return 0;
}
