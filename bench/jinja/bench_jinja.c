/* bench_jinja.c - what chat templates cost: compiling each template of a file, and rendering a chat
 * of 200 messages with it.
 *
 * Usage: bench_jinja TEMPLATES_JSON RUNS ; the file is conformance's templates/templates.json, of
 * which each `templates[].source` is compiled, and rendered with a chat of 200 turns of 40 words.
 * Prints CSV: template, source bytes, best microseconds of processor time to compile and to render,
 * bytes of text; a template that refuses such a chat has no time to render. The last line holds the
 * slowest of both. */
#include "base/buf.h"
#include "base/file_map.h"
#include "base/json.h"
#include "jinja/chat_template.h"

#include <stdio.h>
#include <stdlib.h>
#include <time.h>

enum { N_MESSAGES = 200, WORDS_PER_MESSAGE = 40 };

static void die(const struct radish_error *err) {
    fprintf(stderr, "bench_jinja: %s\n", err->msg);
    exit(1);
}

/* Processor time: other programs on the machine take less of it than of the clock's. */
static uint64_t cpu_ns(void) {
    struct timespec t;
    clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &t);
    return (uint64_t)t.tv_sec * 1000000000u + (uint64_t)t.tv_nsec;
}

/* Alternating turns, as every template takes them. */
static yyjson_doc *make_chat(void) {
    struct radish_error err = {0};
    struct buf b;
    yyjson_doc *doc;
    buf_init(&b, 0);
    buf_append_str(&b,
                   "{\"bos_token\": \"<s>\", \"eos_token\": \"</s>\", \"unk_token\": \"<unk>\", "
                   "\"add_generation_prompt\": true, \"messages\": [");
    for (int i = 0; i < N_MESSAGES; i++) {
        buf_printf(&b, "%s{\"role\": \"%s\", \"content\": \"", i ? ", " : "",
                   i % 2 ? "assistant" : "user");
        for (int k = 0; k < WORDS_PER_MESSAGE; k++) buf_printf(&b, "word%d of the chat ", k);
        buf_append_str(&b, "\"}");
    }
    buf_append_str(&b, "]}");
    if (json_parse(b.data, b.len, JSON_DEPTH_MAX, &doc, &err) != RADISH_OK) die(&err);
    buf_deinit(&b);
    return doc;
}

static double compile_us(const char *source, size_t len, int runs, struct chat_template **out) {
    struct radish_error err;
    uint64_t best = UINT64_MAX;
    for (int i = 0; i < runs; i++) {
        if (i) chat_template_destroy(*out);
        uint64_t start = cpu_ns();
        if (chat_template_compile(source, len, out, &err) != RADISH_OK) die(&err);
        uint64_t took = cpu_ns() - start;
        if (took < best) best = took;
    }
    return (double)best / 1000;
}

/* < 0: the template refuses the chat. */
static double render_us(const struct chat_template *t, yyjson_doc *chat, int runs, size_t *len) {
    struct radish_error err;
    struct buf out;
    uint64_t best = UINT64_MAX;
    bool is_ok = true;
    buf_init(&out, 0);
    for (int i = 0; is_ok && i < runs; i++) {
        buf_clear(&out);
        uint64_t start = cpu_ns();
        is_ok = chat_template_render(t, yyjson_doc_get_root(chat), NULL, &out, &err) == RADISH_OK;
        uint64_t took = cpu_ns() - start;
        if (took < best) best = took;
    }
    *len = out.len;
    buf_deinit(&out);
    return is_ok ? (double)best / 1000 : -1;
}

int main(int argc, char **argv) {
    struct radish_error err = {0};
    char *data;
    size_t len, i, n;
    double slowest_compile = 0, slowest_render = 0;
    yyjson_doc *doc, *chat = make_chat();
    yyjson_val *entry;
    int runs = argc == 3 ? atoi(argv[2]) : 0;
    if (runs < 1) {
        fprintf(stderr, "usage: bench_jinja TEMPLATES_JSON RUNS\n");
        return 2;
    }
    if (file_read(argv[1], (size_t)1 << 30, &data, &len, &err) != RADISH_OK) die(&err);
    if (json_parse(data, len, JSON_DEPTH_MAX, &doc, &err) != RADISH_OK) die(&err);
    printf("template,source_bytes,compile_us,render_us,text_bytes\n");
    yyjson_arr_foreach(json_get(yyjson_doc_get_root(doc), "templates"), i, n, entry) {
        yyjson_val *source = json_get(entry, "source");
        struct chat_template *t = NULL;
        size_t text_len;
        double compiled = compile_us(yyjson_get_str(source), yyjson_get_len(source), runs, &t);
        double rendered = render_us(t, chat, runs, &text_len);
        chat_template_destroy(t);
        if (compiled > slowest_compile) slowest_compile = compiled;
        if (rendered > slowest_render) slowest_render = rendered;
        if (rendered < 0)
            printf("%zu,%zu,%.1f,,\n", i, yyjson_get_len(source), compiled);
        else
            printf("%zu,%zu,%.1f,%.1f,%zu\n", i, yyjson_get_len(source), compiled, rendered,
                   text_len);
    }
    printf("slowest,,%.1f,%.1f,\n", slowest_compile, slowest_render);
    yyjson_doc_free(doc);
    yyjson_doc_free(chat);
    free(data);
    return 0;
}
