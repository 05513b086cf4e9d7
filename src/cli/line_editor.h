/* line_editor.h - lines that a person types, with editing and a history kept between sessions; or,
 * without a terminal, plain lines of stdin.
 *
 * Owns: the editor, the history, the line it last gave. Threads: main thread only. Fails: never
 * after create; a history that cannot be read or written is done without. */
#ifndef CLI_LINE_EDITOR_H
#define CLI_LINE_EDITOR_H

#include "radish.h"

struct line_editor;

/* NULL when out of memory. `prompt` is shown on a terminal; borrowed until destroy. */
struct line_editor *line_editor_create(const char *prompt);
bool line_editor_is_interactive(const struct line_editor *editor);

/* The next line without its newline, borrowed until the next call; NULL at the end (Ctrl-D). */
const char *line_editor_next(struct line_editor *editor);

/* Saves the history. NULL is fine. */
void line_editor_destroy(struct line_editor *editor);

#endif
