"""What tools made for SGLang ask a worker beside text: what it is, how it does, and to forget."""
import json
import re
import threading
import time

import pytest

from conftest import MODEL, read_until

LONG = {"prompt": [5, 6, 7, 8], "max_tokens": 400, "ignore_eos": True, "stream": True}


def get(server, path, status=200, **more):
    answer = server.request("GET", path, **more)
    assert answer.status == status, (path, answer.status, answer.body)
    return answer.json()


def complete(server, prompt, **more):
    answer = server.post("/v1/completions", {"prompt": prompt, "max_tokens": 2, "temperature": 0, **more})
    assert answer.status == 200, answer.body
    return answer.json()


def cached(reply):
    return reply["usage"]["prompt_tokens_details"]["cached_tokens"]


def test_model_info_has_the_names_and_types_that_the_router_reads(server):
    info = get(server, "/model_info")

    assert info["model_path"] == info["tokenizer_path"] == MODEL
    assert info["is_generation"] is True
    assert info["preferred_sampling_params"] is None
    assert info["weight_version"] == get(server, "/get_weight_version")["weight_version"] == "default"
    assert info["model_type"] == "llama" and info["architectures"] == ["LlamaForCausalLM"]
    assert info["has_image_understanding"] is False
    assert get(server, "/get_model_info") == info


def test_server_info_tells_flags_pool_kernels_and_instruction_set(start):
    server = start("--max-total-tokens", "3000", "--kernel", "matmul=ref", "--schedule-policy", "fcfs", "--mem-fraction-static", "0.25",
                   "--max-running-requests", "7", "--random-seed", "3", "--disable-radix-cache", "--api-key", "verysecret")
    key = [("Authorization", "Bearer verysecret")]

    info = get(server, "/server_info", headers=key)

    assert info["model_path"] == MODEL and info["served_model_name"] == "llama"
    assert info["max_total_num_tokens"] == info["max_total_tokens"] == 3000
    assert (info["schedule_policy"], info["mem_fraction_static"], info["random_seed"]) == ("fcfs", 0.25, 3)
    assert info["disable_radix_cache"] is True and info["enable_priority_scheduling"] is False
    assert info["kernel"] == ["matmul=ref"] and info["threads"] is None and info["page_size"] == 1
    for name in "dp_size", "max_prefill_tokens", "max_running_requests", "max_total_tokens", "port":
        assert type(info[name]) is int, name
    assert info["max_running_requests"] == 7
    state, = info["internal_states"]
    assert state["last_gen_throughput"] == 0 and state["effective_max_running_requests_per_dp"] == 7
    assert state["memory_usage"]["token_capacity"] == 3000 and state["memory_usage"]["weight"] > 0
    own = info["radish"]
    assert own["isa"] and own["bit_class"] and own["precision"] == "fast" and own["threads"] >= 1
    assert own["kernels"]["matmul"].endswith("__ref")
    assert any("matmul" in line and "forced by --kernel" in line for line in own["kernels_report"])
    assert own["radix_cache"] is False and own["n_api_keys"] == 1
    assert "verysecret" not in json.dumps(info)
    again = get(server, "/get_server_info", headers=key)
    assert set(again) == set(info)


def test_two_long_and_many_short_requests_share_the_pool_that_server_info_states(start):
    server = start("--max-total-tokens", "1200")
    total = get(server, "/server_info")["max_total_num_tokens"]
    assert total == 1200 and get(server, "/server_info")["max_model_len"] == 512
    answers = []

    def ask(first, n):
        answers.append(complete(server, [first] + [9] * (n - 1)))

    threads = [threading.Thread(target=ask, args=(10 + i, 450 if i < 2 else 20)) for i in range(22)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()

    assert sorted(a["usage"]["prompt_tokens"] for a in answers) == [20] * 20 + [450] * 2


def test_loads_count_running_and_waiting_requests_in_both_shapes(start):
    server = start("--max-total-tokens", "3000", "--max-running-requests", "1")
    socks = [server.start_post("/v1/completions", {**LONG, "prompt": [9 + i] * 30}) for i in range(12)]
    server.wait(lambda h: h["requests_running"] and h["requests_queued"] > 4)

    load, = get(server, "/v1/loads")["loads"]
    old, = get(server, "/get_load")

    for sock in socks:
        sock.close()
    n_waiting = load["num_waiting_reqs"]
    assert load["dp_rank"] == 0 and load["num_running_reqs"] == 1 and n_waiting >= 1
    assert load["num_waiting_uncached_tokens"] == 30 * n_waiting and load["num_used_tokens"] >= 1
    assert load["num_total_tokens"] == load["num_used_tokens"] + 30 * n_waiting
    assert load["max_total_num_tokens"] == 3000 and load["utilization"] == 1
    assert 0 < load["token_usage"] < 1
    assert load["queues"] == {"waiting": n_waiting, "grammar": 0, "paused": 0, "retracted": 0}
    assert old["num_reqs"] == old["num_waiting_reqs"] + 1 and old["num_tokens"] > 30 * old["num_waiting_reqs"]
    server.wait_idle()
    load, = get(server, "/v1/loads")["loads"]
    assert load["num_waiting_uncached_tokens"] == load["num_used_tokens"] == load["num_waiting_reqs"] == 0


def test_loads_give_the_sections_that_are_asked_for(server):
    load, = get(server, "/v1/loads?include=core")["loads"]
    assert "memory" not in load and "queues" not in load
    load, = get(server, "/v1/loads?include=core,%20memory")["loads"]
    assert set(load["memory"]) == {"weight_gb", "kv_cache_gb", "graph_gb", "token_capacity"} and "queues" not in load
    load, = get(server, "/v1/loads?include=spec,all")["loads"]
    assert "memory" in load and "queues" in load
    stamp = get(server, "/v1/loads?format=json&dp_rank=0")["timestamp"]
    assert re.fullmatch(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{6}\+00:00", stamp)


@pytest.mark.parametrize("query, param", [("include=nonsense", "include"), ("format=xml", "format"), ("dp_rank=1", "dp_rank"),
                                          ("dp_rank=x", "dp_rank"), ("format=js%00on", "format")])
def test_loads_refuse_what_they_do_not_know(server, query, param):
    answer = server.request("GET", "/v1/loads?" + query)
    assert answer.status == 400
    assert answer.error()["param"] == param


def test_loads_as_prometheus_text_are_gauges(server):
    answer = server.request("GET", "/v1/loads?format=prometheus&include=memory")

    assert answer.headers["content-type"].startswith("text/plain")
    lines = answer.body.decode().splitlines()
    assert "# TYPE sglang_num_running_reqs gauge" in lines
    assert 'sglang_max_total_num_tokens{dp_rank="0"} 70000' in lines
    assert any(line.startswith('sglang_memory_weight_gb{dp_rank="0"} ') for line in lines)
    assert not any("queues" in line for line in lines)


def test_an_unknown_argument_is_named_in_the_warning(server):
    answer = server.request("GET", "/v1/loads?includ=core")

    assert answer.status == 200 and "includ" in answer.headers["x-radish-warning"]


@pytest.mark.parametrize("method, path", [("GET", "/flush_cache"), ("POST", "/flush_cache"), ("POST", "/reset_prefix_cache")])
def test_flush_forgets_every_prefix(start, method, path):
    server = start("--max-total-tokens", "3000")
    prompt = list(range(5, 60))
    complete(server, prompt)
    assert cached(complete(server, prompt)) == 54

    answer = server.request(method, path)

    assert answer.status == 200 and answer.body.startswith(b"Cache flushed.")
    assert answer.headers["content-type"].startswith("text/plain")
    assert cached(complete(server, prompt)) == 0


def test_flush_is_refused_while_busy_and_waits_if_told_to(start):
    server = start("--max-total-tokens", "60000")
    sock = server.start_post("/v1/completions", {**LONG, "n": 100, "max_tokens": 500})  # for a while, if it is let
    read_until(sock, b"text")

    busy = server.post("/flush_cache", None)
    short = server.post("/flush_cache?timeout=0.05", None)
    answers = []
    waiter = threading.Thread(target=lambda: answers.append(server.post("/flush_cache?timeout_s=60", None)))
    waiter.start()
    time.sleep(0.2)
    sock.close()
    waiter.join()

    assert busy.status == short.status == 400
    assert busy.body.startswith(b"Cache not flushed") and b" running" in busy.body
    assert answers[0].status == 200
    bad = server.post("/flush_cache?timeout_s=-1", None)
    assert bad.status == 400 and bad.error()["param"] == "timeout_s"


def test_health_generate_leaves_no_trace(start):
    server = start("--max-total-tokens", "3000")
    before = server.request("GET", "/radix").json()

    for _ in range(3):
        assert get(server, "/health_generate")["status"] == "ok"

    server.wait_idle()
    after = server.request("GET", "/radix").json()
    assert after == before
    metrics = server.request("GET", "/metrics").body.decode()
    for name in "prompt_tokens_total", "generation_tokens_total":
        for value in re.findall(rf"^sglang:{name}{{[^}}]*}} (\S+)", metrics, re.M):
            assert float(value) == 0


def test_health_generate_answers_while_the_only_sequence_is_taken(start):
    server = start("--max-total-tokens", "3000", "--max-running-requests", "1", "--max-queued-requests", "1")
    sock = server.start_post("/v1/completions", LONG)
    read_until(sock, b"text")

    assert get(server, "/health_generate")["seconds"] < 10

    sock.close()


def test_only_health_checks_need_no_key(start):
    server = start("--max-total-tokens", "3000", "--api-key", "k")

    assert get(server, "/health_generate")["status"] == "ok"
    for path in "/ping", "/model_info", "/server_info", "/v1/loads", "/get_load", "/flush_cache", "/get_weight_version", "/start_profile":
        assert server.request("GET", path).status == 401, path


@pytest.mark.parametrize("method", ["GET", "POST"])
@pytest.mark.parametrize("path", ["/start_profile", "/stop_profile"])
def test_profiling_is_refused_with_a_reason(server, method, path):
    answer = server.request(method, path)

    assert answer.status == 400 and "profiler" in answer.error()["message"]
