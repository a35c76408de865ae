"""Reference of `contract/v1/cast.md`: patterns as integers, of any format.

No floating-point arithmetic, and so no setting of the processor, has a part in it.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import torch


@dataclass(frozen=True)
class Format:
    """A binary format of IEEE 754's kind."""

    width: int
    fraction: int
    least: int
    """The exponent of the smallest normal number."""

    @property
    def infinity(self) -> int:
        return ((1 << (self.width - 1 - self.fraction)) - 1) << self.fraction


FORMATS = {
    torch.float32: Format(32, 23, -126),
    torch.float64: Format(64, 52, -1022),
    torch.bfloat16: Format(16, 7, -126),
    torch.float16: Format(16, 10, -14),
}
SIGNED = {16: torch.int16, 32: torch.int32, 64: torch.int64}


def bit_length(m: np.ndarray) -> np.ndarray:
    """How many bits each number has up to its highest one."""
    length = np.zeros(m.shape, np.int64)
    for step in (32, 16, 8, 4, 2, 1):
        longer = m >> (length + step) != 0
        length += step * longer
    return length + (m != 0)


def convert(bits: np.ndarray, source: Format, target: Format) -> np.ndarray:
    """The patterns of `target` nearest to patterns of `source`, ties to even, as int64: a double's sign is its own."""
    negative = bits >> (source.width - 1) & 1
    magnitude = bits & ((1 << (source.width - 1)) - 1)
    exponent, m = magnitude >> source.fraction, magnitude & ((1 << source.fraction) - 1)
    m = np.where(exponent == 0, m, m | (1 << source.fraction))
    e = source.least - source.fraction + np.maximum(exponent - 1, 0)  # the value is m * 2**e
    # The last place of the result: `fraction` below the leading bit, never below the subnormals'.
    last = np.maximum(e + bit_length(m) - 1, target.least) - target.fraction
    left, right = np.clip(e - last, 0, 53), np.clip(last - e, 0, 62)
    q, rest, half = (m << left) >> right, m & ((1 << right) - 1), (1 << right) >> 1
    q = q + (right > 0) * ((rest > half) | ((rest == half) & (q & 1 != 0)))
    # q = 2**fraction is the normal number with exponent field 1; a carry moves the field on.
    field = np.minimum(((last - target.least + target.fraction) << target.fraction) + q, target.infinity)
    field = np.select([m == 0, magnitude == source.infinity], [0, target.infinity], field)
    nan = target.infinity | (1 << (target.fraction - 1))
    return np.where(magnitude > source.infinity, nan, negative << (target.width - 1) | field)


def cast(input: torch.Tensor, dtype: torch.dtype) -> torch.Tensor:
    source, target = FORMATS[input.dtype], FORMATS[dtype]
    bits = input.detach().contiguous().view(SIGNED[source.width]).numpy().astype(np.int64)
    result = convert(bits, source, target).astype(f"i{target.width // 8}")
    return torch.from_numpy(result).view(dtype)


OPS = {"cast": cast}
