"""The two programs as the comparison runs them: one measurement without a server, and a server that load can be sent to.

Both get the same threads, processors, file, KV type (f16) and KV capacity. llama.cpp gets flash attention, and for the rest its defaults.
A program that fails or takes too long costs its own figure, not the run: it is reported, and the figure is missing.
"""
import http.client, json, os, pathlib, re, signal, socket, subprocess, threading, time

PROMPTS, DEPTH, N_DECODED = (512, 2048), 2048, 64
SLOTS, KV_TOKENS = 16, 32768
START_SECONDS = 180


class Failed(Exception):
    """A program's own failure, in a line."""


def allowed_processors():
    return os.sched_getaffinity(0) if hasattr(os, "sched_getaffinity") else set(range(os.cpu_count() or 1))


def set_processors(cpus):
    if cpus and hasattr(os, "sched_setaffinity"):
        os.sched_setaffinity(0, cpus)


def last_line(text):
    lines = [line for line in text.splitlines() if line.strip()]
    return lines[-1][:300] if lines else "no output"


def environment(libraries):
    """Of the programs alone: what else runs here keeps the machine's own objects. libraries: a folder, or None."""
    if not libraries:
        return None
    return {**os.environ, "LD_LIBRARY_PATH": os.pathsep.join(filter(None, [str(libraries), os.environ.get("LD_LIBRARY_PATH")]))}


def capture(command, cpus, timeout, env=None):
    """What it printed; its processes are ended after `timeout` seconds."""
    process = subprocess.Popen([str(c) for c in command], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, errors="replace",
                               start_new_session=True, preexec_fn=lambda: set_processors(cpus), env=env)
    try:
        out, err = process.communicate(timeout=max(timeout, 1))
    except subprocess.TimeoutExpired:
        os.killpg(process.pid, signal.SIGKILL)
        process.communicate()
        raise Failed(f"{pathlib.Path(command[0]).name} took more than {timeout:.0f} s") from None
    if process.returncode:
        raise Failed(f"{pathlib.Path(command[0]).name} failed: {last_line(err or out)}")
    return out


def json_lines(text):
    return [json.loads(line) for line in text.splitlines() if line.startswith("{")]


def free_port():
    with socket.socket() as s:
        s.bind(("127.0.0.1", 0))
        return s.getsockname()[1]


class Server:
    """A server that listens on a loopback port; ended by leaving the block."""

    def __init__(self, command, cpus, env, port=None):
        self.lines, self.port = [], port
        self.name = pathlib.Path(command[0]).name
        self.process = subprocess.Popen([str(c) for c in command], stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True,
                                        errors="replace", start_new_session=True, preexec_fn=lambda: set_processors(cpus), env=env)
        self.reader = threading.Thread(target=self._read, daemon=True)
        self.reader.start()

    def _read(self):
        for line in self.process.stderr:
            if len(self.lines) < 2000:
                self.lines.append(line.rstrip())

    def wait_ready(self):
        began = time.monotonic()
        while not self._is_ready():
            if self.process.poll() is not None:
                self.reader.join(5)
                raise Failed(f"{self.name} did not start: {last_line(chr(10).join(self.lines))}")
            if time.monotonic() - began > START_SECONDS:
                raise Failed(f"{self.name} was not ready after {START_SECONDS} s")
            time.sleep(0.1)
        return self

    def _is_ready(self):
        if self.port is None:
            found = re.search(r"listening on http://\S+:(\d+)", "\n".join(self.lines))
            if not found:
                return False
            self.port = int(found.group(1))
        try:
            connection = http.client.HTTPConnection("127.0.0.1", self.port, timeout=5)
            connection.request("GET", "/health")
            return connection.getresponse().status == 200
        except OSError:
            return False

    def url(self):
        return f"http://127.0.0.1:{self.port}"

    def __enter__(self):
        return self

    def __exit__(self, *_):
        if self.process.poll() is None:
            self.process.terminate()
            try:
                self.process.wait(timeout=20)
            except subprocess.TimeoutExpired:
                os.killpg(self.process.pid, signal.SIGKILL)
                self.process.wait()


class Radish:
    label = "radish"

    def __init__(self, program, threads, cpus, libraries=None):
        self.program, self.threads, self.cpus, self.env = program, threads, cpus, environment(libraries)

    def info(self):
        return capture([self.program, "info"], self.cpus, 60, self.env)

    def engine(self, model, timeout):
        """Tokens per second: {"prefill 512": ...}."""
        lengths = [*PROMPTS[:1], 1, *PROMPTS[1:]]
        rows = json_lines(capture([
            self.program, "bench", "one-batch", model, "--batch-size", 1, "--input-len", ",".join(map(str, lengths)), "--output-len",
            N_DECODED + 1, "--threads", self.threads, "--kv-cache-dtype", "f16", "--json"], self.cpus, timeout, self.env))
        found = {}
        for row in rows:
            n, decode_s = row["input_len"], row["total_latency"] - row["prefill_latency"]
            if n in PROMPTS:
                found[f"prefill {n}"] = row["prefill_throughput"]
            if n in (1, DEPTH):
                found[f"decode at {0 if n == 1 else n}"] = (row["output_len"] - 1) / decode_s
        return found

    def server(self, model):
        return Server([self.program, "serve", model, "--port", 0, "--threads", self.threads, "--kv-cache-dtype", "f16",
                       "--max-total-tokens", KV_TOKENS, "--log-level", "info"], self.cpus, self.env)

    def limits(self, timeout=120):
        """read_gbs and peaks, as the first line of radish bench kernels has them."""
        rows = json_lines(capture([self.program, "bench", "kernels", "--op", "silu_mul", "--threads", self.threads, "--json"], self.cpus,
                                  timeout, self.env))
        return rows[0]

    def load(self, servers, flags, seed, timeout):
        """Sends one round of the same texts to each of the servers in turn: {label: figures}. timeout: for each of them."""
        command = [self.program, "bench", "serving", "--json", "--seed", seed, "--rounds", 1, "--timeout", max(int(timeout), 1), *flags]
        for label, server in servers:
            command += ["--url", server.url(), "--label", label]
        others = allowed_processors() - set(self.cpus)
        rows = json_lines(capture(command, others or self.cpus, timeout * len(servers) + 10, self.env))
        return {row["backend"]: row for row in rows if "workload" in row and "backend" in row}


class LlamaCpp:
    def __init__(self, folder, march, threads, cpus, libraries=None):
        self.folder, self.label, self.threads, self.cpus = pathlib.Path(folder), f"llama.cpp {march}", threads, cpus
        self.env = environment(libraries)

    def engine(self, model, timeout):
        common = [self.folder / "llama-bench", "-m", model, "-t", self.threads, "-fa", "on", "-ctk", "f16", "-ctv", "f16", "-r", 1, "-o", "json"]
        began, found = time.monotonic(), {}
        for flags in (["-p", ",".join(map(str, PROMPTS)), "-n", N_DECODED], ["-p", 0, "-n", N_DECODED, "-d", DEPTH]):
            for row in json.loads(capture([*common, *flags], self.cpus, timeout - (time.monotonic() - began), self.env)):
                name = f"prefill {row['n_prompt']}" if row["n_prompt"] else f"decode at {row['n_depth']}"
                found[name] = row["avg_ts"]
        return found

    def server(self, model):
        port = free_port()
        return Server([self.folder / "llama-server", "-m", model, "--host", "127.0.0.1", "--port", port, "-t", self.threads, "-tb", self.threads,
                       "-np", SLOTS, "-c", KV_TOKENS, "-fa", "on", "-ctk", "f16", "-ctv", "f16", "--no-ui"], self.cpus, self.env, port)

    def describe(self):
        note = self.folder / "flags.txt"
        return note.read_text() if note.exists() else "flags not known"
