/* test_chat_template.c - the door to the interpreter: compiling, the clock, whether parts are read,
 * and what happens when memory runs out. (The language: test_jinja.c.) */
#include "jinja/chat_template.h"

#include "base/json.h"

#include "test.h"

#include "alloc_fail.h"

static struct chat_template *compile(const char *source) {
    struct chat_template *t;
    struct radish_error err;
    enum radish_status status = chat_template_compile(source, strlen(source), &t, &err);
    if (status) print_message("%s\n", err.msg);
    assert_int_equal(status, RADISH_OK);
    return t;
}

static void assert_reads_parts(const char *source, bool want) {
    struct chat_template *t = compile(source);
    if (chat_template_reads_parts(t) != want) print_message("%s\n", source);
    assert_int_equal(chat_template_reads_parts(t), want);
    chat_template_destroy(t);
}

static void test_template_that_asks_items_of_content_reads_parts(void **state) {
    (void)state;
    assert_reads_parts("{% for m in messages %}{% for p in m.content %}{{ p.text }}{% endfor %}"
                       "{% endfor %}",
                       true);
    assert_reads_parts("{% for p in m['content'] if p['type'] == 'text' %}x{% endfor %}", true);
    assert_reads_parts("{% set c = m.get('content') %}{% for p in c %}{{ p['text'] }}{% endfor %}",
                       true);
    assert_reads_parts("{{ m.content[0].text }}", true);
    assert_reads_parts("{{ m['content'][0]['text'] }}", true);
    assert_reads_parts("{% set p = m.content[0] %}{{ p.type }}", true);
    assert_reads_parts("{{ m.content|selectattr('type', 'equalto', 'text')|list }}", true);
    assert_reads_parts("{{ m.content|map(attribute='text')|join }}", true);
    assert_reads_parts("{% macro show(c) %}{% for p in c %}{{ p.text }}{% endfor %}{% endmacro %}"
                       "{{ show(m.content) }}",
                       true);
    assert_reads_parts("{{ show(c=m.content) }}{% macro show(c) %}{% for p in c %}{{ part(p) }}"
                       "{% endfor %}{% endmacro %}{% macro part(x) %}{{ x.text }}{% endmacro %}",
                       true);
}

static void test_template_that_prints_content_reads_no_parts(void **state) {
    (void)state;
    assert_reads_parts("{{ m.content }}", false);
    assert_reads_parts("{{ m['content'] | trim }}{{ m.content[0] }}{{ m.content[1:] }}", false);
    assert_reads_parts("{% if m.content is string %}{{ m.content }}{% endif %}", false);
    assert_reads_parts("{% for call in m.tool_calls %}{{ call.type }}{% endfor %}", false);
    assert_reads_parts("{% set calls = m.content %}{% for c in calls %}{{ c.name }}{% endfor %}",
                       false);
    assert_reads_parts("{% for line in m.content.split('x') %}{{ line.text }}{% endfor %}", false);
}

static void test_template_broken_source_gives_one_line(void **state) {
    (void)state;
    struct chat_template *t;
    struct radish_error err;

    assert_int_equal(chat_template_compile("a\n{{ b", 6, &t, &err), RADISH_E_TEMPLATE);

    assert_null(t);
    assert_null(strchr(err.msg, '\n'));
    assert_non_null(strstr(err.msg, "line 2"));
    assert_int_equal(chat_template_compile("{{", 2, &t, NULL), RADISH_E_TEMPLATE);
    chat_template_destroy(NULL);
}

static void test_template_uses_the_given_time_or_the_clock(void **state) {
    (void)state;
    struct chat_template *t = compile("{{ strftime_now('%Y-%m-%d %H:%M:%S %a') }}");
    struct chat_template_time time;
    struct radish_error err;
    struct buf out;
    yyjson_doc *doc;
    assert_int_equal(json_parse("{}", 2, JSON_DEPTH_MAX, &doc, &err), RADISH_OK);
    buf_init(&out, 0);

    assert_int_equal(chat_template_time_parse("2024-02-29T23:59:01", &time, &err), RADISH_OK);
    assert_int_equal(chat_template_render(t, yyjson_doc_get_root(doc), &time, &out, &err), 0);
    assert_string_equal(out.data, "2024-02-29 23:59:01 Thu");
    buf_clear(&out);
    assert_int_equal(chat_template_time_parse("2026-11-29", &time, &err), RADISH_OK);
    assert_int_equal(chat_template_render(t, yyjson_doc_get_root(doc), &time, &out, &err), 0);
    assert_string_equal(out.data, "2026-11-29 00:00:00 Sun");
    buf_clear(&out);
    assert_int_equal(chat_template_render(t, yyjson_doc_get_root(doc), NULL, &out, &err), 0);
    assert_true(out.len == 23 && out.data[0] == '2');

    buf_deinit(&out);
    yyjson_doc_free(doc);
    chat_template_destroy(t);
}

static void test_template_refuses_times_that_do_not_exist(void **state) {
    (void)state;
    static const char *const bad[] = {"",
                                      "2026",
                                      "2026-13-01",
                                      "2026-02-29",
                                      "2026-00-10",
                                      "2026-11-31",
                                      "2026-11-29T",
                                      "2026-11-29T24:00:00",
                                      "2026-11-29T00:00",
                                      "2026-11-29T00:00:00Z",
                                      "26-11-29",
                                      "2026-11-29 00:60:00"};
    for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++) {
        struct chat_template_time time;
        struct radish_error err;
        assert_int_equal(chat_template_time_parse(bad[i], &time, &err), RADISH_E_INVALID);
    }
}

/* ---- field case E11: what other servers' templates could not do, or did silently otherwise */

static void assert_chat(const char *source, const char *json, const char *want) {
    struct chat_template *t = compile(source);
    struct chat_template_time time = {.is_fixed = true, .year = 2026, .month = 11, .day = 29};
    struct radish_error err = {0};
    struct buf out;
    yyjson_doc *doc;
    assert_int_equal(json_parse(json, strlen(json), JSON_DEPTH_MAX, &doc, &err), RADISH_OK);
    buf_init(&out, 0);
    enum radish_status status =
        chat_template_render(t, yyjson_doc_get_root(doc), &time, &out, &err);
    if (want) {
        if (status) print_message("%s: %s\n", source, err.msg);
        assert_int_equal(status, RADISH_OK);
        assert_string_equal(out.data, want);
    } else {
        assert_int_equal(status, RADISH_E_TEMPLATE);
        assert_true(err.msg[0] && out.len == 0);
    }
    buf_deinit(&out);
    yyjson_doc_free(doc);
    chat_template_destroy(t);
}

static void test_template_E11_strips_what_list_filters_give(void **state) {
    (void)state;
    static const char json[] = "{\"messages\": [{\"role\": \"user\", \"content\": \"  hi \"},"
                               "{\"role\": \"tool\", \"content\": \"\\n x\"}]}";
    assert_chat("{{ (messages|map(attribute='content')|list|first).lstrip() }}|", json, "hi |");
    assert_chat("{{ messages|map(attribute='content')|map('trim')|join(',') }}", json, "hi,x");
    assert_chat("{{ (messages|selectattr('role', 'equalto', 'tool')|list)[0].content.lstrip('\\n')"
                ".rstrip('x') }}|",
                json, " |");
    assert_chat("{% set c = messages|map(attribute='content')|join('') %}{{ c.rstrip() }}|", json,
                "  hi \n x|");
    /* A generator is no text: lstrip of it fails under Jinja2, and so it must here. */
    assert_chat("{{ (messages|map(attribute='content')).lstrip() }}", json, NULL);
}

static void test_template_E11_knows_the_date(void **state) {
    (void)state;
    assert_chat("Today: {{ strftime_now('%d %b %Y') }}", "{}", "Today: 29 Nov 2026");
    assert_chat("{% if strftime_now is defined %}{{ strftime_now('%B %-d, %Y') }}{% endif %}", "{}",
                "November 29, 2026");
}

/* Nothing stands in for a template that does not compile or does not render. */
static void test_template_E11_fails_instead_of_falling_back(void **state) {
    (void)state;
    struct chat_template *t;
    struct radish_error err = {0};
    static const char *const broken[] = {"{% for m in messages %}", "{{ x|nope }}", "{% bogus %}",
                                         "{{ 'a' is nope }}"};
    for (size_t i = 0; i < sizeof(broken) / sizeof(broken[0]); i++) {
        assert_int_equal(chat_template_compile(broken[i], strlen(broken[i]), &t, &err),
                         RADISH_E_TEMPLATE);
        assert_null(t);
        assert_true(err.msg[0] != '\0');
    }
    assert_chat("{{ raise_exception('roles must alternate') }}", "{}", NULL);
    assert_chat("{{ messages[0].role.nope() }}", "{\"messages\": [{\"role\": \"user\"}]}", NULL);
}

/* ---- no memory */

static const char everything[] =
    "{% macro m(a, b=1) %}{{ a ~ b }}{{ kwargs }}{% endmacro %}{% set ns = namespace(x=0) %}"
    "{% for k, v in d|dictsort if v is defined %}{% set ns.x = loop.index %}{{ m(k, c=v) }}"
    "{% else %}none{% endfor %}{% set t | upper %}{{ d|tojson(indent=2) }}{% endset %}"
    "{{ t.split('\\n')|map('trim')|join(',') }}{{ '%s' % ns.x }}{{ '{:>4}'.format(d.a) }}"
    "{% if ns.x > 1 %}{{ [1, 2][::-1] }}{% endif %}{{ range(3)|list }}";

static bool try_everything(void *user) {
    yyjson_doc *doc = user;
    struct chat_template *t;
    struct radish_error err;
    struct buf out;
    buf_init(&out, 0);
    enum radish_status status = chat_template_compile(everything, strlen(everything), &t, &err);
    if (status == RADISH_OK)
        status = chat_template_render(t, yyjson_doc_get_root(doc), NULL, &out, &err);
    chat_template_destroy(t);
    buf_deinit(&out);
    /* An arena cannot tell a limit from the end of memory. */
    assert_true(status == RADISH_OK || status == RADISH_E_NOMEM || status == RADISH_E_LIMIT);
    return status == RADISH_OK;
}

static void test_template_survives_every_failing_allocation(void **state) {
    (void)state;
    if (!alloc_fail_can()) skip();
    static const char json[] = "{\"d\": {\"b\": [1, 2.5], \"a\": \"text\"}}";
    yyjson_doc *doc;
    struct radish_error err;
    assert_int_equal(json_parse(json, strlen(json), JSON_DEPTH_MAX, &doc, &err), RADISH_OK);

    size_t n = alloc_fail_each(try_everything, doc);

    assert_true(n > 5);
    yyjson_doc_free(doc);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_template_that_asks_items_of_content_reads_parts),
        cmocka_unit_test(test_template_that_prints_content_reads_no_parts),
        cmocka_unit_test(test_template_broken_source_gives_one_line),
        cmocka_unit_test(test_template_uses_the_given_time_or_the_clock),
        cmocka_unit_test(test_template_refuses_times_that_do_not_exist),
        cmocka_unit_test(test_template_E11_strips_what_list_filters_give),
        cmocka_unit_test(test_template_E11_knows_the_date),
        cmocka_unit_test(test_template_E11_fails_instead_of_falling_back),
        cmocka_unit_test(test_template_survives_every_failing_allocation),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
