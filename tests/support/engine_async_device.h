/* engine_async_device.h - "cpu-async": the CPU as a device that records its steps and runs them
 * later, on a thread of its own, with delays. For tests of steps that overlap.
 *
 * Everything that a step is given is copied when it is recorded (as a GPU's driver does), and used
 * when it runs: uploads to memory that a step in flight uses are races, which ThreadSanitizer sees.
 * Sampling is done here, in double, by sorting. */
#ifndef ENGINE_ASYNC_DEVICE_H
#define ENGINE_ASYNC_DEVICE_H

#include "kernel/kernel.h"

/* What every device opened from now on does; set by tests before they open one. */
struct async_device_plan {
    uint32_t delay_us_max; /* before a step runs, and in its middle: random up to so much */
    uint32_t give_up_1_in; /* one of so many steps breaks off half way and answers AGAIN; 0: none */
    bool runs_on;          /* what was submitted behind such a step runs, too, on rubbish */
    uint32_t fail_at;      /* this step (counted from 1) fails for good; 0: none */
    uint32_t refuse_at;    /* this step (counted from 1) and all behind it are refused; 0: none */
    uint32_t nothing_at;   /* this draw (counted from 1) finds no finite number; 0: none */
    bool samples;          /* the device draws tokens itself */
    void (*on_step)(void *user); /* when a step begins to be recorded, on the engine's thread */
    void *user;
};

/* Counters over all devices since the last set. */
struct async_device_counts {
    uint64_t n_steps, n_ahead; /* recorded; of them with another in flight */
    uint64_t n_drawn;          /* tokens */
    uint64_t n_given_up;
};

void async_device_set(const struct async_device_plan *plan); /* also makes "cpu-async" known */
struct async_device_counts async_device_counts(void);

#endif
