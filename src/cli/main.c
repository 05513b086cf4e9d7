/* main.c - the program radish: finds the command, reads its flags, runs it.
 *
 * The command is argv[1], looked up in the table below before popt sees the line, so each command
 * has flags and help of its own. Everything a command prints as its result goes to stdout, all else
 * to stderr; the exit status is 0 (done), 1 (failed) or 2 (wrong usage). SIGPIPE is ignored: a
 * reader that goes away shows as a failed write, which ends in a message and status 1, not in
 * silence.
 *
 * Where to read next: args.c for the flags, cmd_serve.c for the server's life. */
#include "command.h"

#include <locale.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>

static const struct command commands[] = {
    {"serve", COMMAND_SERVE, "MODEL [flags]", true,
     "serve a model through an OpenAI-compatible API",
     "Loads MODEL (a Hugging Face folder, a .gguf file, or a name in the model cache) and answers\n"
     "HTTP requests: /v1/chat/completions, /v1/completions, /v1/models, /health. When it is ready "
     "it\n"
     "says 'listening on http://HOST:PORT' on stderr. SIGTERM or Ctrl-C ends it in order: new "
     "requests\n"
     "are answered 503, running ones may finish within the grace time. A second signal ends it at "
     "once.",
     cmd_serve},
    {"chat", COMMAND_CHAT, "MODEL [flags]", true, "talk with a model in the terminal",
     "A conversation: type a message, press Enter. Ctrl-C stops an answer, Ctrl-D leaves. Lines "
     "that\n"
     "begin with / are commands: /help lists them. Without a terminal each line of stdin is a "
     "message.",
     cmd_chat},
    {"run", COMMAND_RUN, "MODEL -p TEXT [flags]", true, "continue a text once and exit",
     "Lets the model continue TEXT as it stands, without a chat template (for a conversation: "
     "radish\n"
     "chat), and prints the continuation.",
     cmd_run},
    {"tokenize", COMMAND_TOKENIZE, "MODEL [flags] < text", true, "turn text into token ids",
     "Reads text from stdin and prints its token ids as one JSON array. Needs only the model's\n"
     "tokenizer files. With --jsonl each line is a JSON string and is answered by one array.",
     cmd_tokenize},
    {"detokenize", COMMAND_DETOKENIZE, "MODEL [flags] < '[1,2]'", true, "turn token ids into text",
     "Reads a JSON array of token ids from stdin and prints the text. With --jsonl each line is "
     "an\n"
     "array and is answered by one JSON string.",
     cmd_detokenize},
    {"render", COMMAND_RENDER, "[MODEL] [flags] < '{\"messages\": [...]}'", false,
     "show the text that a chat template makes",
     "Reads a JSON object with messages, tools, add_generation_prompt ... from stdin and prints "
     "the\n"
     "template's text. With --template FILE, MODEL may be left out: then the object holds every\n"
     "variable, bos_token included. With --jsonl each line is such an object and is answered by\n"
     "{\"text\": ...} or {\"error\": ...}.",
     cmd_render},
    {"logits", COMMAND_LOGITS, "MODEL --tokens 1,2,3 --out FILE [flags]", true,
     "write the model's logits of a prompt to a file",
     "Computes the prompt through the same engine that serves and writes float32 logits [tokens,\n"
     "vocabulary] as tensor 'logits' of a safetensors file. Its metadata says cached_tokens, "
     "steps,\n"
     "threads, precision and kernels.",
     cmd_logits},
    {"inspect", COMMAND_INSPECT, "MODEL [--tensor NAME --out FILE]", true,
     "show what is in a model file",
     "Prints metadata and tensors of a Hugging Face folder or a .gguf file. With --tensor it "
     "writes\n"
     "that tensor as raw little-endian float32, dequantised, to --out.",
     cmd_inspect},
    {"info", COMMAND_INFO, "[MODEL] [flags]", false,
     "show the machine, the kernels and the memory plan",
     "Prints what was found of the CPU, which kernel was chosen for each operation and why, and, "
     "with\n"
     "a MODEL, how memory would be used.",
     cmd_info},
    {"pull", COMMAND_PULL, "ORG/NAME[@REVISION][:QUANT] [flags]", true,
     "fetch a model from a Hugging Face hub",
     "Fetches what is needed to serve the model into the model cache and prints its folder; then\n"
     "ORG/NAME is a MODEL for every command. Of several GGUF models, :QUANT says which. An\n"
     "interrupted pull goes on where it stopped; a finished one only checks. HF_ENDPOINT, "
     "HF_TOKEN\n"
     "(or the token that 'hf auth login' stored), HF_HUB_OFFLINE and https_proxy are heeded.",
     cmd_pull},
    {"list", COMMAND_LIST, "[flags]", false, "show the models in the model cache",
     "Prints name, size and path of each model in the model cache, and of those that the\n"
     "huggingface_hub package has downloaded (its cache is only read).",
     cmd_list},
    {"bench", COMMAND_BENCH, "NAME [flags]", false, "measure radish, a part of it, or any server",
     "Prints figures as a table or as JSON lines. NAME is:\n\n"
     "  one-batch MODEL   prefill and decode of one batch, without server and scheduler\n"
     "  serving           latency, throughput and hit rate of a server under load (any that "
     "speaks\n"
     "                    OpenAI's API)\n"
     "  radix             the prefix tree: match, insert, evict at 1,000 to 1,000,000 nodes\n"
     "  sched             the scheduler: a step with 1, 32, 256 sequences running\n"
     "  kernels           every operation beside the limits of this machine; rope_kv_store fused\n"
     "                    and unfused\n\n"
     "'radish bench one-batch --help' and 'radish bench serving --help' show their own flags.",
     cmd_bench},
    {"bench one-batch", COMMAND_BENCH_ONE_BATCH, "MODEL [flags]", true,
     "measure prefill and decode of one batch",
     "Computes a batch of prompts and their answers through model and KV pool, without server,\n"
     "scheduler or prefix tree, for every combination of the lengths given. Prints the lines of\n"
     "SGLang's bench_one_batch, or with --json one object for each combination.",
     cmd_bench_one_batch},
    {"bench serving", COMMAND_BENCH_SERVING, "--url URL [flags]", false,
     "measure a server under load",
     "Sends a workload to a server that speaks OpenAI's API (radish, llama-server, vLLM, SGLang,\n"
     "Ollama ...) and prints latencies, throughput and the hit rate of its prefix cache, beside "
     "the\n"
     "rate that a cache without limits would have. With several --url the servers take turns.\n\n"
     "Workloads:\n"
     "  random         no two requests share anything\n"
     "  shared-prefix  --groups prefixes with --prompts-per-group requests each, shuffled\n"
     "  multi-turn     --groups conversations of --prompts-per-group turns that grow with the\n"
     "                 server's answers\n"
     "  agent-tree     --groups trunks; each answer is continued --fan-out times, --depth levels\n"
     "  cold-fan-out   --num-prompts requests with one trunk nobody has computed, all at once\n"
     "  trace          the requests of --trace FILE\n\n"
     "Exit status 1 when a request failed, unless --allow-errors.",
     cmd_bench_serving},
};

enum { N_COMMANDS = sizeof commands / sizeof *commands };

const struct command *command_by_name(const char *name) {
    for (size_t i = 0; i < N_COMMANDS; i++)
        if (!strcmp(commands[i].name, name)) return &commands[i];
    return NULL;
}

const struct command *command_by_bit(unsigned bit) {
    for (size_t i = 0; i < N_COMMANDS; i++)
        if (commands[i].bit == bit) return &commands[i];
    return &commands[0];
}

static void print_help(FILE *out) {
    fputs("radish " RADISH_VERSION " - a language-model server\n\n"
          "usage: radish COMMAND MODEL [flags]\n\nCommands:\n",
          out);
    for (size_t i = 0; i < N_COMMANDS; i++)
        if (!strchr(commands[i].name, ' '))
            fprintf(out, "  %-12s%s\n", commands[i].name, commands[i].summary);
    fputs("\nMODEL is a Hugging Face folder, a .gguf file, or a name in the model cache\n"
          "($RADISH_CACHE, else ~/.cache/radish/models), like ORG/NAME or ORG/NAME:Q4_K_M.\n\n"
          "  radish COMMAND --help     the flags of a command\n"
          "  radish --version\n\n"
          "Try: radish chat MODEL, or radish serve MODEL and any OpenAI client.\n",
          out);
}

/* The command that argv[1] names, or argv[1] and argv[2] together ("bench serving"), with the
 * number of words that its name took. NULL: there is none. */
static const struct command *find_command(int argc, char **argv, int *n_words_out) {
    char both[64];
    *n_words_out = 2;
    snprintf(both, sizeof both, "%.30s %.30s", argv[1], argc > 2 ? argv[2] : "");
    const struct command *command = argc > 2 ? command_by_name(both) : NULL;
    if (command) return command;
    *n_words_out = 1;
    return command_by_name(argv[1]);
}

static int refuse_command(const char *name) {
    const char *best = NULL;
    unsigned best_edits = 2;
    for (size_t i = 0; i < N_COMMANDS; i++) {
        unsigned edits = args_distance(name, commands[i].name);
        if (edits <= best_edits) best = commands[i].name, best_edits = edits ? edits - 1 : 0;
    }
    if (best) return args_refuse(NULL, "unknown command '%.80s'; did you mean %s?", name, best);
    return args_refuse(NULL, "unknown command '%.80s'", name);
}

int main(int argc, char **argv) {
    setlocale(LC_CTYPE, "");
    signal(SIGPIPE, SIG_IGN);
    if (argc < 2) {
        print_help(stderr);
        return EXIT_USAGE;
    }
    const char *name = argv[1];
    if (!strcmp(name, "--help") || !strcmp(name, "-h") || !strcmp(name, "help")) {
        print_help(stdout);
        return fflush(stdout) ? EXIT_FAILED : EXIT_DONE;
    }
    if (!strcmp(name, "--version") || !strcmp(name, "version")) {
        puts("radish " RADISH_VERSION);
        return fflush(stdout) ? EXIT_FAILED : EXIT_DONE;
    }
    int n_words;
    const struct command *command = find_command(argc, argv, &n_words);
    if (!command) return refuse_command(name);

    struct args args;
    int rc = args_parse(&args, command, argc - 1 - n_words, argv + 1 + n_words);
    if (rc < 0) {
        radish_log_set_level((enum radish_log_level)args.log_level);
        rc = command->run(&args);
    }
    args_deinit(&args);
    if (fflush(stdout) && rc == EXIT_DONE) rc = command_fail("cannot write to stdout");
    return rc;
}
