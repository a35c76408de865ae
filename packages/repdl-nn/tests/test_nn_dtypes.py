"""Layers in bfloat16, float16 and float64: converted models compute in the dtype of the model."""

from __future__ import annotations

import copy

import pytest
import torch

import repdl
from repdl import ops
from repdl.registry.backend import backends
from repdl.testing import assert_same_bits, uniform

FLOATS_16_BIT = (torch.bfloat16, torch.float16)
DTYPES = (*FLOATS_16_BIT, torch.float64)


def model() -> torch.nn.Module:
    torch.manual_seed(0)
    return torch.nn.Sequential(
        torch.nn.Conv2d(2, 4, 3, padding=1, padding_mode="circular"),
        torch.nn.BatchNorm2d(4),
        torch.nn.ReLU(),
        torch.nn.MaxPool2d(2),
        torch.nn.Flatten(),
        torch.nn.Linear(36, 5),
        torch.nn.BatchNorm1d(5),
    )


@pytest.mark.parametrize("dtype", DTYPES)
def test_dtypes__a_converted_model_trains(dtype: torch.dtype) -> None:
    source = model().to(dtype)
    ours, exact = repdl.from_torch_module(source), copy.deepcopy(source).double()
    x = uniform(1, 6, 2, 6, 6).to(dtype)
    with repdl.use_backend("reference"):
        y = ours(x)
        y.backward(torch.ones_like(y) * uniform(2, *y.shape).to(dtype))
    expected = exact(x.double())
    expected.backward(uniform(2, *y.shape).to(dtype).double())
    assert y.dtype is dtype
    # Seven roundings to the dtype one after the other, amplified by the two divisions by a standard deviation.
    unit = {torch.bfloat16: 2.0**-8, torch.float16: 2.0**-11, torch.float64: 2.0**-53}[dtype]
    assert (y.double() - expected).abs().max() <= 64 * unit * expected.abs().max()
    for p, q in zip(ours.parameters(), exact.parameters()):
        assert p.grad is not None and p.grad.dtype is dtype
        assert (p.grad.double() - q.grad).abs().max() <= 256 * unit * max(1.0, q.grad.abs().max().item())
    for a, b in zip(ours.buffers(), exact.buffers()):
        assert a.dtype in (dtype, torch.int64)
        assert (a.double() - b.double()).abs().max() <= 16 * unit * max(1.0, b.double().abs().max().item())


@pytest.mark.skipif("cpu" not in backends(), reason="repdl-cpu is not installed")
@pytest.mark.parametrize("dtype", FLOATS_16_BIT)
def test_dtypes__halves_have_the_same_bits_on_the_cpu_backend(dtype: torch.dtype) -> None:
    results = []
    for backend in ("reference", "cpu"):
        ours = repdl.from_torch_module(model().to(dtype))
        with repdl.use_backend(backend):
            y = ours(uniform(1, 6, 2, 6, 6).to(dtype))
            y.backward(uniform(2, *y.shape).to(dtype))
        results.append([y, *(p.grad for p in ours.parameters()), *ours.buffers()])
    assert_same_bits(results[1], results[0])


@pytest.mark.parametrize("dtype", FLOATS_16_BIT)
def test_dtypes__float32_statistics_beside_half_input(dtype: torch.dtype) -> None:
    layer = repdl.nn.BatchNorm2d(4)
    layer.weight.data, layer.bias.data = uniform(3, 4).to(dtype), uniform(4, 4).to(dtype)
    x = uniform(1, 6, 4, 3, 3).to(dtype)
    y = layer(x)
    wide = repdl.nn.BatchNorm2d(4)
    wide.weight.data, wide.bias.data = layer.weight.data.float(), layer.bias.data.float()
    assert_same_bits(y, ops.cast(wide(x.float()), dtype))
    assert_same_bits(layer.running_mean, wide.running_mean)
    assert layer.running_var is not None and layer.running_var.dtype is torch.float32


@pytest.mark.parametrize("dtype", FLOATS_16_BIT)
def test_dtypes__losses(dtype: torch.dtype) -> None:
    x, target = uniform(1, 5, 4).to(dtype), torch.tensor([0, 1, 2, 3, 0])
    for layer in (repdl.nn.CrossEntropyLoss(), repdl.nn.NLLLoss()):
        leaf = x.clone().requires_grad_()
        loss = layer(leaf, target)
        loss.backward()
        assert loss.dtype is dtype and leaf.grad is not None and leaf.grad.dtype is dtype
        assert_same_bits(loss, ops.cast(layer(x.float(), target), dtype))
