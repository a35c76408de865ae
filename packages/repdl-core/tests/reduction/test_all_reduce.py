"""What is particular to all_reduce: the order of ranks, against the contract text written down anew."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import torch

from repdl import ops, registry
from repdl.testing import assert_same_bits, uniform
from repdl.testing.cases.reduction.all_reduce import numbers

all_reduce: Callable[..., torch.Tensor] = registry.functions.all_reduce
_STEPS: dict[str, Any] = {"sum": np.add, "product": np.multiply, "max": np.maximum, "min": np.minimum}


def tree(parts: list[Any], step: Callable[[Any, Any], Any]) -> Any:
    """The text of the contract: the first half is the largest power of two below the number of parts."""
    if len(parts) == 1:
        return parts[0]
    first = 1
    while 2 * first < len(parts):
        first *= 2
    return step(tree(parts[:first], step), tree(parts[first:], step))


@pytest.mark.parametrize("ranks", range(1, 18))
def test_all_reduce__is_the_tree_over_ranks(ranks: int) -> None:
    x = numbers(ranks, ranks, 500)
    for op, step in _STEPS.items():
        expected = torch.from_numpy(tree(list(x.numpy()), step))
        assert_same_bits(all_reduce(x, op), expected)
    expected = torch.from_numpy(tree(list(x.numpy()), np.add) / np.float32(ranks))
    assert_same_bits(all_reduce(x, "avg"), expected)


def test_all_reduce__sum_is_the_tree_of_sum() -> None:
    """Blocks of `sum` are joined by the same tree: one element in each block, the others +0."""
    x = uniform(1, 7) + 2
    spread = torch.zeros(7, 1024)
    spread[:, 0] = x
    assert_same_bits(all_reduce(x.unsqueeze(1), "sum")[0], ops.sum(spread))


def test_all_reduce__other_orders_differ() -> None:
    """The numbers of these tests tell the tree from a chain, from swapped ranks and from a lost rank."""
    x = numbers(3, 5, 500)
    right = all_reduce(x, "sum")
    chain = x[0] + x[1] + x[2] + x[3] + x[4]
    for wrong in (chain, all_reduce(x[[0, 2, 1, 3, 4]], "sum"), all_reduce(x[:4], "sum")):
        assert not torch.equal(right, wrong)


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16])
def test_all_reduce__halves_are_rounded_once(dtype: torch.dtype) -> None:
    x = numbers(4, 7, 300).to(dtype)
    wide = tree(list(x.float().numpy()), np.add)
    assert_same_bits(all_reduce(x, "sum"), torch.from_numpy(wide).to(dtype))
    assert_same_bits(all_reduce(x, "avg"), torch.from_numpy(wide / np.float32(7)).to(dtype))


def test_all_reduce__rejects() -> None:
    with pytest.raises(ValueError, match="op is 'band', expected one of sum, avg"):
        all_reduce(torch.ones(2, 3), "band")
    for wrong in (torch.ones(0, 3), torch.ones(())):
        with pytest.raises(ValueError, match=r"expected \(ranks, ...\)"):
            all_reduce(wrong, "sum")
    with pytest.raises(TypeError, match="complex64"):
        all_reduce(torch.ones(2, 3, dtype=torch.complex64), "sum")
