"""Tests against torch: its function in float64 as the oracle, and its errors."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import torch

from repdl.errors import RepDLError
from repdl.testing.compare import assert_same_bits, outputs

FOLLOWED = (2, 13)
"""The torch whose errors and lists RepDL has, the one of constraints.txt."""

OLDER = tuple(int(part) for part in torch.__version__.split(".")[:2]) < FOLLOWED
"""Whether the torch at hand is an older one, which accepts a few calls more and computes a few wrongly."""

U = 2.0**-24
"""The unit roundoff of float32. float64's is 2**-29 of it: the oracle counts as exact."""

TINY = 2.0**-149
"""The smallest subnormal: what a rounding can lose below the normal numbers."""


def gamma(n: int) -> float:
    """The bound on the relative error of n roundings (Higham, Accuracy and Stability, 3.1)."""
    return n * U / (1 - n * U)


def assert_within(actual: torch.Tensor, exact: torch.Tensor, tolerance: Any, what: str = "") -> None:
    """Raise AssertionError unless float32 `actual` has the shape of `exact` and is near it.

    NaN and infinities must be the same; `tolerance` is a number or a tensor.
    """
    assert actual.dtype == torch.float32, f"{what}: dtype {actual.dtype}"
    assert actual.shape == exact.shape, f"{what}: shape {tuple(actual.shape)}, expected {tuple(exact.shape)}"
    a, e = actual.detach().double(), exact.detach()
    same = (a == e) | (a.isnan() & e.isnan())
    wrong = ~(same | ((a - e).abs() <= torch.as_tensor(tolerance, dtype=torch.float64)))
    if wrong.any():
        at = tuple(wrong.nonzero()[0].tolist())
        limit = torch.as_tensor(tolerance, dtype=torch.float64).expand(e.shape)[at].item()
        raise AssertionError(f"{what} at {at}: {a[at].item()!r}, expected {e[at].item()!r} within {limit:.3g}")


Function = Callable[..., torch.Tensor]


def derivatives(
    function: Function, tensors: Sequence[torch.Tensor], cotangent: torch.Tensor, tangents: Sequence[torch.Tensor] = ()
) -> list[torch.Tensor]:
    """The output, the gradients for `cotangent`, and with `tangents` the second derivatives:
    the gradients, for the tensors and the cotangent, of the sum of gradient * tangent."""
    leaves = [t.detach().clone().requires_grad_() for t in tensors]
    output = function(*leaves)
    weight = cotangent.detach().clone().requires_grad_()
    first = torch.autograd.grad(output, leaves, weight, create_graph=bool(tangents))
    second: tuple[Any, ...] = ()
    if tangents:
        inputs = [*leaves, weight]
        differentiable = [(g, t) for g, t in zip(first, tangents) if g.requires_grad]
        second = torch.autograd.grad(
            [g for g, _ in differentiable], inputs, [t for _, t in differentiable], allow_unused=True
        )
        second = tuple(torch.zeros_like(i) if g is None else g for g, i in zip(second, inputs))
    return [output.detach(), *(g.detach() for g in first), *(g.detach() for g in second)]


def assert_multilinear(
    ours: Function,
    theirs: Function,
    tensors: Sequence[torch.Tensor],
    roundings: int,
    cotangent: torch.Tensor,
    second: bool = True,
) -> None:
    """Compare a function that is a sum of products of its arguments, and its derivatives.

    Each output element is a sum of products whose every term passes through at most
    `roundings` roundings, so its error is at most gamma(roundings) times the sum of the
    terms' magnitudes, which is the function (or derivative) of the arguments' magnitudes.
    """
    tangents = [t.flip(-1) if t.dim() else t for t in tensors] if second else []
    doubles = [t.double() for t in tensors]
    actual = derivatives(ours, tensors, cotangent, tangents)
    exact = derivatives(theirs, doubles, cotangent.double(), [t.double() for t in tangents])
    sizes = derivatives(
        theirs, [t.abs() for t in doubles], cotangent.double().abs(), [t.double().abs() for t in tangents]
    )
    for number, (a, e, size) in enumerate(zip(actual, exact, sizes)):
        assert_within(a, e, gamma(roundings) * size.abs() + roundings * TINY, f"derivative {number}")


def assert_rejected(
    call: Callable[[], Any],
    kind: type[BaseException],
    *words: str,
    tensors: Sequence[torch.Tensor] = (),
    by_torch: Callable[[], Any] | None = None,
) -> None:
    """Raise AssertionError unless `call` raises a RepDLError that also is a `kind`.

    Its message must contain "expected" and all `words`; `tensors` must keep their bits; and
    `by_torch`, the same call of torch's function, if given, must raise too, unless torch is `OLDER`.
    """
    before = [t.detach().clone() for t in tensors]
    try:
        result = call()
    except RepDLError as error:
        assert isinstance(error, kind), f"{type(error).__name__} is no {kind.__name__}: {error}"
        for word in ("expected", *words):
            assert word in str(error), f"no {word!r} in {error}"
    else:
        raise AssertionError(f"accepted: {[tuple(t.shape) for t in outputs(result)]}")
    assert_same_bits(list(tensors), before, "changed by a rejected call")
    if by_torch is not None and not OLDER:
        try:
            by_torch()
        except Exception:
            return
        raise AssertionError("torch accepts what is rejected here")
