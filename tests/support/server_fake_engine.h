/* server_fake_engine.h - a model and an engine without arithmetic, behind include/radish.h, for the
 * server's tests: what they say is scripted, and when they say it is in the test's hand.
 *
 * Tokens are bytes (ids 0..255); 256 is BOS "<s>", 257 EOS "</s>", both special. Output token k of
 * choice i is prompt byte (k + i + seed) modulo the prompt's length (BOS left out): the reply
 * repeats the prompt, rotated. A chat renders as "role:content\n" per message, then "assistant:".
 * Threads: as radish.h says; the controls may be set at any time. */
#ifndef SUPPORT_SERVER_FAKE_ENGINE_H
#define SUPPORT_SERVER_FAKE_ENGINE_H

#include "radish_report.h"

#include <stdatomic.h>

enum { FAKE_BOS = 256, FAKE_EOS = 257, FAKE_CONTEXT = 512, FAKE_SLOTS = 100000 };

struct fake_control {
    _Atomic uint32_t step_us;         /* pause between tokens */
    _Atomic bool is_held;             /* no request makes progress (not even its first token) */
    _Atomic bool is_queue_full;       /* submit says AGAIN */
    _Atomic uint32_t submits_left;    /* after so many submits it says AGAIN; 0 = no limit */
    _Atomic uint32_t error_after;     /* output tokens before FINISH_ERROR; 0 = never */
    _Atomic bool fails_at_once;       /* FINISH_ERROR without any output */
    _Atomic bool has_no_template;     /* the model has no chat template */
    _Atomic bool has_broken_template; /* it has one that does not compile */
    _Atomic bool is_decoding_held;    /* radish_detokenize() waits */
    _Atomic bool has_bad_logprobs;    /* infinities and NaN */
    _Atomic bool is_cache_off;        /* the report says so */
    _Atomic bool is_stopped;          /* no report is to be had */
    _Atomic bool has_priorities;      /* the engine looks at them */
    _Atomic int32_t priority;         /* of the last request submitted */
    _Atomic uint32_t n_aborts;        /* of requests that still ran */
    _Atomic uint32_t output_bytes;    /* bytes of text per token instead of one; 0 = one */
};

extern struct fake_control fake;

void fake_reset(void);

/* The namespace key of the last request submitted, written to out; returns its length. */
size_t fake_namespace(char out[RADISH_NAMESPACE_MAX]);

#endif
