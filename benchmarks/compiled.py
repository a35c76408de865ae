"""Time of a training step under `repdl.enable()`, its model compiled by `torch.compile(backend="repdl")` and not.

In one process, on one thread:

    python benchmarks/compiled.py [--rounds 60]

The two sides take turns. Prints the medians in milliseconds, their ratio (less than 1: compiled is faster), and the
seconds of the first compiled step.
"""

from __future__ import annotations

import argparse
import statistics
import time
import warnings
from collections.abc import Callable

import torch
from torch import nn

import repdl

Made = tuple[nn.Module, torch.Tensor]


class Words(nn.Module):
    """Texts of seven words, read by a layer."""

    def __init__(self, reader: nn.Module) -> None:
        super().__init__()
        self.table, self.reader, self.head = nn.Embedding(30, 16), reader, nn.Linear(16, 10)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        read = self.reader(self.table(x))
        found: torch.Tensor = self.head((read[0] if isinstance(read, tuple) else read).mean(1))
        return found


def lenet() -> Made:
    first = nn.Conv2d(1, 6, 5), nn.BatchNorm2d(6), nn.ReLU(), nn.MaxPool2d(2)
    second = nn.Conv2d(6, 16, 5), nn.BatchNorm2d(16), nn.ReLU(), nn.MaxPool2d(2)
    return nn.Sequential(*first, *second, nn.Flatten(), nn.Linear(256, 10)), torch.randn(32, 1, 28, 28)


def mlp() -> Made:
    return nn.Sequential(nn.Linear(20, 32), nn.ReLU(), nn.Dropout(0.1), nn.Linear(32, 10)), torch.randn(32, 20)


def encoder() -> Made:
    layer = nn.TransformerEncoderLayer(16, 4, 32, dropout=0.1, batch_first=True)
    return Words(nn.TransformerEncoder(layer, 2, enable_nested_tensor=False)), torch.randint(30, (32, 7))


def lstm() -> Made:
    return Words(nn.LSTM(16, 16, batch_first=True)), torch.randint(30, (32, 7))


def steps(made: Callable[[], Made], compiled: bool) -> Callable[[], object]:
    torch.manual_seed(0)
    model, x = made()
    y = torch.arange(len(x)) % 10
    rule = torch.optim.AdamW(model.parameters())
    forward = torch.compile(model, backend="repdl", fullgraph=True) if compiled else model

    def step() -> None:
        rule.zero_grad()
        nn.functional.cross_entropy(forward(x), y, label_smoothing=0.1).backward()  # type: ignore[no-untyped-call]
        rule.step()

    return step


def seconds(step: Callable[[], object]) -> float:
    start = time.perf_counter()
    step()
    return time.perf_counter() - start


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rounds", type=int, default=60)
    rounds = parser.parse_args().rounds
    torch.set_num_threads(1)
    repdl.enable()
    print("| model | uncompiled | compiled | ratio | first |\n| --- | --- | --- | --- | --- |")
    for made in (lenet, mlp, encoder, lstm):
        plain, compiled = steps(made, False), steps(made, True)
        first = seconds(compiled)
        turns = [(seconds(plain), seconds(compiled)) for _ in range(10 + rounds)][10:]
        a, b = (statistics.median(side) * 1e3 for side in zip(*turns))
        print(f"| {made.__name__} | {a:.2f} | {b:.2f} | {b / a:.2f} | {first:.1f} |", flush=True)


if __name__ == "__main__":
    warnings.filterwarnings("ignore", message="Profiler record function")
    main()
