/* model_fuzz.h - what must hold of a tokenizer made of a fuzzed file, for the fuzz targets that
 * make one: every id that encoding gives exists, decoded text is valid UTF-8, and a stream gives
 * what decode gives; a refusal is one line of message. */
#ifndef SUPPORT_MODEL_FUZZ_H
#define SUPPORT_MODEL_FUZZ_H

#include "base/utf8.h"
#include "text/detok_stream.h"
#include "text/tokenizer.h"
#include "text/tokenizer_spec.h"

#include <stdlib.h>
#include <string.h>

static inline void fuzz_check_message(enum radish_status status, const struct radish_error *err) {
    if (status != RADISH_OK && (err->status != status || !*err->msg || strchr(err->msg, '\n')))
        abort();
}

static inline void fuzz_check_decode(const struct tokenizer *t, const int32_t *ids, size_t n,
                                     bool skip) {
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

static inline void fuzz_use_tokenizer(const struct tokenizer_spec *spec) {
    static const char *const texts[] = {
        "",
        "Hello, world! It's 12345  times\n\n\tmore",
        "na\u00efve e\u0301 \u65e5\u672c\u8a9e \U0001F600 \u2581\u2581 <s> <|im_end|>",
        " a b \u00a0\u3000x",
        "\ufb01\u0301 \r\n \u2460\u0915\u094d\u0937\u093f  b\u2581",
        "aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa",
    };
    struct radish_error err = {0};
    struct tokenizer *t;
    enum radish_status status = tokenizer_create(spec, &t, &err);
    fuzz_check_message(status, &err);
    if (status != RADISH_OK) return;
    for (size_t i = 0; i < sizeof texts / sizeof *texts; i++) {
        int32_t *ids;
        size_t n;
        status = tokenizer_encode(t, texts[i], strlen(texts[i]), i % 2, &ids, &n, &err);
        fuzz_check_message(status, &err);
        if (status != RADISH_OK) continue;
        for (size_t k = 0; k < n; k++)
            if (!tokenizer_has_id(t, ids[k])) abort();
        fuzz_check_decode(t, ids, n, i % 2 == 0);
        free(ids);
    }
    int32_t known[64];
    size_t n_known = 0;
    for (int32_t id = 0; n_known < 64 && id < (int32_t)tokenizer_n_tokens(t); id++)
        if (tokenizer_has_id(t, id)) known[n_known++] = id;
    fuzz_check_decode(t, known, n_known, false);
    tokenizer_destroy(t);
}

#endif
