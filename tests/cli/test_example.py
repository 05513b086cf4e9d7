"""examples/complete.c: the engine inside another program, through radish.h and the shared library alone."""
import pathlib, subprocess


def test_the_example_says_what_run_says(radish, ok, llama):
    program = pathlib.Path(radish.program).parent / "tests/example_complete"
    done = subprocess.run([program, llama, "Once upon a time"], capture_output=True, timeout=120)
    assert done.returncode == 0, done.stderr
    assert done.stdout.decode() + "\n" == ok("run", llama, "-p", "Once upon a time", "-n", "32", "--temperature", "0")


def test_the_example_says_why_it_fails(radish, tmp_path):
    program = pathlib.Path(radish.program).parent / "tests/example_complete"
    done = subprocess.run([program, tmp_path / "gone", "x"], capture_output=True, text=True, timeout=120)
    assert done.returncode == 1 and "gone" in done.stderr
