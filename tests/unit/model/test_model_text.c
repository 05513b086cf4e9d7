/* The text side of a model, from folders and from GGUF: special tokens, end ids, and which chat
 * template is taken. */
#include "model_vocab.h"
#include "test.h"

#include "format/model_file.h"
#include "model/model_text.h"

#include <sys/stat.h>
#include <unistd.h>

#define TOKENIZER                                                                                  \
    "{\"model\": {\"type\": \"BPE\", \"vocab\": {\"a\": 0}, \"merges\": []}, \"added_tokens\": ["  \
    "{\"id\": 1, \"content\": \"<s>\", \"special\": true}, "                                       \
    "{\"id\": 2, \"content\": \"</s>\", \"special\": true}]}"

/* A folder of small files. */
struct folder {
    char path[64];
};

static const char *const NAMES[] = {"tokenizer.json", "tokenizer_config.json",
                                    "special_tokens_map.json", "chat_template.jinja", "own.jinja"};

static const char *path_of(const struct folder *f, const char *name) {
    static char path[256];
    snprintf(path, sizeof path, "%s/%s", f->path, name);
    return path;
}

static void write_file(const struct folder *f, const char *name, const char *text) {
    FILE *out = fopen(path_of(f, name), "w");
    assert_non_null(out);
    fputs(text, out);
    assert_int_equal(fclose(out), 0);
}

static void make_folder(struct folder *f) {
    snprintf(f->path, sizeof f->path, "/tmp/radish-text-XXXXXX");
    assert_non_null(mkdtemp(f->path));
    write_file(f, "tokenizer.json", TOKENIZER);
}

static void remove_folder(const struct folder *f) {
    for (size_t i = 0; i < sizeof NAMES / sizeof *NAMES; i++) unlink(path_of(f, NAMES[i]));
    rmdir(f->path);
}

static enum radish_status open_folder(const struct folder *f,
                                      const struct model_text_options *options,
                                      struct model_text **text_out, struct radish_error *err) {
    struct model_file *file;
    memset(err, 0, sizeof *err);
    if (model_file_open(f->path, /*text_only_ok=*/true, &file, err) != RADISH_OK)
        fail_msg("%s", err->msg);
    enum radish_status status = model_text_open(file, options, text_out, err);
    model_file_close(file);
    return status;
}

static struct model_text *open_well(const struct folder *f,
                                    const struct model_text_options *options) {
    struct radish_error err;
    struct model_text *text;
    if (open_folder(f, options, &text, &err) != RADISH_OK) fail_msg("%s", err.msg);
    return text;
}

static enum radish_status open_gguf(struct vocab_file *f, const struct model_text_options *options,
                                    struct model_text **text_out, struct radish_error *err) {
    struct model_file *file;
    struct buf bytes;
    vocab_file_take(f, &bytes);
    memset(err, 0, sizeof *err);
    if (model_file_open_gguf_memory((const uint8_t *)bytes.data, bytes.len, &file, err) !=
        RADISH_OK)
        fail_msg("%s", err->msg);
    enum radish_status status = model_text_open(file, options, text_out, err);
    model_file_close(file);
    buf_deinit(&bytes);
    return status;
}

static void test_special_tokens_come_from_the_config_and_else_from_the_map(void **state) {
    struct folder f;
    (void)state;
    make_folder(&f);
    write_file(&f, "tokenizer_config.json",
               "{\"bos_token\": {\"content\": \"<s>\"}, \"eos_token\": \"</s>\", \"pad_token\": "
               "null}");
    write_file(&f, "special_tokens_map.json",
               "{\"eos_token\": \"a\", \"unk_token\": {\"content\": \"<nowhere>\"}}");

    struct model_text *text = open_well(&f, NULL);

    assert_string_equal(model_text_var(text, "bos_token"), "<s>");
    assert_string_equal(model_text_var(text, "eos_token"), "</s>");
    assert_string_equal(model_text_var(text, "unk_token"), "<nowhere>");
    assert_null(model_text_var(text, "pad_token"));
    assert_null(model_text_var(text, "no_such_token"));
    assert_int_equal(text->bos_id, 1);
    assert_int_equal(text->n_eos_ids, 1);
    assert_int_equal(text->eos_ids[0], 2);
    assert_int_equal(text->vars[2].id, -1);
    assert_null(text->template);
    assert_null(text->template_source);
    model_text_close(text);
    remove_folder(&f);
}

static void test_the_jinja_file_comes_before_the_config_s_template(void **state) {
    const struct model_text_options given = {.chat_template_name = "tool_use"};
    struct folder f;
    (void)state;
    make_folder(&f);
    write_file(&f, "tokenizer_config.json", "{\"chat_template\": \"from config\"}");

    struct model_text *text = open_well(&f, NULL);
    assert_string_equal(text->template_source, "from config");
    assert_non_null(text->template);
    model_text_close(text);

    write_file(&f, "chat_template.jinja", "from file");
    text = open_well(&f, NULL);
    assert_string_equal(text->template_source, "from file");
    assert_int_equal(text->template_len, 9);
    model_text_close(text);

    write_file(&f, "tokenizer_config.json",
               "{\"chat_template\": [{\"name\": \"default\", \"template\": \"plain\"}, {\"name\": "
               "\"tool_use\", \"template\": \"tools\"}]}");
    text = open_well(&f, &given);
    assert_string_equal(text->template_source, "tools");
    model_text_close(text);

    unlink(path_of(&f, "chat_template.jinja"));
    text = open_well(&f, NULL);
    assert_string_equal(text->template_source, "plain");
    model_text_close(text);
    remove_folder(&f);
}

static void test_a_given_file_replaces_the_model_s_template(void **state) {
    struct model_text_options options = {0};
    struct radish_error err;
    struct model_text *text;
    struct folder f;
    char path[128];
    (void)state;
    make_folder(&f);
    write_file(&f, "chat_template.jinja", "from file");
    write_file(&f, "own.jinja", "my own");
    snprintf(path, sizeof path, "%s/own.jinja", f.path);
    options.chat_template_path = path;

    text = open_well(&f, &options);
    assert_string_equal(text->template_source, "my own");
    model_text_close(text);

    write_file(&f, "own.jinja", "{% if %}");
    assert_int_equal(open_folder(&f, &options, &text, &err), RADISH_E_TEMPLATE);
    assert_null(text);
    assert_non_null(strstr(err.msg, "own.jinja"));

    options.chat_template_path = "/no/such/file.jinja";
    assert_int_equal(open_folder(&f, &options, &text, &err), RADISH_E_NOT_FOUND);
    remove_folder(&f);
}

static void test_a_template_that_does_not_compile_leaves_the_model_usable(void **state) {
    struct folder f;
    (void)state;
    make_folder(&f);
    write_file(&f, "chat_template.jinja", "{% for x %}");
    radish_log_set_level(RADISH_LOG_OFF);

    struct model_text *text = open_well(&f, NULL);

    radish_log_set_level(RADISH_LOG_WARN);
    assert_null(text->template);
    assert_non_null(strstr(text->template_error, "chat_template.jinja"));
    assert_non_null(text->tokenizer);
    model_text_close(text);
    remove_folder(&f);
}

static void test_what_is_missing_is_named(void **state) {
    const struct model_text_options options = {.chat_template_name = "rag"};
    struct radish_error err;
    struct model_text *text;
    struct folder f;
    (void)state;
    make_folder(&f);

    assert_int_equal(open_folder(&f, &options, &text, &err), RADISH_E_NOT_FOUND);
    assert_non_null(strstr(err.msg, "\"rag\""));

    unlink(path_of(&f, "tokenizer.json"));
    write_file(&f, "tokenizer_config.json", "{}");
    assert_int_equal(open_folder(&f, NULL, &text, &err), RADISH_E_NOT_FOUND);
    assert_non_null(strstr(err.msg, "tokenizer.json"));
    remove_folder(&f);
}

static void test_gguf_names_tokens_ends_and_templates_by_key(void **state) {
    const struct model_text_options named = {.chat_template_name = "tool_use"};
    struct radish_error err;
    struct model_text *text;
    (void)state;

    for (int i = 0; i < 2; i++) {
        struct vocab_file f = vocab_file_bytes("gpt-2");
        vocab_file_add_u32(&f, "ggml.bos_token_id", ID_CONTROL);
        vocab_file_add_u32(&f, "ggml.eos_token_id", ID_USER);
        vocab_file_add_u32(&f, "ggml.eot_token_id", ID_AB);
        vocab_file_add_u32(&f, "ggml.eom_token_id", ID_USER);
        vocab_file_add_u32(&f, "ggml.padding_token_id", 99999);
        vocab_file_add_str(&f, "chat_template", "plain");
        vocab_file_add_str(&f, "chat_template.tool_use", "tools");
        if (open_gguf(&f, i ? &named : NULL, &text, &err) != RADISH_OK) fail_msg("%s", err.msg);

        assert_string_equal(text->template_source, i ? "tools" : "plain");
        assert_string_equal(model_text_var(text, "bos_token"), "<ctl>");
        assert_string_equal(model_text_var(text, "eos_token"), "<usr>");
        assert_null(model_text_var(text, "pad_token"));
        assert_int_equal(text->bos_id, ID_CONTROL);
        assert_int_equal(text->n_eos_ids, 2);
        assert_int_equal(text->eos_ids[0], ID_USER);
        assert_int_equal(text->eos_ids[1], ID_AB);
        model_text_close(text);
    }
}

static void test_gguf_without_a_template_has_none(void **state) {
    const struct model_text_options named = {.chat_template_name = "tool_use"};
    struct radish_error err;
    struct model_text *text;
    (void)state;

    struct vocab_file f = vocab_file_bytes("gpt-2");
    assert_int_equal(open_gguf(&f, NULL, &text, &err), RADISH_OK);
    assert_null(text->template);
    assert_int_equal(text->bos_id, -1);
    assert_int_equal(text->n_eos_ids, 0);
    model_text_close(text);

    f = vocab_file_bytes("gpt-2");
    assert_int_equal(open_gguf(&f, &named, &text, &err), RADISH_E_NOT_FOUND);
    assert_null(text);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_special_tokens_come_from_the_config_and_else_from_the_map),
        cmocka_unit_test(test_the_jinja_file_comes_before_the_config_s_template),
        cmocka_unit_test(test_a_given_file_replaces_the_model_s_template),
        cmocka_unit_test(test_a_template_that_does_not_compile_leaves_the_model_usable),
        cmocka_unit_test(test_what_is_missing_is_named),
        cmocka_unit_test(test_gguf_names_tokens_ends_and_templates_by_key),
        cmocka_unit_test(test_gguf_without_a_template_has_none),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
