"""--quantization: what is said of it before loading, what it changes, and what it refuses."""
import os, pathlib, re, struct

import pytest

from conftest import ROOT, read_safetensors

FILES = pathlib.Path(os.environ.get("RADISH_CONFORMANCE", ROOT.parent / "shared/conformance")) / "gguf"
TOKENS = "5,6,7,8,9,10,11,12"


def weights_of(ok, model, *flags):
    report = ok("info", model, *flags)
    quantization = re.search(r"^  quantization +(\S+)$", report, re.M).group(1)
    sizes = dict(re.findall(r"(\w+) ([\d.]+) MB,", re.search(r"^  weights .*$", report, re.M).group(0)))
    return quantization, {name: float(size) for name, size in sizes.items()}


def test_info_shows_what_weights_become(ok, llama):
    quantization, plain = weights_of(ok, llama)
    assert quantization == "none" and "BF16" in plain and "Q4_0" not in plain
    assert weights_of(ok, llama, "--quantization", "none") == (quantization, plain)
    quantization, sizes = weights_of(ok, llama, "--quantization", "q4_0")
    assert quantization == "q4_0" and "BF16" not in sizes and sizes["Q4_0"] > 0 and sizes["Q8_0"] > 0
    assert sum(sizes.values()) < 0.45 * sum(plain.values())
    quantization, exact = weights_of(ok, llama, "--quantization", "q4_0", "--precision", "exact")
    assert quantization == "q4_0" and sum(exact.values()) > 1.5 * sum(plain.values())  # values of q4_0, kept as f32


def logits(ok, model, path, *flags):
    ok("logits", model, "--tokens", TOKENS, "--out", path, *flags)
    _, _, raw = read_safetensors(path)[0]["logits"]
    return struct.unpack(f"<{len(raw) // 4}f", raw)


def distance(x, y):
    return (sum((a - b) ** 2 for a, b in zip(x, y)) / sum(b * b for b in y)) ** 0.5


@pytest.mark.parametrize("precision", ["fast", "exact"])
def test_logits_are_near_those_of_the_model_as_it_is(ok, model, tmp_path, precision):
    plain = logits(ok, model, tmp_path / "plain", "--precision", precision)
    distances = [distance(logits(ok, model, tmp_path / name, "--precision", precision, "--quantization", name), plain)
                 for name in ("q8_0", "q5_1", "q4_0")]
    assert 0 < distances[0] < distances[1] < distances[2], distances
    assert distances[0] < 0.04 and distances[2] < 0.4, distances


def test_fallbacks_are_said_where_rows_are_no_whole_blocks(radish, llama):
    done = radish("run", llama, "-p", "hi", "-n", "1", "--quantization", "q4_k")
    assert done.returncode == 0
    assert b"21 matrices have rows that are no whole number of Q4_K blocks" in done.stderr and b": Q5_0" in done.stderr
    assert radish("run", llama, "-p", "hi", "-n", "1", "--quantization", "q4_0").stderr == b""


def test_the_log_tells_sizes_and_speed(radish, llama):
    done = radish("run", llama, "-p", "hi", "-n", "1", "--quantization", "q8_0", "--log-level", "info")
    assert re.search(rb"23 matrices quantised to Q8_0: [\d.]+ MB became [\d.]+ MB in [\d.]+ s \(\d+ MB/s\)", done.stderr)


def test_a_file_that_is_quantised_already_is_refused(refused, ok):
    path = FILES / "llama-Q8_0.gguf"
    if not path.exists():
        pytest.skip(f"there is no {path}")
    line = refused("run", path, "-p", "hi", "--quantization", "q4_0")
    assert "is quantised already (Q8_0): --quantization takes models in F32, F16 or BF16" in line
    assert "is quantised already" in ok("info", path, "--quantization", "q4_0")


def test_bench_one_batch_takes_it(ok, llama):
    line = ok("bench", "one-batch", llama, "--quantization", "q8_0", "--input-len", "8", "--output-len", "2", "--json")
    assert "latency" in line
