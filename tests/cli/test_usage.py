"""Help, flags and exit statuses: what somebody meets who types something wrong, or nothing."""
import re

import pytest

from conftest import ROOT

COMMANDS = ["serve", "chat", "run", "tokenize", "detokenize", "render", "logits", "inspect", "info", "bench", "pull", "list"]


def flags_of_help(text):
    return set(re.findall(r"^  (?:-\w, )?--([a-z-]+)", text, re.M)) - {"help"}


def flag_table(path):
    """Names in the first column of the markdown table whose head is '| flag |'."""
    rows = re.search(r"^\| flag \|.*?\n((?:\|.*\n)+)", path.read_text(), re.M).group(1)
    return {name for row in rows.splitlines()[1:] for name in re.findall(r"--([a-z-]+)", row.split("|")[1])}


def test_version_names_the_program(ok):
    assert re.fullmatch(r"radish \d+\.\d+\.\d+\n", ok("--version"))


@pytest.mark.parametrize("word", ["--help", "-h", "help"])
def test_help_of_the_program_lists_every_command(ok, word):
    text = ok(word)
    for command in COMMANDS:
        assert re.search(rf"^  {command}\s+\w", text, re.M), command


def test_without_arguments_help_goes_to_stderr_and_the_status_is_2(radish):
    done = radish()
    assert done.returncode == 2 and done.stdout == b"" and b"Commands:" in done.stderr


@pytest.mark.parametrize("command", COMMANDS)
def test_help_of_a_command_shows_usage_and_flags_in_100_columns(ok, command):
    text = ok(command, "--help")
    assert text.startswith(f"usage: radish {command}")
    assert "--help" in text
    assert max(len(line) for line in text.splitlines()) <= 100
    assert not any(line.endswith(" ") for line in text.splitlines())


def test_help_of_serve_shows_the_defaults(ok):
    text = re.sub(r"\s+", " ", ok("serve", "--help"))
    for flag, default in [("host", "127.0.0.1"), ("port", "30000"), ("precision", "fast"), ("kv-cache-dtype", "auto"),
                          ("max-running-requests", "256"), ("max-queued-requests", "1024"), ("chunked-prefill-size", "512"),
                          ("max-prefill-tokens", "16384"), ("max-body-mb", "64"), ("stop-grace-seconds", "30"),
                          ("max-connections", "8192"), ("receive-timeout", "30"), ("stream-interval", "1"), ("decode-log-interval", "40"), ("log-level", "info"), ("page-size", "1"),
                          ("max-stall-ms", "250"), ("schedule-policy", "lpm"), ("schedule-conservativeness", "1"),
                          ("radix-eviction-policy", "lru")]:
        assert re.search(rf"--{flag} [^\[]*\[{re.escape(default)}\]", text), flag


def test_the_readme_lists_exactly_the_flags_of_serve(ok):
    assert flag_table(ROOT / "README.md") == flags_of_help(ok("serve", "--help"))


def test_flags_of_serve_are_named_as_the_design_says(ok):
    design = ROOT.parent / "shared/ARCHITECTURE.md"
    if not design.exists():
        pytest.skip("no ../shared/ARCHITECTURE.md")
    beyond = {"ssl-certfile", "ssl-keyfile", "max-connections", "receive-timeout", "tool-call-parser", "huge-pages", "numa"}
    assert flags_of_help(ok("serve", "--help")) - beyond <= flag_table(design)


@pytest.mark.parametrize("command", ["chat", "run", "logits", "info"])
def test_shared_flags_mean_the_same_everywhere(ok, command):
    def rows(text):
        return dict(re.findall(r"^  (--[a-z-]+)(.*(?:\n {20,}.*)*)", text, re.M))
    serve, other = rows(ok("serve", "--help")), rows(ok(command, "--help"))
    shared = (set(serve) & set(other)) - {"--log-level"}
    assert {"--threads", "--precision", "--kernel", "--context-length"} <= shared
    assert all(serve[flag] == other[flag] for flag in shared)


def test_a_misspelt_command_is_corrected(refused):
    line = refused("serv", "MODEL")
    assert "did you mean serve?" in line and "radish --help" in line


@pytest.mark.parametrize("typed, meant", [("--prot", "--port"), ("--max-runing-requests", "--max-running-requests"),
                                          ("--max-token", "--max-total-tokens"), ("--thread", "--threads")])
def test_a_misspelt_flag_is_corrected(refused, typed, meant):
    line = refused("serve", "MODEL", typed, "1")
    assert f"unknown flag '{typed}'" in line and "radish serve --help" in line
    if typed != "--max-token":
        assert f"did you mean {meant}?" in line


@pytest.mark.parametrize("typed, ours", [("--max-model-len=9", "--context-length"), ("-c", "--context-length"), ("-np", "--max-running-requests"),
                                         ("--model-path", "the first argument"), ("--seed", "--random-seed"), ("--jinja", "always on")])
def test_a_flag_of_another_server_says_what_it_is_here(refused, typed, ours):
    line = refused("serve", "MODEL", typed, "1")
    assert line.startswith(f"radish: unknown flag '{typed}': ") and ours in line


def test_a_flag_of_another_command_says_whose_it_is(refused):
    assert "--port is a flag of 'radish serve', not of 'radish run'" in refused("run", "MODEL", "--port", "1")


@pytest.mark.parametrize("command", ["serve", "chat", "run", "logits", "info", "bench"])
def test_quantization_is_a_flag_of_all_that_load(refused, command):
    what = ["bench", "one-batch"] if command == "bench" else [command]
    line = refused(*what, "MODEL", "--quantization", "awq")
    assert "--quantization is one of none|q8_0|q6_k|q5_k|q5_1|q5_0|q4_k|q4_1|q4_0, not 'awq'" in line


@pytest.mark.parametrize("command", [c for c in COMMANDS if c not in ("info", "render", "bench", "list")])
def test_a_missing_model_is_said(refused, command):
    line = refused(command) if command not in ("run", "logits") else refused(command, "-p" if command == "run" else "--tokens", "1")
    assert "MODEL is missing" in line and f"radish {command} --help" in line


@pytest.mark.parametrize("arguments, says", [
    (["serve", "M", "--port", "65536"], "--port wants a number from 0 to 65535, not 65536"),
    (["serve", "M", "--port", "-1"], "--port wants a whole number, not '-1'"),
    (["serve", "M", "--port", "80x"], "--port wants a whole number, not '80x'"),
    (["serve", "M", "--port", ""], "--port wants a whole number, not ''"),
    (["serve", "M", "--port"], "--port wants a value"),
    (["serve", "M", "--threads", "0"], "--threads wants a number from 1 to"),
    (["run", "M", "-p", "x", "--threads", "513"], "--threads wants a number from 1 to 512, not 513"),
    (["serve", "M", "--threads", "99999999999999999999999"], "--threads wants a number from 1 to"),
    (["serve", "M", "--mem-fraction-static", "1.5"], "--mem-fraction-static wants a number from"),
    (["serve", "M", "--mem-fraction-static", "nan"], "--mem-fraction-static wants a number"),
    (["serve", "M", "--request-timeout", "inf"], "--request-timeout wants a number"),
    (["serve", "M", "--precision", "slow"], "--precision is one of fast|exact, not 'slow'"),
    (["serve", "M", "--kv-cache-dtype", "fp8"], "--kv-cache-dtype is one of auto|f32|f16|bf16"),
    (["serve", "M", "--device", "cuda"], "--device is one of cpu"),
    (["serve", "M", "--kernel", "matmul"], "--kernel wants OP=VARIANT"),
    (["serve", "M", "--schedule-policy", "best"], "--schedule-policy is one of lpm|fcfs|dfs-weight|lof|random|hrrn"),
    (["serve", "M", "--radix-eviction-policy", "arc"], "--radix-eviction-policy is one of lru|lfu|fifo|mru|filo|slru|priority"),
    (["serve", "M", "--schedule-conservativeness", "0"], "--schedule-conservativeness wants a number from"),
    (["serve", "M", "--max-stall-ms", "-1"], "--max-stall-ms wants a whole number"),
    (["serve", "M", "--disable-radix-cache=1"], "takes no value"),
    (["run", "M", "--max-stall-ms", "5"], "is a flag of 'radish serve'"),
    (["serve", "M", "--isolate-keys", "yes"], "--isolate-keys is one of auto|on|off"),
    (["serve", "M", "--shadow-check", "0"], "--shadow-check wants a number from 1"),
    (["serve", "M", "--explain-miss=1"], "takes no value"),
    (["run", "M", "--shadow-check", "5"], "is a flag of 'radish serve'"),
    (["serve", "M", "--api-key", ""], "--api-key wants a key"),
    (["serve", "M", "--random-seed", "18446744073709551616"], "--random-seed wants a number"),
    (["serve", "M", "N"], "'N' is one argument too many"),
    (["serve", ""], "MODEL is an empty text"),
    (["run", "M"], "-p TEXT is missing"),
    (["run", "M", "-p", "x", "--temperature", "-0.5"], "--temperature wants a number from 0"),
    (["run", "M", "-p", "x", "-n", "0"], "--max-tokens wants a number from 1"),
    (["run", "M", "-p", "x", "--json=1"], "takes no value"),
    (["logits", "M", "--out", "F"], "--tokens is missing"),
    (["logits", "M", "--tokens", "1"], "--out is missing"),
    (["logits", "M", "--tokens", "1,,2", "--out", "F"], "--tokens wants ids like 1,2,3"),
    (["logits", "M", "--tokens", "1,-2", "--out", "F"], "--tokens wants ids like 1,2,3"),
    (["logits", "M", "--tokens", "1,2147483648", "--out", "F"], "--tokens wants ids like 1,2,3"),
    (["logits", "M", "--tokens", "1,2,3", "--out", "F", "--warm", "3"], "--warm must leave a token to compute: less than 3, not 3"),
    (["inspect", "M", "--tensor", "x"], "--tensor wants --out"),
    (["inspect", "M", "--out", "x"], "--out wants --tensor"),
    (["render"], "MODEL or --template is wanted"),
])
def test_a_bad_value_is_refused_with_its_bounds(refused, arguments, says):
    line = refused(*arguments)
    assert says in line
    assert f"(try 'radish {arguments[0]} --help')" in line


def test_an_unknown_kernel_is_wrong_usage(radish, llama):
    done = radish("run", llama, "-p", "x", "--kernel", "nonsense=ref")
    assert done.returncode == 2 and done.stderr.startswith(b"radish: --kernel: nonsense=ref: must be OP=VARIANT")


def test_the_most_threads_that_a_flag_takes_can_be_had(ok, llama):
    assert re.search(r"threads +512\n", ok("info", "--threads", "512"))


def test_a_forced_kernel_is_told_once(radish, llama):
    done = radish("run", llama, "-p", "x", "-n", "1", "--kernel", "matmul=ref", "--log-level", "info")
    assert done.stderr.count(b"Custom RoPE kernel") == 1


def test_a_full_stdout_is_a_failure(radish):
    import subprocess
    with open("/dev/full", "w") as full:
        done = subprocess.run([radish.program, "--help"], stdout=full, stderr=subprocess.PIPE)
    assert done.returncode == 1
