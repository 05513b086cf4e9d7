/* load_answer.h - what one answer of a server under load says: its text, the tokens it counts, how
 * it ended.
 *
 * Understands the streams and bodies of /v1/completions, /v1/chat/completions and SGLang's
 * /generate, and the counts of tokens as OpenAI, llama.cpp and SGLang write them. What comes is
 * never trusted: a chunk that is no JSON of the expected form is an error of the request, not of
 * the program. Threads: one at a time. */
#ifndef BENCH_LOAD_ANSWER_H
#define BENCH_LOAD_ANSWER_H

#include "radish.h"

#include "base/buf.h"

enum load_endpoint { LOAD_COMPLETIONS, LOAD_CHAT, LOAD_GENERATE };

#define LOAD_TEXT_BYTES_MAX (64u << 20)

struct load_answer {
    enum load_endpoint endpoint;
    struct buf text;  /* of the answer so far */
    bool is_finished; /* a finish reason was given */
    bool is_done;     /* "[DONE]" came */
    bool has_prompt_tokens, has_output_tokens, has_cached_tokens;
    uint32_t prompt_tokens, output_tokens, cached_tokens;
    char error[160]; /* "" or what is wrong, in one line */
};

void load_answer_init(struct load_answer *answer, enum load_endpoint endpoint);
void load_answer_deinit(struct load_answer *answer);

/* One event of a stream. *has_text_out: it brought text. False: answer->error says why. */
bool load_answer_event(struct load_answer *answer, const char *data, size_t len,
                       bool *has_text_out);

/* The whole body of an answer that is not streamed. False: answer->error says why. */
bool load_answer_body(struct load_answer *answer, const char *body, size_t len);

/* What a server says about a failure, in one line: {"error": {"message": ..}} and its relatives,
 * else the begin of the body. */
void load_answer_explain(const char *body, size_t len, char line_out[160]);

/* Path of the endpoint: "/v1/completions". Static. */
const char *load_endpoint_path(enum load_endpoint endpoint);

#endif
