"""run, logits, inspect, info: the engine from the command line, on models with known answers."""
import json, math, platform, shutil, struct, subprocess

import pytest

from conftest import floats, golden, read_safetensors


def std(values):
    mean = sum(values) / len(values)
    return math.sqrt(sum((v - mean) ** 2 for v in values) / len(values))


@pytest.fixture
def logits(ok, tmp_path):
    """logits(model, ids, *flags) -> (shape, floats, metadata)."""
    def run(model, ids, *flags):
        out = tmp_path / "logits.safetensors"
        ok("logits", model, "--tokens", ",".join(map(str, ids)), "--out", out, *flags)
        tensors, metadata = read_safetensors(out)
        assert list(tensors) == ["logits"]
        dtype, shape, raw = tensors["logits"]
        assert dtype == "F32"
        return shape, floats(raw), metadata
    return run


def test_logits_are_the_references(logits, model):
    ids, expected = golden(model, "prompt.2"), golden(model, "logits.2")

    shape, got, _ = logits(model, ids, "--precision", "exact")

    assert shape == [45, 512]
    assert max(abs(a - b) for a, b in zip(got, expected)) <= 5e-5 * std(expected)


def test_logits_say_how_they_were_made(logits, model):
    ids = golden(model, "prompt.2")

    shape, _, metadata = logits(model, ids, "--precision", "fast", "--threads", "1", "--chunk", "16")

    assert shape == [45, 512]
    assert metadata["precision"] == "fast" and metadata["threads"] == "1"
    assert metadata["cached_tokens"] == "0" and metadata["steps"] == "3"
    assert "matmul" in metadata["kernels"]


def test_logits_do_not_depend_on_chunks_and_threads(logits, model):
    ids = golden(model, "prompt.2")
    whole = logits(model, ids, "--threads", "2")[1]
    for chunk in (1, 3, 16):
        assert logits(model, ids, "--threads", "1", "--chunk", str(chunk))[1] == whole


@pytest.mark.parametrize("page", ["1", "4"])
def test_logits_do_not_depend_on_what_comes_from_the_cache(logits, model, page):
    ids = golden(model, "prompt.2")[:40]
    whole, metadata = logits(model, ids)[1:]
    assert metadata["cached_tokens"] == "0"
    for warm in [1, 20, 39]:
        shape, got, metadata = logits(model, ids, "--warm", str(warm), "--page-size", page)
        assert shape[0] == 40 and got == whole
        assert metadata["cached_tokens"] == str(warm // int(page) * int(page))
    assert logits(model, ids, "--warm", "20", "--disable-radix-cache")[2]["cached_tokens"] == "0"


def test_a_kernel_can_be_forced(logits, llama):
    assert "matmul" in logits(llama, [5, 6, 7], "--kernel", "matmul=ref")[2]["kernels"]


def has_vector_kernels(radish):
    return b"rope_kv_store__avx" in radish("info").stdout


def test_rope_fused_unfused_and_plain_give_the_same_bits(logits, model, radish):
    ids = golden(model, "prompt.2")
    whole = logits(model, ids)[1]
    variants = ["ref", "unfused"] if has_vector_kernels(radish) else ["ref"]
    for variant in variants:
        _, got, metadata = logits(model, ids, "--kernel", f"rope_kv_store={variant}")
        assert got == whole and f"rope_kv_store__{variant}" in metadata["kernels"].replace("avx512_", "").replace("avx2_", "")


def test_the_log_tells_whether_the_fused_rope_kernel_is_in_use(radish, llama):
    def log(*flags):
        return radish("run", llama, "-p", "x", "-n", "1", "--log-level", "info", *flags).stderr.decode()
    if has_vector_kernels(radish):
        assert "Custom RoPE kernel enabled: kv_f32_rope_kv_store__avx" in log()
    assert "Custom RoPE kernel enabled" not in log("--kernel", "rope_kv_store=ref")


@pytest.mark.skipif(platform.machine() != "x86_64" or not shutil.which("qemu-x86_64"), reason="needs x86 and qemu-x86_64 (package qemu-user)")
def test_below_avx2_the_plain_kernels_run_with_a_warning(radish, llama):
    with open(radish.program, "rb") as program:
        bits = program.read()
    if b"__asan_init" in bits or b"__tsan_init" in bits:
        pytest.skip("a sanitizer's memory is too large for qemu")
    flags = ["run", llama, "-p", "The sky", "-n", "2", "--temperature", "0", "--json", "--threads", "1", "--max-total-tokens", "300", "--log-level", "info"]
    old = subprocess.run(["qemu-x86_64", "-cpu", "Nehalem", radish.program, *map(str, flags)], capture_output=True, timeout=120, check=True)
    new = radish(*flags, "--kernel", "matmul=ref")
    log = old.stderr.decode()
    assert "WARN kernel: this processor has neither AVX2 nor NEON: the plain C kernels are slow" in log and "Custom RoPE kernel not in use" in log
    assert "matmul=f32_f32_matmul__ref," in log and "__avx" not in log
    assert b"neither AVX2" not in new.stderr and json.loads(old.stdout)["ids"] == json.loads(new.stdout)["ids"]


def test_logits_refuse_an_id_that_the_model_lacks(radish, llama, tmp_path):
    done = radish("logits", llama, "--tokens", "1,512", "--out", tmp_path / "x")
    assert done.returncode == 1 and b"512" in done.stderr
    assert not (tmp_path / "x").exists()


def test_logits_name_a_file_that_cannot_be_written(failed, llama, tmp_path):
    assert "nowhere" in failed("logits", llama, "--tokens", "1", "--out", tmp_path / "nowhere/x")


def test_run_continues_greedily_as_the_reference_does(ok, model):
    prompt = golden(model, "prompt.2")
    text = ok("detokenize", model, stdin=json.dumps(list(prompt)))
    if json.loads(ok("tokenize", model, stdin=text)) != list(prompt):
        # Random ids need not be what their text encodes to; then any text serves to compare text with ids.
        text = "Once upon a time"
    answer = json.loads(ok("run", model, "-p", text, "-n", "8", "--temperature", "0", "--json"))

    assert answer["usage"]["completion_tokens"] == len(answer["ids"]) <= 8
    assert answer["finish_reason"] in ("stop", "length")
    assert ok("run", model, "-p", text, "-n", "8", "--temperature", "0") == answer["text"] + "\n"


def test_weights_that_are_no_numbers_are_no_bug_of_the_programs(radish, llama, tmp_path):
    shutil.copytree(llama, tmp_path / "broken")
    path = tmp_path / "broken/model.safetensors"
    raw = bytearray(path.read_bytes())
    (n,) = struct.unpack("<Q", raw[:8])
    at = 8 + n + json.loads(raw[8:8 + n])["model.layers.1.mlp.down_proj.weight"]["data_offsets"][0]
    raw[at:at + 2] = struct.pack("<H", 0x7fc0)  # a NaN in bf16
    path.write_bytes(raw)
    done = radish("run", tmp_path / "broken", "-p", "Hello", "-n", "3")
    assert done.returncode == 1 and b"no finite number" in done.stderr and b"bug" not in done.stderr
    done = radish("run", tmp_path / "broken", "-p", "Hello", "-n", "3", "--quantization", "q8_0")
    assert done.returncode == 1 and b"model.layers.1.mlp.down_proj.weight: numbers that are not finite" in done.stderr


def test_n_limits_the_answer(ok, llama):
    for n in (1, 5):
        answer = json.loads(ok("run", llama, "-p", "Hello", "-n", n, "--temperature", "0", "--json"))
        assert len(answer["ids"]) == n and answer["finish_reason"] == "length"


def test_a_seed_gives_the_same_text_again_and_another_seed_another(ok, llama):
    def ids(seed):
        return json.loads(ok("run", llama, "-p", "Hello", "-n", "16", "--temperature", "1", "--seed", seed, "--json"))["ids"]
    assert ids(7) == ids(7) != ids(8)


def test_temperature_zero_is_greedy(ok, llama):
    def ids(*flags):
        return json.loads(ok("run", llama, "-p", "Hello", "-n", "16", "--json", *flags))["ids"]
    assert ids("--temperature", "0", "--seed", "1") == ids("--temperature", "0", "--seed", "2")


def test_a_prompt_longer_than_the_context_is_refused_with_the_numbers(failed, llama):
    line = failed("run", llama, "-p", "word " * 400, "--context-length", "64")
    assert "64" in line


def test_a_model_without_weights_cannot_run(failed, llama, tmp_path):
    import shutil
    for name in ("tokenizer.json", "tokenizer_config.json"):
        shutil.copy(llama / name, tmp_path)
    failed("run", tmp_path, "-p", "x")


# ---- inspect ----

def test_inspect_lists_metadata_and_tensors(ok, llama):
    text = ok("inspect", llama)
    assert '"num_hidden_layers" = 3' in text
    assert "model.embed_tokens.weight" in text and "BF16  [512, 96] 98304" in text
    assert "29 tensors" in text or "tensors," in text


def test_inspect_writes_a_tensor_as_float32(ok, llama, tmp_path):
    raw = read_safetensors(llama / "model.safetensors")[0]["model.norm.weight"]
    expected = raw[2]
    if raw[0] == "BF16":
        halves = struct.unpack(f"<{len(expected) // 2}H", expected)
        expected = struct.pack(f"<{len(halves)}I", *(h << 16 for h in halves))
    out = tmp_path / "norm.f32"
    ok("inspect", llama, "--tensor", "model.norm.weight", "--out", out)
    assert out.read_bytes() == expected


def test_inspect_names_a_tensor_that_is_not_there(failed, llama, tmp_path):
    assert "no tensor 'nope'" in failed("inspect", llama, "--tensor", "nope", "--out", tmp_path / "x")
    assert not (tmp_path / "x").exists()


# ---- broken and missing models ----

@pytest.mark.parametrize("command", [["inspect"], ["run", "-p", "x"], ["tokenize"], ["info"], ["serve", "--port", "0"], ["chat"]])
def test_a_model_that_is_not_there_is_named(failed, command, tmp_path):
    assert "no-such-model" in failed(command[0], tmp_path / "no-such-model", *command[1:])


@pytest.mark.parametrize("command", [["inspect"], ["run", "-p", "x"], ["info"], ["serve", "--port", "0"]])
def test_a_truncated_model_is_one_clear_line(failed, llama, tmp_path, command):
    for path in llama.iterdir():
        raw = path.read_bytes()
        (tmp_path / path.name).write_bytes(raw[:len(raw) // 2] if path.name == "model.safetensors" else raw)
    assert "model.safetensors" in failed(command[0], tmp_path, *command[1:])


def test_a_file_that_is_no_model_is_refused(failed, tmp_path):
    path = tmp_path / "x.gguf"
    path.write_bytes(b"GGUF" + b"\xff" * 100)
    assert "x.gguf" in failed("inspect", path)


def test_a_model_is_found_by_its_name_in_the_cache(ok, llama, tmp_path):
    (tmp_path / "org").mkdir()
    (tmp_path / "org/tiny").symlink_to(llama)
    assert "model.norm.weight" in ok("inspect", "org/tiny", env={"RADISH_CACHE": str(tmp_path)})
    assert ok("tokenize", "org/tiny", stdin="a", env={"RADISH_CACHE": str(tmp_path)}) == ok("tokenize", llama, stdin="a")


# ---- info ----

def test_info_describes_machine_kernels_and_plan(ok, llama):
    machine = ok("info")
    assert "matmul" in machine
    text = ok("info", llama, "--max-total-tokens", "1000", "--context-length", "256")
    assert "matmul" in text and "1000" in text and "256" in text


def test_info_shows_a_forced_kernel(ok, llama):
    assert ok("info", llama) != ok("info", llama, "--kernel", "matmul=ref")


# ---- progress ----

def stderr_on_terminal(program, *arguments):
    """What the program writes to stderr when that is a terminal."""
    import os, pty, subprocess
    master, slave = pty.openpty()
    process = subprocess.Popen([program, *map(str, arguments)], stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=slave)
    os.close(slave)
    seen = b""
    while True:
        try:
            piece = os.read(master, 4096)
        except OSError:
            break
        if not piece:
            break
        seen += piece
    os.close(master)
    assert process.wait(60) == 0, seen
    return seen


def test_loading_shows_a_bar_on_a_terminal_and_wipes_it(radish, llama):
    seen = stderr_on_terminal(radish.program, "run", llama, "-p", "x", "-n", "1")
    assert b"loading [" in seen and b"100 %" in seen
    assert seen.endswith(b" \r")


def test_loading_shows_nothing_on_a_pipe(radish, llama):
    assert radish("run", llama, "-p", "x", "-n", "1").stderr == b""
