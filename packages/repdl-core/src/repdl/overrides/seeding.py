"""`torch.seed` and its like, which take a seed from the machine's noise, while `repdl.enable()` holds.

`torch.Generator.seed` does too, and is a method of C that nothing can be put in place of.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from typing import Any
from unittest.mock import patch

import torch

from repdl.untraced import hide

_SEEDS = [
    *((torch, "seed"), (torch.random, "seed")),
    *((module, name) for module in (torch.cuda, torch.cuda.random) for name in ("seed", "seed_all")),
]


@contextmanager
def judged(met: Callable[[str, str, str], None]) -> Iterator[None]:
    """Until the end of the block, `met` hears the name of what is called, why it is refused, and what to call."""

    def in_place_of(function: Callable[..., Any], name: str) -> Callable[..., Any]:
        def call() -> Any:
            met(name, "its numbers are others in every run", "torch.manual_seed")
            return function()

        hide([call.__code__])
        return functools.update_wrapper(call, function)

    with ExitStack() as stack:
        for module, name in _SEEDS:
            call = in_place_of(getattr(module, name), f"{module.__name__}.{name}")
            stack.enter_context(patch.object(module, name, call))
        yield


__all__ = ["judged"]
