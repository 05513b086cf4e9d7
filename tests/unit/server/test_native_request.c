/* test_native_request.c - bodies of /generate become requests for each prompt, or errors that name
 * the field. */
#include "server/native/native_request.h"
#include "test.h"

struct parsed {
    yyjson_doc *doc;
    struct arena arena;
    struct native_request request;
    struct radish_error err;
    enum radish_status status;
    int n_unknown;
};

static void count_unknown(void *user, const char *name) {
    (void)name;
    ++*(int *)user;
}

static void parse(struct parsed *p, const char *body) {
    static const struct radish_sampling defaults = {
        .temperature = 0.25f, .top_k = 40, .top_p = 0.5f, .repetition_penalty = 1.5f};
    memset(p, 0, sizeof *p);
    arena_init(&p->arena, 0);
    assert_int_equal(openai_parse_body(body, strlen(body), &p->doc, &p->err), RADISH_OK);
    p->status = native_request_read(yyjson_doc_get_root(p->doc), &defaults, &p->arena,
                                    count_unknown, &p->n_unknown, &p->request, &p->err);
}

static void parse_ok(struct parsed *p, const char *body) {
    parse(p, body);
    if (p->status) fail_msg("%s: %s", body, p->err.msg);
}

static void release(struct parsed *p) {
    yyjson_doc_free(p->doc);
    arena_deinit(&p->arena);
}

static void check_refused(const char *body, const char *field) {
    struct parsed p;
    parse(&p, body);
    if (!p.status) fail_msg("accepted: %s", body);
    assert_int_equal(radish_status_http(p.status), 400);
    if (strcmp(p.err.field, field))
        fail_msg("%s: names \"%s\", not \"%s\": %s", body, p.err.field, field, p.err.msg);
    release(&p);
}

static void test_native_absent_and_null_fields_have_sglangs_defaults_and_the_models_sampling(
    void **state) {
    (void)state;
    static const char nulls[] =
        "{\"text\":\"a\",\"input_ids\":null,\"sampling_params\":null,\"stream\":null,\"rid\":null,"
        "\"return_logprob\":null,\"logprob_start_len\":null,\"top_logprobs_num\":null,"
        "\"token_ids_logprob\":null,\"extra_key\":null,\"cache_salt\":null,\"priority\":null}";
    static const char null_params[] =
        "{\"text\":\"a\",\"sampling_params\":{\"temperature\":null,\"max_new_tokens\":null,"
        "\"n\":null,\"sampling_seed\":null,\"stop\":null,\"regex\":null,\"top_p\":null}}";
    static const char *const bodies[] = {"{\"text\":\"a\"}", nulls, null_params};
    for (int i = 0; i < 3; i++) {
        struct parsed p;
        parse_ok(&p, bodies[i]);
        const struct native_call *call = &p.request.calls[0];
        assert_true(call->asked.sampling.temperature == 0.25f && call->asked.sampling.top_k == 40);
        assert_true(call->asked.has_max_new_tokens && !call->has_max);
        assert_int_equal(call->asked.max_new_tokens, 128);
        assert_int_equal(call->asked.n, 1);
        assert_false(call->asked.logprobs || call->asked.sampling.has_seed || call->has_token_text);
        assert_int_equal(call->logprobs_from, -1);
        assert_false(p.request.is_streamed || p.request.prompts.is_list);
        assert_null(p.request.rid);
        assert_int_equal(p.n_unknown, 0);
        release(&p);
    }
}

static void test_native_every_field_arrives(void **state) {
    (void)state;
    struct parsed p;
    parse_ok(&p, "{\"input_ids\":[5,6],\"stream\":true,\"rid\":\"mine\",\"return_logprob\":true,"
                 "\"logprob_start_len\":1,\"top_logprobs_num\":20,\"token_ids_logprob\":[7,8],"
                 "\"return_text_in_logprobs\":true,\"priority\":-3,\"extra_key\":\"k\","
                 "\"cache_salt\":\"s\",\"sampling_params\":{\"max_new_tokens\":9,"
                 "\"min_new_tokens\":2,\"temperature\":0,\"top_p\":0.9,\"top_k\":-1,\"min_p\":0.1,"
                 "\"repetition_penalty\":1.1,\"presence_penalty\":-2,\"frequency_penalty\":2,"
                 "\"sampling_seed\":18446744073709551615,\"n\":3,\"stop\":[\"a\",\"bc\"],"
                 "\"stop_token_ids\":[5,6],\"ignore_eos\":true,\"no_stop_trim\":true,"
                 "\"skip_special_tokens\":false,\"logit_bias\":{\"9\":-100}}}");
    const struct native_call *call = &p.request.calls[0];
    const struct radish_request *r = &call->asked;
    const struct radish_sampling *s = &r->sampling;
    assert_string_equal(p.request.prompts_field, "input_ids");
    assert_int_equal(p.request.prompts.prompts[0].n_ids, 2);
    assert_true(p.request.is_streamed && call->has_token_text && call->has_max);
    assert_string_equal(p.request.rid, "mine");
    assert_true(r->logprobs && r->n_top_logprobs == 20 && r->n_logprob_ids == 2);
    assert_int_equal(r->logprob_ids[1], 8);
    assert_int_equal(call->logprobs_from, 1);
    assert_int_equal(r->priority, -3);
    assert_string_equal(call->extra_key, "k");
    assert_string_equal(call->cache_salt, "s");
    assert_true(r->max_new_tokens == 9 && r->min_new_tokens == 2 && r->n == 3);
    assert_true(s->temperature == 0 && s->top_p == 0.9f && s->min_p == 0.1f && s->top_k == -1);
    assert_true(s->repetition_penalty == 1.1f && s->presence_penalty == -2);
    assert_true(s->frequency_penalty == 2 && s->has_seed && s->seed == UINT64_MAX);
    assert_true(r->n_stop == 2 && r->n_stop_ids == 2 && s->n_logit_bias == 1);
    assert_true(r->ignore_eos && r->include_stop && r->keep_special_tokens);
    release(&p);
}

static void test_native_one_value_stands_for_all_prompts_and_a_list_has_one_for_each(void **state) {
    (void)state;
    struct parsed p;
    parse_ok(&p, "{\"text\":[\"a\",\"b\",\"c\"],\"return_logprob\":[true,false,true],"
                 "\"top_logprobs_num\":[1,0,3],\"logprob_start_len\":[0,-1,null],"
                 "\"token_ids_logprob\":[[4],null,[5,6]],\"rid\":[\"x\",null,\"z\"],"
                 "\"extra_key\":[null,\"k\",\"\"],\"cache_salt\":\"s\","
                 "\"sampling_params\":{\"max_new_tokens\":7,\"stop\":\"q\"}}");
    const struct native_call *calls = p.request.calls;
    assert_true(p.request.prompts.n == 3 && p.request.prompts.is_list);
    for (int i = 0; i < 3; i++) {
        assert_int_equal(calls[i].asked.max_new_tokens, 7);
        assert_string_equal(calls[i].asked.stop[0], "q");
        assert_int_equal(calls[i].asked.logprobs, i != 1);
        assert_string_equal(calls[i].cache_salt, "s");
        assert_true(calls[i].has_max);
    }
    assert_true(calls[0].asked.n_top_logprobs == 1 && calls[1].asked.n_top_logprobs == 0);
    assert_true(calls[0].logprobs_from == 0 && calls[2].logprobs_from == -1);
    assert_int_equal(calls[0].asked.n_logprob_ids, 1);
    assert_int_equal(calls[1].asked.n_logprob_ids, 0);
    assert_int_equal(calls[2].asked.n_logprob_ids, 2);
    assert_string_equal(calls[2].rid, "z");
    assert_true(!calls[1].rid && !calls[0].extra_key && !calls[2].extra_key);
    release(&p);

    parse_ok(&p, "{\"text\":[\"a\",\"b\"],\"token_ids_logprob\":[4,5,6],\"return_logprob\":true,"
                 "\"sampling_params\":[{\"n\":2,\"temperature\":0},{\"n\":2}]}");
    calls = p.request.calls;
    assert_true(calls[0].asked.n_logprob_ids == 3 && calls[1].asked.n_logprob_ids == 3);
    assert_true(calls[0].asked.sampling.temperature == 0);
    assert_true(calls[1].asked.sampling.temperature == 0.25f);
    release(&p);
}

static void test_native_nothing_carries_over_from_one_prompt_to_the_next(void **state) {
    (void)state;
    struct parsed p;
    parse_ok(&p, "{\"text\":[\"a\",\"b\",\"c\"],\"return_logprob\":[true,null,null],"
                 "\"top_logprobs_num\":[1,null,null],\"token_ids_logprob\":[[4],null,null],"
                 "\"logprob_start_len\":[0,null,null],\"return_text_in_logprobs\":[true,null,null],"
                 "\"extra_key\":[\"k\",null,null],\"rid\":[\"x\",null,null]}");
    for (int i = 1; i < 3; i++) {
        const struct native_call *call = &p.request.calls[i];
        assert_false(call->asked.logprobs || call->has_token_text);
        assert_true(call->asked.n_top_logprobs == 0 && call->asked.n_logprob_ids == 0);
        assert_int_equal(call->logprobs_from, -1);
        assert_true(!call->extra_key && !call->rid);
    }
    release(&p);
}

static void test_native_prompts_that_are_none_are_refused(void **state) {
    (void)state;
    check_refused("{}", "text");
    check_refused("{\"text\":null,\"input_ids\":null}", "text");
    check_refused("{\"text\":\"a\",\"input_ids\":[1]}", "input_ids");
    static const char *const texts[] = {"5", "[]", "[5]", "{}", "true", "[\"a\",5]", "[[\"a\"]]"};
    static const char *const ids[] = {"5",       "[]",    "[[]]",      "\"a\"",
                                      "{}",      "[-1]",  "[1,\"a\"]", "[\"a\"]",
                                      "[[1],2]", "[1.5]", "true",      "[[[1]]]"};
    char body[256];
    for (size_t i = 0; i < sizeof texts / sizeof *texts; i++) {
        snprintf(body, sizeof body, "{\"text\":%s}", texts[i]);
        check_refused(body, "text");
    }
    for (size_t i = 0; i < sizeof ids / sizeof *ids; i++) {
        snprintf(body, sizeof body, "{\"input_ids\":%s}", ids[i]);
        check_refused(body, "input_ids");
    }
}

static void test_native_lists_must_fit_the_prompts(void **state) {
    (void)state;
    static const char *const rows[][2] = {
        {"rid", "\"a\""},          {"return_logprob", "true"}, {"logprob_start_len", "-1"},
        {"top_logprobs_num", "0"}, {"extra_key", "\"a\""},     {"cache_salt", "\"a\""},
        {"sampling_params", "{}"}};
    char body[256];
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        const char *name = rows[i][0], *item = rows[i][1];
        snprintf(body, sizeof body, "{\"text\":\"a\",\"%s\":[%s]}", name, item);
        check_refused(body, name);
        snprintf(body, sizeof body, "{\"text\":[\"a\",\"b\"],\"%s\":[%s]}", name, item);
        check_refused(body, name);
        snprintf(body, sizeof body, "{\"text\":[\"a\"],\"%s\":[%s,%s]}", name, item, item);
        check_refused(body, name);
        struct parsed p;
        snprintf(body, sizeof body, "{\"text\":[\"a\"],\"%s\":[%s]}", name, item);
        parse_ok(&p, body);
        release(&p);
    }
    check_refused("{\"text\":[\"a\",\"b\"],\"sampling_params\":[{\"n\":1},{\"n\":2}]}", "n");
    check_refused("{\"text\":\"a\",\"return_logprob\":true,\"token_ids_logprob\":[[1]]}",
                  "token_ids_logprob");
}

static void test_native_what_needs_return_logprob_is_refused_without(void **state) {
    (void)state;
    check_refused("{\"text\":\"a\",\"top_logprobs_num\":1}", "top_logprobs_num");
    check_refused("{\"text\":\"a\",\"token_ids_logprob\":[1]}", "token_ids_logprob");
    check_refused("{\"text\":\"a\",\"logprob_start_len\":0}", "logprob_start_len");
    check_refused("{\"text\":[\"a\",\"b\"],\"return_logprob\":[true,false],"
                  "\"top_logprobs_num\":1}",
                  "top_logprobs_num");
}

static void test_native_words_of_other_servers_are_not_ignored(void **state) {
    (void)state;
    check_refused("{\"text\":\"a\",\"sampling_params\":{\"max_tokens\":5}}", "max_tokens");
    check_refused("{\"text\":\"a\",\"sampling_params\":{\"min_tokens\":5}}", "min_tokens");
    check_refused("{\"text\":\"a\",\"sampling_params\":{\"seed\":5}}", "seed");
    check_refused("{\"text\":\"a\",\"sampling_params\":{\"json_schema\":\"{}\"}}", "json_schema");
    check_refused("{\"text\":\"a\",\"lora_path\":[\"x\"]}", "lora_path");
}

static void test_native_unknown_fields_are_reported_wherever_they_are(void **state) {
    (void)state;
    struct parsed p;
    parse_ok(&p, "{\"text\":\"a\",\"temperatur\":1,\"sampling_params\":{\"text\":\"b\",\"x\":1}}");
    assert_int_equal(p.n_unknown, 3);
    release(&p);
    parse_ok(&p, "{\"text\":[\"a\"],\"lora_path\":[null],\"image_data\":[],\"no_logs\":true,"
                 "\"data_parallel_rank\":0,\"routed_dp_rank\":null}");
    assert_int_equal(p.n_unknown, 0);
    release(&p);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(
            test_native_absent_and_null_fields_have_sglangs_defaults_and_the_models_sampling),
        cmocka_unit_test(test_native_every_field_arrives),
        cmocka_unit_test(test_native_one_value_stands_for_all_prompts_and_a_list_has_one_for_each),
        cmocka_unit_test(test_native_nothing_carries_over_from_one_prompt_to_the_next),
        cmocka_unit_test(test_native_prompts_that_are_none_are_refused),
        cmocka_unit_test(test_native_lists_must_fit_the_prompts),
        cmocka_unit_test(test_native_what_needs_return_logprob_is_refused_without),
        cmocka_unit_test(test_native_words_of_other_servers_are_not_ignored),
        cmocka_unit_test(test_native_unknown_fields_are_reported_wherever_they_are),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
