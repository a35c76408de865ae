"""repdl.audit: which ops a call reaches, where, and what is known of their bits."""

from __future__ import annotations

import inspect
import math
import sys
import threading
from collections.abc import Callable
from importlib import import_module
from importlib.util import find_spec
from types import SimpleNamespace
from typing import Any

import pytest
import torch
import torch.nn.functional as F

import repdl
from repdl.audit import OP_CLASSES, Finding, OpClass, Report, Reproducibility, watching
from repdl.testing.cases import cases

remedies: Any = import_module("repdl.audit.remedy")
FUNCTIONAL = "repdl.nn.functional" if find_spec("repdl.nn") else "repdl.ops"
"""Where the functions are that have the places of torch.nn.functional's."""


class Attention(torch.nn.Module):
    """Four things that torch computes, a line each."""

    def __init__(self) -> None:
        super().__init__()
        self.query = torch.nn.Parameter(torch.linspace(-1, 1, 16).view(4, 4))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        scores = x @ self.query
        weights = F.softmax(scores, -1)
        kept = F.dropout(weights, 0.5)
        return kept.mean()


class Model(torch.nn.Module):
    def __init__(self, block: torch.nn.Module) -> None:
        super().__init__()
        self.blocks = torch.nn.ModuleList([block])

    def forward(self, x: torch.Tensor) -> Any:
        return self.blocks[0](x)


class Product(torch.autograd.Function):
    """Whose backward alone is torch's."""

    @staticmethod
    def forward(ctx: Any, x: torch.Tensor, w: torch.Tensor) -> torch.Tensor:
        ctx.save_for_backward(w)
        return repdl.ops.mm(x, w)

    @staticmethod
    def backward(ctx: Any, grad: torch.Tensor) -> Any:
        (w,) = ctx.saved_tensors
        return torch.mm(grad, w.t()), None


def line_of(function: Callable[..., Any], text: str) -> str:
    """`file:line` of the line of a function that has a text."""
    lines, first = inspect.getsourcelines(function)
    (number,) = [first + i for i, line in enumerate(lines) if text in line]
    return f"test_audit.py:{number}"


def finding_of(report: Report, op: str, derivative: str = "") -> Finding:
    (finding,) = [finding for finding in report.findings if (finding.op, finding.derivative) == (op, derivative)]
    return finding


x = torch.linspace(-2, 2, 16).view(4, 4)


def test_audit__what_torch_computes_is_named_with_module_and_line() -> None:
    report = repdl.audit(Model(Attention()), x)
    expected = {
        "aten.mm.default": ("x @ self.query", Reproducibility.REFUSED, "repdl.ops.matmul"),
        "aten._softmax.default": ("F.softmax", Reproducibility.REFUSED, f"{FUNCTIONAL}.softmax"),
        "aten.bernoulli_.float": ("F.dropout", Reproducibility.DRAWN, f"{FUNCTIONAL}.dropout"),
        "aten.mean.default": ("kept.mean()", Reproducibility.REFUSED, "repdl.ops.mean"),
    }
    assert not report.ok
    for op, (text, reproducibility, remedy) in expected.items():
        (finding,) = [finding for finding in report.refused if finding.op == op and not finding.derivative]
        assert (finding.module, finding.reproducibility, finding.remedy, finding.count) == (
            "blocks.0",
            reproducibility,
            remedy,
            1,
        )
        assert finding.line.endswith(line_of(Attention.forward, text)) and text in finding.location.source
    backward = {finding.derivative: finding for finding in report.refused if finding.derivative}
    assert {"MmBackward0", "SoftmaxBackward0"} <= backward.keys()
    assert backward["MmBackward0"].line.endswith(line_of(Attention.forward, "x @ self.query"))
    assert backward["MmBackward0"].module == "blocks.0" and backward["MmBackward0"].remedy == "repdl.ops.matmul"


def test_audit__remedies_of_what_torch_composes_in_cxx() -> None:
    """`F.linear` is `aten.mm` below, and its remedy is what has the place of `F.linear`."""
    q, image = torch.ones(2, 3, 4, 4), torch.ones(1, 1, 4)
    calls: dict[str, Callable[[], Any]] = {
        f"{FUNCTIONAL}.linear": lambda: F.linear(x, x),
        "repdl.ops.matmul": lambda: q @ q.transpose(-1, -2),
        "repdl.ops.bmm": lambda: torch.bmm(q[0], q[1]),
        "repdl.ops.einsum": lambda: torch.einsum("bhij,bhkj->bhik", q, q),
        f"{FUNCTIONAL}.conv1d": lambda: F.conv1d(image, image),
        f"{FUNCTIONAL}.conv_transpose2d": lambda: F.conv_transpose2d(q, torch.ones(3, 1, 2, 2)),
        "repdl.ops.norm": lambda: q.norm(),
        "repdl.ops.vector_norm": lambda: torch.linalg.norm(image[0, 0]),
        "repdl.ops.unique": lambda: torch.unique(x),
    }  # fmt: skip
    for remedy, call in calls.items():
        if sys.version_info >= (3, 11) or remedy not in ("repdl.ops.vector_norm", "repdl.ops.unique"):
            assert {finding.remedy for finding in repdl.audit(call).refused} == {remedy}
    if sys.version_info >= (3, 11):
        columns = repdl.audit(lambda: torch.linalg.norm(x, 1)).refused
        assert {finding.remedy for finding in columns} == {"repdl.ops.vector_norm", "repdl.ops.matrix_norm"}
    singular = repdl.audit(lambda: torch.linalg.norm(x, "nuc")).refused
    assert {finding.remedy for finding in singular if "svd" in finding.op} == {None}, "which no function of RepDL takes"


def test_audit__rows_of_remedies_are_reached() -> None:
    """Without an entry of the table some op of torch has another remedy, and the function of each entry exists."""
    refused = [name for name, op_class in OP_CLASSES.items() if op_class not in (OpClass.MOVES, OpClass.EXACT)]

    def advice() -> list[str | None]:
        return [remedies.remedy(SimpleNamespace(name=lambda: f"aten::{name}"), "", "") for name in refused]

    known = advice()
    for name, function in [*remedies._RENAMED.items()]:
        with pytest.MonkeyPatch.context() as patch:
            patch.delitem(remedies._RENAMED, name)
            assert advice() != known, f"{name} is never reached"
        assert callable(getattr(repdl.ops, function)), name


def test_audit__a_whole_step_of_training() -> None:
    """Loss, hooks of parameters and optimizer are seen where `backward` is called in what is audited."""
    layer = torch.nn.Linear(4, 4)
    optimizer = torch.optim.SGD(layer.parameters(), lr=0.5)

    def step(own: Callable[[torch.Tensor], torch.Tensor]) -> None:
        optimizer.zero_grad()
        with torch.profiler.record_function("forward"):
            own(repdl.ops.linear(x, layer.weight, layer.bias)).backward()
        optimizer.step()

    (update,) = repdl.audit(step, repdl.ops.mean).refused
    assert update.op == "aten.add_.Tensor" and update.line.endswith(line_of(step, "optimizer.step()"))
    layer.weight.register_hook(lambda gradient: gradient.exp())
    found = {finding.op for finding in repdl.audit(step, torch.mean).refused}
    assert found >= {"aten.mean.default", "aten.exp.default"}


def test_audit__table() -> None:
    text = str(repdl.audit(Model(Attention()), x))
    first, *lines, last = text.splitlines()
    assert first.split() == ["reproducibility", "op", "calls", "pass", "module", "line", "source", "reason"]
    assert lines[0].startswith("not reproducible") and lines[-1].startswith(("moves data", "one rounding", "exact"))
    assert "findings not reproducible" in last
    assert "all reproducible" in str(repdl.audit(lambda: repdl.ops.add(x, x)))


def test_audit__a_backward_in_python_has_its_own_line() -> None:
    def product(a: torch.Tensor, w: torch.Tensor) -> torch.Tensor:
        return Product.apply(a, w)

    report = repdl.audit(product, x.clone().requires_grad_(), x)
    (finding,) = report.refused
    assert finding.op == "aten.mm.default" and finding.derivative == "ProductBackward"
    assert finding.line.endswith(line_of(Product.backward, "torch.mm(grad"))


def test_audit__gradient_of_a_broadcast_operand_is_a_sum() -> None:
    bias = torch.ones(4, requires_grad=True)
    (finding,) = repdl.audit(lambda: x * bias).refused
    assert (finding.op, finding.derivative, finding.remedy) == ("aten.sum.dim_IntList", "MulBackward0", "repdl.ops.mul")
    assert finding.location.source.startswith("(finding,) = repdl.audit(lambda: x * bias)")
    assert repdl.audit(lambda: repdl.ops.mul(x, bias)).ok


def test_audit__sums_of_gradients_are_single_roundings() -> None:
    w = torch.ones(4, 4, requires_grad=True)
    report = repdl.audit(lambda: repdl.ops.mul(w, x) + w + w)
    assert report.ok and any(finding.op == "aten.add.Tensor" and finding.derivative for finding in report.findings)


def test_audit__second_call_sees_the_same() -> None:
    model = Model(Attention())
    findings = [
        {(finding.op, finding.module, finding.line, finding.count) for finding in repdl.audit(model, x).findings}
        for _ in range(2)
    ]
    assert findings[0] == findings[1]


def test_audit__inference_mode_and_no_grad() -> None:
    for mode in (torch.inference_mode, torch.no_grad):
        with mode():
            report = repdl.audit(Model(Attention()), x)
            assert {finding.op for finding in report.refused} >= {"aten.mm.default", "aten.mean.default"}
            assert all(finding.module == "blocks.0" and finding.location.file == __file__ for finding in report.refused)
            assert repdl.audit(lambda: F.linear(x, x).reshape(-1)).refused
            assert repdl.audit(lambda: x.reshape(2, 8).flatten().narrow(0, 1, 3)).ok  # torch composes these


class Stateful(torch.nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.weight = torch.nn.Parameter(torch.ones(3, 3))
        self.register_buffer("calls", torch.zeros((), dtype=torch.int64))
        self.generator = repdl.random.Generator(5)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        self.calls += 1
        x.mul_(2)
        noise = torch.rand(3, 3) + repdl.random.rand(3, 3) + repdl.random.rand(3, 3, generator=self.generator)
        return repdl.ops.mul(self.weight, repdl.ops.add(noise, x))


def test_audit__leaves_everything_as_it_was() -> None:
    model, given = Stateful(), torch.ones(3, 3)
    model.weight.grad = torch.full((3, 3), 7.0)
    default = repdl.random.default_generator
    before = repdl.digest(model), torch.get_rng_state().clone(), default.get_state(), model.generator.offset
    assert model.train() and not repdl.audit(model, given).ok
    assert repdl.digest(model) == before[0] and torch.equal(torch.get_rng_state(), before[1])
    assert torch.equal(default.get_state(), before[2]) and model.generator.offset == before[3] == 0
    assert torch.equal(given, torch.ones(3, 3)) and not given.requires_grad and model.training
    assert model.weight.grad is not None and torch.equal(model.weight.grad, torch.full((3, 3), 7.0))
    with pytest.raises(ZeroDivisionError):
        repdl.audit(lambda: model(given).shape[0] / 0)
    assert not watching() and torch.utils._python_dispatch._get_current_dispatch_mode() is None


def test_audit__arguments_stay_one_tensor_where_they_were_one() -> None:
    same: list[bool] = []
    repdl.audit(lambda a, b, c: same.append(a is b and a is not c), x, x, c=x.clone())
    assert same == [True]


def test_audit__other_threads_are_not_watched() -> None:
    def run() -> None:
        thread = threading.Thread(target=lambda: torch.mm(x, x))
        thread.start()
        thread.join()

    assert repdl.audit(run).findings == ()


def test_audit__registered_ops_are_not_looked_into() -> None:
    """Neither in the forward nor in the backward pass; and what composites move, moves data."""
    seen = repdl.audit(repdl.ops.cross_entropy, x.clone().requires_grad_(), torch.arange(4), label_smoothing=0.1)
    assert seen.ok and any(finding.reproducibility is Reproducibility.REGISTERED for finding in seen.findings)


def test_audit__every_registered_op_and_its_derivative_reach_nothing_of_torchs() -> None:
    """One case of each: what formulas and derivatives do beside calling registered ops."""
    chosen = {case.op: case for case in reversed(cases()) if case.derived is None}
    assert len(chosen) > 100
    for name, case in chosen.items():
        op = repdl.registry.OPS[name]
        args = [
            a.clone().requires_grad_()
            if isinstance(a, torch.Tensor) and a.is_floating_point() and op.differentiable
            else a
            for a in case.args()
        ]
        report = repdl.audit(op.overload, *args)
        assert report.ok, f"{case}: {[str(finding) for finding in report.refused]}"


def test_audit__ops_of_other_projects() -> None:
    with torch.library._scoped_library("audited", "DEF") as library:
        library.define("twice(Tensor x) -> Tensor")
        library.impl("twice", lambda x: x + x, "CPU")
        report = repdl.audit(torch.ops.audited.twice.default, x)
        (finding,) = report.refused
        assert finding.op == "audited.twice.default" and "nothing is known" in finding.reason


def test_audit__numbers_read_are_seen_as_moves() -> None:
    report = repdl.audit(lambda: math.floor(x[0, 0].item()))
    assert report.ok and finding_of(report, "aten._local_scalar_dense.default").reproducibility is Reproducibility.MOVED
