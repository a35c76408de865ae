"""conv_transpose1d and conv_transpose2d against torch, and their errors."""

from __future__ import annotations

from typing import Any

import pytest
import torch
import torch.nn.functional as F

from repdl import ops
from repdl.errors import DTypeError, ShapeError
from repdl.testing.cases.conv.conv_transpose import GEOMETRIES, _arguments


@pytest.mark.parametrize("name", GEOMETRIES)
def test_conv_transpose2d__is_torchs(name: str) -> None:
    image, weight, bias, *options = _arguments(name)
    expected = F.conv_transpose2d(image.double(), weight.double(), bias.double(), *options)
    actual = ops.conv_transpose2d(image, weight, bias, *options)
    assert actual.shape == expected.shape
    # At most 360 fused multiply-adds of factors below 1, and a sum.
    assert (actual.double() - expected).abs().max() <= 361 * 360 * 2.0**-24
    exact = ops.conv_transpose2d(image.double(), weight.double(), bias.double(), *options)
    assert (exact - expected).abs().max() <= 361 * 360 * 2.0**-53


@pytest.mark.parametrize("options", [{}, {"stride": 2, "padding": 1, "output_padding": 1}, {"dilation": (2,)}])
def test_conv_transpose1d__is_torchs(options: dict[str, Any]) -> None:
    image, weight = torch.randn(2, 4, 9, dtype=torch.float64), torch.randn(4, 3, 3, dtype=torch.float64)
    for given in (image, image[0]):
        expected = F.conv_transpose1d(given, weight, **options)
        assert torch.allclose(ops.conv_transpose1d(given, weight, **options), expected, rtol=1e-12, atol=1e-12)


def test_conv_transpose2d__derivatives() -> None:
    torch.manual_seed(0)
    shapes = (1, 2, 3, 4), (2, 2, 3, 2), (4,)
    tensors = [torch.randn(shape, dtype=torch.float64, requires_grad=True) for shape in shapes]

    def function(image: torch.Tensor, weight: torch.Tensor, bias: torch.Tensor) -> torch.Tensor:
        return ops.conv_transpose2d(image, weight, bias, 2, 1, 1, 2, (2, 1))

    assert torch.autograd.gradcheck(function, tensors)
    assert torch.autograd.gradgradcheck(function, tensors)


def test_conv_transpose2d__unbatched_and_autocast() -> None:
    image, weight, bias, *options = _arguments("stride")
    assert torch.equal(
        ops.conv_transpose2d(image[0], weight, bias, *options), ops.conv_transpose2d(image, weight, bias, *options)[0]
    )
    with torch.autocast("cpu", torch.bfloat16):
        assert ops.conv_transpose2d(image, weight, bias, *options).dtype is torch.bfloat16


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"output_padding": 2}, "output_padding of the height is 2, expected less than stride = 2"),
        ({"groups": 3}, "expected channels, a multiple of groups = 3"),
        ({"padding": -1}, "padding is"),
        ({"padding": 9}, "the output would be of size"),
        ({"stride": 0}, "stride is"),
        ({"bias": torch.zeros(5)}, "bias.shape"),
        ({"stride": (1, 2, 3)}, "expected one integer or two"),
    ],
)
def test_conv_transpose2d__bad_arguments(change: dict[str, Any], message: str) -> None:
    image, weight = torch.zeros(1, 4, 5, 5), torch.zeros(4, 2, 2, 2)
    with pytest.raises(ShapeError, match=message):
        ops.conv_transpose2d(image, weight, **{"stride": 2, **change})


def test_conv_transpose2d__bad_operands() -> None:
    with pytest.raises(ShapeError, match="weight.shape"):
        ops.conv_transpose2d(torch.zeros(1, 3, 5, 5), torch.zeros(4, 2, 2, 2))
    with pytest.raises(ShapeError, match="dim"):
        ops.conv_transpose2d(torch.zeros(5, 5), torch.zeros(4, 2, 2, 2))
    with pytest.raises(DTypeError):
        ops.conv_transpose2d(torch.zeros(1, 4, 5, 5, dtype=torch.int32), torch.zeros(4, 2, 2, 2))
    with pytest.raises(ShapeError, match="expected one integer"):
        ops.conv_transpose1d(torch.zeros(1, 4, 5), torch.zeros(4, 2, 2), stride=(1, 2))


@pytest.mark.parametrize("options", [{}, {"padding": "same", "dilation": 2}, {"stride": 2, "padding": (1,)}])
def test_conv1d__is_torchs(options: dict[str, Any]) -> None:
    image, weight = torch.randn(2, 4, 9, dtype=torch.float64), torch.randn(6, 2, 4, dtype=torch.float64)
    bias = torch.randn(6, dtype=torch.float64)
    for given in (image, image[0]):
        expected = F.conv1d(given, weight, bias, groups=2, **options)
        assert torch.allclose(ops.conv1d(given, weight, bias, groups=2, **options), expected, rtol=1e-12, atol=1e-12)
    with pytest.raises(ShapeError, match="conv1d: "):
        ops.conv1d(torch.zeros(1, 1, 4, 9), weight)
