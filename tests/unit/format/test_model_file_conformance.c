/* test_model_file_conformance.c - opens every model, golden file and GGUF file of the conformance
 * data. Skipped where it is not there. */
#include "test.h"

#include "base/file_map.h"
#include "format/model_file.h"
#include "format/safetensors.h"

#include <dirent.h>

static const char *data_folder(void) {
    const char *given = getenv("RADISH_CONFORMANCE");
    return given ? given : TEST_SOURCE "/../shared/conformance";
}

static bool has_suffix(const char *name, const char *suffix) {
    const size_t n = strlen(name), m = strlen(suffix);
    return n >= m && strcmp(name + n - m, suffix) == 0;
}

/* prompt.0 is int64 [1], logits.0 is float32 [1, vocabulary]. */
static void check_golden(const char *path) {
    struct safetensors *file;
    struct radish_error err = {0};
    if (safetensors_open(path, &file, &err) != RADISH_OK) fail_msg("%s", err.msg);
    const struct safetensors_tensor *prompt = safetensors_find(file, "prompt.0");
    const struct safetensors_tensor *logits = safetensors_find(file, "logits.0");
    assert_true(prompt && logits);
    assert_int_equal(prompt->dtype, RADISH_DTYPE_I64);
    assert_int_equal(prompt->shape[0], 1);
    assert_int_equal(logits->dtype, RADISH_DTYPE_F32);
    assert_int_equal(logits->n_dims, 2);
    assert_int_equal(logits->shape[0], 1);
    safetensors_close(file);
}

static struct model_file *open_ok(const char *path) {
    struct model_file *file;
    struct radish_error err = {0};
    if (model_file_open(path, false, &file, &err) != RADISH_OK) fail_msg("%s", err.msg);
    assert_true(model_file_n_tensors(file) > 10);
    for (size_t i = 0; i < model_file_n_tensors(file); i++) {
        const struct model_tensor *t = model_file_tensor(file, i);
        assert_ptr_equal(model_file_find(file, t->name), t);
        assert_true(dtype_can_read(t->dtype));
    }
    return file;
}

static void test_every_model_folder_opens(void **state) {
    (void)state;
    char path[1000];
    int n = 0;
    snprintf(path, sizeof path, "%s/models", data_folder());
    DIR *dir = opendir(path);
    assert_non_null(dir);
    for (struct dirent *entry; (entry = readdir(dir));) {
        size_t len;
        if (entry->d_name[0] == '.') continue;
        snprintf(path, sizeof path, "%s/models/%s", data_folder(), entry->d_name);
        struct model_file *file = open_ok(path);
        assert_int_equal(model_file_format(file), MODEL_FORMAT_SAFETENSORS);
        assert_non_null(model_file_config(file));
        assert_non_null(model_file_tokenizer(file));
        assert_non_null(model_file_chat_template(file, &len));
        model_file_close(file);
        snprintf(path, sizeof path, "%s/models/%s/golden.safetensors", data_folder(),
                 entry->d_name);
        check_golden(path);
        snprintf(path, sizeof path, "models/%s", entry->d_name);
        report_covered(path, "opened", 1);
        n++;
    }
    closedir(dir);
    assert_true(n >= 30);
}

static void test_every_gguf_file_opens(void **state) {
    (void)state;
    char path[1000];
    int n = 0;
    snprintf(path, sizeof path, "%s/gguf", data_folder());
    DIR *dir = opendir(path);
    assert_non_null(dir);
    for (struct dirent *entry; (entry = readdir(dir));) {
        snprintf(path, sizeof path, "%s/gguf/%s", data_folder(), entry->d_name);
        if (has_suffix(path, ".golden.safetensors")) check_golden(path);
        if (!has_suffix(path, ".gguf")) continue;
        struct model_file *file = open_ok(path);
        assert_int_equal(model_file_format(file), MODEL_FORMAT_GGUF);
        const struct model_tensor *t = model_file_find(file, "token_embd.weight");
        assert_non_null(t);
        assert_int_equal(t->n_dims, 2);
        assert_int_equal(t->shape[1], 256); /* [vocabulary, hidden] */
        assert_non_null(gguf_find(model_file_gguf(file), "tokenizer.ggml.tokens"));
        model_file_close(file);
        snprintf(path, sizeof path, "gguf/%.*s", (int)(strlen(entry->d_name) - strlen(".gguf")),
                 entry->d_name);
        report_covered(path, "opened", 1);
        n++;
    }
    closedir(dir);
    assert_int_equal(n, 10);
}

int main(void) {
    if (!file_is_folder(data_folder())) {
        printf("no conformance data at %s\n", data_folder());
        return TEST_SKIPPED;
    }
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_every_model_folder_opens),
        cmocka_unit_test(test_every_gguf_file_opens),
    };
    return cmocka_run_group_tests_name("model_file_conformance", tests, NULL, NULL);
}
