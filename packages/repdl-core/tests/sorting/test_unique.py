"""unique and unique_consecutive: those of torch, but for NaN, of which torch's order is open."""

from __future__ import annotations

from itertools import product

import pytest
import torch

import repdl
from repdl import ops
from repdl.errors import DTypeError, ShapeError
from repdl.testing import assert_same_bits, uniform

NAN = float("nan")


def _few(*shape: int) -> torch.Tensor:
    """Numbers of which many are equal."""
    return torch.floor(uniform(1, *shape) * 2)


INPUTS = {
    "float32": _few(6, 5),
    "three dimensions": _few(5, 2, 2).double(),
    "bfloat16": _few(9).bfloat16(),
    "0-D": torch.tensor(2.0),
    "empty": torch.empty(0),
    "no slices": torch.empty(0, 3),
    "integers": _few(6, 3).long(),
    "bools": _few(6, 2).bool(),
    "one element": torch.ones(1),
    "transposed": _few(4, 6).t(),
}


@pytest.mark.parametrize("name", ["unique", "unique_consecutive"])
@pytest.mark.parametrize("given", INPUTS)
def test_unique__is_torchs(given: str, name: str) -> None:
    x, ours, theirs = INPUTS[given], getattr(ops, name), getattr(torch, name)
    expected, found = {}, {}
    for inverse, counts, dim in product((False, True), (False, True), (None, *range(-x.dim(), x.dim()))):
        options = {"return_inverse": inverse, "return_counts": counts, "dim": dim}
        if x.numel() == 0 and dim in (1, -1) and x.dim() == 2:
            with pytest.raises(ShapeError, match="expected slices along dim"):
                ours(x, **options)
            continue
        expected[inverse, counts, dim] = theirs(x, **options)
        found[inverse, counts, dim] = [ours(x, **options)]
    with repdl.enabled():
        for inverse, counts, dim in found:
            found[inverse, counts, dim].append(theirs(x, return_inverse=inverse, return_counts=counts, dim=dim))
    for options, of_torch in expected.items():
        for result in found[options]:
            assert type(result) is type(of_torch)
            for a, b in zip([result], [of_torch]) if isinstance(result, torch.Tensor) else zip(result, of_torch):
                assert a.dtype is b.dtype and torch.equal(a, b)


def test_unique__of_equal_ones_the_first_and_every_nan() -> None:
    x = torch.tensor([1.0, NAN, 0.0, -0.0, NAN, 1.0, -torch.inf])
    for call in (ops.unique, lambda *args, **kwargs: ops.unique(*args, dim=0, **kwargs)):
        values, inverse, counts = call(x, return_inverse=True, return_counts=True)
        assert_same_bits(values, torch.tensor([-torch.inf, 0.0, 1.0, NAN, NAN]))
        assert inverse.tolist() == [2, 3, 1, 1, 4, 2, 0] and counts.tolist() == [1, 2, 2, 1, 1]
    assert_same_bits(ops.unique(-x[2:4]), torch.tensor([-0.0]))
    assert_same_bits(ops.unique_consecutive(x[1:5]), torch.tensor([NAN, 0.0, NAN]))
    rows = torch.tensor([[1.0, NAN], [0.0, 2.0], [-0.0, 2.0], [1.0, NAN]])
    assert_same_bits(ops.unique(rows, dim=0), rows[[1, 0, 3]])


def test_unique__flushed_subnormals_differ_still() -> None:
    x = torch.tensor([1e-40, 0.0, 2e-40])
    torch.set_flush_denormal(True)
    try:
        found = ops.unique(x)
    finally:
        torch.set_flush_denormal(False)
    assert_same_bits(found, x[[1, 0, 2]])


def test_unique__gradient_goes_to_the_first() -> None:
    x = torch.tensor([3.0, 1.0, 3.0, 1.0], requires_grad=True)
    ops.mul(ops.unique(x), torch.tensor([10.0, 20.0])).sum().backward()
    assert x.grad is not None and x.grad.tolist() == [20.0, 10.0, 0.0, 0.0]


def test_unique__rejects() -> None:
    with pytest.raises(DTypeError, match="complex64, expected"):
        ops.unique(torch.ones(2, dtype=torch.complex64))
    with pytest.raises(ShapeError, match="dim"):
        ops.unique(torch.ones(2), dim=1)
