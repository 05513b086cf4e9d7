/* embed.c - a language model inside a C program: embed MODEL "QUESTION".
 *
 * cc embed.c -lradish -o embed */
#include <radish.h>

#include <semaphore.h>
#include <stdio.h>
#include <string.h>

/* Runs on the engine's thread, once per token; must not block for long. */
static void on_event(void *user, const struct radish_event *event) {
    fwrite(event->text, 1, event->text_len, stdout);
    if (event->finish != RADISH_FINISH_NONE) sem_post(user);
}

int main(int argc, char **argv) {
    struct radish_error err = {0};
    struct radish_model *model = NULL;
    struct radish_engine *engine = NULL;
    const char *question = argc > 2 ? argv[2] : "What is the capital of France?";
    char json[2048], *text = NULL;
    int32_t *ids = NULL;
    size_t len, n_ids;
    uint64_t id;
    sem_t ended;
    if (argc < 2 || strpbrk(question, "\"\\")) return 2; /* this example writes its JSON by hand */
    snprintf(json, sizeof json,
             "{\"messages\": [{\"role\": \"user\", \"content\": \"%s\"}], "
             "\"add_generation_prompt\": true}",
             question);
    sem_init(&ended, 0, 0);
    if (!radish_model_open(argv[1], NULL, &model, &err) &&
        !radish_engine_open(model, NULL, &engine, &err) &&
        !radish_render(model, json, strlen(json), true, NULL, &text, &len, &err) &&
        !radish_tokenize(model, text, len, 0, &ids, &n_ids, &err)) {
        struct radish_request request = {.prompt = ids, .n_prompt = n_ids, .on_event = on_event};
        request.has_max_new_tokens = true;
        request.max_new_tokens = 64;
        request.user = &ended;
        radish_model_sampling(model, &request.sampling);
        if (!radish_engine_submit(engine, &request, &id, &err)) sem_wait(&ended);
    }
    if (err.status) fprintf(stderr, "%s\n", err.msg);
    putchar('\n');
    radish_free(ids);
    radish_free(text);
    radish_engine_close(engine);
    radish_model_close(model);
    return err.status != RADISH_OK;
}
