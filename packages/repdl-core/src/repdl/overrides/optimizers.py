"""torch's optimizers whose steps on lists round by another formula than those of single tensors.

torch chooses a step on lists by itself for parameters on a GPU, so that a CPU and a GPU would differ. While
`repdl.enable()` holds, these optimizers take the step of single tensors for lists too: one result for each way.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from importlib import import_module
from typing import Any

from repdl.overrides.imports import when_imported
from repdl.overrides.python_numbers import replaced

OF_TWO_FORMULAS = {"_adafactor": "adafactor", "adagrad": "adagrad", "asgd": "asgd", "nadam": "nadam", "radam": "radam"}
"""Modules of torch.optim, and how the functions of their steps end."""


@contextmanager
def one_formula() -> Iterator[None]:
    """Until the end of the block a step on lists is that of single tensors."""
    with ExitStack() as stack:
        for module, ending in OF_TWO_FORMULAS.items():
            name = f"torch.optim.{module}"
            change = functools.partial(replaced, name, f"_multi_tensor_{ending}", _single(name, ending))
            stack.enter_context(when_imported(name, change))
        yield


def _single(module: str, ending: str) -> Callable[[Any], Any]:
    return lambda _: getattr(import_module(module), f"_single_tensor_{ending}")


__all__ = ["one_formula"]
