/* cmd_logits.c - radish logits: the raw logits of every position of a prompt, in a safetensors
 * file, computed by the engine that serves: the same chunks, pool, kernels and threads. This is how
 * other programs check radish's arithmetic.
 *
 * What the file's metadata says (steps, cached tokens) is known only at the end, and stands before
 * the rows; a long prompt's rows are larger than memory should have to hold (8,192 tokens of a
 * 150,000 word vocabulary: 4.9 GB). So rows go into an unlinked scratch file beside the result
 * and are copied at the end. Keeping them in memory would be less code and would fail exactly where
 * the command is needed. The engine waits while rows are written: it has nothing else to do.
 *
 * With --warm N there are two requests: the first N tokens, and then all of them, of which the
 * engine is asked for the logits from row N on, so that the rows before may come from the cache.
 * The rows before N are the first request's. */
#include "radish_report.h"

#include "base/status.h"
#include "command.h"
#include "format/safetensors_write.h"
#include "generate.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

struct rows {
    FILE *scratch; /* [n_rows_done, n_vocab] float32 */
    size_t n_rows, n_vocab, n_rows_done;
    int scratch_errno;
    bool misshaped; /* the engine's rows are not those that were asked for */
};

/* "1,2,3" -> ids; caller frees with free(). NULL after a message. */
static int32_t *parse_ids(const char *text, size_t *n_out) {
    size_t n = 1, i = 0;
    for (const char *c = text; *c; c++) n += *c == ',';
    int32_t *ids = calloc(n, sizeof *ids);
    *n_out = n;
    if (!ids) return NULL;
    for (const char *c = text; i < n; i++) {
        char *end = NULL;
        errno = 0;
        long id = strtol(c, &end, 10);
        bool ends_well = *end == (i + 1 < n ? ',' : '\0');
        if (end == c || !ends_well || errno || id < 0 || id > INT32_MAX) {
            free(ids);
            return NULL;
        }
        ids[i] = (int32_t)id;
        c = end + 1;
    }
    return ids;
}

static int rows_open(struct rows *rows, const char *out_path) {
    struct buf path;
    buf_init(&path, 0);
    buf_printf(&path, "%s.rows-XXXXXX", out_path);
    if (path.failed) return command_fail("out of memory");
    int fd = mkstemp(path.data);
    if (fd >= 0) {
        unlink(path.data);
        rows->scratch = fdopen(fd, "w+b");
        if (!rows->scratch) close(fd);
    }
    buf_deinit(&path);
    return rows->scratch ? -1 : command_fail("%s: %s", out_path, strerror(errno));
}

static void take_rows(void *user, size_t row, size_t n_rows, size_t n_vocab, const float *logits) {
    struct rows *rows = user;
    if (n_vocab != rows->n_vocab || row != rows->n_rows_done || n_rows > rows->n_rows - row) {
        rows->misshaped = true;
        return;
    }
    for (size_t i = 0; i < n_rows; i++)
        if (fwrite(logits + i * n_vocab, sizeof *logits, n_vocab, rows->scratch) != n_vocab) {
            rows->scratch_errno = errno;
            return;
        }
    rows->n_rows_done += n_rows;
}

static enum radish_status write_metadata(struct safetensors_writer *writer,
                                         const struct radish_engine_info *info,
                                         const struct generate_result *result, uint64_t steps,
                                         struct radish_error *err) {
    char cached[24], n_steps[24], threads[24];
    snprintf(cached, sizeof cached, "%u", result->usage.cached_tokens);
    snprintf(n_steps, sizeof n_steps, "%llu", (unsigned long long)steps);
    snprintf(threads, sizeof threads, "%u", info->n_threads);
    const char *pairs[][2] = {
        {"cached_tokens", cached},
        {"steps", n_steps},
        {"threads", threads},
        {"precision", info->precision == RADISH_PRECISION_EXACT ? "exact" : "fast"},
        {"kernels", info->kernels ? info->kernels : ""}};
    for (size_t i = 0; i < sizeof pairs / sizeof *pairs; i++) {
        enum radish_status status =
            safetensors_writer_metadata(writer, pairs[i][0], pairs[i][1], err);
        if (status != RADISH_OK) return status;
    }
    return RADISH_OK;
}

static enum radish_status write_rows(struct safetensors_writer *writer, struct rows *rows,
                                     struct radish_error *err) {
    enum { PIECE_BYTES = 1 << 16 };
    char *piece = malloc(PIECE_BYTES);
    enum radish_status status = piece ? RADISH_OK : error_nomem(err);
    rewind(rows->scratch);
    while (status == RADISH_OK) {
        size_t n = fread(piece, 1, PIECE_BYTES, rows->scratch);
        if (!n) break;
        status = safetensors_writer_data(writer, piece, n, err);
    }
    free(piece);
    return status;
}

static int write_file(const char *path, struct rows *rows, const struct radish_engine_info *info,
                      const struct generate_result *result, uint64_t steps) {
    struct radish_error err = {0};
    struct safetensors_writer *writer = NULL;
    uint64_t shape[2] = {rows->n_rows, rows->n_vocab};
    enum radish_status status = safetensors_writer_create(path, &writer, &err);
    if (status != RADISH_OK) return command_fail_error(path, &err);
    status = write_metadata(writer, info, result, steps, &err);
    if (status == RADISH_OK)
        status = safetensors_writer_tensor(writer, "logits", RADISH_DTYPE_F32, 2, shape, &err);
    if (status == RADISH_OK) status = write_rows(writer, rows, &err);
    if (status != RADISH_OK) {
        safetensors_writer_destroy(writer);
        return command_fail_error(path, &err);
    }
    if (safetensors_writer_finish(writer, &err) != RADISH_OK) return command_fail_error(path, &err);
    return -1;
}

/* The engine's figures once they count all of the prompt: they are published between steps, a
 * moment after the last event of the request. */
static void read_info(struct radish_engine *engine, uint64_t n_prompt_tokens,
                      struct radish_engine_info *info_out) {
    enum { TRIES = 5000 };
    const struct timespec moment = {.tv_nsec = 1000000};
    for (int i = 0; i < TRIES; i++) {
        radish_engine_info(engine, info_out);
        if (info_out->prompt_tokens_total >= n_prompt_tokens) return;
        nanosleep(&moment, NULL);
    }
}

/* Computes ids[0..n): their logits from row logits_from on go to the rows. */
static int run(struct radish_engine *engine, const int32_t *ids, size_t n, uint32_t logits_from,
               struct rows *rows, struct generate_result *result_out) {
    struct radish_error err = {0};
    struct radish_request request = {
        .prompt = ids, .n_prompt = n, .has_max_new_tokens = true, .logits_from = logits_from};
    struct generate *g = NULL;
    struct buf text;
    radish_sampling_init(&request.sampling);
    if (generate_start(engine, request, take_rows, rows, &g, &err) != RADISH_OK)
        return command_fail_error("--tokens", &err);
    buf_init(&text, 0);
    while (generate_wait(g, 1000, &text)) buf_clear(&text);
    buf_deinit(&text);
    generate_result(g, result_out);
    generate_destroy(g);
    result_out->ids = NULL; /* there are none, and they were the mailbox's */
    if (result_out->finish == RADISH_FINISH_ERROR || result_out->finish == RADISH_FINISH_ABORT)
        return command_fail("%s", radish_status_sentence(result_out->status));
    if (rows->misshaped || rows->n_rows_done != n)
        return command_fail("only %zu of %zu rows could be kept%s%s", rows->n_rows_done, n,
                            rows->scratch_errno ? ": " : "",
                            rows->scratch_errno ? strerror(rows->scratch_errno) : "");
    return -1;
}

/* Runs the prompt, the part to be cached first, and writes the file. */
static int compute(const struct args *args, struct radish_engine *engine, const int32_t *ids,
                   struct rows *rows) {
    struct radish_engine_info before, after;
    struct generate_result result;
    int rc = -1;
    radish_engine_info(engine, &before);
    if (args->n_warm) rc = run(engine, ids, args->n_warm, 0, rows, &result);
    if (rc < 0) rc = run(engine, ids, rows->n_rows, args->n_warm, rows, &result);
    if (rc >= 0) return rc;
    read_info(engine, before.prompt_tokens_total + args->n_warm + rows->n_rows, &after);
    return write_file(args->out_path, rows, &after, &result,
                      after.steps_total - before.steps_total);
}

int cmd_logits(struct args *args) {
    const struct command *command = command_by_bit(COMMAND_LOGITS);
    struct radish_model *model = NULL;
    struct radish_engine *engine = NULL;
    struct rows rows = {0};
    if (!args->tokens) return args_refuse(command, "--tokens is missing: 1,2,3");
    if (!args->out_path) return args_refuse(command, "--out is missing: the file to write");
    int32_t *ids = parse_ids(args->tokens, &rows.n_rows);
    if (!ids)
        return args_refuse(command, "--tokens wants ids like 1,2,3, not '%.80s'", args->tokens);
    if (args->n_warm >= rows.n_rows) {
        free(ids);
        return args_refuse(command, "--warm must leave a token to compute: less than %zu, not %u",
                           rows.n_rows, args->n_warm);
    }
    int rc = command_open_model(args, &model);
    if (rc < 0) rc = command_open_engine(args, model, &engine);
    if (rc < 0) {
        rows.n_vocab = radish_model_info(model)->n_vocab;
        rc = rows_open(&rows, args->out_path);
    }
    if (rc < 0) rc = compute(args, engine, ids, &rows);
    if (rows.scratch) fclose(rows.scratch);
    radish_engine_close(engine);
    radish_model_close(model);
    free(ids);
    return rc < 0 ? EXIT_DONE : rc;
}
