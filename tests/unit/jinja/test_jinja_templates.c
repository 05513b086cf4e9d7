/* test_jinja_templates.c - 96 real chat templates x 7 conversations, rendered by Jinja2 3.1.6 set
 * up as transformers does it, must come out the same byte for byte; where Jinja2 raised an error,
 * we must. tests/data/templates/templates.json.xz is conformance's templates.json, packed by xz
 * -9e; it is unpacked here by xz. The chats of the real tokenizers come from the conformance
 * folder. */
#include "jinja/chat_template.h"

#include "base/buf.h"
#include "base/file_map.h"
#include "base/json.h"

#include "test.h"

static const struct chat_template_time now = {
    .is_fixed = true, .year = 2026, .month = 11, .day = 29};

static void print_diff(const char *want, size_t want_len, const char *got, size_t got_len) {
    size_t at = 0;
    while (at < want_len && at < got_len && want[at] == got[at]) at++;
    size_t from = at > 60 ? at - 60 : 0;
    print_message("    differs at byte %zu\n    want ...%.*s\n    got  ...%.*s\n", at,
                  (int)(want_len - from > 120 ? 120 : want_len - from), want + from,
                  (int)(got_len - from > 120 ? 120 : got_len - from), got + from);
}

/* expected: {"text": ...} or {"error": ...}. */
static bool agrees(const struct chat_template *t, const char *compile_error, yyjson_val *variables,
                   yyjson_val *expected, const char *label) {
    struct radish_error err = {0};
    struct buf out;
    yyjson_val *text = json_get(expected, "text"), *error = json_get(expected, "error");
    if (yyjson_is_null(error)) error = NULL;
    buf_init(&out, 0);
    bool is_ok = t && chat_template_render(t, variables, &now, &out, &err) == RADISH_OK;
    const char *message = t ? err.msg : compile_error;
    bool is_same = error != NULL && !is_ok;
    if (!error && is_ok)
        is_same = out.len == yyjson_get_len(text) &&
                  (!out.len || !memcmp(out.data, yyjson_get_str(text), out.len));
    if (!is_same) {
        print_message("%s:\n", label);
        if (is_ok && error)
            print_message("    want the error %s\n", yyjson_get_str(error));
        else if (is_ok)
            print_diff(yyjson_get_str(text), yyjson_get_len(text), out.data, out.len);
        else
            print_message("    failed: %s\n", message);
    }
    buf_deinit(&out);
    return is_same;
}

/* A JSON file packed by xz; NULL when that does not work. */
static yyjson_doc *unpack(const char *path) {
    struct buf b;
    char piece[65536], command[640];
    size_t n;
    struct radish_error err;
    yyjson_doc *doc = NULL;
    buf_init(&b, 0);
    snprintf(command, sizeof(command), "xz -dc '%s' 2>/dev/null", path);
    FILE *pipe = popen(command, "r");
    while (pipe && (n = fread(piece, 1, sizeof(piece), pipe)) > 0) buf_append(&b, piece, n);
    bool is_ok = pipe && pclose(pipe) == 0 && b.len;
    if (is_ok) assert_int_equal(json_parse(b.data, b.len, JSON_DEPTH_MAX, &doc, &err), RADISH_OK);
    buf_deinit(&b);
    return doc;
}

static yyjson_doc *templates;

static void test_jinja_renders_real_templates_as_jinja2_does(void **state) {
    (void)state;
    yyjson_val *root = yyjson_doc_get_root(templates), *entry, *name, *expected;
    yyjson_val *contexts = json_get(root, "contexts");
    size_t i, n, k, m, n_renders = 0, n_same = 0;

    yyjson_arr_foreach(json_get(root, "templates"), i, n, entry) {
        yyjson_val *source = json_get(entry, "source");
        struct chat_template *t;
        struct radish_error err = {0};
        /* A template that cannot be compiled counts as one that raises. */
        if (chat_template_compile(yyjson_get_str(source), yyjson_get_len(source), &t, &err))
            print_message("template %zu: %s\n", i, err.msg);
        yyjson_obj_foreach(json_get(entry, "renders"), k, m, name, expected) {
            char label[128];
            const char *context = yyjson_get_str(name);
            assert_non_null(context);
            snprintf(label, sizeof(label), "template %zu, context %.40s", i,
                     context ? context : "");
            n_same += agrees(t, err.msg, json_get(contexts, context), expected, label);
            n_renders++;
        }
        chat_template_destroy(t);
    }

    print_message("%zu of %zu renders agree\n", n_same, n_renders);
    assert_true(n_renders >= 600);
    assert_int_equal(n_same, n_renders);
    report_covered("templates/templates.json", "renders", n_renders);
}

/* What reads parts must render a list of parts, and what does not must not be told that it does. */
static void test_jinja_knows_which_templates_read_parts(void **state) {
    (void)state;
    yyjson_val *root = yyjson_doc_get_root(templates), *entry;
    size_t i, n, n_wrong = 0, n_reading = 0;

    yyjson_arr_foreach(json_get(root, "templates"), i, n, entry) {
        yyjson_val *source = json_get(entry, "source");
        yyjson_val *expected = json_get(json_get(entry, "renders"), "parts");
        struct chat_template *t;
        struct radish_error err = {0};
        if (chat_template_compile(yyjson_get_str(source), yyjson_get_len(source), &t, &err))
            continue;
        const char *text = yyjson_get_str(json_get(expected, "text"));
        bool is_rendered =
            text && strstr(text, "Hello") && !strstr(text, "{'type'") && !strstr(text, "{\"type\"");
        bool reads = chat_template_reads_parts(t);
        if (reads != is_rendered) {
            print_message("template %zu: reads_parts is %d, parts are rendered: %d\n", i, reads,
                          is_rendered);
            n_wrong++;
        }
        n_reading += reads;
        chat_template_destroy(t);
    }

    print_message("%zu templates read parts\n", n_reading);
    assert_int_equal(n_wrong, 0);
    assert_true(n_reading > 0);
}

/* ---- the chats of real tokenizers */

static void merge(yyjson_mut_doc *doc, yyjson_mut_val *into, yyjson_val *from) {
    size_t i, n;
    yyjson_val *key, *value;
    yyjson_obj_foreach(from, i, n, key, value)
        yyjson_mut_obj_put(into, yyjson_val_mut_copy(doc, key), yyjson_val_mut_copy(doc, value));
}

/* The variables that transformers passes: special tokens, messages, keyword arguments. */
static yyjson_doc *chat_variables(yyjson_val *config, yyjson_val *chat) {
    static const char *const tokens[] = {"bos_token", "eos_token", "unk_token", "pad_token"};
    yyjson_mut_doc *doc = yyjson_mut_doc_new(NULL);
    yyjson_mut_val *root = yyjson_mut_obj(doc);
    yyjson_mut_doc_set_root(doc, root);
    for (size_t i = 0; i < sizeof(tokens) / sizeof(tokens[0]); i++) {
        yyjson_val *token = json_get(config, tokens[i]);
        if (yyjson_is_obj(token)) token = json_get(token, "content");
        if (yyjson_is_str(token))
            yyjson_mut_obj_add_strcpy(doc, root, tokens[i], yyjson_get_str(token));
    }
    yyjson_mut_obj_add_str(doc, root, "date_string", "29 Nov 2026");
    yyjson_mut_obj_add_bool(doc, root, "add_generation_prompt", false);
    yyjson_mut_obj_add_val(doc, root, "messages",
                           yyjson_val_mut_copy(doc, json_get(chat, "messages")));
    merge(doc, root, json_get(chat, "kwargs"));
    yyjson_doc *variables = yyjson_mut_doc_imut_copy(doc, NULL);
    yyjson_mut_doc_free(doc);
    return variables;
}

static yyjson_doc *read_json(const char *folder, const char *file) {
    const char *conformance = getenv("RADISH_CONFORMANCE");
    char path[512];
    char *text;
    size_t len;
    struct radish_error err;
    yyjson_doc *doc = NULL;
    snprintf(path, sizeof(path), "%s/tokenizers/%s/%s",
             conformance ? conformance : TEST_SOURCE "/../shared/conformance", folder, file);
    if (!file_exists(path)) {
        strncat(path, ".xz", sizeof(path) - strlen(path) - 1);
        return unpack(path);
    }
    if (file_read(path, (size_t)64 << 20, &text, &len, &err)) return NULL;
    if (json_parse(text, len, JSON_DEPTH_MAX, &doc, &err)) print_message("%s: %s\n", path, err.msg);
    free(text);
    return doc;
}

static void test_jinja_renders_chats_of_real_tokenizers(void **state) {
    (void)state;
    static const char *const names[] = {"qwen3", "llama3_1", "gemma3", "mistral_nemo"};
    size_t n_renders = 0, n_same = 0, n_compared[4] = {0};
    _Static_assert(sizeof(n_compared) / sizeof(n_compared[0]) == sizeof(names) / sizeof(names[0]),
                   "one count each");

    for (size_t i = 0; i < sizeof(names) / sizeof(names[0]); i++) {
        yyjson_doc *config = read_json(names[i], "tokenizer_config.json");
        yyjson_doc *golden = read_json(names[i], "golden.json");
        if (!config || !golden) {
            print_message("no conformance data for %s\n", names[i]);
            yyjson_doc_free(config);
            yyjson_doc_free(golden);
            skip();
        }
        yyjson_val *source = json_get(yyjson_doc_get_root(config), "chat_template"), *chat;
        struct chat_template *t;
        struct radish_error err = {0};
        size_t k, m;
        if (chat_template_compile(yyjson_get_str(source), yyjson_get_len(source), &t, &err))
            print_message("%s: %s\n", names[i], err.msg);
        yyjson_arr_foreach(json_get(yyjson_doc_get_root(golden), "chat"), k, m, chat) {
            /* An empty conversation is refused by transformers itself, before the template. */
            if (!yyjson_arr_size(json_get(chat, "messages"))) continue;
            yyjson_doc *variables = chat_variables(yyjson_doc_get_root(config), chat);
            char label[64];
            snprintf(label, sizeof(label), "%s, chat %zu", names[i], k);
            n_same += agrees(t, err.msg, yyjson_doc_get_root(variables), chat, label);
            n_renders++;
            n_compared[i]++;
            yyjson_doc_free(variables);
        }
        chat_template_destroy(t);
        yyjson_doc_free(config);
        yyjson_doc_free(golden);
    }

    print_message("%zu of %zu chats agree\n", n_same, n_renders);
    assert_true(n_renders > 0);
    assert_int_equal(n_same, n_renders);
    for (size_t i = 0; i < sizeof(names) / sizeof(names[0]); i++) {
        char file[128];
        snprintf(file, sizeof(file), "tokenizers/%s/golden.json", names[i]);
        report_covered(file, "chat-texts", n_compared[i]);
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_jinja_renders_real_templates_as_jinja2_does),
        cmocka_unit_test(test_jinja_knows_which_templates_read_parts),
        cmocka_unit_test(test_jinja_renders_chats_of_real_tokenizers),
    };
    templates = unpack(TEST_DATA "/templates/templates.json.xz");
    if (!templates) {
        print_message("skipped: xz is missing\n");
        return TEST_SKIPPED;
    }
    int n_failed = cmocka_run_group_tests(tests, NULL, NULL);
    yyjson_doc_free(templates);
    return n_failed;
}
