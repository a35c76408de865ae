"""torch.autocast: every function gives the dtype that torch's gives, and the bits of explicit casts."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import pytest
import torch
import torch.nn.functional as F
from torch._subclasses import FakeTensorMode

import repdl
from repdl.registry import OPS
from repdl.testing import assert_same_bits, uniform
from repdl.testing.oracle import OLDER

ops = repdl.ops
NEW = {"rms_norm"} if OLDER else set()
"""What older versions of torch.autocast leave alone."""
FLOATS_16_BIT = (torch.bfloat16, torch.float16)
TARGET = torch.tensor([1, 0, 2, 1])
UNARY = (
    "exp",
    "expm1",
    "log",
    "log1p",
    "log2",
    "log10",
    "reciprocal",
    "rsqrt",
    "sqrt",
    "sin",
    "tanh",
    "sigmoid",
    "erf",
    "relu",
    "sum",
    "mean",
    "max",
    "square",
    "abs",
    "neg",
    *("acos", "acosh", "asin", "asinh", "atan", "atanh", "cosh", "erfc", "erfinv", "sinh"),
)


def _target(x: torch.Tensor) -> torch.Tensor:
    return TARGET if x.device.type == "cpu" else torch.zeros(4, dtype=torch.int64, device=x.device)


ACTIVATIONS = (
    *("celu", "elu", "gelu", "glu", "hardshrink", "hardsigmoid", "hardswish", "hardtanh", "leaky_relu", "logsigmoid"),
    *("mish", "relu6", "selu", "silu", "softplus", "softshrink", "softsign", "tanhshrink"),
)
LOSSES = (
    *("mse_loss", "l1_loss", "huber_loss", "smooth_l1_loss", "binary_cross_entropy_with_logits", "kl_div"),
    *("poisson_nll_loss", "soft_margin_loss", "hinge_embedding_loss", "multilabel_soft_margin_loss"),
)
CALLS: dict[str, tuple[Callable[..., Any], Callable[..., Any], tuple[tuple[int, ...], ...]]] = {
    **{name: (getattr(ops, name), getattr(torch, name), ((4, 6),)) for name in UNARY},
    **{name: (getattr(ops, name), getattr(F, name), ((4, 6),)) for name in ACTIVATIONS},
    **{name: (getattr(ops, name), getattr(torch, name), ((4, 6),) * 3) for name in ("addcmul", "addcdiv")},
    **{name: (getattr(ops, name), getattr(F, name), ((4, 6), (4, 6))) for name in LOSSES},
    **{name: (getattr(ops, name), getattr(torch, name), ((4, 6), (4, 6))) for name in ("add", "mul", "div", "sub")},
    "pow": (lambda x: ops.pow(x, 1.5), lambda x: torch.pow(x, 1.5), ((4, 6),)),
    "sum dtype": (lambda x: ops.sum(x, dtype=x.dtype), lambda x: torch.sum(x, dtype=x.dtype), ((4, 6),)),
    "softmax": (lambda x: ops.softmax(x, 1), lambda x: F.softmax(x, 1), ((4, 6),)),
    "softmax dtype": (
        lambda x: ops.softmax(x, 1, dtype=x.dtype),
        lambda x: F.softmax(x, 1, dtype=x.dtype),
        ((4, 6),),
    ),
    "log_softmax": (lambda x: ops.log_softmax(x, 1), lambda x: F.log_softmax(x, 1), ((4, 6),)),
    "mm": (ops.mm, torch.mm, ((4, 6), (6, 3))),
    "bmm": (ops.bmm, torch.bmm, ((2, 4, 6), (2, 6, 3))),
    "matmul": (ops.matmul, torch.matmul, ((2, 4, 6), (6,))),
    "addmm": (ops.addmm, torch.addmm, ((3,), (4, 6), (6, 3))),
    "linear": (ops.linear, F.linear, ((2, 4, 6), (3, 6), (3,))),
    "conv2d": (ops.conv2d, F.conv2d, ((2, 3, 5, 5), (4, 3, 3, 3), (4,))),
    "layer_norm": (lambda x, w: ops.layer_norm(x, (6,), w), lambda x, w: F.layer_norm(x, (6,), w), ((4, 6), (6,))),
    "rms_norm": (lambda x, w: ops.rms_norm(x, (6,), w), lambda x, w: F.rms_norm(x, (6,), w), ((4, 6), (6,))),
    "group_norm": (lambda x: ops.group_norm(x, 2), lambda x: F.group_norm(x, 2), ((2, 6, 4),)),
    "instance_norm": (ops.instance_norm, F.instance_norm, ((2, 3, 4, 4),)),
    "batch_norm": (
        lambda x: ops.batch_norm(x, None, None, training=True),
        lambda x: F.batch_norm(x, None, None, training=True),
        ((2, 3, 4, 4),),
    ),
    "nll_loss": (lambda x: ops.nll_loss(x, _target(x)), lambda x: F.nll_loss(x, _target(x)), ((4, 3),)),
    "cross_entropy": (lambda x: ops.cross_entropy(x, _target(x)), lambda x: F.cross_entropy(x, _target(x)), ((4, 3),)),
    "smoothing": (
        lambda x: ops.cross_entropy(x, _target(x), label_smoothing=0.1),
        lambda x: F.cross_entropy(x, _target(x), label_smoothing=0.1),
        ((4, 3),),
    ),
    "probabilities": (ops.cross_entropy, F.cross_entropy, ((4, 3), (4, 3))),
    "prelu": (ops.prelu, F.prelu, ((4, 6), (6,))),
    "gaussian_nll_loss": (ops.gaussian_nll_loss, F.gaussian_nll_loss, ((4, 6),) * 3),
    "margin_ranking_loss": (ops.margin_ranking_loss, F.margin_ranking_loss, ((4, 6),) * 3),
    "multi_margin_loss": (
        lambda x: ops.multi_margin_loss(x, _target(x)),
        lambda x: F.multi_margin_loss(x, _target(x)),
        ((4, 3),),
    ),
    "max_pool2d": (lambda x: ops.max_pool2d(x, 2), lambda x: F.max_pool2d(x, 2), ((2, 3, 4, 4),)),
}
"""Ours, torch's, and the shapes of their operands."""


def inputs(
    shapes: tuple[tuple[int, ...], ...], dtypes: tuple[torch.dtype, ...], device: str = "cpu"
) -> list[torch.Tensor]:
    """Positive operands, of the dtypes in turn."""
    of = [dtypes[i % len(dtypes)] for i in range(len(shapes))]
    if device != "cpu":
        return [torch.empty(shape, dtype=dtype, device=device) for shape, dtype in zip(shapes, of)]
    return [ops.cast(uniform(i, *shape).abs() + 0.25, dtype) for i, (shape, dtype) in enumerate(zip(shapes, of))]


@contextmanager
def autocast(device: str, dtype: torch.dtype) -> Iterator[None]:
    """torch.autocast, which would switch itself off for a device that is not there."""
    before = torch.is_autocast_enabled(device), torch.get_autocast_dtype(device)
    torch.set_autocast_enabled(device, True)
    torch.set_autocast_dtype(device, dtype)
    try:
        yield
    finally:
        torch.set_autocast_enabled(device, before[0])
        torch.set_autocast_dtype(device, before[1])
        torch.clear_autocast_cache()


def result_dtypes(function: Callable[..., Any], args: list[torch.Tensor]) -> Any:
    result = function(*args)
    return result.dtype if isinstance(result, torch.Tensor) else [t.dtype for t in result]


def differences(device: str) -> Iterator[str]:
    for lower in FLOATS_16_BIT:
        for name, (mine, theirs, shapes) in CALLS.items():
            if name in NEW:
                continue
            for dtypes in ((torch.float32,), (lower,), (lower, torch.float32), (torch.float32, lower)):
                args = inputs(shapes, dtypes, device)
                with autocast(device, lower):
                    try:
                        expected = result_dtypes(theirs, args)
                    except RuntimeError:
                        continue  # torch has no kernel for these, where RepDL has one
                    actual = result_dtypes(mine, args)
                if actual != expected:
                    yield f"{name} of {dtypes} under {lower}: {actual}, expected {expected}"


def test_autocast__dtypes_are_torchs_on_cpu() -> None:
    assert not list(differences("cpu"))


def test_autocast__dtypes_are_torchs_on_cuda() -> None:
    with FakeTensorMode():  # torch's dispatcher and its autocast work without a GPU
        assert not list(differences("cuda"))


def test_autocast__lists_are_torchs() -> None:
    names = {
        "softmax": "softmax.int",
        "log_softmax": "log_softmax.int",
        "sum": "sum.dim_IntList",
        "pow": "pow.Tensor_Scalar",
        "pow_tensor": "pow.Tensor_Tensor",
        "add": "add.Tensor",
        "sub": "sub.Tensor",
        "mul": "mul.Tensor",
        "div": "div.Tensor",
        "max_dim": "max.dim",
        "square": "pow.Tensor_Scalar",
    }
    has_kernel = torch._C._dispatch_has_kernel_for_dispatch_key
    compared = set()
    for name, op in OPS.items():
        aten = f"aten::{names.get(name, name)}"
        if name in NEW or name in ("addcdiv", "addcmul", "atan2"):
            continue  # torch's list for CUDA promotes them to the widest dtype, as RepDL does without autocast
        if op.distribution == "repdl-core" and torch._C._dispatch_has_kernel(aten):
            for key in ("AutocastCPU", "AutocastCUDA"):
                assert has_kernel(f"repdl::{name}", key) == has_kernel(aten, key), (name, key)
            compared.add(name)
    assert len(compared) > 30
    assert {"matmul", "linear", "conv2d", "softmax", "layer_norm", "nll_loss", "sum", "exp"} <= compared


@pytest.mark.parametrize("lower", FLOATS_16_BIT)
def test_autocast__bits_and_gradients_are_those_of_explicit_casts(lower: torch.dtype) -> None:
    def same(x: torch.Tensor) -> torch.Tensor:
        return x

    def run(to: Callable[[torch.Tensor], torch.Tensor], up: Callable[[torch.Tensor], torch.Tensor]) -> Any:
        x, w, b, v = (t.requires_grad_() for t in inputs(((4, 6), (5, 6), (5,), (3, 5)), (torch.float32,)))
        hidden = ops.relu(ops.linear(to(x), to(w), to(b)))
        loss = ops.cross_entropy(up(ops.linear(hidden, to(v))), TARGET)
        return [loss.detach(), *torch.autograd.grad(loss, (x, w, b, v))]

    expected = run(lambda t: ops.cast(t, lower), lambda t: ops.cast(t, torch.float32))
    with torch.autocast("cpu", dtype=lower):
        inside = run(same, same)
    assert all(t.dtype is torch.float32 for t in inside)
    assert_same_bits(inside, expected)


def test_autocast__a_derivative_has_the_dtypes_of_its_forward_call() -> None:
    x, w = (t.requires_grad_() for t in inputs(((4, 6), (3, 6)), (torch.float32,)))
    with torch.autocast("cpu", dtype=torch.bfloat16):
        loss = ops.cross_entropy(ops.linear(x, w), TARGET)
        inside = torch.autograd.grad(loss, (x, w), retain_graph=True)
    assert_same_bits(torch.autograd.grad(loss, (x, w)), inside)
    loss = ops.sum(ops.square(ops.linear(x, w)))
    outside = torch.autograd.grad(loss, (x, w), retain_graph=True)
    with torch.autocast("cpu", dtype=torch.bfloat16):
        assert_same_bits(torch.autograd.grad(loss, (x, w)), outside)


def test_autocast__targets_are_not_narrowed() -> None:
    """Those of losses that without autocast convert them to the dtype of their inputs."""
    x, y = uniform(1, 5), uniform(2, 5)  # y is no bfloat16
    losses = {
        "soft_margin_loss": lambda a, b: ops.soft_margin_loss(a, b, reduction="none"),
        "hinge_embedding_loss": lambda a, b: ops.hinge_embedding_loss(a, 1 + (b - 1) * 2.0**-12, reduction="none"),
    }
    for name, loss in losses.items():
        low = x.bfloat16()
        with torch.autocast("cpu", torch.bfloat16):
            found = loss(low, y)
        assert_same_bits(found, loss(low.float(), y), name)


def test_autocast__float64_and_what_is_switched_off_stay() -> None:
    x = uniform(1, 4, 4)
    expected = ops.mm(x, x)
    with torch.autocast("cpu", dtype=torch.bfloat16):
        assert ops.mm(x.double(), x.double()).dtype is torch.float64
        assert ops.mm(x, x).dtype is torch.bfloat16
        with torch.autocast("cpu", enabled=False):
            assert_same_bits(ops.mm(x, x), expected)


@pytest.mark.parametrize("backend", ["eager", "aot_eager"])
def test_autocast__compiled(backend: str) -> None:
    weight, image = uniform(1, 3, 6).requires_grad_(), uniform(2, 2, 1, 3, 3).requires_grad_()

    def loss(x: torch.Tensor) -> torch.Tensor:
        hidden = ops.relu(ops.conv2d(x, image)).flatten(1)
        logits = ops.addmm(hidden[:, :3], ops.linear(hidden, weight.repeat(1, 3)[:, : hidden.shape[1]]), weight[:, :3])
        return ops.cross_entropy(logits, TARGET, label_smoothing=0.1)

    def within(x: torch.Tensor) -> torch.Tensor:
        with torch.autocast("cpu", dtype=torch.bfloat16):
            return loss(x)

    def results(function: Callable[..., Any]) -> list[torch.Tensor]:
        value = function(uniform(3, 4, 1, 4, 4))
        return [value.detach(), *torch.autograd.grad(value, (weight, image))]

    torch._dynamo.reset()
    expected = results(within)
    assert_same_bits(results(torch.compile(within, backend=backend, fullgraph=True)), expected)
    with torch.autocast("cpu", dtype=torch.bfloat16):
        assert_same_bits(results(torch.compile(loss, backend=backend, fullgraph=True)), expected)


@pytest.mark.parametrize("name", ["SGD", "Adam", "AdamW", "RMSprop", "Adagrad", "NAdam", "Rprop"])
def test_autocast__grad_scaler(name: str) -> None:
    optim = pytest.importorskip("repdl.optim")

    def train(scale: bool) -> torch.Tensor:
        weight = torch.nn.Parameter(uniform(1, 3, 6))
        optimizer = getattr(optim, name)([weight], lr=0.1)
        scaler = torch.amp.GradScaler("cpu", init_scale=2.0**10, growth_interval=2, enabled=scale)
        for step in range(4):
            optimizer.zero_grad()
            with torch.autocast("cpu", dtype=torch.bfloat16):
                loss = ops.cross_entropy(ops.linear(uniform(step, 4, 6), weight), TARGET)
            scaler.scale(loss).backward()
            scaler.step(optimizer)
            scaler.update()
        if scale:
            assert scaler.get_scale() == 2.0**12
            before = weight.detach().clone()
            weight.grad = torch.full_like(weight, float("inf"))
            scaler.step(optimizer)  # skipped
            scaler.update()
            assert_same_bits(weight, before)
            assert scaler.get_scale() == 2.0**11
        return weight.detach()

    assert_same_bits(train(True), train(False))  # scales are powers of two
