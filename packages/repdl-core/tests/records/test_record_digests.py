"""The fast digest of a record: what its definition says, of every length, and of every bit."""

from __future__ import annotations

import hashlib
from collections.abc import Callable
from pathlib import Path

import pytest
import torch

from repdl.callcache.extension import c_extension
from repdl.records import diff, record
from repdl.records.entries import Tensor
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


def unmixed(word: int) -> int:
    word = (word ^ word >> 32) * pow(int(FACTOR), -1, 1 << 64) & MASK
    return word ^ word >> 32


def test_digest__of_two_tensors_that_somebody_has_made(tmp_path: Path) -> None:
    """The short digests are equal, and `diff` believes them; where both records have SHA-256, it does not."""
    mine = torch.tensor([1.5, -2.0, 0.25, 3.0])
    first, second = mine.view(torch.int64).tolist()
    step = int(STEP)
    words = (mix(first + step & MASK) + mix(second + 2 * step & MASK)) & MASK
    other = torch.tensor([7.0, 8.0]).view(torch.int64).item()
    made = unmixed((words - mix(other + step & MASK)) & MASK) - 2 * step & MASK
    signed = made - (1 << 64) if made >> 63 else made
    yours = torch.tensor([other, signed]).view(torch.float32)
    assert fast_digest(mine) == fast_digest(yours) and not torch.equal(mine, yours)
    for sha256, status in ((False, 0), (True, 1)):
        for name, x in (("mine", mine), ("yours", yours)):
            with record(tmp_path / name, sha256=sha256):
                x.view(2, 2).view(4)
        found = diff(tmp_path / "mine", tmp_path / "yours")
        assert found.status == status and found.compared == 2, [f.text for f in found.findings]
    noted = found.a.entries[0].inputs[0]
    assert noted.sha256 == hashlib.sha256(mine.numpy().tobytes()).hexdigest()
    assert Tensor.from_json(noted.as_json()) == noted
