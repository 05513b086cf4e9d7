"""Conversations on their way to the template, with the openai package where it can say so."""
import json
import os
import shutil
import time

import openai
import pytest

from conftest import MODEL

TOOLS = [{"type": "function",
          "function": {"name": "f", "description": "d",
                       "parameters": {"type": "object", "properties": {"x": {"type": "number"}}}}}]
CALL = {"id": "abcdef123", "type": "function",
        "function": {"name": "f", "arguments": '{"x": 1.0, "a": "é"}'}}

# Shows all that reaches it.
SHOW = """\
{%- if messages[0].content == 'boom' %}{{ raise_exception('Roles must alternate!') }}{% endif %}
{%- for m in messages %}{{ m | tojson }}
{% endfor %}
{{- tools | tojson }}|{{ documents | tojson }}|{{ enable_thinking }}|{{ add_generation_prompt }}"""

# As the templates of reasoning models with a developer's role.
DEVELOPER = """\
{%- for m in messages %}<{{ m.role }}>
{%- if m.role in ('system', 'developer') and m.content is not string %}
{%- for part in m.content %}[{{ part.text }}]{% endfor %}{% else %}{{ m.content | trim }}{% endif %}
{%- endfor %}{% if add_generation_prompt %}<assistant>{% endif %}"""

BOMB = "{% set x = 'x' * 100000000000 %}{{ x }}"


@pytest.fixture(scope="module")
def start_template(tmp_path_factory):
    from conftest import Server
    started = []

    def start(source):
        path = tmp_path_factory.mktemp("template") / "t.jinja"
        path.write_text(source)
        started.append(Server("--chat-template", str(path)))
        return started[-1]

    yield start
    for one in started:
        assert one.stop() == 0


@pytest.fixture(scope="module")
def show(start_template):
    return start_template(SHOW)


def render(server, messages, **fields):
    answer = server.post("/apply-template", {"messages": messages, **fields})
    assert answer.status == 200, answer.body
    return answer.json()["prompt"]


def seen(server, messages, **fields):
    """What the template saw of each message, and the other variables."""
    *lines, rest = render(server, messages, **fields).split("\n")
    return [json.loads(line) for line in lines], rest.split("|")


def user(content):
    return {"role": "user", "content": content}


def parts(*texts):
    return [{"type": "text", "text": text} for text in texts]


def test_variables_reach_the_template(show):
    messages, rest = seen(show, [user("u")])
    assert messages == [user("u")] and rest == ["null", "null", "", "True"]
    documents = [{"title": "t", "text": "é"}]
    _, rest = seen(show, [user("u")], tools=TOOLS, documents=documents,
                   add_generation_prompt=False, chat_template_kwargs={"enable_thinking": False})
    assert json.loads(rest[0]) == TOOLS and json.loads(rest[1]) == documents
    assert rest[2:] == ["False", "False"]
    _, rest = seen(show, [user("u")], tools=TOOLS, tool_choice="none")
    assert rest[0] == "null"


def test_parts_are_joined_unless_they_are_read(show, start_template):
    messages, _ = seen(show, [user(parts("one", "two")), user(parts("three")), user([])])
    assert [m["content"] for m in messages] == ["one\ntwo", "three", ""]
    reads = start_template(DEVELOPER)
    assert render(reads, [{"role": "developer", "content": parts("one", "two")},
                          {"role": "tool", "content": parts("one", "two")}, user("x")],
                  ) == "<developer>[one][two]<tool>one\ntwo<user>x<assistant>"


def test_developer_is_kept_for_templates_that_know_it(show, start_template):
    messages, _ = seen(show, [{"role": "developer", "content": "d"}, user("u")])
    assert messages[0] == {"role": "system", "content": "d"}
    knows = start_template(DEVELOPER)
    assert render(knows, [{"role": "Developer", "content": "d"}]) == "<developer>d<assistant>"


def test_calls_and_their_answers(show):
    as_object = {**CALL, "function": {"name": "f", "arguments": {"x": 1.0, "a": "é"}}}
    assistant = {"role": "assistant", "content": None, "reasoning_content": "why", "name": "bob",
                 "tool_calls": [CALL, as_object], "refusal": None}
    tool = {"role": "tool", "tool_call_id": "abcdef123", "content": parts("4", "2")}
    function = {"role": "function", "name": "f", "content": "42"}
    messages, _ = seen(show, [user("u"), assistant, tool, function])
    assert messages[1] == {"role": "assistant", "content": None, "reasoning_content": "why",
                           "name": "bob", "tool_calls": [as_object, as_object]}
    assert messages[2] == {**tool, "content": "4\n2"} and messages[3] == function


def test_the_openai_package_speaks_to_a_template_that_sees_it_all(show):
    client = show.client()
    messages = [
        {"role": "developer", "content": "Use tools."},
        {"role": "user", "content": parts("How much", "is it?"), "name": "ann"},
        {"role": "assistant", "tool_calls": [CALL]},
        {"role": "tool", "tool_call_id": "abcdef123", "content": "42"},
    ]
    done = client.chat.completions.create(
        model="any", messages=messages, tools=TOOLS, tool_choice="auto", max_tokens=1,
        extra_body={"chat_template_kwargs": {"enable_thinking": True}})
    asked = show.post("/tokenize", {"messages": messages, "tools": TOOLS,
                                    "chat_template_kwargs": {"enable_thinking": True}}).json()
    assert done.usage.prompt_tokens == asked["count"] > 50


def test_what_a_template_raises_is_the_clients_to_read(show):
    with pytest.raises(openai.BadRequestError) as caught:
        show.client().chat.completions.create(model="any", messages=[user("boom")])
    assert "Roles must alternate!" in caught.value.message
    assert caught.value.code == "chat_template_error"


def test_a_continued_message_ends_where_its_content_ends(show, start_template):
    trims = start_template("{% for m in messages %}<{{ m.content | trim }}>{% endfor %}")
    keeps = start_template("{% for m in messages %}<{{ m.content }}>{% endfor %}")
    twice = start_template("{% for m in messages %}{{ m.content }}{{ m.content }}{% endfor %}")
    for content, trimmed in ((" Once ", "Once"), ("Once\n\u3000", "Once"), ("", ""), (None, "")):
        last = [user("u"), {"role": "assistant", "content": content}]
        assert render(trims, last, continue_final_message=True) == "<u><" + trimmed
        assert render(keeps, last, continue_final_message=True) == "<u><" + (content or "")
    last[-1]["content"] = parts("Once", "upon ")
    assert render(keeps, last, continue_final_message=True) == "<u><Once\nupon "
    answer = twice.post("/apply-template", {"messages": last, "continue_final_message": True})
    assert answer.status == 400 and answer.error()["param"] == "continue_final_message"


def test_templates_are_not_taken_from_requests(show):
    for path in ("/v1/chat/completions", "/apply-template", "/tokenize"):
        answer = show.post(path, {"messages": [user("u")], "chat_template": "x"})
        assert answer.status == 400 and answer.error()["param"] == "chat_template"
        answer = show.post(path, {"messages": [user("u")],
                                  "chat_template_kwargs": {"chat_template": "x"}})
        assert answer.status == 400 and answer.error()["param"] == "chat_template_kwargs"


def test_ten_thousand_messages(show):
    many = [user(f"message {i}") for i in range(10_000)]
    began = time.monotonic()
    messages, _ = seen(show, many)
    assert messages == many
    assert time.monotonic() - began < 20
    answer = show.post("/v1/chat/completions", {"messages": many})
    assert answer.status == 400 and answer.error()["code"] == "context_length_exceeded"


def test_a_template_past_its_limits_is_the_conversations_end(start_template):
    bomb = start_template(BOMB)
    answer = bomb.post("/v1/chat/completions", {"messages": [user("u")]})
    assert answer.status == 400 and answer.error()["code"] == "chat_template_error"
    assert bomb.post("/v1/completions", {"prompt": "a", "max_tokens": 1}).status == 200


@pytest.mark.parametrize("source", [None, "{% if %}"])
def test_without_a_template_that_works_there_is_no_chat(start, tmp_path, source):
    folder = tmp_path / "model"
    shutil.copytree(MODEL, folder)
    os.remove(folder / "chat_template.jinja")
    if source:
        (folder / "chat_template.jinja").write_text(source)
    server = start(model=str(folder))
    with pytest.raises(openai.BadRequestError) as caught:
        server.client().chat.completions.create(model="any", messages=[user("u")])
    assert caught.value.code == "no_chat_template"
    assert "/v1/completions" in caught.value.message
    assert ("does not compile" in server.log()) == bool(source)
    assert ("Expected an expression" in caught.value.message) == bool(source)
    assert server.post("/v1/completions", {"prompt": "a", "max_tokens": 1}).status == 200
    assert server.post("/tokenize", {"prompt": "a"}).status == 200
