/* tokenizer_gguf_spm.c - vocabularies that SentencePiece trained: "llama" (BPE) and "t5" (Unigram).
 *
 * Such a file holds the pieces with their types and scores, and of the normalizer the charsmap, the
 * prefix and the removal of white space; that is all SentencePiece itself goes by, so its answer is
 * the reference for what lies between special tokens: its normalizer (spm_normalizer.c), its merges
 * by score (spm_bpe.c), its sums of floats (unigram.c). Where the tokenizers library would answer
 * otherwise from the tokenizer.json of the same model (the charsmap by clusters, merges by rank,
 * sums of doubles), that holds for tokenizer.json only.
 *
 * Three things SentencePiece does not know are added by converters, and follow llama.cpp:
 *   - control and unknown tokens are found in the text, first of all; what lies between two is a
 *     text of its own, with a prefix of its own (SentencePiece never reads them from text);
 *   - so are user-defined tokens with the score -1000, which converters give to the added tokens of
 *     Hugging Face, "<|im_start|>" and the like. Other user-defined tokens are SentencePiece's:
 * they are found by the model, and no prefix follows them;
 *   - a missing key has llama.cpp's default: a prefix for "llama" but not for "t5", BOS before
 *     "llama" texts, EOS behind "t5" texts.
 * Decoding shows "<unk>" and control tokens as they are written unless they are skipped, and bytes
 * that are no character as tokenizer.json's decoders do, so that both files of a model agree. */
#include "tokenizer_gguf_int.h"

#include "base/status.h"
#include "base/utf8.h"

#include <float.h>
#include <math.h>
#include <string.h>

enum { STRIP_ALL = 1 << 16 };

static const double ADDED_SCORE = -1000; /* of added tokens, by convention of converters */
static const float UNK_PENALTY = 10;     /* SentencePiece's kUnkPenalty */

/* ---- tokens */

/* "<0x0A>" */
static bool is_byte_name(const struct spec_str *s) {
    if (s->len != 6 || memcmp(s->data, "<0x", 3) != 0 || s->data[5] != '>') return false;
    for (int i = 3; i < 5; i++) {
        char c = s->data[i];
        if (!(c >= '0' && c <= '9') && !(c >= 'A' && c <= 'F')) return false;
    }
    return true;
}

static enum radish_status read_scores(struct gguf_reader *r) {
    const char *key = "tokenizer.ggml.scores";
    const struct gguf_value *scores;
    RADISH_TRY(gguf_reader_array(r, key, /*is_str=*/false, &r->spec->n_tokens, &scores));
    if (!scores || (scores->array.elem_type != GGUF_F32 && scores->array.elem_type != GGUF_F64))
        return gguf_reader_wrong(r, key, "an array of floats");
    for (uint32_t i = 0; i < r->spec->n_tokens; i++) {
        r->tokens[i].score = gguf_array_f64(scores, i);
        if (!isfinite((float)r->tokens[i].score))
            return gguf_reader_wrong(r, key, "an array of finite floats");
    }
    return RADISH_OK;
}

static void mark_token(struct gguf_reader *r, uint32_t id) {
    struct spec_token *token = &r->tokens[id];
    switch (gguf_reader_type(r, id)) {
    case GGUF_TOKEN_UNKNOWN:
        if (r->spec->unk_id < 0) r->spec->unk_id = (int32_t)id;
        gguf_reader_add(r, id, /*is_special=*/true);
        return;
    case GGUF_TOKEN_CONTROL: gguf_reader_add(r, id, /*is_special=*/true); return;
    case GGUF_TOKEN_USER_DEFINED:
        token->is_user_defined = token->score != ADDED_SCORE;
        if (!token->is_user_defined) gguf_reader_add(r, id, /*is_special=*/false);
        return;
    case GGUF_TOKEN_UNUSED: token->is_hidden = token->is_unused = true; return;
    case GGUF_TOKEN_NORMAL:
        if (r->types || !is_byte_name(&token->content)) return;
        break; /* no types in the file: bytes are known by their names */
    case GGUF_TOKEN_BYTE: break;
    default: return;
    }
    token->is_hidden = true;
    r->spec->has_byte_fallback = true;
}

static enum radish_status read_tokens(struct gguf_reader *r, uint32_t unk_default) {
    uint32_t unk_id = UINT32_MAX;
    RADISH_TRY(gguf_reader_tokens(r));
    RADISH_TRY(read_scores(r));
    r->spec->unk_id = -1;
    for (uint32_t i = 0; i < r->spec->n_tokens; i++) {
        const struct spec_str *content = &r->tokens[i].content;
        if (content->len > SPEC_ADDED_CONTENT_MAX ||
            utf8_valid_prefix(content->data, content->len) != content->len)
            return gguf_reader_wrong(r, "tokenizer.ggml.tokens", "a list of short UTF-8 strings");
        mark_token(r, i);
    }
    RADISH_TRY(gguf_get_u32(r->gguf, "tokenizer.ggml.unknown_token_id", &unk_id, r->err));
    if (unk_id == UINT32_MAX)
        unk_id = r->spec->unk_id >= 0 ? (uint32_t)r->spec->unk_id : unk_default;
    if (unk_id >= r->spec->n_tokens)
        return gguf_reader_wrong(r, "tokenizer.ggml.unknown_token_id", "the id of a token");
    r->spec->unk_id = (int32_t)unk_id;
    return RADISH_OK;
}

/* ---- normalizer and decoder */

static enum radish_status read_charsmap(const struct gguf_reader *r, struct spec_str *out) {
    const char *key = "tokenizer.ggml.precompiled_charsmap";
    const struct gguf_value *value = gguf_find(r->gguf, key);
    *out = (struct spec_str){NULL, 0};
    if (!value) return RADISH_OK;
    if (value->type != GGUF_ARRAY ||
        (value->array.elem_type != GGUF_U8 && value->array.elem_type != GGUF_I8))
        return gguf_reader_wrong(r, key, "an array of bytes");
    *out = (struct spec_str){(const char *)value->array.data, (size_t)value->array.n};
    return RADISH_OK;
}

static enum radish_status read_kept(const struct gguf_reader *r, struct spec_normalizer *step) {
    struct spec_str *kept = arena_zalloc(r->arena, r->spec->n_tokens, sizeof *kept);
    if (!kept) return error_nomem(r->err);
    for (uint32_t i = 0; i < r->spec->n_tokens; i++)
        if (r->tokens[i].is_user_defined) kept[step->n_kept++] = r->tokens[i].content;
    step->kept = kept;
    return RADISH_OK;
}

static enum radish_status read_steps(struct gguf_reader *r, bool adds_prefix) {
    static const struct spec_str space = {" ", 1}, mark = {"\u2581", 3};
    struct tokenizer_spec *spec = r->spec;
    struct spec_normalizer *step = &r->normalizers[spec->n_normalizers++];
    *step =
        (struct spec_normalizer){.kind = SPEC_NORMALIZER_SENTENCEPIECE, .adds_prefix = adds_prefix};
    RADISH_TRY(
        gguf_get_bool(r->gguf, "tokenizer.ggml.add_space_prefix", &step->adds_prefix, r->err));
    RADISH_TRY(gguf_get_bool(r->gguf, "tokenizer.ggml.remove_extra_whitespaces",
                             &step->removes_spaces, r->err));
    RADISH_TRY(read_charsmap(r, &step->content));
    RADISH_TRY(read_kept(r, step));
    r->decoders[spec->n_decoders++] =
        (struct spec_decoder){.kind = SPEC_DECODER_REPLACE, .pattern.text = mark, .content = space};
    r->decoders[spec->n_decoders++].kind = SPEC_DECODER_BYTE_FALLBACK;
    r->decoders[spec->n_decoders++].kind = SPEC_DECODER_FUSE;
    if (step->adds_prefix || step->removes_spaces)
        r->decoders[spec->n_decoders++] =
            (struct spec_decoder){.kind = SPEC_DECODER_STRIP,
                                  .content = space,
                                  .n_start = step->removes_spaces ? STRIP_ALL : 1};
    return RADISH_OK;
}

/* ---- the two kinds */

enum radish_status gguf_read_spm_bpe(struct gguf_reader *r) {
    r->spec->model = SPEC_MODEL_SPM_BPE;
    RADISH_TRY(read_tokens(r, /*unk_default=*/0));
    RADISH_TRY(read_steps(r, /*adds_prefix=*/true));
    return gguf_reader_template(r, /*adds_bos=*/true, /*adds_eos=*/false);
}

/* SentencePiece's figures, in its own floats: what an unknown character costs, and what a
 * user-defined symbol gains, a tenth for each byte but the first (so says version 0.2.3; those
 * before took a tenth off): more than any probability, so that it is always taken. */
static void fill_scores(struct gguf_reader *r) {
    float lowest = FLT_MAX;
    for (uint32_t i = 0; i < r->spec->n_tokens; i++) {
        float score = (float)r->tokens[i].score;
        if (gguf_reader_type(r, i) != GGUF_TOKEN_NORMAL || r->tokens[i].is_hidden) continue;
        if (score < lowest) lowest = score;
    }
    for (uint32_t i = 0; i < r->spec->n_tokens; i++) {
        struct spec_token *token = &r->tokens[i];
        if (token->is_user_defined)
            token->score = 0.1 * (double)(token->content.len ? token->content.len - 1 : 0);
        token->score = (double)(float)token->score;
    }
    r->spec->unk_score = (double)(lowest - UNK_PENALTY);
    r->spec->sums_in_f32 = true;
}

enum radish_status gguf_read_unigram(struct gguf_reader *r) {
    r->spec->model = SPEC_MODEL_UNIGRAM;
    RADISH_TRY(read_tokens(r, /*unk_default=*/2));
    fill_scores(r);
    RADISH_TRY(read_steps(r, /*adds_prefix=*/false));
    return gguf_reader_template(r, /*adds_bos=*/false, /*adds_eos=*/true);
}
