"""POST /generate as SGLang's clients, its router and its benchmarks use it, over the real engine."""
import json
import math
import random

import pytest

from conftest import Answer, make_request, read_all, read_until, stream_events

GREEDY = {"temperature": 0, "ignore_eos": True}
COUNTS = ["prompt_tokens", "completion_tokens", "cached_tokens", "total_retractions"]


def ids(name, n):
    """n token ids of the tiny model, the same for the same name."""
    chance = random.Random(name)
    return [chance.randrange(3, 500) for _ in range(n)]


def post(server, method="POST", sampling=GREEDY, n_new=8, **fields):
    body = {"sampling_params": {"max_new_tokens": n_new, **sampling}, **fields}
    return server.request(method, "/generate", {k: v for k, v in body.items() if v is not Ellipsis})


def generate(server, **fields):
    answer = post(server, **fields)
    assert answer.status == 200, answer.body
    assert "x-radish-warning" not in answer.headers, answer.headers
    assert b"NaN" not in answer.body and b"nfinity" not in answer.body
    return answer.json()


def stream(server, **fields):
    """The chunks of a stream, by index."""
    answer = post(server, stream=True, **fields)
    assert answer.status == 200 and answer.headers["content-type"].startswith("text/event-stream")
    events, is_done = stream_events(answer.body)
    assert is_done
    chunks = {}
    for event in events:
        chunks.setdefault(event.get("index"), []).append(event)
    return chunks


def timeless(result):
    """A result without what differs from run to run: id, seconds, place in a stream, cached tokens."""
    meta = {k: v for k, v in result["meta_info"].items() if k not in ("id", "e2e_latency", "cached_tokens")}
    return result["text"], result["output_ids"], meta


def refused(server, field, **fields):
    answer = post(server, **fields)
    assert answer.status == 400, (fields, answer.status, answer.body)
    error = answer.error()
    assert error["param"] == field, (fields, error)
    return error["message"]


# ---- shapes


def test_one_prompt_gives_an_object(server):
    result = generate(server, text="Hello", rid="mine")
    assert set(result) == {"text", "output_ids", "meta_info"}
    meta = result["meta_info"]
    assert set(meta) == {"id", "finish_reason", "weight_version", "e2e_latency", *COUNTS}
    assert meta["id"] == "mine" and meta["weight_version"] == "default" and meta["total_retractions"] == 0
    assert meta["finish_reason"] == {"type": "length", "length": 8}
    assert meta["completion_tokens"] == len(result["output_ids"]) == 8
    assert 0 <= meta["cached_tokens"] < meta["prompt_tokens"]
    assert 0 < meta["e2e_latency"] < 60
    assert timeless(generate(server, text="Hello", method="PUT")) == timeless(result)


def test_lists_give_lists_in_order(server):
    texts = ["Hello", "Once upon", "The"]
    singles = [generate(server, text=text) for text in texts]
    batch = generate(server, text=texts, rid="all")
    assert [timeless(result) for result in batch] == [timeless(result) for result in singles]
    assert [result["meta_info"]["id"] for result in batch] == ["all_0", "all_1", "all_2"]
    named = generate(server, text=texts, rid=["x", "y", "z"])
    assert [result["meta_info"]["id"] for result in named] == ["x", "y", "z"]
    assert isinstance(generate(server, text=["Hello"]), list)
    lists = [ids("a", 9), ids("b", 5)]
    batch = generate(server, input_ids=lists)
    assert [timeless(result) for result in batch] == [timeless(generate(server, input_ids=one)) for one in lists]
    assert [result["meta_info"]["prompt_tokens"] for result in batch] == [9, 5]


def test_n_gives_n_results_for_each_prompt_in_order(server):
    sampling = {"temperature": 1, "sampling_seed": 7, "ignore_eos": True}
    wanted = [
        generate(server, text=text, sampling={**sampling, "sampling_seed": 7 + i})["output_ids"]
        for text in ("Hello", "The")
        for i in range(3)
    ]
    assert len(set(map(tuple, wanted))) == 6
    batch = generate(server, text=["Hello", "The"], sampling={**sampling, "n": 3})
    assert [result["output_ids"] for result in batch] == wanted
    assert [r["output_ids"] for r in generate(server, text="Hello", sampling={**sampling, "n": 3})] == wanted[:3]


def test_sampling_params_for_each_prompt(server):
    params = [{**GREEDY, "max_new_tokens": 2}, {**GREEDY, "max_new_tokens": 5, "logit_bias": {"100": 100}}]
    answer = server.post("/generate", {"text": ["Hello", "Hello"], "sampling_params": params})
    first, second = answer.json()
    assert len(first["output_ids"]) == 2 and 100 not in first["output_ids"]
    assert second["output_ids"] == [100] * 5


@pytest.mark.parametrize("fields", [
    {"text": "Once upon a time"},
    {"text": ["Hello", "Once"], "sampling": {**GREEDY, "n": 2}},
    {"input_ids": ids("s", 40), "return_logprob": True, "logprob_start_len": 30, "top_logprobs_num": 2,
     "token_ids_logprob": [7, 8], "return_text_in_logprobs": True},
])
def test_a_stream_ends_with_what_the_reply_is_and_every_chunk_goes_on_from_the_last(server, fields):
    wanted = generate(server, n_new=150, **fields)
    is_list = isinstance(wanted, list)
    chunks = stream(server, n_new=150, **fields)
    assert list(chunks) and set(chunks) == (set(range(len(wanted))) if is_list else {None})
    for index, events in chunks.items():
        assert timeless(events[-1]) == timeless(wanted[index] if is_list else wanted)
        assert "e2e_latency" in events[-1]["meta_info"]
        n = 0
        for event, before in zip(events, [None] + events):
            meta = event["meta_info"]
            assert meta["completion_tokens"] == len(event["output_ids"]) > n
            n = meta["completion_tokens"]
            assert (meta["finish_reason"] is None) == (event is not events[-1])
            if before:
                assert event["text"].startswith(before["text"])
                assert event["output_ids"][: len(before["output_ids"])] == before["output_ids"]
            if fields.get("return_logprob"):
                assert len(meta["output_token_logprobs"]) == len(meta["output_top_logprobs"]) == n
                assert meta["input_token_logprobs"] == wanted["meta_info"]["input_token_logprobs"]
    assert all(len(events) > 1 for events in chunks.values())


def test_ends_say_why(server):
    base = generate(server, text="Once upon a time", n_new=30)
    text, outputs = base["text"], base["output_ids"]
    end = outputs[4]
    at = outputs.index(end)
    stopped = generate(server, text="Once upon a time", n_new=30, sampling={**GREEDY, "stop_token_ids": [end]})
    assert stopped["meta_info"]["finish_reason"] == {"type": "stop", "matched": end}
    assert stopped["output_ids"] == outputs[: at + 1]
    stop = next(text[i : i + 3] for i in range(3, len(text)) if "\ufffd" not in text[i : i + 3] and len(text[i : i + 3]) == 3)
    for extra, tail in (({}, ""), ({"no_stop_trim": True}, stop)):
        result = generate(server, text="Once upon a time", n_new=30, sampling={**GREEDY, "stop": stop, **extra})
        assert result["meta_info"]["finish_reason"] == {"type": "stop", "matched": stop}
        assert result["text"] == text[: text.index(stop)] + tail


def test_defaults_are_128_tokens_or_what_fits(server):
    assert len(generate(server, text="Hello", n_new=None)["output_ids"]) == 128
    result = generate(server, input_ids=ids("long", 500), n_new=None)
    assert len(result["output_ids"]) == 12
    assert refused(server, "max_new_tokens", input_ids=ids("long", 500), n_new=13)
    assert refused(server, "input_ids", input_ids=ids("long", 512), n_new=1)
    assert refused(server, "text", text="Hello " * 3000, n_new=1)
    empty = generate(server, text="Hello", n_new=0)
    assert empty["text"] == "" and empty["output_ids"] == []


# ---- logprobs


def complete(server, **fields):
    answer = server.post("/v1/completions", {"temperature": 0, "ignore_eos": True, "max_tokens": 6, **fields})
    assert answer.status == 200, answer.body
    return answer.json()["choices"][0]


def near(a, b):
    return a == b or math.isclose(a, b, rel_tol=1e-6)


def test_logprobs_are_those_of_completions(server):
    prompt = ids("lp", 50)
    echo = complete(server, prompt=prompt, echo=True, logprobs=4)
    meta = generate(server, input_ids=prompt, n_new=6, return_logprob=True, logprob_start_len=0,
                    top_logprobs_num=4, return_text_in_logprobs=True)["meta_info"]
    tokens = meta["input_token_logprobs"] + meta["output_token_logprobs"]
    tops = meta["input_top_logprobs"] + meta["output_top_logprobs"]
    assert [id for _, id, _ in tokens[:50]] == prompt
    assert len(tokens) == len(tops) == 56
    assert tokens[0][0] is None and tops[0] is None
    for i, ((logprob, _, text), top) in enumerate(zip(tokens, tops)):
        assert logprob == echo["logprobs"]["token_logprobs"][i]
        name = echo["logprobs"]["tokens"][i]
        assert text == name or name.startswith("bytes:") and "\ufffd" in text
        if top:
            assert len(top) == 4 and top == sorted(top, key=lambda t: -t[0])
            assert all(t[0] in echo["logprobs"]["top_logprobs"][i].values() for t in top)


@pytest.mark.parametrize("start_len", [0, 1, 37, 58, 59, 60])
def test_prompt_logprobs_behind_a_cached_prefix_are_those_computed_cold(server, start, start_len):
    prompt = ids(f"cold {start_len}", 60)
    asked = dict(input_ids=prompt, return_logprob=True, logprob_start_len=start_len, top_logprobs_num=3,
                 token_ids_logprob=[3, 400])
    cold = generate(server, extra_key="cold", **asked)
    assert cold["meta_info"]["cached_tokens"] == 0
    generate(server, input_ids=prompt)
    for _ in range(2):  # B11: again and again over what is cached.
        warm = generate(server, **asked)
        assert warm["meta_info"]["cached_tokens"] == min(start_len, 59), "what no logprob needs comes from the cache"
        assert timeless(warm) == timeless(cold)
    lists = cold["meta_info"]["input_token_logprobs"]
    assert [id for _, id, _ in lists] == prompt[start_len:]
    assert [logprob is None for logprob, _, _ in lists] == [i == 0 for i in range(60 - start_len)]


def test_without_a_start_no_prompt_logprobs_and_the_cache_is_used(server):
    prompt = ids("nostart", 40)
    generate(server, input_ids=prompt)
    meta = generate(server, input_ids=prompt, return_logprob=True)["meta_info"]
    assert meta["input_token_logprobs"] == [] and len(meta["output_token_logprobs"]) == 8
    assert meta["cached_tokens"] == 39
    assert "input_top_logprobs" not in meta and "output_token_ids_logprobs" not in meta
    assert all(text is None for _, _, text in meta["output_token_logprobs"])
    assert "output_token_logprobs" not in generate(server, input_ids=prompt)["meta_info"]


def test_named_ids_have_the_logprobs_that_the_best_have(server):
    asked = dict(input_ids=ids("named", 30), return_logprob=True, logprob_start_len=10)
    meta = generate(server, top_logprobs_num=20, **asked)["meta_info"]
    for side in ("input", "output"):
        for at, top in enumerate(meta[f"{side}_top_logprobs"]):
            if top is None or at > 3:
                continue
            wanted = [[id, logprob] for logprob, id, _ in reversed(top)]
            named = generate(server, token_ids_logprob=[id for id, _ in wanted], **asked)["meta_info"]
            assert [[id, logprob] for logprob, id, _ in named[f"{side}_token_ids_logprobs"][at]] == wanted
    every = [generate(server, token_ids_logprob=list(range(first, first + 64)), **asked) for first in range(0, 512, 64)]
    total = sum(math.exp(t[0]) for part in every for t in part["meta_info"]["output_token_ids_logprobs"][0])
    assert abs(total - 1) < 1e-4, "probabilities of the whole vocabulary"
    lists = generate(server, input_ids=[ids("named", 30)] * 2, return_logprob=True, token_ids_logprob=[[5, 6], None])
    assert len(lists[0]["meta_info"]["output_token_ids_logprobs"][0]) == 2
    assert "output_token_ids_logprobs" not in lists[1]["meta_info"]


def test_fields_of_logprobs_for_each_prompt(server):
    prompt = ids("each", 12)
    for none, nothing in ((False, 0), (None, None)):
        first, second = generate(server, input_ids=[prompt, prompt], return_logprob=[True, none],
                                 logprob_start_len=[4, -1], top_logprobs_num=[2, nothing])
        assert len(first["meta_info"]["input_token_logprobs"]) == 8
        assert len(first["meta_info"]["output_top_logprobs"][0]) == 2
        assert "output_token_logprobs" not in second["meta_info"]


def test_e4_e5_e6_logprobs_are_the_models_own_whatever_the_sampling(server):
    asked = dict(input_ids=ids("e5", 25), n_new=1, return_logprob=True, top_logprobs_num=20)
    raw = generate(server, **asked)["meta_info"]["output_top_logprobs"][0]
    first = raw[0][1]
    for sampling in ({"temperature": 0.01}, {"temperature": 5}, {"temperature": 0, "logit_bias": {str(first): -100}},
                     {"temperature": 0, "min_new_tokens": 1}, {"temperature": 1, "top_k": 1},
                     {"temperature": 0, "repetition_penalty": 1.8}, {"temperature": 1, "top_p": 0.01}):
        meta = generate(server, sampling=sampling, **asked)["meta_info"]
        top, (logprob, id, _) = meta["output_top_logprobs"][0], meta["output_token_logprobs"][0]
        assert top == raw, sampling
        assert logprob <= 0 and math.isfinite(logprob) and logprob > -100
        assert all(a[0] >= b[0] for a, b in zip(top, top[1:]))
        assert sum(math.exp(t[0]) for t in top) <= 1 + 1e-5
        if sampling["temperature"] == 0.01:
            assert (id, logprob) == (first, raw[0][0])
    choice = complete(server, prompt=ids("e5", 25), max_tokens=1, logprobs=1)
    assert choice["logprobs"]["token_logprobs"] == [raw[0][0]]  # E4: not null.


# ---- ends from outside


def test_one_prompt_of_a_batch_is_aborted_by_its_exact_id(server):
    body = {"text": ["Hello", "Once"], "rid": "pair", "stream": True,
            "sampling_params": {**GREEDY, "max_new_tokens": 400}}
    sock = server.start_post("/generate", body)
    got = read_until(sock, b'"index":1')
    assert server.post("/abort_request", {"rid": "pai"}).json()["aborted"] == 0
    assert server.post("/abort_request", {"rid": "pair_1"}).json()["aborted"] == 1
    events, is_done = stream_events(Answer(got + read_all(sock)).body)
    ends = {e["index"]: e["meta_info"]["finish_reason"] for e in events if e["meta_info"]["finish_reason"]}
    assert is_done and ends[0] == {"type": "length", "length": 400}
    assert ends[1]["type"] == "abort" and ends[1]["message"] and set(ends[1]) == {"type", "message", "status_code", "err_type"}
    sock = server.start_post("/generate", body)
    got = read_until(sock, b'"index":1')
    assert server.post("/abort_request", {"rid": "pair"}).json()["aborted"] == 1
    events, _ = stream_events(Answer(got + read_all(sock)).body)
    assert [e["meta_info"]["finish_reason"]["type"] for e in events if e["meta_info"]["finish_reason"]] == ["abort"] * 2
    server.wait_idle()


def test_a_client_that_leaves_ends_its_batch(server):
    server.wait_idle()
    for is_streamed in (True, False):
        body = {"text": ["Hello"] * 8, "stream": is_streamed, "sampling_params": {**GREEDY, "max_new_tokens": 480}}
        sock = server.start_post("/generate", body)
        server.wait(lambda health: health["requests_running"] > 0)
        sock.close()
        server.wait_idle()


def test_keys_of_a_batch_separate_what_is_cached(server):
    prompt = ids("keys", 60)
    first = generate(server, input_ids=[prompt] * 3, extra_key=["a", "b", None], cache_salt=[None, None, "c"])
    assert [result["meta_info"]["cached_tokens"] for result in first] == [0, 0, 0]
    again = generate(server, input_ids=prompt, extra_key="b")
    assert again["meta_info"]["cached_tokens"] == 59
    assert generate(server, input_ids=prompt, extra_key="d")["meta_info"]["cached_tokens"] == 0


# ---- refusals


def test_what_does_not_fit_the_prompts_is_refused_by_name(server):
    two = {"input_ids": [[5], [6]]}
    refused(server, "text")
    refused(server, "input_ids", text="a", input_ids=[5])
    refused(server, "text", text=[5])
    refused(server, "text", text=[])
    refused(server, "text", text=["a", 5])
    refused(server, "text", text={})
    for wrong in ("a", [], [[]], ["a"], [-1], [1.5], [[5], 6], [10**6], {}):
        refused(server, "input_ids", input_ids=wrong)
    for field, item in (("rid", "a"), ("return_logprob", True), ("logprob_start_len", -1), ("top_logprobs_num", 0),
                        ("extra_key", "a"), ("cache_salt", "a"), ("return_text_in_logprobs", True)):
        refused(server, field, **two, **{field: [item]})
        refused(server, field, **two, **{field: [item] * 3})
        refused(server, field, text="a", **{field: [item]})
    for wrong in (5, "a", [{}], True):
        assert server.post("/generate", {**two, "sampling_params": wrong}).error()["param"] == "sampling_params"
    params = [{"n": 1}, {"n": 2}]
    assert server.post("/generate", {**two, "sampling_params": params}).error()["param"] == "n"
    assert server.post("/generate", {"text": "a", "sampling_params": [{}]}).error()["param"] == "sampling_params"
    server.wait_idle()


NUMBERS = {
    "temperature": [-1, "1", 1e39], "top_p": [0, 1.1], "top_k": [-2, 1.5], "min_p": [-0.1, 1.1],
    "repetition_penalty": [0, 2.1], "presence_penalty": [2.1], "frequency_penalty": [-2.1], "n": [0, 129, True],
    "max_new_tokens": [-1, 1.5, "1"], "min_new_tokens": [-1, 9], "sampling_seed": [1.5, "a"],
    "stop": [5, [""], ["a"] * 17, "a" * 257], "stop_token_ids": [[-1], [1] * 65, 5], "logit_bias": [5, {"a": 1}, {"1": 101}],
    "ignore_eos": [1], "skip_special_tokens": ["a"], "no_stop_trim": [0],
    # Known, and not supported.
    "regex": ["a"], "json_schema": ["{}"], "ebnf": ["a"], "structural_tag": ["{}"], "stop_regex": ["a"],
    "spaces_between_special_tokens": [False], "custom_params": [{}], "stream_interval": [2],
    # Other servers' words.
    "max_tokens": [5], "min_tokens": [5], "seed": [5],
}
TOP = {
    "stream": [1, "true"], "return_logprob": [1], "logprob_start_len": [-2, 1.5, "0"], "top_logprobs_num": [-1, 21, "1"],
    "token_ids_logprob": [5, ["a"], [-1], [10**6], [1] * 65], "return_text_in_logprobs": [1], "priority": ["a", 1.5],
    "rid": [5, "", "a" * 129], "extra_key": [5, "a" * 1025], "cache_salt": [5], "model": [5],
    "lora_path": ["a"], "input_embeds": [[[0.5]]], "image_data": ["a"], "return_hidden_states": [True],
    "session_params": [{}], "custom_logit_processor": ["a"], "data_parallel_rank": [1], "routed_dp_rank": [1],
    "bootstrap_host": ["a"], "background": [True],
}


@pytest.mark.parametrize("field", NUMBERS)
def test_sampling_fields_are_refused_by_name(server, field):
    for value in NUMBERS[field]:
        refused(server, field, text="a", sampling={field: value})
    assert post(server, text="a", n_new=1, sampling={"max_new_tokens": 1, field: None}).status == 200


@pytest.mark.parametrize("field", TOP)
def test_fields_are_refused_by_name(server, field):
    needs = {"return_logprob": True} if "logprob" in field and field != "return_logprob" else {}
    for value in TOP[field]:
        refused(server, field, text="a", **needs, **{field: value})
    answer = post(server, text="a", n_new=1, **{field: None})
    assert answer.status == 200 and "x-radish-warning" not in answer.headers


def test_what_needs_return_logprob_is_refused_without_it(server):
    for field, value in (("top_logprobs_num", 1), ("token_ids_logprob", [5]), ("logprob_start_len", 0)):
        assert "return_logprob" in refused(server, field, text="a", **{field: value})
    assert "4" in refused(server, "logprob_start_len", text="Hello", return_logprob=True, logprob_start_len=5)


def test_unknown_fields_are_served_and_named(server):
    answer = post(server, text="a", foo=1, sampling={"bar": 2})
    assert answer.status == 200
    assert "foo" in answer.headers["x-radish-warning"] and "bar" in answer.headers["x-radish-warning"]


def test_other_methods_and_broken_bodies(server):
    answer = server.request("GET", "/generate")
    assert answer.status == 405 and answer.headers["allow"] == "POST, PUT"
    for body in (b"", b"{", b"[]", b"5", b'{"text":"\xff"}', b'{"text":"\\ud800"}'):
        assert server.post("/generate", body).status == 400
    assert server.raw(make_request("PUT", "/generate", b"{}", ())).error()["param"] == "text"


# ---- benchmarks


def bodies_of_benchmarks(model):
    """As SGLang's bench_serving and vLLM's `bench serve` write them."""
    native = {"text": "Once upon a time", "sampling_params": {"temperature": 0.0, "max_new_tokens": 8, "ignore_eos": True},
              "stream": True, "lora_path": None, "return_logprob": False, "logprob_start_len": -1}
    sglang_oai = {"model": model, "prompt": "Once upon a time", "temperature": 0.0, "best_of": 1, "max_tokens": 8,
                  "stream": True, "ignore_eos": True}
    vllm = {"model": model, "prompt": "Once upon a time", "temperature": 0.0, "repetition_penalty": 1.0, "max_tokens": 8,
            "logprobs": None, "stream": True, "stream_options": {"include_usage": True}, "ignore_eos": True}
    messages = [{"role": "user", "content": [{"type": "text", "text": "Once upon a time"}]}]
    vllm_chat = {"model": model, "messages": messages, "temperature": 0.0, "max_completion_tokens": 8, "stream": True,
                 "stream_options": {"include_usage": True}, "ignore_eos": True}
    sglang_chat = {"model": model, "messages": [{"role": "user", "content": "Once upon a time"}], "temperature": 0.0,
                   "max_tokens": 8, "max_completion_tokens": 8, "stream": True, "ignore_eos": True}
    return [
        ("/generate", native),
        ("/generate", {**native, "text": ..., "input_ids": ids("bench", 20), "return_logprob": True}),
        ("/generate", {**native, "stream": False}),
        ("/generate", {**native, "image_data": [], "data_parallel_rank": None, "routed_dp_rank": 0, "return_routed_experts": False}),
        ("/v1/completions", sglang_oai),
        ("/v1/completions", vllm),
        ("/v1/chat/completions", vllm_chat),
        ("/v1/chat/completions", sglang_chat),
    ]


def test_bodies_of_benchmarks_are_served_without_a_warning(server):
    model = server.request("GET", "/v1/models").json()["data"][0]["id"]
    for path, body in bodies_of_benchmarks(model):
        answer = server.post(path, {k: v for k, v in body.items() if v is not ...})
        assert answer.status == 200, answer.body
        assert "x-radish-warning" not in answer.headers, (body, answer.headers)
        if not body["stream"]:
            assert answer.json()["meta_info"]["completion_tokens"] == 8
            continue
        events, is_done = stream_events(answer.body)
        assert is_done
        if path == "/generate":
            # What bench_serving reads of every chunk.
            assert [event["meta_info"]["completion_tokens"] for event in events] == sorted(
                event["meta_info"]["completion_tokens"] for event in events)
            assert events[-1]["meta_info"]["completion_tokens"] == 8 and events[-1]["text"]
        elif "stream_options" in body:
            assert events[-1]["usage"]["completion_tokens"] == 8 and events[-1]["choices"] == []
