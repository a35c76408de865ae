"""The steps of torch's optimizers while `repdl.enable()` holds: one result for each way to compute them.

Some of torch's steps on lists round by another formula than those of single tensors. torch chooses a step on lists by
itself for parameters on a GPU, so a CPU and a GPU would differ: these optimizers take the step of a tensor by itself
for lists too. That of Adafactor is RepDL's own.

Where one op of RepDL is the step of all parameters (`STEPS`), it takes the place of torch's ops one by one: their bits
are the same.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from importlib import import_module
from typing import Any

from repdl.overrides.adafactor import single_tensor_adafactor
from repdl.overrides.functions import functions
from repdl.overrides.imports import when_imported
from repdl.overrides.python_numbers import replaced

STEPS: dict[str, Callable[[Any], Any]] = {}
"""By the module of torch.optim: makes of its step of single tensors, or of lists, one that calls an op of RepDL where
that does the same, and is as torch's elsewhere. repdl.optim fills it."""
OF_TWO_FORMULAS = "adagrad", "asgd", "nadam", "radam"
"""Modules of torch.optim, by which the functions of their steps are named."""


@contextmanager
def one_formula() -> Iterator[None]:
    """Until the end of the block a step on lists is that of single tensors."""
    functions()  # which imports repdl.optim's
    with ExitStack() as stack:
        for name, change_step in STEPS.items():
            module = f"torch.optim.{name}"
            for way in ("single", "multi"):
                change = functools.partial(replaced, module, f"_{way}_tensor_{name}", change_step)
                stack.enter_context(when_imported(module, change))
        for name in OF_TWO_FORMULAS:
            module = f"torch.optim.{name}"
            change = functools.partial(replaced, module, f"_multi_tensor_{name}", _single(module, name))
            stack.enter_context(when_imported(module, change))
        module = "torch.optim._adafactor"
        for way in ("single", "multi"):
            change = functools.partial(replaced, module, f"_{way}_tensor_adafactor", lambda _: single_tensor_adafactor)
            stack.enter_context(when_imported(module, change))
        yield


def _single(module: str, name: str) -> Callable[[Any], Any]:
    return lambda _: getattr(import_module(module), f"_single_tensor_{name}")


__all__ = ["STEPS", "one_formula"]
