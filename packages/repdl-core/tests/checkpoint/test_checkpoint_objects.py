"""States of every optimizer and schedule of torch, of scalers, averages, buffers and gradients go through a file."""

from __future__ import annotations

import copy
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from torch import nn
from torch.optim import lr_scheduler

import repdl
from repdl import checkpoint
from repdl.checkpoint import diff
from repdl.checkpoint.state import Encoded, Run, collect
from repdl.errors import CheckpointError

OPTIMIZERS: dict[str, Callable[[Any], Any]] = {
    name: kind
    for name, kind in vars(torch.optim).items()
    if isinstance(kind, type) and issubclass(kind, torch.optim.Optimizer) and kind is not torch.optim.Optimizer
}
OPTIMIZERS |= {
    "SGD, momentum": lambda p: torch.optim.SGD(p, 0.1, momentum=0.9),
    "SGD, rate as a tensor": lambda p: torch.optim.SGD(p, torch.tensor(0.1)),
    "Adam, amsgrad": lambda p: torch.optim.Adam(p, amsgrad=True),
    "AdamW, fused": lambda p: torch.optim.AdamW(p, fused=True),
    "RMSprop, all": lambda p: torch.optim.RMSprop(p, momentum=0.9, centered=True),
    "LBFGS, of three": lambda p: torch.optim.LBFGS(p, lr=0.1, max_iter=3, history_size=3),
}
OPTIMIZERS |= {
    f"repdl {name}": getattr(repdl.optim, name)
    for name in repdl.optim.__all__
    if isinstance(getattr(repdl.optim, name), type) and issubclass(getattr(repdl.optim, name), torch.optim.Optimizer)
}
SCHEDULES: dict[str, Callable[[Any], Any]] = {
    "lambda": lambda o: lr_scheduler.LambdaLR(o, lambda n: 1 / (n + 1)),
    "multiplicative": lambda o: lr_scheduler.MultiplicativeLR(o, lambda n: 0.9),
    "step": lambda o: lr_scheduler.StepLR(o, 2),
    "multi step": lambda o: lr_scheduler.MultiStepLR(o, [1, 3, 3]),
    "constant": lambda o: lr_scheduler.ConstantLR(o),
    "linear": lambda o: lr_scheduler.LinearLR(o),
    "exponential": lambda o: lr_scheduler.ExponentialLR(o, 0.9),
    "polynomial": lambda o: lr_scheduler.PolynomialLR(o),
    "cosine": lambda o: lr_scheduler.CosineAnnealingLR(o, 5),
    "restarts": lambda o: lr_scheduler.CosineAnnealingWarmRestarts(o, 2),
    "cyclic": lambda o: lr_scheduler.CyclicLR(o, 0.01, 0.1, 2),
    "one cycle": lambda o: lr_scheduler.OneCycleLR(o, 0.1, 20),
    "plateau": lambda o: lr_scheduler.ReduceLROnPlateau(o, patience=0),
    "swa": lambda o: torch.optim.swa_utils.SWALR(o, 0.05, 3),
    "in sequence": lambda o: lr_scheduler.SequentialLR(
        o, [lr_scheduler.LinearLR(o), lr_scheduler.CosineAnnealingLR(o, 5)], milestones=[2]
    ),
    "chained": lambda o: lr_scheduler.ChainedScheduler([lr_scheduler.LinearLR(o), lr_scheduler.ExponentialLR(o, 0.9)]),
}


def made(optimizer: Callable[[Any], Any], schedule: Callable[[Any], Any] = SCHEDULES["step"]) -> dict[str, Any]:
    generator = torch.Generator().manual_seed(0)
    is_sparse = getattr(optimizer, "__name__", "") == "SparseAdam"
    model = nn.Sequential(nn.Embedding(5, 4, sparse=is_sparse))
    nn.init.normal_(model[0].weight, generator=generator)
    if not is_sparse:
        model.append(nn.Linear(4, 3, bias=False))
        nn.init.normal_(model[1].weight, generator=generator)
    chosen = optimizer(model.parameters())
    return {"model": model, "optimizer": chosen, "scheduler": schedule(chosen)}


def steps(run: dict[str, Any], count: int) -> None:
    def loss() -> torch.Tensor:
        run["optimizer"].zero_grad()
        found = run["model"](torch.tensor([1, 3, 1])).square().mean()
        found.backward()
        return found

    for _ in range(count):
        value = run["optimizer"].step(loss)
        plateau = isinstance(run["scheduler"], lr_scheduler.ReduceLROnPlateau)
        run["scheduler"].step(*((value,) if plateau else ()))


@pytest.mark.parametrize("names", [(o, "step") for o in OPTIMIZERS] + [("SGD", s) for s in SCHEDULES], ids=", ".join)
def test_objects__optimizers_and_schedules(names: tuple[str, str], tmp_path: Path) -> None:
    make = OPTIMIZERS[names[0]], SCHEDULES[names[1]]
    run = made(*make)
    steps(run, 3)
    checkpoint.save(tmp_path / "three", **run)
    steps(run, 3)
    checkpoint.save(tmp_path / "six", **run)
    run = made(*make)
    checkpoint.load(tmp_path / "three", **run)
    steps(run, 3)
    checkpoint.save(tmp_path / "again", **run)
    assert diff(tmp_path / "six", tmp_path / "again") == []


def test_objects__states_in_another_dtype_than_the_parameter(tmp_path: Path) -> None:
    """torch's load_state_dict would convert them: moments in float32 of a bfloat16 parameter lose bits."""
    model = nn.Linear(2, 2, dtype=torch.bfloat16)
    optimizer = torch.optim.SGD(model.parameters(), momentum=0.9)
    for parameter in model.parameters():
        optimizer.state[parameter]["momentum_buffer"] = torch.full_like(parameter, 1.0, dtype=torch.float32) / 3
    checkpoint.save(tmp_path / "c", model=model, optimizer=optimizer)
    other = torch.optim.SGD(model.parameters())
    checkpoint.load(tmp_path / "c", model=model, optimizer=other)
    kept = [other.state[parameter]["momentum_buffer"] for parameter in model.parameters()]
    assert {t.dtype for t in kept} == {torch.float32} and kept[0][0, 0] == torch.tensor(1.0) / 3


class Layer(nn.Module):
    """With what a state dict does not have, and what it has beside tensors."""

    def __init__(self) -> None:
        super().__init__()
        self.register_buffer("cache", torch.zeros(2), persistent=False)
        self.weight, self.calls = nn.Parameter(torch.zeros(3)), 0

    def get_extra_state(self) -> Any:
        return {"calls": self.calls}

    def set_extra_state(self, state: Any) -> None:
        self.calls = state["calls"]


def test_objects__what_a_state_dict_leaves_out(tmp_path: Path) -> None:
    model = nn.Sequential(Layer(), nn.Linear(1, 1))
    model[0].cache, model[0].calls = torch.arange(5.0), 7
    model[1].weight.grad = torch.full((1, 1), -0.0)
    checkpoint.save(tmp_path / "c", model=model)
    checkpoint.save(tmp_path / "d", model=model, gradients=False)
    other = nn.Sequential(Layer(), nn.Linear(1, 1))
    other[0].weight.grad = torch.ones(3)
    checkpoint.load(tmp_path / "c", model=other)
    assert other[0].calls == 7 and other[0].cache.tolist() == [0, 1, 2, 3, 4]
    assert other[0].weight.grad is None and str(other[1].weight.grad.item()) == "-0.0"
    checkpoint.load(tmp_path / "d", model=other)
    assert other[1].weight.grad is None


def test_objects__a_load_writes_into_the_memory_that_is_there(tmp_path: Path) -> None:
    """Whoever has a view of a parameter or of a buffer sees what was loaded."""
    model = Layer()
    model.register_buffer("kept", torch.zeros(4))

    def tensors() -> dict[str, torch.Tensor]:
        return {"weight": model.weight.data, "kept": model.kept, "cache": model.cache}

    wanted = {name: torch.full_like(tensor, 3.0) for name, tensor in tensors().items()}
    before = {name: tensor.clone() for name, tensor in tensors().items()}
    for name, tensor in tensors().items():
        tensor.copy_(wanted[name])
    checkpoint.save(tmp_path / "c", model=model)
    for name, tensor in tensors().items():
        tensor.copy_(before[name])
    views = {name: tensor[:2] for name, tensor in tensors().items()}
    checkpoint.load(tmp_path / "c", model=model)
    for name, tensor in tensors().items():
        assert torch.equal(tensor, wanted[name]) and torch.equal(views[name], wanted[name][:2]), name


LAYOUTS: dict[str, Callable[[], torch.Tensor]] = {
    "contiguous": lambda: torch.arange(24.0).view(2, 3, 4),
    "transposed": lambda: torch.arange(24.0).view(4, 3, 2).permute(2, 1, 0),
    "strided": lambda: torch.arange(48.0).view(2, 3, 8)[..., ::2],
    "shifted": lambda: torch.arange(25.0)[1:].view(2, 3, 4),
}


@pytest.mark.parametrize("layout", LAYOUTS)
def test_objects__a_snapshot_is_no_view(layout: str) -> None:
    """What changes after `async_save` has returned, or while a load fails, is not in it."""
    model = nn.Module()
    model.weight = nn.Parameter(LAYOUTS[layout]())
    wanted = model.weight.detach().clone()
    encoded = Encoded.of(collect(Run.of(model=model))).copied()
    with torch.no_grad():
        model.weight.fill_(7.0)
    (kept,) = (tensor for tensor in encoded.tensors.values() if tensor.shape == wanted.shape)
    assert torch.equal(kept, wanted)


def test_objects__mappings_scalers_averages_and_generators(tmp_path: Path) -> None:
    model = nn.Linear(2, 2)
    average = torch.optim.swa_utils.AveragedModel(model)
    average.update_parameters(model)
    scaler = torch.amp.GradScaler("cpu", init_scale=8.0)
    scaler.scale(torch.ones(1))
    optimizers = {n: torch.optim.Adam([p]) for n, p in model.named_parameters()}
    generators = {"torch": torch.Generator(), "repdl": repdl.random.Generator(3), "numpy": np.random.default_rng(4)}
    run = {"model": {"model": model, "average": average}, "optimizer": optimizers, "scaler": scaler}
    state = run | {"generator": generators}
    checkpoint.save(tmp_path / "c", **state)
    wanted = [torch.rand(2, generator=generators["torch"]), generators["repdl"].offset, generators["numpy"].random()]
    before = copy.deepcopy(average.state_dict())
    with torch.no_grad():
        average.module.weight.zero_()
    scaler.update(2.0)
    checkpoint.load(tmp_path / "c", **state)
    found = [torch.rand(2, generator=generators["torch"]), generators["repdl"].offset, generators["numpy"].random()]
    assert repdl.digest(wanted) == repdl.digest(found) and scaler.get_scale() == 8.0
    assert repdl.digest(average.state_dict()) == repdl.digest(before)
    with pytest.raises(CheckpointError, match=r"nothing was passed for: optimizer\['bias'\]"):
        checkpoint.load(tmp_path / "c", **(state | {"optimizer": {"weight": optimizers["weight"]}}))
    with pytest.raises(CheckpointError, match="generator is int, expected a generator of torch"):
        checkpoint.save(tmp_path / "d", generator=3)
    with pytest.raises(CheckpointError, match=r"sampler is DataLoader, expected repdl.checkpoint.Batches"):
        checkpoint.save(tmp_path / "d", sampler=torch.utils.data.DataLoader([1]))
