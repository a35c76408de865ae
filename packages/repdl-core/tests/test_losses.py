"""What is particular to the losses of elements: torch's values and derivatives, reductions, errors."""

from __future__ import annotations

from typing import Any

import pytest
import torch
import torch.nn.functional as F
from torch.utils._python_dispatch import TorchDispatchMode

from repdl import ops
from repdl.errors import DTypeError, ShapeError, UnsupportedError
from repdl.registry import OPS
from repdl.testing import assert_same_bits, cases, uniform
from repdl.testing.oracle import U, assert_within, derivatives

LOSSES: dict[str, list[dict[str, Any]]] = {
    "mse_loss": [{}],
    "l1_loss": [{}],
    "huber_loss": [{}, {"delta": 0.3}],
    "smooth_l1_loss": [{}, {"beta": 0.3}, {"beta": 0.0}],
    "binary_cross_entropy_with_logits": [{}, {"pos_weight": uniform(5, 7).abs(), "weight": uniform(6, 20, 1)}],
    "kl_div": [{}, {"log_target": True}, {"reduction": "batchmean"}],
}
ALL = [(name, options) for name, kinds in LOSSES.items() for options in kinds]


def double(value: Any) -> Any:
    return value.double() if isinstance(value, torch.Tensor) else value


@pytest.mark.parametrize(("name", "options"), ALL, ids=[f"{name}_{i}" for i, (name, _) in enumerate(ALL)])
@pytest.mark.parametrize("reduction", ["none", "mean", "sum"])
def test_losses__values_and_derivatives(name: str, options: dict[str, Any], reduction: str) -> None:
    options = {"reduction": reduction} | options
    x, y = uniform(1, 20, 7, scale=3.0), uniform(2, 20, 7).abs()
    grad = uniform(3, *((20, 7) if options["reduction"] == "none" else ()))
    actual = derivatives(lambda a, b: getattr(ops, name)(a, b, **options), [x, y], grad)
    exact = derivatives(
        lambda a, b: getattr(F, name)(a, b, **{k: double(v) for k, v in options.items()}),
        [x.double(), y.double()],
        grad.double(),
    )
    for i, (a, e) in enumerate(zip(actual, exact)):
        # Losses up to 16 + 4 |log y|, 8 roundings each, and a sum of 140 of them.
        assert_within(a, e, 140 * 8 * U * 32, f"{name} {i}")


@pytest.mark.parametrize("name", LOSSES)
def test_losses__halves_are_rounded_once(name: str) -> None:
    x, y = uniform(1, 20, 7).bfloat16(), uniform(2, 20, 7).abs().bfloat16()
    wide = getattr(ops, name)(ops.cast(x, torch.float32), ops.cast(y, torch.float32))
    assert_same_bits(getattr(ops, name)(x, y), ops.cast(wide, torch.bfloat16))


@pytest.mark.parametrize("name", LOSSES)
def test_losses__of_nothing(name: str) -> None:
    x = uniform(1, 0, 5)
    assert getattr(ops, name)(x, x).isnan() and getattr(ops, name)(x, x, reduction="sum") == 0


def test_kl_div__target_of_zero() -> None:
    x, y = uniform(1, 6).requires_grad_(), torch.zeros(6, requires_grad=True)
    ops.kl_div(x, y, reduction="sum").backward()
    assert x.grad is not None and y.grad is not None
    assert (x.grad == 0).all() and y.grad.isfinite().all()


def test_losses__errors() -> None:
    x, y = uniform(1, 4, 3), uniform(2, 4)
    with pytest.warns(UserWarning, match=r"mse_loss: target.shape is \(3,\), input.shape \(4, 3\): they broadcast"):
        ops.mse_loss(x, x[0])
    with (
        pytest.warns(UserWarning),
        pytest.raises(ShapeError, match=r"l1_loss: input.shape is \(4, 3\), target.shape is"),
    ):
        ops.l1_loss(x, y)
    with pytest.raises(ShapeError, match="reduction is 'batchmean', expected one of none, mean, sum"):
        ops.mse_loss(x, x, reduction="batchmean")
    with pytest.raises(ShapeError, match="huber_loss: delta is 0.0, expected a number above 0"):
        ops.huber_loss(x, x, delta=0)
    with pytest.raises(ShapeError, match="smooth_l1_loss: beta is -1.0, expected a number that is not below 0"):
        ops.smooth_l1_loss(x, x, beta=-1)
    with pytest.raises(UnsupportedError, match="mse_loss: weight is given, expected None"):
        ops.mse_loss(x, x, weight=x)
    with pytest.raises(DTypeError, match="kl_div: input.dtype is float64, expected float32"):
        ops.kl_div(x.double(), x.double())
    with pytest.raises(ShapeError, match=r"with_logits: target.shape is \(3,\), expected \(4, 3\)"):
        ops.binary_cross_entropy_with_logits(x, x[0])


class Recorder(TorchDispatchMode):
    """The names of RepDL's ops that are called."""

    def __init__(self) -> None:
        super().__init__()
        self.ops: set[str] = set()

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        if func.namespace == "repdl":
            self.ops.add(func._opname)
        return func(*args, **(kwargs or {}))


@pytest.mark.parametrize("name", LOSSES)
def test_losses__call_the_ops_that_they_name(name: str) -> None:
    with Recorder() as recorder:
        for case in cases("losses"):
            if case.op == name and not case.derived:
                OPS[name].overload(*case.args())
    assert recorder.ops == OPS[name].calls
