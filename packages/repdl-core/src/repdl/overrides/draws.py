"""torch's random numbers while `repdl.enable()` holds: those of `repdl.random`, at the position that torch's generator
says.

The seed of a `torch.Generator` is the seed of the numbers. How many were drawn is kept in the generator's own state, so
that `torch.manual_seed`, `get_state` and `set_state`, copies, forks and checkpoints mean what they always mean. A
generator that torch itself has drawn from before begins at the first number of its seed.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import numpy as np
import torch

from repdl import ops, random
from repdl.errors import UnsupportedError
from repdl.random._lock import ForkLock
from repdl.random.generator import Generator

Tensor = torch.Tensor
_LEFT, _STATE = 1, 3  # the seed, what is left, the next one, the state: 64-bit words of the state of a generator of the CPU
_MARK = [0x5265_7044, 0x4C2D_6472, 0x6177_732E]
"""Behind the two words of the offset, in the state of torch's Mersenne Twister, which never draws meanwhile."""
_FRESH = 1 << 32 | 1  # the words of a state are all to be made anew
_BYTES = 5056
_lock = ForkLock()


class _Thread(threading.local):
    generator: Generator | None = None
    draws = False


_THREAD = _Thread()


@contextmanager
def drawn(given: torch.Generator | None) -> Iterator[Generator]:
    """A generator of RepDL where torch's is, which goes on with it."""
    source = torch.default_generator if given is None else given
    if source.device.type != "cpu":
        raise UnsupportedError(f"repdl.enable: a generator on {source.device}, expected one on the CPU")
    if _THREAD.draws:
        raise UnsupportedError("repdl.enable: a draw from torch's generator within another one of the same thread")
    with _lock:
        state = source.get_state()
        words = state.numpy().view(np.uint64)
        if len(words) * 8 != _BYTES:
            raise UnsupportedError(f"repdl.enable: a generator of torch {torch.__version__} has an unknown state")
        seed, _, _, high, low, *mark = words[: _STATE + 5].tolist()
        offset = high << 32 | low if mark == _MARK else 0
        generator = _THREAD.generator
        if generator is None:
            generator = _THREAD.generator = Generator()
        generator._set([(seed ^ 1 << 63) - (1 << 63), 0, offset, 0])
        _THREAD.draws = True
        try:
            yield generator
        finally:
            _THREAD.draws = False
        if generator.offset != offset:
            offset = generator.offset
            words[_LEFT : _STATE + 5] = _FRESH, 0, offset >> 32, offset & 0xFFFFFFFF, *_MARK
            source.set_state(state)


def _drawing(function: Callable[..., Any]) -> Callable[..., Any]:
    def call(*args: Any, generator: torch.Generator | None = None, **kwargs: Any) -> Any:
        with drawn(generator) as ours:
            return function(*args, generator=ours, **kwargs)

    return call


def _sampled(name: str) -> Callable[..., Any]:
    return _drawing(getattr(random, name))


def _dropout(name: str) -> Callable[..., Any]:
    function = getattr(ops, name)

    def call(input: Tensor, p: float, train: bool) -> Tensor:
        if not train or p == 0:
            return function(input, p, train)  # type: ignore[no-any-return]
        with drawn(None) as ours:
            return function(input, p, train, generator=ours)  # type: ignore[no-any-return]

    return call


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
    call = ops.scaled_dot_product_attention
    if dropout_p == 0:
        return call(query, key, value, attn_mask, 0.0, is_causal, scale, enable_gqa)
    with drawn(None) as ours:
        return call(query, key, value, attn_mask, dropout_p, is_causal, scale, enable_gqa, generator=ours)


def _rrelu(
    input: Tensor,
    lower: float = 0.125,
    upper: float = 1 / 3,
    training: bool = False,
    generator: torch.Generator | None = None,
) -> Tensor:
    if not training:
        return ops.rrelu(input, lower, upper)
    with drawn(generator) as ours:
        return ops.rrelu(input, lower, upper, training, generator=ours)


DRAWS: dict[str, Callable[..., Any]] = {
    **{f"{name}_": _sampled(f"{name}_") for name in ("uniform", "normal", "random", "bernoulli", "exponential")},
    **{f"{name}_": _sampled(f"{name}_") for name in ("cauchy", "log_normal", "geometric")},
    **{name: _sampled(name) for name in ("bernoulli", "multinomial", "poisson", "randperm", "normal")},
    **{name: _dropout(name) for name in ("dropout", "alpha_dropout", "feature_dropout", "feature_alpha_dropout")},
    "rrelu": _rrelu,
    "scaled_dot_product_attention": _attention,
}
"""By torch's name; those that end in an underscore write into their first argument themselves."""

__all__ = ["DRAWS", "drawn"]
