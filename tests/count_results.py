"""Adds up what scripts/test ran: ctest's JUnit files, and in place of a Python suite's one line that suite's own file.

  count_results.py [--conformance] FOLDER

With --conformance (the golden data is on this machine) a program that was skipped for want of a resource counts as failed, and so does a
single test whose reason for being skipped names the data, and a model ring that ran nothing. The last line is 'N passed, N failed, N skipped'; exit status 1 when something failed.
"""
import pathlib, re, sys
import xml.etree.ElementTree as ET


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


def main():
    flags = [a for a in sys.argv[1:] if a.startswith("--")]
    folder = pathlib.Path([a for a in sys.argv[1:] if not a.startswith("--")][0])
    results = []
    for path in sorted(folder.glob("*.xml")):
        if "-pytest_" not in path.name:
            results += count_ctest(path, folder)
    for path in sorted(folder.glob("lint.*")):
        results.append(("lint", path.suffix[1:], ""))
    # A program that exited with 77 found a resource missing; with the data here none may be.
    has_data = "--conformance" in flags
    results = [(n, ("failed" if has_data else "skipped") if s == "missing" else s, t) for n, s, t in results]
    if has_data:
        results = [(n, "failed" if s == "skipped" and re.search("conformance", n + t, re.I) else s, t) for n, s, t in results]
        if (folder / "model.xml").exists() and not any(n.startswith("model: ") and s == "passed" for n, s, _ in results):
            results.append(("model: the conformance tests", "failed", "none ran"))
    for name, state, text in results:
        if state != "passed":
            reason = next((line.strip() for line in text.splitlines() if "skip" in line.lower()), "")
            print(f"  {state}: {name}{'  (' + reason[:120] + ')' if reason else ''}")
    counts = {s: sum(1 for _, state, _ in results if state == s) for s in ("passed", "failed", "skipped")}
    print(f"{counts['passed']} passed, {counts['failed']} failed, {counts['skipped']} skipped")
    return 1 if counts["failed"] or not counts["passed"] else 0


if __name__ == "__main__":
    sys.exit(main())
