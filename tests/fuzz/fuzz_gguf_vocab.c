/* fuzz: model. fuzz_gguf_vocab.c - any bytes as a GGUF file, its vocabulary made into a tokenizer
 * that then encodes and decodes.
 *
 * What must hold: no crash, no hang, no leak, and what model_fuzz.h says. Inputs that do not begin
 * with GGUF's magic number get one, so that none is lost. */
#include "../support/model_fuzz.h"

#include "base/arena.h"
#include "format/gguf.h"
#include "model/tokenizer_gguf.h"

int LLVMFuzzerInitialize(int *argc, char ***argv);
int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int LLVMFuzzerInitialize(int *argc, char ***argv) {
    (void)argc;
    (void)argv;
    radish_log_set_level(RADISH_LOG_OFF);
    return 0;
}

static void read_gguf(const uint8_t *data, size_t size, struct arena *arena) {
    struct radish_error err = {0};
    struct tokenizer_spec spec;
    struct gguf *gguf;
    if (gguf_open_memory(data, size, &gguf, &err) != RADISH_OK) return;
    enum radish_status status = tokenizer_gguf_spec(gguf, arena, &spec, &err);
    fuzz_check_message(status, &err);
    if (status == RADISH_OK) fuzz_use_tokenizer(&spec);
    gguf_close(gguf);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    struct arena arena;
    uint8_t *copy = malloc(size + 4);
    if (!copy) return 0;
    if (size) memcpy(copy, data, size);
    if (size >= 4) memcpy(copy, "GGUF", 4);
    arena_init(&arena, 0);
    read_gguf(copy, size, &arena);
    arena_deinit(&arena);
    free(copy);
    return 0;
}
