/* json_scan.c - a JSON parser that keeps nothing but where it stands.
 *
 * A model writes a call's arguments token by token, and the client wants them as they come. Whether
 * what came is still JSON, and which brace ends it, must be known at every byte without the rest:
 * yyjson wants whole texts, and counting braces is fooled by those in strings. So this is the
 * grammar as a state per byte, with one bit of stack per level. O(1) per byte, no memory. */
#include "json_scan.h"

#include <string.h>

enum number_part {
    NUMBER_MINUS, /* '-': a digit must follow */
    NUMBER_ZERO,  /* a leading 0: no digit may follow */
    NUMBER_INT,
    NUMBER_DOT, /* '.': a digit must follow */
    NUMBER_FRACTION,
    NUMBER_E,    /* 'e': a sign or a digit */
    NUMBER_SIGN, /* a digit must follow */
    NUMBER_EXPONENT
};

enum { ESCAPE_BEGUN = 1, ESCAPE_HEX_LAST = 2, ESCAPE_HEX_FIRST = 5 };

static bool is_digit(char c) {
    return c >= '0' && c <= '9';
}

static bool is_space(char c) {
    return c == ' ' || c == '\t' || c == '\n' || c == '\r';
}

void json_scan_init(struct json_scan *scan) {
    *scan = (struct json_scan){.state = JSON_SCAN_VALUE};
}

static bool in_array(const struct json_scan *s) {
    return s->is_array >> (s->depth - 1) & 1;
}

static enum json_scan_result open_container(struct json_scan *s, bool is_array) {
    if (s->depth == JSON_SCAN_DEPTH_MAX) return JSON_SCAN_ERROR;
    const uint64_t bit = (uint64_t)1 << s->depth++;
    s->is_array = is_array ? s->is_array | bit : s->is_array & ~bit;
    s->state = is_array ? JSON_SCAN_VALUE_OR_END : JSON_SCAN_KEY_OR_END;
    return JSON_SCAN_MORE;
}

static enum json_scan_result close_container(struct json_scan *s, char c) {
    if (!s->depth || in_array(s) != (c == ']')) return JSON_SCAN_ERROR;
    s->state = JSON_SCAN_AFTER;
    return --s->depth ? JSON_SCAN_MORE : JSON_SCAN_DONE;
}

static enum json_scan_result begin_word(struct json_scan *s, const char *word) {
    s->word = word + 1;
    s->state = JSON_SCAN_IN_WORD;
    return JSON_SCAN_MORE;
}

static enum json_scan_result begin_value(struct json_scan *s, char c) {
    switch (c) {
    case '{': return open_container(s, /*is_array=*/false);
    case '[': return open_container(s, /*is_array=*/true);
    case 't': return begin_word(s, "true");
    case 'f': return begin_word(s, "false");
    case 'n': return begin_word(s, "null");
    case '"':
        s->escape = 0;
        s->state = JSON_SCAN_IN_STRING;
        return JSON_SCAN_MORE;
    default: break;
    }
    if (c != '-' && !is_digit(c)) return JSON_SCAN_ERROR;
    s->number = c == '-' ? NUMBER_MINUS : c == '0' ? NUMBER_ZERO : NUMBER_INT;
    s->state = JSON_SCAN_IN_NUMBER;
    return JSON_SCAN_MORE;
}

static enum json_scan_result in_string(struct json_scan *s, char c) {
    if (s->escape == ESCAPE_BEGUN) {
        if (!strchr("\"\\/bfnrtu", c) || !c) return JSON_SCAN_ERROR;
        s->escape = c == 'u' ? ESCAPE_HEX_FIRST : 0;
    } else if (s->escape) {
        const bool is_hex = is_digit(c) || (c >= 'a' && c <= 'f') || (c >= 'A' && c <= 'F');
        if (!is_hex) return JSON_SCAN_ERROR;
        s->escape = s->escape == ESCAPE_HEX_LAST ? 0 : (uint8_t)(s->escape - 1);
    } else if (c == '\\') {
        s->escape = ESCAPE_BEGUN;
    } else if (c == '"') {
        s->state = s->state == JSON_SCAN_IN_KEY ? JSON_SCAN_COLON : JSON_SCAN_AFTER;
    } else if ((unsigned char)c < 0x20) {
        return JSON_SCAN_ERROR;
    }
    return JSON_SCAN_MORE;
}

/* The part of a number that c leads to, or -1: the number cannot go on with it. */
static int next_part(uint8_t part, char c) {
    const bool digit = is_digit(c), e = c == 'e' || c == 'E';
    switch (part) {
    case NUMBER_MINUS: return c == '0' ? NUMBER_ZERO : digit ? NUMBER_INT : -1;
    case NUMBER_ZERO: return c == '.' ? NUMBER_DOT : e ? NUMBER_E : -1;
    case NUMBER_INT: return digit ? NUMBER_INT : c == '.' ? NUMBER_DOT : e ? NUMBER_E : -1;
    case NUMBER_DOT: return digit ? NUMBER_FRACTION : -1;
    case NUMBER_FRACTION: return digit ? NUMBER_FRACTION : e ? NUMBER_E : -1;
    case NUMBER_E: return digit ? NUMBER_EXPONENT : c == '+' || c == '-' ? NUMBER_SIGN : -1;
    default: return digit ? NUMBER_EXPONENT : -1;
    }
}

static bool may_end(uint8_t part) {
    return part == NUMBER_ZERO || part == NUMBER_INT || part == NUMBER_FRACTION ||
           part == NUMBER_EXPONENT;
}

static enum json_scan_result after_value(struct json_scan *s, char c) {
    if (is_space(c)) return JSON_SCAN_MORE;
    if (c == '}' || c == ']') return close_container(s, c);
    if (c != ',' || !s->depth) return JSON_SCAN_ERROR;
    s->state = in_array(s) ? JSON_SCAN_VALUE : JSON_SCAN_KEY;
    return JSON_SCAN_MORE;
}

static enum json_scan_result in_number(struct json_scan *s, char c) {
    const int part = next_part(s->number, c);
    if (part >= 0) {
        s->number = (uint8_t)part;
        return JSON_SCAN_MORE;
    }
    if (!may_end(s->number)) return JSON_SCAN_ERROR;
    s->state = JSON_SCAN_AFTER;
    return after_value(s, c);
}

static enum json_scan_result before_key(struct json_scan *s, char c) {
    if (is_space(c)) return JSON_SCAN_MORE;
    if (c == '}' && s->state == JSON_SCAN_KEY_OR_END) return close_container(s, c);
    if (c != '"') return JSON_SCAN_ERROR;
    s->escape = 0;
    s->state = JSON_SCAN_IN_KEY;
    return JSON_SCAN_MORE;
}

enum json_scan_result json_scan_push(struct json_scan *s, char c) {
    switch (s->state) {
    case JSON_SCAN_IN_KEY:
    case JSON_SCAN_IN_STRING: return in_string(s, c);
    case JSON_SCAN_IN_NUMBER: return in_number(s, c);
    case JSON_SCAN_IN_WORD:
        if (c != *s->word) return JSON_SCAN_ERROR;
        if (!*++s->word) s->state = JSON_SCAN_AFTER;
        return JSON_SCAN_MORE;
    case JSON_SCAN_AFTER: return after_value(s, c);
    case JSON_SCAN_KEY:
    case JSON_SCAN_KEY_OR_END: return before_key(s, c);
    case JSON_SCAN_COLON:
        if (is_space(c)) return JSON_SCAN_MORE;
        if (c != ':') return JSON_SCAN_ERROR;
        s->state = JSON_SCAN_VALUE;
        return JSON_SCAN_MORE;
    case JSON_SCAN_VALUE_OR_END:
        if (c == ']') return close_container(s, c);
        break;
    case JSON_SCAN_VALUE: break;
    }
    return is_space(c) ? JSON_SCAN_MORE : begin_value(s, c);
}
