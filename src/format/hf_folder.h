/* hf_folder.h - a Hugging Face folder: its JSON files parsed, its safetensors files opened.
 *
 * Owns everything it points to. Absent files are NULL; a broken one is an error that names it.
 * Threads: immutable after open. */
#ifndef FORMAT_HF_FOLDER_H
#define FORMAT_HF_FOLDER_H

#include "radish.h"

#include "safetensors.h"

#include <yyjson.h>

enum hf_json_file {
    HF_CONFIG,
    HF_GENERATION_CONFIG,
    HF_TOKENIZER,
    HF_TOKENIZER_CONFIG,
    HF_SPECIAL_TOKENS_MAP,
    HF_JSON_FILE_COUNT
};

struct hf_folder {
    yyjson_doc *docs[HF_JSON_FILE_COUNT]; /* root is an object */
    char *chat_template;                  /* [chat_template_len] chat_template.jinja */
    size_t chat_template_len;
    struct safetensors **shards; /* [n_shards]; model_file.c checks that no tensor is in two */
    size_t n_shards;             /* 0: no weights */
};

/* Reads what is there. Without weights: E_NOT_FOUND unless text_only_ok. */
enum radish_status hf_folder_open(const char *path, bool text_only_ok, struct hf_folder *folder_out,
                                  struct radish_error *err) RADISH_CHECK_RESULT;

/* A folder with nothing but this config.json. */
enum radish_status hf_folder_open_config(const char *json, size_t len, struct hf_folder *folder_out,
                                         struct radish_error *err) RADISH_CHECK_RESULT;
void hf_folder_close(struct hf_folder *folder);

#endif
