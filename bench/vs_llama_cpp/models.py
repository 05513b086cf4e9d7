#!/usr/bin/env python3
"""GGUF files with random weights for speed comparisons, made with Python's standard library alone.

Usage: models.py OUT.gguf [--shape qwen3-0.6b|smollm2-135m|tiny] [--type BF16|Q8_0|Q4_0|Q4_1|Q4_K] [--tokenizer FILE] [--seed N]

Speed does not depend on the values of weights as long as activations keep their size. So a type's blocks are made once, a few MiB of
random bits with scales such that weights have mean 0 and deviation 1/32, and every tensor is a stretch of them from another place: 1.2 GB
take seconds, and no cache gains by it. Q4_0, Q4_1 and Q4_K files keep the embedding, which is the output matrix too, in Q6_K, as
llama.cpp's own quantiser does for tied models (Q8_0 where rows have no whole blocks of 256); the rest is of the one type.

The tokenizer is Qwen3's where FILE (tokenizer.json, also .xz or .gz) is given, else byte-level pairs that know the words of
`radish bench serving`, filled up with names nobody can type: lengths in tokens are the same, and no file is needed.
"""
import argparse, gzip, json, lzma, pathlib, random, struct

# hidden, inner, layers, heads, KV heads, head_dim, vocabulary, context
SHAPES = {
    "qwen3-0.6b": dict(arch="qwen3", hidden=1024, inner=3072, layers=28, heads=16, kv_heads=8, head_dim=128, vocab=151936, context=40960),
    "smollm2-135m": dict(arch="llama", hidden=576, inner=1536, layers=30, heads=9, kv_heads=3, head_dim=64, vocab=49152, context=8192),
    "tiny": dict(arch="qwen3", hidden=256, inner=512, layers=2, heads=4, kv_heads=2, head_dim=64, vocab=2048, context=4096),
}
# GGUF's number of the type, weights in a block, bytes of a block, general.file_type
TYPES = {"F32": (0, 1, 4, 0), "BF16": (30, 1, 2, 32), "Q8_0": (8, 32, 34, 7), "Q4_0": (2, 32, 18, 2), "Q4_1": (3, 32, 20, 3),
         "Q4_K": (12, 256, 144, 14), "Q6_K": (14, 256, 210, 18)}
HEAD_TYPE = {"BF16": "BF16", "Q8_0": "Q8_0", "Q4_0": "Q6_K", "Q4_1": "Q6_K", "Q4_K": "Q6_K"}
# Bytes of a pool. Not a multiple of any tensor's size, so that tensors begin everywhere in it.
POOL_BYTES = 24_000_000
DEVIATION = 1 / 32  # of weights: sums over 1,024 of them keep their size
ALIGNMENT = 32
WORDS = """alpha river stone cloud engine garden signal copper winter market planet silver basket thunder meadow cotton harbor mirror candle
forest pencil rocket velvet island orange temple violet water house light music paper table window summer bridge valley street letter number
animal family doctor school driver farmer castle desert ocean mountain people story coffee butter circle corner dinner flower finger ground
metal sister spring travel""".split()
TEMPLATE = ("{%- for m in messages %}{{- '<|im_start|>' + m.role + '\\n' + m.content + '<|im_end|>\\n' }}{%- endfor %}"
            "{%- if add_generation_prompt %}{{- '<|im_start|>assistant\\n' }}{%- endif %}")
NORMAL, CONTROL, USER, UNUSED = 1, 3, 4, 5


# ---- tokenizers ----

def read_json(path):
    raw = pathlib.Path(path).read_bytes()
    if raw[:6] == b"\xfd7zXZ\0":
        raw = lzma.decompress(raw)
    elif raw[:2] == b"\x1f\x8b":
        raw = gzip.decompress(raw)
    return json.loads(raw)


def pad(tokens, types, n_vocab):
    for i in range(len(tokens), n_vocab):
        tokens.append(f"[PAD{i}]")
        types.append(UNUSED)


def real_tokenizer(path, n_vocab):
    """(tokens, types, merges) of a byte-level tokenizer.json."""
    source = read_json(path)
    tokens = [f"[PAD{i}]" for i in range(n_vocab)]
    types = [UNUSED] * n_vocab
    for text, i in source["model"]["vocab"].items():
        tokens[i], types[i] = text, NORMAL
    for added in source["added_tokens"]:
        tokens[added["id"]], types[added["id"]] = added["content"], CONTROL if added["special"] else USER
    return tokens, types, [m if isinstance(m, str) else " ".join(m) for m in source["model"]["merges"]]


def byte_letters():
    """The letters that byte-level tokenizers write bytes as."""
    plain = [*range(33, 127), *range(161, 173), *range(174, 256)]
    letters, n = {}, 0
    for byte in range(256):
        letters[byte] = chr(byte) if byte in plain else chr(256 + n)
        n += byte not in plain
    return letters


def made_tokenizer(n_vocab):
    """Bytes, and for each word the pairs that build it from the left: those with the space before come first, so that they win."""
    tokens, merges = list(byte_letters().values()), []
    known = set(tokens)
    for text in [byte_letters()[32] + word for word in WORDS] + WORDS:
        for end in range(2, len(text) + 1):
            if text[:end] not in known:
                known.add(text[:end])
                tokens.append(text[:end])
                merges.append(f"{text[:end - 1]} {text[end - 1]}")
    types = [NORMAL] * len(tokens)
    for special in ("<|endoftext|>", "<|im_start|>", "<|im_end|>"):
        tokens.append(special)
        types.append(CONTROL)
    if len(tokens) > n_vocab:
        raise SystemExit(f"models.py: a vocabulary of {n_vocab} has no room for {len(tokens)} tokens")
    pad(tokens, types, n_vocab)
    return tokens, types, merges


# ---- weights ----

class Pool:
    """Blocks of one type, and stretches of them."""

    def __init__(self, kind, seed, bytes_wanted):
        _, self.per_block, self.block_bytes, _ = TYPES[kind]
        self.n_blocks = min(POOL_BYTES, bytes_wanted) // self.block_bytes
        self.data = memoryview(make_blocks(kind, self.n_blocks, random.Random(f"{seed} {kind}")))
        self.at = 0

    def write(self, out, n_weights):
        left = n_weights // self.per_block
        while left:
            n = min(left, self.n_blocks - self.at)
            out.write(self.data[self.at * self.block_bytes:(self.at + n) * self.block_bytes])
            left -= n
            self.at = (self.at + n) % self.n_blocks


def half(value):
    return struct.pack("<e", value)


def make_blocks(kind, n, rng):
    size = TYPES[kind][2]
    blocks = bytearray(rng.randbytes(n * size))

    def fill(at, pattern, every=size):
        for i, byte in enumerate(pattern):
            blocks[at + i::every] = bytes([byte]) * len(range(at + i, len(blocks), every))

    def fill_signed(at, pattern):
        """A half whose sign stays random: quants that are not symmetric have mean 0 then."""
        fill(at, pattern[:1])
        blocks[at + 1::size] = bytes(blocks[at + 1::size]).translate(bytes(b & 0x80 | pattern[1] for b in range(256)))

    nibble = DEVIATION / 4.61  # 4.61: the deviation of 0 .. 15
    if kind == "BF16":
        # The high byte holds the sign and all of the exponent but a bit: 2^-9, 2^-7 and 2^-5 as often as a normal distribution has them.
        highs = [0x3B] * 25 + [0x3C] * 62 + [0x3D] * 41
        blocks[1::2] = bytes(blocks[1::2]).translate(bytes([*highs, *(h | 0x80 for h in highs)]))
    elif kind == "Q8_0":
        fill_signed(0, half(DEVIATION / 73.9))
    elif kind == "Q4_0":
        fill_signed(0, half(nibble))
    elif kind == "Q4_1":
        fill(0, half(nibble) + half(-7.5 * nibble))
    elif kind == "Q4_K":  # scales and mins are 32 in all eight parts
        fill(0, half(nibble / 32) + half(7.5 * nibble / 32) + b"\xa0" * 8 + b"\0" * 4)
    elif kind == "Q6_K":
        fill(192, b"\x10" * 16)
        fill_signed(208, half(DEVIATION / 18.5 / 16))
    return blocks


def make_tensors(shape, kind):
    """(name, type, rows, columns); rows 0: a vector of ones."""
    hidden, inner, head_dim = shape["hidden"], shape["inner"], shape["head_dim"]
    q, kv = shape["heads"] * head_dim, shape["kv_heads"] * head_dim
    tensors = [("token_embd.weight", HEAD_TYPE[kind], shape["vocab"], hidden), ("output_norm.weight", "F32", 0, hidden)]
    if hidden % TYPES[HEAD_TYPE[kind]][1]:
        tensors[0] = ("token_embd.weight", "Q8_0", shape["vocab"], hidden)
    for layer in range(shape["layers"]):
        parts = [("attn_norm", 0, hidden), ("ffn_norm", 0, hidden), ("attn_q", q, hidden), ("attn_k", kv, hidden), ("attn_v", kv, hidden),
                 ("attn_output", hidden, q), ("ffn_gate", inner, hidden), ("ffn_up", inner, hidden), ("ffn_down", hidden, inner)]
        if shape["arch"] == "qwen3":
            parts += [("attn_q_norm", 0, head_dim), ("attn_k_norm", 0, head_dim)]
        tensors += [(f"blk.{layer}.{name}.weight", kind if rows else "F32", rows, columns) for name, rows, columns in parts]
    return tensors


def tensor_bytes(kind, rows, columns):
    _, per_block, block_bytes, _ = TYPES[kind]
    if columns % per_block:
        raise SystemExit(f"models.py: rows of {columns} weights have no whole blocks of {kind}")
    return max(rows, 1) * columns // per_block * block_bytes


def decode_bytes(shape_name, kind):
    """What one step of decoding has to read of the weights: all of them, for the embedding is the output matrix."""
    return sum(tensor_bytes(*t[1:]) for t in make_tensors(SHAPES[shape_name], kind))


# ---- the file ----

def text(value):
    raw = value.encode()
    return struct.pack("<Q", len(raw)) + raw


def metadata(shape, kind, tokenizer):
    tokens, types, merges = tokenizer
    arch, pairs = shape["arch"], []

    def add(key, number, packed):
        pairs.append(text(key) + struct.pack("<I", number) + packed)

    def add_u32(key, value):
        add(key, 4, struct.pack("<I", value))

    def add_list(key, number, n, packed):
        add(key, 9, struct.pack("<IQ", number, n) + packed)

    add("general.architecture", 8, text(arch))
    add("general.name", 8, text("random weights"))
    add_u32("general.file_type", TYPES[kind][3])
    for key, value in (("context_length", shape["context"]), ("embedding_length", shape["hidden"]), ("block_count", shape["layers"]),
                       ("feed_forward_length", shape["inner"]), ("attention.head_count", shape["heads"]),
                       ("attention.head_count_kv", shape["kv_heads"]), ("attention.key_length", shape["head_dim"]),
                       ("attention.value_length", shape["head_dim"]), ("rope.dimension_count", shape["head_dim"])):
        add_u32(f"{arch}.{key}", value)
    add(f"{arch}.attention.layer_norm_rms_epsilon", 6, struct.pack("<f", 1e-6))
    add(f"{arch}.rope.freq_base", 6, struct.pack("<f", 1e6 if arch == "qwen3" else 1e5))
    add("tokenizer.ggml.model", 8, text("gpt2"))
    add("tokenizer.ggml.pre", 8, text("qwen2"))
    add_list("tokenizer.ggml.tokens", 8, len(tokens), b"".join(map(text, tokens)))
    add_list("tokenizer.ggml.token_type", 5, len(types), struct.pack(f"<{len(types)}i", *types))
    add_list("tokenizer.ggml.merges", 8, len(merges), b"".join(map(text, merges)))
    for key, token in (("eos", "<|im_end|>"), ("padding", "<|endoftext|>"), ("bos", "<|endoftext|>")):
        add_u32(f"tokenizer.ggml.{key}_token_id", tokens.index(token))
    add("tokenizer.ggml.add_bos_token", 7, b"\0")
    add("tokenizer.chat_template", 8, text(TEMPLATE))
    return len(pairs), b"".join(pairs)


def write_model(path, shape_name, kind, tokenizer_path=None, seed=0):
    shape = SHAPES[shape_name]
    real = tokenizer_path and shape_name == "qwen3-0.6b"
    tokenizer = real_tokenizer(tokenizer_path, shape["vocab"]) if real else made_tokenizer(shape["vocab"])
    tensors = make_tensors(shape, kind)
    n_pairs, pairs = metadata(shape, kind, tokenizer)
    head = struct.pack("<4sIQQ", b"GGUF", 3, len(tensors), n_pairs) + pairs
    at = 0
    for name, tensor_kind, rows, columns in tensors:
        dims = (columns, rows) if rows else (columns,)
        head += text(name) + struct.pack(f"<I{len(dims)}QIQ", len(dims), *dims, TYPES[tensor_kind][0], at)
        at += -(-tensor_bytes(tensor_kind, rows, columns) // ALIGNMENT) * ALIGNMENT
    kinds = {t[1] for t in tensors} - {"F32"}
    pools = {k: Pool(k, seed, sum(tensor_bytes(*t[1:]) for t in tensors if t[1] == k)) for k in kinds}
    partial = pathlib.Path(f"{path}.partial")
    with open(partial, "wb") as out:
        out.write(head + b"\0" * (-len(head) % ALIGNMENT))
        for _, tensor_kind, rows, columns in tensors:
            if tensor_kind == "F32":
                out.write(struct.pack("<f", 1) * columns)
            else:
                pools[tensor_kind].write(out, rows * columns)
            out.write(b"\0" * (-tensor_bytes(tensor_kind, rows, columns) % ALIGNMENT))
    partial.rename(path)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("out")
    parser.add_argument("--shape", choices=SHAPES, default="qwen3-0.6b")
    parser.add_argument("--type", choices=HEAD_TYPE, default="Q8_0")
    parser.add_argument("--tokenizer")
    parser.add_argument("--seed", type=int, default=0)
    args = parser.parse_args()
    write_model(args.out, args.shape, args.type, args.tokenizer, args.seed)


if __name__ == "__main__":
    main()
