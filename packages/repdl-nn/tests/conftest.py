"""Helpers of the layer tests: uniform inputs, and a layer against torch's in float64."""

from __future__ import annotations

import copy
from collections.abc import Callable

import pytest
import torch

Uniform = Callable[..., torch.Tensor]
Compare = Callable[..., torch.Tensor]


@pytest.fixture
def uniform() -> Uniform:
    """`uniform(*shape)`: float32 in [-1, 1), the same numbers in every test."""
    generator = torch.Generator().manual_seed(0)

    def draw(*shape: int) -> torch.Tensor:
        return torch.rand(shape, generator=generator) * 2 - 1

    return draw


@pytest.fixture
def compare(uniform: Uniform) -> Compare:
    """`compare(layer, reference, *inputs, tolerance=)`: output, gradients and buffers of
    `layer` against those of the torch module `reference` in float64.

    float64 counts as exact here: its roundings are 2**29 times smaller than float32's.
    Every test states the tolerance that its float32 side needs.
    """

    def run(
        layer: torch.nn.Module, reference: torch.nn.Module, *inputs: torch.Tensor, tolerance: float
    ) -> torch.Tensor:
        reference.load_state_dict(layer.state_dict())
        exact = copy.deepcopy(reference).double()
        ours = [x.detach().clone().requires_grad_(x.is_floating_point()) for x in inputs]
        theirs = [x.double().requires_grad_() if x.is_floating_point() else x for x in inputs]
        output, expected = layer(*ours), exact(*theirs)
        assert output.dtype == torch.float32
        pairs = [("output", output, expected)]
        if output.requires_grad:
            cotangent = uniform(*output.shape)
            output.backward(cotangent)
            expected.backward(cotangent.double())
            pairs += [("input", a.grad, b.grad) for a, b in zip(ours, theirs, strict=True)]
            parameters = dict(exact.named_parameters())
            pairs += [(name, p.grad, parameters[name].grad) for name, p in layer.named_parameters()]
        buffers = dict(exact.named_buffers())
        pairs += [(name, b, buffers[name]) for name, b in layer.named_buffers()]
        for name, a, b in pairs:
            if b is None or a is None:
                assert a is b, name
                continue
            assert a.shape == b.shape, name
            error = (a.double() - b).abs().max().item() if a.numel() else 0.0
            assert error <= tolerance, f"{name}: error {error:.3g}, tolerance {tolerance:.3g}"
        return output

    return run
