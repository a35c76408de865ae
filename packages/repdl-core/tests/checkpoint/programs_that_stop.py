"""Two programs that save at every step, for `test_checkpoint_protocol.py`, which runs them in processes of their own.

    python programs_that_stop.py NAME run FOLDER
    python programs_that_stop.py NAME resume FOLDER INTO STEP:LEFT_OUT ...

`resume` goes on from a step of FOLDER to the end, and saves into `INTO/STEP_LEFT_OUT`, at first what was loaded. What
is left out is a kind of object that is not loaded: a control, whose digest has to differ.
"""

from __future__ import annotations

import random
import sys
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import nn
from torch.nn import functional as F
from torch.utils.data import DataLoader, Dataset

import repdl
from repdl import checkpoint
from repdl.checkpoint import Batches

LAST = 13
"""Batches that are trained on: two epochs of 5, and 3."""


@dataclass
class Program:
    """What is saved, and a step."""

    step: Callable[[int, Any], None]
    objects: dict[str, Any] = field(default_factory=dict)

    def run(self, folder: Path, step: int = 0) -> str:
        """Train to the last batch; returns the digest of the end."""
        digest, batches = "", self.objects["sampler"]
        while step < LAST:
            for batch in batches:
                step += 1
                self.step(step, batch)
                digest = checkpoint.save(folder / f"step-{step}", **self.objects, extra={"step": step})
                if step == LAST:
                    break
        return digest


class Moved(Dataset[Any]):
    """Images that are moved and brightened by numbers of the process that loads them."""

    def __init__(self) -> None:
        generator = repdl.random.Generator(1)
        self.images = repdl.random.rand(20, 1, 14, 14, generator=generator)
        self.labels = repdl.random.randint(4, (20,), generator=generator)

    def __len__(self) -> int:
        return 20

    def __getitem__(self, index: int) -> Any:
        down, right = torch.randint(3, (2,)).tolist()
        bright = 1 + random.random() / 8 + float(np.random.rand()) / 8 + repdl.random.rand(1).item() / 8
        return self.images[index, :, down : down + 12, right : right + 12] * bright, self.labels[index]


def lenet() -> Program:
    """A LeNet with dropout and batch normalisation, SGD with momentum, steps of the rate, two worker processes."""
    model = nn.Sequential(
        *(nn.Conv2d(1, 4, 3), nn.BatchNorm2d(4), nn.ReLU(), nn.MaxPool2d(2), nn.Conv2d(4, 6, 3), nn.ReLU()),
        *(nn.MaxPool2d(2), nn.Flatten(), nn.Dropout(0.25), nn.Linear(6, 4)),
    )
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1, momentum=0.9)
    schedule = torch.optim.lr_scheduler.StepLR(optimizer, 2, gamma=0.8)
    data = Moved()
    order = repdl.random.sampler(data, seed=3)
    loader = DataLoader(data, 4, sampler=order, num_workers=2, worker_init_fn=repdl.random.worker_init_fn)

    def step(number: int, batch: Any) -> None:
        optimizer.zero_grad()
        F.cross_entropy(model(batch[0]), batch[1]).backward()
        optimizer.step()
        schedule.step()

    return Program(step, {"model": model, "optimizer": optimizer, "scheduler": schedule, "sampler": Batches(loader)})


class Decoder(nn.Module):
    """A block of a transformer whose tokens see those before them; the table of places is a buffer that is not saved by
    torch."""

    def __init__(self) -> None:
        super().__init__()
        self.tokens, self.norm = nn.Embedding(11, 8), nn.LayerNorm(8)
        self.project, self.inner, self.outer = nn.Linear(8, 24), nn.Linear(8, 16), nn.Linear(16, 8)
        self.register_buffer("places", torch.randn(9, 8), persistent=False)

    def forward(self, tokens: torch.Tensor) -> torch.Tensor:
        x = self.tokens(tokens) + self.places[: tokens.shape[1]]
        query, key, value = self.project(self.norm(x)).unflatten(-1, (3, 2, 4)).movedim(-3, 0).transpose(2, 3)
        seen = F.scaled_dot_product_attention(query, key, value, dropout_p=0.1, is_causal=True)
        x = x + F.dropout(seen.transpose(1, 2).flatten(2), 0.1)
        return (x + self.outer(F.gelu(self.inner(x)))) @ self.tokens.weight.t()


def decoder() -> Program:
    """AdamW, a cosine, clipping, gradients of two batches a step, a scaler, and an average of the parameters."""
    model = Decoder()
    average = torch.optim.swa_utils.AveragedModel(model, multi_avg_fn=torch.optim.swa_utils.get_ema_multi_avg_fn(0.9))
    optimizer = torch.optim.AdamW(model.parameters(), lr=0.02)
    schedule = torch.optim.lr_scheduler.CosineAnnealingLR(optimizer, 8)
    scaler = torch.amp.GradScaler("cpu", init_scale=4.0, growth_interval=2)
    data = repdl.random.randint(11, (20, 9), generator=repdl.random.Generator(2))
    loader: Any = DataLoader(data, 4, shuffle=True, generator=torch.Generator().manual_seed(4))

    def step(number: int, batch: torch.Tensor) -> None:
        logits = model(batch[:, :-1])
        scaler.scale(F.cross_entropy(logits.flatten(0, 1), batch[:, 1:].flatten()) / 2).backward()
        if number % 2 == 0:
            scaler.unscale_(optimizer)
            nn.utils.clip_grad_norm_(model.parameters(), 0.5)
            scaler.step(optimizer)
            scaler.update()
            optimizer.zero_grad()
            schedule.step()
            average.update_parameters(model)

    models = {"model": model, "average": average}
    objects = {"optimizer": optimizer, "scheduler": schedule, "scaler": scaler, "sampler": Batches(loader)}
    return Program(step, {"model": models, **objects})


PROGRAMS = {"lenet": lenet, "decoder": decoder}


def resume(program: Program, path: Path, left_out: str) -> int:
    """Load a checkpoint, without one of its states; returns the step."""
    passed = {kind: value for kind, value in program.objects.items() if kind != left_out}
    state = checkpoint.load(path, **passed, strict=not left_out, generators=left_out != "generators")
    if left_out == "gradients":
        for model in program.objects["model"].values():
            model.zero_grad()
    return int(state.extra["step"])


def main() -> None:
    name, action, folder, *rest = sys.argv[1:]
    repdl.enable()
    repdl.random.seed_everything(0)
    if action == "run":
        print(PROGRAMS[name]().run(Path(folder)))
        return
    into, *wanted = rest
    for each in wanted:
        step, _, left_out = each.partition(":")
        repdl.random.seed_everything(99)
        program = PROGRAMS[name]()
        begun = resume(program, Path(folder) / f"step-{step}", left_out)
        target = Path(into) / f"{step}_{left_out}"
        target.mkdir(parents=True)
        digest = checkpoint.save(target / f"step-{begun}", **program.objects, extra={"step": begun})
        print(each, program.run(target, begun) or digest)


if __name__ == "__main__":
    main()
