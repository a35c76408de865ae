"""The derivatives of an op against differences, at points near its cases, computed by the reference.

In float64 where the op takes it, else in float32: `repdl.testing.differences` says how closely. Arguments that are
`fixed` stay as they are (`repdl.registry.define`).
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import Any

import torch
from torch import Tensor

from repdl.errors import RepDLError
from repdl.registry import OPS
from repdl.registry.backend import BACKENDS
from repdl.testing.case import Case
from repdl.testing.compare import outputs
from repdl.testing.differences import PRECISIONS, Derivative, NoPointError, check_derivative, points

_ELEMENTS = 4096
"""How many elements the cases of an op have together that its derivative is compared at: small ones say it all."""


def wrong_derivatives(op: str, known: Iterable[Case]) -> list[AssertionError]:
    """An error for each case of an op, of `known`, near which its derivative differs from differences.

    The smallest ones are compared. If there is none, that is an error, too, unless the op is declared to have no
    derivative, or one that is no slope.
    """
    if not has_slope(op):
        return []
    sizes = {case: _size(case) for case in known if case.op == op and case.derived is None}
    found, compared, total, reason = [], 0, 0, "no cases"
    for case in sorted(sizes, key=lambda case: sizes[case]):
        if compared and total + sizes[case] > _ELEMENTS:
            break
        try:
            check_derivatives(case)
        except AssertionError as error:
            found.append(error)
        except NoPointError as error:
            reason = f"{case}: {error}"
            continue
        except Exception as error:
            found.append(AssertionError(f"{case}: its derivative raises {type(error).__name__}: {error}"))
        compared += 1
        total += sizes[case]
    if not compared:
        remedy = "add a case where its values have slopes, or pass is_slope to registry.define"
        found.append(AssertionError(f"{op}: its derivative was compared near no case ({reason}); {remedy}"))
    return found


def has_slope(op: str) -> bool:
    """Whether an op has a derivative that can be compared with differences."""
    return OPS[op].differentiable is True and OPS[op].is_slope is not False


def check_derivatives(case: Case, contract: str = "v1") -> int:
    """Compare the first and the second derivative of a case's op with differences.

    Returns:
        How many of them were compared: 1 where the op has no second derivative.

    Raises:
        AssertionError: if one differs; it names the case, which derivative, and of which argument.
        NoPointError: if none was compared: no argument has a derivative, no value is finite, or the op has no slope.
    """
    op, args = OPS[case.op], case.args(contract)
    schema = op.overload._schema.arguments
    places = [place for place in _places(args) if schema[place[0]].name not in op.fixed]
    names = [schema[i].name + ("" if k is None else f"[{k}]") for i, k in places]
    if not sum(_at(args, place).numel() for place in places):
        raise NoPointError("no argument has elements and a derivative")
    reason: Exception | None = None
    for dtype in (torch.float64, torch.float32):
        if not op.takes(dtype):
            continue
        every = list(_places(args))
        given = _with(args, every, [_at(args, place).to(dtype) for place in every])
        for point in points([_at(given, place) for place in places]):
            if op.is_slope is False or (callable(op.is_slope) and not op.is_slope(*_with(given, places, point))):
                reason = NoPointError("the op declares that its derivative is not the slope")
                continue
            try:
                function = _Function(op.overload, given, places, point)
                first = check_derivative(function, point, names)
            except AssertionError as error:
                raise AssertionError(f"{case} {contract}: the derivative differs from differences: {error}") from None
            except (NoPointError, RepDLError) as error:
                reason = error
                continue
            return 1 + _check_second(function, point, names, first, f"{case} {contract}")
    raise NoPointError(str(reason)) from reason


def _size(case: Case) -> int:
    try:
        args = case.make()
    except Exception:  # running it says why
        return 0
    return sum(_at(args, place).numel() for place in _places(args))


def _check_second(
    function: _Function, point: Sequence[Tensor], names: Sequence[str], first: Derivative, what: str
) -> int:
    gradient = _Gradient(function, point, [n for n, g in enumerate(first.gradients) if g is not None])
    every = [*(names[n] for n in gradient.wanted), *(f"grad of output {n}" for n in range(len(first.weights)))]
    try:
        check_derivative(gradient, [*(point[n] for n in gradient.wanted), *first.weights], every)
    except AssertionError as error:
        raise AssertionError(f"{what}: the second derivative differs from differences: {error}") from None
    except (NoPointError, RepDLError):
        return 0
    return 1


Place = tuple[int, int | None]
"""Which argument, and which tensor of it if it is a list."""


def _places(args: Sequence[Any]) -> Iterator[Place]:
    for i, value in enumerate(args):
        if isinstance(value, Tensor) and value.is_floating_point():
            yield i, None
        elif isinstance(value, list):
            yield from ((i, k) for k, t in enumerate(value) if isinstance(t, Tensor) and t.is_floating_point())


def _at(args: Sequence[Any], place: Place) -> Tensor:
    i, k = place
    found: Tensor = args[i] if k is None else args[i][k]
    return found


def _with(args: Sequence[Any], places: Sequence[Place], tensors: Sequence[Tensor]) -> list[Any]:
    """The arguments, with other tensors at places."""
    found = [list(a) if isinstance(a, list) else a for a in args]
    for (i, k), tensor in zip(places, tensors):
        if k is None:
            found[i] = tensor
        else:
            found[i][k] = tensor
    return found


class _Function:
    """An op, on the reference, as a function of its floating-point tensors to those outputs that have a derivative."""

    def __init__(self, overload: Any, args: Sequence[Any], places: Sequence[Place], point: Sequence[Tensor]) -> None:
        self._overload, self._args, self._places = overload, args, places
        self._kept: list[int] | None = None
        with torch.enable_grad():
            found = self([x.detach().requires_grad_() for x in point])
        self._kept = [n for n, y in enumerate(found) if y.requires_grad and y.dtype in PRECISIONS]
        if not self._kept:
            raise NoPointError("no output has a derivative")

    def __call__(self, tensors: Sequence[Tensor]) -> list[Tensor]:
        args = _with(self._args, self._places, tensors)
        with BACKENDS.use("reference"):
            found = outputs(self._overload(*args))
        return found if self._kept is None else [found[n] for n in self._kept]


class _Gradient:
    """The gradients that a function has for some of its tensors, as a function of these and of the outputs' weights."""

    def __init__(self, function: _Function, point: Sequence[Tensor], wanted: Sequence[int]) -> None:
        self._function, self._point, self.wanted = function, point, wanted

    def __call__(self, tensors: Sequence[Tensor]) -> list[Tensor]:
        count = len(self.wanted)
        again = torch.is_grad_enabled() and any(t.requires_grad for t in tensors)
        leaves = list(self._point)
        for n, x in zip(self.wanted, tensors[:count]):
            leaves[n] = x if again else x.detach().requires_grad_()
        inputs = [leaves[n] for n in self.wanted]
        with torch.enable_grad():
            found = self._function(leaves)
            grads = torch.autograd.grad(found, inputs, tensors[count:], create_graph=again, allow_unused=True)
        return [torch.zeros_like(x) if g is None else g for g, x in zip(grads, inputs)]
