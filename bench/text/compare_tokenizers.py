#!/usr/bin/env python3
"""radish beside the tokenizers package: MB/s of encoding, one thread each, the same texts, in one run.

Usage: compare_tokenizers.py [--bench build/release/bench/bench_tokenize] [--conformance ../shared/conformance] [--runs N] [--bytes N]
                             [--csv FILE] [NAME...]
NAME: folders of conformance/tokenizers (all of them by default). The texts are made from Python's own documentation and library and from
the word lists below, so they are the same wherever that Python is. Best of N runs on both sides (both have warm caches then), in
seconds of processor time, which other programs disturb less. A row whose
ids differ is marked and fails the run.
"""
import argparse, csv, lzma, os, pathlib, pydoc_data.topics, random, string, subprocess, sys, tempfile, time

os.environ["TOKENIZERS_PARALLELISM"] = "false"
os.environ["RAYON_NUM_THREADS"] = "1"
import tokenizers

ROOT = pathlib.Path(__file__).resolve().parents[2]

SENTENCES = [
    "Der Wagen hielt vor dem alten Haus, und niemand wusste, warum die Straße plötzlich leer war.",
    "L'été dernier, nous avons traversé la forêt à pied jusqu'à l'étang où les oiseaux se reposent.",
    "Mañana por la mañana iremos al mercado para comprar pan, queso y unas naranjas que están más dulces.",
    "Сегодня вечером мы пойдём в театр, потому что новая пьеса понравилась всем нашим друзьям.",
    "Το πρωί η θάλασσα ήταν ήρεμη και τα καράβια έφυγαν ένα ένα από το μικρό λιμάνι.",
    "ذهبنا في الصباح الباكر إلى السوق القديم واشترينا الخبز والزيتون والتمر من الباعة.",
    "בבוקר יצאנו לדרך ארוכה אל ההרים, ובערב חזרנו הביתה עייפים ושמחים מאוד.",
    "आज सुबह हम नदी के किनारे टहलने गए और वहाँ बहुत सारे पक्षी देखे।",
    "เมื่อเช้านี้เราเดินไปตลาดเพื่อซื้อผลไม้และดอกไม้สำหรับงานเลี้ยงตอนเย็น",
    "오늘 아침에 우리는 강가를 따라 걸으면서 새들이 날아가는 모습을 바라보았다.",
    "今日は朝から雨が降っていたので、図書館で新しい小説を読みながら一日を過ごした。",
    "今天早上我们沿着河边散步，看到许多鸟儿飞过水面，孩子们在树下唱歌。",
    "Bugün öğleden sonra çocuklar bahçede oynarken büyükannem şeftali reçeli pişiriyordu.",
    "Sáng nay chúng tôi đi dọc bờ sông và ngắm những chiếc thuyền nhỏ trôi về phía biển.",
    "Dziś rano poszliśmy na targ, żeby kupić świeże jabłka, chleb i trochę żółtego sera.",
]


def cut(text, n_bytes):
    return text.encode()[:n_bytes].decode(errors="ignore")


def prose(n_bytes):
    parts, size = [], 0
    topics = list(pydoc_data.topics.topics.values())
    while size < n_bytes:
        for text in topics:
            parts.append(text)
            size += len(text.encode())
    return cut("\n\n".join(parts), n_bytes)


def code(n_bytes):
    folder = pathlib.Path(os.__file__).parent
    parts, size = [], 0
    for path in sorted(folder.glob("*.py")) + sorted(folder.glob("*/*.py")):
        if size >= n_bytes:
            break
        text = path.read_text(errors="ignore")
        parts.append(text)
        size += len(text.encode())
    return cut("".join(parts), n_bytes)


def multilingual(n_bytes):
    """Sentences with their words (or, where there are no spaces, their characters) in another order each time."""
    rng, parts, size = random.Random(1), [], 0
    while size < n_bytes:
        sentence = rng.choice(SENTENCES)
        words = sentence.split(" ")
        if len(words) < 3:
            chars = list(sentence)
            at = rng.randrange(len(chars))
            sentence = "".join(chars[at:] + chars[:at])
        else:
            rng.shuffle(words)
            sentence = " ".join(words)
        parts.append(sentence)
        size += len(sentence.encode()) + 1
    return cut("\n".join(parts), n_bytes)


def digits(n_bytes):
    rng = random.Random(2)
    return "".join(rng.choice(string.digits) for _ in range(n_bytes))


def no_space(n_bytes):
    rng = random.Random(3)
    return "".join(rng.choice(string.ascii_letters + string.digits + "+/") for _ in range(n_bytes))


# name: (text, bytes per call or 0 for one call)
TEXTS = {"prose": (prose, 0), "prose in calls of 512 bytes": (prose, 512), "code": (code, 0), "multilingual": (multilingual, 0),
         "digits": (digits, 0), "random letters, no space": (no_space, 0), "spaces": (lambda n: " " * n, 0),
         "one letter, no space": (lambda n: "a" * n, 0)}


def chunks(data, size):
    """As bench_tokenize cuts: in front of a character."""
    at = 0
    while at < len(data):
        end = at + size if size and len(data) - at > size else len(data)
        while end < len(data) and data[end] & 0xC0 == 0x80:
            end += 1
        yield data[at:end].decode()
        at = end


def hash_ids(ids):
    h = 0xCBF29CE484222325
    for i in ids:
        h = (h ^ i) * 0x100000001B3 & 0xFFFFFFFFFFFFFFFF
    return f"{h:016x}"


def time_package(tokenizer, data, size, runs):
    texts = list(chunks(data, size))
    best = float("inf")
    for _ in range(runs):
        start = time.process_time()
        encodings = [tokenizer.encode(text, add_special_tokens=False) for text in texts]
        best = min(best, time.process_time() - start)
    return best, [i for e in encodings for i in e.ids]


def time_radish(bench, tokenizer_json, path, size, runs):
    line = subprocess.run([bench, tokenizer_json, str(runs), str(size), path], capture_output=True, text=True, check=True).stdout
    _, _, n_tokens, seconds, ids_hash = line.strip().rsplit(",", 4)
    return float(seconds), int(n_tokens), ids_hash


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--bench", default=str(ROOT / "build/release/bench/bench_tokenize"))
    parser.add_argument("--conformance", default=os.environ.get("RADISH_CONFORMANCE", str(ROOT / "../shared/conformance")))
    parser.add_argument("--runs", type=int, default=3)
    parser.add_argument("--bytes", type=int, default=1 << 20)
    parser.add_argument("--csv")
    parser.add_argument("names", nargs="*", metavar="NAME")
    args = parser.parse_args()
    folder = pathlib.Path(args.conformance) / "tokenizers"
    names = args.names or sorted(p.name for p in folder.iterdir() if p.is_dir())
    rows, n_bad = [], 0
    print(f"tokenizers {tokenizers.__version__}, best of {args.runs}, texts of {args.bytes} bytes")
    print(f"{'tokenizer':14}{'text':30}{'radish MB/s':>12}{'package MB/s':>13}{'ratio':>8}")
    with tempfile.TemporaryDirectory() as temp:
        temp = pathlib.Path(temp)
        for text, (make, _) in TEXTS.items():
            (temp / text).write_bytes(make(args.bytes).encode())
        for name in names:
            source = folder / name / "tokenizer.json.xz"
            json_path = temp / f"{name}.json"
            json_path.write_bytes(lzma.open(source).read() if source.exists() else source.with_suffix("").read_bytes())
            tokenizer = tokenizers.Tokenizer.from_file(str(json_path))
            for text, (_, size) in TEXTS.items():
                data = (temp / text).read_bytes()
                ours, n_tokens, ids_hash = time_radish(args.bench, json_path, temp / text, size, args.runs)
                theirs, ids = time_package(tokenizer, data, size, args.runs)
                same = ids_hash == hash_ids(ids)
                n_bad += not same
                mb = len(data) / 1e6
                rows.append([name, text, len(data), n_tokens, f"{mb / ours:.2f}", f"{mb / theirs:.2f}", f"{theirs / ours:.2f}"])
                print(f"{name:14}{text:30}{mb / ours:12.1f}{mb / theirs:13.2f}{theirs / ours:8.1f}{'' if same else '  IDS DIFFER'}", flush=True)
    if args.csv:
        with open(args.csv, "w", newline="") as f:
            writer = csv.writer(f)
            writer.writerow(["tokenizer", "text", "bytes", "tokens", "radish_mb_per_s", "tokenizers_mb_per_s", "ratio"])
            writer.writerows(rows)
    return 1 if n_bad else 0


if __name__ == "__main__":
    sys.exit(main())
