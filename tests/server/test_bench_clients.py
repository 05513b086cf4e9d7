"""Load generators made for other servers, unchanged: the bodies they send, and the programs.

The bodies are those that SGLang's bench_serving 0.5.23, vLLM's `bench serve` 0.33.0, GuideLLM 0.8.1 and
AIPerf 0.13.0 send, written down; they must be served without a warning, since a field that is ignored
would make a benchmark measure something else. The programs themselves run where RADISH_BENCH_PYTHON names
a Python that has them, and are skipped elsewhere. Of SGLang and vLLM their wheels are enough (pip download --no-deps,
unpacked into PYTHONPATH) with transformers, aiohttp, orjson, msgspec, pillow, pybase64, datasets, tqdm: no torch, nothing
of their servers is loaded.
"""
import json
import os
import re
import subprocess

import pytest

from conftest import DEADLINE, MODEL, Server, stream_events

PYTHON = os.environ.get("RADISH_BENCH_PYTHON")
USAGE = {"stream_options": {"include_usage": True}}
SAMPLING = {"temperature": 0.0, "max_new_tokens": 8, "ignore_eos": True}
NATIVE = {"text": "Hello world", "sampling_params": SAMPLING, "stream": True, "lora_path": None, "return_logprob": False, "logprob_start_len": -1}
PARTS = [{"role": "user", "content": [{"type": "text", "text": "Hello"}]}]
PLAIN = [{"role": "user", "content": "Hello"}]

BODIES = {
    "sglang native": ("/generate", NATIVE),
    "sglang native, ids": ("/generate", {k: v for k, v in {**NATIVE, "input_ids": [5, 6, 7]}.items() if k != "text"}),
    "sglang native, logprobs": ("/generate", {**NATIVE, "return_logprob": True, "top_logprobs_num": 2}),
    "sglang native, new": ("/generate", {**NATIVE, "return_routed_experts": False}),
    "sglang oai": ("/v1/completions", {"model": "llama", "prompt": "Hello", "best_of": 1, "max_tokens": 8, "stream": True, "temperature": 0.0,
                                       "ignore_eos": True}),
    "sglang oai-chat": ("/v1/chat/completions", {"model": "llama", "messages": PLAIN, "max_completion_tokens": 8, "stream": True, "temperature": 0.0,
                                                 "ignore_eos": True}),
    "vllm": ("/v1/completions", {"model": "llama", "prompt": "Hello", "repetition_penalty": 1.0, "max_tokens": 8, "logprobs": None, "stream": True,
                                 "ignore_eos": True, "temperature": 0.0, **USAGE}),
    "vllm chat": ("/v1/chat/completions", {"model": "llama", "messages": PARTS, "max_completion_tokens": 8, "stream": True, "ignore_eos": True, **USAGE}),
    "guidellm": ("/v1/completions", {"model": "llama", "prompt": "Hello", "stream": True, "max_tokens": 8, "ignore_eos": True, "stop": None,
                                     "stream_options": {"include_usage": True, "continuous_usage_stats": True}}),
    "aiperf": ("/v1/completions", {"model": "llama", "prompt": ["Hello"], "stream": True, "max_tokens": 8, "min_tokens": 8, "ignore_eos": True, **USAGE}),
    "aiperf chat": ("/v1/chat/completions", {"model": "llama", "messages": [{"role": "user", "name": "", "content": "Hello"}], "stream": True,
                                             "max_completion_tokens": 8, **USAGE}),
}


@pytest.mark.parametrize("name", BODIES)
def test_the_bodies_of_load_generators_are_served_without_a_warning(server, name):
    path, body = BODIES[name]

    answer = server.post(path, body)

    assert answer.status == 200, answer.body
    assert "x-radish-warning" not in answer.headers, answer.headers["x-radish-warning"]
    events, is_done = stream_events(answer.body)
    assert is_done and events
    if path == "/generate":
        counts = [e["meta_info"]["completion_tokens"] for e in events]
        texts = [e["text"] for e in events]
        assert counts == sorted(counts) and counts[-1] == 8
        assert all(b.startswith(a) for a, b in zip(texts, texts[1:]))
    elif "stream_options" in body:
        assert events[-1]["usage"]["completion_tokens"] <= 8


def test_a_prompt_far_beyond_the_context_is_refused_and_the_server_lives(server):
    body = {"model": "llama", "prompt": "word " * 40960, "max_tokens": 8, "stream": True, "ignore_eos": True, **USAGE}
    ids = {"model": "llama", "prompt": [7] * 40960, "max_tokens": 8, "stream": True}

    for answer in server.post("/v1/completions", body), server.post("/v1/completions", ids), server.post("/generate", {**NATIVE, "text": "word " * 40960}):
        assert answer.status == 400
        assert answer.error()["code"] == "context_length_exceeded"

    assert server.health()["status"] == "ok"


# SGLang's client without SGLang's server: only the folders that the client needs are packages.
RUN_SGLANG = """
import importlib.util, os, sys, types
root = os.path.dirname(importlib.util.find_spec("sglang").origin)
def package(name, *folders, **names):
    module = types.ModuleType(name)
    module.__path__ = [os.path.join(root, *folders)]
    module.__dict__.update(names)
    sys.modules[name] = module
package("sglang"); package("sglang.srt", "srt"); package("sglang.srt.utils", "srt", "utils")
package("sglang.srt.disaggregation", "srt", "disaggregation")
package("sglang.srt.disaggregation.utils", "none", FAKE_BOOTSTRAP_HOST="2.2.2.2")
from transformers import AutoTokenizer
package("sglang.srt.utils.hf_transformers_utils", "none", get_tokenizer=lambda path, **_: AutoTokenizer.from_pretrained(path))
from sglang.benchmark.serving import cli_main
cli_main()
"""

# The same for vLLM's: its helpers for images, audio and adapters are not needed for text.
RUN_VLLM = """
import argparse, importlib.util, logging, os, sys, types
from unittest.mock import MagicMock
root = os.path.dirname(importlib.util.find_spec("vllm").origin)
def package(name, folder="none", **names):
    module = types.ModuleType(name)
    module.__path__ = [os.path.join(root, folder)]
    module.__dict__.update(names)
    sys.modules[name] = module
from transformers import AutoTokenizer, PreTrainedTokenizerBase
class Placeholder:
    def __init__(self, *_): pass
    def placeholder_attr(self, *_): return Placeholder()
    def __getattr__(self, name): return Placeholder()
package("vllm", "."); package("vllm.logger", init_logger=logging.getLogger)
package("vllm.tokenizers", TokenizerLike=PreTrainedTokenizerBase, get_tokenizer=lambda path, **_: AutoTokenizer.from_pretrained(path))
package("vllm.utils", "utils"); package("vllm.utils.argparse_utils", FlexibleArgumentParser=argparse.ArgumentParser)
package("vllm.utils.gc_utils", freeze_gc_heap=lambda: None)
package("vllm.utils.network_utils", join_host_port=lambda host, port: f"{host}:{port}")
package("vllm.utils.import_utils", PlaceholderModule=Placeholder)
package("vllm.utils.mistral", is_mistral_tokenizer=lambda tokenizer: False)
mocked = "inputs lora lora.request lora.utils multimodal multimodal.audio multimodal.image multimodal.utils transformers_utils"
for name in (mocked + " transformers_utils.repo_utils config").split():
    sys.modules["vllm." + name] = MagicMock()
from vllm.benchmarks.serve import add_cli_args, main
parser = argparse.ArgumentParser()
add_cli_args(parser)
main(parser.parse_args())
"""


def need(module):
    if not PYTHON:
        pytest.skip("RADISH_BENCH_PYTHON names no Python that has load generators")
    look = f"import importlib.util, sys; sys.exit(not importlib.util.find_spec({module!r}))"
    if subprocess.run([PYTHON, "-c", look], timeout=60).returncode:
        pytest.skip(f"{PYTHON} does not have {module}")


def run_client(words, cwd):
    env = {**os.environ, "HF_HUB_OFFLINE": "1", "PATH": os.path.dirname(PYTHON) + os.pathsep + os.environ["PATH"]}
    done = subprocess.run(words, cwd=cwd, env=env, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, timeout=3 * DEADLINE)
    print(done.stdout[-5000:])
    assert done.returncode == 0, done.stdout[-3000:]
    return done.stdout


@pytest.fixture(scope="module")
def named_server():
    """Its model's name is a path, from which clients load the tokenizer."""
    started = Server("--max-total-tokens", "20000", "--served-model-name", MODEL)
    yield started
    started.stop()


def served(server):
    found = re.findall(r'^sglang:num_requests_total{[^}]*} (\d+)$', server.request("GET", "/metrics").body.decode(), re.M)
    return sum(map(int, found))


@pytest.mark.parametrize("backend", ["sglang", "sglang-oai", "sglang-oai-chat", "vllm"])
def test_sglangs_bench_serving_runs(named_server, tmp_path, backend):
    need("sglang")
    out = tmp_path / "out.jsonl"

    text = run_client([PYTHON, "-c", RUN_SGLANG, "--backend", backend, "--base-url", named_server.url, "--dataset-name", "random-ids",
                       "--random-input-len", "24", "--random-output-len", "8", "--num-prompts", "6", "--model", MODEL, "--tokenizer", MODEL,
                       "--output-file", str(out), "--flush-cache"], tmp_path)

    assert re.search(r"Successful requests: +6\b", text)
    assert json.loads(out.read_text().splitlines()[-1])["completed"] == 6


def test_vllms_bench_serve_runs(named_server, tmp_path):
    need("vllm")

    words = [PYTHON, "-c", RUN_VLLM, "--backend", "openai", "--base-url", named_server.url, "--model", MODEL, "--dataset-name", "random",
             "--random-output-len", "8", "--ignore-eos"]

    text = run_client([*words, "--num-prompts", "6", "--random-input-len", "24"], tmp_path)
    too_long = run_client([*words, "--num-prompts", "2", "--random-input-len", "40960"], tmp_path)

    assert re.search(r"Successful requests: +6\b", text)
    assert re.search(r"Failed requests: +2\b", too_long)
    assert named_server.health()["status"] == "ok"


def test_guidellm_runs(named_server, tmp_path):
    need("guidellm")
    before = served(named_server)

    run_client([PYTHON, "-m", "guidellm", "run", "--backend", f"kind=openai_http,target={named_server.url},model={MODEL}", "--profile",
                "kind=concurrent,streams=2", "--constraint", "kind=max_requests,count=6", "--data", "kind=synthetic_text,prompt_tokens=24,output_tokens=8"],
               tmp_path)

    assert served(named_server) - before >= 6


def test_aiperf_runs(named_server, tmp_path):
    need("aiperf")
    (tmp_path / "models").mkdir()
    (tmp_path / "models/llama").symlink_to(MODEL)  # it takes an absolute path for a name on the hub
    before = served(named_server)

    run_client([os.path.join(os.path.dirname(PYTHON), "aiperf"), "profile", "--model", MODEL, "--tokenizer", "models/llama", "--url", named_server.url,
                "--endpoint-type", "completions", "--streaming", "--concurrency", "2", "--request-count", "6", "--synthetic-input-tokens-mean", "16",
                "--output-tokens-mean", "8", "--ui", "simple", "--output-artifact-dir", str(tmp_path / "out")], tmp_path)

    assert served(named_server) - before >= 6
