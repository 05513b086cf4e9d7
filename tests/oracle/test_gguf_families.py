"""Every family that GGUF has a name for: the conformance models written as GGUF files, as llama.cpp's converters write them, must give the
logits of their folders.

What a converter does to a model is said here once more, family by family: which tensor gets which name, which keys there are, whose Q and K
rows are stored for interleaved rotation, whose norms have their 1 added already, what is fused. So a name or a key that radish reads wrongly
shows as a missing tensor or as other logits.
"""
import json, os, pathlib, re, struct, subprocess

import pytest

from conftest import ROOT, TIMEOUT

MODELS = pathlib.Path(os.environ.get("RADISH_CONFORMANCE", ROOT.parent / "shared/conformance")) / "models"
if not MODELS.is_dir():
    pytest.skip(f"there is no {MODELS}", allow_module_level=True)
TOKENS = [(7 * i * i + 3 * i) % 500 for i in range(60)]  # longer than the windows of the models
TOLERANCE = 1e-4  # of the logits' deviation: rows stored for another rotation are added in another order
U32, F32, BOOL, STRING, ARRAY = 4, 6, 7, 8, 9
USUAL = {
    "model.embed_tokens": "token_embd", "model.norm": "output_norm", "model.final_layernorm": "output_norm", "lm_head": "output",
    "gpt_neox.embed_in": "token_embd", "gpt_neox.final_layer_norm": "output_norm", "embed_out": "output",
    "input_layernorm": "attn_norm", "self_attn.q_proj": "attn_q", "self_attn.k_proj": "attn_k", "self_attn.v_proj": "attn_v",
    "self_attn.o_proj": "attn_output", "self_attn.dense": "attn_output", "attention.dense": "attn_output", "self_attn.q_norm": "attn_q_norm",
    "self_attn.k_norm": "attn_k_norm", "self_attn.qkv_proj": "attn_qkv", "attention.query_key_value": "attn_qkv",
    "post_attention_layernorm": "ffn_norm", "mlp.gate_proj": "ffn_gate", "mlp.up_proj": "ffn_up", "mlp.gate_up_proj": "ffn_up",
    "mlp.fc1": "ffn_up", "mlp.dense_h_to_4h": "ffn_up", "mlp.down_proj": "ffn_down", "mlp.fc2": "ffn_down", "mlp.dense_4h_to_h": "ffn_down",
}
SANDWICH = {"post_attention_layernorm": "post_attention_norm", "pre_feedforward_layernorm": "ffn_norm",
            "post_feedforward_layernorm": "post_ffw_norm"}
GLM4 = {"post_self_attn_layernorm": "post_attention_norm", "post_mlp_layernorm": "post_ffw_norm"}
# model: (GGUF name, names unlike the usual ones, what is done to tensors)
FAMILIES = {
    "mistral_swa": ("llama", {}, ("permute",)), "smollm3": ("smollm3", {}, ("permute",)),
    "phi3": ("phi3", {}, ()), "phi3_partial": ("phi3", {}, ()), "phi": ("phi2", {}, ()), "granite": ("granite", {}, ("permute",)),
    "stablelm": ("stablelm", {}, ()), "gpt_neox": ("gptneox", {}, ("join heads",)), "nemotron": ("nemotron", {}, ("add one",)),
    "glm4": ("glm4", GLM4, ()), "gemma2": ("gemma2", SANDWICH, ("add one",)), "gemma3": ("gemma3", SANDWICH, ("add one",)),
    "olmo2": ("olmo2", SANDWICH, ()), "exaone4": ("exaone4", SANDWICH, ()), "cohere2": ("cohere2", {}, ()),
}
# What GGUF has no key for, changed in the folder: llama has no window, smollm3 only its own interval, gemma2 a scale by head_dim.
CHANGES = {"mistral_swa": {"sliding_window": None}, "smollm3": {"no_rope_layers": [1, 1, 1, 0]}, "gemma2": {"query_pre_attn_scalar": 32}}


def read_safetensors(path):
    """{name: (dtype, shape, bytes)}"""
    data = path.read_bytes()
    size, = struct.unpack_from("<Q", data)
    header = json.loads(data[8:8 + size])
    return {name: (t["dtype"], t["shape"], data[8 + size + t["data_offsets"][0]:8 + size + t["data_offsets"][1]])
            for name, t in header.items() if name != "__metadata__"}


def to_floats(dtype, data):
    if dtype == "F32":
        return list(struct.unpack(f"<{len(data) // 4}f", data))
    return [struct.unpack("<f", b"\0\0" + data[i:i + 2])[0] for i in range(0, len(data), 2)]


def reorder(data, n_rows, order):
    size = len(data) // n_rows
    return b"".join(data[i * size:(i + 1) * size] for i in order)


def convert(name, tensor, config, work):
    """What converters do to one tensor; vectors become F32, as there."""
    dtype, shape, data = tensor
    n_heads = config["num_attention_heads"]
    if "permute" in work and re.search(r"[qk]_proj", name):  # halves of a head side by side
        n = config["num_key_value_heads"] if "k_proj" in name else n_heads
        d = shape[0] // n
        data = reorder(data, shape[0], [h * d + i % 2 * (d // 2) + i // 2 for h in range(n) for i in range(d)])
    if "join heads" in work and "query_key_value" in name:
        d = shape[0] // n_heads // 3
        data = reorder(data, shape[0], [(h * 3 + part) * d + i for part in range(3) for h in range(n_heads) for i in range(d)])
    if len(shape) == 1:
        values = to_floats(dtype, data)
        if "add one" in work and re.search(r"norm\.weight$", name):
            values = [v + 1 for v in values]
        dtype, data = "F32", struct.pack(f"<{len(values)}f", *values)
    return dtype, shape, data


def keys_of(arch, config):
    """Keys of the configuration, their type and value."""
    c = config
    rope = c.get("rope_parameters") or {}
    head_dim = c.get("head_dim") or c["hidden_size"] // c["num_attention_heads"]
    rotated = c.get("partial_rotary_factor", rope.get("partial_rotary_factor", 1))
    keys = [("context_length", U32, c["max_position_embeddings"]), ("embedding_length", U32, c["hidden_size"]),
            ("block_count", U32, c["num_hidden_layers"]), ("feed_forward_length", U32, c["intermediate_size"]),
            ("attention.head_count", U32, c["num_attention_heads"]), ("attention.key_length", U32, head_dim),
            ("attention.value_length", U32, head_dim), ("rope.dimension_count", U32, int(head_dim * rotated)),
            ("rope.freq_base", F32, c.get("rope_theta", rope.get("rope_theta")))]
    if arch != "gptneox":
        keys.append(("attention.head_count_kv", U32, c["num_key_value_heads"]))
    if "rms_norm_eps" in c:
        keys.append(("attention.layer_norm_rms_epsilon", F32, c["rms_norm_eps"]))
    else:
        keys.append(("attention.layer_norm_epsilon", F32, c.get("layer_norm_eps", c.get("norm_eps"))))
    if c.get("sliding_window"):
        keys.append(("attention.sliding_window", U32, c["sliding_window"]))
    if arch == "exaone4":
        keys.append(("attention.sliding_window_pattern", BOOL, [t == "sliding_attention" for t in c["layer_types"]]))
    for key, field in (("attn_logit_softcapping", "attn_logit_softcapping"), ("final_logit_softcapping", "final_logit_softcapping"),
                       ("attention.scale", "attention_multiplier"), ("embedding_scale", "embedding_multiplier"),
                       ("residual_scale", "residual_multiplier"), ("logit_scale", "logits_scaling"), ("logit_scale", "logit_scale")):
        if c.get(field):
            keys.append((key, F32, c[field]))
    if arch in ("stablelm", "gptneox"):  # stablelm's converter writes true where the model does not say
        keys.append(("use_parallel_residual", BOOL, True))
    return [(f"{arch}.{key}", kind, value) for key, kind, value in keys]


def pack_string(text):
    data = text.encode()
    return struct.pack("<Q", len(data)) + data


def pack_value(kind, value):
    if isinstance(value, list):
        return struct.pack("<IIQ", ARRAY, kind, len(value)) + b"".join(pack_value(kind, v)[4:] for v in value)
    return struct.pack("<I", kind) + (pack_string(value) if kind == STRING else struct.pack({U32: "<I", F32: "<f", BOOL: "<?"}[kind], value))


def write_gguf(path, keys, tensors):
    infos, data = b"", b""
    for name, (dtype, shape, content) in tensors.items():
        infos += pack_string(name) + struct.pack(f"<I{len(shape)}QIQ", len(shape), *reversed(shape), {"F32": 0, "BF16": 30}[dtype], len(data))
        data += content + bytes(-len(content) % 32)
    head = struct.pack("<4sIQQ", b"GGUF", 3, len(tensors), len(keys))
    head += b"".join(pack_string(key) + pack_value(kind, value) for key, kind, value in keys) + infos
    path.write_bytes(head + bytes(-len(head) % 32) + data)


def make_gguf(folder, arch, names, work, path):
    config = json.loads((folder / "config.json").read_text())
    tokenizer = json.loads((folder / "tokenizer.json").read_text())["model"]
    tokens = sorted(tokenizer["vocab"], key=tokenizer["vocab"].get)
    tokens += [f"[PAD{i}]" for i in range(len(tokens), config["vocab_size"])]
    merges = [m if isinstance(m, str) else " ".join(m) for m in tokenizer["merges"]]
    keys = [("general.architecture", STRING, arch), *keys_of(arch, config), ("tokenizer.ggml.model", STRING, "gpt2"),
            ("tokenizer.ggml.pre", STRING, "qwen2"), ("tokenizer.ggml.tokens", STRING, tokens), ("tokenizer.ggml.merges", STRING, merges)]
    tensors = {}
    for name, tensor in read_safetensors(folder / "model.safetensors").items():
        role, _, tail = name.rpartition(".")
        layer = re.fullmatch(r".*layers\.(\d+)\.(.*)", role)
        short = {**USUAL, **names}[layer[2] if layer else role]
        tensors[(f"blk.{layer[1]}." if layer else "") + f"{short}.{tail}"] = convert(name, tensor, config, work)
    write_gguf(path, keys, tensors)


def logits_of(program, model, path):
    done = subprocess.run([program, "logits", str(model), "--tokens", ",".join(map(str, TOKENS)), "--out", str(path), "--precision", "exact"],
                          capture_output=True, text=True, timeout=TIMEOUT)
    assert done.returncode == 0, done.stderr
    dtype, shape, data = next(iter(read_safetensors(path).values()))
    assert shape[0] == len(TOKENS)
    return to_floats(dtype, data)


@pytest.mark.parametrize("model", FAMILIES)
def test_gguf_file_gives_the_logits_of_its_folder(model, jsonl, tmp_path):
    folder = tmp_path / "folder"
    folder.mkdir()
    for path in (MODELS / model).resolve().iterdir():
        if path.name != "config.json":
            (folder / path.name).symlink_to(path)
    config = json.loads((MODELS / model / "config.json").read_text()) | CHANGES.get(model, {})
    (folder / "config.json").write_text(json.dumps(config))
    make_gguf(folder, *FAMILIES[model], tmp_path / "model.gguf")
    want = logits_of(jsonl.program, folder, tmp_path / "want.safetensors")
    got = logits_of(jsonl.program, tmp_path / "model.gguf", tmp_path / "got.safetensors")
    assert len(got) == len(want)
    deviation = (sum(x * x for x in want) / len(want)) ** 0.5
    assert max(abs(a - b) for a, b in zip(got, want)) <= TOLERANCE * deviation
