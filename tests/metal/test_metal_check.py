"""scripts/metal-check and the program behind it, on the stand-in: what a Mac will run has run before, but for the Mac."""
import json
import os
import pathlib
import subprocess

from conftest import PROGRAM, ROOT

BUILD = pathlib.Path(PROGRAM).parent
CHECK = BUILD / "tools/metal_check/metal_check"
VECTORS = ROOT / "tests/metal/golden/vectors.safetensors"
SCRIPT = ROOT / "scripts/metal-check"


def run(*args):
    return subprocess.run([str(a) for a in args], capture_output=True, text=True, timeout=200, cwd=ROOT)


def tensors(raw):
    """Where each tensor of a safetensors file lies in it."""
    n = int.from_bytes(raw[:8], "little")
    header = json.loads(raw[8:8 + n])
    header.pop("__metadata__")
    return {name: (8 + n + t["data_offsets"][0], 8 + n + t["data_offsets"][1]) for name, t in header.items()}


def test_the_script_makes_one_block_of_text(tmp_path):
    done = run(SCRIPT, "--build", BUILD, "--short", "--out", tmp_path / "block.txt")
    block = (tmp_path / "block.txt").read_text()
    assert done.returncode == 0, done.stdout + done.stderr
    assert block.startswith("```\n") and block.rstrip().endswith("result: all well\n```")
    assert block in done.stdout
    rows = [line.split("KERNEL_METAL(")[1].split(",")[0] for line in (ROOT / "src/kernel/ops.def").read_text().splitlines()
            if line.startswith("KERNEL_METAL(")]
    assert len(rows) > 10
    for row in rows:  # plain, and under the validation layers
        assert sum(line.split()[:2] == [row, "ok"] for line in block.splitlines()) == 2, (row, block)
    for text in ("encodings of methods (exit 0", "empty command buffer", "tiny dispatches, serial", "tiny dispatches, concurrent", "reading",
                 "32/8/128", "Decode."):
        assert text in block, (text, block)


def test_the_script_fails_when_a_kernel_does(tmp_path):
    raw = bytearray(VECTORS.read_bytes())
    places = tensors(raw)
    for name in ("rmsnorm.narrow/y.expected", "sample.rows/tokens.expected", "rope_kv_store.F16.64/k_pool.expected"):
        first, end = places[name]
        raw[first + 1:end] = bytes(reversed(raw[first:end - 1]))
    (tmp_path / "wrong.safetensors").write_bytes(raw)
    done = run(CHECK, "golden", tmp_path / "wrong.safetensors")
    lines = {line.split()[0]: line for line in done.stdout.splitlines()}
    assert done.returncode == 1
    for name in ("f32_rmsnorm__metal", "f32_sample__metal", "kv_f32_rope_kv_store__metal"):
        assert "FAILED" in lines[name] and "instead of" in lines[name]
    assert " ok " in lines["f32_layernorm__metal"]


def test_damaged_vectors_are_refused(tmp_path):
    raw = VECTORS.read_bytes()
    (tmp_path / "short.safetensors").write_bytes(raw[:len(raw) // 2])
    (tmp_path / "sizes.safetensors").write_bytes(raw.replace(b"op=matmul n_rows=2 ", b"op=matmul n_rows=9 "))
    for name, text in (("short", "not inside the file"), ("sizes", "an array is short"), ("absent", "absent.safetensors")):
        done = run(CHECK, "golden", tmp_path / f"{name}.safetensors")
        assert done.returncode == 1 and text in done.stdout, (name, done.stdout)


def test_the_vectors_are_made_again_bit_for_bit(tmp_path):
    done = run(CHECK, "make", tmp_path / "made.safetensors")
    assert done.returncode == 0, done.stdout
    assert (tmp_path / "made.safetensors").read_bytes() == VECTORS.read_bytes()


def test_without_a_mac_the_script_says_what_to_do():
    if os.uname().sysname == "Darwin":
        return
    done = run(SCRIPT)
    assert done.returncode == 77 and "needs a Mac" in done.stdout
    assert run(SCRIPT, "--nonsense").returncode == 2
