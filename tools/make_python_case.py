#!/usr/bin/env python3
"""Writes src/jinja/jinja_unicode.c: where Python's str differs from what utf8proc's tables say of a character.

    tools/make_python_case.py            (Python 3.11, Unicode 14; running it again changes nothing)
"""
import pathlib
import sys
import unicodedata

OUT = pathlib.Path(__file__).resolve().parent.parent / "src" / "text" / "jinja_unicode.c"
HEAD = '''/* jinja_unicode.c - what Python's str knows of characters beyond their general category.
 *
 * Written by tools/make_python_case.py from Python itself; do not edit. utf8proc gives categories
 * and mappings from one character to one; here are the upper and title cases that are several
 * characters, and the sets that are no category: other lower and upper case letters, digits that
 * are no decimals, ideographs that are numbers, and the exceptions of identifiers. */
#include "jinja_unicode.h"

#include <stdlib.h>
#include <string.h>

'''
CHARS = [c for c in range(0x80, 0x110000) if not 0xD800 <= c < 0xE000 and unicodedata.category(chr(c)) != "Cn"]


def is_numeric_category(c):
    return unicodedata.category(c)[0] == "N"


def is_start_category(c):
    return unicodedata.category(c) in ("Lu", "Ll", "Lt", "Lm", "Lo", "Nl")


def is_continue_category(c):
    return is_start_category(c) or unicodedata.category(c) in ("Nd", "Mn", "Mc", "Pc")


SETS = {
    "OTHER_LOWER": lambda c: c.islower() and unicodedata.category(c) != "Ll",
    "OTHER_UPPER": lambda c: c.isupper() and unicodedata.category(c) != "Lu",
    "OTHER_DIGIT": lambda c: c.isdigit() and not c.isdecimal(),
    "OTHER_NUMERIC": lambda c: c.isnumeric() and not is_numeric_category(c),
    "IDENTIFIER_START": lambda c: c.isidentifier() != is_start_category(c),
    "IDENTIFIER_CONTINUE": lambda c: ("a" + c).isidentifier() != is_continue_category(c),
}


def ranges(test):
    found = []
    for c in CHARS:
        if not test(chr(c)):
            continue
        if found and found[-1][1] == c - 1:
            found[-1][1] = c
        else:
            found.append([c, c])
    return found


def quoted(text):
    return '"' + "".join("\\x%02X" % b for b in text.encode()) + '"'


def main():
    assert sys.version_info[:2] == (3, 11), "the tables are of Python 3.11"
    out = [HEAD, "/* clang-format off */\n"]
    for name, test in SETS.items():
        out.append("static const struct jinja_range_of_chars %s[] = {\n" % name.lower())
        line = "   "
        for low, high in ranges(test):
            piece = " {0x%X, 0x%X}," % (low, high)
            if len(line) + len(piece) > 96:
                out.append(line + "\n")
                line = "   "
            line += piece
        out.append(line + "\n};\n")
    out.append("static const struct long_case {\n    uint32_t cp;\n    const char *upper, *title; /* NULL: one character, as utf8proc has it */\n} long_cases[] = {\n")
    for c in CHARS:
        upper, title = chr(c).upper(), chr(c).title()
        if len(upper) > 1 or len(title) > 1:
            out.append("    {0x%X, %s, %s},\n" % (c, quoted(upper) if len(upper) > 1 else "NULL", quoted(title) if len(title) > 1 else "NULL"))
    out.append("};\n/* clang-format on */\n\n")
    out.append("static const struct {\n    const struct jinja_range_of_chars *ranges;\n    size_t n;\n} sets[] = {\n")
    for name in SETS:
        out.append("    [JINJA_SET_%s] = {%s, sizeof(%s) / sizeof(*%s)},\n" % (name, name.lower(), name.lower(), name.lower()))
    out.append('''};

static int compare_range(const void *key, const void *range) {
    uint32_t cp = *(const uint32_t *)key;
    const struct jinja_range_of_chars *r = range;
    return cp < r->low ? -1 : cp > r->high;
}

bool jinja_unicode_is(uint32_t cp, enum jinja_char_set set) {
    return cp >= 0x80 &&
           bsearch(&cp, sets[set].ranges, sets[set].n, sizeof(*sets[set].ranges), compare_range);
}

static int compare_case(const void *key, const void *entry) {
    uint32_t cp = *(const uint32_t *)key, other = ((const struct long_case *)entry)->cp;
    return (cp > other) - (cp < other);
}

const char *jinja_unicode_long_case(uint32_t cp, bool is_title) {
    const struct long_case *found = bsearch(
        &cp, long_cases, sizeof(long_cases) / sizeof(*long_cases), sizeof(*long_cases), compare_case);
    if (!found) return NULL;
    return is_title ? found->title : found->upper;
}
''')
    OUT.write_text("".join(out))
    print({name: len(ranges(test)) for name, test in SETS.items()})


main()
