/* model_text.h - the text side of an opened model: tokenizer, chat template, the special tokens
 * that templates see, and the end tokens that the tokenizer's files name.
 *
 * Owns: all it points to, copied: the model file may be closed. Threads: immutable after open.
 *
 * The template, first that exists: options.chat_template_path; then, of a folder,
 * chat_template.jinja, tokenizer_config.chat_template (a string, or a list of {name, template});
 * of a GGUF file tokenizer.chat_template and tokenizer.chat_template.NAME. A name picks among
 * several; without one "default" is taken. A template of the model's own that does not compile
 * leaves the model usable: template is NULL and template_error says why (it is logged, too). */
#ifndef MODEL_MODEL_TEXT_H
#define MODEL_MODEL_TEXT_H

#include "radish.h"

#include "format/model_file.h"
#include "jinja/chat_template.h"
#include "text/tokenizer.h"

#define MODEL_TEXT_EOS_MAX 32
#define MODEL_TEXT_VARS    7

/* A variable of the template: "bos_token" = "<s>". */
struct model_text_var {
    const char *name; /* static */
    char *content;    /* NUL-terminated, or NULL: not set (the template sees it as undefined) */
    int32_t id;       /* of content in the tokenizer; -1 = not there */
};

struct model_text {
    struct tokenizer *tokenizer;
    struct chat_template *template; /* NULL = none */
    char *template_source;          /* [template_len] and a NUL; NULL = none */
    size_t template_len;
    char template_error[320];                    /* "" unless the model's own does not compile */
    struct model_text_var vars[MODEL_TEXT_VARS]; /* bos, eos, unk, sep, pad, cls, mask _token */
    int32_t bos_id;                              /* -1 = none */
    int32_t eos_ids[MODEL_TEXT_EOS_MAX];         /* tokenizer_config's eos; GGUF's eos, eot, eom */
    uint32_t n_eos_ids;
};

struct model_text_options {
    const char *chat_template_path; /* replaces the model's own template, or NULL */
    const char *chat_template_name; /* NULL = "default" */
};

/* options may be NULL. E_NOT_FOUND: no tokenizer in the file, or no template of the name asked
 * for; else as tokenizer_json_spec(), tokenizer_gguf_spec(), tokenizer_create(). */
enum radish_status model_text_open(const struct model_file *file,
                                   const struct model_text_options *options,
                                   struct model_text **text_out,
                                   struct radish_error *err) RADISH_CHECK_RESULT;
void model_text_close(struct model_text *text);

/* The content of a variable ("eos_token"), or NULL: borrowed until close. */
const char *model_text_var(const struct model_text *text, const char *name);

#endif
