"""all_reduce: what a reduction over the ranks of a group gives, of the tensors of all ranks."""

from __future__ import annotations

from collections.abc import Callable

from torch import Tensor

from repdl.contract import ANY_CONTRACT
from repdl.dtypes import Dtypes
from repdl.errors import check
from repdl.ops.common.arithmetic import div, mul
from repdl.registry import composite, functions as _ops

__all__: list[str] = []  # torch has no function of this name without a process group

_JOINS = {"sum": "add", "avg": "add", "product": "mul", "max": "maximum", "min": "minimum"}


def join_ranks(ranks: list[Tensor], op: str) -> Tensor:
    """The tensors of ranks joined by the contract's tree, in the order of the list; no tensor is changed."""
    join = getattr(_ops, _JOINS[op])
    nodes = list(ranks)
    while len(nodes) > 1:
        pairs = zip(nodes[::2], nodes[1::2])
        nodes = [join(left, right, ANY_CONTRACT) for left, right in pairs] + nodes[len(nodes) & ~1 :]
    return nodes[0]


def finish(total: Tensor, op: str, ranks: int) -> Tensor:
    """What is left to do with the root of the tree."""
    if op == "avg":
        return div(total, ranks)
    if ranks == 1:  # no operation has made its NaN the canonical one
        return mul(total, 1)
    return total


def _formula(input: Tensor, op: str) -> Tensor:
    """`(ranks, ...) -> (...)`."""
    return finish(join_ranks(list(input.unbind(0)), op), op, input.shape[0])


def _check(input: Tensor, op: str) -> None:
    check("all_reduce", op in _JOINS, lambda: f"op is {op!r}, expected one of {', '.join(_JOINS)}")
    shape = tuple(input.shape)
    check("all_reduce", bool(shape) and shape[0] > 0, lambda: f"input.shape is {shape}, expected (ranks, ...)")


all_reduce: Callable[..., Tensor] = composite(
    "all_reduce",
    "(Tensor input, str op) -> Tensor",
    _formula,
    calls=("add", "div", "maximum", "minimum", "mul"),
    check=_check,
    dtypes=Dtypes(),
)
