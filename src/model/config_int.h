/* config_int.h - the two readers behind config_read(), and the bounds both obey. For config*.c and
 * their tests only. Threads: any. */
#ifndef MODEL_CONFIG_INT_H
#define MODEL_CONFIG_INT_H

#include "config.h"

#include <yyjson.h>

/* No published model comes near these; they keep every product of two extents below 2^50, so that
 * sizes can be summed in 64 bits without a check at each place. */
#define CONFIG_HIDDEN_MAX   (1u << 20)
#define CONFIG_VOCAB_MAX    (1u << 24)
#define CONFIG_FFN_MAX      (1u << 22)
#define CONFIG_HEADS_MAX    (1u << 14)
#define CONFIG_HEAD_DIM_MAX (2u * ROPE_PAIRS_MAX)
#define CONFIG_CONTEXT_MAX  (1u << 24)

/* Reads config.json (an object; NULL: absent) and generation_config.json (or NULL). Messages name
 * the file and the key. */
enum radish_status config_read_hf(yyjson_val *root, yyjson_val *generation,
                                  struct model_config *config,
                                  struct radish_error *err) RADISH_CHECK_RESULT;

/* Reads GGUF metadata. file: where tensors that belong to the configuration are looked up; NULL:
 * there are none. */
enum radish_status config_read_gguf(const struct gguf *gguf, const struct model_file *file,
                                    struct model_config *config,
                                    struct radish_error *err) RADISH_CHECK_RESULT;

/* What both start from: neutral sampling, no eos. */
void config_init(struct model_config *config);

/* What the architecture means where a file says nothing. Called before anything is read. */
void config_set_arch(struct model_config *config, const struct arch *arch,
                     enum model_format format);

/* Layers [0, n_layers) for which is_windowed is set see `window` keys, 0: all. n_layers and
 * context_trained must be known. */
void config_set_windows(struct model_config *config, uint32_t window, const bool *is_windowed);

/* Scales of the embedding and of what layers add to the residual stream, and what logits are
 * divided by. Call it once norm_eps is known. */
void config_set_multipliers(struct model_config *config, double embedding, double residual,
                            double logits);

/* Adds an end token unless it is there already. Ids that no token has (negative, past the
 * vocabulary) are left out with a warning; n_vocab must be known. E_LIMIT. */
enum radish_status config_add_eos(struct model_config *config, int64_t id,
                                  struct radish_error *err) RADISH_CHECK_RESULT;

/* Sets rope.context_original's default, and context_trained from max_positions tokens and the
 * scaling. has_original: the file itself gives context_original. */
void config_set_context(struct model_config *config, uint32_t max_positions, bool has_original);

/* What must hold between the numbers, whatever file they came from. E_FORMAT, E_UNSUPPORTED. */
enum radish_status config_check(const struct model_config *config,
                                struct radish_error *err) RADISH_CHECK_RESULT;

#endif
