"""What Python may call of the kit in C, called as nobody does: an exception each time, and the next call works."""

from __future__ import annotations

import copy
import gc
import weakref
from collections.abc import Callable, Iterator
from dataclasses import fields, is_dataclass, replace
from types import SimpleNamespace
from typing import Any

import pytest
import torch

from repdl import callcache, ops, registry
from repdl.callcache import c_extension, cache_variable_scalars
from repdl.callcache.plan import Check, Outcome, Plan, Result, Span, Step
from repdl.settings.generation import GENERATION
from repdl.testing.compare import assert_same_bits
from repdl_cpu.isa import native

pytestmark = pytest.mark.skipif(c_extension() is None, reason="torch < 2.10 has no DLPack exchange API")


def identity(*args: Any, **kwargs: Any) -> Any:
    return args[0]


def results(returned: Any, *args: Any, variable_scalars: bool = True, calls: int = 3) -> list[Any]:
    """Of some calls; what records them returns that."""
    call = c_extension().Call(identity, lambda *given: returned, [object()], variable_scalars)
    return [call(*args) for _ in range(calls)]


class _NoTruth:
    def __bool__(self) -> bool:
        raise ZeroDivisionError


class _Function:
    """Called, but no descriptor."""

    def __call__(self, *args: Any) -> str:
        return "called"


def misuses() -> dict[str, Callable[[], Any]]:
    """What it is -> calls that raise."""
    t, cell = torch.ones(3), [object()]
    C, R, S = c_extension().Call, c_extension().Recording, c_extension().Shortcut
    kernel = native().kernels["neg", "float32"]
    at = 1, 0, 0
    emptied = C(identity, identity, cell := [object()])
    cell.clear()
    empty = R(Plan())
    context = SimpleNamespace(saved_tensors=[1], shared=SimpleNamespace(derivative=identity))
    return {
        "Call, no generation": lambda: C(identity, identity, []),
        "Call, two generations": lambda: C(identity, identity, [1, 2]),
        "Call, a tuple": lambda: C(identity, identity, (1,)),
        "Call, no function": lambda: C(1, identity, [1]),
        "Call, no record": lambda: C(identity, 1, [1]),
        "Call, a keyword": lambda: C(identity, identity, [1], numbers=True),
        "Call, nothing": lambda: C(),
        "an empty generation": lambda: emptied(t),
        "an empty generation, recordings": lambda: emptied.recordings,
        "record returns nothing": lambda: results(None, t),
        "record returns a tuple": lambda: results((1, None), t),
        "record returns a result": lambda: results(SimpleNamespace(result=1), t),
        "record returns no recording": lambda: results(Outcome(t, 3), t),
        "record returns a number for a bool": lambda: results(Outcome(t, needs_scalars=3), t),  # type: ignore[arg-type]
        "is_variable of a text": lambda: C.is_variable("x"),
        "is_variable of nothing": lambda: C.is_variable(),
        "allow": lambda: S.allow(_NoTruth()),
        "del __wrapped__": lambda: delattr(ops.add, "__wrapped__"),
        "__wrapped__ = 3": lambda: setattr(ops.add, "__wrapped__", 3),
        "a kernel made": lambda: type(kernel)(),
        "a kernel made by object": lambda: object.__new__(type(kernel)),
        "a kernel copied": lambda: copy.copy(kernel).layout,
        "a kernel, nothing": lambda: kernel(),
        "a kernel, a list": lambda: kernel([t], (t,), at, t),
        "a kernel, an object": lambda: kernel((object(),), (t,), at, t),
        "a kernel, a list of objects": lambda: kernel(([object()],), (t,), at, t),
        "a kernel, a list of integers and a text": lambda: kernel(([1, "x"],), (t,), at, t),
        "a kernel, a pair": lambda: kernel(((1, 2),), (t,), at, t),
        "a kernel, texts for a contract": lambda: kernel((("a", "b", "c"),), (t,), at, t),
        "a kernel, no threads": lambda: kernel((t,), (t,), (0, 0, 0), t),
        "a kernel, texts": lambda: kernel((t,), (t,), ("1", 0, 0), t),
        "a kernel, two outputs": lambda: kernel((t,), (t, t), at, t),
        "a kernel, complex": lambda: kernel((torch.ones(3, dtype=torch.complex64),), (t,), at, t),
        "a kernel, no memory": lambda: kernel((without_memory(),), (t,), at, t),
        "a kernel, a keyword": lambda: kernel((t,), (t,), at, t, like=t),
        "Recording, nothing": lambda: R(),
        "Recording, a keyword": lambda: R(plan=Plan()),
        "forward, no recording": lambda: R.forward(1, 2),
        "forward, nothing": lambda: R.forward(),
        "forward, too many": lambda: R.forward(*range(99)),
        "forward, no gradient": lambda: R.forward(context, t, empty),
        "backward, nothing": lambda: R.backward(),
        "backward, no context": lambda: R.backward(1),
        "backward, a list": lambda: R.backward(context, t),
        "backward, too many": lambda: R.backward(SimpleNamespace(**{**vars(context), "saved_tensors": (t,) * 200})),
        "GuardedFunction, no function": lambda: c_extension().GuardedFunction("floating", 1, identity),
        "GuardedFunction, no guard": lambda: c_extension().GuardedFunction("none", identity, identity),
        "GuardedFunction, a keyword": lambda: c_extension().GuardedFunction("floating", identity, identity, x=1),
        **{
            f"GuardedFunction, integers that are {name}": lambda made=made: c_extension().GuardedFunction(
                "conversion to integers", lambda *a, **k: made, _Function()
            )(None, t, dtype=torch.int32)
            for name, made in {"bytes": t.to(torch.int8), "fewer": t[:2].int(), "a text": "x", "floats": t}.items()
        },
    }  # fmt: skip


def without_memory() -> torch.Tensor:
    tensor = torch.ones(3)
    tensor.untyped_storage().resize_(0)
    return tensor


REFUSED = TypeError, ValueError, RuntimeError, AttributeError, ZeroDivisionError


def error_of(call: Callable[[], Any]) -> str:
    try:
        call()
    except REFUSED as error:
        return f"{type(error).__name__}: {error}"
    return ""


def test_kit__misuse() -> None:
    assert_same_bits(ops.add(torch.ones(3), 1.0), torch.full((3,), 2.0), "before")
    for name, misuse in misuses().items():
        for _ in range(2):
            assert error_of(misuse), name
        assert_same_bits(ops.add(torch.ones(3), 1.0), torch.full((3,), 2.0), name)


def test_kit__numbers_in_lists() -> None:
    """Both readings of such a call are one, as 1 is never free."""
    call: Any = cache_variable_scalars(lambda t, numbers, factor=1.0: ops.mul(t, numbers[0] * factor))
    t = torch.arange(3.0)
    for numbers in ([1.0], [2.5], [1.0], [0.0], (1.0,)):
        for _ in range(4):
            assert_same_bits(call(t, numbers), t * numbers[0], str(numbers))
            assert_same_bits(call(t, numbers, 0.5), t * (numbers[0] * 0.5), str(numbers))


def test_kit__a_signature_with_its_scalars_needs_no_others() -> None:
    t, outcome = torch.ones(3), Outcome(5, needs_scalars=True)
    assert [result is t for result in results(outcome, t, variable_scalars=False)] == [True, False, True]
    assert [result is t for result in results(outcome, t, calls=5)] == [True, False, True, False, True]


def test_kit__wrapped() -> None:
    """A function that is set is what is called, recorded or not."""
    t, call = torch.tensor([1.0, 2.0]), callcache.cache_calls(lambda t: ops.exp(t))
    for _ in range(3):
        call(t)
    assert call.recordings == 1
    call.__wrapped__ = lambda t: ops.neg(t)
    assert call.recordings == 0
    for _ in range(4):
        assert call(t).tolist() == [-1.0, -2.0]
    shortcut: Any = c_extension().Shortcut(_Function(), identity, [object()])
    assert shortcut.__get__(t, type(t))() == "called"


def test_kit__function_set_while_it_runs() -> None:
    def first(t: torch.Tensor) -> str:
        call.__wrapped__ = identity
        gc.collect()
        return "first"

    call = c_extension().Call(first, identity, [object()])
    del first
    assert call(torch.ones(1)) == "first"
    assert call(2) == 2


def test_kit__what_is_recorded_is_collected() -> None:
    """A check that holds its call: a circle through what was recorded."""

    class Owner:
        def check(self, *args: Any) -> None:
            pass

    owner: Any = Owner()
    owner.call = c_extension().Call(identity, lambda *args: Outcome(None, made[0]), [object()])
    made = [c_extension().Recording(Plan(checks=(Check(owner.check, (), None),)))]
    t = torch.ones(3)
    for _ in range(3):
        owner.call(t)
    assert owner.call.recordings == 1
    gone = weakref.ref(owner)
    del owner
    made.clear()
    gc.collect()
    assert gone() is None


def test_kit__lists_that_change_while_a_call_runs() -> None:
    """A check empties the list: the kernel has its tensors all the same."""
    t, given = torch.arange(4.0), []
    check = lambda *args: given.clear()
    step = Step(native().kernels["neg", "float32"], (t,), (t,), (Span(0), Span(1)), (), 1, 0)
    checks, outputs = (Check(check, (), None),), (torch.empty(4),)
    made = c_extension().Recording(Plan((step,), checks, outputs=outputs, results=(Result("new", 0),)))
    call = c_extension().Call(identity, lambda *args: Outcome(None, made), [object()])
    for _ in range(4):
        given[:] = [torch.arange(4.0)]
        result = call(given)
    assert result.tolist() == [-0.0, -1.0, -2.0, -3.0] and not given


Path = tuple[Any, ...]
"""Names of fields, and indices of items."""


def parts(value: Any, path: Path = ()) -> Iterator[tuple[Path, Any]]:
    yield path, value
    if type(value) is tuple:
        for i, item in enumerate(value):
            yield from parts(item, (*path, i))
    elif is_dataclass(value):
        for field in fields(value):
            yield from parts(getattr(value, field.name), (*path, field.name))


def replaced(value: Any, path: Path, by: Any) -> Any:
    if not path:
        return by
    first, *rest = path
    if is_dataclass(value) and not isinstance(value, type):
        return replace(value, **{first: replaced(getattr(value, first), tuple(rest), by)})
    items = list(value)
    items[first] = replaced(items[first], tuple(rest), by)
    return tuple(items)


def others(value: Any) -> list[Any]:
    if is_dataclass(value):
        return [None, 3, (), Span(0), SimpleNamespace()]
    if type(value) is tuple:
        return [None, 3, list(value), (*value, None), (*value, ((),)), value[:-1], (None,) * len(value), ()]
    if type(value) is int:
        return ["x", None, -7, 10**6, 2**62, 2**70, 1.5]
    return [None, 3, "x", ()]


def is_index(path: Path, plan: Plan) -> bool:
    """Of a tensor, a source of memory, a scalar or an output: one that there is not must never be looked at."""
    if path[0] == "results" and plan.results[path[1]].kind == "none":
        return False
    return path[-1] in ("tensor", "source", "target", "scalar", "constant", "index", "output") or "changed" in path


def recorded(monkeypatch: pytest.MonkeyPatch) -> list[tuple[str, tuple[Any, ...], Plan]]:
    """Calls of each kind: their name, their tensors and numbers, and their plan."""
    passed: list[Any] = []
    real = c_extension()

    def keep(plan: Plan) -> Any:
        passed.append(plan)
        return real.Recording(plan)

    monkeypatch.setattr(callcache.call, "c_extension", lambda: SimpleNamespace(Recording=keep, Call=real.Call))
    t, g = torch.rand(4, 3) + 1, torch.rand(4, 3, requires_grad=True)
    mean, variance, images = torch.zeros(3), torch.ones(3), torch.rand(2, 3, 4, 4)
    dropout: Any = registry.functions.dropout
    calls: list[tuple[Any, ...]] = [
        (ops.mul, t, 2.5),
        (ops.exp, t),
        (ops.exp, g),
        (ops.layer_norm, g, [3]),
        (ops.cross_entropy, t, torch.tensor([0, 1, 2, 0])),
        (ops.softmax, t, 1),
        (dropout, t, torch.zeros(3, dtype=torch.int64), 0.5),
    ]
    result = []
    sgd: Any = registry.functions.sgd_step
    step = [t.clone()], [t.clone()], [t.clone()], 0.1, 0.01, 0.9, 0.0, False, False, False
    with torch.enable_grad():
        for function, *args in [*calls, (ops.batch_norm, images, mean, variance, None, None, True), (sgd, *step)]:
            passed.clear()
            GENERATION.advance()
            for _ in range(2):
                function(*args)
            assert passed, function
            result.append((str(function), tuple(args), passed[-1]))
    return result


def test_kit__recordings_of_anything(monkeypatch: pytest.MonkeyPatch) -> None:
    """Whatever a part of a recording is replaced by: it is refused, where it is made or where it is called."""
    tried = indices = 0
    for name, args, given in recorded(monkeypatch):
        for path, value in parts(given):
            for other in others(value):
                tried += 1
                try:
                    made = c_extension().Recording(replaced(given, path, other))
                except (*REFUSED, OverflowError):
                    continue
                if type(value) is int and type(other) is int and other >= 10**6 and is_index(path, given):
                    indices += 1
                    with pytest.raises((ValueError, TypeError), match="Recording|a node of autograd"):
                        results(Outcome(None, made), *args)
                        pytest.fail(f"{name}: {path} was {value}, is {other}")
    assert tried > 1000 and indices > 20
