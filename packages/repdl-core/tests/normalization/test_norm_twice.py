"""Second and third derivatives of the norms, against torch in float64, and their bits on every backend."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import pytest
import torch
from torch.nn import functional as F

import repdl
from repdl import ops
from repdl.testing import assert_same_bits, uniform
from repdl.testing.oracle import derivatives

SHAPE = (4, 6, 3, 5)
MEAN, VAR = uniform(11, 6), uniform(12, 6).abs() + 0.5


@dataclass
class Norm:
    """A norm: `call(module, x, weight, bias)`, x as `split` cuts it, the dimensions of its rows, vectors' shape."""

    call: Callable[..., torch.Tensor]
    dims: tuple[int, ...]
    split: tuple[int, ...] = SHAPE
    vector: tuple[int, ...] = (6, 1, 1)
    centred: bool = True
    fixed: bool = False


def statistics(x: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
    return MEAN.to(x.dtype), VAR.to(x.dtype)


NORMS = {
    "batch_norm training": Norm(lambda m, x, w, b: m.batch_norm(x, None, None, w, b, True), (0, 2, 3)),
    "batch_norm": Norm(lambda m, x, w, b: m.batch_norm(x, *statistics(x), w, b), (0, 2, 3), fixed=True),
    "group_norm": Norm(lambda m, x, w, b: m.group_norm(x, 2, w, b), (2, 3, 4), (4, 2, 3, 3, 5), (2, 3, 1, 1)),
    "instance_norm": Norm(lambda m, x, w, b: m.instance_norm(x, None, None, w, b), (2, 3)),
    "layer_norm": Norm(lambda m, x, w, b: m.layer_norm(x, (3, 5), w, b), (2, 3), vector=(3, 5)),
    "rms_norm": Norm(lambda m, x, w, _: m.rms_norm(x, (3, 5), w), (2, 3), vector=(3, 5), centred=False),
}


def arguments(norm: Norm, plain: bool, dtype: torch.dtype) -> tuple[Any, ...]:
    """x, weight and bias, the gradient of the output, and those of the first gradients."""
    n = 15 if norm.vector == (3, 5) else 6
    vectors = [uniform(2 + i, n).reshape((3, 5) if n == 15 else (6,)) for i in range(2 if norm.centred else 1)]
    tensors = [uniform(1, *SHAPE), *([] if plain else vectors)]
    tangents = [uniform(21 + i, *t.shape) for i, t in enumerate(tensors)]
    return [t.to(dtype) for t in tensors], uniform(5, *SHAPE).to(dtype), [t.to(dtype) for t in tangents]


def function(norm: Norm, module: Any) -> Callable[..., torch.Tensor]:
    return lambda *tensors: norm.call(module, *tensors, *[None] * (3 - len(tensors)))


def sizes(norm: Norm, tensors: list[torch.Tensor], g: torch.Tensor, tangents: list[torch.Tensor]) -> list[torch.Tensor]:
    """The sums of the magnitudes of all terms of the second derivatives to x, weight and the gradient."""

    def vector(values: list[torch.Tensor], i: int, default: float) -> torch.Tensor:
        return values[i].abs().reshape(norm.vector) if i < len(values) else torch.tensor(default, dtype=g.dtype)

    def mean(t: torch.Tensor) -> torch.Tensor:
        return t.mean(norm.dims, keepdim=True)

    x, g, cotangent = (t.reshape(norm.split).abs() for t in (tensors[0], g, tangents[0]))
    signed = tensors[0].reshape(norm.split)
    middle = mean(signed) if norm.centred else torch.zeros(1, dtype=g.dtype)
    r = 1 / (mean((signed - middle) ** 2)).sqrt()
    if norm.fixed:
        middle, variance = (t.to(g.dtype).reshape(norm.vector) for t in (MEAN, VAR))
        r = 1 / variance.sqrt()
    h = (x + middle.abs()) * r

    def back(u: torch.Tensor) -> torch.Tensor:
        return u * r if norm.fixed else (u + mean(u) + h * mean(u * h)) * r

    weight, to_weight, to_bias = vector(tensors, 1, 1.0), vector(tangents, 1, 0.0), vector(tangents, 2, 0.0)
    p, q = g * weight, back(cotangent)
    to_x = back(g * to_weight + (p * mean(cotangent * h) + cotangent * mean(p * h)) * r) + mean(p * q) * r * h
    lead = [1] * (len(norm.split) - len(norm.vector)) + list(norm.vector)
    shared = [d for d, k in enumerate(lead) if k == 1]
    return [to_x.reshape(SHAPE), (g * q).sum(shared), (q * weight + h * to_weight + to_bias).reshape(SHAPE)]


@pytest.mark.parametrize("plain", [False, True], ids=["affine", "plain"])
@pytest.mark.parametrize("name", NORMS)
def test_norm__second_derivatives(name: str, plain: bool) -> None:
    norm = NORMS[name]
    wide = arguments(norm, plain, torch.float64)
    exact = derivatives(function(norm, F), *wide)
    limits = sizes(norm, *wide)
    n = torch.Size(norm.split[d] for d in norm.dims).numel()
    for dtype, unit in ((torch.float32, 2.0**-24), (torch.float64, 2.0**-53)):
        actual = derivatives(function(norm, ops), *arguments(norm, plain, dtype))
        assert len(actual) == len(exact)
        # A term passes through the sums of mean, variance and three nested means (n + 7 roundings each, those of
        # the statistics counted twice, as h enters squared), 12 other operations, and a last sum of up to 120 terms.
        # torch's own error in float64 is one more of the same size.
        bound = (10 * (n + 7) + 12 + 120) * unit * (2 if dtype is torch.float64 else 1)
        count = len(wide[0])
        of_x, of_weight, of_grad = limits
        second = list(zip(actual, exact))[1 + count :]
        for number, (a, e) in enumerate(second):
            limit = of_grad if number == count else of_x if number == 0 else of_weight.reshape(e.shape)
            assert a.dtype == dtype and a.shape == e.shape
            assert ((a.double() - e).abs() <= bound * limit).all(), f"{dtype} derivative {number}"


def test_norm__third_derivatives_know_that_statistics_depend_on_the_input() -> None:
    # d/dx of a sum of squares of second derivatives, against differences of it in float64.
    for norm in NORMS.values():
        tensors, g, tangents = arguments(norm, False, torch.float64)
        call = function(norm, ops)

        def squares(x: torch.Tensor) -> torch.Tensor:
            leaves = [x, *(t.requires_grad_() for t in tensors[1:])]
            first = torch.autograd.grad(call(*leaves), leaves, g, create_graph=True)
            used = [(a, b) for a, b in zip(first, tangents) if a.requires_grad]
            (second,) = torch.autograd.grad([a for a, _ in used], [x], [b for _, b in used], create_graph=True)
            return (second * second).sum()

        x = tensors[0].clone().requires_grad_()
        value = squares(x)
        if not value.requires_grad:
            continue
        (third,) = torch.autograd.grad(value, x)
        direction = uniform(31, *SHAPE).double()
        step = 2.0**-17
        ends = [squares((x + s * step * direction).detach().requires_grad_()).item() for s in (1, -1)]
        slope, expected = (ends[0] - ends[1]) / (2 * step), (third * direction).sum().item()
        # The error of the difference: step**2 times the third derivative of `squares`, and roundings over step.
        assert abs(slope - expected) <= 1e-6 * abs(expected), (slope, expected)


def test_norm__second_derivatives_have_the_same_bits_on_every_backend() -> None:
    names = [n for n, info in repdl.backends().items() if info.device == "cpu"]
    assert {"cpu", "reference"} <= set(names)
    for norm in NORMS.values():
        for contract in ("v1", "sequential"):
            for dtype in (torch.float32, torch.float64, torch.bfloat16):
                results = []
                for backend in names:
                    with repdl.use_backend(backend), repdl.use_contract(contract):
                        results.append(derivatives(function(norm, ops), *arguments(norm, False, dtype)))
                for result in results[1:]:
                    assert_same_bits(results[0], result)


def test_norm__second_derivatives_do_not_depend_on_the_layout() -> None:
    for norm in NORMS.values():
        tensors, g, tangents = arguments(norm, False, torch.float32)
        expected = derivatives(function(norm, ops), tensors, g, tangents)
        last = [t.to(memory_format=torch.channels_last) if t.dim() == 4 else t for t in (*tensors, g, *tangents)]
        k = len(tensors)
        assert_same_bits(derivatives(function(norm, ops), last[:k], last[k], last[k + 1 :]), expected)


def test_norm__second_derivatives_without_elements() -> None:
    for shape in ((0, 6, 3, 5), (4, 6, 0, 5)):
        for norm in NORMS.values():
            x = torch.zeros(shape, requires_grad=True)
            vectors = [torch.ones(k, requires_grad=True) for k in (norm.vector if len(norm.vector) == 2 else (6,),) * 2]
            if norm.vector == (3, 5) and shape[2] == 0:
                continue
            leaves = [x, *vectors[: 2 if norm.centred else 1]]
            first = torch.autograd.grad(function(norm, ops)(*leaves).sum(), leaves, create_graph=True)
            used = [g for g in first if g.requires_grad]
            second = torch.autograd.grad(used, leaves, [torch.ones_like(g) for g in used], allow_unused=True)
            assert second[0] is not None and second[0].shape == shape
            assert all(t is None or not t.any() for t in second[1:])
