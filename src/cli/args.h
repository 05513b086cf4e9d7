/* args.h - what the command line says: one table of flags for all commands, read with popt.
 *
 * Owns: the strings it keeps (freed by args_deinit()). Help, defaults, range checks and the
 * suggestions for misspelt flags all come from the one table, so they cannot disagree. Threads:
 * main thread only. Fails: wrong usage is told on stderr in one line and answered with exit
 * status 2. */
#ifndef CLI_ARGS_H
#define CLI_ARGS_H

#include "radish.h"

/* Exit status of the program (0 done, 1 failed, 2 wrong usage). */
enum { EXIT_DONE = 0, EXIT_FAILED = 1, EXIT_USAGE = 2 };

/* A command is a bit, so that a flag can name all commands that take it. */
enum {
    COMMAND_SERVE = 1u << 0,
    COMMAND_CHAT = 1u << 1,
    COMMAND_RUN = 1u << 2,
    COMMAND_TOKENIZE = 1u << 3,
    COMMAND_DETOKENIZE = 1u << 4,
    COMMAND_RENDER = 1u << 5,
    COMMAND_LOGITS = 1u << 6,
    COMMAND_INSPECT = 1u << 7,
    COMMAND_INFO = 1u << 8,
    COMMAND_BENCH = 1u << 9
};

enum { ARGS_API_KEYS_MAX = 64 };

struct args {
    const char *model; /* the positional argument (of bench, a name), or NULL where a command can do
                          without */

    /* serve */
    const char *host;
    uint32_t port;
    const char *served_name; /* NULL: the model's name */
    const char *api_keys[ARGS_API_KEYS_MAX];
    uint32_t n_api_keys;
    const char *api_key_path;
    uint32_t body_mb_max;
    double stop_grace_seconds;
    uint32_t stream_interval;
    uint32_t isolate_keys; /* enum server_isolation */

    /* model and engine */
    const char *chat_template; /* a file, or the name of one of the model's templates */
    struct radish_engine_options engine;
    uint32_t log_level;    /* enum radish_log_level */
    uint32_t stall_ms_max; /* 0: no bound */

    /* run, chat */
    const char *prompt;
    const char *system;
    uint32_t n_new_tokens; /* 0: as many as the context holds */
    double temperature;    /* below 0: the model's own */
    uint64_t seed;
    bool has_seed;

    /* tokenize, detokenize, render, run, inspect, logits, bench */
    bool json, jsonl, special, skip_special;
    uint64_t n_nodes_max;   /* bench radix */
    const char *op, *dtype; /* bench kernels; NULL: all operations, the usual types */
    const char *template_path;
    const char *now;
    const char *tensor;
    const char *out_path;
    const char *tokens;
    uint32_t n_warm;

    char **kept; /* [n_kept] strings that the fields above borrow */
    size_t n_kept;
};

struct command {
    const char *name;
    unsigned bit;     /* COMMAND_... */
    const char *args; /* for the usage line: "MODEL [flags]" */
    bool needs_model; /* MODEL may not be left out */
    const char *summary;
    const char *help; /* what a newcomer has to know, several lines */
    int (*run)(struct args *args);
};

/* Defaults of `command`, then argv[0..argc) (what stands behind the command's name). Returns -1 to
 * go on, or an exit status: 0 after --help (printed on stdout), 2 after wrong usage (told on
 * stderr). args_deinit() is due in every case. */
int args_parse(struct args *args, const struct command *command, int argc, char **argv);
void args_deinit(struct args *args);

/* Wrong usage, found after parsing: one line on stderr that ends in a hint to --help. Returns
 * EXIT_USAGE. */
int args_refuse(const struct command *command, const char *fmt, ...) RADISH_PRINTF(2, 3);

/* Number of edits between two words, counted up to edits_max + 1; for "did you mean". */
unsigned args_distance(const char *a, const char *b);

#endif
