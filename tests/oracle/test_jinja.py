"""radish's templates against Jinja2, set up as transformers sets it up: generated templates over generated variables must give the same
text, and fail where Jinja2 fails (the words of an error are free)."""
import concurrent.futures, copy, functools, json, os, re, signal

import pytest

import chat_environment
from conftest import ROUNDS
from template_grammar import Grammar, Node, make_context

ENV = chat_environment.environment()
NOW = chat_environment.NOW.isoformat()
# By intent (src/jinja/jinja.c says so): these are refused, and what Python prints with an address has none here.
REFUSED = ["limit of size of integers", "complex numbers are not supported"]
ADDRESS = " at 0x"


class TooSlow(Exception):
    pass


def on_alarm(signum, frame):
    raise TooSlow


@functools.cache
def compiled(source):
    """Jinja2's template, and why there is none. Each is compiled once: that is most of its time."""
    try:
        return ENV.from_string(source), None
    except Exception as e:
        return None, f"{type(e).__name__}: {e}"


def want_of(source, contexts):
    """What Jinja2 makes of each context: {"text"}, or {"error"}; None where it cannot be said in time."""
    template, error = compiled(source)
    if error:
        return [{"error": error}] * len(contexts)
    wants = []
    for context in contexts:
        signal.signal(signal.SIGALRM, on_alarm)
        signal.setitimer(signal.ITIMER_REAL, 2)
        try:
            wants.append({"text": template.render(copy.deepcopy(context))})
        except TooSlow:
            wants.append(None)
        except Exception as e:
            wants.append({"error": f"{type(e).__name__}: {e}"})
        finally:
            signal.setitimer(signal.ITIMER_REAL, 0)
    return wants


def is_same(want, got):
    if want is None:
        return True
    if "text" in want:
        # A lone surrogate is no Unicode: neither a response nor a tokenizer could take it.
        return got.get("text") == want["text"] or any(words in got.get("error", "") for words in REFUSED) or ADDRESS in want["text"].lower() or any(0xD800 <= ord(c) < 0xE000 for c in want["text"])
    return "error" in got


class Checker:
    def __init__(self, jsonl, folder):
        self.jsonl, self.folder, self.n_texts, self.n_errors, self.n_files = jsonl, folder, 0, 0, 0

    def got_of(self, source, contexts):
        self.n_files += 1
        path = self.folder / f"{self.n_files}.jinja"
        path.write_bytes(source.encode())
        got = self.jsonl("render", "--template", path, "--now", NOW, rows=contexts)
        path.unlink()
        return got

    def differences(self, source, contexts, got=None):
        wants = want_of(source, contexts)
        got = got or self.got_of(source, contexts)
        self.n_texts += sum(w is not None and "text" in w for w in wants)
        self.n_errors += sum(w is not None and "error" in w for w in wants)
        return [(c, w, g) for c, w, g in zip(contexts, wants, got) if not is_same(w, g)]

    def shrink(self, tree, context, budget=120):
        """Takes parts off the template, and replaces expressions by their parts, while the two still differ."""
        def fails():
            nonlocal budget
            budget -= 1
            return budget >= 0 and bool(self.differences(str(tree), [context]))

        def visit(node):
            for i, part in enumerate(node.parts):
                if not isinstance(part, Node):
                    continue
                options = [""] if part.kind == "s" else [p for p in part.parts if isinstance(p, Node)] + ["1", "s"] if part.kind == "e" and part.parts != ["1"] else []
                for option in options:
                    node.parts[i] = option
                    if fails():
                        break
                    node.parts[i] = part
                if isinstance(node.parts[i], Node):
                    visit(node.parts[i])
        visit(tree)
        visit(tree)
        return str(tree)

    def report(self, tree, context, want, got):
        source = self.shrink(copy.deepcopy(tree), context)
        found = self.differences(source, [context])
        if found:
            (_, want, got), = found
        else:
            source = str(tree)
        used = {k: v for k, v in context.items() if re.search(rf"\b{k}\b", source)}
        return f"\n{source}\n  variables  {json.dumps(used, ensure_ascii=False)}\n  want       {json.dumps(want, ensure_ascii=False)}\n  got        {json.dumps(got, ensure_ascii=False)}"

    def finish(self, failures):
        print(f"{self.n_texts} texts and {self.n_errors} errors compared")
        if failures:
            one_each = list({id(failure[0]): failure for failure in failures}.values())  # templates, not renders
            shown = [self.report(*failure) for failure in one_each[:int(os.environ.get("RADISH_ORACLE_SHOW", "10"))]]
            pytest.fail(f"{len(one_each)} templates differ" + "".join(shown), pytrace=False)


@pytest.fixture
def checker(jsonl, tmp_path):
    return Checker(jsonl, tmp_path)


def each(work, jobs):
    """The program runs beside Jinja2: with two cores both are busy."""
    with concurrent.futures.ThreadPoolExecutor(2) as pool:
        yield from zip(jobs, pool.map(work, jobs))


def test_expressions_agree_with_jinja2(rng, checker):
    """Many expressions in one template, each in a branch of its own: an error ends only its own render."""
    n_each, failures, jobs = 60, [], []
    for _ in range(max(1, int(12 * ROUNDS))):
        trees = [Node("s", "{{ ", Grammar(rng).expression(), " }}") for _ in range(n_each)]
        contexts = [make_context(rng) for _ in range(2)]
        # What cannot be parsed would end them all, and is compared alone.
        jobs += [([tree], contexts) for tree in trees if not compiled(str(tree))[0]]
        jobs.append(([tree for tree in trees if compiled(str(tree))[0]], contexts))
    def run(job):
        trees, contexts = job
        if len(trees) == 1:
            return checker.got_of(str(trees[0]), contexts)
        source = "".join(f"{{% if case == {i} %}}{tree}{{% endif %}}" for i, tree in enumerate(trees))
        return checker.got_of(source, [dict(context, case=i) for context in contexts for i in range(len(trees))])
    for (trees, contexts), got in each(run, jobs):
        cases = [(tree, context) for context in contexts for tree in trees]
        for (tree, context), answer in zip(cases, got):
            failures += [(tree, *difference) for difference in checker.differences(str(tree), [context], [answer])]
    checker.finish(failures)


def test_templates_agree_with_jinja2(rng, checker):
    failures, jobs = [], []
    for _ in range(max(1, int(200 * ROUNDS))):
        jobs.append((Grammar(rng, chaos=0.01).template(), [make_context(rng) for _ in range(3)]))
    for (tree, contexts), got in each(lambda job: checker.got_of(str(job[0]), job[1]), jobs):
        failures += [(tree, *difference) for difference in checker.differences(str(tree), contexts, got)]
    checker.finish(failures)
