"""dropout and its kin as functions: what is dropped, derivatives, recomputation, torch.compile."""

from __future__ import annotations

import math
import warnings
from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch.utils.checkpoint import checkpoint

from repdl import ops, random
from repdl.errors import ArgumentError, DTypeError, OutOfRangeError, RepDLError, ShapeError, UnsupportedError
from repdl.random import Generator
from repdl.testing import assert_same_bits, uniform

Function = Callable[..., torch.Tensor]
ELEMENTS: dict[str, Function] = {"dropout": ops.dropout, "alpha_dropout": ops.alpha_dropout}
CHANNELS: dict[str, Function] = {
    "dropout1d": ops.dropout1d,
    "dropout2d": ops.dropout2d,
    "dropout3d": ops.dropout3d,
    "feature_dropout": ops.feature_dropout,
    "feature_alpha_dropout": ops.feature_alpha_dropout,
}
ALL = ELEMENTS | CHANNELS


@pytest.fixture(autouse=True)
def seeded() -> None:
    random.manual_seed(0)


def example(name: str, dtype: torch.dtype = torch.float32) -> torch.Tensor:
    shape = {"dropout1d": (6, 8, 5), "dropout3d": (6, 8, 2, 3, 2)}.get(name, (6, 8, 5, 3))
    return (uniform(1, *shape) + 2).to(dtype)


def dropped_by(name: str, p: float, x: torch.Tensor, seed: int = 0) -> torch.Tensor:
    """Bools in the shape of x, from the draw of bits that the text says."""
    size = x.shape if name in ELEMENTS else (*x.shape[:2], *[1] * (x.dim() - 2))
    return (random.bernoulli(torch.empty(size), p, generator=Generator(seed)) == 1).expand(x.shape)


@pytest.mark.parametrize("name", ALL)
def test_dropout__is_the_formula(name: str) -> None:
    for dtype in (torch.float32, torch.float64, torch.bfloat16):
        x = example(name, dtype)
        for p in (0.3, 0.5, 1.0):
            y = ALL[name](x, p, True, generator=Generator(0))
            dropped = dropped_by(name, p, x)
            assert dropped.any() and (p == 1 or not dropped.all())
            wide, eps = x.double(), torch.finfo(dtype).eps
            if "alpha" in name and p < 1:
                low = 1.7580993408473766
                scale = 1 / math.sqrt((low * low * p + 1) * (1 - p))
                expected = torch.where(dropped, -low, wide) * scale + scale * low * p
            else:
                expected = torch.where(dropped, 0.0, wide / (1 - p) if p < 1 else wide)
            assert y.dtype is dtype and (y.double() - expected).abs().max() <= 8 * eps * (1 + expected.abs().max())


@pytest.mark.parametrize("name", ALL)
def test_dropout__what_leaves_the_input(name: str) -> None:
    x, state = example(name), random.get_state()
    assert ALL[name](x, 0.5, False) is x and ALL[name](x, 0.0, True) is x
    empty = x[:0]
    assert ALL[name](empty, 0.5, True) is empty
    assert torch.equal(random.get_state(), state)


@pytest.mark.parametrize("name", ALL)
def test_dropout__strides_and_inplace(name: str) -> None:
    x = example(name)
    expected = ALL[name](x, 0.4, True, generator=Generator(0))
    strided = x.transpose(0, 1).contiguous().transpose(0, 1)
    assert torch.equal(ALL[name](strided, 0.4, True, generator=Generator(0)), expected)
    if name == "feature_dropout":
        return
    given = x.clone()
    assert ALL[name](given, 0.4, True, True, generator=Generator(0)) is given and torch.equal(given, expected)
    leaf = x.clone().requires_grad_()
    (gradient,) = torch.autograd.grad(ALL[name](leaf, 0.4, True, generator=Generator(0)).sum(), leaf)
    y = ALL[name](leaf * 1, 0.4, True, True, generator=Generator(0))
    assert torch.equal(y, expected) and torch.equal(torch.autograd.grad(y.sum(), leaf)[0], gradient)


@pytest.mark.parametrize("name", ALL)
def test_dropout__derivatives(name: str) -> None:
    """Of the first order against the formula, of the second 0 but through what multiplies the gradient."""
    x = example(name).requires_grad_()
    weight = torch.ones_like(x).requires_grad_()
    y = ALL[name](x, 0.4, True, generator=Generator(0))
    (gradient,) = torch.autograd.grad(y, x, weight, create_graph=True)
    kept = ~dropped_by(name, 0.4, x)
    assert ((gradient != 0) == kept).all() and gradient.detach().unique().numel() == 2
    (second,) = torch.autograd.grad(gradient.square().sum(), weight)
    assert_same_bits(second, gradient.detach() * (gradient.detach() * 2))


def test_dropout__keeps_no_mask() -> None:
    kept: list[torch.Tensor] = []
    with torch.autograd.graph.saved_tensors_hooks(lambda t: kept.append(t) or t, lambda t: t):
        ops.dropout(torch.ones(1000, requires_grad=True) * 1, 0.5)
    assert [t.numel() for t in kept if t.numel() > 1] == [3]


def test_dropout__without_a_batch() -> None:
    x = example("dropout3d")[0]
    assert torch.equal(ops.dropout3d(x, generator=Generator(0)), ops.dropout3d(x[None], generator=Generator(0))[0])
    x = example("dropout1d")[0]
    assert torch.equal(ops.dropout1d(x, generator=Generator(0)), ops.dropout1d(x[None], generator=Generator(0))[0])
    with pytest.warns(UserWarning, match="dropout2d: input.dim"):
        y = ops.dropout2d(example("dropout1d"), generator=Generator(0))
    assert torch.equal(y, ops.dropout1d(example("dropout1d"), generator=Generator(0)))


def test_dropout__bad_arguments_leave_the_generator() -> None:
    x: Any = torch.ones(2, 3)
    for name, function in ALL.items():
        bad: list[tuple[tuple[Any, ...], dict[str, Any], type[RepDLError], str]] = [
            ((x, -0.1, True), {}, OutOfRangeError, "p is -0.1, expected a probability"),
            ((x, 1.1, True), {}, OutOfRangeError, "p is 1.1"),
            ((x, float("nan"), True), {}, OutOfRangeError, "p is nan"),
            ((x, "a", True), {}, ArgumentError, "p is str"),
            ((x, 0.5, 1), {}, ArgumentError, "expected True or False"),
            (([1.0], 0.5, True), {}, ArgumentError, "expected a tensor"),
            ((example(name).to(torch.int64), 0.5, True), {}, DTypeError, "dtype is int64"),
            ((x, 0.5, True), {"generator": torch.Generator()}, ArgumentError, "generator is"),
        ]
        if name in CHANNELS:
            bad.append(((torch.ones(3), 0.5, True), {}, ShapeError, "dim"))
        state = random.get_state()
        for args, options, error, message in bad:
            with warnings.catch_warnings(), pytest.raises(error, match=f"{name}: .*{message}"):
                function(*args, **options)
            assert torch.equal(random.get_state(), state)
    with pytest.raises(UnsupportedError, match="is a leaf that requires a gradient"):
        ops.dropout(torch.ones(3, requires_grad=True), 0.5, True, True)


def block(x: torch.Tensor) -> torch.Tensor:
    x = ops.dropout2d(ops.dropout(x, 0.3), 0.3)
    return ops.mul(ops.alpha_dropout(x, 0.3, True), ops.feature_alpha_dropout(x, 0.3, True))


def results(function: Function) -> list[torch.Tensor]:
    """Outputs and gradients of three calls, and where the generator then is."""
    random.manual_seed(5)
    found = []
    for _ in range(3):
        x = example("dropout2d").requires_grad_()
        y = function(x)
        y.backward(torch.ones_like(y))
        assert x.grad is not None
        found += [y.detach(), x.grad]
    return [*found, random.get_state()]


@pytest.mark.parametrize("backend", ["eager", "aot_eager", "inductor"])
def test_dropout__compiled_draws_anew_with_the_bits_of_eager(backend: str) -> None:
    torch._dynamo.reset()
    eager, compiled = results(block), results(torch.compile(block, backend=backend, fullgraph=True))
    for a, b in zip(compiled, eager):
        assert torch.equal(a, b)
    assert not torch.equal(compiled[0], compiled[2])


@pytest.mark.parametrize("use_reentrant", [True, False])
def test_dropout__checkpointed_has_the_same_gradients(use_reentrant: bool) -> None:
    torch._dynamo.reset()
    plain = results(lambda x: block(block(x)))
    inside = torch.compile(block, backend="aot_eager")
    for function in (block, inside):

        def twice(x: torch.Tensor, function: Function = function) -> torch.Tensor:
            y = checkpoint(function, x, use_reentrant=use_reentrant)
            return checkpoint(function, y, use_reentrant=use_reentrant)

        kept = results(twice)
        for a, b in zip(kept, plain):
            assert torch.equal(a, b)


@pytest.mark.parametrize("function", [block, torch.compile(block, backend="aot_eager")], ids=["eager", "compiled"])
def test_dropout__a_recomputation_that_would_differ_raises(function: Function) -> None:
    with pytest.raises(UnsupportedError, match="a draw during a backward pass"):
        results(lambda x: checkpoint(function, x, use_reentrant=False, preserve_rng_state=False))
    own = Generator(1)
    with pytest.raises(UnsupportedError, match="a draw during a backward pass"):
        results(lambda x: checkpoint(lambda x: ops.dropout(x, generator=own), x, use_reentrant=False))


def test_dropout__compiled_around_a_checkpoint_raises() -> None:
    torch._dynamo.reset()
    function = torch.compile(lambda x: checkpoint(block, x, use_reentrant=False), backend="aot_eager")
    with pytest.raises(UnsupportedError, match="around the checkpoint, .* context_fn=repdl.random.save_positions"):
        results(function)


def test_dropout__saved_positions() -> None:
    """The same gradients compiled around the checkpoint, without torch's state, and of another generator."""
    options: dict[str, Any] = {"use_reentrant": False, "context_fn": random.save_positions}

    def kept(x: torch.Tensor) -> torch.Tensor:
        return block(checkpoint(block, x, **options))

    plain = results(lambda x: block(block(x)))
    for backend in ("eager", "aot_eager", "inductor"):
        torch._dynamo.reset()
        for a, b in zip(results(torch.compile(kept, backend=backend, fullgraph=True)), plain):
            assert torch.equal(a, b)
    for a, b in zip(results(lambda x: block(checkpoint(block, x, preserve_rng_state=False, **options))), plain):
        assert torch.equal(a, b)

    def own(x: torch.Tensor, generator: Generator) -> torch.Tensor:
        return ops.mul(ops.dropout(x, generator=generator), ops.dropout(x, generator=generator))

    found = []
    for run in (own, lambda x, generator: checkpoint(own, x, generator, **options)):
        generator = Generator(4)
        found.append(results(lambda x, run=run, generator=generator: run(x, generator)))  # type: ignore[misc]
    assert all(torch.equal(a, b) for a, b in zip(*found))
