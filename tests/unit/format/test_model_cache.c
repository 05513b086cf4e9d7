/* test_model_cache.c - names of models: taken apart, looked up in the user's cache and in
 * huggingface_hub's, listed; and what file names of GGUF models say. */
#include "test.h"

#include "alloc_fail.h"
#include "format/model_cache.h"

#include <sys/stat.h>
#include <unistd.h>

static char root[64];

static int set_up(void **state) {
    (void)state;
    snprintf(root, sizeof root, "/tmp/radish-test-XXXXXX");
    return mkdtemp(root) ? 0 : -1;
}

static int tear_down(void **state) {
    (void)state;
    char command[100];
    snprintf(command, sizeof command, "rm -r '%s'", root);
    return system(command);
}

static const char *in_root(const char *name) {
    static char buffers[4][512];
    static int next;
    char *path = buffers[next++ % 4];
    snprintf(path, sizeof buffers[0], "%s/%s", root, name);
    for (char *p = path + strlen(root) + 1; (p = strchr(p, '/')); p++) {
        *p = '\0';
        mkdir(path, 0700);
        *p = '/';
    }
    return path;
}

static void put(const char *name, const char *text) {
    FILE *file = fopen(in_root(name), "w");
    assert_non_null(file);
    fputs(text, file);
    assert_int_equal(fclose(file), 0);
}

static const char *found(const char *name) {
    static char shown[512];
    struct radish_error err = {0};
    char *path = NULL;
    char *own = strdup(in_root("own")), *foreign = strdup(in_root("hf"));
    if (model_cache_find_in(own, foreign, name, &path, &err) != RADISH_OK)
        snprintf(shown, sizeof shown, "%s", err.msg);
    else
        snprintf(shown, sizeof shown, "%s", path + strlen(root) + 1);
    free(path);
    free(own);
    free(foreign);
    return shown;
}

static void test_a_name_is_taken_apart(void **state) {
    (void)state;
    static const struct {
        const char *text, *repo, *revision, *quant, *folder;
    } rows[] = {
        {"a", "a", "", "", "a"},
        {"org/name", "org/name", "", "", "org/name"},
        {"org/name:Q4_0", "org/name", "", "Q4_0", "org/name"},
        {"org/name@v1", "org/name", "v1", "", "org/name@v1"},
        {"org/name@main:q8_0", "org/name", "", "q8_0", "org/name"},
        {"org/name@refs/pr/1:UD-Q4_K_XL", "org/name", "refs/pr/1", "UD-Q4_K_XL",
         "org/name@refs--pr--1"},
        {"name:F16", "name", "", "F16", "name"},
    };
    static const char *const bad[] = {"org/name:", "org/name@", "a:b:c",   "a/b@../x",
                                      "a/b@x/..",  "a/b:..",    "a/b:x/y", "a/b:x@y/",
                                      "a/b@c:d:e", ":q",        "@r",      "/a:q",
                                      "../a@b",    "a/../b@c",  "a//b",    "a/b@/c"};
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        struct model_name name;
        assert_true(model_name_parse(rows[i].text, &name));
        assert_string_equal(name.repo, rows[i].repo);
        assert_string_equal(name.revision, rows[i].revision);
        assert_string_equal(name.quant, rows[i].quant);
        char *folder = model_name_folder(&name);
        assert_string_equal(folder, rows[i].folder);
        free(folder);
    }
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
        struct model_name name;
        if (model_name_parse(bad[i], &name)) fail_msg("'%s' is no name", bad[i]);
    }
    char text[400];
    memset(text, 'a', sizeof text - 1);
    text[sizeof text - 1] = '\0';
    assert_false(model_cache_is_name(text));
}

static void test_the_quantisation_is_read_from_the_file_name(void **state) {
    (void)state;
    static const char *const rows[][2] = {
        {"x/Small-1B-Instruct-Q4_K_M.gguf", "Q4_K_M"},
        {"qwen2.5-0.5b-instruct-q8_0.gguf", "q8_0"},
        {"Small.Q5_0.gguf", "Q5_0"},
        {"UD/Small-UD-Q4_K_XL-00001-of-00003.gguf", "UD-Q4_K_XL"},
        {"weights.gguf", "weights"},
        {"a-00001-of-0003.gguf", "0003"},
    };
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        char quant[MODEL_QUANT_MAX];
        model_quant_of(rows[i][0], quant);
        assert_string_equal(quant, rows[i][1]);
    }
    assert_true(model_gguf_is_meant("a/b-Q4_0.gguf", "q4_0", /*exact=*/true));
    assert_true(model_gguf_is_meant("a/b-IQ4_0-00001-of-00002.gguf", "IQ4_0", /*exact=*/true));
    assert_false(model_gguf_is_meant("a/b-IQ4_0-00002-of-00002.gguf", "IQ4_0", /*exact=*/true));
    assert_true(model_gguf_is_meant("a/b-UD-Q4_0.gguf", "Q4_0", /*exact=*/false));
    assert_false(model_gguf_is_meant("a/b-UD-Q4_0.gguf", "Q4_0", /*exact=*/true));
    assert_false(model_gguf_is_meant("a/b-IQ4_0.gguf", "Q4_0", /*exact=*/false));
    assert_true(model_gguf_is_meant("a/b-IQ4_0.gguf", "", /*exact=*/true));
    assert_false(model_gguf_is_meant("a/b-Q4_0.gguf", "a-much-longer-text-than-the-name", false));
    assert_false(model_gguf_is_model("x/mmproj-model-f16.gguf"));
    assert_false(model_gguf_is_model("x/model.imatrix.gguf"));
    assert_false(model_gguf_is_model("x/model.bin"));
    assert_true(model_gguf_is_model("x/model-f16.gguf"));
}

static void test_a_name_finds_folders_and_quantisations(void **state) {
    (void)state;
    put("own/org/hf/config.json", "{}");
    put("own/org/hf/model.safetensors", "x");
    put("own/org/hf@v1/model.safetensors", "x");
    put("own/org/one/only-Q8_0.gguf", "x");
    put("own/org/one/mmproj-only-f16.gguf", "x");
    put("own/org/many/m-Q4_0.gguf", "x");
    put("own/org/many/m-UD-Q4_0.gguf", "x");
    put("own/org/many/Q2/m-Q2_K-00001-of-00002.gguf", "x");
    put("own/org/many/Q2/m-Q2_K-00002-of-00002.gguf", "x");

    assert_string_equal(found("org/hf"), "own/org/hf");
    assert_string_equal(found("org/hf@v1"), "own/org/hf@v1");
    assert_string_equal(found("org/one"), "own/org/one/only-Q8_0.gguf");
    assert_string_equal(found("org/one:q8_0"), "own/org/one/only-Q8_0.gguf");
    assert_string_equal(found("org/many:Q4_0"), "own/org/many/m-Q4_0.gguf");
    assert_string_equal(found("org/many:ud-q4_0"), "own/org/many/m-UD-Q4_0.gguf");
    assert_string_equal(found("org/many:Q2_K"), "own/org/many/Q2/m-Q2_K-00001-of-00002.gguf");
    assert_non_null(strstr(found("org/many"), "holds 3 GGUF models; say which"));
    assert_non_null(strstr(found("org/many"), "Q2_K, Q4_0, UD-Q4_0"));
    assert_non_null(strstr(found("org/many:Q6_K"), "no Q6_K is here, only Q2_K"));
    assert_non_null(strstr(found("org/none"), "'radish pull org/none' fetches it"));
    assert_non_null(strstr(found("none"), "'radish list' shows"));
}

static void test_a_name_without_org_is_found_where_it_is_unique(void **state) {
    (void)state;
    put("own/a/same/model.safetensors", "x");
    put("own/b/same/model.safetensors", "x");
    put("own/b/mine/model.safetensors", "x");
    put("own/c/quants/q-Q4_0.gguf", "x");
    put("own/c/quants/q-Q8_0.gguf", "x");
    put("own/top.gguf", "x");

    assert_string_equal(found("mine"), "own/b/mine");
    assert_string_equal(found("quants:Q8_0"), "own/c/quants/q-Q8_0.gguf");
    assert_string_equal(found("top"), "own/top.gguf");
    assert_string_equal(found("top.gguf"), "own/top.gguf");
    assert_non_null(strstr(found("same"), "same may be any of: a/same, b/same"));
}

static void test_models_of_huggingface_hub_are_found_too(void **state) {
    (void)state;
    put("hf/models--org--name/refs/main", "abc123\n");
    put("hf/models--org--name/refs/refs/pr/1", "def456");
    put("hf/models--org--name/blobs/x", "weights");
    put("hf/models--org--name/snapshots/abc123/config.json", "{}");
    put("hf/models--org--name/snapshots/def456/model.safetensors", "x");
    put("hf/models--gpt2/refs/main", "../../..");
    put("hf/models--gpt2/snapshots/x/model.safetensors", "x");
    assert_int_equal(symlink("../../blobs/x",
                             in_root("hf/models--org--name/snapshots/abc123/model.safetensors")),
                     0);

    assert_string_equal(found("org/name"), "hf/models--org--name/snapshots/abc123");
    assert_string_equal(found("name"), "hf/models--org--name/snapshots/abc123");
    assert_string_equal(found("org/name@refs/pr/1"), "hf/models--org--name/snapshots/def456");
    assert_string_equal(found("org/name@def456"), "hf/models--org--name/snapshots/def456");
    assert_non_null(strstr(found("gpt2"), "no such model"));
    put("own/org/name/model.safetensors", "x");
    assert_string_equal(found("org/name"), "own/org/name");
}

static void test_the_list_shows_both_caches_with_sizes(void **state) {
    (void)state;
    struct model_cache_list list;
    struct radish_error err;
    put("own/org/hf/config.json", "{}");
    put("own/org/hf/model.safetensors", "12345678");
    put("own/org/hf/.radish.json", "hidden");
    put("own/org/split/s-Q8_0-00001-of-00002.gguf", "1234");
    put("own/org/split/s-Q8_0-00002-of-00002.gguf", "123");
    put("own/.pull/org--x/abc.part", "x");
    put("own/top.gguf", "1");
    put("own/notes.txt", "1");
    put("own/plain/model.safetensors", "12");
    put("hf/models--o--n/refs/main", "c");
    put("hf/models--o--n/snapshots/c/model.safetensors", "123");
    put("hf/datasets--o--d/refs/main", "c");
    char *own = strdup(in_root("own")), *foreign = strdup(in_root("hf"));

    assert_int_equal(model_cache_list_in(own, foreign, &list, &err), RADISH_OK);

    static const struct {
        const char *name;
        uint64_t bytes;
    } rows[] = {{"o/n", 3}, {"org/hf", 10}, {"org/split:Q8_0", 7}, {"plain", 2}, {"top", 1}};
    assert_int_equal(list.n, sizeof rows / sizeof *rows);
    for (size_t i = 0; i < list.n; i++) {
        assert_string_equal(list.entries[i].name, rows[i].name);
        assert_int_equal(list.entries[i].bytes, rows[i].bytes);
        assert_int_equal(list.entries[i].is_foreign, i == 0);
        assert_string_equal(found(list.entries[i].name), list.entries[i].path + strlen(root) + 1);
    }
    model_cache_list_deinit(&list);
    assert_int_equal(model_cache_list_in(in_root("nowhere"), NULL, &list, &err), RADISH_OK);
    assert_int_equal(list.n, 0);
    free(own);
    free(foreign);
}

static bool attempt_to_list(void *user) {
    struct model_cache_list list;
    struct radish_error err = {0};
    char *path = NULL, **folders = user;
    enum radish_status status = model_cache_list_in(folders[0], folders[1], &list, &err);
    model_cache_list_deinit(&list);
    if (status == RADISH_OK)
        status = model_cache_find_in(folders[0], NULL, "split:Q8_0", &path, &err);
    free(path);
    assert_int_equal(err.status, status);
    return status == RADISH_OK;
}

static void test_each_failed_allocation_is_reported_without_a_leak(void **state) {
    (void)state;
    if (!alloc_fail_can()) skip();
    put("own/org/split/s-Q8_0-00001-of-00002.gguf", "1234");
    put("hf/models--o--n/refs/main", "c");
    put("hf/models--o--n/snapshots/c/model.safetensors", "123");
    char *folders[2] = {strdup(in_root("own")), strdup(in_root("hf"))};
    assert_true(alloc_fail_each(attempt_to_list, folders) >= 10);
    free(folders[0]);
    free(folders[1]);
}

int main(void) {
#define TEST(name) cmocka_unit_test_setup_teardown(name, set_up, tear_down)
    const struct CMUnitTest tests[] = {
        TEST(test_a_name_is_taken_apart),
        TEST(test_the_quantisation_is_read_from_the_file_name),
        TEST(test_a_name_finds_folders_and_quantisations),
        TEST(test_a_name_without_org_is_found_where_it_is_unique),
        TEST(test_models_of_huggingface_hub_are_found_too),
        TEST(test_the_list_shows_both_caches_with_sizes),
        TEST(test_each_failed_allocation_is_reported_without_a_leak),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
