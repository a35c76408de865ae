"""A small training run that is recorded, and ways in which another run differs from it."""

from __future__ import annotations

from contextlib import nullcontext
from pathlib import Path
from typing import Any

import numpy as np
import torch

from repdl.overrides.switch import is_enabled
from repdl.records import record

STEPS = 6
LAST_OF_SUM = torch.library.Library("records_tests", "DEF")
LAST_OF_SUM.define("total(Tensor x) -> Tensor")
REVERSED = False
"""Whether `total` adds from the end."""


def _total(x: torch.Tensor) -> torch.Tensor:
    values = x.flatten().tolist()
    total = np.float32(0)
    for value in reversed(values) if REVERSED else values:
        total += np.float32(value)
    return torch.tensor(total)


LAST_OF_SUM.impl("total", _total, "CPU")


class Net(torch.nn.Module):
    def __init__(self, eps: float) -> None:
        super().__init__()
        self.first = torch.nn.Linear(6, 8)
        self.norm = torch.nn.LayerNorm(8, eps)
        self.drop = torch.nn.Dropout(0.25)
        self.last = torch.nn.Linear(8, 3)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.last(self.drop(self.norm(self.first(x))))


def train(change: str = "", at: int = 3) -> torch.nn.Module:
    """The model after some steps; `change` says what is otherwise in step `at`, or from the beginning."""
    global REVERSED
    torch.manual_seed(0)
    model = Net(1e-6 if change == "eps" else 1e-5)
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-2)
    data = torch.utils.data.TensorDataset(torch.randn(STEPS * 4, 6), torch.arange(STEPS * 4) % 3)
    order = [*range(STEPS * 4)]
    if change == "data":
        order[4 * at], order[4 * at + 1] = order[4 * at + 1], order[4 * at]
    torch.empty(100).fill_(7.0)  # what torch.empty returns after it
    for i, (x, y) in enumerate(torch.utils.data.DataLoader(data, batch_size=4, sampler=order)):
        now = i == at
        optimizer.zero_grad()
        if now and change == "numpy":
            model.last.weight.detach().numpy()[1, 2] += 1
        if now and change == "draw":
            torch.nn.functional.dropout(x, 0.5)
        output = model(x)
        REVERSED = now and change == "order"
        total = output.detach().sum() if is_enabled() else torch.ops.records_tests.total(model.first.weight.detach())
        loss = torch.nn.functional.cross_entropy(output, y) * (1 + total.abs())
        loss.backward()
        if now and change == "rate":
            optimizer.param_groups[0]["lr"] *= 0.5
        optimizer.step()
    return model


def recorded(path: Path, change: str = "", inside: Any = None, **options: Any) -> torch.nn.Module:
    """`train` with a record, in another context too."""
    with inside or nullcontext(), record(path, **options):
        return train(change)
