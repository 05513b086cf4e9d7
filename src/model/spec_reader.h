/* spec_reader.h - reads the parts of tokenizer.json into a tokenizer_spec; for tokenizer_json*.c
 * only.
 *
 * Owns: nothing; the spec borrows strings from the document and lists from the arena. What fails
 * sets err to E_FORMAT, E_UNSUPPORTED or E_LIMIT with the field's name. Threads: one at a time. */
#ifndef MODEL_SPEC_READER_H
#define MODEL_SPEC_READER_H

#include "radish.h"

#include "base/arena.h"
#include "text/tokenizer_spec.h"
#include "text/vocab.h"

#include <yyjson.h>

struct spec_reader {
    struct arena *arena;
    struct radish_error *err;
    struct tokenizer_spec *spec;
    struct spec_normalizer *normalizers; /* [SPEC_STEPS_MAX] each */
    struct spec_pretokenizer *pretokenizers;
    struct spec_decoder *decoders;
    struct vocab known; /* the model's vocabulary and what was added to it */
    uint32_t n_known;   /* contents in it */
    void *user;         /* of the spec_reader_fn in progress */
};

struct spec_str spec_reader_str_of(yyjson_val *val); /* data NULL when it is no string */

/* E_FORMAT: `field` must be `wanted`, not what val is. */
enum radish_status spec_reader_wrong(struct spec_reader *r, const char *field, const char *wanted,
                                     yyjson_val *val);

/* A member that must be a string; with _optional_ it may be absent or null, and *out stays. */
enum radish_status spec_reader_str(struct spec_reader *r, yyjson_val *part, const char *key,
                                   struct spec_str *out);
enum radish_status spec_reader_optional_str(struct spec_reader *r, yyjson_val *part,
                                            const char *key, struct spec_str *out);

enum radish_status spec_reader_id(struct spec_reader *r, yyjson_val *val, int32_t *id_out);

/* Index of a name in names[0..n), or E_UNSUPPORTED with the names that would do. */
enum radish_status spec_reader_find_name(struct spec_reader *r, const char *stage, yyjson_val *val,
                                         const char *const *names, int n, int *idx_out);

/* The same with the names of one of the tables in tokenizer_spec.h. */
#define SPEC_READER_NAME(suffix, name) name,
#define SPEC_READER_FIND(r, stage, val, TABLE, idx_out)                                            \
    spec_reader_find_name(                                                                         \
        r, stage, val, (const char *const[]){TABLE(SPEC_READER_NAME)},                             \
        (int)(sizeof((const char *const[]){TABLE(SPEC_READER_NAME)}) / sizeof(const char *)),      \
        idx_out)

/* Runs `read` on a part, or on each of its parts when it is a Sequence (parts_key). null: nothing.
 * depth: 0. */
typedef enum radish_status (*spec_reader_fn)(struct spec_reader *r, yyjson_val *part);
enum radish_status spec_reader_parts(struct spec_reader *r, const char *stage, yyjson_val *part,
                                     const char *parts_key, spec_reader_fn read, unsigned depth);

/* The stages: normalizer, pre_tokenizer and decoder; then post_processor. */
enum radish_status spec_reader_stages(struct spec_reader *r, yyjson_val *root);
enum radish_status spec_reader_post_processor(struct spec_reader *r, yyjson_val *root);

#endif
