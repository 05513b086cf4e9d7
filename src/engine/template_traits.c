/* template_traits.c - asking a template what it understands.
 *
 * The API has several forms for one thing: a content is a text or a list of parts, arguments of a
 * tool call are JSON in a string or an object, a content beside tool calls is null or empty. A
 * template was written and trained with one of them, and given another it fails or, worse, prints
 * Python: "[{'type': 'text', ...}]", "None", a mapping's repr. Or it says nothing: DeepSeek-V3's
 * writes tool calls only where the content is null; a loop over parts walks a text's letters.
 *
 * So each form is tried once, when the model is opened, with words that occur nowhere else, and is
 * taken if they come out and no Python does. First tried is what transformers' documentation asks
 * for (parts where they are read, mappings, null), since templates are made against that; the other
 * forms are for templates that cannot read it. Reading the source instead answers for the template
 * as a whole (chat_template_reads_parts() does), but templates treat roles differently: most that
 * read a user's parts print a system message's or a tool's as Python. Where neither form comes out
 * (the template knows no tools, or refuses a system message), the source's answer stands.
 *
 * Cost: some twenty renders of a few messages, well under a millisecond; a template that runs into
 * its limits is not asked further. */
#include "engine/template_traits.h"

#include "engine/chat_adapt.h"

#include "base/buf.h"
#include "base/log.h"
#include "base/status.h"

#include <string.h>

/* What to look for. KEY is a member that a template only shows by printing the whole object. */
#define WORD_1 "radishfirst"
#define WORD_2 "radishsecond"
#define KEY    "radishkey"

#define TEXT "\"" WORD_1 "\""
#define PARTS                                                                                      \
    "[{\"type\":\"text\",\"text\":\"" WORD_1 "\",\"" KEY "\":1},"                                  \
    "{\"type\":\"text\",\"text\":\"" WORD_2 "\",\"" KEY "\":1}]"

#define USER         "{\"role\":\"user\",\"content\":\"Hello\"}"
#define CALL_ID      "\"abcdef123\"" /* Mistral's templates insist on nine letters and digits. */
#define MAPPING      "{\"" KEY "\":\"" WORD_2 "\"}"
#define MAPPING_TEXT "\"{\\\"" KEY "\\\": \\\"" WORD_2 "\\\"}\""

#define NO_TOOLS "],\"tools\":null,\"documents\":null,\"add_generation_prompt\":true}"
#define TOOLS                                                                                      \
    "],\"tools\":[{\"type\":\"function\",\"function\":{\"name\":\"f\",\"description\":\"d\","      \
    "\"parameters\":{\"type\":\"object\",\"properties\":{}}}}],\"documents\":null,"                \
    "\"add_generation_prompt\":true}"

struct probe {
    const struct model_text *text;
    struct buf json;
    char *out;                /* of the last render that succeeded, or NULL */
    bool is_over, has_failed; /* a limit was met, or memory: nothing more is asked */
};

static size_t count(const char *text, const char *word) {
    size_t n = 0;
    for (const char *at = text; (at = strstr(at, word)); at += strlen(word)) n++;
    return n;
}

/* Renders the messages in p->json; true with the text in p->out. */
static bool render(struct probe *p, bool has_tools) {
    struct radish_error err;
    size_t len = 0;
    radish_free(p->out);
    p->out = NULL;
    if (p->is_over || p->json.failed) return false;
    buf_append_str(&p->json, has_tools ? TOOLS : NO_TOOLS);
    if (p->json.failed) return false;
    enum radish_status status =
        chat_render(p->text, NULL, p->json.data, p->json.len, NULL, &p->out, &len, &err);
    p->has_failed = p->has_failed || status == RADISH_E_NOMEM;
    if (status == RADISH_E_LIMIT || p->has_failed) p->is_over = true;
    return status == RADISH_OK;
}

static void add_call(struct probe *p, const char *content, const char *arguments) {
    buf_printf(&p->json,
               USER ",{\"role\":\"assistant\",\"content\":%s,\"tool_calls\":[{\"id\":" CALL_ID
                    ",\"type\":\"function\",\"function\":{\"name\":\"f\",\"arguments\":%s}}]}",
               content, arguments);
}

static void add_content(struct probe *p, const struct template_traits *traits,
                        enum template_role role, bool has_parts) {
    const char *content = has_parts ? PARTS : TEXT;
    buf_clear(&p->json);
    buf_append_str(&p->json, "{\"messages\":[");
    switch (role) {
    case TEMPLATE_SYSTEM:
        buf_printf(&p->json, "{\"role\":\"system\",\"content\":%s}," USER, content);
        break;
    case TEMPLATE_USER: buf_printf(&p->json, "{\"role\":\"user\",\"content\":%s}", content); break;
    case TEMPLATE_ASSISTANT:
        buf_printf(&p->json, USER ",{\"role\":\"assistant\",\"content\":%s}," USER, content);
        break;
    case TEMPLATE_TOOL:
        add_call(p, traits->has_null_content ? "null" : "\"\"",
                 traits->has_text_arguments ? MAPPING_TEXT : MAPPING);
        buf_printf(&p->json,
                   ",{\"role\":\"tool\",\"name\":\"f\",\"tool_call_id\":" CALL_ID
                   ",\"content\":%s}",
                   content);
        break;
    }
}

static bool try_content(struct probe *p, const struct template_traits *traits,
                        enum template_role role, bool has_parts, bool has_tools) {
    add_content(p, traits, role, has_parts);
    if (!render(p, has_tools) || !strstr(p->out, WORD_1)) return false;
    if (!has_parts) return true;
    /* A call's own key and word are in the tool's conversation too. */
    bool has_call = role == TEMPLATE_TOOL;
    return count(p->out, KEY) <= has_call &&
           (strstr(p->out, WORD_1 WORD_2) || count(p->out, WORD_2) > has_call);
}

static enum template_content find_content(struct probe *p, const struct template_traits *traits,
                                          enum template_role role) {
    /* Some build the system's text in another way beside tools: both ways must do. */
    bool asks_twice = role != TEMPLATE_TOOL, reads[2];
    for (int parts = 0; parts < 2; parts++)
        reads[parts] = try_content(p, traits, role, parts, /*has_tools=*/true) &&
                       (!asks_twice || try_content(p, traits, role, parts, /*has_tools=*/false));
    bool reads_text = reads[0], reads_parts = reads[1];
    if (reads_text != reads_parts) return reads_text ? TEMPLATE_TEXT : TEMPLATE_PARTS;
    return reads_text || chat_template_reads_parts(p->text->template) ? TEMPLATE_AS_GIVEN
                                                                      : TEMPLATE_TEXT;
}

static bool try_call(struct probe *p, bool has_null, bool has_text, size_t *n_none_out) {
    buf_clear(&p->json);
    buf_append_str(&p->json, "{\"messages\":[");
    add_call(p, has_null ? "null" : "\"\"", has_text ? MAPPING_TEXT : MAPPING);
    buf_append_str(&p->json, ",{\"role\":\"tool\",\"name\":\"f\",\"tool_call_id\":" CALL_ID
                             ",\"content\":\"" WORD_1 "\"}");
    *n_none_out = 0;
    if (!render(p, /*has_tools=*/true)) return false;
    *n_none_out = count(p->out, "None");
    /* Shown, but neither as Python nor as JSON within JSON. */
    return strstr(p->out, KEY) && !strstr(p->out, "'" KEY "'") && !strstr(p->out, "\\\"" KEY);
}

static void find_calls(struct probe *p, struct template_traits *traits) {
    for (int form = 0; form < 4; form++) {
        bool has_null = form < 2, has_text = form % 2;
        size_t n_none = 0, n_none_empty = 0;
        if (!try_call(p, has_null, has_text, &n_none)) continue;
        if (has_null && n_none && try_call(p, false, has_text, &n_none_empty) &&
            n_none > n_none_empty)
            continue;
        traits->has_null_content = has_null;
        traits->has_text_arguments = has_text;
        return;
    }
}

/* Does the source name the role? A quoted word is how a template compares with it. */
static bool has_quoted(const struct model_text *text, const char *word) {
    const char *end = text->template_source + text->template_len, *at = text->template_source;
    size_t len = strlen(word);
    while ((at = memmem(at, (size_t)(end - at), word, len))) {
        char before = at > text->template_source ? at[-1] : ' ', after = at[len]; /* NUL behind */
        if ((before == '\'' || before == '"') && after == before) return true;
        at += len;
    }
    return false;
}

static const char *content_name(enum template_content content) {
    return content == TEMPLATE_TEXT ? "text" : content == TEMPLATE_PARTS ? "parts" : "any";
}

enum radish_status template_traits_find(const struct model_text *text,
                                        struct template_traits *traits_out,
                                        struct radish_error *err) {
    struct probe p = {.text = text};
    *traits_out = (struct template_traits){0};
    if (!text->template) return RADISH_OK;
    buf_init(&p.json, 0);
    find_calls(&p, traits_out);
    for (int role = 0; role < TEMPLATE_ROLES; role++)
        traits_out->content[role] = find_content(&p, traits_out, (enum template_role)role);
    traits_out->has_developer = has_quoted(text, "developer");
    bool has_failed = p.has_failed || p.json.failed;
    radish_free(p.out);
    buf_deinit(&p.json);
    if (has_failed) return error_nomem(err);
    log_debug("template",
              "content of system: %s, user: %s, assistant: %s, tool: %s; developer is %s; beside "
              "tool calls null is %s; their arguments are %s",
              content_name(traits_out->content[TEMPLATE_SYSTEM]),
              content_name(traits_out->content[TEMPLATE_USER]),
              content_name(traits_out->content[TEMPLATE_ASSISTANT]),
              content_name(traits_out->content[TEMPLATE_TOOL]),
              traits_out->has_developer ? "a role" : "the system",
              traits_out->has_null_content ? "kept" : "empty",
              traits_out->has_text_arguments ? "text" : "a mapping");
    return RADISH_OK;
}

enum template_role template_role_find(const char *name) {
    if (!strcmp(name, "system") || !strcmp(name, "developer")) return TEMPLATE_SYSTEM;
    if (!strcmp(name, "assistant")) return TEMPLATE_ASSISTANT;
    if (!strcmp(name, "tool") || !strcmp(name, "function")) return TEMPLATE_TOOL;
    return TEMPLATE_USER;
}
