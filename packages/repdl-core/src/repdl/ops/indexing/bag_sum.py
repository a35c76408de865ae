"""bag_sum: sums or means of bags of rows of a table, each multiplied by a factor or not."""

from __future__ import annotations

import torch
from torch import Tensor

from repdl.callcache import ValueRange
from repdl.dtypes import Dtypes
from repdl.errors import check, check_dim, check_dtype, check_least, check_range, check_size
from repdl.ops.common import check_index, floating, narrowed, widened
from repdl.registry import composite, functions as _ops

_OP = "bag_sum"


def _check(
    weight: Tensor, index: Tensor, begins: Tensor | None, factors: Tensor | None, length: int, padding_idx: int
) -> None:
    check_dim(_OP, 2, weight=weight)
    check_dim(_OP, 1, index=index)
    check_dtype(_OP, (torch.int64,), index=index)
    if begins is None:
        check_least(_OP, 1, length=length)
        count = index.shape[0]
        check(_OP, count % length == 0, lambda: f"index.shape[0] is {count}, expected a multiple of length {length}")
    else:
        check_dim(_OP, 1, begins=begins)
        check_dtype(_OP, (torch.int64,), begins=begins)
        check(_OP, begins.shape[0] >= 1, "begins is empty, expected the end of the last bag at least")
    if factors is not None:
        check_size(_OP, "factors.shape", tuple(factors.shape), tuple(index.shape), "index.shape")
    size = weight.shape[0]
    check_range(_OP, -1 <= padding_idx < size, lambda: f"padding_idx is {padding_idx}, expected -1 to {size - 1}")


def ascend(begins: Tensor, count: int) -> Tensor:
    """Which of the conditions on the places where bags begin and end hold."""
    first = begins[:1] == (0 if begins.shape[0] > 1 else count)
    return torch.cat([first, begins[-1:] == count, begins.diff() >= 0])


def _check_values(weight: Tensor, index: Tensor, begins: Tensor | None) -> ValueRange | None:
    within = check_index(_OP, index, weight.shape[0])
    if begins is None or begins.device.type != "cpu":
        return within
    count = index.shape[0]
    within_bags = bool(ascend(begins, count).all())
    check_range(_OP, within_bags, lambda: f"begins does not ascend from 0 to {count} (= index.shape[0])")
    return None


def _bags(index: Tensor, begins: Tensor | None, length: int) -> int:
    return index.shape[0] // length if begins is None else begins.shape[0] - 1


def _fake(weight: Tensor, index: Tensor, begins: Tensor | None, length: int) -> Tensor:
    return weight.new_empty((_bags(index, begins, length), weight.shape[1]))


def _formula(
    weight: Tensor,
    index: Tensor,
    begins: Tensor | None,
    factors: Tensor | None,
    length: int,
    padding_idx: int,
    scale_grad_by_freq: bool,
    mean: bool,
    contract: str,
) -> Tensor:
    bags, places = _bags(index, begins, length), torch.arange(index.shape[0], device=index.device)
    bag = places // length if begins is None else torch.searchsorted(begins, places, right=True) - 1
    if padding_idx >= 0:  # a bag of its own for what does not count, which is cut off again
        bag = torch.where(index == padding_idx, bags, bag)
    rows = _ops.embedding(weight, index, padding_idx, scale_grad_by_freq, contract)
    storage, (terms, factors) = widened(rows, factors)
    if factors is not None:
        terms = _ops.mul(terms, factors.reshape(-1, 1), contract)
    total = _ops.index_sum(terms, bag, bags + 1, contract).narrow(0, 0, bags)
    if mean:
        count = torch.zeros(bags + 1, dtype=torch.int64, device=bag.device)
        count = count.index_add(0, bag, torch.ones_like(bag))[:bags].clamp(min=1)
        total = _ops.div(total, floating(count, total.dtype).unsqueeze(1), contract)
    return narrowed(total, storage)


composite(
    _OP,
    "(Tensor weight, Tensor index, Tensor? begins, Tensor? factors, int length, int padding_idx, "
    "bool scale_grad_by_freq, bool mean, str contract) -> Tensor",
    _formula,
    calls=("div", "embedding", "index_sum", "mul"),
    check=_check,
    check_values=_check_values,
    fake=_fake,
    is_slope=lambda padding_idx, scale_grad_by_freq: padding_idx < 0 and not scale_grad_by_freq,
    dtypes=Dtypes(integers=("index", "begins"), keeps_16_bit=True),
    family="index_sum",
)
