#!/usr/bin/env python3
"""Writes the committed fuzz corpora tests/data/fuzz/{gguf,safetensors,config}: tiny valid files, so that the fuzzer starts
from the format's structure, and one broken file per kind of check in the parsers, so that each check's line is reached
without any fuzzing. Deterministic: running it again changes nothing.

    tools/make_fuzz_corpus.py [--models FOLDER]

--models: a folder of Hugging Face models whose config.json files are added to the config corpus (their content only);
by default those of ../shared/conformance/models where that exists."""
import argparse
import hashlib
import json
import pathlib
import struct

ROOT = pathlib.Path(__file__).resolve().parent.parent
OUT = ROOT / "tests" / "data" / "fuzz"
U8, I8, U16, I16, U32, I32, F32, BOOL, STR, ARRAY, U64, I64, F64 = range(13)
PACK = {U8: "B", I8: "b", U16: "H", I16: "h", U32: "I", I32: "i", F32: "f", BOOL: "?", U64: "Q", I64: "q", F64: "d"}
# GGUF type id: (elements a block, bytes a block)
TYPES = {0: (1, 4), 1: (1, 2), 30: (1, 2), 2: (32, 18), 3: (32, 20), 6: (32, 22), 7: (32, 24), 8: (32, 34), 10: (256, 84),
         11: (256, 110), 12: (256, 144), 13: (256, 176), 14: (256, 210), 39: (32, 17)}


def text(s):
    b = s if isinstance(s, bytes) else s.encode()
    return struct.pack("<Q", len(b)) + b


def value(kind, v):
    if kind == STR:
        return text(v)
    if kind == ARRAY:
        elem, items = v
        return struct.pack("<IQ", elem, len(items)) + b"".join(value(elem, i) for i in items)
    return struct.pack("<" + PACK[kind], v)


def gguf(values, tensors, version=3, alignment=32, n_values=None, n_tensors=None, data=None):
    """values: (key, kind, v); tensors: (name, dims, type[, offset])"""
    head = b"GGUF" + struct.pack("<IQQ", version, len(tensors) if n_tensors is None else n_tensors,
                                 len(values) if n_values is None else n_values)
    for key, kind, v in values:
        head += text(key) + struct.pack("<I", kind) + (v if isinstance(v, bytes) and kind != STR else value(kind, v))
    end = 0
    for name, dims, kind, *offset in tensors:
        elems, size = TYPES.get(kind, (1, 4))
        n = 1
        for d in dims:
            n *= d
        at = offset[0] if offset else end
        head += text(name) + struct.pack("<I", len(dims)) + b"".join(struct.pack("<Q", d) for d in dims)
        head += struct.pack("<IQ", kind, at % 2**64)
        end = (at + n // elems * size + alignment - 1) // alignment * alignment
    if tensors:
        head += bytes(-len(head) % alignment)
    return head + (bytes(i * 7 % 256 for i in range(min(end, 4096))) if data is None else data)


ARCH = ("general.architecture", STR, "llama")
LLAMA = [ARCH, ("llama.block_count", U32, 1), ("llama.context_length", U32, 64), ("llama.embedding_length", U32, 32),
         ("llama.feed_forward_length", U32, 64), ("llama.attention.head_count", U32, 4),
         ("llama.attention.head_count_kv", ARRAY, (I32, [2])), ("llama.attention.layer_norm_rms_epsilon", F32, 1e-5),
         ("llama.rope.freq_base", F32, 10000.0), ("llama.rope.scaling.type", STR, "linear"),
         ("llama.rope.scaling.factor", F32, 2.0), ("llama.rope.dimension_count", U32, 8),
         ("tokenizer.ggml.model", STR, "gpt2"), ("tokenizer.ggml.tokens", ARRAY, (STR, ["a", "b", "\u00e9", ""])),
         ("tokenizer.ggml.token_type", ARRAY, (I32, [1, 1, 3, 1])), ("tokenizer.ggml.eos_token_id", U32, 2),
         ("tokenizer.ggml.add_bos_token", BOOL, True)]
W = [("w", [32, 2], 8)]


def gguf_files():
    yield "valid_llama", gguf(LLAMA, [("token_embd.weight", [32, 4], 2), ("output_norm.weight", [32], 0)])
    yield "valid_all_types", gguf([ARCH], [(f"t{k}", [TYPES[k][0], 1], k) for k in TYPES])
    yield "valid_all_kinds", gguf([(f"k{k}", k, 1) for k in PACK] + [(f"a{k}", ARRAY, (k, [1, 0])) for k in PACK] +
                                  [("none", ARRAY, (STR, []))], [])
    yield "valid_v2_aligned_8", gguf([ARCH, ("general.alignment", U32, 8)], [("a", [3], 0), ("b", [5], 1)], 2, 8)
    yield "valid_split", gguf([("split.no", U16, 0), ("split.count", U16, 3), ("split.tensors.count", I32, 3)], W)
    yield "bad_magic", b"GGML" + gguf([ARCH], W)[4:]
    yield "bad_version_1", gguf([ARCH], W, 1)
    yield "bad_big_endian", gguf([ARCH], W, 3 << 24)
    yield "bad_short", gguf([ARCH], W)[:15]
    yield "bad_n_tensors", gguf([ARCH], W, n_tensors=2**63)
    yield "bad_n_values", gguf([ARCH], W, n_values=2**60)
    yield "bad_key_length", gguf([ARCH], W)[:24] + b"\xff" * 8 + gguf([ARCH], W)[32:]
    yield "bad_key_twice", gguf([ARCH, ARCH], W)
    yield "bad_key_nul", gguf([("a\0b", U8, 1)], W)
    yield "bad_kind", gguf([("k", 13, b"")], W)
    yield "bad_bool", gguf([("k", BOOL, b"\x02")], W)
    yield "bad_string", gguf([("k", ARRAY, struct.pack("<IQQ", STR, 1, 2**40))], W)
    yield "bad_nested", gguf([("k", ARRAY, struct.pack("<IQIQ", ARRAY, 1, U8, 0))], W)
    yield "bad_array_length", gguf([("k", ARRAY, struct.pack("<IQ", U64, 2**61 + 1))], W)
    yield "bad_strings_length", gguf([("k", ARRAY, struct.pack("<IQ", STR, 2**61))], W)
    yield "bad_alignment", gguf([("general.alignment", U32, 24)], W)
    yield "bad_alignment_kind", gguf([("general.alignment", STR, "32")], W)
    yield "bad_dims_0", gguf([ARCH], [("w", [], 0)])
    yield "bad_dims_5", gguf([ARCH], [("w", [1] * 5, 0)])
    yield "bad_dim_zero", gguf([ARCH], [("w", [32, 0], 8)])
    yield "bad_dim_product", gguf([ARCH], [("w", [2**40, 2**40], 0)])
    yield "bad_block", gguf([ARCH], [("w", [31, 2], 8)])
    yield "bad_type", gguf([ARCH], [("w", [32], 77)])
    yield "bad_name_twice", gguf([ARCH], [("w", [8], 0), ("w", [8], 0)])
    yield "bad_offset_crooked", gguf([ARCH], [("w", [8], 0, 1)])
    yield "bad_offset_far", gguf([ARCH], [("w", [8], 0, 2**40)], data=b"")
    yield "bad_offset_wraps", gguf([ARCH], [("w", [8], 0, 2**64 - 32)], data=bytes(64))
    yield "bad_overlap", gguf([ARCH], [("v", [16], 0, 0), ("w", [16], 0, 32)])
    yield "bad_no_data", gguf([ARCH], W, data=b"")


def safetensors(header, n_data=None, length=None):
    h = header.encode() if isinstance(header, str) else json.dumps(header, separators=(",", ":")).encode()
    if n_data is None:
        n_data = max([t["data_offsets"][1] for k, t in header.items() if k != "__metadata__"] or [0])
    return struct.pack("<Q", len(h) if length is None else length) + h + bytes(i % 256 for i in range(n_data))


def t(dtype, shape, begin, end):
    return {"dtype": dtype, "shape": shape, "data_offsets": [begin, end]}


def safetensors_files():
    yield "valid_two", safetensors({"__metadata__": {"format": "pt"}, "a": t("F32", [2, 3], 0, 24), "b": t("BF16", [4], 24, 32)})
    yield "valid_types", safetensors({d: t(d, [1], i * 8, i * 8 + 8) for i, d in enumerate(["I64", "F64", "U64"])})
    yield "valid_small_types", safetensors({"f4": t("F4", [2], 0, 1), "f8": t("F8_E4M3", [3], 1, 4), "bool": t("BOOL", [], 4, 5)})
    yield "valid_empty_tensor", safetensors({"none": t("F32", [0, 5], 0, 0), "s": t("F16", [], 0, 2)})
    yield "valid_nothing", safetensors("{}  ", 0)
    yield "valid_escaped", safetensors('{"\\u0061\\n":{"dtype":"U8","shape":[1],"data_offsets":[0,1]}}', 1)
    yield "bad_length", safetensors("{}", 0, 2**63)
    yield "bad_length_short", safetensors("{}", 0, 1)
    yield "bad_too_short", b"\x02\0\0"
    yield "bad_json", safetensors("{", 0)
    yield "bad_not_object", safetensors("[1]", 0)
    yield "bad_deep", safetensors("[" * 200 + "]" * 200, 0)
    yield "bad_metadata", safetensors('{"__metadata__":{"a":[1]}}', 0)
    yield "bad_dtype", safetensors({"a": t("Q4_0", [2], 0, 8)})
    yield "bad_shape_dims", safetensors({"a": t("F32", [1] * 9, 0, 4)})
    yield "bad_shape_product", safetensors({"a": t("F32", [2**33, 2**33], 0, 8)})
    yield "bad_shape_negative", safetensors({"a": t("F32", [-2], 0, 8)})
    yield "bad_size", safetensors({"a": t("F32", [3], 0, 8)})
    yield "bad_offsets", safetensors({"a": t("F32", [2], 8, 0)}, 8)
    yield "bad_offsets_far", safetensors({"a": t("F32", [2], 0, 8)}, 7)
    yield "bad_overlap", safetensors({"a": t("F32", [2], 0, 8), "b": t("F32", [2], 4, 12)})
    yield "bad_hole", safetensors({"a": t("F32", [2], 0, 8), "b": t("F32", [2], 12, 20)})
    yield "bad_tail", safetensors({"a": t("F32", [2], 0, 8)}, 9)
    yield "bad_twice", safetensors('{"a":{"dtype":"U8","shape":[1],"data_offsets":[0,1]},'
                                   '"a":{"dtype":"U8","shape":[1],"data_offsets":[1,2]}}', 2)


CONFIG = {"architectures": ["LlamaForCausalLM"], "model_type": "llama", "hidden_size": 32, "intermediate_size": 64,
          "num_hidden_layers": 1, "num_attention_heads": 4, "num_key_value_heads": 2, "vocab_size": 16,
          "max_position_embeddings": 64, "rms_norm_eps": 1e-5, "rope_theta": 10000.0, "tie_word_embeddings": True,
          "hidden_act": "silu", "torch_dtype": "bfloat16", "bos_token_id": 0, "eos_token_id": [2, 3]}


def config_files(models):
    def changed(**changes):
        return json.dumps({k: v for k, v in {**CONFIG, **changes}.items() if v != "absent"}).encode()
    yield "valid_llama", changed()
    scalings = {"linear": {"type": "linear", "factor": 2.0}, "yarn": {"rope_type": "yarn", "factor": 4, "original_max_position_embeddings": 16},
                "llama3": {"rope_type": "llama3", "factor": 8.0, "low_freq_factor": 1.0, "high_freq_factor": 4.0,
                           "original_max_position_embeddings": 32},
                "dynamic": {"type": "dynamic", "factor": 2.0}, "unknown": {"rope_type": "spiral"}, "none": {}, "text": "yarn"}
    for name, scaling in scalings.items():
        yield f"rope_{name}", changed(rope_scaling=scaling)
    yield "rope_parameters", changed(rope_theta="absent", rope_parameters={"rope_type": "default", "rope_theta": 5e5})
    for key in ("hidden_size", "num_hidden_layers", "num_attention_heads", "num_key_value_heads", "vocab_size"):
        for name, wrong in {"absent": "absent", "zero": 0, "negative": -1, "huge": 2**62, "text": "x", "list": [1]}.items():
            yield f"{key}_{name}", changed(**{key: wrong})
    yield "head_dim_odd", changed(head_dim=7)
    yield "eps_text", changed(rms_norm_eps="small")
    yield "eos_text", changed(eos_token_id="x")
    yield "eos_many", changed(eos_token_id=list(range(100)))
    yield "architecture_unknown", changed(architectures=["FooForCausalLM"], model_type="foo")
    yield "architecture_absent", changed(architectures="absent", model_type="absent")
    yield "not_object", b"[1, 2]"
    yield "not_json", b"{\"a\": 1,}"
    yield "deep", b"[" * 500 + b"]" * 500
    yield "twice", b'{"hidden_size": 1, "hidden_size": 2}'
    yield "gguf_llama", gguf(LLAMA, [])
    for key in ("llama.block_count", "llama.attention.head_count_kv", "llama.rope.scaling.type", "llama.embedding_length"):
        yield f"gguf_{key}", gguf([(k, *((STR, "text") if k == key and kind != STR else (U32, 2**31) if k == key else (kind, v)))
                                   for k, kind, v in LLAMA], [])
    for folder in sorted(models.iterdir()) if models and models.is_dir() else []:
        path = folder / "config.json"
        if path.is_file():
            yield f"model_{folder.name}", json.dumps(json.loads(path.read_text()), separators=(",", ":")).encode()


def write(noun, files):
    folder = OUT / noun
    folder.mkdir(parents=True, exist_ok=True)
    seen = set()
    for name, data in files:
        digest = hashlib.sha256(data).hexdigest()
        if digest not in seen:
            (folder / name).write_bytes(data)
        seen.add(digest)
    print(f"{folder.relative_to(ROOT)}: {len(seen)} files")


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n\n")[0])
    parser.add_argument("--models", type=pathlib.Path, default=ROOT.parent / "shared" / "conformance" / "models")
    args = parser.parse_args()
    write("gguf", gguf_files())
    write("safetensors", safetensors_files())
    write("config", config_files(args.models))


if __name__ == "__main__":
    main()
