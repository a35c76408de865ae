"""interpolate: exact positions and weights, derivatives, torch's machinery, recorded bits, errors."""

from __future__ import annotations

import itertools
from fractions import Fraction
from typing import Any

import pytest
import torch
import torch.nn.functional as F

from repdl import digest, ops
from repdl.errors import UnsupportedError
from repdl.testing import assert_same_bits, uniform
from repdl.testing.oracle import assert_rejected

OPTIONS: dict[str, dict[str, Any]] = {
    "nearest": {"size": (5, 9), "mode": "nearest"},
    "nearest by factors": {"scale_factor": (1.7, 0.6), "mode": "nearest"},
    "nearest-exact": {"size": (5, 9), "mode": "nearest-exact"},
    "bilinear": {"size": (5, 9), "mode": "bilinear"},
    "bilinear by factors": {"scale_factor": (1.7, 0.6), "mode": "bilinear"},
    "bilinear, recomputed": {"scale_factor": 1.7, "mode": "bilinear", "recompute_scale_factor": True},
    "bilinear, corners": {"size": (9, 6), "mode": "bilinear", "align_corners": True},
    "bicubic": {"size": (14, 4), "mode": "bicubic"},
    "bicubic, corners": {"scale_factor": 2, "mode": "bicubic", "align_corners": True},
    "area": {"size": (5, 9), "mode": "area"},
    "bilinear, smoothed": {"size": (3, 9), "mode": "bilinear", "antialias": True},
    "bicubic, smoothed": {"scale_factor": (0.4, 1.7), "mode": "bicubic", "antialias": True},
    "bicubic, smoothed, corners": {"size": (3, 2), "mode": "bicubic", "antialias": True, "align_corners": True},
}
"""Of images (N, C, 7, 6)."""
DIGESTS = {
    "nearest": "0f14b49e2a8bfb9539ea361e4dd79782785e176c199a40b378220ff68a89902a",
    "bilinear by factors": "4cd92366af017a076f1b5014c73c5c89b5085e3237f741e146edf1ab5962bec7",
    "bilinear, corners": "b62f3ada76c6b0c69331213ce639682d27ca32a58a5dcd98912d38bc5b3e4e8b",
    "bicubic": "9b66f8da5e7cc83bc5993ca4d438ddb3249607caa1aa4e6edab840cc12d36600",
    "bilinear, smoothed": "d36600b41f9b452f3e9d255a362a6c0576d48e49802f5d3d2bffc4b0e3c094c5",
    "bicubic, smoothed": "62454739f6f06d933fbd4afc1bbf7cc2bed8ad60d4780dc440e0a9ce54a7ea02",
}
"""Of the outputs and gradients of uniform(1, 2, 3, 7, 6), under v1."""

every_option = pytest.mark.parametrize("name", OPTIONS)


@pytest.mark.parametrize("name", DIGESTS)
def test_interpolate__recorded_bits(name: str) -> None:
    x = uniform(1, 2, 3, 7, 6).requires_grad_()
    output = ops.interpolate(x, **OPTIONS[name])
    (grad,) = torch.autograd.grad(output, x, uniform(2, *output.shape))
    assert digest([output.detach(), grad]) == DIGESTS[name]


def test_interpolate__positions_are_exact() -> None:
    """Where torch rounds positions to float32, an element of another place can be the nearest."""
    x = torch.arange(997.0).view(1, 1, -1)
    for count in (3, 41, 300, 1993, 5000):
        result = ops.interpolate(x, count)[0, 0]
        assert result.tolist() == [i * 997 // count for i in range(count)]
        result = ops.interpolate(x, count, mode="nearest-exact")[0, 0]
        assert result.tolist() == [(2 * i + 1) * 997 // (2 * count) for i in range(count)]


def test_interpolate__positions_by_factors_are_exact() -> None:
    """Factors near those for which there are shorter ways, too: outputs of twice the length that are not doubles."""
    for length, tenths in itertools.product(range(1, 13), range(3, 41)):
        factor = tenths / 10
        x = torch.arange(float(length)).view(1, 1, -1)
        count = int(length * factor)  # as torch
        if count == 0:
            continue
        places = [min(int(i / Fraction(factor)), length - 1) for i in range(count)]
        assert ops.interpolate(x, scale_factor=factor)[0, 0].tolist() == places, (length, factor)
        halves = [min(int((i + Fraction(1, 2)) / Fraction(factor)), length - 1) for i in range(count)]
        exact = ops.interpolate(x, scale_factor=factor, mode="nearest-exact")[0, 0].tolist()
        assert exact == halves, (length, factor)


@pytest.mark.parametrize("contract", ["v1", "sequential"])
def test_interpolate__bilinear_is_the_formula_of_the_text(contract: str) -> None:
    x = uniform(1, 2, 3, 7, 6)
    result = ops.interpolate(x, (5, 9), mode="bilinear", contract=contract)

    def taps(i: int, n: int, m: int) -> list[tuple[int, float]]:
        p = min(max(Fraction(n * (2 * i + 1), 2 * m) - Fraction(1, 2), Fraction(0)), Fraction(n - 1))
        t = p - p.__floor__()
        return [(p.__floor__(), float(1 - t)), (min(p.__floor__() + 1, n - 1), float(t))]

    def weighted(pairs: list[tuple[torch.Tensor, float]]) -> torch.Tensor:
        terms = [ops.mul(a, torch.tensor(w, dtype=torch.float64).float()) for a, w in pairs]
        return ops.sum(torch.stack(terms), 0, contract=contract)

    for i in range(5):
        for j in range(9):
            lines = [(weighted([(x[:, :, r, c], v) for c, v in taps(j, 6, 9)]), w) for r, w in taps(i, 7, 5)]
            assert_same_bits(result[:, :, i, j], weighted(lines), f"{i, j}")


@every_option
def test_interpolate__derivatives(name: str) -> None:
    x = uniform(1, 1, 2, 7, 6).double().requires_grad_()
    function = lambda t: ops.interpolate(ops.mul(t, t), **OPTIONS[name])
    assert torch.autograd.gradcheck(function, x, fast_mode=True)
    assert torch.autograd.gradgradcheck(function, x, fast_mode=True)


@every_option
def test_interpolate__batch_slice_layout_and_vmap(name: str) -> None:
    x = uniform(1, 3, 4, 7, 6)
    function = lambda t: ops.interpolate(t, **OPTIONS[name])
    whole = function(x)
    last = function(x.to(memory_format=torch.channels_last))
    assert_same_bits(last, whole)
    assert last.is_contiguous(memory_format=torch.channels_last) and whole.is_contiguous()
    assert_same_bits(function(x[1:2])[0], whole[1])
    loss = lambda t: ops.sum(ops.mul(function(t[None]), function(t[None])))
    leaf = x[1].clone().requires_grad_()
    assert_same_bits(torch.func.vmap(torch.func.grad(loss))(x)[1], torch.autograd.grad(loss(leaf), leaf)[0])


@pytest.mark.parametrize(
    ("name", "dynamic"),
    [("bicubic", False), ("nearest by factors", False), ("bilinear", True), ("bilinear, smoothed", True)],
)
def test_interpolate__compiled(name: str, dynamic: bool) -> None:
    torch._dynamo.reset()
    function = lambda t: ops.interpolate(t, **OPTIONS[name])
    compiled = torch.compile(function, backend="aot_eager", fullgraph=True, dynamic=dynamic)
    for width in (6, 8):
        x = uniform(1, 2, 3, 7, width).requires_grad_()
        expected, actual = function(x), compiled(x)
        assert_same_bits(actual.detach(), expected.detach())
        assert_same_bits(*(torch.autograd.grad(o, x, uniform(2, *o.shape))[0] for o in (actual, expected)))


def test_interpolate__several_in_one_graph() -> None:
    torch._dynamo.reset()
    function = lambda t: ops.interpolate(ops.interpolate(t, **OPTIONS["bicubic"]), **OPTIONS["bilinear"])
    x = uniform(1, 2, 3, 7, 6)
    assert_same_bits(torch.compile(function, backend="aot_eager", fullgraph=True)(x), function(x))


def test_interpolate__smoothed_as_torch() -> None:
    """In float64, where torch rounds positions too: weights are off by some 2**-50, of up to 17 elements below 1."""
    x = uniform(1, 2, 3, 17, 12).double().requires_grad_()
    for mode, align in itertools.product(("bilinear", "bicubic"), (False, True)):
        sizes: tuple[Any, ...] = ({"size": (5, 9)}, {"size": (1, 31)}, {"scale_factor": (0.37, 1.7)})
        for size in sizes:
            options = {"mode": mode, "align_corners": align, "antialias": True, **size}
            ours, theirs = ops.interpolate(x, **options), F.interpolate(x, **options)
            torch.testing.assert_close(ours, theirs, rtol=0, atol=2.0**-44)
            g = uniform(2, *ours.shape).double()
            grads = (torch.autograd.grad(o, x, g)[0] for o in (ours, theirs))
            torch.testing.assert_close(*grads, rtol=0, atol=2.0**-42)


def test_interpolate__smoothed_elements_do_not_meet_the_padding_of_shorter_ones() -> None:
    x = torch.ones(1, 1, 8, 8)
    x[..., 0] = float("inf")
    assert torch.equal(ops.interpolate(x, (8, 3), mode="bilinear", antialias=True).isnan().sum(), torch.tensor(0))


def test_interpolate__same_size_is_a_copy() -> None:
    x = uniform(1, 2, 3, 7, 6, special=True)
    for options in (
        {"mode": "bilinear"},
        {"mode": "bicubic", "align_corners": True},
        {"mode": "nearest"},
        {"mode": "bicubic", "antialias": True},
    ):
        assert_same_bits(ops.interpolate(x, (7, 6), **options), x)


def test_interpolate__rejects() -> None:
    x = uniform(1, 2, 3, 7, 6)
    cases: list[tuple[torch.Tensor, dict[str, Any], str]] = [
        (x, {}, "one of size and scale_factor"),
        (x, {"size": 3, "scale_factor": 2.0}, "one of size and scale_factor"),
        (x, {"size": (3, 4, 5)}, "size has 3 values"),
        (x, {"scale_factor": (2.0,)}, "scale_factor has 1 values"),
        (x, {"size": 0}, "size is (0, 0)"),
        (x, {"scale_factor": 0.01}, "size is (0, 0)"),
        (x, {"size": 3, "recompute_scale_factor": True}, "recompute_scale_factor is True"),
        (x, {"size": 3, "align_corners": True}, "align_corners is True with mode 'nearest'"),
        (x, {"size": 3, "antialias": True}, "antialias is True with mode 'nearest'"),
        (x[0], {"size": 3, "antialias": True, "mode": "linear"}, "antialias is True with mode 'linear'"),
        (x, {"size": 3, "mode": "linear"}, "expected 3 dimensions"),
        (x, {"size": 3, "mode": "cubic"}, "mode is 'cubic'"),
        (x[0, 0], {"size": 3}, "input.dim() is 2"),
        (x[:, :0], {"size": 3}, "expected 0 for the batch only"),
    ]
    for input, options, words in cases:
        by_torch = lambda: F.interpolate(input, **options)
        assert_rejected(lambda: ops.interpolate(input, **options), ValueError, words, by_torch=by_torch)
    assert_rejected(
        lambda: ops.interpolate(x, 3, mode="lanczos", antialias=True), UnsupportedError, "mode is 'lanczos'"
    )
    assert_rejected(lambda: ops.interpolate(x.long(), 3), TypeError, "input.dtype is int64")
    assert_rejected(lambda: ops.interpolate(x, 3.5), TypeError, "size")  # type: ignore[arg-type]
