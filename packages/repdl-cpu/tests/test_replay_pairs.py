"""Two calls that must not share a recording: each differs from one that was recorded in one word of its signature.

A word is the dtype, a stride, a size or the gradient of one tensor, which tensor is given twice, one number, its sign
or its type, a text, a flag, the name of an argument, and what is around the call: modes, a thread, a task, a scope. The
variants of a call are generated, run one after the other while all recordings before are kept, in this order and in
the reverse one, and compared with the function itself, of which nothing is recorded.
"""

from __future__ import annotations

import asyncio
import contextlib
import inspect
import math
import threading
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from typing import Any

import pytest
import torch

import repdl
from repdl import ops, registry
from repdl.callcache import c_extension, cache_calls
from repdl.settings.generation import GENERATION
from repdl.testing.cases import Case, cases
from repdl.testing.compare import assert_same_bits, bits, outputs

pytestmark = [
    pytest.mark.skipif(c_extension() is None, reason="torch < 2.10 has no DLPack exchange API"),
    pytest.mark.filterwarnings("ignore::UserWarning"),
]

Tensor = torch.Tensor
Around = Callable[[], AbstractContextManager[Any]]


def x(*shape: int) -> Tensor:
    return torch.randn(*shape, generator=torch.Generator().manual_seed(sum(shape))) + 3


def other(value: Tensor) -> Tensor:
    """Other values in the same layout."""
    made = torch.empty_strided(value.shape, value.stride(), dtype=value.dtype)
    return made.copy_(value.flip(-1) if value.dim() else value).mul_(0.75).requires_grad_(value.requires_grad)


# ---- Variants of an argument


class Own(Tensor):
    """A subclass, of which nothing is recorded."""


def of_tensor(t: Tensor) -> Iterator[tuple[str, Any]]:
    grad = t.requires_grad
    if not t.is_floating_point():
        yield "int32", t.to(torch.int32)
        return
    plain = t.detach()
    for dtype in (torch.float64, torch.bfloat16, torch.float16):
        yield str(dtype), plain.to(dtype).requires_grad_(grad)
    yield "gradient", plain.clone().requires_grad_(not grad)
    yield "parameter", torch.nn.Parameter(plain.clone(), grad)
    yield "subclass", plain.clone().as_subclass(Own)
    yield "negative bit", torch._neg_view(plain.neg())
    with torch.inference_mode():
        yield "of inference mode", plain.clone()
    yield "at an offset", torch.cat([plain.flatten()[:1], plain.flatten()])[1:].view(t.shape).requires_grad_(grad)
    yield "a dimension more", plain[None].clone().requires_grad_(grad)
    for d in range(t.dim()):
        yield f"stride of dimension {d}", plain.repeat_interleave(2, d).unfold(d, 1, 2)[..., 0].requires_grad_(grad)
        yield f"repeated along {d}", plain.narrow(d, 0, 1).expand(t.shape).requires_grad_(grad)
        yield f"size of {d}", plain.narrow(d, 0, t.shape[d] - 1).clone().requires_grad_(grad)
        yield f"no element along {d}", plain.narrow(d, 0, 0).clone().requires_grad_(grad)
        if t.shape[d] == 1:
            strides = [1 if i == d else s for i, s in enumerate(t.stride())]
            yield f"stride of the one element of {d}", plain.clone().as_strided(t.shape, strides).requires_grad_(grad)
    if t.dim() > 1:
        yield "transposed memory", plain.mT.contiguous().mT.requires_grad_(grad)


def of_number(n: float) -> Iterator[tuple[str, Any]]:
    if isinstance(n, bool):
        yield from (("the other flag", not n), ("an integer", int(n)))
    elif isinstance(n, int):
        yield from (("one more", n + 1), ("a real number", float(n)), ("minus", -n - 1), ("a flag", bool(n)))
    else:
        special = (0.0, -0.0, 1.0, -1.0, 2.0, math.inf, -math.inf, math.nan, 2.0**-149, 2.0**-126, 2.0**127, 0.61)
        yield from ((str(value), value) for value in (-n, math.nextafter(n, 9), *special))
        yield from (("an integer", 3), ("a flag", True), ("a tensor", torch.tensor(n)))


def of_value(value: Any) -> Iterator[tuple[str, Any]]:
    if isinstance(value, Tensor):
        yield from of_tensor(value)
    elif isinstance(value, (int, float)):
        yield from of_number(value)
    elif isinstance(value, str):
        yield from ((text, text) for text in ("sequential", "v1", "sum", "mean", "none", "") if text != value)
        for one, other in {"256": "128", "64": "32", "1024": "2048"}.items():  # as long, and the same at its beginning
            if one in value:
                yield value.replace(one, other), value.replace(one, other)
    elif isinstance(value, torch.dtype):
        yield from ((str(dtype), dtype) for dtype in (torch.float32, torch.bfloat16, torch.float64) if dtype != value)
    elif isinstance(value, (list, tuple)) and all(isinstance(v, (int, float)) for v in value):
        yield "a tuple or a list", [*value] if isinstance(value, tuple) else (*value,)
        yield "one more", [*value, *value[-1:]]
        for i, item in enumerate(value):
            yield from ((f"[{i}] {says}", [*value[:i], n, *value[i + 1 :]]) for says, n in of_number(item))


def variants(function: Any, args: list[Any], named: dict[str, Any]) -> Iterator[tuple[str, list[Any], dict[str, Any]]]:
    """What is said of a call, and its arguments: each differs in one word from those given."""
    count = len(args)

    def call(says: str, values: list[Any]) -> tuple[str, list[Any], dict[str, Any]]:
        return says, values[:count], dict(zip(named, values[count:]))

    values = [*args, *named.values()]
    for i, value in enumerate(values):
        for says, varied in of_value(value):
            yield call(f"argument {i}: {says}", [*values[:i], varied, *values[i + 1 :]])
        yield call(f"argument {i}: None", [*values[:i], None, *values[i + 1 :]])
    tensors = [i for i, value in enumerate(values) if isinstance(value, Tensor)]
    for j in tensors:
        for i in (i for i in tensors if i < j and values[i].dtype is values[j].dtype):
            if values[i].shape == values[j].shape:
                yield call(f"argument {j} is argument {i}", [*values[:j], values[i], *values[j + 1 :]])
                yield call(f"argument {j} is memory of {i}", [*values[:j], values[i].detach(), *values[j + 1 :]])
    for dtype in (torch.float64, torch.bfloat16):
        floating = [isinstance(v, Tensor) and v.is_floating_point() for v in values]
        yield call(f"all {dtype}", [v.detach().to(dtype) if f else v for v, f in zip(values, floating)])
    names = [*inspect.signature(function).parameters]
    for i in range(1, min(count, len(names))):
        yield f"by name from {names[i]} on", args[:i], dict(zip(names[i:], args[i:])) | named


# ---- What is around a call


@contextmanager
def scope_elsewhere() -> Iterator[None]:
    """A scope that another thread has opened, and this one does not see."""
    entered, done = threading.Event(), threading.Event()

    def hold() -> None:
        with repdl.use_contract("sequential"):
            entered.set()
            done.wait()

    thread = threading.Thread(target=hold)
    thread.start()
    entered.wait()
    try:
        yield
    finally:
        done.set()
        thread.join()


@contextmanager
def threads(count: int) -> Iterator[None]:
    before = torch.get_num_threads()
    torch.set_num_threads(count)
    try:
        yield
    finally:
        torch.set_num_threads(before)


AROUND: dict[str, Around] = {
    "no_grad": torch.no_grad,
    "inference_mode": torch.inference_mode,
    "one thread": lambda: threads(1),
    "three threads": lambda: threads(3),
    "another contract": lambda: repdl.use_contract("sequential"),
    "another backend": lambda: repdl.use_backend("reference"),
    "a scope of another thread": scope_elsewhere,
    "autocast": lambda: torch.autocast("cpu", torch.bfloat16),
}


def in_thread(call: Callable[[], Any]) -> Any:
    result: list[Any] = []
    thread = threading.Thread(target=lambda: result.append(call()))
    thread.start()
    thread.join()
    return result[0]


def in_task(call: Callable[[], Any]) -> Any:
    """While another task of this thread has a scope open."""

    async def hold(entered: asyncio.Event, done: asyncio.Event) -> None:
        with repdl.use_contract("sequential"):
            entered.set()
            await done.wait()

    async def both() -> Any:
        entered, done = asyncio.Event(), asyncio.Event()
        task = asyncio.create_task(hold(entered, done))
        await entered.wait()
        try:
            return call()
        finally:
            done.set()
            await task

    return asyncio.run(both())


WAYS: dict[str, Callable[[Callable[[], Any]], Any]] = {"another thread": in_thread, "a task": in_task}


# ---- What came out


def shown(t: Tensor) -> tuple[Any, ...]:
    if t.dtype.is_complex or t.layout is not torch.strided:
        return (str(t),)
    name = type(t).__name__
    return name, t.dtype, t.shape, t.stride(), t.requires_grad, t.is_inference(), bits(t.resolve_neg()).tolist()


def outcome(function: Callable[..., Any], args: list[Any], named: dict[str, Any]) -> Any:
    """Results and gradients, with all that can be seen of them, or an error."""
    given = [a for a in (*args, *named.values()) if isinstance(a, Tensor)]
    leaves = list({id(t): t for t in given if t.requires_grad}.values())
    try:
        result = function(*args, **named)
        found = outputs(result) if isinstance(result, (Tensor, tuple)) else []
        is_given = [next((i for i, t in enumerate(given) if t is r), -1) for r in found]
        seen = [type(result).__name__, is_given, [shown(r) for r in found]]
        sources = [r for r in found if r.requires_grad and r.is_floating_point()]
        if leaves and sources and torch.is_grad_enabled():
            weights = [torch.linspace(-1, 2, s.numel(), dtype=s.dtype).view(s.shape) for s in sources]
            grads = torch.autograd.grad(sources, leaves, weights, allow_unused=True)
            seen.append([None if g is None else shown(g) for g in grads])
        return seen
    except Exception as error:
        return f"{type(error).__name__}: {error}".partition("\n")[0]


def of_function(function: Any, args: list[Any], named: dict[str, Any]) -> Any:
    """The same, while nothing is replayed anywhere."""
    GENERATION.hold(1)
    try:
        return outcome(function.__wrapped__, args, named)
    finally:
        GENERATION.hold(-1)


def check(
    name: str,
    function: Any,
    args: list[Any],
    kwargs: dict[str, Any],
    fits: Callable[[str], bool] = lambda says: True,
) -> int:
    """All variants after one another. How many recordings there were at once."""
    most = 0
    calls = [
        (says, given, named, contextlib.nullcontext)
        for says, given, named in variants(function.__wrapped__, args, kwargs)
    ]
    calls = [call for call in calls if fits(call[0])]
    calls += [(says, args, kwargs, around) for says, around in AROUND.items()]
    calls = [("the call", args, kwargs, contextlib.nullcontext), *calls]
    wanted = []
    for _, given, named, around in calls:
        with around():
            wanted.append(of_function(function, given, named))
    assert not isinstance(wanted[0], str), f"{name}: {wanted[0]}"
    for order in (1, -1):
        GENERATION.advance()
        for _ in range(2):
            for (says, given, named, around), expected in [*zip(calls, wanted)][::order]:
                with around():
                    for n in range(2):
                        seen = outcome(function, given, named)
                        assert seen == expected, f"{name}, {says}, call {n}, order {order}: {seen}, expected {expected}"
            most = max(most, function.recordings)
        for says, way in WAYS.items():
            for _ in range(2):
                seen = way(lambda: outcome(function, args, kwargs))
                assert seen == wanted[0], f"{name}, in {says}: {seen}, expected {wanted[0]}"
    return most


A, B, C = x(3, 4), other(x(3, 4)), x(3, 4) * 0.5
CALLS: dict[str, tuple[list[Any], dict[str, Any]]] = {
    "addcmul": ([A, B, C], {"value": 0.5}),
    "addcdiv": ([A, B, C], {"value": -0.5}),
    "add": ([A, B], {"alpha": 0.5}),
    "lerp": ([A, B, 0.3], {}),
    "mul": ([A, 0.7], {}),
    "where": ([A > 3, B, C], {}),
    "clamp": ([A, 2.5, 3.5], {}),
    "pow": ([A, 3], {}),
    "leaky_relu": ([A, 0.1], {}),
    "sum": ([A, 1, True], {"dtype": torch.float32}),
    "norm": ([A, 2.0, [1]], {}),
    "softmax": ([A, 1], {}),
    "mm": ([x(3, 3), other(x(3, 3))], {}),
    "linear": ([A, B, x(3)], {}),
    "mv": ([x(3, 2000), x(2000)], {"contract": "dot_chunk=256,sum_lanes=64,sum_block=1024"}),
    "layer_norm": ([A, [4], x(4), other(x(4)), 1e-5], {}),
    "cross_entropy": ([A, torch.tensor([0, 3, 1])], {"weight": x(4), "reduction": "mean"}),
    "nll_loss": ([A, torch.tensor([0, 3, 1])], {"weight": x(4), "reduction": "sum"}),
    "mse_loss": ([A, B], {"reduction": "sum"}),
    "conv2d": ([x(2, 1, 5, 4), x(2, 1, 2, 2)], {}),
    "max_pool2d": ([x(2, 1, 5, 4), 2], {}),
    "conv1d": ([x(1, 2, 5), x(2, 2, 2), x(2), 1, 0], {}),
    "gather": ([A, 1, torch.tensor([[0, 2], [1, 1], [3, 0]])], {}),
    "huber_loss": ([A, B], {"reduction": "mean", "delta": 0.5}),
}


@pytest.mark.parametrize("gradients", [False, True])
def test_pairs__of_public_functions(gradients: bool) -> None:
    recorded = {}
    for name, (args, named) in CALLS.items():
        floating = [gradients and isinstance(a, Tensor) and a.is_floating_point() for a in args]
        given = [a.clone().requires_grad_() if f else a for a, f in zip(args, floating)]
        recorded[name] = check(name, getattr(ops, name), given, named)
    assert sum(most > 10 for most in recorded.values()) > 14, recorded


NUMBERS: dict[str, tuple[list[Any], dict[str, float]]] = {
    "add": ([A, 0.5], {"alpha": 0.25}),
    "sub": ([A, 0.5], {"alpha": 0.25}),
    "clamp": ([A, 0.25], {"max": 0.5}),
    "elu": ([A], {"alpha": 0.5}),
    "hardtanh": ([A], {"min_val": 0.25, "max_val": 0.5}),
    "softplus": ([A - 3], {"beta": 0.5, "threshold": 0.25}),
    "threshold": ([A], {"threshold": 0.25, "value": 0.5}),
}
"""Calls with several numbers."""


@pytest.mark.parametrize("name", NUMBERS)
def test_pairs__numbers_that_were_equal(name: str) -> None:
    """A call that was recorded with all its numbers equal, and then others that differ; numbers that were mirrored."""
    args, named = NUMBERS[name]
    function = getattr(ops, name)
    for first in ((0.5,) * 5, (0.5, -0.5) * 3, (-0.75,) * 5):
        GENERATION.advance()
        equal = iter(first)
        same = [next(equal) if type(a) is float else a for a in args], {key: next(equal) for key in named}
        for given, names in (same, same, same, (args, named), (args, {key: 2 * n for key, n in named.items()}), same):
            expected, seen = of_function(function, given, names), outcome(function, given, names)
            assert seen == expected, f"{given[1:]}, {names}, recorded with {first}: {seen}, expected {expected}"


def in_one_memory(args: list[Any]) -> list[Any]:
    """The same, whose floating-point tensors lie one behind the other."""
    tensors = [a.detach() for a in args if isinstance(a, Tensor) and a.is_floating_point()]
    memory = iter(torch.cat([t.flatten() for t in tensors]).split([t.numel() for t in tensors]))
    return [next(memory).view(a.shape) if isinstance(a, Tensor) and a.is_floating_point() else a for a in args]


@cache_calls
def flattened(a: Tensor, b: Tensor) -> Tensor:
    return ops.add(a.reshape(-1), b.reshape(-1)[::2].repeat(2))


def test_pairs__of_tensors_that_lie_in_one_memory() -> None:
    """Before or after others that do not; a view that a function takes is of one of them alone."""
    of_views = {"matmul": [x(2, 3, 4), x(4, 3)], "linear": [x(2, 3, 4), x(5, 4), x(5)], "bmm": [x(2, 3, 4), x(2, 4, 3)]}
    calls = [(getattr(ops, name), args) for name, args in of_views.items()]
    calls += [(flattened, [A, B]), *((getattr(ops, name), args) for name, (args, named) in CALLS.items() if not named)]
    for function, args in calls:
        apart, beside = [other(a) if isinstance(a, Tensor) and a.is_floating_point() else a for a in args], args
        pair = (in_one_memory(beside), apart)
        for order in (1, -1):
            GENERATION.advance()
            for given in pair[::order]:
                expected = of_function(function, given, {})
                for n in range(4):
                    seen = outcome(function, given, {})
                    assert seen == expected, (
                        f"{function.__name__}, call {n}, order {order}: {seen}, expected {expected}"
                    )


def test_pairs__of_names() -> None:
    """An argument as each of those that a function has in its place and behind it; nothing else differs."""
    for name, (args, _) in CALLS.items():
        function = getattr(ops, name)
        for i in {1, len(args) - 1}:
            calls = [{later: args[i]} for later in [*inspect.signature(function).parameters][i:]]
            wanted = [of_function(function, args[:i], named) for named in calls]
            for order in (1, -1):
                GENERATION.advance()
                for named, expected in [*zip(calls, wanted)][::order]:
                    for n in range(3):
                        seen = outcome(function, args[:i], named)
                        assert seen == expected, f"{name}, argument {i} as {[*named]}, call {n}, order {order}: {seen}"


def smallest() -> Iterator[Case]:
    """Of each op the case with the fewest elements, which has some in each tensor."""
    found: dict[str, tuple[int, Case]] = {}
    for case in cases():
        op = registry.OPS[case.op]
        if case.derived or op.mutates or not hasattr(getattr(registry.functions, case.op), "recordings"):
            continue
        sizes = [a.numel() for a in case.args() if isinstance(a, Tensor)]
        if min(sizes) > 0 and (case.op not in found or (max(sizes) > 1) * sum(sizes) < found[case.op][0]):
            found[case.op] = sum(sizes), case
    return iter(case for _, case in found.values())


OF_OPS = (
    "torch.",
    "gradient",
    "parameter",
    "negative",
    "mode",
    "offset",
    "stride",
    "repeated",
    "memory",
    " is argument",
)
"""Variants of registered ops, which take the sizes that functions and derivatives give them."""


@pytest.mark.nightly
def test_pairs__of_every_op() -> None:
    for case in smallest():
        args = [a.clone() if isinstance(a, Tensor) else a for a in case.args()]
        function = getattr(registry.functions, case.op)
        check(str(case), function, args, {}, lambda says: any(word in says for word in OF_OPS))


def test_pairs__before_and_after_a_setting_that_changes_while_a_call_is_recorded() -> None:
    a, b = x(1, 3000), x(3000, 1)
    ops.mm(a, b)  # which loads backends
    changes = iter((False, True, False, False))

    @cache_calls
    def product(a: Tensor, b: Tensor) -> Tensor:
        result = ops.mm(a, b)
        if next(changes):
            repdl.set_contract("sequential")
        return result

    try:
        seen = [product(a, b) for _ in range(4)]
    finally:
        repdl.set_contract("v1")
    for n, contract in enumerate(("v1", "v1", "sequential", "sequential")):
        assert_same_bits(seen[n], ops.mm(a, b, contract=contract), f"call {n}")


def test_pairs__of_lists_that_end_at_another_item() -> None:
    """As many arguments, of the same items in the same order."""
    image, weight = x(1, 1, 6, 6), x(1, 1, 2, 2)
    calls: list[list[Any]] = [[[2], 1, [1, 1]], [[2, 1], [1], 1], [2, [1, 1], [1]]]
    wanted = [of_function(ops.conv2d, [image, weight, None, *sizes], {}) for sizes in calls]
    for order in (calls, calls[::-1]):
        GENERATION.advance()
        for sizes in order:
            for _ in range(4):
                seen = outcome(ops.conv2d, [image, weight, None, *sizes], {})
                assert seen == wanted[calls.index(sizes)], sizes
