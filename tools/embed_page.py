#!/usr/bin/env python3
"""Turns the files of the page into C arrays, plain and gzip-compressed: a step of the build.

  tools/embed_page.py OUT.c FOLDER [--marked FILE --purify FILE] [--licence FILE ...]

FOLDER holds index.html and what it loads. With both libraries the page renders Markdown: their files are served as they are, with the
licence in their first lines, and "<!-- markdown -->" in index.html becomes the tags that load them. The licence files together become
/page/licences.txt. The same input gives the same bytes.
"""
import argparse, gzip, hashlib, os

TYPES = {".html": "text/html", ".css": "text/css", ".js": "text/javascript", ".txt": "text/plain", ".svg": "image/svg+xml"}
TAGS = '<script src="/page/marked.js" defer></script>\n  <script src="/page/purify.js" defer></script>'


def read(path):
    with open(path, "rb") as f:
        return f.read()


def without_map(text):
    """Source maps are not served: browsers would ask for them in vain."""
    return b"\n".join(line for line in text.split(b"\n") if not line.startswith(b"//# sourceMappingURL="))


def collect(args):
    files = {}
    for name in sorted(os.listdir(args.folder)):
        if os.path.splitext(name)[1] in TYPES:
            files["/" if name == "index.html" else "/page/" + name] = read(os.path.join(args.folder, name))
    has_markdown = bool(args.marked and args.purify)
    files["/"] = files["/"].replace(b"<!-- markdown -->", TAGS.encode() if has_markdown else b"")
    licences = b"The page of radish holds code of others when it renders Markdown.\n"
    if has_markdown:
        files["/page/marked.js"] = without_map(read(args.marked))
        files["/page/purify.js"] = without_map(read(args.purify))
        for path in args.licence:
            licences += b"\n" + b"-" * 100 + b"\n" + read(path)
    else:
        licences = b"The page of this radish holds no code of others: it was built without Markdown.\n"
    files["/page/licences.txt"] = licences
    return files


def array(name, data):
    lines = [",".join(str(b) for b in data[i:i + 40]) for i in range(0, len(data), 40)]
    return f"static const unsigned char {name}[] = {{\n" + ",\n".join(lines) + "};\n"


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n\n")[0])
    parser.add_argument("out")
    parser.add_argument("folder")
    parser.add_argument("--marked")
    parser.add_argument("--purify")
    parser.add_argument("--licence", action="append", default=[])
    args = parser.parse_args()
    arrays, rows = [], []
    for i, (path, data) in enumerate(sorted(collect(args).items())):
        packed = gzip.compress(data, 9, mtime=0)
        digest = hashlib.sha256(data).hexdigest()[:20]
        kind = TYPES[os.path.splitext(path)[1] or ".html"]
        arrays += [array(f"data_{i}", data), array(f"gzip_{i}", packed)]
        rows.append(f'    {{"{path}", "{kind}; charset=utf-8", data_{i}, sizeof data_{i}, gzip_{i}, sizeof gzip_{i}, '
                    f'"\\"{digest}\\"", "\\"{digest}-gzip\\""}},\n')
    with open(args.out, "w", encoding="ascii") as out:
        out.write("/* Made by tools/embed_page.py. */\n#include \"page_files.h\"\n\n" + "".join(arrays))
        out.write("\nconst struct page_file page_files[] = {\n" + "".join(rows) + "};\n")
        out.write(f"const size_t n_page_files = {len(rows)};\n")


if __name__ == "__main__":
    main()
