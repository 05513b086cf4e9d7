/* query.c - arguments behind the '?'.
 *
 * libmicrohttpd splits and decodes them, and its strings live as long as the connection's request.
 * A handler on a thread of its own may outlive that (the client leaves, the server closes), so they
 * are copied while the headers are read: into one buf, name and value by turns, each ended by a
 * zero byte. Few requests have any, and no endpoint takes more than a handful, so finding one by
 * walking is as good as any index. A zero byte that was sent as %00 would end a text early and hide
 * what follows: that is refused as a whole, by the handler that reads arguments, not here, since
 * endpoints that read none serve whatever stands there (routers add what they like). */
#include "query.h"

#include "base/status.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

void query_init(struct query *query) {
    memset(query, 0, sizeof *query);
    buf_init(&query->text, 0);
}

void query_deinit(struct query *query) {
    buf_deinit(&query->text);
}

void query_add(struct query *query, const char *name, size_t name_len, const char *value,
               size_t value_len) {
    bool has_zero = memchr(name, '\0', name_len) || (value_len && memchr(value, '\0', value_len));
    if (has_zero || query->n_args == QUERY_ARGS_MAX) {
        query->is_bad = true;
        return;
    }
    query->n_args++;
    buf_append(&query->text, name, name_len);
    buf_append_char(&query->text, '\0');
    buf_append(&query->text, value, value_len);
    buf_append_char(&query->text, '\0');
    if (query->text.failed) query->is_bad = true;
}

static enum MHD_Result take_one(void *cls, enum MHD_ValueKind kind, const char *name,
                                size_t name_len, const char *value, size_t value_len) {
    (void)kind;
    query_add(cls, name, name_len, value ? value : "", value ? value_len : 0);
    return MHD_YES;
}

void query_take(struct query *query, struct MHD_Connection *connection) {
    MHD_get_connection_values_n(connection, MHD_GET_ARGUMENT_KIND, take_one, query);
}

/* The argument at *offset, which moves behind it. False at the end. */
static bool step(const struct query *query, size_t *offset, const char **name_out,
                 const char **value_out) {
    if (query->is_bad || *offset >= query->text.len) return false;
    *name_out = query->text.data + *offset;
    *value_out = *name_out + strlen(*name_out) + 1;
    *offset += strlen(*name_out) + strlen(*value_out) + 2;
    return true;
}

const char *query_find(const struct query *query, const char *name) {
    const char *key, *value, *found = NULL;
    for (size_t offset = 0; step(query, &offset, &key, &value);)
        if (!strcmp(key, name)) found = value;
    return found;
}

static bool is_among(const char *names, const char *name) {
    size_t len = strlen(name);
    while (*names) {
        size_t n = strcspn(names, "|");
        if (n == len && !strncmp(names, name, n)) return true;
        names += n + (names[n] == '|');
    }
    return false;
}

const char *query_find_other(const struct query *query, const char *names) {
    const char *key, *value;
    for (size_t offset = 0; step(query, &offset, &key, &value);)
        if (!is_among(names, key)) return key;
    return NULL;
}

enum radish_status query_get_double(const struct query *query, const char *name, double max,
                                    double *value_out, struct radish_error *err) {
    const char *text = query_find(query, name);
    if (!text) return RADISH_OK;
    char *end = NULL;
    double value = strtod(text, &end);
    if (end == text || *end || !isfinite(value) || value < 0 || value > max)
        return error_set_field(err, RADISH_E_INVALID, name, "%s must be a number from 0 to %g",
                               name, max);
    *value_out = value;
    return RADISH_OK;
}
