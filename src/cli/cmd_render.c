/* cmd_render.c - radish render: the text that a chat template makes of a conversation.
 *
 * Three sources of the template: the model's own, a file with a model (which then gives bos_token
 * and friends), or a file alone, where the object on stdin holds every variable. Content parts stay
 * as they are: what is shown is what the template does, not what the server does before it. With
 * --jsonl a failing line is answered by {"error"}, since templates refuse conversations by design;
 * otherwise it fails the command. */
#include "base/file_map.h"
#include "base/json.h"
#include "command.h"

#include <stdlib.h>
#include <unistd.h>

enum { TEMPLATE_BYTES_MAX = 4 << 20 };

struct render_job {
    const struct radish_model *model; /* or NULL: then source counts */
    char *source;                     /* [source_len] */
    size_t source_len;
    struct radish_render_options options;
};

static enum radish_status render(const struct render_job *job, const char *json, size_t len,
                                 char **text_out, size_t *len_out, struct radish_error *err) {
    if (job->model)
        return radish_render(job->model, json, len, /*adapt=*/false, &job->options, text_out,
                             len_out, err);
    return radish_render_source(job->source, job->source_len, json, len, &job->options, text_out,
                                len_out, err);
}

static int render_line(void *user, size_t line, const char *json, size_t len) {
    struct radish_error err = {0};
    char *text = NULL, *out = NULL;
    size_t text_len = 0, out_len = 0;
    (void)line;
    enum radish_status status = render(user, json, len, &text, &text_len, &err);
    yyjson_mut_doc *doc = yyjson_mut_doc_new(NULL);
    if (doc) {
        yyjson_mut_val *root = yyjson_mut_obj(doc);
        yyjson_mut_doc_set_root(doc, root);
        if (status == RADISH_OK)
            yyjson_mut_obj_add_strn(doc, root, "text", text, text_len);
        else
            yyjson_mut_obj_add_str(doc, root, "error", err.msg);
        /* A message cut inside a character must not lose the answer. */
        out = yyjson_mut_write(doc, YYJSON_WRITE_ALLOW_INVALID_UNICODE, &out_len);
    }
    yyjson_mut_doc_free(doc);
    radish_free(text);
    if (!out) return command_fail("out of memory");
    out[out_len] = '\n';
    int rc = command_write(out, out_len + 1);
    free(out);
    return rc;
}

static int render_stdin(const struct render_job *job) {
    struct radish_error err = {0};
    struct buf json;
    char *text = NULL;
    size_t len = 0;
    int rc = command_read_stdin(&json);
    if (rc >= 0) return rc;
    enum radish_status status = render(job, json.data, json.len, &text, &len, &err);
    buf_deinit(&json);
    if (status != RADISH_OK) return command_fail_error("", &err);
    rc = command_write(text, len);
    if (rc < 0 && isatty(STDOUT_FILENO)) rc = command_write("\n", 1);
    radish_free(text);
    return rc;
}

int cmd_render(struct args *args) {
    struct render_job job = {.options = {.now = args->now}};
    struct radish_model *model = NULL;
    struct radish_error err = {0};
    int rc = -1;
    if (!args->model && !args->template_path)
        return args_refuse(command_by_bit(COMMAND_RENDER), "MODEL or --template is wanted");
    if (args->model) {
        rc = command_open_model(args, &model);
        job.model = model;
    } else if (file_read(args->template_path, TEMPLATE_BYTES_MAX, &job.source, &job.source_len,
                         &err) != RADISH_OK) {
        rc = command_fail_error(args->template_path, &err);
    }
    if (rc < 0) rc = args->jsonl ? command_each_line(render_line, &job) : render_stdin(&job);
    free(job.source);
    radish_model_close(model);
    return rc < 0 ? EXIT_DONE : rc;
}
