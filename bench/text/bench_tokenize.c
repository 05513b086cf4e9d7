/* bench_tokenize.c - speed of encoding, one thread: MB/s of each file with one tokenizer.
 *
 * Usage: bench_tokenize TOKENIZER_JSON RUNS CHUNK_BYTES FILE... ; with CHUNK_BYTES other than 0
 * each file is encoded in calls of about so many bytes (cut in front of a character), as short
 * prompts are. Prints CSV: file, bytes, tokens, best seconds of processor time, a hash of
 * all ids.
 * compare_tokenizers.py runs it beside the tokenizers package and compares the hashes. */
#include "base/arena.h"
#include "base/file_map.h"
#include "base/json.h"
#include "base/log.h"
#include "model/tokenizer_json.h"
#include "text/tokenizer.h"

#include <stdio.h>
#include <stdlib.h>
#include <time.h>

static void die(const struct radish_error *err) {
    fprintf(stderr, "bench_tokenize: %s\n", err->msg);
    exit(1);
}

static struct tokenizer *open_tokenizer(const char *path) {
    struct radish_error err = {0};
    struct tokenizer *tokenizer = NULL;
    struct tokenizer_spec spec;
    struct arena arena;
    yyjson_doc *doc = NULL;
    char *data;
    size_t len;
    if (file_read(path, (size_t)1 << 30, &data, &len, &err) != RADISH_OK) die(&err);
    if (json_parse(data, len, JSON_DEPTH_MAX, &doc, &err) != RADISH_OK) die(&err);
    arena_init(&arena, 0);
    if (tokenizer_json_spec(yyjson_doc_get_root(doc), NULL, &arena, &spec, &err) != RADISH_OK)
        die(&err);
    if (tokenizer_create(&spec, &tokenizer, &err) != RADISH_OK) die(&err);
    arena_deinit(&arena);
    yyjson_doc_free(doc);
    free(data);
    return tokenizer;
}

/* Processor time: other programs on the machine take less of it than of the clock's. */
static uint64_t cpu_ns(void) {
    struct timespec t;
    clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &t);
    return (uint64_t)t.tv_sec * 1000000000u + (uint64_t)t.tv_nsec;
}

struct result {
    size_t n_tokens;
    uint64_t hash; /* FNV-1a over the ids as 32-bit words */
};

static void encode_chunk(const struct tokenizer *t, const char *text, size_t len,
                         struct result *r) {
    struct radish_error err = {0};
    int32_t *ids;
    size_t n;
    if (tokenizer_encode(t, text, len, /*add_special=*/false, &ids, &n, &err) != RADISH_OK)
        die(&err);
    for (size_t i = 0; i < n; i++) r->hash = (r->hash ^ (uint32_t)ids[i]) * 0x100000001B3u;
    r->n_tokens += n;
    free(ids);
}

static struct result encode(const struct tokenizer *t, const char *text, size_t len, size_t chunk) {
    struct result r = {0, 0xCBF29CE484222325u};
    for (size_t at = 0; at < len;) {
        size_t end = chunk && len - at > chunk ? at + chunk : len;
        while (end < len && ((unsigned char)text[end] & 0xC0) == 0x80) end++;
        encode_chunk(t, text + at, end - at, &r);
        at = end;
    }
    return r;
}

int main(int argc, char **argv) {
    if (argc < 5) {
        fprintf(stderr, "usage: bench_tokenize TOKENIZER_JSON RUNS CHUNK_BYTES FILE...\n");
        return 2;
    }
    radish_log_set_level(RADISH_LOG_OFF);
    const int n_runs = atoi(argv[2]);
    const size_t chunk = (size_t)strtoull(argv[3], NULL, 10);
    struct tokenizer *tokenizer = open_tokenizer(argv[1]);
    for (int i = 4; i < argc; i++) {
        struct radish_error err = {0};
        struct result r = {0, 0};
        uint64_t best = UINT64_MAX;
        char *text;
        size_t len;
        if (file_read(argv[i], (size_t)1 << 30, &text, &len, &err) != RADISH_OK) die(&err);
        for (int run = 0; run < n_runs; run++) {
            const uint64_t start = cpu_ns();
            r = encode(tokenizer, text, len, chunk);
            const uint64_t ns = cpu_ns() - start;
            if (ns < best) best = ns;
        }
        printf("%s,%zu,%zu,%.6f,%016llx\n", argv[i], len, r.n_tokens, (double)best * 1e-9,
               (unsigned long long)r.hash);
        free(text);
    }
    tokenizer_destroy(tokenizer);
    return 0;
}
