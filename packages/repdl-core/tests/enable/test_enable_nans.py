"""`repdl.enable`: NaN of every op_class, in each place of a vector, through every op that torch computes itself."""

from __future__ import annotations

import contextlib
import hashlib
import math
import struct
from collections.abc import Callable, Iterator
from typing import Any

import pytest
import torch
import torch.nn.functional as F
from test_enable_conversions import EIGHT, PARTS, WORDS, bits, elsewhere, needs_gpu, numbers_of, taken
from torch.utils._python_dispatch import TorchDispatchMode

import repdl
from repdl.audit import OP_CLASSES, OpClass
from repdl.audit.op_classes import plain_name
from repdl.dtypes import rounding
from repdl.overrides.functions import functions

Tensor = torch.Tensor
aten = torch.ops.aten
DTYPES = [*rounding.FORMATS, *PARTS]
NAN = {dtype: form.infinity | 1 << form.precision - 2 for dtype, form in rounding.FORMATS.items()}


def forms(name: str) -> Iterator[tuple[str, Callable[[Tensor, Tensor], Any]]]:
    """A function of one tensor, in each form that torch has of it."""
    function, method = getattr(torch, name), getattr(torch.Tensor, f"{name}_", None)
    yield name, lambda x, y: function(x)
    yield f"{name}, out", lambda x, y: function(x, out=torch.empty_like(x))
    if method is not None:
        yield f"{name}_", lambda x, y: method(x.clone())
    if hasattr(torch, f"_foreach_{name}"):
        yield f"_foreach_{name}", lambda x, y: getattr(torch, f"_foreach_{name}")([x])[0]


def of_one(name: str) -> Callable[[Tensor, Tensor], Any]:
    return lambda x, y: getattr(torch, name)(x)


def of_two(name: str) -> Callable[[Tensor, Tensor], Any]:
    return lambda x, y: getattr(torch, name)(x, 2)


COMPUTE: dict[str, Callable[[Tensor, Tensor], Any]] = {
    **{form: call for name in ("neg", "floor", "ceil", "round", "trunc", "frac", "abs") for form, call in forms(name)},
    **{form: call for name in ("reciprocal", "square", "sqrt", "sign", "sgn") for form, call in forms(name)},
    "nextafter": torch.nextafter,
    "nextafter_": lambda x, y: x.clone().nextafter_(y),
    "nextafter, out": lambda x, y: torch.nextafter(x, y, out=torch.empty_like(x)),
    "copysign": torch.copysign,
    "copysign_": lambda x, y: x.clone().copysign_(y),
    "copysign of a number": lambda x, y: torch.copysign(x, -1.0),
    **{f"{name} of both": getattr(torch, name) for name in ("add", "sub", "mul", "div", "maximum", "minimum")},
    **{f"{name} of a number": of_two(name) for name in ("add", "mul", "div", "pow")},
    "threshold": lambda x, y: F.threshold(x, 1, 0),
    "threshold_backward": lambda x, y: aten.threshold_backward(x, y, 0),
    "a view": lambda x, y: torch._neg_view(x).clone(),
    "a view, copied": lambda x, y: torch.empty_like(x).copy_(torch._neg_view(x)),
    "into a view": lambda x, y: (z := torch.zeros_like(x), torch._neg_view(z).copy_(x))[0],
    "a view, in cat": lambda x, y: torch.cat([torch._neg_view(x), torch._neg_view(y)])[: len(x)],
    "_neg_view_copy": lambda x, y: torch._neg_view_copy(x),
    "derivative of -x": lambda x, y: torch.autograd.grad(-x.requires_grad_(), x, y)[0],
    "derivative of y - x": lambda x, y: torch.autograd.grad(y - x.requires_grad_(), x, y)[0],
    "derivative of a sum": lambda x, y: torch.autograd.grad((lambda z: z * 1 + z * 2)(x.requires_grad_()), x, y)[0],
}
"""NaN there is the one NaN of the dtype."""
CONJUGATE: dict[str, Callable[[Tensor, Tensor], Any]] = {
    "conj_physical": lambda x, y: torch.conj_physical(x),
    "conj_physical_": lambda x, y: x.clone().conj_physical_(),
    "conj": lambda x, y: x.conj().clone(),
    "conj, copied": lambda x, y: torch.empty_like(x).copy_(x.conj()),
    "into conj": lambda x, y: (z := torch.zeros_like(x), z.conj().copy_(x))[0],
    "_conj_copy": lambda x, y: torch._conj_copy(x) if x.is_complex() else x,
}
"""NaN of the imaginary part is; the real one keeps its bits."""


def layouts(dtype: torch.dtype, lengths: tuple[int, ...]) -> Iterator[tuple[Tensor, Tensor, Tensor]]:
    """Pairs of numbers, each pair in each place of a vector, and which pair each element is."""
    row = numbers_of(dtype)
    count = min(len(row), 40)  # NaN first
    first = torch.arange(count).unsqueeze(1)
    for length in lengths:
        pairs = (first + torch.arange(length + 1)) % count
        yield taken(row, pairs)[:, :length], taken(row, (pairs * 3 + 1) % count)[:, :length], pairs[:, :length]
        alone = pairs[0, :length]
        yield taken(row, alone), taken(row, (alone * 3 + 1) % count), alone


def parts(x: Tensor) -> Tensor:
    return torch.view_as_real(x) if x.is_complex() else x


def has_other_nan(x: Tensor) -> bool:
    """Whether a NaN is not the one of the dtype."""
    if x.dtype not in NAN:
        return False
    return set(x[x.isnan()].view(WORDS[x.dtype.itemsize]).flatten().tolist()) - {NAN[x.dtype]} != set()


SELECT: dict[str, Callable[[Tensor, Tensor], Any]] = {
    "where": lambda x, y: torch.where(x < y, x, y),
    "where, a number": lambda x, y: torch.where(x < y, x, 2.0),
    "masked_fill": lambda x, y: x.masked_fill(x.isnan(), 2.0),
    "heaviside": torch.heaviside,
    "nan_to_num": lambda x, y: x.nan_to_num(),
    "nan_to_num, posinf": lambda x, y: x.nan_to_num(1.0, rounding.from_pattern(0x7FFC000000000001)),
    "copy": lambda x, y: x.clone(),
    **{name: getattr(torch, name) for name in ("eq", "ne", "lt", "le", "gt", "ge", "logical_and", "logical_xor")},
    **{name: of_one(name) for name in ("isnan", "isinf", "signbit", "isposinf", "isneginf")},
    "fill_": lambda x, y: torch.zeros_like(x).fill_(rounding.from_pattern(0x7FFC000000000001)),
    "isin": lambda x, y: torch.isin(x, numbers_of(x.dtype)[:3]),
    "bucketize": lambda x, y: torch.bucketize(x, torch.tensor([-1, 0, 1], dtype=x.dtype)),
    "item": lambda x, y: torch.tensor([one.item() for one in x.flatten()]).view_as(x),
}
"""Bits that are there already, or none."""


def of_pairs(name: str, call: Callable[[Tensor, Tensor], Any], given: list[tuple[Tensor, Tensor, Tensor]]) -> str:
    """The digest of what an op gives for the pairs, one after the other, or why there is none."""
    found: dict[int, bytes] = {}
    for x, y, pairs in given:
        try:
            result = call(x, y).resolve_conj().resolve_neg()
        except (RuntimeError, TypeError, repdl.UnsupportedError):
            return "refused"
        if name not in SELECT:
            computed = parts(result)[..., 1] if name in CONJUGATE and x.is_complex() else parts(result)
            if (name in COMPUTE or x.is_complex()) and has_other_nan(computed):
                return f"another NaN in {tuple(x.shape)}"
        for pair, made in zip(pairs.flatten().tolist(), bits(result)):
            if found.setdefault(pair, made.tobytes()) != made.tobytes():
                return f"pair {pair} is {found[pair]!r} and {made.tobytes()!r}"
    return hashlib.sha256(b"".join(found[pair] for pair in sorted(found))).hexdigest()


def found(lengths: tuple[int, ...]) -> dict[str, str]:
    """What each op gives for each dtype."""
    made = {}
    for dtype in DTYPES:
        given = [*layouts(dtype, lengths)]
        with repdl.enabled():
            for name, call in (COMPUTE | CONJUGATE | SELECT).items():
                made[f"{name} of {dtype}"] = of_pairs(name, call, given)
    return made


MOVES = """
    aten.alias_copy(x)
    aten.detach_copy(x)
    aten.expand_copy(x, (2, *x.shape))
    aten._reshape_copy(x, [len(x), 3, 1])
    aten.permute_copy(x, (1, 0))
    aten.t_copy(x)
    aten.transpose_copy(x, 0, 1)
    aten.diagonal_copy(x)
    aten.select_copy(x, 0, 1)
    aten.slice_copy(x, 0, 1)
    aten.split_copy(x, 4)
    aten.split_with_sizes_copy(x, [1, len(x) - 1])
    aten.unbind_copy(x)
    aten.unsqueeze_copy(x, 0)
    aten.squeeze_copy(x.unsqueeze(0))
    aten.view_copy(x, (3, -1))
    aten.unfold_copy(x, 0, 2, 2)
    aten.as_strided_copy(x, (2, 2), (3, 1))
    aten.narrow_copy(x, 0, 1, 2)
    aten._lazy_clone(x)
    aten.lift_fresh_copy(x)
    x.t().contiguous()
    x.t().clone()
    torch.empty_like(x).copy_(x)
    listed(x)
    torch._foreach_clone([x, x[1:]])
    x.diagonal_scatter(x[:3, 0])
    x.select_scatter(x[0], 0, 1)
    x.slice_scatter(x[:2], 0, 1, 3)
    x.as_strided_scatter(x[0], (3,), (1,))
    x.index_copy(0, I(2), x[2:4])
    x.scatter(0, I(3).view(1, 3), x[2:3])
    x.index_put((I(2),), x[2:4])
    x.put(I(2), x[2, :2])
    x.masked_scatter(I(3) < 2, x)
    aten._unsafe_index_put(x, [I(2)], x[2:4])
    aten._index_put_impl(x, [I(2)], x[2:4])
    torch.cat([x, x])
    torch.cat([x, x.t().contiguous().t()], 1)
    torch.cat([x, x], out=x.new_empty(2 * len(x), 3))
    torch.stack([x, x])
    aten._stack([x, x])
    torch.block_diag(x, x)
    aten._chunk_cat([x, x], 0, 2)
    x[I(2)]
    x.gather(0, I(3).view(1, 3))
    torch.gather(x, 0, I(3).view(1, 3), out=x.new_empty(0))
    torch.scatter(x, 0, I(3).view(1, 3), x[2:3], out=x.new_empty(len(x), 3))
    x.clone().scatter_(0, I(3).view(1, 3), 0)
    x.index_select(0, I(2))
    x.take(I(4))
    aten._unsafe_index(x, [I(2)])
    F.embedding(I(2), x)
    x.masked_select(I(3) < 2)
    x.take_along_dim(I(2).view(2, 1), 0)
    x.flip(0)
    x.flip(1)
    x.roll(1, 0)
    torch.rot90(x)
    x.repeat(2, 2)
    x.repeat_interleave(2, 0)
    x.tril()
    x.triu()
    torch.diag_embed(x)
    F.pad(x, (1, 2))
    aten.constant_pad_nd(x, (1, 2))
    aten.channel_shuffle(x.view(1, -1, 3, 1), len(x))
    aten.native_channel_shuffle(x.view(1, -1, 3, 1), len(x))
    aten.pixel_shuffle(x[:4].reshape(1, 4, 3, 1), 2)
    aten.pixel_unshuffle(x[:4].reshape(1, 1, 4, 3)[..., :2], 2)
    x.clone().resize_(2, 3)
    x.clone().resize_as_(x[:2])
    x.clone().set_(x)
    torch.nn.utils.rnn.pack_padded_sequence(x, torch.tensor([len(x), 2, 1])).data
    x.masked_fill(I(3) < 1, 0)
    x.masked_fill(I(3) < 1, x[0, 0].clone().zero_())
    x.index_fill(0, I(2), 0)
    x.clone().fill_(0)
    x.clone().zero_()
    x.clone().fill_diagonal_(0)
    torch.where(I(3) < 1, x, x.flip(0))
    aten.select_backward(x[0], [2, 3], 0, 1)
    aten.slice_backward(x[:2], [4, 3], 0, 1, 3, 1)
    aten.diagonal_backward(x[:3, 0], [3, 3], 0, 0, 1)
    aten.masked_scatter_backward(x, (I(3) < 1).expand(x.shape), [len(x), 1])
""".strip().splitlines()
"""Ops that move numbers, on a matrix of three columns: they give the same bits for integers."""
MOVES = [move for move in MOVES if "_foreach_clone" not in move or hasattr(torch, "_foreach_clone")]  # of torch 2.13
NAMES = {"aten": aten, "torch": torch, "F": F, "I": torch.arange}


WHOLE = """
    x.argmax(), x.argmin(), x.argmax(0), x.argmin(1)
    x.count_nonzero(), x.nonzero(), aten.nonzero_static(x, size=3), x.all(), x.any(), x.all(0), x.any(1)
    torch.searchsorted(torch.tensor([-1, 0, 1], dtype=x.dtype), x), torch.isin(x, x[:2])
    torch.equal(x, x), torch.equal(x, x.clone()), torch.equal(x[1:], x[:-1])
    torch.logical_not(x), torch.logical_or(x, x.flip(0)), x.bool()
    torch.sort(x, stable=True)
    torch.view_as_complex(x[:, :2].contiguous()), aten.view_as_complex_copy(x[:, :2].contiguous())
    torch.complex(x, x.flip(0)), aten.view_as_real_copy(torch.complex(x, x))
    x.new_full((3,), x[0, 0].item()), torch.full_like(x, x[0, 0].item())
    torch.full((3,), x[0, 0].item(), dtype=x.dtype)
""".strip().splitlines()
"""Of all elements at once."""
WITHOUT = """
    _assert_async _assert_scalar _assert_tensor_metadata _coalesced _copy_from _copy_from_and_resize
    _cudnn_rnn_flatten_weight _dimI _dimV _efficientzerotensor _functional_assert_async _functional_assert_scalar
    _functional_sym_constrain_range _functional_sym_constrain_range_for_size _fw_primal _fw_primal_copy
    _has_same_storage_numel _indices _indices_copy _is_all_true _is_any_true _linalg_check_errors _make_dep_token
    _make_dual _make_dual_copy _nnz _pin_memory _print _new_zeros_with_same_feature_meta _reshape_alias
    _reshape_alias_copy _resize_output _unsafe_view _values _values_copy alias bitwise_and bitwise_not bitwise_or
    bitwise_xor ccol_indices ccol_indices_copy col_indices col_indices_copy crow_indices crow_indices_copy dense_dim
    diagonal empty empty_permuted empty_strided eye indices indices_copy is_coalesced is_pinned is_same_size is_set_to
    lift new_empty_strided new_ones new_zeros ones ones_like permute record_stream repeat_interleave row_indices
    row_indices_copy slice_inverse sparse_dim split split_with_sizes sym_constrain_range sym_constrain_range_for_size
    transpose tril_indices triu_indices unfold unsafe_split unsafe_split_with_sizes values values_copy zeros
"""
"""Views, ops on no numbers, on numbers of their own, on integers, on other layouts, and on a GPU alone."""


def listed(x: Tensor) -> list[Tensor]:
    place = [torch.zeros_like(x)]
    torch._foreach_copy_(place, [x])
    return place


class Seen(TorchDispatchMode):
    """The names of the ops that are called."""

    def __init__(self) -> None:
        super().__init__()
        self.names: set[str] = set()

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        self.names.add(plain_name(func))
        return func(*args, **(kwargs or {}))


def moved(lengths: tuple[int, ...]) -> dict[str, str]:
    """What ops that move numbers give, beside what they give for integers of the same bits."""
    made = {}
    with repdl.enabled():
        for dtype in [*rounding.FORMATS, *EIGHT, torch.complex32, torch.complex64]:
            words, row = WORDS[dtype.itemsize], numbers_of(dtype)
            for length in lengths:
                x = taken(row, torch.arange(3 * length) % len(row)).view(length, 3)
                for name in MOVES:
                    found, whole = results(name, x), results(name, x.view(words))
                    same = [torch.equal(a.contiguous().view(words), b) for a, b in zip(found, whole or found)]
                    made[f"{name.strip()} of {dtype}, {length}"] = "moved" if all(same) else "differs"
                for name in WHOLE if dtype in rounding.FORMATS else ():
                    found = [torch.as_tensor(result) for result in results(name, x)]
                    made[f"{name.strip()} of {dtype}, {length}"] = str([bits(result).tolist() for result in found])
    return made


def results(expression: str, x: Tensor) -> list[Any]:
    try:
        made = eval(expression.strip(), {**NAMES, "x": x, "listed": listed})
    except (RuntimeError, repdl.UnsupportedError):
        if "complex" in expression:
            return []  # of halves, in part
        assert x.dtype not in rounding.FORMATS, expression
        return []  # float8, and integers where a registered op computes
    return [made] if isinstance(made, Tensor) else [*made]


def check(lengths: tuple[int, ...]) -> None:
    (first, moves), (second, others) = (
        elsewhere(level, threads, f"found({lengths}), t.moved({lengths})", "test_enable_nans")
        for level, threads in (("default", 1), ("avx512", 4))
    )
    for key, digest in first.items():
        assert len(digest) == 64 or (digest == "refused" and "complex" in key), (key, digest)
        assert digest == second[key], (key, digest, second[key])
    for key, made in moves.items():
        assert made != "differs" and made == others[key], (key, made, others[key])


def test_enable__nan_does_not_depend_on_the_place() -> None:
    check((33,))


@needs_gpu
def test_enable__nan_on_a_gpu() -> None:
    """The bits that the CPU has, in ops that torch computes itself."""
    call = "found((9,)), t.moved((9,))"
    on_cpu, on_gpu = (elsewhere("default", 1, call, "test_enable_nans", device) for device in ("cpu", "cuda"))
    for given, wanted in zip(on_gpu, on_cpu):
        assert {key: made for key, made in given.items() if made != wanted[key]} == {}


@pytest.mark.nightly
def test_enable__nan_does_not_depend_on_the_place_in_every_length() -> None:
    check(tuple(range(4, 34)))


def test_enable__nan_is_seen_through_every_op_that_stays_torchs() -> None:
    x = torch.arange(33.0).view(11, 3)
    given = x, torch.complex(x, x)
    with repdl.enabled(), Seen() as seen:
        for expression in (*MOVES, *WHOLE):
            results(expression, x)
        for value in given:
            value.to(torch.float64)
            for call in (COMPUTE | CONJUGATE | SELECT).values():
                with contextlib.suppress(RuntimeError, TypeError, repdl.UnsupportedError):
                    call(value.clone(), value)
    torchs = {
        name for name, op_class in OP_CLASSES.items() if op_class in (OpClass.MOVES, OpClass.EXACT, OpClass.ROUNDS)
    }
    missing = torchs - seen.names - {*WITHOUT.split()} - functions().keys() - {"_foreach_copy"}
    assert not missing


def test_enable__numbers_that_are_nan_have_pythons_bits() -> None:
    (other,) = struct.unpack("=d", struct.pack("=Q", 0xFFF8000000000123))
    words = {torch.float16: (torch.int16, -0x1FF), torch.float32: (torch.int32, -0x3FFFFF)}
    words[torch.float64] = torch.int64, -0x7FFFFFFFFFFFF
    repdl.enable()
    for dtype, (whole, word) in words.items():
        x = torch.full((3,), word, dtype=whole).view(dtype)
        for number in (x[0].item(), float(x[1])):
            assert struct.pack("=d", number) == struct.pack("=d", math.nan), dtype
    for dtype in (torch.complex64, torch.complex128):
        filled = torch.zeros(3, dtype=dtype).fill_(complex(other, other))
        nan = torch.tensor(math.nan, dtype=filled.real.dtype)
        whole = torch.int32 if dtype is torch.complex64 else torch.int64
        assert (torch.view_as_real(filled).view(whole) == nan.view(whole)).all(), dtype
