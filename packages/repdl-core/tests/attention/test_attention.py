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


@pytest.mark.parametrize("rows", [5, 12])
@pytest.mark.parametrize("shape", [(2, 1, 7, 8), (1, 4, 7, 8), (7, 8)])
def test_attention__keys_broadcast(rows: int, shape: tuple[int, ...]) -> None:
    """Leading dimensions, heads too, whatever route the number of queries takes."""
    tensors = operands((2, 4, rows, 8), shape, shape)
    whole = [tensors[0], *(t.expand(2, 4, 7, 8) for t in tensors[1:])]
    for options in ({}, {"attn_mask": torch.randn(2, 1, rows, 7)}):
        compare(tensors, **options)
        by_whole = ops.scaled_dot_product_attention(*whole, **options)
        assert torch.equal(ops.scaled_dot_product_attention(*tensors, **options), by_whole)


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
        ops.scaled_dot_product_attention(*(t.to(torch.complex64) for t in operands(*SHAPES)))
    assert torch.equal(repdl.random.default_generator.get_state(), state)


LENGTHS = (9, 55, 56, 57, 255, 256, 257, 511, 513, 1023, 1025, 1100)


@pytest.mark.parametrize("size", [16, 64])
def test_attention__a_query_has_the_same_bits_whatever_comes_after_it(size: int) -> None:
    """One pass over a sequence, causal; a token at a time with the keys before it; and pieces of it."""
    query, key, value = (t.detach() for t in operands((1, 2, 1100, size), (1, 2, 1100, size), (1, 2, 1100, 24)))
    whole = ops.scaled_dot_product_attention(query, key, value, is_causal=True)
    for n in LENGTHS:
        one = ops.scaled_dot_product_attention(query[:, :, n - 1 : n], key[:, :, :n], value[:, :, :n])
        assert torch.equal(one, whole[:, :, n - 1 : n])
        shorter = ops.scaled_dot_product_attention(*(t[:, :, :n] for t in (query, key, value)), is_causal=True)
        assert torch.equal(shorter, whole[:, :, :n])
        first = max(0, n - 70)  # a piece of a prompt, with a mask of bools and with one that is added
        seen = torch.arange(n) <= torch.arange(first, n).unsqueeze(1)
        for mask in (seen, torch.where(seen, 0.0, -torch.inf)):
            piece = ops.scaled_dot_product_attention(query[:, :, first:n], key[:, :, :n], value[:, :, :n], mask)
            assert torch.equal(piece, whole[:, :, first:n])
        padded = torch.ones(1, 1, 1, 1100, dtype=torch.bool)
        padded[..., n:] = False
        assert torch.equal(ops.scaled_dot_product_attention(query[:, :, n - 1 : n], key, value, padded), one)


def test_attention__what_is_not_seen_may_not_be_infinite() -> None:
    """The product of +0 and an infinity is NaN: a value that no query sees reaches all of them."""
    query, key, value = (t.detach() for t in operands((1, 1, 20, 8), (1, 1, 20, 8), (1, 1, 20, 8)))
    before = ops.scaled_dot_product_attention(query, key, value, is_causal=True)
    value[..., 19, 0] = torch.inf
    after = ops.scaled_dot_product_attention(query, key, value, is_causal=True)
    assert after[..., 0].isnan()[..., :19].all() and torch.equal(after[..., :19, 1:], before[..., :19, 1:])
    value[..., 19, 0], key[..., 19, 0] = 0.0, torch.inf  # a key that is not seen is as if it were not there
    assert torch.equal(
        ops.scaled_dot_product_attention(query, key, value, is_causal=True)[..., :19, :], before[..., :19, :]
    )


@pytest.mark.parametrize("options", [{}, {"is_causal": True}, {"attn_mask": torch.rand(12, 15) > 0.2}])
def test_attention__second_derivatives(options: dict[str, Any]) -> None:
    tensors = operands((1, 2, 12, 4), (1, 2, 15, 4), (1, 2, 15, 3))
    wide = [t.detach().double().requires_grad_() for t in tensors]

    def second(function: Any, given: list[torch.Tensor]) -> tuple[torch.Tensor, ...]:
        output = function(*given, **options)
        first = torch.autograd.grad(output.square().sum(), given, create_graph=True)
        total = sum((g.square().sum() for g in first), torch.zeros(()))
        return torch.autograd.grad(total, given)

    with torch.nn.attention.sdpa_kernel(torch.nn.attention.SDPBackend.MATH):
        expected = second(F.scaled_dot_product_attention, wide)
    for actual, exact in zip(second(ops.scaled_dot_product_attention, tensors), expected):
        assert (actual - exact).abs().max() <= 2.0**-18 * exact.abs().max()


def test_attention__third_derivatives() -> None:
    """The derivative of a formula that is the derivative of an op."""
    tensors = operands((1, 2, 12, 4), (1, 2, 15, 4), (1, 2, 15, 3))
    wide = [t.detach().double().requires_grad_() for t in tensors]

    def third(function: Any, given: list[torch.Tensor]) -> tuple[torch.Tensor, ...]:
        found: Any = [function(*given)]
        for again in (True, True, False):
            found = torch.autograd.grad(sum(t.square().sum() for t in found), given, create_graph=again)
        return found  # type: ignore[no-any-return]

    with torch.nn.attention.sdpa_kernel(torch.nn.attention.SDPBackend.MATH):
        expected = third(F.scaled_dot_product_attention, wide)
    for actual, exact in zip(third(ops.scaled_dot_product_attention, tensors), expected):
        assert (actual - exact).abs().max() <= 2.0**-14 * exact.abs().max()


def test_attention__an_added_mask_has_a_gradient() -> None:
    tensors = operands((2, 2, 12, 4), (2, 2, 15, 4), (2, 2, 15, 3))
    bias = torch.randn(2, 1, 12, 15, requires_grad=True)
    wide = [t.detach().double().requires_grad_() for t in (*tensors, bias)]
    output = ops.scaled_dot_product_attention(*tensors, bias)
    expected = F.scaled_dot_product_attention(*wide)
    grad = torch.randn(output.shape)
    grads = torch.autograd.grad(output, [*tensors, bias], grad)
    for a, e in zip(grads, torch.autograd.grad(expected, wide, grad.double())):
        assert (a.double() - e).abs().max() <= 8 * BOUND
    for a, e in zip(
        grads, torch.autograd.grad(ops.scaled_dot_product_attention(*tensors, bias.detach()), tensors, grad)
    ):
        assert torch.equal(a, e)


KINDS: dict[str, dict[str, Any]] = {
    "plain": {},
    "causal": {"is_causal": True},
    "mask": {"attn_mask": torch.arange(12 * 15).view(12, 15) % 4 > 0},
    "bias": {"attn_mask": torch.linspace(-1, 1, 2 * 12 * 15).view(2, 1, 12, 15).requires_grad_()},
    "a bias for all": {"attn_mask": torch.linspace(-1, 1, 15).requires_grad_()},
}


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
@pytest.mark.parametrize("name", KINDS)
def test_attention__dropout_in_one_op(name: str, dtype: torch.dtype) -> None:
    """Output, gradients and those of gradients are the formula's, which has an op for each step."""
    options = {k: v.detach().to(dtype).requires_grad_() if k == "attn_mask" and name[-4:] != "mask" else v
               for k, v in KINDS[name].items()}  # fmt: skip
    given = [t.detach().to(dtype).requires_grad_() for t in operands((2, 2, 12, 4), (2, 2, 15, 4), (2, 2, 15, 20))]
    tensors = [*given, *(t for t in options.values() if isinstance(t, torch.Tensor) and t.requires_grad)]

    def run(shape: tuple[int, ...]) -> list[torch.Tensor]:
        generator = repdl.random.Generator(7)
        batched = [t.reshape(*shape, *t.shape[-2:]) for t in given]
        more = {k: v.expand(2, 2, 12, 15).reshape(*shape, 12, 15) if torch.is_tensor(v) and len(shape) == 3 else v
                for k, v in options.items()}  # fmt: skip
        output = ops.scaled_dot_product_attention(*batched, dropout_p=0.3, generator=generator, **more)
        output = output.reshape(2, 2, 12, 20)
        first = torch.autograd.grad(ops.sum(ops.square(output)), tensors, create_graph=True)
        return [output, *first, *torch.autograd.grad(ops.sum(ops.square(first[0])), tensors, allow_unused=True)]

    whole = run((2, 2))
    with repdl.use_backend("reference"):
        expected = run((2, 2))
    assert all(torch.equal(a, e) for a, e in zip(whole, expected) if e is not None)
    if name in ("plain", "causal", "mask"):  # five dimensions are the formula
        assert all(torch.equal(a, e) for a, e in zip(whole[:4], run((2, 1, 2))))


def test_attention__one_kind_of_mask() -> None:
    query, key, value = (t.detach() for t in operands((1, 2, 12, 4), (1, 2, 15, 4), (1, 2, 15, 3)))
    bias, mask = torch.zeros(1, 1, 1, 15), torch.ones(1, 1, 1, 15, dtype=torch.bool)
    rest = None, torch.tensor(0.5), 0.0
    for given, wrong in (
        ("bias and mask", (bias, mask, *rest, False)),
        ("bias and is_causal", (bias, None, *rest, True)),
        ("mask and is_causal", (None, mask, *rest, True)),
    ):
        with pytest.raises(ShapeError, match=f"attention: {given} are given, expected one of them"):
            torch.ops.repdl.attention(query, key, value, *wrong, 12, "v1")
    mask[..., 3] = False
    both = torch.ops.repdl.scaled_dot_product_attention(
        query, key, value, bias, mask, None, 0.0, False, None, False, "v1"
    )
    assert torch.equal(both, ops.scaled_dot_product_attention(query, key, value, mask))
    grad = torch.ones(1, 2, 12, 3)
    with pytest.raises(ShapeError, match="bias is None"):
        torch.ops.repdl.attention_backward_bias(grad, query, key, value, None, None, *rest, False, 12, "v1")


def test_attention__dropout_under_transforms() -> None:
    tensors = [t.detach() for t in operands((3, 2, 12, 4), (3, 2, 15, 4), (3, 2, 15, 3))]

    def one(*tensors: torch.Tensor) -> torch.Tensor:
        return ops.scaled_dot_product_attention(*tensors, dropout_p=0.5, generator=repdl.random.Generator(1))

    several = torch.func.vmap(one, randomness="same")(*tensors)
    assert all(torch.equal(several[i], one(*(t[i] for t in tensors))) for i in range(3))


def test_attention__transforms() -> None:
    query, key, value = (t.detach() for t in operands((3, 2, 12, 4), (3, 2, 15, 4), (3, 2, 15, 3)))

    def loss(query: torch.Tensor, key: torch.Tensor, value: torch.Tensor) -> torch.Tensor:
        return ops.sum(ops.square(ops.scaled_dot_product_attention(query, key, value, is_causal=True)))

    grads = torch.func.vmap(torch.func.grad(loss))(query, key, value)
    for i in range(3):
        one = query[i].clone().requires_grad_()
        (expected,) = torch.autograd.grad(loss(one, key[i], value[i]), one)
        assert torch.equal(grads[i], expected)


def test_attention__a_backend_without_a_kernel_computes_the_formula() -> None:
    tensors = [t.detach() for t in operands((1, 2, 12, 4), (1, 2, 15, 4), (1, 2, 15, 3))]
    expected = ops.scaled_dot_product_attention(*tensors, is_causal=True)
    assert "attention" not in repdl.registry.backend.get_backend("reference").ops
    with repdl.use_backend("reference"):
        assert torch.equal(ops.scaled_dot_product_attention(*tensors, is_causal=True), expected)
