/* tool_format.c - which way of writing calls a model was trained in.
 *
 * Nothing in a model's files says it, but its chat template shows calls of earlier turns to the
 * model, in the very form that the model then answers in. So "auto" looks for the marker there. A
 * template with a marker of ours and another grammar behind it (Qwen3-Coder's <function=...>, GLM's
 * <arg_key>) is left alone: its calls stay text, as without a parser.
 *
 * Some markers are special tokens, which are not part of a reply's text; the engine is asked to
 * show just these. */
#include "tool_format.h"

#include <string.h>

static const struct {
    const char *name;
    enum tool_format format;
} names[] = {{"none", TOOL_FORMAT_NONE},         {"hermes", TOOL_FORMAT_HERMES},
             {"llama3", TOOL_FORMAT_LLAMA3},     {"mistral", TOOL_FORMAT_MISTRAL},
             {"qwen", TOOL_FORMAT_HERMES},       {"qwen25", TOOL_FORMAT_HERMES},
             {"llama3_json", TOOL_FORMAT_LLAMA3}};

static bool has(const char *text, const char *word) {
    return strstr(text, word) != NULL;
}

static enum tool_format guess(const char *template) {
    if (!template) return TOOL_FORMAT_NONE;
    if (has(template, "<tool_call>"))
        return has(template, "<function=") || has(template, "<arg_key>") ? TOOL_FORMAT_NONE
                                                                         : TOOL_FORMAT_HERMES;
    if (has(template, "[TOOL_CALLS]")) return TOOL_FORMAT_MISTRAL;
    if (has(template, "<|python_tag|>") ||
        (has(template, "ipython") && has(template, "\"parameters\"")))
        return TOOL_FORMAT_LLAMA3;
    return TOOL_FORMAT_NONE;
}

bool tool_format_find(const char *name, const char *template, enum tool_format *format_out) {
    *format_out = TOOL_FORMAT_NONE;
    if (!strcmp(name, "auto")) {
        *format_out = guess(template);
        return true;
    }
    for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
        if (strcmp(name, names[i].name) != 0) continue;
        *format_out = names[i].format;
        return true;
    }
    return false;
}

const char *tool_format_name(enum tool_format format) {
    return names[format].name;
}

uint32_t tool_format_markers(enum tool_format format, struct radish_model *model,
                             int32_t ids_out[TOOL_MARKERS_MAX]) {
    static const char *const markers[][TOOL_MARKERS_MAX] = {
        [TOOL_FORMAT_NONE] = {NULL},
        [TOOL_FORMAT_HERMES] = {"<tool_call>", "</tool_call>"},
        [TOOL_FORMAT_LLAMA3] = {"<|python_tag|>"},
        [TOOL_FORMAT_MISTRAL] = {"[TOOL_CALLS]", "[ARGS]", "[CALL_ID]"}};
    uint32_t n = 0;
    for (size_t i = 0; i < TOOL_MARKERS_MAX && markers[format][i]; i++) {
        int32_t *ids = NULL;
        size_t n_ids = 0;
        if (radish_tokenize(model, markers[format][i], strlen(markers[format][i]), 0, &ids, &n_ids,
                            NULL) == RADISH_OK &&
            n_ids == 1)
            ids_out[n++] = ids[0];
        radish_free(ids);
    }
    return n;
}
