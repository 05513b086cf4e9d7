/* field_table.h - what becomes of the fields of a request: read, accepted because they cannot
 * change the answer, or refused unless they say what happens anyway. A field that is in no row is
 * unknown: served and reported. Threads: any; tables are constant. */
#ifndef SERVER_FIELD_TABLE_H
#define SERVER_FIELD_TABLE_H

#include "base/buf.h"
#include "base/json.h"

#define FIELD_READ  NULL
#define FIELD_INERT "*"

struct field_row {
    const char *name;
    unsigned shapes;      /* where it is known: bits of the table's own */
    const char *accepted; /* FIELD_READ, FIELD_INERT, or values as compact JSON, one a line */
    const char *hint;     /* for refused values: what to do instead, or "" */
};

struct field_table {
    const struct field_row *rows; /* [n_rows] */
    size_t n_rows;
};

/* Called once for each unknown member of the request. The name is the client's and may hold
 * anything. */
typedef void (*field_unknown_fn)(void *user, const char *name);

/* Walks the members of the request object, of which a NULL or null one has none; a field of any of
 * the shapes is known. E_UNSUPPORTED names the first known field with a value that is not
 * supported, and says what to do instead. */
enum radish_status field_table_check(const struct field_table *table, yyjson_val *request,
                                     unsigned shapes, field_unknown_fn on_unknown, void *user,
                                     struct radish_error *err) RADISH_CHECK_RESULT;

#endif
