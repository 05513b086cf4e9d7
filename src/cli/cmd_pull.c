/* cmd_pull.c - radish pull: what the environment says, the hub's work, and what the user sees of
 * it.
 *
 * The environment is the one that users of Hugging Face's own tools have: HF_ENDPOINT, HF_TOKEN,
 * else the token file that logging in leaves, HF_HUB_OFFLINE, SSL_CERT_FILE; proxies are libcurl's
 * matter. All of it is read here, since nothing below cli/ reads the environment.
 *
 * stdout carries one line, the model's folder, so that a script can use it; all else is stderr.
 * Ctrl-C only sets a flag, which the transfer asks for: it ends in order, with everything that came
 * kept for the next time. A second Ctrl-C ends the program at once; nothing is lost by that either,
 * as files are put in place only when they are whole. */
#include "command.h"

#include "base/file_map.h"
#include "base/status.h"
#include "format/model_cache.h"
#include "hub/hub_pull.h"
#include "pull_progress.h"

#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define HUB_DEFAULT "https://huggingface.co"

enum { TOKEN_BYTES_MAX = 4096, PATH_TEXT_MAX = 4096 };

static volatile sig_atomic_t is_interrupted;

static void on_signal(int number) {
    if (is_interrupted) _exit(EXIT_FAILED);
    is_interrupted = 1;
    (void)number;
}

static bool is_cancelled(void *user) {
    (void)user;
    return is_interrupted != 0;
}

static void catch_signals(void) {
    struct sigaction action = {.sa_handler = on_signal};
    sigemptyset(&action.sa_mask);
    sigaction(SIGINT, &action, NULL);
    sigaction(SIGTERM, &action, NULL);
}

/* ---- the environment ---- */

static const char *env(const char *name) {
    const char *value = getenv(name);
    return value && *value ? value : NULL;
}

static bool env_is_on(const char *name) {
    const char *value = env(name);
    return value && (!strcmp(value, "1") || !strcasecmp(value, "true") ||
                     !strcasecmp(value, "yes") || !strcasecmp(value, "on"));
}

static void token_path(char *path, size_t size) {
    const char *own = env("HF_TOKEN_PATH"), *hf = env("HF_HOME"), *xdg = env("XDG_CACHE_HOME");
    const char *home = env("HOME");
    path[0] = '\0';
    if (own)
        snprintf(path, size, "%s", own);
    else if (hf)
        snprintf(path, size, "%s/token", hf);
    else if (xdg)
        snprintf(path, size, "%s/huggingface/token", xdg);
    else if (home)
        snprintf(path, size, "%s/.cache/huggingface/token", home);
}

/* The token, white space around it cut, or NULL. Caller frees. */
static char *read_token(void) {
    char path[PATH_TEXT_MAX], *text = NULL;
    size_t len = 0;
    const char *given = env("HF_TOKEN");
    if (!given) given = env("HUGGING_FACE_HUB_TOKEN");
    if (given) {
        text = strdup(given);
    } else {
        token_path(path, sizeof path);
        if (!*path || env_is_on("HF_HUB_DISABLE_IMPLICIT_TOKEN") ||
            file_read(path, TOKEN_BYTES_MAX, &text, &len, NULL) != RADISH_OK)
            return NULL;
    }
    if (!text) return NULL;
    const size_t start = strspn(text, " \t\r\n");
    size_t end = strlen(text);
    while (end > start && strchr(" \t\r\n", text[end - 1])) end--;
    memmove(text, text + start, end - start);
    text[end - start] = '\0';
    if (*text) return text;
    free(text);
    return NULL;
}

/* HF_ENDPOINT without '/' at its end. */
static void read_endpoint(char *endpoint, size_t size) {
    const char *given = env("HF_ENDPOINT");
    snprintf(endpoint, size, "%s", given ? given : HUB_DEFAULT);
    for (size_t n = strlen(endpoint); n && endpoint[n - 1] == '/';) endpoint[--n] = '\0';
}

/* ---- what the user sees ---- */

static void show_progress(void *user, const struct hub_progress *progress) {
    pull_progress_show(user, progress);
}

static void show_note(void *user, const char *text) {
    pull_progress_clear(user);
    fprintf(stderr, "radish: %s\n", text);
}

static void show_result(const struct hub_options *options, const struct hub_result *result,
                        const char *model) {
    char bytes[24];
    pull_size_text(result->bytes, bytes, sizeof bytes);
    if (result->bytes_fetched)
        fprintf(stderr, "radish: %s is complete: %zu files, %s, commit %.12s\n", options->name.repo,
                result->n_files, bytes, result->commit);
    else
        fprintf(stderr, "radish: %s is already there and whole: %zu files, %s, commit %.12s\n",
                options->name.repo, result->n_files, bytes, result->commit);
    fprintf(stderr, "radish: try 'radish chat %s'\n", model);
}

static int fail(const struct hub_options *options, const struct hub_result *result,
                enum radish_status status, const struct radish_error *err) {
    if (result->choices) fprintf(stderr, "%s", result->choices);
    if (status != RADISH_E_ABORTED) return command_fail_error("", err);
    return command_fail("interrupted; the same command goes on from here (%s)", options->name.repo);
}

/* ---- the command ---- */

/* Without asking anybody: whether the model is there. */
static int answer_offline(const char *model) {
    struct radish_error err = {0};
    char *path = NULL;
    if (model_cache_find(model, &path, &err) != RADISH_OK)
        return command_fail("%s is not in the model cache, and HF_HUB_OFFLINE is set", model);
    fprintf(stderr,
            "radish: %s is in the model cache; it was not compared, as HF_HUB_OFFLINE is "
            "set\n",
            model);
    puts(path);
    free(path);
    return EXIT_DONE;
}

static int pull(const struct args *args, struct hub_options *options) {
    struct radish_error err = {0};
    struct hub_result result;
    const enum radish_status status = hub_pull(options, &result, &err);
    int rc = EXIT_DONE;
    pull_progress_clear(options->user);
    if (status == RADISH_OK) {
        show_result(options, &result, args->model);
        puts(result.path);
    } else {
        rc = fail(options, &result, status, &err);
    }
    hub_result_deinit(&result);
    return rc;
}

int cmd_pull(struct args *args) {
    const struct command *command = command_by_bit(COMMAND_PULL);
    struct pull_progress progress;
    struct radish_error err = {0};
    struct hub_options options = {.includes = {args->includes.items, args->includes.n},
                                  .excludes = {args->excludes.items, args->excludes.n},
                                  .n_retries = args->n_retries,
                                  .stall_seconds = args->stall_seconds,
                                  .ca_path = env("SSL_CERT_FILE"),
                                  .is_cancelled = is_cancelled,
                                  .on_progress = show_progress,
                                  .on_note = show_note,
                                  .user = &progress};
    char endpoint[1024], *cache = NULL, *token = NULL;
    if (!model_name_parse(args->model, &options.name) || !hub_repo_is_valid(options.name.repo))
        return args_refuse(command, "'%.100s' is no name of a repository: ORG/NAME is wanted",
                           args->model);
    if (*options.name.quant && args->includes.n)
        return args_refuse(command, "say what to fetch with :QUANT or with --include, not both");
    if (args->revision) {
        if (*options.name.revision) return args_refuse(command, "the revision is given twice");
        struct model_name with_revision;
        char text[512];
        snprintf(text, sizeof text, "x@%.300s", args->revision);
        if (strchr(args->revision, ':') || !model_name_parse(text, &with_revision))
            return args_refuse(command, "'%.100s' is no revision", args->revision);
        memcpy(options.name.revision, with_revision.revision, sizeof options.name.revision);
    }
    if (env_is_on("HF_HUB_OFFLINE") || env_is_on("TRANSFORMERS_OFFLINE"))
        return answer_offline(args->model);
    if (model_cache_folder(&cache, &err) != RADISH_OK) return command_fail_error("", &err);
    read_endpoint(endpoint, sizeof endpoint);
    token = read_token();
    options.endpoint = endpoint;
    options.token = token;
    options.cache = cache;
    pull_progress_init(&progress);
    catch_signals();
    const int rc = pull(args, &options);
    free(token);
    free(cache);
    return rc;
}
