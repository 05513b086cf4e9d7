"""Clients that leave, in every phase: everything they held comes back, others go on."""
import json
import socket
import struct
import time

import pytest

from conftest import read_until

LONG = {"prompt": "Hello", "max_tokens": 480, "ignore_eos": True, "n": 8}


def by_fin(sock):
    sock.close()


def by_reset(sock):
    sock.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
    sock.close()


def by_half_close(sock):
    sock.shutdown(socket.SHUT_WR)


WAYS = [by_fin, by_reset, by_half_close]


def check_abort(server, sock, leave):
    begin = time.monotonic()
    leave(sock)
    server.wait_idle(20)
    return time.monotonic() - begin


@pytest.mark.parametrize("leave", WAYS)
def test_while_streaming(server, leave):
    server.wait_idle()
    sock = server.start_post("/v1/completions", {**LONG, "stream": True})
    read_until(sock, b"data: ")
    server.wait(lambda h: h["kv_slots_free"] < h["kv_slots_total"])
    check_abort(server, sock, leave)


@pytest.mark.parametrize("leave", WAYS)
def test_while_computing_a_whole_reply(server, leave):
    server.wait_idle()
    sock = server.start_post("/v1/completions", LONG)
    server.wait(lambda h: h["requests_running"] > 0)
    check_abort(server, sock, leave)


@pytest.mark.parametrize("leave", WAYS)
def test_in_the_queue_and_during_prefill(start, leave):
    server = start("--max-running-requests", "1", "--chunked-prefill-size", "1")
    busy = server.start_post("/v1/completions", {**LONG, "n": 1, "stream": True})
    read_until(busy, b"data: ")
    queued = server.start_post("/v1/completions", {**LONG, "n": 1})
    server.wait(lambda h: h["requests_queued"] == 1)
    leave(queued)
    server.wait(lambda h: h["requests_queued"] == 0)
    assert server.health()["requests_running"] == 1, "the other goes on"
    check_abort(server, busy, leave)

    prefill = server.start_post("/v1/completions", {"prompt": [[5] * 480] * 4, "stream": True})
    server.wait(lambda h: h["requests_running"] > 0)
    check_abort(server, prefill, leave)


@pytest.mark.parametrize("leave", WAYS)
def test_in_the_middle_of_a_body(server, leave):
    sock = server.connect()
    sock.sendall(b"POST /v1/completions HTTP/1.1\r\nHost: x\r\nContent-Length: 500\r\n\r\n{")
    leave(sock)
    server.wait_idle()


def test_storm_of_leaving_clients_leaves_the_others_alone(server):
    server.wait_idle()
    small = {"prompt": "Hello", "max_tokens": 12, "temperature": 0, "ignore_eos": True}
    want = server.post("/v1/completions", small).json()["choices"][0]["text"]
    staying, leaving = [], []
    for i in range(30):
        leaving.append(server.start_post("/v1/completions", {**LONG, "n": 2, "stream": i % 2 == 0}))
        if i % 3 == 0:
            staying.append(server.start_post("/v1/completions", small))
    for i, sock in enumerate(leaving):
        WAYS[i % 2](sock)
    for sock in staying:
        got = read_until(sock, b"cached_tokens")
        body = got.partition(b"\r\n\r\n")[2]
        while True:
            piece = sock.recv(65536)
            if not piece:
                break
            body += piece
        assert json.loads(body)["choices"][0]["text"] == want
        sock.close()
    server.wait_idle()


def test_a_client_that_never_reads_does_not_block_the_others(server):
    sock = server.connect()
    body = json.dumps({**LONG, "n": 16, "stream": True, "logprobs": 20}).encode()
    sock.sendall(
        b"POST /v1/completions HTTP/1.1\r\nHost: x\r\nContent-Length: %d\r\n\r\n" % len(body) + body
    )
    server.wait(lambda h: h["requests_running"] > 0)
    begin = time.monotonic()
    answer = server.post("/v1/completions", {"prompt": "a", "max_tokens": 2})
    assert answer.status == 200 and time.monotonic() - begin < 10
    sock.close()
    server.wait_idle()
