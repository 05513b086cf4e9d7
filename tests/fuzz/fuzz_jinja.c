/* fuzz: jinja. Chat templates: the first byte says which share of the rest is the template (in
 * 255ths); what follows it is the JSON object of variables, {} where that is none. Limits are low,
 * so that an input ends within milliseconds whatever it asks for. */
#include "jinja/jinja.h"
#include "jinja/jinja_ast.h"

#include "base/json.h"
#include "jinja/chat_template.h"

#include <stdlib.h>
#include <string.h>

static const struct jinja_limits limits = {
    .source_bytes_max = 1 << 16,
    .compile_bytes_max = 8 << 20,
    .output_bytes_max = 1 << 18,
    .memory_bytes_max = 4 << 20,
    .steps_max = 50 * 1000,
    .depth_max = 300,
};

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    static const struct chat_template_time now = {
        .is_fixed = true, .year = 2026, .month = 11, .day = 29};
    if (!size) return 0;
    size_t split = (size - 1) * data[0] / 255;
    const char *source = (const char *)data + 1, *json = source + split;
    struct jinja_template *t;
    struct radish_error err;
    struct buf out;
    yyjson_doc *doc = NULL;
    if (jinja_compile(source, split, &limits, &t, &err) != RADISH_OK) {
        if (strchr(err.msg, '\0') == err.msg) abort(); /* every failure says why */
        return 0;
    }
    if (json_parse(json, size - 1 - split, JSON_DEPTH_MAX, &doc, &err) != RADISH_OK ||
        !yyjson_is_obj(yyjson_doc_get_root(doc))) {
        yyjson_doc_free(doc);
        if (json_parse("{}", 2, JSON_DEPTH_MAX, &doc, &err) != RADISH_OK) abort();
    }
    buf_init(&out, 0);
    (void)jinja_reads_parts(t);
    enum radish_status status = jinja_render(t, yyjson_doc_get_root(doc), &now, &out, &err);
    if (status != RADISH_OK && (out.len || status == RADISH_E_INTERNAL)) abort();
    buf_deinit(&out);
    yyjson_doc_free(doc);
    jinja_destroy(t);
    return 0;
}
