/* load_run.h - one workload sent to one server, and what was seen.
 *
 * Owns: the records. Threads: one at a time. */
#ifndef BENCH_LOAD_RUN_H
#define BENCH_LOAD_RUN_H

#include "radish.h"

#include "load_target.h"
#include "workload.h"

enum load_failure {
    LOAD_FINE,
    LOAD_FAILED_STATUS, /* HTTP status in the record */
    LOAD_FAILED_CONNECT,
    LOAD_FAILED_TIMEOUT,
    LOAD_FAILED_BROKEN,   /* the connection, or a stream that ended without its end */
    LOAD_FAILED_ANSWER,   /* an error in the stream, or what cannot be understood */
    LOAD_FAILED_NOT_SENT, /* the request before it in the conversation failed */
    LOAD_FAILURE_COUNT
};

/* "connect"; static. */
const char *load_failure_name(enum load_failure failure);

/* Times are nanoseconds from the run's begin. */
struct load_record {
    enum load_failure failure;
    int status; /* HTTP */
    char why[160];
    uint64_t due_ns;                               /* when it could have been sent */
    uint64_t sent_ns, first_ns, last_ns, ended_ns; /* first, last: chunks with text */
    uint32_t n_chunks;                             /* with text */
    float *gaps_ms;                                /* [n_chunks - 1] between them */
    uint32_t gaps_capacity;
    bool has_prompt_tokens, has_output_tokens, has_cached_tokens;
    uint32_t prompt_tokens, output_tokens, cached_tokens; /* as the server counts */
    uint32_t output_tokens_wanted;
    uint64_t prompt_bytes, shared_bytes; /* shared: of the prompt, with what was sent before */
    uint32_t prompt_words;               /* all our own words in it */
};

struct load_options {
    uint32_t n_concurrent_max; /* 0: no bound */
    bool ignores_eos;
    void (*on_progress)(void *user, uint32_t n_done, uint32_t n_all); /* or NULL */
    void *progress_user;
};

struct load_run {
    struct load_record *records; /* [n_records] as the workload's items */
    uint32_t n_records;
    uint64_t duration_ns; /* from the first request to the last end */
    uint64_t cpu_ns;      /* this thread's */
    uint64_t turn_ns_max; /* the longest that it worked without looking for news */
};

/* E_NOMEM, or the driver's; failures of requests are in the records. load_run_deinit() is due in
 * every case. */
enum radish_status load_run_make(struct load_target *target, const struct workload *workload,
                                 const struct load_options *options, struct load_run *run_out,
                                 struct radish_error *err) RADISH_CHECK_RESULT;
void load_run_deinit(struct load_run *run);

#endif
