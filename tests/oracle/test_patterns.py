"""Patterns: where radish (PCRE2, translated) cuts, against where the tokenizers package (Oniguruma) cuts.

Classes of characters are compared over all code points: the split takes the matches away (or all else), and what is left is compared as
bytes. Sequences and published patterns are compared by random texts, every piece marked with a space in front. Characters newer than PCRE2's
Unicode tables are left out: they are unassigned to one side and letters to the other. Of the ideographs and the Hangul syllables, which are all
alike, one run takes every 16th; RADISH_ORACLE_ROUNDS above 1 takes all.
"""
import json, unicodedata

import pytest
from tokenizers import Regex, Tokenizer, pre_tokenizers

from conftest import ROUNDS

CLASSES = [
    r"\s", r"\S", r"\d", r"\D", r"\w", r"\W", r"\h", r"\H", r"\N", r"\O", r".", r"(?m:.)", r"\v", r"\f", r"\a", r"\e", r"\x41", r"\x{3b1}", r"\u00e9",
    r"[\s]", r"[^\s]", r"[\S]", r"[^\S]", r"[\d]", r"[\D]", r"[\w]", r"[^\w]", r"[\W]", r"[^\W]", r"[\h]", r"[^\H]", r"[\b]",
    r"\p{L}", r"\P{L}", r"\p{^L}", r"\P{^L}", r"\p{N}", r"\p{M}", r"\p{P}", r"\p{S}", r"\p{Z}", r"\p{C}", r"\p{Lu}", r"\p{Ll}", r"\p{Lt}", r"\p{Lm}", r"\p{Lo}",
    r"\p{Mn}", r"\p{Nd}", r"\p{Sc}", r"\p{Zs}", r"\p{Cc}", r"\p{LC}", r"\p{Letter}", r"\p{Uppercase_Letter}", r"\p{lowercase letter}", r"\p{Any}",
    r"\p{Han}", r"\p{Hiragana}", r"\p{Katakana}", r"\p{Hangul}", r"\p{Latin}", r"\p{Cyrillic}", r"\p{Greek}", r"\p{Arabic}", r"\p{Thai}", r"\p{Common}", r"\p{Inherited}",
    r"[\p{Han}]", r"[^\p{Han}]", r"\P{Han}", r"[\p{Han}\p{Hiragana}\p{Katakana}]", r"[\p{L}&&[^\p{Han}]]", r"[^\s\p{L}\p{N}]", r"[^\r\n\p{L}\p{N}]",
    r"\p{Alphabetic}", r"\p{Alpha}", r"\p{Alnum}", r"\p{Lower}", r"\p{Upper}", r"\p{Punct}", r"\p{Space}", r"\p{Word}", r"\p{White_Space}", r"\p{Ideographic}", r"\p{Emoji}",
    r"[[:alpha:]]", r"[[:^alpha:]]", r"[[:alnum:]]", r"[[:digit:]]", r"[[:space:]]", r"[^[:space:]]", r"[[:^space:]]", r"[[:punct:]]", r"[[:^punct:]]", r"[[:word:]]", r"[[:upper:]]",
    r"[[:lower:]]", r"[[:xdigit:]]", r"[[:blank:]]", r"[[:cntrl:]]", r"[[:ascii:]]", r"[[:^ascii:]]",
    r"[a-z&&[^aeiou]]", r"[^a-z&&[^aeiou]]", r"[\p{L}&&[^a-z]&&[^A-Z]]", r"[\p{Lu}\p{Lt}&&[^\p{Han}]]", r"[[a-c][x-z]]", r"[^[a-c][x-z]]", r"[a[^b-\x{fff}]]", r"[\p{L}&&[^\x{0}-\x{7f}]]", r"[\p{L}&&\p{Han}]",
    r"[\w&&[^\d]]", r"[^\w&&[^\d_]]", r"[\s&&[^\n]]", r"[a-]", r"[-a]", r"[]a]", r"[^]a]", r"[a\]]", r"[\-a]", r"[.*+?(){}|^$]", r"[а-яё]", r"[一-龥]",
    r"(?i:k)", r"(?i:s)", r"(?i:[a-z])", r"(?i:[^k])", r"(?i)a", r"(?i:'s|'t|'re|'ve|'m|'ll|'d)", r"(?=a).", r"(?!a).", r"(?<!a)b", r"(?<=a)b", r"a(?#b)", r"\.", r"\ ", "é",
]
# What moves from one character to its neighbours, on texts of a few alphabets.
SEQUENCES = [
    r"a**", r"a?{2}b", r"a+{2}", r"a++", r"a?+b", r"a*+b", r"a{2}", r"a{2,}", r"a{,2}b", r"a{1,2}", r"a{1,2}?", r"a{2}+", r"a{1,2}+b", r"a{2}?", r"a+?b", r"(?:ab)+", r"(ab|b)+", r"(?<n>a)b", r"a{b", r"a{", r"{", r"a}", r"(?>a+)b",
    r"a(?i)b|B", r"(?i:a(?-i:b))", r"(?:a(?i)b|c)d", r"^a", r"a$", r"^", r"$", r"\Aa", r"a\z", r"a\Z", r"\n\Z", r"\R", r"\bb", r"b\b", r"\Bb", r"\b", r"\B", r"a|", r"|a", r"(?:)", r"a*", r"b*?a", r"(?<=a)b+", r"(?<!\n)b",
    r"(?m:a.b)", r"a.b", r"\s+(?!\S)|\s+", r"\s+$", r"[ab]+?(?=\n)", r"(?:a|ab)(?:c|b)*", r"\w+", r"\W+", r"\S+", r"\D+", r"\N+",
]
PUBLISHED = {
    "gpt2": r"'s|'t|'re|'ve|'m|'ll|'d| ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+|\s+(?!\S)|\s+",
    "llama3": r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+",
    "qwen2": r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+",
    "o200k": r"[^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]*[\p{Ll}\p{Lm}\p{Lo}\p{M}]+(?i:'s|'t|'re|'ve|'m|'ll|'d)?|[^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]+[\p{Ll}\p{Lm}"
             r"\p{Lo}\p{M}]*(?i:'s|'t|'re|'ve|'m|'ll|'d)?|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n/]*|\s*[\r\n]+|\s+(?!\S)|\s+",
    "kimi": r"[\p{Han}]+|[^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}&&[^\p{Han}]]*[\p{Ll}\p{Lm}\p{Lo}\p{M}&&[^\p{Han}]]+(?i:'s|'t|'re|'ve|'m|'ll|'d)?|\p{N}{1,3}|"
            r" ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+",
    "deepseek3": r"[!\"#$%&'()*+,\-./:;<=>?@\[\\\]^_`{|}~][A-Za-z]+|[^\r\n\p{L}\p{P}\p{S}]?[\p{L}\p{M}]+| ?[\p{P}\p{S}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+",
    "deepseek_cjk": "[一-龥぀-ゟ゠-ヿ]+",
    "bloom": r" ?[^(\s|[.,!?…。，、।۔،])]+",
    "starcoder": r"(?:\r?\n)+", "falcon": r"[0-9][0-9][0-9]",
}
REFUSED = [r"\X", r"\K", r"\G", r"(a)\1", r"\k<n>", r"\g<1>", r"(?~a)", r"(?x:a)", r"(?W:\w)", r"(*FAIL)", r"\y", r"\Qa\E", r"\pL", r"(?i:ss)", r"(?i:ß)", r"(?i:\p{Lu})", r"(?i:\w)", r"[a-\d]",
           r"\p{InBasicLatin}", r"[a&&]", r"\cA", r"\xE3", r"[a[^\x{0}-\x{fff}]]", r"^*", r"(?<=a)+", "(", ")", "[", r"\p{Nope}", r"[[:nope:]]"]




def tokenizer_json(split, prefix_space):
    """Bytes as tokens behind one split."""
    alphabet, n = {}, 0
    for byte in range(256):
        shown = 33 <= byte <= 126 or 161 <= byte <= 172 or 174 <= byte
        alphabet[chr(byte) if shown else chr(256 + n)] = byte
        n += not shown
    byte_level = {"type": "ByteLevel", "add_prefix_space": prefix_space, "trim_offsets": False, "use_regex": False}
    return json.dumps({
        "version": "1.0", "truncation": None, "padding": None, "added_tokens": [], "normalizer": None, "post_processor": None, "decoder": byte_level,
        "pre_tokenizer": {"type": "Sequence", "pretokenizers": [split, byte_level]},
        "model": {"type": "BPE", "dropout": None, "unk_token": None, "continuing_subword_prefix": None, "end_of_word_suffix": None, "fuse_unk": False,
                  "byte_fallback": False, "ignore_merges": False, "vocab": alphabet, "merges": []}})


def is_alike(c):
    """Inside of a block whose characters have the same properties."""
    return 0x3401 <= c <= 0x4DBE or 0x4E01 <= c <= 0x9FFB or 0xAC01 <= c <= 0xD7A2 or 0x17001 <= c <= 0x187F6 or 0x20001 <= c <= 0x3134F


# Whose category or Alphabetic or Lowercase changed after Unicode 14.
CHANGED = [(0x363, 0x36F), (0xC04, 0xC04), (0xF82, 0xF83), (0x10FC, 0x10FC), (0x1DD3, 0x1DE6), (0xA7F2, 0xA7F4), (0xAB69, 0xAB69), (0x11080, 0x11081),
           (0x1171E, 0x1171E)]


def code_points():
    for c in range(0x110000):
        category = unicodedata.category(chr(c))
        known = category not in ("Cn", "Cs", "Co") or c % 65536 in (0xFFFE, 0xFFFF) or c in (0xE000, 0x10FFFD)
        known = known and not any(first <= c <= last for first, last in CHANGED)
        if known and (ROUNDS > 1 or c % 16 == 0 or not is_alike(c)):
            yield c


# Python's tables must not be newer than PCRE2's, or the two sides differ on what neither can help.
ALL = "".join(map(chr, code_points())) if unicodedata.unidata_version <= "14.0.0" else ""


@pytest.mark.parametrize("pattern", CLASSES)
def test_a_class_holds_the_same_characters(pattern, jsonl, tmp_path):
    if not ALL:
        pytest.skip(f"Python knows Unicode {unicodedata.unidata_version}, PCRE2 may not")
    kept = {}
    for invert in (False, True):
        split = pre_tokenizers.Split(Regex(pattern), "removed", invert=invert)
        kept[invert] = "".join(piece for piece, _ in split.pre_tokenize_str(ALL))
    assert sum(map(len, kept.values())) == len(ALL)
    invert = len(kept[True]) < len(kept[False])
    split = {"type": "Split", "pattern": {"Regex": pattern}, "behavior": "Removed", "invert": invert}
    (tmp_path / "tokenizer.json").write_text(tokenizer_json(split, False))
    ours = bytes(jsonl("tokenize", tmp_path, rows=[ALL])[0]).decode()
    differ = sorted(map(ord, set(ours) ^ set(kept[invert])))
    assert not differ, " ".join(f"{c:X}" for c in differ[:20])
    assert ours == kept[invert]


ALPHABETS = ["ab", "ab\n", "abBcd{}", "aA bB\r\n", "ab1 .'\n", "it's I'LL don'T we'Re \t\n", "aé1²٣ ǅʰ中あ한\u0301\u200d\u180e\xa0\u3000\n!?$😀"]


def compare_cuts(pattern, jsonl, folder, rng):
    split = {"type": "Split", "pattern": {"Regex": pattern}, "behavior": "Isolated", "invert": False}
    source = tokenizer_json(split, True)
    (folder / "tokenizer.json").write_text(source)
    package = Tokenizer.from_str(source)
    texts = ["".join(rng.choice(alphabet) for _ in range(rng.randrange(40))) for alphabet in ALPHABETS for _ in range(max(1, int(12 * ROUNDS)))]
    for text, ours in zip(texts, jsonl("tokenize", folder, rows=texts)):
        assert bytes(ours) == bytes(package.encode(text).ids), repr(text)


@pytest.mark.parametrize("pattern", SEQUENCES)
def test_a_construct_matches_the_same(pattern, jsonl, tmp_path, rng):
    compare_cuts(pattern, jsonl, tmp_path, rng)


@pytest.mark.parametrize("name", PUBLISHED)
def test_a_published_pattern_cuts_the_same(name, jsonl, tmp_path, rng):
    compare_cuts(PUBLISHED[name], jsonl, tmp_path, rng)


@pytest.mark.parametrize("pattern", REFUSED)
def test_what_has_no_exact_counterpart_is_refused(pattern, jsonl, tmp_path):
    split = {"type": "Split", "pattern": {"Regex": pattern}, "behavior": "Isolated", "invert": False}
    (tmp_path / "tokenizer.json").write_text(tokenizer_json(split, False))
    with pytest.raises(AssertionError, match="regular expression"):
        jsonl("tokenize", tmp_path, rows=["a"])
