/* test_model_file.c - what a path means: folders, shards, GGUF files, split ones, names in the
 * cache; what is wrong with them is said with the file's and the tensor's name. */
#include "test.h"

#include "alloc_fail.h"
#include "base/file_map.h"
#include "format/model_cache.h"
#include "format/model_file.h"
#include "format/safetensors_write.h"
#include "format_gguf_spec.h"

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
    unsetenv("RADISH_CACHE");
    snprintf(command, sizeof command, "rm -r '%s'", root);
    return system(command);
}

/* root/name, in one of a few static buffers; folders on the way are made. */
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

static void put_text(const char *name, const char *text) {
    spec_write_file(in_root(name), text, strlen(text));
}

/* A safetensors file with tensors of 2 floats each, named by the words of `names`. */
static void put_safetensors(const char *file, const char *names) {
    struct safetensors_writer *w;
    const uint64_t two = 2;
    const float data[2] = {1, 2};
    char words[200], *save = NULL;
    int n = 0;
    snprintf(words, sizeof words, "%s", names);
    assert_int_equal(safetensors_writer_create(in_root(file), &w, NULL), RADISH_OK);
    for (char *word = strtok_r(words, " ", &save); word; word = strtok_r(NULL, " ", &save), n++)
        assert_int_equal(safetensors_writer_tensor(w, word, RADISH_DTYPE_F32, 1, &two, NULL),
                         RADISH_OK);
    while (n--) assert_int_equal(safetensors_writer_data(w, data, sizeof data, NULL), RADISH_OK);
    assert_int_equal(safetensors_writer_finish(w, NULL), RADISH_OK);
}

static void put_gguf(const char *file, void (*bend)(struct gguf_spec *spec)) {
    struct gguf_spec spec;
    struct buf bytes;
    gguf_spec_init(&spec);
    if (bend) bend(&spec);
    gguf_spec_build(&spec, &bytes);
    spec_write_file(in_root(file), bytes.data, bytes.len);
    buf_deinit(&bytes);
}

static struct model_file *open_ok(const char *path) {
    struct model_file *file;
    struct radish_error err = {0};
    if (model_file_open(path, false, &file, &err) != RADISH_OK) fail_msg("%s: %s", path, err.msg);
    return file;
}

static void expect_error(const char *path, enum radish_status status, const char *msg) {
    struct model_file *file;
    struct radish_error err = {0};
    const enum radish_status got = model_file_open(path, false, &file, &err);
    if (got != status || !strstr(err.msg, msg))
        fail_msg("%s: %s instead of '%s': %s", path, radish_status_name(got), msg, err.msg);
    assert_null(file);
    assert_int_equal(err.status, status);
}

static void test_a_folder_gives_its_tensors_and_documents(void **state) {
    (void)state;
    size_t len;
    put_text("m/config.json", "{\"model_type\": \"llama\"}");
    put_text("m/generation_config.json", "{\"g\": 1}");
    put_text("m/tokenizer.json", "{\"t\": 1}");
    put_text("m/tokenizer_config.json", "{\"tc\": 1}");
    put_text("m/special_tokens_map.json", "{\"s\": 1}");
    put_text("m/chat_template.jinja", "{{ x }}");
    put_safetensors("m/model.safetensors", "b a");

    struct model_file *file = open_ok(in_root("m"));

    assert_int_equal(model_file_format(file), MODEL_FORMAT_SAFETENSORS);
    assert_string_equal(model_file_path(file), in_root("m"));
    assert_int_equal(model_file_n_tensors(file), 2);
    assert_string_equal(model_file_tensor(file, 0)->name, "a");
    const struct model_tensor *t = model_file_find(file, "b");
    assert_int_equal(t->dtype, RADISH_DTYPE_F32);
    assert_int_equal(t->n_dims, 1);
    assert_int_equal(t->shape[0], 2);
    assert_int_equal(t->n_bytes, 8);
    assert_null(model_file_find(file, "c"));
    model_file_release(file, t);
    assert_string_equal(yyjson_get_str(yyjson_obj_get(model_file_config(file), "model_type")),
                        "llama");
    assert_non_null(yyjson_obj_get(model_file_generation_config(file), "g"));
    assert_non_null(yyjson_obj_get(model_file_tokenizer(file), "t"));
    assert_non_null(yyjson_obj_get(model_file_tokenizer_config(file), "tc"));
    assert_non_null(yyjson_obj_get(model_file_special_tokens_map(file), "s"));
    assert_string_equal(model_file_chat_template(file, &len), "{{ x }}");
    assert_int_equal(len, 7);
    assert_null(model_file_gguf(file));
    model_file_close(file);
}

static void test_absent_documents_are_null(void **state) {
    (void)state;
    size_t len = 5;
    put_safetensors("m/model.safetensors", "a");

    struct model_file *file = open_ok(in_root("m"));

    assert_null(model_file_config(file));
    assert_null(model_file_tokenizer(file));
    assert_null(model_file_chat_template(file, &len));
    assert_int_equal(len, 0);
    model_file_close(file);
}

static void test_a_broken_document_is_named(void **state) {
    (void)state;
    put_safetensors("m/model.safetensors", "a");
    put_text("m/tokenizer.json", "{\"a\": }");
    expect_error(in_root("m"), RADISH_E_FORMAT, "m/tokenizer.json: not JSON");
    put_text("m/tokenizer.json", "[]");
    expect_error(in_root("m"), RADISH_E_FORMAT, "m/tokenizer.json: not a JSON object but array");
    put_text("m/tokenizer.json", "");
    expect_error(in_root("m"), RADISH_E_FORMAT, "m/tokenizer.json: not JSON: the text is empty");
}

static void test_weights_are_needed_unless_text_is_enough(void **state) {
    (void)state;
    struct model_file *file;
    put_text("m/tokenizer.json", "{}");

    expect_error(in_root("m"), RADISH_E_NOT_FOUND, "no weights");
    assert_int_equal(model_file_open(in_root("m"), true, &file, NULL), RADISH_OK);
    assert_int_equal(model_file_format(file), MODEL_FORMAT_TEXT_ONLY);
    assert_int_equal(model_file_n_tensors(file), 0);
    assert_null(model_file_find(file, "a"));
    model_file_close(file);
    put_text("m/pytorch_model.bin", "x");
    expect_error(in_root("m"), RADISH_E_UNSUPPORTED,
                 "pytorch_model.bin are not supported; supported are safetensors and GGUF");
}

static void test_shards_come_together(void **state) {
    (void)state;
    put_safetensors("m/one.safetensors", "c a");
    put_safetensors("m/two.safetensors", "b extra");
    put_text("m/model.safetensors.index.json",
             "{\"metadata\": {}, \"weight_map\": {\"a\": \"one.safetensors\", \"b\": "
             "\"two.safetensors\", \"c\": \"one.safetensors\"}}");

    struct model_file *file = open_ok(in_root("m"));

    assert_int_equal(model_file_n_tensors(file), 4);
    assert_string_equal(model_file_tensor(file, 1)->name, "b");
    assert_int_not_equal(model_file_find(file, "a")->file_idx,
                         model_file_find(file, "b")->file_idx);
    assert_int_equal(model_file_find(file, "a")->file_idx, model_file_find(file, "c")->file_idx);
    model_file_release(file, model_file_find(file, "b"));
    model_file_close(file);
}

static void test_a_wrong_index_is_refused_with_its_fault(void **state) {
    (void)state;
    static const struct {
        const char *index;
        enum radish_status status;
        const char *msg;
    } rows[] = {
        {"{\"weight_map\": {\"a\": \"gone.safetensors\"}}", RADISH_E_NOT_FOUND,
         "the shard gone.safetensors"},
        {"{\"weight_map\": {\"z\": \"one.safetensors\"}}", RADISH_E_FORMAT,
         "tensor 'z' is promised to be in one.safetensors"},
        {"{\"weight_map\": {\"b\": \"one.safetensors\", \"a\": \"two.safetensors\"}}",
         RADISH_E_FORMAT, "is promised"},
        {"{\"weight_map\": {\"a\": \"../m/one.safetensors\"}}", RADISH_E_FORMAT,
         "names no file of this folder"},
        {"{\"weight_map\": {\"a\": \"/etc/passwd\"}}", RADISH_E_FORMAT,
         "names no file of this folder ('/etc/passwd')"},
        {"{\"weight_map\": {\"a\": \"..\"}}", RADISH_E_FORMAT, "names no file"},
        {"{\"weight_map\": {\"a\": \"\"}}", RADISH_E_FORMAT, "names no file"},
        {"{\"weight_map\": {\"a\": 5}}", RADISH_E_FORMAT,
         "names no file of this folder ('integer')"},
        {"{\"weight_map\": {\"a\": \"one.safetensors\\u0000x\"}}", RADISH_E_FORMAT,
         "names no file"},
        {"{\"weight_map\": {}}", RADISH_E_FORMAT, "weight_map is empty"},
        {"{\"weight_map\": []}", RADISH_E_FORMAT, "weight_map is array"},
        {"{}", RADISH_E_FORMAT, "weight_map is nothing"},
        {"{\"weight_map\": {\"a\": \"one.safetensors\", \"a2\": \"same.safetensors\"}}",
         RADISH_E_FORMAT, "tensor 'a' is in two of the model's files"},
    };
    put_safetensors("m/one.safetensors", "a");
    put_safetensors("m/two.safetensors", "b");
    put_safetensors("m/same.safetensors", "a a2");
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        put_text("m/model.safetensors.index.json", rows[i].index);
        expect_error(in_root("m"), rows[i].status, rows[i].msg);
    }
}

static void test_the_single_file_wins_over_an_index(void **state) {
    (void)state;
    put_safetensors("m/model.safetensors", "a");
    put_text("m/model.safetensors.index.json", "{}");
    struct model_file *file = open_ok(in_root("m"));
    assert_int_equal(model_file_n_tensors(file), 1);
    model_file_close(file);
}

static void test_a_safetensors_file_alone_is_refused_with_advice(void **state) {
    (void)state;
    put_safetensors("m/model.safetensors", "a");
    expect_error(in_root("m/model.safetensors"), RADISH_E_INVALID, "give the folder");
}

static void test_gguf_shapes_are_turned_to_row_major(void **state) {
    (void)state;
    size_t len = 1;
    put_gguf("x.gguf", NULL);

    struct model_file *file = open_ok(in_root("x.gguf"));

    assert_int_equal(model_file_format(file), MODEL_FORMAT_GGUF);
    const struct model_tensor *t = model_file_find(file, "b.weight");
    assert_int_equal(t->n_dims, 2);
    assert_int_equal(t->shape[0], 2);
    assert_int_equal(t->shape[1], 64);
    assert_int_equal(t->n_bytes, 136);
    assert_int_equal(t->data[0], (uint8_t)(64 * 7));
    model_file_release(file, t);
    assert_non_null(gguf_find(model_file_gguf(file), "general.architecture"));
    assert_null(model_file_config(file));
    assert_null(model_file_tokenizer(file));
    assert_null(model_file_chat_template(file, &len));
    model_file_close(file);
}

static void bend_part(struct gguf_spec *s, uint32_t no, uint32_t count, uint32_t n_tensors) {
    static const char *const names[3][3] = {
        {"p0.a", "p0.b", "p0.c"}, {"p1.a", "p1.b", "p1.c"}, {"p2.a", "p2.b", "p2.c"}};
    gguf_spec_add(s, "split.no", GGUF_U16, &(uint16_t){(uint16_t)no}, 2);
    gguf_spec_add(s, "split.count", GGUF_U16, &(uint16_t){(uint16_t)count}, 2);
    gguf_spec_add(s, "split.tensors.count", GGUF_I32, &(int32_t){(int32_t)n_tensors}, 4);
    for (size_t i = 0; i < 3 && no < 3; i++) {
        s->tensors[i].name = names[no][i];
        s->tensors[i].name_len = 4;
    }
}
static void part_0(struct gguf_spec *s) {
    bend_part(s, 0, 3, 9);
}
static void part_1(struct gguf_spec *s) {
    bend_part(s, 1, 3, 9);
}
static void part_2(struct gguf_spec *s) {
    bend_part(s, 2, 3, 9);
}
static void part_1_of_4(struct gguf_spec *s) {
    bend_part(s, 1, 4, 9);
}
static void part_0_of_10_tensors(struct gguf_spec *s) {
    bend_part(s, 0, 3, 10);
}
static void part_1_with_names_of_0(struct gguf_spec *s) {
    bend_part(s, 1, 3, 9);
    s->tensors[1].name = "p0.b";
}
static void part_9_of_3(struct gguf_spec *s) {
    bend_part(s, 9, 3, 9);
}
static void part_count_text(struct gguf_spec *s) {
    gguf_spec_add_str(s, "split.count", "3");
}

static void put_split(void) {
    put_gguf("s-00001-of-00003.gguf", part_0);
    put_gguf("s-00002-of-00003.gguf", part_1);
    put_gguf("s-00003-of-00003.gguf", part_2);
}

static void test_a_split_gguf_is_one_model(void **state) {
    (void)state;
    put_split();

    struct model_file *file = open_ok(in_root("s-00001-of-00003.gguf"));

    assert_int_equal(model_file_n_tensors(file), 9);
    assert_int_equal(model_file_find(file, "p2.a")->file_idx, 2);
    assert_int_equal(model_file_find(file, "p1.b")->shape[1], 64);
    model_file_release(file, model_file_find(file, "p2.a"));
    model_file_close(file);
    file = open_ok(root); /* a folder with one model in it */
    assert_string_equal(model_file_path(file), in_root("s-00001-of-00003.gguf"));
    assert_int_equal(model_file_n_tensors(file), 9);
    model_file_close(file);
}

static void test_wrong_split_files_are_refused_with_their_fault(void **state) {
    (void)state;
    static const struct {
        const char *file; /* replaced by: */
        void (*bend)(struct gguf_spec *spec);
        enum radish_status status;
        const char *msg;
    } rows[] = {
        {"s-00002-of-00003.gguf", part_2, RADISH_E_FORMAT,
         "s-00002-of-00003.gguf: says it is part 3 of 3, but its name says 2 of 3"},
        {"s-00002-of-00003.gguf", part_1_of_4, RADISH_E_FORMAT, "says it is part 2 of 4"},
        {"s-00002-of-00003.gguf", NULL, RADISH_E_FORMAT, "says it is part 1 of 0"},
        {"s-00002-of-00003.gguf", part_1_with_names_of_0, RADISH_E_FORMAT,
         "tensor 'p0.b' is in two of the model's files"},
        {"s-00001-of-00003.gguf", part_0_of_10_tensors, RADISH_E_FORMAT,
         "the parts hold 9 tensors, but key 'split.tensors.count' is 10"},
        {"s-00001-of-00003.gguf", part_9_of_3, RADISH_E_FORMAT,
         "'split.no' is 9, but split.count is 3"},
        {"s-00001-of-00003.gguf", part_1, RADISH_E_INVALID,
         "this is part 2 of 3; give the first one, whose name ends in -00001-of-00003.gguf"},
        {"s-00001-of-00003.gguf", part_count_text, RADISH_E_FORMAT,
         "'split.count' is of type string"},
    };
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        put_split();
        put_gguf(rows[i].file, rows[i].bend);
        expect_error(in_root("s-00001-of-00003.gguf"), rows[i].status, rows[i].msg);
    }
    put_split();
    expect_error(in_root("s-00003-of-00003.gguf"), RADISH_E_INVALID, "this is part 3 of 3");
    unlink(in_root("s-00003-of-00003.gguf"));
    expect_error(in_root("s-00001-of-00003.gguf"), RADISH_E_NOT_FOUND, "s-00003-of-00003.gguf");
    rename(in_root("s-00001-of-00003.gguf"), in_root("renamed.gguf"));
    expect_error(in_root("renamed.gguf"), RADISH_E_FORMAT,
                 "its name does not end in -00001-of-00003.gguf");
}

static void test_a_folder_with_several_ggufs_asks_which(void **state) {
    (void)state;
    put_gguf("m/b.gguf", NULL);
    put_gguf("m/a.gguf", NULL);
    expect_error(in_root("m"), RADISH_E_INVALID,
                 "holds 2 GGUF models; give the path of one of them, such as a.gguf");
}

static void test_paths_that_are_not_there_are_named(void **state) {
    (void)state;
    setenv("RADISH_CACHE", root, 1);
    expect_error("/nonexistent/model", RADISH_E_NOT_FOUND,
                 "/nonexistent/model: no such file or folder");
    expect_error("../x", RADISH_E_NOT_FOUND, "no such file");
    expect_error("", RADISH_E_INVALID, "empty");
    expect_error("no-such-model-anywhere", RADISH_E_NOT_FOUND, root);
    put_text("notes.txt", "hello, this is text");
    expect_error(in_root("notes.txt"), RADISH_E_FORMAT, "not a GGUF file");
}

static void test_names_are_found_in_the_cache(void **state) {
    (void)state;
    struct model_file *file;
    setenv("RADISH_CACHE", root, 1);
    put_gguf("Small-Q4.gguf", NULL);
    put_gguf("org/tiny/weights.gguf", NULL);
    put_safetensors("org/folder/model.safetensors", "a");

    file = open_ok("Small-Q4");
    assert_string_equal(model_file_path(file), in_root("Small-Q4.gguf"));
    model_file_close(file);
    file = open_ok("Small-Q4.gguf");
    model_file_close(file);
    file = open_ok("org/tiny");
    assert_string_equal(model_file_path(file), in_root("org/tiny/weights.gguf"));
    model_file_close(file);
    file = open_ok("org/folder");
    assert_int_equal(model_file_format(file), MODEL_FORMAT_SAFETENSORS);
    model_file_close(file);
    expect_error("org/none", RADISH_E_NOT_FOUND, "no such model in the cache");
}

static void test_only_names_are_looked_up_in_the_cache(void **state) {
    (void)state;
    static const char *const good[] = {"a", "a.b", "Org/Name-1", "..a", "...", "a b"};
    static const char *const bad[] = {"",  "/",  "/a",   "a/",   "a//b", "a/b/c",
                                      ".", "..", "../a", "a/..", "./a",  "a/."};
    for (size_t i = 0; i < sizeof good / sizeof *good; i++)
        assert_true(model_cache_is_name(good[i]));
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) assert_false(model_cache_is_name(bad[i]));
}

static void test_the_cache_lies_where_the_environment_says(void **state) {
    (void)state;
    char *path, *home = getenv("HOME") ? strdup(getenv("HOME")) : NULL;
    char *xdg = getenv("XDG_CACHE_HOME") ? strdup(getenv("XDG_CACHE_HOME")) : NULL;
    struct radish_error err;

    setenv("HOME", "/h", 1);
    setenv("XDG_CACHE_HOME", "/x", 1);
    setenv("RADISH_CACHE", "/r", 1);
    assert_int_equal(model_cache_folder(&path, &err), RADISH_OK);
    assert_string_equal(path, "/r");
    free(path);
    unsetenv("RADISH_CACHE");
    assert_int_equal(model_cache_folder(&path, &err), RADISH_OK);
    assert_string_equal(path, "/x/radish/models");
    free(path);
    setenv("XDG_CACHE_HOME", "relative", 1);
    assert_int_equal(model_cache_folder(&path, &err), RADISH_OK);
    assert_string_equal(path, "/h/.cache/radish/models");
    free(path);
    unsetenv("XDG_CACHE_HOME");
    unsetenv("HOME");
    assert_int_equal(model_cache_folder(&path, &err), RADISH_E_NOT_FOUND);
    assert_null(path);

    if (home) setenv("HOME", home, 1);
    if (xdg) setenv("XDG_CACHE_HOME", xdg, 1);
    free(home);
    free(xdg);
}

static void test_models_in_memory_open_like_files(void **state) {
    (void)state;
    struct gguf_spec spec;
    struct buf bytes;
    struct model_file *file;
    struct radish_error err;

    assert_int_equal(model_file_open_config("{\"a\": 1}", 8, &file, &err), RADISH_OK);
    assert_int_equal(yyjson_get_int(yyjson_obj_get(model_file_config(file), "a")), 1);
    assert_int_equal(model_file_n_tensors(file), 0);
    model_file_close(file);
    assert_int_equal(model_file_open_config("[1]", 3, &file, &err), RADISH_E_FORMAT);
    assert_string_equal(err.msg, "config.json: not a JSON object but array");
    assert_null(file);
    gguf_spec_init(&spec);
    gguf_spec_build(&spec, &bytes);
    assert_int_equal(
        model_file_open_gguf_memory((const uint8_t *)bytes.data, bytes.len, &file, &err),
        RADISH_OK);
    assert_int_equal(model_file_n_tensors(file), 3);
    model_file_release(file, model_file_find(file, "b.weight"));
    model_file_close(file);
    assert_int_equal(model_file_open_gguf_memory((const uint8_t *)bytes.data, 50, &file, &err),
                     RADISH_E_FORMAT);
    assert_null(file);
    buf_deinit(&bytes);
}

static bool attempt_to_open(void *user) {
    struct model_file *file;
    struct radish_error err = {0};
    const enum radish_status status = model_file_open(user, false, &file, &err);
    assert_true((status == RADISH_OK) == (file != NULL));
    assert_int_equal(err.status, status);
    model_file_close(file);
    return status == RADISH_OK;
}

static void test_each_failed_allocation_is_reported_without_a_leak(void **state) {
    (void)state;
    char path[200];
    if (!alloc_fail_can()) skip();
    put_text("m/config.json", "{\"model_type\": \"llama\"}");
    put_text("m/chat_template.jinja", "{{ x }}");
    put_safetensors("m/one.safetensors", "a c");
    put_safetensors("m/two.safetensors", "b");
    put_text("m/model.safetensors.index.json",
             "{\"weight_map\": {\"a\": \"one.safetensors\", \"b\": \"two.safetensors\"}}");
    snprintf(path, sizeof path, "%s", in_root("m"));
    assert_true(alloc_fail_each(attempt_to_open, path) >= 10);
    put_split();
    snprintf(path, sizeof path, "%s", in_root("s-00001-of-00003.gguf"));
    assert_true(alloc_fail_each(attempt_to_open, path) >= 10);
    setenv("RADISH_CACHE", root, 1);
    put_gguf("org/tiny/weights.gguf", NULL);
    snprintf(path, sizeof path, "org/tiny");
    assert_true(alloc_fail_each(attempt_to_open, path) >= 10);
}

int main(void) {
#define TEST(name) cmocka_unit_test_setup_teardown(name, set_up, tear_down)
    const struct CMUnitTest tests[] = {
        TEST(test_a_folder_gives_its_tensors_and_documents),
        TEST(test_absent_documents_are_null),
        TEST(test_a_broken_document_is_named),
        TEST(test_weights_are_needed_unless_text_is_enough),
        TEST(test_shards_come_together),
        TEST(test_a_wrong_index_is_refused_with_its_fault),
        TEST(test_the_single_file_wins_over_an_index),
        TEST(test_a_safetensors_file_alone_is_refused_with_advice),
        TEST(test_gguf_shapes_are_turned_to_row_major),
        TEST(test_a_split_gguf_is_one_model),
        TEST(test_wrong_split_files_are_refused_with_their_fault),
        TEST(test_a_folder_with_several_ggufs_asks_which),
        TEST(test_paths_that_are_not_there_are_named),
        TEST(test_names_are_found_in_the_cache),
        TEST(test_only_names_are_looked_up_in_the_cache),
        TEST(test_the_cache_lies_where_the_environment_says),
        TEST(test_models_in_memory_open_like_files),
        TEST(test_each_failed_allocation_is_reported_without_a_leak),
    };
    return cmocka_run_group_tests_name("model_file", tests, NULL, NULL);
}
