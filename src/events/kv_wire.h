/* kv_wire.h - a batch of KV events as its subscribers read it: MessagePack, [time, [event, ...]].
 *
 *   ["BlockStored", [hash], parent hash or nil, [token, ...], block size, nil (, medium)]
 *   ["BlockRemoved", [hash, ...] (, medium)]
 *   ["AllBlocksCleared"]
 *
 * The nil is lora_id. medium is there only when it is not the device. Threads: any. */
#ifndef EVENTS_KV_WIRE_H
#define EVENTS_KV_WIRE_H

#include "radish_report.h"

/* At least as many bytes as the batch takes. */
size_t kv_wire_bytes_max(const struct radish_kv_event *events, size_t n);

/* Writes the batch to out [kv_wire_bytes_max()]; returns its length. time: seconds since 1970. */
size_t kv_wire_write(double time, const struct radish_kv_event *events, size_t n,
                     unsigned char *out);

#endif
