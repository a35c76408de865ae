"""Time of training steps and of inference of whole models against plain torch, in one process.

    python benchmarks/whole_models.py [--threads 2] [--rounds 15] [--only resnet18,gpt,lstm] [--device cuda]

ResNet-18 on 16 images of 64x64, a decoder like GPT-2 (4 layers, width 256, 8 texts of 128 tokens) and a language
model of two layers of LSTM (width 256, 16 texts of 32 tokens): those of examples/models.py. A step is the forward
pass, cross entropy, the backward pass and Adam; inference is the forward pass of the first image or text. Each side
has its own modules, functions and optimizer; they take turns. Prints milliseconds and the median of the rounds'
ratios, ours to torch's: 1.0 is as fast, more is slower.
"""

from __future__ import annotations

import copy
import sys
from collections.abc import Callable
from pathlib import Path

import torch
from torch import nn
from turns import arguments, compare

import repdl

sys.path.insert(0, str(Path(__file__).parents[1] / "examples"))
import models as examples

Batch = tuple[torch.Tensor, torch.Tensor]
TOKENS = 1000


def _images() -> Batch:
    return torch.randn(16, 3, 64, 64), torch.randint(10, (16,))


def _texts(batch: int, length: int) -> Batch:
    tokens = torch.randint(TOKENS, (batch, length + 1))
    return tokens[:, :-1].contiguous(), tokens[:, 1:].flatten()


MODELS: dict[str, tuple[Callable[[], nn.Module], Callable[[], Batch]]] = {
    "resnet18": (lambda: examples.resnet18(64), _images),
    "gpt": (lambda: examples.GPT(TOKENS, 128, 256, 4, 4), lambda: _texts(8, 128)),
    "lstm": (lambda: examples.Recurrent(TOKENS, 256), lambda: _texts(16, 32)),
}
FUNCTIONS = {"torch": (torch.nn.functional, torch), "repdl": (repdl.nn.functional, repdl.ops)}
"""What `F` and `ops` are in the models' forward."""
ADAM = {"torch": torch.optim.Adam, "repdl": repdl.optim.Adam}


def step(side: str, model: nn.Module, batch: Batch) -> Callable[[], None]:
    """A training step."""
    optimizer = ADAM[side](model.parameters(), lr=0.001)
    cross_entropy = FUNCTIONS[side][0].cross_entropy

    def call() -> None:
        loss = cross_entropy(model(batch[0]), batch[1])
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()

    return call


def inference(side: str, model: nn.Module, batch: Batch) -> Callable[[], None]:
    """A forward pass of one image or text."""
    model, first = copy.deepcopy(model).eval(), batch[0][:1]

    def call() -> None:
        with torch.inference_mode():
            model(first)

    return call


def use(side: str) -> None:
    examples.F, examples.ops = FUNCTIONS[side]  # type: ignore[attr-defined]


def main() -> None:
    args = arguments(__doc__, MODELS)
    for name in args.only.split(","):
        make, draw = MODELS[name]
        plain, (inputs, targets) = make().to(args.device), draw()
        batch = inputs.to(args.device), targets.to(args.device)
        sides = {"torch": plain, "repdl": repdl.from_torch_module(plain)}
        for work in step, inference:
            calls = {side: work(side, model, batch) for side, model in sides.items()}
            compare(f"{name}, {work.__name__}", calls, args, before=use)


if __name__ == "__main__":
    main()
