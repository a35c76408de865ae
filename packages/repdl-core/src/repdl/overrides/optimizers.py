"""torch's optimizers whose steps on lists round by another formula than those of single tensors.

torch chooses a step on lists by itself for parameters on a GPU, so that a CPU and a GPU would differ. While
`repdl.enable()` holds, these optimizers take the step of a tensor by itself for lists too: one result for each way.
That of Adafactor is RepDL's own.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from importlib import import_module
from typing import Any

from repdl.overrides.adafactor import single_tensor_adafactor
from repdl.overrides.imports import when_imported
from repdl.overrides.python_numbers import replaced

OF_TWO_FORMULAS = "adagrad", "asgd", "nadam", "radam"
"""Modules of torch.optim, by which the functions of their steps are named."""


@contextmanager
def one_formula() -> Iterator[None]:
    """Until the end of the block a step on lists is that of single tensors."""
    with ExitStack() as stack:
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


__all__ = ["one_formula"]
