/* model_tokenizers.c - opens tokenizers as the engine does, minus the model around them. The large
 * files are kept as .xz; the xz program reads them, since the product needs no such library. */
#include "model_tokenizers.h"

#include "base/arena.h"
#include "base/buf.h"
#include "base/file_map.h"
#include "base/json.h"
#include "format/gguf.h"
#include "model/tokenizer_gguf.h"
#include "model/tokenizer_json.h"
#include "text/unicode.h"

#include "test.h"

const char *conformance_folder(void) {
    const char *folder = getenv("RADISH_CONFORMANCE");
    if (!folder) folder = TEST_SOURCE "/../shared/conformance";
    if (file_is_folder(folder)) return folder;
    printf("skipped: no conformance data in %s\n", folder);
    return NULL;
}

const char *path_in(const char *folder, const char *name) {
    static char path[1024];
    snprintf(path, sizeof path, "%s/%s", folder, name);
    return path;
}

static char *read_stream(FILE *f, size_t *len_out) {
    struct buf b = {0};
    char chunk[65536];
    size_t n;
    while ((n = fread(chunk, 1, sizeof chunk, f)) > 0) buf_append(&b, chunk, n);
    assert_false(b.failed);
    return buf_take(&b, len_out);
}

char *read_data_file(const char *folder, const char *name, size_t *len_out) {
    char path[1024], command[1200];
    struct radish_error err;
    char *data = NULL;
    *len_out = 0;
    snprintf(path, sizeof path, "%s/%s", folder, name);
    if (file_exists(path)) {
        assert_int_equal(file_read(path, (size_t)1 << 30, &data, len_out, &err), RADISH_OK);
        return data;
    }
    snprintf(path, sizeof path, "%s/%s.xz", folder, name);
    if (!file_exists(path)) return NULL;
    snprintf(command, sizeof command, "xz -dc '%s'", path);
    FILE *f = popen(command, "r");
    assert_non_null(f);
    data = read_stream(f, len_out);
    assert_int_equal(pclose(f), 0);
    return data;
}

yyjson_doc *read_json_file(const char *folder, const char *name) {
    struct radish_error err = {0};
    yyjson_doc *doc = NULL;
    size_t len;
    char *data = read_data_file(folder, name, &len);
    if (!data) return NULL;
    enum radish_status status = json_parse(data, len, JSON_DEPTH_MAX, &doc, &err);
    free(data);
    if (status != RADISH_OK) fail_msg("%s/%s: %s", folder, name, err.msg);
    return doc;
}

struct tokenizer *open_json_tokenizer(const char *folder) {
    struct radish_error err = {0};
    struct tokenizer *tokenizer = NULL;
    struct tokenizer_spec spec;
    struct arena arena;
    yyjson_doc *doc = read_json_file(folder, "tokenizer.json");
    if (!doc) return NULL;
    yyjson_doc *config = read_json_file(folder, "tokenizer_config.json");
    arena_init(&arena, 0);
    enum radish_status status = tokenizer_json_spec(
        yyjson_doc_get_root(doc), yyjson_doc_get_root(config), &arena, &spec, &err);
    if (status == RADISH_OK) status = tokenizer_create(&spec, &tokenizer, &err);
    arena_deinit(&arena);
    yyjson_doc_free(doc);
    yyjson_doc_free(config);
    if (status != RADISH_OK) fail_msg("%s: %s", folder, err.msg);
    return tokenizer;
}

/* Closes gguf. */
static struct tokenizer *make_gguf_tokenizer(struct gguf *gguf, const char *path) {
    struct radish_error err = {0};
    struct tokenizer *tokenizer = NULL;
    struct tokenizer_spec spec;
    struct arena arena;
    arena_init(&arena, 0);
    enum radish_status status = tokenizer_gguf_spec(gguf, &arena, &spec, &err);
    if (status == RADISH_OK) status = tokenizer_create(&spec, &tokenizer, &err);
    arena_deinit(&arena);
    gguf_close(gguf);
    if (status != RADISH_OK) fail_msg("%s: %s", path, err.msg);
    return tokenizer;
}

struct tokenizer *open_gguf_tokenizer(const char *folder) {
    struct radish_error err = {0};
    struct gguf *gguf;
    size_t len;
    char *data = read_data_file(folder, "vocab.gguf", &len);
    if (!data) return NULL;
    if (gguf_open_memory((const uint8_t *)data, len, &gguf, &err) != RADISH_OK)
        fail_msg("%s: %s", folder, err.msg);
    struct tokenizer *tokenizer = make_gguf_tokenizer(gguf, folder);
    free(data);
    return tokenizer;
}

struct tokenizer *open_smollm2_tokenizer(void) {
    const char *path = getenv("RADISH_SMOLLM2");
    struct radish_error err = {0};
    struct gguf *gguf;
    if (!path) return NULL;
    if (gguf_open(path, &gguf, &err) != RADISH_OK) fail_msg("%s: %s", path, err.msg);
    return make_gguf_tokenizer(gguf, path);
}

/* ---- golden rows */

static void print_ids(const char *label, const int32_t *ids, size_t n) {
    printf("  %s", label);
    for (size_t i = 0; i < n && i < 40; i++) printf(" %d", ids[i]);
    printf("\n");
}

static int32_t *ids_of(yyjson_val *list, size_t *n_out) {
    *n_out = yyjson_arr_size(list);
    int32_t *ids = malloc((*n_out + 1) * sizeof *ids);
    size_t idx, max;
    yyjson_val *val;
    assert_non_null(ids);
    yyjson_arr_foreach(list, idx, max, val) ids[idx] = (int32_t)yyjson_get_int(val);
    return ids;
}

static bool encodes_to(const struct tokenizer *t, yyjson_val *text, yyjson_val *wanted,
                       bool add_special) {
    struct radish_error err = {0};
    int32_t *ids;
    size_t n, n_wanted;
    if (tokenizer_encode(t, yyjson_get_str(text), yyjson_get_len(text), add_special, &ids, &n,
                         &err) != RADISH_OK)
        fail_msg("encode: %s", err.msg);
    int32_t *wanted_ids = ids_of(wanted, &n_wanted);
    bool same = n == n_wanted && memcmp(ids, wanted_ids, n * sizeof *ids) == 0;
    if (!same) {
        printf("  text \"%.100s\"\n", yyjson_get_str(text));
        print_ids("want", wanted_ids, n_wanted);
        print_ids("got ", ids, n);
    }
    free(ids);
    free(wanted_ids);
    return same;
}

static bool decodes_to(const struct tokenizer *t, yyjson_val *list, yyjson_val *wanted,
                       bool skip_special) {
    struct radish_error err = {0};
    struct buf out = {0};
    size_t n;
    int32_t *ids = ids_of(list, &n);
    if (tokenizer_decode(t, ids, n, skip_special, &out, &err) != RADISH_OK)
        fail_msg("decode: %s", err.msg);
    bool same = out.len == yyjson_get_len(wanted) &&
                (!out.len || memcmp(out.data, yyjson_get_str(wanted), out.len) == 0);
    if (!same)
        printf("  want \"%.100s\"\n  got  \"%.100s\"\n", yyjson_get_str(wanted),
               out.data ? out.data : "");
    buf_deinit(&out);
    free(ids);
    return same;
}

static bool is_nfc(yyjson_val *text) {
    struct buf normal = {0};
    assert_true(
        unicode_normalize(UNICODE_NFC, yyjson_get_str(text), yyjson_get_len(text), &normal));
    bool same = normal.len == yyjson_get_len(text) &&
                (!normal.len || memcmp(normal.data, yyjson_get_str(text), normal.len) == 0);
    buf_deinit(&normal);
    return same;
}

unsigned check_golden(const struct tokenizer *t, yyjson_val *golden, const char *name,
                      bool nfc_only, struct golden_rows *rows_out) {
    unsigned n_bad = 0;
    size_t idx, max;
    yyjson_val *row;
    *rows_out = (struct golden_rows){0};
    yyjson_arr_foreach(json_get(golden, "encode"), idx, max, row) {
        yyjson_val *text = json_get(row, "text"), *ids = json_get(row, "ids");
        yyjson_val *special = json_get(row, "ids_special");
        if (nfc_only && !is_nfc(text)) continue;
        rows_out->n_encode++;
        bool same = encodes_to(t, text, ids, /*add_special=*/false);
        same &= encodes_to(t, text, special, /*add_special=*/true);
        same &= decodes_to(t, ids, json_get(row, "decode"), /*skip_special=*/false);
        same &= decodes_to(t, ids, json_get(row, "decode_skip"), /*skip_special=*/true);
        if (!same) printf("%s: encode row %zu differs\n", name, idx);
        n_bad += !same;
    }
    yyjson_arr_foreach(json_get(golden, "chat"), idx, max, row) {
        yyjson_val *text = json_get(row, "text"), *ids = json_get(row, "ids");
        if (!yyjson_is_str(text) || (nfc_only && !is_nfc(text))) continue;
        rows_out->n_chat++;
        bool same = encodes_to(t, text, ids, /*add_special=*/false);
        if (!same) printf("%s: chat row %zu differs\n", name, idx);
        n_bad += !same;
    }
    return n_bad;
}
