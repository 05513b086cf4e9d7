/* json_scan.h - whether bytes that arrive one by one are JSON so far, and where a value ends.
 *
 * Strict, as RFC 8259: no trailing commas, no comments, no raw control characters in strings.
 * Owns nothing; a copy is a snapshot. Threads: one at a time. */
#ifndef SERVER_JSON_SCAN_H
#define SERVER_JSON_SCAN_H

#include "radish.h"

enum { JSON_SCAN_DEPTH_MAX = 64 };

enum json_scan_result {
    JSON_SCAN_MORE,
    JSON_SCAN_DONE, /* this byte ends the value; only objects and arrays are told to end */
    JSON_SCAN_ERROR /* this byte cannot be here; the scan is of no more use */
};

enum json_scan_state {
    JSON_SCAN_VALUE, /* a value begins */
    JSON_SCAN_VALUE_OR_END,
    JSON_SCAN_KEY_OR_END,
    JSON_SCAN_KEY, /* a key begins */
    JSON_SCAN_COLON,
    JSON_SCAN_AFTER, /* behind a value: , or the end */
    JSON_SCAN_IN_KEY,
    JSON_SCAN_IN_STRING,
    JSON_SCAN_IN_NUMBER,
    JSON_SCAN_IN_WORD /* true, false, null */
};

struct json_scan {
    enum json_scan_state state;
    uint32_t depth;    /* open objects and arrays */
    uint64_t is_array; /* bit d: the container at depth d + 1 */
    uint8_t escape;    /* in a string: 0 none, 1 behind '\', 5..2 hex digits to come, + 1 */
    uint8_t number;    /* in a number: which part of it */
    const char *word;  /* in a word: what has to follow */
};

void json_scan_init(struct json_scan *scan);
enum json_scan_result json_scan_push(struct json_scan *scan, char c);

#endif
