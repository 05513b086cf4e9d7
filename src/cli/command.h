/* command.h - the commands of the program, and what they share: opening a model, opening an engine
 * with a progress bar, reading stdin, telling what went wrong.
 *
 * A command returns an exit status; only main() ends the process. Results go to stdout, everything
 * else to stderr. Threads: main thread only. */
#ifndef CLI_COMMAND_H
#define CLI_COMMAND_H

#include "radish.h"

#include "args.h"
#include "base/buf.h"

int cmd_serve(struct args *args);
int cmd_chat(struct args *args);
int cmd_run(struct args *args);
int cmd_tokenize(struct args *args);
int cmd_detokenize(struct args *args);
int cmd_render(struct args *args);
int cmd_logits(struct args *args);
int cmd_inspect(struct args *args);
int cmd_info(struct args *args);
int cmd_bench(struct args *args);
int cmd_pull(struct args *args);
int cmd_list(struct args *args);
int cmd_bench_one_batch(struct args *args);
int cmd_bench_serving(struct args *args);

const struct command *command_by_name(const char *name); /* NULL = there is none */
const struct command *command_by_bit(unsigned bit);      /* must exist */

/* "radish: <text>" on stderr. Returns EXIT_FAILED. */
int command_fail(const char *fmt, ...) RADISH_PRINTF(1, 2);

/* The same for an error of the library, behind what it is about ("" = nothing). */
int command_fail_error(const char *about, const struct radish_error *err);

/* The same for a device or an engine that could not be opened; a flag that the error names stands
 * for `about`. EXIT_USAGE where what was typed is wrong, as only they can judge it (--kernel). */
int command_fail_open(const char *about, const struct radish_error *err);

/* Opens args->model with --chat-template. -1, or an exit status after a message. */
int command_open_model(const struct args *args, struct radish_model **model_out);

/* --explain-miss of a command that is quiet by default: what it says is shown. */
void command_show_misses(const struct args *args);

/* Loads weights and starts the engine; shows a bar meanwhile when stderr is a terminal. -1, or an
 * exit status after a message. */
int command_open_engine(struct args *args, struct radish_model *model,
                        struct radish_engine **engine_out);

/* All of stdin, at most 1 GiB. -1, or an exit status after a message. */
int command_read_stdin(struct buf *text_out);

/* Calls `one` for each line of stdin that is not blank (without its newline, len > 0) until it
 * returns another value than -1 or stdin ends; flushes stdout after each, so that the command works
 * as a coprocess. */
int command_each_line(int (*one)(void *user, size_t line, const char *text, size_t len),
                      void *user);

/* Writes and flushes stdout. -1, or EXIT_FAILED after a message. */
int command_write(const char *bytes, size_t n);

#endif
