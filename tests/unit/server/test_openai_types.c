/* test_openai_types.c - request bodies become requests, or errors that name the field. */
#include "base/status.h"
#include "server/openai/openai_types.h"
#include "test.h"

struct parsed {
    yyjson_doc *doc;
    struct arena arena;
    struct openai_params params;
    struct radish_error err;
    enum radish_status status;
};

static void parse_over(struct parsed *p, enum api_shape shape, const char *body,
                       const struct radish_sampling *defaults) {
    memset(p, 0, sizeof *p);
    arena_init(&p->arena, 0);
    p->status = openai_parse_body(body, strlen(body), &p->doc, &p->err);
    if (!p->status)
        p->status = openai_params_read(yyjson_doc_get_root(p->doc), shape, defaults, &p->arena,
                                       &p->params, &p->err);
}

static void parse(struct parsed *p, enum api_shape shape, const char *body) {
    struct radish_sampling defaults = {
        .temperature = 0.25f, .top_k = 40, .top_p = 0.5f, .repetition_penalty = 1.5f};
    parse_over(p, shape, body, &defaults);
}

static void release(struct parsed *p) {
    yyjson_doc_free(p->doc);
    arena_deinit(&p->arena);
}

static void check_refused(enum api_shape shape, const char *body, const char *field) {
    struct parsed p;
    parse(&p, shape, body);
    if (!p.status) fail_msg("accepted: %s", body);
    assert_int_equal(radish_status_http(p.status), 400);
    if (strcmp(p.err.field, field))
        fail_msg("%s: names \"%s\", not \"%s\": %s", body, p.err.field, field, p.err.msg);
    release(&p);
}

static void test_openai_absent_and_null_fields_keep_the_models_sampling(void **state) {
    (void)state;
    static const char *const bodies[] = {
        "{}", "{\"temperature\":null,\"top_p\":null,\"top_k\":null,\"repetition_penalty\":null,"
              "\"min_p\":null,\"seed\":null,\"n\":null,\"stop\":null,\"logit_bias\":null,"
              "\"max_tokens\":null,\"stream\":null,\"logprobs\":null,\"stop_token_ids\":null}"};
    for (int i = 0; i < 2; i++) {
        struct parsed p;
        parse(&p, API_CHAT, bodies[i]);
        assert_int_equal(p.status, RADISH_OK);
        const struct radish_request *r = &p.params.request;
        assert_true(r->sampling.temperature == 0.25f && r->sampling.top_p == 0.5f);
        assert_int_equal(r->sampling.top_k, 40);
        assert_true(r->sampling.repetition_penalty == 1.5f);
        assert_false(r->sampling.has_seed);
        assert_false(r->has_max_new_tokens);
        assert_int_equal(r->n, 1);
        assert_false(p.params.is_streamed);
        release(&p);
    }
}

static void test_openai_every_field_arrives(void **state) {
    (void)state;
    struct parsed p;
    parse(&p, API_CHAT,
          "{\"temperature\":0,\"top_p\":0.9,\"top_k\":-1,\"min_p\":0.1,\"repetition_penalty\":1.1,"
          "\"presence_penalty\":-2,\"frequency_penalty\":2,\"seed\":18446744073709551615,\"n\":3,"
          "\"max_completion_tokens\":7.0,\"min_tokens\":2,\"stop\":[\"a\",\"bc\"],"
          "\"stop_token_ids\":[5,6],\"ignore_eos\":true,\"no_stop_trim\":true,"
          "\"skip_special_tokens\":false,\"logit_bias\":{\"9\":-100,\"10\":1.5},\"logprobs\":true,"
          "\"top_logprobs\":20,\"stream\":true,\"stream_options\":{\"include_usage\":true},"
          "\"model\":\"m\",\"rid\":\"mine\"}");
    assert_int_equal(p.status, RADISH_OK);

    const struct radish_request *r = &p.params.request;
    const struct radish_sampling *s = &r->sampling;
    assert_true(s->temperature == 0 && s->top_p == 0.9f && s->min_p == 0.1f);
    assert_true(s->repetition_penalty == 1.1f && s->presence_penalty == -2);
    assert_true(s->frequency_penalty == 2 && s->top_k == -1);
    assert_true(s->has_seed && s->seed == UINT64_MAX);
    assert_int_equal(r->n, 3);
    assert_true(r->has_max_new_tokens && r->max_new_tokens == 7 && r->min_new_tokens == 2);
    assert_int_equal(r->n_stop, 2);
    assert_string_equal(r->stop[1], "bc");
    assert_int_equal(r->n_stop_ids, 2);
    assert_int_equal(r->stop_ids[1], 6);
    assert_true(r->ignore_eos && r->include_stop && r->keep_special_tokens);
    assert_int_equal(s->n_logit_bias, 2);
    assert_true(s->logit_bias[1].id == 10 && s->logit_bias[1].bias == 1.5f);
    assert_true(r->logprobs && r->n_top_logprobs == 20 && !r->prompt_logprobs);
    assert_true(p.params.is_streamed && p.params.has_usage_chunk);
    assert_string_equal(p.params.model, "m");
    assert_string_equal(p.params.rid, "mine");
    release(&p);
}

static void test_openai_completions_logprobs_are_a_count(void **state) {
    (void)state;
    struct parsed p;
    parse(&p, API_COMPLETIONS, "{\"logprobs\":0,\"echo\":true}");
    assert_int_equal(p.status, RADISH_OK);
    assert_true(p.params.request.logprobs && p.params.request.prompt_logprobs);
    assert_int_equal(p.params.request.n_top_logprobs, 0);
    release(&p);

    check_refused(API_COMPLETIONS, "{\"logprobs\":true}", "logprobs");
    check_refused(API_COMPLETIONS, "{\"logprobs\":21}", "logprobs");
}

/* Every numeric field against every kind of value that it must not take. */
static void test_openai_numbers_that_are_none_are_refused_by_name(void **state) {
    (void)state;
    static const char *const fields[] = {"temperature",
                                         "top_p",
                                         "top_k",
                                         "min_p",
                                         "repetition_penalty",
                                         "n",
                                         "max_tokens",
                                         "min_tokens",
                                         "seed",
                                         "presence_penalty",
                                         "best_of",
                                         "top_logprobs",
                                         "frequency_penalty",
                                         "max_completion_tokens"};
    static const char *const values[] = {"\"1\"", "true",    "[]",     "{}",
                                         "[1]",   "\"NaN\"", "-1e300", "-99999999999999999999"};
    for (size_t f = 0; f < sizeof fields / sizeof *fields; f++)
        for (size_t v = 0; v < sizeof values / sizeof *values; v++) {
            char body[128];
            snprintf(body, sizeof body, "{\"logprobs\":true,\"%s\":%s}", fields[f], values[v]);
            check_refused(API_CHAT, body, fields[f]);
        }
}

static void test_openai_numbers_out_of_range_are_refused_by_name(void **state) {
    (void)state;
    static const struct {
        const char *body, *field;
    } rows[] = {
        {"{\"temperature\":-0.1}", "temperature"},
        {"{\"temperature\":1e39}", "temperature"},
        {"{\"top_p\":0}", "top_p"},
        {"{\"top_p\":1e-60}", "top_p"},
        {"{\"top_p\":1.01}", "top_p"},
        {"{\"top_k\":-2}", "top_k"},
        {"{\"top_k\":1.5}", "top_k"},
        {"{\"top_k\":4294967296}", "top_k"},
        {"{\"min_p\":-0.1}", "min_p"},
        {"{\"min_p\":1.1}", "min_p"},
        {"{\"repetition_penalty\":0}", "repetition_penalty"},
        {"{\"repetition_penalty\":2.1}", "repetition_penalty"},
        {"{\"presence_penalty\":2.1}", "presence_penalty"},
        {"{\"frequency_penalty\":-2.1}", "frequency_penalty"},
        {"{\"n\":0}", "n"},
        {"{\"n\":-1}", "n"},
        {"{\"n\":129}", "n"},
        {"{\"n\":1.5}", "n"},
        {"{\"n\":1,\"best_of\":2}", "best_of"},
        {"{\"max_tokens\":-1}", "max_tokens"},
        {"{\"max_tokens\":2147483648}", "max_tokens"},
        {"{\"max_tokens\":1e18}", "max_tokens"},
        {"{\"max_completion_tokens\":-5}", "max_completion_tokens"},
        {"{\"max_tokens\":5,\"max_completion_tokens\":6}", "max_completion_tokens"},
        {"{\"max_tokens\":5,\"min_tokens\":6}", "min_tokens"},
        {"{\"min_tokens\":-1}", "min_tokens"},
        {"{\"seed\":1.5}", "seed"},
        {"{\"seed\":1e30}", "seed"},
        {"{\"top_logprobs\":3}", "top_logprobs"},
        {"{\"logprobs\":true,\"top_logprobs\":21}", "top_logprobs"},
        {"{\"logprobs\":1}", "logprobs"},
        {"{\"stream\":1}", "stream"},
        {"{\"stream_options\":{\"include_usage\":true}}", "stream_options"},
        {"{\"stream\":true,\"stream_options\":[]}", "stream_options"},
        {"{\"stop\":\"\"}", "stop"},
        {"{\"stop\":[\"a\",1]}", "stop"},
        {"{\"stop\":[\"a\\u0000b\"]}", "stop"},
        {"{\"stop\":5}", "stop"},
        {"{\"stop\":[\"1\",\"2\",\"3\",\"4\",\"5\",\"6\",\"7\",\"8\",\"9\",\"10\",\"11\",\"12\","
         "\"13\",\"14\",\"15\",\"16\",\"17\"]}",
         "stop"},
        {"{\"stop_token_ids\":[-1]}", "stop_token_ids"},
        {"{\"stop_token_ids\":[1.5]}", "stop_token_ids"},
        {"{\"stop_token_ids\":[2147483648]}", "stop_token_ids"},
        {"{\"stop_token_ids\":3}", "stop_token_ids"},
        {"{\"logit_bias\":[]}", "logit_bias"},
        {"{\"logit_bias\":{\"x\":1}}", "logit_bias"},
        {"{\"logit_bias\":{\"-1\":1}}", "logit_bias"},
        {"{\"logit_bias\":{\"1\":101}}", "logit_bias"},
        {"{\"logit_bias\":{\"1\":\"5\"}}", "logit_bias"},
        {"{\"logit_bias\":{\"99999999999\":1}}", "logit_bias"},
        {"{\"model\":5}", "model"},
        {"{\"rid\":\"\"}", "rid"},
        {"[1]", ""},
        {"", ""},
        {"{\"n\":NaN}", ""},
        {"{\"n\":1", ""},
        {"{\"temperature\":1e999}", ""},
        {"{\"x\":\"\\ud800\"}", ""},
    };
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++)
        check_refused(API_CHAT, rows[i].body, rows[i].field);
}

static void test_openai_deep_nesting_is_refused(void **state) {
    (void)state;
    char body[2 * 50000 + 1];
    memset(body, '[', 50000);
    memset(body + 50000, ']', 50000);
    body[sizeof body - 1] = '\0';
    check_refused(API_CHAT, body, "");
}

static void read_prompts(const char *body, size_t n_want, const char *field) {
    struct parsed p;
    struct openai_prompts prompts;
    parse(&p, API_COMPLETIONS, body);
    assert_int_equal(p.status, RADISH_OK);
    p.status = openai_prompts_read(json_get(yyjson_doc_get_root(p.doc), "prompt"), "prompt",
                                   OPENAI_PROMPT_ANY, &p.arena, &prompts, &p.err);
    if (n_want) {
        assert_int_equal(p.status, RADISH_OK);
        assert_int_equal(prompts.n, n_want);
    } else {
        assert_int_equal(radish_status_http(p.status), 400);
        assert_string_equal(p.err.field, field);
    }
    release(&p);
}

static void test_openai_prompts_have_four_forms(void **state) {
    (void)state;
    read_prompts("{\"prompt\":\"text\"}", 1, "");
    read_prompts("{\"prompt\":[\"a\",\"b\"]}", 2, "");
    read_prompts("{\"prompt\":[1,2,3]}", 1, "");
    read_prompts("{\"prompt\":[[1,2],[3]]}", 2, "");
}

static void test_openai_prompts_of_other_forms_are_refused(void **state) {
    (void)state;
    static const char *const bodies[] = {"{}",
                                         "{\"prompt\":null}",
                                         "{\"prompt\":[]}",
                                         "{\"prompt\":[[]]}",
                                         "{\"prompt\":[[1],[]]}",
                                         "{\"prompt\":5}",
                                         "{\"prompt\":{}}",
                                         "{\"prompt\":true}",
                                         "{\"prompt\":[1,\"a\"]}",
                                         "{\"prompt\":[\"a\",1]}",
                                         "{\"prompt\":[\"a\",[1]]}",
                                         "{\"prompt\":[[1],\"a\"]}",
                                         "{\"prompt\":[-1]}",
                                         "{\"prompt\":[1.5]}",
                                         "{\"prompt\":[null]}",
                                         "{\"prompt\":[4294967296]}"};
    for (size_t i = 0; i < sizeof bodies / sizeof *bodies; i++)
        read_prompts(bodies[i], 0, "prompt");
}

static void test_openai_prompts_have_a_limit(void **state) {
    (void)state;
    char body[4096] = "{\"prompt\":[";
    for (int i = 0; i <= OPENAI_PROMPTS_MAX; i++) strcat(body, i ? ",\"a\"" : "\"a\"");
    strcat(body, "]}");
    read_prompts(body, 0, "prompt");
}

static void count_unknown(void *user, const char *name) {
    (void)name;
    ++*(int *)user;
}

static enum radish_status check_fields(const char *body, enum api_shape shape, int *n_unknown,
                                       struct radish_error *err) {
    yyjson_doc *doc;
    *n_unknown = 0;
    assert_int_equal(openai_parse_body(body, strlen(body), &doc, NULL), RADISH_OK);
    enum radish_status status = field_table_check(&openai_fields, yyjson_doc_get_root(doc), shape,
                                                  count_unknown, n_unknown, err);
    yyjson_doc_free(doc);
    return status;
}

static void test_openai_unknown_fields_are_reported_and_served(void **state) {
    (void)state;
    struct radish_error err;
    int n = 0;

    assert_int_equal(
        check_fields("{\"foo\":1,\"n\":1,\"bar\":{},\"user\":\"u\"}", API_CHAT, &n, &err),
        RADISH_OK);

    assert_int_equal(n, 2);
}

static void test_openai_unsupported_fields_pass_only_with_what_happens_anyway(void **state) {
    (void)state;
    static const char *const fine[] = {
        "{\"response_format\":{\"type\":\"text\"},\"parallel_tool_calls\":true,\"functions\":[]}",
        "{\"regex\":null,\"modalities\":[\"text\"],\"store\":false,\"priority\":7}",
        "{\"service_tier\":\"auto\",\"length_penalty\":1.0,\"data_parallel_rank\":0}"};
    static const struct {
        const char *body, *field;
    } refused[] = {{"{\"response_format\":{\"type\":\"json_object\"}}", "response_format"},
                   {"{\"regex\":\"a\"}", "regex"},
                   {"{\"json_schema\":\"{}\"}", "json_schema"},
                   {"{\"parallel_tool_calls\":false}", "parallel_tool_calls"},
                   {"{\"functions\":[{}]}", "functions"},
                   {"{\"modalities\":[\"audio\"]}", "modalities"},
                   {"{\"audio\":{}}", "audio"},
                   {"{\"reasoning_effort\":\"high\"}", "reasoning_effort"},
                   {"{\"echo\":true}", "echo"},
                   {"{\"use_beam_search\":true}", "use_beam_search"}};
    struct radish_error err;
    int n;
    for (size_t i = 0; i < sizeof fine / sizeof *fine; i++) {
        assert_int_equal(check_fields(fine[i], API_CHAT, &n, &err), RADISH_OK);
        assert_int_equal(n, 0);
    }
    for (size_t i = 0; i < sizeof refused / sizeof *refused; i++) {
        assert_int_equal(check_fields(refused[i].body, API_CHAT, &n, &err), RADISH_E_UNSUPPORTED);
        assert_string_equal(err.field, refused[i].field);
    }
    assert_int_equal(check_fields("{\"suffix\":\"x\"}", API_COMPLETIONS, &n, &err),
                     RADISH_E_UNSUPPORTED);
    assert_int_equal(check_fields("{\"suffix\":\"\",\"echo\":true}", API_COMPLETIONS, &n, &err),
                     RADISH_OK);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_openai_absent_and_null_fields_keep_the_models_sampling),
        cmocka_unit_test(test_openai_every_field_arrives),
        cmocka_unit_test(test_openai_completions_logprobs_are_a_count),
        cmocka_unit_test(test_openai_numbers_that_are_none_are_refused_by_name),
        cmocka_unit_test(test_openai_numbers_out_of_range_are_refused_by_name),
        cmocka_unit_test(test_openai_deep_nesting_is_refused),
        cmocka_unit_test(test_openai_prompts_have_four_forms),
        cmocka_unit_test(test_openai_prompts_of_other_forms_are_refused),
        cmocka_unit_test(test_openai_prompts_have_a_limit),
        cmocka_unit_test(test_openai_unknown_fields_are_reported_and_served),
        cmocka_unit_test(test_openai_unsupported_fields_pass_only_with_what_happens_anyway),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
