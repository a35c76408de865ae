"""Reference of `contract/v1/cast.md`: patterns as Python integers, of any format.

No floating-point arithmetic, and so no setting of the processor, has a part in it.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache

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
INTEGERS = {16: np.uint16, 32: np.uint32, 64: np.uint64}
SIGNED = {16: torch.int16, 32: torch.int32, 64: torch.int64}


def decode(magnitude: int, source: Format) -> tuple[int, int]:
    """A finite pattern without its sign as (m, e) with the value m * 2**e."""
    exponent, fraction = magnitude >> source.fraction, magnitude & ((1 << source.fraction) - 1)
    if exponent == 0:
        return fraction, source.least - source.fraction
    return fraction | (1 << source.fraction), source.least - source.fraction + exponent - 1


@lru_cache(maxsize=1 << 16)
def convert(bits: int, source: Format, target: Format) -> int:
    """The pattern of `target` nearest to a pattern of `source`, ties to even."""
    magnitude = bits & ((1 << (source.width - 1)) - 1)
    if magnitude > source.infinity:
        return target.infinity | (1 << (target.fraction - 1))
    m, e = decode(magnitude, source)
    top = (bits >> (source.width - 1)) << (target.width - 1)
    if magnitude == source.infinity:
        return top | target.infinity
    if m == 0:
        return top
    # The last place of the result: `fraction` below the leading bit, never below the subnormals'.
    last = max(e + m.bit_length() - 1, target.least) - target.fraction
    if e >= last:
        q = m << (e - last)
    else:
        q, rest, half = m >> (last - e), m & ((1 << (last - e)) - 1), 1 << (last - e - 1)
        q += rest > half or (rest == half and q & 1)
    # q = 2**fraction is the normal number with exponent field 1; a carry moves the field on.
    return top | min(target.infinity, ((last - target.least + target.fraction) << target.fraction) + q)


def cast(input: torch.Tensor, dtype: torch.dtype) -> torch.Tensor:
    source, target = FORMATS[input.dtype], FORMATS[dtype]
    x = input.detach().contiguous().view(SIGNED[source.width]).numpy().view(INTEGERS[source.width])
    patterns, where = np.unique(x.reshape(-1), return_inverse=True)
    values = np.array([convert(int(p), source, target) for p in patterns], INTEGERS[target.width])
    result = values[where.reshape(-1)].reshape(x.shape).view(INTEGERS[target.width])
    signed = torch.from_numpy(result.view(f"i{target.width // 8}"))
    return signed.view(dtype)


OPS = {"cast": cast}
