"""Functions of torch that are no ops and make numbers differ, while `repdl.enable()` holds: settings of a process.

`torch.seed` and its like take a seed from the machine's noise; `torch.Generator.seed` does too, and is a method of C
that nothing can be put in place of. A thread that flushes subnormal numbers does so in torch's comparisons and
conversions, which stay torch's.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from typing import Any
from unittest.mock import patch

import torch

from repdl.dynamo import set_dynamo_skip

_Report = Callable[[str, str, str], None]
_SEEDS = [
    *((torch, "seed"), (torch.random, "seed")),
    *((module, name) for module in (torch.cuda, torch.cuda.random) for name in ("seed", "seed_all")),
]
FLUSHES = "torch's comparisons and conversions take subnormal numbers for 0 then, by thread and processor"


@contextmanager
def watched(report: _Report) -> Iterator[None]:
    """Until the end of the block, call `report` with the name of a function, why it is refused, and what to call."""
    with ExitStack() as stack:
        for module, name in _SEEDS:
            call = _seeding(getattr(module, name), f"{module.__name__}.{name}", report)
            stack.enter_context(patch.object(module, name, call))
        stack.enter_context(patch.object(torch, "set_flush_denormal", _flushing(torch.set_flush_denormal, report)))
        yield


def _seeding(function: Callable[..., Any], name: str, report: _Report) -> Callable[..., Any]:
    def call() -> Any:
        report(name, "its numbers are others in every run", "torch.manual_seed")
        return function()

    set_dynamo_skip([call.__code__])
    return functools.update_wrapper(call, function)


def _flushing(function: Callable[[bool], bool], report: _Report) -> Callable[[bool], bool]:
    def call(mode: bool) -> bool:
        if mode:
            report("torch.set_flush_denormal", FLUSHES, "torch.set_flush_denormal(False), its default")
        return function(mode)

    set_dynamo_skip([call.__code__])
    return functools.update_wrapper(call, function)


__all__ = ["FLUSHES", "watched"]
