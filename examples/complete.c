/* complete.c - radish inside another program: continue a text with a model. Everything it needs is
 * radish.h and libradish: cc complete.c -lradish. Usage: complete MODEL TEXT */
#include "radish.h"

#include <semaphore.h>
#include <stdio.h>
#include <string.h>

static sem_t ended;

/* Runs on the engine's thread, once for every piece of text and once at the end. */
static void print_event(void *user, const struct radish_event *event) {
    (void)user;
    fwrite(event->text, 1, event->text_len, stdout);
    if (event->finish != RADISH_FINISH_NONE) sem_post(&ended);
}

int main(int argc, char **argv) {
    struct radish_model *model = NULL;
    struct radish_engine *engine = NULL;
    struct radish_engine_options options = {0};
    struct radish_request request = {.has_max_new_tokens = true, .max_new_tokens = 32};
    struct radish_error err = {0};
    int32_t *prompt = NULL;
    uint64_t id;
    if (argc != 3 || sem_init(&ended, 0, 0)) return 2;

    bool ok = radish_model_open(argv[1], NULL, &model, &err) == RADISH_OK &&
              radish_engine_open(model, &options, &engine, &err) == RADISH_OK &&
              radish_tokenize(model, argv[2], strlen(argv[2]), RADISH_TOKENIZE_SPECIAL, &prompt,
                              &request.n_prompt, &err) == RADISH_OK;
    radish_sampling_init(&request.sampling);
    request.sampling.temperature = 0;
    request.prompt = prompt;
    request.on_event = print_event;
    ok = ok && radish_engine_submit(engine, &request, &id, &err) == RADISH_OK;
    if (ok) sem_wait(&ended);
    if (!ok) fprintf(stderr, "%s\n", err.msg);

    radish_free(prompt);
    radish_engine_close(engine);
    radish_model_close(model);
    return ok ? 0 : 1;
}
