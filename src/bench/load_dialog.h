/* load_dialog.h - what has been said in one conversation, and the request bodies made of it.
 *
 * A dialog is a text of parts that alternate: ours, the server's answer, ours ... As a prompt the
 * parts stand behind each other; as a chat they are messages. Threads: one at a time. */
#ifndef BENCH_LOAD_DIALOG_H
#define BENCH_LOAD_DIALOG_H

#include "radish.h"

#include "base/buf.h"
#include "load_answer.h"

struct load_dialog {
    struct buf text;
    size_t *ends; /* [n_parts] */
    uint32_t n_parts, capacity;
};

void load_dialog_init(struct load_dialog *dialog);
void load_dialog_deinit(struct load_dialog *dialog);

/* The text appended since the last call becomes a part. E_NOMEM. */
enum radish_status load_dialog_end_part(struct load_dialog *dialog) RADISH_CHECK_RESULT;
enum radish_status load_dialog_copy(struct load_dialog *dialog,
                                    const struct load_dialog *from) RADISH_CHECK_RESULT;

struct load_body {
    enum load_endpoint endpoint;
    const char *model;
    uint32_t output_tokens;
    bool ignores_eos;
    bool streams;
    const char *extra; /* a JSON object whose members are added or replace ours, or NULL */
};

/* The JSON body of a request. extra must parse as an object (load_body_check()). */
enum radish_status load_body_write(const struct load_body *body, const struct load_dialog *dialog,
                                   struct buf *out) RADISH_CHECK_RESULT;
enum radish_status load_body_check(const char *extra, struct radish_error *err) RADISH_CHECK_RESULT;

#endif
