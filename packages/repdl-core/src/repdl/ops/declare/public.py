"""Public functions: what each says of itself once, beside its signature and its own sentences."""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Concatenate, ParamSpec, TypeVar

from repdl.callcache import cache_calls, cache_variable_scalars
from repdl.contract import contract_name
from repdl.errors import UnsupportedError, check_bool, check_tensor, check_tensor_or_none
from repdl.ops.declare.docstring import completed, with_sides

__all__ = ["BY_SHAPES", "of_sides", "public", "variants"]

F = TypeVar("F", bound=Callable[..., Any])
P = ParamSpec("P")
R = TypeVar("R")
Cache = Callable[[Any], Any]
BY_SIGNATURE: Cache = cache_calls
"""A call is recorded by the shapes, strides and dtypes of its tensors, and by its other arguments."""
BY_SHAPES: Cache = cache_variable_scalars
"""The same, but for floating-point scalars: calls that differ in those alone share a recording."""


def public(
    family: str,
    *,
    page: str = "",
    cache: Cache = BY_SIGNATURE,
    uncached: str = "",
    broadcasts: bool = False,
    doc: str = "",
    sides: int = 0,
) -> Callable[[F], F]:
    """Declare a public function: what its arguments say is checked, its docstring is completed, its calls are cached.

    Arguments that are annotated as a tensor or a bool, or as one of these or None, are checked before the function
    runs, and so are `size_average` and `reduce`, which torch deprecates. `contract` is what the caller gives; the
    function gets the name of the contract that holds. Its docstring says the errors of these checks
    (`repdl.ops.declare.docstring`), its contract and its source.

    Args:
        family: of the contract text.
        page: of torch's documentation, which the function follows, if it has not the function's name.
        cache: how calls are recorded, `BY_SIGNATURE` or `BY_SHAPES`.
        uncached: why calls are not recorded.
        broadcasts: whether its tensors broadcast.
        doc: its docstring, if it is one of several functions that share one.
        sides: how many sides the images of a function have, for the words of the docstring that depend on it.
    """

    def declare(function: F) -> F:
        text = doc or function.__doc__ or ""
        function.__doc__ = with_sides(text, sides) if sides else text
        parameters = inspect.signature(function).parameters
        function.__doc__ = completed(function, parameters, family, page, broadcasts)
        checked = _checked(function, parameters)
        if uncached:
            checked.uncached = uncached  # type: ignore[attr-defined]
            return checked
        return cache(checked)

    return declare


def variants(
    function: Callable[Concatenate[str, P], R], family: str, docs: Mapping[str, str], **options: Any
) -> tuple[Callable[P, R], ...]:
    """Public functions of one signature, which call `function` with their name before their arguments.

    Args:
        docs: name -> docstring, or what is in the place of `{}` in that of `function`.
        options: as of `public`.
    """
    text = function.__doc__ or ""
    whole = {name: text.replace("{}", doc) if "{}" in text else doc for name, doc in docs.items()}
    return tuple(public(family, doc=doc, **options)(_named(function, name, name)) for name, doc in whole.items())


def of_sides(
    function: Callable[Concatenate[int, P], R], name: str, family: str, sides: Sequence[int] = (1, 2, 3)
) -> tuple[Callable[P, R], ...]:
    """The public functions `<name>1d`, `<name>2d`, `<name>3d`, which call `function` with their number of sides."""
    return tuple(public(family, sides=n)(_named(function, f"{name}{n}d", n)) for n in sides)


def _named(function: Callable[..., R], name: str, first: Any) -> Callable[..., R]:
    """A function of that name, without the first argument."""

    def call(*args: Any, **kwargs: Any) -> R:
        return function(first, *args, **kwargs)

    call.__name__ = call.__qualname__ = name
    call.__doc__, call.__module__ = function.__doc__, function.__module__
    signature = inspect.signature(function)
    parameters = list(signature.parameters.values())[1:]
    call.__signature__ = signature.replace(parameters=parameters)  # type: ignore[attr-defined]
    return call


def check_deprecated(op: str, **arguments: Any) -> None:
    """Raise where an option is used that torch deprecates."""
    if any(value is not None for value in arguments.values()):
        raise UnsupportedError(f"{op}: size_average and reduce are deprecated by torch, expected None; use reduction=")


def _check_bool_or_none(op: str, **arguments: Any) -> None:
    check_bool(op, **{name: value for name, value in arguments.items() if value is not None})


_CHECKS: dict[str, Callable[..., None]] = {
    "Tensor": check_tensor,
    "Tensor | None": check_tensor_or_none,
    "bool": check_bool,
    "bool | None": _check_bool_or_none,
}


def _checked(function: F, parameters: Mapping[str, inspect.Parameter]) -> F:
    """The function after the checks that follow from its parameters, under the contract that holds."""
    types = {name: str(p.annotation).replace("torch.", "") for name, p in parameters.items()}
    found = {name: _CHECKS[annotation] for name, annotation in types.items() if annotation in _CHECKS}
    if "size_average" in parameters:
        found |= {"size_average": check_deprecated, "reduce": check_deprecated}
    checks = [(i, name, found[name]) for i, name in enumerate(parameters) if name in found]
    op = function.__name__
    has_contract = "contract" in parameters or any(p.kind is p.VAR_KEYWORD for p in parameters.values())

    @functools.wraps(function)
    def call(*args: Any, **kwargs: Any) -> Any:
        count = len(args)
        for i, name, check in checks:
            if i < count:
                check(op, **{name: args[i]})
            elif name in kwargs:
                check(op, **{name: kwargs[name]})
        if has_contract:
            kwargs["contract"] = contract_name(kwargs.get("contract"))
        return function(*args, **kwargs)

    return call  # type: ignore[return-value]
