"""KV events as their subscribers get them: the bytes, the numbers, replay, and a mirror of the prefix tree made of nothing
but events, which must say what GET /radix says.

The structs are those that SGLang's and vLLM's subscribers decode with, in the versions there have been: a batch must be read
by all of them. RADISH_TEST_LONG=1 sends ten times the load.
"""
import concurrent.futures
import hashlib
import json
import os
import random
import re
import socket
import subprocess
import time
from typing import Any, Optional, Union

import msgspec
import pytest
import zmq

from conftest import DEADLINE, MODEL, find_program

LOAD = 10 if os.environ.get("RADISH_TEST_LONG") else 1


class Event(msgspec.Struct, array_like=True, omit_defaults=True, gc=False, tag=True):
    pass


class BlockStored(Event):
    block_hashes: list[int]
    parent_block_hash: Optional[int]
    token_ids: list[int]
    block_size: int
    lora_id: Optional[int]


class BlockRemoved(Event):
    block_hashes: list[int]


class AllBlocksCleared(Event):
    pass


class Batch(msgspec.Struct, array_like=True, omit_defaults=True, gc=False):
    ts: float
    events: list[Union[BlockStored, BlockRemoved, AllBlocksCleared]]


class LaterStored(Event, tag="BlockStored"):
    block_hashes: list[int]
    parent_block_hash: Optional[int]
    token_ids: list[int]
    block_size: int
    lora_id: Optional[int]
    medium: Optional[str] = None
    lora_name: Optional[str] = None


class LaterRemoved(Event, tag="BlockRemoved"):
    block_hashes: list[int]
    medium: Optional[str] = None


class LaterBatch(msgspec.Struct, array_like=True, omit_defaults=True, gc=False):
    ts: float
    events: list[Union[LaterStored, LaterRemoved, AllBlocksCleared]]
    data_parallel_rank: Optional[int] = None


END = (-1).to_bytes(8, "big", signed=True)
TO_BYTES = msgspec.msgpack.Encoder()
FROM_BYTES = msgspec.msgpack.Decoder(Batch)
LATER_FROM_BYTES = msgspec.msgpack.Decoder(LaterBatch)


def digest_of(before, tokens):
    """The digest of a page, and the number it goes by."""
    digest = hashlib.sha256(before + b"".join(token.to_bytes(4, "little") for token in tokens)).digest()
    return digest, int.from_bytes(digest[:8], "big", signed=True)


class Mirror:
    """What is cached, as far as events tell; and how they were told."""

    def __init__(self, page_size):
        self.page_size = page_size
        self.pages = {}  # hash: (parent, children, tokens)
        self.n_stored = self.n_removed = self.n_cleared = 0
        self.next = None

    def take(self, seq, payload):
        assert self.next in (None, seq), f"{seq} follows {self.next}"
        self.next = seq + 1
        batch = FROM_BYTES.decode(payload)
        assert TO_BYTES.encode(batch) == payload, "msgspec writes other bytes"
        assert batch.events and abs(batch.ts - time.time()) < DEADLINE
        if seq == 0:
            assert isinstance(batch.events[0], AllBlocksCleared)
        for event in batch.events:
            self.apply(event)
        later = LATER_FROM_BYTES.decode(payload)
        assert len(later.events) == len(batch.events) and later.data_parallel_rank is None

    def apply(self, event):
        if isinstance(event, AllBlocksCleared):
            self.pages.clear()
            self.n_cleared += 1
        elif isinstance(event, BlockRemoved):
            assert event.block_hashes
            for one in event.block_hashes:
                parent, children, _ = self.pages.pop(one)
                assert children == 0, "a page went before those behind it"
                if parent is not None:
                    self.pages[parent][1] -= 1
                self.n_removed += 1
        else:
            (one,) = event.block_hashes
            assert one not in self.pages
            assert len(event.token_ids) == event.block_size == self.page_size and event.lora_id is None
            if event.parent_block_hash is not None:
                self.pages[event.parent_block_hash][1] += 1
            self.pages[one] = [event.parent_block_hash, 0, event.token_ids]
            self.n_stored += 1

    def has_prefix(self, tokens, seed=b""):
        """How many of these tokens are cached: hashes computed here, not taken from the server."""
        before, n = seed, 0
        while n + self.page_size <= len(tokens):
            before, name = digest_of(before, tokens[n : n + self.page_size])
            if name not in self.pages:
                break
            n += self.page_size
        return n


class Subscriber:
    def __init__(self, endpoint, topic=""):
        self.context = zmq.Context()
        self.socket = self.context.socket(zmq.SUB)
        self.socket.set_hwm(0)
        self.socket.subscribe(topic)
        self.socket.connect(endpoint)
        self.topic = topic

    def batches(self, seconds):
        """Those that come until nothing has come for so long."""
        while self.socket.poll(int(seconds * 1000)):
            frames = self.socket.recv_multipart()
            assert len(frames) == 3 and frames[0] == self.topic.encode() and len(frames[1]) == 8
            yield int.from_bytes(frames[1], "big"), frames[2]

    def close(self):
        self.socket.close(linger=0)
        self.context.term()


def replay(endpoint, start):
    """All that is kept from `start` on, as the subscribers of other servers ask for it."""
    context = zmq.Context()
    asking = context.socket(zmq.DEALER)
    asking.set_hwm(0)
    asking.connect(endpoint)
    asking.send_multipart((b"", start.to_bytes(8, "big")))
    got = []
    while True:
        assert asking.poll(DEADLINE * 1000), "no answer"
        empty, seq, payload = asking.recv_multipart()
        assert empty == b""
        if seq == END:
            assert payload == b""
            break
        got.append((int.from_bytes(seq, "big"), payload))
    asking.close(linger=0)
    context.term()
    return got


def free_ports(n):
    held = [socket.create_server(("127.0.0.1", 0)) for _ in range(n)]
    ports = [one.getsockname()[1] for one in held]
    for one in held:
        one.close()
    return ports


def config(tmp_path, **more):
    return {
        "publisher": "zmq",
        "endpoint": f"ipc://{tmp_path}/pub",
        "replay_endpoint": f"ipc://{tmp_path}/replay",
        **more,
    }


def ask(server, prompt, n_new=4, **more):
    answer = server.post("/v1/completions", {"prompt": prompt, "max_tokens": n_new, "temperature": 0, "ignore_eos": True, **more})
    assert answer.status == 200, answer.body
    return answer.json()


def cached_now(server):
    answer = server.request("GET", "/radix")
    assert answer.status == 200
    return answer.json()["tokens"]["cached"]


def prompts_of(seed, n):
    """Prompts that share beginnings, as trees do."""
    chance = random.Random(seed)
    stems = [[chance.randrange(3, 500) for _ in range(chance.randrange(20, 120))] for _ in range(6)]
    for _ in range(n):
        stem = chance.choice(stems)
        yield stem[: chance.randrange(1, len(stem))] + [chance.randrange(3, 500) for _ in range(chance.randrange(1, 40))]


@pytest.mark.parametrize("page_size", [1, 4])
def test_a_mirror_made_of_events_equals_the_tree(start, tmp_path, page_size):
    seed = random.randrange(1 << 30)
    print("seed", seed)
    wanted = config(tmp_path, topic="kv-events")
    server = start(
        "--max-total-tokens", "600", "--context-length", "256", "--page-size", str(page_size), "--kv-events-config", json.dumps(wanted)
    )
    subscriber = Subscriber(wanted["endpoint"], "kv-events")
    mirror = Mirror(page_size)
    chance = random.Random(seed)
    last = b""

    def one(prompt):
        more = {"cache_salt": "a"} if sum(prompt) % 3 == 0 else {}
        ask(server, prompt, n_new=1 + sum(prompt) % 9, **more)

    with concurrent.futures.ThreadPoolExecutor(4) as pool:
        list(pool.map(one, prompts_of(seed, 60 * LOAD)))
    prompt = [chance.randrange(3, 500) for _ in range(41)]
    ask(server, prompt, n_new=1)
    ask(server, prompt, n_new=1, extra_key="team-a")
    # The server's name of a namespace: tag, length, bytes for each field.
    name = b"e" + len("team-a").to_bytes(4, "little") + b"team-a"
    # An answer may arrive before the events of its last step.
    for _ in range(100):
        for seq, payload in replay(wanted["replay_endpoint"], mirror.next or 0):
            mirror.take(seq, payload)
            last = payload
        if mirror.has_prefix(prompt, hashlib.sha256(name).digest()) >= 40:
            break
        time.sleep(0.05)
    assert mirror.n_removed > 200, "the pool was not too small"
    assert len(mirror.pages) * page_size == cached_now(server)
    assert mirror.has_prefix(prompt) >= 40
    assert mirror.has_prefix(prompt, hashlib.sha256(name).digest()) >= 40
    assert mirror.has_prefix(prompt, hashlib.sha256(b"team-a").digest()) == 0

    published = list(subscriber.batches(0.3))
    assert published and published[-1] == (mirror.next - 1, last)
    assert [seq for seq, _ in published] == list(range(published[0][0], mirror.next))
    if server.post("/flush_cache", b"").status == 200:
        (flushed,) = list(subscriber.batches(0.5))
        mirror.take(*flushed)
        assert not mirror.pages and mirror.n_cleared == 2 and cached_now(server) == 0
    subscriber.close()
    assert server.stop() == 0


def test_what_was_missed_can_be_had_again(start, tmp_path):
    wanted = config(tmp_path, buffer_steps=20)
    server = start("--max-total-tokens", "4000", "--context-length", "512", "--kv-events-config", json.dumps(wanted))
    prompt = list(range(3, 60))
    ask(server, prompt, n_new=30)  # nobody has subscribed yet
    subscriber = Subscriber(wanted["endpoint"])
    arrived = []
    while not arrived:
        ask(server, [random.randrange(3, 500) for _ in range(8)], n_new=2)
        arrived = list(subscriber.batches(0.1))
    first = arrived[0][0]
    assert first > 20

    missed = replay(wanted["replay_endpoint"], first - 15)

    assert [seq for seq, _ in missed][:15] == list(range(first - 15, first))
    assert dict(missed).items() >= dict(arrived).items()
    assert len(replay(wanted["replay_endpoint"], 0)) == 20
    subscriber.close()


def test_a_subscriber_over_tcp_gets_every_batch_of_a_busy_server(start):
    pub, router = free_ports(2)
    wanted = {"publisher": "zmq", "endpoint": f"tcp://*:{pub}", "replay_endpoint": f"tcp://*:{router}"}
    server = start("--max-total-tokens", "3000", "--context-length", "512", "--kv-events-config", json.dumps(wanted))
    subscriber = Subscriber(f"tcp://127.0.0.1:{pub}")
    time.sleep(0.3)
    with concurrent.futures.ThreadPoolExecutor(8) as pool:
        list(pool.map(lambda prompt: ask(server, prompt, n_new=20), prompts_of(7, 40 * LOAD)))
    live = list(subscriber.batches(0.5))
    numbers = [seq for seq, _ in live]
    assert numbers == list(range(numbers[0], numbers[-1] + 1)) and len(numbers) > 40

    mirror = Mirror(1)
    for seq, payload in replay(f"tcp://127.0.0.1:{router}", 0)[: numbers[0]]:
        mirror.take(seq, payload)
    for seq, payload in live:
        mirror.take(seq, payload)
    assert len(mirror.pages) == cached_now(server)

    refused = run_serve({**wanted, "replay_endpoint": None})
    assert refused.returncode == 1
    assert re.search(rf"--kv-events-config: endpoint: cannot bind tcp://\*:{pub}: Address already in use", refused.stderr)
    subscriber.close()
    assert server.stop() == 0


def run_serve(wanted, *flags):
    text = wanted if isinstance(wanted, str) else json.dumps(wanted)
    return subprocess.run(
        [find_program(), "serve", MODEL, "--port", "0", "--kv-events-config", text, *flags], capture_output=True, text=True, timeout=DEADLINE
    )


@pytest.mark.parametrize(
    "wanted, said",
    [
        ("zmq", "not JSON"),
        ({"publisher": "zmq", "reply_endpoint": "tcp://*:1"}, "unknown key 'reply_endpoint'"),
        ({"publisher": "kafka"}, 'publisher must be "zmq" or "null", not "kafka"'),
        ({"publisher": "zmq", "buffer_steps": -1}, "buffer_steps must be an integer from 1"),
        ({"publisher": "zmq", "endpoint": "carrier-pigeon://*"}, "endpoint: cannot bind carrier-pigeon://*"),
    ],
)
def test_a_wrong_configuration_is_refused_before_anything_is_loaded(wanted, said):
    refused = run_serve(wanted)

    assert refused.returncode == 2
    assert said in refused.stderr and len(refused.stderr.splitlines()) == 1


def test_events_without_a_cache_are_refused(tmp_path):
    refused = run_serve(config(tmp_path), "--disable-radix-cache")

    assert refused.returncode != 0 and "--disable-radix-cache" in refused.stderr


def test_a_server_that_nobody_listens_to_stops_at_once(start, tmp_path):
    server = start("--kv-events-config", json.dumps({"publisher": "zmq", "endpoint": "tcp://127.0.0.1:9", "max_queue_size": 5}))
    ask(server, list(range(3, 40)), n_new=30)

    begun = time.monotonic()
    assert server.stop() == 0
    assert time.monotonic() - begun < 10
