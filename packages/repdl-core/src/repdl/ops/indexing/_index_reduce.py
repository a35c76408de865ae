"""What stands at one place, reduced: sums, means, products, the largest and the smallest; for rows of a table.

index_amax and index_prod are formulas: comparisons of integers, data movement, and products in the tree of prod.
"""

from __future__ import annotations

import math
from collections.abc import Callable

import torch
from torch import Tensor

from repdl.contract import ANY_CONTRACT
from repdl.dtypes import Dtypes
from repdl.errors import check_dim, check_size
from repdl.ops.common import check_index, check_rows, constant, floating, gather_words, narrowed, sort_key, widened
from repdl.ops.common.arithmetic import div
from repdl.ops.pointwise.elementwise import add
from repdl.registry import composite, define, functions as _ops

MODES = ("sum", "mean", "prod", "amax", "amin")


def first_largest(values: Tensor, index: Tensor, size: int) -> Tensor:
    """Which of the values is the first of the largest of each row and column; their count where there is none."""
    count, width = values.shape
    keys, rows = sort_key(values), index.unsqueeze(1).expand(count, width)
    lowest = torch.full((size, width), torch.iinfo(keys.dtype).min, dtype=keys.dtype, device=keys.device)
    largest = lowest.scatter_reduce(0, rows, keys, "amax").gather(0, rows)
    numbers = torch.arange(count, device=index.device).unsqueeze(1)
    none = torch.full((size, width), count, device=index.device)
    return none.scatter_reduce(0, rows, torch.where(keys == largest, numbers, count), "amin")


def _amax(values: Tensor, index: Tensor, size: int) -> Tensor:
    """The first of the largest values of each row and column."""
    first = first_largest(values, index, size)
    bottom = constant(-math.inf, values.dtype, values.device).expand(1, values.shape[1])
    return gather_words(torch.cat([values, bottom]), 0, first)


def _to_values(g: Tensor, values: Tensor, index: Tensor, output: Tensor) -> Tensor:
    ties = sort_key(values) == sort_key(output)[index]
    count = torch.zeros(output.shape, dtype=torch.int64, device=index.device)
    count = count.index_add(0, index, ties.long()).clamp(min=1)
    storage, (wide,) = widened(g)
    share = _ops.embedding(div(wide, floating(count, wide.dtype)), index, -1, False, ANY_CONTRACT)
    return narrowed(torch.where(ties, share, 0.0), storage)


composite(
    "index_amax",
    "(Tensor values, Tensor index, int size) -> Tensor",
    _amax,
    calls=(),
    check=check_rows,
    check_values=check_index,
    fake=lambda values, size: values.new_empty((size, values.shape[1])),
    gradients={"values": _to_values},
    dtypes=Dtypes(integers=("index",), keeps_16_bit=True),
    family="index_sum",
)


def _prod(values: Tensor, index: Tensor, size: int, contract: str) -> Tensor:
    """Neighbours in a row are multiplied, then neighbours of these, and so on: the tree of prod.

    What has no neighbour is multiplied by 1.
    """
    count = values.shape[0]
    ones = torch.ones_like(index)
    lengths = torch.zeros(size, dtype=torch.int64, device=index.device).scatter_add(0, index, ones)
    starts = lengths.cumsum(0) - lengths
    rows, places = torch.sort(index, stable=True)
    rank = torch.arange(count, device=index.device) - starts[rows]
    left = lengths[rows] - rank
    one = constant(1.0, values.dtype, values.device)
    products = _ops.embedding(values, places, -1, False, contract)
    step = 1
    while step < count:
        joins = (rank % (2 * step) == 0) & (left > step)
        later = products.roll(-step, 0)
        products = _ops.mul(products, _ops.where(joins.unsqueeze(1), later, one, contract), contract)
        step *= 2
    products = torch.cat([products, one.expand(1, values.shape[1])])
    return _ops.embedding(products, torch.where(lengths > 0, starts, count), -1, False, contract)


composite(
    "index_prod",
    "(Tensor values, Tensor index, int size, str contract) -> Tensor",
    _prod,
    calls=("embedding", "mul", "where"),
    check=check_rows,
    check_values=check_index,
    fake=lambda values, size: values.new_empty((size, values.shape[1])),
    dtypes=Dtypes(integers=("index",)),
    family="index_sum",
)


def touched(index: Tensor, rows: int) -> Tensor:
    """Which rows have a term, as a column."""
    flags = torch.zeros(rows, dtype=torch.bool, device=index.device)
    return flags.index_fill(0, index, True).unsqueeze(1) if rows else flags.unsqueeze(1)


def _check_sum(op: str, input: Tensor, index: Tensor, values: Tensor) -> None:
    check_dim(op, 2, input=input)
    check_rows(op, values, index, input.shape[0])
    check_size(op, "values.shape[1]", values.shape[1], input.shape[1], "input.shape[1]")


def _sum_formula(input: Tensor, index: Tensor, values: Tensor, alpha: float, contract: str) -> Tensor:
    """To rows without terms the zero is added that changes no bit."""
    total = _ops.index_sum(values, index, input.shape[0], contract)
    nothing = constant(math.copysign(0.0, -math.copysign(1.0, alpha)), total.dtype, total.device)
    total = torch.where(touched(index, input.shape[0]), total, nothing)
    return add(input, total, alpha=alpha, contract=contract).contiguous()


def _to_terms(wide: Tensor, index: Tensor, alpha: float, values_dtype: torch.dtype, contract: str) -> Tensor:
    scaled = wide if alpha == 1 else _ops.mul(wide, constant(alpha, wide.dtype, wide.device), contract)
    return narrowed(_ops.embedding(scaled, index, -1, False, contract), values_dtype)


added: Callable[..., Tensor] = define(
    "add_index_sum",
    "(Tensor input, Tensor index, Tensor values, float alpha, str contract) -> Tensor",
    check=_check_sum,
    check_values=lambda op, input, index: check_index(op, index, input.shape[0]),
    fake=lambda input: input.new_empty(input.shape),
    gradients={
        "wide": lambda g: widened(g)[1][0],
        "input": lambda wide, input_dtype: narrowed(wide, input_dtype),
        "values": _to_terms,
    },
    dtypes=Dtypes(integers=("index",)),
    formula=_sum_formula,
    calls=("add", "add_alpha", "index_sum"),
    family="index_sum",
)


def _extreme(reduce: str, values: Tensor, index: Tensor, size: int) -> Tensor:
    if reduce == "amax":
        return _ops.index_amax(values, index, size)
    return _ops.neg(_ops.index_amax(_ops.neg(values), index, size))


def reduced(table: Tensor, index: Tensor, terms: Tensor, reduce: str, include_self: bool, contract: str) -> Tensor:
    """Each row of a table with the terms of its index, or these alone; rows without terms keep their bits."""
    storage, (table, terms) = widened(table, terms)
    size = table.shape[0]
    if reduce in ("amax", "amin"):
        if include_self:
            own = torch.arange(size, device=index.device)
            total = _extreme(reduce, torch.cat([table, terms]), torch.cat([own, index]), size)
        else:
            total = _extreme(reduce, terms, index, size)
    elif reduce == "prod":
        total = _ops.index_prod(terms, index, size, contract)
        total = _ops.mul(table, total, contract) if include_self else total
    elif include_self:
        total = added(table, index, terms, 1.0, contract)
    else:
        total = _ops.index_sum(terms, index, size, contract)
    if reduce == "mean":
        count = torch.full((size,), int(include_self), dtype=torch.int64, device=index.device)
        count = count.index_add(0, index, torch.ones_like(index)).clamp(min=1)
        total = _ops.div(total, floating(count, total.dtype).unsqueeze(1), contract)
    return narrowed(torch.where(touched(index, size), total, table), storage)
