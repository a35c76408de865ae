"""scaled_dot_product_attention against torch, its masks, dropout, and errors."""

from __future__ import annotations

from typing import Any

import pytest
import torch
import torch.nn.functional as F

import repdl
from repdl import ops
from repdl.errors import DTypeError, OutOfRangeError, ShapeError, UnsupportedError

# Scores of at most 16 rounded terms below 16, weights with the relative error of those, and as many terms again.
BOUND = 2.0**-15


def operands(*shapes: tuple[int, ...]) -> list[torch.Tensor]:
    torch.manual_seed(0)
    return [torch.randn(shape, requires_grad=True) for shape in shapes]


def compare(tensors: list[torch.Tensor], **options: Any) -> None:
    """Output and gradients, against torch in float64."""
    wide = [t.detach().double().requires_grad_() for t in tensors]
    theirs = {k: v.double() if isinstance(v, torch.Tensor) and v.is_floating_point() else v for k, v in options.items()}
    actual, expected = (
        ops.scaled_dot_product_attention(*tensors, **options),
        F.scaled_dot_product_attention(*wide, **theirs),
    )
    assert actual.shape == expected.shape
    assert (actual.double() - expected).abs().max() <= BOUND
    grad = torch.randn(actual.shape)
    pairs = zip(torch.autograd.grad(actual, tensors, grad), torch.autograd.grad(expected, wide, grad.double()))
    assert all((a.double() - e).abs().max() <= 8 * BOUND for a, e in pairs)


SHAPES = (2, 3, 5, 16), (2, 3, 7, 16), (2, 3, 7, 4)


@pytest.mark.parametrize(
    "options", [{}, {"is_causal": True}, {"scale": 0.3}, {"attn_mask": torch.randn(5, 7)}, {"scale": 2}]
)
def test_attention__is_torchs(options: dict[str, Any]) -> None:
    compare(operands(*SHAPES), **options)
    compare(operands((5, 16), (7, 16), (7, 4)), **options)


def test_attention__masks_of_bools() -> None:
    mask = torch.rand(2, 1, 5, 7) > 0.4
    mask[0, 0, 2], mask[1, 0, 3] = False, True
    compare(operands(*SHAPES), attn_mask=mask)
    query, key, value = operands(*SHAPES)
    output = ops.scaled_dot_product_attention(query, key, value, mask)
    assert not output[0, :, 2].any()  # it sees no key
    output.sum().backward()
    assert all(t.grad is not None and t.grad.isfinite().all() for t in (query, key, value))


def test_attention__heads_that_share_keys() -> None:
    tensors = operands((2, 6, 5, 8), (2, 3, 7, 8), (2, 3, 7, 4))
    for options in ({}, {"is_causal": True}, {"attn_mask": torch.randn(2, 6, 5, 7)}):
        compare(tensors, enable_gqa=True, **options)
    repeated = [tensors[0], *(t.repeat_interleave(2, 1) for t in tensors[1:])]
    assert torch.equal(
        ops.scaled_dot_product_attention(*tensors, enable_gqa=True), ops.scaled_dot_product_attention(*repeated)
    )


def test_attention__does_not_depend_on_the_batch() -> None:
    tensors = operands((4, 3, 33, 16), (4, 3, 65, 16), (4, 3, 65, 20))
    whole = ops.scaled_dot_product_attention(*tensors, is_causal=True)
    for i in range(4):
        assert torch.equal(whole[i], ops.scaled_dot_product_attention(*(t[i] for t in tensors), is_causal=True))


def test_attention__dropout() -> None:
    tensors = operands((2, 3, 16, 8), (2, 3, 32, 8), (2, 3, 32, 4))
    generator = repdl.random.Generator(1)
    first = ops.scaled_dot_product_attention(*tensors, dropout_p=0.5, generator=generator)
    second = ops.scaled_dot_product_attention(*tensors, dropout_p=0.5, generator=generator)
    assert not torch.equal(first, second)
    generator.manual_seed(1)
    again = ops.scaled_dot_product_attention(*tensors, dropout_p=0.5, generator=generator)
    assert torch.equal(first, again)
    grads = [torch.autograd.grad(out.sum(), tensors) for out in (first, again)]
    assert all(torch.equal(a, b) for a, b in zip(*grads))
    assert not ops.scaled_dot_product_attention(*tensors, dropout_p=1.0, generator=generator).any()


def test_attention__autocast_and_halves() -> None:
    tensors = operands(*SHAPES)
    with torch.autocast("cpu", torch.bfloat16):
        assert ops.scaled_dot_product_attention(*tensors).dtype is torch.bfloat16
    halves = [t.bfloat16() for t in tensors]
    wide = ops.scaled_dot_product_attention(*(t.float() for t in halves))
    assert torch.equal(ops.scaled_dot_product_attention(*halves), wide.bfloat16())


def test_attention__compiles() -> None:
    tensors = operands(*SHAPES)
    compiled = torch.compile(ops.scaled_dot_product_attention, backend="aot_eager", fullgraph=True)
    assert torch.equal(compiled(*tensors, is_causal=True), ops.scaled_dot_product_attention(*tensors, is_causal=True))


@pytest.mark.parametrize(
    ("shapes", "options", "error", "message"),
    [
        (((2, 5, 8), (2, 7, 9), (2, 7, 4)), {}, ShapeError, "key.shape"),
        (((2, 5, 8), (2, 7, 8), (2, 6, 4)), {}, ShapeError, "value.shape"),
        (((2, 5, 8), (3, 7, 8), (3, 7, 4)), {}, ShapeError, "do not broadcast"),
        (((8,), (7, 8), (7, 4)), {}, ShapeError, "query.dim"),
        (((2, 5, 8), (2, 7, 8), (2, 7, 4)), {"attn_mask": torch.zeros(5, 6)}, ShapeError, "attn_mask.shape"),
        (((2, 5, 8), (2, 7, 8), (2, 7, 4)), {"attn_mask": torch.zeros(5, 7).int()}, DTypeError, "attn_mask"),
        (((5, 5, 8), (2, 7, 8), (2, 7, 4)), {"enable_gqa": True}, ShapeError, "multiple of"),
        (((5, 8), (7, 8), (7, 4)), {"enable_gqa": True}, ShapeError, "2-D"),
        (((5, 8), (7, 8), (7, 4)), {"dropout_p": 1.5}, OutOfRangeError, "dropout_p"),
        (((5, 8), (7, 8), (6, 4)), {"dropout_p": 0.5}, ShapeError, "value.shape"),
        (
            ((5, 8), (7, 8), (7, 4)),
            {"attn_mask": torch.zeros(5, 7), "is_causal": True},
            UnsupportedError,
            "expected one of them",
        ),
    ],
)
def test_attention__bad_arguments(shapes: Any, options: Any, error: type[Exception], message: str) -> None:
    tensors = operands(*shapes)
    state = repdl.random.default_generator.get_state()
    with pytest.raises(error, match=message):
        ops.scaled_dot_product_attention(*tensors, **options)
    with pytest.raises(DTypeError):
        ops.scaled_dot_product_attention(*(t.double() for t in operands(*SHAPES)))
    assert torch.equal(repdl.random.default_generator.get_state(), state)
