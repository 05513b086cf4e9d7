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


def test_bench_names_its_benchmarks_when_asked_for_none_or_another(refused):
    assert "which benchmark? There is: radix, sched" in refused("bench")
    assert "no benchmark is named 'nonsense'; there is: radix, sched" in refused("bench", "nonsense")
