"""Differential tests: generated inputs go to radish and to the package that defined the right answer; a difference is a failure.

Every suite prints its seed and runs a fixed number of cases; RADISH_ORACLE_SEED and RADISH_ORACLE_ROUNDS (a factor) change that for
longer runs by hand. Generated tokenizers and templates are given to the program as files, so that its whole path is tested.
"""
import json, os, pathlib, random, subprocess

import pytest

ROOT = pathlib.Path(__file__).resolve().parents[2]
SEED = int(os.environ.get("RADISH_ORACLE_SEED", "1"))
ROUNDS = float(os.environ.get("RADISH_ORACLE_ROUNDS", "1"))
# A hang is found; a sanitized program on a busy machine is not mistaken for one.
TIMEOUT = 120


def pytest_report_header():
    return f"seed {SEED}, rounds x{ROUNDS:g}"


@pytest.fixture
def rng(request):
    """A generator of its own for every test, so that one test's cases do not depend on which others ran."""
    return random.Random(f"{SEED} {request.node.name}")


@pytest.fixture(scope="session")
def jsonl():
    """jsonl(command, *args, rows) -> rows: one run of `radish COMMAND --jsonl`, a JSON value per line in and out."""
    program = os.environ.get("RADISH", str(ROOT / "build/release/radish"))

    def run(*args, rows):
        text = "".join(json.dumps(row) + "\n" for row in rows)
        done = subprocess.run([program, *map(str, args), "--jsonl"], input=text.encode(), capture_output=True, timeout=TIMEOUT)
        assert done.returncode == 0, done.stderr.decode()
        answers = [json.loads(line) for line in done.stdout.decode().split("\n")[:-1]]
        assert len(answers) == len(rows)
        return answers
    run.program = program
    return run
