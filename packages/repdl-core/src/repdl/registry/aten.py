"""Which ops of torch functions of RepDL compute: said beside each function, for `repdl.enable()` and for advice.

A public function of `repdl.ops` computes the op of its name without saying so (`repdl.overrides.functions`). What it
computes beside that, and how arguments differ, an adapter declares:

    computes("linalg_lstsq", renamed={"b": "B"})(lstsq)
    computes("reflection_pad1d", renamed={"padding": "pad"}, given={"mode": "reflect"})(pad)

    @computes("put", integers=True)
    def _put(input, index, source, accumulate=False):
        ...
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, TypeVar

Function = Callable[..., Any]
F = TypeVar("F", bound=Function)


@dataclass(frozen=True)
class Override:
    """A function that computes an op of torch, and how torch's arguments become its.

    It stands for all overloads of a name, for its form in place and for the one that writes into given memory; one
    whose name ends in an underscore for that form in place alone, and its function changes its arguments itself. The
    arguments of torch's schema go to the function by their names, but for the first.

    Attributes:
        function: with the names of arguments that torch's schema has, but for the first.
        ignored: arguments of torch's schema that say nothing of the result.
        renamed: name in torch's schema -> the function's, where they differ.
        given: arguments of the function that torch's schema has not.
        integers: whether it computes integers and booleans too, though torch's own arithmetic is exact: the result has
            a fraction, or depends on an order.
        as_given: whether it takes what the dispatcher gives, by position and by name.
        of_complex: what computes complex numbers, with the arguments of torch's schema; else they raise.
    """

    function: Function
    ignored: tuple[str, ...] = ()
    integers: bool = False
    as_given: bool = False
    of_complex: Function | None = None
    renamed: Mapping[str, str] = field(default_factory=dict)
    given: Mapping[str, Any] = field(default_factory=dict)


OVERRIDES: dict[str, Override] = {}
"""What is declared, by torch's name."""


def computes(
    *names: str,
    ignored: tuple[str, ...] = (),
    integers: bool = False,
    as_given: bool = False,
    of_complex: Function | None = None,
    renamed: Mapping[str, str] | None = None,
    given: Mapping[str, Any] | None = None,
) -> Callable[[F], F]:
    """Declare that a function computes the ops of torch of these names; options as in `Override`."""

    def declare(function: F) -> F:
        for name in names:
            assert name not in OVERRIDES, name
            OVERRIDES[name] = Override(
                function, ignored, integers, as_given, of_complex, renamed=renamed or {}, given=given or {}
            )
        return function

    return declare
