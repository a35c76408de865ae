"""conv3d: its order, torch in float64, derivatives, layouts, errors."""

from __future__ import annotations

from typing import Any

import pytest
import torch
import torch.nn.functional as F

from repdl import ops
from repdl.errors import ArgumentError, ShapeError, UnsupportedError
from repdl.registry import functions
from repdl.testing import assert_same_bits, cases, uniform

OPTIONS = "stride", "padding", "dilation", "groups"


def columns(x: torch.Tensor, kernel: Any, stride: Any, padding: Any, dilation: Any) -> torch.Tensor:
    """What each position sees, (N, C, KD, KH, KW, OD, OH, OW): written anew, one tap after the other."""
    x = F.pad(x, [p for p in reversed(padding) for _ in range(2)])
    counts = [(n - d * (k - 1) - 1) // s + 1 for n, k, s, d in zip(x.shape[2:], kernel, stride, dilation)]
    seen = x.new_empty(*x.shape[:2], *kernel, *counts)
    for tap in torch.cartesian_prod(*(torch.arange(k) for k in kernel)).tolist():
        at = [slice(t * d, t * d + s * (n - 1) + 1, s) for t, d, s, n in zip(tap, dilation, stride, counts)]
        seen[(slice(None), slice(None), *tap)] = x[(slice(None), slice(None), *at)]
    return seen


@pytest.mark.parametrize("contract", ["v1", "sequential"])
def test_conv3d__order(contract: str) -> None:
    """It is unfold and matmul, k in the order of the text."""
    for case in cases("conv3d"):
        if case.op != "conv3d" or case.derived is not None or "empty" in case.name:
            continue
        x, weight, bias, stride, padding, dilation, groups = case.make()
        output = ops.conv3d(x, weight, bias, stride, padding, dilation, groups, contract=contract)
        grad = uniform(5, *output.shape)
        kernel, per = weight.shape[2:], weight.shape[0] // groups
        seen = columns(x, kernel, stride, padding, dilation)
        options = (list(kernel), stride, padding, dilation, groups, contract)
        found = functions.conv3d_grad_weight(grad, x, *options)
        for g, part in enumerate(seen.chunk(groups, 1)):
            positions = (
                part.permute(0, 5, 6, 7, 1, 2, 3, 4).flatten(4).flatten(0, 3)
            )  # (n, od, oh, ow), (c, kd, kh, kw)
            own = slice(g * per, (g + 1) * per)
            rows = ops.linear(positions, weight[own].flatten(1), None if bias is None else bias[own], contract=contract)
            expected = rows.reshape(x.shape[0], *output.shape[2:], per).movedim(-1, 1)
            assert_same_bits(output[:, own].contiguous(), expected.contiguous(), f"{case} {contract}")
            grads = grad[:, own].movedim(1, -1).flatten(0, 3)
            weights = ops.mm(grads, positions, transA=True, contract=contract).reshape(weight[own].shape)
            assert_same_bits(found[own].contiguous(), weights, f"{case} {contract}, weight")


def test_conv3d__order_of_the_gradient_of_the_input() -> None:
    """Of each element a product over (o, kd, kh, kw), through the taps that exist."""
    for case in cases("conv3d"):
        if case.op != "conv3d_grad_input" or case.derived is not None or case.name in ("empty", "many_terms"):
            continue
        grad, weight, size, stride, padding, dilation, groups = case.make()
        output = functions.conv3d_grad_input(grad, weight, size, stride, padding, dilation, groups, "v1")
        per, out = weight.shape[1], weight.shape[0] // groups
        for at in (0, 1, 17, output[0].numel() - 1):
            c, *place = (int(i) for i in torch.unravel_index(torch.tensor(at % output[0].numel()), output.shape[1:]))
            taps, where = [], []
            for tap in torch.cartesian_prod(*(torch.arange(k) for k in weight.shape[2:])).tolist():
                ends = [(i + p - t * d, s) for i, p, t, d, s in zip(place, padding, tap, dilation, stride)]
                if all(end % s == 0 for end, s in ends):
                    taps.append(tap)
                    where.append([end // s for end, s in ends])
            if not taps:
                assert_same_bits(output[(0, c, *place)], torch.tensor(0.0))
                continue
            own = range(c // per * out, (c // per + 1) * out)
            inside = [all(0 <= i < n for i, n in zip(w, grad.shape[2:])) for w in where]
            a = [grad[(0, o, *w)] if ok else torch.tensor(0.0) for o in own for w, ok in zip(where, inside)]
            b = [weight[(o, c % per, *tap)] for o in own for tap in taps]
            expected = ops.mm(torch.stack(a).reshape(1, -1), torch.stack(b).reshape(-1, 1))
            assert_same_bits(output[(0, c, *place)].reshape(1, 1), expected, f"{case} {place}")


@pytest.mark.filterwarnings("ignore:Using padding='same'")
def test_conv3d__is_torchs() -> None:
    for kernel, stride, padding, dilation, groups in (
        ((3, 3, 3), 1, 0, 1, 1),
        ((2, 3, 1), (2, 1, 2), (1, 2, 0), (2, 1, 1), 2),
        ((3, 2, 2), 3, 1, 1, 1),
        ((3, 3, 3), 1, "same", (2, 1, 1), 1),
        ((2, 4, 3), 1, "same", 1, 2),
        ((2, 2, 2), (3, 1, 1), "valid", (3, 1, 1), 1),
    ):
        x, weight = uniform(1, 2, 4, 7, 6, 5), uniform(2, 8, 4 // groups, *kernel)
        options = dict(zip(OPTIONS, (stride, padding, dilation, groups)))
        for args in ((x, weight, uniform(3, 8)), (x, weight), (x[0], weight)):
            mine, theirs = [t.requires_grad_() for t in args], [t.detach().double().requires_grad_() for t in args]
            output, expected = ops.conv3d(*mine, **options), F.conv3d(*theirs, **options)
            grad = uniform(4, *output.shape)
            found, exact = torch.autograd.grad(output, mine, grad), torch.autograd.grad(expected, theirs, grad.double())
            for a, e in zip((output, *found), (expected, *exact), strict=True):
                # At most 420 terms in [-1, 1], within K * K * 2**-24.
                assert a.shape == e.shape and (a.double() - e).detach().abs().max() <= 420 * 420 * 2.0**-24


def test_conv3d__derivatives_in_float64() -> None:
    for stride, padding, dilation in ((1, 1, 1), ((2, 1, 1), (1, 0, 0), (2, 1, 1)), ((3, 1, 1), 0, 1)):
        args = [
            uniform(i, *s).double().requires_grad_() for i, s in ((1, (1, 2, 5, 2, 3)), (2, (2, 1, 2, 2, 2)), (3, (2,)))
        ]
        function = lambda *given: ops.conv3d(*given, stride, padding, dilation, 2)
        assert torch.autograd.gradcheck(function, args)
        assert torch.autograd.gradgradcheck(function, args)


def test_conv3d__images_do_not_depend_on_the_batch() -> None:
    x, weight = uniform(1, 5, 3, 6, 7, 5), uniform(2, 4, 3, 3, 2, 3)
    whole = ops.conv3d(x, weight, None, 2, 1)
    for i in range(5):
        assert_same_bits(ops.conv3d(x[i], weight, None, 2, 1), whole[i])


def test_conv3d__channels_last() -> None:
    x, weight = uniform(1, 2, 3, 4, 5, 6), uniform(2, 4, 3, 2, 2, 2)
    last = x.contiguous(memory_format=torch.channels_last_3d).requires_grad_()
    output, theirs = ops.conv3d(last, weight), F.conv3d(last, weight)
    assert output.stride() == theirs.stride()
    assert_same_bits(output, ops.conv3d(x, weight))
    (grad,) = torch.autograd.grad(output, last, torch.ones_like(output))
    assert grad.is_contiguous(memory_format=torch.channels_last_3d)


def test_conv3d__compiled() -> None:
    x, weight = uniform(1, 2, 4, 5, 5, 4), uniform(2, 6, 2, 3, 3, 2).requires_grad_()
    function = lambda x, w: ops.conv_transpose3d(ops.conv3d(x, w, None, (2, 1, 1), 1, 1, 2), w, None, 2, groups=2)
    results = []
    for run in (function, torch.compile(function, backend="aot_eager", fullgraph=True)):
        output = run(x, weight)
        results.append((output, *torch.autograd.grad(output, weight, torch.ones_like(output))))
    for a, b in zip(*results, strict=True):
        assert_same_bits(a, b)


def test_conv3d__errors() -> None:
    x, weight = torch.zeros(2, 4, 5, 6, 7), torch.zeros(6, 4, 3, 3, 3)
    for args, error, message in (
        ((x[:, :3], weight), ShapeError, r"input.shape\[1\] is 3, expected 4"),
        ((x, weight, torch.zeros(5)), ShapeError, r"bias.shape\[0\] is 5, expected 6"),
        ((x[0, 0], weight), ShapeError, r"input.dim\(\) is 3"),
        ((x, weight[0]), ShapeError, r"weight.dim\(\) is 4"),
        ((x[:, :, :2], weight), ShapeError, "kernel is larger than the padded input: depth 3 > 2"),
        (
            (x, weight, None, (1, 2)),
            ShapeError,
            r"stride is \(1, 2\), expected one integer or three \(depth, height, width\)",
        ),
        ((x, weight, None, 0), ShapeError, r"stride is \(0, 0, 0\), expected at least 1"),
        ((x, weight, None, 1, -1), ShapeError, "padding is"),
        ((x, weight, None, 1, 0, 1, 4), ShapeError, "expected 16|multiple of groups"),
        ((x, weight, None, 2, "same"), UnsupportedError, "'same' with stride"),
        ((x, weight, None, 1, "full"), UnsupportedError, "expected 'same', 'valid' or integers"),
        ((x, weight, None, 1.5), ArgumentError, "stride is float"),
    ):
        with pytest.raises(error, match=f"conv3d: .*({message})"):
            ops.conv3d(*args)
    transposed = torch.zeros(4, 6, 3, 3, 3)
    with pytest.raises(ShapeError, match="output_padding of the depth is 2, expected less than stride = 2"):
        ops.conv_transpose3d(x, transposed, None, 2, 0, (2, 0, 0))
    with pytest.raises(ShapeError, match="the output would be of size"):
        ops.conv_transpose3d(x, transposed, None, 1, 9)
