"""Every field against values it must not take: 400 that names it, never a crash, never a 5xx."""
import pytest

HUGE = [10**18, -(10**18), 10**30, -(10**30), 1e300, -1e300, 2**31, 2**32, 2**63, 2**64]
NUMBERS = {
    # field: values that are refused by both endpoints
    "temperature": [-0.01, -1, 1e39],
    "top_p": [0, -0.5, 1.0001, 1e-60],
    "top_k": [-2, 1.5],
    "min_p": [-0.01, 1.01],
    "repetition_penalty": [0, -1, 2.01],
    "presence_penalty": [-2.01, 2.01],
    "frequency_penalty": [-2.01, 2.01],
    "n": [0, -1, 129, 1.5],
    "max_tokens": [-1, 1.5],
    "min_tokens": [-1, 1.5],
    "best_of": [0, -1, 2, 1.5],
}
LARGE_IS_FINE = {"temperature"}  # Any finite temperature; a float cannot hold 1e39.


def ask(server, chat, **fields):
    if chat:
        body = {"messages": [{"role": "user", "content": "a"}], "max_tokens": 1, **fields}
        return server.post("/v1/chat/completions", body)
    return server.post("/v1/completions", {"prompt": "a", "max_tokens": 1, **fields})


def check_refused(answer, field):
    assert answer.status == 400, (field, answer.status, answer.body)
    error = answer.error()
    assert error["param"] == field, error
    assert field in error["message"] or field == "max_tokens"


@pytest.mark.parametrize("chat", [True, False])
@pytest.mark.parametrize("field", NUMBERS)
def test_numbers_of_the_wrong_type_sign_or_size(server, field, chat):
    for value in NUMBERS[field] + ["1", "NaN", True, [], {}, [1]]:
        check_refused(ask(server, chat, **{field: value}), field)
    for value in HUGE:
        answer = ask(server, chat, **{field: value})
        if answer.status == 400:
            assert answer.error()["param"] == field
        else:
            assert answer.status == 200 and field in LARGE_IS_FINE | {"top_k"}, (field, value)
    assert ask(server, chat, **{field: None}).status == 200


@pytest.mark.parametrize("chat", [True, False])
def test_seeds_of_every_size(server, chat):
    for value in (0, -1, 2**31, 2**63 - 1, 2**63, 2**64 - 1, -(2**63)):
        assert ask(server, chat, seed=value).status == 200, value
    for value in (1.5, "1", True, [], 1e300, 10**30):
        check_refused(ask(server, chat, seed=value), "seed")


def test_logprobs(server):
    for value in (1, "true", [], 5):
        check_refused(ask(server, True, logprobs=value), "logprobs")
    for value in (-1, 21, 10**20, 1.5, "1", True):
        check_refused(ask(server, True, logprobs=True, top_logprobs=value), "top_logprobs")
        check_refused(ask(server, False, logprobs=value), "logprobs")
    check_refused(ask(server, True, top_logprobs=3), "top_logprobs")


@pytest.mark.parametrize("chat", [True, False])
def test_lists(server, chat):
    for value in (5, "", [""], [5], ["a"] * 17, "a" * 257, ["a\x00"], {}, True):
        check_refused(ask(server, chat, stop=value), "stop")
    for value in (5, [-1], [1.5], ["1"], [2**31], [10**9], [1] * 65, {}, "1"):
        check_refused(ask(server, chat, stop_token_ids=value), "stop_token_ids")
    for value in (
        5, [], "a", {"a": 1}, {"-1": 1}, {"1": 101}, {"1": "1"}, {"1": None}, {"999999999": 1},
        {"1": 1e300}, {str(i): 0 for i in range(1025)}, {"1.5": 1}, {"": 1}, {"99999999999999": 1},
    ):
        check_refused(ask(server, chat, logit_bias=value), "logit_bias")
    for value in ([], ["a", "b"], "abc", None):
        assert ask(server, chat, stop=value).status == 200


@pytest.mark.parametrize("chat", [True, False])
def test_switches_and_names(server, chat):
    for field in ("stream", "ignore_eos", "skip_special_tokens", "no_stop_trim"):
        for value in (0, 1, "true", [], {}):
            check_refused(ask(server, chat, **{field: value}), field)
    for field in ("model", "rid"):
        for value in (5, [], {}, True):
            check_refused(ask(server, chat, **{field: value}), field)
    check_refused(ask(server, chat, stream_options={"include_usage": True}), "stream_options")
    check_refused(ask(server, chat, stream=True, stream_options=5), "stream_options")


def test_max_tokens_and_max_completion_tokens(server):
    check_refused(ask(server, True, max_completion_tokens=2), "max_completion_tokens")
    assert ask(server, True, max_completion_tokens=1).status == 200
    for value in (-1, 1.5, "1", True, 10**20):
        check_refused(ask(server, True, max_tokens=None, max_completion_tokens=value),
                      "max_completion_tokens")
    check_refused(ask(server, False, min_tokens=2), "min_tokens")


def test_zero_tokens(server):
    for chat in (True, False):
        answer = ask(server, chat, max_tokens=0)
        assert answer.status == 200
        assert answer.json()["usage"]["completion_tokens"] == 0
        assert answer.json()["choices"][0]["finish_reason"] == "length"


PROMPTS = [None, [], [[]], [[5], []], 5, {}, True, ["a", 5], [5, "a"], ["a", [5]], [[5], "a"], [-1],
           [1.5], [None], [10**9], [2**31], [2**64], [[[5]]], ["a"] * 257, [True]]


def test_prompts_that_are_none(server):
    assert server.post("/v1/completions", {"max_tokens": 1}).error()["param"] == "prompt"
    for prompt in PROMPTS:
        answer = server.post("/v1/completions", {"prompt": prompt, "max_tokens": 1})
        assert answer.status == 400, prompt
        assert answer.error()["param"] == "prompt"
    server.wait_idle()


def test_empty_prompt_is_either_served_by_its_bos_or_refused(server):
    answer = server.post("/v1/completions", {"prompt": "", "max_tokens": 1})
    assert answer.status in (200, 400)
    if answer.status == 400:
        assert answer.error()["param"] == "prompt"


MESSAGES = [
    None, [], {}, "hi", [5], [{}], [{"role": "user"}], [{"content": "a"}], [None],
    [{"role": "user", "content": 5}], [{"role": "user", "content": None}],
    [{"role": "user", "content": [5]}], [{"role": "user", "content": {"a": 1}}],
    [{"role": "user", "content": [{"type": "text"}]}], [{"role": 5, "content": "a"}],
    [{"role": "user", "content": [{"type": "image_url", "image_url": {"url": "x"}}]}],
    [{"role": "user", "content": [{"type": "input_audio"}]}], [{"role": "robot", "content": "a"}],
    [{"role": "assistant", "tool_calls": 5}],
    [{"role": "assistant", "tool_calls": [{"function": {"name": "f", "arguments": "{"}}]}],
]


def test_messages_that_are_none(server):
    assert server.post("/v1/chat/completions", {}).error()["param"] == "messages"
    for messages in MESSAGES:
        answer = server.post("/v1/chat/completions", {"messages": messages})
        assert answer.status == 400, messages
        assert answer.error()["param"].startswith("messages"), answer.body
    server.wait_idle()


UNSUPPORTED = {
    "response_format": {"type": "json_object"},
    "json_schema": "{}",
    "regex": "a+",
    "ebnf": "root ::= 'a'",
    "guided_json": {},
    "stop_regex": "a",
    "use_beam_search": True,
    "best_of": 3,
    "lora_path": "x",
    "prompt_logprobs": 1,
    "truncate_prompt_tokens": 5,
    "return_hidden_states": True,
    "store": True,
}
UNSUPPORTED_CHAT = {
    "functions": [{"name": "f"}],
    "function_call": {"name": "f"},
    "tool_choice": "required",
    "parallel_tool_calls": False,
    "modalities": ["text", "audio"],
    "audio": {"voice": "x"},
    "chat_template": "x",
    "reasoning_effort": "high",
    "web_search_options": {},
    "prediction": {"type": "content"},
}


def test_known_but_unsupported_fields_are_400(server):
    for field, value in UNSUPPORTED.items():
        for chat in (True, False):
            check_refused(ask(server, chat, **{field: value}), field)
    for field, value in UNSUPPORTED_CHAT.items():
        check_refused(ask(server, True, **{field: value}), field)
    check_refused(ask(server, False, suffix="x"), "suffix")


def test_words_of_other_servers_are_400_with_the_right_one(server):
    for field, value, word in [("n_predict", 4, "max_tokens"), ("max_new_tokens", 4, "max_tokens"),
                               ("repeat_penalty", 1.3, "repetition_penalty"), ("sampling_seed", 1, "seed"),
                               ("stop_sequences", ["a"], "stop"), ("extra_body", {"top_k": 1}, "beside")]:
        for chat in (True, False):
            answer = ask(server, chat, **{field: value})
            check_refused(answer, field)
            assert word in answer.error()["message"]
    check_refused(ask(server, False, max_completion_tokens=4), "max_completion_tokens")
    check_refused(ask(server, True, enable_thinking=False), "enable_thinking")
    served = ask(server, False, n_predict=-1, repeat_penalty=1.0, mirostat=0, cache_prompt=True, max_tokens=1)
    assert served.status == 200 and "x-radish-warning" not in served.headers
    for field in ("temperature", "max_new_tokens", "max_tokens", "stop"):
        answer = server.post("/generate", {"text": "a", field: 1})
        check_refused(answer, field)
        assert "sampling_params" in answer.error()["message"]


def test_what_is_unknown_inside_an_object_or_of_an_abort_is_named(server):
    options = {"include_usage": True, "include_usages": True}
    answer = ask(server, False, stream=True, stream_options=options)
    assert answer.headers["x-radish-warning"] == "unknown field ignored: include_usages"
    answer = server.post("/abort_request", {"rid": "nobody", "request": "x"})
    assert answer.headers["x-radish-warning"] == "unknown field ignored: request"


def test_known_fields_with_what_happens_anyway_are_served_without_a_warning(server):
    fields = {name: None for name in {**UNSUPPORTED, **UNSUPPORTED_CHAT} if name != "best_of"}
    fields |= {"response_format": {"type": "text"}, "parallel_tool_calls": True, "best_of": 1,
               "modalities": ["text"], "priority": 0, "extra_key": "", "user": "u", "metadata": {"a": "b"},
               "cache_salt": "s", "tools": [], "tool_choice": "auto"}
    answer = ask(server, True, **fields)
    assert answer.status == 200, answer.body
    assert "x-radish-warning" not in answer.headers


def test_tools_reach_the_template_and_the_reply_is_text(server):
    tools = [{"type": "function", "function": {"name": "f", "parameters": {}}}]
    assert ask(server, True, tools=tools).status == 200
    assert ask(server, True, tools=tools, tool_choice="none").status == 200
    check_refused(ask(server, True, tools=5), "tools")
    for tool in (5, {}, {"type": "function", "function": {}}, {"function": {"name": ""}},
                 {"type": "custom", "function": {"name": "f"}}):
        check_refused(ask(server, True, tools=[tools[0], tool]), "tools[1]")
    check_refused(ask(server, True, tools=tools, tool_choice="sometimes"), "tool_choice")
