"""The scripts a newcomer runs first. They install nothing and download nothing here."""
import os, pathlib, subprocess, tempfile

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
def test_the_model_lies_where_radish_looks_for_it(radish, variables, folder):
    # A folder with a short name: messages give a long path's end only.
    with tempfile.TemporaryDirectory() as root:
        path = pathlib.Path(root) / folder / "SmolLM2-135M-Instruct-Q4_1.gguf"
        path.parent.mkdir(parents=True)
        path.write_bytes(b"not a model")
        env = {k: v.format(root) for k, v in variables.items()}

        assert run("model", "--path", env=env).stdout == f"{path}\n"
        done = radish("inspect", "SmolLM2-135M-Instruct-Q4_1", env=env)
        assert done.returncode == 1 and str(path).encode() in done.stderr


def test_the_fetched_model_has_the_pinned_checksum():
    done = run("model", "--path")
    if done.returncode:
        pytest.skip("SmolLM2 is not in the model cache; scripts/model fetches it")
    assert run("model").stdout == done.stdout
