/* generation.h - what one API request makes the engine do: one engine request per prompt, with n
 * choices each; and the state of its reply.
 *
 * Two sides. The engine's thread appends events to `pending` (exchange's lock). The side that
 * formats (one thread at a time: the connection's HTTP thread) takes them over in one swap. Choices
 * are numbered over all prompts: prompt p's choice j is p * n + j, as OpenAI's API does.
 *
 * Bounds: `pending` of a stream may hold options.stream_bytes_max when an event comes, of a whole
 * reply options.reply_bytes_max; past that the requests are aborted, a line is logged, and the
 * client is told. */
#ifndef SERVER_GENERATION_H
#define SERVER_GENERATION_H

#include "event_log.h"
#include "native_logprobs.h"
#include "openai_logprobs.h"
#include "openai_types.h"
#include "tool_reply.h"

struct exchange;
struct generation;

#define GENERATION_NO_RECORD SIZE_MAX

/* How an API words what a generation says. All work on its formatting side. */
struct reply_format {
    /* Appends the frames ("data: {...}\n\n") that the events in g->log make to g->out, and empties
     * g->log. Events of one choice that came together become one chunk. */
    void (*write_chunks)(struct generation *g);
    /* Appends what ends a stream: the error if there was one ... [DONE]. */
    void (*write_end)(struct generation *g);
    /* Appends the whole reply of a generation that is not streamed; g->log holds all its events. */
    void (*write_body)(struct generation *g, struct buf *out);
};

/* One prompt. Owned by the generation once started. */
struct call {
    struct generation *generation;
    uint32_t first_choice_idx;
    struct radish_request asked; /* all but the prompt; what it points to is borrowed by start */
    char *id;                    /* where it has one of its own, else NULL: the generation's */
    int32_t *ids;                /* [n_ids] until submitted; from radish_tokenize() or malloc() */
    size_t n_ids;                /* stays */
    char *echo_text;             /* [echo_len] the prompt's text, with echo, else NULL */
    size_t echo_len;

    /* Engine side; exchange's lock. */
    uint64_t request;
    bool is_submitted; /* `request` is known */
    uint32_t n_choices_left;
    bool is_abort_asked; /* by /abort_request: an answer that has nothing yet still ends as one */

    /* Formatting side. */
    struct radish_usage usage;          /* the newest; its prompt part is the whole call's */
    struct buf prompt_log;              /* the prompt's logprobs, one record, or empty */
    bool has_token_text;                /* native: logprobs name their tokens */
    struct native_logprobs prompt_said; /* native: of prompt_log, made once */
};

struct choice {
    bool is_begun; /* its first chunk is written */
    uint32_t output_tokens;
    struct openai_cursor cursor; /* for text_offset */
    size_t first_offset;         /* in the log being written, or GENERATION_NO_RECORD */
    size_t last_offset;
    /* Native chunks say all that came so far. */
    struct buf text, ids; /* ids: comma-separated */
    struct native_logprobs said;
};

struct generation {
    struct exchange *ex;
    const struct reply_format *format;
    enum api_shape shape;
    uint64_t begun_ns; /* clock_ns() */
    bool is_streamed, has_usage_chunk, has_usage_in_chunks, has_logprobs, has_specials;
    uint32_t n; /* choices per prompt */
    uint32_t n_calls;
    uint32_t n_choices;              /* n * n_calls */
    struct call *calls;              /* [n_calls] */
    struct choice *choices;          /* [n_choices] formatting side */
    struct tool_reply *tool_replies; /* [n_choices] formatting side; NULL: calls stay text */
    bool is_list;                    /* native: the reply is a list, and chunks carry an index */
    char *id;                        /* of the reply: the client's rid, or made up */
    char *head; /* OpenAI: "id":...,"object":...,"created":...,"model":..., of every object */

    /* Engine side; exchange's lock. */
    struct buf pending;
    uint32_t n_choices_left;
    uint32_t n_tokens_unsent; /* since the connection was last woken */
    bool is_due;              /* enough is pending for a chunk: --stream-interval */
    bool has_event;
    bool has_tokens;
    bool is_abort_wanted;
    enum radish_status failure; /* the first: refuses the reply, or ends the stream with an error */

    /* Formatting side. */
    struct buf log;    /* events taken over */
    struct buf out;    /* bytes to send */
    size_t out_sent;   /* of out */
    size_t said_bytes; /* native: kept by the choices of a stream */
    bool is_too_large; /* more than is kept for a client: why it failed */
    bool is_placed;    /* the choices' text_offset is behind the echoed prompt */
    bool is_ended;     /* the last frame is in `out` */
};

/* Allocates for n_calls prompts, each asked what params ask; the caller fills calls[].ids, and echo
 * or what differs from call to call, then starts. */
struct generation *generation_create(struct exchange *ex, const struct reply_format *format,
                                     enum api_shape shape, const struct openai_params *params,
                                     size_t n_calls);
void generation_destroy(struct generation *g); /* NULL is fine */

/* Before start: tool calls in the text are told as such, where the server knows how this model
 * writes them. False: out of memory. */
bool generation_read_tools(struct generation *g);

/* Puts the generation into its exchange and submits every call. On failure nothing runs any more
 * (what was submitted is aborted). */
enum radish_status generation_start(struct generation *g,
                                    struct radish_error *err) RADISH_CHECK_RESULT;

/* The HTTP code of g->failure, and the sentence that tells the client. */
int generation_failure(const struct generation *g, const char **message_out);

/* Ends every call within one step. Any thread, also the engine's; no exchange's lock held. */
void generation_abort(struct generation *g);

/* The same for what an id names: the generation's own all of it, a call's that call. Each ends as
 * an answer, be it an empty one. False: no such id, or it has ended. */
bool generation_abort_id(struct generation *g, const char *id);

/* The same for all of it, whatever its ids. False: it has ended. */
bool generation_abort_all(struct generation *g);

#endif
