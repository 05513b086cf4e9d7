/* test_hub_files.c - the parts of radish pull that need no network: listings, paths, the choice of
 * files, digests, rates, quoting. */
#include "test.h"

#include "alloc_fail.h"
#include "base/buf.h"
#include "hub_digest.h"
#include "hub_http.h"
#include "hub_listing.h"
#include "hub_pull.h"
#include "hub_rate.h"
#include "hub_select.h"

#include <math.h>

#define SHA    "0123456789abcdef0123456789abcdef01234567"
#define SHA256 "ABCDEF6789abcdef0123456789abcdef0123456789abcdef0123456789abcdef"

static void test_the_info_gives_commit_sizes_and_digests(void **state) {
    (void)state;
    static const char json[] =
        "{\"sha\": \"" SHA "\", \"siblings\": ["
        "{\"rfilename\": \"config.json\", \"size\": 5, \"blobId\": \"" SHA "\"},"
        "{\"rfilename\": \"a/b.gguf\", \"size\": 1, \"blobId\": \"" SHA "\","
        " \"lfs\": {\"sha256\": \"" SHA256 "\", \"size\": 7000000000}},"
        "{\"rfilename\": \"bare\"}, {\"rfilename\": \"odd\", \"size\": -1, \"blobId\": \"" SHA
        "\"}]}";
    struct hub_listing listing = {0};
    struct radish_error err;

    assert_int_equal(hub_listing_read_info(json, sizeof json - 1, &listing, &err), RADISH_OK);

    assert_string_equal(listing.commit, SHA);
    assert_int_equal(listing.n, 4);
    assert_int_equal(listing.files[0].bytes, 5);
    assert_int_equal(listing.files[0].hash, HUB_HASH_GIT);
    assert_int_equal(listing.files[1].bytes, 7000000000);
    assert_int_equal(listing.files[1].hash, HUB_HASH_SHA256);
    assert_int_equal(strncmp(listing.files[1].digest, "abcdef67", 8), 0);
    assert_int_equal(listing.files[2].hash, HUB_HASH_NONE);
    assert_int_equal(listing.files[3].hash, HUB_HASH_NONE);
    assert_false(hub_listing_is_complete(&listing));
    assert_ptr_equal(hub_listing_find(&listing, "a/b.gguf"), &listing.files[1]);
    assert_null(hub_listing_find(&listing, "b.gguf"));
    hub_listing_clear_files(&listing);
    assert_true(hub_listing_is_complete(&listing));
    hub_listing_deinit(&listing);
}

static void test_pages_of_the_tree_add_up(void **state) {
    (void)state;
    static const char *const pages[] = {
        "[{\"type\": \"directory\", \"path\": \"../x\"},"
        " {\"type\": \"file\", \"path\": \"a\", \"size\": 1, \"oid\": \"" SHA "\"}]",
        "[{\"type\": \"file\", \"path\": \"b\", \"size\": 1, \"oid\": \"" SHA "\","
        " \"lfs\": {\"oid\": \"" SHA256 "\", \"size\": 9}}]"};
    struct hub_listing listing = {0};
    struct radish_error err;
    for (size_t i = 0; i < 2; i++)
        assert_int_equal(hub_listing_read_tree(pages[i], strlen(pages[i]), &listing, &err),
                         RADISH_OK);
    assert_int_equal(listing.n, 2);
    assert_true(hub_listing_is_complete(&listing));
    assert_int_equal(listing.files[1].hash, HUB_HASH_SHA256);
    assert_int_equal(listing.files[1].bytes, 9);
    assert_int_equal(hub_listing_read_tree("{}", 2, &listing, &err), RADISH_E_FORMAT);
    hub_listing_deinit(&listing);
}

static void test_only_paths_below_the_folder_are_safe(void **state) {
    (void)state;
    static const char *const good[] = {"a", "a/b", "a b", ".gitattributes", "..a", "a..", "é"};
    static const char *const bad[] = {
        "",     "/",    "/a",    "a/",           "a//b",      ".",
        "..",   "../a", "a/..",  "a/./b",        "a\\b",      "a\nb",
        "\x7f", "\xff", "a\x01", ".radish.json", "a/.radish", "\xed\xa0\x80"};
    char text[HUB_PATH_MAX + 10];
    for (size_t i = 0; i < sizeof good / sizeof *good; i++)
        if (!hub_path_is_safe(good[i])) fail_msg("'%s' is safe", good[i]);
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++)
        if (hub_path_is_safe(bad[i])) fail_msg("'%s' is not safe", bad[i]);
    memset(text, 'a', sizeof text - 1);
    text[sizeof text - 1] = '\0';
    assert_false(hub_path_is_safe(text));
    text[200] = '\0';
    assert_true(hub_path_is_safe(text));
    for (size_t i = 1; i < sizeof text - 1; i += 2) text[i] = '/';
    text[200] = 'a';
    text[HUB_PATH_MAX + 1] = '\0';
    assert_false(hub_path_is_safe(text));
}

/* ---- the choice ---- */

static struct hub_listing listing_of(const char *names) {
    struct hub_listing listing = {0};
    char words[500], *save = NULL;
    listing.files = calloc(32, sizeof *listing.files);
    snprintf(words, sizeof words, "%s", names);
    for (char *word = strtok_r(words, " ", &save); word; word = strtok_r(NULL, " ", &save)) {
        listing.files[listing.n].bytes = 1000000000;
        listing.files[listing.n++].path = strdup(word);
    }
    return listing;
}

/* What is chosen of the files, joined by spaces, or the error. */
static const char *chosen(const char *names, const char *quant, const char *include,
                          const char *exclude) {
    static char text[800];
    struct hub_listing listing = listing_of(names);
    struct radish_error err;
    bool wanted[32];
    char *choices = NULL;
    text[0] = '\0';
    if (hub_select(&listing, "org/name", quant, (struct hub_patterns){&include, include != NULL},
                   (struct hub_patterns){&exclude, exclude != NULL}, wanted, &choices, &err))
        snprintf(text, sizeof text, "%s|%s", err.msg, choices ? choices : "");
    else
        for (size_t i = 0; i < listing.n; i++)
            if (wanted[i])
                snprintf(text + strlen(text), sizeof text - strlen(text), "%s%s", *text ? " " : "",
                         listing.files[i].path);
    free(choices);
    hub_listing_deinit(&listing);
    return text;
}

static void test_what_radish_needs_is_chosen(void **state) {
    (void)state;
    static const struct {
        const char *names, *quant, *include, *exclude, *chosen;
    } rows[] = {
        {"README.md config.json model.safetensors pytorch_model.bin x/config.json", "", NULL, NULL,
         "config.json model.safetensors"},
        {"model.safetensors model.safetensors.index.json model-00001-of-00002.safetensors", "",
         NULL, NULL, "model.safetensors"},
        {"a-1.safetensors a-2.safetensors consolidated.safetensors", "", NULL, NULL,
         "a-1.safetensors a-2.safetensors"},
        {"config.json m.gguf mmproj.gguf", "", NULL, NULL, "m.gguf"},
        {"a/m-Q8_0-00001-of-00002.gguf a/m-Q8_0-00002-of-00002.gguf a/m-Q8_0-00001-of-00003.gguf.x",
         "", NULL, NULL, "a/m-Q8_0-00001-of-00002.gguf a/m-Q8_0-00002-of-00002.gguf"},
        {"m-Q4_0.gguf m-UD-Q4_0.gguf", "q4_0", NULL, NULL, "m-Q4_0.gguf"},
        {"m-IQ4_0.gguf m-UD-Q4_0.gguf", "q4_0", NULL, NULL, "m-UD-Q4_0.gguf"},
        {"model.safetensors m-Q4_0.gguf", "Q4_0", NULL, NULL, "m-Q4_0.gguf"},
        {"a/b.bin c.bin d.txt", "", "*.bin", NULL, "a/b.bin c.bin"},
        {"a/b.bin c.bin d.txt", "", "*", "a/*", "c.bin d.txt"},
        {"config.json model.safetensors", "", NULL, "*.json", "model.safetensors"},
    };
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++)
        assert_string_equal(chosen(rows[i].names, rows[i].quant, rows[i].include, rows[i].exclude),
                            rows[i].chosen);
}

static void test_a_choice_that_is_the_users_is_not_made(void **state) {
    (void)state;
    const char *text =
        chosen("m-Q4_0.gguf m-Q8_0-00001-of-00002.gguf m-Q8_0-00002-of-00002.gguf", "", NULL, NULL);
    assert_non_null(strstr(text, "org/name holds 2 GGUF models; say which, like org/name:Q4_0"));
    assert_non_null(strstr(text, "Q4_0                 1.00 GB  m-Q4_0.gguf\n"));
    assert_non_null(strstr(text, "Q8_0                 2.00 GB  m-Q8_0-00001-of-00002.gguf\n"));
    assert_non_null(strstr(chosen("m-Q4_0.gguf", "Q5_0", NULL, NULL), "no GGUF model of Q5_0"));
    assert_non_null(strstr(chosen("x.bin", "Q5_0", NULL, NULL), ":Q5_0 means nothing here"));
    assert_non_null(strstr(chosen("x.bin", "", NULL, NULL), "neither safetensors nor GGUF"));
    assert_non_null(strstr(chosen("x.bin", "", "*.y", NULL), "none of its 1 files"));
}

/* ---- the rest ---- */

static void test_digests_are_those_of_sha256sum_and_git(void **state) {
    (void)state;
    static const struct {
        enum hub_hash hash;
        const char *text, *hex;
    } rows[] = {
        {HUB_HASH_GIT, "hello\n", "ce013625030ba8dba906f756967f9e9ca394464a"},
        {HUB_HASH_GIT, "", "e69de29bb2d1d6434b8b29ae775ad8c2e48c5391"},
        {HUB_HASH_SHA256, "abc",
         "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad"},
    };
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        struct hub_digest digest;
        char hex[HUB_DIGEST_MAX];
        assert_true(hub_digest_init(&digest, rows[i].hash, strlen(rows[i].text)));
        for (const char *c = rows[i].text; *c; c++) assert_true(hub_digest_add(&digest, c, 1));
        assert_true(hub_digest_end(&digest, hex));
        assert_string_equal(hex, rows[i].hex);
        hub_digest_deinit(&digest);
    }
}

static void test_the_rate_is_that_of_the_last_seconds(void **state) {
    (void)state;
    struct hub_rate rate = {0};
    uint64_t ns = 1000000000, bytes = 0;
    assert_true(hub_rate_bytes_per_second(&rate, ns, 0) < 1);
    for (int i = 0; i < 1000; i++, ns += 10000000, bytes += 1000) hub_rate_add(&rate, ns, bytes);
    assert_true(fabs(hub_rate_bytes_per_second(&rate, ns, bytes) - 100000) < 1000);
    for (int i = 0; i < 1000; i++, ns += 10000000, bytes += 10) hub_rate_add(&rate, ns, bytes);
    assert_true(fabs(hub_rate_bytes_per_second(&rate, ns, bytes) - 1000) < 20);
}

static void test_urls_are_quoted_and_names_judged(void **state) {
    (void)state;
    struct buf url;
    buf_init(&url, 0);
    hub_url_append(&url, "a/b c%?#é", /*keep_slash=*/true);
    buf_append_char(&url, '|');
    hub_url_append(&url, "refs/pr/1", /*keep_slash=*/false);
    assert_string_equal(url.data, "a/b%20c%25%3F%23%C3%A9|refs%2Fpr%2F1");
    buf_deinit(&url);
    assert_true(hub_repo_is_valid("Qwen/Qwen3-0.6B"));
    assert_true(hub_repo_is_valid("gpt2"));
    static const char *const bad[] = {"",     "a/",    "/a",   "a/b/c", "-a/b", "a/.b",
                                      "a/b-", "a b/c", "a/b?", "a/é",   "a/..", "a/b."};
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++)
        if (hub_repo_is_valid(bad[i])) fail_msg("'%s' is no repository", bad[i]);
}

static bool attempt_to_read(void *user) {
    struct hub_listing listing = {0};
    struct radish_error err = {0};
    const char *json = user;
    const enum radish_status status = hub_listing_read_info(json, strlen(json), &listing, &err);
    assert_int_equal(err.status, status);
    hub_listing_deinit(&listing);
    return status == RADISH_OK;
}

static void test_each_failed_allocation_is_reported_without_a_leak(void **state) {
    (void)state;
    static char json[] = "{\"sha\": \"" SHA "\", \"siblings\": [{\"rfilename\": \"a\"}, "
                         "{\"rfilename\": \"b\"}]}";
    if (!alloc_fail_can()) skip();
    assert_true(alloc_fail_each(attempt_to_read, json) >= 3);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_the_info_gives_commit_sizes_and_digests),
        cmocka_unit_test(test_pages_of_the_tree_add_up),
        cmocka_unit_test(test_only_paths_below_the_folder_are_safe),
        cmocka_unit_test(test_what_radish_needs_is_chosen),
        cmocka_unit_test(test_a_choice_that_is_the_users_is_not_made),
        cmocka_unit_test(test_digests_are_those_of_sha256sum_and_git),
        cmocka_unit_test(test_the_rate_is_that_of_the_last_seconds),
        cmocka_unit_test(test_urls_are_quoted_and_names_judged),
        cmocka_unit_test(test_each_failed_allocation_is_reported_without_a_leak),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
