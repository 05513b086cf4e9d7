/* fuzz: server
 * fuzz_openai.c - request bodies of every endpoint that takes one, as far as they go without an
 * engine: JSON, fields, parameters, prompts, messages, texts and ids. Whatever comes in, the
 * outcome is a request or an error with a message, and nothing is left allocated. */
#include "server/native/native_request.h"
#include "server/native/tokenize_request.h"
#include "server/openai/openai_messages.h"
#include "server/openai/openai_types.h"

#include <stdlib.h>
#include <string.h>

static void ignore_name(void *user, const char *name) {
    (void)user;
    (void)name;
}

static enum radish_status read_all(yyjson_val *root, enum api_shape shape, struct arena *arena,
                                   struct radish_error *err) {
    const struct radish_sampling defaults = {
        .temperature = 1, .top_k = -1, .top_p = 1, .repetition_penalty = 1};
    struct openai_params params;
    struct openai_prompts prompts;
    struct openai_conversation conversation;
    struct tokenize_request tokenize;
    struct detokenize_request detokenize;
    struct native_request native;
    if (shape == API_GENERATE)
        return native_request_read(root, &defaults, arena, ignore_name, NULL, &native, err);
    enum radish_status status =
        field_table_check(&openai_fields, root, shape, ignore_name, NULL, err);
    if (status) return status;
    if (shape == API_TOKENIZE) return tokenize_request_read(root, arena, &tokenize, err);
    if (shape == API_DETOKENIZE)
        return detokenize_request_read(root, /*skips_by_default=*/true, arena, &detokenize, err);
    status = openai_params_read(root, shape, &defaults, arena, &params, err);
    if (status) return status;
    if (shape == API_COMPLETIONS)
        return openai_prompts_read(json_get(root, "prompt"), "prompt", OPENAI_PROMPT_ANY, arena,
                                   &prompts, err);
    status = openai_conversation_read(root, &conversation, err);
    if (!status && *conversation.marker) {
        size_t len = conversation.len;
        if (openai_marker_cut(conversation.marker, conversation.json, &len, err) ||
            len >= conversation.len)
            abort();
    }
    free(conversation.json);
    return status;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    struct radish_error err = {0};
    yyjson_doc *doc = NULL;
    if (openai_parse_body((const char *)data, size, &doc, &err)) return 0;
    for (unsigned shape = API_CHAT; shape <= API_GENERATE; shape *= 2) {
        struct arena arena;
        arena_init(&arena, (size_t)64 << 20);
        memset(&err, 0, sizeof err);
        if (read_all(yyjson_doc_get_root(doc), (enum api_shape)shape, &arena, &err) && !*err.msg)
            abort();
        arena_deinit(&arena);
    }
    yyjson_doc_free(doc);
    return 0;
}
