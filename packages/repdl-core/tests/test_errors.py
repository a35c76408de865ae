"""What kind of errors RepDL raises, and that they arrive as they are wherever they are raised."""

from __future__ import annotations

import pickle
from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch.utils.data import DataLoader, Dataset

import repdl
from repdl import errors, ops
from repdl.errors import DTypeError, UnsupportedError


def test_errors__what_is_unsupported_is_nothing_that_programs_catch() -> None:
    """monai takes a RuntimeError for memory that runs out; torch goes on after a NotImplementedError."""
    assert repdl.UnsupportedError is UnsupportedError and "UnsupportedError" in dir(repdl)
    for kind in (UnsupportedError, DTypeError):
        assert not issubclass(kind, (RuntimeError, NotImplementedError, ValueError, LookupError, ArithmeticError))
    assert issubclass(DTypeError, UnsupportedError)


def test_errors__a_dtype_without_kernel_is_one_kind_of_unsupported() -> None:
    x = torch.ones(3).to(torch.float8_e4m3fn)
    for call in (lambda: ops.exp(x), lambda: ops.softmax(x, 0), lambda: ops.pow(x, 2.5)):
        with pytest.raises(UnsupportedError, match="float8"):
            call()
        with repdl.enabled(), pytest.raises(UnsupportedError, match="float8"):
            call()
    with repdl.enabled():
        for call in (x.exp, lambda: x.softmax(0), lambda: x**2.5, lambda: 2.0**x, lambda: torch.exp(x)):
            with pytest.raises(UnsupportedError, match="float8"):
                call()


def test_errors__survive_pickling() -> None:
    for name in ("UnsupportedError", "DTypeError", "ShapeError", "OutOfRangeError", "BackendError"):
        error = getattr(errors, name)("mm: x is 1, expected 2")
        found = pickle.loads(pickle.dumps(error))
        assert type(found) is type(error) and str(found) == str(error)


class Lgamma(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, x: torch.Tensor) -> torch.Tensor:
        ctx.save_for_backward(x)
        return x * 1

    @staticmethod
    def backward(ctx: Any, grad: torch.Tensor) -> torch.Tensor:
        return grad * ctx.saved_tensors[0].lgamma()


class Loading(Dataset[torch.Tensor]):
    def __len__(self) -> int:
        return 1

    def __getitem__(self, index: int) -> torch.Tensor:
        return torch.ones(2).lgamma()


def checkpointed(x: torch.Tensor) -> None:
    from torch.utils.checkpoint import checkpoint

    checkpoint(lambda t: Lgamma.apply(t), x, use_reentrant=False).sum().backward()  # type: ignore[no-untyped-call]


WAYS: dict[str, Callable[[torch.Tensor], Any]] = {
    "kernel": lambda x: x.lgamma(),
    "in place": lambda x: x.detach().clone().lgamma_(),
    "backward": lambda x: Lgamma.apply(x).sum().backward(),  # type: ignore[no-untyped-call]
    "checkpoint": checkpointed,
    "grad": lambda x: torch.func.grad(lambda t: t.lgamma().sum())(x),
    "vmap": lambda x: torch.func.vmap(torch.lgamma)(x),
    "compiled": lambda x: torch.compile(lambda t: t.lgamma(), backend="repdl")(x),
    "worker": lambda x: list(DataLoader(Loading(), num_workers=1)),
}


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("way", WAYS)
def test_errors__arrive_as_they_are(way: str) -> None:
    with repdl.enabled(), pytest.raises(Exception, match="lgamma") as raised:
        WAYS[way](torch.ones(3, requires_grad=True))
    error: BaseException | None = raised.value
    while error is not None and not isinstance(error, UnsupportedError):  # Dynamo wraps it, and names it as the cause
        error = error.__cause__ or error.__context__
    assert isinstance(error, UnsupportedError) and "lgamma" in str(error)
    if way != "compiled":
        assert type(raised.value) is UnsupportedError
