/* Each kind of decoder step on lists of tokens, and the orders that cannot stream. (That streams
 * give what decoding gives is test_detok_stream.c's.) */
#include "test.h"
#include "text_spec.h"

#include "base/buf.h"
#include "text/decoder.h"

/* The text of tokens (space-separated in `tokens`; "_" in them is a space) through the steps. */
static void expect(const struct spec_decoder *steps, uint32_t n, const char *tokens,
                   const char *want) {
    struct decoder_state state = {0};
    struct radish_error err = {0};
    struct buf out = {0}, bytes = {0};
    struct decoder *decoder;
    char copy[256], *rest = copy, *word;
    if (decoder_create(steps, n, &decoder, &err) != RADISH_OK) fail_msg("%s", err.msg);
    buf_reserve(&out, 1);
    out.data[0] = '\0';
    snprintf(copy, sizeof copy, "%s", tokens);
    decoder_start(&state);
    while ((word = strsep(&rest, " "))) {
        for (char *c = word; *c; c++)
            if (*c == '_') *c = ' ';
        const struct spec_str content = spec_str(word);
        buf_clear(&bytes);
        decoder_append_bytes(decoder, word, content.len, &bytes);
        const struct spec_str shown = {bytes.data ? bytes.data : "", bytes.len};
        decoder_push(decoder, &state, &content, &shown, &out);
    }
    decoder_finish(decoder, &state, &out);
    assert_string_equal(out.data, want);
    decoder_state_deinit(&state);
    buf_deinit(&out);
    buf_deinit(&bytes);
    decoder_destroy(decoder);
}

static void test_wordpiece_joins_what_continues(void **state) {
    struct spec_decoder step = {.kind = SPEC_DECODER_WORDPIECE, .content = spec_str("##")};
    (void)state;
    expect(&step, 1, "un ##aff ##able is . fine", "unaffable is . fine");
    expect(&step, 1, "##un a", "##un a");
    step.cleans_up = true;
    expect(&step, 1, "it is . do_not n't", "it is. don'tn't");
    expect(&step, 1, "a ! b ##_'_c 's", "a! b'c's");
    step.content = spec_str("");
    expect(&step, 1, "a b", "ab");
}

static void test_bpe_ends_words_with_spaces_but_not_the_last(void **state) {
    const struct spec_decoder step = {.kind = SPEC_DECODER_BPE, .content = spec_str("</w>")};
    const struct spec_decoder empty = {.kind = SPEC_DECODER_BPE, .content = spec_str("")};
    const struct spec_decoder marked[] = {
        step,
        {.kind = SPEC_DECODER_REPLACE, .pattern.text = spec_str(" "), .content = spec_str("|")}};
    (void)state;
    expect(&step, 1, "my</w> fr iend</w>", "my friend");
    expect(&step, 1, "a</w>b</w> c</w>d", "a b cd");
    expect(&empty, 1, "ab c", " a b c");
    expect(marked, 2, "my</w> fr iend</w>", "my|friend");
}

static void test_ctc_drops_repeats_and_pads(void **state) {
    struct spec_decoder step = {.kind = SPEC_DECODER_CTC,
                                .content = spec_str("<pad>"),
                                .delimiter = spec_str("|"),
                                .cleans_up = true};
    (void)state;
    expect(&step, 1, "<pad> h h e <pad> l l <pad> l o o | y", "hello y");
    expect(&step, 1, "a|<pad>b _.", "a b.");
    step.cleans_up = false;
    expect(&step, 1, "a | | b", "a|b");
}

static void test_byte_tokens_are_read_as_the_library_reads_numbers(void **state) {
    const struct spec_decoder step = {.kind = SPEC_DECODER_BYTE_FALLBACK};
    (void)state;
    expect(&step, 1, "<0x41> <0x+b> <0xc3> <0xA9>", "A\x0B\u00E9");
    expect(&step, 1, "<0x4> <0xG1> <0xff> a", "<0x4><0xG1>\uFFFDa");
}

static void test_bytes_say_what_a_token_is_inside_a_text(void **state) {
    static const struct {
        struct spec_decoder step;
        const char *token, *want;
    } rows[] = {
        {{.kind = SPEC_DECODER_WORDPIECE, .content = {"##", 2}}, "a", " a"},
        {{.kind = SPEC_DECODER_WORDPIECE, .content = {"##", 2}}, "##a", "a"},
        {{.kind = SPEC_DECODER_BPE, .content = {"</w>", 4}}, "a</w>", "a "},
        {{.kind = SPEC_DECODER_CTC,
          .content = {"<pad>", 5},
          .delimiter = {"|", 1},
          .cleans_up = true},
         "|",
         " "},
    };
    (void)state;
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        struct radish_error err = {0};
        struct buf bytes = {0};
        struct decoder *decoder;
        assert_int_equal(decoder_create(&rows[i].step, 1, &decoder, &err), RADISH_OK);
        decoder_append_bytes(decoder, rows[i].token, strlen(rows[i].token), &bytes);
        assert_string_equal(bytes.data, rows[i].want);
        buf_deinit(&bytes);
        decoder_destroy(decoder);
    }
}

static void test_orders_without_a_stream_are_refused_by_name(void **state) {
    const struct spec_decoder fuse = {.kind = SPEC_DECODER_FUSE};
    const struct {
        struct spec_decoder steps[2];
        const char *words;
    } rows[] = {
        {{fuse, {.kind = SPEC_DECODER_CTC}}, "decoder CTC: behind a step that fuses"},
        {{fuse, {.kind = SPEC_DECODER_BYTE_LEVEL}}, "decoder ByteLevel: behind"},
        {{fuse, {.kind = SPEC_DECODER_BPE, .content = spec_str("</w>")}},
         "decoder BPEDecoder: behind"},
        {{fuse, {.kind = SPEC_DECODER_WORDPIECE, .content = spec_str("#"), .cleans_up = true}},
         "decoder WordPiece: behind"},
        {{fuse, {.kind = SPEC_DECODER_REPLACE, .pattern.text = spec_str("ab")}},
         "decoder Replace: of more than one character"},
        {{{.kind = SPEC_DECODER_BPE, .content = spec_str("a")},
          {.kind = SPEC_DECODER_BPE, .content = spec_str("b")}},
         "decoder BPEDecoder: a second time"},
    };
    (void)state;
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        struct radish_error err = {0};
        struct decoder *decoder;
        assert_int_equal(decoder_create(rows[i].steps, 2, &decoder, &err), RADISH_E_UNSUPPORTED);
        if (!strstr(err.msg, rows[i].words)) fail_msg("%s", err.msg);
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_wordpiece_joins_what_continues),
        cmocka_unit_test(test_bpe_ends_words_with_spaces_but_not_the_last),
        cmocka_unit_test(test_ctc_drops_repeats_and_pads),
        cmocka_unit_test(test_byte_tokens_are_read_as_the_library_reads_numbers),
        cmocka_unit_test(test_bytes_say_what_a_token_is_inside_a_text),
        cmocka_unit_test(test_orders_without_a_stream_are_refused_by_name),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
