/* generate.h - one request from submit to its end, seen from a single thread that waits.
 *
 * The engine answers through callbacks on its own thread, which must not block; a command wants to
 * write to a terminal, which may. So callbacks append to a buffer here, and the command takes text
 * out of it. Owns: the texts and ids it gathers. Caller keeps: engine and request, until start
 * returns. Threads: the engine's thread fills, one other thread calls these functions. Fails:
 * generate_start() when the engine refuses the request; after that the result says how it ended. */
#ifndef CLI_GENERATE_H
#define CLI_GENERATE_H

#include "radish.h"

#include "base/buf.h"

struct generate;

struct generate_result {
    enum radish_finish finish;
    enum radish_status status; /* why, with FINISH_ABORT and FINISH_ERROR */
    struct radish_usage usage;
    const int32_t *ids; /* [n_ids] output tokens; borrowed until destroy */
    size_t n_ids;
    double first_seconds; /* from submit to the first token; 0 without one */
    double total_seconds;
};

/* Takes logits rows, on the engine's thread; see struct radish_request. */
typedef void (*generate_logits_fn)(void *user, size_t row, size_t n_rows, size_t n_vocab,
                                   const float *logits);

/* Submits the request with its callbacks set to this module's. on_logits may be NULL. */
enum radish_status generate_start(struct radish_engine *engine, struct radish_request request,
                                  generate_logits_fn on_logits, void *logits_user,
                                  struct generate **g_out,
                                  struct radish_error *err) RADISH_CHECK_RESULT;

/* Waits for new text, at most `milliseconds`, and appends it to *text. False once the request has
 * ended and all its text was taken. */
bool generate_wait(struct generate *g, unsigned milliseconds, struct buf *text);

/* Asks the engine to end it; generate_wait() still has to see the end. */
void generate_stop(struct generate *g);

/* Valid after the end. */
void generate_result(const struct generate *g, struct generate_result *result_out);

/* Ends the request if it still runs. NULL is fine. */
void generate_destroy(struct generate *g);

/* "stop", "length", "abort", "error"; static. */
const char *generate_finish_name(enum radish_finish finish);

/* Why an answer ended with "abort" or "error", in words; static. */
const char *generate_failure(const struct generate_result *result);

/* New tokens per second after the first one; 0 when there are fewer than two. */
double generate_tokens_per_second(const struct generate_result *result);

#endif
