"""The server suite: real processes, real sockets, the real openai package.

    RADISH_BIN=build/release/radish python -m pytest tests/server

RADISH_BIN names the program (default: the newest build/*/radish), RADISH_TEST_MODEL the model
folder (default tests/data/models/llama, tiny and random). Tests of SmolLM2 use the model cache and
are skipped where it is absent. Every wait has a limit; every process that a test starts is ended.
"""
import glob
import json
import os
import queue
import re
import signal
import socket
import subprocess
import threading
import time

import openai
import pytest

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
MODEL = os.environ.get("RADISH_TEST_MODEL", os.path.join(ROOT, "tests/data/models/llama"))
DEADLINE = 120  # seconds; a sanitizer's build on a busy machine is slow
SMOLLM2 = ["SmolLM2-135M-Instruct", "SmolLM2-135M-Instruct-Q4_1.gguf"]


def find_program():
    if "RADISH_BIN" in os.environ:
        return os.environ["RADISH_BIN"]
    found = glob.glob(os.path.join(ROOT, "build/*/radish"))
    return max(found, key=os.path.getmtime) if found else None


def is_sanitized():
    with open(find_program(), "rb") as program:
        bits = program.read()
    return b"__asan_init" in bits or b"__tsan_init" in bits


def plan_bytes(server):
    """Weights, KV pool and scratch as the line at start says; two decimals of a GB, rounded."""
    found = re.search(r"weights ([\d.]+) GB, KV pool (\d+) slots .*?, ([\d.]+) GB\), scratch ([\d.]+) GB, have", server.log())
    assert found, server.log()
    return (float(found.group(1)) + float(found.group(3)) + float(found.group(4)) + 0.015) * 1e9


def rss_bytes(server):
    with open(f"/proc/{server.process.pid}/status") as status:
        return int(re.search(r"VmRSS:\s+(\d+) kB", status.read()).group(1)) * 1024


def find_smollm2():
    cache = os.environ.get("RADISH_CACHE") or os.path.join(
        os.environ.get("XDG_CACHE_HOME", os.path.expanduser("~/.cache")), "radish"
    )
    for folder in (cache, os.path.join(cache, "models")):
        for path in glob.glob(os.path.join(folder, "SmolLM2-135M-Instruct*")):
            if path.endswith(".gguf") or os.path.exists(os.path.join(path, "config.json")):
                return path
    return None


class Answer:
    """One HTTP answer, parsed from the bytes of its connection."""

    def __init__(self, raw):
        head, _, self.body = raw.partition(b"\r\n\r\n")
        lines = head.decode("latin-1").split("\r\n")
        found = re.match(r"HTTP/1\.[01] (\d+)", lines[0])
        self.status = int(found.group(1)) if found else None
        self.headers = {}
        for line in lines[1:]:
            name, _, value = line.partition(":")
            self.headers[name.strip().lower()] = value.strip()

    def json(self):
        return json.loads(self.body)

    def error(self):
        """The error object, after checking both places where clients look for it."""
        whole = self.json()
        inner = whole["error"]
        assert set(inner) == {"message", "type", "param", "code"}
        assert whole["object"] == "error" and whole["code"] == self.status
        assert whole["message"] == inner["message"] and inner["message"]
        return inner


class Server:
    def __init__(self, *flags, model=MODEL):
        self.process = subprocess.Popen(
            [find_program(), "serve", model, "--port", "0", *flags],
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            errors="replace",
        )
        self.lines = []
        self.ready = queue.Queue()
        self.reader = threading.Thread(target=self._read, daemon=True)
        self.reader.start()
        self.url = self.ready.get(timeout=DEADLINE)
        assert self.url, "the server ended at once:\n" + self.log()
        self.port = int(self.url.rsplit(":", 1)[1])

    def _read(self):
        for line in self.process.stderr:
            self.lines.append(line)
            found = re.search(r"listening on (https?://\S+)", line)
            if found:
                self.ready.put(found.group(1))
        self.ready.put(None)

    def log(self):
        return "".join(self.lines)

    def client(self, key="none", **more):
        more.setdefault("max_retries", 0)
        more.setdefault("timeout", DEADLINE)
        return openai.OpenAI(base_url=self.url + "/v1", api_key=key, **more)

    def connect(self):
        sock = socket.create_connection(("127.0.0.1", self.port), timeout=DEADLINE)
        return sock

    def raw(self, data):
        """Sends bytes, reads until the server closes."""
        with self.connect() as sock:
            try:
                sock.sendall(data)
            except OSError:
                pass  # It closed early; what it said is still to be read.
            return Answer(read_all(sock))

    def request(self, method, path, body=None, headers=()):
        if body is not None and not isinstance(body, bytes):
            body = json.dumps(body).encode()
        return self.raw(make_request(method, path, body, headers))

    def post(self, path, body, headers=()):
        return self.request("POST", path, body, headers)

    def start_post(self, path, body):
        """Sends the request and returns the open socket."""
        sock = self.connect()
        sock.sendall(make_request("POST", path, json.dumps(body).encode(), ()))
        return sock

    def health(self):
        answer = self.request("GET", "/health")
        assert answer.status == 200
        return answer.json()

    def wait(self, condition, seconds=30):
        """Waits until condition(health) holds; returns that health."""
        end = time.monotonic() + seconds
        while True:
            health = self.health()
            if condition(health):
                return health
            assert time.monotonic() < end, f"never came: {health}\n{self.log()[-3000:]}"
            time.sleep(0.005)

    def wait_idle(self, seconds=30):
        return self.wait(is_idle, seconds)

    def signal(self, number=signal.SIGTERM):
        self.process.send_signal(number)

    def wait_exit(self, seconds=DEADLINE):
        code = self.process.wait(timeout=seconds)
        self.reader.join(timeout=10)
        return code

    def stop(self):
        if self.process.poll() is None:
            self.signal()
            time.sleep(0.05)
            try:
                return self.wait_exit(60)
            except subprocess.TimeoutExpired:
                self.process.kill()
                raise
        return self.wait_exit()


def is_idle(health):
    return (
        health["requests_running"] == 0
        and health["requests_queued"] == 0
        and health["kv_slots_free"] == health["kv_slots_total"]
    )


def make_request(method, path, body, headers):
    lines = [f"{method} {path} HTTP/1.1", "Host: localhost", "Connection: close"]
    lines += [f"{name}: {value}" for name, value in headers]
    if body is not None:
        lines += ["Content-Type: application/json", f"Content-Length: {len(body)}"]
    return "\r\n".join(lines).encode() + b"\r\n\r\n" + (body or b"")


def read_all(sock):
    got = b""
    while True:
        try:
            piece = sock.recv(65536)
        except ConnectionResetError:
            return got
        if not piece:
            return got
        got += piece


def read_until(sock, needle):
    got = b""
    while needle not in got:
        piece = sock.recv(65536)
        assert piece, f"closed before {needle}: {got[-500:]}"
        got += piece
    return got


def stream_events(raw):
    """The JSON objects of a stream's body (chunked), and whether it ended with [DONE]."""
    text = re.sub(rb"\r\n[0-9A-Fa-f]+\r\n", b"", b"\r\n" + raw)
    datas = re.findall(rb"^data: (.*)$", text, re.M)
    return [json.loads(d) for d in datas if d != b"[DONE]"], bool(datas and datas[-1] == b"[DONE]")


def pytest_collection_modifyitems(items):
    if find_program():
        return
    for item in items:
        item.add_marker(pytest.mark.skip(reason="there is no build/*/radish and no RADISH_BIN"))


@pytest.fixture(scope="session")
def server():
    """The tiny model with room for everything; shared, so tests leave it idle."""
    started = Server("--max-total-tokens", "70000")
    yield started
    assert started.process.poll() is None, started.log()
    assert started.stop() == 0


@pytest.fixture
def start():
    """start(*flags, model=...): servers of one test, ended with it."""
    started = []

    def start_server(*flags, **more):
        started.append(Server(*flags, **more))
        return started[-1]

    yield start_server
    for one in started:
        one.stop()


@pytest.fixture(scope="session")
def smollm2():
    path = find_smollm2()
    if not path:
        pytest.skip("SmolLM2-135M-Instruct is not in the model cache: run scripts/quickstart")
    started = Server("--context-length", "2048", "--max-total-tokens", "16384", model=path)
    yield started
    assert started.stop() == 0
