"""Pooling over windows side by side, which are a view: against torch, and what is refused."""

from __future__ import annotations

from typing import Any

import pytest
import torch
import torch.nn.functional as F

from repdl import ops
from repdl.errors import ShapeError


def image(*shape: int) -> torch.Tensor:
    return torch.randn(shape, dtype=torch.float64, requires_grad=True)


@pytest.mark.parametrize("args", [(2,), ((3, 2),), ((3, 2), None, 0, True, True, 5), (5, 5), ((12, 8), 1), (2, [])])
def test_avg_pool2d__is_torchs(args: tuple[Any, ...]) -> None:
    for x in (image(2, 3, 12, 8), image(3, 12, 8), image(2, 3, 12, 8).to(memory_format=torch.channels_last)):
        assert torch.allclose(ops.avg_pool2d(x, *args), F.avg_pool2d(x, *args), rtol=1e-14, atol=1e-15)
    assert torch.autograd.gradcheck(lambda x: ops.avg_pool2d(x, *args), image(1, 2, 12, 8))


@pytest.mark.parametrize("size", [1, (4, 2), (None, 4), (12, 8), [6, None], 0])
def test_adaptive_avg_pool2d__is_torchs(size: Any) -> None:
    for x in (image(2, 3, 12, 8), image(3, 12, 8)):
        expected = F.adaptive_avg_pool2d(x, size)
        assert torch.allclose(ops.adaptive_avg_pool2d(x, size), expected, rtol=1e-14, atol=1e-15)


def test_pool1d__is_torchs() -> None:
    for x in (image(2, 3, 12), image(3, 12)):
        for ours, theirs, args in (
            (ops.avg_pool1d, F.avg_pool1d, (4,)),
            (ops.adaptive_avg_pool1d, F.adaptive_avg_pool1d, (3,)),
            (ops.max_pool1d, F.max_pool1d, (3, 2, 1)),
            (ops.max_pool1d, F.max_pool1d, (3, 2, 1, 2, True)),
        ):
            assert torch.allclose(ours(x, *args), theirs(x, *args), rtol=1e-14, atol=1e-15)
        pairs = zip(ops.max_pool1d(x, 3, return_indices=True), F.max_pool1d(x, 3, return_indices=True))
        assert all(torch.equal(a, b) for a, b in pairs)


def test_adaptive_avg_pool2d__of_one_is_the_mean() -> None:
    x = torch.randn(2, 3, 7, 9)
    assert torch.equal(ops.adaptive_avg_pool2d(x, 1), ops.mean(x, (2, 3), keepdim=True))


def test_avg_pool__bad_arguments() -> None:
    x = torch.zeros(1, 2, 12, 8)
    for args in ((13,), (0,), (2, 0), (2, 2, 2), (2, 2, 0, False, True, 0), ((2, 2, 2),), (2, (1, 1, 1))):
        with pytest.raises(ShapeError, match="avg_pool2d: "):
            ops.avg_pool2d(x, *args)
    with pytest.raises(ShapeError, match="dim"):
        ops.avg_pool2d(x[0, 0], 2)
    with pytest.raises(ShapeError, match="output_size"):
        ops.adaptive_avg_pool2d(x, (1, 2, 3))  # type: ignore[arg-type]
    with pytest.raises(ShapeError, match="at least 0"):
        ops.adaptive_avg_pool2d(x, -1)
