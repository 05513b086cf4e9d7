"""What the tests of the command line share: the program under test (RADISH, set by tests/run_pytest) and models to run it on."""
import json, os, pathlib, struct, subprocess

import pytest

ROOT = pathlib.Path(__file__).resolve().parents[2]
MODELS = ROOT / "tests/data/models"
# Sanitized programs on a busy machine are slow; a hang is still found.
TIMEOUT = 120


@pytest.fixture(scope="session")
def radish():
    """radish(*args, stdin=text or bytes, env={}) -> CompletedProcess with bytes; stdin is empty unless given."""
    program = os.environ.get("RADISH", str(ROOT / "build/release/radish"))

    def run(*args, stdin=b"", env=None):
        if isinstance(stdin, str):
            stdin = stdin.encode()
        return subprocess.run([program, *map(str, args)], input=stdin, capture_output=True, timeout=TIMEOUT,
                              env={**os.environ, **(env or {})})

    run.program = program
    return run


@pytest.fixture(scope="session")
def ok(radish):
    """The same, for runs that have to work: returns stdout as text."""
    def run(*args, **kwargs):
        done = radish(*args, **kwargs)
        assert done.returncode == 0, done.stderr.decode()
        return done.stdout.decode()
    return run


@pytest.fixture(scope="session")
def refused(radish):
    """For wrong usage: asserts exit status 2, one line on stderr, nothing on stdout; returns the line."""
    def run(*args, **kwargs):
        done = radish(*args, **kwargs)
        assert done.returncode == 2, done
        assert done.stdout == b""
        text = done.stderr.decode()
        assert text.count("\n") == 1 and text.endswith("\n"), text
        return text
    return run


@pytest.fixture(scope="session")
def failed(radish):
    """For runs that have to fail: asserts exit status 1 and one line on stderr; returns the line."""
    def run(*args, **kwargs):
        done = radish(*args, **kwargs)
        assert done.returncode == 1, done
        text = done.stderr.decode()
        assert text.count("\n") == 1 and text.startswith("radish: "), text
        return text
    return run


@pytest.fixture(params=["llama", "qwen3"])
def model(request):
    return MODELS / request.param


@pytest.fixture(scope="session")
def llama():
    return MODELS / "llama"


def read_safetensors(path):
    """{name: (dtype, shape, bytes)}, metadata."""
    raw = pathlib.Path(path).read_bytes()
    (n,) = struct.unpack("<Q", raw[:8])
    header = json.loads(raw[8:8 + n])
    metadata = header.pop("__metadata__", {})
    tensors = {name: (t["dtype"], t["shape"], raw[8 + n + t["data_offsets"][0]:8 + n + t["data_offsets"][1]])
               for name, t in header.items()}
    return tensors, metadata


def floats(raw):
    return struct.unpack(f"<{len(raw) // 4}f", raw)


def golden(model, name):
    """A tensor of the model's golden.safetensors as a tuple."""
    dtype, shape, raw = read_safetensors(model / "golden.safetensors")[0][name]
    code = {"F32": "f", "I64": "q"}[dtype]
    return struct.unpack(f"<{len(raw) // struct.calcsize(code)}{code}", raw)
