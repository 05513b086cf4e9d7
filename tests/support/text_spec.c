/* text_spec.c - the smallest vocabularies that exercise merges, added tokens and both decoders. */
#include "text_spec.h"

#include "base/utf8.h"
#include "text/byte_level.h"

#include <stdio.h>

static size_t put_byte_char(char *out, uint8_t byte) {
    size_t n = utf8_encode(byte_level_char(byte), out);
    out[n] = '\0';
    return n;
}

/* Left and right parts as ids; product of merge i is 256 + i. */
static const int TOY_PARTS[TOY_MERGES][2] = {
    {'t', 'h'}, {' ', 't'}, {256, 'e'}, {257, 'h'}, {259, 'e'},   {'l', 'l'},
    {'e', 261}, {'h', 262}, {263, 'o'}, {' ', ' '}, {0xE2, 0x82}, {266, 0xAC},
};

void toy_init(struct toy *toy) {
    *toy = (struct toy){0};
    for (int i = 0; i < 256 + TOY_MERGES; i++) {
        if (i < 256) {
            put_byte_char(toy->text[i], (uint8_t)i);
        } else {
            const char *left = toy->text[TOY_PARTS[i - 256][0]];
            const char *right = toy->text[TOY_PARTS[i - 256][1]];
            snprintf(toy->text[i], sizeof toy->text[i], "%.15s%.15s", left, right);
            toy->merges[i - 256] = (struct spec_merge){spec_str(left), spec_str(right)};
        }
        toy->tokens[i] = (struct spec_token){.content = spec_str(toy->text[i]), .id = i};
    }
    toy->added[0] =
        (struct spec_added){.content = spec_str("<|end|>"), .id = TOY_END, .is_special = true};
    toy->added[1] = (struct spec_added){.content = spec_str("<tool>"), .id = TOY_TOOL};
    toy->pretokenizers[0] =
        (struct spec_pretokenizer){.kind = SPEC_PRETOKENIZER_BYTE_LEVEL, .uses_regex = true};
    toy->decoders[0].kind = SPEC_DECODER_BYTE_LEVEL;
    toy->spec = (struct tokenizer_spec){.tokens = toy->tokens,
                                        .n_tokens = 256 + TOY_MERGES,
                                        .merges = toy->merges,
                                        .n_merges = TOY_MERGES,
                                        .added = toy->added,
                                        .n_added = 2,
                                        .pretokenizers = toy->pretokenizers,
                                        .n_pretokenizers = 1,
                                        .decoders = toy->decoders,
                                        .n_decoders = 1};
}

static const int SPM_PARTS[SPM_MERGES][2] = {
    {SPM_A, SPM_A + 1},    {SPM_MARK, SPM_A},      {SPM_A + 5, SPM_A + 2},
    {SPM_MARK, SPM_A + 7}, {SPM_A + 3, SPM_A + 3}, {SPM_MARK, SPM_MARK},
};

void spm_init(struct spm *spm) {
    *spm = (struct spm){0};
    for (int i = 0; i < SPM_IDS; i++) {
        char *text = spm->text[i];
        const size_t size = sizeof spm->text[i];
        const int merge = i - SPM_A - 5;
        if (i < SPM_BYTE)
            snprintf(text, size, "%s", i ? "<s>" : "<unk>");
        else if (i < SPM_MARK)
            snprintf(text, size, "<0x%02X>", (unsigned)(i - SPM_BYTE));
        else if (i == SPM_MARK)
            snprintf(text, size, "\u2581");
        else if (merge < 0)
            snprintf(text, size, "%c", 'a' + i - SPM_A);
        else {
            const char *left = spm->text[SPM_PARTS[merge][0]];
            const char *right = spm->text[SPM_PARTS[merge][1]];
            snprintf(text, size, "%.15s%.15s", left, right);
            spm->merges[merge] = (struct spec_merge){spec_str(left), spec_str(right)};
        }
        spm->tokens[i] = (struct spec_token){.content = spec_str(text), .id = i};
    }
    spm->added[0] = (struct spec_added){.content = spec_str("<unk>"), .id = 0, .is_special = true};
    spm->added[1] = (struct spec_added){.content = spec_str("<s>"), .id = 1, .is_special = true};
    spm->normalizers[0] =
        (struct spec_normalizer){.kind = SPEC_NORMALIZER_PREPEND, .content = spec_str("\u2581")};
    spm->normalizers[1] = (struct spec_normalizer){.kind = SPEC_NORMALIZER_REPLACE,
                                                   .pattern.text = spec_str(" "),
                                                   .content = spec_str("\u2581")};
    spm->decoders[0] = (struct spec_decoder){
        .kind = SPEC_DECODER_REPLACE, .pattern.text = spec_str("\u2581"), .content = spec_str(" ")};
    spm->decoders[1].kind = SPEC_DECODER_BYTE_FALLBACK;
    spm->decoders[2].kind = SPEC_DECODER_FUSE;
    spm->decoders[3] =
        (struct spec_decoder){.kind = SPEC_DECODER_STRIP, .content = spec_str(" "), .n_start = 1};
    spm->spec = (struct tokenizer_spec){.tokens = spm->tokens,
                                        .n_tokens = SPM_IDS,
                                        .merges = spm->merges,
                                        .n_merges = SPM_MERGES,
                                        .unk = spec_str("<unk>"),
                                        .fuses_unk = true,
                                        .has_byte_fallback = true,
                                        .added = spm->added,
                                        .n_added = 2,
                                        .normalizers = spm->normalizers,
                                        .n_normalizers = 2,
                                        .decoders = spm->decoders,
                                        .n_decoders = 4};
}
