"""docs/API.md as its reader takes it: every curl line on the page works, every endpoint has one.

Lines run in the order of the page. Those of a block that holds a line `radish serve ...` run against
a server of their own with those flags (openssl lines before it are run, too); all others against a
server as it comes, or with the key KEY where the line has one. `# 400` behind a line names the status
that the page promises; without it any 2xx is right.
"""
import os
import re
import shlex
import subprocess

import pytest

from conftest import ROOT, Server

PAGE = os.path.join(ROOT, "docs/API.md")
ROUTER = os.path.join(ROOT, "src/server/http/router.c")
ROUTE = re.compile(r'\{"(GET|POST|PUT)", "([^"]+)", ([^,]*),')
TOKENS_KNOWN = 500  # of the tiny model: the page shows ids of a real one


def is_whole(text):
    try:
        shlex.split(text, comments=True)
        return True
    except ValueError:
        return False


def blocks():
    """The commands of each fenced block: lines that begin one, with what their quotes go on to."""
    with open(PAGE) as page:
        text = page.read()
    for block in re.findall(r"^```\w*\n(.*?)^```", text, re.M | re.S):
        commands, open_line = [], ""
        for line in block.splitlines():
            if open_line:
                open_line += "\n" + line
            elif re.match(r"(curl|openssl|radish serve) ", line):
                open_line = line
            if open_line and is_whole(open_line) and not open_line.endswith("\\"):
                commands.append(open_line)
                open_line = ""
        assert not open_line, f"a command without an end: {open_line}"
        if any(c.startswith("curl") for c in commands):
            yield commands


def method_and_path(command):
    words = shlex.split(command, comments=True)
    url = next(w for w in words if "localhost:30000" in w)
    path = "/" + re.sub(r"^(https?://)?localhost:30000/?", "", url)
    if "-X" in words:
        method = words[words.index("-X") + 1]
    elif "-I" in words:
        method = "HEAD"
    else:
        method = "POST" if {"-d", "--data", "--data-binary"} & set(words) else "GET"
    return method, path.split("?")[0]


def run_curl(command, port, folder):
    promised = re.search(r"#\s*(\d{3})\b[^'\"]*$", command)
    command = re.sub(r"\s#[^'\"]*$", "", command).replace("localhost:30000", f"localhost:{port}")
    if "/detokenize" in command:
        command = re.sub(r"(?<=[\[ ])\d{3,}(?=[,\]])", lambda m: str(int(m[0]) % TOKENS_KNOWN), command)
    words = shlex.split(command) + ["-o", "/dev/null", "-w", "%{http_code}", "--max-time", "60"]
    done = subprocess.run(words, cwd=folder, capture_output=True, text=True, timeout=90)
    status = done.stdout.strip()[-3:]
    wanted = promised.group(1) if promised else "2.."
    assert re.fullmatch(wanted, status), f"{command}: {status}, not {wanted} {done.stderr}"


@pytest.fixture(scope="module")
def open_server():
    started = Server("--max-total-tokens", "20000")
    yield started
    started.stop()


@pytest.fixture(scope="module")
def keyed_server():
    started = Server("--max-total-tokens", "20000", "--api-key", "KEY")
    yield started
    started.stop()


def flags_of(command):
    """What stands behind the model in a `radish serve MODEL ...` line."""
    return shlex.split(command, comments=True)[3:]


def test_every_curl_line_of_the_page_does_what_it_says(open_server, keyed_server, tmp_path):
    n_lines = 0
    for commands in blocks():
        own = None
        try:
            for command in commands:
                if command.startswith("openssl"):
                    subprocess.run(shlex.split(command, comments=True), cwd=tmp_path, check=True, capture_output=True, timeout=60)
                elif command.startswith("radish serve"):
                    flags = [str(tmp_path / f) if (tmp_path / f).is_file() else f for f in flags_of(command)]
                    own = Server(*flags) if flags else None
                else:
                    target = own or (keyed_server if "Bearer KEY" in command else open_server)
                    run_curl(command, target.port, tmp_path)
                    n_lines += 1
        finally:
            if own:
                own.stop()
    assert n_lines > 20


def test_the_page_has_a_curl_line_for_every_endpoint():
    with open(ROUTER) as router:
        rows = ROUTE.findall(router.read())
    shown = {method_and_path(c) for commands in blocks() for c in commands if c.startswith("curl")}

    missing = [
        f"{method} {path}"
        for method, path, flags in rows
        if not any(m == method and (p == path or ("ROUTE_PREFIX" in flags and p.startswith(path))) for m, p in shown)
    ]

    assert len(rows) > 10
    assert not missing
