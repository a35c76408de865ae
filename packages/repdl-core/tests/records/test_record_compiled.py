"""Records of programs that call `torch.compile`, or whose settings change sums."""

from __future__ import annotations

import warnings
from contextlib import nullcontext
from pathlib import Path
from typing import Any

import pytest
import torch

import repdl
from repdl.records import diff, record
from repdl.records.file import read
from repdl.testing import assert_same_bits

pytestmark = pytest.mark.skipif(not hasattr(torch.library, "get_kernel"), reason="enable() needs torch 2.13")
LEVELS = ["module", "op"]


class Net(torch.nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.first, self.last = torch.nn.Linear(6, 8), torch.nn.Linear(8, 3)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.last(self.first(x).tanh())


class Counted:
    """A backend that counts the calls of its code."""

    def __init__(self) -> None:
        self.calls = 0

    def __call__(self, graph: torch.fx.GraphModule, inputs: Any) -> Any:
        def run(*args: Any) -> Any:
            self.calls += 1
            return graph(*args)

        return run


def train(model: torch.nn.Module, called: Any, steps: int = 3) -> None:
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    for i in range(steps):
        optimizer.zero_grad()
        called(torch.full((4, 6), 0.1 * (i + 1))).square().sum().backward()
        optimizer.step()


def model() -> Net:
    torch.manual_seed(0)
    return Net()


@pytest.mark.parametrize("part", ["model", "layer"])
def test_record__of_compiled_code_is_that_of_the_program(part: str, tmp_path: Path) -> None:
    """Module, line, inputs and outputs of each op, and the results, are those of the program that is not compiled."""
    plain, compiled = model(), model()
    with repdl.enabled():
        called = torch.compile(compiled, backend="repdl") if part == "model" else compiled
        if part == "layer":
            compiled.first = torch.compile(compiled.first, backend="repdl")  # type: ignore[assignment]
        with record(tmp_path / "plain.repdl"):
            train(plain, plain)
        with record(tmp_path / "compiled.repdl"):
            train(compiled, called)
    found = diff(tmp_path / "plain.repdl", tmp_path / "compiled.repdl")
    assert found.status == 0 and found.compared == len(found.a.entries) == len(found.b.entries) > 60
    named = {(entry.kind, entry.name, entry.module) for entry in found.b.entries}
    assert {("op", "repdl.linear.default", "first"), ("module", "Linear", "last")} <= named
    assert all(entry.line for entry in found.b.entries if entry.kind == "op" and entry.phase == "forward")
    for one, other in zip(plain.parameters(), compiled.parameters()):
        assert_same_bits(one, other)


@pytest.mark.parametrize("level", LEVELS)
@pytest.mark.parametrize("before", [False, True], ids=["new", "compiled before"])
def test_record__other_backends_run_uncompiled_with_a_warning(level: str, before: bool, tmp_path: Path) -> None:
    backend, net = Counted(), model()
    called = torch.compile(net, backend=backend)
    if before:
        train(net, called)
        assert backend.calls == 3
    with (
        pytest.warns(UserWarning, match='by the backend .* runs uncompiled.*level "step"'),
        record(tmp_path / "a.repdl", level=level),
    ):
        train(net, called)
    assert backend.calls == (3 if before else 0)
    assert {entry.module for entry in read(tmp_path / "a.repdl").entries} >= {"first", "last"}
    train(net, called)  # and compiled again
    assert backend.calls == (6 if before else 3)


def test_record__steps_of_compiled_code_are_its_own(tmp_path: Path) -> None:
    backend, net = Counted(), model()
    with warnings.catch_warnings(), record(tmp_path / "a.repdl", level="step"):
        warnings.simplefilter("error")
        train(net, torch.compile(net, backend=backend))
    assert backend.calls == 3
    assert [entry.kind for entry in read(tmp_path / "a.repdl").entries] == ["step"] * 3


def test_record__ends_before_what_was_enabled_in_it(tmp_path: Path) -> None:
    """Blocks of both end in any order: afterwards what is enabled still keeps other backends out."""
    backend, net = Counted(), model()
    try:
        with record(tmp_path / "a.repdl"):
            repdl.enable()
            train(net, torch.compile(net, backend="repdl"))
        with pytest.warns(UserWarning, match="repdl.enable: what torch.compile would compile"):
            train(net, torch.compile(net, backend=backend))
        assert backend.calls == 0
    finally:
        repdl.disable()
    train(net, torch.compile(net, backend=backend))
    assert backend.calls == 3
    assert any(entry.name == "repdl.linear.default" for entry in read(tmp_path / "a.repdl").entries)


def test_diff__a_number_of_threads_that_a_sum_depends_on(tmp_path: Path) -> None:
    """Torch adds a part a thread; RepDL does not, whatever the threads."""
    values = torch.linspace(-1, 2, 1_000_003).sin()
    before = torch.get_num_threads()
    sums: dict[str, list[torch.Tensor]] = {}
    try:
        for way in ("torch", "repdl"):
            for threads in (1, 2):
                torch.set_num_threads(threads)
                path = tmp_path / f"{way}{threads}.repdl"
                with repdl.enabled() if way == "repdl" else nullcontext(), record(path):
                    sums.setdefault(way, []).append(values.square().sum())
    finally:
        torch.set_num_threads(before)
    assert not torch.equal(*sums["torch"]), "the numbers do not show it"
    found = diff(tmp_path / "torch1.repdl", tmp_path / "torch2.repdl")
    first = found.findings[0]
    assert first.kind == "op" and first.a is not None and first.a.name == "aten.sum.default"
    assert found.environment["threads"] == (1, 2) and len(found.findings) == 1
    assert diff(tmp_path / "repdl1.repdl", tmp_path / "repdl2.repdl").status == 0


def test_diff__of_levels_compares_what_both_have(tmp_path: Path) -> None:
    nets = [model() for _ in range(3)]
    for net, level in zip(nets, ("op", "module", "step")):
        with record(tmp_path / f"{level}.repdl", level=level):
            train(net, net)
    for fine, coarse, count in (("op", "module", 12), ("op", "step", 3), ("module", "step", 3)):
        found = diff(tmp_path / f"{fine}.repdl", tmp_path / f"{coarse}.repdl")
        assert found.status == 0 and found.compared == count, (fine, coarse, found.compared)
        assert found.environment["level"] == (fine, coarse)
