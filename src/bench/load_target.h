/* load_target.h - the server under load: which model it serves, and how long its tokens are.
 *
 * Threads: one at a time. */
#ifndef BENCH_LOAD_TARGET_H
#define BENCH_LOAD_TARGET_H

#include "radish.h"

#include "http_driver.h"
#include "load_answer.h"

struct load_target {
    const char *url;   /* "http://127.0.0.1:30000", without a slash at the end; borrowed */
    const char *label; /* borrowed */
    enum load_endpoint endpoint;
    double timeout_seconds;
    const char *extra;  /* JSON object, or NULL; borrowed */
    char model[256];    /* given, or "" until load_target_open() */
    bool is_calibrated; /* else the server does not tell, and a usual figure stands here */
    double tokens_per_word;
    double tokens_fixed; /* of a prompt without words: begin token, template */
    struct http_driver *driver;
};

/* Connects: asks for the model unless one is given, then calibrates: two prompts of known numbers
 * of words are counted by the server. E_IO with what went wrong; load_target_close() is due in
 * every case. */
enum radish_status load_target_open(struct load_target *target, const char *api_key,
                                    struct radish_error *err) RADISH_CHECK_RESULT;
void load_target_close(struct load_target *target);

/* POST /flush_cache, or the same of a peer. E_IO where the server has no such thing. */
enum radish_status load_target_flush(struct load_target *target,
                                     struct radish_error *err) RADISH_CHECK_RESULT;

#endif
