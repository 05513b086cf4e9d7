/* cmd_serve.c - radish serve: the life of the server, from loading to the second signal.
 *
 *   loading --ready--> serving --first signal--> stopping --drained or grace over--> closed, exit 0
 *      |                                             |
 *   signal: the process dies by it            second signal: exit 0 at once
 *
 * While stopping the listener stays open and answers 503, so that a load balancer sees a server
 * that leaves, not one that crashed; what still runs after the grace time ends with finish_reason
 * "abort". A signal handler may do next to nothing, so it writes one byte into a pipe that the main
 * thread waits on, and leaves by _exit() on the second signal, when somebody no longer wants to
 * wait. Keys are read from a file once, at start: changing them means a restart, which drains. */
#include "base/file_map.h"
#include "base/log.h"
#include "base/utf8.h"
#include "command.h"
#include "events/kv_publisher.h"
#include "server/server.h"

#include <errno.h>
#include <poll.h>
#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { KEY_FILE_BYTES_MAX = 1 << 20 };

static int stop_pipe[2];
static volatile sig_atomic_t n_stop_signals;

static void take_stop_signal(int signal_number) {
    (void)signal_number;
    int saved = errno;
    if (n_stop_signals++ > 0) _exit(EXIT_DONE);
    ssize_t written = write(stop_pipe[1], "", 1);
    (void)written;
    errno = saved;
}

static int watch_signals(void) {
    if (pipe(stop_pipe)) return command_fail("cannot make a pipe: %s", strerror(errno));
    struct sigaction action = {.sa_handler = take_stop_signal, .sa_flags = SA_RESTART};
    sigemptyset(&action.sa_mask);
    if (sigaction(SIGTERM, &action, NULL) || sigaction(SIGINT, &action, NULL))
        return command_fail("cannot watch signals: %s", strerror(errno));
    return -1;
}

/* poll() and not read(): a signal interrupts it even though system calls are restarted, and
 * ThreadSanitizer, which holds signals back, lets them through there. */
static void wait_for_signal(void) {
    struct pollfd readable = {.fd = stop_pipe[0], .events = POLLIN};
    while (poll(&readable, 1, /*timeout=*/-1) < 1) {}
}

/* All keys: those of the command line and the lines of --api-key-file, kept in *text_out. */
static int gather_keys(const struct args *args, const char ***keys_out, size_t *n_out,
                       char **text_out) {
    struct radish_error err = {0};
    size_t len = 0, n_lines = 1, n = 0;
    *text_out = NULL;
    *keys_out = NULL;
    *n_out = 0;
    if (args->api_key_path) {
        if (file_read(args->api_key_path, KEY_FILE_BYTES_MAX, text_out, &len, &err) != RADISH_OK)
            return command_fail_error(args->api_key_path, &err);
        if (memchr(*text_out, '\0', len))
            return command_fail("%s: a key holds a zero byte", args->api_key_path);
    }
    for (size_t i = 0; i < len; i++) n_lines += (*text_out)[i] == '\n';
    const char **keys = calloc(args->n_api_keys + n_lines, sizeof *keys);
    if (!keys) return command_fail("out of memory");
    for (uint32_t i = 0; i < args->n_api_keys; i++) keys[n++] = args->api_keys[i];
    char *rest = NULL;
    char *line = *text_out ? strtok_r(*text_out, "\n", &rest) : NULL;
    for (; line; line = strtok_r(NULL, "\n", &rest)) {
        line += strspn(line, " \t\r");
        for (size_t end = strlen(line); end && strchr(" \t\r", line[end - 1]);) line[--end] = '\0';
        if (*line && *line != '#') keys[n++] = line;
    }
    *keys_out = keys;
    *n_out = n;
    /* An empty key file must not open the server to everyone. */
    if (args->api_key_path && n == args->n_api_keys)
        return command_fail("%s holds no key", args->api_key_path);
    return -1;
}

static struct server_options make_options(const struct args *args, const char *const *keys,
                                          size_t n_keys) {
    return (struct server_options){.host = args->host,
                                   .port = (uint16_t)args->port,
                                   .served_model_name = args->served_name,
                                   .api_keys = keys,
                                   .n_api_keys = n_keys,
                                   .cors_origins = args->cors_origins,
                                   .n_cors_origins = args->n_cors_origins,
                                   .ssl_certificate_path = args->ssl_certificate_path,
                                   .ssl_key_path = args->ssl_key_path,
                                   .connections_max = args->connections_max,
                                   .receive_seconds = args->receive_seconds,
                                   .body_bytes_max = (uint64_t)args->body_mb_max << 20,
                                   .stream_interval = args->stream_interval,
                                   .tool_call_parser = args->tool_call_parser,
                                   .is_metrics_off = args->is_metrics_off,
                                   .isolation = (enum server_isolation)args->isolate_keys};
}

static int fail_server(enum radish_status status, const struct radish_error *err) {
    command_fail_error("", err);
    return status == RADISH_E_INVALID ? EXIT_USAGE : EXIT_FAILED;
}

/* What the server would refuse in two minutes, when the weights are loaded, it refuses now. */
static int check_options(const struct server_options *options) {
    struct radish_error err = {0};
    enum radish_status status = server_check(options, &err);
    return status ? fail_server(status, &err) : -1;
}

/* What is known once the model is: its name, and so what /server_info tells of the command line. */
static int describe(struct args *args, const struct radish_model *model,
                    struct server_options *options, char **json_out) {
    const bool is_named = args->served_name != NULL;
    if (!is_named) args->served_name = radish_model_info(model)->name;
    const size_t len = strlen(args->served_name);
    if (!is_named && utf8_valid_prefix(args->served_name, len) != len)
        return command_fail("the model's name is not UTF-8: give it one by --served-model-name");
    *json_out = args_to_json(args, command_by_bit(COMMAND_SERVE));
    options->served_model_name = args->served_name;
    options->args_json = *json_out;
    return *json_out ? -1 : command_fail("a value on the command line is not UTF-8");
}

/* What is told at any log level. Like the log it never waits for who reads: the end of a server
 * whose terminal is held must not either. */
RADISH_PRINTF(1, 2) static void say(const char *fmt, ...) {
    char line[1024];
    va_list list;
    va_start(list, fmt);
    int n = vsnprintf(line, sizeof line, fmt, list);
    va_end(list);
    if (n > 0) log_write(line, (size_t)n < sizeof line ? (size_t)n : sizeof line - 1);
}

static int serve(const struct args *args, struct radish_model *model, struct radish_engine *engine,
                 const struct server_options *options) {
    struct radish_error err = {0};
    struct server *server = NULL;
    const char *name = args->served_name ? args->served_name : radish_model_info(model)->name;
    int rc = watch_signals();
    if (rc >= 0) return rc;
    enum radish_status status = server_open(model, engine, options, &server, &err);
    if (status) return fail_server(status, &err);
    say("radish %s serving %.200s: listening on %s\n", RADISH_VERSION, name, server_url(server));
    wait_for_signal();
    say("radish: stopping; running requests have %g seconds (a second signal ends at once)\n",
        args->stop_grace_seconds);
    server_begin_stop(server);
    if (!server_wait_drained(server, args->stop_grace_seconds))
        say("radish: the grace time is over; ending what still runs\n");
    server_close(server);
    return -1;
}

/* Before anything is loaded, so that a wrong endpoint is told at once. */
static int open_publisher(struct args *args, struct kv_publisher **publisher_out) {
    struct radish_error err = {0};
    struct kv_config config;
    *publisher_out = NULL;
    if (!args->kv_events_json) return -1;
    enum radish_status status = kv_config_read(args->kv_events_json, &config, &err);
    if (status == RADISH_OK && config.is_published)
        status = kv_publisher_open(&config, publisher_out, &err);
    kv_config_deinit(&config);
    if (status != RADISH_OK) {
        command_fail_error("--kv-events-config", &err);
        return status == RADISH_E_INVALID ? EXIT_USAGE : EXIT_FAILED;
    }
    if (!*publisher_out) {
        fprintf(stderr, "radish: --kv-events-config names no publisher: no KV events are told\n");
        return -1;
    }
    args->engine.on_kv_events = kv_publisher_push;
    args->engine.kv_events_user = *publisher_out;
    return -1;
}

int cmd_serve(struct args *args) {
    struct radish_model *model = NULL;
    struct radish_engine *engine = NULL;
    struct kv_publisher *publisher = NULL;
    const char **keys = NULL;
    char *key_text = NULL, *args_json = NULL;
    size_t n_keys = 0;
    args->engine.stall_ms_max = args->stall_ms_max ? (int32_t)args->stall_ms_max : -1;
    int rc = gather_keys(args, &keys, &n_keys, &key_text);
    struct server_options options = make_options(args, keys, n_keys);
    if (rc < 0) rc = check_options(&options);
    if (rc < 0) rc = open_publisher(args, &publisher);
    if (rc < 0) rc = command_open_model(args, &model);
    if (rc < 0) rc = describe(args, model, &options, &args_json);
    if (rc < 0) rc = command_open_engine(args, model, &engine);
    if (rc < 0) rc = serve(args, model, engine, &options);
    radish_engine_close(engine);
    kv_publisher_close(publisher);
    radish_model_close(model);
    free(keys);
    free(key_text);
    free(args_json);
    return rc < 0 ? EXIT_DONE : rc;
}
