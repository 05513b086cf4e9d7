/* model_golden.h - golden logits of a tiny model, and where the models lie. For tests. */
#ifndef MODEL_GOLDEN_H
#define MODEL_GOLDEN_H

#include "radish.h"

#define GOLDEN_PROMPTS 4
#define GOLDEN_GREEDY  12

struct golden_prompt {
    int32_t *tokens; /* [n_tokens] */
    uint32_t n_tokens;
    float *logits; /* [n_tokens, n_vocab]; NULL where the file has none */
    double std;    /* of the logits; 0 where there are none */
    bool has_greedy;
    int32_t greedy[GOLDEN_GREEDY];
    float gap[GOLDEN_GREEDY];
};

struct golden {
    uint32_t n_vocab;
    struct golden_prompt prompts[GOLDEN_PROMPTS];
};

/* Fails the running cmocka test when the file is not as expected. */
void golden_open(const char *path, struct golden *golden_out);
void golden_close(struct golden *golden);

/* Folder of the conformance data: $RADISH_CONFORMANCE, else beside the repository. */
const char *golden_conformance(void);

#endif
