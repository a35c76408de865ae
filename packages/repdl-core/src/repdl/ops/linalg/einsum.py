"""einsum: products of tensors and sums over labels, a pair of operands after the other."""

from __future__ import annotations

import string
from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor

from repdl.contract import ContractLike
from repdl.errors import ArgumentError, check, check_tensor
from repdl.ops.declare import public
from repdl.registry import computes, functions as _ops

__all__ = ["einsum"]


_LETTERS = string.ascii_uppercase + string.ascii_lowercase
Label = int
"""Of a letter its place in the alphabet, capitals first; of dimension -i of an ellipsis -i."""


def _labels(text: str, what: str) -> list[Label | None]:
    """The labels of an operand; None stands for the ellipsis."""
    found: list[Label | None] = []
    rest = text.replace(" ", "")
    while rest:
        if rest.startswith("..."):
            check("einsum", None not in found, lambda: f"{what} {text!r} has two ellipses, expected one at most")
            found.append(None)
            rest = rest[3:]
            continue
        check(
            "einsum", rest[0] in _LETTERS, lambda: f"{what} {text!r} has {rest[0]!r}, expected letters and one ellipsis"
        )
        found.append(_LETTERS.index(rest[0]))
        rest = rest[1:]
    return found


def _sublist(values: Any, what: str) -> list[Label | None]:
    check("einsum", isinstance(values, (list, tuple)), lambda: f"{what} is {values!r}, expected a list of labels")
    for v in values:
        check(
            "einsum",
            v is Ellipsis or (isinstance(v, int) and 0 <= v < len(_LETTERS)),
            lambda: f"{what} has {v!r}, expected integers from 0 to {len(_LETTERS) - 1} or an ellipsis",
        )
    return [None if v is Ellipsis else v for v in values]


def _parsed(
    equation: Any, operands: Sequence[Any]
) -> tuple[list[Tensor], list[list[Label | None]], list[Label | None] | None]:
    """The tensors, the labels of each, and those of the result, if they are given."""
    if isinstance(equation, Tensor):  # operand, its labels, operand, its labels, ..., labels of the result
        flat = [equation, *operands]
        tensors, lists = flat[: len(flat) // 2 * 2 : 2], flat[1::2]
        check_tensor("einsum", **{f"operand {i}": t for i, t in enumerate(tensors)})
        labels = [_sublist(v, f"the list of operand {i}") for i, v in enumerate(lists)]
        return list(tensors), labels, _sublist(flat[-1], "the list of the result") if len(flat) % 2 else None
    if not isinstance(equation, str):
        raise ArgumentError(f"einsum: equation is {type(equation).__name__}, expected a string or a tensor")
    if len(operands) == 1 and isinstance(operands[0], (list, tuple)):
        operands = operands[0]
    check_tensor("einsum", **{f"operand {i}": t for i, t in enumerate(operands)})
    left, arrow, right = equation.partition("->")
    terms = left.split(",")
    check(
        "einsum",
        len(terms) == len(operands) > 0,
        lambda: f"equation {equation!r} has {len(terms)} operands, expected as many as tensors, {len(operands)}, and 1",
    )
    labels = [_labels(term, f"operand {i}") for i, term in enumerate(terms)]
    return list(operands), labels, _labels(right, "the result") if arrow else None


def _spread(tensor: Tensor, labels: Sequence[Label | None], number: int) -> tuple[Tensor, list[Label]]:
    """A tensor whose dimensions have one label each: the ellipsis is counted, of a repeated one it is the diagonal."""
    named = [n for n in labels if n is not None]
    extra = tensor.dim() - len(named)
    fits = extra == 0 or (extra > 0 and None in labels)
    check(
        "einsum",
        fits,
        lambda: f"operand {number} has {tensor.dim()} dimensions, expected {len(named)}{' or more' * (None in labels)}",
    )
    full: list[Label] = []
    for n in labels:
        full += range(-extra, 0) if n is None else [n]
    for label in dict.fromkeys(full):
        while full.count(label) > 1:
            first = full.index(label)
            second = full.index(label, first + 1)
            check(
                "einsum",
                tensor.shape[first] == tensor.shape[second],
                lambda: (
                    f"operand {number} has sizes {tensor.shape[first]} and {tensor.shape[second]} under one label, "
                    f"expected equal ones"
                ),
            )
            tensor = tensor.diagonal(0, first, second)  # the dimension goes to the end
            full = [n for d, n in enumerate(full) if d not in (first, second)] + [label]
    return tensor, full


def _summed(tensor: Tensor, labels: list[Label], over: set[Label], contract: str) -> tuple[Tensor, Any]:
    dims = [d for d, n in enumerate(labels) if n in over]
    if not dims:
        return tensor, labels
    return _ops.sum(tensor, dims, False, contract), [n for n in labels if n not in over]


def _arranged(tensor: Tensor, labels: list[Label], *groups: Sequence[Label]) -> Tensor:
    """The dimensions in the order of the groups, one dimension for each group."""
    order = [labels.index(n) for group in groups for n in group]
    sizes = [torch.Size([tensor.shape[labels.index(n)] for n in group]).numel() for group in groups]
    return tensor.permute(order).reshape(sizes)


def _pair(
    a: Tensor, of_a: list[Label], b: Tensor, of_b: list[Label], kept: set[Label], contract: str
) -> tuple[Tensor, list[Label]]:
    """The product of two operands, summed over the labels that nobody needs any more."""
    # A dimension of size 1 beside a longer one broadcasts: it has no label.
    for label in set(of_a) & set(of_b):
        m, n = a.shape[of_a.index(label)], b.shape[of_b.index(label)]
        if m == 1 != n:
            a, of_a = a.squeeze(of_a.index(label)), [x for x in of_a if x != label]
        elif n == 1 != m:
            b, of_b = b.squeeze(of_b.index(label)), [x for x in of_b if x != label]
    a, of_a = _summed(a, of_a, set(of_a) - set(of_b) - kept, contract)
    b, of_b = _summed(b, of_b, set(of_b) - set(of_a) - kept, contract)
    both = sorted(set(of_a) & set(of_b))
    batch, inner = [n for n in both if n in kept], [n for n in both if n not in kept]
    rows, columns = ([n for n in of if n not in both] for of in (of_a, of_b))
    shape = [a.shape[of_a.index(n)] for n in (*batch, *rows)] + [b.shape[of_b.index(n)] for n in columns]
    if inner:
        left, right = _arranged(a, of_a, batch, rows, inner), _arranged(b, of_b, batch, inner, columns)
        found = _ops.matmul(left, right, False, False, contract)
    else:
        left, right = _arranged(a, of_a, batch, rows, []), _arranged(b, of_b, batch, [], columns)
        found = _ops.mul(left, right, contract)
    return found.reshape(shape), [*batch, *rows, *columns]


@public("matmul")
def einsum(equation: Any, *operands: Any, contract: ContractLike = None) -> Tensor:
    """Products of tensors, summed over the labels that the result does not have, as in `einsum("bij,bjk->bik", a, b)`.

    Any floating-point dtype. Operands may come as a list, or each with a list of labels after it. They are
    multiplied from left to right, each result with the next one. Labels that only one of both has, and that
    nobody needs any more, are summed first; those that both have and nobody needs are the k of a matrix product,
    in alphabetical order, capitals first, the last one fastest; without any, elements are multiplied.

    Raises:
        ShapeError: if the equation is none, or does not fit the tensors.
        DTypeError, DeviceError: if dtypes or devices are not those of the contract.
    """
    tensors, given, result = _parsed(equation, operands)
    spread = [_spread(t, labels, i) for i, (t, labels) in enumerate(zip(tensors, given))]
    counts: dict[Label, int] = {}
    sizes: dict[Label, int] = {}
    for i, (tensor, full) in enumerate(spread):
        for d, n in enumerate(full):
            size = tensor.shape[d]
            check(
                "einsum",
                1 in (size, sizes.get(n, size)) or sizes.get(n, size) == size,
                lambda: f"operand {i} has size {size} under a label that had {sizes[n]} before, expected that, or 1",
            )
            if sizes.get(n, 1) == 1:
                sizes[n] = size
    for labels in given:
        for m in labels:
            if m is not None:
                counts[m] = counts.get(m, 0) + 1
    ellipsis = sorted(n for n in sizes if n < 0)
    if result is None:
        wanted = [*ellipsis, *sorted(n for n in counts if counts[n] == 1)]
    else:
        named = [n for n in result if n is not None]
        check("einsum", len(set(named)) == len(named), "the result has a label twice, expected it once")
        check("einsum", set(named) <= counts.keys(), "the result has a label that no operand has, expected one of them")
        wanted = []
        for m in result:
            wanted += ellipsis if m is None else [m]
    tensor, labels_ = spread[0]
    for i, (other, of_other) in enumerate(spread[1:], 1):
        later = {n for _, full in spread[i + 1 :] for n in full}
        tensor, labels_ = _pair(tensor, labels_, other, of_other, later | set(wanted), contract)
    tensor, labels_ = _summed(tensor, labels_, set(labels_) - set(wanted), contract)
    return tensor.permute([labels_.index(n) for n in wanted])


@computes("einsum", ignored=("path",))
def _aten_einsum(equation: str, tensors: Any) -> Tensor:
    return einsum(equation, *tensors)
