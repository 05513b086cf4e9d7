"""/tokenize, /detokenize and /apply-template with a real tokenizer, and while the server is busy."""
import json
import threading
import time
import urllib.request

import pytest

from conftest import read_all, stream_events

CHAT = [{"role": "user", "content": "Hello"}]
TEXTS = [
    "Hello world",
    "",
    " leading and trailing ",
    "naïve café — 数据 🙂👩‍👩‍👧 \u200b\ufeff",
    "tabs\tand\nlines\r\n\n\n",
    "<|im_start|>user\n<|im_end|>",
    "\x00\x01\x7f",
    "e\u0301 vs é",
    "1234567890" * 10,
    " " * 100,
]


def post(server, path, **body):
    answer = server.post(path, body)
    assert answer.status == 200, answer.body
    return answer.json()


@pytest.mark.parametrize("path", ["/tokenize", "/v1/tokenize"])
def test_what_is_tokenized_comes_back(server, path):
    batch = post(server, path, content=TEXTS)
    for text, ids, count in zip(TEXTS, batch["tokens"], batch["count"]):
        assert count == len(ids)
        assert post(server, path, content=text)["tokens"] == ids
        assert post(server, "/detokenize", tokens=ids)["content"] == text
    assert post(server, "/detokenize", tokens=batch["tokens"])["prompt"] == TEXTS
    skipped = post(server, "/v1/detokenize", tokens=batch["tokens"])["text"]
    assert skipped[5] == "user\n" and skipped[0] == TEXTS[0]


def test_pieces_put_together_are_the_text(server):
    for text in TEXTS:
        got = b""
        for token in post(server, "/tokenize", content=text, with_pieces=True)["tokens"]:
            piece = token["piece"]
            got += piece.encode() if isinstance(piece, str) else bytes(piece)
        assert got.decode() == text


def test_token_strings_are_the_vocabularys(server):
    got = post(server, "/tokenize", prompt=" naïve\n", return_token_strs=True)
    assert "".join(got["token_strs"]) == "ĠnaÃ¯veĊ"
    assert len(got["token_strs"]) == got["count"] == len(got["tokens"])


def test_counts_are_those_of_usage(server):
    client = server.client()
    done = client.completions.create(model="any", prompt=TEXTS[3], max_tokens=1)
    assert post(server, "/tokenize", prompt=TEXTS[3])["count"] == done.usage.prompt_tokens
    tools = [{"type": "function", "function": {"name": "f", "parameters": {}}}]
    chat = client.chat.completions.create(model="any", messages=CHAT, tools=tools, max_tokens=1)
    asked = post(server, "/tokenize", messages=CHAT, tools=tools)
    assert asked["count"] == chat.usage.prompt_tokens
    assert asked["max_model_len"] == client.models.list().data[0].max_model_len


def test_the_template_of_a_chat_tokenized_is_the_chat(server):
    prompt = post(server, "/apply-template", messages=CHAT)["prompt"]
    assert prompt == "<|im_start|>user\nHello<|im_end|>\n<|im_start|>assistant\n"
    assert post(server, "/tokenize", content=prompt)["tokens"] == post(
        server, "/tokenize", messages=CHAT)["tokens"]


def test_a_plain_http_client(server):
    request = urllib.request.Request(
        server.url + "/tokenize", json.dumps({"content": "Hello"}).encode(),
        {"Content-Type": "application/json"})
    with urllib.request.urlopen(request) as answer:
        assert json.load(answer)["count"] > 0


def test_text_that_is_no_unicode(server):
    for body in (b'{"prompt":"\\ud800"}', b'{"prompt":"\\udc00\\ud800"}', b'{"prompt":"\xff"}',
                 b'{"prompt":"\xed\xa0\x80"}', b'{"prompt":"\xc0\x80"}'):
        assert server.request("POST", "/tokenize", body).status == 400


def test_ids_that_are_none(server):
    for tokens in ([512], [-1], [2**31], [2**64], [1.0], ["1"], [None], [[512]], {"0": 1}):
        answer = server.post("/detokenize", {"tokens": tokens})
        assert answer.status == 400, tokens
        assert answer.error()["param"] == "tokens"


def test_streams_go_on_beside_a_large_text(server):
    """Large bodies are worked on by threads that no stream needs."""
    streams = [
        server.start_post("/v1/completions", {"prompt": "a", "stream": True, "ignore_eos": True,
                                              "max_tokens": 400, "seed": i}) for i in range(4)
    ]
    text = "the quick brown fox " * 50_000
    counts = {}
    worker = threading.Thread(
        target=lambda: counts.update(post(server, "/tokenize", content=text)), daemon=True)
    waits = []
    began = time.monotonic()
    worker.start()
    while worker.is_alive():
        asked = time.monotonic()
        assert server.health()["status"] == "ok"
        waits.append(time.monotonic() - asked)
    assert counts["count"] == len(counts["tokens"]) > 50_000
    assert max(waits) < (time.monotonic() - began) / 2, waits
    for sock in streams:
        events, is_done = stream_events(read_all(sock).partition(b"\r\n\r\n")[2])
        assert is_done and events[-1]["choices"][0]["finish_reason"] == "length"
        sock.close()
