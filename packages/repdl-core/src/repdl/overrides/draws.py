"""torch's random numbers while `repdl.enable()` holds: those of `repdl.random`, at the position that torch's generator
says.

The seed of a `torch.Generator` is the seed of the numbers. How many were drawn is kept in the generator's own state, so
that `torch.manual_seed`, `get_state` and `set_state`, copies, forks and checkpoints mean what they always mean. A
generator that torch itself has drawn from before begins at the first number of its seed. Draws without a generator are
those of torch's default one on the CPU, on every device: a program draws the same numbers wherever it runs.
"""

from __future__ import annotations

import struct
from collections.abc import Callable
from typing import Any

import torch
from torch import _C

from repdl import ops, random
from repdl.callcache import cache_calls, record_draw
from repdl.errors import UnsupportedError, check_range
from repdl.generators.generator import Generator, check_capture, check_left, check_transforms
from repdl.generators.lock import ForkLock
from repdl.overrides.torchs import is_within

Tensor = torch.Tensor
_READ, _WRITTEN, _WRITTEN_FROM = struct.Struct("=q16x5Q"), struct.Struct("=7Q"), 8
"""Of the 64-bit words of a generator's state, which are the seed, what is left, the next one, the state: those that are
read, and those that are written, from a byte on."""
_POSITION = struct.Struct("=3q")
_MARK = [0x5265_7044, 0x4C2D_6472, 0x6177_732E]
"""Behind the two words of the offset, in the state of torch's Mersenne Twister, which never draws meanwhile."""
_FRESH = 1 << 32 | 1  # the words of a state are all to be made anew
_ON_DEVICE = struct.Struct("=qQ")
"""The state of a generator on a GPU: the seed, and an offset, which torch wants to be a multiple of 4."""
_DEVICE_MARK, _DEVICE_BITS = 0x5265, 46
"""Above the offset of those bits."""
_lock = ForkLock()


class TorchNumbers(Generator):
    """Draws at the position that a generator of torch says, which goes on after them."""

    _BYTES = 5056

    def __init__(self, source: torch.Generator) -> None:
        super().__init__(0)
        self._source = source

    def position(self, count: int) -> Tensor:
        """As of `Generator`."""
        if _C._len_torch_dispatch_stack():  # traced, perhaps: an op, which stays where it is among the others
            if self is _default:
                return torch.ops.repdl.torchs_position(count)
            if _C._get_dispatch_mode(_C._TorchDispatchModeKey.PROXY) is not None:
                raise UnsupportedError(
                    "torch.compile: a draw from a torch.Generator in compiled code, expected torch's default one; or "
                    "draw before the compiled code, and pass it the numbers"
                )
        return self.taken(count)

    def taken(self, count: int) -> Tensor:
        """The same, here and now."""
        check_capture()
        with _lock:
            state = self._source.get_state()
            words: Any = state.numpy()
            if words.nbytes != self._BYTES:
                raise UnsupportedError(
                    f"repdl.enable: a generator on {self._source.device} of torch {torch.__version__} has an unknown "
                    f"state"
                )
            seed, offset = self._read(words)
            if _C._len_torch_dispatch_stack():
                self._set([seed, 0, offset, 0])
                position = super().position(count)
            else:
                check_transforms()
                check_left(count, offset)
                position = torch.frombuffer(bytearray(_POSITION.pack(seed, 0, offset)), dtype=torch.int64)
            if count:
                self._write(words, offset + count)
                self._source.set_state(state)
        if self is _default:
            record_draw(position, self.position, count)
        return position

    def _read(self, words: Any) -> tuple[int, int]:
        """Seed and offset of a state."""
        seed, high, low, *mark = _READ.unpack_from(words)
        return seed, high << 32 | low if mark == _MARK else 0

    def _write(self, words: Any, offset: int) -> None:
        _WRITTEN.pack_into(words, _WRITTEN_FROM, _FRESH, 0, offset >> 32, offset & 0xFFFFFFFF, *_MARK)


class DeviceNumbers(TorchNumbers):
    """The same of a generator on a GPU, whose state is on the host too."""

    _BYTES = _ON_DEVICE.size

    def _read(self, words: Any) -> tuple[int, int]:
        seed, kept = _ON_DEVICE.unpack_from(words)
        mark, offset = divmod(kept // 4, 2**_DEVICE_BITS)
        return seed, offset if mark == _DEVICE_MARK else 0

    def _write(self, words: Any, offset: int) -> None:
        check_range(
            "repdl.enable",
            offset < 2**_DEVICE_BITS,
            lambda: f"offset is {offset}, expected less than 2**{_DEVICE_BITS}",
        )
        seed, _ = _ON_DEVICE.unpack_from(words)
        _ON_DEVICE.pack_into(words, 0, seed, (_DEVICE_MARK << _DEVICE_BITS | offset) * 4)


class _DefaultNumbers(TorchNumbers):
    """The same of torch's default generator; for a converted model RepDL's default one, from which its layers draw."""

    def position(self, count: int) -> Tensor:
        """As of `Generator`."""
        if not is_within():
            return super().position(count)
        position = random.default_generator.position(count)
        record_draw(position, self.position, count)  # whichever of the two it is in a later call
        return position


_NUMBERS = {"cpu": TorchNumbers, "cuda": DeviceNumbers}
_default = _DefaultNumbers(torch.default_generator)
_library = torch.library.Library("repdl", "FRAGMENT")
_library.define("torchs_position(SymInt count) -> Tensor", tags=(torch.Tag.nondeterministic_seeded,))
_library.impl("torchs_position", lambda count: _default.taken(count), "CompositeExplicitAutograd")
torch.library.register_fake(
    "repdl::torchs_position", lambda count: torch.empty(3, dtype=torch.int64, device="cpu"), lib=_library
)


def torch_generator(given: torch.Generator | None) -> Generator:
    """The numbers of a generator of torch, of its default one for None."""
    if given is None or given is torch.default_generator:
        return _default
    if is_within():
        raise UnsupportedError(
            f"a converted model draws from a torch.Generator on {given.device}, expected none, for the default one of "
            f"repdl.random; or call a function of repdl.random with a repdl.random.Generator"
        )
    if given.device.type not in _NUMBERS:
        raise UnsupportedError(f"repdl.enable: a generator on {given.device}, expected one on {' or '.join(_NUMBERS)}")
    return _NUMBERS[given.device.type](given)


def _drawing(function: Callable[..., Any]) -> Callable[..., Any]:
    def call(*args: Any, generator: torch.Generator | None = None, **kwargs: Any) -> Any:
        return function(*args, generator=torch_generator(generator), **kwargs)

    return call


def _sampled(name: str) -> Callable[..., Any]:
    return _drawing(getattr(random, name))


def _dropout(name: str) -> Callable[..., Any]:
    function = getattr(ops, name)

    def call(input: Tensor, p: float, train: bool) -> Tensor:
        return function(input, p, train, generator=torch_generator(None))

    return call


@cache_calls
def _attention(
    query: Tensor,
    key: Tensor,
    value: Tensor,
    attn_mask: Tensor | None = None,
    dropout_p: float = 0.0,
    is_causal: bool = False,
    *,
    scale: float | None = None,
    enable_gqa: bool = False,
) -> Tensor:
    options = attn_mask, dropout_p, is_causal, scale, enable_gqa
    if dropout_p == 0:
        return ops.scaled_dot_product_attention(query, key, value, *options)
    return ops.scaled_dot_product_attention(query, key, value, *options, generator=torch_generator(None))


def _rrelu(
    input: Tensor,
    lower: float = 0.125,
    upper: float = 1 / 3,
    training: bool = False,
    generator: torch.Generator | None = None,
) -> Tensor:
    return ops.rrelu(input, lower, upper, training, generator=torch_generator(generator))


DRAWS: dict[str, Callable[..., Any]] = {
    **{f"{name}_": _sampled(f"{name}_") for name in ("uniform", "normal", "random", "bernoulli", "exponential")},
    **{f"{name}_": _sampled(f"{name}_") for name in ("cauchy", "log_normal", "geometric")},
    **{name: _sampled(name) for name in ("bernoulli", "multinomial", "poisson", "randperm", "normal")},
    "dropout": cache_calls(_dropout("dropout")),
    **{name: _dropout(name) for name in ("alpha_dropout", "feature_dropout", "feature_alpha_dropout")},
    "rrelu": _rrelu,
    "scaled_dot_product_attention": _attention,
}
"""By torch's name; those that end in an underscore write into their first argument themselves."""

__all__ = ["DRAWS", "torch_generator"]
