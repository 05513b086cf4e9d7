/* model_int.h - the inside of struct radish_model, for engine/ and its tests.
 *
 * A model opens as long as its text side does: what is wrong with the other half (no weights, an
 * architecture that is not supported) is kept and becomes radish_engine_open()'s error, so that
 * tokenize and render work on models that cannot be served. Threads: immutable after open. */
#ifndef ENGINE_MODEL_INT_H
#define ENGINE_MODEL_INT_H

#include "radish.h"

#include "engine/template_traits.h"
#include "format/model_file.h"
#include "model/config.h"
#include "model/model_text.h"

#define MODEL_EOS_MAX (CONFIG_EOS_MAX + MODEL_TEXT_EOS_MAX)

struct radish_model {
    struct model_file *file;
    struct model_text *text;
    struct template_traits traits;    /* of text's template */
    enum radish_status config_status; /* of config_read(): config counts only with RADISH_OK */
    struct radish_error config_error;
    struct model_config config;
    int32_t eos_ids[MODEL_EOS_MAX]; /* union of all that name end tokens */
    uint32_t n_eos_ids;
    struct radish_model_info info;
    char *path, *name; /* info points to them */
};

#endif
