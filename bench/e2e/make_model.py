#!/usr/bin/env python3
"""A llama of SmolLM2-135M's shape with random bf16 weights and the small tokenizer of tests/data: something to measure where no model
can be fetched. Needs numpy.

Usage: make_model.py OUT_FOLDER ; its vocabulary has 512 tokens, so: cache.py OUT_FOLDER --ids 3,500
"""
import json, pathlib, shutil, struct, sys

import numpy as np

SOURCE = pathlib.Path(__file__).resolve().parents[2] / "tests/data/models/llama"
LAYERS, HIDDEN, INNER, HEADS, KV_HEADS, HEAD_DIM = 30, 576, 1536, 9, 3, 64


def make_tensors(n_vocab):
    """name -> float32 array, scaled so that activations keep their size."""
    random = np.random.default_rng(0)

    def matrix(rows, columns):
        return random.standard_normal((rows, columns), dtype=np.float32) / np.float32(np.sqrt(columns))

    tensors = {"model.embed_tokens.weight": matrix(n_vocab, HIDDEN), "model.norm.weight": np.ones(HIDDEN, np.float32)}
    for layer in range(LAYERS):
        shapes = {
            "self_attn.q_proj": (HEADS * HEAD_DIM, HIDDEN), "self_attn.k_proj": (KV_HEADS * HEAD_DIM, HIDDEN),
            "self_attn.v_proj": (KV_HEADS * HEAD_DIM, HIDDEN), "self_attn.o_proj": (HIDDEN, HEADS * HEAD_DIM),
            "mlp.gate_proj": (INNER, HIDDEN), "mlp.up_proj": (INNER, HIDDEN), "mlp.down_proj": (HIDDEN, INNER),
        }
        for name, shape in shapes.items():
            tensors[f"model.layers.{layer}.{name}.weight"] = matrix(*shape)
        for name in ("input_layernorm", "post_attention_layernorm"):
            tensors[f"model.layers.{layer}.{name}.weight"] = np.ones(HIDDEN, np.float32)
    return tensors


def write_safetensors(path, tensors):
    header, parts, at = {}, [], 0
    for name, values in tensors.items():
        bf16 = (values.view(np.uint32) >> 16).astype("<u2").tobytes()
        header[name] = {"dtype": "BF16", "shape": list(values.shape), "data_offsets": [at, at + len(bf16)]}
        parts.append(bf16)
        at += len(bf16)
    text = json.dumps(header).encode()
    path.write_bytes(struct.pack("<Q", len(text)) + text + b"".join(parts))


def main():
    out = pathlib.Path(sys.argv[1])
    out.mkdir(parents=True, exist_ok=True)
    for name in ("tokenizer.json", "tokenizer_config.json", "chat_template.jinja", "generation_config.json"):
        if (SOURCE / name).exists():
            shutil.copy(SOURCE / name, out)
    config = json.loads((SOURCE / "config.json").read_text())
    config.update(hidden_size=HIDDEN, intermediate_size=INNER, num_hidden_layers=LAYERS, num_attention_heads=HEADS,
                  num_key_value_heads=KV_HEADS, head_dim=HEAD_DIM, max_position_embeddings=8192, tie_word_embeddings=True)
    (out / "config.json").write_text(json.dumps(config, indent=1))
    write_safetensors(out / "model.safetensors", make_tensors(config["vocab_size"]))


if __name__ == "__main__":
    main()
