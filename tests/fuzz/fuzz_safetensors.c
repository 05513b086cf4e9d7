/* fuzz: format. fuzz_safetensors.c - any bytes as a safetensors file. The first 8 bytes are a
 * length that random inputs never get right, so an input is tried as it is and once more with a
 * length that fits: as many header bytes as its first two say. */
#include "format/safetensors.h"

#include <stdlib.h>
#include <string.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static volatile unsigned sink;

static void open_and_read(const uint8_t *data, size_t size) {
    struct radish_error err = {0};
    struct safetensors *file;
    if (safetensors_open_memory(data, size, &file, &err) != RADISH_OK) {
        if (file || !*err.msg || strchr(err.msg, '\n')) abort();
        return;
    }
    uint64_t n_bytes = 0;
    unsigned sum = 0;
    for (size_t i = 0; i < safetensors_n_tensors(file); i++) {
        const struct safetensors_tensor *t = safetensors_tensor(file, i);
        if (safetensors_find(file, t->name) != t) abort();
        for (uint64_t j = 0; j < t->n_bytes; j++) sum += t->data[j];
        n_bytes += t->n_bytes;
        safetensors_release(file, t->offset, t->n_bytes);
    }
    if (n_bytes > size) abort(); /* they would overlap */
    (void)safetensors_metadata(file, "format");
    safetensors_close(file);
    sink = sum;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    open_and_read(data, size);
    if (size < 8) return 0;
    uint8_t *fitted = malloc(size);
    if (!fitted) return 0;
    memcpy(fitted, data, size);
    const size_t header_bytes = (size_t)(data[0] | data[1] << 8) % (size - 7);
    memset(fitted, 0, 8);
    fitted[0] = (uint8_t)header_bytes;
    fitted[1] = (uint8_t)(header_bytes >> 8);
    fitted[2] = (uint8_t)(header_bytes >> 16);
    open_and_read(fitted, size);
    free(fitted);
    return 0;
}
