"""What is particular to clamp, where, lerp, addcmul, addcdiv and add with alpha: values, derivatives, errors."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import torch

import repdl
from repdl import ops
from repdl.dtypes import ALL
from repdl.errors import ArgumentError, DTypeError, ShapeError
from repdl.reference.arithmetic import fma
from repdl.testing import assert_same_bits, uniform
from repdl.testing.oracle import U, assert_rejected, assert_within, derivatives

NAN, INF = float("nan"), float("inf")
Function = Callable[..., Any]


def both(name: str, *numbers: Any, **options: Any) -> tuple[Function, Function]:
    return tuple(lambda *x, f=f: getattr(f, name)(*x, *numbers, **options) for f in (ops, torch))  # type: ignore[return-value]


FUNCTIONS: dict[str, tuple[int, Function, Function]] = {
    "clamp": (1, *both("clamp", -0.5, 0.25)),
    "clamp_min": (1, *both("clamp", min=0.1)),
    "clamp_tensors": (3, *both("clamp")),
    "where": (2, *(lambda a, b, f=f: f.where(a.detach() > 0.1, a, b) for f in (ops, torch))),
    "lerp": (2, *both("lerp", 0.3)),
    "lerp_tensor": (3, *both("lerp")),
    "addcmul": (3, *both("addcmul", value=-0.7)),
    "addcdiv": (3, *(lambda a, b, c, f=f: f.addcdiv(a, b, c + 3, value=0.7) for f in (ops, torch))),
    "add": (2, *both("add", alpha=0.3)),
    "sub": (2, *both("sub", alpha=-2.5)),
}
by_name = pytest.mark.parametrize("name", FUNCTIONS)


@by_name
@pytest.mark.parametrize("shapes", [[(300,)] * 3, [(2, 3), (3,), (2, 1)], [(), (4,), (2, 4)], [(0, 3), (3,), (1, 3)]])
def test_ternary__derivatives(name: str, shapes: list[tuple[int, ...]]) -> None:
    count, ours, theirs = FUNCTIONS[name]
    x = [uniform(1 + i, *shapes[i]) for i in range(count)]
    if name == "clamp_tensors" and () in shapes:
        pytest.skip("torch takes no bound of more dimensions here")
    shape = torch.broadcast_shapes(*(t.shape for t in x))
    grad = uniform(9, *shape)
    actual = derivatives(ours, x, grad)
    exact = derivatives(theirs, [t.double() for t in x], grad.double())
    for i, (a, e) in enumerate(zip(actual, exact)):
        # Magnitudes up to 2, at most 6 roundings an element, and a sum of at most 8 of them.
        assert_within(a, e, 6 * 8 * U * 2, f"{name} {i}")


@pytest.mark.parametrize("name", ["lerp_tensor", "addcmul", "addcdiv"])  # the others are linear in each piece
def test_ternary__second_derivatives(name: str) -> None:
    count, ours, theirs = FUNCTIONS[name]
    x, grad, tangent = [uniform(1 + i, 40) for i in range(count)], uniform(8, 40), [uniform(9, 40)] * count
    actual = derivatives(ours, x, grad, tangent)
    exact = derivatives(theirs, [t.double() for t in x], grad.double(), [t.double() for t in tangent])
    for i, (a, e) in enumerate(zip(actual, exact)):
        assert_within(a, e, 40 * U * 4, f"{name} {i}")


def test_add_alpha__is_one_fused_multiply_add() -> None:
    a, b = uniform(1, 1000), uniform(2, 1000)
    for alpha in (0.3, -1.0, 2.0, 1e-40):
        expected = torch.from_numpy(fma(np.float32(alpha), b.numpy(), a.numpy()))
        assert_same_bits(ops.add(a, b, alpha=alpha), expected)
        assert_same_bits(ops.sub(a, b, alpha=-alpha), expected)


def test_optimizers__op_by_op_are_the_fused_steps() -> None:
    """torch's SGD with momentum and Adam, written with these ops, give the bits of sgd_step and adam_step."""
    p, g, m, v = uniform(1, 500), uniform(2, 500), uniform(3, 500), uniform(4, 500).abs()
    lr, beta1, beta2, eps, decay = 0.1, 0.9, 0.999, 1e-8, 0.01
    q, b = p.clone(), m.clone()
    ops.sgd_step([q], [g], [b], lr=lr, weight_decay=decay, momentum=0.9)
    decayed = ops.add(g, p, alpha=decay)
    assert_same_bits(ops.add(ops.mul(m, 0.9), decayed), b)
    assert_same_bits(ops.add(p, b, alpha=-lr), q)
    q, n, w = p.clone(), m.clone(), v.clone()
    ops.adam_step(
        [q], [g], [n], [w], lr=lr, beta1=beta1, beta2=beta2, eps=eps, bias_correction1=0.5, bias_correction2=0.25
    )
    first = ops.lerp(m, g, 1 - beta1)
    second = ops.addcmul(ops.mul(v, beta2), g, g, value=1 - beta2)
    denominator = ops.add(ops.div(ops.sqrt(second), 0.5), eps)
    assert_same_bits(first, n)
    assert_same_bits(second, w)
    assert_same_bits(ops.addcdiv(p, first, denominator, value=-(lr / 0.5)), q)


def test_clamp__nan_and_bounds_are_torchs() -> None:
    x = torch.tensor([NAN, INF, -INF, 0.0, -0.0, 1.0, -1.0, 0.5])
    for low, high in ((-0.5, 0.5), (0.5, -0.5), (None, 0.5), (-0.5, None), (NAN, 1.0), (0.0, NAN)):
        assert torch.equal(ops.clamp(x, low, high).nan_to_num(7), torch.clamp(x, low, high).nan_to_num(7))
    low = torch.tensor([0.0, NAN, 0.0, 1.0, 0.0, 2.0, 0.0, 0.5])
    assert torch.equal(ops.clamp(x, low).nan_to_num(7), torch.clamp(x, low).nan_to_num(7))
    integers = torch.arange(5)
    assert torch.equal(ops.clamp(integers, 1, 3), torch.clamp(integers, 1, 3))


def test_ternary__promotion_is_torchs() -> None:
    some = [torch.ones(2, dtype=d) for d in (torch.float32, torch.float64, torch.bfloat16, torch.int64)]
    some += [torch.ones((), dtype=torch.float64), torch.ones((), dtype=torch.int32)]
    for a in some:
        for b in some:
            for c in some[:3]:
                assert ops.addcmul(a, b, c).dtype is torch.addcmul(a, b, c).dtype
            assert ops.where(torch.tensor(True), a, b).dtype is torch.where(torch.tensor(True), a, b).dtype
        assert ops.where(torch.tensor(True), a, 0.5).dtype is torch.where(torch.tensor(True), a, 0.5).dtype


def test_ternary__errors() -> None:
    x, y = uniform(1, 2, 3), uniform(2, 4)
    with pytest.raises(ArgumentError, match="clamp: min and max are None, expected one at least"):
        ops.clamp(x)
    with pytest.raises(DTypeError, match="where: condition.dtype is int64, expected bool; convert it first"):
        ops.where(torch.ones(2, dtype=torch.int64), x, x)
    with pytest.raises(ShapeError, match=r"lerp: input.shape is \(2, 3\), end.shape is \(4,\); expected shapes that"):
        ops.lerp(x, y, 0.5)
    with pytest.raises(DTypeError, match="lerp: end.dtype is float64, expected float32"):
        ops.lerp(x, x.double(), 0.5)
    with pytest.raises(DTypeError, match="addcdiv: the operands are integers"):
        ops.addcdiv(*[torch.ones(2, dtype=torch.int64)] * 3)
    assert_rejected(lambda: ops.addcmul(x, x, y), ShapeError)
    assert repdl.ops.where(torch.tensor([True, False]), 1.0, 2.0).tolist() == [1.0, 2.0]


@pytest.mark.parametrize("step", [1, 2])
def test_where__every_byte_but_0_is_true(step: int) -> None:
    """As a bool of torch may be any byte: of a view of integers, or of memory of others."""
    each = torch.arange(600).to(torch.uint8)[::step]
    for dtype in ALL:
        a, b = (uniform(i, each.numel()).to(dtype) for i in (1, 2))
        found = ops.where(each.view(torch.bool), a, b)
        assert_same_bits(found, torch.where(each != 0, a, b))
