"""radish chat, on a pipe and on a terminal."""
import os, pty, re, select, signal, subprocess, time

import pytest

FLAGS = ["-n", "8", "--temperature", "0"]


def test_each_line_on_a_pipe_gets_an_answer(radish, llama):
    done = radish("chat", llama, *FLAGS, stdin="Hello\nHow are you?\n")
    assert done.returncode == 0 and done.stderr == b""
    one = radish("chat", llama, *FLAGS, stdin="Hello\n").stdout
    assert done.stdout.startswith(one) and len(done.stdout) > len(one)


def test_a_chat_explains_its_misses_and_checks_its_hits_when_asked(radish, llama):
    done = radish("chat", llama, *FLAGS, "--explain-miss", "--shadow-check", "1", stdin="Hello\nHow are you?\n")
    assert done.returncode == 0 and done.stdout == radish("chat", llama, *FLAGS, stdin="Hello\nHow are you?\n").stdout
    misses = [line for line in done.stderr.decode().split("\n") if "prompt tokens cached" in line]
    assert len(misses) == 2 and ": 0 of " in misses[0] and ": 0 of " not in misses[1]
    assert "shadow check" not in done.stderr.decode()


def test_the_answer_is_what_the_template_gives_to_run(radish, ok, llama):
    answer = ok("chat", llama, *FLAGS, stdin="Hello\n")
    prompt = "<|im_start|>user\nHello<|im_end|>\n<|im_start|>assistant\n"
    assert answer == ok("run", llama, "-p", prompt, *FLAGS)


def test_reset_forgets_and_the_system_message_counts(ok, llama):
    first = ok("chat", llama, *FLAGS, stdin="Hello\n")
    assert ok("chat", llama, *FLAGS, stdin="Other words\n/reset\nHello\n").endswith(first)
    told = ok("chat", llama, *FLAGS, "--system", "You are a pirate.", stdin="Hello\n")
    assert told != first
    assert ok("chat", llama, *FLAGS, stdin="/system You are a pirate.\nHello\n") == told
    assert ok("chat", llama, *FLAGS, "--system", "You are a pirate.", stdin="/system\nHello\n") == first


def test_stats_and_help_go_to_stderr(radish, llama):
    done = radish("chat", llama, *FLAGS, stdin="/help\n/stats\nHello\n/stats\n/quit\nnever said\n")
    text = done.stderr.decode()
    assert done.returncode == 0
    assert "/reset" in text and "No answer yet." in text and "tokens/s" in text and "of 512 tokens" in text
    assert done.stdout == radish("chat", llama, *FLAGS, stdin="Hello\n").stdout


def test_an_unknown_command_fails_on_a_pipe(failed, llama):
    assert "/nonsense" in failed("chat", llama, *FLAGS, stdin="/nonsense\n")


def test_a_model_without_template_is_refused(failed, llama, tmp_path):
    for path in llama.iterdir():
        if path.name not in ("chat_template.jinja", "golden.safetensors"):
            (tmp_path / path.name).symlink_to(path)
    assert "no chat template" in failed("chat", tmp_path)


def test_another_template_can_be_given(ok, llama, tmp_path):
    template = tmp_path / "t.jinja"
    template.write_text("{{ messages[-1].content }}")
    assert ok("chat", llama, *FLAGS, "--chat-template", template, stdin="Hello\n") == ok("run", llama, "-p", "Hello", *FLAGS)


def test_a_full_context_ends_a_pipe_with_a_message(failed, llama):
    line = failed("chat", llama, "-n", "8", "--context-length", "64", stdin="many words " * 60 + "\n")
    assert "64" in line


class Terminal:
    """A program on a pseudo-terminal."""

    def __init__(self, arguments, env):
        self.pid, self.fd = pty.fork()
        if self.pid == 0:
            os.execve(arguments[0], [str(a) for a in arguments], env)
        self.seen = ""

    def read_until(self, pattern, seconds=60):
        """Returns all seen since the last call up to the match."""
        end = time.monotonic() + seconds
        while not re.search(pattern, self.seen):
            left = end - time.monotonic()
            assert left > 0, f"{pattern!r} did not come; seen: {self.seen!r}"
            if select.select([self.fd], [], [], left)[0]:
                try:
                    piece = os.read(self.fd, 65536)
                except OSError:
                    piece = b""
                assert piece, f"the program ended; seen: {self.seen!r}"
                self.seen += piece.decode("utf-8", "replace")
        match = re.search(pattern, self.seen)
        text, self.seen = self.seen[:match.end()], self.seen[match.end():]
        return text

    def type(self, text):
        os.write(self.fd, text.encode())

    def leave(self):
        """Ctrl-D, until it is taken: libedit shows its prompt a moment before it switches the terminal's mode, and a key pressed in
        that moment is lost."""
        for _ in range(30):
            self.type("\x04")
            try:
                return self.wait(1, kill=False)
            except AssertionError:
                continue
        return self.wait(1)

    def wait(self, seconds=30, kill=True):
        end = time.monotonic() + seconds
        while time.monotonic() < end:
            pid, status = os.waitpid(self.pid, os.WNOHANG)
            if pid:
                return os.waitstatus_to_exitcode(status)
            if select.select([self.fd], [], [], 0.05)[0]:
                try:
                    self.seen += os.read(self.fd, 65536).decode("utf-8", "replace")
                except OSError:
                    pass
        if kill:
            os.kill(self.pid, signal.SIGKILL)
        raise AssertionError(f"it does not end; seen: {self.seen!r}")


@pytest.fixture
def terminal(radish, llama, tmp_path):
    opened = []

    def start(*flags):
        env = {**os.environ, "XDG_STATE_HOME": str(tmp_path), "TERM": "xterm", "LC_ALL": "C.UTF-8"}
        opened.append(Terminal([radish.program, "chat", llama, *flags], env))
        opened[-1].read_until("/help lists commands")
        opened[-1].read_until("> ")
        return opened[-1]
    yield start
    for t in opened:
        os.close(t.fd)


def test_a_conversation_on_a_terminal_ends_with_ctrl_d(terminal):
    t = terminal(*FLAGS)
    t.type("Hello\r")
    t.read_until("\n> ")
    t.type("/stats\r")
    assert "tokens/s" in t.read_until("context used")
    t.read_until("> ")
    assert t.leave() == 0


def test_ctrl_c_at_the_prompt_clears_the_line(terminal):
    t = terminal(*FLAGS)
    t.type("/nonsense")
    t.read_until("/nonsense")
    t.type("\x03")
    t.type("/quit\r")
    assert t.wait() == 0
    assert "is no command" not in t.seen


def test_ctrl_c_stops_an_answer_and_the_conversation_goes_on(terminal):
    t = terminal("--temperature", "1", "--chunked-prefill-size", "1")
    for attempt in range(60):
        # Prompt and answer take up to 500 steps; a fast machine may still be through before the key is pressed.
        t.type("/reset\r")
        t.type("words " * 60 + "\r")
        t.read_until(r"words \r\n")
        time.sleep(0.004 * (attempt % 10))
        t.type("\x03")
        t.type("/stats\r")
        if "abort" in t.read_until("context used|No answer yet"):
            break
    else:
        raise AssertionError("no answer was stopped")
    t.type("/quit\r")
    assert t.wait() == 0


def test_history_is_kept_for_the_next_session_and_only_for_its_owner(terminal, tmp_path):
    t = terminal(*FLAGS)
    t.type("first words\r")
    t.read_until("\n> ")
    t.type("/quit\r")
    assert t.wait() == 0
    path = tmp_path / "radish/chat_history"
    assert "first" in path.read_text() and path.stat().st_mode & 0o077 == 0

    t = terminal(*FLAGS)
    t.type("\x1b[A\x1b[A")
    t.read_until("first words")
    t.type("\x03")
    assert t.leave() == 0


def test_letters_beyond_ascii_can_be_typed(terminal):
    t = terminal(*FLAGS)
    t.type("/system Tschüß, 漢字\r")
    t.read_until("漢字")
    t.read_until("> ")
    assert t.leave() == 0
