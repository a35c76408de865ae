"""Functions on the samples of torch's own op database: against torch in float64, and its bad inputs."""

from __future__ import annotations

import itertools
import warnings
from collections.abc import Callable, Iterator
from typing import Any

import pytest
import torch

from repdl import ops
from repdl.errors import RepDLError
from repdl.testing import assert_same_bits
from repdl.testing.oracle import OLDER, assert_multilinear

pytest.importorskip("expecttest", reason="torch's op database needs it")
with pytest.MonkeyPatch.context() as patch:  # torch's module would freeze flags for all tests of the process
    patch.setattr(torch.backends, "disable_global_flags", lambda: None)
    from torch.testing._internal.common_methods_invocations import op_db

LINEAR = {
    "gather": 40,
    "index_select": 40,
    "take_along_dim": 40,
    "index_add": 40,
    "index_put": 40,
    "scatter_add": 40,
    "scatter_reduce sum": 40,
    "scatter_reduce mean": 40,
    "nn.functional.unfold": 40,
    **{f"nn.functional.interpolate {mode}": 300 for mode in ("nearest", "nearest-exact", "area")},
    **{f"nn.functional.{kind}_pool{d}d": 300 for kind in ("avg", "adaptive_avg") for d in (1, 2, 3)},
    **{f"nn.functional.max_unpool{d}d grad": 40 for d in (1, 2, 3)},
}
"""Functions that are linear in all of their tensors together, and at most how many roundings a term goes through."""

SELECTING = {
    **{f"nn.functional.adaptive_max_pool{d}d": 40 for d in (1, 2, 3)},
    "nn.functional.max_pool3d": 40,
}
"""Functions that select elements, in which no two are equal, and at most how many terms a gradient has."""

RESAMPLING = [f"nn.functional.interpolate {mode}" for mode in ("linear", "bilinear", "bicubic", "trilinear")]
"""Linear functions whose positions torch rounds, to doubles here: a weight of 0 can be 2**-50 there, or here."""

MOST = 12
"""Samples of a function that are tried: evenly chosen where there are more."""

INFOS = {f"{info.name} {info.variant_test_name}".strip(): info for info in op_db}
UNTRIED = {"bincount"}
"""Functions of this kind whose samples have no floating-point results to compare."""


def function(name: str) -> Callable[..., Any]:
    return getattr(ops, name.split()[0].removeprefix("nn.functional."))


def samples(name: str) -> Iterator[tuple[Any, tuple[Any, ...], dict[str, Any]]]:
    torch.manual_seed(0)
    found = list(INFOS[name].sample_inputs("cpu", torch.float32))
    for sample in found[:: max(1, len(found) // MOST)]:
        yield sample.input, sample.args, sample.kwargs


def split(arguments: tuple[Any, ...], named: dict[str, Any]) -> tuple[list[torch.Tensor], Callable[..., Any]]:
    """The floating-point tensors of a call, and the arguments with others in their place."""
    keys = [*range(len(arguments)), *named]
    everything = {**dict(enumerate(arguments)), **named}
    free = [k for k in keys if isinstance(everything[k], torch.Tensor) and everything[k].is_floating_point()]

    def call(function: Callable[..., Any], *tensors: torch.Tensor) -> Any:
        given = {**everything, **dict(zip(free, tensors))}
        positional = [given[i] for i in range(len(arguments))]
        return function(*positional, **{k: given[k] for k in named})

    return [everything[k].detach() for k in free], call


@pytest.mark.parametrize("name", LINEAR)
def test_samples__as_torch(name: str) -> None:
    count = 0
    for first, rest, named in samples(name):
        tensors, call = split((first, *rest), named)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            expected = INFOS[name].op
            shape = call(expected, *tensors).shape
            cotangent = torch.linspace(-1, 1, max(1, shape.numel()))[: shape.numel()].reshape(shape)
            assert_multilinear(
                lambda *t: call(function(name), *t), lambda *t: call(expected, *t), tensors, LINEAR[name], cotangent
            )
        count += 1
    assert count > 0


@pytest.mark.parametrize("name", RESAMPLING)
def test_samples__resampled_as_torch(name: str) -> None:
    """A weight is below 1.1, a term passes through at most 15 roundings, an element gets at most 1024 terms."""
    for first, rest, named in samples(name):
        leaf, exact = (t.detach().clone().requires_grad_() for t in (first, first.double()))
        actual, expected = function(name)(leaf, *rest, **named), INFOS[name].op(exact, *rest, **named)
        g = torch.linspace(-1, 1, actual.numel()).view(actual.shape)
        (a,), (e,) = torch.autograd.grad(actual, leaf, g), torch.autograd.grad(expected, exact, g.double())
        terms = max(1.0, actual.numel() / leaf.numel())
        for one, other, size in ((actual, expected, leaf.abs().max()), (a, e, 8 * terms)):
            assert one.shape == other.shape, f"{rest} {named}"
            assert (one.double() - other).abs().max() <= 64 * 2.0**-24 * float(size), f"{rest} {named}"


@pytest.mark.parametrize("name", SELECTING)
def test_samples__selected_as_torch(name: str) -> None:
    """Values and indices are torch's, bit for bit."""
    for first, rest, named in samples(name):
        rest, named = rest[:1] if "adaptive" in name else rest, {**named, "return_indices": True}
        results = []
        for run in (function(name), getattr(torch.nn.functional, name.rpartition(".")[2])):
            leaf = first.detach().clone().requires_grad_()
            values, indices = run(leaf, *rest, **named)
            (grad,) = torch.autograd.grad(values, leaf, torch.linspace(1, 2, values.numel()).view(values.shape))
            results.append((values.detach(), indices, grad))
        (values, indices, grad), (their_values, their_indices, their_grad) = results
        assert_same_bits([values, indices], [their_values, their_indices], f"{name} {rest} {named}")
        torch.testing.assert_close(grad, their_grad, rtol=2 * SELECTING[name] * 2.0**-24, atol=0)


@pytest.mark.parametrize("name", LINEAR)
def test_samples__halves_are_rounded_once(name: str) -> None:
    for first, rest, named in itertools.islice(samples(name), 8):
        tensors, call = split((first, *rest), named)
        for dtype in (torch.bfloat16, torch.float16):
            halves = [t.to(dtype) for t in tensors]
            wide = call(function(name), *(t.float() for t in halves))
            assert_same_bits(call(function(name), *halves), ops.cast(wide, dtype), f"{name} {rest} {named}")


@pytest.mark.parametrize("name", [n for n in {**LINEAR, **SELECTING} if INFOS[n].error_inputs_func])
def test_samples__bad_input_raises(name: str) -> None:
    if OLDER:
        pytest.skip("the errors are those of a newer torch")
    for error in INFOS[name].error_inputs("cpu"):
        sample = error.sample_input
        with pytest.raises((RepDLError, TypeError)):
            function(name)(sample.input, *sample.args, **sample.kwargs)
