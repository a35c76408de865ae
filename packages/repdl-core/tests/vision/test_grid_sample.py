"""grid_sample and affine_grid: against torch in float64, derivatives, torch's machinery, what is left out."""

from __future__ import annotations

import itertools
from typing import Any

import pytest
import torch
import torch.nn.functional as F

from repdl import digest, ops
from repdl.testing import assert_same_bits, uniform
from repdl.testing.oracle import assert_rejected

SHAPES = [((2, 3, 5, 6), (2, 4, 7, 2)), ((2, 3, 4, 5, 6), (2, 2, 3, 3, 3))]
PADDINGS = ("zeros", "border", "reflection")
OPTIONS = list(itertools.product(("bilinear", "nearest", "bicubic"), PADDINGS, (False, True)))
BOUNDS = {"bilinear": 2.0**-14, "nearest": 2.0**-14, "bicubic": 2.0**-12}
"""Positions are below 8, with 4 roundings: a weight is off by 2**-19, a product of three by 2**-17; 8 elements below 1.
A weight of bicubic has a slope of up to 1.5, of 8 roundings: off by 2**-18, a product of two by 2**-17, of 16 elements,
and as much again for the slope's own slope, up to 4.5, in gradients."""

DIGESTS = {
    ("bicubic", "reflection", False): "0ad737c1f456f8f70bcd87004abd8366190be54f2106c3ec9d753daf742cff3c",
    ("bicubic", "zeros", True): "647cab85e22a5fbb22bbb6ca62ed396cad23147ba3cc58c8064111f446f253e8",
    ("bilinear", "reflection", True): "3acafb02b680233352c0848c5925c164d102317d4a6855f941ba5247890226ef",
}


def test_grid_sample__recorded_bits() -> None:
    for options, expected in DIGESTS.items():
        x, grid = uniform(1, 2, 3, 5, 6).requires_grad_(), (uniform(2, 2, 4, 7, 2) * 1.5).requires_grad_()
        output = ops.grid_sample(x, grid, *options)
        grads = torch.autograd.grad(output, (x, grid), uniform(3, *output.shape))
        assert digest([output.detach(), *grads]) == expected, options


def test_grid_sample__as_torch() -> None:
    for (shape, places), (mode, padding, align) in itertools.product(SHAPES, OPTIONS):
        if mode == "bicubic" and len(shape) == 5:
            continue
        bound = BOUNDS[mode]
        x, grid = uniform(1, *shape), uniform(2, *places) * 1.25
        leaves = [t.clone().requires_grad_() for t in (x, grid)]
        exact = [t.double().requires_grad_() for t in (x, grid)]
        actual = ops.grid_sample(*leaves, mode, padding, align)
        expected = F.grid_sample(*exact, mode, padding, align)
        torch.testing.assert_close(actual.double(), expected, rtol=0, atol=bound)
        g = uniform(3, *actual.shape)
        grads = torch.autograd.grad(actual, leaves, g, allow_unused=True)
        theirs = torch.autograd.grad(expected, exact, g.double())
        torch.testing.assert_close(grads[0].double(), theirs[0], rtol=0, atol=8 * bound)
        if mode != "nearest":  # sums of 3 channels, of slopes of half a side
            torch.testing.assert_close(grads[1].double(), theirs[1], rtol=0, atol=16 * bound)
        for dtype in (torch.bfloat16, torch.float16):
            halves = x.to(dtype), grid.to(dtype)
            wide = ops.grid_sample(*(t.float() for t in halves), mode, padding, align)
            assert_same_bits(ops.grid_sample(*halves, mode, padding, align), ops.cast(wide, dtype))


def test_grid_sample__ties_edges_and_numbers_that_are_none() -> None:
    x = torch.arange(1.0, 6.0).view(1, 1, 1, 5)
    places = torch.tensor([-1.0, -0.75, -0.25, 0.25, 0.75, 1.0, 1.25, -1.5, 1e30, float("inf"), float("nan")])
    grid = torch.stack([places, torch.zeros_like(places)], -1)[None, None]
    for padding in ("zeros", "border"):
        result = ops.grid_sample(x, grid, "nearest", padding, True)
        assert_same_bits(
            result[..., :9], F.grid_sample(x.double(), grid.double(), "nearest", padding, True)[..., :9].float()
        )
    assert ops.grid_sample(x, grid, "nearest", "zeros", True)[0, 0, 0, 8:].tolist() == [0, 0, 0]
    assert ops.grid_sample(x, grid, "bilinear", "zeros", True)[0, 0, 0, 7:].tolist() == [0, 0, 0, 0]


def test_grid_sample__reflection_far_away_and_on_one_element() -> None:
    """Positions that are mirrored many times, exactly; a side of one element; what is no number is element 0."""
    x = torch.arange(1.0, 6.0).view(1, 1, 1, 5)
    for align, period in ((True, 8), (False, 10)):
        for t in (-3001, -21, -1, 4, 5, 9, 1000003):
            m = t % period
            expected = m if m < 5 else (8 if align else 9) - m
            place = torch.tensor((t / 2 - 1) if align else (2 * t + 1) / 5 - 1, dtype=torch.float64)
            grid = torch.stack([place, torch.zeros_like(place)]).view(1, 1, 1, 2)
            for mode in ("nearest", "bicubic", "bilinear"):
                found = ops.grid_sample(x.double(), grid, mode, "reflection", align)
                assert abs(float(found) - 1 - expected) < 1e-8, (align, t, mode)
    places = torch.tensor([-7.0, 0.3, 1e30, float("nan"), float("inf")])
    grid = torch.stack([places, torch.zeros_like(places)], -1)[None, None]
    for align in (True, False):
        assert ops.grid_sample(x[..., :1], grid, "bilinear", "reflection", align).flatten().tolist() == [1.0] * 5


def test_grid_sample__derivatives() -> None:
    x, grid = uniform(1, 1, 2, 4, 5).double().requires_grad_(), (uniform(2, 1, 2, 3, 2) * 0.9).double().requires_grad_()
    for mode, padding in (*itertools.product(("bilinear",), PADDINGS), ("bicubic", "reflection")):
        function = lambda a, b: ops.grid_sample(ops.mul(a, a), b, mode, padding)
        assert torch.autograd.gradcheck(function, (x, grid), fast_mode=True)
        assert torch.autograd.gradgradcheck(function, (x, grid), fast_mode=True)
    theta = uniform(3, 2, 2, 3).double().requires_grad_()
    assert torch.autograd.gradcheck(lambda t: ops.affine_grid(t, (2, 1, 3, 4)), theta, fast_mode=True)


def test_affine_grid__as_torch() -> None:
    """A sum of up to 4 products below 1: 5 roundings, and one of each position."""
    for size, align in itertools.product([(2, 3, 4, 5), (2, 1, 3, 4, 5), (2, 1, 1, 1)], (False, True)):
        theta = uniform(1, 2, len(size) - 2, len(size) - 1)
        expected = F.affine_grid(theta.double(), list(size), align)
        torch.testing.assert_close(ops.affine_grid(theta, size, align).double(), expected, rtol=0, atol=24 * 2.0**-24)


def test_grid_sample__batch_slice_and_compiled() -> None:
    theta, x = uniform(1, 3, 2, 3), uniform(2, 3, 4, 5, 6)
    function = lambda t, i: ops.grid_sample(
        ops.grid_sample(i, ops.affine_grid(t, (t.shape[0], 4, 7, 3))),
        *(ops.affine_grid(t, (t.shape[0], 4, 5, 3)), "bicubic", "reflection", True),
    )
    whole = function(theta, x)
    assert_same_bits(function(theta[1:2], x[1:2])[0], whole[1])
    torch._dynamo.reset()
    leaves = [t.clone().requires_grad_() for t in (theta, x)]
    compiled = torch.compile(function, backend="aot_eager", fullgraph=True)(*leaves)
    assert_same_bits(compiled.detach(), whole)
    g = uniform(3, *whole.shape)
    assert_same_bits(*(list(torch.autograd.grad(o, leaves, g)) for o in (compiled, function(*leaves))))


def test_grid_sample__rejects() -> None:
    x, grid = uniform(1, 2, 3, 5, 6), uniform(2, 2, 4, 7, 2)
    cases: list[tuple[tuple[Any, ...], str]] = [
        ((x, grid[:1]), "grid.shape[0] is 1, expected 2"),
        ((x, grid[..., :1]), "grid.shape[-1] is 1, expected 2"),
        ((x[0], grid), "input.dim() is 3"),
        ((x, grid[0]), "grid.dim() is 3"),
        ((x, grid, "linear"), "mode is 'linear'"),
        ((x, grid, "nearest", "wrap"), "padding_mode is 'wrap'"),
        ((uniform(1, 2, 3, 4, 5, 6), uniform(2, 2, 4, 7, 3, 3), "bicubic"), "mode is 'bicubic' and input.dim() 5"),
        ((x[:, :, :0], grid), "expected 0 for the batch only"),
    ]
    for args, words in cases:
        assert_rejected(lambda: ops.grid_sample(*args), ValueError, words, by_torch=lambda: F.grid_sample(*args))
    assert_rejected(lambda: ops.grid_sample(x, grid.double()), TypeError, "grid.dtype")
    theta = uniform(1, 2, 2, 3)
    for args, words in (
        ((theta, (3, 1, 4, 4)), "theta.shape"),
        ((theta, (2, 1, 0, 4)), "size is"),
        ((theta, (2, 4)), "size has"),
    ):
        assert_rejected(lambda: ops.affine_grid(*args), ValueError, words)


@pytest.mark.parametrize("dims", [2, 3])
def test_grid_sample__of_the_nearest_has_a_derivative_for_the_grid(dims: int) -> None:
    """0, also at NaN, as torch."""
    x = torch.arange(2.0 * 3 * 4**dims).view(2, 3, *[4] * dims).requires_grad_()
    grid = torch.linspace(-1.5, 1.5, 2 * 2**dims * dims).view(2, *[2] * dims, dims).clone()
    grid.view(-1)[1] = float("nan")
    for _ in range(3):
        for given in (grid, grid.to(torch.bfloat16)):
            given = given.detach().requires_grad_()
            output = ops.grid_sample(x.to(given.dtype), given, "nearest", align_corners=False)
            plain = ops.grid_sample(x.detach().to(given.dtype), given.detach(), "nearest", align_corners=False)
            assert torch.equal(output, plain)
            for grad in torch.autograd.grad(output.sum(), given):
                assert torch.equal(grad, torch.zeros_like(given))


def test_grid_sample__of_no_images() -> None:
    for mode in ("bilinear", "nearest", "bicubic"):
        assert ops.grid_sample(torch.ones(0, 2, 4, 4), torch.ones(0, 3, 5, 2), mode).shape == (0, 2, 3, 5)
