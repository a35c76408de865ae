"""What errors advise: it exists, and it accepts the input."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from typing import Any

import pytest
import torch

import repdl
from repdl import ops, random
from repdl.audit.op_classes import OP_CLASSES, OpClass
from repdl.audit.remedy import remedy
from repdl.dtypes import PrecisionRules
from repdl.errors import DTypeError, UnsupportedError, check_dtype
from repdl.registry import OPS

_FLOAT8 = [getattr(torch, name) for name in dir(torch) if name.startswith("float8_")]
_COMPLEX = [torch.complex32, torch.complex64, torch.complex128]
_OTHERS = [torch.float32, torch.float64, torch.bfloat16, torch.float16, torch.int64, torch.bool, *_FLOAT8, *_COMPLEX]
_EXPRESSION = re.compile(r"for example (?:with )?(.+)$")


def _advised(message: str, **tensors: Any) -> torch.Tensor | None:
    """What the expression in a message gives, if there is one."""
    found = _EXPRESSION.search(message)
    return None if found is None else eval(found[1], {"torch": torch, "repdl": repdl, **tensors})


def _calls(storage: PrecisionRules) -> Iterator[tuple[list[Any], int]]:
    """Arguments of an op, one of which has a dtype that may be none of its own."""
    schema = OPS[storage.op].overload._schema.arguments
    for first in storage.dtypes.supported:
        usual: list[Any] = [None] * len(schema)
        for i in storage.floats:
            usual[i] = torch.ones(2, dtype=first)
        for i, argument in enumerate(schema):
            if argument.name in storage.dtypes.bools:
                usual[i] = torch.ones(2, dtype=torch.bool)
        for i in storage.floats:
            for dtype in _OTHERS:
                yield [torch.ones(2, dtype=dtype) if j == i else value for j, value in enumerate(usual)], i


@pytest.mark.filterwarnings("ignore:ComplexHalf")
def test_advice__of_dtypes_is_accepted_and_keeps_all_of_a_number() -> None:
    """Of every registered op: the argument of a wrong dtype, converted as its error says, is right."""
    advised = 0
    for op in OPS.values():
        for args, place in () if op.storage is None else _calls(op.storage):
            try:
                op.storage.check(args)
                continue
            except DTypeError as error:
                message = str(error)
            name = message.partition(": ")[2].partition(".dtype")[0]
            index = op.storage.names.index(name)
            made = _advised(message, **{name: args[index]})
            assert made is not None, message
            assert args[index].dtype.is_complex <= (made.numel() == 2 * args[index].numel()), message
            again = [made if j == index else value for j, value in enumerate(args)]
            try:
                op.storage.check(again)
            except DTypeError as error:  # of another argument, as the first one has another dtype now
                assert index != place or not str(error).startswith(f"{op.name}: {name}."), (message, str(error))
            advised += 1
    assert advised > 1000


@pytest.mark.filterwarnings("ignore:ComplexHalf")
def test_advice__where_no_conversion_is_right() -> None:
    for dtype in _COMPLEX:
        with pytest.raises(DTypeError) as caught:
            check_dtype("op", (torch.int64, torch.bool), index=torch.ones(1, dtype=dtype))
        assert str(caught.value).endswith("expected int64 or bool")


@pytest.mark.filterwarnings("ignore")  # of old names
def test_advice__of_complex_numbers_drops_no_part() -> None:
    """In functions as in ops, enabled or not."""
    z = torch.ones(2, 2, dtype=torch.complex64)
    names = [n for n in ops.__all__ if not n.endswith("_step")]
    places = (ops, torch, torch.nn.functional)
    calls = [(n, call) for n in names for place in places if (call := getattr(place, n, None)) is not None]
    messages = []
    with repdl.enabled():
        for name, call in calls:
            for args in ((z,), (z, z)):
                try:
                    call(*args)
                except (UnsupportedError, DTypeError) as error:
                    messages.append((name, str(error)))
                except (KeyError, AssertionError) as error:
                    pytest.fail(f"{name}: {error!r}")
                except Exception:  # other arguments are missing, or torch's own error
                    pass
    wrong = re.compile(r"(?<!view_as_real\(input\))\.to\(torch\.\w*float|cast it")
    assert [found for found in messages if wrong.search(found[1])] == []
    assert len(messages) > 100


def _resolved(path: str) -> Any:
    package, *names = path.split(".")
    assert package == "repdl", path
    found: Any = repdl
    for name in names:
        found = getattr(found, name)
    return found


def test_advice__in_the_place_of_an_op_is_there() -> None:
    """For every op that is refused, by its own name and by those of functions that call it."""
    functions = {name: f for name, f in vars(random).items() if callable(f)}
    unavailable = {name for name, f in functions.items() if (f.__doc__ or "").startswith("Not available")}
    assert unavailable == {"binomial"}
    named = {name: op for name in OP_CLASSES if (op := _overload(name)) is not None}
    found = 0
    for name, op_class in OP_CLASSES.items():
        if op_class not in (OpClass.REFUSED, OpClass.DRAWS, OpClass.INTEGER) or name not in named:
            continue
        for called in ("", name, name.removesuffix("_backward").lstrip("_")):
            for derivative in ("", "".join(part.title() for part in name.split("_")) + "Backward0"):
                advice = remedy(named[name], called, derivative)
                if advice is not None:
                    found += 1
                    assert callable(_resolved(advice)), (name, advice)
                    assert advice.rpartition(".")[2] not in unavailable, (name, advice)
    assert found > 300


def _overload(name: str) -> Any:
    packet = getattr(torch.ops.aten, name, None) or getattr(torch.ops.aten, f"{name}_", None)
    return None if packet is None else getattr(packet, packet.overloads()[0])


def test_advice__of_binomial_numbers() -> None:
    count, p = torch.full((3,), 4.0), torch.full((3,), 0.5)
    with repdl.enabled(), pytest.raises(UnsupportedError) as caught:
        torch.binomial(count, p)
    assert "aten.binomial" in str(caught.value) and "repdl.random.binomial" not in str(caught.value)


class _Wrapped(torch.Tensor):
    """A tensor that knows the ops of torch alone."""

    held: torch.Tensor

    @staticmethod
    def __new__(cls, held: torch.Tensor) -> _Wrapped:
        made: _Wrapped = torch.Tensor._make_wrapper_subclass(cls, held.shape, dtype=held.dtype)  # type: ignore[attr-defined]
        made.held = held
        return made

    @classmethod
    def __torch_dispatch__(cls, op: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        if op.namespace != "aten":
            return NotImplemented
        return op(*(a.held if isinstance(a, cls) else a for a in args), **(kwargs or {}))


@pytest.mark.filterwarnings("ignore")  # of MaskedTensor
def test_advice__of_tensors_that_know_no_ops_of_others() -> None:
    masked = torch.masked.masked_tensor(torch.ones(3), torch.tensor([True, False, True]))
    calls: list[Callable[[Any], Any]] = [
        lambda x: x.exp(),
        lambda x: x * 2,
        lambda x: 2 * x,
        lambda x: x + x,
        lambda x: torch.softmax(x, 0),
        lambda x: torch._foreach_sqrt([x]),
    ]
    with repdl.enabled():
        for x, name in ((masked, "MaskedTensor"), (_Wrapped(torch.ones(3)), "_Wrapped")):
            for call in calls:
                with pytest.raises(UnsupportedError, match=rf"{name}.*plain tensor"):
                    call(x)
