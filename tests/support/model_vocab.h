/* model_vocab.h - GGUF files of metadata only: a vocabulary, written key by key. For tests. */
#ifndef SUPPORT_MODEL_VOCAB_H
#define SUPPORT_MODEL_VOCAB_H

#include "radish.h"

#include "base/buf.h"

struct tokenizer;

/* Zero-initialise, add keys, take the bytes. Keys go below "tokenizer.". */
struct vocab_file {
    struct buf values;
    uint64_t n_values;
};

void vocab_file_add_str(struct vocab_file *f, const char *key, const char *value);
void vocab_file_add_u32(struct vocab_file *f, const char *key, uint32_t value);
void vocab_file_add_bool(struct vocab_file *f, const char *key, bool value);
void vocab_file_add_strs(struct vocab_file *f, const char *key, const char *const *strs, size_t n);
void vocab_file_add_i32s(struct vocab_file *f, const char *key, const int32_t *values, size_t n);
void vocab_file_add_bytes(struct vocab_file *f, const char *key, const void *bytes, size_t n);
void vocab_file_add_f32s(struct vocab_file *f, const char *key, const float *values, size_t n);

/* "gpt2" with a pre-tokenizer (or none): the 256 bytes, then "ab", "12", "<ctl>" (control), "<usr>"
 * (user-defined) and "<old>" (unused); "a b" and "1 2" merge. */
enum { ID_AB = 256, ID_12, ID_CONTROL, ID_USER, ID_UNUSED, N_IDS };
struct vocab_file vocab_file_bytes(const char *pre);

/* The file; f is empty then. Caller frees with buf_deinit(). */
void vocab_file_take(struct vocab_file *f, struct buf *out);

/* The tokenizer of the file, which is then gone; NULL, and err filled, when it is refused. */
struct tokenizer *vocab_file_open(struct vocab_file *f, struct radish_error *err);

#endif
