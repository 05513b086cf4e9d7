/* cmd_chat.c - radish chat: a conversation in the terminal.
 *
 *   line -> messages (a JSON array) -> chat template -> ids -> engine -> text, streamed -> messages
 *
 * The whole conversation is rendered anew for every answer, as every client of the HTTP API does;
 * what is shared with earlier turns is the engine's business. Ctrl-C while an answer streams stops
 * it and keeps what was said; at the prompt it clears the line; Ctrl-D leaves. A turn that fails
 * (the template refuses it, the context is full) is taken back, so that the conversation can go on.
 *
 * Without a terminal each line of stdin is a message and stdout carries the answers alone, one
 * after the other; there the first failure ends the command with status 1, and Ctrl-C ends it as it
 * ends any filter. */
#include "radish_report.h"

#include "command.h"
#include "generate.h"
#include "line_editor.h"

#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <yyjson.h>

struct chat {
    const struct args *args;
    struct radish_model *model;
    struct radish_engine *engine;
    bool interactive;
    char *system;        /* or NULL */
    yyjson_mut_doc *doc; /* {"messages": [...], "add_generation_prompt": true} */
    yyjson_mut_val *messages;
    struct generate_result last; /* of the last answer; ids not valid */
    bool has_last;
};

static volatile sig_atomic_t interrupted;

static void take_interrupt(int signal_number) {
    (void)signal_number;
    interrupted = 1;
}

/* ---- the conversation ---- */

static bool add_message(struct chat *chat, const char *role, const char *text, size_t len) {
    yyjson_mut_val *message = yyjson_mut_obj(chat->doc);
    return yyjson_mut_obj_add_str(chat->doc, message, "role", role) &&
           yyjson_mut_obj_add_strncpy(chat->doc, message, "content", text, len) &&
           yyjson_mut_arr_append(chat->messages, message);
}

/* Forgets everything but the system message. */
static int start_over(struct chat *chat) {
    yyjson_mut_doc_free(chat->doc);
    chat->doc = yyjson_mut_doc_new(NULL);
    if (!chat->doc) return command_fail("out of memory");
    yyjson_mut_val *root = yyjson_mut_obj(chat->doc);
    yyjson_mut_doc_set_root(chat->doc, root);
    chat->messages = yyjson_mut_arr(chat->doc);
    bool ok = yyjson_mut_obj_add_val(chat->doc, root, "messages", chat->messages) &&
              yyjson_mut_obj_add_bool(chat->doc, root, "add_generation_prompt", true);
    if (ok && chat->system) ok = add_message(chat, "system", chat->system, strlen(chat->system));
    return ok ? -1 : command_fail("out of memory");
}

/* The conversation as ids; caller frees with radish_free(). -1, or EXIT_FAILED after a message. */
static int encode(const struct chat *chat, int32_t **ids_out, size_t *n_out) {
    struct radish_error err = {0};
    size_t json_len = 0, len = 0;
    char *text = NULL;
    char *json = yyjson_mut_write(chat->doc, 0, &json_len);
    if (!json) return command_fail("the message is not valid UTF-8");
    enum radish_status status =
        radish_render(chat->model, json, json_len, /*adapt=*/true, NULL, &text, &len, &err);
    free(json);
    if (status == RADISH_OK)
        status = radish_tokenize(chat->model, text, len, /*flags=*/0, ids_out, n_out, &err);
    radish_free(text);
    return status == RADISH_OK ? -1 : command_fail_error("", &err);
}

/* Streams one answer to stdout and into *answer. */
static int stream(struct chat *chat, const struct radish_request *request, struct buf *answer) {
    struct radish_error err = {0};
    struct generate *g = NULL;
    size_t n_shown = 0;
    int rc = -1;
    if (generate_start(chat->engine, *request, NULL, NULL, &g, &err) != RADISH_OK) {
        if (err.status == RADISH_E_LIMIT && chat->interactive)
            fputs("The conversation does not fit any more; /reset starts a new one.\n", stderr);
        return command_fail_error("", &err);
    }
    while (rc < 0 && generate_wait(g, 50, answer)) {
        if (interrupted) generate_stop(g);
        if (answer->len > n_shown)
            rc = command_write(answer->data + n_shown, answer->len - n_shown);
        n_shown = answer->len;
    }
    if (rc < 0) {
        generate_result(g, &chat->last);
        chat->has_last = true;
        if (chat->last.finish == RADISH_FINISH_ERROR)
            rc = command_fail("%s", generate_failure(&chat->last));
        else
            rc = command_write("\n", 1);
    }
    generate_destroy(g);
    if (rc < 0 && chat->interactive && chat->last.finish == RADISH_FINISH_ABORT)
        fputs("(stopped)\n", stderr);
    if (rc < 0 && chat->interactive && chat->last.finish == RADISH_FINISH_LENGTH)
        fputs("(cut: the length limit is reached)\n", stderr);
    return rc;
}

static int answer_message(struct chat *chat, const char *text) {
    struct radish_request request = {0};
    struct buf answer;
    int32_t *ids = NULL;
    interrupted = 0;
    if (!add_message(chat, "user", text, strlen(text))) return command_fail("out of memory");
    buf_init(&answer, 0);
    int rc = encode(chat, &ids, &request.n_prompt);
    if (rc < 0) {
        radish_model_sampling(chat->model, &request.sampling);
        if (chat->args->temperature >= 0)
            request.sampling.temperature = (float)chat->args->temperature;
        request.sampling.seed = chat->args->seed;
        request.sampling.has_seed = chat->args->has_seed;
        request.prompt = ids;
        request.has_max_new_tokens = chat->args->n_new_tokens > 0;
        request.max_new_tokens = chat->args->n_new_tokens;
        rc = stream(chat, &request, &answer);
    }
    radish_free(ids);
    if (rc < 0 && (answer.failed ||
                   !add_message(chat, "assistant", answer.data ? answer.data : "", answer.len)))
        rc = command_fail("out of memory");
    if (rc >= 0) yyjson_mut_arr_remove_last(chat->messages);
    buf_deinit(&answer);
    return rc;
}

/* ---- commands ---- */

static void show_help(void) {
    fputs("/help          this text\n"
          "/reset         start a new conversation (the system message stays)\n"
          "/system TEXT   set the system message and start anew; without TEXT: none\n"
          "/stats         tokens and times of the last answer\n"
          "/quit          leave (also Ctrl-D)\n"
          "Ctrl-C stops an answer; at the prompt it clears the line.\n",
          stderr);
}

static void show_stats(const struct chat *chat) {
    struct radish_engine_info info;
    const struct generate_result *last = &chat->last;
    if (!chat->has_last) {
        fputs("No answer yet.\n", stderr);
        return;
    }
    radish_engine_info(chat->engine, &info);
    fprintf(stderr,
            "prompt %u tokens (%u cached), answer %zu tokens, %s\n"
            "first token after %.2f s, then %.1f tokens/s; %u of %u tokens of context used\n",
            last->usage.prompt_tokens, last->usage.cached_tokens, last->n_ids,
            generate_finish_name(last->finish), last->first_seconds,
            generate_tokens_per_second(last), last->usage.prompt_tokens + (uint32_t)last->n_ids,
            info.context_tokens);
}

static int set_system(struct chat *chat, const char *text) {
    char *copy = *text ? strdup(text) : NULL;
    if (*text && !copy) return command_fail("out of memory");
    free(chat->system);
    chat->system = copy;
    return start_over(chat);
}

/* A line that begins with '/'. Sets *quit_out for /quit. */
static int obey(struct chat *chat, const char *line, bool *quit_out) {
    const char *rest = line + strcspn(line, " \t");
    size_t n = (size_t)(rest - line);
    rest += strspn(rest, " \t");
    if (n == 5 && !strncmp(line, "/help", n))
        show_help();
    else if (n == 6 && !strncmp(line, "/stats", n))
        show_stats(chat);
    else if (n == 5 && !strncmp(line, "/quit", n))
        *quit_out = true;
    else if (n == 6 && !strncmp(line, "/reset", n))
        return start_over(chat);
    else if (n == 7 && !strncmp(line, "/system", n))
        return set_system(chat, rest);
    else {
        command_fail("'%.*s' is no command; /help lists them", (int)n, line);
        return chat->interactive ? -1 : EXIT_FAILED;
    }
    return -1;
}

static int converse(struct chat *chat, struct line_editor *editor) {
    const char *line;
    bool quit = false;
    chat->interactive = line_editor_is_interactive(editor);
    if (chat->interactive) {
        struct sigaction action = {.sa_handler = take_interrupt};
        sigemptyset(&action.sa_mask);
        sigaction(SIGINT, &action, NULL);
        fprintf(stderr, "%s. /help lists commands, Ctrl-D leaves.\n",
                radish_model_info(chat->model)->name);
    }
    while (!quit && (line = line_editor_next(editor))) {
        if (!line[strspn(line, " \t")]) continue;
        int rc = *line == '/' ? obey(chat, line, &quit) : answer_message(chat, line);
        if (rc >= 0 && !chat->interactive) return rc;
    }
    if (chat->interactive && !quit) fputc('\n', stderr);
    return -1;
}

int cmd_chat(struct args *args) {
    struct chat chat = {.args = args};
    struct line_editor *editor = NULL;
    int rc = command_open_model(args, &chat.model);
    if (rc < 0 && !radish_model_info(chat.model)->has_chat_template)
        rc = command_fail("%s has no chat template; give one with --chat-template", args->model);
    command_show_misses(args);
    if (rc < 0) rc = command_open_engine(args, chat.model, &chat.engine);
    if (rc < 0 && !(editor = line_editor_create("> "))) rc = command_fail("out of memory");
    if (rc < 0) rc = set_system(&chat, args->system ? args->system : "");
    if (rc < 0) rc = converse(&chat, editor);
    line_editor_destroy(editor);
    yyjson_mut_doc_free(chat.doc);
    free(chat.system);
    radish_engine_close(chat.engine);
    radish_model_close(chat.model);
    return rc < 0 ? EXIT_DONE : rc;
}
