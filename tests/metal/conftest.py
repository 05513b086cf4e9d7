"""Servers and commands on the Metal device's stand-in (a build of preset metal-sim): what tests/server has, with the device's flag.

A process that touched memory in the wrong order, misused Metal or left an object behind ends with status 86: every test that stops its
server and looks at the status has tested that, too.
"""
import importlib.util
import json
import os
import pathlib
import struct
import subprocess

import pytest

ROOT = pathlib.Path(__file__).resolve().parents[2]
PROGRAM = os.environ.get("RADISH_BIN", str(ROOT / "build/metal-sim/radish"))
os.environ["RADISH_BIN"] = PROGRAM
spec = importlib.util.spec_from_file_location("server_suite", ROOT / "tests/server/conftest.py")
server_suite = importlib.util.module_from_spec(spec)
spec.loader.exec_module(server_suite)

DEVICE = ["--device", "metal-sim"]
SMALL = ["--context-length", "512", "--max-total-tokens", "2048", "--max-running-requests", "8", "--chunked-prefill-size", "64"]
MODELS = ROOT / "tests/data/models"


def start_server(*flags, env=None, **more):
    """As Server, with more environment."""
    before = dict(os.environ)
    os.environ.update(env or {})
    try:
        return server_suite.Server(*flags, **more)
    finally:
        os.environ.clear()
        os.environ.update(before)


@pytest.fixture
def start():
    """start(*flags, env={}, model=...): servers of one test, ended with it; each has to end well."""
    started = []

    def start_one(*flags, **more):
        started.append(start_server(*flags, **more))
        return started[-1]

    yield start_one
    for one in started:
        assert one.stop() == 0, one.log()[-4000:]


@pytest.fixture(scope="session")
def metal():
    """The tiny model on the Metal device, for tests that leave it idle."""
    one = start_server(*DEVICE, *SMALL)
    yield one
    assert one.stop() == 0, one.log()[-4000:]


@pytest.fixture(scope="session")
def no_overlap():
    """The same, each step begun when the one before has ended."""
    one = start_server(*DEVICE, *SMALL, "--disable-overlap-schedule")
    yield one
    assert one.stop() == 0, one.log()[-4000:]


@pytest.fixture(scope="session")
def cpu():
    """The same on the CPU."""
    one = start_server(*SMALL)
    yield one
    assert one.stop() == 0


@pytest.fixture(scope="session")
def radish():
    """radish(*args, env={}) -> CompletedProcess, which has to be a success."""
    def run(*args, env=None):
        done = subprocess.run([PROGRAM, *map(str, args)], capture_output=True, timeout=120, text=True, env={**os.environ, **(env or {})})
        assert done.returncode == 0, (done.returncode, done.stderr[-4000:])
        return done

    return run


def read_logits(path):
    """Rows of float32 of the file's one tensor, and its metadata."""
    raw = pathlib.Path(path).read_bytes()
    n = int.from_bytes(raw[:8], "little")
    header = json.loads(raw[8:8 + n])
    meta = header.pop("__metadata__", {})
    (tensor,) = header.values()
    rows, width = tensor["shape"]
    begin, end = tensor["data_offsets"]
    values = struct.unpack(f"<{rows * width}f", raw[8 + n + begin:8 + n + end])
    return [values[i * width:(i + 1) * width] for i in range(rows)], meta
