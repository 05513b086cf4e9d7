/* radish.h - the public interface of libradish: a language-model engine in one process.
 *
 * Three objects. A *model* is an opened model file: metadata, tokenizer, chat template; cheap to
 * open, immutable, usable from any thread. A *template* is a chat template on its own. An *engine*
 * holds the weights, the KV pool and the thread that computes; requests are submitted to it from
 * any thread and answer through callbacks.
 *
 * Memory: what a function gives out is "borrowed until X" or "caller frees with radish_free()"; the
 * comments say which. Inputs are copied unless a comment says otherwise. Errors: every function
 * that can fail returns enum radish_status; with a struct radish_error it also says why, in one
 * line. On failure outputs are NULL or 0 and nothing else has changed. err may be NULL everywhere.
 * Threads: everything may be called from any thread, except that callbacks run on the engine's
 * thread and must not block, nor call radish_engine_close(). */
#ifndef RADISH_H
#define RADISH_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

#define RADISH_VERSION "0.1.0"

#if defined(__GNUC__)
#define RADISH_API                      __attribute__((visibility("default")))
#define RADISH_CHECK_RESULT             __attribute__((warn_unused_result))
#define RADISH_PRINTF(fmt_idx, arg_idx) __attribute__((format(printf, fmt_idx, arg_idx)))
#else
#define RADISH_API
#define RADISH_CHECK_RESULT
#define RADISH_PRINTF(fmt_idx, arg_idx)
#endif

/* ---- status ---- */

/* X(enum value, HTTP code, sentence) */
#define RADISH_STATUS_TABLE(X)                                                                     \
    X(RADISH_OK, 200, "done")                                                                      \
    X(RADISH_AGAIN, 503, "not now: a queue is full or the server is stopping; try again later")    \
    X(RADISH_E_INVALID, 400, "an argument or a field is not acceptable")                           \
    X(RADISH_E_UNSUPPORTED, 400, "this is valid but not supported")                                \
    X(RADISH_E_LIMIT, 400, "a limit is exceeded")                                                  \
    X(RADISH_E_TEMPLATE, 400, "the chat template failed on this conversation")                     \
    X(RADISH_E_NOT_FOUND, 404, "not found")                                                        \
    X(RADISH_E_FORMAT, 500, "a file is broken or not of the expected format")                      \
    X(RADISH_E_IO, 500, "reading or writing failed")                                               \
    X(RADISH_E_NOMEM, 500, "memory is exhausted, or a memory plan does not fit")                   \
    X(RADISH_E_DEVICE, 500, "the compute device failed")                                           \
    X(RADISH_E_ABORTED, 499, "the request was aborted")                                            \
    X(RADISH_E_TIMEOUT, 408, "the request took too long")                                          \
    X(RADISH_E_INTERNAL, 500, "a bug in radish")

enum radish_status {
#define RADISH_STATUS_ENUM(name, http, sentence) name,
    RADISH_STATUS_TABLE(RADISH_STATUS_ENUM)
#undef RADISH_STATUS_ENUM
};

/* Why something failed: one line for a person. `field` names the request field, flag, tensor or
 * file part at fault, or is "". */
struct radish_error {
    enum radish_status status;
    uint64_t offset; /* byte offset in the input, where one is known, else 0 */
    char field[64];
    char msg[320];
};

RADISH_API const char *radish_status_name(
    enum radish_status status); /* "RADISH_E_FORMAT"; static */
RADISH_API const char *radish_status_sentence(enum radish_status status); /* static */
RADISH_API int radish_status_http(enum radish_status status);

/* Releases what "caller frees with radish_free()" names. NULL is fine. */
RADISH_API void radish_free(void *p);

enum radish_log_level {
    RADISH_LOG_DEBUG,
    RADISH_LOG_INFO,
    RADISH_LOG_WARN,
    RADISH_LOG_ERROR,
    RADISH_LOG_OFF
};

/* Log lines below `level` are dropped. Default: RADISH_LOG_WARN, to stderr. */
RADISH_API void radish_log_set_level(enum radish_log_level level);

/* ---- model ---- */

struct radish_model;

struct radish_model_options {
    const char
        *chat_template_path; /* a Jinja file that replaces the model's own template, or NULL */
    const char *chat_template_name; /* for models with several named templates; NULL = "default" */
};

struct radish_model_info {
    const char *path;         /* as given, or as found in the model cache */
    const char *name;         /* last part of the path, without .gguf: the default served name */
    const char *format;       /* "safetensors", "gguf", or "tokenizer" when there are no weights */
    const char *architecture; /* "llama", "qwen3", ...; "" when there are no weights */
    const char *hf_class, *hf_type; /* what config.json calls it: "LlamaForCausalLM", "llama"; NULL
                                       when there are no weights */
    uint32_t context_trained;       /* tokens, scaling included; 0 when unknown */
    uint32_t n_vocab;               /* rows of the logits; 0 when there are no weights */
    uint32_t n_tokens;              /* ids the tokenizer knows */
    uint32_t token_bytes_max;       /* of the longest token */
    bool has_chat_template;
    const char *chat_template_error; /* why the model's own template cannot be used, or "" */
    const char *chat_template;       /* its source, in Jinja; NULL when there is none */
    uint64_t weight_bytes;
};

/* Opens a Hugging Face folder, a .gguf file (or the first of a split one), or a name in the model
 * cache. Reads metadata, tokenizer and template; weights are only mapped. options may be NULL.
 * E_NOT_FOUND, E_IO, E_FORMAT, E_UNSUPPORTED. */
RADISH_API RADISH_CHECK_RESULT enum radish_status radish_model_open(
    const char *path, const struct radish_model_options *options, struct radish_model **model_out,
    struct radish_error *err);
RADISH_API void radish_model_close(
    struct radish_model *model); /* after every engine on it; NULL is fine */
RADISH_API const struct radish_model_info *radish_model_info(
    const struct radish_model *model); /* borrowed until close */

/* ---- text ---- */

#define RADISH_TOKENIZE_SPECIAL 1u /* add what the post-processor adds (BOS ...) */
#define RADISH_DETOKENIZE_SKIP  1u /* leave special tokens out */

/* text[0..len) is UTF-8 (E_INVALID otherwise, with the offset). ids_out: caller frees with
 * radish_free(); never NULL on success. */
RADISH_API RADISH_CHECK_RESULT enum radish_status radish_tokenize(const struct radish_model *model,
                                                                  const char *text, size_t len,
                                                                  unsigned flags, int32_t **ids_out,
                                                                  size_t *n_out,
                                                                  struct radish_error *err);

/* text_out: UTF-8 with a NUL behind it, caller frees with radish_free(). Bytes that are no UTF-8
 * become U+FFFD. An id that the model lacks: E_INVALID. */
RADISH_API RADISH_CHECK_RESULT enum radish_status radish_detokenize(
    const struct radish_model *model, const int32_t *ids, size_t n, unsigned flags, char **text_out,
    size_t *len_out, struct radish_error *err);

/* The bytes that one token stands for in running text (special tokens: their name), borrowed until
 * the model closes; not necessarily valid UTF-8. NULL for an unknown id. */
RADISH_API const char *radish_token_bytes(const struct radish_model *model, int32_t id,
                                          size_t *len_out);

/* A token as its vocabulary writes it ("\u0120upon", "\u2581upon"), UTF-8, borrowed until the model
 * closes. NULL for an unknown id. */
RADISH_API const char *radish_token_name(const struct radish_model *model, int32_t id,
                                         size_t *len_out);

struct radish_render_options {
    const char *now; /* "2026-11-29T00:00:00" fixes what strftime_now sees; NULL = the clock */
};

/* Renders the model's chat template over a JSON object of variables: messages, tools,
 * add_generation_prompt, documents, ... and any further ones (chat_template_kwargs are merged by
 * the caller). bos_token, eos_token ... are set from the model unless given. With adapt, messages
 * as the API has them are brought into the form that this template reads: text parts are joined (or
 * a text becomes a part), "developer" is "system" where the template has no such role, arguments of
 * tool calls become a mapping (or text), absent tools and documents none. text_out: caller frees
 * with radish_free(). E_INVALID (bad JSON, parts that are no text), E_TEMPLATE (raised by the
 * template), E_NOT_FOUND (no template). */
RADISH_API RADISH_CHECK_RESULT enum radish_status radish_render(
    const struct radish_model *model, const char *json, size_t json_len, bool adapt,
    const struct radish_render_options *options, char **text_out, size_t *len_out,
    struct radish_error *err);

/* The same with a template given as source text; the object must hold every variable. */
RADISH_API RADISH_CHECK_RESULT enum radish_status radish_render_source(
    const char *source, size_t source_len, const char *json, size_t json_len,
    const struct radish_render_options *options, char **text_out, size_t *len_out,
    struct radish_error *err);

/* ---- engine ---- */

struct radish_engine;

enum radish_precision { RADISH_PRECISION_FAST, RADISH_PRECISION_EXACT };
enum radish_kv_dtype { RADISH_KV_AUTO, RADISH_KV_F32, RADISH_KV_F16, RADISH_KV_BF16 };

/* Huge pages for weights, KV pool and scratch: where the system gives them; or not without; or not.
 */
enum radish_huge_pages { RADISH_HUGE_PAGES_AUTO, RADISH_HUGE_PAGES_ON, RADISH_HUGE_PAGES_OFF };
/* Where memory lies on machines with several NUMA nodes: the system's choice; or on all in turn. */
enum radish_numa { RADISH_NUMA_NONE, RADISH_NUMA_INTERLEAVE };

#define RADISH_KERNEL_OVERRIDES_MAX 16

struct radish_kv_event;

/* Zero-initialise, then set what differs. 0 or NULL means the default in brackets. */
struct radish_engine_options {
    const char *device; /* ["cpu"] */
    uint32_t
        n_threads; /* [physical cores allowed; all of them where the machine shows 2 or fewer] */
    enum radish_precision precision; /* [fast] */
    enum radish_kv_dtype kv_dtype;   /* [auto: f32 in exact, bf16 for bf16 models, else f16] */
    /* [none: as the file has them] what weights in f32, f16 or bf16 become while they are loaded:
     * q8_0, q6_k, q5_k, q5_1, q5_0, q4_k, q4_1 or q4_0; "none" as NULL. */
    const char *quantization;
    const char
        *kernels[RADISH_KERNEL_OVERRIDES_MAX]; /* "OP=VARIANT", as --kernel; n_kernels of them */
    uint32_t n_kernels;
    enum radish_huge_pages huge_pages; /* [auto] */
    enum radish_numa numa;             /* [none] */
    uint32_t context_tokens;           /* [min(trained length, what fits)] */
    double mem_fraction_static;        /* [0.5] of the memory that weights and scratch leave */
    uint64_t kv_tokens_max;            /* KV slots, instead of the fraction */
    uint32_t page_tokens;              /* [1] */
    uint32_t requests_running_max;     /* [256] sequences */
    uint32_t requests_queued_max;      /* [1024] */
    uint32_t chunk_tokens;             /* [512] prefill tokens a step */
    uint32_t prefill_tokens_max;       /* [16384] prompt tokens admitted and not yet computed */
    bool is_overlap_off;               /* a step is begun when the one before has ended */
    bool is_cache_off;                 /* every request computes all of its prompt */
    const char *eviction_policy;       /* ["lru"], lfu, fifo, mru, filo, slru, priority */
    const char *schedule_policy;       /* ["lpm"], fcfs, dfs-weight, lof, random, hrrn */
    double schedule_conservativeness;  /* [1] higher expects longer answers: fewer are retracted */
    bool has_priorities;               /* requests of higher priority first, preempting */
    int32_t stall_ms_max; /* [250] longest gap between two tokens of a stream; -1: no bound */
    double request_timeout_seconds; /* [none] */
    uint32_t decode_log_interval;   /* [40] steps */
    uint64_t seed; /* [from the clock] for requests without a seed; has_seed tells */
    bool has_seed;
    bool explains_misses;  /* says in the log, and keeps, why no more of a prompt was cached */
    uint32_t shadow_check; /* [never] of so many requests with cached tokens one is computed again
                              without them, and the bits of its first logits are compared */
    /* Loading progress: done of total bytes; called on the opening thread. May be NULL. */
    void (*on_progress)(void *user, uint64_t bytes_done, uint64_t bytes_total);
    void *progress_user;
    /* What joins and leaves the prefix cache, told after each step in which something did, on the
     * engine's thread; events are borrowed until return. struct radish_kv_event: radish_report.h.
     * NULL: nobody wants to know, and nothing is kept for it. */
    void (*on_kv_events)(void *user, const struct radish_kv_event *events, size_t n_events);
    void *kv_events_user;
};

/* Loads weights, sizes the KV pool, starts the engine's thread. The model must outlive the engine.
 * E_NOMEM names need, have and the flag to change; E_UNSUPPORTED names the layer and the operation.
 */
RADISH_API RADISH_CHECK_RESULT enum radish_status radish_engine_open(
    struct radish_model *model, const struct radish_engine_options *options,
    struct radish_engine **engine_out, struct radish_error *err);

/* Aborts what runs, waits for the engine's thread, frees everything. Every submitted request gets
 * its final event first. No other thread may be inside a call on this engine. */
RADISH_API void radish_engine_close(struct radish_engine *engine);

/* ---- requests ---- */

struct radish_logit_bias {
    int32_t id;
    float bias;
};

/* How tokens are chosen. radish_sampling_init() gives greedy-free neutral defaults;
 * radish_model_sampling() those of the model's generation_config. Limits are checked by
 * radish_engine_submit(): see docs/API.md. Order: penalties, then logit_bias on the logits,
 * min_tokens mask, temperature, top_k, top_p, min_p, draw. */
struct radish_sampling {
    float temperature;        /* [0, inf); below 1e-6: greedy */
    int32_t top_k;            /* -1 = all, else >= 1 */
    float top_p;              /* (0, 1] */
    float min_p;              /* [0, 1] */
    float repetition_penalty; /* (0, 2]; over prompt and output */
    float presence_penalty;   /* [-2, 2]; over output only */
    float frequency_penalty;  /* [-2, 2]; over output only */
    uint64_t seed;            /* used if has_seed; sibling i of n samples with seed + i */
    bool has_seed;
    const struct radish_logit_bias *logit_bias; /* [n_logit_bias] */
    uint32_t n_logit_bias;
};

RADISH_API void radish_sampling_init(
    struct radish_sampling *sampling); /* temperature 1, top_k -1, top_p 1, no penalty */
RADISH_API void radish_model_sampling(const struct radish_model *model,
                                      struct radish_sampling *sampling);

struct radish_logprob {
    int32_t id;
    float logprob; /* of the model's own distribution: before bias, penalties, temperature */
};

/* One token of output (or of the prompt, for prompt_logprobs). */
struct radish_token {
    int32_t id;
    float logprob;                    /* 0 unless logprobs were asked for */
    const struct radish_logprob *top; /* [n_top] best first; borrowed until the callback returns */
    uint32_t n_top;
    const struct radish_logprob *named; /* [n_named] of logprob_ids, in their order; borrowed */
    uint32_t n_named;
    bool has_logprob; /* false for the first of the prompt's tokens, which no row tells of */
};

enum radish_finish {
    RADISH_FINISH_NONE,   /* still running */
    RADISH_FINISH_STOP,   /* an end token or a stop string */
    RADISH_FINISH_LENGTH, /* max_new_tokens or the context */
    RADISH_FINISH_ABORT,  /* aborted, timed out, or the engine closes */
    RADISH_FINISH_ERROR   /* status says why */
};

struct radish_usage {
    uint32_t prompt_tokens;
    uint32_t cached_tokens; /* of the prompt, not computed for this request */
    uint32_t output_tokens;
    uint32_t retractions; /* times that its slots were taken away and it was computed again */
};

/* What a request tells: new tokens and text of one choice, and at its end the reason. Every choice
 * gets exactly one event with finish != NONE; after the last choice's, the request is gone. Text is
 * whole characters; what may be the start of a stop string is held back, so tokens can come before
 * their text. */
struct radish_event {
    uint64_t request;
    uint32_t choice_idx;
    const struct radish_token
        *tokens; /* [n_tokens] new output tokens; borrowed until the callback returns */
    uint32_t n_tokens;
    const char *text; /* [text_len] new text, UTF-8, not NUL-terminated; borrowed until the callback
                         returns */
    size_t text_len;
    enum radish_finish finish;
    enum radish_status status; /* with FINISH_ABORT and FINISH_ERROR: why */
    int32_t matched_token;     /* with FINISH_STOP: the end token, or -1 */
    const char *matched_stop;  /* with FINISH_STOP: the stop string, or NULL; borrowed */
    struct radish_usage usage;
    const struct radish_token
        *prompt_tokens; /* [n_prompt_tokens] with prompt_logprobs, once, before the first output:
                           those from prompt_logprobs_from on */
    uint32_t n_prompt_tokens;
};

struct radish_request {
    const int32_t *prompt; /* [n_prompt] ids, n_prompt >= 1 */
    size_t n_prompt;
    struct radish_sampling sampling;
    uint32_t n;              /* choices; 0 = 1 */
    bool has_max_new_tokens; /* false: the rest of the context */
    uint32_t max_new_tokens; /* 0 is allowed: the prompt is computed, nothing is sampled */
    uint32_t min_new_tokens;
    const char *const
        *stop; /* [n_stop] strings; the match is not part of the text unless include_stop */
    uint32_t n_stop;
    bool include_stop;
    const int32_t *stop_ids; /* [n_stop_ids] */
    uint32_t n_stop_ids;
    bool ignore_eos;          /* the model's end tokens do not end; stop_ids still do */
    bool keep_special_tokens; /* special tokens appear in the text */
    const int32_t *shown_ids; /* [n_shown_ids] these do in any case; at most RADISH_SHOWN_IDS_MAX */
    uint32_t n_shown_ids;
    bool logprobs;
    uint32_t n_top_logprobs;    /* <= 20 */
    const int32_t *logprob_ids; /* [n_logprob_ids] whose logprobs every row tells, with logprobs */
    uint32_t n_logprob_ids;
    bool prompt_logprobs;
    /* Rows of the prompt from here on are computed, the ones before may come from the cache. A row
     * tells of the token behind it, so the token at this position has no logprob. <= n_prompt. */
    uint32_t prompt_logprobs_from;
    int32_t priority;  /* higher first, with has_priorities */
    bool is_cache_off; /* neither uses nor feeds the cache */
    bool is_streamed;  /* told by the figures of requests, and nothing else */
    bool is_uncounted; /* somebody looks whether the engine works: in no figure of requests and
                          tokens */
    /* Prefixes are shared only between requests whose namespaces are equal, byte by byte. Two
     * fields in one key need tags and lengths, or they run into each other. NULL, 0: the common
     * one. */
    const void *namespace_key; /* [namespace_len] */
    size_t namespace_len;
    /* Called for every event, on the engine's thread. */
    void (*on_event)(void *user, const struct radish_event *event);
    /* If set: the model's raw logits of every prompt row from logits_from on, in order: rows [row,
     * row + n_rows) of [n_prompt, n_vocab] float32. Borrowed until return. Those rows are computed,
     * the ones before may come from the cache. */
    uint32_t logits_from;
    void (*on_logits)(void *user, size_t row, size_t n_rows, size_t n_vocab, const float *logits);
    void *user;
};

#define RADISH_CHOICES_MAX      128
#define RADISH_NAMESPACE_MAX    4096
#define RADISH_STOP_MAX         16
#define RADISH_STOP_BYTES_MAX   256
#define RADISH_STOP_IDS_MAX     64
#define RADISH_LOGIT_BIAS_MAX   1024
#define RADISH_TOP_LOGPROBS_MAX 20
#define RADISH_LOGPROB_IDS_MAX  64
#define RADISH_SHOWN_IDS_MAX    8

/* Checks and queues a request; copies everything it points to. E_INVALID, E_LIMIT name the field;
 * AGAIN: the queue is full. request_out names the request until its last event. Events may come
 * before this returns. */
RADISH_API RADISH_CHECK_RESULT enum radish_status radish_engine_submit(
    struct radish_engine *engine, const struct radish_request *request, uint64_t *request_out,
    struct radish_error *err);

/* Ends a request in whatever phase it is, within one step; its choices still get their final event.
 * Unknown or ended ids are fine. */
RADISH_API void radish_engine_abort(struct radish_engine *engine, uint64_t request);
RADISH_API void radish_engine_abort_all(struct radish_engine *engine);

/* A report for a person: the machine, the kernels chosen and why, the bit class and, with a model,
 * its memory plan. model may be NULL. text_out: caller frees with radish_free(). */
RADISH_API RADISH_CHECK_RESULT enum radish_status radish_info_text(
    struct radish_model *model, const struct radish_engine_options *options, char **text_out,
    struct radish_error *err);

#ifdef __cplusplus
}
#endif
#endif
