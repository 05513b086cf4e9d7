"""The API as the openai package sees it."""
import concurrent.futures
import math
import time

import openai
import pytest

CHAT = [{"role": "user", "content": "Hello"}]
LONG = {"ignore_eos": True}


def collect(stream):
    """Text, finish reasons and usage of a stream of chat chunks, per choice."""
    texts, reasons, usage, roles = {}, {}, None, {}
    for chunk in stream:
        usage = chunk.usage or usage
        for choice in chunk.choices:
            if choice.delta.role:
                assert choice.index not in texts, "the role comes first"
                roles[choice.index] = choice.delta.role
            texts[choice.index] = texts.get(choice.index, "") + (choice.delta.content or "")
            if choice.finish_reason:
                assert choice.index not in reasons, "one finish per choice"
                reasons[choice.index] = choice.finish_reason
    return texts, reasons, usage, roles


def test_models_list_and_retrieve(server):
    client = server.client()
    name = client.models.list().data[0].id
    assert client.models.retrieve(name).id == name
    with pytest.raises(openai.NotFoundError) as caught:
        client.models.retrieve("no/such model")
    assert caught.value.code == "model_not_found"


def test_chat_reply(server):
    reply = server.client().chat.completions.create(
        model="any", messages=CHAT, max_completion_tokens=8, temperature=0, extra_body=LONG
    )
    choice = reply.choices[0]
    assert reply.object == "chat.completion" and reply.id.startswith("chatcmpl-")
    assert choice.message.role == "assistant" and isinstance(choice.message.content, str)
    assert choice.finish_reason == "length" and choice.logprobs is None
    assert reply.usage.completion_tokens == 8
    assert reply.usage.total_tokens == reply.usage.prompt_tokens + 8
    assert 0 <= reply.usage.prompt_tokens_details.cached_tokens < reply.usage.prompt_tokens


def test_chat_stream_says_what_the_reply_says(server):
    client = server.client()
    asked = dict(model="any", messages=CHAT, max_tokens=24, temperature=0, extra_body=LONG)
    whole = client.chat.completions.create(**asked)
    stream = client.chat.completions.create(
        **asked, stream=True, stream_options={"include_usage": True}
    )
    texts, reasons, usage, roles = collect(stream)
    assert texts == {0: whole.choices[0].message.content}
    assert reasons == {0: "length"} and roles == {0: "assistant"}
    assert usage == whole.usage


def test_chat_stream_without_usage_has_none(server):
    stream = server.client().chat.completions.create(
        model="any", messages=CHAT, max_tokens=3, stream=True
    )
    assert all(chunk.usage is None and chunk.choices for chunk in stream)


def test_usage_in_every_chunk(server):
    stream = server.client().chat.completions.create(
        model="any",
        messages=CHAT,
        max_tokens=6,
        stream=True,
        stream_options={"include_usage": True, "continuous_usage_stats": True},
        extra_body=LONG,
    )
    counts = [chunk.usage.completion_tokens for chunk in stream]
    assert counts == sorted(counts) and counts[-1] == 6


def test_n_gives_n_choices(server):
    client = server.client()
    asked = dict(model="any", messages=CHAT, max_tokens=16, n=3, seed=7, extra_body=LONG)
    whole = client.chat.completions.create(**asked)
    assert [choice.index for choice in whole.choices] == [0, 1, 2]
    assert len({choice.message.content for choice in whole.choices}) == 3
    assert whole.usage.completion_tokens == 48
    texts, reasons, _, _ = collect(client.chat.completions.create(**asked, stream=True))
    assert texts == {choice.index: choice.message.content for choice in whole.choices}
    assert reasons == {0: "length", 1: "length", 2: "length"}


def check_tops(tokens, n_top):
    for token in tokens:
        assert len(token.top_logprobs) == n_top
        tops = [top.logprob for top in token.top_logprobs]
        assert tops == sorted(tops, reverse=True)
        assert all(math.isfinite(value) and value <= 1e-5 for value in tops + [token.logprob])
        assert sum(math.exp(value) for value in tops) <= 1.001


def test_chat_logprobs(server):
    client = server.client()
    asked = dict(
        model="any",
        messages=CHAT,
        max_tokens=12,
        temperature=0,
        logprobs=True,
        top_logprobs=5,
        extra_body=LONG,
    )
    reply = client.chat.completions.create(**asked)
    tokens = reply.choices[0].logprobs.content
    assert len(tokens) == 12
    check_tops(tokens, 5)
    assert all(token.top_logprobs[0].logprob == token.logprob for token in tokens)  # greedy
    said = b"".join(bytes(token.bytes) for token in tokens).decode(errors="replace")
    assert said == reply.choices[0].message.content

    streamed = []
    for chunk in client.chat.completions.create(**asked, stream=True):
        for choice in chunk.choices:
            if choice.logprobs:
                streamed += choice.logprobs.content
    assert streamed == tokens


def test_chat_logprobs_without_tops(server):
    reply = server.client().chat.completions.create(
        model="any", messages=CHAT, max_tokens=2, logprobs=True, extra_body=LONG
    )
    assert [token.top_logprobs for token in reply.choices[0].logprobs.content] == [[], []]


def test_completion_logprobs_and_echo(server):
    client = server.client()
    reply = client.completions.create(
        model="any", prompt="Hello there", max_tokens=4, echo=True, logprobs=3, temperature=0,
        extra_body=LONG,
    )
    choice = reply.choices[0]
    lists = choice.logprobs
    n = reply.usage.total_tokens
    assert choice.text.startswith("Hello there")
    assert len(lists.tokens) == len(lists.token_logprobs) == len(lists.text_offset) == n
    assert lists.token_logprobs[0] is None and lists.top_logprobs[0] is None
    for token, value, top in list(zip(lists.tokens, lists.token_logprobs, lists.top_logprobs))[1:]:
        assert math.isfinite(value) and 3 <= len(top) <= 4 and top[token] == value
    for token, offset in zip(lists.tokens, lists.text_offset):
        if not token.startswith("bytes:"):
            assert choice.text[offset : offset + len(token)] == token

    scored = client.completions.create(
        model="any", prompt="Hello there", max_tokens=0, echo=True, logprobs=3
    )
    n_prompt = scored.usage.prompt_tokens
    assert scored.choices[0].text == "Hello there" and scored.usage.completion_tokens == 0
    assert scored.choices[0].logprobs.token_logprobs == lists.token_logprobs[:n_prompt]


def test_completion_prompt_forms_agree(server):
    client = server.client()
    asked = dict(model="any", max_tokens=10, temperature=0, extra_body=LONG)
    texts = [client.completions.create(prompt=p, **asked).choices[0].text for p in ("ab", "cd ef")]
    many = client.completions.create(prompt=["ab", "cd ef"], **asked)
    assert [choice.text for choice in many.choices] == texts
    ids = client.completions.create(prompt=[[5, 6, 7], [8]], echo=True, **asked)
    alone = client.completions.create(prompt=[5, 6, 7], echo=True, **asked)
    assert ids.choices[0].text == alone.choices[0].text and len(ids.choices) == 2
    assert ids.usage.prompt_tokens == 4


def test_completion_stream(server):
    client = server.client()
    asked = dict(model="any", prompt=["ab", "c"], n=2, max_tokens=8, seed=1, extra_body=LONG)
    whole = client.completions.create(**asked)
    texts = {}
    for chunk in client.completions.create(**asked, stream=True):
        for choice in chunk.choices:
            texts[choice.index] = texts.get(choice.index, "") + choice.text
    assert texts == {choice.index: choice.text for choice in whole.choices} and len(texts) == 4


def test_stop_strings_that_cross_tokens(server):
    """Every substring of a known answer stops it there, wherever the tokens end."""
    client = server.client()
    asked = dict(model="any", prompt="The", max_tokens=40, temperature=0, extra_body=LONG)
    text = client.completions.create(**asked).choices[0].text
    tried = 0
    for at in range(2, len(text) - 6, 3):
        stop = text[at : at + 5]
        if "\ufffd" in stop:
            continue
        tried += 1
        reply = client.completions.create(**asked, stop=["never said", stop]).choices[0]
        assert reply.text == text[: text.index(stop)]
        assert reply.finish_reason == "stop" and reply.matched_stop == stop
        streamed = client.completions.create(**asked, stop=[stop], stream=True)
        assert "".join(c.choices[0].text for c in streamed) == text[: text.index(stop)]
    assert tried, f"no stop string could be cut from {text!r}"


def test_stop_string_can_be_kept(server):
    client = server.client()
    asked = dict(model="any", prompt="The", max_tokens=40, temperature=0)
    text = client.completions.create(**asked, extra_body=LONG).choices[0].text
    stop = next(c for c in text if c != "\ufffd")
    kept = client.completions.create(**asked, stop=stop, extra_body={**LONG, "no_stop_trim": True})
    assert kept.choices[0].text == text[: text.index(stop) + len(stop)]


def test_stop_token_ids(server):
    client = server.client()
    asked = dict(model="any", prompt="The", max_tokens=20, temperature=0, logprobs=0)
    reply = server.post(
        "/v1/completions",
        dict(prompt=[5], max_tokens=20, temperature=0, ignore_eos=True, stop_token_ids=list(range(64))),
    ).json()["choices"][0]
    if reply["finish_reason"] == "stop":
        assert 0 <= reply["matched_stop"] < 64
    assert client.completions.create(**asked).choices[0].finish_reason in ("length", "stop")


def test_seeds(server):
    client = server.client()

    def ask(**more):
        return client.completions.create(
            model="any", prompt="Hello", max_tokens=24, temperature=1, extra_body=LONG, **more
        ).choices[0].text

    assert ask(seed=1) == ask(seed=1)
    assert ask(seed=2**63 - 1) == ask(seed=2**63 - 1) and ask(seed=-3) == ask(seed=-3)
    assert len({ask(seed=seed) for seed in range(5)}) == 5
    assert len({ask() for _ in range(5)}) == 5
    assert len({ask(seed=-1) for _ in range(5)}) == 5
    assert len({client.completions.create(
        model="any", prompt="Hello", max_tokens=1, temperature=9, seed=seed, extra_body={"top_k": 0}
    ).choices[0].text for seed in range(30)}) > 10


def test_seeded_text_is_the_same_alone_and_under_load(server):
    client = server.client()

    def ask(seed):
        return client.completions.create(
            model="any", prompt="Hello", max_tokens=24, seed=seed, extra_body=LONG
        ).choices[0].text

    alone = [ask(seed) for seed in range(8)]
    with concurrent.futures.ThreadPoolExecutor(16) as pool:
        loaded = list(pool.map(ask, [seed for seed in range(8) for _ in range(4)]))
    assert loaded == [text for text in alone for _ in range(4)]


def test_32_concurrent_chats_get_their_own_answers(server):
    client = server.client()

    def ask(i):
        return client.chat.completions.create(
            model="any",
            messages=[
                {"role": "system", "content": "You are a helpful assistant."},
                {"role": "user", "content": f"My number is {i * 7919 % 1000}. What is it?"},
            ],
            max_tokens=20,
            temperature=0,
            extra_body=LONG,
        ).choices[0].message.content

    alone = [ask(i) for i in range(32)]
    assert len(set(alone)) > 8  # The tiny model tells them apart.
    with concurrent.futures.ThreadPoolExecutor(32) as pool:
        assert list(pool.map(ask, range(32))) == alone
    server.wait_idle()


def test_penalties_and_bias_change_the_answer(server):
    client = server.client()

    def ask(**more):
        extra = {**LONG, **more.pop("extra", {})}
        return client.completions.create(
            model="any", prompt="Hello", max_tokens=40, temperature=0, extra_body=extra, **more
        ).choices[0].text

    plain = ask()
    forced = ask(logit_bias={"65": 100})
    assert forced != plain and len(set(forced)) == 1
    assert ask(logit_bias={"65": 100}, frequency_penalty=2, presence_penalty=2) != plain
    assert ask(extra={"top_k": 1}) == plain
    assert ask(extra={"repetition_penalty": 1.9}) != plain


def test_temperature_spreads_and_top_k_narrows(server):
    client = server.client()

    def texts(**extra):
        return {
            client.completions.create(
                model="any", prompt="Hello", max_tokens=8, seed=seed, temperature=1.5,
                extra_body={**LONG, **extra},
            ).choices[0].text
            for seed in range(4)
        }

    assert len(texts()) == 4
    assert len(texts(top_k=1)) == 1
    assert len(texts(top_p=1e-6)) == 1
    assert len(texts(min_p=1.0)) == 1


def test_min_tokens_holds_off_the_end(server):
    client = server.client()
    reply = client.completions.create(
        model="any", prompt="Hello", max_tokens=30, seed=3,
        extra_body={"min_tokens": 25},
    )
    assert reply.usage.completion_tokens >= 25


def test_response_ids_and_rid(server):
    client = server.client()
    ids = {
        client.completions.create(model="any", prompt="a", max_tokens=1).id for _ in range(10)
    }
    assert len(ids) == 10
    mine = client.completions.create(
        model="any", prompt="a", max_tokens=1, extra_body={"rid": "request 17"}
    )
    assert mine.id == "request 17"


def test_foreign_model_and_unknown_field_are_named_in_a_header_and_once_in_the_log(server):
    body = {"model": "gpt-of-somebody", "prompt": "a", "max_tokens": 1, "unheard_of": 1}
    for _ in range(3):
        answer = server.post("/v1/completions", body)
        assert answer.status == 200
        assert "unheard_of" in answer.headers["x-radish-warning"]
        assert "gpt-of-somebody" in answer.headers["x-radish-warning"]
    end = time.monotonic() + 10  # The log is read by a thread of its own.
    while "unheard_of" not in server.log() and time.monotonic() < end:
        time.sleep(0.01)
    assert server.log().count("unheard_of") == 1
    assert server.log().count("gpt-of-somebody") == 1


def test_content_parts_and_roles_in_capitals(server):
    client = server.client()
    asked = dict(model="any", max_tokens=12, temperature=0, extra_body=LONG)
    plain = client.chat.completions.create(
        messages=[{"role": "user", "content": "Hel\nlo"}], **asked
    )
    parts = client.chat.completions.create(
        messages=[{"role": "USER", "content": [{"type": "text", "text": "Hel"},
                                               {"type": "text", "text": "lo"}]}],
        **asked,
    )
    assert parts.usage.prompt_tokens == plain.usage.prompt_tokens
    assert parts.choices[0].message.content == plain.choices[0].message.content


def test_continue_final_message(server):
    """The prompt ends with the final message: what follows continues it."""
    client = server.client()
    base = [*CHAT, {"role": "assistant", "content": "Once upon"}]
    asked = dict(model="any", temperature=0)
    first = client.chat.completions.create(
        messages=base, max_tokens=6, extra_body={**LONG, "continue_final_message": True}, **asked
    )
    closed = client.chat.completions.create(
        messages=base, max_tokens=6, extra_body=LONG, **asked
    )
    assert first.usage.prompt_tokens < closed.usage.prompt_tokens
