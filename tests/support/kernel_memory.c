/* kernel_memory.c - the operands' memory, from the heap or from a device.
 *
 * Tests of an operation are the same for every device; only their operands must lie where it can
 * reach them. A device's blocks are kept in a list with their lengths, which mem_free() asks for,
 * so that one check_free() serves both kinds. */
#include "kernel_memory.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

struct block {
    struct device *device;
    void *address;
    size_t bytes;
};
static struct block blocks[CHECK_BLOCKS_MAX];
static struct device *current;

void check_memory_from(struct device *device) {
    current = device;
}

void *check_alloc(size_t bytes) {
    if (!bytes) bytes = 1;
    if (!current) {
        void *address = malloc(bytes);
        assert_non_null(address);
        return address;
    }
    for (int i = 0; i < CHECK_BLOCKS_MAX; i++) {
        struct radish_error err = {0};
        if (blocks[i].address) continue;
        blocks[i] = (struct block){.device = current, .bytes = bytes};
        if (current->ops->mem_alloc(current, bytes, &blocks[i].address, &err) != RADISH_OK)
            fail_msg("%s", err.msg);
        return blocks[i].address;
    }
    fail_msg("more than %d blocks of device memory", CHECK_BLOCKS_MAX);
    return NULL;
}

void *check_copy(const void *from, size_t bytes) {
    void *address = check_alloc(bytes);
    memcpy(address, from, bytes);
    return address;
}

void check_free(void *address) {
    for (int i = 0; address && i < CHECK_BLOCKS_MAX; i++) {
        struct block *b = &blocks[i];
        if (b->address != address) continue;
        b->device->ops->mem_free(b->device, b->address, b->bytes);
        *b = (struct block){0};
        return;
    }
    free(address);
}
