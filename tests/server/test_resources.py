"""What a server takes of the machine: no processor while it is idle, memory as planned, pages as asked for."""
import ctypes
import glob
import json
import os
import re
import shutil
import struct
import subprocess
import sys
import time

import pytest

from conftest import MODEL, find_program, is_sanitized, make_request, plan_bytes, read_until, rss_bytes

linux = pytest.mark.skipif(sys.platform != "linux", reason="reads /proc")
IDLE_SECONDS = float(os.environ.get("RADISH_IDLE_SECONDS", "2"))  # by hand: 10
SMALL = ["--max-total-tokens", "3000", "--threads", "2"]


def cpu_seconds(server):
    """Processor time of all threads that there are, in nanoseconds' precision where the system keeps it."""
    total = 0
    for path in glob.glob(f"/proc/{server.process.pid}/task/*/schedstat"):
        with open(path) as stat:
            total += int(stat.read().split()[0]) / 1e9
    if total:
        return total
    with open(f"/proc/{server.process.pid}/stat") as stat:
        fields = stat.read().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def idle_share(server):
    """Share of one CPU over IDLE_SECONDS in which nobody asks for anything."""
    before, begin = cpu_seconds(server), time.monotonic()
    time.sleep(IDLE_SECONDS)
    return (cpu_seconds(server) - before) / (time.monotonic() - begin)


@linux
def test_an_idle_server_uses_less_than_1_percent_of_a_cpu(start):
    server = start(*SMALL)
    kept = server.connect()  # a client that keeps its connection and says nothing more
    kept.sendall(make_request("GET", "/health", None, ()).replace(b"Connection: close\r\n", b""))
    read_until(kept, b"}")
    time.sleep(0.3)
    fresh = idle_share(server)
    bodies = [{"text": f"burst {i}", "sampling_params": {"max_new_tokens": 40, "ignore_eos": True}} for i in range(16)]
    for sock in [server.start_post("/generate", body) for body in bodies]:
        read_until(sock, b"meta_info")
        sock.close()
    server.wait(lambda health: health["requests_running"] == 0)
    time.sleep(0.3)
    after = idle_share(server)
    print(f"idle: {fresh:.3%} of a CPU, after a burst {after:.3%}")
    kept.sendall(make_request("GET", "/health", None, ()))
    assert b"200" in read_until(kept, b"}")
    kept.close()
    assert fresh < 0.01 and after < 0.01


# ---- memory

HIDDEN, INNER, LAYERS, HEADS, KV_HEADS = 1024, 4096, 4, 16, 4


@pytest.fixture(scope="module")
def large_model(tmp_path_factory):
    """The tiny model's tokenizer before 120 MB of weights, so that a file that stays resident shows."""
    folder = tmp_path_factory.mktemp("large")
    for name in ("tokenizer.json", "tokenizer_config.json", "chat_template.jinja", "generation_config.json"):
        shutil.copy(os.path.join(MODEL, name), folder)
    with open(os.path.join(MODEL, "config.json")) as config_file:
        config = json.load(config_file)
    config.update(hidden_size=HIDDEN, intermediate_size=INNER, num_hidden_layers=LAYERS, num_attention_heads=HEADS,
                  num_key_value_heads=KV_HEADS, head_dim=64, tie_word_embeddings=True)
    (folder / "config.json").write_text(json.dumps(config))
    shapes = {"model.embed_tokens": (config["vocab_size"], HIDDEN), "model.norm": (HIDDEN,)}
    for layer in range(LAYERS):
        for name, shape in {
            "self_attn.q_proj": (HEADS * 64, HIDDEN), "self_attn.k_proj": (KV_HEADS * 64, HIDDEN),
            "self_attn.v_proj": (KV_HEADS * 64, HIDDEN), "self_attn.o_proj": (HIDDEN, HEADS * 64),
            "mlp.gate_proj": (INNER, HIDDEN), "mlp.up_proj": (INNER, HIDDEN), "mlp.down_proj": (HIDDEN, INNER),
            "input_layernorm": (HIDDEN,), "post_attention_layernorm": (HIDDEN,),
        }.items():
            shapes[f"model.layers.{layer}.{name}"] = shape
    header, sizes = {}, []
    for name, shape in shapes.items():
        size = 2 * shape[0] * (shape[1] if len(shape) > 1 else 1)
        header[name + ".weight"] = {"dtype": "BF16", "shape": shape, "data_offsets": [sum(sizes), sum(sizes) + size]}
        sizes.append(size)
    text = json.dumps(header).encode()
    with open(folder / "model.safetensors", "wb") as weights:
        weights.write(struct.pack("<Q", len(text)) + text)
        for size in sizes:
            weights.write(b"\x12\x3c" * (size // 2))
    yield str(folder)
    shutil.rmtree(folder)


def status_bytes(server, key):
    with open(f"/proc/{server.process.pid}/status") as status:
        found = re.search(rf"{key}:\s+(\d+) kB", status.read())
    if not found:
        pytest.skip(f"this system does not tell {key}")
    return int(found.group(1)) * 1024


def memory_line(server):
    found = re.search(r"memory: (.*?)(?:; (\d+) of (\d+) MB resident are in huge pages so far)?\n", server.log())
    assert found, server.log()
    return found


def has_huge_pages():
    try:
        with open("/sys/kernel/mm/transparent_hugepage/enabled") as switch:
            return "[never]" not in switch.read()
    except OSError:
        return False


@linux
@pytest.mark.parametrize("mode", ["auto", "off"])
def test_after_loading_memory_is_the_plan_in_pages_as_asked_and_not_the_file_besides(start, large_model, mode):
    server = start(*SMALL, "--huge-pages", mode, model=large_model)
    file_bytes = os.path.getsize(os.path.join(large_model, "model.safetensors"))
    assert server.post("/generate", {"text": "x", "sampling_params": {"max_new_tokens": 2}}).status == 200
    # What is mapped of files is the program and its libraries.
    assert file_bytes > 100e6 and status_bytes(server, "RssFile") < file_bytes / 2
    if not is_sanitized():
        assert rss_bytes(server) < plan_bytes(server) + 40e6
    asked, huge, resident = memory_line(server).groups()
    print(f"{mode}: {asked}; {huge} of {resident} MB")
    if mode == "off":
        assert asked.startswith("no huge pages (--huge-pages off)")
        assert is_sanitized() or huge in (None, "0")
    elif has_huge_pages():
        assert asked.startswith("huge pages of") and (huge is None or int(huge) <= int(resident))


PR_SET_THP_DISABLE = 41


@linux
def test_where_huge_pages_are_off_they_are_not_insisted_on_unless_asked():
    prctl = ctypes.CDLL(None).prctl
    if prctl(PR_SET_THP_DISABLE, 0, 0, 0, 0) or not os.path.exists("/sys/kernel/mm/transparent_hugepage/enabled"):
        pytest.skip("this system has no switch for huge pages")

    def run(mode):
        command = [find_program(), "run", MODEL, "-p", "hi", "-n", "2", "--huge-pages", mode, "--log-level", "info"]
        return subprocess.run(command, capture_output=True, text=True, timeout=120,
                              preexec_fn=lambda: prctl(PR_SET_THP_DISABLE, 1, 0, 0, 0))

    refused, served = run("on"), run("auto")
    assert refused.returncode == 1 and "--huge-pages on: the system gives no transparent huge pages" in refused.stderr
    assert served.returncode == 0 and "no huge pages (system: never)" in served.stderr, served.stderr


@linux
def test_interleaving_on_one_node_warns_and_serves(start):
    nodes = glob.glob("/sys/devices/system/node/node[0-9]*")
    if len(nodes) > 1:
        pytest.skip("this machine has several NUMA nodes")
    server = start(*SMALL, "--numa", "interleave")
    assert "--numa interleave changes nothing" in server.log()
    assert server.health()["status"] == "ok"
