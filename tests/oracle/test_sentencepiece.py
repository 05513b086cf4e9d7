"""SentencePiece vocabularies against the packages they come from.

Tiny models are trained here, with every setting that reaches a GGUF file, and their ids compared with sentencepiece's own; Unigram models
also go through tokenizer.json and are compared with tokenizers. Scores, and whole vocabularies, are then made up, to meet ties and
characters that no piece covers. Texts are random and nasty: spaces and newlines beside special tokens, accents in both spellings,
ligatures, runs, bytes that look like tokens.
"""
import io, struct

import pytest
import sentencepiece
import tokenizers
from tokenizers import decoders, models, normalizers, pre_tokenizers

import conftest

NORMAL, UNKNOWN, CONTROL, USER_DEFINED, UNUSED, BYTE = range(1, 7)
WORDS = ("the of and to in is that for it was on are as with his they at be this from have or by one had not but what all were when we there can "
         "an your which their said if do will each about how up out them then she many some so these would other into has more her two like him "
         "see time could no make than first been its who now people my made over did down only way find use may water long little very after "
         "words called just where most know naïve café résumé über straße señor coração Ελλάδα привет мир 東京 日本語 中文 한국어 नमस्ते สวัสดี 2024 1999 "
         "3.14 100% a+b x_y foo() https://x.org ﬁne ﬂow ①②③ ½ № Ångström e\u0301te\u0301").split()
ODD = [" ", "  ", "   ", "\n", "\n\n", "\n\n\n", "\t", "\r\n", "\u00a0", "\u3000", "\u2581", "\u2581\u2581", "\u200b", "\u200d", "\ufeff", "\x00", "\x07", "\x7f",
       "e\u0301", "\u0301", "ﬁ", "ﬁ\u0301", "Å", "Å", "Ｆｕｌｌ", "ｶﾞ", "ſ", "İ", "ß", "ẞ", "👍🏽", "👩‍👩‍👧", "🇩🇪", "क्षि", "각", "각", "가\u0301", "\u1fc4", "ΐ",
       "<0x41>", "<0x0A>", "<unk>", "<pad>", "[SEP]", "xy", "yz", "xyz", "aaaa", "aaaaaaa", "ABC", "12345", "0", "...", "?!", "𝔘𝔫𝔦", "㍿", "™", "\ufffd", "\u0345", "\u0f71\u0f72"]
SPECIALS = ["<s>", "</s>", "[SEP]"]


def corpus(rng):
    for _ in range(400):
        yield " ".join(rng.choice(WORDS) for _ in range(rng.randrange(1, 12)))


def text_of(rng, specials=()):
    parts = []
    for _ in range(rng.randrange(1, 14)):
        kind = rng.random()
        if kind < 0.4:
            parts.append(rng.choice(["", " ", " ", "  ", "\n"]) + rng.choice(WORDS))
        elif kind < 0.75:
            parts.append(rng.choice(ODD))
        elif kind < 0.85:
            parts.append("".join(chr(rng.choice([rng.randrange(0x20, 0x7f), rng.randrange(0xa0, 0x250), rng.randrange(0x300, 0x370),
                                                 rng.randrange(0x1e00, 0x2200), rng.randrange(0xfb00, 0xfb07), rng.randrange(0xff00, 0xffef)]))
                                 for _ in range(rng.randrange(1, 4))))
        elif kind < 0.9:
            parts.append(rng.choice(["a", " ", "\n", "é", "\u0301", "x", "1"]) * rng.randrange(1, 40))
        elif specials:
            parts.append(rng.choice(["", " ", "\n"]) + rng.choice(specials) + rng.choice(["", " ", "\n"]))
    return "".join(parts)


# ---- SentencePiece's model files (protocol buffers), and GGUF

def fields(data):
    """(number, value) of one message: integers, 4-byte floats as bytes, strings and messages as bytes."""
    at = 0

    def varint():
        nonlocal at
        value = shift = 0
        while True:
            byte = data[at]
            at += 1
            value |= (byte & 127) << shift
            shift += 7
            if byte < 128:
                return value
    while at < len(data):
        key = varint()
        size = {1: 8, 5: 4}.get(key & 7)
        if key & 7 == 0:
            yield key >> 3, varint()
        else:
            size = varint() if size is None else size
            yield key >> 3, data[at:at + size]
            at += size


def field(number, value):
    """One field, written: an int, a float or bytes."""
    def varint(n):
        return bytes([n]) if n < 128 else bytes([n & 127 | 128]) + varint(n >> 7)
    if isinstance(value, float):
        return varint(number << 3 | 5) + struct.pack("<f", value)
    if isinstance(value, int):
        return varint(number << 3) + varint(value)
    return varint(number << 3 | 2) + varint(len(value)) + value


class Model:
    """A trained model: its pieces (text, score, type) and normalizer; may be changed and used again."""

    def __init__(self, blob):
        self.rest, self.pieces, self.charsmap, self.prefix, self.removes = b"", [], b"", True, True
        for number, value in fields(blob):
            if number == 1:
                piece = {1: b"", 2: b"\0\0\0\0", 3: NORMAL, **dict(fields(value))}
                self.pieces.append((piece[1].decode(), struct.unpack("<f", piece[2])[0], piece[3]))
            elif number == 3:
                spec = {2: b"", 3: 1, 4: 1, **dict(fields(value))}
                self.charsmap, self.prefix, self.removes = spec[2], bool(spec[3]), bool(spec[4])
                self.rest += field(3, value)
            else:
                self.rest += field(number, value)

    def processor(self):
        pieces = b"".join(field(1, field(1, text.encode()) + field(2, float(score)) + field(3, kind)) for text, score, kind in self.pieces)
        return sentencepiece.SentencePieceProcessor(model_proto=pieces + self.rest)

    def write_gguf(self, path, kind, **extra):
        texts, scores, types = zip(*self.pieces)
        keys = {"tokenizer.ggml.model": kind, "tokenizer.ggml.tokens": list(texts), "tokenizer.ggml.scores": [float(s) for s in scores],
                "tokenizer.ggml.token_type": list(types), "tokenizer.ggml.add_space_prefix": self.prefix,
                "tokenizer.ggml.remove_extra_whitespaces": self.removes, "tokenizer.ggml.unknown_token_id": types.index(UNKNOWN), **extra}
        if self.charsmap:
            keys["tokenizer.ggml.precompiled_charsmap"] = self.charsmap
        path.write_bytes(gguf(keys))
        return path


def gguf(keys):
    """A GGUF file without tensors."""
    def string(s):
        return struct.pack("<Q", len(s.encode())) + s.encode()

    def value(v):
        if isinstance(v, bool):
            return struct.pack("<IB", 7, v)
        if isinstance(v, int):
            return struct.pack("<II", 4, v)
        if isinstance(v, str):
            return struct.pack("<I", 8) + string(v)
        if isinstance(v, bytes):
            return struct.pack("<IIQ", 9, 0, len(v)) + v
        if isinstance(v[0], str):
            return struct.pack("<IIQ", 9, 8, len(v)) + b"".join(map(string, v))
        if isinstance(v[0], float):
            return struct.pack(f"<IIQ{len(v)}f", 9, 6, len(v), *v)
        return struct.pack(f"<IIQ{len(v)}i", 9, 5, len(v), *v)
    return b"GGUF" + struct.pack("<IQQ", 3, 0, len(keys)) + b"".join(string(k) + value(v) for k, v in keys.items())


def train(rng, **settings):
    out = io.BytesIO()
    settings = {"model_type": "bpe", "vocab_size": 400, "hard_vocab_limit": False, "character_coverage": rng.choice([1.0, 0.99, 0.98]),
                "control_symbols": ["[SEP]"], **settings}
    sentencepiece.SentencePieceTrainer.train(sentence_iterator=corpus(rng), model_writer=out, num_threads=1, minloglevel=2, **settings)
    return Model(out.getvalue())


def parts_of(text, specials):
    """The text cut at special tokens, longest first at each place."""
    parts, start, at = [], 0, 0
    while at < len(text):
        found = max((s for s in specials if text.startswith(s, at)), key=len, default=None)
        if found is None:
            at += 1
            continue
        parts += [(text[start:at], None), (found, found)]
        start = at = at + len(found)
    return [p for p in parts + [(text[start:], None)] if p[0]]


def expected(model, text):
    """sentencepiece's ids of what lies between the control tokens."""
    sp, ids = model.processor_, []
    for part, special in parts_of(text, model.specials):
        ids += [model.specials[special]] if special else sp.encode(part)
    return ids


def compare(model, path, jsonl, texts):
    model.processor_ = model.processor()
    model.specials = {text: i for i, (text, _, kind) in enumerate(model.pieces) if kind in (CONTROL, UNKNOWN)}
    got = jsonl("tokenize", path, rows=texts)
    for text, ids in zip(texts, got):
        want = expected(model, text)
        assert ids == want, (text, [model.pieces[i][0] for i in ids], [model.pieces[i][0] for i in want])
    return got


SETTINGS = {
    "plain": {},
    "llama": {"byte_fallback": True, "normalization_rule_name": "identity", "remove_extra_whitespaces": False, "split_digits": True},
    "no_prefix": {"byte_fallback": True, "normalization_rule_name": "identity", "remove_extra_whitespaces": False, "add_dummy_prefix": False},
    "identity": {"normalization_rule_name": "identity"},
    "nfkc_cf": {"normalization_rule_name": "nmt_nfkc_cf", "byte_fallback": True},
    "nfkc": {"normalization_rule_name": "nfkc", "add_dummy_prefix": False},
    "symbols": {"user_defined_symbols": ["xy", "yz", "xyz", "aa", "ﬁne", "<|im|>", "▁▁", "é"], "remove_extra_whitespaces": False},
    "symbols_bytes": {"user_defined_symbols": ["xyz", "\n", "\n\n", "▁▁▁"], "byte_fallback": True, "normalization_rule_name": "identity",
                      "remove_extra_whitespaces": False},
    "whole": {"split_by_whitespace": False, "split_by_number": False, "split_by_unicode_script": False},
}


def n_texts(n):
    return max(1, int(n * conftest.ROUNDS))


@pytest.mark.parametrize("name", SETTINGS)
@pytest.mark.parametrize("kind", ["llama", "t5"])
def test_gguf_gives_the_ids_of_sentencepiece(name, kind, rng, tmp_path, jsonl):
    model = train(rng, model_type={"llama": "bpe", "t5": "unigram"}[kind], **SETTINGS[name])
    path = model.write_gguf(tmp_path / "a.gguf", kind)
    compare(model, path, jsonl, [""] + ODD + [text_of(rng, SPECIALS + ["<unk>"]) for _ in range(n_texts(300))])


def made_up(rng, base, kind):
    """A vocabulary over a few characters, with ties, characters that are no pieces, and every type."""
    chars = rng.sample(["a", "b", "c", "▁", "é", "x", "日", "👍"], rng.randrange(2, 7))
    scores = rng.choice([[-1.0, -2.0, -3.0], [-0.1 * i for i in range(1, 30)], [0.0], [-1.0, -2.0, -4.0, -0.5, -1.0e9], [-3.3, -6.6, -9.9, -13.2, 2.0, 1.1], [-70000.0, -1.0, 30000.0, -2.5]])
    texts = {"".join(rng.choice(chars) for _ in range(rng.choice([1, 1, 2, 2, 3, 4, 6]))) for _ in range(rng.randrange(3, 40))}
    pieces = [p for p in base.pieces if p[2] in (UNKNOWN, CONTROL, BYTE)]
    for text in sorted(texts):
        kind_ = rng.choice([NORMAL] * 8 + [USER_DEFINED, UNUSED])
        pieces.append((text, struct.unpack("<f", struct.pack("<f", rng.choice(scores)))[0], kind_))
    if not any(p[2] == NORMAL for p in pieces):
        pieces.append(("a" * 9, -1.0, NORMAL))
    return pieces, chars


@pytest.mark.parametrize("fallback", [False, True])
@pytest.mark.parametrize("kind", ["llama", "t5"])
def test_ties_and_gaps_are_those_of_sentencepiece(kind, fallback, rng, tmp_path, jsonl):
    model = train(rng, model_type={"llama": "bpe", "t5": "unigram"}[kind], byte_fallback=fallback, normalization_rule_name="identity",
                  remove_extra_whitespaces=False, add_dummy_prefix=rng.random() < 0.5)
    base = Model.__new__(Model)
    base.pieces = model.pieces
    for _ in range(n_texts(15)):
        model.pieces, chars = made_up(rng, base, kind)
        path = model.write_gguf(tmp_path / "a.gguf", kind)
        compare(model, path, jsonl, ["".join(rng.choice(chars + [" ", "z"]) for _ in range(rng.choice([3, 10, 60, 300]))) for _ in range(40)])


# ---- tokenizer.json

def rules_tsv(rng, path):
    """Replacements of one to three characters by anything, prefixes of each other among them."""
    chars = ["a", "b", "e", "\u0301", "\u0308", "\r", "\n", "ﬁ", "é", "각", "ᄀ", "ᅡ", "👍", "🏽", "\u200d", "क", "्", " ", "\u00a0", "x", "1", "\u0345"]
    rules = {"".join(rng.choice(chars) for _ in range(rng.choice([1, 1, 2, 2, 3]))): "".join(rng.choice(chars + ["zz"]) for _ in range(rng.choice([0, 1, 1, 2, 3])))
             for _ in range(rng.randrange(5, 40))}
    path.write_text("".join("\t".join(" ".join(f"{ord(c):X}" for c in s) for s in rule) + "\n" for rule in rules.items() if rule[0] != rule[1]))
    return chars


def write_json(path, vocab, unk_id, fallback=False, charsmap=b"", steps=(), pre=None, decoder=None, added=()):
    tokenizer = tokenizers.Tokenizer(models.Unigram(vocab, unk_id, fallback))
    steps = ([normalizers.Precompiled(charsmap)] if charsmap else []) + list(steps)
    if steps:
        tokenizer.normalizer = normalizers.Sequence(steps)
    if pre:
        tokenizer.pre_tokenizer = pre
    if decoder:
        tokenizer.decoder = decoder
    tokenizer.add_special_tokens(list(added))
    path.mkdir(exist_ok=True)
    tokenizer.save(str(path / "tokenizer.json"))
    (path / "tokenizer_config.json").write_text("{}")
    return tokenizer


def compare_json(tokenizer, path, jsonl, texts):
    got = jsonl("tokenize", path, rows=texts)
    for text, ids in zip(texts, got):
        want = tokenizer.encode(text, add_special_tokens=False).ids
        assert ids == want, (text, [tokenizer.id_to_token(i) for i in ids], [tokenizer.id_to_token(i) for i in want])
    decoded = jsonl("detokenize", path, rows=got)
    for ids, text in zip(got, decoded):
        assert text == tokenizer.decode(ids, skip_special_tokens=False), [tokenizer.id_to_token(i) for i in ids]


BYTES_ONLY = [("<unk>", 0.0)] + [(f"<0x{b:02X}>", -1.0) for b in range(256)]
FALLBACK_DECODER = decoders.Sequence([decoders.Replace("▁", " "), decoders.ByteFallback(), decoders.Fuse()])


@pytest.mark.parametrize("rule", ["nmt_nfkc", "nmt_nfkc_cf", "nfkc", "nfkc_cf", "made_up"])
def test_a_charsmap_is_applied_as_tokenizers_and_as_sentencepiece_do(rule, rng, tmp_path, jsonl):
    for _ in range(n_texts(3) if rule == "made_up" else 1):
        chars = list(map(chr, range(0xa0, 0x250))) + ODD
        settings = {"normalization_rule_name": rule}
        if rule == "made_up":
            chars = rules_tsv(rng, tmp_path / "rules.tsv") + ["c", "f", " "]
            settings = {"normalization_rule_tsv": str(tmp_path / "rules.tsv")}
        model = train(rng, byte_fallback=True, model_type="unigram", **settings)
        texts = ["".join(rng.choice(chars) for _ in range(rng.randrange(1, 20))) for _ in range(n_texts(300))]
        texts += [text_of(rng) for _ in range(n_texts(200))]
        if rule != "made_up":
            # Every assigned character of the BMP and some beyond it, alone and before an accent; those after Unicode 14 are not parity.
            points = rng.sample([c for c in range(1, 0x20000) if not 0xd800 <= c < 0xe000], n_texts(3000))
            texts += [chr(c) + rng.choice(["", "\u0301", "a"]) for c in points]
        # With bytes for everything the ids spell the normal form.
        tokenizer = write_json(tmp_path / "t", BYTES_ONLY, 0, True, model.charsmap, decoder=FALLBACK_DECODER)
        compare_json(tokenizer, tmp_path / "t", jsonl, texts)
        compare(model, model.write_gguf(tmp_path / "a.gguf", "t5"), jsonl, texts)


PRE = {
    "t5": pre_tokenizers.Metaspace(prepend_scheme="always", split=True),
    "xlmr": pre_tokenizers.Sequence([pre_tokenizers.WhitespaceSplit(), pre_tokenizers.Metaspace(prepend_scheme="always", split=True)]),
    "first": pre_tokenizers.Metaspace(prepend_scheme="first", split=False),
    "none": None,
}


@pytest.mark.parametrize("pre", PRE)
def test_a_unigram_tokenizer_json_gives_the_ids_and_texts_of_tokenizers(pre, rng, tmp_path, jsonl):
    fallback = rng.random() < 0.5
    model = train(rng, model_type="unigram", byte_fallback=fallback)
    steps = rng.choice([[], [normalizers.Replace(tokenizers.Regex(" {2,}"), " ")], [normalizers.Replace(tokenizers.Regex(" {2,}"), "▁"), normalizers.Strip(False, True)]])
    decoder = FALLBACK_DECODER if fallback else decoders.Metaspace(prepend_scheme="always" if pre != "first" else "first")
    vocab = [(text, score) for text, score, _ in model.pieces]
    tokenizer = write_json(tmp_path / "t", vocab, 0, fallback, model.charsmap, steps, PRE[pre], decoder, ["<s>", "</s>", "[SEP]"])
    compare_json(tokenizer, tmp_path / "t", jsonl, ODD + [text_of(rng, SPECIALS + ["<unk>"]) for _ in range(n_texts(300))])


def test_ties_and_gaps_are_those_of_tokenizers(rng, tmp_path, jsonl):
    base = Model.__new__(Model)
    for _ in range(n_texts(12)):
        fallback = rng.random() < 0.5
        base.pieces = [("<unk>", 0.0, UNKNOWN)] + [(f"<0x{b:02X}>", 0.0, BYTE) for b in range(256) if fallback and rng.random() < 0.99]
        pieces, chars = made_up(rng, base, "t5")
        vocab = [(text, score if rng.random() < 0.5 else round(score, 3)) for text, score, _ in pieces]
        if rng.random() < 0.3:
            vocab += [("<unk>", -1.0), (rng.choice(vocab)[0], -0.5)]
        tokenizer = write_json(tmp_path / "t", vocab, 0, fallback)
        compare_json(tokenizer, tmp_path / "t", jsonl, ["".join(rng.choice(chars + ["z", " ", "<unk>"]) for _ in range(rng.choice([3, 10, 60, 300]))) for _ in range(40)])
