/* cmd_tokenize.c - radish tokenize and radish detokenize: the text stack without the model.
 *
 * Both work on all of stdin (one text, one array) or, with --jsonl, line by line, so that a test
 * can hold one process open and ask thousands of questions. Output is exact: detokenize adds no
 * newline, except on a terminal, where the prompt would otherwise stick to the text. A bad line
 * ends the command with its number: silence about one line among thousands helps nobody. */
#include "base/json.h"
#include "command.h"

#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

struct text_job {
    const struct radish_model *model;
    unsigned flags; /* RADISH_TOKENIZE_... or RADISH_DETOKENIZE_... */
};

/* Prints what `out` holds, or says that memory is exhausted. */
static int write_buf(struct buf *out) {
    int rc = out->failed ? command_fail("out of memory") : command_write(out->data, out->len);
    buf_deinit(out);
    return rc;
}

static int fail_line(size_t line, const struct radish_error *err) {
    if (!line) return command_fail("%s", err->msg);
    return command_fail("line %zu: %s", line, err->msg);
}

static int tokenize_one(const struct text_job *job, size_t line, const char *text, size_t len) {
    struct radish_error err = {0};
    struct buf out;
    int32_t *ids = NULL;
    size_t n = 0;
    if (radish_tokenize(job->model, text, len, job->flags, &ids, &n, &err) != RADISH_OK)
        return fail_line(line, &err);
    buf_init(&out, 0);
    buf_append_char(&out, '[');
    for (size_t i = 0; i < n; i++) buf_printf(&out, i ? ",%d" : "%d", ids[i]);
    buf_append_str(&out, "]\n");
    radish_free(ids);
    return write_buf(&out);
}

static int tokenize_line(void *user, size_t line, const char *text, size_t len) {
    struct radish_error err = {0};
    yyjson_doc *doc = NULL;
    if (json_parse(text, len, JSON_DEPTH_MAX, &doc, &err) != RADISH_OK)
        return fail_line(line, &err);
    yyjson_val *root = yyjson_doc_get_root(doc);
    int rc =
        yyjson_is_str(root)
            ? tokenize_one(user, line, yyjson_get_str(root), yyjson_get_len(root))
            : command_fail("line %zu: a JSON string is wanted, not %s", line, json_type_name(root));
    yyjson_doc_free(doc);
    return rc;
}

/* The ids of a JSON array, caller frees with free(); NULL after a message in *err. */
static int32_t *read_ids(const char *text, size_t len, size_t *n_out, struct radish_error *err) {
    yyjson_doc *doc = NULL;
    yyjson_val *id;
    size_t idx, max;
    int32_t *ids = NULL;
    *n_out = 0;
    if (json_parse(text, len, JSON_DEPTH_MAX, &doc, err) != RADISH_OK) return NULL;
    yyjson_val *root = yyjson_doc_get_root(doc);
    if (!yyjson_is_arr(root)) {
        snprintf(err->msg, sizeof err->msg, "a JSON array of token ids is wanted, not %s",
                 json_type_name(root));
        goto done;
    }
    ids = calloc(yyjson_arr_size(root) + 1, sizeof *ids);
    if (!ids) {
        snprintf(err->msg, sizeof err->msg, "out of memory");
        goto done;
    }
    yyjson_arr_foreach(root, idx, max, id) {
        if (!yyjson_is_int(id) || yyjson_get_sint(id) < 0 || yyjson_get_sint(id) > INT32_MAX) {
            snprintf(err->msg, sizeof err->msg, "element %zu is no token id", idx);
            free(ids);
            ids = NULL;
            goto done;
        }
        ids[idx] = (int32_t)yyjson_get_sint(id);
    }
    *n_out = yyjson_arr_size(root);
done:
    yyjson_doc_free(doc);
    return ids;
}

/* The text as it is, or as a JSON string with a newline. */
static int write_text(const char *text, size_t len, bool as_json) {
    if (!as_json) {
        int rc = command_write(text, len);
        if (rc < 0 && isatty(STDOUT_FILENO)) rc = command_write("\n", 1);
        return rc;
    }
    yyjson_mut_doc *doc = yyjson_mut_doc_new(NULL);
    size_t n = 0;
    char *json = NULL;
    if (doc) {
        yyjson_mut_doc_set_root(doc, yyjson_mut_strn(doc, text, len));
        json = yyjson_mut_write(doc, 0, &n);
    }
    yyjson_mut_doc_free(doc);
    if (!json) return command_fail("out of memory");
    json[n] = '\n';
    int rc = command_write(json, n + 1);
    free(json);
    return rc;
}

static int detokenize_one(const struct text_job *job, size_t line, const char *text, size_t len) {
    struct radish_error err = {0};
    size_t n = 0, out_len = 0;
    char *out = NULL;
    int32_t *ids = read_ids(text, len, &n, &err);
    if (!ids) return fail_line(line, &err);
    enum radish_status status =
        radish_detokenize(job->model, ids, n, job->flags, &out, &out_len, &err);
    free(ids);
    if (status != RADISH_OK) return fail_line(line, &err);
    int rc = write_text(out, out_len, /*as_json=*/line > 0);
    radish_free(out);
    return rc;
}

static int detokenize_line(void *user, size_t line, const char *text, size_t len) {
    return detokenize_one(user, line, text, len);
}

int cmd_tokenize(struct args *args) {
    struct radish_model *model = NULL;
    struct buf text;
    int rc = command_open_model(args, &model);
    if (rc >= 0) return rc;
    struct text_job job = {model, args->special ? RADISH_TOKENIZE_SPECIAL : 0};
    if (args->jsonl) {
        rc = command_each_line(tokenize_line, &job);
    } else {
        rc = command_read_stdin(&text);
        if (rc < 0) {
            rc = tokenize_one(&job, 0, text.data, text.len);
            buf_deinit(&text);
        }
    }
    radish_model_close(model);
    return rc < 0 ? EXIT_DONE : rc;
}

int cmd_detokenize(struct args *args) {
    struct radish_model *model = NULL;
    struct buf text;
    int rc = command_open_model(args, &model);
    if (rc >= 0) return rc;
    struct text_job job = {model, args->skip_special ? RADISH_DETOKENIZE_SKIP : 0};
    if (args->jsonl) {
        rc = command_each_line(detokenize_line, &job);
    } else {
        rc = command_read_stdin(&text);
        if (rc < 0) {
            rc = detokenize_one(&job, 0, text.data, text.len);
            buf_deinit(&text);
        }
    }
    radish_model_close(model);
    return rc < 0 ? EXIT_DONE : rc;
}
