"""A hunt for answers that depend on what else the server does; by hand, for as long as you like.

    RADISH_BIN=build/release/radish RADISH_HUNT_SECONDS=600 nice -n 19 python tests/server/hunt_determinism.py

A round takes one tiny model and asks a set of random requests twice: one after the other of a server
that has no cache, a large pool and computes each prompt in one step; then all together of a server
with random flags and a pool of some hundred slots, in which prompts are shared, chunked, evicted,
sent back and aborted. Tokens, logprobs, texts and ends must be the same bit for bit. The first
argument, if any, is the seed of the first round; each round prints its own, and that seed alone
repeats the round.
"""
import http.client
import json
import os
import random
import sys
import threading
import time

from conftest import ROOT, Server

MODELS = os.environ.get("RADISH_CONFORMANCE", os.path.join(ROOT, "../shared/conformance"))
N_VOCAB = 512
REFUSED = {"deepseek_v3", "gpt_oss", "lfm2", "mixtral", "qwen3_5", "qwen3_moe", "qwen3_next"}


def post(server, path, body):
    conn = http.client.HTTPConnection("127.0.0.1", server.port, timeout=120)
    try:
        conn.request("POST", path, json.dumps(body), {"Content-Type": "application/json"})
        answer = conn.getresponse()
        return answer.status, answer.read()
    finally:
        conn.close()


def leave_early(server, body, seconds):
    """A client that goes away; its answer is nobody's."""
    conn = http.client.HTTPConnection("127.0.0.1", server.port, timeout=120)
    conn.request("POST", "/generate", json.dumps(body), {"Content-Type": "application/json"})
    time.sleep(seconds)
    conn.close()


class Round:
    def __init__(self, seed):
        self.seed = seed
        self.rng = random.Random(seed)
        names = [n for n in sorted(os.listdir(os.path.join(MODELS, "models"))) if n not in REFUSED]
        files = [n for n in sorted(os.listdir(os.path.join(MODELS, "gguf"))) if n.endswith(".gguf")]
        name = self.rng.choice(names + files)
        self.model = os.path.join(MODELS, "gguf" if name in files else "models", name)
        self.is_long = self.rng.random() < 0.15  # several segments of 1,024 positions
        self.pool = self.rng.randint(2100, 3500) if self.is_long else self.rng.randint(320, 600)
        self.room = 1800 if self.is_long else self.pool - 190
        self.trunks = [self.ids(self.rng.randint(1, 1500 if self.is_long else self.pool // 3)) for _ in range(4)]

    def ids(self, n):
        return [self.rng.randrange(3, N_VOCAB - 12) for _ in range(n)]

    def pick(self, *options):
        return self.rng.choice(options)

    def bits(self):
        """Flags that choose the bits: the same for both servers."""
        flags = ["--precision", self.pick("fast", "fast", "exact")]
        flags += ["--context-length", "2000"] if self.is_long else []
        if self.rng.random() < 0.3:
            flags += ["--kv-cache-dtype", self.pick("f32", "f16", "bf16")]
        if self.rng.random() < 0.15 and not self.model.endswith(".gguf"):
            flags += ["--quantization", self.pick("q8_0", "q4_0", "q4_1")]
        return flags + ["--log-level", "warn" if self.rng.random() < 0.5 else "info"]

    def stress(self):
        page = self.pick(1, 1, 1, 2, 4, 16)
        flags = ["--max-total-tokens", str(self.pool // page * page + page), "--page-size", str(page)]
        flags += ["--chunked-prefill-size", str(max(page, self.pick(1, 2, 3, 7, 16, 33, 64, 512)))]
        flags += ["--threads", str(self.pick(1, 2, 3, 5))]
        flags += ["--max-running-requests", str(self.pick(1, 2, 5, 16, 64, 256, 256))]
        flags += ["--schedule-policy", self.pick("lpm", "fcfs", "dfs-weight", "lof", "random", "hrrn")]
        flags += ["--radix-eviction-policy",
                  self.pick("lru", "lfu", "fifo", "mru", "filo", "slru", "priority")]
        flags += ["--schedule-conservativeness", self.pick("0.01", "0.05", "1")]
        flags += ["--max-stall-ms", self.pick("0", "1", "250")]
        for flag, odds in [("--enable-priority-scheduling", 0.4), ("--disable-overlap-schedule", 0.3),
                           ("--disable-radix-cache", 0.1), ("--explain-miss", 0.2)]:
            flags += [flag] if self.rng.random() < odds else []
        shadows = self.rng.random() < 0.4 and "--disable-radix-cache" not in flags
        return flags + (["--shadow-check", "2"] if shadows else [])

    def prompt(self):
        trunk = self.pick(*self.trunks)
        cut = self.pick(len(trunk), len(trunk), self.rng.randint(1, len(trunk)))
        return (trunk[:cut] + self.ids(self.pick(0, 0, 1, 5, self.rng.randint(0, 60))))[: self.room]

    def request(self):
        rng = self.rng
        sampling = {"max_new_tokens": self.pick(0, 1, 2, 9, rng.randint(1, 170), rng.randint(60, 170)), "sampling_seed": rng.randrange(1 << 32)}
        sampling["temperature"] = self.pick(0, 0, 0.7, 1.3)
        for name, values in [("top_p", [0.5, 0.9]), ("top_k", [1, 5, 40]), ("min_p", [0.02]),
                             ("repetition_penalty", [1.2, 0.8]), ("presence_penalty", [1.5, -1]),
                             ("frequency_penalty", [0.5]), ("ignore_eos", [True]),
                             ("stop", [["e"], [" t", "ab"], "\n"]),
                             ("stop_token_ids", [[7, 90, 200]]), ("n", [2, 5]),
                             ("skip_special_tokens", [False]),
                             ("logit_bias", [{"17": 5, "400": -100}])]:
            if rng.random() < 0.15:
                sampling[name] = self.pick(*values)
        body = {"input_ids": self.prompt(), "sampling_params": sampling, "return_logprob": rng.random() < 0.7}
        if body["return_logprob"]:
            body["logprob_start_len"] = self.pick(-1, -1, -1, 0, len(body["input_ids"]) // 2)
            body["top_logprobs_num"] = self.pick(0, 0, 3)
        return body

    def run(self):
        bits, stress = self.bits(), self.stress()
        bodies = [self.request() for _ in range(self.rng.randint(10, 45))]
        print(f"seed {self.seed}: {os.path.basename(self.model)} {' '.join(bits + stress)}, {len(bodies)} requests", flush=True)
        plain = Server("--disable-radix-cache", "--max-running-requests", "256", "--threads", "1",
                       "--max-total-tokens", "4096", "--chunked-prefill-size", "4096", *bits, model=self.model)
        try:
            expected = [self.answer(plain, body) for body in bodies]
        finally:
            plain.stop()
        server = Server(*stress, *bits, model=self.model)
        try:
            return self.compare(server, bodies, expected)
        finally:
            code = server.stop()
            assert code == 0, f"exit status {code}:\n{server.log()[-3000:]}"

    def answer(self, server, body):
        status, raw = post(server, "/generate", body)
        if status != 200:
            return status, json.loads(raw)["error"]["message"]
        results = json.loads(raw)
        kept = []
        for one in results if isinstance(results, list) else [results]:
            meta = {k: v for k, v in one["meta_info"].items()
                    if k not in ("id", "cached_tokens", "e2e_latency", "total_retractions")}
            kept.append((one["text"], one["output_ids"], meta))
            self.retractions = getattr(self, "retractions", 0) + one["meta_info"]["total_retractions"]
            self.cached = getattr(self, "cached", 0) + one["meta_info"]["cached_tokens"]
        return status, kept

    def compare(self, server, bodies, expected):
        self.retractions = self.cached = 0
        order = list(range(len(bodies))) * 2
        self.rng.shuffle(order)
        wrong, work = [], iter(order)
        lock = threading.Lock()
        rng = random.Random(self.seed + 1)

        def client():
            while True:
                with lock:
                    at = next(work, None)
                    pause, chance, priority = rng.random() * 0.02, rng.random(), rng.choice([0, 0, 5, 50])
                if at is None:
                    return
                time.sleep(pause)
                if chance < 0.15:
                    leave_early(server, bodies[at], pause)
                got = self.answer(server, {**bodies[at], "priority": priority})
                if got != expected[at]:
                    with lock:
                        wrong.append((at, got))

        clients = [threading.Thread(target=client) for _ in range(rng.choice([2, 12, 24, 48]))]
        for one in clients:
            one.start()
        for one in clients:
            one.join()
        health = server.wait_idle()
        assert health["kv_slots_pinned"] == health["kv_slots_private"] == 0, health
        info = server.request("GET", "/radix").json()
        if info.get("enabled"):
            assert info["shadow_failures"] == 0, info
        for at, got in wrong[:3]:
            print("DIFFERENT", json.dumps(bodies[at]), "\n expected", expected[at], "\n got     ", got, flush=True)
        print(f"   {len(order)} answers, {len(wrong)} different, {self.cached} cached, {self.retractions} sent back", flush=True)
        return not wrong


def main():
    seed = int(sys.argv[1]) if len(sys.argv) > 1 else random.SystemRandom().randrange(1 << 30)
    end = time.monotonic() + float(os.environ.get("RADISH_HUNT_SECONDS", "60"))
    failed = []
    while True:
        if not Round(seed).run():
            failed.append(seed)
        seed += 1
        if time.monotonic() > end:
            break
    print("seeds with differences:", failed)
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
