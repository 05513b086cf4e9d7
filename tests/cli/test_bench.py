"""radish bench: figures as a table, or as JSON lines."""
import json


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


def test_bench_kernels_holds_an_operation_against_the_limits_of_the_machine(ok):
    lines = ok("bench", "kernels", "--op", "rmsnorm", "--threads", "1", "--json").splitlines()
    limits, rows = json.loads(lines[0]), [json.loads(line) for line in lines[1:]]
    assert limits["threads"] == 1
    assert [row["T"] for row in rows] == [1, 4, 16, 64, 256, 1024]
    for row in rows:
        assert row["ns"] > 0 and row["bytes"] == 8192 * row["T"]
        assert abs(row["read_percent"] - 100 * row["bytes"] / row["ns"] / limits["read_gbs"]) < 1


def test_bench_kernels_refuses_types_that_it_would_not_measure(refused):
    assert "must be one of F32, F16" in refused("bench", "kernels", "--dtype", "q9")
    assert "rmsnorm is measured in F32" in refused("bench", "kernels", "--op", "rmsnorm", "--dtype", "q8_0")
    assert "--op is one of" in refused("bench", "kernels", "--op", "softmax")


def test_bench_names_its_benchmarks_when_asked_for_none_or_another(refused):
    assert "which benchmark? There is: radix, sched" in refused("bench")
    assert "no benchmark is named 'nonsense'; there is: radix, sched" in refused("bench", "nonsense")
