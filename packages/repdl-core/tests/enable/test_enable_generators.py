"""`repdl.enable`: the numbers of torch's generators, on a GPU too, of which there need not be one."""

from __future__ import annotations

import struct

import pytest
import torch

import repdl
from repdl.errors import OutOfRangeError, UnsupportedError
from repdl.overrides.draws import torch_generator

STATE = struct.Struct("=qQ")


class OnDevice:
    """A generator on a GPU, as far as its state goes: seed and offset, which torch's kernels take in steps of 4."""

    device = torch.device("cuda", 0)

    def __init__(self, seed: int) -> None:
        self.state = STATE.pack(seed, 0)

    def get_state(self) -> torch.Tensor:
        return torch.frombuffer(bytearray(self.state), dtype=torch.uint8)

    def set_state(self, state: torch.Tensor) -> None:
        assert state.dtype is torch.uint8 and state.shape == (STATE.size,)
        assert STATE.unpack(bytes(state.numpy()))[1] % 4 == 0
        self.state = bytes(state.numpy())


def test_generators__numbers_on_a_gpu_are_those_of_the_seed() -> None:
    expected = repdl.random.randn(9, generator=repdl.random.Generator(-(2**60) % 2**64))
    source = OnDevice(-(2**60))
    first = repdl.random.randn(2, generator=torch_generator(source))
    state = source.get_state()
    numbers = torch_generator(source)
    rest = torch.cat([repdl.random.randn(n, generator=numbers) for n in (3, 4)])
    assert torch.equal(torch.cat([first, rest]), expected)
    source.set_state(state)
    assert torch.equal(repdl.random.randn(7, generator=torch_generator(source)), rest)


def test_generators__that_torch_drew_from_on_a_gpu_begins() -> None:
    source = OnDevice(5)
    source.set_state(torch.frombuffer(bytearray(STATE.pack(5, 4 * 2**33)), dtype=torch.uint8))
    expected = repdl.random.randn(2, generator=repdl.random.Generator(5))
    assert torch.equal(repdl.random.randn(2, generator=torch_generator(source)), expected)


def test_generators__left_on_a_gpu() -> None:
    source = OnDevice(5)
    numbers = torch_generator(source)
    numbers.position(2**46 - 2)
    before = source.state
    with pytest.raises(OutOfRangeError, match=r"offset is 70368744177664, expected less than 2\*\*46"):
        numbers.position(2)
    assert source.state == before
    assert numbers.position(1).tolist() == [5, 0, 2**46 - 2]


def test_generators__numbers_beyond_32_bits_of_the_offset() -> None:
    """Around each power of 2 that a word of a state could end at, from torch's generators on both devices."""
    seen = set()
    with repdl.enabled(), torch.random.fork_rng():
        for power in (31, 32, 33, 34, 40, 45, 48, 62):
            offset = 2**power - 3
            for source in (torch.default_generator, torch.Generator(), OnDevice(5)):
                if isinstance(source, OnDevice) and power > 45:
                    continue
                if isinstance(source, torch.Generator):
                    source.manual_seed(5)
                torch_generator(source).position(offset)  # as if so many were drawn
                state = torch.tensor([5, 0, offset, 0])
                expected = repdl.random.rand(9, generator=repdl.random.Generator(5).set_state(state))
                if isinstance(source, OnDevice):
                    found = [repdl.random.rand(n, generator=torch_generator(source)) for n in (4, 5)]
                else:
                    source.set_state(source.get_state().clone())
                    given = None if source is torch.default_generator else source
                    found = [torch.rand(n, generator=given) for n in (4, 5)]
                assert torch.equal(torch.cat(found), expected), f"{source}, from 2**{power} - 3 on"
                seen.add(tuple(expected.tolist()))
    assert len(seen) == 8


@pytest.mark.parametrize("device", ["xpu", "mps"])
def test_generators__of_other_devices_are_refused(device: str) -> None:
    source = OnDevice(5)
    source.device = torch.device(device)
    with pytest.raises(UnsupportedError, match=f"a generator on {device}, expected one on cpu or cuda"):
        torch_generator(source)


def test_generators__unknown_states_are_refused() -> None:
    source = OnDevice(5)
    source.state = source.state[:8]
    with pytest.raises(UnsupportedError, match="has an unknown state"):
        torch_generator(source).position(1)


def test_generators__a_draw_in_a_capture_raises(monkeypatch: pytest.MonkeyPatch) -> None:
    """Each replay of the graph would have the same numbers."""
    source, x = torch.Generator().manual_seed(3), torch.ones(8)
    with repdl.enabled():
        for _ in range(3):  # the last one is replayed
            torch.nn.functional.dropout(x)
        before = source.get_state(), torch.get_rng_state(), repdl.random.default_generator.get_state()
        monkeypatch.setattr(torch.cuda, "is_initialized", lambda: True)
        monkeypatch.setattr(torch.cuda, "is_current_stream_capturing", lambda: True)
        for draw in (
            lambda: torch.nn.functional.dropout(x),
            lambda: torch.randn(3),
            lambda: torch.randn(3, generator=source),
            lambda: repdl.random.randn(3),
            lambda: repdl.ops.dropout(x),
        ):
            with pytest.raises(UnsupportedError, match="a draw while a CUDA graph is captured"):
                draw()
        monkeypatch.undo()
        after = source.get_state(), torch.get_rng_state(), repdl.random.default_generator.get_state()
    assert all(torch.equal(a, b) for a, b in zip(before, after))
