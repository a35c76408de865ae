"""torch.autograd.gradcheck through the functions of `repdl.ops`, in float64, on samples of torch's own database."""

from __future__ import annotations

import itertools
import warnings
from collections.abc import Callable, Iterator
from typing import Any

import pytest
import torch

from repdl import ops
from repdl.errors import RepDLError
from repdl.testing import opinfo

pytest.importorskip("expecttest", reason="torch's database needs it")
Tensor = torch.Tensor
MOST = 2000
"""Elements of the tensors of a sample."""


def leaves(value: Any) -> Iterator[Tensor]:
    if isinstance(value, Tensor):
        if value.requires_grad:
            yield value
    elif isinstance(value, (list, tuple)):
        for part in value:
            yield from leaves(part)
    elif isinstance(value, dict):
        yield from leaves(list(value.values()))


def replaced(value: Any, tensors: Iterator[Tensor]) -> Any:
    """`value` with these in the place of its leaves."""
    if isinstance(value, Tensor):
        return next(tensors) if value.requires_grad else value
    if isinstance(value, dict):
        return {key: replaced(part, tensors) for key, part in value.items()}
    return type(value)(replaced(part, tensors) for part in value) if type(value) in (list, tuple) else value


def small_samples(info: Any) -> Iterator[tuple[Any, ...]]:
    for sample in itertools.islice(opinfo.samples(info, torch.float64), 40):
        given = sample.input, tuple(sample.args), dict(sample.kwargs)
        found = list(leaves(given))
        if found and 0 < sum(t.numel() for t in found) <= MOST:
            yield given


def of_leaves(info: Any, call: Callable[..., Any], given: tuple[Any, ...]) -> Callable[..., Any]:
    """The results that have a derivative, as a function of the leaves."""

    def function(*tensors: Tensor) -> tuple[Tensor, ...]:
        first, args, kwargs = replaced(given, iter(tensors))
        result = info.gradcheck_wrapper(call, first, *args, **kwargs)
        return tuple(leaves([result] if isinstance(result, Tensor) else list(result)))

    return function


def check(name: str) -> bool:
    """Whether a sample of each entry that has one was compared."""
    compared = False
    for info in opinfo.entries(name):
        call = opinfo.ours(name, info)
        for given in small_samples(info):
            function, found = of_leaves(info, call, given), list(leaves(given))
            try:
                if not function(*found):
                    continue
            except (opinfo.Skipped, RepDLError):
                continue
            assert torch.autograd.gradcheck(function, found, fast_mode=True, nondet_tol=0.0), name
            compared = True
            break
    return compared


WITHOUT = {
    *(name for name in ops.__all__ if name.endswith("_step")),
    *("arange", "argmax", "argmin", "argsort", "bincount", "linspace"),
    *("floor_divide", "unique", "unique_consecutive", "dropout1d", "feature_dropout", "gumbel_softmax"),
    *("affine_grid", "cast", "chain_matmul", "grouped_mm", "index", "fold", "unfold", "lp_pool1d", "lp_pool2d"),
    *("lp_pool3d", "ctc_loss", "gru_cell", "lstm_cell", "rnn_relu_cell", "rnn_tanh_cell"),
}
"""No derivative, random numbers, or no small sample in the database."""


@pytest.mark.parametrize("letter", sorted({name[0] for name in ops.__all__}))
def test_gradcheck__float64(letter: str) -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        left = {name for name in ops.__all__ if name[0] == letter and not check(name)}
    assert left <= WITHOUT
