/* metal_source.h - the kernels inside the program, made from kernels/ *.metal by the build
 * (cmake/msl.cmake). Static. */
#ifndef KERNEL_METAL_METAL_SOURCE_H
#define KERNEL_METAL_METAL_SOURCE_H

#include <stddef.h>

/* All kernels as one text of the Metal language, each shared header in it once. */
extern const char metal_source[];

/* The same, compiled by Apple's compiler where the build had one (a metallib). */
extern const unsigned char metal_library[];
extern const size_t metal_library_bytes; /* 0: there is none, and metal_library is not looked at */

#endif
