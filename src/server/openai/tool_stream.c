/* tool_stream.c - tool calls, found in a text that is still being written.
 *
 *          marker            {, [ or a name           name and arguments known: told
 *   TEXT ---------> MARKER --------------> CALL ----------------------------------> AFTER
 *    ^  ^             |   \--> NAME --/     |                                         |
 *    |  +-------------+--------- no call ---+                                         |
 *    +--------------- the end mark, or anything that cannot follow -------------------+
 *
 * A client wants the name first and then the arguments as they come: they may be a whole file that
 * the model writes for a minute. So a call is told as soon as its name and the first byte of its
 * arguments are there, and from then on there is no way back. Whatever turns out to be no call
 * before that is content, every byte of it, marker included. What is wrong after that (the model
 * stops in mid-air, or goes on with something that is no JSON) ends the call where it stands, and
 * the rest is content: the client sees arguments that do not parse, which is the truth.
 *
 * Streamed or not, the same code runs over the same bytes one by one, so that the two cannot
 * differ, nor two ways to cut the text. Each byte is looked at once: behind a failure only the byte
 * at fault and at most a marker's length are read again, never what was held; a text of a thousand
 * half calls costs what any other text costs. What is held for a name that does not come is at most
 * RAW_MAX.
 *
 * White space beside calls is how models set them off from text, and no content; elsewhere it
 * stays. Arguments are told as the model wrote them, not parsed and written anew: a client that
 * sends them back gives the template the same text, and where the template prints it so, the prefix
 * that the sampled tokens made is found in the cache.
 *
 * Names are not compared with the tools of the request: a client that is asked for a function it
 * does not have can answer so, and the model can do better; text in its place would end the turn.
 */
#include "tool_stream.h"

#include <string.h>

enum { RAW_MAX = 65536, SPACE_MAX = 64, BARE_NAME_MAX = 600 };

enum call_key { KEY_OTHER, KEY_NAME, KEY_ARGUMENTS, KEY_HARMLESS };

static const char close_mark[] = "</tool_call>";

static void step(struct tool_stream *s, char c);

static bool is_space(char c) {
    return c == ' ' || c == '\t' || c == '\n' || c == '\r';
}

static bool is_name_char(char c) {
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') ||
           (c && strchr("_-.:/", c));
}

static const char *marker_of(const struct tool_stream *s) {
    static const char *const markers[] = {[TOOL_FORMAT_NONE] = "",
                                          [TOOL_FORMAT_HERMES] = "<tool_call>",
                                          [TOOL_FORMAT_LLAMA3] = "<|python_tag|>",
                                          [TOOL_FORMAT_MISTRAL] = "[TOOL_CALLS]"};
    return markers[s->format];
}

/* ---- content ---- */

static void flush_space(struct tool_stream *s) {
    if (!s->space.len) return;
    s->sink.on_content(s->sink.user, s->space.data, s->space.len);
    buf_clear(&s->space);
}

/* Bytes that are content, white space held back until more comes. */
static void say(struct tool_stream *s, const char *bytes, size_t n) {
    size_t end = n;
    while (end && is_space(bytes[end - 1])) end--;
    if (end) {
        flush_space(s);
        s->sink.on_content(s->sink.user, bytes, end);
        s->has_text = true;
        s->is_behind_call = false;
    }
    for (; end < n; end++) {
        if (s->space.len == SPACE_MAX) {
            flush_space(s);
            s->is_behind_call = false;
        }
        buf_append_char(&s->space, bytes[end]);
        s->failed |= s->space.failed;
    }
}

static bool hold(struct tool_stream *s, char c) {
    if (s->raw.len >= RAW_MAX) return false;
    buf_append_char(&s->raw, c);
    s->failed |= s->raw.failed;
    return true;
}

/* What is held was no call: it is content, and c is read as text. */
static void give_up(struct tool_stream *s, char c) {
    s->state = TOOL_STREAM_TEXT;
    s->is_list = false;
    s->n_match = 0;
    say(s, s->raw.data ? s->raw.data : "", s->raw.len);
    s->has_text = true;
    buf_clear(&s->raw);
    step(s, c);
}

/* ---- a call ---- */

/* From here on it is a call. */
static void tell_call(struct tool_stream *s) {
    buf_clear(&s->space);
    s->is_told = s->is_behind_call = true;
    s->sink.on_call(s->sink.user, s->n_calls++, s->name);
}

static void tell_arguments(struct tool_stream *s, const char *bytes, size_t n) {
    s->sink.on_arguments(s->sink.user, s->n_calls - 1, bytes, n);
}

static void begin_object(struct tool_stream *s, bool is_bare) {
    json_scan_init(&s->scan);
    s->state = TOOL_STREAM_CALL;
    s->is_bare = is_bare;
    s->is_told = s->has_key = s->has_name = s->in_arguments = s->has_arguments = false;
    s->key = KEY_OTHER;
    s->n_word = 0;
}

static void end_call(struct tool_stream *s) {
    buf_clear(&s->raw);
    s->n_match = 0;
    s->state = TOOL_STREAM_AFTER;
}

/* c cannot follow in the call's object. */
static void break_call(struct tool_stream *s, char c) {
    if (!s->is_told) {
        give_up(s, c);
        return;
    }
    /* What came behind whole arguments is kept, unless it is only how an object goes on. */
    if (s->raw.len && strspn(s->raw.data, " \t\r\n,}") < s->raw.len)
        say(s, s->raw.data, s->raw.len);
    end_call(s);
    step(s, c);
}

static bool take_word(struct tool_stream *s, char c) {
    if (s->n_word < TOOL_NAME_MAX) s->word[s->n_word] = c;
    s->n_word++;
    return s->n_word <= TOOL_NAME_MAX;
}

static enum call_key find_key(const char *word, size_t n) {
    static const struct {
        const char *word;
        enum call_key key;
    } keys[] = {{"name", KEY_NAME},
                {"arguments", KEY_ARGUMENTS},
                {"parameters", KEY_ARGUMENTS},
                {"id", KEY_HARMLESS},
                {"type", KEY_HARMLESS}};
    for (size_t i = 0; i < sizeof keys / sizeof *keys; i++)
        if (strlen(keys[i].word) == n && !memcmp(keys[i].word, word, n)) return keys[i].key;
    return KEY_OTHER;
}

/* A value of the call's own object begins with c. False: that makes it no call. */
static bool begin_value(struct tool_stream *s, char c) {
    if (s->key == KEY_NAME) {
        s->n_word = 0;
        return c == '"' && !s->has_name;
    }
    if (s->key != KEY_ARGUMENTS) return true;
    if (c != '{' || s->has_arguments) return false;
    s->in_arguments = true;
    s->arguments_from = s->raw.len;
    if (!s->has_name) return true;
    tell_call(s);
    buf_clear(&s->raw);
    return true;
}

/* The name's last quote. */
static bool end_name(struct tool_stream *s) {
    if (!s->n_word) return false;
    memcpy(s->name, s->word, s->n_word);
    s->name[s->n_word] = '\0';
    s->has_name = true;
    if (!s->has_arguments) return true;
    tell_call(s);
    tell_arguments(s, s->raw.data + s->arguments_from, s->arguments_to - s->arguments_from);
    buf_clear(&s->raw);
    return true;
}

/* What c means at the top of the call's object; the scanner has just taken it and was in `before`.
 * False: that makes it no call. */
static bool read_member(struct tool_stream *s, enum json_scan_state before, char c) {
    const enum json_scan_state now = s->scan.state;
    switch (before) {
    case JSON_SCAN_KEY:
    case JSON_SCAN_KEY_OR_END:
        if (now == JSON_SCAN_IN_KEY) s->n_word = 0;
        return true;
    case JSON_SCAN_IN_KEY:
        if (now == JSON_SCAN_IN_KEY) return take_word(s, c);
        s->key = find_key(s->word, s->n_word);
        if (!s->has_key && s->key == KEY_OTHER) return false; /* some other JSON */
        s->has_key = true;
        return true;
    case JSON_SCAN_VALUE: return is_space(c) || begin_value(s, c);
    case JSON_SCAN_IN_STRING:
        if (s->key != KEY_NAME) return true;
        if (now == JSON_SCAN_IN_STRING) return c != '\\' && take_word(s, c);
        return end_name(s);
    default: return true;
    }
}

/* The object is whole; true when it is a call. */
static bool end_object(struct tool_stream *s) {
    if (!s->is_told && !s->has_name) return false;
    if (!s->is_told) {
        tell_call(s);
        tell_arguments(s, "{}", 2);
    }
    end_call(s);
    return true;
}

static void step_call(struct tool_stream *s, char c) {
    const struct json_scan scan = s->scan;
    const enum json_scan_result result = json_scan_push(&s->scan, c);
    const bool is_top = !s->is_bare && scan.depth == 1;
    if (result == JSON_SCAN_ERROR || (is_top && !read_member(s, scan.state, c))) {
        break_call(s, c);
        return;
    }
    if (s->is_told && (s->in_arguments || s->is_bare)) {
        tell_arguments(s, &c, 1);
    } else if (!hold(s, c)) {
        break_call(s, c);
        return;
    }
    if (s->in_arguments && s->scan.depth == 1 && scan.depth == 2) {
        s->in_arguments = false;
        s->has_arguments = true;
        s->arguments_to = s->raw.len;
    }
    if (result != JSON_SCAN_DONE) return;
    if (s->is_bare) {
        end_call(s);
    } else if (!end_object(s)) {
        s->state = TOOL_STREAM_TEXT;
        s->is_list = false;
        say(s, s->raw.data, s->raw.len);
        buf_clear(&s->raw);
    }
}

/* ---- around calls ---- */

static void step_text(struct tool_stream *s, char c) {
    const char *marker = marker_of(s);
    if (s->n_match && c != marker[s->n_match]) {
        const size_t n = s->n_match;
        s->n_match = 0;
        say(s, marker, n);
    }
    if (*marker && s->n_calls < TOOL_CALLS_MAX && c == marker[s->n_match]) {
        if (marker[++s->n_match]) return;
        buf_clear(&s->raw);
        buf_append(&s->raw, marker, s->n_match);
        s->failed |= s->raw.failed;
        s->n_match = 0;
        s->state = TOOL_STREAM_MARKER;
        return;
    }
    if (s->format == TOOL_FORMAT_LLAMA3 && c == '{' && !s->has_text && !s->n_calls) {
        begin_object(s, /*is_bare=*/false);
        step(s, c);
        return;
    }
    say(s, &c, 1);
}

static void step_marker(struct tool_stream *s, char c) {
    const bool is_mistral = s->format == TOOL_FORMAT_MISTRAL;
    if (is_mistral && s->is_list && c == ']' && s->raw.data[0] == ',') {
        s->is_list = false;
        buf_clear(&s->raw);
        s->state = TOOL_STREAM_TEXT;
    } else if (c == '{' && s->n_calls < TOOL_CALLS_MAX) {
        begin_object(s, /*is_bare=*/false);
        step(s, c);
    } else if (is_space(c) && hold(s, c)) {
        return;
    } else if (is_mistral && c == '[' && !s->is_list && hold(s, c)) {
        s->is_list = true;
    } else if (is_mistral && !s->is_list && is_name_char(c) && hold(s, c)) {
        s->state = TOOL_STREAM_NAME;
    } else {
        give_up(s, c);
    }
}

/* Length of the name characters at text. */
static size_t name_len(const char *text) {
    size_t n = 0;
    while (is_name_char(text[n])) n++;
    return n;
}

/* Reads "name", "name[ARGS]" or "name[CALL_ID]id[ARGS]" behind the marker in raw. */
static bool read_bare_name(struct tool_stream *s) {
    const char *at = s->raw.data + strlen(marker_of(s));
    at += strspn(at, " \t\r\n");
    const size_t n = name_len(at);
    if (!n || n > TOOL_NAME_MAX) return false;
    memcpy(s->name, at, n);
    s->name[n] = '\0';
    at += n;
    if (!strncmp(at, "[CALL_ID]", 9)) at += 9 + name_len(at + 9);
    if (!strncmp(at, "[ARGS]", 6)) at += 6;
    at += strspn(at, " \t\r\n");
    return !*at;
}

static void step_name(struct tool_stream *s, char c) {
    if (c == '{' && read_bare_name(s)) {
        begin_object(s, /*is_bare=*/true);
        tell_call(s);
        buf_clear(&s->raw);
        step(s, c);
        return;
    }
    const bool may_follow = is_name_char(c) || is_space(c) || c == '[' || c == ']';
    if (!may_follow || s->raw.len > BARE_NAME_MAX || !hold(s, c)) give_up(s, c);
}

/* What came behind a call is text after all. */
static void leave_call(struct tool_stream *s, char c) {
    char held[sizeof close_mark + SPACE_MAX];
    const size_t n_match = s->n_match, n_space = s->raw.len;
    memcpy(held, s->raw.data ? s->raw.data : "", n_space);
    memcpy(held + n_space, close_mark, n_match);
    buf_clear(&s->raw);
    s->n_match = 0;
    s->is_list = false;
    s->state = TOOL_STREAM_TEXT;
    for (size_t i = 0; i < n_space + n_match; i++) step(s, held[i]);
    step(s, c);
}

static void step_after(struct tool_stream *s, char c) {
    const bool is_list = s->is_list, is_hermes = s->format == TOOL_FORMAT_HERMES;
    const bool is_llama = s->format == TOOL_FORMAT_LLAMA3;
    if (is_hermes && c == close_mark[s->n_match]) {
        if (close_mark[++s->n_match]) return;
        s->n_match = 0;
        buf_clear(&s->raw);
        s->state = TOOL_STREAM_TEXT;
    } else if (s->n_match) {
        leave_call(s, c);
    } else if (is_space(c) && s->raw.len < SPACE_MAX) {
        hold(s, c);
    } else if (is_list && c == ']') {
        s->is_list = false;
        buf_clear(&s->raw);
        s->state = TOOL_STREAM_TEXT;
    } else if ((is_list && c == ',') || (is_llama && c == ';')) {
        buf_clear(&s->raw);
        hold(s, c);
        s->state = TOOL_STREAM_MARKER;
    } else if ((is_hermes || is_llama) && c == '{' && s->n_calls < TOOL_CALLS_MAX) {
        buf_clear(&s->raw);
        begin_object(s, /*is_bare=*/false);
        step(s, c);
    } else {
        leave_call(s, c);
    }
}

static void step(struct tool_stream *s, char c) {
    switch (s->state) {
    case TOOL_STREAM_TEXT: step_text(s, c); break;
    case TOOL_STREAM_MARKER: step_marker(s, c); break;
    case TOOL_STREAM_NAME: step_name(s, c); break;
    case TOOL_STREAM_CALL: step_call(s, c); break;
    case TOOL_STREAM_AFTER: step_after(s, c); break;
    }
}

/* ---- from outside ---- */

void tool_stream_init(struct tool_stream *stream, enum tool_format format,
                      const struct tool_sink *sink) {
    *stream = (struct tool_stream){.format = format, .sink = *sink};
    buf_init(&stream->space, 0);
    buf_init(&stream->raw, 0);
}

void tool_stream_deinit(struct tool_stream *stream) {
    buf_deinit(&stream->space);
    buf_deinit(&stream->raw);
}

void tool_stream_push(struct tool_stream *stream, const char *bytes, size_t n) {
    for (size_t i = 0; i < n && !stream->failed; i++) step(stream, bytes[i]);
}

void tool_stream_finish(struct tool_stream *s) {
    if (s->failed) return;
    if (s->state == TOOL_STREAM_TEXT)
        say(s, marker_of(s), s->n_match);
    else if (s->state != TOOL_STREAM_AFTER && !(s->state == TOOL_STREAM_CALL && s->is_told))
        say(s, s->raw.data ? s->raw.data : "", s->raw.len);
    else if (s->raw.len && strspn(s->raw.data, " \t\r\n,}") < s->raw.len)
        say(s, s->raw.data, s->raw.len);
    s->n_match = 0;
    buf_clear(&s->raw);
    s->state = TOOL_STREAM_TEXT;
    if (!s->is_behind_call) flush_space(s);
}
