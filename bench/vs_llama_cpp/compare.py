#!/usr/bin/env python3
"""radish beside llama.cpp on one machine, in turns (A B A B) within one run: medians, spread, ratios. Python's standard library only.

  compare.py [--radish build/release/radish]             fetch and build llama.cpp for this machine, make models, measure, print a table
  compare.py --prepare DIR --march x86-64-v4,source      pack both programs for a machine without network (names: see --march)
  compare.py --run DIR --budget 500                      there: unpack, make models, measure

Models have random weights and the shape of Qwen3-0.6B, in Q8_0, BF16, Q4_0 and Q4_K (models.py), besides SmolLM2-135M in Q4_1 (what
scripts/model fetched, else random weights of its shape). What is measured, by both programs with the same threads, file and KV type (f16):
  prefill 512, prefill 2048      one prompt, tokens/s                         radish bench one-batch; llama-bench -fa on
  decode at 0, decode at 2048    64 tokens of one sequence after so many      likewise
  share of the bandwidth         decode at 0 x bytes of the weights / bytes a second that the same threads read (radish bench kernels)
  1, 4, 16 streams               short prompts, 64 tokens each, tokens/s      the rest: radish serve and llama-server, under the load of
  cold fan-out                   16 requests, 600 tokens in common, 20 own    radish bench serving, seconds for all
  cold prompt                    600 tokens, time to the first of 16
  6 system prompts x 4           300 tokens in common, 20 own, 4 at a time
  6 chats x 4 turns              150 tokens, then 40 a turn, 3 at a time
A ratio above 1 says that radish is better. "wanted" is what radish is to reach on two cores with AVX-512.

With --budget the most important steps come first, every step once before any is repeated, and what finds no more time is left out and said.
"""
import argparse, fnmatch, os, pathlib, platform, re, shutil, subprocess, sys, time

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent))
import models, package, peer, programs, report  # noqa: E402

ROOT = pathlib.Path(__file__).resolve().parents[2]
STREAMS = ["--workload", "random", "--input-len", 16, "--output-len", 64]
# name -> (flags of radish bench serving, figure, unit, higher is better)
WORKLOADS = {
    "16 streams": ([*STREAMS, "--num-prompts", 16, "--max-concurrency", 16], "output_throughput", "tokens/s", True),
    "cold fan-out": (["--workload", "cold-fan-out", "--num-prompts", 16, "--prefix-len", 600, "--input-len", 20, "--output-len", 8,
                      "--max-concurrency", 8], "duration", "s", False),
    "1 stream": ([*STREAMS, "--num-prompts", 1, "--max-concurrency", 1], "output_throughput", "tokens/s", True),
    "4 streams": ([*STREAMS, "--num-prompts", 4, "--max-concurrency", 4], "output_throughput", "tokens/s", True),
    "cold prompt": (["--workload", "random", "--num-prompts", 1, "--input-len", 600, "--output-len", 16], "median_ttft_ms", "ms", False),
    "6 system prompts x 4": (["--workload", "shared-prefix", "--groups", 6, "--prompts-per-group", 4, "--prefix-len", 300, "--input-len", 20,
                              "--output-len", 8, "--max-concurrency", 4], "duration", "s", False),
    "6 chats x 4 turns": (["--workload", "multi-turn", "--groups", 6, "--prompts-per-group", 4, "--prefix-len", 150, "--input-len", 40,
                           "--output-len", 8, "--max-concurrency", 3], "duration", "s", False),
}
ALL_STREAMS = ["16 streams", "1 stream", "4 streams"]
SMOLLM2 = "SmolLM2-135M Q4_1"
# (what, model, workloads of serving), the most important first.
STEPS = [("engine", "Q8_0", None), ("serving", "Q8_0", list(WORKLOADS)), ("engine", "BF16", None), ("engine", "Q4_0", None), ("engine", "Q4_K", None),
         ("serving", "BF16", ALL_STREAMS), ("serving", "Q4_0", ALL_STREAMS), ("serving", "Q4_K", ALL_STREAMS), ("engine", SMOLLM2, None),
         ("serving", SMOLLM2, ALL_STREAMS)]
PAUSE_SHARE = 0.03  # of the budget, kept for ending servers and the report


def say(line):
    print(line, flush=True)


class Comparison:
    def __init__(self, args, radish, peers, work, tokenizer):
        self.args, self.radish, self.peers, self.work, self.tokenizer = args, radish, peers, work, tokenizer
        self.report = report.Report(radish.label, [p.label for p in peers])
        self.read_gbs, self.took, self.skipped = [], {}, []  # took: seconds of a step; skipped: steps, once for each round

    # ---- time ----

    def left(self):
        if not self.args.budget:
            return 3600.0
        return self.args.budget * (1 - PAUSE_SHARE) - (time.monotonic() - self.args.began)

    def has_time(self, step):
        """Whether the step fits, by how long it took before; one that is new needs some seconds at least."""
        return self.left() > self.took.get(step, 10)

    def limit(self):
        """Seconds for one program's part of a step: one that hangs must not use up a budget."""
        return max(self.left() / 2, 10) if self.args.budget else self.left()

    def skipped_text(self):
        never = list(dict.fromkeys(step for step in self.skipped if step not in self.took))
        again = sum(step in self.took for step in self.skipped)
        lines = ["no time for: " + "; ".join(map(", ".join, never))] if never else []
        return lines + ([f"{again} repetitions left out, no time"] if again else [])

    # ---- models ----

    def model(self, name):
        folder = self.work / "models"
        folder.mkdir(parents=True, exist_ok=True)
        if name == SMOLLM2:
            fetched = subprocess.run([ROOT / "scripts/model", "--path"], capture_output=True, text=True) if (ROOT / "scripts/model").exists() else None
            if fetched and fetched.returncode == 0:
                return fetched.stdout.strip()
        shape, kind = ("smollm2-135m", "Q4_1") if name == SMOLLM2 else (self.args.shape, name)
        path = folder / f"{shape}-{kind}.gguf"
        if not path.exists():
            say(f"making {path.name}")
            models.write_model(path, shape, kind, self.tokenizer)
        return path

    def label(self, name):
        return name if name == SMOLLM2 else f"{self.args.shape} {name}"

    # ---- steps ----

    def attempt(self, what, function, *args):
        try:
            return function(*args)
        except (programs.Failed, OSError, subprocess.SubprocessError, ValueError, KeyError, IndexError) as e:
            say(f"  {what}: {e}")
            self.report.notes.append(f"{what}: {e}")
            return None

    def add(self, workload, name, unit, values, higher=True):
        values = {label: value for label, value in values.items() if value}
        if values:
            say(self.report.line(self.report.add(workload, self.label(name), None if name == SMOLLM2 else name, unit, values, higher)))

    def engine(self, name):
        path, found = self.model(name), {}
        for program in (self.radish, *self.peers):
            found[program.label] = self.attempt(f"{program.label}, {name}", program.engine, path, self.limit()) or {}
        for workload in [*(f"prefill {n}" for n in programs.PROMPTS), "decode at 0", f"decode at {programs.DEPTH}"]:
            self.add(workload, name, "tokens/s", {label: figures.get(workload) for label, figures in found.items()})
        limits = self.attempt("read bandwidth", self.radish.limits)
        if limits and name != SMOLLM2:
            self.read_gbs.append(limits["read_gbs"])
            bound = limits["read_gbs"] * 1e9 / models.decode_bytes(self.args.shape, name)
            shares = {label: figures.get("decode at 0", 0) / bound for label, figures in found.items()}
            self.add("share of the bandwidth", name, report.SHARE, shares)

    def serving(self, name, workloads, round_index):
        path, servers = self.model(name), []
        try:
            for program in (self.radish, *self.peers):
                server = self.attempt(program.label, program.server, path)
                if server:
                    servers.append((program.label, server))
            servers = [(label, s) for label, s in servers if self.attempt(label, s.wait_ready)]
            for i, workload in enumerate(workloads):
                self.load(name, workload, servers, round_index * 100 + i + 1)
        finally:
            for _, server in servers:
                server.__exit__()

    def load(self, name, workload, servers, seed):
        flags, figure, unit, higher = WORKLOADS[workload]
        step = (workload, name)
        if not servers or not self.has_time(step):
            return self.skipped.append(step)
        began = time.monotonic()
        figures = self.attempt(f"{workload}, {name}", self.radish.load, servers, [*flags, "--allow-errors"], self.args.seed + seed,
                               self.limit()) or {}
        for label, row in figures.items():
            if row["failed"]:
                self.report.notes.append(f"{workload}, {name}, {label}: {row['failed']} requests failed: {row.get('first_failure')}")
        self.add(workload, name, unit, {label: row[figure] for label, row in figures.items() if not row["failed"]}, higher)
        self.took[step] = time.monotonic() - began
        return None

    def steps(self):
        wanted = self.args.types.split(",") if self.args.types else None
        for what, name, workloads in STEPS:
            short = name.split()[0] if name == SMOLLM2 else name
            if wanted and short not in wanted:
                continue
            if workloads:
                workloads = [w for w in workloads if any(fnmatch.fnmatch(w, p) for p in self.args.only.split(","))]
            elif not fnmatch.filter(["engine"], self.args.only) and "engine" not in self.args.only.split(","):
                continue
            if workloads or what == "engine":
                yield what, name, workloads

    def run(self):
        for round_index in range(self.args.rounds):
            for what, name, workloads in self.steps():
                step = (what, name)
                if not self.has_time(step):
                    self.skipped.append(step)
                    continue
                say(f"-- round {round_index + 1}: {what}, {name}, {time.monotonic() - self.args.began:.0f} s")
                began = time.monotonic()
                if what == "engine":
                    self.engine(name)
                else:
                    self.serving(name, workloads, round_index)
                self.took[step] = time.monotonic() - began


# ---- the machine ----

def first_match(pattern, path):
    try:
        found = re.search(pattern, pathlib.Path(path).read_text())
    except OSError:
        found = None
    return found.group(1) if found else ""


def output_of(*command):
    try:
        return subprocess.run([str(c) for c in command], capture_output=True, text=True, timeout=60).stdout.strip()
    except (OSError, subprocess.TimeoutExpired):
        return ""


def machine_text(radish, peers):
    wanted = ("Model name", "CPU(s)", "Thread(s) per core", "Core(s) per socket", "L1d", "L2", "L3", "Hypervisor vendor", "NUMA node(s)")
    lines = [line for line in output_of("lscpu").splitlines() if line.startswith(wanted)]
    isa = [f for f in first_match(r"flags\s*: (.*)", "/proc/cpuinfo").split() if re.match(r"avx|fma|f16c|amx|bmi2", f)]
    lines += ["instructions: " + " ".join(isa), "kernel: " + platform.release(), "memory: " + first_match(r"MemTotal:\s*(.*)", "/proc/meminfo")]
    lines += ["", radish.info(), ""]
    lines += [f"{p.label}: {p.describe()}" for p in peers]
    return "\n".join(lines)


def settings_text(args, radish, peers):
    return (f"{args.threads} threads on processors {','.join(map(str, sorted(radish.cpus)))}, KV f16, flash attention of the peer on, "
            f"servers with {programs.KV_TOKENS} tokens of KV ({programs.SLOTS} slots of the peer), the rest by default\n"
            f"radish {args.commit}; " + "; ".join(p.label for p in peers))


# ---- command line ----

def find_tokenizer():
    places = [os.environ.get("RADISH_CONFORMANCE"), ROOT / "../shared/conformance"]
    for place in filter(None, places):
        path = pathlib.Path(place) / "tokenizers/qwen3/tokenizer.json.xz"
        if path.exists():
            return path
    return None


def parse():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--radish", default=str(ROOT / "build/release/radish"), help="the program [build/release/radish]")
    parser.add_argument("--work", help="where llama.cpp is built and models are made [build/vs_llama_cpp; DIR/work with --run]")
    parser.add_argument("--march", help="llama.cpp's instruction sets, by commas: " + ", ".join(peer.MARCHES) + "; with --prepare also 'source', to "
                        "be built there [native; what was packed with --run]")
    parser.add_argument("--jobs", type=int, default=peer.default_jobs(), help="compilers at a time")
    parser.add_argument("--threads", type=int, default=2, help="of each program [2]")
    parser.add_argument("--cpus", help="processors the programs may use, like 0,1 [the first --threads, no two of one core]")
    parser.add_argument("--rounds", type=int, default=5, help="repetitions of everything [5]")
    parser.add_argument("--budget", type=float, help="end after so many seconds [when the rounds are done]")
    parser.add_argument("--types", help="models, by commas: Q8_0,BF16,Q4_0,Q4_K,SmolLM2-135M [all]")
    parser.add_argument("--only", default="*", help="'engine' and names of workloads, by commas; * is a wildcard [all]")
    parser.add_argument("--shape", choices=models.SHAPES, default="qwen3-0.6b", help="'tiny' is for trying this script")
    parser.add_argument("--seed", type=int, default=1, help="where texts come from [1]")
    parser.add_argument("--csv", help="write the rows there, and machine and table beside them (.txt)")
    parser.add_argument("--prepare", metavar="DIR", help="pack for another machine")
    parser.add_argument("--run", metavar="DIR", help="measure with what was packed")
    args = parser.parse_args()
    if args.prepare and args.run:
        parser.error("--prepare and --run are for different machines")
    for march in (args.march or "native").split(","):
        if march not in peer.MARCHES and not (march == "source" and args.prepare):
            parser.error(f"--march: '{march}' is not known")
    if args.threads < 1 or args.rounds < 1:
        parser.error("--threads and --rounds are 1 or more")
    args.began = time.monotonic()
    return args


def one_of_each_core(processors):
    """Those first that share their core with none before them."""
    siblings = {p: first_match(r"(\S+)", f"/sys/devices/system/cpu/cpu{p}/topology/thread_siblings_list") or str(p) for p in processors}
    first = [p for i, p in enumerate(processors) if siblings[p] not in [siblings[q] for q in processors[:i]]]
    return first + [p for p in processors if p not in first]


def choose_processors(args):
    allowed = sorted(programs.allowed_processors())
    chosen = [int(c) for c in args.cpus.split(",")] if args.cpus else one_of_each_core(allowed)[:args.threads]
    if not set(chosen) <= set(allowed):
        raise SystemExit(f"--cpus {args.cpus}: this process may use {allowed}")
    return set(chosen)


def set_up(args):
    """(radish's path, marches, folder of work, tokenizer) of a run."""
    if not args.run:
        work = pathlib.Path(args.work or ROOT / "build/vs_llama_cpp").resolve()
        work.mkdir(parents=True, exist_ok=True)
        args.commit = package.commit_of(ROOT)
        return args.radish, (args.march or "native").split(","), work, find_tokenizer()
    folder = pathlib.Path(args.run).resolve()
    work = pathlib.Path(args.work).resolve() if args.work else folder / "work"
    manifest = package.unpack(folder, work)
    args.commit = manifest["commit"]
    marches = args.march.split(",") if args.march else manifest["peers"] or ["native"]
    tokenizer = next(iter(work.glob("tokenizer.json*")), None)
    return work / "bin/radish", marches, work, tokenizer


def measure(args):
    program, marches, work, tokenizer = set_up(args)
    if not shutil.which(str(program)):
        raise SystemExit(f"{program} is not there: cmake --preset release && cmake --build --preset release, or --radish")
    cpus = choose_processors(args)
    libraries = work / "lib" if args.run else None
    radish = programs.Radish(pathlib.Path(program).resolve(), args.threads, cpus, libraries)
    peers = [programs.LlamaCpp(peer.build(work, march, args.jobs), march, args.threads, cpus, libraries) for march in marches]
    about, settings, load_before = machine_text(radish, peers), settings_text(args, radish, peers), os.getloadavg()[0]
    say(f"{about}\n{settings}\nload before: {load_before:.1f}\n")
    comparison = Comparison(args, radish, peers, work, tokenizer)
    limits = comparison.attempt("read bandwidth", radish.limits) or {}
    comparison.read_gbs += [limits["read_gbs"]] if limits else []
    say("limits: " + ", ".join(f"{k} {v}" for k, v in limits.items() if k != "bench"))
    try:
        comparison.run()
    except KeyboardInterrupt:
        say("stopped")
    reads, load_after = report.show_spread(comparison.read_gbs), os.getloadavg()[0]
    end = [f"read bandwidth in GB/s: {reads}; peaks in Gop/s: "
           + ", ".join(f"{k[:-10]} {v}" for k, v in limits.items() if k.endswith("_peak_gops")),
           f"load before {load_before:.1f}, after {load_after:.1f} (the programs measured make about {args.threads} of it)", "",
           comparison.report.table(), "", *dict.fromkeys(comparison.report.notes), *comparison.skipped_text()]
    say("\n" + "\n".join(end))
    if args.csv:
        machine = first_match(r"model name\s*: (.*)", "/proc/cpuinfo") or platform.processor() or platform.machine()
        comparison.report.write_csv(args.csv, [args.commit, machine, limits.get("isa", ""), args.threads, "+".join(map(str, sorted(cpus))),
                                               f"{load_before:.1f}", f"{load_after:.1f}"])
        pathlib.Path(args.csv).with_suffix(".txt").write_text("\n".join([about, settings, *end]) + "\n")
    return 0 if comparison.report.rows else 1


def main():
    args = parse()
    if args.prepare:
        work = pathlib.Path(args.work or ROOT / "build/vs_llama_cpp").resolve()
        work.mkdir(parents=True, exist_ok=True)
        package.write(pathlib.Path(args.prepare), work, (args.march or "x86-64-v4").split(","), args.radish, find_tokenizer(), args.jobs)
        return 0
    try:
        return measure(args)
    except programs.Failed as e:
        raise SystemExit(str(e)) from None


if __name__ == "__main__":
    sys.exit(main())
