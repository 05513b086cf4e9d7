"""A model quantised while it is loaded has the bits of the same model in a file that the `gguf` package quantised."""
import os, pathlib, struct, subprocess

import gguf
import numpy
import pytest

from conftest import ROOT, TIMEOUT

FILES = pathlib.Path(os.environ.get("RADISH_CONFORMANCE", ROOT.parent / "shared/conformance")) / "gguf"
if not FILES.is_dir():
    pytest.skip(f"there is no {FILES}", allow_module_level=True)
TOKENS = ",".join(str((11 * i * i + 5 * i) % 500) for i in range(40))
OF_MODEL = ("token_embd.weight", "output.weight")


def quantise_file(source, target, name):
    """What llama-quantize does with our choice of types: matrices of layers get `name`, the model's own Q8_0; all else stays."""
    raw = source.read_bytes()
    tensors = gguf.GGUFReader(source).tensors
    infos, data = b"", b""
    for tensor in tensors:
        kind, content = tensor.tensor_type, tensor.data
        if len(tensor.shape) > 1:
            floats = gguf.dequantize(content, kind)
            kind = gguf.GGMLQuantizationType["Q8_0" if tensor.name in OF_MODEL else name]
            content = gguf.quantize(floats, kind)
        text = tensor.name.encode()
        infos += struct.pack("<Q", len(text)) + text + struct.pack(f"<I{len(tensor.shape)}QIQ", len(tensor.shape), *map(int, tensor.shape),
                                                                   kind, len(data))
        data += content.tobytes() + bytes(-content.nbytes % 32)
    head = raw[:min(int(tensor.field.offset) for tensor in tensors)] + infos
    target.write_bytes(head + bytes(-len(head) % 32) + data)


def read_logits(program, model, out, *flags):
    done = subprocess.run([program, "logits", model, "--tokens", TOKENS, "--out", out, "--kv-cache-dtype", "f16", *flags], capture_output=True,
                          timeout=TIMEOUT)
    assert done.returncode == 0, done.stderr.decode()
    raw = pathlib.Path(out).read_bytes()
    size, = struct.unpack_from("<Q", raw)
    return numpy.frombuffer(raw[8 + size:], "<f4")


@pytest.mark.parametrize("source, name, precision", [("llama-F16", "Q8_0", "fast"), ("llama-F16", "Q8_0", "exact"), ("llama-F16", "Q5_1", "fast"),
                                                     ("qwen3-BF16", "Q8_0", "fast"), ("qwen3-BF16", "Q4_0", "fast")])
def test_quantised_at_load_is_the_same_as_in_the_file(tmp_path, jsonl, source, name, precision):
    source = FILES / f"{source}.gguf"
    quantise_file(source, tmp_path / "model.gguf", name)

    from_file = read_logits(jsonl.program, tmp_path / "model.gguf", tmp_path / "a", "--precision", precision)
    at_load = read_logits(jsonl.program, source, tmp_path / "b", "--precision", precision, "--quantization", name.lower())
    plain = read_logits(jsonl.program, source, tmp_path / "c", "--precision", precision)

    assert at_load.tobytes() == from_file.tobytes()
    assert 0 < numpy.linalg.norm(at_load - plain) < 0.4 * numpy.linalg.norm(plain)
