"""Clients at the edge of the protocol and beyond it, by raw sockets: heads, bodies, JSON, slow ones and many.

Short forms by default; RADISH_LONG=1 runs the long ones (4,000 streams).
"""
import json
import os
import resource
import selectors
import socket
import struct
import subprocess
import threading
import time

import pytest

from conftest import MODEL, Answer, find_program, read_all, read_until, stream_events

LONG = os.environ.get("RADISH_LONG") == "1"
BODY = json.dumps({"prompt": "ab", "max_tokens": 2}).encode()
HEALTH = b"GET /health HTTP/1.1\r\nHost: x\r\n"
HEAD = b"POST /v1/completions HTTP/1.1\r\nHost: x\r\n"
LENGTH = b"Content-Length: %d\r\n" % len(BODY)
CLOSE = b"Connection: close\r\n"
CHUNKED = b"Transfer-Encoding: chunked\r\n"


def chunked(*pieces, end=b"0\r\n\r\n"):
    return b"".join(b"%x\r\n%s\r\n" % (len(p), p) for p in pieces) + end


def by_reset(sock):
    sock.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
    sock.close()


# What is refused, and how: the statuses that are fine. None: closed without a word.
REFUSED = {
    "two hosts": (HEALTH + b"Host: y\r\n" + CLOSE + b"\r\n", {400}),
    "a lone CR in a value": (HEALTH + b"X: a\rContent-Length: 5\r\n" + CLOSE + b"\r\n", {400}),
    "a control character in a name": (HEALTH + b"a\x01b: c\r\n" + CLOSE + b"\r\n", {400}),
    "a control character in a value": (HEALTH + b"X: a\x01b\r\n" + CLOSE + b"\r\n", {400}),
    "a space in a name": (HEALTH + b"X y: a\r\n" + CLOSE + b"\r\n", {400}),
    "a header without a colon": (HEALTH + b"abc\r\n" + CLOSE + b"\r\n", {400}),
    "a folded length": (HEAD + CLOSE + b"Content-Length: 3\r\n 0\r\n\r\n" + BODY, {400}),
    "a folded coding": (HEAD + CLOSE + b"Transfer-Encoding: chun\r\n ked\r\n\r\n" + chunked(BODY), {400}),
    "a fold before any header": (b"GET /health HTTP/1.1\r\n X: a\r\nHost: x\r\n" + CLOSE + b"\r\n", {400}),
    "a coding that only looks so": (HEAD + CLOSE + b"Transfer-Encoding: \x0bchunked\r\n\r\n" + chunked(BODY), {400}),
    "chunks from HTTP/1.0": (b"POST /v1/completions HTTP/1.0\r\n" + CHUNKED + b"\r\n" + chunked(BODY), {400}),
    "a header of 200 KB": (HEALTH + b"X: " + b"a" * 200_000 + b"\r\n\r\n", {400, 431}),
    "10,000 headers": (HEALTH + b"".join(b"X%d: a\r\n" % i for i in range(10_000)) + b"\r\n", {400, 431}),
    "a request line of 1 MB": (b"GET /" + b"a" * 1_000_000 + b" HTTP/1.1\r\nHost: x\r\n\r\n", {400, 414}),
    "a request line of 20 KB": (b"GET /" + b"a" * 20_000 + b" HTTP/1.1\r\nHost: x\r\n" + CLOSE + b"\r\n", {404}),
    "a method that is none": (b"G@T /health HTTP/1.1\r\nHost: x\r\n" + CLOSE + b"\r\n", {405}),
    "a method of 5 KB": (b"A" * 5000 + b" /health HTTP/1.1\r\nHost: x\r\n" + CLOSE + b"\r\n", {405}),
    "TRACE": (b"TRACE /health HTTP/1.1\r\nHost: x\r\n" + CLOSE + b"\r\n", {405}),
    "CONNECT": (b"CONNECT a:1 HTTP/1.1\r\nHost: x\r\n" + CLOSE + b"\r\n", {404}),
    "no path": (b"GET HTTP/1.1\r\nHost: x\r\n" + CLOSE + b"\r\n", {400}),
    "a space in the path": (b"GET /hea lth HTTP/1.1\r\nHost: x\r\n" + CLOSE + b"\r\n", {400, 404, None}),
    "an encoded zero in the path": (b"GET /health%00x HTTP/1.1\r\nHost: x\r\n" + CLOSE + b"\r\n", {404}),
    "a broken escape in the path": (b"GET /health%zz HTTP/1.1\r\nHost: x\r\n" + CLOSE + b"\r\n", {404}),
    "dots in the path": (b"GET /v1/../health HTTP/1.1\r\nHost: x\r\n" + CLOSE + b"\r\n", {404}),
    "HTTP/0.9": (b"GET /health\r\n\r\n", {400}),
    "HTTP/2.0": (b"GET /health HTTP/2.0\r\nHost: x\r\n" + CLOSE + b"\r\n", {505}),
    "HTTP/1.10": (b"GET /health HTTP/1.10\r\nHost: x\r\n" + CLOSE + b"\r\n", {400, 505}),
    "the preface of HTTP/2": (b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n", {400, 505}),
    "a chunk size above 2^64": (HEAD + CHUNKED + b"\r\nffffffffffffffffff\r\n", {400, 413}),
    "a negative chunk size": (HEAD + CHUNKED + b"\r\n-1\r\n", {400}),
    "a space before the chunk size": (HEAD + CHUNKED + b"\r\n 5\r\nabcde\r\n0\r\n\r\n", {400}),
    "0x before the chunk size": (HEAD + CHUNKED + b"\r\n0x5\r\nabcde\r\n0\r\n\r\n", {400}),
    "no chunk size": (HEAD + CHUNKED + b"\r\n\r\n{}\r\n0\r\n\r\n", {400}),
    "a chunk longer than its size": (HEAD + CHUNKED + b"\r\n2\r\n{}XX0\r\n\r\n", {400}),
    "a length above 2^64": (HEAD + b"Content-Length: 99999999999999999999\r\n\r\n", {400, 413}),
    "a length of 2^64-1": (HEAD + b"Content-Length: 18446744073709551615\r\n\r\n", {413}),
    "an empty length": (HEAD + b"Content-Length:\r\n\r\n", {400}),
    "a length of two words": (HEAD + b"Content-Length: 3 0\r\n\r\n" + BODY, {400}),
    "trailers without end": (HEAD + CHUNKED + b"\r\n" + chunked(BODY, end=b"0\r\n")
                             + b"".join(b"X%d: %s\r\n" % (i, b"a" * 100) for i in range(1000)), {400, 431}),
}


@pytest.mark.parametrize("name", REFUSED)
def test_refused_with_a_status_that_says_so(server, name):
    request, statuses = REFUSED[name]
    assert server.raw(request).status in statuses
    server.health()


SERVED = {
    "absolute form": b"GET http://x/health HTTP/1.1\r\nHost: x\r\n" + CLOSE + b"\r\n",
    "empty lines before a request": b"\r\n\r\n" + HEALTH + CLOSE + b"\r\n",
    "lines that end in LF": b"GET /health HTTP/1.1\nHost: x\nConnection: close\n\n",
    "300 headers": HEALTH + b"".join(b"X%d: a\r\n" % i for i in range(300)) + CLOSE + b"\r\n",
    "bytes above 127 in a value": HEALTH + "X: ä".encode() + b"\r\n" + CLOSE + b"\r\n",
    "a chunk extension": HEAD + CLOSE + CHUNKED + b"\r\n%x;a=b\r\n%s\r\n0\r\n\r\n" % (len(BODY), BODY),
    "a trailer": HEAD + CLOSE + CHUNKED + b"\r\n" + chunked(BODY, end=b"0\r\nX: y\r\n\r\n"),
    "a length among the trailers": HEAD + CLOSE + CHUNKED + b"\r\n" + chunked(BODY, end=b"0\r\nContent-Length: 3\r\n\r\n"),
    "chunks of one byte": HEAD + CLOSE + CHUNKED + b"\r\n" + chunked(*(bytes([b]) for b in BODY)),
    "an expectation that is none": HEAD + CLOSE + LENGTH + b"Expect: 200-maybe\r\n\r\n" + BODY,
}


@pytest.mark.parametrize("name", SERVED)
def test_served_though_seldom_seen(server, name):
    assert server.raw(SERVED[name]).status == 200


def test_a_body_where_none_belongs_ends_the_connection(server):
    hidden = b"GET /v1/models HTTP/1.1\r\nHost: x\r\n\r\n"
    got = server.raw(HEALTH + b"Content-Length: %d\r\n\r\n" % len(hidden) + hidden + HEALTH + b"\r\n")
    assert got.status == 200 and got.headers["connection"] == "close"
    assert got.body.count(b"HTTP/1.1") == 0, "nothing behind it is answered"


def test_a_smuggled_request_is_never_answered(server):
    hidden = b"GET /v1/models HTTP/1.1\r\nHost: x\r\n\r\n"
    for head in (CHUNKED + b"Content-Length: 4\r\n", b"Content-Length: 4\r\nContent-Length: 40\r\n",
                 b"Transfer-Encoding: xchunked\r\n", b"Transfer-Encoding: chunked, identity\r\n"):
        got = server.raw(HEAD + head + b"\r\n0\r\n\r\n" + hidden)
        assert got.status == 400 and b"object" not in got.body[got.body.find(b"HTTP/1.1"):][:1]
        assert b'"list"' not in got.body


def test_http_1_0_closes_unless_asked_not_to(server):
    assert server.raw(b"GET /health HTTP/1.0\r\n\r\n").status == 200
    with server.connect() as sock:
        for _ in range(2):
            sock.sendall(b"GET /health HTTP/1.0\r\nConnection: keep-alive\r\n\r\n")
            assert b"200 OK" in read_until(sock, b'"connections"')
    body = json.dumps({"prompt": "ab", "max_tokens": 4, "stream": True}).encode()
    for connection in (b"", b"Connection: keep-alive\r\n"):
        answer = server.raw(b"POST /v1/completions HTTP/1.0\r\n" + connection + b"Content-Length: %d\r\n\r\n" % len(body) + body)
        assert answer.status == 200 and "transfer-encoding" not in answer.headers
        assert answer.body.startswith(b"data: {") and answer.body.endswith(b"data: [DONE]\n\n")


def test_ten_requests_at_once_are_answered_in_order(server):
    asked = [json.dumps({"prompt": "ab", "max_tokens": 1 + i, "rid": f"r{i}", "ignore_eos": True}).encode() for i in range(9)]
    data = b"".join(HEAD + b"Content-Length: %d\r\n\r\n" % len(b) + b for b in asked)
    got = server.raw(data + HEALTH + CLOSE + b"\r\n")
    places = [got.body.find(b'"id":"r%d"' % i) for i in range(9)] + [got.body.find(b'"connections"')]
    assert -1 not in places and places == sorted(places)


def test_tls_on_the_plain_port_and_http_in_the_wrong_place(server):
    with server.connect() as sock:
        sock.sendall(b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03" + b"\xff" * 500)
        server.health()
    with server.connect() as sock:
        sock.sendall(b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03\n\n" + b"\xff" * 500)
        read_all(sock)
    server.health()


CUTS = [b"", b"POST", HEAD, HEAD + CHUNKED + b"\r\n", HEAD + CHUNKED + b"\r\n5", HEAD + CHUNKED + b"\r\n5\r\nab",
        HEAD + LENGTH + b"\r\n", HEAD + LENGTH + b"\r\n" + BODY[:5], HEAD + LENGTH + b"\r\n" + BODY]


@pytest.mark.parametrize("leave", [socket.socket.close, by_reset, lambda sock: sock.shutdown(socket.SHUT_WR)])
def test_leaving_in_every_phase(server, leave):
    socks = []
    for cut in CUTS:
        for _ in range(5):
            sock = server.connect()
            sock.sendall(cut)
            leave(sock)
            socks.append(sock)
    server.wait_idle()
    for sock in socks:
        sock.close()
    server.wait(lambda h: h["connections"] <= 2)


# ---- JSON ----


def number(text):
    return b'{"prompt": "a", "max_tokens": 1, "temperature": ' + text + b"}"


@pytest.mark.parametrize("path", ["/v1/completions", "/v1/chat/completions"])
def test_json_that_hurts_parsers_is_400(server, path):
    deep = 100_000
    for body in (
        b"[" * deep + b"]" * deep, b'{"a":' * deep + b"1" + b"}" * deep, b'{"messages":' + b"[" * deep,
        b'{"prompt": "\\ud800"}', b'{"prompt": "\\udc00\\ud800"}', b'{"prompt": "\\ud800x"}', b'{"\\ud800": 1}',
        b'{"prompt": "a\x00b"}', b'\x00{"prompt": "a"}', b'{"prompt": "a"}\x00', b'{"prompt": "\xc0\x80"}',
        b'{"prompt": "\xed\xa0\x80"}', b'{"prompt": "\xf4\x90\x80\x80"}', b'\xff\xfe{\x00}\x00', b'\xef\xbb\xbf{"prompt": "a"}',
        b"[1, 2]", b'"text"', b"", b" " * 100_000, number(b"1e400"), number(b"-1e400"), number(b"NaN"),
        number(b"Infinity"), number(b"01"), number(b"1."), number(b".5"), number(b"+1"), number(b"0x1"),
        b'{"prompt": "a", /* c */ "n": 1}', b'{"prompt": "a",}', b"{'prompt': 'a'}",
    ):
        answer = server.post(path, body)
        assert answer.status == 400, body[:60]
        assert answer.error()["type"] == "invalid_request_error"
    server.wait_idle()


def test_a_lone_surrogate_is_called_by_its_name(server):
    message = server.post("/v1/completions", b'{"prompt": "\\ud800"}').error()["message"]
    assert "surrogate" in message
    whole = server.post("/v1/completions", b'{"prompt": "\\ud83d\\ude00", "max_tokens": 1}')
    assert whole.status == 200


def test_numbers_at_the_edge(server):
    for text in (b"-0", b"-0.0", b"0e0", b"1e-400", b"1e-320", b"0." + b"0" * 5000 + b"1"):
        assert server.post("/v1/completions", number(text)).status == 200, text[:20]
    for field, value, status in (
        ("seed", b"18446744073709551615", 200), ("seed", b"18446744073709551616", 400), ("max_tokens", b"18446744073709551616", 400),
        ("max_tokens", b"-0", 200), ("n", b"1e0", 200), ("n", b"1" + b"0" * 400, 400), ("temperature", b"1" + b"0" * 400, 400),
    ):
        body = b'{"prompt": "a", "max_tokens": 1, "' + field.encode() + b'": ' + value + b"}"
        if field == "max_tokens":
            body = b'{"prompt": "a", "max_tokens": ' + value + b"}"
        assert server.post("/v1/completions", body).status == status, (field, value[:30])


def test_of_two_equal_keys_the_last_counts_as_in_python(server):
    body = b'{"prompt": "ab", "max_tokens": 9, "ignore_eos": true, "max_tokens": 2, "temperature": -5, "temperature": 0}'
    answer = server.post("/v1/completions", body)
    assert answer.status == 200 and answer.json()["usage"]["completion_tokens"] == 2


def test_an_escaped_zero_is_text_and_ends_nothing(server):
    ids = server.post("/tokenize", b'{"prompt": "a\\u0000b"}').json()["tokens"]
    assert len(ids) > len(server.post("/tokenize", b'{"prompt": "a"}').json()["tokens"])
    assert server.post("/v1/completions", b'{"prompt": "a\\u0000b", "max_tokens": 1}').status == 200
    assert server.post("/v1/completions", b'{"prompt": "a", "rid": "x\\u0000y"}').status == 400


def test_huge_lists_and_many_spaces_are_refused_or_served_in_time(server):
    begin = time.monotonic()
    millions = b'{"prompt": [' + b"5," * 2_000_000 + b"5]}"
    assert server.post("/v1/completions", millions).status == 400
    objects = b'{"prompt": "a", "max_tokens": 1, "logit_bias": {' + b",".join(b'"%d":1' % i for i in range(200_000)) + b"}}"
    assert server.post("/v1/completions", objects).error()["param"] == "logit_bias"
    spaces = (64 if LONG else 8) << 20
    body = b'{"prompt": "a", "max_tokens": 1' + b" " * (spaces - 100) + b"}"
    assert server.post("/v1/completions", body).status == 200
    assert server.post("/v1/completions", b" " * (spaces - 100)).status == 400
    assert time.monotonic() - begin < 30


def test_a_body_of_forty_thousand_ids_gets_an_answer(server):
    """What vLLM's bench sends with --random-input-len 40960."""
    for body in ({"prompt": [5] * 40_960, "max_tokens": 1}, {"prompt": "word " * 40_960, "max_tokens": 1, "stream": True}):
        answer = server.post("/v1/completions", body)
        assert answer.status == 400 and answer.error()["code"] == "context_length_exceeded"
    server.wait_idle()


def no_constant(text):
    raise AssertionError(f"{text} in a response")


def test_responses_hold_no_nan_and_no_infinity(server):
    """Banned and forced tokens at temperatures where probabilities are 0 and 1."""
    for temperature in (0, 1e-30, 0.01, 1, 3e38):
        for path, body in (
            ("/v1/completions", {"prompt": "ab", "logprobs": 20, "echo": True}),
            ("/v1/chat/completions", {"messages": [{"role": "user", "content": "a"}], "logprobs": True, "top_logprobs": 20}),
        ):
            body |= {"max_tokens": 3, "temperature": temperature, "logit_bias": {"5": 100, "6": -100}, "top_p": 1e-9, "n": 2}
            answer = server.post(path, body)
            assert answer.status == 200, answer.body
            json.loads(answer.body, parse_constant=no_constant)
    for path in ("/health", "/radix", "/v1/models"):
        json.loads(server.request("GET", path).body, parse_constant=no_constant)


# ---- caps ----

CAPS = [
    # field, what is still taken, what is not, how the message names the limit
    ("n", 128, 129, "128"),
    ("best_of", None, 129, "128"),
    ("stop", ["a"] * 16, ["a"] * 17, "16"),
    ("stop", "a" * 256, "a" * 257, "256"),
    ("stop_token_ids", [1] * 64, [1] * 65, "64"),
    ("logit_bias", {str(i): 0 for i in range(500)}, {str(i): 0 for i in range(1025)}, "1024"),
    ("rid", "r" * 128, "r" * 129, "128"),
    ("extra_key", "e" * 1024, "e" * 1025, "1024"),
    ("cache_salt", "e" * 1024, "e" * 1025, "1024"),
    ("priority", 10**9, 10**9 + 1, "1000000000"),
]
CAPS_CHAT = [
    ("top_logprobs", 20, 21, "20"),
    ("messages", None, [{"role": "user", "content": ""}] * 16_385, "16384"),
    ("tools", None, [{"type": "function", "function": {"name": "f"}}] * 1025, "1024"),
    ("documents", None, [{"text": "a"}] * 4097, "4096"),
]
CAPS_COMPLETIONS = [("logprobs", 20, 21, "20"), ("prompt", None, ["a"] * 257, "256")]


@pytest.mark.parametrize("chat", [True, False])
def test_caps_are_400_with_the_field_and_the_limit(server, chat):
    path = "/v1/chat/completions" if chat else "/v1/completions"
    base = {"messages": [{"role": "user", "content": "a"}]} if chat else {"prompt": "a"}
    for field, fits, over, limit in CAPS + (CAPS_CHAT if chat else CAPS_COMPLETIONS):
        body = base | {"max_tokens": 1} | ({"logprobs": True} if field == "top_logprobs" else {})
        if fits is not None:
            assert server.post(path, body | {field: fits}).status == 200, field
        answer = server.post(path, body | {field: over})
        assert answer.status == 400, field
        assert answer.error()["param"] == field and limit in answer.error()["message"].replace(",", ""), answer.body[:300]
    server.wait_idle()


# ---- slow ones, and many ----


def latency(server, n=20):
    """The slowest of n healths and of n completions, in seconds."""
    slowest = 0
    for _ in range(n):
        for request in (HEALTH + CLOSE + b"\r\n", HEAD + CLOSE + LENGTH + b"\r\n" + BODY):
            begin = time.monotonic()
            assert server.raw(request).status == 200
            slowest = max(slowest, time.monotonic() - begin)
    return slowest


def test_slow_senders_by_the_hundred_disturb_nobody_and_are_dropped(start):
    server = start("--receive-timeout", "2")
    n = 500 if LONG else 150
    begin = time.monotonic()
    heads = [server.connect() for _ in range(n)]
    bodies = [server.connect() for _ in range(n)]
    for sock in heads:
        sock.sendall(b"GET /health HTTP/1.1\r\nHo")
    for sock in bodies:
        sock.sendall(HEAD + b"Content-Length: 1000000\r\n\r\n{")
    stop = threading.Event()

    def dribble():
        while not stop.wait(0.3):
            for sock in heads + bodies:
                try:
                    sock.send(b"a")
                except OSError:
                    pass

    thread = threading.Thread(target=dribble)
    thread.start()
    try:
        slowest = latency(server)
        server.wait(lambda h: h["connections"] == 1, 20)
        took = time.monotonic() - begin
    finally:
        stop.set()
        thread.join()
    print(f"{2 * n} slow senders: slowest answer to others {slowest * 1000:.0f} ms, all dropped after {took:.1f} s")
    assert slowest < 1
    assert took > 1.9, "not before their time"
    assert "too slow" in server.log()
    for sock in heads + bodies:
        sock.close()


def test_a_fast_body_may_take_longer_than_the_time_of_a_head(start):
    server = start("--receive-timeout", "1")
    body = b'{"prompt": "a", "max_tokens": 1' + b" " * 100_000 + b"}"
    with server.connect() as sock:
        sock.sendall(HEAD + CLOSE + b"Content-Length: %d\r\n\r\n" % len(body))
        for at in range(0, len(body), 25_001):
            sock.sendall(body[at : at + 25_001])
            time.sleep(0.5)
        assert Answer(read_all(sock)).status == 200


def test_a_computing_request_and_a_stream_have_no_deadline(start):
    server = start("--receive-timeout", "1", "--max-running-requests", "1")
    long = {"prompt": "a", "max_tokens": 480, "ignore_eos": True}
    busy = [server.start_post("/v1/completions", long | {"stream": True, "n": 1}) for _ in range(4)]
    events, is_done = stream_events(read_all(busy[-1]))
    assert is_done and events
    for sock in busy:
        sock.close()


def test_a_thousand_idle_connections_cost_little_and_disturb_nobody(server):
    n = 1000 if LONG else 300
    before = server.health()["connections"]
    rss = rss_kb(server)
    socks = [server.connect() for _ in range(n)]
    for sock in socks:
        sock.sendall(HEALTH + b"\r\n")
    for sock in socks:
        read_until(sock, b'"connections"')
    grown = (rss_kb(server) - rss) / n
    slowest = latency(server, 10)
    assert server.health()["connections"] >= before + n
    print(f"{n} idle connections: {grown:.1f} KB each, slowest answer to others {slowest * 1000:.0f} ms")
    assert slowest < 1
    assert grown < 64 or "san/" in find_program() and grown < 400, "sanitizers keep what was freed"
    for sock in socks:
        sock.sendall(HEALTH + b"\r\n")
        read_until(sock, b'"connections"')
        sock.close()
    server.wait(lambda h: h["connections"] <= before + 1)


def rss_kb(server):
    with open(f"/proc/{server.process.pid}/status") as status:
        return int(next(line for line in status if line.startswith("VmRSS")).split()[1])


def test_thousands_of_streams_at_once_all_finish_right(start):
    n = 4000 if LONG else 200
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    if soft < n + 200:
        resource.setrlimit(resource.RLIMIT_NOFILE, (min(hard, n + 200), hard))
    server = start("--max-queued-requests", "8192", "--max-total-tokens", "70000")
    prompt = {"prompt": "Hello", "max_tokens": 8, "ignore_eos": True, "temperature": 0, "stream": True}
    want = server.post("/v1/completions", prompt | {"stream": False}).json()["choices"][0]["text"]
    body = json.dumps(prompt).encode()
    request = HEAD + CLOSE + b"Content-Length: %d\r\n\r\n" % len(body) + body
    begin = time.monotonic()
    got, poll = {}, selectors.DefaultSelector()
    for _ in range(n):
        sock = server.connect()
        sock.sendall(request)
        got[sock] = b""
        poll.register(sock, selectors.EVENT_READ)
    left = n
    while left:
        ready = poll.select(timeout=120)
        assert ready, f"{left} streams are still open"
        for key, _ in ready:
            piece = key.fileobj.recv(65536)
            got[key.fileobj] += piece
            if not piece:
                poll.unregister(key.fileobj)
                key.fileobj.close()
                left -= 1
    print(f"{n} streams: {time.monotonic() - begin:.1f} s, RSS {rss_kb(server) / 1024:.0f} MB")
    for raw in got.values():
        assert raw.startswith(b"HTTP/1.1 200")
        events, is_done = stream_events(raw.partition(b"\r\n\r\n")[2])
        assert is_done and "".join(e["choices"][0]["text"] for e in events if e["choices"]) == want
    server.wait_idle()


def cpu_seconds(process):
    with open(f"/proc/{process.pid}/stat") as stat:
        fields = stat.read().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def test_running_out_of_descriptors_neither_spins_nor_ends_the_server(start):
    server = start()
    resource.prlimit(server.process.pid, resource.RLIMIT_NOFILE, (60, resource.getrlimit(resource.RLIMIT_NOFILE)[1]))
    socks = []
    for _ in range(12):  # Each HTTP thread has some: one without any would ask the kernel over and over [libmicrohttpd].
        socks.append(server.connect())
        time.sleep(0.01)
    socks += [server.connect() for _ in range(140)]  # The kernel accepts them; the server cannot.
    time.sleep(0.3)
    begin = cpu_seconds(server.process)
    time.sleep(1)
    spent = cpu_seconds(server.process) - begin
    assert spent < 0.5, f"{spent} s of CPU while nothing can be done"
    for sock in socks:
        sock.close()
    server.wait(lambda h: h["connections"] == 1)


def test_few_files_allowed_are_fewer_connections_and_said_so():
    process = subprocess.Popen(["prlimit", "--nofile=400:400", find_program(), "serve", MODEL, "--port", "0"],
                               stderr=subprocess.PIPE, text=True)
    lines = []
    for line in process.stderr:
        lines.append(line)
        if "listening on" in line:
            break
    process.terminate()
    process.stderr.read()
    assert process.wait(60) == 0
    assert any("connections: at most" in line and "400 files" in line for line in lines), lines


def test_connections_past_the_limit_get_503_and_health_still_answers(start):
    server = start("--max-connections", "20")
    idle = [server.connect() for _ in range(25)]
    server.wait(lambda h: h["connections"] > 24)
    answer = server.post("/v1/completions", BODY)
    assert answer.status == 503 and answer.error()["code"] == "too_many_connections"
    server.health()
    for sock in idle:
        sock.close()
    server.wait(lambda h: h["connections"] == 1)
    assert server.post("/v1/completions", BODY).status == 200


@pytest.mark.parametrize("flags, says", [
    (["--context-length", "1"], "--context-length 1"), (["--max-total-tokens", "1"], "--max-total-tokens"),
    (["--max-connections", "0"], "--max-connections"), (["--receive-timeout", "0"], "--receive-timeout"),
    (["--page-size", "65536"], "--page-size"), (["--served-model-name", ""], "--served-model-name"),
    (["--served-model-name", b"\xff"], "--served-model-name"),
])
def test_silly_sizes_are_one_clear_line(flags, says):
    done = subprocess.run([find_program(), "serve", MODEL, "--port", "0", "--log-level", "error", *flags],
                          capture_output=True, text=True, timeout=60)
    lines = done.stderr.splitlines()
    assert done.returncode in (1, 2) and says in lines[-1] and lines[-1].startswith("radish: "), done.stderr


def test_a_context_of_a_few_tokens_is_served(start):
    server = start("--context-length", "4")
    answer = server.post("/generate", {"input_ids": [5, 6, 7]}).json()
    assert answer["meta_info"]["finish_reason"] == {"type": "length", "length": 1}
    assert server.post("/generate", {"input_ids": [5, 6, 7, 8]}).error()["code"] == "context_length_exceeded"


# ---- keys ----


def test_keys_come_in_either_header_and_appear_nowhere(start):
    secret = "s3cret-of-nobody"
    server = start("--api-key", secret, "--log-level", "debug")
    for headers, status in (
        ([("Authorization", f"Bearer {secret}")], 200), ([("X-Api-Key", secret)], 200),
        ([("Authorization", "Basic abc"), ("X-Api-Key", secret)], 200), ([], 401),
        ([("X-Api-Key", secret[:-1])], 401), ([("X-Api-Key", "Bearer " + secret)], 401),
        ([("Authorization", secret)], 401), ([("X-Api-Key", "")], 401),
    ):
        assert server.request("GET", "/v1/models", headers=headers).status == status, headers
    wrong = server.post("/v1/completions", BODY, [("X-Api-Key", secret + "x")])
    assert secret not in wrong.body.decode() and secret not in server.log()
    for path in ("/health", "/radix", "/get_server_info", "/server_info", "/metrics"):
        assert secret not in server.request("GET", path, headers=[("X-Api-Key", secret)]).body.decode()


def test_what_one_key_cached_another_cannot_measure(start):
    prompt = {"prompt": "a prompt that is long enough to be worth a cache of its own", "max_tokens": 1}

    def cached(server, key):
        usage = server.post("/v1/completions", prompt, [("X-Api-Key", key)]).json()["usage"]
        return usage["prompt_tokens_details"]["cached_tokens"]

    flags = ["--api-key", "alpha", "--api-key", "beta"]
    isolated, shared = start(*flags), start(*flags, "--isolate-keys", "off")
    for server in (isolated, shared):
        assert cached(server, "alpha") == 0
        assert cached(server, "alpha") > 10
    assert cached(isolated, "beta") == 0, "the other's prompt leaves no trace"
    assert cached(shared, "beta") > 10
    for salt in ({"cache_salt": "alpha"}, {"extra_key": "alpha"}):
        answer = isolated.post("/v1/completions", prompt | salt, [("X-Api-Key", "beta")])
        assert answer.json()["usage"]["prompt_tokens_details"]["cached_tokens"] == 0
