#!/usr/bin/env python3
"""Logits of a llama GGUF file by plain numpy, to hold radish's against: one file, no radish code, readable top to bottom.

Weights are dequantised by the package `gguf` (ggml's own formulas in Python); everything is float32, attention softmax in float64.
GGUF stores Q and K of llama for interleaved rotation: pairs (2d, 2d + 1).

Usage: reference_gguf_llama.py MODEL.gguf IDS.json OUT.npy [ROW ...]   logits of the given prompt rows (all without any)."""
import json
import sys

import numpy as np
from gguf import GGUFReader
from gguf.quants import dequantize


def main():
    path, ids_path, out_path, rows = sys.argv[1], sys.argv[2], sys.argv[3], [int(x) for x in sys.argv[4:]]
    reader = GGUFReader(path)
    field = lambda key: reader.fields["llama." + key].contents()
    tensors = {t.name: t for t in reader.tensors}
    weight = lambda name: dequantize(tensors[name].data, tensors[name].tensor_type).astype(np.float32)
    ids = np.array(json.load(open(ids_path)))
    n_layers, n_heads, n_kv = field("block_count"), field("attention.head_count"), field("attention.head_count_kv")
    eps, theta, head_dim = field("attention.layer_norm_rms_epsilon"), field("rope.freq_base"), field("rope.dimension_count")
    n_tokens = len(ids)

    angle = np.arange(n_tokens)[:, None] * theta ** (-np.arange(0, head_dim, 2) / head_dim)
    cos, sin = np.cos(angle)[:, None].astype(np.float32), np.sin(angle)[:, None].astype(np.float32)

    def norm(x, w):
        return x / np.sqrt((x.astype(np.float64) ** 2).mean(-1, keepdims=True) + eps).astype(np.float32) * w

    def rotate(x):  # [tokens, heads, head_dim]
        a, b = x[..., 0::2], x[..., 1::2]
        return np.stack([a * cos - b * sin, a * sin + b * cos], -1).reshape(x.shape)

    def attend(q, k, v):
        out = np.empty_like(q)
        for h in range(n_heads):
            kh, vh = k[:, h * n_kv // n_heads], v[:, h * n_kv // n_heads]
            for begin in range(0, n_tokens, 512):
                end = min(begin + 512, n_tokens)
                s = (q[begin:end, h] @ kh[:end].T).astype(np.float64) / np.sqrt(head_dim)
                s[np.arange(end)[None] > np.arange(begin, end)[:, None]] = -np.inf
                p = np.exp(s - s.max(-1, keepdims=True))
                out[begin:end, h] = (p / p.sum(-1, keepdims=True)) @ vh[:end]
        return out

    embedding = weight("token_embd.weight")
    x = embedding[ids]
    for i in range(n_layers):
        w = lambda name: weight(f"blk.{i}.{name}.weight")
        a = norm(x, w("attn_norm"))
        q, k, v = ((a @ w(n).T).reshape(n_tokens, -1, head_dim) for n in ("attn_q", "attn_k", "attn_v"))
        x = x + attend(rotate(q), rotate(k), v).reshape(n_tokens, -1) @ w("attn_output").T
        a = norm(x, w("ffn_norm"))
        gate = a @ w("ffn_gate").T
        x = x + (gate / (1 + np.exp(-gate)) * (a @ w("ffn_up").T)) @ w("ffn_down").T
    x = norm(x[rows] if rows else x, weight("output_norm.weight"))
    output = weight("output.weight") if "output.weight" in tensors else embedding
    np.save(out_path, x @ output.T)


if __name__ == "__main__":
    main()
