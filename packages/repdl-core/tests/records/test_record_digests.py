"""The fast digest of a record: what its definition says, of every length, and of every bit."""

from __future__ import annotations

from collections.abc import Callable

import pytest
import torch

from repdl.callcache.extension import c_extension
from repdl.records.hashing import FACTOR, STEP, by_numpy, digest_of_bytes, fast_digest, mix

MASK = (1 << 64) - 1
RECORDED = ["0000000000000000", "dd88fc732d093315", "736017c50a983245"]


def by_definition(raw: bytes) -> int:
    total = len(raw)
    for i in range(0, len(raw), 8):
        word = int.from_bytes(raw[i : i + 8].ljust(8, b"\0"), "little")
        total += mix((word + (i // 8 + 1) * int(STEP)) & MASK)
    return mix(total & MASK)


def test_digest__is_in_c() -> None:
    if c_extension() is None:
        pytest.skip("no call cache here")
    assert digest_of_bytes is not by_numpy


@pytest.mark.parametrize("digest", [digest_of_bytes, by_numpy])
def test_digest__values(digest: Callable[[bytes], int]) -> None:
    """As recorded: files of other versions and machines have them."""
    assert [f"{digest(raw):016x}" for raw in (b"", b"a", bytes(range(100)))] == RECORDED


@pytest.mark.parametrize("length", [1, 7, 8, 9, 1000, 8 * 16384 - 1, 8 * 16384, 8 * 16384 + 1, 400_003])
def test_digest__is_its_definition(length: int) -> None:
    raw = bytes((7 * i * i + i // 13) % 251 for i in range(length))
    assert digest_of_bytes(raw) == by_numpy(raw) == by_definition(raw)


def test_digest__mix_is_one_to_one() -> None:
    inverse = pow(int(FACTOR), -1, 1 << 64)
    for word in (0, 1, 0x123456789ABCDEF0, MASK, 1 << 63):
        mixed = mix(word)
        back = (mixed ^ mixed >> 32) * inverse & MASK
        assert back ^ back >> 32 == word


def test_digest__every_bit_counts() -> None:
    raw = bytearray(range(64))
    found = {digest_of_bytes(bytes(raw))}
    for bit in range(8 * len(raw)):
        raw[bit // 8] ^= 1 << bit % 8
        found.add(digest_of_bytes(bytes(raw)))
        raw[bit // 8] ^= 1 << bit % 8
    found |= {digest_of_bytes(bytes(raw)[:n]) for n in range(len(raw))} | {digest_of_bytes(bytes(raw)[::-1])}
    assert len(found) == 1 + 8 * len(raw) + len(raw) + 1


def test_digest__of_elements_and_not_of_memory() -> None:
    x = torch.arange(24.0).reshape(4, 6)
    same = x, x.t().contiguous().t(), torch.arange(48.0).reshape(4, 12)[:, ::2] / 2
    assert len({fast_digest(t) for t in same}) == 1
    zero, nan = torch.zeros(3), torch.full((3,), torch.nan)
    assert fast_digest(zero) != fast_digest(-zero)
    assert fast_digest(nan) != fast_digest(nan.view(torch.int32).add(1).view(torch.float32))
    z = torch.tensor([1 + 2j, 3 - 1j])
    assert fast_digest(z.conj()) == fast_digest(z.conj().resolve_conj()) != fast_digest(z)
