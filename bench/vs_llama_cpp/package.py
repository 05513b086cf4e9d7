"""Both programs in one folder for a machine that has neither network nor compilers' libraries of our choice.

DIR gets the scripts, to be run there by Python's standard library, and package.tar.gz: radish, llama.cpp for each instruction set, the shared
objects both need except those every such machine has, Qwen3's tokenizer where it is at hand, and what was packed (manifest.json). Models
are not packed but made there, in seconds. Packing llama.cpp's source instead of its programs ("source") lets that machine build it for itself.
"""
import io, json, pathlib, re, shutil, subprocess, tarfile

import peer

SCRIPTS = ("compare.py", "models.py", "package.py", "peer.py", "programs.py", "report.py")
ARCHIVE, LIMIT_BYTES = "package.tar.gz", 55 << 20
# Objects of the C library, the loader and the compilers: a machine's own must be used, together.
NOT_PACKED = re.compile(r"(linux-vdso|ld-linux|libc\.|libm\.|libmvec|libdl\.|librt\.|libpthread|libresolv|libstdc\+\+|libgcc_s)")


def shared_objects(program):
    """Paths of the objects it is linked with and that are packed."""
    done = subprocess.run(["ldd", program], capture_output=True, text=True)
    if "not a dynamic executable" in done.stderr:
        return {}
    out = done.stdout
    if done.returncode or "not found" in out:
        raise SystemExit(f"{program} misses a shared object:\n{out}")
    found = re.findall(r"^\s*(\S+) => (/\S+)", out, re.M)
    return {name: path for name, path in found if not NOT_PACKED.match(name)}


def commit_of(root):
    done = subprocess.run(["git", "-C", root, "describe", "--always", "--dirty"], capture_output=True, text=True)
    return done.stdout.strip() or "unknown"


def write(folder, work, marches, radish, tokenizer, jobs):
    """Builds what is missing and packs it."""
    folder.mkdir(parents=True, exist_ok=True)
    here = pathlib.Path(__file__).resolve().parent
    for name in SCRIPTS:
        shutil.copy2(here / name, folder / name)
    built = [m for m in marches if m != "source"]
    objects = shared_objects(radish)
    manifest = {"commit": commit_of(here), "peers": built, "has_source": "source" in marches, "llama_cpp": peer.COMMIT}
    with tarfile.open(folder / ARCHIVE, "w:gz", compresslevel=6) as archive:
        stripped = work / "radish.stripped"
        shutil.copy2(radish, stripped)
        if shutil.which("strip"):
            subprocess.run(["strip", stripped], check=True)
        archive.add(stripped, "bin/radish")
        for march in built:
            programs = peer.build(work, march, jobs)
            for name in (*peer.PROGRAMS, "flags.txt"):
                archive.add(programs / name, f"peer/{march}/{name}")
            objects.update(shared_objects(programs / "llama-server"))
        for name, path in sorted(objects.items()):
            archive.add(pathlib.Path(path).resolve(), f"lib/{name}")
        if "source" in marches:
            archive.add(peer.fetch_source(work), "source")
        if tokenizer:
            archive.add(tokenizer, "tokenizer.json.xz" if str(tokenizer).endswith(".xz") else "tokenizer.json")
        raw = json.dumps(manifest).encode()
        member = tarfile.TarInfo("manifest.json")
        member.size = len(raw)
        archive.addfile(member, io.BytesIO(raw))
    size = sum(f.stat().st_size for f in folder.iterdir() if f.is_file())
    if size > LIMIT_BYTES:
        raise SystemExit(f"{folder} has {size >> 20} MiB, more than {LIMIT_BYTES >> 20}: pack fewer builds")
    print(f"{folder}: {size / (1 << 20):.1f} MiB, llama.cpp {', '.join(marches)}; there: python3 {folder.name}/compare.py --run {folder.name}")


def unpack(folder, work):
    """The manifest; everything packed lies in `work` then."""
    archive, manifest = folder / ARCHIVE, work / "manifest.json"
    if not manifest.exists() or manifest.stat().st_mtime < archive.stat().st_mtime:
        work.mkdir(parents=True, exist_ok=True)
        with tarfile.open(archive) as packed:
            packed.extractall(work)
        manifest.touch()
    return json.loads(manifest.read_text())
