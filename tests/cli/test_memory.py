"""Loading peaks at the plan plus the largest tensor: the file's pages do not pile up beside the packed weights."""
import os, re, subprocess

import pytest

SLACK = 48 << 20  # program, tokenizer, heap
LIMITS = ["--max-total-tokens", "512", "--context-length", "512", "--threads", "2"]


def peak_bytes(command):
    with open(os.devnull, "wb") as null:
        process = subprocess.Popen(command, stdout=null, stderr=null)
    _, status, usage = os.wait4(process.pid, 0)
    process.returncode = os.waitstatus_to_exitcode(status)
    assert process.returncode == 0
    return usage.ru_maxrss * (1 if os.uname().sysname == "Darwin" else 1024)


@pytest.mark.parametrize("precision", ["fast", "exact"])
def test_loading_peaks_at_the_plan_plus_the_largest_tensor(ok, radish, precision):
    model = os.environ.get("RADISH_SMOLLM2")
    if not model:
        pytest.skip("RADISH_SMOLLM2 does not name the model")
    flags = [*LIMITS, "--precision", precision]
    plan = re.search(r"weights ([\d.]+) GB.*?([\d.]+) GB\), scratch ([\d.]+) GB", ok("info", model, *flags))
    planned = sum(float(part) for part in plan.groups()) * 1e9
    text_only = peak_bytes([radish.program, "tokenize", model])
    largest = 49152 * 576 * 34 // 32
    peak = peak_bytes([radish.program, "run", model, "-p", "The sky is", "-n", "4", *flags])
    print(f"peak {peak / 1e6:.0f} MB, plan {planned / 1e6:.0f} MB, text alone {text_only / 1e6:.0f} MB")
    assert peak <= planned + largest + text_only + SLACK, (peak, planned)
    # A peak that the file's own bytes cannot have been part of shows that pages really go.
    assert peak < planned + os.path.getsize(model) + text_only
