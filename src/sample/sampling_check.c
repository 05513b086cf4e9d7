/* sampling_check.c - the limits of every sampling parameter, in one place, with the names that
 * clients use.
 *
 * The comparisons are written so that a NaN fails them. The ranges are SGLang's: a request that it
 * accepts is accepted here, too, and one that it refuses gets a message that names field, value and
 * range. */
#include "sample/sampler.h"

#include "base/status.h"

#include <float.h>

static enum radish_status refuse(struct radish_error *err, const char *field, double value,
                                 const char *range) {
    return error_set_field(err, RADISH_E_INVALID, field, "%s must be in %s, not %g", field, range,
                           value);
}

static enum radish_status check_bias(const struct radish_sampling *sampling, uint32_t n_vocab,
                                     struct radish_error *err) {
    if (sampling->n_logit_bias > RADISH_LOGIT_BIAS_MAX)
        return error_set_field(err, RADISH_E_LIMIT, "logit_bias",
                               "logit_bias has %u entries, at most %d are allowed",
                               sampling->n_logit_bias, RADISH_LOGIT_BIAS_MAX);
    for (uint32_t i = 0; i < sampling->n_logit_bias; i++) {
        const struct radish_logit_bias *bias = &sampling->logit_bias[i];
        if (bias->id < 0 || (uint32_t)bias->id >= n_vocab)
            return error_set_field(err, RADISH_E_INVALID, "logit_bias",
                                   "logit_bias: token %d is not in the vocabulary of %u", bias->id,
                                   n_vocab);
        if (!(bias->bias >= -1e6f && bias->bias <= 1e6f))
            return error_set_field(
                err, RADISH_E_INVALID, "logit_bias",
                "logit_bias: the bias of token %d must be in [-1e6, 1e6], not %g", bias->id,
                (double)bias->bias);
    }
    return RADISH_OK;
}

enum radish_status sampling_check(const struct radish_sampling *sampling, uint32_t n_vocab,
                                  struct radish_error *err) {
    const struct {
        const char *field;
        float value;
        float min, max;
        const char *range;
    } limits[] = {
        {"temperature", sampling->temperature, 0, FLT_MAX, "[0, inf)"},
        {"min_p", sampling->min_p, 0, 1, "[0, 1]"},
        {"presence_penalty", sampling->presence_penalty, -2, 2, "[-2, 2]"},
        {"frequency_penalty", sampling->frequency_penalty, -2, 2, "[-2, 2]"},
    };
    for (size_t i = 0; i < sizeof limits / sizeof *limits; i++)
        if (!(limits[i].value >= limits[i].min && limits[i].value <= limits[i].max))
            return refuse(err, limits[i].field, (double)limits[i].value, limits[i].range);
    if (!(sampling->top_p > 0 && sampling->top_p <= 1))
        return refuse(err, "top_p", (double)sampling->top_p, "(0, 1]");
    if (!(sampling->repetition_penalty > 0 && sampling->repetition_penalty <= 2))
        return refuse(err, "repetition_penalty", (double)sampling->repetition_penalty, "(0, 2]");
    if (sampling->top_k != -1 && sampling->top_k < 1)
        return error_set_field(err, RADISH_E_INVALID, "top_k",
                               "top_k must be -1 (all) or at least 1, not %d", sampling->top_k);
    return check_bias(sampling, n_vocab, err);
}
