"""Generated tokenizer.json files: radish and the `tokenizers` package must give the same ids and the same texts.

A case is a random combination of everything the format has. The package panics or refuses now and then; where it has no answer there is
nothing to compare. For other cases RADISH_ORACLE_SEED, for more of them RADISH_ORACLE_ROUNDS; with 10 or more, every code point is asked.
"""
import json, os, re, subprocess

import pytest

os.environ["RUST_BACKTRACE"] = "0"  # the package panics a lot here, and a trace takes half a second
from tokenizers import Tokenizer  # noqa: E402

from conftest import ROUNDS, SEED

N_TOKENIZERS = int(70 * ROUNDS)
N_TEXTS = 25
N_ID_LISTS = 12

LETTERS = list("aaabbcdeno'sABÉé") + ["ß", "İ", "ſ", "Σ", "ы", "中", "文", "か", "カ", "ー", "한", "ᄒ", "ᅡ", "ص", "न", "ि", "้", "ก"]
MARKS = ["\u0301", "\u0323", "\u0308", "\u3099", "\u200d", "\u200c", "\ufe0f", "\u0345"]
SPACES = [" ", " ", " ", "\n", "\t", "\r", "\x0b", "\x0c", "\x85", "\xa0", "\u1680", "\u2003", "\u2028", "\u202f", "\u3000", "\u200b", "\ufeff"]
SIGNS = list(".,!?-_+$#@/\\|<>[](){}^`~*&%=;:\"") + ["。", "«", "—", "…", "€", "¬", "😀", "👨\u200d👩\u200d👧", "▁", "▁", "Ġ", "\ufffd", "²", "½", "Ⅷ", "٣", "๓", "①",
                                                   "\x00", "\x01", "\x1b", "\x7f", "\x8f", "\x9f", "\xad", "\ue000", "ﬁ", "㌔", "Å", "é", "각", "\u2581", "क़"]
WORDS = ["the", "unaffable", "hello", "Hello", "don't", "it's", " do not ", "naïve", "日本語", "12345", "3.14", "tokenization", "a b", "<s>", "</s>", "[CLS]", "[SEP]",
         "[MASK]", "<unk>", "<pad>", "##ing", "</w>", "<0x41>", "ends .", " n't", "café", "ＡＢＣ"]


def random_text(rng, specials=()):
    parts = []
    for _ in range(rng.choice([0, 1, 1, 2, 4, 8, 14])):
        kind = rng.randrange(12)
        if kind < 3:
            parts.append("".join(rng.choice(LETTERS) for _ in range(rng.randint(1, 7))))
        elif kind < 5:
            parts.append(rng.choice(WORDS))
        elif kind < 8:
            parts.append(rng.choice(SPACES) * rng.choice([1, 1, 1, 2, 3, 7]))
        elif kind == 8:
            parts.append(rng.choice(LETTERS) + "".join(rng.choice(MARKS) for _ in range(rng.randint(1, 3))))
        elif kind == 9:
            parts.append("".join(rng.choice(SIGNS) for _ in range(rng.randint(1, 4))))
        elif kind == 10 and specials:
            token = rng.choice(specials)
            parts.append(rng.choice(["", " ", "  ", "\n"]) + rng.choice([token, token, token.upper(), token[:-1]]) + rng.choice(["", " ", " \n", "x"]))
        else:
            parts.append(str(rng.randrange(10 ** rng.randint(1, 6))))
    return "".join(parts)


# ---- parts of a file

PATTERNS = [r"\s+", r"\d", r"\d{1,3}", r"\p{L}+", r"[^\s\p{L}\p{N}]+", r"'s|'t|n't", r" ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+|\s+(?!\S)|\s+", r"\p{Han}+", r"\n", r"a*", r"b+|c", r"(?i:'s|'t)",
            r"[A-Z]?[a-z]+", r"\w+|[^\w\s]+", " {2,}", r"(?<=a)b", r"[\p{L}&&[^a-c]]+", r"$", r"\b"]
LITERALS = [" ", "▁", "a", "ab", "\n", ".", "  ", "'", "[", "a|b", "\\d", ""]


def random_pattern(rng):
    return {"Regex": rng.choice(PATTERNS)} if rng.random() < 0.6 else {"String": rng.choice(LITERALS)}


def coin(rng):
    return rng.random() < 0.5


def random_normalizer(rng):
    kind = rng.choice(["NFC", "NFD", "NFKC", "NFKD", "Lowercase", "Strip", "StripAccents", "Prepend", "Replace", "Replace", "ByteLevel", "Nmt", "BertNormalizer", "BertNormalizer"])
    step = {"type": kind}
    if kind == "Strip":
        step |= {"strip_left": coin(rng), "strip_right": coin(rng)}
    elif kind == "Prepend":
        step["prepend"] = rng.choice(["▁", " ", "xy"])
    elif kind == "Replace":
        step |= {"pattern": random_pattern(rng), "content": rng.choice(["▁", "", " ", "abc", "中"])}
    elif kind == "BertNormalizer":
        step |= {"clean_text": coin(rng), "handle_chinese_chars": coin(rng), "strip_accents": rng.choice([None, True, False]), "lowercase": coin(rng)}
    return step


def random_pre_tokenizer(rng):
    kind = rng.choice(["Split", "Split", "Split", "ByteLevel", "Digits", "Punctuation", "Whitespace", "WhitespaceSplit", "CharDelimiterSplit", "Metaspace", "Metaspace", "BertPreTokenizer",
                       "UnicodeScripts", "FixedLength"])
    step = {"type": kind}
    behaviors = ["Isolated", "Removed", "MergedWithPrevious", "MergedWithNext", "Contiguous"]
    if kind == "Split":
        step |= {"pattern": random_pattern(rng), "behavior": rng.choice(behaviors), "invert": rng.random() < 0.3}
    elif kind == "ByteLevel":
        step |= {"add_prefix_space": coin(rng), "trim_offsets": coin(rng), "use_regex": coin(rng)}
    elif kind == "Digits":
        step["individual_digits"] = coin(rng)
    elif kind == "Punctuation":
        step["behavior"] = rng.choice(behaviors)
    elif kind == "CharDelimiterSplit":
        step["delimiter"] = rng.choice([" ", "a", "▁", "|", "中"])
    elif kind == "Metaspace":
        step |= {"replacement": rng.choice(["▁", "▁", "_", "中"]), "prepend_scheme": rng.choice(["always", "first", "never"]), "split": coin(rng)}
    elif kind == "FixedLength":
        step["length"] = rng.choice([1, 2, 3, 5, 100])
    return step


def random_decoder(rng):
    kind = rng.choice(["ByteLevel", "ByteFallback", "Fuse", "Replace", "Strip", "Metaspace", "WordPiece", "BPEDecoder", "CTC"])
    step = {"type": kind}
    if kind == "ByteLevel":
        step |= {"add_prefix_space": True, "trim_offsets": True, "use_regex": True}
    elif kind == "Replace":
        step |= {"pattern": random_pattern(rng), "content": rng.choice([" ", "", "ab"])}
    elif kind == "Strip":
        step |= {"content": rng.choice([" ", "a", "▁"]), "start": rng.choice([0, 1, 2]), "stop": rng.choice([0, 0, 1])}
    elif kind == "Metaspace":
        step |= {"replacement": "▁", "prepend_scheme": rng.choice(["always", "first", "never"]), "split": True}
    elif kind == "WordPiece":
        step |= {"prefix": rng.choice(["##", "##", "a", ""]), "cleanup": coin(rng)}
    elif kind == "BPEDecoder":
        step["suffix"] = rng.choice(["</w>", "</w>", "a", ""])
    elif kind == "CTC":
        step |= {"pad_token": rng.choice(["<pad>", "a"]), "word_delimiter_token": rng.choice(["|", "▁", ""]), "cleanup": coin(rng)}
    return step


def sequence(rng, kind, key, draw, weights):
    n = rng.choices(range(len(weights)), weights)[0]
    if n == 0:
        return None
    steps = [draw(rng) for _ in range(n)]
    if len(steps) == 1 and coin(rng):
        return steps[0]
    return {"type": kind, key: steps}


def random_post_processor(rng, ids):
    def special():
        return rng.choice(list(ids.items()))

    def one(_):
        kind = rng.choice(["ByteLevel", "TemplateProcessing", "TemplateProcessing", "RobertaProcessing", "BertProcessing"])
        if kind == "ByteLevel":
            return {"type": kind, "add_prefix_space": True, "trim_offsets": coin(rng), "use_regex": True}
        if kind != "TemplateProcessing":
            step = {"type": kind, "sep": list(special()), "cls": list(special())}
            return step | ({"trim_offsets": True, "add_prefix_space": True} if kind == "RobertaProcessing" else {})
        names = {}

        def specials(n):
            for _ in range(n):
                name = f"s{len(names)}"
                chosen = [special() for _ in range(rng.randint(1, 2))]
                names[name] = {"id": name, "ids": [c[1] for c in chosen], "tokens": [c[0] for c in chosen]}
                yield {"SpecialToken": {"id": name, "type_id": 0}}
        text = [{"Sequence": {"id": "A", "type_id": 0}}]
        second = [{"Sequence": {"id": "B", "type_id": 1}}]
        single = list(specials(rng.randint(0, 2))) + text + list(specials(rng.randint(0, 2)))
        pair = text + list(specials(rng.randint(0, 2))) + second + list(specials(rng.randint(0, 1)))
        return {"type": kind, "single": single, "pair": pair, "special_tokens": names}
    return sequence(rng, "Sequence", "processors", one, [3, 4, 2, 1])


# ---- models

def byte_chars():
    visible = [*range(33, 127), *range(161, 173), *range(174, 256)]
    chars = {b: chr(b) for b in visible}
    for b in range(256):
        if b not in chars:
            chars[b] = chr(256 + len(chars) - len(visible))
    return chars


BYTE_CHARS = byte_chars()


def corpus_pieces(rng, is_byte_level):
    """Strings that the model may meet, for its vocabulary."""
    text = " ".join(WORDS) + "".join(random_text(rng) for _ in range(20))
    if is_byte_level:
        text = "".join(BYTE_CHARS[b] for b in text.encode())
    pieces = set()
    for _ in range(rng.choice([10, 60, 200])):
        at = rng.randrange(len(text))
        pieces.add(text[at:at + rng.randint(1, 6)])
    return sorted(pieces), sorted(set(text))


def random_bpe(rng, is_byte_level):
    model = {"type": "BPE", "dropout": None, "unk_token": None, "continuing_subword_prefix": None, "end_of_word_suffix": None, "fuse_unk": coin(rng), "byte_fallback": coin(rng),
             "ignore_merges": rng.random() < 0.3}
    _, chars = corpus_pieces(rng, is_byte_level)
    if is_byte_level and coin(rng):
        chars = list(BYTE_CHARS.values())
    vocab = [c for c in chars if rng.random() < 0.9] or ["a"]
    prefix = suffix = ""
    if rng.random() < 0.25:
        prefix = model["continuing_subword_prefix"] = rng.choice(["##", "_", ""])
        vocab += [prefix + c for c in vocab if rng.random() < 0.8]
    if rng.random() < 0.25:
        suffix = model["end_of_word_suffix"] = rng.choice(["</w>", ""])
        vocab += [c + suffix for c in vocab if rng.random() < 0.8]
    vocab += ["▁"] + [f"<0x{b:02X}>" for b in range(256) if coin(rng) or model["byte_fallback"]]
    vocab = list(dict.fromkeys(vocab))
    known, merges = set(vocab), []
    for _ in range(rng.choice([0, 20, 150])):
        a, b = rng.choice(vocab), rng.choice(vocab)
        if not b.startswith(prefix):
            continue
        product = a + b[len(prefix):]
        if len(product) > 40:
            continue
        if product not in known:
            vocab.append(product)
            known.add(product)
        merges.append([a, b])
    if coin(rng):
        model["unk_token"] = "<unk>"
        if "<unk>" not in known:
            vocab.append("<unk>")
    if merges and coin(rng) and not any(" " in part for pair in merges for part in pair):
        merges = [" ".join(pair) for pair in merges]
    if rng.random() < 0.3:
        rng.shuffle(vocab)
    return model | {"vocab": {token: i for i, token in enumerate(vocab)}, "merges": merges}


def random_wordpiece(rng, is_byte_level):
    pieces, chars = corpus_pieces(rng, is_byte_level)
    prefix = rng.choice(["##", "##", "##", "", "▁"])
    vocab = ["[UNK]"] + pieces + [c for c in chars if rng.random() < 0.8]
    vocab += [prefix + piece for piece in vocab if rng.random() < 0.7]
    return {"type": "WordPiece", "unk_token": "[UNK]", "continuing_subword_prefix": prefix, "max_input_chars_per_word": rng.choice([100, 100, 5, 1, 0]),
            "vocab": {token: i for i, token in enumerate(dict.fromkeys(vocab))}}


def random_wordlevel(rng, is_byte_level):
    pieces, chars = corpus_pieces(rng, is_byte_level)
    vocab = dict.fromkeys(pieces + chars + WORDS + ["[UNK]"])
    return {"type": "WordLevel", "vocab": {token: i for i, token in enumerate(vocab)}, "unk_token": "[UNK]"}


def random_unigram(rng, is_byte_level):
    pieces, chars = corpus_pieces(rng, is_byte_level)
    tokens = list(dict.fromkeys(["<unk>"] + pieces + [c for c in chars if rng.random() < 0.8] + ["▁"] + [f"<0x{b:02X}>" for b in range(256)]))
    # Scores are eighths, so that sums are exact and equal paths are equal.
    return {"type": "Unigram", "unk_id": 0, "byte_fallback": coin(rng), "vocab": [[token, -rng.randrange(8, 120) / 8] for token in tokens]}


MODELS = [random_bpe, random_bpe, random_wordpiece, random_wordlevel, random_unigram]


# ---- added tokens, the whole

def random_added(rng, model):
    vocab = [token for token, _ in model["vocab"]] if model["type"] == "Unigram" else list(model["vocab"])
    known = {token: i for i, token in enumerate(vocab)} if model["type"] == "Unigram" else dict(model["vocab"])
    added, next_id = [], len(known)
    for content in rng.sample(["<s>", "</s>", "[CLS]", "[SEP]", "[MASK]", "<tool>", "Yes", "the", "中文", "é", " x ", "<|im_end|>", "<|im", "ab", "a", "\n\n", "  "], rng.choice([0, 1, 2, 5, 9])):
        token_id = known.get(content)
        if token_id is None:
            token_id, next_id = next_id, next_id + 1
            known[content] = token_id
        added.append({"id": token_id, "content": content, "single_word": rng.random() < 0.2, "lstrip": rng.random() < 0.3, "rstrip": rng.random() < 0.3,
                      "normalized": rng.random() < 0.4, "special": coin(rng)})
    return sorted(added, key=lambda token: token["id"]), known


def random_tokenizer(rng):
    normalizer = sequence(rng, "Sequence", "normalizers", random_normalizer, [4, 4, 2, 1])
    pre_tokenizer = sequence(rng, "Sequence", "pretokenizers", random_pre_tokenizer, [2, 5, 3, 1])
    is_byte_level = '"ByteLevel"' in json.dumps([normalizer, pre_tokenizer])
    model = rng.choice(MODELS)(rng, is_byte_level)
    added, known = random_added(rng, model)
    if rng.random() < 0.2:
        decoder = {"type": "Sequence", "decoders": [{"type": "Replace", "pattern": {"String": "▁"}, "content": " "}, {"type": "ByteFallback"}, {"type": "Fuse"},
                                                    {"type": "Strip", "content": " ", "start": 1, "stop": 0}]}
    else:
        decoder = sequence(rng, "Sequence", "decoders", random_decoder, [1, 5, 2, 1])
        if rng.random() < 0.05:
            decoder = {"type": "Sequence", "decoders": []}
    truncation = {"direction": "Right", "max_length": 3, "strategy": "LongestFirst", "stride": 0}
    padding = {"strategy": {"Fixed": 9}, "direction": "Right", "pad_to_multiple_of": None, "pad_id": 0, "pad_type_id": 0, "pad_token": "[PAD]"}
    return {"version": "1.0", "truncation": truncation if rng.random() < 0.1 else None, "padding": padding if rng.random() < 0.1 else None, "added_tokens": added,
            "normalizer": normalizer, "pre_tokenizer": pre_tokenizer, "post_processor": random_post_processor(rng, known), "decoder": decoder, "model": model}


def answer(function):
    """What the package says, or None where it panics or fails: its panics are no Exceptions."""
    try:
        return function()
    except KeyboardInterrupt:
        raise
    except BaseException:
        return None


# What radish refuses, rightly: streams without end.
REFUSALS = re.compile(r"behind a step that fuses all tokens|a second time \(once works\)|the text \d times|makes \d+ parts|not the alphabet|outside of the byte-level alphabet|more than 16 steps")


def compare(jsonl, folder, what, args, rows, wanted, where):
    asked = [i for i in range(len(rows)) if wanted[i] is not None]
    given = jsonl(*args, rows=[rows[i] for i in asked])
    for i, got in zip(asked, given):
        if got != wanted[i]:
            pytest.fail(f"{where}: {what} of {json.dumps(rows[i])}\n  radish     {json.dumps(got)}\n  tokenizers {json.dumps(wanted[i])}\n"
                        f"  {folder}/tokenizer.json is {(folder / 'tokenizer.json').read_text()[:3000]}", pytrace=False)


def refused(jsonl, folder):
    """The line that says why radish refuses the tokenizer, None when it does not."""
    done = subprocess.run([jsonl.program, "tokenize", str(folder), "--jsonl"], input=b"", capture_output=True, timeout=60)
    assert done.returncode in (0, 1), done.stderr.decode()
    return done.stderr.decode() if done.returncode else None


def check_tokenizer(jsonl, folder, rng, spec, where):
    """Compares one tokenizer; the reason when radish refuses it, None when the two were compared."""
    folder.mkdir(exist_ok=True)
    (folder / "tokenizer.json").write_text(json.dumps(spec))
    reference = Tokenizer.from_str(json.dumps(spec))
    reference.no_truncation()
    reference.no_padding()
    contents = [token["content"] for token in spec["added_tokens"]]
    texts = ["", " ", "a"] + [random_text(rng, contents) for _ in range(N_TEXTS)]
    refusal = refused(jsonl, folder)
    if refusal:
        assert REFUSALS.search(refusal), f"{where}: refused: {refusal}\n  {json.dumps(spec)[:3000]}"
        return refusal
    ids = [answer(lambda: reference.encode(text, add_special_tokens=False).ids) for text in texts]
    special = [answer(lambda: reference.encode(text, add_special_tokens=True).ids) for text in texts]
    compare(jsonl, folder, "ids", ["tokenize", folder], texts, ids, where)
    compare(jsonl, folder, "ids with specials", ["tokenize", folder, "--special"], texts, special, where)
    every_id = sorted(reference.get_vocab().values())
    lists = [row for row in ids if row] + [[rng.choice(every_id) for _ in range(rng.randint(1, 12))] for _ in range(N_ID_LISTS)]
    lists += [[token["id"] for token in spec["added_tokens"]]]
    for flag, skip in (([], False), (["--skip-special"], True)):
        wanted = [answer(lambda: reference.decode(row, skip_special_tokens=skip)) for row in lists]
        compare(jsonl, folder, f"decode, skip_special {skip},", ["detokenize", folder, *flag], lists, wanted, where)
    return None


def is_ambiguous(spec):
    """Two added tokens that the normalizer makes one text: which of them the package finds is up to a hash table."""
    normalizer = Tokenizer.from_str(json.dumps(spec)).normalizer
    contents = [token["content"] for token in spec["added_tokens"] if token["normalized"]]
    forms = [answer(lambda: normalizer.normalize_str(content)) if normalizer else content for content in contents]
    return len(set(forms)) < len(forms) or "" in forms


def test_generated_tokenizers_agree(jsonl, rng, tmp_path):
    n_compared, refused, kinds = 0, {}, set()
    for case in range(N_TOKENIZERS):
        spec = random_tokenizer(rng)
        if answer(lambda: Tokenizer.from_str(json.dumps(spec))) is None or is_ambiguous(spec):
            continue
        reason = check_tokenizer(jsonl, tmp_path / "tokenizer", rng, spec, f"case {case} of seed {SEED}")
        if reason is None:
            n_compared += 1
            kinds.update(re.findall(r'"type": "(\w+)"', json.dumps({**spec, "model": {"type": spec["model"]["type"]}})))
        else:
            refused[reason] = refused.get(reason, 0) + 1
    print(f"{n_compared} compared, {sum(refused.values())} refused, with {len(kinds)} kinds of parts")
    assert n_compared >= N_TOKENIZERS / 2
    assert len(kinds) >= 30


# Everything that asks what class a character is of, or what it becomes.
CHARACTER_PARTS = {
    "normalizer": [{"type": "NFC"}, {"type": "NFD"}, {"type": "NFKC"}, {"type": "NFKD"}, {"type": "Lowercase"}, {"type": "StripAccents"}, {"type": "Nmt"},
                   {"type": "BertNormalizer", "clean_text": True, "handle_chinese_chars": True, "strip_accents": True, "lowercase": False}],
    "pre_tokenizer": [{"type": "Digits", "individual_digits": True}, {"type": "Punctuation", "behavior": "Isolated"}, {"type": "Whitespace"}, {"type": "WhitespaceSplit"},
                      {"type": "BertPreTokenizer"}, {"type": "UnicodeScripts"}],
}


@pytest.mark.parametrize("stage, part", [(stage, part) for stage, parts in CHARACTER_PARTS.items() for part in parts], ids=lambda value: value["type"] if isinstance(value, dict) else value)
def test_every_character_is_treated_alike(jsonl, rng, tmp_path, stage, part):
    """The model shows the bytes of the text, and where pieces end."""
    vocab = {f"<0x{b:02X}>": b for b in range(256)}
    spec = {"version": "1.0", "truncation": None, "padding": None, "added_tokens": [], "normalizer": None, "pre_tokenizer": None, "post_processor": None, "decoder": None,
            "model": {"type": "BPE", "dropout": None, "unk_token": None, "continuing_subword_prefix": None, "end_of_word_suffix": "|", "fuse_unk": False, "byte_fallback": True,
                      "ignore_merges": False, "vocab": vocab, "merges": []}}
    spec[stage] = part
    (tmp_path / "tokenizer.json").write_text(json.dumps(spec))
    reference = Tokenizer.from_str(json.dumps(spec))
    chars = [c for c in range(0x110000) if not 0xD800 <= c < 0xE000]
    if ROUNDS < 10:
        chars = [c for c in chars if c < 0x600 or rng.random() < 0.005]
    rows = ["".join(f"a{chr(c)}b\u0301{chr(c)}\u4e2d" for c in chars[i:i + 32]) for i in range(0, len(chars), 32)]
    wanted = [reference.encode(row).ids for row in rows]
    for i, got in enumerate(jsonl("tokenize", tmp_path, rows=rows)):
        if got == wanted[i]:
            continue
        for c in chars[i * 32:i * 32 + 32]:
            text = f"a{chr(c)}b\u0301{chr(c)}\u4e2d"
            one = jsonl("tokenize", tmp_path, rows=[text])[0]
            assert one == reference.encode(text).ids, f"U+{c:04X} with {part}: {bytes(one)} is not {bytes(reference.encode(text).ids)}"
        pytest.fail(f"{part}: {rows[i]!r}")
