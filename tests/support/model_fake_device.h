/* model_fake_device.h - a device that keeps what it is given and computes nothing: counts what
 * lives, remembers how weights were described, refuses or fails on request. For tests. */
#ifndef MODEL_FAKE_DEVICE_H
#define MODEL_FAKE_DEVICE_H

#include "kernel/kernel.h"

#define FAKE_WEIGHTS_MAX 64

struct fake_device {
    struct device device; /* first: what the code under test sees */
    size_t n_live;        /* blocks and weights */
    uint64_t bytes_live;
    uint64_t bytes_uploaded;
    uint32_t fail_at;          /* the fail_at-th allocation or weight fails; 0: none */
    uint32_t n_calls;          /* of those */
    enum kernel_op refused_op; /* supports() says no to it from shape n_out on; COUNT: to none */
    uint32_t refused_n_out;
    uint32_t n_weights;
    struct weight_desc weights[FAKE_WEIGHTS_MAX]; /* data: borrowed, see kernel.h */
};

void fake_device_init(struct fake_device *fake);

#endif
