/* kv_config.h - how KV events are published: the JSON of --kv-events-config, with SGLang's names
 * and defaults.
 *
 * Owns: its strings (kv_config_deinit()). Threads: any. */
#ifndef EVENTS_KV_CONFIG_H
#define EVENTS_KV_CONFIG_H

#include "radish.h"

struct kv_config {
    bool is_published;      /* "publisher": "zmq"; false for "null" */
    char *endpoint;         /* of the PUB socket */
    char *replay_endpoint;  /* of the ROUTER socket, or NULL: no replay */
    char *topic;            /* the first frame */
    uint32_t buffer_steps;  /* batches kept for replay */
    uint32_t hwm;           /* batches that ZeroMQ holds for a subscriber */
    uint32_t n_batches_max; /* "max_queue_size": batches waiting to be published */
};

/* E_INVALID: no JSON object, an unknown key, a wrong value; E_NOMEM. */
enum radish_status kv_config_read(const char *json, struct kv_config *config_out,
                                  struct radish_error *err) RADISH_CHECK_RESULT;
void kv_config_deinit(struct kv_config *config);

#endif
