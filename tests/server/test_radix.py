"""The prefix cache as clients see it: what users of neighbouring servers suffered must not happen here.

The letter and number in a test's name is the case in the list of such reports. Answers are compared whole, log
probabilities of every token included, with those of a server without a cache.
"""
import concurrent.futures
import os
import random
import signal
import threading
import time

import pytest

from conftest import is_sanitized, plan_bytes, read_all, read_until, rss_bytes, stream_events


# A model this small makes thousands of tokens a second: what is to be still running when something else happens must have
# many to make. Whoever started it closes the socket.
LONG_CONTEXT = ["--context-length", "16384", "--max-total-tokens", "40000"]
FOREVER = {"max_tokens": 16000, "ignore_eos": True}


@pytest.fixture(scope="module")
def cold():
    """The same model without a cache: what every answer must be."""
    from conftest import Server

    started = Server("--max-total-tokens", "70000", "--disable-radix-cache", "--context-length", "4096")
    yield started
    assert started.stop() == 0


def ids(name, n):
    """n token ids of the tiny model, the same for the same name."""
    chance = random.Random(name)
    return [chance.randrange(3, 500) for _ in range(n)]


def complete(server, prompt, max_tokens=6, headers=(), **more):
    asked = {"prompt": prompt, "max_tokens": max_tokens, "temperature": 0, "ignore_eos": True, "logprobs": 3, **more}
    answer = server.post("/v1/completions", asked, headers)
    assert answer.status == 200, (answer.status, answer.body, server.log()[-3000:])
    return answer.json()


def cached(reply):
    return reply["usage"]["prompt_tokens_details"]["cached_tokens"]


def radix(server, headers=()):
    answer = server.request("GET", "/radix", headers=headers)
    assert answer.status == 200, answer.body
    report = answer.json()
    tokens = report.get("tokens")
    assert not tokens or tokens["free"] + tokens["evictable"] + tokens["pinned"] + tokens["private"] == tokens["total"]
    assert not tokens or tokens["cached"] == tokens["evictable"] + tokens["pinned"]
    return report


def all_at_once(n, work):
    """work(0) .. work(n - 1), begun in the same moment."""
    gate = threading.Barrier(n)

    def one(i):
        gate.wait()
        return work(i)

    with concurrent.futures.ThreadPoolExecutor(n) as pool:
        return list(pool.map(one, range(n)))


# ---- hits that should happen


def test_a1_a_system_prompt_is_shared_by_all_clients(server, cold):
    trunk = ids("a1", 400)
    complete(server, trunk + ids("a1 first", 10))
    with server.connect():  # Another connection is open: there are no slots of clients.
        reply = complete(server, trunk + ids("a1 second", 10))
    assert cached(reply) >= 399
    assert reply["choices"] == complete(cold, trunk + ids("a1 second", 10))["choices"]


def test_a2_the_prompt_of_a_running_answer_is_shared(start):
    server = start(*LONG_CONTEXT)
    trunk = ids("a2", 100)
    sock = server.start_post("/v1/completions", {**FOREVER, "prompt": trunk, "stream": True})
    read_until(sock, b"data: ")
    reply = complete(server, trunk + ids("a2 more", 12), 2)
    assert server.health()["requests_running"] >= 1
    assert cached(reply) == 100
    sock.close()
    server.wait_idle()


@pytest.mark.parametrize("n", [4, 32])
def test_a3_branches_sent_together_compute_their_cold_trunk_once(start, cold, n):
    server = start("--max-total-tokens", "20000", "--chunked-prefill-size", "64")
    trunk = ids("a3", 400)
    prompts = [trunk + ids(f"a3 {i}", 10) for i in range(n)]
    replies = all_at_once(n, lambda i: complete(server, prompts[i]))
    report = radix(server)
    assert report["prompt_tokens"] == 410 * n
    # Each its own 10; and one that comes when fewer than 32 tokens of the trunk are left does not wait for them.
    assert 410 <= report["prompt_tokens"] - report["cached_tokens"] <= 400 + 10 * n + 31 * (n - 1)
    for prompt, reply in zip(prompts[:3], replies):
        assert reply["choices"] == complete(cold, prompt)["choices"]


def test_a4_a_prompt_is_still_there_after_another(server):
    a, b = ids("a4 a", 300), ids("a4 b", 300)
    assert [cached(complete(server, prompt)) for prompt in (a, b, a)] == [0, 0, 299]


@pytest.mark.parametrize("page", [1, 2, 4, 16])
def test_a17_a_page_costs_no_more_than_its_slack(start, cold, page):
    server = start("--page-size", str(page))
    for length in (15, 16, 17, 100):
        prompt = ids(f"a17 {length}", length)
        first, again = complete(server, prompt), complete(server, prompt)
        assert [cached(first), cached(again)] == [0, (length - 1) // page * page]
        assert first["choices"] == again["choices"] == complete(cold, prompt)["choices"]


def test_b14_b15_a_repeat_and_its_strict_prefixes_compute_their_last_token(server, cold):
    prompt = ids("b14", 49)
    for n in (49, 49, 13, 1, 48, 49):
        reply = complete(server, prompt[:n])
        assert reply["choices"] == complete(cold, prompt[:n])["choices"]
    assert cached(reply) == 48


def test_a26_the_hit_rate_is_in_usage_log_and_page(start):
    server = start("--max-total-tokens", "3000")
    prompt = ids("a26", 100)
    assert [cached(complete(server, prompt)) for _ in range(4)] == [0, 99, 99, 99]
    assert server.log().count("#cached-token: 99") == 3
    report = radix(server)
    assert (report["prompt_tokens"], report["cached_tokens"]) == (400, 297)
    assert report["hit_rate"] == pytest.approx(297 / 400, abs=1e-4)
    assert (report["matches"], report["hit_tokens"], report["match_tokens"]) == (4, 297, 396)
    assert report["prefixes"][0]["tokens"] == 99 and report["prefixes"][0]["hits"] == 3
    assert report["nodes"] > 0 and report["evicted_tokens"] == 0 and report["misses"] == []


# ---- right answers


def test_b1_a_long_prompt_gives_the_same_cold_and_cached(start, cold):
    server = start("--max-total-tokens", "9000", "--context-length", "4096")
    prompt = ids("b1", 3300)
    replies = [complete(server, prompt, 12) for _ in range(3)]
    assert [cached(reply) for reply in replies] == [0, 3299, 3299]
    want = complete(cold, prompt, 12)["choices"]
    assert all(reply["choices"] == want for reply in replies)


def test_b3_a_shared_prefix_brings_nothing_of_what_followed_it(server, cold):
    trunk = ids("b3", 150)
    complete(server, trunk + ids("b3 secret", 80), 40)
    prompt = trunk + ids("b3 other", 5)
    reply = complete(server, prompt, 40, logprobs=20)
    assert cached(reply) >= 150
    assert reply["choices"] == complete(cold, prompt, 40, logprobs=20)["choices"]


def test_b4_32_chats_at_once_get_their_own_answers(server, cold):
    trunk = ids("b4", 120)
    prompts = [trunk + ids(f"b4 {i}", 3 + i % 7) for i in range(32)]
    replies = all_at_once(32, lambda i: complete(server, prompts[i], 20))
    for prompt, reply in zip(prompts, replies):
        assert reply["choices"] == complete(cold, prompt, 20)["choices"]


def test_b11_echo_with_logprobs_of_a_cached_prompt(server, cold):
    prompt = ids("b11", 260)
    complete(server, prompt)
    want = complete(cold, prompt, 3, echo=True, logprobs=5)["choices"]
    for _ in range(2):
        reply = complete(server, prompt, 3, echo=True, logprobs=5)
        assert cached(reply) == 0  # Rows whose logits are wanted are computed.
        assert reply["choices"] == want
    assert complete(server, prompt, 0, echo=True)["usage"]["completion_tokens"] == 0
    assert cached(complete(server, prompt)) == 259


def test_b12_equal_texts_in_different_fields_do_not_meet(server):
    assert server.post("/flush_cache?timeout=30", {}).status == 200  # Other tests' prompts may begin alike.
    prompt = ids("b12", 90)
    spaces = [{}, {"cache_salt": "a"}, {"extra_key": "a"}, {"cache_salt": "b"}, {"extra_key": "a", "cache_salt": "a"},
              {"cache_salt": "aa"}, {"extra_key": "aa"}]
    first = [complete(server, prompt, **space) for space in spaces]
    assert [cached(reply) for reply in first] == [0] * len(spaces)
    again = [complete(server, prompt, **space) for space in spaces]
    assert [cached(reply) for reply in again] == [89] * len(spaces)
    assert all(reply["choices"] == first[0]["choices"] for reply in first + again)
    chat = {"messages": [{"role": "user", "content": "b12"}], "max_tokens": 2, "temperature": 0}
    counts = []
    for salt in ("x", "x", "y"):
        reply = server.post("/v1/chat/completions", {**chat, "cache_salt": salt}).json()
        counts.append(cached(reply))
    assert counts[0] == 0 and counts[1] > 0 and counts[2] == 0


def test_b17_a_benchmark_client_repeats_its_prompts(server):
    prompts = [ids(f"b17 {i}", 20 + 11 * i) for i in range(8)]
    with concurrent.futures.ThreadPoolExecutor(4) as pool:
        replies = list(pool.map(lambda i: complete(server, prompts[i % 8]), range(40)))
    for i in range(40):
        assert replies[i]["choices"] == replies[i % 8]["choices"]
    assert sum(cached(reply) for reply in replies) >= 4 * sum(len(prompt) - 1 for prompt in prompts) - 8 * 100


def test_f10_copies_at_temperature_zero_are_identical(server, cold):
    prompt = ids("f10", 60)
    want = complete(cold, prompt, 24)["choices"]
    for n in (1, 8, 44):
        for reply in all_at_once(n, lambda i: complete(server, prompt, 24)):
            assert reply["choices"] == want


def test_f11_a_seed_gives_the_same_text_alone_and_under_load(server):
    prompt = ids("f11", 40)
    seeded = {"temperature": 0.5, "seed": 123}
    alone = [complete(server, prompt, 24, **seeded)["choices"] for _ in range(5)]
    loaded = all_at_once(20, lambda i: complete(server, prompt, 24, **seeded) if i % 4 == 0
                         else complete(server, ids(f"f11 {i}", 50), 40, temperature=1))
    assert all(choices == alone[0] for choices in alone)
    assert all(reply["choices"] == alone[0] for reply in loaded[::4])


def test_g19_a_key_cannot_tell_what_another_has_asked(start):
    server = start("--api-key", "alpha", "--api-key", "beta", "--max-total-tokens", "3000", "--explain-miss")
    alpha, beta = [("Authorization", "Bearer alpha")], [("Authorization", "Bearer beta")]
    prompt = ids("g19", 120)
    assert [cached(complete(server, prompt, headers=alpha)) for _ in range(2)] == [0, 119]
    before = radix(server, beta)
    assert cached(complete(server, prompt, headers=beta)) == 0
    assert cached(complete(server, prompt, headers=beta, cache_salt="k", extra_key="0")) == 0
    assert cached(complete(server, prompt, headers=beta)) == 119
    assert server.request("GET", "/radix").status == 401
    for page in (before, radix(server, beta)):
        assert page["prefixes"] and page["misses"]
        assert not any("text" in entry or "token" in entry for entry in page["prefixes"] + page["misses"])
    shared = start("--api-key", "alpha", "--api-key", "beta", "--max-total-tokens", "3000", "--isolate-keys", "off")
    assert [cached(complete(shared, prompt, headers=headers)) for headers in (alpha, beta)] == [0, 119]
    assert "text" in radix(shared, beta)["prefixes"][0]


# ---- memory and limits


def test_c4_distinct_prompts_for_ever_stay_in_the_budget(start):
    server = start("--max-total-tokens", "6000", "--explain-miss")
    limit = None
    end = time.monotonic() + 6
    with concurrent.futures.ThreadPoolExecutor(4) as pool:
        for i in range(100000):
            list(pool.map(lambda k: complete(server, ids(f"c4 {i} {k}", 200), 2), range(4)))
            if i == 20:
                limit = rss_bytes(server) + (16 << 20)
            if limit and time.monotonic() > end:
                break
    report = radix(server)
    assert report["evicted_tokens"] > 6000 and report["nodes"] < 6000
    server.wait_idle()
    if not is_sanitized():
        assert rss_bytes(server) < limit and rss_bytes(server) < plan_bytes(server) + 24e6


def test_c9_an_overbooked_pool_finishes_everything_with_the_same_answers(start, cold):
    server = start("--max-total-tokens", "1200", "--schedule-conservativeness", "0.01")
    prompts = [ids(f"c9 {i}", 20) for i in range(16)]
    replies = all_at_once(16, lambda i: complete(server, prompts[i], 150))
    assert "KV cache pool is full. Retract requests." in server.log()
    for i, reply in enumerate(replies):
        assert reply["usage"]["completion_tokens"] == 150
        assert reply["choices"][0]["finish_reason"] == "length"
        if i % 4 == 0:
            assert reply["choices"] == complete(cold, prompts[i], 150)["choices"]
    server.wait_idle()


def test_c10_long_and_short_requests_share_one_pool(start):
    server = start("--max-total-tokens", "1100", "--context-length", "512")
    model = server.request("GET", "/v1/models").json()["data"][0]
    assert model["max_model_len"] == 512 and radix(server)["tokens"]["total"] == 1100
    lengths = [500, 505] + [10] * 14
    replies = all_at_once(16, lambda i: complete(server, ids(f"c10 {i}", lengths[i]), 5))
    assert [reply["usage"]["prompt_tokens"] for reply in replies] == lengths
    assert all(reply["usage"]["completion_tokens"] == 5 for reply in replies)


def test_c11_a_context_far_beyond_the_memory_is_cut_to_the_pool_and_served(start):
    server = start("--max-total-tokens", "600")
    most = server.request("GET", "/v1/models").json()["data"][0]["max_model_len"]
    assert most <= 600
    assert complete(server, ids("c11", most - 10), 5)["usage"]["completion_tokens"] == 5
    answer = server.post("/v1/completions", {"prompt": ids("c11 long", most + 1)})
    assert answer.status == 400 and str(most) in answer.error()["message"]


@pytest.mark.parametrize("stream", [True, False])
def test_d4_a_client_that_leaves_gives_everything_back(start, stream):
    server = start(*LONG_CONTEXT)
    asked = {**FOREVER, "prompt": ids("d4", 100), "n": 8, "stream": stream}
    sock = server.start_post("/v1/completions", asked)
    server.wait(lambda health: health["requests_running"] == 8)
    sock.close()
    server.wait_idle(20)
    tokens = radix(server)["tokens"]
    assert tokens["pinned"] == tokens["private"] == 0
    assert cached(complete(server, asked["prompt"])) == 99  # What was computed is not lost.


def test_random_aborts_in_every_phase_leave_the_pool_at_its_baseline(start, cold):
    # RADISH_ABORTS=10000 is the long form.
    n_requests, n_clients = int(os.environ.get("RADISH_ABORTS", "500")), 16
    server = start("--max-total-tokens", "1500", "--max-running-requests", "8", "--chunked-prefill-size", "64",
                   "--schedule-conservativeness", "0.1", "--log-level", "warn")
    seed = random.randrange(10**9)
    print("seed", seed)

    def one(i):
        chance = random.Random(seed + i)
        rid = f"abort-{i}"
        asked = {"prompt": ids(f"trunk {i % 3}", 150)[: chance.randrange(1, 150)] + ids(f"own {i % 40}", chance.randrange(1, 60)),
                 "max_tokens": chance.randrange(0, 120), "ignore_eos": True, "n": chance.choice([1, 1, 1, 3]),
                 "stream": chance.random() < 0.5, "rid": rid, "temperature": 0}
        way = chance.choice(["wait", "leave", "abort"])
        sock = server.start_post("/v1/completions", asked)
        if way != "wait":
            time.sleep(chance.random() ** 3 * 0.2)
        if way == "leave":
            sock.close()
            return way
        if way == "abort":
            assert server.post("/abort_request", {"rid": rid}).json()["success"]
        got = read_all(sock)
        sock.close()
        assert b"200 OK" in got[:20] and b'"finish_reason":"' in got, got[-500:]
        return way

    with concurrent.futures.ThreadPoolExecutor(n_clients) as pool:
        ways = list(pool.map(one, range(n_requests)))
    assert set(ways) == {"wait", "leave", "abort"}
    assert server.post("/abort_request", {"abort_all": True}).status == 200
    server.wait_idle()
    tokens = radix(server)["tokens"]
    assert tokens["pinned"] == tokens["private"] == 0 and tokens["free"] + tokens["cached"] == 1500
    prompt = ids("trunk 0", 150) + ids("own 0", 20)
    assert complete(server, prompt)["choices"] == complete(cold, prompt)["choices"]


def test_d10_a_stopping_server_finishes_its_stream_and_exits_at_once(start):
    server = start("--stop-grace-seconds", "1000", "--context-length", "4096", "--max-total-tokens", "6000")
    asked = {"prompt": ids("d10", 20), "max_tokens": 2000, "ignore_eos": True, "stream": True}
    sock = server.start_post("/v1/completions", asked)
    got = read_until(sock, b"data: ")
    server.signal()
    got += read_all(sock)
    ended = time.monotonic()
    events, is_done = stream_events(got.partition(b"\r\n\r\n")[2])
    assert is_done and [c["finish_reason"] for e in events for c in e["choices"]][-1] == "length"
    assert server.wait_exit(60) == 0
    assert time.monotonic() - ended < 20


def test_a_killed_server_starts_again_on_its_port_and_answers_the_same(start):
    server = start(*LONG_CONTEXT)
    prompt = ids("kill", 100)
    want = complete(server, prompt)["choices"]
    sock = server.start_post("/v1/completions", {**FOREVER, "prompt": prompt, "stream": True})
    read_until(sock, b"data: ")
    server.signal(signal.SIGKILL)
    assert server.wait_exit(30) == -signal.SIGKILL
    read_all(sock)
    again = start(*LONG_CONTEXT, "--port", str(server.port))
    assert again.port == server.port
    reply = complete(again, prompt)
    assert cached(reply) == 0 and reply["choices"] == want
    assert radix(again)["shadow_failures"] == 0


def test_a_full_queue_is_503_with_retry_after(start):
    server = start("--max-running-requests", "1", "--max-queued-requests", "2", *LONG_CONTEXT)
    asked = {**FOREVER, "prompt": ids("full", 10)}
    socks = [server.start_post("/v1/completions", {**asked, "stream": True})]
    read_until(socks[0], b"data: ")
    server.wait(lambda health: (health["requests_running"], health["requests_queued"]) == (1, 0))
    for n in (1, 2):
        socks.append(server.start_post("/v1/completions", asked))
        server.wait(lambda health: health["requests_queued"] == n)
    answer = server.post("/v1/completions", asked)
    assert answer.status == 503 and answer.headers["retry-after"] == "1"
    assert "queue is full" in answer.error()["message"]
    for sock in socks:
        sock.close()
    server.wait_idle()


def test_a_request_that_takes_too_long_ends(start):
    server = start("--request-timeout", "0.4", "--max-running-requests", "1", *LONG_CONTEXT)
    asked = {**FOREVER, "prompt": ids("late", 10)}
    running = server.start_post("/v1/completions", {**asked, "stream": True})
    got = read_until(running, b"data: ")
    queued = server.post("/v1/completions", asked)
    assert queued.status in (200, 408), queued.body
    if queued.status == 200:
        assert queued.json()["choices"][0]["finish_reason"] == "abort"
    events, is_done = stream_events((got + read_all(running)).partition(b"\r\n\r\n")[2])
    assert is_done and events[-1]["choices"][0]["finish_reason"] == "abort"
    server.wait_idle()


# ---- flags and fields


def test_explain_miss_names_the_token_where_a_prompt_leaves_the_cache(start):
    server = start("--explain-miss", "--max-total-tokens", "1200")
    prompt = "The report of the third day of May says that nothing has happened"
    other = prompt.replace("third", "fourth")
    complete(server, prompt)
    reply = complete(server, other)
    complete(server, other)
    newest, second, first = radix(server)["misses"]
    assert (first["reason"], first["cached_tokens"], first["position"]) == ("never_seen", 0, 0)
    assert second["reason"] == "never_seen" and second["cached_tokens"] == cached(reply) == second["position"]
    assert second["text_before"] and prompt.index("third") - 3 <= prompt.index(second["text_before"]) + len(second["text_before"])
    assert second["text"] and other[prompt.index("third") :].startswith(second["text"].strip()[:1])
    assert newest["reason"] == "none" and newest["cached_tokens"] == newest["prompt_tokens"] - 1
    assert f"{second['cached_tokens']} of {second['prompt_tokens']} prompt tokens cached; what follows" in server.log()
    assert 'was never seen' in server.log()
    for i in range(4):
        complete(server, ids(f"explain {i}", 400), 1)
    complete(server, ids("explain 0", 400), 1)
    assert radix(server)["misses"][0]["reason"] == "evicted" and "was evicted" in server.log()


def test_the_page_without_a_cache_says_so(cold):
    assert radix(cold) == {"enabled": False}


def test_shadow_checks_are_counted_and_pass(start):
    server = start("--shadow-check", "2", "--max-total-tokens", "3000")
    prompt = ids("shadow", 200)
    for _ in range(7):
        complete(server, prompt)
        time.sleep(0.02)
    end = time.monotonic() + 30
    while radix(server)["shadow_checks"] < 2 and time.monotonic() < end:
        time.sleep(0.02)
    report = radix(server)
    assert 2 <= report["shadow_checks"] <= 3 and report["shadow_failures"] == 0
    assert report["prompt_tokens"] == 1400 and report["cached_tokens"] == 6 * 199
    server.wait_idle()


def test_a_high_priority_is_served_before_those_that_came_earlier(start):
    server = start("--enable-priority-scheduling", "--max-running-requests", "1", *LONG_CONTEXT)
    running = server.start_post("/v1/completions", {**FOREVER, "prompt": ids("p", 10), "stream": True, "priority": 3})
    read_until(running, b"data: ")
    server.wait(lambda health: (health["requests_running"], health["requests_queued"]) == (1, 0))
    order = []

    def one(priority):
        complete(server, ids(f"p {priority}", 20), 400, priority=priority)
        order.append(priority)

    threads = [threading.Thread(target=one, args=(priority,)) for priority in (0, 2)]
    for i, thread in enumerate(threads):
        thread.start()
        server.wait(lambda health: health["requests_queued"] == i + 1)
    running.close()
    for thread in threads:
        thread.join()
    assert order == [2, 0]


def test_an_abort_by_id_ends_one_request_in_any_phase(start):
    server = start("--max-running-requests", "2", *LONG_CONTEXT)
    asked = {**FOREVER, "prompt": ids("abort", 10)}
    decoding = [server.start_post("/v1/completions", {**asked, "stream": True, "rid": f"r{i}"}) for i in range(2)]
    got = [read_until(sock, b"data: ") for sock in decoding]
    server.wait(lambda health: (health["requests_running"], health["requests_queued"]) == (2, 0))
    queued = server.start_post("/v1/completions", {**asked, "rid": "queued"})
    server.wait(lambda health: health["requests_queued"] == 1)
    assert server.post("/abort_request", {"rid": "r"}).json() == {"success": True, "aborted": 0}
    for rid in ("queued", "r1"):
        assert server.post("/abort_request", {"rid": rid}).json() == {"success": True, "aborted": 1}
    choice = read_all(queued).partition(b"\r\n\r\n")[2]
    assert b'"finish_reason":"abort"' in choice and b'"completion_tokens":0' in choice
    events, is_done = stream_events((got[1] + read_all(decoding[1])).partition(b"\r\n\r\n")[2])
    assert is_done and events[-1]["choices"][0]["finish_reason"] == "abort"
    assert server.health()["requests_running"] >= 1
    assert server.post("/abort_request", {"abort_all": True}).json() == {"success": True, "aborted": 1}
    events, is_done = stream_events((got[0] + read_all(decoding[0])).partition(b"\r\n\r\n")[2])
    assert is_done and events[-1]["choices"][0]["finish_reason"] == "abort"
    server.wait_idle()
