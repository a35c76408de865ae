"""Numbers of the program that compiled code holds for: a zero by its sign, and NaN by its bits.

Dynamo's guards compare numbers as Python does, for which 0.0 is -0.0, and ask of NaN only whether it is one. Of a
number that may be any (`dynamic=True`) it has a symbol, and those have one zero. The code of a graph
shows each NaN as `nan`.
"""

from __future__ import annotations

import functools
import struct
from collections.abc import Callable
from typing import Any

from torch.fx import GraphModule
from torch.fx.node import map_aggregate

_BY_VALUE = frozenset({"CONSTANT_MATCH", "EQUALS_MATCH"})
"""The guards of numbers."""
_NAN = struct.pack("=d", float("nan"))


def guard_bits() -> None:
    """Have what Dynamo is compiling hold for the bits of each zero and NaN that it has read."""
    from torch._dynamo.guards import install_guard
    from torch._guards import TracingContext

    guards = TracingContext.get().guards_context.dynamo_guards
    sources = {guard.originating_source for guard in guards if guard.create_fn_name() in _BY_VALUE}
    install_guard(*(source.make_guard(_match) for source in sources))


def _match(builder: Any, guard: Any) -> None:
    """Makes the guard of one value, which is none of most."""
    value = builder.get(guard)
    if not isinstance(value, (float, complex)) or (value and value == value):
        return
    expected = _bits(value)
    builder.get_guard_manager(guard).add_lambda_guard(
        lambda now: isinstance(now, (float, complex)) and _bits(now) == expected,
        [f"{guard.name} has the bits of {value!r}"],
        guard.user_stack,
    )


def _bits(value: complex) -> bytes:
    return struct.pack("=2d", value.real, value.imag)


def hold_zeros(is_traced: Callable[[], bool]) -> None:
    """Have Dynamo take a zero for a constant, as it takes NaN, for the rest of the process.

    Args:
        is_traced: whether Dynamo traces for the backend that this is for.
    """
    from torch._dynamo.guards import GuardBuilder
    from torch._dynamo.variables.builder import VariableBuilder
    from torch._dynamo.variables.constant import ConstantVariable

    wrap = VariableBuilder.wrap_symfloat

    @functools.wraps(wrap)
    def wrapped(self: Any, value: float) -> Any:
        if value == 0 and is_traced():
            self.install_guards(GuardBuilder.CONSTANT_MATCH)
            return ConstantVariable.create(value=value, source=self.source)
        return wrap(self, value)

    VariableBuilder.wrap_symfloat = wrapped  # type: ignore[method-assign]


def keep_nans(graph: GraphModule) -> None:
    """Have the code of a graph make each NaN with the bits that it has."""
    for node in list(graph.graph.nodes):
        with graph.graph.inserting_before(node):
            node.args, node.kwargs = map_aggregate((node.args, node.kwargs), lambda value: _kept(graph, value))
    graph.recompile()


def _kept(graph: GraphModule, value: Any) -> Any:
    if not isinstance(value, float) or value == value or struct.pack("=d", value) == _NAN:
        return value
    return graph.graph.call_function(nan, struct.unpack("=q", struct.pack("=d", value)))


def nan(bits: int) -> float:
    """The number of those bits."""
    (value,) = struct.unpack("=d", struct.pack("=q", bits))
    return float(value)


__all__ = ["guard_bits", "hold_zeros", "keep_nans"]
