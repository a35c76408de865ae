"""Steps of optimizers: ops that update lists of parameters and their state in place, an element by itself.

A new one is the update of one element in the shared headers (`repdl/step/`), a module with its declaration, and a
reference; both native backends have it then.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import torch
from torch import Tensor

from repdl.errors import DeviceError, UnsupportedError, check_dtype, check_size
from repdl.registry import DECLARATIONS, CaseSpec, Declaration, define
from repdl.registry.declaration import unwrapped

__all__ = ["DTYPES", "Given", "special_step", "step", "step_case"]

DTYPES = (torch.float32, torch.float64)
"""Of parameters: a step on 16-bit floats would lose what is below their last place."""


Given = dict[str, Any]


def step_case(**given: Any) -> Given:
    """The options of a case, and how its tensors are made (`repdl.testing.generated.step_cases`)."""
    return given


def special_step(**given: Any) -> Given:
    """The same with special values."""
    return step_case(shapes=[(300,)], special=True, **given)


Condition = tuple[str, Callable[..., bool]]
"""When a step has a list: in words, and as a function of the options that its parameters name."""


def step(
    schema: str, summary: str, order: str, *, optional: Mapping[str, Condition] = {}, cases: Mapping[str, Any]
) -> Callable[..., Any]:
    """Register the step of an optimizer and return its `torch.ops` overload.

    Args:
        schema: `name(Tensor(a!)[] params, Tensor[] grads, Tensor(b!)[] ..., float lr, ..., bool maximize) -> ()`.
        summary: a few words, for the first line of the contract text.
        order: the section *Order* of the contract text: every operation of an element, with its rounding.
        optional: the lists that a step has under some options only; else they must be empty.
        cases: the arguments of `repdl.testing.generated.step_cases`.
    """
    name, _, rest = schema.partition("(")
    arguments = [part.split()[-1] for part in rest.partition(") ->")[0].split(", ")]
    lists = [a for a, part in zip(arguments, rest.split(", ")) if "[]" in part]
    conditions = {p: (holds, tuple(inspect.signature(holds).parameters)) for p, (_, holds) in optional.items()}

    def present(which: str, given: Mapping[str, Any]) -> bool:
        holds, options = conditions.get(which, (lambda: True, ()))
        return holds(*(given[option] for option in options))

    def check_arguments(*args: Any) -> None:
        given = dict(zip(arguments, args))
        check_lists(name, args[0], **{p: (given[p], present(p, given)) for p in lists[1:]})

    written = [a for a, part in zip(arguments, rest.split(", ")) if "!" in part]
    absent = {p: lambda given, p=p: not present(p, given) for p in optional}
    text = _text(name, arguments, lists, written, summary, order, optional)
    DECLARATIONS[name] = Declaration(text, CaseSpec("step", {**cases, "absent": absent}))
    return define(name, f"({rest}", check=check_arguments, fake=lambda *args: None, updates=True)


def _text(
    name: str,
    arguments: list[str],
    lists: list[str],
    written: list[str],
    summary: str,
    order: str,
    optional: Mapping[str, Condition],
) -> str:
    always = [p for p in lists[1:] if p not in optional]
    sometimes = "".join(f"; {p} too {when}, else it is empty" for p, (when, _) in optional.items())
    return f"""# {name}

`{name}({", ".join(arguments)}) -> ()`, {summary}. It changes {_listed(written)} in place.

- Lists: {_listed(always)} {"has" if len(always) == 1 else "have"} the length of params{sometimes}.
- Shapes: the tensors of one parameter have one shape, any number of dimensions, zero elements too. Strides may differ \
between them: elements are matched by logical index.
- Dtypes: float32, float64; one for all tensors. Hyperparameters are doubles. rounded(x) is the double x rounded once \
to that dtype; operations inside rounded( ), sqrt too, are double, one rounding each.
- Memory: no two elements that are written, and none that is written and one that is read for another element or list, \
share memory. Gradients may share memory among themselves.

## Order
For each element on its own. Every operation outside rounded( ) is rounded to the dtype by itself; an fma is one \
operation.

{unwrapped(order)}

## Special values
IEEE 754 throughout, gradual underflow. A NaN that is stored is the canonical NaN (`cast.md`).

## Backward
None: the op changes its arguments and has no outputs.
"""


def _listed(names: Sequence[str]) -> str:
    return names[0] if len(names) == 1 else f"{', '.join(names[:-1])} and {names[-1]}"


def check_lists(op: str, params: Sequence[Tensor], **lists: tuple[Sequence[Tensor], bool]) -> None:
    """Raise unless each list matches `params` tensor by tensor, before anything is changed.

    Args:
        lists: name -> (tensors, whether the op has them); one that it has not must be empty.
    """
    for name, (tensors, present) in lists.items():
        if present:
            check_size(op, f"len({name})", len(tensors), len(params), "len(params)")
        else:
            check_size(op, f"len({name})", len(tensors), 0, "not used with these options")
    columns = {"params": params, **{name: tensors for name, (tensors, present) in lists.items() if present}}
    for name, tensors in columns.items():
        for index, (tensor, param) in enumerate(zip(tensors, params)):
            if (
                param.dtype is not params[0].dtype
                or tensor.layout is not torch.strided
                or tensor.dtype is not param.dtype
                or tensor.dtype not in DTYPES
                or tensor.shape != param.shape
                or tensor.device != param.device
            ):
                _raise(op, f"{name}[{index}]", tensor, param, params[0])


def _raise(op: str, name: str, tensor: Tensor, param: Tensor, first: Tensor) -> None:
    """Say which of the conditions of `check_lists` does not hold."""
    if tensor.layout is not torch.strided:
        raise UnsupportedError(
            f"{op}: {name}.layout is {tensor.layout}, expected torch.strided; convert it first with .to_dense()"
        )
    check_dtype(op, DTYPES, **{name: tensor})
    check_dtype(op, (param.dtype,), **{name: tensor})
    check_dtype(op, (first.dtype,), **{name: tensor})
    check_size(op, f"{name}.shape", tensor.shape, param.shape, "shape of its parameter")
    raise DeviceError(f"{op}: {name} is on {tensor.device}, expected {param.device} (its parameter's)")
