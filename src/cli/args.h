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
    COMMAND_BENCH = 1u << 9,
    COMMAND_PULL = 1u << 10,
    COMMAND_BENCH_ONE_BATCH = 1u << 11,
    COMMAND_BENCH_SERVING = 1u << 12,
    COMMAND_LIST = 1u << 13
};

enum { ARGS_API_KEYS_MAX = 64, ARGS_ORIGINS_MAX = 64 };

enum { ARGS_PATTERNS_MAX = 32, ARGS_NUMBERS_MAX = 16 };

/* Of a flag that may be repeated. */
struct args_list {
    const char *items[ARGS_PATTERNS_MAX];
    uint32_t n;
};

/* "1,4,16" */
struct args_numbers {
    uint32_t items[ARGS_NUMBERS_MAX];
    uint32_t n;
};

/* bench one-batch and bench serving */
struct args_bench {
    struct args_numbers batch_sizes, input_lens, output_lens;
    const char *run_name, *result_path, *prompt_path;
    uint32_t log_decode_step, cut_len; /* 0: not given */
    bool checks;                       /* --correctness-test */

    struct args_list urls, labels;
    const char *api_key, *model_name, *trace_path, *extra_body;
    uint32_t endpoint; /* enum load_endpoint */
    uint32_t workload; /* enum workload_kind */
    uint32_t n_prompts, n_concurrent_max, n_warmup, n_rounds;
    uint32_t n_groups, n_per_group, depth, fan_out;
    uint32_t prefix_tokens, input_tokens, output_tokens;
    uint32_t ignore_eos; /* 0: on */
    double range_ratio, request_rate, timeout_seconds, trace_scale, trace_speed;
    uint64_t seed;
    bool flushes_cache, has_details, allows_errors;
};

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
    const char *cors_origins[ARGS_ORIGINS_MAX];
    uint32_t n_cors_origins;
    const char *ssl_certificate_path; /* NULL: no TLS */
    const char *ssl_key_path;
    uint32_t connections_max;
    uint32_t receive_seconds;
    uint32_t body_mb_max;
    double stop_grace_seconds;
    uint32_t stream_interval;
    const char *tool_call_parser;
    bool is_metrics_off;
    uint32_t isolate_keys;      /* enum server_isolation */
    const char *kv_events_json; /* NULL: none are published */

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
    uint64_t n_nodes_max;   /* bench radix; 0: not given */
    const char *op, *dtype; /* bench kernels; NULL: all operations, the usual types */
    const char *beside;     /* bench kernels: "onednn" or NULL */
    bool csv;               /* bench kernels */
    struct args_bench bench;
    const char *template_path;
    const char *now;
    const char *tensor;
    const char *out_path;
    const char *tokens;
    uint32_t n_warm;

    /* pull, list */
    struct args_list includes, excludes;
    const char *revision;
    uint32_t n_retries, stall_seconds;

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

/* All flags of `command` and their values as a JSON object, named as SGLang names its arguments
 * (mem_fraction_static); null where the default is found later. Keys are left out. caller frees
 * with free(); NULL: out of memory. */
char *args_to_json(const struct args *args, const struct command *command);

/* Wrong usage, found after parsing: one line on stderr that ends in a hint to --help. Returns
 * EXIT_USAGE. */
int args_refuse(const struct command *command, const char *fmt, ...) RADISH_PRINTF(2, 3);

/* Number of edits between two words, counted up to edits_max + 1; for "did you mean". */
unsigned args_distance(const char *a, const char *b);

#endif
