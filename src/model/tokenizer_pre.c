/* tokenizer_pre.c - the table of pre-tokenizers.
 *
 * GGUF names a pre-tokenizer where tokenizer.json describes it. The rows say, for each name, what
 * the models behind it have in their tokenizer.json: steps, normalizer, whether whole words skip
 * the merges, whether a BOS is usual. A name that is not there is refused: a wrong guess costs
 * accuracy that nobody would trace back to it. "default" is such a guess, made by the converter.
 *
 * A row is added when the tokenizer.json of a published model of that name has been read, not
 * because another program treats the name like one that is here. */
#include "tokenizer_pre.h"

#include <string.h>

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

#define ROW(name, steps, nfc, ignores_merges, adds_bos)                                            \
    { name, steps, sizeof(steps) / sizeof *(steps), nfc, ignores_merges, adds_bos }

static const struct tokenizer_pre PRE_ROWS[] = {
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

const struct tokenizer_pre *tokenizer_pre_find(const char *name, size_t len) {
    for (size_t i = 0; i < N_PRE_ROWS; i++)
        if (strlen(PRE_ROWS[i].name) == len && memcmp(PRE_ROWS[i].name, name, len) == 0)
            return &PRE_ROWS[i];
    return NULL;
}

const struct tokenizer_pre *tokenizer_pre_row(size_t idx) {
    return idx < N_PRE_ROWS ? &PRE_ROWS[idx] : NULL;
}
