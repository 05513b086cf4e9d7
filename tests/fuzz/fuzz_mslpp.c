/* fuzz: msl. fuzz_mslpp.c - any bytes as preprocessed Metal source.
 *
 * What must hold: no crash, no leak, no read past the end; a failure says something, a success has
 * written text. */
#include "base/buf.h"
#include "msl_pass.h"

#include <stdlib.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    struct buf cpp, errors;
    struct radish_error err = {0};
    buf_init(&cpp, 0);
    buf_init(&errors, 0);
    enum radish_status status = msl_translate((const char *)data, size, &cpp, &errors, &err);
    if (status == RADISH_OK && (!cpp.len || errors.len)) abort();
    if (status != RADISH_OK && !err.msg[0]) abort();
    buf_deinit(&cpp);
    buf_deinit(&errors);
    return 0;
}
