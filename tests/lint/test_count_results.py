"""tests/count_results.py and tests/conformance_coverage.py: what counts as passed, failed and skipped, and that a golden answer which no test
compared is a failure."""
import json, lzma, pathlib, struct, subprocess, sys

import pytest

ROOT = pathlib.Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "tests"))
import conformance_coverage  # noqa: E402


class Results:
    """A folder of results as scripts/test leaves it, and golden data as small as it can be."""

    def __init__(self, folder):
        self.folder = folder / "results"
        self.data = folder / "conformance"
        self.folder.mkdir()
        self.data.mkdir()

    def ctest(self, ring, *cases):
        rows = "".join(f'<testcase name="{n}" classname="{n}" status="{s}"><system-out>{out}</system-out></testcase>' for n, s, out in cases)
        (self.folder / f"{ring}.xml").write_text(f"<testsuite>{rows}</testsuite>")

    def pytest(self, name, *cases):
        inner = {"passed": "", "failed": "<failure/>", "skipped": '<skipped message="no data"/>'}
        rows = "".join(f'<testcase name="{n}" classname="c">{inner[s]}</testcase>' for n, s in cases)
        (self.folder / f"{name}.xml").write_text(f"<testsuites><testsuite>{rows}</testsuite></testsuites>")

    def run(self, *flags):
        done = subprocess.run(["python3", ROOT / "tests/count_results.py", *flags, self.folder], capture_output=True, text=True)
        return done.returncode, done.stdout.splitlines()

    def count(self, *flags):
        status, lines = self.run(*flags)
        return status, lines[-1]

    def count_with_data(self):
        """(status, last line), without what the real list of pending answers and the lack of data add."""
        status, lines = self.run("--conformance", self.data)
        n_others = sum(line.startswith("  failed: conformance:") for line in lines)
        passed, failed, skipped = [int(part.split()[0]) for part in lines[-1].split(", ")]
        return int(failed - n_others > 0), f"{passed} passed, {failed - n_others} failed, {skipped} skipped"


@pytest.fixture
def results(tmp_path):
    return Results(tmp_path)


def test_results_are_counted(results):
    results.ctest("unit", ("test_a", "run", ""), ("test_b", "notrun", "skipped: no data"), ("pytest_cli", "run", ""))
    results.pytest("unit-pytest_cli", ("one", "passed"), ("two", "passed"), ("three", "skipped"))
    assert results.count() == (0, "3 passed, 0 failed, 2 skipped")


def test_a_ring_may_be_one_result_with_its_reason(results):
    (results.folder / "lint.passed").touch()
    (results.folder / "neon.skipped").write_text("skipped: no packages\n")
    status, lines = results.run()
    assert (status, lines[-1]) == (0, "1 passed, 0 failed, 1 skipped")
    assert "  skipped: neon  (skipped: no packages)" in lines
    (results.folder / "lint.failed").touch()
    assert results.count() == (1, "1 passed, 1 failed, 1 skipped")


def test_a_failure_anywhere_counts(results):
    results.ctest("unit", ("test_a", "run", ""), ("pytest_cli", "fail", ""))
    results.pytest("unit-pytest_cli", ("one", "passed"), ("two", "failed"))
    assert results.count() == (1, "2 passed, 1 failed, 0 skipped")


def test_a_suite_that_died_counts_as_failed(results):
    results.ctest("unit", ("test_a", "run", ""), ("pytest_cli", "fail", ""))
    assert results.count() == (1, "1 passed, 1 failed, 0 skipped")


def test_nothing_run_is_a_failure(results):
    assert results.count()[0] == 1


def test_a_skipped_conformance_test_fails_where_the_data_is(results):
    results.ctest("model", ("test_conformance", "notrun", "skipped: no conformance folder"), ("test_other", "run", ""))
    assert results.count() == (0, "1 passed, 0 failed, 1 skipped")
    assert results.count_with_data() == (1, "1 passed, 1 failed, 0 skipped")


def test_a_model_ring_in_which_nothing_ran_fails_where_the_data_is(results):
    results.ctest("unit", ("test_a", "run", ""))
    assert results.count_with_data()[0] == 0
    results.ctest("model")
    assert results.count_with_data() == (1, "1 passed, 1 failed, 0 skipped")


def test_single_tests_may_be_skipped_for_other_reasons(results):
    results.ctest("unit", ("test_a", "run", "[  SKIPPED ] test_avx512_x\n"))
    assert results.count_with_data() == (0, "1 passed, 0 failed, 1 skipped")


def test_rings_without_golden_answers_need_no_data(results):
    results.ctest("cli", ("test_a", "run", ""))
    assert results.count("--conformance", results.data) == (0, "1 passed, 0 failed, 0 skipped")


# ---- golden answers


def write_safetensors(path, *names):
    header = json.dumps({name: {"dtype": "F32", "shape": [0], "data_offsets": [0, 0]} for name in names} | {"__metadata__": {}}).encode()
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(struct.pack("<Q", len(header)) + header)


def gguf_text(text):
    return struct.pack("<Q", len(text)) + text.encode()


def write_gguf(path, *names):
    keys = gguf_text("a.number") + struct.pack("<II", 4, 7) + gguf_text("a.list") + struct.pack("<IIQ", 9, 8, 2) + gguf_text("x") + gguf_text("y")
    infos = b"".join(gguf_text(name) + struct.pack("<IQQIQ", 2, 512, 4, 0, 0) for name in names)
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(b"GGUF" + struct.pack("<IQQ", 3, len(names), 2) + keys + infos)


GOOD = {"model": """
covered: models/llama opened 1
covered: models/llama logits 2
covered: models/llama greedy 1
covered: models/llama answers 1
covered: models/mixtral opened 1
covered: models/mixtral refused 1
covered: tokenizers/qwen3/golden.json encode 2
covered: tokenizers/qwen3/golden.json encode-gguf 1
covered: tokenizers/qwen3/golden.json chat-ids 1
covered: tokenizers/qwen3/golden.json chat-ids-gguf 1
covered: tokenizers/qwen3/golden.json chat-ids-made-of-nothing 0
""", "unit": """
covered: tokenizers/qwen3/golden.json chat-texts 2
covered: templates/templates.json renders 3
covered: quants/quants.gguf q.f16 1
"""}
PENDING = {"models/mixtral": "a reason", "quants/quants.gguf q.mxfp4": "a reason"}


class Data:
    """Golden data of one file of each kind, copies of it, and what is wrong with outputs over it."""

    def __init__(self, folder):
        self.root, self.copies = folder / "conformance", folder / "data"
        for name in ("llama", "mixtral"):
            write_safetensors(self.root / f"models/{name}/golden.safetensors", "prompt.0", "logits.0", "logits.1", "greedy.0", "gap.0")
            (self.root / f"models/{name}/config.json").write_text("{}")
        write_gguf(self.root / "quants/quants.gguf", "q.f16", "q.mxfp4")
        (self.root / "templates").mkdir()
        (self.root / "templates/templates.json").write_text(json.dumps({"templates": [{"renders": {"a": 1, "b": 2}}, {"renders": {"a": 1}}]}))
        tokenizer = self.root / "tokenizers/qwen3"
        tokenizer.mkdir(parents=True)
        (tokenizer / "vocab.gguf.xz").write_bytes(b"")
        (tokenizer / "golden.json").write_text(json.dumps({
            "encode": [{"text": "e"}, {"text": "e\u0301"}],
            "chat": [{"messages": [1], "text": "x"}, {"messages": [1], "error": "no"}, {"messages": [], "error": "none"}]}))
        for name in ("templates/templates.json", "quants/quants.gguf"):
            copy = self.copies / f"{name}.xz"
            copy.parent.mkdir(parents=True)
            copy.write_bytes(lzma.compress((self.root / name).read_bytes()))

    def problems(self, changes=(), rings=("unit", "model"), pending=None):
        """changes: (line in GOOD, what stands there instead)."""
        text = GOOD["unit"] + GOOD["model"]
        for before, after in changes:
            assert before in text
            text = text.replace(before, after)
        return list(conformance_coverage.problems(self.root, [text], set(rings), self.copies, PENDING if pending is None else pending))


@pytest.fixture
def data(tmp_path):
    return Data(tmp_path)


def test_full_coverage_has_no_problems(data):
    assert data.problems() == []


@pytest.mark.parametrize("line, instead, says", [
    ("covered: models/llama logits 2\n", "", "models/llama logits: 0 of 2 compared"),
    ("models/llama logits 2", "models/llama logits 1", "models/llama logits: 1 of 2 compared"),
    ("models/llama opened 1", "", "models/llama opened: 0 of 1 compared"),
    ("models/llama answers 1", "", "models/llama answers: 0 of 1 compared"),
    ("golden.json encode 2", "golden.json encode 3", "tokenizers/qwen3/golden.json encode: 3 of 2 compared"),
    ("golden.json encode-gguf 1", "", "tokenizers/qwen3/golden.json encode-gguf: 0 of 1 compared"),
    ("golden.json chat-texts 2", "golden.json chat-texts 1", "tokenizers/qwen3/golden.json chat-texts: 1 of 2 compared"),
    ("renders 3", "renders 2", "templates/templates.json renders: 2 of 3 compared"),
    ("covered: quants/quants.gguf q.f16 1", "q.f16 1", "quants/quants.gguf q.f16: 0 of 1 compared"),
    ("quants/quants.gguf q.f16 1", "quants/quants.gguf q.f16 1\ncovered: quants/quants.gguf q.mxfp4 1",
     "quants/quants.gguf q.mxfp4: is covered; take it out of PENDING"),
    ("models/mixtral refused 1", "models/mixtral logits 2", "models/mixtral logits: is covered; take it out of PENDING"),
    ("covered: models/mixtral refused 1", "", "models/mixtral: is in PENDING, but no test saw it refused"),
    ("models/llama greedy 1", "models/llama greedy 1\ncovered: models/gone logits 2",
     "models/gone logits: is said to be covered, but the data has no such answers"),
])
def test_a_row_that_is_missing_too_many_or_not_expected_is_a_problem(data, line, instead, says):
    assert says in data.problems([(line, instead)])


def test_a_pending_answer_that_the_data_does_not_have_is_a_problem(data):
    assert data.problems(pending=PENDING | {"models/gone": "a reason"}) == ["models/gone: is in PENDING, but the data has no such answers"]


def test_a_file_that_no_rule_knows_is_a_problem(data):
    (data.root / "embeddings").mkdir()
    (data.root / "embeddings/golden.json").write_text("{}")
    assert data.problems() == ["embeddings/golden.json: tests/conformance_coverage.py has no rule for this file"]


def test_a_copy_that_differs_is_a_problem(data):
    (data.copies / "templates/templates.json.xz").write_bytes(lzma.compress(b"{}"))
    assert data.problems() == ["templates/templates.json: tests/data/templates/templates.json.xz is not a copy of it"]


def test_rings_that_did_not_run_are_not_asked_for(data):
    lines = [line for line in GOOD["model"].splitlines() if line]
    everything = [("\n" + line, "") for line in lines]
    assert data.problems(everything, rings={"unit"}) == []
    assert len(data.problems(everything)) == 10


def test_a_folder_without_answers_is_a_problem(tmp_path):
    (tmp_path / "README.md").write_text("")
    assert "there are no golden answers in it" in " ".join(conformance_coverage.problems(tmp_path, [], {"unit"}, tmp_path, {}))


def test_a_deleted_test_program_is_noticed(results, data):
    """The same through count_results.py: nothing but one program is gone."""
    results.ctest("model", ("test_other", "run", GOOD["model"]))
    results.ctest("unit", ("test_templates", "run", "covered: templates/templates.json renders 3\n"))
    status, lines = results.run("--conformance", data.root)
    assert status == 1
    failed = [line for line in lines if "compared" in line]
    assert failed == ["  failed: conformance: quants/quants.gguf q.f16: 0 of 1 compared",
                      "  failed: conformance: tokenizers/qwen3/golden.json chat-texts: 0 of 2 compared"]


def test_what_a_failed_test_compared_does_not_count(results, data):
    results.ctest("unit", ("test_a", "fail", GOOD["unit"]))
    assert "  failed: conformance: templates/templates.json renders: 0 of 3 compared" in results.run("--conformance", data.root)[1]
