#!/usr/bin/env python3
"""What clients feel of cache and scheduler: `radish serve` over HTTP on this machine, measured from outside. Python's library only.

Usage: cache.py MODEL [--bin build/release/radish] [--only repeat,nosharing,stall,trunk] [--runs N] [--pairs N] [--ids LOW,HIGH] [--csv FILE]

Starts servers on free loopback ports and stops them. Prompts are random token ids, so nothing is shared unless it is meant to be.
  repeat     a prompt of 3,662 tokens, new and repeated: tokens computed, time to the first token
  nosharing  12 requests, 6 at a time, 200 tokens in, 24 out, none like another: two servers, cache on and off, take turns
  stall      four streams decode, a prompt of 4,000 tokens arrives: gaps between the tokens of a stream until its first token,
             with --max-stall-ms 250 and 0, and without that prompt
  trunk      32 requests at once with 1,000 new tokens in common and 8 of their own: tokens computed
Each figure is a median with the smallest and largest; PREDICTED was written before the first run. The clients run on the same
machine, beside the server's threads.
"""
import argparse, csv, datetime, http.client, json, os, pathlib, platform, random, re, statistics, subprocess, sys, threading, time

ROOT = pathlib.Path(__file__).resolve().parents[2]
WAIT_SECONDS = 300
PREDICTED = {
    "repeat: tokens computed": "1",
    "repeat: first token, new": "7,500",
    "repeat: first token, repeated": "25",
    "repeat: repeated / new": "0.35",
    "nosharing: time, on / off": "+0.1",
    "nosharing: processor time, on / off": "+0.1",
    "stall: longest gap, no prompt": "30",
    "stall: longest gap, bound 250": "210",
    "stall: longest gap, bound 0": "1,000",
    "trunk: tokens computed": "1,256",
}
TICKS = os.sysconf("SC_CLK_TCK")


class Server:
    def __init__(self, program, model, *flags):
        self.process = subprocess.Popen(
            [program, "serve", model, "--port", "0", "--log-level", "info", *flags],
            stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True, errors="replace",
        )
        lines = []
        for line in self.process.stderr:
            lines.append(line)
            found = re.search(r"listening on http://\S+:(\d+)", line)
            if found:
                self.port = int(found.group(1))
                break
        else:
            raise SystemExit("the server did not start:\n" + "".join(lines))
        self.drain = threading.Thread(target=self.process.stderr.read, daemon=True)
        self.drain.start()

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.process.terminate()
        try:
            self.process.wait(timeout=60)
        except subprocess.TimeoutExpired:
            self.process.kill()
            self.process.wait()

    def cpu_seconds(self):
        """Linux only; 0 elsewhere."""
        try:
            fields = pathlib.Path(f"/proc/{self.process.pid}/stat").read_text().rsplit(")", 1)[1].split()
        except OSError:
            return 0.0
        return (int(fields[11]) + int(fields[12])) / TICKS


class Answer:
    """One streamed completion: when it was asked for, when each token came, and its usage."""

    def __init__(self, server, prompt, n_new):
        self.body = json.dumps({
            "model": "m", "prompt": prompt, "max_tokens": n_new, "temperature": 0, "ignore_eos": True, "stream": True,
            "stream_options": {"include_usage": True}, "logprobs": 0,  # so that tokens without text are events, too
        })
        self.server, self.times, self.usage, self.error = server, [], None, None
        self.is_stopped = False
        self.got = threading.Condition()
        self.thread = threading.Thread(target=self._run, daemon=True)

    def start(self):
        self.thread.start()
        return self

    def _run(self):
        try:
            self._read()
        except (OSError, ValueError, http.client.HTTPException) as e:
            self.error = repr(e)
        with self.got:
            self.got.notify_all()

    def _read(self):
        connection = http.client.HTTPConnection("127.0.0.1", self.server.port, timeout=WAIT_SECONDS)
        self.sent = time.perf_counter()
        connection.request("POST", "/v1/completions", self.body, {"Content-Type": "application/json"})
        reply = connection.getresponse()
        if reply.status != 200:
            raise ValueError(reply.read().decode(errors="replace"))
        while not self.is_stopped and (line := reply.readline()):
            now = time.perf_counter()
            if not line.startswith(b"data: {"):
                continue
            event = json.loads(line[6:])
            if event.get("usage"):
                self.usage = event["usage"]
            elif event["choices"]:
                with self.got:
                    self.times.append(now)
                    self.got.notify_all()
        connection.close()

    def wait_tokens(self, n):
        with self.got:
            while len(self.times) < n and self.thread.is_alive() and not self.error:
                self.got.wait(1)
        if self.error or len(self.times) < n:
            raise SystemExit(f"a request failed: {self.error or 'it ended too soon'}")

    def wait(self):
        self.thread.join(WAIT_SECONDS)
        if self.error or not self.usage:
            raise SystemExit(f"a request failed: {self.error or 'no usage'}")
        return self

    def stop(self):
        self.is_stopped = True
        self.thread.join(WAIT_SECONDS)

    def first_ms(self):
        return (self.times[0] - self.sent) * 1e3

    def n_computed(self):
        return self.usage["prompt_tokens"] - self.usage["prompt_tokens_details"]["cached_tokens"]


class Bench:
    def __init__(self, args):
        self.args, self.rows, self.random = args, [], random.Random(args.seed)

    def serve(self, *flags):
        return Server(self.args.bin, self.args.model, *flags)

    def tokens(self, n):
        return [self.random.randrange(*self.args.ids) for _ in range(n)]

    def add(self, what, unit, values, target=""):
        row = [what, unit, statistics.median(values), min(values), max(values), len(values), PREDICTED.get(what, ""), target]
        self.rows.append(row)
        print(f"{what:38} {row[2]:10.2f} {unit:7} ({row[3]:.2f} .. {row[4]:.2f}, {row[5]} runs)"
              f"{'  predicted ' + row[6] if row[6] else ''}{'  wanted ' + target if target else ''}", flush=True)

    def repeat(self):
        new, repeated, computed, ratios = [], [], [], []
        with self.serve() as server:
            Answer(server, self.tokens(100), 4).start().wait()
            for _ in range(self.args.runs):
                prompt = self.tokens(3662)
                new.append(Answer(server, prompt, 1).start().wait().first_ms())
                again = [Answer(server, prompt, 1).start().wait() for _ in range(5)]
                repeated += [answer.first_ms() for answer in again]
                computed += [answer.n_computed() for answer in again]
                ratios.append(100 * statistics.median(answer.first_ms() for answer in again) / new[-1])
        self.add("repeat: tokens computed", "tokens", computed, "1")
        self.add("repeat: first token, new", "ms", new)
        self.add("repeat: first token, repeated", "ms", repeated)
        self.add("repeat: repeated / new", "%", ratios, "< 2")

    def load(self, server):
        """Seconds, and the server's processor seconds, of 12 requests, 6 at a time."""
        prompts = [self.tokens(200) for _ in range(12)]
        began, cpu = time.perf_counter(), server.cpu_seconds()
        lock = threading.Lock()

        def work():
            while True:
                with lock:
                    if not prompts:
                        return
                    prompt = prompts.pop()
                answer = Answer(server, prompt, 24).start().wait()
                if answer.n_computed() < 190:
                    raise SystemExit("prompts were to share nothing")

        workers = [threading.Thread(target=work) for _ in range(6)]
        for worker in workers:
            worker.start()
        for worker in workers:
            worker.join()
        return time.perf_counter() - began, server.cpu_seconds() - cpu

    def nosharing(self):
        on, off = [], []
        with self.serve() as with_cache, self.serve("--disable-radix-cache") as without:
            for server in (with_cache, without):
                self.load(server)
            for i in range(self.args.pairs):
                order = [(with_cache, on), (without, off)]
                for server, results in order if i % 2 else reversed(order):
                    results.append(self.load(server))
        n_tokens = 12 * (200 + 24)
        self.add("nosharing: tokens/s, cache on", "1/s", [n_tokens / s for s, _ in on])
        self.add("nosharing: tokens/s, cache off", "1/s", [n_tokens / s for s, _ in off])
        self.add("nosharing: time, on / off", "% more", [100 * (a / b - 1) for (a, _), (b, _) in zip(on, off)], "< 1")
        if all(cpu for _, cpu in off):
            self.add("nosharing: processor time, on / off", "% more",
                     [100 * (a / b - 1) for (_, a), (_, b) in zip(on, off)], "< 1")

    def gaps(self, server, with_prompt):
        """Gaps in ms of four streams while the prompt is computed, and its time to the first token."""
        streams = [Answer(server, self.tokens(30), 3000).start() for _ in range(4)]
        for stream in streams:
            stream.wait_tokens(20)
        began = time.perf_counter()
        first_ms = None
        if with_prompt:
            first_ms = Answer(server, self.tokens(4000), 1).start().wait().first_ms()
        else:
            time.sleep(5)
        for stream in streams:  # the gap that the end falls into counts whole
            stream.wait_tokens(len(stream.times) + 2)
        ended = time.perf_counter()
        found = []
        for stream in streams:
            times = [t for t in stream.times if t <= ended]
            found += [(b - a) * 1e3 for a, b in zip(times, times[1:]) if b >= began]
            stream.stop()
        return found, first_ms

    def stall(self):
        for name, bound in (("no prompt", "250"), ("bound 250", "250"), ("bound 0", "0")):
            longest, p99, first = [], [], []
            for _ in range(self.args.runs):
                # A server of its own each time: nothing is measured yet when the streams begin.
                with self.serve("--max-stall-ms", bound) as server:
                    found, first_ms = self.gaps(server, name != "no prompt")
                longest.append(max(found))
                p99.append(statistics.quantiles(found, n=100)[98])
                first.append(first_ms)
            self.add(f"stall: longest gap, {name}", "ms", longest, "<= 250" if name == "bound 250" else "")
            self.add(f"stall: p99 gap, {name}", "ms", p99)
            if first[0] is not None:
                self.add(f"stall: the prompt's first token, {name}", "ms", first)

    def trunk(self):
        computed, last, alone = [], [], []
        for _ in range(self.args.runs):
            with self.serve() as server:
                trunk = self.tokens(1000)
                alone.append(Answer(server, self.tokens(1008), 8).start().wait().first_ms())
                answers = [Answer(server, trunk + self.tokens(8), 8) for _ in range(32)]
                for answer in answers:
                    answer.start()
                for answer in answers:
                    answer.wait()
                computed.append(sum(answer.n_computed() for answer in answers))
                last.append((max(a.times[0] for a in answers) - min(a.sent for a in answers)) * 1e3)
        self.add("trunk: tokens computed", "tokens", computed, "1,256")
        self.add("trunk: last first token of 32", "ms", last)
        self.add("trunk: first token of one alone", "ms", alone)

    def write(self, path, load):
        commit = subprocess.run(["git", "-C", ROOT, "rev-parse", "--short", "HEAD"], capture_output=True, text=True).stdout.strip()
        with open(path, "w", newline="") as f:
            out = csv.writer(f, lineterminator="\n")
            out.writerow("date commit machine cores load model what unit median min max runs predicted wanted".split())
            for row in self.rows:
                out.writerow([datetime.date.today(), commit, cpu_name(), os.cpu_count(), f"{load:.1f}", pathlib.Path(self.args.model).name,
                              row[0], row[1], *(f"{v:.3f}" for v in row[2:5]), *row[5:]])


def cpu_name():
    try:
        return re.search(r"model name\s*: (.*)", pathlib.Path("/proc/cpuinfo").read_text()).group(1)
    except (OSError, AttributeError):
        return platform.processor() or platform.machine()


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("model")
    parser.add_argument("--bin", default=str(ROOT / "build/release/radish"))
    parser.add_argument("--only", default="repeat,nosharing,stall,trunk")
    parser.add_argument("--runs", type=int, default=3)
    parser.add_argument("--pairs", type=int, default=7)
    parser.add_argument("--ids", type=lambda text: tuple(int(i) for i in text.split(",")), default=(1000, 40000))
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--csv")
    args = parser.parse_args()
    bench, load = Bench(args), os.getloadavg()[0]
    print(f"load before: {load:.1f} on {os.cpu_count()} cores")
    for name in args.only.split(","):
        if name not in ("repeat", "nosharing", "stall", "trunk"):
            sys.exit(f"cache.py: there is no '{name}'")
        getattr(bench, name)()
    if args.csv:
        bench.write(args.csv, load)


if __name__ == "__main__":
    main()
