/* kv_wire.c - events written with msgpack-c straight into memory that is there already.
 *
 * The problem: subscribers are written for other servers and decode with msgspec, Go or Rust
 * libraries by position: an element too many in front shifts everything. Behind the last element
 * all of them are lenient: what is missing has its default, what is too much is skipped. msgspec
 * itself, which those servers encode with, never leaves out the trailing defaults of such
 * array-like structs, whatever omit_defaults says; so what they send depends on which fields their
 * version has. We send the shortest form that every version reads; tests hold the bytes against
 * msgspec's for the structs as first published, which have no medium.
 *
 * Integers take their shortest form, as both libraries write them, so equal batches have equal
 * bytes. The caller asks first how much room a batch takes at most, and nothing is allocated. */
#include "events/kv_wire.h"

#include "base/invariant.h"

#include <msgpack.h>
#include <string.h>

enum { INT_BYTES = 9, HEAD_BYTES = 5, TAG_BYTES = 32 /* and all heads of an event */ };

struct writer {
    unsigned char *bytes;
    size_t n, n_max;
};

size_t kv_wire_bytes_max(const struct radish_kv_event *events, size_t n) {
    size_t bytes = 2 * HEAD_BYTES + INT_BYTES;
    for (size_t i = 0; i < n; i++)
        bytes += TAG_BYTES + INT_BYTES * (size_t)(events[i].n_hashes + 2u) +
                 HEAD_BYTES * (size_t)(events[i].n_tokens + 4u) +
                 (events[i].medium ? strlen(events[i].medium) : 0);
    return bytes;
}

static int append(void *user, const char *bytes, size_t n) {
    struct writer *writer = user;
    RADISH_INVARIANT(n <= writer->n_max - writer->n, "a batch is longer than %zu bytes",
                     writer->n_max);
    memcpy(writer->bytes + writer->n, bytes, n);
    writer->n += n;
    return 0;
}

static void pack_text(msgpack_packer *packer, const char *text) {
    size_t len = strlen(text);
    msgpack_pack_str(packer, len);
    msgpack_pack_str_body(packer, text, len);
}

static void pack_hashes(msgpack_packer *packer, const struct radish_kv_event *event) {
    msgpack_pack_array(packer, event->n_hashes);
    for (uint32_t i = 0; i < event->n_hashes; i++) msgpack_pack_int64(packer, event->hashes[i]);
}

static void pack_stored(msgpack_packer *packer, const struct radish_kv_event *event) {
    msgpack_pack_array(packer, event->medium ? 7 : 6);
    pack_text(packer, "BlockStored");
    pack_hashes(packer, event);
    if (event->has_parent)
        msgpack_pack_int64(packer, event->parent);
    else
        msgpack_pack_nil(packer);
    msgpack_pack_array(packer, event->n_tokens);
    for (uint32_t i = 0; i < event->n_tokens; i++) msgpack_pack_int32(packer, event->tokens[i]);
    msgpack_pack_uint32(packer, event->block_tokens);
    msgpack_pack_nil(packer); /* lora_id */
    if (event->medium) pack_text(packer, event->medium);
}

static void pack_removed(msgpack_packer *packer, const struct radish_kv_event *event) {
    msgpack_pack_array(packer, event->medium ? 3 : 2);
    pack_text(packer, "BlockRemoved");
    pack_hashes(packer, event);
    if (event->medium) pack_text(packer, event->medium);
}

size_t kv_wire_write(double time, const struct radish_kv_event *events, size_t n,
                     unsigned char *out) {
    struct writer writer = {.bytes = out, .n_max = kv_wire_bytes_max(events, n)};
    msgpack_packer packer;
    msgpack_packer_init(&packer, &writer, append);
    msgpack_pack_array(&packer, 2);
    msgpack_pack_double(&packer, time);
    msgpack_pack_array(&packer, n);
    for (size_t i = 0; i < n; i++) {
        switch (events[i].kind) {
        case RADISH_KV_STORED: pack_stored(&packer, &events[i]); break;
        case RADISH_KV_REMOVED: pack_removed(&packer, &events[i]); break;
        case RADISH_KV_CLEARED:
            msgpack_pack_array(&packer, 1);
            pack_text(&packer, "AllBlocksCleared");
            break;
        }
    }
    return writer.n;
}
