"""Real tokenizers against the tokenizers package: ids, ids with the post-processor's specials, decoding with and without special tokens.

The six of the conformance data (skipped where it is not) and the one of tests/data, from tokenizer.json; and four of them from GGUF
vocabularies, which must give the same ids for every text that NFC leaves as it is. For each tokenizer one batch of texts of all kinds goes
through the program at once; a test looks at one kind.
"""
import concurrent.futures, functools, itertools, lzma, os, pathlib, random, struct, subprocess, tempfile, unicodedata

import pytest
import tokenizers

from conftest import ROOT, ROUNDS, SEED

CONFORMANCE = pathlib.Path(os.environ.get("RADISH_CONFORMANCE", ROOT.parent / "shared/conformance"))
DATA = ROOT / "tests/data/tokenizers/qwen3"
NAMES = ["qwen3", "llama3_1", "gemma3", "llama2", "gptoss", "mistral_nemo"]
GGUF_NAMES = ["qwen3", "llama3_1", "gptoss", "mistral_nemo"]

# ---- texts

SPACES = [" ", "  ", "   ", "\t", "\n", "\n\n", "\r\n", "\r", " \n", "\n ", "\t\n", "\u00a0", "\u3000", "\u2009", "\u200b", "\u2028", "\u2029", "\u0085", "\v", "\f",
          "\u1680", "\u202f", "\ufeff", "\u2581"]
ACCENTED = ("café naïve résumé señor über Ångström coração façade jalapeño Zürich Đorđe Łódź İstanbul žluťoučký kůň ệ ở ữ Việt Nam ǖ ǭ ȫ Ṩ ṩ ḗ ΐ ᾷ "
            "й ё ї ў が ぱ ヴ ド 각 한국어 कि क़ ড় ੜ ଼ ગુજરાતી தமிழ் മലയാളം ไทยน้ำ ལྷ་ས نُور שָׁלוֹם ﷺ").split()
EMOJI = ["👩‍👩‍👧‍👦", "👍🏽", "🏳️‍🌈", "🇩🇪🇫🇷", "1️⃣", "❤️", "👨🏿‍🚀", "🧑‍🤝‍🧑", "☺︎", "🏴󠁧󠁢󠁥󠁮󠁧󠁿", "🫠", "😀" * 7, "\u200d", "\ufe0f", "🏻"]
WORDS = ("the of and to in is that it's we're I'll they'd she's DON'T I'M ain't you've can'T 'S 're o'clock McDonald's HTTPServer iPhone15 x86_64 snake_case "
         "CamelCase kebab-case e.g. i.e. U.S.A. #1 @user $9.99 50% C++ a/b \\n \\t <br/> http://a.b/c?d=e&f=g foo@bar.com naïve 東京 日本語 привет мир "
         "Ελλάδα สวัสดี नमस्ते مرحبا ﬁne ①②③ ½ ² ſ K Å ﬀ ß ẞ ǆ ŉ").split()
CODE = ["def f(x):\n    return x**2  # sq\n", "for (int i = 0; i < n; i++) {\n\tsum += a[i];\n}\n", "<div class=\"a\">\n  <b>x</b>\n</div>", "SELECT * FROM t WHERE a = 'b''c';",
        "if x == '\\n':\r\n\tpass\r\n", "{\"a\": [1, 2.5e-3, null], \"b\": {\"c\": \"\\u00e9\"}}", "#!/bin/sh\nset -eu\n\n\n", "λ x → x ⊕ y ≠ ∅", "$$\\frac{a}{b}$$", "    \n        \n\t\t\n"]


@functools.cache
def scripts():
    lines = (ROOT / "tests/oracle/scripts.txt").read_text().splitlines()[1:]
    return {line.split()[0]: [tuple(int(end, 16) for end in part.split("-")) for part in line.split()[1:]] for line in lines}


def script_word(rng, script):
    low, high = rng.choice(scripts()[script])
    return "".join(chr(rng.randint(low, high)) for _ in range(rng.randrange(1, 9)))


def mixed_word(rng):
    kind = rng.randrange(10)
    if kind < 3:
        return rng.choice(WORDS)
    if kind == 3:
        return rng.choice(ACCENTED)
    if kind == 4:
        return rng.choice(EMOJI)
    if kind == 5:
        return str(rng.randrange(10 ** rng.randrange(1, 12)))
    if kind == 6:
        return "".join(chr(rng.randrange(0x20, 0x7f)) for _ in range(rng.randrange(1, 9)))
    if kind == 7:
        return rng.choice(list("aA1!.,-_=\"'()[]{}<>/\\|#*")) * rng.randrange(1, 20)
    return script_word(rng, rng.choice(list(scripts())))


def mixed_text(rng):
    return "".join(rng.choice(["", " ", " ", " ", rng.choice(SPACES)]) + mixed_word(rng) for _ in range(rng.randrange(1, 16)))


def script_texts(rng, n, added):
    for script in scripts():
        yield " ".join(script_word(rng, script) for _ in range(rng.randrange(1, 5)))


def accented_texts(rng, n, added):
    """Field case F2: accented words in either spelling."""
    for form in ("NFC", "NFD", "NFKC", "NFKD"):
        for _ in range(n // 4):
            words = [rng.choice(ACCENTED + WORDS) for _ in range(rng.randrange(1, 8))]
            yield unicodedata.normalize(form, " ".join(words))
    for _ in range(n // 4):  # marks in any order, on anything
        yield "".join(rng.choice("aeo ㄱ가が\n") + "".join(chr(rng.randrange(0x300, 0x370)) for _ in range(rng.randrange(4))) for _ in range(6))


def newline_texts(rng, n, added):
    """Field case F2: runs of newlines, and of other white space."""
    for run in range(1, 40):
        yield "a" + "\n" * run + rng.choice(["b", " b", "", "\tb", "1"])
    for _ in range(n):
        parts = [rng.choice(SPACES) * rng.choice([1, 1, 2, 3, 7, 40]) + rng.choice(["", "", "x", "word", "9", ".", "é"]) for _ in range(rng.randrange(1, 7))]
        yield rng.choice(["", "a"]) + "".join(parts)


def special_texts(rng, n, added):
    """Field case F1: white space and words beside special and added tokens."""
    chosen = rng.sample(added, min(len(added), 12)) + added[:6]
    for token in chosen:
        for before, after in (("", " x"), (" ", "x"), ("a ", " b"), ("\n", "\n"), ("a\n\n", "\n\nb"), ("\t", "\t"), ("é", "e\u0301"), ("▁", "▁"), ("a", "1")):
            yield before + token + after
    for _ in range(n):
        parts = []
        for _ in range(rng.randrange(1, 6)):
            token = rng.choice(chosen)
            parts.append(rng.choice(["", " ", "  ", "\n", "\n\n", "\t", "word", " word ", "."]))
            parts.append(token if rng.randrange(8) else rng.choice([token[:-1], token.lower(), token.upper(), token[1:] + token]))
        yield "".join(parts) + rng.choice(["", " ", "\n", "end"])


def digit_texts(rng, n, added):
    for _ in range(n):
        number = "".join(rng.choice("0123456789") for _ in range(rng.randrange(1, 30)))
        yield rng.choice(["", " ", "a", "-", "$", "x="]) + number + rng.choice(["", "%", ".5", ",000", " km", "٣٤٥", "१२३", "½", "e10", "\u0662"])


def code_texts(rng, n, added):
    yield from CODE
    for _ in range(n // 2):
        yield "".join(rng.choice(CODE) if rng.randrange(3) else rng.choice(SPACES) * rng.randrange(1, 9) + rng.choice(WORDS) for _ in range(4))


def emoji_texts(rng, n, added):
    yield from EMOJI
    for _ in range(n):
        yield "".join(rng.choice(EMOJI + [" ", "a", "é"]) for _ in range(rng.randrange(1, 9)))


def odd_character_texts(rng, n, added):
    """Private use, noncharacters, controls, unassigned planes, and bytes that look like tokens."""
    pools = [(0xE000, 0xF8FF), (0xF0000, 0xFFFFD), (0x100000, 0x10FFFD), (0xFDD0, 0xFDEF), (0xFFFE, 0xFFFF), (0x1FFFE, 0x1FFFF), (0x10FFFE, 0x10FFFF), (0, 0x1F),
             (0x7F, 0x9F), (0x60000, 0x60100), (0xFFF0, 0xFFFD), (0x180E, 0x180E), (0xE0001, 0xE01EF), (0x2060, 0x206F)]
    for _ in range(n):
        yield "".join(chr(rng.randint(*rng.choice(pools))) if rng.randrange(3) else rng.choice(["a", " ", "<0x41>", "<unk>", "Ġ", "▁", "é"])
                      for _ in range(rng.randrange(1, 10)))


def mixed_texts(rng, n, added):
    yield ""
    for _ in range(3 * n):
        yield mixed_text(rng)


KINDS = [script_texts, accented_texts, newline_texts, special_texts, digit_texts, code_texts, emoji_texts, odd_character_texts, mixed_texts]

# ---- both sides


@functools.cache
def unpacked():
    """A folder for what is kept as .xz; removed at the end."""
    return tempfile.TemporaryDirectory(prefix="radish-oracle-")


def unpack(path):
    """The file, or the unpacked .xz of it."""
    if path.exists():
        return path
    target = pathlib.Path(unpacked().name) / path.parent.name / path.name
    target.parent.mkdir(exist_ok=True)
    if not target.exists():
        target.write_bytes(lzma.decompress(path.with_name(path.name + ".xz").read_bytes()))
    return target


def folder_of(name):
    if name == "tests-data":
        return DATA
    if not CONFORMANCE.is_dir():
        pytest.skip(f"there is no conformance data in {CONFORMANCE}")
    return CONFORMANCE / "tokenizers" / name


def ids_of(tokenizer, texts, add_special_tokens):
    return [encoding.ids for encoding in tokenizer.encode_batch(texts, add_special_tokens=add_special_tokens)]


def sequences(tokenizer, encoded, rng):
    """Lists of ids: of texts, of texts cut anywhere, at random, special tokens in between, byte tokens in a row."""
    added = sorted(tokenizer.get_added_tokens_decoder())
    vocab = tokenizer.get_vocab(with_added_tokens=False)
    every = sorted({*vocab.values(), *added})
    byte_ids = [vocab[f"<0x{b:02X}>"] for b in range(256) if f"<0x{b:02X}>" in vocab]
    if not byte_ids:
        byte_ids = [i for token, i in sorted(vocab.items()) if len(token) == 1]
    for ids in encoded:
        if rng.randrange(3) == 0:
            first = rng.randrange(len(ids) + 1)
            yield ids[first:rng.randrange(first, len(ids) + 1)]
        else:
            yield ids
    for _ in range(int(400 * ROUNDS)):
        weights = rng.choice([(1, 0, 0), (4, 1, 1), (1, 1, 6), (0, 1, 9)])
        yield [rng.choice(pool) for pool in rng.choices([every, added, byte_ids], weights, k=rng.randrange(0, 60))]
    yield [rng.choice(byte_ids) for _ in range(3000)]
    yield [rng.choice(every) for _ in range(3000)]


class Compared:
    """What the package and radish say, as lists of (input, wanted, got): ids[kind], special[kind], decoded[flags], and gguf (None where
    there is no such vocabulary)."""

    def __init__(self, name, run):
        folder = folder_of(name)
        path = unpack(folder / "tokenizer.json")
        model = pathlib.Path(unpacked().name) / f"model-{name}"
        model.mkdir()
        (model / "tokenizer.json").symlink_to(path.resolve())
        (model / "tokenizer_config.json").symlink_to(unpack(folder / "tokenizer_config.json").resolve())
        tokenizer = tokenizers.Tokenizer.from_file(str(path))
        tokenizer.no_truncation()
        tokenizer.no_padding()
        added = [token.content for _, token in sorted(tokenizer.get_added_tokens_decoder().items())]
        texts = {kind: list(kind(random.Random(f"{SEED} {name} {kind.__name__}"), int(25 * ROUNDS), added)) for kind in KINDS}
        flat = list(itertools.chain.from_iterable(texts.values()))
        wanted, wanted_special = ids_of(tokenizer, flat, False), ids_of(tokenizer, flat, True)
        rows = list(sequences(tokenizer, wanted_special, random.Random(f"{SEED} {name} decode")))
        gguf = folder / "vocab.gguf.xz"
        with concurrent.futures.ThreadPoolExecutor() as pool:
            ids = pool.submit(run, "tokenize", model, rows=flat)
            special = pool.submit(run, "tokenize", model, "--special", rows=flat)
            decoded = {flags: pool.submit(run, "detokenize", model, *flags, rows=rows) for flags in ((), ("--skip-special",))}
            from_gguf = pool.submit(run, "tokenize", unpack(folder / "vocab.gguf"), rows=flat) if gguf.exists() else None
        self.ids = self.by_kind(texts, flat, wanted, ids.result())
        self.special = self.by_kind(texts, flat, wanted_special, special.result())
        self.decoded = {flags: list(zip(rows, tokenizer.decode_batch(rows, skip_special_tokens=bool(flags)), answer.result()))
                        for flags, answer in decoded.items()}
        self.gguf = from_gguf and [row for row in zip(flat, wanted, from_gguf.result()) if unicodedata.normalize("NFC", row[0]) == row[0]]

    @staticmethod
    def by_kind(texts, *columns):
        rows = iter(zip(*columns))
        return {kind: list(itertools.islice(rows, len(texts[kind]))) for kind in KINDS}


@functools.cache
def compared(name, run):
    """The committed tokenizer is one of the six; where they are, it is not loaded twice."""
    twin = CONFORMANCE / "tokenizers/qwen3"
    if name == "tests-data" and all(same_file(DATA / part, twin / part) for part in ("tokenizer.json.xz", "tokenizer_config.json")):
        return compared("qwen3", run)
    return Compared(name, run)


def same_file(a, b):
    return b.exists() and a.read_bytes() == b.read_bytes()


def expect_same(rows, n_min):
    assert len(rows) >= n_min
    different = [row for row in rows if row[1] != row[2]]
    assert not different, f"{len(different)} of {len(rows)} differ:\n" + "\n".join(
        f"  {str(given)[:300]!r}\n    want {str(want)[:400]!r}\n    got  {str(got)[:400]!r}" for given, want, got in different[:5])


names = pytest.mark.parametrize("name", ["tests-data"] + NAMES)


@names
@pytest.mark.parametrize("kind", KINDS, ids=lambda kind: kind.__name__)
def test_ids(name, kind, jsonl):
    expect_same(compared(name, jsonl).ids[kind], 10)
    expect_same(compared(name, jsonl).special[kind], 10)


@names
def test_f1_white_space_beside_special_tokens(name, jsonl):
    expect_same(compared(name, jsonl).ids[special_texts], 25)


@names
def test_f2_accents_and_newline_runs(name, jsonl):
    expect_same(compared(name, jsonl).ids[accented_texts] + compared(name, jsonl).ids[newline_texts], 80)


@names
@pytest.mark.parametrize("flags", [(), ("--skip-special",)], ids=["all", "skip-special"])
def test_decoding(name, flags, jsonl):
    expect_same(compared(name, jsonl).decoded[flags], 800)


@pytest.mark.parametrize("name", GGUF_NAMES)
def test_ids_from_gguf(name, jsonl):
    expect_same(compared(name, jsonl).gguf, 400)


@pytest.mark.parametrize("pre", ["default", "unheard-of"])
def test_f3_a_pre_tokenizer_that_is_not_known_is_refused_with_advice(pre, jsonl, tmp_path):
    """Field case F3: cut by a rule that is not the model's, a prompt has a tenth more tokens, and nobody is told."""
    data = lzma.decompress((folder_of("qwen3") / "vocab.gguf.xz").read_bytes())
    key = b"tokenizer.ggml.pre"
    at = data.index(struct.pack("<Q", len(key)) + key) + 8 + len(key) + 4  # behind the type of the value
    length, = struct.unpack_from("<Q", data, at)
    file = tmp_path / "vocab.gguf"
    file.write_bytes(data[:at] + struct.pack("<Q", len(pre)) + pre.encode() + data[at + 8 + length:])

    done = subprocess.run([jsonl.program, "tokenize", file], input=b"Hello world", capture_output=True, timeout=60)

    assert done.returncode == 1 and done.stdout == b""
    said = done.stderr.decode()
    assert f'"{pre}"' in said and "original model folder" in said, said
