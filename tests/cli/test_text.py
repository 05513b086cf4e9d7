"""tokenize, detokenize, render: what goes in comes out again, and each flag does something."""
import json, os, shutil

import pytest

TEXTS = ["Hello, world!", "", " leading and trailing ", "a\nb\n\tc\n\n", "naïve café – 漢字 🙂 ا", "<|im_start|>user\nhi<|im_end|>", "\u0000nul", "e\u0301 \u200d"]


@pytest.fixture
def tokenizer_only(llama, tmp_path):
    """A folder with the tokenizer's files alone, whose post-processor puts <|endoftext|> in front."""
    tokenizer = json.loads((llama / "tokenizer.json").read_text())
    tokenizer["post_processor"] = {
        "type": "TemplateProcessing",
        "single": [{"SpecialToken": {"id": "<|endoftext|>", "type_id": 0}}, {"Sequence": {"id": "A", "type_id": 0}}],
        "pair": [{"Sequence": {"id": "A", "type_id": 0}}, {"Sequence": {"id": "B", "type_id": 1}}],
        "special_tokens": {"<|endoftext|>": {"id": "<|endoftext|>", "ids": [0], "tokens": ["<|endoftext|>"]}}}
    (tmp_path / "tokenizer.json").write_text(json.dumps(tokenizer))
    shutil.copy(llama / "tokenizer_config.json", tmp_path)
    return tmp_path


@pytest.mark.parametrize("text", TEXTS)
def test_text_survives_the_round_trip(ok, llama, text):
    ids = json.loads(ok("tokenize", llama, stdin=text))

    assert all(isinstance(i, int) and 0 <= i < 512 for i in ids)
    assert ok("detokenize", llama, stdin=json.dumps(ids)) == text


def test_bytes_come_back_exactly(radish, llama):
    text = "a\r\nb\r".encode()
    ids = radish("tokenize", llama, stdin=text).stdout
    assert radish("detokenize", llama, stdin=ids).stdout == text


def test_special_tokens_in_text_are_one_id(ok, llama):
    assert json.loads(ok("tokenize", llama, stdin="<|im_start|><|im_end|>")) == [1, 2]


def test_special_adds_what_the_post_processor_adds(ok, tokenizer_only):
    plain = json.loads(ok("tokenize", tokenizer_only, stdin="Hello"))
    special = json.loads(ok("tokenize", "--special", tokenizer_only, stdin="Hello"))
    assert plain and special == [0] + plain


def test_skip_special_leaves_special_tokens_out(ok, llama):
    ids = json.loads(ok("tokenize", llama, stdin="<|im_start|>Hello<|im_end|>"))
    assert ok("detokenize", llama, stdin=json.dumps(ids)) == "<|im_start|>Hello<|im_end|>"
    assert ok("detokenize", "--skip-special", llama, stdin=json.dumps(ids)) == "Hello"


def test_jsonl_answers_each_line(ok, llama):
    lines = "".join(json.dumps(t) + "\n" for t in TEXTS)
    arrays = ok("tokenize", llama, "--jsonl", stdin=lines)
    assert [json.loads(a) for a in arrays.splitlines()] == [json.loads(ok("tokenize", llama, stdin=t)) for t in TEXTS]
    assert [json.loads(t) for t in ok("detokenize", llama, "--jsonl", stdin=arrays).split("\n")[:-1]] == TEXTS


def test_jsonl_works_as_a_coprocess(radish, llama):
    import subprocess
    with subprocess.Popen([radish.program, "tokenize", llama, "--jsonl"], stdin=subprocess.PIPE, stdout=subprocess.PIPE) as process:
        for text in ["one", "two two"]:
            process.stdin.write(json.dumps(text).encode() + b"\n")
            process.stdin.flush()
            assert json.loads(process.stdout.readline())
        process.stdin.close()
        assert process.wait(30) == 0


@pytest.mark.parametrize("command, line, says", [
    ("tokenize", "[1]", "line 2: a JSON string is wanted, not array"),
    ("tokenize", "nonsense", "line 2: not JSON"),
    ("detokenize", '"x"', "line 2: a JSON array of token ids is wanted, not string"),
    ("detokenize", "[1.5]", "line 2: element 0 is no token id"),
    ("detokenize", "[-1]", "line 2: element 0 is no token id"),
])
def test_a_bad_line_is_named(radish, llama, command, line, says):
    good = '"a"' if command == "tokenize" else "[1]"
    done = radish(command, llama, "--jsonl", stdin=f"{good}\n{line}\n{good}\n")
    assert done.returncode == 1
    assert says in done.stderr.decode()
    assert done.stdout.count(b"\n") == 1


def test_text_that_is_no_utf8_is_refused(failed, llama):
    assert "UTF-8" in failed("tokenize", llama, stdin=b"ab\xff")


def test_an_id_that_the_model_lacks_is_refused(failed, llama):
    assert "99999" in failed("detokenize", llama, stdin="[99999]")


CHAT = {"messages": [{"role": "user", "content": "Hi"}], "add_generation_prompt": True}


def test_render_shows_what_the_template_makes(ok, llama):
    assert ok("render", llama, stdin=json.dumps(CHAT)) == "<|im_start|>user\nHi<|im_end|>\n<|im_start|>assistant\n"
    assert ok("render", llama, stdin=json.dumps({**CHAT, "add_generation_prompt": False})) == "<|im_start|>user\nHi<|im_end|>\n"


def test_render_with_a_template_file_needs_no_model(ok, tmp_path):
    template = tmp_path / "t.jinja"
    template.write_text("{{ bos_token }}{% for m in messages %}[{{ m.content | upper }}]{% endfor %}")
    assert ok("render", "--template", template, stdin=json.dumps({**CHAT, "bos_token": "<s>"})) == "<s>[HI]"


def test_render_with_a_template_file_and_a_model_knows_the_models_tokens(ok, llama, tmp_path):
    template = tmp_path / "t.jinja"
    template.write_text("{{ messages[0].content }}{{ eos_token }}")
    assert ok("render", llama, "--template", template, stdin=json.dumps(CHAT)) == "Hi<|im_end|>"


def test_now_fixes_the_clock(ok, tmp_path):
    template = tmp_path / "t.jinja"
    template.write_text("{{ strftime_now('%Y-%m-%d %H:%M') }}")
    assert ok("render", "--template", template, "--now", "2026-11-29T12:34:56", stdin="{}") == "2026-11-29 12:34"


def test_render_leaves_content_parts_untouched(ok, tmp_path):
    template = tmp_path / "t.jinja"
    template.write_text("{% for m in messages %}{% if m.content is string %}text{% else %}{{ m.content[0].type }}{% endif %}{% endfor %}")
    parts = {"messages": [{"role": "user", "content": [{"type": "text", "text": "x"}]}]}
    assert ok("render", "--template", template, stdin=json.dumps(parts)) == "text"


def test_render_jsonl_answers_text_or_error(ok, tmp_path):
    template = tmp_path / "t.jinja"
    template.write_text("{% if not messages %}{{ raise_exception('no messages') }}{% endif %}{{ messages[0].content }}")
    lines = json.dumps(CHAT) + "\n" + json.dumps({"messages": []}) + "\n" + "{broken\n" + json.dumps(CHAT) + "\n"
    answers = [json.loads(a) for a in ok("render", "--template", template, "--jsonl", stdin=lines).splitlines()]
    assert [list(a) for a in answers] == [["text"], ["error"], ["error"], ["text"]]
    assert answers[0]["text"] == "Hi" and "no messages" in answers[1]["error"]


def test_a_template_that_refuses_fails_the_command(failed, tmp_path):
    template = tmp_path / "t.jinja"
    template.write_text("{{ raise_exception('roles must alternate') }}")
    assert "roles must alternate" in failed("render", "--template", template, stdin="{}")


def test_a_template_that_is_not_there_is_named(failed, tmp_path):
    assert "gone.jinja" in failed("render", "--template", tmp_path / "gone.jinja", stdin="{}")


@pytest.mark.parametrize("regex", [r"(a+)+$", r"(a|aa)+$"])
def test_a_tokenizer_whose_pattern_explodes_is_an_error_not_a_hang(failed, llama, tmp_path, regex):
    tokenizer = json.loads((llama / "tokenizer.json").read_text())
    tokenizer["pre_tokenizer"] = {"type": "Split", "pattern": {"Regex": regex}, "behavior": "Isolated", "invert": False}
    (tmp_path / "tokenizer.json").write_text(json.dumps(tokenizer))
    shutil.copy(llama / "tokenizer_config.json", tmp_path)

    line = failed("tokenize", tmp_path, stdin="a" * 5000 + "!")

    assert "pattern" in line, line


def test_where_no_code_may_be_generated_patterns_are_interpreted(ok, radish, llama):
    import ctypes, subprocess
    PR_SET_MDWE, REFUSE_EXEC_GAIN = 65, 1  # Linux 6.3: no memory may become executable, as hardened hosts have it
    prctl = ctypes.CDLL(None, use_errno=True).prctl
    if subprocess.run(["true"], preexec_fn=lambda: None if prctl(PR_SET_MDWE, REFUSE_EXEC_GAIN, 0, 0, 0) == 0 else os._exit(1)).returncode:
        pytest.skip("this kernel cannot refuse executable memory")

    done = subprocess.run([radish.program, "tokenize", llama], input=TEXTS[4].encode(), capture_output=True, timeout=60,
                          preexec_fn=lambda: prctl(PR_SET_MDWE, REFUSE_EXEC_GAIN, 0, 0, 0))

    assert done.returncode == 0 and b"interpreter" in done.stderr, done.stderr
    assert done.stdout.decode() == ok("tokenize", llama, stdin=TEXTS[4])
