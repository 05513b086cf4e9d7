"""bench/vs_llama_cpp: models that both programs can read, figures that say what was measured. llama.cpp itself is stood in for: its server by
radish under the other one's flags, its bench by fixed figures."""
import csv, json, os, subprocess, sys

import pytest

from conftest import ROOT

FOLDER = ROOT / "bench/vs_llama_cpp"
sys.path.insert(0, str(FOLDER))
import models, package, peer, report  # noqa: E402

BENCH = """#!/bin/sh
case "$*" in
  *"-p 0"*) echo '[{"n_prompt": 0, "n_gen": 64, "n_depth": 2048, "avg_ts": 4.0}]' ;;
  *) echo '[{"n_prompt": 512, "n_gen": 0, "n_depth": 0, "avg_ts": 1.0}, {"n_prompt": 2048, "n_gen": 0, "n_depth": 0, "avg_ts": 2.0},
            {"n_prompt": 0, "n_gen": 64, "n_depth": 0, "avg_ts": 3.0}]' ;;
esac
"""
SERVER = """#!/bin/sh
while [ $# -gt 0 ]; do
  case "$1" in -m) model=$2 ;; --port) port=$2 ;; esac
  shift
done
exec "$RADISH_UNDER_TEST" serve "$model" --port "$port" --threads 1
"""


@pytest.mark.parametrize("kind", models.HEAD_TYPE)
def test_a_made_model_of_each_type_loads_and_answers(ok, tmp_path, kind):
    path = tmp_path / f"{kind}.gguf"

    models.write_model(path, "tiny", kind)

    answer = json.loads(ok("run", path, "-p", "alpha river", "-n", "4", "--temperature", "0", "--threads", "1", "--json"))
    assert answer["usage"]["prompt_tokens"] == 2
    assert answer["usage"]["completion_tokens"] == 4


def test_the_words_of_the_load_generator_are_a_token_each(ok, tmp_path):
    path = tmp_path / "m.gguf"
    models.write_model(path, "tiny", "Q8_0")

    ids = json.loads(ok("tokenize", path, stdin=" " + " ".join(models.WORDS)))

    assert len(ids) == len(models.WORDS)


def test_words_are_those_of_the_load_generator():
    source = (ROOT / "src/bench/workload.c").read_text()
    listed = source.split("words[] = {", 1)[1].split("};", 1)[0]
    assert [w.strip().strip('"') for w in listed.replace("\n", " ").split(",")] == models.WORDS


def test_bytes_of_a_decode_step_are_those_of_the_file(tmp_path):
    path = tmp_path / "m.gguf"
    models.write_model(path, "tiny", "Q4_K")
    left = path.stat().st_size - models.decode_bytes("tiny", "Q4_K")
    assert 0 < left < 100_000  # names and the tokenizer


def test_ratios_are_above_1_where_radish_is_better():
    r = report.Report("radish", ["peer"])
    for ours, theirs in ((10.0, 4.0), (20.0, 5.0), (12.0, 4.0)):
        rate = r.add("decode at 0", "m Q8_0", "Q8_0", "tokens/s", {"radish": ours, "peer": theirs})
        took = r.add("cold fan-out", "m Q8_0", "Q8_0", "s", {"radish": theirs, "peer": ours}, higher_is_better=False)

    assert rate.ratio("radish", "peer") == took.ratio("radish", "peer") == (3.0, 2.5, 4.0)
    assert (rate.wanted, took.wanted) == (1.0, 15.0)
    assert "| 12.0 (10.0 to 20.0) | 4 (4 to 5) | 3.00 (2.50 to 4.00) | 1x |" in r.table()


def test_a_figure_one_program_lacks_is_no_ratio():
    r = report.Report("radish", ["peer"])
    row = r.add("16 streams", "m Q8_0", "Q8_0", "tokens/s", {"radish": 10.0})
    assert row.ratio("radish", "peer") is None
    assert r.line(row) == "| 16 streams | m Q8_0 | tokens/s | 10.0 | - | - | 3x |"


@pytest.fixture
def work(radish, tmp_path, monkeypatch):
    """A folder where llama.cpp is built already, in appearance."""
    monkeypatch.setenv("RADISH_UNDER_TEST", os.path.abspath(radish.program))
    folder = tmp_path / "work/peer/native"
    folder.mkdir(parents=True)
    for name, text in (("llama-bench", BENCH), ("llama-server", SERVER)):
        (folder / name).write_text(text)
        (folder / name).chmod(0o755)
    (folder / "flags.txt").write_text(peer.note_of("native"))
    return tmp_path / "work"


def compare(*args):
    return subprocess.run([sys.executable, FOLDER / "compare.py", *map(str, args)], capture_output=True, text=True, timeout=300)


def read_rows(path):
    with open(path) as f:
        return {row["workload"]: row for row in csv.DictReader(f)}


@pytest.mark.skipif(not os.environ.get("VS_LLAMA_CPP_LONG"), reason="the engines' figures take a minute under sanitizers: VS_LLAMA_CPP_LONG=1")
def test_engines_are_compared_row_by_row(radish, work, tmp_path):
    done = compare("--radish", radish.program, "--work", work, "--shape", "tiny", "--types", "Q8_0", "--rounds", 1, "--threads", 1,
                   "--only", "engine", "--csv", tmp_path / "out.csv")

    assert done.returncode == 0, done.stdout + done.stderr
    rows = read_rows(tmp_path / "out.csv")
    assert {w: rows[w]["peer_median"] for w in rows if w != "share of the bandwidth"} == {
        "prefill 512": "1", "prefill 2048": "2", "decode at 0": "3", "decode at 2048": "4"}
    assert all(float(row["radish_median"]) > 0 for row in rows.values())
    assert float(rows["decode at 0"]["ratio"]) == pytest.approx(float(rows["decode at 0"]["radish_median"]) / 3, rel=1e-2)
    assert rows["prefill 512"]["wanted"] == "1.8" and rows["share of the bandwidth"]["wanted"] == "0.85"


def test_servers_are_compared_and_a_workload_that_was_not_asked_for_is_not(radish, work, tmp_path):
    done = compare("--radish", radish.program, "--work", work, "--shape", "tiny", "--types", "Q8_0", "--rounds", 1, "--threads", 1,
                   "--only", "4 streams,cold prompt", "--csv", tmp_path / "out.csv")

    assert done.returncode == 0, done.stdout + done.stderr
    rows = read_rows(tmp_path / "out.csv")
    assert set(rows) == {"4 streams", "cold prompt"}
    for row in rows.values():
        assert float(row["radish_median"]) > 0 and float(row["peer_median"]) > 0 and 0.02 < float(row["ratio"]) < 50
    about = (tmp_path / "out.txt").read_text()
    assert "load before" in about and "GGML_NATIVE=ON" in about and "read bandwidth" in about


def test_what_was_packed_runs_without_the_repository(radish, work, tmp_path):
    work_there = tmp_path / "there"
    folder = tmp_path / "packed"
    made = compare("--prepare", folder, "--march", "native", "--radish", radish.program, "--work", work)
    assert made.returncode == 0, made.stderr

    done = subprocess.run([sys.executable, folder / "compare.py", "--run", folder, "--work", work_there, "--shape", "tiny", "--types", "Q8_0",
                           "--rounds", "1", "--threads", "1", "--only", "1 stream", "--budget", "200"], capture_output=True, text=True,
                          timeout=300, cwd=tmp_path)

    assert done.returncode == 0, done.stdout + done.stderr
    assert "| 1 stream | tiny Q8_0 | tokens/s |" in done.stdout
    assert package.unpack(folder, work_there)["llama_cpp"] == peer.COMMIT


def test_wrong_usage_is_said():
    assert compare("--march", "vax").returncode == 2
    done = compare("--prepare", "a", "--run", "b")
    assert done.returncode == 2 and "different machines" in done.stderr
