"""Adds up what scripts/test ran: ctest's JUnit files, and in place of a Python suite's one line that suite's own file.

  count_results.py [--conformance DATA] FOLDER

Files RING.passed, RING.failed and RING.skipped are a ring that is one test, or that could not begin; their text says why.

With --conformance (the golden data is in DATA) a program that was skipped for want of a resource counts as failed, and so does a single test
whose reason for being skipped names the data, a model ring that ran nothing, and every golden answer that no test compared
(conformance_coverage.py). The last line is 'N passed, N failed, N skipped'; exit status 1 when something failed.
"""
import argparse, pathlib, re, sys
import xml.etree.ElementTree as ET

import conformance_coverage

ROOT = pathlib.Path(__file__).resolve().parents[1]


def count_pytest(path):
    """Yields (name, state, text) for every test of a pytest JUnit file."""
    for case in ET.parse(path).getroot().iter("testcase"):
        name = f"{case.get('classname')}.{case.get('name')}"
        if case.find("failure") is not None or case.find("error") is not None:
            yield name, "failed", ""
        elif case.find("skipped") is not None:
            yield name, "skipped", case.find("skipped").get("message") or ""
        else:
            yield name, "passed", ""


def count_ctest(path, folder):
    ring = path.stem
    for case in ET.parse(path).getroot().iter("testcase"):
        name, status = case.get("name"), case.get("status")
        own = folder / f"{ring}-{name}.xml"
        output = case.findtext("system-out") or ""
        state = {"run": "passed", "notrun": "skipped", "disabled": "skipped"}.get(status, "failed")
        if name.startswith("pytest_") and own.exists():
            cases = list(count_pytest(own))
            yield from ((f"{ring}: {n}", s, t) for n, s, t in cases)
            # The suite failed outside its tests (it hung, or a check at its end).
            if state == "failed" and not any(s == "failed" for _, s, _ in cases):
                yield f"{ring}: {name}", "failed", ""
            continue
        yield f"{ring}: {name}", "missing" if state == "skipped" else state, output
        if state == "passed":
            # cmocka tests that were skipped inside a program that ran.
            for skipped in sorted(set(re.findall(r"\[  SKIPPED \] ([A-Za-z]\w*)", output))):
                yield f"{ring}: {name}.{skipped}", "skipped", ""


def check_conformance(data, folder, results):
    """More results: a failed one for each thing that the golden data has and no passed test compared."""
    rings = {ring for ring in ("unit", "model") if (folder / f"{ring}.xml").exists()}
    if "model" in rings and not any(n.startswith("model: ") and s == "passed" for n, s, _ in results):
        yield "model: the conformance tests", "failed", "none ran"
    outputs = [text for _, state, text in results if state == "passed"]
    problems = list(conformance_coverage.problems(data, outputs, rings, ROOT / "tests/data")) if rings else []
    for problem in problems:
        yield f"conformance: {problem}", "failed", ""
    if rings and not problems:
        yield "conformance: every golden answer was compared", "passed", ""


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--conformance", type=pathlib.Path, metavar="DATA")
    parser.add_argument("folder", type=pathlib.Path)
    args = parser.parse_args()
    folder, data = args.folder, args.conformance
    results = []
    for path in sorted(folder.glob("*.xml")):
        if "-pytest_" not in path.name:
            results += count_ctest(path, folder)
    for state in ("passed", "failed", "skipped"):
        results += [(path.stem, state, path.read_text()) for path in sorted(folder.glob(f"*.{state}"))]
    # A program that exited with 77 found a resource missing; with the data here none may be.
    results = [(n, ("failed" if data else "skipped") if s == "missing" else s, t) for n, s, t in results]
    if data:
        results = [(n, "failed" if s == "skipped" and re.search("conformance", n + t, re.I) else s, t) for n, s, t in results]
        results += check_conformance(data, folder, results)
    for name, state, text in results:
        if state != "passed":
            reason = next((line.strip() for line in text.splitlines() if "skip" in line.lower()), "")
            print(f"  {state}: {name}{'  (' + reason[:120] + ')' if reason else ''}")
    counts = {s: sum(1 for _, state, _ in results if state == s) for s in ("passed", "failed", "skipped")}
    print(f"{counts['passed']} passed, {counts['failed']} failed, {counts['skipped']} skipped")
    return 1 if counts["failed"] or not counts["passed"] else 0


if __name__ == "__main__":
    sys.exit(main())
