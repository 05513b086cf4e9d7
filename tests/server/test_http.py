"""Raw sockets: what no client library would send."""
import json
import re
import socket
import time

import pytest

from conftest import Answer, read_all, read_until

BODY = json.dumps({"prompt": "ab", "max_tokens": 2}).encode()
HEAD = b"POST /v1/completions HTTP/1.1\r\nHost: x\r\n"
LENGTH = b"Content-Length: %d\r\n" % len(BODY)
CLOSE = b"Connection: close\r\n"
CHUNKED = b"Transfer-Encoding: chunked\r\n"


def chunk(data):
    return b"%x\r\n%s\r\n0\r\n\r\n" % (len(data), data)


BAD_REQUESTS = {
    "two equal lengths": HEAD + LENGTH + LENGTH + b"\r\n" + BODY,
    "two lengths": HEAD + LENGTH + b"Content-Length: 3\r\n\r\n" + BODY,
    "a list of lengths": HEAD + b"Content-Length: 2, 2\r\n\r\n{}",
    "length and chunks": HEAD + CHUNKED + LENGTH + b"\r\n" + chunk(BODY),
    "chunks and length": HEAD + LENGTH + CHUNKED + b"\r\n" + chunk(BODY),
    "unknown coding": HEAD + b"Transfer-Encoding: gzip, chunked\r\n\r\n" + chunk(BODY),
    "two codings": HEAD + CHUNKED + CHUNKED + b"\r\n" + chunk(BODY),
    "negative length": HEAD + b"Content-Length: -5\r\n\r\n" + BODY,
    "length with a sign": HEAD + b"Content-Length: +5\r\n\r\n" + BODY,
    "length in hex": HEAD + b"Content-Length: 0x1\r\n\r\n{",
    "chunk size that is none": HEAD + CHUNKED + b"\r\nzz\r\n{}\r\n0\r\n\r\n",
    "no Host": b"POST /v1/completions HTTP/1.1\r\n" + LENGTH + b"\r\n" + BODY,
    "space before the colon": b"GET /health HTTP/1.1\r\nHost : x\r\n\r\n",
}


@pytest.mark.parametrize("name", BAD_REQUESTS)
def test_ambiguous_and_broken_framing_is_400(server, name):
    assert server.raw(BAD_REQUESTS[name]).status == 400


BAD_JSON = [
    b"", b" ", b"{", b"}", b"null", b"[]", b"17", b'"text"', b'{"prompt": "a",}', b"{'prompt': 'a'}",
    b'{"prompt": "a"} x', b'{"prompt": "\xff"}', b'{"prompt": "\\ud800"}', b'{"prompt": NaN}',
    b'{"prompt": "a", "temperature": Infinity}', b'{"prompt": "a", "n": 01}', b"[" * 100000,
    b'{"a":' * 500 + b"1" + b"}" * 500, b'\xef\xbb\xbf{"prompt": "a"}', b'{"prompt": "a\nb"}',
    b"\x00" * 10, b'{"prompt": "a", "temperature": 1e999}',
]


@pytest.mark.parametrize("path", ["/v1/completions", "/v1/chat/completions"])
def test_bad_json_is_400(server, path):
    for body in BAD_JSON:
        answer = server.post(path, body)
        assert answer.status == 400, body[:60]
        assert answer.error()["type"] == "invalid_request_error"
    server.wait_idle()


def test_unknown_paths_and_methods(server):
    for path in ("/v1", "/v1/", "/v1/nothing", "/health/", "/v1/models/", "//health"):
        answer = server.request("GET", path)
        assert answer.status == 404 and answer.error()["type"] == "not_found_error", path
    for path, meant in (("/chat/completions", "/v1/chat/completions"), ("/v1/v1/models", "/v1/models"),
                        ("//health", "/health"), ("/v1/generate/", "/generate"), ("/v2", "docs/API.md")):
        assert server.post(path, {}).error()["message"].endswith(meant), path
    for method, path, allow in [
        ("GET", "/v1/completions", "POST"), ("DELETE", "/v1/chat/completions", "POST"),
        ("POST", "/v1/models", "GET, HEAD"), ("PUT", "/health", "GET, HEAD"),
        ("OPTIONS", "/v1/models", "GET, HEAD"),
    ]:
        answer = server.request(method, path)
        assert answer.status == 405 and answer.headers["allow"] == allow


def test_errors_arrive_although_a_body_is_on_its_way(server):
    body = b"x" * 3_000_000
    for path, status in (("/v1/nothing", 404), ("/v1/models", 405)):
        assert server.post(path, body).status == status


def test_head_has_no_body(server):
    answer = server.request("HEAD", "/health")
    assert answer.status == 200 and answer.body == b""


def test_http_1_0(server):
    answer = server.raw(b"POST /v1/completions HTTP/1.0\r\n" + LENGTH + b"\r\n" + BODY)
    assert answer.status == 200 and answer.json()["choices"]
    stream = json.dumps({"prompt": "ab", "max_tokens": 2, "stream": True}).encode()
    answer = server.raw(
        b"POST /v1/completions HTTP/1.0\r\nContent-Length: %d\r\n\r\n" % len(stream) + stream
    )
    assert answer.status == 200 and answer.body.endswith(b"data: [DONE]\n\n")
    assert "transfer-encoding" not in answer.headers


def test_chunked_and_expect_100(server):
    answer = server.raw(HEAD + CLOSE + CHUNKED + b"\r\n" + chunk(BODY))
    assert answer.status == 200 and answer.json()["choices"]
    with server.connect() as sock:
        sock.sendall(HEAD + CLOSE + LENGTH + b"Expect: 100-continue\r\n\r\n")
        assert b"100 Continue" in read_until(sock, b"\r\n\r\n")
        sock.sendall(BODY)
        assert Answer(read_all(sock)).status == 200


def test_pipelined_requests_are_answered_in_order(server):
    one = HEAD + LENGTH + b"\r\n" + BODY
    with server.connect() as sock:
        sock.sendall(one + one + b"GET /health HTTP/1.1\r\nHost: x\r\n" + CLOSE + b"\r\n")
        got = read_all(sock)
    assert got.count(b"HTTP/1.1 200 OK") == 3
    assert got.rindex(b"text_completion") < got.index(b'"status":"ok"')


def test_one_connection_serves_many_requests(server):
    with server.connect() as sock:
        for _ in range(5):
            sock.sendall(HEAD + LENGTH + b"\r\n" + BODY)
            assert b"200 OK" in read_until(sock, b"cached_tokens")


def test_a_request_that_comes_byte_by_byte(server):
    with server.connect() as sock:
        sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        for byte in HEAD + CLOSE + LENGTH + b"\r\n" + BODY:
            sock.sendall(bytes([byte]))
        assert Answer(read_all(sock)).status == 200


def test_headers_have_a_limit(server):
    answer = server.raw(b"GET /health HTTP/1.1\r\nHost: x\r\nX: " + b"a" * 200_000 + b"\r\n\r\n")
    assert answer.status in (400, 431)


def test_compressed_bodies_are_refused(server):
    assert server.post("/v1/completions", b"\x1f\x8b", [("Content-Encoding", "gzip")]).status == 415


def test_garbage_closes_the_connection(server):
    with server.connect() as sock:
        sock.sendall(b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03\r\n\r\n" + b"\xff" * 1000)
        read_all(sock)
    server.health()


def test_bodies_over_the_limit_are_413(start):
    server = start("--max-body-mb", "1")
    big = b'{"prompt":"' + b"a" * 1_200_000 + b'"}'
    answer = server.post("/v1/completions", big)
    assert answer.status == 413 and "1048576" in answer.error()["message"]
    head = HEAD + CLOSE
    assert server.raw(head + CHUNKED + b"\r\n" + chunk(big)).status == 413
    answer = server.raw(head + b"Content-Length: 99000000\r\nExpect: 100-continue\r\n\r\n")
    assert answer.status == 413
    # Without end: the connection is closed, the server lives.
    with server.connect() as sock:
        sock.sendall(head + CHUNKED + b"\r\n")
        piece = b"10000\r\n" + b"a" * 0x10000 + b"\r\n"
        with pytest.raises(OSError):
            for _ in range(2000):
                sock.sendall(piece)
    fits = b'{"prompt":"a","max_tokens":1' + b" " * 1_000_000 + b"}"
    assert server.post("/v1/completions", fits).status == 200


def test_a_text_that_cannot_fit_is_refused_by_its_length_before_it_is_encoded(server):
    for path, body in (
        ("/v1/completions", {"prompt": "a" * 8_000_000}),
        ("/v1/chat/completions", {"messages": [{"role": "user", "content": "a" * 8_000_000}]}),
    ):
        answer = server.post(path, body)
        assert answer.status == 400
        assert answer.error()["code"] == "context_length_exceeded"
        assert re.search(r"has 80\d{5} bytes", answer.error()["message"])


def test_a_prompt_longer_than_the_context_is_400_with_the_numbers(server):
    for path, body in (
        ("/v1/completions", {"prompt": "a b c " * 2000}),
        ("/v1/completions", {"prompt": [5] * 512}),
        ("/v1/completions", {"prompt": [5] * 100_000}),
        ("/v1/completions", {"prompt": [5] * 500, "max_tokens": 13}),
        ("/v1/completions", {"prompt": [5] * 10, "max_tokens": 2**31 - 1}),
        ("/v1/chat/completions", {"messages": [{"role": "user", "content": "a b c " * 2000}]}),
    ):
        answer = server.post(path, body)
        assert answer.status == 400, answer.body
        assert answer.error()["code"] == "context_length_exceeded"
        assert "512" in answer.error()["message"]
    exactly = server.post("/v1/completions", {"prompt": [5] * 500, "max_tokens": 12})
    assert exactly.status == 200
    rest = server.post("/v1/completions", {"prompt": [5] * 500, "ignore_eos": True}).json()
    assert rest["usage"]["completion_tokens"] == 12
    server.wait_idle()


def test_health_answers_at_once_while_every_stream_is_busy(start):
    server = start("--max-running-requests", "8")
    body = {"prompt": "a", "max_tokens": 480, "ignore_eos": True, "stream": True, "n": 2}
    socks = [server.start_post("/v1/completions", body) for _ in range(100)]
    server.wait(lambda h: h["requests_queued"] > 50)
    slowest = 0
    for _ in range(20):
        begin = time.monotonic()
        server.health()
        slowest = max(slowest, time.monotonic() - begin)
    assert slowest < 1, slowest
    for sock in socks:
        sock.close()
    server.wait_idle()


def test_a_full_queue_is_503_with_retry_after(start):
    server = start("--max-running-requests", "1", "--max-queued-requests", "1")
    for path, field in (("/v1/completions", "prompt"), ("/generate", "text")):
        too_many = server.post(path, {field: ["a", "b", "c"]})  # Coming again would not help.
        assert too_many.status == 400 and too_many.error()["param"] == field
    body = {"prompt": "a", "max_tokens": 480, "ignore_eos": True}
    socks = [server.start_post("/v1/completions", body)]
    server.wait(lambda h: h["requests_running"] == 1)
    socks.append(server.start_post("/v1/completions", body))
    server.wait(lambda h: h["requests_queued"] == 1)
    answer = server.post("/v1/completions", body)
    assert answer.status == 503 and "retry-after" in answer.headers
    for sock in socks:
        sock.close()
    server.wait_idle()
