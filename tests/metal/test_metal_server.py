"""The whole program on the Metal device's stand-in: answers are the CPU's, whatever happens around them.

The tiny models are random, so that two tokens are sometimes nearly as likely; where an answer leaves the CPU's, it has to do so at such a
place.
"""
import concurrent.futures
import random

import pytest

from conftest import DEVICE, MODELS, SMALL, read_logits, server_suite

NEARLY = 0.02  # in log probability: fast precision rounds activations differently on the two devices


def ids(name, n):
    chance = random.Random(name)
    return [chance.randrange(3, 500) for _ in range(n)]


def complete(server, prompt, max_tokens=8, **more):
    asked = {"prompt": prompt, "max_tokens": max_tokens, "temperature": 0, "ignore_eos": True, "logprobs": 2, **more}
    answer = server.post("/v1/completions", asked)
    assert answer.status == 200, (answer.status, answer.body, server.log()[-3000:])
    return answer.json()


def tokens(reply):
    return reply["choices"][0]["logprobs"]["tokens"]


def same_or_nearly(reply, expected):
    """The same tokens, up to a place where the expected one was hardly more likely than the next."""
    got, want = tokens(reply), tokens(expected)
    assert len(got) == len(want)
    for i, (one, other) in enumerate(zip(got, want)):
        if one == other:
            continue
        best = sorted(expected["choices"][0]["logprobs"]["top_logprobs"][i].values(), reverse=True)
        assert best[0] - best[1] < NEARLY, (i, got, want, best)
        return


def cached(reply):
    return reply["usage"]["prompt_tokens_details"]["cached_tokens"]


def test_the_device_says_what_it_is(metal):
    log = metal.log()
    assert "stand-in for Metal" in log
    assert "Custom RoPE kernel enabled: kv_f32_rope_kv_store__metal" in log
    info = metal.request("GET", "/get_server_info").json()
    assert info["device"] == "metal-sim"


def test_answers_are_those_of_the_cpu(metal, cpu):
    for n in (1, 2, 17, 65, 150):
        prompt = ids(f"answers {n}", n)
        same_or_nearly(complete(metal, prompt), complete(cpu, prompt))


def test_a_chat_is_answered(metal, cpu):
    asked = {"messages": [{"role": "user", "content": "Hello there"}], "max_tokens": 8, "temperature": 0}
    answers = [server.post("/v1/chat/completions", asked) for server in (metal, cpu)]
    assert all(a.status == 200 for a in answers)
    assert answers[0].json()["usage"]["prompt_tokens"] == answers[1].json()["usage"]["prompt_tokens"]
    assert answers[0].json()["usage"]["completion_tokens"] > 0


def test_a_prefix_is_reused_and_the_answer_stays(metal):
    prompt = ids("prefix", 90)
    cold = complete(metal, prompt)
    warm = complete(metal, prompt)
    longer = complete(metal, prompt + ids("more", 7))
    assert cached(cold) == 0 and cached(warm) == 89 and cached(longer) >= 89
    same_or_nearly(warm, cold)
    assert metal.wait_idle()


def test_seeds_draw_what_they_draw_on_the_cpu(metal, cpu):
    n_same = 0
    for seed in range(6):
        drawn = {"temperature": 0.9, "top_p": 0.9, "top_k": 40, "seed": seed, "max_tokens": 4}
        pair = [tokens(complete(server, ids("seeds", 12), **drawn)) for server in (metal, cpu)]
        n_same += pair[0] == pair[1]
    assert n_same >= 4  # a draw near the border between two tokens may fall on either side


def test_many_at_once_answer_as_alone(metal):
    prompts = [ids(f"many {i}", 5 + 13 * i) for i in range(8)]
    alone = [complete(metal, p) for p in prompts]
    with concurrent.futures.ThreadPoolExecutor(8) as pool:
        together = list(pool.map(lambda p: complete(metal, p), prompts))
    for one, other in zip(together, alone):
        same_or_nearly(one, other)


def test_a_closed_socket_ends_its_request(metal):
    sock = metal.start_post("/v1/completions", {"prompt": ids("abort", 20), "max_tokens": 400, "ignore_eos": True, "stream": True})
    server_suite.read_until(sock, b"data: ")
    sock.close()
    metal.wait(lambda h: h["requests_running"] == 0 and h["requests_queued"] == 0)


def test_a_full_pool_retracts_and_answers_all_the_same(start, metal):
    """Two answers of 140 tokens in a pool of 256: whichever begins second is let in, and cannot stay."""
    tight = start(*DEVICE, "--context-length", "256", "--max-total-tokens", "256", "--max-running-requests", "4", "--schedule-conservativeness", "0.1")
    prompts = [ids(f"tight {i}", 50) for i in range(3)]
    with concurrent.futures.ThreadPoolExecutor(3) as pool:
        together = list(pool.map(lambda p: complete(tight, p, max_tokens=90), prompts))
    assert "Retract requests." in tight.log(), tight.log()
    for one, prompt in zip(together, prompts):
        same_or_nearly(one, complete(metal, prompt, max_tokens=90))


def text_of(server, prompt, **fields):
    """Without log probabilities, so that the device draws the tokens and steps overlap."""
    body = {"prompt": prompt, "max_tokens": 24, "ignore_eos": True, **fields}
    reply = server.post("/v1/completions", body).json()
    return reply["choices"][0]["text"], reply["usage"]["completion_tokens"], reply["choices"][0]["finish_reason"]


@pytest.mark.parametrize("fields", [{"temperature": 0}, {"temperature": 0.9, "seed": 5}, {"temperature": 1.2, "seed": 6, "top_p": 0.8, "top_k": 40},
                                    {"temperature": 0.7, "seed": 7, "min_p": 0.1}, {"temperature": 0.8, "seed": 8, "frequency_penalty": 0.5}])
def test_overlap_changes_no_token(no_overlap, metal, fields):
    prompt = ids(f"drawn {fields}", 30)
    assert text_of(metal, prompt, **fields) == text_of(no_overlap, prompt, **fields)


def test_a_stop_string_found_late_ends_the_answer_there(no_overlap, metal):
    prompt = ids("late stop", 12)
    text = text_of(metal, prompt, temperature=0, max_tokens=40)[0]
    stop = text[len(text) // 2:][:3]
    cut = text_of(metal, prompt, temperature=0, max_tokens=40, stop=stop)
    assert cut[0] == text[:text.index(stop)] and cut[2] == "stop"
    assert cut == text_of(no_overlap, prompt, temperature=0, max_tokens=40, stop=stop)


def test_slow_command_buffers_change_no_answer(start, metal):
    slow = start(*DEVICE, *SMALL, env={"MTL_SIM_DELAY_US": "3000", "MTL_SIM_JITTER": "1"})
    prompts = [ids(f"slow {i}", 9 + 20 * i) for i in range(4)]
    with concurrent.futures.ThreadPoolExecutor(4) as pool:
        together = list(pool.map(lambda p: complete(slow, p, max_tokens=12), prompts))
    for one, prompt in zip(together, prompts):
        same_or_nearly(one, complete(metal, prompt, max_tokens=12))


def test_a_step_that_the_system_ends_is_done_again(start, metal):
    broken = start(*DEVICE, *SMALL, env={"MTL_SIM_FAIL": "5"})
    for i in range(3):
        prompt = ids(f"broken {i}", 20)
        same_or_nearly(complete(broken, prompt), complete(metal, prompt))
    assert "a step was ended by the system" in broken.log()


def test_a_pool_that_no_buffer_holds_is_refused(radish):
    with pytest.raises(AssertionError, match="maxBufferLength"):
        radish("run", MODELS / "llama", *DEVICE, "-p", "a", "-n", "1", "--max-total-tokens", "4096", env={"MTL_SIM_BUFFER_MAX": "100000"})


def test_weights_above_the_working_set_are_refused(radish):
    with pytest.raises(AssertionError, match="are available"):
        radish("run", MODELS / "llama", *DEVICE, "-p", "a", "-n", "1", env={"MTL_SIM_WORKING_SET": "20000"})


def test_info_shows_kernels_and_memory(radish):
    text = radish("info", MODELS / "llama", *DEVICE).stdout
    assert "metal-sim" in text and "any_f32_matmul__metal" in text and "working set" in text


@pytest.mark.parametrize("model", ["llama", "qwen3"])
def test_logits_are_near_those_of_the_cpu(radish, tmp_path, model):
    listed = ",".join(str(t) for t in ids("logits", 40))
    rows = {}
    for name, flags in (("cpu", []), ("metal", DEVICE), ("warm", [*DEVICE, "--warm", "20", "--chunk", "7"])):
        out = tmp_path / f"{name}.safetensors"
        radish("logits", MODELS / model, "--tokens", listed, "--out", out, "--precision", "exact", *flags)
        rows[name], _ = read_logits(out)
    for name in ("metal", "warm"):
        worst = max(abs(a - b) for r, s in zip(rows[name], rows["cpu"]) for a, b in zip(r, s))
        spread = max(max(r) - min(r) for r in rows["cpu"])
        assert len(rows[name]) == 40 and worst < 1e-4 * spread, (name, worst, spread)
