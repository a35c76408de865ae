"""A program changes tensors in place after a call, and then asks for gradients, wherever torch lets it."""

from __future__ import annotations

import warnings
from collections import defaultdict
from collections.abc import Callable, Collection
from contextlib import suppress
from itertools import count
from typing import Any

import pytest
import torch

import repdl
from repdl import ops
from repdl.errors import RepDLError
from repdl.testing import opinfo

Tensor = torch.Tensor
NEEDED = {
    "broadcast_to": "a view that autograd knows from RepDL's function: torch lets nobody write into its memory",
    "cross_entropy": "keeps input and computes its softmax again; torch keeps the softmax",
    "embedding_bag": "keeps the indices as they are given; torch makes others of them",
    "expand": "as broadcast_to",
    "instance_norm": "keeps weight; torch repeats it for each image",
    "inv": "keeps A, which solve reads again; torch the result",
    "inv_ex": "as inv",
    "kron": "keeps its operands; torch copies them into another shape",
    "qr": "keeps its results and input; torch its results",
    "rms_norm": "keeps input and weight where one gradient is wanted",
    "scaled_dot_product_attention": "keeps query, key and value; torch copies that it has scaled",
    "tanhshrink": "keeps input; torch the tanh of it",
}
"""Functions that need what torch has a copy of, or finds in the result."""


def wanting(sample: Any, wanted: Collection[int]) -> Any:
    """A sample's tensors, by which gradients are wanted."""
    number = count()

    def fresh(value: Any) -> Any:
        if not isinstance(value, Tensor):
            return value
        return value.detach().requires_grad_(next(number) in wanted and value.is_floating_point())

    return opinfo.mapped(fresh, (sample.input, tuple(sample.args), dict(sample.kwargs)))


def is_refused(call: Callable[..., Any], sample: Any, wanted: Collection[int], place: int) -> bool | None:
    """Whether a gradient can't be had after the tensor at a place, of the operands and then the results, is changed."""
    first, args, kwargs = wanting(sample, wanted)
    operands = opinfo.tensors_of((first, args, kwargs))
    results = opinfo.tensors_of(call(first, *args, **kwargs))
    roots = [t for t in results if t.requires_grad]
    if not roots:
        return None
    torch.autograd.graph.increment_version([*operands, *results][place])
    leaves = [t for t in operands if t.requires_grad]
    try:
        torch.autograd.grad(roots, leaves, [torch.ones_like(t) for t in roots], allow_unused=True)
    except RuntimeError as error:
        if "inplace" in str(error):
            return True
        raise
    return False


def compare(most: int) -> tuple[dict[str, set[str]], int]:
    """Functions that refuse what torch allows, with the places; and how many were allowed."""
    refused: dict[str, set[str]] = defaultdict(set)
    allowed = 0
    for name in ops.__all__:
        for info in opinfo.entries(name):
            call = opinfo.ours(name, info)
            for sample in opinfo.samples(info, torch.float32, most):
                given = (sample.input, tuple(sample.args), dict(sample.kwargs))
                with suppress(RepDLError, RuntimeError, TypeError, ValueError, opinfo.Skipped):
                    results = len(opinfo.tensors_of(call(given[0], *given[1], **given[2])))
                    operands = opinfo.tensors_of(given)
                    of_all = tuple(i for i, t in enumerate(operands) if t.requires_grad)
                    for wanted in {of_all, *((i,) for i in of_all)}:
                        for place in range(len(operands) + results):
                            theirs = is_refused(info.op, sample, wanted, place)
                            mine = is_refused(call, sample, wanted, place)
                            allowed += mine is False
                            if mine and theirs is False:
                                refused[name].add(f"gradients of {wanted}, tensor {place}")
    return refused, allowed


@pytest.mark.parametrize("most", [1, pytest.param(6, marks=pytest.mark.nightly)])
def test_saved__a_tensor_is_kept_only_if_a_gradient_needs_it(most: int) -> None:
    pytest.importorskip("expecttest", reason="torch's database of ops needs it")
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # torch's, about its samples
        refused, allowed = compare(most)
    assert {name: places for name, places in refused.items() if name not in NEEDED} == {}
    assert allowed > 700


@pytest.mark.parametrize("number", [1, 2.0, torch.tensor(3.0)])
def test_saved__numbers_beside_a_tensor(number: Any) -> None:
    """What EfficientLoFTR does: a product by a number does not need its input."""
    with repdl.enabled():
        for change in (lambda w: w * number, lambda w: w / number, lambda w: number * w, lambda w: w + number):
            w = torch.ones(3, requires_grad=True)
            y = change(w * 1)
            z = change(y)
            with torch.no_grad():
                y[0] = 3
            (grad,) = torch.autograd.grad(z.sum(), w)
            assert grad[0] == grad[1]


NOTHING_CHANGED: dict[str, Callable[[Tensor], Any]] = {
    "dropout": lambda x: torch.nn.functional.dropout(x, 0.0, inplace=True),
    "dropout, not training": lambda x: torch.nn.functional.dropout(x, 0.5, training=False, inplace=True),
    "alpha_dropout": lambda x: torch.nn.functional.alpha_dropout(x, 0.0, training=True, inplace=True),
    "feature_alpha_dropout": lambda x: torch.nn.functional.feature_alpha_dropout(x, 0.0, training=True, inplace=True),
    "dropout1d": lambda x: torch.nn.functional.dropout1d(x, 0.0, inplace=True),
    "dropout2d": lambda x: torch.nn.functional.dropout2d(x[None], 0.0, inplace=True),
    "dropout3d": lambda x: torch.nn.functional.dropout3d(x[None, None], 0.0, inplace=True),
    "rrelu": lambda x: torch.nn.functional.rrelu(x, inplace=True),
    "Dropout": torch.nn.Dropout(0.0, inplace=True),
    "Dropout.eval": torch.nn.Dropout(0.5, inplace=True).eval(),
    "relu_": lambda x: x.relu_(),
    "add_": lambda x: x.add_(0),
}


def test_saved__versions_of_what_is_changed_in_place_are_torchs() -> None:
    """Of a tensor that dropout of no element leaves as it is, timm's tnt asks for gradients."""

    def versions() -> dict[str, int]:
        found = {}
        for name, call in NOTHING_CHANGED.items():
            for time in range(3):
                x = torch.ones(2, 3, 4)
                call(x)
                assert found.setdefault(name, x._version) == x._version, (name, time)
        return found

    expected = versions()
    with repdl.enabled():
        assert versions() == expected
    for name in ("dropout", "dropout1d", "dropout2d", "dropout3d", "alpha_dropout", "feature_alpha_dropout"):
        x = torch.ones(1, 2, 3, 4) if name == "dropout3d" else torch.ones(2, 3, 4)
        getattr(ops, name)(x, 0.0, training=True, inplace=True)
        assert x._version == 0, name
