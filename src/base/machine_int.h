/* machine_int.h - the parts of machine.c that tests call with a made-up /proc and /sys. */
#ifndef BASE_MACHINE_INT_H
#define BASE_MACHINE_INT_H

#include "machine.h"

#if defined(__linux__)
#include <sched.h>

/* machine_read() with "root" before every path ("" = the real ones); the affinity mask is given. */
void machine_read_linux(const char *root, const cpu_set_t *mask, size_t mask_bytes,
                        struct machine *machine_out);
uint32_t machine_list_cores_linux(const char *root, const cpu_set_t *mask, size_t mask_bytes,
                                  uint32_t *cpus_out, uint32_t n_max);
void machine_read_usage_linux(const char *root, struct machine_usage *usage_out);
#endif

#endif
