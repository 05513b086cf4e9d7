/* status.c - the table of statuses from radish.h turned into functions, and the formatting of
 * struct radish_error.
 *
 * Messages are cut, never overrun: an error must be reportable even when what it quotes came from a
 * hostile file. Bytes below 32 are replaced, so that a message stays one line in a log. */
#include "status.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static const struct {
    const char *name, *sentence;
    int http;
} statuses[] = {
#define STATUS_ROW(name, http, sentence) [name] = {#name, sentence, http},
    RADISH_STATUS_TABLE(STATUS_ROW)
#undef STATUS_ROW
};

enum { N_STATUSES = sizeof statuses / sizeof *statuses };

const char *radish_status_name(enum radish_status status) {
    return (unsigned)status < N_STATUSES ? statuses[status].name : "RADISH_E_INTERNAL";
}

const char *radish_status_sentence(enum radish_status status) {
    return (unsigned)status < N_STATUSES ? statuses[status].sentence : "an unknown status";
}

int radish_status_http(enum radish_status status) {
    return (unsigned)status < N_STATUSES ? statuses[status].http : 500;
}

void radish_free(void *p) {
    free(p);
}

static void make_printable(char *s) {
    for (; *s; s++)
        if ((unsigned char)*s < 32 || *s == 127) *s = '?';
}

static void fill(struct radish_error *err, enum radish_status status, const char *field,
                 uint64_t offset, const char *fmt, va_list args) {
    if (!err) return;
    err->status = status;
    err->offset = offset;
    snprintf(err->field, sizeof err->field, "%s", field);
    vsnprintf(err->msg, sizeof err->msg, fmt, args);
    make_printable(err->field);
    make_printable(err->msg);
}

enum radish_status error_set(struct radish_error *err, enum radish_status status, const char *fmt,
                             ...) {
    va_list args;
    va_start(args, fmt);
    fill(err, status, "", 0, fmt, args);
    va_end(args);
    return status;
}

enum radish_status error_set_field(struct radish_error *err, enum radish_status status,
                                   const char *field, const char *fmt, ...) {
    va_list args;
    va_start(args, fmt);
    fill(err, status, field, 0, fmt, args);
    va_end(args);
    return status;
}

enum radish_status error_set_at(struct radish_error *err, enum radish_status status,
                                uint64_t offset, const char *fmt, ...) {
    va_list args;
    va_start(args, fmt);
    fill(err, status, "", offset, fmt, args);
    va_end(args);
    return status;
}

void error_prefix(struct radish_error *err, const char *fmt, ...) {
    if (!err) return;
    char prefix[sizeof err->msg], whole[2 * sizeof err->msg + 2];
    va_list args;
    va_start(args, fmt);
    vsnprintf(prefix, sizeof prefix, fmt, args);
    va_end(args);
    snprintf(whole, sizeof whole, "%s: %s", prefix, err->msg);
    whole[sizeof err->msg - 1] = '\0';
    memcpy(err->msg, whole, sizeof err->msg);
    make_printable(err->msg);
}

enum radish_status error_nomem(struct radish_error *err) {
    return error_set(err, RADISH_E_NOMEM, "out of memory");
}
