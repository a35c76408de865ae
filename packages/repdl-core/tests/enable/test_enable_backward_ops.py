"""`repdl.enable`: derivatives of torch that a program calls itself, and ops that have a kernel beside a composition."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch
import torch.nn.functional as F
from enabling import values
from torch import _C

import repdl
from repdl.audit.op_classes import class_of, plain_name
from repdl.errors import OutOfRangeError, UnsupportedError
from repdl.overrides.backward_ops import BACKWARD
from repdl.overrides.kernels import is_computed
from repdl.overrides.saving_ops import SAVING
from repdl.overrides.torchs import is_composed
from repdl.testing import assert_same_bits, uniform
from repdl.testing.oracle import U, assert_within

aten = torch.ops.aten
Function = Callable[..., torch.Tensor]


def x(*shape: int) -> torch.Tensor:
    return values(*(shape or (3, 5)))


CLASSES, IMAGES = torch.tensor([1, 0, 4]), (2, 3, 8, 8)
# name: the function of torch, its input, and the other arguments of torch's derivative (grad and input come first).
OF_INPUT: dict[str, tuple[Function, torch.Tensor, tuple[Any, ...]]] = {
    "glu_backward": (lambda t: F.glu(t, 1), x(3, 6), (1,)),
    "hardshrink_backward": (lambda t: F.hardshrink(t, 0.4), x(), (0.4,)),
    "hardsigmoid_backward": (F.hardsigmoid, x() * 4, ()),
    "hardswish_backward": (F.hardswish, x() * 4, ()),
    "hardtanh_backward": (lambda t: F.hardtanh(t, -0.7, 0.6), x(), (-0.7, 0.6)),
    "logit_backward": (lambda t: torch.logit(t, 0.1), x().sigmoid(), (0.1,)),
    "mish_backward": (F.mish, x(), ()),
    "silu_backward": (F.silu, x(), ()),
    "softplus_backward": (lambda t: F.softplus(t, 1.5, 3.0), x() * 3, (1.5, 3.0)),
    "softshrink_backward": (lambda t: F.softshrink(t, 0.4), x(), (0.4,)),
    "gelu_backward": (F.gelu, x(), ()),
    "threshold_backward": (lambda t: F.threshold(t, 0.1, 0.0), x(), (0.1,)),
    "leaky_relu_backward": (lambda t: F.leaky_relu(t, 0.2), x(), (0.2, False)),
    "log_sigmoid_backward": (F.logsigmoid, x(), (torch.empty(0),)),
    "mse_loss_backward": (lambda t: F.mse_loss(t, x() + 1), x(), (x() + 1, 1)),
    "smooth_l1_loss_backward": (lambda t: F.smooth_l1_loss(t, x() * 2, beta=0.5), x(), (x() * 2, 1, 0.5)),
    "huber_loss_backward": (lambda t: F.huber_loss(t, x() * 2, "sum", 0.5), x(), (x() * 2, 2, 0.5)),
    "soft_margin_loss_backward": (lambda t: F.soft_margin_loss(t, x().sign()), x(), (x().sign(), 1)),
    "binary_cross_entropy_backward": (
        lambda t: F.binary_cross_entropy(t, x().abs().clamp(max=1), reduction="none"),
        x().sigmoid(),
        (x().abs().clamp(max=1), None, 0),
    ),
    "nll_loss_backward": (lambda t: F.nll_loss(t, CLASSES), x(), (CLASSES, None, 1, -100, torch.tensor(3.0))),
    "_adaptive_avg_pool2d_backward": (lambda t: F.adaptive_avg_pool2d(t, (3, 5)), x(*IMAGES), ()),
    "_adaptive_avg_pool3d_backward": (lambda t: F.adaptive_avg_pool3d(t, (1, 3, 5)), x(*IMAGES), ()),
    "avg_pool2d_backward": (
        lambda t: F.avg_pool2d(t, 3, 2, 1, True, False),
        x(*IMAGES),
        ([3, 3], [2, 2], [1, 1], True, False, None),
    ),
    "avg_pool3d_backward": (lambda t: F.avg_pool3d(t, 2), x(*IMAGES), ([2] * 3, [], [0] * 3, False, True, None)),
    **{
        f"{mode}_pad{n}d_backward": (
            lambda t, n=n, mode=mode: F.pad(t, [1, 2] * n, "reflect" if mode == "reflection" else "replicate"),
            x(2, 3, *[4] * n),
            ([1, 2] * n,),
        )
        for mode in ("reflection", "replication")
        for n in (1, 2, 3)
    },
}
# name: the function of torch, its input, and what torch's derivative takes after grad and the function's result.
OF_RESULT: dict[str, tuple[Function, tuple[Any, ...]]] = {
    "sigmoid_backward": (torch.sigmoid, ()),
    "tanh_backward": (torch.tanh, ()),
    "_softmax_backward_data": (lambda t: t.softmax(1), (1, torch.float32)),
    "_log_softmax_backward_data": (lambda t: t.log_softmax(1), (1, torch.float32)),
}


def compare(name: str, call: Function, function: Function, input: torch.Tensor) -> None:
    """A derivative that is called, our derivative of the function, and torch's."""
    with repdl.enabled():
        own = input.clone().requires_grad_()
        ours = function(own)
        grad = values(*ours.shape)
        (expected,) = torch.autograd.grad(ours, own, grad)
        for _ in range(3):
            assert_same_bits(call(grad, input, ours.detach()), expected)
    by_torch = input.clone().requires_grad_()
    (approximate,) = torch.autograd.grad(function(by_torch), by_torch, grad)
    # Both are within a few roundings of terms below 2**6 of the derivative.
    assert_within(expected, approximate.double(), 2.0**12 * U, name)


@pytest.mark.parametrize("name", OF_INPUT)
def test_enable__derivatives_of_inputs(name: str) -> None:
    function, input, others = OF_INPUT[name]
    compare(name, lambda grad, given, _: getattr(aten, name)(grad, given, *others), function, input)


@pytest.mark.parametrize("name", OF_RESULT)
def test_enable__derivatives_of_results(name: str) -> None:
    function, others = OF_RESULT[name]
    compare(name, lambda grad, _, result: getattr(aten, name)(grad, result, *others), function, x())


def test_enable__derivatives_of_several_inputs() -> None:
    images, weight, bias = x(2, 4, 6, 6), x(6, 2, 3, 3), x(6)
    with repdl.enabled():
        leaves = [t.clone().requires_grad_() for t in (images, weight, bias)]
        output = F.conv2d(*leaves, stride=2, padding=1, groups=2)
        grad = values(*output.shape)
        expected = torch.autograd.grad(output, leaves, grad)
        options = [6], [2, 2], [1, 1], [1, 1], False, [0, 0], 2
        found = aten.convolution_backward(grad, images, weight, *options, [True, True, True])
        for one, other in zip(found, expected):
            assert_same_bits(one, other)
        assert aten.convolution_backward(grad, images, weight, *options, [False, True, False])[0] is None
        tables = torch.tensor([[1, 2], [2, 2]])
        table = x(5, 3).requires_grad_()
        output = F.embedding(tables, table)
        (expected_table,) = torch.autograd.grad(output, table, values(*output.shape))
        assert_same_bits(aten.embedding_dense_backward(values(*output.shape), tables, 5, -1, False), expected_table)


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64, torch.bfloat16])
@pytest.mark.parametrize(
    ("shape", "dim", "index"),
    [
        ((4, 5), 1, torch.tensor([[1], [0], [1]])),
        ((4, 5), -2, torch.tensor([[3, 0, 3], [3, 1, 2]])),
        ((4, 5), 0, torch.tensor([2, 0, 2]).unsqueeze(1).expand(3, 5)),  # whole slices
        ((3, 4, 5), 1, torch.tensor([1, 1, 0, 1, 3, 1]).view(1, 6, 1).expand(3, 6, 5)),
        ((6,), 0, torch.tensor([5, 5, 5, 0], dtype=torch.int32)),
        ((), 0, torch.tensor(0)),
        ((3, 2), 0, torch.empty(0, 2, dtype=torch.int64)),
        ((2, 2), 1, torch.tensor(1).expand(2, 70)),  # more terms than lanes
    ],
)
def test_enable__derivative_of_gather(
    shape: tuple[int, ...], dim: int, index: torch.Tensor, dtype: torch.dtype
) -> None:
    input, grad = values(*shape).to(dtype), (values(*index.shape) * 3).to(dtype)
    expected = repdl.ops.scatter_add(torch.zeros_like(input), dim, index, grad)
    with repdl.enabled():
        assert_same_bits(aten.gather_backward(grad, input, dim, index, False), expected)
        leaf = input.clone().requires_grad_()
        (found,) = torch.autograd.grad(leaf.gather(dim, index.long()), leaf, grad)
    assert_same_bits(found, expected)


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
@pytest.mark.parametrize(
    ("shape", "dim", "index"),
    [
        ((4, 5), 0, torch.tensor([3, 0, 3])),
        ((4, 3, 5), -2, torch.tensor([1, 1, 2, 1], dtype=torch.int32)),
        ((5,), 0, torch.tensor(4)),
        ((), 0, torch.tensor([0])),
        ((3, 2), 1, torch.empty(0, dtype=torch.int64)),
    ],
)
def test_enable__derivative_of_index_select(
    shape: tuple[int, ...], dim: int, index: torch.Tensor, dtype: torch.dtype
) -> None:
    output = torch.index_select(values(*shape), dim, index)
    grad = (values(*output.shape) * 3).to(dtype)
    expected = repdl.ops.index_add(torch.zeros(shape, dtype=dtype), dim, index, grad)
    with repdl.enabled():
        assert_same_bits(aten.index_select_backward(grad, shape, dim, index), expected)
        leaf = values(*shape).to(dtype).requires_grad_()
        (found,) = torch.autograd.grad(leaf.index_select(dim, index), leaf, grad)
    assert_same_bits(found, expected)


def test_enable__derivatives_of_selections_have_derivatives() -> None:
    index = torch.tensor([[1, 1], [0, 2]])
    with repdl.enabled():
        for select in (
            lambda t: t.gather(0, index),
            lambda t: t.index_select(0, index[0]),
        ):
            leaf, scale = x(3, 2).requires_grad_(), x(2, 2).requires_grad_()
            (slope,) = torch.autograd.grad(select(leaf), leaf, scale, create_graph=True)
            (found,) = torch.autograd.grad(slope, scale, leaf)
            assert_same_bits(found, select(leaf.detach()))
            with pytest.raises(RuntimeError, match="does not require grad|not have been used"):
                torch.autograd.grad(slope, leaf, leaf)


def test_enable__derivatives_of_selections_are_checked() -> None:
    index = torch.tensor([[1], [0], [1]])
    with repdl.enabled():
        with pytest.raises(OutOfRangeError, match="index.*5, expected 0 to 4"):
            aten.gather_backward(x(3, 1), x(4, 5), 1, index + 4, False)
        with pytest.raises(OutOfRangeError, match="index.*5, expected 0 to 3"):
            aten.index_select_backward(x(3, 5), [4, 5], 0, index[:, 0] + 4)
        with pytest.raises(UnsupportedError, match="another layout"):
            aten.gather_backward(x(3, 1), x(4, 5), 1, index, True)
        leaf = torch.complex(x(4, 5), x(4, 5)).requires_grad_()
        for select in leaf.gather(1, index), leaf.index_select(0, index[:, 0]):
            with pytest.raises(UnsupportedError, match="dtype is complex64"):
                torch.view_as_real(select).sum().backward()


def test_enable__derivatives_have_derivatives() -> None:
    with repdl.enabled():
        grad, input = x().requires_grad_(), (x() * 2).requires_grad_()
        first = torch.autograd.grad(aten.silu_backward(grad, input).sum(), (grad, input))
        own = input.detach().clone().requires_grad_()
        (slope,) = torch.autograd.grad(F.silu(own), own, grad, create_graph=True)
        for one, other in zip(first, torch.autograd.grad(slope.sum(), (grad, own))):
            assert_same_bits(one, other)


def test_enable__derivatives_with_options() -> None:
    with repdl.enabled():
        images, target = x(2, 5, 3, 3).log_softmax(1).requires_grad_(), torch.arange(18).view(2, 3, 3) % 5
        (expected,) = torch.autograd.grad(F.nll_loss(images, target), images, torch.tensor(2.0))
        total = torch.tensor(18.0)
        found = aten.nll_loss2d_backward(torch.tensor(2.0), images.detach(), target, None, 1, -100, total)
        assert_same_bits(found, expected)
        leaf = (x() * 2).requires_grad_()
        (expected,) = torch.autograd.grad(F.elu(leaf, 0.7), leaf, x())
        assert_same_bits(aten.elu_backward(x(), 0.7, 1, 1, False, leaf.detach()), expected)
        with pytest.raises(UnsupportedError, match="is_result True, expected 1, 1 and False"):
            aten.elu_backward(x(), 0.7, 1, 1, True, leaf.detach())


def test_enable__norms_that_save_their_statistics() -> None:
    with repdl.enabled():
        rows, weight, bias = (t.requires_grad_() for t in (x(4, 6), x(6), x(6) + 1))
        expected = F.layer_norm(rows, (6,), weight, bias)
        grads = torch.autograd.grad(expected, (rows, weight, bias), x(4, 6))
        given = [t.detach() for t in (rows, weight, bias)]
        output, mean, rstd = aten.native_layer_norm(given[0], [6], *given[1:], 1e-5)
        assert_same_bits(output, expected)
        found = aten.native_layer_norm_backward(x(4, 6), given[0], [6], mean, rstd, *given[1:], [True] * 3)
        for one, other in zip(found, grads):
            assert_same_bits(one, other)
        images = (x(2, 6, 3, 3) * 2).requires_grad_()
        expected = F.group_norm(images, 3, weight, bias)
        grads = torch.autograd.grad(expected, (images, weight, bias), x(2, 6, 3, 3))
        output, mean, rstd = aten.native_group_norm(images.detach(), *given[1:], 2, 6, 9, 3, 1e-5)
        assert_same_bits(output, expected)
        options = images.detach(), mean, rstd, given[1], 2, 6, 9, 3, [True, True, False]
        *found, none = aten.native_group_norm_backward(x(2, 6, 3, 3), *options)
        assert none is None
        for one, other in zip(found, grads):
            assert_same_bits(one, other)


def test_enable__losses_of_parts_of_a_batch() -> None:
    """Which divide by the weight of all parts, as `total_weight` has it."""
    with repdl.enabled():
        logits, weight = x(3, 5).log_softmax(1).requires_grad_(), x(5).abs()
        expected = F.nll_loss(logits, CLASSES, weight)
        (grad,) = torch.autograd.grad(expected, logits)
        loss, total = aten.nll_loss_forward(logits.detach(), CLASSES, weight, 1, -100)
        assert_same_bits(loss, expected)
        options = logits.detach(), CLASSES, weight, 1, -100
        assert_same_bits(aten.nll_loss_backward(torch.tensor(1.0), *options, total), grad)
        assert_same_bits(aten.nll_loss_backward(torch.tensor(2.0), *options, total * 2), grad)
        single, place = logits.detach()[0], CLASSES[0]
        for reduction, name in enumerate(("none", "mean", "sum")):
            loss, total = aten.nll_loss_forward(single, place, None, reduction, -100)
            assert_same_bits(loss, F.nll_loss(single, place, reduction=name))
            found = aten.nll_loss_backward(torch.tensor(2.0), single, place, None, reduction, -100, total)
            assert found.tolist() == [0, -2, 0, 0, 0]


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
def test_enable__dropout_that_saves_its_mask(dtype: torch.dtype) -> None:
    with repdl.enabled():
        input, grad = x(40, 5).to(dtype).requires_grad_(), (x(40, 5) * 3).to(dtype)
        torch.manual_seed(3)
        expected = F.dropout(input, 0.3)
        torch.manual_seed(3)
        output, mask = aten.native_dropout(input.detach(), 0.3, True)
        assert_same_bits(output, expected)
        assert 0 < int(mask.sum()) < 200 and torch.equal(mask, expected != 0)
        (slope,) = torch.autograd.grad(expected, input, grad)
        assert_same_bits(aten.native_dropout_backward(grad, mask, 1 / (1 - 0.3)), slope)
        assert_same_bits(aten.native_dropout(input.detach(), 0.3, False)[0], input.detach())


def test_enable__every_derivative_is_tried() -> None:
    others = {"convolution_backward", "embedding_dense_backward", "elu_backward", "_softmax", "_log_softmax"}
    others |= {"gather_backward", "index_select_backward"}
    assert BACKWARD.keys() == (OF_INPUT.keys() - SAVING.keys()) | OF_RESULT.keys() | others
    norms = {f"native_{kind}_norm{form}" for kind in ("layer", "group") for form in ("", "_backward")}
    losses = {f"nll_loss{form}_{way}" for form in ("", "2d") for way in ("forward", "backward")}
    assert SAVING.keys() == norms | losses | {"native_dropout", "native_dropout_backward"}


def test_enable__softmax_of_a_dimension_from_the_end() -> None:
    with repdl.enabled():
        for op, function in (
            (aten._softmax_backward_data, torch.softmax),
            (aten._log_softmax_backward_data, torch.log_softmax),
        ):
            y, grad = function(x(), -1), x() * 2
            for dim in (-1, -2):
                expected = op(grad, y, dim + y.dim(), torch.float32)
                assert_same_bits(op(grad, y, dim, torch.float32), expected)


def test_enable__softmax_as_torch_calls_it_below() -> None:
    with repdl.enabled():
        assert_same_bits(aten._softmax(x(), 1, False), x().softmax(1))
        assert_same_bits(aten._log_softmax(x(), 1, False), x().log_softmax(1))
        with pytest.raises(UnsupportedError, match="input_dtype"):
            aten._softmax_backward_data(x(), x(), 1, torch.float16)


# Ops that the dispatcher does not compose, though it could.


def test_enable__no_op_with_a_kernel_of_its_own_passes_as_composed() -> None:
    """Decided by what the dispatcher runs, for every op that it knows."""
    several = []
    for name in torch._C._dispatch_get_all_op_names():
        if not _C._dispatch_has_kernel_for_dispatch_key(name, "CompositeImplicitAutograd"):
            continue
        if _C._dispatch_has_kernel_for_dispatch_key(name, "CPU"):
            several.append(name)
            assert not is_composed(name, "CPU"), name
            if name.startswith("aten::"):
                assert class_of(plain_name(name)) is not None, f"{name} is not in the table"
    assert {"aten::silu_backward", "aten::mish_backward", "aten::native_channel_shuffle"} <= {*several}
    assert is_composed("aten::matmul", "CPU") and is_computed("aten::matmul")


def test_enable__an_op_of_somebody_with_both_is_refused() -> None:
    with torch.library._scoped_library("repdl_tests", "FRAGMENT") as library:
        library.define("both(Tensor x) -> Tensor")
        library.impl("both", lambda x: x * 2, "CompositeImplicitAutograd")
        library.impl("both", lambda x: x * 3, "CPU")
        both = torch.ops.repdl_tests.both
        (row,) = repdl.audit(lambda: both(torch.ones(2))).refused
        assert "both" in row.op
        with repdl.enabled(), pytest.raises(UnsupportedError, match="repdl_tests.both"):
            both(torch.ones(2))


def test_backward_ops__group_norm_has_no_gradient_of_statistics() -> None:
    """torch's op has derivatives of mean and rstd, which would be lost."""
    images = x(2, 6, 3, 3)
    with repdl.enabled():
        with pytest.raises(repdl.UnsupportedError, match="call torch.nn.functional.group_norm"):
            aten.native_group_norm(images.detach().requires_grad_(), None, None, 2, 6, 9, 3, 1e-5)
        aten.native_group_norm(images.detach(), None, None, 2, 6, 9, 3, 1e-5)


def test_enable__backward_of_every_convolution() -> None:
    """All three gradients, of each number of dimensions and of groups, transposed or not."""
    for dims, groups, transposed in ((d, g, t) for d in (1, 2, 3) for g in (1, 2) for t in (False, True)):
        x, weight = uniform(1, 2, 4, *[5] * dims), uniform(2, 4, 3 if transposed else 4 // groups, *[2] * dims)
        outputs = 3 * groups if transposed else 4
        options = [1] * dims, [0] * dims, [1] * dims, transposed, [0] * dims, groups
        leaves = [t.requires_grad_() for t in (x, weight, uniform(3, outputs))]
        with repdl.enabled():
            output = torch.ops.aten.convolution(*leaves, *options)
            grad = uniform(4, *output.shape)
            expected = torch.autograd.grad(output, leaves, grad)
            found = torch.ops.aten.convolution_backward(grad, x, weight, [outputs], *options, [True] * 3)
        assert_same_bits(found, expected, f"{dims} dimensions, {groups} groups, transposed {transposed}")
