/* The public model and text functions on a folder, on half a folder, and on nothing; the report. */
#include "test.h"

#include "engine_client.h"

#include "base/buf.h"
#include "base/file_map.h"

#include <sys/stat.h>
#include <unistd.h>

static struct radish_model *model;

static int open_model(void **state) {
    (void)state;
    return radish_model_open(TEST_DATA "/models/llama", NULL, &model, NULL) != RADISH_OK;
}

static int close_model(void **state) {
    (void)state;
    radish_model_close(model);
    return 0;
}

static void test_info_says_what_the_folder_holds(void **state) {
    (void)state;
    const struct radish_model_info *info = radish_model_info(model);
    assert_string_equal(info->name, "llama");
    assert_string_equal(info->format, "safetensors");
    assert_string_equal(info->architecture, "llama");
    assert_int_equal(info->context_trained, 512);
    assert_int_equal(info->n_vocab, 512);
    assert_int_equal(info->n_tokens, 512);
    assert_true(info->has_chat_template);
    assert_true(info->weight_bytes > 100000);
}

static void test_names_come_from_paths(void **state) {
    (void)state;
    struct radish_model *other;
    assert_int_equal(radish_model_open(TEST_DATA "/models/qwen3//", NULL, &other, NULL), RADISH_OK);
    assert_string_equal(radish_model_info(other)->name, "qwen3");
    radish_model_close(other);
}

static void test_what_is_not_there_is_not_found(void **state) {
    (void)state;
    struct radish_model *other = model;
    struct radish_error err;
    assert_int_equal(radish_model_open("/no/such/model", NULL, &other, &err), RADISH_E_NOT_FOUND);
    assert_non_null(strstr(err.msg, "/no/such/model"));
    assert_null(other);
    assert_int_equal(radish_model_open("", NULL, &other, &err), RADISH_E_INVALID);
    setenv("RADISH_CACHE", "/no/such/cache", 1);
    assert_int_equal(radish_model_open("no-such-name", NULL, &other, &err), RADISH_E_NOT_FOUND);
    assert_non_null(strstr(err.msg, "/no/such/cache"));
    unsetenv("RADISH_CACHE");
}

static void copy_file(const char *from_folder, const char *to_folder, const char *name) {
    char path[512], *data;
    size_t len;
    snprintf(path, sizeof path, "%s/%s", from_folder, name);
    assert_int_equal(file_read(path, 1 << 24, &data, &len, NULL), RADISH_OK);
    snprintf(path, sizeof path, "%s/%s", to_folder, name);
    FILE *file = fopen(path, "wb");
    assert_non_null(file);
    assert_int_equal(fwrite(data, 1, len, file), len);
    fclose(file);
    free(data);
}

static void remove_folder(const char *folder) {
    char command[512];
    snprintf(command, sizeof command, "rm -r '%s'", folder);
    assert_int_equal(system(command), 0);
}

static void test_a_name_is_found_in_the_cache_and_text_works_without_weights(void **state) {
    (void)state;
    char folder[] = "/tmp/radish-test-XXXXXX", inside[512];
    assert_non_null(mkdtemp(folder));
    snprintf(inside, sizeof inside, "%s/tiny", folder);
    assert_int_equal(mkdir(inside, 0700), 0);
    copy_file(TEST_DATA "/models/llama", inside, "tokenizer.json");
    copy_file(TEST_DATA "/models/llama", inside, "tokenizer_config.json");
    setenv("RADISH_CACHE", folder, 1);
    struct radish_model *other;
    struct radish_engine *engine;
    struct radish_error err;

    assert_int_equal(radish_model_open("tiny", NULL, &other, &err), RADISH_OK);

    assert_string_equal(radish_model_info(other)->format, "tokenizer");
    assert_string_equal(radish_model_info(other)->architecture, "");
    int32_t *ids;
    size_t n;
    assert_int_equal(radish_tokenize(other, "hello", 5, 0, &ids, &n, NULL), RADISH_OK);
    radish_free(ids);
    assert_int_equal(radish_engine_open(other, NULL, &engine, &err), RADISH_E_NOT_FOUND);
    assert_non_null(strstr(err.msg, "no weights"));
    radish_model_close(other);
    unsetenv("RADISH_CACHE");
    remove_folder(folder);
}

static void test_an_architecture_that_is_not_supported_still_tokenizes(void **state) {
    (void)state;
    char folder[] = "/tmp/radish-test-XXXXXX", path[512];
    assert_non_null(mkdtemp(folder));
    copy_file(TEST_DATA "/models/llama", folder, "tokenizer.json");
    copy_file(TEST_DATA "/models/llama", folder, "model.safetensors");
    snprintf(path, sizeof path, "%s/config.json", folder);
    FILE *file = fopen(path, "w");
    assert_non_null(file);
    fputs("{\"architectures\": [\"MambaForCausalLM\"], \"model_type\": \"mamba\"}", file);
    fclose(file);
    struct radish_model *other;
    struct radish_engine *engine;
    struct radish_error err;

    assert_int_equal(radish_model_open(folder, NULL, &other, &err), RADISH_OK);
    assert_int_equal(radish_engine_open(other, NULL, &engine, &err), RADISH_E_UNSUPPORTED);

    assert_non_null(strstr(err.msg, "amba"));
    assert_non_null(strstr(err.msg, "lama"));
    radish_model_close(other);
    remove_folder(folder);
}

static void test_text_goes_to_ids_and_back(void **state) {
    (void)state;
    const char *text = "A small test, with \xc3\xa9 and \xe6\x97\xa5.";
    int32_t *ids;
    size_t n, len, n_bytes = 0;
    char *back;
    assert_int_equal(radish_tokenize(model, text, strlen(text), 0, &ids, &n, NULL), RADISH_OK);
    assert_int_equal(radish_detokenize(model, ids, n, 0, &back, &len, NULL), RADISH_OK);
    assert_string_equal(back, text);
    for (size_t i = 0; i < n; i++) {
        assert_non_null(radish_token_bytes(model, ids[i], &len));
        n_bytes += len;
    }
    assert_int_equal(n_bytes, strlen(text));
    assert_null(radish_token_bytes(model, 512, &len));
    radish_free(ids);
    radish_free(back);
    struct radish_error err;
    assert_int_equal(radish_tokenize(model, "ab\xff", 3, 0, &ids, &n, &err), RADISH_E_INVALID);
    assert_int_equal(err.offset, 2);
    assert_null(ids);
    assert_int_equal(radish_detokenize(model, &(int32_t){9999}, 1, 0, &back, &len, &err),
                     RADISH_E_INVALID);
}

static void test_names_of_tokens_are_the_vocabularys(void **state) {
    (void)state;
    static const char text[] = " na\xc3\xafve\n";
    struct buf names;
    int32_t *ids;
    size_t n, len;
    buf_init(&names, 0);
    assert_int_equal(radish_tokenize(model, text, strlen(text), 0, &ids, &n, NULL), RADISH_OK);
    for (size_t i = 0; i < n; i++) {
        const char *name = radish_token_name(model, ids[i], &len);
        assert_non_null(name);
        buf_append(&names, name, len);
    }
    assert_string_equal(names.data, "\xc4\xa0na\xc3\x83\xc2\xafve\xc4\x8a");
    assert_null(radish_token_name(model, 512, &len));
    assert_null(radish_token_name(model, -1, &len));
    radish_free(ids);
    buf_deinit(&names);
}

/* What servers ask for: without it a template sees what it is given. */
static void test_conversations_are_adapted_only_when_asked_for(void **state) {
    (void)state;
    static const char json[] = "{\"messages\": [{\"role\": \"developer\", \"content\": \"x\"}]}";
    struct radish_render_options *none = NULL;
    char *text;
    size_t len;
    assert_int_equal(radish_render(model, json, sizeof json - 1, true, none, &text, &len, NULL),
                     RADISH_OK);
    assert_string_equal(text, "<|im_start|>system\nx<|im_end|>\n");
    radish_free(text);
    assert_int_equal(radish_render(model, json, sizeof json - 1, false, none, &text, &len, NULL),
                     RADISH_OK);
    assert_string_equal(text, "<|im_start|>developer\nx<|im_end|>\n");
    radish_free(text);
}

static char *render(const char *json, bool joins) {
    char *text;
    size_t len;
    struct radish_error err;
    if (radish_render(model, json, strlen(json), joins, NULL, &text, &len, &err) != RADISH_OK)
        fail_msg("%s", err.msg);
    assert_int_equal(strlen(text), len);
    return text;
}

static void test_parts_are_joined_before_rendering(void **state) {
    (void)state;
    char *plain =
        render("{\"messages\": [{\"role\": \"user\", \"content\": \"one\\ntwo\"}]}", true);
    char *parts = render("{\"messages\": [{\"role\": \"user\", \"content\": [{\"type\": \"text\", "
                         "\"text\": \"one\"}, {\"type\": \"text\", \"text\": \"two\"}]}]}",
                         true);
    assert_non_null(strstr(plain, "one\ntwo"));
    assert_string_equal(parts, plain);
    radish_free(plain);
    radish_free(parts);
}

static void refuse_render(const char *json, enum radish_status status, const char *word) {
    char *text = (char *)1;
    size_t len;
    struct radish_error err;
    assert_int_equal(radish_render(model, json, strlen(json), true, NULL, &text, &len, &err),
                     status);
    assert_null(text);
    if (!strstr(err.msg, word)) fail_msg("no '%s' in: %s", word, err.msg);
}

static void test_what_cannot_be_rendered_is_refused_by_name(void **state) {
    (void)state;
    refuse_render("{\"messages\": [{\"role\": \"user\", \"content\": [{\"type\": \"image_url\", "
                  "\"image_url\": {\"url\": \"x\"}}]}]}",
                  RADISH_E_INVALID, "image_url");
    refuse_render("{\"messages\": [{\"role\": \"user\", \"content\": [{\"type\": \"text\"}]}]}",
                  RADISH_E_INVALID, "text");
    refuse_render("[1]", RADISH_E_INVALID, "object");
    refuse_render("{\"messages\": ", RADISH_E_INVALID, "");
}

static void test_tokens_of_the_model_are_set_unless_given(void **state) {
    (void)state;
    static const char source[] = "{{ bos_token }}|{{ eos_token }}";
    struct radish_model *other;
    char folder[] = "/tmp/radish-test-XXXXXX", path[512], *text;
    size_t len;
    assert_non_null(mkdtemp(folder));
    snprintf(path, sizeof path, "%s/t.jinja", folder);
    FILE *file = fopen(path, "w");
    assert_non_null(file);
    fputs(source, file);
    fclose(file);
    struct radish_model_options options = {.chat_template_path = path};
    assert_int_equal(radish_model_open(TEST_DATA "/models/llama", &options, &other, NULL),
                     RADISH_OK);

    assert_int_equal(
        radish_render(other, "{\"bos_token\": \"mine\"}", 21, true, NULL, &text, &len, NULL),
        RADISH_OK);
    assert_non_null(strstr(text, "mine|"));
    assert_true(len > strlen("mine|"));
    radish_free(text);
    radish_model_close(other);
    remove_folder(folder);
    assert_int_equal(radish_render_source(source, strlen(source), "{\"eos_token\": 5}", 16, NULL,
                                          &text, &len, NULL),
                     RADISH_OK);
    assert_string_equal(text, "|5");
    radish_free(text);
}

static void test_the_report_names_machine_kernels_and_plan(void **state) {
    (void)state;
    char *text;
    struct radish_engine_options options = {.context_tokens = 400};
    assert_int_equal(radish_info_text(NULL, NULL, &text, NULL), RADISH_OK);
    assert_non_null(strstr(text, "bit class"));
    assert_non_null(strstr(text, "matmul"));
    assert_null(strstr(text, "memory plan"));
    radish_free(text);
    assert_int_equal(radish_info_text(model, &options, &text, NULL), RADISH_OK);
    assert_non_null(strstr(text, "memory plan"));
    assert_non_null(strstr(text, "400 tokens"));
    radish_free(text);
    options.context_tokens = 2000000000;
    assert_int_equal(radish_info_text(model, &options, &text, NULL), RADISH_OK);
    assert_non_null(strstr(text, "cannot be served"));
    radish_free(text);
}

static void test_a_forced_kernel_that_does_not_exist_is_refused(void **state) {
    (void)state;
    struct radish_engine_options options = {.kernels = {"matmul=nonsense"}, .n_kernels = 1};
    struct radish_engine *engine;
    struct radish_error err;
    assert_int_equal(radish_engine_open(model, &options, &engine, &err), RADISH_E_UNSUPPORTED);
    assert_non_null(strstr(err.msg, "nonsense"));
    assert_non_null(strstr(err.msg, "this machine has ref, ref32"));
    assert_null(engine);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_info_says_what_the_folder_holds),
        cmocka_unit_test(test_names_come_from_paths),
        cmocka_unit_test(test_what_is_not_there_is_not_found),
        cmocka_unit_test(test_a_name_is_found_in_the_cache_and_text_works_without_weights),
        cmocka_unit_test(test_an_architecture_that_is_not_supported_still_tokenizes),
        cmocka_unit_test(test_text_goes_to_ids_and_back),
        cmocka_unit_test(test_names_of_tokens_are_the_vocabularys),
        cmocka_unit_test(test_conversations_are_adapted_only_when_asked_for),
        cmocka_unit_test(test_parts_are_joined_before_rendering),
        cmocka_unit_test(test_what_cannot_be_rendered_is_refused_by_name),
        cmocka_unit_test(test_tokens_of_the_model_are_set_unless_given),
        cmocka_unit_test(test_the_report_names_machine_kernels_and_plan),
        cmocka_unit_test(test_a_forced_kernel_that_does_not_exist_is_refused),
    };
    return cmocka_run_group_tests(tests, open_model, close_model);
}
