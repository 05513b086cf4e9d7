/* line_editor.c - libedit on a terminal, getline() on a pipe, behind one function.
 *
 * libedit and not readline: readline is GPL. Two settings deserve a word. While a line is edited,
 * the terminal's signal keys are off and Ctrl-C is bound to "forget this line": libedit's own
 * signal handling re-raises signals to the whole process group, which would reach the shell script
 * that started us. While an answer streams, the terminal is in its ordinary mode and Ctrl-C is a
 * signal again (cmd_chat.c). And libedit reads in the locale's encoding: in the C locale of a bare
 * container it would drop every letter that is not ASCII, so C.UTF-8 is taken there.
 *
 * The history lies in $XDG_STATE_HOME/radish/chat_history (~/.local/state without it), readable by
 * its owner only, 1,000 lines. */
#include "line_editor.h"

#include "base/buf.h"

#include <histedit.h>
#include <locale.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

enum { HISTORY_LINES = 1000 };

struct line_editor {
    const char *prompt;
    EditLine *edit; /* NULL without a terminal */
    History *history;
    struct buf history_path; /* empty: none */
    char *line;              /* of getline(), or a copy of libedit's */
    size_t capacity;
};

static char *show_prompt(EditLine *edit) {
    struct line_editor *editor = NULL;
    el_get(edit, EL_CLIENTDATA, &editor);
    return (char *)(uintptr_t)editor->prompt;
}

/* Makes every folder of `path` above its last part. */
static void make_folders(char *path) {
    for (char *slash = strchr(path + 1, '/'); slash; slash = strchr(slash + 1, '/')) {
        *slash = '\0';
        mkdir(path, 0700);
        *slash = '/';
    }
}

static void find_history(struct line_editor *editor) {
    const char *state = getenv("XDG_STATE_HOME"), *home = getenv("HOME");
    struct buf *path = &editor->history_path;
    if (state && *state == '/')
        buf_printf(path, "%s/radish/chat_history", state);
    else if (home && *home == '/')
        buf_printf(path, "%s/.local/state/radish/chat_history", home);
    if (path->failed || !path->len) return;
    make_folders(path->data);
}

static bool open_editor(struct line_editor *editor) {
    HistEvent event;
    if (MB_CUR_MAX == 1 && !setlocale(LC_CTYPE, "C.UTF-8")) setlocale(LC_CTYPE, "en_US.UTF-8");
    editor->history = history_init();
    editor->edit = el_init("radish", stdin, stdout, stderr);
    if (!editor->history || !editor->edit) return false;
    history(editor->history, &event, H_SETSIZE, HISTORY_LINES);
    history(editor->history, &event, H_SETUNIQUE, 1);
    el_set(editor->edit, EL_CLIENTDATA, editor);
    el_set(editor->edit, EL_PROMPT, show_prompt);
    el_set(editor->edit, EL_EDITOR, "emacs");
    el_set(editor->edit, EL_HIST, history, editor->history);
    el_set(editor->edit, EL_SETTY, "-d", "-isig", NULL);
    el_set(editor->edit, EL_BIND, "^C", "em-kill-line", NULL);
    /* A Ctrl-D that is pressed after the prompt shows and before the mode changes comes as a zero.
     */
    el_set(editor->edit, EL_BIND, "^@", "em-delete-or-list", NULL);
    el_set(editor->edit, EL_BIND, "^R", "em-inc-search-prev", NULL);
    find_history(editor);
    if (editor->history_path.len)
        history(editor->history, &event, H_LOAD, editor->history_path.data);
    return true;
}

struct line_editor *line_editor_create(const char *prompt) {
    struct line_editor *editor = calloc(1, sizeof *editor);
    if (!editor) return NULL;
    editor->prompt = prompt;
    buf_init(&editor->history_path, 0);
    bool interactive = isatty(STDIN_FILENO) && isatty(STDOUT_FILENO);
    if (interactive && !open_editor(editor)) {
        line_editor_destroy(editor);
        return NULL;
    }
    return editor;
}

bool line_editor_is_interactive(const struct line_editor *editor) {
    return editor->edit != NULL;
}

static const char *next_edited(struct line_editor *editor) {
    HistEvent event;
    int n = 0;
    const char *typed = el_gets(editor->edit, &n);
    if (!typed || n <= 0) return NULL;
    free(editor->line);
    editor->line = strdup(typed);
    if (!editor->line) return NULL;
    editor->line[strcspn(editor->line, "\n")] = '\0';
    if (editor->line[strspn(editor->line, " \t")])
        history(editor->history, &event, H_ENTER, editor->line);
    return editor->line;
}

const char *line_editor_next(struct line_editor *editor) {
    if (editor->edit) return next_edited(editor);
    ssize_t n = getline(&editor->line, &editor->capacity, stdin);
    if (n < 0) return NULL;
    editor->line[strcspn(editor->line, "\r\n")] = '\0';
    return editor->line;
}

static void save_history(struct line_editor *editor) {
    HistEvent event;
    mode_t before = umask(077);
    history(editor->history, &event, H_SAVE, editor->history_path.data);
    umask(before);
}

void line_editor_destroy(struct line_editor *editor) {
    if (!editor) return;
    if (editor->history && editor->history_path.len) save_history(editor);
    if (editor->edit) el_end(editor->edit);
    if (editor->history) history_end(editor->history);
    buf_deinit(&editor->history_path);
    free(editor->line);
    free(editor);
}
