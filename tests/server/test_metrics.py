"""GET /metrics and the log's lines: what was done is what they say, in the form that tools read.

Names that begin with a letter and a number are cases of the list of what users of other servers suffered.
"""
import concurrent.futures
import random
import re
import shutil
import subprocess
import threading
import time

import pytest

from conftest import DEADLINE, Server, read_all, read_until

LABELS = re.compile(r'(\w+)="((?:[^"\\]|\\.)*)"')
SAMPLE = re.compile(r"([a-zA-Z_:][a-zA-Z0-9_:]*)(?:\{(.*)\})? (-?[0-9.e+-]+)")
LOG_TIME = r"\[\d{4}-\d\d-\d\d \d\d:\d\d:\d\d\] "
PREFILL_LINE = re.compile(
    LOG_TIME + r"Prefill batch, #new-seq: (\d+), #new-token: (\d+), #cached-token: (\d+), token usage: (\d\.\d\d), "
    r"#running-req: (\d+), #queue-req: (\d+), cuda graph: False, input throughput \(token/s\): (\d+\.\d\d)\n"
)
DECODE_LINE = re.compile(
    LOG_TIME + r"Decode batch, #running-req: (\d+), #token: (\d+), token usage: (\d\.\d\d), cuda graph: False, "
    r"gen throughput \(token/s\): (\d+\.\d\d), #queue-req: (\d+)\n"
)
START_LINE = re.compile(
    LOG_TIME + r"max_total_num_tokens=(\d+), chunked_prefill_size=(\d+), max_prefill_tokens=(\d+), "
    r"max_running_requests=(\d+), context_len=(\d+), available_gpu_mem=\d+\.\d\d GB\n"
)


@pytest.fixture(scope="module")
def server():
    started = Server("--max-total-tokens", "40000", "--context-length", "8192", "--decode-log-interval", "10")
    yield started
    assert started.stop() == 0


class Metrics:
    """One scrape: values by name and labels, with the model's name left out."""

    def __init__(self, text):
        self.text, self.values, self.types = text, {}, {}
        for line in text.splitlines():
            if line.startswith("# TYPE "):
                _, _, name, kind = line.split(" ")
                assert name not in self.types, name
                self.types[name] = kind
            if line.startswith("#"):
                continue
            found = SAMPLE.fullmatch(line)
            assert found, line
            labels = dict(LABELS.findall(found.group(2) or ""))
            assert labels.pop("model_name") == "llama", line
            key = (found.group(1), tuple(sorted(labels.items())))
            assert key not in self.values, line
            self.values[key] = float(found.group(3))

    def get(self, name, **labels):
        return self.values.get((name, tuple(sorted(labels.items()))), 0)

    def requests(self):
        return sum(self.get("sglang:num_requests_total", is_streaming=s) for s in ("true", "false"))


def scrape(server):
    answer = server.request("GET", "/metrics")
    assert answer.status == 200 and answer.headers["content-type"].startswith("text/plain; version=0.0.4")
    return Metrics(answer.body.decode())


def settle(server):
    """A scrape when nothing runs: figures are as of the last step."""
    until = time.monotonic() + DEADLINE
    while True:
        health = server.request("GET", "/health").json()
        if not health["requests_running"] and not health["requests_queued"]:
            return scrape(server)
        assert time.monotonic() < until
        time.sleep(0.01)


def ids(name, n):
    chance = random.Random(name)
    return [chance.randrange(3, 500) for _ in range(n)]


def complete(server, prompt, max_tokens, **more):
    asked = {"prompt": prompt, "max_tokens": max_tokens, "temperature": 0, "ignore_eos": True, **more}
    answer = server.post("/v1/completions", asked)
    assert answer.status == 200, answer.body
    return answer


def test_promtool_accepts_every_line(server):
    program = shutil.which("promtool")
    if not program:
        pytest.skip("promtool is not installed (Debian's package prometheus)")
    complete(server, ids("promtool", 30), 5)
    text = scrape(server).text
    run = subprocess.run([program, "check", "metrics"], input=text, capture_output=True, text=True, timeout=60)
    # SGLang's names have a colon, which promtool would keep for recording rules. It has no other complaint.
    others = [l for l in run.stderr.splitlines() if not l.endswith("metric names should not contain ':'")]
    assert not others and run.returncode in (0, 3), run.stderr
    assert subprocess.run([program, "check", "metrics"], input=text + "x{\n", capture_output=True, text=True).returncode == 1


def test_counters_move_by_what_was_done(server):
    prompt = ids("counters", 100)
    before = settle(server)
    complete(server, prompt, 6)
    complete(server, prompt, 6)
    stream = server.post("/v1/completions", {"prompt": prompt, "max_tokens": 4, "ignore_eos": True, "stream": True})
    assert stream.status == 200 and b"[DONE]" in stream.body
    complete(server, [ids("two", 20), ids("three", 20)], 3, n=2)
    assert server.post("/v1/completions", {"prompt": 5}).status == 400
    assert server.request("GET", "/nowhere/at/all").status == 404
    after = settle(server)

    def moved(name, **labels):
        return after.get(name, **labels) - before.get(name, **labels)

    assert moved("sglang:prompt_tokens_total") == 3 * 100 + 2 * 20
    assert moved("sglang:cached_tokens_total", cache_source="device") == 2 * 99
    assert moved("sglang:generation_tokens_total") == 6 + 6 + 4 + 4 * 3
    assert moved("radish:computed_tokens_total") == 100 + 1 + 1 + 20 + 20 + 5 + 5 + 3 + 4 * 2
    assert moved("sglang:num_requests_total", is_streaming="true") == 1
    assert moved("sglang:num_requests_total", is_streaming="false") == 4
    for name in ("e2e_request_latency", "time_to_first_token", "queue_time"):
        assert moved(f"sglang:{name}_seconds_count") == 5
    for stage in ("prefill_waiting", "prefill_forward", "decode_forward"):
        assert moved("sglang:per_stage_req_latency_seconds_count", stage=stage) == 5
    assert moved("sglang:inter_token_latency_seconds_count") == 5 + 5 + 3 + 4 * 2
    assert moved("radish:http_requests_total", endpoint="/v1/completions", code="200") == 4
    assert moved("radish:http_requests_total", endpoint="/v1/completions", code="400") == 1
    assert moved("radish:http_requests_total", endpoint="other", code="404") == 1
    assert "nowhere" not in after.text
    total = after.get("radish:kv_tokens")
    parts = ["sglang:kv_available_tokens", "sglang:kv_evictable_tokens", "radish:kv_pinned_tokens", "radish:kv_private_tokens"]
    assert sum(after.get(p) for p in parts) == total == 40000
    assert 0 < after.get("sglang:cache_hit_rate") < 1 and 0 < after.get("sglang:new_token_ratio") <= 1
    assert abs(after.get("process_start_time_seconds") - time.time()) < 3600


def test_histograms_add_up(server):
    complete(server, ids("histograms", 10), 8)
    metrics = settle(server)
    histograms = [n for n, kind in metrics.types.items() if kind == "histogram"]
    assert len(histograms) == 5
    for name in histograms:
        stages = [{"stage": s} for s in ("prefill_waiting", "prefill_forward", "decode_forward")]
        for labels in stages if "stage" in name else [{}]:
            counts = [v for (n, l), v in metrics.values.items() if n == name + "_bucket" and dict(l).items() >= labels.items()]
            assert counts == sorted(counts) and counts[-1] == metrics.get(name + "_count", **labels) > 0
            assert metrics.get(name + "_sum", **labels) > 0
    bounds = [dict(l)["le"] for (n, l) in metrics.values if n == "sglang:time_to_first_token_seconds_bucket"]
    assert bounds == "0.1 0.2 0.4 0.6 0.8 1 2 4 6 8 10 20 40 60 80 100 200 400 +Inf".split()


def test_a_client_that_leaves_counts_as_aborted(server):
    before = settle(server)
    asked = {"prompt": ids("leaves", 10), "max_tokens": 8000, "ignore_eos": True, "stream": True}
    with server.start_post("/v1/completions", asked) as sock:
        read_until(sock, b"data: ")
        while not (during := scrape(server)).get("sglang:num_running_reqs"):  # Figures are those of the last whole step.
            time.sleep(0.005)
        assert during.get("sglang:num_running_reqs") == 1 and during.get("sglang:num_used_tokens") > 0
    after = settle(server)
    assert after.get("sglang:num_aborted_requests_total") - before.get("sglang:num_aborted_requests_total") == 1
    assert after.requests() - before.requests() == 1
    assert after.get("sglang:num_running_reqs") == after.get("sglang:num_used_tokens") == 0


def test_a_retraction_is_counted_with_the_tokens_it_takes_back():
    server = Server("--max-total-tokens", "700", "--context-length", "512", "--schedule-conservativeness", "0.01")
    with concurrent.futures.ThreadPoolExecutor(8) as pool:
        list(pool.map(lambda i: complete(server, ids(f"tight {i}", 40), 150), range(8)))
    metrics = settle(server)
    assert server.stop() == 0
    n = metrics.get("sglang:num_retracted_requests_total")
    assert n > 0 and metrics.get("sglang:num_retracted_input_tokens_total") == 40 * n
    assert 0 < metrics.get("sglang:num_retracted_output_tokens_total") < 150 * n
    assert metrics.get("sglang:prompt_tokens_total") == 8 * 40  # each counts once, however often it is computed
    assert metrics.get("sglang:generation_tokens_total") == 8 * 150
    assert metrics.get("radish:computed_tokens_total") > 8 * (40 + 149)
    assert metrics.get("sglang:num_retracted_reqs") == 0
    lines = re.findall(r"Retract requests\. #retracted_reqs: (\d+), #new_tokens_gained: \d+, #new_token_ratio: "
                       r"\d\.\d{4} -> \d\.\d{4}\n", server.log())
    assert sum(map(int, lines)) == n


def test_a3_a_trunk_that_many_ask_for_at_once_is_computed_once():
    server = Server("--max-total-tokens", "20000", "--context-length", "4096")
    trunk, n = ids("trunk", 1000), 16
    gate = threading.Barrier(n)

    def one(i):
        gate.wait()
        complete(server, trunk + ids(f"branch {i}", 20), 1)

    with concurrent.futures.ThreadPoolExecutor(n) as pool:
        list(pool.map(one, range(n)))
    metrics = settle(server)
    assert server.stop() == 0
    assert metrics.get("sglang:prompt_tokens_total") == n * 1020
    assert metrics.get("radish:computed_tokens_total") <= 1000 + n * 20 + n
    assert metrics.get("sglang:cached_tokens_total", cache_source="device") >= (n - 1) * 1000
    assert metrics.get("radish:twin_waits_total") > 0
    assert metrics.get("radish:duplicate_tokens_total") == 0


def test_a26_the_hit_rate_is_in_log_metrics_and_usage_by_default():
    server = Server("--max-total-tokens", "4000")
    prompt = ids("hit rate", 200)
    complete(server, prompt, 2)
    usage = complete(server, prompt, 60).json()["usage"]
    metrics = settle(server)
    assert usage["prompt_tokens_details"]["cached_tokens"] == 199
    assert metrics.get("sglang:cached_tokens_total", cache_source="device") == 199
    assert metrics.get("sglang:cache_hit_rate") == pytest.approx(199 / 400)  # decodes do not reset it
    assert server.stop() == 0
    lines = [tuple(map(int, l[:3])) for l in PREFILL_LINE.findall(server.log())]
    assert lines == [(1, 200, 0), (1, 1, 199)]


def test_log_lines_are_spelt_as_tools_read_them(server):
    complete(server, ids("log", 50), 100)
    complete(server, ids("log", 50), 100)
    settle(server)
    log = server.log()
    assert START_LINE.search(log).groups() == ("40000", "512", "16384", "256", "8192")
    assert re.search(LOG_TIME + r"KV pool initialized: 40000 slots x \d+ layers\n", log)
    # No line that looks like one of these is spelt another way.
    assert len(PREFILL_LINE.findall(log)) == log.count("Prefill batch") > 0
    decodes = DECODE_LINE.findall(log)
    assert len(decodes) == log.count("Decode batch") >= 2 * 99 // 10
    assert all(int(running) > 0 and float(rate) > 0 for running, _, _, rate, _ in decodes)


def test_scraping_does_not_wait_for_what_runs(server):
    asked = {"prompt": ids("long", 2000), "max_tokens": 150, "ignore_eos": True, "stream": True}
    before, slowest, n = settle(server), 0, 0
    with server.start_post("/v1/completions", asked) as sock:
        reader = concurrent.futures.ThreadPoolExecutor(1).submit(read_all, sock)
        last = 0
        while not reader.done():
            begun = time.monotonic()
            metrics = scrape(server)
            slowest = max(slowest, time.monotonic() - begun)
            n += 1
            total = metrics.get("sglang:generation_tokens_total")
            assert total >= last
            last = total
    assert n > 3 and slowest < 5, (n, slowest)
    assert settle(server).get("sglang:generation_tokens_total") - before.get("sglang:generation_tokens_total") == 150


def test_head_and_a_flush_and_what_needs_no_key():
    server = Server("--max-total-tokens", "2000", "--api-key", "secret")
    head = server.request("HEAD", "/metrics")
    assert head.status == 200 and not head.body and int(head.headers["content-length"]) > 1000
    assert server.request("POST", "/metrics", b"").status == 405
    metrics = scrape(server)
    assert metrics.get("radish:http_requests_total", endpoint="/metrics", code="200") == 1
    build = [dict(l) for (n, l) in metrics.values if n == "radish:build_info"]
    assert len(build) == 1 and build[0]["isa"] and build[0]["version"]
    assert server.stop() == 0


def test_metrics_can_be_switched_off():
    server = Server("--max-total-tokens", "2000", "--disable-metrics")
    answer = server.request("GET", "/metrics")
    assert answer.status == 404 and "--disable-metrics" in answer.error()["message"]
    complete(server, ids("off", 10), 2)
    assert server.stop() == 0
