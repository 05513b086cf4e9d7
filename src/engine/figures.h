/* figures.h - what the engine knows of itself in numbers: struct radish_engine_info, kept by the
 * engine's thread and handed out to others.
 *
 * Owns nothing. Threads: the engine's thread, between steps; figures_publish() also with the lock,
 * under which others read what it leaves. Nothing is allocated. */
#ifndef ENGINE_FIGURES_H
#define ENGINE_FIGURES_H

#include "radish_report.h"

#include "sched/sched.h"

struct engine_choice;
struct engine_request;
struct radish_engine;

#define FIGURES_WINDOW_STEPS 256 /* that had prompt tokens: what cache_hit_rate looks at */

struct figures {
    struct radish_engine_info totals; /* all there is to say, as of now */
    /* Of cache_hit_rate: a ring, and its sums. */
    struct {
        uint32_t n_prompt, n_cached;
    } window[FIGURES_WINDOW_STEPS];
    uint32_t window_next;
    uint64_t n_window_prompt, n_window_cached;
    /* Of output_tokens_per_second: what came since mark_ns; 0: nothing is measured. */
    uint64_t mark_ns, mark_tokens;
    uint64_t rate_ns;   /* when it was measured last */
    uint64_t output_ns; /* when the rows that tokens are now taken from were sampled */
};

/* What does not change while the engine is open. */
void figures_init(struct radish_engine *engine);

/* A step of n_rows tokens, begun at begun_ns, has ended. */
void figures_add_step(struct radish_engine *engine, const struct sched_step *step, uint32_t n_rows,
                      uint64_t begun_ns, uint64_t now_ns);

/* A request's first choice is computed for the first time. */
void figures_admit(struct radish_engine *engine, struct engine_request *request, uint64_t now_ns);
/* A choice has a new token, made at output_ns. */
void figures_add_token(struct radish_engine *engine, struct engine_choice *choice);
/* The last choice of a request has ended. */
void figures_end(struct radish_engine *engine, const struct engine_request *request);

/* Under the lock: engine->info becomes what there is now. */
void figures_publish(struct radish_engine *engine, uint64_t now_ns);

#endif
