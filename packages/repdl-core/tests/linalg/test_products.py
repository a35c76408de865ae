"""What is particular to products of matrices and vectors, einsum and differences: order, equations, errors."""

from __future__ import annotations

from typing import Any

import pytest
import torch

from repdl import ops
from repdl.errors import ArgumentError, UnsupportedError
from repdl.testing import assert_same_bits, uniform
from repdl.testing.oracle import assert_rejected

EQUATIONS: list[tuple[str, list[tuple[int, ...]]]] = [
    ("ij,jk->ik", [(3, 4), (4, 5)]),
    ("bij,bjk", [(2, 3, 4), (2, 4, 5)]),
    ("ij,kj->ki", [(3, 4), (5, 4)]),
    ("i,j->ij", [(3,), (4,)]),
    ("ii->i", [(4, 4)]),
    ("ii", [(4, 4)]),
    ("ijk->kji", [(2, 3, 4)]),
    ("ij->j", [(3, 4)]),
    ("ij,ij->", [(3, 4), (3, 4)]),
    ("...ij,...jk->...ik", [(2, 1, 3, 4), (5, 4, 6)]),
    ("i...->...", [(3, 4, 5)]),
    ("bhid,bhjd->bhij", [(2, 3, 4, 5), (2, 3, 6, 5)]),
    ("aij,bj,kb->aik", [(2, 3, 4), (5, 4), (6, 5)]),
    ("ij,jk,kl,lm->im", [(2, 3), (3, 4), (4, 5), (5, 6)]),
    ("iijj->ij", [(3, 3, 2, 2)]),
    ("ij,jk->", [(3, 4), (4, 5)]),
    ("ab,cd->dbca", [(2, 3), (4, 5)]),
    ("ij,ij->ij", [(3, 1), (3, 4)]),
    ("ij,jk->ik", [(3, 1), (4, 5)]),
    (",i->i", [(), (3,)]),
    ("Ab,bA->", [(3, 4), (4, 3)]),
    ("ij,jk->ik", [(3, 0), (0, 5)]),
    (" i j , j k -> i k ", [(3, 4), (4, 5)]),
]


@pytest.mark.parametrize("equation, shapes", EQUATIONS)
def test_einsum__near_torch_in_float64(equation: str, shapes: list[tuple[int, ...]]) -> None:
    """At most 60 terms of magnitude up to 1, and three operands: 64 roundings of at most 60."""
    operands = [uniform(1 + i, *shape).requires_grad_() for i, shape in enumerate(shapes)]
    doubles = [t.detach().double().requires_grad_() for t in operands]
    actual, exact = ops.einsum(equation, *operands), torch.einsum(equation, *doubles)
    assert actual.shape == exact.shape
    bound = 64 * 60 * 2.0**-24
    assert ((actual - exact).abs() <= bound).all()
    grads = [
        torch.autograd.grad(out, given, torch.linspace(-1, 1, out.numel()).reshape(out.shape).to(out.dtype))
        for out, given in ((actual, operands), (exact, doubles))
    ]
    for a, e in zip(*grads):
        assert ((a - e).abs() <= bound).all()
    assert_same_bits(ops.einsum(equation, [t.detach() for t in operands]), actual.detach())


def test_einsum__is_the_product_that_it_says() -> None:
    a, b = uniform(1, 2, 3, 300), uniform(2, 2, 300, 5)
    assert_same_bits(ops.einsum("bij,bjk->bik", a, b), ops.bmm(a, b))
    assert_same_bits(ops.einsum("bij,bkj->bik", a, b.transpose(1, 2).contiguous()), ops.bmm(a, b))
    # k runs over the labels alphabetically, whatever their order in the operands.
    x, y = uniform(1, 4, 20, 30), uniform(2, 30, 20)
    flat = ops.mv(x.reshape(4, 600), y.t().reshape(600))
    assert_same_bits(ops.einsum("ijk,kj->i", x, y), flat)
    assert_same_bits(ops.einsum("ikj,jk->i", x, y), ops.mv(x.permute(0, 2, 1).reshape(4, 600), y.reshape(600)))
    # From left to right, also where another order would take fewer multiplications.
    u, v, w = uniform(1, 3, 40), uniform(2, 40, 50), uniform(3, 50, 2)
    assert_same_bits(ops.einsum("ij,jk,kl->il", u, v, w), ops.mm(ops.mm(u, v), w))


def test_einsum__labels_in_lists() -> None:
    a, b = uniform(1, 3, 4), uniform(2, 4, 5)
    assert_same_bits(ops.einsum(a, [0, 1], b, [1, 2], [0, 2]), ops.mm(a, b))
    assert_same_bits(ops.einsum(a, [0, 1], b, [1, 2]), ops.mm(a, b))
    assert_same_bits(ops.einsum(a, [..., 1], b, [1, 2], [..., 2]), ops.mm(a, b))


@pytest.mark.parametrize(
    "equation, shapes",
    [
        ("ij,jk->ik", [(3, 4), (5, 6)]),
        ("ij->ij", [(3,)]),
        ("ij->k", [(3, 4)]),
        ("ij->ii", [(3, 4)]),
        ("ij,jk->ik", [(3, 4)]),
        ("i1->i", [(3, 4)]),
        ("......i", [(3, 4)]),
        ("ii", [(3, 4)]),
        ("i.j->i", [(3, 4)]),
    ],
)
def test_einsum__rejects(equation: str, shapes: list[tuple[int, ...]]) -> None:
    operands = [uniform(1, *shape) for shape in shapes]
    assert_rejected(
        lambda: ops.einsum(equation, *operands),
        ValueError,
        "einsum",
        by_torch=lambda: torch.einsum(equation, *operands),
    )
    assert_rejected(lambda: ops.einsum(3, *operands), TypeError, "einsum: equation")
    assert_rejected(lambda: ops.einsum("ij", 3), TypeError, "einsum: operand 0")


def test_products__are_those_of_their_texts() -> None:
    a, b, c = uniform(1, 3, 4, 300), uniform(2, 3, 300, 5), uniform(3, 4, 5)
    v, w = uniform(4, 300), uniform(5, 4)
    for beta, alpha in ((1, 1), (0, 1), (0.5, -2)):
        options: dict[str, Any] = {"beta": beta, "alpha": alpha}
        whole = ops.baddbmm(c, a, b, **options)
        for i in range(3):
            assert_same_bits(whole[i], ops.addmm(c, a[i], b[i], **options))
        flat = ops.addmm(c, a.transpose(0, 1).reshape(4, 900), b.reshape(900, 5), **options)
        assert_same_bits(ops.addbmm(c, a, b, **options), flat)
        assert_same_bits(ops.addmv(w, a[0], v, **options), ops.addmm(w[:, None], a[0], v[:, None], **options)[:, 0])
        assert_same_bits(ops.addr(c, w, c[0], **options), ops.addmm(c, w[:, None], c[:1], **options))
    assert_same_bits(ops.mv(a[0], v), ops.matmul(a[0], v))
    for function in (ops.dot, ops.vdot, ops.inner):
        assert_same_bits(function(v, v), ops.matmul(v, v))
    assert_same_bits(ops.inner(a, a[0]), ops.matmul(a, a[0].t()))
    assert_same_bits(ops.tensordot(a, b, 0).reshape(3 * 4 * 300, -1)[:2], ops.outer(a.reshape(-1)[:2], b.reshape(-1)))
    assert_same_bits(ops.tensordot(a, b, ([2], [1])), ops.einsum("aij,bjk->aibk", a, b))
    assert_same_bits(ops.tensordot(a, b.permute(1, 0, 2), 1), ops.einsum("aij,jbk->aibk", a, b.permute(1, 0, 2)))
    assert_same_bits(ops.trace(a[0]), ops.sum(a[0].diagonal()))
    assert ops.trace(torch.eye(3, dtype=torch.int32)).item() == 3


def test_multi_dot__takes_fewest_multiplications() -> None:
    a, b, c = uniform(1, 10, 100), uniform(2, 100, 5), uniform(3, 5, 50)
    assert_same_bits(ops.multi_dot([a, b, c]), ops.mm(ops.mm(a, b), c))  # 7500 against 75000
    assert_same_bits(ops.multi_dot([c.t(), b.t(), a.t()]), ops.mm(c.t(), ops.mm(b.t(), a.t())))
    assert_same_bits(ops.chain_matmul(a, b, c), ops.multi_dot([a, b, c]))
    assert ops.multi_dot([a[0], b, c[:, 0]]).shape == () and ops.multi_dot([a[0], b]).shape == (5,)
    assert ops.chain_matmul(a) is a
    assert_rejected(lambda: ops.multi_dot([a]), ValueError, "multi_dot", by_torch=lambda: torch.linalg.multi_dot([a]))
    assert_rejected(lambda: ops.multi_dot([a, c]), ValueError, "tensors[1].shape[0]")


def test_products__reject() -> None:
    a, b, v = uniform(1, 2, 3, 4), uniform(2, 2, 5, 4), uniform(3, 4)
    calls = {
        "baddbmm": (a[0], a, b),
        "addbmm": (a[0], a, b),
        "addmv": (v, a, v),
        "addr": (v, a[0], v),
        "mv": (a[0], v[:2]),
        "dot": (v, v[:2]),
        "vdot": (a[0], v),
        "inner": (a, v[:3]),
        "outer": (a[0], v),
        "tensordot": (a, b, 1),
        "cross": (v, v, 0),
        "trace": (v,),
        "diff": (torch.tensor(1.0),),
        "kron": (1.0, v),
    }
    for name, args in calls.items():
        ours, theirs = getattr(ops, name), getattr(torch, name)
        kind = TypeError if name == "kron" else ValueError
        assert_rejected(lambda: ours(*args), kind, name, by_torch=lambda: theirs(*args))
    # As with addmm: what broadcasts is input, never the result.
    assert_rejected(lambda: ops.addmv(uniform(1, 2, 3), a[0], v), ValueError, "addmv: input.shape is (2, 3)")


def test_diff_and_cross_and_kron__are_their_formulas() -> None:
    x, y = uniform(1, 4, 3), uniform(2, 4, 3)
    assert_same_bits(ops.diff(x, 2, 0), ops.sub(ops.sub(x[2:], x[1:-1]), ops.sub(x[1:-1], x[:-2])))
    assert_same_bits(ops.diff(x, prepend=y, append=y[:, :1]), ops.diff(torch.cat([y, x, y[:, :1]], 1)))
    assert ops.diff(x, 9).shape == (4, 0) and ops.diff(torch.tensor([True, False])).tolist() == [True]
    first = ops.sub(ops.mul(x[:, 1], y[:, 2]), ops.mul(x[:, 2], y[:, 1]))
    assert_same_bits(ops.cross(x, y)[:, 0], first)
    assert_same_bits(ops.cross(x.t(), y.t())[0], first)
    assert_same_bits(ops.kron(x, y[:2, :2])[2:4, 2:4], ops.mul(x[1, 1], y[:2, :2]))
    for function in (ops.cross, ops.kron):
        assert torch.autograd.gradcheck(function, (x.double().requires_grad_(), y.double().requires_grad_()))


def test_nansum__is_the_sum_of_the_others() -> None:
    x = torch.tensor([[1.0, float("nan"), 2.5], [float("nan")] * 3, [float("inf"), 1.0, float("nan")]])
    leaf = x.clone().requires_grad_()
    assert ops.nansum(x, 1).tolist() == [3.5, 0.0, float("inf")]
    means = ops.nanmean(leaf, 1)
    assert means[0].item() == 1.75 and means[1].isnan() and means[2].isinf()
    (grad,) = torch.autograd.grad(means, leaf, torch.ones(3))
    assert grad[0].tolist() == [0.5, 0.0, 0.5] and ops.nansum(torch.tensor([1, 2])).item() == 3


OFFS = {"rows": ([2, 2, 8], (11, 300), (3, 300, 5)), "columns": ([0, 7, 9], (3, 4, 300), (300, 9))}
OFFS |= {"sums": ([10, 290, 291], (4, 300), (300, 5))}


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64, torch.bfloat16])
@pytest.mark.parametrize("kind", OFFS)
def test_grouped_mm__is_products_of_the_groups(kind: str, dtype: torch.dtype) -> None:
    ends, *shapes = OFFS[kind]
    pair = [uniform(1 + i, *shape).to(dtype).requires_grad_() for i, shape in enumerate(shapes)]
    a, b = copies = [t.detach().clone().requires_grad_() for t in pair]
    output = ops.grouped_mm(*pair, offs=torch.tensor(ends, dtype=torch.int32))
    parts = [slice(x, y) for x, y in zip([0, *ends], ends)]
    if kind == "rows":
        wanted = torch.cat([*(ops.mm(a[part], b[g]) for g, part in enumerate(parts)), a.new_zeros(3, 5)])
    elif kind == "columns":
        wanted = torch.cat([ops.mm(a[g], b[:, part]) for g, part in enumerate(parts)], 1)
    else:
        wanted = torch.stack([ops.mm(a[:, part], b[part]) for part in parts])
    assert_same_bits(output.detach(), wanted.detach())
    grad = uniform(3, *output.shape).to(dtype)
    for got, expected in zip(torch.autograd.grad(output, pair, grad), torch.autograd.grad(wanted, copies, grad)):
        assert_same_bits(got, expected)


def test_grouped_mm__keeps_its_dtype_under_autocast() -> None:
    a, b, offs = uniform(1, 6, 4), uniform(2, 2, 4, 5), torch.tensor([2, 6])
    with torch.autocast("cpu", torch.bfloat16):
        groups, batches = ops.grouped_mm(a, b, offs=offs), ops.grouped_mm(a.view(2, 3, 4), b)
    assert_same_bits(groups, torch.cat([ops.mm(a[:2], b[0]), ops.mm(a[2:], b[1])]))
    assert_same_bits(batches, ops.bmm(a.view(2, 3, 4), b))


def test_grouped_mm__rejects() -> None:
    a, b = uniform(1, 6, 4), uniform(2, 2, 4, 5)
    offs = torch.tensor([2, 6], dtype=torch.int32)
    assert ops.grouped_mm(a, uniform(1, 4, 3), offs=offs[:0]).shape == (0, 6, 3)
    for message, error, arguments, options in (
        ("offs is None", ArgumentError, (a, b), {}),
        ("offs is given", ArgumentError, (a.view(2, 3, 4), b), {"offs": offs}),
        ("offs is [2, 7]", IndexError, (a, b), {"offs": torch.tensor([2, 7])}),
        ("offs is [3, 2]", IndexError, (a, b), {"offs": torch.tensor([3, 2])}),
        ("offs is [-1, 2]", IndexError, (a, b), {"offs": torch.tensor([-1, 2])}),
        ("offs.shape[0] is 1", ValueError, (a, b), {"offs": offs[:1]}),
        ("offs.dtype", TypeError, (a, b), {"offs": offs.float()}),
        ("mat_b.shape[-2]", ValueError, (a, b[:, :3]), {"offs": offs}),
        ("mat_b.shape[0]", ValueError, (a.view(2, 3, 4), b[:1]), {}),
        ("mat_a.dim() is 1", ValueError, (a[0], b), {"offs": offs}),
        ("out_dtype", TypeError, (a, b), {"offs": offs, "out_dtype": torch.float64}),
        ("mat2.dtype", TypeError, (a, b.double()), {"offs": offs}),
        ("bias is given", UnsupportedError, (a, b), {"offs": offs, "bias": b}),
    ):
        with pytest.raises(error) as raised:
            ops.grouped_mm(*arguments, **options)
        assert message in str(raised.value), str(raised.value)
