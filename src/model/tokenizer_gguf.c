/* tokenizer_gguf.c - reads tokenizer.ggml.*.
 *
 * GGUF keeps tokens, types, scores and merges, but of the pipeline only names: tokenizer.ggml.model
 * (the algorithm) and tokenizer.ggml.pre (the pre-tokenizer). PRE_ROWS says, for each name, what
 * the models behind it have in their tokenizer.json: steps, normalizer, whether whole words skip
 * the merges, whether a BOS is usual. A name that is not there is refused: a wrong guess costs
 * accuracy that nobody would trace back to it. "default" is such a guess, made by the converter.
 *
 * Types: control (3) and unknown (2) tokens become special added tokens, user-defined (4) ordinary
 * added tokens; these and unused (5) ones are never made by the model itself.
 *
 * "llama" is SentencePiece's BPE, which has scores instead of merges: a pair may merge when its
 * product is a token, best score first. That is the same as a list of merges, ordered by the score
 * of their product, so the list is made here (as converters to tokenizer.json do) and one
 * implementation serves both. */
#include "tokenizer_gguf.h"

#include "base/log.h"
#include "base/status.h"
#include "base/utf8.h"
#include "text/vocab.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* ---- pre-tokenizers by name */

#define CONTRACTIONS "(?i:'s|'t|'re|'ve|'m|'ll|'d)"
#define REST         " ?[^\\s\\p{L}\\p{N}]+[\\r\\n]*|\\s*[\\r\\n]+|\\s+(?!\\S)|\\s+"
#define REST_SLASH   " ?[^\\s\\p{L}\\p{N}]+[\\r\\n/]*|\\s*[\\r\\n]+|\\s+(?!\\S)|\\s+"
#define UPPER        "\\p{Lu}\\p{Lt}\\p{Lm}\\p{Lo}\\p{M}"
#define LOWER        "\\p{Ll}\\p{Lm}\\p{Lo}\\p{M}"
#define NO_HAN       "&&[^\\p{Han}]"
#define BEFORE_WORD  "[^\\r\\n\\p{L}\\p{N}]?"

#define SPLIT(regex)                                                                               \
    {                                                                                              \
        .kind = SPEC_PRETOKENIZER_SPLIT, .pattern = { {regex, sizeof(regex) - 1}, true }           \
    }
#define BYTES                                                                                      \
    { .kind = SPEC_PRETOKENIZER_BYTE_LEVEL }
#define WORDS_AND_BYTES                                                                            \
    { .kind = SPEC_PRETOKENIZER_BYTE_LEVEL, .uses_regex = true }
#define DIGITS                                                                                     \
    { .kind = SPEC_PRETOKENIZER_DIGITS, .is_individual = true }

static const struct spec_pretokenizer GPT2[] = {WORDS_AND_BYTES};
static const struct spec_pretokenizer SMOLLM[] = {DIGITS, WORDS_AND_BYTES};
static const struct spec_pretokenizer LLAMA3[] = {
    SPLIT(CONTRACTIONS "|" BEFORE_WORD "\\p{L}+|\\p{N}{1,3}|" REST), BYTES};
static const struct spec_pretokenizer QWEN2[] = {
    SPLIT(CONTRACTIONS "|" BEFORE_WORD "\\p{L}+|\\p{N}|" REST), BYTES};
static const struct spec_pretokenizer QWEN35[] = {
    SPLIT(CONTRACTIONS "|" BEFORE_WORD "[\\p{L}\\p{M}]+|\\p{N}|"
                       " ?[^\\s\\p{L}\\p{M}\\p{N}]+[\\r\\n]*|\\s*[\\r\\n]+|\\s+(?!\\S)|\\s+"),
    BYTES};
static const struct spec_pretokenizer TEKKEN[] = {
    SPLIT(BEFORE_WORD "[" UPPER "]*[" LOWER "]+|" BEFORE_WORD "[" UPPER "]+[" LOWER "]*|"
                      "\\p{N}|" REST_SLASH),
    BYTES};
static const struct spec_pretokenizer GPT4O[] = {
    SPLIT(BEFORE_WORD "[" UPPER "]*[" LOWER "]+" CONTRACTIONS "?|" BEFORE_WORD "[" UPPER "]+[" LOWER
                      "]*" CONTRACTIONS "?|\\p{N}{1,3}|" REST_SLASH),
    BYTES};
static const struct spec_pretokenizer KIMI_K2[] = {
    SPLIT("[\\p{Han}]+|" BEFORE_WORD "[" UPPER NO_HAN "]*[" LOWER NO_HAN "]+" CONTRACTIONS
          "?|" BEFORE_WORD "[" UPPER NO_HAN "]+[" LOWER NO_HAN "]*" CONTRACTIONS
          "?|\\p{N}{1,3}|" REST),
    BYTES};
static const struct spec_pretokenizer DEEPSEEK_V3[] = {
    SPLIT("\\p{N}{1,3}"), SPLIT("[\\x{4E00}-\\x{9FA5}\\x{3040}-\\x{309F}\\x{30A0}-\\x{30FF}]+"),
    SPLIT("[!\"#$%&'()*+,\\-./:;<=>?@\\[\\\\\\]^_`{|}~][A-Za-z]+|"
          "[^\\r\\n\\p{L}\\p{P}\\p{S}]?[\\p{L}\\p{M}]+| ?[\\p{P}\\p{S}]+[\\r\\n]*|"
          "\\s*[\\r\\n]+|\\s+(?!\\S)|\\s+"),
    BYTES};
/* Letters with case, as Unicode 12 had them. */
#define CASED_LETTERS                                                                              \
    "A-Za-z\\x{B5}\\x{C0}-\\x{D6}\\x{D8}-\\x{F6}\\x{F8}-\\x{1BA}\\x{1BC}-\\x{1BF}"                 \
    "\\x{1C4}-\\x{293}\\x{295}-\\x{2AF}\\x{370}-\\x{373}\\x{376}\\x{377}\\x{37B}-\\x{37D}"         \
    "\\x{37F}\\x{386}\\x{388}-\\x{38A}\\x{38C}\\x{38E}-\\x{3A1}\\x{3A3}-\\x{3F5}"                  \
    "\\x{3F7}-\\x{481}\\x{48A}-\\x{52F}\\x{531}-\\x{556}\\x{10A0}-\\x{10C5}"                       \
    "\\x{13A0}-\\x{13F5}\\x{13F8}-\\x{13FD}\\x{1C90}-\\x{1CBA}\\x{1CBD}-\\x{1CBF}"                 \
    "\\x{1D00}-\\x{1D2B}\\x{1D6B}-\\x{1D77}\\x{1D79}-\\x{1D9A}\\x{1E00}-\\x{1F15}"                 \
    "\\x{1F18}-\\x{1F1D}\\x{1F20}-\\x{1F45}\\x{1F48}-\\x{1F4D}\\x{1F50}-\\x{1F57}"                 \
    "\\x{1F59}\\x{1F5B}\\x{1F5D}\\x{1F5F}-\\x{1F7D}\\x{1F80}-\\x{1FB4}\\x{1FB6}-\\x{1FBC}"         \
    "\\x{1FBE}\\x{1FC2}-\\x{1FC4}\\x{1FC6}-\\x{1FCC}\\x{1FD0}-\\x{1FD3}"                           \
    "\\x{1FD6}-\\x{1FDB}\\x{1FE0}-\\x{1FEC}\\x{1FF2}-\\x{1FF4}\\x{1FF6}-\\x{1FFC}"                 \
    "\\x{2102}\\x{2107}\\x{210A}-\\x{2113}\\x{2115}\\x{2119}-\\x{211D}\\x{2124}\\x{2126}"          \
    "\\x{2128}\\x{212A}-\\x{212D}\\x{212F}-\\x{2134}\\x{2139}\\x{213C}-\\x{213F}"                  \
    "\\x{2145}-\\x{2149}\\x{214E}\\x{2183}\\x{2184}\\x{2C00}-\\x{2C7B}\\x{2C7E}-\\x{2CE4}"         \
    "\\x{2CEB}-\\x{2CEE}\\x{2CF2}\\x{2CF3}\\x{A640}-\\x{A66D}\\x{A680}-\\x{A69B}"                  \
    "\\x{A722}-\\x{A76F}\\x{A771}-\\x{A787}\\x{A78B}-\\x{A78E}\\x{AB70}-\\x{ABBF}"                 \
    "\\x{FB00}-\\x{FB06}\\x{FB13}-\\x{FB17}\\x{FF21}-\\x{FF3A}\\x{FF41}-\\x{FF5A}"                 \
    "\\x{10400}-\\x{1044F}\\x{104B0}-\\x{104D3}\\x{104D8}-\\x{104FB}\\x{10C80}-\\x{10CB2}"         \
    "\\x{10CC0}-\\x{10CF2}\\x{118A0}-\\x{118DF}\\x{1E900}-\\x{1E943}"
#define CJK_WIDE "[\\x{4E00}-\\x{9FA5}\\x{800}-\\x{4E00}\\x{AC00}-\\x{D7FF}]+"

static const struct spec_pretokenizer DEEPSEEK_LLM[] = {
    SPLIT("[\\r\\n]"),
    SPLIT("\\s?[" CASED_LETTERS "]+"),
    SPLIT("\\s?[!-/"
          ":-~\\x{FF01}-\\x{FF0F}\\x{FF1A}-\\x{FF5E}\\x{2018}-\\x{201F}\\x{3000}-\\x{3002}]+"),
    SPLIT("\\s+$"),
    SPLIT(CJK_WIDE),
    DIGITS,
    BYTES};
static const struct spec_pretokenizer DEEPSEEK_CODER[] = {
    SPLIT("[\\r\\n]"), SPLIT("\\s?\\p{L}+"), SPLIT("\\s?\\p{P}+"), SPLIT(CJK_WIDE), DIGITS, BYTES};
static const struct spec_pretokenizer FALCON[] = {
    {.kind = SPEC_PRETOKENIZER_PUNCTUATION, .behavior = SPEC_BEHAVIOR_CONTIGUOUS},
    WORDS_AND_BYTES,
    {.kind = SPEC_PRETOKENIZER_DIGITS},
    SPLIT("[0-9][0-9][0-9]")};
static const struct spec_pretokenizer BLOOM[] = {SPLIT(" ?[^(\\s|[.,!?…。，、।۔،])]+"), BYTES};
static const struct spec_pretokenizer SEED_CODER[] = {
    SPLIT(CONTRACTIONS "|" BEFORE_WORD "\\p{L}+|\\p{N}{1}| ?[^\\s\\p{L}\\p{N}\\r\\n]+|"
                       "\\s*[\\r\\n]+|\\s+(?!\\S)|\\s+"),
    BYTES};
static const struct spec_pretokenizer BAILINGMOE[] = {
    SPLIT("'(?i:[sdmt]|ll|ve|re)|[^\\r\\n\\p{L}\\p{N}]?+\\p{L}+|\\p{N}|"
          " ?[^\\s\\p{L}\\p{N}]++[\\r\\n]*|\\s*[\\r\\n]|\\s+(?!\\S)|\\s+"),
    BYTES};

struct pre_row {
    const char *name;
    const struct spec_pretokenizer *steps; /* [n_steps] */
    uint32_t n_steps;
    bool has_nfc;        /* text is normalised first */
    bool ignores_merges; /* a whole piece that is a token stays whole */
    bool adds_bos;       /* unless the file says otherwise */
};

#define ROW(name, steps, nfc, ignores_merges, adds_bos)                                            \
    { name, steps, sizeof(steps) / sizeof *(steps), nfc, ignores_merges, adds_bos }

static const struct pre_row PRE_ROWS[] = {
    ROW("gpt-2", GPT2, false, false, false),
    ROW("phi-2", GPT2, false, false, false),
    ROW("roberta-bpe", GPT2, false, false, true),
    ROW("mpt", GPT2, true, false, false),
    ROW("olmo", GPT2, true, false, false),
    ROW("jais", GPT2, false, false, false),
    ROW("smollm", SMOLLM, false, false, false),
    ROW("starcoder", SMOLLM, false, false, false),
    ROW("refact", SMOLLM, false, false, false),
    ROW("command-r", SMOLLM, true, false, false),
    ROW("llama-bpe", LLAMA3, false, true, true),
    ROW("llama3", LLAMA3, false, true, true),
    ROW("llama-v3", LLAMA3, false, true, true),
    ROW("falcon3", LLAMA3, false, true, true),
    ROW("smaug-bpe", LLAMA3, false, true, false),
    ROW("dbrx", LLAMA3, false, false, false),
    ROW("glm4", LLAMA3, false, false, false),
    ROW("chatglm-bpe", LLAMA3, false, false, false),
    ROW("qwen2", QWEN2, true, false, false),
    ROW("deepseek-r1-qwen", QWEN2, true, false, false),
    ROW("megrez", QWEN2, true, false, false),
    ROW("stablelm2", QWEN2, true, false, false),
    ROW("qwen35", QWEN35, true, false, false),
    ROW("tekken", TEKKEN, false, true, true),
    ROW("gpt-4o", GPT4O, false, true, false),
    ROW("llama4", GPT4O, false, true, false),
    ROW("kimi-k2", KIMI_K2, false, true, false),
    ROW("deepseek-llm", DEEPSEEK_LLM, false, false, false),
    ROW("deepseek-coder", DEEPSEEK_CODER, false, false, false),
    ROW("deepseek-v3", DEEPSEEK_V3, false, false, false),
    ROW("falcon", FALCON, false, false, false),
    ROW("bloom", BLOOM, false, false, false),
    ROW("seed-coder", SEED_CODER, false, false, false),
    ROW("bailingmoe", BAILINGMOE, false, false, false),
};

enum { N_PRE_ROWS = sizeof PRE_ROWS / sizeof *PRE_ROWS };

/* ---- reading */

enum token_type { TYPE_NORMAL = 1, TYPE_UNKNOWN, TYPE_CONTROL, TYPE_USER_DEFINED, TYPE_UNUSED };

struct reader {
    const struct gguf *gguf;
    struct arena *arena;
    struct radish_error *err;
    struct tokenizer_spec *spec;
    const struct gguf_value *types;      /* NULL = all normal */
    struct spec_normalizer *normalizers; /* [SPEC_STEPS_MAX] each */
    struct spec_pretokenizer *pretokenizers;
    struct spec_decoder *decoders;
};

static enum radish_status wrong(const struct reader *r, const char *key, const char *wanted) {
    return error_set_field(r->err, RADISH_E_FORMAT, key, "GGUF key %s must be %s", key, wanted);
}

/* An array of n elements (any number with n NULL); *out NULL when absent. */
static enum radish_status read_array(const struct reader *r, const char *key, bool is_str,
                                     const uint32_t *n, const struct gguf_value **out) {
    const struct gguf_value *value = gguf_find(r->gguf, key);
    *out = value;
    if (!value) return RADISH_OK;
    if (value->type != GGUF_ARRAY || (value->array.elem_type == GGUF_STR) != is_str)
        return wrong(r, key, is_str ? "an array of strings" : "an array of numbers");
    if (n ? value->array.n != *n : value->array.n > (1u << 24))
        return wrong(r, key, n ? "as long as tokenizer.ggml.tokens" : "of a sane length");
    return RADISH_OK;
}

static enum token_type type_of(const struct reader *r, uint32_t id) {
    return r->types ? (enum token_type)gguf_array_i64(r->types, id) : TYPE_NORMAL;
}

static bool is_added_type(enum token_type type) {
    return type == TYPE_UNKNOWN || type == TYPE_CONTROL || type == TYPE_USER_DEFINED;
}

static enum radish_status read_tokens(struct reader *r) {
    const char *key = "tokenizer.ggml.tokens";
    const struct gguf_value *list;
    uint32_t n_added = 0;
    RADISH_TRY(read_array(r, key, /*is_str=*/true, NULL, &list));
    if (!list || !list->array.n || list->array.n > SPEC_TOKENS_MAX)
        return wrong(r, key, "a list of tokens");
    const uint32_t n = (uint32_t)list->array.n;
    RADISH_TRY(read_array(r, "tokenizer.ggml.token_type", /*is_str=*/false, &n, &r->types));
    if (r->types && !gguf_is_int(r->types->array.elem_type))
        return wrong(r, "tokenizer.ggml.token_type", "an array of integers");
    struct spec_token *tokens = arena_zalloc(r->arena, n, sizeof *tokens);
    struct spec_added *added = arena_zalloc(r->arena, n, sizeof *added);
    if (!tokens || !added) return error_nomem(r->err);
    for (uint32_t i = 0; i < n; i++) {
        enum token_type type = type_of(r, i);
        tokens[i].content = (struct spec_str){list->array.strs[i].data, list->array.strs[i].len};
        tokens[i].id = (int32_t)i;
        tokens[i].is_hidden = is_added_type(type) || type == TYPE_UNUSED;
        if (is_added_type(type) && tokens[i].content.len)
            added[n_added++] = (struct spec_added){.content = tokens[i].content,
                                                   .id = (int32_t)i,
                                                   .is_special = type != TYPE_USER_DEFINED};
    }
    r->spec->tokens = tokens;
    r->spec->n_tokens = n;
    r->spec->added = added;
    r->spec->n_added = n_added;
    return RADISH_OK;
}

/* "left right": parts of the byte-level alphabet hold no space, others may start with one. */
static enum radish_status read_merges(struct reader *r) {
    const char *key = "tokenizer.ggml.merges";
    const struct gguf_value *list;
    RADISH_TRY(read_array(r, key, /*is_str=*/true, NULL, &list));
    if (!list) return wrong(r, key, "a list of merges");
    struct spec_merge *merges = arena_zalloc(r->arena, (size_t)list->array.n, sizeof *merges);
    if (!merges) return error_nomem(r->err);
    for (uint64_t i = 0; i < list->array.n; i++) {
        const struct gguf_str *both = &list->array.strs[i];
        const char *space = both->len > 1 ? memchr(both->data + 1, ' ', both->len - 1) : NULL;
        if (!space) return wrong(r, key, "a list of \"left right\"");
        size_t left_len = (size_t)(space - both->data);
        merges[i].left = (struct spec_str){both->data, left_len};
        merges[i].right = (struct spec_str){space + 1, both->len - left_len - 1};
    }
    r->spec->merges = merges;
    r->spec->n_merges = (uint32_t)list->array.n;
    return RADISH_OK;
}

/* One id before or behind the text, where the file (or the kind of tokenizer) wants it. */
static enum radish_status read_template_id(struct reader *r, const char *flag_key, bool is_wanted,
                                           const char *id_key, const int32_t **ids_out,
                                           uint32_t *n_out) {
    uint32_t id = UINT32_MAX;
    RADISH_TRY(gguf_get_bool(r->gguf, flag_key, &is_wanted, r->err));
    RADISH_TRY(gguf_get_u32(r->gguf, id_key, &id, r->err));
    if (!is_wanted) return RADISH_OK;
    if (id == UINT32_MAX) {
        log_warn("model", "GGUF: %s is set or usual, but %s is absent: nothing is added", flag_key,
                 id_key);
        return RADISH_OK;
    }
    if (id >= r->spec->n_tokens) return wrong(r, id_key, "the id of a token");
    int32_t *copy = arena_alloc(r->arena, sizeof *copy);
    if (!copy) return error_nomem(r->err);
    *copy = (int32_t)id;
    *ids_out = copy;
    *n_out = 1;
    return RADISH_OK;
}

static enum radish_status read_template(struct reader *r, bool adds_bos) {
    RADISH_TRY(read_template_id(r, "tokenizer.ggml.add_bos_token", adds_bos,
                                "tokenizer.ggml.bos_token_id", &r->spec->prefix_ids,
                                &r->spec->n_prefix_ids));
    return read_template_id(r, "tokenizer.ggml.add_eos_token", false, "tokenizer.ggml.eos_token_id",
                            &r->spec->suffix_ids, &r->spec->n_suffix_ids);
}

/* ---- "gpt2": byte-level BPE */

static enum radish_status find_pre(const struct reader *r, const struct pre_row **row_out) {
    const char *key = "tokenizer.ggml.pre";
    struct gguf_str name = {"default", 7};
    char supported[600] = "";
    size_t len = 0;
    RADISH_TRY(gguf_get_str(r->gguf, key, &name, r->err));
    for (size_t i = 0; i < N_PRE_ROWS; i++) {
        *row_out = &PRE_ROWS[i];
        if (strlen(PRE_ROWS[i].name) == name.len &&
            memcmp(PRE_ROWS[i].name, name.data, name.len) == 0)
            return RADISH_OK;
        len += (size_t)snprintf(supported + len, sizeof supported - len, "%s%s", i ? ", " : "",
                                PRE_ROWS[i].name);
    }
    if (name.len == 7 && memcmp(name.data, "default", 7) == 0)
        return error_set_field(
            r->err, RADISH_E_UNSUPPORTED, key,
            "this GGUF file does not say how its text is split (%s is absent or \"default\"), and "
            "a "
            "guess would cost accuracy: take a newer conversion, or the original model folder",
            key);
    log_info("model", "pre-tokenizers known: %s", supported);
    return error_set_field(r->err, RADISH_E_UNSUPPORTED, key,
                           "pre-tokenizer \"%.*s\" of this GGUF file is not known (known: gpt-2, "
                           "smollm, llama-bpe, qwen2, tekken, gpt-4o, deepseek-v3 and %d more): "
                           "take the original model folder",
                           name.len > 40 ? 40 : (int)name.len, name.data, N_PRE_ROWS - 7);
}

static enum radish_status read_gpt2(struct reader *r) {
    const struct pre_row *row;
    struct tokenizer_spec *spec = r->spec;
    bool adds_space = false;
    RADISH_TRY(find_pre(r, &row));
    RADISH_TRY(read_tokens(r));
    RADISH_TRY(read_merges(r));
    RADISH_TRY(gguf_get_bool(r->gguf, "tokenizer.ggml.add_space_prefix", &adds_space, r->err));
    memcpy(r->pretokenizers, row->steps, row->n_steps * sizeof *row->steps);
    for (uint32_t i = 0; i < row->n_steps; i++)
        if (r->pretokenizers[i].kind == SPEC_PRETOKENIZER_BYTE_LEVEL)
            r->pretokenizers[i].adds_prefix_space = adds_space;
    spec->n_pretokenizers = row->n_steps;
    spec->ignores_merges = row->ignores_merges;
    r->normalizers[0].kind = SPEC_NORMALIZER_NFC;
    spec->n_normalizers = row->has_nfc ? 1 : 0;
    r->decoders[0].kind = SPEC_DECODER_BYTE_LEVEL;
    spec->n_decoders = 1;
    return read_template(r, row->adds_bos);
}

/* ---- "llama": SentencePiece BPE */

struct scored_merge {
    struct spec_merge merge;
    double score; /* of the product */
    uint32_t left_chars, right_chars;
    int32_t left_id, right_id;
};

/* Best score first; of one product the longest left part first. Ids decide between equals. */
static int compare_merges(const void *a, const void *b) {
    const struct scored_merge *x = a, *y = b;
    if (x->score != y->score) return x->score > y->score ? -1 : 1;
    if (x->left_chars != y->left_chars) return x->left_chars > y->left_chars ? -1 : 1;
    if (x->right_chars != y->right_chars) return x->right_chars > y->right_chars ? -1 : 1;
    if (x->left_id != y->left_id) return x->left_id < y->left_id ? -1 : 1;
    return (x->right_id > y->right_id) - (x->right_id < y->right_id);
}

struct merge_list {
    struct scored_merge *items;
    size_t n, capacity;
};

static bool push_merge(struct merge_list *list, const struct scored_merge *merge) {
    if (list->n == list->capacity) {
        size_t capacity = list->capacity ? list->capacity * 2 : 4096;
        struct scored_merge *items = realloc(list->items, capacity * sizeof *items);
        if (!items) return false;
        list->items = items;
        list->capacity = capacity;
    }
    list->items[list->n++] = *merge;
    return true;
}

/* Every way to cut a token into two tokens. */
static bool push_cuts(struct merge_list *list, const struct vocab *vocab,
                      const struct spec_str *token, double score) {
    uint32_t n_chars = (uint32_t)utf8_count(token->data, token->len), left_chars = 0;
    for (size_t at = 0; at < token->len;) {
        uint32_t c;
        at += utf8_decode(token->data + at, token->len - at, &c);
        left_chars++;
        struct scored_merge m = {.merge = {{token->data, at}, {token->data + at, token->len - at}},
                                 .score = score,
                                 .left_chars = left_chars,
                                 .right_chars = n_chars - left_chars};
        if (at == token->len) break;
        m.left_id = vocab_find(vocab, m.merge.left.data, m.merge.left.len);
        m.right_id = vocab_find(vocab, m.merge.right.data, m.merge.right.len);
        if (m.left_id >= 0 && m.right_id >= 0 && !push_merge(list, &m)) return false;
    }
    return true;
}

static enum radish_status fill_merges(struct reader *r, struct vocab *vocab,
                                      struct merge_list *list, const struct gguf_value *scores) {
    struct tokenizer_spec *spec = r->spec;
    if (!vocab_init(vocab, spec->n_tokens, spec->n_tokens)) return error_nomem(r->err);
    for (uint32_t i = 0; i < spec->n_tokens; i++) {
        const struct spec_str *content = &spec->tokens[i].content;
        if (content->len > SPEC_ADDED_CONTENT_MAX ||
            utf8_valid_prefix(content->data, content->len) != content->len)
            return wrong(r, "tokenizer.ggml.tokens", "a list of short UTF-8 strings");
        if (!spec->tokens[i].is_hidden &&
            !vocab_put(vocab, (int32_t)i, content->data, content->len, true))
            return error_nomem(r->err);
    }
    for (uint32_t i = 0; i < spec->n_tokens; i++)
        if (!spec->tokens[i].is_hidden &&
            !push_cuts(list, vocab, &spec->tokens[i].content, gguf_array_f64(scores, i)))
            return error_nomem(r->err);
    if (list->n) qsort(list->items, list->n, sizeof *list->items, compare_merges);
    struct spec_merge *merges = arena_zalloc(r->arena, list->n, sizeof *merges);
    if (!merges || list->n > UINT32_MAX) return error_nomem(r->err);
    for (size_t i = 0; i < list->n; i++) merges[i] = list->items[i].merge;
    spec->merges = merges;
    spec->n_merges = (uint32_t)list->n;
    return RADISH_OK;
}

static enum radish_status make_merges(struct reader *r) {
    const char *key = "tokenizer.ggml.scores";
    const struct gguf_value *scores;
    struct vocab vocab = {0};
    struct merge_list list = {0};
    RADISH_TRY(read_array(r, key, /*is_str=*/false, &r->spec->n_tokens, &scores));
    if (!scores || (scores->array.elem_type != GGUF_F32 && scores->array.elem_type != GGUF_F64))
        return wrong(r, key, "an array of floats");
    enum radish_status status = fill_merges(r, &vocab, &list, scores);
    vocab_deinit(&vocab);
    free(list.items);
    return status;
}

static void set_llama_steps(struct reader *r, bool adds_space) {
    static const struct spec_str space = {" ", 1}, mark = {"\u2581", 3};
    struct tokenizer_spec *spec = r->spec;
    if (adds_space)
        r->normalizers[spec->n_normalizers++] =
            (struct spec_normalizer){.kind = SPEC_NORMALIZER_PREPEND, .content = mark};
    r->normalizers[spec->n_normalizers++] = (struct spec_normalizer){
        .kind = SPEC_NORMALIZER_REPLACE, .pattern.text = space, .content = mark};
    r->decoders[spec->n_decoders++] =
        (struct spec_decoder){.kind = SPEC_DECODER_REPLACE, .pattern.text = mark, .content = space};
    r->decoders[spec->n_decoders++].kind = SPEC_DECODER_BYTE_FALLBACK;
    r->decoders[spec->n_decoders++].kind = SPEC_DECODER_FUSE;
    if (adds_space)
        r->decoders[spec->n_decoders++] =
            (struct spec_decoder){.kind = SPEC_DECODER_STRIP, .content = space, .n_start = 1};
}

static enum radish_status read_llama(struct reader *r) {
    struct tokenizer_spec *spec = r->spec;
    bool adds_space = true;
    RADISH_TRY(read_tokens(r));
    RADISH_TRY(make_merges(r));
    RADISH_TRY(gguf_get_bool(r->gguf, "tokenizer.ggml.add_space_prefix", &adds_space, r->err));
    set_llama_steps(r, adds_space);
    spec->has_byte_fallback = spec->fuses_unk = true;
    return read_template(r, /*adds_bos=*/true);
}

/* ---- the whole */

static enum radish_status read_all(struct reader *r) {
    const char *key = "tokenizer.ggml.model";
    struct gguf_str model = {NULL, 0};
    r->normalizers = arena_zalloc(r->arena, SPEC_STEPS_MAX, sizeof *r->normalizers);
    r->pretokenizers = arena_zalloc(r->arena, SPEC_STEPS_MAX, sizeof *r->pretokenizers);
    r->decoders = arena_zalloc(r->arena, SPEC_STEPS_MAX, sizeof *r->decoders);
    if (!r->normalizers || !r->pretokenizers || !r->decoders) return error_nomem(r->err);
    r->spec->normalizers = r->normalizers;
    r->spec->pretokenizers = r->pretokenizers;
    r->spec->decoders = r->decoders;
    r->spec->model = SPEC_MODEL_BPE;
    RADISH_TRY(gguf_get_str(r->gguf, key, &model, r->err));
    if (!model.data)
        return error_set_field(r->err, RADISH_E_NOT_FOUND, key,
                               "this GGUF file has no tokenizer (%s is absent)", key);
    if (model.len == 4 && memcmp(model.data, "gpt2", 4) == 0) return read_gpt2(r);
    if (model.len == 5 && memcmp(model.data, "llama", 5) == 0) return read_llama(r);
    return error_set_field(r->err, RADISH_E_UNSUPPORTED, key,
                           "tokenizer model \"%.*s\" is not supported (supported: gpt2, llama)",
                           model.len > 40 ? 40 : (int)model.len, model.data);
}

enum radish_status tokenizer_gguf_spec(const struct gguf *gguf, struct arena *arena,
                                       struct tokenizer_spec *spec_out, struct radish_error *err) {
    struct reader r = {.gguf = gguf, .arena = arena, .err = err, .spec = spec_out};
    *spec_out = (struct tokenizer_spec){0};
    enum radish_status status = read_all(&r);
    if (status != RADISH_OK) *spec_out = (struct tokenizer_spec){0};
    return status;
}
