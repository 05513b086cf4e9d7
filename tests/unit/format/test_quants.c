/* test_quants.c - every readable block type, bit for bit as ggml's reference code dequantises it.
 *
 * tests/data/quants/quants.gguf.xz holds tensors q.TYPE (4 rows of 512) of 25 GGUF types, and
 * quants.f32.gguf.xz the same tensors as float32, made with ggml. */
#include "test.h"

#include "format/gguf.h"

#include <strings.h>

enum { READABLE_COUNT = 12 }; /* of the 13 all but F32, which is what the answers are in */

/* Unpacks a file into memory; caller frees. */
static uint8_t *unpack(const char *name, size_t *n_out) {
    char command[1000];
    size_t n = 0, capacity = 1 << 20;
    uint8_t *data = malloc(capacity);
    assert_non_null(data);
    snprintf(command, sizeof command, "xz -dc '%s/quants/%s'", TEST_DATA, name);
    FILE *f = popen(command, "r");
    assert_non_null(f);
    for (size_t got; n < capacity && (got = fread(data + n, 1, capacity - n, f)) > 0;) n += got;
    const int status = pclose(f);
    if (status != 0) {
        printf("xz is not there, or the file is broken\n");
        exit(TEST_SKIPPED);
    }
    *n_out = n;
    return data;
}

static const struct gguf_tensor *find(const struct gguf *gguf, const char *name) {
    for (size_t i = 0; i < gguf_n_tensors(gguf); i++)
        if (strcmp(gguf_tensor(gguf, i)->name.data, name) == 0) return gguf_tensor(gguf, i);
    fail_msg("%s is not there", name);
    return NULL;
}

static void test_every_readable_type_equals_the_reference_bit_for_bit(void **state) {
    (void)state;
    struct radish_error err = {0};
    struct gguf *quants, *answers;
    size_t n_quants, n_answers;
    int n_read = 0, n_listed = 0;
    uint8_t *quants_data = unpack("quants.gguf.xz", &n_quants);
    uint8_t *answers_data = unpack("quants.f32.gguf.xz", &n_answers);
    if (gguf_open_memory(quants_data, n_quants, &quants, &err) != RADISH_OK)
        fail_msg("%s", err.msg);
    if (gguf_open_memory(answers_data, n_answers, &answers, &err) != RADISH_OK)
        fail_msg("%s", err.msg);

    for (size_t i = 0; i < gguf_n_tensors(quants); i++) {
        const struct gguf_tensor *t = gguf_tensor(quants, i);
        const struct gguf_tensor *answer = find(answers, t->name.data);
        const size_t n = (size_t)(t->dims[0] * t->dims[1]);
        assert_int_equal(strcasecmp(t->name.data + 2, dtype_name(t->dtype)), 0);
        assert_int_equal(answer->dtype, RADISH_DTYPE_F32);
        assert_int_equal(answer->n_bytes, n * 4);
        n_listed++;
        if (!dtype_can_read(t->dtype)) continue;
        n_read++;
        float *got = malloc(n * sizeof *got);
        float *due = malloc(n * sizeof *due);
        assert_true(got && due);
        memset(got, 0xFF, n * sizeof *got);
        dtype_to_f32(t->dtype, t->data, got, n);
        dtype_to_f32(RADISH_DTYPE_F32, answer->data, due, n);
        for (size_t j = 0; j < n; j++)
            if (memcmp(got + j, due + j, sizeof *got) != 0)
                fail_msg("%s element %zu: %a, not %a", t->name.data, j, (double)got[j],
                         (double)due[j]);
        free(got);
        free(due);
        report_covered("quants/quants.gguf", t->name.data, 1);
    }

    assert_int_equal(n_listed, 25);
    assert_int_equal(n_read, READABLE_COUNT);
    gguf_close(quants);
    gguf_close(answers);
    free(quants_data);
    free(answers_data);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_every_readable_type_equals_the_reference_bit_for_bit),
    };
    return cmocka_run_group_tests_name("quants", tests, NULL, NULL);
}
