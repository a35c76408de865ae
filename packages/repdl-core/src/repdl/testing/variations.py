"""Calls that differ from a sample of torch's database of ops in one thing: the dtype of a tensor, or an option.

The database has few samples with tensors of two dtypes, and few options beside those that it tries. Each call here
has one of its tensors in another dtype, or one or two options that no sample may have; it is compared with torch's as
samples are (`repdl.testing.opinfo`). Calls that torch does not take say nothing.
"""

from __future__ import annotations

import inspect
import itertools
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from types import SimpleNamespace
from typing import Any

import torch

from repdl import ops
from repdl.testing import opinfo

OTHERS = {torch.float32: (torch.float64, torch.bfloat16), torch.float64: (torch.float32,)}
"""dtype of a tensor -> those that it is given in its place."""

STRINGS = {"reduction": ("none", "mean", "sum"), "rounding_mode": ("trunc", "floor")}
"""Options that are words -> what they may be."""


@dataclass(frozen=True)
class Variation:
    """What was changed, and the call: `sample` has `input`, `args` and `kwargs`."""

    what: str
    sample: Any


def _options(name: str) -> dict[str, tuple[Any, ...]]:
    """Options of a function of `repdl.ops`, and other values than the default of each."""
    found: dict[str, tuple[Any, ...]] = {}
    for key, parameter in inspect.signature(getattr(ops, name)).parameters.items():
        default = parameter.default
        if default is parameter.empty or key in ("contract", "inplace"):
            continue
        if isinstance(default, bool):
            found[key] = (not default,)
        elif isinstance(default, int):
            found[key] = (default + 1, default - 1)
        elif isinstance(default, float):
            found[key] = (default + 0.75, default / 2)
        elif key in STRINGS:
            found[key] = tuple(word for word in STRINGS[key] if word != default)
    return found


def _with_dtype(value: Any, place: int, dtype: torch.dtype) -> Any:
    """The same arguments with the floating-point tensor at that place, counted from 0, in another dtype."""
    places = itertools.count()

    def change(leaf: Any) -> Any:
        if isinstance(leaf, torch.Tensor) and leaf.is_floating_point() and next(places) == place:
            return leaf.detach().to(dtype).requires_grad_(leaf.requires_grad)
        return leaf

    return opinfo.mapped(change, value)


def variations(name: str, sample: Any) -> Iterator[Variation]:
    """Every one of a sample."""
    given = (sample.input, tuple(sample.args), dict(sample.kwargs))
    floats = [t.dtype for t in opinfo.tensors_of(given) if t.is_floating_point()]
    if len(floats) > 1:
        for place, dtype in enumerate(floats):
            for other in OTHERS.get(dtype, ()):
                first, args, kwargs = _with_dtype(given, place, other)
                what = f"tensor {place} of {str(other).removeprefix('torch.')}"
                yield Variation(what, SimpleNamespace(input=first, args=args, kwargs=kwargs))
    options = _options(name)
    defaults = inspect.signature(getattr(ops, name)).parameters
    left_out = [
        key for key in sample.kwargs if key in defaults and defaults[key].default is not inspect.Parameter.empty
    ]
    for without in (None, *left_out):
        kwargs = {key: value for key, value in sample.kwargs.items() if key != without}
        changes = [{}, *({key: value} for key, values in options.items() if key not in kwargs for value in values)]
        changes += [a | b for a, b in itertools.combinations(changes[1:], 2) if a.keys().isdisjoint(b)]
        for change in changes:
            words = [*([f"no {without}"] if without else []), *(f"{key}={value!r}" for key, value in change.items())]
            if words:
                yield Variation(
                    ", ".join(words), SimpleNamespace(input=sample.input, args=sample.args, kwargs={**kwargs, **change})
                )


def _widest_bound(sample: Any, dtype: torch.dtype) -> torch.dtype:
    """Of a sample's dtypes and `dtype`, the one with the widest bound."""
    given = {t.dtype for t in opinfo.tensors_of((sample.input, sample.args, sample.kwargs))}
    return max(given & opinfo.BOUNDS.keys() | {dtype}, key=lambda d: opinfo.BOUNDS[d])


def differences(name: str, most: int, dtype: torch.dtype = torch.float32) -> tuple[int, set[tuple[str, str]]]:
    """How many variations of `most` samples of an entry agree, and of those that do not: the change, the difference."""
    agreed, found = 0, set[tuple[str, str]]()
    for info in opinfo.entries(name):
        if not opinfo.calls_directly(name, info):
            continue
        call: Callable[..., Any] = opinfo.function(name)
        for sample in opinfo.samples(info, dtype, most):
            for variation in variations(name, sample):
                exact = opinfo.expected(info, variation.sample)
                if exact is None or not exact.dtypes:
                    continue
                outcome = opinfo.outcome(call, variation.sample, exact, _widest_bound(variation.sample, dtype))
                if outcome is None:
                    continue
                what = outcome.result or (outcome.gradient and f"gradient: {outcome.gradient}")
                if what:
                    found.add((variation.what, opinfo.plain(what)))
                else:
                    agreed += 1
    return agreed, found
