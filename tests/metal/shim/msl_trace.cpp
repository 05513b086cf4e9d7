// msl_trace.cpp - what kernels call before a load or a store when clang has been asked to put that
// in
// (-fsanitize-coverage=trace-loads,trace-stores: the variant `traced`). Accesses of the kernel's
// own variables come as well; who listens knows which memory is of interest: the runtime
// threadgroup memory (msl_race.h), the stand-in (msl_tracer) the bound buffers. Copies of whole
// structs, which become memcpy, are not reported.
#include "msl_rt.h"

namespace msl {
void see_shared(const void *at, size_t bytes, bool is_write);
}

extern "C" {

void (*msl_tracer)(const void *at, size_t bytes, bool is_write) = nullptr;

#define MSL_HOOK(name, bytes, is_write)                                                            \
    void name##bytes(const void *at);                                                              \
    void name##bytes(const void *at) {                                                             \
        msl::see_shared(at, bytes, is_write);                                                      \
        if (msl_tracer) msl_tracer(at, bytes, is_write);                                           \
    }
#define MSL_HOOKS(bytes)                                                                           \
    MSL_HOOK(__sanitizer_cov_load, bytes, false) MSL_HOOK(__sanitizer_cov_store, bytes, true)

MSL_HOOKS(1)
MSL_HOOKS(2)
MSL_HOOKS(4)
MSL_HOOKS(8)
MSL_HOOKS(16)
}
