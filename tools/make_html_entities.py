#!/usr/bin/env python3
"""Writes src/jinja/jinja_entities.c: HTML's named characters, as Python's html.unescape() knows them (html.entities.html5).

    tools/make_html_entities.py            (deterministic: running it again changes nothing)
"""
import html.entities
import pathlib

OUT = pathlib.Path(__file__).resolve().parent.parent / "src" / "text" / "jinja_entities.c"
HEAD = '''/* jinja_entities.c - HTML's named characters: what striptags makes of &eacute; and its like.
 *
 * Written by tools/make_html_entities.py from the list that Python's html.unescape() uses; do not
 * edit. One text holds all of them, sorted, as name, '=' or '~', the character(s) in UTF-8, and a
 * space; '~' marks the old names that count without their semicolon too. One text instead of an
 * array of structs: no relocations, a third of the bytes, and a binary search needs no more than
 * the starts of entries, which it finds by stepping back to the last space. */
#include "jinja_entities.h"

#include <string.h>

/* clang-format off */
static const char entities[] =
'''
TAIL = '''/* clang-format on */

bool jinja_entity_find(const char *name, size_t len, const char **text_out, size_t *len_out,
                       bool *is_old_out) {
    size_t low = 0, high = sizeof(entities) - 1;
    while (low < high) {
        size_t at = low + (high - low) / 2;
        while (at > low && entities[at - 1] != ' ') at--;
        size_t n = strcspn(entities + at, "=~"), end = at + strcspn(entities + at, " ");
        int order = memcmp(name, entities + at, len < n ? len : n);
        if (!order) order = (len > n) - (len < n);
        if (!order) {
            *is_old_out = entities[at + n] == '~';
            *text_out = entities + at + n + 1;
            *len_out = end - (at + n + 1);
            return true;
        }
        if (order < 0)
            high = at;
        else
            low = end + 1;
    }
    return false;
}
'''


def quoted(text):
    return "".join(c if 32 <= b < 127 and c not in '"\\?' else "\\%03o" % b for b, c in ((b, chr(b)) for b in text.encode()))


def main():
    table = html.entities.html5
    names = sorted((k[:-1] for k in table if k.endswith(";")), key=lambda k: k.encode())
    # A space or a line end would look like the end of an entry: these stand in for them.
    entries = ["%s%s%s " % (k, "~" if k in table else "=", table[k + ";"]) for k in names if " " not in table[k + ";"]]
    lines, line = [], ""
    for entry in entries:
        piece = quoted(entry)
        if len(line) + len(piece) > 92:
            lines.append(line)
            line = ""
        line += piece
    lines.append(line)
    OUT.write_text(HEAD + "\n".join('    "%s"' % line for line in lines) + ";\n" + TAIL)
    print(len(entries), "names,", len(lines), "lines;", [k for k in names if " " in table[k + ";"]])


main()
