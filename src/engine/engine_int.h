/* engine_int.h - the inside of struct radish_engine, for engine/ and its tests.
 *
 *   callers' threads         | lock |        the engine's thread
 *   radish_engine_submit --> inbox ---+
 *   radish_engine_abort ---> aborts --+--> hand_over(), once a step
 *   radish_engine_info <---- info <---+      sched -> runner -> sampling -> output.c -> events
 *   engine_ask -----------> asks -----+      whatever is asked, between two steps (engine_ask.c)
 *
 * A request's memory is one arena, made by the thread that submits, freed by the engine's thread
 * after the last event. Requests live in a table; a request's id names its cell and is never
 * reused:
 *
 *   id = count * table_size + cell      find is one comparison; a stale id finds nothing
 *
 * Request: INBOX -> LIVE (its choices are with the scheduler) -> DEAD (all ended) -> freed
 *
 * Of n choices only the first is given to the scheduler at once. All sample their first token from
 * its logits; then the others follow, and find the whole prompt in the tree. */
#ifndef ENGINE_ENGINE_INT_H
#define ENGINE_ENGINE_INT_H

#include "radish_report.h"

#include "base/arena.h"
#include "base/buf.h"
#include "engine/figures.h"
#include "engine/kv_events.h"
#include "engine/model_int.h"
#include "engine/namespace.h"
#include "engine/plan.h"
#include "engine/radix_watch.h"
#include "engine/shadow.h"
#include "kernel/kernel.h"
#include "metrics/metrics.h"
#include "model/runner.h"
#include "model/weights.h"
#include "sample/sampler.h"
#include "sched/sched.h"
#include "text/detok_stream.h"
#include "text/stop_match.h"

#include <pthread.h>

struct engine_request;

/* Rows of one block of logits, with all choices that may start from them. */
#define ENGINE_ROWS_MAX (RUNNER_LOGITS_ROWS * RADISH_CHOICES_MAX)

/* One of n answers. Its sequence is the scheduler's view of it. */
struct engine_choice {
    struct sched_seq seq; /* seq.user = this choice */
    struct engine_request *request;
    uint32_t idx;
    bool is_done; /* its final event has been sent */
    uint64_t seed;
    int32_t *output;   /* [max_new_tokens] */
    uint32_t n_output; /* sampled; seq.n_output of them are with the scheduler */
    uint64_t last_token_ns;
    struct detok_stream *detok;
    struct stop_match *stop; /* NULL: no stop strings */
};

struct engine_request {
    struct arena arena;      /* holds this struct's arrays */
    struct radish_request r; /* what it points to is in the arena */
    uint64_t id;
    uint32_t cell;
    uint64_t submitted_ns, admitted_ns, first_token_ns; /* 0: not yet */
    uint32_t namespace_id;
    struct engine_choice *choices; /* [n_choices] */
    uint32_t n_choices, n_choices_done;
    bool is_admitted; /* counted as running, not as queued */
    bool is_aborted;  /* a choice has ended so */
    bool is_aborting; /* under the lock: is or was on the abort list */
    bool is_hidden;   /* shadow.c's: in no table, no list, no count, and without events */
    int32_t *banned;  /* [n_banned] end tokens, before min_new_tokens */
    uint32_t n_banned;
    struct radish_token *prompt_tokens;  /* [n_prompt_tokens] from prompt_logprobs_from on */
    uint32_t n_prompt_tokens;            /* 0: nobody wants their logprobs */
    struct radish_logprob *prompt_lists; /* [n_prompt_tokens, n_top_logprobs + n_logprob_ids] */
    struct engine_request *next;         /* in the inbox; among the dead */
    struct engine_request *next_abort;   /* on the abort list */
    struct engine_request *live_prev, *live_next; /* engine's thread: in order of submission */
};

/* Somebody waits, on the stack of another thread, until fn has been called. Under the lock. */
struct engine_ask {
    void (*fn)(struct radish_engine *engine, void *arg);
    void *arg;
    enum radish_status status;
    bool is_done;
    struct engine_ask *next;
};

/* The same, until the cache is empty or something was in the way until deadline_ns. */
struct engine_flush {
    uint64_t deadline_ns;
    enum radish_status status;
    bool is_done;
    uint32_t n_queued, n_running; /* sequences, where they were in the way */
};

/* One row of logits and what becomes of it: for the first token of n choices, one for each. */
struct engine_row {
    struct engine_choice *choice;
    float *logits;     /* [n_vocab], the runner's; NULL when nobody looks at this block */
    uint32_t position; /* of the token that the row followed */
    bool is_sampled;   /* else a row of the prompt */
    bool is_drawn;     /* sampled by the device: result is there */
    bool is_shared;    /* others sample from it, too: it must not be changed */
    struct sample_result result;
};

/* A step that was submitted and not taken up yet. */
struct engine_flight {
    const struct batch *batch; /* the scheduler's */
    struct sched_step step;
    struct sample_draw *draws; /* [rows of the batch]; NULL: the device does not sample */
    bool has_host_rows;        /* logits that the host must see */
    uint64_t begun_ns;
    enum radish_status status; /* of submitting it */
};

struct radish_engine {
    const struct radish_model *model; /* borrowed */
    struct engine_plan plan;
    struct device *device;
    struct weights *weights;
    struct runner *runner;
    struct sched *sched;
    struct sampler **samplers; /* [n_samplers], one per worker */
    uint32_t n_samplers;
    uint32_t tokens_max; /* prompt and output of one sequence */

    /* Shared, under the lock. */
    pthread_mutex_t lock;
    pthread_cond_t wake;
    bool has_lock, has_wake, has_thread;
    pthread_t thread;
    struct engine_request **table; /* [table_size]; NULL = free */
    uint32_t table_size;
    uint32_t *cells_free; /* [n_cells_free] a stack */
    uint32_t n_cells_free;
    struct engine_request *inbox_head, *inbox_tail;
    struct engine_request *aborts;
    struct namespaces namespaces;
    bool has_warned_namespaces;
    uint64_t n_submitted;
    uint64_t n_seeded; /* seeds given out */
    uint64_t seed;
    uint32_t n_queued;        /* requests that no step has begun on */
    uint64_t n_queued_tokens; /* of their prompts */
    bool is_stopping;
    struct radish_engine_info info; /* as of the last hand-over */
    uint64_t rate_ns;               /* when its output_tokens_per_second was measured */
    struct engine_ask *asks_head, *asks_tail;
    struct engine_flush *flush; /* there is one at a time; NULL: none */
    pthread_cond_t answered;    /* an ask, or the flush */
    bool has_answered;

    /* The engine's thread. */
    struct engine_request *live_head, *live_tail;
    struct engine_request *dead;
    uint64_t n_admitted_tokens;
    uint32_t n_admitted;     /* since the last hand-over */
    struct engine_row *rows; /* [ENGINE_ROWS_MAX] */
    struct engine_flight flights[DEVICE_STEPS_MAX];
    uint32_t oldest_flight, n_flights;
    uint64_t step_ended_ns; /* the one taken up last */
    float *row_copies;      /* [n_samplers, n_vocab] of shared rows */
    struct buf piece, text; /* of the token being worked on */
    struct figures figures;
    struct metrics *metrics; /* counted by the engine's thread, read by any */
    struct radix_watch watch;
    struct kv_events kv_events;
    struct shadow *shadow;                  /* NULL: off */
    uint64_t log_prefill_ns, log_decode_ns; /* when the last lines were written */
    uint64_t log_output_tokens;             /* of all, up to the last decode line */
    uint64_t log_input_tokens;              /* since the last prefill line */
    uint32_t log_decode_steps;
};

/* request_build.c: checks a request and copies it into its own memory. */
enum radish_status request_build(const struct radish_engine *engine,
                                 const struct radish_request *given,
                                 struct engine_request **request_out,
                                 struct radish_error *err) RADISH_CHECK_RESULT;
void request_destroy(struct engine_request *request);
/* The choices' seeds, once the request's is known. */
void request_set_seed(struct engine_request *request, uint64_t seed);

/* engine_loop.c */
void *engine_run(void *engine);

/* engine_ask.c: what other threads want of the engine's own. */

/* Runs fn on the engine's thread between two steps and waits for it, which may take a step. Called
 * from any other thread; fn must be quick, as all streams wait for it. AGAIN: the engine is
 * stopping, and fn was not called. */
enum radish_status engine_ask(struct radish_engine *engine,
                              void (*fn)(struct radish_engine *engine, void *arg),
                              void *arg) RADISH_CHECK_RESULT;
/* The engine's thread: answers who asks, and flushes if that is wanted and nothing is in the way.
 * goes_on false: the engine is stopping, everybody is told so. */
void engine_answer(struct radish_engine *engine, bool goes_on);
/* Under the lock: somebody waits for engine_answer(). */
static inline bool engine_is_asked(const struct radish_engine *engine) {
    return engine->asks_head || engine->flush;
}

/* flight.c: steps in flight. */

/* Hands the batch to the device, with what it is to draw itself. */
void flight_begin(struct radish_engine *engine, const struct batch *batch,
                  const struct sched_step *step, uint64_t begun_ns);
/* Waits for the oldest step and takes it up: tokens, events, figures, ends. */
void flight_end(struct radish_engine *engine);
void flight_end_all(struct radish_engine *engine);
/* Whether a step is in flight behind which another may be begun now. */
bool flight_can_lead(const struct radish_engine *engine);

/* output.c: what becomes of logits, tokens and text. */

/* Takes up a step that has ended: samples what the device did not, sends events, appends to or ends
 * sequences. */
enum radish_status output_take(struct radish_engine *engine, const struct engine_flight *flight);
/* The step was not computed: its requests end with an error. */
void output_fail(struct radish_engine *engine, const struct engine_flight *flight,
                 enum radish_status status);
/* Ends a choice: final event, and everything it holds goes back. With the first choice end those
 * that have not started from it. */
void output_end(struct radish_engine *engine, struct engine_choice *choice,
                enum radish_finish finish, enum radish_status status);

#endif
