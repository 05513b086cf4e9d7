/* hub_rate.c - a moving average for the estimate of time left.
 *
 * The average since the start is wrong after a resume or a stall, and the speed of the last moment
 * jumps; eight seconds smooth the one and follow the other. Samples a quarter of a second apart in
 * a ring of 32 are that window, so nothing has to be expired. */
#include "hub_rate.h"

#define SAMPLE_NS 250000000u

void hub_rate_add(struct hub_rate *rate, uint64_t now_ns, uint64_t bytes) {
    if (rate->n) {
        const uint32_t last = (rate->next + HUB_RATE_SAMPLES - 1) % HUB_RATE_SAMPLES;
        if (now_ns - rate->samples[last].ns < SAMPLE_NS) return;
    }
    rate->samples[rate->next].ns = now_ns;
    rate->samples[rate->next].bytes = bytes;
    rate->next = (rate->next + 1) % HUB_RATE_SAMPLES;
    if (rate->n < HUB_RATE_SAMPLES) rate->n++;
}

double hub_rate_bytes_per_second(const struct hub_rate *rate, uint64_t now_ns, uint64_t bytes) {
    if (!rate->n) return 0;
    const uint32_t oldest = rate->n < HUB_RATE_SAMPLES ? 0 : rate->next;
    const uint64_t ns = now_ns - rate->samples[oldest].ns;
    if (ns < SAMPLE_NS || bytes < rate->samples[oldest].bytes) return 0;
    return (double)(bytes - rate->samples[oldest].bytes) / ((double)ns / 1e9);
}
