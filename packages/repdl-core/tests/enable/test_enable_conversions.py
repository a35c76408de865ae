"""`repdl.enable`: each pair of dtypes is converted in one way, wherever a number is, on any machine.

Processes with other vectors and numbers of threads convert; what they found is compared with the rule of
docs/reference/enable.md, written once more below.
"""

from __future__ import annotations

import functools
import hashlib
import json
import math
import os
import sys
from collections.abc import Callable, Iterator
from itertools import product
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from torch.utils._python_dispatch import TorchDispatchMode

import repdl
from repdl.dtypes import rounding
from repdl.overrides import conversions
from repdl.testing import processes

Tensor = torch.Tensor
EIGHT = [getattr(torch, f"float8_{name}") for name in ("e4m3fn", "e4m3fnuz", "e5m2", "e5m2fnuz", "e8m0fnu")]
FLOATS = [*rounding.FORMATS, *EIGHT]
PARTS = {torch.complex32: torch.float16, torch.complex64: torch.float32, torch.complex128: torch.float64}
INTEGERS = [getattr(torch, f"{sign}int{bits}") for sign in ("", "u") for bits in (8, 16, 32, 64)]
DTYPES = [torch.bool, *INTEGERS, *FLOATS, *PARTS]
WORDS = {1: torch.uint8, 2: torch.int16, 4: torch.int32, 8: torch.int64}
REFUSED = "refused"
"""By what promotes its operands, or takes those of one dtype only."""
LENGTHS = 1, 7, 8, 9, 15, 16, 17, 31, 32, 33, 65
NEAR = [2.5, 127, 255, 256, 464, 480, 61440, 65520, 3e9, 1e30, *(2.0**n for n in (31, 32, 63, 64, -10, -17, -25, -127))]
"""Numbers at which a conversion turns, with their neighbours."""


def words(size: int, patterns: list[int]) -> Tensor:
    """Integers of that many bytes, with these bits."""
    wrap = 8 * size if size > 1 else 64
    return torch.tensor([p - (1 << wrap) if p >> wrap - 1 else p for p in patterns], dtype=WORDS[size])


def patterns_of(dtype: torch.dtype) -> list[int]:
    """Bits of NaN of each kind, infinities, zeros, subnormals, limits and their neighbours."""
    if dtype is torch.bool:
        return [0, 1]
    if dtype in EIGHT:
        return [*range(256)]
    if dtype in PARTS:
        parts = patterns_of(PARTS[dtype])
        width = 4 * dtype.itemsize
        return [real | other << width for real, other in zip(parts * 2, (*parts[3:], *parts[:3], *[0] * len(parts)))]
    if dtype in INTEGERS:
        low, high = torch.iinfo(dtype).min, torch.iinfo(dtype).max
        points = {
            sign * 2**k + d for k in (0, 7, 8, 15, 16, 24, 31, 32, 53, 63, 64) for sign in (1, -1) for d in (-1, 0, 1)
        }
        points |= {low, high, 448, 464, 465, 480, 61440, 65504, 65519, 65520, 2**31 - 65, 2**53 + 3, 2**64 - 1025}
        return [p % 2 ** (8 * dtype.itemsize) for p in sorted(points) if low <= p <= high]
    form = rounding.FORMATS[dtype]
    inf, quiet, sign = form.infinity, 1 << form.precision - 2, 1 << form.width - 1
    sizes = [inf + quiet, inf + quiet + 1, inf + 1, inf + quiet - 1, inf + 2 * quiet - 1, inf, inf - 1, 0, 1]
    near = [rounding.element(x, dtype) for x in NEAR]
    sizes += [min(p + d, inf) for p in near for d in (-1, 0, 1) if p > 0]
    return [p | s for p in dict.fromkeys(sizes) for s in (0, sign)]


def numbers_of(dtype: torch.dtype) -> Tensor:
    """Those, as one row."""
    given = patterns_of(dtype)
    if dtype in PARTS:
        size = dtype.itemsize // 2
        halves = [part for p in given for part in (p % 2 ** (8 * size), p >> 8 * size)]
        return words(size, halves).view(dtype)
    return words(dtype.itemsize, given).view(dtype)


def taken(row: Tensor, index: Tensor) -> Tensor:
    """The elements of a row, bit for bit."""
    size = row.dtype.itemsize
    if size == 16:
        return row.view(torch.int64).view(-1, 2)[index].view(row.dtype).squeeze(-1)
    return row.view(WORDS[size])[index].view(row.dtype)


def layouts(row: Tensor, lengths: tuple[int, ...], large: bool) -> Iterator[tuple[Tensor, Tensor]]:
    """Tensors of the numbers, each in each place of a vector, and which number each element is."""
    count = len(row)
    first = torch.arange(count).unsqueeze(1)
    for length in lengths:
        along = torch.arange(length + 3)
        for index in ((first + along) % count, first + 0 * along) if large else ((first + along) % count,):
            yield taken(row, index)[:, :length], index[:, :length]
        yield taken(row, along[:length] % count), along[:length] % count
    spread = torch.arange(2 * count) // 2
    yield taken(row, spread)[::2], spread[::2]
    yield row.unsqueeze(1).expand(count, 9), first.expand(count, 9)
    if large:
        many = torch.arange(33_000) % count  # above what torch gives to one thread
        yield taken(row, many), many


def empty(x: Tensor, dtype: torch.dtype) -> Tensor:
    return torch.zeros(x.shape, dtype=dtype)


def set_slice(x: Tensor, dtype: torch.dtype) -> Tensor:
    place = torch.zeros((2, *x.shape), dtype=dtype)
    place[1] = x
    return place[1]


def set_index(x: Tensor, dtype: torch.dtype) -> Tensor:
    place = empty(x, dtype)
    place[torch.arange(len(x))] = x
    return place


def in_list(x: Tensor, dtype: torch.dtype) -> Tensor:
    place = empty(x, dtype)
    torch._foreach_copy_([place], [x])
    return place


def one_by_one(call: Callable[[Tensor, torch.dtype], Tensor]) -> Callable[[Tensor, torch.dtype], Tensor]:
    return lambda x, dtype: torch.stack([call(one, dtype) for one in x.flatten()[:9]])


aten = torch.ops.aten
WAYS: dict[str, Callable[[Tensor, torch.dtype], Any]] = {
    "to": lambda x, dtype: x.to(dtype),
    "copy_": lambda x, dtype: empty(x, dtype).copy_(x),
    "to, a copy": lambda x, dtype: x.to(dtype, copy=True, memory_format=torch.contiguous_format),
    "copy": lambda x, dtype: aten.copy(empty(x, dtype), x),
    "copy, out": lambda x, dtype: aten.copy.out(empty(x, dtype), x, out=empty(x, dtype)),
    "_to_copy, out": lambda x, dtype: aten._to_copy.out(x, out=empty(x, dtype)),
    "copy_ into a stride": lambda x, dtype: torch.zeros((*x.shape, 2), dtype=dtype)[..., 1].copy_(x),
    "cat": lambda x, dtype: torch.cat([empty(x, dtype), x])[len(x) :],
    "cat, out": lambda x, dtype: torch.cat([x, x], out=empty(x.repeat(2, *[1] * (x.dim() - 1)), dtype))[: len(x)],
    "stack": lambda x, dtype: torch.stack([empty(x, dtype), x])[1],
    "where": lambda x, dtype: torch.where(torch.ones(x.shape, dtype=torch.bool), x, empty(x, dtype)),
    "_foreach_copy_": in_list,
    "x[i] = y": set_slice,
    "x[index] = y": set_index,
    "masked_fill_": one_by_one(lambda x, dtype: torch.zeros(9, dtype=dtype).masked_fill_(torch.ones(9).bool(), x)[7]),
    "fill_": one_by_one(lambda x, dtype: torch.zeros(9, dtype=dtype).fill_(x)[7]),
    "x[:] = one": one_by_one(lambda x, dtype: set_slice(x.expand(9), dtype)[7]),
    "torch.tensor": one_by_one(lambda x, dtype: torch.tensor(x, dtype=dtype)),
}


def bits(x: Tensor) -> np.ndarray[Any, Any]:
    """A row of bytes for each element."""
    plain = x.reshape(-1).clone(memory_format=torch.contiguous_format)
    return plain.view(torch.uint8).cpu().numpy().reshape(len(plain), -1)


def found(ways: list[str], lengths: tuple[int, ...], large: bool) -> list[tuple[str, str, str, str]]:
    """For each pair and way the digest of what the numbers became, one after the other, or why there is none."""
    given = {dtype: [*layouts(numbers_of(dtype), lengths, large)] for dtype in DTYPES}
    with repdl.enabled():
        return [
            (str(source), str(target), way, outcome(WAYS[way], given[source], target))
            for source in DTYPES
            for target in DTYPES
            for way in ways
        ]


def outcome(call: Callable[..., Any], given: list[tuple[Tensor, Tensor]], target: torch.dtype) -> str:
    numbers, rows = [], []
    for x, index in given:
        try:
            result = call(x, target)
        except (RuntimeError, TypeError, repdl.UnsupportedError):  # no promotion, or what can't be cast
            return REFUSED
        if result.dtype is not target:
            return REFUSED
        rows.append(bits(result))
        numbers.append(index.flatten().cpu().numpy()[: len(rows[-1])])
        if len(rows[-1]) < index.numel():
            break  # one by one: once is enough
    number, row = np.concatenate(numbers), np.concatenate(rows)
    last = np.zeros((number.max() + 1, row.shape[1]), np.uint8)
    last[number] = row
    differs = (row != last[number]).any(1)
    if differs.any():
        where = number[differs][0]
        return f"{differs.sum()} differ, as of number {where}: {row[differs][0]} and {last[where]}"
    return digest(last.tobytes(), len(last))


def digest(made: bytes, count: int) -> str:
    return f"{count} {hashlib.sha256(made).hexdigest()}"


# The rule, in Python's integers and floats.


def eighth(pattern: int, dtype: torch.dtype) -> float:
    """The number of a float8."""
    name = str(dtype).removeprefix("torch.float8_")
    if name == "e8m0fnu":
        return math.nan if pattern == 255 else 2.0 ** (pattern - 127)
    fraction_bits, own = 3 if "e4" in name else 2, name.endswith("uz")
    bias = (7 if "e4" in name else 15) + own
    field, fraction = divmod(pattern % 128, 1 << fraction_bits)
    last = 15 if "e4" in name else 31
    if own and pattern == 128:
        return math.nan
    if not own and field == last and (fraction == 7 if "e4" in name else True):
        return math.nan if fraction else math.copysign(math.inf, -1.0 if pattern >= 128 else 1.0)
    size = (fraction + (1 << fraction_bits) * (field > 0)) * 2.0 ** (max(field, 1) - bias - fraction_bits)
    return -size if pattern >= 128 else size


def number(pattern: int, dtype: torch.dtype) -> float:
    """Of those bits: an integer, or a float, which has all numbers of these dtypes."""
    if dtype in EIGHT:
        return eighth(pattern, dtype)
    if dtype in rounding.FORMATS:
        return rounding.value_of(pattern, dtype)
    return (
        pattern
        if dtype is torch.bool
        else pattern
        - (2 * (pattern >> 8 * dtype.itemsize - 1) << 8 * dtype.itemsize - 1) * (torch.iinfo(dtype).min < 0)
    )


def pattern(value: float, dtype: torch.dtype) -> int:
    """The bits of a number that became one of another dtype."""
    if dtype is torch.bool:
        return int(value != 0)
    if dtype in INTEGERS:
        return low_bits(value, dtype)
    if dtype in EIGHT:
        return eights(dtype)[rounding.element(value, torch.float32)]
    if dtype is not torch.float32 and dtype is not torch.float64 and (isinstance(value, int) or math.isfinite(value)):
        value = rounding.rounded(value, torch.float32)
    return rounding.element(value, dtype)


def low_bits(value: float, dtype: torch.dtype) -> int:
    bits = 64 if dtype in (torch.int64, torch.uint64, torch.uint32) else 32
    if isinstance(value, float):
        high = dtype is torch.uint64 and value >= 2.0**63
        held = math.isfinite(value) and abs(value) < 2.0 ** (bits if high else bits - 1)
        value = int(value) if held else 0 if high else -(2 ** (bits - 1))
    return value % 2 ** (8 * dtype.itemsize)


@functools.cache
def eights(dtype: torch.dtype) -> dict[int, int]:
    """What torch makes of the float32 that are converted here, by their bits."""
    given = {
        rounding.element(number(p, source), torch.float32)
        for source in DTYPES
        if source not in PARTS
        for p in patterns_of(source)
    }
    row = words(4, sorted(given)).view(torch.float32)
    return dict(zip(sorted(given), row.to(dtype).view(torch.uint8).tolist()))


def expected(source: torch.dtype, target: torch.dtype) -> list[str]:
    """The digests of what the first numbers become, and all."""
    made = b""
    for given in patterns_of(source):
        if source is target:
            result = given
        elif source in PARTS:
            width = 4 * source.itemsize
            real, imaginary = (number(p, PARTS[source]) for p in (given % 2**width, given >> width))
            if target in PARTS:
                part = PARTS[target]
                result = pattern(real, part) | pattern(imaginary, part) << 4 * target.itemsize
            else:
                result = pattern(real, target) if target is not torch.bool else int(real != 0 or imaginary != 0)
        else:
            result = pattern(number(given, source), PARTS.get(target, target))
        made += result.to_bytes(target.itemsize, sys.byteorder)
    count = len(made) // target.itemsize
    return [digest(made[: n * target.itemsize], n) for n in (min(9, count), count)]


def elsewhere(level: str, threads: int, call: str, module: str = "test_enable_conversions", device: str = "cpu") -> Any:
    """What a call of a function of a module of tests gives in a process with those vectors, threads and device."""
    if level == "avx512" and "AVX512" not in torch.backends.cpu.get_cpu_capability():
        level = "avx2"  # torch believes what it is told, and dies
    code = f"import json, torch, {module} as t; torch.set_default_device({device!r}); print(json.dumps((t.{call})))"
    environment = {**os.environ, "ATEN_CPU_CAPABILITY": level, "OMP_NUM_THREADS": str(threads)}
    done = processes.python("-c", code, environment=environment, cwd=Path(__file__).parent)
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)


ALWAYS = ["to", "copy_"]
needs_gpu = pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a GPU")


def check(level: str, threads: int, ways: list[str], lengths: tuple[int, ...], large: bool) -> None:
    rule = {(str(s), str(t)): expected(s, t) for s in DTYPES for t in DTYPES}
    for source, target, way, made in elsewhere(level, threads, f"found({ways}, {lengths}, {large})"):
        if way == "masked_fill_" and source == target:
            continue  # no conversion: a number is read, whose NaN is Python's
        if way in ALWAYS or made != REFUSED:
            assert made in rule[source, target], (level, threads, source, target, way, made)


def test_enable__conversions_are_one_rule() -> None:
    check("default", 1, ["copy_"], (33,), False)
    check("avx512", 4, [*WAYS], (9,), False)


def test_enable__conversions_do_not_depend_on_threads() -> None:
    """There were as many zeros as threads."""
    nan = torch.full((100_001,), complex(math.nan, 0))
    with repdl.enabled():
        for x in (nan[:9], nan, nan.to(torch.complex128)):
            for made in (x.to(torch.uint32), torch.ones(len(x), dtype=torch.uint32).copy_(x)):
                assert not made.view(torch.int32).any()


@needs_gpu
def test_enable__conversions_on_a_gpu() -> None:
    """The bits of the CPU, of each number in each dtype."""
    on_cpu, on_gpu = (elsewhere("default", 1, f"found({ALWAYS}, (9,), False)", device=d) for d in ("cpu", "cuda"))
    assert [pair for pair in zip(on_cpu, on_gpu) if pair[0] != pair[1]] == []


@pytest.mark.nightly
def test_enable__conversions_are_one_rule_in_every_way_and_length() -> None:
    for level in ("default", "avx2", "avx512"):
        for threads in (1, 4):
            check(level, threads, [*WAYS], LENGTHS, True)


class _Held(TorchDispatchMode):
    """Nothing makes an integer of a number that is out of its range: each processor has its own."""

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        kwargs, dtype = kwargs or {}, (kwargs or {}).get("dtype")
        if func is aten._to_copy.default and dtype in INTEGERS and args[0].is_floating_point():
            limits = torch.iinfo(dtype)
            for value in args[0].double().tolist():
                assert math.isfinite(value) and limits.min <= int(value) <= limits.max, (value, dtype)
        return func(*args, **kwargs)


def test_enable__torch_makes_integers_of_numbers_in_range() -> None:
    for source in rounding.FORMATS:
        for target in INTEGERS:
            with _Held():
                conversions._integers(numbers_of(source), target)


def test_enable__conversions_to_every_memory_format() -> None:
    """Numbers that every dtype has lie where torch puts them."""
    formats = torch.contiguous_format, torch.preserve_format, torch.channels_last
    row = torch.arange(120).view(2, 3, 4, 5) % 2

    def converted() -> Iterator[tuple[str, Tensor]]:
        for source, made in product((torch.float32, torch.float64, torch.bfloat16), (torch.float32, torch.int64)):
            x = row.to(source)
            for given in (x, x.to(memory_format=torch.channels_last), x[:, :, ::2], x[:, :1].expand(x.shape)):
                for form in formats:
                    what = f"{source} {given.stride()} to {made}, {form}"
                    yield what, given.to(made, memory_format=form)
                    yield what, torch.empty_like(given, dtype=made, memory_format=form).copy_(given)

    expected = [*converted()]
    with repdl.enabled():
        found = [*converted()]
    for (what, one), (_, other) in zip(found, expected):
        assert (one.dtype, one.stride()) == (other.dtype, other.stride()) and torch.equal(one, other), what
