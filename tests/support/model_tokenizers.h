/* model_tokenizers.h - the tokenizers of the conformance data and of tests/data, for tests. */
#ifndef SUPPORT_MODEL_TOKENIZERS_H
#define SUPPORT_MODEL_TOKENIZERS_H

#include "radish.h"

#include "text/tokenizer.h"

#include <yyjson.h>

/* The folder of the conformance data; NULL (and a line that says so) when it is not there. */
const char *conformance_folder(void);

/* path of FOLDER/name inside a static buffer. */
const char *path_in(const char *folder, const char *name);

/* A file, or the .xz of it, decompressed; NULL when neither exists. Caller frees with free(). */
char *read_data_file(const char *folder, const char *name, size_t *len_out);

/* A JSON file likewise; NULL when absent; fails the test when it is not JSON. */
yyjson_doc *read_json_file(const char *folder, const char *name);

/* The tokenizer of a folder's tokenizer.json, or of its vocab.gguf; fails the test on an error,
 * NULL when the file is absent. */
struct tokenizer *open_json_tokenizer(const char *folder);
struct tokenizer *open_gguf_tokenizer(const char *folder);

/* SmolLM2-135M-Instruct as scripts/model fetched it; NULL when it is not there. */
struct tokenizer *open_smollm2_tokenizer(void);

struct golden_rows {
    unsigned n_encode, n_chat; /* compared */
};

/* Checks rows of a golden.json: ids, ids with specials, decode, decode_skip, and chat ids. Prints
 * the first differences and returns how many rows differ. nfc_only leaves out texts that NFC
 * changes. */
unsigned check_golden(const struct tokenizer *tokenizer, yyjson_val *golden, const char *name,
                      bool nfc_only, struct golden_rows *rows_out);

#endif
