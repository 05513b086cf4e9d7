"""Starting, keys, and stopping by signals."""
import signal
import subprocess
import time

import openai
import pytest

from conftest import MODEL, find_program, read_all, read_until, stream_events

LONG = {"prompt": "Hello", "max_tokens": 480, "ignore_eos": True, "n": 8, "stream": True}


def test_an_idle_server_stops_at_once(start):
    server = start()
    begin = time.monotonic()
    server.signal()
    assert server.wait_exit() == 0
    assert time.monotonic() - begin < 10
    assert server.process.stdout.read() == ""


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_stopping_refuses_new_requests_and_finishes_running_ones(start, number):
    server = start("--stop-grace-seconds", "100", "--max-total-tokens", "20000")
    sock = server.start_post("/v1/completions", {**LONG, "n": 32})
    got = read_until(sock, b"data: ")
    server.signal(number)
    while "radish: stopping" not in server.log():
        time.sleep(0.001)
    time.sleep(0.01)
    answer = server.post("/v1/completions", {"prompt": "a", "max_tokens": 1})
    assert answer.status == 503 and "retry-after" in answer.headers
    assert server.request("GET", "/health").status == 503
    got += read_all(sock)
    events, is_done = stream_events(got.partition(b"\r\n\r\n")[2])
    reasons = [c["finish_reason"] for e in events for c in e["choices"] if c["finish_reason"]]
    assert is_done and reasons == ["length"] * 32
    assert server.wait_exit() == 0


def test_after_the_grace_time_streams_end_with_abort(start):
    server = start("--stop-grace-seconds", "0.02", "--max-total-tokens", "70000")
    sock = server.start_post("/v1/completions", {**LONG, "n": 16})
    whole = server.start_post("/v1/completions", {**LONG, "stream": False})
    got = read_until(sock, b"data: ")
    server.wait(lambda h: h["requests_running"] > 16)
    server.signal()
    got += read_all(sock)
    events, is_done = stream_events(got.partition(b"\r\n\r\n")[2])
    reasons = [c["finish_reason"] for e in events for c in e["choices"] if c["finish_reason"]]
    assert is_done and len(reasons) == 16 and "abort" in reasons, reasons
    assert b'"abort"' in read_all(whole)
    assert server.wait_exit(30) == 0


def test_a_second_signal_exits_at_once(start):
    server = start("--stop-grace-seconds", "1000")
    sock = server.start_post("/v1/completions", {**LONG, "n": 16})
    read_until(sock, b"data: ")
    server.signal()
    time.sleep(0.3)
    begin = time.monotonic()
    server.signal()
    assert server.wait_exit(10) == 0
    assert time.monotonic() - begin < 5


def test_api_keys(start):
    server = start("--api-key", "first", "--api-key", "second")
    assert server.health()["status"] == "ok"
    for key in ("first", "second"):
        assert server.client(key).models.list().data
    for key in ("wrong", "firs", "first2"):
        with pytest.raises(openai.AuthenticationError) as caught:
            server.client(key).models.list()
        assert caught.value.code == "invalid_api_key"
    answer = server.post("/v1/completions", {"prompt": "a"})
    assert answer.status == 401 and answer.headers["www-authenticate"] == "Bearer"
    assert "first" not in server.log()


def test_served_model_name(start):
    server = start("--served-model-name", "org/my model")
    client = server.client()
    assert [model.id for model in client.models.list()] == ["org/my model"]
    assert client.models.retrieve("org/my model").id == "org/my model"
    assert client.completions.create(model="org/my model", prompt="a", max_tokens=1).model == \
        "org/my model"
    assert "not served here" not in server.log()


def test_a_taken_port_is_one_clear_line(start):
    server = start()
    again = subprocess.run(
        [find_program(), "serve", MODEL, "--port", str(server.port)],
        capture_output=True, text=True, timeout=60,
    )
    assert again.returncode == 1
    assert "in use" in again.stderr and "\n" not in again.stderr.strip()  # before anything is loaded


def test_stream_interval_makes_fewer_chunks(start):
    server = start("--stream-interval", "10")
    asked = {"prompt": "Hello", "max_tokens": 40, "temperature": 0, "ignore_eos": True}
    whole = server.post("/v1/completions", asked).json()["choices"][0]["text"]
    answer = server.post("/v1/completions", {**asked, "stream": True})
    events, _ = stream_events(answer.body)
    texts = [c["text"] for e in events for c in e["choices"] if c["text"]]
    assert "".join(texts) == whole
    assert len(texts) <= 6
