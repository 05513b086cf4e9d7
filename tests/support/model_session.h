/* model_session.h - a model opened down to its runner, and a driver that pushes sequences through
 * it in chosen chunks, slots and company. For tests of runner and conformance: no scheduler in
 * between, so that every schedule can be forced. */
#ifndef MODEL_SESSION_H
#define MODEL_SESSION_H

#include "model/config.h"
#include "model/runner.h"
#include "model/weights.h"

struct session_options {
    const char *device; /* NULL: "cpu" */
    enum radish_precision precision;
    uint32_t n_threads;
    uint32_t n_slots;   /* 0: 512 */
    uint32_t page_size; /* 0: 1 */
    const char *kernels[4];
    uint32_t n_kernels;
    struct weights_options weights;
};

struct session {
    struct model_file *file;
    struct model_config config;
    struct device *device;
    struct weights *weights;
    struct runner *runner;
    uint32_t n_slots;
};

/* Fails the running cmocka test on any error. */
void session_open(const char *path, const struct session_options *options,
                  struct session *session_out);
void session_close(struct session *session);

/* How slots are dealt out: in order, in a shuffled order, or backwards with gaps. */
enum session_slots { SESSION_SLOTS_IN_ORDER, SESSION_SLOTS_SHUFFLED, SESSION_SLOTS_BACKWARDS };

#define SESSION_SEQS_MAX 8

struct session_seq {
    const int32_t *tokens; /* [n_tokens] */
    uint32_t n_tokens;
    float *logits;   /* [n_tokens, n_vocab], filled by session_run() */
    uint32_t *slots; /* [n_tokens] as used; set by session_run(), freed by session_free_slots() */
};

/* Runs all sequences together from position 0, each step taking up to `chunk` rows of every
 * unfinished one (0: all at once), and collects the logits of every row. */
void session_run(struct session *session, struct session_seq *seqs, uint32_t n_seqs, uint32_t chunk,
                 enum session_slots order);
void session_free_slots(struct session_seq *seqs, uint32_t n_seqs);

#endif
