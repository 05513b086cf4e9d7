/* sched_pace.c - two straight lines and a margin: what the next step will take.
 *
 * The problem: a stream that decodes stands still while a chunk of somebody's prompt is computed in
 * the same step, so the chunk must be as long as the time bound allows, and no longer. How long a
 * token takes depends on the machine, the model, the kernels, and on the position, since attention
 * reads all that came before. The idea: measure.
 *
 *   decode-only step of n sequences:   a + b n            (weights are read once, KV per sequence)
 *   a prefill token at position p:     c + d p            (products, and attention over p tokens)
 *   a step of both:                    (a + b n) + sum over its tokens of (c + d p)
 *
 * Each line is fitted by least squares in which a point weighs FADE of what it did a step before
 * (prefill points by their number of tokens, so that a prompt of three, which pays for reading all
 * weights, says little). A slope that the points do not show is 0. What a step took beyond what was
 * predicted becomes the margin, at once, and is forgotten slowly: the first chunk after the machine
 * got slower may be late, the second is not.
 *
 * A table of averages by depth and batch size, the obvious other way, knows nothing about the cell
 * next to the one it has measured; a line does.
 *
 * Cost: a dozen flops a step. */
#include "sched/sched_pace.h"

#include <math.h>

#define FADE         0.85
#define MARGIN_FADE  0.97 /* a peak counts half after 23 chunks */
#define MARGIN_MAX   4.0
#define TOKEN_NS     1e6  /* before anything is measured: a small model on a few cores */
#define SLOPE_SPREAD 1e-3 /* of the mean: points closer together show no slope */

static void add_point(struct pace_line *line, double x, double y, double weight) {
    line->w = line->w * FADE + weight;
    line->x = line->x * FADE + weight * x;
    line->y = line->y * FADE + weight * y;
    line->xx = line->xx * FADE + weight * x * x;
    line->xy = line->xy * FADE + weight * x * y;
}

static double mean_of(const struct pace_line *line) {
    return line->w > 0 ? line->y / line->w : 0;
}

static double slope_of(const struct pace_line *line) {
    if (line->w <= 0) return 0;
    double x = line->x / line->w, y = line->y / line->w;
    double spread = line->xx / line->w - x * x;
    if (spread <= SLOPE_SPREAD * (x * x + 1)) return 0;
    double slope = (line->xy / line->w - x * y) / spread;
    return slope > 0 ? slope : 0;
}

/* Never below a tenth of the mean: a line fitted to noise may cross zero. */
static double value_at(const struct pace_line *line, double x) {
    if (line->w <= 0) return 0;
    double mean = mean_of(line), y = mean + slope_of(line) * (x - line->x / line->w);
    return y > mean / 10 ? y : mean / 10;
}

void pace_init(struct pace *pace) {
    *pace = (struct pace){.margin = 1};
}

bool pace_knows_prefill(const struct pace *pace) {
    return pace->prefill.w > 0;
}

double pace_decode_ns(const struct pace *pace, uint32_t n_decodes) {
    return n_decodes ? value_at(&pace->decode, n_decodes) : 0;
}

double pace_token_ns(const struct pace *pace) {
    return pace_knows_prefill(pace) ? mean_of(&pace->prefill) : TOKEN_NS;
}

void pace_add(struct pace *pace, const struct pace_step *step, uint64_t duration_ns) {
    double duration = (double)duration_ns, n = step->n_prefill_tokens;
    if (!step->n_prefill_tokens) {
        if (step->n_decodes) add_point(&pace->decode, step->n_decodes, duration, 1);
        return;
    }
    double decode = pace_decode_ns(pace, step->n_decodes), depth = step->position_sum / n;
    if (pace_knows_prefill(pace)) {
        double ratio = duration / (decode + n * value_at(&pace->prefill, depth) + 1);
        double faded = 1 + (pace->margin - 1) * MARGIN_FADE;
        pace->margin = fmin(fmax(ratio, faded), MARGIN_MAX);
    }
    double rest = duration - decode;
    add_point(&pace->prefill, depth, fmax(rest, duration / 100) / n, n);
}

/* n tokens from p on take n (y(p) + slope (n - 1) / 2): solved for n. */
uint32_t pace_tokens_in(const struct pace *pace, double budget_ns, uint32_t position) {
    if (!pace_knows_prefill(pace) || budget_ns <= 0) return 0;
    double half = slope_of(&pace->prefill) * pace->margin / 2;
    double first = value_at(&pace->prefill, position) * pace->margin - half;
    double n = half * budget_ns > 1e-9 * first * first
                   ? (sqrt(first * first + 4 * half * budget_ns) - first) / (2 * half)
                   : budget_ns / first;
    return n < UINT32_MAX ? (uint32_t)n : UINT32_MAX;
}

double pace_chunk_ns(const struct pace *pace, uint32_t n, uint32_t position) {
    double slope = slope_of(&pace->prefill);
    return n * pace->margin * (value_at(&pace->prefill, position) + slope * ((double)n - 1) / 2);
}
