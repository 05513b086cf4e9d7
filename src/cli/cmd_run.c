/* cmd_run.c - radish run: one text, continued once.
 *
 * The text gets what the tokenizer's post-processor adds (a begin token, for one), as text sent to
 * /v1/completions does, and no chat template. The continuation streams to stdout as it comes; with
 * --json it is gathered and printed as one object at the end. Ctrl-C ends the run the usual way. */
#include "command.h"
#include "generate.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <yyjson.h>

static int print_json(const struct buf *text, const struct generate_result *result) {
    yyjson_mut_doc *doc = yyjson_mut_doc_new(NULL);
    size_t len = 0;
    char *json = NULL;
    if (doc) {
        yyjson_mut_val *root = yyjson_mut_obj(doc);
        yyjson_mut_val *ids = yyjson_mut_arr_with_sint32(doc, result->ids, result->n_ids);
        if (!result->n_ids) ids = yyjson_mut_arr(doc);
        yyjson_mut_val *usage = yyjson_mut_obj(doc);
        yyjson_mut_doc_set_root(doc, root);
        yyjson_mut_obj_add_strn(doc, root, "text", text->data ? text->data : "", text->len);
        yyjson_mut_obj_add_val(doc, root, "ids", ids);
        yyjson_mut_obj_add_str(doc, root, "finish_reason", generate_finish_name(result->finish));
        yyjson_mut_obj_add_uint(doc, usage, "prompt_tokens", result->usage.prompt_tokens);
        yyjson_mut_obj_add_uint(doc, usage, "cached_tokens", result->usage.cached_tokens);
        yyjson_mut_obj_add_uint(doc, usage, "completion_tokens", result->n_ids);
        yyjson_mut_obj_add_val(doc, root, "usage", usage);
        yyjson_mut_obj_add_real(doc, root, "first_token_seconds", result->first_seconds);
        yyjson_mut_obj_add_real(doc, root, "seconds", result->total_seconds);
        yyjson_mut_obj_add_real(doc, root, "tokens_per_second", generate_tokens_per_second(result));
        json = yyjson_mut_write(doc, 0, &len);
    }
    yyjson_mut_doc_free(doc);
    if (!json) return command_fail("out of memory");
    json[len] = '\n';
    int rc = command_write(json, len + 1);
    free(json);
    return rc;
}

static int run(const struct args *args, struct radish_engine *engine,
               const struct radish_request *request) {
    struct radish_error err = {0};
    struct generate *g = NULL;
    struct generate_result result;
    struct buf text;
    int rc = -1;
    if (generate_start(engine, *request, NULL, NULL, &g, &err) != RADISH_OK)
        return command_fail_error("", &err);
    buf_init(&text, 0);
    while (rc < 0 && generate_wait(g, 1000, &text)) {
        if (args->json || !text.len) continue;
        rc = command_write(text.data, text.len);
        buf_clear(&text);
    }
    if (rc < 0) {
        generate_result(g, &result);
        if (result.finish == RADISH_FINISH_ERROR || result.finish == RADISH_FINISH_ABORT)
            rc = command_fail("%s", generate_failure(&result));
        else
            rc = args->json ? print_json(&text, &result) : command_write("\n", 1);
    }
    buf_deinit(&text);
    generate_destroy(g);
    return rc;
}

int cmd_run(struct args *args) {
    struct radish_model *model = NULL;
    struct radish_engine *engine = NULL;
    struct radish_error err = {0};
    struct radish_request request = {0};
    int32_t *ids = NULL;
    size_t n = 0;
    if (!args->prompt)
        return args_refuse(command_by_bit(COMMAND_RUN), "-p TEXT is missing: the text to continue");
    int rc = command_open_model(args, &model);
    if (rc < 0 && radish_tokenize(model, args->prompt, strlen(args->prompt),
                                  RADISH_TOKENIZE_SPECIAL, &ids, &n, &err) != RADISH_OK)
        rc = command_fail_error("-p", &err);
    if (rc < 0 && !n) rc = command_fail("the prompt is empty: this model adds no begin token");
    command_show_misses(args);
    if (rc < 0) rc = command_open_engine(args, model, &engine);
    if (rc < 0) {
        radish_model_sampling(model, &request.sampling);
        if (args->temperature >= 0) request.sampling.temperature = (float)args->temperature;
        request.sampling.seed = args->seed;
        request.sampling.has_seed = args->has_seed;
        request.prompt = ids;
        request.n_prompt = n;
        request.has_max_new_tokens = true;
        request.max_new_tokens = args->n_new_tokens;
        rc = run(args, engine, &request);
    }
    radish_free(ids);
    radish_engine_close(engine);
    radish_model_close(model);
    return rc < 0 ? EXIT_DONE : rc;
}
