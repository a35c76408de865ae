"""Cases of cast: every pair of dtypes, ties and their neighbours, the ends of the range, NaN payloads."""

from __future__ import annotations

import numpy as np
import torch

from repdl.testing.cases import Case
from repdl.testing.inputs import integers, uniform

DTYPES = {"f32": torch.float32, "f64": torch.float64, "bf16": torch.bfloat16, "f16": torch.float16}
INTEGERS = {2: np.int16, 4: np.int32, 8: np.int64}


def patterns(dtype: torch.dtype, values: np.ndarray) -> torch.Tensor:
    """Elements of `dtype` from the low bits of unsigned 64-bit integers."""
    return torch.from_numpy(values.astype(np.uint64).astype(INTEGERS[dtype.itemsize])).view(dtype)


def everywhere(dtype: torch.dtype, n: int = 4096) -> torch.Tensor:
    """Patterns spread over the whole format, NaN among them; of a 16-bit float, all of them."""
    if dtype.itemsize == 2:
        return patterns(dtype, np.arange(1 << 16, dtype=np.uint64))
    return patterns(dtype, integers(7, n))


def ties(wide: torch.dtype, narrow: torch.dtype) -> torch.Tensor:
    """Midpoints of neighbours of `narrow` in `wide`, and what lies one step beside them.

    Every seventh pattern of a 16-bit float, and of float32 patterns spread over the format.
    """
    if narrow.itemsize == 2:
        base = np.arange(0, 1 << 16, 7, dtype=np.uint64)
    else:
        base = np.concatenate([integers(8, 1000) & np.uint64(0xFFFFFFFF), np.arange(40, dtype=np.uint64)])
    step = {torch.float32: np.int32, torch.float64: np.int64}[wide]
    low, high = (widen(patterns(narrow, base + np.uint64(k)), wide) for k in (0, 1))
    with np.errstate(all="ignore"):
        middle = low + (high - low) / np.array(2, low.dtype)
    bits = middle[np.isfinite(middle)].view(step)
    return torch.from_numpy(np.concatenate([bits, bits + step(1), bits - step(1)])).view(wide)


def widen(x: torch.Tensor, dtype: torch.dtype) -> np.ndarray:
    """Exact, by numpy: bfloat16 is the upper half of a float32."""
    if x.dtype is torch.bfloat16:
        values = (x.view(torch.int16).numpy().astype(np.uint32) << np.uint32(16)).view(np.float32)
    else:
        values = x.numpy()
    with np.errstate(all="ignore"):
        return np.asarray(values.astype({torch.float32: np.float32, torch.float64: np.float64}[dtype]))


NARROWER = [("f64", "f32"), ("f64", "bf16"), ("f64", "f16"), ("f32", "bf16"), ("f32", "f16")]

CASES = [
    *(Case("cast", f"{a}_{b}", lambda a=a, b=b: (everywhere(DTYPES[a]), DTYPES[b])) for a in DTYPES for b in DTYPES),
    *(Case("cast", f"{a}_{b}_ties", lambda a=a, b=b: (ties(DTYPES[a], DTYPES[b]), DTYPES[b])) for a, b in NARROWER),
    Case("cast", "values", lambda: (uniform(1, 1037), torch.bfloat16)),
    Case("cast", "strided", lambda: (uniform(2, 30, 9)[::2, 1::3], torch.float16)),
    Case("cast", "transposed", lambda: (everywhere(torch.bfloat16)[:60].reshape(6, 10).t(), torch.float32)),
    Case("cast", "special", lambda: (uniform(3, 90, special=True), torch.bfloat16)),
    Case("cast", "empty", lambda: (uniform(2, 0, 5), torch.bfloat16)),
    Case("cast", "dim_0", lambda: (uniform(2).double(), torch.float16)),
]
