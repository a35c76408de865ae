"""Calls of several ops with derivatives that are run again: one node of autograd, and the gradients of several."""

from __future__ import annotations

import gc
import weakref
from collections.abc import Callable
from typing import Any

import pytest
import torch

from repdl import ops
from repdl.callcache import c_extension, cache_calls
from repdl.registry.derivative import ChainDerivative
from repdl.testing.compare import assert_same_bits

pytestmark = pytest.mark.skipif(c_extension() is None, reason="torch < 2.10 has no DLPack exchange API")

Function = Callable[..., torch.Tensor]
CALLS = 5


def x(*shape: int, dtype: torch.dtype = torch.float32) -> torch.Tensor:
    return torch.randn(*shape, dtype=dtype) * 2


def is_chain(output: torch.Tensor) -> bool:
    return isinstance(getattr(output.grad_fn, "shared", None), ChainDerivative)


def gradients(function: Function, tensors: list[torch.Tensor], wanted: list[int], twice: bool) -> list[Any]:
    """The output, the gradients of those wanted, and with `twice` those of a function of these."""
    leaves = [t.detach().requires_grad_(n in wanted) for n, t in enumerate(tensors)]
    inputs = [leaves[n] for n in wanted]
    output = function(*leaves)
    grad = torch.linspace(-1, 2, output.numel(), dtype=output.dtype).view_as(output)
    found = list(torch.autograd.grad(output, inputs, grad, create_graph=twice))
    if twice:
        slopes = [g * g for g in found if g.requires_grad]
        if slopes:
            total = torch.stack([s.sum() for s in slopes]).sum()
            found += torch.autograd.grad(total, inputs, allow_unused=True)
    return [output, *found]


def chain(x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
    return ops.exp(ops.mul(ops.tanh(x), y))


def forked(x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
    """Whose intermediate result two ops get."""
    half = ops.mul(x, 0.5)
    return ops.mul(ops.sigmoid(half), ops.add(half, y))


def of_constant(x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
    """Which saves what has no gradient, and was computed."""
    return ops.mul(ops.mul(x, ops.sin(y.detach())), 3.0)


LOSSES: dict[str, Function] = {
    "mse_loss": ops.mse_loss,
    "mse_loss, sum": lambda a, b: ops.mse_loss(a, b, reduction="sum"),
    "l1_loss": ops.l1_loss,
    "smooth_l1_loss": ops.smooth_l1_loss,
    "huber_loss": lambda a, b: ops.huber_loss(a, b, delta=0.7),
    "binary_cross_entropy_with_logits": ops.binary_cross_entropy_with_logits,
    "chain": chain,
    "forked": forked,
    "of_constant": of_constant,
    "inputs used twice": lambda a, b: ops.add(ops.mul(ops.mul(a, a), b), ops.mul(ops.sin(a), b)),
    "std": lambda a, b: ops.mul(ops.std(a), ops.std(b)),
}


@pytest.mark.parametrize("twice", [False, True])
@pytest.mark.parametrize("dtype", [torch.float32, torch.float64, torch.bfloat16])
@pytest.mark.parametrize("wanted", [[0], [1], [0, 1]])
@pytest.mark.parametrize("name", LOSSES)
def test_replay__chains(name: str, wanted: list[int], dtype: torch.dtype, twice: bool) -> None:
    if name == "of_constant" and wanted != [0]:
        return
    function = LOSSES[name]
    cached = cache_calls(lambda a, b: function(a, b))
    for shape in ((3, 5), (16,)):
        for _ in range(CALLS):
            tensors = [x(*shape, dtype=dtype), x(*shape, dtype=dtype)]
            actual, expected = (gradients(f, tensors, wanted, twice) for f in (cached, cached.__wrapped__))
            assert len(actual) == len(expected)
            for a, e in zip(actual, expected):
                assert (a is None) == (e is None)
                if a is not None:
                    assert_same_bits(a.detach(), e.detach(), name)
        assert is_chain(actual[0]), name


def test_replay__chain_is_one_node() -> None:
    a, b = x(4, 4).requires_grad_(), x(4, 4)
    for _ in range(3):
        loss = ops.mse_loss(a, b)
    assert is_chain(loss)
    assert {node.name() for node, _ in loss.grad_fn.next_functions if node is not None} == {
        "torch::autograd::AccumulateGrad"
    }
    loss.backward()
    (derivative,) = [loss.grad_fn.shared.derivative]
    for _ in range(3):
        ops.mse_loss(a, b).backward()
    assert derivative.recordings == 1


def test_replay__chain_with_an_input_used_twice() -> None:
    """Its gradients are added one by one to what other ops have given."""
    function = cache_calls(lambda s, t: ops.exp(ops.mul(ops.sin(s), t)))
    seen, grad = set(), torch.linspace(1, 3, 500)
    for _ in range(CALLS):
        values = x(500)
        sums = []
        for call in (function, function.__wrapped__):
            leaf = values.detach().requires_grad_()
            own = leaf * 1
            output = call(own, own)
            seen.add(is_chain(output))
            sums.append(torch.autograd.grad(output + own * 0.1, leaf, grad)[0])
        assert_same_bits(*sums)
        twins = [values.detach().requires_grad_() for _ in range(2)]
        early, late = torch.autograd.grad(function(*twins), twins, grad)
        assert_same_bits(sums[0], (grad * 0.1 + late) + early)
        assert not torch.equal(sums[0], grad * 0.1 + (late + early))  # the order matters
    assert seen == {False, True}


def test_replay__chain_gives_its_gradients_in_the_order_of_its_ops() -> None:
    """Where two of its tensors are one to autograd, which adds one after the other to what is there."""
    function = cache_calls(lambda s, t: ops.mul(ops.exp(s), t))
    seen = set()
    for _ in range(CALLS):
        values = x(500)
        sums = []
        for call in (function, function.__wrapped__):
            leaf = values.detach().requires_grad_()
            own = leaf.tanh()
            other = own.grad_fn._saved_result
            assert other is not own and other.grad_fn is own.grad_fn
            output = call(own, other) + own * 0.1
            (grad,) = torch.autograd.grad(output, leaf, torch.linspace(1, 3, 500))
            sums.append(grad)
            seen.add(is_chain(call(own, other)))
        assert_same_bits(*sums)
    assert seen == {False, True}


def test_replay__chain_computes_the_gradients_that_are_wanted() -> None:
    """Of large tensors, where some gradients are asked for."""
    function = cache_calls(lambda s, t, u: ops.mul(ops.sub(ops.tanh(s), t), u))
    for _ in range(CALLS):
        tensors = [x(200, 200).requires_grad_() for _ in range(3)]
        for wanted in ([0], [1], [2], [0, 2], [1, 2], [0, 1, 2]):
            inputs = [tensors[n] for n in wanted]
            output = function(*tensors)
            actual, expected = (
                torch.autograd.grad(o, inputs, torch.ones_like(o)) for o in (output, function.__wrapped__(*tensors))
            )
            for a, e in zip(actual, expected):
                assert_same_bits(a, e, str(wanted))
    assert is_chain(output) and output.grad_fn.shared.derivative is None
    assert len(output.grad_fn.shared._to) == 6


@pytest.mark.parametrize(("count", "merged"), [(12, True), (30, False)])
def test_replay__chain_of_many_tensors(count: int, merged: bool) -> None:
    def product(*factors: torch.Tensor) -> torch.Tensor:
        total = factors[0]
        for factor in factors[1:]:
            total = ops.mul(total, factor)
        return total

    function = cache_calls(product)
    for _ in range(CALLS):
        factors = [x(3).requires_grad_() for _ in range(count)]
        grads = [torch.autograd.grad(f(*factors), factors, torch.ones(3)) for f in (function, product)]
        for actual, expected in zip(*grads):
            assert_same_bits(actual, expected)
    assert is_chain(function(*factors)) == merged


def test_replay__chain_gives_no_gradient_to_what_is_not_used() -> None:
    """None and zeros are different gradients."""

    def unused(s: torch.Tensor, t: torch.Tensor) -> torch.Tensor:
        ops.sign(s)
        return ops.exp(ops.sin(t))

    for function in (unused, lambda s, t: ops.exp(ops.sin(t)), lambda s, t: ops.exp(ops.mul(ops.sin(t), s.detach()))):
        cached = cache_calls(function)
        for _ in range(CALLS):
            a, b = x(4).requires_grad_(), x(4).requires_grad_()
            output = cached(ops.tanh(a), b)
            grads = torch.autograd.grad(output.sum(), (a, b), allow_unused=True)
            assert grads[0] is None and grads[1] is not None


def test_replay__chain_keeps_no_result() -> None:
    a, b = x(300, 300).requires_grad_(), x(300, 300)
    for _ in range(3):
        loss = ops.smooth_l1_loss(a, b)
    assert is_chain(loss)
    kept = [t for t in loss.grad_fn.saved_tensors if t is not None and t.dim() > 0]  # a constant is the recording's
    memory = [weakref.ref(t.untyped_storage()) for t in kept]
    assert kept
    del kept
    loss.backward()
    with pytest.raises(RuntimeError, match="second time"):
        loss.backward()
    del loss
    gc.collect()
    assert all(storage() is None for storage in memory)


def test_replay__chain_is_seen_by_hooks_of_saved_tensors() -> None:
    a, b = x(4, 4).requires_grad_(), x(4, 4)
    packed: list[torch.Size] = []

    def pack(tensor: torch.Tensor) -> torch.Tensor:
        packed.append(tensor.shape)
        return tensor.clone()

    grads = []
    for _ in range(3):
        packed.clear()
        with torch.autograd.graph.saved_tensors_hooks(pack, lambda t: t):
            loss = ops.mse_loss(a, b)
        grads += torch.autograd.grad(loss, a)
        shapes = [*packed]
    assert is_chain(loss) and shapes[0] == (4, 4)
    assert_same_bits(grads[0], grads[2])


def test_replay__chain_notices_what_was_changed() -> None:
    a, b = x(4).requires_grad_(), x(4)
    function = cache_calls(chain)
    for _ in range(3):
        factor = b.clone()
        output = function(a, factor)
        factor.add_(1)
        with pytest.raises(RuntimeError, match="modified by an inplace operation"):
            output.sum().backward()
    assert is_chain(output)


def test_replay__chain_with_a_view_in_between_stays_several_nodes() -> None:
    function = cache_calls(lambda t: ops.exp(ops.sin(t).t()))
    for _ in range(3):
        a = x(3, 5).requires_grad_()
        output = function(a)
        expected = function.__wrapped__(a)
        grad = x(5, 3)
        assert_same_bits(*torch.autograd.grad(output, a, grad), *torch.autograd.grad(expected, a, grad))
    assert not is_chain(output)
