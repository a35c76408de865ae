"""Derivatives of calls that are run again, and calls with gradients."""

from __future__ import annotations

import itertools
from collections.abc import Callable
from contextlib import nullcontext
from typing import Any

import pytest
import torch
from torch.overrides import BaseTorchFunctionMode

import repdl
from repdl import callcache, ops, registry
from repdl.callcache import c_extension
from repdl.settings.generation import GENERATION
from repdl.testing import uniform
from repdl.testing.call_cache import is_cached
from repdl.testing.cases import Case, cases
from repdl.testing.compare import assert_same_bits

pytestmark = pytest.mark.skipif(c_extension() is None, reason="torch < 2.10 has no DLPack exchange API")


def x(*shape: int) -> torch.Tensor:
    return torch.randn(*shape) + 3


BY_FAMILY: dict[str, list[Case]] = {}
for one in cases():
    BY_FAMILY.setdefault(registry.OPS[one.op].family, []).append(one)


def derivative(function: Callable[..., Any], *args: Any, **kwargs: Any) -> list[torch.Tensor]:
    """The output and the gradients of a function."""
    args = tuple(a.detach().requires_grad_() if isinstance(a, torch.Tensor) else a for a in args)
    output = function(*args, **kwargs)
    tensors = [a for a in args if isinstance(a, torch.Tensor)]
    return [output, *torch.autograd.grad(output, tensors, torch.linspace(-1, 1, output.numel()).view_as(output))]


CALLS: dict[str, tuple[Callable[..., Any], Callable[[], tuple[Any, ...]]]] = {
    "mm": (ops.mm, lambda: (x(8, 8), x(8, 8))),
    "add": (ops.add, lambda: (x(5, 7), x(7))),
    "linear": (ops.linear, lambda: (x(3, 8), x(4, 8), x(4))),
    "linear of 3-D": (ops.linear, lambda: (x(2, 3, 8), x(4, 8), x(4))),
    "attention of groups": (
        ops.scaled_dot_product_attention,
        lambda: (x(2, 4, 16, 8), x(2, 2, 16, 8), x(2, 2, 16, 8), None, 0.0, True, None, True),
    ),
    "relu": (ops.relu, lambda: (x(4, 4),)),
    "exp": (ops.exp, lambda: (x(4, 4),)),
    "gelu": (ops.gelu, lambda: (x(4, 4),)),
    "softmax": (ops.softmax, lambda: (x(4, 4), 1)),
    "sum": (ops.sum, lambda: (x(4, 4), 1)),
    "layer_norm": (ops.layer_norm, lambda: (x(4, 8), [8], x(8), x(8))),
    "conv2d": (ops.conv2d, lambda: (x(2, 3, 8, 8), x(4, 3, 3, 3), x(4))),
    "max_pool2d": (ops.max_pool2d, lambda: (x(2, 3, 8, 8), 2)),
    "mean of a dimension": (ops.mean, lambda: (x(4, 6), 1, True)),
    "lerp": (ops.lerp, lambda: (x(4), x(4), 0.3)),
    "pow": (ops.pow, lambda: (x(4), 3)),
}


@pytest.mark.parametrize("name", CALLS)
def test_replay__derivatives(name: str) -> None:
    function, make = CALLS[name]
    plain: Any = function
    torch.manual_seed(0)
    for _ in range(3):
        args = make()
        actual, expected = derivative(function, *args), derivative(plain.__wrapped__, *args)
        for a, e in zip(actual, expected):
            assert_same_bits(a.detach(), e.detach(), name)


@pytest.mark.parametrize("family", BY_FAMILY)
def test_replay__has_the_derivative_of_the_op(family: str) -> None:
    seen = set()
    for case in BY_FAMILY[family]:
        args = case.args()
        wanted = [i for i, a in enumerate(args) if isinstance(a, torch.Tensor) and a.is_floating_point()]
        if case.op in seen or not registry.OPS[case.op].differentiable or not all(args[i].numel() for i in wanted):
            continue
        seen.add(case.op)
        function: Any = getattr(registry.functions, case.op)
        for which in itertools.islice(itertools.product((True, False), repeat=len(wanted)), 4):
            needed = dict(zip(wanted, which))
            given = [a.detach().requires_grad_(needed[i]) if i in needed else a for i, a in enumerate(args)]
            tensors = [given[i] for i in wanted if needed[i]]
            grads = []
            for call in (function, function, function, function.__wrapped__):
                outputs = call(*given)
                output = outputs if isinstance(outputs, torch.Tensor) else outputs[0]
                if not output.requires_grad:  # an operand without a derivative
                    break
                grad = torch.linspace(-1, 1, output.numel()).view_as(output).to(output.dtype)
                grads.append(torch.autograd.grad(output, tensors, grad, allow_unused=True))
            for actual in grads[:-1]:
                for a, e in zip(actual, grads[-1]):
                    assert (a is None) == (e is None), str(case)
                    if a is not None:
                        assert_same_bits(a, e, str(case))
    assert seen or not any(registry.OPS[case.op].differentiable for case in BY_FAMILY[family])


def test_replay__derivatives_are_recorded() -> None:
    for name in (
        "mm",
        "add",
        "linear",
        "linear of 3-D",
        "relu",
        "softmax",
        "layer_norm",
        "conv2d",
        "attention of groups",
        "mean of a dimension",
    ):
        function, make = CALLS[name]
        args = [a.requires_grad_() if isinstance(a, torch.Tensor) else a for a in make()]
        for _ in range(5):
            output = function(*args)
            output.backward(torch.ones(output.shape))
        assert output.grad_fn.shared.derivative.recordings == 1, name


@pytest.mark.parametrize("name", ["linear", "linear of 3-D", "conv2d"])
def test_replay__only_gradients_that_are_asked_for_are_computed(name: str) -> None:
    """By torch.autograd.grad and `inputs` of backward, in a first call and in later ones."""
    function, shapes = {
        "linear": (ops.linear, ((128, 256), (64, 256), (64,))),
        "linear of 3-D": (ops.linear, ((2, 64, 256), (64, 256), (64,))),
        "conv2d": (ops.conv2d, ((4, 8, 32, 32), (16, 8, 3, 3), (16,))),
    }[name]
    leaves = [x(*shape).requires_grad_() for shape in shapes]
    factor, grad, seen = x(1), torch.ones_like(function(*leaves)), list[tuple[bool, ...]]()
    for turn in range(4):
        inputs = [ops.mul(leaf, factor) for leaf in leaves] if turn % 2 else leaves
        everything = torch.autograd.grad(function(*inputs), inputs, grad)
        for which in itertools.product((True, False), repeat=3):
            asked = [i for i, is_asked in enumerate(which) if is_asked]
            for is_plain in (True, False, False) if asked else ():
                with BaseTorchFunctionMode() if is_plain else nullcontext():  # in a mode nothing is replayed
                    output = function(*inputs)
                node = output.grad_fn
                while len(node.next_functions) < 3:  # a view
                    node = node.next_functions[0][0]
                node.register_hook(lambda given, _: seen.append(tuple(g is not None for g in given[:3])))
                found = torch.autograd.grad(output, [inputs[i] for i in asked], grad)
                assert_same_bits(found, [everything[i] for i in asked], str(which))
                assert seen.pop() == which
    input, weight = leaves[:2]
    function(*leaves).backward(grad, inputs=[input])
    assert input.grad is not None and weight.grad is None


def test_replay__expanded_results() -> None:
    """A mean's gradient lies as it does without a recording, one element for all that were summed."""
    input = x(4, 6, 5).requires_grad_()
    for _ in range(5):
        (grad,) = torch.autograd.grad(ops.mean(input, 2, True), input, x(4, 6, 1))
        assert grad.shape == (4, 6, 5) and grad.stride() == (6, 1, 0)


def test_replay__a_tensor_in_another_dtype() -> None:
    """Its memory is that of a tensor of the call, but checks and derivatives see them apart."""
    loss: Any = callcache.cache_calls(lambda x, packed: ops.cross_entropy(x, packed.view(torch.int64)))
    for differentiates in (True, False):
        for n in range(5):
            input, target = x(4, 3).requires_grad_(differentiates), torch.tensor([0, 1, 2, n % 3])
            results = [loss(input, target.view(torch.float64)), ops.cross_entropy(input, target)]
            assert_same_bits(results[0].detach(), results[1].detach(), "loss")
            if differentiates:
                assert_same_bits(*(torch.autograd.grad(result, input)[0] for result in results), "gradient")
            with pytest.raises(repdl.errors.OutOfRangeError, match="is 9, expected a class from 0 to 2"):
                loss(input, torch.tensor([0, 1, 2, 9]).view(torch.float64))


def test_replay__checks_see_tensors_as_the_call_does() -> None:
    """Values that a call looks at in another shape: they are looked at again, and errors are those of the call."""
    rows = callcache.cache_calls(
        lambda values, index: registry.functions.index_sum(values.reshape(-1, 2), index.reshape(-1), 4, "v1")
    )
    values, index = x(2, 3, 2), torch.tensor([[0, 3, 1], [3, 3, 0]])
    expected = rows.__wrapped__(values, index)
    for _ in range(4):
        assert_same_bits(rows(values, index), expected)
    assert rows.recordings == 1
    for wrong in (4, -1):
        with pytest.raises(IndexError, match=rf"index\[4\] is {wrong}, expected 0 to 3"):
            rows(values, torch.tensor([[0, 3, 1], [3, wrong, 0]]))
    assert_same_bits(rows(values, index), expected)


def test_replay__derivative_of_a_table() -> None:
    """Of indices in several dimensions, which its sum sees as a list."""
    index, weight = torch.tensor([[1, 4, 1], [1, 0, 2]]), x(5, 3).requires_grad_()
    grad = x(2, 3, 3)
    for _ in range(5):
        output = ops.embedding(index, weight)
        (found,) = torch.autograd.grad(output, weight, grad)
        assert_same_bits(found, registry.functions.index_sum(grad.view(6, 3), index.view(6), 5, "v1"))
    assert output.grad_fn.shared.derivative.recordings == 1


def test_replay__op_with_all_its_outputs() -> None:
    """A call that returns what the op does, several tensors: forward and backward are recorded, with those bits."""
    layer = registry.functions.lstm_layer
    shapes = (5, 16), (2, 4), (2, 4), (16, 4), (16,)

    def run(call: Callable[..., Any]) -> tuple[list[torch.Tensor], Any]:
        args = [uniform(i, *shape).requires_grad_() for i, shape in enumerate(shapes)]
        output = call(*args, None, [2, 2, 1], False, True, "v1")
        grads = [uniform(9 + i, *o.shape) for i, o in enumerate(output[:3])]
        return [*output, *torch.autograd.grad(output[:3], args, grads)], output[0].grad_fn

    before = layer.recordings
    expected, _ = run(layer.__wrapped__)
    for _ in range(5):
        found, node = run(layer)
        assert_same_bits(found, expected)
    assert layer.recordings == before + 1
    assert node.shared.derivative.recordings == 1


def test_replay__reshaped_operands_have_their_derivative() -> None:
    weight = torch.nn.Parameter(x(4, 8))
    for strides in ((24, 8, 1), (8, 16, 1)):  # the latter are copied
        input = x(2, 3, 8).as_strided((2, 3, 8), strides).requires_grad_()
        for grad in (x(2, 3, 4), x(2, 4, 3).transpose(1, 2)):
            for _ in range(4):
                output = ops.linear(input, weight)
                assert output.shape == (2, 3, 4)
                again = torch.autograd.grad(output, (input, weight), grad, create_graph=True)
                plain: Any = ops.linear
                rows = plain.__wrapped__(input, weight)
                expected = torch.autograd.grad(rows, (input, weight), grad, create_graph=True)
                twice = [torch.autograd.grad(a.sum() + b.sum(), (input, weight)) for a, b in (again, expected)]
                for a, e in zip((output, *again, *twice[0]), (rows, *expected, *twice[1])):
                    assert a.shape == e.shape
                    assert_same_bits(a.detach(), e.detach(), str(strides))
            assert (type(output.grad_fn).__name__ == "linear_replayedBackward") == (strides == (24, 8, 1))


def test_replay__no_derivative_of_a_view_is_left_out() -> None:
    class Reversed(torch.autograd.Function):
        @staticmethod
        def forward(ctx: Any, input: torch.Tensor) -> torch.Tensor:
            return input.view(2, 8)

        @staticmethod
        def backward(ctx: Any, grad: torch.Tensor) -> torch.Tensor:
            return -grad.view(2, 2, 4)

    before = callcache.cache_calls(lambda input: ops.relu(Reversed.apply(input)))
    after = callcache.cache_calls(lambda input: Reversed.apply(ops.relu(input)))
    detached = callcache.cache_calls(lambda input, other: ops.add(input.detach().view(2, 8), other))
    for function, *others in ((before,), (after,), (detached, x(2, 8).requires_grad_())):
        for _ in range(4):
            input = x(2, 2, 4).abs().requires_grad_()
            function(input, *others).sum().backward()
            assert input.grad is None if others else bool((input.grad == -1).all())


def test_replay__saved_tensors_are_checked_and_freed() -> None:
    a, b = x(3, 3).requires_grad_(), x(3, 3)
    for _ in range(4):
        ops.mm(a, b).backward(b)
    output = ops.mm(a, b)
    b.add_(1)
    with pytest.raises(RuntimeError, match="modified by an inplace operation"):
        output.backward(a.detach())
    output = ops.mm(a, b)
    output.backward(b)
    with pytest.raises(RuntimeError, match="second time"):
        output.backward(b)


def test_replay__is_taken_with_and_without_gradients() -> None:
    for name in ("mm", "add", "linear", "exp", "softmax"):
        function, make = CALLS[name]
        args = make()
        assert is_cached(function, *args), name
        assert is_cached(function, *(a.requires_grad_() if isinstance(a, torch.Tensor) else a for a in args)), name
    half = x(4, 4).bfloat16()
    assert is_cached(ops.mm, half, half.clone())
    assert is_cached(ops.add, x(4), 2.5)
    assert is_cached(ops.matmul, x(2, 3, 4), x(4, 5))  # by a view of its input
    assert is_cached(ops.mean, x(3, 4))


def test_replay__gradients_go_on_and_off() -> None:
    a, b = x(3, 3), x(3, 3)
    weight = torch.nn.Parameter(x(3, 3))
    for _ in range(3):
        assert not ops.mm(a, b).requires_grad
        assert ops.mm(a, weight).requires_grad
        with torch.no_grad():
            assert not ops.mm(a, weight).requires_grad
        assert ops.mm(weight, b).requires_grad
    weight.requires_grad_(False)
    assert not ops.mm(a, weight).requires_grad
    once, twice = (t.clone().requires_grad_() for t in (a, b))
    for _ in range(3):
        (grad,) = torch.autograd.grad(ops.mm(once, twice).sum(), once, create_graph=True)
        (second,) = torch.autograd.grad(ops.sum(grad), twice)
        assert_same_bits(second, torch.full((3, 3), 3.0), "second derivative")


def test_replay__tensors_that_share_memory() -> None:
    """Where the recorded ones do, and those of later calls do not."""
    slope = registry.functions.maximum_backward
    GENERATION.advance()
    for n in range(6):
        s, t, grad = x(4), x(4), x(4)
        if n < 3:
            t = s.view(4)
        leaf = x(4).requires_grad_()
        (found,) = torch.autograd.grad(slope(leaf, s, t), leaf, grad)
        assert_same_bits(found, slope(grad, s, t))  # which is its own derivative
    assert_same_bits(found, torch.where(s > t, grad, 0.0))
