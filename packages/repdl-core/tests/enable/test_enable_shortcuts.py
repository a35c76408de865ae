"""`repdl.enable`: methods of tensors that are replayed before torch sees the call."""

from __future__ import annotations

import copy
import inspect
import pickle
import re
import threading
from collections.abc import Callable, Iterator, Sequence
from typing import Any
from unittest.mock import patch

import pytest
import torch
from enabling import same, values
from torch.overrides import TorchFunctionMode
from torch.utils._python_dispatch import TorchDispatchMode

import repdl
from repdl import callcache, ops
from repdl.callcache import c_extension
from repdl.errors import UnsupportedError
from repdl.overrides import shortcuts
from repdl.settings.generation import GENERATION

pytestmark = pytest.mark.skipif(c_extension() is None, reason="no backend brings the call cache")

BASE = torch._C.TensorBase
METHODS = {name: op for op, names in shortcuts._METHODS.items() for name in names.split()}
NUMBERS = [0.37, -0.62, 5.25, 0.0, -0.0, 1.0, 2, -3, True, 1e-42, 1e-320, 1e30, 1e300, float("inf"), float("nan")]


def found(name: str) -> Any:
    """What torch.Tensor has under a name, not by way of it."""
    return inspect.getattr_static(torch.Tensor, name)


def called(x: torch.Tensor, name: str, *given: Any, **named: Any) -> Any:
    """What Python makes of `x.name(...)`: it calls a method without asking for it, but in assertions of pytest."""
    return found(name)(x, *given, **named)


def recordings(name: str) -> int:
    return int(found(name).recordings)


@pytest.fixture
def enabled() -> Iterator[None]:
    with repdl.enabled():
        GENERATION.advance()
        yield


def arguments(op: str) -> list[Any]:
    """What calls of a method get besides the tensor."""
    if op in ("addcdiv", "addcmul"):
        return [values(3, 3), values(3, 3) + 3]
    if op in ("add", "sub", "mul", "div", "maximum", "minimum", "bmm", "matmul", "mm"):
        return [values(2, 3, 3) if op == "bmm" else values(3, 3)]
    return {"clamp": [-0.5, 0.5], "lerp": [values(3, 3), 0.3], "pow": [3.0], "softmax": [-1]}.get(op, [])


@pytest.mark.parametrize("name", METHODS)
def test_shortcuts__give_what_the_method_gives(name: str, enabled: None) -> None:
    op = METHODS[name]
    given, writes = arguments(op), name.endswith("_") and (name[0] != "_" or name.startswith("__i"))
    first = values(2, 3, 3) if op == "bmm" else values(3, 3)
    for _ in range(4):
        x, y = first.clone(), first.clone()
        result, expected = called(x, name, *given), getattr(torch.Tensor, name)(y, *given)
        assert same(result, expected) and result.stride() == expected.stride()
        assert same(x, y) and x._version == y._version == writes
        assert (result is x) is writes and not result.requires_grad
    assert recordings(name) == 1


OPERATORS: dict[str, Callable[[Any, Any], Any]] = {
    "__add__": lambda x, y: x + y,
    "__sub__": lambda x, y: x - y,
    "__mul__": lambda x, y: x * y,
    "__truediv__": lambda x, y: x / y,
    "__matmul__": lambda x, y: x @ y,
    "__radd__": lambda x, y: 0.3 + x,
    "__rmul__": lambda x, y: 2 * x,
    "add_": lambda x, y: x.clone().add_(y),
}


@pytest.mark.parametrize("name", OPERATORS)
def test_shortcuts__what_python_calls(name: str, enabled: None) -> None:
    x, y = values(4, 4), values(4, 4) + 2
    GENERATION.advance()
    results = [OPERATORS[name](x, y) for _ in range(5)]
    assert all(same(result, results[0]) for result in results) and recordings(name) == 1


@pytest.mark.parametrize("name", ["add", "add_", "sub", "sub_", "mul", "mul_", "div", "div_", "__truediv__", "__mul__"])
@pytest.mark.parametrize("dtype", [torch.float32, torch.float64, torch.bfloat16])
def test_shortcuts__one_recording_for_many_numbers(name: str, dtype: torch.dtype, enabled: None) -> None:
    first, method = values(33).to(dtype), getattr(torch.Tensor, name)
    numbers = [number for number in NUMBERS if number is not True or "sub" not in name]  # which refuses it
    for number in [0.37, 0.37, *numbers, *numbers, *numbers]:
        result = called(first.clone(), name, number)
        expected = method(first.clone(), number)
        assert result.dtype is expected.dtype and same(result, expected), number
    assert dtype is torch.bfloat16 or recordings(name) == len(numbers) - 2  # two are like the first


def test_shortcuts__numbers_by_name(enabled: None) -> None:
    x, y = values(5), values(5) + 2
    for value in (0.3, 0.3, 0.7, -0.2, 0.4, 1, 0.0, 1.0):
        for name in ("addcmul", "addcdiv"):
            assert same(getattr(torch.Tensor, name)(x, y, y, value=value), called(x, name, y, y, value=value))
        assert same(torch.Tensor.add(x, y, alpha=value), called(x, "add", y, alpha=value))
        assert same(torch.Tensor.sub(x, y, alpha=value), called(x, "sub", y, alpha=value))
    assert recordings("addcmul") < 6


def test_shortcuts__tensors_that_torch_takes_for_numbers(enabled: None) -> None:
    x, y, matrix = values(4), values(4) + 2, values(2, 3)
    memory = values(8)

    def agree(name: str, given: Sequence[Any], numbers: Sequence[Any], **named: Any) -> bool:
        taken = {key: value.item() for key, value in named.items()}
        return same(called(x.clone(), name, *given, **named), getattr(torch.Tensor, name)(x.clone(), *numbers, **taken))

    for value in (0.5, 0.25, 0.75, -1.5, 2.0):
        number = torch.tensor(value)
        memory[0] = value
        assert agree("add", [y], [y], alpha=number)
        assert agree("sub", [number], [value], alpha=number)
        assert agree("add_", [memory[:1]], [memory[:1]], alpha=memory[0])
        assert agree("addcmul", [y, y], [y, y], value=number)
        assert agree("lerp", [y, number], [y, value])
        assert agree("clamp", [number - 1, number], [value - 1, value])
        assert agree("pow", [number.abs()], [abs(value)])
        assert agree("mul", [number], [value])
    for dim in (0, 1, 0, 1, 0, 1):
        for index in (torch.tensor(dim), [torch.tensor(dim)]):
            assert same(called(matrix, "sum", index), torch.Tensor.sum(matrix, dim))
        assert same(called(matrix, "softmax", torch.tensor(dim)), torch.Tensor.softmax(matrix, dim))
    assert recordings("mul") == 1 and recordings("add") == recordings("softmax") == 0


def test_shortcuts__a_tensor_that_shares_memory(enabled: None) -> None:
    def steps(method: Callable[..., Any] | None) -> torch.Tensor:
        memory = values(12)
        for _ in range(4):
            for x, y in (
                (memory[:6], memory[6:]),
                (memory[:6], memory[1:7]),
                (memory[1:7], memory[:6]),
                (memory[:6], memory[:6]),
                (memory[::2], memory[1::2]),
            ):
                x.add_(y) if method is None else method(x, y)
        whole = values(6)
        whole.add_(whole) if method is None else method(whole, whole)
        return torch.cat([memory, whole])

    assert same(steps(None), steps(torch.Tensor.add_))
    assert recordings("add_") >= 1


def outcome(call: Callable[..., Any], *given: Any) -> Any:
    try:
        return call(*given)
    except Exception as error:
        text = re.sub(r", \S+:\d+ `[^`]*`", "", str(error.args[0]))  # which line it was
        return type(error), text.replace("\n", " ").split(" at 0x")[0]


def test_shortcuts__errors_are_those_of_the_method(enabled: None) -> None:
    x, leaf = values(3), values(3).requires_grad_()
    expanded, integers = values(1).expand(3), torch.arange(3)
    for self, name, given in (
        (x, "mul_", (values(2),)),
        (x, "mul", (values(2),)),
        (x, "mul", ()),
        (x, "mul", (x, x)),
        (x, "mul", ("a",)),
        (x, "mul", (None,)),
        (x, "mul_", (values(2, 3),)),
        (leaf, "mul_", (x,)),
        (expanded, "mul_", (2.0,)),
        (integers, "mul_", (2.5,)),
        (integers, "div_", (2,)),
        (x, "matmul", (values(2, 2),)),
        (x, "softmax", (7,)),
        (x, "addcmul_", (x, values(2))),
    ):
        for _ in range(4):
            expected = outcome(getattr(torch.Tensor, name), self, *given)
            assert isinstance(expected, tuple) and outcome(called, self, name, *given) == expected
    with pytest.raises(TypeError):
        x * object()
    assert torch.Tensor.__mul__(x, object()) is NotImplemented


def test_shortcuts__integers_are_torchs(enabled: None) -> None:
    for _ in range(4):
        x = torch.arange(5)
        assert (x * 3).tolist() == [0, 3, 6, 9, 12] and called(x, "add_", 1).tolist() == [1, 2, 3, 4, 5]
    with torch.inference_mode():  # where torch keeps no versions
        x = torch.zeros(2, dtype=torch.int64)
        for _ in range(4):
            x.add_(1)
        assert x.tolist() == [4, 4]


def test_shortcuts__a_dtype_that_follows_from_a_setting(enabled: None) -> None:
    x = torch.arange(5)
    assert {(x * 0.5).dtype for _ in range(4)} == {torch.float32}
    torch.set_default_dtype(torch.float64)
    try:
        assert {(x * 0.5).dtype for _ in range(4)} == {torch.float64}
    finally:
        torch.set_default_dtype(torch.float32)


def test_shortcuts__inference_tensors(enabled: None) -> None:
    plain = values(4)
    with torch.inference_mode():
        x = torch.ones(4)
        for n in range(1, 6):
            x.mul_(2.0)
            assert x.tolist() == [2.0**n] * 4 and (x * plain).is_inference()
        before = plain._version
        for _ in range(4):
            plain.add_(1.0)
    assert plain._version == before + 4
    for _ in range(4):
        with pytest.raises(RuntimeError, match="InferenceMode"):
            x.mul_(2.0)
    assert not (x * plain).is_inference()


def test_shortcuts__gradients_are_recorded(enabled: None) -> None:
    x, y = values(4), values(4).requires_grad_()
    for _ in range(4):
        assert (x * x).grad_fn is None
        assert (x * y).grad_fn is not None and (y * 0.5).requires_grad
        (gradient,) = torch.autograd.grad((y * x).mul_(2.0).sum(), y)
        assert same(gradient, x * 2)
        with torch.no_grad():
            assert not (x * y).requires_grad
            y.mul_(1.5)
    saved = (y * y).sum()
    with torch.no_grad():
        y.mul_(2.0)
    with pytest.raises(RuntimeError, match="modified by an inplace operation"):
        saved.backward()


def test_shortcuts__another_contract(enabled: None) -> None:
    x = values(5000)
    expected = ops.sum(x), ops.sum(x, contract="sequential")
    for _ in range(4):
        assert same(called(x, "sum"), expected[0])
        with repdl.use_contract("sequential"):
            assert same(called(x, "sum"), expected[1])
        with repdl.enabled("sequential"):
            assert same(called(x, "sum"), expected[1])


def test_shortcuts__whoever_asks_gets_torchs_method(enabled: None) -> None:
    x = values(3)
    for name in METHODS:
        assert found(name) is not vars(BASE)[name], name
        assert getattr(torch.Tensor, name) is getattr(torch.nn.Parameter, name) is vars(BASE)[name], name
        assert type(getattr(x, name)) is type(x.dim), name
    assert x.mul.__self__ is x
    assert pickle.loads(pickle.dumps(torch.Tensor.mul)) is BASE.mul is pickle.loads(pickle.dumps(found("mul")))
    assert copy.deepcopy(found("mul")) is BASE.mul
    assert (
        found("mul").__name__ == "mul" and found("mul").__wrapped__ is BASE.mul and repr(found("mul")) == repr(BASE.mul)
    )
    assert found("mul").__doc__ == BASE.mul.__doc__
    assert torch.overrides.is_tensor_method_or_property(torch.Tensor.mul)


def test_shortcuts__modes_and_subclasses_see_calls(enabled: None) -> None:
    functions, overloads = [], []

    class Functions(TorchFunctionMode):
        def __torch_function__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
            functions.append(func)
            return func(*args, **(kwargs or {}))

    class Overloads(TorchDispatchMode):
        def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
            overloads.append(func)
            return func(*args, **(kwargs or {}))

    class Own(torch.Tensor):
        pass

    x = values(3)
    for _ in range(4):
        x.mul(x)
    with Functions():
        x.mul(x), x * x
    with Overloads():
        x.mul(x), x * x
    assert functions == [BASE.mul] * 2 and overloads == [torch.ops.repdl.mul.default] * 2
    assert all(type(x.as_subclass(Own).mul(x)) is Own for _ in range(4))
    with torch.profiler.profile() as profile:
        x.mul(x)
    assert "aten::mul" in {event.name for event in profile.events()}


def test_shortcuts__transforms(enabled: None) -> None:
    x, y = values(3, 4), values(4)
    for _ in range(4):
        x.mul(y), y.mul(y), y * 2.0
    assert same(torch.func.vmap(lambda row: row.mul(y) * 2.0)(x), x.mul(y) * 2.0)
    assert same(torch.func.grad(lambda v: v.mul(v).sum())(y), y * 2.0)
    with pytest.raises(UnsupportedError, match="forward-mode"):
        torch.func.jvp(lambda v: v.mul(v), (y,), (torch.ones(4),))
    functional = torch._to_functional_tensor(y.clone())
    assert all(torch._is_functional_tensor(functional.mul(functional)) for _ in range(4))


def function(x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
    z = x.mul(y) + y * 2.0
    z.add_(x)
    return z.sqrt().mul_(0.5).sum(-1)


def test_shortcuts__torch_traces_and_compiles_what_it_did(enabled: None) -> None:
    x, y = values(3, 4).abs(), values(3, 4).abs()
    expected = function(x, y)
    for _ in range(4):
        assert same(function(x, y), expected)
    graph = torch.fx.symbolic_trace(function)
    assert {node.target for node in graph.graph.nodes if node.op == "call_method"} == {
        "mul",
        "add_",
        "sqrt",
        "mul_",
        "sum",
    }
    assert "Shortcut" not in graph.code and same(graph(x, y), expected)
    made = torch.fx.experimental.proxy_tensor.make_fx(function)(x, y)
    assert same(made(x, y), expected)
    assert same(torch.jit.script(function)(x, y), expected)
    assert same(torch.jit.trace(function, (x, y))(x, y), expected)


@pytest.mark.parametrize("backend", ["repdl", "eager"])
def test_shortcuts__torch_compile(backend: str, enabled: None) -> None:
    x, y = values(3, 4).abs(), values(3, 4).abs()
    expected = function(x, y)
    torch._dynamo.reset()
    compiled = torch.compile(function, backend=backend, fullgraph=True)
    with torch._dynamo.config.patch(error_on_recompile=True):
        for _ in range(4):
            assert same(compiled(x, y), expected)
            assert same(function(x, y), expected)


def test_shortcuts__torch_compile_finds_torchs_methods(enabled: None) -> None:
    def by_class(x: torch.Tensor) -> torch.Tensor:
        multiply = torch.Tensor.mul
        return multiply(x, x).sub_(0.5)

    x = values(4)
    expected = by_class(x)
    torch._dynamo.reset()
    compiled = torch.compile(by_class, backend="repdl", fullgraph=True)
    with torch._dynamo.config.patch(error_on_recompile=True):
        for _ in range(4):
            assert same(compiled(x), expected)
            assert same(x * x - 0.5, expected)
    assert found("mul") is not BASE.mul


def test_shortcuts__are_gone_afterwards() -> None:
    before = {name: found(name) for name in dir(torch.Tensor)}
    held = []
    with pytest.raises(ZeroDivisionError), repdl.enabled():
        with repdl.enabled():
            held.append(found("mul"))
        assert found("mul") is held[0]
        raise ZeroDivisionError
    assert {name: found(name) for name in dir(torch.Tensor)} == before
    assert not METHODS.keys() & vars(torch.Tensor).keys()
    repdl.enable()
    assert found("mul") is held[0]
    repdl.disable()
    assert not METHODS.keys() & vars(torch.Tensor).keys()


def test_shortcuts__one_that_is_left_somewhere_does_nothing() -> None:
    x = values(5000)
    own = x.sum()
    repdl.enable()
    with patch.object(torch.Tensor, "sum", torch.Tensor.sum):
        repdl.disable()
    left = vars(torch.Tensor).get("sum")
    try:
        with repdl.enabled():
            expected = ops.sum(x)
            assert all(same(x.sum(), expected) for _ in range(4))
        assert not same(own, expected) or torch.backends.cpu.get_cpu_capability() == "NO AVX"
        assert all(same(x.sum(), own) for _ in range(4))
    finally:
        if left is not None:
            del torch.Tensor.sum  # type: ignore[misc]


def test_shortcuts__whoever_replaces_a_method_keeps_it() -> None:
    x, calls = values(3), []

    def patched(self: torch.Tensor, other: Any, method: Any = torch.Tensor.mul) -> torch.Tensor:
        calls.append(self)
        return method(self, other)

    try:
        with repdl.enabled():
            for _ in range(4):
                x.mul(x)
            torch.Tensor.mul = patched  # type: ignore[method-assign, assignment]
            for _ in range(4):
                x.mul(x)
        x.mul(x)
        assert len(calls) == 5
        with repdl.enabled():
            x.mul(x)
            assert found("mul") is patched and found("mul_") is not BASE.mul_
        assert len(calls) == 6 and found("mul") is patched
    finally:
        del torch.Tensor.mul


@pytest.mark.parametrize("when", ["before", "while"])
def test_shortcuts__a_kernel_of_somebody_else_is_called(when: str) -> None:
    x, calls = values(3), []

    def kernel(keys: Any, self: torch.Tensor, other: torch.Tensor) -> torch.Tensor:
        calls.append(self)
        return torch.ops.aten.mul.Tensor.redispatch(keys & torch._C._after_autograd_keyset, self, other)

    library = torch.library.Library("aten", "IMPL")
    try:
        if when == "before":
            library.impl("mul.Tensor", kernel, "AutogradCPU", with_keyset=True)
        with repdl.enabled():
            for _ in range(4):
                x.mul(x), x.sub(x)
            if when == "while":
                assert recordings("mul") == 1
                library.impl("mul.Tensor", kernel, "ADInplaceOrView", with_keyset=True)
            assert found("mul") is BASE.mul and found("__imul__") is BASE.__imul__
            assert found("sub") is not BASE.sub
    finally:
        library._destroy()


def test_shortcuts__threads(enabled: None) -> None:
    inputs = [values(n) for n in range(1, 9)]
    expected = [torch.Tensor.mul(x, 0.3) for x in inputs]
    results: list[bool] = []

    def calls() -> None:
        for _ in range(100):
            for x, result in zip(inputs, expected):
                results.append(same(x.mul(0.3), result) and same(x.clone().mul_(0.3), result))

    threads = [threading.Thread(target=calls) for _ in range(3)]
    for thread in threads:
        thread.start()
    for _ in range(5):
        with repdl.enabled():
            GENERATION.advance()
    for thread in threads:
        thread.join()
    assert all(results) and len(results) == 2400


def test_shortcuts__without_native_code(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(shortcuts, "_made", {})
    monkeypatch.setattr(callcache.call, "c_extension", lambda: None)
    with repdl.enabled():
        assert not METHODS.keys() & vars(torch.Tensor).keys()
