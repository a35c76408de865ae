"""Words, integers and permutations (random.md): known answers, positions, errors."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import torch

from repdl.errors import RepDLError
from repdl.reference.sampling.random import philox
from repdl.registry import OPS, functions
from repdl.testing import assert_same_bits
from repdl.testing.cases.sampling.random import like, position

KNOWN_ANSWERS = [
    ((0, 0, 0, 0), (0, 0), (0x6627E8D5, 0xE169C58D, 0xBC57AC4C, 0x9B00DBD8)),
    ((0xFFFFFFFF,) * 4, (0xFFFFFFFF,) * 2, (0x408F276D, 0x41C83B0E, 0xA20BC7C6, 0x6D5451FD)),
    (
        (0x243F6A88, 0x85A308D3, 0x13198A2E, 0x03707344),
        (0xA4093822, 0x299F31D0),
        (0xD16CFE09, 0x94FDCCEB, 0x5001E420, 0x24126EA1),
    ),
]
"""Counter, key, block: philox4x32-10 of Random123's kat_vectors."""


@pytest.mark.parametrize(("counter", "key", "block"), KNOWN_ANSWERS)
def test_random__known_answers(counter: tuple[int, ...], key: tuple[int, int], block: tuple[int, ...]) -> None:
    assert tuple(int(word) for word in philox(counter, key)) == block


def test_random__words_are_those_of_the_counter() -> None:
    """Row by row as the text says it, with Python's integers."""
    for seed, stream, offset in ((1, 0, 0), (-2, 2**48 - 1, 2**34 - 3), (2**62 + 5, 2**32 + 9, 2**63 - 9)):
        for plane in (0, 65535):
            drawn = functions.random_words(like(9, dtype=torch.int32), torch.tensor([seed, stream, offset]), plane)
            for i in range(9):
                block, low = divmod(offset + i, 4)
                counter = (block % 2**32, block >> 32, stream % 2**32, (stream >> 32) * 2**16 + plane)
                key = seed % 2**64 % 2**32, seed % 2**64 >> 32
                assert int(philox(counter, key)[low]) == int(drawn[i]) % 2**32


DRAWS: dict[str, Callable[[torch.Tensor, torch.Tensor], torch.Tensor]] = {
    "words": lambda like, at: functions.random_words(like, at, 1),
    "integers": lambda like, at: functions.random_integers(like, at, -5, 10**12),
    "rejected": lambda like, at: functions.random_integers(like, at, 0, 3 * 2**30),
}


@pytest.mark.parametrize("name", DRAWS)
def test_random__parts_are_the_whole(name: str) -> None:
    dtype = torch.int32 if name == "words" else torch.int64
    assert_parts(lambda n, at: DRAWS[name](like(n, dtype=dtype), at))


def assert_parts(draw: Callable[[int, torch.Tensor], torch.Tensor]) -> None:
    """Drawing some and then the rest equals drawing all, from any position."""
    for start in ((3, 5, 0), (-1, 2**40, 2**34 - 10), (0, 0, 2**63 - 20)):
        seed, stream, offset = start
        whole = draw(20, torch.tensor(start))
        for first in (0, 1, 7, 10, 13, 20):
            parts = (
                draw(first, torch.tensor(start)),
                draw(20 - first, torch.tensor([seed, stream, min(offset + first, 2**63 - 1)])),
            )
            assert_same_bits(torch.cat(parts), whole, f"{start}, {first} and {20 - first}")


@pytest.mark.parametrize("n", [0, 1, 2, 5, 1000, 30_000])
def test_random__permutation_sorts_the_keys(n: int) -> None:
    at = torch.tensor([9, 1, 6])
    high, low = (
        functions.random_words(like(n, dtype=torch.int32), at, plane).numpy().view(np.uint32).astype(np.uint64)
        for plane in (0, 1)
    )
    expected = np.argsort(high << np.uint64(32) | low, kind="stable")
    order = functions.random_permutation(like(n, dtype=torch.int64), at)
    assert order.tolist() == expected.tolist()


WRONG: dict[str, tuple[str, Callable[[], Any], str]] = {
    "position_dtype": ("random_words", lambda: (torch.zeros(3), 0), "position.dtype is float32, expected int64"),
    "position_shape": ("random_words", lambda: (torch.zeros(2, dtype=torch.int64), 0), r"position.shape is \(2,\)"),
    "stream": ("random_words", lambda: (torch.tensor([0, 2**48, 0]), 0), r"stream, is 281474976710656, expected 0 to"),
    "negative_stream": ("random_words", lambda: (torch.tensor([0, -1, 0]), 0), "stream, is -1"),
    "offset": ("random_words", lambda: (torch.tensor([0, 0, -1]), 0), r"offset, is -1, expected 0 to 2\*\*63 - 4"),
    "too_far": ("random_words", lambda: (torch.tensor([0, 0, 2**63 - 3]), 0), "go on with another stream"),
    "plane": ("random_words", lambda: (position(), 65536), "plane is 65536, expected 0 to 65535"),
    "empty_range": ("random_integers", lambda: (position(), 3, 3), "low is 3 and high is 3, expected low < high"),
}


@pytest.mark.parametrize("name", WRONG)
def test_random__errors(name: str) -> None:
    op, make, message = WRONG[name]
    dtype = torch.int32 if op == "random_words" else torch.int64
    with pytest.raises(RepDLError, match=f"{op}: .*{message}"):
        OPS[op].overload(like(4, dtype=dtype), *make())


def test_random__dtype_of_like() -> None:
    with pytest.raises(RepDLError, match="random_words: like.dtype is float32, expected int32"):
        functions.random_words(like(3), position(), 0)
    with pytest.raises(RepDLError, match=r"random_permutation: like.dim\(\) is 2"):
        functions.random_permutation(like(3, 2, dtype=torch.int64), position())


def test_random__the_position_is_on_the_cpu() -> None:
    with torch._subclasses.FakeTensorMode():
        on_gpu = torch.empty(3, dtype=torch.int64, device="cuda")
        with pytest.raises(RepDLError, match="random_words: position is on cuda:0, expected cpu"):
            functions.random_words(torch.empty(4, dtype=torch.int32, device="cuda"), on_gpu, 0)
        drawn = functions.random_words(torch.empty(4, dtype=torch.int32, device="cuda"), on_gpu.cpu(), 0)
        assert drawn.device.type == "cuda"


def test_random__like_is_never_read() -> None:
    """Nor kept: what it holds changes nothing, and its strides neither."""
    dense = torch.arange(12, dtype=torch.int32).reshape(3, 4)
    results = [
        functions.random_words(x, position(), 0) for x in (dense, dense.t().clone().t(), like(3, 4, dtype=dense.dtype))
    ]
    assert all(r.is_contiguous() for r in results)
    assert_same_bits(results[1:], [results[0]] * 2)
