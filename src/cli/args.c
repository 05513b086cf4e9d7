/* args.c - the table of flags and the four things made from it: popt's option array, the defaults,
 * the help text and the check of every value.
 *
 * A row says everything about a flag: its name, which commands take it, where its value goes
 * (offset into struct args), of which kind and within which bounds, its default, and one sentence
 * of help. A default that is a value (`initial`) is stored by the same function that reads what
 * the user typed, so the help cannot show another one than the program uses; a default that is
 * computed later is described in words (`fallback`). A name may have two rows when commands differ
 * in the default.
 *
 * popt splits the line; every value reaches us as text and is converted here, because popt's own
 * conversions know no bounds and its messages do not name them. The classic alternative, one
 * struct poptOption table per command, says each shared flag up to five times. */
#include "args.h"

#include "base/json.h"
#include "command.h"
#include "foreign_flags.h"

#include <ctype.h>
#include <errno.h>
#include <math.h>
#include <popt.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum kind {
    KIND_SWITCH, /* bool */
    KIND_TEXT,   /* const char * */
    KIND_WORD,   /* const char *, one of `choices` */
    KIND_CHOICE, /* uint32_t or enum: index in `choices` */
    KIND_U32,
    KIND_U64,
    KIND_DOUBLE,
    KIND_KERNEL,  /* OP=VARIANT, repeatable */
    KIND_API_KEY, /* repeatable */
    KIND_ORIGIN,  /* repeatable */
    KIND_SEED,    /* uint64_t, and a bool that tells it was given */
    KIND_LIST,    /* struct args_list: any text, repeatable */
    KIND_NUMBERS  /* struct args_numbers */
};

struct flag {
    const char *name;
    char letter; /* short form, or 0 */
    enum kind kind;
    unsigned commands;
    size_t offset, has_offset; /* in struct args; has_offset for KIND_SEED */
    double min, max;           /* bounds of numbers, both included */
    const char *choices;       /* "a|b|c" */
    const char *arg;           /* how help names the value */
    const char *initial;       /* the default as it would be typed, or NULL */
    const char *fallback;      /* the default in words, or NULL */
    const char *help;
};

#define AT(field) offsetof(struct args, field)
#define ENGINE                                                                                     \
    (COMMAND_SERVE | COMMAND_CHAT | COMMAND_RUN | COMMAND_LOGITS | COMMAND_INFO | ONE_BATCH)
#define GENERATES   (COMMAND_SERVE | COMMAND_CHAT | COMMAND_RUN)
#define CACHES      (GENERATES | COMMAND_LOGITS)
#define ONE_BATCH   COMMAND_BENCH_ONE_BATCH
#define SERVING     COMMAND_BENCH_SERVING
#define QUIET       (ENGINE & ~(unsigned)COMMAND_SERVE)
#define U32_MAX     4294967295.0
#define CONTEXT_MAX 16777216.0
#define MEMORY_MAX  1099511627776.0
#if defined(RADISH_METAL_SIM)
#define DEVICES "cpu|metal-sim"
#elif defined(RADISH_METAL)
#define DEVICES "cpu|metal"
#else
#define DEVICES "cpu"
#endif

/* clang-format off: a table reads better as one. */
static const struct flag flags[] = {
    {"host", 0, KIND_TEXT, COMMAND_SERVE, AT(host), 0, 0, 0, NULL, "ADDRESS", "127.0.0.1", NULL,
     "address to listen on; 0.0.0.0 for all of this machine's"},
    {"port", 0, KIND_U32, COMMAND_SERVE, AT(port), 0, 0, 65535, NULL, "N", "30000", NULL,
     "TCP port to listen on; 0 takes a free one (see the line that says 'listening on')"},
    {"served-model-name", 0, KIND_TEXT, COMMAND_SERVE, AT(served_name), 0, 0, 0, NULL, "NAME", NULL,
     "file or folder name", "the model's name in the API"},
    {"chat-template", 0, KIND_TEXT, COMMAND_SERVE | COMMAND_CHAT, AT(chat_template), 0, 0, 0, NULL,
     "FILE", NULL, "the model's",
     "a Jinja file to use instead, or the name of one of the model's templates"},
    {"context-length", 0, KIND_U32, ENGINE, AT(engine.context_tokens), 0, 1, CONTEXT_MAX, NULL,
     "TOKENS", NULL, "what the model was trained for, or what fits", "longest prompt plus answer"},

    {"device", 0, KIND_WORD, ENGINE, AT(engine.device), 0, 0, 0, DEVICES, "NAME", "cpu", NULL,
     "what computes: cpu; on a Mac, metal"},
    {"threads", 0, KIND_U32, ENGINE | COMMAND_BENCH, AT(engine.n_threads), 0, 1, 512, NULL, "N",
     NULL, "physical cores; all where there are 1 or 2", "threads that compute"},
    {"huge-pages", 0, KIND_CHOICE, ENGINE, AT(engine.huge_pages), 0, 0, 0, "auto|on|off", "WHEN",
     "auto", NULL,
     "weights, KV pool and scratch in huge pages: where the system gives them; on: or not at all"},
    {"numa", 0, KIND_CHOICE, ENGINE, AT(engine.numa), 0, 0, 0, "none|interleave", "HOW", "none",
     NULL, "interleave: spread that memory evenly over all NUMA nodes"},
    {"precision", 0, KIND_CHOICE, ENGINE, AT(engine.precision), 0, 0, 0, "fast|exact", "P", "fast",
     NULL, "'fast' rounds activations as the kernels declare; 'exact' keeps float32 everywhere"},
    {"kv-cache-dtype", 0, KIND_CHOICE, ENGINE, AT(engine.kv_dtype), 0, 0, 0, "auto|f32|f16|bf16",
     "TYPE", "auto", NULL,
     "type of cached keys and values; auto: bf16 for bf16 models, else f16 (f32 in exact)"},
    {"quantization", 0, KIND_WORD, ENGINE, AT(engine.quantization), 0, 0, 0,
     "none|q8_0|q6_k|q5_k|q5_1|q5_0|q4_k|q4_1|q4_0", "TYPE", NULL, "none",
     "quantise bf16, f16 or f32 weights at load: matrices of layers to TYPE, the others to q8_0"},
    {"kernel", 0, KIND_KERNEL, ENGINE | COMMAND_BENCH, 0, 0, 0, 0, NULL, "OP=VARIANT", NULL, "-",
     "use this kernel for an operation ('ref' is the plain one); may be repeated; see radish info"},

    {"mem-fraction-static", 0, KIND_DOUBLE, ENGINE, AT(engine.mem_fraction_static), 0, 0.001, 1.0,
     NULL, "F", NULL, "0.5 (0.85 on a GPU), at most 16 x context",
     "share of free memory (after weights and scratch) for the KV pool"},
    {"max-total-tokens", 0, KIND_U64, ENGINE, AT(engine.kv_tokens_max), 0, 1, MEMORY_MAX, NULL,
     "TOKENS", NULL, "from --mem-fraction-static", "size of the KV pool, said directly"},
    {"page-size", 0, KIND_U32, ENGINE, AT(engine.page_tokens), 0, 1, 65536, NULL, "TOKENS", "1",
     NULL, "tokens per page of the KV pool"},
    {"max-running-requests", 0, KIND_U32, COMMAND_SERVE, AT(engine.requests_running_max), 0, 1,
     65536, NULL, "N", "256", NULL, "sequences computed at the same time"},
    {"max-queued-requests", 0, KIND_U32, COMMAND_SERVE, AT(engine.requests_queued_max), 0, 1,
     1048576, NULL, "N", "1024", NULL, "requests that may wait; more are answered 503"},
    {"request-timeout", 0, KIND_DOUBLE, COMMAND_SERVE, AT(engine.request_timeout_seconds), 0, 0.001,
     1e9, NULL, "SECONDS", NULL, "none", "end a request that takes longer"},
    {"chunked-prefill-size", 0, KIND_U32, GENERATES | ONE_BATCH, AT(engine.chunk_tokens), 0, 1,
     1048576, NULL, "TOKENS", "512", NULL, "prompt tokens computed in one step"},
    {"max-prefill-tokens", 0, KIND_U32, COMMAND_SERVE, AT(engine.prefill_tokens_max), 0, 1,
     CONTEXT_MAX, NULL, "TOKENS", "16384", NULL, "prompt tokens admitted together"},
    {"max-stall-ms", 0, KIND_U32, COMMAND_SERVE, AT(stall_ms_max), 0, 0, 3600000, NULL, "MS", "250",
     NULL, "longest gap between two tokens of a stream while prompts are computed; 0: no bound"},
    {"schedule-policy", 0, KIND_WORD, COMMAND_SERVE, AT(engine.schedule_policy), 0, 0, 0,
     "lpm|fcfs|dfs-weight|lof|random|hrrn", "POLICY", "lpm", NULL,
     "who is next: the longest cached prefix (with ageing), or another order"},
    {"schedule-conservativeness", 0, KIND_DOUBLE, COMMAND_SERVE,
     AT(engine.schedule_conservativeness), 0, 0.001, 100, NULL, "F", "1", NULL,
     "how long answers are expected to be; higher admits fewer, and sends fewer back"},
    {"enable-priority-scheduling", 0, KIND_SWITCH, COMMAND_SERVE, AT(engine.has_priorities), 0, 0,
     0, NULL, NULL, NULL, NULL, "requests of a higher 'priority' first, preempting far lower ones"},
    {"disable-overlap-schedule", 0, KIND_SWITCH, GENERATES, AT(engine.is_overlap_off), 0, 0, 0,
     NULL, NULL, NULL, NULL,
     "begin a step when the one before has ended, also on devices that could record it meanwhile"},
    {"disable-radix-cache", 0, KIND_SWITCH, CACHES, AT(engine.is_cache_off), 0, 0, 0, NULL, NULL,
     NULL, NULL, "compute every prompt in full"},
    {"radix-eviction-policy", 0, KIND_WORD, CACHES, AT(engine.eviction_policy), 0, 0, 0,
     "lru|lfu|fifo|mru|filo|slru|priority", "POLICY", "lru", NULL,
     "which cached prefixes go first when the KV pool is full"},
    {"isolate-keys", 0, KIND_CHOICE, COMMAND_SERVE, AT(isolate_keys), 0, 0, 0, "auto|on|off",
     "WHEN", "auto", NULL,
     "share cached prefixes only between requests with the same API key; auto: with several keys"},
    {"explain-miss", 0, KIND_SWITCH, GENERATES, AT(engine.explains_misses), 0, 0, 0, NULL, NULL,
     NULL, NULL, "say for each request where its prompt left the cache, and why"},
    {"shadow-check", 0, KIND_U32, COMMAND_SERVE | COMMAND_CHAT, AT(engine.shadow_check), 0, 1,
     U32_MAX, NULL, "N", NULL, "off",
     "compute one in N requests that hit the cache again without it, and compare the bits"},

    {"api-key", 0, KIND_API_KEY, COMMAND_SERVE, 0, 0, 0, 0, NULL, "KEY", NULL,
     "none: anyone who can connect may ask",
     "require this bearer key; may be repeated; other users see it in 'ps', a file is safer"},
    {"api-key-file", 0, KIND_TEXT, COMMAND_SERVE, AT(api_key_path), 0, 0, 0, NULL, "FILE", NULL,
     "-", "keys, one a line; empty lines and lines that begin with # do not count"},
    {"cors-origin", 0, KIND_ORIGIN, COMMAND_SERVE, 0, 0, 0, 0, NULL, "ORIGIN", NULL,
     "none: no page of another origin",
     "web pages that may use the server, like https://chat.example.org, or *; may be repeated"},
    {"ssl-certfile", 0, KIND_TEXT, COMMAND_SERVE, AT(ssl_certificate_path), 0, 0, 0, NULL, "FILE",
     NULL, "none: HTTP without TLS", "certificate (PEM, those in between behind it): serve HTTPS"},
    {"ssl-keyfile", 0, KIND_TEXT, COMMAND_SERVE, AT(ssl_key_path), 0, 0, 0, NULL, "FILE", NULL, "-",
     "the certificate's private key (PEM, without a passphrase)"},
    {"max-connections", 0, KIND_U32, COMMAND_SERVE, AT(connections_max), 0, 1, 1000000, NULL, "N",
     "8192", NULL, "open connections; past it requests that compute are answered 503"},
    {"receive-timeout", 0, KIND_U32, COMMAND_SERVE, AT(receive_seconds), 0, 1, 86400, NULL,
     "SECONDS", "30", NULL,
     "close a connection whose client takes longer to send a request (or to read a whole answer); "
     "each 16 KiB gives a second more"},
    {"max-body-mb", 0, KIND_U32, COMMAND_SERVE, AT(body_mb_max), 0, 1, 4096, NULL, "N", "64", NULL,
     "largest request body in MiB; more is answered 413"},
    {"stop-grace-seconds", 0, KIND_DOUBLE, COMMAND_SERVE, AT(stop_grace_seconds), 0, 0, 1e6, NULL,
     "SECONDS", "30", NULL, "how long running answers may go on after SIGTERM"},
    {"tool-call-parser", 0, KIND_WORD, COMMAND_SERVE, AT(tool_call_parser), 0, 0, 0,
     "auto|none|hermes|qwen|qwen25|llama3|llama3_json|mistral", "NAME", "auto", NULL,
     "how the model writes tool calls; auto: as its chat template shows them"},
    {"stream-interval", 0, KIND_U32, COMMAND_SERVE, AT(stream_interval), 0, 1, 65536, NULL,
     "TOKENS", "1", NULL, "tokens per streamed chunk"},
    {"decode-log-interval", 0, KIND_U32, COMMAND_SERVE, AT(engine.decode_log_interval), 0, 1,
     U32_MAX, NULL, "STEPS", "40", NULL, "a line about decoding every so many steps"},
    {"kv-events-config", 0, KIND_TEXT, COMMAND_SERVE, AT(kv_events_json), 0, 0, 0, NULL, "JSON",
     NULL, "none",
     "tell subscribers over ZeroMQ what is cached: {\"publisher\": \"zmq\", \"endpoint\": "
     "\"tcp://*:5557\"}; see docs/KV_EVENTS.md"},
    {"disable-metrics", 0, KIND_SWITCH, COMMAND_SERVE, AT(is_metrics_off), 0, 0, 0, NULL, NULL,
     NULL, NULL, "GET /metrics is not there"},
    {"log-level", 0, KIND_CHOICE, COMMAND_SERVE, AT(log_level), 0, 0, 0,
     "debug|info|warn|error|off", "LEVEL", "info", NULL, "what is told on stderr"},
    {"log-level", 0, KIND_CHOICE, QUIET, AT(log_level), 0, 0, 0, "debug|info|warn|error|off",
     "LEVEL", "warn", NULL, "what is told on stderr"},
    {"random-seed", 0, KIND_SEED, COMMAND_SERVE, AT(engine.seed), AT(engine.has_seed), 0, 0, NULL,
     "N", NULL, "from the clock", "where the seeds of requests without one come from"},

    {"prompt", 'p', KIND_TEXT, COMMAND_RUN, AT(prompt), 0, 0, 0, NULL, "TEXT", NULL, NULL,
     "the text to continue (required)"},
    {"max-tokens", 'n', KIND_U32, COMMAND_RUN, AT(n_new_tokens), 0, 1, CONTEXT_MAX, NULL, "N",
     "128", NULL, "at most so many new tokens"},
    {"max-tokens", 'n', KIND_U32, COMMAND_CHAT, AT(n_new_tokens), 0, 1, CONTEXT_MAX, NULL, "N",
     NULL, "the rest of the context", "at most so many tokens per answer"},
    {"system", 0, KIND_TEXT, COMMAND_CHAT, AT(system), 0, 0, 0, NULL, "TEXT", NULL, "none",
     "the system message to begin with"},
    {"temperature", 0, KIND_DOUBLE, COMMAND_RUN | COMMAND_CHAT, AT(temperature), 0, 0, 1e6, NULL,
     "T", NULL, "the model's", "0 always takes the likeliest token"},
    {"seed", 0, KIND_SEED, COMMAND_RUN | COMMAND_CHAT, AT(seed), AT(has_seed), 0, 0, NULL, "S",
     NULL, "from the clock", "the same seed gives the same text again"},
    {"json", 0, KIND_SWITCH, COMMAND_RUN, AT(json), 0, 0, 0, NULL, NULL, NULL, NULL,
     "print one JSON object: text, ids, finish_reason, usage, seconds"},
    {"json", 0, KIND_SWITCH, COMMAND_BENCH | ONE_BATCH | SERVING, AT(json), 0, 0, 0, NULL, NULL,
     NULL, NULL, "print a JSON object for each figure, one a line"},
    {"nodes", 0, KIND_U64, COMMAND_BENCH, AT(n_nodes_max), 0, 1000, 16777216, NULL, "N", NULL,
     "1000000", "radix: the largest tree measured; a million nodes take about 300 MB"},
    {"op", 0, KIND_WORD, COMMAND_BENCH, AT(op), 0, 0, 0,
     "rope_kv_store|matmul|matmul_group|attention|embed|prepare|rmsnorm|layernorm|silu_mul|"
     "activate|soft_cap|keep_rows",
     "OP", NULL, "all of them", "kernels: only this operation"},
    {"csv", 0, KIND_SWITCH, COMMAND_BENCH, AT(csv), 0, 0, 0, NULL, NULL, NULL, NULL,
     "kernels: print a line of comma-separated values for each figure"},
    {"beside", 0, KIND_WORD, COMMAND_BENCH, AT(beside), 0, 0, 0, "onednn", "PEER", NULL, "nobody",
     "kernels: time the peer's matrix products in turns with ours, on as many threads"},
    {"dtype", 0, KIND_TEXT, COMMAND_BENCH, AT(dtype), 0, 0, 0, NULL, "TYPE", NULL,
     "bf16; products also q8_0, q4_0, q4_K", "kernels: type of the weights, or of keys and values"},

    {"batch-size", 0, KIND_NUMBERS, ONE_BATCH, AT(bench.batch_sizes), 0, 1, 4096, NULL, "N,N...",
     "1", NULL, "sequences computed together; each is measured with each length"},
    {"input-len", 0, KIND_NUMBERS, ONE_BATCH, AT(bench.input_lens), 0, 1, CONTEXT_MAX, NULL,
     "N,N...", "1024", NULL, "tokens of a prompt"},
    {"output-len", 0, KIND_NUMBERS, ONE_BATCH, AT(bench.output_lens), 0, 1, CONTEXT_MAX, NULL,
     "N,N...", "16", NULL, "tokens of an answer; the first comes with the prompt's computation"},
    {"run-name", 0, KIND_TEXT, ONE_BATCH, AT(bench.run_name), 0, 0, 0, NULL, "NAME", "default",
     NULL, "what the results are called in JSON"},
    {"result-filename", 0, KIND_TEXT, ONE_BATCH, AT(bench.result_path), 0, 0, 0, NULL, "FILE", NULL,
     "-", "append each result to this file as a JSON line"},
    {"log-decode-step", 0, KIND_U32, ONE_BATCH, AT(bench.log_decode_step), 0, 1, CONTEXT_MAX, NULL,
     "N", NULL, "the first 5 steps", "a line for every so many steps of decoding"},
    {"prompt-filename", 0, KIND_TEXT, ONE_BATCH, AT(bench.prompt_path), 0, 0, 0, NULL, "FILE", NULL,
     "random ids", "prompts to use, one a line, repeated and cut to the input's length"},
    {"correctness-test", 0, KIND_SWITCH, ONE_BATCH, AT(bench.checks), 0, 0, 0, NULL, NULL, NULL,
     NULL, "show logits and greedy answers of a few prompts, computed in two parts and in one"},
    {"cut-len", 0, KIND_U32, ONE_BATCH, AT(bench.cut_len), 0, 1, CONTEXT_MAX, NULL, "TOKENS", NULL,
     "4", "with --correctness-test: tokens of the first part"},

    {"url", 0, KIND_LIST, SERVING, AT(bench.urls), 0, 0, 0, NULL, "URL", NULL, NULL,
     "the server, like http://127.0.0.1:30000 (required); several take turns and are compared"},
    {"label", 0, KIND_LIST, SERVING, AT(bench.labels), 0, 0, 0, NULL, "NAME", NULL, "the URL",
     "what to call it in the output; once for each --url"},
    {"endpoint", 0, KIND_CHOICE, SERVING, AT(bench.endpoint), 0, 0, 0, "completions|chat|generate",
     "NAME", "completions", NULL, "which API is used"},
    {"model", 0, KIND_TEXT, SERVING, AT(bench.model_name), 0, 0, 0, NULL, "NAME", NULL,
     "the first of /v1/models", "the model's name in requests"},
    {"api-key", 0, KIND_TEXT, SERVING, AT(bench.api_key), 0, 0, 0, NULL, "KEY", NULL, "none",
     "the bearer key to send"},
    {"workload", 0, KIND_CHOICE, SERVING, AT(bench.workload), 0, 0, 0,
     "random|shared-prefix|multi-turn|agent-tree|cold-fan-out|trace", "NAME", "random", NULL,
     "what requests share"},
    {"num-prompts", 0, KIND_U32, SERVING, AT(bench.n_prompts), 0, 1, 1000000, NULL, "N", NULL,
     "32; all of a trace", "requests of random, cold-fan-out and trace"},
    {"input-len", 0, KIND_U32, SERVING, AT(bench.input_tokens), 0, 1, CONTEXT_MAX, NULL, "TOKENS",
     "128", NULL, "of a request's own text (of each turn, each branch)"},
    {"prefix-len", 0, KIND_U32, SERVING, AT(bench.prefix_tokens), 0, 0, CONTEXT_MAX, NULL, "TOKENS",
     "512", NULL, "of a group's prefix, a conversation's begin, a trunk"},
    {"output-len", 0, KIND_U32, SERVING, AT(bench.output_tokens), 0, 1, CONTEXT_MAX, NULL, "TOKENS",
     "64", NULL, "of every answer"},
    {"range-ratio", 0, KIND_DOUBLE, SERVING, AT(bench.range_ratio), 0, 0, 1, NULL, "F", "1", NULL,
     "own texts have from this share of --input-len to all of it"},
    {"groups", 0, KIND_U32, SERVING, AT(bench.n_groups), 0, 1, 1000000, NULL, "N", "6", NULL,
     "prefixes of shared-prefix, conversations of multi-turn, trees of agent-tree"},
    {"prompts-per-group", 0, KIND_U32, SERVING, AT(bench.n_per_group), 0, 1, 10000, NULL, "N", "4",
     NULL, "requests for each prefix, turns of a conversation"},
    {"depth", 0, KIND_U32, SERVING, AT(bench.depth), 0, 1, 64, NULL, "N", "3", NULL,
     "agent-tree: levels of answers"},
    {"fan-out", 0, KIND_U32, SERVING, AT(bench.fan_out), 0, 1, 1000, NULL, "N", "3", NULL,
     "agent-tree: requests that continue an answer"},
    {"trace", 0, KIND_TEXT, SERVING, AT(bench.trace_path), 0, 0, 0, NULL, "FILE", NULL, "-",
     "requests in Mooncake's format: timestamp, input_length, output_length, hash_ids"},
    {"scale", 0, KIND_DOUBLE, SERVING, AT(bench.trace_scale), 0, 0.000001, 1000, NULL, "F", "1",
     NULL, "trace: lengths are multiplied by this"},
    {"speed", 0, KIND_DOUBLE, SERVING, AT(bench.trace_speed), 0, 0.000001, 1e6, NULL, "F", "1",
     NULL, "trace: time runs so many times faster"},
    {"max-concurrency", 0, KIND_U32, SERVING, AT(bench.n_concurrent_max), 0, 1, 65536, NULL, "N",
     NULL, "not set", "requests under way at the same time"},
    {"request-rate", 0, KIND_DOUBLE, SERVING, AT(bench.request_rate), 0, 0.000001, 1e6, NULL, "R",
     NULL, "inf: all at once", "requests that arrive per second, at random (Poisson)"},
    {"rounds", 0, KIND_U32, SERVING, AT(bench.n_rounds), 0, 1, 64, NULL, "N", "1", NULL,
     "repetitions with new texts; servers take turns in each"},
    {"seed", 0, KIND_U64, SERVING, AT(bench.seed), 0, 0, 9007199254740992.0, NULL, "N", "1", NULL,
     "where texts, lengths and arrivals come from"},
    {"seed", 0, KIND_U64, ONE_BATCH, AT(bench.seed), 0, 0, 9007199254740992.0, NULL, "N", "1", NULL,
     "where the ids of prompts come from"},
    {"warmup-requests", 0, KIND_U32, SERVING, AT(bench.n_warmup), 0, 0, 10000, NULL, "N", "1", NULL,
     "requests sent before the first round and not counted"},
    {"timeout", 0, KIND_DOUBLE, SERVING, AT(bench.timeout_seconds), 0, 0.001, 1e6, NULL, "SECONDS",
     "3600", NULL, "give a request up after that"},
    {"flush-cache", 0, KIND_SWITCH, SERVING, AT(bench.flushes_cache), 0, 0, 0, NULL, NULL, NULL,
     NULL, "empty the server's cache before each round (POST /flush_cache)"},
    {"ignore-eos", 0, KIND_CHOICE, SERVING, AT(bench.ignore_eos), 0, 0, 0, "on|off", "WHEN", "on",
     NULL, "ask for answers of the whole length"},
    {"extra-request-body", 0, KIND_TEXT, SERVING, AT(bench.extra_body), 0, 0, 0, NULL, "JSON", NULL,
     "-", "members added to every request, or instead of ours"},
    {"allow-errors", 0, KIND_SWITCH, SERVING, AT(bench.allows_errors), 0, 0, 0, NULL, NULL, NULL,
     NULL, "exit with 0 although requests failed"},
    {"output-file", 0, KIND_TEXT, SERVING, AT(bench.result_path), 0, 0, 0, NULL, "FILE", NULL, "-",
     "append each round's result to this file as a JSON line"},
    {"output-details", 0, KIND_SWITCH, SERVING, AT(bench.has_details), 0, 0, 0, NULL, NULL, NULL,
     NULL, "every request in the JSON: latencies, gaps, tokens, errors"},

    {"special", 0, KIND_SWITCH, COMMAND_TOKENIZE, AT(special), 0, 0, 0, NULL, NULL, NULL, NULL,
     "add what the model's post-processor adds (a begin token, for one)"},
    {"skip-special", 0, KIND_SWITCH, COMMAND_DETOKENIZE, AT(skip_special), 0, 0, 0, NULL, NULL,
     NULL, NULL, "leave special tokens out of the text"},
    {"template", 0, KIND_TEXT, COMMAND_RENDER, AT(template_path), 0, 0, 0, NULL, "FILE", NULL,
     "the model's",
     "a Jinja file; then MODEL may be left out, and the object holds every variable"},
    {"now", 0, KIND_TEXT, COMMAND_RENDER, AT(now), 0, 0, 0, NULL, "TIME", NULL, "the clock",
     "what strftime_now sees, like 2026-11-29T00:00:00"},
    {"jsonl", 0, KIND_SWITCH, COMMAND_TOKENIZE | COMMAND_DETOKENIZE | COMMAND_RENDER, AT(jsonl), 0,
     0, 0, NULL, NULL, NULL, NULL, "one JSON value per line in, one per line out"},

    {"tokens", 0, KIND_TEXT, COMMAND_LOGITS, AT(tokens), 0, 0, 0, NULL, "IDS", NULL, NULL,
     "the prompt as ids: 1,2,3 (required)"},
    {"chunk", 0, KIND_U32, COMMAND_LOGITS, AT(engine.chunk_tokens), 0, 1, 1048576, NULL, "TOKENS",
     "512", NULL, "tokens computed in one step"},
    {"warm", 0, KIND_U32, COMMAND_LOGITS, AT(n_warm), 0, 0, CONTEXT_MAX, NULL, "TOKENS", NULL, "0",
     "compute the first so many tokens on their own, then take them from the cache"},
    {"tensor", 0, KIND_TEXT, COMMAND_INSPECT, AT(tensor), 0, 0, 0, NULL, "NAME", NULL, NULL,
     "write this tensor as raw float32 to --out"},
    {"out", 'o', KIND_TEXT, COMMAND_LOGITS, AT(out_path), 0, 0, 0, NULL, "FILE", NULL, NULL,
     "the safetensors file to write (required)"},
    {"out", 'o', KIND_TEXT, COMMAND_INSPECT, AT(out_path), 0, 0, 0, NULL, "FILE", NULL, NULL,
     "where --tensor goes"},

    {"include", 0, KIND_LIST, COMMAND_PULL, AT(includes), 0, 0, 0, NULL, "PATTERN", NULL,
     "what radish needs",
     "fetch the files that match, like '*Q4_K_M*'; '*' also matches '/'; may be repeated"},
    {"exclude", 0, KIND_LIST, COMMAND_PULL, AT(excludes), 0, 0, 0, NULL, "PATTERN", NULL, "none",
     "of these, leave out those that match; may be repeated"},
    {"revision", 0, KIND_TEXT, COMMAND_PULL, AT(revision), 0, 0, 0, NULL, "REV", NULL, "main",
     "a branch, a tag or a commit; the same as ORG/NAME@REV"},
    {"retries", 0, KIND_U32, COMMAND_PULL, AT(n_retries), 0, 0, 1000, NULL, "N", "5", NULL,
     "tries after the first, with growing pauses, when the network or the hub fails"},
    {"stall-timeout", 0, KIND_U32, COMMAND_PULL, AT(stall_seconds), 0, 1, 3600, NULL, "SECONDS",
     "30", NULL, "give up a transfer that brings nothing for so long, and try again"},
    {"json", 0, KIND_SWITCH, COMMAND_LIST, AT(json), 0, 0, 0, NULL, NULL, NULL, NULL,
     "print a JSON object for each model, one a line"},
};
/* clang-format on */

enum { N_FLAGS = sizeof flags / sizeof *flags };

/* ---- messages ---- */

int args_refuse(const struct command *command, const char *fmt, ...) {
    va_list list;
    va_start(list, fmt);
    fputs("radish: ", stderr);
    vfprintf(stderr, fmt, list);
    va_end(list);
    if (command)
        fprintf(stderr, " (try 'radish %s --help')\n", command->name);
    else
        fputs(" (try 'radish --help')\n", stderr);
    return EXIT_USAGE;
}

unsigned args_distance(const char *a, const char *b) {
    enum { WORD_MAX = 48 };
    unsigned row[WORD_MAX + 1];
    size_t n_a = strlen(a), n_b = strlen(b);
    if (n_a > WORD_MAX || n_b > WORD_MAX) return WORD_MAX;
    for (size_t j = 0; j <= n_b; j++) row[j] = (unsigned)j;
    for (size_t i = 1; i <= n_a; i++) {
        unsigned diagonal = row[0];
        row[0] = (unsigned)i;
        for (size_t j = 1; j <= n_b; j++) {
            unsigned best = diagonal + (a[i - 1] != b[j - 1]);
            if (row[j] + 1 < best) best = row[j] + 1;
            if (row[j - 1] + 1 < best) best = row[j - 1] + 1;
            diagonal = row[j];
            row[j] = best;
        }
    }
    return row[n_b];
}

/* The flag of this command that the user may have meant, or NULL. */
static const char *find_similar(const struct command *command, const char *name) {
    const char *best = NULL;
    unsigned best_edits = (unsigned)strlen(name) / 3 + 1;
    for (size_t i = 0; i < N_FLAGS; i++) {
        if (!(flags[i].commands & command->bit)) continue;
        unsigned edits = args_distance(name, flags[i].name);
        bool starts = strlen(name) >= 4 && !strncmp(flags[i].name, name, strlen(name));
        if (starts && !best) best = flags[i].name;
        if (edits <= best_edits) best = flags[i].name, best_edits = edits ? edits - 1 : 0;
    }
    return best;
}

static int refuse_unknown(const struct command *command, const char *typed) {
    char name[64];
    const char *word = typed + strspn(typed, "-");
    const char *hint = command->bit == COMMAND_SERVE ? foreign_flag_hint(typed) : NULL;
    if (hint) return args_refuse(command, "unknown flag '%.80s': %s", typed, hint);
    snprintf(name, sizeof name, "%.*s", (int)strcspn(word, "="), word);
    for (size_t i = 0; i < N_FLAGS; i++)
        if (!strcmp(flags[i].name, name)) {
            unsigned bit = flags[i].commands & (~flags[i].commands + 1u);
            return args_refuse(command, "--%s is a flag of 'radish %s', not of 'radish %s'", name,
                               command_by_bit(bit)->name, command->name);
        }
    const char *similar = find_similar(command, name);
    if (similar)
        return args_refuse(command, "unknown flag '%.80s'; did you mean --%s?", typed, similar);
    return args_refuse(command, "unknown flag '%.80s'", typed);
}

/* ---- values ---- */

/* The index of `text` in "a|b|c", or -1. */
static int find_choice(const char *choices, const char *text) {
    size_t len = strlen(text);
    int idx = 0;
    for (const char *c = choices; *c; idx++) {
        size_t n = strcspn(c, "|");
        if (n == len && !strncmp(c, text, n)) return idx;
        c += n + (c[n] == '|');
    }
    return -1;
}

static int store_u64(const struct command *command, const struct flag *flag, const char *text,
                     uint64_t max, uint64_t *out) {
    char *end = NULL;
    errno = 0;
    *out = 0;
    if (!isdigit((unsigned char)*text))
        return args_refuse(command, "--%s wants a whole number, not '%.80s'", flag->name, text);
    unsigned long long number = strtoull(text, &end, 10);
    if (*end)
        return args_refuse(command, "--%s wants a whole number, not '%.80s'", flag->name, text);
    if (errno == ERANGE || number > max || (double)number < flag->min)
        return args_refuse(command, "--%s wants a number from %.0f to %llu, not %.80s", flag->name,
                           flag->min, (unsigned long long)max, text);
    *out = number;
    return -1;
}

static int store_double(const struct command *command, const struct flag *flag, const char *text,
                        double *out) {
    char *end = NULL;
    double number = strtod(text, &end);
    if (end == text || *end || !isfinite(number))
        return args_refuse(command, "--%s wants a number, not '%.80s'", flag->name, text);
    if (number < flag->min || number > flag->max)
        return args_refuse(command, "--%s wants a number from %g to %g, not %.80s", flag->name,
                           flag->min, flag->max, text);
    *out = number;
    return -1;
}

static int store_kernel(struct args *args, const struct command *command, const char *text) {
    struct radish_engine_options *engine = &args->engine;
    const char *equals = strchr(text, '=');
    if (!equals || equals == text || !equals[1])
        return args_refuse(command, "--kernel wants OP=VARIANT, not '%.80s'", text);
    if (engine->n_kernels == RADISH_KERNEL_OVERRIDES_MAX)
        return args_refuse(command, "--kernel can be given %d times", RADISH_KERNEL_OVERRIDES_MAX);
    engine->kernels[engine->n_kernels++] = text;
    return -1;
}

static int store_api_key(struct args *args, const struct command *command, const char *text) {
    if (!*text) return args_refuse(command, "--api-key wants a key, not an empty text");
    if (args->n_api_keys == ARGS_API_KEYS_MAX)
        return args_refuse(command, "--api-key can be given %d times; put more into a file",
                           ARGS_API_KEYS_MAX);
    args->api_keys[args->n_api_keys++] = text;
    return -1;
}

static int store_origin(struct args *args, const struct command *command, const char *text) {
    if (args->n_cors_origins == ARGS_ORIGINS_MAX)
        return args_refuse(command, "--cors-origin can be given %d times", ARGS_ORIGINS_MAX);
    args->cors_origins[args->n_cors_origins++] = text;
    return -1;
}

static int store_item(const struct command *command, const struct flag *flag, const char *text,
                      struct args_list *list) {
    if (!*text) return args_refuse(command, "--%s wants a value, not an empty text", flag->name);
    if (list->n == ARGS_PATTERNS_MAX)
        return args_refuse(command, "--%s can be given %d times", flag->name, ARGS_PATTERNS_MAX);
    list->items[list->n++] = text;
    return -1;
}

/* What is given replaces the default, and an earlier list. */
static int store_numbers(const struct command *command, const struct flag *flag, const char *text,
                         struct args_numbers *numbers) {
    numbers->n = 0;
    for (const char *c = text;; c++) {
        char one[24];
        uint64_t number;
        size_t n = strcspn(c, ",");
        if (numbers->n == ARGS_NUMBERS_MAX)
            return args_refuse(command, "--%s takes at most %d numbers", flag->name,
                               ARGS_NUMBERS_MAX);
        snprintf(one, sizeof one, "%.*s", n < sizeof one ? (int)n : (int)sizeof one, c);
        int rc = store_u64(command, flag, one, (uint64_t)flag->max, &number);
        if (rc >= 0) return rc;
        numbers->items[numbers->n++] = (uint32_t)number;
        c += n;
        if (!*c) return -1;
    }
}

/* Puts one value (NULL for a switch) where its row says. -1, or EXIT_USAGE after a message. `text`
 * must outlive args. */
static int store(struct args *args, const struct command *command, const struct flag *flag,
                 const char *text) {
    char *at = (char *)args + flag->offset;
    uint64_t number;
    int rc;
    switch (flag->kind) {
    case KIND_SWITCH: *(bool *)at = true; return -1;
    case KIND_TEXT: memcpy(at, &text, sizeof text); return -1;
    case KIND_WORD:
    case KIND_CHOICE:
        rc = find_choice(flag->choices, text);
        if (rc < 0)
            return args_refuse(command, "--%s is one of %s, not '%.80s'", flag->name, flag->choices,
                               text);
        if (flag->kind == KIND_WORD)
            memcpy(at, &text, sizeof text);
        else
            memcpy(at, &(uint32_t){(uint32_t)rc}, sizeof(uint32_t));
        return -1;
    case KIND_U32:
        rc = store_u64(command, flag, text, (uint64_t)flag->max, &number);
        if (rc < 0) memcpy(at, &(uint32_t){(uint32_t)number}, sizeof(uint32_t));
        return rc;
    case KIND_U64: return store_u64(command, flag, text, (uint64_t)flag->max, (uint64_t *)at);
    case KIND_SEED:
        *((bool *)args + flag->has_offset) = true;
        return store_u64(command, flag, text, UINT64_MAX, (uint64_t *)at);
    case KIND_DOUBLE: return store_double(command, flag, text, (double *)at);
    case KIND_KERNEL: return store_kernel(args, command, text);
    case KIND_LIST: return store_item(command, flag, text, (struct args_list *)(void *)at);
    case KIND_NUMBERS: return store_numbers(command, flag, text, (struct args_numbers *)(void *)at);
    case KIND_API_KEY: return store_api_key(args, command, text);
    case KIND_ORIGIN: return store_origin(args, command, text);
    }
    return -1;
}

_Static_assert(sizeof(enum radish_precision) == sizeof(uint32_t), "KIND_CHOICE writes 4 bytes");
_Static_assert(sizeof(enum radish_kv_dtype) == sizeof(uint32_t), "KIND_CHOICE writes 4 bytes");
_Static_assert(sizeof(enum radish_huge_pages) == sizeof(uint32_t), "KIND_CHOICE writes 4 bytes");
_Static_assert(sizeof(enum radish_numa) == sizeof(uint32_t), "KIND_CHOICE writes 4 bytes");

/* ---- what the line said, for others ---- */

static yyjson_mut_val *list_to_json(yyjson_mut_doc *doc, const char *const *texts, size_t n) {
    yyjson_mut_val *list = yyjson_mut_arr(doc);
    for (size_t i = 0; i < n; i++) yyjson_mut_arr_add_str(doc, list, texts[i]);
    return list;
}

/* A number is null while it is 0 and its row names no default: what it will be is found later. */
static yyjson_mut_val *value_to_json(yyjson_mut_doc *doc, const struct args *args,
                                     const struct flag *flag) {
    const char *at = (const char *)args + flag->offset;
    const struct radish_engine_options *engine = &args->engine;
    uint64_t number = 0;
    double real = 0;
    const char *text = NULL;
    switch (flag->kind) {
    case KIND_SWITCH: return yyjson_mut_bool(doc, *(const bool *)at);
    case KIND_TEXT:
    case KIND_WORD:
        memcpy(&text, at, sizeof text);
        return text ? yyjson_mut_str(doc, text) : yyjson_mut_null(doc);
    case KIND_CHOICE:
        text = flag->choices;
        for (uint32_t i = *(const uint32_t *)(const void *)at; i; i--)
            text += strcspn(text, "|") + 1;
        return yyjson_mut_strn(doc, text, strcspn(text, "|"));
    case KIND_U32: number = *(const uint32_t *)(const void *)at; break;
    case KIND_U64: number = *(const uint64_t *)(const void *)at; break;
    case KIND_SEED:
        if (!*((const bool *)args + flag->has_offset)) return yyjson_mut_null(doc);
        return yyjson_mut_uint(doc, *(const uint64_t *)(const void *)at);
    case KIND_DOUBLE:
        real = *(const double *)(const void *)at;
        return real == 0 && !flag->initial ? yyjson_mut_null(doc) : yyjson_mut_real(doc, real);
    case KIND_KERNEL: return list_to_json(doc, engine->kernels, engine->n_kernels);
    case KIND_ORIGIN: return list_to_json(doc, args->cors_origins, args->n_cors_origins);
    default: return yyjson_mut_null(doc);
    }
    return number == 0 && !flag->initial ? yyjson_mut_null(doc) : yyjson_mut_uint(doc, number);
}

char *args_to_json(const struct args *args, const struct command *command) {
    yyjson_mut_doc *doc = yyjson_mut_doc_new(NULL);
    yyjson_mut_val *root = yyjson_mut_obj(doc);
    bool ok = root != NULL;
    yyjson_mut_doc_set_root(doc, root);
    for (size_t i = 0; ok && i < N_FLAGS; i++) {
        if (!(flags[i].commands & command->bit) || flags[i].kind == KIND_API_KEY) continue;
        yyjson_mut_val *key = yyjson_mut_strcpy(doc, flags[i].name);
        ok = key && yyjson_mut_obj_add(root, key, value_to_json(doc, args, &flags[i]));
        /* The document's own copy of the name. */
        for (char *c = ok ? (char *)(uintptr_t)yyjson_mut_get_str(key) : ""; *c; c++)
            if (*c == '-') *c = '_';
    }
    char *text = ok ? yyjson_mut_write(doc, 0, NULL) : NULL;
    yyjson_mut_doc_free(doc);
    return text;
}

/* ---- help ---- */

enum { HELP_COLUMN = 30, HELP_WIDTH = 96 };

/* Length of the word, or of as many of its choices ("a|b|c") as a line holds. */
static size_t find_piece(const char *word) {
    const size_t length = strcspn(word, " ");
    size_t n = length <= HELP_WIDTH - HELP_COLUMN ? 0 : HELP_WIDTH - HELP_COLUMN;
    while (n > 0 && word[n - 1] != '|') n--;
    return n ? n : length;
}

/* Writes `text` from HELP_COLUMN on, wrapped between words. */
static void print_wrapped(const char *text) {
    size_t column = HELP_COLUMN;
    while (*text) {
        const size_t n = find_piece(text);
        if (column > HELP_COLUMN && column + 1 + n > HELP_WIDTH) {
            printf("\n%*s", HELP_COLUMN, "");
            column = HELP_COLUMN;
        } else if (column > HELP_COLUMN) {
            putchar(' ');
            column++;
        }
        printf("%.*s", (int)n, text);
        column += n;
        text += n + (text[n] == ' ');
    }
    putchar('\n');
}

static void print_flag(const struct flag *flag) {
    char head[80], body[400];
    int n = flag->letter ? snprintf(head, sizeof head, "  -%c, --%s", flag->letter, flag->name)
                         : snprintf(head, sizeof head, "  --%s", flag->name);
    if (flag->arg) n += snprintf(head + n, sizeof head - (size_t)n, " %s", flag->arg);
    const char *fallback = flag->initial ? flag->initial : flag->fallback;
    n = snprintf(body, sizeof body, "%s", flag->help);
    if (flag->choices && strchr(flag->choices, '|'))
        n += snprintf(body + n, sizeof body - (size_t)n, "; %s", flag->choices);
    if (fallback && strcmp(fallback, "-") != 0)
        snprintf(body + n, sizeof body - (size_t)n, " [%s]", fallback);
    printf("%-*s", HELP_COLUMN, head);
    if (strlen(head) >= HELP_COLUMN) printf("\n%*s", HELP_COLUMN, "");
    print_wrapped(body);
}

static void print_help(const struct command *command) {
    printf("usage: radish %s %s\n\n%s\n", command->name, command->args, command->help);
    printf("\nFlags (default in brackets):\n");
    for (size_t i = 0; i < N_FLAGS; i++)
        if (flags[i].commands & command->bit) print_flag(&flags[i]);
    printf("%-*sthis text\n", HELP_COLUMN, "  -h, --help");
}

/* ---- parsing ---- */

enum { VAL_HELP = 1, VAL_FLAG = 2 };

/* popt's array for one command: val = VAL_FLAG + index of the row. */
static void fill_options(const struct command *command, struct poptOption *options_out) {
    size_t n = 0;
    for (size_t i = 0; i < N_FLAGS; i++) {
        if (!(flags[i].commands & command->bit)) continue;
        options_out[n++] = (struct poptOption){
            .longName = flags[i].name,
            .shortName = flags[i].letter,
            .argInfo = flags[i].kind == KIND_SWITCH ? POPT_ARG_NONE : POPT_ARG_STRING,
            .val = VAL_FLAG + (int)i};
    }
    options_out[n++] = (struct poptOption){
        .longName = "help", .shortName = 'h', .argInfo = POPT_ARG_NONE, .val = VAL_HELP};
    options_out[n] = (struct poptOption){.longName = NULL};
}

static int keep(struct args *args, char *text) {
    char **kept = realloc(args->kept, (args->n_kept + 1) * sizeof *kept);
    if (!kept) {
        free(text);
        fputs("radish: out of memory\n", stderr);
        return EXIT_FAILED;
    }
    kept[args->n_kept++] = text;
    args->kept = kept;
    return -1;
}

static int store_defaults(struct args *args, const struct command *command) {
    args->temperature = -1.0;
    args->log_level = RADISH_LOG_WARN;
    for (size_t i = 0; i < N_FLAGS; i++) {
        if (!(flags[i].commands & command->bit) || !flags[i].initial) continue;
        int rc = store(args, command, &flags[i], flags[i].initial);
        if (rc >= 0) return rc;
    }
    return -1;
}

static int refuse_popt(const struct command *command, poptContext context, int rc) {
    const char *typed = poptBadOption(context, 0);
    if (rc == POPT_ERROR_BADOPT) return refuse_unknown(command, typed);
    if (rc == POPT_ERROR_NOARG) return args_refuse(command, "%.80s wants a value behind it", typed);
    if (rc == POPT_ERROR_UNWANTEDARG) return args_refuse(command, "%.80s takes no value", typed);
    return args_refuse(command, "%.80s: %s", typed, poptStrerror(rc));
}

static int read_flags(struct args *args, const struct command *command, poptContext context) {
    int rc;
    while ((rc = poptGetNextOpt(context)) >= 0) {
        if (rc == VAL_HELP) {
            print_help(command);
            return EXIT_DONE;
        }
        const struct flag *flag = &flags[rc - VAL_FLAG];
        char *text = poptGetOptArg(context);
        int stop = text ? keep(args, text) : -1;
        if (stop < 0) stop = store(args, command, flag, text);
        if (stop >= 0) return stop;
    }
    return rc == -1 ? -1 : refuse_popt(command, context, rc);
}

static int read_model(struct args *args, const struct command *command, poptContext context) {
    const char *model = poptGetArg(context);
    if (!model) return command->needs_model ? args_refuse(command, "MODEL is missing") : -1;
    if (!*model) return args_refuse(command, "MODEL is an empty text");
    const char *extra = poptGetArg(context);
    if (extra) return args_refuse(command, "'%.80s' is one argument too many", extra);
    char *copy = strdup(model);
    if (!copy) {
        fputs("radish: out of memory\n", stderr);
        return EXIT_FAILED;
    }
    args->model = copy;
    return keep(args, copy);
}

int args_parse(struct args *args, const struct command *command, int argc, char **argv) {
    struct poptOption options[N_FLAGS + 2];
    memset(args, 0, sizeof *args);
    int rc = store_defaults(args, command);
    if (rc >= 0) return rc;
    fill_options(command, options);
    poptContext context =
        poptGetContext("radish", argc, (const char **)argv, options, POPT_CONTEXT_KEEP_FIRST);
    if (!context) {
        fputs("radish: out of memory\n", stderr);
        return EXIT_FAILED;
    }
    rc = read_flags(args, command, context);
    if (rc < 0) rc = read_model(args, command, context);
    poptFreeContext(context);
    return rc;
}

void args_deinit(struct args *args) {
    for (size_t i = 0; i < args->n_kept; i++) free(args->kept[i]);
    free(args->kept);
    args->kept = NULL;
    args->n_kept = 0;
}
