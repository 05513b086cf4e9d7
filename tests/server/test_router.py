"""SGLang's own router, as PyPI has it, in front of two radish workers: it takes them for its own.

Where the package is not installed these tests are skipped. One router and two workers serve all
tests of this file, in order: the last test kills a worker.
"""
import importlib.util
import json
import re
import signal
import socket
import subprocess
import sys
import time

import pytest

from conftest import Server, make_request, read_all, read_until

pytestmark = pytest.mark.skipif(not importlib.util.find_spec("sglang_router"), reason="the package sglang-router is not installed")

ROUTER_SECONDS = 120  # to start, on a busy machine
# Two failed requests, not ten, are enough for it to leave a worker alone: a test cannot wait for more.
QUICK_TO_NOTICE = ["--cb-failure-threshold", "2", "--health-failure-threshold", "1", "--health-check-interval-secs", "1"]


def free_port():
    with socket.socket() as sock:
        sock.bind(("127.0.0.1", 0))
        return sock.getsockname()[1]


class Router(Server):
    """Speaks like a Server; its process is the router's."""

    def __init__(self, log_path, workers, *flags):
        self.port = free_port()
        self.log_path = log_path
        command = [sys.executable, "-m", "sglang_router.launch_router", "--host", "127.0.0.1", "--port", str(self.port)]
        command += ["--prometheus-port", str(free_port()), "--worker-startup-check-interval", "1", *flags]
        command += ["--worker-urls", *(worker.url for worker in workers)]
        with open(log_path, "w") as log:
            self.process = subprocess.Popen(command, stdout=log, stderr=subprocess.STDOUT)

    def log(self):
        with open(self.log_path) as log:
            return log.read()

    def workers(self):
        try:
            answer = self.request("GET", "/workers")
        except OSError:
            return []
        return answer.json()["workers"] if answer.status == 200 else []

    def wait_ready(self, n):
        end = time.monotonic() + ROUTER_SECONDS
        while sum(w["is_healthy"] for w in self.workers()) < n:
            assert self.process.poll() is None and time.monotonic() < end, self.log()[-3000:]
            time.sleep(0.1)

    def stop(self):
        self.process.terminate()
        try:
            self.process.wait(timeout=10)
        except subprocess.TimeoutExpired:
            self.process.kill()
            self.process.wait()


@pytest.fixture(scope="module")
def workers():
    started = [Server("--max-total-tokens", "20000") for _ in range(2)]
    yield started
    for worker in started:
        worker.stop()


@pytest.fixture(scope="module")
def router(workers, tmp_path_factory):
    started = Router(tmp_path_factory.mktemp("router") / "log", workers, "--policy", "cache_aware", *QUICK_TO_NOTICE)
    try:
        started.wait_ready(2)
        yield started
    finally:
        started.stop()


def n_requests(worker, code="200", endpoint=None):
    """Generation requests that this worker has answered so."""
    endpoint = endpoint or "/v1/[a-z/]+|/generate"
    text = worker.request("GET", "/metrics").body.decode()
    return sum(int(n) for n in re.findall(rf'^radish:http_requests_total{{[^}}]*endpoint="(?:{endpoint})",code="{code}"}} (\d+)$', text, re.M))


def ask(router, prompt, **more):
    return router.post("/v1/completions", {"model": "llama", "prompt": prompt, "max_tokens": 2, "temperature": 0, **more})


def start_stream(router, prompt, n):
    """A socket whose answer has begun; hundreds of tokens are to come."""
    body = {"model": "llama", "prompt": prompt, "max_tokens": 300, "ignore_eos": True, "stream": True, "n": n}
    sock = router.connect()
    sock.sendall(make_request("POST", "/v1/completions", json.dumps(body).encode(), ()))
    read_until(sock, b"data: ")
    return sock


def test_the_router_reads_what_a_worker_says_of_itself(router, workers):
    found = {w["url"]: w for w in router.workers()}

    assert set(found) == {worker.url for worker in workers}
    for worker in found.values():
        labels = worker["metadata"]
        assert worker["model_id"] == labels["served_model_name"] == "llama"
        assert labels["model_type"] == "llama" and json.loads(labels["architectures"]) == ["LlamaForCausalLM"]
        assert labels["dp_size"] == "1" and labels["model_path"].endswith("llama")
    assert router.request("GET", "/health_generate").status == 200
    assert router.request("GET", "/get_model_info").json()["model_type"] == "llama"


def test_every_endpoint_of_text_is_routed(router):
    chat = router.post("/v1/chat/completions", {"model": "llama", "messages": [{"role": "user", "content": "Hi"}], "max_tokens": 3})
    native = router.post("/generate", {"text": "Hello", "sampling_params": {"max_new_tokens": 3, "temperature": 0}})
    stream = router.post("/v1/completions", {"model": "llama", "prompt": "Hello", "max_tokens": 3, "stream": True})

    assert chat.status == 200 and chat.json()["usage"]["completion_tokens"] == 3
    assert native.status == 200 and native.json()["meta_info"]["completion_tokens"] == 3
    assert stream.status == 200 and b"data: [DONE]" in stream.body
    assert stream.headers["content-type"] == "text/event-stream"


def test_prompts_that_begin_alike_go_to_the_worker_that_has_their_beginning(router, workers):
    before = [n_requests(worker) for worker in workers]
    families = [" ".join(f"{name}{i}" for i in range(24)) for name in "ABCDEF"]
    # All at once, so that the router spreads them by load.
    socks = [start_stream(router, family, n=1) for family in families]
    for sock in socks:
        with sock:
            assert b"[DONE]" in read_all(sock)
    replies = [ask(router, f"{family} question {turn}").json() for turn in range(3) for family in families]

    hits = [r["usage"]["prompt_tokens_details"]["cached_tokens"] / r["usage"]["prompt_tokens"] for r in replies]
    routed = [n_requests(worker) - n for worker, n in zip(workers, before)]
    assert all(hit > 0.5 for hit in hits), hits
    assert sum(routed) == len(families) + len(replies) and min(routed) > 0, routed


def test_bad_input_reaches_the_client_once_and_is_not_tried_again(router, workers):
    before = [n_requests(worker, code="400") for worker in workers]

    answer = ask(router, "Hello", temperature=-5)

    assert answer.status == 400 and answer.json()["error"]["param"] == "temperature"
    assert sum(n_requests(worker, code="400") for worker in workers) - sum(before) == 1


def test_a_client_that_leaves_the_router_ends_its_request_at_the_worker(router, workers):
    sock = start_stream(router, "Hello", n=8)
    sock.close()

    for worker in workers:
        worker.wait_idle()


def test_when_a_worker_dies_in_mid_stream_all_later_requests_are_answered(router, workers):
    socks = [start_stream(router, f"{i} " * 12, n=8) for i in range(6)]
    busy = [worker for worker in workers if worker.health()["requests_running"]]
    assert busy
    victim = busy[0]
    victim.signal(signal.SIGKILL)
    victim.wait_exit()

    ends = []
    for sock in socks:
        with sock:
            ends.append(b"[DONE]" in read_all(sock))
    later = [ask(router, f"{i} and so on") for i in range(20)]

    assert not all(ends), "no stream was cut: the worker died too late"
    assert [a.status for a in later] == [200] * 20, [a.body for a in later if a.status != 200]
    next(worker for worker in workers if worker is not victim).wait_idle()
