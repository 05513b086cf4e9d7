"""llama.cpp to compare with: fetched, checked, built.

It comes as the source package of llama-cpp-python from PyPI, pinned by version and SHA-256, because that is a released, named state which
needs no git and no other host. Only llama-bench and llama-server are built, statically, by llama.cpp's own CMake files with its defaults
(OpenMP, llamafile's products, repacked weights), without TLS and web page. Builds differ in the instruction set alone, which only the CPU
backend is compiled for: they share one build folder, and a second one takes a minute.
"""
import hashlib, os, pathlib, shutil, subprocess, sys, tarfile

VERSION = "0.3.36"
SHA256 = "832db0699007f1be95a7e41ef12e88926b02ba836461e36a36372db2760c1a2e"
COMMIT = "0c1e57098bba"  # of llama.cpp, as the package's .git says
PROGRAMS = ("llama-bench", "llama-server")
OPTIONS = {"CMAKE_BUILD_TYPE": "Release", "BUILD_SHARED_LIBS": "OFF", "LLAMA_BUILD_TESTS": "OFF", "LLAMA_BUILD_EXAMPLES": "OFF",
           "LLAMA_BUILD_APP": "OFF", "LLAMA_BUILD_UI": "OFF", "LLAMA_USE_PREBUILT_UI": "OFF", "LLAMA_OPENSSL": "OFF",
           "LLAMA_BUILD_SERVER": "ON", "LLAMA_BUILD_TOOLS": "ON", "GGML_CCACHE": "OFF"}
V3 = ("SSE42", "AVX", "AVX2", "BMI2", "FMA", "F16C")
V4 = V3 + ("AVX512", "AVX512_VBMI", "AVX512_VNNI", "AVX512_BF16")
AMX = V4 + ("AMX_TILE", "AMX_INT8", "AMX_BF16")
# Instruction sets by the name of the build; "native" is this machine's.
MARCHES = {"native": ("NATIVE",), "x86-64-v3": V3, "x86-64-v4": V4, "x86-64-v4-amx": AMX}
# Parts of the source that a build does not read.
UNREAD = ("models/", "docs/", "tests/", "benches/", "examples/", "pocs/", "media/", "conversion/", "gguf-py/", "grammars/", ".", "ci/",
          "ggml/src/ggml-cuda", "ggml/src/ggml-vulkan", "ggml/src/ggml-metal", "ggml/src/ggml-sycl", "ggml/src/ggml-opencl",
          "ggml/src/ggml-hip", "ggml/src/ggml-musa", "ggml/src/ggml-cann", "ggml/src/ggml-webgpu", "ggml/src/ggml-hexagon",
          "ggml/src/ggml-openvino", "ggml/src/ggml-zdnn", "ggml/src/ggml-virtgpu", "ggml/src/ggml-et", "tools/ui/src", "tools/ui/static",
          "tools/ui/tests", "tools/mtmd/tests", "app/", "skills/")


def flags_of(march):
    return ["GGML_NATIVE=ON"] if march == "native" else ["GGML_NATIVE=OFF", *(f"GGML_{name}=ON" for name in MARCHES[march])]


def note_of(march):
    """What a build is, for people and to know it again."""
    return " ".join([f"llama-cpp-python {VERSION}, llama.cpp {COMMIT}:", *flags_of(march)])


def sum_of(path):
    digest = hashlib.sha256()
    with open(path, "rb") as f:
        while piece := f.read(1 << 20):
            digest.update(piece)
    return digest.hexdigest()


def run(command, log, **kwargs):
    """Runs it with its output in the file `log`; the end of that is shown when it fails."""
    with open(log, "ab") as out:
        done = subprocess.run([str(c) for c in command], stdout=out, stderr=subprocess.STDOUT, **kwargs)
    if done.returncode:
        tail = pathlib.Path(log).read_text(errors="replace")[-3000:]
        raise SystemExit(f"{tail}\n'{' '.join(map(str, command))}' failed; the whole output is in {log}")


def fetch_source(work):
    """The folder of llama.cpp's source, fetched with pip unless it is there."""
    source = work / "source"
    if (source / "CMakeLists.txt").exists():
        return source
    package = work / f"llama_cpp_python-{VERSION}.tar.gz"
    if not package.exists():
        print(f"fetching llama-cpp-python {VERSION} (77 MB, from PyPI)", file=sys.stderr, flush=True)
        run([sys.executable, "-m", "pip", "download", "--no-input", "--disable-pip-version-check", "--no-deps", "--no-cache-dir",
             "--no-binary", "llama-cpp-python", "--dest", work, f"llama-cpp-python=={VERSION}"], work / "fetch.log")
    if sum_of(package) != SHA256:
        raise SystemExit(f"{package} is not the file that was expected (SHA-256 {SHA256})")
    prefix = f"llama_cpp_python-{VERSION}/vendor/llama.cpp/"
    partial = work / "source.partial"
    shutil.rmtree(partial, ignore_errors=True)
    with tarfile.open(package) as archive:
        for member in archive:
            name = member.name[len(prefix):]
            if not member.name.startswith(prefix) or not member.isfile() or name.startswith(UNREAD):
                continue
            target = partial / name
            target.parent.mkdir(parents=True, exist_ok=True)
            with archive.extractfile(member) as data, open(target, "wb") as out:
                shutil.copyfileobj(data, out)
    partial.rename(source)
    return source


def cmake_arguments(march):
    wanted = dict(OPTIONS, LLAMA_BUILD_COMMIT=COMMIT[:9], LLAMA_BUILD_NUMBER=0)
    on = flags_of(march)
    for name in sorted(set(AMX)):  # those of the build before must go
        if f"GGML_{name}=ON" not in on:
            wanted[f"GGML_{name}"] = "OFF"
    if march == "native":  # ggml decides these itself then
        wanted = {k: v for k, v in wanted.items() if not k.startswith("GGML_") or k == "GGML_CCACHE"}
    return [f"-D{k}={v}" for k, v in wanted.items()] + [f"-D{flag}" for flag in on]


def build(work, march, jobs):
    """Folder with the two programs for the instruction set; built unless they are there."""
    out = work / "peer" / march
    note = out / "flags.txt"
    if note.exists() and note.read_text() == note_of(march) and all((out / p).exists() for p in PROGRAMS):
        return out
    source, folder, log = fetch_source(work), work / "peer-build", work / f"build-{march}.log"
    if not shutil.which("cmake"):
        raise SystemExit("cmake is missing; it is needed to build llama.cpp")
    print(f"building llama.cpp for {march}; this takes some minutes, see {log}", file=sys.stderr, flush=True)
    generator = ["-G", "Ninja"] if shutil.which("ninja") else []
    env = {**os.environ, "GIT_CEILING_DIRECTORIES": str(work)}  # or ggml takes the commit of the repository around it for its own
    run(["cmake", "-S", source, "-B", folder, *generator, *cmake_arguments(march)], log, env=env)
    run(["cmake", "--build", folder, "--target", *PROGRAMS, "-j", str(jobs)], log, env=env)
    out.mkdir(parents=True, exist_ok=True)
    for program in PROGRAMS:
        shutil.copy2(folder / "bin" / program, out / program)
        if shutil.which("strip"):
            subprocess.run(["strip", out / program], check=True)
    note.write_text(note_of(march))
    return out


def default_jobs():
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
