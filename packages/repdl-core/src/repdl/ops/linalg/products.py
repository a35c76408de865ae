"""Products of matrices and vectors: views of those of `matmul` and `addmm`, and of `mul`."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from itertools import pairwise

import torch
from torch import Tensor

from repdl.callcache import do_not_cache
from repdl.contract import ContractLike
from repdl.dtypes import ALL
from repdl.errors import ArgumentError, check, check_broadcasts_to, check_dim, check_size, check_tensor
from repdl.ops.common import narrowed, normalize_dim, widened
from repdl.ops.declare import public
from repdl.ops.linalg.addmm import added
from repdl.ops.pointwise.elementwise import operands
from repdl.registry import as_int, as_ints, computes, functions as _ops
from repdl.tensors.layout import broadcast_shapes

__all__ = [
    "addbmm",
    "addmv",
    "addr",
    "baddbmm",
    "chain_matmul",
    "cross",
    "dot",
    "inner",
    "kron",
    "multi_dot",
    "mv",
    "outer",
    "tensordot",
    "trace",
    "vdot",
]


@public("addmm")
def baddbmm(
    input: Tensor, batch1: Tensor, batch2: Tensor, *, beta: float = 1, alpha: float = 1, contract: ContractLike = None
) -> Tensor:
    """`beta * input + alpha * (batch1 @ batch2)`: `(B, M, K) @ (B, K, N) -> (B, M, N)`, any floating-point dtype.

    `addmm` of each pair of matrices; `input` broadcasts. With beta = 0 it is not read.

    Raises:
        ShapeError: if a batch is not 3-D, sizes differ, or `input` does not broadcast to the result.
    """
    op = "baddbmm"
    check_dim(op, 3, batch1=batch1, batch2=batch2)
    check_size(op, "batch2.shape[:2]", batch2.shape[:2], (batch1.shape[0], batch1.shape[2]), "those of batch1")
    check_broadcasts_to(op, (*batch1.shape[:2], batch2.shape[2]), input=input)
    return added(op, input, batch1, batch2, beta, alpha, contract)


@public("addmm")
def addbmm(
    input: Tensor, batch1: Tensor, batch2: Tensor, *, beta: float = 1, alpha: float = 1, contract: ContractLike = None
) -> Tensor:
    """`beta * input + alpha * sum(batch1[b] @ batch2[b])`: `(B, M, K) @ (B, K, N) -> (M, N)`, any floating-point dtype.

    `addmm` of one product over (b, k), in row-major order; `input` broadcasts. With beta = 0 it is not read.

    Raises:
        ShapeError: if a batch is not 3-D, sizes differ, or `input` does not broadcast to (M, N).
    """
    op = "addbmm"
    check_dim(op, 3, batch1=batch1, batch2=batch2)
    check_size(op, "batch2.shape[:2]", batch2.shape[:2], (batch1.shape[0], batch1.shape[2]), "those of batch1")
    b, m, k = batch1.shape
    check_broadcasts_to(op, (m, batch2.shape[2]), input=input)
    left, right = batch1.transpose(0, 1).reshape(m, b * k), batch2.reshape(b * k, batch2.shape[2])
    return added(op, input, left, right, beta, alpha, contract)


@public("addmm")
def addmv(
    input: Tensor, mat: Tensor, vec: Tensor, *, beta: float = 1, alpha: float = 1, contract: ContractLike = None
) -> Tensor:
    """`beta * input + alpha * (mat @ vec)`: `(M, K) @ (K) -> (M)`, any floating-point dtype.

    `addmm` of one column; `input` broadcasts to (M). With beta = 0 it is not read.

    Raises:
        ShapeError: if `mat` is not 2-D or `vec` not 1-D, sizes differ, or `input` does not broadcast to (M).
    """
    op = "addmv"
    check_dim(op, 2, mat=mat)
    check_dim(op, 1, vec=vec)
    check_size(op, "vec.shape[0]", vec.shape[0], mat.shape[1], "mat.shape[1]")
    check_broadcasts_to(op, mat.shape[:1], input=input)
    return added(op, input.unsqueeze(-1), mat, vec.unsqueeze(1), beta, alpha, contract).squeeze(1)


@public("addmm")
def addr(
    input: Tensor, vec1: Tensor, vec2: Tensor, *, beta: float = 1, alpha: float = 1, contract: ContractLike = None
) -> Tensor:
    """`beta * input + alpha * outer(vec1, vec2)`: `(M), (N) -> (M, N)`, any floating-point dtype.

    `addmm` of a column and a row; `input` broadcasts to (M, N). With beta = 0 it is not read.

    Raises:
        ShapeError: if a vector is not 1-D, or `input` does not broadcast to (M, N).
    """
    op = "addr"
    check_dim(op, 1, vec1=vec1, vec2=vec2)
    check_broadcasts_to(op, (vec1.shape[0], vec2.shape[0]), input=input)
    return added(op, input, vec1.unsqueeze(1), vec2.unsqueeze(0), beta, alpha, contract)


@public("matmul")
def mv(input: Tensor, vec: Tensor, *, contract: ContractLike = None) -> Tensor:
    """Matrix times vector, `(M, K) @ (K) -> (M)`, any floating-point dtype.

    Raises:
        ShapeError: if `input` is not 2-D or `vec` not 1-D, or the sizes differ.
    """
    check_dim("mv", 2, input=input)
    check_dim("mv", 1, vec=vec)
    check_size("mv", "vec.shape[0]", vec.shape[0], input.shape[1], "input.shape[1]")
    return _ops.matmul(input, vec.unsqueeze(1), False, False, contract).squeeze(1)


def _dot(op: str, a: Tensor, b: Tensor, name: str, contract: str) -> Tensor:
    check_dim(op, 1, input=a, **{name: b})
    check_size(op, f"{name}.shape[0]", b.shape[0], a.shape[0], "input.shape[0]")
    return _ops.matmul(a.unsqueeze(0), b.unsqueeze(1), False, False, contract).reshape(())


@public("matmul")
def dot(input: Tensor, tensor: Tensor, *, contract: ContractLike = None) -> Tensor:
    """Dot product of two vectors, `(K), (K) -> ()`, any floating-point dtype.

    Raises:
        ShapeError: if an operand is not 1-D, or the sizes differ.
    """
    return _dot("dot", input, tensor, "tensor", contract)


@public("matmul")
def vdot(input: Tensor, other: Tensor, *, contract: ContractLike = None) -> Tensor:
    """`dot` of two vectors of real numbers, `(K), (K) -> ()`, any floating-point dtype.

    Raises:
        ShapeError: if an operand is not 1-D, or the sizes differ.
    """
    return _dot("vdot", input, other, "other", contract)


def _contracted(a: Tensor, b: Tensor, dims_a: Sequence[int], dims_b: Sequence[int], contract: str) -> Tensor:
    """The products over these dimensions, in their order: `(rest of a, rest of b)`."""
    rest_a = [d for d in range(a.dim()) if d not in dims_a]
    rest_b = [d for d in range(b.dim()) if d not in dims_b]
    shape = [*(a.shape[d] for d in rest_a), *(b.shape[d] for d in rest_b)]
    k = torch.Size([a.shape[d] for d in dims_a]).numel()
    m, n = (torch.Size([t.shape[d] for d in rest]).numel() for t, rest in ((a, rest_a), (b, rest_b)))
    left, right = a.permute([*rest_a, *dims_a]).reshape(m, k), b.permute([*dims_b, *rest_b]).reshape(k, n)
    return _ops.matmul(left, right, False, False, contract).reshape(shape)


@public("matmul")
def inner(input: Tensor, other: Tensor, *, contract: ContractLike = None) -> Tensor:
    """Dot products over the last dimensions, `(..., K), (+++, K) -> (..., +++)`; `mul` if an operand is 0-D.

    Raises:
        ShapeError: if the last dimensions differ.
    """
    if input.dim() == 0 or other.dim() == 0:
        return _ops.mul(input, other, contract)
    check_size("inner", "other.shape[-1]", other.shape[-1], input.shape[-1], "input.shape[-1]")
    return _contracted(input, other, [input.dim() - 1], [other.dim() - 1], contract)


@computes("outer", integers=True)
@public("elementwise")
def outer(input: Tensor, vec2: Tensor, *, contract: ContractLike = None) -> Tensor:
    """The products of each element with each, `(M), (N) -> (M, N)`: `mul(input[:, None], vec2)`.

    Raises:
        ShapeError: if an operand is not 1-D.
    """
    check_dim("outer", 1, input=input, vec2=vec2)
    pair = operands("outer", input, vec2)
    return torch.outer(input, vec2) if pair is None else _ops.mul(pair[0].unsqueeze(1), pair[1], contract)


@public("matmul")
def tensordot(
    a: Tensor, b: Tensor, dims: int | Sequence[Sequence[int]] = 2, out: None = None, *, contract: ContractLike = None
) -> Tensor:
    """The products over pairs of dimensions: `dims` of the last of `a` and the first of `b`, or two lists.

    One matrix product, whose k runs over these dimensions in row-major order, as they are listed.

    Raises:
        ShapeError: if a dimension does not exist or is named twice, or the sizes of a pair differ.
        ArgumentError: if `out` is given: results are new tensors.
    """
    op = "tensordot"
    if out is not None:
        raise ArgumentError("tensordot: out is given, expected None: results are new tensors")
    if isinstance(dims, Tensor):
        do_not_cache()
        dims = dims.tolist()
    if isinstance(dims, (list, tuple)):
        check(op, len(dims) == 2, lambda: f"dims has {len(dims)} elements, expected an integer or two lists")
        pair = [as_ints(op, f"dims[{i}]", [d] if isinstance(d, int) else list(d)) for i, d in enumerate(dims)]
    else:
        count = as_int(op, "dims", dims)
        fewest = min(a.dim(), b.dim())
        check(op, 0 <= count <= fewest, lambda: f"dims is {count}, expected 0 to {fewest}")
        pair = [list(range(a.dim() - count, a.dim())), list(range(count))]
    check_size(op, "len(dims[1])", len(pair[1]), len(pair[0]), "len(dims[0])")
    dims_a, dims_b = ([normalize_dim(op, d, t.dim()) for d in ds] for t, ds in zip((a, b), pair))
    for d in (dims_a, dims_b):
        check(op, len(set(d)) == len(d), lambda: f"dims is {pair}, expected every dimension at most once")
    for x, y in zip(dims_a, dims_b):
        if a.shape[x] != b.shape[y]:  # one of them is 1: that dimension is summed over, as in torch
            check(
                op,
                1 in (a.shape[x], b.shape[y]),
                lambda: f"b.shape[{y}] is {b.shape[y]}, expected {a.shape[x]} (= a.shape[{x}])",
            )
            if a.shape[x] == 1:
                b = _ops.sum(b, [y], True, contract)
            else:
                a = _ops.sum(a, [x], True, contract)
    return _contracted(a, b, dims_a, dims_b, contract)


def _split(sizes: Sequence[int]) -> Callable[[int, int], int]:
    """Where the product of matrices i .. j is split so that it takes fewest multiplications; of equals the first."""
    n = len(sizes) - 1
    cost, best = {(i, i): 0 for i in range(n)}, {}
    for length in range(1, n):
        for i in range(n - length):
            j = i + length
            found = [cost[i, s] + cost[s + 1, j] + sizes[i] * sizes[s + 1] * sizes[j + 1] for s in range(i, j)]
            cost[i, j] = min(found)
            best[i, j] = i + found.index(cost[i, j])
    return lambda i, j: best[i, j]


@public("matmul", page="generated/torch.linalg.multi_dot")
def multi_dot(tensors: Sequence[Tensor], *, contract: ContractLike = None) -> Tensor:
    """The product of two or more matrices; the first and the last may be vectors. Any floating-point dtype.

    Products of pairs, in the order of fewest multiplications; of equally good ones the one that splits first.

    Raises:
        ShapeError: if there are less than two, they are not 2-D, or sizes do not fit.
    """
    return _chain("multi_dot", list(tensors), contract)


def _chain(op: str, tensors: list[Tensor], contract: str) -> Tensor:
    check(op, len(tensors) >= 2, lambda: f"{len(tensors)} tensors, expected 2 or more")
    for i, t in enumerate(tensors):
        check_tensor(op, **{f"tensors[{i}]": t})
        check_dim(op, (1, 2) if i in (0, len(tensors) - 1) else 2, **{f"tensors[{i}]": t})
    row, column = tensors[0].dim() == 1, tensors[-1].dim() == 1
    shape = [*tensors[0].shape[:-1], *([] if column else tensors[-1].shape[-1:])]
    if row:
        tensors[0] = tensors[0].unsqueeze(0)
    if column:
        tensors[-1] = tensors[-1].unsqueeze(1)
    for i, (a, b) in enumerate(pairwise(tensors)):
        check_size(op, f"tensors[{i + 1}].shape[0]", b.shape[0], a.shape[1], f"tensors[{i}].shape[-1]")
    split = _split([tensors[0].shape[0], *(t.shape[1] for t in tensors)])

    def product(i: int, j: int) -> Tensor:
        if i == j:
            return tensors[i]
        at = split(i, j)
        return _ops.matmul(product(i, at), product(at + 1, j), False, False, contract)

    return product(0, len(tensors) - 1).reshape(shape)


@public("matmul")
def chain_matmul(*matrices: Tensor, out: None = None, contract: ContractLike = None) -> Tensor:
    """`multi_dot` of matrices; one is returned as it is.

    Raises:
        ShapeError: if there is none, one is not 2-D, or sizes do not fit.
        ArgumentError: if `out` is given: results are new tensors.
    """
    if out is not None:
        raise ArgumentError("chain_matmul: out is given, expected None: results are new tensors")
    check("chain_matmul", len(matrices) > 0, "no matrices, expected one or more")
    check_tensor("chain_matmul", **{f"matrices[{i}]": m for i, m in enumerate(matrices)})
    check_dim("chain_matmul", 2, **{f"matrices[{i}]": m for i, m in enumerate(matrices)})
    return matrices[0] if len(matrices) == 1 else _chain("chain_matmul", list(matrices), contract)


@computes("kron", integers=True)
@public("elementwise")
def kron(input: Tensor, other: Tensor, *, contract: ContractLike = None) -> Tensor:
    """The Kronecker product: `input[i] * other[j]` at `i * other.shape + j` in each dimension, rounded once."""
    pair = operands("kron", input, other)
    if pair is None:
        return torch.kron(input, other)
    ndim = max(t.dim() for t in pair)
    a, b = (t.reshape([1] * (ndim - t.dim()) + list(t.shape)) for t in pair)
    shape = [m * n for m, n in zip(a.shape, b.shape)]
    left = a.reshape([n for size in a.shape for n in (size, 1)])
    right = b.reshape([n for size in b.shape for n in (1, size)])
    return _ops.mul(left, right, contract).reshape(shape)


@public("elementwise")
def cross(
    input: Tensor, other: Tensor, dim: int | None = None, *, axis: int | None = None, contract: ContractLike = None
) -> Tensor:
    """The cross product along `dim`, of size 3: `x[1] * y[2] - x[2] * y[1]` and so on, three roundings, broadcast.

    Without `dim` along the first dimension of size 3.

    Raises:
        ShapeError: if there is no such dimension, or its size is not 3, or shapes do not broadcast.
    """
    op = "cross"
    check(op, dim is None or axis is None, lambda: f"dim is {dim} and axis is {axis}, expected one of them")
    chosen = dim if axis is None else axis
    check_size(op, "other.dim()", other.dim(), input.dim(), "input.dim()")
    shape = broadcast_shapes(input.shape, other.shape)
    if chosen is None:
        found = [d for d, n in enumerate(shape) if n == 3]
        check(op, bool(found), lambda: f"no dimension of {tuple(shape)} has size 3, expected one")
        position = found[0]
    else:
        position = normalize_dim(op, chosen, input.dim())
    for what, t in (("input", input), ("other", other)):
        check(
            op,
            t.dim() > 0 and t.shape[position] == 3,
            lambda: f"{what}.shape is {tuple(t.shape)}, expected size 3 in dimension {position}",
        )
    pair = operands(op, input, other)
    if pair is None:
        return torch.linalg.cross(input, other, dim=position)
    dtype, (x, y) = widened(*pair)
    left = _ops.mul(x.roll(-1, position), y.roll(-2, position), contract)
    right = _ops.mul(x.roll(-2, position), y.roll(-1, position), contract)
    return narrowed(_ops.sub(left, right, contract), dtype)


@public("sum")
def trace(input: Tensor, *, contract: ContractLike = None) -> Tensor:
    """The sum of the diagonal, `(M, N) -> ()`, any floating-point dtype; integers exactly.

    Raises:
        ShapeError: if `input` is not 2-D.
    """
    check_dim("trace", 2, input=input)
    if input.dtype not in ALL and not input.is_complex():
        return torch.trace(input)
    return _ops.sum(input.diagonal(), [0], False, contract)


@computes("linalg_cross")
def _aten_linalg_cross(input: Tensor, other: Tensor, dim: int = -1) -> Tensor:
    if input.is_floating_point() or other.is_floating_point():
        return cross(input, other, dim)
    return input.roll(-1, dim) * other.roll(-2, dim) - input.roll(-2, dim) * other.roll(-1, dim)
