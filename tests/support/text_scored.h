/* text_scored.h - small vocabularies with scores, and the token models made of them. */
#ifndef TEXT_SCORED_H
#define TEXT_SCORED_H

#include "test.h"
#include "text_spec.h"

#include "text/token_model.h"

enum { SCORED_TOKENS_MAX = 300 };

struct scored {
    struct tokenizer_spec spec;
    struct spec_token tokens[SCORED_TOKENS_MAX];
    char text[SCORED_TOKENS_MAX][32];
};

/* Empty; the first token to be added has id 0. */
void scored_init(struct scored *v, enum spec_model_kind kind);
struct spec_token *scored_add(struct scored *v, const char *text, double score);

/* The model of the spec's kind; destroy it with scored_destroy_model(). */
struct token_model *scored_make_model(const struct scored *v);
void scored_destroy_model(const struct scored *v, struct token_model *m);

/* ids into out, from its start; returns the operations it took. */
uint64_t scored_encode(const struct scored *v, const struct token_model *m, const char *text,
                       size_t len, struct id_list *out);

void scored_expect_ids(const struct scored *v, const char *text, const int32_t *want, size_t n);
#define SCORED_EXPECT(v, text, ...)                                                                \
    do {                                                                                           \
        const int32_t ids_[] = {__VA_ARGS__};                                                      \
        scored_expect_ids(v, text, ids_, sizeof ids_ / sizeof *ids_);                              \
    } while (0)

#endif
