"""bag_sum: sums or means of bags of rows of a table, each multiplied by a factor or not."""

from __future__ import annotations

import torch
from torch import Tensor

from repdl.callcache import ValueRange
from repdl.dtypes import Dtypes
from repdl.errors import check, check_dim, check_dtype, check_least, check_range, check_size
from repdl.ops.common import check_index, floating, narrowed, widened
from repdl.ops.indexing.index_sum import to_table
from repdl.registry import composite, functions as _ops
from repdl.tensors import values as host

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
    if begins is None or not host.is_on_host(begins):
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
    bags = _bags(index, begins, length)
    bag = _bag_of_each(index, begins, length, padding_idx)
    rows = _ops.embedding(weight, index, padding_idx, scale_grad_by_freq, contract)
    storage, (terms, factors) = widened(rows, factors)
    if factors is not None:
        terms = _ops.mul(terms, factors.reshape(-1, 1), contract)
    total = _ops.index_sum(terms, bag, bags + 1, contract).narrow(0, 0, bags)
    return narrowed(_mean(total, bag, contract) if mean else total, storage)


def _bag_of_each(index: Tensor, begins: Tensor | None, length: int, padding_idx: int) -> Tensor:
    """The bag of each index; one of its own, behind the others, for what does not count, which is cut off again."""
    bags, places = _bags(index, begins, length), torch.arange(index.shape[0], device=index.device)
    if begins is None:
        bag = places // length
    else:  # all that lies before the only number of `begins` counts nowhere
        bag = torch.searchsorted(begins, places, right=True) - 1
        bag = torch.where(bag < 0, bags, bag)
    return bag if padding_idx < 0 else torch.where(index == padding_idx, bags, bag)


def _mean(total: Tensor, bag: Tensor, contract: str) -> Tensor:
    """Sums of bags, divided by how many rows they have."""
    bags = total.shape[0]
    count = torch.zeros(bags + 1, dtype=torch.int64, device=bag.device)
    count = count.index_add(0, bag, torch.ones_like(bag))[:bags].clamp(min=1)
    return _ops.div(total, floating(count, total.dtype).unsqueeze(1), contract)


def _terms(
    g: Tensor, index: Tensor, begins: Tensor | None, length: int, padding_idx: int, mean: bool, contract: str
) -> tuple[torch.dtype, Tensor]:
    """The dtype of storage, and the gradient of each row that was added."""
    bag = _bag_of_each(index, begins, length, padding_idx)
    storage, (wide,) = widened(g)
    wide = _mean(wide, bag, contract) if mean else wide
    nothing = torch.zeros(1, wide.shape[1], dtype=wide.dtype, device=wide.device)
    return storage, _ops.embedding(torch.cat([wide, nothing]), bag, -1, False, contract)


def _to_weight(
    terms: tuple[torch.dtype, Tensor],
    index: Tensor,
    factors: Tensor | None,
    weight_shape: torch.Size,
    padding_idx: int,
    scale_grad_by_freq: bool,
    contract: str,
) -> Tensor:
    storage, each = terms
    if factors is not None:
        _, (wide,) = widened(factors)
        each = _ops.mul(each, wide.reshape(-1, 1), contract)
    return to_table(narrowed(each, storage), index, weight_shape, padding_idx, scale_grad_by_freq, contract)


def _to_factors(terms: tuple[torch.dtype, Tensor], weight: Tensor, index: Tensor, contract: str) -> Tensor:
    storage, each = terms
    _, (rows,) = widened(_ops.embedding(weight, index, -1, False, contract))
    return narrowed(_ops.sum(_ops.mul(each, rows, contract), [1], False, contract), storage)


composite(
    _OP,
    "(Tensor weight, Tensor index, Tensor? begins, Tensor? factors, int length, int padding_idx, "
    "bool scale_grad_by_freq, bool mean, str contract) -> Tensor",
    _formula,
    calls=("div", "embedding", "index_sum", "mul", "sum"),
    check=_check,
    check_values=_check_values,
    fake=_fake,
    gradients={"terms": _terms, "weight": _to_weight, "factors": _to_factors},
    is_slope=lambda padding_idx, scale_grad_by_freq: padding_idx < 0 and not scale_grad_by_freq,
    dtypes=Dtypes(integers=("index", "begins"), keeps_16_bit=True),
    family="index_sum",
)
