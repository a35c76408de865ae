"""Public functions: what each says of itself once, beside its signature and its own sentences."""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable
from typing import Any, TypeVar

import torch

from repdl.callcache import cache_calls, cache_variable_scalars
from repdl.errors import check_bool, check_tensor, check_tensor_or_none

F = TypeVar("F", bound=Callable[..., Any])
Cache = Callable[[Any], Any]
_PAGES = "https://docs.pytorch.org/docs/stable/"
_WIDTH = 120

BY_SIGNATURE: Cache = cache_calls
"""A call is recorded by the shapes, strides and dtypes of its tensors, and by its other arguments."""
BY_SHAPES: Cache = cache_variable_scalars
"""The same, but for floating-point scalars: calls that differ in those alone share a recording."""


def public(family: str, *, page: str = "", cache: Cache = BY_SIGNATURE, uncached: str = "") -> Callable[[F], F]:
    """Declare a public function: its docstring ends with its contract and its source, and its calls are cached.

    Arguments that are annotated as a tensor, as a tensor or None, or as a bool are checked before the function runs.

    Args:
        family: of the contract text.
        page: of torch's documentation, which the function follows, if it has not the function's name.
        cache: how calls are recorded, `BY_SIGNATURE` or `BY_SHAPES`.
        uncached: why calls are not recorded.
    """

    def declare(function: F) -> F:
        function.__doc__ = _completed(function, family, page)
        checked = _checked(function)
        if uncached:
            checked.uncached = uncached  # type: ignore[attr-defined]
            return checked
        return cache(checked)

    return declare


_CHECKS = {"Tensor": check_tensor, "Tensor | None": check_tensor_or_none, "bool": check_bool}


def _checked(function: F) -> F:
    """The function after the checks that follow from the annotations of its arguments."""
    parameters = inspect.signature(function).parameters.values()
    found = [(i, p.name, _CHECKS.get(str(p.annotation).replace("torch.", ""))) for i, p in enumerate(parameters)]
    checks = [(i, name, check) for i, name, check in found if check is not None]
    op = function.__name__
    if not checks:
        return function

    @functools.wraps(function)
    def call(*args: Any, **kwargs: Any) -> Any:
        count = len(args)
        for i, name, check in checks:
            if i < count:
                check(op, **{name: args[i]})
            elif name in kwargs:
                check(op, **{name: kwargs[name]})
        return function(*args, **kwargs)

    return call  # type: ignore[return-value]


def _completed(function: Any, family: str, page: str) -> str:
    name = function.__name__
    module = "torch.nn.functional" if hasattr(torch.nn.functional, name) else "torch"
    contract, source = f"Contract: {family} v1.", f"Source: {_PAGES}{page or f'generated/{module}.{name}'}.html"
    one = f"{contract} {source}"
    last = one if len(one) <= _WIDTH - 4 else f"{contract}\n{source}"
    return f"{inspect.cleandoc(function.__doc__)}\n\n{last}\n"
