"""radish serve as a process: its ready line, its keys, its end. What it answers is tested in tests/server."""
import http.client, json, re, signal, subprocess, threading, time

import pytest


class Server:
    def __init__(self, program, model, *flags):
        self.process = subprocess.Popen([program, "serve", str(model), "--port", "0", *flags], stderr=subprocess.PIPE, text=True)
        self.lines = []
        self.ready = threading.Event()
        threading.Thread(target=self._read, daemon=True).start()
        assert self.ready.wait(60), self.lines

    def _read(self):
        for line in self.process.stderr:
            self.lines.append(line)
            match = re.search(r"listening on http://127\.0\.0\.1:(\d+)", line)
            if match:
                self.port = int(match.group(1))
                self.ready.set()
        self.ready.set()

    def ask(self, path, body=None, headers=None, timeout=60):
        connection = http.client.HTTPConnection("127.0.0.1", self.port, timeout=timeout)
        connection.request("POST" if body else "GET", path, json.dumps(body) if body else None,
                           {"Content-Type": "application/json", **(headers or {})})
        reply = connection.getresponse()
        return reply.status, reply.read()

    def end(self, signal_number=signal.SIGTERM, seconds=30):
        self.process.send_signal(signal_number)
        return self.process.wait(seconds)


@pytest.fixture
def serve(radish, llama):
    started = []

    def start(*flags):
        started.append(Server(radish.program, llama, *flags))
        return started[-1]
    yield start
    for server in started:
        if server.process.poll() is None:
            server.process.kill()
        server.process.wait()
        server.process.stderr.close()


LONG = {"prompt": "Hello", "max_tokens": 400, "ignore_eos": True, "stream": True}


def test_the_ready_line_names_version_model_and_address(serve):
    server = serve()
    assert any(re.fullmatch(r"radish \d+\.\d+\.\d+ serving llama: listening on http://127\.0\.0\.1:\d+\n", line) for line in server.lines)
    assert server.ask("/health")[0] == 200


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_a_signal_ends_it_with_status_0(serve, number):
    assert serve().end(number) == 0


def test_the_served_name_can_be_chosen(serve):
    status, body = serve("--served-model-name", "my-model").ask("/v1/models")
    assert status == 200 and json.loads(body)["data"][0]["id"] == "my-model"


def test_keys_come_from_flags_and_a_file(serve, tmp_path):
    path = tmp_path / "keys"
    path.write_text("# keys\n\n  filekey \r\n")
    server = serve("--api-key", "one", "--api-key", "two", "--api-key-file", str(path))
    for key, expected in [("one", 200), ("two", 200), ("filekey", 200), ("# keys", 401), ("three", 401)]:
        assert server.ask("/v1/models", headers={"Authorization": f"Bearer {key}"})[0] == expected, key
    assert server.ask("/v1/models")[0] == 401
    assert server.ask("/health")[0] == 200


def test_a_key_file_without_keys_is_refused(failed, llama, tmp_path):
    path = tmp_path / "keys"
    path.write_text("# nothing\n")
    assert "holds no key" in failed("serve", llama, "--port", "0", "--api-key-file", path)


def test_a_port_in_use_is_said(serve, failed, llama):
    server = serve()
    assert str(server.port) in failed("serve", llama, "--port", server.port, "--log-level", "off")


def test_while_stopping_new_requests_get_503_and_running_ones_end_with_abort(serve, radish):
    server = serve("--stop-grace-seconds", "1", "--log-level", "off", "--chunked-prefill-size", "1")
    connection = http.client.HTTPConnection("127.0.0.1", server.port, timeout=60)
    connection.request("POST", "/v1/completions", json.dumps({**LONG, "n": 64}), {"Content-Type": "application/json"})
    reply = connection.getresponse()
    first = reply.readline()
    assert first.startswith(b"data: ")

    server.process.send_signal(signal.SIGTERM)
    deadline = time.monotonic() + 10
    status = None
    while time.monotonic() < deadline and server.process.poll() is None:
        try:
            status = server.ask("/v1/completions", {"prompt": "x", "max_tokens": 1}, timeout=5)[0]
        except OSError:
            break
        if status == 503:
            break
    rest = reply.read()

    assert server.process.wait(30) == 0
    if b'"finish_reason":"abort"' in rest.replace(b" ", b""):
        assert status == 503
    else:
        # The machine was fast enough to finish within the grace time.
        assert b"[DONE]" in rest


def test_a_second_signal_ends_it_at_once(serve):
    server = serve("--stop-grace-seconds", "600", "--log-level", "off")
    connection = http.client.HTTPConnection("127.0.0.1", server.port, timeout=60)
    connection.request("POST", "/v1/completions", json.dumps({**LONG, "n": 128}), {"Content-Type": "application/json"})
    connection.getresponse().readline()
    server.process.send_signal(signal.SIGTERM)
    while not any("stopping" in line for line in server.lines):
        time.sleep(0.01)
    began = time.monotonic()
    assert server.end() == 0
    assert time.monotonic() - began < 5
