/* stdio.h - what the host files of src/kernel/metal use of the C library, declared for a compiler
 * that has no Mac's headers (tests/metal/macho/check). Nothing is linked against it. */
#ifndef MACHO_STDIO_H
#define MACHO_STDIO_H

#include <stddef.h>

int snprintf(char *out, size_t n, const char *format, ...) __attribute__((format(printf, 3, 4)));

#endif
