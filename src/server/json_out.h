/* json_out.h - writing JSON into a buf, piece by piece. Failure sticks in the buf. Threads: one at
 * a time per buf. */
#ifndef SERVER_JSON_OUT_H
#define SERVER_JSON_OUT_H

#include "base/buf.h"

/* "..." with quotes and escapes; bytes that are not UTF-8 become U+FFFD. */
void json_out_string(struct buf *out, const char *s, size_t len);

/* "key":  with the quotes and the colon; key is a literal that needs no escapes. */
void json_out_key(struct buf *out, const char *key);

/* Nine digits of a number; what JSON cannot say (NaN, an infinity) is null. */
void json_out_double(struct buf *out, double value);

/* A logarithm of a probability: JSON has no infinities and no NaN, so those become -9999, which is
 * what clients of this API know as "as good as impossible". */
void json_out_logprob(struct buf *out, float value);

#endif
