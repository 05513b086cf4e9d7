"""Each rule of scripts/lint must see the fault it is there for, in a small tree that is otherwise clean."""
import pathlib, subprocess, sys

import pytest

ROOT = pathlib.Path(__file__).resolve().parents[2]
CLEAN = {
    "include/radish.h": "/* radish.h - public. */\n#ifndef RADISH_H\n#define RADISH_H\n#endif\n",
    "src/base/buf.h": "/* buf.h - a buffer: buf_append(). */\n#ifndef BUF_H\n#define BUF_H\nvoid buf_append(void);\n#endif\n",
    "src/base/buf.c": '/* buf.c - a buffer,\n * explained\n * here. */\n#include "buf.h"\n\nvoid buf_append(void) {\n}\n',
    "src/cache/radix.c": '/* radix.c - a tree,\n * explained\n * here. */\n#include "base/buf.h"\n#include "radish.h"\n',
    "README.md": "See `buf_append()` in `src/base/buf.c`.\n",
}


@pytest.fixture
def lint(tmp_path):
    """lint({path: text}) -> (exit status, output) over the clean tree with these files added or replaced."""
    def run(changes=None):
        for path, text in {**CLEAN, **(changes or {})}.items():
            (tmp_path / path).parent.mkdir(parents=True, exist_ok=True)
            (tmp_path / path).write_text(text)
        done = subprocess.run([sys.executable, ROOT / "scripts/lint", "--root", tmp_path], capture_output=True, text=True)
        return done.returncode, done.stdout + done.stderr
    return run


HEAD = "/* x.c - a file,\n * explained\n * here. */\n"


def test_a_clean_tree_passes(lint):
    status, output = lint()
    assert status == 0, output


@pytest.mark.parametrize("path, text, says", [
    ("src/cache/x.c", HEAD + '#include "tensor/dtype.h"\n', "cache/ may not include"),
    ("src/sched/x.c", HEAD + '#include "model/runner.h"\n', "sched/ may not include"),
    ("src/server/x.c", HEAD + '#include "engine/engine.h"\n', "server/ may not include"),
    ("src/cli/x.c", HEAD + '#include "model/runner.h"\n', "cli/ may not include"),
    ("src/base/x.c", HEAD + '#include "server/server.h"\n', "base/ may not include"),
    ("src/engine/x.c", HEAD + '#include <microhttpd.h>\n', "belongs to server/"),
    ("src/nowhere/x.c", HEAD, "not in the table of arrows"),
    ("src/model/x.c", HEAD + '#include "kernel/registry_int.h"\n', "shows the inside of kernel/"),
    ("src/base/x.c", HEAD + '#include "buf.c"\n', "a source file is not included"),
    ("include/radish.h", '/* radish.h */\n#include "base/buf.h"\n', "standard library only"),
    ("src/base/util.c", HEAD, "named after what it holds"),
    ("src/cache/buf.c", HEAD, "unique in the tree"),
    ("src/base/x.c", "int x;\n", "opens without a comment"),
    ("src/engine/x.c", HEAD + "void f(void) {\n    exit(1);\n}\n", "exit belongs to"),
    ("src/engine/x.c", HEAD + "void f(void) {\n    abort();\n}\n", "abort belongs to"),
    ("src/engine/x.c", HEAD + 'void f(void) {\n    getenv("X");\n}\n', "getenv belongs to"),
    ("src/engine/x.c", HEAD + 'void f(void) {\n    printf("X");\n}\n', "printing belongs to"),
    ("src/engine/x.c", HEAD + 'void f(void) {\n    fprintf(stderr, "X");\n}\n', "printing belongs to"),
    ("src/engine/x.c", HEAD + "typedef struct x {\n    int y;\n} x;\n", "without a typedef"),
    ("src/base/x.c", HEAD + "/* TO" "DO: more. */\n", "a promise"),
    ("scripts/x", "#!/usr/bin/env python3\nopen('/ro" "ot/x.txt')\n", "path of one machine"),
    ("docs/API.md", "Call `buf_prepend()` first.\n", "cites `buf_prepend()`"),
    ("DESIGN.md", "See `struct no_such_thing`.\n", "cites `struct no_such_thing`"),
    ("DESIGN.md", "See `src/base/gone.c`.\n", "cites `src/base/gone.c`"),
    ("DESIGN.md", "See [there](docs/GONE.md#part).\n", "links to docs/GONE.md"),
    ("src/base/x.h", "/* x.h - calls buf_gone() first. */\n", "cites buf_gone()"),
    ("CONTRIBUTING.md", "line\n" * 81, "longer than 80 lines"),
    ("scripts/x", "#!/bin/bash\nrm $undefined_thing/*\n", "SC2154"),
])
def test_a_fault_is_found(lint, path, text, says):
    status, output = lint({path: text})
    assert status == 1 and says in output, output


def test_words_in_comments_and_strings_are_no_calls(lint):
    status, output = lint({"src/engine/x.c": HEAD + '/* exit(1) and printf("x") are not called. */\nconst char *x = "abort()";\n'})
    assert status == 0, output


def test_limits_are_warnings(lint):
    body = "    (void)0;\n" * 71
    status, output = lint({"src/base/x.c": HEAD + f"void f(int a, int b, int c, int d, int e, int f, int g, int h) {{\n{body}}}\n"})
    assert status == 0
    assert "f() has 73 lines" in output and "f() has 8 parameters" in output


def test_formatting_is_checked_with_version_14(lint):
    style = (ROOT / ".clang-format").read_text()
    status, output = lint({".clang-format": style, "src/base/x.c": HEAD + "int  x ;\n"})
    assert status == 1 and "clang-format would change this" in output, output
