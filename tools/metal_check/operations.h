/* operations.h - a case of the golden vectors as a call of a device.
 *
 * Owns nothing. Threads: the device's. */
#ifndef METAL_CHECK_OPERATIONS_H
#define METAL_CHECK_OPERATIONS_H

#include "radish.h"

#include "vectors.h"

/* Scratch for any case; once, before the first. */
enum radish_status operations_reserve(struct device *device,
                                      struct radish_error *err) RADISH_CHECK_RESULT;

/* Runs the case as a step of its own and leaves what it wrote in results: for each array with
 * is_out n_bytes of the caller's, else not looked at. E_UNSUPPORTED: the device does not do such a
 * shape, and says why; E_FORMAT: an array is shorter than the sizes say. */
enum radish_status operations_run(struct device *device, const struct vector_case *c,
                                  uint8_t *const results[VECTOR_ARRAYS_MAX],
                                  struct radish_error *err) RADISH_CHECK_RESULT;

#endif
