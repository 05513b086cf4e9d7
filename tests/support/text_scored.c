/* text_scored.c - see text_scored.h. */
#include "text_scored.h"

void scored_init(struct scored *v, enum spec_model_kind kind) {
    *v = (struct scored){.spec.model = kind};
    v->spec.tokens = v->tokens;
}

struct spec_token *scored_add(struct scored *v, const char *text, double score) {
    uint32_t i = v->spec.n_tokens++;
    assert_true(i < SCORED_TOKENS_MAX);
    snprintf(v->text[i], sizeof v->text[i], "%s", text);
    v->tokens[i] =
        (struct spec_token){.content = spec_str(v->text[i]), .id = (int32_t)i, .score = score};
    return &v->tokens[i];
}

struct token_model *scored_make_model(const struct scored *v) {
    struct radish_error err = {0};
    struct token_model *m;
    if (token_model_of_kind(v->spec.model)->create(&v->spec, false, &m, &err) != RADISH_OK)
        fail_msg("%s", err.msg);
    return m;
}

void scored_destroy_model(const struct scored *v, struct token_model *m) {
    token_model_of_kind(v->spec.model)->destroy(m);
}

uint64_t scored_encode(const struct scored *v, const struct token_model *m, const char *text,
                       size_t len, struct id_list *out) {
    struct token_scratch scratch = {0};
    out->n = 0;
    assert_true(token_model_of_kind(v->spec.model)->encode(m, text, len, &scratch, out));
    free(scratch.memory);
    return scratch.n_operations;
}

void scored_expect_ids(const struct scored *v, const char *text, const int32_t *want, size_t n) {
    struct token_model *m = scored_make_model(v);
    struct id_list ids = {0};
    scored_encode(v, m, text, strlen(text), &ids);
    assert_int_equal(ids.n, n);
    if (n) assert_memory_equal(ids.ids, want, n * sizeof *want);
    free(ids.ids);
    scored_destroy_model(v, m);
}
