"""Was every golden answer of the conformance data compared? Holds what the tests said they covered against what the files have.

A test that has passed prints 'covered: FILE WHAT N' (report_covered() in tests/support/test.h). Here the files of the data are read for how
many answers of each kind they have; a missing line (a test program deleted, a row left out of a table, a loop that ended early), another
count, or a file that no rule knows is a problem. What radish does not serve yet is listed in PENDING with the reason, and only there; an
entry that is covered after all, or that the data does not have, is a problem too, so that the list shrinks as families come.
"""
import collections, fnmatch, json, lzma, pathlib, re, struct, unicodedata

NOT_SERVED = "its architecture is not served; the refusal by name is tested"
NOT_READ = "a quantised type that is not read"
# What is not compared yet, by path and kind of answer (patterns), and why.
PENDING = {
    **{f"models/{name}": NOT_SERVED for name in (
        "deepseek_v3", "gpt_oss", "lfm2", "mixtral", "qwen3_5", "qwen3_moe", "qwen3_next")},
    **{f"quants/quants.gguf q.{name}": NOT_READ for name in (
        "iq1_m", "iq1_s", "iq2_s", "iq2_xs", "iq2_xxs", "iq3_s", "iq3_xxs", "iq4_nl", "iq4_xs", "mxfp4", "nvfp4", "tq1_0", "tq2_0")},
}
# Files that hold questions, or whose answers are in another file. An answer of a kind that nothing here names is noticed as unknown.
OTHER_FILES = [
    "README.md", "models/*/config.json", "models/*/generation_config.json", "models/*/tokenizer.json", "models/*/tokenizer_config.json",
    "models/*/chat_template.jinja", "models/*/model.safetensors", "gguf/*.gguf", "quants/quants.f32.gguf", "tokenizers/*/tokenizer.json.xz",
    "tokenizers/*/tokenizer_config.json", "tokenizers/*/tokenizer_config.json.xz", "tokenizers/*/vocab.gguf.xz",
]
# Copies in the repository from which tests read instead.
COPIES = {"templates/templates.json": "templates/templates.json.xz", "quants/quants.gguf": "quants/quants.gguf.xz",
          "quants/quants.f32.gguf": "quants/quants.f32.gguf.xz"}


def safetensors_names(path):
    with open(path, "rb") as f:
        size, = struct.unpack("<Q", f.read(8))
        return [name for name in json.loads(f.read(size)) if name != "__metadata__"]


def gguf_names(path):
    """The tensors of a GGUF file."""
    data, at = path.read_bytes(), 8
    sizes = {0: 1, 1: 1, 2: 2, 3: 2, 4: 4, 5: 4, 6: 4, 7: 1, 10: 8, 11: 8, 12: 8}

    def number(form):
        nonlocal at
        value, = struct.unpack_from("<" + form, data, at)
        at += struct.calcsize(form)
        return value

    def text():
        nonlocal at
        size = number("Q")
        at += size
        return data[at - size:at].decode()

    def skip(kind):
        nonlocal at
        if kind == 8:
            text()
        elif kind == 9:
            kind, count = number("I"), number("Q")
            for _ in range(count):
                skip(kind)
        else:
            at += sizes[kind]

    n_tensors, n_keys = number("Q"), number("Q")
    for _ in range(n_keys):
        text()
        skip(number("I"))
    names = []
    for _ in range(n_tensors):
        names.append(text())
        n_dims = number("I")
        at += 8 * n_dims + 12  # dimensions, type, offset
    return names


def is_nfc(text):
    return unicodedata.normalize("NFC", text) == text


def answers_of(root, path):
    """{(file, what): count} of one file, or None for a file that no rule knows. `file` is as the tests name it."""
    name = path.relative_to(root).as_posix()
    if fnmatch.fnmatch(name, "tokenizers/*/golden.json"):
        golden = json.loads(path.read_text())
        texts = [row["text"] for row in golden["encode"]]
        chats = [row["text"] for row in golden["chat"] if isinstance(row.get("text"), str)]
        answers = {"encode": len(texts), "chat-ids": len(chats), "chat-texts": sum(bool(row["messages"]) for row in golden["chat"])}
        if (path.parent / "vocab.gguf.xz").exists():
            answers["encode-gguf"] = sum(map(is_nfc, texts))
            answers["chat-ids-gguf"] = sum(map(is_nfc, chats))
    elif name == "templates/templates.json":
        answers = {"renders": sum(len(t["renders"]) for t in json.loads(path.read_text())["templates"])}
    elif fnmatch.fnmatch(name, "models/*/golden.safetensors") or fnmatch.fnmatch(name, "gguf/*.golden.safetensors"):
        names = safetensors_names(path)
        answers = {what: sum(n.startswith(what + ".") for n in names) for what in ("logits", "greedy")}
        answers["opened"] = 1  # the file beside it
        if name.startswith("models/"):
            answers["answers"] = answers["greedy"]  # through the engine
        name = re.sub(r"[/.]golden\.safetensors$", "", name)
    elif name == "quants/quants.gguf":
        answers = {tensor: 1 for tensor in gguf_names(path)}
    else:
        return {} if any(fnmatch.fnmatch(name, pattern) for pattern in OTHER_FILES) else None
    return {(name, what): count for what, count in answers.items() if count}


def ring_of(file, what):
    """The ring of scripts/test whose programs cover it."""
    return "unit" if what in ("chat-texts", "renders") or file.startswith("quants/") else "model"


def read_covered(outputs):
    """{(file, what): count} of the lines in the outputs of passed tests."""
    covered = collections.Counter()
    for output in outputs:
        for file, what, count in re.findall(r"^covered: (\S+) (\S+) (\d+)\s*$", output, re.M):
            covered[file, what] = max(covered[file, what], int(count))
    return covered


def pending_reason(file, what, pending):
    return what != "opened" and pending.get(file) or pending.get(f"{file} {what}")


def check_copies(root, copies_folder):
    for name, copy in COPIES.items():
        if (root / name).exists() and lzma.decompress((copies_folder / copy).read_bytes()) != (root / name).read_bytes():
            yield f"{name}: tests/data/{copy} is not a copy of it"


def problems(root, outputs, rings, copies_folder, pending=None):
    """One line per thing that is wrong. rings: those that ran; what others cover is not asked for."""
    pending = PENDING if pending is None else pending
    covered = read_covered(outputs)
    wanted = {}
    for path in sorted(p for p in root.rglob("*") if p.is_file()):
        answers = answers_of(root, path)
        if answers is None:
            yield f"{path.relative_to(root).as_posix()}: tests/conformance_coverage.py has no rule for this file"
        wanted.update(answers or {})
    if not wanted:
        yield f"{root}: there are no golden answers in it"
    for (file, what), count in wanted.items():
        if ring_of(file, what) not in rings:
            continue
        got = covered[file, what]
        if pending_reason(file, what, pending):
            if got:
                yield f"{file} {what}: is covered; take it out of PENDING"
        elif got != count:
            yield f"{file} {what}: {got} of {count} compared"
    for key in pending:
        if not any(key in (file, f"{file} {what}") for file, what in wanted):
            yield f"{key}: is in PENDING, but the data has no such answers"
        elif key.startswith("models/") and "model" in rings and not covered[key, "refused"]:
            yield f"{key}: is in PENDING, but no test saw it refused"
    for file, what in covered:
        if what != "refused" and covered[file, what] and (file, what) not in wanted:
            yield f"{file} {what}: is said to be covered, but the data has no such answers"
    yield from check_copies(root, copies_folder)
