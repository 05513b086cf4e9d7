/* fuzz: model. fuzz_tokenizer.c - any bytes as a tokenizer.json, made into a tokenizer that then
 * encodes and decodes. GGUF's vocabularies have a target of their own, fuzz_gguf_vocab.c.
 *
 * What must hold: no crash, no hang, no leak, and what model_fuzz.h says. */
#include "../support/model_fuzz.h"

#include "base/arena.h"
#include "base/json.h"
#include "model/tokenizer_json.h"

int LLVMFuzzerInitialize(int *argc, char ***argv);
int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int LLVMFuzzerInitialize(int *argc, char ***argv) {
    (void)argc;
    (void)argv;
    radish_log_set_level(RADISH_LOG_OFF);
    return 0;
}

static void read_json(const uint8_t *data, size_t size, struct arena *arena) {
    struct radish_error err = {0};
    struct tokenizer_spec spec;
    yyjson_doc *doc;
    if (json_parse((const char *)data, size, JSON_DEPTH_MAX, &doc, &err) != RADISH_OK) return;
    yyjson_val *root = yyjson_doc_get_root(doc);
    enum radish_status status =
        tokenizer_json_spec(root, json_get(root, "tokenizer_config"), arena, &spec, &err);
    fuzz_check_message(status, &err);
    if (status == RADISH_OK) fuzz_use_tokenizer(&spec);
    yyjson_doc_free(doc);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    struct arena arena;
    arena_init(&arena, 0);
    read_json(data, size, &arena);
    arena_deinit(&arena);
    return 0;
}
