"""scripts/quickstart, whole: it builds build/release and serves the real model."""
import json, os, pathlib, pty, re, select, subprocess, time, urllib.request

ROOT = pathlib.Path(__file__).resolve().parents[2]
QUICKSTART = ROOT / "scripts/quickstart"


def test_without_a_terminal_it_answers_and_ends():
    done = subprocess.run([QUICKSTART, "Say hello."], capture_output=True, text=True, timeout=800, stdin=subprocess.DEVNULL)

    assert done.returncode == 0, done.stdout + done.stderr
    answer, n_tokens = re.search(r"asking: Say hello\.\n\n(.*?)\n\n\[quickstart\] (\d+) tokens, \d+\.\d tok/s", done.stdout, re.S).groups()
    assert re.search(r"[A-Za-z]{2,}", answer) and int(n_tokens) > 1
    assert "Go on with:" in done.stdout


def test_on_a_terminal_the_server_stays_until_ctrl_c():
    pid, fd = pty.fork()
    if pid == 0:
        os.execv(QUICKSTART, [str(QUICKSTART)])
    seen = ""
    end = time.monotonic() + 300
    while "until Ctrl-C" not in seen:
        assert time.monotonic() < end, seen
        if select.select([fd], [], [], 1)[0]:
            seen += os.read(fd, 65536).decode("utf-8", "replace")
    url = re.search(r"the server stays at (http://\S+)", seen).group(1)

    opener = urllib.request.build_opener(urllib.request.ProxyHandler({}))
    assert json.load(opener.open(url + "/v1/models", timeout=30))["data"]
    os.write(fd, b"\x03")
    while True:
        try:
            if not os.read(fd, 65536):
                break
        except OSError:
            break
    assert os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]) == 0


def test_without_a_model_it_fails(tmp_path):
    """The cache's folder cannot be made: no model, no answer, another status than 0."""
    blocked = tmp_path / "file"
    blocked.write_text("")
    done = subprocess.run([QUICKSTART], capture_output=True, text=True, timeout=800, stdin=subprocess.DEVNULL,
                          env={**os.environ, "RADISH_CACHE": str(blocked / "cache")})
    assert done.returncode != 0
