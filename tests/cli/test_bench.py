"""radish bench: figures as a table, or as JSON lines."""
import contextlib, csv, json, os, re, shutil, signal, subprocess

import pytest

from bench_stub import Stub
from conftest import MODELS


def test_bench_radix_prints_a_figure_for_match_insert_and_evict(ok):
    rows = [json.loads(line) for line in ok("bench", "radix", "--json", "--nodes", "1000").splitlines()]
    assert {row["bench"] for row in rows} == {"radix"} and {row["nodes"] for row in rows} == {1000}
    for word, unit in [("match", "ns/token"), ("insert", "ns/leaf"), ("evict", "ns/leaf"), ("append", "ns/token"), ("insert 100", "us")]:
        assert any(word in row["what"] and row["unit"] == unit for row in rows), word
    assert all(0 < row["min"] <= row["median"] <= row["max"] and row["runs"] >= 5 for row in rows)
    assert len({row["what"] for row in rows}) == len(rows)


def test_bench_radix_prints_a_table_for_people(ok):
    lines = ok("bench", "radix", "--nodes", "1000").splitlines()
    assert len(lines) >= 8 and all(line.startswith("radix ") and " nodes " in line and "runs)" in line for line in lines)


def test_bench_sched_prints_what_a_step_costs(ok):
    rows = [json.loads(line) for line in ok("bench", "sched", "--json").splitlines()]
    steps = [row for row in rows if row["what"] == "a step of decodes"]
    assert [row["running"] for row in steps] == [1, 32, 256]
    assert all(0 < row["min"] <= row["median"] and row["unit"] == "us/step" for row in steps)
    assert any(row.get("cached") == 999 for row in rows)


def test_bench_kernels_prints_rope_fused_unfused_and_a_floor(ok):
    lines = ok("bench", "kernels", "--op", "rope_kv_store", "--json").splitlines()
    limits, rows = json.loads(lines[0]), [json.loads(line) for line in lines[1:]]
    assert limits["read_gbs"] > 0 and limits["threads"] >= 1 and "rope_kv_store=" in limits["kernels"]
    assert [row["T"] for row in rows] == [2**i for i in range(11)] * 3
    assert sorted({row["shape"] for row in rows}) == ["16/2/64", "16/8/128", "32/8/128"]
    assert {(row["op"], row["dtype"]) for row in rows} == {("rope_kv_store", "BF16")}
    assert all(row[name] > 0 for row in rows for name in ("fused_ns", "unfused_ns", "floor_ns"))
    for row in rows:
        low, high = row["unfused_quartiles"]
        assert 0 < low <= row["unfused_ratio"] <= high
    # Four passes are more work than one: where calls are short, no disturbance hides that from most rows.
    assert sum(row["unfused_ratio"] > 1 for row in rows if row["T"] <= 16) >= 12


@pytest.mark.skipif("RADISH_LONG" not in os.environ, reason="half a minute: set RADISH_LONG")
def test_bench_kernels_reads_attention_through_slots_beside_a_contiguous_twin(radish):
    command = [radish.program, "bench", "kernels", "--op", "attention", "--threads", "1", "--json"]
    lines = subprocess.run(command, capture_output=True, check=True, timeout=600).stdout.splitlines()
    rows = [json.loads(line) for line in lines[1:]]
    assert [row["shape"] for row in rows if row["T"] == 16] == ["16x1 at 511", "16x1 at 2047"]
    for row in rows:
        assert row["gops"] > 0 and row["gbs"] > 0 and row["runs_quartiles"][0] <= row["runs_ratio"]
        assert all(row[f"{name}_ns"] > 0 for name in ("contiguous", "runs", "scattered", "read_contiguous", "read_scattered"))
    decodes = [row for row in rows if row["T"] <= 16]
    assert sorted(row["runs_ratio"] for row in decodes)[len(decodes) // 2] < 1.25


def test_bench_kernels_holds_an_operation_against_the_limits_of_the_machine(ok):
    lines = ok("bench", "kernels", "--op", "rmsnorm", "--threads", "1", "--json").splitlines()
    limits, rows = json.loads(lines[0]), [json.loads(line) for line in lines[1:]]
    assert limits["threads"] == 1
    assert [(row["shape"], row["T"]) for row in rows] == [(s, 4**i) for s in ("1024", "16 x 128") for i in range(6)]
    for row in rows:
        assert row["ns"] > 0 and row["bytes"] == 8 * row["T"] * (1024 if row["shape"] == "1024" else 2048)
        assert abs(row["read_percent"] - 100 * row["bytes"] / row["ns"] / limits["read_gbs"]) < 1


def test_bench_kernels_measures_every_operation_that_has_kernels(ok, refused):
    limits = ok("bench", "kernels", "--op", "keep_rows", "--threads", "1", "--json").splitlines()[0]
    kernels = dict(choice.split("=") for choice in json.loads(limits)["kernels"].split())
    choices = refused("bench", "kernels", "--op", "softmax").split("--op is one of ")[1]
    assert kernels.keys() <= set(re.findall(r"\w+", choices)), choices


def test_bench_kernels_names_the_kernel_of_a_row_and_prints_csv(ok):
    lines = ok("bench", "kernels", "--op", "layernorm", "--kernel", "layernorm=ref", "--threads", "1", "--csv").splitlines()
    assert lines[0].startswith("# threads 1, isa ")
    rows = list(csv.DictReader(lines[1:]))
    assert [int(row["T"]) for row in rows] == [1, 4, 16, 64, 256, 1024]
    for row in rows:
        assert (row["op"], row["kernel"], row["shape"], row["dtype"]) == ("layernorm", "f32_layernorm__ref", "1024", "F32")
        assert 0 < float(row["min_ns"]) <= float(row["ns"]) and float(row["bytes"]) == 8192 * int(row["T"])
        assert float(row["gops"]) > 0 and float(row["peak_percent"]) > 0 and row["onednn_ns"] == row["details"] == ""


@pytest.mark.skipif("RADISH_LONG" not in os.environ, reason="half a minute: set RADISH_LONG")
def test_bench_kernels_holds_a_group_of_products_against_its_parts(ok):
    lines = ok("bench", "kernels", "--op", "matmul_group", "--dtype", "q4_0", "--threads", "1", "--json").splitlines()
    rows = [json.loads(line) for line in lines[1:]]
    assert [(row["shape"], row["T"]) for row in rows] == [(s, t) for s in ("qkv", "gate up") for t in (1, 4, 16, 64, 512)]
    for row in rows:
        low, high = row["parts_quartiles"]
        assert row["parts_ns"] > 0 and 0 < low <= row["parts_ratio"] <= high and row["gops"] > 0


def test_bench_kernels_measures_a_peer_only_where_it_is_built_in(refused):
    if b"libdnnl" in subprocess.run(["ldd", os.environ.get("RADISH", "build/release/radish")], capture_output=True).stdout:
        pytest.skip("oneDNN is built in")
    assert "built without oneDNN" in refused("bench", "kernels", "--op", "matmul", "--beside", "onednn")


def test_bench_kernels_refuses_a_peer_for_what_is_no_product(refused):
    assert "not keep_rows" in refused("bench", "kernels", "--op", "keep_rows", "--beside", "onednn")


def test_bench_kernels_refuses_types_that_it_would_not_measure(refused):
    assert "one of them" in refused("bench", "kernels", "--json", "--csv")
    assert "must be one of F32, F16" in refused("bench", "kernels", "--dtype", "q9")
    assert "rmsnorm is measured in F32" in refused("bench", "kernels", "--op", "rmsnorm", "--dtype", "q8_0")
    assert "prepare is measured for BF16" in refused("bench", "kernels", "--op", "prepare", "--dtype", "f16")
    assert "--op is one of" in refused("bench", "kernels", "--op", "softmax")


def test_bench_kernels_refuses_a_kernel_that_is_not_there_as_wrong_usage(refused):
    assert refused("bench", "kernels", "--kernel", "matmul=nonsense").startswith("radish: --kernel: matmul=nonsense: there is no such")


@pytest.mark.parametrize("name, flags", [("radix", ["--op", "matmul"]), ("radix", ["--csv"]), ("sched", ["--dtype", "f16"]), ("sched", ["--threads", "2"]),
                                         ("radix", ["--kernel", "matmul=ref"]), ("sched", ["--nodes", "1000"]), ("kernels", ["--nodes", "1000"])])
def test_bench_refuses_flags_of_another_benchmark(refused, name, flags):
    assert f"{flags[0]} is no flag of 'radish bench {name}'" in refused("bench", name, *flags)


def test_bench_names_its_benchmarks_when_asked_for_none_or_another(refused):
    assert "which benchmark? There is: one-batch, serving, radix, sched" in refused("bench")
    assert "no benchmark is named 'nonsense'; there is: one-batch, serving, radix, sched" in refused("bench", "nonsense")
    assert "radish bench serving [flags]" in refused("bench", "--json", "serving")


# ---- one-batch ----

ONE_BATCH_KEYS = ["run_name", "batch_size", "input_len", "output_len", "prefill_latency", "prefill_throughput", "median_decode_latency",
                  "median_decode_throughput", "total_latency", "overall_throughput"]


def test_bench_one_batch_measures_every_combination(ok, model, tmp_path):
    out = tmp_path / "results.jsonl"
    text = ok("bench", "one-batch", model, "--batch-size", "1,3", "--input-len", "5,40", "--output-len", "6", "--json", "--run-name", "r",
              "--result-filename", out)
    rows = [json.loads(line) for line in text.splitlines()]
    assert [(r["batch_size"], r["input_len"], r["output_len"]) for r in rows] == [(1, 5, 6), (1, 40, 6), (3, 5, 6), (3, 40, 6)]
    assert out.read_text() == text
    for r in rows:
        assert list(r) == ONE_BATCH_KEYS and r["run_name"] == "r"
        n = r["batch_size"]
        assert r["prefill_throughput"] == pytest.approx(n * r["input_len"] / r["prefill_latency"])
        assert r["median_decode_throughput"] == pytest.approx(n / r["median_decode_latency"])
        assert r["overall_throughput"] == pytest.approx(n * (r["input_len"] + 6) / r["total_latency"])
        assert r["total_latency"] > r["prefill_latency"] > 0


def test_bench_one_batch_prints_the_lines_of_the_reference(ok, llama):
    text = ok("bench", "one-batch", llama, "--batch-size", "2", "--input-len", "9", "--output-len", "12", "--log-decode-step", "4")
    speed = r"latency: +\d+\.\d{5} s, throughput: +\d+\.\d{2} token/s"
    measured = text.split("Benchmark ...\n")[1].splitlines()
    assert text.startswith("Warmup ...\n")
    assert re.fullmatch(rf"Prefill. {speed}", measured[0])
    steps = [re.fullmatch(rf"Decode (\d+). Batch size: 2, {speed}", line) for line in measured[1:-2]]
    assert [int(step[1]) for step in steps] == [0, 1, 2, 3, 4, 8]
    assert re.fullmatch(r"Decode.  median latency: +\d+\.\d{5} s, median throughput: +\d+\.\d{2} token/s", measured[-2])
    assert re.fullmatch(r"Total. latency: +\d+\.\d{3} s, throughput: +\d+\.\d{2} token/s", measured[-1])


@pytest.mark.parametrize("flags", [[], ["--page-size", "16", "--chunked-prefill-size", "7"], ["--precision", "exact", "--threads", "1"]])
def test_bench_one_batch_computes_the_same_in_parts_and_at_once(ok, model, flags):
    text = ok("bench", "one-batch", model, "--correctness-test", "--output-len", "5", *flags)
    assert "Both agree in every bit." in text and text.count("========== Prompt") == 3
    two, one = re.findall(r"prefill logits \(all, in (?:two parts|one part)\):\n((?:  \[.*\n)+)", text)
    assert two == one and len(set(two.splitlines())) == 3


def test_bench_one_batch_takes_prompts_from_a_file(ok, llama, tmp_path):
    prompts = tmp_path / "prompts"
    prompts.write_text("one two three\n\nfour five\n")
    text = ok("bench", "one-batch", llama, "--correctness-test", "--prompt-filename", prompts, "--output-len", "2")
    assert "one two three" in text and "four five" in text and text.count("== Prompt") == 2
    assert ok("bench", "one-batch", llama, "--prompt-filename", prompts, "--batch-size", "3", "--input-len", "30", "--output-len", "2",
              "--json").count("\n") == 1


def test_bench_one_batch_computes_as_a_server_of_that_context_length(ok, llama, tmp_path):
    shutil.copytree(llama, tmp_path / "long")
    config = json.loads((llama / "config.json").read_text())
    pairs = config["head_dim"] // 2
    config["rope_parameters"] |= {"rope_type": "longrope", "original_max_position_embeddings": 64,
                                  "short_factor": [1.0] * pairs, "long_factor": [4.0] * pairs}
    (tmp_path / "long/config.json").write_text(json.dumps(config))
    test = ["bench", "one-batch", tmp_path / "long", "--correctness-test", "--output-len", "2"]
    short, long = ok(*test, "--context-length", "60"), ok(*test, "--context-length", "500")
    assert short == ok(*test) and short != long


def test_bench_one_batch_says_what_does_not_fit(failed, refused, llama):
    assert "needs 1120 slots, but the KV pool has 512" in failed(
        "bench", "one-batch", llama, "--batch-size", "40", "--input-len", "20", "--output-len", "8", "--max-total-tokens", "512")
    line = failed("bench", "one-batch", llama, "--batch-size", "4000", "--input-len", "2000000")
    assert "GB" in line and "lengths smaller" in line and "--max-total-tokens" not in line # which nobody gave
    line = failed("bench", "one-batch", llama, "--input-len", "600", "--max-total-tokens", "300")
    assert "raise --max-total-tokens or make the batch or its lengths smaller" in line and "--context-length" not in line
    assert "--context-length than 64" in failed("bench", "one-batch", llama, "--input-len", "100", "--context-length", "64")
    assert "wants a whole number, not 'x'" in refused("bench", "one-batch", llama, "--batch-size", "1,x")
    assert "from 1 to" in refused("bench", "one-batch", llama, "--batch-size", "1,0")
    assert "wants a whole number, not ''" in refused("bench", "one-batch", llama, "--input-len", "")
    assert "not with --json" in refused("bench", "one-batch", llama, "--correctness-test", "--json")
    assert "not with --json" in refused("bench", "one-batch", llama, "--log-decode-step", "2", "--json")
    assert "--correctness-test, which is missing" in refused("bench", "one-batch", llama, "--cut-len", "2")
    assert "MODEL is missing" in refused("bench", "one-batch")


# ---- serving ----

SMALL = ["--num-prompts", "8", "--input-len", "20", "--output-len", "4"]


def rows_of(text):
    return [json.loads(line) for line in text.splitlines()]


def test_bench_serving_measures_times_and_counts_of_a_server(ok):
    with Stub(pause=0.02, cached=5) as stub:
        (row,) = rows_of(ok("bench", "serving", "--url", stub.url + "/", *SMALL, "--json", "--output-details", "--warmup-requests", "0"))
    assert len(stub.bodies) == 8 and {b["max_tokens"] for b in stub.bodies} == {4}
    assert all(b["stream"] and b["temperature"] == 0 and b["ignore_eos"] and b["model"] == "stub" for b in stub.bodies)
    assert row["completed"] == 8 and row["failed"] == 0 and row["model"] == "stub"
    n_input = sum(3 + 2 * len(b["prompt"].split()) for b in stub.bodies)
    assert row["total_input_tokens"] == n_input == 8 * (3 + 20) and row["total_output_tokens"] == 32
    assert row["total_cached_tokens"] == 40 and row["total_computed_tokens"] == n_input - 40
    assert row["hit_rate"] == pytest.approx(100 * 40 / n_input, rel=1e-3)
    # The empty chunk that comes at once is not the first token.
    assert row["median_ttft_ms"] >= 20 and row["median_itl_ms"] >= 19 and row["max_worst_gap_ms"] >= row["median_itl_ms"]
    assert all(len(r["gaps_ms"]) == 3 and r["output_tokens"] == 4 and r["cached_tokens"] == 5 for r in row["requests"])


def test_bench_serving_prints_a_table_with_the_headings_of_the_reference(ok, tmp_path):
    out = tmp_path / "out.jsonl"
    with Stub() as stub:
        text = ok("bench", "serving", "--url", stub.url, "--label", "a stub", *SMALL, "--output-file", out, "--max-concurrency", "2")
    for heading in ["Backend:", "Traffic request rate:", "Max request concurrency:", "Successful requests:", "Benchmark duration (s):",
                    "Total input tokens:", "Total generated tokens:", "Request throughput (req/s):", "Input token throughput (tok/s):",
                    "Output token throughput (tok/s):", "Total token throughput (tok/s):", "Concurrency:", "Mean E2E Latency (ms):",
                    "Median E2E Latency (ms):", "Mean TTFT (ms):", "Median TTFT (ms):", "P99 TTFT (ms):", "Mean ITL (ms):",
                    "Median ITL (ms):", "P95 ITL (ms):", "P99 ITL (ms):", "Max ITL (ms):"]:
        assert re.search(rf"^{re.escape(heading)} +\S", text, re.M), heading
    assert re.search(r"^Total cached tokens: +not known", text, re.M)
    (row,) = rows_of(out.read_text())
    assert row["backend"] == "a stub" and row["max_concurrency"] == "2" and row["concurrency"] <= 2.001


@pytest.mark.parametrize("fault, kind, words", [(503, "status", "status 503: told to fail"), ("cut", "broken", "without its end"),
                                                ("error", "answer", "out of memory"), ("garbage", "answer", "answer: "),
                                                ("hang", "timeout", "timeout")])
def test_bench_serving_never_hides_a_failed_request(radish, fault, kind, words):
    with Stub(fault=lambda n, body: fault if n == 2 else None) as stub:
        flags = ["bench", "serving", "--url", stub.url, *SMALL, "--warmup-requests", "0", "--timeout", "2"]
        done = radish(*flags, "--json")
        stub.bodies.clear()
        allowed = radish(*flags, "--allow-errors")
    (row,) = rows_of(done.stdout.decode())
    assert done.returncode == 1 and allowed.returncode == 0
    assert row["failed"] == 1 and row["completed"] == 7 and row["failures"] == {kind: 1}
    assert words in row["first_failure"] and words in allowed.stdout.decode()


def test_bench_serving_does_not_send_what_would_continue_a_failed_answer(radish):
    with Stub(fault=lambda n, body: 500 if n == 0 else None) as stub:
        done = radish("bench", "serving", "--url", stub.url, "--workload", "multi-turn", "--groups", "2", "--prompts-per-group", "3",
                      "--output-len", "2", "--json", "--warmup-requests", "0")
    (row,) = rows_of(done.stdout.decode())
    assert row["failures"] == {"status": 1, "not sent": 2} and row["completed"] == 3 and len(stub.bodies) == 4


def test_bench_serving_conversations_grow_with_the_answers(ok):
    with Stub() as stub:
        ok("bench", "serving", "--url", stub.url, "--workload", "multi-turn", "--groups", "2", "--prompts-per-group", "3", "--prefix-len",
           "30", "--input-len", "10", "--output-len", "2", "--warmup-requests", "0")
    prompts = [b["prompt"] for b in stub.bodies]
    assert sorted(len(p.split()) for p in prompts) == [20, 20, 27, 27, 34, 34]
    for long in prompts:
        if len(long.split()) > 20:
            assert sum(long.startswith(p + " t t ") for p in prompts) >= 1


def test_bench_serving_asks_for_a_whole_fan_out_at_once(ok):
    with Stub(pause=0.05) as stub:
        (row,) = rows_of(ok("bench", "serving", "--url", stub.url, "--workload", "cold-fan-out", "--num-prompts", "16", "--output-len", "4",
                            "--json", "--warmup-requests", "0"))
    trunk = os.path.commonprefix([b["prompt"] for b in stub.bodies])
    assert len(stub.bodies) == 16 and len(trunk.split()) >= 256
    assert row["send_spread_ms"] < 50 and row["hit_rate_ceiling"] > 70


def test_bench_serving_replays_a_trace_in_its_time(ok, tmp_path):
    trace = tmp_path / "trace.jsonl"
    trace.write_text("".join(json.dumps({"timestamp": t, "input_length": 1024, "output_length": 10, "hash_ids": ids}) + "\n"
                             for t, ids in [(0, [1, 2]), (1000, [1, 3]), (2000, [4, 5])]))
    with Stub() as stub:
        (row,) = rows_of(ok("bench", "serving", "--url", stub.url, "--workload", "trace", "--trace", trace, "--scale", "0.1", "--speed",
                            "4", "--json", "--warmup-requests", "0"))
    first, second, third = [b["prompt"].split() for b in stub.bodies]
    assert len(first) == 51 and [b["max_tokens"] for b in stub.bodies] == [1, 1, 1]
    assert first[:25] == second[:25] and first != second and first[0:3] != third[0:3]
    assert [t - stub.times[0] for t in stub.times] == pytest.approx([0, 0.25, 0.5], abs=0.15)
    assert 0.45 < row["duration"] < 2


def test_bench_serving_compares_servers_that_take_turns(ok):
    with Stub(pause=0.1) as slow, Stub() as fast:
        rows = rows_of(ok("bench", "serving", "--url", slow.url, "--url", fast.url, "--label", "slow", "--label", "fast", "--rounds", "2",
                          *SMALL, "--json", "--warmup-requests", "0"))
        table = ok("bench", "serving", "--url", slow.url, "--url", fast.url, *SMALL)
    assert [r["backend"] for r in rows[:4]] == ["slow", "fast", "slow", "fast"]
    assert {b["prompt"] for b in slow.bodies[:8]} == {b["prompt"] for b in fast.bodies[:8]}
    assert {b["prompt"] for b in slow.bodies[:8]}.isdisjoint(b["prompt"] for b in slow.bodies[8:16])
    assert rows[4]["rounds"] == 2 and rows[4]["medians"][1]["as_good_as_first"]["median_ttft_ms"] > 1
    assert "Median of 1 rounds" in table and re.search(r"^Median TTFT.*\dx", table, re.M)


def test_bench_serving_estimates_what_a_server_does_not_count(ok):
    with Stub(counts=False) as stub:
        text = ok("bench", "serving", "--url", stub.url, *SMALL)
    assert "does not count prompts" in text and "does not count answers" in text and "(assumed)" in text
    assert re.search(r"^Total generated tokens: +32", text, re.M)


def test_bench_serving_drives_a_thousand_streams_with_little_work(ok):
    """What the generator itself takes: its time on the processor for each chunk, with 1,000 streams (BENCH_STREAMS) open at once."""
    n = int(os.environ.get("BENCH_STREAMS", "200"))
    with Stub(pause=0.5) as stub:
        (row,) = rows_of(ok("bench", "serving", "--url", stub.url, "--num-prompts", n, "--input-len", "16", "--output-len", "4", "--json",
                            "--warmup-requests", "0"))
    assert row["completed"] == n and row["concurrency"] > n / 2
    per_chunk = 1e6 * row["generator_cpu_s"] / (n * (4 + 4))
    print(f"generator: {per_chunk:.0f} us of processor per event, longest turn {row['generator_turn_max_ms']:.1f} ms, {n} streams")
    assert per_chunk < 1000


def test_bench_serving_refuses_wrong_usage(refused, failed):
    url = ["bench", "serving", "--url", "http://127.0.0.1:9"]
    assert "--url is missing" in refused("bench", "serving")
    assert "--url wants something like" in refused("bench", "serving", "--url", "127.0.0.1:9")
    assert "2 --label" in refused(*url, "--label", "a", "--label", "b")
    assert "go together" in refused(*url, "--workload", "trace")
    assert "go together" in refused(*url, "--trace", "x")
    assert "--request-rate" in refused(*url, "--workload", "cold-fan-out", "--request-rate", "3")
    assert "--output-details needs" in refused(*url, "--output-details")
    assert "no JSON object" in refused(*url, "--extra-request-body", "[]")
    assert "one argument too many" in refused(*url, "x")
    assert "connect" in failed(*url).lower()


@contextlib.contextmanager
def server(program, model, *flags):
    """URL of a radish that serves the model."""
    process = subprocess.Popen([program, "serve", model, "--port", "0", *flags], stderr=subprocess.PIPE, text=True)
    try:
        for line in process.stderr:
            if found := re.search(r"listening on (http://\S+)", line):
                break
        yield found[1]
    finally:
        process.send_signal(signal.SIGTERM)
        process.communicate(timeout=60)


def test_bench_serving_finds_what_radish_shares_in_every_workload(radish, ok, llama):
    with server(radish.program, llama) as url:
        rows = {}
        for workload in ["random", "shared-prefix", "multi-turn", "agent-tree", "cold-fan-out"]:
            for endpoint in ["completions", "chat", "generate"]:
                (rows[workload, endpoint],) = rows_of(
                    ok("bench", "serving", "--url", url, "--workload", workload, "--endpoint", endpoint, "--prefix-len", "60", "--input-len",
                       "16", "--output-len", "4", "--num-prompts", "6", "--groups", "2", "--prompts-per-group", "3", "--depth", "2",
                       "--fan-out", "2", "--seed", len(rows), "--warmup-requests", "0", "--json"))
    for (workload, endpoint), row in rows.items():
        assert row["completed"] == 6 and row["short_answers"] == 0 and row["total_output_tokens"] == 24
        assert row["total_cached_tokens"] + row["total_computed_tokens"] == row["total_input_tokens"]
        assert not row["was_warm"], (workload, endpoint, row["hit_rate"], row["hit_rate_ceiling"])
        if workload != "random":
            assert row["hit_rate"] > 0.8 * row["hit_rate_ceiling"] - 8, (workload, endpoint)
