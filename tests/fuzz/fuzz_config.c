/* fuzz: model. fuzz_config.c - any bytes as a config.json (or, where they begin with GGUF, as a
 * GGUF file's metadata), read as a model's configuration; and any JSON through the typed getters.
 *
 * What must hold: no crash, no leak; on failure a message; on success numbers within the documented
 * bounds, since they become loop bounds and allocation sizes. */
#include "base/json.h"
#include "model/config.h"

#include <stdlib.h>
#include <string.h>

int LLVMFuzzerInitialize(int *argc, char ***argv);
int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int LLVMFuzzerInitialize(int *argc, char ***argv) {
    (void)argc;
    (void)argv;
    radish_log_set_level(RADISH_LOG_OFF); /* every odd end token is a warning */
    return 0;
}

static void check_message(enum radish_status status, const struct radish_error *err) {
    if (status != RADISH_OK && (err->status != status || !*err->msg || strchr(err->msg, '\n')))
        abort();
}

static void read_config(const struct model_file *file) {
    struct radish_error err = {0};
    struct model_config *config = calloc(1, sizeof *config);
    if (!config) return;
    const enum radish_status status = config_read(file, config, &err);
    check_message(status, &err);
    if (status == RADISH_OK) {
        if (!config->arch || config->n_layers < 1 || config->n_layers > CONFIG_LAYERS_MAX) abort();
        if (config->rotary_dim > config->head_dim || config->n_eos_ids > CONFIG_EOS_MAX) abort();
        for (uint32_t i = 0; i < config->n_layers; i++)
            if (!config->n_heads[i] || !config->n_kv_heads[i] ||
                config->window[i] >= config->context_trained)
                abort();
        const double scales[] = {config->attention_scale, config->embedding_scale,
                                 config->logit_scale, config->norm_eps + 1};
        for (size_t i = 0; i < sizeof scales / sizeof *scales; i++)
            if (!(scales[i] > 0 && scales[i] < 1e30)) abort();
    }
    free(config);
}

/* Every member of every object of the document through every getter. */
static void read_members(yyjson_val *val) {
    size_t idx, max;
    yyjson_val *key, *child;
    if (yyjson_is_arr(val)) {
        yyjson_arr_foreach(val, idx, max, child) read_members(child);
        return;
    }
    yyjson_obj_foreach(val, idx, max, key, child) {
        struct radish_error err = {0};
        bool b = false;
        int64_t i = 0;
        uint32_t u = 0;
        double d = 0;
        const char *s = NULL, *name = yyjson_get_str(key);
        if (idx >= 64) return; /* json_get() is a search: stay linear */
        check_message(json_get_bool(val, name, &b, &err), &err);
        check_message(json_get_i64(val, name, -5, 1000, &i, &err), &err);
        check_message(json_get_u32(val, name, 1, UINT32_MAX, &u, &err), &err);
        check_message(json_get_double(val, name, 0, 1, &d, &err), &err);
        check_message(json_get_str(val, name, &s, &err), &err);
        if (i < -5 || i > 1000 || !(d >= 0 && d <= 1)) abort();
        read_members(child);
    }
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    struct radish_error err = {0};
    struct model_file *file;
    yyjson_doc *doc;
    if (size >= 4 && memcmp(data, "GGUF", 4) == 0) {
        if (model_file_open_gguf_memory(data, size, &file, &err) != RADISH_OK) return 0;
        read_config(file);
        model_file_close(file);
        return 0;
    }
    const enum radish_status status =
        json_parse((const char *)data, size, JSON_DEPTH_MAX, &doc, &err);
    check_message(status, &err);
    if (status != RADISH_OK) return 0;
    read_members(yyjson_doc_get_root(doc));
    yyjson_doc_free(doc);
    if (model_file_open_config((const char *)data, size, &file, &err) != RADISH_OK) return 0;
    read_config(file);
    model_file_close(file);
    return 0;
}
