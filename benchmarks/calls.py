"""Time of small calls, where everything around the kernels counts, against torch's, in one process on one thread.

    python benchmarks/calls.py [--rounds 300]

The two sides take turns of 20 calls. Prints the least microseconds a call of each, and torch's time divided by
ours, of the least and of the medians: 1.0 is as fast, less is slower.
"""

from __future__ import annotations

import argparse
import copy
import statistics
import timeit
from collections.abc import Callable, Iterator
from typing import Any

import torch
from torch import nn

import repdl
import repdl.optim
from repdl import ops

F = torch.nn.functional
Work = Callable[[], object]


def pairs() -> Iterator[tuple[str, Work, Work]]:
    """Name, ours, torch's."""
    a, b, v, w = torch.randn(8, 8), torch.randn(8, 8), torch.randn(10_000), torch.randn(10_000)
    yield "mm 8x8", lambda: ops.mm(a, b), lambda: torch.mm(a, b)
    yield "add 10,000", lambda: ops.add(v, w), lambda: torch.add(v, w)
    yield "add of a number", lambda: ops.add(a, 2.5), lambda: torch.add(a, 2.5)
    yield "relu", lambda: ops.relu(a), lambda: torch.relu(a)
    yield "softmax 8x8", lambda: ops.softmax(a, 1), lambda: torch.softmax(a, 1)

    def both(function: Callable[..., torch.Tensor], *tensors: torch.Tensor) -> Work:
        needed = [t.clone().requires_grad_() for t in tensors]
        grad = torch.ones_like(function(*tensors))
        return lambda: torch.autograd.grad(function(*needed), needed, grad)

    yield "mm 8x8, with backward", both(ops.mm, a, b), both(torch.mm, a, b)
    yield "add 10,000, with backward", both(ops.add, v, w), both(torch.add, v, w)
    yield from mlp()


def mlp() -> Iterator[tuple[str, Work, Work]]:
    theirs = nn.Sequential(nn.Linear(784, 256), nn.ReLU(), nn.Linear(256, 256), nn.ReLU(), nn.Linear(256, 10))
    ours = repdl.from_torch_module(copy.deepcopy(theirs))
    image, label = torch.rand(1, 784), torch.tensor([3])

    def inference(model: nn.Module) -> Work:
        def run() -> None:
            with torch.inference_mode():
                model(image)

        return run

    def step(model: nn.Module, loss: Callable[..., torch.Tensor], optimizer: Any) -> Work:
        def run() -> None:
            optimizer.zero_grad()
            loss(model(image), label).backward()
            optimizer.step()

        return run

    yield "MLP, batch 1, inference", inference(ours), inference(theirs)
    for name in ("SGD", "Adam"):
        sides = (ours, ops.cross_entropy, repdl.optim), (theirs, F.cross_entropy, torch.optim)
        one, other = (step(m, loss, getattr(optim, name)(m.parameters(), lr=1e-6)) for m, loss, optim in sides)
        yield f"MLP, batch 1, step with {name}", one, other


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rounds", type=int, default=300, metavar="N")
    args = parser.parse_args()
    torch.set_num_threads(1)
    repdl.set_num_threads(1)
    torch.manual_seed(0)
    print(f"cpu backend: {dict(repdl.backends()['cpu'].details)}")
    calls = 20
    for name, *sides in pairs():
        times: list[list[float]] = [[], []]
        for _ in range(args.rounds):
            for side, taken in zip(sides, times):
                taken.append(timeit.timeit(side, number=calls) / calls * 1e6)
        least, middle = ([f(taken) for taken in times] for f in (min, statistics.median))
        print(f"{name:30} {least[0]:7.2f} {least[1]:7.2f}  {least[1] / least[0]:.2f} {middle[1] / middle[0]:.2f}")


if __name__ == "__main__":
    main()
