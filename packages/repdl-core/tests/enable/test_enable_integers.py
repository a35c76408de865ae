"""`repdl.enable`: ops of torch on integers, which are exact, or depend on an order."""

from __future__ import annotations

import operator
import os
import subprocess
import sys
from collections.abc import Callable
from typing import Any

import pytest
import torch
from enabling import same, values

import repdl
from repdl import ops
from repdl.errors import UnsupportedError
from repdl.overrides import conversions, refusal


def test_enable__integers_stay_torchs() -> None:
    i = torch.arange(6)
    with repdl.enabled():
        assert (i + 1).tolist() == [1, 2, 3, 4, 5, 6]
        assert (i * 2).sum().item() == 30
        assert i.clone().add_(i).max().item() == 10
        assert (i.to(torch.uint8) + 250).tolist() == [250, 251, 252, 253, 254, 255]
        assert torch.tensor(2, dtype=torch.int32).add(3).dtype is torch.int32
        assert (i % 4).tolist() == [0, 1, 2, 3, 0, 1]
        assert torch.equal(i / 4, torch.tensor([0.0, 0.25, 0.5, 0.75, 1.0, 1.25]))
        assert i.cumsum(0).tolist() == [0, 1, 3, 6, 10, 15]
        assert i.square().tolist() == [0, 1, 4, 9, 16, 25] and i.diff().tolist() == [1] * 5
        assert torch.outer(i, i)[5].tolist() == [0, 5, 10, 15, 20, 25]
        assert torch.kron(i, i[:3])[-3:].tolist() == [0, 5, 10]
        version = i._version
        i.add_(1)
        assert i._version == version + 1


INTEGERS: dict[str, Callable[[torch.Tensor], torch.Tensor]] = {
    "a fraction": lambda i: torch.stack([i * 0.5, 0.5 * i, i + 0.5, 1.5 - i, i % 1.5, i // 1.5, i.bool() * 0.5]),
    "trapezoid": lambda i: torch.trapezoid(i, dx=0.5),
    "quotients": lambda i: torch.stack([torch.div(-i, 2, rounding_mode=mode) for mode in ("floor", "trunc")]),
    "true quotient": lambda i: torch.div(-i, 2, rounding_mode=None),
    "quotient in place": lambda i: i.clone().div_(2, rounding_mode="trunc"),
    "products": lambda i: torch.cat([i.outer(i), i.square().unsqueeze(0), torch.kron(i, i).view(3, 3)]),
    "matmul": lambda i: i.view(1, 3) @ i.view(3, 1),
    "einsum": lambda i: torch.einsum("i,i->", i, i),
    "diff": lambda i: i.diff(),
    "means": lambda i: torch.zeros_like(i).scatter_reduce(0, i, i, "mean"),
}
"""Where a function of RepDL has the name of torch's, too."""


@pytest.mark.parametrize("name", INTEGERS)
def test_enable__integers_give_what_torch_gives(name: str) -> None:
    i = torch.arange(3)
    expected = INTEGERS[name](i)
    for inference in (False, True):
        with repdl.enabled(), torch.inference_mode(inference):
            found = INTEGERS[name](i)
        assert found.dtype is expected.dtype and torch.equal(found, expected)


@pytest.mark.parametrize("name", ["truediv", "matmul", "pow"])
def test_enable__operators_say_which_dtype_is_not_covered(name: str) -> None:
    """Python would make another error of a TypeError."""
    x = values(4).to(torch.complex64)
    with repdl.enabled(), pytest.raises(UnsupportedError, match="dtype is complex64, expected float32"):
        getattr(operator, name)(x, x)


@pytest.mark.parametrize("name", ["truediv", "pow"])
def test_enable__operators_say_that_a_number_is_complex(name: str) -> None:
    for x in (values(4), torch.arange(4)):
        with repdl.enabled(), pytest.raises(UnsupportedError, match="is complex 1j, expected"):
            getattr(operator, name)(x, 1j)


@pytest.mark.parametrize("dtype", [torch.uint8, torch.int8, torch.int16, torch.int32, torch.int64])
def test_enable__conversions_to_integers_are_defined(dtype: torch.dtype) -> None:
    x = torch.tensor([1.5, -2.7, 300.0, 1e10, 1e30, float("nan"), float("-inf")])
    low = torch.iinfo(torch.int64 if dtype is torch.int64 else torch.int32).min
    high = 10**10 if dtype is torch.int64 else low
    expected = torch.tensor([1, -2, 300, high, low, low, low]).to(dtype)
    with repdl.enabled():
        assert torch.equal(x.to(dtype), expected)
        assert torch.equal(torch.empty(7, dtype=dtype).copy_(x), expected)


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
@pytest.mark.parametrize("made", [torch.int32, torch.int64])
def test_enable__conversions_to_integers_in_c(
    dtype: torch.dtype, made: torch.dtype, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Of row-major numbers by torch's kernel, and where that leaves the result to the processor, by what we define."""
    bound, low = 2.0 ** (torch.iinfo(made).bits - 1), torch.iinfo(made).min
    near = bound - bound / 2**20
    numbers = [1.5, -2.7, -0.0, near, 2.0**-140, -near, bound, -bound, 2 * bound, torch.nan, -torch.inf, torch.inf]
    whole = torch.tensor(numbers, dtype=torch.float64).to(dtype).view(3, 4)
    expected = torch.tensor([*(int(n) for n in whole.flatten()[:6].tolist()), *[low] * 6], dtype=made).view(3, 4)
    with repdl.enabled():
        for part in (slice(None), slice(1), 0, (0, 0), (slice(None), slice(1, 2))):  # the last one by Python
            found = [whole[part].to(made), torch.empty_like(whole[part], dtype=made).copy_(whole[part])]
            assert all(torch.equal(f, expected[part]) for f in found)
        wide = torch.empty(2, 3, 4, dtype=made).copy_(whole)  # to more places than there are numbers
        assert all(torch.equal(part, expected) for part in wide)
        turned = torch.empty(4, 3, dtype=made).t().copy_(whole)
        assert torch.equal(turned, expected)
        over = whole.clone()
        if dtype.itemsize == made.itemsize:
            assert torch.equal(over.view(made).copy_(over), expected)
        monkeypatch.setattr(conversions, "_integers", lambda value, made: pytest.fail("in Python"))
        for given in (whole, whole[:1], whole[0, 0]):
            given.to(made)
            torch.empty_like(given, dtype=made).copy_(given)


def test_enable__whole_numbers_are_not_judged(monkeypatch: pytest.MonkeyPatch) -> None:
    """Where the dtype or the memory of the results says that they are integers too."""
    monkeypatch.setattr(refusal, "classify", lambda *args: pytest.fail(f"judged {args}"))
    with repdl.enabled():
        assert torch.arange(7, dtype=torch.int32, device="cpu").tolist() == [*range(7)]
        assert torch.arange(2, 17, 5, out=torch.empty(3, dtype=torch.int64)).tolist() == [2, 7, 12]
        with pytest.raises(pytest.fail.Exception):
            torch.ones(3).to(torch.bfloat16).sgn()


def test_enable__integers_times_a_number() -> None:
    """The number has the dtype that torch gives it, whatever it had before."""
    for i in (torch.arange(3), torch.arange(3, dtype=torch.int32), torch.tensor([True, False]), torch.tensor(3)):
        for number in (2, -1, 2, 300):
            expected = i * number, i + number, i.long() - number
            with repdl.enabled():
                found = i * number, i + number, i.long() - number
            for a, b in zip(found, expected):
                assert a.dtype is b.dtype and torch.equal(a, b)
    with repdl.enabled():
        made = torch.func.vmap(lambda x: x * 2)(torch.arange(3))
        product = torch.arange(3) * 2
        product.add_(1)
        assert (torch.arange(3) * 2).tolist() == made.tolist() == [0, 2, 4]


@pytest.mark.parametrize("name", ["sum", "nansum", "prod", "cumsum", "cumprod"])
def test_enable__integers_of_numbers_with_a_fraction(name: str) -> None:
    x = torch.tensor([[1.5, -2.7, 3.9], [4.0, 5.5, 6.1]])
    for dtype in (torch.int64, torch.int16, torch.uint8):
        expected = getattr(torch, name)(x.to(dtype), 1, dtype=dtype)
        with repdl.enabled():
            assert same(getattr(torch, name)(x, 1, dtype=dtype), expected)
            assert same(getattr(torch, name)(x, 1, dtype=dtype, out=torch.empty_like(expected)), expected)


@pytest.mark.parametrize("made", [torch.bfloat16, torch.float16])
@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_enable__conversions_to_halves_have_one_nan(dtype: torch.dtype, made: torch.dtype) -> None:
    """torch's vectors and its code without them make different ones."""
    x = torch.tensor([[1.5, float("nan")], [-float("nan"), 1e30]]).to(dtype)
    with repdl.enabled():
        for given in (x, x.t(), x[:, :1], x[:, 1:].expand(2, 9)):
            found = [given.to(made), given.to(made, copy=True), torch.empty_like(given, dtype=made).copy_(given)]
            for half in found:
                assert half.stride() == torch.empty_like(given, dtype=made).stride()
                assert set(half[half.isnan()].view(torch.int16).tolist()) <= {
                    0x7FC0 if made is torch.bfloat16 else 0x7E00
                }
                assert torch.equal(half.nan_to_num(7), given.to(torch.float32).to(made).nan_to_num(7))
        leaf = values(5).to(dtype).requires_grad_()
        leaf.to(made).sum().backward()
    assert leaf.grad is not None and leaf.grad.tolist() == [1] * 5


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64, torch.bfloat16, torch.float16])
def test_enable__conversions_to_unsigned_integers(dtype: torch.dtype) -> None:
    x = torch.tensor([1.5, -2.0, 3e9, 2.0**32 - 256, 1e10, 2.0**63, 1.5 * 2.0**63]).to(dtype)
    x = x[x.isfinite()]
    exact = [int(n) for n in x.tolist()]
    undefined = torch.tensor([2.0**64, float("inf"), float("nan")])
    with repdl.enabled():
        for made, bits in ((torch.uint16, 16), (torch.uint32, 32), (torch.uint64, 64)):
            held = [n for n in exact if n < 2**bits]
            assert x[: len(held)].to(made).tolist() == [n % 2**bits for n in held]
            assert torch.empty(len(held), dtype=made).copy_(x[: len(held)]).tolist() == [n % 2**bits for n in held]
        assert undefined.to(torch.uint32).tolist() == [0, 0, 0]
        assert undefined.to(torch.uint64).tolist() == [0, 0, 2**63]


def test_enable__order_of_equal_integers() -> None:
    i = torch.arange(300) % 3  # so many that torch's unstable sort does not keep their order
    for numbers in (i, i.to(torch.uint8), i > 1):
        expected = torch.sort(numbers, stable=True)
        with repdl.enabled():
            found = [torch.sort(numbers), numbers.msort(), numbers.argsort(), torch.sort(numbers, stable=False)]
            out = torch.sort(numbers, out=(torch.empty_like(numbers), torch.empty_like(i)))
        assert torch.equal(found[0][1], expected[1]) and torch.equal(found[1], expected[0])
        assert torch.equal(found[2], expected[1]) and torch.equal(found[3][1], expected[1])
        assert torch.equal(out[1], expected[1]) and torch.equal(out[0], expected[0])
    with repdl.enabled():
        assert i.topk(4).indices.tolist() == [2, 5, 8, 11]
        assert (i.kthvalue(1).indices, i.kthvalue(100).indices, i.kthvalue(101).indices) == (0, 297, 1)
        assert i.max(0).indices == 2 and i.min(0).indices == 0 and i.argmax() == 2
        assert i.mode().indices == ops.mode(i)[1] and i.median(0).indices == ops.median(i, 0)[1]


@pytest.mark.parametrize("dtype", [torch.int64, torch.uint8, torch.bool, torch.float32])
def test_enable__last_of_several_values_of_one_place(dtype: torch.dtype) -> None:
    index, values = torch.arange(40_000) % 2, (torch.arange(40_000) == 39_999).to(dtype)
    with repdl.enabled():
        for write in (
            lambda place: place.index_put_((index,), values),
            lambda place: place.put_(index, values),
            lambda place: torch.ops.aten._index_put_impl_(place, [index], values),
            lambda place: torch.index_put(place, (index,), values),
            lambda place: torch.ops.aten._unsafe_index_put(place, [index], values),
        ):
            assert write(torch.ones(2, dtype=dtype)).tolist() == [0, 1]
        summed = torch.zeros(2, dtype=dtype).index_put_((index,), values, accumulate=True)
    assert summed.tolist() == [0, 1]


def test_enable__integers_with_a_number_that_has_a_fraction() -> None:
    i = torch.arange(1, 100)
    x = i.to(torch.float32)
    with repdl.enabled():
        for found, expected in (
            (i**0.3, ops.pow(x, 0.3)),
            (0.3**i, ops.pow(0.3, x)),
            (i * 0.3, ops.mul(x, 0.3)),
            (i + 0.3, ops.add(x, 0.3)),
            (0.3 - i, ops.sub(0.3, x)),
            (i % 0.3, ops.remainder(x, 0.3)),
            (i / 0.3, ops.div(x, 0.3)),
            (i.clamp(1.5, 7.5), ops.clamp(x, 1.5, 7.5)),
            (i.floor_divide(0.3), ops.floor_divide(x, 0.3)),
        ):
            assert same(found, expected)
        assert torch.equal(i.div(3, rounding_mode="trunc"), i // 3)
        assert torch.equal(i.addcmul(i, i, value=2), i + 2 * i * i)
        for call in (lambda: i.add(i, alpha=0.5), lambda: i.clone().mul_(0.5)):
            with pytest.raises(RuntimeError):
                call()


# Libraries behind ops on integers: oneDNN without VNNI saturates sums of two products of int8 in 16 bits.


def test_enable__products_of_int8_are_exact() -> None:
    with repdl.enabled():
        for m, k, n in ((17, 32, 16), (1, 1, 1), (40, 3000, 8), (3, 0, 2)):
            for low, high in ((127, 128), (-128, -127), (-128, 128)):
                a, b = (torch.randint(low, high, shape, dtype=torch.int8) for shape in ((m, k), (k, n)))
                expected = a.numpy().astype("int32") @ b.numpy().astype("int32")
                assert torch.equal(torch._int_mm(a, b), torch.from_numpy(expected)), (m, k, n)
                out = torch.zeros(m, n, dtype=torch.int32)
                assert torch.equal(torch._int_mm(a, b, out=out), torch.from_numpy(expected))
        with pytest.raises(repdl.RepDLError, match="input.dtype is int32, expected int8"):
            torch._int_mm(a.int(), b)


SWEEP = """
import hashlib, itertools, warnings
import numpy, torch
import repdl
warnings.simplefilter("ignore")
SIZES = (1, 2, 17, 33)

def inputs(dtype, *shape):
    info = torch.iinfo(dtype)
    count = max(1, numpy.prod(shape))
    values = itertools.cycle([info.max, info.min, info.max, 1, info.max - 1, 0, info.min + 1])
    return torch.tensor([next(values) for _ in range(count)], dtype=dtype).reshape(shape)

def calls(dtype):
    a, b, c = inputs(dtype, 17, 33), inputs(dtype, 33, 16), inputs(dtype, 17, 16)
    batch, other = inputs(dtype, 3, 17, 33), inputs(dtype, 3, 33, 16)
    v, w, index = inputs(dtype, 33), inputs(dtype, 33).flip(0), torch.arange(33) % 5
    for x in (a, inputs(dtype, 1000), inputs(dtype, 3)):
        for name in "sum prod nansum max min amax amin aminmax abs neg sign".split():
            yield name, lambda x=x, name=name: getattr(torch, name)(x)
        for name in "cumsum cumprod cummax cummin sort argsort max min".split():
            yield name, lambda x=x, name=name: getattr(torch, name)(x, 0)
    yield from {
        "mm": lambda: a @ b, "bmm": lambda: torch.bmm(batch, other), "addmm": lambda: torch.addmm(c, a, b),
        "addmm beta": lambda: torch.addmm(c, a, b, beta=3, alpha=2), "mv": lambda: torch.mv(a, v),
        "baddbmm": lambda: torch.baddbmm(inputs(dtype, 3, 17, 16), batch, other),
        "addbmm": lambda: torch.addbmm(c, batch, other),
        "addmv": lambda: torch.addmv(inputs(dtype, 17), a, v),
        "dot": lambda: torch.dot(v, w), "vdot": lambda: torch.vdot(v, w), "addr": lambda: torch.addr(a, a[:, 0], v),
        "trace": lambda: torch.trace(a), "matmul": lambda: batch @ other,
        "linear": lambda: torch.nn.functional.linear(a, a),
        "index_add": lambda: torch.zeros(5, dtype=dtype).index_add(0, index, v),
        "scatter_add": lambda: torch.zeros(5, dtype=dtype).scatter_add(0, index, v),
        "scatter_reduce": lambda: torch.zeros(5, dtype=dtype).scatter_reduce(0, index, v, "prod"),
        "bincount": lambda: torch.bincount(v.clamp(0, 100)), "clamp": lambda: v.clamp(-3, 3),
        "addcmul": lambda: torch.addcmul(v, v, w), "floor_divide": lambda: v // 3, "remainder": lambda: v % 7,
        "fmod": lambda: torch.fmod(v, 7), "gcd": lambda: torch.gcd(v, w), "lcm": lambda: torch.lcm(v, w),
        "shift": lambda: torch.stack([v << 1, v >> 1]), "pow": lambda: torch.pow(v, 3),
        "unique": lambda: torch.unique(v),
        "maximum": lambda: torch.maximum(v, w), "minimum": lambda: torch.minimum(v, w),
        "relu": lambda: torch.relu(v),
        "avg": lambda: v.to(torch.int64).sum(), "conv1d": lambda: torch.nn.functional.conv1d(batch, batch[:, :, :3]),
        "conv2d": lambda: torch.nn.functional.conv2d(batch[:, None], batch[:, None, :3, :3]),
        "histc": lambda: torch.histc(v.to(torch.float32), 4), "outer": lambda: torch.outer(v, w),
        "kron": lambda: torch.kron(v, w), "tensordot": lambda: torch.tensordot(a, b, 1),
        "einsum": lambda: torch.einsum("ij,jk", a, b),
    }.items()

def digest(array):
    return hashlib.sha256(array.tobytes()).hexdigest()[:12]

digests = {}
with repdl.enabled():
    for dtype in (torch.uint8, torch.int8, torch.int16, torch.int32, torch.int64):
        for number, (name, call) in enumerate(calls(dtype)):
            try:
                result = call()
            except Exception as error:
                digests[dtype, number, name] = type(error).__name__
                continue
            parts = result if isinstance(result, (tuple, list)) else (result,)
            digests[dtype, number, name] = [digest(p.contiguous().numpy()) for p in parts]
a = inputs(torch.int8, 17, 33).numpy()
product = digest(a @ a.T)
assert [d for (t, _, name), d in digests.items() if name == "linear" and t is torch.int8] == [[product]]
for key, value in digests.items():
    print(*key, value)
"""


def test_enable__integers_whatever_the_libraries_take_the_processor_for() -> None:
    """oneDNN, MKL and torch itself held to a level of instructions each."""
    levels = [
        {"ONEDNN_MAX_CPU_ISA": "SSE41", "MKL_ENABLE_INSTRUCTIONS": "SSE4_2", "ATEN_CPU_CAPABILITY": "default"},
        {"ONEDNN_MAX_CPU_ISA": "AVX2", "MKL_ENABLE_INSTRUCTIONS": "AVX2", "ATEN_CPU_CAPABILITY": "avx2"},
        {"ONEDNN_MAX_CPU_ISA": "AVX512_CORE", "MKL_ENABLE_INSTRUCTIONS": "AVX512"},
        {},
    ]
    started = [
        subprocess.Popen([sys.executable, "-c", SWEEP], env=os.environ | level, stdout=subprocess.PIPE, text=True)
        for level in levels
    ]
    first, *others = [process.communicate(timeout=300)[0].splitlines() for process in started]
    assert all(process.returncode == 0 for process in started) and len(first) > 300
    for level, lines in zip(levels[1:], others):
        assert [pair for pair in zip(first, lines, strict=True) if pair[0] != pair[1]] == [], level


@pytest.mark.parametrize("name", sorted(n for n in dir(torch) if n.startswith("float8_")))
def test_enable__numbers_of_8_bits_become_integers(name: str) -> None:
    """All 256, as the float32 that each is."""
    x = torch.arange(256).to(torch.uint8).view(getattr(torch, name))
    wide = x.to(torch.float32)
    with repdl.enabled():
        for made in (torch.uint8, torch.int8, torch.int16, torch.int32, torch.int64, torch.uint16, torch.uint32):
            expected = wide.to(made)
            for found in (x.to(made), torch.empty(256, dtype=made).copy_(x), x.view(16, 16).t().to(made).t().flatten()):
                assert torch.equal(found.to(torch.int64), expected.to(torch.int64)), made
        assert torch.equal(x.to(torch.uint64).view(torch.int64), wide.to(torch.uint64).view(torch.int64))
        assert torch.equal(x.to(torch.bool), wide != 0)


def _with_a_number(name: str, value: float, dtype: torch.dtype, into: bool) -> tuple[str, torch.Tensor]:
    """What comes of a method that writes, or of the function with `out`: its error, or the tensor."""
    input = torch.tensor([1, 0, 1], dtype=dtype)
    try:
        result = getattr(torch, name.strip("_"))(input, value, out=input) if into else getattr(input, name)(value)
    except Exception as error:
        return type(error).__name__, input
    return "", result


WRITES = [name for name in dir(torch.Tensor) if name.endswith("_") and not name.startswith("_")]
WRITES += ["__iand__", "__ior__", "__ixor__", "__ilshift__", "__irshift__", "__ifloordiv__", "__imod__"]
DRAWS = {"bernoulli_", "cauchy_", "exponential_", "geometric_", "log_normal_", "normal_", "random_", "uniform_"}


@pytest.mark.parametrize("dtype", [torch.int32, torch.bool])
def test_enable__numbers_where_a_tensor_is_written(dtype: torch.dtype) -> None:
    """`x ^= 1` reaches an op whose second argument is a tensor, of which Python gets the number."""
    names = sorted({*WRITES} - DRAWS)
    calls = [(name, value, into) for name in names for value in (1, 2) for into in (False, True)]
    calls = [call for call in calls if not call[2] or hasattr(torch, call[0].strip("_"))]
    expected = [_with_a_number(name, value, dtype, into) for name, value, into in calls]
    with repdl.enabled():
        found = [_with_a_number(name, value, dtype, into) for name, value, into in calls]
    compared = 0
    for call, (plain_error, plain), (error, result) in zip(calls, expected, found):
        if error != "UnsupportedError":
            assert error == plain_error, call
            assert isinstance(result, torch.Tensor) is isinstance(plain, torch.Tensor), call
            if isinstance(result, torch.Tensor):
                assert torch.equal(result, plain), call
            compared += not error
    assert compared > 40


FLOATS_OF_INTEGERS: dict[str, Callable[[Any, torch.Tensor], torch.Tensor]] = {
    "sum": lambda m, x: m.sum(x, dtype=torch.float32),
    "sum of rows": lambda m, x: m.sum(x, 1, dtype=torch.float32),
    "mean": lambda m, x: m.mean(x, dtype=torch.float32),
    "prod": lambda m, x: m.prod(x % 7, 1, dtype=torch.float32),
    "cumsum": lambda m, x: m.cumsum(x, 1, dtype=torch.float32),
    "cumprod": lambda m, x: m.cumprod(x % 7, 1, dtype=torch.float32),
    "nansum": lambda m, x: m.nansum(x, 1, dtype=torch.float32),
    "softmax": lambda m, x: m.softmax(x % 50, 1, dtype=torch.float32),
    "log_softmax": lambda m, x: m.log_softmax(x % 50, 1, dtype=torch.float32),
}


@pytest.mark.parametrize("name", FLOATS_OF_INTEGERS)
@pytest.mark.parametrize("dtype", [torch.int64, torch.int32, torch.uint8, torch.bool])
def test_enable__integers_with_the_dtype_of_a_float(name: str, dtype: torch.dtype) -> None:
    """They are no integers any more: RepDL's order."""
    x = torch.arange(3 * 1000).reshape(3, 1000).mul(1_000_003).remainder(2**31 - 1).to(dtype)
    expected = FLOATS_OF_INTEGERS[name](ops, x)
    with repdl.enabled():
        assert same(FLOATS_OF_INTEGERS[name](torch, x), expected)
