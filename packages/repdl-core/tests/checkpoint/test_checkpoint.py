"""`repdl.checkpoint`: a run that stops and goes on has the digest of one that did not; errors change nothing."""

from __future__ import annotations

import random
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

import repdl
from repdl import checkpoint
from repdl.errors import CheckpointError
from repdl.testing import processes


def fresh(seed: int = 0) -> tuple[torch.nn.Module, torch.optim.Optimizer]:
    generator = torch.Generator().manual_seed(seed)
    model = torch.nn.Sequential(
        torch.nn.Linear(6, 5), torch.nn.BatchNorm1d(5), torch.nn.Dropout(0.5), torch.nn.Linear(5, 1)
    )
    for parameter in model.parameters():
        torch.nn.init.normal_(parameter, generator=generator)
    return model, torch.optim.AdamW(model.parameters(), lr=0.01)


def steps(model: torch.nn.Module, optimizer: torch.optim.Optimizer, count: int) -> None:
    """Each draws from every generator."""
    for _ in range(count):
        optimizer.zero_grad()
        x = torch.randn(4, 6) + repdl.random.randn(4, 6) + random.random() + np.random.rand()
        model(x).square().mean().backward()
        optimizer.step()


@pytest.fixture(autouse=True)
def seeded() -> None:
    random.seed(0)
    np.random.seed(0)
    torch.manual_seed(0)
    repdl.random.manual_seed(0)


def test_checkpoint__goes_on_as_if_it_had_never_stopped(tmp_path: Path) -> None:
    model, optimizer = fresh()
    steps(model, optimizer, 2)
    checkpoint.save(tmp_path / "two", model=model, optimizer=optimizer, extra={"step": 2})
    steps(model, optimizer, 3)
    whole = checkpoint.save(tmp_path / "five", model=model, optimizer=optimizer)

    model, optimizer = fresh(seed=1)
    torch.manual_seed(5)
    loaded = checkpoint.load(tmp_path / "two", model=model, optimizer=optimizer)
    assert loaded.extra == {"step": 2} and loaded.previous is None
    steps(model, optimizer, 3)
    assert checkpoint.save(tmp_path / "again", model=model, optimizer=optimizer) == whole


@pytest.mark.parametrize("left_out", ["optimizer", "generators"])
def test_checkpoint__without_a_state_it_goes_on_otherwise(left_out: str, tmp_path: Path) -> None:
    """The control: were these digests equal, the test above would show nothing."""
    model, optimizer = fresh()
    steps(model, optimizer, 2)
    checkpoint.save(tmp_path / "two", model=model, optimizer=optimizer)
    steps(model, optimizer, 3)
    whole = checkpoint.save(tmp_path / "five", model=model, optimizer=optimizer)

    model, optimizer = fresh(seed=1)
    torch.manual_seed(5)
    objects: dict[str, Any] = {"model": model} if left_out == "optimizer" else {"model": model, "optimizer": optimizer}
    checkpoint.load(tmp_path / "two", **objects, strict=False, generators=left_out != "generators")
    steps(model, optimizer, 3)
    assert checkpoint.save(tmp_path / "again", model=model, optimizer=optimizer) != whole


def snapshot(model: torch.nn.Module, optimizer: torch.optim.Optimizer) -> list[Any]:
    gradients = [None if p.grad is None else repdl.digest(p.grad) for p in model.parameters()]
    generators = torch.get_rng_state(), repdl.random.get_state()
    numbers = random.getstate(), str(np.random.get_state())
    return [repdl.digest(model), repdl.digest(optimizer), gradients, *map(repdl.digest, generators), *numbers]


def damage(data: bytes, how: str) -> bytes:
    changed = bytearray(data)
    where = {"first": 0, "header": 300, "middle": len(data) // 2, "last": len(data) - 1}
    if how in where:
        changed[where[how]] ^= 1
        return bytes(changed)
    return {"cut": data[:-1], "half": data[: len(data) // 2], "empty": b"", "longer": data + b"\0"}[how]


@pytest.mark.parametrize("how", ["first", "header", "middle", "last", "cut", "half", "empty", "longer"])
def test_checkpoint__a_damaged_file_is_refused_and_nothing_changes(how: str, tmp_path: Path) -> None:
    model, optimizer = fresh()
    steps(model, optimizer, 1)
    checkpoint.save(tmp_path / "c", model=model, optimizer=optimizer)
    steps(model, optimizer, 1)
    (tmp_path / "c").write_bytes(damage((tmp_path / "c").read_bytes(), how))
    before = snapshot(model, optimizer)
    with pytest.raises(CheckpointError, match="nothing was loaded"):
        checkpoint.load(tmp_path / "c", model=model, optimizer=optimizer)
    assert snapshot(model, optimizer) == before


def test_checkpoint__every_flipped_bit_is_noticed(tmp_path: Path) -> None:
    checkpoint.save(tmp_path / "c", extra={"x": torch.arange(3.0)})
    data = (tmp_path / "c").read_bytes()
    rng = random.Random(1)
    for _ in range(200):
        changed = bytearray(data)
        at = rng.randrange(len(data))
        changed[at] ^= 1 << rng.randrange(8)
        (tmp_path / "d").write_bytes(changed)
        with pytest.raises(CheckpointError):
            checkpoint.load(tmp_path / "d")
            pytest.fail(f"byte {at}")


def test_checkpoint__another_one_is_refused_by_its_digest(tmp_path: Path) -> None:
    first = checkpoint.save(tmp_path / "a", extra=1)
    second = checkpoint.save(tmp_path / "b", extra=2)
    (tmp_path / "b").replace(tmp_path / "a")
    with pytest.raises(CheckpointError, match=f"digest {second}, expected {first}"):
        checkpoint.load(tmp_path / "a", digest=first)


def test_checkpoint__what_does_not_fit_is_refused_and_nothing_changes(tmp_path: Path) -> None:
    model, optimizer = fresh()
    schedule = torch.optim.lr_scheduler.StepLR(optimizer, 1)
    steps(model, optimizer, 1)
    checkpoint.save(tmp_path / "c", model=model, optimizer=optimizer)
    steps(model, optimizer, 1)
    other, double = torch.nn.Linear(6, 1), fresh()[0].double()
    groups = torch.optim.AdamW([*model.parameters()][:2])
    before = snapshot(model, optimizer)
    for objects, message in (
        ({"model": model}, "nothing was passed for: optimizer, expected these arguments, or strict=False"),
        ({"model": model, "optimizer": optimizer, "scheduler": schedule}, "has no state of scheduler"),
        (
            {"model": {"a": model}, "optimizer": optimizer},
            "model is a mapping from names to objects, expected one object",
        ),
        ({"model": other, "optimizer": optimizer}, "does not have model/weight, which the model has (and"),
        ({"model": double, "optimizer": optimizer}, "model/0.weight is float32[5, 6] in"),
        ({"model": model, "optimizer": groups}, "optimizer has groups of [6] parameters"),
        ({"model": 3, "optimizer": optimizer}, "model is int, expected a torch.nn.Module"),
    ):
        with pytest.raises(CheckpointError) as raised:
            checkpoint.load(tmp_path / "c", **objects)
        assert message in str(raised.value), str(raised.value)
        assert snapshot(model, optimizer) == before
    with repdl.use_contract("sequential"), pytest.raises(CheckpointError, match="of the contract v1"):
        checkpoint.load(tmp_path / "c", model=model, optimizer=optimizer)
    with repdl.enabled(), pytest.raises(CheckpointError, match="saved without repdl.enable"):
        checkpoint.load(tmp_path / "c", model=model, optimizer=optimizer)
    assert snapshot(model, optimizer) == before
    loaded = checkpoint.load(tmp_path / "c", model=model, scheduler=schedule, strict=False)
    assert (loaded.missing, loaded.surplus) == (("scheduler",), ("optimizer",))


class Failing(torch.optim.lr_scheduler.StepLR):
    def load_state_dict(self, state_dict: dict[str, Any]) -> None:
        raise KeyError("no")


class Forgetful(torch.optim.lr_scheduler.StepLR):
    def load_state_dict(self, state_dict: dict[str, Any]) -> None:
        super().load_state_dict({**state_dict, "gamma": 0.5})


@pytest.mark.parametrize("kind", [Failing, Forgetful])
def test_checkpoint__an_error_half_way_takes_all_back(kind: Any, tmp_path: Path) -> None:
    model, optimizer = fresh()
    steps(model, optimizer, 1)
    schedule = kind(optimizer, 1)
    checkpoint.save(tmp_path / "c", model=model, optimizer=optimizer, scheduler=schedule)
    steps(model, optimizer, 1)
    if kind is Forgetful:
        schedule.gamma = 0.25
    before = snapshot(model, optimizer)
    message = "everything is as it was" if kind is Failing else "scheduler/gamma, and after loading there is 0.5"
    with pytest.raises(CheckpointError, match=message):
        checkpoint.load(tmp_path / "c", model=model, optimizer=optimizer, scheduler=schedule)
    assert snapshot(model, optimizer) == before


def test_checkpoint__importing_repdl_does_not_import_it() -> None:
    code = "import sys, repdl; assert 'repdl.checkpoint' not in sys.modules; repdl.checkpoint.save"
    assert processes.python("-c", code).returncode == 0
