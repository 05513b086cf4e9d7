/* field_table.c - the rule "never silently", over a table of fields.
 *
 * A parameter that is parsed and then ignored is the fault users of such servers report most: a
 * schema that is not enforced, an n that gives one answer. So every field that clients are known to
 * send has a row, with one of three fates: another file reads it; it cannot change the answer, so
 * that any value is fine; or there is a list of the values that ask for what happens anyway, and
 * anything else is 400 with the hint of the row. null always asks for what happens anyway.
 *
 * The list is compared as text: values that a client library would write differently (1 and 1.0)
 * are two lines of it. A linear search is fine: a hundred rows, a dozen fields. */
#include "field_table.h"

#include "base/status.h"

#include <stdlib.h>
#include <string.h>

static const struct field_row *find_row(const struct field_table *table, const char *name,
                                        size_t len, unsigned shapes) {
    for (size_t i = 0; i < table->n_rows; i++) {
        const struct field_row *row = &table->rows[i];
        if (row->shapes & shapes && strlen(row->name) == len && !memcmp(row->name, name, len))
            return row;
    }
    return NULL;
}

/* Is `text` one of the lines of `list`? */
static bool has_line(const char *list, const char *text) {
    size_t len = strlen(text);
    while (*list) {
        size_t line_len = strcspn(list, "\n");
        if (line_len == len && !memcmp(list, text, len)) return true;
        list += line_len + (list[line_len] == '\n');
    }
    return false;
}

/* null, or a list of it: one for each prompt of a batch. */
static bool is_nothing(yyjson_val *value) {
    yyjson_val *item;
    size_t idx, max;
    if (!yyjson_is_arr(value)) return yyjson_is_null(value);
    yyjson_arr_foreach(value, idx, max, item) {
        if (!yyjson_is_null(item)) return false;
    }
    return yyjson_arr_size(value) > 0;
}

static enum radish_status check_value(const struct field_row *row, yyjson_val *value,
                                      struct radish_error *err) {
    if (row->accepted == FIELD_READ || !strcmp(row->accepted, FIELD_INERT) || is_nothing(value))
        return RADISH_OK;
    char *text = yyjson_val_write(value, 0, NULL);
    if (!text) return error_nomem(err);
    bool is_accepted = has_line(row->accepted, text);
    free(text);
    if (is_accepted) return RADISH_OK;
    return error_set_field(err, RADISH_E_UNSUPPORTED, row->name, "%s is not supported%s%s%s",
                           row->name, *row->accepted ? " with this value" : "",
                           *row->hint ? ": " : "", row->hint);
}

enum radish_status field_table_check(const struct field_table *table, yyjson_val *request,
                                     unsigned shapes, field_unknown_fn on_unknown, void *user,
                                     struct radish_error *err) {
    yyjson_val *key, *value;
    size_t idx, max;
    if (!yyjson_is_obj(request)) return RADISH_OK;
    yyjson_obj_foreach(request, idx, max, key, value) {
        const struct field_row *row =
            find_row(table, yyjson_get_str(key), yyjson_get_len(key), shapes);
        if (row)
            RADISH_TRY(check_value(row, value, err));
        else
            on_unknown(user, yyjson_get_str(key));
    }
    return RADISH_OK;
}
