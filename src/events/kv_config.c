/* kv_config.c - one JSON object, read strictly.
 *
 * The problem: who misspells "replay_endpoint" would find out when the first subscriber has lost a
 * batch. So a key that is not known is refused, as is a key given twice, which tools that merge
 * configurations produce; both name the key. Endpoints are not looked into here: what ZeroMQ can
 * bind or connect to, it says itself when the publisher is opened. */
#include "events/kv_config.h"

#include "base/json.h"
#include "base/mem.h"
#include "base/status.h"

#include <stdlib.h>
#include <string.h>

#define DEFAULT_ENDPOINT "tcp://*:5557"

enum {
    DEFAULT_BUFFER_STEPS = 10000,
    DEFAULT_HWM = 100000,
    DEFAULT_QUEUE = 100000,
    BATCHES_MAX = 10000000,
    TOPIC_BYTES_MAX = 255,
    DEPTH_MAX = 4
};

static const char *const keys[] = {
    "publisher", "endpoint", "replay_endpoint", "buffer_steps", "hwm", "max_queue_size", "topic"};
enum { N_KEYS = sizeof keys / sizeof *keys };

void kv_config_deinit(struct kv_config *config) {
    free(config->endpoint);
    free(config->replay_endpoint);
    free(config->topic);
    *config = (struct kv_config){0};
}

static enum radish_status check_keys(yyjson_val *root, struct radish_error *err) {
    bool is_seen[N_KEYS] = {false};
    size_t idx, max;
    yyjson_val *key, *value;
    if (!yyjson_is_obj(root))
        return error_set(err, RADISH_E_INVALID, "must be a JSON object, not %s",
                         json_type_name(root));
    yyjson_obj_foreach(root, idx, max, key, value) {
        size_t k = 0;
        while (k < N_KEYS && !yyjson_equals_str(key, keys[k])) k++;
        if (k == N_KEYS)
            return error_set(err, RADISH_E_INVALID,
                             "unknown key '%.60s'; there are publisher, endpoint, replay_endpoint, "
                             "buffer_steps, hwm, max_queue_size and topic",
                             yyjson_get_str(key));
        if (is_seen[k])
            return error_set_field(err, RADISH_E_INVALID, keys[k], "%s is given twice", keys[k]);
        is_seen[k] = true;
    }
    return RADISH_OK;
}

/* A copy of a text, of `fallback` where it is absent, or NULL. */
static enum radish_status read_text(yyjson_val *root, const char *key, const char *fallback,
                                    char **text_out, struct radish_error *err) {
    const char *text = fallback;
    RADISH_TRY(json_get_str(root, key, &text, err));
    *text_out = text ? mem_strndup(text, strlen(text)) : NULL;
    return text && !*text_out ? error_nomem(err) : RADISH_OK;
}

static enum radish_status read_members(yyjson_val *root, struct kv_config *config,
                                       struct radish_error *err) {
    const char *publisher = "null";
    RADISH_TRY(json_get_str(root, "publisher", &publisher, err));
    config->is_published = !strcmp(publisher, "zmq");
    if (!config->is_published && strcmp(publisher, "null") != 0)
        return error_set_field(err, RADISH_E_INVALID, "publisher",
                               "publisher must be \"zmq\" or \"null\", not \"%.60s\"", publisher);
    RADISH_TRY(read_text(root, "endpoint", DEFAULT_ENDPOINT, &config->endpoint, err));
    RADISH_TRY(read_text(root, "replay_endpoint", NULL, &config->replay_endpoint, err));
    RADISH_TRY(read_text(root, "topic", "", &config->topic, err));
    if (strlen(config->topic) > TOPIC_BYTES_MAX)
        return error_set_field(err, RADISH_E_INVALID, "topic",
                               "topic must have at most %d bytes, not %zu", TOPIC_BYTES_MAX,
                               strlen(config->topic));
    config->buffer_steps = DEFAULT_BUFFER_STEPS;
    config->hwm = DEFAULT_HWM;
    config->n_batches_max = DEFAULT_QUEUE;
    RADISH_TRY(json_get_u32(root, "buffer_steps", 1, BATCHES_MAX, &config->buffer_steps, err));
    RADISH_TRY(json_get_u32(root, "hwm", 1, BATCHES_MAX, &config->hwm, err));
    return json_get_u32(root, "max_queue_size", 1, BATCHES_MAX, &config->n_batches_max, err);
}

enum radish_status kv_config_read(const char *json, struct kv_config *config_out,
                                  struct radish_error *err) {
    yyjson_doc *doc;
    *config_out = (struct kv_config){0};
    RADISH_TRY(json_parse(json, strlen(json), DEPTH_MAX, &doc, err));
    yyjson_val *root = yyjson_doc_get_root(doc);
    struct kv_config config = {0};
    enum radish_status status = check_keys(root, err);
    if (status == RADISH_OK) status = read_members(root, &config, err);
    yyjson_doc_free(doc);
    if (status == RADISH_OK)
        *config_out = config;
    else
        kv_config_deinit(&config);
    return status;
}
