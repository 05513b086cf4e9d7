/* foreign_flags.c - for whoever types the command line of another server.
 *
 * Most who try this program come from one of three others, with a command line in their fingers.
 * Taking its flags as they are would be a second set of names to keep, whose meanings differ in
 * the details that matter (llama.cpp's -c is shared by its slots, ours is for each request). So
 * they are refused like any unknown flag, but the refusal says what to write. */
#include "foreign_flags.h"

#include <stddef.h>
#include <string.h>

struct foreign_flag {
    const char *names; /* as typed, between spaces */
    const char *hint;
};

static const struct foreign_flag foreign_flags[] = {
    {" --model-path --model -m ", "the model is the first argument, without a flag"},
    {" --hf-repo ", "name a model that 'radish pull' has fetched"},
    {" --max-model-len --ctx-size -c ", "here it is --context-length"},
    {" --max-num-seqs --parallel -np ", "here it is --max-running-requests"},
    {" --max-num-batched-tokens --batch-size -b --ubatch-size -ub ",
     "here it is --chunked-prefill-size"},
    {" --gpu-memory-utilization ", "here it is --mem-fraction-static"},
    {" --num-gpu-blocks-override ", "here it is --max-total-tokens"},
    {" --block-size ", "here it is --page-size"},
    {" --alias -a ", "here it is --served-model-name"},
    {" --seed -s ", "here it is --random-seed"},
    {" -t --threads-batch -tb ", "here it is --threads"},
    {" --chat-template-file ", "here it is --chat-template"},
    {" --timeout ", "here it is --request-timeout"},
    {" --scheduling-policy ", "here it is --schedule-policy, or --enable-priority-scheduling"},
    {" --cache-type-k -ctk --cache-type-v -ctv ", "here it is --kv-cache-dtype, for both"},
    {" --allowed-origins ", "here it is --cors-origin"},
    {" --dtype ", "here it is --precision, or --quantization"},
    {" --no-enable-prefix-caching ", "here it is --disable-radix-cache"},
    {" --enable-prefix-caching --cache-prompt --cont-batching -cb --enable-metrics --metrics "
     "--jinja "
     "--enable-chunked-prefill --enable-cache-report --enable-auto-tool-choice ",
     "here that is always on"},
};

const char *foreign_flag_hint(const char *typed) {
    char name[64] = " ";
    size_t len = strcspn(typed, "=");
    if (len > sizeof name - 3) return NULL;
    memcpy(name + 1, typed, len);
    memcpy(name + 1 + len, " ", 2);
    for (size_t i = 0; i < sizeof foreign_flags / sizeof *foreign_flags; i++)
        if (strstr(foreign_flags[i].names, name)) return foreign_flags[i].hint;
    return NULL;
}
