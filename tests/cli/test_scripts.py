"""The scripts a newcomer runs first. They install nothing and download nothing here."""
import os, subprocess

import pytest

from conftest import ROOT


def run(script, *arguments, env=None, **kwargs):
    return subprocess.run([ROOT / "scripts" / script, *arguments], capture_output=True, text=True, timeout=120, stdin=subprocess.DEVNULL,
                          env={**os.environ, **(env or {})}, **kwargs)


@pytest.mark.parametrize("script", ["deps", "model", "quickstart", "test", "lint"])
def test_help_says_what_it_does(script):
    done = run(script, "--help")
    assert done.returncode == 0 and len(done.stdout.splitlines()) >= 3


@pytest.mark.parametrize("script", ["deps", "model", "test"])
def test_an_unknown_argument_is_wrong_usage(script):
    done = run(script, "--nonsense")
    assert done.returncode == 2 and "--nonsense" in done.stderr


def test_model_path_fails_where_there_is_none(tmp_path):
    done = run("model", "--path", env={"RADISH_CACHE": str(tmp_path)})
    assert done.returncode == 1 and done.stdout == ""


@pytest.mark.parametrize("variables, folder", [
    ({"RADISH_CACHE": "{}/a", "XDG_CACHE_HOME": "{}/b", "HOME": "{}/c"}, "a"),
    ({"RADISH_CACHE": "", "XDG_CACHE_HOME": "{}/b", "HOME": "{}/c"}, "b/radish/models"),
    ({"RADISH_CACHE": "", "XDG_CACHE_HOME": "", "HOME": "{}/c"}, "c/.cache/radish/models"),
])
def test_the_model_lies_where_radish_looks_for_it(radish, tmp_path, variables, folder):
    path = tmp_path / folder / "SmolLM2-135M-Instruct-Q4_1.gguf"
    path.parent.mkdir(parents=True)
    path.write_bytes(b"not a model")
    env = {k: v.format(tmp_path) for k, v in variables.items()}

    assert run("model", "--path", env=env).stdout == f"{path}\n"
    done = radish("inspect", "SmolLM2-135M-Instruct-Q4_1", env=env)
    assert done.returncode == 1 and str(path).encode() in done.stderr


def test_the_fetched_model_has_the_pinned_checksum():
    done = run("model", "--path")
    if done.returncode:
        pytest.skip("SmolLM2 is not in the model cache; scripts/model fetches it")
    assert run("model").stdout == done.stdout


class Results:
    """A folder of results as scripts/test leaves it."""

    def __init__(self, folder):
        self.folder = folder

    def ctest(self, ring, *cases):
        rows = "".join(f'<testcase name="{n}" classname="{n}" status="{s}"><system-out>{out}</system-out></testcase>' for n, s, out in cases)
        (self.folder / f"{ring}.xml").write_text(f"<testsuite>{rows}</testsuite>")

    def pytest(self, name, *cases):
        inner = {"passed": "", "failed": "<failure/>", "skipped": '<skipped message="no data"/>'}
        rows = "".join(f'<testcase name="{n}" classname="c">{inner[s]}</testcase>' for n, s in cases)
        (self.folder / f"{name}.xml").write_text(f"<testsuites><testsuite>{rows}</testsuite></testsuites>")

    def count(self, *flags):
        done = subprocess.run(["python3", ROOT / "tests/count_results.py", *flags, self.folder], capture_output=True, text=True)
        return done.returncode, done.stdout.splitlines()[-1]


@pytest.fixture
def results(tmp_path):
    return Results(tmp_path)


def test_results_are_counted(results):
    results.ctest("unit", ("test_a", "run", ""), ("test_b", "notrun", "skipped: no data"), ("pytest_cli", "run", ""))
    results.pytest("unit-pytest_cli", ("one", "passed"), ("two", "passed"), ("three", "skipped"))
    assert results.count() == (0, "3 passed, 0 failed, 2 skipped")


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
    assert results.count("--conformance") == (1, "1 passed, 1 failed, 0 skipped")


def test_a_model_ring_in_which_nothing_ran_fails_where_the_data_is(results):
    results.ctest("unit", ("test_a", "run", ""))
    assert results.count("--conformance")[0] == 0
    results.ctest("model")
    assert results.count("--conformance") == (1, "1 passed, 1 failed, 0 skipped")


def test_single_tests_may_be_skipped_for_other_reasons(results):
    results.ctest("unit", ("test_a", "run", "[  SKIPPED ] test_avx512_x\n"))
    assert results.count("--conformance") == (0, "1 passed, 0 failed, 1 skipped")
