"""Functions on a few samples of torch's database of ops: what differs stands in docs/coverage.md, with a reason."""

from __future__ import annotations

import re
from collections.abc import Callable
from itertools import islice
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
import torch

import repdl
from repdl import ops
from repdl.errors import RepDLError
from repdl.testing import opinfo

pytest.importorskip("expecttest", reason="torch's database of ops needs it")

PAGE = Path(__file__).parents[4] / "docs/coverage.md"
OF_NEWER_TORCH = {
    "group_norm: accepted, where torch says: Expected number of channels to be greater than n, got ",
    "group_norm: accepted, where torch says: Expected HxW to be greater than n, got ",
    "neg: raises NotImplementedError, which is not RepDL's",  # but torch's own, of bools
}
"""Differences from 2.14; the page is about 2.13."""
in_checkout = pytest.mark.skipif(not PAGE.is_file(), reason="no docs here")


def tables() -> tuple[dict[str, str], set[str]]:
    """Function -> its row, and the differences on the page."""
    functions, differences = PAGE.read_text().split("## Functions")[1].split("## Differences")
    rows = {name: line for line in functions.splitlines() if (name := re.match(r"\| `(\w+)`", line)) is not None}
    return (
        {match[1]: line for match, line in rows.items()},
        {f"{c[1].strip()[1:-1]}: {c[4].strip()}" for line in differences.splitlines() if (c := line.split("|"))[3:]},
    )


@in_checkout
def test_opinfo__the_page_has_every_function_and_a_reason_for_every_difference() -> None:
    rows, _ = tables()
    assert rows.keys() == set(ops.__all__), "run tools/coverage.py"
    for line in PAGE.read_text().split("## Differences")[1].splitlines()[4:]:
        cells = [cell.strip() for cell in line.split("|")[1:-1]]
        assert len(cells) == 5 and all(cells), f"without a reason (repdl.testing.opinfo.REASONS): {line}"
    for name, line in rows.items():
        counts = [cell.strip() for cell in line.split("|")[2:-1]]
        assert len(counts) == 9 and all(re.fullmatch(r"\d+/\d+|-", c) for c in counts), line
        assert counts[0] == "-" or opinfo.entries(name), line


@in_checkout
def test_opinfo__functions_agree_with_torch_but_for_what_the_page_says() -> None:
    """Three samples of each entry in float32, one in bfloat16, and all bad input."""
    _, known = tables()
    known |= OF_NEWER_TORCH
    found = 0
    for name in ops.__all__:
        for most, dtype in ((3, torch.float32), (1, torch.bfloat16)):
            report = opinfo.report(name, most, (dtype,))
            found += sum(count.agreed for count in report.dtypes[str(dtype).removeprefix("torch.")])
            for difference in report.differences():
                assert f"{name}: {difference.what}" in known, f"{name}, {dtype}: {difference}; run tools/coverage.py"
    assert found > 500


def test_opinfo__entries_are_those_of_the_functions_name() -> None:
    of = {name: {info.name for info in opinfo.entries(name)} for name in ops.__all__}
    assert of["relu"] == {"nn.functional.relu"} and of["vector_norm"] == {"linalg.vector_norm"} and of["max"] == {"max"}
    assert len([name for name in of if of[name]]) > 100


PLANTED: dict[str, tuple[Callable[..., Any], str]] = {
    "a shape": (lambda x: torch.sum(x, 0, keepdim=True), "shape"),
    "a dtype": (lambda x: torch.sum(x, 0).double(), "dtype"),
    "a number": (lambda x: torch.sum(x, 0) * 1.001, "beyond the bound"),
    "infinity": (lambda x: torch.sum(x, 0) / 0, "other infinities"),
    "NaN": (lambda x: torch.sum(x, 0) * float("nan"), "other NaN"),
    "an error": (lambda x: x[5], "IndexError"),
    "a gradient": (lambda x: torch.sum(x.detach() + (x - x.detach()) * 2, 0), "gradient: beyond the bound"),
    "no gradient": (lambda x: torch.sum(x.detach(), 0), "gradient: no gradient"),
}


@pytest.mark.parametrize("name", PLANTED)
def test_opinfo__sees_what_differs(name: str) -> None:
    wrong, said = PLANTED[name]
    sample = SimpleNamespace(input=torch.ones(3, 2, requires_grad=True), args=(), kwargs={})
    info = SimpleNamespace(op=lambda x: torch.sum(x, 0))
    right = opinfo.compare(lambda x: ops.sum(x, 0), info, sample, torch.float32)
    assert right == opinfo.Outcome(None, None, True)
    outcome = opinfo.compare(wrong, info, sample, torch.float32)
    assert outcome is not None
    difference = outcome.result or f"gradient: {outcome.gradient}"
    assert said in difference


def _gradients(results: Any) -> list[torch.Tensor]:
    given = results if isinstance(results, (list, tuple)) else [results]
    return [t for t in given if isinstance(t, torch.Tensor) and t.grad_fn is not None]


def test_opinfo__no_derivative_is_refused_while_enabled() -> None:
    """Where an op is refused, its forward is, whose line is known: autograd's C++ calls those of derivatives."""
    from torch.testing._internal.common_methods_invocations import op_db

    infos = [info for info in op_db if info.supports_autograd and torch.float32 in info.dtypes]
    infos = [info for info in infos if not info.name.startswith(("fft.", "sparse"))]
    samples = [list(islice(info.sample_inputs("cpu", torch.float32, requires_grad=True), 2)) for info in infos]
    refused, computed = [], set()
    with repdl.enabled():
        for info, sample in ((info, sample) for info, few in zip(infos, samples) for sample in few):
            try:
                outputs = _gradients(info.op(sample.input, *sample.args, **sample.kwargs))
            except (RepDLError, RuntimeError, TypeError, ValueError):
                continue
            try:
                if outputs:
                    torch.autograd.backward(outputs, [torch.ones_like(t) for t in outputs])
                    computed.add(info.name)
            except RepDLError as error:
                refused.append(f"{info.name}: {error}")
    assert not refused
    assert {"gather", "masked_scatter", "nn.functional.pad", "put", "unfold"} <= computed


DISTANCES = "triplet_margin_with_distance_loss"
"""Has a function of the caller's, which torch computes."""


def audited(name: str, most: int) -> tuple[int, set[str]]:
    """Of a function of `repdl.ops`: samples, and which ops of torch they reach that have other bits elsewhere."""
    seen, wrong = 0, set()
    for info in opinfo.entries(name):
        call = opinfo.ours(name, info)
        for sample in opinfo.samples(info, torch.float32, most):
            args, kwargs = (opinfo.mapped(opinfo.fresh, v) for v in ([sample.input, *sample.args], sample.kwargs))
            try:
                report = repdl.audit(call, *args, **kwargs)
            except (RepDLError, opinfo.Skipped):
                continue
            seen += 1
            wrong |= {f"{name}: {f.op}, {f.reason}" for f in report.findings if not f.reproducibility.ok}
    return seen, wrong


@pytest.mark.parametrize("most", [4, pytest.param(30, marks=pytest.mark.nightly)])
@pytest.mark.filterwarnings("ignore")
def test_opinfo__functions_and_their_derivatives_reach_no_arithmetic_of_torch(most: int) -> None:
    """Without `repdl.enable()`, which would compute it."""
    results = [audited(name, most) for name in ops.__all__ if name != DISTANCES]
    assert sum(seen for seen, _ in results) > 700
    assert set().union(*(wrong for _, wrong in results)) == set()
    assert [line.split(",")[0] for line in audited(DISTANCES, 30)[1]] == [f"{DISTANCES}: aten.norm.ScalarOpt_dim"]
