/* test_chat_adapt.c - what templates can read is found by asking them, and conversations come to
 * them in that form. Every template here is one habit of a published one. */
#include "test.h"

#include "engine/chat_adapt.h"

#include "base/json.h"

struct fixture {
    struct model_text text;
    struct template_traits traits;
};

static void open_template(struct fixture *f, const char *source) {
    struct radish_error err;
    memset(f, 0, sizeof *f);
    f->text.template_source = (char *)(uintptr_t)source;
    f->text.template_len = strlen(source);
    if (chat_template_compile(source, strlen(source), &f->text.template, &err))
        fail_msg("%s: %s", source, err.msg);
    assert_int_equal(template_traits_find(&f->text, &f->traits, &err), RADISH_OK);
}

static void check_render(const char *source, const char *json, const char *want) {
    struct fixture f;
    struct radish_error err;
    char *text = NULL;
    size_t len = 0;
    open_template(&f, source);
    if (chat_render(&f.text, &f.traits, json, strlen(json), NULL, &text, &len, &err))
        fail_msg("%s: %s", source, err.msg);
    assert_string_equal(text, want);
    radish_free(text);
    chat_template_destroy(f.text.template);
}

static void check_refused(const char *source, const char *json, const char *word) {
    struct fixture f;
    struct radish_error err = {0};
    char *text = NULL;
    size_t len = 0;
    open_template(&f, source);
    assert_int_equal(chat_render(&f.text, &f.traits, json, strlen(json), NULL, &text, &len, &err),
                     RADISH_E_INVALID);
    assert_null(text);
    if (!strstr(err.msg, word)) fail_msg("no %s in: %s", word, err.msg);
    chat_template_destroy(f.text.template);
}

#define CHATML                                                                                     \
    "{% for m in messages %}<{{ m['role'] }}>{{ m['content'] }}</{{ m.role }}>{% endfor %}"
#define READS_PARTS                                                                                \
    "{% for m in messages %}<{{ m.role }}>{% if m.content is string %}{{ m.content }}"             \
    "{% else %}{% for part in m.content %}[{{ part.text }}]{% endfor %}{% endif %}{% endfor %}"
#define NEEDS_PARTS                                                                                \
    "{% for m in messages %}<{{ m.role }}>{% for part in m.content %}{% if part.type == 'text' %}" \
    "[{{ part.text }}]{% endif %}{% endfor %}{% endfor %}"
#define PARTS_OF_USERS                                                                             \
    "{% for m in messages %}<{{ m.role }}>{% if m.role != 'user' or m.content is string %}"        \
    "{{ m.content }}{% else %}{% for part in m.content %}[{{ part.text }}]{% endfor %}"            \
    "{% endif %}{% endfor %}"

#define PARTS_1_2              "[{\"type\":\"text\",\"text\":\"one\"},{\"type\":\"text\",\"text\":\"two\"}]"
#define MESSAGES(list)         "{\"messages\":[" list "]}"
#define MESSAGE(role, content) "{\"role\":\"" role "\",\"content\":" content "}"

static void test_parts_are_joined_by_a_newline_for_templates_that_read_texts(void **state) {
    (void)state;
    check_render(CHATML, MESSAGES(MESSAGE("user", PARTS_1_2)), "<user>one\ntwo</user>");
    check_render(CHATML, MESSAGES(MESSAGE("tool", "[\"one\",\"\",\"two\"]")),
                 "<tool>one\n\ntwo</tool>");
    check_render(CHATML, MESSAGES(MESSAGE("user", "[]")), "<user></user>");
}

static void test_parts_stay_for_templates_that_read_them(void **state) {
    (void)state;
    check_render(READS_PARTS, MESSAGES(MESSAGE("user", PARTS_1_2) "," MESSAGE("user", "\"x\"")),
                 "<user>[one][two]<user>x");
}

static void test_texts_become_parts_for_templates_that_read_nothing_else(void **state) {
    (void)state;
    check_render(NEEDS_PARTS,
                 MESSAGES(MESSAGE("system", "\"s\"") "," MESSAGE("user", PARTS_1_2) "," MESSAGE(
                     "assistant", "null")),
                 "<system>[s]<user>[one][two]<assistant>");
}

static void test_each_role_is_asked_on_its_own(void **state) {
    (void)state;
    check_render(PARTS_OF_USERS,
                 MESSAGES(MESSAGE("system", PARTS_1_2) "," MESSAGE("user", PARTS_1_2) "," MESSAGE(
                     "tool", PARTS_1_2)),
                 "<system>one\ntwo<user>[one][two]<tool>one\ntwo");
}

static void test_developer_is_the_system_unless_the_template_knows_it(void **state) {
    (void)state;
    check_render(CHATML, MESSAGES(MESSAGE("developer", "\"d\"")), "<system>d</system>");
    check_render(CHATML "{# the developer wrote this #}", MESSAGES(MESSAGE("developer", "\"d\"")),
                 "<system>d</system>");
    check_render("{% if messages[0].role in ['system', \"developer\"] %}{% endif %}" CHATML,
                 MESSAGES(MESSAGE("developer", "\"d\"")), "<developer>d</developer>");
}

#define CALL(content, arguments)                                                                   \
    "{\"role\":\"assistant\",\"content\":" content                                                 \
    ",\"tool_calls\":[{\"id\":\"123456789\",\"type\":\"function\",\"function\":{\"name\":\"f\","   \
    "\"arguments\":" arguments "}}]}"
#define EACH_CALL(what)                                                                            \
    "{% for m in messages %}{{ m.content or '' }}{% for c in m.tool_calls or [] %}" what           \
    "{% endfor %}{% endfor %}"

static void test_arguments_are_a_mapping_however_they_came(void **state) {
    (void)state;
    static const char dumps[] = EACH_CALL("{{ c.function.arguments | tojson }}");
    static const char items[] =
        EACH_CALL("{% for k, v in c.function.arguments.items() %}{{ k }}={{ v }};{% endfor %}");
    static const char either[] =
        EACH_CALL("{% if c.function.arguments is string %}{{ c.function.arguments }}{% else %}"
                  "{{ c.function.arguments | tojson }}{% endif %}");
    static const char *const forms[] = {
        MESSAGES(CALL("null", "\"{\\\"b\\\": 1.0, \\\"a\\\":[]}\"")),
        MESSAGES(CALL("null", "{\"b\":1.0,\"a\":[]}"))};
    for (int i = 0; i < 2; i++) {
        check_render(dumps, forms[i], "{\"b\": 1.0, \"a\": []}");
        check_render(items, forms[i], "b=1.0;a=[];");
        check_render(either, forms[i], "{\"b\": 1.0, \"a\": []}");
    }
    check_render(dumps, MESSAGES(CALL("null", "\"\"")), "{}");
    check_render(dumps, MESSAGES(CALL("null", "null")), "{}");
}

static void test_arguments_are_text_for_templates_that_glue_or_print_them(void **state) {
    (void)state;
    static const char glues[] = EACH_CALL("{{ '(' + c['function']['arguments'] + ')' }}");
    static const char prints[] = EACH_CALL("({{ c.function.arguments }})");
    static const char *const sources[] = {glues, prints};
    for (int i = 0; i < 2; i++) {
        check_render(sources[i], MESSAGES(CALL("null", "\"{\\\"b\\\":1,  \\\"a\\\": 2}\"")),
                     "({\"b\":1,  \"a\": 2})");
        check_render(sources[i],
                     MESSAGES(CALL("null", "{\"b\":1,\"a\":[\"x,\\\"y:\\\\\",\"é\",null]}")),
                     "({\"b\": 1, \"a\": [\"x,\\\"y:\\\\\", \"é\", null]})");
        check_render(sources[i], MESSAGES(CALL("null", "null")), "({})");
    }
}

static void test_null_stays_where_a_template_asks_for_it(void **state) {
    (void)state;
    static const char source[] =
        "{% for m in messages %}{% if m.role == 'assistant' and m.content is none %}"
        "{% for c in m.tool_calls %}<call>{{ c.function.arguments | tojson }}{% endfor %}"
        "{% elif m.role == 'assistant' %}<text>{{ m.content }}{% endif %}{% endfor %}";
    check_render(source, MESSAGES(CALL("null", "{}")), "<call>{}");
    check_render(source, MESSAGES(MESSAGE("assistant", "null")), "<text>");
    check_render(source, MESSAGES("{\"role\":\"assistant\"}"), "<text>");
}

static void test_null_is_empty_where_a_template_would_print_or_fail(void **state) {
    (void)state;
    static const char *const sources[] = {
        "{% for m in messages %}[{{ m.content }}]{% for c in m.tool_calls or [] %}"
        "{{ c.function.arguments | tojson }}{% endfor %}{% endfor %}",
        "{% for m in messages %}{{ '[' + m.content + ']' }}{% for c in m.tool_calls or [] %}"
        "{{ c.function.arguments | tojson }}{% endfor %}{% endfor %}"};
    for (int i = 0; i < 2; i++)
        check_render(sources[i], MESSAGES(CALL("null", "{}") "," MESSAGE("user", "\"u\"")),
                     "[]{}[u]");
    check_render(CHATML, MESSAGES(CALL("null", "{}")), "<assistant></assistant>");
}

static void test_absent_tools_are_none(void **state) {
    (void)state;
    static const char source[] =
        "{{ tools is none }} {{ documents is none }} {{ x is defined }} {{ messages | length }}";
    check_render(source, "{\"messages\":[]}", "True True False 0");
    check_render(source, "{\"messages\":[],\"tools\":[],\"documents\":[]}", "False False False 0");
}

static void test_what_is_no_text_and_no_object_is_refused(void **state) {
    (void)state;
    check_refused(CHATML, MESSAGES(MESSAGE("user", "[{\"type\":\"image_url\"}]")), "image_url");
    check_refused(READS_PARTS, MESSAGES(MESSAGE("user", "[{\"type\":\"image_url\"}]")),
                  "image_url");
    check_refused(CHATML, MESSAGES(MESSAGE("user", "[5]")), "messages[0]");
    check_refused(CHATML, MESSAGES(MESSAGE("user", "[{\"type\":\"text\"}]")), "'text'");
    check_refused(CHATML, MESSAGES(CALL("null", "\"{\"")), "JSON object");
    check_refused(CHATML, MESSAGES(CALL("null", "\"[1]\"")), "JSON object");
    check_refused(CHATML, "[]", "object");
}

/* A template may refuse roles, tools, or everything, and may run into a limit. */
static void test_templates_that_refuse_to_be_asked_are_left_alone(void **state) {
    (void)state;
    check_render("{% if messages[0].role == 'system' %}{{ raise_exception('no') }}{% endif %}"
                 "{% if tools %}{{ raise_exception('none') }}{% endif %}" CHATML,
                 MESSAGES(MESSAGE("user", PARTS_1_2)), "<user>one\ntwo</user>");
    check_render("{% if messages | length != 4 %}{{ raise_exception('no') }}{% endif %}ok",
                 MESSAGES("1,2,3,{}"), "ok");
    struct fixture f;
    open_template(&f, "{{ 'x' * 100000000000 }}");
    assert_int_equal(f.traits.content[TEMPLATE_USER], TEMPLATE_TEXT);
    assert_false(f.traits.has_null_content);
    chat_template_destroy(f.text.template);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_parts_are_joined_by_a_newline_for_templates_that_read_texts),
        cmocka_unit_test(test_parts_stay_for_templates_that_read_them),
        cmocka_unit_test(test_texts_become_parts_for_templates_that_read_nothing_else),
        cmocka_unit_test(test_each_role_is_asked_on_its_own),
        cmocka_unit_test(test_developer_is_the_system_unless_the_template_knows_it),
        cmocka_unit_test(test_arguments_are_a_mapping_however_they_came),
        cmocka_unit_test(test_arguments_are_text_for_templates_that_glue_or_print_them),
        cmocka_unit_test(test_null_stays_where_a_template_asks_for_it),
        cmocka_unit_test(test_null_is_empty_where_a_template_would_print_or_fail),
        cmocka_unit_test(test_absent_tools_are_none),
        cmocka_unit_test(test_what_is_no_text_and_no_object_is_refused),
        cmocka_unit_test(test_templates_that_refuse_to_be_asked_are_left_alone),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
