"""What is particular to the losses of elements: torch's values and derivatives, reductions, errors."""

from __future__ import annotations

from typing import Any

import pytest
import torch
import torch.nn.functional as F
from torch.utils._python_dispatch import TorchDispatchMode

from repdl import ops
from repdl.errors import DTypeError, OutOfRangeError, ShapeError, UnsupportedError
from repdl.registry import OPS
from repdl.testing import assert_same_bits, cases, uniform
from repdl.testing.inputs import index
from repdl.testing.oracle import U, assert_within, derivatives

LOSSES: dict[str, list[dict[str, Any]]] = {
    "mse_loss": [{}],
    "l1_loss": [{}],
    "huber_loss": [{}, {"delta": 0.3}],
    "smooth_l1_loss": [{}, {"beta": 0.3}, {"beta": 0.0}],
    "binary_cross_entropy_with_logits": [{}, {"pos_weight": uniform(5, 7).abs(), "weight": uniform(6, 20, 1)}],
    "kl_div": [{}, {"log_target": True}, {"reduction": "batchmean"}],
    "hinge_embedding_loss": [{}, {"margin": 0.3}],
    "multilabel_soft_margin_loss": [{}, {"weight": uniform(6, 7)}],
    "poisson_nll_loss": [{}, {"full": True}],
    "soft_margin_loss": [{}],
}
SIGNS = {"hinge_embedding_loss", "soft_margin_loss"}
"""Losses whose targets are 1 or -1, and get no derivative from torch."""
ALL = [(name, options) for name, kinds in LOSSES.items() for options in kinds]


def double(value: Any) -> Any:
    return value.double() if isinstance(value, torch.Tensor) else value


@pytest.mark.parametrize(("name", "options"), ALL, ids=[f"{name}_{i}" for i, (name, _) in enumerate(ALL)])
@pytest.mark.parametrize("reduction", ["none", "mean", "sum"])
def test_losses__values_and_derivatives(name: str, options: dict[str, Any], reduction: str) -> None:
    options = {"reduction": reduction} | options
    x, y = uniform(1, 20, 7, scale=3.0), uniform(2, 20, 7).abs()
    grad = uniform(3, *((20, 7) if options["reduction"] == "none" else ()))
    if name in SIGNS:
        y = torch.where(y < 0.5, -1.0, 1.0)
    if name == "multilabel_soft_margin_loss" and options["reduction"] == "none":
        grad = grad[:, 0]
    doubles = {k: double(v) for k, v in options.items()}
    actual, exact = (
        derivatives(lambda *t: getattr(module, name)(*t, *rest, **given), tensors, cotangent)
        for module, given, cotangent, tensors, rest in (
            (ops, options, grad, [x] if name in SIGNS else [x, y], [y] if name in SIGNS else []),
            (
                F, doubles, grad.double(), [x.double()] if name in SIGNS else [x.double(), y.double()],
                [y.double()] if name in SIGNS else [],
            ),
        )
    )  # fmt: skip
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


def test_binary_cross_entropy__values_and_derivatives() -> None:
    """Second derivatives too; at the ends of the probabilities torch's bounds of the logarithms and of the slope."""
    x, y, grad = (uniform(i, 20, 7).abs() for i in (1, 2, 3))
    x = x * 0.75 + 0.125
    weight, tangents = uniform(4, 7), [uniform(5, 20, 7), uniform(6, 20, 7)]
    for given in (None, weight):
        actual, exact = (
            derivatives(
                lambda a, b: module.binary_cross_entropy(a, b, None if w is None else w, reduction="none"),
                [x.to(d), y.to(d)], grad.to(d), [t.to(d) for t in tangents],
            )
            for module, d, w in ((ops, torch.float32, given), (F, torch.float64, double(given)))
        )  # fmt: skip
        for i, (a, e) in enumerate(zip(actual, exact)):
            assert_within(a, e, 16 * U * 2 * 8**3, f"{i}")  # slopes of up to 8, thrice
    ends, target = torch.tensor([0.0, 0.0, 1.0, 1.0, 2.0**-149, 0.5]), torch.tensor([0.0, 1.0, 0.0, 1.0, 1.0, 1.0])
    for reduction in ("none", "sum", "mean"):
        a, e = (
            derivatives(
                lambda p, t: module.binary_cross_entropy(p, t, reduction=reduction), [ends, target],
                torch.ones(6) if reduction == "none" else torch.ones(()),
            )
            for module in (ops, F)
        )  # fmt: skip
        for mine, theirs in zip(a[:2], e[:2]):
            torch.testing.assert_close(mine, theirs, rtol=4 * U, atol=0)
    # With respect to the target it is that of the bounded logarithms, where torch's is infinite.
    (slope,) = torch.autograd.grad(
        ops.binary_cross_entropy(ends, leaf := target.clone().requires_grad_(), None, None, None, "sum"), leaf
    )
    assert slope.tolist()[:4] == [100.0, 100.0, -100.0, -100.0]
    for bad in (-0.1, 1.1, float("nan")):
        with pytest.raises(OutOfRangeError, match=r"input\[1, 2\] is .*, expected a probability, 0 to 1; apply a sig"):
            ops.binary_cross_entropy(x.index_put((torch.tensor(1), torch.tensor(2)), torch.tensor(bad)), y)
    with pytest.raises(ShapeError, match=r"target.shape is \(7,\), expected \(20, 7\) \(= input.shape\)"):
        ops.binary_cross_entropy(x, y[0])


def test_poisson_nll_loss__rates() -> None:
    """Rates themselves, and counts of 0 and 1, which Stirling's term leaves out."""
    x, y = uniform(1, 20, 7).abs() + 0.25, (uniform(2, 20, 7).abs() * 6).floor()
    for options in ({}, {"full": True}, {"eps": 0.1}):
        actual, exact = (
            derivatives(
                lambda a, b: m.poisson_nll_loss(a, b, False, **options), [x.to(d), y.to(d)], torch.ones((), dtype=d)
            )
            for m, d in ((ops, torch.float32), (F, torch.float64))
        )
        for a, e in zip(actual, exact):
            assert a.isfinite().all()  # torch's derivative with respect to a count of 0 is NaN with full
            assert_within(a, torch.where(e.isnan(), a.double(), e), 140 * 8 * U * 32)


def test_gaussian_nll_loss__variances() -> None:
    x, y, v = uniform(1, 5, 4, 3), uniform(2, 5, 4, 3), uniform(3, 5, 4, 3).abs()
    small = v * 0.1
    for full in (False, True):
        for var, eps in (
            (v + 0.25, 1e-6),
            (v[..., :1] + 0.25, 1e-6),
            (v[..., 0] + 0.25, 1e-6),
            (v[:, :1] + 0.25, 1e-6),
            (small, 0.25),
        ):
            actual, exact = (
                derivatives(
                    lambda *t: m.gaussian_nll_loss(*t, full=full, eps=eps, reduction="none"),
                    [t.to(d) for t in (x, y, var)], torch.ones(5, 4, 3, dtype=d),
                )
                for m, d in ((ops, torch.float32), (F, torch.float64))
            )  # fmt: skip
            for a, e in zip(actual, exact):
                assert_within(a, e, 12 * 12 * U * 64)  # 4 / v**2, of up to 12 terms
    assert_same_bits(ops.gaussian_nll_loss(x, y, 0.5), ops.gaussian_nll_loss(x, y, torch.full_like(x, 0.5)))
    with pytest.raises(OutOfRangeError, match=r"var\[0, 0, 0\] is -1.0, expected none below 0"):
        ops.gaussian_nll_loss(x, y, v * 0 - 1)
    with pytest.raises(ShapeError, match=r"var.shape is \(3,\), expected \(5, 4, 3\)"):
        ops.gaussian_nll_loss(x, y, v[0, 0])


@pytest.mark.parametrize("reduction", ["none", "mean", "sum"])
def test_margins__against_torch(reduction: str) -> None:
    """Values and derivatives: margin_ranking_loss, multi_margin_loss, multilabel_margin_loss."""
    a, b, sign = uniform(1, 6, 5), uniform(2, 6, 5), torch.where(uniform(3, 6, 5) < 0, -1.0, 1.0)
    target, labels = index(4, 5, 6), index(5, 6, 6, 5) - 1
    calls: dict[str, Any] = {
        "ranking": lambda m, x, y: m.margin_ranking_loss(x, y, sign.to(x.dtype), 0.3, reduction=reduction),
        "multi": lambda m, x, y: m.multi_margin_loss(x, target, reduction=reduction),
        "squares": lambda m, x, y: m.multi_margin_loss(x, target, 2, 0.5, y[0].detach().abs(), reduction=reduction),
        "one row": lambda m, x, y: m.multi_margin_loss(x[0], target[0], reduction=reduction),
        "labels": lambda m, x, y: m.multilabel_margin_loss(x, labels, reduction=reduction),
        "labels of one row": lambda m, x, y: m.multilabel_margin_loss(x[0], labels[0], reduction=reduction),
    }
    for name, call in calls.items():
        results = []
        for module, dtype in ((ops, torch.float32), (F, torch.float64)):
            leaves = [t.to(dtype).requires_grad_() for t in (a, b)]
            loss = call(module, *leaves)
            grads = torch.autograd.grad(loss.sum(), leaves, allow_unused=True)
            results.append([loss.detach(), *(g for g in grads if g is not None)])
        for mine, theirs in zip(*results):
            assert_within(mine, theirs, 100 * U * 8, name)  # sums of up to 60 terms below 8, 8 roundings each


@pytest.mark.parametrize("reduction", ["none", "mean", "sum"])
def test_embedding_losses__against_torch(reduction: str) -> None:
    """Values and derivatives: cosine_embedding_loss, triplet_margin_loss, and that with a distance of one's own."""
    a, b, c = (uniform(i, 6, 5) for i in (1, 2, 3))
    sign = torch.tensor([1, -1, -1, 1, -1, 1])
    calls: dict[str, Any] = {
        "cosine": lambda m, x, y, z: m.cosine_embedding_loss(x, y, sign, 0.1, reduction=reduction),
        "one": lambda m, x, y, z: m.cosine_embedding_loss(x[1], y[1], sign[1], reduction=reduction),
        "triplet": lambda m, x, y, z: m.triplet_margin_loss(x, y, z, reduction=reduction),
        "swap": lambda m, x, y, z: m.triplet_margin_loss(x, y, z, 0.7, swap=True, reduction=reduction),
        "p": lambda m, x, y, z: m.triplet_margin_loss(x, y, z, p=1, reduction=reduction),
        "distance": lambda m, x, y, z: m.triplet_margin_with_distance_loss(
            x, y, z, distance_function=lambda s, t: 1 - m.cosine_similarity(s, t), swap=True, reduction=reduction
        ),
        "no distance": lambda m, x, y, z: m.triplet_margin_with_distance_loss(x, y, z, margin=0.5, reduction=reduction),
    }
    for name, call in calls.items():
        results = []
        for module, dtype in ((ops, torch.float32), (F, torch.float64)):
            leaves = [t.to(dtype).requires_grad_() for t in (a, b, c)]
            loss = call(module, *leaves)
            grads = torch.autograd.grad(loss.sum(), leaves, allow_unused=True)
            results.append([loss.detach(), *(g for g in grads if g is not None)])
        for mine, theirs in zip(*results):
            assert_within(mine, theirs, 40 * U * 16, name)  # quotients by norms of 0.5 and more
    with pytest.raises(ShapeError, match="margin is 0.0, expected a number above 0"):
        ops.triplet_margin_loss(a, b, c, 0.0)
    with pytest.raises(ShapeError, match=r"triplet_margin_loss: negative.dim\(\) is 1"):
        ops.triplet_margin_loss(a, b, c[0])
    with pytest.raises(ShapeError, match=r"target.shape is \(5,\), expected \(6,\)"):
        ops.cosine_embedding_loss(a, b, sign[:5])


def test_margins__errors() -> None:
    x, target = uniform(1, 4, 3), torch.tensor([0, 2, 1, 0])
    with pytest.raises(OutOfRangeError, match=r"multi_margin_loss: target\[1\] is 3, expected 0 to 2"):
        ops.multi_margin_loss(x, torch.tensor([0, 3, 1, 0]))
    with pytest.raises(OutOfRangeError, match=r"multilabel_margin_loss: target\[0\] is -2, expected -1 to 2"):
        ops.multilabel_margin_loss(x[0], torch.tensor([-2, 0, 1]))
    compiled = torch.compile(lambda t: ops.multi_margin_loss(x, t), backend="eager", fullgraph=True)
    assert_same_bits(compiled(target), ops.multi_margin_loss(x, target))
    with pytest.raises(OutOfRangeError, match="embedding: index"):
        compiled(torch.tensor([0, 3, 1, 0]))  # not the element of another row
    with pytest.raises(ShapeError, match="p is 3, expected 1 or 2"):
        ops.multi_margin_loss(x, target, 3)
    with pytest.raises(ShapeError, match=r"target.shape is \(3,\), expected \(4,\)"):
        ops.multi_margin_loss(x, target[:3])
    with pytest.raises(DTypeError, match="target.dtype is float32, expected int64"):
        ops.multi_margin_loss(x, target.float())
    with pytest.raises(ShapeError, match=r"margin_ranking_loss: input2.dim\(\) is 1"):
        ops.margin_ranking_loss(x, x[0], x)


def test_soft_margin_loss__is_finite() -> None:
    x = torch.tensor([-200.0, 200.0], requires_grad=True)
    loss = ops.soft_margin_loss(x, torch.ones(2), reduction="none")
    loss.sum().backward()
    assert x.grad is not None and loss.tolist() == [200.0, 0.0] and x.grad.tolist() == [-1.0, -0.0]


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


@pytest.mark.parametrize(
    "name", [*LOSSES, "binary_cross_entropy", "gaussian_nll_loss", "margin_ranking_loss", "multi_margin_loss",
             "multilabel_margin_loss", "cosine_embedding_loss"]
)  # fmt: skip
def test_losses__call_the_ops_that_they_name(name: str) -> None:
    with Recorder() as recorder:
        for case in cases("losses"):
            if case.op == name and not case.derived:
                OPS[name].overload(*case.args())
    assert recorder.ops == OPS[name].calls
