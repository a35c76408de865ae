"""Quantiles, modes, covariances, areas, norms of matrices and what is made of them: formulas, against torch."""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable
from typing import Any

import pytest
import torch
import torch.nn.functional as F

import repdl
from repdl import digest, ops
from repdl.errors import UnsupportedError
from repdl.ops.sorting.quantile import INTERPOLATIONS
from repdl.testing import assert_same_bits, uniform
from repdl.testing.oracle import assert_rejected

INF, NAN = math.inf, math.nan
Q = torch.tensor([0.0, 0.3, 0.5, 0.99, 1.0])
WEIGHTS = torch.tensor([0.3, 1.2, 0.0, 2.0, 0.7, 1.0])

FUNCTIONS: dict[str, Callable[[torch.Tensor, Any], torch.Tensor]] = {
    "quantile": lambda x, m: m.quantile(x, Q.to(x.dtype), 1),
    "nanquantile": lambda x, m: m.nanquantile(x, 0.37, 0, True, interpolation="midpoint"),
    "mode": lambda x, m: m.mode(x, 0)[0],
    "cov": lambda x, m: m.cov(x, correction=2),
    "cov, weights": lambda x, m: m.cov(x, fweights=torch.tensor([1, 2, 0, 3, 1, 1]), aweights=WEIGHTS.to(x.dtype)),
    "corrcoef": lambda x, m: m.corrcoef(x),
    "trapezoid": lambda x, m: m.trapezoid(x, x[0] * 3 if m is torch else ops.mul(x[0], 3)),
    "cumulative_trapezoid": lambda x, m: m.cumulative_trapezoid(x, dx=0.3, dim=0),
    "matrix_norm": lambda x, m: (ops if m is ops else torch.linalg).matrix_norm(x, 1),
    "matrix_norm, -inf": lambda x, m: (ops if m is ops else torch.linalg).matrix_norm(x, -INF, (1, 0), True),
    "matrix_norm, fro": lambda x, m: (ops if m is ops else torch.linalg).matrix_norm(x),
    "dist": lambda x, m: m.dist(x, x[:1]),
    "renorm": lambda x, m: m.renorm(x, 2, 0, 1.2),
    "vecdot": lambda x, m: (ops if m is ops else torch.linalg).vecdot(x, x[:1], dim=0),
}
"""Of x (5, 6)."""
DIGESTS = {
    "quantile": "cfe9b2d344be135992822172edefadfc554f3c46c454fa1c68aeaaa4298a7f26",
    "cov, weights": "ada469128b1dc831f813bfc78a63047608dbe266d33ff1b7e7a497af07e69c05",
    "corrcoef": "74d2719ced4cbafc0be5560518786198256b7f73fb4a00444aa5f0e5f6f0f6f5",
    "trapezoid": "1fb887a4aeda4924f860f5fbdeba5fddde62d5abbf22cb86e9c11805a429ca0a",
    "renorm": "3fa24ebe6dccaf33688e67efc4ea094801f72beaa6bcdbac22795e84384911fc",
    "vecdot": "0c3182e6df6f8b355b6ca10696db75f371a961098143fab678365df9f6c21ea5",
}
"""Of outputs and gradients of uniform(1, 5, 6), under v1."""


@pytest.mark.parametrize("name", FUNCTIONS)
def test_reductions__as_torch_in_float64(name: str) -> None:
    """Values, derivatives; the audit; compiled; a half is rounded once."""
    function = lambda t: FUNCTIONS[name](t, ops)
    x = uniform(1, 5, 6).double().requires_grad_()
    ours, theirs = function(x), FUNCTIONS[name](x, torch)
    torch.testing.assert_close(ours, theirs, rtol=2.0**-44, atol=2.0**-44)
    g = uniform(2, *ours.shape).double()
    torch.testing.assert_close(*(torch.autograd.grad(o, x, g)[0] for o in (ours, theirs)), rtol=2.0**-40, atol=2.0**-40)
    if name != "mode":
        assert torch.autograd.gradgradcheck(lambda t: ops.mul(function(t), function(t)), x, fast_mode=True)
    x = uniform(1, 5, 6).requires_grad_()
    report = repdl.audit(function, x)
    assert report.ok, report
    output = function(x)
    (grad,) = torch.autograd.grad(output, x, uniform(2, *output.shape))
    if name in DIGESTS:
        assert digest([output.detach(), grad]) == DIGESTS[name]
    torch._dynamo.reset()
    compiled = torch.compile(function, backend="aot_eager", fullgraph=True)(x)
    assert_same_bits(compiled.detach(), output.detach())
    assert_same_bits(torch.autograd.grad(compiled, x, uniform(2, *output.shape))[0], grad)
    if name in ("corrcoef", "cumulative_trapezoid", "dist", "renorm", "matrix_norm"):
        half = x.detach().bfloat16()
        assert_same_bits(function(half), ops.cast(function(half.float()), torch.bfloat16))


def test_quantile__every_interpolation_and_nan() -> None:
    x = uniform(1, 4, 9)
    x[0, 3], x[2] = NAN, NAN
    x[3, :2] = torch.tensor([INF, -INF])
    for interpolation in INTERPOLATIONS:
        for op in ("quantile", "nanquantile"):
            for q in (Q, 0.5, 0.23):
                options = {"interpolation": interpolation}
                ours = getattr(ops, op)(x, q, 1, **options)
                theirs = getattr(torch, op)(x.double(), q.double() if isinstance(q, torch.Tensor) else q, 1, **options)
                known = ~ours.isinf()  # torch's is NaN between two infinities
                torch.testing.assert_close(ours[known], theirs[known].float(), equal_nan=True)
    leaf = x[1].clone().requires_grad_()
    (grad,) = torch.autograd.grad(ops.quantile(leaf, 0.5), leaf)
    assert grad.sum() == 1 and grad[leaf == leaf.detach().median()] == 1
    assert ops.quantile(torch.tensor(3.0), Q).shape == (5,) and ops.quantile(x, 0.1, keepdim=True).shape == (1, 1)


def test_mode__the_smallest_of_several_and_its_last_index() -> None:
    x = torch.tensor([[3.0, 1.0, 3.0, 1.0, 2.0], [NAN, 0.0, NAN, -0.0, NAN], [5.0, 4.0, 3.0, 2.0, 1.0]])
    values, indices = ops.mode(x)
    assert_same_bits(values, torch.tensor([1.0, NAN, 1.0]))
    assert indices.tolist() == [3, 4, 4]
    assert ops.mode(x.nan_to_num(0).long(), 0, True)[0].tolist() == [[0, 0, 3, 0, 0]]
    assert ops.mode(torch.tensor(2.0)).indices.shape == ()


def test_reductions__edges_are_torchs() -> None:
    x = uniform(1, 5, 6)
    for options in ({"correction": 9}, {"fweights": torch.tensor([0, 0, 1, 0, 0, 0])}):
        for mine, theirs in zip(ops.cov(x, **options).flatten(), torch.cov(x.double(), **options).flatten()):
            assert mine.isnan() == theirs.isnan() and mine.isinf() == theirs.isinf()
    assert ops.cov(x[0]).shape == () and ops.corrcoef(x[0]).item() == 1
    assert ops.trapezoid(x[:, :1]).tolist() == [0.0] * 5 and ops.trapezoid(x[:, :0]).tolist() == [0.0] * 5
    assert ops.cumulative_trapezoid(x[:, :1]).shape == torch.cumulative_trapezoid(x[:, :1]).shape
    assert torch.equal(ops.trapezoid(torch.arange(5)), torch.trapezoid(torch.arange(5)))
    assert ops.matrix_norm(x[:, :0], 1) == 0 and ops.matrix_norm(x[:0], INF, keepdim=True).shape == (1, 1)
    zeros = torch.zeros(2, 3)
    assert_same_bits(ops.renorm(zeros, 2, 0, 0.0), zeros)


def test_reductions__rejects() -> None:
    x, L = uniform(1, 3, 4), torch.linalg
    for ord in ("nuc", 2, -2):
        assert_rejected(lambda: ops.matrix_norm(x, ord), UnsupportedError, "'fro', 1, -1, inf or -inf")
    for call, kind, words, theirs in (
        (lambda: ops.matrix_norm(x, 3), ValueError, "ord is 3", lambda: L.matrix_norm(x, 3)),
        (lambda: ops.matrix_norm(x[0]), ValueError, "A.dim() is 1", lambda: L.matrix_norm(x[0])),
        (lambda: ops.matrix_norm(x, 1, (0, 0)), ValueError, "two different", lambda: L.matrix_norm(x, 1, (0, 0))),
        (lambda: ops.matrix_norm(x[:, :0], -1), IndexError, "1 or more", lambda: L.matrix_norm(x[:, :0], -1)),
        (lambda: ops.quantile(x, 1.5), IndexError, "expected numbers from 0 to 1", lambda: torch.quantile(x, 1.5)),
        (lambda: ops.quantile(x, Q.double()), TypeError, "q.dtype", lambda: torch.quantile(x, Q.double())),
        (lambda: ops.quantile(x, Q[None]), ValueError, "q.dim() is 2", lambda: torch.quantile(x, Q[None])),
        (lambda: ops.quantile(x[:0], 0.5), IndexError, "0 elements", lambda: torch.quantile(x[:0], 0.5)),
        (lambda: ops.quantile(x.half(), 0.5), TypeError, "float16", lambda: torch.quantile(x.half(), 0.5)),
        (lambda: ops.quantile(x, 0.5, interpolation="cubic"), ValueError, "interpolation is 'cubic'", None),
        (lambda: ops.mode(x[:0], 0), IndexError, "is 0", lambda: torch.mode(x[:0], 0)),
        (lambda: ops.cov(x[None]), ValueError, "input.dim() is 3", lambda: torch.cov(x[None])),
        (lambda: ops.cov(x, aweights=x[0]), ValueError, "below 0", lambda: torch.cov(x, aweights=x[0])),
        (lambda: ops.cov(x, fweights=x[0]), TypeError, "fweights.dtype", lambda: torch.cov(x, fweights=x[0])),
        (lambda: ops.cov(x, aweights=x[0, :2]), ValueError, "aweights.numel()", None),
        (lambda: ops.trapezoid(x, x[0, :2]), ValueError, "x has 2 points", lambda: torch.trapezoid(x, x[0, :2])),
        (lambda: ops.trapezoid(x, x, dx=1.0), ValueError, "x and dx", None),
        (lambda: ops.renorm(x[0], 2, 0, 1), ValueError, "input.dim() is 1", lambda: torch.renorm(x[0], 2, 0, 1)),
        (lambda: ops.renorm(x, 0, 0, 1), ValueError, "p is 0", lambda: torch.renorm(x, 0, 0, 1)),
        (lambda: ops.renorm(x, 2, 0, -1), ValueError, "maxnorm is -1", lambda: torch.renorm(x, 2, 0, -1)),
        (lambda: ops.vecdot(x, x[:, :2]), ValueError, "broadcast", lambda: L.vecdot(x, x[:, :2])),
        (lambda: ops.dist(x, x[:, :2]), ValueError, "broadcast", lambda: torch.dist(x, x[:, :2])),
    ):
        assert_rejected(call, kind, words, by_torch=theirs)


OF_TWO: dict[str, tuple[Callable[..., Any], Callable[..., Any]]] = {
    "vecdot": (ops.vecdot, torch.linalg.vecdot),
    "cosine_similarity": (ops.cosine_similarity, F.cosine_similarity),
}


@pytest.mark.parametrize("name", OF_TWO)
def test_reductions__dim_is_one_of_the_broadcast_shape(name: str) -> None:
    """Whichever operand has more dimensions."""
    ours, theirs = OF_TWO[name]
    shapes = [(3,), (2, 3), (1, 3), (4, 1, 3), (4, 2, 1)]
    for first, second in itertools.product(shapes, shapes):
        x, y = uniform(1, *first), uniform(2, *second)
        rank = max(len(first), len(second))
        for dim in range(-rank, rank):
            expected = theirs(x.double(), y.double(), dim=dim)
            found = ours(x, y, dim=dim)
            assert found.shape == expected.shape, (first, second, dim)
            assert (found - expected).abs().max() < 1e-5, (first, second, dim)


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16])
def test_reductions__the_gradient_of_a_mean_of_halves_is_rounded_once(dtype: torch.dtype) -> None:
    """Also where the number of elements is none of the dtype."""
    for n in (3, 10, 257, 259, 1001, 2049, 4099):
        x, g = uniform(1, 2, n).to(dtype).requires_grad_(), uniform(2, 2).to(dtype)
        (grad,) = torch.autograd.grad(ops.mean(x, 1), x, g)
        expected = (g.float() / n).to(dtype).unsqueeze(1).expand(2, n)
        assert torch.equal(grad, expected), n
