"""Makes blocks.bin: numbers, and what the quantisers of the `gguf` package make of them. pip install gguf==0.19.0 numpy==2.4.6; python make_blocks.py

96 blocks of 32 float32, then for Q8_0, Q4_0, Q4_1, Q5_0, Q5_1 in this order the 96 blocks of that type. The numbers: normal ones of many sizes, heavy
tails, one sign only, few values (many ties of rounding), zeros, a constant."""
import pathlib

import gguf
import numpy as np

N = 96
rng = np.random.default_rng(20261129)
normal = rng.standard_normal((40, 32)) * 10.0 ** rng.uniform(-5, 3, (40, 1))
tails = rng.standard_t(2, (20, 32))
one_sign = np.abs(rng.standard_normal((16, 32))) * rng.choice([-1, 1], (16, 1)) + rng.choice([0, 2], (16, 1))
few = rng.integers(-16, 17, (16, 32)) / 8.0
flat = np.array([[0.0] * 32, [1.5] * 32, [-1.5] * 32, [0.0] * 31 + [1.0]])
x = np.concatenate([normal, tails, one_sign, few, flat]).astype("<f4")
assert x.shape == (N, 32)

parts = [x.tobytes()]
for name in ("Q8_0", "Q4_0", "Q4_1", "Q5_0", "Q5_1"):
    parts.append(gguf.quantize(x, gguf.GGMLQuantizationType[name]).tobytes())
pathlib.Path(__file__).with_name("blocks.bin").write_bytes(b"".join(parts))
