"""Where outputs lie: torch's strides for the same calls, on every backend, and bits that do not depend on it."""

from __future__ import annotations

from collections.abc import Callable, Iterator

import pytest
import torch
from torch.nn import functional as F

from repdl import ops
from repdl.testing import assert_same_bits, uniform
from repdl.testing.layouts import assert_layouts

LAST = torch.channels_last
SHAPES = [(2, 3, 4, 5), (1, 3, 4, 5), (2, 1, 4, 5), (2, 3, 1, 1), (2, 3, 1, 5), (1, 1, 1, 1)]
Function = Callable[..., torch.Tensor]


def layouts(*shape: int) -> Iterator[tuple[str, torch.Tensor]]:
    """The same values in many layouts."""
    x = uniform(1, *shape)
    yield "row-major", x
    yield "channels last", torch.empty(shape, memory_format=LAST).copy_(x)
    yield "permuted", torch.empty_permuted(shape, (1, 3, 0, 2)).copy_(x)
    n, c, *side = shape
    yield "sliced channels last", torch.zeros(n, 2 * c, *side).to(memory_format=LAST)[:, ::2].copy_(x)
    yield "sliced", torch.zeros(n, c, 2 * side[0], side[1])[:, :, ::2].copy_(x)


def both(name: str) -> tuple[Function, Function]:
    return getattr(ops, name), getattr(torch if hasattr(torch, name) else F, name)


def vector(x: torch.Tensor) -> torch.Tensor:
    return uniform(4, x.shape[1])


# One tensor to one tensor, with RepDL's functions and torch's.
KEEPS_ANY: dict[str, tuple[Function, Function]] = {
    **{name: both(name) for name in ("abs", "exp", "neg", "relu", "sigmoid", "sqrt", "square", "tanh")},
    "gelu": (ops.gelu, F.gelu),
    "silu": (ops.silu, F.silu),
    "pow": (lambda x: ops.pow(x, 3.0), lambda x: torch.pow(x, 3.0)),
    "mul by a number": (lambda x: ops.mul(x, 2.0), lambda x: x * 2.0),
    "add a channel": (lambda x: ops.add(x, vector(x)[:, None, None]), lambda x: x + vector(x)[:, None, None]),
    "sub from a channel": (lambda x: ops.sub(vector(x)[:, None, None], x), lambda x: vector(x)[:, None, None] - x),
    "mul by itself": (lambda x: ops.mul(x, x), lambda x: x * x),
    "cast": (lambda x: ops.cast(x, torch.bfloat16), lambda x: x.to(torch.bfloat16)),
}
IMAGES: dict[str, tuple[Function, Function]] = (
    {
        f"batch_norm training={t}": tuple(
            lambda x, f=f, t=t: f(x, 0 * vector(x), vector(x).abs() + 1, vector(x), vector(x), t)
            for f in (ops.batch_norm, F.batch_norm)
        )  # type: ignore[dict-item]
        for t in (True, False)
    }
    | {
        "group_norm": tuple(lambda x, f=f: f(x, 1, vector(x)) for f in (ops.group_norm, F.group_norm)),
        "instance_norm": (ops.instance_norm, F.instance_norm),
        "layer_norm": tuple(lambda x, f=f: f(x, x.shape[2:]) for f in (ops.layer_norm, F.layer_norm)),
        "max_pool2d": tuple(lambda x, f=f: f(x, 1) for f in (ops.max_pool2d, F.max_pool2d)),
        "softmax": tuple(lambda x, f=f: f(x, 1) for f in (ops.softmax, F.softmax)),
        "sum": (lambda x: ops.sum(x, 1), lambda x: torch.sum(x, 1)),
        "pad constant": tuple(lambda x, f=f: f(x, (1, 2)) for f in (ops.pad, F.pad)),
        **{
            f"pad {mode}": tuple(lambda x, f=f, mode=mode: f(x, (1, 0, 0, 1), mode) for f in (ops.pad, F.pad))
            for mode in ("replicate", "circular")
        },
        **{
            f"conv2d {o} {form}": tuple(
                lambda x, f=f, o=o, form=form: f(
                    x, uniform(2, o, x.shape[1], 1, 3).to(memory_format=form), padding=(0, 1)
                )
                for f in (ops.conv2d, F.conv2d)
            )
            for o in (1, 4)
            for form in (torch.contiguous_format, LAST)
        },
    }
)  # type: ignore[dict-item,operator]
TABLE = KEEPS_ANY | IMAGES


def refuses(f: Function, x: torch.Tensor) -> bool:
    try:
        f(x)
    except (RuntimeError, ValueError):
        return True
    return False


def seen(tensor: torch.Tensor) -> list[tuple[int, int]]:
    """Strides of the dimensions that have more than one element: the others place nothing."""
    return [(d, s) for d, (s, n) in enumerate(zip(tensor.stride(), tensor.shape)) if n > 1]


@pytest.mark.parametrize("name", TABLE)
def test_layout__strides_are_torchs_and_bits_those_of_the_row_major_call(name: str) -> None:
    ours, theirs = TABLE[name]
    for shape in SHAPES:
        if refuses(theirs, uniform(1, *shape)):
            continue
        for kind, x in layouts(*shape):
            results = []
            for f, like in ((ours, x), (theirs, x), (ours, x.contiguous())):
                leaf = like.detach().requires_grad_()
                y = f(leaf)
                grads = [torch.autograd.grad(f(leaf), leaf, make(y, dtype=y.dtype)) for make in (torch.ones_like, ones)]
                results.append((y.detach(), *(g for (g,) in grads)))
            message = f"{name} {shape} {kind}"
            mine, wanted, dense = results
            assert mine[0].stride() == wanted[0].stride(), message
            assert_same_bits(mine, dense)
            for a, b in zip(mine[1:], wanted[1:]):
                assert seen(a) == seen(b), f"{message}: gradient {a.stride()}, expected {b.stride()}"


def ones(like: torch.Tensor, dtype: torch.dtype) -> torch.Tensor:
    """Row-major, whatever the layout of `like`."""
    return torch.ones(like.shape, dtype=dtype)


def test_layout__fake_outputs_have_the_strides_of_the_reference() -> None:
    assert_layouts("reference")


def test_layout__halves_have_the_layouts_of_what_they_stand_for() -> None:
    x = uniform(1, 2, 3, 4, 5).to(torch.bfloat16)
    last = x.to(memory_format=LAST)
    for a, b in ((last, last), (x[:1].expand(2, 3, 4, 5), last), (last[:, :, :1], x), (x[:, :, ::2], last[:, :, ::2])):
        expected = torch.add(a, b)
        result = ops.add(a, b)
        assert result.stride() == expected.stride()
        assert_same_bits(result, expected)
    y, wanted = (f(last, uniform(2, 1, 3, 1, 1).to(torch.bfloat16)) for f in (ops.conv2d, F.conv2d))
    assert y.stride() == wanted.stride()


def test_layout__float64_convolutions() -> None:
    x, weight = uniform(1, 2, 3, 4, 5).double().to(memory_format=LAST), uniform(2, 4, 3, 3, 3).double()
    assert ops.conv2d(x, weight).stride() == F.conv2d(x, weight).stride()


def test_layout__other_dimensions() -> None:
    last = uniform(1, 2, 3, 4, 5, 2).to(memory_format=torch.channels_last_3d)
    assert ops.batch_norm(last, None, None, training=True).is_contiguous(memory_format=torch.channels_last_3d)
    for x in (torch.tensor(1.0), uniform(1, 7)[::2], uniform(1, 3, 4).t(), uniform(1, 3, 0, 4).movedim(0, 2)):
        assert ops.add(x, x).stride() == torch.add(x, x).stride()


def test_layout__a_row_major_gradient_of_a_channels_last_network_is_channels_last() -> None:
    x = uniform(1, 2, 3, 8, 8).to(memory_format=LAST).requires_grad_()
    weight = uniform(2, 4, 3, 3, 3).to(memory_format=LAST).requires_grad_()
    y = ops.max_pool2d(ops.relu(ops.batch_norm(ops.conv2d(x, weight), None, None, training=True)), 2)
    assert y.is_contiguous(memory_format=LAST)
    for grad in torch.autograd.grad(y, (x, weight), torch.ones(y.shape)):
        assert grad.is_contiguous(memory_format=LAST)


def test_layout__compiled() -> None:
    def step(x: torch.Tensor, weight: torch.Tensor) -> torch.Tensor:
        return ops.relu(ops.add(ops.conv2d(x, weight), weight[:, 0, :1, :1]))

    x, weight = uniform(1, 2, 3, 6, 7).to(memory_format=LAST), uniform(2, 4, 3, 3, 3)
    for dynamic in (False, True):
        compiled = torch.compile(step, backend="aot_eager", fullgraph=True, dynamic=dynamic)
        result = compiled(x, weight)
        assert result.stride() == step(x, weight).stride() and result.is_contiguous(memory_format=LAST)
        assert_same_bits(result, step(x.contiguous(), weight))
