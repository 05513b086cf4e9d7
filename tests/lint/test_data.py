"""tests/data is what a checkout without the conformance data is tested with: it must be there, and it must stay small."""
import pathlib, subprocess

ROOT = pathlib.Path(__file__).resolve().parents[2]
BYTES_MAX = 4 << 20


def committed_files():
    done = subprocess.run(["git", "ls-files", "-z", "tests/data"], cwd=ROOT, capture_output=True)
    names = done.stdout.decode().split("\0")[:-1]
    return [ROOT / name for name in names] or [p for p in (ROOT / "tests/data").rglob("*") if p.is_file()]


def test_the_data_stays_small():
    sizes = {path: path.stat().st_size for path in committed_files() if path.exists()}
    largest = sorted(sizes, key=sizes.get)[-5:]
    assert sum(sizes.values()) < BYTES_MAX, [f"{path.relative_to(ROOT)}: {sizes[path]}" for path in largest]


def test_templates_tokenizer_models_and_quants_are_there():
    for name in ("templates/templates.json.xz", "tokenizers/qwen3/tokenizer.json.xz", "tokenizers/qwen3/golden.json",
                 "models/llama/golden.safetensors", "models/qwen3/golden.safetensors", "quants/quants.gguf.xz"):
        assert (ROOT / "tests/data" / name).stat().st_size > 1000
