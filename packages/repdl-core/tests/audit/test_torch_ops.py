"""The table of torch's ops: complete for one version of torch, and right where it says that bits are the same."""

from __future__ import annotations

import ctypes
import math
import os
import subprocess
import sys
from collections.abc import Callable
from itertools import product
from typing import Any

import numpy as np
import pytest
import torch
import torch.nn.functional as F

import repdl
from repdl.audit import OP_CLASSES, OpClass, Reproducibility, class_of, classify
from repdl.audit.op_classes import TORCH, plain_name
from repdl.overrides.torchs import is_composed
from repdl.testing import bits

aten = torch.ops.aten


def overloads() -> dict[str, Any]:
    """Every op of `aten` with a kernel of its own, in the torch that is installed."""
    found = {}
    for name in torch._C._dispatch_get_all_op_names():
        if name.startswith("aten::") and not is_composed(name, "CPU"):
            packet, _, overload = name.removeprefix("aten::").partition(".")
            try:
                found[name] = getattr(getattr(aten, packet), overload or "default")
            except (AttributeError, RuntimeError):  # those that scripts alone reach
                continue
    return found


def test_table__has_every_op_of_the_version_that_it_says() -> None:
    """A new version of torch fails here until somebody has looked at its new ops; until then they are refused."""
    missing = sorted({plain_name(op) for op in overloads().values() if class_of(plain_name(op)) is None})
    if torch.__version__.startswith(f"{TORCH}."):
        assert not missing, f"not in repdl/audit/op_classes.py: {missing}"
        assert len(overloads()) > 2000
    for name in missing:
        op = next(op for op in overloads().values() if plain_name(op) == name)
        assert classify(op, (), {}, None).reproducibility is Reproducibility.REFUSED


def test_table__unknown_ops_are_refused() -> None:
    with torch.library._scoped_library("aten", "FRAGMENT") as library:
        library.define("of_next_year(Tensor x) -> Tensor")
        library.impl("of_next_year", lambda x: x.clone(), "CPU")
        (row,) = repdl.audit(torch.ops.aten.of_next_year, torch.ones(2)).refused
        assert "table of torch's ops" in row.reason


def test_table__no_name_that_torch_has_not() -> None:
    if not torch.__version__.startswith(f"{TORCH}."):
        pytest.skip(f"the table is of torch {TORCH}")
    assert OP_CLASSES.keys() <= {plain_name(op) for op in overloads().values()}


def test_table__what_draws_is_never_fine() -> None:
    drawing = {plain_name(op) for op in overloads().values() if torch.Tag.nondeterministic_seeded in op.tags}
    assert len(drawing) > 30
    assert {class_of(name) for name in drawing} <= {OpClass.DRAWS, OpClass.REFUSED}


def test_table__views_move_data() -> None:
    """What returns a part of its argument computes nothing; but for layouts that are not looked at."""
    others = {"_nested", "_sparse", "_test", "to_", "sparse", "_to_"}
    for op in overloads().values():
        returns = [r.alias_info for r in op._schema.returns]
        if returns and all(info is not None and not info.is_write for info in returns):
            name = plain_name(op)
            assert class_of(name) is OpClass.MOVES or name.startswith(tuple(others)), name


# What arguments say beyond the op.

f = torch.linspace(-3, 3, 12)
i = torch.arange(12)
h = f.bfloat16()

FINE: dict[str, Callable[[], Any]] = {
    "add": lambda: f + f,
    "add in place, of numbers, of integers": lambda: f.clone().add_(1.1) + 2 + i,
    "add, alpha -1": lambda: torch.add(f, f, alpha=-1),
    "add of integers, alpha 3": lambda: torch.add(i, i, alpha=3),
    "sub from a number": lambda: 1 - f,
    "div": lambda: f / (f + 10),
    "div by a power of two": lambda: f / 8,
    "halves": lambda: (h + h) * h / h,
    "halves and numbers that they hold": lambda: h * 0.5 + 3,
    "double": lambda: f.double() * f,
    "squares": lambda: (f**2, f.square(), f.clone().pow_(2.0), h**2, i**3),
    "masks": lambda: f.clone().index_put_((f < 0,), f[f < 0], accumulate=True),
    "conversions": lambda: (f.bfloat16(), f.half(), f.double(), i.float(), f.bool(), f.long(), f.to(torch.int8)),
    "integers": lambda: (i.sum(), i.cumsum(0), i.view(3, 4) @ i.view(4, 3), i.clamp(1, 3), i.amax(), i // 3, i**2),
    "comparisons": lambda: (f < 0, (f == f).all(), torch.where(f < 0, f, -f), f.isnan(), f.argmax()),
    "signs and integers of floats": lambda: (f.abs(), f.sign(), f.floor(), f.round(), f.frac(), F.threshold(f, 0, 0)),
    "stable sort": lambda: torch.sort(f, stable=True),
    "moves": lambda: (torch.cat([f, f]), f.flip(0), f[i % 3], F.pad(f, (1, 2)), f.view(3, 4).T.contiguous()),
    "factories": lambda: (
        torch.zeros(3),
        torch.full((2,), 0.1),
        torch.eye(3),
        torch.arange(5.0),
        torch.arange(0, 9, 2),
    ),
    "writes": lambda: f.clone().index_put_((i[:3],), f[:3]).index_copy_(0, i[:2], f[:2]).scatter_(0, i[:4], f[:4]),
    "writes of one value": lambda: torch.zeros(3).index_put_((i % 3,), torch.tensor(1.0)).scatter_(0, i % 3, 2.0),
    "one_hot": lambda: F.one_hot(i % 3),
    "empty": lambda: torch.empty(3).fill_(1),
    "lists": lambda: torch._foreach_zero_([f.clone()]),
}
REFUSED: dict[str, tuple[str, Callable[[], Any]]] = {
    "sum": ("no contract", lambda: f.sum()),
    "sum of integers as floats": ("no contract", lambda: i.sum(dtype=torch.float32)),
    "add, alpha": ("alpha", lambda: torch.add(f, f, alpha=0.1)),
    "sub, alpha in place": ("alpha", lambda: f.clone().sub_(f, alpha=2)),
    "div by a number": ("reciprocal", lambda: f / 3),
    "div, rounding_mode": ("rounds more than once", lambda: torch.div(f, f, rounding_mode="floor")),
    "halves and a number between": ("does not hold", lambda: h * 0.1),
    "halves and floats": ("rounded in an order", lambda: torch.add(h, f, out=torch.empty(12, dtype=torch.bfloat16))),
    "float64 to half": ("float64", lambda: f.double().half()),
    "NaN as an integer": ("undefined", lambda: torch.tensor([float("nan")]).long()),
    "a number beyond the integers": ("undefined", lambda: (f * 1000).to(torch.int8)),
    "copy_ beyond the integers": ("undefined", lambda: torch.zeros(12, dtype=torch.int32).copy_(f * 2.0**40)),
    "relu": ("+0 and -0", lambda: F.relu(f)),
    "clamp": ("+0 and -0", lambda: f.clamp(0, 1)),
    "maximum": ("+0 and -0", lambda: torch.maximum(f, f)),
    "cubes": ("no contract", lambda: f**3),
    "powers of tensors": ("no contract", lambda: f ** torch.tensor(2)),
    "sqrt": ("no contract", lambda: f.abs().sqrt()),
    "sort": ("stable", lambda: torch.sort(f)),
    "round, decimals": ("power of ten", lambda: torch.round(f, decimals=2)),
    "arange with a fraction": ("start + i * step", lambda: torch.arange(0, 1, 0.1)),
    "arange beyond float32": ("start + i * step", lambda: torch.arange(2**25 - 2, 2**25 + 2, dtype=torch.float32)),
    "index_put, accumulate": ("equal indices", lambda: f.clone().index_put_((i[:3],), f[:3], accumulate=True)),
    "index_put, twice": ("one index", lambda: torch.zeros(12).index_put_((i % 3,), f)),
    "index_copy, twice": ("one index", lambda: torch.zeros(12).index_copy_(0, i % 3, f)),
    "scatter, twice": ("one index", lambda: torch.zeros(3).scatter_(0, i % 3, f)),
    "scatter_add": ("no contract", lambda: torch.zeros(12).scatter_add_(0, i, f)),
    "index_put of two masks, accumulate": (
        "equal indices",
        lambda: torch.zeros(12, 12).index_put_((f < 0, f < 0), f[f < 0], accumulate=True),
    ),
    "complex": ("complex", lambda: torch.complex(f, f) * torch.complex(f, f)),
    "float8": ("float8", lambda: f.to(torch.float8_e4m3fn)),
    "linspace": ("no contract", lambda: torch.linspace(0, 1, 5)),
    "lists": ("no contract", lambda: torch._foreach_add([f.clone()], 1.0)),
    "draws": ("generator", lambda: torch.rand(3)),
    "randperm": ("generator", lambda: torch.randperm(3)),
    "sparse": ("no contract", lambda: f.to_sparse()),
}


@pytest.mark.parametrize("name", FINE)
def test_judge__fine(name: str) -> None:
    report = repdl.audit(FINE[name])
    assert report.findings and report.ok, [str(finding) for finding in report.refused]


def test_judge__derivatives_of_squares_windows_and_masks() -> None:
    x = torch.linspace(-3, 3, 12, requires_grad=True)
    assert repdl.audit(lambda x: (x**2 + x.square()) * 0.5, x).ok
    assert repdl.audit(lambda x: x.unfold(0, 3, 3) * 2, x).ok and repdl.audit(lambda x: x.unfold(0, 2, 3) * 2, x).ok
    (row,) = repdl.audit(lambda x: x.unfold(0, 3, 2) * 2, x).refused
    assert row.op == "aten.unfold_backward.default" and row.remedy is None, "F.unfold is another function"
    assert repdl.audit(lambda x: x[x > 0] * 2, x).ok and not repdl.audit(lambda x: x[i], x).ok


@pytest.mark.parametrize("name", REFUSED)
def test_judge__refused(name: str) -> None:
    word, call = REFUSED[name]
    assert any(word in row.reason for row in repdl.audit(call).refused)


def test_judge__writes_by_index_along_every_dimension() -> None:
    """A write is refused if two elements have one address: counted here, element by element."""
    seen = set()
    for seed, dim in product(range(12), (0, 1, 2, -1)):
        made = torch.Generator().manual_seed(seed)
        target, index = torch.zeros(3, 4, 5), torch.randint(3, (2, 2, 2), generator=made)
        source = torch.ones(2, 2, 2)
        grid = list(torch.meshgrid(*map(torch.arange, index.shape), indexing="ij"))
        grid[dim] = index
        row = torch.randint(3, (2,), generator=made)
        calls = {
            "scatter": ((target, dim, index, source), grid),
            "index_copy": ((target, dim, row, source.new_ones(target.select(dim, 0).unsqueeze(dim).shape)), [row]),
            "index_put": ((target, [None, *index[:2, 0]], source.new_ones(3, 2)), [*index[:2, 0]]),
            "put": ((target, row, source[0, 0]), [row]),
        }
        for name, (args, places) in calls.items():
            addresses = torch.stack([place.flatten() for place in places]).T.tolist()
            twice = len({*map(tuple, addresses)}) < len(addresses)
            op = aten.scatter.src if name == "scatter" else getattr(aten, name).default
            refused = classify(op, args, {}, target).reproducibility is Reproducibility.REFUSED
            assert refused == twice, f"{name}, dimension {dim}, {addresses}: refused {refused}"
            seen.add((name, twice))
    assert len(seen) == 8


def near(bound: int, dtype: torch.dtype) -> torch.Tensor:
    """The numbers of a dtype around an integer: its own, two to each side, and those with a fraction."""
    middle = torch.tensor(float(bound), dtype=torch.float64).to(dtype).view(1)
    steps = torch.arange(-2 if bound else 0, 3, dtype=bits(middle).dtype)  # of the words of numbers of one sign
    return torch.cat([(bits(middle) + steps).view(dtype), middle + 0.5, middle - 0.5, middle + 1, middle - 1])


def test_judge__conversions_at_the_limits_of_integers() -> None:
    kinds = [torch.int8, torch.int16, torch.int32, torch.int64, torch.uint8, torch.uint16, torch.uint32, torch.uint64]
    seen = set()
    for dtype in (torch.float32, torch.float64, torch.bfloat16, torch.float16):
        for made in kinds:
            limits = torch.iinfo(made)
            for bound in (limits.min - 1, limits.min, limits.max, limits.max + 1):
                for x in near(bound, dtype).split(1):
                    number = x.item()
                    held = math.isfinite(number) and limits.min <= math.trunc(number) <= limits.max
                    args, result = (x,), torch.empty(1, dtype=made)
                    found = (
                        classify(aten._to_copy.default, args, {"dtype": made}, result).reproducibility
                        is not Reproducibility.REFUSED
                    )
                    assert found == held, f"{number!r} of {dtype} to {made}: fine {found}, held {held}"
                    found = (
                        classify(aten.copy_.default, (result, x), {}, result).reproducibility
                        is not Reproducibility.REFUSED
                    )
                    assert found == held, f"{number!r} of {dtype} copied to {made}: fine {found}, held {held}"
                    seen.add((made, held))
    assert len(seen) == 2 * len(kinds)


def test_judge__torchs_arithmetic_in_another_floating_point_environment() -> None:
    """torch's ops follow the thread's rounding mode and flushing of subnormals."""
    assert repdl.audit(lambda: f + f).ok
    if torch.set_flush_denormal(True):
        try:
            report = (
                repdl.audit(lambda: f + f),
                repdl.audit(lambda: repdl.ops.add(f, f)),
                repdl.audit(lambda: f.clone()),
            )
        finally:
            torch.set_flush_denormal(False)
        assert "subnormal" in report[0].refused[0].reason and report[1].ok and report[2].ok
    library = ctypes.CDLL(None)
    for rounding in {"x86_64": (0x400, 0x800, 0xC00), "aarch64": (0x400000, 0x800000, 0xC00000)}.get(
        os.uname().machine, ()
    ):
        assert library.fesetround(rounding) == 0
        try:
            refused = repdl.audit(lambda: f + f).refused
        finally:
            library.fesetround(0)
        assert refused, rounding


# That bits are the same, as far as one machine can show: torch's kernels for three kinds of processor.


def numbers(dtype: torch.dtype, count: int, seed: int) -> torch.Tensor:
    """Words of all kinds: every exponent, subnormals, infinities, zeros of both signs, NaN."""
    size = torch.finfo(dtype).bits
    words = np.random.Generator(np.random.PCG64(seed)).integers(0, 2**size, count, dtype=np.uint64)
    integers = {16: torch.int16, 32: torch.int32, 64: torch.int64}[size]
    found = torch.from_numpy(words.astype(np.int64)).to(integers).view(dtype)
    special = [0.0, -0.0, float("inf"), -float("inf"), torch.finfo(dtype).smallest_normal / 2, 0.5, -2.5]
    for place, value in enumerate(special):
        found[place::41] = value
    return found


ALLOWED: dict[str, Callable[[torch.Tensor, torch.Tensor], Any]] = {
    "arithmetic": lambda a, b: [a + b, a - b, a * b, a / b, a.reciprocal(), torch.add(a, b, alpha=-1), 1 - a],
    "squares": lambda a, b: [a**2, a.square(), a.pow(1)],
    "windows": lambda a, b: [aten.unfold_backward(a.view(-1, 4), [len(a)], 0, 4, 4)],
    "masks": lambda a, b: [a.index_put((a < b,), b[a < b], accumulate=True)],
    "numbers": lambda a, b: [a + 3, a * 0.75, a / 8, -a],
    "signs": lambda a, b: [a.abs(), a.sign(), a.copysign(b), a.signbit(), torch.heaviside(a, b)],
    "integers": lambda a, b: [a.floor(), a.ceil(), a.round(), a.trunc(), a.frac()],
    "selections": lambda a, b: [torch.where(a < b, a, b), F.threshold(a, 1, 0), aten.threshold_backward(a, b, 0)],
    "positions": lambda a, b: [a.argmax(), a.argmin(), torch.argsort(a, stable=True), a.nonzero(), a.count_nonzero()],
    "conversions": lambda a, b: [a.float().bfloat16(), a.float().half(), a.double(), a.bool(), a.nan_to_num()],
}


def digests() -> list[str]:
    """Of everything allowed, on contiguous tensors and on strided ones; NaN is NaN."""
    found = []
    for dtype in (torch.float32, torch.float64, torch.bfloat16, torch.float16):
        for step in (1, 2):
            a, b = (numbers(dtype, 1500 * step, seed)[::step] for seed in (1, 2))
            for name, call in ALLOWED.items():
                results = [r.masked_fill(r.isnan(), 1) if r.is_floating_point() else r for r in call(a, b)]
                found.append(f"{name} {dtype} {repdl.digest(dict(enumerate(map(torch.Tensor.contiguous, results))))}")
    return found


def test_allowed__ops_are_what_the_table_allows() -> None:
    for name, call in ALLOWED.items():
        a, b = torch.tensor([1.5, -2.0, 1, 0]), torch.tensor([2.0, 0.5, 1, 0])
        report = repdl.audit(call, a, b)
        assert report.ok, (name, [str(finding) for finding in report.refused])


def test_allowed__same_bits_whatever_processor_torch_takes_this_for() -> None:
    folder = os.path.dirname(__file__)
    code = f"import sys; sys.path.insert(0, {folder!r}); import test_torch_ops as t; print(*t.digests(), sep='\\n')"
    here = digests()
    assert len(here) > 50
    for level in ("default", "avx2"):
        environment = {**os.environ, "ATEN_CPU_CAPABILITY": level, "OMP_NUM_THREADS": "1"}
        done = subprocess.run(
            [sys.executable, "-c", code], env=environment, capture_output=True, text=True, check=False
        )
        assert done.returncode == 0, done.stderr
        assert done.stdout.splitlines() == here, level


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_allowed__single_roundings_are_those_of_ieee_754(dtype: torch.dtype) -> None:
    a, b = numbers(dtype, 4001, 3), numbers(dtype, 4001, 4)
    assert torch.equal((a**2).nan_to_num(1.0), (a * a).nan_to_num(1.0))
    x, y = a.numpy(), b.numpy()
    with np.errstate(all="ignore"):
        for ours, theirs in ((a + b, x + y), (a - b, x - y), (a * b, x * y), (a / b, x / y)):
            expected = torch.from_numpy(theirs)
            same = (ours == expected) & (ours.signbit() == expected.signbit()) | ours.isnan() & expected.isnan()
            assert bool(same.all())


@pytest.mark.skipif(os.uname().machine != "x86_64", reason="other processors have one maximum of both zeros")
def test_refused__signs_of_zero_depend_on_the_place() -> None:
    """Why `maximum` is refused: vectors and what is left over after them disagree."""
    zeros = torch.zeros(37)
    found = torch.maximum(zeros, -zeros).signbit()
    other = torch.maximum(-zeros, zeros).signbit()
    assert not torch.equal(found, other)
